/* Texts and ids as a model reads them; names of tokens. */
#include "tokens.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { LABEL = 256 };

void token_words(struct argp_state *state, const model_options *model, token_source *from) {
  if (model->count > 2)
    argp_error(state, "at most two texts: put quotes around each, or leave \"%s\" away",
               model->words[2]);
  if (model->count && from->ids)
    argp_error(state, "give a text or --ids, not both: leave \"%s\" away", model->words[0]);
  if (!model->count && !from->ids) argp_error(state, "give a text, or token ids with --ids");
  if (from->decoder_ids && !from->ids) argp_error(state, "--decoder-ids needs --ids");
  if (from->ids) return;
  from->text = model->words[0];
  if (model->count > 1) from->second = model->words[1];
}

/* ---- reading ------------------------------------------------------------------------------ */

static int read_ids(const token_source *from, id_list *ids, id_list *decoder) {
  int code = input_ids(from->ids, ids);
  return code || !from->decoder_ids ? code : input_ids(from->decoder_ids, decoder);
}

static int make_of_ids(const model_opened *m, const token_source *from, token_text *t) {
  id_list ids = {0}, decoder = {0};
  attend_status status = ATTEND_OK;
  int code = read_ids(from, &ids, &decoder);
  attend_tokens x = {ATTEND_INIT(attend_tokens), .ids = ids.id, .n = ids.count};
  if (from->decoder_ids) x.decoder_ids = decoder.id, x.n_decoder = decoder.count;
  if (!code) status = attend_text_tokens_of_ids(m->model, m->tokenizer, &x, &t->made);
  free(ids.id);
  free(decoder.id);
  return status ? complain_status(m->ctx, status) : code;
}

static int make_of_text(const model_opened *m, const token_source *from, token_text *t) {
  const char *second = from->second;
  if (text_check("the text", from->text, strlen(from->text))) return EXIT_USAGE;
  if (second && text_check("the text", second, strlen(second))) return EXIT_USAGE;
  attend_status status =
      attend_text_tokens_create(m->model, m->tokenizer, from->text, second, &t->made);
  return status ? complain_status(m->ctx, status) : EXIT_OK;
}

int token_text_read(const model_opened *m, const token_source *from, token_text *t) {
  *t = (token_text){.mask = -1};
  int code = from->ids ? make_of_ids(m, from, t) : make_of_text(m, from, t);
  if (code) return code;
  t->tokens = *attend_text_tokens_get(t->made);
  t->mask = attend_text_tokens_mask(t->made);
  return EXIT_OK;
}

void token_text_free(token_text *t) {
  attend_text_tokens_free(t->made);
  *t = (token_text){0};
}

/* ---- names ---------------------------------------------------------------------------------- */

char *token_label(const model_opened *m, int32_t id) {
  char label[LABEL];
  if (m->tokenizer)
    attend_tokenizer_label(m->tokenizer, id, label, sizeof label);
  else
    snprintf(label, sizeof label, "%d", (int)id);
  return need_copy(label);
}

char **token_labels(const model_opened *m, const int32_t *ids, int n) {
  char **labels = need((size_t)n, sizeof *labels);
  for (int i = 0; i < n; i++) labels[i] = token_label(m, ids[i]);
  return labels;
}

void token_labels_free(char **labels, int n) {
  for (int i = 0; i < n; i++) free(labels[i]);
  free(labels);
}

/* The only token of a text, -1 if there are more, or none. */
static int32_t only_token(const model_opened *m, const char *text) {
  attend_encode_options how = {ATTEND_INIT(attend_encode_options), .no_special = true};
  attend_encoding *e = NULL;
  int32_t id = -1;
  attend_status status = attend_encoding_create(m->tokenizer, &e);
  if (!status) status = attend_encode(e, text, strlen(text), &how);
  if (!status && e->count == 1) id = e->id[0];
  attend_encoding_free(e);
  return id;
}

static int find_number(const model_opened *m, const char *text, int32_t *id) {
  const int vocab = attend_config_get(attend_model_config(m->model), ATTEND_CONFIG_VOCAB);
  char *end;
  long number = strtol(text, &end, 10);
  if (end != text && !*end && number >= 0 && number < vocab) {
    *id = (int32_t)number;
    return EXIT_OK;
  }
  complain("\"%s\" is no token: %s0 to %d", text,
           m->tokenizer ? "a text, or an id from #" : "ids are ", vocab - 1);
  return EXIT_USAGE;
}

int token_find(const model_opened *m, const char *name, const float *logits, int32_t *id) {
  if (!m->tokenizer) return find_number(m, name + (*name == '#'), id);
  if (*name == '#' && name[1]) return find_number(m, name + 1, id);
  if (text_check("the token", name, strlen(name))) return EXIT_USAGE;
  char *spaced = need(strlen(name) + 2, 1);
  *spaced = ' ';
  strcpy(spaced + 1, name);
  int32_t one = only_token(m, name), other = only_token(m, spaced);
  if (one < 0) one = attend_tokenizer_find(m->tokenizer, name, strlen(name));
  free(spaced);
  if (one < 0 || (other >= 0 && logits[other] > logits[one])) one = other;
  *id = one;
  if (one >= 0) return EXIT_OK;
  complain("\"%s\" is more than one token: attend tokenize shows them; name one, or its id as #464",
           name);
  return EXIT_USAGE;
}

static int place_of(const model_opened *m, const target_source *from, const token_text *t,
                    int *position) {
  const int rows = attend_tokens_rows(m->model, &t->tokens);
  *position = from->position;
  if (from->position == INT_MIN) *position = t->mask >= 0 ? t->mask : rows - 1;
  if (*position < 0) *position += rows;
  if (*position >= 0 && *position < rows) return EXIT_OK;
  complain("--position %d: there are %d tokens, 0 to %d", from->position, rows, rows - 1);
  return EXIT_USAGE;
}

int target_find(const model_opened *m, const target_source *from, const token_text *t,
                const float *before, attend_target *target) {
  const size_t vocab =
      (size_t)attend_config_get(attend_model_config(m->model), ATTEND_CONFIG_VOCAB);
  *target = (attend_target){-1, -1, -1};
  int code = place_of(m, from, t, &target->position);
  if (code) return code;
  const float *row = before + (size_t)target->position * vocab;
  if (from->target) code = token_find(m, from->target, row, &target->token);
  if (!code && from->against) code = token_find(m, from->against, row, &target->against);
  if (code) return code;
  attend_status status =
      attend_target_resolve(m->model, attend_tokens_rows(m->model, &t->tokens), before, target);
  return status ? complain_status(m->ctx, status) : EXIT_OK;
}

bool has_logits(const model_opened *m) {
  if (attend_checkpoint_has_head(m->files)) return true;
  complain(
      "%s has no head, so it predicts no tokens: choose a model with a language-modelling "
      "head",
      m->name);
  return false;
}
