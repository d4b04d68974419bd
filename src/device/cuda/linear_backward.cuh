/* Linear forms, backward. attention/linear_backward.c derives it: with G_i = dO_i / d_i and
 * h_i = -(dO_i . o_i) / d_i as a last column, and a column of ones behind the values,
 *
 *   dphi(q_i) = G_i (sums before)^T + pairs      dphi(k_j) = v_j (sums of later rows)^T + pairs
 *   dv_j = phi(k_j) (sums of later rows) + pairs
 *
 * The sums before chunks are forward's, up to behind the last chunk: rows that see all keys take that
 * one. Rows come in tiles of 64 positions; sums over later tiles are joined from the last to the
 * first. They are relative to the largest shift before their chunk, as on the CPU.
 */
#ifndef DEVICE_CUDA_LINEAR_BACKWARD_CUH
#define DEVICE_CUDA_LINEAR_BACKWARD_CUH

#include "device/cuda/linear_forward.cuh"

template <typename E>
struct backward_layout {
  enum { LD = 64 + padding<E>::elements, WLD = sizeof(E) == 4 ? 76 : 88 };
  E *w, *x, *k, *phi_q, *phi_k, *v, *g, *s, *da, *e;
  float *monomials; /* [64][68], of poly */
  static __host__ __device__ int w_elements(int ldx, bool directed) {
    return directed ? 64 * ldx * (sizeof(E) == 2 ? 2 : 1) : 0;
  }
  __device__ backward_layout(unsigned char *shared, const linear_call &c) {
    w = (E *)shared;
    x = w + w_elements(c.ldx, c.shifts);
    k = x + 64 * c.ldx;
    phi_q = k + 64 * c.ldx;
    phi_k = phi_q + 64 * LD;
    v = phi_k + 64 * LD;
    g = v + 64 * WLD;
    s = g + 64 * WLD;
    da = s + 64 * WLD;
    e = s; /* sums of a tile are used before it */
    monomials = (float *)(da + 64 * LD);
  }
  static __host__ int bytes(int ldx, bool directed, bool poly) {
    return (w_elements(ldx, directed) + 2 * 64 * ldx + 3 * 64 * LD + 3 * 64 * WLD) *
               (int)sizeof(E) +
           (poly ? 64 * 68 * (int)sizeof(float) : 0);
  }
};

/* The chunk that the keys of a row tile end in; last + 1: its rows see all keys; -1: none. */
__device__ inline int64_t tile_chunk(const linear_call &c, const linear_sequence &q, int64_t tile) {
  const int64_t last = last_chunk(q.keys), p = q.position + tile_row(c, q, tile);
  if (last < 0) return -1;
  if (!c.causal) return last + 1;
  return p < 0 ? -1 : min(last + 1, p / CHUNK);
}
/* The tile of the rows whose keys end in a chunk; -1: all rows are later. */
__device__ inline int64_t chunk_tile(const linear_call &c, const linear_sequence &q,
                                     int64_t chunk) {
  if (!c.causal) return -1;
  const int64_t base = (q.position - (q.position % CHUNK + CHUNK) % CHUNK) / CHUNK;
  return max(chunk - base, (int64_t)-1);
}

/* ---- rows ---------------------------------------------------------------------------- */

__device__ inline float denominator_of(const linear_call &c, float lse, float shift, float top) {
  if (top == -INFINITY) return 0;
  const double gone = ((double)shift + (double)top) * 0.69314718055994530942 + c.map.log_factor;
  if (c.is_signed) return (float)((double)lse * exp(-gone));
  return lse == -INFINITY ? 0.f : (float)exp((double)lse - gone);
}

