/* Models against the plainest way to say what they do, and the same vocabulary
 * in other files. */
#include "base/json_write.h"
#include "tokenizer_fixtures.h"

/* ---- BPE by its definition ----------------------------------------------------------- */

enum { LETTERS = 160, LONGEST = 32 };

typedef struct {
  char text[LETTERS + 1][LONGEST];
  size_t count;
} symbols;

/* In Llama's vocabulary a lower id is a better score, from 259 on. */
static int32_t joined(const attend_tokenizer *t, const symbols *s, size_t i) {
  char both[2 * LONGEST];
  int n = snprintf(both, sizeof both, "%s%s", s->text[i], s->text[i + 1]);
  int32_t id = attend_tokenizer_find(t, both, (size_t)n);
  return id >= 259 && n < LONGEST ? id : INT32_MAX;
}

static void join_best(const attend_tokenizer *t, symbols *s) {
  for (;;) {
    size_t best = 0;
    int32_t min = INT32_MAX;
    for (size_t i = 0; i + 1 < s->count; i++)
      if (joined(t, s, i) < min) min = joined(t, s, best = i);
    if (min == INT32_MAX) return;
    const char *made = attend_tokenizer_piece(t, min, NULL);
    memcpy(s->text[best], made, strlen(made) + 1);
    memmove(s->text[best + 1], s->text[best + 2], (s->count - best - 2) * sizeof *s->text);
    s->count--;
  }
}

TEST(long_words_by_definition) {
  attend_context *ctx = open_context(NULL, 1, NULL);
  attend_tokenizer *t = load_path(ctx, token_path("llama.model"));
  attend_encoding *e;
  OK(ctx, attend_encoding_create(t, &e));
  for (uint64_t trial = 0; trial < (light() ? 4u : 12u); trial++) {
    static const char alphabet[] = "etaoinshrd";
    static symbols s;
    char text[LETTERS + 1] = "";
    float u[LETTERS];
    size_t length = 20 + 20 * (size_t)(trial % 8); /* short and long ones */
    attend_random_uniform((attend_random){5, trial}, 0, LETTERS, u);
    s.count = length + 1;
    strcpy(s.text[0], "\xe2\x96\x81");
    for (size_t i = 0; i < length; i++) {
      text[i] = alphabet[(int)(u[i] * 10)];
      s.text[i + 1][0] = text[i];
      s.text[i + 1][1] = 0;
    }
    join_best(t, &s);
    OK(ctx, attend_encode(
                e, text, length,
                &(attend_encode_options){ATTEND_INIT(attend_encode_options), .no_special = true}));
    bool same = e->count == s.count;
    for (size_t i = 0; i < s.count && same; i++)
      same = !strcmp(attend_tokenizer_piece(t, e->id[i], NULL), s.text[i]);
    if (!same) CHECK_FAIL("\"%s\" is merged in another way", text);
  }
  attend_encoding_free(e);
  attend_tokenizer_free(t);
  attend_context_free(ctx);
}

/* ---- ids do not depend on what was encoded before --------------------------------------- */

typedef struct {
  attend_context *ctx;
  attend_json *root;
} strings;

static strings open_strings(void) {
  strings s = {.ctx = open_context(NULL, 1, NULL)};
  size_t length;
  char *text = read_whole(token_path("tokens.json"), &length);
  OK(s.ctx, attend_json_parse(s.ctx, "tokens.json", text, length, &s.root));
  free(text);
  return s;
}

static const char *string_at(const strings *s, size_t i, size_t *length) {
  const attend_json *list = attend_json_get(s->root, "single");
  return attend_json_string(attend_json_get(attend_json_at(list, i), "text"), length);
}

static void check_same(const attend_encoding *a, const attend_encoding *b, const char *text) {
  if (a->count != b->count || memcmp(a->id, b->id, a->count * sizeof *a->id))
    CHECK_FAIL("other ids for \"%s\"", text);
  for (size_t i = 0; i < a->count && i < b->count; i++)
    CHECK(a->start[i] == b->start[i] && a->end[i] == b->end[i]);
}

TEST(memory_of_words_changes_nothing) {
  static const char *const files[] = {"gpt2-vocab.json", "bert-vocab.txt", "llama.model",
                                      "unigram.model"};
  strings s = open_strings();
  for (int f = 0; f < 4; f++) {
    attend_tokenizer *t = load_path(s.ctx, token_path(files[f]));
    attend_encoding *used, *fresh;
    OK(s.ctx, attend_encoding_create(t, &used));
    for (size_t i = 216; i-- > 0;) {
      size_t n;
      const char *text = string_at(&s, i, &n);
      OK(s.ctx, attend_encoding_create(t, &fresh));
      OK(s.ctx, attend_encode(used, text, n, NULL));
      OK(s.ctx, attend_encode(fresh, text, n, NULL));
      check_same(used, fresh, text);
      attend_encoding_free(fresh);
    }
    attend_encoding_free(used);
    attend_tokenizer_free(t);
  }
  attend_json_free(s.root);
  attend_context_free(s.ctx);
}

/* ---- GPT-2 in one file ---------------------------------------------------------------------- */

static void put_merges(json_writer *w) {
  size_t length;
  char *text = read_whole(token_path("gpt2-merges.txt"), &length);
  json_member(w, "merges");
  json_open(w, '[');
  for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
    if (line[0] != '#' || line[1] != 'v') json_put_string(w, line);
  json_close(w, ']');
  free(text);
}

