/* attend train: its settings, and a training run.
 *
 * options.c parses them and words.c saves and reads them again (run.json), run.c opens
 * model and data, loop.c trains with attend/train.h and prints.
 *
 * What attend/train.h writes into the folder of the run, and in addition
 *   run.json         the command line
 *   base/            config.json and the tokenizer, which every step includes
 *   loss.svg         log.jsonl as a plot
 */
#ifndef CLI_TRAIN_H
#define CLI_TRAIN_H

#include "attend/train.h"
#include "folders.h"
#include "options.h"

typedef struct {
  options common;
  bool resume;
  bool resume_from; /* from_step, or the last that is not damaged */
  bool from_good;
  long long from_step;
  const char *out, *model, *tokenizer;
  text_list data, valid;
  double valid_share;
  const char *field, *answer_field;
  const char *task;         /* causal, masked, pairs; NULL: by the model */
  attend_architecture made; /* from nothing */
  unsigned is_made;         /* some of it was given */
  bool untied;
  bool is_other;     /* than what the run was begun with */
  const char *roles; /* where its attention is; NULL: everywhere */
  int weights_bf16;
  int bf16; /* products and activations */
  bool recompute;
  double dropout;
  int batch, length, target_length, accumulate;
  long long steps;
  double epochs;
  attend_schedule_kind schedule;
  double rate, min; /* negative: by default */
  long long warmup; /* negative: by default */
  attend_optimizer_options optimizer;
  double smoothing, mask_share;
  long long save_every, valid_every, log_every;
  long long valid_batches; /* 0: all */
  long long keep;          /* 0: all */
  int patience;            /* 0: none */
  int average;             /* of so many saved steps in the end; 0: none */
  int save_bf16;
  names kept; /* words of run.json, which others here point to */
} train_settings;

train_settings train_defaults(void);
extern const verb_options verb_train; /* of a train_settings */

/* Parses the saved command lines of a run that resumes, then the current one. An exit
 * code. */
int train_parse(int argc, char **argv, train_settings *s);
void train_forget(train_settings *s);
/* Writes run.json, which train_parse reads; a resumed run appends to it. */
attend_status train_keep_words(attend_context *ctx, const train_settings *s, int argc, char **argv);

/* ---- a run (run.c) -------------------------------------------------------------------- */

typedef struct {
  const train_settings *s;
  attend_context *ctx;
  char *base;
  attend_tokenizer *tokenizer;
  attend_checkpoint *files;
  attend_trainer *trainer;
  attend_optimizer *optimizer;
  attend_corpus *texts, *held;
  attend_batches *batches, *valid; /* valid NULL: nothing was held back */
  attend_fit *fit;
  attend_task task;
  unsigned roles; /* that --attention is for; 0: all */
  bool resumes;
  attend_training_run *log; /* for loss.svg; NULL: not drawn yet */
  bool validates;           /* a validation is shown */
  double drawn, shown;      /* when loss.svg and the terminal's line were */
  bool failed;              /* loss.svg cannot be written */
} train_run;

/* ---- training, shown (loop.c) ---------------------------------------------------------- */

/* What happens in a step goes to the terminal and into loss.svg; user: a train_run. */
void train_report(const attend_fit_report *report, void *user);
int train_progress(double done, const char *what, void *user);
int train_loop(train_run *run);

#endif
