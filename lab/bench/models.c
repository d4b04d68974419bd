/* Models: reading and decoding, a step of training, documents by length.
 *
 * Reading is bound by arithmetic, decoding by memory; a matrix product and reading as
 * many bytes are measured in turns with them. Speed does not depend on the values of
 * weights and ids.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "attend/bench.h"
#include "attend/plot.h"
#include "attend/train.h"
#include "base/options.h"
#include "model/checkpoint.h"

enum { ROUNDS = 7, DECODED = 16, PRODUCT = 1024 };

typedef struct {
  attend_context *ctx;
  attend_bench_options o;
  const attend_config *config;
  int32_t *ids, *targets; /* random: [n] */
  float *logits;          /* [batch][V] */
  float *matrices;        /* of the product beside it, or NULL */
  attend_machine gpu;     /* its ceilings; zeros: another device */
} bench;

static attend_status open_bench(attend_context *ctx, const attend_bench_options *options,
                                const attend_config *config, bench *b) {
  *b = (bench){.ctx = ctx, .config = config};
  ATTEND_TRY(OPTIONS_READ(ctx, attend_bench_options, options, &b->o));
  const char *device = attend_context_device(ctx);
  if (strcmp(device, "cpu") != 0 && strcmp(device, "trap") != 0)
    return attend_machine_measure(ctx, &b->gpu);
  if (!b->o.product) return ATTEND_OK;
  return ctx_alloc_zeroed(ctx, SIZE_PRODUCT(3, PRODUCT, PRODUCT, sizeof(float)), "matrices",
                          &b->matrices);
}

static attend_status draw_ids(bench *b, size_t n, int batch) {
  ATTEND_TRY(ctx_alloc(b->ctx, size_times(n, sizeof *b->ids), "ids", &b->ids));
  ATTEND_TRY(ctx_alloc(b->ctx, size_times(n, sizeof *b->targets), "ids", &b->targets));
  ATTEND_TRY(ctx_alloc(
      b->ctx,
      SIZE_PRODUCT((size_t)batch, (size_t)attend_config_get(b->config, ATTEND_CONFIG_VOCAB),
                   sizeof *b->logits),
      "logits", &b->logits));
  for (size_t i = 0; i < n; i++) {
    uint64_t word = random_word((attend_random){7, 0}, i);
    b->ids[i] =
        (int32_t)((uint32_t)word % (uint32_t)attend_config_get(b->config, ATTEND_CONFIG_VOCAB));
    b->targets[i] = (int32_t)((uint32_t)(word >> 32) %
                              (uint32_t)attend_config_get(b->config, ATTEND_CONFIG_VOCAB));
  }
  return ATTEND_OK;
}

static void close_bench(bench *b) {
  ctx_free(b->ctx, b->ids);
  ctx_free(b->ctx, b->targets);
  ctx_free(b->ctx, b->logits);
  ctx_free(b->ctx, b->matrices);
}

static attend_status report(const bench *b, double done, const char *now) {
  if (!b->o.progress || !b->o.progress(done, now, b->o.user)) return ATTEND_OK;
  return fail(b->ctx, ATTEND_STOPPED, "the benchmark was stopped");
}

/* Operations a second of one product, on a GPU of its best loop; NaN if there is none. */
static double product_flops(const bench *b) {
  size_t n = (size_t)PRODUCT * PRODUCT;
  if (b->gpu.flops_all > 0)
    return b->o.weights == ATTEND_WEIGHTS_F32 ? b->gpu.flops_all : b->gpu.flops_16;
  if (!b->matrices) return NAN;
  double start = seconds_now();
  b->o.product->multiply(attend_context_threads(b->ctx), PRODUCT, PRODUCT, PRODUCT, b->matrices,
                         b->matrices + n, b->matrices + 2 * n);
  return 2.0 * PRODUCT * (double)n / (seconds_now() - start);
}

static attend_model_timing unmeasured(void) {
  return (attend_model_timing){0, 0, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN};
}

attend_status attend_bench_checkpoint(attend_context *ctx, const char *path, int tokens,
                                      bool training, attend_checkpoint **checkpoint) {
  return checkpoint_init(ctx, path, 1, tokens, training, checkpoint);
}

