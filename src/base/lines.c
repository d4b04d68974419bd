/* Reading .jsonl and .tsv line by line, from a file or from memory. */
#include "attend/lines.h"

#include <errno.h>
#include <string.h>

#include "base/files.h"

enum { CHUNK = 1 << 16 };

struct attend_lines {
  attend_context *ctx;
  char name[300];
  attend_format format;
  FILE *in;  /* NULL: all bytes are in memory */
  char *own; /* [capacity], of a file */
  size_t capacity;
  const char *bytes; /* [end]: own, or the caller's */
  size_t end;
  size_t next;    /* where the next line starts */
  size_t scanned; /* no line end in [next, scanned) */
  size_t before;  /* bytes of the file before `bytes` */
  attend_line line;
};

attend_format attend_format_of(const char *path) {
  if (name_ends(path, ".jsonl") || name_ends(path, ".ndjson")) return ATTEND_FORMAT_JSONL;
  return name_ends(path, ".tsv") ? ATTEND_FORMAT_TSV : ATTEND_FORMAT_TEXT;
}

bool attend_format_parse(const char *name, attend_format *format) {
  static const char *const names[] = {
      [ATTEND_FORMAT_TEXT] = "text", [ATTEND_FORMAT_JSONL] = "jsonl", [ATTEND_FORMAT_TSV] = "tsv"};
  for (int i = ATTEND_FORMAT_TEXT; i <= ATTEND_FORMAT_TSV; i++) {
    if (strcmp(names[i], name)) continue;
    *format = (attend_format)i;
    return 1;
  }
  return 0;
}

/* ---- creating -------------------------------------------------------------------- */

static attend_status create(attend_context *ctx, const char *name, attend_format format,
                            attend_lines **lines) {
  ATTEND_TRY(ctx_alloc_zeroed(ctx, sizeof **lines, "a reader of lines", lines));
  (*lines)->ctx = ctx;
  (*lines)->format = format ? format : attend_format_of(name);
  snprintf((*lines)->name, sizeof(*lines)->name, "%s", name);
  return ATTEND_OK;
}

attend_status attend_lines_of_file(attend_context *ctx, FILE *in, const char *name,
                                   attend_format format, attend_lines **lines) {
  *lines = NULL;
  ATTEND_TRY(create(ctx, name, format, lines));
  (*lines)->in = in;
  return ATTEND_OK;
}

attend_status attend_lines_of_bytes(attend_context *ctx, const char *bytes, size_t length,
                                    const char *name, attend_format format, attend_lines **lines) {
  *lines = NULL;
  ATTEND_TRY(create(ctx, name, format, lines));
  (*lines)->bytes = bytes;
  (*lines)->end = length;
  return ATTEND_OK;
}

void attend_lines_free(attend_lines *lines) {
  if (!lines) return;
  ctx_free(lines->ctx, lines->own);
  ctx_free(lines->ctx, lines);
}

/* ---- lines ----------------------------------------------------------------------- */

/* More of the file, behind what is left of it in memory; *more: there was any. */
static attend_status fill(attend_lines *l, bool *more) {
  size_t left = l->end - l->next;
  *more = false;
  if (!l->in) return ATTEND_OK;
  if (left && l->next) memmove(l->own, l->own + l->next, left);
  l->before += l->next;
  l->scanned -= l->next;
  l->next = 0;
  l->end = left;
  ATTEND_TRY(grow(l->ctx, &l->own, &l->capacity, size_add(left, CHUNK), 1, "the lines of a file"));
  l->bytes = l->own;
  errno = 0;
  size_t n = fread(l->own + left, 1, l->capacity - left, l->in);
  l->end += n;
  *more = n;
  if (n || !ferror(l->in)) return ATTEND_OK;
  return fail(l->ctx, ATTEND_IO, "%s cannot be read: %s", l->name, strerror(errno));
}

/* The line at `next`, as far as its end or that of the file. */
static attend_status read_line(attend_lines *l) {
  const char *end = NULL;
  for (bool more = true; more && !end;) {
    if (l->end > l->scanned) end = memchr(l->bytes + l->scanned, '\n', l->end - l->scanned);
    l->scanned = l->end;
    if (!end) ATTEND_TRY(fill(l, &more));
  }
  size_t stop = end ? (size_t)(end - l->bytes) : l->end;
  l->line.text = stop > l->next || end ? l->bytes + l->next : NULL;
  l->line.length = stop - l->next;
  l->next = l->scanned = stop + (end != NULL);
  return ATTEND_OK;
}

static void trim(attend_lines *l) {
  attend_line *line = &l->line;
  if (line->number == 1 && line->length >= 3 && !memcmp(line->text, "\xef\xbb\xbf", 3)) {
    line->text += 3;
    line->length -= 3;
  }
  if (line->length && line->text[line->length - 1] == '\r') line->length--;
}

static bool is_blank(const attend_lines *l) {
  if (l->format != ATTEND_FORMAT_JSONL) return !l->line.length;
  for (size_t i = 0; i < l->line.length; i++)
    if (!strchr(" \t\r", l->line.text[i]) || !l->line.text[i]) return false;
  return true;
}

attend_status attend_lines_next(attend_lines *l, attend_line *line) {
  *line = (attend_line){0};
  do {
    ATTEND_TRY(read_line(l));
    l->line.number++;
    if (l->line.text) trim(l);
  } while (l->line.text && is_blank(l));
  *line = l->line;
  if (!line->text || l->format == ATTEND_FORMAT_JSONL)
    return ATTEND_OK; /* JSON is checked itself */
  char what[sizeof l->name + 40];
  snprintf(what, sizeof what, "line %zu of %s", line->number, l->name);
  return attend_utf8_check(l->ctx, what, line->text, line->length);
}

attend_status attend_lines_json(attend_lines *l, attend_json **root) {
  char what[sizeof l->name + 40];
  snprintf(what, sizeof what, "%s, line %zu", l->name, l->line.number);
  return attend_json_parse(l->ctx, what, l->line.text, l->line.length, root);
}

bool attend_line_column(const attend_line *line, size_t *at, const char **text, size_t *length) {
  if (*at > line->length) return 0;
  size_t left = line->length - *at;
  *text = line->text + *at;
  const char *tab = left ? memchr(*text, '\t', left) : NULL;
  *length = tab ? (size_t)(tab - *text) : left;
  *at += *length + 1;
  return 1;
}

size_t attend_lines_bytes(const attend_lines *l) { return l->before + l->next; }
