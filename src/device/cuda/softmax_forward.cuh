/* Softmax attention on Hopper, forward: FlashAttention-3's schedule (Shah et al. 2024) with sums in
 * an order that is fixed.
 *
 * A CTA computes tiles of 64 query rows for each of WGS consumer warpgroups; a producer warp loads
 * with TMA. Within a warpgroup the scores of block j + 1 are computed while the weights of block j
 * multiply the values; between warpgroups named barriers pass a turn, so that one computes
 * exponentials while another multiplies.
 *
 * Bits: a row's result depends on that row, its keys and the description alone. Keys are read in
 * blocks of KEYS at fixed positions. JOIN blocks are one chain of sums, and the chains are added in
 * order; the maximum that a block subtracts is an integer, so that rescaling is exact. Keys may
 * therefore be split among CTAs at any multiple of JOIN blocks, which is how few queries over many
 * keys occupy the GPU (Flash-Decoding): the rows of all heads of a kv head share the tile of one
 * warpgroup, and softmax_join adds the chains. Tensor cores give a row and a column the same bits
 * whatever the shape of the instruction (tests/gpu/test_tensor_cores.cu).
 */
#ifndef DEVICE_CUDA_SOFTMAX_FORWARD_CUH
#define DEVICE_CUDA_SOFTMAX_FORWARD_CUH

#include "device/cuda/hopper.cuh"

enum { KEYS = 128, JOIN = 8 };

struct forward_call {
  CUtensorMap q, k, v, o; /* widths past the tensors' read as zeros and are not written */
  float *lse;             /* [B,H,T] or NULL */
  int batch, heads, group, q_len, kv_len;
  float scale_to2; /* q.k -> log2 of the weight */
  int causal;      /* key j is visible to row i if j <= i + offset */
  int offset;
  int tiles, items; /* row tiles; all work items */
  int chunk;        /* heads whose tiles follow each other */
  /* Split: an item is a chain of JOIN blocks for the rows of all heads of a kv head, row h q_len + t
   * being query t of head h; at most 64 of them. Its sums go here. */
  int splits, width; /* of v and o */
  void *out;         /* o, for softmax_join: its strides, in elements */
  int64_t out_batch, out_head, out_row;
  float *part_o; /* [B,G,splits,group q_len,D] */
  float2 *part;  /* [B,G,splits,group q_len]: max, sum */
};

template <typename T, int D, int WGS, int STAGES>
struct forward_layout {
  static constexpr int rows = 64 * WGS;
  static constexpr int q_bytes = rows * D * 2, kv_bytes = KEYS * D * 2;
  static constexpr int total_bytes = WGS > 1 ? rows *D * 4 : 0; /* split: one chain */
  static constexpr int k_at = q_bytes, v_at = k_at + STAGES * kv_bytes;
  static constexpr int total_at = v_at + STAGES * kv_bytes;
  static constexpr int barriers_at = total_at + total_bytes;
  static constexpr int bytes = barriers_at + 8 * (2 + 4 * STAGES) + 1024;
};

/* 2^e of an integer e <= 0, exactly; 0 below the normal numbers. */
__device__ inline float power_of_2(float e) {
  return e < -126.f ? 0.f : __int_as_float(((int)e + 127) << 23);
}
__device__ inline float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ inline uint32_t pack(float a, float b, __nv_bfloat16) {
  uint32_t y;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(b), "f"(a));
  return y;
}
__device__ inline uint32_t pack(float a, float b, __half) {
  uint32_t y;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(b), "f"(a));
  return y;
}

/* What an item is: a tile of rows, its blocks of keys [first, end), the kv head. */
struct forward_item {
  int tile, head, batch, kv_head, first, end, split;
};
/* Keys that some row below row_end sees; blocks of them. */
__device__ inline int keys_of(const forward_call &c, int row_end) {
  if (!c.causal) return c.kv_len;
  return max(0, min(c.kv_len, min(row_end, c.q_len) + c.offset));
}
__device__ inline int blocks_of(int keys) { return (keys + KEYS - 1) / KEYS; }

/* The item of a CTA in each round. Items come long ones first, so that every other round is dealt in
 * reverse: else the first CTAs would get the longest of all rounds. */
__device__ inline int item_of_round(int round) {
  const int at = round % 2 ? gridDim.x - 1 - blockIdx.x : blockIdx.x;
  return round * gridDim.x + at;
}

