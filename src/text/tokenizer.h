/* The internal structure of a tokenizer: filled in by the loaders, read by encoding
 * and detokenizing.
 *
 * Text passes through: added tokens matched in the raw text; normalizers; added
 * tokens matched in normalized text; pre-tokenizers, which split; the model, which
 * turns each word into ids; a template, which adds special tokens. A tokenizer is
 * immutable after loading, so that threads may share it; everything that a call
 * writes, error messages included, is in its encoding or detokenizer.
 */
#ifndef TEXT_TOKENIZER_H
#define TEXT_TOKENIZER_H

#include <string.h>

#include "attend/text.h"
#include "base/base.h"
#include "base/hash.h"
#include "text/unicode.h"

/* ---- text with alignments ------------------------------------------------------------
 *
 * Normalizers and pre-tokenizers rewrite text; tokens get their offsets from it (Hugging
 * Face's NormalizedString). Every byte carries the range [from, to) of the original that
 * it stands for. Bytes that a step inserted (a prefix mark) carry an empty range. A view
 * without ranges is the original itself, from `base` on. */

typedef struct {
  uint32_t start, end;
} span;

typedef struct {
  const char *bytes;
  const uint32_t *from, *to; /* [length], or NULL: base + i, base + i + 1 */
  size_t length;
  uint32_t base;
} view;

typedef struct { /* a view with room to grow */
  char *bytes;
  uint32_t *from, *to;
  size_t length, capacity;
  size_t max; /* that it may grow to; what it has already it may use */
} aligned_text;

static inline uint32_t view_from(const view *v, size_t i) {
  return v->from ? v->from[i] : v->base + (uint32_t)i;
}
static inline uint32_t view_to(const view *v, size_t i) {
  return v->to ? v->to[i] : v->base + (uint32_t)i + 1;
}
static inline view view_slice(const view *v, size_t start, size_t end) {
  view s = {v->bytes ? v->bytes + start : NULL, v->from ? v->from + start : NULL,
            v->to ? v->to + start : NULL, end - start, v->base + (uint32_t)start};
  return s;
}
static inline view aligned_view(const aligned_text *s) {
  return (view){s->bytes, s->from, s->to, s->length, 0};
}

/* What steps may make of a text: so many times its bytes, and some for
 * prefixes. NFKD makes 33 bytes of the 3 of U+FDFA, and no character grows
 * more. */
enum { MOST_GROWTH = 32, MOST_PREFIXES = 1 << 16 };

/* Appends bytes that all stand for the same range. */
attend_status aligned_put(attend_context *ctx, aligned_text *s, const char *bytes, size_t length,
                          uint32_t from, uint32_t to);
/* Appends bytes [start, end) of a view, ranges and all. */
attend_status aligned_copy(attend_context *ctx, aligned_text *s, const view *v, size_t start,
                           size_t end);
attend_status aligned_put_char(attend_context *ctx, aligned_text *s, uint32_t c, uint32_t from,
                               uint32_t to);
void aligned_free(const attend_context *ctx, aligned_text *s);

/* Appends the text with malformed bytes replaced as Rust and Python do. */
attend_status aligned_put_lossy(attend_context *ctx, aligned_text *s, const char *text,
                                size_t length);

/* ---- strings that live as long as their tokenizer ------------------------------------ */

struct pool_chunk;

typedef struct {
  struct pool_chunk *last;
  char *at;
  size_t left;
} pool;

/* A copy that ends in a zero byte, aligned to 8. */
attend_status pool_copy(attend_context *ctx, pool *p, const void *bytes, size_t length,
                        const char **copy);
void pool_free(const attend_context *ctx, pool *p);

/* ---- normalizers and pre-tokenizers: a list of steps each --------------------- */

