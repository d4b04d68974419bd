/* Writing the config.json of a new model, for training from scratch. config.c reads
 * it, and so do the libraries that know the family.
 */
#include <string.h>

#include "attend/problem.h"
#include "base/files.h"
#include "base/options.h"
#include "model/family.h"

static void put_id(json_writer *w, const char *name, const int *value) {
  if (value && *value >= 0) json_member_integer(w, name, *value);
}

/* ---- families -------------------------------------------------------------------- */

static void write_gpt2(json_writer *w, const attend_architecture *a) {
  json_member_integer(w, "n_layer", a->layers);
  json_member_integer(w, "n_embd", a->width);
  json_member_integer(w, "n_head", a->heads);
  json_member_integer(w, "n_inner", a->mlp);
  json_member_integer(w, "n_positions", a->positions);
  json_member_integer(w, "n_ctx", a->positions);
  json_member_string(w, "activation_function", "gelu_new");
  json_member_number(w, "layer_norm_epsilon", 1e-5);
}

static void write_llama(json_writer *w, const attend_architecture *a) {
  json_member_integer(w, "num_hidden_layers", a->layers);
  json_member_integer(w, "hidden_size", a->width);
  json_member_integer(w, "num_attention_heads", a->heads);
  json_member_integer(w, "num_key_value_heads", a->kv_heads);
  json_member_integer(w, "head_dim", a->width / a->heads);
  json_member_integer(w, "intermediate_size", a->mlp);
  json_member_integer(w, "max_position_embeddings", a->positions);
  json_member_string(w, "hidden_act", "silu");
  json_member_number(w, "rms_norm_eps", 1e-5);
  json_member_number(w, "rope_theta", 10000);
  json_member_boolean(w, "attention_bias", false);
  json_member_boolean(w, "mlp_bias", false);
}

static void write_bert(json_writer *w, const attend_architecture *a) {
  json_member_integer(w, "num_hidden_layers", a->layers);
  json_member_integer(w, "hidden_size", a->width);
  json_member_integer(w, "num_attention_heads", a->heads);
  json_member_integer(w, "intermediate_size", a->mlp);
  json_member_integer(w, "max_position_embeddings", a->positions);
  json_member_integer(w, "type_vocab_size", 2);
  json_member_string(w, "hidden_act", "gelu");
  json_member_number(w, "layer_norm_eps", 1e-12);
}

static void write_bart(json_writer *w, const attend_architecture *a) {
  json_member_integer(w, "d_model", a->decoder_width);
  if (a->width != a->decoder_width) json_member_integer(w, "attend_encoder_width", a->width);
  json_member_integer(w, "encoder_layers", a->layers);
  json_member_integer(w, "decoder_layers", a->decoder_layers);
  json_member_integer(w, "encoder_attention_heads", a->heads);
  json_member_integer(w, "decoder_attention_heads", a->decoder_heads);
  json_member_integer(w, "encoder_ffn_dim", a->mlp);
  json_member_integer(w, "decoder_ffn_dim", a->decoder_mlp);
  json_member_integer(w, "max_position_embeddings", a->positions);
  json_member_string(w, "activation_function", "gelu");
  json_member_boolean(w, "scale_embedding", false);
  json_member_boolean(w, "is_encoder_decoder", true);
  put_id(w, "decoder_start_token_id", a->eos);
  put_id(w, "forced_eos_token_id", a->eos);
}

static bool is_lopsided(const attend_architecture *a) {
  return a->width != a->decoder_width || a->heads != a->decoder_heads || a->mlp != a->decoder_mlp;
}

/* T5 has one size for both sides: where they differ, our own members give the encoder's. */
static void write_t5_sides(json_writer *w, const attend_architecture *a) {
  json_member_integer(w, "d_model", a->decoder_width);
  json_member_integer(w, "num_layers", a->layers);
  json_member_integer(w, "num_decoder_layers", a->decoder_layers);
  json_member_integer(w, "num_heads", a->decoder_heads);
  json_member_integer(w, "d_kv", a->decoder_width / a->decoder_heads);
  json_member_integer(w, "d_ff", a->decoder_mlp);
  if (!is_lopsided(a)) return;
  json_member_integer(w, "attend_encoder_width", a->width);
  json_member_integer(w, "attend_encoder_heads", a->heads);
  json_member_integer(w, "attend_encoder_d_kv", a->width / a->heads);
  json_member_integer(w, "attend_encoder_d_ff", a->mlp);
}

static void write_t5(json_writer *w, const attend_architecture *a) {
  write_t5_sides(w, a);
  json_member_integer(w, "n_positions", a->positions);
  json_member_string(w, "feed_forward_proj", "relu");
  json_member_integer(w, "relative_attention_num_buckets", 32);
  json_member_integer(w, "relative_attention_max_distance", 128);
  json_member_number(w, "layer_norm_epsilon", 1e-6);
  json_member_boolean(w, "scale_decoder_outputs", !a->untied);
  json_member_boolean(w, "is_encoder_decoder", true);
  put_id(w, "decoder_start_token_id", a->pad);
}

static const struct {
  const char *family, *class;
  void (*write)(json_writer *w, const attend_architecture *a);
} known[] = {{"gpt2", "GPT2LMHeadModel", write_gpt2},
             {"llama", "LlamaForCausalLM", write_llama},
             {"bert", "BertForMaskedLM", write_bert},
             {"bart", "BartForConditionalGeneration", write_bart},
             {"t5", "T5ForConditionalGeneration", write_t5}};

/* ---- the whole ------------------------------------------------------------------- */

static int find(const char *name) {
  for (int i = 0; i < (int)(sizeof known / sizeof *known); i++)
    if (!strcmp(known[i].family, name)) return i;
  return -1;
}

