/* The one transformer: its weights, a pass over one side of it, and a session.
 *
 * weights.c loads; transformer.c computes embeddings, layers and head, and their gradients;
 * session.c and train/ own memory and call it.
 *
 * Tensors are device memory: model code passes their addresses to ops and does not
 * touch them. rows = count x n tokens; ld is a row width padded to whole lanes.
 */
#ifndef MODEL_TRANSFORMER_H
#define MODEL_TRANSFORMER_H

#include "attend/hooks.h"
#include "attend/attention.h"
#include "device/device.h"
#include "model/checkpoint.h"

/* ---- weights: gradients and what they need are training's, else NULL ------------- */

typedef struct {
  attend_linear *forward, *backward; /* W and its transpose, packed; forward NULL: there is none */
  float *w, *b, *dw, *db;            /* [outputs][inputs], [outputs] */
  int outputs, inputs;
} linear_weights;

typedef struct {
  const float *w, *b; /* NULL: 1, 0 */
  float *dw, *db;
} norm_weights;

typedef struct {
  attend_table t; /* data NULL: there is none */
  float *dw;
} table_weights;

typedef struct {
  norm_weights self_norm, self_after, q_norm, k_norm, cross_norm, mlp_norm, mlp_after;
  linear_weights qkv, out;                     /* self-attention; its shape is the plan's */
  linear_weights cross_q, cross_kv, cross_out; /* none without an encoder */
  linear_weights up, down;                     /* up: [gate, up] if gated */
} layer_weights;

typedef struct {
  const attend_stack *shape;
  bool encoder;
  table_weights positions, types;
  table_weights relative;     /* [buckets, H] */
  const float *relative_host; /* host copy of the bias */
  linear_weights projection;  /* projection of embeddings to the side's width */
  norm_weights embed_norm, final_norm;
  layer_weights *layers; /* [groups], NULL: there is no such side */
  int groups;            /* layers with weights of their own; others share them */
} stack;

/* Rotations of queries and keys. */
typedef struct {
  double *frequency; /* [rotary / 2] */
  double stretch;
} rotation;

/* Layers see all keys, or those in a window: a plan and a rotation for each. */
enum { FULL, SLIDING, LAYER_KINDS };

struct attend_model {
  attend_context *ctx;
  attend_checkpoint *files;
  attend_config config;
  attend_form form; /* the option, or the configuration's */
  attend_form forms[ATTEND_ROLES];
  bool borrowed;   /* the weights are another model's */
  bool owns_files; /* attend_open: freeing the model closes the checkpoint */
  attend_weights weights;
  attend_dtype activations; /* of its sessions */
  table_weights tokens;
  stack encoder, decoder;
  linear_weights transform, head;
  norm_weights transform_norm;
  linear_weights copy_q, copy_k, copy_gate; /* empty: no pointer-generator head */
  rotation rope[LAYER_KINDS];
  blocks kept; /* freed with the model: small device blocks, the layers */
  size_t bytes;
  double flops;
};

static inline const layer_weights *layer_of(const stack *s, int i) {
  return &s->layers[(int64_t)i * s->groups / s->shape->layers];
}
static inline int layer_kind(const attend_config *c, const stack *s, int i) {
  bool slides = c->window && !s->encoder && (!c->some_slide || c->slides[i / 8] >> i % 8 & 1);
  return slides ? SLIDING : FULL;
}

/* Members that hold weights: family.h has the list. visit gets the member (a linear,
 * a norm or a table) and its parts. */
enum { MOST_PARTS = 4 };
typedef struct {
  field_kind kind;
  size_t at;
  enum slot slot[MOST_PARTS]; /* adjacent; those that the family has */
  int slots;
} field;
typedef attend_status (*field_visit)(attend_model *m, const field *f, attend_parts of, int layer,
                                     void *place, void *user);
