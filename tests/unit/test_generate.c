/* Generation: greedy and drawn tokens are what choosing by hand gives; seeds,
 * samples and prompts decide what is drawn, and batches and threads do not;
 * windows stop or slide; ends are kept off or passed over; ids that the
 * configuration forces come where they should. */
#include "changed_checkpoints.h"

__attribute__((destructor)) static void leave_nothing(void) { remove_folder(); }

static attend_generation *generate(const subject *s, int n, const attend_prompt *prompts,
                                   const attend_generate_options *o) {
  attend_generation *g = NULL;
  if (attend_generate(s->model, n, prompts, o, &g)) {
    printf("no generation: %s\n", attend_message(s->ctx));
    exit(1);
  }
  return g;
}

static bool same_ids(const attend_continuation *a, const attend_continuation *b) {
  return a && b && a->count == b->count &&
         !memcmp(a->ids, b->ids, (size_t)a->count * sizeof *a->ids);
}

/* A copy of a golden model with one thing of its configuration changed. */
static subject open_changed(const char *family, const char *name, const char *value) {
  forgery *f = forge(family);
  if (name) forge_config(f, name, value);
  forge_write(f);
  forge_free(f);
  return open_path(open_context(NULL, 2, NULL), models_folder(), NULL);
}

/* ---- calls that make no sense -------------------------------------------------------- */

static void check_refused(const subject *s, int n, const attend_prompt *prompts,
                          const attend_generate_options *o, const char *part) {
  attend_generation *g = NULL;
  CHECK_EQ(attend_generate(s->model, n, prompts, o, &g), ATTEND_INVALID);
  CHECK(!attend_generation_get(g, 0));
  CHECK_SAYS(attend_generation_message(g), part);
  CHECK_SAYS(attend_message(s->ctx), part);
  attend_generation_free(g);
}

TEST(calls_that_make_no_sense_are_refused) {
  for (int f = 0; decoders[f]; f++) {
    subject s = open_model(decoders[f], NULL, 1, NULL);
    int32_t ids[2] = {1, 2};
    attend_prompt good = {ids, 2}, none = {NULL, 2}, less = {ids, -1};
    const attend_generate_options usual = {ATTEND_INIT(attend_generate_options)};
    check_refused(&s, -1, &good, &usual, "-1 prompts");
    check_refused(&s, 1, NULL, &usual, "prompts is NULL");
    check_refused(&s, 1, &none, &usual, "its ids are NULL");
    check_refused(&s, 1, &less, &usual, "has no token");
    check_refused(&s, INT32_MAX, &good,
                  &(attend_generate_options){ATTEND_INIT(attend_generate_options), .max_new = 1,
                                             .samples = 2, .beams = 1, .repetition = 1},
                  "too many for one call");
    CHECK_EQ(attend_generate(NULL, 1, &good, &usual, NULL), ATTEND_INVALID);
    attend_generate_options o[9];
    static const char *const names[] = {"min_new", "n_ends",  "top_k", "no_repeat", "groups",
                                        "n_stops", "context", "batch", "threads"};
    for (int i = 0; i < 9; i++) o[i] = usual;
    o[0].min_new = o[1].n_ends = o[2].top_k = o[3].no_repeat = -1;
    o[4].groups = o[5].n_stops = o[6].context = o[7].batch = o[8].threads = -1;
    for (int i = 0; i < 9; i++) check_refused(&s, 1, &good, &o[i], names[i]);
    o[1].n_ends = 3;
    check_refused(&s, 1, &good, &o[1], "ends is NULL");
    o[5].n_stops = 3;
    check_refused(&s, 1, &good, &o[5], "stop strings need a tokenizer");
    attend_session *run = open_run(&s, 1, 0);
    CHECK_EQ(attend_session_extend(run, 1, 2, NULL, NULL), ATTEND_INVALID);
    attend_session_free(run);
    close_model(&s);
  }
  CHECK(attend_generation_get(NULL, 0) == NULL);
}

/* ---- by hand ---------------------------------------------------------------------------- */

/* The best id after what the run holds, but for those that are forbidden. */
static int32_t best_next(const subject *s, attend_session *run, const int32_t *forbidden, int n,
                         double *log_p) {
  int vocab = s->config->vocab, best = -1;
  float *logits = zeroed_block((size_t)vocab, sizeof *logits);
  double sum = 0;
  OK(s->ctx, attend_session_next(run, 1, logits));
  for (int i = 0; i < vocab; i++) {
    bool may = true;
    for (int j = 0; j < n; j++) may = may && forbidden[j] != i;
    if (may && (best < 0 || logits[i] > logits[best])) best = i;
    sum += exp((double)logits[i]);
  }
  *log_p = (double)logits[best] - log(sum);
  free(logits);
  return best;
}

