/* The vocabulary: pieces by id, and ids by piece.
 *
 * A piece has a name, as files write it, and a key, the bytes of text it stands for.
 * They differ in byte-level models, where "Ġthe" stands for " the". Only keys of
 * normal pieces are indexed: "<s>" in a text is not the control token.
 */
#include "text/tokenizer.h"

/* ---- strings that live as long as their tokenizer ---------------------------------- */

struct pool_chunk {
  struct pool_chunk *before;
};

enum { HEAD = 64, CHUNK = 1 << 16 };

static attend_status add_chunk(attend_context *ctx, pool *p, size_t bytes) {
  struct pool_chunk *fresh;
  size_t size = bytes > CHUNK ? bytes : CHUNK;
  ATTEND_TRY(ctx_alloc(ctx, HEAD + size, "a vocabulary", &fresh));
  fresh->before = p->last;
  p->last = fresh;
  p->at = (char *)fresh + HEAD;
  p->left = size;
  return ATTEND_OK;
}

attend_status pool_copy(attend_context *ctx, pool *p, const void *bytes, size_t length,
                        const char **copy) {
  size_t size = round_up(length + 1, 8);
  if (size > p->left) ATTEND_TRY(add_chunk(ctx, p, size));
  if (length) memcpy(p->at, bytes, length);
  p->at[length] = 0;
  *copy = p->at;
  p->at += size;
  p->left -= size;
  return ATTEND_OK;
}

void pool_free(const attend_context *ctx, pool *p) {
  while (p->last) {
    struct pool_chunk *before = p->last->before;
    ctx_free(ctx, p->last);
    p->last = before;
  }
  *p = (pool){0};
}

/* ---- tries ------------------------------------------------------------------------- */

/* WordPiece and unigram search for the pieces that start at a
 * position, and added tokens are matched with it.
 *
 * Edges are one hash table from (node, byte) to node, plus a direct table for the
 * root, where every search begins. Building is one pass over the vocabulary, a step
 * is one probe, and nothing depends on the number of children. The hash is keyed.
 */

/* LONGEST_KEY: bounds the steps from each position of a text. */
enum { FIRST_SLOTS = 64, LONGEST_KEY = 1024 };

static attend_status take_edges(attend_context *ctx, trie *t, size_t slots) {
  t->mask = slots - 1;
  return ctx_alloc_zeroed(ctx, (slots + 256) * sizeof *t->edge, "a vocabulary", &t->edge);
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
static attend_status trie_widen(attend_context *ctx, trie *t) {
  trie wide = *t;
  ATTEND_TRY(take_edges(ctx, &wide, 2 * (t->mask + 1)));
  for (size_t i = 0; i <= t->mask + 256; i++)
    if (t->edge[i].key) *edge_of(&wide, t->edge[i].key) = t->edge[i];
  ctx_free(ctx, t->edge);
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
      ATTEND_TRY(trie_widen(ctx, t));
      e = edge_of(t, k);
    }
    if (!e->key) *e = (trie_edge){k, (uint32_t)t->nodes++, -1};
    node = e->child;
    *value = &e->value;
  }
  return ATTEND_OK;
}

void trie_free(const attend_context *ctx, trie *t) { ctx_free(ctx, t->edge); }

/* ---- the byte-level alphabet --------------------------------------------- */

/* GPT-2's byte-level alphabet (bytes_to_unicode): every byte as a printable
 * character. Printable Latin-1 stands for itself; the other 68 bytes are U+0100 and
 * up, in order. */

static bool is_itself(unsigned b) {
  return (b >= '!' && b <= '~') || (b >= 0xa1 && b <= 0xac) || (b >= 0xae && b <= 0xff);
}

uint32_t byte_char(unsigned char byte) {
  if (is_itself(byte)) return byte;
  uint32_t c = 0x100;
  for (unsigned b = 0; b < byte; b++) c += !is_itself(b);
  return c;
}

/* -1: the character stands for no byte. */
static int byte_of(uint32_t c) {
  if (c < 0x100) return is_itself(c) ? (int)c : -1;
  if (c <= 0x120) return (int)c - 0x100;        /* 00 to 20 */
  if (c <= 0x142) return (int)c - 0x121 + 0x7f; /* 7f to a0 */
  return c == 0x143 ? 0xad : -1;
}

