/* Weights of heads: all of them small, one of them whole, and what they do.
 *
 * Behind view_answer.h: thumbs, patterns, block, stats, vectors.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "view/core.h"

/* Pairs that an answer about all heads may compute: for pictures, for scores. */
static const double THUMB_PAIRS = 1.2e8, SCORE_PAIRS = 6e7;

typedef struct {
  int looked, rows;
} coverage;

static void put_coverage(attend_json_writer *w, const void *with) {
  const coverage *c = with;
  attend_json_member(w, "rows_looked");
  attend_json_put_integer(w, c->looked);
  attend_json_member(w, "rows");
  attend_json_put_integer(w, c->rows);
}

/* ---- thumbs ------------------------------------------------------------------------ */

/* cells <- 0 to 255 of the head's largest, in size. */
static float level_head(float *cells, size_t n) {
  float most = 0;
  for (size_t i = 0; i < n; i++) most = fmaxf(most, fabsf(cells[i]));
  for (size_t i = 0; i < n; i++)
    cells[i] = most > 0 ? 255 * fabsf(cells[i]) / most : 0;
  return most;
}

static bool fill_thumbs(asking *a, const asked *h, attend_area *area,
                        float *cells, float *most, coverage *c) {
  const attend_lens_shape *s = &h->s;
  size_t one = (size_t)area->height * (size_t)area->width;
  area->most_pairs = THUMB_PAIRS / (s->layers * s->heads);
  c->rows = c->looked = s->rows;
  for (int i = 0; i < s->layers * s->heads; i++) {
    attend_head_id at = {h->at.role, i / s->heads, i % s->heads};
    float *to = cells + (size_t)i * one;
    if (!ask_status(a,
                    attend_lens_pool(h->lens, at, area, NULL, to, &c->looked)))
      return false;
    most[i] = level_head(to, one);
  }
  return true;
}

bool answer_thumbs(asking *a) {
  asked h = {0};
  coverage c;
  int size;
  if (!ask_heads(a, &h) || !ask_integer(a, "size", 4, 256, 48, &size))
    return false;
  const attend_lens_shape s = h.s;
  attend_area area = {.rows = s.rows,
                      .keys = s.keys,
                      .height = s.rows < size ? s.rows : size,
                      .width = s.keys < size ? s.keys : size};
  size_t heads = (size_t)(s.layers * s.heads);
  float *cells =
      need(heads * (size_t)area.height * (size_t)area.width, sizeof *cells);
  float *most = need(heads, sizeof *most);
  reply_part parts[] = {{"cells",
                         PART_U8,
                         4,
                         {s.layers, s.heads, area.height, area.width},
                         cells},
                        {"most", PART_F32, 2, {s.layers, s.heads}, most}};
  bool ok = fill_thumbs(a, &h, &area, cells, most, &c) &&
            reply_parts(a, 2, parts, put_coverage, &c);
  free(cells);
  free(most);
  return ok;
}

/* ---- patterns -------------------------------------------------------------------------- */

/* What separates texts: the tokenizer's separator, or its end of text. */
static uint8_t *separators(const view_run *run, const view_side *s) {
  const attend_tokenizer *t = run->of->tokenizer;
  uint8_t *is = need((size_t)s->n + 1, 1);
  if (!t) return is;
  int32_t sep = attend_tokenizer_special(t, ATTEND_SPECIAL_SEP);
  int32_t eos = attend_tokenizer_special(t, ATTEND_SPECIAL_EOS);
  for (int i = 1; i < s->n; i++) is[i] = s->ids[i] == sep || s->ids[i] == eos;
  return is;
}

static const char *const labels[ATTEND_HEAD_PATTERNS] = {
    "previous token", "next token", "first token", "separator", "same word",
    "itself",         "broad",      "positional",  "induction"};

static void put_list(attend_json_writer *w, const char *name,
                     const char *(*of)(attend_head_pattern)) {
  attend_json_member(w, name);
  attend_json_open(w, '[');
  for (int i = 0; i < ATTEND_HEAD_PATTERNS; i++)
    attend_json_put_string(w, of((attend_head_pattern)i));
  attend_json_close(w, ']');
}

