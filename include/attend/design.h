/* attend/design.h - transformers designed by hand.
 *
 *   attend_design *design;
 *   attend_design_open(ctx, "models/designs/previous.json", &design);
 *   attend_verdict verdict;
 *   attend_design_check(design, (attend_design_variant){ATTEND_DESIGNED, 0}, NULL, &verdict);
 *   if (!verdict.ok) ... verdict.input, verdict.expected, verdict.predicted
 *   attend_design_free(design);
 *
 * A spec says in JSON what every head of an attention-only transformer selects
 * and what it carries; docs/design.md has its words. It is compiled into weights:
 * a stream x [T][F] of named variables in disjoint features (the token, the
 * position, what each head gave), and for each head
 *
 *   Q = x Qm, K = x Km, V = x Vm, x[slot] += attention(Q, K) V,  logits = x Wo
 *
 * Argmax attention is the exact meaning of a design; softmax with a sharpness
 * (the factor of the scores) is how a transformer would run it. A check goes over
 * every input up to a length, against the task's own statement of the answer. The
 * learned twin has the same shapes, and all of its numbers come from training.
 *
 * The same bits always: no number depends on the number of threads.
 */
#ifndef ATTEND_DESIGN_H
#define ATTEND_DESIGN_H

#include "attend/attention.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct attend_design attend_design;

/* A spec; `what` names it in sentences. */
ATTEND_API attend_status attend_design_read(attend_context *ctx, const char *what, const char *text,
                                            size_t length, attend_design **design);
/* A spec in a file, or a .safetensors file of attend_design_save: the weights are
 * then the file's. */
ATTEND_API attend_status attend_design_open(attend_context *ctx, const char *path,
                                            attend_design **design);
ATTEND_API void attend_design_free(attend_design *design);

/* ---- what it is --------------------------------------------------------------- */

typedef enum {
  ATTEND_DESIGN_POSITIONS_NONE = 0,
  /* one-hot beside the token's; not learnt */
  ATTEND_DESIGN_POSITIONS_CONCATENATED,
  ATTEND_DESIGN_POSITIONS_ADDED /* x = E[token] + P[position], both learnt */
} attend_design_positions;

typedef enum {
  ATTEND_READOUT_EVERY = 0, /* an answer at each letter */
  ATTEND_READOUT_FIRST,     /* one, at the first place */
  ATTEND_READOUT_LAST
} attend_design_readout;

typedef struct {
  const char *name, *about;
  const char *task;    /* what the right answer is, in words */
  const char *example; /* an input to look at */
  const char *spec;    /* as it was read */
  int letters;         /* of the alphabet: tokens 0 .. letters - 1 */
  int tokens;          /* with those put before and behind */
  bool starts, ends;   /* whether there is such a token */
  int answers;
  int shortest, longest; /* of inputs, in letters */
  int places;            /* of the longest input with what is put around it */
  int features;          /* F */
  int embedded;          /* of those, the token's and the position's */
  int layers, heads;     /* heads of all layers */
  bool causal;
  attend_design_positions positions;
  attend_design_readout at;
  uint64_t inputs;   /* from the shortest to the longest; UINT64_MAX: more */
  uint64_t examples; /* that are the task; 0: the task is a rule */
  int steps, batch;  /* of learning, as the spec has them */
  double rate, decay;
  uint64_t seed;
} attend_design_facts;

ATTEND_API const attend_design_facts *attend_design_about(const attend_design *design);
/* Names; NULL past the last. A feature's is "A", "3", "previous=A", "depth". */
ATTEND_API const char *attend_design_token(const attend_design *design, int i);
ATTEND_API const char *attend_design_answer(const attend_design *design, int i);
ATTEND_API const char *attend_design_feature(const attend_design *design, int i);

typedef struct {
  const char *name;
  int layer;
  int dim, dim_v; /* D, M */
  int reads;      /* it sees features 0 .. reads - 1 */
  int slot;       /* and writes slot .. slot + dim_v - 1 */
  attend_ties ties;
} attend_design_head;

/* Head i, layer by layer; 0 past the last. */
ATTEND_API bool attend_design_head_get(const attend_design *design, int i,
                                       attend_design_head *head);
