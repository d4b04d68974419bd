/* attend/machine.h - the ceilings of this machine: what arithmetic and memory
 * could do at best, measured, so that a cost can be called bound by one. */
#ifndef ATTEND_MACHINE_H
#define ATTEND_MACHINE_H

#include "attend/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
  int threads;      /* measured with this many          */
  double flops_one; /* f32 multiply-adds in registers, per second, one thread */
  double flops_all; /* the same, all threads            */
  double read_one;  /* bytes per second read from memory, one thread */
  double read_all;
} attend_machine;

/* Takes about a second. */
ATTEND_API attend_status attend_machine_measure(attend_context *ctx,
                                                attend_machine *machine);

/* Bytes per second at which all threads read `bytes` again and again: the ceiling
 * of a model whose weights take as many. Caches may hold part of them, and some
 * machines' hold 300 MiB. */
ATTEND_API attend_status attend_machine_read(attend_context *ctx, size_t bytes,
                                             double *rate);

#ifdef __cplusplus
}
#endif
#endif
