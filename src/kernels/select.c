/* Choosing an instruction set: the build defines which tables exist (ATTEND_HAVE_...), the
 * CPU which of them run.
 */
#define _GNU_SOURCE
#include "kernels/kernels.h"

#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(ATTEND_HAVE_AVX2) || defined(ATTEND_HAVE_AMX)
#include <cpuid.h>
#endif

#ifdef ATTEND_HAVE_AVX2
/* Not every compiler's __builtin_cpu_supports knows it. */
static int has_f16c(void) {
  unsigned a, b, c, d;
  return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}
#endif

#ifdef ATTEND_HAVE_AMX
/* AMX tiles and bf16 products, AVX-512's bf16 conversions, and the kernel's
 * permission for this process to hold tiles. */
static int has_amx(void) {
  enum { GET_FEATURES = 0x1022, ASK_FEATURE = 0x1023, TILE_DATA = 18 };
  unsigned a, b, c, d;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return 0;
  if (!(d & 1u << 24) || !(d & 1u << 22)) return 0;
  if (!__get_cpuid_count(7, 1, &a, &b, &c, &d) || !(a & 1u << 5)) return 0;
  unsigned long held = 0;
  syscall(SYS_arch_prctl, GET_FEATURES, &held);
  if (held & 1ul << TILE_DATA) return 1;
  return syscall(SYS_arch_prctl, ASK_FEATURE, TILE_DATA) == 0;
}
#endif

typedef struct {
  const struct kernels *kernels;
  int runs_here;
} choice;

enum { MOST_SETS = 8 };

/* The sets of this build in rising order; returns their number. */
static int choices(choice out[MOST_SETS]) {
  int n = 0;
  out[n++] = (choice){&kernels_scalar, 1};
#ifdef ATTEND_HAVE_AVX2
  out[n++] = (choice){
      &kernels_avx2, __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c()};
#endif
#ifdef ATTEND_HAVE_AVX512
  out[n++] = (choice){&kernels_avx512,
                      __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                          __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")};
#endif
#ifdef ATTEND_HAVE_AMX
  out[n++] = (choice){&kernels_amx, has_amx()};
#endif
#ifdef ATTEND_HAVE_NEON
  out[n++] = (choice){&kernels_neon, 1};
#endif
  return n;
}

const char *attend_isa_name(int index, bool *runs_here) {
  choice all[MOST_SETS];
  int n = choices(all);
  if (index < 0 || index >= n) return NULL;
  if (runs_here) *runs_here = all[index].runs_here;
  return all[index].kernels->isa;
}

static void name_all(char *text, size_t size, int only_here) {
  choice all[MOST_SETS];
  int n = choices(all);
  text[0] = 0;
  for (int i = 0; i < n; i++) {
    if (only_here && !all[i].runs_here) continue;
    if (text[0]) strncat(text, ", ", size - strlen(text) - 1);
    strncat(text, all[i].kernels->isa, size - strlen(text) - 1);
  }
}

attend_status kernels_choose(attend_context *ctx, const char *wanted) {
  choice all[MOST_SETS];
  int n = choices(all);
  char names[128];
  for (int i = n - 1; i >= 0; i--) {
    const char *isa = all[i].kernels->isa;
    if (wanted ? strcmp(wanted, isa) : !all[i].runs_here) continue;
    name_all(names, sizeof names, 1);
    if (!all[i].runs_here)
      return fail(ctx, ATTEND_UNSUPPORTED,
                  "this CPU has no %s: choose among %s, or unset ATTEND_ISA", isa, names);
    ctx->kernels = all[i].kernels;
    ctx->isa = isa;
    return ATTEND_OK;
  }
  name_all(names, sizeof names, 0);
  return fail(ctx, ATTEND_INVALID,
              "\"%.40s\" is not an instruction set of this build: choose among "
              "%s, or unset ATTEND_ISA",
              wanted, names);
}
