/* Results of attend/view.h as JSON, or as numbers in parts with a JSON header. */
#include "view/encode.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attend/train.h"

/* ---- parts --------------------------------------------------------------------------- */

static size_t part_count(const view_part *p) {
  size_t n = 1;
  for (int i = 0; i < p->rank; i++) n *= (size_t)p->shape[i];
  return n;
}

static size_t part_bytes(const view_part *p) {
  static const size_t bytes[] = {[PART_F32] = 4, [PART_F16] = 2, [PART_U8] = 1, [PART_I32] = 4};
  return part_count(p) * bytes[p->type];
}

/* A byte stands for low + scale * byte. */
typedef struct {
  double low, scale;
} levels;

static levels levels_of(const view_part *p) {
  const float *x = p->data;
  double least = 0, most = 0;
  if (p->type != PART_U8) return (levels){0, 1};
  for (size_t i = 0; i < part_count(p); i++) {
    if (!isfinite(x[i])) continue;
    least = fmin(least, (double)x[i]);
    most = fmax(most, (double)x[i]);
  }
  return (levels){least, most > least ? (most - least) / 255 : 1};
}

static unsigned char level_of(float x, levels l) {
  double level = isfinite(x) ? ((double)x - l.low) / l.scale : 0;
  return (unsigned char)lrint(fmax(0, fmin(255, level)));
}

static void put_part(const view_part *p, unsigned char *to) {
  size_t n = part_count(p);
  const float *x = p->data;
  levels l = levels_of(p);
  if (p->type == PART_U8)
    for (size_t i = 0; i < n; i++) to[i] = level_of(x[i], l);
  else if (p->type == PART_F16)
    attend_convert_from_f32(ATTEND_F16, p->data, n, to);
  else
    memcpy(to, p->data, part_bytes(p));
}

static void write_part(attend_json_writer *w, const view_part *p, size_t at) {
  static const char *const types[] = {
      [PART_F32] = "f32", [PART_F16] = "f16", [PART_U8] = "u8", [PART_I32] = "i32"};
  levels l = levels_of(p);
  attend_json_open(w, '{');
  json_text(w, "name", p->name);
  json_text(w, "type", types[p->type]);
  attend_json_member(w, "shape");
  attend_json_open(w, '[');
  for (int i = 0; i < p->rank; i++) attend_json_put_integer(w, p->shape[i]);
  attend_json_close(w, ']');
  attend_json_member(w, "at");
  attend_json_put_integer(w, (int64_t)at);
  json_number(w, "low", l.low);
  json_number(w, "scale", l.scale);
  attend_json_close(w, '}');
}

static size_t eight(size_t n) { return (n + 7) / 8 * 8; }

static void reply_parts(const encoded *e, const attend_json_writer *w, size_t bytes,
                        view_reply *reply) {
  size_t header = eight(4 + w->length) - 4, at = 4 + header;
  unsigned char *to = need(4 + header + bytes, 1);
  for (int i = 0; i < 4; i++) to[i] = (unsigned char)(header >> (8 * i));
  memset(to + 4, ' ', header);
  memcpy(to + 4, w->text, w->length);
  for (int i = 0; i < e->n_parts; i++) {
    put_part(&e->part[i], to + at);
    at += eight(part_bytes(&e->part[i]));
  }
  *reply = (view_reply){200, "application/octet-stream", to, at};
}

static void reply_json(const attend_json_writer *w, view_reply *reply) {
  *reply = (view_reply){200, "application/json", need(w->length + 1, 1), w->length};
  memcpy(reply->bytes, w->text, w->length);
}

/* The header of the parts; returns their bytes. */
static size_t write_header(attend_json_writer *w, const encoded *e) {
  size_t at = 0;
  attend_json_open(w, '{');
  attend_json_member(w, "parts");
  attend_json_open(w, '[');
  for (int i = 0; i < e->n_parts; i++) {
    write_part(w, &e->part[i], at);
    at += eight(part_bytes(&e->part[i]));
  }
  attend_json_close(w, ']');
  if (e->write) e->write(w, e);
  attend_json_close(w, '}');
  return at;
}

