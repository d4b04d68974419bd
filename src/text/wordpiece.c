/* WordPiece (Schuster and Nakajima 2012; BERT): greedy longest match from the left.
 *
 * A word with a position where no piece matches is unknown as a whole; so is one that
 * is too long.
 */
#include "text/tokenizer.h"

static size_t count_chars(const char *word, size_t length) {
  size_t n = 0;
  for (size_t i = 0; i < length; i++) n += ((unsigned char)word[i] & 0xc0) != 0x80;
  return n;
}

/* The longest piece at `at`; its id, or -1, and its end. */
static int32_t longest(const trie *t, uint32_t node, const char *word, size_t length, size_t at,
                       size_t *end) {
  int32_t id = -1;
  for (size_t i = at; i < length; i++) {
    const trie_edge *e = trie_step(t, node, (unsigned char)word[i]);
    if (!e) break;
    node = e->child;
    if (e->value < 0) continue;
    id = e->value;
    *end = i + 1;
  }
  return id;
}

attend_status wordpiece_encode(const attend_tokenizer *t, scratch *s, const char *word,
                               size_t length) {
  const model *m = &t->model;
  bool known = count_chars(word, length) <= m->longest;
  for (size_t at = 0, end = 0; at < length && known; at = end) {
    bool inside = at && m->prefix.length;
    int32_t id = inside && !m->inside
                     ? -1
                     : longest(&m->trie, inside ? m->inside : 0, word, length, at, &end);
    known = id >= 0;
    if (known) ATTEND_TRY(put_token(s, id, end));
  }
  if (known) return ATTEND_OK;
  s->word.count = 0;
  return m->unk < 0 ? ATTEND_OK : put_token(s, m->unk, length);
}
