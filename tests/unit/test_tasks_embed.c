/* attend/embed.h: vectors are pooled rows of the session, in a batch and alone the same
 * bits; what a folder says; stopping; refusals; allocations that fail. */
#include "attend/embed.h"
#include "task_models.h"

static attend_embedder *embedder_of(const task_model *t, attend_embed_options o) {
  attend_embedder *e;
  o.size = sizeof o;
  if (attend_embedder_create(t->s.model, t->tokenizer, &o, &e)) {
    printf("no embedder: %s\n", attend_message(t->s.ctx));
    exit(1);
  }
  return e;
}

static attend_status embed_one(attend_embedder *e, const char *text, float *vector) {
  return attend_embed_texts(e, 1, &text, NULL, vector, NULL);
}

enum { WIDTH = 48, TOKENS = 5 };

/* [CLS] the cat sat [SEP], as the session gives it. */
static const float *rows_of_text(const task_model *t, attend_session *session, int *ld) {
  static const int32_t ids[TOKENS] = {2, 5, 7, 9, 3};
  OK(t->s.ctx, attend_session_encode(session, 1, TOKENS, ids, NULL, NULL));
  return attend_session_hidden(session, ld);
}

static float pooled(attend_pooling pooling, const float *rows, int ld, int i) {
  double sum = 0;
  float max = rows[i];
  for (int r = 0; r < TOKENS; r++) {
    sum += (double)rows[r * ld + i];
    max = fmaxf(max, rows[r * ld + i]);
  }
  if (pooling == ATTEND_POOLING_CLS) return rows[i];
  if (pooling == ATTEND_POOLING_LAST) return rows[(TOKENS - 1) * ld + i];
  return pooling == ATTEND_POOLING_MAX ? max : (float)(sum / TOKENS);
}

TEST(poolings) {
  static const char *const names[] = {"default", "mean", "cls", "last", "max"};
  task_model t;
  int ld;
  open_task(&t, "bert");
  attend_session *session = open_run(&t.s, 1, 0);
  const float *rows = rows_of_text(&t, session, &ld);
  for (int p = 0; p < 5; p++) {
    attend_pooling pooling = (attend_pooling)p;
    CHECK(!strcmp(attend_pooling_name(pooling), names[p]));
    CHECK_EQ(attend_pooling_find(names[p]), p);
    attend_embedder *e =
        embedder_of(&t, (attend_embed_options){ATTEND_INIT(attend_embed_options),
                                               .pooling = pooling, .no_normalize = 1});
    float vector[WIDTH];
    CHECK_EQ(attend_embedder_width(e), WIDTH);
    CHECK_EQ(attend_embedder_pooling(e), p ? p : 1);
    OK(t.s.ctx, embed_one(e, "the cat sat", vector));
    for (int i = 0; i < WIDTH; i++) CHECK(vector[i] == pooled(pooling, rows, ld, i));
    attend_embedder_free(e);
  }
  CHECK(!attend_pooling_name((attend_pooling)5));
  CHECK_EQ(attend_pooling_find("median"), ATTEND_POOLING_DEFAULT);
  attend_session_free(session);
  close_task(&t);
}

static const char *const texts[] = {
    "the cat sat on the mat", "",      "a dog",
    "the cats , the dogs",    "a dog", "the cat sat on the mat . the dog sat on the cat ."};
enum { TEXTS = sizeof texts / sizeof *texts };

static void check_alone(const char *model) {
  task_model t;
  open_task(&t, model);
  attend_embedder *e = embedder_of(&t, (attend_embed_options){ATTEND_INIT(attend_embed_options)});
  size_t width = (size_t)attend_embedder_width(e);
  float *all = zeroed_block(TEXTS * width, sizeof *all);
  float *one = zeroed_block(width, sizeof *one);
  int32_t tokens[TEXTS];
  OK(t.s.ctx, attend_embed_texts(e, TEXTS, texts, NULL, all, tokens));
  for (int i = 0; i < TEXTS; i++) {
    const float *vector = all + (size_t)i * width;
    attend_embedder *alone = embedder_of(
        &t, (attend_embed_options){ATTEND_INIT(attend_embed_options), .threads = 1 + i % 2});
    OK(t.s.ctx, embed_one(alone, texts[i], one));
    CHECK(!memcmp(one, vector, width * sizeof *one));
    double norm = 0;
    for (size_t j = 0; j < width; j++) norm += (double)vector[j] * (double)vector[j];
    CHECK_NEAR(norm, tokens[i] ? 1 : 0, 1e-6);
    CHECK(tokens[i] >= 0);
    attend_embedder_free(alone);
  }
  double same = attend_cosine(all + 2 * width, all + 4 * width, (int)width);
  CHECK_NEAR(same, 1, 1e-12);
  CHECK_EQ(attend_embedder_truncated(e), 0);
  free(all);
  free(one);
  attend_embedder_free(e);
  close_task(&t);
}

