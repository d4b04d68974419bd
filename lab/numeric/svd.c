/* Singular values by LAPACKE, and by one-sided Jacobi rotations (Hestenes 1958). */
#include "numeric/svd.h"

#include <math.h>
#include <string.h>

#ifdef ATTEND_HAVE_LAPACKE
#include <lapacke.h>
#pragma weak LAPACKE_dgesvd
#endif

/* ---- rotations ------------------------------------------------------------------ */

enum { MOST_SWEEPS = 60 }; /* some 10 are usual */

static double dot(const double *a, const double *b, size_t n) {
  double sum = 0;
  for (size_t i = 0; i < n; i++) sum += a[i] * b[i];
  return sum;
}

static void rotate(double *a, double *b, size_t n, ptrdiff_t step, double c, double s) {
  for (size_t i = 0; i < n; i++) {
    double *p = a + (ptrdiff_t)i * step, *q = b + (ptrdiff_t)i * step;
    double x = *p, y = *q;
    *p = c * x - s * y;
    *q = s * x + c * y;
  }
}

/* Whether rows i and j had to be rotated. */
static bool part(size_t rows, size_t columns, double *x, double *u, size_t i, size_t j) {
  double *a = x + i * columns, *b = x + j * columns;
  double aa = dot(a, a, columns), bb = dot(b, b, columns), ab = dot(a, b, columns);
  if (fabs(ab) <= 1e-15 * sqrt(aa) * sqrt(bb)) return false;
  double z = (bb - aa) / (2 * ab);
  double t = copysign(1, z) / (fabs(z) + hypot(1, z));
  double c = 1 / hypot(1, t), s = c * t;
  rotate(a, b, columns, 1, c, s);
  if (u) rotate(u + i, u + j, rows, (ptrdiff_t)rows, c, s);
  return true;
}

static void exchange(double *a, double *b, size_t n, size_t step) {
  for (size_t i = 0; i < n * step; i += step) {
    double x = a[i];
    a[i] = b[i];
    b[i] = x;
  }
}

static void sort_falling(size_t rows, double *u, double *s) {
  for (size_t i = 0; i < rows; i++) {
    size_t max = i;
    for (size_t j = i + 1; j < rows; j++)
      if (s[j] > s[max]) max = j;
    if (max == i) continue;
    exchange(s + i, s + max, 1, 1);
    if (u) exchange(u + i, u + max, rows, rows);
  }
}

void svd_by_rotations(size_t rows, size_t columns, double *x, double *u, double *s) {
  bool turned = true;
  for (size_t i = 0; u && i < rows * rows; i++) u[i] = i % (rows + 1) == 0;
  for (int sweep = 0; turned && sweep < MOST_SWEEPS; sweep++) {
    turned = false;
    for (size_t i = 0; i < rows; i++)
      for (size_t j = i + 1; j < rows; j++)
        if (part(rows, columns, x, u, i, j)) turned = true;
  }
  for (size_t i = 0; i < rows; i++) s[i] = sqrt(dot(x + i * columns, x + i * columns, columns));
  sort_falling(rows, u, s);
}

/* ---- LAPACKE --------------------------------------------------------------------- */

#ifdef ATTEND_HAVE_LAPACKE
bool svd_has_lapacke(void) { return LAPACKE_dgesvd != NULL; }

bool svd_by_lapacke(size_t rows, size_t columns, double *x, double *u, double *s, double *values,
                    double *unused) {
  const lapack_int m = (lapack_int)rows, n = (lapack_int)columns;
  double none[1];
  if (!svd_has_lapacke()) return false;
  if (LAPACKE_dgesvd(LAPACK_ROW_MAJOR, 'A', 'N', m, n, x, n, values, u, m, none, n, unused))
    return false;
  for (size_t i = 0; i < rows; i++) s[i] = i < columns ? values[i] : 0;
  return true;
}
#else
bool svd_has_lapacke(void) { return false; }

bool svd_by_lapacke(size_t rows, size_t columns, double *x, double *u, double *s, double *values,
                    double *unused) {
  (void)rows, (void)columns, (void)x, (void)u;
  (void)s, (void)values, (void)unused;
  return false;
}
#endif
