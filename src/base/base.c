/* Failures, memory, thread counts and child contexts; views, the clock. Contexts are
 * created in device/context.c.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/options.h"

const char *attend_version(void) { return ATTEND_VERSION; }

const char *attend_message(const attend_context *ctx) {
  return ctx ? ctx->message : "out of memory: no context could be made";
}

int attend_context_threads(const attend_context *ctx) { return ctx->threads; }

attend_status attend_context_set_threads(attend_context *ctx, int threads) {
  ATTEND_CHECK(ctx, threads >= 1 && threads <= 4096,
               "%d threads were requested: choose a number from 1 to 4096", threads);
  ctx->threads = threads;
  ctx->stream = (attend_stream){ctx, threads, NULL, 0};
  return ATTEND_OK;
}

/* Field by field: the parent's message and count of cached bytes change meanwhile,
 * and its stream while it computes. */
attend_status context_child(attend_context *parent, int threads, attend_context *child) {
  *child = (attend_context){.parent = parent,
                            .allocator = parent->allocator,
                            .kernels = parent->kernels,
                            .isa = parent->isa,
                            .device = parent->device,
                            .device_memory = parent->device_memory,
                            .engines = parent->engines,
                            .near_bytes = parent->near_bytes,
                            .pools = parent->pools,
                            .parallel_for = parent->parallel_for,
                            .parallel_user = parent->parallel_user,
                            .cache_limit = parent->cache_limit};
  return attend_context_set_threads(child, threads ? threads : parent->threads);
}

const char *attend_context_isa(const attend_context *ctx) { return ctx->isa; }

/* Children of a context may fail on several threads at once. */
static void set_message(attend_context *ctx, const char *sentence) {
  while (__atomic_test_and_set(&ctx->locked, __ATOMIC_ACQUIRE)) continue;
  memcpy(ctx->message, sentence, sizeof ctx->message);
  __atomic_clear(&ctx->locked, __ATOMIC_RELEASE);
}

attend_status fail(attend_context *ctx, attend_status status, const char *sentence, ...) {
  char plain[sizeof ctx->message];
  va_list args;
  va_start(args, sentence);
  vsnprintf(plain, sizeof plain, sentence, args);
  va_end(args);
  /* names and values from files may hold anything */
  char escaped[sizeof ctx->message];
  attend_escape(plain, strlen(plain), "", escaped, sizeof escaped);
  for (; ctx; ctx = ctx->parent) set_message(ctx, escaped);
  return status;
}

attend_status ctx_alloc(attend_context *ctx, size_t bytes, const char *what, void *block) {
  size_t rounded = round_up(bytes ? bytes : 1, 64);
  void *p = NULL;
  bool fits = rounded <= PTRDIFF_MAX;
  if (fits)
    p = ctx->allocator.allocate ? ctx->allocator.allocate(rounded, ctx->allocator.user)
                                : aligned_alloc(64, rounded);
  memcpy(block, &p, sizeof p);
  if (p) return ATTEND_OK;
  if (!fits)
    return fail(ctx, ATTEND_NO_MEMORY,
                "%s would exceed the address space: choose a smaller problem", what);
  return fail(ctx, ATTEND_NO_MEMORY,
              "no memory for %s (%zu bytes): free some or choose a smaller problem", what, bytes);
}

attend_status ctx_alloc_zeroed(attend_context *ctx, size_t bytes, const char *what, void *block) {
  ATTEND_TRY(ctx_alloc(ctx, bytes, what, block));
  void *p;
  memcpy(&p, block, sizeof p);
  memset(p, 0, bytes);
  return ATTEND_OK;
}

void ctx_free(const attend_context *ctx, void *block) {
  if (!block) return;
  if (ctx->allocator.release)
    ctx->allocator.release(block, ctx->allocator.user);
  else
    free(block);
}

attend_status grow_more(attend_context *ctx, void *block, size_t *capacity, size_t wanted,
                        size_t element, const char *what) {
  void **old = block, *fresh;
  size_t next = *capacity + *capacity / 2;
  if (next < wanted) next = wanted;
  if (next < 64) next = 64;
  if (next > SIZE_MAX / element / 2)
    return fail(ctx, ATTEND_NO_MEMORY, "no memory for %zu %s", wanted, what);
  ATTEND_TRY(ctx_alloc(ctx, next * element, what, &fresh));
  if (*capacity) memcpy(fresh, *old, *capacity * element);
  ctx_free(ctx, *old);
  *old = fresh;
  *capacity = next;
  return ATTEND_OK;
}

double seconds_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

