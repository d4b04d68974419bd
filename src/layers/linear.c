/* Linear layers: packing the weights, y = x W^T + b, dX = dY W, and the weights' gradients;
 * kernels/cpu/dense.c computes.
 *
 * Weights lie in lanes of 16 outputs, [lanes][inputs][16], zeros beyond the
 * last. Parts follow each other without gaps, so lanes may hold the end of one
 * part and the beginning of the next. On the way back the parts' outputs are the
 * inputs, and their pieces lie one below the other in each of the lanes.
 */
#include <string.h>

#include "layers/layers.h"
#include "layers/linear.h"

static size_t weight_size(attend_weights kind) {
  return kind == ATTEND_WEIGHTS_F32 ? 4 : kind == ATTEND_WEIGHTS_I8 ? 1 : 2;
}

/* As they come, and as they lie. */
static size_t lane_weights(const attend_linear *l) { return size_times((size_t)l->inputs, LANES); }
static size_t lane_size(const attend_linear *l) {
  return l->kind == ATTEND_WEIGHTS_MIXED ? l->ctx->kernels->mixed->lane_elements(l->inputs)
                                         : lane_weights(l);
}

static void *lane_at(const attend_linear *l, int lane) {
  return (char *)l->weights + (size_t)lane * lane_size(l) * weight_size(l->kind);
}

/* ---- packing --------------------------------------------------------------------- */

typedef struct { /* what every thread packs from */
  attend_linear *linear;
  int n_parts;
  const attend_linear_part *parts;
  float *scratch; /* two lanes for each thread */
  int first;      /* lane of this round */
} packing;

/* The part's weights as this layer sees them, from its output `output` on. */
static source part_source(const attend_linear *l, const attend_linear_part *p, int output) {
  ptrdiff_t row = p->output_stride, col = p->input_stride;
  if (!row && !col) row = l->backward ? l->outputs : l->inputs, col = 1;
  if (l->backward) {
    ptrdiff_t swap = row;
    row = col, col = swap;
  }
  ptrdiff_t size = (ptrdiff_t)attend_dtype_size(p->dtype);
  return (source){(const char *)p->weight + output * row * size, p->dtype, row, col};
}

/* `count` outputs from `output` on as lanes; the rest of 16 zeros. */
static void pack_outputs(const attend_linear *l, const attend_linear_part *p, int output, int count,
                         float *to) {
  const struct kernels *kn = l->ctx->kernels;
  source src = part_source(l, p, output);
  int inputs = l->backward ? p->outputs : l->inputs;
  if (src.row != 1) {
    kn->pack_lanes(src, NULL, count, inputs, to);
    return;
  }
  /* stored as [inputs, outputs]: rows of it are lanes already */
  src = (source){src.data, src.dtype, src.col, 1};
  kn->pack_rows(src, NULL, inputs, count, to, LANES);
}

static void put_lanes(int inputs, int first, int count, const float *from, float *to) {
  for (int k = 0; k < inputs; k++)
    memcpy(to + (size_t)k * LANES + first, from + (size_t)k * LANES, (size_t)count * sizeof *to);
}

/* Lanes `lane` as f32. Most lie within one part; a lane across parts is put
 * together from pieces. */
static void gather_lanes(const packing *pk, int lane, float *piece, float *to) {
  const attend_linear *l = pk->linear;
  int begin = lane * LANES, end = begin + LANES, at = 0;
  for (int p = 0; p < pk->n_parts; at += pk->parts[p++].outputs) {
    const attend_linear_part *part = &pk->parts[p];
    int from = at > begin ? at : begin;
    int to_end = at + part->outputs < end ? at + part->outputs : end;
    if (from >= to_end) continue;
    if (from == begin) {
      pack_outputs(l, part, from - at, to_end - from, to);
    } else {
      pack_outputs(l, part, from - at, to_end - from, piece);
      put_lanes(l->inputs, from - begin, to_end - from, piece, to);
    }
    if (part->bias)
      memcpy(l->bias + from, part->bias + (from - at), (size_t)(to_end - from) * sizeof(float));
  }
}

