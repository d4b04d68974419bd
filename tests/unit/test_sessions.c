/* One model and its tokenizers, many threads: what sessions, generations, readings
 * and encodings give is what they give alone, bit for bit; a failure is told to
 * the thread that made it; and the caches of all are counted. */
#include <pthread.h>
#include <sched.h>

#include "attend/file.h"
#include "base/base.h"
#include "golden_models.h"
#include "tokenizer_fixtures.h"

enum { THREADS = 8, SESSIONS = 8, BATCH = 2, PROMPT = 20, ROWS = 16 };

/* What one thread does with one session, and what it gave. Checks of threads are
 * counted here: those of check.h are for one thread. */
typedef struct {
  const subject *s;
  const attend_tokenizer *tokenizer; /* of the model, or NULL */
  int number;
  attend_session *session;
  attend_digest sum;
  int line; /* of the first check that failed; 0: none */
} job;

#define EXPECT(j, condition) \
  if (!(condition) && !(j)->line) (j)->line = __LINE__

static void check_jobs(const job *j, int n) {
  for (int i = 0; i < n; i++)
    if (j[i].line) CHECK_FAIL("job %d: the check in line %d", i, j[i].line);
}

static bool same_sums(const attend_digest *a, const attend_digest *b) {
  char text[2][ATTEND_DIGEST_TEXT];
  attend_digest_text(a, text[0]);
  attend_digest_text(b, text[1]);
  return !strcmp(text[0], text[1]);
}

static int threads_of(const job *j) { return (int[]){1, 2, 4}[j->number % 3]; }

/* ---- the steps of a session --------------------------------------------------- */

static void add_next(job *j) {
  size_t n = (size_t)(BATCH * j->s->config->vocab);
  float *logits = zeroed_block(n, sizeof *logits);
  EXPECT(j, !attend_session_next(j->session, BATCH, logits));
  attend_digest_add(&j->sum, logits, n * sizeof *logits);
  free(logits);
}

static void create(job *j) {
  attend_session_options o = {ATTEND_INIT(attend_session_options), BATCH, ROWS, threads_of(j)};
  EXPECT(j, !attend_session_create(j->s->model, &o, &j->session));
}

static void prefill(job *j) {
  const int32_t lengths[BATCH] = {PROMPT, PROMPT - 3};
  int32_t *ids = random_ids(j->s->config, (uint64_t)j->number, BATCH * PROMPT);
  if (j->s->config->parts == ATTEND_BOTH)
    EXPECT(j, !attend_session_encode(j->session, BATCH, PROMPT, ids, lengths, NULL));
  EXPECT(j, !attend_session_extend(j->session, BATCH, PROMPT, ids, lengths));
  add_next(j);
  free(ids);
}

static void decode(job *j) {
  for (int i = 0; i < 5; i++) {
    const int32_t ids[BATCH] = {5 + i, 9 + j->number % 20};
    EXPECT(j, !attend_session_extend(j->session, BATCH, 1, ids, NULL));
    add_next(j);
  }
}

static void logits(job *j) {
  const int32_t ids[BATCH * 3] = {7, 8, 9, 10, 11, 12}, places[] = {4, 0, 2};
  size_t n = 3 * (size_t)j->s->config->vocab;
  float *out = zeroed_block(n, sizeof *out);
  EXPECT(j, !attend_session_extend(j->session, BATCH, 3, ids, NULL));
  EXPECT(j, !attend_session_logits(j->session, 3, places, out));
  attend_digest_add(&j->sum, out, n * sizeof *out);
  free(out);
}

static void reorder(job *j) {
  EXPECT(j, !attend_session_reorder(j->session, (const int32_t[]){1, 1}));
  decode(j);
}

static void truncate_one(job *j) {
  EXPECT(j, !attend_session_truncate(j->session, 0, 6));
  decode(j);
}