/* ---- operations ---------------------------------------------------------------------- */

/* Of the weights of a layer, for one token. */
static double layer_flops(const attend_stack *s, bool gated, bool cross) {
  double q = (double)s->heads * s->dim, k = (double)s->kv_heads * s->dim;
  double v = (double)s->kv_heads * s->dim_v, o = (double)s->heads * s->dim_v;
  return 2.0 * s->width * ((cross ? 2 : 1) * (q + k + v + o) + (2.0 + gated) * s->mlp);
}

/* Of attention's two products in all layers. */
static double pair_flops(const attend_stack *s, double pairs) {
  return 2.0 * pairs * s->heads * (s->dim + s->dim_v) * s->layers;
}

/* ---- memory as the system counts it ----------------------------------------------------- */

static double status_bytes(const char *field) {
  char text[256];
  double kib = NAN;
  FILE *f = fopen("/proc/self/status", "r");
  while (f && fgets(text, sizeof text, f))
    if (!strncmp(text, field, strlen(field))) kib = atof(text + strlen(field));
  if (f) fclose(f);
  return 1024 * kib;
}

/* Resets the peak that Linux reports, by writing 5 to clear_refs, or a GPU's; returns what the
 * process holds. */
static double watch_peak(attend_context *ctx) {
  size_t held, most;
  if (attend_context_memory(ctx, &held, &most, true)) return (double)held;
#ifdef __GLIBC__
  malloc_trim(0); /* or freed memory would be used again, uncounted */
#endif
  FILE *f = fopen("/proc/self/clear_refs", "w");
  bool reset = f && fputs("5", f) >= 0;
  if (f && fclose(f)) reset = false;
  return reset ? status_bytes("VmRSS:") : NAN;
}

static double peak_since(attend_context *ctx, double before) {
  size_t held, most;
  if (attend_context_memory(ctx, &held, &most, false)) return (double)most - before;
  return status_bytes("VmHWM:") - before;
}

/* ---- reading and decoding ------------------------------------------------------------- */

/* Appends DECODED tokens, one at a time, each with its logits. */
static attend_status decode(const bench *b, attend_session *session, int batch, double *seconds) {
  double start = seconds_now();
  for (int i = 0; i < DECODED; i++) {
    ATTEND_TRY(attend_session_extend(session, batch, 1, b->ids, NULL));
    ATTEND_TRY(attend_session_next(session, batch, b->logits));
  }
  *seconds = (seconds_now() - start) / DECODED;
  return ATTEND_OK;
}

static attend_status read_texts(const bench *b, attend_session *session, int batch, int n,
                                double *seconds) {
  double start = seconds_now();
  if (attend_config_parts(b->config) & ATTEND_ENCODER) {
    ATTEND_TRY(attend_session_encode(session, batch, n, b->ids, NULL, NULL));
  } else {
    attend_session_reset(session);
    ATTEND_TRY(attend_session_extend(session, batch, n, b->ids, NULL));
    ATTEND_TRY(attend_session_next(session, batch, b->logits));
  }
  ATTEND_TRY(attend_context_wait(b->ctx));
  *seconds = seconds_now() - start;
  return ATTEND_OK;
}

/* Products of weights, and of queries with keys and weights with values. */
static double read_flops(const attend_model *model, const attend_model_timing *t) {
  const attend_config *c = attend_model_config(model);
  const attend_stack *s = attend_config_stack(
      c, attend_config_parts(c) & ATTEND_ENCODER ? ATTEND_ENCODER : ATTEND_DECODER);
  bool causal = attend_config_parts(c) == ATTEND_DECODER;
  double n = t->tokens,
         layers = layer_flops(s, attend_config_get(c, ATTEND_CONFIG_GATED), false) * s->layers;
  double head = causal ? fmax(0, attend_model_flops(model) - layers) : 0; /* of one row */
  return t->batch * (n * layers + head + pair_flops(s, causal ? n * (n + 1) / 2 : n * n));
}

