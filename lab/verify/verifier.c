/* A problem with its definition in double and a naive run in float: engines are
 * compared with both.
 *
 * A hard argmax needs care: half of its keys are made equal to their neighbours, so
 * that ties happen; and rows whose best keys differ by less than float can tell are
 * left out, since either choice is right. So are rows whose signed similarities
 * cancel more than most: the naive run's error there would let every other row pass.
 */
#include <float.h>
#include <math.h>
#include <stdio.h>

#include "base/options.h"
#include "verify/naive.h"

struct attend_verifier {
  memory memory;
  attend_problem problem;
  attend_tensors tensors;
  outputs truth, naive;
  double magnitude[ATTEND_OUTPUTS];
  bool naive_rounds;        /* the naive run rounds its weights to bf16 */
  unsigned char *undecided; /* [B,H,T] */
  size_t n_undecided;
};

/* ---- verdicts ------------------------------------------------------------------ */

/* Equal infinities are no error; a NaN is an infinite one. */
static double largest_error(size_t n, const double *truth, const double *x) {
  double most = 0;
  for (size_t i = 0; i < n; i++) {
    double e = truth[i] == x[i] ? 0 : fabs(truth[i] - x[i]);
    if (isnan(e)) return INFINITY;
    if (e > most) most = e;
  }
  return most;
}

static double largest_size(size_t n, const double *x) {
  double most = 0;
  for (size_t i = 0; i < n; i++)
    if (isfinite(x[i]) && fabs(x[i]) > most) most = fabs(x[i]);
  return most;
}

/* Half a unit in the last place, at worst, of numbers up to this size. */
static double storage_rounding(attend_dtype dtype, double size) {
  if (dtype == ATTEND_F16) return size * 0x1p-11 + 0x1p-25;
  if (dtype == ATTEND_BF16) return size * 0x1p-8;
  return 0;
}

static double bound_of(const attend_desc *d, int x, const outputs *truth, const outputs *naive,
                       double magnitude) {
  size_t n = truth->count[x];
  double size = largest_size(n, truth->at[x]);
  double least = 4 * (double)FLT_EPSILON * (magnitude > size ? magnitude : size);
  if (x != ATTEND_OUT_LSE && x != ATTEND_OUT_DBIAS) least += storage_rounding(d->dtype, size);
  return 2 * largest_error(n, truth->at[x], naive->at[x]) + least;
}

attend_verification judge(const attend_desc *desc, const outputs *truth, const outputs *naive,
                          const outputs *engine, const double magnitude[ATTEND_OUTPUTS]) {
  attend_verification v = {.ok = 1};
  double worst = -1;
  for (int x = 0; x < ATTEND_OUTPUTS; x++) {
    v.error[x] = v.bound[x] = NAN;
    if (!truth->at[x] || !engine->at[x]) continue;
    v.error[x] = largest_error(truth->count[x], truth->at[x], engine->at[x]);
    v.bound[x] = bound_of(desc, x, truth, naive, magnitude[x]);
    bool ok = v.error[x] <= v.bound[x] && isfinite(v.bound[x]);
    double share = v.error[x] == 0 ? 0 : v.error[x] / v.bound[x];
    if (!ok) share = INFINITY; /* the first that fails is named */
    if (share > worst) {
      worst = share;
      v.worst = x;
    }
    v.ok = v.ok && ok;
  }
  return v;
}

/* ---- rows that float arithmetic does not decide ---------------------------------- */

static void repeat_keys(attend_verifier *t) {
  const attend_desc *d = &t->tensors.desc;
  attend_view k = view_complete(t->tensors.k, d->kv_heads, d->kv_len, d->dim);
  size_t bytes = (size_t)d->dim * attend_dtype_size(d->dtype);
  for (int b = 0; b < d->batch; b++)
    for (int g = 0; g < d->kv_heads; g++)
      for (int j = 1; j < d->kv_len; j += 2)
        memcpy(view_from(k, d->dtype, b, g, j).data, view_from(k, d->dtype, b, g, j - 1).data,
               bytes);
}

