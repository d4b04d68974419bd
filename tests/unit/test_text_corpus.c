/* Files of texts into corpora: documents, objects, pairs; long texts in pieces with
 * the ids of the whole; what is wrong is refused with its line, and leaves the
 * corpus as it was. */
#include "tokenizer_fixtures.h"
#include "train/corpus.h"

static const char *const names[] = {"a.txt", "b.txt", "a.jsonl", "a.tsv", "a.csv", NULL};

__attribute__((destructor)) static void leave_nothing(void) { remove_files(names); }

static const attend_tokenizer *tokenizer(const char *file) {
  static struct {
    const char *file;
    attend_tokenizer *t;
  } known[4];
  int i = 0;
  while (known[i].file && strcmp(known[i].file, file)) i++;
  known[i].file = file;
  if (!known[i].t) known[i].t = load_path(context(), token_path(file));
  return known[i].t;
}

static attend_corpus_options plain(const char *file) {
  return (attend_corpus_options){ATTEND_INIT(attend_corpus_options), .tokenizer = tokenizer(file),
                                 .end = -1};
}

static attend_corpus *empty_corpus(void) {
  attend_corpus *c;
  OK(context(), attend_corpus_create(context(), &c));
  return c;
}

/* A file of that text, read; `length` 0: up to its zero. */
static attend_status read_text(attend_corpus *c, const char *name, const char *text, size_t length,
                               const attend_corpus_options *o) {
  const char *path = write_file(name, text, length ? length : strlen(text));
  return attend_corpus_read(c, path, o);
}

/* Part i of a corpus has the ids of a text, with `before` and `after` around them
 * where these are not negative. */
static void check_part(const attend_corpus *c, size_t i, const attend_corpus_options *o,
                       int32_t before, const char *text, int32_t after) {
  attend_encoding *e;
  attend_encode_options none = {ATTEND_INIT(attend_encode_options), .no_special = true};
  size_t front = before >= 0, back = after >= 0;
  CHECK(i < c->parts);
  if (i >= c->parts) return;
  const int32_t *ids = c->ids + part_start(c, i);
  OK(context(), attend_encoding_create(o->tokenizer, &e));
  OK(context(), attend_encode(e, text, strlen(text), &none));
  CHECK_EQ(part_length(c, i), front + e->count + back);
  if (part_length(c, i) == front + e->count + back) {
    CHECK(!memcmp(ids + front, e->id, e->count * sizeof *ids));
    if (front) CHECK_EQ(ids[0], before);
    if (back) CHECK_EQ(ids[front + e->count], after);
  }
  attend_encoding_free(e);
}

/* ---- text ------------------------------------------------------------------------ */

enum { END_OF_TEXT = 50256 };

TEST(documents_between_ends_of_text) {
  static const char *const texts[] = {
      "One day.\nAnother.\n<|endoftext|>\nThe end\n<|endoftext|>\n",
      "One day.\nAnother.\n<|endoftext|>\n<|endoftext|>\nThe end",
      "\xef\xbb\xbfOne day.\nAnother.\n<|endoftext|>\r\nThe end",
      "<|endoftext|>\nOne day.\nAnother.\r\n<|endoftext|>\r\nThe end"};
  attend_corpus_options o = plain("gpt2-vocab.json");
  o.end = END_OF_TEXT;
  for (int i = 0; i < 4; i++) {
    attend_corpus *c = empty_corpus();
    OK(context(), read_text(c, "a.txt", texts[i], 0, &o));
    CHECK_EQ(attend_corpus_documents(c), 2);
    check_part(c, 0, &o, -1, "One day.\nAnother.", END_OF_TEXT);
    check_part(c, 1, &o, -1, "The end", END_OF_TEXT);
    CHECK(attend_corpus_bytes(c) + 3 >= strlen(texts[i]));
    CHECK_EQ(attend_corpus_dropped(c), 0);
    attend_corpus_free(c);
  }
}

