/* A run of attend train, made ready: folder, model, texts, lessons. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "attend/problem.h"
#include "folders.h"
#include "interrupt.h"
#include "model_path.h"
#include "progress.h"
#include "train/train.h"

#define TRY(run, call)                                                \
  do {                                                                \
    attend_status try_status_ = (call);                               \
    if (try_status_) return complain_status((run)->ctx, try_status_); \
  } while (0)
#define GO(call)             \
  do {                       \
    int code_ = (call);      \
    if (code_) return code_; \
  } while (0)

/* ---- the folder -------------------------------------------------------------------- */

static int lock_folder(train_run *run) {
  const char *out = run->s->out;
  if (!make_folder(out)) return EXIT_FAILED;
  char *path = path_of("%s/.lock", out);
  run->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (run->lock < 0)
    complain("%s cannot be written: %s", path, strerror(errno));
  bool busy = run->lock >= 0 && flock(run->lock, LOCK_EX | LOCK_NB);
  if (busy && errno != EWOULDBLOCK)
    complain("%s cannot be locked: %s", path, strerror(errno));
  else if (busy)
    complain(
        "%s is in use by another training: wait for it, or choose another "
        "--out",
        out);
  free(path);
  if (run->lock >= 0 && !busy) clear_leftovers(out);
  return run->lock < 0 || busy ? EXIT_FAILED : EXIT_OK;
}

/* ---- the weights ------------------------------------------------------------------------- */

static int open_weights(train_run *run, bool on, uint64_t step) {
  const train_settings *s = run->s;
  char name[STEP_NAME];
  int code = EXIT_OK;
  step_name(step, name);
  char *path = on         ? path_of("%s/%s", s->out, name)
               : s->model ? model_path(s->model, &code)
                          : need_copy(run->base);
  if (code) return code;
  attend_status status =
      on || s->model
          ? attend_checkpoint_open(run->ctx, path, &run->files)
          : attend_checkpoint_init(run->ctx, path, s->common.seed, &run->files);
  free(path);
  return status ? complain_status(run->ctx, status) : EXIT_OK;
}

static int read_roles(train_run *run) {
  const char *text = run->s->roles;
  if (text) TRY(run, attend_roles_parse(run->ctx, text, &run->roles));
  return EXIT_OK;
}

static int make_learner(train_run *run) {
  const train_settings *s = run->s;
  attend_form form = {0};
  const char *attention = s->made.attention;
  if (attention) TRY(run, attend_form_parse(run->ctx, attention, &form));
  attend_trainer_options how = {.form = attention ? &form : NULL,
                                .roles = run->roles,
                                .weights = s->weights,
                                .recompute = s->recompute,
                                .dropout = (float)s->dropout,
                                .seed = s->common.seed};
  TRY(run, attend_trainer_create(run->files, &how, &run->learner));
  TRY(run,
      attend_optimizer_create(run->learner, &s->optimizer, &run->optimizer));
  return EXIT_OK;
}

/* ---- the texts ------------------------------------------------------------------------------- */

static attend_task task_of(const train_run *run) {
  static const char *const tasks[] = {"causal", "masked", "pairs"};
  attend_parts parts = attend_trainer_config(run->learner)->parts;
  for (int i = 0; run->s->task && i < 3; i++)
    if (!strcmp(tasks[i], run->s->task)) return (attend_task)i;
  if (parts == ATTEND_BOTH) return ATTEND_LEARN_PAIRS;
  if (parts == ATTEND_ENCODER) return ATTEND_LEARN_MASKED;
  return path_ends(run->s->data.text[0], ".tsv") ? ATTEND_LEARN_PAIRS
                                                 : ATTEND_LEARN_CAUSAL;
}

