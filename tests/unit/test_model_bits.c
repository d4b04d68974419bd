/* What a token gives depends on the tokens it sees alone: not on how a prompt
 * was cut into calls, how many rows are computed at once, what else is in the
 * batch, or what was forgotten before. And a call that fails changes nothing. */
#include "golden_models.h"

static int long_enough(const subject *s) {
  int max = light() ? 70 : 270; /* pages are of 64 keys, blocks of 256 */
  return s->config->position == ATTEND_POSITIONS_LEARNED && s->config->positions < max
             ? s->config->positions
             : max;
}

static size_t vocab_of(const subject *s) { return (size_t)s->config->vocab; }

/* Logits after each of n tokens, fed one by one: what all other ways must give. */
static float *one_by_one(const subject *s, const int32_t *ids, int n) {
  float *logits = zeroed_block((size_t)n * vocab_of(s), sizeof *logits);
  attend_session *run = open_run(s, 1, 1);
  read_source(run, s, 1, 9);
  for (int i = 0; i < n; i++) {
    OK(s->ctx, attend_session_extend(run, 1, 1, ids + i, NULL));
    OK(s->ctx, attend_session_next(run, 1, logits + (size_t)i * vocab_of(s)));
    CHECK_EQ(attend_session_length(run, 0), i + 1);
  }
  attend_session_free(run);
  return logits;
}

/* ---- cutting -------------------------------------------------------------------------- */

static void check_cut(const subject *s, const int32_t *ids, int n, const float *want, int chunk,
                      int rows) {
  attend_session *run = open_run(s, 1, rows);
  size_t vocab = vocab_of(s);
  float *got = zeroed_block((size_t)n * vocab, sizeof *got);
  int ld;
  read_source(run, s, 1, 9);
  for (int at = 0; at < n; at += chunk) {
    int take = n - at < chunk ? n - at : chunk;
    OK(s->ctx, attend_session_extend(run, 1, take, ids + at, NULL));
    OK(s->ctx, attend_session_next(run, 1, got));
    if (!same_bits(got, want + (size_t)(at + take - 1) * vocab, vocab))
      CHECK_FAIL("%s: by %d, %d rows at once: token %d differs", s->config->family, chunk, rows,
                 at + take - 1);
    if (take > rows) { /* not all of it is there */
      CHECK(!attend_session_hidden(run, &ld));
      CHECK_EQ(attend_session_logits(run, 1, NULL, got), ATTEND_INVALID);
      continue;
    }
    CHECK(attend_session_hidden(run, &ld) != NULL);
    OK(s->ctx, attend_session_logits(run, take, NULL, got));
    if (!same_bits(got, want + (size_t)at * vocab, (size_t)take * vocab))
      CHECK_FAIL("%s: by %d, %d rows at once: a token before %d differs", s->config->family, chunk,
                 rows, at + take);
  }
  CHECK_EQ(attend_session_length(run, 0), n);
  free(got);
  attend_session_free(run);
}

static void check_cuts(const char *name) {
  subject s = open_model(name, NULL, 2, NULL);
  int n = long_enough(&s);
  const int chunks[] = {1, 3, 64, n}, rows[] = {1, 7, 512};
  int32_t *ids = random_ids(s.config, 5, (size_t)n);
  float *want = one_by_one(&s, ids, n);
  for (int c = light() ? 2 : 0; c < 4; c++)
    for (int r = 0; r < 3; r++) check_cut(&s, ids, n, want, chunks[c], rows[r]);
  free(want);
  free(ids);
  close_model(&s);
}

TEST(prompts_cut_in_all_ways) {
  for (int f = 0; decoders[f]; f++) check_cuts(decoders[f]);
  check_cuts("stories260K");
}

/* ---- batches ---------------------------------------------------------------------------- */

enum { BATCH = 5, CALLS = 4, EACH = 12 };

/* Sequences of a batch take different numbers of tokens in every call, some
 * none; each is as if it were alone. */