/* The first round warms up. */
static attend_status measure_model(const bench *b, attend_model *model, attend_session *session,
                                   attend_model_timing *t) {
  enum { TIMED = 5 };
  double read[TIMED + 1], token[TIMED + 1], product[TIMED + 1], memory[TIMED + 1];
  bool decodes = attend_config_parts(b->config) == ATTEND_DECODER;
  for (int i = 0; i <= TIMED; i++) {
    ATTEND_TRY(report(b, (double)i / (TIMED + 1), "reading and decoding"));
    ATTEND_TRY(read_texts(b, session, t->batch, t->tokens, &read[i]));
    if (decodes) ATTEND_TRY(decode(b, session, t->batch, &token[i]));
    t->weights_bytes = (double)attend_model_bytes(model);
    t->cache_bytes = (double)attend_session_cache_bytes(session);
    product[i] = product_flops(b);
    memory[i] = b->gpu.read_all;
    if (!(memory[i] > 0))
      ATTEND_TRY(
          attend_machine_read(b->ctx, (size_t)(t->weights_bytes + t->cache_bytes), &memory[i]));
  }
  t->read_s = attend_median(read + 1, TIMED);
  t->read_flops = read_flops(model, t);
  t->product_flops = attend_median(product + 1, TIMED);
  t->memory_bytes = attend_median(memory + 1, TIMED);
  t->work_bytes = (double)attend_session_work_bytes(session);
  if (decodes) t->token_s = attend_median(token + 1, TIMED);
  if (decodes) t->token_bytes = t->weights_bytes + t->cache_bytes;
  return ATTEND_OK;
}

static attend_status bench_model(bench *b, attend_model *model, attend_model_timing *t) {
  bool encoder = attend_config_parts(b->config) & ATTEND_ENCODER;
  attend_session *session;
  t->batch = b->o.batch ? b->o.batch : encoder ? 32 : 1;
  t->tokens = b->o.tokens ? b->o.tokens : encoder ? 128 : 512;
  int max = attend_config_get(b->config, ATTEND_CONFIG_POSITIONS) - (encoder ? 0 : DECODED);
  if (attend_config_get(b->config, ATTEND_CONFIG_POSITIONS) && t->tokens > max) t->tokens = max;
  ATTEND_TRY(draw_ids(b, (size_t)t->batch * (size_t)t->tokens, t->batch));
  attend_session_options r = {ATTEND_INIT(attend_session_options), .batch = t->batch,
                              .rows = t->tokens};
  ATTEND_TRY(attend_session_create(model, &r, &session));
  attend_status status = measure_model(b, model, session, t);
  attend_session_free(session);
  return status;
}

attend_status attend_bench_model(attend_checkpoint *checkpoint, const attend_bench_options *options,
                                 attend_model_timing *t) {
  bench b;
  attend_model *model = NULL;
  *t = unmeasured();
  attend_status status =
      open_bench(checkpoint->ctx, options, attend_checkpoint_config(checkpoint), &b);
  attend_model_options o = {ATTEND_INIT(attend_model_options),
                            .weights = b.o.weights,
                            .activations = b.o.activations,
                            .form = b.o.form,
                            .roles = b.o.roles,
                            .no_head = attend_config_parts(b.config) & ATTEND_ENCODER};
  if (!status) status = attend_model_create(checkpoint, &o, &model);
  if (!status) status = bench_model(&b, model, t);
  attend_model_free(model);
  close_bench(&b);
  return status;
}

/* ---- training ------------------------------------------------------------------------- */

enum { LONG_S = 20 }; /* after that, three steps are enough */

