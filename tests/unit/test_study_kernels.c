/* attend study kernels: what Fall 2025 6 and student 5 say of similarities, of the quadratic
 * map, and of time and space. */
#include "study_results.h"

static const attend_study_table *table_of(const study_result *s, const char *name) {
  for (size_t i = 0; s->report && i < s->report->n_blocks; i++) {
    const attend_study_table *t = s->report->blocks[i].table;
    if (t && !strcmp(t->name, name)) return t;
  }
  CHECK_FAIL("there is no table \"%s\"", name);
  return NULL;
}

TEST(one_sign_keeps_the_denominator) {
  static const char *const positive[] = {"softmax", "gaussian", "elu", "favor", "poly-2"};
  study_result s = study_result_of("kernels", 1, NULL);
  char name[40];
  for (size_t i = 0; i < sizeof positive / sizeof *positive; i++) {
    snprintf(name, sizeof name, "share-%s", positive[i]);
    study_prints(&s, name, 1, 1e-9);
    snprintf(name, sizeof name, "outside-%s", positive[i]);
    study_prints(&s, name, 0, 0);
  }
  study_prints(&s, "zero-denominator", 0, 0);
  study_prints(&s, "zero-weak", 1, 0);
  study_end(&s);
}

/* The three that change sign are the last rows; 2: what is left, 3: rows below
 * zero. */
TEST(signed_similarities_cancel) {
  const attend_setting_value at[] = {{"kv-len", "8"}, {0}};
  study_result s = study_result_of("kernels", 2, at);
  const attend_study_table *t = table_of(&s, "denominators");
  for (size_t i = 5; t && i < t->rows; i++) {
    CHECK(t->cells[i * t->columns + 2].number < 0.5);
    CHECK(t->cells[i * t->columns + 3].number > 0);
  }
  study_end(&s);
}

/* Fall 2025 6(b): C = (D+1)(D+2)/2. The student leaves the cross terms out. */
TEST(the_quadratic_map) {
  const attend_setting_value at[] = {{"widths", "2,3,64"}, {"pairs", "500"}, {0}};
  study_result s = study_result_of("kernels", 3, at);
  study_prints(&s, "C-D2", 6, 0);
  study_prints(&s, "C-D3", 10, 0);
  study_prints(&s, "C-D64", 2145, 0);
  study_prints(&s, "map-D64", 0, 1e-13);
  study_prints(&s, "gap-D2", 4, 4);
  study_prints(&s, "gap-D3", 12, 12);
  study_end(&s);
}

/* Fall 2025 6(c), (d): N²(D+M) and NCM. At D = M = 8, C is 45. */
TEST(time_and_space) {
  const attend_setting_value at[] = {{"d", "8"}, {"lengths", "64,128,256,300"}, {0}};
  study_result s = study_result_of("kernels", 4, at);
  study_prints(&s, "flops-pairs-N256", 2.0 * 256 * 256 * 16, 0);
  study_prints(&s, "flops-features-N64", 64 * (2 * 45 * 9 + 128 * 53), 0);
  study_prints(&s, "flops-features-N256", 256 * (4 * 45 * 9 + 128 * 53), 0);
  study_prints(&s, "bytes-pairs-N256", 4 * 256 * (4 * 8 + 1), 0);
  study_prints(&s, "bytes-features-N256", 4 * (256 * (4 * 8 + 1) + 45 * 9), 0);
  study_prints(&s, "exponent-pairs", 2, 1e-9);
  study_prints(&s, "exponent-features", 1, 1e-9);
  study_prints(&s, "linear-N300", 0, 2e-5);
  study_end(&s);
}
