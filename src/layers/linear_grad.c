/* The gradients of a linear layer's weights: dW = dY^T X, db = the sums of dY.
 *
 * Uses the grid and kernel of linear.c. (dX is a product with a layer made by
 * attend_linear_create_back.)
 *
 * With a = dY and b = X (or the other way round for weights that are stored
 * transposed), c[m][n] = sum_r a[r][m] b[r][n]. The rows of b lie in lanes already,
 * but far apart: they are copied, a stretch of BLOCK rows together, and wait in
 * the workspace. The columns of a are transposed into rows for one block of c at a
 * time, where the kernel reads them at once, so that neither crosses memory
 * again. Two limits: 2 R M N operations, and 4 (2 R N + R M + 2 M N) bytes; for
 * 4096 x 1536 x 384 and more the first by far. Measured there, on one core:
 * 0.93 of the forward product's rate with AVX-512, 0.98 with AVX2.
 *
 * An element of c is what was there, and the stretches' sums added in order:
 * the same on any grid, and for W and its transpose.
 */
#include <string.h>

#include "layers/layers.h"

enum {
  CHUNK = 16 * BLOCK, /* rows that are packed at a time: bounds the workspace */
  NEAR_LANES = 32     /* c's block and the stretch's lanes share L2 with a's block */
};

typedef struct { /* some rows of a and b, and where c is */
  attend_context *ctx;
  const struct mixed_kernels *mixed; /* NULL: in f32 */
  int rows, m, n, lanes;
  const float *a, *b;
  size_t lda, ldb;
  bool add;
  float *c;
  size_t ldc;
  float *packed;  /* [stretches][lanes][rows of it][16]: b */
  float *scratch; /* [threads][SCRATCH] */
  grid g;         /* of c */
} outer;

enum { SCRATCH = ROW_BLOCK * (NEAR_STEP + LANES) };

static size_t packed_floats(int rows, int n) {
  size_t most = (size_t)(rows < CHUNK ? rows : CHUNK);
  return size_times(round_up(most, BLOCK / 4), round_up((size_t)n, LANES));
}

size_t attend_linear_weight_grad_bytes(const attend_context *ctx, int rows, int outputs,
                                       int inputs) {
  int n = outputs > inputs ? outputs : inputs; /* transposed or not */
  size_t scratch = size_times((size_t)ctx->threads, SCRATCH);
  size_t floats = size_add(packed_floats(rows, n), scratch);
  return size_add(size_times(floats, sizeof(float)), 64);
}

/* ---- b into lanes ------------------------------------------------------------------- */

/* Stretches before the last are whole, so they lie where their rows say. */
static float *stretch_at(const outer *x, int k) {
  return x->packed + (size_t)k * (size_t)x->lanes * LANES;
}
static uint16_t *mixed_stretch_at(const outer *x, int k) {
  return (uint16_t *)x->packed + (size_t)k * (size_t)x->lanes * LANES;
}

static int stretch_rows(const outer *x, int k) { return x->rows - k < BLOCK ? x->rows - k : BLOCK; }

static void pack_stretch(const void *args, int64_t item, int worker) {
  const outer *x = args;
  int k = (int)item * BLOCK;
  (void)worker;
  const float *from = x->b + (size_t)k * x->ldb;
  if (x->mixed) {
    x->mixed->deal(stretch_rows(x, k), x->n, from, (int)x->ldb, mixed_stretch_at(x, k));
    return;
  }
  x->ctx->kernels->deal_lanes(stretch_rows(x, k), x->n, from, (int)x->ldb, stretch_at(x, k));
}

/* ---- blocks of c --------------------------------------------------------------------- */

/* The last lane of c, where it is not whole, is computed beside it: behind a row
 * of c lies the next. */
static void copy_columns(int rows, int n, const float *from, size_t ld_from, float *to,
                         size_t ld_to) {
  for (int r = 0; r < rows; r++)
    memcpy(to + (size_t)r * ld_to, from + (size_t)r * ld_from, (size_t)n * sizeof *to);
}

/* c (+)= near times lanes [t0, t1) of the stretch from row k on. */
static void stretch_product(const outer *x, int rows, int k, int t0, int t1, const float *near,
                            float *to, size_t ld) {
  int deep = stretch_rows(x, k);
  bool add = x->add || k > 0;
  size_t at = (size_t)t0;
  if (t0 >= t1) return;
  if (x->mixed)
    x->mixed->multiply(rows, deep, t1 - t0, near, NEAR_STEP,
                       mixed_stretch_at(x, k) + at * x->mixed->lane_elements(deep), NULL, add, to,
                       (int)ld);
  else
    x->ctx->kernels->dense_f32(rows, deep, t1 - t0, near, NEAR_STEP,
                               stretch_at(x, k) + at * (size_t)deep * LANES, NULL, NULL, add, to,
                               (int)ld);
}

