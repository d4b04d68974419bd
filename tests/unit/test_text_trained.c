/* Learnt tokenizers as files: Hugging Face's trainers learn the same, both ways
 * of loading give the same ids, bytes come back; and what can go wrong. */
#include "base/base.h"
#include "trained_tokenizers.h"

/* ---- Hugging Face's trainers ------------------------------------------------------- */

static int64_t number_of(const attend_json *j, const char *name) {
  int64_t n = 0;
  attend_json_integer(attend_json_get(j, name), &n);
  return n;
}

static void check_pieces(const attend_text_trainer *r, const char *name, const attend_json *want) {
  const attend_tokenizer *t = attend_text_trainer_tokenizer(r);
  CHECK_EQ(attend_tokenizer_count(t), attend_json_count(want));
  for (size_t i = 0; i < attend_json_count(want); i++) {
    const char *theirs = attend_json_string(attend_json_at(want, i), NULL);
    const char *ours = attend_tokenizer_piece(t, (int32_t)i, NULL);
    if (ours && theirs && !strcmp(ours, theirs)) continue;
    CHECK_FAIL("%s: piece %zu is \"%s\", not \"%s\"", name, i, ours, theirs);
    return; /* the rest follows from it */
  }
}

static void check_merges(const attend_text_trainer *r, const char *name, const attend_json *want) {
  attend_text_merge m;
  for (size_t i = 0; i < attend_json_count(want); i++) {
    const char *theirs = attend_json_string(attend_json_at(want, i), NULL);
    char ours[1024] = "";
    if (attend_text_trainer_merge(r, i, &m))
      snprintf(ours, sizeof ours, "%.400s %.400s", m.left, m.right);
    if (theirs && !strcmp(ours, theirs)) continue;
    CHECK_FAIL("%s: merge %zu is \"%s\", not \"%s\"", name, i, ours, theirs);
    return;
  }
}

static void compare(attend_context *ctx, const attend_json *golden, const char *text,
                    size_t length) {
  const char *name = attend_json_name(golden, NULL);
  const char *like = attend_json_string(attend_json_get(golden, "like"), NULL);
  attend_text_train_options o = {
      ATTEND_INIT(attend_text_train_options), .vocab = (int32_t)number_of(golden, "vocab"),
      .min = (uint64_t)number_of(golden, "least"),
      .lowercase = attend_json_boolean(attend_json_get(golden, "lowercase"), false)};
  while (attend_like_name(o.like) && strcmp(attend_like_name(o.like), like)) o.like++;
  attend_text_trainer *r = learn(ctx, &o, text, length);
  check_pieces(r, name, attend_json_get(golden, "pieces"));
  check_merges(r, name, attend_json_get(golden, "merges"));
  attend_text_trainer_free(r);
}

TEST(as_hugging_face_learns) {
  attend_context *ctx = open_context(NULL, 2, NULL);
  const char *folder = getenv("ATTEND_GOLDEN");
  char path[4096];
  attend_json *root;
  size_t length, size, cases = 0;
  snprintf(path, sizeof path, "%s/trained/trained.json", folder ? folder : "tests/golden");
  char *text = golden_text(&length), *json = read_whole(path, &size);
  OK(ctx, attend_json_parse(ctx, path, json, size, &root));
  CHECK(attend_json_get(root, "gpt2") && attend_json_get(root, "bert-lower"));
  for (size_t i = 0; i < attend_json_count(root); i++) {
    const attend_json *golden = attend_json_at(root, i);
    if (attend_json_kind_of(golden) != ATTEND_JSON_OBJECT) continue;
    compare(ctx, golden, text, length);
    cases++;
  }
  CHECK(cases >= 4);
  attend_json_free(root);
  free(json);
  free(text);
  attend_context_free(ctx);
}

/* ---- files ------------------------------------------------------------------------- */

static void remove_all(void) {
  for (int i = 0; attend_text_trainer_file(i); i++)
    unlink(scratch_file(attend_text_trainer_file(i)));
  rmdir(scratch_folder());
}

