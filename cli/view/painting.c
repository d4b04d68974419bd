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

bool paint_status(painting *p, attend_status status) {
  return subject_status(p->v, status, p->error);
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
    p->labels = need_more(p->labels, p->n_labels, p->label_room, sizeof *p->labels);
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

const char *id_label(painting *p, int model, int32_t id) {
  char text[TOKEN_TEXT];
  token_text(attend_viewer_model(p->v->session, model), id, text);
  return token_label(p, text);
}

static picture_tokens tokens_of(painting *p, const attend_view_side *side) {
  const char **text = need((size_t)side->n + 1, sizeof *text);
  for (int i = 0; i < side->n; i++) text[i] = id_label(p, p->run->c.model, side->ids[i]);
  return (picture_tokens){text, side->n};
}

/* "gpt2", or "tiny, step 500". */
static void name_model(painting *p) {
  const attend_view_case *c = &p->run->c;
  const char *name = attend_viewer_model(p->v->session, c->model)->name;
  int n = snprintf(p->name, sizeof p->name, "%.120s", name);
  if (c->step >= 0) snprintf(p->name + n, sizeof p->name - (size_t)n, ", step %d", c->step);
}

static bool run_cases(painting *p) {
  if (!run_state(p->v, p->s, p->new_tokens, &p->run, &p->other, p->error) ||
      !subject_read(p->run, p->s, &p->at, p->error))
    return false;
  name_model(p);
  memcpy(p->notice, p->run->notice, sizeof p->notice);
  p->about = (picture_about){.model = p->name,
                             .form = p->s->c.attention,
                             .role = attend_role_name(p->at.role),
                             .layer = p->at.layer,
                             .head = p->at.head,
                             .notice = *p->notice ? p->notice : NULL};
  p->rows = tokens_of(p, subject_side(&p->at, false));
  p->keys = tokens_of(p, subject_side(&p->at, true));
  return true;
}

/* ---- a head in cells --------------------------------------------------------------------- */

void grid_free(grid *g) {
  free(g->cells);
  free(g->mask);
}

/* Why no weight of a cell can be other than 0. */
static uint8_t *mask_of(const attend_lens_shape *s, int height, int width) {
  uint8_t *mask = need((size_t)height * (size_t)width, 1);
  for (int y = 0; y < height; y++)
    for (int x = 0; x < width; x++) {
      int64_t row = (int64_t)y * s->rows / height;
      int64_t last = (int64_t)(y + 1) * s->rows / height - 1;
      int64_t key = (int64_t)x * s->keys / width;
      int64_t end = (int64_t)(x + 1) * s->keys / width - 1;
      uint8_t *m = &mask[y * width + x];
      if (s->causal && key > last) *m = PICTURE_LATER;
      if (s->window && end < row - s->window + 1) *m = PICTURE_FAR;
      if (key >= s->real_keys) *m = PICTURE_PADDING;
    }
  return mask;
}

/* What part of a pair of texts a filter leaves. */
static void filter_grid(const painting *p, float *w) {
  const char *filter = p->s->filter;
  if (strlen(filter) != 2) return;
  const signed char *a = subject_side(&p->at, false)->part;
  const signed char *b = subject_side(&p->at, true)->part;
  int keys = p->at.s.keys;
  for (int i = 0; i < p->at.s.rows; i++)
    for (int j = 0; j < keys; j++)
      if (a[i] != filter[0] - 'a' || b[j] != filter[1] - 'a') w[i * keys + j] = 0;
}

static void grid_make(const painting *p, int height, int width, grid *g) {
  size_t n = (size_t)height * (size_t)width;
  *g = (grid){need(n + 1, sizeof *g->cells), mask_of(&p->at.s, height, width), height, width};
}

static bool get_block(painting *p, const attend_view_head *h, grid *g) {
  attend_view_block b;
  if (!paint_status(p, attend_viewer_block(p->v->session, h, NULL, &b))) return false;
  grid_make(p, b.rows, b.keys, g);
  memcpy(g->cells, b.weights, (size_t)b.rows * (size_t)b.keys * sizeof *b.weights);
  attend_viewer_release(p->v->session, b.memory);
  return true;
}

static bool get_tile(painting *p, const attend_view_head *h, int level, grid *g) {
  bool mean = !strcmp(p->s->pool, "mean");
  attend_view_place place = {
      .head = *h, .level = level, .pool = mean ? ATTEND_POOL_MEAN : ATTEND_POOL_MAX};
  attend_view_tile t;
  if (!paint_status(p, attend_viewer_tile(p->v->session, &place, &t))) return false;
  encoded e = encode_tile(&t, level);
  grid_make(p, t.height, t.width, g);
  part_read(&e.part[0], g->cells); /* as the page shows it */
  attend_viewer_release(p->v->session, t.memory);
  return true;
}

bool get_grid(painting *p, const attend_view_run *run, const char *form, grid *g) {
  attend_view_head h = subject_head(&p->at, form);
  int level = subject_level(&p->at);
  if (run) h.run = run;
  if (level) return get_tile(p, &h, level, g);
  if (!get_block(p, &h, g)) return false;
  if (!run) filter_grid(p, g->cells);
  return true;
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
  return ok;
}
