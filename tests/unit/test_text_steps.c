/* The parts of a tokenizer.json, one by one, on small vocabularies. */
#include "tokenizer_fixtures.h"

static attend_context *ctx;

/* The pieces that a text is cut into, as "a|b|c": the model knows nothing, so
 * every cut is one unknown token, and its offsets say where it was. */
static void check_cuts(const char *normalizer, const char *splitter, const char *text,
                       const char *want) {
  char json[4096], got[4096] = "";
  attend_encoding *e;
  if (!ctx) ctx = open_context(NULL, 1, NULL);
  snprintf(json, sizeof json,
           "{\"normalizer\": %s, \"pre_tokenizer\": %s, \"model\": {\"type\": "
           "\"WordPiece\", \"unk_token\": \"?\", \"vocab\": {\"?\": 0}, "
           "\"max_input_chars_per_word\": 0}}",
           normalizer, splitter);
  attend_tokenizer *t = load_text(ctx, json);
  OK(ctx, attend_encoding_create(t, &e));
  OK(ctx, attend_encode(e, text, strlen(text), NULL));
  for (size_t i = 0; i < e->count; i++) {
    size_t used = strlen(got);
    snprintf(got + used, sizeof got - used, "%s%.*s", i ? "|" : "", (int)(e->end[i] - e->start[i]),
             text + e->start[i]);
  }
  if (strcmp(got, want)) CHECK_FAIL("%s cuts \"%s\" into %s, not %s", splitter, text, got, want);
  attend_encoding_free(e);
  attend_tokenizer_free(t);
}

/* What a text is after normalizing: the model has a piece for every
 * character that may come out, and the decoder joins them. */
static void check_normal(const char *normalizer, const char *text, const char *want) {
  char json[8192], got[1024] = "";
  attend_encoding *e;
  if (!ctx) ctx = open_context(NULL, 1, NULL);
  size_t at =
      (size_t)snprintf(json, sizeof json,
                       "{\"normalizer\": %s, \"model\": {\"type\": \"BPE\", \"byte_fallback\": "
                       "true, \"merges\": [], \"vocab\": {",
                       normalizer);
  for (int b = 0; b < 256; b++)
    at += (size_t)snprintf(json + at, sizeof json - at, "%s\"<0x%02X>\": %d", b ? ", " : "", b, b);
  snprintf(json + at, sizeof json - at, "}}}");
  attend_tokenizer *t = load_text(ctx, json);
  OK(ctx, attend_encoding_create(t, &e));
  OK(ctx, attend_encode(e, text, strlen(text), NULL));
  for (size_t i = 0; i < e->count && i < sizeof got - 1; i++) got[i] = (char)e->id[i];
  if (strcmp(got, want))
    CHECK_FAIL("%s makes \"%s\" of \"%s\", not \"%s\"", normalizer, got, text, want);
  attend_encoding_free(e);
  attend_tokenizer_free(t);
}

TEST(normal_forms) {
  check_normal("{\"type\": \"NFD\"}", "\xc3\xa9 \xc7\xbb", /* é ǻ */
               "e\xcc\x81 a\xcc\x8a\xcc\x81");
  check_normal("{\"type\": \"NFC\"}", "e\xcc\x81 a\xcc\x8a\xcc\x81", "\xc3\xa9 \xc7\xbb");
  /* marks are put in order: below (220) before above (230) */
  check_normal("{\"type\": \"NFD\"}", "q\xcc\x87\xcc\xa3", "q\xcc\xa3\xcc\x87");
  check_normal("{\"type\": \"NFC\"}", "\xe1\xb8\x8b\xcc\xa3", /* ḋ + below */
               "\xe1\xb8\x8d\xcc\x87");
  /* a mark that does not compose blocks one of its class behind it */
  check_normal("{\"type\": \"NFC\"}", "a\xcc\x85\xcc\x80", "a\xcc\x85\xcc\x80");
  /* hangul */
  check_normal("{\"type\": \"NFD\"}", "\xed\x95\x9c", "\xe1\x84\x92\xe1\x85\xa1\xe1\x86\xab");
  check_normal("{\"type\": \"NFC\"}", "\xe1\x84\x92\xe1\x85\xa1\xe1\x86\xab", "\xed\x95\x9c");
  /* excluded from composition: U+0958 */
  check_normal("{\"type\": \"NFC\"}", "\xe0\xa5\x98", "\xe0\xa4\x95\xe0\xa4\xbc");
  check_normal("{\"type\": \"NFKC\"}", "\xef\xac\x81 \xe2\x91\xa0 \xc2\xbd",
               "fi 1 1\xe2\x81\x84"
               "2");
  check_normal("{\"type\": \"NFKD\"}", "\xef\xbc\xa1\xe1\xba\x9b\xcc\xa3", "As\xcc\xa3\xcc\x87");
}

