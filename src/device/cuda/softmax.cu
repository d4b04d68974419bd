/* Launching softmax attention on Hopper: which kernel, its tensor maps, its grid. */
#include "device/cuda/gpu.cuh"
#include "device/cuda/softmax_forward.cuh"
#include "device/cuda/tensor_map.cuh"

#include <algorithm>

const char *cuda_softmax_refusal(const cuda_gpu *gpu, const cuda_softmax *c) {
  if (gpu->capability != 90) return "needs a GPU of compute capability 9.0";
  if (c->dtype == ATTEND_F32) return "multiplies bf16 and f16 alone";
  if (c->q.width > 128 || c->v.width > 128) return "takes widths up to 128";
  if (!fits_tma(c->q) || !fits_tma(c->k) || !fits_tma(c->v) || !fits_tma(c->o))
    return "needs rows that begin at multiples of 16 bytes";
  return NULL;
}

/* Few queries over many keys: chains of keys are computed by different CTAs. */
static int splits_of(const cuda_gpu *gpu, const cuda_softmax *c) {
  const int group = c->heads / c->kv_heads, chains = (c->kv_len + KEYS * JOIN - 1) / (KEYS * JOIN);
  const bool fits = (int64_t)group * c->q_len <= 64 && group <= 64 && chains > 0;
  const int64_t tiles = (int64_t)c->batch * c->heads * ((c->q_len + 127) / 128);
  if (!fits) return 0;
  return group > 1 || tiles < gpu->processors || c->q_len <= 16 ? chains : 0;
}

static int64_t part_rows(const cuda_softmax *c, int splits) {
  return (int64_t)c->batch * c->heads * c->q_len * splits;
}
static int padded(const cuda_softmax *c) {
  return std::max(c->q.width, c->v.width) > 64 ? 128 : 64;
}

size_t cuda_softmax_bytes(const cuda_gpu *gpu, const cuda_softmax *c) {
  return (size_t)part_rows(c, splits_of(gpu, c)) * (sizeof(float) * padded(c) + sizeof(float2));
}

template <typename T, int D, int WGS, int STAGES, bool SPLIT>
static void launch(cuda_gpu *gpu, const forward_call &c) {
  using L = forward_layout<T, D, WGS, STAGES>;
  auto kernel = softmax_forward<T, D, WGS, STAGES, SPLIT>;
  gpu_check(gpu,
            cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, L::bytes),
            "softmax_forward");
  LAUNCH(gpu, kernel, std::min(gpu->processors, c.items), 128 * (WGS + 1), L::bytes, c);
}

/* The keys and values of a chunk of heads stay in L2. */
enum { CHUNK_BYTES = 32 << 20 };

template <typename T, int D, int WGS, int STAGES>
static void forward_tiles(cuda_gpu *gpu, const cuda_softmax *p, forward_call &c) {
  constexpr int rows = forward_layout<T, D, WGS, STAGES>::rows;
  const double head_bytes = 4.0 * p->kv_len * D / c.group;
  c.q = map_of(gpu, p->dtype, p->q, p->batch, p->heads, p->q_len, rows, 1);
  c.o = map_of(gpu, p->dtype, p->o, p->batch, p->heads, p->q_len, 64, 1);
  c.tiles = (p->q_len + rows - 1) / rows;
  c.items = c.tiles * p->batch * p->heads;
  c.chunk =
      p->causal
          ? std::max(1, (int)std::min(CHUNK_BYTES / (head_bytes + 1), (double)p->batch * p->heads))
          : 1;
  launch<T, D, WGS, STAGES, false>(gpu, c);
}

template <typename T, int D, int STAGES>
static void forward_chains(cuda_gpu *gpu, const cuda_softmax *p, forward_call &c) {
  const int64_t rows = part_rows(p, c.splits);
  c.q = map_of(gpu, p->dtype, p->q, p->batch, p->heads, p->q_len, p->q_len, c.group);
  c.items = c.splits * p->batch * p->kv_heads;
  c.part_o = (float *)p->work;
  c.part = (float2 *)(c.part_o + rows * D);
  c.width = p->o.width;
  c.out = p->o.data;
  c.out_batch = p->o.stride[0], c.out_head = p->o.stride[1], c.out_row = p->o.stride[2];
  launch<T, D, 1, STAGES, true>(gpu, c);
  const unsigned warps = (unsigned)(p->batch * p->heads * p->q_len);
  LAUNCH(gpu, (softmax_join<T, D>), (warps + 3) / 4, 128, 0, c);
}

template <typename T, int D, int WGS, int SPLIT_STAGES>
static void forward(cuda_gpu *gpu, const cuda_softmax *p, forward_call &c) {
  c.k = map_of(gpu, p->dtype, p->k, p->batch, p->kv_heads, p->kv_len, KEYS, 1);
  c.v = map_of(gpu, p->dtype, p->v, p->batch, p->kv_heads, p->kv_len, KEYS, 1);
  if (c.splits)
    forward_chains<T, D, SPLIT_STAGES>(gpu, p, c);
  else
    forward_tiles<T, D, WGS, 2>(gpu, p, c);
}

void cuda_softmax_forward(cuda_gpu *gpu, const cuda_softmax *p) {
  forward_call c = {};
  if (!p->batch || !p->heads || !p->q_len) return;
  c.lse = p->lse;
  c.batch = p->batch, c.heads = p->heads, c.group = p->heads / p->kv_heads;
  c.q_len = p->q_len, c.kv_len = p->kv_len;
  c.scale_to2 = (float)(p->scale * 1.44269504088896340736);
  c.causal = p->causal, c.offset = p->offset;
  c.splits = splits_of(gpu, p);
  const bool wide = padded(p) == 128;
  if (p->dtype == ATTEND_BF16 && wide) forward<__nv_bfloat16, 128, 2, 3>(gpu, p, c);
  if (p->dtype == ATTEND_BF16 && !wide) forward<__nv_bfloat16, 64, 3, 6>(gpu, p, c);
  if (p->dtype == ATTEND_F16 && wide) forward<__half, 128, 2, 3>(gpu, p, c);
  if (p->dtype == ATTEND_F16 && !wide) forward<__half, 64, 3, 6>(gpu, p, c);
}