attend_status encoded_reply(attend_context *ctx, const encoded *e, view_reply *reply) {
  attend_json_writer w = attend_json_writer_text(ctx);
  size_t bytes = 0;
  if (e->n_parts)
    bytes = write_header(&w, e);
  else
    e->write(&w, e);
  attend_status status = attend_json_finish(&w);
  if (!status && e->n_parts)
    reply_parts(e, &w, bytes, reply);
  else if (!status)
    reply_json(&w, reply);
  attend_json_writer_free(&w);
  return status;
}

/* ---- parts as nested lists -------------------------------------------------------------- */

/* Floats are written as what they are: the shortest decimals that read back. */
static void write_float(attend_json_writer *w, float x) {
  char text[32];
  for (int digits = 6; digits <= 9; digits++) {
    snprintf(text, sizeof text, "%.*g", digits, (double)x);
    if (strtof(text, NULL) == x) break;
  }
  attend_json_put_number(w, strtod(text, NULL));
}

/* What the page reads from the part. */
static float part_at(const view_part *p, levels l, size_t i) {
  float x;
  unsigned char half[2];
  if (p->type == PART_I32) return (float)((const int32_t *)p->data)[i];
  x = ((const float *)p->data)[i];
  if (p->type == PART_U8) return (float)(l.low + l.scale * level_of(x, l));
  if (p->type != PART_F16) return x;
  attend_convert_from_f32(ATTEND_F16, &x, 1, half);
  attend_convert_to_f32(ATTEND_F16, half, 1, &x);
  return x;
}

void part_read(const view_part *p, float *to) {
  levels l = levels_of(p);
  for (size_t i = 0; i < part_count(p); i++) to[i] = part_at(p, l, i);
}

/* Writes the numbers from `at` on; returns where the next ones are. */
static size_t write_nested(attend_json_writer *w, const view_part *p, levels l, const int *shape,
                           int rank, size_t at) {
  attend_json_open(w, '[');
  for (int i = 0; i < shape[0]; i++)
    if (rank > 1)
      at = write_nested(w, p, l, shape + 1, rank - 1, at);
    else
      write_float(w, part_at(p, l, at++));
  attend_json_close(w, ']');
  return at;
}

void encoded_write(attend_json_writer *w, const encoded *e) {
  if (!e->n_parts) {
    e->write(w, e);
    return;
  }
  attend_json_open(w, '{');
  if (e->write) e->write(w, e);
  for (int i = 0; i < e->n_parts; i++) {
    const view_part *p = &e->part[i];
    attend_json_member(w, p->name);
    write_nested(w, p, levels_of(p), p->shape, p->rank, 0);
  }
  attend_json_close(w, '}');
}

/* ---- models, cases, runs -------------------------------------------------------------------- */

size_t token_text(const attend_view_model *m, int32_t id, char text[TOKEN_TEXT]) {
  static const char mark[] = "\xe2\x96\x81";
  char spare[16];
  size_t length, n = 0;
  const char *piece = m->tokenizer ? attend_tokenizer_piece(m->tokenizer, id, &length) : NULL;
  if (!piece) {
    length = (size_t)snprintf(spare, sizeof spare, "%d", (int)id);
    piece = spare;
  }
  for (size_t i = 0; i < length && n < 256; i++) {
    bool space = length - i >= 3 && !memcmp(piece + i, mark, 3);
    text[n++] = space ? ' ' : piece[i];
    if (space) i += 2;
  }
  text[n] = 0;
  return n;
}

static void put_token(attend_json_writer *w, const attend_view_model *m, int32_t id) {
  char text[TOKEN_TEXT];
  size_t n = token_text(m, id, text);
  attend_json_put_bytes(w, text, n);
}

