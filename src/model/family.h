/* A family: how its config.json is read, and its tensor names.
 *
 * One small file per family defines a `family`; config.c picks it by model_type,
 * checkpoint.c expands its lines into the parameter table. README.md says how to add
 * one.
 */
#ifndef MODEL_FAMILY_H
#define MODEL_FAMILY_H

#include "attend/json.h"
#include "attend/model.h"
#include "base/base.h"
#include "model/config.h"

/* Slots: where a tensor goes in the one transformer, that is, which member of the model, of a side
 * or of a layer holds it (model/transformer.h), and its description. Training lays parameters out
 * in this order. Slots of one member are adjacent; a family has some of them: query, key and value
 * fused, or three tensors. A tied head is the token table and has no tensor of its own. */
#define SLOT_LIST(X)                                                              \
  X(TOKENS, attend_model, tokens, "token table")                                  \
  X(PROJECTION, stack, projection, "embedding projection")                        \
  X(POSITIONS, stack, positions, "position table")                                \
  X(TYPES, stack, types, "segment table")                                         \
  X(EMBED_NORM, stack, embed_norm, "norm of the embeddings")                      \
  X(RELATIVE, stack, relative, "relative positions")                              \
  X(SELF_NORM, layer_weights, self_norm, "self-attention norm")                   \
  X(SELF_QKV, layer_weights, qkv, "self-attention query, key, value")             \
  X(SELF_Q, layer_weights, qkv, "self-attention query")                           \
  X(SELF_K, layer_weights, qkv, "self-attention key")                             \
  X(SELF_V, layer_weights, qkv, "self-attention value")                           \
  X(Q_NORM, layer_weights, q_norm, "query norm")                                  \
  X(K_NORM, layer_weights, k_norm, "key norm")                                    \
  X(SELF_O, layer_weights, out, "self-attention output")                          \
  X(SELF_AFTER_NORM, layer_weights, self_after, "norm after self-attention")      \
  X(CROSS_NORM, layer_weights, cross_norm, "cross-attention norm")                \
  X(CROSS_Q, layer_weights, cross_q, "cross-attention query")                     \
  X(CROSS_K, layer_weights, cross_kv, "cross-attention key")                      \
  X(CROSS_V, layer_weights, cross_kv, "cross-attention value")                    \
  X(CROSS_O, layer_weights, cross_out, "cross-attention output")                  \
  X(MLP_NORM, layer_weights, mlp_norm, "mlp norm")                                \
  X(MLP_GATE, layer_weights, up, "mlp gate")                                      \
  X(MLP_UP, layer_weights, up, "mlp up")                                          \
  X(MLP_DOWN, layer_weights, down, "mlp down")                                    \
  X(MLP_AFTER_NORM, layer_weights, mlp_after, "norm after the mlp")               \
  X(FINAL_NORM, stack, final_norm, "final norm")                                  \
  X(TRANSFORM, attend_model, transform, "head's transform")                       \
  X(TRANSFORM_NORM, attend_model, transform_norm, "norm of the head's transform") \
  X(HEAD, attend_model, head, "head")                                             \
  X(COPY_Q, attend_model, copy_q, "copy query")                                   \
  X(COPY_K, attend_model, copy_k, "copy key")                                     \
  X(COPY_GATE, attend_model, copy_gate, "copy gate")

#define X(slot, of, member, what) slot,
enum slot { SLOT_LIST(X) SLOTS };
#undef X

typedef enum { A_LINEAR, A_NORM, A_TABLE } field_kind;
typedef struct {
  field_kind kind;
  size_t at; /* in what has it */
  const char *what;
} slot_info;
extern const slot_info slot_infos[SLOTS]; /* weights.c */

enum {                 /* flags of a line */
       BIASED = 1,     /* name.weight and name.bias */
       TRANSPOSED = 2, /* stored [inputs, outputs] */
       MAY_LACK = 4,   /* optional */
       OUTSIDE = 8,    /* outside the base model's prefix */
       BARE_BIAS = 16, /* the whole name is that of a bias */
       IF_GATED = 32,
       IF_PLAIN = 64,       /* not gated */
       IF_BIASES = 128,     /* config.attention_biases: then BIASED */
       IF_MLP_BIASES = 256, /* config.mlp_biases: then BIASED */
       ONE_LAYER = 512,     /* of layer 0, shared by the stack */
       FIXED = 1024         /* not trained */
};

/* Sizes by letter: V vocabulary, F width, E encoder's width, D width of token rows, N dim of a
 * head, P rows of positions, T types, Q heads x dim, K kv heads x dim, W kv heads x dim_v, O heads
 * x dim_v, A = Q + K + W, I inner mlp, B buckets, H heads, C width of copy keys, 1 one. */
typedef struct {
  enum slot slot;
  attend_parts of;  /* which stack; 0: neither */
  const char *name; /* %d is the layer; a|b: either, the first that is there */
  char sizes[3];    /* outputs, inputs; one letter: a vector */
  unsigned flags;
} line;

/* Reading a config.json. */
typedef struct {
  attend_context *ctx;
  const attend_json *json;
  const char *path;
  attend_status status; /* the first failure: callers check once at the end */
} config_reader;

typedef struct family {
  const char *types[4]; /* config.json's model_type; ends with NULL */
  const char *prefix;   /* prefix of the base model in new checkpoints */
  void (*configure)(config_reader *r, attend_config *config);
  const line *lines; /* ends with a name of NULL */
} family;

extern const family family_gpt2, family_llama, family_bert, family_distilbert, family_roberta,
    family_bart, family_t5;

/* Roles of attention, of attend_in, that parts have. */
unsigned roles_of(attend_parts parts);

/* attend_config_read as family *f; if *f is NULL, it is set to the one of model_type. */
attend_status config_read_as(attend_context *ctx, const char *path, const family **f,
                             attend_config *config);

/* ---- reading a configuration (config.c) ------------------------------------------ */

/* Unless something failed before. */
#define REFUSE(r, ...) ((r)->status ? (r)->status : ((r)->status = fail((r)->ctx, __VA_ARGS__)))

/* A member of another type is a failure; an absent or null one has its default. */
int64_t read_integer(config_reader *r, const char *name, int64_t low, int64_t high,
                     int64_t otherwise);
/* A size in [1, 2^28]. Missing: `otherwise`, or a failure if that is negative. */
int read_size(config_reader *r, const char *name, int otherwise);
/* What is added to a norm's variance. */
float read_epsilon(config_reader *r, const char *name, double otherwise);
/* Members of `object`, which is r->json or one of its members. */
double read_real_of(config_reader *r, const attend_json *object, const char *name, double low,
                    double high, double otherwise);
const char *read_text_of(config_reader *r, const attend_json *object, const char *name,
                         const char *otherwise);
/* A member that is an array or an object; NULL if there is none. */
const attend_json *read_tree(config_reader *r, const char *name, attend_json_kind kind);
/* attend_copy_width: of a copy head; 0: there is none. */
int read_copy(config_reader *r);
bool read_switch(config_reader *r, const char *name, bool otherwise);
attend_activation read_activation(config_reader *r, const char *name, const char *otherwise);
attend_activation activation_called(config_reader *r, const char *text);
void refuse_switch(config_reader *r, const char *name, const char *why);
/* heads must divide the width; kv_heads the heads. */
void complete_stack(config_reader *r, attend_stack *s);
/* Rotary positions of heads of width dim: rope_theta, rope_parameters or rope_scaling, in the
 * linear, llama3 and yarn types; c->positions is read before. */
void read_rope(config_reader *r, attend_config *c, int dim);

#endif