static int check_task(const train_run *run) {
  attend_parts parts = attend_trainer_config(run->learner)->parts;
  static const char *const sides[] = {"", "an encoder", "a decoder",
                                      "an encoder-decoder"};
  bool fits = run->task == ATTEND_LEARN_PAIRS    ? parts != ATTEND_ENCODER
              : run->task == ATTEND_LEARN_MASKED ? parts == ATTEND_ENCODER
                                                 : parts == ATTEND_DECODER;
  if (fits) return EXIT_OK;
  complain("%s cannot learn the task %s", sides[parts],
           run->s->task ? run->s->task : "asked for");
  return EXIT_USAGE;
}

static int longest(const train_run *run) {
  int positions = attend_trainer_config(run->learner)->positions;
  if (run->s->length) return run->s->length;
  return positions && positions < 256 ? positions : 256;
}

static int check_length(const train_run *run) {
  int positions = attend_trainer_config(run->learner)->positions;
  if (!positions || longest(run) <= positions) return EXIT_OK;
  complain(
      "texts of %d tokens are longer than the %d that the model can take: "
      "choose a smaller --length",
      longest(run), positions);
  return EXIT_USAGE;
}

static int say_read(size_t done, size_t total, void *user) {
  (void)total;
  (void)user;
  progress_bytes(done, 0);
  return is_interrupted();
}

static int read_files(train_run *run, const word_list *files,
                      attend_corpus *to) {
  const train_settings *s = run->s;
  bool masked = run->task == ATTEND_LEARN_MASKED;
  size_t length = (size_t)longest(run);
  size_t target = s->target_length ? (size_t)s->target_length : length;
  attend_parts parts = attend_trainer_config(run->learner)->parts;
  bool joined = parts == ATTEND_DECODER;
  if (joined && !s->target_length) target = length / 2;
  attend_corpus_options how = {
      .tokenizer = run->tokenizer,
      .task = run->task,
      .parts = parts,
      .end = masked
                 ? train_special(run, ATTEND_SPECIAL_SEP, ATTEND_SPECIAL_EOS)
                 : train_special(run, ATTEND_SPECIAL_EOS, ATTEND_SPECIAL_SEP),
      .field = s->field,
      .answer_field = s->answer_field,
      .source_length =
          joined ? (length > target ? length - target : 1) : length,
      .target_length = target,
      .progress = say_read};
  for (size_t i = 0; i < files->count; i++) {
    int64_t bytes = file_bytes(files->text[i]);
    progress_start("reading", bytes > 0 ? (size_t)bytes : 0);
    attend_status status = attend_corpus_read(to, files->text[i], &how);
    progress_end();
    TRY(run, status);
  }
  return EXIT_OK;
}

static int read_texts(train_run *run) {
  const train_settings *s = run->s;
  double share = s->valid_share >= 0 ? s->valid_share : 0.02;
  TRY(run, attend_corpus_create(run->ctx, &run->texts));
  GO(read_files(run, &s->data, run->texts));
  if (s->valid.count) {
    TRY(run, attend_corpus_create(run->ctx, &run->held));
    return read_files(run, &s->valid, run->held);
  }
  if (share > 0)
    TRY(run,
        attend_corpus_split(run->texts, share, s->common.seed, &run->held));
  return EXIT_OK;
}

/* ---- the lessons -------------------------------------------------------------------------------- */

static int make_batches(train_run *run) {
  const train_settings *s = run->s;
  const attend_config *c = attend_trainer_config(run->learner);
  attend_batch_options how = {
      .task = run->task,
      .parts = c->parts,
      .batch = s->batch,
      .length = longest(run),
      .seed = s->common.seed,
      .start = c->decoder_start >= 0 ? c->decoder_start : c->bos,
      .pad = c->pad,
      .mask = attend_tokenizer_special(run->tokenizer, ATTEND_SPECIAL_MASK),
      .cls = attend_tokenizer_special(run->tokenizer, ATTEND_SPECIAL_CLS),
      .sep = attend_tokenizer_special(run->tokenizer, ATTEND_SPECIAL_SEP),
      .vocab = c->vocab,
      .mask_share = (float)s->mask_share};
  TRY(run, attend_batches_create(run->texts, &how, &run->batches));
  if (!run->held) return EXIT_OK;
  how.in_order = 1;
  TRY(run, attend_batches_create(run->held, &how, &run->measured));
  return EXIT_OK;
}