attend_status model_each(attend_model *m, field_visit visit, void *user);
/* Creates sides, layers and rotations, before members are visited; frees them. */
attend_status model_open(attend_model *m) FOR_LAB(model_open);
void model_close(attend_model *m) FOR_LAB(model_close);
/* attend_model_attention with device tables. */
int model_attention(const attend_model *m, attend_role role, int layer, attend_desc *desc);
/* Row width in floats: whole lanes. */
static inline int padded(int n) { return (int)round_up((size_t)n, 16); }
/* Packs w and b, of the host or the device; backward: its transpose too. */
attend_status linear_pack(attend_model *m, linear_weights *x, bool backward) FOR_LAB(linear_pack);
/* Repacks every linear layer whose w is kept, after an optimizer step. */
attend_status model_repack(attend_model *m) FOR_LAB(model_repack);
/* A device block that lives as long as the model. */
attend_status model_keep(attend_model *m, size_t bytes, void *block /* T ** */) FOR_LAB(model_keep);

/* ---- a pass over one side -------------------------------------------------------- */

/* Rows of f32 or bf16. */
typedef struct {
  void *at; /* [rows][ld] */
  int ld;
  attend_dtype type;
} matrix;

/* Activations of a layer. In inference layers share these buffers, and some members are the same
 * buffer: then a step works in place. Training keeps a set per layer for backward. The residual
 * stream is f32; what is void * has the pass's type. */
typedef struct {
  float *x;          /* [rows][ldx] the residual stream, input */
  void *qkv;         /* [rows][..] queries, keys, values */
  void *raw;         /* of q and k before their norms, or NULL: not kept */
  void *attended;    /* [rows][H M] output of the heads */
  void *heads;       /* the same after hooks */
  float *lse;        /* [B,H,T] or NULL */
  float *self_added; /* [rows][ldx] branch output before its norm */
  float *self;       /* residual sum */
  float *self_out;   /* after the sum's norm */
  void *cross_q, *cross_kv, *cross_attended, *cross_heads;
  float *cross_lse, *cross_added, *cross, *cross_out;
  void *up, *act; /* [rows][mlp] before and after the activation */
  float *mlp_added, *mlp;
  float *out; /* output: the next layer's x */
} activations;

/* Buffers of gradients; void * as above. */
typedef struct {
  float *residual_middle; /* [rows][ldx] */
  void *dh;               /* [rows][ldx] */
  void *d_act;            /* [rows][widest of q, heads' outputs, mlp] */
  void *d_wide;           /* [rows][widest of qkv, gate and up] */
  float *d_bias;          /* [buckets][H] of one layer */
  void *scratch;          /* of weight gradients and norms */
} back_work;

/* Hooks of a session or a training run: hooks.c. */
typedef struct {
  attend_hook *list;
  int *layers; /* of all of them */
  int n;
  unsigned points, edits, gradients; /* points with hooks; with edits; with gradients */
  float *stage;                      /* host copy of device tensors */
  size_t stage_bytes;
} hooks;

typedef struct {
  attend_context *ctx;
  const attend_model *model;
  const stack *side;
  attend_dtype type; /* of activations: f32 or bf16 */
  int count, n, rows;
  const int32_t *lengths; /* [count] of n rows that are real, of the host */
  hooks *hooks;           /* NULL: there are none */
  bool again;             /* recomputation: hooks have run */
  int32_t *position;      /* [rows] */
  attend_plan *plan[LAYER_KINDS], *cross_plan;
  attend_state **self,
      **cross; /* [layers] KV caches or linear states; NULL: keys of this pass only */
  void *h;     /* [rows][ldx] input of a branch, of the pass's type */
  /* training */
  const float *encoded; /* cross-attention without states: the encoder's output */
  int encoded_n;
  const int32_t *encoded_lengths;
  float *d_encoded;
  attend_random dropout; /* stream: of the pass */
  float drop;            /* 0: none */
  bool direct;           /* gradients of the residual stream alone (attend_batch.direct) */
  back_work backward;
  struct attend_session *session; /* owner, or NULL */
} pass;