static const char *label_of(attend_head_pattern d) { return labels[d]; }

typedef void (*put_one)(attend_json_writer *w, const attend_pattern_scores *p);

static void put_scores(attend_json_writer *w, const attend_pattern_scores *p) {
  attend_json_open(w, '[');
  for (int i = 0; i < ATTEND_HEAD_PATTERNS; i++)
    attend_json_put_number(w, p->score[i]);
  attend_json_close(w, ']');
}
static void put_does(attend_json_writer *w, const attend_pattern_scores *p) {
  attend_json_put_string(
      w, p->does < 0 ? ""
                     : attend_head_pattern_name((attend_head_pattern)p->does));
}
static void put_entropy(attend_json_writer *w, const attend_pattern_scores *p) {
  attend_json_put_number(w, p->entropy);
}

static void put_heads(attend_json_writer *w, const char *name, int layers,
                      int heads, const attend_pattern_scores *p, put_one put) {
  attend_json_member(w, name);
  attend_json_open(w, '[');
  for (int i = 0; i < layers; i++) {
    attend_json_open(w, '[');
    for (int j = 0; j < heads; j++) put(w, &p[i * heads + j]);
    attend_json_close(w, ']');
  }
  attend_json_close(w, ']');
}

static bool reply_patterns(asking *a, const attend_lens_shape *s,
                           const attend_pattern_scores *p) {
  attend_json_writer w = attend_json_writer_text(a->v->ctx);
  coverage c = {p[0].rows_looked, s->rows};
  attend_json_open(&w, '{');
  put_list(&w, "names", attend_head_pattern_name);
  put_list(&w, "labels", label_of);
  put_list(&w, "about", attend_head_pattern_about);
  put_heads(&w, "scores", s->layers, s->heads, p, put_scores);
  put_heads(&w, "does", s->layers, s->heads, p, put_does);
  put_heads(&w, "entropy", s->layers, s->heads, p, put_entropy);
  put_coverage(&w, &c);
  attend_json_close(&w, '}');
  return reply_json(a, &w);
}

bool answer_patterns(asking *a) {
  asked h = {0};
  if (!ask_heads(a, &h)) return false;
  const attend_lens_shape s = h.s;
  attend_role role = h.at.role;
  const view_run *run = h.run;
  const view_side *rows = &run->side[role != ATTEND_ENCODER_SELF];
  const view_side *keys = &run->side[role == ATTEND_DECODER_SELF];
  uint8_t *separator = separators(run, keys);
  attend_pattern_options o = {.row_ids = rows->ids,
                              .key_ids = keys->ids,
                              .separator = separator,
                              .most_pairs = SCORE_PAIRS / (s.layers * s.heads)};
  attend_pattern_scores *p = need((size_t)(s.layers * s.heads), sizeof *p);
  bool ok = true;
  for (int i = 0; i < s.layers * s.heads && ok; i++) {
    attend_head_id at = {role, i / s.heads, i % s.heads};
    ok = ask_status(a, attend_lens_pattern(h.lens, at, &o, &p[i]));
  }
  if (ok) ok = reply_patterns(a, &s, p);
  free(p);
  free(separator);
  return ok;
}

/* ---- one head ----------------------------------------------------------------------------- */

bool answer_block(asking *a) {
  asked h = {0};
  view_range r;
  if (!ask_head(a, &h) || !ask_range(a, h.s.rows, h.s.keys, VIEW_CELLS, &r))
    return false;
  float *w = need((size_t)r.rows * (size_t)r.keys + 1, sizeof *w);
  reply_part part = {"weights", PART_F32, 2, {r.rows, r.keys}, w};
  bool ok = ask_status(a, attend_lens_block(h.lens, h.at, r.row, r.rows, r.key,
                                            r.keys, w)) &&
            reply_parts(a, 1, &part, NULL, NULL);
  free(w);
  return ok;
}

