/* Texts of any length: what fits is read to the same bits as in one piece; how
 * a text is cut, who computes and where it was interrupted change nothing; and
 * memory does not grow. */
#include <dirent.h>

#include "golden_models.h"

enum { FITS = 300, LONG = 1000, PREFIX = 4 };

static const attend_form forms[] = {{.kind = ATTEND_ELU},
                                    {.kind = ATTEND_FAVOR, .features = 48},
                                    {.kind = ATTEND_FAVOR, .features = 32, .pairs = 1, .seed = 9},
                                    {.kind = ATTEND_FOURIER, .features = 32},
                                    {.kind = ATTEND_GAUSSIAN, .features = 32},
                                    {.kind = ATTEND_POLY, .c = 1}};
enum { FORMS = sizeof forms / sizeof *forms };

/* A bart with windows of several blocks of keys. */
static subject open_bart(attend_context *ctx, const attend_form *form) {
  subject s = {.ctx = ctx};
  attend_architecture a = {ATTEND_INIT(attend_architecture),
                           .family = "bart",
                           .layers = 3,
                           .decoder_layers = 2,
                           .width = 32,
                           .heads = 4,
                           .mlp = 48,
                           .positions = FITS,
                           .vocab = 60,
                           .copy = 5,
                           .bos = (const int[]){0},
                           .eos = (const int[]){2},
                           .pad = (const int[]){1}};
  attend_model_options o = {ATTEND_INIT(attend_model_options), .form = form};
  OK(ctx, attend_config_write(ctx, in_folder("config.json"), &a));
  OK(ctx, attend_checkpoint_init_pytorch(ctx, models_folder(), 5, &s.files));
  OK(ctx, attend_model_create(s.files, &o, &s.model));
  s.config = attend_model_config(s.model);
  return s;
}

static attend_reading *open_reading(const subject *s, int rows) {
  attend_reading_options o = {ATTEND_INIT(attend_reading_options), .rows = rows};
  attend_reading *x;
  if (attend_reading_create(s->model, &o, &x)) {
    printf("no reading: %s\n", attend_message(s->ctx));
    exit(1);
  }
  return x;
}

static void read_on(const subject *s, attend_reading *x) {
  for (int i = 0; i < 100000 && !attend_reading_done(x); i++) OK(s->ctx, attend_reading_next(x));
  CHECK(attend_reading_done(x));
}

/* The decoder's output after a few tokens: logits [V]. */
static void say(const subject *s, attend_session *run, float *logits) {
  static const int32_t ids[PREFIX] = {2, 17, 5, 40};
  OK(s->ctx, attend_session_extend(run, 1, PREFIX, ids, NULL));
  OK(s->ctx, attend_session_next(run, 1, logits));
}

static void say_reading(const subject *s, const attend_reading *x, float *logits) {
  attend_session *run = open_run(s, 2, 0); /* another batch than the reading's */
  OK(s->ctx, attend_session_recall(run, x));
  say(s, run, logits);
  attend_session_free(run);
}

static void say_read(const subject *s, int rows, int64_t n, const int32_t *ids, float *logits) {
  attend_reading *x = open_reading(s, rows);
  OK(s->ctx, attend_reading_begin(x, n, ids));
  read_on(s, x);
  say_reading(s, x, logits);
  attend_reading_free(x);
}

TEST(what_fits_is_as_in_one_piece) {
  static const int lengths[] = {1, 63, 64, 65, 128, 200, FITS};
  for (int f = 0; f < FORMS; f++) {
    subject s = open_bart(open_context(NULL, 2, NULL), &forms[f]);
    int32_t *ids = random_ids(s.config, 3, FITS);
    float want[64], got[64];
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
      attend_session *run = open_run(&s, 1, 0);
      OK(s.ctx, attend_session_encode(run, 1, lengths[i], ids, NULL, NULL));
      say(&s, run, want);
      attend_session_free(run);
      say_read(&s, 64 + (int)i, lengths[i], ids, got);
      /* poly in one piece may go by pairs */
      double near = forms[f].kind == ATTEND_POLY ? 1e-4 : 0;
      for (int j = 0; j < s.config->vocab; j++) CHECK_NEAR((double)got[j], (double)want[j], near);
    }
    free(ids);
    close_model(&s);
  }
}

