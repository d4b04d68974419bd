/* config.json: sizes that are none, heads that do not divide, names that are not
 * known, files that are no JSON: one sentence that names the file and the
 * setting. And what checkpoints leave out has its usual value. */
#include "changed_checkpoints.h"

__attribute__((destructor)) static void leave_nothing(void) { remove_folder(); }

/* Both doors refuse: the configuration alone, and the checkpoint. */
static void refuse(const char *why, const char *what) {
  attend_config config;
  attend_checkpoint *c = NULL;
  attend_status status = config_read(context(), models_folder(), &config);
  const char *message = attend_message(context());
  if (!status) CHECK_FAIL("%s is taken", what);
  if (status) {
    CHECK(status == ATTEND_IO || status == ATTEND_INVALID || status == ATTEND_UNSUPPORTED);
    CHECK_SAYS(message, "config.json");
    CHECK_SAYS(message, why);
    CHECK(!strchr(message, '\n'));
  }
  CHECK(attend_checkpoint_open(context(), models_folder(), &c));
  CHECK(!c);
  attend_checkpoint_free(c);
}

static void refuse_setting(const char *family, const char *name, const char *value,
                           const char *why) {
  char what[200];
  forgery *f = forge(family);
  snprintf(what, sizeof what, "%s: %s = %s", family, name, value ? value : "nothing");
  forge_config(f, name, value);
  forge_write(f);
  forge_free(f);
  refuse(why, what);
}

/* ---- sizes ------------------------------------------------------------------------------ */

TEST(sizes_that_are_none) {
  static const char *const values[] = {
      "0",  "-1",   "-4294967248",           "1.5",       "48.5",      "1e300", "\"48\"", "[48]",
      "{}", "true", "999999999999999999999", "268435457", "2147483648"};
  static const char *const settings[][2] = {{"gpt2", "n_embd"},
                                            {"gpt2", "n_layer"},
                                            {"gpt2", "n_head"},
                                            {"gpt2", "vocab_size"},
                                            {"gpt2", "n_positions"},
                                            {"llama-gqa", "hidden_size"},
                                            {"llama-gqa", "head_dim"},
                                            {"llama-gqa", "num_key_value_heads"},
                                            {"bert", "type_vocab_size"},
                                            {"bart", "d_model"},
                                            {"bart", "encoder_layers"},
                                            {"bart", "decoder_attention_heads"},
                                            {"t5", "d_kv"},
                                            {"t5", "relative_attention_num_buckets"},
                                            {"t5", "d_ff"},
                                            {"distilbert", "dim"}};
  for (size_t s = 0; s < sizeof settings / sizeof *settings; s++)
    for (size_t v = 0; v < sizeof values / sizeof *values; v++)
      if (!light() || (s + v) % 4 == 0)
        refuse_setting(settings[s][0], settings[s][1], values[v], settings[s][1]);
}

TEST(sizes_that_are_missing) {
  static const char *const settings[][2] = {
      {"gpt2", "n_embd"},         {"gpt2", "vocab_size"},    {"llama-gqa", "num_hidden_layers"},
      {"bert", "hidden_size"},    {"roberta", "vocab_size"}, {"distilbert", "n_heads"},
      {"bart", "decoder_layers"}, {"t5", "d_model"}};
  for (size_t s = 0; s < sizeof settings / sizeof *settings; s++) {
    refuse_setting(settings[s][0], settings[s][1], NULL, settings[s][1]);
    refuse_setting(settings[s][0], settings[s][1], "null", settings[s][1]);
  }
}

/* Large and lawful: no memory is taken for what the files cannot have. */
TEST(sizes_that_the_files_do_not_have) {
  static const char *const settings[][3] = {{"gpt2", "n_layer", "60000"},
                                            {"gpt2", "n_layer", "4"},
                                            {"gpt2", "vocab_size", "250000000"},
                                            {"gpt2", "n_positions", "65"},
                                            {"gpt2", "n_inner", "100"},
                                            {"bart", "encoder_layers", "3"},
                                            {"t5", "d_kv", "8"},
                                            {"llama-gqa", "intermediate_size", "8"}};
  for (size_t s = 0; s < sizeof settings / sizeof *settings; s++) {
    forgery *f = forge(settings[s][0]);
    ledger memory = {0};
    attend_context *ctx = open_context(NULL, 1, &memory);
    attend_checkpoint *c;
    forge_config(f, settings[s][1], settings[s][2]);
    forge_write(f);
    forge_free(f);
    attend_status status = attend_checkpoint_open(ctx, models_folder(), &c);
    if (status != ATTEND_IO || memory.bytes > 64 << 20)
      CHECK_FAIL("%s = %s gives %d and takes %zu bytes", settings[s][1], settings[s][2],
                 (int)status, memory.bytes);
    CHECK(!c);
    attend_checkpoint_free(c);
    attend_context_free(ctx);
  }
}

