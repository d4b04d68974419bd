/* Elementwise ops of layers/ops.h, positions, and the optimizer. A row's result depends on that row
 * alone.
 */
#include "device/cuda/activations.cuh"
#include "device/cuda/rows.cuh"

template <int N, attend_activation F>
__global__ void activate_kernel(op_activate o) {
  EACH_PIECE(N, r, j, o.rows, o.width) {
    float a[N], b[N];
    get(o.a, o.a_type, r * o.lda + j, a);
    if (o.b) get(o.b, o.a_type, r * o.ldb + j, b);
#pragma unroll
    for (int i = 0; i < N; i++) {
      a[i] = activation(F, a[i]);
      if (o.b) a[i] *= b[i];
    }
    put(o.y, o.y_type, r * o.ldy + j, a);
  }
}

template <int N, attend_activation F>
__global__ void activate_backward_kernel(op_activate_backward o) {
  EACH_PIECE(N, r, j, o.rows, o.width) {
    float a[N], b[N], dy[N], y[N];
    get(o.a, o.a_type, r * o.lda + j, a);
    get(o.dy, o.dy_type, r * o.lddy + j, dy);
    if (o.b) get(o.b, o.a_type, r * o.ldb + j, b);
#pragma unroll
    for (int i = 0; i < N; i++) {
      y[i] = activation(F, a[i]);
      a[i] = activation_slope(F, a[i]) * dy[i];
      if (o.b) a[i] *= b[i];
    }
    put(o.da, o.da_type, r * o.ldda + j, a);
    if (o.db) {
#pragma unroll
      for (int i = 0; i < N; i++) a[i] = y[i] * dy[i];
      put(o.db, o.da_type, r * o.lddb + j, a);
    }
    if (!o.y) continue;
#pragma unroll
    for (int i = 0; i < N; i++)
      if (o.b) y[i] *= b[i];
    put(o.y, o.a_type, r * o.ldy + j, y);
  }
}

template <int N>
__global__ void add_kernel(op_add o) {
  EACH_PIECE(N, r, j, o.rows, o.width) {
    float a[N], b[N];
    get(o.a, o.a_type, r * o.lda + j, a);
    get(o.b, o.b_type, r * o.ldb + j, b);
#pragma unroll
    for (int i = 0; i < N; i++) a[i] += b[i];
    put(o.y, o.y_type, r * o.ldy + j, a);
  }
}

template <int N>
__global__ void scale_kernel(op_scale o) {
  EACH_PIECE(N, r, j, o.rows, o.width) {
    float x[N];
    get(o.x, o.x_type, r * o.ldx + j, x);
#pragma unroll
    for (int i = 0; i < N; i++) x[i] = o.divisor != 0 ? x[i] / o.divisor : x[i] * o.factor;
    put(o.x, o.x_type, r * o.ldx + j, x);
  }
}

template <int N>
__global__ void soft_cap_kernel(op_soft_cap o) {
  EACH_PIECE(N, r, j, o.rows, o.width) {
    float x[N];
    get(o.x, o.x_type, r * o.ldx + j, x);
#pragma unroll
    for (int i = 0; i < N; i++) x[i] = tanhf(x[i] / o.cap) * o.cap;
    put(o.x, o.x_type, r * o.ldx + j, x);
  }
}

template <int N>
__global__ void soft_cap_backward_kernel(op_soft_cap_backward o) {
  EACH_PIECE(N, r, j, o.rows, o.width) {
    float y[N], dx[N];
    get(o.y, o.y_type, r * o.ldy + j, y);
    get(o.dx, o.dx_type, r * o.lddx + j, dx);
#pragma unroll
    for (int i = 0; i < N; i++) dx[i] *= 1 - y[i] / o.cap * (y[i] / o.cap);
    put(o.dx, o.dx_type, r * o.lddx + j, dx);
  }
}

template <int N>
__global__ void gather_kernel(op_gather o) {
  EACH_PIECE(N, i, j, o.rows, o.width) {
    const size_t by = o.index ? (size_t)o.index[i] : i;
    float x[N];
    get(o.x, o.x_type, (o.scatter ? i : by) * o.ldx + j, x);
#pragma unroll
    for (int k = 0; k < N; k++) x[k] *= o.factor;
    put(o.y, o.y_type, (o.scatter ? by : i) * o.ldy + j, x);
  }
}

