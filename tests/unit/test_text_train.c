/* Learning tokenizers: against a slow trainer that counts everything anew for
 * every merge; in any chunks, by any number of threads. */
#include "trained_tokenizers.h"

/* ---- the slow trainer ------------------------------------------------------------- */

/* Words of letters a, b, c.. with spaces between, which both kinds cut alike:
 * byte-level words start with their space. */
enum { WORDS = 64, LETTERS = 24, PIECES = 160, NAME = 64 };

typedef struct {
  char name[PIECES][NAME];
  int count;
  int word[WORDS][LETTERS], length[WORDS], words;
  int left[PIECES], right[PIECES], made[PIECES], merges;
  long times[PIECES];
  bool wordpiece;
} slow;

static int slow_piece(slow *s, const char *name) {
  for (int i = 0; i < s->count; i++)
    if (!strcmp(s->name[i], name)) return i;
  strcpy(s->name[s->count], name); /* letters are few, names short */
  return s->count++;
}

static void slow_letters(slow *s, const char *const *words) {
  static const char plain[] = "abcdef"; /* a space is Ġ, beyond them */
  char name[8];
  for (int inside = 0; inside <= s->wordpiece; inside++)
    for (const char *c = plain; *c; c++) {
      bool occurs = !s->wordpiece;
      for (int w = 0; w < s->words; w++) occurs |= strchr(words[w] + inside, *c) != NULL;
      snprintf(name, sizeof name, "%s%c", inside ? "##" : "", *c);
      if (occurs) slow_piece(s, name);
    }
  if (!s->wordpiece) slow_piece(s, "\xc4\xa0");
}

static void slow_words(slow *s, const char *const *words) {
  char name[8];
  for (int w = 0; w < s->words; w++) {
    s->length[w] = 0;
    if (w && !s->wordpiece) s->word[w][s->length[w]++] = slow_piece(s, "\xc4\xa0");
    for (const char *c = words[w]; *c; c++) {
      bool inside = s->wordpiece && c > words[w];
      snprintf(name, sizeof name, "%s%c", inside ? "##" : "", *c);
      s->word[w][s->length[w]++] = slow_piece(s, name);
    }
  }
}

static int slow_letter_count(const slow *s, int piece) {
  const char *name = s->name[piece];
  int n = 0;
  if (!strncmp(name, "##", 2)) name += 2;
  for (; *name; name++) n += (*name & 0xc0) != 0x80;
  return n;
}

/* Of the pairs that are not too long the most frequent, then the first. */
static long slow_best(const slow *s, int longest, int *left, int *right) {
  static long times[PIECES][PIECES];
  long best = 0;
  memset(times, 0, sizeof times);
  for (int w = 0; w < s->words; w++)
    for (int i = 0; i + 1 < s->length[w]; i++) times[s->word[w][i]][s->word[w][i + 1]]++;
  for (int a = 0; a < s->count; a++)
    for (int b = 0; b < s->count; b++) {
      bool fits = slow_letter_count(s, a) + slow_letter_count(s, b) <= longest;
      if (!fits || times[a][b] <= best) continue;
      best = times[a][b];
      *left = a;
      *right = b;
    }
  return best;
}

static void slow_merge(slow *s, int left, int right, long times) {
  char name[2 * NAME];
  strcpy(name, s->name[left]);
  strcat(name, s->name[right] + (s->wordpiece ? 2 : 0));
  int made = slow_piece(s, name);
  for (int w = 0; w < s->words; w++) {
    int n = 0;
    for (int i = 0; i < s->length[w]; i++) {
      bool here = i + 1 < s->length[w] && s->word[w][i] == left && s->word[w][i + 1] == right;
      s->word[w][n++] = here ? made : s->word[w][i];
      i += here;
    }
    s->length[w] = n;
  }
  s->left[s->merges] = left;
  s->right[s->merges] = right;
  s->made[s->merges] = made;
  s->times[s->merges++] = times;
}

static void slow_learn(slow *s, const char *const *words, int merges, long min, int longest) {
  int left = 0, right = 0;
  slow_letters(s, words);
  slow_words(s, words);
  while (s->merges < merges && s->count < PIECES - 1) {
    long times = slow_best(s, longest, &left, &right);
    if (times < min) break;
    slow_merge(s, left, right, times);
  }
}

/* ---- beside the fast one ------------------------------------------------------------ */

