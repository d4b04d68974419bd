/* Linear layers through the public door: parts as they come, all kinds of
 * weights, threads, memory that runs out. */
#include "attend/layers.h"
#include "layers/layers.h"
#include "layers/ops.h"
#include "attention_fixtures.h"

static const double eps = 0x1p-24;

enum { MOST_IN = 600, MOST_OUT = 320, MOST_ROWS = 40 };

typedef struct { /* a layer as a caller has it, and what it means */
  int inputs, outputs, n_parts;
  attend_linear_part part[4];
  void *stored[4];
  float bias[MOST_OUT];
  double value[MOST_OUT * MOST_IN]; /* [outputs][inputs], as stored */
} model;

static void uniform(float *x, size_t n, uint64_t stream) {
  attend_random_uniform((attend_random){81, stream}, 0, n, x);
  for (size_t i = 0; i < n; i++) x[i] = (x[i] - 0.5f) * 2;
}

/* One more part: by rows, by columns, or with gaps, in any storage. */
static void add_part(model *m, int outputs, attend_dtype dtype, int way, int biased) {
  int in = m->inputs, p = m->n_parts++;
  ptrdiff_t row = way == 1 ? 1 : way == 2 ? 2 * in + 3 : in;
  ptrdiff_t col = way == 1 ? outputs + 2 : way == 2 ? 2 : 1;
  size_t size = attend_dtype_size(dtype);
  float *x = zeroed_block((size_t)(outputs * in), 4);
  uniform(x, (size_t)(outputs * in), (uint64_t)(p + 1));
  m->stored[p] = zeroed_block((size_t)((outputs + 2) * (2 * in + 3)), size);
  for (int o = 0; o < outputs; o++)
    for (int i = 0; i < in; i++) {
      char *at = (char *)m->stored[p] + (size_t)(o * row + i * col) * size;
      float backward, w = x[o * in + i] * (o % 3 ? 1 : 0.1f);
      attend_convert_from_f32(dtype, &w, 1, at);
      attend_convert_to_f32(dtype, at, 1, &backward);
      m->value[(m->outputs + o) * MOST_IN + i] = (double)backward;
    }
  uniform(m->bias + m->outputs, (size_t)outputs, 77);
  m->part[p] = (attend_linear_part){.weight = m->stored[p],
                                    .dtype = dtype,
                                    .outputs = outputs,
                                    .output_stride = way ? row : 0,
                                    .input_stride = way ? col : 0,
                                    .bias = biased ? m->bias + m->outputs : NULL};
  if (!biased) memset(m->bias + m->outputs, 0, (size_t)outputs * 4);
  m->outputs += outputs;
  free(x);
}

static void drop(model *m) {
  for (int p = 0; p < m->n_parts; p++) free(m->stored[p]);
  m->n_parts = m->outputs = 0;
}

static attend_linear *make(attend_context *ctx, attend_weights kind, const model *m) {
  attend_linear *l = NULL;
  OK(ctx, attend_linear_create(ctx, kind, m->inputs, m->n_parts, m->part, &l));
  return l;
}

/* What a weight may have lost; int8: half of one step for the whole output. */
static double lost(const model *m, attend_weights kind, int o, int i) {
  const double *w = m->value + o * MOST_IN;
  double max = 0;
  if (kind == ATTEND_WEIGHTS_F32) return 0;
  if (kind == ATTEND_WEIGHTS_BF16) return fabs(w[i]) * 0x1p-8;
  for (i = 0; i < m->inputs; i++) max = fmax(max, fabs(w[i]));
  return max / 127 * 0.501;
}

static void check_output(const model *m, attend_weights kind, const float *x, int o, float y) {
  double sum = (double)m->bias[o], size = 1, loss = 0, step = lost(m, kind, o, 0);
  for (int i = 0; i < m->inputs; i++) {
    double w = m->value[o * MOST_IN + i], a = (double)x[i];
    if (kind == ATTEND_WEIGHTS_BF16) step = lost(m, kind, o, i);
    sum += w * a;
    size += fabs(w * a) * sqrt(m->inputs + 4.0);
    loss += step * fabs(a);
  }
  CHECK_NEAR((double)y, sum, loss + 3 * eps * size);
}

