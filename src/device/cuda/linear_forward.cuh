/* Linear forms, forward, for every shape and form: sums of chunks in parallel, their prefix sums in
 * order, then rows in tiles. T is the type in memory, E the type of products (linear_tiles.cuh).
 */
#ifndef DEVICE_CUDA_LINEAR_FORWARD_CUH
#define DEVICE_CUDA_LINEAR_FORWARD_CUH

#include "device/cuda/linear_maps.cuh"

/* Shared memory of the kernels: tiles of E, rows padded. */
template <typename E>
struct linear_layout {
  enum { LD = 64 + padding<E>::elements, WLD = sizeof(E) == 4 ? 76 : 88 };
  E *x, *k, *w, *phi_q, *phi_k, *v, *a;
  static __host__ __device__ int w_elements(int ldx) {
    const int directions = 64 * ldx * (sizeof(E) == 2 ? 2 : 1);
    return directions > 64 * WLD ? directions : 64 * WLD;
  }
  __device__ linear_layout(unsigned char *shared, int ldx) {
    w = (E *)shared;
    x = w + w_elements(ldx);
    k = x + 64 * ldx;
    phi_q = k + 64 * ldx;
    phi_k = phi_q + 64 * LD;
    v = phi_k + 64 * LD;
    a = phi_q;
  }
  static __host__ int bytes(int ldx) {
    return (w_elements(ldx) + 2 * 64 * ldx + 2 * 64 * LD + 64 * WLD) * (int)sizeof(E);
  }
};

/* ---- norms --------------------------------------------------------------------------- */

template <typename T, typename E>
__global__ void __launch_bounds__(LINEAR_THREADS) linear_key_norms(linear_call c) {
  extern __shared__ __align__(128) unsigned char shared[];
  __shared__ uint8_t real[CHUNK];
  __shared__ float less[CHUNK];
  const linear_layout<E> m(shared, c.ldx);
  const int stack = blockIdx.y;
  const linear_keys<T> keys(c, stack / c.kv_heads, stack % c.kv_heads);
  const int64_t chunk = first_chunk(keys.s) + c.from + blockIdx.x;
  if (chunk > last_chunk(keys.s.keys)) return;
  load_flags(keys, chunk, real);
  load_keys(keys, chunk, real, m.k);
  __syncthreads();
  norm_rows(c, m.k, m.w, less, c.key_norm + ((size_t)stack * c.wave + blockIdx.x) * CHUNK);
}

/* Rows of queries lie in tiles whose first position is a multiple of 64 where they are causal. */
__device__ inline int64_t tile_row(const linear_call &c, const linear_sequence &s, int64_t tile) {
  if (!c.causal) return tile * CHUNK;
  const int64_t ahead = (s.position % CHUNK + CHUNK) % CHUNK;
  return tile * CHUNK - ahead;
}

template <typename T, typename E>
__global__ void __launch_bounds__(LINEAR_THREADS) linear_query_norms(linear_call c) {
  extern __shared__ __align__(128) unsigned char shared[];
  __shared__ float less[CHUNK];
  const linear_layout<E> m(shared, c.ldx);
  const int b = blockIdx.z, h = blockIdx.y;
  load_rows<T>(c, c.q, b, h, tile_row(c, c.sequence[b], blockIdx.x), c.n, m.x);
  __syncthreads();
  norm_rows(c, m.x, m.w, less,
            c.query_norm + ((size_t)(b * c.heads + h) * gridDim.x + blockIdx.x) * CHUNK);
}

/* ---- sums of chunks ------------------------------------------------------------------ */

/* The largest shift, and whether a key is real. */
__device__ inline float2 chunk_top(const float2 *norm, const uint8_t *real) {
  const int lane = threadIdx.x % 32;
  const float m = warp_max(fmaxf(norm[lane].y, norm[lane + 32].y));
  return make_float2(m, __any_sync(~0u, real[lane] || real[lane + 32]) ? 1.f : 0.f);
}

