/* What the files of lab/verify share: memory, outputs, runs, verdicts.
 *
 * Read verifier.c (outputs, the definition, running an engine, the verdict) and naive.c
 * (the reference implementation in float), then cases.c, invariance.c, golden.c and
 * golden_model.c, which choose what to verify.
 */
#ifndef VERIFY_VERIFY_H
#define VERIFY_VERIFY_H

#include "attend/problem.h"
#include "attend/attention.h"
#include "attend/verify.h"
#include "device/device.h"

/* Blocks of one object, freed together. */
typedef struct {
  attend_context *ctx;
  blocks list;
} memory;

/* Zeroed: count elements of *pointer. */
#define TAKE(m, pointer, count)                        \
  ATTEND_TRY(blocks_add((m)->ctx, &(m)->list, ON_HOST, \
                        size_times((size_t)(count), sizeof **(pointer)), "verifying", pointer))
static inline void memory_free(memory *m) { blocks_free(m->ctx, &m->list); }

/* Contiguous, in the order of the letters; at is NULL where there is none. Every
 * float is exact in a double, so one type serves definition, naive run and engine. */
typedef struct {
  size_t count[ATTEND_OUTPUTS];
  double *at[ATTEND_OUTPUTS];
} outputs;

/* Zeroed arrays for a problem: o and lse, and the gradients if requested. */
attend_status outputs_take(memory *m, const attend_desc *desc, bool gradients, outputs *out);
/* What a solver wrote. */
attend_status outputs_read(memory *m, const attend_tensors *tensors, bool gradients, outputs *out);

/* ---- views ------------------------------------------------------------------- */

/* The view from element [b, h, i] on. */
attend_view view_from(attend_view view, attend_dtype dtype, int b, int h, int i);
/* All of it, contiguous, widened. */
void view_read(attend_view view, attend_dtype dtype, int batch, int heads, int length, int width,
               double *out);
/* Where [b, h, i, j] of a dense bias lies in its own shape. */
ptrdiff_t dense_at(const attend_desc *desc, int b, int h, int i, int j);

/* ---- reference runs ------------------------------------------------------------ */

/* What an engine rounds in products of bf16 or f16, beside inputs and results. */
typedef enum {
  ROUND_NOTHING,
  ROUND_WEIGHTS, /* to bf16, before they are multiplied by values: AMX */
  ROUND_OPERANDS /* weights and gradients of scores, wherever they are multiplied: a GPU */
} rounding;

typedef struct {
  const attend_desc *desc;  /* complete */
  attend_view q, k, v, d_o; /* complete; d_o.data NULL: forward only */
  rounding rounds;
  const unsigned char *undecided; /* [B,H,T] rows without a magnitude, or NULL */
} inputs;

inputs inputs_of(const attend_tensors *tensors);
/* The inputs with new tensors for the results, in either layout, in one block. */
attend_status results_take(memory *m, const inputs *in, bool bthd, attend_tensors *tensors);

static inline bool is_hard(const attend_desc *d) {
  return d->form.kind == ATTEND_ARGMAX && d->form.temperature == 0;
}
/* What an engine rounds: a naive run in the same precision must do it too. */
rounding rounding_of(const attend_context *ctx, const attend_desc *desc, const char *engine);

/* The definition, in double. */
attend_status run_definition(attend_context *ctx, const inputs *in, outputs *out);

/* Plain loops in float. magnitude[x] is the largest sum of absolute values of the
 * terms of a number of output x: what its rounding is relative to, even where the
 * sum itself is small. A weight whose score has terms beyond 8 counts for more, as
 * the exponential amplifies its rounding. */
attend_status run_naive(attend_context *ctx, const inputs *in, outputs *out,
                        double magnitude[ATTEND_OUTPUTS]);

/* For a hard argmax: marks rows [B,H,T] whose best two keys are closer than
 * float can tell and not equal, so that either is a right answer. For signed
 * similarities: rows whose denominator lost ten times more of its terms to
 * cancellation than the median row's. Returns how many in *count. */
attend_status mark_undecided(attend_context *ctx, const inputs *in, unsigned char *rows,
                             size_t *count);

/* ---- verdicts ------------------------------------------------------------------ */

typedef struct { /* what an engine is compared with */
  outputs truth, naive;
  double magnitude[ATTEND_OUTPUTS]; /* of run_naive */
  unsigned char *undecided;         /* [B,H,T] rows that are left out, or NULL */
  size_t n_undecided;
} reference;

/* Runs a solver of the tensors and compares: each error against twice the naive
 * run's, plus what rounding alone may do: 4 eps of the magnitude, and half a unit of the
 * storage's last place. */
attend_status run_and_judge(attend_solver *solver, const attend_tensors *tensors,
                            const reference *reference, attend_verification *verdict);

/* Engine i that takes the problem, of those that are the device's own and not the plan's choice;
 * NULL: no more. On the CPU there are none, as the definition takes every problem. */
const char *other_engine(const attend_context *ctx, const attend_plan *plan, int i);

#endif
