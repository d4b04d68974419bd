/* Llama: a decoder, RMS norms first, rotary positions, gated mlp, shared keys.
 *
 * Place: model/ - a family. Mistral's checkpoints are the same, with a sliding
 * window where sliding_window is a number.
 */
#include <math.h>
#include <string.h>

#include "model/family.h"

static double yarn_stretch(double factor, double by) {
  return factor > 1 ? 0.1 * by * log(factor) + 1 : 1;
}

static void read_rope(config_reader *r, attend_config *c) {
  const attend_json *rope = attend_json_get(r->json, "rope_parameters");
  if (attend_json_kind_of(rope) != ATTEND_JSON_OBJECT)
    rope = attend_json_get(r->json, "rope_scaling");
  double theta =
      attend_json_number(attend_json_get(r->json, "rope_theta"), 10000);
  const char *type =
      attend_json_string(attend_json_get(rope, "rope_type"), NULL);
  if (!type) type = attend_json_string(attend_json_get(rope, "type"), NULL);
#define NUMBER(name, otherwise) \
  attend_json_number(attend_json_get(rope, name), otherwise)
  c->rope.theta = NUMBER("rope_theta", theta);
  c->rope.factor = NUMBER("factor", 1);
  c->rope.context =
      NUMBER("original_max_position_embeddings", (double)c->positions);
  if (!type || !strcmp(type, "default")) {
    c->rope.scaling = ATTEND_ROPE_PLAIN;
  } else if (!strcmp(type, "linear")) {
    c->rope.scaling = ATTEND_ROPE_LINEAR;
  } else if (!strcmp(type, "llama3")) {
    c->rope.scaling = ATTEND_ROPE_LLAMA3;
    c->rope.low = NUMBER("low_freq_factor", 1);
    c->rope.high = NUMBER("high_freq_factor", 4);
  } else if (!strcmp(type, "yarn")) {
    c->rope.scaling = ATTEND_ROPE_YARN;
    c->rope.low = NUMBER("beta_slow", 1);
    c->rope.high = NUMBER("beta_fast", 32);
    c->rope.stretch = NUMBER("attention_factor", 0);
    double over = NUMBER("mscale", 0), under = NUMBER("mscale_all_dim", 0);
    if (c->rope.stretch == 0 && over != 0 && under != 0)
      c->rope.stretch = yarn_stretch(c->rope.factor, over) /
                        yarn_stretch(c->rope.factor, under);
  } else if (!r->status) {
    r->status = fail(r->ctx, ATTEND_UNSUPPORTED,
                     "%s: rotary scaling of type \"%.40s\" is not known here: "
                     "default, linear, llama3 and yarn are",
                     r->path, type);
  }
#undef NUMBER
}

static void check_rope(config_reader *r, const attend_config *c) {
  const attend_rope *p = &c->rope;
  bool good = p->theta > 0 && p->factor > 0 && p->context > 0 &&
              (p->scaling != ATTEND_ROPE_LLAMA3 || p->high > p->low) &&
              c->decoder.dim % 2 == 0;
  if (!good && !r->status)
    r->status = fail(r->ctx, ATTEND_IO,
                     "%s: rotary positions need an even head_dim and a "
                     "positive theta, factor and context",
                     r->path);
}

static attend_status configure(attend_context *ctx, const attend_json *json,
                               const char *path, attend_config *c) {
  config_reader r = {ctx, json, path, ATTEND_OK};
  attend_stack *s = &c->decoder;
  c->parts = ATTEND_DECODER;
  s->layers = read_size(&r, "num_hidden_layers", -1);
  s->width = read_size(&r, "hidden_size", -1);
  s->heads = read_size(&r, "num_attention_heads", -1);
  s->kv_heads = read_size(&r, "num_key_value_heads", 0);
  s->dim = read_size(&r, "head_dim", 0);
  s->mlp = read_size(&r, "intermediate_size", -1);
  complete_stack(&r, s);
  c->vocab = read_size(&r, "vocab_size", -1);
  c->positions = read_size(&r, "max_position_embeddings", 2048);
  c->position = ATTEND_POSITIONS_ROTARY;
  c->rms = c->gated = c->final_norm = 1;
  c->norm_eps = read_real(&r, "rms_norm_eps", 1e-6);
  c->activation = read_activation(&r, "hidden_act", "silu");
  c->attention_biases = read_switch(&r, "attention_bias", false);
  c->mlp_biases = read_switch(&r, "mlp_bias", false);
  c->tied = read_switch(&r, "tie_word_embeddings", false);
  c->window = read_size(&r, "sliding_window", 0);
  read_rope(&r, c);
  check_rope(&r, c);
  return r.status;
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