/* Inside a line it is part of the text, whatever the tokenizer makes of it. */
TEST(an_end_within_a_line_is_none) {
  attend_corpus_options o = plain("tok512.bin");
  attend_corpus *c = empty_corpus();
  OK(context(), read_text(c, "a.txt", "a </s>\n </s>\nb", 0, &o));
  CHECK_EQ(attend_corpus_documents(c), 1);
  OK(context(), read_text(c, "a.txt", "a\n</s>\nb", 0, &o));
  CHECK_EQ(attend_corpus_documents(c), 3);
  check_part(c, 1, &o, 1, "a", -1); /* with what begins a text before it */
  check_part(c, 2, &o, 1, "b", -1);
  attend_corpus_free(c);
}

TEST(masked_texts_have_nothing_before_them) {
  attend_corpus_options o = plain("bert-vocab.txt");
  attend_corpus *c = empty_corpus();
  o.task = ATTEND_LEARN_MASKED;
  o.end = attend_tokenizer_special(o.tokenizer, ATTEND_SPECIAL_SEP);
  OK(context(), read_text(c, "a.txt", "a cat\n<|endoftext|>\na dog", 0, &o));
  CHECK_EQ(attend_corpus_documents(c), 2);
  check_part(c, 0, &o, -1, "a cat", o.end);
  check_part(c, 1, &o, -1, "a dog", o.end);
  attend_corpus_free(c);
}

static int stop_at_once(double done, const char *what, void *user) {
  (void)what;
  CHECK(done >= 0 && done <= 1);
  ++*(int *)user;
  return 1;
}

/* Words, lines, runs of spaces, letters of several bytes: over a mebibyte. */
static char *long_text(size_t *length) {
  static const char *const parts[] = {
      "The cat sat",  " on the mat. ", "\n\n\n", "caf\xc3\xa9 ",
      "\t  x=1;\r\n", " 12345",        "'s ",    "\xe5\x8c\x97\xe4\xba\xac"};
  char *text = zeroed_block((1 << 20) + (1 << 18), 1);
  size_t n = 0;
  for (uint64_t i = 0; n < (1 << 20) + (1 << 17); i++) {
    float draw;
    attend_random_uniform((attend_random){3, 3}, i, 1, &draw);
    const char *part = parts[(int)(draw * 8)];
    memcpy(text + n, part, strlen(part));
    n += strlen(part);
  }
  *length = n;
  return text;
}

/* Cut at several places, since it begins at several bytes. */
TEST(long_texts_have_the_ids_of_the_whole) {
  attend_corpus_options o = plain("gpt2-vocab.json");
  size_t length;
  char *text = long_text(&length);
  for (size_t skip = 0; skip < (light() ? 1 : 40); skip += 7) {
    attend_corpus *c = empty_corpus();
    OK(context(), read_text(c, "a.txt", text + skip, length - skip, &o));
    CHECK_EQ(attend_corpus_bytes(c), length - skip);
    check_part(c, 0, &o, -1, text + skip, -1);
    attend_corpus_free(c);
  }
  free(text);
}

TEST(reading_can_be_stopped) {
  attend_corpus_options o = plain("gpt2-vocab.json");
  attend_corpus *c = empty_corpus();
  size_t length;
  int calls = 0;
  char *text = long_text(&length);
  uint64_t digest = attend_corpus_digest(c);
  o.progress = stop_at_once;
  o.user = &calls;
  CHECK_EQ(read_text(c, "b.txt", text, length, &o), ATTEND_STOPPED);
  CHECK_EQ(calls, 1);
  CHECK(attend_corpus_digest(c) == digest);
  free(text);
  attend_corpus_free(c);
}

/* No space, no line, no character: cut all the same, and in good time. */
TEST(long_texts_without_a_place_to_cut) {
  enum { LENGTH = (1 << 20) + 5000 };
  static const unsigned char bytes[] = {0x80, 0xff, 'x', 0};
  attend_corpus_options o = plain("tok512.bin");
  char *text = zeroed_block(LENGTH, 1);
  for (int i = 0; i < (light() ? 1 : 4); i++) {
    attend_corpus *c = empty_corpus();
    memset(text, bytes[i], LENGTH);
    OK(context(), read_text(c, "a.txt", text, LENGTH, &o));
    CHECK(attend_corpus_tokens(c) > LENGTH / 64);
    attend_corpus_free(c);
  }
  for (size_t i = 0; i + 3 <= LENGTH; i += 3) memcpy(text + i, "\xe2\x82\xac", 3);
  attend_corpus *c = empty_corpus();
  OK(context(), read_text(c, "a.txt", text, LENGTH / 3 * 3, &o));
  /* one each, what begins a text, a mark before either piece: none is broken */
  CHECK_EQ(attend_corpus_tokens(c), LENGTH / 3 + 3);
  attend_corpus_free(c);
  free(text);
}

