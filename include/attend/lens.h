/* attend/lens.h - attention weights and head patterns of a recorded run.
 *
 *   attend_trace *trace;                       q, k, v, lse of every layer
 *   attend_lens *lens;
 *   attend_lens_create(model, trace, NULL, 0, &lens);
 *   attend_lens_block(lens, (attend_head_id){ATTEND_DECODER_SELF, 3, 5},
 *                     0, n, 0, n, weights);
 *
 * A trace is linear in the length of the text. Weights are recomputed from it on
 * demand: a block of one head, a downsampled heat map, a pattern score. No call
 * allocates T x S.
 *
 * A lens may use another form than the run: the weights of that form on the recorded
 * queries and keys.
 *
 * `most_pairs` bounds the (query, key) pairs that a call computes, 0: all. A bounded
 * call samples rows and returns their number.
 */
#ifndef ATTEND_LENS_H
#define ATTEND_LENS_H

#include "attend/model.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct attend_lens attend_lens;

/* The trace must hold queries, keys, values and denominators of one text (and head
 * outputs, for attend_lens_vectors and _compare). Trace and model must outlive the
 * lens. form NULL: the model's own. real_keys: keys of the encoder without padding, 0:
 * all. */
ATTEND_API attend_status attend_lens_create(const attend_model *model, const attend_trace *trace,
                                            const attend_form *form, int real_keys,
                                            attend_lens **lens);
/* The same for attention that no attend_model computed: the caller recorded its tensors
 * (attend_trace_read). describe fills in a role's heads, kv_heads, dim, dim_v, form, mask,
 * bias and scale in a layer, or returns false: there is none. Where the trace has patterns
 * they are the weights; queries and keys are then read by attend_lens_vectors and by lenses of
 * another form alone, and the form says only whether weights may be negative
 * (attend_form_signed). A dense bias is that of the layer, [1,H,T,S]. The mask's lengths [1]
 * take the place of real_keys. */
typedef bool (*attend_describe)(attend_role role, int layer, attend_desc *desc, void *user);
ATTEND_API attend_status attend_lens_create_described(attend_context *ctx,
                                                      const attend_trace *trace,
                                                      attend_describe describe, void *user,
                                                      const attend_form *form, int real_keys,
                                                      attend_lens **lens);
ATTEND_API void attend_lens_free(attend_lens *lens);

/* Called during long calls of this lens. NULL: none. */
ATTEND_API void attend_lens_set_progress(attend_lens *lens, attend_progress progress, void *user);

/* The run had these hooks: their edits at ATTEND_AT_PATTERN are applied to the weights. The list
 * is copied; what it points to must outlive the lens. */
ATTEND_API attend_status attend_lens_set_hooks(attend_lens *lens, int n, const attend_hook *hooks);

typedef struct {
  attend_role role;
  int layer, head;
} attend_head_id;

typedef struct {
  int layers, heads, kv_heads;
  int rows, keys; /* T, S */
  int dim, dim_v;
  float scale;
  bool causal;
  int window;
  int real_keys;  /* beyond them is padding */
  bool is_signed; /* weights may be negative */
  bool biased;    /* the scores have a bias */
  bool given;     /* the weights are the caller's, of whatever form */
} attend_lens_shape;

/* Returns 0 if the run has no such attention. */
ATTEND_API bool attend_lens_role(const attend_lens *lens, attend_role role,
                                 attend_lens_shape *shape);

/* Queries, keys, values and output of a head: rows of the trace, f32. Heads that share
 * a kv head have the same keys and values. out: recomputed if the lens has another
 * form. */
ATTEND_API attend_status attend_lens_vectors(attend_lens *lens, attend_head_id at, attend_view *q,
                                             attend_view *k, attend_view *v, attend_view *out);
/* The log of the denominator of each row; for signed forms the denominator itself. */
ATTEND_API attend_status attend_lens_denominators(attend_lens *lens, attend_head_id at,
                                                  float *lse /* [T] */);

/* Weights of queries [row, row + rows) on keys [key, key + keys). */
ATTEND_API attend_status attend_lens_block(attend_lens *lens, attend_head_id at, int row, int rows,
                                           int key, int keys, float *weights /* [rows, keys] */);

typedef enum { ATTEND_POOL_MAX = 0, ATTEND_POOL_MEAN } attend_pool;

typedef struct {
  int row, rows, key, keys; /* the area, in tokens */
  /* its cells: cell (y, x) holds the tokens [row + y rows / height, ..) x .. */
  int height, width;
  attend_pool pool;
  double most_pairs;
} attend_area;

/* Downsamples an area to cells. other: NULL, or a lens of the same shape whose weights
 * are subtracted; MAX pools by absolute value and keeps the sign. rows_sampled may be
 * NULL. */
ATTEND_API attend_status attend_lens_pool(attend_lens *lens, attend_head_id at,
                                          const attend_area *area, attend_lens *other,
                                          float *cells /* [height, width] */, int *rows_sampled);

