/* Ops on attention patterns that a hook edited (layers/pattern.c) and of the pointer-generator head
 * (layers/copy.c): correct and deterministic, a thread or a warp an output; not tuned.
 */
#include "device/cuda/gpu.cuh"

enum { THREADS = 256, WARPS = THREADS / 32 };

__device__ static float *row_of(const attend_view &v, size_t b, size_t h, size_t i) {
  return (float *)v.data + (ptrdiff_t)b * v.stride[0] + (ptrdiff_t)h * v.stride[1] +
         (ptrdiff_t)i * v.stride[2];
}

/* ---- patterns ------------------------------------------------------------------------ */

/* Output element (b, h, i, m) = sum over keys, in order. */
__global__ void pattern_kernel(op_pattern o) {
  const size_t rows = (size_t)o.batch * o.heads * o.n;
  EACH(at, rows * o.width) {
    const size_t row = at / o.width, m = at % o.width, i = row % o.n, bh = row / o.n;
    const size_t b = bh / o.heads, h = bh % o.heads, g = h / (o.heads / o.kv_heads);
    const float *w = o.weights + row * o.keys;
    float sum = 0;
    for (int j = 0; j < o.keys; j++)
      if (w[j] != 0) sum = fmaf(w[j], row_of(o.v, b, g, j)[m * o.v.stride[3]], sum);
    row_of(o.o, b, h, i)[m * o.o.stride[3]] = sum;
  }
}

__global__ void pattern_grad_kernel(op_pattern o) {
  const size_t rows = (size_t)o.batch * o.heads * o.n;
  EACH(at, rows * o.keys) {
    const size_t row = at / o.keys, j = at % o.keys, i = row % o.n, bh = row / o.n;
    const size_t b = bh / o.heads, h = bh % o.heads, g = h / (o.heads / o.kv_heads);
    const float *d = row_of(o.o, b, h, i), *v = row_of(o.v, b, g, j);
    float sum = 0;
    for (int m = 0; m < o.width; m++) sum = fmaf(d[m * o.o.stride[3]], v[m * o.v.stride[3]], sum);
    o.d_weights[at] = sum;
  }
}

/* d_weights becomes dS = scale W (dW - sum W dW). */
__global__ void pattern_scores_kernel(op_pattern_backward o) {
  const size_t row = blockIdx.x;
  const float *w = o.before + row * o.p.keys;
  float *d = o.p.d_weights + row * o.p.keys, sum = 0;
  for (int j = threadIdx.x; j < o.p.keys; j += THREADS) sum = fmaf(w[j], d[j], sum);
  sum = block_sum<float, WARPS>(sum);
  for (int j = threadIdx.x; j < o.p.keys; j += THREADS) d[j] = o.scale * w[j] * (d[j] - sum);
}

__global__ void pattern_queries_kernel(op_pattern_backward o) {
  const op_pattern &p = o.p;
  EACH(at, (size_t)p.batch * p.heads * p.n * o.dim) {
    const size_t row = at / o.dim, m = at % o.dim, i = row % p.n, bh = row / p.n;
    const size_t b = bh / p.heads, h = bh % p.heads, g = h / (p.heads / p.kv_heads);
    const float *ds = p.d_weights + row * p.keys;
    float sum = 0;
    for (int j = 0; j < p.keys; j++)
      if (ds[j] != 0) sum = fmaf(ds[j], row_of(o.k, b, g, j)[m * o.k.stride[3]], sum);
    row_of(o.dq, b, h, i)[m * o.dq.stride[3]] = sum;
  }
}

/* A key's gradients: its kv head's heads in order, each one's rows in order. x^T y, x [n][keys]. */
__device__ static float over_rows(const op_pattern &p, size_t b, size_t g, size_t j, size_t m,
                                  const float *x, const attend_view &y) {
  const int group = p.heads / p.kv_heads;
  float sum = 0;
  for (int h = (int)g * group; h < ((int)g + 1) * group; h++)
    for (int i = 0; i < p.n; i++) {
      const float w = x[((b * p.heads + h) * p.n + i) * p.keys + j];
      if (w != 0) sum = fmaf(w, row_of(y, b, h, i)[m * y.stride[3]], sum);
    }
  return sum;
}

