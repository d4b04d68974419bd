/* Long texts are taken apart where it changes nothing: with portions and
 * without, cut at marks and not, ids and places are the same. */
#include "text/tokenizer.h"
#include "tokenizer_fixtures.h"

/* What golden strings make, with a number between, until it is so long. */
static char *make_text(attend_context *ctx, size_t wanted, size_t *length) {
  attend_json *root;
  size_t n;
  char *golden = read_whole(token_path("tokens.json"), &n);
  OK(ctx, attend_json_parse(ctx, "tokens.json", golden, n, &root));
  free(golden);
  const attend_json *list = attend_json_get(root, "single");
  char *text = zeroed_block(wanted + (1 << 16), 1);
  *length = 0;
  for (size_t i = 0; *length < wanted; i++) {
    const attend_json *entry = attend_json_at(list, i % 216);
    const char *s = attend_json_string(attend_json_get(entry, "text"), &n);
    memcpy(text + *length, s, n);
    *length += n;
    *length += (size_t)sprintf(text + *length, i % 3 ? " %zu a  " : "%zu\n", i);
  }
  attend_json_free(root);
  return text;
}

static void check_same(const attend_encoding *a, const attend_encoding *b, const char *what) {
  bool same = a->count == b->count && !memcmp(a->id, b->id, a->count * sizeof *a->id) &&
              !memcmp(a->start, b->start, a->count * sizeof *a->start) &&
              !memcmp(a->end, b->end, a->count * sizeof *a->end);
  if (!same) CHECK_FAIL("%s: other ids or places", what);
}

/* Takes a tokenizer apart: what it was is compared with what it then is. */
static void compare(attend_context *ctx, attend_tokenizer *t, const char *what,
                    void (*change)(attend_tokenizer *t)) {
  attend_encoding *a, *b;
  size_t length;
  char *text = make_text(ctx, light() ? 40000 : 150000, &length);
  OK(ctx, attend_encoding_create(t, &a));
  OK(ctx, attend_encoding_create(t, &b));
  OK(ctx, attend_encode(a, text, length, NULL));
  CHECK(a->count > length / 20);
  change(t);
  OK(ctx, attend_encode(b, text, length, NULL));
  check_same(a, b, what);
  attend_encoding_free(a);
  attend_encoding_free(b);
  free(text);
}

static void whole(attend_tokenizer *t) {
  CHECK(t->chunked);
  t->chunked = false;
}

static void not_at_letters(attend_tokenizer *t) {
  CHECK(t->splitters.count == 1 && t->splitters.step[0].joins);
  t->splitters.step[0].joins = NULL;
}

static void not_at_marks(attend_tokenizer *t) {
  CHECK(t->splitters.count == 1 && t->chunked);
  t->splitters.count = 0;
  t->chunked = false;
}

TEST(golden_tokenizers) {
  static const struct {
    const char *file;
    void (*change)(attend_tokenizer *t);
  } cases[] = {{"gpt2-vocab.json", whole},      {"bert-tokenizer.json", whole},
               {"bert-vocab.txt", whole},       {"llama.model", whole},
               {"llama.model", not_at_letters}, {"llama.model", not_at_marks},
               {"unigram.model", whole},        {"unigram.model", not_at_marks},
               {"tok512.bin", not_at_letters},  {"tok512.bin", not_at_marks}};
  attend_context *ctx = open_context(NULL, 1, NULL);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    attend_tokenizer *t = load_path(ctx, token_path(cases[i].file));
    compare(ctx, t, cases[i].file, cases[i].change);
    attend_tokenizer_free(t);
  }
  attend_context_free(ctx);
}

/* ---- steps of tokenizer.json ----------------------------------------------------------- */

#define MARK "\xe2\x96\x81"
#define MODEL                                                                \
  "\"model\": {\"type\": \"BPE\", \"unk_token\": \"?\", \"vocab\": {\"?\": " \
  "0, \"a\": 1, \"b\": 2, \"ab\": 3, \"" MARK "\": 4, \"" MARK               \
  "a\": 5, \"1\": 6, \"12\": 7, \"2\": 8, \"e\": 9, \"t\": 10, \"\xc3\xa9"   \
  "\": 11}, \"merges\": [\"" MARK " a\", \"1 2\", \"a b\"]}"
#define STEPS(normalizer, splitter)                                           \
  "{\"normalizer\": " normalizer ", \"pre_tokenizer\": " splitter             \
  ", "                                                                        \
  "\"added_tokens\": [{\"id\": 20, \"content\": \"<s>\", \"special\": true, " \
  "\"lstrip\": true}, {\"id\": 21, \"content\": \"the\", \"normalized\": "    \
  "true, \"single_word\": true, \"lstrip\": true}], " MODEL "}"

