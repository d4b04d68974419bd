/* attend bench summarize: time and memory of an encoder-decoder by document length,
 * for several forms of attention.
 *
 * A document of random tokens is encoded, then NEW tokens are decoded. Forms take
 * turns, so that other load on the machine affects all of them; a form that would
 * exceed --seconds, extrapolated from the length before, is skipped. Beside each time
 * is its roofline limit: of encoding by the form's arithmetic, of decoding by the
 * bytes that a token reads.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attend/machine.h"
#include "attend/plot.h"
#include "attend/problem.h"
#include "bench/ceilings.h"
#include "bench/lengths.h"
#include "bench/model.h"
#include "bench/share.h"
#include "model_open.h"
#include "progress.h"
#include "table.h"

enum { NEW = 16, ROUNDS = 7, LIMIT_S = 180 };

typedef struct {
  double read_s, read_limit_s, token_s, token_limit_s, work, cache, peak;
} cost;

typedef struct {
  const char *name; /* of the form */
  attend_model *model;
  cost at[MOST_LENGTHS];              /* NaN: skipped */
  double read[ROUNDS], token[ROUNDS]; /* of the current length */
  int rounds;
  double spent;
} form_bench;

typedef struct {
  attend_context *ctx;
  const bench_model_options *o;
  attend_checkpoint *files;
  attend_model *model; /* holds the weights */
  attend_machine machine;
  length_list lengths;
  form_list forms;
  form_bench bench[MOST_FORMS]; /* of each form */
  int32_t *ids;
  float *logits;
} summarize_bench;

/* ---- one document ------------------------------------------------------------------ */

static attend_status encode_document(summarize_bench *r, attend_session *session, int n,
                                     double *seconds) {
  double start = seconds_now();
  attend_status status = attend_session_encode(session, 1, n, r->ids, NULL, NULL);
  *seconds = seconds_now() - start;
  return status;
}

static attend_status decode_tokens(summarize_bench *r, attend_session *session, double *seconds) {
  attend_status status = ATTEND_OK;
  double start = seconds_now();
  for (int i = 0; i < NEW && !status; i++) {
    status = attend_session_extend(session, 1, 1, r->ids + i, NULL);
    if (!status) status = attend_session_next(session, 1, r->logits);
  }
  *seconds = (seconds_now() - start) / NEW;
  return status;
}

/* The first pass faults in its memory: short ones are done twice, and the second
 * counts. */
static attend_status measure_once(summarize_bench *r, form_bench *f, int n, cost *c) {
  attend_session *session = NULL;
  double *read = &f->read[f->rounds], *token = &f->token[f->rounds];
  peak before = peak_watch();
  double start = seconds_now();
  attend_status status = attend_session_create(f->model, NULL, &session);
  if (!status) status = encode_document(r, session, n, read);
  if (!status && *read < 1) status = encode_document(r, session, n, read);
  if (!status) status = decode_tokens(r, session, token);
  if (!status) {
    c->work = (double)attend_session_work_bytes(session);
    c->cache = (double)attend_session_cache_bytes(session);
    double held = peak_since(before);
    if (!f->rounds || held > c->peak) c->peak = held;
    f->rounds++;
  }
  attend_session_free(session);
  f->spent += seconds_now() - start;
  return status;
}

/* ---- roofline limits --------------------------------------------------------- */

/* Weights of the encoder's layers and of the keys and values of cross-attention,
 * and attention among the tokens, by the plan's cost. */
static attend_status read_flops(const summarize_bench *r, const form_bench *f, int n,
                                double *flops) {
  const attend_config *config = attend_model_config(f->model);
  const attend_stack *e = &config->encoder, *d = &config->decoder;
  attend_desc desc = {ATTEND_INIT(attend_desc)};
  attend_cost attention;
  if (!attend_model_attention(f->model, ATTEND_ENCODER_SELF, 0, &desc)) return ATTEND_INVALID;
  desc.batch = 1;
  desc.q_len = desc.kv_len = n;
  if (attend_form_features(&desc.form, desc.dim)) desc.engine = "linear";
  attend_status status = attend_desc_cost(r->ctx, &desc, &attention);
  double keys = 2.0 * e->width * d->kv_heads * (d->dim + d->dim_v);
  *flops = e->layers * (n * layer_flops(e, config->gated, false) + attention.flops) +
           (double)n * d->layers * keys;
  return status;
}

