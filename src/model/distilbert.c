/* DistilBERT: BERT's encoder under other names, without segments.
 *
 * Place: model/ - a family.
 */
#include "model/family.h"

static void configure(config_reader *r, attend_config *c) {
  attend_stack *s = &c->encoder;
  c->parts = ATTEND_ENCODER;
  s->layers = read_size(r, "n_layers", -1);
  s->width = read_size(r, "dim", -1);
  s->heads = read_size(r, "n_heads", -1);
  s->mlp = read_size(r, "hidden_dim", -1);
  complete_stack(r, s);
  c->vocab = read_size(r, "vocab_size", -1);
  c->positions = read_size(r, "max_position_embeddings", 512);
  c->norm_eps = 1e-12f;
  c->norms = ATTEND_NORM_SUM;
  c->embed_norm = c->transform = 1;
  c->activation = read_activation(r, "activation", "gelu");
  c->head_activation = c->activation;
  c->tied = read_switch(r, "tie_word_embeddings", true);
}

#define LAYER "transformer.layer.%d."
static const line lines[] = {
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
    {"distilbert"}, "distilbert.", configure, lines};
