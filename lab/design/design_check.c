/* Is it right for every input? And how sharp must softmax be?
 *
 * Place: design/ - the verdict.
 *
 * An answer is the largest logit; two that share it are no answer. The least
 * sharpness is looked for by doubling and halving, then by bisection: what is
 * found was seen to pass, and twice, four and more times as sharp are tried as
 * well, since nothing promises that a design that passes also passes sharper.
 */
#include <math.h>

#include "design/design.h"

enum { BATCH = 256, LARGE = 2048, MANY = 20000 }; /* inputs: at once, of many */
static const uint64_t MOST_INPUTS = 1000000;

typedef struct {
  const attend_design *d;
  attend_way way;
  attend_check_options options;
  attend_verdict *to;
  uint64_t total, right;
  bool first_alone; /* a counterexample ends it */
} checking;

static attend_status prepare(checking *c) {
  const attend_design *d = c->d;
  attend_check_options *o = &c->options;
  ATTEND_TRY(design_has(d, c->way.twin));
  ATTEND_CHECK(d->ctx, c->way.sharpness >= 0 && c->way.sharpness <= 1e6,
               "sharpness %g is not from 0 (argmax) to a million",
               c->way.sharpness);
  if (!o->length) o->length = d->longest;
  if (!o->most_inputs) o->most_inputs = MOST_INPUTS;
  ATTEND_CHECK(d->ctx, o->length >= d->shortest && o->length <= d->longest,
               "length %d: the spec of \"%s\" has inputs of %d to %d letters",
               o->length, d->name, d->shortest, d->longest);
  c->total = design_total(d, o->length);
  ATTEND_CHECK(d->ctx, c->total <= o->most_inputs,
               "\"%s\" has %.4g inputs up to length %d, and %llu are allowed: "
               "choose a smaller length, or allow more",
               d->name, (double)c->total, o->length,
               (unsigned long long)o->most_inputs);
  return ATTEND_OK;
}

static void note_counterexample(checking *c, const design_pass *p, int b,
                                int place, int given) {
  const attend_design *d = c->d;
  attend_verdict *v = c->to;
  uint8_t letter[MOST_PLACES];
  const int32_t *ids = p->ids + (size_t)b * (size_t)d->places;
  int start = d->start >= 0, n = p->lengths[b] - start - (d->end >= 0);
  for (int i = 0; i < n; i++) letter[i] = (uint8_t)ids[start + i];
  design_text(d, letter, n, v->input);
  v->place = place;
  v->wanted = d->answer[p->wanted[b * d->places + place]];
  v->given = given < 0 ? NULL : d->answer[given];
}

static void judge(checking *c, const design_pass *p, int b) {
  const attend_design *d = c->d;
  attend_verdict *v = c->to;
  bool wrong = false;
  for (int i = 0; i < p->lengths[b]; i++) {
    int wanted = p->wanted[b * d->places + i];
    double lead;
    if (wanted < 0) continue;
    int given = pass_answer(d, logits_at(p, b, i), wanted, &lead);
    v->places++;
    c->right += given == wanted;
    if (lead < v->margin) v->margin = lead;
    if (given != wanted && !wrong && !v->wrong)
      note_counterexample(c, p, b, i, given);
    wrong |= given != wanted;
  }
  v->wrong += wrong;
  v->inputs++;
}

static attend_status check_all(checking *c, design_pass *p) {
  for (uint64_t from = 0; from < c->total; from += (uint64_t)p->p.count) {
    uint64_t left = c->total - from;
    int n = left < (uint64_t)p->p.count ? (int)left : p->p.count;
    for (int b = 0; b < p->p.count; b++)
      pass_put_number(p, b, from + (uint64_t)(b < n ? b : 0));
    ATTEND_TRY(pass_forward(p));
    for (int b = 0; b < n; b++) judge(c, p, b);
    if (c->first_alone && c->to->wrong) return ATTEND_OK;
    if (c->options.progress &&
        c->options.progress(from + (uint64_t)n, c->total, c->options.user))
      return fail(c->d->ctx, ATTEND_STOPPED, "the check was stopped");
  }
  return ATTEND_OK;
}

