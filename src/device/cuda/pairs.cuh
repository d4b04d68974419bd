/* Attention pair by pair in f32: what its kernels share. A tile is rows of queries and PANEL keys;
 * the 256 threads of a CTA hold its scores in registers, thread (ty, tx) those of rows
 * ty R + i and keys tx + 16 j.
 *
 * Bits: a score is one chain of fma over the width. Keys lie in panels of PANEL at fixed positions,
 * JOIN panels are one chain of sums over the keys, and these are added in order; what is subtracted
 * from exponents is an integer, so that rescaling is exact. A row's result therefore depends on the
 * row, the keys it sees and the description alone.
 */
#ifndef DEVICE_CUDA_PAIRS_CUH
#define DEVICE_CUDA_PAIRS_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "device/cuda/gpu.cuh"

enum { PANEL = ATTEND_PAGE, JOIN = 4, THREADS = 256 };

struct pairs_view {
  char *data;
  int64_t stride[4];
  bool vector; /* four elements of a row may be read at once */
};

/* What becomes of q.k (gaussian: of the squared distance). */
enum pairs_form { SOFT, HARD, POLY, GAUSSIAN, ELU };

struct pairs_call {
  attend_dtype dtype;
  int batch, heads, kv_heads, group, n, kv_len, dim, dim_v;
  pairs_view q, k, v, o;
  float *lse;
  unsigned long long *weak;
  /* Visibility. */
  int causal, window, position; /* position: of query 0, unless `before` says */
  const int32_t *lengths;
  const uint8_t *key_mask;
  const int64_t *before, *keys; /* with pages */
  void *const *pages;
  int64_t pages_stride;
  size_t part_k, part_v; /* bytes of a head's keys and values in a page */
  bool padded;           /* some key may be padding */
  /* Form. */
  pairs_form form;
  bool first; /* of tied keys */
  int degree;
  float a, c;
  float scale, factor; /* scores are x scale, and exponents of two scores factor */
  bool plain;          /* the product is the score */
  float cap_in, cap_out;
  float bias_to2;
  attend_bias bias;    /* dense: strides set */
  const float *spread; /* buckets: [H][2 far + 1], by distance */
  int far;
  /* Split: each join of panels goes to the workspace. */
  int tiles, chunks, splits;
  float *part_o, *part; /* [stacks][rows][splits][dim_v], [..][3] */
  /* Instead of outputs, a hard argmax's choice of each row: the best key or -1, and what of it. */
  int *best;    /* [B,H,n] */
  float *share; /* 1, or 1 over the number of tied keys */
};

/* ---- elements ------------------------------------------------------------------------ */

