/* Structs that begin with their size: older, newer and uninitialised callers. */
#include <stddef.h>

#include "attend/hooks.h"
#include "attend/attend.h"
#include "check.h"
#include "attention_fixtures.h"

typedef struct {
  attend_desc desc;
  int added;
} newer_desc;

static const attend_desc small = {ATTEND_INIT(attend_desc), .q_len = 2, .kv_len = 3, .dim = 4};

TEST(members_that_an_older_caller_lacks_are_defaults) {
  attend_context *ctx = open_context(NULL, 1, NULL);
  struct {
    size_t size;
    attend_form form;
    int batch, heads, kv_heads, q_len, kv_len, dim, dim_v;
    unsigned char beyond[512]; /* must not be read */
  } older = {.size = offsetof(attend_desc, mask), .q_len = 2, .kv_len = 3, .dim = 4};
  attend_plan *plan;
  memset(older.beyond, 0xff, sizeof older.beyond);
  OK(ctx, attend_plan_create(ctx, (const attend_desc *)(const void *)&older, &plan));
  const attend_desc *d = attend_plan_desc(plan);
  CHECK_EQ(d->size, sizeof *d);
  CHECK_EQ(d->dim_v, 4);
  CHECK(d->scale == 0.5f && d->mask.causal == ATTEND_NOT_CAUSAL && !d->engine);
  attend_plan_free(plan);
  attend_context_free(ctx);
}

TEST(results_do_not_pass_the_end_of_an_older_struct) {
  attend_context *ctx = open_context(NULL, 1, NULL);
  attend_desc d = small;
  d.size = offsetof(attend_desc, scale);
  d.scale = 77;
  OK(ctx, attend_desc_complete(ctx, &d));
  CHECK_EQ(d.dim_v, 4);
  CHECK_EQ(d.size, offsetof(attend_desc, scale));
  CHECK(d.scale == 77);
  attend_context_free(ctx);
}

TEST(a_struct_without_its_size_is_refused) {
  attend_context *ctx = open_context(NULL, 1, NULL);
  attend_plan *plan;
  attend_desc d = small;
  d.size = 0;
  CHECK_EQ(attend_plan_create(ctx, &d, &plan), ATTEND_INVALID);
  CHECK_SAYS(attend_message(ctx), "attend_desc.size is 0: begin it with ATTEND_INIT(attend_desc)");
  CHECK(!plan);
  d.size = sizeof d.size - 1;
  CHECK_EQ(attend_desc_complete(ctx, &d), ATTEND_INVALID);
  CHECK_SAYS(attend_message(ctx), "attend_desc.size is 7");
  const attend_trace_options trace = {.size = 0, .points = ATTEND_AT_QUERY};
  attend_trace *t;
  CHECK_EQ(attend_trace_create(ctx, &trace, &t), ATTEND_INVALID);
  CHECK_SAYS(attend_message(ctx), "begin it with ATTEND_INIT(attend_trace_options)");
  attend_context_free(ctx);
}

TEST(a_context_says_so_too) {
  attend_context *ctx;
  attend_context_options o = {.size = 0, .threads = 1};
  CHECK_EQ(attend_context_create(&o, &ctx), ATTEND_INVALID);
  CHECK_SAYS(attend_message(ctx), "attend_context_options.size is 0");
  attend_context_free(ctx);
}

TEST(a_newer_caller_may_leave_new_members_0) {
  attend_context *ctx = open_context(NULL, 1, NULL);
  attend_plan *plan;
  newer_desc d = {.desc = small};
  d.desc.size = sizeof d;
  OK(ctx, attend_plan_create(ctx, &d.desc, &plan));
  attend_plan_free(plan);
  d.added = 1;
  CHECK_EQ(attend_plan_create(ctx, &d.desc, &plan), ATTEND_INVALID);
  CHECK_SAYS(attend_message(ctx), "attend_desc has fields that this library does not know");
  attend_context_free(ctx);
}