void write_model(attend_json_writer *w, const viewer *v, int model) {
  static const char *const parts[] = {"", "encoder", "decoder", "both"};
  static const char *const positions[] = {"learned", "sinusoidal", "rotary", "buckets"};
  const attend_view_model *m = attend_viewer_model(v->session, model);
  const attend_config *c = m->config;
  const attend_stack *s = attend_config_stack(
      c, attend_config_parts(c) & ATTEND_ENCODER ? ATTEND_ENCODER : ATTEND_DECODER);
  char id[12];
  snprintf(id, sizeof id, "%d", model);
  attend_json_open(w, '{');
  json_text(w, "id", id);
  json_text(w, "name", m->name);
  json_text(w, "family", attend_config_family(c));
  json_text(w, "parts", parts[attend_config_parts(c)]);
  json_number(w, "layers", s->layers);
  json_number(w, "heads", s->heads);
  json_number(w, "context", attend_config_get(c, ATTEND_CONFIG_POSITIONS));
  json_truth(w, "writes", attend_config_parts(c) & ATTEND_DECODER);
  json_truth(w, "fills", attend_config_parts(c) == ATTEND_ENCODER);
  json_truth(w, "pairs", attend_config_parts(c) == ATTEND_ENCODER && m->tokenizer);
  json_truth(w, "words", m->tokenizer != NULL);
  json_text(w, "positions", positions[attend_config_get(c, ATTEND_CONFIG_POSITION)]);
  attend_json_close(w, '}');
}

void write_case(attend_json_writer *w, const view_case *c) {
  attend_json_open(w, '{');
  attend_json_member(w, "model");
  attend_json_put_string(w, c->model);
  attend_json_member(w, "text");
  attend_json_put_string(w, c->text);
  json_text(w, "second", c->second);
  json_text(w, "attention", c->attention);
  json_truth(w, "untrained", c->untrained);
  attend_json_member(w, "seed");
  attend_json_put_integer(w, (int64_t)c->seed);
  json_number(w, "pad", c->pad);
  json_number(w, "step", c->step);
  attend_json_close(w, '}');
}

static void write_run_case(attend_json_writer *w, const attend_view_case *c) {
  char model[12];
  view_case of = {model,  (char *)c->text, (char *)c->second, "", c->untrained, c->seed,
                  c->pad, c->step};
  snprintf(model, sizeof model, "%d", c->model);
  snprintf(of.attention, sizeof of.attention, "%s", c->attention);
  write_case(w, &of);
}

static void write_side(attend_json_writer *w, const attend_view_model *m,
                       const attend_view_side *s) {
  attend_json_open(w, '{');
  attend_json_member(w, "tokens");
  attend_json_open(w, '[');
  for (int i = 0; i < s->n; i++) put_token(w, m, s->ids[i]);
  attend_json_close(w, ']');
  attend_json_member(w, "ids");
  attend_json_open(w, '[');
  for (int i = 0; i < s->n; i++) attend_json_put_integer(w, s->ids[i]);
  attend_json_close(w, ']');
  attend_json_member(w, "part");
  attend_json_open(w, '[');
  for (int i = 0; i < s->n; i++) attend_json_put_integer(w, s->part[i]);
  attend_json_close(w, ']');
  attend_json_member(w, "special");
  attend_json_open(w, '[');
  for (int i = 0; i < s->n; i++)
    if (m->tokenizer && attend_tokenizer_is_special(m->tokenizer, s->ids[i]))
      attend_json_put_integer(w, i);
  attend_json_close(w, ']');
  json_number(w, "real", s->real);
  attend_json_close(w, '}');
}

static void write_role(attend_json_writer *w, attend_role role, const attend_lens_shape *s) {
  bool cross = role == ATTEND_CROSS;
  attend_json_open(w, '{');
  json_text(w, "role", attend_role_name(role));
  json_number(w, "layers", s->layers);
  json_number(w, "heads", s->heads);
  json_number(w, "kv_heads", s->kv_heads);
  json_number(w, "rows", s->rows);
  json_number(w, "keys", s->keys);
  json_text(w, "row_side", cross ? "decoder" : attend_role_name(role));
  json_text(w, "key_side", cross ? "encoder" : attend_role_name(role));
  json_number(w, "dim", s->dim);
  json_number(w, "dim_v", s->dim_v);
  json_number(w, "scale", (double)s->scale);
  json_truth(w, "causal", s->causal);
  json_number(w, "window", s->window);
  json_number(w, "real_keys", s->real_keys);
  json_truth(w, "signed", s->is_signed);
  json_truth(w, "bias", s->biased);
  attend_json_close(w, '}');
}

static void write_candidate(attend_json_writer *w, const attend_view_model *m,
                            const attend_view_candidate *c) {
  attend_json_open(w, '{');
  json_number(w, "id", c->id);
  attend_json_member(w, "text");
  put_token(w, m, c->id);
  json_number(w, "p", c->p);
  attend_json_close(w, '}');
}

