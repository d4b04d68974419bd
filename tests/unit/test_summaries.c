/* What an encoder-decoder writes: reading it again, all at once and alone, gives
 * the bits that writing it gave, token by token beside longer documents. Beams
 * find better texts than greed. Groups of beams do what is done by hand. Draws
 * are by their streams, and a caller may forbid tokens. */
#include "golden_models.h"

static const char *const writers[] = {"bart", "t5", "t5-gated", NULL};

enum { DOCUMENTS = 24, LONGEST = 33, NEW = 12 };

typedef struct {
  subject s;
  int32_t *ids;
  attend_prompt document[DOCUMENTS];
} library;

/* Documents of 3 to 33 tokens. */
static library open_library(const char *name) {
  library l = {.s = open_model(name, NULL, 2, NULL)};
  l.ids = random_ids(l.s.config, 11, DOCUMENTS * LONGEST);
  for (int i = 0; i < DOCUMENTS; i++)
    l.document[i] = (attend_prompt){l.ids + i * LONGEST, 3 + (i * 7) % (LONGEST - 2)};
  return l;
}

static void close_library(library *l) {
  free(l->ids);
  close_model(&l->s);
}

static attend_generation *write_with(const library *l, int documents,
                                     const attend_generate_options *o) {
  attend_generation *g = NULL;
  OK(l->s.ctx, attend_generate(l->s.model, documents, l->document, o, &g));
  if (!g) exit(1);
  return g;
}

static attend_generate_options options_of(int beams, int samples) {
  attend_generate_options o = {ATTEND_INIT(attend_generate_options)};
  o.max_new = NEW;
  o.beams = beams;
  o.samples = samples;
  o.batch = 16;
  return o;
}

/* Teacher forcing: the logits of each token of a text, from one call. */
static float *read_again(const library *l, int document, const int32_t *ids, int count) {
  const subject *s = &l->s;
  const attend_prompt *d = &l->document[document];
  size_t vocab = (size_t)s->config->vocab;
  float *logits = zeroed_block((size_t)count * vocab, sizeof *logits);
  int32_t *fed = zeroed_block((size_t)count, sizeof *fed);
  attend_session *run = open_run(s, 1, count);
  fed[0] = s->config->decoder_start;
  memcpy(fed + 1, ids, (size_t)(count - 1) * sizeof *fed);
  OK(s->ctx, attend_session_encode(run, 1, d->count, d->ids, NULL, NULL));
  OK(s->ctx, attend_session_extend(run, 1, count, fed, NULL));
  OK(s->ctx, attend_session_logits(run, count, NULL, logits));
  attend_session_free(run);
  free(fed);
  return logits;
}

static double log_p(const library *l, const float *logits, int32_t id) {
  int n = l->s.config->vocab;
  float loss;
  attend_cross_entropy(l->s.ctx, 1, n, logits, n, &id, &loss, NULL);
  return -(double)loss;
}

/* ---- the same bits ------------------------------------------------------------------ */

static void check_again(const library *l, const attend_continuation *c, bool exact) {
  float *logits = read_again(l, c->prompt, c->ids, c->count);
  double sum = 0;
  for (int i = 0; i < c->count; i++)
    sum += log_p(l, logits + (size_t)i * (size_t)l->s.config->vocab, c->ids[i]);
  if (exact)
    CHECK(sum == c->log_probability);
  else /* beams add what is rounded once more */
    CHECK_NEAR(sum, c->log_probability, 1e-4);
  free(logits);
}

TEST(written_and_read_again) {
  for (int w = 0; writers[w]; w++) {
    library l = open_library(writers[w]);
    attend_generate_options cases[] = {options_of(1, 1), options_of(1, 3), options_of(4, 4),
                                       options_of(6, 6)};
    cases[1].temperature = 1;
    cases[3].groups = 3;
    cases[3].diversity = 2;
    cases[3].no_repeat = 2; /* what it costs the search is not the text's */
    for (int i = 0; i < 4; i++) {
      attend_generation *g = write_with(&l, 6, &cases[i]);
      const attend_continuation *c;
      for (int k = 0; (c = attend_generation_get(g, k)); k++)
        if (c->count) check_again(&l, c, i < 2);
      attend_generation_free(g);
    }
    close_library(&l);
  }
}