static const char *const texts[] = {"Hello world",
                                    "",
                                    " ",
                                    "  two  spaces\n\nand lines\t x",
                                    "don't we'll I'M",
                                    "caf\xc3\xa9 E\xcc\x81",
                                    "\xe5\x8c\x97\xe4\xba\xac you \xf0\x9f\x91\x8d",
                                    "<s> in  <mask> text </s><|endoftext|>[CLS] a [MASK].<extra>!",
                                    "bad \xff\xe5\x8c bytes",
                                    "12 3.14 \x01"};
enum { TEXTS = sizeof texts / sizeof *texts };

static void check_same_ids(attend_context *ctx, const attend_tokenizer *a,
                           const attend_tokenizer *b, const char *what) {
  attend_encoding *x, *y;
  OK(ctx, attend_encoding_create(a, &x));
  OK(ctx, attend_encoding_create(b, &y));
  for (int i = 0; i < TEXTS; i++)
    for (int two = 0; two < 2; two++) {
      attend_encode_options o = {ATTEND_INIT(attend_encode_options), .pair = two ? "a pair" : NULL,
                                 .pair_length = 6};
      OK(ctx, attend_encode(x, texts[i], strlen(texts[i]), &o));
      OK(ctx, attend_encode(y, texts[i], strlen(texts[i]), &o));
      if (x->count != y->count || memcmp(x->id, y->id, x->count * sizeof *x->id) ||
          memcmp(x->type, y->type, x->count * sizeof *x->type))
        CHECK_FAIL("%s: other ids for \"%s\"", what, texts[i]);
    }
  for (int i = 0; i < ATTEND_SPECIALS; i++)
    CHECK_EQ(attend_tokenizer_special(a, (attend_special)i),
             attend_tokenizer_special(b, (attend_special)i));
  attend_encoding_free(x);
  attend_encoding_free(y);
}

static void check_files(attend_context *ctx, const attend_text_train_options *o, const char *text,
                        size_t length) {
  const char *name = attend_like_name(o->like);
  attend_text_trainer *r = learn(ctx, o, text, length);
  OK(ctx, attend_text_trainer_save(r, scratch_folder()));
  attend_tokenizer *whole = load_path(ctx, scratch_folder());
  unlink(scratch_file("tokenizer.json"));
  attend_tokenizer *parts = load_path(ctx, scratch_folder());
  CHECK_EQ(attend_tokenizer_count(whole), attend_text_trainer_report(r)->vocab);
  CHECK_EQ(attend_tokenizer_count(parts), attend_tokenizer_count(whole));
  check_same_ids(ctx, whole, parts, name);
  check_same_ids(ctx, whole, attend_text_trainer_tokenizer(r), name);
  attend_tokenizer_free(whole);
  attend_tokenizer_free(parts);
  attend_text_trainer_free(r);
  remove_all();
}

TEST(both_ways_of_loading) {
  static const char *const extra[] = {"<extra>", "<mask>", "<s>"};
  attend_context *ctx = open_context(NULL, 2, NULL);
  size_t length;
  char *text = golden_text(&length);
  for (int like = 0; like < ATTEND_LIKES; like++) {
    attend_text_train_options o = {ATTEND_INIT(attend_text_train_options),
                                   .like = (attend_like)like, .vocab = 700};
    check_files(ctx, &o, text, length);
    o.specials = extra;
    o.n_specials = 3;
    o.lowercase = true;
    check_files(ctx, &o, text, length);
    o.keep_accents = true;
    check_files(ctx, &o, text, length);
  }
  free(text);
  attend_context_free(ctx);
}

static void check_around(attend_context *ctx, attend_like like, const char *want) {
  attend_text_train_options o = {ATTEND_INIT(attend_text_train_options), .like = like,
                                 .vocab = 300};
  attend_text_trainer *r = learn(ctx, &o, "ab ab ab", 8);
  attend_encoding *e;
  char got[256] = "";
  OK(ctx, attend_encoding_create(attend_text_trainer_tokenizer(r), &e));
  OK(ctx, attend_encode(e, "ab", 2, NULL));
  for (size_t i = 0; i < e->count; i++) {
    strcat(got, attend_tokenizer_piece(attend_text_trainer_tokenizer(r), e->id[i], NULL));
    strcat(got, " ");
  }
  if (strcmp(got, want)) CHECK_FAIL("\"%s\" is not \"%s\"", got, want);
  attend_encoding_free(e);
  attend_text_trainer_free(r);
}

