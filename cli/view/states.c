/* Tokens as vectors: hidden states, what they predict, and positions.
 *
 * Behind view_answer.h: candidates, embeddings, positions.
 */
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "train/course.h"
#include "view/core.h"

/* ---- sides ------------------------------------------------------------------------- */

typedef struct {
  attend_role role;
  int layers, tokens;
} side_facts;

static bool ask_side(asking *a, const view_run *run, side_facts *s) {
  const char *name;
  if (!ask_text(a, "side", run->side[1].n ? "decoder" : "encoder", &name))
    return false;
  bool decoder = !strcmp(name, "decoder");
  const attend_config *c = &run->of->config;
  if ((!decoder && strcmp(name, "encoder")) || !run->side[decoder].n)
    return ask_fail(a, 400, "\"side\" must be one that this run has");
  s->role = decoder ? ATTEND_DECODER_SELF : ATTEND_ENCODER_SELF;
  s->layers = decoder ? c->decoder.layers : c->encoder.layers;
  s->tokens = run->side[decoder].n;
  return true;
}

static bool hidden_of(asking *a, const view_run *run, attend_role role,
                      int layer, attend_hooked *hidden) {
  if (attend_trace_get(run->trace, ATTEND_AT_RESIDUAL, role, layer, hidden))
    return true;
  return ask_fail(a, 400, "this run has no hidden states of layer %d", layer);
}

/* ---- candidates ----------------------------------------------------------------------- */

static bool put_candidates(asking *a, const view_run *run, const float *logits,
                           int top) {
  view_candidate list[64];
  int n = candidates_of(logits, run->of->config.vocab, top, list);
  attend_json_writer w = attend_json_writer_text(a->v->ctx);
  attend_json_open(&w, '{');
  attend_json_member(&w, "candidates");
  attend_json_open(&w, '[');
  for (int i = 0; i < n; i++) {
    attend_json_open(&w, '{');
    attend_json_member(&w, "id");
    attend_json_put_integer(&w, list[i].id);
    attend_json_member(&w, "text");
    put_token_text(&w, run->of, list[i].id);
    attend_json_member(&w, "p");
    attend_json_put_number(&w, list[i].p);
    attend_json_close(&w, '}');
  }
  attend_json_close(&w, ']');
  attend_json_close(&w, '}');
  return reply_json(a, &w);
}

/* An encoder may be wider than the decoder, whose rows the head reads. */
static bool head_reads(asking *a, const view_run *run,
                       const attend_hooked *hidden) {
  const attend_config *c = &run->of->config;
  const attend_stack *s = c->parts & ATTEND_DECODER ? &c->decoder : &c->encoder;
  return hidden->shape[3] == s->width ||
         ask_fail(a, 400,
                  "the head reads rows of %d numbers, those of the decoder: "
                  "the encoder's are of %d",
                  s->width, hidden->shape[3]);
}

/* What the head may copy. */
static bool read_again(asking *a, const view_run *run, attend_session *r) {
  const view_side *s = &run->side[0];
  int32_t real[1] = {s->real};
  return !run->of->config.copy || !s->n ||
         ask_status(a, attend_session_encode(r, 1, s->n, s->ids, real, NULL));
}

bool answer_candidates(asking *a) {
  view_run *run;
  side_facts s;
  attend_hooked hidden;
  attend_session *r = NULL;
  int position, top;
  if (!ask_run(a, a->q, &run) || !ask_side(a, run, &s) ||
      !ask_integer(a, "position", 0, s.tokens - 1, s.tokens - 1, &position) ||
      !ask_integer(a, "top", 1, 64, 10, &top) ||
      !hidden_of(a, run, s.role, s.layers, &hidden) ||
      !head_reads(a, run, &hidden))
    return false;
  attend_session_options o = {.rows = 1};
  size_t vocab = (size_t)run->of->config.vocab;
  float *logits = need(vocab, sizeof *logits);
  const float *row =
      (float *)hidden.view.data + position * hidden.view.stride[2];
  bool ok =
      ask_status(a, attend_session_create(run->model, &o, &r)) &&
      read_again(a, run, r) &&
      ask_status(a, attend_session_head(r, 1, row, hidden.shape[3], logits)) &&
      put_candidates(a, run, logits, top);
  attend_session_free(r);
  free(logits);
  return ok;
}

/* ---- embeddings -------------------------------------------------------------------------- */

static double length_of(const float *x, int n) {
  double sum = 0;
  for (int i = 0; i < n; i++) sum += (double)x[i] * (double)x[i];
  return sqrt(sum);
}

static float cosine(const float *x, const float *y, int n, double product) {
  double sum = 0;
  for (int i = 0; i < n; i++) sum += (double)x[i] * (double)y[i];
  return product > 0 ? (float)(sum / product) : 0;
}

static void cosines(const attend_hooked *h, const view_range *r, float *to,
                    float *norm) {
  const float *x = h->view.data;
  ptrdiff_t ld = h->view.stride[2];
  int width = h->shape[3];
  double *lengths = need((size_t)r->keys + 1, sizeof *lengths);
  for (int j = 0; j < r->keys; j++)
    lengths[j] = length_of(x + (r->key + j) * ld, width);
  for (int i = 0; i < r->rows; i++) {
    const float *row = x + (r->row + i) * ld;
    double mine = length_of(row, width);
    norm[i] = (float)mine;
    for (int j = 0; j < r->keys; j++)
      to[(size_t)i * (size_t)r->keys + (size_t)j] =
          cosine(row, x + (r->key + j) * ld, width, mine * lengths[j]);
  }
  free(lengths);
}

