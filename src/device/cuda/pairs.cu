/* Attention pair by pair, forward: tiles of rows that iterate over panels of keys, with the online
 * softmax (Milakov and Gimelshein 2018) as FlashAttention has it (Dao et al. 2022), in plain fma.
 *
 * The heads that share a kv head are rows of one stack: row r of (b, g) is query r / group of head
 * g group + r % group. With few tiles each join of panels has a CTA of its own, as in
 * Flash-Decoding, and pairs_join_kernel adds their sums in order: the same operations, so the same
 * bits. Values wider than W columns are taken in chunks, whose CTAs compute the scores again.
 */
#include "device/cuda/pairs.cuh"

#include <algorithm>
#include <limits.h>

/* Queries up to this width stay in shared memory. */
enum { RESIDENT = 512 };

/* ---- one tile ------------------------------------------------------------------------ */

template <int R, int W>
struct tile_memory {
  static constexpr int rows = 16 * R, ld = W + 4, ldp = PANEL + 4;
  float *q, *kv, *p;
  pairs_row *row;
  row_sums *total;
  int ldq;
  static __host__ __device__ int query_width(int dim) {
    return dim > RESIDENT ? W : (dim + W - 1) / W * W;
  }
  static size_t bytes(int dim) {
    return sizeof(float) * (rows * (query_width(dim) + 4) + PANEL * ld + rows * ldp) +
           rows * (sizeof(pairs_row) + sizeof(row_sums));
  }
  __device__ tile_memory(int dim, void *shared) {
    ldq = query_width(dim) + 4;
    q = (float *)shared;
    kv = q + rows * ldq;
    p = kv + PANEL * ld;
    row = (pairs_row *)(p + rows * ldp);
    total = (row_sums *)(row + rows);
  }
};

/* o += p v over the panel; odd: some value is not finite, and weights of 0 do not read theirs. */
template <int R, int W>
__device__ static void multiply_values(const float *p, int ldp, const float *v, int ldv, bool odd,
                                       float (&o)[R][W / 16]) {
  const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
  p += ty * R * ldp;
  v += 4 * tx;
#pragma unroll 2
  for (int j = 0; j < PANEL; j += 4) {
    float x[R][4];
#pragma unroll
    for (int r = 0; r < R; r++) *(float4 *)x[r] = *(const float4 *)(p + r * ldp + j);
#pragma unroll
    for (int e = 0; e < 4; e++)
#pragma unroll
      for (int u = 0; u < W / 64; u++) {
        const float4 y = *(const float4 *)(v + (j + e) * ldv + 64 * u);
#pragma unroll
        for (int r = 0; r < R; r++) {
          float *to = &o[r][4 * u];
          if (odd && x[r][e] == 0) continue;
          to[0] = fmaf(x[r][e], y.x, to[0]);
          to[1] = fmaf(x[r][e], y.y, to[1]);
          to[2] = fmaf(x[r][e], y.z, to[2]);
          to[3] = fmaf(x[r][e], y.w, to[3]);
        }
      }
  }
}

/* Adds a row's chain to its total. */
template <int N>
__device__ static inline void fold_row(const pairs_call &c, row_sums *total, row_sums &sums,
                                       float (&o)[N], float (&all)[N]) {
  float a, b;
  const row_sums was = *total;
  join_factors(c, was, sums, &a, &b);
  __syncwarp();
  if (threadIdx.x % 16 == 0) *total = join_sums(c, was, sums, a, b);
  __syncwarp();
#pragma unroll
  for (int i = 0; i < N; i++) {
    all[i] = join_value(all[i], o[i], a, b);
    o[i] = 0;
  }
  sums = no_sums(c);
}

/* Whether a row sees a key that is not padding. */
__device__ static bool row_sees(const pairs_call &c, int b, const pairs_row &row) {
  for (int j = row.lo; j < row.hi; j++) {
    const uint8_t *real = reals_of(c, b, j / PANEL);
    if (!real || real[j % PANEL]) return true;
  }
  return false;
}

