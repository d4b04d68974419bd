/* What every picture needs: runs, tokens, a head in cells. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "view/painting.h"

/* ---- what every picture needs --------------------------------------------------------- */

bool paint_fail(painting *p, const char *sentence) {
  if (!sentence) return true;
  snprintf(p->error, sizeof p->error, "%s", sentence);
  return false;
}

bool paint_ask(painting *p, const char *name, attend_json_writer *q,
               fetched *f) {
  return fetch(p->v, name, q, f) || paint_fail(p, f->error);
}

/* Bytes of a space at the beginning, as tokenizers write it: U+0120, U+2581. */
static size_t space_at(const char *text) {
  if (*text == ' ') return 1;
  if (!strncmp(text, "\xc4\xa0", 2)) return 2;
  return strncmp(text, "\xe2\x96\x81", 3) ? 0 : 3;
}

static size_t line_end_at(const char *text) {
  return *text == '\n' ? 1 : strncmp(text, "\xc4\x8a", 2) ? 0 : 2;
}

static const char *keep_label(painting *p, const char *label) {
  if (p->n_labels == p->label_room) {
    p->label_room = 2 * p->label_room + 64;
    p->labels =
        need_more(p->labels, p->n_labels, p->label_room, sizeof *p->labels);
  }
  return p->labels[p->n_labels++] = need_copy(label);
}

const char *token_label(painting *p, const char *token) {
  char label[256] = "";
  size_t n = 0, skip;
  if (!strcmp(token, "<0x0A>")) token = "\n";
  const char *mark = "";
  if ((skip = space_at(token)) && token[skip]) mark = "·";
  if (!strncmp(token, "##", 2) && token[2]) skip = 2, mark = "–";
  if (*mark) token += skip;
  n = (size_t)snprintf(label, sizeof label, "%s", mark);
  while (*token && n + 8 < sizeof label) {
    const char *shown = (skip = space_at(token))      ? "␣"
                        : (skip = line_end_at(token)) ? "⏎"
                        : *token == '\t'              ? "⇥"
                                                      : NULL;
    if (shown)
      n += (size_t)snprintf(label + n, sizeof label - n, "%s", shown);
    else
      label[n++] = *token;
    token += skip ? skip : 1;
  }
  return keep_label(p, n ? label : "∅");
}

static picture_tokens tokens_of(painting *p, const attend_json *side) {
  const attend_json *list = attend_json_get(side, "tokens");
  int n = (int)attend_json_count(list);
  const char **text = need((size_t)n + 1, sizeof *text);
  for (int i = 0; i < n; i++)
    text[i] = token_label(
        p, attend_json_string(attend_json_at(list, (size_t)i), NULL));
  return (picture_tokens){text, n};
}

const char *text_at(const attend_json *object, const char *name) {
  const char *text = attend_json_string(attend_json_get(object, name), NULL);
  return text ? text : "";
}

/* "gpt2", or "tiny, step 500". */
static void name_model(painting *p, const attend_json *model,
                       const attend_json *kase) {
  double step = attend_json_number(attend_json_get(kase, "step"), -1);
  int n = snprintf(p->name, sizeof p->name, "%.120s", text_at(model, "name"));
  if (step >= 0)
    snprintf(p->name + n, sizeof p->name - (size_t)n, ", step %.0f", step);
}

static bool run_cases(painting *p) {
  const view_state *s = p->s;
  bool writes = !strcmp(s->view, "generate");
  bool ok = writes ? fetch_generated(p->v, &s->c, p->new_tokens, &p->run)
                   : fetch_run(p->v, &s->c, &p->run);
  if (!ok) return paint_fail(p, p->run.error);
  if (s->has_other && !fetch_run(p->v, &s->other, &p->other))
    return paint_fail(p, p->other.error);
  if (!subject_read(&p->run, s, &p->at, p->error)) return false;
  const attend_json *kase = attend_json_get(p->run.root, "case");
  const char *notice = text_at(p->run.root, "notice");
  name_model(p, attend_json_get(p->run.root, "model"), kase);
  p->about = (picture_about){.model = p->name,
                             .form = text_at(kase, "attention"),
                             .role = p->at.role_name,
                             .layer = p->at.layer,
                             .head = p->at.head,
                             .notice = *notice ? notice : NULL};
  p->rows = tokens_of(p, subject_side(&p->at, false));
  p->keys = tokens_of(p, subject_side(&p->at, true));
  return true;
}

