/* attend/layers.h - what stands around attention in a transformer.
 *
 * Rows of floats in, rows of floats out. A row's result depends on that row
 * alone: not on how many rows ride along, nor on the number of threads, so that
 * a prompt read at once and read token by token gives the same bits.
 *
 * Rows may be wider in memory than they are long: ld is the distance from one
 * row to the next, in floats. The memory belongs to the caller; only
 * attend_linear keeps something of its own, the packed weights.
 */
#ifndef ATTEND_LAYERS_H
#define ATTEND_LAYERS_H

#include "attend/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- linear: y = x W^T + b -------------------------------------------------- */

typedef enum {
  ATTEND_WEIGHTS_F32 = 0,
  ATTEND_WEIGHTS_BF16, /* rounded to nearest even */
  ATTEND_WEIGHTS_I8,   /* round(w / s) with s = max |w| / 127 of each output */
  ATTEND_WEIGHTS_MIXED /* bf16, and what they are multiplied with is rounded to
                          bf16 too; sums are f32. Where the instruction set has
                          nothing for it, as ATTEND_WEIGHTS_BF16. For learning  */
} attend_weights;

/* Outputs that lie one after another: q, k and v of one input are three parts
 * of one product. */
typedef struct {
  const void *weight; /* [outputs, inputs], as the strides say                */
  attend_dtype dtype;
  int outputs;
  ptrdiff_t output_stride, input_stride; /* in elements; both 0: contiguous   */
  const float *bias;                     /* [outputs], or NULL: zeros         */
  /* NULL, or told which of the weights have been read and are not needed any
   * more, where that is one stretch of memory. */
  void (*packed)(const void *from, size_t bytes, void *user);
  void *user;
} attend_linear_part;

typedef struct attend_linear attend_linear;

/* Packs the weights: the parts may be given back after the call. */
ATTEND_API attend_status attend_linear_create(attend_context *ctx,
                                              attend_weights kind, int inputs,
                                              int n_parts,
                                              const attend_linear_part *parts,
                                              attend_linear **linear);
/* The same parts' way back: a layer of as many inputs as they have outputs, one
 * part after the other, and of `inputs` outputs. Forward through it carries
 * gradients, dX = dY W; the biases have no share in it. */
ATTEND_API attend_status attend_linear_create_back(
    attend_context *ctx, attend_weights kind, int inputs, int n_parts,
    const attend_linear_part *parts, attend_linear **linear);
/* New weights for the old, as many of each, into the same memory: after a step
 * of training. Only weights that are not f32, or parts before the last whose
 * outputs are no multiple of 16, need some memory meanwhile. */
ATTEND_API attend_status attend_linear_repack(attend_linear *linear,
                                              int n_parts,
                                              const attend_linear_part *parts);
ATTEND_API void attend_linear_free(attend_linear *linear);
ATTEND_API int attend_linear_inputs(const attend_linear *linear);
ATTEND_API int attend_linear_outputs(const attend_linear *linear);
ATTEND_API size_t attend_linear_bytes(const attend_linear *linear);

/* y[rows][ldy]. Where ldy is at least the outputs rounded up to a multiple of 16,
 * what lies between is overwritten with zeros. x and y must not overlap. */
ATTEND_API void attend_linear_forward(const attend_linear *linear, int rows,
                                      const float *x /* [rows][ldx] */, int ldx,
                                      float *y /* [rows][ldy] */, int ldy);
/* The same, added to y: where several layers share an input, its gradient is
 * the sum of theirs. */
ATTEND_API void attend_linear_forward_add(const attend_linear *linear, int rows,
                                          const float *x /* [rows][ldx] */,
                                          int ldx, float *y /* [rows][ldy] */,
                                          int ldy);

/* dW[o][i] = sum_r dY[r][o] X[r][i] and db[o] = sum_r dY[r][o], or added to what
 * is there. transposed: dW is stored as [inputs][outputs]. kind: ATTEND_WEIGHTS_MIXED
 * rounds both sides to bf16, the others are f32. A training step of
 * y = x W^T + b, with `back` from attend_linear_create_back:
 *
 *   attend_linear_forward(layer, rows, x, ldx, y, ldy);
 *   ...                                                       (dy is computed)
 *   attend_linear_forward(back, rows, dy, lddy, dx, lddx);
 *   attend_linear_weight_grad(ctx, kind, rows, outputs, inputs, dy, lddy, x,
 *                             ldx, 0, 0, dw, inputs, db, work);
 *   ...                                                      (w, b are changed)
 *   attend_linear_repack(layer, 1, &part);
 *   attend_linear_repack(back, 1, &part);
 */
