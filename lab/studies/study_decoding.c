/* Decoding one token at a time with a cache: MHA, grouped and MQA. What is
 * computed, what is read, and how fast it goes.
 *
 * One step is study_decoding_step.c.
 */
#include "studies/study_decoding.h"

enum { MOST = 8, KINDS = 4, BATCHES = 3, STREAM = 650 };

static const attend_setting settings[] = {
    {"d", "1024", "64", "width of a token", ATTEND_SETTING_WHOLE, 1, 16, 8192},
    {"h", "16", "4", "query heads", ATTEND_SETTING_WHOLE, 1, 1, 128},
    {"groups", "16,4,1", "4,2,1", "kv heads: of MHA, grouped, MQA",
     ATTEND_SETTING_WHOLE, KINDS, 1, 128},
    {"n", "64,256,1024,4096", "16,64", "tokens in the cache",
     ATTEND_SETTING_WHOLE, MOST, 1, 1e6},
    {"b", "1,4", "1,3", "sequences that decode together", ATTEND_SETTING_WHOLE,
     BATCHES, 1, 256},
    {"steps", "8", "2", "steps that are timed, of which the fastest counts",
     ATTEND_SETTING_WHOLE, 1, 1, 1000},
    {"ceilings", "1", "0", "1: measure what this machine could do",
     ATTEND_SETTING_WHOLE, 1, 0, 1},
    {0}};

typedef struct {
  double seconds, intensity, share; /* share: of the cache in all bytes  */
  double ceiling;                   /* seconds, or NaN                    */
  double held;                      /* bytes of the state                 */
  decoder_cost cost;
} found;

typedef struct {
  size_t kinds, batches, lengths;
  const double *groups, *batch, *length;
  attend_machine machine;
  found at[KINDS][BATCHES][MOST];
} survey;

static const char *kind_name(study_run *r, int groups) {
  if (groups == study_count(r, "h")) return "MHA";
  return groups == 1 ? "MQA" : study_format(r, "%d groups", groups);
}

/* ---- claims -------------------------------------------------------------------------------- */

static attend_status claim_cost(study_run *r, const decoder_shape *s, int n,
                                const decoder_cost *c) {
  const double d = s->d, kv = d / s->heads * s->groups, b = s->batch;
  const char *at = study_format(r, "g%d-b%d-n%d", s->groups, s->batch, n);
  const char *words = study_format(r, "%s, b = %d, n = %d",
                                   kind_name(r, s->groups), s->batch, n);
  TRY(study_claim(r, study_format(r, "flops-%s", at),
                  study_format(r, "flops of a step: %s", words), c->flops,
                  4 * b * d * (d + kv) + 4 * b * (n + 1) * d, 0));
  TRY(study_claim(r, study_format(r, "weights-%s", at),
                  study_format(r, "bytes of weights: %s", words), c->weights,
                  8 * d * (d + kv), 0));
  TRY(study_claim(r, study_format(r, "cache-%s", at),
                  study_format(r, "bytes of keys and values: %s", words),
                  c->cache, 8 * b * (n + 1) * kv, 0));
  return study_claim(r, study_format(r, "tokens-%s", at),
                     study_format(r, "bytes of x, q, k, v, o, y: %s", words),
                     c->tokens, 4 * b * (4 * d + 2 * kv), 0);
}

/* ---- measuring ------------------------------------------------------------------------------- */

static void intensity(const attend_machine *m, found *f) {
  const decoder_cost *c = &f->cost;
  const double bytes = c->weights + c->cache + c->tokens;
  f->intensity = c->flops / bytes;
  f->share = c->cache / bytes;
  f->ceiling = NAN;
  if (m->read_all <= 0) return;
  const double reading = bytes / m->read_all, adding = c->flops / m->flops_all;
  f->ceiling = reading > adding ? reading : adding;
}

static attend_status measure(study_run *r, survey *v, decoder *d, found *at) {
  for (size_t i = 0; i < v->lengths; i++) {
    const int n = (int)v->length[i];
    TRY(decoder_count(r, d, n, &at[i].cost));
    TRY(claim_cost(r, &d->shape, n, &at[i].cost));
    TRY(decoder_time(d, n, study_count(r, "steps"), &at[i].seconds));
    at[i].held = (double)attend_state_bytes(d->state);
    intensity(&v->machine, &at[i]);
  }
  return ATTEND_OK;
}