static void gather_backward(const packing *pk, int lane, float *to) {
  const attend_linear *l = pk->linear;
  int begin = lane * LANES;
  int count = l->outputs - begin < LANES ? l->outputs - begin : LANES;
  for (int p = 0; p < pk->n_parts; p++) {
    pack_outputs(l, &pk->parts[p], begin, count, to);
    to += (size_t)pk->parts[p].outputs * LANES;
  }
}

static void pack_lane(const void *args, int64_t item, int worker) {
  const packing *pk = args;
  int lane = pk->first + (int)item;
  const attend_linear *l = pk->linear;
  const struct kernels *kn = l->ctx->kernels;
  size_t size = lane_weights(l);
  float *piece = pk->scratch, *wide = NULL; /* none where it is not needed */
  if (piece) piece += (size_t)worker * 2 * size;
  if (piece) wide = piece + size;
  void *to = lane_at(l, lane);
  float *first = l->kind == ATTEND_WEIGHTS_F32 ? (float *)to : wide;
  if (l->backward)
    gather_backward(pk, lane, first);
  else
    gather_lanes(pk, lane, piece, first);
  if (l->kind == ATTEND_WEIGHTS_BF16) kn->narrow_bf16(l->inputs, wide, to);
  if (l->kind == ATTEND_WEIGHTS_MIXED) kn->mixed->pack(l->inputs, wide, to);
  if (l->kind == ATTEND_WEIGHTS_I8)
    kn->narrow_i8(l->inputs, wide, to, l->scale + (size_t)lane * LANES);
}

/* Tells each part's owner what was read of outputs [begin, end). */
static void tell_packed(const packing *pk, int begin, int end) {
  const attend_linear *l = pk->linear;
  int at = 0;
  for (int p = 0; p < pk->n_parts; at += pk->parts[p++].outputs) {
    const attend_linear_part *part = &pk->parts[p];
    int from = at > begin ? at : begin;
    int to = at + part->outputs < end ? at + part->outputs : end;
    bool rows = part->input_stride == 1 || !part->output_stride;
    if (from >= to || !part->packed || !rows) continue;
    ptrdiff_t row = part->output_stride ? part->output_stride : l->inputs;
    size_t bytes = (size_t)row * attend_dtype_size(part->dtype);
    part->packed((const char *)part->weight + (size_t)(from - at) * bytes,
                 (size_t)(to - from) * bytes, part->user);
  }
}

/* Lanes that are packed before their sources are let go: a few megabytes. */
enum { ROUND_BYTES = 8 << 20 };

/* Whether lanes go straight to where they stay. */
static bool packs_in_place(const packing *pk) {
  bool within = true; /* no lanes across parts */
  for (int p = 0; p + 1 < pk->n_parts; p++) within &= pk->parts[p].outputs % LANES == 0;
  return pk->linear->kind == ATTEND_WEIGHTS_F32 && (pk->linear->backward || within);
}

static attend_status pack_all(packing *pk) {
  attend_linear *l = pk->linear;
  double work = (double)l->lanes * (double)lane_weights(l);
  int threads = parts_of(l->ctx, l->lanes, work) > 1 ? l->ctx->threads : 1;
  size_t bytes = SIZE_PRODUCT(2, lane_weights(l), sizeof(float), (size_t)threads);
  if (!packs_in_place(pk)) ATTEND_TRY(ctx_alloc(l->ctx, bytes, "packing weights", &pk->scratch));
  int round = (int)max64(threads, ROUND_BYTES / (int64_t)(lane_weights(l) * 4));
  for (int first = 0; first < l->lanes; first += round) {
    int last = (int)min64(first + (int64_t)round, l->lanes);
    pk->first = first;
    PARALLEL_FOR(l->ctx, threads, last - first, pack_lane, *pk);
    if (!l->backward) tell_packed(pk, first * LANES, last * LANES);
  }
  ctx_free(l->ctx, pk->scratch);
  return ATTEND_OK;
}

