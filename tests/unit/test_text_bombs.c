/* Small tokenizer files that ask for much: each ends soon and in little
 * memory, with the right ids or with a sentence. */
#include "bombs.h"

/* ---- texts that grow --------------------------------------------------------- */

/* A tokenizer whose normalizer or decoder has n steps alike. */
static attend_tokenizer *load_steps(attend_context *ctx, const char *part, const char *list,
                                    const char *step, int n) {
  sheet s = {0};
  put(&s, "{%s, \"%s\": {\"type\": \"Sequence\", \"%s\": [", letters, part, list);
  for (int i = 0; i < n; i++) put(&s, "%s%s", i ? ", " : "", step);
  put(&s, "]}}");
  return load_sheet(ctx, "t.json", &s);
}

#define REPLACE(what, with)                                   \
  "{\"type\": \"Replace\", \"pattern\": {\"String\": \"" what \
  "\"}, \""                                                   \
  "content\": \"" with "\"}"

TEST(replacing_again_and_again) {
  attend_context *ctx = open_scant();
  attend_tokenizer *t = load_steps(ctx, "normalizer", "normalizers", REPLACE("a", "aa"), 40);
  size_t count;
  CHECK(!encodes(ctx, t, "a", 10, &count));
  CHECK_SAYS(attend_message(ctx), "normalizer");
  CHECK(encodes(ctx, t, "b", 10, &count));
  CHECK_EQ(count, 10);
  attend_tokenizer_free(t);
  close_scant(ctx);
}

/* One step is enough, and gaps between added tokens count together. */
TEST(a_long_prefix_in_every_gap) {
  static const char *const steps[] = {
      "\"normalizer\": {\"type\": \"Prepend\", \"prepend\": \"",
      "\"normalizer\": {\"type\": \"Replace\", \"pattern\": {\"String\": "
      "\"a\"}, \"content\": \"",
      "\"pre_tokenizer\": {\"type\": \"Metaspace\", \"prepend_scheme\": "
      "\"always\", \"replacement\": \""};
  for (int i = 0; i < 3; i++) {
    attend_context *ctx = open_scant();
    sheet s = {0};
    size_t count;
    put(&s,
        "{%s, \"added_tokens\": [{\"id\": 4, \"content\": \"<s>\", "
        "\"special\": true}], %s",
        letters, steps[i]);
    put_run(&s, "b", 60000);
    put(&s, "\"}}");
    attend_tokenizer *t = load_sheet(ctx, "t.json", &s);
    CHECK(!encodes(ctx, t, "a<s>", 1000, &count));
    CHECK_SAYS(attend_message(ctx), "bytes");
    CHECK(encodes(ctx, t, "a<s>", 1, &count));
    CHECK_EQ(count, i == 1 ? 60001 : 60002);
    attend_tokenizer_free(t);
    close_scant(ctx);
  }
}

/* The largest growth of any character that a normal form has, with spaces
 * that become marks of three bytes and one more in front. */
TEST(what_grows_in_earnest_is_taken) {
  attend_context *ctx = open_scant();
  sheet s = {0};
  size_t count;
  put(&s,
      "{%s, \"normalizer\": {\"type\": \"Sequence\", \"normalizers\": "
      "[{\"type\": \"NFKD\"}, {\"type\": \"Prepend\", \"prepend\": "
      "\"\xe2\x96\x81\"}, " REPLACE(" ", "\xe2\x96\x81") "]}}",
      "\"model\": {\"type\": \"WordPiece\", \"unk_token\": \"a\", \"vocab\": "
      "{\"a\": 0}, \"max_input_chars_per_word\": 10}");
  attend_tokenizer *t = load_sheet(ctx, "t.json", &s);
  CHECK(encodes(ctx, t, "\xef\xb7\xba", 20000, &count));
  CHECK_EQ(count, 1);
  attend_tokenizer_free(t);
  close_scant(ctx);
}

