/* attend bench train: how fast a model learns.
 *
 * A step is forward, backward and AdamW on texts of drawn tokens, every place
 * scored. Its arithmetic is told as a share of sgemm's, measured in turns with it:
 * three times the products of the way forward, whatever is computed again.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attend/plot.h"
#include "attend/problem.h"
#include "attend/train.h"
#include "bench/lengths.h"
#include "bench/model.h"
#include "bench/share.h"
#include "model_open.h"
#include "progress.h"
#include "table.h"

enum { TEXTS = 2, TEXT_TOKENS = 512, ROUNDS = 7, LONG_S = 20, SUMMARY = 64 };

typedef struct {
  attend_context *ctx;
  attend_trainer *trainer;
  attend_optimizer *optimizer;
  attend_batch batch;
  int32_t *ids, *targets;
  sgemm_ceiling ceiling;
  const char *name; /* of the row */
  bool linear;      /* the form sums over keys: pairs are not what it computes */
  double seconds;   /* the median step, once measured */
  peak before;      /* the model is made */
  double bytes;     /* all that learning took, as the system saw it */
} train_bench;

/* ---- what it costs ---------------------------------------------------------------- */

/* One text forward; with the decoder's tokens of an encoder-decoder. */
static double text_flops(const attend_config *c, const attend_batch *l) {
  bool both = c->parts == ATTEND_BOTH;
  double read = l->length, written = both ? l->decoder_length : l->length, flops = 0;
  const attend_stack *last = c->parts & ATTEND_DECODER ? &c->decoder : &c->encoder;
  if (c->parts & ATTEND_ENCODER)
    flops += read * c->encoder.layers * layer_flops(&c->encoder, c->gated, false) +
             pair_flops(&c->encoder, read * read);
  if (c->parts & ATTEND_DECODER)
    flops += written * c->decoder.layers * layer_flops(&c->decoder, c->gated, both) +
             pair_flops(&c->decoder, written * written / 2 + (both ? written * read : 0));
  return flops + 2.0 * written * c->vocab * last->width;
}

/* ---- measuring ---------------------------------------------------------------------- */

static attend_status step(train_bench *t, double *seconds) {
  attend_batch_loss outcome;
  double start = seconds_now();
  attend_trainer_zero_grad(t->trainer);
  attend_status status = attend_trainer_accumulate(t->trainer, &t->batch, &outcome);
  if (!status) status = attend_optimizer_step(t->optimizer, 1e-4f, NULL);
  *seconds = seconds_now() - start;
  return status;
}

static attend_status rounds(train_bench *t, double *seconds, double *product) {
  double steps[ROUNDS], products[ROUNDS], warm;
  attend_status status = step(t, &warm);
  int threads = attend_context_threads(t->ctx);
  int taken = 0;
  double start = seconds_now();
  while (taken < ROUNDS && !status && !(taken >= 3 && seconds_now() - start > LONG_S)) {
    status = step(t, &steps[taken]);
    products[taken] = ceiling_seconds(&t->ceiling, threads);
    progress_step((size_t)taken++, "steps");
  }
  if (status) return status;
  *seconds = median_of(steps, taken);
  *product = median_of(products, taken);
  return ATTEND_OK;
}

/* ---- rows ------------------------------------------------------------------------------ */

static const column columns[] = {
    {"weights", "weights", CELL_TEXT},        {"what", "what", CELL_TEXT},
    {"seconds", "a step", CELL_SECONDS},      {"tokens_per_s", "tokens/s", CELL_NUMBER},
    {"gflops", "GFLOP/s", CELL_RATE},         {"of_sgemm", "of sgemm", CELL_RATIO},
    {"held_bytes", "parameters", CELL_BYTES}, {"work_bytes", "activations", CELL_BYTES},
    {"peak_bytes", "peak", CELL_BYTES},       {NULL, NULL, CELL_TEXT}};

static attend_status measure(train_bench *t, const char *weights, table *to) {
  double seconds, product;
  char what[64];
  const attend_batch *l = &t->batch;
  double tokens = (double)l->count * l->length;
  attend_status status = rounds(t, &seconds, &product);
  if (status) return status;
  double gflops = 3 * l->count * text_flops(attend_trainer_config(t->trainer), l) / seconds * 1e-9;
  if (t->linear) gflops = NAN;
  snprintf(what, sizeof what, "%s %d x %d", t->name, l->count, l->length);
  t->seconds = seconds;
  t->bytes = peak_since(t->before);
  cell row[] = {cell_text(weights),
                cell_text(what),
                cell_number(seconds),
                cell_number(tokens / seconds),
                cell_number(gflops),
                cell_number(gflops / ceiling_gflops(product)),
                cell_number((double)attend_trainer_bytes(t->trainer)),
                cell_number((double)attend_trainer_work_bytes(t->trainer)),
                cell_number(t->bytes)};
  table_add(to, row);
  return status;
}