void write_step(attend_json_writer *w, const attend_view_model *m, const attend_view_step *s) {
  attend_json_open(w, '{');
  json_number(w, "id", s->id);
  attend_json_member(w, "text");
  put_token(w, m, s->id);
  json_number(w, "p", s->p);
  json_number(w, "position", s->position);
  attend_json_member(w, "candidates");
  attend_json_open(w, '[');
  for (int i = 0; i < s->n; i++) write_candidate(w, m, &s->candidate[i]);
  attend_json_close(w, ']');
  json_number(w, "cache_bytes", (double)s->cache_bytes);
  json_number(w, "length", s->length);
  attend_json_close(w, '}');
}

static void write_run(attend_json_writer *w, const encoded *e) {
  static const char *const sides[] = {"encoder", "decoder"};
  const attend_view_run *run = e->of;
  const attend_view_model *m = attend_viewer_model(e->v->session, run->c.model);
  attend_json_open(w, '{');
  json_text(w, "run", run->id);
  attend_json_member(w, "case");
  write_run_case(w, &run->c);
  attend_json_member(w, "model");
  write_model(w, e->v, run->c.model);
  json_number(w, "seconds", run->seconds);
  json_number(w, "bytes", (double)run->bytes);
  attend_json_member(w, "sides");
  attend_json_open(w, '{');
  for (int i = 0; i < 2; i++) {
    if (!run->side[i].n) continue;
    attend_json_member(w, sides[i]);
    write_side(w, m, &run->side[i]);
  }
  attend_json_close(w, '}');
  attend_json_member(w, "roles");
  attend_json_open(w, '[');
  for (int i = 0; i < ATTEND_ROLES; i++)
    if (run->has_role[i]) write_role(w, (attend_role)i, &run->shape[i]);
  attend_json_close(w, ']');
  json_text(w, "notice", run->notice);
  json_number(w, "generated", run->generated);
  attend_json_member(w, "steps");
  attend_json_open(w, '[');
  for (int i = 0; i < run->n_steps; i++) write_step(w, m, &run->steps[i]);
  attend_json_close(w, ']');
  attend_json_close(w, '}');
}

encoded encode_run(const viewer *v, const attend_view_run *run) {
  return (encoded){.write = write_run, .of = run, .v = v};
}

/* ---- a training run --------------------------------------------------------------------------- */

enum { POINTS = 300 }; /* of a curve */

/* The mean, least and most of some lines of the log. */
static void write_point(attend_json_writer *w, const attend_log_point *p, size_t n) {
  double sum = 0, low = p[0].loss, high = p[0].loss;
  for (size_t i = 0; i < n; i++) {
    sum += p[i].loss;
    if (p[i].loss < low) low = p[i].loss;
    if (p[i].loss > high) high = p[i].loss;
  }
  attend_json_open(w, '[');
  attend_json_put_number(w, n == 1 ? p[0].step : (p[0].step + p[n - 1].step) / 2);
  attend_json_put_number(w, sum / (double)n);
  attend_json_put_number(w, low);
  attend_json_put_number(w, high);
  attend_json_close(w, ']');
}

static void write_curve(attend_json_writer *w, const char *name, attend_log_curve curve) {
  size_t n = curve.count < POINTS ? curve.count : POINTS;
  attend_json_member(w, name);
  attend_json_open(w, '[');
  for (size_t i = 0; i < n; i++) {
    size_t from = i * curve.count / n, to = (i + 1) * curve.count / n;
    write_point(w, curve.at + from, to - from);
  }
  attend_json_close(w, ']');
}

static void write_training(attend_json_writer *w, const encoded *e) {
  const viewer *v = e->v;
  const attend_training_run *c = v->training;
  if (!c) {
    attend_json_put_null(w);
    return;
  }
  int count;
  const int *steps = attend_training_run_steps(c, &count);
  const int best = attend_training_run_best(c);
  const int last = attend_training_run_last(c);
  attend_json_open(w, '{');
  json_text(w, "model", "0");
  attend_json_member(w, "steps");
  attend_json_open(w, '[');
  for (int i = 0; i < (v->n_kept ? v->n_kept : count); i++)
    attend_json_put_integer(w, v->n_kept ? v->kept[i] : steps[i]);
  attend_json_close(w, ']');
  json_number(w, "left_out", v->n_kept ? count - v->n_kept : 0);
  json_number(w, "best", best < 0 ? NAN : best);
  json_number(w, "last", last < 0 ? NAN : last);
  write_curve(w, "loss", attend_training_run_loss(c));
  write_curve(w, "valid", attend_training_run_valid(c));
  attend_json_close(w, '}');
}