TEST(in_a_batch_and_alone_the_same_bits) {
  check_alone("bert");
  check_alone("gpt2"); /* has no token for an empty text: zeros */
  check_alone("t5");
}

TEST(long_texts_are_truncated) {
  task_model t;
  float a[WIDTH], b[WIDTH];
  open_task(&t, "bert");
  attend_embedder *e =
      embedder_of(&t, (attend_embed_options){ATTEND_INIT(attend_embed_options), .max_length = 4});
  OK(t.s.ctx, embed_one(e, "the cat sat on", a));
  OK(t.s.ctx, embed_one(e, "the cat", b));
  CHECK(!memcmp(a, b, sizeof a));
  CHECK_EQ(attend_embedder_truncated(e), 1);
  CHECK_EQ(attend_embedder_max_length(e), 4);
  attend_embedder_free(e);
  e = embedder_of(&t, (attend_embed_options){ATTEND_INIT(attend_embed_options)});
  CHECK_EQ(attend_embedder_max_length(e), 40);
  attend_embedder_free(e);
  close_task(&t);
}

static int stop_at_once(double done, const char *what, void *user) {
  (void)what;
  *(double *)user = done;
  return 1;
}

/* Vectors of the first batch, the longest texts, are there. */
TEST(stopping) {
  enum { MANY = 300 };
  task_model t;
  double done = 0;
  int computed = 0;
  const char *many[MANY];
  int32_t tokens[MANY];
  float *vectors = zeroed_block(MANY * WIDTH, sizeof *vectors);
  for (int i = 0; i < MANY; i++) many[i] = texts[i % TEXTS];
  open_task(&t, "bert");
  attend_embedder *e =
      embedder_of(&t, (attend_embed_options){ATTEND_INIT(attend_embed_options),
                                             .progress = stop_at_once, .user = &done});
  CHECK_EQ(attend_embed_texts(e, MANY, many, NULL, vectors, tokens), ATTEND_STOPPED);
  CHECK_SAYS(attend_embedder_message(e), "stopped after");
  CHECK(done > 0 && done < 1);
  for (int i = 0; i < MANY; i++) {
    computed += tokens[i] >= 0;
    CHECK((tokens[i] >= 0) == (vectors[i * WIDTH] != 0));
  }
  CHECK(computed > 0 && computed < MANY);
  OK(t.s.ctx, embed_one(e, "a dog", vectors)); /* one batch is complete */
  CHECK(done == 1);
  free(vectors);
  attend_embedder_free(e);
  close_task(&t);
}

/* ---- folders ------------------------------------------------------------------------ */

__attribute__((destructor)) static void leave_nothing(void) { remove_folder(); }

static void put_file(const char *name, const char *text) {
  mkdir(in_folder("1_Pooling"), 0700);
  write_in_folder(name, text, strlen(text));
}

static void remove_files(void) {
  remove(in_folder("1_Pooling/config.json"));
  remove(in_folder("1_Pooling"));
  remove(in_folder("modules.json"));
  remove(in_folder("sentence_bert_config.json"));
}

typedef struct {
  const char *file, *text;
  attend_pooling chosen;
  const char *failure; /* NULL: none */
  attend_pooling pooling;
  int max_length;
} setting;

static void check_setting(const task_model *t, const setting *s) {
  attend_embed_options o = {ATTEND_INIT(attend_embed_options)};
  attend_embedder *e;
  put_file(s->file, s->text);
  o.folder = models_folder();
  o.pooling = s->chosen;
  attend_status status = attend_embedder_create(t->s.model, t->tokenizer, &o, &e);
  CHECK_EQ(status != ATTEND_OK, s->failure != NULL);
  if (status && s->failure) CHECK_SAYS(attend_message(t->s.ctx), s->failure);
  if (!status) CHECK_EQ(attend_embedder_pooling(e), s->pooling);
  if (!status) CHECK_EQ(attend_embedder_max_length(e), s->max_length);
  attend_embedder_free(e);
  remove_files();
}