template <typename T, typename E>
__global__ void __launch_bounds__(LINEAR_THREADS) linear_sums(linear_call c) {
  extern __shared__ __align__(128) unsigned char shared[];
  __shared__ uint8_t real[CHUNK];
  __shared__ float2 norm[CHUNK];
  typedef linear_layout<E> L;
  const L m(shared, c.ldx);
  const int stack = blockIdx.y, tile = blockIdx.z / c.slabs, slab = blockIdx.z % c.slabs;
  const size_t index = (size_t)stack * c.wave + blockIdx.x;
  const linear_keys<T> keys(c, stack / c.kv_heads, stack % c.kv_heads);
  const int64_t chunk = first_chunk(keys.s) + c.from + blockIdx.x;
  if (chunk >= last_chunk(keys.s.keys) + c.ahead) return;
  load_flags(keys, chunk, real);
  load_keys(keys, chunk, real, m.k);
  load_values(keys, chunk, slab, real, false, L::WLD, m.v);
  if (has_directions(c.map)) load_directions(c, tile, m.w);
  load_norms(c, c.key_norm + index * CHUNK, real, norm);
  const float2 top = chunk_top(norm, real);
  if (blockIdx.z == 0 && threadIdx.x == 0) c.chunk_m[index] = top;
  feature_tile(c, true, tile, m.k, norm, m.w, m.phi_k, L::LD);
  __syncthreads();
  for (int i = threadIdx.x; c.shifts && i < CHUNK * 64; i += LINEAR_THREADS) {
    const float s = norm[i / 64].y;
    E &phi = m.phi_k[i / 64 * L::LD + i % 64];
    phi = narrow<E>(s == -INFINITY ? 0.f : number(phi) * power(s - top.x));
  }
  __syncthreads();
  float sum[WIDE / 2] = {};
  product_transposed<WIDE>(sum, m.phi_k, L::LD, m.v, L::WLD, CHUNK);
  float *to = c.slot + (index * c.tiles * c.slabs + blockIdx.z) * PART;
  each_of(sum, [&](int f, int i, float x) { to[f * WIDE + i] = x; });
}

/* ---- prefix sums --------------------------------------------------------------------- */

/* One element of the sums of a stack. In place: slot r becomes the sum before chunk r. */
__global__ void __launch_bounds__(256) linear_scan(linear_call c) {
  enum { AHEAD = 8 };
  const size_t floats = sum_floats(c), e = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
  const int stack = blockIdx.y;
  const linear_sequence q = c.sequence[stack / c.kv_heads];
  const int64_t begin = first_chunk(q), last = last_chunk(q.keys) + c.ahead;
  float *carry = c.carry + (size_t)stack * c.carry_stride;
  sum_tail tail = *(sum_tail *)(carry + 3 * floats);
  float s = 0, t = 0, sum = 0;
  if (c.from == 0 && begin == 0)
    tail = {-INFINITY, -INFINITY, -INFINITY, 0};
  else if (e < floats)
    s = carry[e], t = carry[floats + e], sum = carry[2 * floats + e];
  __syncthreads(); /* every thread of this block has read the tail */
  const size_t index = (size_t)stack * c.wave;
  float *slot = c.slot + index * floats + e;
  for (int64_t r = 0; r < c.wave && begin + c.from + r <= last; r += AHEAD) {
    float part[AHEAD];
#pragma unroll
    for (int i = 0; i < AHEAD; i++) /* those of no chunk are not used */
      part[i] = e < floats && r + i < c.wave ? slot[(size_t)(r + i) * floats] : 0.f;
#pragma unroll
    for (int i = 0; i < AHEAD; i++) {
      const int64_t chunk = begin + c.from + r + i;
      if (r + i >= c.wave || chunk > last) break;
      if (chunk % SUPER == 0) {
        s = sum = join(s, tail.m_s, t, tail.m_t), t = 0;
        tail.m_s = tail.m_r = fmaxf(tail.m_s, tail.m_t), tail.m_t = -INFINITY;
      }
      if (e < floats) slot[(size_t)(r + i) * floats] = sum;
      if (e == 0) c.before_m[index + r + i] = make_float2(tail.m_r, tail.seen);
      if (chunk == last) break;
      const float2 top = c.chunk_m[index + r + i];
      t = join(t, tail.m_t, part[i], top.x);
      sum = join(sum, tail.m_r, part[i], top.x);
      tail.m_t = fmaxf(tail.m_t, top.x), tail.m_r = fmaxf(tail.m_r, top.x);
      tail.seen = fmaxf(tail.seen, top.y);
    }
  }
  if (e < floats) carry[e] = s, carry[floats + e] = t, carry[2 * floats + e] = sum;
  if (e == 0) ((sum_tail *)(carry + 3 * floats))[1] = tail; /* other blocks may still read [0] */
}

