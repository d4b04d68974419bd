/* The list of ops of a device. A device (device/device.h) is a table with a function for
 * each; the CPU's are in this directory. An op is a struct, so that calls name their
 * arguments and omit zeros. Pointers are addresses of the device's memory.
 *
 * Rows may be wider in memory than they are long: ldx is the distance between rows
 * of x, in elements. Operands with an element type (x_type) are f32 or bf16; sums are f32 or
 * double whatever they add, and a bf16 result is rounded once, to nearest even.
 */
#ifndef LAYERS_OPS_H
#define LAYERS_OPS_H

#include "attend/layers.h"
#include "base/base.h"

/* Ops on rows of f32 or bf16, and all others. */
#define TYPED_OPS(X)   \
  X(linear)            \
  X(linear_grad)       \
  X(norm)              \
  X(norm_backward)     \
  X(rope)              \
  X(activate)          \
  X(activate_backward) \
  X(add)               \
  X(scale)             \
  X(soft_cap)          \
  X(soft_cap_backward) \
  X(dropout)           \
  X(embed)             \
  X(embed_backward)    \
  X(loss)
#define OTHER_OPS(X)  \
  X(gather)           \
  X(sinusoidal)       \
  X(copy_lag)         \
  X(copy_fold)        \
  X(copy_loss)        \
  X(copy_grad)        \
  X(pattern)          \
  X(pattern_grad)     \
  X(pattern_backward) \
  X(divide)           \
  X(sum_squares)      \
  X(step)
#define OPS(X) TYPED_OPS(X) OTHER_OPS(X)

/* y = x W^T + b, or added to y. Then, while a part is near, y = f(y) and onto = from + y: the bits
 * of an op_activate and, where y is f32, an op_add behind it. With onto, y is work: it may be onto
 * unless from is, and what it holds afterwards is not said. */
struct op_linear {
  const attend_linear *linear;
  int rows;
  const void *x; /* [rows][ldx] */
  int ldx;
  void *y; /* [rows][ldy]; zeros up to whole lanes where ldy has room for them */
  int ldy;
  bool add;
  attend_activation f; /* 0: none */
  float *onto;         /* [rows][ldo], or NULL */
  int ldo;
  const float *from; /* [rows][ldf], or NULL: onto */
  int ldf;
  attend_dtype x_type, y_type;
};

/* dw += dY^T X, db += the sums of dY; dw or db NULL: not asked for. */
struct op_linear_grad {
  attend_weights kind;
  int rows, outputs, inputs;
  const void *dy;
  int lddy;
  const void *x;
  int ldx;
  float *dw;  /* [outputs][inputs] */
  float *db;  /* [outputs] */
  void *work; /* of attend_linear_weight_grad_bytes */
  attend_dtype dy_type, x_type;
};

/* Of each of `groups` stretches of `width` floats that follow each other in a row
 * (0: one, the row). weight and bias [width], or NULL: 1, 0. y may be x. */
struct op_norm {
  bool rms;
  int rows, groups, width;
  const void *x;
  int ldx;
  const float *weight, *bias;
  float eps;
  void *y;
  int ldy;
  attend_dtype x_type, y_type;
};

/* dx is written, or added to; dweight and dbias are added to, where they are asked
 * for. Without add dx may be x or dy. */
struct op_norm_backward {
  bool rms, add;
  int rows, groups, width;
  const void *x;
  int ldx;
  const float *weight;
  float eps;
  bool linear; /* the scale of a row is a constant */
  const void *dy;
  int lddy;
  void *dx;
  int lddx;
  float *dweight, *dbias;
  void *work; /* of attend_norm_back_bytes(rows groups, width) */
  attend_dtype x_type, dy_type, dx_type;
};

/* Rotates the first `rotary` of each head's dim floats (0: all), in halves. */
struct op_rope {
  const double *frequency; /* [rotary / 2] */
  double attention_factor;
  int rows, heads, dim, rotary;
  const int32_t *position; /* [rows] */
  void *x;                 /* [rows][heads][dim] */
  int ldx;
  bool backward; /* the transpose, for gradients */
  attend_dtype x_type;
};

/* y = f(a), or f(a) b. y may be a or b. */
struct op_activate {
  attend_activation f;
  int rows, width;
  const void *a;
  int lda;
  const void *b; /* NULL: none */
  int ldb;
  void *y;
  int ldy;
  attend_dtype a_type, y_type; /* a_type: of b too */
};