TEST(decoders_that_grow) {
  attend_context *ctx = open_scant();
  attend_tokenizer *t = load_steps(ctx, "decoder", "decoders", REPLACE("a", "aaaaaaaa"), 16);
  attend_detokenizer *d;
  const char *text;
  size_t n;
  OK(ctx, attend_detokenizer_create(t, false, &d));
  CHECK_EQ(attend_decode(d, (int32_t[]){0}, 1, &text, &n), ATTEND_UNSUPPORTED);
  CHECK_SAYS(attend_message(ctx), "decoder");
  OK(ctx, attend_decode(d, (int32_t[]){1, 2}, 2, &text, &n));
  CHECK(n == 2 && !memcmp(text, "bc", 2));
  attend_detokenizer_free(d);
  attend_tokenizer_free(t);
  close_scant(ctx);
}

TEST(very_many_steps) {
  attend_context *ctx = open_scant();
  CHECK(!load_steps(ctx, "normalizer", "normalizers", REPLACE("x", "y"), 20000));
  CHECK_SAYS(attend_message(ctx), "steps");
  CHECK(!load_steps(ctx, "normalizer", "normalizers",
                    "{\"type\": \"Replace\", \"pattern\": {\"Regex\": "
                    "\"a(?=a{0,50}b|)\"}, \"content\": \"a\"}",
                    200));
  CHECK_SAYS(attend_message(ctx), "regular expressions");
  CHECK(!load_steps(ctx, "pre_tokenizer", "pretokenizers", "{\"type\": \"Whitespace\"}", 20000));
  CHECK_SAYS(attend_message(ctx), "steps");
  close_scant(ctx);
}

/* ---- regular expressions ----------------------------------------------------- */

static attend_tokenizer *load_pattern(attend_context *ctx, const char *pattern) {
  sheet s = {0};
  put(&s,
      "{%s, \"pre_tokenizer\": {\"type\": \"Split\", \"pattern\": "
      "{\"Regex\": \"%s\"}, \"behavior\": \"Isolated\"}}",
      letters, pattern);
  return load_sheet(ctx, "t.json", &s);
}

TEST(patterns_that_backtrack) {
  static const char *const patterns[] = {"a(?=(?:a{0,2}){0,9}b|)", "a(?=(?:a|aa){0,22}b|)",
                                         "a(?=(?:a(?=.*$)|aa(?=.*$)){0,18}b|)", "(?:a+)+[bc]"};
  for (int i = 0; i < 4; i++) {
    attend_context *ctx = open_scant();
    attend_tokenizer *t = load_pattern(ctx, patterns[i]);
    size_t count;
    CHECK(!encodes(ctx, t, "a", 4096, &count));
    CHECK_SAYS(attend_message(ctx), "regular expression");
    attend_tokenizer_free(t);
    close_scant(ctx);
  }
}

/* Of linear cost, though one match of it takes many steps. */
TEST(patterns_that_only_look_so) {
  attend_context *ctx = open_scant();
  attend_tokenizer *t = load_pattern(ctx, "(?:ab|c)+|b(?=(?:b{3})*(?!b))");
  size_t count;
  CHECK(encodes(ctx, t, "ab", 20000, &count));
  CHECK_EQ(count, 20000);
  CHECK(encodes(ctx, t, "abcb", 5000, &count));
  CHECK_EQ(count, 15000);
  attend_tokenizer_free(t);
  close_scant(ctx);
}

TEST(options_in_patterns_are_refused) {
  attend_context *ctx = open_scant();
  CHECK(!load_pattern(ctx, "(*NO_JIT)a(?=(?:a|aa){0,22}b|)"));
  CHECK_SAYS(attend_message(ctx), "(*NO_JIT)");
  CHECK(!load_pattern(ctx, "(*LIMIT_MATCH=4000000000)(?:a+)+b"));
  CHECK_SAYS(attend_message(ctx), "LIMIT_MATCH");
  close_scant(ctx);
}

/* ---- vocabularies ------------------------------------------------------------ */

static bool is_plain(uint64_t word) {
  for (int i = 0; i < 8; i++, word >>= 8) {
    unsigned char c = word & 0xff;
    if (c < ' ' || c > '~' || c == '"' || c == '\\') return false;
  }
  return true;
}