static attend_status measure_all(study_run *r, const float *weights,
                                 survey *v) {
  for (size_t k = 0; k < v->kinds; k++)
    for (size_t b = 0; b < v->batches; b++) {
      const decoder_shape shape = {study_count(r, "d"), study_count(r, "h"),
                                   (int)v->groups[k], (int)v->batch[b]};
      decoder d;
      attend_status status = decoder_open(r, shape, weights, &d);
      if (!status) status = measure(r, v, &d, v->at[k][b]);
      decoder_close(&d);
      TRY(status);
      TRY(study_step(r, 0.2 + 0.8 * (double)(k * v->batches + b + 1) /
                                  (double)(v->kinds * v->batches)));
    }
  return ATTEND_OK;
}

/* ---- tables and plots ---------------------------------------------------------------------------- */

static const attend_study_column step_columns[] = {
    {"kind", "kind", ATTEND_CELL_TEXT},
    {"b", "b", ATTEND_CELL_COUNT},
    {"n", "n", ATTEND_CELL_COUNT},
    {"flops", "flops", ATTEND_CELL_COUNT},
    {"weights", "weights", ATTEND_CELL_BYTES},
    {"cache", "cache", ATTEND_CELL_BYTES},
    {"held", "in pages", ATTEND_CELL_BYTES},
    {"intensity", "flops per byte", ATTEND_CELL_NUMBER},
    {"seconds", "a step", ATTEND_CELL_SECONDS},
    {"ceiling", "ceiling", ATTEND_CELL_SECONDS},
    {"rate", "tokens/s", ATTEND_CELL_COUNT},
    {0}};

static attend_status tabulate(study_run *r, const survey *v) {
  table_store *t;
  TRY(study_table(r, "steps",
                  study_format(r, "One step, d = %d, %d query heads",
                               study_count(r, "d"), study_count(r, "h")),
                  step_columns, &t));
  for (size_t k = 0; k < v->kinds; k++)
    for (size_t b = 0; b < v->batches; b++)
      for (size_t i = 0; i < v->lengths; i++) {
        const found *f = &v->at[k][b][i];
        TRY(study_word(t, "%s", kind_name(r, (int)v->groups[k])));
        TRY(study_row(t, 10, v->batch[b], v->length[i], f->cost.flops,
                      f->cost.weights, f->cost.cache, f->held, f->intensity,
                      f->seconds, f->ceiling, round(v->batch[b] / f->seconds)));
      }
  return ATTEND_OK;
}

/* Tokens a second: measured as marks, what the ceilings allow as lines. */
static attend_status plot_rates(study_run *r, const survey *v) {
  double y[BATCHES][KINDS][2][MOST];
  attend_plot_series series[BATCHES][2 * KINDS];
  attend_plot_panel panels[BATCHES];
  const bool lines = v->machine.read_all > 0;
  for (size_t b = 0; b < v->batches; b++) {
    size_t count = 0;
    for (size_t k = 0; k < v->kinds; k++)
      for (int ceiling = 0; ceiling <= lines; ceiling++) {
        for (size_t i = 0; i < v->lengths; i++) {
          const found *f = &v->at[k][b][i];
          y[b][k][ceiling][i] =
              v->batch[b] / (ceiling ? f->ceiling : f->seconds);
        }
        series[b][count++] = (attend_plot_series){
            .name = ceiling ? NULL : kind_name(r, (int)v->groups[k]),
            .count = v->lengths,
            .x = v->length,
            .y = y[b][k][ceiling],
            .points = ceiling ? 0 : 2,
            .dashed = k > 0,
            .colour = (int)k + 1};
      }
    panels[b] =
        (attend_plot_panel){.title = study_format(r, "b = %g", v->batch[b]),
                            .x = {.label = "n, tokens in the cache", .log = 1},
                            .y = {.label = "tokens per second", .log = 1},
                            .key = ATTEND_KEY_ABOVE,
                            .count = count,
                            .series = series[b]};
  }
  return study_figure(
      r, "decoding-rates",
      &(attend_plot){.notes = lines ? "Marks are measured; lines are what "
                                      "memory and arithmetic allow."
                                    : NULL,
                     .count = v->batches,
                     .across = v->batches,
                     .panels = panels});
}

