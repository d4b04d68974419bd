/* attend verify --model DIR --golden FILE: a model against what Hugging Face
 * transformers computed with it.
 *
 * Every quantity of the file is computed three ways: all sequences together with
 * padding, each by itself, and (decoders) token by token through the cache; the ways
 * must agree in every bit.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "verify/golden_model.h"
#include "progress.h"

const char *const way_names[WAYS] = {"together", "alone", "token by token"};

enum { AT_QUANTITY, AT_WAY, AT_ERROR, AT_BOUND, AT_BITS, AT_OK };
static const column columns[] = {{"quantity", "quantity", CELL_TEXT},
                                 {"way", "computed", CELL_TEXT},
                                 {"error", "error", CELL_SMALL},
                                 {"bound", "bound", CELL_SMALL},
                                 {"bits", "bits", CELL_TEXT},
                                 {"ok", "ok", CELL_OK},
                                 {NULL, NULL, CELL_TEXT}};

/* ---- the file ---------------------------------------------------------------------- */

int32_t *golden_ids(golden_model *g, const char *name, int *rows, int *cols) {
  const attend_tensor *t = attend_tensor_file_find(g->file, name);
  if (!t || t->stored != ATTEND_STORED_I64 || t->rank != 2 || !t->count)
    return NULL;
  int32_t *ids = need((size_t)t->count, sizeof *ids);
  for (int64_t i = 0; i < t->count; i++) {
    int64_t id;
    memcpy(&id, (const char *)t->data + 8 * i, 8);
    ids[i] = (int32_t)id;
  }
  if (rows) *rows = (int)t->shape[0];
  if (cols) *cols = (int)t->shape[1];
  return ids;
}

static bool read_inputs(golden_model *g) {
  int rows, cols;
  g->ids = golden_ids(g, "ids", &g->sequences, &g->tokens);
  int32_t *mask = golden_ids(g, "mask", &rows, &cols);
  if (g->config->parts == ATTEND_BOTH)
    g->decoder_ids = golden_ids(g, "decoder_ids", NULL, &g->decoder_tokens);
  g->types = golden_ids(g, "token_type_ids", NULL, NULL);
  if (!g->ids) return false;
  if (g->config->parts == ATTEND_BOTH && !g->decoder_ids) return false;
  g->lengths = need((size_t)g->sequences, sizeof *g->lengths);
  for (int b = 0; b < g->sequences; b++)
    for (int i = 0; i < g->tokens; i++)
      g->lengths[b] += !mask || mask[b * g->tokens + i];
  free(mask);
  return true;
}

quantity *golden_quantity(golden_model *g, const char *name) {
  for (size_t i = 0; i < g->count; i++)
    if (!strcmp(g->quantity[i].tensor->name, name)) return &g->quantity[i];
  return NULL;
}

/* ---- filling in what is seen --------------------------------------------------------- */

static const char *side_prefix(const golden_model *g, const attend_hooked *s) {
  if (g->config->parts != ATTEND_BOTH) return "";
  if (s->role == ATTEND_CROSS) return "cross_";
  return s->role == ATTEND_ENCODER_SELF ? "encoder_" : "decoder_";
}

/* Copies [B,H,T,W] from a view to its place in the golden's shape. */
static void fill(golden_model *g, const char *name, const attend_hooked *s) {
  quantity *q = golden_quantity(g, name);
  if (!q) return;
  const attend_tensor *t = q->tensor;
  int heads = t->rank == 4 ? (int)t->shape[1] : 1;
  int length = (int)t->shape[t->rank - 2], width = (int)t->shape[t->rank - 1];
  int first = s->role == ATTEND_ENCODER_SELF ? 0 : g->position;
  float **to = &q->ours[g->way];
  if (!*to) *to = need((size_t)t->count, sizeof **to);
  for (int b = 0; b < s->shape[0]; b++)
    for (int h = 0; h < heads; h++)
      for (int i = 0; i < s->shape[2] && first + i < length; i++) {
        const float *row = (const float *)s->view.data + b * s->view.stride[0] +
                           h * s->view.stride[1] + i * s->view.stride[2];
        size_t at = (((size_t)(g->sequence + b) * (size_t)heads + (size_t)h) *
                         (size_t)length +
                     (size_t)(first + i)) *
                    (size_t)width;
        int n = s->shape[3] < width ? s->shape[3] : width;
        memcpy(*to + at, row, (size_t)n * sizeof(float));
      }
}

static void see(const attend_hooked *s, void *user) {
  golden_model *g = user;
  char name[64];
  bool hidden = s->point == ATTEND_AT_RESIDUAL;
  snprintf(name, sizeof name, "%s%s.%d", side_prefix(g, s),
           hidden ? "hidden" : "attention", s->layer);
  fill(g, name, s);
  if (hidden && s->role == ATTEND_ENCODER_SELF &&
      s->layer == g->config->encoder.layers)
    fill(g, "encoder_out", s);
}