/* What column `column` of a head's Qm and Km stands for, as designed: "A", "1";
 * "" where it is left empty. */
ATTEND_API const char *attend_design_column(const attend_design *design, int head, int column);

/* ---- weights ------------------------------------------------------------------ */

typedef enum { ATTEND_DESIGNED = 0, ATTEND_LEARNED, ATTEND_TWINS } attend_twin;

typedef struct {
  const char *name; /* "layers.0.heads.0.query" */
  int head;         /* -1: not a head's */
  int rows, columns;
  size_t at; /* of its first number among all */
} attend_design_part;

/* Part i: of each head query, key and value [reads][dim, dim, dim_v]; then the
 * readout [features][answers]; then, of added positions, the tables tokens and
 * positions [..][embedded]. 0 past the last. */
ATTEND_API bool attend_design_part_get(const attend_design *design, int i,
                                       attend_design_part *part);
enum { ATTEND_QUERY_PART = 0, ATTEND_KEY_PART, ATTEND_VALUE_PART };
/* All numbers, as one array; NULL for a learned twin that there is not. */
ATTEND_API const float *attend_design_weights(const attend_design *design, attend_twin twin,
                                              size_t *count);

/* The spec and both twins' weights, so far as they are there. */
ATTEND_API attend_status attend_design_save(const attend_design *design, const char *path);

/* ---- running -------------------------------------------------------------------- */

typedef struct {
  attend_twin twin;
  double sharpness; /* of softmax; 0: argmax. A learned twin's own is 1 */
} attend_design_variant;

typedef struct attend_design_run attend_design_run;

/* One input, and everything that was computed. */
ATTEND_API attend_status attend_design_run_create(const attend_design *design,
                                                  attend_design_variant variant, const char *input,
                                                  attend_design_run **run);
ATTEND_API void attend_design_run_free(attend_design_run *run);

enum { ATTEND_NO_TARGET = -1, ATTEND_UNDECIDED = -2 };

typedef struct {
  int length;            /* T, with what is put around the input */
  const int32_t *tokens; /* [T] */
  const float *x;        /* [T][features] after the last layer */
  const float *logits;   /* [T][answers] */
  /* [T] the answer with the largest logit; if two share it, ATTEND_UNDECIDED; elsewhere
   * ATTEND_NO_TARGET */
  const int32_t *predicted;
  const int32_t *expected; /* [T], ATTEND_NO_TARGET where the task is silent */
} attend_design_result;

typedef struct {
  const float *q, *k;     /* [T][dim] */
  const float *v;         /* [T][dim_v] */
  const float *attention; /* [T][T] */
  const float *out;       /* [T][dim_v] */
} attend_design_inside;

ATTEND_API const attend_design_result *attend_design_run_result(const attend_design_run *run);
ATTEND_API const attend_design_inside *attend_design_run_head(const attend_design_run *run,
                                                              int head);

/* ---- is it right? ----------------------------------------------------------------- */

enum { ATTEND_INPUT_TEXT = 512 };

typedef struct { /* zero means default */
  size_t size;
  int length;           /* longest input; 0: the spec's, and not above it */
  uint64_t most_inputs; /* more are refused; 0: a million */
  attend_progress progress;
  void *user;
} attend_check_options;

typedef struct {
  bool ok;
  uint64_t inputs, places; /* checked */
  uint64_t wrong;          /* inputs with a wrong answer somewhere */
  double accuracy;         /* share of places that are right */
  /* least lead of the right logit over the next; negative where it is behind */
  double margin;
  /* The first counterexample: the shortest, then the first by alphabet. */
  char input[ATTEND_INPUT_TEXT];
  int place;                        /* from 0, the token before the input counts */
  const char *expected, *predicted; /* answers; predicted: NULL if undecided */
} attend_verdict;

/* Over all inputs up to the length, or over the spec's examples. */
ATTEND_API attend_status attend_design_check(const attend_design *design,
                                             attend_design_variant variant,
                                             const attend_check_options *options,
                                             attend_verdict *verdict);

