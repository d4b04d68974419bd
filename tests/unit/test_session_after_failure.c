/* A run that found no memory, and one that holds no token: what is left can be
 * used, and what is shown is what is given. */
#include "trace_fixtures.h"

static const int32_t ids[] = {5, 6, 7, 5, 6};

/* A head that found no room leaves a run that can go on. */
TEST(a_run_after_a_head_without_memory) {
  ledger memory = {0};
  attend_context *ctx = open_context(NULL, 1, &memory);
  subject s = open_path(ctx, model_path("gpt2", NULL), NULL);
  enum { ROWS = 700 };
  size_t vocab = (size_t)s.config->vocab, width = 48;
  float *logits = zeroed_block(ROWS * vocab, 4), *x = zeroed_block(ROWS * width, 4);
  float want[256], got[256];
  for (int n = 1; n < 12; n++) {
    attend_session *run = open_run(&s, 1, 0);
    OK(ctx, attend_session_extend(run, 1, 4, ids, NULL));
    OK(ctx, attend_session_extend(run, 1, 1, ids + 4, NULL));
    OK(ctx, attend_session_next(run, 1, want));
    OK(ctx, attend_session_truncate(run, 0, 4));
    memory.fail_at = memory.taken + n;
    attend_status status = attend_session_head(run, ROWS, x, (int)width, false, logits);
    memory.fail_at = 0;
    CHECK(!status || status == ATTEND_NO_MEMORY);
    OK(ctx, attend_session_extend(run, 1, 1, ids + 4, NULL));
    OK(ctx, attend_session_next(run, 1, got));
    CHECK(same_bits(want, got, vocab));
    attend_session_free(run);
  }
  free(logits), free(x);
  close_model(&s);
  CHECK_EQ(memory.live, 0);
}

/* An encoder that found no room: the decoder says so, or goes on. */
TEST(a_decoder_after_an_encoder_without_memory) {
  ledger memory = {0};
  attend_context *ctx = open_context(NULL, 1, &memory);
  subject s = open_path(ctx, model_path("t5", NULL), NULL);
  enum { LONG = 700 };
  int32_t *text = random_ids(s.config, 1, LONG);
  float want[256], got[256];
  attend_session *run = open_run(&s, 1, 0);
  OK(ctx, attend_session_encode(run, 1, LONG, text, NULL, NULL));
  OK(ctx, attend_session_extend(run, 1, 4, ids, NULL));
  OK(ctx, attend_session_next(run, 1, want));
  attend_session_free(run);
  for (int n = 1; n < 12; n++) {
    run = open_run(&s, 1, 0);
    memory.fail_at = memory.taken + n;
    attend_status status = attend_session_encode(run, 1, LONG, text, NULL, NULL);
    memory.fail_at = 0;
    if (status) attend_session_extend(run, 1, 4, ids, NULL);
    OK(ctx, attend_session_encode(run, 1, LONG, text, NULL, NULL));
    OK(ctx, attend_session_extend(run, 1, 4, ids, NULL));
    OK(ctx, attend_session_next(run, 1, got));
    CHECK(same_bits(want, got, (size_t)s.config->vocab));
    attend_session_free(run);
  }
  free(text);
  close_model(&s);
  CHECK_EQ(memory.live, 0);
}

static void keep_logits(const attend_hooked *s, void *user) {
  memcpy(user, s->view.data, (size_t)(s->shape[2] * s->shape[3]) * sizeof(float));
}

TEST(logits_that_are_shown_are_those_given) {
  subject s = open_model("gpt2", NULL, 1, NULL);
  size_t vocab = (size_t)s.config->vocab;
  attend_session *run = open_run(&s, 2, 0);
  static float shown[512], given[512];
  attend_hook hook = {ATTEND_INIT(attend_hook), .points = ATTEND_AT_LOGITS, .read = keep_logits,
                      .user = shown};
  OK(s.ctx, attend_session_extend(run, 1, 4, ids, NULL));
  attend_session_set_hooks(run, 1, &hook);
  OK(s.ctx, attend_session_next(run, 2, given)); /* the second holds no token */
  CHECK(isnan(given[vocab]));
  CHECK(same_bits(shown, given, 2 * vocab));
  attend_session_free(run);
  close_model(&s);
}
