/* The cost model: operations, bytes and visible pairs of a plan. The plan compares
 * engines by it; `attend explain` and `attend bench` divide by it.
 *
 * Padding is ignored, so sums over rows have closed forms: any length costs constant
 * time.
 *
 * By pairs (softmax, argmax, kernel-direct), for each pair that is seen:
 *   forward    q.k and a v                            2 (D + M)
 *   backward   q.k again, dO.v, dq, dk, dv            2 (3 D + 2 M)
 *
 * By sums of C features from R random directions (linear), blocks of PANEL keys;
 * a row that sees keys [0, hi) takes r of them in its own block, and "before"
 * says that whole blocks lie before that:
 *   forward    a key     map, fold into the sum       2 D R + 2 C (M + 1)
 *              a row     map                          2 D R
 *                        read the sum, if before      2 C (M + 1)
 *                        in the block: a, a v         2 r (C + M)
 *   backward   a key     map twice and back once      6 D R
 *                        fold, dphi(k) = v T^T,
 *                        dv = phi(k) T                6 C (M + 1)
 *              a row     map twice and back once      6 D R
 *                        dphi(q) = G S^T and the fold
 *                        into T, if before            4 C (M + 1)
 *                        in the block: dA twice and
 *                        A^T G, 6 r M; A, dA phi(k)
 *                        and dA^T phi(q), 6 r C       6 r (C + M)
 * Backward sweeps over the blocks twice, up for dq and down for dk and dv, and
 * keeps no features in between. Exponentials and the like are not counted, as
 * for softmax.
 */
#include "attention/engine.h"
#include "base/options.h"

#include <string.h>

/* ---- sums over rows -------------------------------------------------------------- */

/* sum_{x=1..n} of x, and of the place of key x - 1 in its block, from 1 on. */
static double up_to(int64_t n) { return (double)n * ((double)n + 1) / 2; }

static double places_up_to(int64_t n) {
  return (double)(n / PANEL) * up_to(PANEL) + up_to(n % PANEL);
}

static int64_t clamp(int64_t x, int64_t max) { return min64(max64(x, 0), max); }

/* sum_{i < rows} of f(first + i clamped to [0, top]); total(n) = sum_{x <= n} f(x). */
static double sum_kept(int64_t first, int64_t rows, int64_t top, double (*total)(int64_t)) {
  int64_t from = clamp(first, top), to = clamp(first + rows, top);
  double rising = from < to ? total(to - 1) - (from ? total(from - 1) : 0) : 0;
  int64_t beyond = max64(0, first + rows - max64(first, top));
  return rising + (double)beyond * (total(top) - (top ? total(top - 1) : 0));
}

/* The number of rows with first + i, clamped to [0, top], above `least` >= 0. */
static int64_t rows_above(int64_t first, int64_t rows, int64_t top, int64_t min) {
  if (top <= min) return 0;
  return clamp(first + rows - 1 - min, rows);
}

/* Row i of a head sees the keys before `first` + i, clamped to [0, S]. */
typedef struct {
  int64_t first;
  int64_t rows; /* that share a rule: all, or one that stands for all */
  double times; /* for how many each of them stands */
} rule;

static rule ends_of(const attend_desc *d) {
  int64_t at = desc_position(d, 0);
  double heads = (double)d->batch * d->heads;
  if (d->mask.causal != ATTEND_NOT_CAUSAL) return (rule){at + 1, d->q_len, heads};
  if (d->mask.window) return (rule){at + d->mask.window, d->q_len, heads};
  return (rule){d->kv_len, 1, heads * d->q_len};
}

static double visible_pairs(const attend_desc *d) {
  rule r = ends_of(d);
  double pairs = sum_kept(r.first, r.rows, d->kv_len, up_to);
  if (d->mask.window)
    pairs -= sum_kept(desc_position(d, 0) - d->mask.window + 1, r.rows, d->kv_len, up_to);
  return pairs * r.times;
}

