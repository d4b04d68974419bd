/* Word counts: the training data of a tokenizer, reduced to distinct words and how
 * often each occurs; and the initial alphabet.
 */
#include <stdlib.h>

#include "text/train.h"

static size_t slot_of(const word_counts *t, const char *text, size_t length, uint32_t hash) {
  size_t mask = t->slots - 1, at = hash & mask;
  for (; t->slot[at]; at = (at + 1) & mask) {
    const counted_word *w = &t->word[t->slot[at] - 1];
    if (w->hash == hash && w->text.length == length && !memcmp(w->text.bytes, text, length)) break;
  }
  return at;
}

static attend_status widen(attend_context *ctx, word_counts *t) {
  size_t slots = t->slots ? 2 * t->slots : 1 << 12;
  uint32_t *fresh;
  ATTEND_TRY(ctx_alloc_zeroed(ctx, slots * sizeof *fresh, "words", &fresh));
  if (!t->slots) t->hash = hash_key_draw();
  ctx_free(ctx, t->slot);
  t->slot = fresh;
  t->slots = slots;
  for (size_t i = 0; i < t->count; i++) {
    size_t at = t->word[i].hash & (slots - 1);
    while (t->slot[at]) at = (at + 1) & (slots - 1);
    t->slot[at] = (uint32_t)(i + 1);
  }
  return ATTEND_OK;
}

static attend_status put_word(attend_context *ctx, word_counts *t, const char *text, size_t length,
                              uint32_t hash, uint64_t times) {
  counted_word w = {{NULL, length}, times, hash};
  if (t->count >= UINT32_MAX / 4)
    return fail(ctx, ATTEND_UNSUPPORTED,
                "the text has more than %u different words: learn from less", UINT32_MAX / 4);
  ATTEND_TRY(grow(ctx, &t->word, &t->capacity, t->count + 1, sizeof *t->word, "words"));
  ATTEND_TRY(pool_copy(ctx, &t->pool, text, length, &w.text.bytes));
  t->word[t->count++] = w;
  return ATTEND_OK;
}

attend_status counts_add(attend_context *ctx, word_counts *t, const char *text, size_t length,
                         uint64_t times) {
  if (2 * t->count >= t->slots) ATTEND_TRY(widen(ctx, t));
  uint32_t hash = (uint32_t)hash_keyed(t->hash, text, length);
  size_t at = slot_of(t, text, length, hash);
  if (t->slot[at]) {
    t->word[t->slot[at] - 1].times += times;
    return ATTEND_OK;
  }
  ATTEND_TRY(put_word(ctx, t, text, length, hash, times));
  t->slot[at] = (uint32_t)t->count;
  return ATTEND_OK;
}

attend_status counts_join(attend_context *ctx, word_counts *t, word_counts *other) {
  for (size_t i = 0; i < other->count; i++) {
    const counted_word *w = &other->word[i];
    ATTEND_TRY(counts_add(ctx, t, w->text.bytes, w->text.length, w->times));
  }
  counts_free(ctx, other);
  return ATTEND_OK;
}

void counts_free(const attend_context *ctx, word_counts *t) {
  ctx_free(ctx, t->word);
  ctx_free(ctx, t->slot);
  pool_free(ctx, &t->pool);
  *t = (word_counts){0};
}

/* ---- the alphabet -------------------------------------------------------- */

/* The start of training: special tokens, letters, and words as sequences of letters.
 *
 * Ids are assigned here: special tokens first, then letters by code point, then "##"
 * letters in the same order. In byte-level models a letter is one of GPT-2's 256
 * characters for bytes. */

enum { CHARS = 0x110000 };

/* ---- kinds ----------------------------------------------------------------------- */

