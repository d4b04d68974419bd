/* Files of texts, into a corpus.
 *
 * Place: train/ - between files as people have them (corpus_file.c) and corpus.c.
 */
#include <stdio.h>
#include <string.h>

#include "attend/json.h"
#include "base/files.h"
#include "train/corpus.h"

enum { LONGEST_PIECE = 1 << 20 }; /* of text that is encoded at once */

typedef struct {
  attend_corpus *c;
  const attend_corpus_options *o;
  const char *path;
  attend_encoding *encoding;
  int32_t open; /* what the tokenizer puts before a text; -1: nothing */
  text_file file;
  size_t line; /* from 1 */
} reader;

/* ---- one text ------------------------------------------------------------------ */

/* What goes around an empty text: the first of it, unless that is the end. */
static attend_status find_open(reader *r) {
  ATTEND_TRY(attend_encode(r->encoding, "", 0, NULL));
  const attend_encoding *e = r->encoding;
  int32_t eos = attend_tokenizer_special(r->o->tokenizer, ATTEND_SPECIAL_EOS);
  r->open = e->count && (e->id[0] != eos || e->count > 1) ? e->id[0] : -1;
  return ATTEND_OK;
}

static bool is_plain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         (c >= '0' && c <= '9');
}

/* Between a word and a space tokenizers join nothing, so pieces have the ids of
 * the whole, but for a mark that some put before a text. Where there is no such
 * place, at a line; in a line without end, at a character. */
static size_t piece_length(const char *text, size_t length) {
  if (length <= LONGEST_PIECE) return length;
  size_t least = LONGEST_PIECE / 2, n;
  for (n = LONGEST_PIECE; n > least; n--)
    if (text[n] == ' ' && is_plain(text[n - 1])) return n;
  for (n = LONGEST_PIECE; n > least; n--)
    if (text[n - 1] == '\n') return n;
  n = LONGEST_PIECE;
  for (int i = 0; i < 3 && ((unsigned char)text[n] & 0xC0) == 0x80; i++) n--;
  return n;
}

static attend_status note(reader *r, size_t done) {
  const attend_corpus_options *o = r->o;
  if (!o->progress || !o->progress(done, r->file.bytes, o->user))
    return ATTEND_OK;
  return fail(r->c->ctx, ATTEND_STOPPED, "reading %.300s was stopped", r->path);
}

/* How far the reading is, if the text lies in the file. */
static attend_status note_text(reader *r, const char *text) {
  const char *from = r->file.text;
  if (text < from || text > from + r->file.length) return ATTEND_OK;
  return note(r, (size_t)(text - from));
}

static attend_status append_plain(reader *r, const char *text, size_t length) {
  static const attend_encode_options plain = {.no_special = true};
  while (length) {
    size_t n = piece_length(text, length);
    ATTEND_TRY(attend_encode(r->encoding, text, n, &plain));
    ATTEND_TRY(corpus_append(r->c, r->encoding->count, r->encoding->id));
    text += n;
    length -= n;
    if (length) ATTEND_TRY(note_text(r, text));
  }
  return ATTEND_OK;
}

static attend_status append_id(reader *r, int32_t id) {
  return id >= 0 ? corpus_append(r->c, 1, &id) : ATTEND_OK;
}

static attend_status add_document(reader *r, const char *text, size_t length) {
  if (!length) return ATTEND_OK;
  ATTEND_CHECK(
      r->c->ctx, !r->c->parts || !r->c->pairs,
      "a corpus holds pairs, or documents without an answer, not both");
  if (r->o->task == ATTEND_LEARN_CAUSAL) ATTEND_TRY(append_id(r, r->open));
  ATTEND_TRY(append_plain(r, text, length));
  ATTEND_TRY(append_id(r, r->o->end));
  return corpus_close(r->c);
}

/* ---- pairs ---------------------------------------------------------------------- */

/* The ids that came since `from`, `most` of them at most, and the last stays last. */
static void cut_part(attend_corpus *c, size_t from, size_t most,
                     bool keep_last) {
  size_t n = c->count - from;
  if (!most || n <= most) return;
  if (keep_last) c->ids[from + most - 1] = c->ids[c->count - 1];
  c->dropped += n - most;
  c->count = from + most;
}

static attend_status encode_side(reader *r, const char *text, size_t length,
                                 size_t most) {
  attend_encode_options how = {.max_length = most};
  ATTEND_TRY(attend_encode(r->encoding, text, length, &how));
  r->c->dropped += r->encoding->dropped;
  return corpus_append(r->c, r->encoding->count, r->encoding->id);
}