/* 1 / denominator and h of 64 rows, each by a warp. */
template <typename T>
__device__ inline void row_gradients(const linear_call &c, int b, int h, int64_t row,
                                     const linear_marks &x, float4 *out) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  for (int r = warp * 16; r < warp * 16 + 16; r++) {
    const int64_t i = row + r;
    float4 y = {0, 0, x.top[r], x.norm_q[r].y};
    if (i >= 0 && i < c.n) {
      float sum = 0;
      for (int m = lane; m < c.dim_v; m += 32)
        sum = fmaf(number(at<T>(c.d_o, b, h, i)[m * c.d_o.stride[3]]),
                   number(at<T>(c.o, b, h, i)[m * c.o.stride[3]]), sum);
      sum = warp_sum(sum);
      const float den = denominator_of(c, c.lse_in[((int64_t)b * c.heads + h) * c.n + i], y.w, y.z);
      if (den != 0) y.x = 1 / den, y.y = -sum / den;
    }
    if (lane == 0) out[r] = y;
  }
}

/* A slab of G and h [64][WLD], times factor[row] unless NULL. Rows without a denominator: zeros. */
template <typename T, typename E>
__device__ inline void load_gradients(const linear_call &c, int b, int h, int64_t row, int slab,
                                      const float4 *grad, const float *factor, int ld, E *to) {
  constexpr int columns = depth<E>();
  for (int x = threadIdx.x; x < CHUNK * columns; x += LINEAR_THREADS) {
    const int j = x / columns, i = x % columns, column = slab * 64 + i;
    const int64_t at_row = row + j;
    const float4 r = grad[j];
    float y = 0;
    if (at_row >= 0 && at_row < c.n && r.x != 0) {
      if (i < 64 && column < c.dim_v)
        y = number(at<T>(c.d_o, b, h, at_row)[column * c.d_o.stride[3]]) * r.x;
      if (i == 64 && slab == 0) y = r.y;
      if (factor) y = factor[j] == 0 ? 0.f : y * factor[j];
    }
    to[j * ld + i] = narrow<E>(y);
  }
}

/* A part of sums to rows of shared memory, zeros behind. */
template <typename E>
__device__ inline void load_part(const float *from, int ld, E *to) {
  constexpr int columns = depth<E>();
  for (int x = threadIdx.x; x < CHUNK * columns; x += LINEAR_THREADS) {
    const int f = x / columns, i = x % columns;
    to[f * ld + i] = narrow<E>(i < WIDE ? from[f * WIDE + i] : 0.f);
  }
}

/* What is NaN or infinite and masked must not reach what does not see it; rows that see it have
 * NaN in their denominators. */
template <typename E>
__device__ inline void make_finite(E *x, int ld) {
  for (int i = threadIdx.x; i < CHUNK * 64; i += LINEAR_THREADS) {
    E &y = x[i / 64 * ld + i % 64];
    if (!isfinite(number(y))) y = narrow<E>(0.f);
  }
}

/* Weights, or their derivatives, of the pairs of a tile and its chunk: masked, with shifts. */
template <typename E>
__device__ inline void store_pairs(const linear_call &c, const linear_marks &x,
                                   const float (&a)[32], int ld, E *to) {
  each_of(a, [&](int r, int j, float y) {
    if (!(j < x.visible[r] && x.real[j])) y = 0;
    if (c.shifts && y != 0) y *= power(fminf(x.norm_k[j].y - x.top[r], 0.f));
    to[r * ld + j] = narrow<E>(y);
  });
}

/* ---- through the map ----------------------------------------------------------------- */

struct map_gradient { /* of 64 rows, columns [64 slab, 64 slab + 64) of x */
  float dx[32];
  float sum[2]; /* of dphi phi, of the rows t / 4 and t / 4 + 8 of a warp */
};

__device__ inline void clear_monomials(const linear_call &c, float *dx) {
  for (int i = threadIdx.x; c.map.kind == CUDA_MAP_POLY && i < CHUNK * 68; i += LINEAR_THREADS)
    dx[i] = 0;
}

