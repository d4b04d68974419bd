/* A family: how its config.json reads, and what its tensors are called.
 *
 * Place: model/ - one small file per family defines one of these; config.c
 * picks it by model_type, checkpoint.c expands its names into the parameter table.
 */
#ifndef MODEL_FAMILY_H
#define MODEL_FAMILY_H

#include "attend/json.h"
#include "attend/model.h"
#include "base/base.h"

/* Where a tensor goes in the one transformer: what holds it there, and what it is
 * called. From SELF_NORM to MLP_DOWN once a layer; norms of embeddings, the final one
 * and a projection once a stack; what follows, the head's, once. */
#define SLOT_LIST(X)                                                     \
  X(TOKENS, A_TABLE, "token table")                                      \
  X(POSITIONS, A_TABLE, "position table")                                \
  X(TYPES, A_TABLE, "segment table")                                     \
  X(EMBED_NORM, A_NORM, "norm of the embeddings")                        \
  X(FINAL_NORM, A_NORM, "final norm")                                    \
  X(RELATIVE, A_TABLE, "relative positions") /* T5's, [buckets, H] */    \
  X(SELF_NORM, A_NORM, "self-attention norm")                            \
  X(SELF_Q, A_LINEAR, "self-attention query")                            \
  X(SELF_K, A_LINEAR, "self-attention key")                              \
  X(SELF_V, A_LINEAR, "self-attention value")                            \
  X(SELF_QKV, A_LINEAR, "self-attention query, key, value") /* as one */ \
  X(SELF_O, A_LINEAR, "self-attention output")                           \
  X(Q_NORM, A_NORM, "query norm")                                        \
  X(K_NORM, A_NORM, "key norm")                                          \
  X(SELF_AFTER_NORM, A_NORM, "norm after self-attention")                \
  X(CROSS_NORM, A_NORM, "cross-attention norm")                          \
  X(CROSS_Q, A_LINEAR, "cross-attention query")                          \
  X(CROSS_K, A_LINEAR, "cross-attention key")                            \
  X(CROSS_V, A_LINEAR, "cross-attention value")                          \
  X(CROSS_O, A_LINEAR, "cross-attention output")                         \
  X(MLP_NORM, A_NORM, "mlp norm")                                        \
  X(MLP_GATE, A_LINEAR, "mlp gate")                                      \
  X(MLP_UP, A_LINEAR, "mlp up")                                          \
  X(MLP_AFTER_NORM, A_NORM, "norm after the mlp")                        \
  X(MLP_DOWN, A_LINEAR, "mlp down")                                      \
  X(PROJECTION, A_LINEAR, "embedding projection") /* to another width */ \
  X(TRANSFORM, A_LINEAR, "head's transform")                             \
  X(TRANSFORM_NORM, A_NORM, "norm of the head's transform")              \
  X(HEAD, A_LINEAR, "head")                                              \
  X(COPY_Q, A_LINEAR, "copy query") /* see model/copying.c */            \
  X(COPY_K, A_LINEAR, "copy key")                                        \
  X(COPY_GATE, A_LINEAR, "copy gate")

#define X(slot, kind, what) slot,
enum slot { SLOT_LIST(X) SLOTS };
#undef X

typedef enum { A_LINEAR, A_NORM, A_TABLE } field_kind;
typedef struct {
  field_kind kind;
  const char *what;
} slot_info;
extern const slot_info slot_infos[SLOTS];

enum {                 /* what a line says besides */
       BIASED = 1,     /* name.weight and name.bias */
       TURNED = 2,     /* stored [inputs, outputs] */
       MAY_LACK = 4,   /* the model does without it */
       OUTSIDE = 8,    /* beside the base model, not under its prefix */
       BARE_BIAS = 16, /* the name is a bias, whole as it stands */
       IF_GATED = 32,
       IF_PLAIN = 64,       /* not gated */
       IF_BIASES = 128,     /* config.attention_biases: then BIASED */
       IF_MLP_BIASES = 256, /* config.mlp_biases: then BIASED */
       ONE_LAYER = 512,     /* of layer 0, for the stack */
       FIXED = 1024         /* not learnt */
};

/* The sizes of a tensor by letter: V vocabulary, F width, E encoder's width, D
 * width of the tokens' rows, N dim of a head, P rows of positions, T types, Q heads x dim, K kv
 * heads x dim, W kv heads x dim_v, O heads x dim_v, A = Q + K + W, I inside the
 * mlp, B buckets, H heads, C width of a copy head's keys, 1 one. */
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
  attend_status status; /* the first failure: one check at the end is enough */
} config_reader;

typedef struct family {
  const char *types[4]; /* config.json's model_type; ends with NULL */
  const char *prefix;   /* before the base model's names in new checkpoints */
  void (*configure)(config_reader *r, attend_config *config);
  const line *lines; /* ends with a name of NULL */
} family;

extern const family family_gpt2, family_llama, family_bert, family_distilbert,
    family_roberta, family_bart, family_t5;

const family *family_of(const char *type);

/* attend_config_read as family *f; *f NULL: as the one that model_type names, which
 * it then is. */
attend_status config_read_as(attend_context *ctx, const char *path,
                             const family **f, attend_config *config);

/* ---- reading a configuration (config.c) --------------------------------------- */

/* Unless something failed before. */
#define REFUSE(r, ...) \
  ((r)->status ? (r)->status : ((r)->status = fail((r)->ctx, __VA_ARGS__)))

/* A member of another type is a failure; one that is absent or null has its
 * usual value. */
int64_t read_integer(config_reader *r, const char *name, int64_t low,
                     int64_t high, int64_t otherwise);
/* A size in [1, 2^28]. Missing: `otherwise`, or a failure if that is negative. */
int read_size(config_reader *r, const char *name, int otherwise);
/* What is added to a norm's variance. */
float read_epsilon(config_reader *r, const char *name, double otherwise);
/* Members of `object`, which is r->json or one of its members. */
double read_real_of(config_reader *r, const attend_json *object,
                    const char *name, double low, double high,
                    double otherwise);
const char *read_text_of(config_reader *r, const attend_json *object,
                         const char *name, const char *otherwise);
/* A member that is an array or an object; NULL if there is none. */
const attend_json *read_tree(config_reader *r, const char *name,
                             attend_json_kind kind);
/* attend_copy_width: of a copy head; 0: there is none. */
int read_copy(config_reader *r);
bool read_switch(config_reader *r, const char *name, bool otherwise);
attend_activation read_activation(config_reader *r, const char *name,
                                  const char *otherwise);
attend_activation activation_called(config_reader *r, const char *text);
void refuse_switch(config_reader *r, const char *name, const char *why);
/* heads must divide the width; kv_heads the heads. */
void complete_stack(config_reader *r, attend_stack *s);

#endif
