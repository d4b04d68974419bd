/* Layer norm, RMS norm and their gradients. A group of warps has a row, in registers where its
 * pieces fit; the gradients of weights are summed over CHUNK rows, and chunks are joined in order.
 */
#include "device/cuda/rows.cuh"

enum { CHUNK = 64, WARPS = THREADS / 32, PIECES = 4, ROW_WARPS = 4, ROW_THREADS = 32 * ROW_WARPS };
enum { NEAR = 32 * PIECES * PIECE, WIDEST = WARPS * NEAR }; /* columns of a warp, of a block */

__host__ __device__ static inline int groups_of(int groups) { return groups ? groups : 1; }

/* Where a row, or a group of one, begins. */
__device__ static size_t begin_of(int i, int groups, int ld, int width) {
  return (size_t)(i / groups) * ld + (size_t)(i % groups) * width;
}

/* Sums over the TEAM warps that share a row: one, or the block's. */
template <int TEAM>
__device__ static float team_sum(float x) {
  if constexpr (TEAM == 1)
    return warp_sum(x);
  else
    return block_sum<float, TEAM>(x);
}

/* Column of a thread's piece k. */
template <int TEAM>
__device__ static int column_of(int k) {
  const int thread = TEAM == 1 ? threadIdx.x % 32 : threadIdx.x;
  return (k * 32 * TEAM + thread) * PIECE;
}

/* A row in registers, zeros behind its end. */
template <int TEAM, int P>
__device__ static void load_row(const void *x, attend_dtype type, size_t at, int n,
                                float (&row)[P][PIECE]) {
#pragma unroll
  for (int k = 0; k < P; k++) {
    const int j = column_of<TEAM>(k);
    if (j < n)
      get(x, type, at + j, row[k]);
    else
      for (float &v : row[k]) v = 0;
  }
}

/* Sum of two numbers at once. */
template <int TEAM>
__device__ static float2 team_sum(float2 x) {
  if constexpr (TEAM == 1) {
#pragma unroll
    for (int step = 16; step; step /= 2) {
      x.x += __shfl_xor_sync(~0u, x.x, step);
      x.y += __shfl_xor_sync(~0u, x.y, step);
    }
    return x;
  } else {
    return make_float2(block_sum<float, TEAM>(x.x), block_sum<float, TEAM>(x.y));
  }
}

struct row_moments {
  float mean, factor;
};
template <int TEAM, int P>
__device__ static row_moments moments_of(const float (&x)[P][PIECE], int n, bool rms, float eps) {
  float sum = 0, squares = 0;
#pragma unroll
  for (int k = 0; k < P; k++)
    for (float v : x[k]) sum += v;
  const float mean = rms ? 0.f : team_sum<TEAM>(sum) / (float)n;
#pragma unroll
  for (int k = 0; k < P; k++)
    if (column_of<TEAM>(k) < n)
      for (float v : x[k]) squares = fmaf(v - mean, v - mean, squares);
  return {mean, 1.f / sqrtf(team_sum<TEAM>(squares) / (float)n + eps)};
}

/* ---- forward ----------------------------------------------------------------------------- */

template <int TEAM>
__global__ void __launch_bounds__(THREADS) norm_near_kernel(op_norm o) {
  const int groups = groups_of(o.groups), all = o.rows * groups, n = o.width;
  const int i = blockIdx.x * (WARPS / TEAM) + (TEAM == 1 ? threadIdx.x / 32 : 0);
  if (i >= all) return;
  float x[PIECES][PIECE];
  load_row<TEAM>(o.x, o.x_type, begin_of(i, groups, o.ldx, n), n, x);
  const row_moments m = moments_of<TEAM>(x, n, o.rms, o.eps);
  const size_t to = begin_of(i, groups, o.ldy, n);
#pragma unroll
  for (int k = 0; k < PIECES; k++) {
    const int j = column_of<TEAM>(k);
    if (j >= n) break;
    float w[PIECE], b[PIECE];
    if (o.weight) get(o.weight, ATTEND_F32, j, w);
    if (o.bias) get(o.bias, ATTEND_F32, j, b);
#pragma unroll
    for (int e = 0; e < PIECE; e++)
      x[k][e] = fmaf((x[k][e] - m.mean) * m.factor, o.weight ? w[e] : 1.f, o.bias ? b[e] : 0.f);
    put(o.y, o.y_type, to + j, x[k]);
  }
}

