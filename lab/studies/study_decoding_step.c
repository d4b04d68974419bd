/* A layer of attention that decodes: projections, cache, one step; and that its
 * steps are the attention of a whole sequence.
 *
 * Part of the study of study_decoding.c.
 */
#include "studies/study_decoding.h"

enum { FILL = ATTEND_PAGE, STREAM = 600 };

static int padded(int width) { return (width + 15) / 16 * 16; }
static int head_width(const decoder_shape *s) { return s->d / s->heads; }
static int kv_width(const decoder_shape *s) {
  return s->groups * head_width(s);
}

/* ---- making one ---------------------------------------------------------------------- */

static attend_status make_layers(study_run *r, decoder *d,
                                 const float *weights) {
  const int wide = d->shape.d, kv = kv_width(&d->shape);
  const size_t row = (size_t)wide;
  const attend_linear_part in[3] = {
      {.weight = weights, .outputs = wide},
      {.weight = weights + row * row, .outputs = kv},
      {.weight = weights + row * (row + (size_t)kv), .outputs = kv}};
  TRY(attend_linear_create(r->ctx, ATTEND_WEIGHTS_F32, wide, 3, in, &d->in));
  return attend_linear_create(r->ctx, ATTEND_WEIGHTS_F32, wide, 1, in, &d->out);
}

