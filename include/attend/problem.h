/* attend/problem.h - to test and to measure attention: problems as strings, the reference
 * implementation, the error of random features, the rates of this machine.
 *
 * A problem is written as a string:
 *
 *   softmax:b1h12n4096d64:causal
 *   softmax:b2h12g4n1024x4096d64v128:bottom:bwd
 *   argmax(ties=average):b1h4n512d64
 *   poly(p=2,a=1,c=1):b1h8n256d16
 *   softmax:b1h32g1n8192d64:decode
 *   favor(m=256,seed=1):b1h12n16384d64:causal
 *   sgemm:m1024n1024k1024
 *
 * FORM[(name=value,...)]:SHAPE[:WORD]...
 * SETTINGS: argmax ties=first|average, t=TEMPERATURE; poly p=, a=, c=;
 * favor, fourier and gaussian sigma=, m=FEATURES, seed=, redraw=,
 * draw=orthogonal|iid; favor kind=plain|pair; gaussian map=favor|fourier
 * (without m it is exact); favor and fourier error= in place of m, and with it
 * spread=: the features that it takes are chosen and printed as m. elu has none.
 * SHAPE: b batch, h heads, g kv heads (default h), n query length, x key length
 * (default n), d width of q and k, v width of values (default d); b and h
 * default to 1. For :decode, n is the number of keys, the new one
 * included.
 * WORDS: causal, top, bottom, window=W, lengths, padleft, padright, alibi,
 * buckets, buckets1 (one-sided), dense, scale=X (softmax, argmax, favor and
 * fourier), cap=X (softmax, and argmax with t=), f32, f16, bf16, bthd, bwd,
 * decode.
 */
#ifndef ATTEND_PROBLEM_H
#define ATTEND_PROBLEM_H

#include "attend/attention.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
  ATTEND_OP_FORWARD = 0,
  ATTEND_OP_BACKWARD, /* forward and backward */
  ATTEND_OP_DECODE,   /* one token against n keys in a state */
  ATTEND_OP_SGEMM     /* C[m,n] = A[m,k] B[k,n], for comparison */
} attend_op;

/* The padding of a problem; attend_problem_tensors makes it. */
typedef enum {
  ATTEND_PAD_NONE = 0,
  ATTEND_PAD_LENGTHS,
  ATTEND_PAD_LEFT,
  ATTEND_PAD_RIGHT
} attend_pad;

typedef struct {
  size_t size;
  attend_op op;
  attend_pad pad;
  int bthd;         /* layout [B,T,H,D] */
  int m, n, k;      /* sgemm */
  attend_desc desc; /* pointers inside are NULL. Last, so that it can grow */
} attend_problem;

/* problem begins with ATTEND_INIT. */
ATTEND_API attend_status attend_problem_parse(attend_context *ctx, const char *text,
                                              attend_problem *problem);
/* FORM alone: "favor(m=256,seed=1)". */
ATTEND_API attend_status attend_form_parse(attend_context *ctx, const char *text,
                                           attend_form *form);
/* The canonical spelling. Returns the full length, as snprintf does. */
ATTEND_API int attend_problem_print(const attend_problem *problem, char *text, size_t size);

/* The tensors of a problem, filled from Philox: q, k, v and d_o normal with
 * unit variance, bias values, lengths, key mask. One block, freed by
 * attend_tensors_free; d_o, dq, dk, dv and dbias exist for :bwd. desc is the
 * problem's with its pointers set. */
typedef struct {
  size_t size;
  attend_view q, k, v, o, d_o, dq, dk, dv;
  float *lse;   /* [B,H,T] */
  float *dbias; /* shape of the bias, or NULL */
  size_t dbias_count;
  size_t bytes;
  void *block;
  attend_desc desc;
} attend_tensors;

/* tensors begins with ATTEND_INIT. */
ATTEND_API attend_status attend_problem_tensors(attend_context *ctx, const attend_problem *problem,
                                                uint64_t seed, attend_tensors *tensors);
ATTEND_API void attend_tensors_free(attend_context *ctx, attend_tensors *tensors);

/* ---- the equation in double: the reference implementation ------------------------ */

/* Every form, mask and bias, one loop per sum, slow. Every engine is tested against it;
 * `attend verify` prints the difference. */

/* Inputs are read in the description's dtype; outputs are contiguous double:
 * o [B,H,T,M], lse [B,H,T] (either may be NULL). */
ATTEND_API attend_status attend_definition_forward(attend_context *ctx, const attend_desc *desc,
                                                   attend_view q, attend_view k, attend_view v,
                                                   double *o, double *lse);

/* dq [B,H,T,D], dk [B,G,S,D], dv [B,G,S,M]; dbias NULL or the shape of the
 * bias: [H], [buckets,H], or contiguous [B,H,T,S] before any summing over
 * broadcast dimensions. */
ATTEND_API attend_status attend_definition_backward(attend_context *ctx, const attend_desc *desc,
                                                    attend_view q, attend_view k, attend_view v,
                                                    attend_view d_o, double *dq, double *dk,
                                                    double *dv, double *dbias);