/* Any width and alignment; a block has a row. */
__global__ void __launch_bounds__(ROW_THREADS) norm_kernel(op_norm o) {
  const int groups = groups_of(o.groups), n = o.width;
  const size_t from = begin_of(blockIdx.x, groups, o.ldx, n);
  const size_t to = begin_of(blockIdx.x, groups, o.ldy, n);
  float sum = 0, squares = 0;
  if (!o.rms)
    for (int j = threadIdx.x; j < n; j += ROW_THREADS) sum += element_of(o.x, o.x_type, from + j);
  const float mean = o.rms ? 0.f : block_sum<float, ROW_WARPS>(sum) / (float)n;
  for (int j = threadIdx.x; j < n; j += ROW_THREADS) {
    const float d = element_of(o.x, o.x_type, from + j) - mean;
    squares = fmaf(d, d, squares);
  }
  const float factor = 1.f / sqrtf(block_sum<float, ROW_WARPS>(squares) / (float)n + o.eps);
  for (int j = threadIdx.x; j < n; j += ROW_THREADS) {
    const float h = (element_of(o.x, o.x_type, from + j) - mean) * factor;
    set_element(o.y, o.y_type, to + j,
                fmaf(h, o.weight ? o.weight[j] : 1.f, o.bias ? o.bias[j] : 0.f));
  }
}

/* ---- backward: a block has CHUNK rows (groups count as rows) --------------------------------- */

/* g = dy weight, h the normed row: dx = factor (g - mean of g - h mean of g h). */
template <int TEAM, int P>
__global__ void __launch_bounds__(THREADS, P < 4 ? 2 : 1)
    norm_backward_near_kernel(op_norm_backward o) {
  extern __shared__ float sums[]; /* [2][n] with TEAM 1 */
  const int groups = groups_of(o.groups), all = o.rows * groups, n = o.width;
  const int first = blockIdx.x * CHUNK, end = min(first + CHUNK, all), warp = threadIdx.x / 32;
  float dw[P][PIECE] = {}, db[P][PIECE] = {};
  for (int i = first + (TEAM == 1 ? warp : 0); i < end; i += WARPS / TEAM) {
    float x[P][PIECE], dy[P][PIECE];
    load_row<TEAM>(o.x, o.x_type, begin_of(i, groups, o.ldx, n), n, x);
    load_row<TEAM>(o.dy, o.dy_type, begin_of(i, groups, o.lddy, n), n, dy);
    float2 sums_x = {0, 0}, sums_d = {0, 0}; /* of x and g; of d d and g d, d = x - mean */
#pragma unroll
    for (int k = 0; k < P; k++) {
      const int j = column_of<TEAM>(k);
      if (j >= n) break;
      float w[PIECE];
      if (o.weight) get(o.weight, ATTEND_F32, j, w);
#pragma unroll
      for (int e = 0; e < PIECE; e++) {
        sums_x.x += x[k][e];
        sums_x.y += o.weight ? dy[k][e] * w[e] : dy[k][e];
      }
    }
    sums_x = team_sum<TEAM>(sums_x);
    const float mean = o.rms ? 0.f : sums_x.x / (float)n,
                g_mean = o.rms ? 0.f : sums_x.y / (float)n;
    const size_t to = begin_of(i, groups, o.lddx, n);
    float old[P][PIECE];
    if (o.add) load_row<TEAM>(o.dx, o.dx_type, to, n, old);
#pragma unroll
    for (int k = 0; k < P; k++) {
      const int j = column_of<TEAM>(k);
      if (j >= n) break;
      float w[PIECE];
      if (o.weight) get(o.weight, ATTEND_F32, j, w);
#pragma unroll
      for (int e = 0; e < PIECE; e++) {
        x[k][e] -= mean;
        sums_d.x = fmaf(x[k][e], x[k][e], sums_d.x);
        sums_d.y = fmaf(o.weight ? dy[k][e] * w[e] : dy[k][e], x[k][e], sums_d.y);
      }
    }
    sums_d = team_sum<TEAM>(sums_d);
    const float factor = 1.f / sqrtf(sums_d.x / (float)n + o.eps);
    const float gh_mean = o.linear ? 0.f : sums_d.y * factor / (float)n;
#pragma unroll
    for (int k = 0; k < P; k++) {
      const int j = column_of<TEAM>(k);
      if (j >= n) break;
      float w[PIECE];
      if (o.weight) get(o.weight, ATTEND_F32, j, w);
#pragma unroll
      for (int e = 0; e < PIECE; e++) {
        const float h = x[k][e] * factor, g = o.weight ? dy[k][e] * w[e] : dy[k][e];
        dw[k][e] = fmaf(dy[k][e], h, dw[k][e]);
        db[k][e] += dy[k][e];
        x[k][e] = fmaf(factor, g - g_mean - h * gh_mean, o.add ? old[k][e] : 0.f);
      }
      put(o.dx, o.dx_type, to + j, x[k]);
    }
  }
  if (!o.dweight && !o.dbias) return;
  float *work = (float *)o.work + (size_t)blockIdx.x * 2 * n;
  float *to = TEAM == 1 ? sums : work;
  for (int turn = 0; turn < WARPS / TEAM; turn++) { /* warp after warp */
    if (TEAM > 1 || turn == warp) {
#pragma unroll
      for (int k = 0; k < P; k++) {
        const int j = column_of<TEAM>(k);
        if (j >= n) break;
#pragma unroll
        for (int e = 0; e < PIECE; e++) {
          to[j + e] = turn ? to[j + e] + dw[k][e] : dw[k][e];
          to[n + j + e] = turn ? to[n + j + e] + db[k][e] : db[k][e];
        }
      }
    }
    __syncthreads();
  }
  if (TEAM == 1)
    for (int j = threadIdx.x; j < 2 * n; j += THREADS) work[j] = sums[j];
}

