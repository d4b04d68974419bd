/* Timing problems in turns. */
#include "bench/timing.h"

#include <stdio.h>
#include <stdlib.h>

#include "bench/blas.h"
#include "progress.h"

enum { LEAST = 5, MOST = 2000, SHORT = 300 };

/* ---- small enough to verify ------------------------------------------------------- */

static int at_most(int n, int most) { return n < most ? n : most; }

/* Lengths to 300, with their difference kept in kind; batch to 2; the heads of
 * one kv head stay together. */
attend_problem shrunken(const attend_problem *problem) {
  attend_problem p = *problem;
  attend_desc *d = &p.desc;
  int group = d->heads / d->kv_heads;
  bool square = d->q_len == d->kv_len;
  d->batch = at_most(d->batch, 2);
  d->kv_heads = at_most(d->kv_heads, group > 2 ? 1 : 2);
  d->heads = d->kv_heads * group;
  d->q_len = at_most(d->q_len, square ? SHORT : SHORT - 43);
  d->kv_len = at_most(d->kv_len, SHORT);
  return p;
}

/* ---- one bench_case ---------------------------------------------------------------- */

static float *random_matrix(uint64_t seed, uint64_t stream, size_t n) {
  float *x = need(n, sizeof *x);
  attend_random_normal((attend_random){seed, stream}, 0, n, x);
  return x;
}

static attend_status open_sgemm(uint64_t seed, bench_case *c) {
  const attend_problem *p = &c->problem;
  size_t m = (size_t)p->m, n = (size_t)p->n, k = (size_t)p->k;
  c->a = random_matrix(seed, 1, m * k);
  c->b = random_matrix(seed, 2, k * n);
  c->c = need(m * n, sizeof *c->c);
  c->flops = sgemm_flops(p);
  c->bytes = sgemm_bytes(p);
  snprintf(c->engine, sizeof c->engine, "%s", blas_name());
  return ATTEND_OK;
}

attend_status bench_case_open(attend_context *ctx, uint64_t seed, bench_case *c) {
  attend_cost cost = {0};
  if (c->problem.op == ATTEND_OP_SGEMM) return open_sgemm(seed, c);
  attend_status status = attend_problem_tensors(ctx, &c->problem, seed, &c->tensors);
  if (!status) status = attend_solver_create(ctx, &c->problem, &c->tensors, &c->solver);
  if (status) return status;
  /* A decode's plan has the number of keys in the state, the new one included. */
  attend_plan *plan = attend_solver_plan(c->solver);
  status = attend_plan_cost(plan, &cost);
  if (status) return status;
  c->flops = cost.flops;
  c->bytes = cost.bytes;
  c->workspace = (double)cost.workspace_bytes;
  snprintf(c->engine, sizeof c->engine, "%s", attend_plan_engine(plan));
  return ATTEND_OK;
}

void bench_case_close(attend_context *ctx, bench_case *c) {
  attend_solver_free(c->solver);
  attend_tensors_free(ctx, &c->tensors);
  free(c->a);
  free(c->b);
  free(c->c);
  free(c->times);
}

/* Rewinding a state is not timed. */
static attend_status run_once(attend_context *ctx, bench_case *c, double *seconds) {
  double start = seconds_now();
  attend_status status = ATTEND_OK;
  if (c->problem.op == ATTEND_OP_SGEMM)
    blas_sgemm(attend_context_threads(ctx), c->problem.m, c->problem.n, c->problem.k, c->a, c->b,
               c->c);
  else
    status = attend_solver_run(c->solver);
  *seconds = seconds_now() - start;
  if (!status && c->problem.op != ATTEND_OP_SGEMM) status = attend_solver_rewind(c->solver);
  return status;
}

/* ---- all of them -------------------------------------------------------------------- */

/* Twice, the first for the caches and the threads; then how often it fits into
 * a second. */
static attend_status warm_up(attend_context *ctx, bench_case *c, int repeat) {
  double seconds;
  attend_status status = run_once(ctx, c, &seconds);
  if (!status && seconds < 1) status = run_once(ctx, c, &seconds);
  double fits = seconds > 0 ? 1 / seconds : MOST;
  c->repeats = repeat ? repeat : fits < LEAST ? LEAST : fits > MOST ? MOST : (int)fits;
  c->times = need((size_t)c->repeats, sizeof *c->times);
  return status;
}

static attend_status one_round(attend_context *ctx, bench_case *c, int round, int rounds) {
  int until = (int)((int64_t)c->repeats * (round + 1) / rounds);
  attend_status status = ATTEND_OK;
  while (c->taken < until && !status) status = run_once(ctx, c, &c->times[c->taken++]);
  return status;
}

attend_status time_cases(attend_context *ctx, bench_case *list, int count, int repeat) {
  attend_status status = ATTEND_OK;
  int rounds = MOST;
  for (int n = 0; n < count && !status; n++) {
    status = warm_up(ctx, &list[n], repeat);
    rounds = at_most(list[n].repeats, rounds);
  }
  progress_start("timing: round", (size_t)rounds);
  for (int round = 0; round < rounds && !status; round++)
    for (int n = 0; n < count && !status; n++) {
      progress_step((size_t)round, list[n].text);
      status = one_round(ctx, &list[n], round, rounds);
    }
  progress_end();
  for (int n = 0; n < count && !status; n++) {
    list[n].median_s = attend_median(list[n].times, (size_t)list[n].taken);
    list[n].best_s = list[n].times[0]; /* sorted now */
  }
  return status;
}