static attend_status run_check(checking *c) {
  design_pass *p;
  attend_verdict *v = c->to;
  *v = (attend_verdict){.margin = INFINITY};
  ATTEND_TRY(prepare(c));
  int batch = c->total > MANY    ? LARGE
              : c->total < BATCH ? (int)c->total
                                 : BATCH;
  ATTEND_TRY(pass_create(c->d, c->d->weights[c->way.twin], c->way.sharpness,
                         batch, false, &p));
  attend_status status = check_all(c, p);
  pass_free(p);
  v->ok = !status && v->wrong == 0;
  v->accuracy = v->places ? (double)c->right / (double)v->places : 1;
  return status;
}

attend_status attend_design_check(const attend_design *d, attend_way way,
                                  const attend_check_options *options,
                                  attend_verdict *verdict) {
  checking c = {.d = d, .way = way, .to = verdict};
  if (options) c.options = *options;
  return run_check(&c);
}

/* ---- the least sharpness ----------------------------------------------------------- */

static const double LOWEST = 0x1p-10, HIGHEST = 0x1p16;

typedef struct {
  const attend_design *d;
  const attend_check_options *options;
  attend_least *to;
} searching;

static attend_status passes(searching *s, double sharpness, bool *ok) {
  attend_verdict v;
  checking c = {.d = s->d,
                .way = {ATTEND_DESIGNED, sharpness},
                .to = &v,
                .first_alone = true};
  if (s->options) c.options = *s->options;
  s->to->tried++;
  ATTEND_TRY(run_check(&c));
  *ok = v.ok;
  if (!v.ok && sharpness > s->to->fails &&
      (!s->to->found || sharpness < s->to->sharpness))
    s->to->fails = sharpness;
  return ATTEND_OK;
}

/* From 1, up until it passes, or down while it does. */
static attend_status bracket(searching *s) {
  attend_least *l = s->to;
  bool ok;
  for (double t = 1; t <= HIGHEST && !l->found; t *= 2) {
    ATTEND_TRY(passes(s, t, &ok));
    if (ok) l->found = 1, l->sharpness = t;
  }
  while (l->found && l->fails == 0 && l->sharpness > LOWEST) {
    ATTEND_TRY(passes(s, l->sharpness / 2, &ok));
    if (ok) l->sharpness /= 2;
  }
  l->any = l->found && l->fails == 0;
  return ATTEND_OK;
}

static attend_status bisect(searching *s) {
  attend_least *l = s->to;
  while (l->sharpness - l->fails > l->sharpness / 1024) {
    bool ok;
    double middle = (l->sharpness + l->fails) / 2;
    ATTEND_TRY(passes(s, middle, &ok));
    if (ok) l->sharpness = middle;
  }
  return ATTEND_OK;
}

static attend_status look_above(searching *s) {
  attend_least *l = s->to;
  double least = l->sharpness, below = l->fails;
  l->monotone = 1;
  l->highest = least;
  for (double t = least * 1.5; t <= least * 64 && t < HIGHEST; t *= 2) {
    bool ok;
    ATTEND_TRY(passes(s, t, &ok));
    if (!ok) l->monotone = 0;
    l->highest = t;
  }
  l->fails = below;
  return ATTEND_OK;
}

attend_status attend_design_least(const attend_design *d,
                                  const attend_check_options *options,
                                  attend_least *least) {
  searching s = {d, options, least};
  *least = (attend_least){.highest = HIGHEST};
  ATTEND_TRY(bracket(&s));
  if (!least->found) return ATTEND_OK;
  if (!least->any) ATTEND_TRY(bisect(&s));
  return look_above(&s);
}