/* Words of few letters, so that runs and ties abound. */
static void make_words(uint64_t seed, char text[WORDS * LETTERS], const char *words[WORDS]) {
  char *at = text;
  for (int w = 0; w < WORDS; w++) {
    uint32_t r[4];
    attend_random_block((attend_random){seed, 3}, (uint64_t)w, r);
    int letters = 1 + (int)(seed % 4), length = 1 + (int)(r[0] % 16);
    words[w] = at;
    for (int i = 0; i < length; i++)
      *at++ = (char)('a' + (int)(r[1 + i / 8] >> (4 * (i % 8)) & 15) % letters);
    *at++ = 0;
  }
}

static void check_pieces(const slow *s, const attend_text_trainer *r) {
  const attend_tokenizer *t = attend_text_trainer_tokenizer(r);
  const attend_text_trained *report = attend_text_trainer_report(r);
  int first = report->vocab - report->merges;
  attend_text_merge m;
  CHECK_EQ(report->merges, s->merges);
  for (int i = 0; i < s->merges; i++) {
    if (!attend_text_trainer_merge(r, (size_t)i, &m)) break;
    if (strcmp(m.left, s->name[s->left[i]]) || strcmp(m.right, s->name[s->right[i]]) ||
        (long)m.count != s->times[i])
      CHECK_FAIL("merge %d is %s %s, %d times, not %s %s, %ld times", i, m.left, m.right,
                 (int)m.count, s->name[s->left[i]], s->name[s->right[i]], s->times[i]);
    const char *piece = attend_tokenizer_piece(t, first + i, NULL);
    CHECK(piece && !strcmp(piece, s->name[s->made[i]]));
  }
}

static void compare(attend_context *ctx, uint64_t seed, bool wordpiece, int merges, long min,
                    int longest) {
  char text[WORDS * LETTERS];
  const char *words[WORDS];
  slow s = {.wordpiece = wordpiece, .words = WORDS};
  make_words(seed, text, words);
  slow_learn(&s, words, merges, min, longest);
  attend_text_train_options o = {
      ATTEND_INIT(attend_text_train_options),
      .like = wordpiece ? ATTEND_LIKE_BERT : ATTEND_LIKE_GPT2, .min = (uint64_t)min,
      .longest = longest, .vocab = wordpiece ? 5 + s.count - s.merges + merges : 257 + merges};
  for (int w = 0; w + 1 < WORDS; w++) text[words[w + 1] - text - 1] = ' ';
  attend_text_trainer *r = learn(ctx, &o, text, strlen(text));
  check_pieces(&s, r);
  attend_text_trainer_free(r);
}

TEST(as_a_slow_trainer) {
  attend_context *ctx = open_context(NULL, 1, NULL);
  for (uint64_t seed = 0; seed < (light() ? 6u : 14u); seed++)
    for (int wordpiece = 0; wordpiece < 2; wordpiece++) {
      compare(ctx, seed, wordpiece, 40, 2, 24);
      compare(ctx, seed, wordpiece, 120, 1, 24);
      compare(ctx, seed, wordpiece, 60, 3, 2 + (int)(seed % 6));
    }
  attend_context_free(ctx);
}

/* ---- chunks and threads --------------------------------------------------------------- */

/* Everything that a seam could go wrong at: spaces of all kinds, broken
 * characters, special tokens, long words. */
static size_t make_mixture(uint64_t seed, char *out, size_t size) {
  static const char *const parts[] = {"a",
                                      "the",
                                      "1",
                                      " ",
                                      " ",
                                      "\n",
                                      "\t",
                                      "\r\n",
                                      "  ",
                                      "\xc3\xa9",
                                      "\xe5\x8c\x97",
                                      "'s",
                                      ".",
                                      "--",
                                      "\xff",
                                      "\xe3\x80",
                                      "\xe3\x80\x80",
                                      "\xc2\xa0",
                                      "<|endoftext|>",
                                      "[SEP]",
                                      "\xe2\x80\xa8",
                                      "E\xcc\x81",
                                      "\x01",
                                      "?"};
  enum { PARTS = sizeof parts / sizeof *parts };
  size_t n = 0;
  for (uint64_t i = 0;; i++) {
    uint32_t r[4];
    attend_random_block((attend_random){seed, 9}, i, r);
    for (int k = 0; k < 4; k++) {
      const char *p = parts[r[k] % PARTS];
      if (n + strlen(p) > size) return n;
      memcpy(out + n, p, strlen(p));
      n += strlen(p);
    }
  }
}

