/* Texts and ids as a model reads them; names of tokens. */
#include "tokens.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "attend/generate.h"

enum { WRITTEN = 32 /* tokens that an encoder-decoder writes */, LABEL = 256 };

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

static attend_parts parts_of(const model_opened *m) {
  return attend_config_parts(attend_model_config(m->model));
}

/* The text with its masks spelled as the tokenizer does. The caller frees it. */
static char *spell_masks(const model_opened *m, const char *text) {
  static const char *const masks[] = {"[MASK]", "<mask>", "___"};
  int32_t id = attend_tokenizer_special(m->tokenizer, ATTEND_SPECIAL_MASK);
  const char *own = id < 0 ? NULL : attend_tokenizer_piece(m->tokenizer, id, NULL);
  const size_t n = own ? strlen(own) : 0;
  char *to = need(strlen(text) * (n ? n : 1) + 1, 1), *at = to;
  while (*text) {
    size_t found = 0;
    for (size_t i = 0; i < sizeof masks / sizeof *masks && own && !found; i++)
      if (!strncmp(text, masks[i], strlen(masks[i]))) found = strlen(masks[i]);
    if (!found) {
      *at++ = *text++;
      continue;
    }
    memcpy(at, own, n);
    at += n;
    text += found;
    while (*text == '_') text++;
  }
  return to;
}

static int encode(const model_opened *m, const char *text, const attend_encode_options *how,
                  id_list *ids, int32_t **types) {
  attend_encoding *e = NULL;
  if (text_check("the text", text, strlen(text))) return EXIT_USAGE;
  attend_status status = attend_encoding_create(m->tokenizer, &e);
  if (!status) status = attend_encode(e, text, strlen(text), how);
  for (size_t i = 0; !status && i < e->count; i++) id_list_add(ids, e->id[i]);
  if (!status && types) {
    *types = need(e->count + 1, sizeof **types);
    memcpy(*types, e->type, e->count * sizeof **types);
  }
  attend_encoding_free(e);
  return status ? complain_status(m->ctx, status) : EXIT_OK;
}

/* A decoder's prompt has no end token behind it, as in attend generate. */
static int encode_prompt(const model_opened *m, const char *text, id_list *ids) {
  attend_encoding *e = NULL;
  attend_prompt p;
  if (text_check("the text", text, strlen(text))) return EXIT_USAGE;
  attend_status status = attend_encoding_create(m->tokenizer, &e);
  if (!status) status = attend_prompt_encode(m->model, e, text, strlen(text), &p);
  for (int i = 0; !status && i < p.count; i++) id_list_add(ids, p.ids[i]);
  attend_encoding_free(e);
  return status ? complain_status(m->ctx, status) : EXIT_OK;
}

static int encode_first(const model_opened *m, const token_source *from, token_text *t) {
  attend_encode_options how = {ATTEND_INIT(attend_encode_options)};
  if (parts_of(m) == ATTEND_DECODER) {
    if (!from->second) return encode_prompt(m, from->text, &t->ids);
    complain("%s reads one text: leave \"%s\" away, or put quotes around the whole text",
             attend_config_family(attend_model_config(m->model)), from->second);
    return EXIT_USAGE;
  }
  if (parts_of(m) == ATTEND_ENCODER && from->second) {
    how.pair = from->second;
    how.pair_length = strlen(from->second);
  }
  char *text = spell_masks(m, from->text);
  int code = encode(m, text, &how, &t->ids, &t->types);
  free(text);
  return code;
}

/* What the model itself writes, less its last token, which is then predicted. */
static int write_second(const model_opened *m, token_text *t) {
  attend_generate_options how = {ATTEND_INIT(attend_generate_options)};
  attend_generation *g;
  how.max_new = WRITTEN;
  how.no_repeat = 3; /* raw greedy decoding of summarizers repeats itself */
  attend_status status =
      attend_generate(m->model, 1, &(attend_prompt){t->ids.id, t->ids.count}, &how, &g);
  const attend_continuation *c = status ? NULL : attend_generation_get(g, 0);
  int n = c ? c->count - (c->end == ATTEND_FINISH_TOKEN) : 0;
  for (int i = 0; i < n - 1; i++) id_list_add(&t->decoder, c->ids[i]);
  attend_generation_free(g);
  return status ? complain_status(m->ctx, status) : EXIT_OK;
}

static int read_decoder(const model_opened *m, const token_source *from, token_text *t) {
  if (from->decoder_ids) return input_ids(from->decoder_ids, &t->decoder);
  id_list_add(&t->decoder,
              attend_config_get(attend_model_config(m->model), ATTEND_CONFIG_DECODER_START));
  if (!from->second) return write_second(m, t);
  attend_encode_options how = {ATTEND_INIT(attend_encode_options), .no_special = true};
  return encode(m, from->second, &how, &t->decoder, NULL);
}

static int find_mask(const model_opened *m, const token_text *t) {
  int32_t mask = m->tokenizer ? attend_tokenizer_special(m->tokenizer, ATTEND_SPECIAL_MASK) : -1;
  for (int i = 0; mask >= 0 && i < t->ids.count; i++)
    if (t->ids.id[i] == mask) return i;
  return -1;
}

/* An id beyond the table would be an embedding of zeros. */
static int check_ids(const model_opened *m, const id_list *ids) {
  int vocab = attend_config_get(attend_model_config(m->model), ATTEND_CONFIG_VOCAB);
  for (int i = 0; i < ids->count; i++)
    if (ids->id[i] < 0 || ids->id[i] >= vocab) {
      complain("there is no token %d: the model knows 0 to %d", (int)ids->id[i], vocab - 1);
      return EXIT_USAGE;
    }
  return EXIT_OK;
}

int token_text_read(const model_opened *m, const token_source *from, token_text *t) {
  *t = (token_text){.mask = -1};
  int code = from->ids ? input_ids(from->ids, &t->ids) : encode_first(m, from, t);
  if (!code) code = check_ids(m, &t->ids);
  if (!code && parts_of(m) == ATTEND_BOTH) code = read_decoder(m, from, t);
  if (!code) code = check_ids(m, &t->decoder);
  if (code) return code;
  if (!t->ids.count) {
    complain("the text has no tokens: write a longer one");
    return EXIT_USAGE;
  }
  t->mask = find_mask(m, t);
  t->tokens = (attend_tokens){ATTEND_INIT(attend_tokens), .ids = t->ids.id, .n = t->ids.count,
                              .types = t->types};
  if (parts_of(m) != ATTEND_BOTH) return EXIT_OK;
  t->tokens.decoder_ids = t->decoder.id;
  t->tokens.n_decoder = t->decoder.count;
  return EXIT_OK;
}

void token_text_free(token_text *t) {
  free(t->ids.id);
  free(t->decoder.id);
  free(t->types);
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