encoded encode_training(const viewer *v) { return (encoded){.write = write_training, .v = v}; }

/* ---- heads -------------------------------------------------------------------------------------- */

static void write_coverage(attend_json_writer *w, int looked, int rows) {
  json_number(w, "rows_looked", looked);
  json_number(w, "rows", rows);
}

static void write_thumbs(attend_json_writer *w, const encoded *e) {
  const attend_view_thumbs *t = e->of;
  write_coverage(w, t->rows_sampled, t->rows);
}

encoded encode_thumbs(const attend_view_thumbs *t) {
  return (encoded){
      .n_parts = 2,
      .part = {{"cells", PART_U8, 4, {t->layers, t->heads, t->height, t->width}, t->cells},
               {"most", PART_F32, 2, {t->layers, t->heads}, t->most}},
      .write = write_thumbs,
      .of = t};
}

static const char *label_of(attend_head_pattern p) {
  static const char *const labels[ATTEND_HEAD_PATTERNS] = {
      "previous token", "next token", "first token", "separator", "same word",
      "itself",         "broad",      "positional",  "induction"};
  return labels[p];
}

static void write_names(attend_json_writer *w, const char *name,
                        const char *(*of)(attend_head_pattern)) {
  attend_json_member(w, name);
  attend_json_open(w, '[');
  for (int i = 0; i < ATTEND_HEAD_PATTERNS; i++)
    attend_json_put_string(w, of((attend_head_pattern)i));
  attend_json_close(w, ']');
}

typedef void (*put_scores)(attend_json_writer *w, const attend_pattern_scores *p);

static void put_all_scores(attend_json_writer *w, const attend_pattern_scores *p) {
  attend_json_open(w, '[');
  for (int i = 0; i < ATTEND_HEAD_PATTERNS; i++) attend_json_put_number(w, p->score[i]);
  attend_json_close(w, ']');
}
static void put_does(attend_json_writer *w, const attend_pattern_scores *p) {
  attend_json_put_string(
      w, p->pattern < 0 ? "" : attend_head_pattern_name((attend_head_pattern)p->pattern));
}
static void put_entropy(attend_json_writer *w, const attend_pattern_scores *p) {
  attend_json_put_number(w, p->entropy);
}

static void write_scores(attend_json_writer *w, const char *name, const attend_view_patterns *p,
                         put_scores put) {
  attend_json_member(w, name);
  attend_json_open(w, '[');
  for (int i = 0; i < p->layers; i++) {
    attend_json_open(w, '[');
    for (int j = 0; j < p->heads; j++) put(w, &p->scores[i * p->heads + j]);
    attend_json_close(w, ']');
  }
  attend_json_close(w, ']');
}

static void write_patterns(attend_json_writer *w, const encoded *e) {
  const attend_view_patterns *p = e->of;
  attend_json_open(w, '{');
  write_names(w, "names", attend_head_pattern_name);
  write_names(w, "labels", label_of);
  write_names(w, "about", attend_head_pattern_about);
  write_scores(w, "scores", p, put_all_scores);
  write_scores(w, "does", p, put_does);
  write_scores(w, "entropy", p, put_entropy);
  write_coverage(w, p->rows_sampled, p->rows);
  attend_json_close(w, '}');
}

encoded encode_patterns(const attend_view_patterns *p) {
  return (encoded){.write = write_patterns, .of = p};
}

encoded encode_block(const attend_view_block *b) {
  return (encoded){.n_parts = 1,
                   .part = {{"weights", PART_F32, 2, {b->rows, b->keys}, b->weights}}};
}

encoded encode_stats(const attend_view_stats *s) {
  return (encoded){.n_parts = 4,
                   .part = {{"entropy", PART_F32, 1, {s->rows}, s->entropy},
                            {"top", PART_I32, 1, {s->rows}, s->top},
                            {"top_weight", PART_F32, 1, {s->rows}, s->top_weight},
                            {"mass", PART_F32, 1, {s->keys}, s->mass}}};
}

