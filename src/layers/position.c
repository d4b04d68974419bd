/* Positions: sinusoidal (Vaswani et al. 2017) and rotary (RoPE, Su et al. 2021; YaRN, Peng
 * et al. 2023).
 *
 * Angles are computed in double, because positions are large and a float keeps less of
 * their fraction the larger they are. The scalings are those of transformers'
 * modeling_rope_utils.
 */
#include <math.h>

#include "layers/layers.h"

static const double two_pi = 6.283185307179586476925;

/* Elements i and i + 1 of a position's code of width n. */
static void sinusoidal_pair(int64_t position, int n, int i, float pair[2]) {
  double angle = (double)position / pow(10000.0, (double)i / n);
  pair[0] = (float)sin(angle);
  pair[1] = (float)cos(angle);
}

void attend_sinusoidal(int64_t position, int n, float *y) {
  for (int i = 0; i < n; i += 2) {
    float pair[2];
    sinusoidal_pair(position, n, i, pair);
    y[i] = pair[0];
    if (i + 1 < n) y[i + 1] = pair[1];
  }
}

/* ---- frequencies ----------------------------------------------------------------- */

/* Waves longer than context / low are slowed down by factor, those shorter than
 * context / high kept; in between, a mixture by how many fit the context. */
static double llama3(const attend_rope *rope, double frequency) {
  double wave = two_pi / frequency;
  if (wave < rope->context / rope->high) return frequency;
  if (wave > rope->context / rope->low) return frequency / rope->factor;
  double kept = (rope->context / wave - rope->low) / (rope->high - rope->low);
  return (1 - kept) * frequency / rope->factor + kept * frequency;
}

/* The (fractional) pair that makes `rotations` over the context. */
static double pair_of(const attend_rope *rope, int dim, double rotations) {
  return dim * log(rope->context / (rotations * two_pi)) / (2 * log(rope->theta));
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

static double yarn_attention_factor(const attend_rope *rope) {
  if (rope->attention_factor > 0) return rope->attention_factor;
  return rope->factor <= 1 ? 1 : 0.1 * log(rope->factor) + 1;
}

void attend_rope_frequencies(const attend_rope *rope, int dim, double *frequency,
                             double *attention_factor) {
  ramp r = {0, 0};
  *attention_factor = 1;
  if (rope->scaling == ATTEND_ROPE_YARN) {
    r = yarn_ramp(rope, dim);
    *attention_factor = yarn_attention_factor(rope);
  }
  for (int i = 0; i < dim / 2; i++) {
    double f = pow(rope->theta, -2.0 * i / dim);
    if (rope->scaling == ATTEND_ROPE_LINEAR) f /= rope->factor;
    if (rope->scaling == ATTEND_ROPE_LLAMA3) f = llama3(rope, f);
    if (rope->scaling == ATTEND_ROPE_YARN) f = yarn(rope, r, i, f);
    frequency[i] = f;
  }
}

/* ---- rotating -------------------------------------------------------------------- */

enum { PAIRS = 128 }; /* pairs whose sines are at hand at a time */

static void rotate_row(const struct kernels *kn, const struct op_rope *o, int64_t position,
                       float *x) {
  const int half = (o->rotary ? o->rotary : o->dim) / 2;
  float cosine[PAIRS], sine[PAIRS];
  for (int i = 0; i < half; i += PAIRS) {
    int n = half - i < PAIRS ? half - i : PAIRS;
    for (int k = 0; k < n; k++) {
      double angle = (double)position * o->frequency[i + k];
      cosine[k] = (float)(cos(angle) * o->attention_factor);
      sine[k] = (float)(sin(angle) * o->attention_factor);
    }
    kn->rotate_pairs(o->heads, o->dim, half, i, n, cosine, sine, x);
  }
}

static void rope_rows(const struct kernels *kn, const void *op, int r0, int r1) {
  const struct op_rope *o = op;
  for (int r = r0; r < r1; r++)
    rotate_row(kn, o, (o->backward ? -1 : 1) * (int64_t)o->position[r], ROW_F32(o->x, r, o->ldx));
}

/* A rotation's transpose rotates by as much to the other side. */
void cpu_rope(attend_context *ctx, const struct op_rope *o) {
  double work = (double)o->rows * (16.0 * o->dim + (double)o->heads * o->dim);
  FOR_ROWS(ctx, o->rows, work, rope_rows, *o);
}

void attend_rope_rotate(attend_context *ctx, const double *frequency, double attention_factor,
                        int rows, int heads, int dim, const int32_t *positions, float *x, int ldx) {
  cpu_rope(ctx, &(struct op_rope){.frequency = frequency,
                                  .attention_factor = attention_factor,
                                  .rows = rows,
                                  .heads = heads,
                                  .dim = dim,
                                  .position = positions,
                                  .x = x,
                                  .ldx = ldx});
}

void attend_rope_rotate_backward(attend_context *ctx, const double *frequency,
                                 double attention_factor, int rows, int heads, int dim,
                                 const int32_t *positions, float *dx, int lddx) {
  cpu_rope(ctx, &(struct op_rope){.frequency = frequency,
                                  .attention_factor = attention_factor,
                                  .rows = rows,
                                  .heads = heads,
                                  .dim = dim,
                                  .position = positions,
                                  .x = dx,
                                  .ldx = lddx,
                                  .backward = true});
}

/* ---- sinusoidal ------------------------------------------------------------------ */

static void sinusoidal_rows(const struct kernels *kn, const void *op, int r0, int r1) {
  const struct op_sinusoidal *o = op;
  (void)kn;
  for (int r = r0; r < r1; r++) {
    float *y = ROW(o->y, r, o->ldy);
    for (int i = 0; i < o->width; i += 2) {
      float pair[2];
      sinusoidal_pair(o->position[r], o->width, i, pair);
      y[i] += pair[0];
      if (i + 1 < o->width) y[i + 1] += pair[1];
    }
  }
}

void cpu_sinusoidal(attend_context *ctx, const struct op_sinusoidal *o) {
  FOR_ROWS(ctx, o->rows, (double)o->rows * o->width * 64, sinusoidal_rows, *o);
}
