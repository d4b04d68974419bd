/* attend bench summarize: time and memory of an encoder-decoder by the length of
 * what it reads, for several forms of attention.
 *
 * A document of drawn tokens is read, then NEW tokens are written. Forms take
 * turns, so that what disturbs the machine disturbs all of them; what would take
 * longer than --seconds, by what the length before took, is left out. Beside each
 * time stands the least that the machine's ceilings allow: of reading by the
 * arithmetic that the form needs, of writing by the bytes that a token reads.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attend/machine.h"
#include "attend/plot.h"
#include "attend/problem.h"
#include "bench/lengths.h"
#include "bench/model.h"
#include "bench/share.h"
#include "bench/ceilings.h"
#include "interrupt.h"
#include "model_path.h"
#include "progress.h"
#include "table.h"

enum { NEW = 16, ROUNDS = 7, LIMIT_S = 180 };

typedef struct {
  double read_s, read_limit_s, token_s, token_limit_s, work, cache, peak;
} cost;

/* One form. */
typedef struct {
  const char *name;
  const attend_form *form;
  attend_model *model;
  cost at[MOST_LENGTHS];              /* NaN: left out */
  double read[ROUNDS], token[ROUNDS]; /* of the length at hand */
  int taken;
  double spent;
} reader;

typedef struct {
  attend_context *ctx;
  const bench_model_options *o;
  attend_checkpoint *files;
  attend_model *model; /* holds the weights */
  attend_machine machine;
  length_list lengths;
  form_list forms;
  reader readers[MOST_FORMS];
  int32_t *ids;
  float *logits;
} race;

/* ---- one document ------------------------------------------------------------------ */

static attend_status read_document(race *r, attend_session *run, int n,
                                   double *seconds) {
  double start = seconds_now();
  attend_status status = attend_session_encode(run, 1, n, r->ids, NULL, NULL);
  *seconds = seconds_now() - start;
  return status;
}

static attend_status write_summary(race *r, attend_session *run,
                                   double *seconds) {
  attend_status status = ATTEND_OK;
  double start = seconds_now();
  for (int i = 0; i < NEW && !status; i++) {
    status = attend_session_extend(run, 1, 1, r->ids + i, NULL);
    if (!status) status = attend_session_next(run, 1, r->logits);
  }
  *seconds = (seconds_now() - start) / NEW;
  return status;
}

/* Memory is touched for the first time in the first reading: short ones are done
 * twice, and the second counts. */
static attend_status measure_once(race *r, reader *f, int n, cost *c) {
  attend_session *run = NULL;
  double *read = &f->read[f->taken], *token = &f->token[f->taken];
  peak before = peak_watch();
  double start = seconds_now();
  attend_status status = attend_session_create(f->model, NULL, &run);
  if (!status) status = read_document(r, run, n, read);
  if (!status && *read < 1) status = read_document(r, run, n, read);
  if (!status) status = write_summary(r, run, token);
  if (!status) {
    c->work = (double)attend_session_work_bytes(run);
    c->cache = (double)attend_session_cache_bytes(run);
    double held = peak_since(before);
    if (!f->taken || held > c->peak) c->peak = held;
    f->taken++;
  }
  attend_session_free(run);
  f->spent += seconds_now() - start;
  return status;
}

/* ---- what the machine allows --------------------------------------------------------- */

/* Weights of the encoder's layers and of the keys and values of cross-attention,
 * and attention among the tokens, as the plan would do it. */
static attend_status read_flops(const race *r, const reader *f, int n,
                                double *flops) {
  const attend_config *config = attend_model_config(f->model);
  const attend_stack *e = &config->encoder, *d = &config->decoder;
  attend_desc desc;
  attend_cost attention;
  if (!attend_model_attention(f->model, ATTEND_ENCODER_SELF, 0, &desc))
    return ATTEND_INVALID;
  desc.batch = 1;
  desc.q_len = desc.kv_len = n;
  if (attend_form_features(&desc.form, desc.dim)) desc.engine = "linear";
  attend_status status = attend_desc_cost(r->ctx, &desc, &attention);
  double keys = 2.0 * e->width * d->kv_heads * (d->dim + d->dim_v);
  *flops =
      e->layers * (n * layer_flops(e, config->gated, false) + attention.flops) +
      (double)n * d->layers * keys;
  return status;
}

/* Weights of the decoder, but for the keys and values of cross-attention, and the
 * head; and what it remembers of the document. */
