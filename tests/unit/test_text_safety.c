/* Tokenizers and what wishes them ill: bytes that are no text, files that lie,
 * memory that runs out. */
#include "base/base.h"
#include "base/json_write.h"
#include "tokenizer_fixtures.h"

static const char *const files[] = {"gpt2-vocab.json", "bert-tokenizer.json", "llama.model",
                                    "unigram.model",   "tok512.bin",          "bert-vocab.txt"};
enum { FILES = sizeof files / sizeof *files };

/* ---- any bytes ---------------------------------------------------------------------- */

/* Mostly text, with pieces of broken characters. */
static size_t make_bytes(uint64_t seed, char *out, size_t size) {
  static const char *const parts[] = {"a",
                                      " ",
                                      "the",
                                      "\xc3\xa9",
                                      "\xe5\x8c\x97",
                                      "\xf0\x9f\x91\x8d",
                                      "\xff",
                                      "\xc3",
                                      "\xe5\x8c",
                                      "\xf0\x9f\x91",
                                      "\x80",
                                      "\xed\xa0\x80",
                                      "\xc0\x80",
                                      "\xf5",
                                      "\n",
                                      "1",
                                      "'s",
                                      "\xe2\x96\x81",
                                      "[CLS]",
                                      "<s>"};
  float u[64];
  size_t n = 0;
  attend_random_uniform((attend_random){seed, 7}, 0, 64, u);
  for (int i = 0; i < 64; i++) {
    const char *p = parts[(int)(u[i] * (float)(sizeof parts / sizeof *parts))];
    if (n + strlen(p) > size) break;
    memcpy(out + n, p, strlen(p));
    n += strlen(p);
  }
  return n;
}

/* Joined, what a decoder says piece by piece is what it says at once; and all
 * of it is UTF-8, which the JSON reader checks. */
static void check_stream(attend_context *ctx, attend_detokenizer *d, const attend_encoding *e) {
  char joined[4096];
  size_t length = 0, n;
  const char *text;
  for (size_t i = 0; i <= e->count; i++) {
    if (i < e->count)
      OK(ctx, attend_detokenizer_push(d, e->id[i], &text, &n));
    else
      OK(ctx, attend_detokenizer_finish(d, &text, &n));
    json_writer w = json_writer_text(ctx);
    attend_json *root = NULL;
    json_put_bytes(&w, text, n);
    OK(ctx, json_finish(&w));
    OK(ctx, attend_json_parse(ctx, "a part", w.text, w.length, &root));
    attend_json_free(root);
    json_writer_free(&w);
    memcpy(joined + length, text, n);
    length += n;
  }
  OK(ctx, attend_decode(d, e->id, e->count, &text, &n));
  CHECK(n == length && !memcmp(text, joined, n));
}

TEST(any_bytes) {
  attend_context *ctx = open_context(NULL, 1, NULL);
  for (int f = 0; f < FILES; f++) {
    attend_tokenizer *t = load_path(ctx, token_path(files[f]));
    attend_encoding *e;
    attend_detokenizer *d;
    OK(ctx, attend_encoding_create(t, &e));
    OK(ctx, attend_detokenizer_create(t, false, &d));
    for (uint64_t trial = 0; trial < (light() ? 100u : 400u); trial++) {
      char bytes[512];
      size_t n = make_bytes(trial, bytes, sizeof bytes), at = 0;
      OK(ctx, attend_encode(e, bytes, n, NULL));
      for (size_t i = 0; i < e->count; i++) {
        CHECK(e->start[i] <= e->end[i] && e->end[i] <= n);
        CHECK(attend_tokenizer_piece(t, e->id[i], NULL) != NULL);
        /* byte-level: the tokens cover the text, save where several tokens
         * share one replaced byte */
        if (f == 0) CHECK(e->start[i] <= at && e->end[i] >= at);
        if (e->end[i] > at) at = e->end[i];
      }
      if (f == 0) CHECK_EQ(at, n);
      check_stream(ctx, d, e);
    }
    attend_detokenizer_free(d);
    attend_encoding_free(e);
    attend_tokenizer_free(t);
  }
  attend_context_free(ctx);
}