/* One text forward; with the decoder's tokens of an encoder-decoder. */
static double text_flops(const attend_config *c, const attend_batch *l) {
  bool both = attend_config_parts(c) == ATTEND_BOTH;
  double read = l->length, decoded = both ? l->decoder_length : l->length, flops = 0;
  const attend_stack *last = attend_config_stack(
      c, attend_config_parts(c) & ATTEND_DECODER ? ATTEND_DECODER : ATTEND_ENCODER);
  if (attend_config_parts(c) & ATTEND_ENCODER)
    flops += read * attend_config_stack(c, ATTEND_ENCODER)->layers *
                 layer_flops(attend_config_stack(c, ATTEND_ENCODER),
                             attend_config_get(c, ATTEND_CONFIG_GATED), false) +
             pair_flops(attend_config_stack(c, ATTEND_ENCODER), read * read);
  if (attend_config_parts(c) & ATTEND_DECODER)
    flops += decoded * attend_config_stack(c, ATTEND_DECODER)->layers *
                 layer_flops(attend_config_stack(c, ATTEND_DECODER),
                             attend_config_get(c, ATTEND_CONFIG_GATED), both) +
             pair_flops(attend_config_stack(c, ATTEND_DECODER),
                        decoded * decoded / 2 + (both ? decoded * read : 0));
  return flops + 2.0 * decoded * attend_config_get(c, ATTEND_CONFIG_VOCAB) * last->width;
}

static attend_status step(attend_context *ctx, attend_trainer *trainer, attend_optimizer *optimizer,
                          const attend_batch *batch, double *seconds) {
  attend_batch_loss outcome;
  double start = seconds_now();
  attend_trainer_zero_grad(trainer);
  ATTEND_TRY(attend_trainer_accumulate(trainer, batch, &outcome));
  ATTEND_TRY(attend_optimizer_step(optimizer, 1e-4f, NULL));
  ATTEND_TRY(attend_context_wait(ctx));
  *seconds = seconds_now() - start;
  return ATTEND_OK;
}

static attend_status measure_steps(const bench *b, attend_trainer *trainer,
                                   attend_optimizer *optimizer, const attend_batch *batch,
                                   attend_model_timing *t) {
  double steps[ROUNDS], products[ROUNDS], warm;
  int taken = 0;
  ATTEND_TRY(step(b->ctx, trainer, optimizer, batch, &warm));
  double start = seconds_now();
  for (; taken < ROUNDS && !(taken >= 3 && seconds_now() - start > LONG_S); taken++) {
    ATTEND_TRY(report(b, (double)taken / ROUNDS, "steps of training"));
    ATTEND_TRY(step(b->ctx, trainer, optimizer, batch, &steps[taken]));
    products[taken] = product_flops(b);
  }
  t->read_s = attend_median(steps, (size_t)taken);
  t->product_flops = attend_median(products, (size_t)taken);
  t->weights_bytes = (double)attend_trainer_bytes(trainer);
  t->work_bytes = (double)attend_trainer_work_bytes(trainer);
  return ATTEND_OK;
}

static attend_status bench_steps(bench *b, attend_trainer *trainer, attend_model_timing *t) {
  int batch = b->o.batch ? b->o.batch : 2, length = b->o.tokens ? b->o.tokens : 512;
  attend_optimizer *optimizer;
  if (attend_config_get(b->config, ATTEND_CONFIG_POSITIONS) &&
      length > attend_config_get(b->config, ATTEND_CONFIG_POSITIONS))
    length = attend_config_get(b->config, ATTEND_CONFIG_POSITIONS);
  ATTEND_TRY(draw_ids(b, (size_t)batch * (size_t)length, 1));
  attend_batch texts = {ATTEND_INIT(attend_batch), .count = batch, .length = length, .ids = b->ids,
                        .targets = b->targets};
  if (attend_config_parts(b->config) == ATTEND_BOTH) {
    int decoded = b->o.decoder_tokens;
    texts.decoder_length = decoded && decoded < length ? decoded : length;
    texts.decoder_ids = b->ids;
  }
  ATTEND_TRY(attend_optimizer_create(trainer, NULL, &optimizer));
  attend_status status = measure_steps(b, trainer, optimizer, &texts, t);
  attend_optimizer_free(optimizer);
  if (status) return status;
  bool linear = b->o.form && attend_form_features(b->o.form, 64) > 0;
  t->batch = batch;
  t->tokens = length;
  t->read_flops = linear ? NAN : 3 * batch * text_flops(b->config, &texts);
  return status;
}

