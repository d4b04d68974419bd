/* Any two texts, parted by the first byte: scores are shares, swapping the texts
 * swaps precision and recall, a subsequence is no longer than what is shared. */
#include "attend/score.h"
#include "fuzz.h"

static void check_score(attend_score s) {
  MUST(s.precision >= 0 && s.precision <= 1);
  MUST(s.recall >= 0 && s.recall <= 1);
  MUST(s.f1 >= 0 && s.f1 <= 1);
}

static void check_scores(const attend_rouge_scores *s) {
  check_score(s->rouge1);
  check_score(s->rouge2);
  check_score(s->rougeL);
  check_score(s->rougeLsum);
  MUST(s->rougeL.recall <= s->rouge1.recall);
  MUST(s->rougeLsum.recall <= s->rouge1.recall);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
  if (length < 2) return 0;
  attend_context *ctx = fuzz_context(length);
  attend_rouge_options o = {ATTEND_INIT(attend_rouge_options), .stem = bytes[0] & 1, .lines = 1};
  attend_rouge_scores s, t;
  attend_novelty n;
  const char *a = (const char *)bytes + 1;
  size_t left = (length - 1) * bytes[0] / 256, right = length - 1 - left;
  MUST(!attend_rouge(ctx, a, left, a + left, right, &o, &s));
  MUST(!attend_rouge(ctx, a + left, right, a, left, &o, &t));
  check_scores(&s);
  MUST(s.rouge1.precision == t.rouge1.recall);
  MUST(s.rouge2.recall == t.rouge2.precision);
  MUST(s.rougeL.recall == t.rougeL.precision);
  MUST(!attend_novelty_count(ctx, a, left, a + left, right, &o, &n));
  MUST(n.new_words <= n.words && n.new_bigrams <= n.bigrams);
  MUST(n.words <= left && (!n.words || n.bigrams == n.words - 1));
  MUST(!fuzz_live);
  return 0;
}