static bool bytes_of_piece(const char *name, size_t length, char *out, size_t *n) {
  *n = 0;
  for (size_t i = 0; i < length;) {
    uint32_t c;
    i += utf8_next(name + i, length - i, &c);
    int byte = byte_of(c);
    if (byte < 0) return false;
    out[(*n)++] = (char)byte;
  }
  return true;
}

/* ---- pieces ------------------------------------------------------------------------ */

/* Bounds on ids. There may be gaps, but a short list must not lead to a huge table. */
enum { MOST_PIECES = 1 << 22, HOLES = 1 << 16, HOLES_EACH = 4 };

static attend_status make_room(attend_tokenizer *t, size_t id) {
  vocab *v = &t->vocab;
  if (id < v->count) return ATTEND_OK;
  ATTEND_TRY(grow(t->ctx, &v->piece, &v->capacity, id + 1, sizeof *v->piece, "a vocabulary"));
  memset(v->piece + v->count, 0, (id + 1 - v->count) * sizeof *v->piece);
  v->count = id + 1;
  return ATTEND_OK;
}

/* In byte-level models a name is written in GPT-2's alphabet. */
static attend_status make_key(attend_tokenizer *t, piece *p) {
  char small[256];
  size_t n;
  p->key = p->name;
  if (!t->model.byte_level) return ATTEND_OK;
  if (p->name.length > sizeof small || !bytes_of_piece(p->name.bytes, p->name.length, small, &n))
    return ATTEND_OK;
  p->key.length = n;
  return pool_copy(t->ctx, &t->pool, small, n, &p->key.bytes);
}

static int64_t ids_end(const vocab *v) {
  size_t end = HOLES + HOLES_EACH * v->listed;
  if (end <= v->count) end = v->count + 1;
  return end < MOST_PIECES ? (int64_t)end : MOST_PIECES;
}

attend_status vocab_put(attend_tokenizer *t, int64_t id, const char *name, size_t length,
                        float score, piece_kind kind) {
  int64_t end = ids_end(&t->vocab);
  if (id < 0 || id >= end)
    return fail(t->ctx, ATTEND_IO,
                "the vocabulary gives \"%.60s\" the id %lld: ids run from 0 to "
                "%lld",
                name, (long long)id, (long long)end - 1);
  if (length > LONGEST_PIECE)
    return fail(t->ctx, ATTEND_IO,
                "the vocabulary's piece with the id %lld has %zu bytes: %d are "
                "the most",
                (long long)id, length, LONGEST_PIECE);
  ATTEND_TRY(make_room(t, (size_t)id));
  piece *p = &t->vocab.piece[id];
  if (p->kind && (p->name.length != length || memcmp(p->name.bytes, name, length)))
    return fail(t->ctx, ATTEND_IO,
                "the vocabulary gives the id %lld to \"%.60s\" and to "
                "\"%.60s\"",
                (long long)id, p->name.bytes, name);
  t->vocab.indexed = false;
  *p = (piece){.score = score, .kind = (unsigned char)kind};
  p->name.length = length;
  ATTEND_TRY(pool_copy(t->ctx, &t->pool, name, length, &p->name.bytes));
  return make_key(t, p);
}

/* ---- finding ----------------------------------------------------------------- */

static const chars *string_of(const vocab *v, const string_table *table, int32_t id) {
  return table == &v->names ? &v->piece[id].name : &v->piece[id].key;
}

/* Strings of at most 8 bytes are one word, with the length in its top byte where
 * there is room for it. */
static uint64_t hash_of(const vocab *v, const char *bytes, size_t length) {
  uint64_t word = (uint64_t)length << 56;
  if (length > 8) return hash_keyed(v->hash, bytes, length);
  if (length == 8)
    memcpy(&word, bytes, 8);
  else
    for (size_t i = 0; i < length; i++) word |= (uint64_t)(unsigned char)bytes[i] << 8 * i;
  return hash_word(v->hash, word);
}

static size_t place_of(const vocab *v, const string_table *table, const char *bytes,
                       size_t length) {
  size_t at = (size_t)hash_of(v, bytes, length) & table->mask;
  for (; table->slot[at] >= 0; at = (at + 1) & table->mask) {
    const chars *s = string_of(v, table, table->slot[at]);
    if (s->length == length && !memcmp(s->bytes, bytes, length)) break;
  }
  return at;
}

