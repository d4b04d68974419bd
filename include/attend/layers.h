/* attend/layers.h - the layers of a transformer other than attention.
 *
 * Rows of floats in, rows of floats out. A row's result depends on that row alone, not
 * on the number of rows or threads: a prompt in one call and token by token gives the
 * same bits.
 *
 * ld is the distance from one row to the next, in floats (leading dimension). The
 * memory belongs to the caller, except for attend_linear's packed weights.
 */
#ifndef ATTEND_LAYERS_H
#define ATTEND_LAYERS_H

#include "attend/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- linear: y = x W^T + b -------------------------------------------------- */

/* On a GPU layers whose weights are not f32 multiply on tensor cores: their inputs are rounded to bf16. */
typedef enum {
  ATTEND_WEIGHTS_F32 = 0,
  ATTEND_WEIGHTS_BF16, /* rounded to nearest even */
  ATTEND_WEIGHTS_I8,   /* round(w / s) with s = max |w| / 127 of each output */
  /* mixed precision for training: bf16 weights and inputs, f32 sums. ATTEND_WEIGHTS_BF16 where
   * the instruction set has no bf16 products */
  ATTEND_WEIGHTS_MIXED
} attend_weights;

/* Weights of consecutive outputs: the q, k and v projections of one input are three
 * parts of one product. */
typedef struct {
  const void *weight; /* [outputs, inputs] with the strides below */
  attend_dtype dtype;
  int outputs;
  ptrdiff_t output_stride, input_stride; /* in elements; both 0: contiguous */
  const float *bias;                     /* [outputs], or NULL: zeros */
  /* NULL, or called when a contiguous range of the weights has been packed and is not
   * needed any more. */
  void (*packed)(const void *from, size_t bytes, void *user);
  void *user;
} attend_linear_part;

typedef struct attend_linear attend_linear;

/* Packs the weights: the parts may be freed after the call. */
ATTEND_API attend_status attend_linear_create(attend_context *ctx, attend_weights kind, int inputs,
                                              int n_parts, const attend_linear_part *parts,
                                              attend_linear **linear);
/* The backward layer of the same parts: its inputs are their outputs, concatenated, and
 * it has `inputs` outputs. Its forward computes dX = dY W, without biases. */
ATTEND_API attend_status attend_linear_create_backward(attend_context *ctx, attend_weights kind,
                                                       int inputs, int n_parts,
                                                       const attend_linear_part *parts,
                                                       attend_linear **linear);
/* Replaces the weights after an optimizer step: the same shapes, into the same memory.
 * Allocates temporary memory only if the weights are not f32, or if the outputs of a
 * part before the last are not a multiple of 16. */
ATTEND_API attend_status attend_linear_repack(attend_linear *linear, int n_parts,
                                              const attend_linear_part *parts);
ATTEND_API void attend_linear_free(attend_linear *linear);
ATTEND_API int attend_linear_inputs(const attend_linear *linear);
ATTEND_API int attend_linear_outputs(const attend_linear *linear);
ATTEND_API size_t attend_linear_bytes(const attend_linear *linear);

/* If ldy is at least the outputs rounded up to a multiple of 16, the floats between are
 * set to zero. x and y must not overlap. */
ATTEND_API void attend_linear_forward(const attend_linear *linear, int rows,
                                      const float *x /* [rows][ldx] */, int ldx,
                                      float *y /* [rows][ldy] */, int ldy);
/* The same, added to y: gradients of an input that several layers share. */
ATTEND_API void attend_linear_forward_add(const attend_linear *linear, int rows,
                                          const float *x /* [rows][ldx] */, int ldx,
                                          float *y /* [rows][ldy] */, int ldy);

/* dW[o][i] = sum_r dY[r][o] X[r][i] and db[o] = sum_r dY[r][o]; with add, accumulated.
 * transposed: dW is stored as [inputs][outputs]. kind: ATTEND_WEIGHTS_MIXED rounds both
 * sides to bf16, the others compute in f32. A training step of
 * y = x W^T + b, with `backward` from attend_linear_create_backward:
 *
 *   attend_linear_forward(layer, rows, x, ldx, y, ldy);
 *   ...                                                       (dy is computed)
 *   attend_linear_forward(backward, rows, dy, lddy, dx, lddx);
 *   attend_linear_weight_grad(ctx, kind, rows, outputs, inputs, dy, lddy, x,
 *                             ldx, 0, 0, dw, inputs, db, work);
 *   ...                                                      (w, b are changed)
 *   attend_linear_repack(layer, 1, &part);
 *   attend_linear_repack(backward, 1, &part);
 */
