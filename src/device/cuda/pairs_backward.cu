/* Backward of attention pair by pair, from (o, lse) alone; what is computed is that of
 * attention/softmax_backward.c.
 *
 *   P = exp(S - lse)      dP = dO V^T      dS = P (dP - rowsum(dO o))
 *   dV = P^T dO           dK = scale dS^T Q           dQ = scale dS K
 *
 * One kernel owns a panel of keys and takes the rows of the heads of its group in order; one owns
 * 64 rows of a head and takes the panels in order: seven products, no atomics, and sums whose order
 * does not depend on the batch. ALiBi's slopes and T5's buckets are summed in double by each tile
 * of rows, and the tiles are joined in order. A dense bias has a kernel that owns tiles of pairs
 * and takes batch entries, heads, rows and keys that share an element in order.
 */
#include "device/cuda/pairs_tiles.cuh"

#include <algorithm>
#include <limits.h>

struct backward_call {
  pairs_call c;
  pairs_view d_o, dq, dk, dv;
  float *delta, *lse2; /* [B,H,n]; lse2 of poly: the denominator, of a dead row: infinity */
  float slope;         /* of the exponent by q.k; poly: of its base */
  int chunks, tiles, panels;
  double *sums; /* [B,H,tiles][entries] of ALiBi's slopes and buckets */
  int entries;
  float *dbias;
  int64_t stride[4]; /* dense */
};

/* ---- rows ---------------------------------------------------------------------------- */

/* A warp has a row. */
__global__ void __launch_bounds__(128)
    backward_rows_kernel(const __grid_constant__ backward_call x) {
  const pairs_call &c = x.c;
  const int64_t row = blockIdx.x * 4ll + threadIdx.x / 32, head = row / c.n;
  if (row >= (int64_t)c.batch * c.heads * c.n) return;
  const int b = (int)(head / c.heads), h = (int)(head % c.heads), i = (int)(row % c.n);
  const float lse = c.lse[row];
  const pairs_row r = row_of(c, {b, h / c.group, h, 1, i, c.n}, 0);
  const bool dead = lse_is_dead(c, lse) || r.lo >= r.hi;
  const int size = c.dtype == ATTEND_F32 ? 4 : 2;
  const int64_t o = b * c.o.stride[0] + h * c.o.stride[1] + i * c.o.stride[2];
  const int64_t d_o = b * x.d_o.stride[0] + h * x.d_o.stride[1] + i * x.d_o.stride[2];
  float sum = 0;
  for (int m = threadIdx.x % 32; m < c.dim_v && !dead; m += 32)
    sum = fmaf(load_element(c.dtype, x.d_o.data + size * d_o, m * x.d_o.stride[3]),
               load_element(c.dtype, c.o.data + size * o, m * c.o.stride[3]), sum);
  sum = warp_sum(sum);
  if (threadIdx.x % 32) return;
  x.delta[row] = sum;
  x.lse2[row] = dead                               ? INFINITY
                : c.form == POLY || c.form == HARD ? lse
                                                   : (float)((double)lse * 1.44269504088896340736);
}

template <int W>
__device__ static void take_rows(const backward_call &x, const cell_memory<W> &m,
                                 const pairs_tile &t) {
  const pairs_call &c = x.c;
  if (threadIdx.x < 64) {
    const int r = threadIdx.x;
    const int64_t at = ((int64_t)t.b * c.heads + t.head) * c.n + min(t.row + r, t.rows - 1);
    pairs_row row = row_of(c, t, r);
    m.lse2[r] = x.lse2[at];
    m.delta[r] = x.delta[at];
    if (m.lse2[r] == INFINITY) row.lo = row.hi = 0;
    m.row[r] = row;
  }
  __syncthreads();
}

/* ---- a cell: 64 rows of a head on a panel of keys ------------------------------------ */

/* What of it is in shared memory already, when the widths are one chunk. */
enum { NOTHING_THERE, ROWS_THERE, KEYS_THERE };

/* p and the gradients of the score, ds, and of q.k, but for a factor. Returns whether what was
 * loaded was not finite. */