typedef struct { /* NULL: not requested */
  size_t size;
  float *entropy;    /* [T] nats */
  int32_t *top;      /* [T] the heaviest key, -1: none is visible */
  float *top_weight; /* [T] */
  float *mass;       /* [S] weight that a key receives from all rows */
} attend_row_stats;

ATTEND_API attend_status attend_lens_stats(attend_lens *lens, attend_head_id at,
                                           const attend_row_stats *stats);

/* ---- head patterns ---------------------------------------------------------- */

typedef enum {
  ATTEND_PATTERN_PREVIOUS = 0, /* weight on the token before */
  ATTEND_PATTERN_NEXT,         /* on the token after */
  ATTEND_PATTERN_FIRST,        /* on the first token ([CLS], <s>) */
  ATTEND_PATTERN_SEPARATOR,    /* on separators ([SEP], </s>) */
  ATTEND_PATTERN_SAME,         /* on other places of the same token */
  ATTEND_PATTERN_SELF,         /* on the token itself */
  ATTEND_PATTERN_BROAD,        /* entropy relative to the largest possible */
  ATTEND_PATTERN_POSITIONAL,   /* variance of the weights explained by distance */
  ATTEND_PATTERN_INDUCTION,    /* on the token after an earlier same token */
  ATTEND_HEAD_PATTERNS
} attend_head_pattern;

ATTEND_API const char *attend_head_pattern_name(attend_head_pattern pattern);  /* "previous" */
ATTEND_API const char *attend_head_pattern_about(attend_head_pattern pattern); /* a sentence */

typedef struct {
  size_t size;
  const int32_t *row_ids;   /* [T] tokens of the queries */
  const int32_t *key_ids;   /* [S] tokens of the keys */
  const uint8_t *separator; /* [S] 1: the key is a separator; NULL: none is */
  double most_pairs;        /* for one head */
} attend_pattern_options;

typedef struct {
  double score[ATTEND_HEAD_PATTERNS]; /* NaN: does not apply */
  double entropy;                     /* mean, in nats */
  double later;                       /* mean weight on later tokens; NaN in cross-attention */
  int pattern;                        /* the dominant pattern, -1: none */
  int rows_sampled;
} attend_pattern_scores;

ATTEND_API attend_status attend_lens_pattern(attend_lens *lens, attend_head_id at,
                                             const attend_pattern_options *options,
                                             attend_pattern_scores *pattern);

/* Several heads together, such as those of a layer. */
typedef struct {
  int32_t count[ATTEND_HEAD_PATTERNS + 1]; /* heads by dominant pattern; the last: without one */
  double entropy, broad, later;            /* means of the heads; NaN: does not apply */
} attend_pattern_summary;

ATTEND_API void attend_pattern_summarize(const attend_pattern_scores *scores /* [heads] */,
                                         int heads, attend_pattern_summary *summary);
/* The heads with the highest scores of a pattern, in descending order. Returns their number, at
 * most `max`: heads to which it does not apply are left out. */
ATTEND_API int attend_pattern_best(const attend_pattern_scores *scores /* [heads] */, int heads,
                                   attend_head_pattern pattern, int max, int *best /* [max] */);
/* The share of all pairs of query and key in which the query may see the key: 1 without a mask,
 * about a half if causal. Padding is not counted. */
ATTEND_API double attend_lens_visible(const attend_lens *lens, attend_role role);

/* ---- attention flow through the layers -------------------------------------- */

/* Attention rollout (Abnar and Zuidema 2020). shares [layers + 1][T]: row `layers` is 1
 * at the token, row l the share of each token's residual stream before layer l; a layer
 * contributes half by the residual and half by attention, averaged over heads.
 * Self-attention only. With most_pairs only the heaviest rows of each layer are
 * followed and the others keep their share; *passed is the largest such share of a
 * layer. */
ATTEND_API attend_status attend_lens_rollout(attend_lens *lens, attend_role role, int token,
                                             double most_pairs, float *shares, double *passed);

typedef struct {
  int layer, from, to, head; /* head -1: the residual connection */
} attend_reach_edge;

/* The receptive field if every head attends to its heaviest key alone: from `token`
 * after the last layer down to the input. reached [layers + 1][T] is 1 where a token is
 * reached; edges [most], *n of them written. */
ATTEND_API attend_status attend_lens_reach(attend_lens *lens, attend_role role, int token,
                                           uint8_t *reached, attend_reach_edge *edges, int max,
                                           int *n);

/* ---- comparing two lenses ------------------------------------------------------------------- */

typedef struct {
  double distance; /* half the sum of |difference| of a row, mean over rows */
  double output;   /* |out - other's out| / |out|, over the sampled rows; NaN: not recorded */
  double entropy, other_entropy; /* mean */
  int rows_sampled;
} attend_difference;

/* Both lenses have the same shape. */
ATTEND_API attend_status attend_lens_compare(attend_lens *lens, attend_lens *other,
                                             attend_head_id at, double most_pairs,
                                             attend_difference *difference);

#ifdef __cplusplus
}
#endif
#endif
