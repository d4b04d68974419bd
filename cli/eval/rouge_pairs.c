/* Documents with their references, and predictions, read from files. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attend/file.h"
#include "attend/json.h"
#include "folders.h"
#include "progress.h"
#include "eval/rouge.h"

/* ---- lines ------------------------------------------------------------------------ */

typedef struct {
  attend_context *ctx;
  const rouge_options *o;
  rouge_pairs *pairs;
  const char *name; /* of the file, for messages */
  bool json;
  size_t number; /* of the line, from 1 */
  int filled;    /* pairs that have a summary, of predictions */
} pair_reader;

typedef int line_reader(pair_reader *r, const char *line, size_t length);

static bool is_full(const pair_reader *r) { return r->o->limit && r->pairs->count == r->o->limit; }

static int wrong_line(const pair_reader *r, const char *what) {
  complain("%s, line %zu %s", r->name, r->number, what);
  return EXIT_FAILED;
}

static int read_lines(pair_reader *r, FILE *in, line_reader *read) {
  char *line = NULL;
  size_t capacity = 0;
  ssize_t n;
  int code = EXIT_OK;
  errno = 0;
  while (!code && (n = getline(&line, &capacity, in)) > 0) {
    size_t length = (size_t)n;
    r->number++;
    if (line[length - 1] == '\n') length--;
    if (length && line[length - 1] == '\r') length--;
    code = read(r, line, length);
  }
  free(line);
  if (code || !ferror(in)) return code;
  complain("%s cannot be read: %s", r->name, strerror(errno));
  return EXIT_FAILED;
}

static int check_begin(const pair_reader *r, FILE *in) {
  char begin[8];
  size_t n = fread(begin, 1, sizeof begin, in);
  rewind(in);
  attend_status status = attend_text_check(r->ctx, r->name, begin, n);
  return status ? complain_status(r->ctx, status) : EXIT_OK;
}

static int read_path(pair_reader *r, const char *path, line_reader *read) {
  bool input = !strcmp(path, "-");
  r->name = input ? "the standard input" : path;
  r->number = 0;
  if (input) return read_lines(r, stdin, read);
  FILE *in = is_folder(path) ? NULL : fopen(path, "rb");
  if (!in) {
    complain("%s cannot be read: %s", path,
             is_folder(path) ? "it is a directory" : strerror(errno));
    return EXIT_FAILED;
  }
  int code = file_bytes(path) >= 0 ? check_begin(r, in) : EXIT_OK;
  if (!code) code = read_lines(r, in, read);
  fclose(in);
  return code;
}

static bool is_jsonl(const char *path) {
  return path_ends(path, ".jsonl") || path_ends(path, ".ndjson");
}

static bool is_blank(const char *line, size_t length) {
  for (size_t i = 0; i < length; i++)
    if (line[i] != ' ' && line[i] != '\t') return false;
  return true;
}

static int parse_line(const pair_reader *r, const char *line, size_t length, attend_json **root) {
  char *where = path_of("%s, line %zu", r->name, r->number);
  attend_status status = attend_json_parse(r->ctx, where, line, length, root);
  free(where);
  return status ? complain_status(r->ctx, status) : EXIT_OK;
}

/* ---- texts -------------------------------------------------------------------------- */

static rouge_text own(const char *text, size_t length) {
  char *copy = need(length + 1, 1);
  if (length) memcpy(copy, text, length);
  return (rouge_text){copy, length};
}

static rouge_text own_string(const attend_json *value) {
  size_t length;
  const char *text = attend_json_string(value, &length);
  return own(text, length);
}

static bool is_string(const attend_json *value) {
  return attend_json_kind_of(value) == ATTEND_JSON_STRING;
}

/* One string, or a list of them. */
static bool has_texts(const attend_json *value) {
  if (is_string(value)) return true;
  size_t n = attend_json_count(value);
  if (attend_json_kind_of(value) != ATTEND_JSON_ARRAY) return false;
  for (size_t i = 0; i < n; i++)
    if (!is_string(attend_json_at(value, i))) return false;
  return n > 0;
}

/* The member with the given name, else the first of the default names. */
static const attend_json *member(const attend_json *line, const char *given, const char *usual,
                                 const char *other) {
  if (given) return attend_json_get(line, given);
  const attend_json *first = attend_json_get(line, usual);
  return first ? first : attend_json_get(line, other);
}

static int lacks(const pair_reader *r, const char *given, const char *usual, const char *other,
                 const char *option) {
  char *what = path_of(given ? "has no text called \"%s\": name it with %s%s"
                             : "has no text called \"%s\" or \"%s\": name it with %s",
                       given ? given : usual, given ? option : other, given ? "" : option);
  int code = wrong_line(r, what);
  free(what);
  return code;
}

/* ---- pairs ---------------------------------------------------------------------------- */

static rouge_pair *add_pair(pair_reader *r) {
  rouge_pairs *p = r->pairs;
  if (p->count == p->capacity) {
    p->capacity = 2 * p->capacity + 64;
    p->at = need_more(p->at, (size_t)p->count, (size_t)p->capacity, sizeof *p->at);
  }
  rouge_pair *one = &p->at[p->count++];
  *one = (rouge_pair){.line = r->number};
  return one;
}

