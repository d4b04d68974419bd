/* Poly and gaussian give the same bits on any number of threads and in any
 * cutting of what is fed to a state. */
#include "saved_outputs.h"

static attend_tensors tensors_of(attend_context *ctx, const char *text, uint64_t seed) {
  attend_tensors t = make_tensors(ctx, text, seed);
  t.desc.engine = "kernel-direct";
  return t;
}

TEST(threads_do_not_matter) {
  const char *const split[] = {
      "poly(p=3,a=0.1):b1h4g1n3x9000d16",         "poly(p=2):b2h4g2n150x300d24v40:bf16:bwd",
      "gaussian:b1h4g1n3x9000d16:bf16",           "gaussian:b2h4g2n150x300d24v40:alibi:bwd",
      "gaussian(sigma=0.5):b1h4g1n3x9000d16:f16", "gaussian(sigma=0.5):b2h4g2n150x300d8:bwd"};
  FOR_EACH_ISA(isa)
  for (int p = 0; p < 6; p++) {
    attend_context *ctx = open_context(isa, 1, NULL);
    attend_tensors t = tensors_of(ctx, split[p], 66);
    outcome one = outcome_of(ctx, &t);
    for (int threads = 2; threads < 8; threads += light() ? 5 : 2) {
      attend_context_set_threads(ctx, threads);
      outcome more = outcome_of(ctx, &t);
      CHECK_SAME(one, more, split[p]);
      outcome_free(&more);
    }
    outcome_free(&one);
    attend_tensors_free(ctx, &t);
    attend_context_free(ctx);
  }
}

/* Rows [at, at + n) of a contiguous [1,H,length,width]. */
static attend_view rows_from(attend_view whole, const attend_desc *d, int width, int at) {
  ptrdiff_t head = (ptrdiff_t)d->q_len * width;
  size_t size = attend_dtype_size(d->dtype);
  return (attend_view){(char *)whole.data + (size_t)(at * width) * size, {0, head, width, 1}};
}

/* Batch 1; returns o, lse and the entropy that the state gives. */
static outcome fed(attend_context *ctx, const attend_tensors *t, int chunk) {
  attend_desc d = t->desc;
  outcome out = {{0}, {0}};
  d.mask.causal = ATTEND_CAUSAL_BOTTOM;
  d.purpose = ATTEND_FOR_EXTEND;
  attend_plan *plan = make_plan(ctx, &d);
  attend_state *state;
  OK(ctx, attend_state_create(plan, &state));
  size_t H = (size_t)d.heads, T = (size_t)d.q_len;
  float *lse = zeroed_block(H * T, 4), *all = zeroed_block(H * T, 4);
  float *entropy = zeroed_block(H * T, 4), *some = zeroed_block(H * T, 4);
  for (int at = 0, n; at < d.q_len; at += n) {
    n = d.q_len - at < chunk ? d.q_len - at : chunk;
    attend_view q = rows_from(t->q, &t->desc, d.dim, at);
    OK(ctx, attend_extend(plan, state, n, q, rows_from(t->k, &t->desc, d.dim, at),
                          rows_from(t->v, &t->desc, d.dim_v, at),
                          rows_from(t->o, &t->desc, d.dim_v, at), lse));
    attend_observation look = {ATTEND_INIT(attend_observation), .entropy = some};
    OK(ctx, attend_state_observe(plan, state, n, q, lse, &look));
    for (size_t i = 0; i < H * (size_t)n; i++) {
      size_t to = i / (size_t)n * T + (size_t)at + i % (size_t)n;
      all[to] = lse[i], entropy[to] = some[i];
    }
  }
  outcome_keep(&out, OUT_O, t->o.data, rows_of(&d) * (size_t)d.dim_v, attend_dtype_size(d.dtype));
  outcome_keep(&out, OUT_LSE, all, H * T, 4);
  outcome_keep(&out, OUT_DBIAS, entropy, H * T, 4);
  free(lse), free(all), free(entropy), free(some);
  attend_state_free(state);
  attend_plan_free(plan);
  return out;
}

TEST(fed_in_pieces) {
  const char *const causal[] = {"poly(p=2):h4g2n300d24v40:causal",
                                "poly(p=3,a=0.1,c=-2):h4g1n300d16:causal:window=33:f16",
                                "poly(p=7,a=0.1,c=1):h2n300d17v9:causal:bf16",
                                "gaussian:h4g2n300d24v40:causal",
                                "gaussian:h2n300d17v9:causal:alibi:bf16",
                                "gaussian:h4g1n300d16:causal:window=33:f16",
                                "gaussian(sigma=0.5):h4g2n300d8v9:causal",
                                "gaussian(sigma=0.5):h2n300d17:causal:buckets1:bf16"};
  const int chunks[] = {1, 7, 64, 97, 300};
  FOR_EACH_ISA(isa)
  for (int p = 0; p < 8; p++) {
    attend_context *ctx = open_context(isa, 2, NULL);
    attend_tensors t = tensors_of(ctx, causal[p], 67);
    outcome whole = outcome_of(ctx, &t);
    attend_plan *plan = make_plan(ctx, &t.desc);
    float *entropy = zeroed_block(rows_of(&t.desc), 4);
    attend_observation look = {ATTEND_INIT(attend_observation), .entropy = entropy};
    OK(ctx, attend_observe(plan, t.q, t.k, t.lse, &look));
    outcome_keep(&whole, OUT_DBIAS, entropy, rows_of(&t.desc), 4);
    for (int n = light() ? 1 : 0; n < 5; n++) {
      outcome pieces = fed(ctx, &t, chunks[n]);
      CHECK_SAME(whole, pieces, causal[p]);
      outcome_free(&pieces);
    }
    free(entropy);
    attend_plan_free(plan);
    outcome_free(&whole);
    attend_tensors_free(ctx, &t);
    attend_context_free(ctx);
  }
}
