/* The ceilings of this machine, measured in about a second.
 *
 * Place: kernels/ - behind attend_machine_measure; explain compares a plan's
 * cost with them. Arithmetic: multiply-adds that never leave the registers.
 * Memory: reading an array much larger than the caches. The best of several
 * tries counts: a ceiling is what the machine can do when nobody disturbs it.
 */
#include "attend/machine.h"

#include <string.h>

#include "kernels/kernels.h"

enum { TRIES = 5 };

static double spin(const struct kernels *kn, int threads, long rounds) {
  double done = 0, start = seconds_now();
#pragma omp parallel num_threads(threads) reduction(+ : done)
  done += kn->spin_fma(rounds);
  return done / (seconds_now() - start);
}

static double best_flops(const struct kernels *kn, int threads) {
  long rounds = 1000;
  double rate = spin(kn, threads, rounds);
  rounds = (long)(rate / threads * 0.02 / 200.0) + 1; /* about 20 ms */
  for (int i = 0; i < TRIES; i++) {
    double again = spin(kn, threads, rounds);
    if (again > rate) rate = again;
  }
  return rate;
}

static double read_once(const struct kernels *kn, int threads, const float *x,
                        size_t n) {
  double sum = 0, start = seconds_now();
#pragma omp parallel for num_threads(threads) reduction(+ : sum) schedule(static)
  for (size_t part = 0; part < 256; part++)
    sum += (double)kn->sum_all(x + part * (n / 256), n / 256);
  double took = seconds_now() - start;
  return sum < 0 ? 0 : (double)(n * sizeof *x) / took;
}

static double best_read(const struct kernels *kn, int threads, const float *x,
                        size_t n) {
  double rate = 0;
  for (int i = 0; i < TRIES; i++) {
    double again = read_once(kn, threads, x, n);
    if (again > rate) rate = again;
  }
  return rate;
}

attend_status attend_machine_measure(attend_context *ctx,
                                     attend_machine *machine) {
  size_t n = (size_t)64 << 20; /* 256 MiB */
  float *x;
  ATTEND_TRY(take(ctx, n * sizeof *x, "measuring memory", &x));
#pragma omp parallel for num_threads(ctx->threads) schedule(static)
  for (size_t part = 0; part < 256; part++)
    memset(x + part * (n / 256), 0, n / 256 * sizeof *x);
  const struct kernels *kn = ctx->kernels;
  machine->threads = ctx->threads;
  machine->flops_one = best_flops(kn, 1);
  machine->flops_all = best_flops(kn, ctx->threads);
  machine->read_one = best_read(kn, 1, x, n);
  machine->read_all = best_read(kn, ctx->threads, x, n);
  give(ctx, x);
  return ATTEND_OK;
}
