/* Linear attention: a row's bits depend on the row and on the keys that it
 * sees. Not on threads, company or strides, not on what comes later or is
 * padding, whatever numbers stand there. */
#include "linear_fixtures.h"

/* ---- threads ------------------------------------------------------------------ */

/* Few stacks go in waves of blocks, many each by themselves. */
TEST(threads_do_not_matter) {
  const char *const shapes[] = {"h1n500d16v8:causal:bwd",           "h16n90d8:causal:bwd",
                                "b2h3g1n300d12v20:causal:f16:bwd",  "b1h2g1n40x700d8:bottom:bwd",
                                "b3h1n150x300d5:lengths:bf16:bwd",  "b2h2n330d8:causal:padleft:bwd",
                                "b2h1n130x70d8:bottom:padright:bwd"};
  const int threads[] = {2, 3, 5, 8, 16};
  FOR_EACH_ISA(isa)
  for (int f = 0; f < LINEAR_FORMS; f++)
    for (int s = 0; s < 7; s++) {
      if ((f + s) % (light() ? 24 : 2)) continue;
      attend_context *ctx = open_dirty(isa, 1, NULL);
      attend_tensors t = linear_tensors(ctx, linear_forms[f], shapes[s], 71);
      outcome one = outcome_of(ctx, &t);
      for (int n = 0; n < 5; n++) {
        attend_context_set_threads(ctx, threads[n]);
        outcome more = outcome_of(ctx, &t);
        CHECK_SAME(one, more, named(linear_forms[f], shapes[s]));
        outcome_free(&more);
      }
      outcome_free(&one);
      attend_tensors_free(ctx, &t);
      attend_context_free(ctx);
    }
}

/* ---- company -------------------------------------------------------------------- */

static attend_view shifted(attend_view view, size_t elements, size_t size) {
  return attend_bhtd((char *)view.data + elements * size);
}

/* A sequence and a head alone, forward and backward. */
static void check_alone(attend_context *ctx, const attend_tensors *t, int b, const outcome *all,
                        const char *name) {
  attend_tensors one = *t;
  size_t T = (size_t)t->desc.q_len, S = (size_t)t->desc.kv_len;
  size_t D = (size_t)t->desc.dim, M = (size_t)t->desc.dim_v, n = (size_t)b;
  size_t size = attend_dtype_size(t->desc.dtype);
  one.desc.batch = one.desc.heads = one.desc.kv_heads = 1;
  if (one.desc.mask.lengths) one.desc.mask.lengths += b;
  if (one.desc.mask.key_mask) one.desc.mask.key_mask += n * S;
  one.q = shifted(t->q, n * T * D, size);
  one.k = shifted(t->k, n * S * D, size);
  one.v = shifted(t->v, n * S * M, size);
  one.d_o = shifted(t->d_o, n * T * M, size);
  outcome out = outcome_of(ctx, &one);
  for (int part = 0; part <= OUT_DV; part++)
    if (memcmp(out.part[part], all->part[part] + n * out.bytes[part], out.bytes[part]))
      CHECK_FAIL("%s: part %d of sequence %d has other bits", name, part, b);
  outcome_free(&out);
}

TEST(company_does_not_matter) {
  const char *const shapes[] = {"b3n150d9v5:causal:bwd", "b3n40x200d9v5:lengths:bf16:bwd",
                                "b3n150d16:causal:padleft:bwd"};
  FOR_EACH_ISA(isa)
  for (int f = 0; f < LINEAR_FORMS; f++)
    for (int s = 0; s < 3; s++) {
      if (light() && (f + s) % 14) continue;
      attend_context *ctx = open_dirty(isa, 2, NULL);
      attend_tensors t = linear_tensors(ctx, linear_forms[f], shapes[s], 72);
      outcome all = outcome_of(ctx, &t);
      for (int b = 0; b < 3; b++) check_alone(ctx, &t, b, &all, named(linear_forms[f], shapes[s]));
      outcome_free(&all);
      attend_tensors_free(ctx, &t);
      attend_context_free(ctx);
    }
}

