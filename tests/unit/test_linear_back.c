/* Gradients of linear layers: of the weights against double, back through the
 * layer, added products, new weights in old memory. */
#include "attend/layers.h"
#include "kernel_fixtures.h"

static void uniform(float *x, size_t n, uint64_t stream) {
  attend_random_uniform((attend_random){83, stream}, 0, n, x);
  for (size_t i = 0; i < n; i++) x[i] = (x[i] - 0.5f) * 2;
}

static float *some(size_t n, uint64_t stream) {
  float *x = zeroed_block(n, sizeof *x);
  uniform(x, n, stream);
  return x;
}

/* ---- the weights' gradients ----------------------------------------------------------- */

typedef struct {
  int rows, outputs, inputs, turned, add, biased;
} problem;

typedef struct { /* what belongs to one problem; every row has a gap behind it */
  float *dy, *x, *dw, *was, *db, *db_was;
  int lddy, ldx, lddw, m, n;
  size_t dw_size;
} gradients;

static gradients prepare(const problem *p) {
  gradients g = {.lddy = p->outputs + 3, .ldx = p->inputs + 1};
  g.m = p->turned ? p->inputs : p->outputs;
  g.n = p->turned ? p->outputs : p->inputs;
  g.lddw = g.n + 2;
  g.dw_size = (size_t)(g.m * g.lddw);
  g.dy = some((size_t)(p->rows * g.lddy), 1);
  g.x = some((size_t)(p->rows * g.ldx), 2);
  g.dw = some(g.dw_size, 3);
  g.was = some(g.dw_size, 3);
  g.db = some((size_t)p->outputs + 1, 4);
  g.db_was = some((size_t)p->outputs + 1, 4);
  for (int r = 0; r < p->rows; r++) { /* what is not there is not read */
    for (int i = p->outputs; i < g.lddy; i++) g.dy[r * g.lddy + i] = NAN;
    for (int i = p->inputs; i < g.ldx; i++) g.x[r * g.ldx + i] = NAN;
  }
  return g;
}

static void drop(gradients *g) {
  free(g->dy), free(g->x), free(g->dw), free(g->was), free(g->db);
  free(g->db_was);
}

static void run(attend_context *ctx, const problem *p, gradients *g) {
  size_t bytes = attend_linear_weight_grad_bytes(ctx, p->rows, p->outputs, p->inputs);
  char *work = zeroed_block(bytes + 5, 1);
  memset(work + bytes, 77, 5);
  memcpy(g->dw, g->was, g->dw_size * sizeof *g->dw);
  memcpy(g->db, g->db_was, (size_t)(p->outputs + 1) * sizeof *g->db);
  attend_linear_weight_grad(ctx, ATTEND_WEIGHTS_F32, p->rows, p->outputs, p->inputs, g->dy, g->lddy,
                            g->x, g->ldx, p->turned, p->add, g->dw, g->lddw,
                            p->biased ? g->db : NULL, work);
  for (int i = 0; i < 5; i++) CHECK(work[bytes + (size_t)i] == 77);
  free(work);
}

/* A chain of fma for each 256 rows, then their sums. */
static void check_weights(const problem *p, const gradients *g) {
  for (int i = 0; i < g->m; i++)
    for (int j = 0; j < g->lddw; j++) {
      double was = (double)g->was[i * g->lddw + j], sum = 0, size = 1;
      double got = (double)g->dw[i * g->lddw + j];
      if (j >= g->n) CHECK(got == was); /* nothing between the rows is touched */
      if (j >= g->n) continue;
      int o = p->turned ? j : i, in = p->turned ? i : j;
      for (int r = 0; r < p->rows; r++) {
        double term = (double)g->dy[r * g->lddy + o] * (double)g->x[r * g->ldx + in];
        sum += term;
        size += fabs(term);
      }
      CHECK_NEAR(got, sum + (p->add ? was : 0), 2 * eps * sqrt(p->rows + 4.0) * size);
    }
}