static void write_vectors(attend_json_writer *w, const encoded *e) {
  const attend_view_vectors *x = e->of;
  json_number(w, "scale", (double)x->scale);
  json_text(w, "form", e->form);
}

encoded encode_vectors(const attend_view_vectors *x, const char *form) {
  return (encoded){.n_parts = 6,
                   .part = {{"q", PART_F32, 2, {x->rows, x->dim}, x->q},
                            {"k", PART_F32, 2, {x->keys, x->dim}, x->k},
                            {"v", PART_F32, 2, {x->keys, x->dim_v}, x->v},
                            {"out", PART_F32, 2, {x->rows, x->dim_v}, x->out},
                            {"lse", PART_F32, 1, {x->rows}, x->lse},
                            {"weights", PART_F32, 2, {x->rows, x->keys}, x->weights}},
                   .write = write_vectors,
                   .of = x,
                   .form = form};
}

static void write_tile(attend_json_writer *w, const encoded *e) {
  const attend_view_tile *t = e->of;
  json_truth(w, "exact", t->exact);
  json_number(w, "rows_each", t->rows_each);
}

encoded encode_tile(const attend_view_tile *t, int level) {
  part_type type = level == 0 ? PART_F16 : PART_U8;
  return (encoded){.n_parts = 1,
                   .part = {{"cells", type, 2, {t->height, t->width}, t->cells}},
                   .write = write_tile,
                   .of = t};
}

/* ---- through the layers; two runs ------------------------------------------------------------------ */

enum { MOST_SHARES = 256 };

typedef struct {
  float share;
  int index;
} share;

static int heavier(const void *x, const void *y) {
  const share *a = x, *b = y;
  if (a->share != b->share) return a->share < b->share ? 1 : -1;
  return (a->index > b->index) - (a->index < b->index);
}
static int earlier(const void *x, const void *y) {
  const share *a = x, *b = y;
  return (a->index > b->index) - (a->index < b->index);
}

/* The heaviest of a layer, by index; returns the share of the others. */
static double write_shares(attend_json_writer *w, const float *row, int n, share *all) {
  double sum = 0, written = 0;
  int most = n < MOST_SHARES ? n : MOST_SHARES;
  for (int i = 0; i < n; i++) {
    all[i] = (share){row[i], i};
    sum += (double)row[i];
  }
  qsort(all, (size_t)n, sizeof *all, heavier);
  while (most > 0 && all[most - 1].share <= 0) most--;
  qsort(all, (size_t)most, sizeof *all, earlier);
  attend_json_open(w, '[');
  for (int i = 0; i < most; i++) {
    written += (double)all[i].share;
    attend_json_open(w, '[');
    attend_json_put_integer(w, all[i].index);
    attend_json_put_number(w, (double)all[i].share);
    attend_json_close(w, ']');
  }
  attend_json_close(w, ']');
  return fmax(0, sum - written);
}

/* From the last layer down to the input. */
static void write_rollout(attend_json_writer *w, const encoded *e) {
  const attend_view_rollout *r = e->of;
  share *all = need((size_t)r->tokens, sizeof *all);
  double *rest = need((size_t)r->layers + 1, sizeof *rest);
  attend_json_open(w, '{');
  attend_json_member(w, "layers");
  attend_json_open(w, '[');
  for (int i = r->layers; i >= 0; i--)
    rest[i] = write_shares(w, r->shares + (size_t)i * (size_t)r->tokens, r->tokens, all);
  attend_json_close(w, ']');
  attend_json_member(w, "rest");
  attend_json_open(w, '[');
  for (int i = r->layers; i >= 0; i--) attend_json_put_number(w, rest[i]);
  attend_json_close(w, ']');
  json_number(w, "passed", r->passed);
  attend_json_close(w, '}');
  free(rest);
  free(all);
}

encoded encode_rollout(const attend_view_rollout *r) {
  return (encoded){.write = write_rollout, .of = r};
}

