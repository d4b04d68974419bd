/* A training run: its folder, base, model, texts and batches; attend/train.h trains. */
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "attend/problem.h"
#include "attend/text_train.h"
#include "model_open.h"
#include "progress.h"
#include "text.h"
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

/* ---- the folder ------------------------------------------------------------------------ */

/* A base/ that is not a run's is not replaced. */
static int open_folder(train_run *run) {
  const train_settings *s = run->s;
  attend_fit_start start = s->from_good     ? ATTEND_FIT_LAST_GOOD
                           : s->resume_from ? ATTEND_FIT_STEP
                           : s->resume      ? ATTEND_FIT_RESUME
                                            : ATTEND_FIT_NEW;
  TRY(run, attend_fit_open(run->ctx, s->out, start, (uint64_t)s->from_step, &run->fit));
  run->resumes = attend_fit_checkpoint(run->fit) != NULL;
  run->base = path_of("%s/base", s->out);
  char *words = path_of("%s/run.json", s->out);
  bool other = !run->resumes && file_bytes(words) < 0 &&
               (is_folder(run->base) || file_bytes(run->base) >= 0);
  free(words);
  if (other) {
    complain("%s is in the way: choose another --out", run->base);
    return EXIT_USAGE;
  }
  if (!run->resumes || !s->is_other) return EXIT_OK;
  /* Sizes and forms are those of the weights that were saved. */
  complain(
      "%s was begun with another model: leave family, sizes, --copy and --attention as they were, "
      "or train %s/best on into another folder",
      s->out, s->out);
  return EXIT_USAGE;
}

/* ---- the base -------------------------------------------------------------------------- */

static int feed_data(const train_run *run, attend_text_trainer *trainer) {
  const train_settings *s = run->s;
  char *fields[2];
  text_source source = {.ctx = run->ctx, .field = fields};
  if (s->field) fields[source.fields++] = (char *)s->field;
  if (s->answer_field) fields[source.fields++] = (char *)s->answer_field;
  return text_train(&source, (char **)s->data.text, (int)s->data.count, trainer);
}

/* A tokenizer for a new model, trained on the model's data. */
static int train_tokenizer(const train_run *run, const char *folder) {
  static const char *const like[] = {"gpt2", "bert", "bart", "llama"};
  const attend_architecture *made = &run->s->made;
  attend_text_train_options how = {ATTEND_INIT(attend_text_train_options),
                                   .vocab = made->vocab ? made->vocab : 4096,
                                   .progress = progress_report};
  attend_text_trainer *trainer;
  if (made->family && !strcmp(made->family, "t5")) how.like = ATTEND_LIKE_BART;
  for (int i = 0; made->family && i < ATTEND_LIKES; i++)
    if (!strcmp(made->family, like[i])) how.like = (attend_like)i;
  TRY(run, attend_text_trainer_create(run->ctx, &how, &trainer));
  int code = feed_data(run, trainer);
  if (!code) {
    progress_start("learning pieces", 0);
    attend_status status = attend_text_trainer_learn(trainer);
    progress_end();
    if (!status) status = attend_text_trainer_save(trainer, folder);
    if (status) code = complain_status(run->ctx, status);
  }
  attend_text_trainer_free(trainer);
  return code;
}

static int create_base(const train_run *run, const char *model, const char *tokenizer) {
  attend_architecture made = run->s->made;
  attend_base_options how = {ATTEND_INIT(attend_base_options)};
  made.roles = run->roles;
  if (!made.positions) made.positions = run->s->length;
  how.model = model;
  how.tokenizer = tokenizer;
  how.made = &made;
  TRY(run, attend_base_create(run->ctx, run->base, &how));
  return EXIT_OK;
}

static int make_base(const train_run *run) {
  const train_settings *s = run->s;
  int code = EXIT_OK;
  char *model = s->model ? model_path(s->model, &code) : NULL;
  char *tokenizer = s->tokenizer && !code ? model_path(s->tokenizer, &code) : NULL;
  char *trained = model || tokenizer || code ? NULL : path_of("%s/.tokenizer.part", s->out);
  if (trained) code = train_tokenizer(run, trained);
  if (!code) code = create_base(run, model, trained ? trained : tokenizer);
  if (trained) folder_remove(trained);
  free(trained);
  free(tokenizer);
  free(model);
  return code;
}

/* A run without a checkpoint begins anew: its options may have changed. One that resumes
 * must include the same files in its next checkpoints. */
static int open_base(train_run *run) {
  const char *from = attend_fit_checkpoint(run->fit);
  if (from) TRY(run, attend_training_verify_beside(run->ctx, from, run->base));
  if (!run->resumes) folder_remove(run->base);
  if (!is_folder(run->base)) GO(make_base(run));
  TRY(run, attend_tokenizer_load(run->ctx, run->base, &run->tokenizer));
  return EXIT_OK;
}

