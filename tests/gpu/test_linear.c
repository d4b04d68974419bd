/* Linear forms on the GPU against the definition in double: forward, backward, states; and their
 * bits: a batch entry alone, keys in chunks of all sizes.
 */
#include "attend/problem.h"
#include "linear_map.h"

typedef struct {
  const char *text;
  attend_problem problem;
  attend_tensors t;      /* of the host */
  unsigned char *device; /* a copy of their block */
  struct cuda_map map;
  attend_desc d; /* complete */
} linear;

static linear make(const char *text, uint64_t seed) {
  linear x = {
      .text = text, .problem = {ATTEND_INIT(attend_problem)}, .t = {ATTEND_INIT(attend_tensors)}};
  if (attend_problem_parse(host(), text, &x.problem))
    CHECK_FAIL("%s: %s", text, attend_message(host()));
  CHECK_EQ(attend_problem_tensors(host(), &x.problem, seed, &x.t), ATTEND_OK);
  x.d = x.t.desc;
  CHECK_EQ(attend_desc_complete(host(), &x.d), ATTEND_OK);
  x.t.q = view_complete(x.t.q, x.d.heads, x.d.q_len, x.d.dim);
  x.t.k = view_complete(x.t.k, x.d.kv_heads, x.d.kv_len, x.d.dim);
  x.t.v = view_complete(x.t.v, x.d.kv_heads, x.d.kv_len, x.d.dim_v);
  x.t.o = view_complete(x.t.o, x.d.heads, x.d.q_len, x.d.dim_v);
  x.t.d_o = view_complete(x.t.d_o, x.d.heads, x.d.q_len, x.d.dim_v);
  x.t.dq = view_complete(x.t.dq, x.d.heads, x.d.q_len, x.d.dim);
  x.t.dk = view_complete(x.t.dk, x.d.kv_heads, x.d.kv_len, x.d.dim);
  x.t.dv = view_complete(x.t.dv, x.d.kv_heads, x.d.kv_len, x.d.dim_v);
  x.device = cuda->alloc(gpu, x.t.bytes);
  cuda->write(gpu, x.device, x.t.block, x.t.bytes);
  x.map = linear_map(&x.d);
  return x;
}

static void release(linear *x) {
  linear_map_free(&x->map);
  cuda->free(gpu, x->device);
  attend_tensors_free(host(), &x->t);
}

/* A tensor's address on the GPU. */
static attend_view there(const linear *x, attend_view v) {
  if (v.data) v.data = x->device + ((unsigned char *)v.data - (unsigned char *)x->t.block);
  return v;
}

static struct cuda_linear_call call_of(const linear *x) {
  attend_view lse = {.data = x->t.lse};
  return (struct cuda_linear_call){.call = {.desc = &x->d,
                                            .n = x->d.q_len,
                                            .q = there(x, x->t.q),
                                            .k = there(x, x->t.k),
                                            .v = there(x, x->t.v),
                                            .o = there(x, x->t.o),
                                            .d_o = there(x, x->t.d_o),
                                            .dq = there(x, x->t.dq),
                                            .dk = there(x, x->t.dk),
                                            .dv = there(x, x->t.dv),
                                            .lse = there(x, lse).data},
                                   .map = x->map};
}

static void run(struct cuda_linear_call c, void (*f)(cuda_gpu *, const struct cuda_linear_call *)) {
  const char *refusal = cuda->linear_refusal(gpu, c.call.desc);
  if (refusal) CHECK_FAIL("refused: %s", refusal);
  c.call.work = cuda->alloc(gpu, cuda->linear_bytes(gpu, &c));
  f(gpu, &c);
  cuda->free(gpu, c.call.work);
  if (cuda->error(gpu)) CHECK_FAIL("%s", cuda->error(gpu));
}

/* ---- against the definition ---------------------------------------------------------- */

static double number_at(const linear *x, const attend_view *v, int b, int h, int i, int c) {
  const unsigned char *p = view_at(v, attend_dtype_size(x->d.dtype), b, h, i);
  float y;
  attend_convert_to_f32(
      x->d.dtype, p + (size_t)c * (size_t)v->stride[3] * attend_dtype_size(x->d.dtype), 1, &y);
  return (double)y;
}