/* ---- objects ---------------------------------------------------------------------- */

TEST(objects_with_fields) {
  attend_corpus_options o = plain("gpt2-vocab.json");
  attend_corpus *c = empty_corpus();
  OK(context(), read_text(c, "a.jsonl",
                          "{\"text\": \"one\\u0000two\", \"n\": 1}\r\n\n \t\r\n"
                          "{\"n\": [2], \"text\": \"caf\\u00e9\"}",
                          0, &o));
  CHECK_EQ(attend_corpus_documents(c), 2);
  check_part(c, 1, &o, -1, "caf\xc3\xa9", -1);
  CHECK_EQ(part_length(c, 0), 3); /* one, a zero byte, two */
  o.field = "body";
  OK(context(), read_text(c, "a.jsonl", "{\"body\": \"three\"}\n", 0, &o));
  CHECK_EQ(attend_corpus_documents(c), 3);
  check_part(c, 2, &o, -1, "three", -1);
  attend_corpus_free(c);
}

/* ---- pairs -------------------------------------------------------------------------- */

static attend_corpus_options paired(const char *file, attend_parts parts) {
  attend_corpus_options o = plain(file);
  o.task = ATTEND_LEARN_PAIRS;
  o.parts = parts;
  return o;
}

TEST(pairs_end_whether_the_tokenizer_ends_texts_or_not) {
  attend_corpus_options o = paired("tok512.bin", ATTEND_BOTH);
  attend_corpus *c = empty_corpus();
  o.end = 2;
  OK(context(), read_text(c, "a.tsv", "a cat\ta dog\tmore\nb\tc\r\n\n", 0, &o));
  CHECK_EQ(attend_corpus_documents(c), 2);
  check_part(c, 0, &o, 1, "a cat", -1); /* what the tokenizer puts around */
  check_part(c, 1, &o, 1, "a dog", 2);
  check_part(c, 3, &o, 1, "c", 2);
  attend_corpus_free(c);
  o = paired("bert-vocab.txt", ATTEND_BOTH);
  o.end = 102;
  c = empty_corpus();
  OK(context(), read_text(c, "a.tsv", "a cat\ta dog\n", 0, &o));
  check_part(c, 1, &o, 101, "a dog", 102); /* once, not twice */
  attend_corpus_free(c);
}

TEST(pairs_from_objects) {
  static const char *const lines[] = {"{\"document\": \"a cat\", \"summary\": \"a dog\"}\n",
                                      "{\"target\": \"a dog\", \"source\": \"a cat\"}\n"};
  attend_corpus_options o = paired("gpt2-vocab.json", ATTEND_DECODER);
  attend_corpus *c = empty_corpus();
  o.end = END_OF_TEXT;
  for (size_t i = 0; i < 2; i++) {
    OK(context(), read_text(c, "a.jsonl", lines[i], 0, &o));
    check_part(c, 2 * i, &o, -1, "a cat", -1);
    check_part(c, 2 * i + 1, &o, -1, "a dog", END_OF_TEXT);
  }
  o.field = "q";
  o.answer_field = "a";
  OK(context(), read_text(c, "a.jsonl", "{\"q\": \"a cat\", \"a\": \"a dog\"}", 0, &o));
  check_part(c, 5, &o, -1, "a dog", END_OF_TEXT);
  attend_corpus_free(c);
}

