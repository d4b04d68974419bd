/* Llama: a decoder, pre-RMSNorm, rotary positions (RoPE), gated mlp (SwiGLU),
 * grouped-query attention.
 *
 * Mistral's checkpoints are the same, with a sliding window where sliding_window is a
 * number.
 */
#include <math.h>
#include <string.h>

#include "model/family.h"

static double yarn_stretch(double factor, double by) {
  return factor > 1 ? 0.1 * by * log(factor) + 1 : 1;
}

/* RoPE parameters, all positive where given. */
static const double MOST = 1e12;

static double rope_number(config_reader *r, const attend_json *rope, const char *name,
                          double otherwise) {
  return read_real_of(r, rope, name, 1e-12, MOST, otherwise);
}

static void read_yarn(config_reader *r, const attend_json *rope, attend_rope *p) {
  p->low = rope_number(r, rope, "beta_slow", 1);
  p->high = rope_number(r, rope, "beta_fast", 32);
  p->attention_factor = read_real_of(r, rope, "attention_factor", 0, MOST, 0);
  double over = read_real_of(r, rope, "mscale", 0, MOST, 0);
  double under = read_real_of(r, rope, "mscale_all_dim", 0, MOST, 0);
  if (p->attention_factor == 0 && over != 0 && under != 0)
    p->attention_factor = yarn_stretch(p->factor, over) / yarn_stretch(p->factor, under);
}

static void read_scaling(config_reader *r, const attend_json *rope, attend_rope *p) {
  static const char *const types[] = {"default", "linear", "llama3", "yarn"};
  int scaling = ATTEND_ROPE_PLAIN;
  const char *type = read_text_of(r, rope, "type", types[scaling]);
  type = read_text_of(r, rope, "rope_type", type);
  if (r->status) return;
  while (scaling <= ATTEND_ROPE_YARN && strcmp(type, types[scaling])) scaling++;
  if (scaling > ATTEND_ROPE_YARN)
    REFUSE(r, ATTEND_UNSUPPORTED,
           "%s: rotary scaling of type \"%.40s\" is not supported: default, "
           "linear, llama3 and yarn are",
           r->path, type);
  p->scaling = scaling;
  if (scaling == ATTEND_ROPE_LLAMA3) {
    p->low = rope_number(r, rope, "low_freq_factor", 1);
    p->high = rope_number(r, rope, "high_freq_factor", 4);
  }
  if (scaling == ATTEND_ROPE_YARN) read_yarn(r, rope, p);
}

static void read_rope(config_reader *r, attend_config *c) {
  const attend_json *rope = read_tree(r, "rope_parameters", ATTEND_JSON_OBJECT);
  if (!rope) rope = read_tree(r, "rope_scaling", ATTEND_JSON_OBJECT);
  double theta = rope_number(r, r->json, "rope_theta", 10000);
  c->rope.theta = rope_number(r, rope, "rope_theta", theta);
  c->rope.factor = rope_number(r, rope, "factor", 1);
  c->rope.context = rope_number(r, rope, "original_max_position_embeddings", (double)c->positions);
  read_scaling(r, rope, &c->rope);
}

static void check_rope(config_reader *r, const attend_config *c) {
  const attend_rope *p = &c->rope;
  if ((p->scaling == ATTEND_ROPE_LLAMA3 && !(p->high > p->low)) || c->decoder.dim % 2)
    REFUSE(r, ATTEND_IO,
           "%s: rotary positions need an even head_dim and a high_freq_factor "
           "above low_freq_factor",
           r->path);
}

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
  read_rope(r, c);
  check_rope(r, c);
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
