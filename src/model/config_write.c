/* Writing config.json for a model that does not exist yet.
 *
 * Place: model/ - training from nothing starts here; config.c reads it again,
 * and so do the libraries that know the family.
 */
#include <string.h>

#include "attend/file.h"
#include "attend/problem.h"
#include "model/family.h"

typedef struct {
  attend_json_writer *w;
  const attend_architecture *a;
} sheet;

static void number(sheet *s, const char *name, int64_t value) {
  attend_json_member(s->w, name);
  attend_json_put_integer(s->w, value);
}
static void real(sheet *s, const char *name, double value) {
  attend_json_member(s->w, name);
  attend_json_put_number(s->w, value);
}
static void text(sheet *s, const char *name, const char *value) {
  attend_json_member(s->w, name);
  attend_json_put_string(s->w, value);
}
static void truth(sheet *s, const char *name, bool value) {
  attend_json_member(s->w, name);
  attend_json_put_boolean(s->w, value);
}
static void id(sheet *s, const char *name, const int *value) {
  if (value && *value >= 0) number(s, name, *value);
}

/* ---- families ---------------------------------------------------------------- */

static void write_gpt2(sheet *s) {
  const attend_architecture *a = s->a;
  number(s, "n_layer", a->layers);
  number(s, "n_embd", a->width);
  number(s, "n_head", a->heads);
  number(s, "n_inner", a->mlp);
  number(s, "n_positions", a->positions);
  number(s, "n_ctx", a->positions);
  text(s, "activation_function", "gelu_new");
  real(s, "layer_norm_epsilon", 1e-5);
}

static void write_llama(sheet *s) {
  const attend_architecture *a = s->a;
  number(s, "num_hidden_layers", a->layers);
  number(s, "hidden_size", a->width);
  number(s, "num_attention_heads", a->heads);
  number(s, "num_key_value_heads", a->kv_heads);
  number(s, "head_dim", a->width / a->heads);
  number(s, "intermediate_size", a->mlp);
  number(s, "max_position_embeddings", a->positions);
  text(s, "hidden_act", "silu");
  real(s, "rms_norm_eps", 1e-5);
  real(s, "rope_theta", 10000);
  truth(s, "attention_bias", false);
  truth(s, "mlp_bias", false);
}

static void write_bert(sheet *s) {
  const attend_architecture *a = s->a;
  number(s, "num_hidden_layers", a->layers);
  number(s, "hidden_size", a->width);
  number(s, "num_attention_heads", a->heads);
  number(s, "intermediate_size", a->mlp);
  number(s, "max_position_embeddings", a->positions);
  number(s, "type_vocab_size", 2);
  text(s, "hidden_act", "gelu");
  real(s, "layer_norm_eps", 1e-12);
}

static void write_bart(sheet *s) {
  const attend_architecture *a = s->a;
  number(s, "d_model", a->decoder_width);
  if (a->width != a->decoder_width) number(s, "attend_encoder_width", a->width);
  number(s, "encoder_layers", a->layers);
  number(s, "decoder_layers", a->decoder_layers);
  number(s, "encoder_attention_heads", a->heads);
  number(s, "decoder_attention_heads", a->decoder_heads);
  number(s, "encoder_ffn_dim", a->mlp);
  number(s, "decoder_ffn_dim", a->decoder_mlp);
  number(s, "max_position_embeddings", a->positions);
  text(s, "activation_function", "gelu");
  truth(s, "scale_embedding", false);
  truth(s, "is_encoder_decoder", true);
  id(s, "decoder_start_token_id", a->eos);
  id(s, "forced_eos_token_id", a->eos);
}

static bool is_lopsided(const attend_architecture *a) {
  return a->width != a->decoder_width || a->heads != a->decoder_heads ||
         a->mlp != a->decoder_mlp;
}

/* T5 has one size for both sides: where they differ, ours say the encoder's. */
static void write_t5_sides(sheet *s) {
  const attend_architecture *a = s->a;
  number(s, "d_model", a->decoder_width);
  number(s, "num_layers", a->layers);
  number(s, "num_decoder_layers", a->decoder_layers);
  number(s, "num_heads", a->decoder_heads);
  number(s, "d_kv", a->decoder_width / a->decoder_heads);
  number(s, "d_ff", a->decoder_mlp);
  if (!is_lopsided(a)) return;
  number(s, "attend_encoder_width", a->width);
  number(s, "attend_encoder_heads", a->heads);
  number(s, "attend_encoder_d_kv", a->width / a->heads);
  number(s, "attend_encoder_d_ff", a->mlp);
}

static void write_t5(sheet *s) {
  const attend_architecture *a = s->a;
  write_t5_sides(s);
  number(s, "n_positions", a->positions);
  text(s, "feed_forward_proj", "relu");
  number(s, "relative_attention_num_buckets", 32);
  number(s, "relative_attention_max_distance", 128);
  real(s, "layer_norm_epsilon", 1e-6);
  truth(s, "scale_decoder_outputs", !a->untied);
  truth(s, "is_encoder_decoder", true);
  id(s, "decoder_start_token_id", a->pad);
}

static const struct {
  const char *family, *class;
  void (*write)(sheet *s);
} known[] = {{"gpt2", "GPT2LMHeadModel", write_gpt2},
             {"llama", "LlamaForCausalLM", write_llama},
             {"bert", "BertForMaskedLM", write_bert},
             {"bart", "BartForConditionalGeneration", write_bart},
             {"t5", "T5ForConditionalGeneration", write_t5}};

