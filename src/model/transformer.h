/* The one transformer: weights as they are computed with, and a run over them.
 *
 * Place: model/ - model.c packs the weights, run.c owns the memory of a run and is
 * the way in, block.c computes a layer, ends.c the embeddings and the head.
 */
#ifndef MODEL_TRANSFORMER_H
#define MODEL_TRANSFORMER_H

#include "attend/observe.h"
#include "attend/state.h"
#include "model/checkpoint.h"
#include "model/role.h"

typedef struct {
  const float *weight, *bias; /* NULL: 1, 0 */
} norm;

typedef struct {
  norm self_norm, cross_norm, mlp_norm;
  attend_linear *qkv, *out;                      /* self-attention */
  attend_linear *cross_q, *cross_kv, *cross_out; /* NULL: no encoder */
  attend_linear *up, *down;                      /* up: [gate, up] if gated */
} layer;

typedef struct {
  const attend_stack *shape;
  attend_table positions, types; /* data NULL: none */
  norm embed_norm, final_norm;
  float *relative;           /* [buckets, H] or NULL */
  attend_linear *projection; /* of the tokens' rows; NULL: they are as wide */
  layer *layers; /* [shape->layers] or NULL: there is no such side */
} stack;

struct attend_model {
  attend_context *ctx;
  attend_checkpoint *files;
  attend_config config;
  attend_form form; /* that was asked for, or learnt with */
  attend_form forms[ATTEND_ROLES];
  bool borrowed; /* the weights are another model's */
  attend_weights weights;
  attend_table tokens;
  stack encoder, decoder;
  attend_linear *transform, *head;            /* NULL: none */
  attend_linear *copy_q, *copy_k, *copy_gate; /* NULL: nothing is copied */
  norm transform_norm;
  double *frequency, stretch; /* rotary */
  void **kept;                /* small blocks, freed with the model */
  size_t n_kept, bytes;
  double flops;
};

/* Keys of one layer that a linear state has only sums of, kept while its
 * attention is watched: [batch][room][G * D]. */
typedef struct {
  float *keys;
  int64_t *length; /* [batch] */
  int64_t room;
} kept_keys;

/* What sequences may copy: the words that encoders read, with keys. Sequence b
 * reads text of[b]; a text of length 0 is none. */
typedef struct {
  float *keys;          /* [batch][n][padded P] */
  int32_t *ids, *first; /* [batch][n]; where each id comes first in its text */
  bool by_words; /* one text, whose words are there once: copy_reading.c */
  float *often; /* [n] then, how often; its logarithm where it is copied from */
  size_t room;  /* tokens that these hold */
  int n, span;  /* span: that weight has room for */
  int32_t *length, *of, *from; /* [batch]; from: work of reordering */
  int32_t *seen;               /* [V] work */
  float *q, *gate;             /* [head_room][padded P], [head_room][16] */
  float *weight;               /* [head_room][n] */
  float *before; /* [padded P] twice: of a reading's last token, and work */
} copying;

struct attend_session {
  attend_context *ctx;
  attend_model *model;
  int batch, rows;
  attend_watch watch;
  attend_plan *self_plan, *cross_plan; /* of the decoder */
  attend_state **self, **cross;        /* [layers] */
  kept_keys *kept[2];                  /* [layers] of self, of cross, or NULL */
  attend_plan *encoder_plan;
  int encoder_batch, encoder_rows; /* that it was made for */
  attend_state **sums; /* [layers] of a reading's encoder, else NULL */
  /* of the current call */
  size_t room; /* rows that the buffers below hold */
  float *x, *h, *qkv, *mix, *inside;
  int32_t *position; /* [room] */
  int32_t *lengths;  /* [batch] */
  int64_t *before;   /* [batch] tokens held before the call */
  float *last;      /* [batch][padded F]: hidden, after each one's last token */
  int64_t *last_at; /* [batch] tokens that were held then */
  int head_room;    /* rows that the head takes at once */
  float *head_rows; /* [head_room][padded F] twice */
  int32_t *head_of; /* [head_room] the sequence of each, or -1 */
  float *wide;      /* [head_room][padded V], where V is not whole lanes */
  int64_t *held;    /* [batch] tokens before a call that may be cut */
  int count, n;     /* of the last call; n 0: none, or it was cut */
  const stack *side; /* that it ran */
  copying copy;
};

/* How a layer's attention is computed in this call. */
typedef struct {
  attend_role role;
  attend_plan *plan;
  attend_state *state; /* NULL: attend_forward */
  int layer;
} mixing;

/* x <- the layer's output; rows = count * n of them. */
attend_status block_forward(attend_session *r, const stack *s, int layer);
/* The tokens' rows, with positions and types, into x. types may be NULL. */
void embed_rows(attend_session *r, const stack *s, const int32_t *ids,
                const int32_t *types);
/* All layers and the final norm. */
attend_status stack_forward(attend_session *r, const stack *s);
void norm_rows(attend_session *r, const norm *w, int width, const float *x,
               float *y);
/* Keys and values of cross-attention, from the encoder's output in x. */
attend_status cross_fill(attend_session *r, int count, int n);
/* A reading: keys and values of the encoder's layer, from x, into its sums. */
attend_status sums_fill(attend_session *r, int layer);
attend_status run_room(attend_session *r, size_t rows);
/* ---- copying.c: what a head that copies needs, where the model has one ---- */
static inline size_t copy_width(const attend_session *r) { /* of a key's row */
  return (size_t)padded(r->model->config.copy);
}
attend_status copy_make(attend_session *r);
void copy_free(attend_session *r);
/* Keys of what was read, from the encoder's output in x; ids [count][n]. */
attend_status copy_fill(attend_session *r, const int32_t *ids);
/* Logits of rows x that the head read, of the sequences head_of, to log p. */
void copy_rows(attend_session *r, int rows, const float *x, int ld,
               float *logits);
void copy_reorder(attend_session *r, const int32_t *parents);
void copy_reset(attend_session *r);
/* Memory for so many tokens of all texts, n of one; what was there is lost if it
 * must grow. */
attend_status copy_room(attend_session *r, size_t tokens, int n);
/* copy_reading.c: a reading's next tokens, from x; the whole text, for another
 * run; and files of it, whose text had so many tokens. */
attend_status copy_read(attend_session *r, const int32_t *ids);
attend_status copy_recall(attend_session *r, const attend_session *from);
attend_status copy_save(const attend_session *r, const char *path);
attend_status copy_load(attend_session *r, const char *path, int64_t rows);
size_t copy_bytes(const attend_session *r);      /* of keys */
size_t copy_work_bytes(const attend_session *r); /* of the rest */
/* Shows the watcher what a layer's attention did. */
attend_status watch_mixing(attend_session *r, const mixing *m, attend_view q,
                           attend_view k, attend_view v, attend_view o,
                           const float *lse);
/* n keys were appended to a state, lengths [batch] of them real. */
attend_status watch_keep(attend_session *r, const mixing *m, int n,
                         const int32_t *lengths, attend_view k);
/* Keys and values of cross-attention, n of them, lengths [batch] real. */
void watch_cross(attend_session *r, const mixing *m, int n,
                 const int32_t *lengths, attend_view k, attend_view v);
attend_status watch_stop(const attend_session *r); /* fails if it is time to */
attend_status watch_reorder(attend_session *r, const int32_t *parents);
void watch_truncate(attend_session *r, int b, int64_t length);
void watch_free(attend_session *r);
void run_see(const attend_session *r, attend_see what, attend_role role,
             int layer, attend_view view, const int shape[4]);

#endif