typedef enum {
  STEP_NFC,
  STEP_NFD,
  STEP_NFKC,
  STEP_NFKD,
  STEP_LOWERCASE,
  STEP_DROP_MARKS,      /* category M */
  STEP_DROP_NONSPACING, /* category Mn */
  STEP_CLEAN,           /* BERT's clean_text: removes control characters, every space becomes ' ' */
  STEP_NMT,
  STEP_CHINESE, /* spaces around ideographs */
  STEP_REPLACE,
  STEP_PREPEND,
  STEP_STRIP,
  STEP_CHARSMAP,  /* SentencePiece's table */
  STEP_SP_SPACES, /* SentencePiece's dummy prefix, runs of spaces, U+2581 */
  STEP_NORMALIZERS,
  /* pre-tokenizers */
  STEP_BYTE_LEVEL,
  STEP_WHITESPACE,
  STEP_WHITESPACE_SPLIT,
  STEP_BERT_SPLIT,
  STEP_METASPACE,
  STEP_DIGITS,
  STEP_PUNCTUATION,
  STEP_SPLIT,
  STEP_AT_MARKS /* splits before each mark that follows something else */
} step_kind;

typedef enum {
  CUT_REMOVED,
  CUT_ISOLATED,
  CUT_WITH_PREVIOUS,
  CUT_WITH_NEXT,
  CUT_CONTIGUOUS
} cut_behaviour;

typedef enum { PREPEND_NEVER, PREPEND_FIRST, PREPEND_ALWAYS } prepend_scheme;

typedef struct {
  const char *bytes;
  size_t length;
} chars;

typedef struct pattern pattern; /* pattern.c */

typedef struct { /* SentencePiece's table: a double array and strings */
  const uint32_t *unit;
  size_t units;
  const char *text; /* ends in a zero byte */
  size_t length;
} charsmap;

enum { PLAIN_TABLE = 0x1000 }; /* most alphabets are below */
typedef struct {               /* characters that a normalizer does not change */
  uint64_t bits[PLAIN_TABLE / 64];
  bool ideographs, hangul;
} plain_set;

typedef struct {
  step_kind kind;
  pattern *pattern; /* REPLACE, SPLIT */
  chars text;       /* REPLACE: the replacement; PREPEND; METASPACE, AT_MARKS: the mark */
  charsmap map;
  const plain_set *plain;     /* normalizers */
  const unsigned char *joins; /* AT_MARKS: see split.c; or NULL */
  cut_behaviour behaviour;
  prepend_scheme prepend;
  bool invert;
  bool left, right; /* STRIP */
  bool prefix;      /* BYTE_LEVEL, SP_SPACES: a space in front */
  bool cut;         /* BYTE_LEVEL: by GPT-2's pattern; METASPACE: before marks */
  bool each;        /* DIGITS: every digit alone */
  bool squeeze;     /* SP_SPACES: remove extra whitespace */
  bool escape;      /* SP_SPACES: ' ' becomes U+2581 */
} step;

enum { STEPS_MOST = 512 }; /* far more than any real tokenizer has */
typedef struct {
  step *step;
  size_t count, capacity;
} steps;

/* ---- the vocabulary -------------------------------------------------------------- */

typedef enum {
  PIECE_NONE = 0, /* unused id */
  PIECE_NORMAL,
  PIECE_HIDDEN, /* never produced from text: control, unknown, byte, unused */
  PIECE_PHANTOM /* a character that only occurs inside pieces */
} piece_kind;

enum { LONGEST_PIECE = 4096 }; /* bytes */

typedef struct {
  chars name; /* as in the file */
  chars key;  /* the bytes of text it stands for */
  float score;
  unsigned char kind;
  bool special; /* omitted by a detokenizer that skips special tokens */
} piece;

typedef struct { /* from strings to ids, open addressing; -1 is free */
  int32_t *slot;
  size_t mask;
} string_table;

typedef struct {
  piece *piece;
  size_t count, capacity; /* count: one more than the largest id */
  size_t real;            /* without phantoms, which come last */
  size_t listed;          /* entries of the lists that assign ids */
  string_table names, keys;
  bool indexed;      /* unchanged since the tables were built */
  hash_key hash;     /* of the two tables */
  int32_t byte[256]; /* of "<0x00>" or, in byte-level models, of the byte; -1 */
} vocab;

/* ---- models ------------------------------------------------------------------------ */

typedef enum { MODEL_BPE, MODEL_WORDPIECE, MODEL_UNIGRAM } model_kind;

