/* Causal linear attention: sums S_i and Z_i instead of a mask, and what a token
 * costs at any length.
 *
 * Documents Spring 2023 3(b), Fall 2022 3(b).
 */
#include "attend/problem.h"
#include "studies/study.h"

enum { MOST = 12, STREAM = 400, FORMS = 3, BLOCK = 64, WINDOWS = 4 };

static const attend_setting settings[] = {
    {"n", "200", "130", "tokens that are compared bit by bit", WHOLE, 1, 3, 4096},
    {"d", "16", "8", "width of these", WHOLE, 1, 1, 64},
    {"chunks", "1,7,64,100", NULL, "tokens of a call, one size after another", WHOLE, MOST, 1,
     4096},
    {"positions", "0,1024,2048,4096,8192,16384", "0,64,128,192",
     "where tokens are timed, multiples of 64", WHOLE, MOST, 0, 1e6},
    {"heads", "4", "1", "timed heads", WHOLE, 1, 1, 128},
    {"width", "64", "16", "their width", WHOLE, 1, 1, 256},
    {"features", "128", "32", "features of favor", WHOLE, 1, 16, 4096},
    {"tokens", "64", "8", "tokens that are timed at each position", WHOLE, 1, 4, 4096},
    {0}};

typedef struct {
  const char *name;
  attend_form form;
} kind;

/* Compared: those with features, the last three. Timed: the first three. */
static const kind kinds[] = {{"softmax", {.kind = ATTEND_SOFTMAX}},
                             {"elu", {.kind = ATTEND_ELU}},
                             {"favor", {.kind = ATTEND_FAVOR}},
                             {"poly-2", {.kind = ATTEND_POLY, .degree = 2, .c = 1}}};

static attend_form form_of(study_run *r, const kind *k) {
  attend_form form = k->form;
  if (form.kind == ATTEND_FAVOR) form.features = study_count(r, "features");
  return form;
}

/* ---- the same numbers --------------------------------------------------------------- */

typedef struct {
  int n, width;
  size_t size;  /* n width */
  study_pass p; /* q, k and v of the tokens; the masked results */
} tokens;

static attend_desc whole(study_run *r, const kind *k, const tokens *t) {
  return (attend_desc){
      ATTEND_INIT(attend_desc), .form = form_of(r, k),        .q_len = t->n,     .kv_len = t->n,
      .dim = t->width,          .mask.causal = ATTEND_CAUSAL, .engine = "linear"};
}

static attend_status draw(study_run *r, uint64_t stream, tokens *t) {
  const attend_desc any = whole(r, &kinds[1], t);
  t->size = (size_t)t->n * (size_t)t->width;
  return study_tensors(r, &any, stream, STUDY_OUTPUT, &t->p);
}

static attend_status feed(attend_plan *plan, attend_state *state, const tokens *t, int chunk,
                          float *o) {
  const study_pass *p = &t->p;
  for (int at = 0; at < t->n; at += chunk) {
    const int n = t->n - at < chunk ? t->n - at : chunk;
    const size_t from = (size_t)at * (size_t)t->width;
    TRY(attend_extend(plan, state, n, attend_bhtd_input(p->q + from),
                      attend_bhtd_input(p->k + from), attend_bhtd_input(p->v + from),
                      attend_bhtd(o + from), NULL));
  }
  return ATTEND_OK;
}

static attend_status in_chunks(study_run *r, const kind *k, const tokens *t, int chunk, float *o) {
  attend_desc d = whole(r, k, t);
  attend_plan *plan;
  attend_state *state;
  d.q_len = chunk;
  d.mask.causal = ATTEND_CAUSAL_BOTTOM;
  d.purpose = ATTEND_FOR_EXTEND;
  TRY(study_plan(r, &d, &plan));
  TRY(attend_state_create(plan, &state));
  attend_status status = feed(plan, state, t, chunk, o);
  attend_state_free(state);
  return status;
}

