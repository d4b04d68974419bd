/* Operations of a way to compute a description.
 *
 * Engines say what they cost by it.
 */
#ifndef ATTENTION_COST_H
#define ATTENTION_COST_H

#include "attend/attention.h"

/* Multiply and add counted as two. */
double flops_of_pairs(const attend_desc *d);
double flops_of_sums(const attend_desc *d); /* of features */

#endif