/* ---- making ---------------------------------------------------------------------- */

attend_status linear_check(attend_context *ctx, attend_weights kind, int inputs, int n_parts,
                           const attend_linear_part *parts, int *outputs) {
  int64_t sum = 0;
  ATTEND_CHECK(ctx, (unsigned)kind <= ATTEND_WEIGHTS_MIXED,
               "%d is not a kind of weights: choose f32, bf16 or int8", (int)kind);
  ATTEND_CHECK(ctx, inputs >= 1, "a linear layer of %d inputs: give at least 1", inputs);
  ATTEND_CHECK(ctx, n_parts >= 1, "a linear layer of %d parts: give at least 1", n_parts);
  for (int p = 0; p < n_parts; p++) {
    ATTEND_CHECK(ctx, parts[p].weight, "part %d of a linear layer has no weights", p);
    ATTEND_CHECK(ctx, (unsigned)parts[p].dtype <= ATTEND_BF16,
                 "part %d of a linear layer is of dtype %d: choose among f32, f16, bf16", p,
                 (int)parts[p].dtype);
    ATTEND_CHECK(ctx, parts[p].outputs >= 1,
                 "part %d of a linear layer has %d outputs: give at least 1", p, parts[p].outputs);
    sum += parts[p].outputs;
  }
  ATTEND_CHECK(ctx, sum <= INT32_MAX - LANES,
               "a linear layer of %lld outputs: give fewer than 2^31", (long long)sum);
  *outputs = (int)sum;
  return ATTEND_OK;
}

/* The struct, its biases and scales, and its weights are one block each: the
 * weights may be gigabytes and should begin a page of their own. */
static attend_status take_linear(attend_context *ctx, const attend_linear *like,
                                 attend_linear **out) {
  bool i8 = like->kind == ATTEND_WEIGHTS_I8;
  size_t wide = size_times((size_t)like->lanes, LANES);
  size_t small = SIZE_PRODUCT(i8 ? 2 : 1, wide, sizeof(float));
  size_t bytes = SIZE_PRODUCT((size_t)like->lanes, lane_size(like), weight_size(like->kind));
  ATTEND_CHECK(ctx, size_add(small, bytes) <= PTRDIFF_MAX, "a linear layer of %d x %d is too large",
               like->outputs, like->inputs);
  size_t head = round_up(sizeof *like, 64);
  attend_linear *l;
  ATTEND_TRY(ctx_alloc_zeroed(ctx, size_add(head, small), "a linear layer", &l));
  *l = *like;
  l->bias = (float *)((char *)l + head);
  l->scale = i8 ? l->bias + wide : NULL;
  l->bytes = small + bytes;
  attend_status status = ctx_alloc(ctx, bytes, "weights", &l->weights);
  if (status) ctx_free(ctx, l), l = NULL;
  *out = l;
  return status;
}

attend_status cpu_pack(attend_context *ctx, attend_weights kind, bool backward, int inputs,
                       int n_parts, const attend_linear_part *parts, attend_linear **linear) {
  *linear = NULL;
  if (kind == ATTEND_WEIGHTS_MIXED && !ctx->kernels->mixed) kind = ATTEND_WEIGHTS_BF16;
  attend_linear like = {.ctx = ctx, .kind = kind, .backward = backward};
  int outputs;
  ATTEND_TRY(linear_check(ctx, kind, inputs, n_parts, parts, &outputs));
  like.inputs = backward ? outputs : inputs;
  like.outputs = backward ? inputs : outputs;
  like.lanes = (int)(((int64_t)like.outputs + LANES - 1) / LANES);
  ATTEND_TRY(take_linear(ctx, &like, linear));
  packing pk = {*linear, n_parts, parts, NULL, 0};
  attend_status status = pack_all(&pk);
  if (status) attend_linear_free(*linear), *linear = NULL;
  return status;
}

