/* One row of the naive run.
 *
 * naive.c computes the forward pass row by row, naive_backward.c the gradients,
 * naive_features.c feature maps, naive_ties.c finds rows that float arithmetic does
 * not decide. verify.h declares what others call.
 */
#ifndef VERIFY_NAIVE_H
#define VERIFY_NAIVE_H

#include "verify/verify.h"

typedef struct naive_features naive_features; /* NULL: the form has none */

typedef struct { /* one query row */
  memory memory;
  const attend_desc *d;
  float *q, *k, *v, *d_o;       /* whole, contiguous, widened */
  float *score, *weight, *size; /* [S]; size: of its terms */
  float *factor;                /* [S] of features: between phi(q).phi(k) and the score */
  int *visible;                 /* [S] visible keys, rising */
  int n_visible;
  float *o;          /* [M], as stored */
  double *o_size;    /* [M] */
  bool direct;       /* scores are similarities, not their logarithms, */
  bool is_signed;    /* and may be negative */
  float denominator; /* of the weights */
  float shift, args; /* of features: sim is score e^shift; sizes in exp */
  double condition;  /* sizes of the denominator's terms / denominator */
  bool rounded;      /* weights to bf16 before they are multiplied by values, */
  float below;       /* scaled by this first: the best lies below a power of 2 */
  naive_features *features;
  const unsigned char *undecided;
  int b, h, g, i;
} pass;

typedef struct { /* running sums in float, and their sizes */
  float *sum[ATTEND_OUTPUTS];
  double *size[ATTEND_OUTPUTS];
} gradients;

static inline bool naive_is_hard(const attend_desc *d) {
  return d->form.kind == ATTEND_ARGMAX && d->form.temperature == 0;
}

/* ---- naive.c ------------------------------------------------------------------ */

/* naive_close is right after a failure. */
attend_status naive_open(attend_context *ctx, const inputs *in, pass *p);
void naive_close(pass *p);
void naive_at(pass *p, int b, int h, int i);
/* Weights of the row: visible keys, weight, denominator, condition; returns lse, and
 * its size. */
float naive_weigh(pass *p, float *lse_size);
float naive_dot(const float *a, const float *b, int n, float *size);
float naive_power(float base, int degree);
int64_t naive_position(const attend_desc *d, int64_t i);
float naive_bias(const pass *p, int j);
/* Where this row begins in [B,H,T,width], and key j in [B,G,S,width]. */
size_t naive_query_at(const pass *p, int width);
size_t naive_key_at(const pass *p, int j, int width);
/* What weight s counts for in sizes. */
double naive_weight_size(const pass *p, int s);

/* ---- naive_backward.c ----------------------------------------------------------- */

void naive_backward_row(pass *p, gradients *g);

/* ---- naive_features.c ----------------------------------------------------------- */

/* Maps every row of q and k into p->features; NULL for forms without any. */
attend_status naive_features_open(pass *p);
/* Scores of the visible keys, and shift. */
void naive_features_score(pass *p);
/* Key visible[s]: adds the gradient of its weight to both rows of features. */
void naive_features_add(pass *p, int s, float gap, double gap_size);
/* From features to dq of this row, and in the end to every dk. */
void naive_features_query(pass *p, gradients *g);
void naive_features_keys(pass *p, gradients *g);

#endif
