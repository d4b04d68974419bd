/* What rows of q and k say about the variance of random features.
 *
 * Below predict.c; the weights of a row are the definition's own.
 *
 * With z_j = x + y_j (waves: x - y_j) the estimate of similarity j by one
 * direction w, divided by the similarity, is exp(w.z_j - |z_j|^2/2), or with a
 * cosh (pairs) or cos (waves) in the place of exp. So the covariance of two keys
 * of a row is, with c = z_j.z_l,
 *
 *   favor            exp(c) - 1
 *   pairs, fourier   cosh(c) - 1
 *
 * Two orthogonal directions, whose lengths are independent and those of normal
 * vectors, do not estimate independently. For j = l, t = c/2 and n = D/2
 *
 *   favor, pairs     exp(-t) F(-t) - 1        F(t) = 1F1(-n; n; t)
 *   fourier          exp(t) F(t) - 1
 *
 * which is negative; for j != l the same function of |c| is close (exact to the
 * order c^2 up to 1/D).
 *
 * Sums over pairs of keys are taken over all of them in short rows, and over FEW
 * in long ones, drawn systematically in proportion to p^2 (whose errors matter)
 * and p (what they are errors against).
 */
#include <math.h>

#include "attention/definition_row.h"
#include "attention/predict.h"

#include "attend/definition.h"

enum { FEW = 32 };                         /* keys of a row looked at closely */
enum { LEAST_ROWS = 24, MOST_ROWS = 128 }; /* rows of a problem */
static const double ENOUGH = 1e5;          /* pairs */
static const double LARGEST = 1e300;

typedef struct { /* some keys of a row */
  int count;
  int key[FEW];
  double part[FEW];   /* of all, by p^2 or by p; sums to 1 */
  double weight[FEW]; /* p */
  double *z;          /* [FEW][D] */
} few_keys;

typedef struct {
  definition_row row;
  bool waves, even, orthogonal;
  double unit;            /* sqrt(scale) */
  few_keys wrong, beside; /* by p^2, by p */
  double *block;
  double crowd; /* sum of p^2 */
  double top;   /* exponents of this row are taken relative to it */
  bool only;    /* the row sees one key */
} looker;

/* ---- covariances ----------------------------------------------------------------- */

/* 1F1(-n; n; t) with n = D/2, by the recurrence over its first argument; an odd
 * D takes the next even one. */
static double laguerre(int dim, double t) {
  int n = (dim + 1) / 2;
  double before = 1, now = 1 - t / n;
  for (int k = 1; k < n; k++) {
    double next = ((2 * k + n - t) * now - k * before) / (n + k);
    before = now;
    now = next;
  }
  return now;
}

/* Beyond 300 it is nothing against the covariance itself. */
static double covariance_beside(const looker *l, double c) {
  double t = fabs(c) / 2, s = l->waves ? t : -t;
  if (!l->orthogonal || l->row.d.dim < 2 || l->top > 0) return 0;
  return t < 300 ? exp(s) * laguerre(l->row.d.dim, s) - 1 : -1;
}

/* Times exp(-top). */
static double covariance_alone(const looker *l, double c) {
  if (l->top > 0) return exp((l->even ? fabs(c) : c) - l->top);
  if (!l->even) return expm1(c);
  double half = sinh(c / 2);
  return 2 * half * half;
}

static predict_variance covariance(const looker *l, double c) {
  return (predict_variance){covariance_alone(l, c), covariance_beside(l, c)};
}

static void add(predict_variance *sum, double factor, predict_variance x) {
  sum->alone += factor * x.alone;
  sum->beside += factor * x.beside;
}

static predict_variance times(double factor, predict_variance x) {
  return (predict_variance){factor * x.alone, factor * x.beside};
}

/* ---- choosing keys --------------------------------------------------------------- */

static double importance(const looker *l, int s, bool squared) {
  double p = l->row.weight[s];
  return squared ? p * p : p;
}

/* Key `place` of the choice is the s-th that the row sees. */
static void choose_key(const looker *l, few_keys *few, int place, int s,
                       double part) {
  const definition_row *row = &l->row;
  double *z = few->z + (ptrdiff_t)place * row->d.dim;
  few->key[place] = row->seen[s];
  few->part[place] = part;
  few->weight[place] = row->weight[s];
  definition_row_read_key(row, row->seen[s]);
  for (int x = 0; x < row->d.dim; x++)
    z[x] = l->unit * (row->query[x] + (l->waves ? -row->key[x] : row->key[x]));
}

