/* Shared by the loaders of tokenizer files. */
#ifndef TEXT_LOADER_H
#define TEXT_LOADER_H

#include "attend/json.h"
#include "base/files.h"
#include "text/tokenizer.h"

/* load.c: a tokenizer.json in memory. */
attend_status tokenizer_parse(attend_context *ctx, const char *what, const char *json,
                              size_t length, attend_tokenizer **tokenizer);

/* One loader per format. `what` names the file in errors. */
attend_status load_tokenizer_json(attend_tokenizer *t, const char *what, const attend_json *root);
attend_status load_sentencepiece(attend_tokenizer *t, const char *path, const char *folder);
attend_status load_llama2c(attend_tokenizer *t, const char *path);

/* load_json.c, for the other readers too */
attend_status read_vocab_object(attend_tokenizer *t, const char *what, const attend_json *j);
/* "a b"; a and b have no spaces. */
attend_status put_merge_text(attend_tokenizer *t, const char *what, uint32_t rank, const char *text,
                             size_t length);
attend_status finish_wordpiece(attend_tokenizer *t);

/* The "type" of a part of a tokenizer.json; "" if there is none. */
static inline const char *step_type(const attend_json *j) {
  const char *type = attend_json_string(attend_json_get(j, "type"), NULL);
  return type ? type : "";
}

static inline bool flag(const attend_json *j, const char *name, bool otherwise) {
  return attend_json_boolean(attend_json_get(j, name), otherwise);
}
/* What an added token's object says of matching it, except `normalized`. */
static inline void token_flags(const attend_json *j, added_token *token) {
  token->single_word = flag(j, "single_word", false);
  token->lstrip = flag(j, "lstrip", false);
  token->rstrip = flag(j, "rstrip", false);
  token->special = flag(j, "special", false);
}

/* Names in tokenizer_config.json: "bos_token" and so on. */
extern const char *const special_names[ATTEND_SPECIALS];
/* Whether ids are numbered as in XLM-R. */
attend_status settings_fairseq(attend_context *ctx, const char *folder, bool *fairseq);
/* Sets both templates from ids; -1 leaves one out. */
void template_around(attend_tokenizer *t, int32_t before, int32_t after, int32_t middle,
                     int32_t type_b);

attend_status step_add(attend_tokenizer *t, steps *list, step st);
attend_status text_keep(attend_tokenizer *t, const char *bytes, size_t length, chars *kept);
attend_status decode_add(attend_tokenizer *t, decode_step st);
/* Once the vocabulary is complete: a trie of all pieces that text can produce. */
attend_status build_trie(attend_tokenizer *t);
/* If no piece has the mark after something else, text is split there: the ids stay
 * the same and words are short. mark must stay. */
attend_status cut_at_marks(attend_tokenizer *t, const char *mark);
/* Adds a token whose piece exists, or takes this id. */
attend_status put_added(attend_tokenizer *t, const char *what, int64_t id, added_token token);

#endif
