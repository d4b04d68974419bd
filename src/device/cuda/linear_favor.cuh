/* favor with 256 directions by iterating through chunks: see linear_scan.cuh. A warpgroup computes
 * rows, two others the features of keys and the sums, 128 directions each. The directions stay in
 * shared memory, in two terms of bf16.
 */
#ifndef DEVICE_CUDA_LINEAR_FAVOR_CUH
#define DEVICE_CUDA_LINEAR_FAVOR_CUH

#include "device/cuda/linear_scan.cuh"

enum { FAVOR_DIRS = 256, FAVOR_HALF = 128, FAVOR_FLOATS = FAVOR_DIRS * WIDE };

struct favor_memory {
  unsigned char w[2][FAVOR_DIRS * 128]; /* low, high; rows of directions */
  unsigned char phi[4][SCAN_TILE];      /* of keys, in slabs of 64 directions */
  unsigned char sums[FAVOR_DIRS * 128];
  unsigned char tile[2][3][SCAN_TILE]; /* keys, values, queries; in turns */
  unsigned char ones[FAVOR_DIRS * 16];
  float top[2][CHUNK], shift[CHUNK]; /* of keys */
  int odd[2];                        /* a value is not finite; in turns */
};

__device__ inline void favor_load_directions(const linear_call &c, favor_memory &m) {
  for (int i = threadIdx.x; i < FAVOR_DIRS * 32; i += blockDim.x) {
    const int r = i / 32, column = i % 32 * 2;
    const float2 w = *(const float2 *)(c.map.w + r * 64 + column);
    const uint32_t high = pack(w.x, w.y);
    const uint32_t at = scan_at(0, r, column / 8) + column % 8 * 2;
    put(shared_address(m.w[1]) + at, high);
    put(shared_address(m.w[0]) + at, pack(w.x - low_of(high), w.y - high_of(high)));
  }
}

/* less of the rows l / 4 and l / 4 + 8 of the warp's 16, in the order of row_norms. */
__device__ inline void favor_norms(const linear_call &c, uint32_t tile, int warp,
                                   float (&less)[2]) {
  const int l = threadIdx.x % 32;
#pragma unroll
  for (int r = 0; r < 16; r++) {
    const uint32_t at = scan_at(tile, warp * 16 + r, l / 8) + l % 8 * 2;
    const uint32_t next = scan_at(tile, warp * 16 + r, l / 8 + 4) + l % 8 * 2;
    const float x = half_at(at), y = half_at(next);
    const float sum = warp_sum(fmaf(y, y, fmaf(x, x, 0.f))) * c.map.norm;
    if (r % 8 == l / 4) less[r / 8] = sum;
  }
}

/* along = w.x of 64 rows and 128 directions, in two terms. */
__device__ inline void favor_project(const favor_memory &m, const unsigned char *x, int half,
                                     float (&along)[64]) {
#pragma unroll
  for (int term = 0; term < 2; term++)
#pragma unroll
    for (int k = 0; k < 4; k++)
      wgmma<bf16, 128>::of_shared(along, operand_rows(x) + 2 * k,
                                  operand_rows(m.w[term] + half * FAVOR_HALF * 128) + 2 * k,
                                  term > 0 || k > 0);
}
__device__ inline void favor_tops(const float (&along)[64], float (&top)[2]) {
#pragma unroll
  for (int i = 0; i < 64; i++) top[i / 2 % 2] = fmaxf(top[i / 2 % 2], along[i]);
}

/* ---- keys ------------------------------------------------------------------------------ */

struct favor_sums_of {
  const linear_call &c;
  favor_memory &m;
  int half, warp;      /* directions [128 half, ..); warp of the group */
  float t[2][36], m_t; /* sums of 64 directions each, and their shift */

