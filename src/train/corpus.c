/* A corpus: documents as ids, in one array; read from text, JSONL and TSV files. */
#include "base/options.h"
#include "train/corpus.h"

#include <stdio.h>
#include <string.h>

#include "attend/lines.h"
#include "base/files.h"

attend_status attend_corpus_create(attend_context *ctx, attend_corpus **corpus) {
  attend_corpus *c;
  *corpus = NULL;
  ATTEND_TRY(ctx_alloc_zeroed(ctx, sizeof *c, "a corpus", &c));
  c->ctx = ctx;
  *corpus = c;
  return ATTEND_OK;
}

void attend_corpus_free(attend_corpus *c) {
  if (!c) return;
  ctx_free(c->ctx, c->ids);
  ctx_free(c->ctx, c->end);
  ctx_free(c->ctx, c);
}

/* ---- growing ------------------------------------------------------------------ */

static attend_status append(attend_corpus *c, size_t n, const int32_t *ids) {
  ATTEND_TRY(grow(c->ctx, &c->ids, &c->capacity, c->count + n, sizeof *c->ids, "the corpus"));
  if (n) memcpy(c->ids + c->count, ids, n * sizeof *ids);
  c->count += n;
  return ATTEND_OK;
}

static attend_status close_part(attend_corpus *c) {
  ATTEND_TRY(grow(c->ctx, &c->end, &c->parts_capacity, c->parts + 1, sizeof *c->end, "the corpus"));
  c->end[c->parts++] = c->count;
  return ATTEND_OK;
}

/* Removes what was added since; the memory stays. */
static void take_back(attend_corpus *c, const attend_corpus *before) {
  c->count = before->count;
  c->parts = before->parts;
  c->pairs = before->pairs;
  c->bytes = before->bytes;
  c->dropped = before->dropped;
}

/* All documents are pairs, or none is. */
static attend_status set_kind(attend_corpus *c, bool pairs) {
  ATTEND_CHECK(c->ctx, !c->parts || c->pairs == pairs,
               "a corpus holds pairs, or documents without an answer, not both");
  c->pairs = pairs;
  return ATTEND_OK;
}

attend_status attend_corpus_add(attend_corpus *c, size_t n, const int32_t *ids, size_t n_answer,
                                const int32_t *answer) {
  const attend_corpus before = *c;
  ATTEND_TRY(set_kind(c, answer != NULL));
  attend_status status = append(c, n, ids);
  if (!status) status = close_part(c);
  if (!status && answer) status = append(c, n_answer, answer);
  if (!status && answer) status = close_part(c);
  if (status) take_back(c, &before);
  return status;
}

/* ---- accessors ----------------------------------------------------------------- */

size_t attend_corpus_documents(const attend_corpus *c) {
  return c->pairs ? c->parts / 2 : c->parts;
}
size_t attend_corpus_tokens(const attend_corpus *c) { return c->count; }
size_t attend_corpus_bytes(const attend_corpus *c) { return c->bytes; }
size_t attend_corpus_dropped(const attend_corpus *c) { return c->dropped; }

uint64_t attend_corpus_digest(const attend_corpus *c) {
  const uint64_t parts[] = {c->pairs, c->parts};
  attend_digest sum = {0};
  attend_digest_add(&sum, parts, sizeof parts);
  attend_digest_add(&sum, c->end, c->parts * sizeof *c->end);
  attend_digest_add(&sum, c->ids, c->count * sizeof *c->ids);
  return digest_word(&sum);
}

/* ---- held-out share ------------------------------------------------------------- */

enum { FEW_DOCUMENTS = 20 };

static attend_status copy_document(const attend_corpus *c, size_t i, attend_corpus *to) {
  size_t a = c->pairs ? 2 * i : i;
  return attend_corpus_add(to, part_length(c, a), c->ids + part_start(c, a),
                           c->pairs ? part_length(c, a + 1) : 0,
                           c->pairs ? c->ids + part_start(c, a + 1) : NULL);
}

static attend_status split_documents(const attend_corpus *c, double share, uint64_t seed,
                                     attend_corpus *kept, attend_corpus *held) {
  size_t n = attend_corpus_documents(c);
  for (size_t i = 0; i < n; i++) {
    float draw;
    attend_random_uniform((attend_random){seed, UINT64_C(0x5911)}, i, 1, &draw);
    bool hold = (double)draw < share;
    if (i + 1 == n && !attend_corpus_documents(held)) hold = true;
    if (i + 1 == n && !attend_corpus_documents(kept)) hold = false;
    ATTEND_TRY(copy_document(c, i, hold ? held : kept));
  }
  return ATTEND_OK;
}