TEST(what_goes_around) {
  attend_context *ctx = open_context(NULL, 1, NULL);
  check_around(ctx, ATTEND_LIKE_GPT2, "ab ");
  check_around(ctx, ATTEND_LIKE_BERT, "[CLS] ab [SEP] ");
  check_around(ctx, ATTEND_LIKE_BART, "<s> ab </s> ");
  check_around(ctx, ATTEND_LIKE_LLAMA, "<s> ab ");
  attend_context_free(ctx);
}

TEST(bytes_come_backward) {
  attend_context *ctx = open_context(NULL, 1, NULL);
  attend_text_train_options o = {ATTEND_INIT(attend_text_train_options), .vocab = 600};
  size_t length, n;
  char *text = golden_text(&length);
  attend_text_trainer *r = learn(ctx, &o, text, length);
  attend_encoding *e;
  attend_detokenizer *d;
  const char *back;
  OK(ctx, attend_encoding_create(attend_text_trainer_tokenizer(r), &e));
  OK(ctx, attend_detokenizer_create(attend_text_trainer_tokenizer(r), false, &d));
  OK(ctx, attend_encode(e, text, length, NULL));
  OK(ctx, attend_decode(d, e->id, e->count, &back, &n));
  CHECK(n == length && !memcmp(back, text, n));
  for (int c = 0; c < 0x3000; c++) { /* letters that no text had */
    char one[4];
    size_t size = c < 0x80 ? 1 : c < 0x800 ? 2 : 3;
    one[0] = (char)(size == 1 ? c : size == 2 ? 0xc0 | c >> 6 : 0xe0 | c >> 12);
    if (size == 3) one[1] = (char)(0x80 | (c >> 6 & 63));
    if (size > 1) one[size - 1] = (char)(0x80 | (c & 63));
    OK(ctx, attend_encode(e, one, size, NULL));
    OK(ctx, attend_decode(d, e->id, e->count, &back, &n));
    CHECK(n == size && !memcmp(back, one, n));
  }
  attend_detokenizer_free(d);
  attend_encoding_free(e);
  attend_text_trainer_free(r);
  free(text);
  attend_context_free(ctx);
}

/* Special tokens are cut out before anything is counted, and what would make
 * a piece of the same name is not merged. */
TEST(special_tokens_are_not_learnt) {
  static const char *const names[] = {"<sep>", "\xc4\xa0zz"};
  static const char text[] = "<sep>a<sep>a<sep>a zz zz zz zz<sep>";
  attend_context *ctx = open_context(NULL, 1, NULL);
  attend_text_train_options o = {ATTEND_INIT(attend_text_train_options), .vocab = 300,
                                 .specials = names, .n_specials = 2};
  attend_text_trainer *r = learn(ctx, &o, text, sizeof text - 1);
  attend_text_merge m;
  CHECK_EQ(attend_text_trainer_report(r)->specials, 3);
  CHECK_EQ(attend_text_trainer_report(r)->merges, 1); /* z z, not <, not Ġzz */
  CHECK(attend_text_trainer_merge(r, 0, &m) && !strcmp(m.left, "z"));
  CHECK_EQ(m.count, 4);
  CHECK_EQ(attend_text_trainer_report(r)->tokens, 4 + 3 + 4 * 2);
  attend_text_trainer_free(r);
  attend_context_free(ctx);
}

/* ---- what is refused --------------------------------------------------------------- */

