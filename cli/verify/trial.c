/* A problem with its right answer: engines are tried on it.
 *
 * Verify, and bench before it times.
 *
 * A hard argmax needs care to be judged: half of its keys are made equal to
 * their neighbours, so that ties happen; and rows whose best keys differ by
 * less than float can tell are left out, since either choice is right. So are
 * rows whose signed similarities cancel more than most: there the naive run errs
 * so much that every other row would pass.
 */
#include "verify/trial.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "progress.h"

static bool is_hard(const attend_desc *d) {
  return d->form.kind == ATTEND_ARGMAX && d->form.temperature == 0;
}

static void repeat_keys(trial *t) {
  const attend_desc *d = &t->tensors.desc;
  attend_view k = view_strided(t->tensors.k, d->kv_heads, d->kv_len, d->dim);
  size_t bytes = (size_t)d->dim * attend_dtype_size(d->dtype);
  for (int b = 0; b < d->batch; b++)
    for (int g = 0; g < d->kv_heads; g++)
      for (int j = 1; j < d->kv_len; j += 2)
        memcpy(view_from(k, d->dtype, b, g, j).data,
               view_from(k, d->dtype, b, g, j - 1).data, bytes);
}

static inputs inputs_of(const trial *t) {
  return (inputs){.desc = &t->tensors.desc,
                  .q = t->tensors.q,
                  .k = t->tensors.k,
                  .v = t->tensors.v,
                  .d_o = t->tensors.d_o};
}

static void silence_undecided(trial *t) {
  const attend_desc *d = &t->tensors.desc;
  if (!t->tensors.d_o.data) return;
  attend_view view = view_strided(t->tensors.d_o, d->heads, d->q_len, d->dim_v);
  const unsigned char *mark = t->undecided;
  for (int b = 0; b < d->batch; b++)
    for (int h = 0; h < d->heads; h++)
      for (int i = 0; i < d->q_len; i++)
        if (*mark++)
          memset(view_from(view, d->dtype, b, h, i).data, 0,
                 (size_t)d->dim_v * attend_dtype_size(d->dtype));
}

static void forget_undecided(const trial *t, outputs *out) {
  size_t width = (size_t)t->tensors.desc.dim_v;
  for (size_t row = 0; row < out->count[OUT_LSE]; row++)
    if (t->undecided[row])
      memset(out->at[OUT_O] + row * width, 0, width * sizeof(double));
}

/* The definition has no way to say how far it is: say what it is at. */
static void announce(const attend_desc *d, bool backward) {
  double pairs = (double)d->batch * d->heads * d->q_len * d->kv_len;
  double seconds = pairs * (d->dim + d->dim_v) * (backward ? 4 : 1) * 4e-9;
  char text[96];
  if (seconds < 2) return;
  snprintf(text, sizeof text,
           "computing the definition in double, about %.0f s", seconds);
  progress_note(text);
}

static void run_yardstick(trial *t, bool cuts) {
  inputs in = inputs_of(t);
  in.cut_weights = t->naive_cuts = cuts;
  in.undecided = t->undecided;
  run_naive(&in, &t->naive, t->magnitude);
  forget_undecided(t, &t->naive);
}

attend_status trial_open(attend_context *ctx, const attend_problem *problem,
                         uint64_t seed, trial *t) {
  *t = (trial){.ctx = ctx, .problem = *problem};
  attend_status status =
      attend_problem_tensors(ctx, problem, seed, &t->tensors);
  if (status) return status;
  const attend_desc *d = &t->tensors.desc;
  bool backward = problem->op == ATTEND_OP_BACKWARD;
  if (is_hard(d)) repeat_keys(t);
  t->truth = outputs_for(d, backward);
  t->naive = outputs_for(d, backward);
  t->undecided = need(t->truth.count[OUT_LSE], 1);
  announce(d, backward);
  inputs in = inputs_of(t);
  t->n_undecided = mark_undecided(&in, t->undecided);
  if (t->n_undecided) silence_undecided(t);
  status = run_definition(ctx, &in, &t->truth);
  if (status) return status;
  forget_undecided(t, &t->truth);
  run_yardstick(t, cuts_weights(ctx, d));
  return ATTEND_OK;
}

attend_status trial_run(attend_context *ctx, trial *t, verdict *v,
                        char engine[64]) {
  engine_run run;
  bool cuts = cuts_weights(ctx, &t->tensors.desc);
  if (cuts != t->naive_cuts) run_yardstick(t, cuts);
  attend_status status = engine_open(ctx, &t->problem, &t->tensors, &run);
  if (!status) {
    snprintf(engine, 64, "%s", attend_plan_engine(run.plan));
    status = engine_once(&run);
  }
  if (!status) {
    outputs out = engine_read(&run);
    forget_undecided(t, &out);
    *v = judge(&t->tensors.desc, &t->truth, &t->naive, &out, t->magnitude);
    v->undecided = t->n_undecided;
    outputs_free(&out);
  }
  engine_close(&run);
  return status;
}

void trial_close(trial *t) {
  attend_tensors_free(t->ctx, &t->tensors);
  outputs_free(&t->truth);
  outputs_free(&t->naive);
  free(t->undecided);
  *t = (trial){0};
}
