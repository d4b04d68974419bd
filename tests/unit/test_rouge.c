/* Scores of texts: rouge_score's and NLTK's answers, plain definitions, and what
 * must hold whatever the texts are. */
#include "score/score.h"
#include "tokenizer_fixtures.h"

static const char *golden_path(const char *name) {
  static char path[4096];
  const char *golden = getenv("ATTEND_GOLDEN");
  snprintf(path, sizeof path, "%s/rouge/%s", golden ? golden : "tests/golden", name);
  return path;
}

static attend_rouge_scores rouge(attend_context *ctx, const char *summary, const char *reference) {
  attend_rouge_scores s;
  OK(ctx, attend_rouge(ctx, summary, strlen(summary), reference, strlen(reference), NULL, &s));
  return s;
}

/* ---- other people's answers ------------------------------------------------------------ */

static void check_numbers(const attend_rouge_scores *s, const attend_json *want,
                          const char *reference) {
  double got[12];
  memcpy(got, s, sizeof got);
  CHECK_EQ(attend_json_count(want), 12);
  for (size_t i = 0; i < 12; i++) {
    double w = attend_json_number(attend_json_at(want, i), NAN);
    if (!(got[i] == w))
      CHECK_FAIL("number %zu beside \"%.60s\" is %.17g, not %.17g", i, reference, got[i], w);
  }
}

static double check_pair(attend_context *ctx, const attend_json *pair) {
  size_t n, m;
  const char *reference = attend_json_string(attend_json_at(pair, 0), &n);
  const char *summary = attend_json_string(attend_json_at(pair, 1), &m);
  attend_rouge_scores s[2];
  for (int stem = 0; stem < 2; stem++) {
    attend_rouge_options o = {ATTEND_INIT(attend_rouge_options), .stem = stem, .lines = 1};
    OK(ctx, attend_rouge(ctx, summary, m, reference, n, &o, &s[stem]));
    check_numbers(&s[stem], attend_json_at(pair, 2 + (size_t)stem), reference);
  }
  return s[0].rouge1.f1;
}

/* Their resamples are other ones: bounds differ by what a thousand draws leave open,
 * about a tenth of the deviation of the mean. */
static void check_interval(attend_context *ctx, const double *f1, size_t count,
                           const attend_json *want) {
  attend_interval i;
  OK(ctx, attend_bootstrap(ctx, count, 1, f1, NULL, &i));
  double low = attend_json_number(attend_json_at(want, 0), NAN);
  double mid = attend_json_number(attend_json_at(want, 1), NAN);
  double high = attend_json_number(attend_json_at(want, 2), NAN);
  double deviation = (high - low) / (2 * 1.96);
  CHECK_NEAR(i.low, low, 0.4 * deviation);
  CHECK_NEAR(i.mid, mid, 0.2 * deviation);
  CHECK_NEAR(i.high, high, 0.4 * deviation);
}

TEST(rouge_score_says_the_same) {
  attend_context *ctx = open_context(NULL, 1, NULL);
  attend_json *root;
  size_t length;
  char *text = read_whole(golden_path("rouge.json"), &length);
  OK(ctx, attend_json_parse(ctx, "rouge.json", text, length, &root));
  const attend_json *pairs = attend_json_get(root, "pairs");
  size_t count = attend_json_count(pairs);
  double *f1 = zeroed_block(count, sizeof *f1);
  CHECK(count >= 200);
  for (size_t i = 0; i < count; i++) f1[i] = check_pair(ctx, attend_json_at(pairs, i));
  check_interval(ctx, f1, count, attend_json_get(root, "intervals"));
  free(f1);
  attend_json_free(root);
  free(text);
  attend_context_free(ctx);
}

