/* attend study approximation: the kernel that Spring 2023, Fall 2022 and the student print,
 * the variance that it needs, their cost, and where sines and cosines fail. */
#include "study_results.h"

TEST(says_what_the_documents_print) {
  const attend_setting_value at[] = {{"distances", "0.5,0.7,1"}, {"seeds", "2"}, {0}};
  const double s = 0.25, both = (exp(s) - 1) * (1 - exp(-s));
  study_result r = study_result_of("approximation", 3, at);
  study_prints(&r, "identity", 0, 1e-9);
  /* exp(-|q-k|^2 / 2 sigma^2), half a sigma and one sigma apart; and with
   * sigma^2 = sqrt(16) what the printed variance gives: exp(-16 z^2 / 2). */
  study_prints(&r, "mean-right-0.5", exp(-0.125), 0.05);
  study_prints(&r, "mean-right-1", exp(-0.5), 0.1);
  study_prints(&r, "mean-wrong-0.5", exp(-2), 0.1);
  study_prints(&r, "mean-wrong-1", exp(-8), 0.1);
  /* attend/problem.h's formulas, times m, written out once more. */
  study_prints(&r, "variance-fourier-0.5", both, 0.05);
  study_prints(&r, "variance-favor-0.5", exp(s) - 1, 0.3);
  study_prints(&r, "variance-favor-pairs-0.5", both, 0.05);
  study_prints(&r, "orthogonal-fourier-0.7", 1, 0.05);
  /* O(N(M+D)D_random): at N = 1024, D = 64, M = 67, 128 directions. */
  study_prints(&r, "operations", 1024.0 * (4 * 64 * 128 + 4 * 256 * 68 + 128 * (256 + 67)), 0);
  study_prints(&r, "twice-n", 2, 0);
  study_prints(&r, "one-d", 4, 0);
  study_prints(&r, "one-m", 8 * 128 + 128, 0);
  study_prints(&r, "softmax-operations", 2 * (64 + 67), 0);
  study_end(&r);
}

static const attend_study_table *table_of(const study_result *s, const char *name) {
  for (size_t i = 0; i < s->report->n_blocks; i++) {
    const attend_study_block *b = &s->report->blocks[i];
    if (b->kind == ATTEND_BLOCK_TABLE && !strcmp(b->table->name, name)) return b->table;
  }
  CHECK_FAIL("there is no table \"%s\"", name);
  return NULL;
}

static double cell(const attend_study_table *t, size_t row, const char *name) {
  for (size_t i = 0; t && i < t->columns; i++)
    if (!strcmp(t->column[i].name, name)) return t->cells[row * t->columns + i].number;
  CHECK_FAIL("there is no column \"%s\"", name);
  return NAN;
}

/* Unit-normal q and k, D = 64, 256 features: sines and cosines explode, their
 * sums take either sign; scaled by D^(-1/4) they are fine. favor keeps its
 * sign. More features help the right variance alone. */
TEST(sines_and_cosines_lose_their_sign) {
  const attend_setting_value at[] = {
      {"widths", "64"}, {"features", "32,512"}, {"seeds", "5"}, {"redraws", "200"}, {0}};
  study_result s = study_result_of("approximation", 6, at);
  const attend_study_table *t = table_of(&s, "widths");
  study_prints(&s, "fourier-sign", 1, 0);
  study_prints(&s, "favor-sign", 0, 0);
  CHECK(cell(t, 0, "fourier_row") > 2);
  CHECK(cell(t, 0, "negative") > 0.2);
  CHECK_NEAR(cell(t, 1, "fourier"), 0.09, 0.04);
  CHECK(cell(t, 1, "negative") == 0);
  t = table_of(&s, "features");
  CHECK(cell(t, 1, "fourier") < 0.5 * cell(t, 0, "fourier"));
  CHECK(cell(t, 1, "favor") < 0.7 * cell(t, 0, "favor"));
  CHECK(cell(t, 1, "printed") > 1);
  study_end(&s);
}