/* For the first batch, by the formulas. */
static attend_status plot_formulas(study_run *r, const survey *v) {
  double y[2][KINDS][MOST];
  attend_plot_series series[2][KINDS];
  for (int p = 0; p < 2; p++)
    for (size_t k = 0; k < v->kinds; k++) {
      for (size_t i = 0; i < v->lengths; i++) {
        const found *f = &v->at[k][v->batches - 1][i];
        y[p][k][i] = p ? f->share : f->intensity;
      }
      series[p][k] =
          (attend_plot_series){.name = kind_name(r, (int)v->groups[k]),
                               .count = v->lengths,
                               .x = v->length,
                               .y = y[p][k],
                               .points = 1,
                               .dashed = k > 0};
    }
  attend_plot_panel panels[2] = {
      {.title =
           study_format(r, "Flops per byte, b = %g", v->batch[v->batches - 1]),
       .x = {.label = "n, tokens in the cache", .log = 1},
       .y = {.label = "flops per byte", .zero = 1},
       .key = ATTEND_KEY_ABOVE,
       .count = v->kinds,
       .series = series[0]}};
  panels[1] = panels[0];
  panels[1].title = "The cache's share of what is read";
  panels[1].y = (attend_plot_axis){.label = "share", .low = 0, .high = 1};
  panels[1].series = series[1];
  return study_figure(
      r, "decoding-intensity",
      &(attend_plot){.count = 2, .across = 2, .panels = panels});
}

/* ---- where the cache overtakes the weights ----------------------------------------------------------- */

static const attend_study_column even_columns[] = {
    {"kind", "kind", ATTEND_CELL_TEXT},
    {"b", "b", ATTEND_CELL_COUNT},
    {"even", "weights and cache even at n", ATTEND_CELL_COUNT},
    {"limit", "flops per byte for n → ∞", ATTEND_CELL_NUMBER},
    {0}};

/* 8 b n gk = 8 d (d + gk), so n = d (h/g + 1) / b. Counted at b = 1. */
static attend_status claim_even(study_run *r, const float *weights,
                                int groups) {
  decoder_shape s = {study_count(r, "d"), study_count(r, "h"), groups, 1};
  const double n = (double)s.d * (s.heads / groups + 1);
  decoder_cost cost;
  decoder d;
  attend_status status = decoder_open(r, s, weights, &d);
  if (!status) status = decoder_count(r, &d, (int)n - 1, &cost);
  decoder_close(&d);
  TRY(status);
  return study_claim(
      r, study_format(r, "even-g%d", groups),
      study_format(r, "%s, b = 1: bytes of the cache less the weights, n = %g",
                   kind_name(r, groups), n),
      cost.cache - cost.weights, 0, 0);
}

static attend_status even_all(study_run *r, const float *weights,
                              const survey *v) {
  const double d = study_count(r, "d"), h = study_count(r, "h");
  table_store *t;
  TRY(study_table(r, "even", "Where the cache overtakes the weights",
                  even_columns, &t));
  for (size_t k = 0; k < v->kinds; k++) {
    TRY(claim_even(r, weights, (int)v->groups[k]));
    for (size_t b = 0; b < v->batches; b++) {
      TRY(study_word(t, "%s", kind_name(r, (int)v->groups[k])));
      TRY(study_row(t, 3, v->batch[b],
                    round(d * (h / v->groups[k] + 1) / v->batch[b]),
                    h / v->groups[k] / 2));
    }
  }
  return ATTEND_OK;
}

/* ---- the study ------------------------------------------------------------------------------------------ */

static attend_status open_survey(study_run *r, survey *v, float **weights) {
  const size_t size =
      3 * (size_t)study_count(r, "d") * (size_t)study_count(r, "d");
  const float scale = 1 / sqrtf((float)study_count(r, "d"));
  *v = (survey){0};
  v->groups = study_list(r, "groups", &v->kinds);
  v->batch = study_list(r, "b", &v->batches);
  v->length = study_list(r, "n", &v->lengths);
  TAKE(r, weights, size);
  study_normal(r, STREAM, 0, size, *weights);
  for (size_t i = 0; i < size; i++) (*weights)[i] *= scale;
  if (study_count(r, "ceilings"))
    TRY(attend_machine_measure(r->ctx, &v->machine));
  return study_step(r, 0.1);
}