TEST(chunks_and_threads_change_nothing) {
  static const struct {
    int rows, threads;
  } cases[] = {{0, 1}, {5, 2}, {64, 3}, {101, 1}, {LONG, 2}};
  for (int f = 0; f < 2; f++) {
    float want[64], got[64];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
      attend_context *ctx = open_context(NULL, cases[i].threads, NULL);
      subject s = open_bart(ctx, &forms[f]);
      int32_t *ids = random_ids(s.config, 4, LONG);
      say_read(&s, cases[i].rows, LONG, ids, i ? got : want);
      if (i) CHECK(same_bits(want, got, (size_t)s.config->vocab));
      free(ids);
      close_model(&s);
    }
  }
}

/* Every token is seen: the first, and one of the last window. */
TEST(a_change_anywhere_changes_what_is_said) {
  subject s = open_bart(open_context(NULL, 2, NULL), &forms[1]);
  int32_t *ids = random_ids(s.config, 4, LONG);
  float want[64], got[64];
  say_read(&s, 0, LONG, ids, want);
  for (int at = 0; at < LONG; at += LONG - 1) {
    int32_t was = ids[at];
    ids[at] = was == 30 ? 31 : 30;
    say_read(&s, 0, LONG, ids, got);
    CHECK(!same_bits(want, got, (size_t)s.config->vocab));
    ids[at] = was;
  }
  free(ids);
  close_model(&s);
}

/* ---- memory ---------------------------------------------------------------------- */

typedef struct {
  size_t live, peak;
} counter;

static void *count_take(size_t bytes, void *user) {
  counter *c = user;
  size_t whole = (bytes + 127) / 64 * 64;
  size_t *block = aligned_alloc(64, whole);
  *block = whole;
  c->live += whole;
  if (c->live > c->peak) c->peak = c->live;
  return (char *)block + 64;
}

static void count_give(void *block, void *user) {
  counter *c = user;
  if (!block) return;
  size_t *at = (size_t *)((char *)block - 64);
  c->live -= *at;
  free(at);
}

static size_t peak_of(int64_t n, size_t *reported) {
  counter c = {0, 0};
  attend_context_options o = {ATTEND_INIT(attend_context_options), .threads = 2,
                              .allocator = {count_take, count_give, &c}};
  attend_context *ctx;
  attend_context_create(&o, &ctx);
  subject s = open_bart(ctx, &forms[1]);
  int32_t *ids = random_ids(s.config, 4, (size_t)n);
  size_t before = c.live;
  c.peak = 0;
  attend_reading *x = open_reading(&s, 128);
  OK(ctx, attend_reading_begin(x, n, ids));
  read_on(&s, x);
  *reported = attend_reading_bytes(x);
  attend_reading_free(x);
  free(ids);
  close_model(&s);
  return c.peak - before;
}

TEST(memory_does_not_grow) {
  size_t reported[2], peak[2] = {peak_of(300, &reported[0]), peak_of(20000, &reported[1])};
  CHECK_EQ(peak[1], peak[0]);
  CHECK_EQ(reported[1], reported[0]);
  CHECK(reported[0] <= peak[0] && (double)reported[0] > 0.9 * (double)peak[0]);
}

TEST(a_reading_without_memory) {
  ledger memory = {0};
  attend_context *ctx = open_context(NULL, 1, &memory);
  subject s = open_bart(ctx, &forms[0]);
  int32_t *ids = random_ids(s.config, 4, 200);
  float want[64], got[64];
  say_read(&s, 64, 200, ids, want);
  for (int n = 1; n < 40; n++) {
    attend_reading_options o = {ATTEND_INIT(attend_reading_options), .rows = 64};
    attend_reading *x;
    memory.fail_at = memory.taken + n;
    attend_status status = attend_reading_create(s.model, &o, &x);
    if (!status) status = attend_reading_begin(x, 200, ids);
    while (!status && !attend_reading_done(x)) status = attend_reading_next(x);
    memory.fail_at = 0;
    CHECK(!status || status == ATTEND_NO_MEMORY);
    if (x && status) {
      CHECK_EQ(attend_reading_next(x), ATTEND_INVALID);
      OK(ctx, attend_reading_begin(x, 200, ids));
      read_on(&s, x);
    }
    if (x) {
      say_reading(&s, x, got);
      CHECK(same_bits(want, got, (size_t)s.config->vocab));
    }
    attend_reading_free(x);
  }
  free(ids);
  close_model(&s);
  CHECK_EQ(memory.live, 0);
}

