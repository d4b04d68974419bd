/* A build without tokenizers: every public function exists and returns
 * ATTEND_UNSUPPORTED.
 *
 * Compiled instead of the other files where ATTEND_TEXT is OFF (a target without
 * utf8proc and PCRE2).
 */
#pragma GCC diagnostic ignored "-Wunused-parameter"
#include <stdio.h>
#include <string.h>

#include "attend/text.h"
#include "attend/text_train.h"
#include "base/base.h"

attend_status attend_tokenizer_load(attend_context *ctx, const char *path,
                                    attend_tokenizer **tokenizer) {
  *tokenizer = NULL;
  return fail(ctx, ATTEND_UNSUPPORTED,
              "%s cannot be loaded: this build has no tokenizers (configure "
              "with -DATTEND_TEXT=ON)",
              path);
}

/* Unreachable, since no tokenizer can be created. */
void attend_tokenizer_free(attend_tokenizer *t) {}
const char *attend_tokenizer_kind(const attend_tokenizer *t) { return "none"; }
int32_t attend_tokenizer_count(const attend_tokenizer *t) { return 0; }
const char *attend_tokenizer_piece(const attend_tokenizer *t, int32_t id, size_t *length) {
  if (length) *length = 0;
  return NULL;
}
size_t attend_tokenizer_label(const attend_tokenizer *t, int32_t id, char *label, size_t size) {
  if (size) *label = 0;
  return 0;
}
size_t attend_piece_label(const char *token, size_t length, char *label, size_t size) {
  const bool spaced = length > 1 && *token == ' ';
  const bool continues = length > 2 && !memcmp(token, "##", 2);
  const size_t skip = spaced ? 1 : continues ? 2 : 0;
  const char *mark = spaced ? "·" : continues ? "–" : "";
  if (!size) return 0;
  size_t n = (size_t)snprintf(label, size, "%s%.*s", mark, (int)(length - skip), token + skip);
  return n < size ? n : size - 1;
}
int32_t attend_tokenizer_find(const attend_tokenizer *t, const char *piece, size_t length) {
  return -1;
}
int32_t attend_tokenizer_special(const attend_tokenizer *t, attend_special which) { return -1; }
bool attend_tokenizer_is_special(const attend_tokenizer *t, int32_t id) { return false; }
attend_status attend_encoding_create(const attend_tokenizer *t, attend_encoding **encoding) {
  *encoding = NULL;
  return ATTEND_UNSUPPORTED;
}
void attend_encoding_free(attend_encoding *encoding) {}
const char *attend_encoding_message(const attend_encoding *encoding) { return ""; }
attend_status attend_encode(attend_encoding *encoding, const char *text, size_t length,
                            const attend_encode_options *options) {
  return ATTEND_UNSUPPORTED;
}
attend_status attend_detokenizer_create(const attend_tokenizer *t, bool skip_special,
                                        attend_detokenizer **decoder) {
  *decoder = NULL;
  return ATTEND_UNSUPPORTED;
}
void attend_detokenizer_free(attend_detokenizer *decoder) {}
const char *attend_detokenizer_message(const attend_detokenizer *decoder) { return ""; }
attend_status attend_detokenizer_push(attend_detokenizer *decoder, int32_t id, const char **text,
                                      size_t *length) {
  return ATTEND_UNSUPPORTED;
}
attend_status attend_detokenizer_finish(attend_detokenizer *decoder, const char **text,
                                        size_t *length) {
  return ATTEND_UNSUPPORTED;
}
attend_status attend_decode(attend_detokenizer *decoder, const int32_t *ids, size_t count,
                            const char **text, size_t *length) {
  return ATTEND_UNSUPPORTED;
}

const char *attend_like_name(attend_like like) { return NULL; }
attend_status attend_text_trainer_create(attend_context *ctx,
                                         const attend_text_train_options *options,
                                         attend_text_trainer **trainer) {
  *trainer = NULL;
  return fail(ctx, ATTEND_UNSUPPORTED,
              "no tokenizer can be trained: this build has no tokenizers "
              "(configure with -DATTEND_TEXT=ON)");
}
void attend_text_trainer_free(attend_text_trainer *trainer) {}
attend_status attend_text_trainer_feed(attend_text_trainer *trainer, const char *text,
                                       size_t length) {
  return ATTEND_UNSUPPORTED;
}
attend_status attend_text_trainer_end(attend_text_trainer *trainer) { return ATTEND_UNSUPPORTED; }
attend_status attend_text_trainer_learn(attend_text_trainer *trainer) { return ATTEND_UNSUPPORTED; }
const attend_text_trained *attend_text_trainer_report(const attend_text_trainer *trainer) {
  return NULL;
}
const attend_tokenizer *attend_text_trainer_tokenizer(const attend_text_trainer *trainer) {
  return NULL;
}
bool attend_text_trainer_merge(const attend_text_trainer *trainer, size_t i,
                               attend_text_merge *merge) {
  return false;
}
attend_status attend_text_trainer_save(attend_text_trainer *trainer, const char *folder) {
  return ATTEND_UNSUPPORTED;
}
const char *attend_text_trainer_file(int i) { return NULL; }

/* Without character classes the whole text is one sentence. */
bool attend_sentence_next(const char *text, size_t length, attend_sentence *sentence) {
  size_t at = sentence->start + sentence->length;
  while (at < length && strchr(" \t\r\n", text[at])) at++;
  while (length > at && strchr(" \t\r\n", text[length - 1])) length--;
  *sentence = (attend_sentence){at, length > at ? length - at : 0, true};
  return sentence->length > 0;
}