static inline attend_role self_role(const pass *p) {
  return p->side->encoder ? ATTEND_ENCODER_SELF : ATTEND_DECODER_SELF;
}
/* Rows of the residual stream, or of its width; rows of the pass's type. */
static inline matrix floats(const float *x, int width) {
  return (matrix){(void *)x, padded(width), ATTEND_F32};
}
static inline matrix typed(const pass *p, const void *x, int ld) {
  return (matrix){(void *)x, ld, p->type};
}
/* Column i of rows of the pass's type. */
static inline void *column(const pass *p, const void *x, size_t i) {
  return x ? (char *)x + i * attend_dtype_size(p->type) : NULL;
}
/* Heads of `width` side by side in rows of ld elements, n rows a sequence. */
static inline attend_view heads_at(const void *data, int n, int ld, int width) {
  return (attend_view){(void *)data, {(ptrdiff_t)n * ld, width, ld, 1}};
}

/* How one layer's attention is computed in this pass. */
typedef struct {
  attend_role role;
  attend_plan *plan;
  attend_state *state; /* NULL: attend_forward */
  int layer;
} layer_attention;

typedef struct {
  attend_view q, k, v, o;
  attend_view heads; /* o after hooks, or o itself */
} attention_tensors;

/* a->out from a->x. */
attend_status layer_forward(const pass *p, int i, const activations *a) FOR_LAB(layer_forward);
/* dx: gradient of a->out on entry, of a->x on return. */
attend_status layer_backward(const pass *p, int i, const activations *a, float *dx)
    FOR_LAB(layer_backward);
/* Queries, keys and values of layer i, from a->x. */
void layer_project(const pass *p, int i, const activations *a);
void norm_rows(const pass *p, const norm_weights *w, int rows, int width, matrix x, matrix y);
void norm_rows_backward(const pass *p, const norm_weights *w, int rows, int width, matrix x,
                        matrix dy, bool add, matrix dx);
void multiply_rows(const pass *p, const linear_weights *w, int rows, matrix x, matrix y);
/* dx (+)= dy W, and the gradients of W and b. */
void multiply_backward(const pass *p, const linear_weights *w, int rows, matrix x, matrix dy,
                       bool add, matrix dx);
/* y = x, in y's type. */
void copy_rows_to(const pass *p, int rows, int width, matrix x, matrix y);

/* Embeddings. sum: before the norm, as wide as the tables; may be x if neither norm nor
 * projection follows. types may be NULL: 0. */
void embed_forward(const pass *p, const int32_t *ids, const int32_t *types, float *sum, float *x)
    FOR_LAB(embed_forward);
void embed_backward(const pass *p, const int32_t *ids, const int32_t *types, const float *sum,
                    float *dx) FOR_LAB(embed_backward);
int embed_width(const attend_model *m, const stack *s);
bool embeds_apart(const attend_model *m, const stack *s); /* sum is not x */

/* Rows that the head reads, each [rows][ld] of the pass's type, to logits; the buffers may be the
 * same in inference. */
typedef struct {
  int rows, ld;
  void *x, *dense, *shaped, *normed;
  matrix logits; /* [rows][V; padded V for gradients] */
  void *capped;  /* a copy that a cap's gradient needs, or NULL */
} head_rows;
/* Width of a row of the side, or of the transform. */
int head_ld(const attend_model *m, const stack *s);
/* The input of the last product, and of copying. */
matrix head_forward(const pass *p, const head_rows *h) FOR_LAB(head_forward);
/* From the gradient of logits in h->logits to d [rows][ld], that of the last
 * product's input; then through the transform to that of h->x. */
void head_backward(const pass *p, const head_rows *h, matrix read, matrix d) FOR_LAB(head_backward);
void head_transform_backward(const pass *p, const head_rows *h, matrix d);