  /* Features of a chunk's keys to shared memory; -inf is the shift of padding. The two groups of
   * keys meet at barrier 2. */
  __device__ void features(const scan_keys &keys, int chunk, const unsigned char *tile) {
    const int l = threadIdx.x % 32;
    const uint64_t mask = keys.mask(max(chunk, 0));
    float along[64], less[2], top[2] = {-INFINITY, -INFINITY}, shift[2];
    wgmma_begin();
    favor_project(m, tile, half, along);
    wgmma_commit();
    favor_norms(c, shared_address(tile), warp, less);
    wgmma_wait<0>();
    wgmma_hold(along);
    favor_tops(along, top);
#pragma unroll
    for (int i = 0; i < 2; i++) {
      top[i] = quad_max(top[i]);
      if (l % 4 == 0) m.top[half][warp * 16 + l / 4 + 8 * i] = top[i];
    }
    named_sync(2, 256);
#pragma unroll
    for (int i = 0; i < 2; i++) {
      const int r = warp * 16 + l / 4 + 8 * i;
      shift[i] = shift_of(fmaxf(m.top[0][r], m.top[1][r]) - less[i]);
      if (!(mask >> r & 1)) shift[i] = -INFINITY;
      if (l % 4 == 0 && half == 0) m.shift[r] = shift[i];
    }
#pragma unroll
    for (int i = 0; i < 64; i += 2) {
      const int n = i / 2 % 2, r = warp * 16 + l / 4 + 8 * n, column = i / 4 * 8;
      const float a = exp2_of(along[i] - less[n] - shift[n], bf16());
      const float b = exp2_of(along[i + 1] - less[n] - shift[n], bf16());
      put(scan_at(shared_address(m.phi[half * 2 + column / 64]), r, column % 64 / 8) + l % 4 * 4,
          shift[n] == -INFINITY ? 0 : pack(a, b));
    }
  }

  /* For the rows of a chunk. */
  __device__ void store_sums() const {
    const int l = threadIdx.x % 32;
    const uint32_t sums = shared_address(m.sums), ones = shared_address(m.ones);
#pragma unroll
    for (int block = 0; block < 2; block++) {
      const float(&x)[36] = t[block];
      const int f = half * FAVOR_HALF + block * 64 + warp * 16;
#pragma unroll
      for (int n = 0; n < 8; n += 2) {
        uint32_t y[4];
#pragma unroll
        for (int i = 0; i < 4; i++) y[i] = pack(x[4 * n + 2 * i], x[4 * n + 2 * i + 1]);
        store4(a_rows(sums, f, 8 * n), y);
      }
      put(ones + (f + l / 4) * 16 + l % 4 * 4, pack(x[32], x[33]));
      put(ones + (f + l / 4 + 8) * 16 + l % 4 * 4, pack(x[34], x[35]));
    }
  }

  /* t += the sums of a chunk. */
  __device__ void add(const unsigned char *v) {
    const int l = threadIdx.x % 32;
    const float own = warp_max(fmaxf(m.shift[l], m.shift[l + 32])), top = fmaxf(m_t, own);
    const float a = m_t == -INFINITY ? 0.f : power(m_t - top);
    const float b = own == -INFINITY ? 0.f : power(own - top);
    if (own == -INFINITY) return;
    uint32_t factor[4][2]; /* 2^(shift - own) of the keys of a thread's fragments */
#pragma unroll
    for (int i = 0; i < 8; i++) {
      const int key = i / 2 * 16 + i % 2 * 8 + l % 4 * 2;
      factor[i / 2][i % 2] = pack(power(m.shift[key] - own), power(m.shift[key + 1] - own));
    }
#pragma unroll
    for (int block = 0; block < 2; block++) {
      const uint32_t tile = shared_address(m.phi[half * 2 + block]);
      uint32_t phi[4][4];
      float sum[32], count[4] = {};
#pragma unroll
      for (int i = 0; i < 4; i++) {
        fragments<true>(phi[i], a_columns(tile, warp * 16, 16 * i));
#pragma unroll
        for (int r = 0; r < 4; r++)
          asm("mul.rn.bf16x2 %0, %0, %1;" : "+r"(phi[i][r]) : "r"(factor[i][r / 2]));
      }
      wgmma_begin();
      times_columns(sum, phi, v, false);
      wgmma_commit();
      times_ones(count, phi);
      wgmma_wait<0>();
      wgmma_hold(sum);
#pragma unroll
      for (int i = 0; i < 36; i++)
        t[block][i] = fmaf(b, i < 32 ? sum[i % 32] : count[i % 4], a * t[block][i]);
    }
    m_t = top;
  }
};

