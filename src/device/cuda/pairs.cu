/* Attention pair by pair, forward: tiles of rows that iterate over panels of keys, with the online
 * softmax (Milakov and Gimelshein 2018) as FlashAttention has it (Dao et al. 2022), in plain fma.
 *
 * The heads that share a kv head are rows of one stack: row r of (b, g) is query r / group of head
 * g group + r % group. With few tiles each join of panels has a CTA of its own, as in
 * Flash-Decoding, and pairs_join_kernel adds their sums in order: the same operations, so the same
 * bits. Values wider than W columns are taken in chunks, whose CTAs compute the scores again.
 */
#include "device/cuda/pairs_tiles.cuh"

#include <algorithm>
#include <limits.h>

/* Queries up to this width stay in shared memory. */
enum { RESIDENT = 256 };

/* ---- one tile ------------------------------------------------------------------------ */

template <int R, int W>
struct tile_memory {
  static constexpr int rows = 16 * R, ld = W + 4, ldp = PANEL + 4;
  float *q, *k, *v, *p;
  float4 *all; /* the totals of every thread */
  pairs_row *row;
  row_sums *total;
  int ldq;
  static __host__ __device__ int query_width(int dim) {
    return dim > RESIDENT ? W : (dim + W - 1) / W * W;
  }
  static size_t bytes(int dim) {
    return sizeof(float) *
               (rows * (query_width(dim) + 4) + 2 * PANEL * ld + rows * ldp + rows * W) +
           rows * (sizeof(pairs_row) + sizeof(row_sums));
  }
  __device__ tile_memory(int dim, void *shared) {
    ldq = query_width(dim) + 4;
    q = (float *)shared;
    k = q + rows * ldq;
    v = k + PANEL * ld;
    p = v + PANEL * ld;
    all = (float4 *)(p + rows * ldp);
    row = (pairs_row *)(all + rows * W / 4);
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

/* Adds a row's chain to its total; all: of this thread, THREADS apart. */
template <int N>
__device__ static inline void fold_row(const pairs_call &c, row_sums *total, row_sums &sums,
                                       float (&o)[N], float4 *all) {
  float a, b;
  const row_sums was = *total;
  join_factors(c, was, sums, &a, &b);
  __syncwarp();
  if (threadIdx.x % 16 == 0) *total = join_sums(c, was, sums, a, b);
  __syncwarp();
#pragma unroll
  for (int i = 0; i < N / 4; i++) {
    float4 x = all[i * THREADS];
    x.x = join_value(x.x, o[4 * i], a, b);
    x.y = join_value(x.y, o[4 * i + 1], a, b);
    x.z = join_value(x.z, o[4 * i + 2], a, b);
    x.w = join_value(x.w, o[4 * i + 3], a, b);
    all[i * THREADS] = x;
    o[4 * i] = o[4 * i + 1] = o[4 * i + 2] = o[4 * i + 3] = 0;
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
  float o[R][N] = {};
  float4 *all = m.all + threadIdx.x;
#pragma unroll
  for (int r = 0; r < R; r++) sums[r] = no_sums(c);
  for (int i = 0; i < R * N / 4; i++) all[i * THREADS] = make_float4(0, 0, 0, 0);
  const bool early_k = c.dim <= W && is_early(c, c.k, c.dim);
  const bool early_v = !c.best && is_early(c, c.v, c.dim_v);
  panel_part<W> x;
  if (early_k && lo < hi) fetch_panel<W>(c, c.k, 0, t.b, t.g, lo / PANEL, lo, hi, 0, c.dim, x);
  for (int panel = lo / PANEL; panel * PANEL < hi; panel++) {
    const int first = panel * PANEL;
    float s[R][4] = {};
    for (int i = 0; i < c.dim; i += W) {
      if (i) __syncthreads();
      if (!resident) load_queries<W>(c, c.q, t, m.row, rows, i, c.dim, elu, m.q, m.ldq);
      if (early_k)
        store_panel<W>(c, x, c.dim, elu, m.k, m.ld);
      else
        load_keys<W>(c, c.k, 0, t.b, t.g, panel, lo, hi, i, c.dim, elu, m.k, m.ld);
      __syncthreads();
      if (i + W >= c.dim && early_v)
        fetch_panel<W>(c, c.v, c.part_k, t.b, t.g, panel, lo, hi, chunk, c.dim_v, x);
      multiply_scores<R>(c, m.q + (resident ? i : 0), m.ldq, m.k, m.ld,
                         min(W, (c.dim - i + 3) / 4 * 4), s);
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
    bool bad = false;
    if (early_v)
      bad = store_panel<W>(c, x, c.dim_v - chunk, false, m.v, m.ld);
    else if (!c.best)
      bad =
          load_keys<W>(c, c.v, c.part_k, t.b, t.g, panel, lo, hi, chunk, c.dim_v, false, m.v, m.ld);
    const bool odd = __syncthreads_or(bad);
    if (early_k && first + PANEL < hi)
      fetch_panel<W>(c, c.k, 0, t.b, t.g, panel + 1, lo, hi, 0, c.dim, x);
    if (c.best)
      ;
    else if (odd)
      multiply_values<R, W>(m.p, m.ldp, m.v, m.ld, true, o);
    else
      multiply_values<R, W>(m.p, m.ldp, m.v, m.ld, false, o);
    if (!c.splits && (panel % JOIN == JOIN - 1 || first + PANEL >= hi))
#pragma unroll
      for (int r = 0; r < R; r++)
        fold_row<N>(c, &m.total[ty * R + r], sums[r], o[r], all + r * (N / 4) * THREADS);
  }
  __syncthreads();

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
    for (int u = 0; u < N / 4 && !c.best; u++) {
      const float4 y = all[(r * (N / 4) + u) * THREADS];
      const float value[4] = {y.x, y.y, y.z, y.w};
#pragma unroll
      for (int e = 0; e < 4; e++) {
        const int column = chunk + 64 * u + 4 * tx + e;
        if (column < c.dim_v)
          store_element(c.dtype, row, column * c.o.stride[3], x.sum == 0 ? 0.f : value[e] / x.sum);
      }
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