typedef struct {
  bool found;       /* 0: none up to `highest` passes */
  bool any;         /* the smallest that was tried passes already */
  double sharpness; /* passes; verified */
  double fails;     /* the largest that was seen to fail below it */
  double highest;   /* 2^16 times that were tried above it at most */
  bool monotone;    /* twice, four, .. times the sharpness pass as well */
  int tried;
} attend_least;

/* By doubling and halving, to one part in 1024. */
ATTEND_API attend_status attend_design_least(const attend_design *design,
                                             const attend_check_options *options,
                                             attend_least *min);

/* ---- the learned twin --------------------------------------------------------------- */

typedef struct { /* zero, and a rate or decay below 0: the spec's */
  size_t size;
  int steps, batch;
  double rate, decay;
  bool has_seed; /* seed counts */
  uint64_t seed;
  attend_progress progress;
  void *user;
} attend_twin_options;

enum { ATTEND_CURVE = 32 };

typedef struct {
  int steps, points;
  int step[ATTEND_CURVE]; /* loss before this step */
  double loss[ATTEND_CURVE];
  double last; /* after the last step */
} attend_curve;

/* From numbers drawn from the seed, by AdamW on cross-entropy, softmax of
 * sharpness 1. The twin takes the place of one that was there. */
ATTEND_API attend_status attend_design_learn(attend_design *design,
                                             const attend_twin_options *options,
                                             attend_curve *curve);

/* ---- both beside each other ------------------------------------------------------------ */

enum { ATTEND_SINGULAR = 8 };

typedef struct {     /* two: designed and learned */
  double entropy[2]; /* nats, mean over rows */
  double distance;   /* half the sum of |difference| of a row's weights, mean */
  /* share of rows whose heaviest key has the same token and place, or the same weight */
  double same_key;
  uint64_t rows;       /* of all inputs looked at */
  double norm[2][3];   /* Frobenius, of Qm, Km, Vm */
  double spread[2][3]; /* (sum |w|)^2 / (n sum w^2): 1 if all are equally large */
  /* Scores, as a form of what is seen by query and key: Qm Km^T without what is
   * the same for all keys of a query. */
  double score_norm[2];
  int score_rank[2];
  double score_singular[2][ATTEND_SINGULAR];
  double score_cosine; /* NaN where the twins' features are not the same */
  /* What a key's value adds to the answers: Vm Wo, without what is the same for
   * all answers or for all keys. Heads of the last layer; NaN elsewhere. */
  double effect_norm[2];
  int effect_rank[2];
  double effect_singular[2][ATTEND_SINGULAR];
  double effect_cosine;
} attend_likeness;

/* The designed twin runs softmax of `sharpness` (0: argmax), the learned one softmax
 * of sharpness 1. */
ATTEND_API attend_status attend_design_compare(const attend_design *design, double sharpness,
                                               int head, attend_likeness *likeness);

/* ---- showing results ------------------------------------------------------------------ */

enum { ATTEND_DESIGN_HEADS = 16, ATTEND_DESIGN_PARAGRAPH = 2400 };

/* A design's results so far, as the functions above returned them. */
typedef struct {
  attend_design_variant variant; /* of the verdict */
  attend_verdict verdict;
  bool has_least, has_learned, trained; /* trained: in this process, and curve has it */
  attend_least min;
  attend_curve curve;
  double seconds; /* of training */
  uint64_t seed;
  attend_verdict learned;
  attend_likeness like[ATTEND_DESIGN_HEADS];
} attend_design_results;

/* "argmax", "softmax of sharpness 4" */
ATTEND_API const char *attend_design_variant_text(attend_design_variant variant, char text[64]);
/* Paragraph i on how a design and its learned twin differ, with numbers and reasons; false past
 * the last, and without a twin. */
ATTEND_API bool attend_design_paragraph(const attend_design *design,
                                        const attend_design_results *results, int i,
                                        char text[ATTEND_DESIGN_PARAGRAPH]);
/* All facts, weights, results and a run of the example, as a JSON object; viewer/README.md
 * documents it. *json ends in a zero byte and is freed by attend_plot_free (attend/plot.h). */
ATTEND_API attend_status attend_design_json(attend_context *ctx, const attend_design *design,
                                            const attend_design_results *results, char **json,
                                            size_t *length);

#ifdef __cplusplus
}
#endif
#endif
