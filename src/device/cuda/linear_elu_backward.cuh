/* elu backward by iterating through chunks; linear_backward.cuh has the equations. dq: forwards, with
 * dO in place of queries, values in place of keys, features of keys in place of values. dk and dv:
 * backwards over the chunks of a super, with sums over later rows; queries from position 0 on, one
 * head a kv head. 1 / denominator scales weights after the products, so that dO is an operand as it
 * is.
 */
#ifndef DEVICE_CUDA_LINEAR_ELU_BACKWARD_CUH
#define DEVICE_CUDA_LINEAR_ELU_BACKWARD_CUH

#include "device/cuda/linear_elu.cuh"

/* ---- dq -------------------------------------------------------------------------------- */

struct elu_dq_memory : elu_memory {           /* q[2]: dO */
  alignas(1024) unsigned char own[SCAN_TILE]; /* queries, then their gradients */
};

__device__ inline float dot8(uint4 x, uint4 y) {
  float sum = low_of(x.x) * low_of(y.x);
  sum = fmaf(high_of(x.x), high_of(y.x), sum);
  sum = fmaf(low_of(x.y), low_of(y.y), sum), sum = fmaf(high_of(x.y), high_of(y.y), sum);
  sum = fmaf(low_of(x.z), low_of(y.z), sum), sum = fmaf(high_of(x.z), high_of(y.z), sum);
  return fmaf(high_of(x.w), high_of(y.w), fmaf(low_of(x.w), low_of(y.w), sum));
}

/* Each of a thread's bf16 pairs of a tile's rows becomes f(row, column, pair). */
template <typename F>
__device__ inline void each_pair(uint32_t tile, int warp, F f) {
  const int l = threadIdx.x % 32;
#pragma unroll
  for (int half = 0; half < 2; half++)
#pragma unroll
    for (int n = 0; n < 8; n++) {
      const uint32_t at = scan_at(tile, warp * 16 + l / 4 + 8 * half, n) + l % 4 * 4;
      put(at, f(half, 4 * n + 2 * half, at));
    }
}
/* d phi -> d x: times min(phi, 1), where the tile has x. */
__device__ inline uint32_t elu_gradient(uint32_t x, float low, float high) {
  return pack(low * fminf(elu_feature<bf16>(low_of(x)), 1.f),
              high * fminf(elu_feature<bf16>(high_of(x)), 1.f));
}

struct elu_dq_rows : elu_scan {
  unsigned char *own_tile;
  int warp;

  __device__ uint32_t tile(int chunk) const { return shared_address(m.q[(chunk - from) % 2]); }
  __device__ void load(int chunk) const {
    if (chunk < to) load_queries(c.d_o, chunk, warp, tile(chunk));
    copies_commit();
  }
  /* 1 / denominator and h of the rows l / 4 and l / 4 + 8; also to memory, for dk and dv. */
  __device__ void gradients(int chunk, const int (&visible)[2], float (&inverse)[2],
                            float (&h_of)[2]) const {
    const int l = threadIdx.x % 32, row = chunk * CHUNK - s.position + warp * 16;
    float delta[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const int r = i * 4 + l / 8;
      uint4 x, y = {0, 0, 0, 0};
      if (row + r >= 0 && row + r < c.n)
        y = *(const uint4 *)(at<bf16>(c.o, b, h, row + r) + l % 8 * 8);
      asm volatile("ld.shared.v4.b32 {%0,%1,%2,%3}, [%4];"
                   : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
                   : "r"(scan_at(tile(chunk), warp * 16 + r, l % 8))
                   : "memory");
      delta[i] = dot8(x, y);
#pragma unroll
      for (int step = 1; step < 8; step *= 2) delta[i] += __shfl_xor_sync(~0u, delta[i], step);
    }
#pragma unroll
    for (int half = 0; half < 2; half++) {
      const int r = l / 4 + 8 * half, from_lane = l / 4 % 4 * 8;
      const float a = __shfl_sync(~0u, delta[2 * half], from_lane);
      const float d = __shfl_sync(~0u, delta[2 * half + 1], from_lane);
      const int64_t i = ((int64_t)b * c.heads + h) * c.n + row + r;
      const bool is_row = row + r >= 0 && row + r < c.n;
      inverse[half] = is_row && visible[half] ? expf(-c.lse_in[i]) : 0.f;
      if (inverse[half] == INFINITY) inverse[half] = 0; /* no denominator */
      h_of[half] = inverse[half] == 0 ? 0.f : -(l / 4 < 4 ? a : d) * inverse[half];
      if (is_row && l % 4 == 0) ((float2 *)c.row_grad)[i] = make_float2(inverse[half], h_of[half]);
    }
  }