/* See attend_plan_weak_rows. */
__device__ static bool row_is_weak(const pairs_call &c, int b, const pairs_row &row,
                                   const row_sums &x) {
  if (c.form == SOFT || c.form == HARD) return false;
  bool lost = x.sum == 0 && c.bias.kind == ATTEND_NO_BIAS;
  if (c.form == POLY)
    lost =
        fabsf(x.sum) < 0x1p-100f || isinf(x.sum) || fabsf(x.sum) < 1e-3f * x.more || isinf(x.more);
  return lost && row_sees(c, b, row);
}

/* What is written once a row. */
__device__ static void end_row(const pairs_call &c, const pairs_tile &t, int r,
                               const pairs_row &row, const row_sums &x) {
  const int at = t.row + r, head = t.head + at % t.group;
  const int64_t index = ((int64_t)t.b * c.heads + head) * c.n + at / t.group;
  if (c.best) {
    c.best[index] = x.sum > 0 ? __float_as_int(x.more) : -1;
    c.share[index] = x.sum > 0 ? 1 / x.sum : 0;
    return;
  }
  if (c.lse) c.lse[index] = lse_of(c, x);
  if (c.weak && row_is_weak(c, t.b, row, x)) atomicAdd(c.weak, 1ull);
}

__device__ static inline char *output_row(const pairs_call &c, const pairs_tile &t, int r) {
  const int at = t.row + r, size = c.dtype == ATTEND_F32 ? 4 : 2;
  return c.o.data + size * (t.b * c.o.stride[0] + (t.head + at % t.group) * c.o.stride[1] +
                            at / t.group * c.o.stride[2]);
}

/* ---- forward ------------------------------------------------------------------------- */

