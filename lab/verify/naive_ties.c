/* Rows that float arithmetic does not decide: a hard argmax between keys that are too
 * close, and signed similarities whose sum cancels much more than in other rows, so
 * that rounding there would hide what is wrong elsewhere.
 */
#include <math.h>
#include <stdlib.h>

#include "verify/naive.h"

/* ---- sums that cancel ----------------------------------------------------------- */

enum { WORSE = 10 }; /* than the median row */

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* The condition of each row's denominator: sum of |terms| / |sum|; 0 for a row
 * without visible keys. */
static void find_conditions(pass *p, double *condition) {
  const attend_desc *d = p->d;
  for (int b = 0; b < d->batch; b++)
    for (int h = 0; h < d->heads; h++)
      for (int i = 0; i < d->q_len; i++) {
        float ignored;
        naive_at(p, b, h, i);
        naive_weigh(p, &ignored);
        double lost = isnan(p->condition) ? INFINITY : p->condition;
        *condition++ = p->n_visible ? lost : 0;
      }
}

static attend_status mark_cancelled(pass *p, unsigned char *rows, size_t *count) {
  const attend_desc *d = p->d;
  size_t n = (size_t)d->batch * (size_t)d->heads * (size_t)d->q_len;
  double *condition, *sorted;
  TAKE(&p->memory, &condition, n);
  TAKE(&p->memory, &sorted, n);
  find_conditions(p, condition);
  for (size_t row = 0; row < n; row++) sorted[row] = condition[row];
  qsort(sorted, n, sizeof *sorted, compare);
  for (size_t row = 0; row < n; row++) {
    rows[row] = condition[row] > WORSE * sorted[n / 2];
    *count += rows[row];
  }
  return ATTEND_OK;
}

/* ---- keys that are close -------------------------------------------------------- */

static double exact_score(const pass *p, int j, double *size) {
  const attend_desc *d = p->d;
  const float *q = p->q + naive_query_at(p, d->dim);
  const float *k = p->k + naive_key_at(p, j, d->dim);
  double sum = 0, bias = (double)naive_bias(p, j);
  *size = fabs(bias);
  for (int x = 0; x < d->dim; x++) {
    sum += (double)q[x] * (double)k[x];
    *size += fabs((double)d->scale * (double)q[x] * (double)k[x]);
  }
  return (double)d->scale * sum + bias;
}

/* Equal keys with equal biases tie in any arithmetic. */
static bool same_key(const pass *p, int i, int j) {
  const attend_desc *d = p->d;
  const float *a = p->k + naive_key_at(p, i, d->dim);
  const float *b = p->k + naive_key_at(p, j, d->dim);
  for (int x = 0; x < d->dim; x++)
    if (a[x] != b[x]) return false;
  return naive_bias(p, i) == naive_bias(p, j);
}

static bool is_close(const pass *p) {
  const attend_desc *d = p->d;
  double best = -INFINITY, most = 0, size;
  int winner = -1;
  for (int j = 0; j < d->kv_len; j++) {
    if (!attend_visible(d, p->b, p->i, j)) continue;
    double score = exact_score(p, j, &size);
    if (score > best) best = score, winner = j;
    if (size > most) most = size;
  }
  for (int j = 0; j < d->kv_len; j++)
    if (j != winner && attend_visible(d, p->b, p->i, j) &&
        best - exact_score(p, j, &size) <= 0x1p-19 * most && !same_key(p, winner, j))
      return true;
  return false;
}

static void mark_close(pass *p, unsigned char *rows, size_t *count) {
  const attend_desc *d = p->d;
  for (int b = 0; b < d->batch; b++)
    for (int h = 0; h < d->heads; h++)
      for (int i = 0; i < d->q_len; i++, rows++) {
        naive_at(p, b, h, i);
        *rows = is_close(p);
        *count += *rows;
      }
}

attend_status mark_undecided(attend_context *ctx, const inputs *in, unsigned char *rows,
                             size_t *count) {
  const attend_desc *d = in->desc;
  bool is_signed = attend_form_signed(&d->form);
  pass p;
  *count = 0;
  if (!naive_is_hard(d) && !is_signed) return ATTEND_OK;
  attend_status status = naive_open(ctx, in, &p);
  if (!status && is_signed) status = mark_cancelled(&p, rows, count);
  if (!status && !is_signed) mark_close(&p, rows, count);
  naive_close(&p);
  return status;
}