/* ---- dropout: Philox 4x32-10, as base/random.c -------------------------------------------- */

struct philox_block {
  uint32_t word[4];
};
__device__ static philox_block philox(attend_random r, uint64_t block) {
  uint32_t c[4] = {(uint32_t)block, (uint32_t)(block >> 32), (uint32_t)r.stream,
                   (uint32_t)(r.stream >> 32)};
  uint32_t k0 = (uint32_t)r.seed, k1 = (uint32_t)(r.seed >> 32);
#pragma unroll
  for (int round = 0; round < 10; round++) {
    const uint64_t p0 = (uint64_t)0xD2511F53u * c[0], p1 = (uint64_t)0xCD9E8D57u * c[2];
    const uint32_t n0 = (uint32_t)(p1 >> 32) ^ c[1] ^ k0, n2 = (uint32_t)(p0 >> 32) ^ c[3] ^ k1;
    c[1] = (uint32_t)p1, c[3] = (uint32_t)p0, c[0] = n0, c[2] = n2;
    k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
  }
  return {{c[0], c[1], c[2], c[3]}};
}

template <int N>
__global__ void dropout_kernel(op_dropout o, uint32_t min, float factor) {
  EACH_PIECE(N, r, j, o.rows, o.width) {
    const uint64_t first = o.first + r * (uint64_t)o.width + j;
    philox_block words = philox(o.random, first / 4);
    float x[N];
    get(o.x, o.x_type, r * o.ldx + j, x);
#pragma unroll
    for (int i = 0; i < N; i++) {
      if (i && (first + i) % 4 == 0) words = philox(o.random, (first + i) / 4);
      x[i] = words.word[(first + i) % 4] >> 8 < min ? 0.f : x[i] * factor;
    }
    put(o.x, o.x_type, r * o.ldx + j, x);
  }
}

/* ---- positions --------------------------------------------------------------------------- */

__global__ void rope_kernel(op_rope o) {
  const int half = (o.rotary ? o.rotary : o.dim) / 2;
  EACH_PIECE(1, r, i, o.rows, half) {
    double sine, cosine;
    sincos((o.backward ? -1.0 : 1.0) * (double)o.position[r] * o.frequency[i], &sine, &cosine);
    const float c = (float)(cosine * o.attention_factor), s = (float)(sine * o.attention_factor);
    size_t at = r * o.ldx + i;
    for (int h = 0; h < o.heads; h++, at += o.dim) {
      const float a = element_of(o.x, o.x_type, at), b = element_of(o.x, o.x_type, at + half);
      set_element(o.x, o.x_type, at, a * c - b * s);
      set_element(o.x, o.x_type, at + half, b * c + a * s);
    }
  }
}

__global__ void sinusoidal_kernel(op_sinusoidal o) {
  EACH_PIECE(1, r, i, o.rows, (o.width + 1) / 2) {
    double sine, cosine;
    sincos((double)o.position[r] / pow(10000.0, 2.0 * (double)i / o.width), &sine, &cosine);
    float *y = o.y + r * o.ldy + 2 * i;
    y[0] += (float)sine;
    if ((int)(2 * i + 1) < o.width) y[1] += (float)cosine;
  }
}

/* ---- the optimizer ----------------------------------------------------------------------- */

__global__ void __launch_bounds__(THREADS) sum_squares_kernel(op_sum_squares o) {
  const size_t first = (size_t)blockIdx.x * SQUARES_STRETCH;
  double sum = 0;
#pragma unroll
  for (int i = threadIdx.x; i < SQUARES_STRETCH; i += THREADS) {
    const float x = first + i < o.n ? o.x[first + i] : 0;
    sum += (double)x * (double)x;
  }
  sum = block_sum<double, THREADS / 32>(sum);
  if (threadIdx.x == 0) o.sums[blockIdx.x] = sum;
}