/* Poly: dx[row][variable] in order of features, a thread a row. d is dphi [64][ld]; dx [64][68]. */
__device__ inline void through_monomials(const linear_call &c, bool key, int tile, int slab,
                                         const float *x, const float *d, int ld, float *dx) {
  const int r = threadIdx.x, p = c.map.degree;
  if (r >= CHUNK) return;
  for (int j = 0; j < 64 && tile * 64 + j < c.map.count; j++) {
    const int f = tile * 64 + j;
    const uint16_t *variable = c.map.variables + (size_t)f * p;
    const float y = d[r * ld + j] * (key ? c.map.coef[f] : 1.f);
    for (int i = 0; i < p; i++) {
      const int to = variable[i] - slab * 64;
      if (variable[i] >= c.dim || to < 0 || to >= 64) continue;
      float product = y;
      for (int n = 0; n < p; n++)
        if (n != i && variable[n] < c.dim) product *= x[r * c.ldx + variable[n]];
      dx[r * 68 + to] += product;
    }
  }
}

/* Adds a tile's dphi. e: memory of 64 rows. All threads of the block call it. */
template <typename E>
__device__ inline void through_tile(const linear_call &c, bool key, int tile, int slab, const E *x,
                                    const E *phi, const E *w, float (&dphi)[32], E *e, int ld,
                                    float *monomials, map_gradient &out) {
  const int t = threadIdx.x % 32, low = threadIdx.x / 32 * 16 + t / 4;
  if (c.map.kind == CUDA_MAP_ELU) {
#pragma unroll
    for (int i = 0; i < 32; i++) {
      const int r = low + i / 2 % 2 * 8, j = i / 4 * 8 + t % 4 * 2 + i % 2;
      out.dx[i] = dphi[i] * fminf(number(phi[r * ld + j]), 1.f);
    }
    return;
  }
  __syncthreads();
  if (c.map.kind == CUDA_MAP_POLY) {
    each_of(dphi, [&](int r, int j, float y) { e[r * ld + j] = narrow<E>(y); });
    __syncthreads();
    if (sizeof(E) == 4)
      through_monomials(c, key, tile, slab, (const float *)x, (const float *)e, ld, monomials);
    return;
  }
  const bool two = two_kinds(c.map);
#pragma unroll
  for (int i = 0; i < 32; i++) {
    const int r = low + i / 2 % 2 * 8, j = i / 4 * 8 + t % 4 * 2 + i % 2;
    const float y = number(phi[r * ld + j]);
    out.sum[i / 2 % 2] += dphi[i] * y;
    if (!two) {
      e[r * ld + j] = narrow<E>(dphi[i] * y);
    } else if (i < 16) { /* register i + 16 has the second kind */
      const float z = number(phi[r * ld + j + 32]);
      e[r * ld + j] =
          narrow<E>(c.map.pairs ? dphi[i] * y - dphi[i + 16] * z : dphi[i + 16] * y - dphi[i] * z);
    }
  }
  __syncthreads();
  product_columns<64>(out.dx, e, ld, w + slab * 64, c.ldx, two ? 32 : 64);
}

/* The gradient by x of what through_tile has added up. */
template <typename E>
__device__ inline void finish_map(const linear_call &c, int slab, const E *x,
                                  const float *monomials, map_gradient &y) {
  const int t = threadIdx.x % 32, low = threadIdx.x / 32 * 16 + t / 4;
  const float unit = c.map.kind == CUDA_MAP_TRIG ? 6.28318530718f : 0.69314718056f;
  const float along = -2 * 0.69314718056f * c.map.norm;
  if (has_directions(c.map)) {
    const float sum[2] = {quad_sum(y.sum[0]), quad_sum(y.sum[1])};
#pragma unroll
    for (int i = 0; i < 32; i++) {
      const int r = low + i / 2 % 2 * 8, j = slab * 64 + i / 4 * 8 + t % 4 * 2 + i % 2;
      const float own = j < c.dim ? number(x[r * c.ldx + j]) : 0.f;
      y.dx[i] = unit * y.dx[i] + along * sum[i / 2 % 2] * own;
    }
  }
  if (c.map.kind != CUDA_MAP_POLY) return;
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 32; i++)
    y.dx[i] = monomials[(low + i / 2 % 2 * 8) * 68 + i / 4 * 8 + t % 4 * 2 + i % 2];
}

/* Whether a slab of x takes part in a tile of features. */
__device__ inline bool tile_of_slab(const linear_call &c, int tile, int slab) {
  return c.map.kind != CUDA_MAP_ELU || tile == slab;
}

