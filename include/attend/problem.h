/* attend/problem.h - a problem written as a string.
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
  attend_desc desc; /* pointers inside are NULL */
  attend_op op;
  attend_pad pad;
  int bthd;    /* layout [B,T,H,D] */
  int m, n, k; /* sgemm */
} attend_problem;

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
  attend_desc desc;
  attend_view q, k, v, o, d_o, dq, dk, dv;
  float *lse;   /* [B,H,T] */
  float *dbias; /* shape of the bias, or NULL */
  size_t dbias_count;
  size_t bytes;
  void *block;
} attend_tensors;

ATTEND_API attend_status attend_problem_tensors(attend_context *ctx, const attend_problem *problem,
                                                uint64_t seed, attend_tensors *tensors);
ATTEND_API void attend_tensors_free(attend_context *ctx, attend_tensors *tensors);

#ifdef __cplusplus
}
#endif
#endif
