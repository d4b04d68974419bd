/* Ops on rows of bf16, on the CPU: blocks of rows are converted to f32, the op runs on them, and
 * what it wrote is rounded back. Each op of TYPED_OPS lists its operands once, below.
 *
 * The rows of a block depend on the op alone, so that sums over rows do too. Converted rows lie in
 * memory of the context, typed_reserve, which the phases of an open stream use one after the other.
 */
#include "layers/layers.h"
#include "layers/linear.h"

enum {
  BLOCK_FLOATS = 2 << 20, /* that a block's converted rows should fit */
  MOST_ROWS = 3 * BLOCK,  /* of a block: whole tiles of products, whole stretches of gradients */
  FEWEST_ROWS = ROWS_PER_CHUNK,
  MOST_OPERANDS = 6
};

typedef enum { READ = 1, WRITE = 2 } access;

/* A member of an op that goes on with its rows. */
typedef struct {
  void *at;           /* the member: a pointer, or with COUNTS a number */
  int *ld;            /* distance of rows; NULL: it goes on by `width` elements a row */
  attend_dtype *type; /* NULL: f32, or elements of `size` bytes */
  int width;
  access use;
  size_t size; /* 0: a number */
  /* as the op was given */
  char *data;
  int distance;
  attend_dtype kind;
  float *block; /* its converted rows, or NULL */
} operand;

