/* Ops on rows of f32 and bf16, of widths that lie in registers, in whole pieces or neither, against
 * the CPU's on the same numbers. */
#include "device/device.h"
#include "gpu.h"
#include "layers/linear.h"

enum { ROWS = 150, HEADS = 4, WIDEST = 1536, LD = WIDEST + 16 };

static const int widths[] = {100, 104, 768, WIDEST};
static attend_dtype type; /* of rows */
static int width, side;   /* side: 0: the host's addresses, 1: the GPU's */
static void *at(twin t) { return t.at[side]; }

/* Rows of the type. */
static twin rows(uint64_t stream, float factor) {
  const size_t n = ROWS * LD;
  twin wide = normals(n, stream, factor);
  void *narrow = malloc(n * sizeof(float));
  attend_convert_from_f32(type, wide.at[0], n, narrow);
  twin t = twin_of(narrow, n * attend_dtype_size(type));
  free(narrow);
  twin_free(&wide);
  return t;
}

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

/* Numbers of type `as`: to one unit in the last place of bf16, and a share of the largest. */
static void check_same(const char *what, const twin *t, attend_dtype as, double tolerance) {
  const size_t n = t->bytes / attend_dtype_size(as);
  float *want = malloc(n * sizeof *want), *got = malloc(n * sizeof *got);
  void *raw = fetched(t);
  double max = 0, worst = 0;
  attend_convert_to_f32(as, t->at[0], n, want);
  attend_convert_to_f32(as, raw, n, got);
  for (size_t i = 0; i < n; i++) max = fmax(max, fabs((double)want[i]));
  for (size_t i = 0; i < n; i++) {
    const double unit = as ? fabs((double)want[i]) / 128 : 0;
    const double off = fabs((double)got[i] - (double)want[i]) - unit;
    if (!(off <= worst) && !(isnan(got[i]) && isnan(want[i]))) worst = off;
  }
  if (!(worst <= tolerance * max))
    CHECK_FAIL("%s, width %d, type %d: error %g of %g", what, width, (int)type, worst, max);
  free(raw), free(want), free(got);
}
#define SAME(t) check_same(#t, &(t), type, 3e-5)
#define SAME_SUMS(t) check_same(#t, &(t), ATTEND_F32, 3e-5)
/* Where operands may have been rounded to bf16 before. */
static void check_close(const char *what, const twin *t) { check_same(what, t, type, 6e-3); }

static void each(void (*check)(void)) {
  if (typed_reserve(host(), 6 * LD)) exit(1);
  for (size_t i = 0; i < sizeof widths / sizeof *widths; i++)
    for (int t = 0; t < 2; t++) {
      width = widths[i];
      type = t ? ATTEND_BF16 : ATTEND_F32;
      check();
    }
}

static void check_elementwise(void) {
  twin a = rows(1, 2), b = rows(2, 1), dy = rows(3, 1), y = rows(4, 1), da = rows(5, 1);
  twin again = rows(6, 1);
  for (int f = 0; f < 6; f++) {
    BOTH(activate, .f = (attend_activation)f, .rows = ROWS, .width = width, .a = at(a), .lda = LD,
         .b = f % 2 ? at(b) : NULL, .ldb = LD, .y = at(y), .ldy = LD, .a_type = type,
         .y_type = type);
    SAME(y);
    BOTH(activate_backward, .f = (attend_activation)f, .rows = ROWS, .width = width, .a = at(a),
         .lda = LD, .b = f % 2 ? at(b) : NULL, .ldb = LD, .dy = at(dy), .lddy = LD, .da = at(da),
         .ldda = LD, .db = f % 2 ? at(y) : NULL, .lddb = LD, .y = at(again), .ldy = LD,
         .a_type = type, .dy_type = type, .da_type = type);
    SAME(da);
    SAME(y);
    SAME(again);
  }
  BOTH(add, .rows = ROWS, .width = width, .a = at(a), .lda = LD, .b = at(b), .ldb = LD, .y = at(y),
       .ldy = LD, .a_type = type, .b_type = type, .y_type = type);
  SAME(y);
  BOTH(scale, .rows = ROWS, .width = width, .divisor = 7, .x = at(y), .ldx = LD, .x_type = type);
  SAME(y);
  BOTH(soft_cap, .rows = ROWS, .width = width, .cap = 3, .x = at(a), .ldx = LD, .x_type = type);
  SAME(a);
  BOTH(soft_cap_backward, .rows = ROWS, .width = width, .cap = 3, .y = at(b), .ldy = LD,
       .dx = at(dy), .lddx = LD, .y_type = type, .dx_type = type);
  SAME(dy);
  BOTH(dropout, .random = {9, 4}, .first = 3, .p = 0.3f, .rows = ROWS, .width = width, .x = at(b),
       .ldx = LD, .x_type = type);
  SAME(b);
  twin wide = normals(ROWS * LD, 9, 1), position = integers(ROWS, 2, ROWS);
  BOTH(gather, .rows = ROWS, .width = width, .index = at(position), .factor = 2, .x = at(wide),
       .ldx = LD, .y = at(y), .ldy = LD, .y_type = type);
  SAME(y);
  const double frequency[] = {1, 0.3, 0.1, 0.01};
  twin f = twin_of(frequency, sizeof frequency);
  BOTH(rope, .frequency = at(f), .attention_factor = 1.5, .rows = ROWS, .heads = HEADS,
       .dim = width / HEADS, .rotary = 8, .position = at(position), .x = at(y), .ldx = LD,
       .x_type = type);
  SAME(y);
  twin all[] = {a, b, dy, y, da, again, wide, position, f};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) twin_free(&all[i]);
}
TEST(elementwise) { each(check_elementwise); }

