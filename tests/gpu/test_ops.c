/* Each op of the GPU against the CPU's, on the same random numbers. */
#include "device/device.h"
#include "gpu.h"
#include "layers/linear.h"

enum { ROWS = 70, WIDTH = 100, LD = 112, HEADS = 5 };

static int side; /* 0: the host's addresses, 1: the GPU's */
static void *at(twin t) { return t.at[side]; }

/* Runs an op on both; its arguments are evaluated for each. */
#define BOTH(name, ...)                          \
  do {                                           \
    for (side = 0; side < 2; side++) {           \
      const struct op_##name op = {__VA_ARGS__}; \
      if (side)                                  \
        cuda->name(gpu, &op);                    \
      else                                       \
        device_cpu.name(host(), &op);            \
    }                                            \
    CHECK(!cuda->error(gpu));                    \
  } while (0)

/* Relative to the largest value. */
static void check_same(const char *what, const twin *t, double tolerance) {
  const float *want = t->at[0];
  float *got = fetched(t);
  double max = 0, worst = 0;
  for (size_t i = 0; i < t->bytes / sizeof *got; i++) {
    max = fmax(max, fabs((double)want[i]));
    double off = fabs((double)got[i] - (double)want[i]);
    if (!(off <= worst) && !(isnan(got[i]) && isnan(want[i]))) worst = off;
  }
  if (!(worst <= tolerance * max)) CHECK_FAIL("%s: error %g of %g", what, worst, max);
  free(got);
}
#define SAME(t) check_same(#t, &(t), 2e-5)

TEST(activations) {
  twin a = normals(ROWS * LD, 1, 2), b = normals(ROWS * LD, 2, 1), dy = normals(ROWS * LD, 3, 1);
  for (int f = 0; f < 6; f++) {
    twin y = normals(ROWS * LD, 4, 1), da = normals(ROWS * LD, 5, 1), db = normals(ROWS * LD, 6, 1);
    BOTH(activate, .f = (attend_activation)f, .rows = ROWS, .width = WIDTH, .a = at(a), .lda = LD,
         .b = f % 2 ? at(b) : NULL, .ldb = LD, .y = at(y), .ldy = LD);
    SAME(y);
    BOTH(activate_backward, .f = (attend_activation)f, .rows = ROWS, .width = WIDTH, .a = at(a),
         .lda = LD, .b = at(b), .ldb = LD, .dy = at(dy), .lddy = LD, .da = at(da), .ldda = LD,
         .db = at(db), .lddb = LD);
    SAME(da);
    SAME(db);
    twin_free(&y), twin_free(&da), twin_free(&db);
  }
  twin_free(&a), twin_free(&b), twin_free(&dy);
}

TEST(elementwise) {
  twin a = normals(ROWS * LD, 1, 2), b = normals(ROWS * LD, 2, 1), y = normals(ROWS * LD, 3, 1);
  BOTH(add, .rows = ROWS, .width = WIDTH, .a = at(a), .lda = LD, .b = at(b), .ldb = LD, .y = at(y),
       .ldy = LD);
  SAME(y);
  BOTH(scale, .rows = ROWS, .width = WIDTH, .factor = 0.3f, .x = at(y), .ldx = LD);
  BOTH(scale, .rows = ROWS, .width = WIDTH, .divisor = 7, .x = at(y), .ldx = LD);
  SAME(y);
  BOTH(soft_cap, .rows = ROWS, .width = WIDTH, .cap = 3, .x = at(a), .ldx = LD);
  SAME(a);
  BOTH(soft_cap_backward, .rows = ROWS, .width = WIDTH, .cap = 3, .y = at(a), .ldy = LD,
       .dx = at(y), .lddx = LD);
  SAME(y);
  BOTH(dropout, .random = {9, 4}, .p = 0.3f, .rows = ROWS, .width = WIDTH, .x = at(b), .ldx = LD);
  check_same("dropout", &b, 0);
  int32_t reversed[ROWS];
  for (int i = 0; i < ROWS; i++) reversed[i] = ROWS - 1 - i;
  twin index = twin_of(reversed, sizeof reversed);
  for (int scatter = 0; scatter < 2; scatter++) {
    BOTH(gather, .rows = ROWS, .width = WIDTH, .index = at(index), .factor = 2, .x = at(a),
         .ldx = LD, .y = at(y), .ldy = LD, .scatter = scatter != 0);
    SAME(y);
  }
  twin_free(&a), twin_free(&b), twin_free(&y), twin_free(&index);
}