/* ---- dq ------------------------------------------------------------------------------ */

template <typename T>
__device__ inline void store_gradient(const linear_call &c, const attend_view &to, int b, int h,
                                      int64_t row, int64_t rows, int slab, int width,
                                      const float (&y)[32]) {
  each_of(y, [&](int r, int j, float x) {
    const int column = slab * 64 + j;
    if (row + r >= 0 && row + r < rows && column < width)
      ((T *)at<T>(to, b, h, row + r))[column * to.stride[3]] = narrow<T>(x);
  });
}

/* Marks of the rows of a tile against its chunk; of rows that see all keys. */
__device__ inline void mark_tile(const linear_call &c, const linear_sequence &q, int64_t row,
                                 int64_t chunk, float2 before, linear_marks &x) {
  if (chunk <= last_chunk(q.keys)) {
    mark_rows(c, q, row, chunk, before, x);
  } else if (threadIdx.x < CHUNK) {
    const int64_t i = row + threadIdx.x;
    const bool sees = i >= 0 && i < q.queries && before.x > -INFINITY;
    x.visible[threadIdx.x] = 0;
    x.top[threadIdx.x] = sees ? before.x : -INFINITY;
    x.scale[threadIdx.x] = sees ? 1.f : 0.f;
  }
  __syncthreads();
}

/* a = G v^T of all slabs; g and v keep the last. */
template <typename T, typename E>
__device__ inline void pair_gradients(const linear_keys<T> &keys, int h, int64_t row, int64_t chunk,
                                      const linear_marks &x, const float4 *grad,
                                      const backward_layout<E> &m, float (&a)[32]) {
  typedef backward_layout<E> L;
#pragma unroll
  for (int i = 0; i < 32; i++) a[i] = 0;
  for (int slab = 0; slab < keys.c.slabs; slab++) {
    __syncthreads();
    load_gradients<T>(keys.c, keys.b, h, row, slab, grad, NULL, L::WLD, m.g);
    load_values(keys, chunk, slab, x.real, false, L::WLD, m.v);
    product_rows<64>(a, m.g, L::WLD, m.v, L::WLD, depth<E>());
  }
}