template <int R, int W>
__global__ void __launch_bounds__(THREADS, R *W > 256 ? 1 : 2)
    pairs_forward_kernel(const __grid_constant__ pairs_call c) {
  extern __shared__ float4 shared[];
  constexpr int N = W / 16, rows = 16 * R;
  const tile_memory<R, W> m(c.dim, shared);
  const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
  const int stacks = c.batch * c.kv_heads, stack = blockIdx.x % stacks;
  pairs_tile t = {stack / c.kv_heads, stack % c.kv_heads, 0, c.group, 0, c.n * c.group};
  t.head = t.g * c.group;
  t.row = (c.tiles - 1 - (int)(blockIdx.x / stacks)) * rows; /* long ones first */
  const int chunk = blockIdx.z * W, split = blockIdx.y;
  const bool resident = c.dim <= RESIDENT, elu = c.form == ELU;

  for (int r = threadIdx.x; r < rows; r += THREADS) {
    m.row[r] = row_of(c, t, r);
    m.total[r] = no_sums(c);
  }
  __syncthreads();
  int lo = INT_MAX, hi = 0, least = INT_MAX, most = 0;
  for (int r = 0; r < rows && t.row + r < t.rows; r++) {
    const int x = m.row[r].lo, y = m.row[r].hi;
    if (x < y) lo = min(lo, x);
    hi = max(hi, x < y ? y : 0);
    most = max(most, x), least = min(least, y);
  }
  if (c.splits) {
    lo = max(lo, split * JOIN * PANEL);
    hi = min(hi, (split + 1) * JOIN * PANEL);
  }
  if (resident)
    for (int i = 0; i < c.dim && lo < hi; i += W)
      load_queries<W>(c, c.q, t, m.row, rows, i, c.dim, elu, m.q + i, m.ldq);

  row_sums sums[R];
  float o[R][N] = {}, all[R][N] = {};
#pragma unroll
  for (int r = 0; r < R; r++) sums[r] = no_sums(c);
  for (int panel = lo / PANEL; panel * PANEL < hi; panel++) {
    const int first = panel * PANEL;
    float s[R][4] = {};
    for (int i = 0; i < c.dim; i += W) {
      if (!resident) load_queries<W>(c, c.q, t, m.row, rows, i, c.dim, elu, m.q, m.ldq);
      load_keys<W>(c, c.k, 0, t.b, t.g, panel, lo, hi, i, c.dim, elu, m.kv, m.ld);
      __syncthreads();
      multiply_scores<R>(c, m.q + (resident ? i : 0), m.ldq, m.kv, m.ld,
                         min(W, (c.dim - i + 3) / 4 * 4), s);
      if (i + W < c.dim) __syncthreads();
    }
    const uint8_t *real = reals_of(c, t.b, panel);
    const bool masked = real || first < most || first + PANEL > least;
    finish_scores<R>(c, m.row, first + tx, real, masked, s);
#pragma unroll
    for (int r = 0; r < R; r++) {
      const float f = weigh_row(c, first + tx, s[r], sums[r]);
#pragma unroll
      for (int i = 0; i < N; i++) o[r][i] = c.form == HARD && f == 0 ? 0.f : o[r][i] * f;
#pragma unroll
      for (int j = 0; j < 4; j++) m.p[(ty * R + r) * m.ldp + tx + 16 * j] = s[r][j];
    }
    __syncthreads();
    const bool bad = !c.best && load_keys<W>(c, c.v, c.part_k, t.b, t.g, panel, lo, hi, chunk,
                                             c.dim_v, false, m.kv, m.ld);
    const bool odd = __syncthreads_or(bad);
    if (c.best)
      ;
    else if (odd)
      multiply_values<R, W>(m.p, m.ldp, m.kv, m.ld, true, o);
    else
      multiply_values<R, W>(m.p, m.ldp, m.kv, m.ld, false, o);
    if (!c.splits && (panel % JOIN == JOIN - 1 || first + PANEL >= hi))
#pragma unroll
      for (int r = 0; r < R; r++) fold_row<N>(c, &m.total[ty * R + r], sums[r], o[r], all[r]);
    __syncthreads();
  }

#pragma unroll
  for (int r = 0; r < R; r++) {
    const int at = ty * R + r;
    if (t.row + at >= t.rows) continue;
    if (c.splits) {
      const int64_t to = ((int64_t)stack * t.rows + t.row + at) * c.splits + split;
      for (int i = 0; i < N; i++) {
        const int column = chunk + 64 * (i / 4) + 4 * tx + i % 4;
        if (column < c.dim_v) c.part_o[to * c.dim_v + column] = o[r][i];
      }
      if (tx == 0 && chunk == 0) *(row_sums *)(c.part + 3 * to) = sums[r];
      continue;
    }
    const row_sums x = m.total[at];
    char *row = output_row(c, t, at);
    for (int i = 0; i < N && !c.best; i++) {
      const int column = chunk + 64 * (i / 4) + 4 * tx + i % 4;
      if (column < c.dim_v)
        store_element(c.dtype, row, column * c.o.stride[3], x.sum == 0 ? 0.f : all[r][i] / x.sum);
    }
    if (tx == 0 && chunk == 0) end_row(c, t, at, m.row[at], x);
  }
}

/* A CTA has a row; a thread adds one column of the chains. First the maxima before each chain, which
 * need no order, then all factors, then the sums. */
enum { JOIN_ROUND = 512, JOIN_THREADS = 128 };