static void check_biases(const problem *p, const gradients *g) {
  for (int o = 0; o <= p->outputs; o++) {
    double was = (double)g->db_was[o], sum = 0, size = 1;
    double got = (double)g->db[o];
    if (o == p->outputs || !p->biased) CHECK(got == was);
    if (o == p->outputs || !p->biased) continue;
    for (int r = 0; r < p->rows; r++) {
      sum += (double)g->dy[r * g->lddy + o];
      size += fabs((double)g->dy[r * g->lddy + o]);
    }
    CHECK_NEAR(got, sum + (p->add ? was : 0), 8 * eps * size);
  }
}

TEST(weight_gradients) {
  static const int rows[] = {0, 1, 7, 256, 300, 4400};
  static const int wide[] = {1, 15, 16, 17, 100, 213, 513};
  FOR_EACH_ISA(isa) {
    attend_context *ctx = open_context(isa, 2, NULL);
    for (int n = 0; n < 6 * 49 * 8; n++) {
      problem p = {rows[n % 6], wide[n / 6 % 7], wide[n / 42 % 7],
                   n / 294 % 2, n / 588 % 2,     n / 1176};
      double work = (double)p.rows * p.outputs * p.inputs;
      if (n % (light() ? 211 : 17) || work > (light() ? 3e6 : 6e7)) continue;
      gradients g = prepare(&p);
      run(ctx, &p, &g);
      check_weights(&p, &g);
      check_biases(&p, &g);
      drop(&g);
    }
    attend_context_free(ctx);
  }
}

/* Stored turned or not, on any number of threads, by any set with fma. */
TEST(weight_gradients_have_the_same_bits) {
  static const int shapes[][3] = {{300, 100, 513}, {700, 513, 17}, {5000, 33, 40}, {7, 600, 200}};
  for (int s = 0; s < (light() ? 2 : 4); s++) {
    problem p = {shapes[s][0], shapes[s][1], shapes[s][2], 0, 1, 1};
    problem turned = p;
    turned.turned = 1;
    gradients known = prepare(&p), g = prepare(&p), t = prepare(&turned);
    for (int i = 0; i < g.m; i++)
      for (int j = 0; j < g.n; j++) t.was[j * t.lddw + i] = g.was[i * g.lddw + j];
    const char *of = NULL;
    FOR_EACH_ISA(isa)
    for (int threads = 1; threads <= 7; threads += threads == 3 ? 4 : 1) {
      attend_context *ctx = open_context(isa, threads, NULL);
      bool first = threads == 1 && (!of || !strcmp(of, "scalar"));
      run(ctx, &p, first ? &known : &g);
      if (first) of = isa, run(ctx, &p, &g);
      run(ctx, &turned, &t);
      CHECK(!memcmp(g.dw, known.dw, g.dw_size * sizeof *g.dw));
      CHECK(!memcmp(g.db, known.db, (size_t)p.outputs * sizeof *g.db));
      CHECK(!memcmp(t.db, known.db, (size_t)p.outputs * sizeof *g.db));
      for (int i = 0; i < g.m; i++)
        for (int j = 0; j < g.n; j++) CHECK(same(t.dw[j * t.lddw + i], g.dw[i * g.lddw + j]));
      attend_context_free(ctx);
    }
    drop(&known), drop(&g), drop(&t);
  }
}

/* A chunk of 4096 rows at a time is the same as all at once; and so are calls
 * that follow each other at a multiple of 256 rows. */
TEST(weight_gradients_may_come_in_pieces) {
  enum { ROWS = 4608, OUT = 20, IN = 35 };
  float *dy = some(ROWS * OUT, 1), *x = some(ROWS * IN, 2);
  float dw[OUT * IN], pieces[OUT * IN];
  FOR_EACH_ISA(isa) {
    attend_context *ctx = open_context(isa, 2, NULL);
    void *work = zeroed_block(attend_linear_weight_grad_bytes(ctx, ROWS, OUT, IN), 1);
    CHECK_EQ(attend_linear_weight_grad_bytes(ctx, 1 << 30, OUT, IN),
             attend_linear_weight_grad_bytes(ctx, 4096, OUT, IN));
    attend_linear_weight_grad(ctx, ATTEND_WEIGHTS_F32, ROWS, OUT, IN, dy, OUT, x, IN, 0, 0, dw, IN,
                              NULL, work);
    for (int r = 0; r < ROWS; r += 512)
      attend_linear_weight_grad(ctx, ATTEND_WEIGHTS_F32, 512, OUT, IN, dy + r * OUT, OUT,
                                x + r * IN, IN, 0, r > 0, pieces, IN, NULL, work);
    CHECK(!memcmp(dw, pieces, sizeof dw));
    free(work);
    attend_context_free(ctx);
  }
  free(dy), free(x);
}