template <typename T, typename E>
__global__ void __launch_bounds__(LINEAR_THREADS) linear_dq(linear_call c) {
  extern __shared__ __align__(128) unsigned char shared[];
  __shared__ linear_marks x;
  __shared__ float4 grad[CHUNK];
  typedef backward_layout<E> L;
  const L m(shared, c);
  const int x_slabs = (c.dim + 63) / 64, b = blockIdx.z, h = blockIdx.y / x_slabs;
  const int x_slab = blockIdx.y % x_slabs, g = h / c.group, stack = b * c.kv_heads + g;
  const linear_keys<T> keys(c, b, g);
  const linear_sequence &q = keys.s;
  const int64_t row = tile_row(c, q, blockIdx.x), chunk = tile_chunk(c, q, blockIdx.x);
  const size_t of_tile = (size_t)(b * c.heads + h) * c.row_tiles + blockIdx.x;
  map_gradient out = {};
  if (row >= c.n) return;
  if (chunk < 0) {
    if (threadIdx.x < CHUNK) c.row_grad[of_tile * CHUNK + threadIdx.x] = {0, 0, -INFINITY, 0};
    store_gradient<T>(c, c.dq, b, h, row, c.n, x_slab, c.dim, out.dx);
    return;
  }
  const bool pairs = chunk <= last_chunk(q.keys);
  const size_t index = (size_t)stack * c.wave + chunk;
  const float2 before = c.before_m[index];
  load_rows<T>(c, c.q, b, h, row, c.n, m.x);
  clear_monomials(c, m.monomials);
  if (threadIdx.x < CHUNK) x.norm_k[threadIdx.x] = make_float2(0, -INFINITY);
  if (pairs) {
    load_flags(keys, chunk, x.real);
    load_keys(keys, chunk, x.real, m.k);
    load_norms(c, c.key_norm + index * CHUNK, x.real, x.norm_k);
  }
  load_norms(c, c.query_norm + of_tile * CHUNK, NULL, x.norm_q);
  mark_tile(c, q, row, chunk, before, x);
  row_gradients<T>(c, b, h, row, x, grad);
  __syncthreads();
  if (x_slab == 0 && threadIdx.x < CHUNK)
    c.row_grad[of_tile * CHUNK + threadIdx.x] = grad[threadIdx.x];
  if (pairs) {
    float a[32];
    pair_gradients<T>(keys, h, row, chunk, x, grad, m, a);
    store_pairs(c, x, a, L::LD, m.da);
  }
  const float *sums = c.slot + index * sum_floats(c);
  for (int tile = 0; tile < c.tiles; tile++) {
    if (!tile_of_slab(c, tile, x_slab)) continue;
    float dphi[32] = {};
    __syncthreads();
    if (has_directions(c.map)) {
      load_directions(c, tile, m.w);
      __syncthreads();
    }
    feature_tile(c, false, tile, m.x, x.norm_q, m.w, m.phi_q, L::LD);
    if (pairs) feature_tile(c, true, tile, m.k, x.norm_k, m.w, m.phi_k, L::LD);
    for (int slab = 0; slab < c.slabs && before.x > -INFINITY; slab++) {
      __syncthreads();
      load_gradients<T>(c, b, h, row, slab, grad, NULL, L::WLD, m.g);
      load_part(sums + (size_t)(tile * c.slabs + slab) * PART, L::WLD, m.s);
      __syncthreads();
      product_rows<64>(dphi, m.g, L::WLD, m.s, L::WLD, depth<E>());
    }
    const int low = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4;
#pragma unroll
    for (int i = 0; i < 32; i++) dphi[i] *= x.scale[low + i / 2 % 2 * 8];
    __syncthreads();
    if (pairs) {
      make_finite(m.phi_k, L::LD);
      __syncthreads();
      product_columns<64>(dphi, m.da, L::LD, m.phi_k, L::LD, 64);
    }
    through_tile(c, false, tile, x_slab, m.x, m.phi_q, m.w, dphi, m.e, L::LD, m.monomials, out);
  }
  finish_map(c, x_slab, m.x, m.monomials, out);
  const int low = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4;
#pragma unroll
  for (int i = 0; i < 32; i++)
    if (x.top[low + i / 2 % 2 * 8] == -INFINITY) out.dx[i] = 0;
  store_gradient<T>(c, c.dq, b, h, row, c.n, x_slab, c.dim, out.dx);
}

/* ---- sums over later rows ------------------------------------------------------------ */

/* Slot tile + 1 = sum of phi(q) G over the rows of a tile, all heads of the group in order. */
template <typename T, typename E>
__global__ void __launch_bounds__(LINEAR_THREADS) linear_row_sums(linear_call c) {
  extern __shared__ __align__(128) unsigned char shared[];
  __shared__ float4 grad[CHUNK];
  __shared__ float2 norm[CHUNK];
  __shared__ float factor[CHUNK];
  typedef backward_layout<E> L;
  const L m(shared, c);
  const int stack = blockIdx.y, b = stack / c.kv_heads, g = stack % c.kv_heads;
  const int tile = blockIdx.z / c.slabs, slab = blockIdx.z % c.slabs;
  const linear_sequence q = c.sequence[b];
  const int64_t row = tile_row(c, q, blockIdx.x), chunk = tile_chunk(c, q, blockIdx.x);
  if (row >= c.n || chunk < 0) return;
  const float before = c.before_m[(size_t)stack * c.wave + chunk].x;
  if (before == -INFINITY) return;
  if (has_directions(c.map)) load_directions(c, tile, m.w);
  float sum[WIDE / 2] = {};
  for (int h = g * c.group; h < (g + 1) * c.group; h++) {
    const size_t of_tile = ((size_t)(b * c.heads + h) * c.row_tiles + blockIdx.x) * CHUNK;
    __syncthreads();
    load_rows<T>(c, c.q, b, h, row, c.n, m.x);
    load_norms(c, c.query_norm + of_tile, NULL, norm);
    if (threadIdx.x < CHUNK) {
      const float4 r = c.row_grad[of_tile + threadIdx.x];
      grad[threadIdx.x] = r;
      factor[threadIdx.x] = r.z == -INFINITY ? 0.f : c.shifts ? power(before - r.z) : 1.f;
    }
    __syncthreads();
    load_gradients<T>(c, b, h, row, slab, grad, factor, L::WLD, m.g);
    feature_tile(c, false, tile, m.x, norm, m.w, m.phi_q, L::LD);
    __syncthreads();
    product_transposed<WIDE>(sum, m.phi_q, L::LD, m.g, L::WLD, CHUNK);
  }
  const size_t slot = ((size_t)stack * (c.row_tiles + 1) + blockIdx.x + 1) * sum_floats(c);
  float *to = c.later + slot + (size_t)blockIdx.z * PART;
  each_of(sum, [&](int f, int i, float x) { to[f * WIDE + i] = x; });
}

