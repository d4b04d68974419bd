/* T5: encoder-decoder, pre-RMSNorm, relative position buckets.
 *
 * T5 1.0 has a plain relu mlp and a tied head that reads width^-1/2 times the hidden
 * state; later ones are gated.
 */
#include <math.h>
#include <string.h>

#include "model/family.h"

/* One size for both sides, unless attend_encoder_.., our extensions, give the
 * encoder's. Both share one token table: see bart.c. */
static void read_sides(config_reader *r, attend_stack *e, attend_stack *d) {
  e->layers = read_size(r, "num_layers", -1);
  d->layers = read_size(r, "num_decoder_layers", e->layers);
  d->width = read_size(r, "d_model", -1);
  d->heads = read_size(r, "num_heads", -1);
  d->dim = read_size(r, "d_kv", 0);
  d->mlp = read_size(r, "d_ff", -1);
  e->width = read_size(r, "attend_encoder_width", d->width);
  e->heads = read_size(r, "attend_encoder_heads", d->heads);
  e->dim = read_size(r, "attend_encoder_d_kv", d->dim);
  e->mlp = read_size(r, "attend_encoder_d_ff", d->mlp);
  complete_stack(r, e);
  complete_stack(r, d);
}

/* "relu", "gated-gelu" (which means gelu_new), "gated-silu". */
static void read_mlp(config_reader *r, attend_config *c) {
  const char *text = read_text_of(r, r->json, "feed_forward_proj", "relu");
  c->gated = !strncmp(text, "gated-", 6);
  if (c->gated) text += 6;
  if (c->gated && !strcmp(text, "gelu")) text = "gelu_new";
  c->activation = activation_called(r, text);
}

/* T5EncoderModel: sentence encoders have no decoder. */
static bool is_encoder_alone(config_reader *r) {
  const attend_json *list = read_tree(r, "architectures", ATTEND_JSON_ARRAY);
  const char *what = attend_json_string(attend_json_at(list, 0), NULL);
  return what && (!strcmp(what, "T5EncoderModel") || !strcmp(what, "MT5EncoderModel"));
}

static void configure(config_reader *r, attend_config *c) {
  c->parts = ATTEND_BOTH;
  read_sides(r, &c->encoder, &c->decoder);
  c->vocab = read_size(r, "vocab_size", -1);
  c->position = ATTEND_POSITIONS_BUCKETS;
  c->buckets = read_size(r, "relative_attention_num_buckets", 32);
  c->max_distance = read_size(r, "relative_attention_max_distance", 128);
  c->rms = c->final_norm = 1;
  c->norm_eps = read_epsilon(r, "layer_norm_epsilon", 1e-6);
  c->score_factor = 1;
  c->tied = read_switch(r, "tie_word_embeddings", true);
  if (read_switch(r, "scale_decoder_outputs", c->tied))
    c->head_factor = 1 / sqrtf((float)c->decoder.width);
  read_mlp(r, c);
  c->copy = read_copy(r);
  if (is_encoder_alone(r)) {
    c->parts = ATTEND_ENCODER;
    c->decoder = (attend_stack){0};
    c->tied = c->copy = 0;
  }
}

#define SELF(block, of)                                                                  \
  {SELF_NORM, of, block "layer.0.layer_norm", "F", 0},                                   \
      {SELF_Q, of, block "layer.0.SelfAttention.q", "QF", 0},                            \
      {SELF_K, of, block "layer.0.SelfAttention.k", "KF", 0},                            \
      {SELF_V, of, block "layer.0.SelfAttention.v", "WF", 0},                            \
      {SELF_O, of, block "layer.0.SelfAttention.o", "FO", 0}, {                          \
    RELATIVE, of, block "layer.0.SelfAttention.relative_attention_bias", "BH", ONE_LAYER \
  }
#define MLP(layer, of)                                             \
  {MLP_NORM, of, layer "layer_norm", "F", 0},                      \
      {MLP_UP, of, layer "DenseReluDense.wi", "IF", IF_PLAIN},     \
      {MLP_GATE, of, layer "DenseReluDense.wi_0", "IF", IF_GATED}, \
      {MLP_UP, of, layer "DenseReluDense.wi_1", "IF", IF_GATED}, { \
    MLP_DOWN, of, layer "DenseReluDense.wo", "FI", 0               \
  }
#define CROSS "decoder.block.%d.layer.1."

static const line lines[] = {
    {TOKENS, 0, "shared|decoder.embed_tokens|encoder.embed_tokens", "VF", 0},
    {PROJECTION, ATTEND_ENCODER, "encoder.embed_projection", "FD", 0},
    SELF("encoder.block.%d.", ATTEND_ENCODER),
    MLP("encoder.block.%d.layer.1.", ATTEND_ENCODER),
    {FINAL_NORM, ATTEND_ENCODER, "encoder.final_layer_norm", "F", 0},
    SELF("decoder.block.%d.", ATTEND_DECODER),
    {CROSS_NORM, ATTEND_DECODER, CROSS "layer_norm", "F", 0},
    {CROSS_Q, ATTEND_DECODER, CROSS "EncDecAttention.q", "QF", 0},
    {CROSS_K, ATTEND_DECODER, CROSS "EncDecAttention.k", "KE", 0},
    {CROSS_V, ATTEND_DECODER, CROSS "EncDecAttention.v", "WE", 0},
    {CROSS_O, ATTEND_DECODER, CROSS "EncDecAttention.o", "FO", 0},
    MLP("decoder.block.%d.layer.2.", ATTEND_DECODER),
    {FINAL_NORM, ATTEND_DECODER, "decoder.final_layer_norm", "F", 0},
    {HEAD, 0, "lm_head", "VF", OUTSIDE},
    {COPY_Q, 0, "copy.q_proj", "CF", OUTSIDE},
    {COPY_K, 0, "copy.k_proj", "CE", OUTSIDE},
    {COPY_GATE, 0, "copy.gate", "1F", BIASED | OUTSIDE},
    {.name = NULL}};

const family family_t5 = {{"t5", "mt5"}, "", configure, lines};