/* What the trainer counted is what encoding the whole makes. */
static void check_tokens(attend_context *ctx, const attend_text_trainer *r, const char *text,
                         size_t length) {
  attend_encoding *e;
  attend_encode_options bare = {ATTEND_INIT(attend_encode_options), .no_special = true};
  OK(ctx, attend_encoding_create(attend_text_trainer_tokenizer(r), &e));
  OK(ctx, attend_encode(e, text, length, &bare));
  CHECK_EQ(attend_text_trainer_report(r)->tokens, e->count);
  CHECK_EQ(attend_text_trainer_report(r)->bytes, length);
  attend_encoding_free(e);
}

static void check_chunks(attend_like like, const char *text, size_t length) {
  static const size_t chunks[] = {1, 7, 4099, 65537, 300000};
  attend_text_train_options o = {ATTEND_INIT(attend_text_train_options), .like = like,
                                 .vocab = 700};
  attend_context *one = open_context(NULL, 1, NULL);
  attend_text_trainer *all = learn(one, &o, text, length);
  check_tokens(one, all, text, length);
  for (int i = 0; i < 5; i++) {
    attend_context *ctx = open_context(NULL, 1 + i % 4, NULL);
    attend_text_trainer *r = learn_in_chunks(ctx, &o, text, length, chunks[i]);
    check_same_learnt(all, r, "chunks");
    attend_text_trainer_free(r);
    attend_context_free(ctx);
  }
  attend_text_trainer_free(all);
  attend_context_free(one);
}

TEST(any_chunks_and_threads) {
  size_t size = light() ? 150000 : 400000;
  char *text = zeroed_block(size, 1);
  for (uint64_t seed = 0; seed < 2; seed++) {
    size_t length = make_mixture(seed, text, size);
    check_chunks(ATTEND_LIKE_GPT2, text, length);
    check_chunks(ATTEND_LIKE_BERT, text, length);
  }
  free(text);
}

/* More than is held at once, in texts that come in another order. */
TEST(any_order_of_texts) {
  size_t length, copies = light() ? 4 : 50;
  char *text = golden_text(&length);
  attend_text_train_options o = {ATTEND_INIT(attend_text_train_options), .vocab = 1000};
  attend_text_trainer *r[2];
  attend_context *ctx[2];
  for (int round = 0; round < 2; round++) {
    ctx[round] = open_context(NULL, 1 + 2 * round, NULL);
    OK(ctx[round], attend_text_trainer_create(ctx[round], &o, &r[round]));
    for (size_t i = 0; i < copies; i++) {
      size_t n = round ? copies - i : i + 1; /* of a length of its own */
      OK(ctx[round], attend_text_trainer_feed(r[round], text + 97 * n, length - 131 * n));
      OK(ctx[round], attend_text_trainer_end(r[round]));
    }
    OK(ctx[round], attend_text_trainer_learn(r[round]));
  }
  check_same_learnt(r[0], r[1], "order");
  CHECK_EQ(attend_text_trainer_report(r[0])->texts, copies);
  for (int round = 0; round < 2; round++) {
    attend_text_trainer_free(r[round]);
    attend_context_free(ctx[round]);
  }
  free(text);
}

/* Merges cost what they join, however long a word is. */
TEST(one_long_word) {
  enum { LONG = 240000 };
  attend_context *ctx = open_context(NULL, 2, NULL);
  char *text = zeroed_block(LONG, 1);
  for (size_t i = 0; i < LONG / 4; i++) {
    uint32_t r[4];
    attend_random_block((attend_random){5, 5}, i, r);
    for (int k = 0; k < 4; k++) text[4 * i + (size_t)k] = "acgt"[r[k] & 3];
  }
  attend_text_train_options o = {ATTEND_INIT(attend_text_train_options), .vocab = 2000};
  attend_text_trainer *r = learn_in_chunks(ctx, &o, text, LONG, 100000);
  CHECK_EQ(attend_text_trainer_report(r)->distinct, 1);
  CHECK_EQ(attend_text_trainer_report(r)->vocab, 2000);
  check_tokens(ctx, r, text, LONG);
  attend_text_trainer_free(r);
  free(text);
  attend_context_free(ctx);
}
