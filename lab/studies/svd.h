/* Singular values: X = U diag(s) V^T, without V.
 *
 * Place: lab/studies/ - under purification.
 *
 * By LAPACKE where the program defines it, else by rotations of our own:
 * libattend asks for LAPACKE by a weak name, so that it has no Fortran below it
 * and static programs need nothing more.
 */
#ifndef STUDIES_SVD_H
#define STUDIES_SVD_H

#include "studies/study.h"

/* x [rows][columns] is read alone; u [rows][rows] has the left singular vectors
 * as columns, s [rows] falls (zeros beyond the rank). */
attend_status study_svd(study_run *r, size_t rows, size_t columns,
                        const double *x, double *u, double *s);

/* Both ways, for a test. x is overwritten. */
/* By one-sided Jacobi rotations: rows of x are turned until any two of them are
 * orthogonal; they are the rows of diag(s) V^T then. */
void svd_by_rotations(size_t rows, size_t columns, double *x, double *u,
                      double *s);
/* False where there is no LAPACKE, or it did not converge. values and unused
 * have [rows + columns] each. */
bool svd_by_lapacke(size_t rows, size_t columns, double *x, double *u,
                    double *s, double *values, double *unused);
bool svd_has_lapacke(void);

#endif
