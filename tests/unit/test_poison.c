/* What is masked is never read: NaN and infinity there change no bit, and rows
 * that see nothing are zero whatever their own numbers are. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include <sys/mman.h>
#include <unistd.h>

#include "saved_outputs.h"

/* ---- masked keys ------------------------------------------------------ */

static const char *const problems[] = {
    "softmax:b3h4g2n70x150d16v24:bottom:window=20:bwd",
    "softmax:b3h2n40x150d16:top:bwd",
    "softmax:b3h4g1n33x300d16:lengths:bwd",
    "softmax:b2h2n65x280d17v9:padleft:alibi:bwd",
    "softmax:b2h2n65x280d17v9:padright:bf16:bwd",
    "softmax:b2h2n30x90d8:window=12:f16:buckets:bwd",
    "softmax:b2h2n30x90d8:lengths:dense:bwd",
    "softmax:b2h4g2n70x150d16:bottom:window=20:alibi:cap=2:bwd",
    "argmax:b3h2n40x150d16:lengths:bwd",
    "argmax(ties=average):b2h4g2n40x150d16:padleft:f16:bwd",
    "argmax(t=0.3):b2h2n40x150d16:top:window=9:bwd",
    "gaussian:b2h2n20x40d8:lengths:bwd",
    "poly(p=2):b2h2n20x40d8:padleft:bwd",
};
enum { PROBLEMS = sizeof problems / sizeof *problems };

static int seen_by_any(const attend_desc *d, int b, int j) {
  for (int i = 0; i < d->q_len; i++)
    if (attend_visible(d, b, i, j)) return 1;
  return 0;
}

/* Every key and value that no query sees becomes this; how many there are. */
static int spoil_unseen(const attend_tensors *t, float with) {
  const attend_desc *d = &t->desc;
  int spoiled = 0;
  for (size_t n = 0; n < keys_of(d); n++) {
    int b = (int)(n / (size_t)(d->kv_heads * d->kv_len));
    if (seen_by_any(d, b, (int)(n % (size_t)d->kv_len))) continue;
    size_t D = (size_t)d->dim, M = (size_t)d->dim_v;
    put_all(d->dtype, t->k.data, n * D, D, with);
    put_all(d->dtype, t->v.data, n * M, M, with);
    spoiled++;
  }
  return spoiled;
}

typedef struct {
  float *weights, *top_weight, *entropy, *mass;
  int32_t *top_index;
} glance;
enum { TOP = 5 };
static const int32_t some_rows[3] = {0, 7, 19};

/* Everything that can be asked, after a forward pass left its lse. */
static glance observe_with(attend_context *ctx, const attend_tensors *t) {
  size_t heads = (size_t)(t->desc.batch * t->desc.heads);
  size_t S = (size_t)t->desc.kv_len, rows = rows_of(&t->desc);
  glance g = {zeroed_block(heads * 3 * S, 4), zeroed_block(rows * TOP, 4), zeroed_block(rows, 4),
              zeroed_block(heads * S, 4), zeroed_block(rows * TOP, 4)};
  attend_observation look = {ATTEND_INIT(attend_observation),
                             .rows = some_rows,
                             .n_rows = 3,
                             .weights = g.weights,
                             .top = TOP,
                             .top_index = g.top_index,
                             .top_weight = g.top_weight,
                             .entropy = g.entropy,
                             .mass = g.mass};
  attend_plan *plan = make_plan(ctx, &t->desc);
  attend_status status = attend_observe(plan, t->q, t->k, t->lse, &look);
  CHECK(!status || !strcmp(attend_plan_engine(plan), "definition"));
  attend_plan_free(plan);
  return g;
}

static void glance_free(glance *g) {
  free(g->weights), free(g->top_weight), free(g->entropy), free(g->mass);
  free(g->top_index);
}

static void check_same_glance(const attend_tensors *t, const glance *a, const glance *b) {
  size_t heads = (size_t)(t->desc.batch * t->desc.heads);
  size_t S = (size_t)t->desc.kv_len, rows = rows_of(&t->desc);
  CHECK(!memcmp(a->weights, b->weights, heads * 3 * S * 4));
  CHECK(!memcmp(a->top_index, b->top_index, rows * TOP * 4));
  CHECK(!memcmp(a->top_weight, b->top_weight, rows * TOP * 4));
  CHECK(!memcmp(a->entropy, b->entropy, rows * 4));
  CHECK(!memcmp(a->mass, b->mass, heads * S * 4));
}