static attend_status split_last(const attend_corpus *c, double share, attend_corpus *kept,
                                attend_corpus *held) {
  size_t last = c->parts - 1, n = part_length(c, last);
  size_t hold = (size_t)((double)c->count * share);
  if (hold > n / 2) hold = n / 2;
  if (hold < 2) hold = 2;
  ATTEND_CHECK(c->ctx, hold < n,
               "the last document has %zu tokens, too few to hold some back: "
               "name a file to measure with, or hold nothing back",
               n);
  for (size_t i = 0; i < last; i++) ATTEND_TRY(copy_document(c, i, kept));
  const int32_t *ids = c->ids + part_start(c, last);
  ATTEND_TRY(attend_corpus_add(kept, n - hold, ids, 0, NULL));
  return attend_corpus_add(held, hold, ids + n - hold, 0, NULL);
}

attend_status attend_corpus_split(attend_corpus *c, double share, uint64_t seed,
                                  attend_corpus **held) {
  attend_corpus *kept, *other = NULL;
  *held = NULL;
  ATTEND_CHECK(c->ctx, share > 0 && share < 1,
               "a share of %g cannot be held back: choose one between 0 and 1", share);
  ATTEND_CHECK(c->ctx, c->parts && (!c->pairs || c->parts > 2),
               "there is too little text to hold a share of it back");
  ATTEND_TRY(attend_corpus_create(c->ctx, &kept));
  attend_status status = attend_corpus_create(c->ctx, &other);
  bool few = !c->pairs && c->parts < FEW_DOCUMENTS;
  if (!status)
    status = few ? split_last(c, share, kept, other) : split_documents(c, share, seed, kept, other);
  if (!status) {
    attend_corpus was = *c;
    *c = *kept;
    c->bytes = was.bytes;
    c->dropped = was.dropped;
    *kept = was;
    *held = other;
    other = NULL;
  }
  attend_corpus_free(other);
  attend_corpus_free(kept);
  return status;
}

enum { LONGEST_CHUNK = 1 << 20 }; /* of text that is encoded at once */