/* ---- the trainer ----------------------------------------------------------------------- */

static int open_weights(train_run *run) {
  const train_settings *s = run->s;
  const char *from = attend_fit_checkpoint(run->fit);
  int code = EXIT_OK;
  char *path = from || !s->model ? NULL : model_path(s->model, &code);
  if (code) return code;
  attend_status status =
      from || path ? attend_checkpoint_open(run->ctx, from ? from : path, &run->files)
                   : attend_checkpoint_init(run->ctx, run->base, s->common.seed, &run->files);
  free(path);
  TRY(run, status);
  return EXIT_OK;
}

static int make_trainer(train_run *run) {
  const train_settings *s = run->s;
  attend_form form = {0};
  const char *attention = s->made.attention;
  if (attention) TRY(run, attend_form_parse(run->ctx, attention, &form));
  attend_trainer_options how = {
      ATTEND_INIT(attend_trainer_options),
      .form = attention ? &form : NULL,
      .roles = run->roles,
      .weights = s->weights_bf16 || s->bf16 ? ATTEND_WEIGHTS_MIXED : ATTEND_WEIGHTS_F32,
      .activations = s->bf16 ? ATTEND_BF16 : ATTEND_F32,
      .recompute = s->recompute,
      .dropout = (float)s->dropout,
      .seed = s->common.seed};
  TRY(run, attend_trainer_create(run->files, &how, &run->trainer));
  attend_optimizer_options optimizer = s->optimizer;
  optimizer.beta1 = zero_or(optimizer.beta1);
  optimizer.beta2 = zero_or(optimizer.beta2);
  for (int i = 0; i < ATTEND_GROUPS; i++) optimizer.decay[i] = zero_or(optimizer.decay[i]);
  if (optimizer.clip == 0) optimizer.clip = INFINITY;
  TRY(run, attend_optimizer_create(run->trainer, &optimizer, &run->optimizer));
  return EXIT_OK;
}

/* ---- the texts ------------------------------------------------------------------------- */

static attend_task task_of(const train_run *run) {
  static const char *const tasks[] = {"causal", "masked", "pairs"};
  attend_parts parts = attend_config_parts(attend_trainer_config(run->trainer));
  for (int i = 0; run->s->task && i < 3; i++)
    if (!strcmp(tasks[i], run->s->task)) return (attend_task)i;
  if (parts == ATTEND_BOTH) return ATTEND_LEARN_PAIRS;
  if (parts == ATTEND_ENCODER) return ATTEND_LEARN_MASKED;
  return path_ends(run->s->data.text[0], ".tsv") ? ATTEND_LEARN_PAIRS : ATTEND_LEARN_CAUSAL;
}

static int longest(const train_run *run) {
  int positions = attend_config_get(attend_trainer_config(run->trainer), ATTEND_CONFIG_POSITIONS);
  if (run->s->length) return run->s->length;
  return positions && positions < 256 ? positions : 256;
}

/* An id past the vocabulary would be refused in the middle of a step. */
static int check_model(const train_run *run) {
  static const char *const sides[] = {"", "an encoder", "a decoder", "an encoder-decoder"};
  const attend_config *c = attend_trainer_config(run->trainer);
  int tokens = attend_tokenizer_count(run->tokenizer);
  bool fits = run->task == ATTEND_LEARN_PAIRS    ? attend_config_parts(c) != ATTEND_ENCODER
              : run->task == ATTEND_LEARN_MASKED ? attend_config_parts(c) == ATTEND_ENCODER
                                                 : attend_config_parts(c) == ATTEND_DECODER;
  if (!fits)
    complain("%s cannot learn the task %s", sides[attend_config_parts(c)],
             run->s->task ? run->s->task : "asked for");
  else if (attend_config_get(c, ATTEND_CONFIG_POSITIONS) &&
           longest(run) > attend_config_get(c, ATTEND_CONFIG_POSITIONS))
    complain(
        "texts of %d tokens are longer than the %d that the model can take: choose a smaller "
        "--length",
        longest(run), attend_config_get(c, ATTEND_CONFIG_POSITIONS));
  else if (tokens > attend_config_get(c, ATTEND_CONFIG_VOCAB))
    return complain(
        "the tokenizer has %d tokens and the model takes %d: they do not belong together", tokens,
        attend_config_get(c, ATTEND_CONFIG_VOCAB));
  else
    return EXIT_OK;
  return EXIT_USAGE;
}

static int special(const train_run *run, attend_special which, attend_special otherwise) {
  int id = attend_tokenizer_special(run->tokenizer, which);
  return id >= 0 ? id : attend_tokenizer_special(run->tokenizer, otherwise);
}