static void check_layer(attend_context *ctx, const model *m, attend_weights kind, int rows) {
  static float x[MOST_ROWS * MOST_IN], y[MOST_ROWS * (MOST_OUT + 16)];
  static float tight[MOST_ROWS * MOST_OUT + 1];
  int wide = (m->outputs + 15) / 16 * 16, ldx = m->inputs + 1, ldy = wide + 1;
  uniform(x, MOST_ROWS * MOST_IN, 50);
  for (size_t i = 0; i < sizeof y / sizeof *y; i++) y[i] = -77;
  attend_linear *l = make(ctx, kind, m);
  CHECK_EQ(attend_linear_outputs(l), m->outputs);
  CHECK_EQ(attend_linear_inputs(l), m->inputs);
  attend_linear_forward(l, rows, x, ldx, y, ldy);
  for (int r = 0; r < rows; r++) {
    for (int o = 0; o < m->outputs; o++) check_output(m, kind, x + r * ldx, o, y[r * ldy + o]);
    for (int o = m->outputs; o < wide; o++) CHECK(y[r * ldy + o] == 0);
    CHECK(y[r * ldy + wide] == -77); /* nothing beyond */
  }
  const int n = m->outputs; /* the same without padding by zeros */
  tight[rows * n] = -77;
  attend_linear_forward(l, rows, x, ldx, tight, n);
  for (int r = 0; r < rows; r++) CHECK(!memcmp(tight + r * n, y + r * ldy, (size_t)n * sizeof *y));
  CHECK(tight[rows * n] == -77);
  attend_linear_free(l);
}

TEST(layers_of_one_part) {
  static const int in[] = {1, 3, 16, 255, 256, 257, 600};
  static const int out[] = {1, 15, 16, 17, 100};
  static model m;
  attend_context *ctx = open_context(NULL, 1, NULL);
  for (int n = 0; n < 7 * 5 * 17; n++) {
    if (n % (light() ? 29 : 7)) continue;
    m.inputs = in[n / 17 % 7];
    add_part(&m, out[n / 119], (attend_dtype)(n % 3), n / 7 % 3, n / 21 % 2);
    for (int kind = 0; kind < 3; kind++) check_layer(ctx, &m, (attend_weights)kind, 1 + n % 17);
    drop(&m);
  }
  attend_context_free(ctx);
}

TEST(parts_follow_each_other) {
  static model m;
  FOR_EACH_ISA(isa) {
    attend_context *ctx = open_context(isa, 2, NULL);
    for (int n = 0; n < (light() ? 4 : 12); n++) {
      m.inputs = n % 2 ? 40 : 65;
      add_part(&m, 1 + n * 5, ATTEND_F32, n % 3, 1);
      add_part(&m, 3, ATTEND_BF16, (n + 1) % 3, 0); /* within one lane */
      add_part(&m, 100, ATTEND_F16, (n + 2) % 3, n % 2);
      add_part(&m, 16 + n, ATTEND_F32, 1, 1);
      for (int kind = 0; kind < 3; kind++) check_layer(ctx, &m, (attend_weights)kind, 5 + n);
      drop(&m);
    }
    attend_context_free(ctx);
  }
}

/* Rows of any batch on any number of threads, and every set with fma: the same
 * bits. */
TEST(bits_depend_on_nothing_else) {
  static model m;
  static float x[MOST_ROWS * MOST_IN], y[MOST_ROWS * MOST_OUT];
  static float want[3][MOST_ROWS * MOST_OUT];
  enum { LDY = 304 };
  int known = 0;
  m.inputs = 330;
  add_part(&m, 290, ATTEND_F32, 0, 1);
  uniform(x, MOST_ROWS * MOST_IN, 51);
  FOR_EACH_ISA(isa) {
    if (!strcmp(isa, "scalar")) continue;
    attend_context *ctx = open_context(isa, 1, NULL);
    for (int kind = 0; kind < 3; kind++) {
      attend_linear *l = make(ctx, (attend_weights)kind, &m);
      OK(ctx, attend_context_set_threads(ctx, 1));
      if (!known)
        for (int r = 0; r < MOST_ROWS; r++)
          attend_linear_forward(l, 1, x + r * 330, 330, want[kind] + r * LDY, LDY);
      for (int rows = 1; rows <= MOST_ROWS; rows += light() ? 13 : 1)
        for (int threads = 1; threads <= 3; threads++) {
          OK(ctx, attend_context_set_threads(ctx, threads));
          memset(y, 0xff, sizeof y);
          attend_linear_forward(l, rows, x, 330, y, LDY);
          CHECK(!memcmp(y, want[kind], (size_t)(rows * LDY) * sizeof *y));
        }
      attend_linear_free(l);
    }
    known = 1;
    attend_context_free(ctx);
  }
  drop(&m);
}

