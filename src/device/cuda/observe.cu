/* Observing attention on the GPU: weights computed again from q, k and lse for what is requested,
 * as attention/observe.c does.
 *
 * A rank stands for a weight: its log2, -inf where the row does not see the key; poly: the weight
 * itself. Ranks order weights that round to the same float.
 */
#include "device/cuda/pairs_tiles.cuh"

#include <algorithm>
#include <limits.h>

struct observe_call {
  pairs_call c;
  attend_observation o;
  const int32_t *rows; /* of the GPU */
  int64_t width;       /* of a row of weights */
  int tiles, panels;
};

/* log2 of a weight that a hard argmax does not choose. */
static constexpr float NOT_CHOSEN = -1e4f;

__device__ static inline float weight_of(const pairs_call &c, float rank) {
  if (rank == -INFINITY) return 0;
  return c.form == POLY ? rank : exp2_less(rank, 1.f, 0.f);
}

/* ---- ranks of 64 rows of a head on a panel of keys ----------------------------------- */

__device__ static inline float rank_of(const pairs_call &c, const pairs_row &row, int key,
                                       const uint8_t *real, int64_t index, float lse2, float raw) {
  if (!sees(row, key, real)) return -INFINITY;
  const float y = score_of(c, row, key, raw);
  if (c.form == POLY) return y / lse2;
  if (c.form == HARD) {
    if (y == -INFINITY) return y;
    if (c.first) return key == c.best[index] ? 0.f : NOT_CHOSEN;
    return y == lse2 ? log2f(c.share[index]) : NOT_CHOSEN;
  }
  const float e = fmaf(y, c.factor, -lse2); /* lse is rounded: no weight is above 1 */
  return e > 0 ? 0.f : e;
}

template <int W>
__device__ static void rows_begin(const observe_call &x, const cell_memory<W> &m,
                                  const pairs_tile &t) {
  const pairs_call &c = x.c;
  if (threadIdx.x < 64) {
    const int at = min(t.row + (int)threadIdx.x, t.rows - 1);
    const float lse = c.lse[((int64_t)t.b * c.heads + t.head) * c.n + query_of(t, at)];
    pairs_row row = row_of(c, t, threadIdx.x);
    if (lse_is_dead(c, lse)) row.lo = row.hi = 0;
    m.row[threadIdx.x] = row;
    m.lse2[threadIdx.x] =
        c.form == POLY || c.form == HARD ? lse : (float)((double)lse * 1.44269504088896340736);
  }
  __syncthreads();
}

template <int W>
__device__ static void ranks(const observe_call &x, const cell_memory<W> &m, const pairs_tile &t,
                             int panel, float (&s)[4][4]) {
  const pairs_call &c = x.c;
  const int tx = threadIdx.x % 16, ty = threadIdx.x / 16, keys = keys_of(c, t.b);
  const bool elu = c.form == ELU, here = panel * PANEL < keys;
#pragma unroll
  for (int r = 0; r < 4; r++)
#pragma unroll
    for (int j = 0; j < 4; j++) s[r][j] = 0;
  for (int i = 0; i < c.dim && here; i += W) {
    __syncthreads();
    load_queries<W>(c, c.q, t, m.row, 64, i, c.dim, elu, m.q, m.ld);
    load_keys<W>(c, c.k, 0, t.b, t.g, panel, 0, keys, i, c.dim, elu, m.k, m.ld);
    __syncthreads();
    multiply_scores<4>(c, m.q, m.ld, m.k, m.ld, min(W, (c.dim - i + 3) / 4 * 4), s);
  }
  const uint8_t *real = here ? reals_of(c, t.b, panel) : NULL;
#pragma unroll
  for (int r = 0; r < 4; r++) {
    const int at = ty * 4 + r;
    const int64_t head = (int64_t)t.b * c.heads + t.head;
    const int64_t index = head * c.n + query_of(t, min(t.row + at, t.rows - 1));
#pragma unroll
    for (int j = 0; j < 4; j++)
      s[r][j] =
          rank_of(c, m.row[at], panel * PANEL + tx + 16 * j, real, index, m.lse2[at], s[r][j]);
  }
}

/* ---- whole rows ---------------------------------------------------------------------- */