static void clear_gradients(attend_verifier *t) {
  const attend_desc *d = &t->tensors.desc;
  if (!t->tensors.d_o.data) return;
  attend_view view = view_complete(t->tensors.d_o, d->heads, d->q_len, d->dim_v);
  const unsigned char *mark = t->undecided;
  for (int b = 0; b < d->batch; b++)
    for (int h = 0; h < d->heads; h++)
      for (int i = 0; i < d->q_len; i++)
        if (*mark++)
          memset(view_from(view, d->dtype, b, h, i).data, 0,
                 (size_t)d->dim_v * attend_dtype_size(d->dtype));
}

static void clear_undecided(const attend_verifier *t, outputs *out) {
  size_t width = (size_t)t->tensors.desc.dim_v;
  for (size_t row = 0; row < out->count[ATTEND_OUT_LSE]; row++)
    if (t->undecided[row]) memset(out->at[ATTEND_OUT_O] + row * width, 0, width * sizeof(double));
}

/* ---- the verifier ---------------------------------------------------------------- */

static attend_status run_reference(attend_verifier *t, bool rounds) {
  inputs in = inputs_of(&t->tensors);
  in.round_weights = t->naive_rounds = rounds;
  in.undecided = t->undecided;
  ATTEND_TRY(run_naive(t->memory.ctx, &in, &t->naive, t->magnitude));
  clear_undecided(t, &t->naive);
  return ATTEND_OK;
}

static attend_status open_verifier(attend_verifier *t, uint64_t seed) {
  attend_context *ctx = t->memory.ctx;
  ATTEND_TRY(attend_problem_tensors(ctx, &t->problem, seed, &t->tensors));
  const attend_desc *d = &t->tensors.desc;
  bool backward = t->problem.op == ATTEND_OP_BACKWARD;
  if (naive_is_hard(d)) repeat_keys(t);
  ATTEND_TRY(outputs_take(&t->memory, d, backward, &t->truth));
  ATTEND_TRY(outputs_take(&t->memory, d, backward, &t->naive));
  TAKE(&t->memory, &t->undecided, t->truth.count[ATTEND_OUT_LSE]);
  inputs in = inputs_of(&t->tensors);
  ATTEND_TRY(mark_undecided(ctx, &in, t->undecided, &t->n_undecided));
  if (t->n_undecided) clear_gradients(t);
  ATTEND_TRY(run_definition(ctx, &in, &t->truth));
  clear_undecided(t, &t->truth);
  return run_reference(t, rounds_weights(ctx, d));
}

static attend_status check_problem(attend_context *ctx, const attend_problem *p) {
  char text[256];
  attend_problem_print(p, text, sizeof text);
  ATTEND_CHECK(ctx, p->op != ATTEND_OP_SGEMM, "%s is not attention: only bench takes it", text);
  /* States pad by key. */
  ATTEND_CHECK(ctx, p->op != ATTEND_OP_DECODE || p->pad != ATTEND_PAD_LENGTHS,
               "%s: decoding takes padleft or padright, not lengths", text);
  return ATTEND_OK;
}

attend_status attend_verifier_create(attend_context *ctx, const attend_problem *problem,
                                     uint64_t seed, attend_verifier **verifier) {
  attend_verifier *t;
  *verifier = NULL;
  ATTEND_TRY(check_problem(ctx, problem));
  ATTEND_TRY(take_zeroed(ctx, sizeof *t, "a verifier", &t));
  t->memory.ctx = ctx;
  t->problem = *problem;
  attend_status status = open_verifier(t, seed);
  if (status)
    attend_verifier_free(t);
  else
    *verifier = t;
  return status;
}

static attend_status judge_solved(attend_verifier *t, attend_context *ctx, attend_verification *v) {
  memory m = {.ctx = ctx};
  outputs out;
  attend_status status = outputs_read(&m, &t->tensors, t->problem.op == ATTEND_OP_BACKWARD, &out);
  if (!status) {
    clear_undecided(t, &out);
    *v = judge(&t->tensors.desc, &t->truth, &t->naive, &out, t->magnitude);
    v->undecided = t->n_undecided;
  }
  memory_free(&m);
  return status;
}

