/* What may be asked of a tokenizer.
 *
 * Public; nothing here changes anything.
 */
#include "text/tokenizer.h"

const char *attend_tokenizer_kind(const attend_tokenizer *t) { return t->kind; }

int32_t attend_tokenizer_count(const attend_tokenizer *t) {
  return (int32_t)t->vocab.real;
}

static const piece *piece_at(const attend_tokenizer *t, int32_t id) {
  if (id < 0 || (size_t)id >= t->vocab.real) return NULL;
  return t->vocab.piece[id].kind ? &t->vocab.piece[id] : NULL;
}

const char *attend_tokenizer_piece(const attend_tokenizer *t, int32_t id,
                                   size_t *length) {
  const piece *p = piece_at(t, id);
  if (length) *length = p ? p->name.length : 0;
  return p ? p->name.bytes : NULL;
}

int32_t attend_tokenizer_find(const attend_tokenizer *t, const char *name,
                              size_t length) {
  return vocab_name(&t->vocab, name, length);
}

int32_t attend_tokenizer_special(const attend_tokenizer *t,
                                 attend_special which) {
  return (unsigned)which < ATTEND_SPECIALS ? t->special[which] : -1;
}

bool attend_tokenizer_is_special(const attend_tokenizer *t, int32_t id) {
  const piece *p = piece_at(t, id);
  return p && p->special;
}
