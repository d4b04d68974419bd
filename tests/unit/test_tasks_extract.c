/* attend/extract.h: centralities are the equation's, sentences that repeat a chosen
 * one are passed over; bad options, stopping, every allocation that fails. */
#include <math.h>

#include "attend/extract.h"
#include "attention_fixtures.h"

static const char text[] =
    "The river flooded the old town. Boats left the old town. My aunt likes "
    "tea.\n\n-----\n\nThe river flooded the old town! Nobody in the town was "
    "hurt.";
enum { SENTENCES = 6, ROWS = 5, REPEATED = 4 };

static attend_extraction *cut(attend_context *ctx) {
  attend_extraction *x = NULL;
  OK(ctx, attend_extraction_create(ctx, text, strlen(text), &x));
  if (!x) exit(1);
  return x;
}

TEST(sentences_and_ranks) {
  attend_context *ctx = open_context(NULL, 2, NULL);
  attend_extraction *x = cut(ctx);
  const attend_ranked_sentence *s;
  double sum = 0;
  CHECK_EQ(attend_extraction_count(x), SENTENCES);
  CHECK_EQ(attend_extraction_rows(x), ROWS);
  OK(ctx, attend_extraction_rank(x, NULL, 0, NULL));
  CHECK_EQ(attend_extraction_chosen(x), 3); /* by default */
  for (int i = 0; (s = attend_extraction_get(x, i)); i++) {
    sum += s->centrality;
    CHECK_EQ(s->words, i != 3);
    CHECK_EQ(s->rank > 0, s->words);
    CHECK(!s->words || (s->height >= 0 && s->height <= 1));
  }
  CHECK_NEAR(sum, 1, 1e-12);
  CHECK_EQ(attend_extraction_get(x, REPEATED)->same, 0);
  CHECK(!attend_extraction_get(x, REPEATED)->chosen);
  CHECK(!attend_extraction_get(x, SENTENCES));
  attend_extract_options o = {ATTEND_INIT(attend_extract_options)};
  o.alike = 1;
  o.share = 1;
  OK(ctx, attend_extraction_rank(x, NULL, 0, &o));
  CHECK_EQ(attend_extraction_chosen(x), ROWS);
  attend_extraction_free(x);
  attend_context_free(ctx);
}

/* z_i = sum over j other than i of exp(x_i.x_j / tau), and z_i / sum z. */
TEST(vectors_of_the_caller) {
  static const float v[ROWS][2] = {{1, 0}, {0.6f, 0.8f}, {0, 1}, {0.8f, 0.6f}, {-1, 0}};
  attend_context *ctx = open_context(NULL, 1, NULL);
  attend_extraction *x = cut(ctx);
  attend_extract_options o = {ATTEND_INIT(attend_extract_options)};
  double z[ROWS] = {0}, sum = 0;
  o.tau = 0.25f;
  o.count = 1;
  OK(ctx, attend_extraction_rank(x, v[0], 2, &o));
  for (int i = 0; i < ROWS; i++)
    for (int j = 0; j < ROWS; j++)
      if (i != j) z[i] += exp((double)(v[i][0] * v[j][0] + v[i][1] * v[j][1]) / 0.25);
  for (int i = 0; i < ROWS; i++) sum += z[i];
  for (int i = 0, row = 0; i < SENTENCES; i++) {
    const attend_ranked_sentence *s = attend_extraction_get(x, i);
    if (s->words) CHECK_NEAR(s->centrality, z[row++] / sum, 1e-6);
    CHECK_EQ(s->chosen, s->rank == 1);
  }
  attend_extraction_free(x);
  attend_context_free(ctx);
}

static int stop(double done, const char *what, void *user) {
  (void)done, (void)what;
  ++*(int *)user;
  return 1;
}

TEST(refused_and_stopped) {
  attend_context *ctx = open_context(NULL, 1, NULL);
  attend_extraction *x = cut(ctx), *none = NULL;
  attend_extract_options o = {.size = 0, .count = 2};
  int calls = 0;
  CHECK_EQ(attend_extraction_rank(x, NULL, 0, &o), ATTEND_INVALID);
  CHECK_SAYS(attend_message(ctx), "ATTEND_INIT");
  o.size = sizeof o;
  o.share = 1.5;
  CHECK_EQ(attend_extraction_rank(x, NULL, 0, &o), ATTEND_INVALID);
  o.share = 0;
  o.progress = stop;
  o.user = &calls;
  CHECK_EQ(attend_extraction_rank(x, NULL, 0, &o), ATTEND_STOPPED);
  CHECK_EQ(calls, 1);
  CHECK_EQ(attend_extraction_get(x, 0)->rank, 0);
  CHECK_EQ(attend_extraction_create(ctx, NULL, 3, &none), ATTEND_INVALID);
  CHECK(!none);
  OK(ctx, attend_extraction_create(ctx, "", 0, &none));
  OK(ctx, attend_extraction_rank(none, NULL, 0, NULL));
  CHECK_EQ(attend_extraction_chosen(none), 0);
  attend_extraction_free(none);
  attend_extraction_free(x);
  attend_context_free(ctx);
}

TEST(failing_allocations) {
  ledger memory = {0};
  attend_context *ctx = open_context(NULL, 2, &memory);
  attend_status status = ATTEND_NO_MEMORY;
  long live = memory.live;
  for (long n = 1; status && n < 1000; n++) {
    attend_extraction *x = NULL;
    memory.fail_at = memory.taken + n;
    status = attend_extraction_create(ctx, text, strlen(text), &x);
    if (!status) status = attend_extraction_rank(x, NULL, 0, NULL);
    memory.fail_at = 0;
    attend_extraction_free(x);
    CHECK_EQ(memory.live, live);
    CHECK(!status || status == ATTEND_NO_MEMORY);
  }
  CHECK(!status);
  attend_context_free(ctx);
  CHECK_EQ(memory.live, 0);
}

static int count_calls(double done, const char *what, void *user) {
  (void)what;
  CHECK(done >= 0 && done <= 1);
  ++*(int *)user;
  return 0;
}

/* Texts that are ranked together have the ranks that they have alone; a blank one none. */
TEST(many_texts) {
  attend_context *ctx = open_context(NULL, 2, NULL);
  attend_extraction *alone = cut(ctx), *x[3] = {cut(ctx), NULL, cut(ctx)};
  attend_extract_options o = {ATTEND_INIT(attend_extract_options), .count = 2};
  int calls = 0;
  OK(ctx, attend_extraction_create(ctx, " ", 1, &x[1]));
  OK(ctx, attend_extraction_rank(alone, NULL, 0, &o));
  o.progress = count_calls;
  o.user = &calls;
  OK(ctx, attend_extractions_rank(3, x, NULL, &o));
  CHECK(calls > 0);
  for (int i = 0; i < SENTENCES; i++) {
    const attend_ranked_sentence *a = attend_extraction_get(x[2], i);
    const attend_ranked_sentence *b = attend_extraction_get(alone, i);
    CHECK(a->rank == b->rank && a->chosen == b->chosen && a->centrality == b->centrality);
  }
  CHECK_EQ(attend_extraction_chosen(x[1]), 0);
  o.progress = stop;
  CHECK_EQ(attend_extractions_rank(3, x, NULL, &o), ATTEND_STOPPED);
  OK(ctx, attend_extractions_rank(0, NULL, NULL, NULL));
  for (int i = 0; i < 3; i++) attend_extraction_free(x[i]);
  attend_extraction_free(alone);
  attend_context_free(ctx);
}