/* Sides are cut to a length; an end stays at the end. */
TEST(long_pairs_are_cut) {
  static const char text[] = "a b c d e f g h\ta b c d e f g h\n";
  static const attend_parts parts[] = {ATTEND_BOTH, ATTEND_DECODER};
  for (int i = 0; i < 2; i++) {
    attend_corpus_options o = paired("gpt2-vocab.json", parts[i]);
    attend_corpus *c = empty_corpus();
    o.source_length = 5;
    o.target_length = 4;
    o.end = END_OF_TEXT;
    OK(context(), read_text(c, "a.tsv", text, 0, &o));
    check_part(c, 0, &o, -1, "a b c d e", -1);
    check_part(c, 1, &o, -1, "a b c", END_OF_TEXT);
    CHECK_EQ(attend_corpus_dropped(c), 3 + 5);
    attend_corpus_free(c);
  }
}

/* ---- what is refused ------------------------------------------------------------------ */

static void refuse(attend_corpus *c, const char *name, const char *text, size_t length,
                   const attend_corpus_options *o, const char *why) {
  uint64_t digest = attend_corpus_digest(c);
  size_t bytes = attend_corpus_bytes(c), cut = attend_corpus_dropped(c);
  CHECK(read_text(c, name, text, length, o) != ATTEND_OK);
  CHECK_SAYS(attend_message(context()), why);
  CHECK_SAYS(attend_message(context()), name);
  CHECK(attend_corpus_digest(c) == digest);
  CHECK(attend_corpus_bytes(c) == bytes && attend_corpus_dropped(c) == cut);
}

TEST(wrong_lines_are_refused_with_their_number) {
  attend_corpus_options o = paired("gpt2-vocab.json", ATTEND_BOTH);
  attend_corpus *c = empty_corpus();
  o.source_length = o.target_length = 3;
  static const struct {
    const char *name, *text, *why;
  } pairs[] = {{"a.tsv", "a b c d e\tb\nc d\n", "line 2 has no tab"},
               {"a.tsv", "a b c d e\tb\n\n\tb\n", "line 3: one side"},
               {"a.tsv", "a b c d e\tb\nb\t\r\n", "line 2: one side"},
               {"a.jsonl", "{\"source\": \"a b c d e\", \"target\": \"b\"}\n[]\n",
                "line 2: there is no string called \"document\" or \"source\""},
               {"a.jsonl", "\n{\"source\": \"a\"}\n",
                "line 2: there is no string called \"summary\" or \"target\""},
               {"a.jsonl", "{\"source\": \"\", \"target\": \"b\"}\n", "line 1: one side"},
               {"a.jsonl", "{\"source\": \"a\", \"target\": \"b\"}\n{\"source\": ", "line 2"},
               {"a.txt", "a\tb\n", ".jsonl or .tsv"},
               {"a.csv", "a,b\n", ".jsonl or .tsv"}};
  for (int empty = 1; empty >= 0; empty--) {
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
      refuse(c, pairs[i].name, pairs[i].text, 0, &o, pairs[i].why);
    OK(context(), read_text(c, "a.tsv", "a b c d e\tb\n", 0, &o));
  }
  attend_corpus_options text = plain("gpt2-vocab.json");
  CHECK(read_text(c, "a.txt", "a", 0, &text) != ATTEND_OK);
  CHECK_SAYS(attend_message(context()), "not both");
  attend_corpus_free(c);
  c = empty_corpus();
  refuse(c, "a.jsonl", "{\"txt\": \"a\"}", 0, &text,
         "line 1: there is no string called \"text\": say which");
  refuse(c, "a.jsonl", "{\"text\": 5}", 0, &text, "line 1");
  refuse(c, "a.jsonl", "{\"text\": \"\xff\"}", 0, &text, "line 1");
  attend_corpus_free(c);
}