attend_status attend_linear_create(attend_context *ctx, attend_weights kind, int inputs,
                                   int n_parts, const attend_linear_part *parts,
                                   attend_linear **linear) {
  return cpu_pack(ctx, kind, false, inputs, n_parts, parts, linear);
}

attend_status attend_linear_create_backward(attend_context *ctx, attend_weights kind, int inputs,
                                            int n_parts, const attend_linear_part *parts,
                                            attend_linear **linear) {
  return cpu_pack(ctx, kind, true, inputs, n_parts, parts, linear);
}

attend_status attend_linear_repack(attend_linear *l, int n_parts, const attend_linear_part *parts) {
  int outputs, had = l->backward ? l->inputs : l->outputs;
  ATTEND_TRY(linear_check(l->ctx, l->kind, l->backward ? l->outputs : l->inputs, n_parts, parts,
                          &outputs));
  ATTEND_CHECK(l->ctx, outputs == had,
               "new weights of %d outputs for a linear layer of %d: give as "
               "many as it was made with",
               outputs, had);
  memset(l->bias, 0, (size_t)l->lanes * LANES * sizeof *l->bias);
  packing pk = {l, n_parts, parts, NULL, 0};
  return pack_all(&pk);
}

void attend_linear_free(attend_linear *linear) {
  if (!linear) return;
  if (linear->release) {
    linear->release(linear);
    return;
  }
  ctx_free(linear->ctx, linear->weights);
  ctx_free(linear->ctx, linear);
}

int attend_linear_inputs(const attend_linear *l) { return l->inputs; }
int attend_linear_outputs(const attend_linear *l) { return l->outputs; }
size_t attend_linear_bytes(const attend_linear *l) { return l->bytes; }

/* ---- forward --------------------------------------------------------------------- */

/* Parts for each thread: who is done takes another's. Four even out cores that are
 * slowed by others (MiniLM on 16 cores: 81 ms instead of 89). With few rows long
 * streams of weights are faster, and one slow thread holds up all the same: three
 * (GPT-2 in f32 on 16 cores: 2.96 ms a token, 4.38 with one, 2.98 with twelve). */
static int parts_each(int threads, int rows) { return threads <= 2 ? 1 : rows > FEW_ROWS ? 4 : 3; }

/* Of one part, in multiply-adds for each input: its share of the product in
 * whole tiles; its weights, brought in once for every block of rows, worth some
 * 24 rows; and its rows, copied once, worth 8 outputs. */
static double part_cost(int rows, int lanes, grid g) {
  int r = (rows + g.by_rows - 1) / g.by_rows;
  int t = (lanes + g.by_lanes - 1) / g.by_lanes;
  double blocks = (r + ROW_BLOCK - 1) / ROW_BLOCK;
  double wide = (double)round_up((size_t)t, (size_t)g.unit) * LANES;
  double tall = (double)round_up((size_t)r, TILE_ROWS);
  return tall * wide + 24 * blocks * wide + 8 * tall;
}

grid choose_grid(const attend_context *ctx, int rows, int depth, int lanes) {
  int threads = ctx->threads;
  threads *= parts_each(threads, rows);
  grid best = {1, 1, rows > FEW_ROWS ? TILE_LANES : 1};
  if ((double)rows * depth * lanes * LANES < 5e4) return best;
  double min = part_cost(rows, lanes, best);
  for (int by_rows = 1; by_rows <= threads && by_rows <= rows; by_rows++) {
    grid g = {by_rows, threads / by_rows, best.unit};
    if (g.by_lanes > lanes) g.by_lanes = lanes;
    double cost = part_cost(rows, lanes, g);
    if (cost < min) min = cost, best = g;
  }
  return best;
}

/* Units of `unit` rows or lanes, so that tiles are whole but at the end. */
static int grid_begin(int n, int parts, int p, int unit) {
  int64_t at = (int64_t)part_begin((n + unit - 1) / unit, parts, p) * unit;
  return (int)min64(at, n);
}

