/* Linear forms on the GPU: a call, its sources of keys, and feature maps of 64-row tiles.
 * attention/linear.h describes the algorithm: blocks of 64 keys at fixed positions, sums before
 * them, integer shifts. Here
 *
 *  - a chunk is a block of keys; SUPER chunks at fixed positions are a super. The sum before a super
 *    is S, joined from the sums T of supers in order; the sum before a chunk is R: S, to which the
 *    super's chunks are joined in order;
 *  - features come in tiles of 64: 64 of C; with two features a direction, 32 of each kind;
 *  - values come in slabs of 64 columns and a column of ones, whose sums are z.
 *
 * Features are computed where they are used, and never stored in the GPU's memory.
 */
#ifndef DEVICE_CUDA_LINEAR_MAPS_CUH
#define DEVICE_CUDA_LINEAR_MAPS_CUH

#include "device/cuda/linear_tiles.cuh"

enum {
  CHUNK = 64,
  SUPER = 16,
  WIDE = 72, /* columns of a slab: 64 values, the ones, 7 zeros */
  PART = CHUNK * WIDE,
  LINEAR_THREADS = 128
};

struct linear_sequence {
  int64_t first;      /* keys of the state: positions before them are in its block */
  int64_t keys;       /* with the new ones */
  int64_t position;   /* of query 0 */
  int64_t first_real; /* position of the first key that is not padding, if there is no state */
  int queries;        /* that are real */
  int pad;
};
__host__ __device__ inline int64_t last_chunk(int64_t keys) {
  return keys ? (keys - 1) / CHUNK : -1;
}
__host__ __device__ inline int64_t first_chunk(const linear_sequence &s) {
  return s.first ? (s.first - 1) / CHUNK : 0;
}

/* Behind the sums S, T and R of a stack, twice, for before and after a wave: shifts, and whether a
 * key is real. */
struct sum_tail {
  float m_s, m_t, m_r, seen;
};

struct linear_call {
  int batch, heads, kv_heads, group, n, dim, dim_v;
  bool causal, is_signed, shifts;
  int tiles, slabs;   /* of features, of values */
  int ldx;            /* of raw rows in shared memory */
  int64_t wave, from; /* chunks of a wave; the first of this one, counted from first_chunk */
  attend_view q, k, v, o, d_o, dq, dk, dv;
  float *lse;
  cuda_map map;
  const linear_sequence *sequence; /* [B] */
  const uint8_t *real;             /* [B][real_stride], or NULL */
  int64_t real_stride;
  unsigned char *state; /* [B][G], or NULL */
  size_t stack_bytes, element;
  float *carry;        /* [B G] S, T, R, sum_tail: the state's, or of the work memory */
  size_t carry_stride; /* floats */
  float *slot;         /* [B G][wave][tiles slabs][PART] */
  float2 *chunk_m,
      *before_m; /* [B G][wave] shift and whether a key is real: of a chunk, before it */
  float2 *key_norm, *query_norm; /* less and shift: [B G][wave][64]; [B H][query tiles][64] */
  unsigned long long *weak;
  /* Backward: chunks whose sums are taken reach to the last + ahead; gradients' numbers of rows. */
  int ahead, row_tiles;
  const float *lse_in;
  float4 *row_grad; /* [B H][row_tiles][64]: 1 / denominator, h, top, shift of the row */
  float *later;     /* [B G][row_tiles + 1][tiles slabs][PART] sums over later rows; may be slot */
  float *later_m;   /* [B G][row_tiles + 1] */
};

__device__ inline size_t sum_floats(const linear_call &c) {
  return (size_t)c.tiles * c.slabs * PART;
}
/* 2^e of an integer e <= 0 or -inf. */
__device__ inline float power(float e) {
  const int n = (int)fmaxf(e, -200.f);
  if (n < -126) return n < -149 ? 0.f : __int_as_float(1 << (n + 149));
  return __int_as_float((n + 127) << 23);
}

template <typename T>
__device__ inline const T *at(const attend_view &v, int64_t b, int64_t h, int64_t i) {
  return (const T *)v.data + b * v.stride[0] + h * v.stride[1] + i * v.stride[2];
}

/* ---- keys ---------------------------------------------------------------------------- */

/* Keys and values of a stack: in views, or before `first` in the state's block. */
template <typename T>
struct linear_keys {
  const linear_call &c;
  linear_sequence s;
  int b, g;
  const unsigned char *open; /* keys [64][D], values [64][M], flags [64] */