typedef struct {
  const library *l;
  float *rows; /* [NEW][V] that a document's tokens were chosen from */
  int document, seen;
} recorder;

static void record(const attend_choice *c, void *user) {
  recorder *r = user;
  if (c->prompt != r->document) return;
  CHECK_EQ(c->count, r->seen);
  memcpy(r->rows + (size_t)r->seen++ * (size_t)c->n, c->logits, (size_t)c->n * sizeof *c->logits);
}

/* In a batch with others, padded to the longest, from caches. */
TEST(logits_of_a_padded_batch) {
  for (int w = 0; writers[w]; w++) {
    library l = open_library(writers[w]);
    size_t vocab = (size_t)l.s.config->vocab;
    for (int document = 0; document < 4; document++) {
      attend_generate_options o = options_of(1, 1);
      recorder r = {&l, zeroed_block(NEW * vocab, sizeof(float)), document, 0};
      o.on_logits = record;
      o.user = &r;
      attend_generation *g = write_with(&l, 8, &o);
      const attend_continuation *c = attend_generation_get(g, document);
      float *alone = read_again(&l, document, c->ids, c->count);
      CHECK_EQ(r.seen, c->count);
      CHECK(same_bits(r.rows, alone, (size_t)c->count * vocab));
      free(alone);
      free(r.rows);
      attend_generation_free(g);
    }
    close_library(&l);
  }
}

/* ---- beams --------------------------------------------------------------------------- */

static double mean_score(const library *l, int beams) {
  attend_generate_options o = options_of(beams, 1);
  attend_generation *g = write_with(l, DOCUMENTS, &o);
  double sum = 0;
  for (int i = 0; i < DOCUMENTS; i++) {
    const attend_continuation *c = attend_generation_get(g, i);
    sum += c->log_probability / c->count;
  }
  attend_generation_free(g);
  return sum / DOCUMENTS;
}

TEST(beams_beat_greed) {
  for (int w = 0; writers[w]; w++) {
    library l = open_library(writers[w]);
    CHECK(mean_score(&l, 4) > mean_score(&l, 1));
    close_library(&l);
  }
}

static bool same_text(const attend_continuation *a, const attend_continuation *b) {
  return a->count == b->count && a->score == b->score && a->log_probability == b->log_probability &&
         !memcmp(a->ids, b->ids, (size_t)a->count * sizeof *a->ids);
}

/* One group is none; groups that cost each other nothing are the same. */
TEST(groups_without_cost) {
  library l = open_library("t5");
  attend_generate_options o = options_of(2, 2);
  attend_generation *plain = write_with(&l, 5, &o), *g;
  o.groups = 1;
  o.diversity = 3;
  g = write_with(&l, 5, &o);
  for (int i = 0; i < 10; i++)
    CHECK(same_text(attend_generation_get(g, i), attend_generation_get(plain, i)));
  attend_generation_free(g);
  o = options_of(6, 6);
  o.groups = 3;
  g = write_with(&l, 5, &o);
  for (int i = 0; i < 30; i++) /* three best ones, then three second ones */
    CHECK(same_text(attend_generation_get(g, i),
                    attend_generation_get(plain, i / 6 * 2 + i % 6 / 3)));
  attend_generation_free(g);
  attend_generation_free(plain);
  close_library(&l);
}

/* Groups of one beam, by hand: each takes the best token after what those
 * before it cost. */