TEST(letters) {
  check_normal("{\"type\": \"Lowercase\"}", "A\xc3\x84\xce\xa3\xc4\xb0",
               "a\xc3\xa4\xcf\x83i\xcc\x87");
  check_normal(
      "{\"type\": \"Sequence\", \"normalizers\": [{\"type\": "
      "\"NFD\"}, {\"type\": \"StripAccents\"}]}",
      "\xc3\xa9\xc3\xb1", "en");
  check_normal("{\"type\": \"BertNormalizer\", \"lowercase\": true}", "\xc3\x89\t\x01x\xe4\xba\xac",
               "e x \xe4\xba\xac ");
  check_normal(
      "{\"type\": \"BertNormalizer\", \"lowercase\": false, "
      "\"strip_accents\": null}",
      "\xc3\x89", "\xc3\x89");
}

TEST(replacing) {
  check_normal(
      "{\"type\": \"Replace\", \"pattern\": {\"String\": \"``\"}, "
      "\"content\": \"'\"}",
      "a``b``", "a'b'");
  check_normal(
      "{\"type\": \"Replace\", \"pattern\": {\"Regex\": \" {2,}\"}, "
      "\"content\": \" \"}",
      "a   b c    ", "a b c ");
  check_normal(
      "{\"type\": \"Replace\", \"pattern\": {\"Regex\": \"x*\"}, "
      "\"content\": \"-\"}",
      "axb", "-a-b-");
  check_normal("{\"type\": \"Prepend\", \"prepend\": \"_\"}", "ab", "_ab");
  check_normal("{\"type\": \"Prepend\", \"prepend\": \"_\"}", "", "");
  check_normal(
      "{\"type\": \"Strip\", \"strip_left\": true, \"strip_right\": "
      "false}",
      " \xc2\xa0x ", "x ");
  check_normal("{\"type\": \"Strip\"}", " x \xe3\x80\x80", "x");
}

TEST(cutting) {
  check_cuts("null", "{\"type\": \"Whitespace\"}", "Hey you, it's-me! ", "Hey|you|,|it|'|s|-|me|!");
  check_cuts("null", "{\"type\": \"WhitespaceSplit\"}", " Hey  you,\tx", "Hey|you,|x");
  check_cuts("null", "{\"type\": \"BertPreTokenizer\"}", "Hey you,,x ", "Hey|you|,|,|x");
  check_cuts("null", "{\"type\": \"Digits\", \"individual_digits\": true}", "a12b3", "a|1|2|b|3");
  check_cuts("null", "{\"type\": \"Digits\", \"individual_digits\": false}", "a12b3", "a|12|b|3");
  check_cuts("null", "{\"type\": \"Punctuation\"}", "a,,b", "a|,|,|b");
  check_cuts("null", "{\"type\": \"Punctuation\", \"behavior\": \"Contiguous\"}", "a,,b", "a|,,|b");
  check_cuts("null", "{\"type\": \"CharDelimiterSplit\", \"delimiter\": \"-\"}", "a-b--c", "a|b|c");
}

#define SPLIT(behavior, invert)                                            \
  "{\"type\": \"Split\", \"pattern\": {\"String\": \"-\"}, \"behavior\": " \
  "\"" behavior "\", \"invert\": " invert "}"

TEST(behaviours) {
  const char *text = "the-final--countdown";
  check_cuts("null", SPLIT("Removed", "false"), text, "the|final|countdown");
  check_cuts("null", SPLIT("Isolated", "false"), text, "the|-|final|-|-|countdown");
  check_cuts("null", SPLIT("MergedWithPrevious", "false"), text, "the-|final-|-|countdown");
  check_cuts("null", SPLIT("MergedWithNext", "false"), text, "the|-final|-|-countdown");
  check_cuts("null", SPLIT("Contiguous", "false"), text, "the|-|final|--|countdown");
  check_cuts("null", SPLIT("Removed", "true"), text, "-|-|-");
  check_cuts("null",
             "{\"type\": \"Split\", \"pattern\": {\"Regex\": \"\\\\d+|[a-z]\"},"
             " \"behavior\": \"Isolated\"}",
             "12ab?", "12|a|b|?");
}