  __device__ linear_keys(const linear_call &call, int b, int g)
      : c(call), s(call.sequence[b]), b(b), g(g) {
    open = c.state ? c.state + (size_t)(b * c.kv_heads + g) * c.stack_bytes +
                         3 * sum_floats(c) * sizeof(float) + 2 * sizeof(sum_tail)
                   : NULL;
  }
  __device__ bool real(int64_t p) const {
    if (p >= s.keys) return false;
    if (p < s.first) return open[(size_t)CHUNK * (c.dim + c.dim_v) * sizeof(T) + p % CHUNK];
    return !c.real || c.real[b * c.real_stride + (p - s.first)];
  }
  __device__ float key(int64_t p, int i) const {
    if (p < s.first) return number(((const T *)open)[p % CHUNK * c.dim + i]);
    return number(at<T>(c.k, b, g, p - s.first)[i * c.k.stride[3]]);
  }
  __device__ float value(int64_t p, int i) const {
    if (p < s.first) return number(((const T *)open)[CHUNK * c.dim + p % CHUNK * c.dim_v + i]);
    return number(at<T>(c.v, b, g, p - s.first)[i * c.v.stride[3]]);
  }
};

/* Columns of a slab as products over them need: WIDE in multiples of 16 of k. */
template <typename E>
__host__ __device__ constexpr int depth() {
  return sizeof(E) == 4 ? WIDE : 80;
}

/* A chunk's flags; then its keys, and a slab of its values with the ones. Padding is zeros. Returns
 * whether a value is not finite. `finite`: such values become 0. */
template <typename T>
__device__ inline void load_flags(const linear_keys<T> &k, int64_t chunk, uint8_t *real) {
  if (threadIdx.x < CHUNK) real[threadIdx.x] = k.real(chunk * CHUNK + threadIdx.x);
  __syncthreads();
}
template <typename T, typename E>
__device__ inline void load_keys(const linear_keys<T> &k, int64_t chunk, const uint8_t *real,
                                 E *to) {
  const int wide = (k.c.dim + 15) / 16 * 16;
  for (int x = threadIdx.x; x < CHUNK * wide; x += LINEAR_THREADS) {
    const int j = x / wide, i = x % wide;
    to[j * k.c.ldx + i] = narrow<E>(real[j] && i < k.c.dim ? k.key(chunk * CHUNK + j, i) : 0.f);
  }
}
template <typename T, typename E>
__device__ inline bool load_values(const linear_keys<T> &k, int64_t chunk, int slab,
                                   const uint8_t *real, bool finite, int ld, E *to) {
  constexpr int columns = depth<E>();
  bool bad = false;
  for (int x = threadIdx.x; x < CHUNK * columns; x += LINEAR_THREADS) {
    const int j = x / columns, i = x % columns, column = slab * 64 + i;
    float y = i == 64 && real[j] ? 1.f : 0.f;
    if (i < 64 && column < k.c.dim_v && real[j]) y = k.value(chunk * CHUNK + j, column);
    if (!isfinite(y)) {
      bad = true;
      if (finite) y = 0;
    }
    to[j * ld + i] = narrow<E>(y);
  }
  return __syncthreads_or(bad);
}

/* 64 rows of a view from `row` on, zeros beyond `rows` and the width. */
template <typename T, typename E>
__device__ inline void load_rows(const linear_call &c, const attend_view &v, int b, int h,
                                 int64_t row, int64_t rows, E *to) {
  const int wide = (c.dim + 15) / 16 * 16;
  for (int x = threadIdx.x; x < CHUNK * wide; x += LINEAR_THREADS) {
    const int j = x / wide, i = x % wide;
    float y = 0;
    if (row + j >= 0 && row + j < rows && i < c.dim)
      y = number(at<T>(v, b, h, row + j)[i * v.stride[3]]);
    to[j * c.ldx + i] = narrow<E>(y);
  }
}

/* ---- random directions --------------------------------------------------------------- */

__device__ inline bool two_kinds(const cuda_map &m) { return m.pairs || m.kind == CUDA_MAP_TRIG; }
__device__ inline bool has_directions(const cuda_map &m) {
  return m.kind == CUDA_MAP_POSITIVE || m.kind == CUDA_MAP_TRIG;
}