  __device__ void rows(int chunk) const {
    const int stage_of = stage(chunk), l = threadIdx.x % 32;
    const uint32_t own_rows = shared_address(own_tile);
    uint32_t g[4][4], a[4][4];
    float o[32], w[32], inverse[2], h_of[2];
    int visible[2];
    copies_wait<0>();
    __syncwarp();
    load_queries(c.q, chunk, warp, own_rows);
    copies_commit();
    load(chunk + 1);
    visible_keys(chunk, warp, visible);
    gradients(chunk, visible, inverse, h_of);
#pragma unroll
    for (int i = 0; i < 4; i++) fragments<false>(g[i], a_rows(tile(chunk), warp * 16, 16 * i));
    barrier_wait(&m.ready[stage_of], phase(chunk));
    wgmma_begin();
    times_rows(w, g, m.keys[stage_of][1]);
    wgmma_commit();
    times_rows(o, g, m.sums[(chunk - from) % 2]);
    wgmma_commit();
    wgmma_wait<1>();
    wgmma_hold(w);
#pragma unroll
    for (int i = 0; i < 32; i += 2) {
      const int n = i / 2 % 2, key = i / 4 * 8 + l % 4 * 2;
      a[i / 8][i % 8 / 2] = pack(key < visible[n] ? fmaf(w[i], inverse[n], h_of[n]) : 0.f,
                                 key + 1 < visible[n] ? fmaf(w[i + 1], inverse[n], h_of[n]) : 0.f);
    }
    wgmma_wait<0>();
    wgmma_hold(o);
    const uint32_t ones_of = shared_address(m.ones[(chunk - from) % 2]);
#pragma unroll
    for (int i = 0; i < 8; i++) { /* z lies in a column */
      const float z0 = half_at(ones_of + (8 * i + l % 4 * 2) * 16);
      const float z1 = half_at(ones_of + (8 * i + l % 4 * 2 + 1) * 16);
#pragma unroll
      for (int n = 0; n < 2; n++) {
        o[4 * i + 2 * n] = fmaf(o[4 * i + 2 * n], inverse[n], h_of[n] * z0);
        o[4 * i + 2 * n + 1] = fmaf(o[4 * i + 2 * n + 1], inverse[n], h_of[n] * z1);
      }
    }
    wgmma_begin();
    times_columns(o, a, m.keys[stage_of][0], true);
    wgmma_commit();
    wgmma_wait<0>();
    wgmma_hold(o);
    barrier_arrive(&m.free[stage_of]);
    copies_wait<1>();
    __syncwarp();
    each_pair(own_rows, warp, [&](int half, int i, uint32_t at) {
      return inverse[half] == 0 ? 0u : elu_gradient(get(at), o[i], o[i + 1]);
    });
    put_rows(own_rows, warp, (bf16 *)at<bf16>(c.dq, b, h, 0), c.dq.stride[2],
             chunk * CHUNK - s.position, c.n);
  }
};