/* Relative to all of what is wanted, in squares. */
static void check_tensor(const linear *x, const char *name, attend_view got, int heads, int length,
                         int width, const double *want, double tolerance) {
  double off = 0, all = 0;
  for (int b = 0; b < x->d.batch; b++)
    for (int h = 0; h < heads; h++)
      for (int i = 0; i < length; i++)
        for (int c = 0; c < width; c++, want++) {
          const double y = number_at(x, &got, b, h, i, c);
          off += (y - *want) * (y - *want);
          all += *want * *want;
        }
  if (!(sqrt(off) <= tolerance * sqrt(all) + 1e-6))
    CHECK_FAIL("%s: %s: relative error %g", x->text, name, sqrt(off / all));
}

static double tolerance_of(const linear *x) {
  return x->d.dtype == ATTEND_BF16 ? 8e-3 : x->d.dtype == ATTEND_F16 ? 1e-3 : 1e-4;
}

static void check_forward(linear *x) {
  const size_t rows = (size_t)x->d.batch * x->d.heads * x->d.q_len;
  double *o = malloc(rows * x->d.dim_v * sizeof *o), *lse = malloc(rows * sizeof *lse), off = 0,
         all = 0;
  CHECK_EQ(attend_definition_forward(host(), &x->t.desc, x->t.q, x->t.k, x->t.v, o, lse),
           ATTEND_OK);
  run(call_of(x), cuda->linear_forward);
  cuda->read(gpu, x->t.block, x->device, x->t.bytes);
  check_tensor(x, "o", x->t.o, x->d.heads, x->d.q_len, x->d.dim_v, o, tolerance_of(x));
  for (size_t i = 0; i < rows; i++) {
    if (isinf(lse[i]) || isinf(x->t.lse[i])) {
      if (lse[i] != (double)x->t.lse[i])
        CHECK_FAIL("%s: lse of row %zu is %g, not %g", x->text, i, (double)x->t.lse[i], lse[i]);
      continue;
    }
    off += ((double)x->t.lse[i] - lse[i]) * ((double)x->t.lse[i] - lse[i]);
    all += lse[i] * lse[i];
  }
  if (!(sqrt(off) <= tolerance_of(x) * sqrt(all)))
    CHECK_FAIL("%s: lse: relative error %g", x->text, sqrt(off / all));
  free(o), free(lse);
}

static const char *const problems[] = {
    "elu:b1h1n1d8",
    "elu:b2h2n200d16:causal",
    "elu:b1h2n300d64:causal:bf16",
    "elu:b2h2g1n100x1200d64:bottom:bf16:lengths",
    "elu:b1h1n1200x200d64:top:bf16",
    "elu:b1h2n200x100d64:bottom:bf16",
    "elu:b2h1n1100d64:causal:padleft:bf16:bthd",
    "elu:b2h4g2n77x333d64v40:bottom",
    "elu:b2h4g2n77x333d64v130:bottom:bf16",
    "elu:b1h2n300x100d40:top",
    "elu:b1h2n300x100d40:bottom:f16",
    "elu:b3h2n150d24:causal:lengths",
    "elu:b3h2n150d80:padleft:bthd",
    "elu:b2h1n1100d64:causal:padright:bf16",
    "elu:b2h2n190x700d128v64:bf16",
    "elu:b1h2n140d128:causal",
    "favor(m=80):b1h1n140d128:causal",
    "favor(m=64,seed=1):b1h2n200d16:causal",
    "favor(m=256,seed=1):b1h1n400d64:causal:bf16",
    "favor(m=256,seed=3):b1h2g1n70x1200d64:bottom:bf16:padleft",
    "favor(m=256,seed=3):b2h1n200x100d64:top:bf16:lengths",
    "favor(m=70,kind=pair,seed=2):b2h4g2n130d40:causal:bthd",
    "favor(m=96,kind=pair,seed=2):b1h2n130x700d64:bf16",
    "favor(m=40,draw=iid):b2h2n100x200d24v72:padright:f16",
    "fourier(m=256):b1h2n200d16:causal:scale=0.1",
    "fourier(m=128):b2h4g1n100x150d8:bottom:bf16:scale=0.1",
    "gaussian(m=128,sigma=4):b1h2n150d16:causal",
    "gaussian(m=128,sigma=4):b1h1n500d64:causal:bf16",
    "gaussian(m=256,sigma=4,map=fourier):b2h2n150d16:causal:lengths",
    "poly(p=2,a=1,c=1):b2h2n150d16:causal",
    "poly(p=3,a=0.5,c=2):b1h2n100x200d6v70",
    "poly(p=1,a=1,c=3):b1h1n70d8:causal:f16",
};
enum { PROBLEMS = sizeof problems / sizeof *problems };