static void check_norms(void) {
  twin x = rows(1, 2), w = normals(WIDEST, 2, 1), b = normals(WIDEST, 3, 1);
  for (int i = 0; i < 8; i++) {
    const bool rms = i & 1, add = i & 2;
    const int groups = i & 4 ? HEADS : 0, n = groups ? width / HEADS : width;
    twin y = rows(5, 1), dy = rows(4, 1), dx = rows(6, 1);
    twin dw = normals(WIDEST, 7, 1), db = normals(WIDEST, 8, 1);
    twin work = normals(attend_norm_back_bytes(ROWS * HEADS, WIDEST) / 4, 9, 0);
    BOTH(norm, .rms = rms, .rows = ROWS, .groups = groups, .width = n, .x = at(x), .ldx = LD,
         .weight = at(w), .bias = rms ? NULL : at(b), .eps = 1e-5f, .y = at(y), .ldy = LD,
         .x_type = type, .y_type = type);
    SAME(y);
    BOTH(norm_backward, .rms = rms, .add = add, .rows = ROWS, .groups = groups, .width = n,
         .x = at(x), .ldx = LD, .weight = i == 5 ? NULL : at(w), .eps = 1e-5f, .dy = at(dy),
         .lddy = LD, .dx = at(add ? dx : dy), .lddx = LD, .dweight = at(dw),
         .dbias = rms ? NULL : at(db), .work = at(work), .x_type = type, .dy_type = type,
         .dx_type = type);
    SAME(dx);
    SAME(dy);
    SAME_SUMS(dw);
    SAME_SUMS(db);
    twin all[] = {y, dy, dx, dw, db, work};
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) twin_free(&all[k]);
  }
  twin_free(&x), twin_free(&w), twin_free(&b);
}
TEST(norms) { each(check_norms); }

static void check_losses(void) {
  twin targets = integers(ROWS, 2, width);
  ((int32_t *)targets.at[0])[5] = -100;
  ((int32_t *)targets.at[0])[6] = width;
  cuda->write(gpu, targets.at[1], targets.at[0], targets.bytes);
  for (int smooth = 0; smooth < 2; smooth++) {
    twin x = rows(1, 4), loss = normals(ROWS, 3, 1);
    BOTH(loss, .rows = ROWS, .width = width - smooth, .x = at(x), .ldx = LD, .targets = at(targets),
         .smoothing = smooth ? 0.1f : 0, .scale = 0.25f, .loss = at(loss), .x_type = type);
    SAME(x);
    SAME_SUMS(loss);
    twin_free(&x), twin_free(&loss);
  }
  twin_free(&targets);
}
TEST(losses) { each(check_losses); }