TEST(greedy_is_the_best_of_each_step) {
  for (int f = 0; decoders[f]; f++) {
    subject s = open_model(decoders[f], NULL, 2, NULL);
    bool both = s.config->parts == ATTEND_BOTH;
    int32_t *ids = random_ids(s.config, 81, 7);
    attend_prompt prompt = {ids, 7};
    attend_generate_options o = {ATTEND_INIT(attend_generate_options)};
    o.max_new = 12;
    o.ignore_end = true;
    attend_generation *g = generate(&s, 1, &prompt, &o);
    const attend_continuation *c = attend_generation_get(g, 0);
    attend_session *run = open_run(&s, 1, 0);
    double sum = 0, log_p;
    int32_t start = s.config->decoder_start;
    if (both) OK(s.ctx, attend_session_encode(run, 1, 7, ids, NULL, NULL));
    OK(s.ctx, attend_session_extend(run, 1, both ? 1 : 7, both ? &start : ids, NULL));
    CHECK_EQ(c->count, 12);
    CHECK_EQ(c->end, ATTEND_FINISH_LENGTH);
    for (int i = 0; i < c->count; i++) {
      int32_t best = best_next(&s, run, s.config->eos, s.config->n_eos, &log_p);
      CHECK_EQ(c->ids[i], best);
      sum += log_p;
      OK(s.ctx, attend_session_extend(run, 1, 1, &best, NULL));
    }
    CHECK_NEAR(c->log_probability, sum, 1e-3);
    CHECK(!attend_generation_get(g, 1) && !attend_generation_get(g, -1));
    attend_generation_cost cost = *attend_generation_costs(g);
    CHECK_EQ(cost.prompt_tokens, 7);
    CHECK_EQ(cost.new_tokens, 12);
    attend_session_free(run);
    attend_generation_free(g);
    free(ids);
    close_model(&s);
  }
}

/* What transformers generated: greedy and with four beams. */
TEST(the_ids_of_transformers) {
  static const char *const names[] = {"greedy", "beam4"};
  for (int f = 0; decoders[f]; f++)
    for (int k = 0; k < 2; k++) {
      subject s = open_model(decoders[f], NULL, 2, NULL);
      inputs in = open_inputs(s.ctx, decoders[f]);
      bool both = s.config->parts == ATTEND_BOTH;
      int n = 0, before = both ? 1 : 5;
      int32_t *golden = golden_ids(in.file, names[k], NULL, &n);
      attend_prompt prompt = {in.ids, both ? in.lengths[0] : 5};
      attend_generate_options o = {ATTEND_INIT(attend_generate_options)};
      o.max_new = n - before;
      o.beams = k ? 4 : 1;
      attend_generation *g = generate(&s, 1, &prompt, &o);
      const attend_continuation *c = attend_generation_get(g, 0);
      attend_continuation want = {.ids = golden + before, .count = n - before};
      if (!same_ids(c, &want)) CHECK_FAIL("%s: other ids by %s", decoders[f], names[k]);
      attend_generation_free(g);
      free(golden);
      close_inputs(&in);
      close_model(&s);
    }
}

/* ---- what is drawn ------------------------------------------------------------------------ */

enum { PROMPTS = 3, SAMPLES = 4 };

