/* Saved steps: replaced as a whole; a save that fails leaves what was there and
 * nothing else; what was cut short or does not fit is refused with a sentence, and
 * changes nothing; memory that fails. */
#include <signal.h>
#include <sys/resource.h>

#include "model/config.h"
#include "training_runs.h"

__attribute__((destructor)) static void leave_nothing(void) { remove_below(models_folder()); }

static const char *place(const char *file) {
  static char paths[4][600];
  static int next;
  char *path = paths[next++ % 4];
  snprintf(path, sizeof paths[0], "%s/step%s%s", models_folder(), file ? "/" : "",
           file ? file : "");
  return path;
}

static attend_status save_at(training_run *c, const char *folder) {
  attend_save_options keep = {ATTEND_INIT(attend_save_options), .beside = model_path("gpt2", NULL)};
  return attend_training_save(c->training, folder, &keep);
}

static void put_file(const char *path, const void *bytes, size_t length) {
  FILE *f = fopen(path, "wb");
  CHECK(f && fwrite(bytes, 1, length, f) == length && !fclose(f));
}

static bool is_there(const char *path) { return !access(path, F_OK); }

/* A training run that stands in place(NULL), saved after two steps. */
static training_run saved_training(training_plan p) {
  training_run c = open_training(&p);
  remove_below(place(NULL));
  take_steps(&c, 2);
  OK(c.ctx, save_at(&c, place(NULL)));
  return c;
}

/* ---- saving ---------------------------------------------------------------------- */

TEST(a_saved_step_is_a_model_with_its_training) {
  training_run c = saved_training((training_plan){0});
  static const char *const files[] = {"config.json", "model.safetensors", "training.json",
                                      "training.safetensors"};
  for (int i = 0; i < 4; i++) CHECK(is_there(place(files[i])));
  CHECK_EQ(count_names(models_folder(), 1), 0);
  subject s = open_path(open_context(NULL, 1, NULL), place(NULL), NULL);
  CHECK_EQ(s.config->vocab, 211);
  close_model(&s);
  close_training(&c);
}

TEST(an_older_step_of_that_name_is_replaced) {
  training_run c = saved_training((training_plan){0});
  put_file(place("left.txt"), "x", 1);
  take_steps(&c, 1);
  OK(c.ctx, save_at(&c, place(NULL)));
  CHECK(!is_there(place("left.txt")));
  CHECK_EQ(count_names(models_folder(), 1), 0);
  training_run d = open_training(&(training_plan){.from = place(NULL)});
  OK(d.ctx, attend_training_resume(d.training, place(NULL), NULL));
  standing a = stand(&c), b = stand(&d);
  CHECK(a.steps == 3 && same_standing(&a, &b));
  free_standing(&a);
  free_standing(&b);
  close_training(&c);
  close_training(&d);
}

/* Two savers of one folder, the second beginning and ending within the first. */
static attend_status save_within(void *user, const char **json) {
  training_run *c = user;
  (void)json;
  OK(c->ctx, save_at(c, place(NULL)));
  put_file(place("inner.txt"), "x", 1);
  return ATTEND_OK;
}

TEST(two_savers_of_one_step_do_not_mix) {
  training_run c = saved_training((training_plan){0});
  attend_save_options keep = {ATTEND_INIT(attend_save_options), .beside = model_path("gpt2", NULL),
                              .notes = save_within, .user = &c};
  OK(c.ctx, attend_training_save(c.training, place(NULL), &keep));
  CHECK(is_there(place("config.json")) && !is_there(place("inner.txt")));
  CHECK_EQ(count_names(models_folder(), 1), 0);
  training_run d = open_training(&(training_plan){.from = place(NULL)});
  OK(d.ctx, attend_training_resume(d.training, place(NULL), NULL));
  close_training(&c);
  close_training(&d);
}

/* ---- saves that fail ---------------------------------------------------------------- */

