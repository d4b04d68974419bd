/* Runs of a design: one input with everything that was computed; all inputs, checked;
 * the least sharpness of softmax that suffices.
 *
 * An answer is the largest logit; two that share it are no answer. The least
 * sharpness is found by doubling and halving, then by bisection: the result
 * was seen to pass, and twice, four and more times as sharp are tried as
 * well, since nothing promises that a design that passes also passes sharper.
 */
#include <math.h>
#include <string.h>

#include "base/options.h"
#include "design/design.h"

/* ---- one input ------------------------------------------------------------------------- */

struct attend_design_run {
  attend_context *ctx;
  attend_design_result result;
  attend_design_inside heads[MOST_HEADS];
  int32_t tokens[MOST_PLACES], predicted[MOST_PLACES], expected[MOST_PLACES];
  float *next; /* what is left of: */
  float numbers[];
};

/* Rows of the device, without what is between them. */
static const float *keep(attend_design_run *r, const design_pass *p, const float *from, int ld,
                         int width) {
  float *to = r->next;
  attend_context *ctx = p->p.ctx;
  for (int i = 0; i < r->result.length; i++, r->next += width)
    ctx->device->read(ctx, r->next, from + (size_t)i * (size_t)ld, (size_t)width * sizeof *to);
  return to;
}

/* Weights come as [T][places]; what is kept is [T][T]. */
static attend_status keep_head(attend_design_run *r, const design_pass *p, int head) {
  const design_head *h = &p->d->heads[head];
  const activations *a = &p->at[head];
  const int n = r->result.length, ld = padded(qkv_width(h));
  const float *q = a->qkv;
  float *w = r->next;
  ATTEND_TRY(pass_attention(p, head, n, w));
  for (int i = 1; i < n; i++) memmove(w + i * n, w + i * p->d->places, (size_t)n * sizeof *w);
  r->next += n * p->d->places;
  r->heads[head] = (attend_design_inside){.q = keep(r, p, q, ld, h->dim),
                                          .k = keep(r, p, q + h->dim, ld, h->dim),
                                          .v = keep(r, p, q + 2 * h->dim, ld, h->dim_v),
                                          .attention = w,
                                          .out = keep(r, p, a->heads, padded(h->dim_v), h->dim_v)};
  return ATTEND_OK;
}

static attend_status keep_all(attend_design_run *r, const design_pass *p) {
  const attend_design *d = p->d;
  r->result.length = p->lengths[0];
  for (int i = 0; i < r->result.length; i++) {
    r->tokens[i] = p->ids[i];
    r->expected[i] = p->expected[i];
    r->predicted[i] = r->expected[i] < 0 && d->task
                          ? ATTEND_NO_TARGET
                          : pass_answer(d, logits_at(p, 0, i), r->expected[i], NULL);
  }
  r->result.x = keep(r, p, p->readout.x, p->readout.ld, d->features);
  r->result.logits = keep(r, p, p->readout.logits.at, padded(d->answers), d->answers);
  for (int i = 0; i < d->n_heads; i++) ATTEND_TRY(keep_head(r, p, i));
  return ATTEND_OK;
}

static attend_status run_input(attend_design_run *r, const attend_design *d,
                               attend_design_variant variant, const char *input) {
  reading as = {.d = (attend_design *)d, .what = d->name};
  design_input x;
  design_pass *p;
  ATTEND_TRY(design_has(d, variant.twin));
  spec_input(&as, input, &x);
  ATTEND_TRY(as.status);
  design_answer(d, &x);
  ATTEND_TRY(pass_create(d, d->weights[variant.twin], variant.sharpness, 1, false, &p));
  pass_put(p, 0, &x);
  attend_status status = pass_forward(p);
  if (!status) status = keep_all(r, p);
  pass_free(p);
  return status;
}

attend_status attend_design_run_create(const attend_design *d, attend_design_variant variant,
                                       const char *input, attend_design_run **run) {
  attend_design_run *r;
  int row = d->features + d->answers; /* numbers of a place */
  for (int i = 0; i < d->n_heads; i++)
    row += qkv_width(&d->heads[i]) + d->heads[i].dim_v + d->places;
  size_t bytes = sizeof *r + (size_t)(row * d->places) * sizeof *r->numbers;
  *run = NULL;
  ATTEND_TRY(ctx_alloc_zeroed(d->ctx, bytes, "a run", &r));
  r->ctx = d->ctx;
  r->next = r->numbers;
  r->result = (attend_design_result){
      .tokens = r->tokens, .predicted = r->predicted, .expected = r->expected};
  attend_status status = run_input(r, d, variant, input);
  if (status)
    ctx_free(d->ctx, r);
  else
    *run = r;
  return status;
}

void attend_design_run_free(attend_design_run *r) {
  if (r) ctx_free(r->ctx, r);
}

const attend_design_result *attend_design_run_result(const attend_design_run *r) {
  return &r->result;
}

const attend_design_inside *attend_design_run_head(const attend_design_run *r, int head) {
  return &r->heads[head];
}

/* ---- every input ----------------------------------------------------------------------- */

enum { BATCH = 256, LARGE = 2048, MANY = 20000 }; /* inputs: at once, of many */
static const uint64_t MOST_INPUTS = 1000000;

typedef struct {
  const attend_design *d;
  attend_design_variant variant;
  attend_check_options options;
  attend_verdict *to;
  uint64_t total, right;
  attend_least *min; /* that it is a try for: a counterexample ends it */
} checking;