template <int W>
__device__ static bool cell(const backward_call &x, const cell_memory<W> &m, const pairs_tile &t,
                            int panel, int there, float (&p)[4][4], float (&ds)[4][4],
                            float (&dx)[4][4]) {
  const pairs_call &c = x.c;
  const int tx = threadIdx.x % 16, ty = threadIdx.x / 16, keys = keys_of(c, t.b);
  const bool elu = c.form == ELU;
  bool odd = false;
  float s[4][4] = {}, dp[4][4] = {};
  for (int i = 0; i < max(c.dim, c.dim_v); i += W) {
    __syncthreads();
    if (there != ROWS_THERE) {
      load_queries<W>(c, c.q, t, m.row, 64, i, c.dim, elu, m.q, m.ld);
      load_queries<W>(c, x.d_o, t, m.row, 64, i, c.dim_v, false, m.d_o, m.ld);
    }
    if (there != KEYS_THERE) {
      odd |= load_keys<W>(c, c.k, 0, t.b, t.g, panel, 0, keys, i, c.dim, elu, m.k, m.ld);
      odd |= load_keys<W>(c, c.v, 0, t.b, t.g, panel, 0, keys, i, c.dim_v, false, m.v, m.ld);
    }
    __syncthreads();
    if (i < c.dim) multiply_scores<4>(c, m.q, m.ld, m.k, m.ld, min(W, (c.dim - i + 3) / 4 * 4), s);
    if (i < c.dim_v)
      multiply_columns<4, false>(m.d_o, m.ld, m.v, m.ld, min(W, (c.dim_v - i + 3) / 4 * 4), dp);
  }
  const uint8_t *real = reals_of(c, t.b, panel);
#pragma unroll
  for (int r = 0; r < 4; r++) {
    const int at = ty * 4 + r;
    const pairs_row row = m.row[at];
    const float lse2 = m.lse2[at], delta = m.delta[at];
    const int64_t index = ((int64_t)t.b * c.heads + t.head) * c.n + min(t.row + at, t.rows - 1);
#pragma unroll
    for (int j = 0; j < 4; j++) {
      const int key = panel * PANEL + tx + 16 * j;
      p[r][j] = ds[r][j] = dx[r][j] = 0;
      if (!sees(row, key, real)) continue;
      const float raw = s[r][j], y = score_of(c, row, key, raw), gap = dp[r][j] - delta;
      if (c.form == HARD) {
        const bool chosen = c.first ? key == c.best[index] : y == lse2 && y > -INFINITY;
        p[r][j] = chosen ? c.share[index] : 0.f;
        if (chosen && c.first) p[r][j] = 1;
        continue;
      }
      if (c.form == POLY) {
        const float base = fmaf(raw, c.a, c.c);
        float below = power_of(base, c.degree - 1) * (float)c.degree;
        if (c.bias.kind != ATTEND_NO_BIAS) below *= exp2f(bias_of(c, row, key));
        p[r][j] = y / lse2;
        ds[r][j] = p[r][j] * gap;
        dx[r][j] = gap * (below / lse2);
        continue;
      }
      /* A weight is at most 1; a huge lse2, rounded, would say otherwise. */
      const float e = fmaf(y, c.factor, -lse2);
      p[r][j] = exp2_less(e > 0 ? 0.f : e, 1.f, 0.f);
      ds[r][j] = dx[r][j] = p[r][j] * gap;
      if (c.cap_in != 0) {
        const float h = tanhf(__fmul_rn(c.cap_in, raw));
        dx[r][j] *= fmaf(-h, h, 1.f);
      }
      if (elu) dx[r][j] = raw > 0 ? dx[r][j] / raw : 0.f;
    }
  }
  return odd;
}

__device__ static inline void store_tile(const float (&s)[4][4], float *to, int ld) {
  const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
#pragma unroll
  for (int r = 0; r < 4; r++)
#pragma unroll
    for (int j = 0; j < 4; j++) to[(ty * 4 + r) * ld + tx + 16 * j] = s[r][j];
}

/* o[i][.] += sum_n w(i, n) x[n][.], for the 4 rows (BY_KEYS: keys) of this thread, in order of n;
 * APART: x[n] - less[i]. w is [64 rows][64 keys]. odd: where w is 0, x is not read. */
