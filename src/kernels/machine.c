/* Peak rates of this machine, measured in about a second; `attend explain` compares a
 * plan's cost with them. Arithmetic: multiply-adds in registers. Memory: reading an array
 * of 256 MiB, larger than most caches. The best of several tries counts.
 */
#include "kernels/machine.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/parallel.h"
#include "kernels/kernels.h"

enum { TRIES = 5 };

enum { PARTS = 256 };

typedef struct {
  const struct kernels *kn;
  long rounds;
  float *x;
  size_t n;     /* of a part */
  double *sums; /* [PARTS], or of each thread */
} load;

static double total(const load *l, int n) {
  double sum = 0;
  for (int i = 0; i < n; i++) sum += l->sums[i];
  return sum;
}

static void spin_part(const void *args, int64_t i, int worker) {
  const load *l = args;
  (void)worker;
  l->sums[i] = l->kn->spin_fma(l->rounds);
}

static double spin(attend_context *ctx, int threads, long rounds, double *sums) {
  load l = {.kn = ctx->kernels, .rounds = rounds, .sums = sums};
  double start = seconds_now();
  PARALLEL_FOR(ctx, threads, threads, spin_part, l);
  return total(&l, threads) / (seconds_now() - start);
}

static double best_flops(attend_context *ctx, int threads, double *sums) {
  long rounds = 1000;
  double rate = spin(ctx, threads, rounds, sums);
  rounds = (long)(rate / threads * 0.02 / 200.0) + 1; /* about 20 ms */
  for (int i = 0; i < TRIES; i++) {
    double again = spin(ctx, threads, rounds, sums);
    if (again > rate) rate = again;
  }
  return rate;
}

static void read_part(const void *args, int64_t i, int worker) {
  const load *l = args;
  (void)worker;
  l->sums[i] = (double)l->kn->sum_all(l->x + (size_t)i * l->n, l->n);
}

static void clear_part(const void *args, int64_t i, int worker) {
  const load *l = args;
  (void)worker;
  memset(l->x + (size_t)i * l->n, 0, l->n * sizeof *l->x);
}

static double read_once(attend_context *ctx, int threads, const load *l) {
  double start = seconds_now();
  PARALLEL_FOR(ctx, threads, PARTS, read_part, *l);
  double took = seconds_now() - start;
  return total(l, PARTS) < 0 ? 0 : (double)(PARTS * l->n * sizeof *l->x) / took;
}

static double best_read(attend_context *ctx, int threads, const load *l) {
  double rate = 0;
  for (int i = 0; i < TRIES; i++) {
    double again = read_once(ctx, threads, l);
    if (again > rate) rate = again;
  }
  return rate;
}

/* An array of n floats, which each thread clears a part of, and sums. */
static attend_status load_open(attend_context *ctx, size_t n, load *l) {
  size_t sums = (size_t)max64(PARTS, ctx->threads) * sizeof *l->sums;
  *l = (load){.kn = ctx->kernels, .n = n / PARTS};
  ATTEND_TRY(
      ctx_alloc(ctx, size_add(size_times(n, sizeof *l->x), sums), "measuring memory", &l->x));
  l->sums = (double *)(l->x + n);
  PARALLEL_FOR(ctx, ctx->threads, PARTS, clear_part, *l);
  return ATTEND_OK;
}

attend_status cpu_machine_read(attend_context *ctx, size_t bytes, double *rate) {
  load l;
  const size_t n = bytes / sizeof *l.x / PARTS * PARTS;
  ATTEND_CHECK(ctx, n, "reading %zu bytes cannot be measured: give at least 1024", bytes);
  ATTEND_TRY(load_open(ctx, n, &l));
  double seconds = 0;
  for (int i = 0; i <= TRIES; i++) {
    double once = (double)(n * sizeof *l.x) / read_once(ctx, ctx->threads, &l);
    if (i) seconds += once; /* the first fills the caches */
  }
  *rate = (double)(n * sizeof *l.x) * TRIES / seconds;
  ctx_free(ctx, l.x);
  return ATTEND_OK;
}

attend_status cpu_machine_measure(attend_context *ctx, attend_machine *machine) {
  load l;
  ATTEND_TRY(load_open(ctx, (size_t)64 << 20, &l)); /* 256 MiB */
  *machine = (attend_machine){.threads = ctx->threads};
  machine->flops_one = best_flops(ctx, 1, l.sums);
  machine->flops_all = best_flops(ctx, ctx->threads, l.sums);
  machine->read_one = best_read(ctx, 1, &l);
  machine->read_all = best_read(ctx, ctx->threads, &l);
  ctx_free(ctx, l.x);
  return ATTEND_OK;
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

double attend_median(double *x, size_t n) {
  if (!n) return NAN;
  qsort(x, n, sizeof *x, by_value);
  return n % 2 ? x[n / 2] : (x[n / 2 - 1] + x[n / 2]) / 2;
}
