/* attend/verify.h: verdicts, pairwise cases, invariance, golden files; wrong files,
 * failing allocations. */
#include "attend/verify.h"

#include <math.h>

#include "golden_models.h"

static attend_problem parse(attend_context *ctx, const char *text) {
  attend_problem p = {ATTEND_INIT(attend_problem)};
  OK(ctx, attend_problem_parse(ctx, text, &p));
  return p;
}

static const char *attention_goldens(void) {
  static char path[1024];
  const char *golden = getenv("ATTEND_GOLDEN");
  snprintf(path, sizeof path, "%s/attention.safetensors", golden ? golden : "tests/golden");
  return path;
}

TEST(engines_are_compared_with_the_definition) {
  static const char *const texts[] = {"softmax:b2h4g2n33d8:causal:bwd", "argmax:b1h2n17x33d3:bwd",
                                      "softmax:b1h2n40d8:decode:padleft",
                                      "favor(m=33):b1h2n20d8:bwd"};
  attend_context *ctx = open_context(NULL, 2, NULL);
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    attend_problem p = parse(ctx, texts[i]);
    attend_verifier *verifier;
    attend_verification v;
    OK(ctx, attend_verifier_create(ctx, &p, 1, &verifier));
    OK(ctx, attend_verifier_run(verifier, ctx, &v));
    CHECK(v.ok && v.error[v.worst] <= v.bound[v.worst] && v.engine[0]);
    CHECK_EQ(p.op == ATTEND_OP_BACKWARD, v.error[ATTEND_OUT_DQ] >= 0);
    CHECK(isnan(v.error[ATTEND_OUT_DBIAS]));
    attend_verifier_free(verifier);
  }
  attend_context_free(ctx);
}

TEST(what_cannot_be_verified_is_said) {
  attend_context *ctx = open_context(NULL, 1, NULL);
  attend_problem p = parse(ctx, "sgemm:m4n4k4");
  attend_verifier *v;
  CHECK_EQ(attend_verifier_create(ctx, &p, 1, &v), ATTEND_INVALID);
  CHECK_SAYS(attend_message(ctx), "is not attention");
  p = parse(ctx, "softmax:n9d4:decode:lengths");
  CHECK_EQ(attend_verifier_create(ctx, &p, 1, &v), ATTEND_INVALID);
  CHECK_SAYS(attend_message(ctx), "not lengths");
  CHECK(!v);
  attend_context_free(ctx);
}

/* Not every pair can occur; the four of two dtypes and two layouts do. */
TEST(pairwise_cases_have_every_pair) {
  attend_context *ctx = open_context(NULL, 1, NULL);
  attend_cases *cases;
  int met[2][2] = {{0}};
  const char *text;
  OK(ctx, attend_cases_create(ctx, 0, &cases));
  for (size_t i = 0; (text = attend_cases_get(cases, i)); i++) {
    parse(ctx, text);
    if (strstr(text, "f16") && strstr(text, ":bf16")) continue;
    met[strstr(text, ":f16") != NULL][strstr(text, ":bthd") != NULL]++;
  }
  CHECK(met[0][0] && met[0][1] && met[1][0] && met[1][1]);
  CHECK(attend_cases_count(cases) > 100);
  attend_cases_free(cases);
  attend_context_free(ctx);
}

static void count_check(const char *check, const attend_verification *v, void *user) {
  int *count = user;
  if (!v->ok || v->error[v->worst] != 0) CHECK_FAIL("%s differs", check);
  ++*count;
}

TEST(bits_do_not_depend_on_threads_layouts_and_chunks) {
  attend_context *ctx = open_context(NULL, 2, NULL);
  int count = 0;
  OK(ctx, attend_invariance(ctx, attend_invariance_problem(0), 1, count_check, &count));
  CHECK_EQ(count, 11); /* settings 5, batch, rows, states 4 */
  CHECK_EQ(attend_context_threads(ctx), 2);
  CHECK(!attend_invariance_problem(1000));
  attend_context_free(ctx);
}

TEST(golden_cases_are_read_once_for_several_contexts) {
  attend_context *ctx = open_context(NULL, 2, NULL);
  attend_context *other = open_context("scalar", 1, NULL);
  attend_golden *golden;
  attend_verification v;
  OK(ctx, attend_golden_open(ctx, attention_goldens(), &golden));
  for (size_t i = 0; i < 3; i++) {
    OK(ctx, attend_golden_run(golden, i, ctx, &v));
    CHECK(v.ok);
    OK(other, attend_golden_run(golden, i, other, &v));
    CHECK(v.ok);
  }
  CHECK_EQ(attend_golden_run(golden, attend_golden_count(golden), other, &v), ATTEND_INVALID);
  CHECK_SAYS(attend_message(other), "has no case");
  attend_golden_free(golden);
  OK(ctx, attend_golden_open(ctx, model_path("gpt2", "model.safetensors"), &golden));
  CHECK(attend_golden_run(golden, 0, other, &v) != ATTEND_OK);
  CHECK_SAYS(attend_message(other), "the settings of a golden case");
  attend_golden_free(golden);
  attend_context_free(other);
  attend_context_free(ctx);
}

/* ---- models -------------------------------------------------------------------- */

typedef struct {
  int rows, wrong;
} tally;

static void count_row(const attend_golden_row *row, void *user) {
  tally *t = user;
  t->rows++;
  t->wrong += !row->ok;
}

TEST(models_are_compared_with_their_golden_files) {
  static const char *const models[] = {"gpt2", "bert", "bart"};
  for (int m = 0; m < 3; m++) {
    subject s = open_model(models[m], NULL, 2, NULL);
    tally t = {0};
    size_t skipped;
    OK(s.ctx, attend_golden_model(s.model, model_path(models[m], "golden.safetensors"), count_row,
                                  &t, &skipped));
    CHECK(t.rows > 5 && !t.wrong && skipped);
    close_model(&s);
  }
}