/* In long rows, the keys at which the running sum of importance passes the
 * middle of each of FEW equal parts. */
static void choose_keys(const looker *l, bool squared, few_keys *few) {
  int n = l->row.n_seen;
  double sum = 0, whole = squared ? l->crowd : 1;
  few->count = n < FEW ? n : FEW;
  for (int s = 0; n <= FEW && s < n; s++)
    choose_key(l, few, s, s, importance(l, s, squared) / whole);
  int place = 0;
  for (int s = 0; n > FEW && s < n; s++) {
    sum += importance(l, s, squared) / whole;
    while (place < FEW && ((place + 0.5) / FEW < sum || s == n - 1))
      choose_key(l, few, place++, s, 1.0 / FEW);
  }
}

/* ---- one row ---------------------------------------------------------------------- */

static double inner(const looker *l, const few_keys *a, int i,
                    const few_keys *b, int j) {
  int dim = l->row.d.dim;
  return definition_dot(a->z + (ptrdiff_t)i * dim, b->z + (ptrdiff_t)j * dim,
                        dim);
}

/* Exponents reach 500 as they are. The largest c is that of a key with itself,
 * by Cauchy and Schwarz. */
static void find_top(looker *l) {
  double most = 0;
  for (int i = 0; i < l->wrong.count; i++)
    most = fmax(most, inner(l, &l->wrong, i, &l->wrong, i));
  for (int i = 0; i < l->beside.count; i++)
    most = fmax(most, inner(l, &l->beside, i, &l->beside, i));
  l->top = fmax(0, most - 500);
}

/* Of key i of `a` against all other keys of the row. */
static predict_variance against_others(const looker *l, const few_keys *a,
                                       int i, double *parts) {
  const few_keys *b = &l->beside;
  predict_variance sum = {0, 0};
  *parts = 0;
  for (int j = 0; j < b->count; j++) {
    if (b->key[j] == a->key[i]) continue;
    add(&sum, b->part[j], covariance(l, inner(l, a, i, b, j)));
    *parts += b->part[j];
  }
  return sum;
}

static predict_variance with_itself(const looker *l, int i) {
  return covariance(l, inner(l, &l->wrong, i, &l->wrong, i));
}

/* Of the denominator: pairs of a key with itself, and of two keys. */
static predict_variance row_total(const looker *l) {
  predict_variance same = {0, 0}, apart = {0, 0};
  double apart_parts = 0;
  for (int i = 0; i < l->wrong.count; i++)
    add(&same, l->wrong.part[i], with_itself(l, i));
  for (int i = 0; i < l->beside.count; i++) {
    double parts;
    predict_variance sum = against_others(l, &l->beside, i, &parts);
    add(&apart, l->beside.part[i], sum);
    apart_parts += l->beside.part[i] * parts;
  }
  predict_variance total = times(l->crowd, same);
  if (apart_parts > 0) add(&total, (1 - l->crowd) / apart_parts, apart);
  return total;
}

static predict_variance scaled_back(const looker *l, predict_variance v) {
  double grown = v.alone > 0 ? exp(fmin(log(v.alone) + l->top, 690)) : 0;
  return (predict_variance){fmin(grown, LARGEST), v.beside};
}

/* e_j - sum_l p_l e_l: twice the covariance of the two is taken off. */
static predict_term key_term(const looker *l, int i, predict_variance total) {
  double p = l->wrong.weight[i], parts;
  predict_variance own = with_itself(l, i), shared = times(p, own);
  predict_variance others = against_others(l, &l->wrong, i, &parts);
  if (parts > 0) add(&shared, (1 - p) / parts, others);
  predict_variance weight = own;
  if (parts > 0) {
    add(&weight, -2, shared);
    add(&weight, 1, total);
  } else {
    weight = (predict_variance){0, 0}; /* the only key that counts */
  }
  return (predict_term){.share = l->wrong.part[i] * l->crowd,
                        .only = l->only,
                        .weight = scaled_back(l, weight),
                        .sim = scaled_back(l, own),
                        .total = scaled_back(l, total)};
}