__global__ void __launch_bounds__(256, 2) elu_dq(const __grid_constant__ linear_call c) {
  extern __shared__ __align__(128) unsigned char shared[];
  elu_dq_memory &m = *(elu_dq_memory *)(shared + (1024 - shared_address(shared) % 1024) % 1024);
  const int b = blockIdx.y / c.heads, h = blockIdx.y % c.heads;
  const scan_sequence s = c.sequence[b];
  const int super = blockIdx.x, group = __shfl_sync(~0u, threadIdx.x / 128, 0);
  const elu_scan w = {{c, s, super, b, h}, m};
  if (w.from >= w.to) return;
  start_barriers(m.ready, m.free, elu_memory::STAGES);
  if (group == 0) {
    const elu_dq_rows rows = {w, m.own, (int)threadIdx.x / 32};
    rows.load(w.from);
    for (int chunk = w.from; chunk < w.to; chunk++) rows.rows(chunk);
  } else {
    sum_chunks(elu_sums_of<true>{w, (int)threadIdx.x / 32 - 4});
  }
}

/* ---- sums over rows -------------------------------------------------------------------- */

/* Queries and dO of a chunk, and its rows' numbers, by 128 threads. */
struct elu_rows_source {
  const linear_call &c;
  int b, h;
  __device__ void load(int chunk, uint32_t q, uint32_t g, uint32_t numbers) const {
    const int row = threadIdx.x % 128 / 8, piece = threadIdx.x % 8, first = chunk * CHUNK + row;
    const bf16 *x = at<bf16>(c.q, b, h, first) + piece * 8;
    const bf16 *y = at<bf16>(c.d_o, b, h, first) + piece * 8;
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const bool valid = first + 16 * i < c.n;
      copy16(scan_at(q, row + 16 * i, piece),
             valid ? x + 16 * i * c.q.stride[2] : (const bf16 *)c.q.data, valid);
      copy16(scan_at(g, row + 16 * i, piece),
             valid ? y + 16 * i * c.d_o.stride[2] : (const bf16 *)c.d_o.data, valid);
    }
    if (threadIdx.x % 128 >= CHUNK) return;
    const int i = chunk * CHUNK + threadIdx.x % 128;
    const float2 *from = (const float2 *)c.row_grad + ((int64_t)b * c.heads + h) * c.n;
    asm volatile(
        "cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(numbers + threadIdx.x % 128 * 8),
        "l"(i < c.n ? from + i : from), "r"(i < c.n ? 8 : 0)
        : "memory");
  }
};

/* t += phi(q) of the rows' G, and of h; phi are the features, [feature][row], and get scaled. */
__device__ inline void add_rows(uint32_t (&phi)[4][4], const unsigned char *g,
                                const float2 *numbers, float (&t)[36]) {
  const int l = threadIdx.x % 32;
  float sum[32], last[4] = {};
#pragma unroll
  for (int i = 0; i < 4; i++) {
    const float2 *n = numbers + 16 * i + l % 4 * 2;
    const uint32_t b0 = l < 4 ? pack(n[0].y, n[1].y) : 0, b1 = l < 4 ? pack(n[8].y, n[9].y) : 0;
    mma16(last, phi[i], b0, b1);
#pragma unroll
    for (int r = 0; r < 4; r++) {
      const float2 *x = n + r / 2 * 8;
      phi[i][r] = pack(low_of(phi[i][r]) * x[0].x, high_of(phi[i][r]) * x[1].x);
    }
  }
  wgmma_begin();
  times_columns(sum, phi, g, false);
  wgmma_commit();
  wgmma_wait<0>();
  wgmma_hold(sum);
#pragma unroll
  for (int i = 0; i < 32; i++) t[i] += sum[i];
#pragma unroll
  for (int i = 0; i < 4; i++) t[32 + i] += last[i];
}

template <int STAGES>
struct elu_row_sums_memory {
  unsigned char tile[STAGES][2][SCAN_TILE];
  float2 numbers[STAGES][CHUNK];
};

