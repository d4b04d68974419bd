/* Engines on blocks whose elements lie in pairs, as AMX takes bf16, where there
 * is no AMX: plain loops stand in for its kernels, in its layouts, with its
 * number of keys, weights rounded to bf16, and overlap. */
#include "attention/engine.h"
#include "saved_outputs.h"

enum { ROWS = 32, KEYS = 128, STEP = 32 };

/* ---- kernels in plain loops ------------------------------------------------------ */

static int wide(int width) { return (int)round_up((size_t)width, STEP); }

static void nothing(void) {}

static size_t query_bytes(int n, int width) {
  (void)n;
  return ROWS * (size_t)wide(width) * sizeof(float);
}

static void pack_queries(const float *rows, int ld, int n, int width, void *dst) {
  float *out = dst;
  memset(dst, 0, query_bytes(n, width));
  for (int r = 0; r < n; r++)
    memcpy(out + r * wide(width), rows + r * ld, (size_t)width * sizeof *out);
}

static uint16_t element(source src, const uint8_t *valid, int i, int x) {
  if (valid && !valid[i]) return 0;
  return ((const uint16_t *)src.data)[i * src.row + x * src.col];
}

static void pack_keys(source src, const uint8_t *valid, int n, int width, void *dst) {
  int whole = (int)round_up((size_t)n, LANES);
  memset(dst, 0, (size_t)(whole * wide(width)) * 2);
  for (int i = 0; i < n; i++)
    for (int x = 0; x < width; x++)
      ((uint16_t *)dst)[panel_key_at(2, wide(width), i, x)] = element(src, valid, i, x);
}

static bool pack_values(source src, const uint8_t *valid, int n, int width, void *dst, int ld) {
  int whole = (int)round_up((size_t)n, STEP);
  bool finite = true;
  memset(dst, 0, (size_t)(whole * ld) * 2);
  for (int i = 0; i < n; i++)
    for (int x = 0; x < width; x++) {
      uint16_t e = element(src, valid, i, x);
      ((uint16_t *)dst)[panel_value_at(2, ld, i, x)] = e;
      finite &= (e & 0x7f80) != 0x7f80;
    }
  return finite;
}

static float key_at(const void *k, int width, int i, int x) {
  return bf16_to_float(((const uint16_t *)k)[panel_key_at(2, wide(width), i, x)]);
}

static float longest(int n, int width, const void *k) {
  float top = 0;
  for (int i = 0; i < n; i++) {
    float sum = 0;
    for (int x = 0; x < width; x++) sum += key_at(k, width, i, x) * key_at(k, width, i, x);
    if (sum > top) top = sum;
  }
  return top;
}

static void scores(int rows, int width, const void *q, const void *k, int j0, int j1, float *s) {
  for (int r = 0; r < rows; r++)
    for (int j = j0; j < j1; j++) {
      double sum = 0;
      for (int x = 0; x < width; x++)
        sum += (double)((const float *)q)[r * wide(width) + x] * (double)key_at(k, width, j, x);
      s[r * BLOCK + j] = (float)sum;
    }
}

static size_t weights_at(int row) { return (size_t)row * KEYS / 2; }

/* The least integer not below the row's scores; 0 where it sees nothing. */
static float top_of(const struct block_soft *x, const float *s) {
  float top = -INFINITY;
  for (int j = x->j0; j < x->j1; j++) top = fmaxf(top, s[j] * x->factor);
  return top > -INFINITY ? ceilf(top) : 0;
}

static void join(const struct block_soft *x, int r, float block_m, double cut, double whole) {
  float joint = fmaxf(x->m[r], block_m), *l = x->l + 2 * r;
  x->alpha[r] = x->m[r] == -INFINITY ? 0 : exp2f(x->m[r] - joint);
  x->beta[r] = block_m == -INFINITY ? 0 : exp2f(block_m - joint);
  x->m[r] = joint;
  l[0] = l[0] * x->alpha[r] + (float)cut * x->beta[r];
  l[1] = l[1] * x->alpha[r] + (float)whole * x->beta[r];
}

