/* A model against what Hugging Face transformers computed with it
 * (attend_golden_model).
 *
 * Every quantity of the file is computed by three methods: all sequences together with
 * padding, each alone, and (decoders) token by token through the cache; the methods
 * must agree in every bit.
 */
#include <math.h>
#include <stdio.h>

#include "attend/file.h"
#include "attend/generate.h"
#include "verify/verify.h"

enum { BATCHED, ALONE, CACHED, METHODS };
static const char *const method_names[METHODS] = {"together", "alone", "token by token"};
#define GOLDEN_BOUND 1e-4 /* of the largest */

typedef struct {
  const attend_tensor *tensor;
  float *ours[METHODS]; /* NULL: not computed by this method */
} quantity;

typedef struct {
  attend_context *ctx;
  memory memory;
  const char *path;
  attend_model *model;
  const attend_config *config;
  attend_tensor_file *file;
  quantity *quantity;
  size_t count;
  int sequences, tokens, decoder_tokens;
  int32_t *ids, *decoder_ids, *types, *lengths; /* types may be NULL */
  int method, sequence, position;               /* of what hooks read */
  attend_status status;                         /* of what hooks did */
  void (*each)(const attend_golden_row *row, void *user);
  void *user;
  size_t skipped;
} golden_model;

/* ---- the file ---------------------------------------------------------------------- */

/* Ids [*rows, *cols] of the file; NULL where it has none. Sizes that are 0 are set. */
static attend_status golden_ids(golden_model *g, const char *name, int *rows, int *cols,
                                int32_t **list) {
  const attend_tensor *t = attend_tensor_file_find(g->file, name);
  *list = NULL;
  if (!t || t->stored != ATTEND_STORED_I64 || t->rank != 2 || !t->count) return ATTEND_OK;
  if (t->count > INT32_MAX || (*rows && *rows != t->shape[0]) || (*cols && *cols != t->shape[1]))
    return fail(g->ctx, ATTEND_IO, "%s: %s of %lld x %lld ids does not belong to the other tensors",
                g->path, name, (long long)t->shape[0], (long long)t->shape[1]);
  TAKE(&g->memory, list, t->count);
  for (int64_t i = 0; i < t->count; i++) {
    int64_t id;
    memcpy(&id, (const char *)t->data + 8 * i, 8);
    (*list)[i] = (int32_t)id;
  }
  *rows = (int)t->shape[0];
  *cols = (int)t->shape[1];
  return ATTEND_OK;
}

static attend_status read_inputs(golden_model *g) {
  bool both = attend_config_parts(g->config) == ATTEND_BOTH;
  int *rows = &g->sequences, *cols = &g->tokens;
  int32_t *mask = NULL;
  ATTEND_TRY(golden_ids(g, "ids", rows, cols, &g->ids));
  if (both) ATTEND_TRY(golden_ids(g, "decoder_ids", rows, &g->decoder_tokens, &g->decoder_ids));
  if (!g->ids || (both && !g->decoder_ids))
    return fail(g->ctx, ATTEND_IO,
                "%s has no ids [sequences, tokens] to feed the model, or no "
                "decoder_ids for its decoder",
                g->path);
  ATTEND_TRY(golden_ids(g, "mask", rows, cols, &mask));
  ATTEND_TRY(golden_ids(g, "token_type_ids", rows, cols, &g->types));
  TAKE(&g->memory, &g->lengths, g->sequences);
  for (int b = 0; b < g->sequences; b++)
    for (int i = 0; i < g->tokens; i++) g->lengths[b] += !mask || mask[b * g->tokens + i];
  return ATTEND_OK;
}

static quantity *golden_quantity(golden_model *g, const char *name) {
  for (size_t i = 0; i < g->count; i++)
    if (!strcmp(g->quantity[i].tensor->name, name)) return &g->quantity[i];
  return NULL;
}

/* ---- what hooks read --------------------------------------------------------- */

static const char *side_prefix(const golden_model *g, const attend_hooked *s) {
  if (attend_config_parts(g->config) != ATTEND_BOTH) return "";
  if (s->role == ATTEND_CROSS) return "cross_";
  return s->role == ATTEND_ENCODER_SELF ? "encoder_" : "decoder_";
}