/* An id past the vocabulary would be refused in the middle of a step. */
static int check_vocabulary(const train_run *run) {
  int vocab = attend_trainer_config(run->learner)->vocab;
  int tokens = attend_tokenizer_count(run->tokenizer);
  if (tokens <= vocab) return EXIT_OK;
  complain(
      "the tokenizer has %d tokens and the model takes %d: they do not "
      "belong together",
      tokens, vocab);
  return EXIT_FAILED;
}

/* ---- the course ----------------------------------------------------------------------------------- */

static uint64_t every(long long given, uint64_t steps, uint64_t part) {
  if (given > 0) return (uint64_t)given;
  return steps / part ? steps / part : 1;
}

static int make_training(train_run *run) {
  const train_settings *s = run->s;
  uint64_t accumulate = s->accumulate ? (uint64_t)s->accumulate : 1;
  double epoch =
      (double)attend_batches_epoch(run->batches) / (double)accumulate;
  run->steps =
      s->epochs > 0 ? (uint64_t)ceil(s->epochs * epoch) : (uint64_t)s->steps;
  run->save_every = every(s->save_every, run->steps, 10);
  run->valid_every =
      every(s->valid_every ? s->valid_every : (long long)run->save_every, 1, 1);
  run->log_every = every(s->log_every, run->steps, 100);
  double rate = s->rate >= 0 ? s->rate : s->model ? 1e-4 : 1e-3;
  bool linear = s->schedule == ATTEND_LINEAR_RATE;
  uint64_t warmup = run->steps / 10 < 100 ? run->steps / 10 : 100;
  attend_training_options how = {
      .schedule = {.kind = s->schedule,
                   .rate = rate,
                   .least = s->least >= 0 ? s->least
                            : linear      ? 0
                                          : rate / 10,
                   .warmup = s->warmup >= 0 ? (uint64_t)s->warmup : warmup,
                   .steps = run->steps},
      .accumulate = (int)accumulate,
      .smoothing = (float)s->smoothing};
  TRY(run, attend_training_create(run->learner, run->optimizer, run->batches,
                                  &how, &run->training));
  return EXIT_OK;
}

void valid_digest(const train_run *run, char text[17]) {
  snprintf(text, 17, "%016llx",
           (unsigned long long)attend_corpus_digest(run->held));
}

static double noted(const attend_json *notes, const char *name,
                    double otherwise) {
  return attend_json_number(attend_json_get(notes, name), otherwise);
}

/* A run that was measured with nothing may be from now on. */
static bool is_same_valid(const train_run *run, const attend_json *notes) {
  const char *saved = attend_json_string(attend_json_get(notes, "valid"), NULL);
  char now[17] = "";
  if (run->held) valid_digest(run, now);
  return !saved || !strcmp(saved, now);
}

static int go_on(train_run *run, uint64_t step) {
  char name[STEP_NAME];
  attend_json *notes;
  step_name(step, name);
  char *path = path_of("%s/%s", run->s->out, name);
  attend_status status = attend_training_resume(run->training, path, &notes);
  free(path);
  TRY(run, status);
  if (!is_same_valid(run, notes)) {
    attend_json_free(notes);
    complain(
        "what %s was measured with has changed, so that its losses cannot be "
        "compared: give the same --valid files, or train %s/best on into "
        "another folder",
        run->s->out, run->s->out);
    return EXIT_USAGE;
  }
  run->tally = (train_tally){
      .best = noted(notes, "best", INFINITY),
      .best_step = (uint64_t)noted(notes, "best_step", 0),
      .worse = (int)noted(notes, "worse", 0),
      .loss = noted(notes, "loss_sum", 0),
      .seen = noted(notes, "loss_seen", 0),
      .tokens = noted(notes, "tokens", 0),
      .seconds = noted(notes, "seconds", 0),
      .work = noted(notes, "work_bytes", 0),
  };
  run->tally.ended = run->s->patience && run->tally.worse >= run->s->patience;
  attend_json_free(notes);
  if (run->s->resume_from) drop_later(run->s->out, step);
  return mend_links(run->s->out, step, isfinite(run->tally.best),
                    run->tally.best_step)
             ? EXIT_OK
             : EXIT_FAILED;
}