__global__ void __launch_bounds__(JOIN_THREADS)
    pairs_join_kernel(const __grid_constant__ pairs_call c) {
  __shared__ row_sums part[JOIN_ROUND + 1]; /* max: the largest before; sum, more: the chain's */
  __shared__ float2 factor[JOIN_ROUND];
  __shared__ bool better[JOIN_ROUND];
  const int rows = c.n * c.group, stack = blockIdx.x / rows;
  pairs_tile t = {
      stack / c.kv_heads, stack % c.kv_heads, 0, c.group, (int)(blockIdx.x % rows), rows, NULL};
  t.head = t.g * c.group;
  const int64_t from = (int64_t)blockIdx.x * c.splits;
  const int chunk = blockIdx.y * JOIN_THREADS, column = chunk + threadIdx.x;
  const float *o = c.part_o + from * c.dim_v + min(column, c.dim_v - 1);
  row_sums x = no_sums(c);
  float sum = 0;
  for (int s0 = 0; s0 < c.splits; s0 += JOIN_ROUND) {
    const int n = min(JOIN_ROUND, c.splits - s0);
    __syncthreads();
    for (int s = threadIdx.x; s < n; s += JOIN_THREADS)
      part[s + 1] = ((const row_sums *)c.part)[from + s0 + s];
    __syncthreads();
    if (threadIdx.x < 32) { /* maxima up to each */
      float most = x.max;
      if (threadIdx.x == 0) part[0].max = most;
      for (int s = threadIdx.x; s - (int)threadIdx.x < n; s += 32) {
        float y = s < n ? part[s + 1].max : -INFINITY;
        const float own = y;
#pragma unroll
        for (int step = 1; step < 32; step *= 2) {
          const float z = __shfl_up_sync(~0u, y, step);
          if (threadIdx.x >= step) y = fmaxf(y, z);
        }
        y = fmaxf(y, most);
        float before = __shfl_up_sync(~0u, y, 1);
        if (threadIdx.x == 0) before = most;
        most = __shfl_sync(~0u, y, 31);
        if (s >= n) continue;
        join_factors(c, {before, 0, 0}, {own, 0, 0}, &factor[s].x, &factor[s].y);
        better[s] = own > before;
      }
      x.max = most;
    }
    __syncthreads();
#pragma unroll 16
    for (int s = 0; s < n; s++) {
      const float2 f = factor[s];
      const row_sums y = part[s + 1];
      x.sum = fmaf(y.sum, f.y, x.sum * f.x);
      x.more = c.form == HARD ? (better[s] ? y.more : x.more) : x.more + y.more;
      sum = join_value(sum, o[(int64_t)(s0 + s) * c.dim_v], f.x, f.y);
    }
  }
  if (column < c.dim_v)
    store_element(c.dtype, output_row(c, t, 0), column * c.o.stride[3],
                  x.sum == 0 ? 0.f : sum / x.sum);
  if (threadIdx.x == 0 && chunk == 0) end_row(c, t, 0, row_of(c, t, 0), x);
}

/* ---- T5's buckets by distance -------------------------------------------------------- */

__global__ void pairs_spread_kernel(attend_bias bias, int heads, float to2, float *spread) {
  const int wide = 2 * bias.max_distance + 1;
  EACH(i, (size_t)wide * heads) {
    const int head = (int)(i / wide), ahead = (int)(i % wide) - bias.max_distance;
    spread[i] = to2 * bias.table[(size_t)bucket_of(bias, ahead) * heads + head];
  }
}

/* ---- what a call says ---------------------------------------------------------------- */

static const double LOG2E = 1.44269504088896340736;

pairs_view pairs_view_of(attend_dtype dtype, attend_view v, int heads, int64_t rows, int width) {
  const size_t size = dtype == ATTEND_F32 ? 4 : 2;
  pairs_view x = {(char *)v.data, {v.stride[0], v.stride[1], v.stride[2], v.stride[3]}, true};
  if (!v.stride[0] && !v.stride[1] && !v.stride[2] && !v.stride[3]) {
    x.stride[3] = 1;
    x.stride[2] = width;
    x.stride[1] = rows * width;
    x.stride[0] = heads * x.stride[1];
  }
  x.vector = (uintptr_t)v.data % (4 * size) == 0 && x.stride[3] == 1 && x.stride[0] % 4 == 0 &&
             x.stride[1] % 4 == 0 && x.stride[2] % 4 == 0;
  return x;
}