/* ---- back through the layer, and products that are added --------------------------------- */

enum { IN = 53, OUT = 70, OUT_WIDE = 80, IN_WIDE = 64, ROWS = 40 };

typedef struct { /* q, k, v of one input, as they may be stored */
  float *w[3];
  attend_linear_part part[3];
  double value[OUT][IN];
} parts;

static parts make_parts(uint64_t stream) {
  static const int outputs[3] = {32, 5, 33};
  parts p;
  for (int n = 0, at = 0; n < 3; at += outputs[n++]) {
    int turned = n == 1, out = outputs[n];
    p.w[n] = some((size_t)(out * IN), stream + (uint64_t)n);
    p.part[n] = (attend_linear_part){.weight = p.w[n],
                                     .outputs = out,
                                     .output_stride = turned ? 1 : 0,
                                     .input_stride = turned ? out : 0,
                                     .bias = n < 2 ? pool + at : NULL};
    for (int i = 0; i < out * IN; i++) {
      int o = turned ? i % out : i / IN, in = turned ? i / out : i % IN;
      p.value[at + o][in] = (double)p.w[n][i];
    }
  }
  return p;
}

static void drop_parts(parts *p) {
  for (int n = 0; n < 3; n++) free(p->w[n]);
}

/* Relative to sums of |w dy|: bf16 has 8 bits, int8 a step of its column's
 * largest. */
static const double lost[3] = {1e-6, 0x1p-8, 0.01};

static void check_backward(const parts *p, int kind, const float *dy, int lddy, const float *was,
                           const float *dx) {
  for (int r = 0; r < ROWS; r++)
    for (int i = 0; i < IN_WIDE; i++) {
      double sum = 0, size = 0;
      for (int o = 0; o < OUT && i < IN; o++) {
        sum += (double)dy[r * lddy + o] * p->value[o][i];
        size += fabs((double)dy[r * lddy + o]);
      }
      if (i >= IN) CHECK(dx[r * IN_WIDE + i] == 0);
      double had = was && i < IN ? (double)was[r * IN_WIDE + i] : 0;
      CHECK_NEAR((double)dx[r * IN_WIDE + i], sum + had, lost[kind] * (size + 1));
    }
}

TEST(gradients_go_back_through_layers) {
  refill(1);
  parts p = make_parts(10);
  float *dy = some(ROWS * (OUT + 1), 20), *was = some(ROWS * IN_WIDE, 21);
  static float dx[ROWS * IN_WIDE];
  FOR_EACH_ISA(isa)
  for (int kind = 0; kind < 3; kind++) {
    attend_context *ctx = open_context(isa, 2, NULL);
    attend_linear *back;
    OK(ctx, attend_linear_create_backward(ctx, (attend_weights)kind, IN, 3, p.part, &back));
    CHECK_EQ(attend_linear_inputs(back), OUT);
    CHECK_EQ(attend_linear_outputs(back), IN);
    memset(dx, 0xff, sizeof dx);
    attend_linear_forward(back, ROWS, dy, OUT + 1, dx, IN_WIDE);
    check_backward(&p, kind, dy, OUT + 1, NULL, dx);
    memcpy(dx, was, sizeof dx);
    attend_linear_forward_add(back, ROWS, dy, OUT + 1, dx, IN_WIDE);
    check_backward(&p, kind, dy, OUT + 1, was, dx);
    attend_linear_free(back);
    attend_context_free(ctx);
  }
  free(dy), free(was);
  drop_parts(&p);
}