/* After a wave: the tail that the scan wrote. After the last: the keys behind the sums, of a state. */
template <typename T>
__global__ void __launch_bounds__(256) linear_keep(linear_call c, bool whole) {
  const int stack = blockIdx.x, b = stack / c.kv_heads, g = stack % c.kv_heads;
  sum_tail *tail = (sum_tail *)(c.carry + (size_t)stack * c.carry_stride + 3 * sum_floats(c));
  if (threadIdx.x == 0) tail[0] = tail[1];
  if (!whole) return;
  const linear_sequence q = c.sequence[b];
  unsigned char *open = (unsigned char *)(tail + 2);
  T *keys = (T *)open, *values = keys + CHUNK * c.dim;
  uint8_t *real = (uint8_t *)(values + CHUNK * c.dim_v);
  const int64_t begin = max(q.first, last_chunk(q.keys) * CHUNK);
  const int n = (int)(q.keys - begin), slot = (int)(begin % CHUNK);
  for (int i = threadIdx.x; i < n; i += blockDim.x)
    real[slot + i] = !c.real || c.real[b * c.real_stride + (begin - q.first) + i];
  for (int i = threadIdx.x; i < n * c.dim; i += blockDim.x)
    keys[slot * c.dim + i] =
        at<T>(c.k, b, g, begin - q.first + i / c.dim)[i % c.dim * c.k.stride[3]];
  for (int i = threadIdx.x; i < n * c.dim_v; i += blockDim.x)
    values[slot * c.dim_v + i] =
        at<T>(c.v, b, g, begin - q.first + i / c.dim_v)[i % c.dim_v * c.v.stride[3]];
}

/* ---- rows ---------------------------------------------------------------------------- */

struct linear_marks { /* of a tile of rows and the chunk that their keys end in */
  uint8_t real[CHUNK];
  float2 norm_q[CHUNK], norm_k[CHUNK];
  float before[CHUNK]; /* the largest shift up to each key */
  uint8_t seen[CHUNK]; /* whether a key up to here is real */
  int visible[CHUNK];  /* keys of the chunk that a row sees; 0: it sees nothing */
  float top[CHUNK], scale[CHUNK], size[CHUNK];
};

/* Prefixes of shifts; what each row sees; its top and the factor of the sums before the chunk. */
__device__ inline void mark_rows(const linear_call &c, const linear_sequence &q, int64_t row,
                                 int64_t chunk, float2 before, linear_marks &x) {
  const int i = threadIdx.x;
  if (i < CHUNK) {
    float m = -INFINITY;
    uint8_t seen = 0;
    for (int j = 0; j <= i; j++) m = fmaxf(m, x.norm_k[j].y), seen |= x.real[j];
    x.before[i] = m, x.seen[i] = seen;
  }
  __syncthreads();
  if (i >= CHUNK) return;
  int64_t end = q.keys;
  if (c.causal) end = min(end, q.position + row + i + 1);
  const bool is_row = row + i >= 0 && row + i < q.queries;
  const int visible = is_row && end > chunk * CHUNK ? (int)(end - chunk * CHUNK) : 0;
  float top = -INFINITY;
  if (visible) top = fmaxf(before.x, x.before[visible - 1]);
  x.visible[i] = visible;
  x.scale[i] = before.x == -INFINITY || top == -INFINITY ? 0.f : power(before.x - top);
  x.top[i] = top;
  x.size[i] = 0;
}