ATTEND_API void attend_linear_weight_grad(
    attend_context *ctx, attend_weights kind, int rows, int outputs, int inputs,
    const float *dy /* [rows][lddy] */, int lddy,
    const float *x /* [rows][ldx] */, int ldx, int transposed, int add,
    float *dw /* [outputs][lddw] */, int lddw,
    float *db /* [outputs], or NULL */, void *work);
/* Of the workspace; it does not grow beyond 4096 rows. */
ATTEND_API size_t attend_linear_weight_grad_bytes(const attend_context *ctx,
                                                  int rows, int outputs,
                                                  int inputs);

/* ---- activations ------------------------------------------------------------- */

typedef enum {
  ATTEND_IDENTITY = 0,
  ATTEND_RELU,
  ATTEND_GELU,      /* x Phi(x), Phi the normal distribution                  */
  ATTEND_GELU_TANH, /* x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) / 2        */
  ATTEND_SILU,      /* x / (1 + exp(-x))                                      */
  ATTEND_TANH
} attend_activation;

ATTEND_API const char *attend_activation_name(attend_activation activation);
/* y may be x. */
ATTEND_API void attend_activate(attend_context *ctx,
                                attend_activation activation, int rows, int n,
                                const float *x, int ldx, float *y, int ldy);
/* y = activation(a) b, element by element. y may be a or b. */
ATTEND_API void attend_gate(attend_context *ctx, attend_activation activation,
                            int rows, int n, const float *a, int lda,
                            const float *b, int ldb, float *y, int ldy);

/* dx = activation'(x) dy; relu's derivative at 0 is 0. dx may be x or dy. */
ATTEND_API void attend_activate_back(attend_context *ctx,
                                     attend_activation activation, int rows,
                                     int n, const float *x, int ldx,
                                     const float *dy, int lddy, float *dx,
                                     int lddx);
/* da = activation'(a) b dy, db = activation(a) dy. Each may be a, b or dy. */
ATTEND_API void attend_gate_back(attend_context *ctx,
                                 attend_activation activation, int rows, int n,
                                 const float *a, int lda, const float *b,
                                 int ldb, const float *dy, int lddy, float *da,
                                 int ldda, float *db, int lddb);

/* y = x / (1 - p), or 0 with probability p: element j of row r where the random
 * stream's uniform number first + r n + j is below p. The same call on dy gives
 * dx. y may be x. */
ATTEND_API void attend_dropout(attend_context *ctx, attend_random random,
                               uint64_t first, float p, int rows, int n,
                               const float *x, int ldx, float *y, int ldy);

/* ---- norms --------------------------------------------------------------------- */

/* y = (x - mean) / sqrt(variance + eps) weight + bias, mean and variance of the
 * row. weight and bias may be NULL (1 and 0); y may be x. */
ATTEND_API void attend_layer_norm(attend_context *ctx, int rows, int n,
                                  const float *x, int ldx, const float *weight,
                                  const float *bias, float eps, float *y,
                                  int ldy);
/* y = x / sqrt(mean of x^2 + eps) weight. */
ATTEND_API void attend_rms_norm(attend_context *ctx, int rows, int n,
                                const float *x, int ldx, const float *weight,
                                float eps, float *y, int ldy);
/* By columns, with the means and variances that are given. */
ATTEND_API void attend_batch_norm(attend_context *ctx, int rows, int n,
                                  const float *x, int ldx, const float *mean,
                                  const float *variance, const float *weight,
                                  const float *bias, float eps, float *y,
                                  int ldy);
/* The means and (biased) variances of the columns of a batch; what training
 * normalises with, and what it averages for later. */
ATTEND_API void attend_batch_moments(attend_context *ctx, int rows, int n,
                                     const float *x, int ldx, float *mean,
                                     float *variance);

/* Backward of the three. dx is written or, with add, added to; without add it
 * may be x or dy. dweight and dbias, each [n] or NULL, are added to: sums over
 * all rows, in stretches of 64 that are joined in order. work is of
 * attend_norm_back_bytes(rows, n), or NULL where neither is asked for. */
ATTEND_API void attend_layer_norm_back(attend_context *ctx, int rows, int n,
                                       const float *x, int ldx,
                                       const float *weight, float eps,
                                       const float *dy, int lddy, int add,
                                       float *dx, int lddx, float *dweight,
                                       float *dbias, void *work);
ATTEND_API void attend_rms_norm_back(attend_context *ctx, int rows, int n,
                                     const float *x, int ldx,
                                     const float *weight, float eps,
                                     const float *dy, int lddy, int add,
                                     float *dx, int lddx, float *dweight,
                                     void *work);
