/* One instruction set's table of kernels; select.c picks a table. */
#include "kernels/cpu/vec.h"

/* Two tiles of rows share what they load. */
enum { GROUP_ROWS = 2 * ROWS };

static void nothing(void) {}

static int query_ld(int width) { return (int)round_up((size_t)width, LANES); }

static size_t query_bytes(int n, int width) {
  return (size_t)n * (size_t)query_ld(width) * sizeof(float);
}
static void pack_queries(const float *rows, int ld, int n, int width, void *dst) {
  size_t to = (size_t)query_ld(width);
  for (int r = 0; r < n; r++)
    memcpy((float *)dst + (size_t)r * to, rows + (size_t)r * (size_t)ld,
           (size_t)width * sizeof(float));
}
static void pack_keys(source src, const uint8_t *valid, int n, int width, void *dst) {
  KERNEL(pack_lanes)(src, valid, n, width, dst);
}
/* Kernels take whole lanes: the last rows are zeros where there are no keys. */
static bool pack_values(source src, const uint8_t *valid, int n, int width, void *dst, int ld) {
  size_t whole = round_up((size_t)n, LANES);
  memset((float *)dst + (size_t)n * (size_t)ld, 0,
         (whole - (size_t)n) * (size_t)ld * sizeof(float));
  KERNEL(pack_rows)(src, valid, n, width, dst, ld);
  return KERNEL(all_finite)(dst, (size_t)n * (size_t)ld);
}
static void scores(int rows, int width, const void *q, const void *k, int j0, int j1, float *s) {
  KERNEL(scores)(rows, width, q, query_ld(width), k, j0, j1, s);
}
static float longest(int n, int width, const void *k) { return KERNEL(longest)(n, width, k); }
static void softmax(const struct block_soft *x) {
  KERNEL(softmax)
  (x->rows, x->j0, x->j1, x->factor, x->bounded, x->s, x->m, x->l, x->alpha, x->beta);
}
static size_t weights_at(int row) { return (size_t)row * BLOCK; }
static void weigh(int rows, int j0, int j1, const void *p, const void *const *v, int ld,
                  const float *alpha, const float *beta, float *o) {
  const float *panels[PANELS];
  for (int i = j0 / PANEL; i * PANEL < j1; i++) panels[i] = v[i];
  KERNEL(weigh)(rows, j0, j1, p, panels, ld, alpha, beta, o);
}

extern const struct block_kernels KERNEL(block);
const struct block_kernels KERNEL(block) = {
    .rows = GROUP_ROWS,
    .keys = BLOCK,
    .pair = 1,
    .step = 1,
    .begin = nothing,
    .end = nothing,
    .query_bytes = query_bytes,
    .pack_queries = pack_queries,
    .pack_keys = pack_keys,
    .pack_values = pack_values,
    .longest = longest,
    .scores = scores,
    .softmax = softmax,
    .weights_at = weights_at,
    .weigh = weigh,
};

const struct kernels KERNEL(kernels) = {
#define NAME_(isa) #isa
#define NAME(isa) NAME_(isa)
    .isa = NAME(ISA),
    .rows = GROUP_ROWS,
    .block = {&KERNEL(block), &KERNEL(block), &KERNEL(block)},
#define K(returns, name, arguments) .name = KERNEL(name),
    KERNEL_LIST(K)
#undef K
};