/* size[row] += sum_f |phi_f z_f| of a tile: two threads a row. */
template <typename E>
__device__ inline void add_sizes(const E *phi, int ld, const E *s, int lds, float *size) {
  const int r = threadIdx.x / 2, half = threadIdx.x % 2 * 32;
  float sum = 0;
  for (int f = half; f < half + 32; f++)
    sum += fabsf(number(phi[r * ld + f]) * number(s[f * lds + 64]));
  sum += __shfl_xor_sync(~0u, sum, 1);
  if (threadIdx.x % 2 == 0) size[r] += sum;
}

/* Values that are not finite, which are 0 in shared memory, reach the rows that see them. */
template <typename T, typename E>
__device__ inline void add_non_finite(const linear_keys<T> &k, int64_t chunk, int slab,
                                      const linear_marks &x, const E *a, int ld,
                                      float (&o)[WIDE / 2]) {
  const int t = threadIdx.x % 32, m = threadIdx.x / 32 * 16 + t / 4;
  for (int j = 0; j < CHUNK; j++) {
    if (!x.real[j]) continue;
#pragma unroll
    for (int i = 0; i < 32; i++) {
      const int r = m + i / 2 % 2 * 8, column = slab * 64 + i / 4 * 8 + t % 4 * 2 + i % 2;
      if (x.visible[r] <= j || column >= k.c.dim_v) continue;
      const float v = k.value(chunk * CHUNK + j, column);
      if (!isfinite(v)) o[i] += number(a[r * ld + j]) * v;
    }
  }
}

/* Outputs, lse and weak rows; o[.][64] is the denominator. */
template <typename T>
__device__ inline void store_rows(const linear_call &c, int b, int h, int64_t row, int slab,
                                  bool seen_before, const linear_marks &x,
                                  const float (&o)[WIDE / 2]) {
  const int t = threadIdx.x % 32;
#pragma unroll
  for (int half = 0; half < 2; half++) {
    const int r = threadIdx.x / 32 * 16 + t / 4 + 8 * half;
    float den = __shfl_sync(~0u, o[32 + 2 * half], t & ~3);
    const int64_t i = row + r;
    if (i < 0 || i >= c.n) continue;
    if (x.top[r] == -INFINITY) den = 0;
    T *to = (T *)at<T>(c.o, b, h, i);
    const float factor = den == 0 ? 0.f : reciprocal(den);
#pragma unroll
    for (int j = 0; j < 16; j++) {
      const int column = slab * 64 + j / 2 * 8 + t % 4 * 2 + j % 2;
      const float y = den == 0 ? 0.f : o[j / 2 * 4 + 2 * half + j % 2] * factor;
      if (column < c.dim_v) to[column * c.o.stride[3]] = narrow<T>(y);
    }
    if (slab || t % 4) continue;
    const float lse = c.lse || c.is_signed ? lse_of(c, den, x.norm_q[r].y, x.top[r]) : 0.f;
    if (c.lse) c.lse[((int64_t)b * c.heads + h) * c.n + i] = lse;
    const bool sees = x.visible[r] && (seen_before || x.seen[x.visible[r] - 1]);
    if (c.weak && sees && (is_lost(den, x.size[r]) || (c.is_signed && isinf(lse))))
      atomicAdd(c.weak, 1ull);
  }
}

