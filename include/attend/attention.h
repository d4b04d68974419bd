/* attend/attention.h - attention itself: describe a problem, plan it, run it; decode with
 * a state; read the weights.
 *
 *   out_i = sum_j sim(q_i, k_j) v_j / sum_j sim(q_i, k_j)
 *           over the keys j that query i may see
 *
 * The form chooses sim, the mask chooses what is visible, the bias adds to the
 * score. A description is plain data and zero means default:
 *
 *   attend_desc d = {ATTEND_INIT(attend_desc), .heads = 12, .q_len = 1024,
 *                    .kv_len = 1024, .dim = 64, .mask.causal = ATTEND_CAUSAL};
 *   attend_plan *plan;
 *   attend_plan_create(ctx, &d, &plan);
 *   attend_forward(plan, attend_bhtd(q), attend_bhtd(k), attend_bhtd(v),
 *                  attend_bhtd(o), lse);
 *
 * Letters in the comments: B batch, H heads, G kv heads, T query length,
 * S key length, D width of q and k, M width of v and o. dX is the gradient
 * of X.
 *
 * Guarantees:
 *  - A row that sees no key gives zeros, lse = -inf (0 where lse is the denominator
 *    itself: attend_form_signed) and zero gradients.
 *  - Masked keys and values are never read: NaN there changes nothing.
 *  - Bit-identical results: a query row's result depends on that row, the keys it sees
 *    and the description alone; not on the number of threads, the batch, the position
 *    in a tile, or how the keys are split over calls.
 *  - forward, backward, observe and merge allocate no memory.
 */
#ifndef ATTEND_ATTENTION_H
#define ATTEND_ATTENTION_H

#include "attend/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- forms --------------------------------------------------------------- */

typedef enum {
  ATTEND_SOFTMAX = 0, /* exp(scale q.k + bias); see attend_desc.soft_cap */
  ATTEND_ARGMAX,      /* 1 at the best key, else 0 */
  ATTEND_POLY,        /* (a q.k + c)^degree */
  ATTEND_GAUSSIAN,    /* exp(-|q-k|^2 / 2 sigma^2) */
  ATTEND_ELU,         /* linear attention: phi(q).phi(k), phi(x) = elu(x) + 1 */
  ATTEND_FOURIER,     /* softmax, by random Fourier features: sin, cos of w.x */
  ATTEND_FAVOR,       /* softmax, by FAVOR+ (Performer): positive random features */
  ATTEND_CUSTOM       /* the caller's sim, or the caller's phi */
} attend_form_kind;

typedef enum { ATTEND_TIES_FIRST = 0, ATTEND_TIES_AVERAGE } attend_ties;

/* The caller's similarity of one query and one key, each [dim]. For a backward
 * pass it also writes the derivatives dq, dk [dim]; they are NULL otherwise. */
typedef double (*attend_sim)(const double *q, const double *k, int dim, double *dq, double *dk,
                             void *user);

/* The caller's feature map: sim(q, k) = phi(q).phi(k), so attention is linear in the
 * length. Fills features[count] from x[dim]; key: x is a key, else a query. Called by
 * several threads at once. */
typedef void (*attend_phi)(const float *x, int dim, int key, float *features, int count,
                           void *user);
/* Its derivative: dx[dim] = d(features)/dx . dfeatures[count]. */
typedef void (*attend_phi_backward)(const float *x, int dim, int key, const float *dfeatures,
                                    int count, float *dx, void *user);

typedef enum { ATTEND_ORTHOGONAL = 0, ATTEND_IID } attend_draw;
typedef enum { ATTEND_POSITIVE = 0, ATTEND_TRIGONOMETRIC } attend_map;

/* Random features: the directions w are drawn from Philox by seed and redraw alone, the
 * same matrix on any machine. favor: exp(w.x - |x|^2/2), with pairs exp(w.x) and
 * exp(-w.x) of half as many directions (lower variance). fourier: sin and cos of w.x,
 * half of the features each. */
