/* Poly and gaussian, pair by pair: exact, memory linear in length. The plan's choice for
 * gaussian without random features, and for poly where its feature map would cost more.
 *
 * They use the tiles of softmax.c; only the step from scores to weights differs.
 *
 *   gaussian  -|q - k|^2 / 2 = q.k - |k|^2 / 2 - |q|^2 / 2: a softmax of scale
 *             1 / sigma^2 with a bias for each key (block_norms). The last term
 *             cancels in every weight and is taken from lse at the end. A narrow
 *             gaussian weighs keys near the query, where these terms are large
 *             and their sum is small: it is computed from q - k
 *             (by_differences), at half the speed of the products.
 *   poly      (a q.k + c)^p, with no exponential and no maximum. Weights may be
 *             negative, so l is a plain sum, m is 0 from the first block on, and
 *             lse is the denominator. In bf16 it uses the f32 kernels: weights
 *             that cancel need the precision.
 */
#include <math.h>

#include "attention/engine.h"
#include "attention/tile.h"

static const char *applicable(const attend_desc *d) {
  if (d->form.kind == ATTEND_GAUSSIAN)
    return d->form.features > 0 ? "the form has random features: the linear engine supports it"
                                : NULL;
  if (d->form.kind != ATTEND_POLY) return "the form is not poly or gaussian";
  if (d->bias.kind == ATTEND_NO_BIAS) return NULL;
  return "biases multiply poly's weights: the definition supports them";
}

/* At softmax's own width, dim^(1/4), and beyond, rounding in the norms is what
 * it is in softmax's scores at their usual scale. */
static bool is_narrow(const attend_desc *d) {
  double square = (double)d->form.sigma * (double)d->form.sigma;
  return square < 0.99 * sqrt((double)d->dim);
}

static void size(attend_plan *p) {
  bool poly = p->desc.form.kind == ATTEND_POLY;
  p->by_differences = !poly && is_narrow(&p->desc);
  if (poly || p->by_differences) p->fast = p->kn->block[ATTEND_F32];
  softmax_size(p);
}

const attend_engine engine_direct = {
    .name = "kernel-direct",
    .states = &state_kv_cache,
    .applicable = applicable,
    .cost = flops_of_pairs,
    .size = size,
    .forward = softmax_forward,
    .backward = softmax_backward,
    .observe = observe_tiled,
};
