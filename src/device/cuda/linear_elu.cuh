/* elu by iterating through chunks: see linear_scan.cuh. */
#ifndef DEVICE_CUDA_LINEAR_ELU_CUH
#define DEVICE_CUDA_LINEAR_ELU_CUH

#include "device/cuda/linear_scan.cuh"

/* Padding has no features: phi is [feature][key], a thread's keys are those of its fragments. */
__device__ __noinline__ void mask_features(uint64_t mask, uint32_t (&phi)[4][4]) {
  for (int i = 0; i < 16; i++) {
    const int key = 16 * (i / 4) + threadIdx.x % 4 * 2 + i % 4 / 2 * 8;
    uint32_t keep = 0;
    if (mask >> key & 1) keep |= 0xffff;
    if (mask >> (key + 1) & 1) keep |= 0xffff0000;
    phi[i / 4][i % 4] &= keep;
  }
}

/* Features of the 16 columns of a warp, as A [feature][key]; `back`: also to where the keys were. */
__device__ inline void key_features(uint32_t k, int f, uint64_t mask, bool back,
                                    uint32_t (&phi)[4][4]) {
#pragma unroll
  for (int i = 0; i < 4; i++) {
    fragments<true>(phi[i], a_columns(k, f, 16 * i));
#pragma unroll
    for (int r = 0; r < 4; r++) phi[i][r] = elu2(phi[i][r]);
  }
  if (mask != ~(uint64_t)0) {
    uint32_t copy[4][4];
#pragma unroll
    for (int i = 0; i < 16; i++) copy[i / 4][i % 4] = phi[i / 4][i % 4];
    mask_features(mask, copy);
#pragma unroll
    for (int i = 0; i < 16; i++) phi[i / 4][i % 4] = copy[i / 4][i % 4];
  }
#pragma unroll
  for (int i = 0; i < 4; i++)
    if (back) fragments_back(a_columns(k, f, 16 * i), phi[i]);
}

__device__ inline bool odd_features(const uint32_t (&phi)[4][4]) {
  bool odd = false;
#pragma unroll
  for (int i = 0; i < 16; i++) odd |= not_finite2(phi[i / 4][i % 4]);
  return odd;
}

/* Sums of a chunk, t += phi v: t[32..] the ones. v is a tile. */
__device__ inline void add_chunk(const uint32_t (&phi)[4][4], const void *v, float (&t)[36]) {
  float sum[32], count[4] = {};
  wgmma_begin();
  times_columns(sum, phi, v, false);
  wgmma_commit();
  times_ones(count, phi);
  wgmma_wait<0>();
  wgmma_hold(sum);
#pragma unroll
  for (int i = 0; i < 32; i++) t[i] += sum[i];
#pragma unroll
  for (int i = 0; i < 4; i++) t[32 + i] += count[i];
}

/* ---- sums of supers ------------------------------------------------------------------ */

/* slot [stack][super][PART] = the sums of a whole super. */
template <int STAGES>
__global__ void __launch_bounds__(128, 4) elu_sums(const __grid_constant__ linear_call c) {
  extern __shared__ __align__(128) unsigned char shared[];
  unsigned char *tile = shared + (1024 - shared_address(shared) % 1024) % 1024;
  const uint32_t tiles = shared_address(tile);
  const int stack = blockIdx.y, f = threadIdx.x / 32 * 16;
  const scan_sequence s = c.sequence[stack / c.kv_heads];
  const scan_keys keys = {c, s, stack / c.kv_heads, stack % c.kv_heads};
  const int first = blockIdx.x * SUPER;
  if ((int)blockIdx.x >= super_of(s.last)) return;
  float t[36] = {};
#pragma unroll
  for (int i = 0; i < STAGES - 1; i++) {
    keys.load(first + i, tiles + i * 2 * SCAN_TILE, tiles + (i * 2 + 1) * SCAN_TILE);
    copies_commit();
  }
  for (int i = 0; i < SUPER; i++) {
    copies_wait<STAGES - 2>();
    fence_shared();
    __syncthreads();
    const int next = i + STAGES - 1;
    if (next < SUPER) {
      const uint32_t to = tiles + next % STAGES * 2 * SCAN_TILE;
      keys.load(first + next, to, to + SCAN_TILE);
    }
    copies_commit();
    const uint32_t k = tiles + i % STAGES * 2 * SCAN_TILE;
    uint32_t phi[4][4];
    key_features(k, f, keys.mask(first + i), false, phi);
    add_chunk(phi, tile + (i % STAGES * 2 + 1) * SCAN_TILE, t);
  }
  float *to = c.slot + ((size_t)stack * c.wave + blockIdx.x) * PART;
  each_of(t, [&](int r, int i, float x) { to[r * WIDE + i] = x; });
}

/* Shared memory: keys and values in turns, two tiles of queries, which outputs leave by, two of the
 * sums before a chunk and of their last column. */