static double elu_phi(double x) { return x > 0 ? x + 1 : exp(x); }

/* Equation 9 as it stands: S_i from S_{i-1}, in double. o has n rows. */
static attend_status recur(study_run *r, const tokens *t, double *o) {
  const size_t d = (size_t)t->width;
  double *s = NULL, *z = NULL;
  TAKE(r, &s, d * d);
  TAKE(r, &z, d);
  for (size_t i = 0; i < (size_t)t->n; i++) {
    const float *q = t->p.q + i * d, *k = t->p.k + i * d, *v = t->p.v + i * d;
    double denominator = 0;
    for (size_t c = 0; c < d; c++) {
      z[c] += elu_phi((double)k[c]);
      denominator += elu_phi((double)q[c]) * z[c];
      for (size_t m = 0; m < d; m++) {
        s[c * d + m] += elu_phi((double)k[c]) * (double)v[m];
        o[i * d + m] += elu_phi((double)q[c]) * s[c * d + m];
      }
    }
    for (size_t m = 0; m < d; m++) o[i * d + m] /= denominator;
  }
  return ATTEND_OK;
}

static attend_status claim_recurrence(study_run *r, const tokens *t, const double *exact) {
  double *o = NULL, max = 0;
  TAKE(r, &o, t->size);
  TRY(recur(r, t, o));
  for (size_t i = 0; i < t->size; i++) max = fmax(max, fabs(o[i] - exact[i]));
  return study_claim(r, max, 0, 1e-12,
                     "recurrence: φ(qᵢ) Sᵢ / φ(qᵢ) Zᵢ less the masked sum, in double");
}

/* With another last third: how many of the results before it change. */
static attend_status leak(study_run *r, const kind *k, const tokens *t, double *changed) {
  const size_t kept = (size_t)(t->n - t->n / 3) * (size_t)t->width, bytes = kept * sizeof(float);
  const attend_desc d = whole(r, k, t);
  tokens other = *t;
  TRY(draw(r, STREAM + 10, &other));
  memcpy((float *)other.p.q, t->p.q, bytes);
  memcpy((float *)other.p.k, t->p.k, bytes);
  memcpy((float *)other.p.v, t->p.v, bytes);
  TRY(study_attend(r, &d, &other.p));
  *changed = study_differing(t->p.o, other.p.o, kept);
  return ATTEND_OK;
}

static attend_status claim_chunks(study_run *r, const kind *k, const tokens *t, double *max) {
  size_t count;
  const double *chunks = study_list(r, "chunks", &count);
  float *o = NULL;
  TAKE(r, &o, t->size);
  *max = 0;
  for (size_t i = 0; i < count; i++) {
    TRY(in_chunks(r, k, t, (int)chunks[i], o));
    const double n = study_differing(t->p.o, o, t->size);
    *max = fmax(*max, n);
    TRY(study_claim(r, n, 0, 0,
                    "bits-%s-chunk%g: %s in chunks of %g: results with other bits than masking's",
                    k->name, chunks[i], k->name, chunks[i]));
  }
  return ATTEND_OK;
}

static const attend_study_column equal_columns[] = {
    {"form", "form", TEXT},
    {"features", "C", COUNT},
    {"error", "error against the masked sum", SMALL},
    {"bits", "other bits by any chunks", COUNT},
    {"leak", "other bits by later tokens", COUNT},
    {0}};