bool answer_embeddings(asking *a) {
  view_run *run;
  side_facts s;
  attend_hooked hidden;
  view_range r;
  int layer;
  if (!ask_run(a, a->q, &run) || !ask_side(a, run, &s) ||
      !ask_integer(a, "layer", 0, s.layers, 0, &layer) ||
      !ask_range(a, s.tokens, s.tokens, VIEW_CELLS, &r) ||
      !hidden_of(a, run, s.role, layer, &hidden))
    return false;
  float *to = need((size_t)r.rows * (size_t)r.keys + 1, sizeof *to);
  float *norm = need((size_t)r.rows + 1, sizeof *norm);
  cosines(&hidden, &r, to, norm);
  reply_part parts[] = {{"cosine", PART_F32, 2, {r.rows, r.keys}, to},
                        {"norm", PART_F32, 1, {r.rows}, norm}};
  bool ok = reply_parts(a, 2, parts, NULL, NULL);
  free(to);
  free(norm);
  return ok;
}

/* ---- positions ----------------------------------------------------------------------------- */

/* p_t holds sin(w_i t) and cos(w_i t) side by side; turning each pair by the
 * angle w_i is M. */
static void shift_matrix(int width, float *m) {
  float one[512];
  attend_sinusoidal(1, width, one);
  memset(m, 0, (size_t)width * (size_t)width * sizeof *m);
  for (int i = 0; i < width; i += 2) {
    float *sines = m + i * width + i, *below = sines + width;
    sines[0] = below[1] = one[i + 1];
    sines[1] = one[i];
    below[0] = -one[i];
  }
}

static double shift_error(const float *table, int count, int width,
                          const float *m) {
  double worst = 0;
  for (int t = 0; t + 1 < count; t++)
    for (int i = 0; i < width; i++) {
      double sum = 0;
      for (int j = 0; j < width; j++)
        sum += (double)m[i * width + j] * (double)table[t * width + j];
      worst = fmax(worst, fabs(sum - (double)table[(t + 1) * width + i]));
    }
  return worst;
}

static void table_cosines(const float *table, int count, int width,
                          float *to /* [count, count] */) {
  attend_hooked h = {.shape = {1, 1, count, width},
                     .view = {(void *)table, {0, 0, width, 1}}};
  view_range all = {0, count, 0, count};
  float *norm = need((size_t)count, sizeof *norm);
  cosines(&h, &all, to, norm);
  free(norm);
}

/* Rows of a model's own table of positions, or NULL. */
static float *learned(asking *a, const view_model *m, const char *path,
                      int count, int *width) {
  attend_parameter p;
  attend_checkpoint *files = m->trained.files, *opened = NULL;
  if (!files && attend_checkpoint_open(a->v->ctx, path, &opened)) return NULL;
  float *rows = NULL;
  for (size_t i = 0;
       !rows && attend_checkpoint_get(files ? files : opened, i, &p); i++) {
    if (!p.what || !strstr(p.what, "position") || p.rank != 2 || !p.tensor ||
        p.tensor->count < (int64_t)count * p.shape[1])
      continue;
    *width = (int)p.shape[1];
    rows = need((size_t)count * (size_t)*width, sizeof *rows);
    attend_dtype dtype = p.tensor->stored == ATTEND_STORED_F16    ? ATTEND_F16
                         : p.tensor->stored == ATTEND_STORED_BF16 ? ATTEND_BF16
                                                                  : ATTEND_F32;
    attend_convert_to_f32(dtype, p.tensor->data, (size_t)count * (size_t)*width,
                          rows);
  }
  attend_checkpoint_close(opened);
  return rows;
}

static void put_error(attend_json_writer *w, const void *with) {
  attend_json_member(w, "shift_error");
  attend_json_put_number(w, *(const double *)with);
}

static bool learned_cosines(asking *a, int count, float **to) {
  const char *id;
  view_model *m;
  int width, step;
  if (!ask_text(a, "model", NULL, &id) ||
      !ask_integer(a, "step", -1, INT_MAX, -1, &step))
    return false;
  if (!id) return true;
  if (!models_find(a, id, &m)) return false;
  if (m->config.position != ATTEND_POSITIONS_LEARNED) return true;
  char *path = m->course ? course_folder(m->course, step) : NULL;
  float *rows = learned(a, m, path ? path : m->path, count, &width);
  free(path);
  if (!rows) return true;
  *to = need((size_t)count * (size_t)count, sizeof **to);
  table_cosines(rows, count, width, *to);
  free(rows);
  return true;
}

bool answer_positions(asking *a) {
  int count, width;
  float *own = NULL;
  if (!ask_integer(a, "count", 2, 512, 64, &count) ||
      !ask_integer(a, "width", 2, 512, 64, &width) ||
      !learned_cosines(a, count, &own))
    return false;
  width -= width % 2;
  size_t n = (size_t)count, d = (size_t)width;
  float *table = need(n * d, sizeof *table), *m = need(d * d, sizeof *m);
  float *cos = need(n * n, sizeof *cos);
  for (int t = 0; t < count; t++)
    attend_sinusoidal(t, width, table + (size_t)t * d);
  shift_matrix(width, m);
  table_cosines(table, count, width, cos);
  double error = shift_error(table, count, width, m);
  reply_part parts[] = {{"table", PART_F32, 2, {count, width}, table},
                        {"cosine", PART_F32, 2, {count, count}, cos},
                        {"shift", PART_F32, 2, {width, width}, m},
                        {"learned", PART_F32, 2, {count, count}, own}};
  bool ok = reply_parts(a, own ? 4 : 3, parts, put_error, &error);
  free(own);
  free(cos);
  free(m);
  free(table);
  return ok;
}