/* da = f'(a) [b] dy, db = f(a) dy; and y = f(a) [b] again, where y is not NULL. y may not be an
 * operand; da and db may. */
struct op_activate_backward {
  attend_activation f;
  int rows, width;
  const void *a;
  int lda;
  const void *b;
  int ldb;
  const void *dy;
  int lddy;
  void *da;
  int ldda;
  void *db;
  int lddb;
  void *y;
  int ldy;
  attend_dtype a_type, dy_type, da_type; /* of a, b and y, of dy, of da and db */
};

/* y = a + b. y may be a or b. */
struct op_add {
  int rows, width;
  const void *a;
  int lda;
  const void *b;
  int ldb;
  void *y;
  int ldy;
  attend_dtype a_type, b_type, y_type;
};

/* x = factor x, or x / divisor where that is not 0. */
struct op_scale {
  int rows, width;
  float factor, divisor;
  void *x;
  int ldx;
  attend_dtype x_type;
};

/* x = cap tanh(x / cap). */
struct op_soft_cap {
  int rows, width;
  float cap;
  void *x;
  int ldx;
  attend_dtype x_type;
};

/* dx = dx (1 - (y / cap)^2), y being what was capped. */
struct op_soft_cap_backward {
  int rows, width;
  float cap;
  const void *y;
  int ldy;
  void *dx;
  int lddx;
  attend_dtype y_type, dx_type;
};

/* x = x / (1 - p), or 0 with probability p, as attend_dropout draws from `first` on. */
struct op_dropout {
  attend_random random;
  uint64_t first;
  float p;
  int rows, width;
  void *x;
  int ldx;
  attend_dtype x_type;
};

/* y[r] = factor table[ids[r] + offset], or added to y; ids NULL: all 0. An id that
 * the table has not gives zeros. */
struct op_embed {
  attend_table table;
  int rows, width;
  const int32_t *ids;
  int offset;
  float factor;
  bool add;
  void *y;
  int ldy;
  attend_dtype y_type;
};

/* dtable[ids[r] + offset] += factor dy[r], the rows in order. */
struct op_embed_backward {
  int rows, width, entries;
  const int32_t *ids;
  int offset;
  float factor;
  const void *dy;
  int lddy;
  float *dtable; /* [entries][width] */
  void *work;    /* of embed_backward_bytes; a device that sorts needs it */
  attend_dtype dy_type;
};
/* Ids and rows, before and after a pass of sorting; counts of digits by tile; two sums of each
 * stretch of sorted rows. */
enum { EMBED_SORT_TILE = 1024, EMBED_SORT_DIGITS = 256, EMBED_STRETCH = 32 };
static inline size_t embed_sort_numbers(size_t rows) {
  const size_t tiles = (rows + EMBED_SORT_TILE - 1) / EMBED_SORT_TILE;
  return size_add(size_times(round_up(rows, 4), 4), size_times(tiles, EMBED_SORT_DIGITS));
}
static inline size_t embed_backward_bytes(size_t rows, int width) {
  const size_t stretches = (rows + EMBED_STRETCH - 1) / EMBED_STRETCH;
  return size_times(
      size_add(embed_sort_numbers(rows), size_times(size_times(2, stretches), (size_t)width)),
      sizeof(float));
}

/* y[r] += the sinusoidal code of position[r]. */
struct op_sinusoidal {
  int rows, width;
  const int32_t *position;
  float *y;
  int ldy;
};

/* y[i] = factor x[index[i]]; index NULL: i. scatter: y[index[i]] = factor x[i], no index twice. */
struct op_gather {
  int rows, width;
  const int32_t *index;
  float factor;
  const void *x;
  int ldx;
  void *y;
  int ldy;
  bool scatter;
  attend_dtype x_type, y_type;
};

/* Cross entropy as attend_cross_entropy_backward, in place: x becomes its gradient. */
struct op_loss {
  int rows, width;
  void *x;
  int ldx;
  const int32_t *targets; /* [rows] */
  float smoothing, scale;
  float *loss; /* [rows] */
  attend_dtype x_type;
};

/* ---- the pointer-generator head: layers/copy.h ----------------------------------- */

/* The later half of each key moves on by a row, in each of `texts` texts of n keys;
 * backward: gradients move the other way. before: [2][ld], the key before the first and
 * work, or NULL: zeros; the last key as it was becomes the next call's. */
struct op_copy_lag {
  int texts, n, width;
  float *keys; /* [texts][n][ld] */
  int ld;
  float *before;
  bool backward;
};

