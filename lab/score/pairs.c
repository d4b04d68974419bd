/* Documents with reference summaries, read from files; their summaries, scored.
 */
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

#include "attend/file.h"
#include "attend/lines.h"
#include "attend/text.h"
#include "base/files.h"
#include "base/options.h"
#include "score/score.h"

struct attend_pairs {
  attend_context *ctx;
  attend_pair *pair; /* [count] */
  size_t capacity;
  int count;
  bool full;       /* options.limit pairs were read */
  double *numbers; /* [scored][ATTEND_PAIR_NUMBERS] */
  int *row;        /* [count] of the numbers, or -1 */
};

/* ---- lines of a file -------------------------------------------------------------- */

typedef struct {
  attend_pairs *pairs;
  attend_pairs_options o;
  const char *name;   /* of the file, for messages */
  const char *member; /* of summaries */
  attend_lines *lines;
  attend_line line;
  int filled; /* pairs that have a summary, of attend_pairs_read_summaries */
} pair_reader;

typedef attend_status take_line(pair_reader *r);

static bool is_jsonl(const char *path) { return attend_format_of(path) == ATTEND_FORMAT_JSONL; }

static attend_status read_lines(pair_reader *r, FILE *in, attend_format format, take_line *each) {
  attend_context *ctx = r->pairs->ctx;
  attend_status status = attend_lines_of_file(ctx, in, r->name, format, &r->lines);
  do {
    if (!status) status = attend_lines_next(r->lines, &r->line);
    if (!status) status = each(r);
  } while (!status && r->line.text);
  attend_lines_free(r->lines);
  return status;
}

/* A file of another format is refused by its first bytes. */
static attend_status check_begin(const pair_reader *r, FILE *in) {
  struct stat about;
  char begin[8];
  if (fstat(fileno(in), &about) || !S_ISREG(about.st_mode)) return ATTEND_OK;
  size_t n = fread(begin, 1, sizeof begin, in);
  rewind(in);
  return attend_text_check(r->pairs->ctx, r->name, begin, n);
}

static attend_status cannot_read(const pair_reader *r, const char *why) {
  return fail(r->pairs->ctx, ATTEND_IO, "%s cannot be read: %s", r->name, why);
}

static attend_status read_path(pair_reader *r, const char *path, attend_format format,
                               take_line *each) {
  struct stat about;
  bool input = !strcmp(path, "-");
  r->name = input ? "the standard input" : path;
  if (input) return read_lines(r, stdin, format, each);
  if (!stat(path, &about) && S_ISDIR(about.st_mode)) return cannot_read(r, "it is a directory");
  FILE *in = fopen(path, "rb");
  if (!in) return cannot_read(r, strerror(errno));
  attend_status status = check_begin(r, in);
  if (!status) status = read_lines(r, in, format, each);
  fclose(in);
  return status;
}

/* ---- texts -------------------------------------------------------------------------- */

static attend_status set_text(attend_pairs *p, const char *text, size_t length,
                              attend_pair_text *to) {
  char *copy;
  ATTEND_TRY(ctx_alloc(p->ctx, size_add(length, 1), "a text to score", &copy));
  if (length) memcpy(copy, text, length);
  copy[length] = 0;
  ctx_free(p->ctx, (char *)to->text);
  *to = (attend_pair_text){copy, length};
  return ATTEND_OK;
}

static attend_status set_string(attend_pairs *p, const attend_json *value, attend_pair_text *to) {
  size_t length;
  const char *text = attend_json_string(value, &length);
  return set_text(p, text, length, to);
}

static bool is_string(const attend_json *value) {
  return attend_json_kind_of(value) == ATTEND_JSON_STRING;
}

/* One string, or a list of them. */
static bool has_texts(const attend_json *value) {
  size_t n = attend_json_count(value);
  if (is_string(value)) return true;
  if (attend_json_kind_of(value) != ATTEND_JSON_ARRAY) return false;
  for (size_t i = 0; i < n; i++)
    if (!is_string(attend_json_at(value, i))) return false;
  return n > 0;
}

/* A member that was named, or has one of two usual names. */
typedef struct {
  const char *given, *usual, *other;
} member_name;

static const attend_json *member_of(const attend_json *line, member_name name) {
  if (name.given) return attend_json_get(line, name.given);
  const attend_json *first = attend_json_get(line, name.usual);
  return first ? first : attend_json_get(line, name.other);
}