/* ---- the whole ---------------------------------------------------------------- */

static int find(const char *name) {
  for (int i = 0; i < (int)(sizeof known / sizeof *known); i++)
    if (!strcmp(known[i].family, name)) return i;
  return -1;
}

static attend_architecture complete(const attend_architecture *given) {
  attend_architecture a = *given;
  if (!a.family) a.family = "gpt2";
  if (!a.layers) a.layers = 4;
  if (!a.decoder_layers) a.decoder_layers = a.layers;
  if (!a.width) a.width = 256;
  if (!a.heads) a.heads = 4;
  if (!a.kv_heads) a.kv_heads = a.heads;
  if (!a.positions) a.positions = 512;
  if (!a.mlp)
    a.mlp = strcmp(a.family, "llama")
                ? 4 * a.width
                : (int)round_up((size_t)(8 * a.width / 3), 32);
  if (!a.decoder_width) a.decoder_width = a.width;
  if (!a.decoder_heads) a.decoder_heads = a.heads;
  if (!a.decoder_mlp)
    a.decoder_mlp = a.decoder_width == a.width ? a.mlp : 4 * a.decoder_width;
  return a;
}

static attend_status check_sides(attend_context *ctx,
                                 const attend_architecture *a) {
  bool both = !strcmp(a->family, "bart") || !strcmp(a->family, "t5");
  ATTEND_CHECK(
      ctx, both || !is_lopsided(a),
      "a %s has one side: bart and t5 have a decoder that may be wider "
      "or narrower than their encoder",
      a->family);
  ATTEND_CHECK(ctx, !a->copy || (both && a->copy > 0),
               "a copy head of width %d in a %s: it has a width of 1 or more, "
               "and copies what an encoder of bart or t5 has read",
               a->copy, a->family);
  ATTEND_CHECK(ctx, a->decoder_width > 0 && a->decoder_mlp > 0,
               "a decoder cannot have a width of %d, or of %d inside",
               a->decoder_width, a->decoder_mlp);
  ATTEND_CHECK(ctx,
               a->decoder_heads > 0 && a->decoder_width % a->decoder_heads == 0,
               "a decoder's width of %d cannot be cut into %d heads: choose "
               "the number of its heads",
               a->decoder_width, a->decoder_heads);
  return ATTEND_OK;
}

/* Asked as a reader of the config.json would ask. */
static attend_status check_roles(attend_context *ctx,
                                 const attend_architecture *a) {
  attend_form form = {0}, forms[ATTEND_ROLES];
  bool both = !strcmp(a->family, "bart") || !strcmp(a->family, "t5");
  attend_config c = {.parts = both                         ? ATTEND_BOTH
                              : !strcmp(a->family, "bert") ? ATTEND_ENCODER
                                                           : ATTEND_DECODER};
  snprintf(c.family, sizeof c.family, "%s", a->family);
  if (a->attention) ATTEND_TRY(attend_form_parse(ctx, a->attention, &form));
  return attend_config_forms(ctx, &c, a->attention ? &form : NULL, a->roles,
                             forms);
}

static attend_status check(attend_context *ctx, const attend_architecture *a) {
  ATTEND_CHECK(ctx, find(a->family) >= 0,
               "a new model is gpt2, llama, bert, bart or t5, not \"%.40s\"",
               a->family);
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
               "%d heads cannot share %d key-value heads", a->heads,
               a->kv_heads);
  ATTEND_CHECK(ctx, strcmp(a->family, "llama") || a->width / a->heads % 2 == 0,
               "%d heads of a width of %d have %d numbers each: llama turns "
               "them in pairs, so choose an even one",
               a->heads, a->width, a->width / a->heads);
  ATTEND_TRY(check_sides(ctx, a));
  return check_roles(ctx, a);
}

static void write_all(sheet *s, int kind) {
  const attend_architecture *a = s->a;
  attend_json_indent(s->w, true);
  attend_json_open(s->w, '{');
  attend_json_member(s->w, "architectures");
  attend_json_open(s->w, '[');
  attend_json_put_string(s->w, known[kind].class);
  attend_json_close(s->w, ']');
  text(s, "model_type", a->family);
  number(s, "vocab_size", a->vocab);
  known[kind].write(s);
  truth(s, "tie_word_embeddings", !a->untied);
  id(s, "bos_token_id", a->bos);
  id(s, "eos_token_id", a->eos);
  id(s, "pad_token_id", a->pad);
  if (a->copy) number(s, "attend_copy_width", a->copy);
  if (a->attention) text(s, "attend_attention", a->attention);
  char roles[ATTEND_ROLES_TEXT];
  if (a->roles)
    text(s, "attend_attention_roles", attend_roles_text(a->roles, roles));
  attend_json_close(s->w, '}');
}

attend_status attend_config_write(attend_context *ctx, const char *path,
                                  const attend_architecture *architecture) {
  attend_architecture a = complete(architecture);
  ATTEND_TRY(check(ctx, &a));
  attend_json_writer w = attend_json_writer_text(ctx);
  write_all(&(sheet){&w, &a}, find(a.family));
  attend_status status = attend_json_finish(&w);
  if (!status) status = attend_file_write(ctx, path, w.text, w.length);
  attend_json_writer_free(&w);
  return status;
}
