/* attend/state.h - decoding: a state that keys and values are appended to.
 *
 *   attend_desc d = {ATTEND_INIT(attend_desc), .., .q_len = 512, .mask.causal = ATTEND_CAUSAL_BOTTOM,
 *                    .purpose = ATTEND_FOR_EXTEND};
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
 * at a time without copying; pages shared by sequences or states are copied on write.
 */
#ifndef ATTEND_STATE_H
#define ATTEND_STATE_H

#include "attend/attention.h"

#ifdef __cplusplus
extern "C" {
#endif

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

#ifdef __cplusplus
}
#endif
#endif
