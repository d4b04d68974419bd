/* A transformer designed by hand: it reverses three letters.
 *
 * One head selects by a table of pairs of positions. The design is checked on every
 * input, run with softmax at the least sharpness that passes, and then broken, to show
 * the counterexample.
 */
#include <attend/attend.h>
#include <attend/design.h>
#include <stdio.h>
#include <string.h>

static const char spec[] =
    "{\"name\": \"backwards\", \"alphabet\": [\"a\", \"b\", \"c\", \"d\"],"
    " \"length\": 3, \"shortest\": 3,"
    " \"layers\": [[{\"name\": \"mirror\","
    "   \"score\": [{\"query\": \"position\", \"key\": \"position\","
    "     \"table\": {\"0\": [\"2\"], \"1\": [\"1\"], \"2\": [\"0\"]}}],"
    "   \"value\": {\"copy\": \"token\"}}]],"
    " \"readout\": {\"copy\": \"mirror\"}, \"task\": \"reverse\"}";

#define TRY(call) \
  if (call) return fprintf(stderr, "%s\n", attend_message(ctx)), 1

static int say(const attend_verdict *v) {
  if (v->ok) return printf("right for all %llu inputs\n", (unsigned long long)v->inputs);
  return printf(
      "wrong for %llu of %llu inputs, first \"%s\": place %d should "
      "give %s, gives %s\n",
      (unsigned long long)v->wrong, (unsigned long long)v->inputs, v->input, v->place, v->expected,
      v->predicted ? v->predicted : "nothing");
}

int main(void) {
  attend_context *ctx;
  attend_design *design, *spoilt;
  attend_design_run *run;
  attend_verdict right, wrong;
  attend_least min;
  attend_design_variant argmax = {ATTEND_DESIGNED, 0};
  TRY(attend_context_create(NULL, &ctx));
  TRY(attend_design_read(ctx, "backwards", spec, strlen(spec), &design));
  TRY(attend_design_check(design, argmax, NULL, &right));
  say(&right);
  TRY(attend_design_least(design, NULL, &min));
  printf("softmax is right from sharpness %.3f on\n", min.sharpness);

  TRY(attend_design_run_create(design, argmax, "dab", &run));
  const attend_design_result *r = attend_design_run_result(run);
  printf("dab -> ");
  for (int i = 0; i < r->length; i++) printf("%s", attend_design_answer(design, r->predicted[i]));
  printf("\n");

  char other[sizeof spec];
  memcpy(other, spec, sizeof spec);
  strstr(other, "[\"0\"]")[2] = '1'; /* the last position attends to the middle */
  TRY(attend_design_read(ctx, "spoilt", other, strlen(other), &spoilt));
  TRY(attend_design_check(spoilt, argmax, NULL, &wrong));
  say(&wrong);

  attend_design_run_free(run);
  attend_design_free(spoilt);
  attend_design_free(design);
  attend_context_free(ctx);
  return !right.ok || wrong.ok || !min.found;
}
