/* Tiles of attention pair by pair: loading rows and panels into shared memory, scores, weights. */
#ifndef DEVICE_CUDA_PAIRS_TILES_CUH
#define DEVICE_CUDA_PAIRS_TILES_CUH

#include <limits.h>

#include "device/cuda/pairs.cuh"

/* ---- loading ------------------------------------------------------------------------- */

/* to[rows][ld] = columns [from, from + W) of the rows, zeros past the width and where `at` has no
 * address: at(r, column) is that of four elements. Whether some number is not finite. */
template <typename E, int W, typename AT>
__device__ static inline bool load_rows(int rows, int from, int width, bool vector, bool padded,
                                        int64_t column, bool elu, float *to, int ld, const AT &at) {
  bool odd = false;
  for (int u = threadIdx.x; u < rows * (W / 4); u += THREADS) {
    const int r = u / (W / 4), i = 4 * (u % (W / 4)), left = width - from - i;
    const E *p = left > 0 ? (const E *)at(r, from + i) : NULL;
    float x[4] = {};
    if (p && vector && (left >= 4 || padded)) {
      const float4 y = widen4(p);
      x[0] = y.x;
      x[1] = left > 1 ? y.y : 0.f;
      x[2] = left > 2 ? y.z : 0.f;
      x[3] = left > 3 ? y.w : 0.f;
    } else if (p) {
#pragma unroll
      for (int e = 0; e < 4; e++)
        if (e < left) x[e] = widen(p[e * column]);
    }
    if (elu && p)
#pragma unroll
      for (int e = 0; e < 4; e++) x[e] = e < left ? (x[e] > 0 ? x[e] + 1 : expf(x[e])) : 0.f;
    odd |= !(is_finite(x[0]) && is_finite(x[1]) && is_finite(x[2]) && is_finite(x[3]));
    *(float4 *)(to + r * ld + i) = make_float4(x[0], x[1], x[2], x[3]);
  }
  return odd;
}

/* Rows of a view over queries; those that see nothing become zeros. */
template <typename E, int W>
__device__ static inline void load_queries_of(const pairs_call &c, const pairs_view &v,
                                              const pairs_tile &t, const pairs_row *row, int rows,
                                              int from, int width, bool elu, float *to, int ld) {
  load_rows<E, W>(
      rows, from, width, v.vector, false, v.stride[3], elu, to, ld, [&](int r, int i) -> const E * {
        if (row[r].lo >= row[r].hi) return NULL;
        const int at = t.row + r;
        return (const E *)v.data + t.b * v.stride[0] + (t.head + at % t.group) * v.stride[1] +
               query_of(t, at) * v.stride[2] + i * v.stride[3];
      });
}
template <int W>
__device__ static inline void load_queries(const pairs_call &c, const pairs_view &v,
                                           const pairs_tile &t, const pairs_row *row, int rows,
                                           int from, int width, bool elu, float *to, int ld) {
  if (c.dtype == ATTEND_F32)
    load_queries_of<float, W>(c, v, t, row, rows, from, width, elu, to, ld);
  else if (c.dtype == ATTEND_F16)
    load_queries_of<__half, W>(c, v, t, row, rows, from, width, elu, to, ld);
  else
    load_queries_of<__nv_bfloat16, W>(c, v, t, row, rows, from, width, elu, to, ld);
}