TEST(heads_that_do_not_divide) {
  refuse_setting("gpt2", "n_head", "5", "5 heads");
  refuse_setting("bert", "num_attention_heads", "7", "7 heads");
  refuse_setting("bart", "decoder_attention_heads", "9", "9 heads");
  refuse_setting("llama-gqa", "num_key_value_heads", "4", "6 heads");
  refuse_setting("llama-gqa", "num_key_value_heads", "7", "6 heads");
  refuse_setting("llama-gqa", "head_dim", "7", "even head_dim");
  refuse_setting("gpt2", "n_head", "200000000", "heads");
  refuse_setting("roberta", "pad_token_id", "39", "pad_token_id");
  refuse_setting("roberta", "pad_token_id", "2000000000", "pad_token_id");
}

/* ---- names and switches ------------------------------------------------------------------- */

TEST(names_that_are_not_known) {
  refuse_setting("gpt2", "model_type", "\"mamba\"", "\"mamba\"");
  refuse_setting("gpt2", "model_type", "\"\"", "model");
  refuse_setting("gpt2", "model_type", "7", "model_type");
  refuse_setting("gpt2", "model_type", NULL, "model_type");
  refuse_setting("gpt2", "activation_function", "\"quick_gelu\"", "\"quick_gelu\"");
  refuse_setting("llama-gqa", "hidden_act", "\"relu6\"", "\"relu6\"");
  refuse_setting("t5", "feed_forward_proj", "\"gated-\"", "activation");
  refuse_setting("llama-gqa", "rope_parameters", "{\"rope_type\": \"longrope\"}", "\"longrope\"");
  refuse_setting("gpt2", "tie_word_embeddings", "1", "tie_word_embeddings");
  refuse_setting("gpt2", "add_cross_attention", "true", "add_cross_attention");
  refuse_setting("bert", "is_decoder", "true", "is_decoder");
  refuse_setting("bert", "position_embedding_type", "\"relative_key\"", "\"relative_key\"");
  refuse_setting("gpt2", "layer_norm_epsilon", "\"small\"", "layer_norm_epsilon");
  refuse_setting("gpt2", "layer_norm_epsilon", "1e999", "a double");
}

/* ---- types ------------------------------------------------------------------------------------ */

/* family, key, a value of another type or without sense, what the sentence has
 * to say of it: what was found and what is expected. */
