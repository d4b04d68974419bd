/* Scaling of rows, and the soft cap of logits, c tanh(x / c) (Gemma 2), with gradients. */
#include "layers/layers.h"

typedef struct {
  struct op_scale o;
  int parts;
} scale_job;

static void scale_part(const void *args, int64_t p, int worker) {
  const scale_job *j = args;
  const struct op_scale *o = &j->o;
  (void)worker;
  PART_ROWS(o->rows, j->parts, p);
  for (; r0 < r1; r0++, at++) {
    float *x = ROW_AT(o->x, o->ldx);
    for (int i = 0; i < o->width; i++)
      x[i] = o->divisor != 0 ? x[i] / o->divisor : x[i] * o->factor;
  }
}

void cpu_scale(attend_context *ctx, const struct op_scale *o) {
  scale_job j = {*o, parts_of(ctx, o->rows, (double)o->rows * o->width)};
  PARALLEL_FOR(ctx, j.parts, j.parts, scale_part, j);
}

typedef struct {
  struct op_soft_cap o;
  const struct kernels *kn;
  int parts;
} cap_job;

static void cap_part(const void *args, int64_t p, int worker) {
  const cap_job *j = args;
  const struct op_soft_cap *o = &j->o;
  (void)worker;
  PART_ROWS(o->rows, j->parts, p);
  for (; r0 < r1; r0++, at++) {
    float *x = ROW_AT(o->x, o->ldx);
    for (int i = 0; i < o->width; i++) x[i] /= o->cap;
    j->kn->activate(ATTEND_TANH, 1, o->width, x, o->ldx, NULL, 0, x, o->ldx);
    for (int i = 0; i < o->width; i++) x[i] *= o->cap;
  }
}

void cpu_soft_cap(attend_context *ctx, const struct op_soft_cap *o) {
  double work = (double)o->rows * o->width * 4;
  cap_job j = {*o, ctx->kernels, parts_of(ctx, o->rows, work)};
  PARALLEL_FOR(ctx, j.parts, j.parts, cap_part, j);
}

typedef struct {
  struct op_soft_cap_back o;
  int parts;
} cap_back_job;

static void cap_back_part(const void *args, int64_t p, int worker) {
  const cap_back_job *j = args;
  const struct op_soft_cap_back *o = &j->o;
  (void)worker;
  PART_ROWS(o->rows, j->parts, p);
  for (; r0 < r1; r0++, at++) {
    const float *y = ROW_AT(o->y, o->ldy);
    float *dx = ROW_AT(o->dx, o->lddx);
    for (int i = 0; i < o->width; i++) {
      float t = y[i] / o->cap;
      dx[i] *= 1 - t * t;
    }
  }
}

void cpu_soft_cap_back(attend_context *ctx, const struct op_soft_cap_back *o) {
  double work = (double)o->rows * o->width;
  cap_back_job j = {*o, parts_of(ctx, o->rows, work)};
  PARALLEL_FOR(ctx, j.parts, j.parts, cap_back_part, j);
}