/* ---- operations ------------------------------------------------------------------ */

double flops_of_pairs(const attend_desc *d) {
  double each = 2 * ((double)d->dim + d->dim_v);
  if (d->purpose & ATTEND_FOR_BACKWARD) each += 2 * (3.0 * d->dim + 2.0 * d->dim_v);
  return each * visible_pairs(d);
}

/* A state holds earlier keys: a call maps only its new ones. */
static double mapped_keys(const attend_desc *d) {
  bool extends = d->purpose & ATTEND_FOR_EXTEND;
  return (double)d->batch * d->kv_heads * (extends ? d->q_len : d->kv_len);
}

double flops_of_sums(const attend_desc *d) {
  bool back = d->purpose & ATTEND_FOR_BACKWARD;
  double features = (double)attend_form_features(&d->form, d->dim);
  double map = 2.0 * d->dim * form_directions(&d->form);
  double sum = 2 * features * ((double)d->dim_v + 1);
  double pair = 2 * (features + d->dim_v);
  double rows = (double)d->batch * d->heads * d->q_len;
  rule r = ends_of(d);
  double before = (double)rows_above(r.first, r.rows, d->kv_len, PANEL);
  double inside = sum_kept(r.first, r.rows, d->kv_len, places_up_to);
  return mapped_keys(d) * (map + sum) * (back ? 4 : 1) + rows * map * (back ? 4 : 1) +
         r.times * before * sum * (back ? 3 : 1) + r.times * inside * pair * (back ? 4 : 1);
}

/* ---- bytes ----------------------------------------------------------------------- */

/* The sums (S, z) of every kv head, in f32. */
static double sums_bytes(const attend_desc *d) {
  return (double)d->batch * d->kv_heads * (double)attend_form_features(&d->form, d->dim) *
         ((double)d->dim_v + 1) * sizeof(float);
}

static double bytes(const attend_desc *d, bool sums) {
  double rows = (double)d->batch * d->heads * d->q_len;
  double keys = sums ? mapped_keys(d) : (double)d->batch * d->kv_heads * d->kv_len;
  double wide = (double)d->dim + d->dim_v;
  double size = (double)attend_dtype_size(d->dtype);
  double once = (rows + keys) * wide * size + rows * 4;
  if (sums) once += sums_bytes(d);
  if (!(d->purpose & ATTEND_FOR_BACKWARD)) return once;
  /* backward reads q, k, v, o, do and lse, and writes dq, dk and dv */
  return once + (2 * (rows + keys) * wide + rows * d->dim_v) * size + rows * 4;
}

static attend_cost cost_of(const attend_desc *d, const char *name, bool sums) {
  return (attend_cost){.engine = name,
                       .flops = sums ? flops_of_sums(d) : flops_of_pairs(d),
                       .bytes = bytes(d, sums),
                       .visible = visible_pairs(d)};
}

attend_status attend_plan_cost(const attend_plan *plan, attend_cost *cost) {
  *cost = cost_of(&plan->desc, plan->engine->name, plan->engine->by_sums);
  cost->workspace_bytes = attend_plan_workspace(plan);
  return ATTEND_OK;
}

static bool is_by_sums(const attend_context *ctx, const char *name) {
  for (const attend_engine *const *e = ctx->engines; name && *e; e++)
    if (engine_is_called(*e, name)) return (*e)->by_sums;
  return false;
}

attend_status attend_desc_cost(attend_context *ctx, const attend_desc *desc, attend_cost *cost) {
  attend_desc d;
  *cost = (attend_cost){0};
  ATTEND_TRY(OPTIONS_READ(ctx, attend_desc, desc, &d));
  ATTEND_TRY(desc_complete(ctx, &d));
  *cost = cost_of(&d, d.engine, is_by_sums(ctx, d.engine));
  return ATTEND_OK;
}