/* A chunk's features, the sums before it for its rows, and then those with it. */
struct favor_chunk_sums : favor_sums_of {
  __device__ void chunk(const scan &w, int chunk) {
    unsigned char(&tile)[3][SCAN_TILE] = m.tile[(chunk - w.from) % 2];
    const bool whole = chunk < w.s.last && chunk >= 0;
    bool odd = false;
    features(w.keys, w.own(chunk), tile[0]);
    store_sums();
    if (half == 0) odd = find_odd(tile[1], warp);
    if (odd && threadIdx.x % 32 == 0) m.odd[chunk & 1] = 1;
    fence_shared();
    named_sync(2, 256);
    odd = ((volatile int *)m.odd)[chunk & 1];
    if (odd) { /* the rows take the values without what is not finite */
      if (whole) add(tile[1]);
      named_sync(2, 256);
      if (half == 0) mend(tile[1]);
      fence_shared();
    }
    named_sync(1, 384);
    if (whole && !odd) add(tile[1]);
  }
};

/* slot [stack][super][FAVOR_FLOATS] = the sums of a whole super, chunk_m its shift. */
__global__ void __launch_bounds__(256) favor_sums(const __grid_constant__ linear_call c) {
  extern __shared__ __align__(128) unsigned char shared[];
  favor_memory &m = *(favor_memory *)(shared + (1024 - shared_address(shared) % 1024) % 1024);
  const int stack = blockIdx.y, group = __shfl_sync(~0u, threadIdx.x / 128, 0);
  const scan_sequence s = c.sequence[stack / c.kv_heads];
  const scan_keys keys = {c, s, stack / c.kv_heads, stack % c.kv_heads};
  const int first = blockIdx.x * SUPER;
  if ((int)blockIdx.x >= super_of(s.last)) return;
  favor_sums_of sums = {c, m, group, (int)threadIdx.x / 32 % 4, {}, -INFINITY};
  const auto load = [&](int i) {
    if (i < SUPER && group == 0)
      keys.load(first + i, shared_address(m.tile[i % 2][0]), shared_address(m.tile[i % 2][1]));
    copies_commit();
  };
  load(0);
  favor_load_directions(c, m);
  for (int i = 0; i < SUPER; i++) {
    copies_wait<0>();
    fence_shared();
    __syncthreads();
    load(i + 1);
    sums.features(keys, first + i, m.tile[i % 2][0]);
    fence_shared();
    __syncthreads();
    sums.add(m.tile[i % 2][1]);
  }
  const size_t index = (size_t)stack * c.wave + blockIdx.x;
  float *to = c.slot + index * FAVOR_FLOATS;
  if (threadIdx.x == 0) c.chunk_m[index] = make_float2(sums.m_t, 0);
#pragma unroll
  for (int block = 0; block < 2; block++)
#pragma unroll
    for (int i = 0; i < 36; i++) {
      const int l = threadIdx.x % 32;
      const int f = group * FAVOR_HALF + block * 64 + sums.warp * 16 + l / 4 + i / 2 % 2 * 8;
      to[f * WIDE + i / 4 * 8 + l % 4 * 2 + i % 2] = sums.t[block][i];
    }
}

/* ---- rows ------------------------------------------------------------------------------ */

struct favor_rows_of : scan {
  favor_memory &f;
  int warp;