attend_status attend_bench_train(attend_checkpoint *checkpoint, const attend_bench_options *options,
                                 attend_model_timing *t) {
  bench b;
  attend_trainer *trainer = NULL;
  *t = unmeasured();
  attend_status status =
      open_bench(checkpoint->ctx, options, attend_checkpoint_config(checkpoint), &b);
  attend_trainer_options o = {ATTEND_INIT(attend_trainer_options),
                              .weights = b.o.weights,
                              .activations = b.o.activations,
                              .form = b.o.form,
                              .roles = b.o.roles,
                              .recompute = b.o.recompute};
  product_flops(&b); /* so that its threads and buffers are not counted below */
  double before = watch_peak(checkpoint->ctx);
  if (!status) status = attend_trainer_create(checkpoint, &o, &trainer);
  if (!status) status = bench_steps(&b, trainer, t);
  if (!status) t->peak_bytes = peak_since(checkpoint->ctx, before);
  attend_trainer_free(trainer);
  close_bench(&b);
  return status;
}

attend_status attend_bench_steps(attend_checkpoint *checkpoint, int count, const attend_form *forms,
                                 int lengths, const int *tokens,
                                 const attend_bench_options *options,
                                 attend_model_timing *timings) {
  attend_bench_options o;
  ATTEND_TRY(OPTIONS_READ(checkpoint->ctx, attend_bench_options, options, &o));
  o.size = sizeof o;
  if (!o.batch) o.batch = 1;
  for (int i = 0; i < lengths * count; i++) timings[i] = unmeasured();
  for (int i = 0; i < lengths * count; i++) {
    o.tokens = tokens[i / count];
    o.form = &forms[i % count];
    ATTEND_TRY(attend_bench_train(checkpoint, &o, &timings[i]));
  }
  return ATTEND_OK;
}

/* ---- documents by length ------------------------------------------------------------- */

enum { LIMIT_S = 180 };

typedef struct {
  attend_model *model;
  attend_model_timing *t;
  double read[ROUNDS], token[ROUNDS];
  int rounds;
  double spent; /* seconds */
} document;

/* The first pass faults in its memory: short ones are done twice, and the second counts. */
static attend_status measure_document(const bench *b, document *d, int n) {
  attend_session *session;
  double *read = &d->read[d->rounds], start = seconds_now(), before = watch_peak(b->ctx);
  ATTEND_TRY(attend_session_create(d->model, NULL, &session));
  attend_status status = read_texts(b, session, 1, n, read);
  if (!status && *read < 1) status = read_texts(b, session, 1, n, read);
  if (!status) status = decode(b, session, 1, &d->token[d->rounds]);
  if (!status) {
    d->t->work_bytes = (double)attend_session_work_bytes(session);
    d->t->cache_bytes = (double)attend_session_cache_bytes(session);
    d->t->peak_bytes = fmax(d->t->peak_bytes, peak_since(b->ctx, before)); /* of NaN: the other */
    d->rounds++;
  }
  attend_session_free(session);
  d->spent += seconds_now() - start;
  return status;
}

/* Weights of the encoder's layers and of the keys and values of cross-attention, and
 * attention among the tokens, by the plan's cost. */
static attend_status document_flops(const bench *b, const document *d, int n, double *flops) {
  const attend_stack *e = attend_config_stack(b->config, ATTEND_ENCODER),
                     *s = attend_config_stack(b->config, ATTEND_DECODER);
  attend_desc desc = {ATTEND_INIT(attend_desc)};
  attend_cost attention;
  ATTEND_CHECK(b->ctx, attend_model_attention(d->model, ATTEND_ENCODER_SELF, 0, &desc),
               "documents are read by an encoder, which this model does not have");
  desc.batch = 1;
  desc.q_len = desc.kv_len = n;
  if (attend_form_features(&desc.form, desc.dim)) desc.engine = "linear";
  ATTEND_TRY(attend_desc_cost(b->ctx, &desc, &attention));
  double keys = 2.0 * e->width * s->kv_heads * (s->dim + s->dim_v);
  *flops =
      e->layers * (n * layer_flops(e, attend_config_get(b->config, ATTEND_CONFIG_GATED), false) +
                   attention.flops) +
      (double)n * s->layers * keys;
  return ATTEND_OK;
}

/* Weights of the decoder without the keys and values of cross-attention, the head, and
 * the caches. */