/* ---- a session ------------------------------------------------------------------- */

/* Pointer-generator state: the source words that sequences may copy, with keys.
 * Sequence b reads text of[b]; a text of length 0 is none. */
typedef struct {
  float *keys;          /* [batch][n][padded P], of the device */
  int32_t *ids, *first; /* [batch][n]; where each id comes first in its text */
  int32_t *device_ids, *device_first;
  bool by_words;               /* one text, each distinct word once */
  float *often;                /* [n] then: counts */
  float *device_often;         /* log of the count, on the device */
  size_t capacity;             /* tokens that these hold */
  int n, span;                 /* span: columns of weight */
  int32_t *length, *of, *from; /* [batch]; from: work of reordering */
  int32_t *seen;               /* [V] work */
  int32_t *texts;              /* [head_limit] text that each row copies from */
  float *q, *gate;             /* [head_limit][padded P], [head_limit][16] */
  float *weight;               /* [head_limit][n] */
  blocks memory;               /* of arrays by token */
  float *before;               /* [padded P] twice: scratch of a reading */
  int32_t *fold_to;            /* of a reading's tokens: their words, */
  float *fold_often;           /* and their ordinals among the word's occurrences */
} copying;

struct attend_session {
  attend_context own, *ctx; /* ctx: &own */
  attend_model *model;
  int batch, limit; /* limit: rows of one sequence at once in the decoder */
  hooks hooks;
  int (*stop)(void *user);
  void *stop_user;
  attend_plan *decoder_plan[LAYER_KINDS], *cross_plan;
  attend_state **self, **cross; /* [layers] of the decoder */
  attend_plan *cache_plan[2];   /* KV caches beside linear states of self, of cross, */
  attend_state **caches[2];     /* for hooks; [layers] or NULL */
  attend_plan *encoder_plan;
  int encoder_batch, encoder_rows; /* lengths that the encoder's plan was made for */
  attend_state **sums;             /* [layers] of a reading's encoder, else NULL */
  blocks memory;                   /* as long as the session */
  /* of the current call */
  pass p;
  blocks buffers;       /* those below, */
  size_t capacity;      /* rows that the buffers below hold */
  float *x, *y;         /* [capacity][ldx]: x output of the layers, y of the next one */
  activations at;       /* the others */
  float *lse;           /* of hooked attention */
  int32_t *ids, *types; /* [capacity] of the device */
  int32_t *position;    /* [capacity] of the host */
  int32_t *lengths;     /* [batch] */
  int32_t *piece;       /* [batch] of them, in a chunk of the encoder's rows */
  int64_t *before;      /* [batch] cached tokens before the call */
  float *last;          /* [batch][padded F]: hidden state after each last token */
  int64_t *last_at;     /* [batch] cached tokens at that time */
  int head_limit;       /* head rows computed at once */
  float *head_rows;     /* [head_limit][padded F] twice */
  int32_t *head_of;     /* [head_limit] the sequence of each, or -1 */
  int32_t *head_row;    /* [head_limit] of the device: which rows it reads */
  float *device_logits; /* [head_limit][V], or NULL: host memory */
  float *hidden;        /* host copy for attend_session_hidden */
  int64_t *held;        /* [batch] cached tokens before a call that is split */
  void *recording;      /* the device's, of the pass of single tokens */
  copying copy;
};

/* ctx: that gets the messages, the model's or a child of it. */
attend_status session_create(attend_context *ctx, attend_model *model,
                             const attend_session_options *options, attend_session **session);
/* One state of the plan for each layer; NULL if the plan is NULL. */
attend_status states_make(attend_context *ctx, attend_plan *plan, int layers, const char *what,
                          attend_state ***states);
