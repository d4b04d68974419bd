/* attend bench model, train, summarize: tables and plots of attend/bench.h. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"
#include "folders.h"
#include "progress.h"
#include "table.h"

enum { MOST_FORMS = 6, SUMMARY = 64 /* decoder tokens of train --curve */ };

typedef struct {
  attend_context *ctx;
  const bench_options *o;
  const char *path;
  attend_checkpoint *files;
  attend_bench_options how;
  table rows;
  /* Benches by length. */
  int lengths, tokens[MOST_LENGTHS], forms;
  attend_form form[MOST_FORMS];
  char name[MOST_FORMS][64];
  attend_model_timing at[MOST_LENGTHS * MOST_FORMS]; /* [lengths][forms] */
} bench;

/* ---- lists ----------------------------------------------------------------------- */

int lengths_parse(const char *text, int lengths[MOST_LENGTHS]) {
  char *end;
  int count = 0;
  long from = strtol(text, &end, 10), to = from;
  bool number = end != text;
  if (number && !strncmp(end, "..", 2)) {
    const char *second = end + 2;
    to = strtol(second, &end, 10);
    number = end != second;
  }
  if (!number || *end || from < 1 || to < from || to > 1 << 24) return 0;
  for (long n = from; n < to && count < MOST_LENGTHS - 1; n *= 2) lengths[count++] = (int)n;
  lengths[count++] = (int)to;
  return count;
}

/* Up to a comma that is not between brackets. */
static size_t name_length(const char *text) {
  size_t n = 0;
  for (int depth = 0; text[n] && (depth || text[n] != ','); n++)
    depth += (text[n] == '(') - (text[n] == ')');
  return n;
}

static int parse_forms(bench *b, const char *text) {
  for (;; text++) {
    size_t n = name_length(text);
    if (b->forms == MOST_FORMS || n >= sizeof b->name[0]) {
      complain("--forms takes up to %d forms, as softmax,elu,favor(m=64)", MOST_FORMS);
      return EXIT_USAGE;
    }
    char *name = b->name[b->forms];
    snprintf(name, sizeof b->name[0], "%.*s", (int)n, text);
    attend_status status = attend_form_parse(b->ctx, name, &b->form[b->forms++]);
    if (status) return complain_status(b->ctx, status);
    text += n;
    if (!*text) return EXIT_OK;
  }
}

/* ---- model ----------------------------------------------------------------------------- */

static const column model_columns[] = {
    {"weights", "weights", CELL_TEXT},   {"what", "what", CELL_TEXT},
    {"seconds", "time", CELL_SECONDS},   {"tokens_per_s", "tokens/s", CELL_NUMBER},
    {"gflops", "GFLOP/s", CELL_RATE},    {"of_sgemm", "of sgemm", CELL_RATIO},
    {"gbytes_per_s", "GB/s", CELL_RATE}, {"of_memory", "of memory", CELL_RATIO},
    {"bytes", "weights", CELL_BYTES},    {NULL, NULL, CELL_TEXT}};

static void add_model(bench *b, const char *weights, const attend_model_timing *t) {
  char what[64];
  double rate = t->read_flops / t->read_s, bytes = t->token_bytes / t->token_s;
  snprintf(what, sizeof what, "read %d x %d", t->batch, t->tokens);
  table_add(&b->rows, (cell[]){cell_text(weights), cell_text(what), cell_number(t->read_s),
                               cell_number((double)t->batch * t->tokens / t->read_s),
                               cell_number(rate * 1e-9), cell_number(rate / t->product_flops),
                               cell_none(), cell_none(), cell_number(t->weights_bytes)});
  if (isnan(t->token_s)) return;
  table_add(&b->rows,
            (cell[]){cell_text(weights), cell_text("write 1 more"), cell_number(t->token_s),
                     cell_number(t->batch / t->token_s), cell_none(), cell_none(),
                     cell_number(bytes * 1e-9), cell_number(bytes / t->memory_bytes),
                     cell_number(t->weights_bytes)});
}

static attend_status open_files(bench *b) {
  static const char *const weights[] = {"model.safetensors", "model.safetensors.index.json"};
  for (int i = 0; i < 2; i++) {
    char *name = path_of("%s/%s", b->path, weights[i]);
    bool there = file_bytes(name) >= 0;
    free(name);
    if (there) return attend_checkpoint_open(b->ctx, b->path, &b->files);
  }
  attend_status status = attend_checkpoint_init_pytorch(b->ctx, b->path, 1, &b->files);
  if (!status) fprintf(stderr, "attend: %s has no weights: they are drawn at random\n", b->path);
  return status;
}