/* Copies [B,H,T,W] from a view to its place in the golden's shape. */
static attend_status fill(golden_model *g, const char *name, const attend_hooked *s) {
  quantity *q = golden_quantity(g, name);
  if (!q) return ATTEND_OK;
  const attend_tensor *t = q->tensor;
  int heads = t->rank == 4 ? (int)t->shape[1] : 1;
  int given = heads < s->shape[1] ? heads : s->shape[1];
  int length = (int)t->shape[t->rank - 2], width = (int)t->shape[t->rank - 1];
  int first = s->role == ATTEND_ENCODER_SELF ? 0 : g->position;
  float **to = &q->ours[g->method];
  if (!*to) TAKE(&g->memory, to, t->count);
  for (int b = 0; b < s->shape[0]; b++)
    for (int h = 0; h < given; h++)
      for (int i = 0; i < s->shape[2] && first + i < length; i++) {
        const float *row = (const float *)s->view.data + b * s->view.stride[0] +
                           h * s->view.stride[1] + i * s->view.stride[2];
        size_t at = (((size_t)(g->sequence + b) * (size_t)heads + (size_t)h) * (size_t)length +
                     (size_t)(first + i)) *
                    (size_t)width;
        int n = s->shape[3] < width ? s->shape[3] : width;
        memcpy(*to + at, row, (size_t)n * sizeof(float));
      }
  return ATTEND_OK;
}

static void read_hooked(const attend_hooked *s, void *user) {
  golden_model *g = user;
  char name[64];
  bool hidden = s->point == ATTEND_AT_RESIDUAL;
  snprintf(name, sizeof name, "%s%s.%d", side_prefix(g, s), hidden ? "hidden" : "attention",
           s->layer);
  if (!g->status) g->status = fill(g, name, s);
  if (!g->status && hidden && s->role == ATTEND_ENCODER_SELF &&
      s->layer == attend_config_stack(g->config, ATTEND_ENCODER)->layers)
    g->status = fill(g, "encoder_out", s);
}

static attend_status fill_logits(golden_model *g, attend_session *session, int count, int n) {
  int vocab = attend_config_get(g->config, ATTEND_CONFIG_VOCAB);
  float *logits;
  ATTEND_TRY(ctx_alloc(g->ctx,
                       SIZE_PRODUCT((size_t)count, (size_t)n, (size_t)vocab, sizeof *logits),
                       "logits", &logits));
  attend_status status = attend_session_logits(session, count * n, NULL, logits);
  attend_hooked s = {.role = attend_config_parts(g->config) == ATTEND_ENCODER ? ATTEND_ENCODER_SELF
                                                                              : ATTEND_DECODER_SELF,
                     .shape = {count, 1, n, vocab},
                     .view = {logits, {(ptrdiff_t)n * vocab, 0, vocab, 1}}};
  if (!status) status = fill(g, "logits", &s);
  ctx_free(g->ctx, logits);
  return status;
}

/* ---- the methods ---------------------------------------------------------------------------- */

/* The encoder reads `count` sequences from g->sequence on, n tokens each. */
static attend_status encode(golden_model *g, attend_session *session, int count, int n) {
  size_t at = (size_t)g->sequence * (size_t)g->tokens;
  attend_status status = attend_session_encode(
      session, count, n, g->ids + at, g->lengths + g->sequence, g->types ? g->types + at : NULL);
  if (!status && attend_config_parts(g->config) == ATTEND_ENCODER &&
      attend_tensor_file_find(g->file, "logits"))
    status = fill_logits(g, session, count, n);
  return status;
}

static attend_status decode_chunk(golden_model *g, attend_session *session, int count, int whole,
                                  int n, const int32_t *lengths) {
  const int32_t *from = g->decoder_ids ? g->decoder_ids : g->ids;
  memory m = {.ctx = g->ctx};
  int32_t *ids, *real;
  TAKE(&m, &ids, (size_t)count * (size_t)(n + 1));
  real = ids + (size_t)count * (size_t)n;
  for (int b = 0; b < count; b++) {
    int left = (lengths ? lengths[g->sequence + b] : whole) - g->position;
    real[b] = left < 0 ? 0 : left < n ? left : n;
    memcpy(ids + b * n, from + (size_t)(g->sequence + b) * (size_t)whole + g->position,
           (size_t)n * sizeof *ids);
  }
  attend_status status = attend_session_extend(session, count, n, ids, real);
  if (!status) status = fill_logits(g, session, count, n);
  memory_free(&m);
  return status;
}

static attend_status decode(golden_model *g, attend_session *session, int count, int length) {
  bool both = attend_config_parts(g->config) == ATTEND_BOTH;
  int whole = both ? g->decoder_tokens : g->tokens;
  int n = g->method == CACHED ? 1 : both ? whole : length;
  attend_status status = ATTEND_OK;
  for (g->position = 0; g->position < (both ? whole : length) && !status; g->position += n)
    status = decode_chunk(g, session, count, whole, n, both ? NULL : g->lengths);
  g->position = 0;
  return status;
}