/* Directions of a tile, in rows; for bf16 their rest in 64 rows more. Rows past the last: zeros. */
template <typename E>
__device__ inline void load_directions(const linear_call &c, int tile, E *to) {
  const int rows = two_kinds(c.map) ? 32 : 64, wide = (c.dim + 15) / 16 * 16;
  for (int x = threadIdx.x; x < rows * wide; x += LINEAR_THREADS) {
    const int j = x / wide, i = x % wide, r = tile * rows + j;
    const float w = r < c.map.dirs && i < c.dim ? c.map.w[(size_t)r * c.dim + i] : 0.f;
    const E high = narrow<E>(w);
    to[j * c.ldx + i] = high;
    if (sizeof(E) == 2) to[(64 + j) * c.ldx + i] = narrow<E>(w - number(high));
  }
}
/* along[row][direction] = w.x, in f32 or in two terms of w. */
template <int N, typename E>
__device__ inline void project(const linear_call &c, const E *x, const E *w,
                               float (&along)[N / 2]) {
  const int wide = (c.dim + 15) / 16 * 16;
#pragma unroll
  for (int i = 0; i < N / 2; i++) along[i] = 0;
  if (sizeof(E) == 2) product_rows<N>(along, x, c.ldx, w + 64 * c.ldx, c.ldx, wide);
  product_rows<N>(along, x, c.ldx, w, c.ldx, wide);
}

/* ---- features ------------------------------------------------------------------------ */

__device__ inline float exp2_of(float x, float) { return exp2f(x); }
__device__ inline float exp2_of(float x, bf16) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
template <typename E>
__device__ inline float elu_feature(float x) {
  return x > 0 ? x + 1.f : sizeof(E) == 4 ? expf(x) : exp2_of(x * 1.44269504f, bf16());
}

/* phi of 64 directions: 2^(along - less - shift). */
template <typename E>
__device__ inline void positive_tile(const linear_call &c, int tile, const E *x, const float2 *norm,
                                     const E *w, E *phi, int ld) {
  float along[32];
  project<64>(c, x, w, along);
  each_of(along, [&](int r, int j, float a) {
    const bool in = tile * 64 + j < c.map.dirs && norm[r].y > -INFINITY;
    phi[r * ld + j] = narrow<E>(in ? exp2_of(a - norm[r].x - norm[r].y, E()) : 0.f);
  });
}
/* 32 directions: 2^along and 2^-along; or factor cos and factor sin, along in revolutions. */
template <typename E>
__device__ inline void double_tile(const linear_call &c, int tile, const E *x, const float2 *norm,
                                   const E *w, E *phi, int ld) {
  float along[16];
  project<32>(c, x, w, along);
  each_of(along, [&](int r, int j, float a) {
    float up = 0, down = 0;
    const float2 n = norm[r];
    if (tile * 32 + j < c.map.dirs && n.y > -INFINITY) {
      if (c.map.pairs) {
        up = exp2_of(a - n.x - n.y, E()), down = exp2_of(-a - n.x - n.y, E());
      } else {
        const float factor = exp2f(-n.x - n.y);
        sincospif(2 * (a - rintf(a)), &down, &up);
        up *= factor, down *= factor;
      }
    }
    phi[r * ld + j] = narrow<E>(up), phi[r * ld + 32 + j] = narrow<E>(down);
  });
}

template <typename E>
__device__ inline float monomial(const linear_call &c, int f, const E *x) {
  float y = 1;
  for (int i = 0; i < c.map.degree; i++) {
    const int variable = c.map.variables[(size_t)f * c.map.degree + i];
    if (variable < c.dim) y *= number(x[variable]);
  }
  return y;
}
template <typename E>
__device__ inline void plain_tile(const linear_call &c, bool key, int tile, const E *x,
                                  const float2 *norm, E *phi, int ld) {
  for (int i = threadIdx.x; i < CHUNK * 64; i += LINEAR_THREADS) {
    const int r = i / 64, j = i % 64, f = tile * 64 + j;
    float y = 0;
    if (f < c.map.count && norm[r].y > -INFINITY)
      y = c.map.kind == CUDA_MAP_ELU ? elu_feature<E>(number(x[r * c.ldx + f]))
                                     : monomial(c, f, x + r * c.ldx) * (key ? c.map.coef[f] : 1.f);
    phi[r * ld + j] = narrow<E>(y);
  }
}

/* Features of a tile: phi [64][ld] of rows x, whose norm is less and shift; shift -inf: zeros. w is
 * the tile's directions, loaded. */
template <typename E>
__device__ inline void feature_tile(const linear_call &c, bool key, int tile, const E *x,
                                    const float2 *norm, const E *w, E *phi, int ld) {
  if (!has_directions(c.map))
    plain_tile(c, key, tile, x, norm, phi, ld);
  else if (two_kinds(c.map))
    double_tile(c, tile, x, norm, w, phi, ld);
  else
    positive_tile(c, tile, x, norm, w, phi, ld);
}

/* ---- norms and shifts ---------------------------------------------------------------- */