void states_free(const attend_context *ctx, int layers, attend_state **states);
attend_status check_positions(attend_context *ctx, const attend_config *c, int64_t positions);
attend_status session_reserve(attend_session *r, size_t rows);
void session_begin(attend_session *r, const stack *side, int count, int n);
/* All layers and the final norm, from r->x to r->x. */
attend_status session_stack(attend_session *r);
/* The first `layers` of them. */
attend_status session_layers(attend_session *r, int layers);
/* ids [count][apart], the first n of each. */
void session_embed(attend_session *r, const int32_t *ids, int apart, const int32_t *types);
/* Keys and values of cross-attention, from the encoder's output in x. */
attend_status cross_fill(attend_session *r);
/* ---- copy_head.c: what a head that copies needs, where the model has one --------- */
static inline size_t copy_width(const attend_session *r) { /* of a key's row */
  return (size_t)padded(r->model->config.copy);
}
attend_status copy_make(attend_session *r);
/* Keys of what was read, from the encoder's output in x; ids [count][n]. */
attend_status copy_fill(attend_session *r, const int32_t *ids);
/* Logits [rows][ldl] of rows x that the head read, of head_of, to log p. */
void copy_rows(attend_session *r, int rows, matrix x, float *logits, int ldl);
void copy_reorder(attend_session *r, const int32_t *parents);
void copy_reset(attend_session *r);
/* A reading's next tokens, from x; copying a finished reading to another session; and its file. */
attend_status copy_read(attend_session *r, const int32_t *ids);
attend_status copy_recall(attend_session *r, const attend_session *from);
attend_status copy_save(attend_session *r, const char *path);
attend_status copy_load(attend_session *r, const char *path, int64_t rows);

/* ---- hooks in a pass: hooks.c ---------------------------------------------------- */

void hooks_free(const attend_context *ctx, hooks *h);
attend_status hooks_set(attend_context *ctx, hooks *h, int n, const attend_hook *list);
/* Whether some hook edits at one of these points. */
bool hooks_edit(const hooks *h, unsigned points);
bool hooks_have_gradients(const hooks *h, unsigned points);

/* Calls the hooks of this point with the tensor, which is device memory, or host
 * memory with HOOK_ON_HOST. */
enum {
  HOOK_READS = 1,
  HOOK_EDITS = 2,
  HOOK_FORWARD = HOOK_READS | HOOK_EDITS,
  HOOK_GRADIENTS = 4,
  HOOK_ON_HOST = 8,
  HOOK_TYPED = 16 /* of the pass's type; callers see f32 */
};
attend_status hook_at(const pass *p, const attend_hooked *at, unsigned which);
/* The residual stream, a branch's output, or a gradient: [rows][ldx]. */
attend_status hook_stream(const pass *p, attend_point point, int layer, void *x, unsigned which);
/* Around a layer's attention, where there are hooks. */
attend_status hook_before_attention(const pass *p, const layer_attention *m,
                                    const attention_tensors *t, unsigned which);
attend_status hook_after_attention(const pass *p, const layer_attention *m,
                                   const attention_tensors *t, const float *lse);
/* From the gradient g->o of t->heads to those of q, k and v. */
attend_status hook_attention_backward(const pass *p, const layer_attention *m,
                                      const attention_tensors *t, const attention_tensors *g,
                                      const float *lse, float *d_bias);
/* n keys and values, lengths [batch] of them real. */
attend_status hook_keys(const pass *p, const layer_attention *m, int n, const int32_t *lengths,
                        attend_view k, attend_view v, unsigned which);
/* n keys and values were appended to a state, lengths [batch] of them real. */
attend_status hook_keep(const pass *p, const layer_attention *m, int n, const int32_t *lengths,
                        attend_view k, attend_view v);
attend_status hook_stop(attend_session *r); /* fails if the session's stop callback says so */

/* KV caches beside linear states. */
attend_status caches_reorder(attend_session *r, const int32_t *parents);
void caches_truncate(attend_session *r, int b, int64_t length);
void caches_free(attend_session *r);

#endif