typedef struct {
  attend_form_kind kind;
  attend_ties ties;  /* argmax */
  float temperature; /* argmax: 0 is hard; t > 0 is softmax of score / t */
  int degree;        /* poly: 0 means 2 */
  /* poly: a 0 means 1; c 0 means 0. On the linear engine |q_i|^degree and |k_i|^degree must fit
   * f32 */
  float a, c;
  /* gaussian: 0 means dim^(1/4), softmax's width; favor and fourier: sets scale to 1/sigma^2 */
  float sigma;
  /* favor, fourier: 0 means 256. gaussian: 0 is exact, otherwise random features. custom:
   * length of phi */
  int features;
  uint64_t seed;    /* favor, fourier, gaussian */
  uint64_t redraw;  /* number of the draw from this seed */
  attend_draw draw; /* directions orthogonal in blocks of dim, or iid */
  int pairs;        /* favor: exp(w.x) and exp(-w.x) together */
  attend_map map;   /* gaussian with features: favor's or fourier's */
  /* favor, fourier: chooses the number of features for this relative error of the output;
   * features must be 0. A completed description has features set and error, spread 0 */
  float error;
  /* for error: root mean square of the elements of q and k; 0 means 1 */
  float spread;
  attend_sim sim;                   /* custom: one of sim */
  attend_phi phi;                   /* and phi */
  attend_phi_backward phi_backward; /* for backward with phi */
  void *user;
} attend_form;

/* ---- what is visible ------------------------------------------------------ */

typedef enum {
  ATTEND_NOT_CAUSAL = 0,
  ATTEND_CAUSAL,       /* key j <= query i; only where q_len == kv_len */
  ATTEND_CAUSAL_TOP,   /* j <= i: query 0 is at the position of key 0 */
  ATTEND_CAUSAL_BOTTOM /* j <= i + kv_len - q_len: the last query at the last key */
} attend_causal;

typedef struct {
  attend_causal causal;
  /* 0: none. w: only keys less than w positions away; with a causal mask a query sees itself
   * and w-1 keys before it */
  int window;
  const int32_t *lengths;  /* [B], keys at or beyond are padding; or NULL */
  const uint8_t *key_mask; /* [B,S], 0 is padding, on any side; or NULL */
} attend_mask;             /* pointers are borrowed and read at each call */

/* ---- what is added to the score ------------------------------------------- */

typedef enum {
  ATTEND_NO_BIAS = 0,
  ATTEND_ALIBI,   /* -slope[h] |p_i - j|, p_i the position of the query */
  ATTEND_BUCKETS, /* table[bucket(j - p_i)][h], T5's buckets */
  ATTEND_DENSE    /* bias[b,h,i,j], f32, broadcast by zero strides */
} attend_bias_kind;

typedef struct {
  attend_bias_kind kind;
  const float *slopes; /* ALiBi [H] */
  const float *table;  /* buckets [buckets, H] */
  int buckets;         /* 0: 32 */
  int max_distance;    /* 0: 128 */
  bool one_sided;      /* buckets for keys before the query only (decoders) */
  attend_view dense;   /* [B,H,T,S] */
} attend_bias;         /* pointers are borrowed and read at each call */

/* The slopes of the ALiBi paper for a number of heads. */
ATTEND_API void attend_alibi_slopes(int heads, float *slopes /* [heads] */);
/* T5's bucket for key position minus query position. */
ATTEND_API int attend_bucket(const attend_bias *bias, int64_t key_minus_query);

/* ---- the problem ----------------------------------------------------------- */

/* What a plan supports beyond attend_forward. With ATTEND_FOR_EXTEND q_len is the most
 * rows of one call, and kv_len is not used. */
enum { ATTEND_FOR_BACKWARD = 1, ATTEND_FOR_EXTEND = 2 };

