/* Answers to the questions of page.h, as JSON, or as numbers in parts with a JSON header.
 * viewer/README.md has the format.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "page/page.h"

typedef enum { PART_F32, PART_F16, PART_U8, PART_I32 } part_type;
enum { MOST_RANK = 4 };

typedef struct {
  const char *name;
  part_type type;
  const void *data; /* floats for F16 and U8 too: they are converted */
  int rank, shape[MOST_RANK];
} view_part;

/* An answer writes its value to w. One with parts leaves its object open: they are the
 * last members. */
struct view_result {
  json_writer *w;
  int n_parts;
  view_part part[6];
  void *memory; /* of the session */
};

static void add_part(view_result *a, view_part p) { a->part[a->n_parts++] = p; }

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

static view_levels levels_of(const view_part *p) {
  return p->type == PART_U8 ? view_levels_of(p->data, part_count(p)) : (view_levels){0, 1};
}

static void put_part(const view_part *p, unsigned char *to) {
  size_t n = part_count(p);
  const float *x = p->data;
  view_levels l = levels_of(p);
  if (p->type == PART_U8)
    for (size_t i = 0; i < n; i++) to[i] = view_level_byte(l, x[i]);
  else if (p->type == PART_F16)
    attend_convert_from_f32(ATTEND_F16, p->data, n, to);
  else
    memcpy(to, p->data, part_bytes(p));
}

static void write_integers(json_writer *w, const char *name, const int32_t *x, int n) {
  json_member(w, name);
  json_open(w, '[');
  for (int i = 0; i < n; i++) json_put_integer(w, x[i]);
  json_close(w, ']');
}

static size_t eight(size_t n) { return (n + 7) / 8 * 8; }

/* The header's list of parts; returns their bytes. */
static size_t write_parts(const view_result *a) {
  static const char *const types[] = {
      [PART_F32] = "f32", [PART_F16] = "f16", [PART_U8] = "u8", [PART_I32] = "i32"};
  json_writer *w = a->w;
  size_t at = 0;
  json_member(w, "parts");
  json_open(w, '[');
  for (int i = 0; i < a->n_parts; i++) {
    const view_part *p = &a->part[i];
    view_levels l = levels_of(p);
    json_open(w, '{');
    json_member_string(w, "name", p->name);
    json_member_string(w, "type", types[p->type]);
    write_integers(w, "shape", p->shape, p->rank < MOST_RANK ? p->rank : MOST_RANK);
    json_member_number(w, "at", (double)at);
    json_member_number(w, "low", l.low);
    json_member_number(w, "scale", l.scale);
    json_close(w, '}');
    at += eight(part_bytes(p));
  }
  json_close(w, ']');
  return at;
}

/* False without memory. */
static bool reply_with_parts(const view_result *a, size_t bytes, view_reply_bytes *reply) {
  size_t header = eight(4 + a->w->length) - 4, at = 4 + header;
  unsigned char *to = calloc(4 + header + bytes, 1);
  if (!to) return false;
  for (int i = 0; i < 4; i++) to[i] = (unsigned char)(header >> (8 * i));
  memset(to + 4, ' ', header);
  memcpy(to + 4, a->w->text, a->w->length);
  for (int i = 0; i < a->n_parts; i++) {
    put_part(&a->part[i], to + at);
    at += eight(part_bytes(&a->part[i]));
  }
  *reply = (view_reply_bytes){true, to, at};
  return true;
}

attend_status view_answer_reply(viewer *v, const view_route *route, const view_query *q,
                                view_reply_bytes *reply) {
  json_writer w = json_writer_text(v->ctx);
  view_result a = {.w = &w};
  size_t bytes = 0;
  attend_status status = route->answer(v, q, &a);
  if (!status && a.n_parts) {
    bytes = write_parts(&a);
    json_close(&w, '}');
  }
  if (!status) status = json_finish(&w);
  if (!status && a.n_parts && !reply_with_parts(&a, bytes, reply)) status = ATTEND_NO_MEMORY;
  if (!status && !a.n_parts) *reply = (view_reply_bytes){false, strdup(w.text), w.length};
  if (!status && !reply->bytes) status = ATTEND_NO_MEMORY;
  json_writer_free(&w);
  attend_viewer_release(v->session, a.memory);
  return status;
}

/* ---- parts as nested lists -------------------------------------------------------------- */

/* Floats are written as what they are: the shortest decimals that read back. */
static void write_float(json_writer *w, float x) {
  char text[32];
  for (int digits = 6; digits <= 9; digits++) {
    snprintf(text, sizeof text, "%.*g", digits, (double)x);
    if (strtof(text, NULL) == x) break;
  }
  json_put_number(w, strtod(text, NULL));
}

/* What the page reads from the part. */
static float part_at(const view_part *p, view_levels l, size_t i) {
  float x;
  unsigned char half[2];
  if (p->type == PART_I32) return (float)((const int32_t *)p->data)[i];
  x = ((const float *)p->data)[i];
  if (p->type == PART_U8) return view_level_value(l, view_level_byte(l, x));
  if (p->type != PART_F16) return x;
  attend_convert_from_f32(ATTEND_F16, &x, 1, half);
  attend_convert_to_f32(ATTEND_F16, half, 1, &x);
  return x;
}

/* Writes the numbers from `at` on; returns where the next ones are. */
static size_t write_nested(json_writer *w, const view_part *p, view_levels l, int dim, size_t at) {
  json_open(w, '[');
  for (int i = 0; i < p->shape[dim]; i++)
    if (dim + 1 < p->rank && dim + 1 < MOST_RANK)
      at = write_nested(w, p, l, dim + 1, at);
    else
      write_float(w, part_at(p, l, at++));
  json_close(w, ']');
  return at;
}

attend_status view_answer_write(viewer *v, const view_route *route, const view_query *q,
                                json_writer *w) {
  view_result a = {.w = w};
  attend_status status = route->answer(v, q, &a);
  for (int i = 0; i < a.n_parts; i++) {
    json_member(w, a.part[i].name);
    write_nested(w, &a.part[i], levels_of(&a.part[i]), 0, 0);
  }
  if (a.n_parts) json_close(w, '}');
  attend_viewer_release(v->session, a.memory);
  return status;
}

