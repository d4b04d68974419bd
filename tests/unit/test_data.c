/* Batches: every window and every pair once an epoch, in another order each; the
 * same batch whatever was asked before; padding, masks, joined pairs. */
#include "small_corpora.h"

/* ---- windows -------------------------------------------------------------------- */

/* Where the windows of an epoch begin, in the order they come; each is checked. */
static void walk_windows(attend_batches *b, uint64_t epoch, int count, int length, int units,
                         int *starts) {
  for (int i = 0; i < units; i++) {
    attend_batch l = batch_at(b, epoch * (uint64_t)units + (uint64_t)i);
    CHECK(l.count == 1 && l.length == length && !l.lengths);
    starts[i] = l.ids[0];
    for (int t = 0; t < length; t++) {
      CHECK_EQ(l.ids[t], (starts[i] + t) % count);
      CHECK_EQ(l.targets[t], (starts[i] + t + 1) % count);
    }
  }
}

TEST(every_window_once_an_epoch) {
  enum { COUNT = 1007, LENGTH = 10, UNITS = 100 };
  attend_corpus *c = counting(COUNT);
  attend_batches *b = cut(c, (attend_batch_options){ATTEND_INIT(attend_batch_options), .batch = 1,
                                                    .length = LENGTH, .seed = 4});
  int before[UNITS], starts[UNITS];
  CHECK_EQ(attend_batches_epoch(b), UNITS);
  for (uint64_t epoch = 0; epoch < 3; epoch++) {
    int used[COUNT] = {0}, same = 0, all = 0;
    walk_windows(b, epoch, COUNT, LENGTH, UNITS, starts);
    for (int i = 0; i < UNITS; i++)
      for (int t = 0; t < LENGTH; t++) used[(starts[i] + t) % COUNT]++;
    for (int i = 0; i < COUNT; i++) CHECK(used[i] <= 1);
    for (int i = 0; i < COUNT; i++) all += used[i];
    CHECK_EQ(all, UNITS * LENGTH);
    for (int i = 0; i < UNITS; i++)
      same += epoch &&
              (starts[i] - starts[0] + COUNT) % COUNT == (before[i] - before[0] + COUNT) % COUNT;
    CHECK(same < UNITS / 5); /* another order */
    memcpy(before, starts, sizeof starts);
  }
  attend_batches_free(b);
  attend_corpus_free(c);
}

TEST(a_text_shorter_than_a_window_is_a_ring) {
  attend_corpus *c = counting(3);
  attend_batches *b = cut(c, (attend_batch_options){ATTEND_INIT(attend_batch_options), .batch = 2,
                                                    .length = 8, .seed = 1});
  CHECK_EQ(attend_batches_epoch(b), 1);
  attend_batch l = batch_at(b, 5);
  for (int i = 0; i < 16; i++) {
    CHECK(l.ids[i] >= 0 && l.ids[i] < 3);
    CHECK_EQ(l.targets[i], (l.ids[i] + 1) % 3);
  }
  attend_batches_free(b);
  attend_corpus_free(c);
}

/* Windows of one token show the order itself. */
static void check_bijection(uint64_t n, uint64_t seed) {
  attend_corpus *c = counting((size_t)n);
  attend_batches *b = cut(c, (attend_batch_options){ATTEND_INIT(attend_batch_options), .batch = 1,
                                                    .length = 1, .seed = seed});
  unsigned char *seen = zeroed_block((size_t)n, 1);
  CHECK_EQ(attend_batches_epoch(b), n);
  for (uint64_t i = 0; i < n; i++) seen[batch_at(b, 2 * n + i).ids[0]]++;
  size_t once = 0;
  for (size_t i = 0; i < n; i++) once += seen[i] == 1;
  if (once != n) CHECK_FAIL("of %d places %d come once", (int)n, (int)once);
  free(seen);
  attend_batches_free(b);
  attend_corpus_free(c);
}

TEST(an_order_has_every_place_once) {
  for (uint64_t n = 2; n <= 300; n++) check_bijection(n, n);
  static const uint64_t large[] = {4095, 4096, 4097, 65536, 65537, 100003};
  for (int i = 0; i < (light() ? 3 : 6); i++) check_bijection(large[i], 7);
}

