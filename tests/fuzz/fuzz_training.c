/* What a run of attend train leaves for its next start: the first byte chooses
 * training.json, training.safetensors, log.jsonl, run.json or digests.json, the rest
 * is the file. A step's file gets the digest that it has, so that what reads it is
 * reached; what has another is refused.
 * What is refused changes nothing; what is taken can be written again. */
#include <math.h>

#include "attend/model.h"
#include "attend/train.h"
#include "base/files.h"
#include "program.h"
#include "train/run_folder.h"

/* Words are taken as they come: options_read would end the program at a wrong one. */
static void fuzz_parse(int n, char **words) {
  for (int i = 0; i < n; i++) MUST(words[i] && strlen(words[i]) < 1 << 20);
  MUST(n > 0 && !words[n]);
}
#define options_read(verb, n, words, input) fuzz_parse(n, words)
#include "../../cli/train/words.c"
#undef options_read

/* ---- what the program has elsewhere -------------------------------------------- */

train_settings train_defaults(void) { return (train_settings){.out = "."}; }
attend_context *options_context(const options *o, const char *isa, int *code) {
  attend_context_options one = {ATTEND_INIT(attend_context_options), .isa = "scalar", .threads = 1};
  attend_context *ctx;
  (void)o;
  (void)isa;
  *code = 0;
  MUST(!attend_context_create(&one, &ctx));
  return ctx;
}

static const char *folder(void) {
  static char path[300];
  snprintf(path, sizeof path, "%s", fuzz_path("."));
  return path;
}

/* ---- a saved step ----------------------------------------------------------------- */

static struct {
  attend_trainer *trainer;
  attend_optimizer *optimizer;
  attend_training *training;
  float *values, *moments; /* as they were saved */
  size_t count;
} saved;

static void save_once(attend_context *ctx) {
  attend_checkpoint *files;
  attend_corpus *corpus;
  attend_batches *batches;
  char path[1024];
  const char *golden = getenv("ATTEND_GOLDEN");
  int32_t ids[50] = {1, 2, 3};
  if (saved.trainer) return;
  snprintf(path, sizeof path, "%s/models/gpt2-by-layer", golden ? golden : "tests/golden");
  MUST(!attend_checkpoint_open(ctx, path, &files));
  MUST(!attend_trainer_create(files, NULL, &saved.trainer));
  MUST(!attend_optimizer_create(saved.trainer, NULL, &saved.optimizer));
  MUST(!attend_corpus_create(ctx, &corpus));
  MUST(!attend_corpus_add(corpus, 50, ids, 0, NULL));
  MUST(!attend_batches_create(corpus, NULL, &batches));
  MUST(!attend_training_create(saved.trainer, saved.optimizer, batches, NULL, &saved.training));
  saved.values = attend_trainer_values(saved.trainer, &saved.count);
  size_t bytes = saved.count * sizeof(float);
  saved.values = memcpy(need(1, bytes), saved.values, bytes);
  saved.moments = need(1, bytes);
  MUST(!attend_training_save(saved.training, fuzz_path("step"), NULL));
}

/* The file, with the batches that are right where the seed has others: no chance
 * would find them. */
static void put_step_file(attend_context *ctx, const char *name, const uint8_t *bytes,
                          size_t length) {
  static const char other[] = "0123456789abcdef";
  char path[64], *at, *text = need(length + 1, 1);
  attend_json *notes;
  memcpy(text, bytes, length);
  if (!strcmp(name, "training.json") && (at = strstr(text, other))) {
    MUST(!json_read(ctx, fuzz_path("step/training.json"), &notes));
    memcpy(at, attend_json_string(attend_json_get(notes, "lessons"), NULL), 16);
    attend_json_free(notes);
  }
  snprintf(path, sizeof path, "step/%s", name);
  fuzz_file(path, text, length);
  free(text);
}

/* digests.json says of the file what is so. */
static void sign(attend_context *ctx, const char *name) {
  char path[64], text[ATTEND_DIGEST_TEXT];
  attend_digest digest = {0};
  attend_json *list;
  snprintf(path, sizeof path, "step/%s", name);
  MUST(!attend_digest_file(ctx, fuzz_path(path), &digest));
  attend_digest_text(&digest, text);
  MUST(!json_read(ctx, fuzz_path("step/digests.json"), &list));
  json_writer w = json_writer_text(ctx);
  json_open(&w, '{');
  for (size_t i = 0; i < attend_json_count(list); i++) {
    const attend_json *one = attend_json_at(list, i);
    const char *of = attend_json_name(one, NULL);
    json_member_string(&w, of, strcmp(of, name) ? attend_json_string(one, NULL) : text);
  }
  json_close(&w, '}');
  MUST(!json_finish(&w));
  fuzz_file("step/digests.json", w.text, w.length);
  json_writer_free(&w);
  attend_json_free(list);
}