/* later [stack][supers][PART] = the sums over the rows of a super. */
template <int STAGES>
__global__ void __launch_bounds__(128, 4)
    elu_row_sums(const __grid_constant__ linear_call c, int supers) {
  extern __shared__ __align__(128) unsigned char shared[];
  elu_row_sums_memory<STAGES> &m =
      *(elu_row_sums_memory<STAGES> *)(shared + (1024 - shared_address(shared) % 1024) % 1024);
  const int super = blockIdx.x + 1, first = super * SUPER, f = threadIdx.x / 32 * 16;
  const elu_rows_source rows = {c, (int)blockIdx.y / c.heads, (int)blockIdx.y % c.heads};
  const int n = min(SUPER, (c.n + CHUNK - 1) / CHUNK - first);
  const auto load = [&](int i) {
    const int at = i % STAGES;
    if (i < n)
      rows.load(first + i, shared_address(m.tile[at][0]), shared_address(m.tile[at][1]),
                shared_address(m.numbers[at]));
    copies_commit();
  };
  float t[36] = {};
  for (int i = 0; i < STAGES - 1; i++) load(i);
  for (int i = 0; i < n; i++) {
    const int at = i % STAGES;
    uint32_t phi[4][4];
    copies_wait<STAGES - 2>();
    fence_shared();
    __syncthreads();
    load(i + STAGES - 1);
    key_features(shared_address(m.tile[at][0]), f, ~(uint64_t)0, false, phi);
    add_rows(phi, m.tile[at][1], m.numbers[at], t);
  }
  float *to = c.later + ((size_t)blockIdx.y * supers + super) * PART;
  each_of(t, [&](int r, int i, float x) { to[r * WIDE + i] = x; });
}

/* Sums over later supers, in place. */
__global__ static void __launch_bounds__(256) scan_prefix_rows(linear_call c, int supers) {
  enum { AHEAD = 8 };
  const int e = blockIdx.x * blockDim.x + threadIdx.x;
  float *slot = c.later + (size_t)blockIdx.y * supers * PART + e, sum = 0;
  if (e >= PART) return;
  for (int at = supers - 1; at >= 0; at -= AHEAD) {
    float part[AHEAD];
#pragma unroll
    for (int i = 0; i < AHEAD; i++) part[i] = at - i > 0 ? slot[(size_t)(at - i) * PART] : 0.f;
#pragma unroll
    for (int i = 0; i < AHEAD; i++) {
      if (at - i < 0) break;
      slot[(size_t)(at - i) * PART] = sum;
      sum += part[i];
    }
  }
}

/* ---- dk and dv --------------------------------------------------------------------------- */

struct elu_dkv_memory {
  enum { STAGES = 3 };
  unsigned char rows[STAGES][2][SCAN_TILE]; /* queries, then their features; dO */
  unsigned char keys[2][2][SCAN_TILE];      /* in turns; gradients leave by them */
  unsigned char sums[2][SCAN_TILE];
  float2 numbers[STAGES][CHUNK];
  float last[2][CHUNK]; /* sums of phi h */
  uint64_t ready[STAGES], free[STAGES];
};

struct elu_dkv {
  const linear_call &c;
  const scan_sequence &s;
  int b, h, from, to; /* chunk to - 1 is the first */
  elu_dkv_memory &m;
  __device__ int turn(int chunk) const { return to - 1 - chunk; }
  __device__ int stage(int chunk) const { return turn(chunk) % elu_dkv_memory::STAGES; }
  __device__ uint32_t phase(int chunk) const { return turn(chunk) / elu_dkv_memory::STAGES & 1; }
};

struct elu_dkv_keys : elu_dkv {
  int warp;
  scan_keys keys;