static void check_batch(const char *name) {
  static const int32_t taken[CALLS][BATCH] = {
      {12, 1, 0, 5, 7}, {0, 12, 3, 0, 1}, {2, 0, 0, 0, 12}, {1, 1, 1, 1, 1}};
  subject s = open_model(name, NULL, 2, NULL);
  size_t vocab = vocab_of(&s), whole = (size_t)(CALLS * EACH);
  int32_t *ids[BATCH], call[BATCH * EACH];
  int held[BATCH] = {0};
  float *want[BATCH], *got = zeroed_block(BATCH * vocab, sizeof *got);
  attend_session *run = open_run(&s, BATCH, 8);
  read_source(run, &s, BATCH, 9);
  for (int b = 0; b < BATCH; b++) {
    ids[b] = random_ids(s.config, 20 + (uint64_t)b, whole);
    want[b] = one_by_one(&s, ids[b], CALLS * EACH);
  }
  for (int c = 0; c < CALLS; c++) {
    for (int i = 0; i < BATCH * EACH; i++) call[i] = -1; /* padding */
    for (int b = 0; b < BATCH; b++)
      memcpy(call + b * EACH, ids[b] + held[b], (size_t)taken[c][b] * sizeof *call);
    OK(s.ctx, attend_session_extend(run, BATCH, EACH, call, taken[c]));
    OK(s.ctx, attend_session_next(run, BATCH, got));
    for (int b = 0; b < BATCH; b++) {
      held[b] += taken[c][b];
      CHECK_EQ(attend_session_length(run, b), held[b]);
      if (held[b] &&
          !same_bits(got + (size_t)b * vocab, want[b] + (size_t)(held[b] - 1) * vocab, vocab))
        CHECK_FAIL("%s: sequence %d of call %d is not as alone", name, b, c);
    }
  }
  for (int b = 0; b < BATCH; b++) {
    free(ids[b]);
    free(want[b]);
  }
  free(got);
  attend_session_free(run);
  close_model(&s);
}

TEST(batches_of_different_lengths) {
  for (int f = 0; decoders[f]; f++) check_batch(decoders[f]);
}

/* ---- parents, forgetting, starting again --------------------------------------------------- */

/* Three histories of 8 tokens; then each takes others' places and goes on. */
static void check_parents(const char *name) {
  enum { B = 3, N = 8, MORE = 4 };
  static const int32_t parents[B] = {2, 2, 0};
  subject s = open_model(name, NULL, 2, NULL);
  size_t vocab = vocab_of(&s);
  int32_t *ids = random_ids(s.config, 31, B * N);
  int32_t *more = random_ids(s.config, 32, B * MORE), line[N + MORE];
  float *got = zeroed_block(B * vocab, sizeof *got);
  attend_session *run = open_run(&s, B, 0);
  read_source(run, &s, B, 9);
  OK(s.ctx, attend_session_extend(run, B, N, ids, NULL));
  OK(s.ctx, attend_session_reorder(run, parents));
  for (int step = 0; step <= 1; step++) {
    if (step) OK(s.ctx, attend_session_extend(run, B, MORE, more, NULL));
    OK(s.ctx, attend_session_next(run, B, got)); /* before: the parents' own */
    for (int b = 0; b < B; b++) {
      int n = step ? N + MORE : N;
      memcpy(line, ids + parents[b] * N, N * sizeof *line);
      memcpy(line + N, more + b * MORE, MORE * sizeof *line);
      float *want = one_by_one(&s, line, n);
      if (!same_bits(got + (size_t)b * vocab, want + (size_t)(n - 1) * vocab, vocab))
        CHECK_FAIL("%s: sequence %d is not what %d was", name, b, parents[b]);
      free(want);
    }
  }
  int32_t wrong[B] = {0, 1, 3};
  CHECK_EQ(attend_session_reorder(run, wrong), ATTEND_INVALID);
  CHECK_EQ(attend_session_length(run, 2), N + MORE);
  free(got);
  free(ids);
  free(more);
  attend_session_free(run);
  close_model(&s);
}