/* One query of one head, against all keys. */
TEST(a_row_alone_has_its_bits) {
  FOR_EACH_ISA(isa)
  for (int f = 0; f < LINEAR_FORMS; f++) {
    attend_context *ctx = open_dirty(isa, 2, NULL);
    attend_tensors t = linear_tensors(ctx, linear_forms[f], "b2h6g2n37x200d12v20", 73);
    outcome all = outcome_of(ctx, &t);
    attend_desc d = t.desc;
    d.batch = d.q_len = d.heads = d.kv_heads = 1;
    attend_plan *plan = make_plan(ctx, &d);
    float o[20], lse;
    for (size_t r = 0; r < rows_of(&t.desc); r += 7) {
      size_t head = r / 37, at = (head / 6 * 2 + head % 6 / 3) * 200;
      OK(ctx, attend_forward(plan, shifted(t.q, r * 12, 4), shifted(t.k, at * 12, 4),
                             shifted(t.v, at * 20, 4), attend_bhtd(o), &lse));
      if (memcmp(o, all.part[OUT_O] + r * 80, 80) || memcmp(&lse, all.part[OUT_LSE] + r * 4, 4))
        CHECK_FAIL("%s: row %zu alone has other bits", linear_forms[f], r);
    }
    attend_plan_free(plan);
    outcome_free(&all);
    attend_tensors_free(ctx, &t);
    attend_context_free(ctx);
  }
}

/* ---- strides ----------------------------------------------------------------------- */

/* Contiguous [B,H,T,D] from a view with strides. */
static char *gathered(attend_view view, int heads, int length, int width, int batch, size_t size) {
  size_t n = (size_t)batch * (size_t)(heads * length * width);
  char *out = zeroed_block(n, size);
  for (size_t i = 0; i < n; i++) {
    size_t x = i % (size_t)width, row = i / (size_t)width;
    size_t at = row % (size_t)length, head = row / (size_t)length;
    size_t h = head % (size_t)heads, b = head / (size_t)heads;
    ptrdiff_t from = (ptrdiff_t)b * view.stride[0] + (ptrdiff_t)h * view.stride[1] +
                     (ptrdiff_t)at * view.stride[2] + (ptrdiff_t)x * view.stride[3];
    memcpy(out + i * size, (char *)view.data + from * (ptrdiff_t)size, size);
  }
  return out;
}

static void check_gathered(const outcome *want, int part, attend_view view, int heads, int length,
                           int width, int batch, size_t size, const char *name) {
  char *got = gathered(view, heads, length, width, batch, size);
  if (memcmp(got, want->part[part], want->bytes[part]))
    CHECK_FAIL("%s: part %d has other bits as [B,T,H,D]", name, part);
  free(got);
}

TEST(layout_does_not_matter) {
  const char *const words[] = {":causal:bwd", ":causal:f16:bwd", ":causal:padright:bf16:bwd"};
  FOR_EACH_ISA(isa)
  for (int f = 0; f < LINEAR_FORMS; f++) {
    char shape[80], other[96];
    snprintf(shape, sizeof shape, "b2h4g2n90d7v11%s", words[f % 3]);
    snprintf(other, sizeof other, "%s:bthd", shape);
    attend_context *ctx = open_dirty(isa, 2, NULL);
    attend_tensors t = linear_tensors(ctx, linear_forms[f], shape, 74);
    outcome want = outcome_of(ctx, &t);
    size_t size = attend_dtype_size(t.desc.dtype);
    attend_tensors_free(ctx, &t);
    t = linear_tensors(ctx, linear_forms[f], other, 74);
    outcome got = outcome_of(ctx, &t);
    const char *name = named(linear_forms[f], other);
    CHECK(!memcmp(got.part[OUT_LSE], want.part[OUT_LSE], want.bytes[OUT_LSE]));
    check_gathered(&want, OUT_O, t.o, 4, 90, 11, 2, size, name);
    check_gathered(&want, OUT_DQ, t.dq, 4, 90, 7, 2, size, name);
    check_gathered(&want, OUT_DK, t.dk, 2, 90, 7, 2, size, name);
    check_gathered(&want, OUT_DV, t.dv, 2, 90, 11, 2, size, name);
    outcome_free(&want);
    outcome_free(&got);
    attend_tensors_free(ctx, &t);
    attend_context_free(ctx);
  }
}

/* ---- what comes later ----------------------------------------------------------------- */

typedef struct {
  const char *name;
  float key, value; /* what every element becomes; 0: left as it is */
} spoilt;

static const spoilt spoils[] = {
    {"key NaN", NAN, 0},
    {"value NaN", 0, NAN},
    {"both NaN", NAN, NAN},
    {"key inf", INFINITY, 0},
    {"value inf", 0, INFINITY},
    {"key -inf", -INFINITY, 0},
    {"both -1e30", -1e30f, -1e30f},
    {"key 1e30", 1e30f, 0},
    {"key 1e15", 1e15f, 0},
    {"key of norm 60", 15, 3},
    {"key of norm 60", -15, 0},
};
enum { SPOILS = sizeof spoils / sizeof *spoils };