typedef struct {
  int32_t left, right; /* left -1: free */
  int32_t made;
  uint32_t rank; /* lower merges first; equal ranks: the leftmost */
} merge;

typedef struct {
  uint64_t key; /* node << 8 | byte, plus 1; 0: free */
  uint32_t child;
  int32_t value; /* id of the piece that ends at the child, or -1 */
} trie_edge;

typedef struct {   /* (node, byte) to node; node 0 is the root */
  trie_edge *edge; /* [mask + 1], then those out of the root [256] */
  size_t mask, nodes;
  hash_key hash;
} trie;

typedef struct {
  model_kind kind;
  merge *merges;
  size_t merge_mask; /* slots - 1; 0: none */
  hash_key merge_hash;
  trie trie;     /* of keys: WordPiece and unigram */
  float *scores; /* [ids] unigram: the scores, contiguous */
  int32_t unk;   /* -1: none; unknown characters are dropped */
  bool byte_level, byte_fallback, fuse_unk, ignore_merges;
  bool from_scores; /* BPE without a list of merges */
  bool single;      /* sum scores in f32, as SentencePiece does */
  chars prefix;     /* of pieces that continue a word */
  chars suffix;     /* of pieces that end a word */
  size_t longest;   /* WordPiece: longest word in characters */
  uint32_t inside;  /* WordPiece: the trie's node after the prefix */
  float unk_score;
} model;

/* ---- added tokens, template, decoder ------------------------------------------------ */

typedef struct {
  chars content, match; /* match: the normalized content */
  int32_t id;
  bool single_word, lstrip, rstrip, normalized, special;
} added_token;

typedef struct {
  added_token *token;
  size_t count, capacity;
  uint32_t *slot; /* by content: an index + 1, 0 is free */
  size_t slots;
  hash_key hash;
  trie match[2];            /* to indices: not normalized, normalized */
  unsigned char first[256]; /* bit 0: starts a match, bit 1: a normalized one */
} added_list;

enum { TEMPLATE_A = -1, TEMPLATE_B = -2, TEMPLATE_MOST = 32 };
typedef struct {
  int32_t id[TEMPLATE_MOST]; /* or TEMPLATE_A, TEMPLATE_B */
  int32_t type[TEMPLATE_MOST];
  int count, specials;
  int times[2]; /* how often A and B occur */
} template;

typedef enum {
  DECODE_REPLACE,
  DECODE_BYTES,
  DECODE_FUSE,
  DECODE_STRIP,
  DECODE_WORDPIECE,
  DECODE_METASPACE,
  DECODE_BYTE_LEVEL,
  DECODE_SUFFIX
} decode_kind;

typedef struct {
  decode_kind kind;
  chars text, with;
  int start, stop;
  bool cleanup, prepend;
} decode_step;

enum { DECODE_MOST = 16 };

struct attend_tokenizer {
  attend_context *ctx;
  pool pool; /* every string */
  vocab vocab;
  model model;
  steps normalizers, splitters;
  int regexes; /* regular expressions of all steps, except the known ones */
  added_list added;
  template single, pair;
  bool trim;    /* offsets exclude white space */
  bool chunked; /* long texts are processed in chunks: segments.c */
  decode_step decode[DECODE_MOST];
  int decodes;
  int32_t special[ATTEND_SPECIALS];
  const char *kind;
  chars unk_surface; /* text of an unknown piece; NULL: its name */
};

/* ---- what a call writes ---------------------------------------------------------------- */

typedef struct {
  int32_t id;
  uint32_t end; /* in the word */
} word_token;

typedef struct {
  word_token *token;
  size_t count, capacity;
} word_tokens;

typedef struct {
  uint32_t start, end;
  bool match;
} cut;

typedef struct { /* a character with its range, for decomposition */
  uint32_t c, from, to;
  int order; /* canonical combining class */
} glyph;

typedef struct {
  int32_t id, previous, next;
  uint32_t end;
} symbol;

typedef struct {
  uint32_t rank, at;
  int32_t left, right, made;
} candidate;

typedef struct { /* unigram: the best segmentation up to a byte */
  double score;
  uint32_t start;
  int32_t id; /* -1: no segmentation ends here */
} arrival;

