/* For tests of attention: contexts for every instruction set, an allocator that counts
 * and can fail, tensors from problem strings. */
#ifndef TESTS_ATTENTION_FIXTURES_H
#define TESTS_ATTENTION_FIXTURES_H

#include <stdlib.h>

#include "attend/problem.h"
#include "attend/attend.h"
#include "check.h"

/* Under sanitizers and emulators: fewer and smaller cases, but never none. */
static inline int light(void) {
  const char *set = getenv("ATTEND_TEST_LIGHT");
  return set && *set && strcmp(set, "0");
}

/* ---- memory ---------------------------------------------------------------- */

typedef struct {
  long taken;   /* calls so far */
  long fail_at; /* this call fails: 1 is the first; 0 is none */
  long live;    /* blocks not yet given back */
  size_t bytes; /* taken so far */
} ledger;

static inline void *ledger_take(size_t bytes, void *user) {
  ledger *l = user;
  if (__atomic_add_fetch(&l->taken, 1, __ATOMIC_RELAXED) == l->fail_at) return NULL;
  __atomic_add_fetch(&l->live, 1, __ATOMIC_RELAXED);
  __atomic_add_fetch(&l->bytes, bytes, __ATOMIC_RELAXED);
  return aligned_alloc(64, (bytes + 63) / 64 * 64);
}

static inline void ledger_give(void *block, void *user) {
  ledger *l = user;
  if (block) __atomic_sub_fetch(&l->live, 1, __ATOMIC_RELAXED);
  free(block);
}

/* ---- contexts -------------------------------------------------------------- */

/* The n-th instruction set that runs here, NULL past the last. */
static inline const char *isa_here(int n) {
  bool runs;
  const char *name;
  for (int i = 0; (name = attend_isa_name(i, &runs)); i++)
    if (runs && n-- == 0) return name;
  return NULL;
}

static inline attend_context *open_context(const char *isa, int threads, ledger *l) {
  attend_context_options options = {ATTEND_INIT(attend_context_options), .isa = isa,
                                    .threads = threads};
  if (l) options.allocator = (attend_allocator){ledger_take, ledger_give, l};
  attend_context *ctx;
  if (attend_context_create(&options, &ctx)) {
    printf("no context: %s\n", attend_message(ctx));
    exit(1);
  }
  return ctx;
}

/* For tests that need only one context: of one thread, on the widest instruction set. */
static inline attend_context *context(void) {
  static attend_context *ctx;
  if (!ctx) ctx = open_context(NULL, 1, NULL);
  return ctx;
}

#define FOR_EACH_ISA(name)                                        \
  for (int isa_number_ = 0; isa_here(isa_number_); isa_number_++) \
    for (const char *name = isa_here(isa_number_); name; name = NULL)

#define OK(ctx, call)                                           \
  do {                                                          \
    if (call) CHECK_FAIL("%s: %s", #call, attend_message(ctx)); \
  } while (0)

/* ---- tensors --------------------------------------------------------------- */

static inline attend_tensors make_tensors(attend_context *ctx, const char *text, uint64_t seed) {
  attend_problem p = {ATTEND_INIT(attend_problem)};
  attend_tensors t = {ATTEND_INIT(attend_tensors)};
  if (attend_problem_parse(ctx, text, &p) || attend_problem_tensors(ctx, &p, seed, &t)) {
    printf("%s: %s\n", text, attend_message(ctx));
    exit(1);
  }
  return t;
}

static inline attend_plan *make_plan(attend_context *ctx, const attend_desc *d) {
  attend_plan *plan;
  if (attend_plan_create(ctx, d, &plan)) {
    printf("no plan: %s\n", attend_message(ctx));
    exit(1);
  }
  return plan;
}

/* Rows [B,H,T], keys [B,G,S]; times a width they count elements. */
static inline size_t rows_of(const attend_desc *d) {
  return (size_t)d->batch * (size_t)d->heads * (size_t)d->q_len;
}
static inline size_t keys_of(const attend_desc *d) {
  return (size_t)d->batch * (size_t)d->kv_heads * (size_t)d->kv_len;
}

static inline void *zeroed_block(size_t n, size_t size) {
  void *p = calloc(n ? n : 1, size);
  if (!p) exit(1);
  return p;
}

static inline char *read_whole(const char *path, size_t *length) {
  FILE *f = fopen(path, "rb");
  if (!f) {
    printf("%s cannot be opened\n", path);
    exit(1);
  }
  fseek(f, 0, SEEK_END);
  *length = (size_t)ftell(f);
  rewind(f);
  char *bytes = zeroed_block(*length + 1, 1);
  if (fread(bytes, 1, *length, f) != *length) exit(1);
  fclose(f);
  return bytes;
}

static inline void *copy_of(const void *from, size_t bytes) {
  return memcpy(zeroed_block(bytes, 1), from, bytes);
}

/* Every one of n floats, in place, of a tensor stored as dtype. */
static inline void put_all(attend_dtype dtype, void *dst, size_t at, size_t n, float x) {
  size_t size = attend_dtype_size(dtype);
  for (size_t i = at; i < at + n; i++)
    attend_convert_from_f32(dtype, &x, 1, (char *)dst + i * size);
}

static inline float *widened(attend_dtype dtype, const void *src, size_t n) {
  float *out = zeroed_block(n, sizeof *out);
  attend_convert_to_f32(dtype, src, n, out);
  return out;
}

#endif
