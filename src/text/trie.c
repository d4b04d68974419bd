/* A trie over bytes.
 *
 * Place: text/ - WordPiece and unigram look for the pieces that start here.
 *
 * Its edges are one hash table from (node, byte) to node: building is a pass
 * over the vocabulary, a step is one probe, and nothing depends on how many
 * children a node has.
 */
#include "text/tokenizer.h"

static size_t first_slot(const trie *t, uint64_t key) {
  return (size_t)((key * 0x9e3779b97f4a7c15u) >> 20) & t->mask;
}

static size_t slot_of(const trie *t, uint64_t key) {
  size_t at = first_slot(t, key);
  while (t->key[at] && t->key[at] != key) at = (at + 1) & t->mask;
  return at;
}

/* bytes: those of all keys together, so that the table never grows. */
attend_status trie_start(attend_context *ctx, trie *t, size_t bytes) {
  size_t slots = 64;
  while (slots < 2 * bytes) slots *= 2;
  t->mask = slots - 1;
  ATTEND_TRY(take_zeroed(ctx, slots * sizeof *t->key, "a vocabulary", &t->key));
  ATTEND_TRY(take(ctx, slots * sizeof *t->child, "a vocabulary", &t->child));
  ATTEND_TRY(grow(ctx, &t->value, &t->value_capacity, bytes + 1,
                  sizeof *t->value, "a vocabulary"));
  t->value[0] = -1;
  t->nodes = 1;
  return ATTEND_OK;
}

attend_status trie_put(attend_context *ctx, trie *t, const char *key,
                       size_t length, int32_t value) {
  uint32_t node = 0;
  for (size_t i = 0; i < length; i++) {
    uint64_t edge = ((uint64_t)node << 8 | (unsigned char)key[i]) + 1;
    size_t at = slot_of(t, edge);
    if (!t->key[at]) {
      if (t->nodes >= t->value_capacity || t->nodes > t->mask / 4 * 3)
        return fail(ctx, ATTEND_IO, "the vocabulary is longer than it said");
      t->key[at] = edge;
      t->child[at] = (uint32_t)t->nodes;
      t->value[t->nodes++] = -1;
    }
    node = t->child[at];
  }
  t->value[node] = value;
  return ATTEND_OK;
}

uint32_t trie_step(const trie *t, uint32_t node, unsigned char byte) {
  uint64_t key = ((uint64_t)node << 8 | byte) + 1;
  size_t at = slot_of(t, key);
  return t->key[at] ? t->child[at] : 0;
}

void trie_free(const attend_context *ctx, trie *t) {
  give(ctx, t->key);
  give(ctx, t->child);
  give(ctx, t->value);
}
