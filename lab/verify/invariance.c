/* The same bits always.
 *
 * Each problem is solved once with one thread, all at once; then in every other way
 * that must not matter, and compared bit by bit: threads, a batch entry alone, a query
 * alone, the other layout, keys fed through a state in chunks, with an observer.
 */
#include <math.h>
#include <stdio.h>

#include "attend/attention.h"
#include "verify/verify.h"

static const char *const problems[] = {
    "softmax:b3h4g2n65d64:causal:bwd",
    "softmax:b2h2n33x130d24v40:bwd",
    "softmax:b3h6g1n70d16:causal:window=9:bf16:bwd",
    "softmax:b2h4n70d32:causal:alibi:f16:bwd",
    "softmax:b2h4g2n90d8:causal:buckets1:bwd",
    "softmax:b2h2n20x70d59v31:bottom:dense:bwd",
    "softmax:b3h4g2n65d64:causal:cap=2:bwd",
    "softmax:b2h4n300d32:causal:alibi:cap=1:f16:bwd",
    "softmax:b1h8g2n3x2100d32:bottom:cap=1:bf16",
    "softmax:b3h2n40d8:lengths:bwd",
    "softmax:b3h2n80d8:causal:padleft:bf16:bwd",
    "argmax:b2h4g2n65d16:causal:bwd",
    "argmax:b2h3g1n70d8:causal:alibi:window=20:f16",
    "argmax(ties=average):b2h2n40x130d3:bf16:bwd",
    "argmax(t=0.5):b2h2n66d8:causal:bwd",
    "softmax:b2h2n300x520d16:bottom:window=290",
    "softmax:b1h4g1n530d16:causal:bwd",
    "softmax:b1h2n600d8:causal:buckets:f16",
    "softmax:b1h8g2n3x2100d32:bottom",
    "poly(p=7,a=0.1,c=1):b2h4g2n65d16:causal:bwd",
    "poly(p=5,a=0.1,c=1):b2h2n33x300d24v40:bf16:bwd",
    "poly(p=6,a=0.1,c=0.5):b1h8g2n3x2100d32:bottom",
    "gaussian:b2h4g2n70d24v8:causal:bwd",
    "gaussian:b2h2n90d8:causal:alibi:window=40:bf16:bwd",
    "gaussian:b1h8g2n3x2100d32:bottom:f16",
    "gaussian(sigma=0.5):b2h4g1n300d8:causal:padleft:bwd",
    "gaussian(sigma=0.5):b2h2n20x70d59v31:bottom:dense:bwd",
    /* what tensor cores take, longer than a chain of sums, and split among multiprocessors */
    "softmax:b2h4g2n700d64:causal:bf16:bwd",
    "softmax:b2h2n600d128:causal:window=200:f16:bwd",
    "softmax:b2h8g1n300d64:causal:padleft:bf16:bwd",
    "softmax:b1h8g2n3x9000d64:bottom:bf16",
    "elu:b2h4g2n700d64:causal:bf16:bwd",
    "elu:b2h2n300d59v31:bwd",
    "favor(m=64):b2h2n300d64:causal:f16:bwd",
    "fourier(m=32,sigma=4):b2h2n200d32:causal:padright:bf16:bwd",
};

const char *attend_invariance_problem(size_t i) {
  return i < sizeof problems / sizeof *problems ? problems[i] : NULL;
}

typedef struct {
  attend_context *ctx;
  memory memory;
  attend_tensors tensors;
  inputs in;
  outputs plain; /* what everything else must equal */
  char engine[64];
  void (*each)(const char *check, const attend_verification *verdict, void *user);
  void *user;
} subject;

/* ---- solving ------------------------------------------------------------------- */

