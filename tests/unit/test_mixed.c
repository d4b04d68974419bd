/* Linear layers in mixed precision: where both sides are bf16 numbers already, only
 * the sums are rounded; and a row is the same whatever rides along. */
#include "attend/layers.h"
#include "kernel_fixtures.h"

/* Numbers that bf16 holds. */
static float *some(size_t n, uint64_t stream) {
  float *x = zeroed_block(n, sizeof *x);
  uint16_t half;
  attend_random_normal((attend_random){91, stream}, 0, n, x);
  for (size_t i = 0; i < n; i++) {
    attend_convert_from_f32(ATTEND_BF16, &x[i], 1, &half);
    attend_convert_to_f32(ATTEND_BF16, &half, 1, &x[i]);
  }
  return x;
}

static int padded(int n) { return (n + 15) / 16 * 16; }

typedef struct {
  int rows, inputs, outputs;
} shape;

static const shape shapes[] = {{1, 1, 1},      {3, 31, 17},   {16, 32, 16},   {17, 33, 48},
                               {40, 256, 100}, {33, 257, 31}, {200, 300, 70}, {400, 64, 513}};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static attend_linear *layer(attend_context *ctx, const shape *s, bool backward, const float *w,
                            const float *bias) {
  attend_linear *l;
  attend_linear_part part = {
      .weight = w, .dtype = ATTEND_F32, .outputs = s->outputs, .bias = backward ? NULL : bias};
  OK(ctx, (backward ? attend_linear_create_backward : attend_linear_create)(
              ctx, ATTEND_WEIGHTS_MIXED, s->inputs, 1, &part, &l));
  return l;
}

/* y = x W^T + b against double, alone and added to what is there. */
static void check_forward(attend_context *ctx, const shape *s) {
  size_t in = (size_t)s->inputs, out = (size_t)s->outputs;
  int ldx = s->inputs + 3, ldy = padded(s->outputs) + 16;
  float *w = some(in * out, 1), *bias = some(out, 2);
  float *x = some((size_t)(s->rows * ldx), 3);
  float *y = zeroed_block((size_t)(s->rows * ldy), sizeof *y);
  for (int r = 0; r < s->rows; r++)
    for (int i = s->inputs; i < ldx; i++) x[r * ldx + i] = NAN;
  attend_linear *l = layer(ctx, s, false, w, bias);
  for (int add = 0; add < 2; add++) {
    for (int i = 0; i < s->rows * ldy; i++) y[i] = 5;
    (add ? attend_linear_forward_add : attend_linear_forward)(l, s->rows, x, ldx, y, ldy);
    for (int r = 0; r < s->rows; r++)
      for (int o = 0; o < s->outputs; o++) {
        double sum = (double)bias[o] + (add ? 5 : 0), size = fabs(sum) + 1;
        for (int i = 0; i < s->inputs; i++) {
          double term = (double)x[r * ldx + i] * (double)w[o * s->inputs + i];
          sum += term, size += fabs(term);
        }
        CHECK_NEAR((double)y[r * ldy + o], sum, 4 * eps * size);
      }
    for (int r = 0; r < s->rows; r++) CHECK(y[r * ldy + ldy - 1] == 5);
  }
  attend_linear_free(l);
  free(w), free(bias), free(x), free(y);
}

/* dX = dY W, and dW = dY^T X, plain and turned. */
static void check_backward(attend_context *ctx, const shape *s) {
  size_t in = (size_t)s->inputs, out = (size_t)s->outputs;
  size_t rows = (size_t)s->rows;
  float *w = some(in * out, 1), *x = some(rows * in, 3);
  float *dy = some(rows * out, 4), *dw = some(in * out, 5);
  int lddx = padded(s->inputs);
  float *dx = zeroed_block(rows * (size_t)lddx, sizeof *dx);
  attend_linear *backward = layer(ctx, s, true, w, NULL);
  attend_linear_forward(backward, s->rows, dy, s->outputs, dx, lddx);
  for (int r = 0; r < s->rows; r++)
    for (int i = 0; i < s->inputs; i++) {
      double sum = 0, size = 1;
      for (int o = 0; o < s->outputs; o++) {
        double term = (double)dy[r * s->outputs + o] * (double)w[o * s->inputs + i];
        sum += term, size += fabs(term);
      }
      CHECK_NEAR((double)dx[r * lddx + i], sum, 4 * eps * size);
    }
  void *work =
      zeroed_block(attend_linear_weight_grad_bytes(ctx, s->rows, s->outputs, s->inputs), 1);
  for (int turned = 0; turned < 2; turned++) {
    attend_linear_weight_grad(ctx, ATTEND_WEIGHTS_MIXED, s->rows, s->outputs, s->inputs, dy,
                              s->outputs, x, s->inputs, turned, 0, dw,
                              turned ? s->outputs : s->inputs, NULL, work);
    for (int o = 0; o < s->outputs; o++)
      for (int i = 0; i < s->inputs; i++) {
        double sum = 0, size = 1;
        for (int r = 0; r < s->rows; r++) {
          double term = (double)dy[r * s->outputs + o] * (double)x[r * s->inputs + i];
          sum += term, size += fabs(term);
        }
        float got = turned ? dw[i * s->outputs + o] : dw[o * s->inputs + i];
        CHECK_NEAR((double)got, sum, 4 * eps * size);
      }
  }
  attend_linear_free(backward);
  free(w), free(x), free(dy), free(dw), free(dx), free(work);
}

TEST(against_double) {
  FOR_EACH_ISA(isa) {
    attend_context *ctx = open_context(isa, 2, NULL);
    for (int i = 0; i < SHAPES; i++) {
      check_forward(ctx, &shapes[i]);
      check_backward(ctx, &shapes[i]);
    }
    attend_context_free(ctx);
  }
}

/* A row alone, among others, and with other threads. */
TEST(rows_are_alone) {
  enum { ROWS = 211, IN = 300, OUT = 70, LD = 80 };
  FOR_EACH_ISA(isa) {
    shape s = {ROWS, IN, OUT};
    float *w = some(IN * OUT, 1), *bias = some(OUT, 2), *x = some(ROWS * IN, 3);
    float *all = zeroed_block(ROWS * LD, sizeof *all), one[LD];
    for (int threads = 1; threads <= 3; threads += 2) {
      attend_context *ctx = open_context(isa, threads, NULL);
      attend_linear *l = layer(ctx, &s, false, w, bias);
      if (threads == 1) attend_linear_forward(l, ROWS, x, IN, all, LD);
      for (int r = 0; r < ROWS; r += 7) {
        attend_linear_forward(l, 1, x + r * IN, IN, one, LD);
        CHECK(!memcmp(one, all + r * LD, OUT * sizeof *one));
      }
      float *again = zeroed_block(ROWS * LD, sizeof *again);
      attend_linear_forward(l, ROWS, x, IN, again, LD);
      for (int r = 0; r < ROWS; r++)
        CHECK(!memcmp(again + r * LD, all + r * LD, OUT * sizeof *again));
      free(again);
      attend_linear_free(l);
      attend_context_free(ctx);
    }
    free(w), free(bias), free(x), free(all);
  }
}