/* The step that is there can still be gone on from. */
static void check_stands(const training_plan *p, uint64_t steps) {
  training_plan again = *p;
  again.from = place(NULL);
  training_run c = open_training(&again);
  OK(c.ctx, attend_training_resume(c.training, place(NULL), NULL));
  CHECK_EQ(attend_training_steps(c.training), steps);
  close_training(&c);
  CHECK_EQ(count_names(models_folder(), 1), 0); /* no draft is left */
}

TEST(a_full_disk_leaves_what_was_there) {
  training_plan p = {0};
  training_run c = saved_training(p);
  struct rlimit all, few;
  take_steps(&c, 1);
  standing before = stand(&c);
  void (*was)(int) = signal(SIGXFSZ, SIG_IGN);
  CHECK(!getrlimit(RLIMIT_FSIZE, &all));
  for (rlim_t bytes = 16; bytes < 1 << 24; bytes *= 8) {
    few = (struct rlimit){bytes, all.rlim_max};
    CHECK(!setrlimit(RLIMIT_FSIZE, &few));
    attend_status status = save_at(&c, place(NULL));
    CHECK(!setrlimit(RLIMIT_FSIZE, &all));
    if (!status) break;
    CHECK_EQ(status, ATTEND_IO);
    CHECK_SAYS(attend_message(c.ctx), "cannot be written");
    CHECK(bytes < 800000); /* the moments are no longer */
    check_stands(&p, 2);
  }
  signal(SIGXFSZ, was);
  check_stands(&p, 3);
  standing after = stand(&c);
  CHECK(same_standing(&before, &after));
  free_standing(&before);
  free_standing(&after);
  close_training(&c);
}

static attend_status give_list(void *user, const char **json) {
  (void)user;
  *json = "[1]";
  return ATTEND_OK;
}

TEST(a_place_that_cannot_be_is_told) {
  training_run c = open_training(&(training_plan){0});
  char text[3] = "";
  remove_below(place(NULL));
  put_file(place(NULL), "mine", 4); /* a file where the folder should be */
  CHECK_EQ(save_at(&c, place(NULL)), ATTEND_IO);
  CHECK_SAYS(attend_message(c.ctx), "step");
  size_t length;
  char *bytes = read_whole(place(NULL), &length);
  CHECK(length == 4 && !memcmp(bytes, "mine", 4));
  free(bytes);
  CHECK_EQ(save_at(&c, place("below")), ATTEND_IO); /* it is no folder */
  unlink(place(NULL));
  CHECK_EQ(save_at(&c, place("below")), ATTEND_IO); /* there is no folder */
  CHECK_SAYS(attend_message(c.ctx), "below");
  CHECK_EQ(save_at(&c, text), ATTEND_INVALID);
  attend_save_options keep = {ATTEND_INIT(attend_save_options), .beside = place("nothing")};
  CHECK_EQ(attend_training_save(c.training, place(NULL), &keep), ATTEND_IO);
  CHECK_SAYS(attend_message(c.ctx), "nothing");
  keep = (attend_save_options){ATTEND_INIT(attend_save_options), .stored = ATTEND_STORED_I8};
  CHECK_EQ(attend_training_save(c.training, place(NULL), &keep), ATTEND_INVALID);
  keep = (attend_save_options){ATTEND_INIT(attend_save_options), .notes = give_list};
  CHECK_EQ(attend_training_save(c.training, place(NULL), &keep), ATTEND_INVALID);
  CHECK_SAYS(attend_message(c.ctx), "must be a JSON object");
  CHECK(!is_there(place(NULL)));
  CHECK_EQ(count_names(models_folder(), 1), 0);
  OK(c.ctx, attend_training_save(c.training, place(NULL), NULL));
  CHECK_EQ(count_names(place(NULL), 0), 4); /* nothing was put beside */
  close_training(&c);
}

/* ---- digests ---------------------------------------------------------------------------- */