/* ---- files ------------------------------------------------------------------------ */

static int files_in(const char *folder) {
  int count = 0;
  DIR *dir = opendir(folder);
  for (struct dirent *e; dir && (e = readdir(dir));) count += *e->d_name != '.';
  if (dir) closedir(dir);
  return count;
}

static void clear(const char *folder) {
  char path[1024];
  DIR *dir = opendir(folder);
  for (struct dirent *e; dir && (e = readdir(dir));) {
    snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
    if (*e->d_name != '.') unlink(path);
  }
  if (dir) closedir(dir);
}

/* Interrupted after every few chunks, by another process each time. */
TEST(what_was_saved_goes_on_to_the_same_bits) {
  subject s = open_bart(open_context(NULL, 2, NULL), &forms[1]);
  int32_t *ids = random_ids(s.config, 4, LONG);
  char folder[512];
  float want[64], got[64];
  snprintf(folder, sizeof folder, "%s", in_folder("a.safetensors"));
  mkdir(folder, 0777);
  say_read(&s, 0, LONG, ids, want);
  double share = 0;
  for (int attempt = 0; share < 1; attempt++) {
    attend_reading *x = open_reading(&s, 90 + attempt);
    OK(s.ctx, attend_reading_begin(x, LONG, ids));
    if (attempt) OK(s.ctx, attend_reading_resume(x, folder));
    CHECK_NEAR(attend_reading_share(x), share, 0);
    for (int i = 0; i < 13 && !attend_reading_done(x); i++) {
      OK(s.ctx, attend_reading_next(x));
      if (i % 5 == 1) OK(s.ctx, attend_reading_save(x, folder));
    }
    OK(s.ctx, attend_reading_save(x, folder));
    CHECK(attend_reading_share(x) > share);
    share = attend_reading_share(x);
    CHECK(files_in(folder) <= 1 + 3 + 2 + 1); /* what is done with is gone */
    if (attend_reading_done(x)) say_reading(&s, x, got);
    attend_reading_free(x);
  }
  CHECK(same_bits(want, got, (size_t)s.config->vocab));
  CHECK_EQ(files_in(folder), 4);           /* the mark, 2 layers, words */
  attend_reading *x = open_reading(&s, 0); /* and once more, without reading */
  OK(s.ctx, attend_reading_begin(x, LONG, ids));
  OK(s.ctx, attend_reading_resume(x, folder));
  CHECK(attend_reading_done(x));
  say_reading(&s, x, got);
  CHECK(same_bits(want, got, (size_t)s.config->vocab));
  attend_reading_free(x);
  clear(folder);
  rmdir(folder);
  free(ids);
  close_model(&s);
}

static void damage(const char *folder, const char *part) {
  char path[1024];
  DIR *dir = opendir(folder);
  for (struct dirent *e; dir && (e = readdir(dir));) {
    snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
    if (strstr(e->d_name, part) && truncate(path, 40)) CHECK_FAIL("%s", path);
  }
  if (dir) closedir(dir);
}

