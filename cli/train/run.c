/* Opening a training run: folder, model, texts, batches. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "attend/problem.h"
#include "folders.h"
#include "model_open.h"
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

static bool has_in(const char *out, const char *name) {
  char *path = path_of("%s/%s", out, name);
  bool there = file_bytes(path) >= 0 || is_folder(path);
  free(path);
  return there;
}

/* base/ of somebody else is not replaced. */
static int check_out(const train_run *run) {
  const char *out = run->s->out;
  if (run->resumes || !has_in(out, "base") || has_in(out, "run.json")) return EXIT_OK;
  complain("%s/base is in the way: choose another --out", out);
  return EXIT_USAGE;
}

static int open_folder(train_run *run) {
  const train_settings *s = run->s;
  attend_fit_start start = s->from_good     ? ATTEND_FIT_LAST_GOOD
                           : s->resume_from ? ATTEND_FIT_STEP
                           : s->resume      ? ATTEND_FIT_RESUME
                                            : ATTEND_FIT_NEW;
  TRY(run, attend_fit_open(run->ctx, s->out, start, (uint64_t)s->from_step, &run->fit));
  run->resumes = attend_fit_checkpoint(run->fit) != NULL;
  return check_out(run);
}

/* ---- the weights ------------------------------------------------------------------------- */