TEST(a_folder_says_how_to_pool) {
  static const char config[] = "1_Pooling/config.json", length[] = "sentence_bert_config.json";
  const attend_pooling none = ATTEND_POOLING_DEFAULT, mean = ATTEND_POOLING_MEAN,
                       cls = ATTEND_POOLING_CLS, last = ATTEND_POOLING_LAST;
  const setting settings[] = {
      {config, "{\"pooling_mode_cls_token\": true}", none, NULL, cls, 40},
      {config, "{\"pooling_mode\": \"lasttoken\"}", none, NULL, last, 40},
      {config, "{\"pooling_mode_cls_token\": true}", mean, NULL, mean, 40},
      {config, "{}", none, NULL, mean, 40},
      {config, "{\"pooling_mode_cls_token\": true, \"pooling_mode_max_tokens\": true}", none,
       "several at once", none, 0},
      {config, "{\"pooling_mode\": \"median\"}", none, "median", none, 0},
      {config, "{\"pooling_mode_weightedmean_tokens\": true}", none, "weightedmean", none, 0},
      {config, "[]", none, "expected an object", none, 0},
      {"modules.json", "[{\"type\": \"x.Dense\", \"path\": \"2\"}]", none, "the step x.Dense", none,
       0},
      {"modules.json", "[{\"type\": \"x.Dense\", \"path\": \"2\"}]", mean, NULL, mean, 40},
      {"modules.json", "[{\"type\": \"x.Pooling\", \"path\": \"../x\"}]", none,
       "without a type and a path", none, 0},
      {"modules.json", "{", none, "modules.json", none, 0},
      {length, "{\"max_seq_length\": 7}", none, NULL, mean, 7},
      {length, "{\"max_seq_length\": 70}", none, NULL, mean, 40},
      {length, "{\"max_seq_length\": 0}", none, "max_seq_length", none, 0}};
  task_model t;
  open_task(&t, "bert");
  for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) check_setting(&t, &settings[i]);
  close_task(&t);
}

/* ---- failures ----------------------------------------------------------------------- */

static void refuse(attend_embed_options o, bool tokenizer, const char *why) {
  task_model t;
  attend_embedder *e;
  open_task(&t, "bert");
  CHECK_EQ(attend_embedder_create(t.s.model, tokenizer ? t.tokenizer : NULL, &o, &e),
           ATTEND_INVALID);
  CHECK(!e);
  CHECK_SAYS(attend_message(t.s.ctx), why);
  close_task(&t);
}

TEST(what_is_refused) {
  attend_embed_options o = {ATTEND_INIT(attend_embed_options)};
  refuse(o, false, "needs a tokenizer");
  o.max_length = 41;
  refuse(o, true, "more than the 40 positions");
  o.max_length = -1;
  refuse(o, true, "choose 0 or more");
  o.pooling = (attend_pooling)9;
  refuse(o, true, "pooling 9 does not exist");
  o.size = 0;
  refuse(o, true, "ATTEND_INIT");

  task_model t;
  float vectors[2 * WIDTH];
  const char *some[] = {"a", NULL};
  open_task(&t, "bert");
  attend_embedder *e = embedder_of(&t, (attend_embed_options){ATTEND_INIT(attend_embed_options)});
  CHECK_EQ(attend_embed_texts(e, 2, some, NULL, vectors, NULL), ATTEND_INVALID);
  CHECK_SAYS(attend_embedder_message(e), "text 1 is NULL");
  CHECK_EQ(attend_embed_texts(e, -1, some, NULL, vectors, NULL), ATTEND_INVALID);
  CHECK_EQ(attend_embed_texts(e, 1, some, NULL, NULL, NULL), ATTEND_INVALID);
  OK(t.s.ctx, attend_embed_texts(e, 0, NULL, NULL, NULL, NULL));
  OK(t.s.ctx, embed_one(e, "a", vectors));
  attend_embedder_free(e);
  close_task(&t);
}

static attend_status use(task_model *t) {
  attend_embedder *e;
  float vectors[TEXTS * WIDTH];
  attend_embed_options o = {ATTEND_INIT(attend_embed_options)};
  o.folder = models_folder();
  attend_status status = attend_embedder_create(t->s.model, t->tokenizer, &o, &e);
  if (!status) status = attend_embed_texts(e, TEXTS, texts, NULL, vectors, NULL);
  if (status && e) CHECK_SAYS(attend_embedder_message(e), "no memory");
  attend_embedder_free(e);
  return status;
}

TEST(allocations_that_fail) {
  task_model t;
  open_task(&t, "bert");
  put_file("1_Pooling/config.json", "{\"pooling_mode_cls_token\": true}");
  fail_allocations(&t, use);
  remove_files();
  close_task(&t);
}