  /* Features of the rows, as A operands, and their shifts. */
  __device__ void features(const unsigned char *q, uint32_t (&phi)[16][4],
                           float (&shift)[2]) const {
    float low[64], high[64], less[2], top[2] = {-INFINITY, -INFINITY};
    wgmma_begin();
    favor_project(f, q, 0, low);
    wgmma_commit();
    favor_project(f, q, 1, high);
    wgmma_commit();
    favor_norms(c, shared_address(q), warp, less);
    wgmma_wait<0>();
    wgmma_hold(low);
    wgmma_hold(high);
    favor_tops(low, top);
    favor_tops(high, top);
#pragma unroll
    for (int i = 0; i < 2; i++) shift[i] = shift_of(quad_max(top[i]) - less[i]);
#pragma unroll
    for (int i = 0; i < 64; i += 2) {
      const int n = i / 2 % 2, r = i % 8 / 2;
      const bool none = shift[n] == -INFINITY;
      phi[i / 8][r] = none ? 0
                           : pack(exp2_of(low[i] - less[n] - shift[n], bf16()),
                                  exp2_of(low[i + 1] - less[n] - shift[n], bf16()));
      phi[8 + i / 8][r] = none ? 0
                               : pack(exp2_of(high[i] - less[n] - shift[n], bf16()),
                                      exp2_of(high[i + 1] - less[n] - shift[n], bf16()));
    }
  }

  __device__ void products(const uint32_t (&phi)[16][4], float (&w)[32], float (&o)[32],
                           float (&den)[4]) const {
    wgmma_begin();
#pragma unroll
    for (int i = 0; i < 16; i++)
      wgmma64<0>(w, phi[i], operand_rows(f.phi[i / 4]) + i % 4 * 2, i > 0);
    wgmma_commit();
#pragma unroll
    for (int i = 0; i < 16; i++) wgmma64<1>(o, phi[i], operand_columns(f.sums, 0) + i * 128, i > 0);
    wgmma_commit();
#pragma unroll
    for (int i = 0; i < 16; i++) {
      uint32_t x[2];
      asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];"
                   : "=r"(x[0]), "=r"(x[1])
                   : "r"(shared_address(f.ones) + (16 * i + threadIdx.x % 16) * 16)
                   : "memory");
      mma16(den, phi[i], x[0], x[1]);
    }
    wgmma_wait<0>();
    wgmma_hold(w);
    wgmma_hold(o);
  }

  /* The largest shift up to key `last` of the chunk. */
  __device__ void tops(const int (&visible)[2], float before, float (&top)[2]) const {
    const int l = threadIdx.x % 32;
    float low = f.shift[l], high = f.shift[l + 32];
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
      const float a = __shfl_up_sync(~0u, low, step), b = __shfl_up_sync(~0u, high, step);
      if (l >= step) low = fmaxf(low, a), high = fmaxf(high, b);
    }
    high = fmaxf(high, __shfl_sync(~0u, low, 31));
