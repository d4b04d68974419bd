/* The documents that are summarized: files, lines, fields of JSON lines. */
#include <stdlib.h>
#include <string.h>

#include "folders.h"
#include "progress.h"
#include "summarize/summarize.h"
#include "text.h"

typedef struct {
  documents docs;
  int capacity;
  const char *file; /* that is being read */
  bool lines;       /* each is a document */
  bool rows;        /* it has several */
  int row;          /* of that file */
  char *text;       /* of the open document */
  size_t length, room;
} gathering;

static void add_document(gathering *g) {
  size_t n = (size_t)g->docs.count;
  if (g->docs.count == g->capacity) {
    g->capacity = 2 * g->capacity + 16;
    size_t more = (size_t)g->capacity;
    g->docs.name = need_more(g->docs.name, n, more, sizeof *g->docs.name);
    g->docs.at = need_more(g->docs.at, n, more, sizeof *g->docs.at);
  }
  const char *file = strcmp(g->file, "-") ? g->file : "the standard input";
  g->row++;
  g->docs.name[n] = g->rows ? path_of("line %d of %s", g->row, file) : need_copy(file);
  g->docs.at[n] =
      (attend_document){.text = memcpy(need(g->length + 1, 1), g->text ? g->text : "", g->length),
                        .length = g->length,
                        .number = g->docs.count++};
  g->length = 0;
}

static void add_bytes(gathering *g, const char *text, size_t length) {
  if (g->length + length > g->room) {
    g->room = 2 * (g->length + length);
    g->text = need_more(g->text, g->length, g->room, 1);
  }
  if (length) memcpy(g->text + g->length, text, length);
  g->length += length;
}

/* A line may lie in two of the chunks that are read. */
static void add_lines(gathering *g, const char *text, size_t length, bool ends) {
  const char *end = text + length, *line;
  while ((line = memchr(text, '\n', (size_t)(end - text)))) {
    add_bytes(g, text, (size_t)(line - text));
    add_document(g);
    text = line + 1;
  }
  add_bytes(g, text, (size_t)(end - text));
  if (ends && g->length) add_document(g);
}

static attend_status put(const char *text, size_t length, bool ends, void *user) {
  gathering *g = user;
  if (g->lines) {
    add_lines(g, text, length, ends);
    return ATTEND_OK;
  }
  add_bytes(g, text, length);
  if (ends) add_document(g);
  return ATTEND_OK;
}

static bool is_json_file(const summarize_options *o, const char *path) {
  return o->field || path_ends(path, ".jsonl") || path_ends(path, ".ndjson");
}

bool documents_are_rows(const summarize_options *o) {
  if (o->lines || o->field) return true;
  for (int i = 0; i < o->n_files; i++)
    if (!is_json_file(o, o->files[i])) return false;
  return o->n_files > 0;
}

int documents_read(const summarize_options *o, documents *docs) {
  static char dash[] = "-", document[] = "document";
  static char *input[] = {dash}, *usual[] = {document};
  char **files = o->n_files ? o->files : input;
  int n = o->n_files ? o->n_files : 1, code;
  attend_context *ctx = options_context(&o->common, NULL, &code);
  gathering g = {0};
  progress_start("reading", text_bytes(files, n));
  for (int i = 0; i < n && !code; i++) {
    text_source in = {.ctx = ctx,
                      .field = o->field ? (char **)&o->field : usual,
                      .fields = 1,
                      .put = put,
                      .user = &g};
    bool json = is_json_file(o, files[i]);
    in.format = json ? ATTEND_FORMAT_JSONL : ATTEND_FORMAT_TEXT;
    g.file = files[i];
    g.row = 0;
    g.lines = o->lines && !json;
    g.rows = o->lines || json;
    code = text_read(&in, files[i]);
  }
  progress_end();
  free(g.text);
  attend_context_free(ctx);
  *docs = g.docs;
  return code;
}

void documents_free(documents *docs) {
  for (int i = 0; i < docs->count; i++) {
    free(docs->name[i]);
    free((char *)docs->at[i].text);
  }
  free(docs->name);
  free(docs->at);
}
