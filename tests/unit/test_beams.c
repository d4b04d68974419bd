/* Beams against all continuations there are: with as many beams as there are
 * continuations, the answers are the best of them all, in order, by the sum of
 * log probabilities over length^penalty. Few beams find what the search, done by
 * hand, finds. */
#include "changed_checkpoints.h"

__attribute__((destructor)) static void leave_nothing(void) { remove_folder(); }

enum { VOCAB = 3, MOST = 4, ALL = 200 };

typedef struct {
  int32_t ids[MOST];
  int count;
  double sum, score;
} answer;

typedef struct {
  const subject *s;
  const int32_t *prompt;
  int n_prompt, max_new, end; /* end -1: none */
  double penalty;
  answer found[ALL];
  int count;
} everything;

static void log_softmax(const subject *s, const int32_t *ids, int n, double *log_p) {
  attend_session *run = open_run(s, 1, 0);
  float logits[VOCAB];
  double sum = 0;
  OK(s->ctx, attend_session_extend(run, 1, n, ids, NULL));
  OK(s->ctx, attend_session_next(run, 1, logits));
  for (int i = 0; i < VOCAB; i++) sum += exp((double)logits[i]);
  for (int i = 0; i < VOCAB; i++) log_p[i] = (double)logits[i] - log(sum);
  attend_session_free(run);
}

static void put(everything *e, answer a) {
  int at = e->count++;
  a.score = a.sum / pow(a.count, e->penalty);
  for (; at > 0 && a.score > e->found[at - 1].score; at--) e->found[at] = e->found[at - 1];
  e->found[at] = a;
}

static void go_on(everything *e, answer from) {
  int32_t ids[32];
  double log_p[VOCAB];
  memcpy(ids, e->prompt, (size_t)e->n_prompt * sizeof *ids);
  memcpy(ids + e->n_prompt, from.ids, (size_t)from.count * sizeof *ids);
  log_softmax(e->s, ids, e->n_prompt + from.count, log_p);
  for (int32_t id = 0; id < VOCAB; id++) {
    answer next = from;
    next.ids[next.count++] = id;
    next.sum += log_p[id];
    if (id == e->end || next.count == e->max_new)
      put(e, next);
    else
      go_on(e, next);
  }
}

static void check_answers(const attend_generation *g, const everything *e, int answers) {
  double before = INFINITY;
  for (int i = 0; i < answers; i++) {
    const attend_continuation *c = attend_generation_get(g, i);
    if (!c) CHECK_FAIL("answer %d is missing", i);
    if (!c) return;
    CHECK(c->score <= before);
    before = c->score;
    CHECK_EQ(c->sample, i);
    if (i >= e->count) { /* there are no more */
      CHECK_EQ(c->count, 0);
      continue;
    }
    CHECK_NEAR(c->score, e->found[i].score, 1e-4);
    CHECK_NEAR(c->log_probability / pow(c->count, e->penalty), c->score, 1e-9);
    bool alone = (i == 0 || e->found[i - 1].score - e->found[i].score > 1e-4) &&
                 (i + 1 >= e->count || e->found[i].score - e->found[i + 1].score > 1e-4);
    if (!alone) continue; /* rounding decides the order */
    CHECK_EQ(c->count, e->found[i].count);
    CHECK(!memcmp(c->ids, e->found[i].ids, (size_t)c->count * sizeof *c->ids));
    CHECK_EQ(c->end, c->ids[c->count - 1] == e->end ? ATTEND_FINISH_TOKEN : ATTEND_FINISH_LENGTH);
  }
  CHECK(!attend_generation_get(g, answers));
}