/* The keys [lo, hi) of a panel, from a view or a page. */
template <typename E, int W>
__device__ static inline bool load_keys_of(const pairs_call &c, const pairs_view &v, size_t part,
                                           int b, int g, int panel, int lo, int hi, int from,
                                           int width, bool elu, float *to, int ld) {
  const uint8_t *real = reals_of(c, b, panel);
  const int first = panel * PANEL;
  if (!c.pages) {
    const E *base = (const E *)v.data + b * v.stride[0] + g * v.stride[1] + first * v.stride[2];
    return load_rows<E, W>(PANEL, from, width, v.vector, false, v.stride[3], elu, to, ld,
                           [&](int j, int i) -> const E * {
                             if (first + j < lo || first + j >= hi || (real && !real[j]))
                               return NULL;
                             return base + j * v.stride[2] + i * v.stride[3];
                           });
  }
  const char *page = (const char *)c.pages[b * c.pages_stride + panel];
  const E *base = (const E *)(page + g * (c.part_k + c.part_v) + part);
  return load_rows<E, W>(PANEL, from, width, true, true, 1, elu, to, ld,
                         [&](int j, int i) -> const E * {
                           if (first + j < lo || first + j >= hi || (real && !real[j])) return NULL;
                           return base + cuda_page_at(sizeof(E), width, j, i);
                         });
}
template <int W>
__device__ static inline bool load_keys(const pairs_call &c, const pairs_view &v, size_t part,
                                        int b, int g, int panel, int lo, int hi, int from,
                                        int width, bool elu, float *to, int ld) {
  if (c.dtype == ATTEND_F32)
    return load_keys_of<float, W>(c, v, part, b, g, panel, lo, hi, from, width, elu, to, ld);
  if (c.dtype == ATTEND_F16)
    return load_keys_of<__half, W>(c, v, part, b, g, panel, lo, hi, from, width, elu, to, ld);
  return load_keys_of<__nv_bfloat16, W>(c, v, part, b, g, panel, lo, hi, from, width, elu, to, ld);
}

/* ---- panels that are fetched before they are needed ---------------------------------- */

/* What a thread holds of a panel on its way to shared memory: four columns of some keys, as they are
 * stored, so that nothing waits for them. */
template <int W>
struct panel_part {
  static constexpr int step = THREADS / (W / 4), count = PANEL / step;
  float4 x[count];
};

static inline __device__ bool is_early(const pairs_call &c, const pairs_view &v, int width) {
  return c.pages || (v.vector && width % 4 == 0);
}

template <typename E, int W>
__device__ static inline void fetch_panel_of(const pairs_call &c, const pairs_view &v, size_t part,
                                             int b, int g, int panel, int lo, int hi, int from,
                                             int width, panel_part<W> &to) {
  const int r = threadIdx.x / (W / 4), i = from + 4 * (threadIdx.x % (W / 4));
  const int first = panel * PANEL + r;
  const uint8_t *real = reals_of(c, b, panel);
  int64_t stride = v.stride[2];
  const E *p;
  if (c.pages) { /* steps are whole periods of the permutation */
    const char *page = (const char *)c.pages[b * c.pages_stride + panel];
    p = (const E *)(page + g * (c.part_k + c.part_v) + part) + cuda_page_at(sizeof(E), width, r, i);
    stride = sizeof(E) == 4 ? (width + 3) / 4 * 4 : 64;
  } else {
    p = (const E *)v.data + b * v.stride[0] + g * v.stride[1] + first * stride + i;
  }
#pragma unroll
  for (int n = 0; n < to.count; n++, p += to.step * stride) {
    const int key = first + n * to.step;
    float4 x = {};
    if (i < width && key >= lo && key < hi && !(real && !real[r + n * to.step])) {
      if (sizeof(E) == 4)
        x = *(const float4 *)p;
      else
        *(float2 *)&x = *(const float2 *)p;
    }
    to.x[n] = x;
  }
}
template <int W>
__device__ static inline void fetch_panel(const pairs_call &c, const pairs_view &v, size_t part,
                                          int b, int g, int panel, int lo, int hi, int from,
                                          int width, panel_part<W> &to) {
  if (c.dtype == ATTEND_F32)
    fetch_panel_of<float, W>(c, v, part, b, g, panel, lo, hi, from, width, to);
  else /* types of 2 bytes alike */
    fetch_panel_of<__half, W>(c, v, part, b, g, panel, lo, hi, from, width, to);
}

