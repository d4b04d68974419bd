/* attend view --json: the numbers of a view, as the page gets them.
 *
 * The same answers in one JSON object: the state, the runs, and the answers that the
 * view is drawn from, binary ones as nested lists.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "view/view.h"
#include "view/fetch.h"

enum { CELLS = 256 }; /* a side of what is written whole */

typedef struct {
  viewer *v;
  const view_options *o;
  attend_json_writer w;
  fetched run, other;
  subject s;
  char error[640];
} writing;

/* ---- values ------------------------------------------------------------------------- */

/* Floats are written as what they are: the shortest decimals that read back. */
static void put_float(attend_json_writer *w, float x) {
  char text[32];
  for (int digits = 6; digits <= 9; digits++) {
    snprintf(text, sizeof text, "%.*g", digits, (double)x);
    if (strtof(text, NULL) == x) break;
  }
  attend_json_put_number(w, strtod(text, NULL));
}

static const float *put_nested(attend_json_writer *w, const float *x,
                               const int *shape, int rank) {
  attend_json_open(w, '[');
  for (int i = 0; i < shape[0]; i++) {
    if (rank > 1)
      x = put_nested(w, x, shape + 1, rank - 1);
    else
      put_float(w, *x++);
  }
  attend_json_close(w, ']');
  return x;
}

static void put_parts(attend_json_writer *w, const fetched *f) {
  const attend_json *parts = attend_json_get(f->root, "parts");
  attend_json_open(w, '{');
  for (size_t i = 0; i < attend_json_count(f->root); i++) {
    const attend_json *x = attend_json_at(f->root, i);
    if (x == parts) continue;
    attend_json_member(w, attend_json_name(x, NULL));
    json_tree(w, x);
  }
  for (size_t i = 0; i < attend_json_count(parts); i++) {
    const attend_json *part = attend_json_at(parts, i);
    const char *name = attend_json_string(attend_json_get(part, "name"), NULL);
    int shape[4], rank = (int)attend_json_count(attend_json_get(part, "shape"));
    float *x = fetched_part(f, name, shape);
    attend_json_member(w, name);
    put_nested(w, x, shape, rank);
    free(x);
  }
  attend_json_close(w, '}');
}

/* ---- answers -------------------------------------------------------------------------- */

/* Asks, and writes what comes as a member. */
static bool put_answer(writing *p, const char *member, const char *name,
                       attend_json_writer *question) {
  fetched f;
  bool ok = fetch(p->v, name, question, &f);
  if (ok) {
    attend_json_member(&p->w, member);
    if (f.data)
      put_parts(&p->w, &f);
    else
      json_tree(&p->w, f.root);
  } else {
    snprintf(p->error, sizeof p->error, "%s", f.error);
  }
  fetched_free(&f);
  return ok;
}

static bool put_about(writing *p, const char *name, bool place) {
  attend_json_writer q = question_about(p->v, &p->s, place);
  return put_answer(p, name, name, &q);
}

/* A head whole, or in as many cells as make sense. */
static bool put_head(writing *p, const char *member, int head,
                     const char *form) {
  subject s = p->s;
  s.head = head;
  attend_json_writer q = question_about(p->v, &s, true);
  if (form && *form) json_text(&q, "attention", form);
  bool whole = s.rows <= CELLS && s.keys <= CELLS;
  int level = 0;
  while (s.rows >> level > CELLS || s.keys >> level > CELLS) level++;
  if (!whole) json_number(&q, "level", level);
  if (!whole) json_text(&q, "pool", p->o->state.pool);
  return put_answer(p, member, whole ? "block" : "tile", &q);
}

static bool put_heads(writing *p) {
  const view_state *s = &p->o->state;
  if (!s->n_heads) return put_head(p, "block", p->s.head, NULL);
  bool ok = true;
  attend_json_member(&p->w, "heads");
  attend_json_open(&p->w, '{');
  for (int i = 0; i < s->n_heads && ok; i++) {
    char name[16];
    snprintf(name, sizeof name, "%d", s->heads[i]);
    ok = put_head(p, name, s->heads[i], NULL);
  }
  attend_json_close(&p->w, '}');
  return ok;
}

static bool put_neuron(writing *p) {
  int token = p->o->state.token < 0 ? p->s.rows - 1 : p->o->state.token;
  attend_json_writer q = question_about(p->v, &p->s, true);
  json_number(&q, "row", token);
  json_number(&q, "rows", 1);
  return put_answer(p, "vectors", "vectors", &q);
}