template <int W>
__global__ void __launch_bounds__(THREADS)
    observe_rows_kernel(const __grid_constant__ observe_call x) {
  extern __shared__ float4 shared[];
  const pairs_call &c = x.c;
  const cell_memory<W> m(shared);
  const int tx = threadIdx.x % 16, ty = threadIdx.x / 16, n = x.o.n_rows;
  const int head = blockIdx.x / x.panels, panel = blockIdx.x % x.panels;
  const pairs_tile t = {
      head / c.heads, head % c.heads / c.group, head % c.heads, 1, (int)blockIdx.y * 64, n, x.rows};
  float s[4][4];
  rows_begin(x, m, t);
  ranks<W>(x, m, t, panel, s);
#pragma unroll
  for (int r = 0; r < 4; r++)
#pragma unroll
    for (int j = 0; j < 4; j++) {
      const int slot = t.row + ty * 4 + r, key = panel * PANEL + tx + 16 * j;
      if (slot < n && key < x.width)
        x.o.weights[((int64_t)head * n + slot) * x.width + key] = weight_of(c, s[r][j]);
    }
}

/* ---- statistics of rows -------------------------------------------------------------- */

/* Puts the ranks of a row on a panel into its sorted list; a later equal goes behind. */
__device__ static void insert(const observe_call &x, int64_t row, int first, const float *rank) {
  const int top = x.o.top;
  int32_t *index = x.o.top_index + row * top;
  float *best = x.o.top_weight + row * top;
  bool full = index[top - 1] >= 0;
  float least = best[top - 1];
  for (int j = 0; j < PANEL; j++) {
    const float y = rank[j];
    if (!(y > -INFINITY) || (full && !(y > least))) continue;
    int at = top - 1;
    for (; at > 0 && (index[at - 1] < 0 || y > best[at - 1]); at--) {
      index[at] = index[at - 1];
      best[at] = best[at - 1];
    }
    index[at] = first + j;
    best[at] = y;
    full = index[top - 1] >= 0;
    least = best[top - 1];
  }
}

template <int W>
__global__ void __launch_bounds__(THREADS)
    observe_statistics_kernel(const __grid_constant__ observe_call x) {
  extern __shared__ float4 shared[];
  const pairs_call &c = x.c;
  const cell_memory<W> m(shared);
  const int tx = threadIdx.x % 16, ty = threadIdx.x / 16, top = x.o.top;
  const int heads = c.batch * c.heads, head = blockIdx.x % heads;
  const pairs_tile t = {head / c.heads,
                        head % c.heads / c.group,
                        head % c.heads,
                        1,
                        (int)(blockIdx.x / heads) * 64,
                        c.n,
                        NULL};
  const int64_t row = (int64_t)head * c.n + t.row + threadIdx.x;
  const bool mine = threadIdx.x < 64 && t.row + (int)threadIdx.x < c.n;
  double entropy[4] = {};
  int hi = 0;
  rows_begin(x, m, t);
  for (int i = 0; i < top && mine; i++) {
    x.o.top_index[row * top + i] = -1;
    x.o.top_weight[row * top + i] = 0;
  }
  for (int r = 0; r < 64; r++) hi = max(hi, m.row[r].hi);
  for (int panel = 0; panel * PANEL < hi; panel++) {
    float s[4][4];
    ranks<W>(x, m, t, panel, s);
#pragma unroll
    for (int r = 0; r < 4; r++)
#pragma unroll
      for (int j = 0; j < 4; j++) {
        const float p = weight_of(c, s[r][j]);
        if (p > 0) entropy[r] -= (double)p * (c.form == POLY ? log2((double)p) : (double)s[r][j]);
        m.p[(ty * 4 + r) * m.ldp + tx + 16 * j] = s[r][j];
      }
    __syncthreads();
    if (top && mine) insert(x, row, panel * PANEL, m.p + threadIdx.x * m.ldp);
    __syncthreads();
  }
  for (int i = 0; i < top && mine; i++)
    if (x.o.top_index[row * top + i] >= 0)
      x.o.top_weight[row * top + i] = weight_of(c, x.o.top_weight[row * top + i]);
  if (mine && x.o.softmax_gap) x.o.softmax_gap[row] = 0;
#pragma unroll
  for (int r = 0; r < 4; r++) {
    const double sum = row_sum(entropy[r]);
    if (x.o.entropy && tx == 0 && t.row + ty * 4 + r < c.n)
      x.o.entropy[(int64_t)head * c.n + t.row + ty * 4 + r] = (float)(sum * 0.69314718055994530942);
  }
}

/* ---- the mass of keys ---------------------------------------------------------------- */