typedef struct {
  attend_corpus *c;
  const attend_corpus_options *o;
  const char *path;
  attend_encoding *encoding;
  int32_t open;     /* the token that the tokenizer puts before a text; -1: none */
  const char *text; /* [length] of the file, past its mark */
  size_t length, bytes;
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
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/* Between a word and a space tokenizers join nothing, so pieces have the ids of
 * the whole, but for a mark that some put before a text. Where there is no such
 * place, at a line; in a line without end, at a character. */
static size_t piece_length(const char *text, size_t length) {
  if (length <= LONGEST_CHUNK) return length;
  size_t min = LONGEST_CHUNK / 2, n;
  for (n = LONGEST_CHUNK; n > min; n--)
    if (text[n] == ' ' && is_plain(text[n - 1])) return n;
  for (n = LONGEST_CHUNK; n > min; n--)
    if (text[n - 1] == '\n') return n;
  n = LONGEST_CHUNK;
  for (int i = 0; i < 3 && ((unsigned char)text[n] & 0xC0) == 0x80; i++) n--;
  return n;
}

static attend_status note(reader *r, size_t done) {
  const attend_corpus_options *o = r->o;
  double share = r->bytes ? (double)done / (double)r->bytes : 1;
  if (!o->progress || !o->progress(share, NULL, o->user)) return ATTEND_OK;
  return fail(r->c->ctx, ATTEND_STOPPED, "reading %.300s was stopped", r->path);
}

/* Reports progress, if the text lies in the file. */
static attend_status note_text(reader *r, const char *text) {
  const char *from = r->text;
  if (text < from || text > from + r->length) return ATTEND_OK;
  return note(r, (size_t)(text - from));
}

static attend_status append_plain(reader *r, const char *text, size_t length) {
  static const attend_encode_options plain = {ATTEND_INIT(attend_encode_options),
                                              .no_special = true};
  while (length) {
    size_t n = piece_length(text, length);
    ATTEND_TRY(attend_encode(r->encoding, text, n, &plain));
    ATTEND_TRY(append(r->c, r->encoding->count, r->encoding->id));
    text += n;
    length -= n;
    if (length) ATTEND_TRY(note_text(r, text));
  }
  return ATTEND_OK;
}

static attend_status append_id(reader *r, int32_t id) {
  return id >= 0 ? append(r->c, 1, &id) : ATTEND_OK;
}

static attend_status add_document(reader *r, const char *text, size_t length) {
  if (!length) return ATTEND_OK;
  ATTEND_TRY(set_kind(r->c, false));
  if (r->o->task == ATTEND_LEARN_CAUSAL) ATTEND_TRY(append_id(r, r->open));
  ATTEND_TRY(append_plain(r, text, length));
  ATTEND_TRY(append_id(r, r->o->end));
  return close_part(r->c);
}

/* ---- pairs ---------------------------------------------------------------------- */

/* The ids that came since `from`, `most` of them at most, and the last stays last. */
static void cut_part(attend_corpus *c, size_t from, size_t max, bool keep_last) {
  size_t n = c->count - from;
  if (!max || n <= max) return;
  if (keep_last) c->ids[from + max - 1] = c->ids[c->count - 1];
  c->dropped += n - max;
  c->count = from + max;
}

/* A decoder reads both sides as one text. What is wanted ends, whether or not the
 * tokenizer puts an end behind texts: a model that never saw one never ends. */
static attend_status add_side(reader *r, const char *text, size_t length, bool wanted) {
  const attend_corpus_options *o = r->o;
  attend_corpus *c = r->c;
  const size_t from = c->count;
  const size_t max = wanted ? o->target_length : o->source_length;
  const bool joined = o->parts == ATTEND_DECODER;
  if (joined) {
    if (!wanted) ATTEND_TRY(append_id(r, r->open));
    ATTEND_TRY(append_plain(r, text, length));
  } else {
    attend_encode_options how = {ATTEND_INIT(attend_encode_options), .max_length = max};
    ATTEND_TRY(attend_encode(r->encoding, text, length, &how));
    ATTEND_TRY(append(c, r->encoding->count, r->encoding->id));
    c->dropped += r->encoding->dropped;
  }
  bool ended = !joined && c->count > from && c->ids[c->count - 1] == o->end;
  if (wanted && !ended) ATTEND_TRY(append_id(r, o->end));
  cut_part(c, from, max, wanted && o->end >= 0);
  return close_part(c);
}

/* A side of spaces alone may have no ids. */
static attend_status add_pair(reader *r, const char *source, size_t n, const char *target,
                              size_t m) {
  attend_corpus *c = r->c;
  ATTEND_TRY(set_kind(c, true));
  if (n && m) {
    ATTEND_TRY(add_side(r, source, n, false));
    ATTEND_TRY(add_side(r, target, m, true));
    if (part_length(c, c->parts - 2) && part_length(c, c->parts - 1)) return ATTEND_OK;
  }
  return fail(c->ctx, ATTEND_IO, "%.300s, line %zu: one side of the pair is empty", r->path,
              r->line);
}

/* ---- kinds of files --------------------------------------------------------------- */

/* The string that is called `given`, or where that is NULL, `first` or `second`. */
static attend_status find_text(reader *r, const attend_json *object, const char *given,
                               const char *first, const char *second, const char **text,
                               size_t *length) {
  if (given) first = given, second = NULL;
  *text = attend_json_string(attend_json_get(object, first), length);
  if (!*text && second) *text = attend_json_string(attend_json_get(object, second), length);
  if (*text) return ATTEND_OK;
  return fail(r->c->ctx, ATTEND_IO,
              "%.300s, line %zu: there is no string called \"%.60s\"%s%s%s: "
              "say which field holds the text",
              r->path, r->line, first, second ? " or \"" : "", second ? second : "",
              second ? "\"" : "");
}

static attend_status add_object(reader *r, const attend_json *object) {
  const attend_corpus_options *o = r->o;
  const char *from, *to;
  size_t n, m;
  if (o->task != ATTEND_LEARN_PAIRS) {
    ATTEND_TRY(find_text(r, object, o->field, "text", NULL, &from, &n));
    return add_document(r, from, n);
  }
  ATTEND_TRY(find_text(r, object, o->field, "document", "source", &from, &n));
  ATTEND_TRY(find_text(r, object, o->answer_field, "summary", "target", &to, &m));
  return add_pair(r, from, n, to, m);
}

static attend_status read_object(reader *r, attend_lines *lines) {
  attend_json *object;
  ATTEND_TRY(attend_lines_json(lines, &object));
  attend_status status = add_object(r, object);
  attend_json_free(object);
  return status;
}

static attend_status read_columns(reader *r, const attend_line *line) {
  const char *source, *target;
  size_t at = 0, n, m;
  attend_line_column(line, &at, &source, &n);
  if (!attend_line_column(line, &at, &target, &m))
    return fail(r->c->ctx, ATTEND_IO, "%.300s, line %zu has no tab between two texts", r->path,
                r->line);
  return add_pair(r, source, n, target, m);
}

static attend_status read_records(reader *r, attend_lines *lines, bool json) {
  attend_line line;
  for (;;) {
    ATTEND_TRY(attend_lines_next(lines, &line));
    if (!line.text) return ATTEND_OK;
    r->line = line.number;
    ATTEND_TRY(json ? read_object(r, lines) : read_columns(r, &line));
    if (r->line % 256 == 0) ATTEND_TRY(note(r, attend_lines_bytes(lines)));
  }
}

static attend_status read_lines(reader *r, attend_format format) {
  attend_lines *lines;
  ATTEND_TRY(attend_lines_of_bytes(r->c->ctx, r->text, r->length, r->path, format, &lines));
  attend_status status = read_records(r, lines, format == ATTEND_FORMAT_JSONL);
  attend_lines_free(lines);
  return status;
}

/* A line from `at` on, and where the next begins. */
static const char *line_at(const reader *r, size_t at, size_t *n, size_t *next) {
  const char *line = r->text + at;
  size_t left = r->length - at;
  const char *end = memchr(line, '\n', left);
  *n = end ? (size_t)(end - line) : left;
  *next = at + *n + (end != NULL);
  return line;
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
  const char *mark = eos < 0 ? NULL : attend_tokenizer_piece(r->o->tokenizer, eos, &m);
  if (n && line[n - 1] == '\r') n--;
  while (mark && m && mark[m - 1] == '\n') m--;
  for (; mark && m && *mark == '\n'; m--) mark++;
  return is_word(line, n, usual, sizeof usual - 1) || (mark && is_word(line, n, mark, m));
}

/* The line break before an end goes with it. */
static attend_status add_stretch(reader *r, size_t from, size_t to) {
  const char *text = r->text;
  if (to > from && text[to - 1] == '\n') to--;
  if (to > from && text[to - 1] == '\r') to--;
  ATTEND_TRY(add_document(r, text + from, to - from));
  return note(r, to);
}

static attend_status read_text(reader *r) {
  size_t from = 0, next;
  for (size_t at = 0, n; at < r->length; at = next) {
    const char *line = line_at(r, at, &n, &next);
    if (!ends_document(r, line, n)) continue;
    ATTEND_TRY(add_stretch(r, from, at));
    from = next;
  }
  return add_document(r, r->text + from, r->length - from);
}

static attend_status read_kind(reader *r) {
  bool pairs = r->o->task == ATTEND_LEARN_PAIRS;
  ATTEND_TRY(find_open(r));
  attend_format format = attend_format_of(r->path);
  if (format == ATTEND_FORMAT_JSONL || (pairs && format == ATTEND_FORMAT_TSV))
    return read_lines(r, format);
  ATTEND_CHECK(r->c->ctx, !pairs, "%.300s: pairs of texts come from files called .jsonl or .tsv",
               r->path);
  return read_text(r);
}

/* Files are read and not mapped: truncating a mapped file kills the process that
 * reads it. Its ids, which stay, take about as much memory as its bytes, which do
 * not. */
static attend_status read_file(reader *r) {
  attend_corpus *c = r->c;
  const size_t parts = c->parts;
  char *bytes;
  ATTEND_TRY(file_read_most(c->ctx, r->path, SIZE_MAX, &bytes, &r->bytes));
  /* some editors put a mark before the first character, which is none */
  const size_t mark = strncmp(bytes, "\xef\xbb\xbf", 3) ? 0 : 3;
  r->text = bytes + mark;
  r->length = r->bytes - mark;
  attend_status status = attend_text_check(c->ctx, r->path, bytes, r->bytes);
  if (!status) status = read_kind(r);
  if (!status) c->bytes += r->length;
  if (!status && c->parts == parts)
    status = fail(c->ctx, ATTEND_IO, "%.300s holds no text", r->path);
  ctx_free(c->ctx, bytes);
  return status;
}

attend_status attend_corpus_read(attend_corpus *c, const char *path,
                                 const attend_corpus_options *options) {
  attend_corpus_options o;
  reader r = {.c = c, .o = &o, .path = path};
  const attend_corpus before = *c;
  ATTEND_TRY(OPTIONS_READ(c->ctx, attend_corpus_options, options, &o));
  ATTEND_TRY(attend_encoding_create(o.tokenizer, &r.encoding));
  attend_status status = read_file(&r);
  if (status) take_back(c, &before);
  attend_encoding_free(r.encoding);
  return status;
}