/* digests.json as if the files had been saved as they are. */
static void sign(attend_context *ctx) {
  char list[4096], text[ATTEND_DIGEST_TEXT];
  size_t n = 0;
  DIR *dir = opendir(place(NULL));
  for (struct dirent *e; dir && (e = readdir(dir));) {
    attend_digest digest = {0};
    if (e->d_name[0] == '.' || !strcmp(e->d_name, "digests.json")) continue;
    OK(ctx, attend_digest_file(ctx, place(e->d_name), &digest));
    attend_digest_text(&digest, text);
    n += (size_t)snprintf(list + n, sizeof list - n, "%c\"%s\": \"%s\"", n ? ',' : '{', e->d_name,
                          text);
  }
  if (dir) closedir(dir);
  n += (size_t)snprintf(list + n, sizeof list - n, "}");
  put_file(place("digests.json"), list, n);
}

TEST(digests_are_those_of_others) { /* of MurmurHash3 x64 128 */
  static const char *const known[][2] = {
      {"", "00000000000000000000000000000000"},
      {"hello", "cbd8a7b341bd9b025b1e906a48ae1d19"},
      {"The quick brown fox jumps over the lazy dog.", "cd99481f9ee902c9695da1a38987b6e7"}};
  for (int i = 0; i < 3; i++) {
    size_t length = strlen(known[i][0]);
    for (size_t piece = 1; piece <= length + 1; piece++) {
      char text[ATTEND_DIGEST_TEXT];
      attend_digest d = {0};
      for (size_t at = 0; at < length; at += piece)
        attend_digest_add(&d, known[i][0] + at, piece < length - at ? piece : length - at);
      attend_digest_text(&d, text);
      CHECK(!strcmp(text, known[i][1]));
    }
  }
}

/* Any bit of any file; and files of another step. */
TEST(a_step_that_was_changed_is_refused_by_name) {
  static const char *const files[] = {"config.json", "model.safetensors", "training.json",
                                      "training.safetensors"};
  training_run c = saved_training((training_plan){0});
  OK(c.ctx, attend_training_verify(c.ctx, place(NULL)));
  for (int i = 0; i < 4; i++) {
    size_t length;
    char *bytes = read_whole(place(files[i]), &length);
    for (size_t bit = 0; bit < 8 * length; bit += 8 * length / 23 + 1) {
      bytes[bit / 8] ^= (char)(1 << bit % 8);
      put_file(place(files[i]), bytes, length);
      CHECK_EQ(attend_training_resume(c.training, place(NULL), NULL), ATTEND_IO);
      CHECK_SAYS(attend_message(c.ctx), files[i]);
      bytes[bit / 8] ^= (char)(1 << bit % 8);
    }
    put_file(place(files[i]), bytes, length);
    free(bytes);
  }
  size_t length;
  char *older = read_whole(place("model.safetensors"), &length);
  take_steps(&c, 1);
  OK(c.ctx, save_at(&c, place(NULL)));
  put_file(place("model.safetensors"), older, length);
  free(older);
  CHECK_EQ(attend_training_verify(c.ctx, place(NULL)), ATTEND_IO);
  CHECK_SAYS(attend_message(c.ctx), "model.safetensors is damaged, or of");
  sign(c.ctx);
  OK(c.ctx, attend_training_verify(c.ctx, place(NULL)));
  unlink(place("training.json")); /* the model alone is kept */
  unlink(place("training.safetensors"));
  OK(c.ctx, attend_training_verify(c.ctx, place(NULL)));
  unlink(place("config.json"));
  CHECK_EQ(attend_training_verify(c.ctx, place(NULL)), ATTEND_IO);
  CHECK_SAYS(attend_message(c.ctx), "config.json is missing");
  unlink(place("digests.json"));
  CHECK_EQ(attend_training_verify(c.ctx, place(NULL)), ATTEND_IO);
  CHECK_SAYS(attend_message(c.ctx), "no digests.json");
  close_training(&c);
}

TEST(what_goes_beside_must_be_what_went) {
  training_run c = saved_training((training_plan){0});
  const char *beside = model_path("gpt2", NULL);
  OK(c.ctx, attend_training_verify_beside(c.ctx, place(NULL), beside));
  CHECK_EQ(attend_training_verify_beside(c.ctx, place(NULL), models_folder()), ATTEND_IO);
  CHECK_SAYS(attend_message(c.ctx), "is missing, or not what");
  static const char *const lies[] = {"", "[5]", "{\"config.json\": 5}",
                                     "{\"../step/config.json\": \"00\"}"};
  for (int i = 0; i < 4; i++) {
    put_file(place("digests.json"), lies[i], strlen(lies[i]));
    CHECK_EQ(attend_training_verify(c.ctx, place(NULL)), ATTEND_IO);
    CHECK_SAYS(attend_message(c.ctx), i < 3 ? "" : "no list of digests");
  }
  close_training(&c);
}

