/* Checkpoints that lie are refused in one sentence that names the file or the
 * tensor; those that are only laid out otherwise (other prefixes, shards, 16-bit
 * floats, odd addresses) give what they should. */
#include "changed_checkpoints.h"

__attribute__((destructor)) static void leave_nothing(void) { remove_folder(); }

static attend_context *threaded_context(void) {
  static attend_context *ctx;
  if (!ctx) ctx = open_context(NULL, 2, NULL);
  return ctx;
}

/* ---- refusals ------------------------------------------------------------------------ */

static void refuse(const char *why) {
  attend_checkpoint *c = NULL;
  attend_status status = attend_checkpoint_open(threaded_context(), models_folder(), &c);
  const char *message = attend_message(threaded_context());
  if (!status) CHECK_FAIL("a file is taken that should be refused: %s", why);
  CHECK(status == ATTEND_IO || status == ATTEND_INVALID || status == ATTEND_UNSUPPORTED || !status);
  CHECK(!status == (c != NULL));
  if (status) {
    CHECK_SAYS(message, why);
    CHECK(!strchr(message, '\n'));
  }
  attend_checkpoint_free(c);
}

static void refuse_forged(forgery *f, const char *why) {
  forge_write(f);
  forge_free(f);
  refuse(why);
}

TEST(tensors_that_are_not_what_they_should_be) {
  forgery *f = forge("gpt2");
  forge_drop(f, "transformer.h.1.mlp.c_fc.bias");
  refuse_forged(f, "\"transformer.h.1.mlp.c_fc.bias\" is missing");
  f = forge("gpt2");
  forge_drop(f, "transformer.wte.weight");
  refuse_forged(f, "wte.weight");
  f = forge("bart");
  forge_drop(f, "model.decoder.layers.1.encoder_attn.q_proj.weight");
  refuse_forged(f, "\"model.decoder.layers.1.encoder_attn.q_proj.weight\"");
  f = forge("gpt2"); /* as many elements, transposed */
  forged *t = forge_find(f, "transformer.h.0.attn.c_attn.weight");
  t->shape[0] = 144;
  t->shape[1] = 48;
  refuse_forged(f, "\"transformer.h.0.attn.c_attn.weight\" is 144 x 48");
  f = forge("gpt2");
  t = forge_find(f, "transformer.h.0.attn.c_attn.weight");
  t->rank = 3;
  t->shape[2] = 1;
  refuse_forged(f, "\"transformer.h.0.attn.c_attn.weight\"");
  f = forge("gpt2");
  t = forge_find(f, "transformer.wte.weight");
  t->shape[1] = 47;
  t->bytes = 211 * 47 * 4;
  refuse_forged(f, "\"transformer.wte.weight\" is 211 x 47");
  f = forge("gpt2");
  t = forge_find(f, "transformer.h.1.ln_1.weight");
  free(t->data);
  t->rank = 3;
  t->shape[1] = t->shape[2] = 2;
  t->bytes *= 4;
  t->data = zeroed_block(t->bytes, 1);
  refuse_forged(f, "\"transformer.h.1.ln_1.weight\"");
  f = forge("gpt2"); /* stored by bytes */
  t = forge_find(f, "transformer.h.2.ln_1.weight");
  t->dtype = "I8";
  t->bytes /= 4;
  refuse_forged(f, "\"transformer.h.2.ln_1.weight\" is stored as I8");
  f = forge("gpt2");
  t = forge_find(f, "transformer.h.2.ln_1.weight");
  t->dtype = "I32";
  refuse_forged(f, "stored as I32");
}

/* The header says one thing and the bytes another. */
static void refuse_image(void (*lie)(file_image *), const char *why) {
  forgery *f = forge("gpt2");
  file_image image = forge_image(f, 0, f->count);
  lie(&image);
  image_write(&image, "model.safetensors");
  forge_write_config(f);
  forge_free(f);
  refuse("model.safetensors");
  CHECK_SAYS(attend_message(threaded_context()), why);
}