/* Eight letters from a to p. */
static uint64_t letters_of(uint64_t n) {
  n = (n | n << 16) & 0x0000ffff0000ffff;
  n = (n | n << 8) & 0x00ff00ff00ff00ff;
  n = (n | n << 4) & 0x0f0f0f0f0f0f0f0f;
  return n + 0x6161616161616161;
}

/* Names that an unkeyed hash, h = fold((h ^ word) * constant) by words of 8
 * bytes, takes to one place: the second word undoes what the first has done. */
static void next_name(uint64_t *seed, char name[17]) {
  uint64_t word[2] = {0, 0};
  while (!is_plain(word[1])) {
    word[0] = letters_of(++*seed);
    uint64_t h = (0x9e3779b97f4a7c15u ^ 16 ^ word[0]) * 0xff51afd7ed558ccdu;
    word[1] = h ^ h >> 32 ^ 0x4f1bbcdc6a09e667u;
  }
  memcpy(name, word, 16);
  name[16] = 0;
}

TEST(names_made_to_collide) {
  sheet s = {0};
  uint64_t seed = 0;
  char name[17];
  enum { NAMES = 60000 };
  put(&s,
      "{\"model\": {\"type\": \"WordPiece\", \"unk_token\": \"u\", "
      "\"vocab\": {\"u\": 0");
  for (int i = 1; i < NAMES; i++) {
    next_name(&seed, name);
    put(&s, ", \"%s\": %d", name, i);
  }
  put(&s, "}}}");
  attend_context *ctx = open_scant();
  attend_tokenizer *t = load_sheet(ctx, "t.json", &s);
  CHECK(t && attend_tokenizer_count(t) == NAMES);
  CHECK_EQ(attend_tokenizer_find(t, name, 16), NAMES - 1);
  attend_tokenizer_free(t);
  close_scant(ctx);
}

enum { EDGES = 1 << 20 };

/* The letter whose edge out of a node an unkeyed table of EDGES would put
 * first: edges of many nodes form one long run. */
static int first_edge(uint64_t node) {
  uint64_t min = EDGES, best = 0;
  for (uint64_t c = 'a'; c <= 'z'; c++) {
    uint64_t key = (node << 8 | c) + 1;
    uint64_t slot = ((key * 0x9e3779b97f4a7c15u) >> 20) & (EDGES - 1);
    if (slot < min) best = c;
    if (slot < min) min = slot;
  }
  return (int)best;
}

TEST(edges_made_to_collide) {
  attend_context *ctx = open_scant();
  sheet s = {0};
  enum { LENGTH = 1000 };
  uint64_t nodes = 2; /* the root and u are there */
  int names = 1;
  put(&s,
      "{\"model\": {\"type\": \"WordPiece\", \"unk_token\": \"u\", "
      "\"vocab\": {\"u\": 0");
  for (int i = 0; i < 18 * 20; i++) {
    put(&s, ", \"%c%c", 'A' + i / 20, 'A' + i % 20);
    nodes += 1 + !(i % 20);
    for (int n = 0; n < LENGTH; n++) put(&s, "%c", first_edge(nodes++ - 1));
    put(&s, "\": %d", names++);
  }
  put(&s, "}}}");
  attend_tokenizer *t = load_sheet(ctx, "t.json", &s);
  CHECK(t && attend_tokenizer_count(t) == names);
  attend_tokenizer_free(t);
  close_scant(ctx);
}

TEST(ids_far_apart) {
  attend_context *ctx = open_scant();
  sheet s = {0};
  enum { NAMES = 150000 };
  put(&s, "{\"model\": {\"type\": \"WordPiece\", \"vocab\": {\"u\": 0");
  for (int i = 1; i < NAMES; i++) put(&s, ", \"%x\": %d", i, 16 * i);
  put(&s, "}}}");
  CHECK(!load_sheet(ctx, "t.json", &s));
  CHECK_SAYS(attend_message(ctx), "ids run from 0 to");
  close_scant(ctx);
}

