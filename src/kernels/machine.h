/* The CPU's ceilings: attend_machine_measure and attend_machine_read where the CPU computes. */
#ifndef KERNELS_MACHINE_H
#define KERNELS_MACHINE_H

#include "attend/problem.h"

attend_status cpu_machine_measure(attend_context *ctx, attend_machine *machine);
attend_status cpu_machine_read(attend_context *ctx, size_t bytes, double *rate);

#endif