static double token_bytes(const race *r, const reader *f, double cache) {
  static const double size[] = {4, 2, 1};
  const attend_config *config = attend_model_config(f->model);
  const attend_stack *d = &config->decoder;
  double layer = layer_flops(d, config->gated, false) / 2 +
                 (double)d->width * d->heads * (d->dim + d->dim_v);
  double weights = d->layers * layer + (double)config->vocab * d->width;
  return cache + weights * size[r->o->model.weights];
}

static attend_status conclude(race *r, reader *f, int n, cost *c) {
  double flops = 0;
  attend_status status = read_flops(r, f, n, &flops);
  c->read_s = median_of(f->read, f->taken);
  c->token_s = median_of(f->token, f->taken);
  c->read_limit_s = flops / r->machine.flops_all;
  c->token_limit_s = token_bytes(r, f, c->cache) / r->machine.read_all;
  return status;
}

/* ---- all forms at a length ------------------------------------------------------------- */

static bool is_measured(const reader *f) {
  return f->taken == ROUNDS || (f->spent > 3 && f->taken >= 3) || f->spent > 20;
}

/* By the length before, as if every pair of tokens cost the same. */
static bool is_too_long(const race *r, const reader *f, int i) {
  if (!i) return false;
  double ratio = (double)r->lengths.tokens[i] / r->lengths.tokens[i - 1];
  double expected = f->at[i - 1].read_s * ratio * ratio;
  double most = r->o->limit_s > 0 ? r->o->limit_s : LIMIT_S;
  if (expected <= most) return false;
  if (!isnan(expected))
    fprintf(stderr,
            "attend: %s might take %.0f seconds for %d tokens and is left "
            "out: --seconds N allows more than %.0f\n",
            f->name, expected, r->lengths.tokens[i], most);
  return true;
}

static attend_status measure_length(race *r, int i) {
  int n = r->lengths.tokens[i], left = 0;
  char now[96];
  attend_status status = ATTEND_OK;
  for (int k = 0; k < r->forms.count; k++) {
    reader *f = &r->readers[k];
    f->spent = f->taken = 0;
    f->at[i] = (cost){NAN, NAN, NAN, NAN, NAN, NAN, NAN};
    if (is_too_long(r, f, i)) f->spent = INFINITY;
    left += !is_measured(f);
  }
  while (left && !status && !is_interrupted())
    for (int k = 0; k < r->forms.count && !status && !is_interrupted(); k++) {
      reader *f = &r->readers[k];
      if (is_measured(f)) continue;
      snprintf(now, sizeof now, "%d tokens, %s", n, f->name);
      progress_note(now);
      status = measure_once(r, f, n, &f->at[i]);
      left -= is_measured(f);
    }
  for (int k = 0; k < r->forms.count && !status; k++)
    if (r->readers[k].taken)
      status = conclude(r, &r->readers[k], n, &r->readers[k].at[i]);
  return status;
}

/* ---- rows, and a picture ------------------------------------------------------------------ */

