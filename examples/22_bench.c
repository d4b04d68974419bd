/* How fast a problem is, and what bounds it: 22_bench [PROBLEM]
 */
#include <attend/bench.h>
#include <stdio.h>

#define TRY(call) \
  if (call) return fprintf(stderr, "%s\n", attend_message(ctx)), 1

static int show(double done, const char *what, void *user) {
  (void)user;
  return fprintf(stderr, "%3.0f %% %s\n", 100 * done, what) < 0;
}

int main(int argc, char **argv) {
  const char *text = argc > 1 ? argv[1] : "elu:b1h4n512d64:causal";
  attend_context *ctx;
  attend_problem problem = {ATTEND_INIT(attend_problem)};
  attend_machine machine;
  attend_explanation cost;
  attend_timing time;
  attend_bench_options how = {ATTEND_INIT(attend_bench_options)};
  how.repeat = 5, how.progress = show;
  TRY(attend_context_create(NULL, &ctx));
  TRY(attend_problem_parse(ctx, text, &problem));
  if (!attend_machine_load(ctx, &machine)) TRY(attend_machine_measure(ctx, &machine));
  TRY(attend_explain(ctx, &machine, &problem, 1, &cost));
  TRY(attend_bench(ctx, 1, &problem, &how, &time));
  printf("%s by %s: %.3g ms, at least %.3g ms (%s)\n", text, time.engine, 1e3 * time.median_s,
         1e3 * cost.limit.least_s, cost.limit.bound);
  if (cost.has_features)
    printf("linear is predicted to be faster from n = %g on\n", cost.methods.crossover);
  attend_context_free(ctx);
}
