/* Token ids from Hugging Face tokenizers and sentencepiece: 216 strings, four
 * tokenizers, and BERT's pairs. */
#include "tokenizer_fixtures.h"

typedef struct {
  attend_context *ctx;
  char *text;
  attend_json *root;
} goldens;

static goldens open_goldens(void) {
  goldens g = {.ctx = open_context(NULL, 1, NULL)};
  size_t length;
  g.text = read_whole(token_path("tokens.json"), &length);
  OK(g.ctx, attend_json_parse(g.ctx, "tokens.json", g.text, length, &g.root));
  return g;
}

static void close_goldens(goldens *g) {
  attend_json_free(g->root);
  free(g->text);
  attend_context_free(g->ctx);
}

static void compare_list(const char *text, const attend_json *want, const int32_t *got,
                         size_t count, const char *what) {
  int64_t id;
  bool same = attend_json_count(want) == count;
  for (size_t i = 0; i < count && same; i++)
    same = attend_json_integer(attend_json_at(want, i), &id) && id == got[i];
  if (!same) CHECK_FAIL("other %s for \"%s\"", what, text);
}

/* Tokens follow each other through the text; together they cover it where the
 * tokenizer loses nothing. */
static void check_offsets(const attend_encoding *e, const char *text, size_t length, bool covers) {
  size_t at = 0;
  for (size_t i = 0; i < e->count; i++) {
    CHECK(e->start[i] <= e->end[i] && e->end[i] <= length);
    if (e->part[i] < 0) continue;
    if (covers && e->start[i] != at) CHECK_FAIL("a gap at byte %zu of \"%s\"", at, text);
    CHECK(e->start[i] >= at || e->end[i] >= at);
    at = e->end[i];
  }
  if (covers && at != length) CHECK_FAIL("the end of \"%s\" is lost", text);
}

static void check_round_trip(attend_context *ctx, attend_detokenizer *d, const attend_encoding *e,
                             const char *text, size_t length) {
  const char *back;
  size_t n;
  OK(ctx, attend_decode(d, e->id, e->count, &back, &n));
  if (n != length || memcmp(back, text, n)) CHECK_FAIL("\"%s\" comes back as \"%s\"", text, back);
}

static void check_all(const char *file, const char *column, bool special, bool covers,
                      bool lossless) {
  goldens g = open_goldens();
  const attend_json *list = attend_json_get(g.root, "single");
  attend_tokenizer *t = load_path(g.ctx, token_path(file));
  attend_encoding *e;
  attend_detokenizer *d;
  OK(g.ctx, attend_encoding_create(t, &e));
  OK(g.ctx, attend_detokenizer_create(t, true, &d));
  CHECK_EQ(attend_json_count(list), 216);
  for (size_t i = 0; i < attend_json_count(list); i++) {
    const attend_json *entry = attend_json_at(list, i);
    size_t n;
    const char *text = attend_json_string(attend_json_get(entry, "text"), &n);
    attend_encode_options o = {ATTEND_INIT(attend_encode_options), .no_special = !special};
    OK(g.ctx, attend_encode(e, text, n, &o));
    compare_list(text, attend_json_get(entry, column), e->id, e->count, "ids");
    check_offsets(e, text, n, covers);
    bool marks = strstr(text, "\xe2\x96\x81") != NULL; /* become spaces */
    if (lossless && !marks) check_round_trip(g.ctx, d, e, text, n);
  }
  attend_detokenizer_free(d);
  attend_encoding_free(e);
  attend_tokenizer_free(t);
  close_goldens(&g);
}

TEST(gpt2) { check_all("gpt2-vocab.json", "gpt2", true, true, true); }
TEST(gpt2_by_its_merges) { check_all("gpt2-merges.txt", "gpt2", true, true, true); }
TEST(bert_json) { check_all("bert-tokenizer.json", "bert", true, false, false); }
TEST(bert_list) { check_all("bert-vocab.txt", "bert", true, false, false); }
TEST(llama) { check_all("llama.model", "llama", false, true, true); }
TEST(unigram) { check_all("unigram.model", "unigram", false, false, false); }

static void check_pairs(const char *file) {
  goldens g = open_goldens();
  const attend_json *list = attend_json_get(g.root, "pairs");
  attend_tokenizer *t = load_path(g.ctx, token_path(file));
  attend_encoding *e;
  OK(g.ctx, attend_encoding_create(t, &e));
  CHECK(attend_json_count(list) > 0);
  for (size_t i = 0; i < attend_json_count(list); i++) {
    const attend_json *entry = attend_json_at(list, i);
    size_t n, m;
    const char *a = attend_json_string(attend_json_get(entry, "a"), &n);
    const char *b = attend_json_string(attend_json_get(entry, "b"), &m);
    attend_encode_options o = {ATTEND_INIT(attend_encode_options), .pair = b, .pair_length = m};
    OK(g.ctx, attend_encode(e, a, n, &o));
    compare_list(a, attend_json_get(entry, "bert"), e->id, e->count, "ids");
    compare_list(a, attend_json_get(entry, "types"), e->type, e->count, "types");
  }
  attend_encoding_free(e);
  attend_tokenizer_free(t);
  close_goldens(&g);
}

TEST(bert_pairs) {
  check_pairs("bert-tokenizer.json");
  check_pairs("bert-vocab.txt");
}

/* The pieces that the goldens name are those of the ids. */
TEST(pieces) {
  goldens g = open_goldens();
  const attend_json *list = attend_json_get(g.root, "single");
  attend_tokenizer *t = load_path(g.ctx, token_path("bert-tokenizer.json"));
  for (size_t i = 0; i < attend_json_count(list); i++) {
    const attend_json *ids = attend_json_get(attend_json_at(list, i), "bert");
    const attend_json *names = attend_json_get(attend_json_at(list, i), "bert_tokens");
    for (size_t j = 0; j < attend_json_count(ids); j++) {
      int64_t id;
      size_t n;
      const char *name = attend_json_string(attend_json_at(names, j), &n);
      CHECK(attend_json_integer(attend_json_at(ids, j), &id));
      CHECK_EQ(attend_tokenizer_find(t, name, n), id);
      CHECK(!strcmp(attend_tokenizer_piece(t, (int32_t)id, NULL), name));
    }
  }
  attend_tokenizer_free(t);
  close_goldens(&g);
}