static attend_status compare(study_run *r, const kind *k, tokens *t, table_store *table) {
  const attend_desc d = whole(r, k, t);
  double *exact = NULL, bits, leaks;
  TAKE(r, &exact, t->size);
  TRY(attend_definition_forward(r->ctx, &d, attend_bhtd_input(t->p.q), attend_bhtd_input(t->p.k),
                                attend_bhtd_input(t->p.v), exact, NULL));
  if (k->form.kind == ATTEND_ELU) TRY(claim_recurrence(r, t, exact));
  TRY(study_attend(r, &d, &t->p));
  const double error = study_relative_gap(t->p.o, exact, t->size);
  TRY(study_claim(r, error, 0, 2e-5, "equal-%s: %s by Sᵢ and Zᵢ against the masked sum", k->name,
                  k->name));
  TRY(claim_chunks(r, k, t, &bits));
  TRY(leak(r, k, t, &leaks));
  TRY(study_claim(r, leaks, 0, 0, "leak-%s: %s: results that later tokens change", k->name,
                  k->name));
  return study_row(table, k->name, (double)attend_form_features(&d.form, t->width), error, bits,
                   leaks);
}

static attend_status compare_all(study_run *r) {
  tokens t = {.n = study_count(r, "n"), .width = study_count(r, "d")};
  table_store *table;
  TRY(draw(r, STREAM, &t));
  TRY(study_table(r, &table, "equality", equal_columns, "%d tokens of width %d, causal", t.n,
                  t.width));
  for (int i = 0; i < FORMS; i++) {
    TRY(compare(r, &kinds[i + 1], &t, table));
    TRY(study_step(r, 0.2 * (i + 1) / FORMS));
  }
  return study_say(r,
                   "Equation 9, written down in double, equals the masked sum of equation 7. The "
                   "library's engine folds keys into S and Z a block of %d at a time and takes a "
                   "token's own block pair by pair: token by token or in chunks, the results have "
                   "the same bits, and no token sees a later one.",
                   BLOCK);
}

/* ---- what a token costs ------------------------------------------------------------- */

typedef struct {
  double seconds, flops, bytes; /* of a token, and of the state */
} price;

static attend_desc one_token(study_run *r, const kind *k) {
  return (attend_desc){ATTEND_INIT(attend_desc),         .form = form_of(r, k),
                       .heads = study_count(r, "heads"), .q_len = 1,
                       .dim = study_count(r, "width"),   .mask.causal = ATTEND_CAUSAL_BOTTOM,
                       .purpose = ATTEND_FOR_EXTEND};
}

/* Mean over a block of tokens that follow this position. */
static attend_status count_flops(study_run *r, const kind *k, int position, double *flops) {
  attend_desc d = one_token(r, k);
  attend_cost cost;
  d.engine = k->form.kind == ATTEND_SOFTMAX ? NULL : "linear";
  *flops = 0;
  for (int i = 0; i < BLOCK; i++) {
    d.kv_len = position + i + 1;
    TRY(attend_desc_cost(r->ctx, &d, &cost));
    *flops += cost.flops / BLOCK;
  }
  return ATTEND_OK;
}

/* Into the sums, out of them, the open block's pairs; favor's map, twice. */
static double flops_formula(study_run *r, const kind *k, double position) {
  const attend_form form = form_of(r, k);
  const double d = study_count(r, "width"), pairs = (BLOCK + 1) / 2.0;
  const double c = (double)attend_form_features(&form, (int)d);
  const double heads = study_count(r, "heads");
  if (k->form.kind == ATTEND_SOFTMAX) return heads * 4 * d * (position + pairs);
  const double directions = k->form.kind == ATTEND_FAVOR ? c : 0;
  const double reads = position > 0 ? 2 : 1;
  return heads * (2 * 2 * d * directions + reads * 2 * c * (d + 1) + pairs * 2 * (c + d));
}

typedef struct {
  attend_plan *plan;
  attend_state *state;
  float *x, *o; /* one token's rows, for all that is fed; one result */
} session;

static attend_status time_tokens(study_run *r, session *s, double *seconds) {
  const int n = study_count(r, "tokens") / WINDOWS;
  const attend_view x = attend_bhtd(s->x);
  double window[WINDOWS];
  for (int w = 0; w < WINDOWS; w++) {
    const double begin = study_now();
    for (int i = 0; i < n; i++)
      TRY(attend_extend(s->plan, s->state, 1, x, x, x, attend_bhtd(s->o), NULL));
    window[w] = (study_now() - begin) / n;
  }
  *seconds = study_quantile(window, WINDOWS, 0);
  return ATTEND_OK;
}