/* One op with f, from and onto, and three ops: the same bits. */
static void check_ends(attend_context *ctx, const attend_linear *l, int rows, const float *x) {
  enum { LDY = 304 };
  static float y[2][MOST_ROWS * MOST_OUT], onto[2][MOST_ROWS * MOST_OUT];
  struct op_linear o = {.linear = l, .rows = rows, .x = x, .ldx = 330};
  o.ldy = o.ldo = LDY;
  for (int i = 0; i < 2; i++) {
    memset(y[i], 0xff, sizeof y[i]);
    uniform(onto[i], MOST_ROWS * MOST_OUT, 52);
  }
  o.y = y[0];
  cpu_linear(ctx, &o);
  attend_activate(ctx, ATTEND_GELU_TANH, rows, 290, y[0], LDY, y[0], LDY);
  attend_add(ctx, rows, 290, onto[0], LDY, y[0], LDY, onto[0], LDY);
  o.y = y[1], o.f = ATTEND_GELU_TANH, o.onto = onto[1];
  cpu_linear(ctx, &o);
  CHECK(!memcmp(y[0], y[1], sizeof y[0]));
  CHECK(!memcmp(onto[0], onto[1], sizeof onto[0]));
  attend_add(ctx, rows, 290, onto[0], LDY, y[0], LDY, onto[0], LDY);
  o.y = y[1], o.onto = y[1], o.from = onto[1], o.ldf = LDY;
  cpu_linear(ctx, &o);
  for (int r = 0; r < rows; r++)
    CHECK(!memcmp(onto[0] + r * LDY, y[1] + r * LDY, 290 * sizeof(float)));
}

TEST(activating_and_adding_in_one_op) {
  static model m;
  static float x[MOST_ROWS * MOST_IN];
  m.inputs = 330;
  add_part(&m, 290, ATTEND_F32, 0, 1);
  uniform(x, MOST_ROWS * MOST_IN, 51);
  attend_context *ctx = open_context(NULL, 3, NULL);
  for (int kind = 0; kind < 3; kind++) {
    attend_linear *l = make(ctx, (attend_weights)kind, &m);
    for (int threads = 1; threads <= 3; threads += 2)
      for (int rows = 1; rows <= MOST_ROWS; rows += 13) {
        OK(ctx, attend_context_set_threads(ctx, threads));
        check_ends(ctx, l, rows, x);
      }
    attend_linear_free(l);
  }
  attend_context_free(ctx);
  drop(&m);
}

/* A token's time is that of the thread that reads most. */
TEST(threads_read_equally_much_for_few_rows) {
  attend_context *ctx = open_context(NULL, 16, NULL);
  const int lanes[] = {16, 48, 144, 192, 3142};
  for (int i = 0; i < 5; i++)
    for (int rows = 1; rows <= 2; rows++) {
      grid g = choose_grid(ctx, rows, 768, lanes[i]);
      CHECK_EQ(g.by_rows, 1);
      const int parts = lanes[i] < 48 ? lanes[i] : 48; /* three a thread */
      CHECK_EQ(g.by_lanes, parts);
      for (int p = 0; p < parts; p++) {
        cell c = grid_cell(g, p, rows, lanes[i]);
        CHECK(c.t1 - c.t0 >= lanes[i] / parts && c.t1 - c.t0 <= lanes[i] / parts + 1);
      }
    }
  attend_context_free(ctx);
}

TEST(zeros_stay_zeros) {
  float w[20 * 7] = {0}, x[7] = {1, NAN, -INFINITY, 4, 5, 6, 7}, y[32];
  attend_linear_part part = {.weight = w, .outputs = 20};
  attend_context *ctx = open_context(NULL, 1, NULL);
  for (int kind = 0; kind < 3; kind++) {
    attend_linear *l;
    OK(ctx, attend_linear_create(ctx, (attend_weights)kind, 7, 1, &part, &l));
    attend_linear_forward(l, 1, x, 7, y, 32);
    for (int i = 20; i < 32; i++) CHECK(y[i] == 0); /* whatever x is */
    x[1] = x[2] = 2;
    attend_linear_forward(l, 1, x, 7, y, 32);
    for (int i = 0; i < 32; i++) CHECK(y[i] == 0);
    x[1] = NAN;
    attend_linear_free(l);
  }
  attend_context_free(ctx);
}

/* ---- what goes wrong ------------------------------------------------------------------ */