/* As if U+FFFD had stood there. */
TEST(broken_characters_are_replaced) {
  static const struct {
    const char *broken, *replaced;
  } cases[] = {{"a\xff"
                "b",
                "a\xef\xbf\xbd"
                "b"},
               {"\xe5\x8c", "\xef\xbf\xbd"},
               {"\xe5\x8cx", "\xef\xbf\xbdx"},
               {"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
               {"\xf0\x9f\x91\xf0\x9f\x91\x8d", "\xef\xbf\xbd\xf0\x9f\x91\x8d"},
               {"\xc0\xaf", "\xef\xbf\xbd\xef\xbf\xbd"}};
  attend_context *ctx = open_context(NULL, 1, NULL);
  attend_tokenizer *t = load_path(ctx, token_path("gpt2-vocab.json"));
  attend_encoding *a, *b;
  OK(ctx, attend_encoding_create(t, &a));
  OK(ctx, attend_encoding_create(t, &b));
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    OK(ctx, attend_encode(a, cases[i].broken, strlen(cases[i].broken), NULL));
    OK(ctx, attend_encode(b, cases[i].replaced, strlen(cases[i].replaced), NULL));
    CHECK(a->count == b->count && !memcmp(a->id, b->id, a->count * sizeof *a->id));
    CHECK_EQ(a->end[a->count - 1], strlen(cases[i].broken));
  }
  attend_encoding_free(a);
  attend_encoding_free(b);
  attend_tokenizer_free(t);
  attend_context_free(ctx);
}

TEST(ids_that_are_none) {
  attend_context *ctx = open_context(NULL, 1, NULL);
  attend_tokenizer *t = load_path(ctx, token_path("tok512.bin"));
  attend_detokenizer *d;
  const char *text;
  size_t n;
  OK(ctx, attend_detokenizer_create(t, false, &d));
  CHECK_EQ(attend_tokenizer_count(t), 512);
  CHECK_EQ(attend_detokenizer_push(d, 512, &text, &n), ATTEND_INVALID);
  CHECK_SAYS(attend_message(ctx), "512");
  CHECK_EQ(attend_detokenizer_push(d, -1, &text, &n), ATTEND_INVALID);
  CHECK(!attend_tokenizer_piece(t, 512, NULL));
  CHECK(!attend_tokenizer_is_special(t, -5));
  CHECK_EQ(attend_tokenizer_find(t, "no such piece", 13), -1);
  attend_detokenizer_free(d);
  attend_tokenizer_free(t);
  attend_context_free(ctx);
}

/* ---- files that lie -------------------------------------------------------------------- */

/* Loads it, and if it loads, uses it: neither may break anything. */
static void try_file(attend_context *ctx, const char *path) {
  static const char text[] = "The caf\xc3\xa9 at 12, <s> \xf0\x9f\x91\x8d x";
  attend_tokenizer *t;
  attend_encoding *e;
  attend_detokenizer *d;
  const char *back;
  size_t n;
  attend_status status = attend_tokenizer_load(ctx, path, &t);
  CHECK((status == ATTEND_OK) == (t != NULL));
  if (status) CHECK(*attend_message(ctx));
  if (status) return;
  OK(ctx, attend_encoding_create(t, &e));
  OK(ctx, attend_detokenizer_create(t, false, &d));
  if (!attend_encode(e, text, sizeof text - 1, NULL))
    OK(ctx, attend_decode(d, e->id, e->count, &back, &n));
  attend_detokenizer_free(d);
  attend_encoding_free(e);
  attend_tokenizer_free(t);
}

