/* Operations of a way to compute a description.
 *
 * Place: attention/ - the plan takes the cheaper of two engines by it.
 */
#ifndef ATTENTION_COST_H
#define ATTENTION_COST_H

#include <stdbool.h>

#include "attend/attention.h"

/* Multiply and add counted as two; by pairs, or by sums of features. */
double cost_flops(const attend_desc *d, bool linear);

#endif