TEST(norms) {
  twin x = normals(ROWS * LD, 1, 2), w = normals(WIDTH, 2, 1), b = normals(WIDTH, 3, 1);
  twin dy = normals(ROWS * LD, 4, 1);
  for (int i = 0; i < 8; i++) {
    const bool rms = i & 1, add = i & 2, linear = i == 5;
    const int groups = i & 4 ? HEADS : 0, width = groups ? WIDTH / HEADS : WIDTH;
    twin y = normals(ROWS * LD, 5, 1), dx = normals(ROWS * LD, 6, 1);
    twin dw = normals(WIDTH, 7, 1), db = normals(WIDTH, 8, 1);
    twin work = normals(attend_norm_back_bytes(ROWS * HEADS, WIDTH) / 4, 9, 0);
    BOTH(norm, .rms = rms, .rows = ROWS, .groups = groups, .width = width, .x = at(x), .ldx = LD,
         .weight = at(w), .bias = rms ? NULL : at(b), .eps = 1e-5f, .y = at(y), .ldy = LD);
    SAME(y);
    BOTH(norm_backward, .rms = rms, .add = add, .rows = ROWS, .groups = groups, .width = width,
         .x = at(x), .ldx = LD, .weight = at(w), .eps = 1e-5f, .linear = linear, .dy = at(dy),
         .lddy = LD, .dx = at(dx), .lddx = LD, .dweight = at(dw), .dbias = rms ? NULL : at(db),
         .work = at(work));
    SAME(dx);
    SAME(dw);
    SAME(db);
    twin_free(&y), twin_free(&dx), twin_free(&dw), twin_free(&db), twin_free(&work);
  }
  twin_free(&x), twin_free(&w), twin_free(&b), twin_free(&dy);
}

TEST(positions) {
  double f[10];
  attend_rope_frequencies(&(attend_rope){.theta = 10000}, 20, f, &(double){0});
  twin frequency = twin_of(f, sizeof f), position = integers(ROWS, 1, 100000);
  for (int backward = 0; backward < 2; backward++) {
    twin x = normals(ROWS * LD, 2, 1);
    BOTH(rope, .frequency = at(frequency), .attention_factor = 1.5, .rows = ROWS, .heads = HEADS,
         .dim = 20, .rotary = backward ? 12 : 0, .position = at(position), .x = at(x), .ldx = LD,
         .backward = backward != 0);
    SAME(x);
    BOTH(sinusoidal, .rows = ROWS, .width = WIDTH - 1, .position = at(position), .y = at(x),
         .ldy = LD);
    SAME(x);
    twin_free(&x);
  }
  twin_free(&frequency), twin_free(&position);
}