#define TYPED(name, type_of, wide, how) \
  { .at = &o->name, .ld = &o->ld##name, .type = &o->type_of##_type, .width = wide, .use = how }
#define FLOATS(name, apart) \
  { .at = &o->name, .ld = &o->apart, .size = sizeof *o->name }
#define EACH(name) \
  { .at = &o->name, .width = 1, .size = sizeof *o->name }
#define COUNTS(name, wide) \
  { .at = &o->name, .width = wide }

/* ---- the operands of each op ------------------------------------------------------- */

static access written(bool add) { return add ? READ | WRITE : WRITE; }
static int groups_of(int groups) { return groups ? groups : 1; }

/* Zeros behind the last output too, where there is room. */
static int output_width(const struct op_linear *o) {
  const int whole = (o->linear->outputs + LANES - 1) / LANES * LANES;
  return o->ldy < whole ? o->linear->outputs : whole;
}

#define OPERANDS_OF(P)                                                                             \
  P(linear, TYPED(x, x, o->linear->inputs, READ), TYPED(y, y, output_width(o), written(o->add)),   \
    FLOATS(onto, ldo), FLOATS(from, ldf))                                                          \
  P(linear_grad, TYPED(dy, dy, o->outputs, READ), TYPED(x, x, o->inputs, READ))                    \
  P(norm, TYPED(x, x, groups_of(o->groups) * o->width, READ),                                      \
    TYPED(y, y, groups_of(o->groups) * o->width, WRITE))                                           \
  P(norm_backward, TYPED(x, x, groups_of(o->groups) * o->width, READ),                             \
    TYPED(dy, dy, groups_of(o->groups) * o->width, READ),                                          \
    TYPED(dx, dx, groups_of(o->groups) * o->width, written(o->add)))                               \
  P(rope, TYPED(x, x, o->heads * o->dim, READ | WRITE), EACH(position))                            \
  P(activate, TYPED(a, a, o->width, READ), TYPED(b, a, o->width, READ),                            \
    TYPED(y, y, o->width, WRITE))                                                                  \
  P(activate_backward, TYPED(a, a, o->width, READ), TYPED(b, a, o->width, READ),                   \
    TYPED(dy, dy, o->width, READ), TYPED(da, da, o->width, WRITE), TYPED(db, da, o->width, WRITE), \
    TYPED(y, a, o->width, WRITE))                                                                  \
  P(add, TYPED(a, a, o->width, READ), TYPED(b, b, o->width, READ), TYPED(y, y, o->width, WRITE))   \
  P(scale, TYPED(x, x, o->width, READ | WRITE))                                                    \
  P(soft_cap, TYPED(x, x, o->width, READ | WRITE))                                                 \
  P(soft_cap_backward, TYPED(y, y, o->width, READ), TYPED(dx, dx, o->width, READ | WRITE))         \
  P(dropout, TYPED(x, x, o->width, READ | WRITE), COUNTS(first, o->width))                         \
  P(embed, TYPED(y, y, o->width, written(o->add)), EACH(ids))                                      \
  P(embed_backward, TYPED(dy, dy, o->width, READ), EACH(ids))                                      \
  P(loss, TYPED(x, x, o->width, READ | WRITE), EACH(targets), EACH(loss))

/* ---- blocks of rows ---------------------------------------------------------------- */

typedef struct {
  attend_context *ctx;
  int *rows; /* of the op */
  operand *of;
  int n;
  int all, most, at; /* rows of the op, of a block, done */
} blocks_of;

static int slot_width(const operand *x) { return (x->width + LANES - 1) / LANES * LANES; }

static int rows_at_once(size_t widest) {
  const size_t fit = BLOCK_FLOATS / (widest ? widest : 1) / FEWEST_ROWS * FEWEST_ROWS;
  return (int)(fit < FEWEST_ROWS ? FEWEST_ROWS : fit > MOST_ROWS ? MOST_ROWS : fit);
}

attend_status typed_reserve(attend_context *ctx, size_t widest) {
  widest = size_add(widest, MOST_OPERANDS * LANES);
  size_t floats = size_times(widest, FEWEST_ROWS);
  if (floats < BLOCK_FLOATS) floats = (size_t)min64(BLOCK_FLOATS, (int64_t)widest * MOST_ROWS);
  if (floats <= ctx->typed_floats) return ATTEND_OK;
  typed_release(ctx);
  ATTEND_TRY(ctx_alloc(ctx, size_times(floats, sizeof(float)), "converted rows", &ctx->typed));
  ctx->typed_floats = floats;
  return ATTEND_OK;
}

void typed_release(attend_context *ctx) {
  stream_wait(&ctx->stream);
  ctx_free(ctx, ctx->typed);
  ctx->typed = NULL;
  ctx->typed_floats = 0;
}

/* Whether there is anything to convert. */
static bool begin(blocks_of *b) {
  size_t widest = 0, used = 0;
  for (operand *x = b->of; x < b->of + b->n; x++) {
    if (x->type || x->size) memcpy(&x->data, x->at, sizeof x->data);
    if (x->ld) x->distance = *x->ld;
    if (x->type) x->kind = *x->type;
    if (x->type) x->size = attend_dtype_size(x->kind);
    if (x->data && x->kind) widest += (size_t)slot_width(x);
  }
  if (!widest) return false;
  b->all = *b->rows;
  b->most = rows_at_once(widest);
  for (operand *x = b->of; x < b->of + b->n; x++) {
    if (!x->data || !x->kind) continue;
    x->block = b->ctx->typed + used;
    used += (size_t)b->most * (size_t)slot_width(x);
  }
  if (used > b->ctx->typed_floats) __builtin_trap(); /* typed_reserve was not called */
  return true;
}

typedef struct {
  operand x;
  char *rows; /* the first of the block, as given */
} conversion;

static void widen_rows(const struct kernels *kn, const void *op, int r0, int r1) {
  const conversion *c = op;
  const int ld = slot_width(&c->x);
  const source from = {c->rows + (size_t)r0 * (size_t)c->x.distance * c->x.size, c->x.kind,
                       c->x.distance, 1};
  kn->pack_rows(from, NULL, r1 - r0, c->x.width, ROW(c->x.block, r0, ld), ld);
}

static void narrow_rows(const struct kernels *kn, const void *op, int r0, int r1) {
  const conversion *c = op;
  const float one = 1;
  const int ld = slot_width(&c->x);
  for (int r = r0; r < r1; r++) {
    const target to = {c->rows + (size_t)r * (size_t)c->x.distance * c->x.size, c->x.kind, 0, 1};
    kn->store_rows(ROW(c->x.block, r, ld), ld, 1, c->x.width, &one, to);
  }
}

static void convert(const blocks_of *b, const operand *x, int row, rows_body body) {
  const conversion c = {*x, x->data + (size_t)row * (size_t)x->distance * x->size};
  FOR_ROWS(b->ctx, *b->rows, (double)*b->rows * x->width, body, c);
}

/* Points the op at its next rows; false after the last. */
static bool next(blocks_of *b) {
  const int row = b->at;
  if (row >= b->all) return false;
  *b->rows = (int)min64(b->most, b->all - row);
  b->at += *b->rows;
  for (operand *x = b->of; x < b->of + b->n; x++) {
    const size_t on = (size_t)row * (size_t)(x->ld ? x->distance : x->width);
    if (!x->size) { /* a number goes on by a block at a time */
      if (row) *(uint64_t *)x->at += (size_t)b->most * (size_t)x->width;
      continue;
    }
    char *data = x->block ? (char *)x->block : x->data ? x->data + on * x->size : NULL;
    memcpy(x->at, &data, sizeof data);
    if (!x->block) continue;
    *x->ld = slot_width(x);
    *x->type = ATTEND_F32;
    if (x->use & READ) convert(b, x, row, widen_rows);
  }
  return true;
}

static void round_back(const blocks_of *b) {
  for (const operand *x = b->of; x < b->of + b->n; x++)
    if (x->block && x->use & WRITE) convert(b, x, b->at - *b->rows, narrow_rows);
}

#define P(name, ...)                                                                            \
  void typed_##name(attend_context *ctx, const struct op_##name *given) {                       \
    struct op_##name op = *given, *o = &op;                                                     \
    operand of[] = {__VA_ARGS__};                                                               \
    blocks_of b = {.ctx = ctx, .rows = &o->rows, .of = of, .n = (int)(sizeof of / sizeof *of)}; \
    if (!begin(&b)) cpu_##name(ctx, given);                                                     \
    for (; b.most && next(&b); round_back(&b)) cpu_##name(ctx, o);                              \
  }
OPERANDS_OF(P)
#undef P
