/* Pictures of two runs, of what was written, and of tokens as vectors. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "view/painting.h"

/* What tells one of the two from the other. */
static void name_case(const painting *p, bool other, char name[200]) {
  const view_case *a = &p->s->c, *b = &p->s->other, *c = other ? b : a;
  const char *form = *p->s->form ? p->s->form : VIEW_OTHER_FORM;
  const attend_view_run *run = other && p->other ? p->other : p->run;
  const attend_view_model *model = attend_viewer_model(p->v->session, run->c.model);
  if (!p->other)
    snprintf(name, 200, "%s", other ? form : a->attention);
  else if (strcmp(a->text, b->text))
    snprintf(name, 200, "%.120s", c->text);
  else if (strcmp(a->model, b->model))
    snprintf(name, 200, "%s", model->name);
  else if (a->step != b->step)
    snprintf(name, 200, "step %d", c->step);
  else if (a->untrained != b->untrained)
    snprintf(name, 200, "%s", c->untrained ? "untrained" : "trained");
  else
    snprintf(name, 200, "%s", c->attention);
}

static bool paint_pair(painting *p, const attend_view_comparison *c, const grid *a, const grid *b) {
  char name[200], other[200];
  int n = c->layers * c->heads;
  const attend_difference *own = &c->difference[p->at.layer * c->heads + p->at.head];
  float *distances = need((size_t)n, sizeof *distances);
  for (int i = 0; i < n; i++) distances[i] = (float)c->difference[i].distance;
  name_case(p, false, name);
  name_case(p, true, other);
  picture_compare_data d = {.about = p->about,
                            .name = name,
                            .other_name = other,
                            .rows = p->rows,
                            .keys = p->keys,
                            .height = a->height,
                            .width = a->width,
                            .cells = a->cells,
                            .other = b->cells,
                            .mask = a->mask,
                            .distance = own->distance,
                            .output_error = own->output,
                            .entropy = own->entropy,
                            .other_entropy = own->other_entropy,
                            .layers = c->layers,
                            .heads = c->heads,
                            .distances = distances};
  bool ok = paint_fail(p, picture_compare(&d, &p->look, p->out));
  free(distances);
  return ok;
}

bool paint_compare(painting *p) {
  const char *form = p->other ? NULL : *p->s->form ? p->s->form : VIEW_OTHER_FORM;
  grid a = {0}, b = {0};
  attend_view_head h = subject_head(&p->at, form);
  attend_view_comparison c;
  if (!paint_status(p, attend_viewer_compare(p->v->session, &h, p->other, &c))) return false;
  if (c.why) {
    snprintf(p->error, sizeof p->error, "there is no difference to draw: %s", c.why);
    return false;
  }
  bool ok =
      get_grid(p, NULL, NULL, &a) && get_grid(p, p->other, form, &b) && paint_pair(p, &c, &a, &b);
  grid_free(&a);
  grid_free(&b);
  attend_viewer_release(p->v->session, c.memory);
  return ok;
}

static void read_step(painting *p, const attend_view_step *x, picture_step *s) {
  int model = p->run->c.model;
  picture_candidate *c = need((size_t)x->n + 1, sizeof *c);
  for (int i = 0; i < x->n; i++)
    c[i] = (picture_candidate){id_label(p, model, x->candidate[i].id), x->candidate[i].p};
  *s = (picture_step){.text = id_label(p, model, x->id),
                      .p = x->p,
                      .candidates = c,
                      .candidate_count = x->n,
                      .cache_bytes = (double)x->cache_bytes};
}

bool paint_generate(painting *p) {
  int n = p->run->n_steps;
  picture_step *steps = need((size_t)n + 1, sizeof *steps);
  for (int i = 0; i < n; i++) read_step(p, &p->run->steps[i], &steps[i]);
  picture_generate_data d = {p->about, p->s->c.text, steps, n};
  bool ok = paint_fail(p, picture_generate(&d, &p->look, p->out));
  for (int i = 0; i < n; i++) free((void *)steps[i].candidates);
  free(steps);
  return ok;
}

static bool draw_embeddings(painting *p, int n, const float *cosine,
                            const attend_view_positions *x) {
  picture_embeddings_data d = {
      p->about, {p->rows.text, n}, {p->rows.text, n}, n, n, cosine, x->count, x->width,
      x->table, x->shift,          x->shift_error};
  return paint_fail(p, picture_embeddings(&d, &p->look, p->out));
}

bool paint_embeddings(painting *p) {
  attend_viewer *session = p->v->session;
  int n = p->at.s.rows < PAINT_CELLS ? p->at.s.rows : PAINT_CELLS;
  attend_role side = p->at.role == ATTEND_CROSS ? ATTEND_DECODER_SELF : p->at.role;
  attend_view_range all = {0, n, 0, n};
  attend_view_embeddings e;
  attend_view_positions x = {0};
  bool ok =
      paint_status(p, attend_viewer_embeddings(session, p->run, side, p->at.layer, &all, &e)) &&
      paint_status(p, attend_viewer_positions(session, -1, -1, 64, 64, &x)) &&
      draw_embeddings(p, n, e.cosine, &x);
  attend_viewer_release(session, e.memory);
  attend_viewer_release(session, x.memory);
  return ok;
}