/* Without queries, up to where the next tokens are timed. */
static attend_status fill(session *s, int64_t position) {
  if (attend_state_length(s->state, 0) > position) TRY(attend_state_truncate(s->state, 0, 0));
  while (attend_state_length(s->state, 0) < position)
    TRY(attend_state_append(s->plan, s->state, 1, attend_bhtd(s->x), attend_bhtd(s->x)));
  return ATTEND_OK;
}

static attend_status time_positions(study_run *r, const kind *k, session *s, double done,
                                    price *prices) {
  size_t count;
  const double *positions = study_list(r, "positions", &count);
  for (size_t i = 0; i < count; i++) {
    TRY(fill(s, (int64_t)positions[i]));
    TRY(time_tokens(r, s, &prices[i].seconds));
    prices[i].bytes = (double)attend_state_bytes(s->state);
    TRY(count_flops(r, k, (int)positions[i], &prices[i].flops));
    TRY(study_step(r, done + 0.8 / FORMS * (double)(i + 1) / (double)count));
  }
  return ATTEND_OK;
}

/* By one thread: a token is less work than waking another. */
static attend_status price_form(study_run *r, const kind *k, double done, price *prices) {
  const attend_desc d = one_token(r, k);
  const size_t size = (size_t)d.heads * (size_t)d.dim;
  const int threads = attend_context_threads(r->ctx);
  session s = {0};
  TRY(study_draw(r, STREAM + 20, size, &s.x));
  TAKE(r, &s.o, size);
  TRY(attend_context_set_threads(r->ctx, 1));
  attend_status status = study_plan(r, &d, &s.plan);
  attend_context_set_threads(r->ctx, threads);
  if (!status) status = attend_state_create(s.plan, &s.state);
  if (!status) status = time_positions(r, k, &s, done, prices);
  attend_state_free(s.state);
  return status;
}

static attend_status claim_prices(study_run *r, const kind *k, size_t count,
                                  const double *positions, const price *prices) {
  for (size_t i = 0; i < count; i++) {
    const double expected = flops_formula(r, k, positions[i]);
    if (fmod(positions[i], BLOCK) != 0) continue;
    TRY(study_claim(r, prices[i].flops, expected, 1e-12 * expected,
                    "flops-%s-%g: %s: flops of a token at position %g, mean of a block", k->name,
                    positions[i], k->name, positions[i]));
  }
  if (k->form.kind == ATTEND_SOFTMAX) return ATTEND_OK;
  return study_claim(r, prices[count - 1].bytes - prices[0].bytes, 0, 0,
                     "state-%s: %s: bytes that the state has grown by", k->name, k->name);
}

static const attend_study_column price_columns[] = {{"position", "position", COUNT},
                                                    {"flops_softmax", "flops, softmax", COUNT},
                                                    {"flops_elu", "elu", COUNT},
                                                    {"flops_favor", "favor", COUNT},
                                                    {"seconds_softmax", "time, softmax", SECONDS},
                                                    {"seconds_elu", "elu", SECONDS},
                                                    {"seconds_favor", "favor", SECONDS},
                                                    {"bytes_softmax", "kept, softmax", BYTES},
                                                    {"bytes_elu", "elu", BYTES},
                                                    {"bytes_favor", "favor", BYTES},
                                                    {0}};