static void refuse(attend_text_train_options o, const char *text, const char *says) {
  attend_context *ctx = open_context(NULL, 1, NULL);
  attend_text_trainer *r = NULL;
  attend_status status = attend_text_trainer_create(ctx, &o, &r);
  if (!status) status = attend_text_trainer_feed(r, text, strlen(text));
  if (!status) status = attend_text_trainer_learn(r);
  CHECK_EQ(status, ATTEND_INVALID);
  CHECK_SAYS(attend_message(ctx), says);
  attend_text_trainer_free(r);
  attend_context_free(ctx);
}

TEST(refusals) {
  static const char *const space[] = {"a b"}, *const letter[] = {"a"}, *const none[] = {""},
                           *const bad[] = {"\xff"}, *const inside[] = {"##a"};
  attend_text_train_options bert = {ATTEND_INIT(attend_text_train_options),
                                    .like = ATTEND_LIKE_BERT};
  refuse((attend_text_train_options){ATTEND_INIT(attend_text_train_options), .vocab = 256}, "x",
         "257 at least");
  refuse((attend_text_train_options){ATTEND_INIT(attend_text_train_options)}, "", "no text");
  refuse(bert, " \n ", "no text");
  refuse((attend_text_train_options){ATTEND_INIT(attend_text_train_options), .vocab = -1}, "x",
         "vocabulary of -1");
  refuse((attend_text_train_options){ATTEND_INIT(attend_text_train_options), .longest = 129}, "x",
         "129 letters");
  refuse((attend_text_train_options){ATTEND_INIT(attend_text_train_options), .like = ATTEND_LIKES},
         "x", "no kind");
  refuse((attend_text_train_options){ATTEND_INIT(attend_text_train_options), .specials = space,
                                     .n_specials = 1},
         "x", "\"a b\" cannot be");
  refuse((attend_text_train_options){ATTEND_INIT(attend_text_train_options), .specials = letter,
                                     .n_specials = 1},
         "x", "a letter");
  refuse((attend_text_train_options){ATTEND_INIT(attend_text_train_options), .specials = none,
                                     .n_specials = 1},
         "x", "cannot be a special");
  refuse((attend_text_train_options){ATTEND_INIT(attend_text_train_options), .specials = bad,
                                     .n_specials = 1},
         "x", "cannot be a special");
  bert.vocab = 9;
  refuse(bert, "abcd", "12 at least");
  bert.vocab = 5;
  refuse(bert, "a", "6 at least");
  bert.vocab = 0;
  bert.specials = inside;
  bert.n_specials = 1;
  refuse(bert, "bat", "\"##a\" cannot be");
}

TEST(in_the_wrong_order) {
  attend_context *ctx = open_context(NULL, 1, NULL);
  attend_text_trainer *r;
  attend_text_merge m;
  OK(ctx, attend_text_trainer_create(ctx, NULL, &r));
  CHECK(!attend_text_trainer_report(r) && !attend_text_trainer_tokenizer(r));
  CHECK(!attend_text_trainer_merge(r, 0, &m));
  CHECK_EQ(attend_text_trainer_save(r, scratch_folder()), ATTEND_INVALID);
  CHECK_SAYS(attend_message(ctx), "nothing to save");
  OK(ctx, attend_text_trainer_feed(r, "x y", 3));
  OK(ctx, attend_text_trainer_learn(r));
  CHECK_EQ(attend_text_trainer_feed(r, "x", 1), ATTEND_INVALID);
  CHECK_EQ(attend_text_trainer_learn(r), ATTEND_INVALID);
  CHECK_EQ(attend_text_trainer_save(r, "/no/such/place"), ATTEND_IO);
  CHECK_SAYS(attend_message(ctx), "/no/such/place");
  CHECK_EQ(attend_text_trainer_save(r, write_file("file", "", 0)), ATTEND_IO);
  remove_files((const char *const[]){"file", NULL});
  attend_text_trainer_free(r);
  attend_text_trainer_free(NULL);
  attend_context_free(ctx);
}

/* ---- limits ------------------------------------------------------------------------ */