static void resume(attend_context *ctx, const char *name, const uint8_t *bytes, size_t length) {
  attend_json *notes;
  size_t live;
  float *values = attend_trainer_values(saved.trainer, NULL);
  float *moments = attend_optimizer_moments(saved.optimizer, 0);
  MUST(!attend_training_save(saved.training, fuzz_path("step"), NULL));
  put_step_file(ctx, name, bytes, length);
  if (strcmp(name, "digests.json")) {
    sign(ctx, name);
    MUST(!attend_training_verify(ctx, fuzz_path("step")));
  }
  live = fuzz_live;
  if (attend_training_resume(saved.training, fuzz_path("step"), &notes)) {
    MUST(*attend_message(ctx) && !notes);
    MUST(!memcmp(values, saved.values, saved.count * sizeof *values));
    MUST(!memcmp(moments, saved.moments, saved.count * sizeof *moments));
  }
  attend_json_free(notes);
  MUST(fuzz_live == live);
  memset(moments, 0, saved.count * sizeof *moments);
  memcpy(values, saved.values, saved.count * sizeof *values);
  attend_optimizer_set_steps(saved.optimizer, 0);
}

/* ---- a run's own files --------------------------------------------------------------- */

/* After it was opened every line of the log is one, and none of a later step. */
static void check_log(attend_context *ctx) {
  char line[16384];
  FILE *file = fopen(fuzz_path("log.jsonl"), "rb");
  MUST(file);
  while (fgets(line, sizeof line, file)) {
    attend_json *json;
    int64_t step;
    MUST(!attend_json_parse(ctx, "a line", line, strlen(line), &json));
    MUST(attend_json_integer(attend_json_get(json, "step"), &step));
    MUST(step >= 0 && step <= 6);
    attend_json_free(json);
  }
  fclose(file);
}

/* The log as readers see it: finite losses, steps rising. Whether there is any. */
static bool read_curves(attend_context *ctx) {
  attend_training_run *run;
  if (attend_training_run_open(ctx, folder(), &run)) return false;
  attend_log_curve curves[] = {*attend_training_run_loss(run), *attend_training_run_valid(run)};
  for (int k = 0; k < 2; k++)
    for (size_t i = 0; i < curves[k].count; i++) {
      const attend_log_point *at = &curves[k].at[i];
      MUST(isfinite(at->step) && isfinite(at->loss));
      MUST(!i || at->step > at[-1].step);
    }
  attend_training_run_free(run);
  return true;
}

static void reopen_log(attend_context *ctx, const uint8_t *bytes, size_t length) {
  run_log log;
  fuzz_file("log.jsonl", bytes, length);
  read_curves(ctx);
  MUST(!run_log_open(ctx, folder(), true, 5, &log));
  MUST(!run_log_step(&log, &(log_line){.step = 6, .loss = 1}));
  MUST(!run_log_sync(&log));
  run_log_close(&log);
  MUST(read_curves(ctx));
  if (!memchr(bytes, 0, length)) check_log(ctx);
}

static void parse_run(attend_context *ctx, const uint8_t *bytes, size_t length) {
  train_settings s = {.out = folder(), .resume = true};
  char *words[] = {"train", "--resume", "--steps", "7"};
  fuzz_file("run.json", bytes, length);
  int code = parse_kept(folder(), &s);
  train_forget(&s);
  if (code) return;
  s = (train_settings){.out = folder(), .resume = true};
  MUST(!train_keep_words(ctx, &s, 4, words));
  MUST(!parse_kept(folder(), &s));
  train_forget(&s);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
  attend_context *ctx = fuzz_context(length);
  if (!length) return 0;
  save_once(ctx);
  size_t live = fuzz_live;
  switch (bytes[0] % 5) {
    case 0:
      resume(ctx, "training.json", bytes + 1, length - 1);
      break;
    case 1:
      resume(ctx, "training.safetensors", bytes + 1, length - 1);
      break;
    case 2:
      reopen_log(ctx, bytes + 1, length - 1);
      break;
    case 4:
      resume(ctx, "digests.json", bytes + 1, length - 1);
      break;
    default:
      parse_run(ctx, bytes + 1, length - 1);
  }
  MUST(fuzz_live == live);
  return 0;
}
