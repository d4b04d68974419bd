/* A trie over bytes.
 *
 * Place: text/ - WordPiece and unigram look for the pieces that start here.
 *
 * Its edges are one hash table from (node, byte) to node: building is a pass
 * over the vocabulary, a step is one probe, and nothing depends on how many
 * children a node has.
 */
#include "text/tokenizer.h"

/* bytes: those of all keys together, so that the table never grows. */
attend_status trie_start(attend_context *ctx, trie *t, size_t bytes) {
  size_t slots = 64;
  while (slots < 2 * bytes) slots *= 2;
  t->mask = slots - 1;
  t->most = bytes + 1;
  t->nodes = 1;
  return take_zeroed(ctx, slots * sizeof *t->edge, "a vocabulary", &t->edge);
}

static trie_edge *edge_of(const trie *t, uint64_t key) {
  size_t at = trie_slot(t, key);
  while (t->edge[at].key && t->edge[at].key != key) at = (at + 1) & t->mask;
  return &t->edge[at];
}

attend_status trie_put(attend_context *ctx, trie *t, const char *key,
                       size_t length, int32_t value) {
  uint32_t node = 0;
  trie_edge *e = NULL;
  for (size_t i = 0; i < length; i++) {
    uint64_t k = ((uint64_t)node << 8 | (unsigned char)key[i]) + 1;
    e = edge_of(t, k);
    if (!e->key) {
      if (t->nodes >= t->most || t->nodes > t->mask / 4 * 3)
        return fail(ctx, ATTEND_IO, "the vocabulary is longer than it said");
      *e = (trie_edge){k, (uint32_t)t->nodes++, -1};
    }
    node = e->child;
  }
  if (e) e->value = value;
  return ATTEND_OK;
}

/* Keys share their beginnings: the table is larger than it need be, and a
 * small one stays in the cache. */
attend_status trie_finish(attend_context *ctx, trie *t) {
  trie small = {.nodes = t->nodes, .most = t->nodes};
  ATTEND_TRY(trie_start(ctx, &small, t->nodes));
  small.nodes = t->nodes;
  for (size_t i = 0; i <= t->mask; i++)
    if (t->edge[i].key) *edge_of(&small, t->edge[i].key) = t->edge[i];
  give(ctx, t->edge);
  *t = small;
  return ATTEND_OK;
}

void trie_free(const attend_context *ctx, trie *t) { give(ctx, t->edge); }
