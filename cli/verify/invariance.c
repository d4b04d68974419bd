/* attend verify --invariance: the same bits always.
 *
 * Each problem is solved once, plainly: one thread, all at once. Then again in
 * every other way that must not matter, and compared bit by bit: threads, a
 * batch entry alone, a query alone, the other layout, keys fed through a state
 * in any cutting, with someone looking.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "verify/engine_run.h"
#include "progress.h"
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
};

typedef struct {
  verify_run *run;
  attend_context *ctx;
  const char *text;
  attend_tensors tensors;
  inputs in;
  outputs plain; /* what everything else must equal */
  char engine[64];
} subject;

/* ---- solving ------------------------------------------------------------------- */

/* Fresh tensors for the results, in either layout, in one block. */
static attend_tensors tensors_for(const inputs *in, bool bthd, void **block) {
  const attend_desc *d = in->desc;
  outputs shape = outputs_for(d, in->d_o.data != NULL);
  size_t bytes = 0;
  for (int x = 0; x < OUTPUTS; x++) bytes += shape.count[x] * 4 + 64;
  char *at = *block = need(bytes, 1);
  attend_tensors t = {
      .desc = *d, .q = in->q, .k = in->k, .v = in->v, .d_o = in->d_o};
  attend_view *views[OUTPUTS] = {&t.o, NULL, &t.dq, &t.dk, &t.dv, NULL};
  const int heads[] = {d->heads, 0, d->heads, d->kv_heads, d->kv_heads};
  const int lengths[] = {d->q_len, 0, d->q_len, d->kv_len, d->kv_len};
  const int widths[] = {d->dim_v, 0, d->dim, d->dim, d->dim_v};
  for (int x = 0; x < OUTPUTS; x++) {
    if (views[x])
      *views[x] = bthd ? attend_bthd(at, heads[x], lengths[x], widths[x])
                       : attend_bhtd(at);
    if (x == OUT_LSE) t.lse = (float *)(void *)at;
    if (x == OUT_DBIAS && shape.count[x]) t.dbias = (float *)(void *)at;
    at += (shape.count[x] * 4 + 63) / 64 * 64;
  }
  outputs_free(&shape);
  return t;
}

/* Looks at a few rows, the heaviest keys, entropies and masses. */
static attend_status look(engine_run *e) {
  const attend_desc *d = &e->tensors->desc;
  size_t rows = (size_t)d->batch * (size_t)d->heads;
  const int32_t chosen[1] = {d->q_len / 2};
  attend_observation l = {.rows = chosen, .n_rows = 1, .top = 3};
  l.weights = need(rows * (size_t)d->kv_len, sizeof(float));
  l.mass = need(rows * (size_t)d->kv_len, sizeof(float));
  l.entropy = need(rows * (size_t)d->q_len, sizeof(float));
  l.top_index = need(rows * (size_t)d->q_len * 3, sizeof(int32_t));
  l.top_weight = need(rows * (size_t)d->q_len * 3, sizeof(float));
  attend_tensors *t = e->tensors;
  attend_status status = attend_observe(e->plan, t->q, t->k, t->lse, &l);
  void *blocks[] = {l.weights, l.mass, l.entropy, l.top_index, l.top_weight};
  for (size_t n = 0; n < sizeof blocks / sizeof *blocks; n++) free(blocks[n]);
  return status;
}

typedef struct {
  int threads;
  bool bthd, looked;
} way;

static attend_status solve(attend_context *ctx, const inputs *in, way w,
                           outputs *out, char engine[64]) {
  void *block;
  engine_run e;
  int threads = attend_context_threads(ctx);
  attend_problem problem = {
      .desc = *in->desc,
      .op = in->d_o.data ? ATTEND_OP_BACKWARD : ATTEND_OP_FORWARD};
  attend_tensors t = tensors_for(in, w.bthd, &block);
  attend_status status = attend_context_set_threads(ctx, w.threads);
  e = (engine_run){0};
  if (!status) status = engine_open(ctx, &problem, &t, &e);
  if (!status) status = engine_once(&e);
  if (!status && w.looked) status = look(&e);
  if (!status && w.looked) status = engine_once(&e);
  if (!status) *out = engine_read(&e);
  if (!status && engine) snprintf(engine, 64, "%s", attend_plan_engine(e.plan));
  engine_close(&e);
  free(block);
  attend_context_set_threads(ctx, threads);
  return status;
}

/* ---- comparing ----------------------------------------------------------------- */