/* Sizes that disagree would be read past their ends. */
TEST(golden_tensors_of_other_shapes_are_refused) {
  int64_t ids[6] = {3, 14, 15, 9, 2, 6}, one = 1;
  float logits[2] = {0}, loss = 1;
  attend_tensor file[] = {{.name = "ids",
                           .rank = 2,
                           .shape = {2, 3},
                           .data = ids,
                           .stored = ATTEND_STORED_I64,
                           .count = 6,
                           .bytes = sizeof ids},
                          {.name = "mask",
                           .rank = 2,
                           .shape = {1, 1},
                           .data = &one,
                           .stored = ATTEND_STORED_I64,
                           .count = 1,
                           .bytes = sizeof one},
                          {.name = "logits",
                           .rank = 3,
                           .shape = {2, 1, 1},
                           .data = logits,
                           .stored = ATTEND_STORED_F32,
                           .count = 2,
                           .bytes = sizeof logits},
                          {.name = "loss",
                           .rank = 1,
                           .shape = {1},
                           .data = &loss,
                           .stored = ATTEND_STORED_F32,
                           .count = 1,
                           .bytes = sizeof loss}};
  subject s = open_model("gpt2", NULL, 1, NULL);
  tally t = {0};
  size_t skipped;
  const char *path = in_folder("a.safetensors");
  empty_folder();
  OK(s.ctx, attend_tensor_file_write(s.ctx, path, 2, file));
  CHECK_EQ(attend_golden_model(s.model, path, count_row, &t, &skipped), ATTEND_IO);
  CHECK_SAYS(attend_message(s.ctx), "mask of 1 x 1 ids");
  file[1] = file[2];
  file[2] = file[3];
  OK(s.ctx, attend_tensor_file_write(s.ctx, path, 3, file));
  CHECK_EQ(attend_golden_model(s.model, path, count_row, &t, &skipped), ATTEND_IO);
  CHECK_SAYS(attend_message(s.ctx), "logits are not");
  remove_folder();
  close_model(&s);
}

/* ---- memory -------------------------------------------------------------------- */

typedef attend_status (*work)(attend_context *ctx);

static attend_status verify_once(attend_context *ctx, const char *text) {
  attend_problem p = parse(ctx, text);
  attend_verifier *verifier;
  attend_verification v;
  attend_status status = attend_verifier_create(ctx, &p, 1, &verifier);
  if (!status) status = attend_verifier_run(verifier, ctx, &v);
  attend_verifier_free(verifier);
  return status;
}
static attend_status verify_favor(attend_context *ctx) {
  return verify_once(ctx, "favor(m=6):b1h1n5d3:bwd");
}
static attend_status verify_argmax(attend_context *ctx) {
  return verify_once(ctx, "argmax:b1h1n5d3:dense:bwd");
}
static attend_status verify_signed(attend_context *ctx) {
  return verify_once(ctx, "fourier(m=6):b1h1n5d3");
}
static attend_status verify_decode(attend_context *ctx) {
  return verify_once(ctx, "softmax:b1h1n5d3:decode:padleft");
}
static attend_status verify_bits(attend_context *ctx) {
  int count = 0;
  return attend_invariance(ctx, "softmax:b2h1n5d3:causal:padleft:bwd", 1, count_check, &count);
}
static attend_status verify_file(attend_context *ctx) {
  attend_golden *golden;
  attend_verification v;
  attend_status status = attend_golden_open(ctx, attention_goldens(), &golden);
  if (!status) status = attend_golden_run(golden, 0, ctx, &v);
  attend_golden_free(golden);
  return status;
}
static attend_status make_cases(attend_context *ctx) {
  attend_cases *cases;
  attend_status status = attend_cases_create(ctx, 1, &cases);
  attend_cases_free(cases);
  return status;
}

static void fail_each(work run) {
  ledger memory = {0};
  attend_context *ctx = open_context(NULL, 1, &memory);
  attend_status status = run(ctx); /* what contexts keep is there now */
  long failures = 0, live = memory.live, step = light() ? 5 : 1;
  CHECK_EQ(status, ATTEND_OK);
  for (status = ATTEND_NO_MEMORY; status && failures < 100000; failures += step) {
    memory.fail_at = memory.taken + failures + 1;
    status = run(ctx);
    if (status) CHECK_EQ(status, ATTEND_NO_MEMORY);
    CHECK_EQ(memory.live, live);
  }
  CHECK(!status && failures > 5);
  attend_context_free(ctx);
}

TEST(failing_memory_is_a_status) {
  static const work all[] = {verify_favor, verify_argmax, verify_signed, verify_decode,
                             verify_bits,  verify_file,   make_cases};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) fail_each(all[i]);
}

TEST(failing_memory_of_models_is_a_status) {
  ledger memory = {0};
  attend_context *ctx = open_context(NULL, 1, &memory);
  subject s = open_path(ctx, model_path("bart", NULL), NULL);
  const char *path = model_path("bart", "golden.safetensors");
  long failures = 0, live = memory.live;
  attend_status status = ATTEND_NO_MEMORY;
  for (; status && failures < 100000; failures += light() ? 97 : 13) {
    tally t = {0};
    size_t skipped;
    memory.fail_at = memory.taken + failures + 1;
    status = attend_golden_model(s.model, path, count_row, &t, &skipped);
    if (status) CHECK_EQ(status, ATTEND_NO_MEMORY);
    CHECK_EQ(memory.live, live);
  }
  CHECK(!status && failures > 100);
  close_model(&s);
}
