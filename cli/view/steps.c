/* The steps of a course of training: their weights, and what is said of them.
 *
 * Behind view_answer.h: the request course, and the weights that a case with a step
 * asks for.
 *
 * A few steps are open at once. The one that was not asked for longest makes
 * room, and the runs that were recorded with it go too: whoever wants one again
 * is told so, and runs it again.
 */
#include <stdlib.h>
#include <string.h>

#include "train/course.h"
#include "json_members.h"
#include "view/core.h"

enum { POINTS = 300 }; /* of a curve that is sent */

/* ---- weights ----------------------------------------------------------------------- */

/* Where the step is, or may be: in place of what was not used longest. Of long
 * requests there is one, so some place is not held. */
static view_weights *place_for(view_model *m, int step) {
  view_weights *place = NULL;
  for (int i = 0; i < VIEW_STEPS; i++) {
    view_weights *w = &m->steps[i];
    if (w->model && w->step == step) return w;
    if (!w->held && (!place || w->used < place->used)) place = w;
  }
  return place;
}

/* The vocabulary, the tokens and all that is kept are those of the first step
 * that was opened. */
static bool is_alike(const attend_config *a, const attend_config *b) {
  const attend_stack *x = a->parts & ATTEND_ENCODER ? &a->encoder : &a->decoder;
  const attend_stack *y = b->parts & ATTEND_ENCODER ? &b->encoder : &b->decoder;
  return a->parts == b->parts && a->vocab == b->vocab &&
         a->positions == b->positions && x->layers == y->layers &&
         x->heads == y->heads && x->kv_heads == y->kv_heads &&
         x->dim == y->dim && x->dim_v == y->dim_v &&
         a->decoder.layers == b->decoder.layers;
}

static bool load_step(asking *a, view_model *m, int step, view_weights *w) {
  char *path = course_folder(m->course, step);
  if (!path)
    return ask_fail(a, 400,
                    "the run has no step %d, or not any more: choose another",
                    step);
  w->step = step;
  bool ok = weights_load(a, path, false, w);
  free(path);
  if (!ok || is_alike(&m->config, attend_model_config(w->model))) return ok;
  weights_drop(a->v, w);
  return ask_fail(a, 400, "step %d is another kind of model than the others",
                  step);
}

bool steps_take(asking *a, view_model *m, int step, view_weights **w) {
  *w = place_for(m, step);
  bool there = (*w)->model && (*w)->step == step;
  if (!there) weights_drop(a->v, *w);
  (*w)->used = ++a->v->clock;
  return there || load_step(a, m, step, *w);
}

/* ---- what is said of them -------------------------------------------------------------- */

course *steps_course(const viewer *v, const char *model) {
  for (int i = 0; i < v->n_models; i++)
    if (!strcmp(v->models[i].id, model)) return v->models[i].course;
  return NULL;
}

static void put_stretch(attend_json_writer *w, const course_point *p,
                        size_t n) {
  double sum = 0, low = p[0].loss, high = p[0].loss;
  for (size_t i = 0; i < n; i++) {
    sum += p[i].loss;
    if (p[i].loss < low) low = p[i].loss;
    if (p[i].loss > high) high = p[i].loss;
  }
  attend_json_open(w, '[');
  attend_json_put_number(w,
                         n == 1 ? p[0].step : (p[0].step + p[n - 1].step) / 2);
  attend_json_put_number(w, sum / (double)n);
  attend_json_put_number(w, low);
  attend_json_put_number(w, high);
  attend_json_close(w, ']');
}

/* Stretches of a long curve by their mean, least and most. */
static void put_curve(attend_json_writer *w, const char *name,
                      const course_curve *curve) {
  size_t n = curve->count < POINTS ? curve->count : POINTS;
  attend_json_member(w, name);
  attend_json_open(w, '[');
  for (size_t i = 0; i < n; i++) {
    size_t from = i * curve->count / n, to = (i + 1) * curve->count / n;
    put_stretch(w, curve->at + from, to - from);
  }
  attend_json_close(w, ']');
}

static void put_steps(attend_json_writer *w, const viewer *v, const course *c) {
  attend_json_member(w, "steps");
  attend_json_open(w, '[');
  for (int i = 0; i < (v->n_kept ? v->n_kept : c->count); i++)
    attend_json_put_integer(w, v->n_kept ? v->kept[i] : c->steps[i]);
  attend_json_close(w, ']');
  json_number(w, "left_out", v->n_kept ? c->count - v->n_kept : 0);
}

static void put_step(attend_json_writer *w, const char *name, int step) {
  attend_json_member(w, name);
  if (step < 0)
    attend_json_put_null(w);
  else
    attend_json_put_integer(w, step);
}

void steps_write(attend_json_writer *w, const viewer *v) {
  const view_model *m = NULL;
  for (int i = 0; i < v->n_models && !m; i++)
    if (v->models[i].course) m = &v->models[i];
  if (!m) {
    attend_json_put_null(w);
    return;
  }
  attend_json_open(w, '{');
  json_text(w, "model", m->id);
  put_steps(w, v, m->course);
  put_step(w, "best", m->course->best);
  put_step(w, "last", m->course->last);
  put_curve(w, "loss", &m->course->loss);
  put_curve(w, "valid", &m->course->valid);
  attend_json_close(w, '}');
}

bool steps_look(asking *a) {
  for (int i = 0; i < a->v->n_models; i++) {
    course *of = a->v->models[i].course;
    if (of && !course_look(a->v->ctx, of))
      return ask_fail(a, 404, "\"%s\" has no steps any more", of->path);
  }
  return true;
}

bool answer_course(asking *a) {
  if (!steps_look(a)) return false;
  attend_json_writer w = attend_json_writer_text(a->v->ctx);
  steps_write(&w, a->v);
  return reply_json(a, &w);
}