static attend_status tabulate(study_run *r, size_t count, const double *positions,
                              price prices[FORMS][MOST]) {
  table_store *t;
  TRY(study_table(r, &t, "tokens", price_columns,
                  "One token after so many, %d heads of width %d, one thread",
                  study_count(r, "heads"), study_count(r, "width")));
  for (size_t i = 0; i < count; i++) {
    TRY(study_cell(t, positions[i]));
    for (int k = 0; k < FORMS; k++) TRY(study_cell(t, round(prices[k][i].flops)));
    for (int k = 0; k < FORMS; k++) TRY(study_cell(t, prices[k][i].seconds));
    for (int k = 0; k < FORMS; k++) TRY(study_cell(t, prices[k][i].bytes));
  }
  return ATTEND_OK;
}

static attend_status plot_prices(study_run *r, size_t count, const double *positions,
                                 price prices[FORMS][MOST]) {
  double seconds[FORMS][MOST], bytes[FORMS][MOST];
  attend_plot_series a[FORMS], b[FORMS];
  for (int k = 0; k < FORMS; k++) {
    for (size_t i = 0; i < count; i++) {
      seconds[k][i] = 1e6 * prices[k][i].seconds;
      bytes[k][i] = prices[k][i].bytes / 1024;
    }
    a[k] = (attend_plot_series){kinds[k].name, count, positions, seconds[k], .points = 1};
    b[k] = (attend_plot_series){kinds[k].name, count, positions, bytes[k], .points = 1};
  }
  a[0].dashed = b[0].dashed = 1;
  attend_plot_panel panels[] = {
      study_lines("Time of one token, one thread", study_axis("tokens before it"),
                  study_log("microseconds"), FORMS, a),
      study_lines("What is kept", study_axis("tokens before it"), study_log("KiB"), FORMS, b)};
  return study_plot(r, "causal-tokens", 2, panels);
}

static attend_status price_all(study_run *r) {
  size_t count;
  const double *positions = study_list(r, "positions", &count);
  price prices[FORMS][MOST];
  for (int k = 0; k < FORMS; k++) {
    TRY(price_form(r, &kinds[k], 0.2 + 0.8 * k / FORMS, prices[k]));
    TRY(claim_prices(r, &kinds[k], count, positions, prices[k]));
  }
  TRY(tabulate(r, count, positions, prices));
  TRY(plot_prices(r, count, positions, prices));
  const price *softmax = prices[0], *elu = prices[1];
  return study_say(r,
                   "From the first position to the last a token by softmax took %.0f times as "
                   "long, by elu %.2f times (the first block has no sums to read yet); the cache "
                   "grew to %.0f times its bytes, the sums not at all. So N tokens cost a time in "
                   "proportion to N by sums, and to N² by softmax. Flops are means over a block of "
                   "%d tokens: inside, they rise by the pairs of the open block.",
                   softmax[count - 1].seconds / softmax[0].seconds,
                   elu[count - 1].seconds / elu[0].seconds,
                   softmax[count - 1].bytes / softmax[0].bytes, BLOCK);
}

static attend_status run(study_run *r) {
  TRY(study_say(r,
                "A causal mask lets token i see the tokens j ≤ i. With a feature map the masked "
                "sum needs no mask: $V′ᵢ = φ(qᵢ)ᵀ Sᵢ / φ(qᵢ)ᵀ Zᵢ$, where $Sᵢ = Σ_{j≤i} "
                "φ(kⱼ) vⱼᵀ$ and $Zᵢ = Σ_{j≤i} φ(kⱼ)$. Each follows from the one before in "
                "constant time, so a whole sequence costs a time linear in its length."));
  TRY(compare_all(r));
  TRY(study_heading(r, "What one more token costs"));
  TRY(study_say(r,
                "Softmax keeps all keys and values and reads them for each token. A linear form "
                "keeps S and Z, $C (M + 1)$ numbers a head, and an open block of keys."));
  return price_all(r);
}

const study_topic study_causal = {
    {.name = "causal",
     .title = "Causal attention as a running sum",
     .question = "Are Sᵢ and Zᵢ the same as a mask, and what does one more token cost?",
     .answers = "Spring 2023 3(b), Fall 2022 3(b)",
     .settings = settings},
    run};