enum { CACHE_SLOTS = 1 << 15, CACHE_KEY = 28, CACHE_IDS = 8 };
typedef struct {
  uint32_t hash; /* 0: free */
  unsigned char length, count;
  char key[CACHE_KEY];
  unsigned char end[CACHE_IDS];
  int32_t id[CACHE_IDS];
} cached_word;

typedef struct {
  int32_t id;
  uint32_t start, end;
} raw_token;

typedef struct scratch {
  attend_context *ctx;         /* of the call: its allocator and messages, not t->ctx */
  aligned_text clean, text[4]; /* text: 0 and 1 normalizing, 2 and 3 splitting */
  span *spans[2];
  size_t span_capacity[2];
  cut *cuts;
  size_t cut_capacity;
  glyph *glyphs;
  size_t glyph_capacity;
  symbol *symbols;
  size_t symbol_capacity;
  candidate *heap;
  size_t heap_capacity;
  arrival *arrivals;
  size_t arrival_capacity;
  word_tokens word;
  cached_word *cache; /* [CACHE_SLOTS] */
  raw_token *raw;
  size_t raw_count, raw_capacity;
  void *match;      /* PCRE2's match data */
  void *limits;     /* PCRE2's match context */
  bool first, last; /* the chunk starts, ends its text */
  size_t capacity;  /* bytes that the text may still grow by */
  size_t work;      /* regular expression steps still allowed */
  double carry;     /* unigram: the score before the word */
} scratch;

attend_status scratch_start(attend_context *ctx, scratch *s);
/* Starts a text of `length` bytes: resets the limits on growth and work. */
void scratch_begin(scratch *s, size_t length);
void scratch_free(scratch *s);

/* ---- functions, file by file ------------------------------------------------------------- */

/* normalize.c: fails if steps have grown a text beyond s->room. */
attend_status check_growth(const scratch *s, size_t bytes);
/* *result is v itself if nothing changes. */
attend_status normalize(const attend_tokenizer *t, scratch *s, view v, view *result);
/* normalize.c: fills in st->plain. */
attend_status plain_find(attend_tokenizer *t, step *st);
static inline bool plain_has(const plain_set *set, uint32_t c) {
  return c < PLAIN_TABLE && set->bits[c >> 6] >> (c & 63) & 1;
}
/* split.c: whether two ASCII letters may be side by side in one piece. */
static inline bool may_join(const unsigned char *joins, unsigned char a, unsigned char b) {
  return joins[a << 4 | b >> 3] >> (b & 7) & 1;
}
/* segments.c: whether long texts may be processed in chunks, once all is loaded. */
bool may_chunk(const attend_tokenizer *t);
attend_status charsmap_check(attend_context *ctx, const char *what, const char *blob, size_t length,
                             charsmap *map);
/* Whether an entry has this byte after its first. */
bool charsmap_holds(const charsmap *map, unsigned char byte);

/* pattern.c: what a text is split at, a string or a regular expression; for the steps
 * REPLACE and SPLIT, and byte-level pre-tokenizing. */

/* The end of the match of GPT-2's pattern at `at`; it matches everywhere. */
size_t scan_gpt2(const char *s, size_t n, size_t at);
/* The same for Llama 3's pattern, with at most `digits` digits in a row (Qwen: 1). */
size_t scan_llama3(const char *s, size_t n, size_t at, int digits);

/* From {"String": ..} or {"Regex": ..}. Freed with the tokenizer's steps. */
attend_status pattern_string(attend_tokenizer *t, const char *text, size_t length, pattern **p);
attend_status pattern_regex(attend_tokenizer *t, const char *text, size_t length, pattern **p);
/* Whether it is this string; whether it always splits between an ASCII letter or
 * digit and a space. */
bool pattern_is(const pattern *p, const char *text);
bool pattern_cuts_words(const pattern *p);
void pattern_free(const attend_context *ctx, pattern *p);

/* The first match in [at, end) of the text, perhaps empty, if *found. The text
 * outside is not seen. */
attend_status pattern_next(scratch *s, const pattern *p, const char *text, size_t end, size_t at,
                           span *match, bool *found);