/* A decoder reads pairs as one text. */
static int read_files(train_run *run, const text_list *files, attend_corpus *to) {
  const train_settings *s = run->s;
  bool masked = run->task == ATTEND_LEARN_MASKED;
  attend_parts parts = attend_config_parts(attend_trainer_config(run->trainer));
  bool joined = parts == ATTEND_DECODER;
  size_t length = (size_t)longest(run);
  size_t target = s->target_length ? (size_t)s->target_length : joined ? length / 2 : length;
  attend_corpus_options how = {ATTEND_INIT(attend_corpus_options),
                               .tokenizer = run->tokenizer,
                               .task = run->task,
                               .parts = parts,
                               .end = masked ? special(run, ATTEND_SPECIAL_SEP, ATTEND_SPECIAL_EOS)
                                             : special(run, ATTEND_SPECIAL_EOS, ATTEND_SPECIAL_SEP),
                               .field = s->field,
                               .answer_field = s->answer_field,
                               .source_length = !joined           ? length
                                                : length > target ? length - target
                                                                  : 1,
                               .target_length = target,
                               .progress = progress_report};
  for (size_t i = 0; i < files->count; i++) {
    int code = text_check_file(run->ctx, files->text[i]);
    if (code) return code;
    progress_start("reading", 0);
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

static int make_batches(train_run *run) {
  const train_settings *s = run->s;
  const attend_config *c = attend_trainer_config(run->trainer);
  attend_batch_options how = {ATTEND_INIT(attend_batch_options),
                              .task = run->task,
                              .parts = attend_config_parts(c),
                              .batch = s->batch,
                              .length = longest(run),
                              .seed = s->common.seed,
                              .start = attend_config_get(c, ATTEND_CONFIG_DECODER_START) >= 0
                                           ? attend_config_get(c, ATTEND_CONFIG_DECODER_START)
                                           : attend_config_get(c, ATTEND_CONFIG_BOS),
                              .pad = attend_config_get(c, ATTEND_CONFIG_PAD),
                              .mask = attend_tokenizer_special(run->tokenizer, ATTEND_SPECIAL_MASK),
                              .cls = attend_tokenizer_special(run->tokenizer, ATTEND_SPECIAL_CLS),
                              .sep = attend_tokenizer_special(run->tokenizer, ATTEND_SPECIAL_SEP),
                              .vocab = attend_config_get(c, ATTEND_CONFIG_VOCAB),
                              .mask_share = (float)s->mask_share};
  TRY(run, attend_batches_create(run->texts, &how, &run->batches));
  if (!run->held) return EXIT_OK;
  how.in_order = 1;
  TRY(run, attend_batches_create(run->held, &how, &run->valid));
  return EXIT_OK;
}

/* ---- the fit --------------------------------------------------------------------------- */

static attend_schedule schedule_of(const train_run *run) {
  const train_settings *s = run->s;
  double accumulate = s->accumulate ? s->accumulate : 1;
  double epoch = (double)attend_batches_epoch(run->batches) / accumulate;
  uint64_t steps = s->epochs > 0 ? (uint64_t)ceil(s->epochs * epoch) : (uint64_t)s->steps;
  double rate = s->rate >= 0 ? s->rate : s->model ? 1e-4 : 1e-3;
  double min = s->schedule == ATTEND_LINEAR_RATE ? 0 : rate / 10;
  uint64_t warmup = steps / 10 < 100 ? steps / 10 : 100;
  return (attend_schedule){.kind = s->schedule,
                           .rate = rate,
                           .min = s->min >= 0 ? s->min : min,
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

static int open_run(train_run *run, int argc, char **argv) {
  GO(open_folder(run));
  if (run->s->roles) TRY(run, attend_roles_parse(run->ctx, run->s->roles, &run->roles));
  TRY(run, train_keep_words(run->ctx, run->s, argc, argv));
  GO(open_base(run));
  GO(open_weights(run));
  GO(make_trainer(run));
  run->task = task_of(run);
  GO(check_model(run));
  GO(read_texts(run));
  GO(make_batches(run));
  return begin(run);
}

static void close_run(train_run *run) {
  attend_training_run_free(run->log);
  attend_fit_free(run->fit);
  attend_batches_free(run->batches);
  attend_batches_free(run->valid);
  attend_corpus_free(run->texts);
  attend_corpus_free(run->held);
  attend_optimizer_free(run->optimizer);
  attend_trainer_free(run->trainer);
  attend_checkpoint_free(run->files);
  attend_tokenizer_free(run->tokenizer);
  attend_context_free(run->ctx);
  free(run->base);
}

int cmd_train(int argc, char **argv) {
  train_settings settings;
  train_run run = {.s = &settings};
  signal(SIGXFSZ, SIG_IGN); /* a full disk is an error, not a signal */
  signal(SIGPIPE, SIG_IGN); /* a closed output does not end the training */
  int code = train_parse(argc, argv, &settings);
  if (!code) run.ctx = options_context(&settings.common, NULL, &code);
  if (!code) code = open_run(&run, argc, argv);
  if (!code) code = train_loop(&run);
  close_run(&run);
  train_forget(&settings);
  return code;
}