static void check_draws(const char *name) {
  subject first = open_model(name, NULL, 1, NULL);
  int32_t *ids = random_ids(first.config, 82, 30);
  attend_prompt prompts[PROMPTS] = {{ids, 4}, {ids + 4, 9}, {ids + 13, 1}};
  attend_generate_options o = {ATTEND_INIT(attend_generate_options)};
  o.max_new = 10;
  o.temperature = 1.3f;
  o.seed = 12345;
  o.samples = SAMPLES;
  o.batch = PROMPTS * SAMPLES;
  attend_generation *all = generate(&first, PROMPTS, prompts, &o);
  int distinct = 0;
  for (int i = 1; i < SAMPLES; i++)
    distinct += !same_ids(attend_generation_get(all, 0), attend_generation_get(all, i));
  CHECK(distinct > 0);
  for (int c = 0; c < 6; c++) {
    subject s = open_model(name, NULL, 1 + c % 3, NULL);
    o.batch = 1 + 2 * c;
    o.samples = 1 + c % SAMPLES; /* fewer: the same ones */
    attend_generation *g = generate(&s, PROMPTS, prompts, &o);
    for (int p = 0; p < PROMPTS; p++)
      for (int i = 0; i < o.samples; i++) {
        const attend_continuation *one = attend_generation_get(g, p * o.samples + i);
        CHECK(one && one->prompt == p && one->sample == i);
        if (!same_ids(one, attend_generation_get(all, p * SAMPLES + i)))
          CHECK_FAIL("%s: sample %d of prompt %d differs by %d and %d", name, i, p, o.batch,
                     o.samples);
      }
    attend_generation_free(g);
    close_model(&s);
  }
  o.seed++;
  attend_generation *other = generate(&first, 1, prompts, &o);
  CHECK(!same_ids(attend_generation_get(other, 0), attend_generation_get(all, 0)));
  attend_generation_free(other);
  attend_generation_free(all);
  free(ids);
  close_model(&first);
}

TEST(draws_depend_on_seed_prompt_and_sample_alone) {
  check_draws("gpt2");
  check_draws("llama-gqa");
  check_draws("t5");
}

/* ---- windows --------------------------------------------------------------------------------- */

typedef struct {
  int tokens, slid, done;
} counter;

static int count_token(const attend_token *t, void *user) {
  counter *c = user;
  c->tokens++;
  c->slid += t->slid;
  return c->done && c->tokens >= c->done;
}

TEST(a_full_window_stops) {
  subject s = open_model("gpt2", NULL, 2, NULL);
  int32_t *ids = random_ids(s.config, 83, 64);
  attend_prompt prompt = {ids, 10};
  attend_generate_options o = {ATTEND_INIT(attend_generate_options)};
  o.ignore_end = true;
  o.max_new = 40;
  attend_generation *free_one = generate(&s, 1, &prompt, &o);
  o.context = 12;
  attend_generation *g = generate(&s, 1, &prompt, &o);
  const attend_continuation *c = attend_generation_get(g, 0);
  CHECK_EQ(c->end, ATTEND_FINISH_CONTEXT);
  CHECK_EQ(c->count, 3); /* two that fit, and what comes after them */
  CHECK(!memcmp(c->ids, attend_generation_get(free_one, 0)->ids, 3 * sizeof *c->ids));
  attend_generation_free(g);
  prompt.count = 12;
  g = generate(&s, 1, &prompt, &o);
  CHECK_EQ(attend_generation_get(g, 0)->count, 1);
  attend_generation_free(g);
  prompt.count = 13;
  check_refused(&s, 1, &prompt, &o, "context holds 12");
  o.context = 1000; /* more than the model has positions for */
  prompt.count = 64;
  g = generate(&s, 1, &prompt, &o);
  CHECK_EQ(attend_generation_get(g, 0)->count, 1);
  attend_generation_free(g);
  attend_generation_free(free_one);
  free(ids);
  close_model(&s);
}

/* By hand: when a token is chosen from a full window, the newer half and that
 * token are read anew. */
static void slide_by_hand(const subject *s, const int32_t *prompt, int count, int limit, int n,
                          int32_t *ids) {
  int32_t window[128];
  double log_p;
  memcpy(window, prompt, (size_t)count * sizeof *window);
  for (int i = 0; i < n; i++) {
    attend_session *run = open_run(s, 1, 0);
    OK(s->ctx, attend_session_extend(run, 1, count, window, NULL));
    ids[i] = best_next(s, run, s->config->eos, s->config->n_eos, &log_p);
    bool full = count >= limit;
    window[count++] = ids[i];
    if (full) {
      memmove(window, window + count - limit / 2, (size_t)(limit / 2) * sizeof *window);
      count = limit / 2;
    }
    attend_session_free(run);
  }
}