TEST(embeddings) {
  enum { ENTRIES = 30 };
  twin table = normals(ENTRIES * WIDTH, 1, 1), ids = integers(ROWS, 2, ENTRIES + 4);
  ((int32_t *)ids.at[0])[3] = -1;
  cuda->write(gpu, ids.at[1], ids.at[0], ids.bytes);
  twin y = normals(ROWS * LD, 3, 1), d = normals(ENTRIES * WIDTH, 4, 1);
  for (int add = 0; add < 2; add++) {
    BOTH(embed, .table = {.data = at(table), .dtype = ATTEND_F32, .entries = ENTRIES}, .rows = ROWS,
         .width = WIDTH, .ids = at(ids), .offset = 1, .factor = 3, .add = add != 0, .y = at(y),
         .ldy = LD);
    SAME(y);
  }
  twin work = normals(embed_backward_bytes(ROWS, WIDTH) / 4, 5, 0);
  BOTH(embed_backward, .rows = ROWS, .width = WIDTH, .entries = ENTRIES, .ids = at(ids),
       .offset = 1, .factor = 3, .dy = at(y), .lddy = LD, .dtable = at(d), .work = at(work));
  SAME(d);
  twin_free(&table), twin_free(&ids), twin_free(&y), twin_free(&d), twin_free(&work);
}

TEST(losses) {
  twin targets = integers(ROWS, 2, WIDTH);
  ((int32_t *)targets.at[0])[5] = -100;
  ((int32_t *)targets.at[0])[6] = WIDTH;
  cuda->write(gpu, targets.at[1], targets.at[0], targets.bytes);
  for (int smooth = 0; smooth < 2; smooth++) {
    twin x = normals(ROWS * LD, 1, 4), loss = normals(ROWS, 3, 1);
    BOTH(loss, .rows = ROWS, .width = WIDTH, .x = at(x), .ldx = LD, .targets = at(targets),
         .smoothing = smooth ? 0.1f : 0, .scale = 0.25f, .loss = at(loss));
    SAME(x);
    SAME(loss);
    twin_free(&x), twin_free(&loss);
  }
  twin_free(&targets);
}

TEST(optimizer) {
  enum { N = 10000 };
  twin g = normals(N, 1, 1), sums = normals(2 * stretches_of(N), 2, 0);
  BOTH(sum_squares, .n = N, .x = at(g), .sums = at(sums));
  double *got = fetched(&sums);
  for (size_t i = 0; i < stretches_of(N); i++)
    CHECK_NEAR(got[i], ((double *)sums.at[0])[i], 1e-9 * got[i]);
  free(got);
  for (int adam = 0; adam < 2; adam++) {
    twin w = normals(N, 3, 1), m = normals(N, 4, 0.1f), v = integers(N, 5, 1);
    BOTH(step, .n = N, .values = at(w), .gradients = at(g), .first = at(m),
         .second = adam ? at(v) : NULL, .rate = 0.01f, .decay = 0.1f, .shrink = 0.5f, .beta1 = 0.9f,
         .beta2 = 0.99f, .eps = 1e-8f, .fix1 = 10, .fix2 = 100, .momentum = 0.9f);
    SAME(w);
    SAME(m);
    SAME(v);
    twin_free(&w), twin_free(&m), twin_free(&v);
  }
  twin_free(&g), twin_free(&sums);
}

/* The CPU packs from rows; the GPU keeps them as they are. */
TEST(products) {
  enum { OUT = 83, IN = 100 };
  twin x = normals(ROWS * LD, 1, 1), w = normals(OUT * IN, 2, 1), b = normals(OUT, 3, 1);
  const attend_linear_part part = {.weight = w.at[0], .outputs = OUT, .bias = b.at[0]};
  attend_linear *packed;
  CHECK_EQ(attend_linear_create(host(), ATTEND_WEIGHTS_F32, IN, 1, &part, &packed), ATTEND_OK);
  const attend_linear plain = {.kind = ATTEND_WEIGHTS_F32,
                               .inputs = IN,
                               .outputs = OUT,
                               .weights = w.at[1],
                               .bias = b.at[1]};
  twin y = normals(ROWS * LD, 4, 1), onto = normals(ROWS * LD, 5, 1);
  for (int add = 0; add < 2; add++) {
    BOTH(linear, .linear = side ? &plain : packed, .rows = ROWS, .x = at(x), .ldx = LD, .y = at(y),
         .ldy = LD, .add = add != 0, .f = add ? ATTEND_GELU : 0, .onto = add ? at(onto) : NULL,
         .ldo = LD);
    if (!add) SAME(y); /* with onto y is work */
    SAME(onto);
  }
  twin dy = normals(ROWS * LD, 9, 1), dw = normals(OUT * IN, 6, 1), db = normals(OUT, 7, 1);
  twin work = normals(attend_linear_weight_grad_bytes(host(), ROWS, OUT, IN) / 4 + 1, 8, 0);
  BOTH(linear_grad, .kind = ATTEND_WEIGHTS_F32, .rows = ROWS, .outputs = OUT, .inputs = IN,
       .dy = at(dy), .lddy = LD, .x = at(x), .ldx = LD, .dw = at(dw), .db = at(db),
       .work = at(work));
  SAME(dw);
  SAME(db);
  attend_linear_free(packed);
  twin_free(&x), twin_free(&w), twin_free(&b), twin_free(&y), twin_free(&onto);
  twin_free(&dy), twin_free(&dw), twin_free(&db), twin_free(&work);
}

