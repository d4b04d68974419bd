/* The picture of a head over the steps of a training run.
 *
 * Each step is run and dropped before the next: the cells of its maps stay.
 */
#include <stdlib.h>
#include <string.h>

#include "attend/train.h"
#include "view/painting.h"

enum { FRAMES = 12, POINTS = 400 };

typedef struct {
  painting *p;
  const attend_training_run *of;
  const int *steps; /* [count] of the run */
  int count;
  int places[FRAMES], frames;
  int own[1];
  const int *head; /* [heads] */
  int heads;
  int height, width;
  float *cells; /* [heads][frames][height][width] */
  uint8_t *mask;
  double step[FRAMES], loss[FRAMES];
} shooting;

static bool keep_grid(shooting *s, int frame, int head, const grid *g) {
  size_t one = (size_t)g->height * (size_t)g->width;
  if (!s->cells) {
    s->height = g->height;
    s->width = g->width;
    s->cells = need((size_t)(s->heads * s->frames) * one, sizeof *s->cells);
    s->mask = need(one, 1);
    memcpy(s->mask, g->mask, one);
  }
  if (g->height != s->height || g->width != s->width)
    return paint_fail(s->p, "the text has other tokens at another step");
  memcpy(s->cells + (size_t)(head * s->frames + frame) * one, g->cells, one * sizeof *s->cells);
  return true;
}

static bool shoot(shooting *s, int frame) {
  painting *p = s->p;
  const attend_view_run *run;
  view_case c = p->s->c;
  c.step = s->steps[s->places[frame]];
  s->step[frame] = c.step;
  s->loss[frame] = attend_training_run_loss_at(s->of, c.step);
  bool ok = run_case(p->v, &c, &run, p->error);
  for (int i = 0; i < s->heads && ok; i++) {
    grid g = {0};
    p->at.head = s->head[i];
    ok = get_grid(p, run, NULL, &g) && keep_grid(s, frame, i, &g);
    grid_free(&g);
  }
  return ok;
}

/* Stretches of a long curve become their means. */
static picture_point *points_of(attend_log_curve curve, int *n) {
  size_t count = curve.count < POINTS ? curve.count : POINTS;
  picture_point *points = need(count + 1, sizeof *points);
  for (size_t i = 0; i < count; i++) {
    size_t from = i * curve.count / count, to = (i + 1) * curve.count / count;
    for (size_t k = from; k < to; k++) {
      points[i].step += curve.at[k].step / (double)(to - from);
      points[i].loss += curve.at[k].loss / (double)(to - from);
    }
  }
  *n = (int)count;
  return points;
}

static bool develop(shooting *s) {
  painting *p = s->p;
  picture_film_data d = {.about = p->about,
                         .rows = p->rows,
                         .keys = p->keys,
                         .heads = s->heads,
                         .head = s->head,
                         .frames = s->frames,
                         .step = s->step,
                         .loss = s->loss,
                         .height = s->height,
                         .width = s->width,
                         .cells = s->cells,
                         .mask = s->mask,
                         .is_signed = p->at.s.is_signed,
                         .left_out = s->frames < s->count};
  picture_point *curve = points_of(attend_training_run_loss(s->of), &d.losses);
  picture_point *valid = points_of(attend_training_run_valid(s->of), &d.valids);
  d.curve = curve;
  d.valid = valid;
  d.about.model = attend_viewer_model(p->v->session, 0)->name;
  if (s->heads > 1) d.about.head = -1;
  bool ok = paint_fail(p, picture_film(&d, &p->look, p->out));
  free(curve);
  free(valid);
  return ok;
}

bool paint_film(painting *p) {
  shooting s = {.p = p, .of = viewer_training(p->v, p->s->c.model)};
  s.steps = attend_training_run_steps(s.of, &s.count);
  s.frames = training_some(s.of, FRAMES, s.places);
  s.own[0] = p->at.head;
  s.head = p->s->n_heads ? p->s->heads : s.own;
  s.heads = p->s->n_heads ? p->s->n_heads : 1;
  bool ok = true;
  for (int i = 0; i < s.frames && ok; i++) ok = shoot(&s, i);
  ok = ok && develop(&s);
  free(s.cells);
  free(s.mask);
  return ok;
}
