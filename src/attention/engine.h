/* Plans, engines and calls: shared by every file of this directory.
 *
 * plan.c chooses among the engines of the context's device; an engine computes a call.
 * The public functions check their arguments, fill a call and pass it to the table of
 * the engine.
 */
#ifndef ATTENTION_ENGINE_H
#define ATTENTION_ENGINE_H

#include <math.h>

#include "attend/attention.h"
#include "attention/desc.h"
#include "attention/features.h"
#include "base/parallel.h"
#include "kernels/kernels.h"

typedef struct attend_engine attend_engine;
typedef struct state_kind state_kind; /* attention/state.h */

static const double LOG2E = 1.44269504088896340736;
static const double LN2 = 0.69314718055994530942;

struct attend_plan {
  attend_context *ctx;
  attend_desc desc; /* complete */
  const attend_engine *engine;
  const struct kernels *kn;
  const struct block_kernels *fast; /* forward's, for this dtype */
  int threads;
  attend_stream own;                 /* that calls run on */
  int group;                         /* heads that share a kv head: H / G */
  int ldk, ldv;                      /* D and M rounded up to whole lanes */
  int tile;                          /* rows that share loaded keys */
  float score_to2;                   /* q.k -> log2 of the weight: scale log2(e) / temperature */
  float bias_to2;                    /* bias -> the same */
  float cap_in;                      /* soft cap c: q.k -> the argument of tanh, scale / c */
  float cap_out;                     /* tanh -> log2 of the weight: c log2(e) / temperature */
  bool by_differences;               /* gaussian: from q - k, not from q.k; see softmax.c */
  feature_map map;                   /* of linear forms */
  int64_t weak_rows;                 /* of the last call: see attend_plan_weak_rows */
  size_t slot_bytes;                 /* of shared: partial results when keys are split */
  size_t thread_bytes, shared_bytes; /* the workspace: threads, then shared */
  unsigned char *workspace;
  void *own_data; /* the engine's, which prepare makes and release frees */
};

/* One call: a plan and its tensors. Keys come from views, or from a state's pages. */
typedef struct {
  attend_plan *plan;
  attend_view q, k, v, o;
  float *lse;
  const struct block_kernels *on; /* the layouts that blocks are loaded in */
  bool raw;                       /* the engine applies the scale itself, in the exponential */
  const attend_state *state;
  const int64_t *before;       /* [B] position of each sequence's first query */
  int n;                       /* queries a sequence */
  attend_view d_o, dq, dk, dv; /* backward */
  const float *lse_in;
  float *dbias;
  const attend_observation *obs; /* observe */
  int64_t key_from, key_to;      /* observe: other blocks are skipped, unless key_to
                               is 0 */
} call;

struct attend_engine {
  const char *name;
  const state_kind *states; /* the kind of its plans' states */
  bool at_once;             /* computes within the call: the queue must be empty */
  bool by_sums;             /* of features, with no weight of a pair: cost.c, observe.c */
  /* NULL, or why not. */
  const char *(*applicable)(const attend_context *ctx, const attend_desc *desc);
  /* Of the engines that apply, the plan chooses the first of least cost. */
  double (*cost)(const attend_desc *desc);
  attend_status (*prepare)(attend_plan *plan); /* data of all calls; or NULL */
  void (*release)(attend_plan *plan);          /* frees it; or NULL */
  void (*size)(attend_plan *plan);             /* sets tile, bytes  */
  attend_status (*forward)(call *c);           /* also over a state */
  attend_status (*backward)(call *c);
  attend_status (*observe)(call *c);
  int64_t (*weak_rows)(attend_plan *plan); /* of the last call; or NULL: plan->weak_rows */
};

/* Keys of the longest sequence: the width of rows of weights, and of mass (observe.c). */
int64_t call_width(const call *c);

/* A name that a caller gave: that of the engine. On another device the CPU's engines are called
 * host:NAME (device/bridge.c); NAME is the device's own, if there is one, or the host's. */
bool engine_is_called(const attend_engine *e, const char *name);

/* The CPU's engines in order of preference, then NULL. */
extern const attend_engine *const cpu_engines[];

extern const attend_engine engine_softmax, engine_argmax, engine_direct, engine_linear,
    engine_definition;
extern const state_kind state_kv_cache, state_linear;

/* Where element (slot, i) of a panel lies, in elements: see block_kernels. */
static inline size_t panel_key_at(int pair, int width, int slot, int i) {
  return (size_t)(slot / LANES * LANES) * (size_t)width +
         (size_t)(i / pair * LANES * pair + slot % LANES * pair + i % pair);
}
static inline size_t panel_value_at(int pair, int ld, int slot, int i) {
  if (pair == 1) return (size_t)slot * (size_t)ld + (size_t)i;
  return ((size_t)(slot / 2) * (size_t)ld + (size_t)i) * 2 + (size_t)(slot % 2);
}

/* The context's stream while a session has it open, else the plan's own. */
static inline attend_stream *plan_stream(attend_plan *p) {
  attend_stream *open = &p->ctx->stream;
  if (!open->depth) return &p->own;
  if (open->threads == p->threads) return open;
  stream_wait(open); /* what the plan reads may be queued there */
  return &p->own;
}
static inline void plan_wait(attend_plan *p) { stream_wait(plan_stream(p)); }

/* Queued before a call's other phases, since those of the previous call may still run:
 * resets the count of weak rows and spreads T5's bias by distance. */
void call_begin(const call *c);

/* Adds to attend_plan_weak_rows; called by several threads. */
static inline void plan_weak(attend_plan *p, int64_t rows) {
  if (rows) __atomic_fetch_add(&p->weak_rows, rows, __ATOMIC_RELAXED);
}

/* A denominator that underflowed, overflowed or cancelled; size: the sum of absolute weights. */
static inline bool is_lost(float denominator, float size) {
  return fabsf(denominator) < 0x1p-100f || isinf(denominator) || fabsf(denominator) < 1e-3f * size;
}

/* The workspace of one thread, and the part that all share. */
static inline arena plan_thread_arena(const attend_plan *p, int thread) {
  return (arena){p->workspace + p->thread_bytes * (size_t)thread, 0};
}
static inline arena plan_shared_arena(const attend_plan *p) {
  return (arena){p->workspace + p->thread_bytes * (size_t)p->threads, 0};
}

/* Operations of a description, a multiply-add counted as two (cost.c): by pairs of a query
 * and a key, and by sums of features. */
double flops_of_pairs(const attend_desc *d);
double flops_of_sums(const attend_desc *d);

#endif