ATTEND_API void attend_linear_weight_grad(attend_context *ctx, attend_weights kind, int rows,
                                          int outputs, int inputs,
                                          const float *dy /* [rows][lddy] */, int lddy,
                                          const float *x /* [rows][ldx] */, int ldx, int transposed,
                                          int add, float *dw /* [outputs][lddw] */, int lddw,
                                          float *db /* [outputs], or NULL */, void *work);
/* Bytes of work; constant beyond 4096 rows. */
ATTEND_API size_t attend_linear_weight_grad_bytes(const attend_context *ctx, int rows, int outputs,
                                                  int inputs);

/* ---- activations ------------------------------------------------------------- */

typedef enum {
  ATTEND_IDENTITY = 0,
  ATTEND_RELU,
  ATTEND_GELU,      /* x Phi(x), Phi the normal distribution */
  ATTEND_GELU_TANH, /* x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) / 2 */
  ATTEND_SILU,      /* x / (1 + exp(-x)) */
  ATTEND_TANH
} attend_activation;

ATTEND_API const char *attend_activation_name(attend_activation activation);
/* y may be x. */
ATTEND_API void attend_activate(attend_context *ctx, attend_activation activation, int rows, int n,
                                const float *x, int ldx, float *y, int ldy);
/* y = activation(a) b, element by element. y may be a or b. */
ATTEND_API void attend_gate(attend_context *ctx, attend_activation activation, int rows, int n,
                            const float *a, int lda, const float *b, int ldb, float *y, int ldy);

/* dx = activation'(x) dy; relu's derivative at 0 is 0. dx may be x or dy. */
ATTEND_API void attend_activate_backward(attend_context *ctx, attend_activation activation,
                                         int rows, int n, const float *x, int ldx, const float *dy,
                                         int lddy, float *dx, int lddx);
/* da = activation'(a) b dy, db = activation(a) dy. Each may be a, b or dy. */
ATTEND_API void attend_gate_backward(attend_context *ctx, attend_activation activation, int rows,
                                     int n, const float *a, int lda, const float *b, int ldb,
                                     const float *dy, int lddy, float *da, int ldda, float *db,
                                     int lddb);

/* y = x / (1 - p), or 0 with probability p: element j of row r where the random
 * stream's uniform number first + r n + j is below p. The same call on dy gives
 * dx. y may be x. */
ATTEND_API void attend_dropout(attend_context *ctx, attend_random random, uint64_t first, float p,
                               int rows, int n, const float *x, int ldx, float *y, int ldy);

/* ---- norms --------------------------------------------------------------------- */

/* y = (x - mean) / sqrt(variance + eps) weight + bias, mean and variance of the
 * row. weight and bias may be NULL (1 and 0); y may be x. */
ATTEND_API void attend_layer_norm(attend_context *ctx, int rows, int n, const float *x, int ldx,
                                  const float *weight, const float *bias, float eps, float *y,
                                  int ldy);
/* y = x / sqrt(mean of x^2 + eps) weight. */
ATTEND_API void attend_rms_norm(attend_context *ctx, int rows, int n, const float *x, int ldx,
                                const float *weight, float eps, float *y, int ldy);
/* Batch norm at inference: columns with the given means and variances. */
ATTEND_API void attend_batch_norm(attend_context *ctx, int rows, int n, const float *x, int ldx,
                                  const float *mean, const float *variance, const float *weight,
                                  const float *bias, float eps, float *y, int ldy);
/* Means and biased variances of the columns of a batch, for batch norm in training. */
ATTEND_API void attend_batch_moments(attend_context *ctx, int rows, int n, const float *x, int ldx,
                                     float *mean, float *variance);

/* Backward of the three norms. dx is written or, with add, accumulated; without add it
 * may be x or dy. dweight and dbias, each [n] or NULL, are accumulated over all rows, in
 * chunks of 64 rows that are joined in order. work has attend_norm_back_bytes(rows, n)
 * bytes, or is NULL if both are NULL. */
ATTEND_API void attend_layer_norm_backward(attend_context *ctx, int rows, int n, const float *x,
                                           int ldx, const float *weight, float eps, const float *dy,
                                           int lddy, int add, float *dx, int lddx, float *dweight,
                                           float *dbias, void *work);
ATTEND_API void attend_rms_norm_backward(attend_context *ctx, int rows, int n, const float *x,
                                         int ldx, const float *weight, float eps, const float *dy,
                                         int lddy, int add, float *dx, int lddx, float *dweight,
                                         void *work);
ATTEND_API size_t attend_norm_back_bytes(int rows, int n);
/* Includes the gradient through the moments, which must be attend_batch_moments of
 * these rows. */
ATTEND_API void attend_batch_norm_backward(attend_context *ctx, int rows, int n, const float *x,
                                           int ldx, const float *mean, const float *variance,
                                           const float *weight, float eps, const float *dy,
                                           int lddy, int add, float *dx, int lddx, float *dweight,
                                           float *dbias);