TEST(forward) {
  for (int i = 0; i < PROBLEMS; i++) {
    linear x = make(problems[i], 10 + (uint64_t)i);
    check_forward(&x);
    release(&x);
  }
}

static void check_backward(const char *text, uint64_t seed) {
  char name[128];
  snprintf(name, sizeof name, "%s:bwd", text);
  linear x = make(name, seed);
  const size_t rows = (size_t)x.d.batch * x.d.heads * x.d.q_len,
               keys = (size_t)x.d.batch * x.d.kv_heads * x.d.kv_len;
  double *dq = malloc(rows * x.d.dim * sizeof *dq), *dk = malloc(keys * x.d.dim * sizeof *dk),
         *dv = malloc(keys * x.d.dim_v * sizeof *dv);
  const double tolerance = 2.5 * tolerance_of(&x);
  CHECK_EQ(
      attend_definition_backward(host(), &x.t.desc, x.t.q, x.t.k, x.t.v, x.t.d_o, dq, dk, dv, NULL),
      ATTEND_OK);
  run(call_of(&x), cuda->linear_forward);
  run(call_of(&x), cuda->linear_backward);
  cuda->read(gpu, x.t.block, x.device, x.t.bytes);
  check_tensor(&x, "dq", x.t.dq, x.d.heads, x.d.q_len, x.d.dim, dq, tolerance);
  check_tensor(&x, "dk", x.t.dk, x.d.kv_heads, x.d.kv_len, x.d.dim, dk, tolerance);
  check_tensor(&x, "dv", x.t.dv, x.d.kv_heads, x.d.kv_len, x.d.dim_v, dv, tolerance);
  free(dq), free(dk), free(dv);
  release(&x);
}

/* Fewer pairs than forward: the definition's derivative takes microseconds for each. */
TEST(backward) {
  static const char *const shapes[] = {
      "elu:b1h1n1d8",
      "elu:b2h2n100d16:causal",
      "elu:b1h2n200d64:causal:bf16",
      "elu:b1h1n1100d64:causal:bf16:padleft",
      "elu:b2h2n150d64:causal:bf16:lengths:bthd",
      "elu:b2h4g2n77x233d64v40:bottom",
      "elu:b1h4g2n77x150d64v130:bottom:bf16",
      "elu:b1h2n200x100d40:top",
      "elu:b1h2n200x100d40:bottom:f16",
      "elu:b3h2n150d24:causal:lengths",
      "elu:b2h1n150d80:padleft:bthd",
      "elu:b1h2n100x200d128v64:bf16",
      "elu:b1h1n140d128:causal",
      "poly(p=2,a=1,c=1):b2h2n150d16:causal",
      "poly(p=3,a=0.5,c=2):b1h2n100x200d6v70",
      "poly(p=1,a=1,c=3):b1h1n70d8:causal:f16",
      "favor(m=64,seed=1):b1h2n150d16:causal",
      "favor(m=96,seed=1):b1h1n150d64:causal:bf16",
      "favor(m=70,kind=pair,seed=2):b2h4g2n100d24:causal:bthd",
      "favor(m=96,kind=pair,seed=2):b1h2n70x150d24v72:bf16",
      "favor(m=40,draw=iid):b2h2n100x150d24v72:padright:f16",
      "favor(m=64):b1h1n140d128:causal",
      "fourier(m=128):b1h2n150d16:causal:scale=0.1",
      "gaussian(m=64,sigma=4):b1h2n200d16:causal:padleft",
      "gaussian(m=128,sigma=4,map=fourier):b2h2n100d16:causal:lengths",
      "gaussian(m=64,sigma=4):b1h2n200x70d16:top",
  };
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) check_backward(shapes[i], 50 + i);
}

/* ---- bits ---------------------------------------------------------------------------- */

/* Outputs of the last call, dense. */
static unsigned char *outputs(linear *x) {
  cuda->read(gpu, x->t.block, x->device, x->t.bytes);
  const size_t size = attend_dtype_size(x->d.dtype), wide = (size_t)x->d.dim_v * size,
               rows = (size_t)x->d.batch * x->d.heads * x->d.q_len;
  unsigned char *all = malloc(rows * (wide + sizeof(float))), *to = all;
  for (int b = 0; b < x->d.batch; b++)
    for (int h = 0; h < x->d.heads; h++)
      for (int i = 0; i < x->d.q_len; i++, to += wide)
        memcpy(to, view_at(&x->t.o, size, b, h, i), wide);
  memcpy(to, x->t.lse, rows * sizeof(float));
  return all;
}