/* Steps of matching (PCRE2's match limit) that the slow matches of a text may use in
 * total: for each byte, plus a constant. */
enum { WORK_EACH = 64, WORK_FREE = 1 << 18 };

/* Buffers of matching; they stay NULL if no pattern needs them. */
attend_status pattern_scratch(scratch *s);
void pattern_scratch_free(scratch *s);

/* split.c: splits *v into spans; *v may become a new text. */
attend_status split_text(const attend_tokenizer *t, scratch *s, view *v, span **spans,
                         size_t *count);

/* segments.c: words and added tokens of a text, in order. The words are spans of the
 * view, valid during the call only. */
typedef struct {
  attend_status (*words)(void *user, const view *v, const span *words, size_t count);
  attend_status (*token)(void *user, int32_t id, uint32_t start, uint32_t end);
  void *user;
} segment_sink;
attend_status segment_text(const attend_tokenizer *t, scratch *s, const char *text, size_t length,
                           const segment_sink *sink);

attend_status added_put(attend_tokenizer *t, const added_token *token);
/* Called once all added tokens and normalizers are loaded. */
attend_status added_finish(attend_tokenizer *t);
void added_free(const attend_context *ctx, added_list *list);

/* vocab.c */
attend_status vocab_put(attend_tokenizer *t, int64_t id, const char *name, size_t length,
                        float score, piece_kind kind);
attend_status vocab_index(attend_tokenizer *t); /* makes the two tables */
/* A character that is not a piece, found by its key only. */
attend_status vocab_put_phantom(attend_tokenizer *t, const char *key, size_t length);
int32_t vocab_name(const vocab *v, const char *name, size_t length);
int32_t vocab_key(const vocab *v, const char *key, size_t length);
/* "<0x41>" is 0x41; -1: not a byte piece. */
int byte_piece(const char *name, size_t length);
void vocab_free(const attend_context *ctx, vocab *v);

/* GPT-2's byte-level alphabet. */
uint32_t byte_char(unsigned char byte);
static inline size_t trie_slot(const trie *t, uint64_t key) {
  return (size_t)hash_word(t->hash, key) & t->mask;
}
attend_status trie_start(attend_context *ctx, trie *t);
/* The value of a non-empty key, -1 if it is new: to read and to set. Valid until the
 * next call. */
attend_status trie_put(attend_context *ctx, trie *t, const char *key, size_t length,
                       int32_t **value);
/* The edge out of a node, NULL if there is none. */
static inline const trie_edge *trie_step(const trie *t, uint32_t node, unsigned char byte) {
  uint64_t key = ((uint64_t)node << 8 | byte) + 1;
  if (!node) {
    const trie_edge *e = &t->edge[t->mask + key];
    return e->key ? e : NULL;
  }
  size_t at = trie_slot(t, key);
  while (t->edge[at].key != key) {
    if (!t->edge[at].key) return NULL;
    at = (at + 1) & t->mask;
  }
  return &t->edge[at];
}
void trie_free(const attend_context *ctx, trie *t);

/* Models: a word to ids, into s->word. */
attend_status model_encode(const attend_tokenizer *t, scratch *s, const char *word, size_t length);
attend_status bpe_encode(const attend_tokenizer *t, scratch *s, const char *word, size_t length);
attend_status wordpiece_encode(const attend_tokenizer *t, scratch *s, const char *word,
                               size_t length);
attend_status unigram_encode(const attend_tokenizer *t, scratch *s, const char *word,
                             size_t length);
attend_status put_token(scratch *s, int32_t id, size_t end);
/* A character in no piece: byte fallback, unknown token, or nothing. */
attend_status put_unknown(const attend_tokenizer *t, scratch *s, const char *bytes, size_t start,
                          size_t end);

/* bpe.c */
attend_status merges_reserve(attend_context *ctx, model *m, size_t count);
void merges_put(model *m, int32_t left, int32_t right, int32_t made, uint32_t rank);
const merge *merges_find(const model *m, int32_t left, int32_t right);
/* From scores: any two pieces whose concatenation is a piece. */
attend_status merges_from_scores(attend_tokenizer *t);

#endif