/* ---- the model ---------------------------------------------------------------------------- */

static void prepare(train_bench *t, const bench_model_options *o) {
  const attend_config *c = attend_trainer_config(t->trainer);
  int batch = o->batch ? o->batch : TEXTS;
  int length = o->tokens ? o->tokens : TEXT_TOKENS;
  if (c->positions && length > c->positions) length = c->positions;
  size_t n = (size_t)batch * (size_t)length;
  t->ids = need(n, sizeof *t->ids);
  t->targets = need(n, sizeof *t->targets);
  for (size_t i = 0; i < n; i++) {
    uint32_t words[4];
    attend_random_block((attend_random){7, 0}, i, words);
    t->ids[i] = (int32_t)(words[0] % (uint32_t)c->vocab);
    t->targets[i] = (int32_t)(words[1] % (uint32_t)c->vocab);
  }
  t->batch = (attend_batch){ATTEND_INIT(attend_batch), .count = batch, .length = length,
                            .ids = t->ids, .targets = t->targets};
  if (c->parts == ATTEND_BOTH) {
    t->batch.decoder_length = o->curve && length > SUMMARY ? SUMMARY : length;
    t->batch.decoder_ids = t->ids;
  }
}

static void finish(train_bench *t) {
  attend_optimizer_free(t->optimizer);
  attend_trainer_free(t->trainer);
  free(t->ids);
  free(t->targets);
  ceiling_close(&t->ceiling);
}

typedef struct {
  attend_context *ctx;
  attend_checkpoint *files;
  const bench_model_options *o;
  table *to;
} train_benches;

static attend_status bench_one(const train_benches *all, const bench_model_options *o,
                               attend_weights kind, const char *weights, const char *attention,
                               double *seconds, double *bytes) {
  train_bench t = {.ctx = all->ctx, .name = attention ? attention : "learn"};
  attend_form form = {0};
  attend_trainer_options wanted = {ATTEND_INIT(attend_trainer_options), .weights = kind,
                                   .recompute = o->recompute};
  attend_status status = ATTEND_OK;
  if (attention) {
    status = attend_form_parse(t.ctx, attention, &form);
    wanted.form = &form;
    if (!status && o->model.roles)
      status = attend_roles_parse(t.ctx, o->model.roles, &wanted.roles);
    t.linear = attend_form_features(&form, 64) > 0;
  }
  t.ceiling = ceiling_open();
  ceiling_seconds(&t.ceiling, attend_context_threads(t.ctx));
  t.before = peak_watch();
  if (!status) status = attend_trainer_create(all->files, &wanted, &t.trainer);
  if (!status) status = attend_optimizer_create(t.trainer, NULL, &t.optimizer);
  if (!status) prepare(&t, o);
  if (!status) status = measure(&t, weights, all->to);
  if (seconds) *seconds = t.seconds;
  if (bytes) *bytes = t.bytes;
  finish(&t);
  return status;
}

static attend_status bench_kinds(const train_benches *all) {
  static const char *const kinds[] = {"f32", "bf16"};
  static const attend_weights weights[] = {ATTEND_WEIGHTS_F32, ATTEND_WEIGHTS_MIXED};
  const char *asked = all->o->model.weights_given;
  attend_status status = ATTEND_OK;
  progress_start("measuring", ROUNDS);
  for (int i = 0; i < 2 && !status; i++)
    if (!asked || !strcmp(asked, kinds[i]))
      status = bench_one(all, all->o, weights[i], kinds[i], all->o->model.attention, NULL, NULL);
  progress_end();
  return status;
}

/* ---- by length --------------------------------------------------------------------------- */

typedef struct {
  length_list lengths;
  form_list forms;
  double length[MOST_LENGTHS];
  double seconds[MOST_FORMS][MOST_LENGTHS], bytes[MOST_FORMS][MOST_LENGTHS];
} curves;