/* Cut at every length, then with bytes changed. */
static void torture(const char *name, const char *bytes, size_t length, int cuts, int changes) {
  ledger memory = {0};
  attend_context *ctx = open_context("scalar", 1, &memory);
  char *copy = copy_of(bytes, length);
  long live = memory.live;
  for (int i = 0; i < cuts; i++) {
    size_t n = length * (size_t)i / (size_t)cuts;
    try_file(ctx, write_file(name, bytes, n));
  }
  for (int i = 0; i < changes; i++) {
    uint32_t r[4];
    attend_random_block((attend_random){11, (uint64_t)length}, (uint64_t)i, r);
    memcpy(copy, bytes, length);
    for (int k = 0; k < 3; k++)
      copy[r[k] % length] = (char)(r[3] >> (8 * k) & (i & 1 ? 0xff : 0x7f));
    try_file(ctx, write_file(name, copy, length));
  }
  CHECK_EQ(memory.live, live);
  free(copy);
  attend_context_free(ctx);
  remove_files((const char *const[]){name, NULL});
}

static void torture_golden(const char *golden, const char *name, int cuts, int changes) {
  size_t length;
  char *bytes = read_whole(token_path(golden), &length);
  torture(name, bytes, length, light() ? cuts / 4 + 1 : cuts, light() ? changes / 4 + 1 : changes);
  free(bytes);
}

TEST(lying_models) {
  torture_golden("llama.model", "t.model", 12, 12);
  torture_golden("unigram.model", "t.model", 40, 80);
  torture_golden("tok512.bin", "tok.bin", 100, 300);
  torture_golden("bert-tokenizer.json", "t.json", 6, 6);
  torture_golden("bert-vocab.txt", "vocab.txt", 6, 6);
}

/* Every part that a tokenizer.json may have, in little. */
static const char everything[] =
    "{\"added_tokens\": [{\"id\": 9, \"content\": \"<s>\", \"special\": true, "
    "\"lstrip\": true}, {\"id\": 3, \"content\": \"ab\", \"normalized\": "
    "true}],"
    "\"normalizer\": {\"type\": \"Sequence\", \"normalizers\": [{\"type\": "
    "\"NFKC\"}, {\"type\": \"Lowercase\"}, {\"type\": \"Replace\", "
    "\"pattern\": {\"Regex\": \"\\\\s+\"}, \"content\": \" \"}, {\"type\": "
    "\"Precompiled\", \"precompiled_charsmap\": \"CAAAAAAEAAAAAAAAYQA=\"}, "
    "{\"type\": \"Strip\"}]}, \"pre_tokenizer\": {\"type\": \"Sequence\", "
    "\"pretokenizers\": [{\"type\": \"Split\", \"pattern\": {\"Regex\": "
    "\"[0-9]\"}, \"behavior\": \"MergedWithNext\", \"invert\": false}, "
    "{\"type\": \"Metaspace\", \"prepend_scheme\": \"first\"}]}, \"model\": "
    "{\"type\": \"BPE\", \"unk_token\": \"u\", \"fuse_unk\": true, "
    "\"byte_fallback\": true, \"ignore_merges\": false, "
    "\"continuing_subword_prefix\": \"\", \"vocab\": {\"u\": 0, \"a\": 1, "
    "\"b\": 2, \"ab\": 3, \"\xe2\x96\x81\": 4, \"\xe2\x96\x81"
    "ab\": 5}, "
    "\"merges\": [\"a b\", [\"\xe2\x96\x81\", \"ab\"]]}, \"post_processor\": "
    "{\"type\": \"RobertaProcessing\", \"cls\": [\"<s>\", 9], \"sep\": "
    "[\"a\", 1]}, \"decoder\": {\"type\": \"Sequence\", \"decoders\": "
    "[{\"type\": \"Metaspace\"}, {\"type\": \"ByteFallback\"}, {\"type\": "
    "\"Fuse\"}]}}";

TEST(lying_json) {
  attend_context *ctx = open_context(NULL, 1, NULL);
  attend_tokenizer *t = load_text(ctx, everything); /* it is no lie itself */
  CHECK_EQ(attend_tokenizer_count(t), 10);
  attend_tokenizer_free(t);
  attend_context_free(ctx);
  torture("t.json", everything, sizeof everything - 1, light() ? 50 : 300, light() ? 200 : 2000);
}

