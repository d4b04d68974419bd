/* What a model reads on the command line, text or ids, and what its tokens are called: for
 * attend intervene and attend attribute. */
#ifndef CLI_TOKENS_H
#define CLI_TOKENS_H

#include "attend/intervene.h"
#include "model_open.h"
#include "text.h"

typedef struct {
  const char *text, *second;     /* NULL: the ids */
  const char *ids, *decoder_ids; /* NULL: the texts */
} token_source;

typedef struct {
  attend_text_tokens *made;
  attend_tokens tokens; /* of these */
  int mask;             /* place of the first mask; -1: none */
} token_text;

/* The arguments after MODEL, at most two texts, where ids are not given. */
void token_words(struct argp_state *state, const model_options *model, token_source *from);
/* Tokens of a text or of ids (attend_text_tokens_create). Returns an exit code; call token_text_free after any. */
int token_text_read(const model_opened *m, const token_source *from, token_text *t);
void token_text_free(token_text *t);

/* "·dog"; without a tokenizer the id. Both to be freed. */
char *token_label(const model_opened *m, int32_t id);
char **token_labels(const model_opened *m, const int32_t *ids, int n);
void token_labels_free(char **labels, int n);

/* The id of a token: "#464", or a text that is one token; of "dog" and " dog" the one with the
 * larger logit [V]. An exit code. */
int token_find(const model_opened *m, const char *name, const float *logits, int32_t *id);
/* --target, --against, --position (INT_MIN: the default, the mask's or the last row). before:
 * [rows][V]. An exit code. */
typedef struct {
  const char *target, *against;
  int position;
} target_source;
int target_find(const model_opened *m, const target_source *from, const token_text *t,
                const float *before, attend_target *target);
/* Whether the model has logits; otherwise an error message. */
bool has_logits(const model_opened *m);

#endif