static void cut_off(file_image *image) { image->length -= 1; }
static void cut_short(file_image *image) { image->length = 8 + 20; }
static void empty(file_image *image) { image->length = 0; }
static void too_long(file_image *image) { image_length(image, 1ull << 62); }
static void longer(file_image *image) { image_length(image, image->header + 1); }
static void overlap(file_image *image) { image_lie(image, "[576,28224]", "[572,28220]"); }
static void backwards(file_image *image) { image_lie(image, "[0,576]", "[576,0]"); }
static void hole(file_image *image) {
  image_lie(image, "\"shape\":[144],\"data_offsets\":[0,576]",
            "\"shape\":[143],\"data_offsets\":[0,572]");
}
static void misfit(file_image *image) { image_lie(image, "\"shape\":[144]", "\"shape\":[145]"); }
static void twice(file_image *image) {
  image_lie(image, "transformer.h.1.ln_1.bias", "transformer.h.0.ln_1.bias");
}
static void no_json(file_image *image) { image->bytes[9] = '\\'; }

TEST(files_that_lie) {
  refuse_image(cut_off, "beyond the end");
  refuse_image(cut_short, "cut off");
  refuse_image(empty, "0 bytes");
  refuse_image(too_long, "is not one");
  refuse_image(longer, "JSON");
  refuse_image(overlap, "overlaps");
  refuse_image(backwards, "backwards");
  refuse_image(hole, "hole");
  refuse_image(misfit, "do not fit");
  refuse_image(twice, "comes twice");
  refuse_image(no_json, "JSON");
}

TEST(folders_without_weights) {
  forgery *f = forge("gpt2");
  refuse("has no config.json"); /* nothing in it */
  forge_write_config(f);
  refuse("model.safetensors");
  mkdir(in_folder("model.safetensors"), 0700);
  refuse("model.safetensors");
  empty_folder();
  attend_checkpoint *c;
  CHECK_EQ(attend_checkpoint_open(threaded_context(), "/nowhere/at/all", &c), ATTEND_IO);
  CHECK_SAYS(attend_message(threaded_context()), "/nowhere/at/all");
  forge_free(f);
}

static void refuse_index(const char *index, const char *why) {
  forgery *f = forge("gpt2");
  forge_write_shards(f);
  write_in_folder("model.safetensors.index.json", index, strlen(index));
  refuse(why);
  forge_free(f);
}

TEST(indices_that_lie) {
  const char *name = "model.safetensors.index.json";
  refuse_index("", name);
  refuse_index("{", name);
  refuse_index("[]", "no weight_map");
  refuse_index("{}", "no weight_map");
  refuse_index("{\"weight_map\":{}}", "no weight_map");
  refuse_index("{\"weight_map\":[\"a.safetensors\"]}", "no weight_map");
  refuse_index("{\"weight_map\":{\"x\":3}}", "\"x\"");
  refuse_index("{\"weight_map\":{\"x\":\"../a.safetensors\"}}", "\"x\"");
  refuse_index("{\"weight_map\":{\"x\":\"/etc/passwd\"}}", "\"x\"");
  refuse_index("{\"weight_map\":{\"x\":\"..\"}}", "\"x\"");
  refuse_index("{\"weight_map\":{\"x\":\"\"}}", "\"x\"");
  refuse_index("{\"weight_map\":{\"x\":\".\"}}", "not a file");
  refuse_index("{\"weight_map\":{\"x\":\"d.safetensors\"}}", "d.safetensors");
  refuse_index("{\"weight_map\":{\"x\":\"config.json\"}}", "config.json");
  refuse_index("{\"weight_map\":{\"x\":\"a.safetensors\"}}", "gpt2");
  refuse_index("{\"weight_map\":{\"x\":\"a.safetensors\",\"x\":\"b\"}}", name);
}

/* ---- the same weights, laid out otherwise ------------------------------------------------ */

enum { TOKENS = 9, VOCAB = 211 };
static float reference[TOKENS * VOCAB], got[TOKENS * VOCAB];

static void logits_of(const char *path, float *logits) {
  subject s = open_path(threaded_context(), path, NULL);
  attend_session *run = open_run(&s, 1, 0);
  int32_t *ids = random_ids(s.config, 71, TOKENS);
  read_source(run, &s, 1, 9);
  if (s.config->parts == ATTEND_ENCODER)
    OK(s.ctx, attend_session_encode(run, 1, TOKENS, ids, NULL, NULL));
  else
    OK(s.ctx, attend_session_extend(run, 1, TOKENS, ids, NULL));
  OK(s.ctx, attend_session_logits(run, TOKENS, NULL, logits));
  free(ids);
  attend_session_free(run);
  close_files(&s);
}