TEST(nltk_has_the_same_stems) {
  size_t length, count = 0;
  char *text = read_whole(golden_path("stems.txt"), &length), *rest = text;
  for (char *word; (word = strsep(&rest, " ")) && rest; count++) {
    char *want = strsep(&rest, "\n"), was[64];
    snprintf(was, sizeof was, "%s", word);
    size_t n = attend_stem(word, strlen(word));
    if (n != strlen(want) || memcmp(word, want, n))
      CHECK_FAIL("%s becomes %.*s, not %s", was, (int)n, word, want);
  }
  CHECK(count > 3000);
  free(text);
}

/* ---- subsequences, by the table ------------------------------------------------------------ */

static uint32_t draw(uint64_t *at, uint32_t below) {
  uint32_t out[4];
  attend_random_block((attend_random){7, 1}, (*at)++, out);
  return out[0] % below;
}

static size_t table_length(size_t n, const uint32_t *a, size_t m, const uint32_t *b) {
  size_t *row = zeroed_block(m + 1, sizeof *row);
  for (size_t i = 0; i < n; i++) {
    size_t diagonal = 0;
    for (size_t j = 0; j < m; j++) {
      size_t up = row[j + 1];
      if (a[i] == b[j])
        row[j + 1] = diagonal + 1;
      else if (row[j] > up)
        row[j + 1] = row[j];
      diagonal = up;
    }
  }
  size_t length = row[m];
  free(row);
  return length;
}

TEST(subsequences_are_those_of_the_table) {
  attend_context *ctx = open_context(NULL, 1, NULL);
  uint64_t at = 0;
  uint32_t a[300], b[300];
  for (int trial = 0; trial < 400; trial++) {
    uint32_t kinds = 1 + draw(&at, 40);
    size_t n = draw(&at, 300), m = draw(&at, 300), length;
    for (size_t i = 0; i < 300; i++) {
      a[i] = draw(&at, kinds);
      b[i] = draw(&at, kinds);
    }
    OK(ctx, lcs_length(ctx, kinds, n, a, m, b, &length));
    CHECK_EQ(length, table_length(n, a, m, b));
  }
  attend_context_free(ctx);
}

/* One line each: the union is one subsequence, as long as the longest. */
TEST(marked_places_are_a_subsequence) {
  attend_context *ctx = open_context(NULL, 1, NULL);
  uint64_t at = 1 << 20;
  uint32_t a[300], b[300], kept[300], line[300] = {0};
  unsigned char in_any[300];
  for (int trial = 0; trial < 200; trial++) {
    uint32_t kinds = 1 + draw(&at, 20);
    size_t n = draw(&at, 300), m = draw(&at, 300), length, marked = 0;
    for (size_t i = 0; i < 300; i++) {
      a[i] = draw(&at, kinds);
      b[i] = draw(&at, kinds);
    }
    word_list x = {n, a, line}, y = {m, b, line};
    OK(ctx, lcs_union(ctx, kinds, &x, &y, in_any));
    for (size_t i = 0; i < n; i++)
      if (in_any[i]) kept[marked++] = a[i];
    OK(ctx, lcs_length(ctx, kinds, n, a, m, b, &length));
    CHECK_EQ(marked, length);
    CHECK_EQ(table_length(marked, kept, m, b), length);
  }
  attend_context_free(ctx);
}

/* ---- what must hold --------------------------------------------------------------------------- */

static void check_swapped(attend_score a, attend_score b) {
  CHECK(a.precision == b.recall && a.recall == b.precision);
  CHECK_NEAR(a.f1, b.f1, 1e-15);
}

TEST(swapping_texts_swaps_precision_and_recall) {
  attend_context *ctx = open_context(NULL, 1, NULL);
  const char *x = "a tool to show the attention of models",
             *y = "shows models: the tool, and what it is for";
  attend_rouge_scores s = rouge(ctx, x, y), t = rouge(ctx, y, x);
  CHECK(s.rouge1.f1 > 0 && s.rouge1.precision != s.rouge1.recall);
  check_swapped(s.rouge1, t.rouge1);
  check_swapped(s.rouge2, t.rouge2);
  check_swapped(s.rougeL, t.rougeL);
  attend_context_free(ctx);
}

