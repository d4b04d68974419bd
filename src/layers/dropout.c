/* Dropout; kernels/cpu/dropout.c draws. The mask depends on the position in a random
 * stream alone, so backward draws it again and nothing is stored.
 */
#include <math.h>

#include "layers/layers.h"

typedef struct {
  const struct kernels *kn;
  attend_random random;
  uint64_t first;
  uint32_t least;
  float factor;
  int rows, parts, n, ldx, ldy;
  const float *x;
  float *y;
} dropping;

static void drop_part(const void *args, int64_t p, int worker) {
  const dropping *d = args;
  (void)worker;
  PART_ROWS(d->rows, d->parts, p);
  for (; r0 < r1; r0++, at++)
    d->kn->drop_row(d->random, d->first + (uint64_t)at * (uint64_t)d->n, d->least, d->factor, d->n,
                    ROW_AT(d->x, d->ldx), ROW_AT(d->y, d->ldy));
}

void attend_dropout(attend_context *ctx, attend_random random, uint64_t first, float p, int rows,
                    int n, const float *x, int ldx, float *y, int ldy) {
  /* An element stays if its uniform number, of 24 bits, is p or more. */
  uint32_t least = p > 0 ? (uint32_t)ceil(fmin((double)p, 1) * 0x1p24) : 0;
  float factor = p < 1 ? (float)(1 / (1 - (p > 0 ? (double)p : 0))) : 0.0f;
  int parts = parts_of(ctx, rows, (double)rows * n * 4);
  dropping d = {ctx->kernels, random, first, least, factor, rows, parts, n, ldx, ldy, x, y};
  PARALLEL_FOR(ctx, parts, parts, drop_part, d);
}

void cpu_dropout(attend_context *ctx, const struct op_dropout *o) {
  attend_dropout(ctx, o->random, 0, o->p, o->rows, o->width, o->x, o->ldx, o->x, o->ldx);
}