static void check_beams(const subject *s, int max_new, int end, double penalty, int answers) {
  static const int32_t letters[] = {2, 0, 1, 0, 1};
  static everything e;
  for (int n = 3; n <= 5; n++) {
    e = (everything){.s = s,
                     .prompt = letters,
                     .n_prompt = n,
                     .max_new = max_new,
                     .end = end,
                     .penalty = penalty};
    go_on(&e, (answer){.count = 0});
    attend_prompt prompts[2] = {{letters + 1, 4}, {letters, n}};
    attend_generate_options o = {ATTEND_INIT(attend_generate_options)};
    attend_generation *g;
    o.max_new = max_new;
    o.beams = 81;
    o.samples = answers;
    o.length_penalty = penalty != 0 ? (float)penalty : ATTEND_ZERO;
    OK(s->ctx, attend_generate(s->model, 1, prompts + 1, &o, &g));
    if (!g) return;
    check_answers(g, &e, answers);
    attend_generation *two; /* the same beside another prompt */
    o.batch = 2 * o.beams;
    OK(s->ctx, attend_generate(s->model, 2, prompts, &o, &two));
    for (int i = 0; i < answers && two; i++) {
      const attend_continuation *a = attend_generation_get(g, i);
      const attend_continuation *b = attend_generation_get(two, answers + i);
      CHECK(b->prompt == 1 && a->count == b->count && a->score == b->score);
      for (int j = 0; j < a->count && j < b->count; j++) CHECK_EQ(a->ids[j], b->ids[j]);
    }
    attend_generation_free(two);
    attend_generation_free(g);
  }
}

TEST(many_beams_find_the_best_of_all) {
  subject s = open_model("gpt-nano-sort", NULL, 2, NULL);
  for (int max_new = 1; max_new <= (light() ? 2 : 3); max_new++) {
    check_beams(&s, max_new, -1, 1, 3);
    check_beams(&s, max_new, -1, 1, 30);
  }
  close_model(&s);
}

/* With an end, answers have different lengths, which the penalty weighs. */
TEST(ends_and_length_penalties) {
  static const double penalties[] = {0, 1, 2.5, -1};
  forgery *f = forge("gpt-nano-sort");
  forge_config(f, "eos_token_id", "1");
  forge_write(f);
  forge_free(f);
  subject s = open_path(open_context(NULL, 2, NULL), models_folder(), NULL);
  CHECK_EQ(s.config->n_eos, 1);
  for (int p = 0; p < 4; p++)
    for (int max_new = 2; max_new <= (light() ? 2 : 4); max_new++)
      check_beams(&s, max_new, 1, penalties[p], 16);
  close_model(&s);
}

/* ---- few beams ---------------------------------------------------------------------------- */

/* The search as beam_search.c describes it, with every beam read anew in each step:
 * of the 2k best next steps, ends among the first k are put aside, and the best
 * k of the others go on, until nothing open beats the worst put aside. */
static int compare(const void *a, const void *b) {
  double x = ((const answer *)a)->sum, y = ((const answer *)b)->sum;
  return (x < y) - (x > y);
}

static bool step_by_hand(everything *e, int k, answer *open, int *n_open) {
  static answer next[ALL];
  int count = 0, kept = 0;
  for (int i = 0; i < *n_open; i++) {
    int32_t ids[32];
    double log_p[VOCAB];
    memcpy(ids, e->prompt, (size_t)e->n_prompt * sizeof *ids);
    memcpy(ids + e->n_prompt, open[i].ids, (size_t)open[i].count * sizeof *ids);
    log_softmax(e->s, ids, e->n_prompt + open[i].count, log_p);
    for (int32_t id = 0; id < VOCAB; id++) {
      answer a = open[i];
      a.ids[a.count++] = id;
      a.sum += log_p[id];
      next[count++] = a;
    }
  }
  qsort(next, (size_t)count, sizeof *next, compare);
  for (int i = 0; i < count && i < 2 * k && kept < k; i++) {
    bool ends = next[i].ids[next[i].count - 1] == e->end;
    if (ends && i < k) put(e, next[i]);
    if (!ends) open[kept++] = next[i];
  }
  *n_open = kept;
  if (e->count > k) e->count = k;
  double best = open[0].sum / pow(open[0].count, e->penalty);
  return kept && open[0].count < e->max_new && (e->count < k || e->found[k - 1].score < best);
}