/* Bits, so that 0 and -0 differ and a NaN equals itself. */
static void compare(verdict *v, int x, size_t n, const double *a,
                    const double *b) {
  if (isnan(v->error[x])) v->error[x] = v->bound[x] = 0;
  for (size_t i = 0; i < n; i++) {
    if (!memcmp(&a[i], &b[i], sizeof a[i])) continue;
    double e = fabs(a[i] - b[i]);
    v->ok = false;
    if (!(e <= v->error[x])) v->error[x] = isnan(e) ? INFINITY : e;
    v->worst = x;
  }
}

static verdict clean(void) {
  verdict v = {.ok = true};
  for (int x = 0; x < OUTPUTS; x++) v.error[x] = v.bound[x] = NAN;
  return v;
}

static void compare_all(verdict *v, const outputs *a, const outputs *b) {
  for (int x = 0; x < OUTPUTS; x++)
    if (a->at[x] && b->at[x]) compare(v, x, a->count[x], a->at[x], b->at[x]);
}

static void report(subject *s, const char *check, const verdict *v) {
  verify_add(s->run, s->ctx, s->text, s->engine, check, v);
}

/* ---- the ways ------------------------------------------------------------------ */

static attend_status check_way(subject *s, const char *check, way w) {
  outputs out;
  attend_status status = solve(s->ctx, &s->in, w, &out, NULL);
  if (status) return status;
  verdict v = clean();
  compare_all(&v, &s->plain, &out);
  report(s, check, &v);
  outputs_free(&out);
  return ATTEND_OK;
}

static inputs batch_entry(const inputs *in, attend_desc *one, int b) {
  const attend_desc *d = in->desc;
  *one = *d;
  one->batch = 1;
  if (d->mask.lengths) one->mask.lengths += b;
  if (d->mask.key_mask) one->mask.key_mask += (ptrdiff_t)b * d->kv_len;
  if (d->bias.kind == ATTEND_DENSE)
    one->bias.dense =
        view_from(view_strided(d->bias.dense, d->heads, d->q_len, d->kv_len),
                  ATTEND_F32, b, 0, 0);
  inputs entry = {.desc = one};
  entry.q = view_from(view_strided(in->q, d->heads, d->q_len, d->dim), d->dtype,
                      b, 0, 0);
  entry.k = view_from(view_strided(in->k, d->kv_heads, d->kv_len, d->dim),
                      d->dtype, b, 0, 0);
  entry.v = view_from(view_strided(in->v, d->kv_heads, d->kv_len, d->dim_v),
                      d->dtype, b, 0, 0);
  if (in->d_o.data)
    entry.d_o = view_from(view_strided(in->d_o, d->heads, d->q_len, d->dim_v),
                          d->dtype, b, 0, 0);
  return entry;
}

/* A bias's gradient sums over the batch and is not compared. */
static attend_status check_batch(subject *s) {
  const attend_desc *d = s->in.desc;
  verdict v = clean();
  for (int b = 0; b < d->batch; b++) {
    attend_desc one;
    outputs out;
    inputs entry = batch_entry(&s->in, &one, b);
    attend_status status =
        solve(s->ctx, &entry, (way){.threads = 2}, &out, NULL);
    if (status) return status;
    for (int x = 0; x < OUT_DBIAS; x++)
      if (out.at[x])
        compare(&v, x, out.count[x], s->plain.at[x] + (size_t)b * out.count[x],
                out.at[x]);
    outputs_free(&out);
  }
  report(s, "batch entry alone", &v);
  return ATTEND_OK;
}

/* Query i alone: the keys up to it where the mask is causal, so that the last
 * query stands where it stood. */
static attend_status solve_row(subject *s, int b, int i, outputs *out) {
  attend_desc one;
  inputs entry = batch_entry(&s->in, &one, b);
  const attend_desc *d = s->in.desc;
  int place =
      d->mask.causal == ATTEND_CAUSAL_BOTTOM ? i + d->kv_len - d->q_len : i;
  int32_t length = one.mask.lengths ? *one.mask.lengths : 0;
  one.q_len = 1;
  one.purpose = 0;
  if (d->mask.causal) {
    one.mask.causal = ATTEND_CAUSAL_BOTTOM;
    one.kv_len = place + 1;
  }
  if (length > one.kv_len) length = one.kv_len;
  if (one.mask.lengths) one.mask.lengths = &length;
  entry.q = view_from(entry.q, d->dtype, 0, 0, i);
  entry.d_o.data = NULL;
  if (d->bias.kind == ATTEND_DENSE)
    one.bias.dense = view_from(one.bias.dense, ATTEND_F32, 0, 0, i);
  return solve(s->ctx, &entry, (way){.threads = 1}, out, NULL);
}

