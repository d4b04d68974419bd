/* attend/machine.h - measured peak arithmetic and memory rates of this machine, to
 * compare a plan's cost with (the roofline). */
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
ATTEND_API attend_status attend_machine_measure(attend_context *ctx, attend_machine *machine);

/* Bytes per second at which all threads read `bytes` repeatedly: the limit of a model
 * with weights of that size. Caches may hold part of them; some hold 300 MiB. */
ATTEND_API attend_status attend_machine_read(attend_context *ctx, size_t bytes, double *rate);

/* Of measured times, say: sorts x [n]; NaN of none. */
ATTEND_API double attend_median(double *x, size_t n);

#ifdef __cplusplus
}
#endif
#endif
