/* Singular values: X = U diag(s) V^T, without V.
 *
 * By LAPACKE where the program defines it, else by rotations of our own: the library
 * refers to LAPACKE by a weak name, so that it has no Fortran below it and static
 * programs need nothing more.
 */
#ifndef NUMERIC_SVD_H
#define NUMERIC_SVD_H

#include <stdbool.h>
#include <stddef.h>

/* x [rows][columns] is overwritten; u [rows][rows] has the left singular vectors as
 * columns, s [rows] falls (zeros beyond the rank). */
/* By one-sided Jacobi rotations: rows of x are rotated until any two of them are
 * orthogonal; they are the rows of diag(s) V^T then. u may be NULL. */
void svd_by_rotations(size_t rows, size_t columns, double *x, double *u, double *s);
/* False where there is no LAPACKE, or it did not converge. values and unused
 * have [rows + columns] each. */
bool svd_by_lapacke(size_t rows, size_t columns, double *x, double *u, double *s, double *values,
                    double *unused);
bool svd_has_lapacke(void);

#endif