static void set_form(pairs_call *c, const attend_desc *d) {
  const attend_form *f = &d->form;
  const bool hard = f->kind == ATTEND_ARGMAX && f->temperature == 0;
  double unit = hard || f->kind == ATTEND_POLY ? 1 : LOG2E, scale = d->scale;
  c->form = SOFT;
  if (hard) c->form = HARD;
  if (f->kind == ATTEND_POLY) c->form = POLY;
  if (f->kind == ATTEND_GAUSSIAN) c->form = GAUSSIAN;
  if (f->kind == ATTEND_ELU) c->form = ELU;
  c->first = f->ties == ATTEND_TIES_FIRST;
  c->degree = f->degree, c->a = f->a, c->c = f->c;
  if (f->temperature > 0) unit /= (double)f->temperature;
  if (f->kind == ATTEND_GAUSSIAN) scale = -0.5 / ((double)f->sigma * (double)f->sigma);
  c->bias_to2 = (float)(f->kind == ATTEND_POLY ? LOG2E : unit);
  if (d->soft_cap > 0) {
    c->cap_in = (float)(scale / (double)d->soft_cap);
    c->cap_out = (float)((double)d->soft_cap * unit);
  }
  /* The factor waits for the exponential where nothing is added before, and scores are not rounded
   * for it. */
  const float to2 = (float)(fabs(scale) * unit);
  const bool waits = (c->form == SOFT || c->form == GAUSSIAN) && to2 > 1e-30f && c->cap_in == 0 &&
                     d->bias.kind == ATTEND_NO_BIAS;
  c->scale = waits ? (scale < 0 ? -1.f : 1.f) : scale < 0 ? -to2 : to2;
  c->factor = waits ? to2 : 1;
}

static void set_bias(pairs_call *c, const attend_desc *d) {
  c->bias = d->bias;
  c->far = d->bias.max_distance;
  if (d->bias.kind != ATTEND_DENSE) return;
  const pairs_view v = pairs_view_of(ATTEND_F32, d->bias.dense, d->heads, d->q_len, d->kv_len);
  for (int i = 0; i < 4; i++) c->bias.dense.stride[i] = v.stride[i];
}

/* ---- numbers of the host ------------------------------------------------------------- */

/* Together in one block, that a kernel launched next may read. */
enum { STAGED = 16 << 10 };

struct host_numbers {
  size_t lengths, before, keys, mask, all; /* where they begin */
};

static host_numbers numbers_of(const cuda_attention *a) {
  const attend_desc *d = a->desc;
  host_numbers x = {};
  size_t at = 0;
  x.before = at;
  at += a->pages ? 8 * (size_t)d->batch : 0;
  x.keys = at;
  at += a->pages ? 8 * (size_t)d->batch : 0;
  x.lengths = at;
  at += d->mask.lengths ? 4 * (size_t)d->batch : 0;
  x.mask = at;
  at += !a->pages && d->mask.key_mask ? (size_t)d->batch * d->kv_len : 0;
  x.all = at;
  return x;
}

static size_t spread_bytes(const attend_desc *d) {
  if (d->bias.kind != ATTEND_BUCKETS) return 0;
  return pairs_round(sizeof(float) * (2 * (size_t)d->bias.max_distance + 1) * d->heads);
}

size_t pairs_open_bytes(const cuda_attention *a) {
  const host_numbers x = numbers_of(a);
  return spread_bytes(a->desc) + (x.all > STAGED ? pairs_round(x.all) : 0);
}

static void copy_numbers(cuda_gpu *gpu, char *to, const void *from, size_t bytes) {
  if (!bytes) return;
  gpu_flush(gpu);
  gpu_check(gpu, cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, gpu->stream), "a copy");
}