/* ---- models, cases, runs -------------------------------------------------------------------- */

static void put_token(json_writer *w, const attend_viewer_model *m, int32_t id) {
  char text[ATTEND_VIEWER_TOKEN];
  size_t n = attend_viewer_token_text(m, id, text);
  json_put_bytes(w, text, n);
}

static void put_label(json_writer *w, const attend_viewer_model *m, int32_t id) {
  char label[ATTEND_VIEWER_TOKEN];
  attend_viewer_token_label(m, id, label);
  json_put_string(w, label);
}

/* A token: its piece, and how it is shown. */
static void write_token(json_writer *w, const attend_viewer_model *m, int32_t id) {
  json_member_number(w, "id", id);
  json_member(w, "text");
  put_token(w, m, id);
  json_member(w, "label");
  put_label(w, m, id);
}

/* A model's id: its index in text. */
static void write_id(json_writer *w, const char *name, int model) {
  char id[12];
  snprintf(id, sizeof id, "%d", model);
  json_member_string(w, name, id);
}

void write_model(json_writer *w, const viewer *v, int model) {
  static const char *const parts[] = {"", "encoder", "decoder", "both"};
  static const char *const positions[] = {"learned", "sinusoidal", "rotary", "buckets"};
  const attend_viewer_model *m = attend_viewer_get_model(v->session, model);
  const attend_config *c = m->config;
  const attend_parts sides = attend_config_parts(c);
  const attend_stack *s =
      attend_config_stack(c, sides & ATTEND_ENCODER ? ATTEND_ENCODER : ATTEND_DECODER);
  json_open(w, '{');
  write_id(w, "id", model);
  json_member_string(w, "name", m->name);
  json_member_string(w, "family", attend_config_family(c));
  json_member_string(w, "parts", parts[sides]);
  json_member_number(w, "layers", s->layers);
  json_member_number(w, "heads", s->heads);
  json_member_number(w, "context", attend_config_get(c, ATTEND_CONFIG_POSITIONS));
  json_member_boolean(w, "writes", sides & ATTEND_DECODER && !m->run);
  json_member_boolean(w, "fills", sides == ATTEND_ENCODER && !m->run);
  json_member_boolean(w, "pairs", sides == ATTEND_ENCODER && m->tokenizer);
  json_member_boolean(w, "words", m->tokenizer != NULL);
  json_member_string(w, "positions", positions[attend_config_get(c, ATTEND_CONFIG_POSITION)]);
  json_member_boolean(w, "tensors", m->run != NULL);
  write_lacks(w, v, model);
  json_close(w, '}');
}

static void write_case(json_writer *w, const attend_viewer_case *c) {
  json_open(w, '{');
  write_id(w, "model", c->model);
  json_member_string(w, "text", c->text ? c->text : "");
  json_member_string(w, "second", c->second);
  json_member_string(w, "attention", c->attention);
  json_member_boolean(w, "untrained", c->untrained);
  json_member(w, "seed");
  json_put_integer(w, (int64_t)c->seed);
  json_member_number(w, "pad", c->pad);
  json_member_number(w, "step", c->step);
  json_member_string(w, "changes", c->changes ? c->changes : "");
  json_member_string(w, "from", c->from);
  json_close(w, '}');
}

void write_state(json_writer *w, const view_state *s) {
  json_open(w, '{');
  json_member_string(w, "view", s->view);
  json_member(w, "case");
  write_case(w, &s->c);
  json_member(w, "other");
  if (s->has_other)
    write_case(w, &s->other);
  else
    json_put_null(w);
  json_member_string(w, "role", s->role);
  json_member_number(w, "layer", s->layer < 0 ? 0 : s->layer);
  json_member_number(w, "head", s->head < 0 ? 0 : s->head);
  write_integers(w, "heads", s->heads, s->n_heads);
  json_member_number(w, "token", s->token);
  json_member_number(w, "key", s->key);
  json_member_number(w, "other_layer", s->other_layer);
  json_member_number(w, "other_head", s->other_head);
  json_member_number(w, "other_token", s->other_token);
  json_member_string(w, "filter", s->filter);
  json_member_string(w, "pool", s->pool);
  json_member_string(w, "way", s->way);
  json_member_string(w, "form", s->form);
  json_member_string(w, "sort", s->sort);
  json_member_number(w, "target", s->target);
  json_member_number(w, "against", s->against);
  json_member_string(w, "method", s->method);
  json_member_string(w, "metric", s->metric);
  json_member_boolean(w, "sweep", s->sweep);
  json_member_string(w, "change", s->change);
  json_member_string(w, "point", s->point);
  json_close(w, '}');
}

static void write_side(json_writer *w, const attend_viewer_model *m, const attend_viewer_side *s) {
  json_open(w, '{');
  json_member(w, "tokens");
  json_open(w, '[');
  for (int i = 0; i < s->n; i++) put_token(w, m, s->ids[i]);
  json_close(w, ']');
  json_member(w, "labels");
  json_open(w, '[');
  for (int i = 0; i < s->n; i++) put_label(w, m, s->ids[i]);
  json_close(w, ']');
  write_integers(w, "ids", s->ids, s->n);
  json_member(w, "part");
  json_open(w, '[');
  for (int i = 0; i < s->n; i++) json_put_integer(w, s->part[i]);
  json_close(w, ']');
  json_member(w, "special");
  json_open(w, '[');
  for (int i = 0; i < s->n; i++)
    if (m->run ? s->part[i] < 0
               : m->tokenizer && attend_tokenizer_is_special(m->tokenizer, s->ids[i]))
      json_put_integer(w, i);
  json_close(w, ']');
  json_member_number(w, "real", s->real);
  json_close(w, '}');
}

