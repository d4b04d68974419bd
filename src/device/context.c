/* Creating and freeing contexts: choosing device, engines, kernels and threads. */
#define _GNU_SOURCE
#include "base/options.h"
#include "base/parallel.h"
#include "device/device.h"
#include "kernels/kernels.h"
#include "kernels/machine.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int cores(void) {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
  long n = sysconf(_SC_NPROCESSORS_ONLN);
  return n > 0 ? (int)n : 1;
}

/* 256 KiB where the system does not say: the least that a core has had. */
static size_t near_bytes(void) {
  long n = 0;
#ifdef _SC_LEVEL2_CACHE_SIZE /* glibc's */
  n = sysconf(_SC_LEVEL2_CACHE_SIZE);
#endif
  return n > 0 ? (size_t)n : (size_t)256 << 10;
}

/* What the machine has; no limit where the system does not say. */
static size_t memory_bytes(void) {
  long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  return pages > 0 && page > 0 ? size_times((size_t)pages, (size_t)page) : SIZE_MAX;
}

/* A variable that holds no number is an error only if it is ours. */
static attend_status choose_threads(attend_context *ctx, int wanted) {
  if (wanted) return attend_context_set_threads(ctx, wanted);
  const char *ours = getenv("ATTEND_NUM_THREADS");
  char *end;
  if (ours && *ours) {
    long n = strtol(ours, &end, 10);
    ATTEND_CHECK(ctx, *end == 0 && n >= 1 && n <= 4096,
                 "ATTEND_NUM_THREADS is \"%.40s\": set it to a number from 1 to 4096", ours);
    return attend_context_set_threads(ctx, (int)n);
  }
  const char *theirs = getenv("OMP_NUM_THREADS");
  long n = theirs ? strtol(theirs, &end, 10) : 0;
  return attend_context_set_threads(ctx, n >= 1 && n <= 4096 ? (int)n : cores());
}

/* NAME or NAME:INDEX. */
static attend_status choose_device(attend_context *ctx, const char *wanted) {
  static const struct attend_device *const all[] = {&device_cpu, &device_trap, &device_cuda};
  const char *given = getenv("ATTEND_DEVICE");
  if (!wanted) wanted = given && *given ? given : "cpu";
  const char *colon = strchr(wanted, ':');
  const size_t length = colon ? (size_t)(colon - wanted) : strlen(wanted);
  char *end = NULL;
  long index = colon ? strtol(colon + 1, &end, 10) : 0;
  const bool counted = !colon || (end != colon + 1 && !*end && index >= 0 && index < 1 << 16);
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    if (strlen(all[i]->name) == length && !strncmp(all[i]->name, wanted, length))
      ctx->device = all[i];
  ATTEND_CHECK(ctx, ctx->device && counted && (!colon || ctx->device == &device_cuda),
               "there is no device \"%.40s\": choose cpu, cuda or cuda:N, or unset ATTEND_DEVICE",
               wanted);
  ctx->device_index = (int)index;
  return ctx->device->open(ctx);
}

attend_status attend_context_create(const attend_context_options *options, attend_context **out) {
  attend_context_options o;
  attend_context blank = {.threads = 1};
  attend_context *ctx;
  *out = NULL;
  attend_status status = OPTIONS_READ(&blank, attend_context_options, options, &o);
  if (!status) blank.allocator = o.allocator;
  ATTEND_TRY(ctx_alloc(&blank, sizeof blank, "a context", &ctx));
  *ctx = blank;
  ctx->parallel_for = o.parallel_for;
  ctx->parallel_user = o.parallel_user;
  ctx->near_bytes = near_bytes();
  ctx->cache_limit = o.cache_limit ? o.cache_limit : memory_bytes();
  *out = ctx;
  pools_create(ctx);
  ATTEND_TRY(status);
  ATTEND_TRY(choose_device(ctx, o.device));
  const char *isa = o.isa ? o.isa : getenv("ATTEND_ISA");
  ATTEND_TRY(kernels_choose(ctx, isa && *isa ? isa : NULL));
  return choose_threads(ctx, o.threads);
}

const char *attend_context_device(const attend_context *ctx) {
  return ctx->device->model ? ctx->device->model(ctx) : ctx->device->name;
}

attend_status attend_context_wait(attend_context *ctx) { return ctx->device->wait(ctx); }

bool attend_context_memory(attend_context *ctx, size_t *bytes, size_t *most, bool reset) {
  *bytes = *most = 0;
  if (!ctx->device->held) return false;
  ctx->device->held(ctx, bytes, most, reset);
  return true;
}

attend_status attend_machine_measure(attend_context *ctx, attend_machine *machine) {
  return ctx->device->measure ? ctx->device->measure(ctx, machine)
                              : cpu_machine_measure(ctx, machine);
}

attend_status attend_machine_read(attend_context *ctx, size_t bytes, double *rate) {
  attend_machine machine;
  if (!ctx->device->measure) return cpu_machine_read(ctx, bytes, rate);
  ATTEND_TRY(ctx->device->measure(ctx, &machine));
  *rate = machine.read_all;
  return ATTEND_OK;
}

void attend_context_free(attend_context *ctx) {
  if (!ctx) return;
  pools_free(ctx);
  if (ctx->device) ctx->device->close(ctx);
  attend_allocator a = ctx->allocator;
  if (a.release)
    a.release(ctx, a.user);
  else
    free(ctx);
}
