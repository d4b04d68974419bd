/* Ops on heads that lie side by side in a row give the bits that they give of heads in
 * rows of their own: norms of each head and their gradients, rotations of a part of
 * each. What lies around the heads stays, and threads change nothing. */
#include "device/device.h"
#include "kernel_fixtures.h"

enum { ROWS = 300, HEADS = 5, WIDEST = 100, BEFORE = 3, BEHIND = 7 };
enum { LD = BEFORE + HEADS * WIDEST + BEHIND, ALL = ROWS * LD };
static const int widths[] = {4, 6, 16, 24, WIDEST};

typedef struct { /* the same heads twice */
  float *row;    /* [ROWS][LD], BEFORE floats before the first head */
  float *own;    /* [ROWS x HEADS][n] */
} heads;

static heads make_heads(uint64_t stream, int n) {
  heads h = {zeroed_block(ALL, sizeof(float)), zeroed_block(ALL, sizeof(float))};
  attend_random_normal((attend_random){5, stream}, 0, ALL, h.row);
  for (int i = 0; i < ROWS; i++)
    memcpy(h.own + i * HEADS * n, h.row + i * LD + BEFORE, (size_t)(HEADS * n) * sizeof(float));
  return h;
}

static void free_heads(heads *h) {
  free(h->row);
  free(h->own);
}

/* Also: nothing beside the heads is other than it was. */
static int is_same(const heads *h, const float *was, int n) {
  const size_t heads_bytes = (size_t)(HEADS * n) * sizeof(float);
  float *backward = copy_of(h->row, ALL * sizeof *backward);
  int same = 1;
  for (int i = 0; i < ROWS; i++) {
    float *at = backward + i * LD + BEFORE;
    same &= !memcmp(at, h->own + i * HEADS * n, heads_bytes);
    memcpy(at, was + i * LD + BEFORE, heads_bytes);
  }
  same &= !memcmp(backward, was, ALL * sizeof *backward);
  free(backward);
  return same;
}

static void check_norm(attend_context *ctx, attend_context *one, bool rms, int n) {
  heads x = make_heads(1, n);
  float *was = copy_of(x.row, ALL * sizeof *was);
  const float *weight = pool, *bias = rms ? NULL : pool + WIDEST;
  OP(ctx, norm, .rms = rms, .rows = ROWS, .groups = HEADS, .width = n, .x = x.row + BEFORE,
     .ldx = LD, .weight = weight, .bias = bias, .eps = 0.01f, .y = x.row + BEFORE, .ldy = LD);
  OP(one, norm, .rms = rms, .rows = ROWS * HEADS, .width = n, .x = x.own, .ldx = n,
     .weight = weight, .bias = bias, .eps = 0.01f, .y = x.own, .ldy = n);
  CHECK(is_same(&x, was, n));
  free(was);
  free_heads(&x);
}

static void check_norm_backward(attend_context *ctx, attend_context *one, bool rms, int n) {
  heads x = make_heads(2, n), dy = make_heads(3, n);
  float *was = copy_of(dy.row, ALL * sizeof *was);
  float sums[4][WIDEST] = {{0}};
  void *work = zeroed_block(attend_norm_back_bytes(ROWS * HEADS, n), 1);
  OP(ctx, norm_backward, .rms = rms, .rows = ROWS, .groups = HEADS, .width = n, .x = x.row + BEFORE,
     .ldx = LD, .weight = pool, .eps = 0.01f, .dy = dy.row + BEFORE, .lddy = LD,
     .dx = dy.row + BEFORE, .lddx = LD, .dweight = sums[0], .dbias = rms ? NULL : sums[1],
     .work = work);
  OP(one, norm_backward, .rms = rms, .rows = ROWS * HEADS, .width = n, .x = x.own, .ldx = n,
     .weight = pool, .eps = 0.01f, .dy = dy.own, .lddy = n, .dx = dy.own, .lddx = n,
     .dweight = sums[2], .dbias = rms ? NULL : sums[3], .work = work);
  CHECK(is_same(&dy, was, n));
  CHECK(!memcmp(sums[0], sums[2], 2 * sizeof *sums));
  free(work);
  free(was);
  free_heads(&x);
  free_heads(&dy);
}

/* The first `rotary` of n, and heads of which that is all. */
static void check_rope(attend_context *ctx, attend_context *one, int n, int rotary, bool backward) {
  heads x = make_heads(4, n);
  float *was = copy_of(x.row, ALL * sizeof *was);
  double frequency[WIDEST];
  int32_t position[ROWS], own[ROWS * HEADS];
  attend_rope rope = {.theta = 50};
  double stretch;
  attend_rope_frequencies(&rope, rotary, frequency, &stretch);
  for (int i = 0; i < ROWS; i++) position[i] = i * 7 % 90;
  for (int i = 0; i < ROWS * HEADS; i++) own[i] = position[i / HEADS];
  OP(ctx, rope, .frequency = frequency, .attention_factor = stretch, .rows = ROWS, .heads = HEADS,
     .dim = n, .rotary = rotary, .position = position, .x = x.row + BEFORE, .ldx = LD,
     .backward = backward);
  OP(one, rope, .frequency = frequency, .attention_factor = stretch, .rows = ROWS * HEADS,
     .heads = 1, .dim = rotary, .position = own, .x = x.own, .ldx = n, .backward = backward);
  CHECK(is_same(&x, was, n));
  free(was);
  free_heads(&x);
}

static void check_all(attend_context *ctx, attend_context *one) {
  for (size_t w = 0; w < sizeof widths / sizeof *widths; w++)
    for (int i = 0; i < 2; i++) {
      const int n = widths[w];
      check_norm(ctx, one, i, n);
      check_norm_backward(ctx, one, i, n);
      check_rope(ctx, one, n, n, i);
      check_rope(ctx, one, n, n / 4 * 2, i);
    }
}

TEST(heads_side_by_side_are_heads) {
  refill(1);
  FOR_EACH_ISA(isa) {
    attend_context *one = open_context(isa, 1, NULL);
    attend_context *three = open_context(isa, 3, NULL);
    check_all(one, one);
    check_all(three, one);
    attend_context_free(three);
    attend_context_free(one);
  }
}