template <int W, bool BY_KEYS, bool APART>
__device__ static void accumulate(const float *w, int ldw, const float *x, int ldx, bool odd,
                                  const float *less, float (&o)[4][W / 16]) {
  const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
  x += 4 * tx;
  w += BY_KEYS ? 4 * ty : 4 * ty * ldw;
#pragma unroll 2
  for (int n = 0; n < 64; n += 4) {
    float f[4][4]; /* [of n][of i], or the other way round */
#pragma unroll
    for (int e = 0; e < 4; e++)
      *(float4 *)f[e] = *(const float4 *)(BY_KEYS ? w + (n + e) * ldw : w + e * ldw + n);
#pragma unroll
    for (int e = 0; e < 4; e++)
#pragma unroll
      for (int u = 0; u < W / 64; u++) {
        const float4 y = *(const float4 *)(x + (n + e) * ldx + 64 * u);
        const float value[4] = {y.x, y.y, y.z, y.w};
#pragma unroll
        for (int i = 0; i < 4; i++) {
          const float a = BY_KEYS ? f[e][i] : f[i][e];
          if (odd && a == 0) continue;
#pragma unroll
          for (int k = 0; k < 4; k++) {
            float z = value[k];
            if (APART) z -= less[(ty * 4 + i) * ldx + 4 * tx + 64 * u + k];
            o[i][4 * u + k] = fmaf(a, z, o[i][4 * u + k]);
          }
        }
      }
  }
}
template <int W, bool BY_KEYS>
__device__ static void accumulate_any(bool apart, const float *w, int ldw, const float *x, int ldx,
                                      bool odd, const float *less, float (&o)[4][W / 16]) {
  if (apart)
    accumulate<W, BY_KEYS, true>(w, ldw, x, ldx, odd, less, o);
  else
    accumulate<W, BY_KEYS, false>(w, ldw, x, ldx, odd, less, o);
}

/* Columns [from, from + W) of this thread's 4 rows; elu: times the slope of the feature of what
 * lies at `base`. */
template <int W>
__device__ static void store_gradient(const pairs_call &c, const pairs_view &to, int b, int h,
                                      int row, int rows, int from, int width, float factor,
                                      const pairs_view *base, float (&o)[4][W / 16]) {
  const int tx = threadIdx.x % 16, ty = threadIdx.x / 16, size = c.dtype == ATTEND_F32 ? 4 : 2;
#pragma unroll
  for (int r = 0; r < 4; r++) {
    const int at = row + ty * 4 + r;
    if (at >= rows) continue;
    char *line = to.data + size * (b * to.stride[0] + h * to.stride[1] + at * to.stride[2]);
#pragma unroll
    for (int i = 0; i < W / 16; i++) {
      const int column = from + 64 * (i / 4) + 4 * tx + i % 4;
      float y = o[r][i] * factor;
      if (column >= width) continue;
      if (base && y != 0) {
        const float z = load_element(
            c.dtype,
            base->data + size * (b * base->stride[0] + h * base->stride[1] + at * base->stride[2]),
            column * base->stride[3]);
        y *= z > 0 ? 1.f : expf(z);
      }
      store_element(c.dtype, line, column * to.stride[3], y);
    }
  }
}

/* ---- dK and dV ----------------------------------------------------------------------- */

template <int W>
__global__ void __launch_bounds__(THREADS, W == 64 ? 2 : 1)
    backward_keys_kernel(const __grid_constant__ backward_call x) {
  extern __shared__ float4 shared[];
  const pairs_call &c = x.c;
  const cell_memory<W> m(shared);
  const int stacks = c.batch * c.kv_heads, stack = blockIdx.x % stacks, panel = blockIdx.x / stacks;
  const int b = stack / c.kv_heads, g = stack % c.kv_heads, from = blockIdx.z * W;
  const bool keeps = x.chunks == 1, apart = c.form == GAUSSIAN;
  float dk[4][W / 16] = {}, dv[4][W / 16] = {};
  int64_t first, end;
  int there = NOTHING_THERE;
  rows_that_see(c, b, panel, &first, &end);
  for (int h = g * c.group; h < (g + 1) * c.group; h++)
    for (int row = (int)(first / 64 * 64); row < end; row += 64) {
      const pairs_tile t = {b, g, h, 1, row, c.n};
      float p[4][4], ds[4][4], dx[4][4];
      __syncthreads();
      take_rows(x, m, t);
      bool odd = cell<W>(x, m, t, panel, there, p, ds, dx);
      if (keeps) there = KEYS_THERE;
      store_tile(p, m.p, m.ldp);
      store_tile(dx, m.ds, m.ldp);
      if (!keeps) {
        __syncthreads();
        load_queries<W>(c, c.q, t, m.row, 64, from, c.dim, c.form == ELU, m.q, m.ld);
        load_queries<W>(c, x.d_o, t, m.row, 64, from, c.dim_v, false, m.d_o, m.ld);
        if (apart)
          load_keys<W>(c, c.k, 0, b, g, panel, 0, keys_of(c, b), from, c.dim, false, m.k, m.ld);
      }
      odd = __syncthreads_or(odd);
      accumulate<W, true, false>(m.p, m.ldp, m.d_o, m.ld, odd, NULL, dv);
      if (c.form != HARD) accumulate_any<W, true>(apart, m.ds, m.ldp, m.q, m.ld, odd, m.k, dk);
    }
  store_gradient<W>(c, x.dv, b, g, panel * PANEL, c.kv_len, from, c.dim_v, 1, NULL, dv);
  store_gradient<W>(c, x.dk, b, g, panel * PANEL, c.kv_len, from, c.dim, x.slope,
                    c.form == ELU ? &c.k : NULL, dk);
}