static void compare_row(verdict *v, const subject *s, int b, int i,
                        const outputs *out) {
  const attend_desc *d = s->in.desc;
  size_t width = (size_t)d->dim_v;
  for (int h = 0; h < d->heads; h++) {
    size_t row = ((size_t)b * (size_t)d->heads + (size_t)h) * (size_t)d->q_len +
                 (size_t)i;
    compare(v, OUT_LSE, 1, s->plain.at[OUT_LSE] + row, out->at[OUT_LSE] + h);
    compare(v, OUT_O, width, s->plain.at[OUT_O] + row * width,
            out->at[OUT_O] + (size_t)h * width);
  }
}

/* Without a causal mask nothing says where a lone query stands, so it must not
 * matter. */
static bool can_stand_alone(const attend_desc *d) {
  bool placed = d->mask.window || d->bias.kind == ATTEND_ALIBI ||
                d->bias.kind == ATTEND_BUCKETS;
  return d->mask.causal || !placed;
}

static attend_status check_rows(subject *s) {
  const attend_desc *d = s->in.desc;
  verdict v = clean();
  if (!can_stand_alone(d)) return ATTEND_OK;
  for (int b = 0; b < d->batch; b++)
    for (int i = 0; i < d->q_len; i += 1 + d->q_len / 7) {
      outputs out;
      attend_status status = solve_row(s, b, i, &out);
      if (status) return status;
      compare_row(&v, s, b, i, &out);
      outputs_free(&out);
    }
  report(s, "query alone", &v);
  return ATTEND_OK;
}

/* ---- states -------------------------------------------------------------------- */

typedef struct {
  attend_plan *plan;
  attend_state *state;
  attend_view q, k, v, o;
  float *lse;    /* [B,H,n] of the call */
  double *all;   /* [B,H,T] of the whole */
  uint8_t *mask; /* [B,n] of the call */
} feeding;

static attend_status feed(const subject *s, feeding *f, int from, int n) {
  const attend_desc *d = s->in.desc;
  attend_dtype t = d->dtype;
  for (int b = 0; f->mask && b < d->batch; b++)
    memcpy(f->mask + (ptrdiff_t)b * n,
           d->mask.key_mask + (ptrdiff_t)b * d->kv_len + from, (size_t)n);
  attend_plan_set_padding(f->plan, NULL, f->mask);
  attend_status status = attend_extend(
      f->plan, f->state, n, view_from(f->q, t, 0, 0, from),
      view_from(f->k, t, 0, 0, from), view_from(f->v, t, 0, 0, from),
      view_from(f->o, t, 0, 0, from), f->lse);
  for (int row = 0; row < d->batch * d->heads; row++)
    for (int i = 0; i < n; i++)
      f->all[(ptrdiff_t)row * d->q_len + from + i] =
          f->lse[(ptrdiff_t)row * n + i];
  return status;
}

/* The sizes of the pieces: all at once, one by one, or by the stream. */
static int piece(int cut, int left, int turn) {
  if (cut == 0) return left;
  if (cut == 1) return 1;
  uint32_t words[4];
  attend_random_block((attend_random){11, (uint64_t)cut}, (uint64_t)turn,
                      words);
  int n = 1 + (int)(words[0] % 97);
  return n < left ? n : left;
}

static attend_status feed_all(subject *s, feeding *f, int cut) {
  const attend_desc *d = s->in.desc;
  attend_status status = attend_state_create(f->plan, &f->state);
  for (int from = 0, turn = 0; from < d->q_len && !status; turn++) {
    int n = piece(cut, d->q_len - from, turn);
    status = feed(s, f, from, n);
    from += n;
  }
  attend_state_free(f->state);
  f->state = NULL;
  return status;
}

static void compare_fed(subject *s, const feeding *f, const char *check) {
  const attend_desc *d = s->in.desc;
  outputs out = outputs_for(d, false);
  verdict v = clean();
  view_read(f->o, d->dtype, d->batch, d->heads, d->q_len, d->dim_v,
            out.at[OUT_O]);
  compare(&v, OUT_O, out.count[OUT_O], s->plain.at[OUT_O], out.at[OUT_O]);
  compare(&v, OUT_LSE, out.count[OUT_LSE], s->plain.at[OUT_LSE], f->all);
  report(s, check, &v);
  outputs_free(&out);
}