static double document_token_bytes(const bench *b, double cache) {
  static const double size[] = {4, 2, 1};
  const attend_stack *d = attend_config_stack(b->config, ATTEND_DECODER);
  double layer = layer_flops(d, attend_config_get(b->config, ATTEND_CONFIG_GATED), false) / 2 +
                 (double)d->width * d->heads * (d->dim + d->dim_v);
  double weights =
      d->layers * layer + (double)attend_config_get(b->config, ATTEND_CONFIG_VOCAB) * d->width;
  return cache + weights * size[b->o.weights];
}

static attend_status conclude(const bench *b, document *d, int n) {
  attend_model_timing *t = d->t;
  if (!d->rounds) return ATTEND_OK;
  t->read_s = attend_median(d->read, (size_t)d->rounds);
  t->token_s = attend_median(d->token, (size_t)d->rounds);
  t->token_bytes = document_token_bytes(b, t->cache_bytes);
  return document_flops(b, d, n, &t->read_flops);
}

static bool is_measured(const document *d) {
  return d->rounds == ROUNDS || (d->spent > 3 && d->rounds >= 3) || d->spent > 20;
}

/* Extrapolated from the length before, quadratically. */
static void skip_long(const bench *b, document *d, double seconds, int before, int n) {
  double ratio = (double)n / before, expected = seconds * ratio * ratio;
  if (expected <= (b->o.limit_s > 0 ? b->o.limit_s : LIMIT_S)) return;
  d->t->expected_s = expected;
  d->spent = INFINITY;
}

static attend_status measure_length(const bench *b, int count, document *documents, int n,
                                    double done) {
  int left = 0;
  for (int k = 0; k < count; k++) left += !is_measured(&documents[k]);
  while (left)
    for (int k = 0; k < count; k++) {
      document *d = &documents[k];
      char now[64];
      if (is_measured(d)) continue;
      snprintf(now, sizeof now, "%d tokens, model %d of %d", n, k + 1, count);
      ATTEND_TRY(report(b, done, now));
      ATTEND_TRY(measure_document(b, d, n));
      left -= is_measured(d);
    }
  return ATTEND_OK;
}

static attend_status bench_documents(const bench *b, int count, attend_model *const *models,
                                     document *documents, int lengths, const int *tokens,
                                     attend_model_timing *t) {
  for (int i = 0; i < lengths; i++) {
    for (int k = 0; k < count; k++) {
      attend_model_timing *now = &t[i * count + k];
      documents[k] = (document){.model = models[k], .t = now};
      now->batch = 1;
      now->tokens = tokens[i];
      if (i) skip_long(b, &documents[k], now[-count].read_s, tokens[i - 1], tokens[i]);
    }
    attend_status status =
        measure_length(b, count, documents, tokens[i], (double)i / (double)lengths);
    for (int k = 0; k < count && (!status || status == ATTEND_STOPPED); k++)
      ATTEND_TRY(conclude(b, &documents[k], tokens[i]));
    if (status) return status;
  }
  return ATTEND_OK;
}

/* A model of every form, with the weights of one. */
static attend_status open_forms(const bench *b, const attend_model *model, int count,
                                const attend_form *forms, attend_model **models) {
  unsigned roles = b->o.roles ? b->o.roles : ATTEND_IN_ENCODER | ATTEND_IN_CROSS;
  for (int k = 0; k < count; k++)
    ATTEND_TRY(attend_model_with_roles(model, &forms[k], roles, &models[k]));
  return ATTEND_OK;
}

