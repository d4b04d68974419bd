/* Linear layers: packing the weights, y = x W^T + b, and dX = dY W. The weights' gradients
 * are in linear_grad.c, the arithmetic in kernels/cpu/dense.c.
 *
 * Weights lie in lanes of 16 outputs, [lanes][inputs][16], zeros beyond the
 * last. Parts follow each other without gaps, so lanes may hold the end of one
 * part and the beginning of the next. On the way back the parts' outputs are the
 * inputs, and their pieces lie one below the other in each of the lanes.
 */
#include <string.h>

#include "layers/layers.h"

struct attend_linear {
  attend_context *ctx;
  attend_weights kind;
  bool back; /* dX = dY W: inputs are the parts' outputs */
  int inputs, outputs, lanes;
  void *weights;
  float *scale; /* [lanes][16], int8 alone */
  float *bias;  /* [lanes][16] */
  size_t bytes;
};

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
  if (!row && !col) row = l->back ? l->outputs : l->inputs, col = 1;
  if (l->back) {
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
  int inputs = l->back ? p->outputs : l->inputs;
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

static void gather_back(const packing *pk, int lane, float *to) {
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
  if (l->back)
    gather_back(pk, lane, first);
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
  return pk->linear->kind == ATTEND_WEIGHTS_F32 && (pk->linear->back || within);
}

static attend_status pack_all(packing *pk) {
  attend_linear *l = pk->linear;
  double work = (double)l->lanes * (double)lane_weights(l);
  int threads = parts_of(l->ctx, l->lanes, work) > 1 ? l->ctx->threads : 1;
  size_t bytes = SIZE_PRODUCT(2, lane_weights(l), sizeof(float), (size_t)threads);
  if (!packs_in_place(pk)) ATTEND_TRY(take(l->ctx, bytes, "packing weights", &pk->scratch));
  int round = (int)max64(threads, ROUND_BYTES / (int64_t)(lane_weights(l) * 4));
  for (int first = 0; first < l->lanes; first += round) {
    int last = (int)min64(first + (int64_t)round, l->lanes);
    pk->first = first;
    PARALLEL_FOR(l->ctx, threads, last - first, pack_lane, *pk);
    if (!l->back) tell_packed(pk, first * LANES, last * LANES);
  }
  give(l->ctx, pk->scratch);
  return ATTEND_OK;
}

/* ---- making ---------------------------------------------------------------------- */

static attend_status count_outputs(attend_context *ctx, int inputs, int n_parts,
                                   const attend_linear_part *parts, int *outputs) {
  int64_t sum = 0;
  ATTEND_CHECK(ctx, inputs >= 1, "a linear layer of %d inputs: give at least 1", inputs);
  ATTEND_CHECK(ctx, n_parts >= 1, "a linear layer of %d parts: give at least 1", n_parts);
  for (int p = 0; p < n_parts; p++) {
    ATTEND_CHECK(ctx, parts[p].weight, "part %d of a linear layer has no weights", p);
    ATTEND_CHECK(ctx, (unsigned)parts[p].dtype <= ATTEND_BF16,
                 "part %d of a linear layer is of dtype %d: choose among f32, "
                 "f16, bf16",
                 p, (int)parts[p].dtype);
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
  ATTEND_TRY(take_zeroed(ctx, size_add(head, small), "a linear layer", &l));
  *l = *like;
  l->bias = (float *)((char *)l + head);
  l->scale = i8 ? l->bias + wide : NULL;
  l->bytes = small + bytes;
  attend_status status = take(ctx, bytes, "weights", &l->weights);
  if (status) give(ctx, l), l = NULL;
  *out = l;
  return status;
}

static attend_status create(attend_context *ctx, attend_weights kind, bool back, int inputs,
                            int n_parts, const attend_linear_part *parts, attend_linear **linear) {
  *linear = NULL;
  if (kind == ATTEND_WEIGHTS_MIXED && !ctx->kernels->mixed) kind = ATTEND_WEIGHTS_BF16;
  attend_linear like = {.ctx = ctx, .kind = kind, .back = back};
  int outputs;
  ATTEND_CHECK(ctx, (unsigned)kind <= ATTEND_WEIGHTS_MIXED,
               "%d is no kind of weights: choose f32, bf16 or int8", (int)kind);
  ATTEND_TRY(count_outputs(ctx, inputs, n_parts, parts, &outputs));
  like.inputs = back ? outputs : inputs;
  like.outputs = back ? inputs : outputs;
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
  return create(ctx, kind, false, inputs, n_parts, parts, linear);
}

attend_status attend_linear_create_back(attend_context *ctx, attend_weights kind, int inputs,
                                        int n_parts, const attend_linear_part *parts,
                                        attend_linear **linear) {
  return create(ctx, kind, true, inputs, n_parts, parts, linear);
}

attend_status attend_linear_repack(attend_linear *l, int n_parts, const attend_linear_part *parts) {
  int outputs, had = l->back ? l->inputs : l->outputs;
  ATTEND_TRY(count_outputs(l->ctx, l->back ? l->outputs : l->inputs, n_parts, parts, &outputs));
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
  give(linear->ctx, linear->weights);
  give(linear->ctx, linear);
}

int attend_linear_inputs(const attend_linear *l) { return l->inputs; }
int attend_linear_outputs(const attend_linear *l) { return l->outputs; }
size_t attend_linear_bytes(const attend_linear *l) { return l->bytes; }

/* ---- forward ---------------------------------------------------------------------- */

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
  double least = part_cost(rows, lanes, best);
  for (int by_rows = 1; by_rows <= threads && by_rows <= rows; by_rows++) {
    grid g = {by_rows, threads / by_rows, best.unit};
    if (g.by_lanes > lanes) g.by_lanes = lanes;
    double cost = part_cost(rows, lanes, g);
    if (cost < least) least = cost, best = g;
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

/* f and onto of an op, on outputs [first, first + n) of some rows. */
static void finish_part(const struct op_linear *o, int row, int rows, int first, int n) {
  const struct kernels *kn = o->linear->ctx->kernels;
  float *y = o->y + (size_t)row * (size_t)o->ldy + first;
  if (o->f) kn->activate(o->f, rows, n, y, o->ldy, NULL, 0, y, o->ldy);
  if (!o->onto) return;
  float *onto = o->onto + (size_t)row * (size_t)o->ldo + first;
  kn->add_both(rows, n, onto, o->ldo, y, o->ldy, onto, o->ldo);
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
  const float *x = o->x + (size_t)c.r0 * (size_t)o->ldx;
  float *y = o->y + (size_t)c.r0 * (size_t)o->ldy;
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