static const column columns[] = {{"tokens", "tokens", CELL_COUNT},
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

static void add_rows(const race *r, int i, table *t) {
  for (int k = 0; k < r->forms.count; k++) {
    const cost *c = &r->readers[k].at[i];
    double n = r->lengths.tokens[i];
    cell row[] = {cell_number(n),
                  cell_text(r->readers[k].name),
                  cell_number(c->read_s),
                  cell_number(c->read_limit_s),
                  cell_number(n / c->read_s),
                  cell_number(c->token_s),
                  cell_number(c->token_limit_s),
                  cell_number(c->work),
                  cell_number(c->cache),
                  cell_number(c->peak)};
    table_add(t, row);
  }
}

enum { PANELS = 3 };

typedef struct {
  double x[MOST_LENGTHS], y[MOST_FORMS][MOST_LENGTHS];
  attend_plot_series series[MOST_FORMS];
} lines;

static double shown(const cost *c, int panel) {
  return panel == 0 ? c->read_s : panel == 1 ? c->token_s : c->work + c->cache;
}

static attend_plot_panel draw_panel(const race *r, int lengths, int panel,
                                    lines *l) {
  static const char *const titles[PANELS] = {"Reading a document",
                                             "Writing a token after it",
                                             "Memory, the weights apart"};
  for (int i = 0; i < lengths; i++) {
    l->x[i] = r->lengths.tokens[i];
    for (int k = 0; k < r->forms.count; k++)
      l->y[k][i] = shown(&r->readers[k].at[i], panel);
  }
  for (int k = 0; k < r->forms.count; k++)
    l->series[k] = (attend_plot_series){.name = r->readers[k].name,
                                        .count = (size_t)lengths,
                                        .x = l->x,
                                        .y = l->y[k],
                                        .points = 1};
  return (attend_plot_panel){
      .title = titles[panel],
      .x = {.label = "tokens of the document", .log = 1},
      .y = {.label = panel < 2 ? "seconds" : "bytes", .log = 1},
      .count = (size_t)r->forms.count,
      .series = l->series};
}

static attend_status draw(const race *r, int lengths) {
  lines all[PANELS];
  attend_plot_panel panels[PANELS];
  char notes[160];
  for (int p = 0; p < PANELS; p++)
    panels[p] = draw_panel(r, lengths, p, &all[p]);
  snprintf(notes, sizeof notes, "One document; %d threads, %s, medians.",
           attend_context_threads(r->ctx), attend_context_isa(r->ctx));
  attend_plot plot = {.count = PANELS, .panels = panels, .notes = notes};
  return attend_plot_save(r->ctx, &plot, r->o->curve);
}

/* ---- the models ---------------------------------------------------------------------------- */

static void draw_ids(race *r) {
  int n = r->lengths.tokens[r->lengths.count - 1];
  int vocab = attend_model_config(r->model)->vocab;
  r->ids = need((size_t)n + NEW, sizeof *r->ids);
  for (int i = 0; i < n + NEW; i++) {
    uint32_t words[4];
    attend_random_block((attend_random){7, 0}, (uint64_t)i, words);
    r->ids[i] = (int32_t)(words[0] % (uint32_t)vocab);
  }
  r->logits = need((size_t)vocab, sizeof *r->logits);
}

static attend_status open_readers(race *r) {
  unsigned roles = ATTEND_IN_ENCODER | ATTEND_IN_CROSS;
  attend_model_options wanted = {.weights = r->o->model.weights};
  attend_status status = attend_model_create(r->files, &wanted, &r->model);
  if (!status && r->o->model.roles)
    status = attend_roles_parse(r->ctx, r->o->model.roles, &roles);
  for (int k = 0; k < r->forms.count && !status; k++) {
    r->readers[k].name = r->forms.name[k];
    status = attend_model_with_roles(r->model, &r->forms.form[k], roles,
                                     &r->readers[k].model);
  }
  if (!status) status = ceilings_get(r->ctx, &r->machine);
  if (!status) draw_ids(r);
  return status;
}

static int prepare(race *r, const char *path) {
  int most = r->lengths.tokens[r->lengths.count - 1];
  const char *forms = r->o->forms ? r->o->forms
                      : r->o->model.attention
                          ? r->o->model.attention
                          : "softmax,elu,favor(m=64),favor(m=256)";
  int code = forms_parse(r->ctx, forms, &r->forms);
  if (!code)
    code = checkpoint_for_length(r->ctx, path, most > NEW ? most : NEW, false,
                                 &r->files);
  if (code) return code;
  if (attend_checkpoint_config(r->files)->parts != ATTEND_BOTH) {
    complain(
        "%s has no encoder and decoder, which bench summarize measures: "
        "give a bart or t5",
        path);
    return EXIT_USAGE;
  }
  attend_status status = open_readers(r);
  return status ? complain_status(r->ctx, status) : EXIT_OK;
}

static void finish(race *r) {
  for (int k = 0; k < r->forms.count; k++)
    attend_model_free(r->readers[k].model);
  attend_model_free(r->model);
  attend_checkpoint_close(r->files);
  free(r->ids);
  free(r->logits);
}

static int measure(race *r, const options *common) {
  table t = table_start(columns);
  attend_status status = ATTEND_OK;
  int done = 0;
  interrupt_watch();
  progress_start("measuring", (size_t)r->lengths.count);
  while (done < r->lengths.count && !status && !is_interrupted()) {
    progress_step((size_t)done, "");
    status = measure_length(r, done);
    if (!status) add_rows(r, done++, &t);
  }
  progress_end();
  if (!status && r->o->curve) status = draw(r, done);
  int code = status         ? complain_status(r->ctx, status)
             : common->json ? table_print_json(&t, r->ctx, stdout)
                            : table_print(&t, stdout);
  table_free(&t);
  return !code && is_interrupted() ? EXIT_INTERRUPTED : code;
}

int bench_summarize(attend_context *ctx, const options *common,
                    const bench_model_options *o) {
  int code;
  char *path = model_path(o->model.path, &code);
  if (!path) return code;
  race r = {.ctx = ctx, .o = o};
  lengths_parse(o->lengths ? o->lengths : "256..65536", &r.lengths);
  code = prepare(&r, path);
  if (!code) code = measure(&r, common);
  finish(&r);
  free(path);
  return code;
}
