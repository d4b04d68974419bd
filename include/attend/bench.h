/* attend/bench.h - what attention and models cost, and how long they take.
 *
 *   attend_problem problem = {ATTEND_INIT(attend_problem)};
 *   attend_timing time;
 *   attend_problem_parse(ctx, "softmax:b1h12n1024d64:causal", &problem);
 *   attend_bench(ctx, 1, &problem, NULL, &time);
 *   printf("%s: %g ms\n", time.engine, 1e3 * time.median_s);
 *
 * Times are of a monotonic clock, after a warm-up. What is compared takes turns, so that
 * other load on the machine affects all of it.
 */
#ifndef ATTEND_BENCH_H
#define ATTEND_BENCH_H

#include "attend/model.h"
#include "attend/problem.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A matrix product to compare with, c[m,n] = a[m,k] b[k,n], row-major. The library
 * brings none. */
typedef struct {
  const char *name; /* "openblas-Haswell" */
  void (*multiply)(int threads, int m, int n, int k, const float *a, const float *b, float *c);
} attend_product;

typedef struct { /* zero means default */
  size_t size;
  const attend_product *product; /* of sgemm problems, and timed beside models */
  attend_progress progress;      /* called between runs; NaN: before seconds without a call */
  void *user;
  /* Problems. */
  uint64_t seed; /* of the tensors */
  int repeat;    /* timed runs of each; 0: about a second's worth, at least 5 */
  /* Seconds of a search for a crossover; 0: 20. The longest reading of
   * attend_bench_documents; 0: 180. */
  double limit_s;
  /* Models. Texts are random ids. */
  /* texts at once, tokens of each; 0: 1 of 512, of an encoder 32 of 128, of training 2 of 512 */
  int batch, tokens;
  int decoder_tokens; /* training an encoder-decoder; 0: as many */
  attend_weights weights;
  attend_dtype activations; /* of models and of training: ATTEND_F32 or ATTEND_BF16 */
  const attend_form *form;  /* of attention; NULL: the configuration's */
  unsigned roles;           /* of attend_in: where that form is; 0: everywhere */
  bool recompute;           /* training: activations are computed again in backward */
} attend_bench_options;

/* ---- the machine ------------------------------------------------------------- */

/* What attend_machine_save kept for this GPU, or CPU, instruction set and number of threads in
 * CACHE/attend/machine.json (attend_model_find says where CACHE is). False: nothing. */
ATTEND_API bool attend_machine_load(attend_context *ctx, attend_machine *machine);
/* Replaces the file atomically; other machines' entries stay. */
ATTEND_API attend_status attend_machine_save(attend_context *ctx, const attend_machine *machine);

/* The least time of a cost by the roofline model (Williams et al. 2009). */
typedef struct {
  double arithmetic_s, memory_s;
  double exponentials_s; /* of attention on a GPU; else 0 */
  double least_s;        /* the largest */
  const char *bound;     /* "arithmetic", "memory" or "exponentials" */
} attend_limit;

ATTEND_API void attend_machine_limit(const attend_machine *machine, double flops, double bytes,
                                     attend_limit *limit);

/* ---- cost models ------------------------------------------------------------- */

/* One method for a form that has a feature map. */
typedef struct {
  attend_problem problem; /* another form, or with an engine */
  char engine[64];        /* "": refused, and why: */
  char refusal[512];
  double flops, bytes;
  double memory_bytes; /* workspace; of a decode the state too */
  attend_limit limit;
  const char *growth; /* "O(T S (D + M))" */
} attend_method;

typedef struct {
  attend_method exact;  /* pair by pair, of the form that features approximate */
  attend_method linear; /* sums of features */
  /* the least n, up to 2^24, from which on linear is predicted to be faster; NaN: none */
  double crossover;
} attend_methods;

/* Whether the problem's form has a feature map. */
ATTEND_API bool attend_problem_has_features(const attend_problem *problem);
/* Gives the problem n keys, and as many queries if it had as many. */
ATTEND_API void attend_problem_resize(attend_problem *problem, int n);
/* Predicted times are what the machine allows at best: a predicted crossover says where
 * operations balance, not where kernels do; attend_bench_crossover measures that. */
ATTEND_API void attend_problem_methods(attend_context *ctx, const attend_machine *machine,
                                       const attend_problem *problem, attend_methods *methods);

typedef struct {
  char engine[64];    /* "": sgemm */
  char refused[1024]; /* the other engines: "name: why; name: why" */
  double flops, bytes, workspace_bytes;
  double cache_bytes; /* of a decode's state; else NaN */
  attend_limit limit;
  double knee;       /* operations a byte below which memory binds */
  bool has_features; /* the form has a feature map: */
  attend_methods methods;
  attend_prediction prediction; /* of random features; else NaN */
} attend_explanation;