static bool sees_one(const attend_desc *d, int b, int i) {
  int seen = 0;
  for (int j = 0; j < d->kv_len && seen < 2; j++)
    seen += attend_visible(d, b, i, j) != 0;
  return seen == 1;
}

static attend_status look_at(attend_context *ctx, looker *l, int b, int h,
                             int i, predict_terms *out) {
  definition_row *row = &l->row;
  definition_row_weigh(row, b, h, i);
  out->pairs += row->n_seen;
  if (row->n_seen == 0) return ATTEND_OK;
  l->only = sees_one(&row->d, b, i); /* n_seen leaves out weights of 0 */
  ATTEND_CHECK(ctx, isfinite(row->lse),
               "query %d of batch entry %d, head %d, has a score that is not "
               "finite: no error can be predicted for NaN or infinite q and k",
               i, b, h);
  l->crowd = 0;
  for (int s = 0; s < row->n_seen; s++) l->crowd += importance(l, s, true);
  choose_keys(l, true, &l->wrong);
  choose_keys(l, false, &l->beside);
  find_top(l);
  predict_variance total = row_total(l);
  for (int j = 0; j < l->wrong.count; j++)
    out->terms[out->count++] = key_term(l, j, total);
  return ATTEND_OK;
}

/* ---- all rows ---------------------------------------------------------------------- */

/* What the features stand in for. */
static attend_form exact_form(const attend_form *f) {
  attend_form exact = {.kind = ATTEND_SOFTMAX};
  if (f->kind != ATTEND_GAUSSIAN) return exact;
  exact.kind = ATTEND_GAUSSIAN;
  exact.sigma = f->sigma;
  return exact;
}

static attend_status open_looker(attend_context *ctx, const attend_desc *d,
                                 attend_view q, attend_view k, looker *l) {
  const attend_form *f = &d->form;
  bool gaussian = f->kind == ATTEND_GAUSSIAN;
  attend_desc exact = *d;
  exact.form = exact_form(f);
  exact.engine = NULL;
  l->waves =
      gaussian ? f->map == ATTEND_TRIGONOMETRIC : f->kind == ATTEND_FOURIER;
  l->even = l->waves || f->pairs;
  l->orthogonal = f->draw == ATTEND_ORTHOGONAL;
  l->unit = gaussian ? 1 / (double)f->sigma : sqrt((double)d->scale);
  ATTEND_TRY(definition_row_open(ctx, &exact, q, k, &l->row));
  size_t each = FEW * (size_t)d->dim;
  attend_status status = take(ctx, SIZE_PRODUCT(2, each, sizeof(double)),
                              "a few keys of a row", &l->block);
  l->wrong.z = l->block;
  l->beside.z = status ? NULL : l->block + each;
  return status;
}

static int64_t rows_to_look_at(const attend_desc *d) {
  int64_t all = (int64_t)d->batch * d->heads * d->q_len;
  double fit = ENOUGH / (d->kv_len ? d->kv_len : 1);
  int64_t most = fit < LEAST_ROWS ? LEAST_ROWS : (int64_t)fmin(fit, MOST_ROWS);
  return min64(all, most);
}

static attend_status look_at_rows(attend_context *ctx, looker *l, int64_t rows,
                                  predict_terms *out) {
  const attend_desc *d = &l->row.d;
  int64_t all = (int64_t)d->batch * d->heads * d->q_len;
  for (int64_t n = 0; n < rows; n++) {
    int64_t at = (int64_t)(((double)n + 0.5) * (double)all / (double)rows);
    int64_t head = at / d->q_len;
    ATTEND_TRY(look_at(ctx, l, (int)(head / d->heads), (int)(head % d->heads),
                       (int)(at % d->q_len), out));
  }
  return ATTEND_OK;
}

attend_status predict_look(attend_context *ctx, const attend_desc *desc,
                           attend_view q, attend_view k, predict_terms *out) {
  *out = (predict_terms){0};
  looker l = {.unit = 1};
  int64_t rows = rows_to_look_at(desc);
  attend_status status = open_looker(ctx, desc, q, k, &l);
  if (!status)
    status = take(ctx, SIZE_PRODUCT((size_t)rows, FEW, sizeof *out->terms),
                  "what rows say about an error", &out->terms);
  if (!status) status = look_at_rows(ctx, &l, rows, out);
  if (status) give(ctx, out->terms);
  give(ctx, l.block);
  definition_row_close(ctx, &l.row);
  return status;
}