/* bound 0: the same bits; otherwise of the largest. */
static void check_written(forgery *f, double bound) {
  double worst = 0, largest = 0;
  logits_of(models_folder(), got);
  if (bound == 0) CHECK(same_bits(got, reference, TOKENS * VOCAB));
  for (int i = 0; i < TOKENS * VOCAB; i++) {
    worst = fmax(worst, fabs((double)got[i] - (double)reference[i]));
    largest = fmax(largest, fabs((double)reference[i]));
  }
  if (bound > 0) CHECK(worst > 0);
  CHECK_NEAR(worst / largest, 0, bound);
  forge_free(f);
}

static forgery *forge_known(const char *family) {
  logits_of(model_path(family, NULL), reference);
  return forge(family);
}

static void check_same(forgery *f) {
  forge_write(f);
  check_written(f, 0);
}

TEST(shards_are_one_checkpoint) {
  static const char *const names[] = {"gpt2", "bart", "bert"};
  for (int i = 0; i < 3; i++) {
    forgery *f = forge_known(names[i]);
    forge_write_shards(f);
    check_written(f, 0);
  }
}

TEST(odd_addresses) {
  static const char *const names[] = {"gpt2", "bert", "t5", "llama-gqa"};
  for (int i = 0; i < 4; i++)
    for (int spaces = 1; spaces < (light() ? 2 : 4); spaces++) {
      forgery *f = forge_known(names[i]);
      f->spaces = spaces;
      check_same(f);
    }
  forgery *f = forge_known("gpt2");
  f->spaces = 1;
  forge_store(f, ATTEND_BF16);
  forge_write(f);
  check_written(f, 2e-2);
}

/* 16-bit weights are their f32 values, to the bit, and near the unrounded. */
static void check_narrow(const char *family, attend_dtype dtype, double bound) {
  float *unrounded = zeroed_block(TOKENS * VOCAB, sizeof *unrounded);
  forgery *f = forge_known(family);
  memcpy(unrounded, reference, sizeof reference);
  forge_round(f, dtype);
  forge_write(f);
  logits_of(models_folder(), reference);
  forge_store(f, dtype);
  forge_write(f);
  logits_of(models_folder(), got);
  CHECK(same_bits(got, reference, TOKENS * VOCAB));
  memcpy(reference, unrounded, sizeof reference);
  free(unrounded);
  check_written(f, bound);
}

TEST(sixteen_bit_weights) {
  for (int i = 0; families[i]; i++) {
    check_narrow(families[i], ATTEND_F16, 0.02);
    check_narrow(families[i], ATTEND_BF16, 0.15);
  }
}

TEST(prefixes) {
  static const char *const cases[][3] = {{"gpt2", "transformer.", ""},
                                         {"gpt2", "transformer.", "model."},
                                         {"gpt2", "transformer.", "module.transformer."},
                                         {"bert", "bert.", ""},
                                         {"bert", "bert.", "encoder.bert."},
                                         {"roberta", "roberta.", ""},
                                         {"distilbert", "distilbert.", ""},
                                         {"bart", "model.", ""},
                                         {"llama-mqa-tied", "model.", ""},
                                         {"llama-mqa-tied", "model.", "a.b.c."}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    forgery *f = forge_known(cases[i][0]);
    forge_rename(f, cases[i][1], cases[i][2]);
    check_same(f);
  }
  static const char *const whole[] = {"gpt2", "bert", "llama-gqa", "t5"};
  for (int i = 0; i < 4; i++) { /* the heads too */
    forgery *f = forge_known(whole[i]);
    forge_rename(f, "", "module.");
    check_same(f);
  }
}

TEST(names_from_tensorflow) {
  forgery *f = forge_known("bert");
  forge_end(f, "LayerNorm.weight", "LayerNorm.gamma");
  forge_end(f, "LayerNorm.bias", "LayerNorm.beta");
  check_same(f);
}

