/* Files of texts, into a corpus.
 *
 * Place: train/ - between files as people have them and corpus.c.
 */
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
  char *text;
  size_t length;
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

static size_t piece_length(const char *text, size_t length) {
  if (length <= LONGEST_PIECE) return length;
  size_t n = LONGEST_PIECE;
  while (n > LONGEST_PIECE / 2 && text[n - 1] != '\n') n--;
  if (text[n - 1] == '\n') return n;
  n = LONGEST_PIECE; /* one long line: at a character at least */
  while (n > 1 && ((unsigned char)text[n] & 0xC0) == 0x80) n--;
  return n;
}

static attend_status append_plain(reader *r, const char *text, size_t length) {
  static const attend_encode_options plain = {.no_special = true};
  while (length) {
    size_t n = piece_length(text, length);
    ATTEND_TRY(attend_encode(r->encoding, text, n, &plain));
    ATTEND_TRY(corpus_append(r->c, r->encoding->count, r->encoding->id));
    text += n;
    length -= n;
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

static attend_status add_side(reader *r, const char *text, size_t length,
                              size_t most) {
  attend_encode_options how = {.max_length = most};
  ATTEND_TRY(attend_encode(r->encoding, text, length, &how));
  r->c->dropped += r->encoding->dropped;
  ATTEND_TRY(corpus_append(r->c, r->encoding->count, r->encoding->id));
  return corpus_close(r->c);
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

static attend_status add_pair(reader *r, const char *source, size_t n,
                              const char *target, size_t m) {
  ATTEND_CHECK(r->c->ctx, n && m, "%s, line %zu: one side of the pair is empty",
               r->path, r->line);
  ATTEND_CHECK(
      r->c->ctx, !r->c->parts || r->c->pairs,
      "a corpus holds pairs, or documents without an answer, not both");
  r->c->pairs = true;
  if (r->o->parts == ATTEND_DECODER) return add_joined(r, source, n, target, m);
  ATTEND_TRY(add_side(r, source, n, r->o->source_length));
  return add_side(r, target, m, r->o->target_length);
}

/* ---- kinds of files --------------------------------------------------------------- */

static bool has_suffix(const char *path, const char *suffix) {
  size_t n = strlen(path), m = strlen(suffix);
  return n >= m && !strcmp(path + n - m, suffix);
}

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

static attend_status read_object(reader *r, const char *line, size_t n) {
  attend_json *object;
  char what[400];
  if (strspn(line, " \t\r\n") >= n) return ATTEND_OK;
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
  ATTEND_CHECK(r->c->ctx, tab, "%.300s, line %zu has no tab between a pair",
               r->path, r->line);
  size_t first = (size_t)(tab - line), rest = n - first - 1;
  const char *more = memchr(tab + 1, '\t', rest);
  if (more) rest = (size_t)(more - tab - 1);
  return add_pair(r, line, first, tab + 1, rest);
}

static attend_status note(reader *r, size_t done) {
  const attend_corpus_options *o = r->o;
  if (!o->progress || !o->progress(done, r->length, o->user)) return ATTEND_OK;
  return fail(r->c->ctx, ATTEND_STOPPED, "reading %.300s was stopped", r->path);
}

static attend_status each_line(
    reader *r, attend_status (*read)(reader *r, const char *line, size_t n)) {
  for (size_t at = 0; at < r->length;) {
    char *line = r->text + at;
    char *end = memchr(line, '\n', r->length - at);
    size_t n = end ? (size_t)(end - line) : r->length - at;
    r->line++;
    ATTEND_TRY(read(r, line, n));
    at += n + 1;
    if (r->line % 256 == 0) ATTEND_TRY(note(r, at));
  }
  return ATTEND_OK;
}

/* A line that is nothing but the end-of-text token ends a document. */
static attend_status read_text(reader *r) {
  int32_t eos = attend_tokenizer_special(r->o->tokenizer, ATTEND_SPECIAL_EOS);
  size_t between = 0, from = 0;
  const char *mark =
      eos < 0 ? NULL : attend_tokenizer_piece(r->o->tokenizer, eos, &between);
  for (size_t at = 0; at < r->length;) {
    const char *line = r->text + at;
    const char *end = memchr(line, '\n', r->length - at);
    size_t n = end ? (size_t)(end - line) : r->length - at;
    if (mark && n == between && !memcmp(line, mark, n)) {
      size_t last = at > from ? at - 1 : from; /* the newline before goes */
      ATTEND_TRY(add_document(r, r->text + from, last - from));
      ATTEND_TRY(note(r, at));
      from = at + n + 1;
    }
    at += n + 1;
  }
  if (from >= r->length) return ATTEND_OK;
  return add_document(r, r->text + from, r->length - from);
}

static attend_status read_kind(reader *r) {
  bool pairs = r->o->task == ATTEND_LEARN_PAIRS;
  ATTEND_TRY(find_open(r));
  if (has_suffix(r->path, ".jsonl")) return each_line(r, read_object);
  if (pairs && has_suffix(r->path, ".tsv")) return each_line(r, read_columns);
  ATTEND_CHECK(r->c->ctx, !pairs,
               "%.300s: pairs of texts come from files called .jsonl or .tsv",
               r->path);
  return read_text(r);
}

attend_status attend_corpus_read(attend_corpus *c, const char *path,
                                 const attend_corpus_options *options) {
  reader r = {.c = c, .o = options, .path = path};
  size_t count = c->count, parts = c->parts;
  bool pairs = c->pairs;
  ATTEND_TRY(attend_encoding_create(options->tokenizer, &r.encoding));
  attend_status status = file_read(c->ctx, path, &r.text, &r.length);
  if (!status) status = read_kind(&r);
  if (!status) c->bytes += r.length;
  if (!status && c->parts == parts)
    status = fail(c->ctx, ATTEND_IO, "%.300s holds no text", path);
  if (status) {
    c->count = count;
    c->parts = parts;
    c->pairs = pairs;
  }
  give(c->ctx, r.text);
  attend_encoding_free(r.encoding);
  return status;
}