/* ---- dQ, and the sums of ALiBi's slopes and of buckets ------------------------------- */

/* Onto sums[entries] of this tile: by diagonals of ds, which have one distance each. */
template <int W>
__device__ static void add_buckets(const backward_call &x, const cell_memory<W> &m, int panel,
                                   double *sums) {
  __shared__ double diagonal[128];
  __shared__ int bucket[128];
  const int n = threadIdx.x - 63; /* key - row */
  if (threadIdx.x < 127) {
    double sum = 0;
    for (int r = max(0, -n); r < min(64, 64 - n); r++) sum += (double)m.p[r * m.ldp + r + n];
    diagonal[threadIdx.x] = sum;
    bucket[threadIdx.x] = bucket_of(x.c.bias, panel * PANEL - m.row[0].at + n);
  }
  __syncthreads();
  for (int e = threadIdx.x; e < x.entries; e += THREADS) {
    double sum = 0;
    for (int i = 0; i < 127; i++)
      if (bucket[i] == e) sum += diagonal[i];
    sums[e] += sum;
  }
}

template <int W>
__global__ void __launch_bounds__(THREADS, W == 64 ? 2 : 1)
    backward_queries_kernel(const __grid_constant__ backward_call x) {
  extern __shared__ float4 shared[];
  const pairs_call &c = x.c;
  const cell_memory<W> m(shared);
  const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
  const int heads = c.batch * c.heads, head = blockIdx.x % heads, from = blockIdx.z * W;
  const int tile = x.tiles - 1 - blockIdx.x / heads;
  const pairs_tile t = {
      head / c.heads, head % c.heads / c.group, head % c.heads, 1, tile * 64, c.n};
  const bool keeps = x.chunks == 1, apart = c.form == GAUSSIAN;
  double *sums = x.sums + ((int64_t)head * x.tiles + tile) * x.entries, ramp = 0;
  float dq[4][W / 16] = {};
  int there = NOTHING_THERE, lo = INT_MAX, hi = 0;
  for (int e = threadIdx.x; e < x.entries && from == 0; e += THREADS) sums[e] = 0;
  take_rows(x, m, t);
  for (int r = 0; r < 64; r++)
    if (m.row[r].lo < m.row[r].hi) lo = min(lo, m.row[r].lo), hi = max(hi, m.row[r].hi);
  for (int panel = lo / PANEL; panel * PANEL < hi; panel++) {
    float p[4][4], ds[4][4], dx[4][4];
    bool odd = cell<W>(x, m, t, panel, there, p, ds, dx);
    if (keeps) there = ROWS_THERE;
    store_tile(dx, m.ds, m.ldp);
    if (x.entries && from == 0 && c.bias.kind == ATTEND_BUCKETS) store_tile(ds, m.p, m.ldp);
    if (x.entries && c.bias.kind == ATTEND_ALIBI)
#pragma unroll
      for (int r = 0; r < 4; r++)
#pragma unroll
        for (int j = 0; j < 4; j++)
          ramp -= (double)ds[r][j] * abs(panel * PANEL + tx + 16 * j - m.row[ty * 4 + r].at);
    if (!keeps) {
      __syncthreads();
      odd |= load_keys<W>(c, c.k, 0, t.b, t.g, panel, 0, keys_of(c, t.b), from, c.dim,
                          c.form == ELU, m.k, m.ld);
      if (apart) load_queries<W>(c, c.q, t, m.row, 64, from, c.dim, false, m.q, m.ld);
    }
    odd = __syncthreads_or(odd);
    if (c.form != HARD) accumulate_any<W, false>(apart, m.ds, m.ldp, m.k, m.ld, odd, m.q, dq);
    if (x.entries && from == 0 && c.bias.kind == ATTEND_BUCKETS) add_buckets(x, m, panel, sums);
  }
  store_gradient<W>(c, x.dq, t.b, t.head, t.row, t.rows, from, c.dim, x.slope,
                    c.form == ELU ? &c.q : NULL, dq);
  if (x.entries && from == 0 && c.bias.kind == ATTEND_ALIBI) {
    const double sum = block_sum<double, THREADS / 32>(ramp);
    if (threadIdx.x == 0) *sums = sum;
  }
}