TEST(a_full_window_slides) {
  static const char *const names[] = {"gpt2", "llama-gqa"};
  for (int f = 0; f < 2; f++) {
    subject s = open_model(names[f], NULL, 2, NULL);
    int32_t *ids = random_ids(s.config, 84, 64), want[2][40];
    attend_prompt prompts[] = {{ids, 3}, {ids + 20, 9}};
    attend_generate_options o = {ATTEND_INIT(attend_generate_options)};
    counter seen = {0};
    o.ignore_end = true;
    o.max_new = light() ? 20 : 40;
    o.context = 9 + f; /* odd and even */
    o.window = ATTEND_WINDOW_SLIDE;
    o.on_token = count_token;
    o.user = &seen;
    attend_generation *g = generate(&s, 2, prompts, &o);
    for (int p = 0; p < 2; p++) {
      const attend_continuation *c = attend_generation_get(g, p);
      slide_by_hand(&s, prompts[p].ids, prompts[p].count, o.context, o.max_new, want[p]);
      CHECK_EQ(c->count, o.max_new);
      CHECK_EQ(c->end, ATTEND_FINISH_LENGTH);
      CHECK(!memcmp(c->ids, want[p], (size_t)c->count * sizeof *c->ids));
    }
    CHECK(seen.slid >= 4);
    CHECK_EQ(seen.tokens, 2 * o.max_new);
    attend_generation_free(g);
    free(ids);
    close_model(&s);
  }
}

TEST(the_caller_may_stop) {
  subject s = open_model("gpt2", NULL, 2, NULL);
  int32_t *ids = random_ids(s.config, 85, 5);
  attend_prompt prompts[] = {{ids, 5}, {ids, 3}};
  attend_generate_options o = {ATTEND_INIT(attend_generate_options)};
  counter seen = {.done = 7};
  o.on_token = count_token;
  o.user = &seen;
  o.ignore_end = true;
  attend_generation *g = generate(&s, 2, prompts, &o);
  CHECK_EQ(seen.tokens, 7);
  CHECK_EQ(attend_generation_get(g, 0)->count, 4);
  CHECK_EQ(attend_generation_get(g, 1)->count, 3);
  CHECK_EQ(attend_generation_get(g, 0)->end, ATTEND_FINISH_CALLER);
  CHECK_EQ(attend_generation_get(g, 1)->end, ATTEND_FINISH_CALLER);
  attend_generation_free(g);
  free(ids);
  close_model(&s);
}

/* ---- ends ------------------------------------------------------------------------------------ */

/* The fixture's greedy ids, one of which is made the end. */
TEST(ends) {
  subject s = open_changed("gpt2", "eos_token_id", "null");
  int32_t *ids = random_ids(s.config, 86, 6);
  attend_prompt prompt = {ids, 6};
  attend_generate_options o = {ATTEND_INIT(attend_generate_options)};
  char end[32];
  o.max_new = 12;
  attend_generation *free_one = generate(&s, 1, &prompt, &o);
  const attend_continuation *open = attend_generation_get(free_one, 0);
  CHECK_EQ(open->count, 12);
  int at = 2; /* the first id that did not come before */
  for (int i = 0; i < at && at < 11; i++)
    if (open->ids[i] == open->ids[at]) i = -1, at++;
  snprintf(end, sizeof end, "[99999, %d, 7]", (int)open->ids[at]);
  subject ended = open_changed("gpt2", "eos_token_id", end);
  CHECK_EQ(ended.config->n_eos, 2);
  attend_generation *g = generate(&ended, 1, &prompt, &o);
  const attend_continuation *c = attend_generation_get(g, 0);
  CHECK_EQ(c->end, ATTEND_FINISH_TOKEN);
  CHECK_EQ(c->count, at + 1);
  CHECK(!memcmp(c->ids, open->ids, (size_t)c->count * sizeof *c->ids));
  attend_generation_free(g);
  for (int way = 0; way < 2; way++) { /* not before min_new; never */
    attend_session *run = open_run(&ended, 1, 0);
    double log_p;
    o.min_new = way ? 0 : at + 3;
    o.ignore_end = way;
    g = generate(&ended, 1, &prompt, &o);
    c = attend_generation_get(g, 0);
    OK(ended.ctx, attend_session_extend(run, 1, 6, ids, NULL));
    for (int i = 0; i < c->count; i++) {
      bool may = !way && i >= o.min_new;
      int32_t best =
          best_next(&ended, run, ended.config->eos, may ? 0 : ended.config->n_eos, &log_p);
      CHECK_EQ(c->ids[i], best);
      OK(ended.ctx, attend_session_extend(run, 1, 1, &best, NULL));
    }
    CHECK(c->count >= (way ? 12 : o.min_new));
    attend_session_free(run);
    attend_generation_free(g);
  }
  attend_generation_free(free_one);
  free(ids);
  close_model(&s);
  close_model(&ended);
}