struct elu_memory {
  enum { STAGES = 3 };
  unsigned char keys[STAGES][2][SCAN_TILE], q[2][SCAN_TILE], sums[2][SCAN_TILE];
  unsigned char ones[2][CHUNK * 16];
  uint64_t ready[STAGES], free[STAGES];
  int odd[STAGES]; /* a value is not finite */
};

struct elu_scan : scan {
  elu_memory &m;
  __device__ int stage(int chunk) const { return (chunk - from) % elu_memory::STAGES; }
  __device__ uint32_t phase(int chunk) const { return (chunk - from) / elu_memory::STAGES & 1; }
};

/* ---- rows: the first warpgroup --------------------------------------------------------- */

struct elu_rows_of : elu_scan {
  int warp;

  __device__ uint32_t q(int chunk) const { return shared_address(m.q[(chunk - from) % 2]); }
  __device__ void load(int chunk) const {
    if (chunk < to) load_queries(c.q, chunk, warp, q(chunk));
    copies_commit();
  }
  __device__ void features(int chunk, uint32_t (&phi)[4][4]) const {
#pragma unroll
    for (int i = 0; i < 4; i++) {
      fragments<false>(phi[i], a_rows(q(chunk), warp * 16, 16 * i));
#pragma unroll
      for (int r = 0; r < 4; r++) phi[i][r] = elu2(phi[i][r]);
    }
  }
  /* The part of the denominators that comes from the sums. */
  __device__ void denominators(int chunk, const uint32_t (&phi)[4][4], float (&den)[4]) const {
    const uint32_t ones = shared_address(m.ones[(chunk - from) % 2]);
#pragma unroll
    for (int i = 0; i < 4; i++) {
      uint32_t x[2];
      asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];"
                   : "=r"(x[0]), "=r"(x[1])
                   : "r"(ones + (16 * i + threadIdx.x % 16) * 16)
                   : "memory");
      mma16(den, phi[i], x[0], x[1]);
    }
  }
  /* Masked weights as the A operand of the product with the values. */
  __device__ void weights(const float (&w)[32], const int (&visible)[2],
                          uint32_t (&a)[4][4]) const {
    const int t = threadIdx.x % 4;
    const int least = __reduce_min_sync(~0u, min(visible[0], visible[1]));
    const int most = __reduce_max_sync(~0u, max(visible[0], visible[1]));
#pragma unroll
    for (int j = 0; j < 4; j++) {
      if (16 * j >= most) { /* no row sees these keys */
#pragma unroll
        for (int i = 0; i < 4; i++) a[j][i] = 0;
      } else if (16 * (j + 1) <= least) { /* all do */
#pragma unroll
        for (int i = 0; i < 4; i++) a[j][i] = pack(w[8 * j + 2 * i], w[8 * j + 2 * i + 1]);
      } else {
#pragma unroll
        for (int i = 0; i < 4; i++) {
          const int k = 16 * j + i / 2 * 8 + 2 * t, end = visible[i % 2];
          a[j][i] = pack(k < end ? w[8 * j + 2 * i] : 0, k + 1 < end ? w[8 * j + 2 * i + 1] : 0);
        }
      }
    }
  }
  __device__ void chunk_rows(int chunk) const {
    uint32_t phi[4][4], a[4][4];
    float o[32], w[32], den[4] = {};
    const float none[2] = {0, 0};
    int visible[2];
    const int stage_of = stage(chunk);
    copies_wait<0>();
    __syncwarp();
    load(chunk + 1);
    features(chunk, phi);
    visible_keys(chunk, warp, visible);
    barrier_wait(&m.ready[stage_of], phase(chunk));
    wgmma_begin();
    times_rows(w, phi, m.keys[stage_of][0]);
    wgmma_commit();
    times_columns(o, phi, m.sums[(chunk - from) % 2], false);
    wgmma_commit();
    denominators(chunk, phi, den);
    wgmma_wait<1>();
    wgmma_hold(w);
    weights(w, visible, a);
    wgmma_wait<0>();
    wgmma_hold(o);
    wgmma_begin();
    times_columns(o, a, m.keys[stage_of][1], true);
    wgmma_commit();
    times_ones(den, a);
    wgmma_wait<0>();
    wgmma_hold(o);
    const bool odd = m.odd[stage_of];
    barrier_arrive(&m.free[stage_of]);
    if (odd) add_non_finite(q(chunk), chunk, warp, a, visible, o);
    store_rows(q(chunk), chunk, warp, visible, none, none, o, den);
  }
};

/* ---- sums: the second warpgroup -------------------------------------------------------- */

/* BACKWARD: rows take the features as they take values. */
template <bool BACKWARD>
struct elu_sums_of : elu_scan {
  int part; /* warp of the group: features [16 part, 16 part + 16) */