/* Any width and alignment: first each row's sums, then columns, which write dx and add up the
 * chunk's sums in order. */
struct row_terms {
  float mean, factor, g, gh;
};
__global__ void __launch_bounds__(THREADS) norm_backward_kernel(op_norm_backward o) {
  __shared__ row_terms terms[CHUNK];
  const int groups = groups_of(o.groups), all = o.rows * groups, n = o.width;
  const int first = blockIdx.x * CHUNK, count = min(CHUNK, all - first);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  for (int i = warp; i < count; i += WARPS) {
    const size_t x = begin_of(first + i, groups, o.ldx, n);
    const size_t dy = begin_of(first + i, groups, o.lddy, n);
    float sum = 0, squares = 0, g_sum = 0, gh_sum = 0;
    if (!o.rms)
      for (int j = lane; j < n; j += 32) sum += element_of(o.x, o.x_type, x + j);
    const float mean = o.rms ? 0.f : warp_sum(sum) / (float)n;
    for (int j = lane; j < n; j += 32) {
      const float d = element_of(o.x, o.x_type, x + j) - mean;
      squares = fmaf(d, d, squares);
    }
    const float factor = 1.f / sqrtf(warp_sum(squares) / (float)n + o.eps);
    for (int j = lane; j < n; j += 32) {
      const float g = element_of(o.dy, o.dy_type, dy + j) * (o.weight ? o.weight[j] : 1.f);
      g_sum += g;
      gh_sum = fmaf(g, (element_of(o.x, o.x_type, x + j) - mean) * factor, gh_sum);
    }
    g_sum = warp_sum(g_sum), gh_sum = warp_sum(gh_sum);
    if (lane == 0)
      terms[i] = {mean, factor, o.rms ? 0.f : g_sum / (float)n, o.linear ? 0.f : gh_sum / (float)n};
  }
  __syncthreads();
  float *work = (float *)o.work + (size_t)blockIdx.x * 2 * n;
  for (int j = threadIdx.x; j < n; j += THREADS) {
    const float w = o.weight ? o.weight[j] : 1.f;
    float dw = 0, db = 0;
    for (int i = 0; i < count; i++) {
      const row_terms t = terms[i];
      const float dy = element_of(o.dy, o.dy_type, begin_of(first + i, groups, o.lddy, n) + j);
      const float x = element_of(o.x, o.x_type, begin_of(first + i, groups, o.ldx, n) + j);
      const float h = (x - t.mean) * t.factor;
      const size_t to = begin_of(first + i, groups, o.lddx, n) + j;
      dw = fmaf(dy, h, dw), db += dy;
      const float d = t.factor * (fmaf(dy, w, -t.g) - h * t.gh);
      set_element(o.dx, o.dx_type, to, o.add ? element_of(o.dx, o.dx_type, to) + d : d);
    }
    if (o.dweight) work[j] = dw;
    if (o.dbias) work[n + j] = db;
  }
}

