/* A family: how its config.json reads, and what its tensors are called.
 *
 * Place: model/ - one small file per family defines one of these; config.c
 * picks it by model_type, parameters.c expands its names into the parameter table.
 */
#ifndef MODEL_FAMILY_H
#define MODEL_FAMILY_H

#include "attend/json.h"
#include "attend/model.h"
#include "base/base.h"

/* Where a tensor goes in the one transformer. */
enum slot {
  TOKENS, /* tables, [rows, F] */
  POSITIONS,
  TYPES,
  EMBED_NORM, /* once a stack */
  FINAL_NORM,
  RELATIVE,  /* T5's buckets, [buckets, H] */
  SELF_NORM, /* from here on once a layer */
  SELF_Q,
  SELF_K,
  SELF_V,
  SELF_QKV, /* the three stored as one */
  SELF_O,
  Q_NORM, /* of queries and keys */
  K_NORM,
  SELF_AFTER_NORM, /* of what attention adds */
  CROSS_NORM,
  CROSS_Q,
  CROSS_K,
  CROSS_V,
  CROSS_O,
  MLP_NORM,
  MLP_GATE,
  MLP_UP,
  MLP_AFTER_NORM,
  MLP_DOWN,   /* the last of a layer */
  PROJECTION, /* tokens' rows to a side of another width, once a stack */
  TRANSFORM,  /* the head's, once */
  TRANSFORM_NORM,
  HEAD,
  COPY_Q, /* see model/copying.c, once */
  COPY_K,
  COPY_GATE,
  SLOTS
};

static inline bool slot_is_norm(enum slot s) {
  return s == EMBED_NORM || s == FINAL_NORM || s == SELF_NORM ||
         s == SELF_AFTER_NORM || s == Q_NORM || s == K_NORM ||
         s == CROSS_NORM || s == MLP_NORM || s == MLP_AFTER_NORM ||
         s == TRANSFORM_NORM;
}

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

typedef struct family {
  const char *types[4]; /* config.json's model_type; ends with NULL */
  const char *prefix;   /* before the base model's names in new checkpoints */
  attend_status (*configure)(attend_context *ctx, const attend_json *json,
                             const char *path, attend_config *config);
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

typedef struct {
  attend_context *ctx;
  const attend_json *json;
  const char *path;
  attend_status status; /* the first failure: one check at the end is enough */
} config_reader;

/* A member of another type is a failure; one that is absent or null has its
 * usual value.
 *
 * A size in [1, 2^28]. Missing: `otherwise`, or a failure if that is negative. */
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