static attend_status bench_model(bench *b) {
  static const char *const kinds[] = {"f32", "bf16", "int8"};
  const char *only = b->o->model.weights_given;
  attend_status status = open_files(b);
  for (int i = 0; i < 3 && !status; i++) {
    attend_model_timing t;
    if (only && strcmp(only, kinds[i])) continue;
    b->how.weights = (attend_weights)i;
    status = attend_bench_model(b->files, &b->how, &t);
    if (!status) add_model(b, kinds[i], &t);
  }
  return status;
}

/* ---- train ------------------------------------------------------------------------------ */

static const column train_columns[] = {
    {"weights", "weights", CELL_TEXT},        {"what", "what", CELL_TEXT},
    {"seconds", "a step", CELL_SECONDS},      {"tokens_per_s", "tokens/s", CELL_NUMBER},
    {"gflops", "GFLOP/s", CELL_RATE},         {"of_sgemm", "of sgemm", CELL_RATIO},
    {"held_bytes", "parameters", CELL_BYTES}, {"work_bytes", "activations", CELL_BYTES},
    {"peak_bytes", "peak", CELL_BYTES},       {NULL, NULL, CELL_TEXT}};

static void add_step(bench *b, const char *weights, const char *name,
                     const attend_model_timing *t) {
  char what[96];
  double rate = t->read_flops / t->read_s;
  snprintf(what, sizeof what, "%s %d x %d", name, t->batch, t->tokens);
  table_add(&b->rows, (cell[]){cell_text(weights), cell_text(what), cell_number(t->read_s),
                               cell_number((double)t->batch * t->tokens / t->read_s),
                               cell_number(rate * 1e-9), cell_number(rate / t->product_flops),
                               cell_number(t->weights_bytes), cell_number(t->work_bytes),
                               cell_number(t->peak_bytes)});
}

static attend_status bench_train(bench *b) {
  static const char *const kinds[] = {"f32", "bf16"};
  static const attend_weights weights[] = {ATTEND_WEIGHTS_F32, ATTEND_WEIGHTS_MIXED};
  const char *only = b->o->model.weights_given, *attention = b->o->model.attention;
  attend_status status = attend_checkpoint_init(b->ctx, b->path, 1, &b->files);
  for (int i = 0; i < 2 && !status; i++) {
    attend_model_timing t;
    if (only && strcmp(only, kinds[i])) continue;
    b->how.weights = weights[i];
    status = attend_bench_train(b->files, &b->how, &t);
    if (!status) add_step(b, kinds[i], attention ? attention : "learn", &t);
  }
  return status;
}

/* ---- summarize -------------------------------------------------------------------------- */

static const column document_columns[] = {{"tokens", "tokens", CELL_COUNT},
                                          {"attention", "attention", CELL_TEXT},
                                          {"read_s", "read", CELL_SECONDS},
                                          {"read_limit_s", "arithmetic", CELL_SECONDS},
                                          {"tokens_per_s", "tokens/s", CELL_NUMBER},
                                          {"token_s", "write one", CELL_SECONDS},
                                          {"token_limit_s", "bytes", CELL_SECONDS},
                                          {"work_bytes", "work", CELL_BYTES},
                                          {"cache_bytes", "cache", CELL_BYTES},
                                          {"peak_bytes", "peak", CELL_BYTES},
                                          {NULL, NULL, CELL_TEXT}};

static void add_document(bench *b, const char *form, const attend_model_timing *t,
                         const attend_machine *machine) {
  if (!isnan(t->expected_s))
    fprintf(stderr,
            "attend: %s might take %.0f seconds for %d tokens and is skipped: "
            "--seconds N allows more than %.0f\n",
            form, t->expected_s, t->tokens, b->how.limit_s);
  table_add(&b->rows,
            (cell[]){cell_number(t->tokens), cell_text(form), cell_number(t->read_s),
                     cell_number(t->read_flops / machine->flops_all),
                     cell_number(t->tokens / t->read_s), cell_number(t->token_s),
                     cell_number(t->token_bytes / machine->read_all), cell_number(t->work_bytes),
                     cell_number(t->cache_bytes), cell_number(t->peak_bytes)});
}

/* ---- by length --------------------------------------------------------------------------- */

static attend_status measure_lengths(bench *b, bool training, attend_machine *machine) {
  int max = b->tokens[b->lengths - 1];
  bool narrow = training && b->o->model.weights == ATTEND_WEIGHTS_BF16;
  attend_status status = attend_bench_checkpoint(b->ctx, b->path, max, training, &b->files);
  b->how.weights = narrow     ? ATTEND_WEIGHTS_MIXED
                   : training ? ATTEND_WEIGHTS_F32
                              : b->o->model.weights;
  b->how.batch = 1;
  b->how.decoder_tokens = SUMMARY;
  if (!status && training)
    return attend_bench_steps(b->files, b->forms, b->form, b->lengths, b->tokens, &b->how, b->at);
  if (!status) status = ceilings_get(b->ctx, machine);
  if (status) return status;
  return attend_bench_documents(b->files, b->forms, b->form, b->lengths, b->tokens, &b->how, b->at);
}