TEST(metaspace) {
  /* a prefix mark stands for nothing, a mark for a space is that space */
  const char *meta = "{\"type\": \"Metaspace\", \"prepend_scheme\": \"always\"}";
  check_cuts("null", meta, "Hey  you", "Hey| | you");
  check_cuts("null", meta, " Hey", " Hey");
  check_cuts("null", "{\"type\": \"Metaspace\", \"split\": false}", "a b", "a b");
}

/* The scanners and PCRE2 on the same expression. */
static void compare_scanner(const char *expression, uint64_t seed) {
  static const char *const alphabet[] = {"a",        "B",
                                         "s",        "t",
                                         "re",       "'",
                                         "'",        "1",
                                         "2",        " ",
                                         " ",        " ",
                                         "\n",       "\r",
                                         "\t",       ".",
                                         "!?",       "\xc3\xa9",
                                         "\xc2\xa0", "\xe5\x8c\x97",
                                         "\xcc\x81", "\xe2\x82\xac",
                                         "\xd9\xa3", "S",
                                         "LL",       "\xc5\xbf",
                                         "_"};
  char json[2][2048], text[256];
  attend_tokenizer *t[2];
  attend_encoding *e[2];
  if (!ctx) ctx = open_context(NULL, 1, NULL);
  for (int i = 0; i < 2; i++) {
    snprintf(json[i], sizeof json[i],
             "{\"pre_tokenizer\": {\"type\": \"Split\", \"behavior\": "
             "\"Isolated\", \"pattern\": {\"Regex\": \"%s%s%s\"}}, \"model\": "
             "{\"type\": \"WordPiece\", \"unk_token\": \"?\", \"vocab\": "
             "{\"?\": 0}, \"max_input_chars_per_word\": 0}}",
             i ? "(?:" : "", expression, i ? ")" : "");
    t[i] = load_text(ctx, json[i]);
    OK(ctx, attend_encoding_create(t[i], &e[i]));
  }
  for (uint64_t trial = 0; trial < 3000; trial++) {
    float u[24];
    attend_random_uniform((attend_random){seed, trial}, 0, 24, u);
    text[0] = 0;
    for (int k = 0; k < 24; k++)
      strcat(text, alphabet[(int)(u[k] * (float)(sizeof alphabet / sizeof *alphabet))]);
    for (int i = 0; i < 2; i++) OK(ctx, attend_encode(e[i], text, strlen(text), NULL));
    bool same = e[0]->count == e[1]->count;
    for (size_t k = 0; k < e[0]->count && same; k++) same = e[0]->end[k] == e[1]->end[k];
    if (!same) CHECK_FAIL("the scanner cuts \"%s\" elsewhere", text);
  }
  for (int i = 0; i < 2; i++) {
    attend_encoding_free(e[i]);
    attend_tokenizer_free(t[i]);
  }
}

#define LLAMA3(digits)                                                      \
  "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|"   \
  "\\\\p{N}" digits                                                         \
  "| ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!" \
  "\\\\S)|\\\\s+"

TEST(scanners) {
  compare_scanner(
      "'s|'t|'re|'ve|'m|'ll|'d| ?\\\\p{L}+| ?\\\\p{N}+| "
      "?[^\\\\s\\\\p{L}\\\\p{N}]+|\\\\s+(?!\\\\S)|\\\\s+",
      1);
  compare_scanner(LLAMA3("{1,3}"), 2);
  compare_scanner(LLAMA3(""), 3);
}

/* ---- added tokens, templates, decoders ------------------------------------------- */

static attend_tokenizer *words(const char *more) {
  char json[4096];
  if (!ctx) ctx = open_context(NULL, 1, NULL);
  snprintf(json, sizeof json,
           "{%s, \"model\": {\"type\": \"WordPiece\", \"unk_token\": \"?\", "
           "\"vocab\": {\"?\": 0, \"a\": 1, \"b\": 2, \"##b\": 3, \"<x>\": 4, "
           "\"[C]\": 5, \"[S]\": 6, \"##.\": 7, \".\": 8}}}",
           more);
  return load_text(ctx, json);
}