attend_status attend_verifier_run(attend_verifier *t, attend_context *ctx, attend_verification *v) {
  attend_solver *s;
  bool rounds = rounds_weights(ctx, &t->tensors.desc);
  if (rounds != t->naive_rounds) ATTEND_TRY(run_reference(t, rounds));
  ATTEND_TRY(attend_solver_create(ctx, &t->problem, &t->tensors, &s));
  attend_status status = attend_solver_run(s);
  if (!status) status = judge_solved(t, ctx, v);
  if (!status)
    snprintf(v->engine, sizeof v->engine, "%s", attend_plan_engine(attend_solver_plan(s)));
  attend_solver_free(s);
  return status;
}

void attend_verifier_free(attend_verifier *t) {
  if (!t) return;
  attend_context *ctx = t->memory.ctx;
  attend_tensors_free(ctx, &t->tensors);
  memory_free(&t->memory);
  give(ctx, t);
}

/* ---- many problems --------------------------------------------------------------- */

enum { SHORT = 300 };

/* Lengths to 300, with their difference kept in kind; batch to 2; the heads of one kv
 * head stay together. */
static attend_problem shrunken(const attend_problem *problem) {
  attend_problem p = *problem;
  attend_desc *d = &p.desc;
  int group = d->heads / d->kv_heads;
  bool square = d->q_len == d->kv_len;
  d->batch = (int)min64(d->batch, 2);
  d->kv_heads = (int)min64(d->kv_heads, group > 2 ? 1 : 2);
  d->heads = d->kv_heads * group;
  d->q_len = (int)min64(d->q_len, square ? SHORT : SHORT - 43);
  d->kv_len = (int)min64(d->kv_len, SHORT);
  return p;
}

static double definition_seconds(const attend_problem *p) {
  const attend_desc *d = &p->desc;
  double pairs = (double)d->batch * d->heads * d->q_len * d->kv_len;
  return pairs * (d->dim + d->dim_v) * (p->op == ATTEND_OP_BACKWARD ? 4 : 1) * 4e-9;
}

static attend_status announce(attend_context *ctx, const attend_verify_options *o, double done,
                              const attend_problem *p) {
  char now[256];
  if (!o->progress) return ATTEND_OK;
  double seconds = definition_seconds(p);
  attend_problem_print(p, now, sizeof now);
  int stop = o->progress(done, now, o->user);
  snprintf(now, sizeof now, "computing the definition in double, about %.0f s", seconds);
  if (!stop && seconds >= 2) stop = o->progress(NAN, now, o->user);
  return stop ? fail(ctx, ATTEND_STOPPED, "verifying was stopped") : ATTEND_OK;
}

static attend_status run_in_all(attend_verifier *t, int contexts, attend_context *const *context,
                                size_t i, const attend_verify_options *o) {
  for (int c = 0; c < contexts; c++) {
    attend_verification v;
    attend_status status = attend_verifier_run(t, context[c], &v);
    bool skipped = status == ATTEND_UNSUPPORTED && o->skip;
    if (status && !skipped && c) fail(context[0], status, "%s", attend_message(context[c]));
    if (status && !skipped) return status;
    if (o->each) o->each(context[c], i, &t->problem, skipped ? NULL : &v, o->user);
  }
  return ATTEND_OK;
}

attend_status attend_verify(int contexts, attend_context *const *context, size_t count,
                            const attend_problem *problems, const attend_verify_options *options) {
  attend_verify_options o;
  ATTEND_TRY(OPTIONS_READ(context[0], attend_verify_options, options, &o));
  for (size_t i = 0; i < count; i++) {
    attend_problem p = o.small ? shrunken(&problems[i]) : problems[i];
    attend_verifier *t;
    ATTEND_TRY(announce(context[0], &o, (double)i / (double)count, &p));
    ATTEND_TRY(attend_verifier_create(context[0], &p, o.seed, &t));
    attend_status status = run_in_all(t, contexts, context, i, &o);
    attend_verifier_free(t);
    if (status) return status;
  }
  return ATTEND_OK;
}
