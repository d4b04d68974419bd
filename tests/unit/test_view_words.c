/* Sessions of attend/viewer.h that compare words: of two models that cut a text into other tokens,
 * and of two texts. Left out where there are no tokenizers.
 */
#include "view_sessions.h"

/* Two decoders with tokenizers of their own. */
static session open_two(void) {
  session s = open_session("stories260K", 0);
  OK(s.ctx, attend_viewer_add(s.v, &(attend_viewer_source){ATTEND_INIT(attend_viewer_source),
                                                           .path = "models/gutenberg"}));
  return s;
}

static const attend_viewer_run *run_model(const session *s, int model, const char *of) {
  const attend_viewer_run *run = NULL;
  OK(s->ctx, attend_viewer_run_case(s->v,
                                    &(attend_viewer_case){ATTEND_INIT(attend_viewer_case),
                                                          .model = model, .text = of, .step = -1},
                                    NULL, &run));
  return run;
}

static const char sentence[] = "Don't the dogs' unhappiness, he said, surprise  you?";

/* Weights of words are sums over their tokens as keys, means over their tokens as queries. */
static void check_words(const attend_viewer_words *w, const attend_viewer_block *b) {
  int n = w->words, T = w->tokens;
  for (int i = 0; i < n; i++) {
    double whole = 0;
    for (int j = 0; j <= n; j++) {
      double sum = 0;
      int rows = 0;
      for (int r = 0; r < T; r++) {
        if (w->of[r] != i) continue;
        rows++;
        for (int k = 0; k < T; k++)
          if (w->of[k] == j - 1) sum += (double)b->weights[r * T + k];
      }
      CHECK(rows > 0);
      CHECK_NEAR(w->weights[i * (n + 1) + j], sum / rows, 1e-6);
      whole += (double)w->weights[i * (n + 1) + j];
    }
    CHECK_NEAR(whole, 1, 1e-5);
  }
}

static bool has_word(const attend_viewer_words *w, const char *word) {
  for (int i = 0; i < w->words; i++)
    if ((size_t)(w->end[i] - w->start[i]) == strlen(word) &&
        !strncmp(w->text + w->start[i], word, strlen(word)))
      return true;
  return false;
}

TEST(heads_of_two_tokenizers_have_the_same_words) {
  session s = open_two();
  const attend_viewer_run *a = run_model(&s, 0, sentence), *b = run_model(&s, 1, sentence);
  attend_viewer_head heads[2] = {{.run = a, .at = {ATTEND_DECODER_SELF, 1, 2}},
                                 {.run = b, .at = {ATTEND_DECODER_SELF, 0, 1}}};
  attend_viewer_words w[2];
  attend_viewer_block blocks[2];
  CHECK(a->side[1].n != b->side[1].n);
  for (int i = 0; i < 2; i++) {
    OK(s.ctx, attend_viewer_get_words(s.v, &heads[i], i ? a : b, &w[i]));
    OK(s.ctx, attend_viewer_get_block(s.v, &heads[i], NULL, &blocks[i]));
    CHECK(!w[i].why && w[i].words > 5);
    CHECK(has_word(&w[i], "unhappiness") && has_word(&w[i], "said") && has_word(&w[i], "you"));
    check_words(&w[i], &blocks[i]);
  }
  CHECK_EQ(w[0].words, w[1].words);
  CHECK(!memcmp(w[0].start, w[1].start, (size_t)w[0].words * sizeof *w[0].start));
  CHECK(!memcmp(w[0].end, w[1].end, (size_t)w[0].words * sizeof *w[0].end));
  for (int i = 0; i < 2; i++) {
    attend_viewer_release(s.v, w[i].memory);
    attend_viewer_release(s.v, blocks[i].memory);
  }
  const attend_viewer_run *other = run_model(&s, 1, "another text");
  OK(s.ctx, attend_viewer_get_words(s.v, &heads[0], other, &w[0]));
  CHECK(!w[0].memory);
  CHECK_SAYS(w[0].why, "different texts");
  close_session(&s);
}

/* "play" stands after other words in the two texts. */
TEST(a_word_has_cosines_in_two_texts) {
  session s = open_two();
  const attend_viewer_run *a = run_model(&s, 1, "We like to play outside.");
  const attend_viewer_run *b = run_model(&s, 1, "We saw a play outside.");
  attend_viewer_word_pair p, own;
  attend_viewer_span span;
  OK(s.ctx, attend_viewer_get_word_pair(s.v, a, b, ATTEND_DECODER_SELF, -1, -1, &p));
  OK(s.ctx, attend_viewer_find_word(s.v, a, ATTEND_DECODER_SELF, "PLAY", 0, &span));
  CHECK(p.same && !p.why && p.word.from == span.from && p.word.n == span.n);
  OK(s.ctx, attend_viewer_find_word(s.v, b, ATTEND_DECODER_SELF, "play", 0, &span));
  CHECK(p.other.from == span.from && p.other.n == span.n);
  OK(s.ctx, attend_viewer_find_word(s.v, b, ATTEND_DECODER_SELF, "play", 1, &span));
  CHECK_EQ(span.n, 0);
  CHECK(p.hidden[p.layers] > -1 && p.hidden[p.layers] < 0.9999);
  attend_viewer_embeddings e;
  OK(s.ctx, attend_viewer_get_embeddings(s.v, a, b, ATTEND_DECODER_SELF, p.layers, NULL, &e));
  if (p.word.n == 1 && p.other.n == 1)
    CHECK_NEAR(e.cosine[p.word.from * e.keys + p.other.from], p.hidden[p.layers], 1e-6);
  OK(s.ctx, attend_viewer_get_word_pair(s.v, a, a, ATTEND_DECODER_SELF, 2, -1, &own));
  for (int l = 0; l <= own.layers; l++) CHECK_NEAR(own.hidden[l], 1, 1e-6);
  for (int i = 0; i < own.layers * own.heads; i++) {
    CHECK_NEAR(own.q[i], 1, 1e-6);
    CHECK_NEAR(own.k[i], 1, 1e-6);
    CHECK_NEAR(own.v[i], 1, 1e-6);
  }
  void *memory[] = {p.memory, own.memory, e.memory};
  for (int i = 0; i < 3; i++) attend_viewer_release(s.v, memory[i]);
  const attend_viewer_run *other = run_model(&s, 0, "We saw a play outside.");
  OK(s.ctx, attend_viewer_get_word_pair(s.v, a, other, ATTEND_DECODER_SELF, -1, -1, &p));
  CHECK(!p.memory && p.word.n > 0 && p.other.n > 0);
  CHECK_SAYS(p.why, "two models");
  refused(&s, attend_viewer_get_embeddings(s.v, a, other, ATTEND_DECODER_SELF, 0, NULL, &e),
          "two models");
  refused(&s, attend_viewer_get_word_pair(s.v, a, b, ATTEND_DECODER_SELF, 99, -1, &p), "token 99");
  close_session(&s);
}
