/* Merging the outputs of two disjoint sets of keys, for callers that split keys over
 * calls, files or machines. lse is the log of the denominator, so (o, lse) determines
 * each side's share of the weight.
 */
#include <math.h>

#include "attention/engine.h"

typedef struct {
  double first, second; /* shares of the weight, or 0 and 0 */
  double lse;
} shares;

static shares share_soft(double a, double b) {
  double top = a > b ? a : b;
  if (top == -INFINITY) return (shares){0, 0, -INFINITY};
  double x = exp(a - top), y = exp(b - top);
  return (shares){x / (x + y), y / (x + y), top + log(x + y)};
}

/* Ties go to the first side, or half to each: the number of tied keys is not known. */
static shares share_hard(double a, double b, attend_ties ties) {
  if (a == b && a > -INFINITY && ties == ATTEND_TIES_AVERAGE) return (shares){0.5, 0.5, a};
  if (b > a) return (shares){0, 1, b};
  return (shares){a > -INFINITY, 0, a};
}

/* Here lse is the denominator itself, which may be negative. */
static shares share_signed(double a, double b) {
  if (a + b == 0) return (shares){0, 0, 0};
  return (shares){a / (a + b), b / (a + b), a + b};
}

static shares share_of(const attend_form *f, double a, double b) {
  if (f->kind == ATTEND_ARGMAX && f->temperature == 0)
    return isnan(a) || isnan(b) ? (shares){NAN, NAN, NAN} : share_hard(a, b, f->ties);
  if (attend_form_signed(f)) return share_signed(a, b);
  return isnan(a) || isnan(b) ? (shares){NAN, NAN, NAN} : share_soft(a, b);
}

static float read_one(attend_dtype dtype, const void *p) {
  float x;
  attend_convert_to_f32(dtype, p, 1, &x);
  return x;
}

/* A side without a share is not read: its zeros are not values. */
static void merge_row(attend_dtype dtype, shares s, int width, char *o, ptrdiff_t col,
                      const char *o2, ptrdiff_t col2) {
  ptrdiff_t size = (ptrdiff_t)attend_dtype_size(dtype);
  for (int i = 0; i < width; i++) {
    double sum = 0;
    if (s.first != 0) sum += s.first * (double)read_one(dtype, o + i * col * size);
    if (s.second != 0) sum += s.second * (double)read_one(dtype, o2 + i * col2 * size);
    float x = (float)sum;
    attend_convert_from_f32(dtype, &x, 1, o + i * col * size);
  }
}

typedef struct {
  const attend_desc *d;
  attend_view o, o2;
  float *lse;
  const float *lse2;
} merging;

/* All queries of one head. */
static void merge_head(const void *args, int64_t head, int worker) {
  const merging *m = args;
  const attend_desc *d = m->d;
  size_t size = attend_dtype_size(d->dtype);
  int64_t b = head / d->heads, h = head % d->heads;
  (void)worker;
  for (int64_t i = 0; i < d->q_len; i++) {
    int64_t r = head * d->q_len + i;
    shares s = share_of(&d->form, (double)m->lse[r], (double)m->lse2[r]);
    merge_row(d->dtype, s, d->dim_v, view_at(&m->o, size, b, h, i), m->o.stride[3],
              view_at(&m->o2, size, b, h, i), m->o2.stride[3]);
    m->lse[r] = (float)s.lse;
  }
}

attend_status attend_merge(attend_plan *p, attend_view o, float *lse, attend_view o2,
                           const float *lse2) {
  const attend_desc *d = &p->desc;
  ATTEND_CHECK(p->ctx, d->q_len == 0 || (o.data && lse && o2.data && lse2),
               "merging needs o and lse of both sides: one of them is NULL");
  o = view_complete(o, d->heads, d->q_len, d->dim_v);
  ATTEND_TRY(desc_check_output(p->ctx, d, "o", &o, d->heads, d->q_len, d->dim_v));
  o2 = view_complete(o2, d->heads, d->q_len, d->dim_v);
  merging m = {d, o, o2, lse, lse2};
  STREAM_ADD(plan_stream(p), (int64_t)d->batch * d->heads, merge_head, m);
  return ATTEND_OK;
}