TEST(a_small_text_fills_no_vocabulary) {
  attend_context *ctx = open_context(NULL, 1, NULL);
  attend_text_train_options o = {ATTEND_INIT(attend_text_train_options), .vocab = 5000};
  attend_text_trainer *r = learn(ctx, &o, "to be or not to be", 18);
  CHECK_EQ(attend_text_trainer_report(r)->vocab, 257 + 3); /* be, Ġbe, to */
  attend_text_trainer_free(r);
  attend_context_free(ctx);
}

/* Words with a letter that is not in the alphabet are [UNK], and so are those
 * that are too long: nothing is learnt from either. */
TEST(a_small_alphabet) {
  static const char text[] = "aab aab aab bza bza bza bza ab";
  char longer[512];
  attend_context *ctx = open_context(NULL, 1, NULL);
  attend_text_train_options o = {ATTEND_INIT(attend_text_train_options), .like = ATTEND_LIKE_BERT,
                                 .vocab = 100, .alphabet = 2};
  memset(longer, 'b', sizeof longer);
  memcpy(longer, text, sizeof text - 1);
  longer[sizeof text - 1] = ' ';
  attend_text_trainer *r = learn(ctx, &o, longer, sizeof longer);
  const attend_text_trained *report = attend_text_trainer_report(r);
  CHECK_EQ(report->letters, 4); /* a, b, ##a, ##b */
  CHECK_EQ(report->unknown, 5);
  attend_text_merge m;
  CHECK(attend_text_trainer_merge(r, 0, &m));
  CHECK(!strcmp(m.left, "a") && !strcmp(m.right, "##a") && m.count == 3);
  attend_text_trainer_free(r);
  attend_context_free(ctx);
}

static int stop_at_three(double done, const char *what, void *user) {
  (void)what;
  *(double *)user = done;
  return done >= 3.0 / (300 - 257);
}

TEST(stopping) {
  attend_context *ctx = open_context(NULL, 1, NULL);
  size_t length;
  double done = 0;
  attend_text_train_options o = {ATTEND_INIT(attend_text_train_options), .vocab = 300,
                                 .progress = stop_at_three, .user = &done};
  attend_text_trainer *r;
  char *text = golden_text(&length);
  OK(ctx, attend_text_trainer_create(ctx, &o, &r));
  OK(ctx, attend_text_trainer_feed(r, text, length));
  CHECK_EQ(attend_text_trainer_learn(r), ATTEND_STOPPED);
  CHECK_SAYS(attend_message(ctx), "after 3 merges");
  CHECK(done == 3.0 / (300 - 257));
  attend_text_trainer_free(r);
  free(text);
  attend_context_free(ctx);
}

/* ---- memory ------------------------------------------------------------------------ */

static attend_status use(attend_context *ctx, attend_like like) {
  attend_text_train_options o = {ATTEND_INIT(attend_text_train_options), .like = like, .vocab = 400,
                                 .alphabet = 20};
  attend_text_trainer *r;
  attend_status status = attend_text_trainer_create(ctx, &o, &r);
  for (int i = 0; i < TEXTS && !status; i++) {
    status = attend_text_trainer_feed(r, texts[i], strlen(texts[i]));
    if (!status) status = attend_text_trainer_end(r);
  }
  if (!status) status = attend_text_trainer_learn(r);
  if (!status) status = attend_text_trainer_save(r, scratch_folder());
  attend_text_trainer_free(r);
  return status;
}

TEST(every_allocation_fails) {
  for (int like = 0; like < 2; like++) {
    ledger memory = {0};
    attend_context *ctx = open_context("scalar", 2, &memory);
    long live = memory.live, before = memory.taken;
    OK(ctx, use(ctx, (attend_like)like));
    long all = memory.taken - before;
    CHECK(all > 50);
    for (long n = 1; n <= all; n += 1 + all / (light() ? 20 : 40)) {
      memory.fail_at = memory.taken + n;
      attend_status status = use(ctx, (attend_like)like);
      memory.fail_at = 0;
      CHECK(status == ATTEND_OK || status == ATTEND_NO_MEMORY);
      if (status) CHECK_SAYS(attend_message(ctx), "no memory for");
      CHECK_EQ(memory.live, live);
    }
    attend_context_free(ctx);
    remove_all();
  }
}