TEST(in_order_every_token_is_scored_once) {
  enum { COUNT = 103 };
  attend_corpus *c = counting(COUNT);
  attend_batches *b = cut(c, (attend_batch_options){ATTEND_INIT(attend_batch_options), .batch = 4,
                                                    .length = 9, .in_order = 1});
  int scored[COUNT] = {0};
  CHECK_EQ(attend_batches_epoch(b), 3); /* 12 windows */
  for (uint64_t i = 0; i < 3; i++) {
    attend_batch l = batch_at(b, i);
    CHECK_EQ(l.count, 4);
    for (int t = 0; t < l.count * l.length; t++) {
      if (l.targets[t] < 0) continue;
      CHECK_EQ(l.targets[t], l.ids[t] + 1);
      scored[l.targets[t]]++;
    }
  }
  CHECK_EQ(scored[0], 0); /* nothing stands before the first */
  for (int i = 1; i < COUNT; i++) CHECK_EQ(scored[i], 1);
  CHECK_EQ(batch_at(b, 3).count, 0);
  CHECK_EQ(batch_at(b, UINT64_MAX).count, 0);
  attend_batches_free(b);
  b = cut(c, (attend_batch_options){ATTEND_INIT(attend_batch_options), .batch = 5, .length = 9,
                                    .in_order = 1});
  CHECK_EQ(batch_at(b, 2).count, 2); /* the last is smaller */
  attend_batches_free(b);
  attend_corpus_free(c);
}

/* ---- the same batch ----------------------------------------------------------------- */

static int which_pair(int32_t id) { return (id - 10) / 200; }

static bool same_batch(const attend_batch *a, const attend_batch *b) {
  int n = a->decoder_length ? a->decoder_length : a->length;
  size_t places = (size_t)(a->count * a->length) * sizeof *a->ids;
  if (a->count != b->count || a->length != b->length || a->decoder_length != b->decoder_length)
    return false;
  if (memcmp(a->ids, b->ids, places)) return false;
  if (memcmp(a->targets, b->targets, (size_t)(a->count * n) * sizeof *a->ids)) return false;
  return !a->lengths || !memcmp(a->lengths, b->lengths, (size_t)a->count * sizeof *a->lengths);
}

/* Asked for in another order, on another number of threads. */
TEST(a_batch_is_its_number) {
  static const uint64_t order[] = {7, 900, 0, 7, 41, 6, 123456789, 1};
  attend_context *many = open_context(NULL, 7, NULL);
  for (int k = 0; k < 4; k++) {
    attend_corpus *c = k < 2 ? counting(5000) : empty_corpus();
    if (k >= 2) add_pairs(c, 500, 30);
    attend_corpus *d;
    OK(many, attend_corpus_create(many, &d));
    if (k < 2) {
      int32_t ids[5000];
      for (int i = 0; i < 5000; i++) ids[i] = i;
      OK(many, attend_corpus_add(d, 5000, ids, 0, NULL));
    } else {
      add_pairs(d, 500, 30);
    }
    CHECK(attend_corpus_digest(c) == attend_corpus_digest(d));
    attend_batches *a = cut(c, kind(k)), *b = cut(d, kind(k));
    for (int i = 0; i < 8; i++) {
      attend_batch x = batch_at(a, order[i]);
      batch_at(b, order[i] + 3);
      attend_batch y = batch_at(b, order[i]);
      CHECK(same_batch(&x, &y));
      CHECK(!same_batch(&x, &(attend_batch){ATTEND_INIT(attend_batch)}));
    }
    attend_batch x = batch_at(a, 0), y = batch_at(b, 1);
    CHECK(!same_batch(&x, &y));
    attend_batches_free(b);
    attend_batch_options o = kind(k);
    o.seed++;
    b = cut(d, o);
    y = batch_at(b, 0);
    CHECK(!same_batch(&x, &y)); /* another seed */
    attend_batches_free(a);
    attend_batches_free(b);
    attend_corpus_free(c);
    attend_corpus_free(d);
  }
  attend_context_free(many);
}

/* ---- pairs ------------------------------------------------------------------------------- */

enum { START = 1, PAD = 7 };

/* A row of an encoder-decoder's batch; returns which pair it is. */
static int check_row(const attend_batch *l, int b) {
  const int32_t *ids = l->ids + b * l->length;
  const int32_t *decoder_ids = l->decoder_ids + b * l->decoder_length;
  const int32_t *targets = l->targets + b * l->decoder_length;
  int n = l->lengths[b], m = l->decoder_lengths[b], pair = which_pair(ids[0]);
  for (int t = 0; t < l->length; t++) CHECK_EQ(ids[t], t < n ? 10 + 200 * pair + t : PAD);
  for (int t = 0; t < l->decoder_length; t++) {
    CHECK_EQ(targets[t], t < m ? 110 + 200 * pair + t : -1);
    if (t < m) CHECK_EQ(decoder_ids[t], t ? targets[t - 1] : START);
    if (t > m) CHECK_EQ(decoder_ids[t], PAD);
  }
  return pair;
}

