/* One query row of the definition: the keys it sees and their weights. definition.c
 * computes it; predict.c and observing read its exact weights.
 */
#ifndef ATTENTION_DEFINITION_H
#define ATTENTION_DEFINITION_H

#include "attention/desc.h"

/* Similarities through features: x' = unit x, and phi(x) holds the factor exp(norm |x'|^2).
 * Projections of keys are kept for as long as rows share them. */
typedef struct {
  int dirs; /* random directions; 0 for the caller's phi */
  double unit, norm;
  float *w;        /* [dirs][D] */
  double *q_along; /* [dirs], w.q' */
  double *k_along; /* [S][dirs], w.k' */
  int *k_head;     /* [S], whose k_along it is: 1 + b G + g, or 0 */
  double *share;   /* [dirs], of the derivative */
  float *x, *phi;  /* [2][D] and [2][C]: query, key; the caller's phi */
  float *dx;       /* [D] */
} definition_features;

typedef struct {
  attend_desc d;      /* complete */
  attend_view q, k;   /* complete; rows of the dense bias are in d.bias.dense */
  double *query;      /* [D] */
  double *key;        /* [D], the key read last */
  int *visible;       /* [S], the n_seen visible keys in rising order */
  double *weight;     /* [S], weight[s] belongs to key seen[s] */
  double denominator; /* sum of sim, where sim is signed */
  double lse;         /* as in attend_forward */
  int n_visible;      /* 0 also where the denominator is zero */
  int b, h, i;        /* the row */
  definition_features features;
  void *block;
} definition_row;

/* Bytes that a row takes from the context until it is closed. */
size_t definition_row_bytes(const attend_desc *complete);

attend_status definition_row_open(attend_context *ctx, const attend_desc *desc, attend_view q,
                                  attend_view k, definition_row *row);
void definition_row_close(const attend_context *ctx, definition_row *row);

/* Moves to query i of head h of batch entry b: query, seen, weight, lse. */
void definition_row_weigh(definition_row *row, int b, int h, int i);

/* The row's output o [M], from a complete view of values; value [M] is scratch. */
void definition_row_output(const definition_row *row, const attend_view *v, double *value,
                           double *o);

/* Reads key j into row->key. */
void definition_row_read_key(const definition_row *row, int j);

double definition_dot(const double *x, const double *y, int n);

#endif