/* Keys j of every head of sequence 0. */
static void spoil_key(const attend_tensors *t, int j, const spoilt *s) {
  const attend_desc *d = &t->desc;
  size_t D = (size_t)d->dim, M = (size_t)d->dim_v;
  for (size_t g = 0; g < (size_t)d->kv_heads; g++) {
    size_t at = g * (size_t)d->kv_len + (size_t)j;
    if (s->key != 0) put_all(d->dtype, t->k.data, at * D, D, s->key);
    if (s->value != 0) put_all(d->dtype, t->v.data, at * M, M, s->value);
  }
}

/* Rows before j keep their bits in o and lse, and in dq. */
static void check_before(const attend_desc *d, int j, const outcome *clean, const outcome *out,
                         const char *name, const char *what) {
  const int parts[] = {OUT_O, OUT_LSE, OUT_DQ};
  size_t T = (size_t)d->q_len, heads = (size_t)d->heads;
  for (int n = 0; n < 3; n++) {
    size_t row = clean->bytes[parts[n]] / (heads * T);
    for (size_t h = 0; h < heads; h++) {
      const char *a = clean->part[parts[n]] + h * T * row;
      const char *b = out->part[parts[n]] + h * T * row;
      if (!memcmp(a, b, (size_t)j * row)) continue;
      CHECK_FAIL("%s: %s at %d reaches part %d of rows before it", name, what, j, parts[n]);
      break;
    }
  }
}

static void check_future(const char *isa, const char *form, const char *shape, const spoilt *s,
                         int j) {
  attend_context *ctx = open_dirty(isa, 2, NULL);
  attend_tensors t = linear_tensors(ctx, form, shape, 75);
  outcome clean = outcome_of(ctx, &t);
  spoil_key(&t, j, s);
  outcome out = outcome_of(ctx, &t);
  check_before(&t.desc, j, &clean, &out, named(form, shape), s->name);
  CHECK(memcmp(clean.part[OUT_O], out.part[OUT_O], out.bytes[OUT_O]));
  outcome_free(&clean);
  outcome_free(&out);
  attend_tensors_free(ctx, &t);
  attend_context_free(ctx);
}

TEST(no_row_knows_what_comes_later) {
  const char *const shapes[] = {"h4g2n150d16v12:causal:bwd", "h2n150d16:causal:bf16:bwd"};
  const int places[] = {149, 70, 64, 63};
  FOR_EACH_ISA(isa)
  for (int f = 0; f < LINEAR_FORMS; f++)
    for (int s = 0; s < SPOILS; s++) {
      if (light() && (f + s) % 16) continue;
      check_future(isa, linear_forms[f], shapes[(f + s) % 2], &spoils[s], places[s % 4]);
    }
}

/* ---- what is padding ------------------------------------------------------------------- */

static int seen_by_any(const attend_desc *d, int b, int j) {
  for (int i = 0; i < d->q_len; i++)
    if (attend_visible(d, b, i, j)) return 1;
  return 0;
}

static int spoil_unseen(const attend_tensors *t, float with) {
  const attend_desc *d = &t->desc;
  size_t D = (size_t)d->dim, M = (size_t)d->dim_v;
  int spoiled = 0;
  for (size_t n = 0; n < keys_of(d); n++) {
    int b = (int)(n / (size_t)(d->kv_heads * d->kv_len));
    if (seen_by_any(d, b, (int)(n % (size_t)d->kv_len))) continue;
    put_all(d->dtype, t->k.data, n * D, D, with);
    put_all(d->dtype, t->v.data, n * M, M, with);
    spoiled++;
  }
  return spoiled;
}

TEST(padding_is_never_read) {
  const char *const shapes[] = {"b3h2g1n33x200d16v9:lengths:bwd", "b2h2n65x140d7:padleft:bf16:bwd",
                                "b2h2n150d7:causal:padright:f16:bwd", "h2n40x150d8:top:bwd"};
  const float poisons[] = {NAN, INFINITY, -INFINITY};
  FOR_EACH_ISA(isa)
  for (int f = 0; f < LINEAR_FORMS; f++)
    for (int s = 0; s < 4; s++) {
      if (light() && (f + s) % 16) continue;
      attend_context *ctx = open_dirty(isa, 1 + s, NULL);
      attend_tensors t = linear_tensors(ctx, linear_forms[f], shapes[s], 76);
      CHECK(spoil_unseen(&t, 0) > 0);
      outcome clean = outcome_of(ctx, &t);
      for (int n = 0; n < 3; n++) {
        spoil_unseen(&t, poisons[n]);
        outcome out = outcome_of(ctx, &t);
        CHECK_SAME(clean, out, named(linear_forms[f], shapes[s]));
        outcome_free(&out);
      }
      outcome_free(&clean);
      attend_tensors_free(ctx, &t);
      attend_context_free(ctx);
    }
}
