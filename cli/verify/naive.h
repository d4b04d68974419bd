/* One row of the naive run, and what its files share.
 *
 * naive.c goes forward and through the rows, naive_backward.c back, naive_features.c
 * knows the feature maps, naive_ties.c finds rows that no float decides. outputs.h
 * declares what others call.
 */
#ifndef CLI_NAIVE_H
#define CLI_NAIVE_H

#include "verify/outputs.h"

typedef struct naive_features naive_features; /* NULL: the form has none */

typedef struct { /* one query row */
  const attend_desc *d;
  float *q, *k, *v, *d_o;       /* whole, contiguous, widened */
  float *score, *weight, *size; /* [S]; size: of what went in */
  float *factor; /* [S] of features: between phi(q).phi(k) and the score */
  int *seen;     /* [S] visible keys, rising */
  int n_seen;
  float *o;          /* [M], as stored */
  double *o_size;    /* [M] */
  bool direct;       /* scores are similarities, not their logarithms, */
  bool is_signed;    /* and may be negative */
  float denominator; /* of the weights */
  float shift, args; /* of features: sim is score e^shift; sizes in exp */
  double condition;  /* sizes of the denominator's terms / denominator */
  bool cut;          /* weights to bf16, before they meet the values, */
  float below; /* and before that by this: the best lies below a power of 2 */
  naive_features *features;
  const unsigned char *undecided;
  int b, h, g, i;
} pass;

typedef struct { /* running sums in float, and their sizes */
  float *sum[OUTPUTS];
  double *size[OUTPUTS];
} gradients;

static inline bool naive_is_hard(const attend_desc *d) {
  return d->form.kind == ATTEND_ARGMAX && d->form.temperature == 0;
}

/* ---- naive.c ------------------------------------------------------------------ */

pass naive_open(const inputs *in);
void naive_close(pass *p);
void naive_move(pass *p, int b, int h, int i);
/* Sees and weighs the row: weight, denominator, condition; lse and its size. */
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

/* Maps every row of q and k; NULL for forms without features. */
naive_features *naive_features_open(const pass *p);
void naive_features_close(naive_features *f);
/* Scores of the keys in seen, and shift. */
void naive_features_see(pass *p);
/* Key seen[s]: the pull on its weight goes on to both rows of features. */
void naive_features_pull(pass *p, int s, float gap, double gap_size);
/* From features on to dq of this row, and in the end to every dk. */
void naive_features_query(pass *p, gradients *g);
void naive_features_keys(pass *p, gradients *g);

#endif