/* Key from + i joins the mean of those in row to[i] as number often[i], in order. */
struct op_copy_fold {
  int n, from, ld;
  float *keys;        /* [..][ld] */
  const int32_t *to;  /* [n], of the host */
  const float *often; /* [n], of the host */
};

/* Texts that rows may copy from: text t has length[t] keys from t n on. */
struct copy_texts {
  int n, ld;
  const float *keys;          /* [texts][n][ld] */
  const float *extra;         /* [n] of one text, or NULL */
  const int32_t *ids, *first; /* [texts][n]; first may be NULL for a loss */
  const int32_t *length;      /* [texts], of the host */
};

/* The loss of a copying head, and its gradients in place of logits, gates and weights (then of the
 * scores). loss NULL: logits become log p. of[i]: the text that row i copies from, or -1. */
struct op_copy_loss {
  struct copy_texts texts;
  int rows, vocab;
  const int32_t *of; /* [rows], of the host */
  const float *q;    /* [rows][ld], scaled */
  float *gate;       /* [rows][LANES] */
  float *weight;     /* [rows][n] */
  float *logits;     /* [rows][ldl] */
  int ldl;
  const int32_t *targets; /* [rows] */
  float smoothing, scale;
  float *loss; /* [rows] */
};

/* dq = ds K, dK += ds^T q, ds being what copy_loss left in weight. Rows of one text
 * follow each other. */
struct op_copy_grad {
  struct copy_texts texts;
  int rows, n_texts;
  const int32_t *of; /* of the host */
  const float *q, *weight;
  float *dq;    /* [rows][ld] */
  float *dkeys; /* as texts.keys */
};

/* ---- edited attention patterns: layers/pattern.c --------------------------------- */

/* o = W v: rows W applied to values. */
struct op_pattern {
  int batch, heads, kv_heads, n, keys, width;
  const float *weights; /* [B,H,n,keys] */
  attend_view v;        /* [B,G,keys,width] */
  attend_view o;        /* [B,H,n,width] */
  float *d_weights;     /* [B,H,n,keys], of the two below */
};
/* d_weights = do v^T, do being in p.o. */
struct op_pattern_grad {
  struct op_pattern p;
};
/* dq, dk and dv from d_weights, with softmax's weights before the edit. */
struct op_pattern_backward {
  struct op_pattern p;
  int dim;
  float scale;
  const float *before; /* [B,H,n,keys] */
  attend_view q, k, dq, dk, dv;
};

/* o exp(before - after): another denominator, as lse [B,H,n]. */
struct op_divide {
  int batch, heads, n, width;
  const float *before, *after;
  attend_view o;
};

/* ---- optimizer steps ------------------------------------------------------------- */

/* sums[i] = the sum of squares of chunk i of SQUARES_STRETCH floats, in double. */
enum { SQUARES_STRETCH = 4096 };
static inline size_t stretches_of(size_t n) { return (n + SQUARES_STRETCH - 1) / SQUARES_STRETCH; }
struct op_sum_squares {
  size_t n;
  const float *x;
  double *sums; /* [stretches] */
};

/* A stretch of values that decay alike. */
struct step_span {
  size_t begin, end;
  float decay;
};
/* AdamW (second not NULL; Loshchilov and Hutter 2019) or SGD with momentum, of n values: of those in
 * spans, which are in order, or of all with `decay`. shrink: of the gradient; fix1, fix2: Adam's bias
 * corrections. */
struct op_step {
  size_t n;
  float *values;
  const float *gradients;
  float *first, *second;
  float rate, decay, shrink, beta1, beta2, eps, fix1, fix2, momentum;
  const struct step_span *spans; /* [n_spans], or NULL */
  int n_spans;
};

/* attend_linear_create, or with `backward` attend_linear_create_backward. */
attend_status cpu_pack(attend_context *ctx, attend_weights kind, bool backward, int inputs,
                       int n_parts, const attend_linear_part *parts, attend_linear **linear);
/* The CPU's, in f32. */
#define X(name) void cpu_##name(attend_context *ctx, const struct op_##name *op);
OPS(X)
#undef X
/* The same in any type, and the memory that they need: typed.c. `widest`: the most that the widths
 * of one op's operands add up to. */
#define X(name) void typed_##name(attend_context *ctx, const struct op_##name *op);
TYPED_OPS(X)
#undef X
attend_status typed_reserve(attend_context *ctx, size_t widest);
void typed_release(attend_context *ctx);

#endif