/* Each was a finding of the fuzzers, or of looking where they look. */
TEST(small_files_that_lie) {
  static const char number[] = "\x08\x01"; /* a number where a piece belongs */
  static const char far[] = "{\"a\": 0, \"b\": 4000000}";
  ledger memory = {0};
  attend_context *ctx = open_context("scalar", 1, &memory);
  attend_tokenizer *t;
  CHECK_EQ(attend_tokenizer_load(ctx, write_file("n.model", number, 2), &t), ATTEND_IO);
  write_file("merges.txt", "", 0);
  memory.bytes = 0;
  CHECK_EQ(attend_tokenizer_load(ctx, write_file("vocab.json", far, sizeof far - 1), &t),
           ATTEND_IO);
  CHECK_SAYS(attend_message(ctx), "the id 4000000");
  CHECK(memory.bytes < 1 << 20);
  remove_files((const char *const[]){"n.model", "merges.txt", "vocab.json", NULL});
  attend_context_free(ctx);
}

/* Texts of which nothing is left, and words with an end but no inside: no byte
 * is looked for where there is none. */
TEST(nothing_at_all) {
  static const char ends[] =
      "{\"model\": {\"type\": \"BPE\", \"end_of_word_suffix\": \"/\", "
      "\"vocab\": {\"a\": 0, \"b/\": 1, \"ab/\": 2}, \"merges\": [\"a "
      "b/\"]}}";
  attend_context *ctx = open_context(NULL, 1, NULL);
  attend_encoding *e;
  for (int f = 0; f < FILES; f++) {
    attend_tokenizer *t = load_path(ctx, token_path(files[f]));
    attend_encode_options bare = {ATTEND_INIT(attend_encode_options), .no_special = true};
    OK(ctx, attend_encoding_create(t, &e));
    OK(ctx, attend_encode(e, NULL, 0, &bare));
    CHECK_EQ(e->count, 0);
    OK(ctx, attend_encode(e, "\x01\x02", 2, NULL));
    attend_encoding_free(e);
    attend_tokenizer_free(t);
  }
  attend_tokenizer *t = load_text(ctx, ends);
  OK(ctx, attend_encoding_create(t, &e));
  check_ids(ctx, e, "ab", "2");
  attend_encoding_free(e);
  attend_tokenizer_free(t);
  attend_context_free(ctx);
}

TEST(paths_that_lead_nowhere) {
  attend_context *ctx = open_context(NULL, 1, NULL);
  attend_tokenizer *t;
  CHECK_EQ(attend_tokenizer_load(ctx, "/no/such/folder", &t), ATTEND_IO);
  CHECK_SAYS(attend_message(ctx), "/no/such/folder");
  CHECK_EQ(attend_tokenizer_load(ctx, scratch_folder(), &t), ATTEND_IO);
  CHECK_SAYS(attend_message(ctx), "has no tokenizer");
  CHECK_EQ(attend_tokenizer_load(ctx, write_file("x.dat", "1", 1), &t), ATTEND_INVALID);
  CHECK_EQ(attend_tokenizer_load(ctx, write_file("vocab.json", "{}", 2), &t), ATTEND_IO);
  CHECK_SAYS(attend_message(ctx), "merges.txt");
  remove_files((const char *const[]){"x.dat", "vocab.json", NULL});
  attend_tokenizer_free(NULL);
  attend_encoding_free(NULL);
  attend_detokenizer_free(NULL);
  attend_context_free(ctx);
}

/* ---- settings beside the file -------------------------------------------------------------- */