static attend_status add_source(reader *r, const char *text, size_t length) {
  ATTEND_TRY(encode_side(r, text, length, r->o->source_length));
  return corpus_close(r->c);
}

/* What is wanted ends, whether or not the tokenizer puts an end behind texts: a
 * model that never saw one never ends. */
static attend_status add_target(reader *r, const char *text, size_t length) {
  attend_corpus *c = r->c;
  size_t from = c->count, most = r->o->target_length;
  ATTEND_TRY(encode_side(r, text, length, most));
  if (c->count == from || c->ids[c->count - 1] != r->o->end)
    ATTEND_TRY(append_id(r, r->o->end));
  cut_part(c, from, most, r->o->end >= 0);
  return corpus_close(c);
}

/* A decoder reads both as one text. */
static attend_status add_joined(reader *r, const char *source, size_t n,
                                const char *target, size_t m) {
  size_t from = r->c->count;
  ATTEND_TRY(append_id(r, r->open));
  ATTEND_TRY(append_plain(r, source, n));
  cut_part(r->c, from, r->o->source_length, false);
  ATTEND_TRY(corpus_close(r->c));
  from = r->c->count;
  ATTEND_TRY(append_plain(r, target, m));
  ATTEND_TRY(append_id(r, r->o->end));
  cut_part(r->c, from, r->o->target_length, r->o->end >= 0);
  return corpus_close(r->c);
}

static attend_status add_two(reader *r, const char *source, size_t n,
                             const char *target, size_t m) {
  if (r->o->parts == ATTEND_DECODER) return add_joined(r, source, n, target, m);
  ATTEND_TRY(add_source(r, source, n));
  return add_target(r, target, m);
}

/* A side of spaces alone may come to nothing, too. */
static attend_status add_pair(reader *r, const char *source, size_t n,
                              const char *target, size_t m) {
  attend_corpus *c = r->c;
  ATTEND_CHECK(
      c->ctx, !c->parts || c->pairs,
      "a corpus holds pairs, or documents without an answer, not both");
  c->pairs = true;
  if (n && m) ATTEND_TRY(add_two(r, source, n, target, m));
  if (n && m && part_length(c, c->parts - 2) && part_length(c, c->parts - 1))
    return ATTEND_OK;
  return fail(c->ctx, ATTEND_IO,
              "%.300s, line %zu: one side of the pair is empty", r->path,
              r->line);
}

/* ---- kinds of files --------------------------------------------------------------- */

static const char *field_text(const attend_json *object, const char *given,
                              const char *first, const char *second,
                              size_t *length) {
  const char *names[] = {given ? given : first, given ? NULL : second};
  for (int i = 0; i < 2 && names[i]; i++) {
    const char *text =
        attend_json_string(attend_json_get(object, names[i]), length);
    if (text) return text;
  }
  return NULL;
}

static attend_status lacks(reader *r, const char *given, const char *first,
                           const char *second) {
  return fail(
      r->c->ctx, ATTEND_IO,
      "%.300s, line %zu: there is no string called \"%.60s\"%s%s%s: say "
      "which field holds the text",
      r->path, r->line, given ? given : first, given || !second ? "" : " or \"",
      given || !second ? "" : second, given || !second ? "" : "\"");
}

static attend_status add_object(reader *r, const attend_json *object) {
  const attend_corpus_options *o = r->o;
  size_t n, m;
  if (o->task != ATTEND_LEARN_PAIRS) {
    const char *text = field_text(object, o->field, "text", NULL, &n);
    return text ? add_document(r, text, n) : lacks(r, o->field, "text", NULL);
  }
  const char *from = field_text(object, o->field, "document", "source", &n);
  const char *to = field_text(object, o->answer_field, "summary", "target", &m);
  if (!from) return lacks(r, o->field, "document", "source");
  if (!to) return lacks(r, o->answer_field, "summary", "target");
  return add_pair(r, from, n, to, m);
}

static bool is_blank(const char *line, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (!strchr(" \t\r", line[i]) || !line[i]) return false;
  return true;
}

static attend_status read_object(reader *r, const char *line, size_t n) {
  attend_json *object;
  char what[400];
  if (is_blank(line, n)) return ATTEND_OK;
  snprintf(what, sizeof what, "%.300s, line %zu", r->path, r->line);
  ATTEND_TRY(attend_json_parse(r->c->ctx, what, line, n, &object));
  attend_status status = add_object(r, object);
  attend_json_free(object);
  return status;
}