static void put_vocab(json_writer *w, attend_context *ctx) {
  size_t length;
  attend_json *root;
  char *text = read_whole(token_path("gpt2-vocab.json"), &length);
  OK(ctx, attend_json_parse(ctx, "vocab", text, length, &root));
  json_member(w, "vocab");
  json_open(w, '{');
  for (size_t i = 0; i < attend_json_count(root); i++) {
    int64_t id = 0;
    attend_json_integer(attend_json_at(root, i), &id);
    json_member(w, attend_json_name(attend_json_at(root, i), NULL));
    json_put_integer(w, id);
  }
  json_close(w, '}');
  attend_json_free(root);
  free(text);
}

static attend_tokenizer *gpt2_in_one(attend_context *ctx) {
  json_writer w = json_writer_text(ctx);
  json_open(&w, '{');
  json_member(&w, "pre_tokenizer");
  json_open(&w, '{');
  json_member(&w, "type");
  json_put_string(&w, "ByteLevel");
  json_member(&w, "add_prefix_space");
  json_put_boolean(&w, false);
  json_close(&w, '}');
  json_member(&w, "model");
  json_open(&w, '{');
  json_member(&w, "type");
  json_put_string(&w, "BPE");
  put_vocab(&w, ctx);
  put_merges(&w);
  json_close(&w, '}');
  json_close(&w, '}');
  OK(ctx, json_finish(&w));
  attend_tokenizer *t = load_text(ctx, w.text);
  json_writer_free(&w);
  return t;
}

TEST(gpt2_in_one_file) {
  strings s = open_strings();
  attend_tokenizer *one = gpt2_in_one(s.ctx);
  attend_tokenizer *two = load_path(s.ctx, token_path("gpt2-vocab.json"));
  attend_encoding *a, *b;
  OK(s.ctx, attend_encoding_create(one, &a));
  OK(s.ctx, attend_encoding_create(two, &b));
  for (size_t i = 0; i < 216; i++) {
    size_t n;
    const char *text = string_at(&s, i, &n);
    OK(s.ctx, attend_encode(a, text, n, NULL));
    OK(s.ctx, attend_encode(b, text, n, NULL));
    check_same(a, b, text);
  }
  CHECK_EQ(attend_tokenizer_special(one, ATTEND_SPECIAL_EOS), 50256);
  attend_encoding_free(a);
  attend_encoding_free(b);
  attend_tokenizer_free(one);
  attend_tokenizer_free(two);
  attend_json_free(s.root);
  attend_context_free(s.ctx);
}

/* ---- llama2.c -------------------------------------------------------------------------------- */

/* The ids that llama2.c's own tests have for this sentence's beginning. */
TEST(llama2c) {
  attend_context *ctx = open_context(NULL, 1, NULL);
  attend_tokenizer *t = load_path(ctx, token_path("tok512.bin"));
  attend_encoding *e;
  attend_detokenizer *d;
  const char *text;
  size_t n;
  OK(ctx, attend_encoding_create(t, &e));
  OK(ctx, attend_detokenizer_create(t, true, &d));
  check_ids(ctx, e, "Once upon a time", "1 403 407 261 378");
  OK(ctx, attend_decode(d, e->id, e->count, &text, &n));
  CHECK(!strcmp(text, "Once upon a time"));
  CHECK_EQ(attend_tokenizer_special(t, ATTEND_SPECIAL_BOS), 1);
  CHECK_EQ(attend_tokenizer_special(t, ATTEND_SPECIAL_EOS), 2);
  attend_detokenizer_free(d);
  attend_encoding_free(e);
  attend_tokenizer_free(t);
  attend_context_free(ctx);
}

/* ---- tokens as they are shown ------------------------------------------------------------ */

/* The labels of a text's tokens, with spaces between. */
static void expect_labels(const char *file, const char *text, const char *want) {
  attend_context *ctx = open_context(NULL, 1, NULL);
  attend_tokenizer *t = load_path(ctx, token_path(file));
  attend_encoding *e;
  char got[512] = "";
  OK(ctx, attend_encoding_create(t, &e));
  OK(ctx, attend_encode(
              e, text, strlen(text),
              &(attend_encode_options){ATTEND_INIT(attend_encode_options), .no_special = true}));
  for (size_t i = 0; i < e->count; i++) {
    char label[64];
    size_t n = attend_tokenizer_label(t, e->id[i], label, sizeof label);
    CHECK_EQ(n, strlen(label));
    snprintf(got + strlen(got), sizeof got - strlen(got), "%s%s", i ? " " : "", label);
  }
  if (strcmp(got, want))
    CHECK_FAIL("%s: \"%s\" is labelled \"%s\", not \"%s\"", file, text, got, want);
  attend_encoding_free(e);
  attend_tokenizer_free(t);
  attend_context_free(ctx);
}

TEST(labels_are_text) {
  expect_labels("gpt2-vocab.json", "The dog\nran", "The ·dog ↵ ran");
  expect_labels("gpt2-vocab.json", "a\xf0\x9f\xa6\xa9", "a ⟨F0⟩⟨9F⟩ ⟨A6⟩ ⟨A9⟩");
  expect_labels("llama.model", "The dog \xf0\x9f\xa6\xa9\n", "·The ·dog ␣ ⟨F0⟩ ⟨9F⟩ ⟨A6⟩ ⟨A9⟩ ↵");
  expect_labels("bert-vocab.txt", "embeddings", "em –bed –ding –s");
}
