/* The machine's ceilings: that they are numbers, and what is refused. */
#include "attend/problem.h"

#include "attention_fixtures.h"

TEST(reading_again_and_again) {
  attend_context *ctx = open_context(NULL, 2, NULL);
  double rate = 0;
  OK(ctx, attend_machine_read(ctx, 1 << 20, &rate));
  CHECK(rate > 0 && isfinite(rate));
  CHECK_EQ(attend_machine_read(ctx, 1023, &rate), ATTEND_INVALID);
  CHECK(strstr(attend_message(ctx), "give at least 1024"));
  CHECK_EQ(attend_machine_read(ctx, SIZE_MAX, &rate), ATTEND_NO_MEMORY);
  attend_context_free(ctx);
}

TEST(a_context_names_its_device) {
  static const char *const names[] = {"cpu", "trap"};
  for (int i = 0; i < 2; i++) {
    const attend_context_options o = {ATTEND_INIT(attend_context_options), .device = names[i]};
    attend_context *ctx;
    size_t held = 1, most = 1;
    CHECK_EQ(attend_context_create(&o, &ctx), ATTEND_OK);
    CHECK(!strcmp(attend_context_device(ctx), names[i]));
    OK(ctx, attend_context_wait(ctx));
    CHECK(!attend_context_memory(ctx, &held, &most, true) && held == 0 && most == 0);
    attend_context_free(ctx);
  }
}

/* Engines of the host are called host:NAME on another device, and NAME finds them. */
TEST(engines_of_the_host_are_named) {
  static const char *const names[] = {NULL, "softmax-tiled", "host:softmax-tiled", "definition"};
  const attend_context_options o = {ATTEND_INIT(attend_context_options), .device = "trap"};
  attend_context *ctx;
  attend_plan *plan;
  CHECK_EQ(attend_context_create(&o, &ctx), ATTEND_OK);
  for (int i = 0; i < 4; i++) {
    const attend_desc d = {ATTEND_INIT(attend_desc), .q_len = 4, .kv_len = 4, .dim = 8,
                           .engine = names[i]};
    OK(ctx, attend_plan_create(ctx, &d, &plan));
    CHECK(!strcmp(attend_plan_engine(plan), i < 3 ? "host:softmax-tiled" : "host:definition"));
    attend_plan_free(plan);
  }
  const attend_desc d = {ATTEND_INIT(attend_desc), .q_len = 4, .kv_len = 4, .dim = 8,
                         .engine = "linear"};
  CHECK_EQ(attend_plan_create(ctx, &d, &plan), ATTEND_UNSUPPORTED);
  CHECK_SAYS(attend_message(ctx), "engine linear does not apply: the form has no feature map");
  attend_context_free(ctx);
}
