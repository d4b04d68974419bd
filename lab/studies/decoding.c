/* Decoding one token at a time with a cache: MHA, grouped and MQA. What is
 * computed, what is read, and how fast it goes.
 */
#include "attend/problem.h"
#include "studies/study.h"

typedef struct {
  int d, heads; /* width of a token; query heads, each d / heads wide  */
  int groups;   /* kv heads: heads for MHA, 1 for MQA                   */
  int batch;
} decoder_shape;

typedef struct {
  decoder_shape shape;
  attend_linear *in, *out; /* q, k and v; y                               */
  attend_plan *plan;
  attend_state *state;
  float *x, *qkv, *o, *y; /* one token of each sequence                   */
  float *keys;            /* what fills the cache                         */
} decoder;

/* One step on n cached tokens, counted by the layers and the plan. */
typedef struct {
  double flops, weights, cache, tokens; /* the last three are bytes         */
} decoder_cost;

enum { MOST = 8, KINDS = 4, BATCHES = 3, STREAM = 650 };

static const attend_setting settings[] = {
    {"d", "1024", "64", "width of a token", WHOLE, 1, 16, 8192},
    {"h", "16", "4", "query heads", WHOLE, 1, 1, 128},
    {"groups", "16,4,1", "4,2,1", "kv heads: of MHA, grouped, MQA", WHOLE, KINDS, 1, 128},
    {"n", "64,256,1024,4096", "16,32,64", "tokens in the cache", WHOLE, MOST, 1, 1e6},
    {"b", "1,4", "1,3", "sequences that decode together", WHOLE, BATCHES, 1, 256},
    {"steps", "8", "2", "steps that are timed, of which the fastest counts", WHOLE, 1, 1, 1000},
    {"ceilings", "1", "0", "1: measure what this machine could do", WHOLE, 1, 0, 1},
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
  const char *words = study_format(r, "%s, b = %d, n = %d", kind_name(r, s->groups), s->batch, n);
  TRY(study_claim(r, c->flops, 4 * b * d * (d + kv) + 4 * b * (n + 1) * d, 0,
                  "flops-%s: flops of a step: %s", at, words));
  TRY(study_claim(r, c->weights, 8 * d * (d + kv), 0, "weights-%s: bytes of weights: %s", at,
                  words));
  TRY(study_claim(r, c->cache, 8 * b * (n + 1) * kv, 0, "cache-%s: bytes of keys and values: %s",
                  at, words));
  return study_claim(r, c->tokens, 4 * b * (4 * d + 2 * kv), 0,
                     "tokens-%s: bytes of x, q, k, v, o, y: %s", at, words);
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

/* ---- one step -------------------------------------------------------------- */

/* A layer of attention that decodes: projections, cache, one step; and that its
 * steps are the attention of a whole sequence.
 */

enum { FILL = ATTEND_PAGE, STEP_STREAM = 600 };

static int head_width(const decoder_shape *s) { return s->d / s->heads; }
static int kv_width(const decoder_shape *s) { return s->groups * head_width(s); }

/* ---- making one ---------------------------------------------------------------------- */

static attend_status make_layers(study_run *r, decoder *d, const float *weights) {
  const int wide = d->shape.d, kv = kv_width(&d->shape);
  const size_t row = (size_t)wide;
  const attend_linear_part in[3] = {{.weight = weights, .outputs = wide},
                                    {.weight = weights + row * row, .outputs = kv},
                                    {.weight = weights + row * (row + (size_t)kv), .outputs = kv}};
  TRY(attend_linear_create(r->ctx, ATTEND_WEIGHTS_F32, wide, 3, in, &d->in));
  return attend_linear_create(r->ctx, ATTEND_WEIGHTS_F32, wide, 1, in, &d->out);
}

static attend_desc describe(const decoder_shape *s, int q_len, int kv_len) {
  return (attend_desc){ATTEND_INIT(attend_desc),
                       .batch = s->batch,
                       .heads = s->heads,
                       .kv_heads = s->groups,
                       .q_len = q_len,
                       .kv_len = kv_len,
                       .dim = head_width(s),
                       .mask.causal = ATTEND_CAUSAL_BOTTOM,
                       .purpose = ATTEND_FOR_EXTEND};
}

static attend_status make_memory(study_run *r, decoder *d) {
  const decoder_shape *s = &d->shape;
  const size_t rows = (size_t)s->batch, wide = (size_t)study_padded(s->d);
  const size_t keys = rows * (size_t)kv_width(s) * FILL;
  TRY(study_draw(r, STEP_STREAM, rows * wide, &d->x));
  TRY(study_draw(r, STEP_STREAM + 1, keys, &d->keys));
  TAKE(r, &d->qkv, rows * (size_t)study_padded(s->d + 2 * kv_width(s)));
  TAKE(r, &d->o, rows * wide);
  return study_take(r, rows * wide, sizeof *d->y, &d->y);
}

static attend_status decoder_open(study_run *r, decoder_shape shape, const float *weights,
                                  decoder *d) {
  *d = (decoder){.shape = shape};
  if (shape.d % shape.heads || shape.heads % shape.groups)
    return study_fail(r, ATTEND_INVALID,
                      "%d heads of d = %d with %d of keys: each must divide the one before",
                      shape.heads, shape.d, shape.groups);
  const attend_desc desc = describe(&shape, FILL, 0);
  TRY(make_memory(r, d));
  TRY(make_layers(r, d, weights));
  TRY(attend_plan_create(r->ctx, &desc, &d->plan));
  return attend_state_create(d->plan, &d->state);
}

static void decoder_close(decoder *d) {
  attend_state_free(d->state);
  attend_plan_free(d->plan);
  attend_linear_free(d->in);
  attend_linear_free(d->out);
}

/* ---- a step --------------------------------------------------------------------------- */

/* One row of each sequence, heads beside each other. */
static attend_view token_view(const decoder *d, float *data, int ld) {
  return (attend_view){data, {ld, head_width(&d->shape), ld, 1}};
}

static attend_status decoder_step(decoder *d) {
  const decoder_shape *s = &d->shape;
  const int wide = study_padded(s->d), ld = study_padded(s->d + 2 * kv_width(s));
  float *k = d->qkv + s->d, *v = k + kv_width(s);
  attend_linear_forward(d->in, s->batch, d->x, wide, d->qkv, ld);
  TRY(attend_extend(d->plan, d->state, 1, token_view(d, d->qkv, ld), token_view(d, k, ld),
                    token_view(d, v, ld), token_view(d, d->o, wide), NULL));
  attend_linear_forward(d->out, s->batch, d->o, wide, d->y, wide);
  return ATTEND_OK;
}

static attend_status decoder_fill(decoder *d, int n) {
  for (int b = 0; b < d->shape.batch; b++)
    if (attend_state_length(d->state, b) > n) TRY(attend_state_truncate(d->state, b, n));
  for (int64_t at; (at = attend_state_length(d->state, 0)) < n;)
    TRY(attend_state_append(d->plan, d->state, n - at < FILL ? (int)(n - at) : FILL,
                            attend_bhtd(d->keys), attend_bhtd(d->keys)));
  return ATTEND_OK;
}

static attend_status decoder_time(decoder *d, int n, int steps, double *seconds) {
  *seconds = INFINITY;
  for (int i = 0; i <= steps; i++) {
    TRY(decoder_fill(d, n));
    const double begin = study_now();
    TRY(decoder_step(d));
    const double took = study_now() - begin;
    if (i > 0 && took < *seconds) *seconds = took;
  }
  return ATTEND_OK;
}

/* ---- counted ---------------------------------------------------------------------------- */

static double layer_weights(const attend_linear *l) {
  return (double)attend_linear_inputs(l) * attend_linear_outputs(l);
}

static attend_status decoder_count(study_run *r, const decoder *d, int n, decoder_cost *cost) {
  const attend_desc at = describe(&d->shape, 1, n + 1);
  const attend_desc empty = describe(&d->shape, 1, 0);
  const double weights = layer_weights(d->in) + layer_weights(d->out);
  attend_cost full, none;
  TRY(attend_desc_cost(r->ctx, &at, &full));
  TRY(attend_desc_cost(r->ctx, &empty, &none));
  cost->flops = 2 * d->shape.batch * weights + full.flops;
  cost->weights = 4 * weights;
  cost->cache = full.bytes - none.bytes;
  /* x, q, k, v, o and y */
  cost->tokens = 4.0 * d->shape.batch * (3.0 * d->shape.d + attend_linear_outputs(d->in));
  return ATTEND_OK;
}

/* ---- equal results ---------------------------------------------------------------- */

enum { SEQUENCE = 40 };

typedef struct {
  decoder *d;
  float *tokens; /* [SEQUENCE][wide]: one sequence           */
  float *qkv;    /* of all of them                        */
  float *o[2];   /* [SEQUENCE][wide]: at once, and by steps  */
} comparison;

/* All tokens at once: keys of group 0 for every head, if shared. */
static attend_status at_once(study_run *r, const comparison *c, bool shared, float *o) {
  const decoder_shape *s = &c->d->shape;
  const int wide = study_padded(s->d), ld = study_padded(s->d + 2 * kv_width(s));
  const ptrdiff_t k = head_width(s), kv_step = shared ? 0 : k;
  attend_desc desc = describe(s, SEQUENCE, SEQUENCE);
  desc.purpose = 0;
  if (shared) desc.kv_heads = desc.heads;
  attend_plan *plan;
  TRY(study_plan(r, &desc, &plan));
  return attend_forward(
      plan, (attend_view){c->qkv, {(ptrdiff_t)SEQUENCE * ld, k, ld, 1}},
      (attend_view){c->qkv + s->d, {(ptrdiff_t)SEQUENCE * ld, kv_step, ld, 1}},
      (attend_view){c->qkv + s->d + kv_width(s), {(ptrdiff_t)SEQUENCE * ld, kv_step, ld, 1}},
      (attend_view){o, {(ptrdiff_t)SEQUENCE * wide, k, wide, 1}}, NULL);
}

static attend_status compare(study_run *r, comparison *c) {
  decoder *d = c->d;
  const decoder_shape *s = &d->shape;
  const int wide = study_padded(s->d), ld = study_padded(s->d + 2 * kv_width(s));
  const size_t size = (size_t)SEQUENCE * (size_t)wide;
  attend_linear_forward(d->in, SEQUENCE, c->tokens, wide, c->qkv, ld);
  TRY(at_once(r, c, false, c->o[0]));
  for (size_t i = 0; i < SEQUENCE; i++) {
    memcpy(d->x, c->tokens + i * (size_t)wide, (size_t)wide * sizeof(float));
    TRY(decoder_step(d));
    memcpy(c->o[1] + i * (size_t)wide, d->o, (size_t)wide * sizeof(float));
  }
  TRY(study_claim(r, study_differing(c->o[0], c->o[1], size), 0, 0,
                  "steps-g%d: %d kv heads: results of steps with other bits than at once",
                  s->groups, s->groups));
  if (s->groups != 1) return ATTEND_OK;
  TRY(at_once(r, c, true, c->o[1]));
  return study_claim(r, study_differing(c->o[0], c->o[1], size), 0, 0,
                     "shared: MQA: results with other bits than MHA's on repeated keys");
}

static attend_status decoder_equalities(study_run *r, decoder_shape shape, const float *weights) {
  decoder d;
  comparison c = {.d = &d};
  const size_t wide = (size_t)study_padded(shape.d);
  shape.batch = 1;
  TRY(study_draw(r, STEP_STREAM + 2, SEQUENCE * wide, &c.tokens));
  TAKE(r, &c.qkv, SEQUENCE * 3 * wide);
  for (int i = 0; i < 2; i++) TAKE(r, &c.o[i], SEQUENCE * wide);
  attend_status status = decoder_open(r, shape, weights, &d);
  if (!status) status = compare(r, &c);
  decoder_close(&d);
  return status;
}

/* ---- the scale ------------------------------------------------------------------------------- */

enum { QUERIES = 32, KEYS = 256 };

/* Mean entropy of the weights of normal queries on normal keys, in nats. */
static attend_status entropy_at(study_run *r, int width, float scale, double *entropy) {
  const attend_desc d = {ATTEND_INIT(attend_desc), .q_len = QUERIES, .kv_len = KEYS, .dim = width,
                         .scale = scale};
  const size_t size = KEYS * (size_t)width;
  float *k, *o = NULL, lse[QUERIES], each[QUERIES];
  const attend_observation look = {ATTEND_INIT(attend_observation), .entropy = each};
  attend_plan *plan;
  TRY(study_draw(r, STEP_STREAM + 3, 2 * size, &k));
  TAKE(r, &o, QUERIES * (size_t)width);
  const attend_view keys = attend_bhtd(k), q = attend_bhtd(k + size);
  TRY(study_plan(r, &d, &plan));
  TRY(attend_forward(plan, q, keys, keys, attend_bhtd(o), lse));
  TRY(attend_observe(plan, q, keys, lse, &look));
  *entropy = 0;
  for (int i = 0; i < QUERIES; i++) *entropy += (double)each[i] / QUERIES;
  return ATTEND_OK;
}

static attend_status decoder_scaling(study_run *r, int width) {
  double scaled, plain;
  TRY(entropy_at(r, width, 0, &scaled));
  TRY(entropy_at(r, width, 1, &plain));
  return study_say(r,
                   "The document's logits are not divided by √k; the library's are. For normal "
                   "queries on %d normal keys of width %d the weights have an entropy of %.3g nats "
                   "when divided, %.3g when not, and ln %d = %.3g at most.",
                   KEYS, width, scaled, plain, KEYS, log(KEYS));
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

static attend_status measure_all(study_run *r, const float *weights, survey *v) {
  for (size_t k = 0; k < v->kinds; k++)
    for (size_t b = 0; b < v->batches; b++) {
      const decoder_shape shape = {study_count(r, "d"), study_count(r, "h"), (int)v->groups[k],
                                   (int)v->batch[b]};
      decoder d;
      attend_status status = decoder_open(r, shape, weights, &d);
      if (!status) status = measure(r, v, &d, v->at[k][b]);
      decoder_close(&d);
      TRY(status);
      TRY(study_step(
          r, 0.2 + 0.8 * (double)(k * v->batches + b + 1) / (double)(v->kinds * v->batches)));
    }
  return ATTEND_OK;
}

/* ---- tables and plots ---------------------------------------------------------------------------- */

static const attend_study_column step_columns[] = {{"kind", "kind", TEXT},
                                                   {"b", "b", COUNT},
                                                   {"n", "n", COUNT},
                                                   {"flops", "flops", COUNT},
                                                   {"weights", "weights", BYTES},
                                                   {"cache", "cache", BYTES},
                                                   {"held", "in pages", BYTES},
                                                   {"intensity", "flops per byte", NUMBER},
                                                   {"seconds", "a step", SECONDS},
                                                   {"ceiling", "ceiling", SECONDS},
                                                   {"rate", "tokens/s", COUNT},
                                                   {0}};

static attend_status tabulate(study_run *r, const survey *v) {
  table_store *t;
  TRY(study_table(r, &t, "steps", step_columns, "One step, d = %d, %d query heads",
                  study_count(r, "d"), study_count(r, "h")));
  for (size_t k = 0; k < v->kinds; k++)
    for (size_t b = 0; b < v->batches; b++)
      for (size_t i = 0; i < v->lengths; i++) {
        const found *f = &v->at[k][b][i];
        TRY(study_row(t, kind_name(r, (int)v->groups[k]), v->batch[b], v->length[i], f->cost.flops,
                      f->cost.weights, f->cost.cache, f->held, f->intensity, f->seconds, f->ceiling,
                      round(v->batch[b] / f->seconds)));
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
          y[b][k][ceiling][i] = v->batch[b] / (ceiling ? f->ceiling : f->seconds);
        }
        const char *name = ceiling ? NULL : kind_name(r, (int)v->groups[k]);
        series[b][count] =
            (attend_plot_series){name, v->lengths, v->length, y[b][k][ceiling], .dashed = k > 0};
        series[b][count].points = ceiling ? 0 : 2;
        series[b][count++].colour = (int)k + 1;
      }
    panels[b] =
        study_lines(study_format(r, "b = %g", v->batch[b]), study_log("n, tokens in the cache"),
                    study_log("tokens per second"), count, series[b]);
  }
  return study_figure(
      r, "decoding-rates",
      &(attend_plot){
          .notes = lines ? "Marks are measured; lines are what memory and arithmetic allow." : NULL,
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
      series[p][k] = (attend_plot_series){kind_name(r, (int)v->groups[k]), v->lengths, v->length,
                                          y[p][k], .points = 1};
      series[p][k].dashed = k > 0;
    }
  const attend_plot_axis n = study_log("n, tokens in the cache");
  attend_plot_panel panels[] = {
      study_lines(study_format(r, "Flops per byte, b = %g", v->batch[v->batches - 1]), n,
                  study_zero("flops per byte"), v->kinds, series[0]),
      study_lines("The cache's share of what is read", n, study_range("share", 0, 1), v->kinds,
                  series[1])};
  return study_plot(r, "decoding-intensity", 2, panels);
}

/* ---- where the cache overtakes the weights ----------------------------------------------------------- */

static const attend_study_column even_columns[] = {{"kind", "kind", TEXT},
                                                   {"b", "b", COUNT},
                                                   {"even", "weights and cache even at n", COUNT},
                                                   {"limit", "flops per byte for n → ∞", NUMBER},
                                                   {0}};

/* 8 b n gk = 8 d (d + gk), so n = d (h/g + 1) / b. Counted at b = 1. */
static attend_status claim_even(study_run *r, const float *weights, int groups) {
  decoder_shape s = {study_count(r, "d"), study_count(r, "h"), groups, 1};
  const double n = (double)s.d * (s.heads / groups + 1);
  decoder_cost cost;
  decoder d;
  attend_status status = decoder_open(r, s, weights, &d);
  if (!status) status = decoder_count(r, &d, (int)n - 1, &cost);
  decoder_close(&d);
  TRY(status);
  return study_claim(r, cost.cache - cost.weights, 0, 0,
                     "even-g%d: %s, b = 1: bytes of the cache less the weights, n = %g", groups,
                     kind_name(r, groups), n);
}

static attend_status even_all(study_run *r, const float *weights, const survey *v) {
  const double d = study_count(r, "d"), h = study_count(r, "h");
  table_store *t;
  TRY(study_table(r, &t, "even", even_columns, "Where the cache overtakes the weights"));
  for (size_t k = 0; k < v->kinds; k++) {
    TRY(claim_even(r, weights, (int)v->groups[k]));
    for (size_t b = 0; b < v->batches; b++) {
      TRY(study_row(t, kind_name(r, (int)v->groups[k]), v->batch[b],
                    round(d * (h / v->groups[k] + 1) / v->batch[b]), h / v->groups[k] / 2));
    }
  }
  return ATTEND_OK;
}

/* ---- the study ------------------------------------------------------------------------------------------ */

static attend_status open_survey(study_run *r, survey *v, float **weights) {
  const size_t size = 3 * (size_t)study_count(r, "d") * (size_t)study_count(r, "d");
  const float scale = 1 / sqrtf((float)study_count(r, "d"));
  *v = (survey){0};
  v->groups = study_list(r, "groups", &v->kinds);
  v->batch = study_list(r, "b", &v->batches);
  v->length = study_list(r, "n", &v->lengths);
  TAKE(r, weights, size);
  study_normal(r, STREAM, 0, size, *weights);
  for (size_t i = 0; i < size; i++) (*weights)[i] *= scale;
  if (study_count(r, "ceilings")) TRY(attend_machine_measure(r->ctx, &v->machine));
  return study_step(r, 0.1);
}

static attend_status say_blanks(study_run *r) {
  const int d = study_count(r, "d"), h = study_count(r, "h");
  return study_say(
      r,
      "In the document's MQA code W_q stays [h, d, q] (A), W_k becomes [d, k] (B), and so q = "
      "`bd,hdq->bhq` (C), k = `bd,dk->bk` (D) and v = `bd,dv->bv` (E). Here that is one product of "
      "d = %d inputs and %d + 2 × %d outputs. The document's einsum for MHA's output, "
      "`bhn,bhvn->bhv`, does not fit its cache [b, h, n, v]: `bhn,bhnv->bhv` is meant.",
      d, d, d / h);
}

static attend_status say_machine(study_run *r, const attend_machine *m) {
  if (m->read_all <= 0) return ATTEND_OK;
  return study_say(
      r,
      "This machine's %d threads read %.3g GB/s from memory and do %.3g Gflop/s at best: below "
      "%.3g flops per byte a step waits for memory. The ceiling is the larger of both times. What "
      "fits into the CPU's caches is read faster than that, so short steps may beat it.",
      m->threads, m->read_all / 1e9, m->flops_all / 1e9, m->flops_all / m->read_all);
}

static attend_status say_gain(study_run *r, const survey *v) {
  const size_t b = v->batches - 1, n = v->lengths - 1;
  const found *first = &v->at[0][b][n], *last = &v->at[v->kinds - 1][b][n];
  return study_say(
      r,
      "At b = %g and n = %g, %s does %.3g times the flops of %s, reads %.3g times the bytes, and "
      "took %.3g times as long. A step that waits for memory follows the bytes, not the flops.",
      v->batch[b], v->length[n], kind_name(r, (int)v->groups[v->kinds - 1]),
      last->cost.flops / first->cost.flops, kind_name(r, (int)v->groups[0]),
      (last->cost.weights + last->cost.cache + last->cost.tokens) /
          (first->cost.weights + first->cost.cache + first->cost.tokens),
      last->seconds / first->seconds);
}

static attend_status say_formulas(study_run *r) {
  return study_say(
      r,
      "One token for each of b sequences on a cache of n, with g heads of keys and values, k = d/h "
      "wide: the projections take $4 b d (d + g k)$ flops and attention $4 b (n + 1) d$, in all "
      "O(bd² + "
      "bnd) for MHA and MQA alike. Read are $2 d (d + g k)$ weights, $2 b (n + 1) g k$ numbers of "
      "the "
      "cache, and b(4d + 2gk) of the tokens themselves: O(d² + bd + bnd) for MHA, where gk = d, "
      "and O(d² + bd + bnk) for MQA, where g = 1. Flops over bytes is the arithmetic intensity.");
}

static attend_status run(study_run *r) {
  survey v;
  float *weights = NULL;
  TRY(say_formulas(r));
  TRY(say_blanks(r));
  TRY(open_survey(r, &v, &weights));
  for (size_t k = 0; k < v.kinds; k++)
    TRY(decoder_equalities(
        r, (decoder_shape){study_count(r, "d"), study_count(r, "h"), (int)v.groups[k], 1},
        weights));
  TRY(decoder_scaling(r, study_count(r, "d") / study_count(r, "h")));
  TRY(say_machine(r, &v.machine));
  TRY(measure_all(r, weights, &v));
  TRY(tabulate(r, &v));
  TRY(plot_rates(r, &v));
  TRY(say_gain(r, &v));
  TRY(study_heading(r, "Weights or cache"));
  TRY(study_say(r,
                "The bytes of the cache equal those of the weights at $n = d (h/g + 1) / b$: 2d/b "
                "for MHA and d(h+1)/b for MQA. Below, a step reads weights, and more sequences at "
                "once make more of them; beyond, it reads the cache, which no two sequences share, "
                "and the intensity tends to h/2g flops per byte in f32, whatever b is."));
  TRY(even_all(r, weights, &v));
  return plot_formulas(r, &v);
}

const study_topic study_decoding = {{.name = "decoding",
                                     .title = "Decoding with fewer keys and values",
                                     .question = "What do MHA, grouped attention and MQA compute "
                                                 "and read for one token, and how fast is it?",
                                     .answers = "Fall 2025 4(a)-(g)",
                                     .settings = settings},
                                    run};