typedef struct {
  size_t size;
  attend_form form;
  int batch, heads;  /* 0: 1 */
  int kv_heads;      /* 0: heads; otherwise divides heads */
  int q_len, kv_len; /* 0: no query, no key */
  int dim, dim_v;    /* dim_v 0: dim */
  attend_mask mask;
  attend_bias bias;
  float scale; /* 0: 1/sqrt(dim) */
  /* 0: none. c: scale q.k becomes c tanh(scale q.k / c), before the bias and the mask (Gemma
   * 2). Softmax, and argmax with a temperature */
  float soft_cap;
  attend_dtype dtype; /* storage of q, k, v, o and their gradients; sums are f32 */
  unsigned purpose;   /* ATTEND_FOR_... */
  const char *engine; /* NULL: the plan chooses */
} attend_desc;

/* Whether lse is the denominator itself, because similarities may be negative:
 * poly, custom, fourier, and gaussian with trigonometric features. */
ATTEND_API bool attend_form_signed(const attend_form *form);
/* The length C of the form's feature map at this width, 0 if it has none. */
ATTEND_API int64_t attend_form_features(const attend_form *form, int dim);

typedef struct attend_plan attend_plan;

/* Fills in the defaults and checks everything that can be checked without the tensors.
 * attend_plan_create does it first. */
ATTEND_API attend_status attend_desc_complete(attend_context *ctx, attend_desc *desc);

ATTEND_API attend_status attend_plan_create(attend_context *ctx, const attend_desc *desc,
                                            attend_plan **plan);
ATTEND_API void attend_plan_free(attend_plan *plan);
ATTEND_API const attend_desc *attend_plan_desc(const attend_plan *plan);
/* host:NAME where a GPU's context computes on the host, on copies. */
ATTEND_API const char *attend_plan_engine(const attend_plan *plan);
ATTEND_API size_t attend_plan_workspace(const attend_plan *plan); /* bytes */

/* Sets the plan's lengths and key_mask (either may be NULL). */
ATTEND_API void attend_plan_set_padding(attend_plan *plan, const int32_t *lengths,
                                        const uint8_t *key_mask);

/* ---- compute ---------------------------------------------------------------- */

/* o [B,H,T,M]; lse [B,H,T], the log of the denominator, may be NULL. For hard
 * argmax lse is the best score. Where similarities may be negative
 * (attend_form_signed) it is the denominator itself. */
ATTEND_API attend_status attend_forward(attend_plan *plan, attend_view q, /* [B,H,T,D] */
                                        attend_view k,                    /* [B,G,S,D] */
                                        attend_view v,                    /* [B,G,S,M] */
                                        attend_view o,                    /* [B,H,T,M] */
                                        float *lse /* [B,H,T] or NULL */);

/* q, k, v, o and lse as forward read and wrote them. dbias is NULL or has the shape of
 * the bias: [H] for ALiBi's slopes, [buckets, H], or the dense bias with its strides
 * (broadcast dimensions are summed over). */
ATTEND_API attend_status attend_backward(attend_plan *plan, attend_view q, attend_view k,
                                         attend_view v, attend_view o, const float *lse,
                                         attend_view d_o, attend_view dq, attend_view dk,
                                         attend_view dv, float *dbias);

/* Merges (o2, lse2), computed on other keys, into (o, lse): attention over both sets. */
ATTEND_API attend_status attend_merge(attend_plan *plan, attend_view o, float *lse, attend_view o2,
                                      const float *lse2);

/* Rows of the last forward or extend whose denominator is unreliable. Signed
 * similarities: it is less than a thousandth of the sum of absolute weights, so the
 * output is mostly rounding error. All linear forms, and poly and gaussian pair by
 * pair: it underflowed although keys were visible (the output is zeros). Overflow of
 * f32 counts too: fourier's denominator grows as exp(scale |q|^2 / 2), and such a row
 * has no gradient. */
ATTEND_API int64_t attend_plan_weak_rows(const attend_plan *plan);

/* Redraws the random directions of favor, fourier or gaussian: draw number `redraw` of
 * the form's seed. States of the plan become invalid. */
ATTEND_API attend_status attend_plan_redraw(attend_plan *plan, uint64_t redraw);

