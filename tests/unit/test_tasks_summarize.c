/* attend/summarize.h: the ids that transformers writes and the program prints; the
 * same from a C caller; stopping and continuing; journals of processes that ended;
 * sources; bad options; every allocation that fails. */
#include <dirent.h>

#include "attend/summarize.h"
#include "golden_models.h"

/* The row of the golden models, as words of the tokenizer below. */
static const char row[] = "w203 w88 w105 w185 w117 w36 w165 w186 w108 w7 w52";

/* ---- a model with a tokenizer ------------------------------------------------------ */

typedef struct {
  char path[64];
  ledger memory;
  subject m;
} world;

static void link_file(const char *from, const char *directory, const char *name) {
  char to[128], *whole = realpath(model_path(from, name), NULL);
  snprintf(to, sizeof to, "%s/%s", directory, name);
  if (!whole || symlink(whole, to)) CHECK_FAIL("%s cannot be made", to);
  free(whole);
}

/* Words w3 .. w210 are their ids; nothing is put around a text. */
static void write_tokenizer(const char *directory) {
  char path[128];
  snprintf(path, sizeof path, "%s/tokenizer.json", directory);
  FILE *f = fopen(path, "w");
  if (!f) exit(1);
  fputs(
      "{\"version\": \"1.0\", \"normalizer\": null, \"added_tokens\": ["
      "{\"id\": 1, \"content\": \"<1>\", \"special\": true}],"
      "\"pre_tokenizer\": {\"type\": \"Whitespace\"}, \"post_processor\": null,"
      "\"decoder\": {\"type\": \"WordPiece\", \"prefix\": \"##\", \"cleanup\": "
      "true}, \"model\": {\"type\": \"WordPiece\", \"unk_token\": \"w0\","
      "\"continuing_subword_prefix\": \"##\", \"max_input_chars_per_word\": "
      "100, \"vocab\": {\"w0\": 0, \"<1>\": 1, \"w2\": 2",
      f);
  for (int i = 3; i <= 210; i++) fprintf(f, ", \"w%d\": %d", i, i);
  fputs("}}}\n", f);
  fclose(f);
}

static world open_world(const char *model) {
  world w = {.path = "/tmp/attend-summarize-XXXXXX"};
  if (!mkdtemp(w.path)) exit(1);
  link_file(model, w.path, "config.json");
  link_file(model, w.path, "model.safetensors");
  write_tokenizer(w.path);
  return w;
}

/* The ledger is counted by the context: it must not move afterwards. */
static void open_in(world *w) {
  w->m = open_path(open_context(NULL, 2, &w->memory), w->path, NULL);
}

static void remove_all(const char *path) {
  DIR *d = opendir(path);
  char inside[600];
  for (struct dirent *e; d && (e = readdir(d));) {
    if (e->d_name[0] == '.' && (!e->d_name[1] || e->d_name[1] == '.')) continue;
    snprintf(inside, sizeof inside, "%s/%s", path, e->d_name);
    if (e->d_type == DT_DIR)
      remove_all(inside);
    else
      unlink(inside);
  }
  if (d) closedir(d);
  rmdir(path);
}

static void close_world(world *w) {
  close_model(&w->m);
  CHECK_EQ(w->memory.live, 0);
  remove_all(w->path);
}

static attend_generate_options generate_options(int beams, int max_new) {
  attend_generate_options o = {ATTEND_INIT(attend_generate_options)};
  o.beams = beams;
  o.max_new = max_new;
  return o;
}

static attend_summarizer *open_summarizer(const world *w, const attend_generate_options *how) {
  attend_summarize_options o = {ATTEND_INIT(attend_summarize_options)};
  attend_summarizer *s = NULL;
  o.generate = how;
  o.given = ATTEND_SUMMARY_BEAMS | ATTEND_SUMMARY_MAX_NEW;
  OK(w->m.ctx, attend_summarizer_create(w->m.model, w->path, &o, &s));
  if (!s) exit(1);
  return s;
}

