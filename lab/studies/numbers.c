/* Numbers that studies have in common: errors, moments, quantiles, exponents, times. */
#include <stdlib.h>
#include <time.h>

#include "numeric/svd.h"
#include "studies/study.h"

double study_gap(const float *a, const double *b, size_t n) {
  double max = 0;
  for (size_t i = 0; i < n; i++) {
    const double gap = fabs((double)a[i] - b[i]);
    if (!(gap <= max)) max = gap;
  }
  return max;
}

double study_relative_gap(const float *a, const double *b, size_t n) {
  double unit = 0;
  for (size_t i = 0; i < n; i++) unit = fmax(unit, fabs(b[i]));
  return study_gap(a, b, n) / (unit > 0 ? unit : 1);
}

double study_distance(const float *a, const float *b, size_t n) {
  double gap = 0, size = 0;
  for (size_t i = 0; i < n; i++) {
    const double e = (double)a[i] - (double)b[i];
    gap += e * e;
    size += (double)b[i] * (double)b[i];
  }
  return sqrt(gap / size);
}

double study_differing(const float *a, const float *b, size_t n) {
  size_t count = 0;
  while (n-- > 0) count += memcmp(a++, b++, sizeof *a) != 0;
  return (double)count;
}

int study_differing_rows(const float *a, const float *b, int rows, int width) {
  int count = 0;
  for (size_t i = 0; i < (size_t)rows; i++) {
    const size_t at = i * (size_t)width;
    count += memcmp(a + at, b + at, (size_t)width * sizeof *a) != 0;
  }
  return count;
}

attend_status study_doubles(study_run *r, const float *x, size_t n, double **out) {
  TAKE(r, out, n);
  for (size_t i = 0; i < n; i++) (*out)[i] = (double)x[i];
  return ATTEND_OK;
}

double study_norm(const float *x, size_t n) {
  double sum = 0;
  for (size_t i = 0; i < n; i++) sum += (double)x[i] * (double)x[i];
  return sqrt(sum);
}

size_t study_top(const float *x, size_t n) {
  size_t top = 0;
  for (size_t i = 1; i < n; i++)
    if (x[i] > x[top]) top = i;
  return top;
}

study_moments study_moments_of(const double *x, size_t n) {
  double sum = 0, square = 0, fourth = 0, count = (double)n;
  for (size_t i = 0; i < n; i++) sum += x[i];
  const double mean = sum / count;
  for (size_t i = 0; i < n; i++) {
    double d = (x[i] - mean) * (x[i] - mean);
    square += d;
    fourth += d * d;
  }
  const double variance = square / (count - 1);
  double spread = fourth / count - variance * variance;
  if (spread < 0) spread = 0;
  return (study_moments){.mean = mean,
                         .variance = variance,
                         .mean_error = sqrt(variance / count),
                         .variance_error = sqrt(spread / count)};
}

static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

double study_quantile(double *x, size_t n, double share) {
  qsort(x, n, sizeof *x, by_size);
  double at = share * (double)(n - 1);
  size_t low = (size_t)at, high = low + 1 < n ? low + 1 : low;
  return x[low] + (at - (double)low) * (x[high] - x[low]);
}

double study_exponent(const double *x, const double *y, size_t n) {
  double sx = 0, sy = 0, sxx = 0, sxy = 0, count = (double)n;
  for (size_t i = 0; i < n; i++) {
    double u = log(x[i]), v = log(y[i]);
    sx += u;
    sy += v;
    sxx += u * u;
    sxy += u * v;
  }
  return (count * sxy - sx * sy) / (count * sxx - sx * sx);
}

double study_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double study_seconds(void (*work)(void *user), void *user, int repeat) {
  enum { MOST = 64 };
  double seconds[MOST];
  if (repeat > MOST) repeat = MOST;
  work(user);
  for (int i = 0; i < repeat; i++) {
    double begin = study_now();
    work(user);
    seconds[i] = study_now() - begin;
  }
  return study_quantile(seconds, (size_t)repeat, 0.5);
}

/* ---- singular values ------------------------------------------------------------ */

attend_status study_svd(study_run *r, size_t rows, size_t columns, const double *x, double *u,
                        double *s) {
  const size_t bytes = rows * columns * sizeof *x;
  double *copy = NULL, *work = NULL;
  TAKE(r, &copy, rows * columns);
  TAKE(r, &work, 2 * (rows + columns));
  memcpy(copy, x, bytes);
  if (svd_by_lapacke(rows, columns, copy, u, s, work, work + rows + columns)) return ATTEND_OK;
  memcpy(copy, x, bytes);
  svd_by_rotations(rows, columns, copy, u, s);
  return ATTEND_OK;
}
