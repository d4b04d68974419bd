/* Opening the model that a verb runs, and the options of it.
 *
 * Every verb that runs a model has option_rows_model among its parts. If its arguments are
 * [MODEL] [WORD...], model_words reads them, and option_rows_model_name is among its parts too.
 *
 * One rule says which of the arguments is the model. With --model all of them are texts (or
 * files). Otherwise the first one is the model if it is a folder, begins with attend:, hf: or
 * npm:, or is a file of a model or tokenizer. Otherwise no model was named, and there is a
 * default. A first argument that looks like the name of a model (gpt2, bert-base-uncased,
 * runs/best) or is a file where a text belongs is refused with a sentence that says what to
 * write.
 */
#ifndef CLI_MODEL_OPEN_H
#define CLI_MODEL_OPEN_H

#include "attend/model.h"
#include "attend/text.h"
#include "options.h"

/* What the verb does with the model: chooses the default. */
typedef enum {
  MODEL_GENERATES,  /* attend:gutenberg */
  MODEL_SUMMARIZES, /* attend:summarizer */
  MODEL_EMBEDS,     /* an encoder that was pulled */
  MODEL_FILLS,      /* an encoder with a masked-LM head that was pulled */
  MODEL_READS_PAIRS /* as MODEL_EMBEDS */
} model_use;

/* What the arguments after MODEL are. */
typedef enum { MODEL_TAKES_TEXTS, MODEL_TAKES_FILES, MODEL_TAKES_NOTHING } model_takes;

typedef struct {
  const char *path; /* a folder, hf:owner/name or npm:package; NULL: the default */
  model_use use;
  model_takes takes;
  bool file;             /* the verb has --file, for texts */
  const char *attention; /* a form; NULL: that of its config.json */
  const char *roles;     /* roles that have this form; NULL: all */
  attend_weights weights;
  const char *weights_given; /* NULL: not */
  int bf16;                  /* activations */
  bool no_head;              /* the verb needs only hidden states */
  bool text;                 /* the verb needs the tokenizer */
  char **words;              /* [count], the arguments after MODEL */
  int count;
} model_options;

/* --attention, --attention-roles, --weights, --precision: they store into a model_options. */
extern const option_row option_rows_model[];

/* --model, for verbs whose first argument may be the model. */
extern const option_row option_rows_model_name[];

/* Reads [MODEL] [WORD...]; for the function `finish` of a verb. */
void model_words(struct argp_state *state, char **words, int count, model_options *o);

/* Parses --attention and --attention-roles; *form is unchanged where none is given. */
attend_status model_form(attend_context *ctx, const model_options *o, attend_form *form,
                         unsigned *roles);

typedef struct {
  attend_context *ctx;
  char *name; /* as it was given, or the default */
  char *path; /* on disk */
  attend_checkpoint *files;
  attend_form form; /* --attention, or that of config.json */
  unsigned roles;   /* that --attention is for; 0: all */
  attend_model *model;
  attend_tokenizer *tokenizer; /* NULL unless requested */
  double seconds;              /* of loading */
} model_opened;

/* Loads it, with progress. Returns an exit code; call model_close after any. */
int model_open(const options *common, const model_options *o, model_opened *m);
void model_close(model_opened *m);

/* ---- names and paths ---- */

/* The name that was given, or the default, which it prints. The caller frees it. NULL after an
 * error message; *code is then the exit code. */
char *model_name(const model_options *o, int *code);
/* A pulled model made for embeddings of sentences; NULL: there is none. */
const char *model_for_sentences(void);

/* attend_model_find (attend/model.h) for a command line: the caller frees the path. NULL
 * after an error message; *code is then the exit code. */
char *model_path(const char *given, int *code);
/* The same without a message: NULL if the model is not on this machine. */
char *model_path_if_pulled(const char *given);

#endif