/* to[PANEL][ld] in f32, zeros past the `left` columns. Whether some number is not finite. */
template <int W>
__device__ static inline bool store_panel(const pairs_call &c, const panel_part<W> &from, int left,
                                          bool elu, float *to, int ld) {
  const int r = threadIdx.x / (W / 4), i = 4 * (threadIdx.x % (W / 4));
  bool odd = false;
#pragma unroll
  for (int n = 0; n < from.count; n++) {
    float4 y = from.x[n];
    if (c.dtype == ATTEND_F16) y = widen4((const __half *)&from.x[n]);
    if (c.dtype == ATTEND_BF16) y = widen4((const __nv_bfloat16 *)&from.x[n]);
    float x[4] = {y.x, y.y, y.z, y.w};
#pragma unroll
    for (int e = 0; e < 4; e++) {
      if (elu) x[e] = x[e] > 0 ? x[e] + 1 : expf(x[e]);
      if (i + e >= left) x[e] = 0;
    }
    odd |= !(is_finite(x[0]) && is_finite(x[1]) && is_finite(x[2]) && is_finite(x[3]));
    *(float4 *)(to + (r + n * from.step) * ld + i) = make_float4(x[0], x[1], x[2], x[3]);
  }
  return odd;
}

/* ---- scores -------------------------------------------------------------------------- */

/* s += q k^T over `width` columns, a multiple of 4; apart: the squares of q - k. */
template <int R, bool APART>
__device__ static inline void multiply_columns(const float *q, int ldq, const float *k, int ldk,
                                               int width, float (&s)[R][4]) {
  const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
  q += ty * R * ldq;
  k += tx * ldk;
#pragma unroll 2
  for (int i = 0; i < width; i += 4) {
    float4 x[R], y[4];
#pragma unroll
    for (int r = 0; r < R; r++) x[r] = *(const float4 *)(q + r * ldq + i);
#pragma unroll
    for (int j = 0; j < 4; j++) y[j] = *(const float4 *)(k + 16 * j * ldk + i);
#define STEP(m)                                                                                 \
  _Pragma("unroll") for (int r = 0; r < R; r++) _Pragma("unroll") for (int j = 0; j < 4; j++) { \
    if (APART) {                                                                                \
      const float d = x[r].m - y[j].m;                                                          \
      s[r][j] = fmaf(d, d, s[r][j]);                                                            \
    } else                                                                                      \
      s[r][j] = fmaf(x[r].m, y[j].m, s[r][j]);                                                  \
  }
    STEP(x) STEP(y) STEP(z) STEP(w)
#undef STEP
  }
}
template <int R>
__device__ static inline void multiply_scores(const pairs_call &c, const float *q, int ldq,
                                              const float *k, int ldk, int width,
                                              float (&s)[R][4]) {
  if (c.form == GAUSSIAN)
    multiply_columns<R, true>(q, ldq, k, ldk, width, s);
  else
    multiply_columns<R, false>(q, ldq, k, ldk, width, s);
}

__device__ static inline float power_of(float x, int n) {
  float y = 1;
  for (;; x *= x) {
    if (n & 1) y *= x;
    if (!(n >>= 1)) return y;
  }
}

/* In the units of the score; poly: its log2. */
__device__ static inline float bias_of(const pairs_call &c, const pairs_row &row, int key) {
  const int ahead = key - row.at;
  if (c.bias.kind == ATTEND_ALIBI) return __int_as_float(row.slope) * fabsf((float)ahead);
  if (c.bias.kind == ATTEND_BUCKETS)
    return c.spread[row.slope + c.far + min(max(ahead, -c.far), c.far)];
  const float *line = (const float *)c.bias.dense.data + row.dense;
  return __fmul_rn(c.bias_to2, line[key * c.bias.dense.stride[3]]);
}