TEST(parents_share_and_part) {
  for (int f = 0; decoders[f]; f++) check_parents(decoders[f]);
}

static void check_forgetting(const char *name) {
  subject s = open_model(name, NULL, 2, NULL);
  size_t vocab = vocab_of(&s);
  int n = 60;
  int32_t *ids = random_ids(s.config, 41, (size_t)n * 2);
  int32_t *other = random_ids(s.config, 42, (size_t)n);
  float *want = one_by_one(&s, ids, n), *got = zeroed_block(2 * vocab, sizeof *got);
  attend_session *run = open_run(&s, 2, 0);
  read_source(run, &s, 2, 9);
  memcpy(ids + n, ids, (size_t)n * sizeof *ids);
  OK(s.ctx, attend_session_extend(run, 2, n, ids, NULL));
  for (int keep = n - 1; keep >= 0; keep -= 13) {
    OK(s.ctx, attend_session_truncate(run, 0, keep));
    CHECK_EQ(attend_session_length(run, 0), keep);
    OK(s.ctx, attend_session_extend(run, 1, n - keep, other, NULL));
    OK(s.ctx, attend_session_truncate(run, 0, keep));
    OK(s.ctx, attend_session_extend(run, 1, n - keep, ids + keep, NULL));
    OK(s.ctx, attend_session_next(run, 2, got));
    CHECK(same_bits(got, want + (size_t)(n - 1) * vocab, vocab));
    CHECK(same_bits(got + vocab, want + (size_t)(n - 1) * vocab, vocab));
  }
  CHECK_EQ(attend_session_truncate(run, 0, n + 1), ATTEND_INVALID);
  CHECK_EQ(attend_session_truncate(run, 2, 0), ATTEND_INVALID);
  CHECK_EQ(attend_session_truncate(run, 0, -1), ATTEND_INVALID);
  attend_session_reset(run);
  CHECK_EQ(attend_session_length(run, 0), 0);
  CHECK_EQ(attend_session_length(run, 1), 0);
  read_source(run, &s, 2, 9); /* a reset forgets the encoder's text too */
  OK(s.ctx, attend_session_extend(run, 2, n, ids, NULL));
  OK(s.ctx, attend_session_next(run, 2, got));
  CHECK(same_bits(got, want + (size_t)(n - 1) * vocab, vocab));
  CHECK(same_bits(got + vocab, want + (size_t)(n - 1) * vocab, vocab));
  free(want);
  free(got);
  free(ids);
  free(other);
  attend_session_free(run);
  close_model(&s);
}

TEST(forgetting_and_going_on) {
  for (int f = 0; decoders[f]; f++) check_forgetting(decoders[f]);
}

/* ---- calls that fail ------------------------------------------------------------------------ */

static void refuse_call(const subject *s, attend_session *run, int count, int n, const int32_t *ids,
                        const int32_t *lengths, const char *why) {
  CHECK_EQ(attend_session_extend(run, count, n, ids, lengths), ATTEND_INVALID);
  CHECK_SAYS(attend_message(s->ctx), why);
  CHECK_EQ(attend_session_length(run, 0), 5);
  CHECK_EQ(attend_session_length(run, 1), 5);
}