static attend_status say_blanks(study_run *r) {
  const int d = study_count(r, "d"), h = study_count(r, "h");
  return study_say(
      r,
      "In the document's MQA code W_q stays [h, d, q] (A), W_k becomes [d, k] "
      "(B), and so q = `bd,hdq->bhq` (C), k = `bd,dk->bk` (D) and v = "
      "`bd,dv->bv` (E). Here that is one product of d = %d inputs and %d + 2 × "
      "%d outputs. The document's einsum for MHA's output, `bhn,bhvn->bhv`, "
      "does not fit its cache [b, h, n, v]: `bhn,bhnv->bhv` is meant.",
      d, d, d / h);
}

static attend_status say_machine(study_run *r, const attend_machine *m) {
  if (m->read_all <= 0) return ATTEND_OK;
  return study_say(
      r,
      "This machine's %d threads read %.3g GB/s from memory and do %.3g "
      "Gflop/s at best: below %.3g flops per byte a step waits for memory. The "
      "ceiling is the larger of both times. What fits into the CPU's caches is "
      "read faster than that, so short steps may beat it.",
      m->threads, m->read_all / 1e9, m->flops_all / 1e9,
      m->flops_all / m->read_all);
}

static attend_status say_gain(study_run *r, const survey *v) {
  const size_t b = v->batches - 1, n = v->lengths - 1;
  const found *first = &v->at[0][b][n], *last = &v->at[v->kinds - 1][b][n];
  return study_say(
      r,
      "At b = %g and n = %g, %s does %.3g times the flops of %s, reads %.3g "
      "times the bytes, and took %.3g times as long. A step that waits for "
      "memory follows the bytes, not the flops.",
      v->batch[b], v->length[n], kind_name(r, (int)v->groups[v->kinds - 1]),
      last->cost.flops / first->cost.flops, kind_name(r, (int)v->groups[0]),
      (last->cost.weights + last->cost.cache + last->cost.tokens) /
          (first->cost.weights + first->cost.cache + first->cost.tokens),
      last->seconds / first->seconds);
}

static attend_status say_formulas(study_run *r) {
  return study_say(
      r,
      "One token for each of b sequences on a cache of n, with g heads of keys "
      "and values, k = d/h wide: the projections take `4bd(d + gk)` flops and "
      "attention `4b(n+1)d`, in all O(bd² + bnd) for MHA and MQA alike. Read "
      "are `2d(d + gk)` weights, `2b(n+1)gk` numbers of the cache, and b(4d + "
      "2gk) of the tokens themselves: O(d² + bd + bnd) for MHA, where gk = d, "
      "and O(d² + bd + bnk) for MQA, where g = 1. Flops over bytes is the "
      "arithmetic intensity.");
}

static attend_status run(study_run *r) {
  survey v;
  float *weights = NULL;
  TRY(say_formulas(r));
  TRY(say_blanks(r));
  TRY(open_survey(r, &v, &weights));
  for (size_t k = 0; k < v.kinds; k++)
    TRY(decoder_equalities(
        r,
        (decoder_shape){study_count(r, "d"), study_count(r, "h"),
                        (int)v.groups[k], 1},
        weights));
  TRY(decoder_scaling(r, study_count(r, "d") / study_count(r, "h")));
  TRY(say_machine(r, &v.machine));
  TRY(measure_all(r, weights, &v));
  TRY(tabulate(r, &v));
  TRY(plot_rates(r, &v));
  TRY(say_gain(r, &v));
  TRY(study_heading(r, "Weights or cache"));
  TRY(study_say(
      r,
      "The bytes of the cache equal those of the weights at `n = d (h/g + 1) / "
      "b`: 2d/b for MHA and d(h+1)/b for MQA. Below, a step reads weights, and "
      "more sequences at once make more of them; beyond, it reads the cache, "
      "which no two sequences share, and the intensity tends to h/2g flops per "
      "byte in f32, whatever b is."));
  TRY(even_all(r, weights, &v));
  return plot_formulas(r, &v);
}

const study_topic study_decoding = {
    {.name = "decoding",
     .title = "Decoding with fewer keys and values",
     .question = "What do MHA, grouped attention and MQA compute and read for "
                 "one token, and how fast is it?",
     .answers = "001 4(a)-(g)",
     .settings = settings},
    run};