static void search_by_hand(everything *e, int k) {
  answer open[ALL] = {{.count = 0}};
  int n_open = 1;
  while (step_by_hand(e, k, open, &n_open)) continue;
  for (int i = 0; i < n_open && open[i].count == e->max_new; i++) put(e, open[i]);
  if (e->count > k) e->count = k;
}

TEST(few_beams_by_hand) {
  static const int32_t letters[] = {2, 0, 1, 0, 1, 2, 2};
  static everything e;
  char end[2] = "0";
  for (int c = 0; c < (light() ? 12 : 72); c++) {
    int k = 2 + c % 3, n = 1 + c % 7;
    forgery *f = forge("gpt-nano-sort");
    end[0] = (char)('0' + c % VOCAB);
    forge_config(f, "eos_token_id", end);
    forge_write(f);
    forge_free(f);
    subject s = open_path(open_context(NULL, 1, NULL), models_folder(), NULL);
    e = (everything){.s = &s,
                     .prompt = letters,
                     .n_prompt = n,
                     .max_new = MOST,
                     .end = c % VOCAB,
                     .penalty = c % 4};
    search_by_hand(&e, k);
    attend_prompt prompt = {letters, n};
    attend_generate_options o = {ATTEND_INIT(attend_generate_options)};
    attend_generation *g = NULL;
    o.max_new = MOST;
    o.beams = o.samples = k;
    o.length_penalty = e.penalty != 0 ? (float)e.penalty : ATTEND_ZERO;
    OK(s.ctx, attend_generate(s.model, 1, &prompt, &o, &g));
    if (g) check_answers(g, &e, k);
    attend_generation_free(g);
    close_model(&s);
  }
}

/* One beam is greedy, and more are never worse where nothing ends early. */
TEST(more_beams_are_no_worse) {
  subject s = open_model("llama-gqa", NULL, 2, NULL);
  int32_t *ids = random_ids(s.config, 91, 6);
  attend_prompt prompt = {ids, 6};
  attend_generate_options o = {ATTEND_INIT(attend_generate_options)};
  double greedy = 0;
  o.max_new = 2;
  o.ignore_end = true;
  static const int beams[] = {1, 4, 211};
  for (int i = 0; i < 3; i++) {
    attend_generation *g;
    o.beams = beams[i];
    OK(s.ctx, attend_generate(s.model, 1, &prompt, &o, &g));
    const attend_continuation *c = attend_generation_get(g, 0);
    if (o.beams == 1) greedy = c->log_probability;
    CHECK(c->log_probability >= greedy - 1e-4);
    attend_generation_free(g);
  }
  free(ids);
  close_model(&s);
}

/* Logits that are no numbers are said, by either loop. */
TEST(a_model_that_gives_no_numbers) {
  forgery *f = forge("gpt2");
  forged *norm = forge_find(f, "transformer.ln_f.weight");
  memset(norm->data, 0xff, norm->bytes);
  forge_write(f);
  forge_free(f);
  subject s = open_path(open_context(NULL, 1, NULL), models_folder(), NULL);
  int32_t ids[2] = {5, 6};
  attend_prompt prompt = {ids, 2};
  attend_generate_options o = {ATTEND_INIT(attend_generate_options)};
  for (int beams = 1; beams < 4; beams++) {
    attend_generation *g;
    o.beams = beams;
    CHECK_EQ(attend_generate(s.model, 1, &prompt, &o, &g), ATTEND_IO);
    CHECK_SAYS(attend_message(s.ctx), "not finite");
    CHECK_SAYS(attend_generation_message(g), "not finite");
    CHECK(!attend_generation_get(g, 0));
    attend_generation_free(g);
  }
  close_model(&s);
}