attend_status attend_bench_documents(attend_checkpoint *checkpoint, int count,
                                     const attend_form *forms, int lengths, const int *tokens,
                                     const attend_bench_options *options,
                                     attend_model_timing *timings) {
  bench b;
  attend_context *ctx = checkpoint->ctx;
  attend_model *model = NULL, **models = NULL;
  document *documents = NULL;
  size_t n = (size_t)count;
  ATTEND_CHECK(ctx, count > 0 && lengths > 0, "documents need a form and a length");
  for (int i = 0; i < lengths * count; i++) timings[i] = unmeasured();
  attend_status status = open_bench(ctx, options, attend_checkpoint_config(checkpoint), &b);
  attend_model_options how = {ATTEND_INIT(attend_model_options), .weights = b.o.weights,
                              .activations = b.o.activations};
  if (!status && attend_config_parts(b.config) != ATTEND_BOTH)
    status = fail(ctx, ATTEND_INVALID, "documents are read by encoder-decoders: give a bart or t5");
  if (!status) status = draw_ids(&b, (size_t)tokens[lengths - 1], 1);
  if (!status) status = ctx_alloc_zeroed(ctx, size_times(n, sizeof *models), "models", &models);
  if (!status) status = ctx_alloc(ctx, size_times(n, sizeof *documents), "documents", &documents);
  if (!status) status = attend_model_create(checkpoint, &how, &model);
  if (!status) status = open_forms(&b, model, count, forms, models);
  if (!status) status = bench_documents(&b, count, models, documents, lengths, tokens, timings);
  for (int k = 0; models && k < count; k++) attend_model_free(models[k]);
  attend_model_free(model);
  ctx_free(ctx, documents);
  ctx_free(ctx, models);
  close_bench(&b);
  return status;
}

/* ---- plots by length ------------------------------------------------------------------- */

enum { PANELS = 3 };

typedef struct {
  const char *title, *unit;
  double (*value)(const attend_model_timing *t);
} panel;

static double read_seconds(const attend_model_timing *t) { return t->read_s; }
static double token_seconds(const attend_model_timing *t) { return t->token_s; }
static double session_bytes(const attend_model_timing *t) { return t->work_bytes + t->cache_bytes; }
static double peak_bytes(const attend_model_timing *t) { return t->peak_bytes; }

static const panel document_panels[] = {{"Reading a document", "seconds", read_seconds},
                                        {"Writing a token after it", "seconds", token_seconds},
                                        {"Memory, the weights apart", "bytes", session_bytes}};
static const panel training_panels[] = {
    {"A step of training, by length", "seconds", read_seconds},
    {"Its memory, with parameters and moments", "bytes", peak_bytes}};

/* y [count][lengths] and series [count] stay until the plot is saved. */
static attend_plot_panel draw_panel(const panel *of, const char *const *names, size_t count,
                                    size_t lengths, const double *x, double *y,
                                    const attend_model_timing *timings,
                                    attend_plot_series *series) {
  for (size_t k = 0; k < count; k++, y += lengths) {
    for (size_t i = 0; i < lengths; i++) y[i] = of->value(&timings[i * count + k]);
    series[k] =
        (attend_plot_series){.name = names[k], .count = lengths, .x = x, .y = y, .points = 1};
  }
  return (attend_plot_panel){.title = of->title,
                             .x = {.log = 1},
                             .y = {.label = of->unit, .log = 1},
                             .count = count,
                             .series = series};
}

attend_status attend_bench_plot(attend_context *ctx, const char *path, int count,
                                const char *const *names, int lengths, const int *tokens,
                                const attend_model_timing *timings, bool training,
                                const char *notes) {
  size_t panels = training ? 2 : 3, forms = (size_t)count, n = (size_t)lengths;
  attend_plot_panel drawn[PANELS];
  attend_plot_series *series = NULL;
  double *x = NULL;
  attend_status status =
      ctx_alloc(ctx, SIZE_PRODUCT(1 + panels * forms, n, sizeof *x), "a plot", &x);
  if (!status)
    status = ctx_alloc(ctx, SIZE_PRODUCT(panels, forms, sizeof *series), "a plot", &series);
  for (size_t i = 0; i < n && !status; i++) x[i] = tokens[i];
  for (size_t p = 0; p < panels && !status; p++) {
    drawn[p] = draw_panel(training ? &training_panels[p] : &document_panels[p], names, forms, n, x,
                          x + (1 + p * forms) * n, timings, series + p * forms);
    drawn[p].x.label = training ? "tokens of the text" : "tokens of the document";
  }
  attend_plot plot = {ATTEND_INIT(attend_plot), .count = panels, .panels = drawn, .notes = notes};
  if (!status) status = attend_plot_save(ctx, &plot, path);
  ctx_free(ctx, series);
  ctx_free(ctx, x);
  return status;
}