/* One row, the heaviest keys, entropies and masses. */
static attend_status observe(memory *m, attend_solver *s, const attend_tensors *t) {
  const attend_desc *d = &t->desc;
  size_t rows = (size_t)d->batch * (size_t)d->heads;
  const int32_t chosen[1] = {d->q_len / 2};
  attend_observation l = {ATTEND_INIT(attend_observation), .rows = chosen, .n_rows = 1, .top = 3};
  TAKE(m, &l.weights, rows * (size_t)d->kv_len);
  TAKE(m, &l.mass, rows * (size_t)d->kv_len);
  TAKE(m, &l.entropy, rows * (size_t)d->q_len);
  TAKE(m, &l.top_index, rows * (size_t)d->q_len * 3);
  TAKE(m, &l.top_weight, rows * (size_t)d->q_len * 3);
  return attend_observe(attend_solver_plan(s), t->q, t->k, t->lse, &l);
}

typedef struct {
  int threads;
  bool bthd, observed;
} setting;

static attend_status run_solver(memory *m, attend_solver *s, attend_tensors *t, bool observed) {
  ATTEND_TRY(attend_solver_run(s));
  ATTEND_TRY(attend_solver_fetch(s));
  if (!observed) return ATTEND_OK;
  ATTEND_TRY(observe(m, s, t));
  ATTEND_TRY(attend_solver_run(s));
  return attend_solver_fetch(s);
}

/* The outputs are m's. */
static attend_status solve_with(memory *m, const inputs *in, setting how, outputs *out,
                                char engine[64]) {
  attend_tensors t;
  attend_solver *s;
  bool backward = in->d_o.data != NULL;
  attend_problem problem = {ATTEND_INIT(attend_problem), .desc = *in->desc,
                            .op = backward ? ATTEND_OP_BACKWARD : ATTEND_OP_FORWARD};
  ATTEND_TRY(results_take(m, in, how.bthd, &t));
  ATTEND_TRY(attend_solver_create(m->ctx, &problem, &t, &s));
  attend_status status = run_solver(m, s, &t, how.observed);
  if (!status) status = outputs_read(m, &t, backward, out);
  if (engine) snprintf(engine, 64, "%s", attend_plan_engine(attend_solver_plan(s)));
  attend_solver_free(s);
  return status;
}

static attend_status solve(memory *m, const inputs *in, setting how, outputs *out,
                           char engine[64]) {
  int threads = attend_context_threads(m->ctx);
  ATTEND_TRY(attend_context_set_threads(m->ctx, how.threads));
  attend_status status = solve_with(m, in, how, out, engine);
  attend_context_set_threads(m->ctx, threads);
  return status;
}

/* ---- comparing ----------------------------------------------------------------- */

/* Bits, so that 0 and -0 differ and a NaN equals itself. */
static void compare(attend_verification *v, int x, size_t n, const double *a, const double *b) {
  if (isnan(v->error[x])) v->error[x] = v->bound[x] = 0;
  for (size_t i = 0; i < n; i++) {
    if (!memcmp(&a[i], &b[i], sizeof a[i])) continue;
    double e = fabs(a[i] - b[i]);
    v->ok = 0;
    if (!(e <= v->error[x])) v->error[x] = isnan(e) ? INFINITY : e;
    v->worst = x;
  }
}

static attend_verification no_difference(void) {
  attend_verification v = {.ok = 1};
  for (int x = 0; x < ATTEND_OUTPUTS; x++) v.error[x] = v.bound[x] = NAN;
  return v;
}

static void compare_all(attend_verification *v, const outputs *a, const outputs *b) {
  for (int x = 0; x < ATTEND_OUTPUTS; x++)
    if (a->at[x] && b->at[x]) compare(v, x, a->count[x], a->at[x], b->at[x]);
}

static void report(subject *s, const char *check, attend_verification *v) {
  snprintf(v->engine, sizeof v->engine, "%s", s->engine);
  s->each(check, v, s->user);
}

/* ---- checks -------------------------------------------------------------------- */

static attend_status check_setting(subject *s, const char *check, setting how) {
  memory m = {.ctx = s->ctx};
  outputs out;
  attend_verification v = no_difference();
  attend_status status = solve(&m, &s->in, how, &out, NULL);
  if (!status) {
    compare_all(&v, &s->plain, &out);
    report(s, check, &v);
  }
  memory_free(&m);
  return status;
}

