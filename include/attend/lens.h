/* attend/lens.h - what the attention of a recorded run looked like.
 *
 *   attend_trace *trace;                       q, k, v, lse of every layer
 *   attend_lens *lens;
 *   attend_lens_create(model, trace, NULL, 0, &lens);
 *   attend_lens_block(lens, (attend_head_id){ATTEND_DECODER_SELF, 3, 5},
 *                     0, n, 0, n, weights);
 *
 * A trace is linear in the length of the text. Weights are computed from it when
 * someone looks, as much as is looked at: a block of one head, a picture of all
 * of it in few cells, a score of what the head does. So no text is too long, and
 * nothing here ever takes T x S.
 *
 * A lens may show another form than the one that ran: the weights that this form
 * gives on the recorded queries and keys.
 *
 * A question that would take too long may be answered from some of the rows:
 * `most_pairs` bounds the pairs (query, key) that are computed for it, 0 means
 * all, and the answer says how many rows it comes from.
 */
#ifndef ATTEND_LENS_H
#define ATTEND_LENS_H

#include "attend/model.h"
#include "attend/trace.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct attend_lens attend_lens;

/* The trace must hold queries, keys, values and denominators of one text (and
 * what the heads gave, for attend_lens_vectors and _compare); it and the model
 * must stay. form NULL: the model's own. real_keys: keys of the
 * encoder that are not padding, 0: all. */
ATTEND_API attend_status attend_lens_create(const attend_model *model,
                                            const attend_trace *trace,
                                            const attend_form *form,
                                            int real_keys, attend_lens **lens);
ATTEND_API void attend_lens_free(attend_lens *lens);

/* Called between the steps of a long answer, with the share that is done: other
 * than 0 ends it with ATTEND_STOPPED. */
ATTEND_API void attend_lens_on_step(attend_lens *lens,
                                    int (*step)(double done, void *user),
                                    void *user);

typedef struct {
  attend_role role;
  int layer, head;
} attend_head_id;

typedef struct {
  int layers, heads, kv_heads;
  int rows, keys; /* T, S */
  int dim, dim_v;
  float scale;
  int causal, window;
  int real_keys; /* beyond them is padding */
  int is_signed; /* weights may be negative */
  int biased;    /* something is added to the scores */
} attend_lens_shape;

/* 0 if the run has no such attention. */
ATTEND_API int attend_lens_role(const attend_lens *lens, attend_role role,
                                attend_lens_shape *shape);

/* What a head worked with: rows of the trace, f32. Heads that share keys get
 * the same. out: what the head gave; with another form than the run's, what it
 * would have given. */
ATTEND_API attend_status attend_lens_vectors(attend_lens *lens,
                                             attend_head_id at, attend_view *q,
                                             attend_view *k, attend_view *v,
                                             attend_view *out);
/* The log of the denominator of each row; for forms that are signed the
 * denominator itself. */
ATTEND_API attend_status attend_lens_denominators(attend_lens *lens,
                                                  attend_head_id at,
                                                  float *lse /* [T] */);

/* Weights of queries [row, row + rows) on keys [key, key + keys). */
ATTEND_API attend_status attend_lens_block(attend_lens *lens, attend_head_id at,
                                           int row, int rows, int key, int keys,
                                           float *weights /* [rows, keys] */);

typedef enum { ATTEND_POOL_MAX = 0, ATTEND_POOL_MEAN } attend_pool;

typedef struct {
  int row, rows, key, keys; /* the area, in tokens */
  int height, width;        /* its cells: cell (y, x) holds the tokens
                               [row + y rows / height, ..) x .. */
  attend_pool pool;
  double most_pairs;
} attend_area;

/* A picture of an area. other: NULL, or a lens of the same shape whose weights
 * are taken off; MAX keeps what is largest in size, with its sign. rows_looked,
 * which may be NULL: of the area's rows. */
ATTEND_API attend_status attend_lens_pool(attend_lens *lens, attend_head_id at,
                                          const attend_area *area,
                                          attend_lens *other,
                                          float *cells /* [height, width] */,
                                          int *rows_looked);