static int open_weights(train_run *run) {
  const train_settings *s = run->s;
  const char *from = attend_fit_checkpoint(run->fit);
  int code = EXIT_OK;
  char *path = from       ? need_copy(from)
               : s->model ? model_path(s->model, &code)
                          : need_copy(run->base);
  if (code) return code;
  attend_status status = from || s->model
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

static int make_trainer(train_run *run) {
  const train_settings *s = run->s;
  attend_form form = {0};
  const char *attention = s->made.attention;
  if (attention) TRY(run, attend_form_parse(run->ctx, attention, &form));
  attend_trainer_options how = {ATTEND_INIT(attend_trainer_options),
                                .form = attention ? &form : NULL,
                                .roles = run->roles,
                                .weights = s->weights,
                                .recompute = s->recompute,
                                .dropout = (float)s->dropout,
                                .seed = s->common.seed};
  TRY(run, attend_trainer_create(run->files, &how, &run->trainer));
  TRY(run, attend_optimizer_create(run->trainer, &s->optimizer, &run->optimizer));
  return EXIT_OK;
}

/* ---- the texts ------------------------------------------------------------------------------- */

static attend_task task_of(const train_run *run) {
  static const char *const tasks[] = {"causal", "masked", "pairs"};
  attend_parts parts = attend_trainer_config(run->trainer)->parts;
  for (int i = 0; run->s->task && i < 3; i++)
    if (!strcmp(tasks[i], run->s->task)) return (attend_task)i;
  if (parts == ATTEND_BOTH) return ATTEND_LEARN_PAIRS;
  if (parts == ATTEND_ENCODER) return ATTEND_LEARN_MASKED;
  return path_ends(run->s->data.text[0], ".tsv") ? ATTEND_LEARN_PAIRS : ATTEND_LEARN_CAUSAL;
}

static int check_task(const train_run *run) {
  attend_parts parts = attend_trainer_config(run->trainer)->parts;
  static const char *const sides[] = {"", "an encoder", "a decoder", "an encoder-decoder"};
  bool fits = run->task == ATTEND_LEARN_PAIRS    ? parts != ATTEND_ENCODER
              : run->task == ATTEND_LEARN_MASKED ? parts == ATTEND_ENCODER
                                                 : parts == ATTEND_DECODER;
  if (fits) return EXIT_OK;
  complain("%s cannot learn the task %s", sides[parts], run->s->task ? run->s->task : "asked for");
  return EXIT_USAGE;
}

static int longest(const train_run *run) {
  int positions = attend_trainer_config(run->trainer)->positions;
  if (run->s->length) return run->s->length;
  return positions && positions < 256 ? positions : 256;
}

static int check_length(const train_run *run) {
  int positions = attend_trainer_config(run->trainer)->positions;
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

static int read_files(train_run *run, const word_list *files, attend_corpus *to) {
  const train_settings *s = run->s;
  bool masked = run->task == ATTEND_LEARN_MASKED;
  size_t length = (size_t)longest(run);
  size_t target = s->target_length ? (size_t)s->target_length : length;
  attend_parts parts = attend_trainer_config(run->trainer)->parts;
  bool joined = parts == ATTEND_DECODER;
  if (joined && !s->target_length) target = length / 2;
  attend_corpus_options how = {
      ATTEND_INIT(attend_corpus_options),
      .tokenizer = run->tokenizer,
      .task = run->task,
      .parts = parts,
      .end = masked ? train_special(run, ATTEND_SPECIAL_SEP, ATTEND_SPECIAL_EOS)
                    : train_special(run, ATTEND_SPECIAL_EOS, ATTEND_SPECIAL_SEP),
      .field = s->field,
      .answer_field = s->answer_field,
      .source_length = joined ? (length > target ? length - target : 1) : length,
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
  if (share > 0) TRY(run, attend_corpus_split(run->texts, share, s->common.seed, &run->held));
  return EXIT_OK;
}

/* ---- the batches -------------------------------------------------------------------------------- */

static int make_batches(train_run *run) {
  const train_settings *s = run->s;
  const attend_config *c = attend_trainer_config(run->trainer);
  attend_batch_options how = {ATTEND_INIT(attend_batch_options),
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
  TRY(run, attend_batches_create(run->held, &how, &run->valid));
  return EXIT_OK;
}

/* An id past the vocabulary would be refused in the middle of a step. */
static int check_vocabulary(const train_run *run) {
  int vocab = attend_trainer_config(run->trainer)->vocab;
  int tokens = attend_tokenizer_count(run->tokenizer);
  if (tokens <= vocab) return EXIT_OK;
  complain(
      "the tokenizer has %d tokens and the model takes %d: they do not "
      "belong together",
      tokens, vocab);
  return EXIT_FAILED;
}

/* ---- training ------------------------------------------------------------------------------------- */

static attend_schedule schedule_of(const train_run *run) {
  const train_settings *s = run->s;
  double accumulate = s->accumulate ? s->accumulate : 1;
  double epoch = (double)attend_batches_epoch(run->batches) / accumulate;
  uint64_t steps = s->epochs > 0 ? (uint64_t)ceil(s->epochs * epoch) : (uint64_t)s->steps;
  double rate = s->rate >= 0 ? s->rate : s->model ? 1e-4 : 1e-3;
  bool linear = s->schedule == ATTEND_LINEAR_RATE;
  uint64_t warmup = steps / 10 < 100 ? steps / 10 : 100;
  return (attend_schedule){.kind = s->schedule,
                           .rate = rate,
                           .least = s->least >= 0 ? s->least
                                    : linear      ? 0
                                                  : rate / 10,
                           .warmup = s->warmup >= 0 ? (uint64_t)s->warmup : warmup,
                           .steps = steps};
}

static int begin(train_run *run) {
  const train_settings *s = run->s;
  attend_fit_options how = {ATTEND_INIT(attend_fit_options)};
  how.schedule = schedule_of(run);
  how.accumulate = s->accumulate;
  how.smoothing = (float)s->smoothing;
  how.base = run->base;
  how.valid = run->valid;
  how.valid_batches = (uint64_t)s->valid_batches;
  how.save_every = (uint64_t)s->save_every;
  how.valid_every = (uint64_t)s->valid_every;
  how.log_every = (uint64_t)s->log_every;
  how.keep = (uint64_t)s->keep;
  how.patience = s->patience;
  how.average = s->average;
  how.stored = s->save_bf16 ? ATTEND_STORED_BF16 : ATTEND_STORED_F32;
  how.report = train_report;
  how.progress = train_progress;
  how.user = run;
  TRY(run, attend_fit_begin(run->fit, run->trainer, run->optimizer, run->batches, &how));
  return EXIT_OK;
}

/* Sizes and forms are those of the weights that were saved. */
static int check_same(const train_run *run) {
  if (!run->resumes || !run->s->is_other) return EXIT_OK;
  complain(
      "%s was begun with another model: leave family, sizes, --copy and "
      "--attention as they were, or train %s/best on into another folder",
      run->s->out, run->s->out);
  return EXIT_USAGE;
}

/* ---- all of it ---------------------------------------------------------------------------------------- */

/* Before base/ is read: the next checkpoints must include the same files. */
static int check_base(const train_run *run) {
  const char *from = attend_fit_checkpoint(run->fit);
  char *base = path_of("%s/base", run->s->out);
  attend_status status = from ? attend_training_verify_beside(run->ctx, from, base) : ATTEND_OK;
  free(base);
  return status ? complain_status(run->ctx, status) : EXIT_OK;
}

static int open_all(train_run *run, int argc, char **argv) {
  GO(open_folder(run));
  GO(check_same(run));
  GO(read_roles(run));
  TRY(run, train_keep_words(run->ctx, run->s, argc, argv));
  GO(check_base(run));
  GO(train_base(run));
  GO(open_weights(run));
  GO(make_trainer(run));
  run->task = task_of(run);
  GO(check_task(run));
  GO(check_length(run));
  GO(check_vocabulary(run));
  GO(read_texts(run));
  GO(make_batches(run));
  return begin(run);
}

int train_open(const train_settings *s, int argc, char **argv, train_run *run) {
  int code;
  *run = (train_run){.s = s};
  run->ctx = options_context(&s->common, NULL, &code);
  return code ? code : open_all(run, argc, argv);
}

void train_close(train_run *run) {
  attend_training_run_close(run->log);
  attend_fit_close(run->fit);
  attend_batches_free(run->batches);
  attend_batches_free(run->valid);
  attend_corpus_free(run->texts);
  attend_corpus_free(run->held);
  attend_optimizer_free(run->optimizer);
  attend_trainer_free(run->trainer);
  attend_checkpoint_close(run->files);
  attend_tokenizer_free(run->tokenizer);
  attend_context_free(run->ctx);
  free(run->base);
}