/* What follows a product; weights of f32 and bf16. */
static void check_products(void) {
  enum { OUT = 72 };
  twin x = rows(1, 1), w = normals((size_t)OUT * width, 2, 0.1f), b = normals(OUT, 3, 1);
  for (int kind = 0; kind < 2; kind++) {
    const attend_weights weights = kind ? ATTEND_WEIGHTS_MIXED : ATTEND_WEIGHTS_F32;
    const attend_linear_part part = {.weight = w.at[0], .outputs = OUT, .bias = b.at[0]};
    attend_linear *packed;
    CHECK_EQ(attend_linear_create(host(), weights, width, 1, &part, &packed), ATTEND_OK);
    uint16_t *narrow = malloc(w.bytes);
    attend_convert_from_f32(ATTEND_BF16, w.at[0], w.bytes / 4, narrow);
    twin rounded = twin_of(narrow, w.bytes / 2);
    const attend_linear plain = {.kind = weights,
                                 .inputs = width,
                                 .outputs = OUT,
                                 .weights = kind ? rounded.at[1] : w.at[1],
                                 .bias = b.at[1]};
    twin y = rows(4, 1), onto = normals(ROWS * LD, 6, 1);
    twin from = normals(ROWS * LD, 7, 1);
    BOTH(linear, .linear = side ? &plain : packed, .rows = ROWS, .x = at(x), .ldx = LD, .y = at(y),
         .ldy = LD, .f = ATTEND_GELU_TANH, .x_type = type, .y_type = type);
    check_close("y", &y);
    BOTH(linear, .linear = side ? &plain : packed, .rows = ROWS, .x = at(x), .ldx = LD,
         .y = at(onto), .ldy = LD, .onto = at(onto), .ldo = LD, .from = at(from), .ldf = LD,
         .x_type = type);
    check_same("onto", &onto, ATTEND_F32, kind ? 6e-3 : 3e-5);
    twin all[] = {y, onto, from, rounded};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) twin_free(&all[i]);
    attend_linear_free(packed);
    free(narrow);
  }
  twin_free(&x), twin_free(&w), twin_free(&b);
}
TEST(products) { each(check_products); }

/* A row that does not fit in shared memory. */
TEST(long_rows) {
  enum { V = 70001, V_LD = 70016, N = 3 };
  const int32_t right[N] = {5, V - 1, 30000};
  twin targets = twin_of(right, sizeof right), loss = normals(N, 3, 1), x = normals(N * V_LD, 1, 3);
  type = ATTEND_F32;
  BOTH(loss, .rows = N, .width = V, .x = at(x), .ldx = V_LD, .targets = at(targets), .scale = 1,
       .loss = at(loss));
  SAME(x);
  SAME_SUMS(loss);
  twin_free(&targets), twin_free(&loss), twin_free(&x);
}

/* Of few ids and of more than a tile of rows; more entries than a digit, or than two, has. */
TEST(embeddings) {
  enum { MANY = 5000, W = 104 };
  static const int entries[] = {1, 30, 300, 70000};
  if (typed_reserve(host(), 6 * LD)) exit(1);
  for (int i = 0; i < 8; i++) {
    const int n = entries[i / 2];
    type = i % 2 ? ATTEND_BF16 : ATTEND_F32;
    width = W;
    twin ids = integers(MANY, 2, n + 1), table = normals((size_t)n * W, 1, 1), d = table;
    twin wide = normals(MANY * W, 3, 1);
    uint16_t *narrow = malloc(MANY * W * sizeof *narrow);
    attend_convert_from_f32(ATTEND_BF16, wide.at[0], MANY * W, narrow);
    twin dy = type ? twin_of(narrow, MANY * W * sizeof *narrow)
                   : twin_of(wide.at[0], MANY * W * sizeof(float));
    twin work = normals(embed_backward_bytes(MANY, W) / 4, 5, 0);
    ((int32_t *)ids.at[0])[3] = -1;
    cuda->write(gpu, ids.at[1], ids.at[0], ids.bytes);
    BOTH(embed_backward, .rows = MANY, .width = W, .entries = n, .ids = at(ids), .factor = 3,
         .dy = at(dy), .lddy = W, .dtable = at(d), .work = at(work), .dy_type = type);
    SAME_SUMS(d);
    twin all[] = {ids, table, wide, dy, work};
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) twin_free(&all[k]);
    free(narrow);
  }
}