/* ---- a head in cells --------------------------------------------------------------------- */

void grid_free(grid *g) {
  free(g->cells);
  free(g->mask);
}

int flag(const attend_json *role, const char *name) {
  const attend_json *x = attend_json_get(role, name);
  return attend_json_kind_of(x) == ATTEND_JSON_BOOL
             ? attend_json_boolean(x, false)
             : (int)attend_json_number(x, 0);
}

/* Why no weight of a cell can be other than 0. */
static uint8_t *mask_of(const subject *s, int height, int width) {
  uint8_t *mask = need((size_t)height * (size_t)width, 1);
  int causal = flag(s->role, "causal"), window = flag(s->role, "window");
  int real = flag(s->role, "real_keys");
  for (int y = 0; y < height; y++)
    for (int x = 0; x < width; x++) {
      int64_t row = (int64_t)y * s->rows / height;
      int64_t last = (int64_t)(y + 1) * s->rows / height - 1;
      int64_t key = (int64_t)x * s->keys / width;
      int64_t end = (int64_t)(x + 1) * s->keys / width - 1;
      uint8_t *m = &mask[y * width + x];
      if (causal && key > last) *m = PICTURE_LATER;
      if (window && end < row - window + 1) *m = PICTURE_FAR;
      if (key >= real) *m = PICTURE_PADDING;
    }
  return mask;
}

/* What part of a pair of texts a filter leaves. */
static void filter_grid(const painting *p, float *w) {
  const char *filter = p->s->filter;
  if (strlen(filter) != 2) return;
  const attend_json *a = attend_json_get(subject_side(&p->at, false), "part");
  const attend_json *b = attend_json_get(subject_side(&p->at, true), "part");
  for (int i = 0; i < p->at.rows; i++)
    for (int j = 0; j < p->at.keys; j++) {
      double x = attend_json_number(attend_json_at(a, (size_t)i), -1);
      double y = attend_json_number(attend_json_at(b, (size_t)j), -1);
      if ((int)x != filter[0] - 'a' || (int)y != filter[1] - 'a')
        w[i * p->at.keys + j] = 0;
    }
}

bool get_grid(painting *p, const char *run, const char *form, grid *g) {
  subject s = p->at;
  fetched f;
  int size[4], level = 0;
  if (run) s.id = run;
  while (s.rows >> level > PAINT_CELLS || s.keys >> level > PAINT_CELLS)
    level++;
  attend_json_writer q = question_about(p->v, &s, true);
  if (form) json_text(&q, "attention", form);
  json_number(&q, "level", level);
  json_text(&q, "pool", p->s->pool);
  bool whole = level == 0;
  bool ok = paint_ask(p, whole ? "block" : "tile", &q, &f);
  if (ok) {
    g->cells = fetched_part(&f, whole ? "weights" : "cells", size);
    g->height = size[0];
    g->width = size[1];
    g->mask = mask_of(&s, g->height, g->width);
    if (whole && !run) filter_grid(p, g->cells);
  }
  fetched_free(&f);
  return ok;
}

bool paint(painting *p) {
  static const struct {
    const char *view;
    bool (*paint)(painting *p);
  } views[] = {{"model", paint_model},       {"head", paint_head},
               {"neuron", paint_neuron},     {"matrix", paint_matrix},
               {"flow", paint_flow},         {"compare", paint_compare},
               {"generate", paint_generate}, {"embeddings", paint_embeddings}};
  bool ok = run_cases(p);
  if (ok && p->film) ok = paint_film(p);
  for (size_t i = 0; ok && !p->film && i < sizeof views / sizeof *views; i++)
    if (!strcmp(views[i].view, p->s->view)) ok = views[i].paint(p);
  free((void *)p->rows.text);
  free((void *)p->keys.text);
  for (size_t i = 0; i < p->n_labels; i++) free(p->labels[i]);
  free(p->labels);
  fetched_free(&p->run);
  fetched_free(&p->other);
  return ok;
}
