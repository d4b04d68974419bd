/* Which heads a prediction needs, and which words: 24_intervene [MODEL] */
#include <attend/attribute.h>
#include <stdio.h>
#include <string.h>

#define TRY(call) \
  if (call) return fprintf(stderr, "%s\n", attend_message(ctx)), 1
enum { LAYERS = 64, HEADS = 64 };

int main(int argc, char **argv) {
  static const int32_t ids[] = {5, 9, 12, 40, 7};
  const attend_tokens text = {ATTEND_INIT(attend_tokens), .ids = ids, .n = 5};
  static double map[LAYERS * HEADS];
  attend_context *ctx;
  attend_model *model;
  TRY(attend_context_create(NULL, &ctx));
  TRY(attend_open(ctx, argc > 1 ? argv[1] : "tests/golden/models/gpt2", &model));
  /* every head set to zero, one after another: the logit of the likeliest next token */
  attend_sweep_options o = {ATTEND_INIT(attend_sweep_options)};
  int layers, heads;
  double before, logit;
  o.change = (attend_change){ATTEND_INIT(attend_change), .kind = ATTEND_CHANGE_ZERO};
  o.metric = (attend_metric){ATTEND_INIT(attend_metric), .target = {-1, -1, -1}};
  TRY(attend_sweep_shape(model, &text, &o, &layers, &heads));
  if (layers > LAYERS || heads > HEADS) return fprintf(stderr, "at most 64 layers and heads\n"), 1;
  TRY(attend_sweep(model, &text, &o, map, &before));
  for (int i = 0; i < layers * heads; i++)
    printf("%+8.3f%c", map[i] - before, (i + 1) % heads ? ' ' : '\n');
  /* the same logit as a sum over the tokens */
  attend_attributor *a;
  attend_target target = {-1, -1, -1};
  float scores[5];
  TRY(attend_attributor_create(model, &a));
  TRY(attend_attribute_gradient(a, &text, &target, scores, NULL, &logit));
  for (int i = 0; i < 5; i++) printf("token %2d: %+.3f\n", (int)ids[i], (double)scores[i]);
  attend_attributor_free(a);
  attend_model_free(model);
  attend_context_free(ctx);
}
