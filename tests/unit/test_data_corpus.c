/* Corpora: what they hold, what is refused, holding a share back, memory that
 * fails. */
#include "small_corpora.h"

/* ---- what a corpus is --------------------------------------------------------------------------- */

static uint64_t digest_of(size_t n, size_t m, bool pairs) {
  static const int32_t ids[] = {4, 5, 6, 7, 8, 9};
  attend_corpus *c = empty_corpus();
  if (pairs) {
    OK(context(), attend_corpus_add(c, n, ids, m, ids + n));
  } else {
    OK(context(), attend_corpus_add(c, n, ids, 0, NULL));
    OK(context(), attend_corpus_add(c, m, ids + n, 0, NULL));
  }
  uint64_t digest = attend_corpus_digest(c);
  attend_corpus_free(c);
  return digest;
}

TEST(a_digest_knows_where_documents_end) {
  CHECK(digest_of(3, 3, false) == digest_of(3, 3, false));
  CHECK(digest_of(3, 3, false) != digest_of(2, 4, false));
  CHECK(digest_of(3, 3, false) != digest_of(3, 3, true));
  CHECK(digest_of(3, 3, false) != digest_of(3, 2, false));
  CHECK(digest_of(6, 0, false) != digest_of(0, 6, false));
}

TEST(a_corpus_holds_pairs_or_texts) {
  static const int32_t ids[] = {1, 2, 3};
  attend_corpus *c = empty_corpus();
  OK(context(), attend_corpus_add(c, 3, ids, 0, NULL));
  CHECK_EQ(attend_corpus_add(c, 2, ids, 1, ids), ATTEND_INVALID);
  CHECK_SAYS(attend_message(context()), "not both");
  CHECK(attend_corpus_documents(c) == 1 && attend_corpus_tokens(c) == 3);
  attend_corpus_free(c);
}

static void refuse(const attend_corpus *c, attend_batch_options o, const char *why) {
  attend_batches *b = (attend_batches *)&o;
  CHECK_EQ(attend_batches_create(c, &o, &b), ATTEND_INVALID);
  CHECK(!b);
  CHECK_SAYS(attend_message(context()), why);
}

TEST(batches_that_cannot_be) {
  static const int32_t ids[] = {1, 2, 3};
  attend_corpus *c = counting(100), *none = empty_corpus();
  attend_corpus *pairs = empty_corpus(), *half = empty_corpus();
  add_pairs(pairs, 3, 30);
  OK(context(), attend_corpus_add(half, 3, ids, 0, ids));
  refuse(none, kind(0), "0 tokens: too few");
  refuse(none, kind(2), "holds none");
  refuse(c, kind(2), "holds none");
  refuse(pairs, kind(0), "choose the task pairs");
  refuse(half, kind(2), "empty on one side");
  refuse(half, kind(3), "empty on one side");
  attend_batch_options o = kind(0);
  o.batch = -1;
  refuse(c, o, "batch of -1");
  o = kind(0);
  o.length = -4;
  refuse(c, o, "-4 tokens");
  o = kind(1);
  o.length = 2;
  refuse(c, o, "leaves no place");
  o = kind(1);
  o.mask = -1;
  refuse(c, o, "mask token");
  o = kind(2);
  o.length = 4;
  refuse(pairs, o, "more than the length of 4");
  o = kind(2);
  o.start = -1;
  refuse(pairs, o, "first token");
  attend_corpus_free(c);
  attend_corpus_free(none);
  attend_corpus_free(pairs);
  attend_corpus_free(half);
}

/* ---- holding a share back -------------------------------------------------------------------------- */

/* Tokens of a corpus, counted in seen; every document begins with its number. */
static void count_tokens(const attend_corpus *c, int *seen) {
  attend_batches *b = cut(c, (attend_batch_options){ATTEND_INIT(attend_batch_options), .batch = 1,
                                                    .length = 1, .in_order = 1});
  for (uint64_t i = 0; i < attend_batches_epoch(b); i++) {
    attend_batch l = batch_at(b, i);
    if (!i) seen[l.ids[0]]++;
    seen[l.targets[0]]++;
  }
  attend_batches_free(b);
}

TEST(a_share_of_the_documents) {
  enum { DOCUMENTS = 1000 };
  attend_corpus *c = empty_corpus(), *held;
  int seen[DOCUMENTS * 3] = {0}, kept[DOCUMENTS * 3] = {0};
  for (int32_t i = 0; i < DOCUMENTS; i++) {
    int32_t ids[] = {3 * i, 3 * i + 1, 3 * i + 2};
    OK(context(), attend_corpus_add(c, 3, ids, 0, NULL));
  }
  OK(context(), attend_corpus_split(c, 0.1, 5, &held));
  size_t n = attend_corpus_documents(held);
  CHECK(n > 50 && n < 150);
  CHECK_EQ(n + attend_corpus_documents(c), DOCUMENTS);
  count_tokens(held, seen);
  count_tokens(c, kept);
  for (int i = 0; i < 3 * DOCUMENTS; i++) {
    CHECK_EQ(seen[i] + kept[i], 1);
    CHECK_EQ(seen[i], seen[i / 3 * 3]); /* documents stay whole */
  }
  attend_corpus_free(c);
  attend_corpus_free(held);
}