/* ---- what does not fit ------------------------------------------------------------------ */

static void refuse(training_run *c, const char *why) {
  standing before = stand(c);
  attend_json *notes = (attend_json *)why;
  attend_status status = attend_training_resume(c->training, place(NULL), &notes);
  CHECK(status == ATTEND_IO || status == ATTEND_INVALID);
  CHECK(!notes);
  CHECK_SAYS(attend_message(c->ctx), why);
  CHECK_SAYS(attend_message(c->ctx), "training.");
  standing after = stand(c);
  CHECK(same_standing(&before, &after));
  free_standing(&before);
  free_standing(&after);
}

TEST(other_batches_are_refused) {
  training_plan p = {.batch = 4, .accumulate = 2, .seed = 3};
  training_run c = saved_training(p);
  close_training(&c);
  p.from = place(NULL);
  training_plan others[] = {p, p, p, p};
  others[0].batch = 8;
  others[1].seed = 4;
  others[2].tokens = 301;
  others[3].accumulate = 1;
  for (int i = 0; i < 4; i++) {
    c = open_training(&others[i]);
    refuse(&c, "other texts or other batches");
    close_training(&c);
  }
  p.threads = 2; /* which say nothing of batches */
  c = open_training(&p);
  OK(c.ctx, attend_training_resume(c.training, place(NULL), NULL));
  close_training(&c);
}

TEST(another_optimizer_is_refused) {
  training_run c = saved_training((training_plan){.kind = ATTEND_SGD});
  close_training(&c);
  c = open_training(&(training_plan){0});
  take_steps(&c, 1);
  refuse(&c, "no moments.1"); /* and moments.0, which fit, were not taken */
  close_training(&c);
}

TEST(files_that_were_cut_short_are_refused) {
  training_run c = saved_training((training_plan){0});
  size_t length;
  char *bytes = read_whole(place("training.safetensors"), &length);
  take_steps(&c, 1);
  for (size_t n = 0; n < length; n = n ? 3 * n : 1) {
    put_file(place("training.safetensors"), bytes, n);
    sign(c.ctx);
    refuse(&c, "training.safetensors");
  }
  put_file(place("training.safetensors"), bytes, length - 1);
  sign(c.ctx);
  refuse(&c, "training.safetensors");
  unlink(place("training.safetensors"));
  sign(c.ctx);
  refuse(&c, "training.safetensors");
  free(bytes);
  bytes = read_whole(place("training.json"), &length);
  for (size_t n = 0; n + 2 < length; n += 7) {
    put_file(place("training.json"), bytes, n);
    sign(c.ctx);
    refuse(&c, "training.json");
  }
  free(bytes);
  unlink(place("training.json"));
  refuse(&c, "training.json");
  close_training(&c);
}

/* training.json with one word replaced by another of any length. */
static void put_instead(const char *text, const char *word, const char *other) {
  char changed[4096];
  const char *at = strstr(text, word);
  CHECK(at != NULL);
  if (!at) return;
  int n = snprintf(changed, sizeof changed, "%.*s%s%s", (int)(at - text), text, other,
                   at + strlen(word));
  put_file(place("training.json"), changed, (size_t)n);
}

