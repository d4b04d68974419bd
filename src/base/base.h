/* Failures, memory, sizes, views: included by every file. */
#ifndef BASE_BASE_H
#define BASE_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "attend/base.h"
#include "base/for_lab.h"

struct kernels;       /* kernels/kernels.h */
struct pools;         /* base/parallel.c */
struct attend_engine; /* attention/engine.h */
struct attend_device; /* device/device.h */

/* Work for threads: base/parallel.h. */
struct pool;
typedef void (*phase_body)(const void *args, int64_t item, int worker);

typedef struct {
  attend_context *ctx;
  int threads;       /* at most; 1: everything runs in the caller */
  struct pool *pool; /* while it is open, or NULL: run at once, alone */
  int depth;         /* of stream_enter */
} attend_stream;

struct attend_context {
  char message[512];      /* of the last failure; "" before the first */
  char locked;            /* while the message is written */
  attend_context *parent; /* that fails with it, or NULL: context_child */
  attend_allocator allocator;
  int threads;
  const struct kernels *kernels; /* the table of the chosen instruction set */
  const char *isa;
  const struct attend_device *device;
  int device_index;                           /* among those of its kind */
  void *device_memory;                        /* the device's own, if it needs any */
  const struct attend_engine *const *engines; /* the device's, then NULL */
  size_t near_bytes;                          /* of the cache that one core has to itself (L2) */
  struct pools *pools;                        /* of threads: base/parallel.c */
  attend_stream stream;                       /* that a session opens for a whole forward pass */
  attend_parallel_for parallel_for;           /* the caller's, in their place, or NULL */
  void *parallel_user;
  float *typed; /* [typed_floats] rows of ops, as f32: layers/typed.c */
  size_t typed_floats;
  size_t cache_bytes; /* of all states, in the root alone: cache_take */
  size_t cache_limit; /* at most */
};

/* The context that a program made: its children share what it counts. */
static inline attend_context *context_root(attend_context *ctx) {
  while (ctx->parent) ctx = ctx->parent;
  return ctx;
}

/* A context for an object that another thread than its maker's may use: a message,
 * a number of threads (0: the parent's) and a stream of its own; threads, kernels,
 * device and the count of cached bytes are shared. Nothing to free. */
attend_status context_child(attend_context *parent, int threads, attend_context *child)
    FOR_LAB(context_child);

static inline void cache_give(attend_context *ctx, size_t bytes) {
  __atomic_fetch_sub(&context_root(ctx)->cache_bytes, bytes, __ATOMIC_RELAXED);
}
static inline size_t cache_held(attend_context *ctx) {
  return __atomic_load_n(&context_root(ctx)->cache_bytes, __ATOMIC_RELAXED);
}

/* Sets the message and returns the status. */
attend_status fail(attend_context *ctx, attend_status status, const char *sentence, ...)
    FOR_LAB(fail) __attribute__((format(printf, 3, 4)));

/* Return a failure to the caller; fail unless a condition holds. */
#define ATTEND_TRY(call)                              \
  do {                                                \
    attend_status try_status_ = (call);               \
    if (try_status_ != ATTEND_OK) return try_status_; \
  } while (0)
#define ATTEND_CHECK(ctx, condition, ...)                            \
  do {                                                               \
    if (!(condition)) return fail(ctx, ATTEND_INVALID, __VA_ARGS__); \
  } while (0)

/* Allocates, aligned to 64 bytes; the failure message names `what`. bytes may be 0. */
attend_status ctx_alloc(attend_context *ctx, size_t bytes, const char *what, void *block /* T ** */)
    FOR_LAB(ctx_alloc);
attend_status ctx_alloc_zeroed(attend_context *ctx, size_t bytes, const char *what,
                               void *block /* T ** */) FOR_LAB(ctx_alloc_zeroed);
void ctx_free(const attend_context *ctx, void *block) FOR_LAB(ctx_free); /* accepts NULL */
/* Grows a block to at least `wanted` elements and keeps its contents. */
attend_status grow_more(attend_context *ctx, void *block /* T ** */, size_t *capacity,
                        size_t wanted, size_t element, const char *what) FOR_LAB(grow_more);
static inline attend_status grow(attend_context *ctx, void *block, size_t *capacity, size_t wanted,
                                 size_t element, const char *what) {
  if (wanted <= *capacity) return ATTEND_OK;
  return grow_more(ctx, block, capacity, wanted, element, what);
}

/* Sizes of blocks saturate: a sum or a product that does not fit is SIZE_MAX,
 * and so is what is computed from it. ctx_alloc() refuses it. */
static inline size_t size_add(size_t a, size_t b) {
  size_t sum;
  return __builtin_add_overflow(a, b, &sum) ? SIZE_MAX : sum;
}
static inline size_t size_times(size_t a, size_t b) {
  size_t product;
  return __builtin_mul_overflow(a, b, &product) ? SIZE_MAX : product;
}
static inline size_t size_product(int n, const size_t *factors /* [n] */) {
  size_t product = 1;
  for (int i = 0; i < n; i++) product = size_times(product, factors[i]);
  return product;
}
#define SIZE_PRODUCT(...) \
  size_product(sizeof((size_t[]){__VA_ARGS__}) / sizeof(size_t), (const size_t[]){__VA_ARGS__})
static inline size_t round_up(size_t n, size_t multiple) {
  size_t up = size_add(n, multiple - 1);
  return up == SIZE_MAX ? up : up / multiple * multiple;
}
static inline int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t max64(int64_t a, int64_t b) { return a > b ? a : b; }

/* A bump allocator over one block. Run the same calls twice: with base NULL for the size,
 * then with the block. */
typedef struct {
  unsigned char *base;
  size_t used;
} arena;

static inline void *arena_cut(arena *a, size_t bytes) {
  void *piece = a->base ? a->base + a->used : NULL;
  a->used = size_add(a->used, round_up(bytes, 64));
  return piece;
}

/* Replaces all-zero strides by the contiguous ones of [B,H,len,width]. */
attend_view view_complete(attend_view view, int heads, int64_t length, int width)
    FOR_LAB(view_complete);
/* Address of element [b, h, i, 0]. */
static inline void *view_at(const attend_view *v, size_t element, int64_t b, int64_t h, int64_t i) {
  return (unsigned char *)v->data +
         (ptrdiff_t)element * (b * v->stride[0] + h * v->stride[1] + i * v->stride[2]);
}

static inline uint32_t float_bits(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}
static inline float float_of_bits(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

float half_to_float(uint16_t h);
uint16_t half_from_float(float f);
float bf16_to_float(uint16_t h);
uint16_t bf16_from_float(float f);

/* 64 bits of block `index`. */
uint64_t random_word(attend_random r, uint64_t index) FOR_LAB(random_word);
/* The image of `place` in a random permutation of [0, n), computed without storing it. */
uint64_t random_place(attend_random r, uint64_t n, uint64_t place);

/* Bytes of the well-formed UTF-8 character at s, 0 if it is not one: no
 * overlong forms, no surrogates, nothing above U+10FFFF. */
int utf8_length(const unsigned char *s, const unsigned char *end) FOR_LAB(utf8_length);

/* Of a monotonic clock. */
double seconds_now(void) FOR_LAB(seconds_now);

#endif
