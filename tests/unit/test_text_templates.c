/* Templates that name a text more than once. */
#include "bombs.h"

static attend_tokenizer *load_template(attend_context *ctx, const char *post_processor) {
  sheet s = {0};
  put(&s, "{%s, \"post_processor\": ", letters);
  put_run(&s, post_processor, 1);
  put(&s, "}");
  return load_sheet(ctx, "t.json", &s);
}

#define SEQUENCE(id, type) "{\"Sequence\": {\"id\": \"" id "\", \"type_id\": " type "}}"
#define SPECIAL "{\"SpecialToken\": {\"id\": \"c\", \"type_id\": 0}}"
#define SPECIALS "\"special_tokens\": {\"c\": {\"id\": \"c\", \"ids\": [2]}}"
static const char twice[] =
    "{\"type\": \"TemplateProcessing\", \"single\": [" SPECIAL
    ", " SEQUENCE("A", "0") ", " SEQUENCE("A", "1") "], \"pair\": [" SEQUENCE(
        "A", "0") ", " SEQUENCE("B", "1") ", " SPECIAL ", " SEQUENCE("A", "2") "], " SPECIALS "}";

static void check_encoding(const attend_encoding *e, size_t count, const int32_t *id,
                           const int32_t *type, const signed char *part) {
  CHECK_EQ(e->count, count);
  for (size_t i = 0; i < count && i < e->count; i++) {
    CHECK_EQ(e->id[i], id[i]);
    CHECK_EQ(e->type[i], type[i]);
    CHECK_EQ(e->part[i], part[i]);
  }
}

/* As Hugging Face applies it: the text comes as often as it is named. */
TEST(a_template_repeats_the_text) {
  attend_context *ctx = open_scant();
  attend_tokenizer *t = load_template(ctx, twice);
  attend_encoding *e;
  OK(ctx, attend_encoding_create(t, &e));
  OK(ctx, attend_encode(e, "abb", 3, NULL));
  check_encoding(e, 5, (int32_t[]){2, 3, 1, 3, 1}, (int32_t[]){0, 0, 0, 1, 1},
                 (signed char[]){-1, 0, 0, 0, 0});
  CHECK_EQ(e->start[4], 2);
  CHECK_EQ(e->end[4], 3);
  attend_encode_options o = {ATTEND_INIT(attend_encode_options), .pair = "b", .pair_length = 1};
  OK(ctx, attend_encode(e, "a", 1, &o));
  check_encoding(e, 4, (int32_t[]){0, 1, 2, 0}, (int32_t[]){0, 1, 0, 2},
                 (signed char[]){0, 1, -1, 0});
  o.no_special = true;
  OK(ctx, attend_encode(e, "a", 1, &o));
  CHECK_EQ(e->count, 2);
  attend_encoding_free(e);
  attend_tokenizer_free(t);
  close_scant(ctx);
}

/* max_length counts every time the text is named. */
TEST(a_template_that_repeats_is_truncated) {
  attend_context *ctx = open_scant();
  attend_tokenizer *t = load_template(ctx, twice);
  attend_encoding *e;
  OK(ctx, attend_encoding_create(t, &e));
  attend_encode_options o = {ATTEND_INIT(attend_encode_options), .max_length = 6};
  OK(ctx, attend_encode(e, "aaaa", 4, &o));
  CHECK_EQ(e->count, 5);
  CHECK_EQ(e->dropped, 2);
  o = (attend_encode_options){ATTEND_INIT(attend_encode_options), .pair = "bbbb", .pair_length = 4,
                              .max_length = 10};
  OK(ctx, attend_encode(e, "aaaa", 4, &o));
  CHECK_EQ(e->count, 10);
  CHECK_EQ(e->dropped, 2);
  attend_encoding_free(e);
  attend_tokenizer_free(t);
  close_scant(ctx);
}

TEST(a_template_full_of_texts) {
  attend_context *ctx = open_scant();
  sheet s = {0};
  size_t count;
  put(&s,
      "{%s, \"post_processor\": {\"type\": \"TemplateProcessing\", "
      "\"single\": [",
      letters);
  put_run(&s, SEQUENCE("A", "0") ", ", 31);
  put(&s, SEQUENCE("A", "0") "], \"pair\": [], " SPECIALS "}}");
  attend_tokenizer *t = load_sheet(ctx, "t.json", &s);
  CHECK(encodes(ctx, t, "a", 5000, &count));
  CHECK_EQ(count, 32 * 5000);
  attend_tokenizer_free(t);
  close_scant(ctx);
}

/* There, the second would see several texts, and fails. */
TEST(two_templates_are_refused) {
  attend_context *ctx = open_scant();
  sheet s = {0};
  put(&s, "{\"type\": \"Sequence\", \"processors\": [%s, %s]}", twice, twice);
  char *two = s.text;
  CHECK(!load_template(ctx, two));
  CHECK_SAYS(attend_message(ctx), "more than one post-processor");
  free(two);
  CHECK(!load_template(ctx,
                       "{\"type\": \"Sequence\", \"processors\": [{\"type\": "
                       "\"BertProcessing\", \"cls\": [\"a\", 0], \"sep\": [\"b\", 1]}, "
                       "{\"type\": \"BertProcessing\", \"cls\": [\"a\", 0], \"sep\": "
                       "[\"b\", 1]}]}"));
  CHECK_SAYS(attend_message(ctx), "more than one post-processor");
  close_scant(ctx);
}
