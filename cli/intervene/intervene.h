/* The verb intervene: what its files share. */
#ifndef CLI_INTERVENE_INTERVENE_H
#define CLI_INTERVENE_INTERVENE_H

#include "attend/intervene.h"
#include "options.h"
#include "scores.h"
#include "tokens.h"

typedef enum { MODE_ZERO = 0, MODE_MEAN, MODE_RESAMPLE } ablation_mode;
typedef enum { SWEEP_NONE = 0, SWEEP_HEADS, SWEEP_TOKENS } sweep_kind;

typedef struct {
  options common;
  model_options model;
  token_source input, from; /* from: --from, --from-ids */
  text_list ablate, patch, pin, steer;
  int mode; /* ablation_mode */
  const char *corpus, *steer_from, *minus;
  target_source target;
  const char *loss, *logits;
  int top, new_tokens;
  int sweep;  /* sweep_kind */
  int metric; /* 0: the default; attend_metric_kind + 1 */
  const char *point;
  int batch;
  score_output out;
} intervene_options;

/* ---- changes.c: the changes of the command line ------------------------------------------- */

typedef struct {
  attend_change *change; /* [n] */
  const char **kind;     /* [n] "ablate", .. */
  const char **place;    /* [n] as given */
  int n;
  token_text from;    /* --from */
  token_text *corpus; /* [n_corpus] */
  attend_tokens *corpus_tokens;
  int n_corpus;
  float **vectors; /* [n], of ADD */
} change_list;

/* An exit code; call changes_free after any. */
int changes_read(const model_opened *m, const intervene_options *o, change_list *list);
void changes_free(change_list *list);
/* Sets where the values of a change come from: the other text or the corpus. */
void change_sources(const change_list *list, attend_change *c);
attend_change_kind kind_of_mode(int mode);

/* ---- print.c ------------------------------------------------------------------------------- */

typedef struct {
  const model_opened *m;
  const intervene_options *o;
  token_text text;
  change_list changes;
  attend_intervention *made;
  float *before, *after; /* logits [rows][V], of models without head hidden states [rows][F] */
  int rows, width;       /* V or F */
  bool head;
  attend_target target;
  double value[2];  /* of the target, without changes and with them */
  double kl, state; /* NaN: not measured */
  double loss[2];   /* of the text; NaN: none */
  double file[2];   /* of --loss; NaN: none */
  char *written[2]; /* --generate; NULL: none */
} intervene_run;

int intervene_print(const intervene_run *r);

/* ---- sweep.c -------------------------------------------------------------------------------- */

int intervene_sweep(intervene_run *r);

#endif
