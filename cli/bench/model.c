/* attend bench model: how fast a model reads and writes.
 *
 * Reading (a prompt, a batch of texts) is bound by arithmetic and shown as a share of
 * sgemm's throughput; decoding is bound by memory and shown as a share of the machine's
 * bandwidth. Both ceilings are measured in turns with it. Speed does not depend on the
 * values of the weights, so a folder with config.json alone is enough.
 */
#include "bench/model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "attend/machine.h"
#include "attend/problem.h"
#include "bench/share.h"
#include "model_open.h"
#include "progress.h"
#include "table.h"

enum { TOKENS = 512, TEXTS = 32, TEXT_TOKENS = 128, NEW = 16, ROUNDS = 5 };

typedef struct {
  attend_context *ctx;
  attend_model *model;
  const attend_config *config;
  attend_session *session;
  int32_t *ids;
  int sequences, tokens;
  float *logits;
  sgemm_ceiling ceiling;
} model_bench;

/* ---- one measurement ------------------------------------------------------------------- */

typedef struct {
  double seconds[ROUNDS * 8];
  int count;
} times;

static double median(times *t) { return median_of(t->seconds, t->count); }

static attend_status read_once(model_bench *m, times *t) {
  bool encoder = m->config->parts & ATTEND_ENCODER;
  attend_session_reset(m->session);
  double start = seconds_now();
  attend_status status =
      encoder ? attend_session_encode(m->session, m->sequences, m->tokens, m->ids, NULL, NULL)
              : attend_session_extend(m->session, m->sequences, m->tokens, m->ids, NULL);
  if (!status && !encoder) status = attend_session_next(m->session, m->sequences, m->logits);
  t->seconds[t->count++] = seconds_now() - start;
  return status;
}

/* Tokens after the prompt, one at a time, each with its logits. */
static attend_status write_once(model_bench *m, times *t) {
  double start = seconds_now();
  attend_status status = ATTEND_OK;
  for (int i = 0; i < NEW && !status; i++) {
    status = attend_session_extend(m->session, m->sequences, 1, m->ids, NULL);
    if (!status) status = attend_session_next(m->session, m->sequences, m->logits);
  }
  t->seconds[t->count++] = (seconds_now() - start) / NEW;
  return status;
}

/* ---- cost ------------------------------------------------------------------------ */

/* Products of weights, and of queries with keys and weights with values. */
static double read_flops(const model_bench *m) {
  const attend_stack *s =
      m->config->parts & ATTEND_ENCODER ? &m->config->encoder : &m->config->decoder;
  double head = attend_model_flops(m->model), pairs, tokens = m->tokens;
  bool causal = m->config->parts == ATTEND_DECODER;
  double layers = layer_flops(s, m->config->gated, false);
  pairs = causal ? tokens * (tokens + 1) / 2 : tokens * tokens;
  double once = causal ? head - layers * s->layers : 0; /* the head, one row */
  return m->sequences * (tokens * layers * s->layers + fmax(0, once) + pair_flops(s, pairs));
}

/* Bytes that one more token reads. */
static size_t token_bytes(const model_bench *m) {
  return attend_model_bytes(m->model) + attend_session_cache_bytes(m->session);
}

/* ---- rows ------------------------------------------------------------------------------------- */

static const column columns[] = {
    {"weights", "weights", CELL_TEXT},   {"what", "what", CELL_TEXT},
    {"seconds", "time", CELL_SECONDS},   {"tokens_per_s", "tokens/s", CELL_NUMBER},
    {"gflops", "GFLOP/s", CELL_RATE},    {"of_sgemm", "of sgemm", CELL_RATIO},
    {"gbytes_per_s", "GB/s", CELL_RATE}, {"of_memory", "of memory", CELL_RATIO},
    {"bytes", "weights", CELL_BYTES},    {NULL, NULL, CELL_TEXT}};

typedef struct {
  const char *weights, *what;
  double seconds, tokens, flops, bytes, sgemm, memory;
  size_t held;
} bench_row;

static void add_row(table *t, const bench_row *r) {
  double gflops = r->flops / r->seconds * 1e-9;
  double gbytes = r->bytes / r->seconds * 1e-9;
  cell row[] = {cell_text(r->weights),       cell_text(r->what),
                cell_number(r->seconds),     cell_number(r->tokens / r->seconds),
                cell_number(gflops),         cell_number(gflops / ceiling_gflops(r->sgemm)),
                cell_number(gbytes),         cell_number(gbytes * 1e9 / r->memory),
                cell_number((double)r->held)};
  table_add(t, row);
}

