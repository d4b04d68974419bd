/* attend/bench.h: shapes of results, refusals, stopping, failing allocations. No time is
 * asserted. */
#include "attend/bench.h"

#include <math.h>

#include "golden_models.h"

static const attend_machine machine = {1, 1e11, 1e11, 1e10, 1e10, 0, 0};

static attend_problem parse(attend_context *ctx, const char *text) {
  attend_problem p = {ATTEND_INIT(attend_problem)};
  OK(ctx, attend_problem_parse(ctx, text, &p));
  return p;
}

static int stop_at_once(double done, const char *now, void *user) {
  ++*(int *)user;
  CHECK(!(done > 1) && now);
  return 1;
}

static void multiply(int threads, int m, int n, int k, const float *a, const float *b, float *c) {
  (void)threads, (void)b;
  c[0] = a[0] * (float)(m + n + k);
}

TEST(problems_are_timed) {
  static const attend_product product = {"none", multiply};
  attend_context *ctx = open_context(NULL, 2, NULL);
  attend_problem p[] = {parse(ctx, "softmax:h2n33d8:causal:bwd"), parse(ctx, "elu:n40d8:decode"),
                        parse(ctx, "sgemm:m8n8k8")};
  attend_bench_options o = {ATTEND_INIT(attend_bench_options)};
  attend_timing t[3];
  o.repeat = 3;
  CHECK_EQ(attend_bench(ctx, 3, p, &o, t), ATTEND_INVALID);
  CHECK_SAYS(attend_message(ctx), "needs a matrix product");
  o.product = &product;
  OK(ctx, attend_bench(ctx, 3, p, &o, t));
  for (int i = 0; i < 3; i++)
    CHECK(t[i].median_s >= t[i].best_s && t[i].best_s >= 0 && t[i].flops > 0 && t[i].bytes > 0);
  CHECK(!strcmp(t[0].engine, "softmax-tiled") && !strcmp(t[1].engine, "linear"));
  CHECK(!strcmp(t[2].engine, "none") && t[2].flops == 1024);
  p[0] = parse(ctx, "softmax:n9d4:decode:lengths");
  CHECK_EQ(attend_bench(ctx, 1, p, &o, t), ATTEND_INVALID);
  CHECK_SAYS(attend_message(ctx), "not lengths");
  attend_context_free(ctx);
}

TEST(the_caller_stops_it) {
  attend_context *ctx = open_context(NULL, 1, NULL);
  attend_problem p = parse(ctx, "softmax:n8d8");
  attend_bench_options o = {ATTEND_INIT(attend_bench_options)};
  attend_timing t;
  int calls = 0;
  o.progress = stop_at_once;
  o.user = &calls;
  CHECK_EQ(attend_bench(ctx, 1, &p, &o, &t), ATTEND_STOPPED);
  CHECK_EQ(calls, 1);
  attend_context_free(ctx);
}

TEST(no_memory_is_a_status) {
  attend_bench_options o = {ATTEND_INIT(attend_bench_options)};
  attend_status status = ATTEND_NO_MEMORY;
  o.repeat = 1;
  for (long n = 1; status; n += 1 + n / 4) {
    ledger l = {0};
    attend_context *ctx = open_context(NULL, 1, &l);
    attend_problem p = parse(ctx, "softmax:n8d8");
    attend_timing t;
    long before = l.live;
    l.fail_at = l.taken + n;
    status = attend_bench(ctx, 1, &p, &o, &t);
    CHECK(!status || status == ATTEND_NO_MEMORY);
    CHECK_EQ(l.live, before);
    attend_context_free(ctx);
    CHECK_EQ(l.live, 0);
  }
}

TEST(costs_are_explained) {
  attend_context *ctx = open_context(NULL, 1, NULL);
  attend_problem p = parse(ctx, "favor(m=64):h2n4096d16:causal");
  attend_explanation e;
  OK(ctx, attend_explain(ctx, &machine, &p, 0.5, &e));
  CHECK(!strcmp(e.engine, "linear") && strstr(e.refused, "softmax-tiled: "));
  CHECK(e.has_features && !strcmp(e.methods.exact.engine, "softmax-tiled"));
  CHECK(e.methods.crossover > 1 && e.methods.crossover < 4096 && isnan(e.cache_bytes));
  CHECK(e.prediction.error > 0 && e.limit.least_s == fmax(e.limit.arithmetic_s, e.limit.memory_s));
  p = parse(ctx, "softmax:h4g2n100d8:decode");
  OK(ctx, attend_explain(ctx, &machine, &p, 1, &e));
  CHECK(!e.has_features && e.cache_bytes == 2 * 100 * 16 * 4 && isnan(e.prediction.error));
  attend_context_free(ctx);
}