static void write_reach(attend_json_writer *w, const encoded *e) {
  const attend_view_reach *r = e->of;
  attend_json_open(w, '{');
  attend_json_member(w, "layers");
  attend_json_open(w, '[');
  for (int i = r->layers; i >= 0; i--) {
    attend_json_open(w, '[');
    for (int j = 0; j < r->tokens; j++)
      if (r->reached[(size_t)i * (size_t)r->tokens + (size_t)j]) attend_json_put_integer(w, j);
    attend_json_close(w, ']');
  }
  attend_json_close(w, ']');
  attend_json_member(w, "edges");
  attend_json_open(w, '[');
  for (int i = 0; i < r->n_edges; i++) {
    const attend_reach_edge *edge = &r->edges[i];
    attend_json_open(w, '[');
    attend_json_put_integer(w, edge->layer);
    attend_json_put_integer(w, edge->from);
    attend_json_put_integer(w, edge->to);
    attend_json_put_integer(w, edge->head);
    attend_json_close(w, ']');
  }
  attend_json_close(w, ']');
  attend_json_close(w, '}');
}

encoded encode_reach(const attend_view_reach *r) {
  return (encoded){.write = write_reach, .of = r};
}

static void write_differences(attend_json_writer *w, const char *name,
                              const attend_view_comparison *c, size_t at) {
  attend_json_member(w, name);
  if (c->why) {
    attend_json_put_null(w);
    return;
  }
  attend_json_open(w, '[');
  for (int i = 0; i < c->layers; i++) {
    attend_json_open(w, '[');
    for (int j = 0; j < c->heads; j++) {
      const attend_difference *d = &c->difference[i * c->heads + j];
      attend_json_put_number(w, *(const double *)((const char *)d + at));
    }
    attend_json_close(w, ']');
  }
  attend_json_close(w, ']');
}

static void write_comparison(attend_json_writer *w, const encoded *e) {
  const attend_view_comparison *c = e->of;
  attend_json_open(w, '{');
  write_differences(w, "distance", c, offsetof(attend_difference, distance));
  write_differences(w, "entropy", c, offsetof(attend_difference, entropy));
  write_differences(w, "other_entropy", c, offsetof(attend_difference, other_entropy));
  write_differences(w, "output_error", c, offsetof(attend_difference, output));
  attend_json_member(w, "hidden_error");
  if (c->hidden) {
    attend_json_open(w, '[');
    for (int i = 0; i <= c->layers; i++) attend_json_put_number(w, c->hidden[i]);
    attend_json_close(w, ']');
  } else {
    attend_json_put_null(w);
  }
  write_coverage(w, c->rows_sampled, c->rows);
  json_text(w, "why", c->why ? c->why : "");
  attend_json_close(w, '}');
}

encoded encode_comparison(const attend_view_comparison *c) {
  return (encoded){.write = write_comparison, .of = c};
}

/* ---- tokens as vectors ------------------------------------------------------------------------------ */

static void write_candidates(attend_json_writer *w, const encoded *e) {
  const attend_view_candidate *list = e->of;
  const attend_view_model *m = attend_viewer_model(e->v->session, e->model);
  attend_json_open(w, '{');
  attend_json_member(w, "candidates");
  attend_json_open(w, '[');
  for (int i = 0; i < e->count; i++) write_candidate(w, m, &list[i]);
  attend_json_close(w, ']');
  attend_json_close(w, '}');
}

encoded encode_candidates(const viewer *v, int model, const attend_view_candidate *list, int n) {
  return (encoded){.write = write_candidates, .of = list, .v = v, .count = n, .model = model};
}

encoded encode_embeddings(const attend_view_embeddings *e) {
  return (encoded){.n_parts = 2,
                   .part = {{"cosine", PART_F32, 2, {e->rows, e->keys}, e->cosine},
                            {"norm", PART_F32, 1, {e->rows}, e->norm}}};
}

static void write_positions(attend_json_writer *w, const encoded *e) {
  const attend_view_positions *p = e->of;
  json_number(w, "shift_error", p->shift_error);
}

encoded encode_positions(const attend_view_positions *p) {
  int n = p->count, d = p->width;
  return (encoded){.n_parts = p->learned ? 4 : 3,
                   .part = {{"table", PART_F32, 2, {n, d}, p->table},
                            {"cosine", PART_F32, 2, {n, n}, p->cosine},
                            {"shift", PART_F32, 2, {d, d}, p->shift},
                            {"learned", PART_F32, 2, {n, n}, p->learned}},
                   .write = write_positions,
                   .of = p};
}