/* dweight and dbias += the sums of columns of x [rows][2 n]: of every 32nd row, joined in order and
 * in double. */
__global__ void __launch_bounds__(1024)
    sum_chunks_kernel(int rows, int n, const float *x, float *dweight, float *dbias) {
  __shared__ double part[32][33];
  const int lane = threadIdx.x % 32, slice = threadIdx.x / 32, j = blockIdx.x * 32 + lane;
  double sum = 0;
  if (j < 2 * n)
    for (int r = slice; r < rows; r += 32) sum += x[(size_t)r * 2 * n + j];
  part[slice][lane] = sum;
  __syncthreads();
  float *out = j < n ? dweight : dbias;
  if (slice || j >= 2 * n || !out) return;
  out += j < n ? j : j - n;
  sum = *out;
  for (int i = 0; i < 32; i++) sum += part[i][lane];
  *out = (float)sum;
}

/* ---- launching --------------------------------------------------------------------------- */

/* Whether rows, and groups in them, are whole pieces that fit. */
static bool is_near(const void *x, int ld, attend_dtype type, int n) {
  return on_pieces(x, ld, type) && n % PIECE == 0 && n <= WIDEST;
}

void cuda_norm(cuda_gpu *gpu, const op_norm *o) {
  const int n = o->width, all = o->rows * groups_of(o->groups);
  const bool near = is_near(o->x, o->ldx, o->x_type, n) && is_near(o->y, o->ldy, o->y_type, n) &&
                    on_pieces(o->weight, 0, ATTEND_F32) && on_pieces(o->bias, 0, ATTEND_F32);
  if (!all) return;
  if (!near)
    LAUNCH(gpu, norm_kernel, all, ROW_THREADS, 0, *o);
  else if (n <= NEAR)
    LAUNCH(gpu, norm_near_kernel<1>, (all + WARPS - 1) / WARPS, THREADS, 0, *o);
  else
    LAUNCH(gpu, norm_near_kernel<WARPS>, all, THREADS, 0, *o);
}

static void launch_backward(cuda_gpu *gpu, const op_norm_backward *o, int chunks) {
  const int n = o->width, pieces = (n + 32 * PIECE - 1) / (32 * PIECE);
  const size_t sums = 2 * (size_t)n * sizeof(float);
  const bool near = is_near(o->x, o->ldx, o->x_type, n) && is_near(o->dy, o->lddy, o->dy_type, n) &&
                    is_near(o->dx, o->lddx, o->dx_type, n) && on_pieces(o->weight, 0, ATTEND_F32);
  if (!near)
    LAUNCH(gpu, norm_backward_kernel, chunks, THREADS, 0, *o);
  else if (pieces == 1)
    LAUNCH(gpu, (norm_backward_near_kernel<1, 1>), chunks, THREADS, sums, *o);
  else if (pieces == 2)
    LAUNCH(gpu, (norm_backward_near_kernel<1, 2>), chunks, THREADS, sums, *o);
  else if (pieces == 3)
    LAUNCH(gpu, (norm_backward_near_kernel<1, 3>), chunks, THREADS, sums, *o);
  else if (pieces == 4)
    LAUNCH(gpu, (norm_backward_near_kernel<1, 4>), chunks, THREADS, sums, *o);
  else
    LAUNCH(gpu, (norm_backward_near_kernel<WARPS, 4>), chunks, THREADS, 0, *o);
}

void cuda_norm_backward(cuda_gpu *gpu, const op_norm_backward *o) {
  const int n = o->width, chunks = (o->rows * groups_of(o->groups) + CHUNK - 1) / CHUNK;
  if (!chunks) return;
  launch_backward(gpu, o, chunks);
  if (o->dweight || o->dbias)
    LAUNCH(gpu, sum_chunks_kernel, (2 * n + 31) / 32, 1024, 0, chunks, n, (float *)o->work,
           o->dweight, o->dbias);
}
