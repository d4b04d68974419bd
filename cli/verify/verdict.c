/* Whether an engine's results are as good as they must be.
 *
 * After the definition, the naive run and the engine.
 */
#include <float.h>
#include <math.h>

#include "verify/outputs.h"

/* Equal infinities are no error; a NaN is an infinite one. */
static double largest_error(size_t n, const double *truth, const double *x) {
  double most = 0;
  for (size_t i = 0; i < n; i++) {
    double e = truth[i] == x[i] ? 0 : fabs(truth[i] - x[i]);
    if (isnan(e)) return INFINITY;
    if (e > most) most = e;
  }
  return most;
}

static double largest_size(size_t n, const double *x) {
  double most = 0;
  for (size_t i = 0; i < n; i++)
    if (isfinite(x[i]) && fabs(x[i]) > most) most = fabs(x[i]);
  return most;
}

/* Half a unit in the last place, at worst, of numbers up to this size. */
static double storage_rounding(attend_dtype dtype, double size) {
  if (dtype == ATTEND_F16) return size * 0x1p-11 + 0x1p-25;
  if (dtype == ATTEND_BF16) return size * 0x1p-8;
  return 0;
}

static double bound_of(const attend_desc *d, int x, const outputs *truth,
                       const outputs *naive, double magnitude) {
  size_t n = truth->count[x];
  double size = largest_size(n, truth->at[x]);
  double least =
      4 * (double)FLT_EPSILON * (magnitude > size ? magnitude : size);
  if (x != OUT_LSE && x != OUT_DBIAS) least += storage_rounding(d->dtype, size);
  return 2 * largest_error(n, truth->at[x], naive->at[x]) + least;
}

verdict judge(const attend_desc *desc, const outputs *truth,
              const outputs *naive, const outputs *engine,
              const double magnitude[OUTPUTS]) {
  verdict v = {.ok = true};
  double worst = -1;
  for (int x = 0; x < OUTPUTS; x++) {
    v.error[x] = v.bound[x] = NAN;
    if (!truth->at[x] || !engine->at[x]) continue;
    v.error[x] = largest_error(truth->count[x], truth->at[x], engine->at[x]);
    v.bound[x] = bound_of(desc, x, truth, naive, magnitude[x]);
    bool ok = v.error[x] <= v.bound[x] && isfinite(v.bound[x]);
    double share = v.error[x] == 0 ? 0 : v.error[x] / v.bound[x];
    if (!ok) share = INFINITY; /* the first that fails is named */
    if (share > worst) {
      worst = share;
      v.worst = x;
    }
    v.ok = v.ok && ok;
  }
  return v;
}