static bool put_flow(writing *p) {
  subject followed = subject_followed(&p->s);
  attend_json_writer q = question_about(p->v, &followed, false);
  if (p->o->state.token >= 0) json_number(&q, "token", p->o->state.token);
  json_text(&q, "way", p->o->state.way);
  return put_answer(p, "flow", "flow", &q);
}

static bool put_compare(writing *p) {
  const char *form = p->o->state.form;
  attend_json_writer q = question_about(p->v, &p->s, false);
  if (p->other.root)
    json_text(&q, "other",
              attend_json_string(attend_json_get(p->other.root, "run"), NULL));
  else
    json_text(&q, "attention", *form ? form : VIEW_OTHER_FORM);
  return put_answer(p, "compare", "compare", &q) &&
         put_head(p, "block", p->s.head, NULL);
}

static bool put_embeddings(writing *p) {
  attend_json_writer q = question_open(p->v);
  json_text(&q, "run", p->s.id);
  json_text(&q, "side",
            attend_json_string(attend_json_get(p->s.role, "row_side"), NULL));
  json_number(&q, "layer", p->s.layer);
  if (p->s.rows > CELLS) {
    json_number(&q, "rows", CELLS);
    json_number(&q, "keys", CELLS);
  }
  if (!put_answer(p, "embeddings", "embeddings", &q)) return false;
  q = question_open(p->v);
  json_text(&q, "model", p->o->state.c.model);
  json_number(&q, "step", p->o->state.c.step);
  return put_answer(p, "positions", "positions", &q);
}

static bool put_view(writing *p) {
  const char *view = p->o->state.view;
  if (!strcmp(view, "head") || !strcmp(view, "matrix")) return put_heads(p);
  if (!strcmp(view, "neuron")) return put_neuron(p);
  if (!strcmp(view, "flow")) return put_flow(p);
  if (!strcmp(view, "compare")) return put_compare(p);
  if (!strcmp(view, "embeddings")) return put_embeddings(p);
  if (!strcmp(view, "generate")) return true; /* the run has the steps */
  return put_about(p, "patterns", false) && put_about(p, "thumbs", false);
}

static bool put_all(writing *p) {
  attend_json_open(&p->w, '{');
  attend_json_member(&p->w, "state");
  state_write(&p->w, &p->o->state);
  attend_json_member(&p->w, "run");
  json_tree(&p->w, p->run.root);
  if (steps_course(p->v, p->o->state.c.model)) {
    attend_json_member(&p->w, "course");
    steps_write(&p->w, p->v);
  }
  if (p->other.root) {
    attend_json_member(&p->w, "other");
    json_tree(&p->w, p->other.root);
  }
  attend_json_member(&p->w, "answers");
  attend_json_open(&p->w, '{');
  bool ok = put_view(p);
  attend_json_close(&p->w, '}');
  attend_json_close(&p->w, '}');
  return ok;
}

/* ---- running ------------------------------------------------------------------------------ */

static bool run_cases(writing *p) {
  const view_state *s = &p->o->state;
  bool ok = strcmp(s->view, "generate")
                ? fetch_run(p->v, &s->c, &p->run)
                : fetch_generated(p->v, &s->c, p->o->new_tokens, &p->run);
  if (!ok) snprintf(p->error, sizeof p->error, "%s", p->run.error);
  if (ok && s->has_other) {
    ok = fetch_run(p->v, &s->other, &p->other);
    if (!ok) snprintf(p->error, sizeof p->error, "%s", p->other.error);
  }
  return ok && subject_read(&p->run, s, &p->s, p->error);
}

int view_print_json(viewer *v, const view_options *o, const char *path) {
  writing p = {.v = v, .o = o, .w = attend_json_writer_text(v->ctx)};
  int code = EXIT_OK;
  attend_json_indent(&p.w, false);
  bool ok = run_cases(&p) && put_all(&p);
  if (!ok) {
    complain("%s", p.error);
    code = EXIT_FAILED;
  } else if (attend_json_finish(&p.w)) {
    code = complain_status(v->ctx, p.w.status);
  } else {
    code = view_write_bytes(v->ctx, path ? path : "-", p.w.text, p.w.length);
  }
  fetched_free(&p.run);
  fetched_free(&p.other);
  attend_json_writer_free(&p.w);
  return code;
}
