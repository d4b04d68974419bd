/* Ops on rows of bf16: what the op gives in f32 on the widened rows, rounded; for any number of
 * threads, and for more rows than are converted at once. What lies beside the rows stays. */
#include "device/device.h"
#include "kernel_fixtures.h"

enum { WIDTH = 70, HEADS = 5, LD = 83, MOST = 2100, ALL = MOST * LD, OPERANDS = 6 };

/* The same numbers as bf16, and widened. */
typedef struct {
  uint16_t *narrow;
  float *wide;
} twin;

/* Numbers of bf16 as both, drawn once. */
static const twin *drawn(int stream) {
  static twin all[OPERANDS];
  twin *t = &all[stream];
  if (t->wide) return t;
  *t = (twin){zeroed_block(ALL, sizeof *t->narrow), zeroed_block(ALL, sizeof *t->wide)};
  attend_random_normal((attend_random){7, (uint64_t)stream}, 0, ALL, t->wide);
  attend_convert_from_f32(ATTEND_BF16, t->wide, ALL, t->narrow);
  attend_convert_to_f32(ATTEND_BF16, t->narrow, ALL, t->wide);
  return t;
}

static bool is_rounded(const twin *t) {
  static uint16_t rounded[ALL];
  attend_convert_from_f32(ATTEND_BF16, t->wide, ALL, rounded);
  return !memcmp(rounded, t->narrow, sizeof rounded);
}

typedef struct {
  attend_context *ctx, *one;
  int rows;
  twin t[OPERANDS];
} fixture;

static void refresh(fixture *f) {
  for (int i = 0; i < OPERANDS; i++) {
    memcpy(f->t[i].narrow, drawn(i)->narrow, ALL * sizeof *f->t[i].narrow);
    memcpy(f->t[i].wide, drawn(i)->wide, ALL * sizeof *f->t[i].wide);
  }
}

static bool all_rounded(const fixture *f) {
  bool same = true;
  for (int i = 0; i < OPERANDS; i++) same &= is_rounded(&f->t[i]);
  return same;
}