/* y = a + b. y may be a or b. */
ATTEND_API void attend_add(attend_context *ctx, int rows, int n, const float *a, int lda,
                           const float *b, int ldb, float *y, int ldy);

/* ---- embeddings and positions ------------------------------------------------- */

/* An embedding table in its stored type; may lie in a mapped file. */
typedef struct {
  const void *data; /* [entries, n], any alignment */
  attend_dtype dtype;
  int entries;
} attend_table;

/* y[r] = factor table[ids[r]]; with add, accumulated. An id outside the table gives
 * zeros. */
ATTEND_API void attend_embed(attend_context *ctx, const attend_table *table, int rows, int n,
                             const int32_t *ids, float factor, int add, float *y, int ldy);

/* dtable[ids[r]] += factor dy[r], the rows in order; ids outside the table are
 * skipped. */
ATTEND_API void attend_embed_backward(attend_context *ctx, int rows, int n, const int32_t *ids,
                                      float factor, const float *dy, int lddy, int entries,
                                      float *dtable /* [entries][n] */);

/* Sinusoidal: element 2i of position t is sin(t / 10000^(2i/n)), 2i + 1 the
 * cosine. */
ATTEND_API void attend_sinusoidal(int64_t position, int n, float *y /* [n] */);

/* Rotary position embedding (RoPE): the pair (i, i + dim/2) of a head is rotated by the
 * angle position * frequency[i]. */
typedef struct {
  double theta; /* frequency i is theta^(-2i/dim), then scaled: */
  enum {
    ATTEND_ROPE_PLAIN = 0,
    ATTEND_ROPE_LINEAR, /* divided by factor */
    ATTEND_ROPE_LLAMA3, /* low frequencies divided by factor, high ones kept */
    ATTEND_ROPE_YARN    /* YaRN: a ramp between the two, and attention_factor */
  } scaling;
  double factor;
  /* llama3: low_freq_factor, high_freq_factor; yarn: beta_slow, beta_fast */
  double low, high;
  double context;          /* original_max_position_embeddings */
  double attention_factor; /* yarn: scales q and k; 0: 0.1 ln(factor) + 1 */
} attend_rope;

ATTEND_API void attend_rope_frequencies(const attend_rope *rope, int dim,
                                        double *frequency /* [dim/2] */, double *attention_factor);
/* Rotates the heads of each row x[r] = [heads][dim] to its position. */
ATTEND_API void attend_rope_rotate(attend_context *ctx, const double *frequency,
                                   double attention_factor, int rows, int heads, int dim,
                                   const int32_t *positions /* [rows] */, float *x, int ldx);
/* The gradient: the transposed rotation, with the same attention_factor. */
ATTEND_API void attend_rope_rotate_backward(attend_context *ctx, const double *frequency,
                                            double attention_factor, int rows, int heads, int dim,
                                            const int32_t *positions /* [rows] */, float *dx,
                                            int lddx);

/* ---- rows of logits -------------------------------------------------------------- */

/* log(sum_j exp x[j]) over x [n], summed in double. */
ATTEND_API double attend_log_sum_exp(int n, const float *x);
/* Indices of the k largest of x [n], largest first; of equal ones the lower index
 * first. Returns how many: less than k where there are fewer. For k that are small:
 * each insertion moves up to k indices. */
ATTEND_API int attend_top_k(int n, const float *x, int k, int32_t *index /* [k] */);

/* ---- loss ------------------------------------------------------------------------ */

/* loss[r] = log(sum_j exp x[r][j]) - x[r][targets[r]]; 0 where the target is
 * negative (ignored). best: the index of the largest logit, or NULL. */
ATTEND_API void attend_cross_entropy(attend_context *ctx, int rows, int n, const float *x, int ldx,
                                     const int32_t *targets, float *loss, int32_t *best);
/* With label smoothing: target probability 1 - smoothing for the target, plus
 * smoothing / n for every class. */
ATTEND_API void attend_cross_entropy_smooth(attend_context *ctx, int rows, int n, const float *x,
                                            int ldx, const int32_t *targets, float smoothing,
                                            float *loss, int32_t *best);
/* The same loss, if not NULL, and dx = scale (softmax(x) - smoothed targets): zeros
 * where the target is negative, NaN where it is not a class. The loss is not scaled. dx
 * may be x. */
ATTEND_API void attend_cross_entropy_backward(attend_context *ctx, int rows, int n, const float *x,
                                              int ldx, const int32_t *targets, float smoothing,
                                              float scale, float *loss, float *dx, int lddx);

#ifdef __cplusplus
}
#endif
#endif