static attend_document document_of(const char *text, int number) {
  return (attend_document){text, strlen(text), number};
}

/* ---- short documents ----------------------------------------------------------------- */

/* What tests/cli/summarize.sh has of the program, and transformers. */
TEST(ids_of_transformers) {
  static const struct {
    const char *model;
    int beams, count;
    int32_t ids[15];
  } cases[] = {{"bart", 4, 10, {31, 31, 31, 31, 31, 31, 31, 31, 31, 31}},
               {"t5", 1, 15, {166, 15, 201, 91, 116, 31, 7, 31, 7, 31, 31, 31, 31, 31, 31}},
               {"t5", 4, 10, {166, 15, 201, 91, 116, 91, 31, 7, 31, 7}},
               {"t5-gated", 4, 10, {9, 9, 107, 115, 115, 9, 152, 115, 115, 115}}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    world w = open_world(cases[i].model);
    open_in(&w);
    attend_generate_options how = generate_options(cases[i].beams, cases[i].count);
    attend_summarizer *s = open_summarizer(&w, &how);
    attend_document d[] = {document_of(" \n", 0), document_of(row, 1)};
    attend_summaries *all = NULL;
    OK(w.m.ctx, attend_summarize(s, 2, d, NULL, &all));
    const attend_summarized *blank = attend_summaries_get(all, 0);
    const attend_summarized *one = attend_summaries_get(all, 1);
    CHECK(blank->done && !blank->tokens && !blank->count);
    CHECK(one->done && one->tokens == 11 && one->count == 1 && !one->cut);
    CHECK_EQ(one->read, strlen(row));
    CHECK_EQ(one->best[0].count, cases[i].count);
    CHECK(!memcmp(one->best[0].ids, cases[i].ids, (size_t)cases[i].count * sizeof(int32_t)));
    CHECK(!attend_summaries_get(all, 2) && !attend_summaries_get(all, -1));
    attend_summaries_free(all);
    attend_summarizer_free(s);
    close_world(&w);
  }
}

typedef struct {
  int calls, stop_after; /* 0: never */
  int done;
  double last;
} counter;

static int count_progress(double done, const char *what, void *user) {
  (void)what;
  counter *c = user;
  CHECK(done >= c->last && done <= 1);
  c->last = done;
  return ++c->calls == c->stop_after;
}

static void count_done(int document, const attend_summarized *one, void *user) {
  counter *c = user;
  CHECK(document >= 0 && one->done);
  c->done++;
}

/* A stopped call keeps the documents that were done. */
TEST(stopping_keeps_what_is_done) {
  world w = open_world("t5");
  open_in(&w);
  attend_generate_options how = generate_options(1, 4);
  how.batch = 1;
  attend_summarizer *s = open_summarizer(&w, &how);
  attend_document d[] = {document_of(row, 0), document_of("w5", 1), document_of("w5 w6 w7", 2)};
  counter c = {.stop_after = 5};
  attend_summarize_callbacks callbacks = {ATTEND_INIT(attend_summarize_callbacks)};
  callbacks.progress = count_progress;
  callbacks.on_done = count_done;
  callbacks.user = &c;
  attend_summaries *all = NULL, *whole = NULL;
  CHECK_EQ(attend_summarize(s, 3, d, &callbacks, &all), ATTEND_STOPPED);
  CHECK_EQ(c.done, 1); /* the shortest */
  CHECK(all && attend_summaries_get(all, 1)->done);
  CHECK(all && !attend_summaries_get(all, 0)->done);
  OK(w.m.ctx, attend_summarize(s, 3, d, NULL, &whole));
  CHECK(!strcmp(attend_summaries_get(all, 1)->best[0].text,
                attend_summaries_get(whole, 1)->best[0].text));
  attend_summaries_free(all);
  attend_summaries_free(whole);
  attend_summarizer_free(s);
  close_world(&w);
}