/* ---- engines and their cost ------------------------------------------ */

typedef struct {
  const char *engine;
  double flops; /* multiply and add counted as two */
  double bytes; /* the least that must move: inputs and outputs once */
  /* pairs (query, key) that the mask lets through, over batch and heads, if every key is real */
  double visible;
  size_t workspace_bytes; /* all threads together */
} attend_cost;

ATTEND_API attend_status attend_plan_cost(const attend_plan *plan, attend_cost *cost);
/* The same without a plan: by sums of features if the description's engine is
 * "linear", otherwise by pairs. engine is the description's, workspace_bytes 0. */
ATTEND_API attend_status attend_desc_cost(attend_context *ctx, const attend_desc *desc,
                                          attend_cost *cost);

/* The engines that the plan considered, in order of preference. Returns 0 past the last.
 * *refusal is NULL where the engine applies, else the reason. */
ATTEND_API bool attend_plan_candidate(const attend_plan *plan, int index, const char **name,
                                      const char **refusal);

/* ---- decoding: a state that keys and values are appended to ---------------------- */

/*   attend_desc d = {ATTEND_INIT(attend_desc), .., .q_len = 512,
 *                    .mask.causal = ATTEND_CAUSAL_BOTTOM, .purpose = ATTEND_FOR_EXTEND};
 *   attend_state_create(plan, &state);
 *   attend_extend(plan, state, 300, q, k, v, o, NULL);   prefill 300 tokens
 *   attend_extend(plan, state, 1, q, k, v, o, NULL);     decode one
 *
 * The result is bit-identical however a sequence is split into calls, and equal to
 * attend_forward on the whole sequence with the same engine. (poly has two engines: a
 * state uses the linear one, a short attend_forward may not; set the description's
 * `engine`.)
 *
 * For linear forms (elu, favor, fourier, gaussian with features, poly, custom with phi)
 * a state is the recurrent state of linear attention, the sums S and z over whole
 * blocks of keys, and the incomplete block: its size is constant, and a token costs the
 * same at any length.
 *
 * For the others a state is a paged KV cache, pages of ATTEND_PAGE keys. It grows a page
 * at a time without copying; pages shared by sequences or states are copied on write. */

enum { ATTEND_PAGE = 64 };

typedef struct attend_state attend_state;

/* B empty sequences with the shape and dtype of the plan. A state works with every plan
 * of the same context, batch, kv_heads, widths and dtype. */
ATTEND_API attend_status attend_state_create(attend_plan *plan, attend_state **state);
ATTEND_API void attend_state_free(attend_state *state);

/* Allocates pages for `keys` keys in every sequence, so that no call up to there
 * allocates; fails without allocating if the context's cache_limit does not allow it.
 * reserve_bytes: the bytes it would allocate; SIZE_MAX on overflow. */
ATTEND_API attend_status attend_state_reserve(attend_state *state, int keys);
ATTEND_API size_t attend_state_reserve_bytes(const attend_state *state, int keys);

/* Appends n keys and values to each sequence and attends with n queries, query i at
 * position length + i. With a causal mask it sees the keys up to there, otherwise all.
 * The plan's lengths, if set, give the number of real rows of each sequence: the others
 * are not appended and give zeros. The plan's key_mask, if set, is [B,n] and marks
 * padding among the new keys. A call that fails leaves the state unchanged. */
ATTEND_API attend_status attend_extend(attend_plan *plan, attend_state *state, int n,
                                       attend_view q, /* [B,H,n,D] */
                                       attend_view k, /* [B,G,n,D] */
                                       attend_view v, /* [B,G,n,M] */
                                       attend_view o, /* [B,H,n,M] */
                                       float *lse /* [B,H,n] or NULL */);

/* The two halves of extend, for keys that are computed once and queried often
 * (cross-attention). The n queries of attend_state_query are at the last n
 * positions. */
ATTEND_API attend_status attend_state_append(attend_plan *plan, attend_state *state, int n,
                                             attend_view k, attend_view v);
