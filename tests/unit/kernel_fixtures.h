/* For tests of kernels: input numbers, and a loop over the instruction sets. */
#ifndef TESTS_KERNEL_FIXTURES_H
#define TESTS_KERNEL_FIXTURES_H

#include "kernels/kernels.h"
#include "attention_fixtures.h"

static const double eps = 0x1p-24; /* half a unit of 1's last place */

static float pool[1 << 16]; /* normal numbers, refilled by refill() */

static inline void refill(uint64_t stream) {
  attend_random_normal((attend_random){21, stream}, 0, sizeof pool / sizeof *pool, pool);
}

#define FOR_EACH_KERNELS(kn)                                     \
  FOR_EACH_ISA(isa_)                                             \
  for (attend_context *ctx_ = open_context(isa_, 1, NULL); ctx_; \
       attend_context_free(ctx_), ctx_ = NULL)                   \
    for (const struct kernels *kn = ctx_->kernels; kn; kn = NULL)

/* A hash of bits against a constant's name. */
#define CHECK_BITS(got, want, kn)                                                       \
  do {                                                                                  \
    uint64_t got_ = (got);                                                              \
    if (got_ != (want))                                                                 \
      CHECK_FAIL("%s gives %#llx, not %s", (kn)->isa, (unsigned long long)got_, #want); \
  } while (0)

static inline int same(float a, float b) {
  return !memcmp(&a, &b, sizeof a) || (isnan(a) && isnan(b));
}

#endif