__device__ static inline float widen(float x) { return x; }
__device__ static inline float widen(__half x) { return __half2float(x); }
__device__ static inline float widen(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ static inline float4 widen4(const float *p) { return *(const float4 *)p; }
__device__ static inline float4 widen4(const __half *p) {
  const uint2 x = *(const uint2 *)p;
  const float2 a = __half22float2(*(const __half2 *)&x.x),
               b = __half22float2(*(const __half2 *)&x.y);
  return make_float4(a.x, a.y, b.x, b.y);
}
__device__ static inline float4 widen4(const __nv_bfloat16 *p) {
  const uint2 x = *(const uint2 *)p;
  return make_float4(__uint_as_float(x.x << 16), __uint_as_float(x.x & 0xffff0000u),
                     __uint_as_float(x.y << 16), __uint_as_float(x.y & 0xffff0000u));
}
__device__ static inline void store_element(attend_dtype dtype, char *data, int64_t at, float x) {
  if (dtype == ATTEND_F32)
    ((float *)data)[at] = x;
  else if (dtype == ATTEND_F16)
    ((__half *)data)[at] = __float2half_rn(x);
  else
    ((__nv_bfloat16 *)data)[at] = __float2bfloat16_rn(x);
}
__device__ static inline float load_element(attend_dtype dtype, const char *data, int64_t at) {
  if (dtype == ATTEND_F32) return ((const float *)data)[at];
  if (dtype == ATTEND_F16) return widen(((const __half *)data)[at]);
  return widen(((const __nv_bfloat16 *)data)[at]);
}
__device__ static inline bool is_finite(float x) { return fabsf(x) < INFINITY; }

/* ---- what is visible ----------------------------------------------------------------- */

__device__ static inline int keys_of(const pairs_call &c, int b) {
  return c.keys ? (int)c.keys[b] : c.lengths ? c.lengths[b] : c.kv_len;
}
__device__ static inline int queries_of(const pairs_call &c, int b) {
  return c.keys && c.lengths ? c.lengths[b] : c.n;
}
__device__ static inline int position_of(const pairs_call &c, int b) {
  return c.before ? (int)c.before[b] : c.position;
}
/* The padding of a panel's keys, a byte each, or NULL. */
__device__ static inline const uint8_t *reals_of(const pairs_call &c, int b, int panel) {
  if (!c.padded) return NULL;
  if (!c.pages) return c.key_mask + (int64_t)b * c.kv_len + (int64_t)panel * PANEL;
  return (const uint8_t *)c.pages[b * c.pages_stride + panel] + c.kv_heads * (c.part_k + c.part_v);
}

/* A row of a tile: the keys [lo, hi) that it sees, and its part of the bias. */
struct pairs_row {
  int lo, hi;
  int at;    /* its position among the keys */
  int slope; /* alibi: the slope, a float; buckets: the first of the head in spread */
  int64_t dense;
};

/* Rows of a tile: row r is query r / group of head `head` + r % group. */
struct pairs_tile {
  int b, g, head, group;
  int row, rows;       /* the first; of the whole stack */
  const int32_t *list; /* of queries instead, or NULL; group is 1 */
};
__device__ static inline int query_of(const pairs_tile &t, int row) {
  return t.list ? t.list[row] : row / t.group;
}

__device__ static inline pairs_row row_of(const pairs_call &c, const pairs_tile &t, int r) {
  pairs_row x = {};
  const int row = t.row + r < t.rows ? t.row + r : t.rows - 1;
  const int i = query_of(t, row), head = t.head + row % t.group, keys = keys_of(c, t.b);
  x.at = position_of(c, t.b) + i;
  if (t.row + r < t.rows && i < queries_of(c, t.b)) {
    const int64_t at = x.at;
    int64_t lo = c.window ? at - c.window + 1 : 0, hi = keys;
    if (c.causal)
      hi = min(hi, at + 1);
    else if (c.window)
      hi = min(hi, at + c.window);
    x.lo = (int)min(max(lo, (int64_t)0), (int64_t)keys);
    x.hi = (int)max(hi, (int64_t)x.lo);
  }
  if (c.bias.kind == ATTEND_ALIBI) x.slope = __float_as_int(-c.bias.slopes[head] * c.bias_to2);
  if (c.bias.kind == ATTEND_BUCKETS) x.slope = head * (2 * c.far + 1);
  if (c.bias.kind == ATTEND_DENSE)
    x.dense =
        t.b * c.bias.dense.stride[0] + head * c.bias.dense.stride[1] + i * c.bias.dense.stride[2];
  return x;
}

/* T5's published formula; attend_bucket. */
__device__ static inline int bucket_of(const attend_bias &bias, int ahead) {
  const int buckets = bias.one_sided ? bias.buckets : bias.buckets / 2, exact = buckets / 2;
  if (ahead > 0 && bias.one_sided) return 0;
  const int base = ahead > 0 ? buckets : 0, distance = abs(ahead);
  if (distance < exact) return base + distance;
  const float ratio = (float)distance / (float)exact;
  const float span = (float)log((double)bias.max_distance / exact);
  const float steps = (float)log((double)ratio) / span * (float)(buckets - exact);
  const float last = (float)(buckets - 1 - exact);
  return base + exact + (int)(steps < last ? steps : last);
}

/* Rows [first, end) of a head have all that see some of the panel. */
__device__ static inline void rows_that_see(const pairs_call &c, int b, int panel, int64_t *first,
                                            int64_t *end) {
  const int64_t position = position_of(c, b), key = (int64_t)panel * PANEL;
  *first = 0, *end = c.n;
  if (c.causal) *first = key - position;
  if (!c.causal && c.window) *first = key - position - c.window + 1;
  if (c.window) *end = min(*end, key + PANEL - 1 + c.window - position);
  *first = max(*first, (int64_t)0);
  if (key >= keys_of(c, b)) *end = 0;
}

/* ---- launching ----------------------------------------------------------------------- */

static inline size_t pairs_round(size_t bytes) { return (bytes + 255) / 256 * 256; }

/* Fills in all but tensors and workspace. `memory` is cut from: what pairs_open_bytes says. */
pairs_call pairs_open(cuda_gpu *gpu, const cuda_attention *a, char **memory);
size_t pairs_open_bytes(const cuda_attention *a);
pairs_view pairs_view_of(attend_dtype dtype, attend_view v, int heads, int64_t rows, int width);
/* Few queries, over keys that can be copied asynchronously: the sums of c.splits joins. */
bool pairs_decodes(const cuda_attention *a);
void pairs_decode(cuda_gpu *gpu, const pairs_call *c);
/* Fills in best and share of a hard argmax. */
void pairs_choose(cuda_gpu *gpu, const pairs_call *c);

#endif
