/* For tests of linear forms: the forms, an allocator that returns NaN, and tensors whose
 * plan must choose the linear engine. */
#ifndef TESTS_LINEAR_FIXTURES_H
#define TESTS_LINEAR_FIXTURES_H

#include "attend/problem.h"
#include "saved_outputs.h"

/* ---- memory filled with NaN --------------------------------------------------- */

/* Every block is filled with NaN, which exposes uninitialised reads. */
static inline void *nan_take(size_t bytes, void *user) {
  void *block = ledger_take(bytes, user);
  if (block) memset(block, 0xff, bytes);
  return block;
}

static inline attend_context *open_dirty(const char *isa, int threads, ledger *l) {
  static ledger nobodys;
  attend_context_options options = {ATTEND_INIT(attend_context_options), .isa = isa,
                                    .threads = threads,
                                    .allocator = {nan_take, ledger_give, l ? l : &nobodys}};
  attend_context *ctx;
  if (attend_context_create(&options, &ctx)) {
    printf("no context: %s\n", attend_message(ctx));
    exit(1);
  }
  return ctx;
}

/* ---- forms -------------------------------------------------------------------- */

/* The caller's map: relu(x) + 0.1, then squares, a quarter of them for keys. */
static inline void bent(const float *x, int dim, int key, float *features, int count, void *user) {
  float part = key ? 0.25f : 1.0f;
  (void)count, (void)user;
  for (int i = 0; i < dim; i++) {
    features[i] = (x[i] > 0 ? x[i] : 0 * x[i]) + 0.1f;
    features[dim + i] = part * x[i] * x[i];
  }
}

static inline void bent_backward(const float *x, int dim, int key, const float *df, int count,
                                 float *dx, void *user) {
  float part = key ? 0.25f : 1.0f;
  (void)count, (void)user;
  for (int i = 0; i < dim; i++) dx[i] = (x[i] > 0 ? df[i] : 0) + 2 * part * x[i] * df[dim + i];
}

static const char *const linear_forms[] = {
    "elu",
    "favor(m=16)",
    "favor(m=40,draw=iid,seed=2)",
    "favor(m=64,kind=pair)",
    "favor(m=40,kind=pair,draw=iid,seed=3)",
    "fourier(m=64,seed=4,sigma=3)",
    "gaussian(m=40)",
    "gaussian(m=64,map=fourier,sigma=4)",
    "poly(p=1,c=20)",
    "poly(p=2)",
    "poly(p=3,a=0.5,c=1)",
    "custom",
};
enum { LINEAR_FORMS = sizeof linear_forms / sizeof *linear_forms };

/* Of "FORM" and "SHAPE:WORDS"; custom is bent. */
static inline attend_tensors linear_tensors(attend_context *ctx, const char *form,
                                            const char *shape, uint64_t seed) {
  int own = !strcmp(form, "custom");
  char text[200];
  snprintf(text, sizeof text, "%s:%s", own ? "elu" : form, shape);
  attend_tensors t = make_tensors(ctx, text, seed);
  if (own)
    t.desc.form = (attend_form){.kind = ATTEND_CUSTOM,
                                .phi = bent,
                                .phi_backward = bent_backward,
                                .features = 2 * t.desc.dim};
  t.desc.engine = "linear";
  return t;
}

static inline int is_form(const char *form, const char *kind) {
  return !strncmp(form, kind, strlen(kind));
}

/* "FORM:SHAPE", for messages; good until the next call. */
static inline const char *named(const char *form, const char *shape) {
  static char text[200];
  snprintf(text, sizeof text, "%s:%s", form, shape);
  return text;
}

#endif