TEST(notes_that_lie_are_refused) {
  static const char *const lies[][2] = {{"\"step\": 2", "\"step\": -2"},
                                        {"\"step\": 2", "\"step\": 3"},
                                        {"\"step\": 2", "\"step\": 9223372036854775807"},
                                        {"\"step\": 2", "\"step\": 1e300"},
                                        {"\"step\": 2", "\"step\": \"2\""},
                                        {"\"step\": 2", "\"stop\": 2"},
                                        {"\"lesson\": 2", "\"lesson\": 4"},
                                        {"\"lesson\": 2", "\"lesson\": null"},
                                        {"\"lessons\": \"", "\"lessons\": \"0"},
                                        {"\"lessons\"", "\"other\""},
                                        {"\"weights\": \"f32\"", "\"weights\": 5"},
                                        {"\"weights\": \"f32\"", "\"weights\": \"bf16\""},
                                        {"{", "["}};
  training_run c = saved_training((training_plan){0});
  size_t length;
  char *text = read_whole(place("training.json"), &length);
  for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
    put_instead(text, lies[i][0], lies[i][1]);
    sign(c.ctx);
    refuse(&c, "training.");
  }
  free(text);
  close_training(&c);
}

/* Tensors under the right names, of another length or kind. */
TEST(moments_of_another_model_are_refused) {
  training_run c = saved_training((training_plan){0});
  size_t count;
  attend_trainer_values(c.trainer, &count);
  float *zeros = zeroed_block(count + 1, sizeof *zeros);
  int64_t n = (int64_t)count;
  attend_tensor t[2] = {{"moments.0", ATTEND_STORED_F32, NULL, 1, {n}, n, zeros, 0},
                        {"moments.1", ATTEND_STORED_F32, NULL, 1, {n}, n, zeros, 0}};
  char path[600];
  snprintf(path, sizeof path, "%s", place("training.safetensors"));
  OK(c.ctx, attend_tensor_file_write(c.ctx, path, 2, t));
  sign(c.ctx);
  OK(c.ctx, attend_training_resume(c.training, place(NULL), NULL));
  take_steps(&c, 1);
  t[1].shape[0] = n + 1;
  OK(c.ctx, attend_tensor_file_write(c.ctx, path, 2, t));
  sign(c.ctx);
  refuse(&c, "no moments.1 of");
  t[1].shape[0] = n;
  t[1].stored = ATTEND_STORED_I32;
  OK(c.ctx, attend_tensor_file_write(c.ctx, path, 2, t));
  sign(c.ctx);
  refuse(&c, "no moments.1 of");
  OK(c.ctx, attend_tensor_file_write(c.ctx, path, 1, t + 1));
  sign(c.ctx);
  refuse(&c, "no moments.0 of");
  free(zeros);
  close_training(&c);
}

/* ---- memory ------------------------------------------------------------------------------- */

static attend_status create_again(training_run *c) {
  attend_training *t;
  attend_status status = attend_training_create(c->trainer, c->optimizer, c->batches, NULL, &t);
  CHECK(!status == (t != NULL));
  attend_training_free(t);
  return status;
}

static attend_status save_again(training_run *c) {
  attend_status status = save_at(c, place(NULL));
  CHECK_EQ(count_names(models_folder(), 1), 0);
  return status;
}

static attend_status resume_again(training_run *c) {
  return attend_training_resume(c->training, place(NULL), NULL);
}

static void fail_each(training_run *c, ledger *memory, attend_status (*act)(training_run *c),
                      long min) {
  attend_status status = ATTEND_NO_MEMORY;
  standing before = stand(c);
  long n = 0;
  while (status && n < 1000) {
    long live = memory->live;
    memory->fail_at = memory->taken + ++n;
    status = act(c);
    memory->fail_at = 0;
    CHECK_EQ(memory->live, live);
    CHECK(!status || status == ATTEND_NO_MEMORY);
    standing after = stand(c);
    CHECK(same_standing(&before, &after));
    free_standing(&after);
  }
  CHECK(n > min && n < 1000);
  free_standing(&before);
}

TEST(memory_that_fails) {
  ledger memory = {0};
  training_plan p = {.memory = &memory};
  training_run c = saved_training(p);
  fail_each(&c, &memory, create_again, 1);
  fail_each(&c, &memory, save_again, 8);
  check_stands(&(training_plan){0}, 2);
  fail_each(&c, &memory, resume_again, 3);
  close_training(&c);
  CHECK_EQ(memory.live, 0);
}