/* Of cross-attention: what each step of the decoder writes. */
static void write_row_labels(json_writer *w, const attend_viewer_model *m,
                             const attend_viewer_run *run) {
  json_member(w, "row_labels");
  json_open(w, '[');
  for (int i = 0; i < run->shape[ATTEND_CROSS].rows; i++) {
    char label[ATTEND_VIEWER_TOKEN];
    attend_viewer_row_label(m, run, ATTEND_CROSS, i, label);
    json_put_string(w, label);
  }
  json_close(w, ']');
}

static void write_role(json_writer *w, const attend_viewer_model *m, attend_role role,
                       const attend_viewer_run *run) {
  const attend_lens_shape *s = &run->shape[role];
  const picture_about about = {.form = s->given ? "" : run->c.attention,
                               .role = attend_role_name(role)};
  bool cross = role == ATTEND_CROSS;
  char words[PICTURE_WORDS];
  json_open(w, '{');
  json_member_string(w, "role", attend_role_name(role));
  json_member_string(w, "words", picture_attention(&about, words));
  json_member_number(w, "layers", s->layers);
  json_member_number(w, "heads", s->heads);
  json_member_number(w, "kv_heads", s->kv_heads);
  json_member_number(w, "rows", s->rows);
  json_member_number(w, "keys", s->keys);
  if (cross) write_row_labels(w, m, run);
  json_member_string(w, "row_side", cross ? "decoder" : attend_role_name(role));
  json_member_string(w, "key_side", cross ? "encoder" : attend_role_name(role));
  json_member_number(w, "dim", s->dim);
  json_member_number(w, "dim_v", s->dim_v);
  json_member_number(w, "scale", (double)s->scale);
  json_member_boolean(w, "causal", s->causal);
  json_member_number(w, "window", s->window);
  json_member_number(w, "real_keys", s->real_keys);
  json_member_boolean(w, "signed", s->is_signed);
  json_member_boolean(w, "bias", s->biased);
  json_close(w, '}');
}

static void write_candidates(json_writer *w, const attend_viewer_model *m,
                             const attend_viewer_candidate *list, int n) {
  json_member(w, "candidates");
  json_open(w, '[');
  for (int i = 0; i < n; i++) {
    json_open(w, '{');
    write_token(w, m, list[i].id);
    json_member_number(w, "p", list[i].p);
    json_close(w, '}');
  }
  json_close(w, ']');
}

void write_step(json_writer *w, const attend_viewer_model *m, const attend_viewer_step *s) {
  json_open(w, '{');
  write_token(w, m, s->id);
  json_member_number(w, "p", s->p);
  json_member_number(w, "position", s->position);
  write_candidates(w, m, s->candidate, s->n);
  json_member_number(w, "cache_bytes", (double)s->cache_bytes);
  json_member_number(w, "length", s->length);
  json_close(w, '}');
}

void write_run(json_writer *w, const viewer *v, const attend_viewer_run *run) {
  static const char *const sides[] = {"encoder", "decoder"};
  const attend_viewer_model *m = attend_viewer_get_model(v->session, run->c.model);
  json_open(w, '{');
  json_member_string(w, "run", run->id);
  json_member(w, "case");
  write_case(w, &run->c);
  json_member(w, "model");
  write_model(w, v, run->c.model);
  json_member_number(w, "seconds", run->seconds);
  json_member_number(w, "bytes", (double)run->bytes);
  json_member(w, "sides");
  json_open(w, '{');
  for (int i = 0; i < 2; i++) {
    if (!run->side[i].n) continue;
    json_member(w, sides[i]);
    write_side(w, m, &run->side[i]);
  }
  json_close(w, '}');
  json_member(w, "roles");
  json_open(w, '[');
  for (int i = 0; i < ATTEND_ROLES; i++)
    if (run->has_role[i]) write_role(w, m, (attend_role)i, run);
  json_close(w, ']');
  json_member(w, "from");
  if (run->from.n)
    write_side(w, m, &run->from);
  else
    json_put_null(w);
  json_member_string(w, "notice", run->notice);
  json_member_number(w, "generated", run->generated);
  json_member(w, "steps");
  json_open(w, '[');
  for (int i = 0; i < run->n_steps; i++) write_step(w, m, &run->steps[i]);
  json_close(w, ']');
  json_close(w, '}');
}

/* ---- a training run --------------------------------------------------------------------------- */

enum { POINTS = 300 }; /* of a curve */

/* A list of numbers. */
static void put_numbers(json_writer *w, const double *x, int n) {
  json_open(w, '[');
  for (int i = 0; i < n; i++) json_put_number(w, x[i]);
  json_close(w, ']');
}

/* The mean, least and most of some lines of the log. */
static void write_point(json_writer *w, const attend_log_point *p, size_t n) {
  double sum = 0, low = p[0].loss, high = p[0].loss;
  for (size_t i = 0; i < n; i++) {
    sum += p[i].loss;
    if (p[i].loss < low) low = p[i].loss;
    if (p[i].loss > high) high = p[i].loss;
  }
  double middle = n == 1 ? p[0].step : (p[0].step + p[n - 1].step) / 2;
  put_numbers(w, (double[]){middle, sum / (double)n, low, high}, 4);
}

static void write_curve(json_writer *w, const char *name, const attend_log_curve *curve) {
  size_t n = curve->count < POINTS ? curve->count : POINTS;
  json_member(w, name);
  json_open(w, '[');
  for (size_t i = 0; i < n; i++) {
    size_t from = i * curve->count / n, to = (i + 1) * curve->count / n;
    write_point(w, curve->at + from, to - from);
  }
  json_close(w, ']');
}

void write_training(json_writer *w, const viewer *v) {
  const attend_training_run *run = v->training;
  if (!run) {
    json_put_null(w);
    return;
  }
  int count;
  const int *steps = attend_training_run_steps(run, &count);
  const int best = attend_training_run_best(run), last = attend_training_run_last(run);
  json_open(w, '{');
  json_member_string(w, "model", "0");
  write_integers(w, "steps", v->n_kept ? v->kept : steps, v->n_kept ? v->n_kept : count);
  json_member_number(w, "left_out", v->n_kept ? count - v->n_kept : 0);
  json_member_number(w, "best", best < 0 ? NAN : best);
  json_member_number(w, "last", last < 0 ? NAN : last);
  write_curve(w, "loss", attend_training_run_loss(run));
  write_curve(w, "valid", attend_training_run_valid(run));
  json_close(w, '}');
}