static void soft_row(const struct block_soft *x, int r) {
  uint16_t *p = (uint16_t *)x->p + 2 * weights_at(r);
  const float *s = x->s + r * BLOCK;
  double top = top_of(x, s), cut = 0, whole = 0;
  for (int j = x->j0; j < x->j1; j++) {
    double w = exp2((double)s[j] * (double)x->factor - top);
    p[j] = bf16_from_float((float)w);
    cut += (double)bf16_to_float(p[j]), whole += w;
  }
  join(x, r, cut == 0 ? -INFINITY : (float)top, cut, whole);
}

static void softmax(const struct block_soft *x) {
  for (int r = 0; r < x->rows; r++) soft_row(x, r);
}

static void weigh(int rows, int j0, int j1, const void *p, const void *const *v, int ld,
                  const float *alpha, const float *beta, float *o) {
  for (int r = 0; r < rows; r++)
    for (int c = 0; c < ld; c++) {
      double sum = 0;
      for (int j = j0; j < j1; j++) {
        const uint16_t *panel = v[j / PANEL];
        const uint16_t *w = (const uint16_t *)p + 2 * weights_at(r);
        sum += (double)bf16_to_float(w[j]) *
               (double)bf16_to_float(panel[panel_value_at(2, ld, j % PANEL, c)]);
      }
      o[r * ld + c] = o[r * ld + c] * alpha[r] + (float)sum * beta[r];
    }
}

static void overlap(const struct block_soft *soft, const struct block_products *ride) {
  if (soft) softmax(soft);
  for (int j = 0; ride->q && j < KEYS; j += PANEL)
    scores(ROWS, ride->width, ride->q, ride->k[j / PANEL], 0, PANEL, ride->s + j);
  if (ride->p) weigh(ROWS, 0, KEYS, ride->p, ride->v, ride->ld, ride->alpha, ride->beta, ride->o);
}

static const struct block_kernels pairs = {
    .rows = ROWS,
    .keys = KEYS,
    .pair = 2,
    .step = STEP,
    .begin = nothing,
    .end = nothing,
    .query_bytes = query_bytes,
    .pack_queries = pack_queries,
    .pack_keys = pack_keys,
    .pack_values = pack_values,
    .longest = longest,
    .scores = scores,
    .softmax = softmax,
    .weights_at = weights_at,
    .weigh = weigh,
    .overlap = overlap,
};

static struct kernels standing_in;

static attend_context *open_pairs(int threads) {
  attend_context *ctx = open_context(NULL, threads, NULL);
  standing_in = *ctx->kernels;
  standing_in.block[ATTEND_BF16] = &pairs;
  ctx->kernels = &standing_in;
  return ctx;
}

/* ---- against the definition --------------------------------------------------------- */

/* Weights are rounded to bf16, so a tolerance of a few 2^-9 of the values. */
TEST(as_the_definition) {
  const char *const problems[] = {"softmax:b2h4g2n70x300d24v40:bf16",
                                  "gaussian:b2h4g2n70x300d24v40:bf16",
                                  "gaussian:b1h6g1n65d17v9:causal:window=33:bf16",
                                  "gaussian:b2h2n150x257d64:padleft:alibi:bf16",
                                  "gaussian(sigma=0.5):b2h2n70x300d9:bottom:bf16",
                                  "poly(p=3,a=0.1,c=-2):b2h4g2n70x300d24v40:bf16"};
  for (int p = 0; p < 6; p++) {
    attend_context *ctx = open_pairs(2);
    attend_tensors t = make_tensors(ctx, problems[p], 71);
    const attend_desc *d = &t.desc;
    size_t n = rows_of(d) * (size_t)d->dim_v;
    double *o = zeroed_block(n, 8), *lse = zeroed_block(rows_of(d), 8);
    outcome got = outcome_of(ctx, &t);
    OK(ctx, attend_definition_forward(ctx, d, t.q, t.k, t.v, o, lse));
    float *wide_o = widened(ATTEND_BF16, got.part[OUT_O], n);
    for (size_t i = 0; i < n; i++) CHECK_NEAR(wide_o[i], o[i], 0x1p-8 * (fabs(o[i]) + 1));
    for (size_t i = 0; i < rows_of(d); i++)
      CHECK_NEAR(((float *)got.part[OUT_LSE])[i], lse[i], 3e-6 * (1 + fabs(lse[i])));
    free(o), free(lse), free(wide_o);
    outcome_free(&got);
    attend_tensors_free(ctx, &t);
    attend_context_free(ctx);
  }
}