bool answer_stats(asking *a) {
  asked h = {0};
  if (!ask_head(a, &h)) return false;
  size_t T = (size_t)h.s.rows, S = (size_t)h.s.keys;
  if ((double)T * (double)S > 1e9)
    return ask_fail(a, 400, "a text of %d tokens is too long for this",
                    h.s.rows);
  float *room = need(2 * T + S, sizeof *room);
  int32_t *top = need(T, sizeof *top);
  attend_row_stats stats = {room, top, room + T, room + 2 * T};
  reply_part parts[] = {
      {"entropy", PART_F32, 1, {h.s.rows}, stats.entropy},
      {"top", PART_I32, 1, {h.s.rows}, top},
      {"top_weight", PART_F32, 1, {h.s.rows}, stats.top_weight},
      {"mass", PART_F32, 1, {h.s.keys}, stats.mass}};
  bool ok = ask_status(a, attend_lens_stats(h.lens, h.at, &stats)) &&
            reply_parts(a, 4, parts, NULL, NULL);
  free(room);
  free(top);
  return ok;
}

/* ---- vectors ---------------------------------------------------------------------------------- */

typedef struct {
  const attend_lens_shape *s;
  const char *form;
} vector_facts;

static void put_facts(attend_json_writer *w, const void *with) {
  const vector_facts *f = with;
  attend_json_member(w, "scale");
  attend_json_put_number(w, (double)f->s->scale);
  attend_json_member(w, "form");
  attend_json_put_string(w, f->form);
}

/* n rows from `from` on, one behind the other. */
static float *gather(attend_view v, int from, int n, int width) {
  float *to = need((size_t)n * (size_t)width + 1, sizeof *to);
  for (int i = 0; i < n; i++)
    memcpy(to + (size_t)i * (size_t)width,
           (float *)v.data + (from + i) * v.stride[2],
           (size_t)width * sizeof *to);
  return to;
}

static bool reply_vectors(asking *a, const asked *h, const view_range *r,
                          const char *form) {
  attend_lens *lens = h->lens;
  attend_head_id at = h->at;
  const attend_lens_shape *s = &h->s;
  attend_view q, k, v, out;
  vector_facts facts = {s, form};
  float *lse = need((size_t)s->rows, sizeof *lse);
  float *w = need((size_t)r->rows * (size_t)r->keys + 1, sizeof *w);
  bool ok = ask_status(a, attend_lens_block(lens, at, r->row, r->rows, r->key,
                                            r->keys, w)) &&
            ask_status(a, attend_lens_denominators(lens, at, lse)) &&
            ask_status(a, attend_lens_vectors(lens, at, &q, &k, &v, &out));
  if (ok) {
    float *all[] = {gather(q, r->row, r->rows, s->dim),
                    gather(k, r->key, r->keys, s->dim),
                    gather(v, r->key, r->keys, s->dim_v),
                    gather(out, r->row, r->rows, s->dim_v)};
    reply_part parts[] = {{"q", PART_F32, 2, {r->rows, s->dim}, all[0]},
                          {"k", PART_F32, 2, {r->keys, s->dim}, all[1]},
                          {"v", PART_F32, 2, {r->keys, s->dim_v}, all[2]},
                          {"out", PART_F32, 2, {r->rows, s->dim_v}, all[3]},
                          {"lse", PART_F32, 1, {r->rows}, lse + r->row},
                          {"weights", PART_F32, 2, {r->rows, r->keys}, w}};
    ok = reply_parts(a, 6, parts, put_facts, &facts);
    for (int i = 0; i < 4; i++) free(all[i]);
  }
  free(w);
  free(lse);
  return ok;
}

bool answer_vectors(asking *a) {
  asked h = {0};
  view_range r;
  const char *form;
  if (!ask_head(a, &h) ||
      !ask_text(a, "attention", h.run->c.attention, &form) ||
      !ask_range(a, h.s.rows, h.s.keys, VIEW_CELLS, &r))
    return false;
  int64_t numbers = (int64_t)(r.rows + r.keys) * (h.s.dim + h.s.dim_v);
  if (numbers > 4 * VIEW_CELLS)
    return ask_fail(a, 400,
                    "%d rows and %d keys are too many vectors at once: ask for "
                    "parts",
                    r.rows, r.keys);
  return reply_vectors(a, &h, &r, form);
}
