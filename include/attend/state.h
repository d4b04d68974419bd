/* attend/state.h - decoding: a state that keys and values are appended to.
 *
 *   attend_desc d = {..., .q_len = 512, .mask.causal = ATTEND_CAUSAL_BOTTOM,
 *                    .purpose = ATTEND_FOR_EXTEND};
 *   attend_state_create(plan, &state);
 *   attend_extend(plan, state, 300, q, k, v, o, NULL);   prefill 300 tokens
 *   attend_extend(plan, state, 1, q, k, v, o, NULL);     decode one
 *
 * Any way of cutting a sequence into calls gives the same bits, and the same
 * as attend_forward on the whole of it with the same engine (poly has two: a
 * state takes the linear one, a short attend_forward may not; the description's
 * `engine` settles it).
 *
 * For linear forms (elu, favor, fourier, gaussian with features, poly, custom
 * with phi) a state is the sums S and z over whole blocks of keys and the open
 * block: it never grows, and a token costs the same at any length.
 *
 * For the others a state is a KV cache in pages of ATTEND_PAGE keys. It grows a
 * page at a time and never copies what it holds; a page that two sequences or
 * two states share is copied when one of them appends to it.
 */
#ifndef ATTEND_STATE_H
#define ATTEND_STATE_H

#include "attend/attention.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { ATTEND_PAGE = 64 };

typedef struct attend_state attend_state;

/* B empty sequences, with the shape and dtype of the plan. A state works with
 * every plan of the same context, batch, kv_heads, widths and dtype. */
ATTEND_API attend_status attend_state_create(attend_plan *plan,
                                             attend_state **state);
ATTEND_API void attend_state_free(attend_state *state);

/* Pages for this many keys a sequence, so that no call up to there takes
 * memory; and the bytes of the pages that it would take, SIZE_MAX if no size
 * holds them. Nothing is taken if they exceed what the context's cache_limit
 * leaves. */
ATTEND_API attend_status attend_state_reserve(attend_state *state, int keys);
ATTEND_API size_t attend_state_reserve_bytes(const attend_state *state,
                                             int keys);

/* Appends n keys and values to each sequence, and lets n queries look: query i
 * of the call stands at position length + i. With a causal mask it sees the
 * keys up to there, otherwise all. The plan's lengths, if set, say how many
 * of the n rows of each sequence are real: the others are not appended and
 * give zeros. The plan's key_mask, if set, is [B,n] and marks padding among
 * the new keys. On failure the state is as it was. */
ATTEND_API attend_status attend_extend(attend_plan *plan, attend_state *state,
                                       int n, attend_view q, /* [B,H,n,D] */
                                       attend_view k,        /* [B,G,n,D] */
                                       attend_view v,        /* [B,G,n,M] */
                                       attend_view o,        /* [B,H,n,M] */
                                       float *lse /* [B,H,n] or NULL */);

/* The two halves of extend, for keys that are computed once and looked at
 * often (cross-attention). In attend_state_query the n queries stand at the
 * last n positions. */
ATTEND_API attend_status attend_state_append(attend_plan *plan,
                                             attend_state *state, int n,
                                             attend_view k, attend_view v);
ATTEND_API attend_status attend_state_query(attend_plan *plan,
                                            attend_state *state, int n,
                                            attend_view q, attend_view o,
                                            float *lse);

/* Keys held by one sequence; bytes of pages held by the state (shared pages
 * count once in each state that holds them). */
ATTEND_API int64_t attend_state_length(const attend_state *state, int sequence);
ATTEND_API size_t attend_state_bytes(const attend_state *state);

/* A second state that shares every page (a linear one is copied). */
ATTEND_API attend_status attend_state_fork(const attend_state *state,
                                           attend_state **copy);
/* Sequence b continues what parents[b] was: a step of beam search. */
ATTEND_API attend_status attend_state_reorder(attend_state *state,
                                              const int32_t *parents /* [B] */);
/* Sequence to_b of a state becomes what sequence b of another is, which may
 * have been made for another batch. */
ATTEND_API attend_status attend_state_copy(const attend_state *from, int b,
                                           attend_state *to, int to_b);
/* Forgets all keys of a sequence from position length on. A linear state can
 * only forget inside its open block, or everything. */
ATTEND_API attend_status attend_state_truncate(attend_state *state,
                                               int sequence, int64_t length);

/* Saves a state to a file, and restores it for a plan of the same shape, form
 * and (for a KV cache) layout of pages: decoding goes on with the same bits. The
 * file appears whole or not at all. */
ATTEND_API attend_status attend_state_save(const attend_state *state,
                                           const char *path);
ATTEND_API attend_status attend_state_load(attend_plan *plan, const char *path,
                                           attend_state **state);

#ifdef __cplusplus
}
#endif
#endif