static attend_status answer_hello(viewer *v, const view_query *q, view_result *a) {
  (void)q;
  write_hello(a->w, v);
  return ATTEND_OK;
}

static attend_status answer_training(viewer *v, const view_query *q, view_result *a) {
  (void)q;
  write_training(a->w, v);
  return ATTEND_OK;
}

static attend_status answer_run(viewer *v, const view_query *q, view_result *a) {
  const attend_viewer_run *run;
  attend_status status = attend_viewer_run_case(v->session, &q->c, q->listener, &run);
  if (!status) write_run(a->w, v, run);
  return status;
}

static attend_status answer_generate(viewer *v, const view_query *q, view_result *a) {
  const attend_viewer_run *run;
  attend_status status = attend_viewer_generate(v->session, &q->c, &q->generate, q->listener, &run);
  if (!status) write_run(a->w, v, run);
  return status;
}

/* ---- heads -------------------------------------------------------------------------------------- */

static void write_coverage(json_writer *w, int looked, int rows) {
  json_member_number(w, "rows_looked", looked);
  json_member_number(w, "rows", rows);
}

static attend_status answer_thumbs(viewer *v, const view_query *q, view_result *a) {
  attend_viewer_thumbs t;
  attend_status status = attend_viewer_get_thumbs(v->session, &q->head, q->size, &t);
  if (status) return status;
  a->memory = t.memory;
  json_open(a->w, '{');
  write_coverage(a->w, t.rows_sampled, t.rows);
  add_part(a, (view_part){"cells", PART_U8, t.cells, 4, {t.layers, t.heads, t.height, t.width}});
  add_part(a, (view_part){"most", PART_F32, t.max, 2, {t.layers, t.heads}});
  return ATTEND_OK;
}

static void write_names(json_writer *w, const char *name, const char *(*of)(attend_head_pattern)) {
  json_member(w, name);
  json_open(w, '[');
  for (int i = 0; i < ATTEND_HEAD_PATTERNS; i++) json_put_string(w, of((attend_head_pattern)i));
  json_close(w, ']');
}

/* One value of each of [layers, heads] structs. */
typedef void (*put_value)(json_writer *w, const void *of);

static void write_heads(json_writer *w, const char *name, int layers, int heads, const void *of,
                        size_t size, put_value put) {
  json_member(w, name);
  json_open(w, '[');
  for (int i = 0; i < layers; i++) {
    json_open(w, '[');
    for (int j = 0; j < heads; j++) put(w, (const char *)of + (size_t)(i * heads + j) * size);
    json_close(w, ']');
  }
  json_close(w, ']');
}

static void put_scores(json_writer *w, const void *of) {
  put_numbers(w, ((const attend_pattern_scores *)of)->score, ATTEND_HEAD_PATTERNS);
}
static void put_pattern(json_writer *w, const void *of) {
  int pattern = ((const attend_pattern_scores *)of)->pattern;
  json_put_string(w, pattern < 0 ? "" : attend_head_pattern_name((attend_head_pattern)pattern));
}
static void put_double(json_writer *w, const void *of) { json_put_number(w, *(const double *)of); }

static attend_status answer_patterns(viewer *v, const view_query *q, view_result *a) {
  attend_viewer_patterns p;
  attend_status status = attend_viewer_get_patterns(v->session, &q->head, &p);
  json_writer *w = a->w;
  const size_t size = sizeof *p.scores;
  if (status) return status;
  a->memory = p.memory;
  json_open(w, '{');
  write_names(w, "names", attend_head_pattern_name);
  write_names(w, "labels", view_pattern_label);
  write_names(w, "about", attend_head_pattern_about);
  write_heads(w, "scores", p.layers, p.heads, p.scores, size, put_scores);
  write_heads(w, "does", p.layers, p.heads, p.scores, size, put_pattern);
  write_heads(w, "entropy", p.layers, p.heads, &p.scores->entropy, size, put_double);
  write_coverage(w, p.rows_sampled, p.rows);
  json_close(w, '}');
  return ATTEND_OK;
}

/* ---- two models; two texts ----------------------------------------------------------------------- */

static void write_span(json_writer *w, const char *name, attend_viewer_span s) {
  json_member(w, name);
  json_open(w, '[');
  json_put_integer(w, s.from);
  json_put_integer(w, s.n);
  json_close(w, ']');
}

static void write_counts(json_writer *w, const attend_viewer_summary *s) {
  json_member(w, "counts");
  json_open(w, '[');
  for (int l = 0; l <= s->layers; l++) {
    json_open(w, '[');
    for (int k = 0; k <= ATTEND_HEAD_PATTERNS; k++) json_put_integer(w, s->layer[l].count[k]);
    json_close(w, ']');
  }
  json_close(w, ']');
}

static void write_means(json_writer *w, const char *name, const attend_viewer_summary *s,
                        size_t at) {
  json_member(w, name);
  json_open(w, '[');
  for (int l = 0; l <= s->layers; l++)
    json_put_number(w, *(const double *)((const char *)&s->layer[l] + at));
  json_close(w, ']');
}

static void write_best(json_writer *w, const attend_viewer_summary *s) {
  json_member(w, "best");
  json_open(w, '[');
  for (int k = 0; k < ATTEND_HEAD_PATTERNS; k++) {
    json_open(w, '[');
    for (int i = 0; i < ATTEND_VIEWER_BEST && s->best[k][i] >= 0; i++) {
      int at = s->best[k][i];
      put_numbers(w, (double[]){at / s->heads, at % s->heads, s->best_score[k][i]}, 3);
    }
    json_close(w, ']');
  }
  json_close(w, ']');
}