/* Heads come in chunks whose keys and values stay in L2; within a chunk heads follow each other,
 * and causal tiles are in falling order, long ones first. */
template <bool SPLIT>
__device__ inline forward_item item_at(const forward_call &c, int item, int rows) {
  if (SPLIT) {
    int split = item % c.splits, bg = item / c.splits, kv_heads = c.heads / c.group;
    int g = bg % kv_heads, first = split * JOIN;
    int end = min(first + JOIN, blocks_of(keys_of(c, c.q_len)));
    return {0, g * c.group, bg / kv_heads, g, first, max(end, first), split};
  }
  int all = c.heads * c.batch, from = item / (c.chunk * c.tiles) * c.chunk;
  int rest = item - from * c.tiles, wide = min(c.chunk, all - from);
  int bh = from + rest % wide, t = rest / wide, tile = c.causal ? c.tiles - 1 - t : t;
  int head = bh % c.heads;
  return {tile, head, bh / c.heads, head / c.group, 0, blocks_of(keys_of(c, (tile + 1) * rows)), 0};
}

/* What a warpgroup holds of its 64 rows: this thread has two, 8 apart. */
template <int D>
struct row_sums {
  float o[D / 2];
  float max[2], sum[2]; /* of the current chain; sum: of this thread's columns */
};

/* Weights of a block in place of its scores; corrects what is summed so far by `factor`. */
template <int N>
__device__ inline void weights_of(float (&s)[N], float scale, float (&max)[2], float (&sum)[2],
                                  float (&factor)[2]) {
#pragma unroll
  for (int r = 0; r < 2; r++) {
    float m0 = -INFINITY, m1 = -INFINITY;
#pragma unroll
    for (int i = 0; i < N; i += 4) {
      m0 = fmaxf(m0, s[i + 2 * r]);
      m1 = fmaxf(m1, s[i + 2 * r + 1]);
    }
    float m = fmaxf(m0, m1);
    m = fmaxf(m, __shfl_xor_sync(~0u, m, 1));
    m = fmaxf(m, __shfl_xor_sync(~0u, m, 2));
    float to = fmaxf(max[r], ceilf(m * scale));
    factor[r] = max[r] == to ? 1.f : power_of_2(max[r] - to); /* -inf: 0 */
    max[r] = to;
    float minus = to == -INFINITY ? 0.f : -to;
    float a = 0.f, b = 0.f;
#pragma unroll
    for (int i = 0; i < N; i += 4) {
      a += s[i + 2 * r] = exp2_fast(fmaf(s[i + 2 * r], scale, minus));
      b += s[i + 2 * r + 1] = exp2_fast(fmaf(s[i + 2 * r + 1], scale, minus));
    }
    sum[r] = sum[r] * factor[r] + (a + b);
  }
}

template <typename T, int N>
__device__ inline void pack_weights(const float (&s)[N], uint32_t (&p)[N / 8][4]) {
#pragma unroll
  for (int j = 0; j < N / 8; j++)
#pragma unroll
    for (int i = 0; i < 4; i++) p[j][i] = pack(s[8 * j + 2 * i], s[8 * j + 2 * i + 1], T());
}

/* s = q k^T: 64 rows of slabs of q_rows, KEYS keys. */
template <typename T, int D>
__device__ inline void scores(const unsigned char *q, int q_rows, const unsigned char *k,
                              float (&s)[KEYS / 2]) {
  uint64_t a = operand_rows(q), b = operand_rows(k);
#pragma unroll
  for (int i = 0; i < D / 16; i++) {
    uint64_t a_at = (uint64_t)((i / 4) * q_rows * SLAB_BYTES + i % 4 * 32) >> 4;
    uint64_t b_at = (uint64_t)((i / 4) * KEYS * SLAB_BYTES + i % 4 * 32) >> 4;
    wgmma<T, KEYS>::of_shared(s, a + a_at, b + b_at, i > 0);
  }
}
/* o (+)= p v. */
template <typename T, int D>
__device__ inline void multiply_values(const uint32_t (&p)[KEYS / 16][4], const unsigned char *v,
                                       float (&o)[D / 2], int add) {
  uint64_t b = operand_columns(v, KEYS * SLAB_BYTES);
#pragma unroll
  for (int i = 0; i < KEYS / 16; i++)
    wgmma<T, D>::of_registers(o, p[i], b + (uint64_t)(i * 16 * SLAB_BYTES >> 4), add || i > 0);
}