/* weights [B,H,T,S]: sim / sum of sim, 0 where masked. */
ATTEND_API attend_status attend_definition_weights(attend_context *ctx, const attend_desc *desc,
                                                   attend_view q, attend_view k, double *weights);

/* Whether the mask lets query i of batch entry b see key j. */
ATTEND_API bool attend_visible(const attend_desc *desc, int b, int64_t i, int64_t j);

/* ---- the expected error of random features, without running them ----------------- */

/*   attend_predict(ctx, &desc, q, k, 0.05, &p);          from tensors
 *   attend_predict_spread(ctx, &desc, 0.35, 0.05, &p);   from their scale alone
 *
 * The error is |o' - o| / |o| over the whole output, o' by random features and o
 * exactly (softmax; the Gaussian kernel for form gaussian), in the root mean
 * square over seeds, for values that are independent of the keys and have mean
 * zero. A common part of the values adds to o without error, so the relative error is
 * smaller then.
 *
 * For one pair with x = sqrt(scale) q, y = sqrt(scale) k the estimate of
 * exp(x.y) by m features has a relative variance that is known:
 *   favor            (exp(|x+y|^2) - 1) / m
 *   favor, pairs     (exp(|x+y|^2) - 1) (1 - exp(-|x+y|^2)) / m
 *   fourier          exp(|x-y|^2) (1 - exp(-|x-y|^2))^2 / m
 * and the covariance of two keys of a row is known too. With the row's weights p_j the
 * first order of the error is sum_j p_j^2 Var(e_j - sum_l p_l e_l) / sum_j p_j^2, e_j
 * the relative error of key j: errors common to all keys of a row cancel, which is most
 * of the error of a row with few keys. Orthogonal directions reduce the variance: little
 * for favor where |x+y| is large, most of it for fourier and pairs where it is small.
 *
 * Where the first order is not small, a correction with fitted constants applies,
 * measured at widths 8 to 64, 64 to 4096 features, iid and orthogonal, rms 0.35 to 2 of
 * q and k, on other draws than it was fitted to. With 4 or more keys, of 790 cases with
 * an error below 0.5 none was predicted wrong by more than a factor of 2, and of 938
 * with a larger one 12 were predicted below 0.5. With 2 keys, 17 of 373 were wrong by
 * more, and 7 of 203 large ones were missed, all of fourier, whose mean square comes
 * from rare denominators near zero. A prediction above 0.5 means only that the error is
 * large: favor's is never predicted above 0.71. */

typedef struct {
  /* of first order, times features: the error would be sqrt(variance / features) if it stayed
   * small; at most 1e300 */
  double variance;
  /* expected relative error of the output with the form's features */
  double error;
  /* for the target error, at least 16; a multiple of 16 if affordable, otherwise an order of
   * magnitude */
  double features;
  bool affordable; /* whether that many are at most 65,536 */
  double pairs;    /* (query, key) pairs that were sampled */
} attend_prediction;

/* desc: favor, fourier, or gaussian with features; masks and biases apply. q [B,H,T,D]
 * and k [B,G,S,D] in the description's dtype. Samples a fixed choice of rows, each with
 * all keys that it sees: all rows up to 100,000 pairs. target: the relative error to
 * choose features for; values above 0.5 count as 0.5. */
ATTEND_API attend_status attend_predict(attend_context *ctx, const attend_desc *desc, attend_view q,
                                        attend_view k, double target, attend_prediction *out);
/* The same for q and k of independent normal elements with root mean square
 * `spread`, no mask, and the description's kv_len up to 256 (0: 256). */
ATTEND_API attend_status attend_predict_spread(attend_context *ctx, const attend_desc *desc,
                                               double spread, double target,
                                               attend_prediction *out);

/* ---- measured rates of this machine, to compare a cost with (the roofline) ------- */

typedef struct {
  int threads;      /* measured with this many */
  double flops_one; /* f32 multiply-adds in registers, per second, one thread */
  double flops_all; /* the same, all threads */
  double read_one;  /* bytes per second read from memory, one thread */
  double read_all;
  /* of products in 16 bits on a GPU's tensor cores; 0: as flops_all */
  double flops_16;
  double exponentials; /* a second, of a GPU, which has a unit for them; 0: part of flops */
} attend_machine;

/* Takes about a second. Of a GPU threads are its multiprocessors, flops_one and read_one 0, and
 * read_all the bytes of a copy, those read and those written. */
ATTEND_API attend_status attend_machine_measure(attend_context *ctx, attend_machine *machine);

/* Bytes per second at which all threads read `bytes` repeatedly: the limit of a model
 * with weights of that size. Caches may hold part of them; some hold 300 MiB. */
ATTEND_API attend_status attend_machine_read(attend_context *ctx, size_t bytes, double *rate);

/* Of measured times, say: sorts x [n]; NaN of none. */
ATTEND_API double attend_median(double *x, size_t n);

#ifdef __cplusplus
}
#endif
#endif