cell grid_cell(grid g, int64_t p, int rows, int lanes) {
  int across = (int)(p % g.by_lanes), down = (int)(p / g.by_lanes);
  return (cell){grid_begin(rows, g.by_rows, down, TILE_ROWS),
                grid_begin(rows, g.by_rows, down + 1, TILE_ROWS),
                grid_begin(lanes, g.by_lanes, across, g.unit),
                grid_begin(lanes, g.by_lanes, across + 1, g.unit)};
}

/* Zeros behind the last output: a NaN in x times a weight 0 would be a NaN. */
static void clear_padding(const attend_linear *l, int rows, float *y, size_t ldy) {
  size_t n = (size_t)l->outputs, wide = (size_t)l->lanes * LANES;
  for (int r = 0; r < rows && n < wide; r++)
    memset(y + (size_t)r * ldy + n, 0, (wide - n) * sizeof *y);
}

typedef struct {
  struct op_linear o;
  grid g;
} product;

/* f, from and onto of an op, on outputs [first, first + n) of some rows. */
static void finish_part(const struct op_linear *o, int row, int rows, int first, int n) {
  const struct kernels *kn = o->linear->ctx->kernels;
  float *y = ROW_F32(o->y, row, o->ldy) + first;
  if (o->f) kn->activate(o->f, rows, n, y, o->ldy, NULL, 0, y, o->ldy);
  if (!o->onto) return;
  float *onto = ROW(o->onto, row, o->ldo) + first;
  const float *from = o->from ? ROW(o->from, row, o->ldf) + first : onto;
  kn->add_both(rows, n, from, o->from ? o->ldf : o->ldo, y, o->ldy, onto, o->ldo);
}

/* Lanes [t0, t1) of rows x to y, which is where lane t0 of the first row goes. */
static void multiply_lanes(const struct op_linear *o, int rows, const float *x, int t0, int t1,
                           float *y, int ldy) {
  const attend_linear *l = o->linear;
  const struct kernels *kn = l->ctx->kernels;
  const float *bias = l->bias + (size_t)t0 * LANES;
  const float *scale = l->scale ? l->scale + (size_t)t0 * LANES : NULL;
  if (l->kind == ATTEND_WEIGHTS_MIXED)
    kn->mixed->multiply(rows, l->inputs, t1 - t0, x, o->ldx, lane_at(l, t0), bias, o->add, y, ldy);
  else
    (l->kind == ATTEND_WEIGHTS_F32    ? kn->dense_f32
     : l->kind == ATTEND_WEIGHTS_BF16 ? kn->dense_bf16
                                      : kn->dense_i8)(rows, l->inputs, t1 - t0, x, o->ldx,
                                                      lane_at(l, t0), scale, bias, o->add, y, ldy);
}

/* The last lane, where behind the last output there is no room for zeros. */
static void multiply_last(const struct op_linear *o, int rows, const float *x, float *y) {
  enum { AT_ONCE = 16 };
  const int last = o->linear->lanes - 1, n = o->linear->outputs - last * LANES;
  float lane[AT_ONCE * LANES] = {0};
  for (int r = 0; r < rows; r += AT_ONCE) {
    const int some = (int)min64(AT_ONCE, rows - r);
    float *to = y + (size_t)r * (size_t)o->ldy;
    for (int i = 0; o->add && i < some; i++)
      memcpy(lane + i * LANES, to + (size_t)i * (size_t)o->ldy, (size_t)n * sizeof *to);
    multiply_lanes(o, some, x + (size_t)r * (size_t)o->ldx, last, last + 1, lane, LANES);
    for (int i = 0; i < some; i++)
      memcpy(to + (size_t)i * (size_t)o->ldy, lane + i * LANES, (size_t)n * sizeof *to);
  }
}

