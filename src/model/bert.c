/* BERT, RoBERTa, DistilBERT: encoders, post-norm, learned positions, masked-LM heads.
 *
 * RoBERTa differs from BERT in the names of the head and in where positions start,
 * DistilBERT in all names, and it has no token types.
 */
#include <string.h>

#include "model/family.h"

/* Relative position embeddings have tables of their own in every layer. */
static void refuse_relative(config_reader *r) {
  const char *kind = read_text_of(r, r->json, "position_embedding_type", "absolute");
  if (strcmp(kind, "absolute"))
    REFUSE(r, ATTEND_UNSUPPORTED,
           "%s: position_embedding_type \"%.40s\" is not supported: absolute is", r->path, kind);
}

typedef struct { /* what the families call them */
  const char *layers, *width, *heads, *mlp, *activation;
} encoder_names;

static void configure_encoder(config_reader *r, const encoder_names *n, attend_config *c) {
  attend_stack *s = &c->encoder;
  c->parts = ATTEND_ENCODER;
  s->layers = read_size(r, n->layers, -1);
  s->width = read_size(r, n->width, -1);
  s->heads = read_size(r, n->heads, -1);
  s->mlp = read_size(r, n->mlp, -1);
  complete_stack(r, s);
  c->vocab = read_size(r, "vocab_size", -1);
  c->positions = read_size(r, "max_position_embeddings", 512);
  c->norm_eps = 1e-12f;
  c->norms = ATTEND_NORM_SUM;
  c->embed_norm = c->transform = 1;
  c->activation = c->head_activation = read_activation(r, n->activation, "gelu");
  c->tied = read_switch(r, "tie_word_embeddings", true);
}

static void configure_bert(config_reader *r, attend_config *c) {
  static const encoder_names names = {"num_hidden_layers", "hidden_size", "num_attention_heads",
                                      "intermediate_size", "hidden_act"};
  configure_encoder(r, &names, c);
  c->types = read_size(r, "type_vocab_size", 2);
  c->norm_eps = read_epsilon(r, "layer_norm_eps", 1e-12);
  refuse_switch(r, "is_decoder", "BERT as a decoder");
  refuse_relative(r);
}

/* Positions start after the padding id; the head supports gelu only. */
static void configure_roberta(config_reader *r, attend_config *c) {
  configure_bert(r, c);
  int64_t pad = read_integer(r, "pad_token_id", INT64_MIN, INT64_MAX, 1);
  if (pad < 0 || pad >= c->positions - 1) {
    REFUSE(r, ATTEND_IO, "%s: pad_token_id leaves no positions", r->path);
    return;
  }
  c->head_activation = ATTEND_GELU;
  c->position_offset = (int)pad + 1;
  c->positions -= c->position_offset;
}

#define ENCODER_LAYER(prefix)                                                        \
  {TOKENS, 0, "embeddings.word_embeddings", "VF", 0},                                \
      {POSITIONS, ATTEND_ENCODER, "embeddings.position_embeddings", "PF", 0},        \
      {TYPES, ATTEND_ENCODER, "embeddings.token_type_embeddings", "TF", 0},          \
      {EMBED_NORM, ATTEND_ENCODER, "embeddings.LayerNorm", "F", BIASED},             \
      {SELF_Q, ATTEND_ENCODER, prefix "attention.self.query", "QF", BIASED},         \
      {SELF_K, ATTEND_ENCODER, prefix "attention.self.key", "KF", BIASED},           \
      {SELF_V, ATTEND_ENCODER, prefix "attention.self.value", "WF", BIASED},         \
      {SELF_O, ATTEND_ENCODER, prefix "attention.output.dense", "FO", BIASED},       \
      {SELF_NORM, ATTEND_ENCODER, prefix "attention.output.LayerNorm", "F", BIASED}, \
      {MLP_UP, ATTEND_ENCODER, prefix "intermediate.dense", "IF", BIASED},           \
      {MLP_DOWN, ATTEND_ENCODER, prefix "output.dense", "FI", BIASED}, {             \
    MLP_NORM, ATTEND_ENCODER, prefix "output.LayerNorm", "F", BIASED                 \
  }

