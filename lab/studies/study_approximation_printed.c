/* Random features with the variance that the documents print, w ~ N(0, sigma^2 I)
 * with sigma^2 = sqrt(D), as a caller's own feature map.
 *
 * Documents 000 3(a)ii, 002 3(a)ii, 003 6(a)ii, part of the study approximation. The
 * variance should be 1/sigma^2.
 */
#include "studies/study_approximation.h"

enum { DIRECTIONS = 420 };

/* exp(|x|^2 / 2 sigma^2) [sin(w.x), cos(w.x)] / sqrt(directions) */
static void printed_phi(const float *x, int dim, int key, float *features,
                        int count, void *user) {
  const approx_printed *p = user;
  double square = 0;
  (void)key;
  for (int k = 0; k < dim; k++) square += (double)x[k] * (double)x[k];
  double size = exp(square / (2 * p->sigma2)) / sqrt(count / 2.0);
  for (int i = 0; i < count / 2; i++) {
    double dot = 0;
    for (int k = 0; k < dim; k++)
      dot += (double)p->w[i * dim + k] * (double)x[k];
    features[i] = (float)(size * sin(dot));
    features[count / 2 + i] = (float)(size * cos(dot));
  }
}

/* What they are on average: exp(|q|^2 / 2 sigma^2) exp(|k|^2 / 2 sigma^2)
 * exp(-sigma^2 |q-k|^2 / 2). */
static double printed_sim(const double *q, const double *k, int dim, double *dq,
                          double *dk, void *user) {
  const approx_printed *p = user;
  double squares = 0, apart = 0;
  (void)dq, (void)dk;
  for (int i = 0; i < dim; i++) {
    squares += q[i] * q[i] + k[i] * k[i];
    apart += (q[i] - k[i]) * (q[i] - k[i]);
  }
  return exp(squares / (2 * p->sigma2) - p->sigma2 * apart / 2);
}

attend_form approx_printed_form(study_run *r, int dim, int features,
                                uint64_t seed, float *w, approx_printed *p) {
  const size_t n = (size_t)dim * (size_t)(features / 2);
  *p = (approx_printed){w, sqrt(dim)};
  if (!features)
    return (attend_form){.kind = ATTEND_CUSTOM, .sim = printed_sim, .user = p};
  study_normal(r, DIRECTIONS, seed * n, n, w);
  for (size_t i = 0; i < n; i++) w[i] *= (float)sqrt(p->sigma2);
  return (attend_form){.kind = ATTEND_CUSTOM,
                       .phi = printed_phi,
                       .features = features / 2 * 2,
                       .user = p};
}