static attend_status read_columns(reader *r, const char *line, size_t n) {
  if (n && line[n - 1] == '\r') n--;
  if (!n) return ATTEND_OK;
  const char *tab = memchr(line, '\t', n);
  if (!tab)
    return fail(r->c->ctx, ATTEND_IO,
                "%.300s, line %zu has no tab between two texts", r->path,
                r->line);
  size_t first = (size_t)(tab - line), rest = n - first - 1;
  const char *more = memchr(tab + 1, '\t', rest);
  if (more) rest = (size_t)(more - tab - 1);
  return add_pair(r, line, first, tab + 1, rest);
}

/* A line from `at` on, and where the next begins. */
static const char *line_at(const reader *r, size_t at, size_t *n,
                           size_t *next) {
  const char *line = r->file.text + at;
  size_t left = r->file.length - at;
  const char *end = memchr(line, '\n', left);
  *n = end ? (size_t)(end - line) : left;
  *next = at + *n + (end != NULL);
  return line;
}

static attend_status each_line(
    reader *r, attend_status (*read)(reader *r, const char *line, size_t n)) {
  for (size_t at = 0, n; at < r->file.length;) {
    const char *line = line_at(r, at, &n, &at);
    r->line++;
    ATTEND_TRY(read(r, line, n));
    if (r->line % 256 == 0) ATTEND_TRY(note(r, at));
  }
  return ATTEND_OK;
}

static bool is_word(const char *line, size_t n, const char *word, size_t m) {
  return m && n == m && !memcmp(line, word, m);
}

/* Whether a line ends a document: the end-of-text token alone, as the tokenizer
 * or as GPT-2 writes it. Some files write it with newlines around. */
static bool ends_document(const reader *r, const char *line, size_t n) {
  static const char usual[] = "<|endoftext|>";
  int32_t eos = attend_tokenizer_special(r->o->tokenizer, ATTEND_SPECIAL_EOS);
  size_t m = 0;
  const char *mark =
      eos < 0 ? NULL : attend_tokenizer_piece(r->o->tokenizer, eos, &m);
  if (n && line[n - 1] == '\r') n--;
  while (mark && m && mark[m - 1] == '\n') m--;
  for (; mark && m && *mark == '\n'; m--) mark++;
  return is_word(line, n, usual, sizeof usual - 1) ||
         (mark && is_word(line, n, mark, m));
}

/* The line break before an end goes with it. */
static attend_status add_stretch(reader *r, size_t from, size_t to) {
  const char *text = r->file.text;
  if (to > from && text[to - 1] == '\n') to--;
  if (to > from && text[to - 1] == '\r') to--;
  ATTEND_TRY(add_document(r, text + from, to - from));
  return note(r, to);
}

static attend_status read_text(reader *r) {
  size_t from = 0, next;
  for (size_t at = 0, n; at < r->file.length; at = next) {
    const char *line = line_at(r, at, &n, &next);
    if (!ends_document(r, line, n)) continue;
    ATTEND_TRY(add_stretch(r, from, at));
    from = next;
  }
  return add_document(r, r->file.text + from, r->file.length - from);
}

static attend_status read_kind(reader *r) {
  bool pairs = r->o->task == ATTEND_LEARN_PAIRS;
  ATTEND_TRY(find_open(r));
  if (name_ends(r->path, ".jsonl") || name_ends(r->path, ".ndjson"))
    return each_line(r, read_object);
  if (pairs && name_ends(r->path, ".tsv")) return each_line(r, read_columns);
  ATTEND_CHECK(r->c->ctx, !pairs,
               "%.300s: pairs of texts come from files called .jsonl or .tsv",
               r->path);
  return read_text(r);
}

static attend_status read_file(reader *r, const char *path) {
  size_t parts = r->c->parts;
  ATTEND_TRY(text_file_open(r->c->ctx, path, &r->file));
  attend_status status = read_kind(r);
  if (!status) r->c->bytes += r->file.length;
  if (!status && r->c->parts == parts)
    status = fail(r->c->ctx, ATTEND_IO, "%.300s holds no text", path);
  text_file_close(&r->file);
  return status;
}

attend_status attend_corpus_read(attend_corpus *c, const char *path,
                                 const attend_corpus_options *options) {
  reader r = {.c = c, .o = options, .path = path};
  attend_corpus before = *c;
  ATTEND_TRY(attend_encoding_create(options->tokenizer, &r.encoding));
  attend_status status = read_file(&r, path);
  if (status) {
    c->count = before.count;
    c->parts = before.parts;
    c->pairs = before.pairs;
    c->bytes = before.bytes;
    c->dropped = before.dropped;
  }
  attend_encoding_free(r.encoding);
  return status;
}
