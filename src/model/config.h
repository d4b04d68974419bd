/* The settings of the one forward pass, as a family reads them from config.json. */
#ifndef MODEL_CONFIG_H
#define MODEL_CONFIG_H

#include "attend/model.h"

/* Norms of queries and keys, before rotary positions: of each head (Qwen 3), or of all heads
 * together (OLMo 2). */
typedef enum { ATTEND_QK_NORM_NONE = 0, ATTEND_QK_NORM_HEAD, ATTEND_QK_NORM_ALL } attend_qk_norm;

/* Whether attention and mlp read the same x. */
typedef enum {
  ATTEND_PARALLEL_NONE = 0,
  ATTEND_PARALLEL_SHARED,  /* through one norm: GPT-J, Phi */
  ATTEND_PARALLEL_SEPARATE /* through two: GPT-NeoX */
} attend_parallel;

enum { ATTEND_MOST_EOS = 8, ATTEND_MOST_LAYERS = 1024 };

struct attend_config {
  attend_context *ctx; /* of attend_config_read */
  char family[16];     /* config.json's model_type: "gpt2", "bert", .. */
  attend_parts parts;
  attend_stack encoder, decoder;
  int vocab;
  int types; /* of segments; 0: none */
  attend_positions position;
  int positions;       /* maximum length; 0: no limit */
  int position_offset; /* of the first row of the table */
  attend_rope rope;
  attend_rope rope_sliding; /* of layers with a window; theta 0: the same */
  int rotary;               /* dims of a head that rotate; 0: all */
  int buckets, max_distance;
  int rms; /* RMS norm instead of layer norm */
  float norm_eps;
  attend_norms norms;
  attend_qk_norm qk_norm;
  attend_parallel parallel;
  int embed_norm;     /* a norm after the embeddings */
  int final_norm;     /* a norm after the last layer */
  float embed_factor; /* embeddings times this */
  float head_factor;  /* the head's input times this */
  int embed_width;    /* of the tables, projected to the model's; 0: the same */
  int layer_groups;   /* layer i has the weights of group i groups / layers; 0: its own */
  float score_factor; /* of q.k; 0: 1/sqrt(dim) */
  float score_cap;    /* c: scores s become c tanh(s / c); 0: none */
  float logit_cap;    /* the same of logits */
  int window;         /* a token sees itself and window - 1 before it; 0: all */
  int some_slide;     /* a window in some layers only: bit i of slides */
  unsigned char slides[ATTEND_MOST_LAYERS / 8];
  int score_by_layer; /* scores are also divided by the layer index + 1 */
  attend_form form;   /* attend_attention, which `attend train` writes; else softmax */
  char attention[64]; /* the same as it is written there; "": softmax */
  unsigned roles;     /* attend_attention_roles: others are softmax; 0: all have it */
  attend_activation activation;
  int gated;                         /* activation(gate x) (up x) instead of activation(up x) */
  int attention_biases, mlp_biases;  /* Llama's switches: q, k, v, o; mlp */
  int transform;                     /* masked-LM heads: dense, activation, norm first */
  attend_activation head_activation; /* of the transform */
  int tied;                          /* the head is the embedding table */
  int copy; /* attend_copy_width: of a pointer-generator head's keys; 0: none */
  int bos, eos[ATTEND_MOST_EOS], n_eos, pad; /* -1: none */
  int decoder_start, forced_bos, forced_eos; /* -1: none */
};

/* attend_config_read into *config, with nothing to free. */
attend_status config_read(attend_context *ctx, const char *path, attend_config *config);

/* File names in a model's directory: its settings, its tokenizer. Both end with NULL. */
extern const char *const settings_files[], *const tokenizer_files[];

#endif