static attend_status fill(attend_tokenizer *t, string_table *table) {
  vocab *v = &t->vocab;
  size_t slots = 64;
  while (slots < 2 * v->count) slots *= 2;
  ctx_free(t->ctx, table->slot);
  table->slot = NULL;
  ATTEND_TRY(ctx_alloc(t->ctx, slots * sizeof *table->slot, "a vocabulary", &table->slot));
  memset(table->slot, 0xff, slots * sizeof *table->slot);
  table->mask = slots - 1;
  for (size_t id = 0; id < v->count; id++) {
    const piece *p = &v->piece[id];
    bool in = table == &v->names ? p->kind == PIECE_NORMAL || p->kind == PIECE_HIDDEN
                                 : p->kind == PIECE_NORMAL || p->kind == PIECE_PHANTOM;
    const chars *s = string_of(v, table, (int32_t)id);
    if (in) table->slot[place_of(v, table, s->bytes, s->length)] = (int32_t)id;
  }
  return ATTEND_OK;
}

static int32_t look_up(const vocab *v, const string_table *table, const char *bytes,
                       size_t length) {
  return table->slot ? table->slot[place_of(v, table, bytes, length)] : -1;
}

int32_t vocab_name(const vocab *v, const char *name, size_t length) {
  return look_up(v, &v->names, name, length);
}

int32_t vocab_key(const vocab *v, const char *key, size_t length) {
  return look_up(v, &v->keys, key, length);
}

int byte_piece(const char *name, size_t length) {
  static const char digits[] = "0123456789ABCDEF";
  if (length != 6 || memcmp(name, "<0x", 3) || name[5] != '>') return -1;
  const char *high = name[3] ? strchr(digits, name[3]) : NULL;
  const char *low = name[4] ? strchr(digits, name[4]) : NULL;
  return high && low ? (int)((high - digits) * 16 + (low - digits)) : -1;
}

static void find_bytes(attend_tokenizer *t) {
  static const char digits[] = "0123456789ABCDEF";
  vocab *v = &t->vocab;
  for (int b = 0; b < 256; b++) {
    char raw = (char)b, name[] = {'<', '0', 'x', digits[b >> 4], digits[b & 15], '>'};
    v->byte[b] = t->model.byte_level ? vocab_key(v, &raw, 1) : vocab_name(v, name, sizeof name);
  }
}

attend_status vocab_index(attend_tokenizer *t) {
  if (t->vocab.indexed) return ATTEND_OK;
  ATTEND_TRY(fill(t, &t->vocab.names));
  ATTEND_TRY(fill(t, &t->vocab.keys));
  find_bytes(t);
  t->vocab.indexed = true;
  return ATTEND_OK;
}

/* Without rebuilding the tables, while they are not too full. */
attend_status vocab_put_phantom(attend_tokenizer *t, const char *key, size_t length) {
  vocab *v = &t->vocab;
  int64_t id = (int64_t)v->count;
  ATTEND_TRY(vocab_put(t, id, key, length, 0, PIECE_PHANTOM));
  if (2 * v->count > v->keys.mask + 1) return vocab_index(t);
  v->keys.slot[place_of(v, &v->keys, key, length)] = (int32_t)id;
  v->indexed = true;
  return ATTEND_OK;
}

void vocab_free(const attend_context *ctx, vocab *v) {
  ctx_free(ctx, v->piece);
  ctx_free(ctx, v->names.slot);
  ctx_free(ctx, v->keys.slot);
}

/* ---- accessors of a tokenizer -------------------------------------------- */

const char *attend_tokenizer_kind(const attend_tokenizer *t) { return t->kind; }

int32_t attend_tokenizer_count(const attend_tokenizer *t) { return (int32_t)t->vocab.real; }

static const piece *piece_at(const attend_tokenizer *t, int32_t id) {
  if (id < 0 || (size_t)id >= t->vocab.real) return NULL;
  return t->vocab.piece[id].kind ? &t->vocab.piece[id] : NULL;
}

const char *attend_tokenizer_piece(const attend_tokenizer *t, int32_t id, size_t *length) {
  const piece *p = piece_at(t, id);
  if (length) *length = p ? p->name.length : 0;
  return p ? p->name.bytes : NULL;
}

int32_t attend_tokenizer_find(const attend_tokenizer *t, const char *name, size_t length) {
  return vocab_name(&t->vocab, name, length);
}

int32_t attend_tokenizer_special(const attend_tokenizer *t, attend_special which) {
  return (unsigned)which < ATTEND_SPECIALS ? t->special[which] : -1;
}

bool attend_tokenizer_is_special(const attend_tokenizer *t, int32_t id) {
  const piece *p = piece_at(t, id);
  return p && p->special;
}
