/* Results side by side: what the definition, a naive run and an engine gave.
 *
 * Between the runs (naive.c, engine_run.c) and the verdict (verdict.c).
 */
#ifndef CLI_OUTPUTS_H
#define CLI_OUTPUTS_H

#include "cli.h"

enum { OUT_O, OUT_LSE, OUT_DQ, OUT_DK, OUT_DV, OUT_DBIAS, OUTPUTS };
extern const char *const output_names[OUTPUTS];

/* Contiguous, in the order of the letters; at is NULL where there is none.
 * Every float is exact in a double, so one type serves all three. */
typedef struct {
  size_t count[OUTPUTS];
  double *at[OUTPUTS];
} outputs;

/* Zeroed arrays for a problem: o and lse, and the gradients if asked for. */
outputs outputs_for(const attend_desc *desc, bool gradients);
void outputs_free(outputs *out);

/* ---- views, as the library reads them --------------------------------------- */

/* Explicit strides instead of all zeros. */
attend_view view_strided(attend_view view, int heads, int length, int width);
/* The view from element [b, h, i] on. */
attend_view view_from(attend_view view, attend_dtype dtype, int b, int h,
                      int i);
/* All of it, contiguous, widened. */
void view_read(attend_view view, attend_dtype dtype, int batch, int heads,
               int length, int width, double *out);
/* Where [b, h, i, j] of a dense bias lies in its own shape. */
ptrdiff_t dense_at(const attend_desc *desc, int b, int h, int i, int j);
/* Numbers in the bias's own shape. */
size_t bias_count(const attend_desc *desc);

/* ---- runs ------------------------------------------------------------------- */

typedef struct {
  const attend_desc *desc;  /* complete */
  attend_view q, k, v, d_o; /* d_o.data NULL: forward only */
  bool cut_weights;         /* to bf16, before they meet the values */
  const unsigned char
      *undecided; /* [B,H,T] rows without a magnitude, or NULL */
} inputs;

/* Whether a context's engine does that: softmax in bf16 on AMX. A naive run in
 * the same precision must do it too. */
bool cuts_weights(const attend_context *ctx, const attend_desc *desc);

/* The definition, in double. */
attend_status run_definition(attend_context *ctx, const inputs *in,
                             outputs *out);

/* Plain loops in float. magnitude[x] is the largest sum of absolute values
 * that a number of output x was added up from: what its rounding is relative
 * to, even where the sum itself is small. A weight whose score was added up
 * from numbers beyond 8 counts for more, as an exponential makes it. */
void run_naive(const inputs *in, outputs *out, double magnitude[OUTPUTS]);

/* For a hard argmax: marks rows [B,H,T] whose best two keys are closer than
 * float can tell and not equal, so that either is a right answer. For signed
 * similarities: rows whose denominator lost ten times more of what it was
 * summed from than the median row's. Returns how many. */
size_t mark_undecided(const inputs *in, unsigned char *rows);

/* ---- the verdict ------------------------------------------------------------- */

typedef struct {
  double error[OUTPUTS], bound[OUTPUTS]; /* NaN where there is no such output */
  int worst; /* the output with the largest error for its bound */
  bool ok;
  size_t undecided; /* rows that were left out */
} verdict;

/* Each error against twice the naive run's, plus what rounding alone may do:
 * 4 eps of the magnitude, and half a unit of the storage's last place. */
verdict judge(const attend_desc *desc, const outputs *truth,
              const outputs *naive, const outputs *engine,
              const double magnitude[OUTPUTS]);

#endif