  /* 16 rows of keys and values. */
  __device__ void load(int chunk) const {
    if (chunk >= from) {
      const int l = threadIdx.x % 32;
#pragma unroll
      for (int i = 0; i < 4; i++) {
        const int r = warp * 16 + i * 4 + l / 8, p = chunk * CHUNK + r;
        const bool valid = keys.real(p);
        unsigned char(&tile)[2][SCAN_TILE] = m.keys[turn(chunk) % 2];
        copy16(scan_at(shared_address(tile[0]), r, l % 8),
               at<bf16>(c.k, b, h, valid ? p : 0) + l % 8 * 8, valid);
        copy16(scan_at(shared_address(tile[1]), r, l % 8),
               at<bf16>(c.v, b, h, valid ? p : 0) + l % 8 * 8, valid);
      }
    }
    copies_commit();
  }
  /* Of pairs [key][row]: w times the row's 1 / denominator, plus h; rows before the key: 0. */
  __device__ void weights(int chunk, const float (&w)[32], bool with_h, uint32_t (&a)[4][4]) const {
    const int l = threadIdx.x % 32;
    const float2 *numbers = m.numbers[stage(chunk)];
#pragma unroll
    for (int i = 0; i < 32; i += 2) {
      const int key = warp * 16 + l / 4 + i / 2 % 2 * 8, row = i / 4 * 8 + l % 4 * 2;
      const float4 n = *(const float4 *)(numbers + row);
      a[i / 8][i % 8 / 2] = pack(row >= key ? fmaf(w[i], n.x, with_h ? n.y : 0.f) : 0.f,
                                 row + 1 >= key ? fmaf(w[i + 1], n.z, with_h ? n.w : 0.f) : 0.f);
    }
  }
  __device__ void put(int chunk, const attend_view &to_view, uint32_t tile) const {
    put_rows(tile, warp, (bf16 *)at<bf16>(to_view, b, h, 0), to_view.stride[2], chunk * CHUNK, c.n);
  }

  __device__ void chunk_keys(int chunk) const {
    const int stage_of = stage(chunk), turn_of = turn(chunk) % 2, l = threadIdx.x % 32;
    const unsigned char *q = m.rows[stage_of][0], *g = m.rows[stage_of][1];
    const uint32_t k = shared_address(m.keys[turn_of][0]), v = shared_address(m.keys[turn_of][1]);
    const uint64_t mask = keys.mask(chunk);
    const bool real[2] = {(bool)(mask >> (warp * 16 + l / 4) & 1),
                          (bool)(mask >> (warp * 16 + l / 4 + 8) & 1)};
    uint32_t x[4][4], a[4][4];
    float w[32], y[32];
    copies_wait<0>();
    __syncwarp();
    load(chunk - 1);
#pragma unroll
    for (int i = 0; i < 4; i++) {
      fragments<false>(x[i], a_rows(k, warp * 16, 16 * i));
#pragma unroll
      for (int r = 0; r < 4; r++) x[i][r] = elu2(x[i][r]);
    }
    barrier_wait(&m.ready[stage_of], phase(chunk));
    wgmma_begin();
    times_rows(w, x, q);
    wgmma_commit();
    times_columns(y, x, m.sums[turn_of], false);
    wgmma_commit();
    wgmma_wait<1>();
    wgmma_hold(w);
    weights(chunk, w, false, a);
    wgmma_wait<0>();
    wgmma_hold(y);
    wgmma_begin();
    times_columns(y, a, g, true);
    wgmma_commit();
#pragma unroll
    for (int i = 0; i < 4; i++) fragments<false>(x[i], a_rows(v, warp * 16, 16 * i));
    __syncwarp();
    wgmma_wait<0>();
    wgmma_hold(y);
    each_pair(v, warp,
              [&](int half, int i, uint32_t) { return real[half] ? pack(y[i], y[i + 1]) : 0u; });
    put(chunk, c.dv, v);
    wgmma_begin();
    times_rows(w, x, g);
    wgmma_commit();
    times_rows(y, x, m.sums[turn_of]);
    wgmma_commit();
    wgmma_wait<1>();
    wgmma_hold(w);
    weights(chunk, w, true, a);
    wgmma_wait<0>();
    wgmma_hold(y);
#pragma unroll
    for (int i = 0; i < 32; i++) y[i] += m.last[turn_of][i / 4 * 8 + l % 4 * 2 + i % 2];
    wgmma_begin();
    times_columns(y, a, q, true);
    wgmma_commit();
    wgmma_wait<0>();
    wgmma_hold(y);
    barrier_arrive(&m.free[stage_of]);
    each_pair(k, warp, [&](int half, int i, uint32_t at) {
      return real[half] ? elu_gradient(get(at), y[i], y[i + 1]) : 0u;
    });
    put(chunk, c.dk, k);
  }
};