TEST(equal_texts_score_one_and_order_matters_to_pairs_alone) {
  attend_context *ctx = open_context(NULL, 1, NULL);
  const char *x = "one two three four five", *y = "five four three two one";
  attend_rouge_scores s = rouge(ctx, x, x), t = rouge(ctx, x, y);
  CHECK(s.rouge1.f1 == 1 && s.rouge2.f1 == 1 && s.rougeL.f1 == 1);
  CHECK(t.rouge1.f1 == 1 && t.rouge2.f1 == 0);
  CHECK_NEAR(t.rougeL.f1, 0.2, 1e-15);
  attend_context_free(ctx);
}

TEST(of_several_references_the_best_counts_for_each_kind) {
  attend_context *ctx = open_context(NULL, 1, NULL);
  const char *summary = "a b c d";
  attend_rouge_scores s[3] = {rouge(ctx, summary, "d c b a"), rouge(ctx, summary, "a b x y"),
                              rouge(ctx, summary, "x a y b z c w")};
  attend_rouge_scores best;
  attend_rouge_best(3, s, &best);
  CHECK(best.rouge1.f1 == 1);
  CHECK(best.rouge2.f1 == s[1].rouge2.f1 && s[1].rouge2.f1 > 0);
  CHECK(best.rougeL.f1 == s[2].rougeL.f1);
  CHECK(s[2].rougeL.f1 > s[1].rougeL.f1);
  attend_context_free(ctx);
}

TEST(bytes_that_are_no_text_are_separators) {
  attend_context *ctx = open_context(NULL, 1, NULL);
  const char unusual[] =
      "a\0b\xFF"
      "c\xC4";
  attend_rouge_scores s;
  OK(ctx, attend_rouge(ctx, unusual, sizeof unusual - 1, "\xE2\x84 a b\tC", 8, NULL, &s));
  CHECK(s.rouge1.f1 == 1 && s.rougeL.f1 == 1);
  attend_context_free(ctx);
}

/* A megabyte against a megabyte, and a word that fills one: a second, not a day. */
TEST(long_texts_end) {
  size_t n = light() ? 1 << 16 : 1 << 20;
  attend_context *ctx = open_context(NULL, 1, NULL);
  char *a = zeroed_block(n, 1), *b = zeroed_block(n, 1);
  uint64_t at = 1 << 21;
  attend_rouge_options o = {ATTEND_INIT(attend_rouge_options), .stem = 1};
  attend_rouge_scores s;
  for (size_t i = 0; i < n; i++) {
    a[i] = i % 7 == 6 ? ' ' : (char)('a' + draw(&at, 26));
    b[i] = i < n / 2 ? a[i] : i % 5 ? 'b' : ' ';
  }
  OK(ctx, attend_rouge(ctx, b, n, a, n, &o, &s));
  CHECK(s.rougeL.recall >= 0.499 && s.rougeL.recall < 0.51);
  memset(a, 'y', n);
  OK(ctx, attend_rouge(ctx, a, n, a, n, &o, &s));
  CHECK(s.rouge1.f1 == 1 && s.rouge2.f1 == 0);
  free(a);
  free(b);
  attend_context_free(ctx);
}

TEST(novelty_counts_what_the_source_does_not_have) {
  attend_context *ctx = open_context(NULL, 1, NULL);
  const char *source = "The program draws plots. It reads tables.",
             *summary = "Draws tables, tables and plots";
  attend_novelty n;
  OK(ctx, attend_novelty_count(ctx, summary, strlen(summary), source, strlen(source), NULL, &n));
  CHECK_EQ(n.words, 5);
  CHECK_EQ(n.new_words, 1);
  CHECK_EQ(n.bigrams, 4);
  CHECK_EQ(n.new_bigrams, 4);
  OK(ctx, attend_novelty_count(ctx, source, strlen(source), source, strlen(source), NULL, &n));
  CHECK(n.words == 7 && !n.new_words && n.bigrams == 6 && !n.new_bigrams);
  OK(ctx, attend_novelty_count(ctx, "", 0, source, strlen(source), NULL, &n));
  CHECK(!n.words && !n.new_words && !n.bigrams && !n.new_bigrams);
  CHECK_EQ(attend_word_count(" command-line  tool\n(really) ", 29), 3);
  CHECK_EQ(attend_word_count("", 0), 0);
  attend_context_free(ctx);
}