TEST(settings) {
  static const char config[] =
      "{\"add_bos_token\": false, \"add_eos_token\": true, \"eos_token\": "
      "{\"content\": \"</s>\"}, \"pad_token\": \"<pad>\", "
      "\"added_tokens_decoder\": {\"32000\": {\"content\": \"<pad>\", "
      "\"special\": true}}}";
  attend_context *ctx = open_context(NULL, 1, NULL);
  attend_encoding *e;
  size_t length;
  char *bytes = read_whole(token_path("llama.model"), &length);
  write_file("tokenizer.model", bytes, length);
  write_file("tokenizer_config.json", config, sizeof config - 1);
  attend_tokenizer *t = load_path(ctx, scratch_folder());
  OK(ctx, attend_encoding_create(t, &e));
  CHECK_EQ(attend_tokenizer_count(t), 32001);
  CHECK_EQ(attend_tokenizer_special(t, ATTEND_SPECIAL_PAD), 32000);
  CHECK_EQ(attend_tokenizer_special(t, ATTEND_SPECIAL_EOS), 2);
  CHECK(attend_tokenizer_is_special(t, 32000));
  check_ids(ctx, e, "Hello<pad>", "15043 32000 2");
  attend_encoding_free(e);
  attend_tokenizer_free(t);
  free(bytes);
  remove_files((const char *const[]){"tokenizer.model", "tokenizer_config.json", NULL});
  attend_context_free(ctx);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static attend_status use(attend_context *ctx, const char *path) {
  static const char text[] = "ab 12 caf\xc3\xa9 \xff <s> ab";
  attend_tokenizer *t;
  attend_encoding *e = NULL;
  attend_detokenizer *d = NULL;
  const char *back;
  size_t n;
  attend_status status = attend_tokenizer_load(ctx, path, &t);
  if (!status) status = attend_encoding_create(t, &e);
  if (!status) status = attend_detokenizer_create(t, false, &d);
  if (!status) status = attend_encode(e, text, sizeof text - 1, NULL);
  if (!status) status = attend_decode(d, e->id, e->count, &back, &n);
  attend_detokenizer_free(d);
  attend_encoding_free(e);
  attend_tokenizer_free(t);
  return status;
}

/* PCRE2 may do without some of its memory, so a failure need not show. */
static void fail_each(const char *path) {
  ledger memory = {0};
  attend_context *ctx = open_context("scalar", 1, &memory);
  long before = memory.taken, live = memory.live;
  OK(ctx, use(ctx, path));
  long all = memory.taken - before;
  CHECK(all > 10);
  for (long n = 1; n <= all; n += 1 + all / (light() ? 20 : 100)) {
    memory.fail_at = memory.taken + n;
    attend_status status = use(ctx, path);
    memory.fail_at = 0;
    CHECK(status == ATTEND_OK || status == ATTEND_NO_MEMORY);
    if (status) CHECK_SAYS(attend_message(ctx), "no memory for");
    CHECK_EQ(memory.live, live);
  }
  attend_context_free(ctx);
}

TEST(every_allocation_fails) {
  fail_each(write_file("m.json", everything, sizeof everything - 1));
  fail_each(token_path("unigram.model"));
  fail_each(token_path("tok512.bin"));
  fail_each(token_path("gpt2-vocab.json"));
  remove_files((const char *const[]){"m.json", NULL});
}

/* Lines no longer than one seen before take no memory. */
TEST(second_time_for_free) {
  for (int f = 0; f < FILES; f++) {
    ledger memory = {0};
    attend_context *ctx = open_context("scalar", 1, &memory);
    attend_tokenizer *t = load_path(ctx, token_path(files[f]));
    attend_encoding *e;
    attend_detokenizer *d;
    const char *back;
    size_t n;
    long taken = 0;
    OK(ctx, attend_encoding_create(t, &e));
    OK(ctx, attend_detokenizer_create(t, false, &d));
    for (int round = 0; round < 2; round++) {
      for (uint64_t line = 0; line < 50; line++) {
        char bytes[512];
        size_t length = make_bytes(line, bytes, sizeof bytes);
        OK(ctx, attend_encode(e, bytes, length, NULL));
        OK(ctx, attend_decode(d, e->id, e->count, &back, &n));
      }
      if (round == 0) taken = memory.taken;
    }
    CHECK_EQ(memory.taken, taken);
    attend_detokenizer_free(d);
    attend_encoding_free(e);
    attend_tokenizer_free(t);
    attend_context_free(ctx);
  }
}