static void write_summary(json_writer *w, const char *name, attend_role role,
                          const attend_viewer_summary *s) {
  json_member(w, name);
  json_open(w, '{');
  json_member_string(w, "role", attend_role_name(role));
  json_member_number(w, "layers", s->layers);
  json_member_number(w, "heads", s->heads);
  json_member_boolean(w, "causal", s->causal);
  json_member_number(w, "visible", s->visible);
  write_counts(w, s);
  write_means(w, "entropy", s, offsetof(attend_pattern_summary, entropy));
  write_means(w, "broad", s, offsetof(attend_pattern_summary, broad));
  write_means(w, "later", s, offsetof(attend_pattern_summary, later));
  write_best(w, s);
  write_coverage(w, s->rows_sampled, s->rows);
  json_close(w, '}');
}

static void write_depth(json_writer *w, int layers, int others) {
  json_member(w, "depth");
  json_open(w, '[');
  for (int i = 0; i < layers || i < others; i++) {
    int a, b;
    attend_viewer_depth(layers, others, i, &a, &b);
    put_numbers(w, (double[]){a, b}, 2);
  }
  json_close(w, ']');
}

static attend_status answer_beside(viewer *v, const view_query *q, view_result *a) {
  attend_viewer_summary s, o = {0};
  const attend_viewer_run *other = q->other ? q->other : q->head.run;
  attend_role beside = attend_viewer_role_beside(other, q->head.at.role);
  attend_viewer_head second = {.run = other, .at.role = beside};
  attend_status status = attend_viewer_get_summary(v->session, &q->head, &s);
  if (status) return status;
  a->memory = s.memory;
  status = attend_viewer_get_summary(v->session, &second, &o);
  if (status) return status;
  json_writer *w = a->w;
  json_open(w, '{');
  write_names(w, "names", attend_head_pattern_name);
  write_names(w, "labels", view_pattern_label);
  write_names(w, "about", attend_head_pattern_about);
  write_summary(w, "first", q->head.at.role, &s);
  write_summary(w, "second", beside, &o);
  write_depth(w, s.layers, o.layers);
  json_close(w, '}');
  attend_viewer_release(v->session, o.memory);
  return ATTEND_OK;
}

static attend_status answer_words(viewer *v, const view_query *q, view_result *a) {
  static const float none = 0;
  attend_viewer_words x;
  attend_status status = attend_viewer_get_words(v->session, &q->head, q->other, &x);
  json_writer *w = a->w;
  if (status) return status;
  a->memory = x.memory;
  json_open(w, '{');
  json_member_string(w, "why", x.why ? x.why : "");
  json_member(w, "words");
  json_open(w, '[');
  for (int i = 0; i < x.words; i++)
    json_put_bytes(w, x.text + x.start[i], (size_t)(x.end[i] - x.start[i]));
  json_close(w, ']');
  write_integers(w, "of", x.of, x.tokens);
  int n = x.words;
  add_part(a, (view_part){"weights", PART_F32, n ? x.weights : &none, 2, {n, n ? n + 1 : 0}});
  return ATTEND_OK;
}

static void write_cosines(json_writer *w, const char *name, const attend_viewer_word_pair *p,
                          const double *x) {
  if (p->why)
    json_member_string(w, name, NULL);
  else
    write_heads(w, name, p->layers, p->heads, x, sizeof *x, put_double);
}

static attend_status answer_word(viewer *v, const view_query *q, view_result *a) {
  attend_viewer_word_pair p;
  attend_status status = attend_viewer_get_word_pair(v->session, q->head.run, q->other, q->side,
                                                     q->token, q->other_token, &p);
  json_writer *w = a->w;
  if (status) return status;
  a->memory = p.memory;
  json_open(w, '{');
  json_member_string(w, "why", p.why ? p.why : "");
  write_span(w, "word", p.word);
  write_span(w, "other", p.other);
  json_member_boolean(w, "same", p.same);
  json_member(w, "cosine");
  if (p.why)
    json_put_null(w);
  else
    put_numbers(w, p.hidden, p.layers + 1);
  write_cosines(w, "q", &p, p.q);
  write_cosines(w, "k", &p, p.k);
  write_cosines(w, "v", &p, p.v);
  json_close(w, '}');
  return ATTEND_OK;
}

/* b -= the same head's weights in the run, or under the form, that is taken away. */
static attend_status subtract_block(viewer *v, const view_query *q, attend_viewer_block *b) {
  attend_viewer_head other = {q->minus, q->head.at, q->minus_form};
  attend_viewer_block x;
  attend_status status = attend_viewer_get_block(v->session, &other, &q->range, &x);
  if (status) return status;
  for (size_t i = 0; i < (size_t)b->rows * (size_t)b->keys; i++) b->weights[i] -= x.weights[i];
  attend_viewer_release(v->session, x.memory);
  return ATTEND_OK;
}

static attend_status answer_block(viewer *v, const view_query *q, view_result *a) {
  attend_viewer_block b;
  attend_status status = attend_viewer_get_block(v->session, &q->head, &q->range, &b);
  if (!status && q->minus) status = subtract_block(v, q, &b);
  if (status) {
    attend_viewer_release(v->session, b.memory);
    return status;
  }
  a->memory = b.memory;
  json_open(a->w, '{');
  add_part(a, (view_part){"weights", PART_F32, b.weights, 2, {b.rows, b.keys}});
  return ATTEND_OK;
}

static attend_status answer_stats(viewer *v, const view_query *q, view_result *a) {
  attend_viewer_stats s;
  attend_status status = attend_viewer_get_stats(v->session, &q->head, &s);
  if (status) return status;
  a->memory = s.memory;
  json_open(a->w, '{');
  add_part(a, (view_part){"entropy", PART_F32, s.entropy, 1, {s.rows}});
  add_part(a, (view_part){"top", PART_I32, s.top, 1, {s.rows}});
  add_part(a, (view_part){"top_weight", PART_F32, s.top_weight, 1, {s.rows}});
  add_part(a, (view_part){"mass", PART_F32, s.mass, 1, {s.keys}});
  return ATTEND_OK;
}