ATTEND_API size_t attend_norm_back_bytes(int rows, int n);
/* Through the moments too: they must be those of these rows, as
 * attend_batch_moments gives them. */
ATTEND_API void attend_batch_norm_back(attend_context *ctx, int rows, int n,
                                       const float *x, int ldx,
                                       const float *mean, const float *variance,
                                       const float *weight, float eps,
                                       const float *dy, int lddy, int add,
                                       float *dx, int lddx, float *dweight,
                                       float *dbias);

/* y = a + b. y may be a or b. */
ATTEND_API void attend_add(attend_context *ctx, int rows, int n, const float *a,
                           int lda, const float *b, int ldb, float *y, int ldy);

/* ---- embeddings and positions ------------------------------------------------- */

/* A table whose rows are looked up, where it lies and as it is stored. */
typedef struct {
  const void *data; /* [entries, n], perhaps not aligned */
  attend_dtype dtype;
  int entries;
} attend_table;

/* y[r] = factor table[ids[r]], or added to y. An id outside of the table gives
 * zeros. */
ATTEND_API void attend_embed(attend_context *ctx, const attend_table *table,
                             int rows, int n, const int32_t *ids, float factor,
                             int add, float *y, int ldy);

/* dtable[ids[r]] += factor dy[r], the rows in order; ids outside of the table
 * are passed over. */
ATTEND_API void attend_embed_back(attend_context *ctx, int rows, int n,
                                  const int32_t *ids, float factor,
                                  const float *dy, int lddy, int entries,
                                  float *dtable /* [entries][n] */);

/* Sinusoidal: element 2i of position t is sin(t / 10000^(2i/n)), 2i + 1 the
 * cosine. */
ATTEND_API void attend_sinusoidal(int64_t position, int n, float *y /* [n] */);

/* Rotary positions: the pair (i, i + dim/2) of a head is transposed by
 * position * frequency[i]. */
typedef struct {
  double theta; /* frequency i is theta^(-2i/dim), then scaled:               */
  enum {
    ATTEND_ROPE_PLAIN = 0,
    ATTEND_ROPE_LINEAR, /* divided by factor                                  */
    ATTEND_ROPE_LLAMA3, /* long waves divided by factor, short ones kept      */
    ATTEND_ROPE_YARN    /* the same by a ramp over turns; longer vectors      */
  } scaling;
  double factor;
  double low, high; /* llama3: low_freq_factor, high_freq_factor;
                       yarn: beta_slow, beta_fast                             */
  double context;   /* positions that training saw: original_max_position..   */
  double stretch;   /* yarn: attention factor; 0: 0.1 ln(factor) + 1          */
} attend_rope;

ATTEND_API void attend_rope_frequencies(const attend_rope *rope, int dim,
                                        double *frequency /* [dim/2] */,
                                        double *stretch);
/* Turns the heads of each row x[r] = [heads][dim] to its position. */
ATTEND_API void attend_rope_rotate(attend_context *ctx, const double *frequency,
                                   double stretch, int rows, int heads, int dim,
                                   const int32_t *positions /* [rows] */,
                                   float *x, int ldx);
/* Turns gradients back: the transpose, with the same stretch. */
ATTEND_API void attend_rope_rotate_back(attend_context *ctx,
                                        const double *frequency, double stretch,
                                        int rows, int heads, int dim,
                                        const int32_t *positions /* [rows] */,
                                        float *dx, int lddx);

/* ---- loss ------------------------------------------------------------------------ */

/* loss[r] = log(sum_j exp x[r][j]) - x[r][targets[r]]; 0 where the target is
 * negative (ignored). best may be NULL, or takes the largest logit's place. */
ATTEND_API void attend_cross_entropy(attend_context *ctx, int rows, int n,
                                     const float *x, int ldx,
                                     const int32_t *targets, float *loss,
                                     int32_t *best);
/* The same against smoothed targets: 1 - smoothing for the right one, and
 * smoothing / n for each. */
ATTEND_API void attend_cross_entropy_smooth(attend_context *ctx, int rows,
                                            int n, const float *x, int ldx,
                                            const int32_t *targets,
                                            float smoothing, float *loss,
                                            int32_t *best);
/* The same loss, if it is not NULL, and dx = scale (softmax(x) - smoothed
 * targets): zeros where the target is negative, NaN where there is no such
 * class. The loss is not scaled. dx may be x. */
ATTEND_API void attend_cross_entropy_back(attend_context *ctx, int rows, int n,
                                          const float *x, int ldx,
                                          const int32_t *targets,
                                          float smoothing, float scale,
                                          float *loss, float *dx, int lddx);

#ifdef __cplusplus
}
#endif
#endif