ATTEND_API attend_status attend_state_query(attend_plan *plan, attend_state *state, int n,
                                            attend_view q, attend_view o, float *lse);

/* Keys of one sequence; bytes of the state's pages (a shared page counts in each state
 * that shares it). */
ATTEND_API int64_t attend_state_length(const attend_state *state, int sequence);
ATTEND_API size_t attend_state_bytes(const attend_state *state);

/* A copy that shares all pages; a linear state is copied. */
ATTEND_API attend_status attend_state_fork(const attend_state *state, attend_state **copy);
/* Sequence b becomes the former sequence parents[b]: a step of beam search. */
ATTEND_API attend_status attend_state_reorder(attend_state *state,
                                              const int32_t *parents /* [B] */);
/* Copies sequence b of a state to sequence to_b of another, whose batch may differ. */
ATTEND_API attend_status attend_state_copy(const attend_state *from, int b, attend_state *to,
                                           int to_b);
/* Removes the keys from position `length` on. A linear state can only be truncated
 * within its incomplete block, or to 0. */
ATTEND_API attend_status attend_state_truncate(attend_state *state, int sequence, int64_t length);

/* Saves a state to a file, and loads it for a plan of the same shape, form and (KV
 * cache) page layout: decoding resumes bit-identically. The file is replaced
 * atomically. */
ATTEND_API attend_status attend_state_save(const attend_state *state, const char *path);
ATTEND_API attend_status attend_state_load(attend_plan *plan, const char *path,
                                           attend_state **state);

/* ---- attention weights and statistics without a T x S matrix --------------------- */

/* Weights are recomputed as exp(score - lse), for linear forms as phi(q).phi(k) over the
 * denominator, and only those that are requested. Forward's outputs do not change. */

/* Weights of one query on consecutive keys; 0 where masked. */
typedef struct {
  int b, h, row;
  int slot; /* index of the row in rows; without rows, the row */
  int key, n;
  const float *weights; /* [n] for keys [key, key + n) */
} attend_weight_span;

typedef struct { /* NULL or 0: not requested */
  size_t size;
  /* Whole rows: the weights of n_rows queries (the same positions in every
   * head) over all S keys. */
  const int32_t *rows; /* [n_rows], each in [0, T) */
  int n_rows;
  float *weights; /* [B,H,n_rows,S] */
  /* The heaviest keys of every query, heaviest first, ties by position; index
   * -1 and weight 0 where fewer are visible. */
  int top;
  int32_t *top_index; /* [B,H,T,top] */
  float *top_weight;  /* [B,H,T,top] */
  /* Entropy of every query's weights, in nats. */
  float *entropy; /* [B,H,T] */
  /* The weight every key receives, summed over the queries of a head. */
  float *mass; /* [B,H,S] */
  /* Total variation distance of a linear form's weights from exact softmax's: half
   * the sum of |difference| over a row's keys, 0 equal, 1 disjoint (more with negative
   * weights). */
  float *softmax_gap; /* [B,H,T] */
  /* Called with every weight once, in spans of keys: for `rows` if there are any
   * (weights must be NULL then; in any order), else for all queries; for keys
   * [key_from, key_to) only, key_to 0: to the last. Called by several threads at once;
   * one row by one thread, in the order of its keys. Fully masked spans may be
   * skipped. */
  void (*each)(const attend_weight_span *span, void *user);
  void *user;
  int64_t key_from, key_to;
} attend_observation;

/* q, k and lse as attend_forward read and wrote them. */
ATTEND_API attend_status attend_observe(attend_plan *plan, attend_view q, attend_view k,
                                        const float *lse, const attend_observation *observation);

/* The same over a state: n queries at its last n positions, as in attend_state_query; S
 * is the length of the longest sequence. */
ATTEND_API attend_status attend_state_observe(attend_plan *plan, attend_state *state, int n,
                                              attend_view q, const float *lse,
                                              const attend_observation *observation);

#ifdef __cplusplus
}
#endif
#endif