/* The log of the denominator 2^max sum. */
__device__ inline float lse_of(float max, float sum) {
  return sum > 0 ? (max + log2f(sum)) * 0.69314718055994530942f : -INFINITY;
}

/* The sums of all chains so far, of one warpgroup: o in shared memory [D / 8][128][4]. */
struct chain_totals {
  float max[2], sum[2];
  bool any;
};

template <int D>
__device__ inline void fold(chain_totals &t, float4 *total, int thread, float (&o)[D / 2],
                            const float (&max)[2], const float (&sum)[2], bool last) {
  float was[2], is[2];
#pragma unroll
  for (int r = 0; r < 2; r++) {
    float s = sum[r];
    s += __shfl_xor_sync(~0u, s, 1);
    s += __shfl_xor_sync(~0u, s, 2);
    float to = t.any ? fmaxf(t.max[r], max[r]) : max[r];
    was[r] = !t.any || t.max[r] == -INFINITY ? 0.f : power_of_2(t.max[r] - to);
    is[r] = max[r] == -INFINITY ? 0.f : power_of_2(max[r] - to);
    t.sum[r] = (t.any ? t.sum[r] * was[r] : 0.f) + s * is[r];
    t.max[r] = to;
  }
#pragma unroll
  for (int i = 0; i < D / 8; i++) {
    float4 x = {o[4 * i] * is[0], o[4 * i + 1] * is[0], o[4 * i + 2] * is[1], o[4 * i + 3] * is[1]};
    if (t.any) {
      float4 y = total[i * 128 + thread];
      x.x += y.x * was[0], x.y += y.y * was[0], x.z += y.z * was[1], x.w += y.w * was[1];
    }
    if (!last) total[i * 128 + thread] = x;
    o[4 * i] = x.x, o[4 * i + 1] = x.y, o[4 * i + 2] = x.z, o[4 * i + 3] = x.w;
  }
  t.any = true;
}

template <typename T, int D, int WGS, int STAGES, bool SPLIT>
__device__ inline void produce(const forward_call &c, unsigned char *memory, uint64_t *q_full,
                               uint64_t *q_empty, uint64_t *k_full, uint64_t *k_empty,
                               uint64_t *v_full, uint64_t *v_empty) {
  using L = forward_layout<T, D, WGS, STAGES>;
  int filled = 0, tiles = 0;
  for (int item; (item = item_of_round(tiles)) < c.items; tiles++) {
    forward_item at = item_at<SPLIT>(c, item, L::rows);
    barrier_wait(q_empty, (tiles & 1) ^ 1);
    barrier_expect(q_full, SPLIT ? c.group * c.q_len * D * 2 : L::q_bytes);
    for (int s = 0; s < D / SLAB; s++)
      tma_load(&c.q, memory + s * L::rows * SLAB_BYTES, q_full, s * SLAB, at.tile * L::rows,
               at.head, at.batch);
    for (int j = at.first; j < at.end; j++, filled++) {
      int stage = filled % STAGES, parity = (filled / STAGES & 1) ^ 1;
      barrier_wait(&k_empty[stage], parity);
      barrier_expect(&k_full[stage], L::kv_bytes);
      for (int s = 0; s < D / SLAB; s++)
        tma_load(&c.k, memory + L::k_at + stage * L::kv_bytes + s * KEYS * SLAB_BYTES,
                 &k_full[stage], s * SLAB, j * KEYS, at.kv_head, at.batch);
      barrier_wait(&v_empty[stage], parity);
      barrier_expect(&v_full[stage], L::kv_bytes);
      for (int s = 0; s < D / SLAB; s++)
        tma_load(&c.v, memory + L::v_at + stage * L::kv_bytes + s * KEYS * SLAB_BYTES,
                 &v_full[stage], s * SLAB, j * KEYS, at.kv_head, at.batch);
    }
  }
}

/* Scores of keys past the row's last visible one: -inf. */
template <int N>
__device__ inline void mask_scores(float (&s)[N], int first_key, int end0, int end1) {
  int column = first_key + 2 * (threadIdx.x % 4);
#pragma unroll
  for (int i = 0; i < N; i++) {
    int key = column + 8 * (i / 4) + i % 2;
    if (key >= (i & 2 ? end1 : end0)) s[i] = -INFINITY;
  }
}

