/* A learner at work: parameters with gradients, and what forward leaves behind.
 *
 * Place: train/ - learner.c owns the parameters, learn_memory.c the activations;
 * learn_study.c takes a lesson: learn_forward.c goes up, learn_backward.c comes
 * down, learn_ends.c does the embeddings and the head, learn_copy.c the head that
 * copies.
 *
 * Letters: rows are tokens, batch x length of them; ld is a width rounded up to
 * whole lanes.
 */
#ifndef TRAIN_LEARNER_H
#define TRAIN_LEARNER_H

#include "attend/observe.h"
#include "attend/train.h"
#include "model/checkpoint.h"
#include "model/role.h"

typedef struct { /* W [outputs][inputs], b [outputs]; NULL: there is none */
  float *w, *b, *dw, *db;
  int outputs, inputs;
  attend_linear *go, *back; /* W and its transpose, packed */
} learn_linear;

typedef struct {
  float *w, *b, *dw, *db; /* w NULL: 1 */
} learn_norm;

typedef struct {
  float *w, *dw; /* [entries][width]; NULL: there is none */
  int entries;
} learn_table;

typedef struct {
  learn_norm self_norm, cross_norm, mlp_norm;
  learn_linear qkv, out, cross_q, cross_kv, cross_out, up, down;
} learn_layer;

/* What a layer leaves for its way back. Norms first: x before each branch; norms
 * last: the sums before each norm. */
typedef struct {
  float *x;            /* [rows][ldx] what came in */
  float *self, *cross; /* [rows][ldx] after the branch, before its norm */
  float *mlp;          /* the same; norms last alone */
  float *qkv;          /* [rows][ld] */
  float *mix, *lse;    /* [rows][ldo], [B,H,T] */
  float *cross_q;      /* [rows][ld] */
  float *cross_kv;     /* [encoder rows][ld] */
  float *cross_mix, *cross_lse;
  float *up; /* [rows][ld] before the activation */
} learn_trail;

typedef struct {
  const attend_stack *shape;
  bool encoder;
  learn_table positions, types;
  learn_linear projection; /* of the tokens' rows; w NULL: they are as wide */
  learn_norm embed_norm, final_norm;
  learn_table relative; /* [buckets][H] */
  learn_layer *layers;  /* NULL: there is no such side */
  learn_trail *trails;  /* [layers], or [1] if they are computed again */
  /* of the current lesson */
  int length, rows;
  const int32_t *ids, *lengths, *given_types;
  int32_t *position; /* [rows] */
  int32_t *real;     /* [batch] */
  attend_plan *plan, *cross_plan;
  float *embedded; /* [rows][ldx] before the embeddings' norm */
  float *last;     /* [rows][ldx] before the final norm */
  float *hidden;   /* [rows][ldx] what the side gives */
  float *d_hidden; /* and its gradient */
} learn_stack;

/* A head that copies, and its work; k.w NULL: there is none. P: whole lanes. */
typedef struct {
  learn_linear q, k, gate;
  float *keys, *d_keys;       /* [encoder rows][P] */
  float *queries, *d_queries; /* [HEAD][P] */
  float *gates;               /* [HEAD][16], then their gradients */
  float *weights;             /* [HEAD][encoder length], then the scores' */
} learn_copy;

/* Places of the decoder that the head looks at together; what it reads there
 * lies ld floats apart. */
enum { HEAD_ROWS_AT_ONCE = 256 };
typedef struct {
  int rows, ld;
  int32_t row[HEAD_ROWS_AT_ONCE], target[HEAD_ROWS_AT_ONCE];
} learn_places;

typedef struct {
  size_t parameter; /* of the checkpoint's table */
  size_t at;        /* in values and gradients */
  attend_group group;
  bool fixed;
} learn_entry;

struct attend_learner {
  attend_context *ctx;
  attend_checkpoint *files;
  attend_config config;
  attend_learner_options options;
  attend_form forms[ATTEND_ROLES];
  learn_entry *entries;
  size_t n_entries;
  float *values, *gradients;
  size_t count;
  learn_table tokens;
  learn_stack encoder, decoder;
  learn_linear transform, head; /* head.w: the tokens' if tied */
  learn_norm transform_norm;
  learn_copy copy;
  double *frequency, stretch;
  /* of the current lesson */
  const attend_lesson *lesson;
  int batch, room_batch, room_length[2]; /* that memory was taken for */
  void *trail_block, *work_block;
  size_t trail_bytes, work_bytes;
  size_t plan_bytes;   /* of the plans' workspaces, at their most */
  float *h, *middle;   /* [rows][ldx] what a branch reads; between branches */
  float *dh;           /* [rows][ldx] */
  float *wide, *d_mix; /* [rows][widest of q, heads' outputs, mlp] */
  float *d_wide;       /* [rows][widest of qkv, gate and up] */
  float *head_rows;    /* [HEAD][..] x, y, dx, dy */
  float *logits;       /* [HEAD][padded V] */
  float *d_bias;       /* [buckets][H] of one layer */
  void *scratch;       /* of weight gradients and norms */
  size_t scratch_bytes;
};

/* ---- learn_memory.c ------------------------------------------------------------- */
attend_status lesson_room(attend_learner *l);
void lesson_free(attend_learner *l);

/* ---- learn_ends.c ------------------------------------------------------------------ */
void embed_forward(attend_learner *l, learn_stack *s);
void embed_backward(attend_learner *l, learn_stack *s, float *dx);
/* Loss, and the gradient of the hidden states. */
void head_study(attend_learner *l, learn_stack *s, attend_outcome *outcome);

/* ---- learn_copy.c -------------------------------------------------------------------- */
/* The keys of what was read. */
void copy_open(attend_learner *l);
/* As attend_cross_entropy_back on l->logits, where words are copied too; x is
 * what the head reads. */
void copy_study(attend_learner *l, const learn_places *p, const float *x,
                float scale, float *loss);
/* dx += what comes through queries and gates; the keys' gradient is summed. */
void copy_unlearn(attend_learner *l, const learn_places *p, const float *x,
                  float *dx);
/* And joins that of the encoder's output. */
void copy_close(attend_learner *l);

/* ---- learn_forward.c ----------------------------------------------------------------- */
attend_status stack_learn(attend_learner *l, learn_stack *s);
/* Layer i from trail->x on; out may be NULL. */
attend_status layer_learn(attend_learner *l, learn_stack *s, int i,
                          learn_trail *t, float *out);
void learn_norm_rows(attend_learner *l, const learn_norm *n, int rows,
                     int width, const float *x, float *y);
void learn_drop(attend_learner *l, const learn_stack *s, int place, float *x);

attend_view learn_heads(const float *data, int length, int ld, int width);
/* y [rows][ld of the mlp] from what `up` gave. */
void learn_activate(attend_learner *l, const learn_stack *s, const float *up,
                    float *y);

/* ---- learn_backward.c ------------------------------------------------------------------ */
/* dx: of the side's hidden states on the way in, of its embeddings out. */
attend_status stack_unlearn(attend_learner *l, learn_stack *s, float *dx);
void learn_norm_back(attend_learner *l, const learn_norm *n, int rows,
                     int width, const float *x, const float *dy, bool add,
                     float *dx);
/* dx (+)= dy W, and the gradients of W and b. */
void linear_unlearn(attend_learner *l, const learn_linear *w, int rows,
                    const float *x, int ldx, const float *dy, int lddy,
                    bool add, float *dx, int lddx);

#endif