struct elu_dkv_rows : elu_dkv {
  int part;

  __device__ void load(int chunk) const {
    const int at = stage(chunk);
    if (chunk >= from)
      elu_rows_source{c, b, h}.load(chunk, shared_address(m.rows[at][0]),
                                    shared_address(m.rows[at][1]), shared_address(m.numbers[at]));
    copies_commit();
  }
  __device__ void store_sums(int chunk, const float (&t)[36]) const {
    const int l = threadIdx.x % 32, f = part * 16 + l / 4, turn_of = turn(chunk) % 2;
#pragma unroll
    for (int i = 0; i < 32; i += 2)
      put(scan_at(shared_address(m.sums[turn_of]), f + i / 2 % 2 * 8, i / 4) + l % 4 * 4,
          pack(t[i], t[i + 1]));
    if (l % 4 == 0) m.last[turn_of][f] = t[32], m.last[turn_of][f + 8] = t[34];
  }
  __device__ void chunk_rows(int chunk, float (&t)[36]) const {
    const int stage_of = stage(chunk);
    uint32_t phi[4][4];
    copies_wait<elu_dkv_memory::STAGES - 2>();
    fence_shared();
    named_sync(2, 128);
    key_features(shared_address(m.rows[stage_of][0]), part * 16, ~(uint64_t)0, true, phi);
    fence_shared();
    barrier_arrive(&m.ready[stage_of]);
    if (chunk + 1 < to) barrier_wait(&m.free[stage(chunk + 1)], phase(chunk + 1));
    load(chunk - (elu_dkv_memory::STAGES - 1));
    add_rows(phi, m.rows[stage_of][1], m.numbers[stage_of], t);
    store_sums(chunk - 1, t);
    fence_shared();
  }
};

__global__ void __launch_bounds__(256, 2)
    elu_dk_dv(const __grid_constant__ linear_call c, int supers) {
  extern __shared__ __align__(128) unsigned char shared[];
  elu_dkv_memory &m = *(elu_dkv_memory *)(shared + (1024 - shared_address(shared) % 1024) % 1024);
  const int b = blockIdx.y / c.heads, h = blockIdx.y % c.heads;
  const scan_sequence s = c.sequence[b];
  const int super = blockIdx.x, group = __shfl_sync(~0u, threadIdx.x / 128, 0);
  const elu_dkv w = {c, s, b, h, super * SUPER, min((super + 1) * SUPER, (c.n + CHUNK - 1) / CHUNK),
                     m};
  start_barriers(m.ready, m.free, elu_dkv_memory::STAGES);
  if (group == 0) {
    const elu_dkv_keys keys = {w, (int)threadIdx.x / 32, {c, s, b, h}};
    keys.load(w.to - 1);
    for (int chunk = w.to - 1; chunk >= w.from; chunk--) keys.chunk_keys(chunk);
  } else {
    const elu_dkv_rows rows = {w, (int)threadIdx.x / 32 - 4};
    const int l = threadIdx.x % 32, f = rows.part * 16 + l / 4;
    const float *slot = c.later + ((size_t)blockIdx.y * supers + super) * PART;
    float t[36];
    for (int i = 0; i < elu_dkv_memory::STAGES - 1; i++) rows.load(w.to - 1 - i);
#pragma unroll
    for (int i = 0; i < 36; i++)
      t[i] = slot[(f + i / 2 % 2 * 8) * WIDE + i / 4 * 8 + l % 4 * 2 + i % 2];
    rows.store_sums(w.to - 1, t);
    fence_shared();
    for (int chunk = w.to - 1; chunk >= w.from; chunk--) rows.chunk_rows(chunk, t);
  }
}

#endif
