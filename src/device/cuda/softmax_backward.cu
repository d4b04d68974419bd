/* Launching the backward pass of softmax attention on Hopper. */
#include "device/cuda/softmax_backward.cuh"
#include "device/cuda/tensor_map.cuh"

#include <algorithm>

static int width_of(const cuda_softmax *c) {
  return std::max(c->q.width, c->v.width) > 64 ? 128 : 64;
}
static int rows_of(const cuda_softmax *c) {
  return width_of(c) == 64 ? backward_layout<64>::rows : backward_layout<128>::rows;
}
static int64_t tiles_of(const cuda_softmax *c) { return (c->q_len + rows_of(c) - 1) / rows_of(c); }

const char *cuda_softmax_backward_refusal(const cuda_gpu *gpu, const cuda_softmax *c) {
  const cuda_tensor *const of[8] = {&c->q, &c->k, &c->v, &c->o, &c->d_o, &c->dq, &c->dk, &c->dv};
  if (gpu->capability != 90) return "needs a GPU of compute capability 9.0";
  if (c->dtype == ATTEND_F32) return "multiplies bf16 and f16 alone";
  if (c->q.width > 128 || c->v.width > 128) return "takes widths up to 128";
  for (const cuda_tensor *x : of)
    if (!fits_tma(*x)) return "needs rows that begin at multiples of 16 bytes";
  return NULL;
}

/* The sums of dq, then minus_lse and delta, then counters. */
static size_t dq_bytes(const cuda_softmax *c) {
  return (size_t)c->batch * c->heads * tiles_of(c) * rows_of(c) * width_of(c) * sizeof(float);
}
static size_t row_bytes(const cuda_softmax *c) {
  return (size_t)c->batch * c->heads * tiles_of(c) * rows_of(c) * sizeof(float);
}

size_t cuda_softmax_backward_bytes(const cuda_gpu *, const cuda_softmax *c) {
  return dq_bytes(c) + 2 * row_bytes(c) +
         ((size_t)c->batch * c->heads * tiles_of(c) + 1) * sizeof(int);
}

/* Heads whose blocks are handed out together. More: fewer blocks of a head run at a time, and wait
 * for each other less; fewer: more of dq stays in L2 from one block to the next. */
static int chunk_of(const cuda_gpu *gpu, const cuda_softmax *c) {
  const bool few = c->causal && c->kv_len <= 2048;
  const int blocks = width_of(c) == 64 || few ? 3 : c->causal ? 4 : 6;
  return std::max(1, gpu->processors / blocks);
}

static void describe(const cuda_gpu *gpu, const cuda_softmax *p, backward_call &c) {
  c.batch = p->batch, c.heads = p->heads, c.group = p->heads / p->kv_heads;
  c.q_len = p->q_len, c.kv_len = p->kv_len;
  c.scale = p->scale, c.scale_to2 = (float)(p->scale * 1.44269504088896340736);
  c.causal = p->causal, c.offset = p->offset;
  c.tiles = (int)tiles_of(p), c.blocks = (p->kv_len + KEYS - 1) / KEYS;
  c.items = c.blocks * p->batch * p->kv_heads;
  c.chunk = chunk_of(gpu, p);
  c.dq_sum = (float *)p->work;
  c.minus_lse = (float *)((char *)p->work + dq_bytes(p));
  c.delta = c.minus_lse + row_bytes(p) / sizeof(float);
  c.added = (int *)(c.delta + row_bytes(p) / sizeof(float));
  c.lse = p->lse;
  c.o = p->o.data, c.d_o_data = p->d_o.data;
  for (int i = 0; i < 3; i++) {
    c.o_stride[i] = p->o.stride[i];
    c.d_o_stride[i] = p->d_o.stride[i];
  }
  c.width_v = p->v.width;
}

/* Zeros in the first rows of every head: a block a row. */
__global__ void backward_zeros(cuda_tensor x, int heads, int length) {
  const int row = blockIdx.x % length, head = blockIdx.x / length % heads;
  const int64_t batch = blockIdx.x / length / heads;
  uint16_t *to = (uint16_t *)x.data + batch * x.stride[0] + head * x.stride[1] + row * x.stride[2];
  for (int i = threadIdx.x; i < x.width; i += blockDim.x) to[i] = 0;
}
static void zeros(cuda_gpu *gpu, const cuda_softmax *p, const cuda_tensor &x, int heads,
                  int length) {
  if (length) LAUNCH(gpu, backward_zeros, p->batch * heads * length, 64, 0, x, heads, length);
}

template <typename T, int D>
static void backward(cuda_gpu *gpu, const cuda_softmax *p) {
  using L = backward_layout<D>;
  backward_call c = {};
  describe(gpu, p, c);
  c.q = map_of(gpu, p->dtype, p->q, p->batch, p->heads, p->q_len, L::rows, 1);
  c.d_o = map_of(gpu, p->dtype, p->d_o, p->batch, p->heads, p->q_len, L::rows, 1);
  c.k = map_of(gpu, p->dtype, p->k, p->batch, p->kv_heads, p->kv_len, KEYS, 1);
  c.v = map_of(gpu, p->dtype, p->v, p->batch, p->kv_heads, p->kv_len, KEYS, 1);
  c.dq = map_of(gpu, p->dtype, p->dq, p->batch, p->heads, p->q_len, 64, 1);
  c.dk = map_of(gpu, p->dtype, p->dk, p->batch, p->kv_heads, p->kv_len, KEYS, 1);
  c.dv = map_of(gpu, p->dtype, p->dv, p->batch, p->kv_heads, p->kv_len, KEYS, 1);
  LAUNCH(gpu, (backward_before<T, D>), c.batch * c.heads * c.tiles, 256, 0, c);
  auto kernel = softmax_backward<T, D>;
  gpu_check(gpu,
            cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, L::bytes),
            "softmax_backward");
  LAUNCH(gpu, kernel, std::min(gpu->processors, c.items), 384, L::bytes, c);
  if (p->causal && p->offset < 0) /* rows of tiles that see no key */
    zeros(gpu, p, p->dq, p->heads,
          -p->offset >= p->q_len ? p->q_len : -p->offset / L::rows * L::rows);
}

void cuda_softmax_backward(cuda_gpu *gpu, const cuda_softmax *p) {
  const bool wide = width_of(p) == 128;
  if (!p->batch || !p->heads) return;
  if (!p->q_len || !p->kv_len) {
    zeros(gpu, p, p->dq, p->heads, p->q_len);
    zeros(gpu, p, p->dk, p->kv_heads, p->kv_len);
    zeros(gpu, p, p->dv, p->kv_heads, p->kv_len);
    return;
  }
  if (p->dtype == ATTEND_BF16 && wide) backward<__nv_bfloat16, 128>(gpu, p);
  if (p->dtype == ATTEND_BF16 && !wide) backward<__nv_bfloat16, 64>(gpu, p);
  if (p->dtype == ATTEND_F16 && wide) backward<__half, 128>(gpu, p);
  if (p->dtype == ATTEND_F16 && !wide) backward<__half, 64>(gpu, p);
}