/* The sequence in calls of `step` keys and queries. */
static void extend_all(linear *x, int step, float *lse) {
  const attend_desc *d = &x->d;
  const size_t bytes = cuda->linear_state_bytes(gpu, d);
  int64_t *length = calloc((size_t)d->batch, sizeof *length);
  void *state = cuda->alloc(gpu, bytes * (size_t)d->batch);
  attend_desc now = *d;
  uint8_t *mask = malloc((size_t)d->batch * (size_t)step);
  for (int at = 0; at < d->q_len; at += step) {
    const int n = d->q_len - at < step ? d->q_len - at : step;
    struct cuda_linear_call c = call_of(x);
    c.call.desc = &now;
    c.call.n = n;
    attend_view *views[] = {&c.call.q, &c.call.k, &c.call.v, &c.call.o};
    for (int i = 0; i < 4; i++)
      views[i]->data = view_at(views[i], attend_dtype_size(d->dtype), 0, 0, at);
    c.call.lse = lse;
    c.state = state;
    c.length = length;
    if (d->mask.key_mask) {
      for (int b = 0; b < d->batch; b++)
        memcpy(mask + b * n, d->mask.key_mask + (size_t)b * (size_t)d->kv_len + (size_t)at,
               (size_t)n);
      now.mask.key_mask = mask;
    }
    run(c, cuda->linear_forward);
    for (int b = 0; b < d->batch; b++) length[b] += n;
  }
  cuda->free(gpu, state);
  free(length), free(mask);
}

static void check_states(const char *text) {
  static const int steps[] = {1, 5, 63, 64, 65, 200, 513, 1 << 20};
  linear x = make(text, 77);
  const size_t rows = (size_t)x.d.batch * x.d.heads * x.d.q_len,
               bytes = rows * (size_t)x.d.dim_v * attend_dtype_size(x.d.dtype);
  run(call_of(&x), cuda->linear_forward);
  unsigned char *want = outputs(&x);
  x.d.mask.causal = ATTEND_CAUSAL_BOTTOM;
  for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
    if (steps[i] == 1 && x.d.q_len > 300) continue;
    cuda->zero(gpu, there(&x, x.t.o).data, bytes);
    extend_all(&x, steps[i], NULL);
    unsigned char *got = outputs(&x);
    if (memcmp(got, want, bytes)) {
      size_t at = 0;
      while (got[at] == want[at]) at++;
      CHECK_FAIL("%s in calls of %d: row %zu has other bits", text, steps[i], at / (bytes / rows));
    }
    free(got);
  }
  free(want);
  release(&x);
}

TEST(states) {
  check_states("elu:b2h4g2n200d16:causal");
  check_states("elu:b2h2n1300d64:causal:bf16");
  check_states("elu:b2h4g2n1100d64:causal:padleft:bf16");
  check_states("favor(m=256,seed=2):b2h2g1n1300d64:causal:bf16");
  check_states("favor(m=256,seed=2):b1h2n1100d64:causal:bf16:padright");
  check_states("elu:b2h2n700d40v80:causal:padleft:bf16");
  check_states("favor(m=96,seed=1):b1h2n700d40:causal");
  check_states("favor(m=256,kind=pair):b1h2n1300d64:causal:bf16");
  check_states("fourier(m=64):b2h2n200d16:causal:scale=0.1");
  check_states("gaussian(m=128,sigma=4):b1h2n700d16:causal:padright:f16");
  check_states("poly(p=2,a=1,c=1):b1h2n200d16:causal");
}