#pragma unroll
    for (int i = 0; i < 2; i++) {
      const int key = max(visible[i] - 1, 0);
      const float a = __shfl_sync(~0u, low, key % 32), b = __shfl_sync(~0u, high, key % 32);
      top[i] = visible[i] ? fmaxf(before, key < 32 ? a : b) : -INFINITY;
    }
  }

  __device__ void rows(int chunk, float before) const {
    const unsigned char(&tile)[3][SCAN_TILE] = f.tile[(chunk - from) % 2];
    uint32_t phi[16][4], a[4][4];
    float shift[2], top[2], o[32], w[32], den[4] = {};
    int visible[2];
    features(tile[2], phi, shift);
    visible_keys(chunk, warp, visible);
    named_sync(1, 384);
    products(phi, w, o, den);
    tops(visible, before, top);
#pragma unroll
    for (int i = 0; i < 32; i++) {
      const int n = i / 2 % 2, key = i / 4 * 8 + threadIdx.x % 4 * 2 + i % 2;
      const float scale = before == -INFINITY || top[n] == -INFINITY ? 0.f : power(before - top[n]);
      o[i] *= scale;
      if (i < 4) den[i] *= scale;
      w[i] = key < visible[n] ? w[i] * power(fminf(f.shift[key] - top[n], 0.f)) : 0.f;
    }
#pragma unroll
    for (int j = 0; j < 4; j++)
#pragma unroll
      for (int i = 0; i < 4; i++) a[j][i] = pack(w[8 * j + 2 * i], w[8 * j + 2 * i + 1]);
    wgmma_begin();
    times_columns(o, a, tile[1], true);
    wgmma_commit();
    times_ones(den, a);
    wgmma_wait<0>();
    wgmma_hold(o);
    const uint32_t q = shared_address(tile[2]);
    if (((volatile int *)f.odd)[chunk & 1]) add_non_finite(q, chunk, warp, a, visible, o);
    store_rows(q, chunk, warp, visible, shift, top, o, den);
  }
};

__global__ void __launch_bounds__(384) favor_rows(const __grid_constant__ linear_call c) {
  extern __shared__ __align__(128) unsigned char shared[];
  favor_memory &m = *(favor_memory *)(shared + (1024 - shared_address(shared) % 1024) % 1024);
  const int b = blockIdx.y / c.heads, h = blockIdx.y % c.heads;
  const scan_sequence s = c.sequence[b];
  const int super = blockIdx.x, group = __shfl_sync(~0u, threadIdx.x / 128, 0);
  const scan w = {c, s, super, b, h};
  if (w.from >= w.to) return;
  const size_t index = (size_t)(b * c.kv_heads + w.keys.g) * c.wave + super;
  const int warp = threadIdx.x / 32 % 4;
  const auto next =
      [&](int chunk, bool wait) { /* waits for a chunk's tiles, loads the one after */
                                  unsigned char(&tile)[3][SCAN_TILE] =
                                      m.tile[(chunk + 1 - w.from) % 2];
                                  if (wait) {
                                    copies_wait<0>();
                                    if (threadIdx.x == 0) m.odd[chunk & 1] = 0;
                                    fence_shared();
                                    named_sync(0, 384);
                                  }
                                  if (chunk + 1 < w.to && group == 0)
                                    w.load_queries(c.q, chunk + 1, warp, shared_address(tile[2]));
                                  if (chunk + 1 < w.to && group == 1)
                                    w.keys.load(max(w.own(chunk + 1), 0), shared_address(tile[0]),
                                                shared_address(tile[1]));
                                  copies_commit();
      };
  next(w.from - 1, false);
  favor_load_directions(c, m);
  float m_t = c.before_m[index].x;
  if (group == 0) {
    const favor_rows_of rows = {w, m, warp};
    for (int chunk = w.from; chunk < w.to; chunk++) {
      const int l = threadIdx.x % 32;
      next(chunk, true);
      rows.rows(chunk, m_t);
      if (chunk < s.last && chunk >= 0) /* as the sums' m_t */
        m_t = fmaxf(m_t, warp_max(fmaxf(m.shift[l], m.shift[l + 32])));
    }
    return;
  }
  const float *slot = c.slot + index * FAVOR_FLOATS;
  favor_chunk_sums sums = {{c, m, group - 1, warp, {}, m_t}};
#pragma unroll
  for (int i = 0; i < 72; i++) { /* the sums before the super */
    const int l = threadIdx.x % 32, j = i % 36;
    const int f = (group - 1) * FAVOR_HALF + i / 36 * 64 + warp * 16 + l / 4 + j / 2 % 2 * 8;
    sums.t[i / 36][j] = slot[f * WIDE + j / 4 * 8 + l % 4 * 2 + j % 2];
  }
  for (int chunk = w.from; chunk < w.to; chunk++) {
    next(chunk, true);
    sums.chunk(w, chunk);
  }
}

#endif