/* A warpgroup's rows of o, staged in slabs of shared memory: its totals are not needed any more. */
template <typename T, int D>
__device__ inline void store(const forward_call &c, const forward_item &at, int row0, int thread,
                             int barrier, unsigned char *staging, const float (&o)[D / 2],
                             const chain_totals &t) {
  named_sync(barrier, 128); /* every thread has read its totals */
#pragma unroll
  for (int r = 0; r < 2; r++) {
    const int in = 16 * (thread / 32) + thread % 32 / 4 + 8 * r, row = row0 + in;
    const float inverse = t.sum[r] > 0 ? 1.f / t.sum[r] : 0.f;
#pragma unroll
    for (int i = 0; i < D / 8; i++)
      *(uint32_t *)(staging + i / 8 * 64 * SLAB_BYTES + in * SLAB_BYTES +
                    ((i % 8) ^ (in % 8)) * 16 + thread % 4 * 4) =
          pack(o[4 * i + 2 * r] * inverse, o[4 * i + 2 * r + 1] * inverse, T());
    if (c.lse && thread % 4 == 0 && row < c.q_len)
      c.lse[((int64_t)at.batch * c.heads + at.head) * c.q_len + row] = lse_of(t.max[r], t.sum[r]);
  }
  fence_shared();
  named_sync(barrier, 128);
  if (thread == 0) {
#pragma unroll
    for (int s = 0; s < D / SLAB; s++)
      tma_store(&c.o, staging + s * 64 * SLAB_BYTES, s * SLAB, row0, at.head, at.batch);
    tma_store_commit();
  }
}

/* A chain's sums, for softmax_join. */
template <int D>
__device__ inline void store_part(const forward_call &c, const forward_item &at, int thread,
                                  const float (&o)[D / 2], const chain_totals &t) {
  int rows = c.group * c.q_len;
#pragma unroll
  for (int r = 0; r < 2; r++) {
    int row = 16 * (thread / 32) + thread % 32 / 4 + 8 * r;
    if (row >= rows) continue;
    int64_t to =
        (((int64_t)at.batch * (c.heads / c.group) + at.kv_head) * c.splits + at.split) * rows + row;
#pragma unroll
    for (int i = 0; i < D / 8; i++)
      *(float2 *)(c.part_o + to * D + 8 * i + 2 * (thread % 4)) = {o[4 * i + 2 * r],
                                                                   o[4 * i + 2 * r + 1]};
    if (thread % 4 == 0) c.part[to] = {t.max[r], t.sum[r]};
  }
}