/* Runs an op in bf16 and in f32: IN(i) is operand i, T its type. */
#define IN(i) (typed ? (void *)f->t[i].narrow : (void *)f->t[i].wide)
#define BOTH(name, ...)                                               \
  do {                                                                \
    refresh(f);                                                       \
    for (int typed = 0; typed < 2; typed++) {                         \
      const attend_dtype T = typed ? ATTEND_BF16 : ATTEND_F32;        \
      OP(typed ? f->ctx : f->one, name, __VA_ARGS__);                 \
    }                                                                 \
    if (!all_rounded(f)) CHECK_FAIL("%s of %d rows", #name, f->rows); \
  } while (0)

static void check_elementwise(fixture *f) {
  BOTH(activate, .f = ATTEND_GELU, .rows = f->rows, .width = WIDTH, .a = IN(0), .lda = LD,
       .y = IN(1), .ldy = LD, .a_type = T, .y_type = T);
  BOTH(activate, .f = ATTEND_SILU, .rows = f->rows, .width = WIDTH, .a = IN(0), .lda = LD,
       .b = IN(2), .ldb = LD, .y = IN(0), .ldy = LD, .a_type = T, .y_type = T);
  BOTH(activate_backward, .f = ATTEND_SILU, .rows = f->rows, .width = WIDTH, .a = IN(0), .lda = LD,
       .b = IN(1), .ldb = LD, .dy = IN(2), .lddy = LD, .da = IN(3), .ldda = LD, .db = IN(4),
       .lddb = LD, .y = IN(5), .ldy = LD, .a_type = T, .dy_type = T, .da_type = T);
  BOTH(add, .rows = f->rows, .width = WIDTH, .a = IN(0), .lda = LD, .b = IN(1), .ldb = LD,
       .y = IN(1), .ldy = LD, .a_type = T, .b_type = T, .y_type = T);
  BOTH(scale, .rows = f->rows, .width = WIDTH, .factor = 0.3f, .x = IN(0), .ldx = LD, .x_type = T);
  BOTH(soft_cap, .rows = f->rows, .width = WIDTH, .cap = 3, .x = IN(0), .ldx = LD, .x_type = T);
  BOTH(soft_cap_backward, .rows = f->rows, .width = WIDTH, .cap = 3, .y = IN(0), .ldy = LD,
       .dx = IN(1), .lddx = LD, .y_type = T, .dx_type = T);
  BOTH(dropout, .random = {3, 1}, .first = 40, .p = 0.3f, .rows = f->rows, .width = WIDTH,
       .x = IN(0), .ldx = LD, .x_type = T);
}

static void check_by_row(fixture *f) {
  static int32_t number[MOST];
  static float loss[2][MOST];
  const double frequency[] = {1, 0.1, 0.01, 0.003, 0.001, 0.0007, 0.0001};
  for (int i = 0; i < MOST; i++) number[i] = i * 7 % WIDTH;
  number[3] = -1;
  BOTH(loss, .rows = f->rows, .width = WIDTH, .x = IN(0), .ldx = LD, .targets = number,
       .smoothing = 0.1f, .scale = 0.5f, .loss = loss[typed], .x_type = T);
  CHECK(!memcmp(loss[0], loss[1], (size_t)f->rows * sizeof(float)));
  BOTH(rope, .frequency = frequency, .attention_factor = 1.5, .rows = f->rows, .heads = HEADS,
       .dim = WIDTH / HEADS, .position = number, .x = IN(0), .ldx = LD, .x_type = T);
  const attend_table table = {.data = pool, .entries = 50};
  for (int add = 0; add < 2; add++)
    BOTH(embed, .table = table, .rows = f->rows, .width = WIDTH, .ids = number, .offset = 1,
         .factor = 3, .add = add, .y = IN(0), .ldy = LD, .y_type = T);
  float sums[2][50 * WIDTH] = {{0}};
  BOTH(embed_backward, .rows = f->rows, .width = WIDTH, .entries = 50, .ids = number, .offset = 1,
       .factor = 3, .dy = IN(0), .lddy = LD, .dtable = sums[typed], .dy_type = T);
  CHECK(!memcmp(sums[0], sums[1], sizeof sums[0]));
  number[3] = 8; /* no row twice */
  for (int i = 0; i < f->rows; i++) number[i] = f->rows - 1 - i;
  for (int scatter = 0; scatter < 2; scatter++)
    BOTH(gather, .rows = f->rows, .width = WIDTH, .index = number, .factor = 2, .x = IN(0),
         .ldx = LD, .y = IN(1), .ldy = LD, .scatter = scatter, .x_type = T, .y_type = T);
}

static void check_norms(fixture *f) {
  for (int i = 0; i < 8; i++) {
    const bool rms = i & 1, add = i & 2;
    const int groups = i & 4 ? HEADS : 0, width = groups ? WIDTH / HEADS : WIDTH;
    float sums[2][2][WIDTH] = {{{0}}};
    void *work = zeroed_block(attend_norm_back_bytes(f->rows * HEADS, WIDTH), 1);
    BOTH(norm, .rms = rms, .rows = f->rows, .groups = groups, .width = width, .x = IN(0), .ldx = LD,
         .weight = pool, .bias = rms ? NULL : pool + WIDTH, .eps = 1e-5f, .y = IN(i & 2 ? 0 : 1),
         .ldy = LD, .x_type = T, .y_type = T);
    BOTH(norm_backward, .rms = rms, .add = add, .rows = f->rows, .groups = groups, .width = width,
         .x = IN(0), .ldx = LD, .weight = pool, .eps = 1e-5f, .dy = IN(1), .lddy = LD,
         .dx = IN(add ? 2 : 1), .lddx = LD, .dweight = sums[typed][0],
         .dbias = rms ? NULL : sums[typed][1], .work = work, .x_type = T, .dy_type = T,
         .dx_type = T);
    for (int j = 0; j < WIDTH; j++) { /* joined block by block */
      CHECK_NEAR((double)sums[1][0][j], (double)sums[0][0][j], 2e-3);
      CHECK_NEAR((double)sums[1][1][j], (double)sums[0][1][j], 2e-3);
    }
    free(work);
  }
}

static attend_linear *make_linear(attend_context *ctx, attend_weights kind, int outputs) {
  const attend_linear_part part = {.weight = pool, .outputs = outputs, .bias = pool + 100};
  attend_linear *l;
  OK(ctx, attend_linear_create(ctx, kind, WIDTH, 1, &part, &l));
  return l;
}

static void check_products(fixture *f) {
  static float onto[2][ALL], dw[2][WIDTH * WIDTH], db[2][WIDTH];
  for (int kind = 0; kind <= ATTEND_WEIGHTS_MIXED; kind++)
    for (int outputs = 64; outputs <= WIDTH; outputs += WIDTH - 64) {
      attend_linear *l = make_linear(f->ctx, (attend_weights)kind, outputs);
      BOTH(linear, .linear = l, .rows = f->rows, .x = IN(0), .ldx = LD, .y = IN(1), .ldy = LD,
           .f = ATTEND_GELU, .x_type = T, .y_type = T);
      BOTH(linear, .linear = l, .rows = f->rows, .x = IN(0), .ldx = LD, .y = IN(1), .ldy = LD,
           .add = true, .x_type = T, .y_type = T);
      memset(onto, 0, sizeof onto);
      BOTH(linear, .linear = l, .rows = f->rows, .x = IN(0), .ldx = LD, .y = onto[typed], .ldy = LD,
           .onto = onto[typed], .ldo = LD, .from = f->t[2].wide, .ldf = LD, .x_type = T);
      CHECK(!memcmp(onto[0], onto[1], sizeof onto[0]));
      attend_linear_free(l);
    }
  void *work = zeroed_block(attend_linear_weight_grad_bytes(f->ctx, f->rows, WIDTH, WIDTH), 1);
  memset(dw, 0, sizeof dw), memset(db, 0, sizeof db);
  BOTH(linear_grad, .rows = f->rows, .outputs = WIDTH, .inputs = WIDTH, .dy = IN(0), .lddy = LD,
       .x = IN(1), .ldx = LD, .dw = dw[typed], .db = db[typed], .work = work, .dy_type = T,
       .x_type = T);
  CHECK(!memcmp(dw[0], dw[1], sizeof dw[0])); /* blocks are whole stretches */
  for (int j = 0; j < WIDTH; j++) CHECK_NEAR((double)db[1][j], (double)db[0][j], 2e-3);
  free(work);
}

TEST(rows_of_bf16) {
  refill(1);
  FOR_EACH_ISA(isa)
  for (int threads = 1; threads <= 3; threads += 2) {
    fixture f = {open_context(isa, threads, NULL), open_context(isa, 1, NULL), 0, {{0}}};
    OK(f.ctx, typed_reserve(f.ctx, OPERANDS * LD));
    for (int i = 0; i < OPERANDS; i++)
      f.t[i] =
          (twin){zeroed_block(ALL, sizeof *f.t[i].narrow), zeroed_block(ALL, sizeof *f.t[i].wide)};
    for (f.rows = 1; f.rows <= MOST; f.rows += MOST / 2 - 1) {
      check_elementwise(&f);
      check_by_row(&f);
      check_norms(&f);
      check_products(&f);
    }
    for (int i = 0; i < OPERANDS; i++) free(f.t[i].narrow), free(f.t[i].wide);
    attend_context_free(f.ctx), attend_context_free(f.one);
  }
}