TEST(foreign_and_damaged_folders_are_refused) {
  subject s = open_bart(open_context(NULL, 2, NULL), &forms[1]);
  subject other = open_bart(open_context(NULL, 2, NULL), &forms[0]);
  int32_t *ids = random_ids(s.config, 4, LONG);
  const char *folder = models_folder();
  float want[64], got[64];
  attend_reading *x = open_reading(&s, 200), *y = open_reading(&other, 200);
  OK(s.ctx, attend_reading_begin(x, LONG, ids));
  CHECK_EQ(attend_reading_resume(x, folder), ATTEND_IO); /* none yet */
  for (int i = 0; i < 15; i++) OK(s.ctx, attend_reading_next(x));
  OK(s.ctx, attend_reading_save(x, folder));
  OK(other.ctx, attend_reading_begin(y, LONG, ids));
  CHECK_EQ(attend_reading_resume(y, folder), ATTEND_INVALID);
  CHECK_SAYS(attend_message(other.ctx), "another text or another model");
  OK(s.ctx, attend_reading_begin(x, LONG - 1, ids));
  CHECK_EQ(attend_reading_resume(x, folder), ATTEND_INVALID);
  damage(folder, "-sums-1-");
  OK(s.ctx, attend_reading_begin(x, LONG, ids));
  CHECK_EQ(attend_reading_resume(x, folder), ATTEND_IO);
  CHECK_SAYS(attend_message(s.ctx), "is damaged");
  read_on(&s, x); /* from the beginning */
  say_reading(&s, x, got);
  say_read(&s, 0, LONG, ids, want);
  CHECK(same_bits(want, got, (size_t)s.config->vocab));
  OK(s.ctx, attend_reading_save(x, folder));
  damage(folder, "-copy-");
  OK(s.ctx, attend_reading_begin(x, LONG, ids));
  CHECK_EQ(attend_reading_resume(x, folder), ATTEND_IO);
  damage(folder, "reading.json");
  CHECK_EQ(attend_reading_resume(x, folder), ATTEND_IO);
  attend_reading_free(x);
  attend_reading_free(y);
  clear(folder);
  free(ids);
  close_model(&s);
  close_model(&other);
}

/* ---- generation --------------------------------------------------------------------- */

static void check_same(const attend_generation *a, const attend_generation *b) {
  for (int i = 0; attend_generation_get(a, i); i++) {
    const attend_continuation *x = attend_generation_get(a, i);
    const attend_continuation *y = attend_generation_get(b, i);
    CHECK(y && x->count == y->count && x->score == y->score &&
          !memcmp(x->ids, y->ids, (size_t)x->count * sizeof *x->ids));
  }
}

TEST(generation_from_a_reading_is_that_from_the_prompt) {
  subject s = open_bart(open_context(NULL, 2, NULL), &forms[1]);
  int32_t *ids = random_ids(s.config, 4, FITS);
  attend_reading *x = open_reading(&s, 0);
  OK(s.ctx, attend_reading_begin(x, FITS, ids));
  read_on(&s, x);
  for (int way = 0; way < 3; way++) {
    attend_generate_options o = {ATTEND_INIT(attend_generate_options)};
    attend_prompt prompt = {ids, FITS}, none = {NULL, 0};
    attend_generation *a, *b;
    o.max_new = 12;
    if (way == 1) o.beams = 3;
    if (way == 2) o.temperature = 1, o.samples = 3;
    OK(s.ctx, attend_generate(s.model, 1, &prompt, &o, &a));
    o.reading = x;
    OK(s.ctx, attend_generate(s.model, 1, &none, &o, &b));
    check_same(a, b);
    attend_generation_free(a);
    attend_generation_free(b);
  }
  attend_reading_free(x);
  free(ids);
  close_model(&s);
}

/* ---- refusals ------------------------------------------------------------------------ */

static void refused(const char *name, const attend_form *form, const char *why) {
  attend_model_options o = {ATTEND_INIT(attend_model_options), .form = form};
  subject s = open_model(name, NULL, 1, &o);
  attend_reading *x;
  CHECK(attend_reading_create(s.model, NULL, &x) && !x);
  CHECK_SAYS(attend_message(s.ctx), why);
  close_model(&s);
}

TEST(what_cannot_be_read_so_is_refused) {
  refused("gpt2", &forms[0], "not an encoder with a decoder");
  refused("bert", &forms[0], "not an encoder with a decoder");
  refused("t5", &forms[0], "by its distance");
  refused("bart", NULL, "choose a linear form");
  subject s = open_bart(open_context(NULL, 1, NULL), &forms[0]);
  attend_reading *x = open_reading(&s, 0);
  int32_t wrong[] = {3, 60};
  attend_session *run = open_run(&s, 1, 0);
  CHECK_EQ(attend_reading_next(x), ATTEND_INVALID);
  CHECK_EQ(attend_reading_begin(x, 0, wrong), ATTEND_INVALID);
  CHECK_EQ(attend_reading_begin(x, 2, wrong), ATTEND_INVALID);
  CHECK_SAYS(attend_message(s.ctx), "token 1 is 60");
  OK(s.ctx, attend_reading_begin(x, 1, wrong));
  CHECK_EQ(attend_session_recall(run, x), ATTEND_INVALID);
  attend_session_free(run);
  attend_reading_free(x);
  close_model(&s);
  remove_folder();
}