static void check_words(const char *more, const char *text, const char *want) {
  attend_tokenizer *t = words(more);
  attend_encoding *e;
  OK(ctx, attend_encoding_create(t, &e));
  check_ids(ctx, e, text, want);
  attend_encoding_free(e);
  attend_tokenizer_free(t);
}

#define SPACES "\"pre_tokenizer\": {\"type\": \"WhitespaceSplit\"}"
#define ADDED(flags) SPACES ", \"added_tokens\": [{\"id\": 4, \"content\": \"<x>\"" flags "}]"

TEST(added_tokens) {
  attend_tokenizer *t;
  attend_encoding *e;
  check_words(ADDED(", \"special\": true"), "a<x>ab <x><x>b", "1 4 1 3 4 4 2");
  check_words(ADDED(", \"single_word\": true, \"normalized\": false"), "a<x> <x> a", "0 4 1");
  /* matched in normalized text or as it stands */
  check_words("\"normalizer\": {\"type\": \"Lowercase\"}, " ADDED(", \"normalized\": true"),
              "a<X>A", "1 4 1");
  check_words("\"normalizer\": {\"type\": \"Lowercase\"}, " ADDED(", \"normalized\": false"),
              "a<X> a<x>", "0 1 4");
  /* white space goes with it */
  t =
      words(ADDED(", \"lstrip\": true, \"rstrip\": true, \"normalized\": "
                  "false"));
  OK(ctx, attend_encoding_create(t, &e));
  check_ids(ctx, e, "a  <x> b", "1 4 2");
  CHECK_EQ(e->start[1], 1);
  CHECK_EQ(e->end[1], 7);
  attend_encoding_free(e);
  attend_tokenizer_free(t);
}

#define TEMPLATE                                                            \
  SPACES                                                                    \
  ", \"post_processor\": {\"type\": \"TemplateProcessing\", \"single\": "   \
  "[{\"SpecialToken\": {\"id\": \"[C]\", \"type_id\": 0}}, {\"Sequence\": " \
  "{\"id\": \"A\", \"type_id\": 0}}], \"pair\": [{\"Sequence\": {\"id\": "  \
  "\"A\", \"type_id\": 0}}, {\"SpecialToken\": {\"id\": \"[S]\", "          \
  "\"type_id\": 1}}, {\"Sequence\": {\"id\": \"B\", \"type_id\": 1}}], "    \
  "\"special_tokens\": {\"[C]\": {\"ids\": [5]}, \"[S]\": {\"ids\": [6]}}}"

TEST(templates) {
  check_words(TEMPLATE, "a b", "5 1 2");
  check_words(SPACES
              ", \"post_processor\": {\"type\": \"BertProcessing\", "
              "\"cls\": [\"[C]\", 5], \"sep\": [\"[S]\", 6]}",
              "a", "5 1 6");
}

TEST(truncation) {
  attend_tokenizer *t = words(TEMPLATE);
  attend_encoding *e;
  OK(ctx, attend_encoding_create(t, &e));
  OK(ctx,
     attend_encode(e, "a b a b", 7,
                   &(attend_encode_options){ATTEND_INIT(attend_encode_options), .max_length = 3}));
  CHECK_EQ(e->count, 3);
  CHECK_EQ(e->dropped, 2);
  CHECK_EQ(e->id[0], 5);
  CHECK_EQ(e->part[0], -1);
  OK(ctx, attend_encode(e, "a b a b a", 9,
                        &(attend_encode_options){ATTEND_INIT(attend_encode_options), .pair = "b b",
                                                 .pair_length = 3, .max_length = 5}));
  CHECK_EQ(e->count, 5); /* a b [S] b b */
  CHECK_EQ(e->dropped, 3);
  CHECK_EQ(e->id[2], 6);
  CHECK_EQ(e->type[4], 1);
  CHECK_EQ(e->start[4], 2);
  CHECK_EQ(e->part[4], 1);
  CHECK_EQ(attend_encode(e, "a", 1,
                         &(attend_encode_options){ATTEND_INIT(attend_encode_options), .pair = "b",
                                                  .pair_length = 1, .max_length = 1}),
           ATTEND_OK);
  CHECK_EQ(e->count, 1);
  OK(ctx, attend_encode(
              e, "a b", 3,
              &(attend_encode_options){ATTEND_INIT(attend_encode_options), .no_special = true}));
  CHECK_EQ(e->count, 2);
  attend_encoding_free(e);
  attend_tokenizer_free(t);
}

