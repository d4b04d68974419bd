/* One model under several forms of attention: 20_compare [MODEL] */
#include <attend/attend.h>
#include <attend/compare.h>
#include <stdio.h>

#define TRY(call) \
  if (call) return fprintf(stderr, "%s\n", attend_message(ctx)), 1

int main(int argc, char **argv) {
  const char *path = argc > 1 ? argv[1] : "tests/golden/models/gpt2";
  const char *forms[] = {"softmax", "favor(m=256)", "elu", "argmax"};
  const int32_t ids[] = {3, 14, 15, 92, 65, 35, 89, 79, 32, 38};
  attend_context *ctx;
  attend_model *model;
  attend_comparison *c;
  const attend_form_result *r;
  TRY(attend_context_create(NULL, &ctx));
  TRY(attend_open(ctx, path, &model));
  TRY(attend_comparison_create(model, 10, ids, 4, forms, NULL, &c));
  printf("%-14s %9s %9s %9s\n", "form", "loss", "agreement", "attention");
  for (int i = 0; (r = attend_comparison_get(c, i)); i++)
    printf("%-14s %9.4f %9.2f %9.4f\n", r->form, r->loss, r->agreement, r->attention);
  attend_comparison_free(c);
  attend_model_free(model);
  attend_context_free(ctx);
  return 0;
}