TEST(pairs_for_an_encoder_and_a_decoder) {
  enum { PAIRS = 401 };
  attend_corpus *c = empty_corpus();
  add_pairs(c, PAIRS, 60);
  attend_batches *b =
      cut(c, (attend_batch_options){ATTEND_INIT(attend_batch_options), .task = ATTEND_LEARN_PAIRS,
                                    .parts = ATTEND_BOTH, .batch = 4, .length = 64, .start = START,
                                    .pad = PAD});
  uint64_t epoch = attend_batches_epoch(b);
  int order[2][PAIRS], same = 0;
  CHECK_EQ(epoch, 101);
  for (uint64_t e = 0; e < 2; e++) {
    int seen[PAIRS] = {0}, n = 0, scored = 0;
    for (uint64_t i = 0; i < epoch; i++) {
      attend_batch l = batch_at(b, e * epoch + i);
      int64_t tokens = 0;
      for (int r = 0; r < l.count; r++) {
        seen[order[e][n++] = check_row(&l, r)]++;
        tokens += l.lengths[r] + l.decoder_lengths[r];
        scored += l.decoder_lengths[r];
      }
      CHECK_EQ(attend_batch_tokens(&l), tokens);
      scored -= attend_batch_scored(&l);
    }
    CHECK(n == PAIRS && scored == 0);
    for (int i = 0; i < PAIRS; i++) CHECK_EQ(seen[i], 1);
  }
  for (int i = 0; i < PAIRS; i++) same += order[0][i] == order[1][i];
  CHECK(same < PAIRS / 10);
  attend_batches_free(b);
  attend_corpus_free(c);
}

/* One sequence: the text, then what is wanted, which alone is scored. */
TEST(pairs_for_a_decoder) {
  enum { PAIRS = 37 };
  attend_corpus *c = empty_corpus();
  add_pairs(c, PAIRS, 30);
  attend_batch_options o = kind(3);
  o.pad = PAD;
  attend_batches *b = cut(c, o);
  int seen[PAIRS] = {0};
  for (uint64_t i = 0; i < attend_batches_epoch(b); i++) {
    attend_batch l = batch_at(b, i);
    CHECK_EQ(l.decoder_length, 0);
    for (int r = 0; r < l.count; r++) {
      const int32_t *ids = l.ids + r * l.length;
      const int32_t *targets = l.targets + r * l.length;
      int pair = which_pair(ids[0]), first = 10 + 200 * pair, scored = 0;
      seen[pair]++;
      for (int t = 0; t < l.length; t++) {
        bool wanted = targets[t] >= 0;
        scored += wanted;
        if (t >= l.lengths[r]) CHECK(ids[t] == PAD && !wanted);
        if (wanted) CHECK(targets[t] >= first + 100);
        if (wanted && t + 1 < l.lengths[r]) CHECK_EQ(targets[t], ids[t + 1]);
        if (!wanted && t + 1 < l.lengths[r]) CHECK(ids[t + 1] < first + 100);
      }
      int last = l.lengths[r] - 1;
      CHECK_EQ(targets[last], first + 100 + scored - 1);
      CHECK(last + 1 > scored - 1); /* the text stands before it */
    }
  }
  for (int i = 0; i < PAIRS; i++) CHECK_EQ(seen[i], 1);
  attend_batches_free(b);
  attend_corpus_free(c);
}

/* Places of an epoch, and those that are real. */
static double padded_share(attend_batches *b) {
  int64_t real = 0, places = 0;
  for (uint64_t i = 0; i < attend_batches_epoch(b); i++) {
    attend_batch l = batch_at(b, i);
    real += attend_batch_tokens(&l);
    places += l.count * (l.length + l.decoder_length);
  }
  return 1 - (double)real / (double)places;
}

/* What batches of 8 would pad if pairs came as they are drawn: in the corpus they
 * are in no order, so in its own. */
static double padded_unsorted(attend_batches *one, int pairs) {
  int64_t real = 0, places = 0;
  for (int i = 0; i < pairs; i += 8) {
    int n = 0, m = 0, rows = pairs - i < 8 ? pairs - i : 8;
    for (int r = 0; r < rows; r++) {
      attend_batch l = batch_at(one, (uint64_t)(i + r));
      n = l.length > n ? l.length : n;
      m = l.decoder_length > m ? l.decoder_length : m;
      real += l.length + l.decoder_length;
    }
    places += rows * (n + m);
  }
  return 1 - (double)real / (double)places;
}

