/* What the two files of the study `kernels` share.
 *
 * study_kernels.c is the study.
 */
#ifndef STUDIES_STUDY_KERNELS_H
#define STUDIES_STUDY_KERNELS_H

#include "studies/study.h"

/* The keys that an engine by sums takes pair by pair: those of the last block. */
enum { KERNEL_BLOCK = 64 };

/* (q.k + 1)^degree, by this engine. */
attend_desc kernel_poly(int degree, int n, int width, const char *engine);
/* Runs a plan of one head once: q, k, v and o of n rows. lse, weak may be NULL. */
attend_status kernel_run(study_run *r, const attend_desc *d,
                         const float *const qkv[3], float *o, float *lse,
                         int64_t *weak);
/* q, k, v of n rows of `width` normal numbers. */
attend_status kernel_draw(study_run *r, size_t n, size_t width, float *qkv[3]);

/* study_kernels_ways.c */
attend_status kernel_ways(study_run *r);
attend_status kernel_costs(study_run *r);

#endif