/* A row's bits do not depend on the rows beside it. */
TEST(products_by_rows) {
  enum { OUT = 200, IN = 300 };
  twin x = normals(ROWS * IN, 1, 1), w = normals(OUT * IN, 2, 1), b = normals(OUT, 3, 1);
  const attend_linear l = {.kind = ATTEND_WEIGHTS_F32,
                           .inputs = IN,
                           .outputs = OUT,
                           .weights = w.at[1],
                           .bias = b.at[1]};
  twin all = normals(ROWS * OUT, 4, 1), one = normals(OUT, 5, 1);
  struct op_linear op = {
      .linear = &l, .rows = ROWS, .x = x.at[1], .ldx = IN, .y = all.at[1], .ldy = OUT};
  cuda->linear(gpu, &op);
  float *want = fetched(&all);
  for (int r = 0; r < ROWS; r += 7) {
    op.rows = 1, op.x = (float *)x.at[1] + r * IN, op.y = one.at[1];
    cuda->linear(gpu, &op);
    float *got = fetched(&one);
    CHECK(!memcmp(got, want + (size_t)r * OUT, OUT * sizeof *got));
    free(got);
  }
  free(want);
  twin_free(&x), twin_free(&w), twin_free(&b), twin_free(&all), twin_free(&one);
}

TEST(patterns) {
  enum { B = 2, H = 4, G = 2, T = 9, S = 11, M = 6 };
  const size_t pairs = B * H * T * S;
  twin w = normals(pairs, 1, 1), v = normals(B * G * S * M, 2, 1), o = normals(B * H * T * M, 3, 1);
  twin dw = normals(pairs, 4, 1), before = normals(pairs, 5, 1);
  twin q = normals(B * H * T * M, 6, 1), k = normals(B * G * S * M, 7, 1);
  twin dq = normals(B * H * T * M, 8, 1), dk = normals(B * G * S * M, 9, 1);
  twin dv = normals(B * G * S * M, 10, 1);
#define ROWS_OF(t)                 \
  {                                \
    at(t), { H *T *M, T *M, M, 1 } \
  }
#define KEYS_OF(t)                 \
  {                                \
    at(t), { G *S *M, S *M, M, 1 } \
  }
#define PATTERN                                                                             \
  {                                                                                         \
    .batch = B, .heads = H, .kv_heads = G, .n = T, .keys = S, .width = M, .weights = at(w), \
    .v = KEYS_OF(v), .o = ROWS_OF(o), .d_weights = at(dw)                                   \
  }
  BOTH(pattern_grad, .p = PATTERN);
  SAME(dw);
  BOTH(pattern_backward, .p = PATTERN, .dim = M, .scale = 0.4f, .before = at(before),
       .q = ROWS_OF(q), .k = KEYS_OF(k), .dq = ROWS_OF(dq), .dk = KEYS_OF(dk), .dv = KEYS_OF(dv));
  SAME(dq);
  SAME(dk);
  SAME(dv);
  BOTH(pattern, .batch = B, .heads = H, .kv_heads = G, .n = T, .keys = S, .width = M,
       .weights = at(w), .v = KEYS_OF(v), .o = ROWS_OF(o));
  SAME(o);
  BOTH(divide, .batch = B, .heads = H, .n = T, .width = M, .before = at(q), .after = at(k),
       .o = ROWS_OF(o));
  SAME(o);
  twin all[] = {w, v, o, dw, before, q, k, dq, dk, dv};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) twin_free(&all[i]);
}