/* A product becomes a score: log2 of the weight; poly: the weight; a hard argmax: in its units. */
__device__ static inline float score_of(const pairs_call &c, const pairs_row &row, int key,
                                        float y) {
  if (c.plain) return y;
  if (c.form == POLY)
    y = power_of(fmaf(y, c.a, c.c), c.degree);
  else if (c.form == ELU)
    y = log2f(y);
  else
    y = c.cap_in != 0 ? __fmul_rn(c.cap_out, tanhf(__fmul_rn(c.cap_in, y))) : __fmul_rn(y, c.scale);
  if (c.bias.kind == ATTEND_NO_BIAS) return y;
  if (c.form == POLY) return y * exp2f(bias_of(c, row, key));
  if (c.bias.kind == ATTEND_ALIBI)
    return fmaf(__int_as_float(row.slope), fabsf((float)(key - row.at)), y);
  return __fadd_rn(y, bias_of(c, row, key));
}

__device__ static inline bool sees(const pairs_row &row, int key, const uint8_t *real) {
  return key >= row.lo && key < row.hi && (!real || real[key % PANEL]);
}

/* s from products to scores, and what hides a key where its row does not see it; key: that of
 * s[.][0]. */
template <int R>
__device__ static inline void finish_scores(const pairs_call &c, const pairs_row *row, int key,
                                            const uint8_t *real, bool masked, float (&s)[R][4]) {
  const int ty = threadIdx.x / 16;
  const float hidden = c.form == POLY ? 0.f : -INFINITY;
  if (c.plain && !masked) return;
#pragma unroll
  for (int r = 0; r < R; r++) {
    const pairs_row x = row[ty * R + r];
#pragma unroll
    for (int j = 0; j < 4; j++) {
      const int at = key + 16 * j;
      s[r][j] = masked && !sees(x, at, real) ? hidden : score_of(c, x, at, s[r][j]);
    }
  }
}

/* ---- weights ------------------------------------------------------------------------- */

/* 2^e of an integer e <= 127; 0 below the normal numbers. */
__device__ static inline float exact_power(float e) {
  return e < -126.f ? 0.f : __int_as_float(((int)e + 127) << 23);
}
/* 2^(x factor - m) of an integer m: a polynomial within 6e-8. */
__device__ static inline float exp2_less(float x, float factor, float m) {
  const float n = rintf(x * factor), f = fmaf(x, factor, -n), e = n - m;
  float p = 1.559467816751675e-4f;
  p = fmaf(p, f, 1.340664390228447e-3f);
  p = fmaf(p, f, 9.617692972970703e-3f);
  p = fmaf(p, f, 5.550310551013987e-2f);
  p = fmaf(p, f, 2.402265278318788e-1f);
  p = fmaf(p, f, 6.931472149680279e-1f);
  p = fmaf(p, f, 1.f);
  return e < -125.f ? 0.f : p * __int_as_float(((int)e + 127) << 23);
}

/* Over the 16 threads of a row. */
__device__ static inline float row_max(float x) {
#pragma unroll
  for (int step = 8; step; step /= 2) x = fmaxf(x, __shfl_xor_sync(~0u, x, step));
  return x;
}
__device__ static inline int row_min(int x) {
#pragma unroll
  for (int step = 8; step; step /= 2) x = min(x, __shfl_xor_sync(~0u, x, step));
  return x;
}
template <typename T>
__device__ static inline T row_sum(T x) {
#pragma unroll
  for (int step = 8; step; step /= 2) x += __shfl_xor_sync(~0u, x, step);
  return x;
}

/* A row's sums: the maximum subtracted (a hard argmax: the best score), the sum of weights, and
 * poly's of absolute weights, or the best key. */
struct row_sums {
  float max, sum, more;
};

__device__ static inline row_sums no_sums(const pairs_call &c) {
  return {c.form == POLY ? 0.f : -INFINITY, 0.f, 0.f};
}