static attend_status fill_logits(golden_model *g, attend_session *run,
                                 int count, int n) {
  int vocab = g->config->vocab;
  float *logits =
      need((size_t)count * (size_t)n * (size_t)vocab, sizeof *logits);
  attend_status status = attend_session_logits(run, count * n, NULL, logits);
  attend_hooked s = {.role = g->config->parts == ATTEND_ENCODER
                                 ? ATTEND_ENCODER_SELF
                                 : ATTEND_DECODER_SELF,
                     .shape = {count, 1, n, vocab},
                     .view = {logits, {(ptrdiff_t)n * vocab, 0, vocab, 1}}};
  if (!status) fill(g, "logits", &s);
  free(logits);
  return status;
}

/* ---- the ways ---------------------------------------------------------------------------- */

/* The encoder reads `count` sequences from g->sequence on, n tokens each. */
static attend_status encode(golden_model *g, attend_session *run, int count,
                            int n) {
  size_t at = (size_t)g->sequence * (size_t)g->tokens;
  attend_status status = attend_session_encode(run, count, n, g->ids + at,
                                               g->lengths + g->sequence,
                                               g->types ? g->types + at : NULL);
  if (!status && g->config->parts == ATTEND_ENCODER &&
      attend_tensor_file_find(g->file, "logits"))
    status = fill_logits(g, run, count, n);
  return status;
}

static attend_status decode_piece(golden_model *g, attend_session *run,
                                  int count, int whole, int n,
                                  const int32_t *lengths) {
  const int32_t *from = g->decoder_ids ? g->decoder_ids : g->ids;
  int32_t *ids = need((size_t)count * (size_t)n, sizeof *ids);
  int32_t *real = need((size_t)count, sizeof *real);
  for (int b = 0; b < count; b++) {
    int left = (lengths ? lengths[g->sequence + b] : whole) - g->position;
    real[b] = left < 0 ? 0 : left < n ? left : n;
    memcpy(ids + b * n,
           from + (size_t)(g->sequence + b) * (size_t)whole + g->position,
           (size_t)n * sizeof *ids);
  }
  attend_status status = attend_session_extend(run, count, n, ids, real);
  if (!status) status = fill_logits(g, run, count, n);
  free(ids);
  free(real);
  return status;
}

static attend_status decode(golden_model *g, attend_session *run, int count,
                            int length) {
  bool both = g->config->parts == ATTEND_BOTH;
  int whole = both ? g->decoder_tokens : g->tokens;
  int n = g->way == CACHED ? 1 : both ? whole : length;
  attend_status status = ATTEND_OK;
  for (g->position = 0; g->position < (both ? whole : length) && !status;
       g->position += n)
    status = decode_piece(g, run, count, whole, n, both ? NULL : g->lengths);
  g->position = 0;
  return status;
}

/* count sequences from g->sequence on; those alone have no padding. */
static attend_status compute(golden_model *g, int count) {
  attend_session_options o = {.batch = count};
  attend_hook hook = {
      .points = ATTEND_AT_RESIDUAL | ATTEND_AT_PATTERN, .read = see, .user = g};
  attend_session *run;
  int n = count == 1 ? g->lengths[g->sequence] : g->tokens;
  attend_status status = attend_session_create(g->model, &o, &run);
  if (status) return status;
  status = attend_session_set_hooks(run, 1, &hook);
  if (!status && g->config->parts & ATTEND_ENCODER)
    status = encode(g, run, count, n);
  if (!status && g->config->parts & ATTEND_DECODER)
    status = decode(g, run, count, n);
  attend_session_free(run);
  return status;
}

static attend_status compute_ways(golden_model *g) {
  attend_status status = ATTEND_OK;
  int ways = g->config->parts & ATTEND_DECODER ? WAYS : CACHED;
  for (g->way = 0; g->way < ways && !status; g->way++) {
    g->sequence = 0;
    if (g->way != ALONE) {
      status = compute(g, g->sequences);
      continue;
    }
    for (; g->sequence < g->sequences && !status; g->sequence++)
      status = compute(g, 1);
  }
  return status;
}

/* ---- comparing ------------------------------------------------------------------------------ */

void golden_row(golden_model *g, const char *name, const char *way,
                double error, double bound, const char *bits, bool ok) {
  cell row[] = {
      [AT_QUANTITY] = cell_text(name), [AT_WAY] = cell_text(way),
      [AT_ERROR] = cell_number(error), [AT_BOUND] = cell_number(bound),
      [AT_BITS] = cell_text(bits),     [AT_OK] = cell_number(ok)};
  table_add(&g->rows, row);
  g->failed += !ok;
}