static attend_status lacks(const pair_reader *r, member_name name) {
  bool given = name.given;
  return fail(r->pairs->ctx, ATTEND_UNSUPPORTED, "%s, line %zu has no text called \"%s\"%s%s%s",
              r->name, r->line.number, given ? name.given : name.usual, given ? "" : " or \"",
              given ? "" : name.other, given ? "" : "\"");
}

/* ---- pairs ---------------------------------------------------------------------------- */

static attend_status add_pair(pair_reader *r, int references, attend_pair **one,
                              attend_pair_text **reference) {
  attend_pairs *p = r->pairs;
  ATTEND_TRY(
      grow(p->ctx, &p->pair, &p->capacity, (size_t)p->count + 1, sizeof *p->pair, "the pairs"));
  ATTEND_TRY(ctx_alloc_zeroed(p->ctx, (size_t)references * sizeof **reference, "the references",
                              reference));
  *one = &p->pair[p->count++];
  **one = (attend_pair){.line = r->line.number, .reference = *reference, .references = references};
  return ATTEND_OK;
}

/* Whether the line has the member that options.where asks for. */
static bool is_selected(const char *where, const attend_json *line) {
  if (!where) return true;
  size_t n = strcspn(where, "="), length;
  for (size_t i = 0; i < attend_json_count(line); i++) {
    const attend_json *one = attend_json_at(line, i);
    const char *name = attend_json_name(one, &length);
    if (!name || length != n || memcmp(name, where, n)) continue;
    const char *text = attend_json_string(one, NULL);
    return text && where[n] && !strcmp(text, where + n + 1);
  }
  return false;
}

static attend_status read_object(pair_reader *r, const attend_json *line) {
  member_name of_document = {r->o.document, "document", "source"};
  member_name of_reference = {r->o.reference, "summary", "target"};
  const attend_json *document = member_of(line, of_document);
  const attend_json *value = member_of(line, of_reference);
  attend_pair_text *reference;
  attend_pair *one;
  if (!is_selected(r->o.where, line)) return ATTEND_OK;
  if (!has_texts(value)) return lacks(r, of_reference);
  if (!is_string(document) && (!r->o.may_lack || r->o.document)) return lacks(r, of_document);
  bool single = is_string(value);
  ATTEND_TRY(add_pair(r, single ? 1 : (int)attend_json_count(value), &one, &reference));
  for (int i = 0; i < one->references; i++)
    ATTEND_TRY(
        set_string(r->pairs, single ? value : attend_json_at(value, (size_t)i), &reference[i]));
  return is_string(document) ? set_string(r->pairs, document, &one->document) : ATTEND_OK;
}

static bool is_over(const pair_reader *r) {
  r->pairs->full = r->o.limit && r->pairs->count == r->o.limit;
  return !r->line.text || r->pairs->full;
}

static attend_status take_object(pair_reader *r) {
  attend_json *root;
  if (is_over(r)) return ATTEND_OK;
  ATTEND_TRY(attend_lines_json(r->lines, &root));
  attend_status status = read_object(r, root);
  attend_json_free(root);
  return status;
}

static attend_status take_columns(pair_reader *r) {
  const char *text[2];
  size_t length[2], at = 0;
  attend_pair_text *reference;
  attend_pair *one;
  if (is_over(r)) return ATTEND_OK;
  for (int i = 0; i < 2; i++)
    if (!attend_line_column(&r->line, &at, &text[i], &length[i]))
      return fail(r->pairs->ctx, ATTEND_IO, "%s, line %zu has no tab between two texts", r->name,
                  r->line.number);
  ATTEND_TRY(add_pair(r, 1, &one, &reference));
  ATTEND_TRY(set_text(r->pairs, text[1], length[1], reference));
  return set_text(r->pairs, text[0], length[0], &one->document);
}

static attend_status read_files(pair_reader *r, int count, const char *const *files) {
  attend_context *ctx = r->pairs->ctx;
  const char *where = r->o.where;
  ATTEND_CHECK(ctx, !where || (strchr(where, '=') && *where != '='),
               "where is \"%s\": give NAME=TEXT", where);
  for (int i = 0; i < count; i++) {
    bool columns = attend_format_of(files[i]) == ATTEND_FORMAT_TSV;
    ATTEND_CHECK(ctx, !columns || !where, "members are of lines of JSON, and %s has columns",
                 files[i]);
    ATTEND_TRY(read_path(r, files[i], columns ? ATTEND_FORMAT_TSV : ATTEND_FORMAT_JSONL,
                         columns ? take_columns : take_object));
  }
  return ATTEND_OK;
}