/* less[row] = norm |x|^2, each row by a warp. */
template <typename E>
__device__ inline void row_norms(const linear_call &c, const E *x, float *less) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  for (int r = warp * 16; r < warp * 16 + 16; r++) {
    float sum = 0;
    for (int i = lane; i < c.dim; i += 32) {
      const float y = number(x[r * c.ldx + i]);
      sum = fmaf(y, y, sum);
    }
    sum = warp_sum(sum);
    if (lane == 0) less[r] = sum * c.map.norm;
  }
}

/* The largest exponent of each row over all directions. */
template <int N, typename E>
__device__ inline void row_tops(const linear_call &c, const E *x, E *w, float (&top)[2]) {
  top[0] = top[1] = -INFINITY;
  for (int tile = 0; tile * N < c.map.dirs; tile++) {
    float along[N / 2];
    __syncthreads();
    load_directions(c, tile, w);
    __syncthreads();
    project<N>(c, x, w, along);
    const int t = threadIdx.x % 4;
#pragma unroll
    for (int i = 0; i < N / 2; i++) {
      const bool in = tile * N + i / 4 * 8 + 2 * t + i % 2 < c.map.dirs;
      if (in) top[i / 2 % 2] = fmaxf(top[i / 2 % 2], N == 32 ? fabsf(along[i]) : along[i]);
    }
  }
  top[0] = quad_max(top[0]), top[1] = quad_max(top[1]);
}

__device__ inline float shift_of(float exponent) {
  if (exponent == -INFINITY) return -INFINITY; /* a norm that no float holds: no features */
  return isfinite(exponent) ? ceilf(exponent) : 0.f;
}

/* norm[row] = less and shift of 64 rows. w: memory for directions. */
template <typename E>
__device__ inline void norm_rows(const linear_call &c, const E *x, E *w, float *less,
                                 float2 *norm) {
  row_norms(c, x, less);
  __syncthreads();
  if (c.map.kind == CUDA_MAP_TRIG) {
    if (threadIdx.x < CHUNK) {
      const float n = less[threadIdx.x];
      norm[threadIdx.x] = make_float2(n, isfinite(n) ? ceilf(-n) : 0.f);
    }
    return;
  }
  float top[2];
  if (c.map.pairs)
    row_tops<32>(c, x, w, top);
  else
    row_tops<64>(c, x, w, top);
  if (threadIdx.x % 4) return;
  for (int i = 0; i < 2; i++) {
    const int r = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4 + 8 * i;
    norm[r] = make_float2(less[r], shift_of(top[i] - less[r]));
  }
}

/* What linear_norms has stored; without exponentials 0; padding -inf. All threads call it. */
__device__ inline void load_norms(const linear_call &c, const float2 *from, const uint8_t *real,
                                  float2 *norm) {
  if (threadIdx.x < CHUNK) {
    float2 n = c.shifts ? from[threadIdx.x] : make_float2(0.f, 0.f);
    if (real && !real[threadIdx.x]) n.y = -INFINITY;
    norm[threadIdx.x] = n;
  }
  __syncthreads();
}

/* ---- sums -------------------------------------------------------------------------------- */

/* a 2^-top = a 2^-m + part 2^-m_part: a sum, and the shift that it gets. -inf: empty. */
__device__ inline float join(float sum, float m, float part, float m_part) {
  const float top = fmaxf(m, m_part);
  if (m_part == -INFINITY) return sum;
  if (m == -INFINITY) return part;
  return fmaf(power(m_part - top), part, power(m - top) * sum);
}

/* ---- results of rows ----------------------------------------------------------------- */

__device__ inline float reciprocal(float x) {
  float y;
  asm("rcp.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
/* Relative to 2^(shift + top). */
__device__ inline float lse_of(const linear_call &c, float den, float shift, float top) {
  if (c.is_signed)
    return den == 0 || top == -INFINITY
               ? 0.f
               : (float)((double)den * exp2((double)shift + (double)top +
                                            c.map.log_factor * 1.44269504088896340736));
  if (den == 0) return -INFINITY;
  return fmaf(shift + top, 0.69314718056f, logf(den) + (float)c.map.log_factor);
}
__device__ inline bool is_lost(float den, float size) {
  return fabsf(den) < 0x1p-100f || isinf(den) || fabsf(den) < 1e-3f * size;
}

/* linear_scan.cu: whether it takes a call, of 16-byte rows; its launches. */
bool linear_scan_fits(const linear_call &c, attend_dtype dtype);
void linear_scan_forward(cuda_gpu *gpu, linear_call &c, int64_t chunks);
bool linear_scan_fits_backward(const linear_call &c, attend_dtype dtype,
                               const linear_sequence *host);
void linear_scan_backward(cuda_gpu *gpu, linear_call &c);

#endif
