/* Cost models of the two methods for a form that has a feature map.
 *
 * Costs come from plans, and at other lengths from descriptions. Predicted times are
 * what the machine's ceilings allow at best: a predicted crossover says where the
 * operations balance, not where the kernels do. `attend bench crossover' measures that.
 */
#include "bench/cost_models.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "table.h"

enum { LONGEST = 1 << 24 };

bool has_feature_map(const attend_problem *p) {
  return p->op != ATTEND_OP_SGEMM && attend_form_features(&p->desc.form, p->desc.dim) > 0;
}

/* ---- one method ----------------------------------------------------------------------- */

static attend_problem exact_problem(const attend_problem *problem) {
  attend_problem p = *problem;
  attend_form *f = &p.desc.form;
  p.desc.engine = NULL;
  if (f->kind == ATTEND_POLY)
    p.desc.engine = "kernel-direct";
  else if (f->kind == ATTEND_GAUSSIAN)
    *f = (attend_form){.kind = ATTEND_GAUSSIAN, .sigma = f->sigma};
  else
    *f = (attend_form){.kind = ATTEND_SOFTMAX};
  return p;
}

static attend_problem linear_problem(const attend_problem *problem) {
  attend_problem p = *problem;
  p.desc.engine = "linear";
  return p;
}

static bool is_random(const attend_form *f) {
  return f->kind == ATTEND_FAVOR || f->kind == ATTEND_FOURIER || f->kind == ATTEND_GAUSSIAN;
}

static const char *growth_of(const attend_problem *p, bool linear) {
  bool decode = p->op == ATTEND_OP_DECODE, random = is_random(&p->desc.form);
  if (!linear) return decode ? "O(S (D + M))" : "O(T S (D + M))";
  if (decode) return random ? "O(C (D + M))" : "O(C M)";
  return random ? "O(T C (D + M))" : "O(T C M)";
}

/* What a state holds: keys and values, or sums. */
static double state_bytes(const attend_problem *p, bool linear) {
  const attend_desc *d = &p->desc;
  double heads = (double)d->batch * d->kv_heads;
  if (p->op != ATTEND_OP_DECODE) return 0;
  if (linear)
    return heads * (double)attend_form_features(&d->form, d->dim) * ((double)d->dim_v + 1) *
           sizeof(float);
  return heads * d->kv_len * ((double)d->dim + d->dim_v) * (double)attend_dtype_size(d->dtype);
}

/* Orthogonal directions take time to draw and cost nothing afterwards: independent
 * ones stand in for them. */
static cost_model predict(attend_context *ctx, const attend_machine *machine, attend_problem p,
                          bool linear) {
  cost_model w = {.problem = p, .growth = growth_of(&p, linear)};
  attend_cost cost = {0};
  attend_plan *plan = NULL;
  p.desc.form.draw = ATTEND_IID;
  if (attend_plan_create(ctx, &p.desc, &plan) || attend_plan_cost(plan, &cost))
    snprintf(w.refusal, sizeof w.refusal, "%s", attend_message(ctx));
  else
    snprintf(w.engine, sizeof w.engine, "%s", cost.engine);
  attend_plan_free(plan);
  w.flops = cost.flops;
  w.bytes = cost.bytes;
  w.memory = (double)cost.workspace_bytes + state_bytes(&p, linear);
  w.limit = limit_of(machine, cost.flops, cost.bytes);
  return w;
}

cost_models cost_models_of(attend_context *ctx, const attend_machine *machine,
                           const attend_problem *problem) {
  return (cost_models){predict(ctx, machine, exact_problem(problem), false),
                       predict(ctx, machine, linear_problem(problem), true)};
}

/* ---- where they cross --------------------------------------------------------------- */

attend_problem at_length(const attend_problem *problem, int n) {
  attend_problem p = *problem;
  bool square = p.op != ATTEND_OP_DECODE && p.desc.q_len == problem->desc.kv_len;
  p.desc.kv_len = n;
  if (square) p.desc.q_len = n;
  return p;
}

/* At another length; NaN where there is no such problem. */
static double predicted_s(attend_context *ctx, const attend_machine *machine, const cost_model *w,
                          int n) {
  attend_problem p = at_length(&w->problem, n);
  attend_cost cost;
  if (attend_desc_cost(ctx, &p.desc, &cost)) return NAN;
  return limit_of(machine, cost.flops, cost.bytes).predicted_s;
}

static bool linear_wins(attend_context *ctx, const attend_machine *machine, const cost_models *w,
                        int n) {
  return predicted_s(ctx, machine, &w->linear, n) < predicted_s(ctx, machine, &w->exact, n);
}

double predicted_crossover(attend_context *ctx, const attend_machine *machine,
                           const cost_models *w) {
  int few = 0, many = 1;
  if (!*w->exact.engine || !*w->linear.engine) return NAN;
  while (!linear_wins(ctx, machine, w, many)) {
    if (many == LONGEST) return NAN;
    few = many;
    many *= 2;
  }
  while (many - few > 1) {
    int middle = few + (many - few) / 2;
    if (linear_wins(ctx, machine, w, middle))
      many = middle;
    else
      few = middle;
  }
  return many;
}

void warn_if_slower(attend_context *ctx, const attend_machine *machine,
                    const attend_problem *problem, const char *engine) {
  if (strcmp(engine, "linear") || !has_feature_map(problem)) return;
  cost_models w = cost_models_of(ctx, machine, problem);
  double exact = w.exact.limit.predicted_s, linear = w.linear.limit.predicted_s;
  if (!*w.exact.engine || !(exact > 0 && exact < linear)) return;
  double n = predicted_crossover(ctx, machine, &w);
  char text[256], slow[32], fast[32], from[64] = "at no length";
  attend_problem_print(problem, text, sizeof text);
  format_cell(CELL_SECONDS, linear, slow, sizeof slow);
  format_cell(CELL_SECONDS, exact, fast, sizeof fast);
  if (!isnan(n)) snprintf(from, sizeof from, "from n = %.0f on", n);
  complain(
      "%s: linear is predicted to take %s, %s by pairs %s: sums of features "
      "are worth it %s",
      text, slow, w.exact.engine, fast, from);
}