template <typename T, int D, int WGS, int STAGES, bool SPLIT>
__device__ inline void consume(const forward_call &c, unsigned char *memory, uint64_t *q_full,
                               uint64_t *q_empty, uint64_t *k_full, uint64_t *k_empty,
                               uint64_t *v_full, uint64_t *v_empty) {
  using L = forward_layout<T, D, WGS, STAGES>;
  const int wg = __shfl_sync(~0u, (int)threadIdx.x / 128, 0) - 1, thread = threadIdx.x % 128;
  const bool leader = thread == 0;
  const unsigned char *q = memory + wg * 64 * SLAB_BYTES;
  float4 *total = (float4 *)(memory + L::total_at) + wg * 64 * D / 4;
  const int mine = 1 + wg, next = 1 + (wg + 1) % WGS;
  int filled = 0, tiles = 0;
  if (WGS > 1 && wg == WGS - 1) named_arrive(next, 256);
  for (int item; (item = item_of_round(tiles)) < c.items; tiles++) {
    const forward_item at = item_at<SPLIT>(c, item, L::rows);
    const int row0 = at.tile * L::rows + wg * 64;
    const int all = at.end;
    const int blocks = SPLIT ? all : min(all, blocks_of(keys_of(c, row0 + 64)));
    const int row = row0 + 16 * (thread / 32) + thread % 32 / 4;
    const int query0 = SPLIT ? row % c.q_len : row, query1 = SPLIT ? (row + 8) % c.q_len : row + 8;
    const int end0 = c.causal ? min(c.kv_len, query0 + 1 + c.offset) : c.kv_len;
    const int end1 = c.causal ? min(c.kv_len, query1 + 1 + c.offset) : c.kv_len;
    const int full =
        (c.causal ? max(0, min(c.kv_len, (SPLIT ? 0 : row0) + 1 + c.offset)) : c.kv_len) /
        KEYS; /* blocks that every row sees whole */
    chain_totals t = {{-INFINITY, -INFINITY}, {0.f, 0.f}, false};
    float o[D / 2], max[2] = {-INFINITY, -INFINITY}, sum[2] = {0.f, 0.f}, factor[2];
    uint32_t p[KEYS / 16][4];
    float s[KEYS / 2];
    if (!SPLIT) { /* o of the tile before has left the totals */
      if (leader) tma_store_wait();
      named_sync(1 + WGS + wg, 128);
    }
    barrier_wait(q_full, tiles & 1);
    if (blocks > at.first) {
      int stage = filled % STAGES;
      barrier_wait(&k_full[stage], filled / STAGES & 1);
      if (WGS > 1) named_sync(mine, 256);
      wgmma_begin();
      scores<T, D>(q, L::rows, memory + L::k_at + stage * L::kv_bytes, s);
      wgmma_commit();
      if (WGS > 1) named_arrive(next, 256);
      wgmma_wait<0>();
      wgmma_hold(s);
      if (leader) barrier_arrive(&k_empty[stage]);
      if (leader && blocks == at.first + 1) barrier_arrive(q_empty);
      if (at.first >= full) mask_scores(s, at.first * KEYS, end0, end1);
      weights_of(s, c.scale_to2, max, sum, factor);
      pack_weights<T>(s, p);
      bool fresh = true; /* o holds nothing of this chain yet */
      for (int j = at.first + 1; j < blocks; j++) {
        const int before = stage, before_parity = filled / STAGES & 1;
        filled++;
        stage = filled % STAGES;
        barrier_wait(&k_full[stage], filled / STAGES & 1);
        if (WGS > 1) named_sync(mine, 256);
        wgmma_begin();
        scores<T, D>(q, L::rows, memory + L::k_at + stage * L::kv_bytes, s);
        wgmma_commit();
        barrier_wait(&v_full[before], before_parity);
        multiply_values<T, D>(p, memory + L::v_at + before * L::kv_bytes, o, !fresh);
        wgmma_commit();
        if (WGS > 1) named_arrive(next, 256);
        wgmma_wait<1>();
        wgmma_hold(s);
        if (leader) barrier_arrive(&k_empty[stage]);
        if (leader && j == blocks - 1) barrier_arrive(q_empty);
        if (j >= full) mask_scores(s, j * KEYS, end0, end1);
        if (j % JOIN) {
          weights_of(s, c.scale_to2, max, sum, factor);
          wgmma_wait<0>();
          wgmma_hold(o);
          if (__any_sync(~0u, factor[0] != 1.f || factor[1] != 1.f)) {
#pragma unroll
            for (int i = 0; i < D / 2; i++) o[i] *= factor[i / 2 % 2];
          }
          fresh = false;
        } else {
          float chain_max[2] = {max[0], max[1]}, chain_sum[2] = {sum[0], sum[1]};
          max[0] = max[1] = -INFINITY, sum[0] = sum[1] = 0.f;
          weights_of(s, c.scale_to2, max, sum, factor);
          wgmma_wait<0>();
          wgmma_hold(o);
          fold<D>(t, total, thread, o, chain_max, chain_sum, false);
          fresh = true;
        }
        if (leader) barrier_arrive(&v_empty[before]);
        pack_weights<T>(s, p);
      }
      barrier_wait(&v_full[stage], filled / STAGES & 1);
      wgmma_begin();
      multiply_values<T, D>(p, memory + L::v_at + stage * L::kv_bytes, o, !fresh);
      wgmma_commit();
      wgmma_wait<0>();
      wgmma_hold(o);
      if (leader) barrier_arrive(&v_empty[stage]);
      filled++;
      fold<D>(t, total, thread, o, max, sum, true);
    } else {
      if (leader) barrier_arrive(q_empty);
#pragma unroll
      for (int i = 0; i < D / 2; i++) o[i] = 0.f;
    }
    for (int j = blocks > at.first ? blocks : at.first; j < all;
         j++, filled++) { /* blocks for later rows alone */
      int stage = filled % STAGES, parity = filled / STAGES & 1;
      if (WGS > 1) named_sync(mine, 256), named_arrive(next, 256);
      barrier_wait(&k_full[stage], parity);
      if (leader) barrier_arrive(&k_empty[stage]);
      barrier_wait(&v_full[stage], parity);
      if (leader) barrier_arrive(&v_empty[stage]);
    }
    if (SPLIT)
      store_part<D>(c, at, thread, o, t);
    else
      store<T, D>(c, at, row0, thread, 1 + WGS + wg, (unsigned char *)total, o, t);
  }
  if (WGS > 1 && wg == 0) named_sync(mine, 256);
}