static void check_decode(const char *more, const int32_t *ids, size_t count, const char *want) {
  attend_tokenizer *t = words(more);
  attend_detokenizer *d;
  const char *text;
  size_t n;
  OK(ctx, attend_detokenizer_create(t, true, &d));
  OK(ctx, attend_decode(d, ids, count, &text, &n));
  if (strcmp(text, want)) CHECK_FAIL("decoded \"%s\", not \"%s\"", text, want);
  attend_detokenizer_free(d);
  attend_tokenizer_free(t);
}

TEST(decoders) {
  static const int32_t ids[] = {1, 3, 2, 8, 4};
  check_decode(SPACES, ids, 5, "a ##b b . <x>");
  check_decode(ADDED(", \"special\": true"), ids, 5, "a ##b b .");
  check_decode(SPACES ", \"decoder\": {\"type\": \"WordPiece\"}", ids, 5, "ab b. <x>");
  check_decode(SPACES
               ", \"decoder\": {\"type\": \"WordPiece\", \"cleanup\": "
               "false}",
               ids, 5, "ab b . <x>");
  check_decode(SPACES
               ", \"decoder\": {\"type\": \"BPEDecoder\", \"suffix\": "
               "\"b\"}",
               ids, 5, "a##  .<x>");
  check_decode(SPACES
               ", \"decoder\": {\"type\": \"Sequence\", \"decoders\": "
               "[{\"type\": \"Replace\", \"pattern\": {\"String\": "
               "\"#\"}, \"content\": \" \"}, {\"type\": \"Fuse\"}, "
               "{\"type\": \"Strip\", \"content\": \"a\", \"start\": 2, "
               "\"stop\": 0}]}",
               ids, 5, "  bb.<x>");
}

TEST(refused_by_name) {
  static const char *const cases[][2] = {
      {"{\"normalizer\": {\"type\": \"Magic\"}}", "normalizer \"Magic\""},
      {"{\"pre_tokenizer\": {\"type\": \"Magic\"}}", "pre-tokenizer \"Magic\""},
      {"{\"model\": {\"type\": \"Magic\"}}", "model \"Magic\""},
      {"{}", "no model"},
      {"{\"pre_tokenizer\": {\"type\": \"Split\", \"pattern\": {\"Regex\": "
       "\"(\"}}}",
       "regular expression"},
      {"{\"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\": "
       "[{\"type\": \"ByteLevel\"}, {\"type\": \"Digits\"}]}}",
       "ByteLevel"},
      {"{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}, \"merges\": "
       "[\"a b\"]}}",
       "merge 0"},
      {"{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"b\": 0}, "
       "\"merges\": []}}",
       "the id 0"},
      {"{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 99999999}, "
       "\"merges\": []}}",
       "ids run"},
      {"{\"model\": {\"type\": \"Unigram\", \"unk_id\": 9, \"vocab\": [[\"a\", "
       "0]]}}",
       "unk_id"},
      {"{\"model\": {\"type\": \"WordPiece\", \"vocab\": {\"a\": 0}}, "
       "\"decoder\": {\"type\": \"CTC\"}}",
       "decoder \"CTC\""},
      {"{\"model\": {\"type\": \"WordPiece\", \"vocab\": {\"a\": 0}}, "
       "\"post_processor\": {\"type\": \"BertProcessing\", \"cls\": [\"c\", "
       "7], \"sep\": [\"s\", 8]}}",
       "BertProcessing"}};
  if (!ctx) ctx = open_context(NULL, 1, NULL);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    attend_tokenizer *t = (attend_tokenizer *)&t;
    const char *path = write_file("bad.json", cases[i][0], strlen(cases[i][0]));
    attend_status status = attend_tokenizer_load(ctx, path, &t);
    CHECK(status == ATTEND_IO || status == ATTEND_UNSUPPORTED);
    CHECK(!t);
    CHECK_SAYS(attend_message(ctx), cases[i][1]);
  }
  remove_files((const char *const[]){"bad.json", NULL});
}
