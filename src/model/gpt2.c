/* GPT-2: a decoder, pre-norm, learned positions, Conv1D weights (stored transposed).
 */
#include "model/family.h"

static void configure(config_reader *r, attend_config *c) {
  attend_stack *s = &c->decoder;
  c->parts = ATTEND_DECODER;
  s->layers = read_size(r, "n_layer", -1);
  s->width = read_size(r, "n_embd", -1);
  s->heads = read_size(r, "n_head", -1);
  s->mlp = read_size(r, "n_inner", 4 * s->width);
  complete_stack(r, s);
  c->vocab = read_size(r, "vocab_size", -1);
  c->positions = read_size(r, "n_positions", 1024);
  c->norm_eps = read_epsilon(r, "layer_norm_epsilon", 1e-5);
  c->final_norm = 1;
  c->activation = read_activation(r, "activation_function", "gelu_new");
  c->score_factor = read_switch(r, "scale_attn_weights", true) ? 0 : 1;
  c->score_by_layer = read_switch(r, "scale_attn_by_inverse_layer_idx", false);
  c->tied = read_switch(r, "tie_word_embeddings", true);
  refuse_switch(r, "add_cross_attention", "GPT-2 with an encoder");
}

static const line lines[] = {
    {TOKENS, 0, "wte", "VF", 0},
    {POSITIONS, ATTEND_DECODER, "wpe", "PF", 0},
    {SELF_NORM, ATTEND_DECODER, "h.%d.ln_1", "F", BIASED},
    {SELF_QKV, ATTEND_DECODER, "h.%d.attn.c_attn", "AF", BIASED | TRANSPOSED},
    {SELF_O, ATTEND_DECODER, "h.%d.attn.c_proj", "FO", BIASED | TRANSPOSED},
    {MLP_NORM, ATTEND_DECODER, "h.%d.ln_2", "F", BIASED},
    {MLP_UP, ATTEND_DECODER, "h.%d.mlp.c_fc", "IF", BIASED | TRANSPOSED},
    {MLP_DOWN, ATTEND_DECODER, "h.%d.mlp.c_proj", "FI", BIASED | TRANSPOSED},
    {FINAL_NORM, ATTEND_DECODER, "ln_f", "F", BIASED},
    {HEAD, 0, "lm_head", "VF", OUTSIDE},
    {.name = NULL}};

const family family_gpt2 = {{"gpt2"}, "transformer.", configure, lines};