static attend_desc describe(const decoder_shape *s, int q_len, int kv_len) {
  return (attend_desc){.batch = s->batch,
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
  const size_t rows = (size_t)s->batch, wide = (size_t)padded(s->d);
  const size_t keys = rows * (size_t)kv_width(s) * FILL;
  TAKE(r, &d->x, rows * wide);
  TAKE(r, &d->qkv, rows * (size_t)padded(s->d + 2 * kv_width(s)));
  TAKE(r, &d->o, rows * wide);
  TAKE(r, &d->y, rows * wide);
  TAKE(r, &d->keys, keys);
  study_normal(r, STREAM, 0, rows * wide, d->x);
  study_normal(r, STREAM + 1, 0, keys, d->keys);
  return ATTEND_OK;
}

attend_status decoder_open(study_run *r, decoder_shape shape,
                           const float *weights, decoder *d) {
  *d = (decoder){.shape = shape};
  if (shape.d % shape.heads || shape.heads % shape.groups)
    return study_fail(r, ATTEND_INVALID,
                      "%d heads of d = %d with %d of keys: each must divide "
                      "the one before",
                      shape.heads, shape.d, shape.groups);
  const attend_desc desc = describe(&shape, FILL, 0);
  TRY(make_memory(r, d));
  TRY(make_layers(r, d, weights));
  TRY(attend_plan_create(r->ctx, &desc, &d->plan));
  return attend_state_create(d->plan, &d->state);
}

void decoder_close(decoder *d) {
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

attend_status decoder_step(decoder *d) {
  const decoder_shape *s = &d->shape;
  const int wide = padded(s->d), ld = padded(s->d + 2 * kv_width(s));
  float *k = d->qkv + s->d, *v = k + kv_width(s);
  attend_linear_forward(d->in, s->batch, d->x, wide, d->qkv, ld);
  TRY(attend_extend(d->plan, d->state, 1, token_view(d, d->qkv, ld),
                    token_view(d, k, ld), token_view(d, v, ld),
                    token_view(d, d->o, wide), NULL));
  attend_linear_forward(d->out, s->batch, d->o, wide, d->y, wide);
  return ATTEND_OK;
}

attend_status decoder_fill(decoder *d, int n) {
  for (int b = 0; b < d->shape.batch; b++)
    if (attend_state_length(d->state, b) > n)
      TRY(attend_state_truncate(d->state, b, n));
  for (int64_t at; (at = attend_state_length(d->state, 0)) < n;)
    TRY(attend_state_append(d->plan, d->state,
                            n - at < FILL ? (int)(n - at) : FILL,
                            attend_bhtd(d->keys), attend_bhtd(d->keys)));
  return ATTEND_OK;
}

attend_status decoder_time(decoder *d, int n, int steps, double *seconds) {
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

attend_status decoder_count(study_run *r, const decoder *d, int n,
                            decoder_cost *cost) {
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
  cost->tokens =
      4.0 * d->shape.batch * (3.0 * d->shape.d + attend_linear_outputs(d->in));
  return ATTEND_OK;
}

/* ---- the same in other ways ---------------------------------------------------------------- */

static double differing(const float *a, const float *b, size_t n) {
  size_t count = 0;
  while (n-- > 0) count += memcmp(a++, b++, sizeof *a) != 0;
  return (double)count;
}

enum { WHOLE = 40 };

typedef struct {
  decoder *d;
  float *tokens; /* [WHOLE][wide]: one sequence           */
  float *qkv;    /* of all of them                        */
  float *o[2];   /* [WHOLE][wide]: at once, and by steps  */
} comparison;

/* All tokens at once: keys of group 0 for every head, if shared. */
static attend_status at_once(study_run *r, const comparison *c, bool shared,
                             float *o) {
  const decoder_shape *s = &c->d->shape;
  const int wide = padded(s->d), ld = padded(s->d + 2 * kv_width(s));
  const ptrdiff_t k = head_width(s), kv_step = shared ? 0 : k;
  attend_desc desc = describe(s, WHOLE, WHOLE);
  desc.purpose = 0;
  if (shared) desc.kv_heads = desc.heads;
  attend_plan *plan;
  TRY(attend_plan_create(r->ctx, &desc, &plan));
  attend_status status = attend_forward(
      plan, (attend_view){c->qkv, {(ptrdiff_t)WHOLE * ld, k, ld, 1}},
      (attend_view){c->qkv + s->d, {(ptrdiff_t)WHOLE * ld, kv_step, ld, 1}},
      (attend_view){c->qkv + s->d + kv_width(s),
                    {(ptrdiff_t)WHOLE * ld, kv_step, ld, 1}},
      (attend_view){o, {(ptrdiff_t)WHOLE * wide, k, wide, 1}}, NULL);
  attend_plan_free(plan);
  return status;
}

static attend_status compare(study_run *r, comparison *c) {
  decoder *d = c->d;
  const decoder_shape *s = &d->shape;
  const int wide = padded(s->d), ld = padded(s->d + 2 * kv_width(s));
  const size_t size = (size_t)WHOLE * (size_t)wide;
  attend_linear_forward(d->in, WHOLE, c->tokens, wide, c->qkv, ld);
  TRY(at_once(r, c, false, c->o[0]));
  for (size_t i = 0; i < WHOLE; i++) {
    memcpy(d->x, c->tokens + i * (size_t)wide, (size_t)wide * sizeof(float));
    TRY(decoder_step(d));
    memcpy(c->o[1] + i * (size_t)wide, d->o, (size_t)wide * sizeof(float));
  }
  TRY(study_claim(r, study_format(r, "steps-g%d", s->groups),
                  study_format(r,
                               "%d kv heads: results of steps with other bits "
                               "than at once",
                               s->groups),
                  differing(c->o[0], c->o[1], size), 0, 0));
  if (s->groups != 1) return ATTEND_OK;
  TRY(at_once(r, c, true, c->o[1]));
  return study_claim(r, "shared",
                     "MQA: results with other bits than MHA's on repeated keys",
                     differing(c->o[0], c->o[1], size), 0, 0);
}

attend_status decoder_equalities(study_run *r, decoder_shape shape,
                                 const float *weights) {
  decoder d;
  comparison c = {.d = &d};
  const size_t wide = (size_t)padded(shape.d);
  shape.batch = 1;
  TAKE(r, &c.tokens, WHOLE * wide);
  TAKE(r, &c.qkv, WHOLE * 3 * wide);
  for (int i = 0; i < 2; i++) TAKE(r, &c.o[i], WHOLE * wide);
  study_normal(r, STREAM + 2, 0, WHOLE * wide, c.tokens);
  attend_status status = decoder_open(r, shape, weights, &d);
  if (!status) status = compare(r, &c);
  decoder_close(&d);
  return status;
}

/* ---- the scale ------------------------------------------------------------------------------- */

enum { QUERIES = 32, KEYS = 256 };

/* Mean entropy of the weights of normal queries on normal keys, in nats. */
static attend_status entropy_at(study_run *r, int width, float scale,
                                double *entropy) {
  const attend_desc d = {
      .q_len = QUERIES, .kv_len = KEYS, .dim = width, .scale = scale};
  float *k = NULL, *o = NULL, lse[QUERIES], each[QUERIES];
  const attend_observation look = {.entropy = each};
  attend_plan *plan;
  TAKE(r, &k, KEYS * 2 * (size_t)width);
  TAKE(r, &o, QUERIES * (size_t)width);
  study_normal(r, STREAM + 3, 0, KEYS * 2 * (size_t)width, k);
  const attend_view q = attend_bhtd(k + KEYS * (size_t)width);
  TRY(attend_plan_create(r->ctx, &d, &plan));
  attend_status status = attend_forward(plan, q, attend_bhtd(k), attend_bhtd(k),
                                        attend_bhtd(o), lse);
  if (!status) status = attend_observe(plan, q, attend_bhtd(k), lse, &look);
  attend_plan_free(plan);
  *entropy = 0;
  for (int i = 0; i < QUERIES; i++) *entropy += (double)each[i] / QUERIES;
  return status;
}

attend_status decoder_scaling(study_run *r, int width) {
  double scaled, plain;
  TRY(entropy_at(r, width, 0, &scaled));
  TRY(entropy_at(r, width, 1, &plain));
  return study_say(
      r,
      "The document's logits are not divided by √k; the library's are. For "
      "normal queries on %d normal keys of width %d the weights have an "
      "entropy of %.3g nats when divided, %.3g when not, and ln %d = %.3g at "
      "most.",
      KEYS, width, scaled, plain, KEYS, log(KEYS));
}