static void by_hand(const library *l, int document, int groups, float cost, int32_t texts[][NEW]) {
  int vocab = l->s.config->vocab;
  for (int step = 0; step < NEW; step++)
    for (int g = 0; g < groups; g++) {
      float *rows = read_again(l, document, texts[g], step + 1);
      float *last = rows + (size_t)step * (size_t)vocab;
      int32_t best = 0;
      for (int before = 0; before < g; before++) last[texts[before][step]] -= cost;
      for (int32_t id = 1; id < vocab; id++)
        if (last[id] > last[best]) best = id;
      texts[g][step] = best;
      free(rows);
    }
}

TEST(groups_by_hand) {
  enum { GROUPS = 4 };
  library l = open_library("t5-gated");
  attend_generate_options o = options_of(GROUPS, GROUPS);
  o.groups = GROUPS;
  o.ignore_end = true;
  for (int document = 0; document < 3; document++) {
    int32_t texts[GROUPS][NEW] = {{0}};
    int found = 0;
    o.diversity = 0.5f + (float)document;
    attend_generation *g = write_with(&l, document + 1, &o);
    by_hand(&l, document, GROUPS, o.diversity, texts);
    for (int i = 0; i < GROUPS; i++) {
      const attend_continuation *c = attend_generation_get(g, document * GROUPS + i);
      for (int k = 0; k < GROUPS; k++) found += !memcmp(c->ids, texts[k], sizeof texts[k]);
    }
    CHECK_EQ(found, GROUPS);
    attend_generation_free(g);
  }
  close_library(&l);
}

TEST(groups_that_cannot_be) {
  library l = open_library("bart");
  attend_generation *g;
  attend_generate_options o = options_of(4, 1);
  o.groups = 3;
  CHECK_EQ(attend_generate(l.s.model, 1, l.document, &o, &g), ATTEND_INVALID);
  CHECK(strstr(attend_message(l.s.ctx), "4 beams cannot be cut into 3 groups"));
  attend_generation_free(g);
  o.groups = 2;
  o.diversity = -1;
  CHECK_EQ(attend_generate(l.s.model, 1, l.document, &o, &g), ATTEND_INVALID);
  attend_generation_free(g);
  close_library(&l);
}

/* ---- draws, and what a caller forbids -------------------------------------------------- */

TEST(draws_by_their_streams) {
  library l = open_library("bart");
  attend_generate_options o = options_of(1, 3);
  o.temperature = 1;
  attend_generation *all = write_with(&l, 2, &o), *some;
  const uint64_t streams[] = {(uint64_t)1 << 32 | 2};
  attend_prompt second = l.document[1];
  o.streams = streams;
  o.samples = 1;
  OK(l.s.ctx, attend_generate(l.s.model, 1, &second, &o, &some));
  const attend_continuation *a = attend_generation_get(all, 5);
  const attend_continuation *b = attend_generation_get(some, 0);
  CHECK_EQ(a->count, b->count);
  CHECK(!memcmp(a->ids, b->ids, (size_t)a->count * sizeof *a->ids));
  attend_generation_free(all);
  attend_generation_free(some);
  close_library(&l);
}

static void forbid_odd(const attend_choice *c, void *user) {
  (void)user;
  for (int i = 0; i < c->count; i++) CHECK(c->ids[i] % 2 == 0);
  for (int i = 1; i < c->n; i += 2) c->logits[i] = -INFINITY;
}

TEST(what_is_forbidden_is_not_written) {
  library l = open_library("t5");
  attend_generate_options cases[] = {options_of(1, 1), options_of(1, 2), options_of(4, 4)};
  cases[1].temperature = 2;
  for (int w = 0; w < 3; w++) {
    cases[w].on_logits = forbid_odd;
    attend_generation *g = write_with(&l, 4, &cases[w]);
    const attend_continuation *c;
    for (int i = 0; (c = attend_generation_get(g, i)); i++)
      for (int k = 0; k < c->count; k++) CHECK(c->ids[k] % 2 == 0);
    attend_generation_free(g);
  }
  close_library(&l);
}