static inputs batch_entry(const inputs *in, attend_desc *one, int b) {
  const attend_desc *d = in->desc;
  *one = *d;
  one->batch = 1;
  if (d->mask.lengths) one->mask.lengths += b;
  if (d->mask.key_mask) one->mask.key_mask += (ptrdiff_t)b * d->kv_len;
  if (d->bias.kind == ATTEND_DENSE)
    one->bias.dense =
        view_from(view_complete(d->bias.dense, d->heads, d->q_len, d->kv_len), ATTEND_F32, b, 0, 0);
  inputs entry = {.desc = one};
  entry.q = view_from(in->q, d->dtype, b, 0, 0);
  entry.k = view_from(in->k, d->dtype, b, 0, 0);
  entry.v = view_from(in->v, d->dtype, b, 0, 0);
  if (in->d_o.data) entry.d_o = view_from(in->d_o, d->dtype, b, 0, 0);
  return entry;
}

/* A bias's gradient sums over the batch and is not compared. */
static attend_status check_batch(subject *s) {
  const attend_desc *d = s->in.desc;
  attend_verification v = no_difference();
  for (int b = 0; b < d->batch; b++) {
    attend_desc one;
    outputs out;
    memory m = {.ctx = s->ctx};
    inputs entry = batch_entry(&s->in, &one, b);
    attend_status status = solve(&m, &entry, (setting){.threads = 2}, &out, NULL);
    for (int x = 0; !status && x < ATTEND_OUT_DBIAS; x++)
      if (out.at[x])
        compare(&v, x, out.count[x], s->plain.at[x] + (size_t)b * out.count[x], out.at[x]);
    memory_free(&m);
    if (status) return status;
  }
  report(s, "batch entry alone", &v);
  return ATTEND_OK;
}

/* Query i alone: the keys up to it where the mask is causal, so that the
 * query keeps its position. */
static attend_status solve_row(subject *s, memory *m, int b, int i, outputs *out) {
  attend_desc one;
  inputs entry = batch_entry(&s->in, &one, b);
  const attend_desc *d = s->in.desc;
  int place = d->mask.causal == ATTEND_CAUSAL_BOTTOM ? i + d->kv_len - d->q_len : i;
  int32_t length = one.mask.lengths ? *one.mask.lengths : 0;
  one.q_len = 1;
  one.purpose = 0;
  if (!s->ctx->device->host) one.engine = s->engine; /* backward may want another */
  if (d->mask.causal) {
    one.mask.causal = ATTEND_CAUSAL_BOTTOM;
    one.kv_len = place + 1;
  }
  if (length > one.kv_len) length = one.kv_len;
  if (one.mask.lengths) one.mask.lengths = &length;
  entry.q = view_from(entry.q, d->dtype, 0, 0, i);
  entry.d_o.data = NULL;
  if (d->bias.kind == ATTEND_DENSE) one.bias.dense = view_from(one.bias.dense, ATTEND_F32, 0, 0, i);
  return solve(m, &entry, (setting){.threads = 1}, out, NULL);
}

static void compare_row(attend_verification *v, const subject *s, int b, int i,
                        const outputs *out) {
  const attend_desc *d = s->in.desc;
  size_t width = (size_t)d->dim_v;
  for (int h = 0; h < d->heads; h++) {
    size_t row = ((size_t)b * (size_t)d->heads + (size_t)h) * (size_t)d->q_len + (size_t)i;
    compare(v, ATTEND_OUT_LSE, 1, s->plain.at[ATTEND_OUT_LSE] + row, out->at[ATTEND_OUT_LSE] + h);
    compare(v, ATTEND_OUT_O, width, s->plain.at[ATTEND_OUT_O] + row * width,
            out->at[ATTEND_OUT_O] + (size_t)h * width);
  }
}

/* Without a causal mask a lone query has no position, so none may matter. */
static bool can_stand_alone(const attend_desc *d) {
  bool placed = d->mask.window || d->bias.kind == ATTEND_ALIBI || d->bias.kind == ATTEND_BUCKETS;
  return d->mask.causal || !placed;
}