TEST(the_end_of_the_last_of_few_documents) {
  attend_corpus *c = counting(1000), *held;
  int seen[1200] = {0}, kept[1200] = {0};
  int32_t ids[200];
  for (int i = 0; i < 200; i++) ids[i] = 1000 + i;
  OK(context(), attend_corpus_add(c, 200, ids, 0, NULL));
  OK(context(), attend_corpus_split(c, 0.05, 5, &held));
  CHECK(attend_corpus_documents(c) == 2 && attend_corpus_documents(held) == 1);
  CHECK_EQ(attend_corpus_tokens(held), 60);
  count_tokens(held, seen);
  count_tokens(c, kept);
  for (int i = 0; i < 1200; i++) CHECK(seen[i] == (i >= 1140));
  for (int i = 0; i < 1200; i++) CHECK(kept[i] == (i < 1140));
  attend_corpus_free(held);
  OK(context(), attend_corpus_split(c, 0.5, 5, &held));
  CHECK_EQ(attend_corpus_tokens(held), 70); /* half of the last at most */
  attend_corpus_free(held);
  attend_corpus_free(c);
}

TEST(shares_that_cannot_be) {
  attend_corpus *c = counting(1000), *held, *one = empty_corpus();
  static const double shares[] = {0, 1, -0.5, 2, NAN};
  for (int i = 0; i < 5; i++) {
    CHECK_EQ(attend_corpus_split(c, shares[i], 1, &held), ATTEND_INVALID);
    CHECK(!held);
  }
  CHECK_EQ(attend_corpus_split(one, 0.1, 1, &held), ATTEND_INVALID);
  add_pairs(one, 1, 5);
  CHECK_EQ(attend_corpus_split(one, 0.1, 1, &held), ATTEND_INVALID);
  add_pairs(one, 1, 5);
  for (uint64_t seed = 0; seed < 20; seed++) { /* one on each side */
    OK(context(), attend_corpus_split(one, 0.02, seed, &held));
    CHECK(attend_corpus_documents(held) == 1 && attend_corpus_documents(one) == 1);
    attend_corpus_free(held);
    add_pairs(one, 1, 5);
  }
  attend_corpus_free(c);
  c = counting(2);
  CHECK_EQ(attend_corpus_split(c, 0.1, 1, &held), ATTEND_INVALID);
  CHECK_SAYS(attend_message(context()), "too few to hold");
  attend_corpus_free(c);
  attend_corpus_free(one);
}

/* ---- memory ------------------------------------------------------------------------------------------- */

static attend_status use_all(attend_context *ctx) {
  attend_corpus *c, *held = NULL;
  attend_batches *b = NULL;
  int32_t ids[3000] = {1, 2, 3};
  attend_status status = attend_corpus_create(ctx, &c);
  if (status) return status;
  for (int i = 0; i < 40 && !status; i++) {
    size_t before = attend_corpus_documents(c), n = attend_corpus_tokens(c);
    status = attend_corpus_add(c, 40, ids, 3, ids);
    CHECK(attend_corpus_documents(c) == before + !status);
    CHECK(attend_corpus_tokens(c) == n + 43 * !status);
  }
  uint64_t digest = attend_corpus_digest(c);
  if (!status) {
    status = attend_corpus_split(c, 0.3, 1, &held);
    if (status) CHECK(!held && attend_corpus_digest(c) == digest);
  }
  attend_batch_options o = kind(2);
  if (!status) status = attend_batches_create(c, &o, &b);
  attend_batches_free(b);
  attend_corpus_free(held);
  attend_corpus_free(c);
  return status;
}

TEST(memory_that_fails) {
  ledger memory = {0};
  attend_context *ctx = open_context(NULL, 1, &memory);
  attend_status status = ATTEND_NO_MEMORY;
  long n = 0;
  while (status && n < 1000) {
    long live = memory.live;
    memory.fail_at = memory.taken + ++n;
    status = use_all(ctx);
    memory.fail_at = 0;
    CHECK_EQ(memory.live, live);
    CHECK(!status || status == ATTEND_NO_MEMORY);
  }
  CHECK(n > 10 && n < 1000);
  attend_context_free(ctx);
}
