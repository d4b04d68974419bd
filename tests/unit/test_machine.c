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
