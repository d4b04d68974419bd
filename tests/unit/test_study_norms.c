/* attend study norms: the four answers of worksheet 3(a), the length of worksheet 3(b). */
#include "study_results.h"

TEST(dependences_are_those_of_the_solution) {
  static const char *const parts[] = {"i", "ii", "iii", "iv"};
  static const struct {
    const char *name;
    int yes[4];
  } norms[] = {{"layer", {1, 0, 1, 0}}, {"batch", {1, 1, 0, 0}}, {"stored", {1, 0, 0, 0}}};
  const attend_setting_value at[] = {{"rows", "3"}, {"columns", "5"}, {0}};
  study_result s = study_result_of("norms", 5, at);
  for (int k = 0; k < 3; k++)
    for (int p = 0; p < 4; p++) {
      char name[40];
      snprintf(name, sizeof name, "depends-%s-%s", norms[k].name, parts[p]);
      study_prints(&s, name, norms[k].yes[p], 0);
    }
  study_end(&s);
}

TEST(lengths_are_gamma_sqrt_d) {
  const attend_setting_value at[] = {{"d", "9,100"}, {"gamma", "2"}, {"beta", "-3,0"}, {0}};
  study_result s = study_result_of("norms", 1, at);
  study_prints(&s, "length-d9-gamma2-beta-3", 6, 1e-4);
  study_prints(&s, "length-d100-gamma2-beta0", 20, 1e-4);
  study_prints(&s, "eps", 0, 2e-5);
  study_end(&s);
}

TEST(gradients_add_up_with_layer_norm_alone) {
  const attend_setting_value at[] = {{"batch", "12"}, {"width", "5"}, {0}};
  study_result s = study_result_of("norms", 2, at);
  study_prints(&s, "sum-layer-1", 0, 2e-5);
  study_prints(&s, "sum-layer-8", 0, 2e-5);
  study_prints(&s, "differs-batch-8", 1, 0);
  study_prints(&s, "batch-of-one", 1, 1e-6);
  study_end(&s);
}