static void draw_lines(const curves *c, const double y[][MOST_LENGTHS],
                       attend_plot_series *series) {
  for (int i = 0; i < c->forms.count; i++)
    series[i] = (attend_plot_series){.name = c->forms.name[i],
                                     .count = (size_t)c->lengths.count,
                                     .x = c->length,
                                     .y = y[i],
                                     .points = 1};
}

static attend_status draw_curves(const train_benches *all, const curves *c) {
  attend_plot_series time[MOST_FORMS], memory[MOST_FORMS];
  bool both = attend_checkpoint_config(all->files)->parts == ATTEND_BOTH;
  char notes[200], decoder[40];
  draw_lines(c, c->seconds, time);
  draw_lines(c, c->bytes, memory);
  attend_plot_panel panels[] = {{.title = "A step of training, by length",
                                 .x = {.label = "tokens of the text", .log = 1},
                                 .y = {.label = "seconds", .log = 1},
                                 .count = (size_t)c->forms.count,
                                 .series = time},
                                {.title = "Its memory, with parameters and moments",
                                 .x = {.label = "tokens of the text", .log = 1},
                                 .y = {.label = "bytes", .log = 1},
                                 .count = (size_t)c->forms.count,
                                 .series = memory}};
  snprintf(decoder, sizeof decoder, " and %d decoder tokens", SUMMARY);
  snprintf(notes, sizeof notes, "One text%s a step: forward, backward, AdamW; %d threads, %s.",
           both ? decoder : "", attend_context_threads(all->ctx), attend_context_isa(all->ctx));
  attend_plot plot = {ATTEND_INIT(attend_plot), .count = 2, .panels = panels, .notes = notes};
  return attend_plot_save(all->ctx, &plot, all->o->curve);
}

/* What was not measured before an interrupt is a gap. */
static attend_status measure_curves(const train_benches *all, curves *c) {
  bench_model_options o = *all->o;
  bool narrow = o.model.weights == ATTEND_WEIGHTS_BF16;
  attend_weights kind = narrow ? ATTEND_WEIGHTS_MIXED : ATTEND_WEIGHTS_F32;
  attend_status status = ATTEND_OK;
  o.batch = 1;
  interrupt_watch();
  progress_start("measuring", ROUNDS);
  for (int n = 0; n < c->lengths.count; n++)
    for (int i = 0; i < c->forms.count; i++) {
      c->length[n] = o.tokens = c->lengths.tokens[n];
      c->seconds[i][n] = c->bytes[i][n] = NAN;
      if (!status && !is_interrupted())
        status = bench_one(all, &o, kind, narrow ? "bf16" : "f32", c->forms.name[i],
                           &c->seconds[i][n], &c->bytes[i][n]);
    }
  progress_end();
  return status;
}

/* The lengths that were asked for; a model that is too short is made longer. */
static int bench_curve(train_benches *all, const char *path) {
  curves c = {0};
  char lengths[32];
  int most = all->o->tokens ? all->o->tokens : 16384;
  snprintf(lengths, sizeof lengths, "%d..%d", most < 512 ? most : 512, most);
  lengths_parse(all->o->lengths ? all->o->lengths : lengths, &c.lengths);
  int code =
      forms_parse(all->ctx, all->o->forms ? all->o->forms : "softmax,elu,favor(m=64)", &c.forms);
  if (!code)
    code = checkpoint_for_length(all->ctx, path, c.lengths.tokens[c.lengths.count - 1], true,
                                 &all->files);
  if (code) return code;
  attend_status status = measure_curves(all, &c);
  if (!status) status = draw_curves(all, &c);
  return status ? complain_status(all->ctx, status) : EXIT_OK;
}

static int bench_plain(train_benches *all, const char *path) {
  attend_status status = attend_checkpoint_init(all->ctx, path, 1, &all->files);
  if (!status) status = bench_kinds(all);
  return status ? complain_status(all->ctx, status) : EXIT_OK;
}

int bench_train(attend_context *ctx, const options *common, const bench_model_options *o) {
  int code;
  char *path = model_path(o->model.path, &code);
  if (!path) return code;
  table t = table_start(columns);
  train_benches all = {.ctx = ctx, .o = o, .to = &t};
  code = o->curve ? bench_curve(&all, path) : bench_plain(&all, path);
  if (!code) code = common->json ? table_print_json(&t, ctx, stdout) : table_print(&t, stdout);
  table_free(&t);
  attend_checkpoint_close(all.files);
  free(path);
  return !code && is_interrupted() ? EXIT_INTERRUPTED : code;
}