/* Failures that name the job's number; what the session held stays. */
static void fail_on_purpose(job *j) {
  const int vocab = j->s->config->vocab, bad = vocab + j->number;
  const int32_t ids[BATCH] = {4, bad}, place = 1000 + j->number;
  char part[64];
  float *row = zeroed_block((size_t)vocab, sizeof *row);
  EXPECT(j, attend_session_extend(j->session, BATCH, 1, ids, NULL) == ATTEND_INVALID);
  snprintf(part, sizeof part, "token 0 of sequence 1 is %d:", bad);
  EXPECT(j, strstr(attend_session_message(j->session), part));
  EXPECT(j, attend_session_logits(j->session, 1, &place, row) == ATTEND_INVALID);
  snprintf(part, sizeof part, "place %d is not", 1000 + j->number);
  EXPECT(j, strstr(attend_session_message(j->session), part));
  free(row);
  add_next(j);
}

/* Too long, where a table has the positions. */
static void overflow(job *j) {
  int n = j->s->config->positions + j->number;
  if (j->s->config->position != ATTEND_POSITIONS_LEARNED) return;
  int32_t *ids = random_ids(j->s->config, 1, (size_t)n);
  char part[64];
  snprintf(part, sizeof part, "%lld tokens are more than",
           (long long)(n + attend_session_length(j->session, 0)));
  EXPECT(j, attend_session_extend(j->session, 1, n, ids, NULL) == ATTEND_INVALID);
  EXPECT(j, strstr(attend_session_message(j->session), part));
  free(ids);
}

/* ---- generation ------------------------------------------------------------------ */

static void add_generation(job *j, const attend_generate_options *o, attend_prompt prompt) {
  attend_generation *g;
  const attend_continuation *c;
  EXPECT(j, !attend_generate(j->s->model, 1, &prompt, o, &g));
  for (int i = 0; (c = attend_generation_get(g, i)); i++) {
    attend_digest_add(&j->sum, c->ids, (size_t)c->count * sizeof *c->ids);
    attend_digest_add(&j->sum, c->text, strlen(c->text));
    attend_digest_add(&j->sum, &c->log_probability, sizeof c->log_probability);
  }
  attend_generation_free(g);
}

static void generate(job *j) {
  int32_t *ids = random_ids(j->s->config, (uint64_t)j->number, 6);
  attend_prompt prompt = {ids, 6};
  attend_generate_options o = {ATTEND_INIT(attend_generate_options)};
  o.tokenizer = j->tokenizer;
  o.threads = threads_of(j);
  o.max_new = 8;
  o.samples = 2;
  o.beams = j->number % 4 == 3 ? 3 : 1;
  o.temperature = o.beams > 1 ? 0 : 0.9f;
  o.seed = (uint64_t)j->number;
  add_generation(j, &o, prompt);
  attend_generation *g;
  char part[64];
  ids[5] = j->s->config->vocab + j->number;
  o.tokenizer = NULL;
  EXPECT(j, attend_generate(j->s->model, 1, &prompt, &o, &g) == ATTEND_INVALID);
  snprintf(part, sizeof part, " is %d:", ids[5]);
  EXPECT(j, strstr(attend_generation_message(g), part));
  EXPECT(j, !attend_generation_get(g, 0));
  attend_generation_free(g);
  free(ids);
}

/* ---- all of it, on all threads ------------------------------------------------------ */

static void (*const steps[])(job *) = {create, prefill,  decode,       logits,          reorder,
                                       decode, generate, truncate_one, fail_on_purpose, overflow};
enum { STEPS = sizeof steps / sizeof *steps };

static void *work_alone(void *user) {
  job *j = user;
  for (int k = 0; k < STEPS; k++) steps[k](j);
  attend_session_free(j->session);
  return NULL;
}

/* SESSIONS that are open at once, step by step. */
static void *work_together(void *user) {
  job *j = user;
  for (int k = 0; k < STEPS; k++)
    for (int i = 0; i < SESSIONS; i++) steps[k](&j[i]);
  for (int i = 0; i < SESSIONS; i++) attend_session_free(j[i].session);
  return NULL;
}

static void run_threads(void *(*body)(void *), void *users, size_t size) {
  pthread_t thread[THREADS];
  for (int i = 0; i < THREADS; i++)
    if (pthread_create(&thread[i], NULL, body, (char *)users + (size_t)i * size)) exit(1);
  for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
}