TEST(sources_are_words_of_the_document) {
  world w = open_world("t5");
  open_in(&w);
  attend_generate_options how = generate_options(4, 4);
  attend_summarizer *s = open_summarizer(&w, &how);
  attend_document d = document_of(row, 0);
  attend_summaries *all = NULL;
  attend_sources *sources = NULL;
  OK(w.m.ctx, attend_summarize(s, 1, &d, NULL, &all));
  OK(w.m.ctx, attend_sources_create(s, all, 0, 0, 2, &sources));
  const attend_sourced_word *word = attend_sources_get(sources, 0);
  CHECK(word && !strcmp(word->word, "w166") && word->count == 2);
  CHECK(word->source[0].weight >= word->source[1].weight);
  CHECK(strstr(row, word->source[0].word) && word->source[0].weight < 1);
  CHECK(!attend_sources_get(sources, 4));
  attend_sources_free(sources);
  CHECK_EQ(attend_sources_create(s, all, 0, 1, 2, &sources), ATTEND_INVALID);
  CHECK_SAYS(attend_message(w.m.ctx), "no summary 1");
  CHECK_EQ(attend_sources_create(s, all, 0, 0, 17, &sources), ATTEND_INVALID);
  attend_summaries_free(all);
  attend_summarizer_free(s);
  close_world(&w);
}

/* ---- long documents ------------------------------------------------------------------ */

enum { WORDS = 3000 };

static char *long_text(void) {
  char *text = zeroed_block(WORDS * 8 + 16, 1);
  size_t at = 0;
  unsigned state = 5;
  for (int i = 0; i < WORDS; i++) {
    state = state * 1103515245u + 12345u;
    at += (size_t)sprintf(text + at, "w%u%s", 3 + (state >> 16) % 207,
                          (state >> 8) % 9 == 0 ? ". The " : " ");
  }
  sprintf(text + at, "w7.");
  return text;
}

static const char *top_text(const attend_long_summary *x) {
  const attend_long_state state = *attend_long_summary_state(x);
  const attend_summary_node *n = attend_long_summary_node(x, state.levels - 1, 0);
  return n && n->n_best ? n->best[0].text : "";
}

/* Nodes cover the text in order, each what its children cover. */
static void check_tree(const attend_long_summary *x) {
  int levels = attend_long_summary_state(x)->levels;
  CHECK(levels > 1 && attend_long_summary_count(x, 0) > 5);
  CHECK_EQ(attend_long_summary_count(x, levels - 1), 1);
  for (int level = 0; level < levels; level++) {
    size_t word = 0;
    const attend_summary_node *n;
    for (int i = 0; (n = attend_long_summary_node(x, level, i)); i++) {
      CHECK_EQ(n->first_word, word + 1);
      CHECK(n->n_best == 1 && *n->best[0].text);
      word = n->last_word;
      if (level) CHECK_EQ(n->start, attend_long_summary_node(x, level - 1, n->first)->start);
    }
  }
}

static attend_long_summary *open_long(attend_summarizer *s, const world *w, const char *text,
                                      const attend_long_options *o) {
  attend_document d = document_of(text, 0);
  attend_long_summary *x = NULL;
  OK(w->m.ctx, attend_long_summary_create(s, &d, o, &x));
  if (!x) exit(1);
  return x;
}

/* Stopped again and again, with and without a new process's handle, in both modes:
 * the same summary, and nothing in the journal is computed twice. */