TEST(what_is_no_text_is_refused) {
  attend_corpus_options o = plain("gpt2-vocab.json");
  attend_corpus *c = empty_corpus();
  refuse(c, "a.txt", "\x1f\x8b\x08\0\0\0", 6, &o, "gzip");
  refuse(c, "a.txt", "\x28\xb5\x2f\xfd\0", 5, &o, "zstd");
  refuse(c, "a.txt", "PAR1\x15\4", 6, &o, "Parquet");
  refuse(c, "a.txt",
         "\xff\xfe"
         "a\0",
         4, &o, "UTF-8");
  refuse(c, "a.jsonl", "\n\n", 0, &o, "holds no text");
  refuse(c, "a.txt", "<|endoftext|>\n<|endoftext|>", 0, &o, "holds no text");
  refuse(c, "a.txt", "\xef\xbb\xbf", 0, &o, "holds no text");
  FILE *empty = fopen(scratch_file("a.txt"), "wb");
  CHECK(empty && !fclose(empty));
  CHECK_EQ(attend_corpus_read(c, scratch_file("a.txt"), &o), ATTEND_IO);
  CHECK_SAYS(attend_message(context()), "holds no text");
  CHECK_EQ(attend_corpus_read(c, scratch_folder(), &o), ATTEND_IO);
  CHECK_SAYS(attend_message(context()), "is not a file");
  CHECK_EQ(attend_corpus_read(c, scratch_file("no.txt"), &o), ATTEND_IO);
  CHECK_SAYS(attend_message(context()), "no.txt cannot be opened");
  OK(context(), read_text(c, "a.txt", "a\0b\0", 4, &o)); /* zeros are bytes */
  CHECK_EQ(attend_corpus_tokens(c), 4);
  attend_corpus_free(c);
}

/* ---- files that become shorter ----------------------------------------------------------- */

static int cut_file(double done, const char *what, void *user) {
  (void)done, (void)what;
  CHECK(!truncate(user, 10));
  return 0;
}

TEST(a_file_that_is_cut_while_it_is_read) {
  enum { LENGTH = 3 << 20 };
  attend_corpus_options o = plain("gpt2-vocab.json");
  attend_corpus *c = empty_corpus(), *cut = empty_corpus();
  char *text = malloc(LENGTH), path[256];
  for (size_t i = 0; i < LENGTH; i++) text[i] = i % 5 == 4 ? ' ' : 'a';
  OK(context(), read_text(c, "a.txt", text, LENGTH, &o));
  snprintf(path, sizeof path, "%s", write_file("a.txt", text, LENGTH));
  o.progress = cut_file;
  o.user = path;
  OK(context(), attend_corpus_read(cut, path, &o));
  CHECK_EQ(attend_corpus_digest(cut), attend_corpus_digest(c));
  free(text);
  attend_corpus_free(c);
  attend_corpus_free(cut);
}

/* ---- memory --------------------------------------------------------------------------- */

static attend_status read_two(attend_context *ctx, attend_tokenizer *t) {
  attend_corpus_options o = {ATTEND_INIT(attend_corpus_options), .tokenizer = t,
                             .task = ATTEND_LEARN_PAIRS, .parts = ATTEND_BOTH, .end = 2};
  attend_corpus *c;
  ATTEND_TRY(attend_corpus_create(ctx, &c));
  attend_status status = attend_corpus_read(c, scratch_file("a.tsv"), &o);
  if (status) CHECK_EQ(attend_corpus_documents(c), 0);
  uint64_t before = attend_corpus_digest(c);
  if (!status) {
    status = attend_corpus_read(c, scratch_file("a.jsonl"), &o);
    if (status) CHECK(attend_corpus_digest(c) == before);
  }
  attend_corpus_free(c);
  return status;
}

TEST(memory_that_fails) {
  static const char line[] = "{\"source\": \"a cat\", \"target\": \"a dog\"}\n";
  char *text = zeroed_block(600 * sizeof line, 1);
  for (size_t i = 0; i < 600; i++) memcpy(text + i * (sizeof line - 1), line, sizeof line - 1);
  write_file("a.jsonl", text, strlen(text));
  write_file("a.tsv", "a cat\ta dog\n", 12);
  free(text);
  ledger memory = {0};
  attend_context *ctx = open_context(NULL, 1, &memory);
  attend_tokenizer *t = load_path(ctx, token_path("tok512.bin"));
  attend_status status = ATTEND_NO_MEMORY;
  long n = 0, step = 1;
  while (status && n < 100000) {
    long live = memory.live;
    memory.fail_at = memory.taken + (n += step);
    status = read_two(ctx, t);
    memory.fail_at = 0;
    CHECK_EQ(memory.live, live);
    CHECK(!status || status == ATTEND_NO_MEMORY);
    if (n > 60) step = 97; /* 600 lines, all alike */
  }
  CHECK(n > 30 && n < 100000);
  attend_tokenizer_free(t);
  attend_context_free(ctx);
}
