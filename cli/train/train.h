/* attend train: what was asked for, and a run of it.
 *
 * train_options.c and train_words.c read it, train_run.c makes the run ready
 * (train_base.c, train_tokens.c), train_loop.c runs it, train_log.c writes what
 * happened, train_folder.c keeps the saved steps, train_average.c takes the mean of
 * them.
 *
 * A run's folder:
 *   run.json         how it was asked for
 *   base/            config.json and the tokenizer, which go with every step
 *   step-00000500/   saved steps: whole models, the last two with what goes on from
 *                    them, and digests of all their files
 *   best, last       links to two of them
 *   average/         the mean of the last, a model too, if it was asked for
 *   log.jsonl        a line of numbers now and then
 *   loss.svg         the same as a picture
 */
#ifndef CLI_TRAIN_H
#define CLI_TRAIN_H

#include <stdio.h>

#include "attend/training.h"
#include "folders.h"
#include "options.h"

typedef struct {
  const char **text;
  size_t count;
  int round; /* of parsing: a later one begins the list anew */
} word_list;

typedef struct {
  options common;
  int round;
  bool resume;
  bool resume_from; /* from_step, or the last that is not damaged */
  bool from_good;
  long long from_step;
  const char *out, *model, *tokenizer;
  word_list data, valid;
  double valid_share;
  const char *field, *answer_field;
  const char *task;         /* causal, masked, pairs; NULL: by the model */
  attend_architecture made; /* from nothing */
  bool is_made;             /* some of it was given */
  bool is_other;            /* than what the run was begun with */
  const char *roles;        /* where its attention is; NULL: everywhere */
  attend_weights weights;
  bool recompute;
  double dropout;
  int batch, length, target_length, accumulate;
  long long steps;
  double epochs;
  attend_schedule_kind schedule;
  double rate, least; /* negative: by default */
  long long warmup;   /* negative: by default */
  attend_optimizer_options optimizer;
  double smoothing, mask_share;
  long long save_every, valid_every, log_every;
  long long valid_lessons; /* 0: all */
  long long keep;          /* 0: all */
  int patience;            /* 0: none */
  int average;             /* of so many saved steps in the end; 0: none */
  bool save_bf16;
  names kept; /* words of run.json, which others here point to */
} train_settings;

train_settings train_defaults(void);
extern const struct argp train_argp; /* its input is a train_settings */

/* Every round of parsing: what the run was begun with, and gone on with, if it
 * goes on; and what is given now. An exit code. */
int train_parse(int argc, char **argv, train_settings *s);
void train_forget(train_settings *s);
/* run.json: what train_parse finds again. What is given to a run that goes on
 * comes behind what it was begun with. */
attend_status train_keep_words(attend_context *ctx, const train_settings *s,
                               int argc, char **argv);

/* ---- saved steps (train_folder.c) ------------------------------------------------ */

enum { STEP_NAME = 32 };
void step_name(uint64_t step, char name[STEP_NAME]); /* "step-00000500" */
/* The steps saved in a run's folder, in order; those alone that can be gone on
 * from, or all. The caller frees it. */
size_t steps_saved(const char *out, bool resumable, uint64_t **steps);
/* out/name leads to a step's folder: one link or the other, never none. */
bool link_step(const char *out, const char *name, uint64_t step);
/* The step that a link leads to; false: there is none. */
bool linked_step(const char *out, const char *name, uint64_t *step);
/* A run may have been killed between a saved step and the links to it. */
bool mend_links(const char *out, uint64_t last, bool has_best, uint64_t best);
/* An exit code: whether a run may begin there, or go on. */
int check_out(const char *out, bool resume, bool goes_on);
/* The step that a run goes on from, whose files are what was saved; *goes_on false:
 * there is none. An exit code. */
int choose_step(attend_context *ctx, const train_settings *s, uint64_t *step,
                bool *goes_on);
/* What is not needed any more once `newest` is saved: the moments of steps before
 * the last two, and whole steps beyond `keep` (0: none) but the first, the best and
 * the last. */
void thin_steps(const char *out, uint64_t newest, long long keep);
/* The steps after `last`, and a link to one of them. */
void drop_later(const char *out, uint64_t last);
/* What a run that was killed has left half done. */
void clear_leftovers(const char *out);

/* ---- what happened (train_log.c) --------------------------------------------------- */

typedef struct {
  double *x, *y;
  size_t count, capacity;
} curve;

typedef struct {
  attend_context *ctx;
  char *path, *picture;
  FILE *file;
  curve train, valid;
  double drawn; /* when the picture was last made */
} train_log;

/* Opens out/log.jsonl; what it says of steps after `step` is forgotten, and all if
 * the run begins. */
attend_status log_open(attend_context *ctx, const char *out, bool goes_on,
                       uint64_t step, train_log *log);
typedef struct {
  uint64_t step;
  double loss, rate, norm;
  double tokens, seconds; /* of the whole, with measuring and saving */
  /* Of learning alone, since the last line. */
  double step_s, speed;
  double bytes; /* that learning holds */
} log_line;
attend_status log_step(train_log *log, const log_line *line);
attend_status log_valid(train_log *log, uint64_t step, double loss, bool best);
/* To the disk, before a step that it goes with. */
attend_status log_keep(train_log *log);
/* Makes loss.svg, unless one was made in the last two seconds; at the end always. */
attend_status log_draw(train_log *log, bool now);
void log_close(train_log *log);

/* ---- a run (train_run.c) -------------------------------------------------------------- */

typedef struct { /* goes with every saved step */
  double best;   /* validation loss; INFINITY: none yet */
  uint64_t best_step;
  int worse;         /* validations since */
  double loss, seen; /* summed since the last line of the log */
  double tokens;     /* learnt from so far */
  double seconds;    /* that all of it took */
  double work;       /* bytes of activations, at the most */
  bool ended;        /* early */
} train_tally;

typedef struct {
  const train_settings *s;
  attend_context *ctx;
  char *base;
  attend_tokenizer *tokenizer;
  attend_checkpoint *files;
  attend_trainer *learner;
  attend_optimizer *optimizer;
  attend_corpus *texts, *held;
  attend_batches *batches, *measured; /* measured NULL: nothing was held back */
  attend_training *training;
  attend_task task;
  unsigned roles; /* that --attention is for; 0: all */
  uint64_t steps; /* to be taken in all */
  uint64_t save_every, valid_every, log_every;
  bool goes_on;
  uint64_t begun; /* the step that this process started from */
  train_tally tally;
  int averaged; /* steps that average/ is the mean of; 0: there is none */
  double average_valid;
  train_log log;
  double started;
  int lock;
} train_run;

/* Of the texts that were held back. */
void valid_digest(const train_run *run, char text[17]);
int train_open(const train_settings *s, int argc, char **argv, train_run *run);
void train_close(train_run *run);

/* base/ and the tokenizer in it; train_base.c. An exit code. */
int train_base(train_run *run);
/* Its files into another folder. An exit code. */
int train_copy_base(train_run *run, const char *folder);
/* A token of the tokenizer, or another; -1: it has neither. */
int train_special(const train_run *run, attend_special which,
                  attend_special otherwise);
/* Into a folder; train_tokens.c. An exit code. */
int learn_tokenizer(const train_run *run, const char *folder);

/* ---- the loop (train_loop.c) ------------------------------------------------------------ */

int train_loop(train_run *run);
/* The loss on what was held back. An exit code. */
int train_measure(train_run *run, double *loss);

/* ---- the mean of the last steps (train_average.c) ---------------------------------------- */

/* The learner has it afterwards. An exit code. */
int train_average(train_run *run);

#endif