/* A CTA owns a panel of a head and takes the rows in order. */
template <int W>
__global__ void __launch_bounds__(THREADS)
    observe_mass_kernel(const __grid_constant__ observe_call x) {
  extern __shared__ float4 shared[];
  const pairs_call &c = x.c;
  const cell_memory<W> m(shared);
  const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
  const int head = blockIdx.x / x.panels, panel = blockIdx.x % x.panels;
  const int key = panel * PANEL + threadIdx.x;
  int64_t first, end;
  float sum = 0;
  rows_that_see(c, head / c.heads, panel, &first, &end);
  for (int row = (int)(first / 64 * 64); row < end; row += 64) {
    const pairs_tile t = {
        head / c.heads, head % c.heads / c.group, head % c.heads, 1, row, c.n, NULL};
    float s[4][4];
    __syncthreads();
    rows_begin(x, m, t);
    ranks<W>(x, m, t, panel, s);
#pragma unroll
    for (int r = 0; r < 4; r++)
#pragma unroll
      for (int j = 0; j < 4; j++) m.p[(ty * 4 + r) * m.ldp + tx + 16 * j] = weight_of(c, s[r][j]);
    __syncthreads();
    if (threadIdx.x < PANEL)
      for (int r = 0; r < 64; r++) sum += m.p[r * m.ldp + threadIdx.x];
  }
  if (threadIdx.x < PANEL && key < x.width) x.o.mass[(int64_t)head * x.width + key] = sum;
}

/* ---- launching ----------------------------------------------------------------------- */

enum { STAGED_ROWS = 4096 };

__global__ void copy_rows_kernel(int n, const int32_t *from, int32_t *to) {
  EACH(i, n) to[i] = from[i];
}

static size_t queries_of(const cuda_attention *a) {
  return (size_t)a->desc->batch * a->desc->heads * a->n;
}

size_t cuda_observe_bytes(cuda_gpu *, const cuda_attention *a) {
  return pairs_open_bytes(a) + 2 * pairs_round(4 * queries_of(a)) +
         pairs_round(4 * (size_t)a->observation->n_rows);
}

/* The host's list of rows, on the GPU. */
static const int32_t *take_list(cuda_gpu *gpu, const attend_observation *o, char **memory) {
  int32_t *to = (int32_t *)*memory;
  *memory += pairs_round(4 * (size_t)o->n_rows);
  for (int i = 0; i < o->n_rows; i += STAGED_ROWS) {
    const int n = std::min((int)STAGED_ROWS, o->n_rows - i);
    const void *staged = gpu_stage(gpu, o->rows + i, 4 * (size_t)n);
    LAUNCH(gpu, copy_rows_kernel, blocks_for(n, 256), 256, 0, n, (const int32_t *)staged, to + i);
  }
  return to;
}

template <int W>
static void observe(cuda_gpu *gpu, const observe_call &x) {
  const attend_observation *o = &x.o;
  const unsigned heads = (unsigned)(x.c.batch * x.c.heads);
  const size_t bytes = cell_memory<W>::bytes();
  for (auto kernel : {observe_rows_kernel<W>, observe_statistics_kernel<W>, observe_mass_kernel<W>})
    gpu_check(gpu,
              cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes),
              "observing");
  if (o->weights && o->n_rows && x.panels)
    LAUNCH(gpu, observe_rows_kernel<W>, dim3(x.panels * heads, (o->n_rows + 63) / 64), THREADS,
           bytes, x);
  if ((o->top || o->entropy || o->softmax_gap) && x.c.n)
    LAUNCH(gpu, observe_statistics_kernel<W>, heads * x.tiles, THREADS, bytes, x);
  if (o->mass && x.panels) LAUNCH(gpu, observe_mass_kernel<W>, x.panels * heads, THREADS, bytes, x);
}

void cuda_observe(cuda_gpu *gpu, const cuda_attention *a) {
  const attend_desc *d = a->desc;
  char *memory = (char *)a->work;
  observe_call x = {};
  x.o = *a->observation;
  x.rows = take_list(gpu, &x.o, &memory);
  x.c = pairs_open(gpu, a, &memory);
  x.c.best = (int *)memory;
  x.c.share = (float *)(memory + pairs_round(4 * queries_of(a)));
  x.width = a->pages ? 0 : d->kv_len;
  for (int b = 0; a->pages && b < d->batch; b++) x.width = std::max(x.width, a->pages->length[b]);
  x.tiles = (a->n + 63) / 64;
  x.panels = (int)((x.width + PANEL - 1) / PANEL);
  if (x.c.form == HARD && a->n) pairs_choose(gpu, &x.c);
  if (d->dim <= 64)
    observe<64>(gpu, x);
  else
    observe<128>(gpu, x);
}
