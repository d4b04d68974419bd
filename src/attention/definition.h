/* One query row of the definition: the keys it sees and their weights. Shared by the
 * definition*.c files; predict.c reads exact weights from it.
 */
#ifndef ATTENTION_DEFINITION_H
#define ATTENTION_DEFINITION_H

#include "attention/desc.h"

/* Similarities through features: x' = unit x, and phi(x) holds the factor
 * exp(norm |x'|^2). Projections of keys are kept for as long as rows share
 * them. */
typedef struct {
  int dirs; /* random directions; 0 for the caller's phi */
  double unit, norm;
  float *w;        /* [dirs][D]                                 */
  double *q_along; /* [dirs], w.q'                              */
  double *k_along; /* [S][dirs], w.k'                           */
  int *k_head;     /* [S], whose k_along it is: 1 + b G + g, or 0 */
  double *share;   /* [dirs], of the derivative                 */
  float *x, *phi;  /* [2][D] and [2][C]: query, key; the caller's phi */
  float *dx;       /* [D]                                       */
} definition_features;

typedef struct {
  attend_desc d;      /* complete                                             */
  attend_view q, k;   /* complete; rows of the dense bias are in d.bias.dense */
  double *query;      /* [D]                                                  */
  double *key;        /* [D], the key read last                               */
  int *seen;          /* [S], the n_seen visible keys in rising order         */
  double *weight;     /* [S], weight[s] belongs to key seen[s]                */
  double denominator; /* sum of sim, where sim is signed                     */
  double lse;         /* as in attend_forward                                */
  int n_seen;         /* 0 also where the denominator is zero                */
  int b, h, i;        /* the row                                             */
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

/* The kv head that this row's head reads. */
int definition_row_kv_head(const definition_row *row);
/* What the bias adds to the score of key j. */
double definition_row_bias(const definition_row *row, int j);
/* Reads key j into row->key. */
void definition_row_read_key(const definition_row *row, int j);

/* ---- definition_features.c: random features, the caller's phi ------------ */

bool definition_has_features(const attend_form *form);
void definition_features_cut(const attend_desc *d, arena *a, definition_features *f);
/* Draws the directions. */
attend_status definition_features_open(attend_context *ctx, definition_row *row);
/* The query of this row has been read. */
void definition_features_query(definition_row *row);
/* Of key j, read last: sim, or log sim where it cannot be negative. */
double definition_features_sim(const definition_row *row, int j);
/* The derivative of that, dq and dk [D]. */
void definition_features_slope(const definition_row *row, int j, double *dq, double *dk);

/* ---- reading ------------------------------------------------------------- */

/* Element [b, h, i, :] of a complete view in double. */
void definition_read(const attend_view *view, attend_dtype dtype, int b, int h, int i, int width,
                     double *out /* [width] */);
double definition_dot(const double *x, const double *y, int n);
double definition_elu(double x); /* elu(x) + 1 */
/* Fails unless there is data, or nothing to read from it. */
attend_status definition_check_data(attend_context *ctx, const void *data, const char *name,
                                    int length);

#endif