static attend_status check_rows(subject *s) {
  const attend_desc *d = s->in.desc;
  attend_verification v = no_difference();
  if (!can_stand_alone(d)) return ATTEND_OK;
  for (int b = 0; b < d->batch; b++)
    for (int i = 0; i < d->q_len; i += 1 + d->q_len / 7) {
      outputs out;
      memory m = {.ctx = s->ctx};
      attend_status status = solve_row(s, &m, b, i, &out);
      if (!status) compare_row(&v, s, b, i, &out);
      memory_free(&m);
      if (status) return status;
    }
  report(s, "query alone", &v);
  return ATTEND_OK;
}

/* ---- states -------------------------------------------------------------------- */

typedef struct {
  attend_plan *plan;
  attend_state *state;
  attend_view o;
  float *lse;    /* [B,H,n] of the call */
  double *all;   /* [B,H,T] of the whole */
  uint8_t *mask; /* [B,n] of the call */
  bool apart;    /* another engine than the whole's: its ways are compared with its first */
  outputs first;
} feeding;

static attend_status feed(const subject *s, feeding *f, int from, int n) {
  const attend_desc *d = s->in.desc;
  attend_dtype t = d->dtype;
  for (int b = 0; f->mask && b < d->batch; b++)
    memcpy(f->mask + (ptrdiff_t)b * n, d->mask.key_mask + (ptrdiff_t)b * d->kv_len + from,
           (size_t)n);
  attend_plan_set_padding(f->plan, NULL, f->mask);
  attend_status status = attend_extend(
      f->plan, f->state, n, view_from(s->in.q, t, 0, 0, from), view_from(s->in.k, t, 0, 0, from),
      view_from(s->in.v, t, 0, 0, from), view_from(f->o, t, 0, 0, from), f->lse);
  for (int row = 0; row < d->batch * d->heads; row++)
    for (int i = 0; i < n; i++)
      f->all[(ptrdiff_t)row * d->q_len + from + i] = f->lse[(ptrdiff_t)row * n + i];
  return status;
}

/* The size of a chunk: all at once, one by one, or random. */
static int chunk(int cut, int left, int turn) {
  if (cut == 0) return left;
  if (cut == 1) return 1;
  uint32_t words[4];
  attend_random_block((attend_random){11, (uint64_t)cut}, (uint64_t)turn, words);
  int n = 1 + (int)(words[0] % 97);
  return n < left ? n : left;
}

static attend_status feed_all(subject *s, feeding *f, int cut) {
  const attend_desc *d = s->in.desc;
  attend_status status = attend_state_create(f->plan, &f->state);
  for (int from = 0, turn = 0; from < d->q_len && !status; turn++) {
    int n = chunk(cut, d->q_len - from, turn);
    status = feed(s, f, from, n);
    from += n;
  }
  attend_state_free(f->state);
  f->state = NULL;
  return status;
}

static attend_status compare_fed(subject *s, memory *m, feeding *f, const char *check) {
  const attend_desc *d = s->in.desc;
  outputs out;
  ATTEND_TRY(outputs_take(m, d, false, &out));
  attend_verification v = no_difference();
  view_read(f->o, d->dtype, d->batch, d->heads, d->q_len, d->dim_v, out.at[ATTEND_OUT_O]);
  memcpy(out.at[ATTEND_OUT_LSE], f->all, out.count[ATTEND_OUT_LSE] * sizeof *f->all);
  if (f->apart && !f->first.at[ATTEND_OUT_O]) f->first = out;
  const outputs *want = f->apart ? &f->first : &s->plain;
  for (int x = ATTEND_OUT_O; x <= ATTEND_OUT_LSE; x++)
    compare(&v, x, out.count[x], want->at[x], out.at[x]);
  snprintf(v.engine, sizeof v.engine, "%s", attend_plan_engine(f->plan));
  s->each(check, &v, s->user);
  return ATTEND_OK;
}

static attend_status check_cuts(subject *s, memory *m, feeding *f) {
  static const char *const names[] = {"state: all at once", "state: one by one", "state: pieces",
                                      "state: other pieces"};
  attend_status status = ATTEND_OK;
  for (int cut = 0; cut < 4 && !status; cut++) {
    status = feed_all(s, f, cut);
    if (!status) status = compare_fed(s, m, f, names[cut]);
  }
  return status;
}