attend_status attend_pairs_read(attend_context *ctx, int count, const char *const *files,
                                const attend_pairs_options *options, attend_pairs **pairs) {
  pair_reader r = {0};
  *pairs = NULL;
  ATTEND_TRY(OPTIONS_READ(ctx, attend_pairs_options, options, &r.o));
  ATTEND_TRY(ctx_alloc_zeroed(ctx, sizeof *r.pairs, "the pairs", &r.pairs));
  r.pairs->ctx = ctx;
  attend_status status = read_files(&r, count, files);
  if (status)
    attend_pairs_free(r.pairs);
  else
    *pairs = r.pairs;
  return status;
}

void attend_pairs_free(attend_pairs *p) {
  if (!p) return;
  for (int i = 0; i < p->count; i++) {
    const attend_pair *one = &p->pair[i];
    for (int j = 0; j < one->references; j++) ctx_free(p->ctx, (char *)one->reference[j].text);
    ctx_free(p->ctx, (attend_pair_text *)one->reference);
    ctx_free(p->ctx, (char *)one->document.text);
    ctx_free(p->ctx, (char *)one->summary.text);
  }
  ctx_free(p->ctx, p->pair);
  ctx_free(p->ctx, p->numbers);
  ctx_free(p->ctx, p->row);
  ctx_free(p->ctx, p);
}

int attend_pairs_count(const attend_pairs *p) { return p->count; }

const attend_pair *attend_pairs_get(const attend_pairs *p, int i) {
  return i >= 0 && i < p->count ? &p->pair[i] : NULL;
}

/* ---- summaries -------------------------------------------------------------------------- */

attend_status attend_pairs_set_summary(attend_pairs *p, int i, const char *text, size_t length) {
  ATTEND_CHECK(p->ctx, i >= 0 && i < p->count, "pair %d does not exist", i);
  return set_text(p, text, length, &p->pair[i].summary);
}

/* Further lines belong to pairs beyond the limit. */
static attend_status fill(pair_reader *r, const char *text, size_t length) {
  int i = r->filled++;
  return i < r->pairs->count ? attend_pairs_set_summary(r->pairs, i, text, length) : ATTEND_OK;
}

static attend_status take_prediction(pair_reader *r) {
  member_name name = {r->member, "summary", "prediction"};
  attend_json *root;
  if (!r->line.text) return ATTEND_OK;
  ATTEND_TRY(attend_lines_json(r->lines, &root));
  const attend_json *summary = is_string(root) ? root : member_of(root, name);
  size_t length = 0;
  const char *text = is_string(summary) ? attend_json_string(summary, &length) : NULL;
  attend_status status = text ? fill(r, text, length) : lacks(r, name);
  attend_json_free(root);
  return status;
}

/* Lines that were skipped are empty: they are summaries without words. */
static attend_status take_summary(pair_reader *r) {
  while ((size_t)r->filled + 1 < r->line.number) ATTEND_TRY(fill(r, "", 0));
  return r->line.text ? fill(r, r->line.text, r->line.length) : ATTEND_OK;
}

attend_status attend_pairs_read_summaries(attend_pairs *p, const char *file, const char *member) {
  pair_reader r = {.pairs = p, .member = member};
  bool json = member || is_jsonl(file);
  ATTEND_TRY(json ? read_path(&r, file, ATTEND_FORMAT_JSONL, take_prediction)
                  : read_path(&r, file, ATTEND_FORMAT_TEXT, take_summary));
  if (r.filled == p->count || (r.filled > p->count && p->full)) return ATTEND_OK;
  return fail(p->ctx, ATTEND_IO,
              "%s has %d summaries, and there are %d pairs: one for each, in their order%s", r.name,
              r.filled, p->count, json ? "" : ", a line each");
}

static bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

/* The first words of a text. */
static attend_pair_text first_words(const attend_pair_text *t, int words) {
  size_t start = 0, end;
  while (start < t->length && is_space(t->text[start])) start++;
  for (end = start; end < t->length; end++)
    if (is_space(t->text[end]) && !is_space(t->text[end - 1]) && !--words) break;
  return (attend_pair_text){t->text + start, end - start};
}

attend_status attend_pairs_lead(attend_pairs *p, int words) {
  for (int i = 0; i < p->count; i++) {
    const attend_pair_text *d = &p->pair[i].document;
    attend_sentence s = {0};
    attend_pair_text lead = {d->text, 0};
    if (words)
      lead = first_words(d, words);
    else if (attend_sentence_next(d->text, d->length, &s))
      lead = (attend_pair_text){d->text + s.start, s.length};
    ATTEND_TRY(attend_pairs_set_summary(p, i, lead.text, lead.length));
  }
  return ATTEND_OK;
}