TEST(crossovers_are_searched) {
  attend_context *ctx = open_context(NULL, 1, NULL);
  attend_bench_options o = {ATTEND_INIT(attend_bench_options)};
  attend_problem form = {ATTEND_INIT(attend_problem)};
  attend_crossover at;
  o.limit_s = 0.1;
  OK(ctx, attend_crossover_parse(ctx, "elu:h2:bf16", 16, &form));
  CHECK(form.desc.heads == 2 && form.desc.dim == 16 && form.desc.dtype == ATTEND_BF16);
  OK(ctx, attend_bench_crossover(ctx, &machine, &form, ATTEND_OP_DECODE, &o, &at));
  CHECK(at.n >= 16 && at.predicted_n > 0 && at.exact_s > 0 && at.linear_s > 0);
  CHECK(!at.found || at.linear_s < at.exact_s);
  CHECK_EQ(attend_crossover_parse(ctx, "softmax:h2", 0, &form), ATTEND_INVALID);
  CHECK_SAYS(attend_message(ctx), "no feature map");
  attend_context_free(ctx);
}

TEST(ceilings_are_kept_for_each_machine) {
  char folder[] = "/tmp/attend-bench-XXXXXX", path[64];
  attend_machine m;
  CHECK(mkdtemp(folder) && !setenv("XDG_CACHE_HOME", folder, 1));
  attend_context *one = open_context(NULL, 1, NULL), *two = open_context(NULL, 2, NULL);
  CHECK(!attend_machine_load(one, &m));
  OK(one, attend_machine_save(one, &machine));
  CHECK(attend_machine_load(one, &m) && m.flops_all == 1e11 && m.read_one == 1e10);
  CHECK(!attend_machine_load(two, &m));
  attend_context_free(one);
  attend_context_free(two);
  snprintf(path, sizeof path, "%s/attend/machine.json", folder);
  CHECK(!unlink(path));
  *strrchr(path, '/') = 0;
  CHECK(!rmdir(path) && !rmdir(folder));
}

/* ---- models -------------------------------------------------------------------- */

TEST(models_read_decode_and_learn) {
  attend_context *ctx = open_context(NULL, 2, NULL);
  attend_bench_options o = {ATTEND_INIT(attend_bench_options)};
  attend_checkpoint *files;
  attend_model_timing t;
  o.tokens = 16;
  OK(ctx, attend_bench_checkpoint(ctx, model_path("gpt2", NULL), 1000, 1, &files));
  CHECK(attend_checkpoint_config(files)->positions >= 1000);
  OK(ctx, attend_bench_model(files, &o, &t));
  CHECK(t.batch == 1 && t.tokens == 16 && t.read_s > 0 && t.token_s > 0 && t.token_bytes > 0);
  CHECK(t.read_flops > 0 && isnan(t.product_flops) && t.memory_bytes > 0);
  OK(ctx, attend_bench_train(files, &o, &t));
  CHECK(t.batch == 2 && t.read_s > 0 && t.read_flops > 0 && t.work_bytes > 0 && isnan(t.token_s));
  attend_checkpoint_free(files);
  attend_context_free(ctx);
}

TEST(forms_are_measured_by_length) {
  attend_context *ctx = open_context(NULL, 2, NULL);
  attend_form forms[] = {{.kind = ATTEND_SOFTMAX}, {.kind = ATTEND_ELU}};
  attend_bench_options o = {ATTEND_INIT(attend_bench_options)};
  attend_checkpoint *files;
  attend_model_timing t[4];
  const int lengths[] = {8, 32};
  OK(ctx, attend_bench_checkpoint(ctx, model_path("bart", NULL), 32, false, &files));
  OK(ctx, attend_bench_documents(files, 2, forms, 2, lengths, &o, t));
  for (int i = 0; i < 4; i++)
    CHECK(t[i].tokens == lengths[i / 2] && t[i].read_s > 0 && t[i].token_s > 0 &&
          t[i].cache_bytes > 0 && isnan(t[i].expected_s));
  CHECK_EQ(attend_bench_documents(files, 2, forms, 0, lengths, &o, t), ATTEND_INVALID);
  o.limit_s = 1e-9; /* the second length is skipped */
  OK(ctx, attend_bench_documents(files, 2, forms, 2, lengths, &o, t));
  CHECK(t[0].read_s > 0 && isnan(t[2].read_s) && t[2].expected_s > 1e-9);
  OK(ctx, attend_bench_steps(files, 2, forms, 2, lengths, &o, t));
  for (int i = 0; i < 4; i++)
    CHECK(t[i].batch == 1 && t[i].tokens == lengths[i / 2] && t[i].read_s > 0 &&
          isnan(t[i].read_flops) == i % 2);
  attend_checkpoint_free(files);
  attend_context_free(ctx);
}