static attend_status prepare(checking *c) {
  const attend_design *d = c->d;
  attend_check_options *o = &c->options;
  ATTEND_TRY(design_has(d, c->variant.twin));
  ATTEND_CHECK(d->ctx, c->variant.sharpness >= 0 && c->variant.sharpness <= 1e6,
               "sharpness %g is not from 0 (argmax) to a million", c->variant.sharpness);
  if (!o->length) o->length = d->longest;
  if (!o->most_inputs) o->most_inputs = MOST_INPUTS;
  ATTEND_CHECK(d->ctx, o->length >= d->shortest && o->length <= d->longest,
               "length %d: the spec of \"%s\" has inputs of %d to %d letters", o->length, d->name,
               d->shortest, d->longest);
  c->total = design_total(d, o->length);
  ATTEND_CHECK(d->ctx, c->total <= o->most_inputs,
               "\"%s\" has %.4g inputs up to length %d, and %llu are allowed: "
               "choose a smaller length, or allow more",
               d->name, (double)c->total, o->length, (unsigned long long)o->most_inputs);
  return ATTEND_OK;
}

static void note_counterexample(checking *c, uint64_t index, int place, int expected,
                                int predicted) {
  attend_verdict *v = c->to;
  design_input x;
  design_number(c->d, index, &x);
  design_text(c->d, &x, v->input);
  v->place = place;
  v->expected = c->d->answer[expected];
  v->predicted = predicted < 0 ? NULL : c->d->answer[predicted];
}

static void judge(checking *c, const design_pass *p, int b, uint64_t index) {
  const attend_design *d = c->d;
  attend_verdict *v = c->to;
  bool wrong = false;
  for (int i = 0; i < p->lengths[b]; i++) {
    int expected = p->expected[b * d->places + i];
    double lead;
    if (expected < 0) continue;
    int predicted = pass_answer(d, logits_at(p, b, i), expected, &lead);
    v->places++;
    c->right += predicted == expected;
    if (lead < v->margin) v->margin = lead;
    if (predicted != expected && !wrong && !v->wrong)
      note_counterexample(c, index, i, expected, predicted);
    wrong |= predicted != expected;
  }
  v->wrong += wrong;
  v->inputs++;
}

static attend_status check_all(checking *c, design_pass *p) {
  for (uint64_t from = 0; from < c->total; from += (uint64_t)p->p.count) {
    uint64_t left = c->total - from;
    int n = left < (uint64_t)p->p.count ? (int)left : p->p.count;
    for (int b = 0; b < p->p.count; b++) pass_put_number(p, b, from + (uint64_t)(b < n ? b : 0));
    ATTEND_TRY(pass_forward(p));
    for (int b = 0; b < n; b++) judge(c, p, b, from + (uint64_t)b);
    if (c->min && c->to->wrong) return ATTEND_OK;
    double done = (double)(from + (uint64_t)n) / (double)c->total;
    if (c->options.progress && c->options.progress(done, NULL, c->options.user))
      return fail(c->d->ctx, ATTEND_STOPPED, "the check was stopped");
  }
  return ATTEND_OK;
}

static attend_status run_check(checking *c) {
  design_pass *p;
  attend_verdict *v = c->to;
  *v = (attend_verdict){.margin = INFINITY};
  c->right = 0;
  ATTEND_TRY(prepare(c));
  int batch = c->total > MANY ? LARGE : c->total < BATCH ? (int)c->total : BATCH;
  ATTEND_TRY(
      pass_create(c->d, c->d->weights[c->variant.twin], c->variant.sharpness, batch, false, &p));
  attend_status status = check_all(c, p);
  pass_free(p);
  v->ok = !status && v->wrong == 0;
  v->accuracy = v->places ? (double)c->right / (double)v->places : 1;
  return status;
}

attend_status attend_design_check(const attend_design *d, attend_design_variant variant,
                                  const attend_check_options *options, attend_verdict *verdict) {
  checking c = {.d = d, .variant = variant, .to = verdict};
  ATTEND_TRY(OPTIONS_READ(d->ctx, attend_check_options, options, &c.options));
  return run_check(&c);
}

/* ---- the least sharpness ----------------------------------------------------------- */

static const double LOWEST = 0x1p-10, HIGHEST = 0x1p16;

/* From 1, up until it passes, or down while it does; then between the two. 0: it is
 * found, or there is none. */
static double next_sharpness(const attend_least *l) {
  if (!l->found) return l->fails < HIGHEST ? fmax(1, 2 * l->fails) : 0;
  if (l->fails == 0) return l->sharpness > LOWEST ? l->sharpness / 2 : 0;
  bool apart = l->sharpness - l->fails > l->sharpness / 1024;
  return apart ? (l->sharpness + l->fails) / 2 : 0;
}

/* Whether it passes is said by the verdict. */
static attend_status try_sharpness(checking *c, double sharpness) {
  c->variant.sharpness = sharpness;
  c->min->tried++;
  return run_check(c);
}

static attend_status look_above(checking *c) {
  attend_least *l = c->min;
  l->monotone = 1;
  l->highest = l->sharpness;
  for (double t = l->sharpness * 1.5; t <= l->sharpness * 64 && t < HIGHEST; t *= 2) {
    ATTEND_TRY(try_sharpness(c, t));
    if (!c->to->ok) l->monotone = 0;
    l->highest = t;
  }
  return ATTEND_OK;
}

attend_status attend_design_least(const attend_design *d, const attend_check_options *options,
                                  attend_least *min) {
  attend_verdict v;
  checking c = {.d = d, .to = &v, .min = min};
  ATTEND_TRY(OPTIONS_READ(d->ctx, attend_check_options, options, &c.options));
  *min = (attend_least){.highest = HIGHEST};
  for (double t; (t = next_sharpness(min)) > 0;) {
    ATTEND_TRY(try_sharpness(&c, t));
    *(v.ok ? &min->sharpness : &min->fails) = t;
    min->found |= v.ok;
  }
  min->any = min->found && min->fails == 0;
  return min->found ? look_above(&c) : ATTEND_OK;
}