typedef struct {     /* NULL: not asked for */
  float *entropy;    /* [T] nats */
  int32_t *top;      /* [T] the heaviest key, -1: none is seen */
  float *top_weight; /* [T] */
  float *mass;       /* [S] weight that a key receives from all rows */
} attend_row_stats;

ATTEND_API attend_status attend_lens_stats(attend_lens *lens, attend_head_id at,
                                           const attend_row_stats *stats);

/* ---- what a head does ---------------------------------------------------------- */

typedef enum {
  ATTEND_PATTERN_PREVIOUS =
      0,                     /* weight on the token before                    */
  ATTEND_PATTERN_NEXT,       /* on the token after                            */
  ATTEND_PATTERN_FIRST,      /* on the first token ([CLS], <s>)               */
  ATTEND_PATTERN_SEPARATOR,  /* on separators ([SEP], </s>)                   */
  ATTEND_PATTERN_SAME,       /* on other places of the same token             */
  ATTEND_PATTERN_SELF,       /* on the token itself                           */
  ATTEND_PATTERN_BROAD,      /* entropy as a share of the most there can be   */
  ATTEND_PATTERN_POSITIONAL, /* how much the distance alone says where        */
  ATTEND_PATTERN_INDUCTION,  /* on what followed the same token before        */
  ATTEND_HEAD_PATTERNS
} attend_head_pattern;

ATTEND_API const char *attend_head_pattern_name(
    attend_head_pattern doing); /* "previous" */
ATTEND_API const char *attend_head_pattern_about(
    attend_head_pattern doing); /* a sentence */

typedef struct {
  const int32_t *row_ids;   /* [T] tokens that look */
  const int32_t *key_ids;   /* [S] tokens that are looked at */
  const uint8_t *separator; /* [S] 1: the key is one; NULL: none is */
  double most_pairs;        /* for one head */
} attend_pattern_options;

typedef struct {
  double score[ATTEND_HEAD_PATTERNS]; /* NaN: does not apply */
  double entropy;                     /* mean, in nats */
  int does;                           /* the doing that stands out, -1: none */
  int rows_looked;
} attend_pattern_scores;

ATTEND_API attend_status attend_lens_pattern(
    attend_lens *lens, attend_head_id at, const attend_pattern_options *options,
    attend_pattern_scores *pattern);

/* ---- how far a token sees through the layers -------------------------------------- */

/* shares [layers + 1][T]: row `layers` is 1 at the token, row l what share of it
 * comes from each token's state before layer l, where a layer passes on half by
 * itself and half by attention, heads alike. Self-attention only. With
 * most_pairs the heaviest rows of each layer are followed, and the others pass
 * on themselves alone; *passed is their share, the largest of all layers. */
ATTEND_API attend_status attend_lens_rollout(attend_lens *lens,
                                             attend_role role, int token,
                                             double most_pairs, float *shares,
                                             double *passed);

typedef struct {
  int layer, from, to, head; /* head -1: the token itself */
} attend_reach_edge;

/* The tokens that can matter if every head takes its heaviest key alone: from
 * `token` after the last layer down to the input. reached [layers + 1][T] gets 1
 * where a token is reached; edges [most], of which *n were written. */
ATTEND_API attend_status attend_lens_reach(attend_lens *lens, attend_role role,
                                           int token, uint8_t *reached,
                                           attend_reach_edge *edges, int most,
                                           int *n);

/* ---- two of them ------------------------------------------------------------------- */

typedef struct {
  double distance; /* half the sum of |difference| of a row, mean over rows */
  double output;   /* |out - other's out| / |out|, over the rows looked at  */
  double entropy, other_entropy; /* mean */
  int rows_looked;
} attend_difference;

/* Both of the same shape. */
ATTEND_API attend_status attend_lens_compare(attend_lens *lens,
                                             attend_lens *other,
                                             attend_head_id at,
                                             double most_pairs,
                                             attend_difference *difference);

#ifdef __cplusplus
}
#endif
#endif
