/* One lesson: checked, read forward, and back.
 *
 * Place: train/ - see learner.h.
 */
#include <string.h>

#include "train/learner.h"

static attend_status check_side(const attend_learner *l, const char *what,
                                int length, const int32_t *ids,
                                const int32_t *lengths) {
  const attend_config *c = &l->config;
  ATTEND_CHECK(l->ctx, length >= 1 && ids, "a lesson needs %s", what);
  ATTEND_CHECK(
      l->ctx, c->position != ATTEND_POSITIONS_LEARNED || length <= c->positions,
      "%d tokens are more than the %d positions that the model has", length,
      c->positions);
  for (int i = 0; i < l->batch * length; i++)
    ATTEND_CHECK(l->ctx, ids[i] >= 0 && ids[i] < c->vocab,
                 "token %d of a lesson is %d: the model knows 0 to %d", i,
                 (int)ids[i], c->vocab - 1);
  for (int b = 0; lengths && b < l->batch; b++)
    ATTEND_CHECK(l->ctx, lengths[b] >= 0 && lengths[b] <= length,
                 "text %d of a lesson has %d tokens of %d", b, (int)lengths[b],
                 length);
  return ATTEND_OK;
}

static attend_status check_targets(const attend_learner *l,
                                   const attend_lesson *x, int length) {
  ATTEND_CHECK(l->ctx, x->targets, "a lesson without targets teaches nothing");
  for (int i = 0; i < x->batch * length; i++)
    ATTEND_CHECK(l->ctx, x->targets[i] < l->config.vocab,
                 "target %d of a lesson is %d: the model knows 0 to %d", i,
                 (int)x->targets[i], l->config.vocab - 1);
  ATTEND_CHECK(l->ctx, x->smoothing >= 0 && x->smoothing < 1,
               "a smoothing of %g: choose a share from 0 to below 1",
               (double)x->smoothing);
  return ATTEND_OK;
}

static void set_side(const attend_learner *l, learn_stack *s, int length,
                     const int32_t *ids, const int32_t *lengths,
                     const int32_t *types) {
  s->length = length;
  s->rows = l->batch * length;
  s->ids = ids;
  s->lengths = lengths;
  s->given_types = types;
}

static attend_status open_lesson(attend_learner *l, const attend_lesson *x) {
  bool both = l->config.parts == ATTEND_BOTH;
  ATTEND_CHECK(l->ctx, x->batch >= 1, "a lesson of %d texts: give at least 1",
               x->batch);
  l->batch = x->batch;
  l->lesson = x;
  ATTEND_TRY(check_side(l, "a text", x->length, x->ids, x->lengths));
  if (both)
    ATTEND_TRY(check_side(l, "what the decoder is given", x->said, x->said_ids,
                          x->said_lengths));
  ATTEND_TRY(check_targets(l, x, both ? x->said : x->length));
  if (l->config.parts & ATTEND_ENCODER)
    set_side(l, &l->encoder, x->length, x->ids, x->lengths, x->types);
  if (both)
    set_side(l, &l->decoder, x->said, x->said_ids, x->said_lengths, NULL);
  else if (l->config.parts & ATTEND_DECODER)
    set_side(l, &l->decoder, x->length, x->ids, x->lengths, NULL);
  return lesson_room(l);
}

/* After the room is there: positions, and how many tokens are real. */
static void place_side(const attend_learner *l, learn_stack *s) {
  for (int b = 0; s->layers && b < l->batch; b++) {
    s->real[b] = s->lengths ? s->lengths[b] : s->length;
    for (int i = 0; i < s->length; i++) s->position[b * s->length + i] = i;
  }
}

static void clear(learn_stack *s) {
  memset(
      s->d_hidden, 0,
      (size_t)s->rows * (size_t)padded(s->shape->width) * sizeof *s->d_hidden);
}

attend_status attend_learner_study(attend_learner *l,
                                   const attend_lesson *lesson,
                                   attend_outcome *outcome) {
  *outcome = (attend_outcome){0};
  ATTEND_TRY(open_lesson(l, lesson));
  learn_stack *e = &l->encoder, *d = &l->decoder;
  place_side(l, e);
  place_side(l, d);
  if (e->layers) ATTEND_TRY(stack_learn(l, e));
  if (d->layers) ATTEND_TRY(stack_learn(l, d));
  copy_open(l);
  head_study(l, d->layers ? d : e, outcome);
  if (lesson->quiet) return ATTEND_OK;
  if (d->layers && e->layers) clear(e);
  copy_close(l);
  if (d->layers) ATTEND_TRY(stack_unlearn(l, d, d->d_hidden));
  if (e->layers) ATTEND_TRY(stack_unlearn(l, e, e->d_hidden));
  return ATTEND_OK;
}