/* Slot tile + 1 becomes the sum over later tiles; slot 0: over all. */
__global__ void __launch_bounds__(256) linear_scan_rows(linear_call c) {
  enum { AHEAD = 8 };
  const size_t floats = sum_floats(c), e = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
  const int stack = blockIdx.y;
  const linear_sequence q = c.sequence[stack / c.kv_heads];
  float *slot = c.later + (size_t)stack * (c.row_tiles + 1) * floats + e, sum = 0, m = -INFINITY;
  float *later_m = c.later_m + (size_t)stack * (c.row_tiles + 1);
  for (int at = c.row_tiles; at > 0; at -= AHEAD) {
    float part[AHEAD];
#pragma unroll
    for (int i = 0; i < AHEAD; i++)
      part[i] = e < floats && at - i > 0 ? slot[(size_t)(at - i) * floats] : 0.f;
#pragma unroll
    for (int i = 0; i < AHEAD; i++) {
      if (at - i <= 0) break;
      const int64_t tile = at - i - 1, chunk = tile_chunk(c, q, tile);
      if (e < floats) slot[(size_t)(at - i) * floats] = sum;
      if (e == 0) later_m[at - i] = m;
      if (tile_row(c, q, tile) >= c.n) continue;
      const float before = chunk < 0 ? -INFINITY : c.before_m[(size_t)stack * c.wave + chunk].x;
      if (before == -INFINITY)
        sum = 0;
      else
        sum = m == -INFINITY ? part[i] : fmaf(power(before - m), sum, part[i]);
      m = before;
    }
  }
  if (e < floats) slot[0] = sum;
  if (e == 0) later_m[0] = m;
}

/* ---- dk and dv ----------------------------------------------------------------------- */

/* What a block of keys needs of itself. Returns the sums over later rows, NULL: there are none. */
template <typename T, typename E>
__device__ inline const float *load_chunk(const linear_keys<T> &keys, int64_t chunk, int64_t tile,
                                          const backward_layout<E> &m, linear_marks &x,
                                          float *factor) {
  const linear_call &c = keys.c;
  const int stack = keys.b * c.kv_heads + keys.g;
  const size_t at = (size_t)stack * (c.row_tiles + 1) + tile + 1;
  const float later_m = tile < c.row_tiles ? c.later_m[at] : -INFINITY;
  load_flags(keys, chunk, x.real);
  load_keys(keys, chunk, x.real, m.k);
  load_norms(c, c.key_norm + ((size_t)stack * c.wave + chunk) * CHUNK, x.real, x.norm_k);
  if (threadIdx.x < CHUNK) {
    const float s = x.norm_k[threadIdx.x].y;
    factor[threadIdx.x] = s == -INFINITY || later_m == -INFINITY ? 0.f : power(s - later_m);
  }
  __syncthreads();
  return later_m == -INFINITY ? NULL : c.later + at * sum_floats(c);
}