static const char *const nonsense[][4] = {
    {"llama-gqa", "hidden_act", "5", "hidden_act is 5: expected a string"},
    {"llama-gqa", "hidden_act", "[]", "hidden_act is an array of 0"},
    {"llama-gqa", "rope_theta", "\"500000\"", "rope_theta is \"500000\": expected a number"},
    {"llama-gqa", "rope_theta", "-1", "rope_theta is -1: expected a number"},
    {"llama-gqa", "rope_theta", "0", "rope_theta is 0: expected a number"},
    {"llama-gqa", "rope_parameters", "5", "rope_parameters is 5"},
    {"llama-gqa", "rope_parameters", "{\"rope_type\": 5}", "rope_type is 5: expected a string"},
    {"llama-gqa", "rope_parameters", "{\"type\": [5]}", "type is an array"},
    {"llama-gqa", "rope_parameters", "{\"rope_theta\": true}",
     "rope_theta is true: expected a number"},
    {"llama-gqa", "rope_parameters", "{\"factor\": \"4\"}", "factor is \"4\""},
    {"llama-gqa", "rope_parameters", "{\"factor\": -4}", "factor is -4"},
    {"llama-gqa", "rope_parameters", "{\"original_max_position_embeddings\": {}}",
     "original_max_position_embeddings is an object"},
    {"llama-gqa", "rope_parameters", "{\"rope_type\": \"llama3\", \"low_freq_factor\": \"1\"}",
     "low_freq_factor is \"1\""},
    {"llama-gqa", "rope_parameters", "{\"rope_type\": \"yarn\", \"beta_fast\": false}",
     "beta_fast is false"},
    {"llama-gqa", "rope_parameters", "{\"rope_type\": \"yarn\", \"attention_factor\": -1}",
     "attention_factor is -1"},
    {"llama-gqa", "rms_norm_eps", "1e39",
     "rms_norm_eps is 1e+39: expected a number from 1e-30 to 1"},
    {"llama-gqa", "rms_norm_eps", "-1", "rms_norm_eps is -1"},
    {"llama-gqa", "rms_norm_eps", "0", "rms_norm_eps is 0"},
    {"llama-gqa", "rms_norm_eps", "1e-60", "rms_norm_eps is 1e-60"},
    {"llama-gqa", "attention_bias", "\"no\"", "attention_bias is \"no\""},
    {"llama-gqa", "sliding_window", "\"4096\"", "sliding_window is"},
    {"llama-gqa", "attend_attention", "5", "attend_attention is 5"},
    {"llama-gqa", "attend_attention_roles", "5", "attend_attention_roles is 5"},
    {"gpt2", "layer_norm_epsilon", "-1e-5", "layer_norm_epsilon is -1e-05"},
    {"gpt2", "activation_function", "true", "activation_function is true"},
    {"gpt2", "scale_attn_weights", "0", "scale_attn_weights is 0"},
    {"gpt2", "model_type", "7", "model_type is 7: expected a string"},
    {"bert", "layer_norm_eps", "\"1e-12\"", "layer_norm_eps is \"1e-12\""},
    {"bert", "position_embedding_type", "5", "position_embedding_type is 5"},
    {"bert", "hidden_act", "{\"a\": 1}", "hidden_act is an object"},
    {"distilbert", "activation", "1.5", "activation is 1.5"},
    {"roberta", "pad_token_id", "\"1\"", "pad_token_id is \"1\""},
    {"bart", "scale_embedding", "1", "scale_embedding is 1"},
    {"bart", "attend_copy_width", "\"8\"", "attend_copy_width is \"8\""},
    {"t5", "layer_norm_epsilon", "2", "layer_norm_epsilon is 2"},
    {"t5", "feed_forward_proj", "5", "feed_forward_proj is 5"},
    {"t5", "scale_decoder_outputs", "\"yes\"", "scale_decoder_outputs is"}};

TEST(values_of_the_wrong_type_or_without_sense) {
  static const char *const ids[] = {"bos_token_id",        "eos_token_id",
                                    "pad_token_id",        "decoder_start_token_id",
                                    "forced_bos_token_id", "forced_eos_token_id"};
  static const char *const bad[] = {"\"2\"", "2.5", "true", "{}"};
  for (size_t i = 0; i < sizeof nonsense / sizeof *nonsense; i++)
    refuse_setting(nonsense[i][0], nonsense[i][1], nonsense[i][2], nonsense[i][3]);
  for (size_t i = 0; i < sizeof ids / sizeof *ids; i++)
    for (size_t v = 0; v < sizeof bad / sizeof *bad; v++)
      refuse_setting("gpt2", ids[i], bad[v], ids[i]);
  refuse_setting("gpt2", "eos_token_id", "[1, \"2\"]", "eos_token_id");
}

static void refuse_generation(const char *text, const char *why) {
  attend_config config;
  write_in_folder("generation_config.json", text, strlen(text));
  CHECK_EQ(config_read(context(), models_folder(), &config), ATTEND_IO);
  CHECK_SAYS(attend_message(context()), "generation_config.json");
  CHECK_SAYS(attend_message(context()), why);
}

TEST(a_generation_config_of_the_wrong_types) {
  forgery *f = forge("gpt2");
  forge_write(f);
  refuse_generation("{\"eos_token_id\": \"2\"}", "eos_token_id is \"2\"");
  refuse_generation("{\"pad_token_id\": 1.5}", "pad_token_id is 1.5");
  refuse_generation("{\"eos_token_id\": [null]}", "eos_token_id");
  refuse_generation("[]", "expected an object");
  forge_free(f);
  empty_folder();
}

/* ---- files ---------------------------------------------------------------------------------- */