static attend_status answer_vectors(viewer *v, const view_query *q, view_result *a) {
  attend_viewer_vectors x;
  attend_status status = attend_viewer_get_vectors(v->session, &q->head, &q->range, &x);
  if (status) return status;
  a->memory = x.memory;
  json_open(a->w, '{');
  json_member_number(a->w, "scale", (double)x.scale);
  json_member_string(a->w, "form", q->head.form ? q->head.form : q->head.run->c.attention);
  add_part(a, (view_part){"q", PART_F32, x.q, 2, {x.rows, x.dim}});
  add_part(a, (view_part){"k", PART_F32, x.k, 2, {x.keys, x.dim}});
  add_part(a, (view_part){"v", PART_F32, x.v, 2, {x.keys, x.dim_v}});
  add_part(a, (view_part){"out", PART_F32, x.out, 2, {x.rows, x.dim_v}});
  add_part(a, (view_part){"lse", PART_F32, x.lse, 1, {x.rows}});
  add_part(a, (view_part){"weights", PART_F32, x.weights, 2, {x.rows, x.keys}});
  return ATTEND_OK;
}

static attend_viewer_place place_of(const view_query *q) {
  return (attend_viewer_place){.head = q->head,
                               .level = q->level,
                               .x = q->x,
                               .y = q->y,
                               .pool = q->pool,
                               .minus = q->minus,
                               .minus_form = q->minus_form};
}

static attend_status answer_tile(viewer *v, const view_query *q, view_result *a) {
  attend_viewer_place place = place_of(q);
  attend_viewer_tile t;
  attend_status status = attend_viewer_get_tile(v->session, &place, &t);
  if (status) return status;
  a->memory = t.memory;
  json_open(a->w, '{');
  json_member_boolean(a->w, "exact", t.exact);
  json_member_number(a->w, "rows_each", t.rows_each);
  add_part(a, (view_part){"cells", q->level ? PART_U8 : PART_F16, t.cells, 2, {t.height, t.width}});
  return ATTEND_OK;
}

static attend_status answer_refine(viewer *v, const view_query *q, view_result *a) {
  attend_viewer_place place = place_of(q);
  attend_status status = attend_viewer_refine(v->session, &place, q->listener);
  if (status) return status;
  json_open(a->w, '{');
  json_close(a->w, '}');
  return ATTEND_OK;
}

/* ---- through the layers; two runs ------------------------------------------------------------------ */

enum { MOST_SHARES = 256 };

typedef struct {
  float share;
  int index;
} share;

static int by_index(const void *x, const void *y) {
  const share *a = x, *b = y;
  return (a->index > b->index) - (a->index < b->index);
}
static int larger_share(const void *x, const void *y) {
  const share *a = x, *b = y;
  if (a->share != b->share) return a->share < b->share ? 1 : -1;
  return by_index(x, y);
}

/* The largest shares of a layer, by index; returns the sum of the others. */
static double write_shares(json_writer *w, const float *row, int n, share *all) {
  double sum = 0, written = 0;
  int max = n < MOST_SHARES ? n : MOST_SHARES;
  for (int i = 0; i < n; i++) {
    all[i] = (share){row[i], i};
    sum += (double)row[i];
  }
  qsort(all, (size_t)n, sizeof *all, larger_share);
  while (max > 0 && all[max - 1].share <= 0) max--;
  qsort(all, (size_t)max, sizeof *all, by_index);
  json_open(w, '[');
  for (int i = 0; i < max; i++) {
    written += (double)all[i].share;
    put_numbers(w, (double[]){all[i].index, (double)all[i].share}, 2);
  }
  json_close(w, ']');
  return fmax(0, sum - written);
}

static void write_links(json_writer *w, const attend_viewer_rollout *r) {
  json_member(w, "links");
  json_open(w, '[');
  for (int i = 0; i < r->n_links; i++) {
    const attend_viewer_link *l = &r->links[i];
    put_numbers(w, (double[]){l->layer, l->from, l->to, (double)l->share}, 4);
  }
  json_close(w, ']');
}

/* From the last layer down to the input. */
static attend_status answer_rollout(viewer *v, const view_query *q, view_result *a) {
  attend_viewer_rollout r;
  attend_status status = attend_viewer_get_rollout(v->session, &q->head, q->token, &r);
  if (status) return status;
  a->memory = r.memory;
  share *all = calloc((size_t)r.tokens, sizeof *all);
  double *rest = calloc((size_t)r.layers + 1, sizeof *rest);
  if (all && rest) {
    json_open(a->w, '{');
    json_member(a->w, "layers");
    json_open(a->w, '[');
    for (int i = r.layers; i >= 0; i--)
      rest[r.layers - i] =
          write_shares(a->w, r.shares + (size_t)i * (size_t)r.tokens, r.tokens, all);
    json_close(a->w, ']');
    write_links(a->w, &r);
    json_member(a->w, "rest");
    put_numbers(a->w, rest, r.layers + 1);
    json_member_number(a->w, "passed", r.passed);
    json_close(a->w, '}');
  } else {
    status = ATTEND_NO_MEMORY;
  }
  free(rest);
  free(all);
  return status;
}

static attend_status answer_reach(viewer *v, const view_query *q, view_result *a) {
  attend_viewer_reach r;
  attend_status status = attend_viewer_get_reach(v->session, &q->head, q->token, &r);
  json_writer *w = a->w;
  if (status) return status;
  a->memory = r.memory;
  json_open(w, '{');
  json_member(w, "layers");
  json_open(w, '[');
  for (int i = r.layers; i >= 0; i--) {
    json_open(w, '[');
    for (int j = 0; j < r.tokens; j++)
      if (r.reached[(size_t)i * (size_t)r.tokens + (size_t)j]) json_put_integer(w, j);
    json_close(w, ']');
  }
  json_close(w, ']');
  json_member(w, "edges");
  json_open(w, '[');
  for (int i = 0; i < r.n_edges; i++) {
    const attend_reach_edge *e = &r.edges[i];
    put_numbers(w, (double[]){e->layer, e->from, e->to, e->head}, 4);
  }
  json_close(w, ']');
  json_close(w, '}');
  return ATTEND_OK;
}