static attend_status draw(const bench *b, bool training) {
  const char *labels[MOST_FORMS];
  char notes[200], decoder[40] = "";
  int threads = attend_context_threads(b->ctx);
  const char *isa = attend_context_isa(b->ctx);
  if (attend_config_parts(attend_checkpoint_config(b->files)) == ATTEND_BOTH)
    snprintf(decoder, sizeof decoder, " and %d decoder tokens", SUMMARY);
  if (training)
    snprintf(notes, sizeof notes, "One text%s a step: forward, backward, AdamW; %d threads, %s.",
             decoder, threads, isa);
  else
    snprintf(notes, sizeof notes, "One document; %d threads, %s, medians.", threads, isa);
  for (int k = 0; k < b->forms; k++) labels[k] = b->name[k];
  return attend_bench_plot(b->ctx, b->o->curve, b->forms, labels, b->lengths, b->tokens, b->at,
                           training, notes);
}

/* What was not measured before an interrupt is a gap. */
static attend_status bench_lengths(bench *b, bool training) {
  attend_machine machine;
  attend_status status = measure_lengths(b, training, &machine);
  progress_end();
  if (status && status != ATTEND_STOPPED) return status;
  for (int i = 0; i < b->lengths * b->forms; i++) {
    const char *name = b->name[i % b->forms];
    if (!b->at[i].tokens) continue;
    if (training)
      add_step(b, b->o->model.weights == ATTEND_WEIGHTS_BF16 ? "bf16" : "f32", name, &b->at[i]);
    else
      add_document(b, name, &b->at[i], &machine);
  }
  return b->o->curve ? draw(b, training) : ATTEND_OK;
}

/* ---- all of them ------------------------------------------------------------------------- */

static int prepare(bench *b, bool documents, bool by_length) {
  const bench_options *o = b->o;
  attend_config *config;
  char lengths[32] = "256..65536";
  const char *forms = "softmax,elu,favor(m=64)";
  int max = o->tokens ? o->tokens : 16384;
  b->how = (attend_bench_options){ATTEND_INIT(attend_bench_options),
                                  .product = blas_product(),
                                  .progress = progress_report,
                                  .batch = o->batch,
                                  .tokens = o->tokens,
                                  .recompute = o->recompute,
                                  .activations = o->model.bf16 ? ATTEND_BF16 : ATTEND_F32,
                                  .limit_s = o->limit_s ? o->limit_s : 180};
  attend_status status = attend_config_read(b->ctx, b->path, &config);
  if (!status && o->model.roles) status = attend_roles_parse(b->ctx, o->model.roles, &b->how.roles);
  if (!status && !by_length && o->model.attention) {
    status = attend_form_parse(b->ctx, o->model.attention, &b->form[0]);
    b->how.form = &b->form[0];
  }
  bool both = config && attend_config_parts(config) == ATTEND_BOTH;
  attend_config_free(config);
  if (status) return complain_status(b->ctx, status);
  if (documents && !both) {
    complain("%s has no encoder and decoder, which bench summarize measures: give a bart or t5",
             b->path);
    return EXIT_USAGE;
  }
  if (!by_length) return EXIT_OK;
  if (documents)
    forms = o->model.attention ? o->model.attention : "softmax,elu,favor(m=64),favor(m=256)";
  if (!documents) snprintf(lengths, sizeof lengths, "%d..%d", max < 512 ? max : 512, max);
  b->lengths = lengths_parse(o->lengths ? o->lengths : lengths, b->tokens);
  interrupt_watch();
  return parse_forms(b, o->forms ? o->forms : forms);
}

int bench_models(attend_context *ctx, const bench_options *o) {
  bool train = !strcmp(o->problems[0], "train"), documents = !strcmp(o->problems[0], "summarize");
  bool by_length = documents || (train && o->curve);
  int code;
  char *path = model_path(o->problems[1], &code);
  if (!path) return code;
  bench b = {.ctx = ctx, .o = o, .path = path};
  b.rows = table_start(train ? train_columns : documents ? document_columns : model_columns);
  code = prepare(&b, documents, by_length);
  progress_start("measuring", 0);
  if (!code) {
    attend_status status = by_length ? bench_lengths(&b, train)
                           : train   ? bench_train(&b)
                                     : bench_model(&b);
    progress_end();
    if (status) code = complain_status(ctx, status);
  }
  if (!code) code = table_finish(&b.rows, ctx, o->common.json);
  table_free(&b.rows);
  attend_checkpoint_free(b.files);
  free(path);
  return !code && is_interrupted() ? EXIT_INTERRUPTED : code;
}