static attend_status check_cuts(subject *s, feeding *f) {
  static const char *const names[] = {"state: all at once", "state: one by one",
                                      "state: pieces", "state: other pieces"};
  attend_status status = ATTEND_OK;
  for (int cut = 0; cut < 4 && !status; cut++) {
    status = feed_all(s, f, cut);
    if (!status) compare_fed(s, f, names[cut]);
  }
  return status;
}

/* Only a causal problem over its own keys can be fed through a state. */
static bool can_be_fed(const attend_desc *d) {
  return d->mask.causal && d->q_len == d->kv_len &&
         d->bias.kind != ATTEND_DENSE && !d->mask.lengths;
}

static attend_status check_states(subject *s) {
  attend_desc d = *s->in.desc;
  if (!can_be_fed(&d)) return ATTEND_OK;
  size_t rows = (size_t)d.batch * (size_t)d.heads * (size_t)d.q_len;
  void *block = need(rows * (size_t)d.dim_v, 4);
  feeding f = {.q = view_strided(s->in.q, d.heads, d.q_len, d.dim),
               .k = view_strided(s->in.k, d.kv_heads, d.kv_len, d.dim),
               .v = view_strided(s->in.v, d.kv_heads, d.kv_len, d.dim_v)};
  f.o = view_strided(attend_bhtd(block), d.heads, d.q_len, d.dim_v);
  f.lse = need(rows, sizeof *f.lse);
  f.all = need(rows, sizeof *f.all);
  if (d.mask.key_mask) f.mask = need((size_t)d.batch * (size_t)d.kv_len, 1);
  d.mask.causal = ATTEND_CAUSAL_BOTTOM;
  d.mask.key_mask = NULL;
  d.purpose = ATTEND_FOR_EXTEND;
  attend_status status = attend_plan_create(s->ctx, &d, &f.plan);
  if (!status) status = check_cuts(s, &f);
  attend_plan_free(f.plan);
  void *blocks[] = {block, f.lse, f.all, f.mask};
  for (size_t n = 0; n < sizeof blocks / sizeof *blocks; n++) free(blocks[n]);
  return status;
}

/* ---- the whole ----------------------------------------------------------------- */

static attend_status check_all(subject *s) {
  static const struct {
    const char *check;
    way w;
  } ways[] = {{"2 threads", {.threads = 2}},
              {"3 threads", {.threads = 3}},
              {"7 threads", {.threads = 7}},
              {"BTHD", {.threads = 1, .bthd = true}},
              {"observed", {.threads = 2, .looked = true}}};
  attend_status status =
      solve(s->ctx, &s->in, (way){.threads = 1}, &s->plain, s->engine);
  for (size_t n = 0; n < sizeof ways / sizeof *ways && !status; n++)
    status = check_way(s, ways[n].check, ways[n].w);
  if (!status) status = check_batch(s);
  if (!status) status = check_rows(s);
  if (!status) status = check_states(s);
  outputs_free(&s->plain);
  return status;
}

static attend_status check_problem(verify_run *run, attend_context *ctx,
                                   const char *text) {
  subject s = {.run = run, .ctx = ctx, .text = text};
  attend_problem problem;
  attend_status status = attend_problem_parse(ctx, text, &problem);
  if (!status)
    status = attend_problem_tensors(ctx, &problem, run->options->common.seed,
                                    &s.tensors);
  if (!status) {
    s.in = (inputs){.desc = &s.tensors.desc,
                    .q = s.tensors.q,
                    .k = s.tensors.k,
                    .v = s.tensors.v,
                    .d_o = s.tensors.d_o};
    status = check_all(&s);
  }
  attend_tensors_free(ctx, &s.tensors);
  return status;
}

int verify_invariance(verify_run *run) {
  size_t count = sizeof problems / sizeof *problems;
  if (run->options->light) count = 12; /* the long ones stand last */
  progress_start("invariance", count * (size_t)run->isas);
  for (int c = 0; c < run->isas; c++)
    for (size_t n = 0; n < count; n++) {
      attend_context *ctx = run->contexts[c];
      progress_step((size_t)c * count + n, problems[n]);
      attend_status status = check_problem(run, ctx, problems[n]);
      if (status == ATTEND_UNSUPPORTED)
        run->skipped++;
      else if (status)
        return complain_status(ctx, status);
    }
  progress_end();
  return EXIT_OK;
}