static void check_finite(const attend_tensors *t, const outcome *out, const char *name) {
  for (int n = OUT_DQ; n < OUT_PARTS; n++) {
    if (!out->part[n]) continue;
    attend_dtype dtype = n == OUT_DBIAS ? ATTEND_F32 : t->desc.dtype;
    size_t count = out->bytes[n] / attend_dtype_size(dtype);
    float *x = widened(dtype, out->part[n], count);
    for (size_t i = 0; i < count; i++)
      if (!isfinite(x[i])) {
        CHECK_FAIL("%s: part %d is not finite", name, n);
        break;
      }
    free(x);
  }
}

TEST(masked_keys_and_values_are_never_read) {
  const float poisons[] = {NAN, INFINITY, -INFINITY};
  FOR_EACH_ISA(isa)
  for (int p = 0; p < PROBLEMS; p++) {
    attend_context *ctx = open_context(isa, 2, NULL);
    attend_tensors t = make_tensors(ctx, problems[p], 31);
    CHECK(spoil_unseen(&t, 0) > 0);
    outcome clean = outcome_of(ctx, &t);
    glance seen = observe_with(ctx, &t);
    check_finite(&t, &clean, problems[p]);
    for (int n = 0; n < 3; n++) {
      spoil_unseen(&t, poisons[n]);
      outcome out = outcome_of(ctx, &t);
      glance again = observe_with(ctx, &t);
      CHECK_SAME(clean, out, problems[p]);
      check_same_glance(&t, &seen, &again);
      outcome_free(&out);
      glance_free(&again);
    }
    outcome_free(&clean);
    glance_free(&seen);
    attend_tensors_free(ctx, &t);
    attend_context_free(ctx);
  }
}

/* ---- keys that some rows see ------------------------------------------------------- */

static const char *const shared[] = {
    "softmax:b1h4g2n150d16v24:causal:bwd",
    "softmax:b1h4g2n90x300d16:bottom:bf16:bwd",
    "softmax:b1h2n150d16:window=9:bwd",
    "argmax:b1h2n150d16:causal:bwd",
    "argmax(ties=average):b1h2n150d16:causal:window=20:f16:bwd",
};
enum { SHARED = sizeof shared / sizeof *shared };

/* Row i keeps its bits in o, lse and dq when a masked key is
 * poisoned; a row that sees the key must change. */
static void check_rows(const attend_desc *d, int poisoned, const outcome *clean, const outcome *out,
                       const char *name) {
  size_t size = attend_dtype_size(d->dtype);
  size_t o_row = (size_t)d->dim_v * size, q_row = (size_t)d->dim * size;
  int noticed = 0;
  for (size_t r = 0; r < rows_of(d); r++) {
    int i = (int)(r % (size_t)d->q_len);
    int same = !memcmp(clean->part[OUT_O] + r * o_row, out->part[OUT_O] + r * o_row, o_row) &&
               !memcmp(clean->part[OUT_LSE] + r * 4, out->part[OUT_LSE] + r * 4, 4);
    if (attend_visible(d, 0, i, poisoned)) {
      noticed += !same;
      continue;
    }
    if (!same) CHECK_FAIL("%s: key %d reaches row %d", name, poisoned, i);
    if (memcmp(clean->part[OUT_DQ] + r * q_row, out->part[OUT_DQ] + r * q_row, q_row))
      CHECK_FAIL("%s: key %d reaches dq of row %d", name, poisoned, i);
  }
  CHECK(noticed > 0);
}

static void spoil_key(const attend_tensors *t, int j, int keys, int values, float with) {
  const attend_desc *d = &t->desc;
  size_t D = (size_t)d->dim, M = (size_t)d->dim_v;
  for (size_t g = 0; g < (size_t)d->kv_heads; g++) {
    size_t at = g * (size_t)d->kv_len + (size_t)j;
    if (keys) put_all(d->dtype, t->k.data, at * D, D, with);
    if (values) put_all(d->dtype, t->v.data, at * M, M, with);
  }
}