static attend_status answer_flow(viewer *v, const view_query *q, view_result *a) {
  return strcmp(q->way, "argmax") ? answer_rollout(v, q, a) : answer_reach(v, q, a);
}

static attend_status answer_compare(viewer *v, const view_query *q, view_result *a) {
  attend_viewer_comparison c;
  attend_status status = attend_viewer_compare(v->session, &q->head, q->other, &c);
  json_writer *w = a->w;
  if (status) return status;
  a->memory = c.memory;
  const struct {
    const char *name;
    size_t at;
  } values[] = {{"distance", offsetof(attend_difference, distance)},
                {"entropy", offsetof(attend_difference, entropy)},
                {"other_entropy", offsetof(attend_difference, other_entropy)},
                {"output_error", offsetof(attend_difference, output)}};
  json_open(w, '{');
  for (int i = 0; i < 4; i++)
    if (c.why)
      json_member_string(w, values[i].name, NULL);
    else
      write_heads(w, values[i].name, c.layers, c.heads, (const char *)c.difference + values[i].at,
                  sizeof *c.difference, put_double);
  json_member(w, "hidden_error");
  if (c.hidden)
    put_numbers(w, c.hidden, c.layers + 1);
  else
    json_put_null(w);
  write_coverage(w, c.rows_sampled, c.rows);
  json_member_string(w, "why", c.why ? c.why : "");
  json_close(w, '}');
  return ATTEND_OK;
}

/* ---- interventions and attributions --------------------------------------------------------------- */

static const attend_viewer_model *model_of(viewer *v, const attend_viewer_run *run) {
  return attend_viewer_get_model(v->session, run->c.model);
}

/* -1: none. */
static void put_target(json_writer *w, const attend_viewer_model *m, int32_t id) {
  if (id >= 0)
    put_label(w, m, id);
  else
    json_put_string(w, "");
}

static void write_target(json_writer *w, const attend_viewer_model *m, const attend_target *t) {
  json_member(w, "target");
  json_open(w, '{');
  json_member_number(w, "position", t->position);
  json_member_number(w, "token", t->token);
  json_member(w, "label");
  put_target(w, m, t->token);
  json_member_number(w, "against", t->against);
  json_member(w, "against_label");
  put_target(w, m, t->against);
  json_close(w, '}');
}

static void write_shift(json_writer *w, const attend_viewer_model *m,
                        const attend_viewer_shift *x) {
  json_open(w, '{');
  json_member_number(w, "id", x->id);
  json_member(w, "text");
  put_token(w, m, x->id);
  json_member(w, "label");
  put_label(w, m, x->id);
  json_member_number(w, "p", x->p);
  json_member_number(w, "before", x->before);
  json_member_number(w, "logit", (double)x->logit);
  json_member_number(w, "logit_before", (double)x->logit_before);
  json_close(w, '}');
}

static attend_status answer_effect(viewer *v, const view_query *q, view_result *a) {
  attend_viewer_effect e;
  const attend_viewer_run *run = q->head.run;
  attend_status status = attend_viewer_get_effect(v->session, run, q->before ? q->before : run,
                                                  &q->target, q->top, &e);
  json_writer *w = a->w;
  if (status) return status;
  a->memory = e.memory;
  json_open(w, '{');
  write_target(w, model_of(v, run), &e.target);
  json_member_number(w, "value", e.value);
  json_member_number(w, "before", e.before);
  json_member_number(w, "loss", e.loss);
  json_member_number(w, "loss_before", e.loss_before);
  json_member_number(w, "divergence", e.divergence);
  json_member_number(w, "state", e.state);
  json_member_boolean(w, "has_head", e.has_head);
  json_member_number(w, "rows", e.rows);
  json_member(w, "tokens");
  json_open(w, '[');
  for (int i = 0; i < e.n; i++) write_shift(w, model_of(v, run), &e.shift[i]);
  json_close(w, ']');
  json_close(w, '}');
  return ATTEND_OK;
}

static attend_status answer_sweep(viewer *v, const view_query *q, view_result *a) {
  attend_viewer_sweep_options o = q->sweep;
  attend_viewer_map map;
  o.size = sizeof o;
  o.target = q->target;
  o.role = q->head.at.role;
  attend_status status = attend_viewer_sweep(v->session, q->head.run, &o, q->listener, &map);
  json_writer *w = a->w;
  if (status) return status;
  a->memory = map.memory;
  json_open(w, '{');
  write_target(w, model_of(v, q->head.run), &map.target);
  json_member_number(w, "layers", map.layers);
  json_member_number(w, "columns", map.columns);
  json_member_number(w, "before", map.before);
  write_heads(w, "map", map.layers, map.columns, map.map, sizeof *map.map, put_double);
  json_close(w, '}');
  return ATTEND_OK;
}

static void put_real(json_writer *w, const void *of) { write_float(w, *(const float *)of); }

/* rows lists of numbers; x NULL: null. */
static void write_floats(json_writer *w, const char *name, const float *x, int rows, int columns) {
  if (x)
    write_heads(w, name, rows, columns, x, sizeof *x, put_real);
  else
    json_member_string(w, name, NULL);
}

static void write_list(json_writer *w, const char *name, const float *x, int n) {
  if (!x) {
    json_member_string(w, name, NULL);
    return;
  }
  json_member(w, name);
  json_open(w, '[');
  for (int i = 0; i < n; i++) write_float(w, x[i]);
  json_close(w, ']');
}