TEST(made_tokenizers) {
  static const char *const taken_apart[] = {
      STEPS("{\"type\": \"NFC\"}", "{\"type\": \"WhitespaceSplit\"}"),
      STEPS("{\"type\": \"NFKD\"}", "{\"type\": \"Whitespace\"}"),
      STEPS("{\"type\": \"Sequence\", \"normalizers\": [{\"type\": \"NFKC\"}, "
            "{\"type\": \"Lowercase\"}, {\"type\": \"StripAccents\"}, "
            "{\"type\": \"Nmt\"}]}",
            "{\"type\": \"Metaspace\", \"prepend_scheme\": \"always\"}"),
      STEPS("null", "{\"type\": \"Metaspace\", \"prepend_scheme\": \"first\"}"),
      STEPS("null", "{\"type\": \"ByteLevel\", \"add_prefix_space\": true}"),
      STEPS("{\"type\": \"NFD\"}",
            "{\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": "
            "\"BertPreTokenizer\"}, {\"type\": \"Digits\", "
            "\"individual_digits\": true}]}"),
      STEPS("{\"type\": \"Sequence\", \"normalizers\": [{\"type\": "
            "\"Prepend\", \"prepend\": \"" MARK
            "\"}, {\"type\": \"Replace\", \"pattern\": {\"String\": \" \"}, "
            "\"content\": \"" MARK "\"}]}",
            "null")};
  attend_context *ctx = open_context(NULL, 1, NULL);
  for (size_t i = 0; i < sizeof taken_apart / sizeof *taken_apart; i++) {
    attend_tokenizer *t = load_text(ctx, taken_apart[i]);
    if (i == 6) t->added.count = 0; /* with a mark, they would forbid it */
    if (i == 6) t->chunked = may_chunk(t);
    compare(ctx, t, taken_apart[i], whole);
    attend_tokenizer_free(t);
  }
  attend_context_free(ctx);
}

/* What may see across a seam is not cut there. */
TEST(what_stays_whole) {
  static const char *const stays[] = {
      STEPS("{\"type\": \"Strip\"}", "{\"type\": \"Whitespace\"}"),
      STEPS("{\"type\": \"Replace\", \"pattern\": {\"Regex\": \"a b\"}, "
            "\"content\": \"c\"}",
            "{\"type\": \"Whitespace\"}"),
      STEPS("null", "{\"type\": \"Digits\"}"),
      STEPS("null", "{\"type\": \"Metaspace\", \"split\": false}"),
      STEPS("null",
            "{\"type\": \"Split\", \"pattern\": {\"Regex\": \"a b\"}, "
            "\"behavior\": \"Isolated\"}"),
      "{\"added_tokens\": [{\"id\": 20, \"content\": \"a b\", \"normalized\": "
      "true}], \"pre_tokenizer\": {\"type\": \"Whitespace\"}, " MODEL "}",
      "{\"added_tokens\": [{\"id\": 20, \"content\": \"ab\", \"normalized\": "
      "true, \"rstrip\": true}], \"pre_tokenizer\": {\"type\": "
      "\"Whitespace\"}, " MODEL "}"};
  attend_context *ctx = open_context(NULL, 1, NULL);
  for (size_t i = 0; i < sizeof stays / sizeof *stays; i++) {
    attend_tokenizer *t = load_text(ctx, stays[i]);
    if (t->chunked) CHECK_FAIL("%s is taken apart", stays[i]);
    attend_tokenizer_free(t);
  }
  attend_context_free(ctx);
}

/* ---- XLM-R's ids -------------------------------------------------------------------------- */

/* <s> <pad> </s> <unk>, then the file's pieces one later, then <mask>. */
TEST(fairseq_ids) {
  static const char config[] = "{\"tokenizer_class\": \"XLMRobertaTokenizer\"}";
  attend_context *ctx = open_context(NULL, 1, NULL);
  attend_encoding *e, *p;
  size_t length;
  char *bytes = read_whole(token_path("llama.model"), &length);
  attend_tokenizer *plain = load_path(ctx, token_path("llama.model"));
  write_file("sentencepiece.bpe.model", bytes, length);
  write_file("tokenizer_config.json", config, sizeof config - 1);
  attend_tokenizer *t = load_path(ctx, scratch_folder());
  int32_t mask = attend_tokenizer_count(plain) + 1;
  CHECK_EQ(attend_tokenizer_count(t), mask + 1);
  CHECK_EQ(attend_tokenizer_special(t, ATTEND_SPECIAL_BOS), 0);
  CHECK_EQ(attend_tokenizer_special(t, ATTEND_SPECIAL_PAD), 1);
  CHECK_EQ(attend_tokenizer_special(t, ATTEND_SPECIAL_EOS), 2);
  CHECK_EQ(attend_tokenizer_special(t, ATTEND_SPECIAL_UNK), 3);
  CHECK_EQ(attend_tokenizer_special(t, ATTEND_SPECIAL_MASK), mask);
  OK(ctx, attend_encoding_create(t, &e));
  OK(ctx, attend_encoding_create(plain, &p));
  OK(ctx, attend_encode(
              p, "Hello world", 11,
              &(attend_encode_options){ATTEND_INIT(attend_encode_options), .no_special = true}));
  OK(ctx, attend_encode(e, "Hello world <mask>", 18,
                        &(attend_encode_options){ATTEND_INIT(attend_encode_options), .pair = "",
                                                 .no_special = 0}));
  CHECK_EQ(e->count, p->count + 5); /* <s> .. <mask> </s> </s> </s> */
  CHECK_EQ(e->id[0], 0);
  for (size_t i = 0; i < p->count; i++) CHECK_EQ(e->id[i + 1], p->id[i] < 3 ? 3 : p->id[i] + 1);
  CHECK_EQ(e->id[p->count + 1], mask);
  for (size_t i = p->count + 2; i < e->count; i++) CHECK_EQ(e->id[i], 2);
  attend_encoding_free(e);
  attend_encoding_free(p);
  attend_tokenizer_free(t);
  attend_tokenizer_free(plain);
  free(bytes);
  remove_files((const char *const[]){"sentencepiece.bpe.model", "tokenizer_config.json", NULL});
  attend_context_free(ctx);
}