/* Weights of the decoder without the keys and values of cross-attention, the head,
 * and the caches. */
static double token_bytes(const summarize_bench *r, const form_bench *f, double cache) {
  static const double size[] = {4, 2, 1};
  const attend_config *config = attend_model_config(f->model);
  const attend_stack *d = &config->decoder;
  double layer =
      layer_flops(d, config->gated, false) / 2 + (double)d->width * d->heads * (d->dim + d->dim_v);
  double weights = d->layers * layer + (double)config->vocab * d->width;
  return cache + weights * size[r->o->model.weights];
}

static attend_status conclude(summarize_bench *r, form_bench *f, int n, cost *c) {
  double flops = 0;
  attend_status status = read_flops(r, f, n, &flops);
  c->read_s = median_of(f->read, f->rounds);
  c->token_s = median_of(f->token, f->rounds);
  c->read_limit_s = flops / r->machine.flops_all;
  c->token_limit_s = token_bytes(r, f, c->cache) / r->machine.read_all;
  return status;
}

/* ---- all forms at a length ------------------------------------------------------------- */

static bool is_measured(const form_bench *f) {
  return f->rounds == ROUNDS || (f->spent > 3 && f->rounds >= 3) || f->spent > 20;
}

/* Extrapolated from the length before, quadratically. */
static bool is_too_long(const summarize_bench *r, const form_bench *f, int i) {
  if (!i) return false;
  double ratio = (double)r->lengths.tokens[i] / r->lengths.tokens[i - 1];
  double expected = f->at[i - 1].read_s * ratio * ratio;
  double most = r->o->limit_s > 0 ? r->o->limit_s : LIMIT_S;
  if (expected <= most) return false;
  if (!isnan(expected))
    fprintf(stderr,
            "attend: %s might take %.0f seconds for %d tokens and is skipped: "
            "--seconds N allows more than %.0f\n",
            f->name, expected, r->lengths.tokens[i], most);
  return true;
}

static attend_status measure_length(summarize_bench *r, int i) {
  int n = r->lengths.tokens[i], left = 0;
  char now[96];
  attend_status status = ATTEND_OK;
  for (int k = 0; k < r->forms.count; k++) {
    form_bench *f = &r->bench[k];
    f->spent = f->rounds = 0;
    f->at[i] = (cost){NAN, NAN, NAN, NAN, NAN, NAN, NAN};
    if (is_too_long(r, f, i)) f->spent = INFINITY;
    left += !is_measured(f);
  }
  while (left && !status && !is_interrupted())
    for (int k = 0; k < r->forms.count && !status && !is_interrupted(); k++) {
      form_bench *f = &r->bench[k];
      if (is_measured(f)) continue;
      snprintf(now, sizeof now, "%d tokens, %s", n, f->name);
      progress_note(now);
      status = measure_once(r, f, n, &f->at[i]);
      left -= is_measured(f);
    }
  for (int k = 0; k < r->forms.count && !status; k++)
    if (r->bench[k].rounds) status = conclude(r, &r->bench[k], n, &r->bench[k].at[i]);
  return status;
}

/* ---- rows and the plot ------------------------------------------------------------------ */

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