static const like likes[ATTEND_LIKES] = {
    [ATTEND_LIKE_GPT2] = {"gpt2",
                          "GPT2Tokenizer",
                          false,
                          {"<|endoftext|>"},
                          {[ATTEND_SPECIAL_BOS] = "<|endoftext|>",
                           [ATTEND_SPECIAL_EOS] = "<|endoftext|>",
                           [ATTEND_SPECIAL_UNK] = "<|endoftext|>"}},
    [ATTEND_LIKE_BERT] = {"bert",
                          "BertTokenizer",
                          true,
                          {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"},
                          {[ATTEND_SPECIAL_UNK] = "[UNK]",
                           [ATTEND_SPECIAL_PAD] = "[PAD]",
                           [ATTEND_SPECIAL_CLS] = "[CLS]",
                           [ATTEND_SPECIAL_SEP] = "[SEP]",
                           [ATTEND_SPECIAL_MASK] = "[MASK]"}},
    [ATTEND_LIKE_BART] = {"bart",
                          "BartTokenizer",
                          false,
                          {"<s>", "<pad>", "</s>", "<unk>", "<mask>"},
                          {[ATTEND_SPECIAL_BOS] = "<s>",
                           [ATTEND_SPECIAL_EOS] = "</s>",
                           [ATTEND_SPECIAL_UNK] = "<unk>",
                           [ATTEND_SPECIAL_PAD] = "<pad>",
                           [ATTEND_SPECIAL_CLS] = "<s>",
                           [ATTEND_SPECIAL_SEP] = "</s>",
                           [ATTEND_SPECIAL_MASK] = "<mask>"}},
    [ATTEND_LIKE_LLAMA] = {"llama",
                           "PreTrainedTokenizerFast",
                           false,
                           {"<s>", "</s>"},
                           {[ATTEND_SPECIAL_BOS] = "<s>", [ATTEND_SPECIAL_EOS] = "</s>"}}};

const like *like_of(attend_like which) {
  return (unsigned)which < ATTEND_LIKES ? &likes[which] : NULL;
}

const char *attend_like_name(attend_like which) {
  const like *l = like_of(which);
  return l ? l->name : NULL;
}

/* ---- pieces ---------------------------------------------------------------------- */

attend_status piece_put(attend_text_trainer *r, const char *name, size_t length, uint32_t letters) {
  trained_piece p = {{NULL, length}, letters};
  ATTEND_TRY(
      grow(r->ctx, &r->piece, &r->piece_capacity, r->pieces + 1, sizeof *r->piece, "a vocabulary"));
  ATTEND_TRY(pool_copy(r->ctx, &r->pool, name, length, &p.name.bytes));
  r->piece[r->pieces++] = p;
  return ATTEND_OK;
}

int32_t special_named(const attend_text_trainer *r, const char *name, size_t length) {
  for (int32_t i = 0; i < r->specials; i++)
    if (r->piece[i].name.length == length && !memcmp(r->piece[i].name.bytes, name, length))
      return i;
  return -1;
}

/* A token with a space would cross the seams where texts are split. */
static bool has_space(const char *name) {
  uint32_t c;
  for (size_t i = 0, n = strlen(name); i < n;) {
    i += utf8_next(name + i, n - i, &c);
    if (is_space(c)) return true;
  }
  return false;
}

static attend_status put_special(attend_text_trainer *r, const char *name) {
  enum { LONGEST_SPECIAL = 256 };
  size_t length = strlen(name);
  ATTEND_CHECK(
      r->ctx,
      length && length <= LONGEST_SPECIAL && utf8_is_valid(name, length) && !has_space(name),
      "\"%.60s\" cannot be a special token: it must be UTF-8, without "
      "spaces, of 1 to %d bytes",
      name, LONGEST_SPECIAL);
  ATTEND_CHECK(r->ctx, r->specials < MOST_SPECIALS, "there are more than %d special tokens",
               MOST_SPECIALS);
  if (special_named(r, name, length) >= 0) return ATTEND_OK;
  ATTEND_TRY(piece_put(r, name, length, 1));
  r->specials++;
  return ATTEND_OK;
}

attend_status specials_find(attend_text_trainer *r) {
  for (int i = 0; i < 6 && r->like->special[i]; i++)
    ATTEND_TRY(put_special(r, r->like->special[i]));
  for (size_t i = 0; i < r->o.n_specials; i++) ATTEND_TRY(put_special(r, r->o.specials[i]));
  return ATTEND_OK;
}

static attend_status put_letter(attend_text_trainer *r, uint32_t c, bool inside) {
  char name[8] = "##";
  size_t skip = inside ? 2 : 0;
  size_t length = skip + (size_t)utf8_write(c, name + skip);
  ATTEND_CHECK(r->ctx, special_named(r, name, length) < 0,
               "\"%.*s\" cannot be a special token: it is a letter of the "
               "text's alphabet",
               (int)length, name);
  r->letters++;
  return piece_put(r, name, length, 1);
}

/* ---- bytes ----------------------------------------------------------------------- */

/* Two ranges of code points: bytes that stand for themselves, and the others. */
attend_status bytes_put(attend_text_trainer *r) {
  for (int beyond = 0; beyond < 2; beyond++)
    for (int b = 0; b < 256; b++) {
      uint32_t c = byte_char((unsigned char)b);
      if ((c >= 0x100) == (bool)beyond) ATTEND_TRY(put_letter(r, c, false));
    }
  return ATTEND_OK;
}

static void find_byte_ids(const attend_text_trainer *r, int32_t id[256]) {
  int32_t next = r->specials;
  for (int beyond = 0; beyond < 2; beyond++)
    for (int b = 0; b < 256; b++)
      if ((byte_char((unsigned char)b) >= 0x100) == (bool)beyond) id[b] = next++;
}

/* ---- characters ------------------------------------------------------------------ */

typedef struct {
  uint64_t times;
  int32_t first, inside; /* ids; -1: not in the alphabet */
} letter;

typedef struct {
  uint64_t times;
  uint32_t c;
} counted;

static bool is_learnt_from(const counted_word *w) {
  size_t n = 0;
  for (size_t i = 0; i < w->text.length; i++) n += ((unsigned char)w->text.bytes[i] & 0xc0) != 0x80;
  return n <= LONGEST_CHARS; /* longer words are [UNK] */
}

static void count_letters(const word_counts *words, letter *of) {
  uint32_t c;
  for (size_t i = 0; i < words->count; i++) {
    const counted_word *w = &words->word[i];
    if (!is_learnt_from(w)) continue;
    for (size_t at = 0; at < w->text.length;) {
      at += utf8_next(w->text.bytes + at, w->text.length - at, &c);
      of[c].times += w->times;
    }
  }
}

static int by_times(const void *a, const void *b) {
  const counted *x = a, *y = b;
  if (x->times != y->times) return x->times > y->times ? -1 : 1;
  return x->c < y->c ? -1 : x->c > y->c;
}

/* Keeps only the most frequent letters. */
static attend_status limit_letters(attend_text_trainer *r, letter *of) {
  size_t n = 0, max = (size_t)r->o.alphabet;
  counted *list;
  for (uint32_t c = 0; c < CHARS; c++) n += of[c].times > 0;
  if (n <= max) return ATTEND_OK;
  ATTEND_TRY(ctx_alloc(r->ctx, n * sizeof *list, "an alphabet", &list));
  n = 0;
  for (uint32_t c = 0; c < CHARS; c++)
    if (of[c].times) list[n++] = (counted){of[c].times, c};
  qsort(list, n, sizeof *list, by_times);
  for (size_t i = max; i < n; i++) of[list[i].c].times = 0;
  ctx_free(r->ctx, list);
  return ATTEND_OK;
}

static bool is_spelled(const counted_word *w, const letter *of) {
  uint32_t c;
  if (!is_learnt_from(w)) return false;
  for (size_t at = 0; at < w->text.length;) {
    at += utf8_next(w->text.bytes + at, w->text.length - at, &c);
    if (!of[c].times) return false;
  }
  return true;
}

/* Marks in `inside` the letters that occur after others. */
static void mark_inside(const word_counts *words, letter *of) {
  uint32_t c;
  for (size_t i = 0; i < words->count; i++) {
    const counted_word *w = &words->word[i];
    if (!is_spelled(w, of)) continue;
    for (size_t at = 0; at < w->text.length;) {
      size_t n = utf8_next(w->text.bytes + at, w->text.length - at, &c);
      if (at) of[c].inside = 1;
      at += n;
    }
  }
}

static attend_status put_letters(attend_text_trainer *r, letter *of) {
  for (uint32_t c = 0; c < CHARS; c++) {
    if (!of[c].times) continue;
    of[c].first = (int32_t)r->pieces;
    ATTEND_TRY(put_letter(r, c, false));
  }
  for (uint32_t c = 0; c < CHARS; c++) {
    if (!of[c].inside) continue;
    of[c].inside = (int32_t)r->pieces;
    ATTEND_TRY(put_letter(r, c, true));
  }
  return ATTEND_OK;
}

/* ---- words ----------------------------------------------------------------------- */

static attend_status take_rows(attend_text_trainer *r, size_t places) {
  word_rows *rows = &r->rows;
  attend_context *ctx = r->ctx;
  if (places >= UINT32_MAX)
    return fail(ctx, ATTEND_UNSUPPORTED,
                "the different words have %zu letters, too many to learn from: "
                "take less text",
                places);
  ATTEND_TRY(ctx_alloc(ctx, places * sizeof *rows->id, "words", &rows->id));
  ATTEND_TRY(ctx_alloc(ctx, places * sizeof *rows->back, "words", &rows->back));
  return ctx_alloc(ctx, places * sizeof *rows->word, "words", &rows->word);
}

static void put_place(word_rows *rows, int32_t id, size_t word) {
  rows->id[rows->places] = id;
  rows->back[rows->places] = (uint32_t)rows->places;
  rows->word[rows->places++] = (uint32_t)word;
}

static void put_row(word_rows *rows, const counted_word *w, size_t word, const int32_t *bytes,
                    const letter *of) {
  uint32_t c;
  for (size_t at = 0; at < w->text.length;) {
    size_t n = 1;
    if (of) n = utf8_next(w->text.bytes + at, w->text.length - at, &c);
    put_place(rows,
              !of  ? bytes[(unsigned char)w->text.bytes[at]]
              : at ? of[c].inside
                   : of[c].first,
              word);
    at += n;
  }
  put_place(rows, ROW_GAP, word);
}

static attend_status put_rows(attend_text_trainer *r, const word_counts *words, const letter *of) {
  int32_t bytes[256];
  size_t places = 1;
  for (size_t i = 0; i < words->count; i++)
    if (!of || is_spelled(&words->word[i], of)) places += words->word[i].text.length + 1;
  ATTEND_TRY(take_rows(r, places));
  find_byte_ids(r, bytes);
  put_place(&r->rows, ROW_GAP, 0);
  for (size_t i = 0; i < words->count; i++)
    if (!of || is_spelled(&words->word[i], of)) put_row(&r->rows, &words->word[i], i, bytes, of);
  return ATTEND_OK;
}

attend_status alphabet_find(attend_text_trainer *r, const word_counts *words) {
  letter *of;
  if (!r->like->wordpiece) return put_rows(r, words, NULL);
  ATTEND_TRY(ctx_alloc_zeroed(r->ctx, CHARS * sizeof *of, "an alphabet", &of));
  count_letters(words, of);
  attend_status status = limit_letters(r, of);
  if (!status) mark_inside(words, of);
  if (!status) status = put_letters(r, of);
  if (!status) status = put_rows(r, words, of);
  ctx_free(r->ctx, of);
  return status;
}

void rows_free(const attend_context *ctx, word_rows *rows) {
  ctx_free(ctx, rows->id);
  ctx_free(ctx, rows->back);
  ctx_free(ctx, rows->word);
  *rows = (word_rows){0};
}