TEST(very_many_added_tokens) {
  attend_context *ctx = open_scant();
  sheet s = {0};
  size_t count;
  enum { TOKENS = 200000 };
  put(&s, "{%s, \"added_tokens\": [{\"id\": 4, \"content\": \"z\"}", letters);
  for (int i = 1; i < TOKENS; i++) put(&s, ", {\"id\": %d, \"content\": \"a%x\"}", i + 4, i);
  put(&s, "]}");
  attend_tokenizer *t = load_sheet(ctx, "t.json", &s);
  CHECK(t && attend_tokenizer_count(t) == TOKENS + 4);
  CHECK(encodes(ctx, t, "a1 a2 a30d3f ", 20000, &count));
  CHECK_EQ(count, 60000);
  attend_tokenizer_free(t);
  close_scant(ctx);
}

/* A model of one long piece that the text nearly has at every place. */
TEST(very_long_pieces) {
  static const char *const parts[][2] = {
      {"{\"model\": {\"type\": \"WordPiece\", \"unk_token\": \"a\", "
       "\"max_input_chars_per_word\": 1000000, \"vocab\": {\"a\": 0, \"##a\": "
       "1, \"##",
       "b\": 2}}}"},
      {"{\"model\": {\"type\": \"Unigram\", \"unk_id\": 0, \"vocab\": [[\"a\", "
       "-1], [\"",
       "b\", -2]]}}"},
      {"{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}, \"merges\": "
       "[]}, \"added_tokens\": [{\"id\": 1, \"content\": \"",
       "b\"}]}"}};
  static const size_t lengths[] = {200000, 1000};
  for (int i = 0; i < 6; i++) {
    attend_context *ctx = open_scant();
    sheet s = {0};
    size_t count, length = lengths[i % 2];
    put(&s, "%s", parts[i / 2][0]);
    put_run(&s, "a", length);
    put(&s, "%s", parts[i / 2][1]);
    attend_tokenizer *t = load_sheet(ctx, "t.json", &s);
    if (!t) CHECK_SAYS(attend_message(ctx), "bytes");
    CHECK((t != NULL) == (length == 1000));
    if (t) CHECK(encodes(ctx, t, "a", light() ? 2000 : 20000, &count));
    if (t) CHECK_EQ(count, light() ? 2000 : 20000);
    attend_tokenizer_free(t);
    close_scant(ctx);
  }
}

/* ---- places ------------------------------------------------------------------ */

/* Many tokens that share one long range of white space, which is trimmed. */
TEST(white_space_that_many_tokens_share) {
  attend_context *ctx = open_scant();
  sheet s = {0};
  size_t count;
  put(&s,
      "{%s, \"normalizer\": {\"type\": \"Replace\", \"pattern\": "
      "{\"Regex\": \" +\"}, \"content\": \"",
      letters);
  put_run(&s, "b", 60000);
  put(&s,
      "\"}, \"post_processor\": {\"type\": \"ByteLevel\", "
      "\"trim_offsets\": true}}");
  attend_tokenizer *t = load_sheet(ctx, "t.json", &s);
  CHECK(encodes(ctx, t, " ", 1000000, &count));
  CHECK_EQ(count, 60000);
  attend_tokenizer_free(t);
  close_scant(ctx);
}

TEST(stripping_bit_by_bit) {
  attend_context *ctx = open_scant();
  sheet s = {0};
  attend_detokenizer *d;
  const char *text;
  size_t n;
  put(&s, "{\"model\": {\"type\": \"BPE\", \"vocab\": {\"");
  put_run(&s, "a", 4000);
  put(&s,
      "\": 0}, \"merges\": []}, \"decoder\": {\"type\": \"Strip\", "
      "\"content\": \"a\", \"start\": 1000000, \"stop\": 0}}");
  attend_tokenizer *t = load_sheet(ctx, "t.json", &s);
  int32_t *ids = zeroed_block(4096, sizeof *ids);
  OK(ctx, attend_detokenizer_create(t, false, &d));
  OK(ctx, attend_decode(d, ids, 4096, &text, &n));
  CHECK_EQ(n, 0);
  free(ids);
  attend_detokenizer_free(d);
  attend_tokenizer_free(t);
  close_scant(ctx);
}