static void add_rows(const summarize_bench *r, int i, table *t) {
  for (int k = 0; k < r->forms.count; k++) {
    const cost *c = &r->bench[k].at[i];
    double n = r->lengths.tokens[i];
    cell row[] = {cell_number(n),
                  cell_text(r->bench[k].name),
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

static attend_plot_panel draw_panel(const summarize_bench *r, int lengths, int panel, lines *l) {
  static const char *const titles[PANELS] = {"Reading a document", "Writing a token after it",
                                             "Memory, the weights apart"};
  for (int i = 0; i < lengths; i++) {
    l->x[i] = r->lengths.tokens[i];
    for (int k = 0; k < r->forms.count; k++) l->y[k][i] = shown(&r->bench[k].at[i], panel);
  }
  for (int k = 0; k < r->forms.count; k++)
    l->series[k] = (attend_plot_series){
        .name = r->bench[k].name, .count = (size_t)lengths, .x = l->x, .y = l->y[k], .points = 1};
  return (attend_plot_panel){.title = titles[panel],
                             .x = {.label = "tokens of the document", .log = 1},
                             .y = {.label = panel < 2 ? "seconds" : "bytes", .log = 1},
                             .count = (size_t)r->forms.count,
                             .series = l->series};
}

static attend_status draw(const summarize_bench *r, int lengths) {
  lines all[PANELS];
  attend_plot_panel panels[PANELS];
  char notes[160];
  for (int p = 0; p < PANELS; p++) panels[p] = draw_panel(r, lengths, p, &all[p]);
  snprintf(notes, sizeof notes, "One document; %d threads, %s, medians.",
           attend_context_threads(r->ctx), attend_context_isa(r->ctx));
  attend_plot plot = {ATTEND_INIT(attend_plot), .count = PANELS, .panels = panels, .notes = notes};
  return attend_plot_save(r->ctx, &plot, r->o->curve);
}

/* ---- the models ---------------------------------------------------------------------------- */

static void random_ids(summarize_bench *r) {
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

static attend_status open_models(summarize_bench *r) {
  unsigned roles = ATTEND_IN_ENCODER | ATTEND_IN_CROSS;
  attend_model_options model = {ATTEND_INIT(attend_model_options), .weights = r->o->model.weights};
  attend_status status = attend_model_create(r->files, &model, &r->model);
  if (!status && r->o->model.roles) status = attend_roles_parse(r->ctx, r->o->model.roles, &roles);
  for (int k = 0; k < r->forms.count && !status; k++) {
    r->bench[k].name = r->forms.name[k];
    status = attend_model_with_roles(r->model, &r->forms.form[k], roles, &r->bench[k].model);
  }
  if (!status) status = ceilings_get(r->ctx, &r->machine);
  if (!status) random_ids(r);
  return status;
}

static int prepare(summarize_bench *r, const char *path) {
  int most = r->lengths.tokens[r->lengths.count - 1];
  const char *forms = r->o->forms             ? r->o->forms
                      : r->o->model.attention ? r->o->model.attention
                                              : "softmax,elu,favor(m=64),favor(m=256)";
  int code = forms_parse(r->ctx, forms, &r->forms);
  if (!code) code = checkpoint_for_length(r->ctx, path, most > NEW ? most : NEW, false, &r->files);
  if (code) return code;
  if (attend_checkpoint_config(r->files)->parts != ATTEND_BOTH) {
    complain(
        "%s has no encoder and decoder, which bench summarize measures: "
        "give a bart or t5",
        path);
    return EXIT_USAGE;
  }
  attend_status status = open_models(r);
  return status ? complain_status(r->ctx, status) : EXIT_OK;
}

static void finish(summarize_bench *r) {
  for (int k = 0; k < r->forms.count; k++) attend_model_free(r->bench[k].model);
  attend_model_free(r->model);
  attend_checkpoint_close(r->files);
  free(r->ids);
  free(r->logits);
}

static int measure(summarize_bench *r, const options *common) {
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

int bench_summarize(attend_context *ctx, const options *common, const bench_model_options *o) {
  int code;
  char *path = model_path(o->model.path, &code);
  if (!path) return code;
  summarize_bench r = {.ctx = ctx, .o = o};
  lengths_parse(o->lengths ? o->lengths : "256..65536", &r.lengths);
  code = prepare(&r, path);
  if (!code) code = measure(&r, common);
  finish(&r);
  free(path);
  return code;
}