TEST(a_wild_key_reaches_only_rows_that_see_it) {
  FOR_EACH_ISA(isa)
  for (int p = 0; p < SHARED; p++)
    for (int kind = 0; kind < 4; kind++) {
      attend_context *ctx = open_context(isa, 2, NULL);
      attend_tensors t = make_tensors(ctx, shared[p], 32);
      int poisoned = t.desc.kv_len - 1 - kind * 17;
      outcome clean = outcome_of(ctx, &t);
      spoil_key(&t, poisoned, kind != 1, kind != 0, kind == 3 ? INFINITY : NAN);
      outcome out = outcome_of(ctx, &t);
      if (strncmp(shared[p], "argmax", 6) || kind != 1)
        check_rows(&t.desc, poisoned, &clean, &out, shared[p]);
      outcome_free(&clean);
      outcome_free(&out);
      attend_tensors_free(ctx, &t);
      attend_context_free(ctx);
    }
}

/* ---- rows that see nothing ----------------------------------------------------------- */

static const char *const dying[] = {
    "softmax:b1h4g2n80x20d8v12:bottom:bwd",      "softmax:b3h2n40x70d8:lengths:bottom:bwd",
    "softmax:b1h2n40x11d8:window=4:bf16:bwd",    "argmax:b1h2n80x20d8:bottom:bwd",
    "argmax(t=1):b1h2n80x20d8:bottom:alibi:bwd", "gaussian:b1h2n30x20d8:bottom:bwd",
};
enum { DYING = sizeof dying / sizeof *dying };

static int row_is_dead(const attend_desc *d, size_t r) {
  int b = (int)(r / (size_t)(d->heads * d->q_len));
  for (int j = 0; j < d->kv_len; j++)
    if (attend_visible(d, b, (int)(r % (size_t)d->q_len), j)) return 0;
  return 1;
}

/* Their q and d_o; how many there are. */
static int fill_dead(const attend_tensors *t, float with) {
  const attend_desc *d = &t->desc;
  size_t D = (size_t)d->dim, M = (size_t)d->dim_v;
  int dead = 0;
  for (size_t r = 0; r < rows_of(d); r++) {
    if (!row_is_dead(d, r)) continue;
    put_all(d->dtype, t->q.data, r * D, D, with);
    put_all(d->dtype, t->d_o.data, r * M, M, with);
    dead++;
  }
  return dead;
}

static void check_dead_rows(const attend_tensors *t, const outcome *out) {
  const attend_desc *d = &t->desc;
  size_t size = attend_dtype_size(d->dtype);
  static const char zeros[256];
  for (size_t r = 0; r < rows_of(d); r++) {
    if (!row_is_dead(d, r)) continue;
    size_t o = (size_t)d->dim_v * size, q = (size_t)d->dim * size;
    float lse;
    memcpy(&lse, out->part[OUT_LSE] + r * sizeof lse, sizeof lse);
    CHECK(lse == -INFINITY);
    CHECK(!memcmp(out->part[OUT_O] + r * o, zeros, o));
    CHECK(!memcmp(out->part[OUT_DQ] + r * q, zeros, q));
  }
}

TEST(rows_that_see_nothing_are_zero) {
  FOR_EACH_ISA(isa)
  for (int p = 0; p < DYING; p++) {
    attend_context *ctx = open_context(isa, 2, NULL);
    attend_tensors t = make_tensors(ctx, dying[p], 33);
    CHECK(fill_dead(&t, 0) > 0);
    outcome clean = outcome_of(ctx, &t);
    fill_dead(&t, NAN);
    outcome out = outcome_of(ctx, &t);
    check_dead_rows(&t, &out);
    check_finite(&t, &out, dying[p]);
    CHECK_SAME(clean, out, dying[p]);
    outcome_free(&clean);
    outcome_free(&out);
    attend_tensors_free(ctx, &t);
    attend_context_free(ctx);
  }
}

/* ---- states ------------------------------------------------------------------------- */