TEST(pointer_generator) {
  enum { TEXTS = 2, N = 13, KEY = 20, KEY_LD = 32, V = 40, R = 6 };
  const int32_t length[] = {N, 9}, of[R] = {0, 0, 0, 1, 1, -1}, to[] = {0, 1, 0, 2};
  const float often[] = {1, 1, 2, 1};
  twin keys = normals(TEXTS * N * KEY_LD, 1, 0.5f), before = normals(2 * KEY_LD, 2, 1);
  for (int backward = 0; backward < 2; backward++) {
    BOTH(copy_lag, .texts = TEXTS, .n = N, .width = KEY, .keys = at(keys), .ld = KEY_LD,
         .backward = backward != 0);
    SAME(keys);
  }
  BOTH(copy_lag, .texts = 1, .n = N, .width = KEY, .keys = at(keys), .ld = KEY_LD,
       .before = at(before));
  SAME(keys);
  check_same("before", &(twin){{before.at[0], before.at[1]}, KEY_LD * 4}, 0);
  BOTH(copy_fold, .n = 4, .from = 5, .ld = KEY_LD, .keys = at(keys), .to = to, .often = often);
  SAME(keys);
  int32_t first[TEXTS * N];
  twin ids = integers(TEXTS * N, 3, V), targets = integers(R, 4, V), firsts;
  for (int t = 0; t < TEXTS; t++)
    for (int j = 0; j < N; j++) {
      const int32_t *id = (int32_t *)ids.at[0] + t * N;
      int i = 0;
      while (id[i] != id[j]) i++;
      first[t * N + j] = i;
    }
  firsts = twin_of(first, sizeof first);
  twin q = normals(R * KEY_LD, 5, 0.5f), dq = normals(R * KEY_LD, 6, 1);
  twin dkeys = normals(TEXTS * N * KEY_LD, 7, 1);
#define TEXTS_OF \
  { .n = N, .ld = KEY_LD, .keys = at(keys), .ids = at(ids), .first = at(firsts), .length = length }
  for (int mix = 0; mix < 2; mix++) {
    twin gate = normals(R * 16, 8, 1), weight = normals(R * N, 9, 0),
         logits = normals(R * V, 10, 2);
    twin loss = normals(R, 11, 0);
    BOTH(copy_loss, .texts = TEXTS_OF, .rows = R, .vocab = V, .of = of, .q = at(q),
         .gate = at(gate), .weight = at(weight), .logits = at(logits), .ldl = V,
         .targets = at(targets), .smoothing = 0.1f, .scale = 0.5f, .loss = mix ? NULL : at(loss));
    SAME(logits);
    if (!mix) {
      SAME(loss);
      SAME(gate);
      SAME(weight);
      BOTH(copy_grad, .texts = TEXTS_OF, .rows = R - 1, .n_texts = TEXTS, .of = of, .q = at(q),
           .weight = at(weight), .dq = at(dq), .dkeys = at(dkeys));
      SAME(dq);
      SAME(dkeys);
    }
    twin_free(&gate), twin_free(&weight), twin_free(&logits), twin_free(&loss);
  }
  twin all[] = {keys, before, ids, targets, firsts, q, dq, dkeys};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) twin_free(&all[i]);
}