static attend_status answer_attribute(viewer *v, const view_query *q, view_result *a) {
  attend_viewer_attribution x;
  attend_viewer_attribute_options o = {ATTEND_INIT(attend_viewer_attribute_options),
                                       .method = q->method, .target = q->target, .at = q->head.at};
  attend_status status = attend_viewer_attribute(v->session, q->head.run, &o, q->listener, &x);
  json_writer *w = a->w;
  if (status) return status;
  a->memory = x.memory;
  json_open(w, '{');
  write_target(w, model_of(v, q->head.run), &x.target);
  json_member_number(w, "logit", x.logit);
  json_member_number(w, "baseline", x.baseline);
  json_member_number(w, "sum", x.sum);
  json_member_number(w, "steps", x.steps);
  write_list(w, "scores", x.scores, x.n);
  write_floats(w, "heads", x.head, x.layers, x.heads);
  write_floats(w, "cross", x.cross, x.layers, x.heads);
  write_list(w, "mlps", x.mlp, x.layers);
  json_member_number(w, "embedding", x.embedding);
  json_member_number(w, "rest", x.rest);
  write_floats(w, "map", x.map, x.rows, x.keys);
  json_close(w, '}');
  return ATTEND_OK;
}

static void write_lens_cell(json_writer *w, const attend_viewer_model *m,
                            const attend_viewer_logit_lens *l, size_t at) {
  json_open(w, '[');
  for (int i = 0; i < l->top; i++) {
    json_open(w, '{');
    json_member_number(w, "id", l->token[at + (size_t)i]);
    json_member(w, "label");
    put_label(w, m, l->token[at + (size_t)i]);
    json_member_number(w, "p", l->p[at + (size_t)i]);
    json_close(w, '}');
  }
  json_close(w, ']');
}

static attend_status answer_lens(viewer *v, const view_query *q, view_result *a) {
  attend_viewer_logit_lens l;
  attend_status status =
      attend_viewer_get_logit_lens(v->session, q->head.run, &q->range, q->top, q->listener, &l);
  json_writer *w = a->w;
  if (status) return status;
  a->memory = l.memory;
  json_open(w, '{');
  json_member_number(w, "row", l.row);
  json_member(w, "cells");
  json_open(w, '[');
  for (int layer = 0; layer < l.layers; layer++) {
    json_open(w, '[');
    for (int i = 0; i < l.rows; i++)
      write_lens_cell(w, model_of(v, q->head.run), &l,
                      ((size_t)layer * (size_t)l.rows + (size_t)i) * (size_t)l.top);
    json_close(w, ']');
  }
  json_close(w, ']');
  json_close(w, '}');
  return ATTEND_OK;
}

/* ---- tokens as vectors ------------------------------------------------------------------------------ */

static attend_status answer_candidates(viewer *v, const view_query *q, view_result *a) {
  attend_viewer_candidate list[64];
  const attend_viewer_run *run = q->head.run;
  int n;
  attend_status status =
      attend_viewer_get_candidates(v->session, run, q->side, q->position, q->top, list, &n);
  if (status) return status;
  json_open(a->w, '{');
  write_candidates(a->w, attend_viewer_get_model(v->session, run->c.model), list, n);
  json_close(a->w, '}');
  return ATTEND_OK;
}

static attend_status answer_embeddings(viewer *v, const view_query *q, view_result *a) {
  attend_viewer_embeddings e;
  attend_status status = attend_viewer_get_embeddings(v->session, q->head.run, q->other, q->side,
                                                      q->head.at.layer, &q->range, &e);
  if (status) return status;
  a->memory = e.memory;
  json_open(a->w, '{');
  add_part(a, (view_part){"cosine", PART_F32, e.cosine, 2, {e.rows, e.keys}});
  add_part(a, (view_part){"norm", PART_F32, e.norm, 1, {e.rows}});
  return ATTEND_OK;
}

static attend_status answer_positions(viewer *v, const view_query *q, view_result *a) {
  attend_viewer_positions p;
  attend_status status =
      attend_viewer_get_positions(v->session, q->model, q->step, q->count, q->width, &p);
  if (status) return status;
  int n = p.count, d = p.width;
  a->memory = p.memory;
  json_open(a->w, '{');
  json_member_number(a->w, "shift_error", p.shift_error);
  add_part(a, (view_part){"table", PART_F32, p.table, 2, {n, d}});
  add_part(a, (view_part){"cosine", PART_F32, p.cosine, 2, {n, n}});
  add_part(a, (view_part){"shift", PART_F32, p.shift, 2, {d, d}});
  if (p.learned) add_part(a, (view_part){"learned", PART_F32, p.learned, 2, {n, n}});
  return ATTEND_OK;
}

/* ---- the list --------------------------------------------------------------------------------------- */

static const view_route routes[] = {
    {"hello", false, "steps", answer_hello},
    {"training", false, "steps", answer_training},
    {"run", true, "", answer_run},
    {"generate", true, "case new", answer_generate},
    {"refine", true, "attention head layer level minus pool role run x y", answer_refine},
    {"thumbs", false, "attention role run size", answer_thumbs},
    {"patterns", false, "attention role run", answer_patterns},
    {"block", false, "attention head key keys layer role row rows run", answer_block},
    {"stats", false, "attention head layer role run", answer_stats},
    {"vectors", false, "attention head key keys layer role row rows run", answer_vectors},
    {"tile", false, "attention head layer level minus pool role run x y", answer_tile},
    {"flow", false, "attention role run token way", answer_flow},
    {"compare", false, "attention other role run", answer_compare},
    {"candidates", false, "position run side top", answer_candidates},
    {"beside", false, "other role run", answer_beside},
    {"words", false, "head layer other role run", answer_words},
    {"word", false, "at other other_at run side", answer_word},
    {"embeddings", false, "key keys layer other row rows run side", answer_embeddings},
    {"positions", false, "count model step width", answer_positions},
    {"effect", false, "against before predicted run target top", answer_effect},
    {"sweep", true, "against axis change from metric point predicted role run target",
     answer_sweep},
    {"attribute", true, "against head layer method predicted role run target", answer_attribute},
    {"lens", true, "row rows run side top", answer_lens},
    {"picture", false, "", NULL}};

const view_route *view_route_of(const char *name) {
  for (size_t i = 0; i < sizeof routes / sizeof *routes; i++)
    if (!strcmp(routes[i].name, name)) return &routes[i];
  return NULL;
}