static void refuse_text(const char *text) {
  forgery *f = forge("gpt2");
  forge_write(f);
  forge_free(f);
  write_in_folder("config.json", text, strlen(text));
  refuse("", text);
}

TEST(files_that_are_no_configuration) {
  refuse_text("");
  refuse_text("null");
  refuse_text("[]");
  refuse_text("{}");
  refuse_text("{\"model_type\": \"gpt2\"}");
  refuse_text("{\"model_type\": \"gpt2\", \"model_type\": \"gpt2\"}");
  refuse_text("{\"model_type\": \"gpt2\",}");
  refuse_text("{\"model_type\": \"gpt\\ud800\"}");
  refuse_text("\xff\xfe{}");
  forgery *f = forge("gpt2"); /* a folder of that name */
  forge_write(f);
  unlink(in_folder("config.json"));
  mkdir(in_folder("config.json"), 0700);
  attend_checkpoint *c;
  CHECK_EQ(attend_checkpoint_open(context(), models_folder(), &c), ATTEND_IO);
  CHECK(!c);
  empty_folder();
  forge_write(f);
  const char *bad = "{\"eos_token_id\": 3";
  write_in_folder("generation_config.json", bad, strlen(bad));
  CHECK_EQ(attend_checkpoint_open(context(), models_folder(), &c), ATTEND_IO);
  CHECK_SAYS(attend_message(context()), "generation_config.json");
  empty_folder();
  forge_free(f);
}

/* ---- what is left out -------------------------------------------------------------------------- */

static attend_config changed(const char *family, const char *name, const char *value) {
  attend_config config;
  forgery *f = forge(family);
  forge_config(f, name, value);
  forge_write_config(f);
  OK(context(), config_read(context(), models_folder(), &config));
  forge_free(f);
  return config;
}

TEST(what_is_left_out_has_its_usual_value) {
  CHECK_EQ(changed("gpt2", "n_inner", NULL).decoder.mlp, 4 * 48);
  CHECK_EQ(changed("gpt2", "activation_function", NULL).activation, ATTEND_GELU_TANH);
  CHECK_EQ(changed("bert", "hidden_act", "\"relu\"").head_activation, ATTEND_RELU);
  CHECK_EQ(changed("roberta", "hidden_act", "\"relu\"").head_activation, ATTEND_GELU);
  CHECK_EQ(changed("gpt2", "n_positions", NULL).positions, 1024);
  CHECK_EQ(changed("gpt2", "tie_word_embeddings", NULL).tied, 1);
  CHECK_EQ(changed("llama-gqa", "head_dim", "null").decoder.dim, 8);
  CHECK_EQ(changed("llama-gqa", "num_key_value_heads", NULL).decoder.kv_heads, 6);
  CHECK_EQ(changed("t5", "num_decoder_layers", NULL).decoder.layers, 2);
  CHECK_EQ(changed("t5", "relative_attention_num_buckets", NULL).buckets, 32);
  CHECK_EQ(changed("bert", "pad_token_id", "99999").pad, -1);
  CHECK_EQ(changed("gpt2", "eos_token_id", "null").n_eos, 0);
  CHECK_EQ(changed("gpt2", "pad_token_id", "-1").pad, -1);
  CHECK_EQ(changed("gpt2", "eos_token_id", "[1,2,3,4,5,6,7,8,9]").n_eos, ATTEND_MOST_EOS);
  attend_config c =
      changed("llama-gqa", "rope_parameters", "{\"rope_type\": \"linear\", \"factor\": 4.0}");
  CHECK_EQ(c.rope.scaling, ATTEND_ROPE_LINEAR);
  CHECK(c.rope.factor == 4 && c.rope.theta == 10000);
}

/* Newer files say rope_parameters, older ones rope_scaling; null is neither. */
TEST(a_null_hides_no_rotary_scaling) {
  forgery *f = forge("llama-gqa");
  attend_config c;
  forge_config(f, "rope_parameters", "null");
  forge_config(f, "rope_scaling", "{\"type\": \"linear\", \"factor\": 4.0}");
  forge_write_config(f);
  OK(context(), config_read(context(), models_folder(), &c));
  CHECK_EQ(c.rope.scaling, ATTEND_ROPE_LINEAR);
  CHECK(c.rope.factor == 4);
  forge_free(f);
}