static void set_references(rouge_pair *one, const attend_json *value) {
  size_t n = is_string(value) ? 1 : attend_json_count(value);
  one->reference = need(n, sizeof *one->reference);
  one->references = (int)n;
  for (size_t i = 0; i < n; i++)
    one->reference[i] = own_string(is_string(value) ? value : attend_json_at(value, i));
}

/* Whether the line matches --where. */
static bool is_selected(const rouge_options *o, const attend_json *line) {
  if (!o->where) return true;
  const char *equal = strchr(o->where, '=');
  char *name = need((size_t)(equal - o->where) + 1, 1);
  memcpy(name, o->where, (size_t)(equal - o->where));
  const char *text = attend_json_string(attend_json_get(line, name), NULL);
  free(name);
  return text && !strcmp(text, equal + 1);
}

/* A document is needed unless there are predictions. */
static int read_object(pair_reader *r, const attend_json *line) {
  const rouge_options *o = r->o;
  const attend_json *document = member(line, o->field, "document", "source");
  const attend_json *references = member(line, o->answer_field, "summary", "target");
  if (!is_selected(o, line)) return EXIT_OK;
  if (!has_texts(references))
    return lacks(r, o->answer_field, "summary", "target", "--answer-field");
  if (!is_string(document) && (!o->predictions || o->field))
    return lacks(r, o->field, "document", "source", "--field");
  rouge_pair *one = add_pair(r);
  set_references(one, references);
  if (is_string(document)) one->document = own_string(document);
  return EXIT_OK;
}

static int read_pair(pair_reader *r, const char *line, size_t length) {
  attend_json *root;
  if (is_full(r) || is_blank(line, length)) return EXIT_OK;
  int code = parse_line(r, line, length, &root);
  if (code) return code;
  code = read_object(r, root);
  attend_json_free(root);
  return code;
}

static int read_columns(pair_reader *r, const char *line, size_t length) {
  if (is_full(r) || !length) return EXIT_OK;
  const char *tab = memchr(line, '\t', length);
  if (!tab) return wrong_line(r, "has no tab between two texts");
  size_t first = (size_t)(tab - line), rest = length - first - 1;
  const char *more = memchr(tab + 1, '\t', rest);
  if (more) rest = (size_t)(more - tab - 1);
  rouge_pair *one = add_pair(r);
  one->document = own(line, first);
  one->reference = need(1, sizeof *one->reference);
  one->reference[0] = own(tab + 1, rest);
  one->references = 1;
  return EXIT_OK;
}

int pairs_read(attend_context *ctx, const rouge_options *o, rouge_pairs *pairs) {
  pair_reader r = {.ctx = ctx, .o = o, .pairs = pairs};
  int code = EXIT_OK;
  for (int i = 0; i < o->n_data && !code; i++) {
    bool columns = path_ends(o->data[i], ".tsv");
    if (columns && o->where) {
      complain("--where is for lines of JSON, and %s has columns", o->data[i]);
      return EXIT_USAGE;
    }
    code = read_path(&r, o->data[i], columns ? read_columns : read_pair);
  }
  if (code || pairs->count) return code;
  complain("%s has no pair of a document and a summary%s", r.name,
           o->where ? " that matches --where" : "");
  return EXIT_FAILED;
}

void pairs_free(rouge_pairs *pairs) {
  for (int i = 0; i < pairs->count; i++) {
    rouge_pair *one = &pairs->at[i];
    for (int j = 0; j < one->references; j++) free(one->reference[j].text);
    free(one->reference);
    free(one->document.text);
    free(one->summary.text);
  }
  free(pairs->at);
  *pairs = (rouge_pairs){0};
}

/* ---- predictions ------------------------------------------------------------------------ */

/* Further lines belong to pairs beyond --limit. */
static int fill(pair_reader *r, rouge_text summary) {
  if (r->filled < r->pairs->count)
    r->pairs->at[r->filled].summary = summary;
  else
    free(summary.text);
  r->filled++;
  return EXIT_OK;
}

static int read_prediction(pair_reader *r, const char *line, size_t length) {
  attend_json *root;
  const char *given = r->o->prediction_field;
  if (!r->json) return fill(r, own(line, length));
  if (is_blank(line, length)) return EXIT_OK;
  int code = parse_line(r, line, length, &root);
  if (code) return code;
  const attend_json *summary =
      is_string(root) ? root : member(root, given, "summary", "prediction");
  code = is_string(summary) ? fill(r, own_string(summary))
                            : lacks(r, given, "summary", "prediction", "--prediction-field");
  attend_json_free(root);
  return code;
}

int predictions_read(attend_context *ctx, const rouge_options *o, rouge_pairs *pairs) {
  pair_reader r = {
      .ctx = ctx, .o = o, .pairs = pairs, .json = is_jsonl(o->predictions) || o->prediction_field};
  int code = read_path(&r, o->predictions, read_prediction);
  bool more = r.filled > pairs->count && !is_full(&r);
  if (code || (r.filled >= pairs->count && !more)) return code;
  complain(
      "%s has %d summaries, and there are %d pairs: one for each, in their "
      "order%s",
      r.name, r.filled, pairs->count, r.json ? "" : ", a line each");
  return EXIT_FAILED;
}