/* generation_config.json has the last word about ids. */
TEST(generation_config) {
  const char *json = "{\"eos_token_id\": [9, 8], \"forced_bos_token_id\": 7}";
  write_in_folder("generation_config.json", json, strlen(json));
  forgery *f = forge("bart"); /* empties the folder */
  forge_write(f);
  forge_free(f);
  write_in_folder("generation_config.json", json, strlen(json));
  subject s = open_path(open_context(NULL, 1, NULL), models_folder(), NULL);
  CHECK(s.config->n_eos == 2 && s.config->eos[0] == 9 && s.config->eos[1] == 8);
  CHECK_EQ(s.config->forced_bos, 7);
  CHECK_EQ(s.config->decoder_start, 2);
  close_model(&s);
  empty_folder();
}

TEST(forced_and_first_ids) {
  subject s = open_changed("bart", "forced_eos_token_id", "17");
  int32_t *ids = random_ids(s.config, 87, 8);
  attend_prompt prompt = {ids, 8};
  attend_generate_options o = {ATTEND_INIT(attend_generate_options)};
  o.max_new = 6;
  for (o.beams = 1; o.beams <= 3; o.beams += 2) {
    attend_generation *g = generate(&s, 1, &prompt, &o);
    const attend_continuation *c = attend_generation_get(g, 0);
    if (c->count == o.max_new) CHECK_EQ(c->ids[5], 17);
    attend_generation_free(g);
  }
  close_model(&s);
  s = open_changed("bart", "forced_bos_token_id", "13");
  for (o.beams = 1; o.beams <= 3; o.beams += 2) {
    attend_generation *g = generate(&s, 1, &prompt, &o);
    CHECK_EQ(attend_generation_get(g, 0)->ids[0], 13);
    attend_generation_free(g);
  }
  close_model(&s);
  o.beams = 1;
  s = open_changed("bart", "decoder_start_token_id", "5");
  attend_generation *g = generate(&s, 1, &prompt, &o);
  attend_session *run = open_run(&s, 1, 0);
  int32_t start = 5;
  double log_p;
  OK(s.ctx, attend_session_encode(run, 1, 8, ids, NULL, NULL));
  OK(s.ctx, attend_session_extend(run, 1, 1, &start, NULL));
  CHECK_EQ(attend_generation_get(g, 0)->ids[0], best_next(&s, run, NULL, 0, &log_p));
  attend_session_free(run);
  attend_generation_free(g);
  close_model(&s);
  s = open_changed("bart", "decoder_start_token_id", "null");
  check_refused(&s, 1, &prompt, &o, "decoder_start_token_id");
  close_model(&s);
  free(ids);
}

/* ---- what is refused --------------------------------------------------------------------------- */

TEST(options_that_are_refused) {
  subject s = open_model("gpt2", NULL, 1, NULL);
  int32_t ids[] = {5, 6, 7, 211};
  attend_prompt good = {ids, 3}, empty = {ids, 0}, bad = {ids, 4};
  const attend_generate_options usual = {ATTEND_INIT(attend_generate_options)};
#define REFUSE(prompt, field, value, why)     \
  do {                                        \
    attend_generate_options o = usual;        \
    o.field = value;                          \
    check_refused(&s, 1, &(prompt), &o, why); \
  } while (0)
  REFUSE(good, max_new, -1, "at least one token");
  REFUSE(good, samples, -1, "at least one");
  REFUSE(good, beams, -1, "at least one");
  REFUSE(good, temperature, -1, "temperature");
  REFUSE(good, temperature, NAN, "temperature");
  REFUSE(good, top_p, 1.5f, "top-p");
  REFUSE(good, min_p, -0.5f, "min-p");
  REFUSE(good, repetition, -1, "repetition");
  REFUSE(good, n_stops, 1, "tokenizer");
  REFUSE(empty, max_new, 3, "no token");
  REFUSE(bad, max_new, 3, "the model knows");
  attend_generate_options o = usual;
  o.beams = 2;
  o.temperature = 1;
  check_refused(&s, 1, &good, &o, "does not sample");
  o.temperature = 0;
  o.samples = 3;
  check_refused(&s, 1, &good, &o, "3 answers cannot come from 2 beams");
  close_model(&s);
  s = open_model("bert", NULL, 1, NULL);
  check_refused(&s, 1, &good, &usual, "encoder");
  close_model(&s);
}