static void check_failing(const char *name) {
  subject s = open_model(name, NULL, 2, NULL);
  size_t vocab = vocab_of(&s);
  int32_t *ids = random_ids(s.config, 51, 200), bad[20], lengths[2] = {5, 6};
  float *want = one_by_one(&s, ids, 10), *got = zeroed_block(2 * vocab, sizeof *got);
  attend_session *run = open_run(&s, 2, 4);
  read_source(run, &s, 2, 9);
  memcpy(bad, ids, sizeof bad);
  memcpy(bad + 5, ids, 5 * sizeof *bad);
  OK(s.ctx, attend_session_extend(run, 2, 5, bad, NULL));
  memcpy(bad + 10, ids + 5, 10 * sizeof *bad);
  memcpy(bad + 15, ids + 5, 5 * sizeof *bad);
  bad[9 + 10] = s.config->vocab; /* the last of the second */
  refuse_call(&s, run, 2, 5, bad + 10, NULL, "the model knows");
  bad[9 + 10] = -1;
  refuse_call(&s, run, 2, 5, bad + 10, NULL, "is -1");
  refuse_call(&s, run, 2, 5, bad + 10, lengths, "6 tokens in a call of 5");
  refuse_call(&s, run, 3, 5, ids, NULL, "3 sequences");
  refuse_call(&s, run, 2, 0, ids, NULL, "0 tokens");
  if (s.config->position == ATTEND_POSITIONS_LEARNED)
    refuse_call(&s, run, 2, 60, ids, NULL, "positions that the model has");
  bad[19] = ids[9];
  OK(s.ctx, attend_session_extend(run, 2, 5, bad + 10, NULL));
  OK(s.ctx, attend_session_next(run, 2, got));
  for (size_t b = 0; b < 2; b++) CHECK(same_bits(got + b * vocab, want + 9 * vocab, vocab));
  CHECK_EQ(attend_session_next(run, 3, got), ATTEND_INVALID);
  int32_t place = 10;
  CHECK_EQ(attend_session_logits(run, 1, &place, got), ATTEND_INVALID);
  free(want);
  free(got);
  free(ids);
  attend_session_free(run);
  close_model(&s);
}

TEST(calls_that_fail_change_nothing) {
  for (int f = 0; decoders[f]; f++) check_failing(decoders[f]);
}

TEST(encoders_refuse_what_they_cannot) {
  subject s = open_model("bert", NULL, 1, NULL);
  attend_session *run = open_run(&s, 1, 0);
  int32_t ids[64] = {5};
  float logits[256];
  CHECK_EQ(attend_session_extend(run, 1, 1, ids, NULL), ATTEND_INVALID);
  CHECK_SAYS(attend_message(s.ctx), "no decoder");
  CHECK_EQ(attend_session_next(run, 1, logits), ATTEND_INVALID);
  CHECK_EQ(attend_session_logits(run, 1, NULL, logits), ATTEND_INVALID);
  CHECK_EQ(attend_session_truncate(run, 0, 0), ATTEND_INVALID);
  CHECK_EQ(attend_session_encode(run, 1, 41, ids, NULL, NULL), ATTEND_INVALID);
  CHECK_SAYS(attend_message(s.ctx), "40 positions");
  OK(s.ctx, attend_session_encode(run, 1, 40, ids, NULL, NULL));
  attend_session_free(run);
  close_model(&s);
  s = open_model("gpt2", NULL, 1, NULL);
  run = open_run(&s, 1, 0);
  CHECK_EQ(attend_session_encode(run, 1, 1, ids, NULL, NULL), ATTEND_INVALID);
  CHECK_SAYS(attend_message(s.ctx), "no encoder");
  attend_session_free(run);
  close_model(&s);
}

TEST(sizes_and_parents_that_there_are_not) {
  subject s = open_model("gpt2", NULL, 1, NULL);
  attend_session_options many = {ATTEND_INIT(attend_session_options), .batch = 1 << 20,
                                 .rows = 1 << 20};
  int32_t ids[4] = {5, 6, 7, 8}, parents[2] = {1, 2};
  attend_session *run;
  CHECK_EQ(attend_session_create(s.model, &many, &run), ATTEND_INVALID);
  CHECK_SAYS(attend_message(s.ctx), "2^31");
  CHECK(!run);
  run = open_run(&s, 2, 0);
  OK(s.ctx, attend_session_extend(run, 2, 2, ids, NULL));
  CHECK_EQ(attend_session_reorder(run, parents), ATTEND_INVALID);
  CHECK_EQ(attend_session_length(run, 1), 2);
  attend_session_free(run);
  close_model(&s);
}