static const char *stage_numbers(cuda_gpu *gpu, const cuda_attention *a, char **memory) {
  const attend_desc *d = a->desc;
  const host_numbers x = numbers_of(a);
  alignas(8) char host[STAGED];
  char *far = *memory; /* more than is staged */
  const bool small = x.all <= STAGED;
  if (!x.all) return NULL;
  if (!small) *memory += pairs_round(x.all);
  auto put = [&](size_t at, const void *from, size_t bytes) {
    if (small && bytes) memcpy(host + at, from, bytes);
    if (!small) copy_numbers(gpu, far + at, from, bytes);
  };
  if (a->pages) put(x.before, a->before, 8 * (size_t)d->batch);
  if (a->pages) put(x.keys, a->pages->length, 8 * (size_t)d->batch);
  if (d->mask.lengths) put(x.lengths, d->mask.lengths, 4 * (size_t)d->batch);
  if (!a->pages) put(x.mask, d->mask.key_mask, x.all - x.mask);
  return small ? (const char *)gpu_stage(gpu, host, x.all) : far;
}

static void set_keys(cuda_gpu *gpu, pairs_call *c, const cuda_attention *a, char **memory) {
  const attend_desc *d = a->desc;
  const size_t size = d->dtype == ATTEND_F32 ? 4 : 2;
  const host_numbers x = numbers_of(a);
  const char *numbers = stage_numbers(gpu, a, memory);
  c->causal = d->mask.causal != ATTEND_NOT_CAUSAL;
  c->window = d->mask.window;
  c->position = d->mask.causal == ATTEND_CAUSAL_BOTTOM ? d->kv_len - d->q_len : 0;
  if (d->mask.lengths) c->lengths = (const int32_t *)(numbers + x.lengths);
  if (!a->pages) {
    if (d->mask.key_mask) c->key_mask = (const uint8_t *)numbers + x.mask;
    c->padded = d->mask.key_mask;
    return;
  }
  c->before = (const int64_t *)(numbers + x.before);
  c->keys = (const int64_t *)(numbers + x.keys);
  c->pages = a->pages->page;
  c->pages_stride = a->pages->stride;
  c->part_k = cuda_page_part(size, d->dim);
  c->part_v = cuda_page_part(size, d->dim_v);
  c->padded = a->pages->padded;
}

pairs_call pairs_open(cuda_gpu *gpu, const cuda_attention *a, char **memory) {
  const attend_desc *d = a->desc;
  pairs_call c = {};
  c.dtype = d->dtype;
  c.batch = d->batch, c.heads = d->heads, c.kv_heads = d->kv_heads;
  c.group = d->heads / d->kv_heads;
  c.n = a->n, c.kv_len = d->kv_len, c.dim = d->dim, c.dim_v = d->dim_v;
  c.q = pairs_view_of(d->dtype, a->q, d->heads, a->n, d->dim);
  c.k = pairs_view_of(d->dtype, a->k, d->kv_heads, d->kv_len, d->dim);
  c.v = pairs_view_of(d->dtype, a->v, d->kv_heads, d->kv_len, d->dim_v);
  c.o = pairs_view_of(d->dtype, a->o, d->heads, a->n, d->dim_v);
  c.lse = a->lse;
  c.weak = (unsigned long long *)a->weak_rows;
  set_form(&c, d);
  set_bias(&c, d);
  set_keys(gpu, &c, a, memory);
  if (d->bias.kind == ATTEND_BUCKETS) {
    float *spread = (float *)*memory;
    const size_t n = (2 * (size_t)c.far + 1) * d->heads;
    *memory += spread_bytes(d);
    LAUNCH(gpu, pairs_spread_kernel, blocks_for(n, 256), 256, 0, d->bias, d->heads, c.bias_to2,
           spread);
    c.spread = spread;
  }
  return c;
}

const char *cuda_pairs_refusal(const cuda_gpu *, const attend_desc *d) {
  if (d->form.kind == ATTEND_CUSTOM) return "a form of the caller's own runs on the host";
  if (d->form.kind == ATTEND_FAVOR || d->form.kind == ATTEND_FOURIER || d->form.features > 0)
    return "random features are summed, not paired";
  return NULL;
}

/* ---- launching ----------------------------------------------------------------------- */