/* count sequences from g->sequence on; those alone have no padding. */
static attend_status compute(golden_model *g, int count) {
  attend_session_options o = {ATTEND_INIT(attend_session_options), .batch = count};
  attend_hook hook = {ATTEND_INIT(attend_hook), .points = ATTEND_AT_RESIDUAL | ATTEND_AT_PATTERN,
                      .read = read_hooked, .user = g};
  attend_session *session;
  int n = count == 1 ? g->lengths[g->sequence] : g->tokens;
  attend_status status = attend_session_create(g->model, &o, &session);
  if (status) return status;
  status = attend_session_set_hooks(session, 1, &hook);
  if (!status && attend_config_parts(g->config) & ATTEND_ENCODER)
    status = encode(g, session, count, n);
  if (!status && attend_config_parts(g->config) & ATTEND_DECODER)
    status = decode(g, session, count, n);
  attend_session_free(session);
  return g->status ? g->status : status;
}

static attend_status compute_all(golden_model *g) {
  attend_status status = ATTEND_OK;
  int methods = attend_config_parts(g->config) & ATTEND_DECODER ? METHODS : CACHED;
  for (g->method = 0; g->method < methods && !status; g->method++) {
    g->sequence = 0;
    if (g->method != ALONE) {
      status = compute(g, g->sequences);
      continue;
    }
    for (; g->sequence < g->sequences && !status; g->sequence++) status = compute(g, 1);
  }
  return status;
}

/* ---- comparing ------------------------------------------------------------------------------ */

static void golden_row(golden_model *g, const char *name, const char *method, double error,
                       double bound, const char *bits, bool ok) {
  g->each(&(attend_golden_row){name, method, error, bound, bits, ok}, g->user);
}

/* Whether a row of a tensor belongs to a real token. */
static bool is_real(const golden_model *g, const attend_tensor *t, int64_t row) {
  int64_t length = t->shape[t->rank - 2];
  int64_t heads = t->rank == 4 ? t->shape[1] : 1;
  bool decoder = attend_config_parts(g->config) == ATTEND_BOTH && length == g->decoder_tokens &&
                 strncmp(t->name, "encoder", 7);
  if (decoder) return true;
  return row % length < g->lengths[row / length / heads];
}

static double compare(const golden_model *g, const quantity *q, int method, bool *same) {
  const attend_tensor *t = q->tensor;
  int64_t width = t->shape[t->rank - 1];
  const float *ours = q->ours[method], *first = q->ours[BATCHED];
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
    *same = *same && !memcmp(ours + r * width, first + r * width, (size_t)width * sizeof *ours);
  }
  return largest > 0 ? worst / largest : worst;
}

static void judge_quantities(golden_model *g) {
  for (size_t i = 0; i < g->count; i++) {
    quantity *q = &g->quantity[i];
    for (int method = 0; method < METHODS; method++) {
      bool same = true;
      if (!q->ours[method]) continue;
      double error = compare(g, q, method, &same);
      golden_row(g, q->tensor->name, method_names[method], error, GOLDEN_BOUND,
                 method == BATCHED ? ""
                 : same            ? "the same"
                                   : "DIFFER",
                 error <= GOLDEN_BOUND && same);
    }
  }
}

/* ---- loss -------------------------------------------------------------------------------------- */

/* Causal: of sequence 0, each token after the first. Masked: where labels are.
 * Both: the decoder is fed the labels shifted right. */
static attend_status mean_loss(golden_model *g, const float *logits, const int32_t *targets,
                               int rows, double *mean) {
  int n = attend_config_get(g->config, ATTEND_CONFIG_VOCAB), counted = 0;
  float *loss;
  double sum = 0;
  TAKE(&g->memory, &loss, rows);
  attend_cross_entropy(g->ctx, rows, n, logits, n, targets, loss, NULL);
  for (int i = 0; i < rows; i++)
    if (targets[i] >= 0) {
      sum += (double)loss[i];
      counted++;
    }
  *mean = counted ? sum / counted : 0;
  return ATTEND_OK;
}

static attend_status shift_right(golden_model *g, const int32_t *labels, int32_t **shifted) {
  int n = g->decoder_tokens;
  int32_t *ids;
  TAKE(&g->memory, &ids, (size_t)g->sequences * (size_t)n);
  for (int i = 0; i < g->sequences * n; i++) {
    int32_t before =
        i % n ? labels[i - 1] : attend_config_get(g->config, ATTEND_CONFIG_DECODER_START);
    ids[i] = before < 0 ? attend_config_get(g->config, ATTEND_CONFIG_PAD) : before;
  }
  *shifted = ids;
  return ATTEND_OK;
}