/* The last batch entry by itself, its last rows with all their keys. */
static void check_alone(const char *text) {
  static const int tails[] = {1, 7, 64, 100};
  linear x = make(text, 5);
  run(call_of(&x), cuda->linear_forward);
  unsigned char *want = outputs(&x);
  const int b = x.d.batch - 1;
  const size_t size = attend_dtype_size(x.d.dtype), wide = (size_t)x.d.dim_v * size;
  for (int i = 0; i < 4; i++) {
    struct cuda_linear_call c = call_of(&x);
    attend_desc d = x.d;
    c.call.desc = &d;
    c.call.n = d.q_len = tails[i];
    d.batch = 1;
    d.mask.causal = x.d.mask.causal ? ATTEND_CAUSAL_BOTTOM : ATTEND_NOT_CAUSAL;
    c.call.lse = NULL;
    c.call.k.data = view_at(&c.call.k, size, b, 0, 0);
    c.call.v.data = view_at(&c.call.v, size, b, 0, 0);
    c.call.q.data = view_at(&c.call.q, size, b, 0, x.d.q_len - tails[i]);
    c.call.o.data = view_at(&c.call.o, size, b, 0, x.d.q_len - tails[i]);
    cuda->zero(gpu, there(&x, x.t.o).data, (size_t)x.d.batch * x.d.heads * x.d.q_len * wide);
    run(c, cuda->linear_forward);
    unsigned char *got = outputs(&x);
    for (int h = 0; h < d.heads; h++) {
      const size_t at = (((size_t)b * d.heads + h) * x.d.q_len + x.d.q_len - tails[i]) * wide;
      if (memcmp(got + at, want + at, wide * (size_t)tails[i]))
        CHECK_FAIL("%s: the last %d rows of head %d have other bits alone", text, tails[i], h);
    }
    free(got);
  }
  free(want);
  release(&x);
}

TEST(alone) {
  check_alone("elu:b3h4g2n600d64:causal:bf16");
  check_alone("elu:b2h2n300x600d64:bf16");
  check_alone("favor(m=256):b2h2n600d64:causal:bf16");
  check_alone("favor(m=64):b2h2n300d16:causal");
  check_alone("gaussian(m=64,sigma=4,map=fourier):b2h2n300d16:causal");
}

/* NaN in keys and values that a row does not see changes nothing. */
TEST(masked_is_not_read) {
  static const char *const texts[] = {
      "elu:b1h2n300d64:causal:bf16", "elu:b1h2n300d16:causal", "favor(m=64):b1h2n300d16:causal",
      "favor(m=64):b1h2n300d64:causal:bf16", "fourier(m=64):b1h2n300d16:causal:scale=0.1"};
  for (int i = 0; i < 5; i++)
    for (int values = 0; values < 2; values++) {
      linear x = make(texts[i], 5);
      const int from = 220;
      const size_t size = attend_dtype_size(x.d.dtype), wide = (size_t)x.d.dim_v * size;
      const uint16_t nan16 = 0x7fc0;
      const float nan32 = NAN;
      run(call_of(&x), cuda->linear_forward);
      unsigned char *want = outputs(&x);
      attend_view t = there(&x, values ? x.t.v : x.t.k);
      for (int h = 0; h < x.d.heads; h++)
        cuda->write(gpu, view_at(&t, size, 0, h, from),
                    size == 2 ? (const void *)&nan16 : (const void *)&nan32, size);
      run(call_of(&x), cuda->linear_forward);
      unsigned char *got = outputs(&x);
      for (int h = 0; h < x.d.heads; h++) {
        const size_t at = (size_t)h * x.d.q_len * wide;
        if (memcmp(got + at, want + at, wide * from))
          CHECK_FAIL("%s: NaN in a %s reached a row before it", texts[i], values ? "value" : "key");
        const double seen = number_at(&x, &x.t.o, 0, h, from + 20, 0);
        if (!isnan(seen)) CHECK_FAIL("%s: NaN was lost", texts[i]);
      }
      free(got), free(want);
      release(&x);
    }
}

TEST(weak_rows) {
  linear x = make("poly(p=1,a=1,c=0):b1h2n100d8:causal", 3);
  struct cuda_linear_call c = call_of(&x);
  int64_t rows = 0;
  c.call.weak_rows = cuda->alloc(gpu, sizeof rows);
  cuda->zero(gpu, c.call.weak_rows, sizeof rows);
  cuda->zero(gpu, c.call.q.data, 8 * sizeof(float)); /* a row whose similarities are all 0 */
  run(c, cuda->linear_forward);
  cuda->read(gpu, &rows, c.call.weak_rows, sizeof rows);
  CHECK(rows >= 1 && rows < 20);
  cuda->free(gpu, c.call.weak_rows);
  release(&x);
}

/* ---- the engine ---------------------------------------------------------------------- */

static attend_context *device_context(void) {
  static attend_context *ctx;
  attend_context_options o = {ATTEND_INIT(attend_context_options), .device = "cuda"};
  if (!ctx) CHECK_EQ(attend_context_create(&o, &ctx), ATTEND_OK);
  return ctx;
}

