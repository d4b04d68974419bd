/* attend/verify.h - is a result right?
 *
 *   attend_problem problem = {ATTEND_INIT(attend_problem)};
 *   attend_verifier *v;
 *   attend_verification verdict;
 *   attend_problem_parse(ctx, "softmax:b2h4n65d24:causal:bwd", &problem);
 *   attend_verifier_create(ctx, &problem, 1, &v);
 *   attend_verifier_run(v, ctx, &verdict);           the engine of ctx's plan
 *   printf("%s: %s\n", verdict.engine, verdict.ok ? "ok" : "WRONG");
 *   attend_verifier_free(v);
 *
 * An engine is compared with the definition in double. Its error may be twice that
 * of a naive implementation in float, plus what rounding alone may do.
 */
#ifndef ATTEND_VERIFY_H
#define ATTEND_VERIFY_H

#include "attend/model.h"
#include "attend/problem.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- one problem ------------------------------------------------------------- */

enum {
  ATTEND_OUT_O,
  ATTEND_OUT_LSE,
  ATTEND_OUT_DQ,
  ATTEND_OUT_DK,
  ATTEND_OUT_DV,
  ATTEND_OUT_DBIAS,
  ATTEND_OUTPUTS
};
ATTEND_API const char *attend_output_name(int output); /* "o", "lse", "dq", .. */

typedef struct {
  double error[ATTEND_OUTPUTS], bound[ATTEND_OUTPUTS]; /* NaN: no such output */
  int worst; /* the output with the largest error for its bound */
  bool ok;   /* every error is within its bound */
  /* rows left out, since float arithmetic does not decide them: near ties of a hard argmax,
   * denominators that cancel */
  size_t undecided;
  char engine[64];
} attend_verification;

typedef struct attend_verifier attend_verifier;

/* Draws the tensors, computes the definition and the naive run. The problem is
 * attention, and a decode is padded by key, not by lengths. */
ATTEND_API attend_status attend_verifier_create(attend_context *ctx, const attend_problem *problem,
                                                uint64_t seed, attend_verifier **verifier);
/* Runs the plan's engine in a context of any instruction set. */
ATTEND_API attend_status attend_verifier_run(attend_verifier *verifier, attend_context *ctx,
                                             attend_verification *verdict);
ATTEND_API void attend_verifier_free(attend_verifier *verifier);

typedef struct { /* zero means default */
  size_t size;
  uint64_t seed; /* of the tensors */
  bool small;    /* cut batch, heads and lengths (300): a moment for each problem */
  bool skip;     /* a problem that no engine takes is no failure: each gets NULL */
  /* Called for each verdict; on a GPU there may be several of one problem. */
  void (*each)(attend_context *ctx, size_t i, const attend_problem *problem,
               const attend_verification *verdict, void *user);
  attend_progress progress; /* called before each problem; NaN: before seconds without a call */
  void *user;
} attend_verify_options;

/* Verifies each problem in each context, one for every instruction set; the definition
 * is computed once. On a GPU all of its engines that take a problem run. Messages are in the first context. */
ATTEND_API attend_status attend_verify(int contexts, attend_context *const *context, size_t count,
                                       const attend_problem *problems /* [count] */,
                                       const attend_verify_options *options);

/* ---- pairwise cases ------------------------------------------------------------ */

typedef struct attend_cases attend_cases;

/* Problem strings in which every two choices (of form, mask, bias, dtype, heads,
 * layout, operation and sizes) that go together occur in at least one problem, and
 * corner cases. Not every engine takes every one: attend_verifier_run may say
 * ATTEND_UNSUPPORTED. light: shorter lengths and fewer of them, for emulators. */
ATTEND_API attend_status attend_cases_create(attend_context *ctx, int light, attend_cases **cases);
ATTEND_API size_t attend_cases_count(const attend_cases *cases);
/* Case i; NULL past the last. */
ATTEND_API const char *attend_cases_get(const attend_cases *cases, size_t i);
ATTEND_API void attend_cases_free(attend_cases *cases);

/* ---- invariance ---------------------------------------------------------------- */

/* A fixed list of problems for attend_invariance; NULL past the last. The first
 * ATTEND_INVARIANCE_LIGHT are short. */
enum { ATTEND_INVARIANCE_LIGHT = 12 };
ATTEND_API const char *attend_invariance_problem(size_t i);
/* Solves the problem once with one thread, all at once; then in every way that must
 * not change a bit: other numbers of threads, a batch entry alone, a query alone,
 * the other layout, keys fed to a state in chunks, with an observer. Calls `each`
 * with the name of every check ("7 threads") and its verdict, whose bounds are 0. */
ATTEND_API attend_status attend_invariance(
    attend_context *ctx, const char *problem, uint64_t seed,
    void (*each)(const char *check, const attend_verification *verdict, void *user), void *user);

/* ---- golden files ---------------------------------------------------------------- */

typedef struct attend_golden attend_golden;

/* A safetensors file of cases computed by other code: <case>.q, .k, .v and .do in,
 * .o, .lse, .dq, .dk and .dv out, [batch, heads, length, width], F32; its metadata
 * has a JSON object of settings under each case's name. */
ATTEND_API attend_status attend_golden_open(attend_context *ctx, const char *path,
                                            attend_golden **golden);
ATTEND_API size_t attend_golden_count(const attend_golden *golden);
ATTEND_API const char *attend_golden_name(const attend_golden *golden, size_t i);
/* Case i in a context of any instruction set. Contexts in the inner loop read each
 * case once. */
ATTEND_API attend_status attend_golden_run(attend_golden *golden, size_t i, attend_context *ctx,
                                           attend_verification *verdict);
ATTEND_API void attend_golden_free(attend_golden *golden);

/* One quantity of a model, computed in one way. */
typedef struct {
  const char *quantity; /* the tensor's name in the file: "logits", "hidden.3", .. */
  const char *method;   /* "together" with padding, "alone", "token by token", .. */
  double error, bound;  /* of the largest; NaN: of ids */
  const char *bits;     /* against "together": "the same", "DIFFER", or "" */
  bool ok;
} attend_golden_row;

/* A model against a safetensors file of what Hugging Face transformers computed with
 * it: ids, and logits, hidden states, attention, loss and generated ids, where it has
 * them. Calls `each` with every row; *skipped counts gradients, which are not
 * compared. */
ATTEND_API attend_status attend_golden_model(attend_model *model, const char *path,
                                             void (*each)(const attend_golden_row *row, void *user),
                                             void *user, size_t *skipped);

/* ---- running a problem ------------------------------------------------------------ */

typedef struct attend_solver attend_solver;

/* Plans the problem; of a decode, fills the state with all keys but the last. The
 * tensors must stay. On a GPU what is the host's memory is copied there, once. */
ATTEND_API attend_status attend_solver_create(attend_context *ctx, const attend_problem *problem,
                                              attend_tensors *tensors, attend_solver **solver);
/* Forward; forward and backward; or one token. */
ATTEND_API attend_status attend_solver_run(attend_solver *solver);
/* Waits, and copies what a GPU computed into the tensors; on the CPU it is there already. */
ATTEND_API attend_status attend_solver_fetch(attend_solver *solver);
/* Removes the token of a decode, so that attend_solver_run can be called again. */
ATTEND_API attend_status attend_solver_rewind(attend_solver *solver);
ATTEND_API attend_plan *attend_solver_plan(const attend_solver *solver);
ATTEND_API void attend_solver_free(attend_solver *solver);

#ifdef __cplusplus
}
#endif
#endif