/* The factors of two sums in their sum. */
__device__ static inline void join_factors(const pairs_call &c, const row_sums &x,
                                           const row_sums &y, float *a, float *b) {
  if (c.form == HARD) {
    *a = x.max >= y.max ? 1.f : 0.f;
    *b = y.max > x.max || (!c.first && y.max == x.max) ? 1.f : 0.f;
    return;
  }
  const float to = fmaxf(x.max, y.max);
  *a = x.max == -INFINITY ? 0.f : exact_power(x.max - to);
  *b = y.max == -INFINITY ? 0.f : exact_power(y.max - to);
}
__device__ static inline row_sums join_sums(const pairs_call &c, const row_sums &x,
                                            const row_sums &y, float a, float b) {
  row_sums to = {fmaxf(x.max, y.max), fmaf(y.sum, b, x.sum * a), 0.f};
  to.more = c.form == HARD ? (y.max > x.max ? y.more : x.more) : x.more + y.more;
  return to;
}
__device__ static inline float join_value(float x, float y, float a, float b) {
  return fmaf(b == 0 ? 0.f : y, b, a == 0 ? 0.f : x * a);
}

/* Scores of a row on a panel become weights; returns the factor of what was summed before. */
__device__ static inline float weigh_row(const pairs_call &c, int key, float (&s)[4],
                                         row_sums &sums) {
  float f = 1;
  if (c.form == POLY) {
    const float size = (fabsf(s[0]) + fabsf(s[1])) + (fabsf(s[2]) + fabsf(s[3]));
    sums.more += row_sum(size);
  } else {
    const float top = row_max(fmaxf(fmaxf(s[0], s[1]), fmaxf(s[2], s[3])));
    if (c.form == HARD) {
      const float to = fmaxf(sums.max, top);
      int best = INT_MAX;
      if (top > sums.max)
#pragma unroll
        for (int j = 3; j >= 0; j--)
          if (s[j] == top) best = key + 16 * j;
      best = row_min(best);
      f = to == sums.max ? 1.f : 0.f;
#pragma unroll
      for (int j = 0; j < 4; j++) {
        const bool chosen = c.first ? key + 16 * j == best : s[j] == to && to > -INFINITY;
        s[j] = s[j] != s[j] ? s[j] : chosen ? 1.f : 0.f;
      }
      if (top > sums.max) sums.more = __int_as_float(best);
      sums.max = to;
    } else {
      const float to = fmaxf(sums.max, ceilf(top * c.factor));
      const float less = to == -INFINITY ? 0.f : to;
      f = sums.max == to ? 1.f : exact_power(sums.max - to);
#pragma unroll
      for (int j = 0; j < 4; j++) s[j] = exp2_less(s[j], c.factor, less);
      sums.max = to;
    }
  }
  const float sum = row_sum((s[0] + s[1]) + (s[2] + s[3]));
  sums.sum = fmaf(sums.sum, f, sum);
  return f;
}

/* The log of the denominator; a hard argmax: the best score; poly: the denominator. */
__device__ static inline float lse_of(const pairs_call &c, const row_sums &x) {
  if (c.form == POLY) return x.sum;
  if (c.form == HARD) return x.sum != x.sum ? x.sum : x.max;
  if (x.sum == 0) return -INFINITY;
  return (float)((double)x.max * 0.69314718055994530942 + log((double)x.sum));
}

/* ---- tiles of 64 rows of a head: backward, observe ----------------------------------- */

/* Q and dO of the rows, keys and values of a panel, and two tiles of weights. */
template <int W>
struct cell_memory {
  static constexpr int rows = 64, ld = W + 4, ldp = PANEL + 4;
  float *q, *d_o, *k, *v, *p, *ds;
  pairs_row *row;
  float *lse2, *delta; /* of the rows */
  static size_t bytes() {
    return sizeof(float) * (4 * rows * ld + 2 * rows * ldp + 2 * rows) + rows * sizeof(pairs_row);
  }
  __device__ cell_memory(void *shared) {
    q = (float *)shared;
    d_o = q + rows * ld;
    k = d_o + rows * ld;
    v = k + rows * ld;
    p = v + rows * ld;
    ds = p + rows * ldp;
    lse2 = ds + rows * ldp;
    delta = lse2 + rows;
    row = (pairs_row *)(delta + rows);
  }
};

/* A row that saw nothing has no gradient. */
__device__ static inline bool lse_is_dead(const pairs_call &c, float lse) {
  return c.form == POLY ? lse == 0 : lse == -INFINITY;
}

#endif