attend_view view_complete(attend_view view, int heads, int64_t length, int width) {
  const ptrdiff_t *s = view.stride;
  if (s[0] || s[1] || s[2] || s[3]) return view;
  view.stride[3] = 1;
  view.stride[2] = width;
  view.stride[1] = (ptrdiff_t)(length * width);
  view.stride[0] = heads * view.stride[1];
  return view;
}

attend_view attend_view_rows(attend_view view, attend_dtype dtype, int heads, int length, int width,
                             int first) {
  view = view_complete(view, heads, length, width);
  view.data = view_at(&view, attend_dtype_size(dtype), 0, 0, first);
  return view;
}

/* ---- structs that begin with their size ------------------------------------------ */

attend_status options_read(attend_context *ctx, const char *type, const void *from, size_t size,
                           void *to) {
  const unsigned char *bytes = from;
  size_t given = size;
  memset(to, 0, size);
  if (bytes) memcpy(&given, bytes, sizeof given);
  ATTEND_CHECK(ctx, given >= sizeof given, "%s.size is %zu: begin it with ATTEND_INIT(%s)", type,
               given, type);
  for (size_t i = size; i < given; i++)
    ATTEND_CHECK(ctx, bytes[i] == 0, "%s has fields that this library does not know (version %s)",
                 type, ATTEND_VERSION);
  if (bytes) memcpy(to, bytes, given < size ? given : size);
  memcpy(to, &size, sizeof size);
  return ATTEND_OK;
}

/* ---- f16 and bf16, one value at a time; kernels convert whole rows --------------- */

float bf16_to_float(uint16_t h) { return float_of_bits((uint32_t)h << 16); }

uint16_t bf16_from_float(float f) {
  uint32_t u = float_bits(f);
  if ((u & 0x7fffffffu) > 0x7f800000u) /* NaN: keep it quiet, and a NaN */
    return (uint16_t)(u >> 16 | 0x40);
  return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

float half_to_float(uint16_t h) {
  uint32_t sign = (uint32_t)(h & 0x8000) << 16;
  uint32_t exponent = h >> 10 & 31, mantissa = h & 0x3ff;
  if (exponent == 31) /* a NaN becomes quiet, as the hardware makes it */
    return float_of_bits(sign | 0x7f800000u | mantissa << 13 | (mantissa ? 0x400000u : 0));
  if (exponent) return float_of_bits(sign | (exponent + 112) << 23 | mantissa << 13);
  float magnitude = (float)mantissa * 0x1p-24f;
  return sign ? -magnitude : magnitude;
}

uint16_t half_from_float(float f) {
  uint32_t u = float_bits(f), sign = u >> 16 & 0x8000, a = u & 0x7fffffffu;
  if (a > 0x7f800000u) return (uint16_t)(sign | 0x7e00 | (a >> 13 & 0x3ff));
  if (a >= 0x477ff000u) return (uint16_t)(sign | 0x7c00); /* rounds to inf */
  if (a < 0x38800000u) { /* below 2^-14: adding 1/2 rounds at 2^-24 */
    float rounded = float_of_bits(a) + 0.5f;
    return (uint16_t)(sign | (float_bits(rounded) - 0x3f000000u));
  }
  uint32_t even = a >> 13 & 1;
  return (uint16_t)(sign | ((a - 0x38000000u + 0xfff + even) >> 13));
}

size_t attend_dtype_size(attend_dtype dtype) { return dtype == ATTEND_F32 ? 4 : 2; }

const char *attend_dtype_name(attend_dtype dtype) {
  static const char *const names[] = {"f32", "f16", "bf16"};
  return (unsigned)dtype < 3 ? names[dtype] : "?";
}

void attend_convert_from_f32(attend_dtype dtype, const float *src, size_t n, void *dst) {
  if (dtype == ATTEND_F32) {
    memcpy(dst, src, n * sizeof *src);
    return;
  }
  uint16_t *out = dst;
  for (size_t i = 0; i < n; i++)
    out[i] = dtype == ATTEND_F16 ? half_from_float(src[i]) : bf16_from_float(src[i]);
}

void attend_convert_to_f32(attend_dtype dtype, const void *src, size_t n, float *dst) {
  if (dtype == ATTEND_F32) {
    memcpy(dst, src, n * sizeof *dst);
    return;
  }
  for (size_t i = 0; i < n; i++) {
    uint16_t bits; /* a file may put a tensor at any byte */
    memcpy(&bits, (const char *)src + i * sizeof bits, sizeof bits);
    dst[i] = dtype == ATTEND_F16 ? half_to_float(bits) : bf16_to_float(bits);
  }
}