static void block(const outer *x, cell c, float *near) {
  const struct kernels *kn = x->ctx->kernels;
  int rows = c.r1 - c.r0, left = x->n - (c.t1 - 1) * LANES;
  int whole = left < LANES ? c.t1 - 1 : c.t1;
  float *tail = near + ROW_BLOCK * NEAR_STEP;
  float *to = x->c + (size_t)c.r0 * x->ldc + (size_t)c.t0 * LANES;
  float *end = to + (size_t)(whole - c.t0) * LANES;
  if (whole < c.t1 && x->add) copy_columns(rows, left, end, x->ldc, tail, LANES);
  for (int k = 0; k < x->rows; k += BLOCK) {
    kn->transpose(stretch_rows(x, k), rows, x->a + (size_t)k * x->lda + c.r0, (int)x->lda, near,
                  NEAR_STEP);
    stretch_product(x, rows, k, c.t0, whole, near, to, x->ldc);
    stretch_product(x, rows, k, whole, c.t1, near, tail, LANES);
  }
  if (whole < c.t1) copy_columns(rows, left, tail, LANES, end, x->ldc);
}

/* Pieces of about the same size, none above `most`. */
static int piece(int n, int most, int unit) {
  int pieces = (n + most - 1) / most;
  return (int)round_up((size_t)((n + pieces - 1) / pieces), (size_t)unit);
}

static void cell_blocks(const void *args, int64_t part, int worker) {
  const outer *x = args;
  cell c = grid_cell(x->g, part, x->m, x->lanes);
  if (c.r0 >= c.r1 || c.t0 >= c.t1) return;
  float *near = x->scratch + (size_t)worker * SCRATCH;
  int tall = piece(c.r1 - c.r0, ROW_BLOCK, TILE_ROWS);
  int wide = piece(c.t1 - c.t0, NEAR_LANES, TILE_LANES);
  for (int r = c.r0; r < c.r1; r += tall)
    for (int t = c.t0; t < c.t1; t += wide)
      block(x, (cell){r, (int)min64(r + tall, c.r1), t, (int)min64(t + wide, c.t1)}, near);
}

static void multiply(outer *x) {
  x->g = choose_grid(x->ctx, x->m, x->rows, x->lanes);
  int parts = x->g.by_rows * x->g.by_lanes;
  attend_stream on = stream_on(x->ctx, parts > 1 ? x->ctx->threads : 1);
  stream_enter(&on);
  STREAM_ADD(&on, (x->rows + BLOCK - 1) / BLOCK, pack_stretch, *x);
  STREAM_ADD(&on, parts, cell_blocks, *x);
  stream_leave(&on);
}

/* c (+)= a^T b, a chunk of rows after the other. */
static void outer_product(outer x, int rows) {
  for (int r = 0; r < rows; r += CHUNK) {
    x.rows = rows - r < CHUNK ? rows - r : CHUNK;
    multiply(&x);
    x.a += (size_t)x.rows * x.lda;
    x.b += (size_t)x.rows * x.ldb;
    x.add = true;
  }
}

/* ---- the public call ------------------------------------------------------------------- */

void attend_linear_weight_grad(attend_context *ctx, attend_weights kind, int rows, int outputs,
                               int inputs, const float *dy, int lddy, const float *x, int ldx,
                               int transposed, int add, float *dw, int lddw, float *db,
                               void *work) {
  outer o = {.ctx = ctx, .add = add != 0, .c = dw, .ldc = (size_t)lddw};
  if (kind == ATTEND_WEIGHTS_MIXED) o.mixed = ctx->kernels->mixed;
  o.m = transposed ? inputs : outputs, o.n = transposed ? outputs : inputs;
  o.a = transposed ? x : dy, o.lda = (size_t)(transposed ? ldx : lddy);
  o.b = transposed ? dy : x, o.ldb = (size_t)(transposed ? lddy : ldx);
  o.lanes = (o.n + LANES - 1) / LANES;
  o.packed = (float *)round_up((uintptr_t)work, 64);
  o.scratch = o.packed + packed_floats(rows, o.n);
  for (int i = 0; i < o.m && rows == 0 && !add; i++)
    memset(dw + (size_t)i * o.ldc, 0, (size_t)o.n * sizeof *dw);
  outer_product(o, rows);
  if (db) sum_columns(ctx, rows, outputs, dy, lddy, add != 0, db);
}

void cpu_linear_grad(attend_context *ctx, const struct op_linear_grad *o) {
  if (o->dw)
    attend_linear_weight_grad(ctx, o->kind, o->rows, o->outputs, o->inputs, o->dy, o->lddy, o->x,
                              o->ldx, 0, 1, o->dw, o->inputs, o->db, o->work);
  else if (o->db)
    sum_columns(ctx, o->rows, o->outputs, o->dy, o->lddy, true, o->db);
}
