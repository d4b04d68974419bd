/* A trie over bytes: WordPiece and unigram search for the pieces that start at a
 * position, and added tokens are matched with it.
 *
 * Edges are one hash table from (node, byte) to node, plus a direct table for the
 * root, where every search begins. Building is one pass over the vocabulary, a step
 * is one probe, and nothing depends on the number of children. The hash is keyed.
 */
#include "text/tokenizer.h"

/* LONGEST_KEY: bounds the steps from each position of a text. */
enum { FIRST_SLOTS = 64, LONGEST_KEY = 1024 };

static attend_status take_edges(attend_context *ctx, trie *t, size_t slots) {
  t->mask = slots - 1;
  return take_zeroed(ctx, (slots + 256) * sizeof *t->edge, "a vocabulary", &t->edge);
}

attend_status trie_start(attend_context *ctx, trie *t) {
  t->nodes = 1;
  t->hash = hash_key_draw();
  return take_edges(ctx, t, FIRST_SLOTS);
}

static trie_edge *edge_of(const trie *t, uint64_t key) {
  if (key <= 256) return &t->edge[t->mask + key];
  size_t at = trie_slot(t, key);
  while (t->edge[at].key && t->edge[at].key != key) at = (at + 1) & t->mask;
  return &t->edge[at];
}

/* Twice as many slots; at most half of them are ever in use. */
static attend_status widen(attend_context *ctx, trie *t) {
  trie wide = *t;
  ATTEND_TRY(take_edges(ctx, &wide, 2 * (t->mask + 1)));
  for (size_t i = 0; i <= t->mask + 256; i++)
    if (t->edge[i].key) *edge_of(&wide, t->edge[i].key) = t->edge[i];
  give(ctx, t->edge);
  *t = wide;
  return ATTEND_OK;
}

attend_status trie_put(attend_context *ctx, trie *t, const char *key, size_t length,
                       int32_t **value) {
  uint32_t node = 0;
  if (length > LONGEST_KEY)
    return fail(ctx, ATTEND_IO,
                "the tokenizer's piece \"%.40s..\" has %zu bytes: %d are the "
                "most of an added token or a piece of WordPiece or unigram",
                key, length, LONGEST_KEY);
  for (size_t i = 0; i < length; i++) {
    uint64_t k = ((uint64_t)node << 8 | (unsigned char)key[i]) + 1;
    trie_edge *e = edge_of(t, k);
    if (!e->key && 2 * t->nodes > t->mask) {
      ATTEND_TRY(widen(ctx, t));
      e = edge_of(t, k);
    }
    if (!e->key) *e = (trie_edge){k, (uint32_t)t->nodes++, -1};
    node = e->child;
    *value = &e->value;
  }
  return ATTEND_OK;
}

void trie_free(const attend_context *ctx, trie *t) { give(ctx, t->edge); }
