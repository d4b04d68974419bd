/* One instruction set's table of kernels.
 *
 * Place: kernels/cpu - compiled last for each set; select.c picks a table.
 */
#include "kernels/cpu/vec.h"

extern const struct kernels KERNEL(kernels);
const struct kernels KERNEL(kernels) = {
#define NAME_(isa) #isa
#define NAME(isa) NAME_(isa)
    .isa = NAME(ISA),
    .rows = ROWS,
#define K(returns, name, arguments) .name = KERNEL(name),
    KERNEL_LIST(K)
#undef K
};