/* A tied head may lie in the file or not: it is the embedding table. */
TEST(tied_heads) {
  forgery *f = forge_known("gpt2");
  forged *table = forge_find(f, "transformer.wte.weight");
  forged *head = forge_add(f, "lm_head.weight", 2, 211, 48);
  memcpy(head->data, table->data, table->bytes);
  check_same(f);
  f = forge_known("gpt2"); /* and where it is not, it is its own */
  table = forge_find(f, "transformer.wte.weight");
  head = forge_add(f, "lm_head.weight", 2, 211, 48);
  memcpy(head->data, table->data, table->bytes);
  forge_config(f, "tie_word_embeddings", "false");
  check_same(f);
  f = forge("gpt2");
  forge_config(f, "tie_word_embeddings", "false");
  forge_write(f);
  attend_checkpoint *c;
  attend_model *m;
  OK(threaded_context(), attend_checkpoint_open(threaded_context(), models_folder(), &c));
  CHECK(!attend_checkpoint_has_head(c));
  OK(threaded_context(), attend_model_create(c, NULL, &m));
  subject s = {threaded_context(), c, m, attend_model_config(m)};
  attend_session *run = open_run(&s, 1, 0);
  int32_t id = 5;
  OK(threaded_context(), attend_session_extend(run, 1, 1, &id, NULL));
  CHECK_EQ(attend_session_next(run, 1, got), ATTEND_INVALID);
  CHECK_SAYS(attend_message(threaded_context()), "no head");
  attend_session_free(run);
  close_files(&s);
  forge_free(f);
}

TEST(what_is_not_asked_for_is_listed) {
  forgery *f = forge_known("gpt2");
  forge_add(f, "transformer.h.0.attn.bias", 2, 64, 64);
  forged *t = forge_add(f, "counter", 1, 2, 0);
  t->dtype = "I64";
  t->shape[0] = 1;
  forge_write(f);
  attend_checkpoint *c;
  OK(threaded_context(), attend_checkpoint_open(threaded_context(), models_folder(), &c));
  const attend_tensor *first = attend_checkpoint_unused(c, 0);
  const attend_tensor *second = attend_checkpoint_unused(c, 1);
  CHECK(first && !strcmp(first->name, "transformer.h.0.attn.bias"));
  CHECK(second && !strcmp(second->name, "counter"));
  CHECK(!attend_checkpoint_unused(c, 2));
  attend_checkpoint_free(c);
  check_written(f, 0);
}

/* The table lists every parameter once, and its tensors fit. */
TEST(the_parameter_table) {
  for (int i = 0; families[i]; i++) {
    attend_checkpoint *c;
    attend_parameter p;
    size_t n = 0, bytes = 0;
    OK(threaded_context(),
       attend_checkpoint_open(threaded_context(), model_path(families[i], NULL), &c));
    for (; attend_checkpoint_get(c, n, &p); n++) {
      if (!p.tensor) continue;
      bytes += p.tensor->bytes;
      int64_t count = p.shape[0] * (p.rank > 1 ? p.shape[1] : 1);
      CHECK_EQ(p.tensor->count, count);
      CHECK(!strcmp(p.name, p.tensor->name));
    }
    const attend_tensor *t;
    for (size_t u = 0; (t = attend_checkpoint_unused(c, u)); u++) bytes += t->bytes;
    CHECK_EQ(bytes, attend_checkpoint_bytes(c));
    CHECK(attend_checkpoint_has_head(c));
    attend_checkpoint_free(c);
  }
}

static float *encoded(const char *path, size_t *count) {
  subject s = open_path(open_context(NULL, 1, NULL), path, NULL);
  attend_session *run = open_run(&s, 1, 0);
  int32_t ids[7] = {9, 8, 7, 60, 50, 40, 1};
  int ld, width = s.config->encoder.width;
  OK(s.ctx, attend_session_encode(run, 1, 7, ids, NULL, NULL));
  const float *x = attend_session_hidden(run, &ld);
  CHECK_EQ(ld, width);
  *count = 7 * (size_t)ld;
  float *kept = copy_of(x, *count * sizeof *x);
  attend_session_free(run);
  close_model(&s);
  return kept;
}

/* T5's sentence encoders have no decoder, and no head. */
TEST(an_encoder_alone) {
  static const char half[] = "decoder.";
  size_t count;
  float *want = encoded(model_path("t5", NULL), &count);
  forgery *f = forge("t5");
  for (int i = f->count; i-- > 0;)
    if (!strncmp(f->tensor[i].name, half, strlen(half))) forge_drop(f, f->tensor[i].name);
  forge_write(f);
  refuse("is missing");
  forge_config(f, "architectures", NULL);
  forge_config(f, "architectures", "[\"T5EncoderModel\"]");
  forge_write(f);
  float *alone = encoded(models_folder(), &count);
  CHECK(same_bits(alone, want, count));
  forge_free(f);
  free(want);
  free(alone);
}