/* Before anything is learnt: a mean of one step is that step. */
static int check_average(const train_run *run) {
  if (!run->s->average || run->goes_on || run->steps > run->save_every)
    return EXIT_OK;
  complain(
      "%llu steps, saved every %llu, are one saved step: --average needs two, "
      "so choose a smaller --save-every",
      (unsigned long long)run->steps, (unsigned long long)run->save_every);
  return EXIT_USAGE;
}

/* Sizes and forms are those of the weights that were saved. */
static int check_same(const train_run *run) {
  if (!run->goes_on || !run->s->is_other) return EXIT_OK;
  complain(
      "%s was begun with another model: leave family, sizes, --copy and "
      "--attention as they were, or train %s/best on into another folder",
      run->s->out, run->s->out);
  return EXIT_USAGE;
}

/* ---- all of it ---------------------------------------------------------------------------------------- */

/* What the next steps are saved with is what the last was. */
static int check_base(const train_run *run, uint64_t step) {
  char name[STEP_NAME];
  step_name(step, name);
  char *folder = path_of("%s/%s", run->s->out, name);
  char *base = path_of("%s/base", run->s->out);
  attend_status status = attend_training_verify_beside(run->ctx, folder, base);
  free(folder);
  free(base);
  return status ? complain_status(run->ctx, status) : EXIT_OK;
}

static int open_all(train_run *run, int argc, char **argv) {
  uint64_t step = 0;
  GO(choose_step(run->ctx, run->s, &step, &run->goes_on));
  GO(check_out(run->s->out, run->s->resume, run->goes_on));
  GO(check_same(run));
  GO(read_roles(run));
  TRY(run, train_keep_words(run->ctx, run->s, argc, argv));
  if (run->goes_on) GO(check_base(run, step));
  GO(train_base(run));
  GO(open_weights(run, run->goes_on, step));
  GO(make_learner(run));
  run->task = task_of(run);
  GO(check_task(run));
  GO(check_length(run));
  GO(check_vocabulary(run));
  GO(read_texts(run));
  GO(make_batches(run));
  GO(make_training(run));
  GO(check_average(run));
  run->tally.best = INFINITY;
  if (run->goes_on) GO(go_on(run, step));
  run->begun = step;
  attend_status status =
      log_open(run->ctx, run->s->out, run->goes_on, step, &run->log);
  return status ? EXIT_FAILED : EXIT_OK;
}

int train_open(const train_settings *s, int argc, char **argv, train_run *run) {
  int code;
  *run = (train_run){.s = s, .lock = -1};
  run->ctx = options_context(&s->common, NULL, &code);
  if (code) return code;
  code = lock_folder(run);
  return code ? code : open_all(run, argc, argv);
}

void train_close(train_run *run) {
  log_close(&run->log);
  attend_training_free(run->training);
  attend_batches_free(run->batches);
  attend_batches_free(run->measured);
  attend_corpus_free(run->texts);
  attend_corpus_free(run->held);
  attend_optimizer_free(run->optimizer);
  attend_trainer_free(run->learner);
  attend_checkpoint_close(run->files);
  attend_tokenizer_free(run->tokenizer);
  attend_context_free(run->ctx);
  free(run->base);
  if (run->lock >= 0) close(run->lock);
}