static const line bert_lines[] = {
    ENCODER_LAYER("encoder.layer.%d."),
    {TRANSFORM, 0, "cls.predictions.transform.dense", "FF", BIASED | OUTSIDE | MAY_LACK},
    {TRANSFORM_NORM, 0, "cls.predictions.transform.LayerNorm", "F", BIASED | OUTSIDE | MAY_LACK},
    {HEAD, 0, "cls.predictions.decoder", "VF", OUTSIDE | MAY_LACK},
    {HEAD, 0, "cls.predictions.bias|cls.predictions.decoder.bias", "V",
     BARE_BIAS | OUTSIDE | MAY_LACK},
    {.name = NULL}};

static const line roberta_lines[] = {
    ENCODER_LAYER("encoder.layer.%d."),
    {TRANSFORM, 0, "lm_head.dense", "FF", BIASED | OUTSIDE | MAY_LACK},
    {TRANSFORM_NORM, 0, "lm_head.layer_norm", "F", BIASED | OUTSIDE | MAY_LACK},
    {HEAD, 0, "lm_head.decoder", "VF", OUTSIDE | MAY_LACK},
    {HEAD, 0, "lm_head.bias|lm_head.decoder.bias", "V", BARE_BIAS | OUTSIDE | MAY_LACK},
    {.name = NULL}};

const family family_bert = {{"bert"}, "bert.", configure_bert, bert_lines};
const family family_roberta = {
    {"roberta", "xlm-roberta", "camembert"}, "roberta.", configure_roberta, roberta_lines};

/* ---- DistilBERT ------------------------------------------------------------------ */

static void configure_distilbert(config_reader *r, attend_config *c) {
  static const encoder_names names = {"n_layers", "dim", "n_heads", "hidden_dim", "activation"};
  configure_encoder(r, &names, c);
}

#define LAYER "transformer.layer.%d."
static const line distilbert_lines[] = {
    {TOKENS, 0, "embeddings.word_embeddings", "VF", 0},
    {POSITIONS, ATTEND_ENCODER, "embeddings.position_embeddings", "PF", 0},
    {EMBED_NORM, ATTEND_ENCODER, "embeddings.LayerNorm", "F", BIASED},
    {SELF_Q, ATTEND_ENCODER, LAYER "attention.q_lin", "QF", BIASED},
    {SELF_K, ATTEND_ENCODER, LAYER "attention.k_lin", "KF", BIASED},
    {SELF_V, ATTEND_ENCODER, LAYER "attention.v_lin", "WF", BIASED},
    {SELF_O, ATTEND_ENCODER, LAYER "attention.out_lin", "FO", BIASED},
    {SELF_NORM, ATTEND_ENCODER, LAYER "sa_layer_norm", "F", BIASED},
    {MLP_UP, ATTEND_ENCODER, LAYER "ffn.lin1", "IF", BIASED},
    {MLP_DOWN, ATTEND_ENCODER, LAYER "ffn.lin2", "FI", BIASED},
    {MLP_NORM, ATTEND_ENCODER, LAYER "output_layer_norm", "F", BIASED},
    {TRANSFORM, 0, "vocab_transform", "FF", BIASED | OUTSIDE | MAY_LACK},
    {TRANSFORM_NORM, 0, "vocab_layer_norm", "F", BIASED | OUTSIDE | MAY_LACK},
    {HEAD, 0, "vocab_projector", "VF", OUTSIDE | MAY_LACK},
    {HEAD, 0, "vocab_projector.bias", "V", BARE_BIAS | OUTSIDE | MAY_LACK},
    {.name = NULL}};

const family family_distilbert = {
    {"distilbert"}, "distilbert.", configure_distilbert, distilbert_lines};
