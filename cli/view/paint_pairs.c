/* Pictures of two runs, of what was written, and of tokens as vectors. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "view/painting.h"

static double head_number(const painting *p, const fetched *f,
                          const char *name) {
  const attend_json *layer =
      attend_json_at(attend_json_get(f->root, name), (size_t)p->at.layer);
  return attend_json_number(attend_json_at(layer, (size_t)p->at.head), NAN);
}

/* What tells one of the two from the other. */
static void name_case(const painting *p, bool other, char name[200]) {
  const view_case *a = &p->s->c, *b = &p->s->other, *c = other ? b : a;
  const char *form = *p->s->form ? p->s->form : VIEW_OTHER_FORM;
  if (!p->other.root)
    snprintf(name, 200, "%s", other ? form : a->attention);
  else if (strcmp(a->text, b->text))
    snprintf(name, 200, "%.120s", c->text);
  else if (strcmp(a->model, b->model))
    snprintf(
        name, 200, "%s",
        text_at(attend_json_get(other ? p->other.root : p->run.root, "model"),
                "name"));
  else if (a->step != b->step)
    snprintf(name, 200, "step %d", c->step);
  else if (a->untrained != b->untrained)
    snprintf(name, 200, "%s", c->untrained ? "untrained" : "trained");
  else
    snprintf(name, 200, "%s", c->attention);
}

static float *distances_of(const painting *p, const fetched *f) {
  const attend_json *list = attend_json_get(f->root, "distance");
  if (attend_json_kind_of(list) != ATTEND_JSON_ARRAY) return NULL;
  float *x = need((size_t)(p->at.layers * p->at.heads), sizeof *x);
  for (int i = 0; i < p->at.layers * p->at.heads; i++)
    x[i] = (float)attend_json_number(
        attend_json_at(attend_json_at(list, (size_t)(i / p->at.heads)),
                       (size_t)(i % p->at.heads)),
        NAN);
  return x;
}

static bool paint_pair(painting *p, const fetched *f, const grid *a,
                       const grid *b) {
  char name[200], other[200];
  name_case(p, false, name);
  name_case(p, true, other);
  float *distances = distances_of(p, f);
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
                            .distance = head_number(p, f, "distance"),
                            .output_error = head_number(p, f, "output_error"),
                            .entropy = head_number(p, f, "entropy"),
                            .other_entropy = head_number(p, f, "other_entropy"),
                            .layers = p->at.layers,
                            .heads = p->at.heads,
                            .distances = distances};
  bool ok = paint_fail(p, picture_compare(&d, &p->look, p->out));
  free(distances);
  return ok;
}

bool paint_compare(painting *p) {
  const char *form = p->other.root ? NULL
                     : *p->s->form ? p->s->form
                                   : VIEW_OTHER_FORM;
  const char *than = p->other.root ? text_at(p->other.root, "run") : NULL;
  grid a = {0}, b = {0};
  fetched f = {0};
  attend_json_writer q = question_about(p->v, &p->at, false);
  if (than)
    json_text(&q, "other", than);
  else
    json_text(&q, "attention", form);
  bool ok = paint_ask(p, "compare", &q, &f);
  const char *why = ok ? text_at(f.root, "why") : "";
  if (ok && *why) {
    snprintf(p->error, sizeof p->error, "there is no difference to draw: %s",
             why);
    ok = false;
  }
  ok = ok && get_grid(p, NULL, NULL, &a) && get_grid(p, than, form, &b) &&
       paint_pair(p, &f, &a, &b);
  grid_free(&a);
  grid_free(&b);
  fetched_free(&f);
  return ok;
}

static void read_step(painting *p, const attend_json *x, picture_step *s) {
  const attend_json *list = attend_json_get(x, "candidates");
  s->candidate_count = (int)attend_json_count(list);
  picture_candidate *c = need((size_t)s->candidate_count + 1, sizeof *c);
  for (int i = 0; i < s->candidate_count; i++) {
    const attend_json *one = attend_json_at(list, (size_t)i);
    c[i] =
        (picture_candidate){token_label(p, text_at(one, "text")),
                            attend_json_number(attend_json_get(one, "p"), 0)};
  }
  s->candidates = c;
  s->text = token_label(p, text_at(x, "text"));
  s->p = attend_json_number(attend_json_get(x, "p"), NAN);
  s->cache_bytes = attend_json_number(attend_json_get(x, "cache_bytes"), NAN);
}

bool paint_generate(painting *p) {
  const attend_json *list = attend_json_get(p->run.root, "steps");
  int n = (int)attend_json_count(list);
  picture_step *steps = need((size_t)n + 1, sizeof *steps);
  for (int i = 0; i < n; i++)
    read_step(p, attend_json_at(list, (size_t)i), &steps[i]);
  picture_generate_data d = {p->about, p->s->c.text, steps, n};
  bool ok = paint_fail(p, picture_generate(&d, &p->look, p->out));
  for (int i = 0; i < n; i++) free((void *)steps[i].candidates);
  free(steps);
  return ok;
}

bool paint_embeddings(painting *p) {
  fetched f, g = {0};
  int size[4], sizes[4] = {0};
  attend_json_writer q = question_open(p->v);
  json_text(&q, "run", p->at.id);
  json_text(&q, "side", text_at(p->at.role, "row_side"));
  json_number(&q, "layer", p->at.layer);
  int n = p->at.rows < PAINT_CELLS ? p->at.rows : PAINT_CELLS;
  json_number(&q, "rows", n);
  json_number(&q, "keys", n);
  bool ok = paint_ask(p, "embeddings", &q, &f);
  q = question_open(p->v);
  ok = ok ? paint_ask(p, "positions", &q, &g)
          : (attend_json_writer_free(&q), false);
  if (ok) {
    float *cosine = fetched_part(&f, "cosine", size);
    float *shift = fetched_part(&g, "shift", sizes);
    float *table = fetched_part(&g, "table", sizes);
    picture_embeddings_data d = {p->about,
                                 {p->rows.text, n},
                                 {p->rows.text, n},
                                 n,
                                 n,
                                 cosine,
                                 sizes[0],
                                 sizes[1],
                                 table,
                                 shift,
                                 fetched_number(&g, "shift_error")};
    ok = paint_fail(p, picture_embeddings(&d, &p->look, p->out));
    free(cosine);
    free(shift);
    free(table);
  }
  fetched_free(&f);
  fetched_free(&g);
  return ok;
}