/* Plans on the GPU, their tensors the host's. */
static void check_engine(const char *text) {
  linear x = make(text, 21);
  attend_context *ctx = device_context();
  attend_tensors *t = &x.t;
  attend_desc d = x.t.desc;
  attend_plan *plan;
  d.engine = "linear";
  if (attend_plan_create(ctx, &d, &plan)) CHECK_FAIL("%s: %s", text, attend_message(ctx));
  CHECK_EQ(attend_forward(plan, t->q, t->k, t->v, t->o, t->lse), ATTEND_OK);
  CHECK(attend_plan_weak_rows(plan) == 0);
  double *o = malloc((size_t)d.batch * d.heads * d.q_len * x.d.dim_v * sizeof *o);
  CHECK_EQ(attend_definition_forward(host(), &t->desc, t->q, t->k, t->v, o, NULL), ATTEND_OK);
  check_tensor(&x, "o of the engine", t->o, x.d.heads, d.q_len, x.d.dim_v, o, tolerance_of(&x));
  free(o);
  attend_plan_free(plan);
  release(&x);
}

/* A state that is forked, extended, reordered and truncated, against one whole call. */
static void check_engine_states(const char *text) {
  linear x = make(text, 22);
  attend_context *ctx = device_context();
  attend_tensors *t = &x.t;
  attend_desc d = x.t.desc;
  attend_plan *plan;
  attend_state *state, *fork;
  const int n = d.q_len, half = n / 2;
  const size_t bytes = (size_t)x.d.batch * x.d.heads * n * x.d.dim_v * attend_dtype_size(x.d.dtype);
  void *want = malloc(bytes);
  d.engine = "linear";
  d.purpose = ATTEND_FOR_EXTEND;
  d.mask.causal = ATTEND_CAUSAL_BOTTOM;
  CHECK_EQ(attend_plan_create(ctx, &d, &plan), ATTEND_OK);
  CHECK_EQ(attend_state_create(plan, &state), ATTEND_OK);
  CHECK_EQ(attend_extend(plan, state, n, t->q, t->k, t->v, t->o, NULL), ATTEND_OK);
  memcpy(want, t->o.data, bytes);
  memset(t->o.data, 0, bytes);
  CHECK_EQ(attend_state_truncate(state, 0, 0), ATTEND_OK);
  CHECK_EQ(attend_extend(plan, state, half, t->q, t->k, t->v, t->o, NULL), ATTEND_OK);
  CHECK_EQ(attend_state_fork(state, &fork), ATTEND_OK);
  CHECK_EQ(attend_extend(plan, state, half / 2, t->q, t->k, t->v, t->o, NULL), ATTEND_OK);
  attend_view q = attend_view_rows(t->q, x.d.dtype, x.d.heads, n, x.d.dim, half),
              k = attend_view_rows(t->k, x.d.dtype, x.d.kv_heads, n, x.d.dim, half),
              v = attend_view_rows(t->v, x.d.dtype, x.d.kv_heads, n, x.d.dim_v, half),
              to = attend_view_rows(t->o, x.d.dtype, x.d.heads, n, x.d.dim_v, half);
  CHECK_EQ(attend_extend(plan, fork, n - half, q, k, v, to, NULL), ATTEND_OK);
  for (int h = 0; h < x.d.heads; h++) {
    const size_t head = bytes / (size_t)x.d.heads, at = head / (size_t)n * (size_t)half;
    if (memcmp((char *)t->o.data + head * h + at, (char *)want + head * h + at, head - at))
      CHECK_FAIL("%s: a forked state has other bits in head %d", text, h);
  }
  attend_state_free(fork);
  attend_state_free(state);
  attend_plan_free(plan);
  free(want);
  release(&x);
}

TEST(engine) {
  check_engine("elu:b2h4g2n200d16:causal");
  check_engine("elu:b1h2n300d64:causal:bf16");
  check_engine("favor(m=64,seed=1):b2h2n100d16:padleft");
  check_engine("poly(p=2,a=1,c=1):b1h2n150d16:causal");
  check_engine_states("elu:b1h2n300d64:causal:bf16");
  check_engine_states("favor(m=64,seed=1):b1h2n200d16:causal");
  check_engine_states("poly(p=2,a=1,c=1):b1h2n150d16:causal");
}