__global__ void pattern_keys_kernel(op_pattern_backward o) {
  const op_pattern &p = o.p;
  const int wide = o.dim + p.width;
  EACH(at, (size_t)p.batch * p.kv_heads * p.keys * wide) {
    const size_t m = at % wide, key = at / wide, j = key % p.keys, bg = key / p.keys;
    const size_t b = bg / p.kv_heads, g = bg % p.kv_heads;
    if ((int)m < o.dim)
      row_of(o.dk, b, g, j)[m * o.dk.stride[3]] = over_rows(p, b, g, j, m, p.d_weights, o.q);
    else
      row_of(o.dv, b, g, j)[(m - o.dim) * o.dv.stride[3]] =
          over_rows(p, b, g, j, m - o.dim, p.weights, p.o);
  }
}

__global__ void divide_kernel(op_divide o) {
  EACH(at, (size_t)o.batch * o.heads * o.n * o.width) {
    const size_t row = at / o.width, m = at % o.width, i = row % o.n, bh = row / o.n;
    const float less = o.before[row] - o.after[row];
    if (less == 0 || isnan(less)) continue; /* no key: -inf - -inf */
    row_of(o.o, bh / o.heads, bh % o.heads, i)[m * o.o.stride[3]] *= expf(less);
  }
}

/* ---- the pointer-generator head ------------------------------------------------------ */

__device__ static double soft_plus(double x) { return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x)); }
__device__ static double log_both(double a, double b) {
  const double max = fmax(a, b);
  return max == -INFINITY ? max : max + log(exp(a - max) + exp(b - max));
}

/* A thread has a column of a text's keys. */
__global__ void copy_lag_kernel(op_copy_lag o) {
  const int half = o.width / 2, wide = o.ld;
  EACH(at, (size_t)o.texts * wide) {
    const int column = (int)(at % wide);
    float *key = o.keys + at / wide * (size_t)o.n * o.ld + column;
    const bool moves = column >= half && column < o.width;
    if (o.backward) {
      if (!moves) continue;
      for (int j = 0; j + 1 < o.n; j++) key[(size_t)j * o.ld] = key[(size_t)(j + 1) * o.ld];
      key[(size_t)(o.n - 1) * o.ld] = 0;
      continue;
    }
    const float last = key[(size_t)(o.n - 1) * o.ld];
    if (moves) {
      for (int j = o.n - 1; j > 0; j--) key[(size_t)j * o.ld] = key[(size_t)(j - 1) * o.ld];
      key[0] = o.before ? o.before[column] : 0;
    }
    if (o.before) o.before[column] = o.before[o.ld + column] = last;
  }
}

__global__ void copy_fold_kernel(op_copy_fold o) {
  EACH(j, o.ld) {
    for (int i = 0; i < o.n; i++) {
      const float key = o.keys[((size_t)o.from + i) * o.ld + j];
      float *mean = &o.keys[(size_t)o.to[i] * o.ld + j];
      *mean = o.often[i] == 1 ? key : *mean + (key - *mean) / o.often[i];
    }
  }
}

/* The text of a row; n 0: none. */
struct text_of_row {
  int n;
  const float *keys;
  const int32_t *ids, *first;
};
__device__ static text_of_row text_at(const copy_texts &t, int32_t text) {
  if (text < 0 || !t.length[text]) return {0, NULL, NULL, NULL};
  const size_t at = (size_t)text * t.n;
  return {t.length[text], t.keys + at * t.ld, t.ids + at, t.first ? t.first + at : NULL};
}

/* weight = softmax(q . k + extra), by one block. */
__device__ static void copy_weigh(const op_copy_loss &o, const text_of_row &t, const float *q,
                                  float *weight) {
  float max = -INFINITY, sum = 0;
  for (int j = threadIdx.x; j < t.n; j += THREADS) {
    float score = 0;
    for (int k = 0; k < o.texts.ld; k++)
      score = fmaf(t.keys[(size_t)j * o.texts.ld + k], q[k], score);
    if (o.texts.extra) score += o.texts.extra[j];
    weight[j] = score;
    max = fmaxf(max, score);
  }
  max = block_max<WARPS>(max);
  double total = 0;
  for (int j = threadIdx.x; j < t.n; j += THREADS) total += (double)expf(weight[j] - max);
  total = block_sum<double, WARPS>(total);
  sum = (float)(1 / total);
  for (int j = threadIdx.x; j < t.n; j += THREADS) weight[j] = expf(weight[j] - max) * sum;
  __syncthreads();
}