/* dbias [entries,H] from the sums of tiles, in order. */
__global__ void backward_sums_kernel(const __grid_constant__ backward_call x, float factor) {
  const pairs_call &c = x.c;
  EACH(i, (size_t)x.entries * c.heads) {
    const int e = (int)(i / c.heads), h = (int)(i % c.heads);
    double sum = 0;
    for (int b = 0; b < c.batch; b++)
      for (int tile = 0; tile < x.tiles; tile++)
        sum += x.sums[(((int64_t)b * c.heads + h) * x.tiles + tile) * x.entries + e];
    x.dbias[i] = (float)(sum * (double)factor);
  }
}

/* ---- the gradient of a dense bias ---------------------------------------------------- */

/* A CTA owns 64 rows x 64 keys of the bias, or all of what has stride 0. */
template <int W>
__global__ void __launch_bounds__(THREADS)
    backward_dense_kernel(const __grid_constant__ backward_call x, float factor) {
  extern __shared__ float4 shared[];
  const pairs_call &c = x.c;
  const cell_memory<W> m(shared);
  const int64_t *stride = x.stride;
  const int panels = stride[3] ? x.panels : 1, tiles = stride[2] ? x.tiles : 1;
  const int heads = stride[1] ? c.heads : 1;
  const int panel0 = blockIdx.x % panels, tile0 = blockIdx.x / panels % tiles;
  const int h0 = blockIdx.x / panels / tiles % heads, b0 = blockIdx.x / panels / tiles / heads;
  float sum[4][4] = {};
  for (int b = b0; b < (stride[0] ? b0 + 1 : c.batch); b++)
    for (int h = h0; h < (stride[1] ? h0 + 1 : c.heads); h++)
      for (int tile = tile0; tile < (stride[2] ? tile0 + 1 : x.tiles); tile++) {
        const pairs_tile t = {b, h / c.group, h, 1, tile * 64, c.n};
        __syncthreads();
        take_rows(x, m, t);
        for (int panel = panel0; panel < (stride[3] ? panel0 + 1 : x.panels); panel++) {
          float p[4][4], ds[4][4], dx[4][4];
          cell<W>(x, m, t, panel, NOTHING_THERE, p, ds, dx);
#pragma unroll
          for (int r = 0; r < 4; r++)
#pragma unroll
            for (int j = 0; j < 4; j++) sum[r][j] += ds[r][j];
        }
      }
  __syncthreads();
  store_tile(sum, m.p, m.ldp);
  __syncthreads();
  const int rows = stride[2] ? 64 : 1, keys = stride[3] ? 64 : 1;
  for (int i = threadIdx.x; i < rows * keys; i += THREADS) {
    const int row = i / keys, key = i % keys;
    double all = 0;
    for (int r = row; r < (stride[2] ? row + 1 : 64); r++)
      for (int j = key; j < (stride[3] ? key + 1 : 64); j++) all += (double)m.p[r * m.ldp + j];
    const int64_t at = tile0 * 64 + row, to = (int64_t)panel0 * PANEL + key;
    if (at < c.n && to < c.kv_len)
      x.dbias[b0 * stride[0] + h0 * stride[1] + at * stride[2] + to * stride[3]] =
          (float)(all * (double)factor);
  }
}

/* ---- launching ----------------------------------------------------------------------- */

static int entries_of(const cuda_attention *a) {
  if (!a->dbias) return 0;
  if (a->desc->bias.kind == ATTEND_ALIBI) return 1;
  return a->desc->bias.kind == ATTEND_BUCKETS ? a->desc->bias.buckets : 0;
}

static size_t rows_of(const cuda_attention *a) {
  return (size_t)a->desc->batch * a->desc->heads * a->n;
}
static size_t sums_of(const cuda_attention *a) {
  return (size_t)a->desc->batch * a->desc->heads * ((a->n + 63) / 64) * entries_of(a);
}

size_t cuda_pairs_backward_bytes(cuda_gpu *, const cuda_attention *a) {
  return pairs_open_bytes(a) + 4 * pairs_round(4 * rows_of(a)) + pairs_round(8 * sums_of(a));
}