static attend_architecture complete(attend_architecture a) {
  if (!a.family) a.family = "gpt2";
  if (!a.layers) a.layers = 4;
  if (!a.decoder_layers) a.decoder_layers = a.layers;
  if (!a.width) a.width = 256;
  if (!a.heads) a.heads = 4;
  if (!a.kv_heads) a.kv_heads = a.heads;
  if (!a.positions) a.positions = 512;
  if (!a.mlp)
    a.mlp = strcmp(a.family, "llama") ? 4 * a.width : (int)round_up((size_t)(8 * a.width / 3), 32);
  if (!a.decoder_width) a.decoder_width = a.width;
  if (!a.decoder_heads) a.decoder_heads = a.heads;
  if (!a.decoder_mlp) a.decoder_mlp = a.decoder_width == a.width ? a.mlp : 4 * a.decoder_width;
  return a;
}

static bool has_both(const attend_architecture *a) {
  return !strcmp(a->family, "bart") || !strcmp(a->family, "t5");
}

static attend_status check_sides(attend_context *ctx, const attend_architecture *a) {
  const bool both = has_both(a);
  ATTEND_CHECK(ctx, both || !is_lopsided(a),
               "a %s has one side: bart and t5 have a decoder that may be wider "
               "or narrower than their encoder",
               a->family);
  ATTEND_CHECK(ctx, !a->copy || (both && a->copy > 0),
               "a copy head of width %d in a %s: it has a width of 1 or more, "
               "and copies what an encoder of bart or t5 has read",
               a->copy, a->family);
  ATTEND_CHECK(ctx, a->decoder_width > 0 && a->decoder_mlp > 0,
               "a decoder cannot have a width of %d, or of %d inside", a->decoder_width,
               a->decoder_mlp);
  ATTEND_CHECK(ctx, a->decoder_heads > 0 && a->decoder_width % a->decoder_heads == 0,
               "a decoder's width of %d cannot be cut into %d heads: choose "
               "the number of its heads",
               a->decoder_width, a->decoder_heads);
  return ATTEND_OK;
}

/* What reading the written file would refuse. */
static attend_status check_roles(attend_context *ctx, const attend_architecture *a) {
  attend_form form = {0}, forms[ATTEND_ROLES];
  attend_config c = {.parts = has_both(a)                  ? ATTEND_BOTH
                              : !strcmp(a->family, "bert") ? ATTEND_ENCODER
                                                           : ATTEND_DECODER};
  snprintf(c.family, sizeof c.family, "%s", a->family);
  if (a->attention) ATTEND_TRY(attend_form_parse(ctx, a->attention, &form));
  return attend_config_forms(ctx, &c, a->attention ? &form : NULL, a->roles, forms);
}

static attend_status check(attend_context *ctx, const attend_architecture *a) {
  ATTEND_CHECK(ctx, find(a->family) >= 0,
               "a new model is gpt2, llama, bert, bart or t5, not \"%.40s\"", a->family);
  ATTEND_CHECK(ctx, a->vocab > 0 && a->width > 0 && a->layers > 0,
               "a new model needs a vocabulary, layers and a width");
  ATTEND_CHECK(ctx, a->decoder_layers > 0 && a->mlp > 0 && a->positions > 0,
               "a new model cannot have %d layers in its decoder, a width of "
               "%d inside or %d positions",
               a->decoder_layers, a->mlp, a->positions);
  ATTEND_CHECK(ctx, a->heads > 0 && a->width % a->heads == 0,
               "a width of %d cannot be cut into %d heads", a->width, a->heads);
  ATTEND_CHECK(ctx, a->kv_heads == a->heads || !strcmp(a->family, "llama"),
               "heads of a %s do not share keys: llama's do", a->family);
  ATTEND_CHECK(ctx, a->kv_heads > 0 && a->heads % a->kv_heads == 0,
               "%d heads cannot share %d key-value heads", a->heads, a->kv_heads);
  ATTEND_CHECK(ctx, strcmp(a->family, "llama") || a->width / a->heads % 2 == 0,
               "%d heads of a width of %d have %d numbers each: llama rotates "
               "them in pairs, so choose an even one",
               a->heads, a->width, a->width / a->heads);
  ATTEND_TRY(check_sides(ctx, a));
  return check_roles(ctx, a);
}

attend_status attend_config_write(attend_context *ctx, const char *path,
                                  const attend_architecture *architecture) {
  attend_architecture a;
  char roles[ATTEND_ROLES_TEXT];
  ATTEND_TRY(OPTIONS_READ(ctx, attend_architecture, architecture, &a));
  a = complete(a);
  ATTEND_TRY(check(ctx, &a));
  const int kind = find(a.family);
  json_writer w = json_writer_text(ctx);
  json_indent(&w, true);
  json_open(&w, '{');
  json_member(&w, "architectures");
  json_open(&w, '[');
  json_put_string(&w, known[kind].class);
  json_close(&w, ']');
  json_member_string(&w, "model_type", a.family);
  json_member_integer(&w, "vocab_size", a.vocab);
  known[kind].write(&w, &a);
  json_member_boolean(&w, "tie_word_embeddings", !a.untied);
  put_id(&w, "bos_token_id", a.bos);
  put_id(&w, "eos_token_id", a.eos);
  put_id(&w, "pad_token_id", a.pad);
  if (a.copy) json_member_integer(&w, "attend_copy_width", a.copy);
  if (a.attention) json_member_string(&w, "attend_attention", a.attention);
  if (a.roles) json_member_string(&w, "attend_attention_roles", attend_roles_text(a.roles, roles));
  json_close(&w, '}');
  return json_write(&w, path);
}