/* What the plan chooses and what it costs; nothing is computed. The prediction is for
 * queries and keys of root mean square `spread`, and the target error 0.1. */
ATTEND_API attend_status attend_explain(attend_context *ctx, const attend_machine *machine,
                                        const attend_problem *problem, double spread,
                                        attend_explanation *explanation);

/* ---- problems ---------------------------------------------------------------- */

typedef struct {
  char engine[64];
  double flops, bytes, workspace_bytes;
  double median_s, best_s;
} attend_timing;

/* Verifies each problem at a small size (attend/verify.h), then times them in turns:
 * forward, forward and backward, or one decoded token. A wrong result is
 * ATTEND_UNSUPPORTED. options may be NULL. */
ATTEND_API attend_status attend_bench(attend_context *ctx, int count,
                                      const attend_problem *problems /* [count] */,
                                      const attend_bench_options *options,
                                      attend_timing *timings /* [count] */);

/* FORM[:SHAPE][:WORD].. as a problem; sizes may be missing: dim is then d. */
ATTEND_API attend_status attend_crossover_parse(attend_context *ctx, const char *text, int dim,
                                                attend_problem *problem);

typedef struct {
  int n;      /* the least length at which linear was faster; if not found, the */
  bool found; /* longest that was tried */
  double predicted_n;
  char exact_engine[64];
  double exact_s, linear_s; /* at n, the best of several runs */
} attend_crossover;

/* From which length on a form with a feature map is faster by sums: the length doubles
 * from 16 until linear wins or the time is up, then the last doubling is bisected three
 * times. The problem has a mask, which is causal if it has none; its lengths do not
 * matter. op: forward, backward or decode. */
ATTEND_API attend_status attend_bench_crossover(attend_context *ctx, const attend_machine *machine,
                                                const attend_problem *problem, attend_op op,
                                                const attend_bench_options *options,
                                                attend_crossover *crossover);

/* ---- models ------------------------------------------------------------------ */

/* Untrained weights for the config.json of a folder, with positions for at least so many
 * tokens; training: as attend_checkpoint_init, else as attend_checkpoint_init_pytorch.
 * Speed does not depend on the values. */
ATTEND_API attend_status attend_bench_checkpoint(attend_context *ctx, const char *path, int tokens,
                                                 bool training, attend_checkpoint **checkpoint);

/* NaN: not measured, or the system does not say. */
typedef struct {
  int batch, tokens; /* of what is read; 0: not reached */
  double read_s;     /* reading it, or a step of training: medians */
  /* of weights and attention; training: three times the forward pass, NaN if attention is
   * linear */
  double read_flops;
  double token_s;       /* one decoded token more of each text */
  double token_bytes;   /* weights and caches that it reads */
  double product_flops; /* a second, of options->product beside it */
  double memory_bytes;  /* a second, of reading token_bytes beside it */
  double weights_bytes; /* training: values, gradients and packed weights */
  double work_bytes, cache_bytes;
  double peak_bytes; /* most that the process held beyond what it held before */
  double expected_s; /* why it was not read: this exceeds options->limit_s */
} attend_model_timing;

/* How fast a model reads and, if it is a decoder, decodes. */
ATTEND_API attend_status attend_bench_model(attend_checkpoint *checkpoint,
                                            const attend_bench_options *options,
                                            attend_model_timing *timing);
/* A step of training: forward, backward, AdamW. */
ATTEND_API attend_status attend_bench_train(attend_checkpoint *checkpoint,
                                            const attend_bench_options *options,
                                            attend_model_timing *timing);

/* ---- forms by length ------------------------------------------------------------
 *
 * timings [lengths][count], tokens rising. After ATTEND_STOPPED those that were measured
 * are there; of the others tokens is 0. */

/* A step of training on one text, or on options->batch. */
ATTEND_API attend_status attend_bench_steps(attend_checkpoint *checkpoint, int count,
                                            const attend_form *forms /* [count] */, int lengths,
                                            const int *tokens /* [lengths] */,
                                            const attend_bench_options *options,
                                            attend_model_timing *timings);
/* An encoder-decoder reads a document and decodes 16 tokens. options->roles 0: the forms are
 * in the encoder and in cross-attention. Forms take turns. */
ATTEND_API attend_status attend_bench_documents(attend_checkpoint *checkpoint, int count,
                                                const attend_form *forms, int lengths,
                                                const int *tokens,
                                                const attend_bench_options *options,
                                                attend_model_timing *timings);
/* Time and memory as an SVG file: of attend_bench_steps (training) or of
 * attend_bench_documents. notes: under the plot. */
ATTEND_API attend_status attend_bench_plot(attend_context *ctx, const char *path, int count,
                                           const char *const *names /* [count] */, int lengths,
                                           const int *tokens /* [lengths] */,
                                           const attend_model_timing *timings, bool training,
                                           const char *notes);

#ifdef __cplusplus
}
#endif
#endif