  __device__ void load(int chunk) const {
    if (chunk < to) {
      unsigned char(&tile)[2][SCAN_TILE] = m.keys[stage(chunk)];
      keys.load(max(own(chunk), 0), shared_address(tile[0]), shared_address(tile[1]));
    }
    copies_commit();
  }
  /* For the rows of a chunk. */
  __device__ void store_sums(int chunk, const float (&t)[36]) const {
    const int l = threadIdx.x % 32;
    const uint32_t sums = shared_address(m.sums[(chunk - from) % 2]);
    const uint32_t ones = shared_address(m.ones[(chunk - from) % 2]);
#pragma unroll
    for (int n = 0; n < 8; n += 2) {
      uint32_t y[4];
#pragma unroll
      for (int i = 0; i < 4; i++) y[i] = pack(t[4 * n + 2 * i], t[4 * n + 2 * i + 1]);
      store4(a_rows(sums, part * 16, 8 * n), y);
    }
    put(ones + (part * 16 + l / 4) * 16 + l % 4 * 4, pack(t[32], t[33]));
    put(ones + (part * 16 + l / 4 + 8) * 16 + l % 4 * 4, pack(t[34], t[35]));
  }
  /* Features of the chunk, then the sums for the next one. */
  __device__ void chunk_sums(int chunk, float (&t)[36]) const {
    const int stage_of = stage(chunk);
    unsigned char *k = m.keys[stage_of][0], *v = m.keys[stage_of][1];
    uint32_t phi[4][4];
    copies_wait<elu_memory::STAGES - 2>();
    fence_shared();
    if (threadIdx.x % 128 == 0) m.odd[stage_of] = 0;
    named_sync(2, 128);
    key_features(shared_address(k), part * 16, keys.mask(max(own(chunk), 0)), true, phi);
    const bool odd = find_odd(v, part) || (BACKWARD && __any_sync(~0u, odd_features(phi)));
    const bool whole = chunk < s.last && chunk >= 0;
    if (odd && threadIdx.x % 32 == 0) m.odd[stage_of] = 1;
    fence_shared();
    named_sync(2, 128);
    const bool any = ((volatile int *)m.odd)[stage_of];
    if (!any) barrier_arrive(&m.ready[stage_of]);
    if (chunk > from) barrier_wait(&m.free[stage(chunk - 1)], phase(chunk - 1));
    load(chunk + elu_memory::STAGES - 1);
    if (whole) add_chunk(phi, v, t);
    if (any) { /* the rows take the values without them */
      named_sync(2, 128);
      mend(v);
      if (BACKWARD) mend(k);
      fence_shared();
      barrier_arrive(&m.ready[stage_of]);
    }
    store_sums(chunk + 1, t);
    fence_shared();
  }
};

/* The second warpgroup's share of a super. */
template <bool BACKWARD>
__device__ inline void sum_chunks(const elu_sums_of<BACKWARD> &sums) {
  const size_t stack = sums.b * sums.c.kv_heads + sums.keys.g;
  const float *slot = sums.c.slot + (stack * sums.c.wave + blockIdx.x) * PART;
  float t[36];
  for (int i = 0; i < elu_memory::STAGES - 1; i++) sums.load(sums.from + i);
#pragma unroll
  for (int i = 0; i < 36; i++) { /* the sums before the super */
    const int l = threadIdx.x % 32, f = sums.part * 16 + l / 4 + i / 2 % 2 * 8;
    t[i] = slot[f * WIDE + i / 4 * 8 + l % 4 * 2 + i % 2];
  }
  sums.store_sums(sums.from, t);
  fence_shared();
  for (int chunk = sums.from; chunk < sums.to; chunk++) sums.chunk_sums(chunk, t);
}

__device__ inline void start_barriers(uint64_t *ready, uint64_t *free, int n) {
  if (threadIdx.x == 0)
    for (int i = 0; i < n; i++) barrier_init(&ready[i], 128), barrier_init(&free[i], 128);
  fence_shared();
  __syncthreads();
}

/* A super of a head. */
__global__ void __launch_bounds__(256, 2) elu_rows(const __grid_constant__ linear_call c) {
  extern __shared__ __align__(128) unsigned char shared[];
  elu_memory &m = *(elu_memory *)(shared + (1024 - shared_address(shared) % 1024) % 1024);
  const int b = blockIdx.y / c.heads, h = blockIdx.y % c.heads;
  const scan_sequence s = c.sequence[b];
  const int super = blockIdx.x, group = __shfl_sync(~0u, threadIdx.x / 128, 0);
  const elu_scan w = {{c, s, super, b, h}, m};
  if (w.from >= w.to) return;
  start_barriers(m.ready, m.free, elu_memory::STAGES);
  if (group == 0) {
    const elu_rows_of rows = {w, (int)threadIdx.x / 32};
    rows.load(w.from);
    for (int chunk = w.from; chunk < w.to; chunk++) rows.chunk_rows(chunk);
  } else {
    sum_chunks(elu_sums_of<false>{w, (int)threadIdx.x / 32 - 4});
  }
}

#endif