static void check_model(const char *name, const attend_form *form) {
  static job alone[THREADS * SESSIONS], together[THREADS * SESSIONS];
  attend_model_options options = {ATTEND_INIT(attend_model_options), .form = form};
  subject s = open_model(name, NULL, 2, &options);
  attend_tokenizer *tokenizer = NULL;
  if (!strcmp(name, "stories260K")) tokenizer = load_path(s.ctx, model_path(name, NULL));
  for (int i = 0; i < THREADS * SESSIONS; i++) {
    alone[i] = together[i] = (job){.s = &s, .tokenizer = tokenizer, .number = i};
    work_alone(&alone[i]);
  }
  run_threads(work_together, together, SESSIONS * sizeof *together);
  check_jobs(alone, THREADS * SESSIONS);
  check_jobs(together, THREADS * SESSIONS);
  for (int i = 0; i < THREADS * SESSIONS; i++) CHECK(same_sums(&alone[i].sum, &together[i].sum));
  CHECK_EQ(cache_held(s.ctx), 0);
  attend_tokenizer_free(tokenizer);
  close_model(&s);
}

TEST(sessions_of_a_story_model) { check_model("stories260K", NULL); }
TEST(sessions_with_learned_positions) { check_model("gpt2", NULL); }
TEST(sessions_of_an_encoder_decoder) { check_model("t5", NULL); }
TEST(sessions_with_a_linear_form) {
  check_model("llama-gqa", &(attend_form){.kind = ATTEND_FAVOR, .features = 32});
}

/* The context itself, by one of the threads. */
static void attend_once(job *j, const char *engine) {
  attend_context *ctx = j->s->ctx;
  attend_tensors t = make_tensors(ctx, "softmax:b1h2n40d16:causal", 3);
  attend_plan *plan;
  t.desc.engine = engine;
  EXPECT(j, !attend_plan_create(ctx, &t.desc, &plan));
  EXPECT(j, !attend_forward(plan, t.q, t.k, t.v, t.o, t.lse));
  EXPECT(j, attend_forward(plan, (attend_view){0}, t.k, t.v, t.o, t.lse) == ATTEND_INVALID);
  attend_plan_free(plan);
  attend_tensors_free(ctx, &t);
}

/* Made and freed while others are. */
static void *come_and_go(void *user) {
  job *j = user;
  for (int i = 0; i < 20; i++) {
    if (!j->number) attend_once(j, i % 2 ? "definition" : NULL);
    create(j);
    prefill(j);
    decode(j);
    fail_on_purpose(j);
    attend_session_free(j->session);
  }
  return NULL;
}

TEST(sessions_come_and_go) {
  ledger memory = {0};
  subject s = open_path(open_context(NULL, 2, &memory), model_path("llama-gqa", NULL), NULL);
  long live = memory.live;
  job j[THREADS];
  for (int i = 0; i < THREADS; i++) j[i] = (job){.s = &s, .number = i};
  run_threads(come_and_go, j, sizeof *j);
  check_jobs(j, THREADS);
  CHECK_EQ(cache_held(s.ctx), 0);
  CHECK_EQ(memory.live, live);
  close_model(&s);
}

/* ---- the limit of caches ------------------------------------------------------------- */

static void *take_late(size_t bytes, void *user) {
  sched_yield(); /* let others decide meanwhile */
  return ledger_take(bytes, user);
}

static void *fill_caches(void *user) {
  job *j = user;
  attend_status status = ATTEND_OK;
  create(j);
  for (int i = 0; i < 400 && !status; i++) {
    int32_t *ids = random_ids(j->s->config, 1, BATCH * ROWS);
    status = attend_session_extend(j->session, BATCH, ROWS, ids, NULL);
    free(ids);
  }
  EXPECT(j, status == ATTEND_NO_MEMORY);
  EXPECT(j, strstr(attend_session_message(j->session), "cache_limit"));
  return NULL;
}

