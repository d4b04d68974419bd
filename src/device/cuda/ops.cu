/* The ops of layers/ops.h but for products: elementwise, norms, positions, embeddings, losses, the
 * optimizer. A row's result depends on that row alone; sums over rows join fixed chunks in order.
 * No float atomics.
 */
#include "device/cuda/activations.cuh"
#include "device/cuda/gpu.cuh"

enum { THREADS = 256, ROW_WARPS = 4, ROW_THREADS = 32 * ROW_WARPS, CHUNK = 64 };

__host__ __device__ static inline int groups_of(int groups) { return groups ? groups : 1; }

/* Elements of rows x width: row r, column j. */
#define EACH_OF(r, j, rows, width)               \
  EACH(at_##r, (size_t)(rows) * (size_t)(width)) \
  if (const size_t r = at_##r / (size_t)(width), j = at_##r % (size_t)(width); true)

__global__ void activate_kernel(op_activate o) {
  EACH_OF(r, j, o.rows, o.width) {
    float y = activation(o.f, element_of(o.a, o.a_type, r * o.lda + j));
    if (o.b) y *= element_of(o.b, o.a_type, r * o.ldb + j);
    set_element(o.y, o.y_type, r * o.ldy + j, y);
  }
}

__global__ void activate_backward_kernel(op_activate_backward o) {
  EACH_OF(r, j, o.rows, o.width) {
    const float a = element_of(o.a, o.a_type, r * o.lda + j);
    const float b = o.b ? element_of(o.b, o.a_type, r * o.ldb + j) : 1.f;
    const float dy = element_of(o.dy, o.dy_type, r * o.lddy + j);
    set_element(o.da, o.da_type, r * o.ldda + j, activation_slope(o.f, a) * b * dy);
    if (o.db) set_element(o.db, o.da_type, r * o.lddb + j, activation(o.f, a) * dy);
  }
}

__global__ void add_kernel(op_add o) {
  EACH_OF(r, j, o.rows, o.width)
  set_element(o.y, o.y_type, r * o.ldy + j,
              element_of(o.a, o.a_type, r * o.lda + j) + element_of(o.b, o.b_type, r * o.ldb + j));
}

__global__ void scale_kernel(op_scale o) {
  EACH_OF(r, j, o.rows, o.width) {
    const float x = element_of(o.x, o.x_type, r * o.ldx + j);
    set_element(o.x, o.x_type, r * o.ldx + j, o.divisor != 0 ? x / o.divisor : x * o.factor);
  }
}

__global__ void soft_cap_kernel(op_soft_cap o) {
  EACH_OF(r, j, o.rows, o.width) {
    const float x = element_of(o.x, o.x_type, r * o.ldx + j);
    set_element(o.x, o.x_type, r * o.ldx + j, tanhf(x / o.cap) * o.cap);
  }
}

__global__ void soft_cap_backward_kernel(op_soft_cap_backward o) {
  EACH_OF(r, j, o.rows, o.width) {
    const float t = element_of(o.y, o.y_type, r * o.ldy + j) / o.cap;
    const float dx = element_of(o.dx, o.dx_type, r * o.lddx + j);
    set_element(o.dx, o.dx_type, r * o.lddx + j, dx * (1 - t * t));
  }
}

__global__ void gather_kernel(op_gather o) {
  EACH_OF(i, j, o.rows, o.width) {
    size_t by = o.index ? (size_t)o.index[i] : i;
    const float x = element_of(o.x, o.x_type, (o.scatter ? i : by) * o.ldx + j);
    set_element(o.y, o.y_type, (o.scatter ? by : i) * o.ldy + j, o.factor * x);
  }
}

/* ---- dropout: Philox 4x32-10, as base/random.c -------------------------------------------- */

__device__ static uint32_t philox_word(attend_random r, uint64_t element) {
  uint64_t block = element / 4;
  uint32_t c[4] = {(uint32_t)block, (uint32_t)(block >> 32), (uint32_t)r.stream,
                   (uint32_t)(r.stream >> 32)};
  uint32_t k0 = (uint32_t)r.seed, k1 = (uint32_t)(r.seed >> 32);
#pragma unroll
  for (int round = 0; round < 10; round++) {
    uint64_t p0 = (uint64_t)0xD2511F53u * c[0], p1 = (uint64_t)0xCD9E8D57u * c[2];
    uint32_t n0 = (uint32_t)(p1 >> 32) ^ c[1] ^ k0, n2 = (uint32_t)(p0 >> 32) ^ c[3] ^ k1;
    c[1] = (uint32_t)p1, c[3] = (uint32_t)p0, c[0] = n0, c[2] = n2;
    k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
  }
  return c[element % 4];
}

__global__ void dropout_kernel(op_dropout o, uint32_t min, float factor) {
  EACH_OF(r, j, o.rows, o.width) {
    const float x = element_of(o.x, o.x_type, r * o.ldx + j);
    const bool drop = philox_word(o.random, o.first + r * (uint64_t)o.width + j) >> 8 < min;
    set_element(o.x, o.x_type, r * o.ldx + j, drop ? 0.f : x * factor);
  }
}

/* ---- norms ------------------------------------------------------------------------------- */

struct row_moments {
  float mean, factor;
};
/* A row of an operand, from element `at` on. */
struct row_of {
  void *data;
  attend_dtype type;
  size_t at;
  __device__ float operator[](int j) const { return element_of(data, type, at + j); }
  __device__ void set(int j, float x) const { set_element(data, type, at + j, x); }
};

/* Of a row, by one block of THREADS_ threads. */
template <int WARPS>
__device__ static row_moments moments_of(row_of x, int n, bool rms, float eps) {
  float sum = 0;
  if (!rms)
    for (int j = threadIdx.x; j < n; j += 32 * WARPS) sum += x[j];
  float mean = rms ? 0.f : block_sum<float, WARPS>(sum) / (float)n, squares = 0;
  for (int j = threadIdx.x; j < n; j += 32 * WARPS) {
    float d = x[j] - mean;
    squares = fmaf(d, d, squares);
  }
  return {mean, 1.f / sqrtf(block_sum<float, WARPS>(squares) / (float)n + eps)};
}

__global__ void __launch_bounds__(ROW_THREADS) norm_kernel(op_norm o) {
  const int groups = groups_of(o.groups);
  const size_t row = blockIdx.x / groups, at = (size_t)(blockIdx.x % groups) * o.width;
  const row_of x = {(void *)o.x, o.x_type, row * o.ldx + at}, y = {o.y, o.y_type, row * o.ldy + at};
  const row_moments m = moments_of<ROW_WARPS>(x, o.width, o.rms, o.eps);
  for (int j = threadIdx.x; j < o.width; j += ROW_THREADS)
    y.set(j,
          fmaf((x[j] - m.mean) * m.factor, o.weight ? o.weight[j] : 1.f, o.bias ? o.bias[j] : 0.f));
}

/* A block has CHUNK rows (groups count as rows): first each row's sums, then columns, which
 * write dx and add up the chunk's dweight and dbias in order. */
struct row_terms {
  float mean, factor, g, gh;
};
__global__ void __launch_bounds__(THREADS) norm_backward_kernel(op_norm_backward o) {
  __shared__ row_terms terms[CHUNK];
  const int groups = groups_of(o.groups), all = o.rows * groups, n = o.width;
  const int first = blockIdx.x * CHUNK, count = min(CHUNK, all - first);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  for (int i = warp; i < count; i += THREADS / 32) {
    const size_t row = (first + i) / groups, at = (size_t)((first + i) % groups) * n;
    const row_of x = {(void *)o.x, o.x_type, row * o.ldx + at};
    const row_of dy = {(void *)o.dy, o.dy_type, row * o.lddy + at};
    float sum = 0, squares = 0, g_sum = 0, gh_sum = 0;
    if (!o.rms)
      for (int j = lane; j < n; j += 32) sum += x[j];
    const float mean = o.rms ? 0.f : warp_sum(sum) / (float)n;
    for (int j = lane; j < n; j += 32) squares = fmaf(x[j] - mean, x[j] - mean, squares);
    const float factor = 1.f / sqrtf(warp_sum(squares) / (float)n + o.eps);
    for (int j = lane; j < n; j += 32) {
      float g = o.weight ? dy[j] * o.weight[j] : dy[j];
      g_sum += g;
      gh_sum = fmaf(g, (x[j] - mean) * factor, gh_sum);
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
      const size_t row = (first + i) / groups, at = (size_t)((first + i) % groups) * n + j;
      const row_terms t = terms[i];
      const float dy = element_of(o.dy, o.dy_type, row * o.lddy + at);
      const float h = (element_of(o.x, o.x_type, row * o.ldx + at) - t.mean) * t.factor;
      const row_of dx = {o.dx, o.dx_type, row * o.lddx + at};
      dw = fmaf(dy, h, dw), db += dy;
      const float d = t.factor * (fmaf(dy, w, -t.g) - h * t.gh);
      dx.set(0, o.add ? dx[0] + d : d);
    }
    if (o.dweight) work[j] = dw;
    if (o.dbias) work[n + j] = db;
  }
}

/* out += the sums of columns of x [rows][2 n], in order and in double. */
__global__ void sum_chunks_kernel(int rows, int n, const float *x, float *out) {
  EACH(j, n) {
    double sum = out[j];
    for (int r = 0; r < rows; r++) sum += x[(size_t)r * 2 * n + j];
    out[j] = (float)sum;
  }
}

/* ---- positions --------------------------------------------------------------------------- */

__global__ void rope_kernel(op_rope o) {
  const int half = (o.rotary ? o.rotary : o.dim) / 2;
  EACH_OF(r, i, o.rows, half) {
    double sine, cosine;
    sincos((o.backward ? -1.0 : 1.0) * (double)o.position[r] * o.frequency[i], &sine, &cosine);
    const float c = (float)(cosine * o.attention_factor), s = (float)(sine * o.attention_factor);
    row_of x = {o.x, o.x_type, r * o.ldx + i};
    for (int h = 0; h < o.heads; h++, x.at += o.dim) {
      const float a = x[0], b = x[half];
      x.set(0, a * c - b * s);
      x.set(half, b * c + a * s);
    }
  }
}

__global__ void sinusoidal_kernel(op_sinusoidal o) {
  EACH_OF(r, i, o.rows, (o.width + 1) / 2) {
    double sine, cosine;
    sincos((double)o.position[r] / pow(10000.0, 2.0 * (double)i / o.width), &sine, &cosine);
    float *y = o.y + r * o.ldy + 2 * i;
    y[0] += (float)sine;
    if ((int)(2 * i + 1) < o.width) y[1] += (float)cosine;
  }
}

/* ---- embeddings -------------------------------------------------------------------------- */

__device__ static int64_t id_of(const int32_t *ids, int offset, size_t r) {
  if (!ids) return offset;
  return ids[r] < 0 ? -1 : (int64_t)ids[r] + offset;
}

__global__ void embed_kernel(op_embed o) {
  EACH_OF(r, j, o.rows, o.width) {
    const int64_t id = id_of(o.ids, o.offset, r);
    const row_of y = {o.y, o.y_type, r * o.ldy + j};
    if (id >= 0 && id < o.table.entries) {
      const float x = o.factor * element_of(o.table.data, o.table.dtype, (size_t)id * o.width + j);
      y.set(0, o.add ? y[0] + x : x);
    } else if (!o.add) {
      y.set(0, 0);
    }
  }
}

/* A thread has a column and takes all rows in order. */
__global__ void embed_backward_kernel(op_embed_backward o) {
  EACH(j, o.width) {
    for (size_t r = 0; r < (size_t)o.rows; r++) {
      const int64_t id = id_of(o.ids, o.offset, r);
      if (id < 0 || id >= o.entries) continue;
      float *to = &o.dtable[(size_t)id * o.width + j];
      *to = fmaf(o.factor, element_of(o.dy, o.dy_type, r * o.lddy + j), *to);
    }
  }
}

/* ---- the loss ---------------------------------------------------------------------------- */

__global__ void __launch_bounds__(THREADS) loss_kernel(op_loss o) {
  const size_t r = blockIdx.x;
  const row_of x = {o.x, o.x_type, r * o.ldx};
  const int n = o.width, right = o.targets[r];
  if (right < 0 || right >= n) {
    const float fill = right < 0 ? 0.f : NAN;
    for (int j = threadIdx.x; j < n; j += THREADS) x.set(j, fill);
    if (threadIdx.x == 0) o.loss[r] = fill;
    return;
  }
  float max = -INFINITY;
  double sum = 0, less = 0;
  for (int j = threadIdx.x; j < n; j += THREADS) max = fmaxf(max, x[j]);
  max = block_max<THREADS / 32>(max);
  for (int j = threadIdx.x; j < n; j += THREADS) {
    sum += (double)expf(x[j] - max);
    less += (double)(x[j] - max);
  }
  sum = block_sum<double, THREADS / 32>(sum);
  less = block_sum<double, THREADS / 32>(less);
  const double s = o.smoothing;
  if (threadIdx.x == 0)
    o.loss[r] = (float)(log(sum) + (1 - s) * ((double)max - (double)x[right]) - s * less / n);
  __syncthreads();
  const float factor = (float)((double)o.scale / sum), off = o.scale * o.smoothing / (float)n;
  for (int j = threadIdx.x; j < n; j += THREADS) {
    const float d = fmaf(expf(x[j] - max), factor, -off);
    x.set(j, j == right ? d - o.scale * (1 - o.smoothing) : d);
  }
}

/* ---- the optimizer ----------------------------------------------------------------------- */

__global__ void __launch_bounds__(THREADS) sum_squares_kernel(op_sum_squares o) {
  const size_t first = (size_t)blockIdx.x * SQUARES_STRETCH;
  double sum = 0;
  for (size_t i = first + threadIdx.x; i < first + SQUARES_STRETCH && i < o.n; i += THREADS)
    sum += (double)o.x[i] * (double)o.x[i];
  sum = block_sum<double, THREADS / 32>(sum);
  if (threadIdx.x == 0) o.sums[blockIdx.x] = sum;
}

__global__ void step_kernel(op_step o) {
  EACH(i, o.n) {
    float w = o.values[i];
    if (o.second) {
      const float g = o.gradients[i] * o.shrink;
      const float m = o.first[i] = o.beta1 * o.first[i] + (1 - o.beta1) * g;
      const float v = o.second[i] = o.beta2 * o.second[i] + (1 - o.beta2) * g * g;
      w -= o.rate * o.decay * w;
      o.values[i] = w - o.rate * (m * o.fix1) / (sqrtf(v * o.fix2) + o.eps);
    } else {
      const float g = o.gradients[i] * o.shrink + o.decay * w;
      const float m = o.first[i] = o.momentum * o.first[i] + g;
      o.values[i] = w - o.rate * m;
    }
  }
}

/* ---- launching --------------------------------------------------------------------------- */

#define ELEMENTWISE(name, n)                                                           \
  void cuda_##name(cuda_gpu *gpu, const op_##name *o) {                                \
    const size_t count = (size_t)(n);                                                  \
    if (count) LAUNCH(gpu, name##_kernel, blocks_for(count, THREADS), THREADS, 0, *o); \
  }
ELEMENTWISE(activate, o->rows *(size_t)o->width)
ELEMENTWISE(activate_backward, o->rows *(size_t)o->width)
ELEMENTWISE(add, o->rows *(size_t)o->width)
ELEMENTWISE(scale, o->rows *(size_t)o->width)
ELEMENTWISE(soft_cap, o->rows *(size_t)o->width)
ELEMENTWISE(soft_cap_backward, o->rows *(size_t)o->width)
ELEMENTWISE(gather, o->rows *(size_t)o->width)
ELEMENTWISE(rope, o->rows *(size_t)((o->rotary ? o->rotary : o->dim) / 2))
ELEMENTWISE(sinusoidal, o->rows *(size_t)((o->width + 1) / 2))
ELEMENTWISE(embed, o->rows *(size_t)o->width)
ELEMENTWISE(step, o->n)

void cuda_dropout(cuda_gpu *gpu, const op_dropout *o) {
  const uint32_t min = o->p > 0 ? (uint32_t)ceil(fmin((double)o->p, 1) * 0x1p24) : 0;
  const float factor = o->p < 1 ? (float)(1 / (1 - (o->p > 0 ? (double)o->p : 0))) : 0.0f;
  const size_t n = (size_t)o->rows * (size_t)o->width;
  if (n) LAUNCH(gpu, dropout_kernel, blocks_for(n, THREADS), THREADS, 0, *o, min, factor);
}

void cuda_norm(cuda_gpu *gpu, const op_norm *o) {
  if (o->rows) LAUNCH(gpu, norm_kernel, o->rows * groups_of(o->groups), ROW_THREADS, 0, *o);
}

void cuda_norm_backward(cuda_gpu *gpu, const op_norm_backward *o) {
  const int n = o->width, chunks = (o->rows * groups_of(o->groups) + CHUNK - 1) / CHUNK;
  if (!chunks) return;
  float *work = (float *)o->work;
  LAUNCH(gpu, norm_backward_kernel, chunks, THREADS, 0, *o);
  if (o->dweight)
    LAUNCH(gpu, sum_chunks_kernel, blocks_for(n, 64), 64, 0, chunks, n, work, o->dweight);
  if (o->dbias)
    LAUNCH(gpu, sum_chunks_kernel, blocks_for(n, 64), 64, 0, chunks, n, work + n, o->dbias);
}

void cuda_embed_backward(cuda_gpu *gpu, const op_embed_backward *o) {
  if (o->rows) LAUNCH(gpu, embed_backward_kernel, blocks_for(o->width, 64), 64, 0, *o);
}

void cuda_loss(cuda_gpu *gpu, const op_loss *o) {
  if (o->rows) LAUNCH(gpu, loss_kernel, o->rows, THREADS, 0, *o);
}

void cuda_sum_squares(cuda_gpu *gpu, const op_sum_squares *o) {
  if (o->n) LAUNCH(gpu, sum_squares_kernel, (unsigned)stretches_of(o->n), THREADS, 0, *o);
}