/* ---- states in pairs ------------------------------------------------------------------ */

static attend_view rows_from(attend_view whole, const attend_desc *d, int width, int at) {
  ptrdiff_t head = (ptrdiff_t)d->q_len * width;
  return (attend_view){(char *)whole.data + (size_t)(at * width) * 2, {0, head, width, 1}};
}

static void feed(attend_context *ctx, const attend_tensors *t, int chunk, char *o) {
  attend_desc d = t->desc;
  d.mask.causal = ATTEND_CAUSAL_BOTTOM;
  d.purpose = ATTEND_FOR_EXTEND;
  attend_plan *plan = make_plan(ctx, &d);
  attend_state *state;
  OK(ctx, attend_state_create(plan, &state));
  for (int at = 0, n; at < d.q_len; at += n) {
    n = d.q_len - at < chunk ? d.q_len - at : chunk;
    OK(ctx,
       attend_extend(plan, state, n, rows_from(t->q, &t->desc, d.dim, at),
                     rows_from(t->k, &t->desc, d.dim, at), rows_from(t->v, &t->desc, d.dim_v, at),
                     rows_from(attend_bhtd(o), &t->desc, d.dim_v, at), NULL));
  }
  attend_state_free(state);
  attend_plan_free(plan);
}

/* Pages lie in pairs; poly and a narrow gaussian want lanes of f32 from them. */
TEST(fed_in_pieces) {
  const char *const problems[] = {"softmax:h4g2n300d24v40:causal:bf16",
                                  "gaussian:h4g2n300d17v9:causal:window=33:bf16",
                                  "gaussian(sigma=0.5):h4g2n300d17v9:causal:bf16",
                                  "gaussian(sigma=0.5):h2n300d64:causal:alibi:bf16",
                                  "poly(p=3,a=0.1,c=2):h4g1n300d17v40:causal:bf16",
                                  "poly(p=2):h2n300d1v1:causal:window=70:bf16"};
  const int chunks[] = {1, 37, 64, 300};
  for (int p = 0; p < 6; p++) {
    attend_context *ctx = open_pairs(2);
    attend_tensors t = make_tensors(ctx, problems[p], 72);
    if (p) t.desc.engine = "kernel-direct";
    outcome whole = outcome_of(ctx, &t);
    for (int c = light() ? 1 : 0; c < 4; c++) {
      char *o = zeroed_block(whole.bytes[OUT_O], 1);
      feed(ctx, &t, chunks[c], o);
      if (memcmp(o, whole.part[OUT_O], whole.bytes[OUT_O]))
        CHECK_FAIL("%s in pieces of %d has other bits", problems[p], chunks[c]);
      free(o);
    }
    outcome_free(&whole);
    attend_tensors_free(ctx, &t);
    attend_context_free(ctx);
  }
}

/* What takes kernels of f32 anyway does not notice. */
TEST(forms_of_f32_have_their_bits) {
  const char *const problems[] = {"poly(p=3,a=0.1,c=2):b2h4g1n70x300d17v40:bf16:bwd",
                                  "gaussian(sigma=0.5):b2h4g2n70x300d17v9:bf16:bwd"};
  for (int p = 0; p < 2; p++) {
    attend_context *plain = open_context(NULL, 2, NULL), *ctx = open_pairs(2);
    attend_tensors t = make_tensors(ctx, problems[p], 73);
    t.desc.engine = "kernel-direct";
    outcome a = outcome_of(plain, &t), b = outcome_of(ctx, &t);
    CHECK_SAME(a, b, problems[p]);
    outcome_free(&a);
    outcome_free(&b);
    attend_tensors_free(ctx, &t);
    attend_context_free(ctx);
    attend_context_free(plain);
  }
}