/* Only a causal problem over its own keys can be fed through a state. */
static bool can_be_fed(const attend_desc *d) {
  return d->mask.causal && d->q_len == d->kv_len && d->bias.kind != ATTEND_DENSE &&
         !d->mask.lengths;
}

static attend_status check_feeding(subject *s, memory *m) {
  attend_desc d = *s->in.desc;
  size_t rows = (size_t)d.batch * (size_t)d.heads * (size_t)d.q_len;
  feeding f = {0};
  float *o; /* of any dtype */
  TAKE(m, &o, rows * (size_t)d.dim_v);
  TAKE(m, &f.lse, rows);
  TAKE(m, &f.all, rows);
  if (d.mask.key_mask) TAKE(m, &f.mask, d.batch * d.kv_len);
  f.o = view_complete(attend_bhtd(o), d.heads, d.q_len, d.dim_v);
  d.mask.causal = ATTEND_CAUSAL_BOTTOM;
  d.mask.key_mask = NULL;
  d.purpose = ATTEND_FOR_EXTEND;
  if (!s->ctx->device->host) d.engine = s->engine;
  attend_status status = attend_plan_create(s->ctx, &d, &f.plan);
  if (status == ATTEND_UNSUPPORTED && d.engine) { /* this engine of a GPU's keeps no state */
    attend_plan_free(f.plan);
    d.engine = NULL;
    f.apart = true;
    status = attend_plan_create(s->ctx, &d, &f.plan);
  }
  if (!status) status = check_cuts(s, m, &f);
  attend_plan_free(f.plan);
  return status;
}

static attend_status check_states(subject *s) {
  memory m = {.ctx = s->ctx};
  if (!can_be_fed(s->in.desc)) return ATTEND_OK;
  attend_status status = check_feeding(s, &m);
  memory_free(&m);
  return status;
}

/* ---- the whole ----------------------------------------------------------------- */

static attend_status check_all(subject *s) {
  static const struct {
    const char *check;
    setting how;
  } settings[] = {{"2 threads", {.threads = 2}},
                  {"3 threads", {.threads = 3}},
                  {"7 threads", {.threads = 7}},
                  {"BTHD", {.threads = 1, .bthd = true}},
                  {"observed", {.threads = 2, .observed = true}}};
  ATTEND_TRY(solve(&s->memory, &s->in, (setting){.threads = 1}, &s->plain, s->engine));
  for (size_t n = 0; n < sizeof settings / sizeof *settings; n++)
    ATTEND_TRY(check_setting(s, settings[n].check, settings[n].how));
  ATTEND_TRY(check_batch(s));
  ATTEND_TRY(check_rows(s));
  return check_states(s);
}

/* Every other engine of a GPU's. */
static attend_status check_others(subject *s) {
  attend_desc d = *s->in.desc;
  attend_plan *plan;
  const char *name;
  attend_status status = ATTEND_OK;
  if (s->in.d_o.data) d.purpose |= ATTEND_FOR_BACKWARD;
  ATTEND_TRY(attend_plan_create(s->ctx, &d, &plan));
  for (int i = 0; !status && (name = other_engine(s->ctx, plan, i)); i++) {
    s->tensors.desc.engine = name;
    status = check_all(s);
  }
  attend_plan_free(plan);
  return status;
}

attend_status attend_invariance(attend_context *ctx, const char *text, uint64_t seed,
                                void (*each)(const char *check, const attend_verification *verdict,
                                             void *user),
                                void *user) {
  subject s = {.ctx = ctx,
               .memory = {.ctx = ctx},
               .each = each,
               .user = user,
               .tensors = {ATTEND_INIT(attend_tensors)}};
  attend_problem problem = {ATTEND_INIT(attend_problem)};
  ATTEND_TRY(attend_problem_parse(ctx, text, &problem));
  ATTEND_TRY(attend_problem_tensors(ctx, &problem, seed, &s.tensors));
  s.in = inputs_of(&s.tensors);
  attend_status status = check_all(&s);
  if (!status) status = check_others(&s);
  memory_free(&s.memory);
  attend_tensors_free(ctx, &s.tensors);
  return status;
}