/* Rows of a tile, and CTAs that each take all keys; then how many joins of panels to split. */
struct pairs_shape {
  int r, w, tiles, chunks, splits;
  bool few; /* pairs_decode */
};

static pairs_shape shape_of(const cuda_gpu *gpu, const cuda_attention *a) {
  const attend_desc *d = a->desc;
  const int64_t rows = (int64_t)a->n * (d->heads / d->kv_heads), stacks = d->batch * d->kv_heads;
  int64_t keys = d->kv_len;
  pairs_shape s = {rows <= 16 ? 1 : 4, d->dim <= 64 && d->dim_v <= 64 ? 64 : 128, 0, 0, 0, false};
  if (a->pages) keys = 0;
  for (int b = 0; a->pages && b < d->batch; b++) keys = std::max(keys, a->pages->length[b]);
  s.tiles = (int)((rows + 16 * s.r - 1) / (16 * s.r));
  s.chunks = (d->dim_v + s.w - 1) / s.w;
  const int64_t joins = (keys + JOIN * PANEL - 1) / (JOIN * PANEL);
  const double bytes = 4.0 * stacks * rows * joins * (d->dim_v + 3);
  const bool fits = joins > 0 && joins <= 65535 && bytes < 64e6;
  s.few = fits && pairs_decodes(a);
  if (s.few || (fits && joins > 1 && s.tiles * stacks * s.chunks < 2 * gpu->processors))
    s.splits = (int)joins;
  return s;
}

size_t cuda_pairs_bytes(cuda_gpu *gpu, const cuda_attention *a) {
  const attend_desc *d = a->desc;
  const size_t parts = (size_t)d->batch * d->heads * a->n * shape_of(gpu, a).splits;
  return pairs_open_bytes(a) + pairs_round(12 * parts) + pairs_round(4 * parts * d->dim_v);
}

template <int R, int W>
static void forward(cuda_gpu *gpu, const pairs_call &c) {
  const size_t bytes = tile_memory<R, W>::bytes(c.dim);
  const dim3 grid((unsigned)(c.tiles * c.batch * c.kv_heads), c.splits ? c.splits : 1, c.chunks);
  gpu_check(gpu,
            cudaFuncSetAttribute(pairs_forward_kernel<R, W>,
                                 cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes),
            "pairs_forward_kernel");
  LAUNCH(gpu, (pairs_forward_kernel<R, W>), grid, THREADS, bytes, c);
}

void pairs_choose(cuda_gpu *gpu, const pairs_call *given) {
  pairs_call c = *given;
  c.tiles = (c.n * c.group + 63) / 64;
  c.chunks = 1, c.splits = 0;
  if (c.dim <= 64)
    forward<4, 64>(gpu, c);
  else
    forward<4, 128>(gpu, c);
}

void cuda_pairs_forward(cuda_gpu *gpu, const cuda_attention *a) {
  const attend_desc *d = a->desc;
  if (!d->batch || !d->heads || !a->n) return;
  char *memory = (char *)a->work;
  pairs_call c = pairs_open(gpu, a, &memory);
  const pairs_shape s = shape_of(gpu, a);
  const size_t parts = (size_t)d->batch * d->heads * a->n * s.splits;
  c.tiles = s.tiles, c.chunks = s.chunks, c.splits = s.splits;
  c.part = (float *)memory;
  c.part_o = (float *)(memory + pairs_round(12 * parts));
  if (s.few)
    pairs_decode(gpu, &c);
  else if (s.r == 1)
    s.w == 64 ? forward<1, 64>(gpu, c) : forward<1, 128>(gpu, c);
  else
    s.w == 64 ? forward<4, 64>(gpu, c) : forward<4, 128>(gpu, c);
  if (s.splits)
    LAUNCH(gpu, pairs_join_kernel,
           dim3(d->batch * d->heads * a->n, (d->dim_v + JOIN_THREADS - 1) / JOIN_THREADS),
           JOIN_THREADS, 0, c);
}