TEST(memory_runs_out) {
  static model m;
  m.inputs = 50;
  add_part(&m, 70, ATTEND_F32, 0, 1);
  for (int kind = 0; kind < 3; kind++) {
    ledger memory = {0};
    attend_context *ctx = open_context(NULL, 2, &memory);
    attend_status status = ATTEND_NO_MEMORY;
    long live = memory.live, n = 0;
    while (status && n < 10) {
      attend_linear *l = (attend_linear *)&m;
      memory.fail_at = memory.taken + ++n;
      status = attend_linear_create(ctx, (attend_weights)kind, 50, 1, m.part, &l);
      memory.fail_at = 0;
      if (!status) attend_linear_free(l);
      CHECK_EQ(memory.live, live);
      if (!status) break;
      CHECK_EQ(status, ATTEND_NO_MEMORY);
      CHECK(!l);
      CHECK_SAYS(attend_message(ctx), "no memory for");
    }
    /* the layer, its weights, the scratch where it narrows; then none fails */
    CHECK_EQ(n, kind ? 4 : 3);
    attend_linear_free(NULL);
    attend_context_free(ctx);
  }
  drop(&m);
}

/* A forward takes no memory. */
TEST(forward_takes_nothing) {
  static model m;
  static float x[MOST_ROWS * 50], y[MOST_ROWS * 80];
  ledger memory = {0};
  attend_context *ctx = open_context(NULL, 2, &memory);
  m.inputs = 50;
  add_part(&m, 70, ATTEND_F32, 0, 1);
  attend_linear *l = make(ctx, ATTEND_WEIGHTS_BF16, &m);
  long taken = memory.taken;
  for (int rows = 0; rows <= MOST_ROWS; rows++) attend_linear_forward(l, rows, x, 50, y, 80);
  CHECK_EQ(memory.taken, taken);
  CHECK(attend_linear_bytes(l) >= 50 * 80 * 2);
  attend_linear_free(l);
  attend_context_free(ctx);
  CHECK_EQ(memory.live, 0);
  drop(&m);
}

TEST(wrong_layers_are_refused) {
  attend_context *ctx = open_context(NULL, 1, NULL);
  float w[4] = {0};
  attend_linear_part part = {.weight = w, .outputs = 2};
  attend_linear *l;
  CHECK_EQ(attend_linear_create(ctx, ATTEND_WEIGHTS_F32, 0, 1, &part, &l), ATTEND_INVALID);
  CHECK_SAYS(attend_message(ctx), "0 inputs");
  CHECK_EQ(attend_linear_create(ctx, ATTEND_WEIGHTS_F32, 2, 0, &part, &l), ATTEND_INVALID);
  CHECK_EQ(attend_linear_create(ctx, (attend_weights)7, 2, 1, &part, &l), ATTEND_INVALID);
  part.outputs = 0;
  CHECK_EQ(attend_linear_create(ctx, ATTEND_WEIGHTS_I8, 2, 1, &part, &l), ATTEND_INVALID);
  CHECK_SAYS(attend_message(ctx), "0 outputs");
  part.outputs = 2, part.weight = NULL;
  CHECK_EQ(attend_linear_create(ctx, ATTEND_WEIGHTS_I8, 2, 1, &part, &l), ATTEND_INVALID);
  CHECK(!l);
  attend_context_free(ctx);
}

/* ---- what has been read --------------------------------------------------------- */

static size_t freed;
static const char *freed_until;

static void read_on(const void *from, size_t bytes, void *user) {
  if (freed == 0) freed_until = user;
  CHECK((const char *)from == freed_until);
  freed_until = (const char *)from + bytes;
  freed += bytes;
}

TEST(weights_are_told_once_in_order) {
  enum { IN = 96, OUT = 40000 };
  attend_context *ctx = open_context(NULL, 2, NULL);
  float *w = calloc((size_t)IN * OUT, sizeof *w);
  attend_linear_part part = {.weight = w, .outputs = OUT, .packed = read_on, .user = w};
  attend_linear *l;
  freed = 0;
  OK(ctx, attend_linear_create(ctx, ATTEND_WEIGHTS_F32, IN, 1, &part, &l));
  CHECK_EQ(freed, (size_t)IN * OUT * sizeof *w);
  attend_linear_free(l);
  part.output_stride = 1; /* turned: no stretch of memory is done before all */
  part.input_stride = OUT;
  freed = 0;
  OK(ctx, attend_linear_create(ctx, ATTEND_WEIGHTS_F32, IN, 1, &part, &l));
  CHECK_EQ(freed, 0);
  attend_linear_free(l);
  attend_context_free(ctx);
  free(w);
}