TEST(like_lengths_go_together) {
  enum { PAIRS = 512 };
  attend_corpus *c = empty_corpus();
  int32_t ids[100];
  float draw;
  for (int i = 0; i < 100; i++) ids[i] = i;
  for (uint64_t i = 0; i < PAIRS; i++) { /* answers as long as their texts */
    attend_random_uniform((attend_random){2, 2}, i, 1, &draw);
    size_t n = 1 + (size_t)(draw * 90);
    OK(context(), attend_corpus_add(c, n, ids, n / 3 + 1, ids));
  }
  attend_batch_options o = kind(2);
  o.length = 100;
  o.batch = 1;
  attend_batches *one = cut(c, o);
  o.batch = 8;
  attend_batches *b = cut(c, o);
  double sorted = padded_share(b), unsorted = padded_unsorted(one, PAIRS);
  printf("padding: %.3f sorted, %.3f not\n", sorted, unsorted);
  CHECK(sorted < unsorted / 4);
  attend_batches_free(one);
  attend_batches_free(b);
  attend_corpus_free(c);
}

/* ---- masks --------------------------------------------------------------------------------- */

enum { MASK = 5, CLS = 2, SEP = 3, BLANK = 0, VOCAB = 50000 };

static attend_batch_options masked(void) {
  return (attend_batch_options){ATTEND_INIT(attend_batch_options),
                                .task = ATTEND_LEARN_MASKED,
                                .parts = ATTEND_ENCODER,
                                .batch = 16,
                                .length = 128,
                                .mask = MASK,
                                .cls = CLS,
                                .sep = SEP,
                                .pad = BLANK,
                                .vocab = VOCAB,
                                .seed = 8};
}

/* Words of 1000 and up, with separators and padding among them. */
static attend_corpus *words(int n) {
  attend_corpus *c = empty_corpus();
  int32_t *ids = zeroed_block((size_t)n, sizeof *ids);
  for (int i = 0; i < n; i++) ids[i] = i % 23 == 22 ? SEP : i % 97 == 96 ? BLANK : 1000 + i % 5000;
  OK(context(), attend_corpus_add(c, (size_t)n, ids, 0, NULL));
  free(ids);
  return c;
}

/* A share of n draws strays beyond this once in two million times. */
static void check_share(const char *what, int got, int n, double want) {
  double share = (double)got / n, max = 5 * sqrt(want * (1 - want) / n);
  if (!(fabs(share - want) <= max)) CHECK_FAIL("%s: %.5f of %d, not %.2f", what, share, n, want);
}

TEST(masks_have_their_shares) {
  attend_corpus *c = words(20000);
  attend_batches *b = cut(c, masked());
  int content = 0, asked = 0, hidden = 0, left = 0, drawn = 0, high = 0;
  for (uint64_t i = 0; i < 100; i++) {
    attend_batch l = batch_at(b, i);
    CHECK(l.count == 16 && l.length == 128);
    for (int t = 0; t < 16 * 128; t++) {
      int32_t id = l.ids[t], target = l.targets[t];
      if (t % 128 == 0) CHECK(id == CLS && target < 0);
      if (t % 128 == 127) CHECK(id == SEP && target < 0);
      CHECK(id >= 0 && id < VOCAB);
      CHECK(target < 0 || target >= 1000); /* never what stands around */
      content += target >= 0 || id >= 1000;
      if (target < 0) continue;
      asked++;
      hidden += id == MASK;
      left += id == target;
      drawn += id != MASK && id != target;
      high += id > VOCAB / 2;
    }
    CHECK_EQ(l.lengths[0], 128);
  }
  printf("%d of %d places asked for\n", asked, content);
  check_share("asked for", asked, content, 0.15);
  check_share("masked", hidden, asked, 0.8);
  check_share("left", left, asked, 0.1);
  check_share("drawn", drawn, asked, 0.1);
  check_share("drawn from all", high, drawn, 0.5);
  attend_batches_free(b);
  attend_corpus_free(c);
}

/* To measure with: every token once, the same places hidden each time. */
TEST(masks_in_order) {
  attend_corpus *c = words(1000);
  attend_batch_options o = masked();
  o.in_order = 1;
  o.mask_share = 0.5f;
  for (int pad = -1; pad <= BLANK; pad++) {
    o.pad = pad;
    attend_batches *b = cut(c, o), *other = cut(c, o);
    attend_batch l = batch_at(b, 0), again = batch_at(other, 0);
    CHECK_EQ(attend_batches_epoch(b), 1);
    CHECK_EQ(l.count, 8); /* 1000 of 126 each */
    CHECK(same_batch(&l, &again));
    int last = 7 * 128, real = 1000 - 7 * 126;
    CHECK_EQ(l.lengths[7], real + 2);
    CHECK_EQ(l.ids[last + real + 1], SEP);
    for (int t = real + 2; t < 128; t++) CHECK(l.ids[last + t] == BLANK && l.targets[last + t] < 0);
    CHECK_EQ(attend_batch_tokens(&l), 1000 + 16);
    attend_batches_free(b);
    attend_batches_free(other);
  }
  attend_corpus_free(c);
}