/* Rows of the chunk's own tile, of one head. */
template <typename T, typename E>
__device__ inline void load_tile(const linear_keys<T> &keys, int h, int64_t chunk, int64_t tile,
                                 const backward_layout<E> &m, linear_marks &x, float4 *grad) {
  const linear_call &c = keys.c;
  const int stack = keys.b * c.kv_heads + keys.g;
  const size_t of_tile = ((size_t)(keys.b * c.heads + h) * c.row_tiles + tile) * CHUNK;
  const int64_t row = tile_row(c, keys.s, tile);
  __syncthreads();
  load_rows<T>(c, c.q, keys.b, h, row, c.n, m.x);
  load_norms(c, c.query_norm + of_tile, NULL, x.norm_q);
  if (threadIdx.x < CHUNK) grad[threadIdx.x] = c.row_grad[of_tile + threadIdx.x];
  mark_tile(c, keys.s, row, chunk, c.before_m[(size_t)stack * c.wave + chunk], x);
}

__device__ inline bool has_pairs(const linear_call &c, const linear_sequence &q, int64_t chunk,
                                 int64_t tile) {
  return c.causal && tile >= 0 && tile < c.row_tiles && tile_row(c, q, tile) < c.n &&
         tile_chunk(c, q, tile) == chunk;
}

template <typename T, typename E>
__global__ void __launch_bounds__(LINEAR_THREADS) linear_dk(linear_call c) {
  extern __shared__ __align__(128) unsigned char shared[];
  __shared__ linear_marks x;
  __shared__ float4 grad[CHUNK];
  __shared__ float factor[CHUNK];
  typedef backward_layout<E> L;
  const L m(shared, c);
  const int x_slab = blockIdx.z, stack = blockIdx.y;
  const int b = stack / c.kv_heads, g = stack % c.kv_heads;
  const linear_keys<T> keys(c, b, g);
  const int64_t chunk = blockIdx.x, row = chunk * CHUNK;
  const int64_t tile = chunk_tile(c, keys.s, chunk);
  map_gradient out = {};
  if (chunk > last_chunk(keys.s.keys)) {
    store_gradient<T>(c, c.dk, b, g, row, c.real_stride, x_slab, c.dim, out.dx);
    return;
  }
  clear_monomials(c, m.monomials);
  const float *later = load_chunk(keys, chunk, tile, m, x, factor);
  const bool pairs = has_pairs(c, keys.s, chunk, tile);
  for (int f = 0; f < c.tiles; f++) {
    if (!tile_of_slab(c, f, x_slab)) continue;
    float dphi[32] = {};
    __syncthreads();
    if (has_directions(c.map)) load_directions(c, f, m.w);
    __syncthreads();
    feature_tile(c, true, f, m.k, x.norm_k, m.w, m.phi_k, L::LD);
    for (int slab = 0; slab < c.slabs && later; slab++) {
      __syncthreads();
      load_values(keys, chunk, slab, x.real, false, L::WLD, m.v);
      load_part(later + (size_t)(f * c.slabs + slab) * PART, L::WLD, m.s);
      __syncthreads();
      product_rows<64>(dphi, m.v, L::WLD, m.s, L::WLD, depth<E>());
    }
    const int low = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4;
#pragma unroll
    for (int i = 0; i < 32; i++) dphi[i] *= factor[low + i / 2 % 2 * 8];
    for (int h = g * c.group; h < (g + 1) * c.group && pairs; h++) {
      float a[32];
      load_tile(keys, h, chunk, tile, m, x, grad);
      pair_gradients<T>(keys, h, tile_row(c, keys.s, tile), chunk, x, grad, m, a);
      store_pairs(c, x, a, L::LD, m.da);
      feature_tile(c, false, f, m.x, x.norm_q, m.w, m.phi_q, L::LD);
      __syncthreads();
      make_finite(m.phi_q, L::LD);
      __syncthreads();
      product_transposed<64>(dphi, m.da, L::LD, m.phi_q, L::LD, 64);
    }
    through_tile(c, true, f, x_slab, m.k, m.phi_k, m.w, dphi, m.e, L::LD, m.monomials, out);
  }
  finish_map(c, x_slab, m.k, m.monomials, out);
  const int low = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4;
#pragma unroll
  for (int i = 0; i < 32; i++)
    if (x.norm_k[low + i / 2 % 2 * 8].y == -INFINITY) out.dx[i] = 0;
  store_gradient<T>(c, c.dk, b, g, row, c.real_stride, x_slab, c.dim, out.dx);
}