/* ---- scores ------------------------------------------------------------------------------ */

static double share(size_t part, size_t of) { return of ? (double)part / (double)of : 0; }

/* Scores by the nearest reference of each kind. */
static attend_status best_score(attend_context *ctx, const attend_pair *p,
                                const attend_rouge_options *o, attend_rouge_scores *best) {
  for (int i = 0; i < p->references; i++) {
    attend_rouge_scores both[2] = {*best};
    ATTEND_TRY(attend_rouge(ctx, p->summary.text, p->summary.length, p->reference[i].text,
                            p->reference[i].length, o, &both[i > 0]));
    attend_rouge_best(i > 0 ? 2 : 1, both, best);
  }
  return ATTEND_OK;
}

static attend_status measure(attend_context *ctx, const attend_pair *p,
                             const attend_rouge_options *o, double *row) {
  _Static_assert(sizeof(attend_rouge_scores) == ATTEND_PAIR_WORDS * sizeof(double),
                 "scores are the first numbers");
  attend_rouge_scores scores = {0};
  attend_novelty n = {0};
  double words = 0;
  ATTEND_TRY(best_score(ctx, p, o, &scores));
  if (p->document.text)
    ATTEND_TRY(attend_novelty_count(ctx, p->summary.text, p->summary.length, p->document.text,
                                    p->document.length, o, &n));
  for (int i = 0; i < p->references; i++)
    words += (double)attend_word_count(p->reference[i].text, p->reference[i].length);
  memcpy(row, &scores, sizeof scores);
  row[ATTEND_PAIR_WORDS] = (double)attend_word_count(p->summary.text, p->summary.length);
  row[ATTEND_PAIR_REFERENCE_WORDS] = words / p->references;
  row[ATTEND_PAIR_NEW_WORDS] = share(n.new_words, n.words);
  row[ATTEND_PAIR_NEW_BIGRAMS] = share(n.new_bigrams, n.bigrams);
  return ATTEND_OK;
}

static attend_status measure_all(attend_pairs *p, const attend_pairs_score_options *o,
                                 attend_pairs_report *report) {
  for (int i = 0; i < p->count; i++) {
    const attend_pair *one = &p->pair[i];
    p->row[i] = -1;
    if (!one->summary.text) continue;
    p->row[i] = report->scored++;
    double *row = p->numbers + (size_t)p->row[i] * ATTEND_PAIR_NUMBERS;
    ATTEND_TRY(measure(p->ctx, one, &o->rouge, row));
    report->empty += row[ATTEND_PAIR_WORDS] == 0;
    report->documents += one->document.text != NULL;
    if (o->progress && o->progress((double)i / p->count, NULL, o->user))
      return fail(p->ctx, ATTEND_STOPPED, "scoring was stopped after %d of %d pairs", i + 1,
                  p->count);
  }
  return ATTEND_OK;
}

attend_status attend_pairs_score(attend_pairs *p, const attend_pairs_score_options *options,
                                 attend_pairs_report *report) {
  attend_pairs_score_options o;
  size_t count = (size_t)p->count;
  *report = (attend_pairs_report){0};
  ATTEND_TRY(OPTIONS_READ(p->ctx, attend_pairs_score_options, options, &o));
  ctx_free(p->ctx, p->numbers);
  ctx_free(p->ctx, p->row);
  p->numbers = NULL;
  p->row = NULL;
  ATTEND_TRY(ctx_alloc(p->ctx, size_times(count, ATTEND_PAIR_NUMBERS * sizeof *p->numbers),
                       "the scores", &p->numbers));
  ATTEND_TRY(ctx_alloc(p->ctx, count * sizeof *p->row, "the scores", &p->row));
  if (!o.rouge.size) o.rouge.size = sizeof o.rouge;
  if (!o.bootstrap.size) o.bootstrap.size = sizeof o.bootstrap;
  ATTEND_TRY(measure_all(p, &o, report));
  if (!report->scored) return ATTEND_OK;
  return attend_bootstrap(p->ctx, (size_t)report->scored, ATTEND_PAIR_NUMBERS, p->numbers,
                          &o.bootstrap, report->mean);
}

const double *attend_pairs_numbers(const attend_pairs *p, int i) {
  bool scored = p->row && i >= 0 && i < p->count && p->row[i] >= 0;
  return scored ? p->numbers + (size_t)p->row[i] * ATTEND_PAIR_NUMBERS : NULL;
}