/* Padding among new keys, and rows beyond a sequence's length. */
TEST(states_do_not_read_padding) {
  const char *const padded[] = {"softmax:b3h2n100d8:causal:padleft",
                                "softmax:b3h2n100d8:causal:lengths:bf16",
                                "argmax:b3h2n100d8:causal:padright"};
  FOR_EACH_ISA(isa)
  for (int p = 0; p < 3; p++) {
    attend_context *ctx = open_context(isa, 2, NULL);
    attend_tensors t = make_tensors(ctx, padded[p], 34);
    attend_desc d = t.desc;
    d.purpose = ATTEND_FOR_EXTEND;
    d.mask.causal = ATTEND_CAUSAL_BOTTOM;
    attend_plan *plan = make_plan(ctx, &d);
    size_t bytes = rows_of(&d) * 8 * attend_dtype_size(d.dtype);
    void *before = NULL;
    for (int n = 0; n < 2; n++) {
      CHECK(spoil_unseen(&t, n ? NAN : 0) > 0);
      attend_state *state;
      OK(ctx, attend_state_create(plan, &state));
      OK(ctx, attend_extend(plan, state, 100, t.q, t.k, t.v, t.o, t.lse));
      if (n) CHECK(!memcmp(before, t.o.data, bytes));
      if (!n) before = copy_of(t.o.data, bytes);
      attend_state_free(state);
    }
    free(before);
    attend_plan_free(plan);
    attend_tensors_free(ctx, &t);
    attend_context_free(ctx);
  }
}

/* ---- beyond the end --------------------------------------------------------------- */

/* Bytes that end where a page begins that is inaccessible. */
typedef struct {
  char *pages;
  size_t mapped;
  void *data;
} fenced;

static fenced fence(const void *from, size_t bytes) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  fenced f = {.mapped = (bytes + page - 1) / page * page + page};
  f.pages = mmap(NULL, f.mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (f.pages == MAP_FAILED || mprotect(f.pages + f.mapped - page, page, PROT_NONE)) {
    printf("no pages for a fence\n");
    exit(1);
  }
  f.data = f.pages + f.mapped - page - bytes;
  memcpy(f.data, from, bytes);
  return f;
}

/* Few keys and many queries, so that windows lie wholly behind the last key;
 * widths that fill no vector. */
TEST(nothing_beyond_the_end_is_read) {
  const char *const few_keys[] = {
      "softmax:b1h6g1n64x1d3v1:top:window=9:alibi:f16:bwd",
      "softmax:b3h3g1n64x2d80v31:window=5:f16:bwd",
      "softmax:b1h2n300x70d17v9:top:window=5:bwd",
      "softmax:b2h2n300x70d17v9:window=5:lengths:bf16:bwd",
      "softmax:b2h2n90x33d5v7:bottom:bwd",
      "argmax:b3h3g1n63x2d3v31:top:window=9:bf16:bwd",
      "argmax(t=0.5):b1h4g2n17x3d8v31:window=5:bf16:bwd",
  };
  FOR_EACH_ISA(isa)
  for (size_t p = 0; p < sizeof few_keys / sizeof *few_keys; p++) {
    attend_context *ctx = open_context(isa, 2, NULL);
    attend_tensors t = make_tensors(ctx, few_keys[p], 53);
    size_t size = attend_dtype_size(t.desc.dtype);
    size_t D = (size_t)t.desc.dim * size, M = (size_t)t.desc.dim_v * size;
    outcome want = outcome_of(ctx, &t);
    attend_view *views[] = {&t.q, &t.k, &t.v, &t.d_o};
    size_t bytes[] = {rows_of(&t.desc) * D, keys_of(&t.desc) * D, keys_of(&t.desc) * M,
                      rows_of(&t.desc) * M};
    fenced f[4];
    for (int n = 0; n < 4; n++) {
      f[n] = fence(views[n]->data, bytes[n]);
      views[n]->data = f[n].data;
    }
    outcome got = outcome_of(ctx, &t);
    CHECK_SAME(want, got, few_keys[p]);
    for (int n = 0; n < 4; n++) munmap(f[n].pages, f[n].mapped);
    outcome_free(&want);
    outcome_free(&got);
    attend_tensors_free(ctx, &t);
    attend_context_free(ctx);
  }
}
