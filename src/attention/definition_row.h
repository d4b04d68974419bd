/* One query row of the definition: the keys it sees and their weights.
 *
 * Place: attention/ - shared by definition.c and definition_backward.c.
 */
#ifndef ATTENTION_DEFINITION_ROW_H
#define ATTENTION_DEFINITION_ROW_H

#include "attention/desc.h"

typedef struct {
  attend_desc d;      /* complete                                             */
  attend_view q, k;   /* complete; rows of the dense bias are in d.bias.dense */
  double *query;      /* [D]                                                  */
  double *key;        /* [D], the key read last                               */
  int *seen;          /* [S], the n_seen visible keys in rising order         */
  double *weight;     /* [S], weight[s] belongs to key seen[s]                */
  double denominator; /* sum of sim: poly and custom                         */
  double lse;         /* as attend_forward gives it                          */
  int n_seen;         /* 0 also where the denominator is zero                */
  int b, h, i;        /* the row                                             */
  void *block;
} definition_row;

attend_status definition_row_open(attend_context *ctx, const attend_desc *desc,
                                  attend_view q, attend_view k,
                                  definition_row *row);
void definition_row_close(const attend_context *ctx, definition_row *row);

/* Moves to query i of head h of batch entry b: query, seen, weight, lse. */
void definition_row_weigh(definition_row *row, int b, int h, int i);

/* The kv head that this row's head reads. */
int definition_row_kv_head(const definition_row *row);
/* What the bias adds to the score of key j. */
double definition_row_bias(const definition_row *row, int j);
/* Reads key j into row->key. */
void definition_row_read_key(const definition_row *row, int j);

/* Element [b, h, i, :] of a complete view in double. */
void definition_read(const attend_view *view, attend_dtype dtype, int b, int h,
                     int i, int width, double *out /* [width] */);
double definition_dot(const double *x, const double *y, int n);
/* Fails unless there is data, or nothing to read from it. */
attend_status definition_check_data(attend_context *ctx, const void *data,
                                    const char *name, int length);

#endif
