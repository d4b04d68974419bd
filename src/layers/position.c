/* Positions: sinusoidal ones, and rotary ones with their scalings.
 *
 * Place: layers/ - angles are computed in double, because positions are large
 * and a float keeps less of their fraction the larger they are. The scalings
 * are those of transformers' modeling_rope_utils.
 */
#include <math.h>

#include "layers/layers.h"

static const double two_pi = 6.283185307179586476925;

void attend_sinusoidal(int64_t position, int n, float *y) {
  for (int i = 0; i < n; i += 2) {
    double angle = (double)position / pow(10000.0, (double)i / n);
    y[i] = (float)sin(angle);
    if (i + 1 < n) y[i + 1] = (float)cos(angle);
  }
}

/* ---- frequencies ------------------------------------------------------------------- */

/* Waves longer than context / low are slowed down by factor, those shorter than
 * context / high kept; in between, a mixture by how many fit the context. */
static double llama3(const attend_rope *rope, double frequency) {
  double wave = two_pi / frequency;
  if (wave < rope->context / rope->high) return frequency;
  if (wave > rope->context / rope->low) return frequency / rope->factor;
  double kept = (rope->context / wave - rope->low) / (rope->high - rope->low);
  return (1 - kept) * frequency / rope->factor + kept * frequency;
}

/* The (fractional) pair that turns `turns` times over the context. */
static double pair_of(const attend_rope *rope, int dim, double turns) {
  return dim * log(rope->context / (turns * two_pi)) / (2 * log(rope->theta));
}

typedef struct {
  double low, high; /* pairs before low are kept, after high slowed down */
} ramp;

static ramp yarn_ramp(const attend_rope *rope, int dim) {
  double fast = rope->high > 0 ? rope->high : 32;
  double slow = rope->low > 0 ? rope->low : 1;
  ramp r = {fmax(floor(pair_of(rope, dim, fast)), 0),
            fmin(ceil(pair_of(rope, dim, slow)), dim - 1)};
  if (r.low == r.high) r.high += 0.001; /* as there: no division by 0 */
  return r;
}

static double yarn(const attend_rope *rope, ramp r, int i, double frequency) {
  double slowed = fmin(fmax((i - r.low) / (r.high - r.low), 0), 1);
  return frequency / rope->factor * slowed + frequency * (1 - slowed);
}

static double yarn_stretch(const attend_rope *rope) {
  if (rope->stretch > 0) return rope->stretch;
  return rope->factor <= 1 ? 1 : 0.1 * log(rope->factor) + 1;
}

void attend_rope_frequencies(const attend_rope *rope, int dim,
                             double *frequency, double *stretch) {
  ramp r = {0, 0};
  *stretch = 1;
  if (rope->scaling == ATTEND_ROPE_YARN) {
    r = yarn_ramp(rope, dim);
    *stretch = yarn_stretch(rope);
  }
  for (int i = 0; i < dim / 2; i++) {
    double f = pow(rope->theta, -2.0 * i / dim);
    if (rope->scaling == ATTEND_ROPE_LINEAR) f /= rope->factor;
    if (rope->scaling == ATTEND_ROPE_LLAMA3) f = llama3(rope, f);
    if (rope->scaling == ATTEND_ROPE_YARN) f = yarn(rope, r, i, f);
    frequency[i] = f;
  }
}

/* ---- turning ------------------------------------------------------------------------ */

enum { PAIRS = 128 }; /* pairs whose sines are at hand at a time */

static void turn_row(const attend_context *ctx, const double *frequency,
                     double stretch, int heads, int dim, int64_t position,
                     float *x) {
  float cosine[PAIRS], sine[PAIRS];
  for (int i = 0; i < dim / 2; i += PAIRS) {
    int n = dim / 2 - i < PAIRS ? dim / 2 - i : PAIRS;
    for (int k = 0; k < n; k++) {
      double angle = (double)position * frequency[i + k];
      cosine[k] = (float)(cos(angle) * stretch);
      sine[k] = (float)(sin(angle) * stretch);
    }
    ctx->kernels->turn_pairs(heads, dim, i, n, cosine, sine, x);
  }
}

typedef struct {
  attend_context *ctx;
  const double *frequency;
  double stretch;
  int rows, parts, heads, dim, direction, ldx;
  const int32_t *positions;
  float *x;
} rotation;

static void turn_part(const void *args, int64_t p, int worker) {
  const rotation *t = args;
  (void)worker;
  PART_ROWS(t->rows, t->parts, p);
  for (; r0 < r1; r0++, at++)
    turn_row(t->ctx, t->frequency, t->stretch, t->heads, t->dim,
             t->direction * (int64_t)t->positions[r0], ROW_AT(t->x, t->ldx));
}

static void turn(rotation t) {
  double work = (double)t.rows * (16.0 * t.dim + (double)t.heads * t.dim);
  t.parts = parts_of(t.ctx, t.rows, work);
  PARALLEL_FOR(t.ctx, t.parts, t.parts, turn_part, t);
}

void attend_rope_turn(attend_context *ctx, const double *frequency,
                      double stretch, int rows, int heads, int dim,
                      const int32_t *positions, float *x, int ldx) {
  turn((rotation){ctx, frequency, stretch, rows, 0, heads, dim, 1, ldx,
                  positions, x});
}

/* A rotation's transpose turns by as much to the other side. */
void attend_rope_turn_back(attend_context *ctx, const double *frequency,
                           double stretch, int rows, int heads, int dim,
                           const int32_t *positions, float *dx, int lddx) {
  turn((rotation){ctx, frequency, stretch, rows, 0, heads, dim, -1, lddx,
                  positions, dx});
}
