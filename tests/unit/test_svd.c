/* Singular values: by rotations and by LAPACKE, against what defines them and
 * against each other. */
#include "check.h"
#include "attend/attend.h"
#include "numeric/svd.h"

enum { MOST = 40 };

typedef struct {
  size_t rows, columns;
  double x[MOST * MOST], u[MOST * MOST], s[MOST];
} problem;

static void draw(problem *p, size_t rows, size_t columns, size_t rank) {
  float left[MOST * MOST], right[MOST * MOST];
  attend_random_normal((attend_random){rows, columns}, 0, rows * rank, left);
  attend_random_normal((attend_random){rows, columns}, 7777, rank * columns, right);
  *p = (problem){.rows = rows, .columns = columns};
  for (size_t i = 0; i < rows; i++)
    for (size_t j = 0; j < columns; j++)
      for (size_t k = 0; k < rank; k++)
        p->x[i * columns + j] += (double)left[i * rank + k] * (double)right[k * columns + j];
}

/* U is orthogonal, and U^T X has orthogonal rows of length s, which falls. */
static void check_defines(const problem *p) {
  static double y[MOST * MOST];
  const size_t m = p->rows, n = p->columns;
  for (size_t i = 0; i < m; i++)
    for (size_t j = 0; j < n; j++) {
      y[i * n + j] = 0;
      for (size_t k = 0; k < m; k++) y[i * n + j] += p->u[k * m + i] * p->x[k * n + j];
    }
  for (size_t i = 0; i < m; i++) {
    if (i) CHECK(p->s[i] <= p->s[i - 1]);
    for (size_t j = 0; j < m; j++) {
      double u = 0, yy = 0;
      for (size_t k = 0; k < m; k++) u += p->u[k * m + i] * p->u[k * m + j];
      for (size_t k = 0; k < n; k++) yy += y[i * n + k] * y[j * n + k];
      CHECK_NEAR(u, i == j, 1e-12);
      CHECK_NEAR(yy, i == j ? p->s[i] * p->s[i] : 0, 1e-11 * p->s[0] * p->s[0]);
    }
  }
}

/* Whichever way there is; where there are two, they agree. */
static void check_both(size_t rows, size_t columns, size_t rank) {
  static problem p, q;
  static double work[4 * MOST], copy[MOST * MOST];
  draw(&p, rows, columns, rank);
  q = p;
  memcpy(copy, p.x, sizeof copy);
  svd_by_rotations(rows, columns, copy, p.u, p.s);
  check_defines(&p);
  for (size_t i = rank; i < rows; i++) CHECK(p.s[i] <= 1e-12 * p.s[0]);
  memcpy(copy, q.x, sizeof copy);
  if (!svd_by_lapacke(rows, columns, copy, q.u, q.s, work, work + 2 * MOST)) {
    CHECK(!svd_has_lapacke());
    return;
  }
  check_defines(&q);
  for (size_t i = 0; i < rows; i++) CHECK_NEAR(p.s[i], q.s[i], 1e-12 * p.s[0]);
}

TEST(singular_values) {
  check_both(1, 1, 1);
  check_both(1, 9, 1);
  check_both(8, 24, 8);
  check_both(8, 24, 3);
  check_both(27, 40, 27);
  check_both(12, 5, 5); /* more rows than samples */
}

TEST(nothing_at_all) {
  double x[6] = {0}, u[4], s[2];
  svd_by_rotations(2, 3, x, u, s);
  CHECK(s[0] == 0 && s[1] == 0);
  CHECK(u[0] == 1 && u[1] == 0 && u[2] == 0 && u[3] == 1);
}

/* The document's X: two rows that are nearly one. */
TEST(very_different_values) {
  static problem p = {
      .rows = 2, .columns = 4, .x = {-2.17, 1.98, 2.41, -2.03, 0.02, -0.01, 0.01, -0.02}};
  static double copy[8];
  memcpy(copy, p.x, sizeof copy);
  svd_by_rotations(2, 4, copy, p.u, p.s);
  check_defines(&p);
  CHECK(p.s[1] > 0 && p.s[1] < 0.04);
}