static void forward_part(const void *args, int64_t part, int worker) {
  const product *p = args;
  const struct op_linear *o = &p->o;
  const attend_linear *l = o->linear;
  const cell c = grid_cell(p->g, part, o->rows, l->lanes);
  (void)worker;
  if (c.r0 >= c.r1 || c.t0 >= c.t1) return;
  const int first = c.t0 * LANES, rows = c.r1 - c.r0;
  const bool tight = c.t1 == l->lanes && o->ldy < l->lanes * LANES;
  const float *x = ROW_F32(o->x, c.r0, o->ldx);
  float *y = ROW_F32(o->y, c.r0, o->ldy);
  if (c.t1 - tight > c.t0) multiply_lanes(o, rows, x, c.t0, c.t1 - tight, y + first, o->ldy);
  if (tight)
    multiply_last(o, rows, x, y + (size_t)(l->lanes - 1) * LANES);
  else if (c.t1 == l->lanes)
    clear_padding(l, rows, y, (size_t)o->ldy);
  int end = (int)min64((int64_t)c.t1 * LANES, l->outputs);
  finish_part(o, c.r0, rows, first, end - first);
}

void cpu_linear(attend_context *ctx, const struct op_linear *o) {
  const attend_linear *l = o->linear;
  grid g = choose_grid(ctx, o->rows, l->inputs, l->lanes);
  int parts = g.by_rows * g.by_lanes;
  attend_stream own = stream_on(ctx, ctx->threads);
  attend_stream *on = ctx->stream.depth ? &ctx->stream : &own;
  product p = {*o, g};
  STREAM_ADD(on, parts, forward_part, p);
  if (g.by_rows == 1 && parts >= on->threads && o->rows <= FEW_ROWS)
    stream_reads(on, l->weights, l->lanes, lane_size(l) * weight_size(l->kind));
}

void attend_linear_forward(const attend_linear *l, int rows, const float *x, int ldx, float *y,
                           int ldy) {
  cpu_linear(l->ctx, &(struct op_linear){
                         .linear = l, .rows = rows, .x = x, .ldx = ldx, .y = y, .ldy = ldy});
}

void attend_linear_forward_add(const attend_linear *l, int rows, const float *x, int ldx, float *y,
                               int ldy) {
  cpu_linear(l->ctx,
             &(struct op_linear){
                 .linear = l, .rows = rows, .x = x, .ldx = ldx, .y = y, .ldy = ldy, .add = true});
}

/* ---- gradients of the weights: dW = dY^T X, db = the sums of dY ------------------ */

/* With a = dY and b = X (or the other way round for weights that are stored transposed),
 * c[m][n] = sum_r a[r][m] b[r][n]. The rows of b lie in lanes already, but far apart: they
 * are copied, a stretch of BLOCK rows together, and wait in the workspace. The columns of a
 * are transposed into rows for one block of c at a time, where the kernel reads them at
 * once, so that neither crosses memory again. Two limits: 2 R M N operations, and
 * 4 (2 R N + R M + 2 M N) bytes; for 4096 x 1536 x 384 and more the first by far. Measured
 * there, on one core: 0.93 of the forward product's rate with AVX-512, 0.98 with AVX2.
 *
 * An element of c is what was there, and the stretches' sums added in order: the same on
 * any grid, and for W and its transpose. */
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
  size_t max = (size_t)(rows < CHUNK ? rows : CHUNK);
  return size_times(round_up(max, BLOCK / 4), round_up((size_t)n, LANES));
}

size_t attend_linear_weight_grad_bytes(const attend_context *ctx, int rows, int outputs,
                                       int inputs) {
  int n = outputs > inputs ? outputs : inputs; /* transposed or not */
  size_t scratch = size_times((size_t)ctx->threads, SCRATCH);
  size_t floats = size_add(packed_floats(rows, n), scratch);
  return size_add(size_times(floats, sizeof(float)), 64);
}

/* ---- b into lanes ---------------------------------------------------------------- */

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

/* ---- blocks of c ----------------------------------------------------------------- */

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
static int piece(int n, int max, int unit) {
  int pieces = (n + max - 1) / max;
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

/* ---- the public call ------------------------------------------------------------- */

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