static void check_resuming(const char *model, attend_long_mode mode, const char *work) {
  world w = open_world(model);
  char directory[128], *text = long_text();
  open_in(&w);
  attend_generate_options how = generate_options(2, 6);
  how.batch = 2; /* one document: what a stop leaves is done again */
  attend_summarizer *s = open_summarizer(&w, &how);
  attend_long_options o = {ATTEND_INIT(attend_long_options)};
  snprintf(directory, sizeof directory, "%s/work", w.path);
  o.mode = mode;
  attend_long_summary *whole = open_long(s, &w, text, &o);
  OK(w.m.ctx, attend_long_summary_write(whole));
  if (mode == ATTEND_LONG_CHUNKS) check_tree(whole);
  counter c = {.stop_after = 5};
  o.progress = count_progress;
  o.user = &c;
  o.work = work ? directory : NULL;
  attend_long_summary *x = open_long(s, &w, text, &o);
  attend_status status = attend_long_summary_write(x);
  CHECK_EQ(status, ATTEND_STOPPED);
  int stops = 0, written = 0;
  for (; status == ATTEND_STOPPED && stops < 10000; stops++) {
    c = (counter){.stop_after = 8};
    if (work) { /* as after a kill: only the work directory is left */
      written = attend_long_summary_state(x)->written;
      attend_long_summary_free(x);
      x = open_long(s, &w, text, &o);
    }
    status = attend_long_summary_write(x);
  }
  CHECK(stops > 1 && !status);
  CHECK(!strcmp(top_text(x), top_text(whole)));
  if (work && mode == ATTEND_LONG_CHUNKS) CHECK(attend_long_summary_state(x)->journaled >= written);
  attend_long_summary_free(x);
  attend_long_summary_free(whole);
  attend_summarizer_free(s);
  free(text);
  close_world(&w);
}

TEST(chunks_continue) { check_resuming("t5", ATTEND_LONG_CHUNKS, NULL); }
TEST(chunks_resume) { check_resuming("t5", ATTEND_LONG_CHUNKS, "work"); }
TEST(linear_continues) { check_resuming("bart", ATTEND_LONG_LINEAR, NULL); }
TEST(linear_resumes) { check_resuming("bart", ATTEND_LONG_LINEAR, "work"); }

/* A journal has one writer, and one model and set of options. */
TEST(journals) {
  world w = open_world("t5");
  char directory[128], *text = long_text();
  open_in(&w);
  attend_generate_options how = generate_options(1, 3);
  attend_summarizer *s = open_summarizer(&w, &how);
  attend_long_options o = {ATTEND_INIT(attend_long_options)};
  snprintf(directory, sizeof directory, "%s/work", w.path);
  o.work = directory;
  attend_long_summary *x = open_long(s, &w, text, &o), *other = NULL;
  attend_document d = document_of(text, 0);
  CHECK_EQ(attend_long_summary_create(s, &d, &o, &other), ATTEND_IO);
  CHECK_SAYS(attend_message(w.m.ctx), "in use by another process");
  attend_long_summary_free(x);
  how.max_new = 2;
  attend_summarizer *shorter = open_summarizer(&w, &how);
  CHECK_EQ(attend_long_summary_create(shorter, &d, &o, &other), ATTEND_INVALID);
  CHECK_SAYS(attend_message(w.m.ctx), "other options");
  CHECK(!other);
  attend_summarizer_free(shorter);
  attend_summarizer_free(s);
  free(text);
  close_world(&w);
}

/* ---- what is refused ----------------------------------------------------------------- */