TEST(threads_do_not_pass_the_limit_of_caches_together) {
  enum { LIMIT = 1 << 20 };
  ledger memory = {0};
  attend_context_options o = {ATTEND_INIT(attend_context_options), .threads = 1,
                              .cache_limit = LIMIT};
  o.allocator = (attend_allocator){take_late, ledger_give, &memory};
  attend_context *ctx;
  OK(ctx, attend_context_create(&o, &ctx));
  subject s = open_path(ctx, model_path("llama-gqa", NULL), NULL);
  job j[THREADS];
  for (int round = 0; round < 8; round++) {
    for (int i = 0; i < THREADS; i++) j[i] = (job){.s = &s, .number = 0};
    run_threads(fill_caches, j, sizeof *j);
    check_jobs(j, THREADS);
    size_t held = 0;
    for (int i = 0; i < THREADS; i++) held += attend_session_cache_bytes(j[i].session);
    CHECK(held <= LIMIT);
    CHECK_EQ(held, cache_held(ctx));
    for (int i = 0; i < THREADS; i++) attend_session_free(j[i].session);
  }
  CHECK_EQ(cache_held(ctx), 0);
  close_model(&s);
  CHECK_EQ(memory.live, 0);
}

/* ---- readings ---------------------------------------------------------------------------- */

static subject open_reader(void) {
  static const attend_form elu = {.kind = ATTEND_ELU};
  return open_model("bart", NULL, 2,
                    &(attend_model_options){ATTEND_INIT(attend_model_options), .form = &elu});
}

static const attend_reading *shared; /* recalled by all threads */

static void recall(job *j, const attend_reading *x) {
  const int32_t ids[BATCH] = {2, 2};
  create(j);
  EXPECT(j, !attend_session_recall(j->session, x));
  EXPECT(j, !attend_session_extend(j->session, 1, 1, ids, NULL));
  EXPECT(j, !attend_session_reorder(j->session, (const int32_t[]){0, 0}));
  add_next(j);
  attend_session_free(j->session);
}

static void *read_text(void *user) {
  job *j = user;
  enum { LONG = 150 };
  attend_reading_options o = {ATTEND_INIT(attend_reading_options), .rows = 32,
                              .threads = threads_of(j)};
  attend_reading *x;
  int32_t *ids = random_ids(j->s->config, (uint64_t)j->number, LONG);
  char part[64];
  EXPECT(j, !attend_reading_create(j->s->model, &o, &x));
  ids[LONG - 1] = j->s->config->vocab + j->number;
  EXPECT(j, attend_reading_begin(x, LONG, ids) == ATTEND_INVALID);
  snprintf(part, sizeof part, " is %d:", ids[LONG - 1]);
  EXPECT(j, strstr(attend_reading_message(x), part));
  EXPECT(j, !attend_reading_begin(x, LONG - 1, ids));
  while (!attend_reading_done(x) && !j->line) EXPECT(j, !attend_reading_next(x));
  recall(j, x);
  if (shared) recall(j, shared);
  attend_reading_free(x);
  free(ids);
  return NULL;
}

TEST(readings_on_many_threads) {
  subject s = open_reader();
  attend_reading *x;
  int32_t *ids = random_ids(s.config, 99, 90);
  OK(s.ctx, attend_reading_create(s.model, NULL, &x));
  OK(s.ctx, attend_reading_begin(x, 90, ids));
  while (!attend_reading_done(x) && !attend_reading_next(x)) continue;
  shared = x;
  job alone[THREADS], together[THREADS];
  for (int i = 0; i < THREADS; i++) {
    alone[i] = together[i] = (job){.s = &s, .number = i};
    read_text(&alone[i]);
  }
  run_threads(read_text, together, sizeof *together);
  check_jobs(alone, THREADS);
  check_jobs(together, THREADS);
  for (int i = 0; i < THREADS; i++) CHECK(same_sums(&alone[i].sum, &together[i].sum));
  attend_reading_free(x);
  CHECK_EQ(cache_held(s.ctx), 0);
  free(ids);
  close_model(&s);
}

/* ---- tokenizers ---------------------------------------------------------------------------- */

/* Cut by an expression that PCRE2 compiles, with special tokens around. */
static const char by_regex[] =
    "{\"model\":{\"type\":\"WordPiece\",\"unk_token\":\"[UNK]\",\"vocab\":"
    "{\"[UNK]\":0,\"[CLS]\":1,\"[SEP]\":2,\"a\":3,\"b\":4,\"##a\":5,\"##b\":6,"
    "\"1\":7,\"##1\":8,\" \":9}},\"pre_tokenizer\":{\"type\":\"Split\","
    "\"pattern\":{\"Regex\":\"[ab]+|\\\\d| +\"},\"behavior\":\"Isolated\","
    "\"invert\":false},\"post_processor\":{\"type\":\"BertProcessing\","
    "\"sep\":[\"[SEP]\",2],\"cls\":[\"[CLS]\",1]}}";