/* The first span that ends behind `at`, or n_spans. */
__device__ static int span_after(const op_step &o, size_t at) {
  int low = 0, high = o.n_spans;
  while (low < high) {
    const int middle = (low + high) / 2;
    if (o.spans[middle].end > at)
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

/* Decays of elements [at, at + N), NaN outside of spans; whether any is in one. */
template <int N>
__device__ static bool decays_of(const op_step &o, size_t at, float (&decay)[N]) {
  int s = o.spans ? span_after(o, at) : 0;
  bool any = !o.spans;
#pragma unroll
  for (int i = 0; i < N; i++) {
    if (s < o.n_spans && at + i >= o.spans[s].end) s++;
    const bool in = s < o.n_spans && at + i >= o.spans[s].begin;
    decay[i] = !o.spans ? o.decay : in ? o.spans[s].decay : NAN;
    any |= in;
  }
  return any;
}

__device__ static void step_one(const op_step &o, float decay, float gradient, float &w, float &m,
                                float &v) {
  if (isnan(decay)) return;
  if (o.second) {
    const float g = gradient * o.shrink;
    m = o.beta1 * m + (1 - o.beta1) * g;
    v = o.beta2 * v + (1 - o.beta2) * g * g;
    w -= o.rate * decay * w;
    w -= o.rate * (m * o.fix1) / (sqrtf(v * o.fix2) + o.eps);
  } else {
    m = o.momentum * m + gradient * o.shrink + decay * w;
    w -= o.rate * m;
  }
}

/* Of values [begin, end). */
template <int N>
__global__ void step_kernel(op_step o, size_t begin, size_t end) {
  EACH(piece, (end - begin) / N) {
    const size_t at = begin + N * piece;
    float w[N], g[N], m[N], v[N] = {}, decay[N];
    if (!decays_of(o, at, decay)) continue;
    get(o.values, ATTEND_F32, at, w);
    get(o.gradients, ATTEND_F32, at, g);
    get(o.first, ATTEND_F32, at, m);
    if (o.second) get(o.second, ATTEND_F32, at, v);
#pragma unroll
    for (int i = 0; i < N; i++) step_one(o, decay[i], g[i], w[i], m[i], v[i]);
    put(o.values, ATTEND_F32, at, w);
    put(o.first, ATTEND_F32, at, m);
    if (o.second) put(o.second, ATTEND_F32, at, v);
  }
}

/* ---- launching --------------------------------------------------------------------------- */

template <attend_activation F>
static void activate_as(cuda_gpu *gpu, const op_activate *o) {
  const bool whole = on_pieces(o->a, o->lda, o->a_type) && on_pieces(o->b, o->ldb, o->a_type) &&
                     on_pieces(o->y, o->ldy, o->y_type);
  LAUNCH_EITHER(gpu, (activate_kernel<PIECE, F>), (activate_kernel<1, F>), whole, o->rows, o->width,
                *o);
}

template <attend_activation F>
static void activate_backward_as(cuda_gpu *gpu, const op_activate_backward *o) {
  const bool whole = on_pieces(o->a, o->lda, o->a_type) && on_pieces(o->b, o->ldb, o->a_type) &&
                     on_pieces(o->dy, o->lddy, o->dy_type) &&
                     on_pieces(o->da, o->ldda, o->da_type) &&
                     on_pieces(o->db, o->lddb, o->da_type) && on_pieces(o->y, o->ldy, o->a_type);
  LAUNCH_EITHER(gpu, (activate_backward_kernel<PIECE, F>), (activate_backward_kernel<1, F>), whole,
                o->rows, o->width, *o);
}

/* run(a constant whose type has f as its value) */
template <typename Run>
static void by_activation(attend_activation f, Run run) {
  switch (f) {
    case ATTEND_RELU:
      return run(std::integral_constant<attend_activation, ATTEND_RELU>());
    case ATTEND_GELU:
      return run(std::integral_constant<attend_activation, ATTEND_GELU>());
    case ATTEND_GELU_TANH:
      return run(std::integral_constant<attend_activation, ATTEND_GELU_TANH>());
    case ATTEND_SILU:
      return run(std::integral_constant<attend_activation, ATTEND_SILU>());
    case ATTEND_TANH:
      return run(std::integral_constant<attend_activation, ATTEND_TANH>());
    default:
      return run(std::integral_constant<attend_activation, ATTEND_IDENTITY>());
  }
}

void cuda_activate(cuda_gpu *gpu, const op_activate *o) {
  by_activation(o->f, [&](auto f) { activate_as<decltype(f)::value>(gpu, o); });
}

void cuda_activate_backward(cuda_gpu *gpu, const op_activate_backward *o) {
  by_activation(o->f, [&](auto f) { activate_backward_as<decltype(f)::value>(gpu, o); });
}
void cuda_add(cuda_gpu *gpu, const op_add *o) {
  const bool whole = on_pieces(o->a, o->lda, o->a_type) && on_pieces(o->b, o->ldb, o->b_type) &&
                     on_pieces(o->y, o->ldy, o->y_type);
  LAUNCH_PIECES(gpu, add, whole, o->rows, o->width, *o);
}

void cuda_scale(cuda_gpu *gpu, const op_scale *o) {
  LAUNCH_PIECES(gpu, scale, on_pieces(o->x, o->ldx, o->x_type), o->rows, o->width, *o);
}

void cuda_soft_cap(cuda_gpu *gpu, const op_soft_cap *o) {
  LAUNCH_PIECES(gpu, soft_cap, on_pieces(o->x, o->ldx, o->x_type), o->rows, o->width, *o);
}

void cuda_soft_cap_backward(cuda_gpu *gpu, const op_soft_cap_backward *o) {
  const bool whole = on_pieces(o->y, o->ldy, o->y_type) && on_pieces(o->dx, o->lddx, o->dx_type);
  LAUNCH_PIECES(gpu, soft_cap_backward, whole, o->rows, o->width, *o);
}

void cuda_gather(cuda_gpu *gpu, const op_gather *o) {
  const bool whole = on_pieces(o->x, o->ldx, o->x_type) && on_pieces(o->y, o->ldy, o->y_type);
  LAUNCH_PIECES(gpu, gather, whole, o->rows, o->width, *o);
}

void cuda_dropout(cuda_gpu *gpu, const op_dropout *o) {
  const uint32_t min = o->p > 0 ? (uint32_t)ceil(fmin((double)o->p, 1) * 0x1p24) : 0;
  const float factor = o->p < 1 ? (float)(1 / (1 - (o->p > 0 ? (double)o->p : 0))) : 0.0f;
  LAUNCH_PIECES(gpu, dropout, on_pieces(o->x, o->ldx, o->x_type), o->rows, o->width, *o, min,
                factor);
}

void cuda_rope(cuda_gpu *gpu, const op_rope *o) {
  const size_t n = (size_t)o->rows * (size_t)((o->rotary ? o->rotary : o->dim) / 2);
  if (n) LAUNCH(gpu, rope_kernel, blocks_for(n, THREADS), THREADS, 0, *o);
}

void cuda_sinusoidal(cuda_gpu *gpu, const op_sinusoidal *o) {
  const size_t n = (size_t)o->rows * (size_t)((o->width + 1) / 2);
  if (n) LAUNCH(gpu, sinusoidal_kernel, blocks_for(n, THREADS), THREADS, 0, *o);
}

void cuda_sum_squares(cuda_gpu *gpu, const op_sum_squares *o) {
  if (o->n) LAUNCH(gpu, sum_squares_kernel, (unsigned)stretches_of(o->n), THREADS, 0, *o);
}

void cuda_step(cuda_gpu *gpu, const op_step *o) {
  const uintptr_t all =
      (uintptr_t)o->values | (uintptr_t)o->gradients | (uintptr_t)o->first | (uintptr_t)o->second;
  const size_t whole = all % 16 == 0 ? o->n / PIECE * PIECE : 0, rest = o->n - whole;
  if (whole)
    LAUNCH(gpu, step_kernel<PIECE>, blocks_for(whole / PIECE, THREADS), THREADS, 0, *o, (size_t)0,
           whole);
  if (rest) LAUNCH(gpu, step_kernel<1>, blocks_for(rest, THREADS), THREADS, 0, *o, whole, o->n);
}