static attend_status measure(model_bench *m, const char *weights, table *t) {
  times reading = {0}, writing = {0}, product = {0}, bandwidth = {0};
  attend_status status = ATTEND_OK;
  bool writes = m->config->parts == ATTEND_DECODER;
  for (int i = 0; i <= ROUNDS && !status; i++) {
    double rate = 0;
    status = read_once(m, &reading);
    if (!status && writes) status = write_once(m, &writing);
    product.seconds[product.count++] = ceiling_seconds(&m->ceiling, attend_context_threads(m->ctx));
    if (!status) status = attend_machine_read(m->ctx, token_bytes(m), &rate);
    if (!status) bandwidth.seconds[bandwidth.count++] = rate;
    if (i == 0) reading.count = writing.count = product.count = 0;
  }
  if (status) return status;
  double sgemm = median(&product), memory = median(&bandwidth);
  size_t held = attend_model_bytes(m->model);
  char what[64];
  snprintf(what, sizeof what, "read %d x %d", m->sequences, m->tokens);
  bench_row row = {
      weights, what, median(&reading), (double)m->sequences * m->tokens, read_flops(m), NAN, sgemm,
      memory,  held};
  add_row(t, &row);
  if (!writes) return status;
  row = (bench_row){weights,
                    "write 1 more",
                    median(&writing),
                    m->sequences,
                    NAN,
                    (double)token_bytes(m),
                    sgemm,
                    memory,
                    held};
  add_row(t, &row);
  return status;
}

/* ---- the model ---------------------------------------------------------------------------------- */

static attend_status prepare(model_bench *m, const bench_model_options *o) {
  bool encoder = m->config->parts & ATTEND_ENCODER;
  m->sequences = o->batch ? o->batch : encoder ? TEXTS : 1;
  m->tokens = o->tokens ? o->tokens : encoder ? TEXT_TOKENS : TOKENS;
  int most = m->config->positions;
  if (most && !encoder) most -= NEW;
  if (most && m->tokens > most) m->tokens = most;
  int n = m->sequences * m->tokens;
  m->ids = need((size_t)n, sizeof *m->ids);
  for (int i = 0; i < n; i++) m->ids[i] = (int32_t)((i * 7919LL + 13) % m->config->vocab);
  m->logits = need((size_t)m->sequences * (size_t)m->config->vocab, sizeof *m->logits);
  m->ceiling = ceiling_open();
  attend_session_options r = {ATTEND_INIT(attend_session_options), .batch = m->sequences,
                              .rows = m->tokens};
  return attend_session_create(m->model, &r, &m->session);
}

static void finish(model_bench *m) {
  attend_session_free(m->session);
  free(m->ids);
  free(m->logits);
  ceiling_close(&m->ceiling);
}

static attend_status bench_weights(attend_context *ctx, attend_checkpoint *files,
                                   const bench_model_options *o, attend_weights kind,
                                   const char *name, const attend_form *form, unsigned roles,
                                   table *t) {
  model_bench m = {.ctx = ctx, .config = attend_checkpoint_config(files)};
  attend_model_options how = {ATTEND_INIT(attend_model_options), .weights = kind, .form = form,
                              .roles = roles, .no_head = m.config->parts & ATTEND_ENCODER};
  attend_status status = attend_model_create(files, &how, &m.model);
  if (!status) status = prepare(&m, o);
  if (!status) status = measure(&m, name, t);
  finish(&m);
  attend_model_free(m.model);
  return status;
}

static attend_status open_files(attend_context *ctx, const char *path, attend_checkpoint **files) {
  char name[4096];
  struct stat info;
  static const char *const weights[] = {"model.safetensors", "model.safetensors.index.json"};
  for (int i = 0; i < 2; i++) {
    snprintf(name, sizeof name, "%s/%s", path, weights[i]);
    if (!stat(name, &info)) return attend_checkpoint_open(ctx, path, files);
  }
  attend_status status = attend_checkpoint_init_pytorch(ctx, path, 1, files);
  if (!status) fprintf(stderr, "attend: %s has no weights: they are drawn at random\n", path);
  return status;
}

static attend_status bench_kinds(attend_context *ctx, attend_checkpoint *files,
                                 const bench_model_options *o, table *t) {
  static const char *const names[] = {"f32", "bf16", "int8"};
  attend_form form = {0};
  unsigned roles;
  attend_status status = model_form(ctx, &o->model, &form, &roles);
  progress_start("measuring", 3);
  for (int i = 0; i < 3 && !status; i++) {
    const char *only = o->model.weights_given;
    if (only && strcmp(only, names[i])) continue;
    progress_step((size_t)i, names[i]);
    status = bench_weights(ctx, files, o, (attend_weights)i, names[i],
                           o->model.attention ? &form : NULL, roles, t);
  }
  progress_end();
  return status;
}

int bench_model(attend_context *ctx, const options *common, const bench_model_options *o) {
  int code;
  attend_checkpoint *files = NULL;
  char *path = model_path(o->model.path, &code);
  if (!path) return code;
  table t = table_start(columns);
  attend_status status = open_files(ctx, path, &files);
  if (!status) status = bench_kinds(ctx, files, o, &t);
  code = status         ? complain_status(ctx, status)
         : common->json ? table_print_json(&t, ctx, stdout)
                        : table_print(&t, stdout);
  table_free(&t);
  attend_checkpoint_close(files);
  free(path);
  return code;
}
