/* Llama: a decoder, pre-RMSNorm, rotary positions (RoPE), gated mlp (SwiGLU),
 * grouped-query attention.
 *
 * Mistral's checkpoints are the same, with a sliding window where sliding_window is a
 * number.
 */
#include "model/family.h"

static void configure(config_reader *r, attend_config *c) {
  attend_stack *s = &c->decoder;
  c->parts = ATTEND_DECODER;
  s->layers = read_size(r, "num_hidden_layers", -1);
  s->width = read_size(r, "hidden_size", -1);
  s->heads = read_size(r, "num_attention_heads", -1);
  s->kv_heads = read_size(r, "num_key_value_heads", 0);
  s->dim = read_size(r, "head_dim", 0);
  s->mlp = read_size(r, "intermediate_size", -1);
  complete_stack(r, s);
  c->vocab = read_size(r, "vocab_size", -1);
  c->positions = read_size(r, "max_position_embeddings", 2048);
  c->position = ATTEND_POSITIONS_ROTARY;
  c->rms = c->gated = c->final_norm = 1;
  c->norm_eps = read_epsilon(r, "rms_norm_eps", 1e-6);
  c->activation = read_activation(r, "hidden_act", "silu");
  c->attention_biases = read_switch(r, "attention_bias", false);
  c->mlp_biases = read_switch(r, "mlp_bias", false);
  c->tied = read_switch(r, "tie_word_embeddings", false);
  c->window = read_size(r, "sliding_window", 0);
  read_rope(r, c, s->dim);
}

static const line lines[] = {
    {TOKENS, 0, "embed_tokens", "VF", 0},
    {SELF_NORM, ATTEND_DECODER, "layers.%d.input_layernorm", "F", 0},
    {SELF_Q, ATTEND_DECODER, "layers.%d.self_attn.q_proj", "QF", IF_BIASES},
    {SELF_K, ATTEND_DECODER, "layers.%d.self_attn.k_proj", "KF", IF_BIASES},
    {SELF_V, ATTEND_DECODER, "layers.%d.self_attn.v_proj", "WF", IF_BIASES},
    {SELF_O, ATTEND_DECODER, "layers.%d.self_attn.o_proj", "FO", IF_BIASES},
    {MLP_NORM, ATTEND_DECODER, "layers.%d.post_attention_layernorm", "F", 0},
    {MLP_GATE, ATTEND_DECODER, "layers.%d.mlp.gate_proj", "IF", IF_MLP_BIASES},
    {MLP_UP, ATTEND_DECODER, "layers.%d.mlp.up_proj", "IF", IF_MLP_BIASES},
    {MLP_DOWN, ATTEND_DECODER, "layers.%d.mlp.down_proj", "FI", IF_MLP_BIASES},
    {FINAL_NORM, ATTEND_DECODER, "norm", "F", 0},
    {HEAD, 0, "lm_head", "VF", OUTSIDE},
    {.name = NULL}};

const family family_llama = {{"llama", "mistral"}, "model.", configure, lines};