/* ---- intervals ---------------------------------------------------------------------------------- */

/* The mean of 100 normal numbers is 0: 95 of 100 intervals hold it, give or take. */
TEST(intervals_cover_the_truth) {
  enum { TRIALS = 200, VALUES = 100 };
  attend_context *ctx = open_context(NULL, 2, NULL);
  double values[VALUES];
  float normal[VALUES];
  int covered = 0;
  for (int t = 0; t < TRIALS; t++) {
    attend_bootstrap_options o = {ATTEND_INIT(attend_bootstrap_options), .resamples = 300,
                                  .seed = (uint64_t)t};
    attend_interval i;
    attend_random_normal((attend_random){11, 3}, (uint64_t)t * VALUES, VALUES, normal);
    for (int v = 0; v < VALUES; v++) values[v] = normal[v];
    OK(ctx, attend_bootstrap(ctx, VALUES, 1, values, &o, &i));
    CHECK(i.low < i.mid && i.mid < i.high);
    covered += i.low < 0 && i.high > 0;
  }
  CHECK(covered >= 178 && covered <= 199); /* 190 expected, deviation 3.1 */
  attend_context_free(ctx);
}

TEST(intervals_are_the_same_on_any_number_of_threads) {
  attend_context *ctx = open_context(NULL, 1, NULL);
  double values[60];
  attend_interval one[3], four[3], other[3];
  attend_bootstrap_options o = {ATTEND_INIT(attend_bootstrap_options), .seed = 5};
  for (int i = 0; i < 60; i++) values[i] = i % 3 == 2 ? 4 : sin(i);
  OK(ctx, attend_bootstrap(ctx, 20, 3, values, &o, one));
  OK(ctx, attend_context_set_threads(ctx, 4));
  OK(ctx, attend_bootstrap(ctx, 20, 3, values, &o, four));
  CHECK(!memcmp(one, four, sizeof one));
  o.seed = 6;
  OK(ctx, attend_bootstrap(ctx, 20, 3, values, &o, other));
  CHECK(memcmp(one, other, sizeof one) != 0);
  CHECK(one[0].mean == other[0].mean);
  CHECK(one[2].low == 4 && one[2].mean == 4 && one[2].high == 4);
  attend_context_free(ctx);
}

TEST(what_cannot_be_resampled_is_said) {
  attend_context *ctx = open_context(NULL, 1, NULL);
  double one = 1;
  attend_interval i;
  CHECK_EQ(attend_bootstrap(ctx, 0, 1, &one, NULL, &i), ATTEND_INVALID);
  CHECK_SAYS(attend_message(ctx), "nothing");
  attend_bootstrap_options o = {ATTEND_INIT(attend_bootstrap_options), .confidence = 1.5};
  CHECK_EQ(attend_bootstrap(ctx, 1, 1, &one, &o, &i), ATTEND_INVALID);
  CHECK_SAYS(attend_message(ctx), "between 0 and 1");
  attend_context_free(ctx);
}

TEST(failing_memory_is_said_and_nothing_is_lost) {
  ledger memory = {0};
  attend_context *ctx = open_context(NULL, 1, &memory);
  attend_rouge_options o = {ATTEND_INIT(attend_rouge_options), .lines = 1};
  attend_rouge_scores s;
  attend_status status = ATTEND_NO_MEMORY;
  int failures = 0;
  for (long live = memory.live; status && failures < 100; failures++) {
    memory.fail_at = memory.taken + failures + 1;
    status = attend_rouge(ctx, "a b c", 5, "c a\nd", 5, &o, &s);
    CHECK_EQ(memory.live, live);
    if (status) CHECK_SAYS(attend_message(ctx), "no memory");
  }
  CHECK(!status && failures > 5);
  attend_context_free(ctx);
}