/* logits <- log p. */
__device__ static void copy_mix(const text_of_row &t, float gate, float *weight, int vocab,
                                float *logits, float max, double sum) {
  double less = (double)max + log(sum);
  if (t.n) less += soft_plus((double)gate);
  for (int v = threadIdx.x; v < vocab; v += THREADS) logits[v] -= (float)less;
  __syncthreads();
  if (threadIdx.x) return;
  for (int j = 0; j < t.n; j++)
    if (t.first[j] != j) weight[t.first[j]] += weight[j];
  const double copied = -soft_plus(-(double)gate);
  for (int j = 0; j < t.n; j++) {
    if (t.first[j] != j || !(weight[j] > 0)) continue;
    float *x = &logits[t.ids[j]];
    *x = (float)log_both((double)*x, copied + log((double)weight[j]));
  }
}

/* The loss of a row and its gradients in place: layers/copy.c has the formulas. */
__device__ static void copy_backward(const op_copy_loss &o, const text_of_row &t, size_t row,
                                     float *weight, float *logits, float max, double sum) {
  __shared__ double copies;
  float *gate = o.gate + row * 16;
  const int32_t right = o.targets[row];
  const double s = o.smoothing, scale = o.scale, g = *gate;
  if (threadIdx.x == 0) {
    copies = 0;
    for (int j = 0; j < t.n; j++)
      if (t.ids[j] == right) copies += (double)weight[j];
  }
  __syncthreads();
  double own = (double)logits[right] - (double)max - log(sum);
  if (t.n) own -= soft_plus(g);
  const double p = log_both(own, t.n ? log(copies) - soft_plus(-g) : -INFINITY);
  const double share = exp(own - p);
  double loss = -p, less = 0;
  for (int v = threadIdx.x; v < o.vocab; v += THREADS) less += (double)(logits[v] - max);
  less = block_sum<double, WARPS>(less);
  if (s > 0) loss = (1 - s) * loss + s * (log(sum) - less / o.vocab);
  const double own_part = (1 - s) * share, copied = (1 - s) * (1 - share);
  const float factor = (float)(scale * (own_part + s) / sum), off = (float)(scale * s / o.vocab);
  for (int v = threadIdx.x; v < o.vocab; v += THREADS) {
    const float d = fmaf(expf(logits[v] - max), factor, -off);
    logits[v] = v == right ? d - (float)(scale * own_part) : d;
  }
  const double rise = copies > 0 ? scale * copied / copies : 0;
  for (int j = threadIdx.x; j < t.n; j += THREADS)
    weight[j] = (float)((double)weight[j] * (scale * copied - (t.ids[j] == right ? rise : 0)));
  if (threadIdx.x) return;
  const double c = t.n ? 1 / (1 + exp(-g)) : 0;
  *gate = t.n ? (float)(scale * ((1 - s) * c - copied)) : 0;
  o.loss[row] = (float)loss;
}

__global__ void __launch_bounds__(THREADS) copy_loss_kernel(op_copy_loss o) {
  const size_t row = blockIdx.x;
  const text_of_row t = text_at(o.texts, o.of[row]);
  float *weight = o.weight + row * o.texts.n, *logits = o.logits + row * o.ldl, max = -INFINITY;
  double sum = 0;
  if (t.n) copy_weigh(o, t, o.q + row * o.texts.ld, weight);
  for (int v = threadIdx.x; v < o.vocab; v += THREADS) max = fmaxf(max, logits[v]);
  max = block_max<WARPS>(max);
  for (int v = threadIdx.x; v < o.vocab; v += THREADS) sum += (double)expf(logits[v] - max);
  sum = block_sum<double, WARPS>(sum);
  if (o.loss)
    copy_backward(o, t, row, weight, logits, max, sum);
  else
    copy_mix(t, o.gate[row * 16], weight, o.vocab, logits, max, sum);
}