static attend_encoding *encoding_of(job *j) {
  attend_encoding *e = NULL;
  EXPECT(j, !attend_encoding_create(j->tokenizer, &e));
  return e;
}

static void encode(job *j, attend_encoding *e, attend_detokenizer *d) {
  char text[256];
  const char *decoded;
  size_t length;
  for (int i = 0; i < 20; i++) {
    int n = snprintf(text, sizeof text, "ab %d baab \xc3\xa9t\xc3\xa9 %d, once upon a time 1 aaa",
                     i, j->number);
    EXPECT(j, !attend_encode(e, text, (size_t)n, NULL));
    attend_digest_add(&j->sum, e->id, e->count * sizeof *e->id);
    attend_digest_add(&j->sum, e->start, e->count * sizeof *e->start);
    EXPECT(j, !attend_decode(d, e->id, e->count, &decoded, &length));
    attend_digest_add(&j->sum, decoded, length);
  }
}

/* Longer than the call may be, or no room for the special tokens. */
static void fail_to_encode(job *j, attend_encoding *e) {
  const attend_encode_options one = {ATTEND_INIT(attend_encode_options), .max_length = 1};
  size_t long_text = (size_t)INT32_MAX + (size_t)j->number;
  char part[64];
  EXPECT(j, !attend_encode(e, "a", 1, NULL));
  if (e->count > 2 && j->number % 2) {
    EXPECT(j, attend_encode(e, "a", 1, &one) == ATTEND_INVALID);
    EXPECT(j, strstr(attend_encoding_message(e), "a max_length of 1 leaves"));
  }
  EXPECT(j, attend_encode(e, "", long_text, NULL) == ATTEND_INVALID);
  snprintf(part, sizeof part, "the text has %zu bytes", long_text);
  EXPECT(j, strstr(attend_encoding_message(e), part));
}

static void fail_to_decode(job *j, attend_detokenizer *d, int i) {
  int bad = attend_tokenizer_count(j->tokenizer) + 1000 * j->number + i;
  const char *decoded;
  size_t length;
  char part[64];
  EXPECT(j, attend_detokenizer_push(d, bad, &decoded, &length) == ATTEND_INVALID);
  snprintf(part, sizeof part, "the id %d has no piece", bad);
  EXPECT(j, strstr(attend_detokenizer_message(d), part));
}

static void *use_tokenizer(void *user) {
  job *j = user;
  attend_encoding *e = encoding_of(j);
  attend_detokenizer *d = NULL;
  EXPECT(j, !attend_detokenizer_create(j->tokenizer, j->number % 2, &d));
  encode(j, e, d);
  for (int i = 0; i < 200; i++) {
    fail_to_encode(j, e);
    fail_to_decode(j, d, i);
  }
  encode(j, e, d);
  attend_detokenizer_free(d);
  attend_encoding_free(e);
  return NULL;
}

static void check_tokenizer(const char *path) {
  attend_context *ctx = open_context(NULL, 2, NULL);
  attend_tokenizer *t = load_path(ctx, path);
  job alone[THREADS], together[THREADS];
  for (int i = 0; i < THREADS; i++) {
    alone[i] = together[i] = (job){.tokenizer = t, .number = i};
    use_tokenizer(&alone[i]);
  }
  run_threads(use_tokenizer, together, sizeof *together);
  check_jobs(alone, THREADS);
  check_jobs(together, THREADS);
  for (int i = 0; i < THREADS; i++) CHECK(same_sums(&alone[i].sum, &together[i].sum));
  attend_tokenizer_free(t);
  attend_context_free(ctx);
}

TEST(tokenizers_on_many_threads) {
  static const char *const names[] = {"bert-tokenizer.json", "gpt2-vocab.json", "llama.model",
                                      "unigram.model", "tok512.bin"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) check_tokenizer(token_path(names[i]));
}

TEST(a_regular_expression_on_many_threads) {
  write_in_folder("tokenizer.json", by_regex, strlen(by_regex));
  check_tokenizer(in_folder("tokenizer.json"));
  unlink(in_folder("tokenizer.json"));
  remove_folder();
}