/* Rows whose gradients are not finite, as in G: NaN for the keys that they see. */
template <typename E>
__device__ inline void spread_non_finite(const linear_marks &x, E *g, int ldg, E *a, int ld) {
  const int r = threadIdx.x / 2;
  bool bad = false;
  for (int i = threadIdx.x % 2 * 32; i < threadIdx.x % 2 * 32 + 32; i++)
    if (!isfinite(number(g[r * ldg + i]))) bad = true, g[r * ldg + i] = narrow<E>(0.f);
  bad |= __shfl_xor_sync(~0u, bad, 1);
  for (int j = threadIdx.x % 2; bad && j < x.visible[r]; j += 2)
    if (x.real[j]) a[r * ld + j] = narrow<E>(NAN);
}

template <typename T, typename E>
__global__ void __launch_bounds__(LINEAR_THREADS) linear_dv(linear_call c) {
  extern __shared__ __align__(128) unsigned char shared[];
  __shared__ linear_marks x;
  __shared__ float4 grad[CHUNK];
  __shared__ float factor[CHUNK];
  typedef backward_layout<E> L;
  const L m(shared, c);
  const int slab = blockIdx.z, stack = blockIdx.y;
  const int b = stack / c.kv_heads, g = stack % c.kv_heads;
  const linear_keys<T> keys(c, b, g);
  const int64_t chunk = blockIdx.x, row = chunk * CHUNK;
  const int64_t tile = chunk_tile(c, keys.s, chunk);
  float dv[32] = {};
  if (chunk > last_chunk(keys.s.keys)) {
    store_gradient<T>(c, c.dv, b, g, row, c.real_stride, slab, c.dim_v, dv);
    return;
  }
  const float *later = load_chunk(keys, chunk, tile, m, x, factor);
  for (int f = 0; f < c.tiles && later; f++) {
    __syncthreads();
    if (has_directions(c.map)) load_directions(c, f, m.w);
    load_part(later + (size_t)(f * c.slabs + slab) * PART, L::WLD, m.s);
    __syncthreads();
    feature_tile(c, true, f, m.k, x.norm_k, m.w, m.phi_k, L::LD);
    __syncthreads();
    product_columns<64>(dv, m.phi_k, L::LD, m.s, L::WLD, 64);
  }
  const int low = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4;
#pragma unroll
  for (int i = 0; i < 32; i++) dv[i] *= factor[low + i / 2 % 2 * 8];
  const bool pairs = has_pairs(c, keys.s, chunk, tile);
  for (int h = g * c.group; h < (g + 1) * c.group && pairs; h++) {
    float a[32] = {};
    load_tile(keys, h, chunk, tile, m, x, grad);
    load_gradients<T>(c, b, h, tile_row(c, keys.s, tile), slab, grad, NULL, L::WLD, m.g);
    for (int f = 0; f < c.tiles; f++) {
      __syncthreads();
      if (has_directions(c.map)) load_directions(c, f, m.w);
      __syncthreads();
      feature_tile(c, false, f, m.x, x.norm_q, m.w, m.phi_q, L::LD);
      feature_tile(c, true, f, m.k, x.norm_k, m.w, m.phi_k, L::LD);
      __syncthreads();
      product_rows<64>(a, m.phi_q, L::LD, m.phi_k, L::LD, 64);
    }
    store_pairs(c, x, a, L::LD, m.da);
    __syncthreads();
    spread_non_finite(x, m.g, L::WLD, m.da, L::LD);
    __syncthreads();
    product_transposed<64>(dv, m.da, L::LD, m.g, L::WLD, 64);
  }
#pragma unroll
  for (int i = 0; i < 32; i++)
    if (x.norm_k[low + i / 2 % 2 * 8].y == -INFINITY) dv[i] = 0;
  store_gradient<T>(c, c.dv, b, g, row, c.real_stride, slab, c.dim_v, dv);
}

#endif