/* Added or not, a row depends on itself alone. */
TEST(added_products_have_the_same_bits) {
  refill(1);
  enum { DEEP = 600 };
  float *w = some(OUT * DEEP, 5), *x = some(ROWS * DEEP, 6);
  static float was[ROWS * OUT_WIDE], y[ROWS * OUT_WIDE], known[3][ROWS * OUT_WIDE];
  uniform(was, ROWS * OUT_WIDE, 7);
  attend_linear_part part = {.weight = w, .outputs = OUT, .bias = pool};
  bool any = false;
  FOR_EACH_ISA(isa)
  for (int kind = 0; kind < 3 && strcmp(isa, "scalar"); any |= ++kind == 3)
    for (int threads = 1; threads <= 7; threads += threads == 3 ? 4 : 1) {
      attend_context *ctx = open_context(isa, threads, NULL);
      attend_linear *l;
      OK(ctx, attend_linear_create(ctx, (attend_weights)kind, DEEP, 1, &part, &l));
      if (!any && threads == 1) {
        memcpy(known[kind], was, sizeof was);
        for (int r = 0; r < ROWS; r++)
          attend_linear_forward_add(l, 1, x + r * DEEP, DEEP, known[kind] + r * OUT_WIDE, OUT_WIDE);
      }
      memcpy(y, was, sizeof y);
      attend_linear_forward_add(l, ROWS, x, DEEP, y, OUT_WIDE);
      CHECK(!memcmp(y, known[kind], sizeof y));
      attend_linear_forward(l, ROWS, x, DEEP, y, OUT_WIDE);
      for (int i = 0; i < ROWS * OUT_WIDE; i++)
        if (i % OUT_WIDE < OUT)
          CHECK_NEAR((double)known[kind][i], (double)y[i] + (double)was[i],
                     1e-5 * (1 + fabs((double)y[i])));
      attend_linear_free(l);
      attend_context_free(ctx);
    }
  free(w), free(x);
}

/* ---- new weights --------------------------------------------------------------------------- */

TEST(repacked_layers_are_as_new) {
  refill(1);
  float *x = some(ROWS * OUT, 30);
  static float y[ROWS * OUT_WIDE], z[ROWS * OUT_WIDE];
  for (int way = 0; way < 6; way++) {
    int kind = way % 3, back = way / 3;
    ledger memory = {0};
    attend_context *ctx = open_context(NULL, 2, &memory);
    parts old = make_parts(40), new = make_parts(50);
    new.part[0].bias = NULL;
    new.part[2].bias = pool + 99;
    attend_linear *l, *fresh;
    attend_status (*create)(attend_context *, attend_weights, int, int, const attend_linear_part *,
                            attend_linear **) =
        back ? attend_linear_create_backward : attend_linear_create;
    OK(ctx, create(ctx, (attend_weights)kind, IN, 3, old.part, &l));
    OK(ctx, create(ctx, (attend_weights)kind, IN, 3, new.part, &fresh));
    long taken = memory.taken, live = memory.live;
    OK(ctx, attend_linear_repack(l, 3, new.part));
    CHECK_EQ(memory.live, live);
    if (kind == 0 && back) CHECK_EQ(memory.taken, taken);
    attend_linear_forward(l, ROWS, x, OUT, y, OUT_WIDE);
    attend_linear_forward(fresh, ROWS, x, OUT, z, OUT_WIDE);
    int wide = back ? IN_WIDE : OUT_WIDE;
    for (int r = 0; r < ROWS; r++)
      CHECK(!memcmp(y + r * OUT_WIDE, z + r * OUT_WIDE, (size_t)wide * sizeof *y));
    CHECK_EQ(attend_linear_repack(l, 2, new.part), ATTEND_INVALID);
    CHECK_SAYS(attend_message(ctx), "give as many as it was made with");
    attend_linear_free(l), attend_linear_free(fresh);
    attend_context_free(ctx);
    CHECK_EQ(memory.live, 0);
    drop_parts(&old), drop_parts(&new);
  }
  free(x);
}