static void *cut(char **memory, size_t bytes) {
  char *block = *memory;
  *memory += pairs_round(bytes);
  return block;
}

/* Of the exponent, or poly's base. */
static float slope_of(const attend_desc *d) {
  const attend_form *f = &d->form;
  if (f->kind == ATTEND_POLY) return f->a;
  if (f->kind == ATTEND_ELU) return 1;
  if (f->kind == ATTEND_GAUSSIAN) return (float)(1 / ((double)f->sigma * (double)f->sigma));
  return f->temperature > 0 ? d->scale / f->temperature : d->scale;
}

static backward_call call_of(cuda_gpu *gpu, const cuda_attention *a, int width) {
  const attend_desc *d = a->desc;
  char *memory = (char *)a->work;
  backward_call x = {};
  x.c = pairs_open(gpu, a, &memory);
  x.d_o = pairs_view_of(d->dtype, a->d_o, d->heads, a->n, d->dim_v);
  x.dq = pairs_view_of(d->dtype, a->dq, d->heads, a->n, d->dim);
  x.dk = pairs_view_of(d->dtype, a->dk, d->kv_heads, d->kv_len, d->dim);
  x.dv = pairs_view_of(d->dtype, a->dv, d->kv_heads, d->kv_len, d->dim_v);
  x.delta = (float *)cut(&memory, 4 * rows_of(a));
  x.lse2 = (float *)cut(&memory, 4 * rows_of(a));
  x.c.best = (int *)cut(&memory, 4 * rows_of(a));
  x.c.share = (float *)cut(&memory, 4 * rows_of(a));
  x.sums = (double *)cut(&memory, 8 * sums_of(a));
  x.entries = entries_of(a);
  x.slope = slope_of(d);
  x.tiles = (a->n + 63) / 64;
  x.panels = (d->kv_len + PANEL - 1) / PANEL;
  x.chunks = (std::max(d->dim, d->dim_v) + width - 1) / width;
  x.dbias = a->dbias;
  for (int i = 0; i < 4; i++) x.stride[i] = x.c.bias.dense.stride[i];
  return x;
}

template <typename K>
static void allow(cuda_gpu *gpu, K kernel, size_t bytes) {
  gpu_check(gpu,
            cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes),
            "shared memory");
}

template <int W>
static void backward(cuda_gpu *gpu, const cuda_attention *a, const backward_call &x) {
  const attend_desc *d = a->desc;
  const size_t bytes = cell_memory<W>::bytes();
  const unsigned heads = (unsigned)(d->batch * d->heads),
                 stacks = (unsigned)(d->batch * d->kv_heads);
  const float factor = d->form.temperature > 0 ? 1 / d->form.temperature : 1;
  if (a->n) LAUNCH(gpu, backward_rows_kernel, (unsigned)((rows_of(a) + 3) / 4), 128, 0, x);
  if (x.c.form == HARD && a->n) pairs_choose(gpu, &x.c);
  allow(gpu, backward_keys_kernel<W>, bytes);
  allow(gpu, backward_queries_kernel<W>, bytes);
  if (x.panels)
    LAUNCH(gpu, backward_keys_kernel<W>, dim3(stacks * x.panels, 1, x.chunks), THREADS, bytes, x);
  if (a->n)
    LAUNCH(gpu, backward_queries_kernel<W>, dim3(heads * x.tiles, 1, x.chunks), THREADS, bytes, x);
  if (x.entries)
    LAUNCH(gpu, backward_sums_kernel, blocks_for((size_t)x.entries * d->heads, 64), 64, 0, x,
           factor);
  if (!a->dbias || d->bias.kind != ATTEND_DENSE || !a->n || !x.panels) return;
  const int64_t *s = x.stride;
  const unsigned owners =
      (s[0] ? d->batch : 1) * (s[1] ? d->heads : 1) * (s[2] ? x.tiles : 1) * (s[3] ? x.panels : 1);
  allow(gpu, backward_dense_kernel<W>, bytes);
  LAUNCH(gpu, backward_dense_kernel<W>, owners, THREADS, bytes, x, factor);
}

void cuda_pairs_backward(cuda_gpu *gpu, const cuda_attention *a) {
  const attend_desc *d = a->desc;
  const bool narrow = d->dim <= 64 && d->dim_v <= 64;
  const backward_call x = call_of(gpu, a, narrow ? 64 : 128);
  if (narrow)
    backward<64>(gpu, a, x);
  else
    backward<128>(gpu, a, x);
}
