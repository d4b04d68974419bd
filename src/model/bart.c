/* BART: encoder-decoder, post-norm, learned positions from row 2 on.
 *
 * attend_encoder_width, our extension, gives the encoder another width than the
 * decoder's d_model. Both still share one token table; its rows are projected for the
 * encoder. attend_copy_width, also ours, adds a pointer-generator head: copy_head.c.
 */
#include <math.h>

#include "model/family.h"

static void read_stack(config_reader *r, const char *side, int width, attend_stack *s) {
  char name[64];
#define READ(what) (snprintf(name, sizeof name, "%s_" what, side), name)
  s->layers = read_size(r, READ("layers"), -1);
  s->heads = read_size(r, READ("attention_heads"), -1);
  s->mlp = read_size(r, READ("ffn_dim"), -1);
#undef READ
  s->width = width;
  complete_stack(r, s);
}

static void configure(config_reader *r, attend_config *c) {
  c->parts = ATTEND_BOTH;
  int width = read_size(r, "d_model", -1);
  read_stack(r, "encoder", read_size(r, "attend_encoder_width", width), &c->encoder);
  read_stack(r, "decoder", width, &c->decoder);
  c->vocab = read_size(r, "vocab_size", -1);
  c->positions = read_size(r, "max_position_embeddings", 1024);
  c->position_offset = 2;
  c->norm_eps = 1e-5f;
  c->norms = ATTEND_NORM_SUM;
  c->embed_norm = 1;
  c->activation = read_activation(r, "activation_function", "gelu");
  if (read_switch(r, "scale_embedding", false)) c->embed_factor = sqrtf((float)c->decoder.width);
  c->tied = read_switch(r, "tie_word_embeddings", true);
  c->copy = read_copy(r);
}

#define EMBEDDINGS(side, of)                                \
  {POSITIONS, of, side "embed_positions", "PF", 0}, {       \
    EMBED_NORM, of, side "layernorm_embedding", "F", BIASED \
  }
#define SELF(layer, of)                                         \
  {SELF_Q, of, layer "self_attn.q_proj", "QF", BIASED},         \
      {SELF_K, of, layer "self_attn.k_proj", "KF", BIASED},     \
      {SELF_V, of, layer "self_attn.v_proj", "WF", BIASED},     \
      {SELF_O, of, layer "self_attn.out_proj", "FO", BIASED}, { \
    SELF_NORM, of, layer "self_attn_layer_norm", "F", BIASED    \
  }
#define MLP(layer, of)                                                                  \
  {MLP_UP, of, layer "fc1", "IF", BIASED}, {MLP_DOWN, of, layer "fc2", "FI", BIASED}, { \
    MLP_NORM, of, layer "final_layer_norm", "F", BIASED                                 \
  }
#define CROSS "decoder.layers.%d.encoder_attn"

static const line lines[] = {
    {TOKENS, 0, "shared|decoder.embed_tokens|encoder.embed_tokens", "VF", 0},
    {PROJECTION, ATTEND_ENCODER, "encoder.embed_projection", "FD", 0},
    EMBEDDINGS("encoder.", ATTEND_ENCODER),
    SELF("encoder.layers.%d.", ATTEND_ENCODER),
    MLP("encoder.layers.%d.", ATTEND_ENCODER),
    EMBEDDINGS("decoder.", ATTEND_DECODER),
    SELF("decoder.layers.%d.", ATTEND_DECODER),
    {CROSS_Q, ATTEND_DECODER, CROSS ".q_proj", "QF", BIASED},
    {CROSS_K, ATTEND_DECODER, CROSS ".k_proj", "KE", BIASED},
    {CROSS_V, ATTEND_DECODER, CROSS ".v_proj", "WE", BIASED},
    {CROSS_O, ATTEND_DECODER, CROSS ".out_proj", "FO", BIASED},
    {CROSS_NORM, ATTEND_DECODER, CROSS "_layer_norm", "F", BIASED},
    MLP("decoder.layers.%d.", ATTEND_DECODER),
    {HEAD, 0, "lm_head", "VF", OUTSIDE},
    {HEAD, 0, "final_logits_bias", "V", BARE_BIAS | OUTSIDE | MAY_LACK | FIXED},
    {COPY_Q, 0, "copy.q_proj", "CF", OUTSIDE},
    {COPY_K, 0, "copy.k_proj", "CE", OUTSIDE},
    {COPY_GATE, 0, "copy.gate", "1F", BIASED | OUTSIDE},
    {.name = NULL}};

const family family_bart = {{"bart"}, "model.", configure, lines};