TEST(bad_options) {
  world w = open_world("t5");
  open_in(&w);
  attend_context *ctx = w.m.ctx;
  attend_summarizer *s = NULL;
  attend_summarize_options o = {.size = 0, .max_words = 3};
  CHECK_EQ(attend_summarizer_create(w.m.model, w.path, &o, &s), ATTEND_INVALID);
  CHECK_SAYS(attend_message(ctx), "ATTEND_INIT");
  o.size = sizeof o;
  o.min_words = 4;
  CHECK_EQ(attend_summarizer_create(w.m.model, w.path, &o, &s), ATTEND_INVALID);
  CHECK_SAYS(attend_message(ctx), "min_words 4 is more than max_words 3");
  CHECK_EQ(attend_summarizer_create(w.m.model, NULL, NULL, &s), ATTEND_INVALID);
  attend_generate_options how = generate_options(-1, 4);
  o = (attend_summarize_options){ATTEND_INIT(attend_summarize_options), .generate = &how};
  o.given = ATTEND_SUMMARY_BEAMS;
  CHECK_EQ(attend_summarizer_create(w.m.model, w.path, &o, &s), ATTEND_INVALID);
  CHECK_SAYS(attend_message(ctx), "-1 beams");
  how.beams = 1;
  s = open_summarizer(&w, &how);
  attend_document none = {.length = 4};
  attend_summaries *all = NULL;
  CHECK_EQ(attend_summarize(s, 1, &none, NULL, &all), ATTEND_INVALID);
  CHECK(!all);
  attend_long_summary *x = NULL;
  attend_long_options l = {ATTEND_INIT(attend_long_options)};
  l.mode = ATTEND_LONG_LINEAR;
  attend_document d = document_of(row, 0);
  CHECK_EQ(attend_long_summary_create(s, &d, &l, &x), ATTEND_INVALID);
  CHECK_SAYS(attend_message(ctx), "by its distance");
  CHECK(!x);
  attend_summarizer_free(s);
  subject bert = open_model("bert", NULL, 1, NULL);
  CHECK_EQ(attend_summarizer_create(bert.model, w.path, NULL, &s), ATTEND_INVALID);
  CHECK_SAYS(attend_message(bert.ctx), "writes no summaries");
  close_model(&bert);
  close_world(&w);
}

/* ---- memory --------------------------------------------------------------------------- */

/* Everything once; the first failure. */
static attend_status use_all(const world *w, const char *text, const char *work) {
  attend_summarize_options so = {ATTEND_INIT(attend_summarize_options)};
  attend_generate_options how = generate_options(2, 3);
  attend_long_options lo = {ATTEND_INIT(attend_long_options)};
  attend_summarizer *s = NULL;
  attend_summaries *all = NULL;
  attend_sources *sources = NULL;
  attend_long_summary *x = NULL;
  attend_document d = document_of(row, 0), longer = document_of(text, 0);
  so.generate = &how;
  so.given = ATTEND_SUMMARY_BEAMS | ATTEND_SUMMARY_MAX_NEW;
  so.max_words = 3;
  lo.work = work;
  attend_status status = attend_summarizer_create(w->m.model, w->path, &so, &s);
  if (!status) status = attend_summarize(s, 1, &d, NULL, &all);
  if (!status) status = attend_sources_create(s, all, 0, 0, 2, &sources);
  if (!status) status = attend_long_summary_create(s, &longer, &lo, &x);
  if (!status) status = attend_long_summary_write(x);
  attend_long_summary_free(x);
  attend_sources_free(sources);
  attend_summaries_free(all);
  attend_summarizer_free(s);
  return status;
}

/* The n-th allocation fails: a status and a sentence, and nothing is lost. Every
 * n at the beginning, then in growing steps. */
TEST(failing_allocations) {
  world w = open_world("t5");
  char work[128], *text = long_text();
  open_in(&w);
  text[1200] = 0;
  snprintf(work, sizeof work, "%s/work", w.path);
  attend_status status = ATTEND_NO_MEMORY;
  long live = w.memory.live, n = 1, trials = 0;
  for (; status && n < 1000000; n += 1 + n / (light() ? 4 : 60), trials++) {
    remove_all(work);
    w.memory.fail_at = w.memory.taken + n;
    status = use_all(&w, text, work);
    w.memory.fail_at = 0;
    if (w.memory.live != live)
      CHECK_FAIL("allocation %ld: %ld blocks are lost", n, w.memory.live - live);
    if (status && status != ATTEND_NO_MEMORY)
      CHECK_FAIL("allocation %ld: status %d, %s", n, (int)status, attend_message(w.m.ctx));
  }
  CHECK(!status && trials > 20);
  free(text);
  close_world(&w);
}