template <typename T, int D, int WGS, int STAGES, bool SPLIT>
__global__ void __launch_bounds__(128 * (WGS + 1), 1)
    softmax_forward(const __grid_constant__ forward_call c) {
  using L = forward_layout<T, D, WGS, STAGES>;
  extern __shared__ unsigned char raw[];
  unsigned char *memory = (unsigned char *)(((uintptr_t)raw + 1023) & ~(uintptr_t)1023);
  uint64_t *q_full = (uint64_t *)(memory + L::barriers_at), *q_empty = q_full + 1;
  uint64_t *k_full = q_full + 2, *k_empty = k_full + STAGES, *v_full = k_empty + STAGES,
           *v_empty = v_full + STAGES;
  if (threadIdx.x == 0) {
    barrier_init(q_full, 1);
    barrier_init(q_empty, WGS);
    for (int i = 0; i < STAGES; i++) {
      barrier_init(&k_full[i], 1);
      barrier_init(&k_empty[i], WGS);
      barrier_init(&v_full[i], 1);
      barrier_init(&v_empty[i], WGS);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    fence_shared();
  }
  __syncthreads();
  if (threadIdx.x < 128) {
    registers_lower<WGS == 3 ? 32 : 24>();
    if (threadIdx.x == 0)
      produce<T, D, WGS, STAGES, SPLIT>(c, memory, q_full, q_empty, k_full, k_empty, v_full,
                                        v_empty);
  } else {
    registers_raise<WGS == 3 ? 160 : 240>();
    consume<T, D, WGS, STAGES, SPLIT>(c, memory, q_full, q_empty, k_full, k_empty, v_full, v_empty);
  }
}

/* Adds the chains of softmax_forward<SPLIT> in order: a warp a row. Factors are powers of two, so
 * that scaling to the largest maximum at once gives the bits of rescaling chain by chain. */
template <typename T, int D>
__global__ void softmax_join(const forward_call c) {
  constexpr int WIDE = D / 32, AHEAD = 8;
  const int rows = c.group * c.q_len, kv_heads = c.heads / c.group;
  const int at = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
  if (at >= c.batch * kv_heads * rows) return;
  const int row = at % rows, bg = at / rows;
  const int64_t first = (int64_t)bg * c.splits * rows + row;
  float max = -INFINITY;
  for (int s = lane; s < c.splits; s += 32) max = fmaxf(max, c.part[first + (int64_t)s * rows].x);
#pragma unroll
  for (int step = 16; step; step /= 2) max = fmaxf(max, __shfl_xor_sync(~0u, max, step));
  float sum = 0.f, o[WIDE];
#pragma unroll
  for (int i = 0; i < WIDE; i++) o[i] = 0.f;
  for (int s0 = 0; s0 < c.splits; s0 += AHEAD) {
    float2 p[AHEAD];
    float x[AHEAD][WIDE];
#pragma unroll
    for (int k = 0; k < AHEAD; k++) {
      const int64_t from = first + (int64_t)min(s0 + k, c.splits - 1) * rows;
      p[k] = c.part[from];
#pragma unroll
      for (int i = 0; i < WIDE; i++) x[k][i] = c.part_o[from * D + lane * WIDE + i];
    }
#pragma unroll
    for (int k = 0; k < AHEAD; k++) {
      if (s0 + k >= c.splits || p[k].x == -INFINITY) continue;
      const float by = power_of_2(p[k].x - max);
      sum += p[k].y * by;
#pragma unroll
      for (int i = 0; i < WIDE; i++) o[i] += x[k][i] * by;
    }
  }
  const int head = bg % kv_heads * c.group + row / c.q_len;
  const int batch = bg / kv_heads, query = row % c.q_len;
  const float inverse = sum > 0 ? 1.f / sum : 0.f;
  T *to = (T *)c.out + batch * c.out_batch + head * c.out_head + query * c.out_row;
#pragma unroll
  for (int i = 0; i < WIDE; i++)
    if (lane * WIDE + i < c.width) to[lane * WIDE + i] = (T)(o[i] * inverse);
  if (c.lse && lane == 0)
    c.lse[((int64_t)batch * c.heads + head) * c.q_len + query] = lse_of(max, sum);
}

#endif