/* dq = ds K; dK += the rows of the text, in order. */
__global__ void copy_queries_kernel(op_copy_grad o) {
  EACH(at, (size_t)o.rows * o.texts.ld) {
    const size_t row = at / o.texts.ld, k = at % o.texts.ld;
    if (o.of[row] < 0) continue; /* no text: dq is left alone */
    const text_of_row t = text_at(o.texts, o.of[row]);
    float sum = 0;
    for (int j = 0; j < t.n; j++)
      sum = fmaf(o.weight[row * o.texts.n + j], t.keys[(size_t)j * o.texts.ld + k], sum);
    o.dq[at] = sum;
  }
}
__global__ void copy_keys_kernel(op_copy_grad o) {
  EACH(at, (size_t)o.n_texts * o.texts.n * o.texts.ld) {
    const size_t k = at % o.texts.ld, key = at / o.texts.ld, j = key % o.texts.n;
    const int32_t text = (int32_t)(key / o.texts.n);
    if ((int)j >= o.texts.length[text]) continue;
    float sum = o.dkeys[at];
    for (int i = 0; i < o.rows; i++)
      if (o.of[i] == text)
        sum = fmaf(o.weight[(size_t)i * o.texts.n + j], o.q[(size_t)i * o.texts.ld + k], sum);
    o.dkeys[at] = sum;
  }
}

/* ---- launching ----------------------------------------------------------------------- */

#define SPREAD(gpu, kernel, n, ...)                                                            \
  do {                                                                                         \
    const size_t spread_n = (size_t)(n);                                                       \
    if (spread_n) LAUNCH(gpu, kernel, blocks_for(spread_n, THREADS), THREADS, 0, __VA_ARGS__); \
  } while (0)

void cuda_pattern(cuda_gpu *gpu, const op_pattern *o) {
  SPREAD(gpu, pattern_kernel, (size_t)o->batch * o->heads * o->n * o->width, *o);
}
void cuda_pattern_grad(cuda_gpu *gpu, const op_pattern_grad *o) {
  SPREAD(gpu, pattern_grad_kernel, (size_t)o->p.batch * o->p.heads * o->p.n * o->p.keys, o->p);
}
void cuda_pattern_backward(cuda_gpu *gpu, const op_pattern_backward *o) {
  const op_pattern &p = o->p;
  const size_t rows = (size_t)p.batch * p.heads * p.n;
  if (rows) LAUNCH(gpu, pattern_scores_kernel, (unsigned)rows, THREADS, 0, *o);
  SPREAD(gpu, pattern_queries_kernel, rows * o->dim, *o);
  SPREAD(gpu, pattern_keys_kernel, (size_t)p.batch * p.kv_heads * p.keys * (o->dim + p.width), *o);
}
void cuda_divide(cuda_gpu *gpu, const op_divide *o) {
  SPREAD(gpu, divide_kernel, (size_t)o->batch * o->heads * o->n * o->width, *o);
}
void cuda_copy_lag(cuda_gpu *gpu, const op_copy_lag *o) {
  if (o->n) SPREAD(gpu, copy_lag_kernel, (size_t)o->texts * o->ld, *o);
}
void cuda_copy_fold(cuda_gpu *gpu, const op_copy_fold *host) {
  op_copy_fold o = *host;
  o.to = (const int32_t *)gpu_stage(gpu, o.to, (size_t)o.n * sizeof *o.to);
  o.often = (const float *)gpu_stage(gpu, o.often, (size_t)o.n * sizeof *o.often);
  if (o.n) SPREAD(gpu, copy_fold_kernel, o.ld, o);
}
void cuda_copy_loss(cuda_gpu *gpu, const op_copy_loss *host) {
  op_copy_loss o = *host;
  if (!o.rows) return;
  int32_t texts = 0;
  for (int i = 0; i < o.rows; i++)
    if (o.of[i] >= texts) texts = o.of[i] + 1;
  o.of = (const int32_t *)gpu_stage(gpu, o.of, (size_t)o.rows * sizeof *o.of);
  if (texts)
    o.texts.length =
        (const int32_t *)gpu_stage(gpu, o.texts.length, (size_t)texts * sizeof(int32_t));
  LAUNCH(gpu, copy_loss_kernel, o.rows, THREADS, 0, o);
}
void cuda_copy_grad(cuda_gpu *gpu, const op_copy_grad *host) {
  op_copy_grad o = *host;
  if (!o.rows) return;
  o.of = (const int32_t *)gpu_stage(gpu, o.of, (size_t)o.rows * sizeof *o.of);
  o.texts.length =
      (const int32_t *)gpu_stage(gpu, o.texts.length, (size_t)o.n_texts * sizeof(int32_t));
  SPREAD(gpu, copy_queries_kernel, (size_t)o.rows * o.texts.ld, o);
  SPREAD(gpu, copy_keys_kernel, (size_t)o.n_texts * o.texts.n * o.texts.ld, o);
}