static attend_status labelled_logits(golden_model *g, const int32_t *labels, float *logits) {
  attend_session *session;
  attend_session_options o = {ATTEND_INIT(attend_session_options), .batch = g->sequences};
  int32_t *ids;
  ATTEND_TRY(shift_right(g, labels, &ids));
  ATTEND_TRY(attend_session_create(g->model, &o, &session));
  attend_status status =
      attend_session_encode(session, g->sequences, g->tokens, g->ids, g->lengths, g->types);
  if (!status) status = attend_session_extend(session, g->sequences, g->decoder_tokens, ids, NULL);
  if (!status)
    status = attend_session_logits(session, g->sequences * g->decoder_tokens, NULL, logits);
  attend_session_free(session);
  return status;
}

static attend_status compute_loss(golden_model *g, double *loss) {
  bool both = attend_config_parts(g->config) == ATTEND_BOTH;
  int *cols = both ? &g->decoder_tokens : &g->tokens;
  int rows = g->sequences * *cols;
  const quantity *q = golden_quantity(g, "logits");
  float *logits = q ? q->ours[BATCHED] : NULL;
  int32_t *labels;
  ATTEND_TRY(golden_ids(g, "labels", &g->sequences, cols, &labels));
  if (both && labels) {
    TAKE(&g->memory, &logits,
         (size_t)rows * (size_t)attend_config_get(g->config, ATTEND_CONFIG_VOCAB));
    ATTEND_TRY(labelled_logits(g, labels, logits));
  } else if (!logits) {
    return ATTEND_OK;
  } else if (q->tensor->count !=
             (int64_t)rows * attend_config_get(g->config, ATTEND_CONFIG_VOCAB)) {
    return fail(g->ctx, ATTEND_IO, "%s: the logits are not [%d, %d, %d]", g->path, g->sequences,
                *cols, attend_config_get(g->config, ATTEND_CONFIG_VOCAB));
  }
  if (labels) return mean_loss(g, logits, labels, rows, loss);
  return mean_loss(g, logits, g->ids + 1, g->tokens - 1, loss);
}

static attend_status judge_loss(golden_model *g) {
  const attend_tensor *t = attend_tensor_file_find(g->file, "loss");
  double loss = NAN;
  float theirs;
  if (!t || t->stored != ATTEND_STORED_F32) return ATTEND_OK;
  attend_status status = compute_loss(g, &loss);
  if (status) return status;
  memcpy(&theirs, t->data, sizeof theirs);
  double error = fabs(loss - (double)theirs) / fabs((double)theirs);
  golden_row(g, "loss", method_names[BATCHED], error, GOLDEN_BOUND, "", error <= GOLDEN_BOUND);
  return ATTEND_OK;
}

/* ---- generated ids ------------------------------------------------------------------------------- */

enum { PROMPT = 5 }; /* tokens that the goldens' decoders start from */

static bool same_ids(const golden_model *g, const attend_continuation *c, const int32_t *golden,
                     int n) {
  int before = attend_config_parts(g->config) == ATTEND_BOTH ? 1 : PROMPT;
  if (c->count != n - before) return false;
  return !memcmp(c->ids, golden + before, (size_t)c->count * sizeof *golden);
}

static int prompt_length(const golden_model *g, int b) {
  bool both = attend_config_parts(g->config) == ATTEND_BOTH;
  int max = PROMPT < g->tokens ? PROMPT : g->tokens;
  return b == 0 && !both ? max : g->lengths[b];
}

static attend_status judge_generated(golden_model *g, const char *name, int beams, int prompts) {
  int rows = 0, n = 0, before = attend_config_parts(g->config) == ATTEND_BOTH ? 1 : PROMPT;
  int32_t *golden;
  attend_prompt *prompt;
  attend_generate_options o = {ATTEND_INIT(attend_generate_options)};
  attend_generation *made = NULL;
  ATTEND_TRY(golden_ids(g, name, &rows, &n, &golden));
  if (!golden || n <= before) return ATTEND_OK;
  TAKE(&g->memory, &prompt, prompts);
  for (int b = 0; b < prompts; b++)
    prompt[b] = (attend_prompt){g->ids + b * g->tokens, prompt_length(g, b)};
  o.max_new = n - before;
  o.beams = beams;
  o.batch = beams * prompts;
  attend_status status = attend_generate(g->model, prompts, prompt, &o, &made);
  if (!status) {
    bool ok = same_ids(g, attend_generation_get(made, 0), golden, n);
    golden_row(g, name, method_names[prompts > 1 ? BATCHED : ALONE], NAN, NAN,
               ok ? "the same ids" : "OTHER ids", ok);
  }
  attend_generation_free(made);
  return status;
}