/* Whether a row of a tensor belongs to a real token. */
static bool is_real(const golden_model *g, const attend_tensor *t,
                    int64_t row) {
  int64_t length = t->shape[t->rank - 2];
  int64_t heads = t->rank == 4 ? t->shape[1] : 1;
  bool decoder = g->config->parts == ATTEND_BOTH &&
                 length == g->decoder_tokens && strncmp(t->name, "encoder", 7);
  if (decoder) return true;
  return row % length < g->lengths[row / length / heads];
}

static double compare(const golden_model *g, const quantity *q, int way,
                      bool *same) {
  const attend_tensor *t = q->tensor;
  int64_t width = t->shape[t->rank - 1];
  const float *ours = q->ours[way], *first = q->ours[BATCHED];
  double worst = 0, largest = 0;
  for (int64_t r = 0; r < t->count / width; r++) {
    if (!is_real(g, t, r)) continue;
    for (int64_t i = r * width; i < (r + 1) * width; i++) {
      float theirs;
      memcpy(&theirs, (const char *)t->data + 4 * i, 4);
      largest = fmax(largest, fabs((double)theirs));
      double error = fabs((double)ours[i] - (double)theirs);
      if (!(error <= worst)) worst = isnan(error) ? INFINITY : error;
    }
    *same = *same && !memcmp(ours + r * width, first + r * width,
                             (size_t)width * sizeof *ours);
  }
  return largest > 0 ? worst / largest : worst;
}

static void judge_quantities(golden_model *g) {
  for (size_t i = 0; i < g->count; i++) {
    quantity *q = &g->quantity[i];
    for (int way = 0; way < WAYS; way++) {
      bool same = true;
      if (!q->ours[way]) continue;
      double error = compare(g, q, way, &same);
      golden_row(g, q->tensor->name, way_names[way], error, GOLDEN_BOUND,
                 way == BATCHED ? ""
                 : same         ? "the same"
                                : "DIFFER",
                 error <= GOLDEN_BOUND && same);
    }
  }
}

static attend_status judge_all(golden_model *g) {
  attend_status status = compute_ways(g);
  if (status) return status;
  judge_quantities(g);
  status = judge_loss(g);
  if (!(g->config->parts & ATTEND_DECODER)) return status;
  for (int prompts = 1; prompts <= g->sequences && !status;
       prompts += g->sequences - 1) {
    status = judge_generated(g, "greedy", 1, prompts);
    if (!status) status = judge_generated(g, "beam4", 4, prompts);
    if (g->sequences == 1) break;
  }
  if (!status) status = judge_uncached(g);
  return status;
}

/* ---- the whole ---------------------------------------------------------------------------------------- */

static void list_quantities(golden_model *g) {
  size_t tensors = attend_tensor_file_count(g->file);
  g->quantity = need(tensors, sizeof *g->quantity);
  for (size_t i = 0; i < tensors; i++) {
    const attend_tensor *t = attend_tensor_file_get(g->file, i);
    if (!strncmp(t->name, "grad.", 5)) g->skipped++;
    bool wanted = t->stored == ATTEND_STORED_F32 && t->rank >= 3 &&
                  t->rank <= 4 && t->shape[0] == g->sequences && t->count &&
                  strncmp(t->name, "grad.", 5);
    if (wanted) g->quantity[g->count++].tensor = t;
  }
}

static int report(golden_model *g, bool json) {
  int code = json ? table_print_json(&g->rows, g->ctx, stdout)
                  : table_print(&g->rows, stdout);
  if (g->skipped)
    fprintf(stderr, "attend: %zu gradients of the file were not looked at\n",
            g->skipped);
  if (g->failed) complain("%zu of %zu rows failed", g->failed, g->rows.rows);
  return g->failed && !code ? EXIT_FAILED : code;
}

static void free_all(golden_model *g) {
  for (size_t i = 0; i < g->count; i++)
    for (int way = 0; way < WAYS; way++) free(g->quantity[i].ours[way]);
  free(g->quantity);
  free(g->ids);
  free(g->decoder_ids);
  free(g->types);
  free(g->lengths);
  table_free(&g->rows);
}

static int run_file(golden_model *g, const char *path, bool json) {
  attend_status status = attend_tensor_file_open(g->ctx, path, &g->file);
  if (status) return complain_status(g->ctx, status);
  int code = EXIT_FAILED;
  if (!read_inputs(g)) {
    complain(
        "%s has no ids [sequences, tokens] to feed the model, or no "
        "decoder_ids for its decoder",
        path);
  } else {
    list_quantities(g);
    g->rows = table_start(columns);
    status = judge_all(g);
    code = status ? complain_status(g->ctx, status) : report(g, json);
  }
  free_all(g);
  attend_tensor_file_close(g->file);
  return code;
}

int verify_model(attend_context *ctx, attend_model *model, const char *golden,
                 bool json) {
  golden_model g = {
      .ctx = ctx, .model = model, .config = attend_model_config(model)};
  return run_file(&g, golden, json);
}