/* ---- files of pairs ---------------------------------------------------------------------- */

static const char *write_scratch(const char *name, const char *text) {
  const char *path = scratch_file(name);
  FILE *to = fopen(path, "wb");
  if (!to || fputs(text, to) < 0 || fclose(to)) exit(1);
  return path;
}

static attend_status score_file(attend_context *ctx, const char *path, const char *summaries,
                                attend_pairs **pairs, attend_pairs_report *report) {
  attend_status status = attend_pairs_read(ctx, 1, &path, NULL, pairs);
  if (!status && summaries) status = attend_pairs_read_summaries(*pairs, summaries, NULL);
  if (!status && !summaries) status = attend_pairs_lead(*pairs, 2);
  return status ? status : attend_pairs_score(*pairs, NULL, report);
}

TEST(pairs_of_a_file_are_scored_by_the_nearest_reference) {
  attend_context *ctx = open_context(NULL, 1, NULL);
  attend_pairs *pairs = NULL;
  attend_pairs_report report;
  char path[256], summaries[256];
  snprintf(path, sizeof path, "%s",
           write_scratch("pairs.jsonl",
                         "{\"source\": \"a b c\", \"target\": [\"x y\", \"a b\"]}\n\n"
                         "{\"source\": \"d e\", \"target\": \"d\"}\n"));
  snprintf(summaries, sizeof summaries, "%s", write_scratch("summaries.txt", "a b\n\n"));
  OK(ctx, score_file(ctx, path, summaries, &pairs, &report));
  CHECK_EQ(attend_pairs_count(pairs), 2);
  CHECK_EQ(attend_pairs_get(pairs, 1)->line, 3);
  CHECK_EQ(attend_pairs_get(pairs, 0)->references, 2);
  CHECK_EQ(attend_pairs_numbers(pairs, 0)[ATTEND_PAIR_ROUGE1 + 2], 1);
  CHECK_EQ(attend_pairs_numbers(pairs, 1)[ATTEND_PAIR_ROUGE1 + 2], 0);
  CHECK_EQ(report.scored, 2);
  CHECK_EQ(report.empty, 1);
  CHECK_EQ(report.documents, 2);
  CHECK_NEAR(report.mean[ATTEND_PAIR_ROUGE1 + 2].mean, 0.5, 0);
  CHECK(!attend_pairs_get(pairs, 2) && !attend_pairs_numbers(pairs, 2));
  attend_pairs_free(pairs);
  OK(ctx, score_file(ctx, path, NULL, &pairs, &report));
  CHECK_EQ(strcmp(attend_pairs_get(pairs, 0)->summary.text, "a b"), 0);
  attend_pairs_free(pairs);
  const char *wrong = write_scratch("wrong.jsonl", "{\"source\": 1}\n");
  CHECK_EQ(attend_pairs_read(ctx, 1, &wrong, NULL, &pairs), ATTEND_UNSUPPORTED);
  CHECK_SAYS(attend_message(ctx), "line 1 has no text called \"summary\" or \"target\"");
  CHECK(!pairs);
  attend_context_free(ctx);
}

TEST(failing_memory_loses_no_pair) {
  ledger memory = {0};
  attend_context *ctx = open_context(NULL, 1, &memory);
  const char *path = write_scratch("few.tsv", "a b c\tb\nd e\te\n");
  attend_status status = ATTEND_NO_MEMORY;
  int failures = 0;
  for (long live = memory.live; status && failures < 200; failures++) {
    attend_pairs *pairs = NULL;
    attend_pairs_report report;
    memory.fail_at = memory.taken + failures + 1;
    status = score_file(ctx, path, NULL, &pairs, &report);
    memory.fail_at = 0;
    attend_pairs_free(pairs);
    CHECK_EQ(memory.live, live);
    if (status) CHECK_EQ(status, ATTEND_NO_MEMORY);
  }
  CHECK(!status && failures > 10);
  attend_context_free(ctx);
}