/* One tile of 64 rows of a head, one slab of values. */
template <typename T, typename E>
__global__ void __launch_bounds__(LINEAR_THREADS) linear_rows(linear_call c) {
  extern __shared__ __align__(128) unsigned char shared[];
  __shared__ linear_marks x;
  typedef linear_layout<E> L;
  const L m(shared, c.ldx);
  const int b = blockIdx.z, h = blockIdx.y / c.slabs, slab = blockIdx.y % c.slabs;
  const int g = h / c.group, stack = b * c.kv_heads + g;
  const linear_keys<T> keys(c, b, g);
  const linear_sequence &q = keys.s;
  const int64_t row = tile_row(c, q, blockIdx.x), last = last_chunk(q.keys);
  if (row >= c.n) return;
  int64_t chunk = last; /* that the keys of these rows end in; -1: no key */
  if (c.causal) {
    const int64_t p = q.position + row; /* a multiple of 64 */
    chunk = min(last, p >= 0 ? p / CHUNK : -1);
  }
  const int64_t r = chunk - first_chunk(q) - c.from;
  float o[WIDE / 2] = {};
  if (chunk < 0) { /* these rows see no key */
    if (c.from) return;
    if (threadIdx.x < CHUNK)
      x.top[threadIdx.x] = -INFINITY, x.visible[threadIdx.x] = 0, x.size[threadIdx.x] = 0,
      x.norm_q[threadIdx.x] = make_float2(0, 0);
    __syncthreads();
    store_rows<T>(c, b, h, row, slab, false, x, o);
    return;
  }
  if (r < 0 || r >= c.wave) return;
  const size_t index = (size_t)stack * c.wave + r;
  const float2 before = c.before_m[index];
  load_flags(keys, chunk, x.real);
  load_keys(keys, chunk, x.real, m.k);
  load_rows<T>(c, c.q, b, h, row, c.n, m.x);
  const bool bad = load_values(keys, chunk, slab, x.real, true, L::WLD, m.v);
  load_norms(c, c.key_norm + index * CHUNK, x.real, x.norm_k);
  load_norms(c, c.query_norm + ((size_t)(b * c.heads + h) * gridDim.x + blockIdx.x) * CHUNK, NULL,
             x.norm_q);
  mark_rows(c, q, row, chunk, before, x);
  float a[32] = {};
  const float *sums = c.slot + index * sum_floats(c);
  for (int tile = 0; tile < c.tiles; tile++) {
    __syncthreads();
    if (has_directions(c.map)) {
      load_directions(c, tile, m.w);
      __syncthreads();
    }
    feature_tile(c, false, tile, m.x, x.norm_q, m.w, m.phi_q, L::LD);
    feature_tile(c, true, tile, m.k, x.norm_k, m.w, m.phi_k, L::LD);
    __syncthreads();
    product_rows<64>(a, m.phi_q, L::LD, m.phi_k, L::LD, 64);
    if (before.x == -INFINITY) continue;
    const float *s = sums + (size_t)(tile * c.slabs + slab) * PART;
    for (int i = threadIdx.x; i < PART; i += LINEAR_THREADS)
      m.w[i / WIDE * L::WLD + i % WIDE] = narrow<E>(s[i]);
    __syncthreads();
    product_columns<WIDE>(o, m.phi_q, L::LD, m.w, L::WLD, 64);
    if (c.is_signed) add_sizes(m.phi_q, L::LD, m.w, L::WLD, x.size);
  }
  __syncthreads(); /* phi_q becomes a */
  const int t = threadIdx.x % 32, low = threadIdx.x / 32 * 16 + t / 4;
  float size[2] = {0, 0};
#pragma unroll
  for (int i = 0; i < WIDE / 2; i++) o[i] *= x.scale[low + i / 2 % 2 * 8];
#pragma unroll
  for (int i = 0; i < 32; i++) {
    const int row_of = low + i / 2 % 2 * 8, j = i / 4 * 8 + t % 4 * 2 + i % 2;
    float y = j < x.visible[row_of] && x.real[j] ? a[i] : 0.f;
    if (c.shifts && y != 0) y *= power(fminf(x.norm_k[j].y - x.top[row_of], 0.f));
    size[i / 2 % 2] += fabsf(y);
    m.a[row_of * L::LD + j] = narrow<E>(y);
  }
  if (c.is_signed)
    for (int half = 0; half < 2; half++) {
      const float in_chunk = quad_sum(size[half]);
      const int row_of = low + 8 * half;
      if (t % 4 == 0) x.size[row_of] = x.size[row_of] * x.scale[row_of] + in_chunk;
    }
  __syncthreads();
  product_columns<WIDE>(o, m.a, L::LD, m.v, L::WLD, 64);
  if (bad) add_non_finite(keys, chunk, slab, x, m.a, L::LD, o);
  store_rows<T>(c, b, h, row, slab, before.y > 0, x, o);
}

#endif
