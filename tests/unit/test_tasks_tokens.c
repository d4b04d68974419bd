/* attend_text_tokens: a text as a model reads it, against the calls that it is made of. */
#include "attend/generate.h"
#include "attend/intervene.h"
#include "task_models.h"

typedef struct {
  attend_context *ctx;
  attend_model *model;
  attend_tokenizer *tokenizer;
  attend_encoding *encoding;
} bundled;

static bundled open_bundled(const char *path) {
  bundled b = {0};
  CHECK_EQ(attend_context_create(NULL, &b.ctx), ATTEND_OK);
  CHECK_EQ(attend_open(b.ctx, path, &b.model), ATTEND_OK);
  CHECK_EQ(attend_tokenizer_load(b.ctx, path, &b.tokenizer), ATTEND_OK);
  CHECK_EQ(attend_encoding_create(b.tokenizer, &b.encoding), ATTEND_OK);
  return b;
}

static void close_bundled(bundled *b) {
  attend_encoding_free(b->encoding);
  attend_tokenizer_free(b->tokenizer);
  attend_model_free(b->model);
  attend_context_free(b->ctx);
}

static void check_ids(const int32_t *got, int n, const int32_t *want, size_t count) {
  CHECK_EQ(n, count);
  for (int i = 0; i < n && (size_t)i < count; i++) CHECK_EQ(got[i], want[i]);
}

static const char text[] = "The library reads models and computes attention in many forms.";

TEST(a_decoder_reads_a_prompt) {
  bundled b = open_bundled("models/gutenberg");
  attend_text_tokens *t = NULL;
  attend_prompt p;
  CHECK_EQ(attend_text_tokens_create(b.model, b.tokenizer, text, NULL, &t), ATTEND_OK);
  CHECK_EQ(attend_prompt_encode(b.model, b.encoding, text, strlen(text), &p), ATTEND_OK);
  const attend_tokens *x = attend_text_tokens_get(t);
  check_ids(x->ids, x->n, p.ids, (size_t)p.count);
  CHECK(!x->decoder_ids && attend_text_tokens_mask(t) == -1);
  attend_text_tokens_free(t);
  CHECK_EQ(attend_text_tokens_create(b.model, b.tokenizer, text, "more", &t), ATTEND_INVALID);
  CHECK(!t);
  CHECK_SAYS(attend_message(b.ctx), "reads one text");
  const int32_t beyond = 1 << 20;
  const attend_tokens ids = {ATTEND_INIT(attend_tokens), .ids = &beyond, .n = 1};
  CHECK_EQ(attend_text_tokens_of_ids(b.model, NULL, &ids, &t), ATTEND_INVALID);
  CHECK_SAYS(attend_message(b.ctx), "there is no token 1048576");
  close_bundled(&b);
}

/* Without a second text: what it writes, less the last token. */
TEST(an_encoder_decoder_reads_or_writes_a_second_text) {
  bundled b = open_bundled("models/summarizer");
  const int32_t start =
      attend_config_get(attend_model_config(b.model), ATTEND_CONFIG_DECODER_START);
  attend_text_tokens *t = NULL, *again = NULL;
  attend_encode_options plain = {ATTEND_INIT(attend_encode_options), .no_special = true};
  CHECK_EQ(attend_text_tokens_create(b.model, b.tokenizer, text, "a library", &t), ATTEND_OK);
  const attend_tokens *x = attend_text_tokens_get(t);
  CHECK_EQ(x->decoder_ids[0], start);
  CHECK_EQ(attend_encode(b.encoding, "a library", 9, &plain), ATTEND_OK);
  check_ids(x->decoder_ids + 1, x->n_decoder - 1, b.encoding->id, b.encoding->count);
  CHECK_EQ(attend_encode(b.encoding, text, strlen(text), NULL), ATTEND_OK);
  check_ids(x->ids, x->n, b.encoding->id, b.encoding->count);
  attend_text_tokens_free(t);

  CHECK_EQ(attend_text_tokens_create(b.model, b.tokenizer, text, NULL, &t), ATTEND_OK);
  x = attend_text_tokens_get(t);
  attend_generate_options how = {ATTEND_INIT(attend_generate_options), .max_new = 32,
                                 .no_repeat = 3};
  attend_generation *g;
  CHECK_EQ(attend_generate(b.model, 1, &(attend_prompt){x->ids, x->n}, &how, &g), ATTEND_OK);
  const attend_continuation *c = attend_generation_get(g, 0);
  const int written = c->count - (c->end == ATTEND_FINISH_TOKEN);
  CHECK(written > 2);
  check_ids(x->decoder_ids + 1, x->n_decoder - 1, c->ids, (size_t)written - 1);
  attend_generation_free(g);
  const attend_tokens ids = {ATTEND_INIT(attend_tokens), .ids = x->ids, .n = x->n};
  CHECK_EQ(attend_text_tokens_of_ids(b.model, b.tokenizer, &ids, &again), ATTEND_OK);
  const attend_tokens *y = attend_text_tokens_get(again);
  check_ids(y->decoder_ids, y->n_decoder, x->decoder_ids, (size_t)x->n_decoder);
  attend_text_tokens_free(again);
  attend_text_tokens_free(t);
  close_bundled(&b);
}

/* All spellings of a mask are the tokenizer's. */
TEST(masks_are_found) {
  bundled b = open_bundled("models/summarizer");
  static const char *const spelled[] = {"a [MASK] of text", "a <mask> of text", "a ____ of text"};
  const int32_t mask = attend_tokenizer_special(b.tokenizer, ATTEND_SPECIAL_MASK);
  CHECK(mask >= 0);
  for (int i = 0; i < 3; i++) {
    attend_text_tokens *t = NULL;
    CHECK_EQ(attend_text_tokens_create(b.model, b.tokenizer, spelled[i], "a", &t), ATTEND_OK);
    const int at = attend_text_tokens_mask(t);
    CHECK(at > 0 && attend_text_tokens_get(t)->ids[at] == mask);
    attend_text_tokens_free(t);
  }
  close_bundled(&b);
}

static attend_status read_pair(task_model *t) {
  attend_text_tokens *tokens = NULL;
  attend_status status =
      attend_text_tokens_create(t->s.model, t->tokenizer, "one two", "three", &tokens);
  attend_text_tokens_free(tokens);
  return status;
}

TEST(allocations_may_fail) {
  task_model t;
  open_task(&t, "bert");
  fail_allocations(&t, read_pair);
  close_task(&t);
}