/* The best next token, with everything read again. */
static attend_status next_uncached(golden_model *g, const int32_t *ids, int n, int32_t *next) {
  attend_generate_options o = {ATTEND_INIT(attend_generate_options)};
  attend_session *session = NULL;
  memory m = {.ctx = g->ctx};
  float *logits;
  TAKE(&m, &logits, attend_config_get(g->config, ATTEND_CONFIG_VOCAB));
  attend_status status = attend_session_create(g->model, NULL, &session);
  if (!status && attend_config_parts(g->config) == ATTEND_BOTH)
    status = attend_session_encode(session, 1, g->lengths[0], g->ids, NULL, NULL);
  if (!status) status = attend_session_extend(session, 1, n, ids, NULL);
  if (!status) status = attend_session_next(session, 1, logits);
  if (!status)
    status = attend_choose(g->ctx, &o, logits, attend_config_get(g->config, ATTEND_CONFIG_VOCAB),
                           NULL, 0, 0, next);
  memory_free(&m);
  attend_session_free(session);
  return status;
}

static attend_status judge_uncached(golden_model *g) {
  int rows = 0, n = 0, at = attend_config_parts(g->config) == ATTEND_BOTH ? 1 : PROMPT;
  int32_t *golden;
  attend_status status = ATTEND_OK;
  bool ok = true;
  ATTEND_TRY(golden_ids(g, "greedy", &rows, &n, &golden));
  if (!golden) return ATTEND_OK;
  for (int first = at; at < n && !status && ok; at++) {
    int32_t next;
    bool forced =
        (at == first && attend_config_get(g->config, ATTEND_CONFIG_FORCED_BOS) == golden[at]) ||
        (at == n - 1 && attend_config_get(g->config, ATTEND_CONFIG_FORCED_EOS) == golden[at]);
    if (forced) continue; /* not chosen by the model */
    status = next_uncached(g, golden, at, &next);
    ok = !status && next == golden[at];
  }
  if (!status)
    golden_row(g, "greedy", "without a cache", NAN, NAN, ok ? "the same ids" : "OTHER ids", ok);
  return status;
}

/* ---- the whole ------------------------------------------------------------------------ */

static attend_status judge_all(golden_model *g) {
  attend_status status = compute_all(g);
  if (status) return status;
  judge_quantities(g);
  status = judge_loss(g);
  if (!(attend_config_parts(g->config) & ATTEND_DECODER)) return status;
  for (int prompts = 1; prompts <= g->sequences && !status; prompts += g->sequences - 1) {
    status = judge_generated(g, "greedy", 1, prompts);
    if (!status) status = judge_generated(g, "beam4", 4, prompts);
    if (g->sequences == 1) break;
  }
  if (!status) status = judge_uncached(g);
  return status;
}

static attend_status list_quantities(golden_model *g) {
  size_t tensors = attend_tensor_file_count(g->file);
  TAKE(&g->memory, &g->quantity, tensors);
  for (size_t i = 0; i < tensors; i++) {
    const attend_tensor *t = attend_tensor_file_get(g->file, i);
    if (!strncmp(t->name, "grad.", 5)) g->skipped++;
    bool compared = t->stored == ATTEND_STORED_F32 && t->rank >= 3 && t->rank <= 4 &&
                    t->shape[0] == g->sequences && t->count && strncmp(t->name, "grad.", 5);
    if (compared) g->quantity[g->count++].tensor = t;
  }
  return ATTEND_OK;
}

static attend_status judge_file(golden_model *g) {
  ATTEND_TRY(read_inputs(g));
  ATTEND_TRY(list_quantities(g));
  return judge_all(g);
}

attend_status attend_golden_model(attend_model *model, const char *path,
                                  void (*each)(const attend_golden_row *row, void *user),
                                  void *user, size_t *skipped) {
  attend_context *ctx = attend_model_context(model);
  golden_model g = {.ctx = ctx,
                    .memory = {.ctx = ctx},
                    .path = path,
                    .model = model,
                    .config = attend_model_config(model),
                    .each = each,
                    .user = user};
  *skipped = 0;
  ATTEND_TRY(attend_tensor_file_open(ctx, path, &g.file));
  attend_status status = judge_file(&g);
  memory_free(&g.memory);
  attend_tensor_file_free(g.file);
  *skipped = g.skipped;
  return status;
}
