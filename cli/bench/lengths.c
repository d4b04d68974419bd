/* What benches by length share: lists of lengths and forms, models that are long
 * enough, memory as the system counts it.
 */
#include "bench/lengths.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "attend/file.h"
#include "attend/problem.h"
#include "folders.h"
#include "table.h"
#include "text.h"

/* ---- lists ----------------------------------------------------------------------- */

bool lengths_parse(const char *text, length_list *list) {
  char *end;
  long from = strtol(text, &end, 10), to = from;
  bool number = end != text;
  if (number && !strncmp(end, "..", 2)) {
    const char *second = end + 2;
    to = strtol(second, &end, 10);
    number = end != second;
  }
  if (!number || *end || from < 1 || to < from || to > 1 << 24) return false;
  list->count = 0;
  for (long n = from; n < to && list->count < MOST_LENGTHS - 1; n *= 2)
    list->tokens[list->count++] = (int)n;
  list->tokens[list->count++] = (int)to;
  return true;
}

/* Up to a comma that is not between brackets. */
static size_t name_length(const char *text) {
  size_t n = 0;
  for (int depth = 0; text[n] && (depth || text[n] != ','); n++)
    depth += (text[n] == '(') - (text[n] == ')');
  return n;
}

int forms_parse(attend_context *ctx, const char *text, form_list *list) {
  for (list->count = 0;; text++) {
    size_t n = name_length(text);
    if (list->count == MOST_FORMS || n >= sizeof list->name[0]) {
      complain("--forms takes up to %d forms, as softmax,elu,favor(m=64)", MOST_FORMS);
      return EXIT_USAGE;
    }
    char *name = list->name[list->count];
    memcpy(name, text, n);
    name[n] = 0;
    attend_status status = attend_form_parse(ctx, name, &list->form[list->count++]);
    if (status) return complain_status(ctx, status);
    text += n;
    if (!*text) return EXIT_OK;
  }
}

/* ---- models ----------------------------------------------------------------------- */

static void write_config(attend_json_writer *w, const attend_json *root, int positions) {
  const char *size = "max_position_embeddings";
  attend_json_open(w, '{');
  for (size_t i = 0; i < attend_json_count(root); i++) {
    const attend_json *member = attend_json_at(root, i);
    const char *name = attend_json_name(member, NULL);
    if (!strcmp(name, size)) continue;
    attend_json_member(w, name);
    json_tree(w, member);
  }
  attend_json_member(w, size);
  attend_json_put_integer(w, positions);
  attend_json_close(w, '}');
}

/* The text of a folder's config.json with other positions. */
static int config_with_positions(attend_context *ctx, const char *path, int positions,
                                 attend_json_writer *w) {
  int code = EXIT_OK;
  size_t length = 0;
  char *name = path_of("%s/config.json", path);
  FILE *in = fopen(name, "r");
  if (!in) {
    complain("%s cannot be read: %s", name, strerror(errno));
    free(name);
    return EXIT_FAILED;
  }
  char *text = input_all(in, name, &length, &code);
  attend_json *root = NULL;
  attend_status status = ATTEND_OK;
  if (!code) status = attend_json_parse(ctx, name, text, length, &root);
  if (!code && !status) {
    write_config(w, root, positions);
    status = attend_json_finish(w);
  }
  attend_json_free(root);
  fclose(in);
  free(text);
  free(name);
  return status ? complain_status(ctx, status) : code;
}

static attend_status fresh(attend_context *ctx, const char *path, bool start,
                           attend_checkpoint **files) {
  return start ? attend_checkpoint_init(ctx, path, 1, files)
               : attend_checkpoint_init_pytorch(ctx, path, 1, files);
}

/* A configuration is read from a folder: a temporary one. */
static int fresh_text(attend_context *ctx, const attend_json_writer *w, bool start,
                      attend_checkpoint **files) {
  const char *where = getenv("TMPDIR");
  char *folder = path_of("%s/attend-bench-XXXXXX", where ? where : "/tmp");
  if (!mkdtemp(folder)) {
    complain("the folder %s cannot be made: %s", folder, strerror(errno));
    free(folder);
    return EXIT_FAILED;
  }
  char *name = path_of("%s/config.json", folder);
  attend_status status = attend_file_write(ctx, name, w->text, w->length);
  if (!status) status = fresh(ctx, folder, start, files);
  int code = status ? complain_status(ctx, status) : EXIT_OK;
  remove_folder(folder);
  free(name);
  free(folder);
  return code;
}

int checkpoint_for_length(attend_context *ctx, const char *path, int tokens, bool start,
                          attend_checkpoint **files) {
  attend_config config = {0};
  attend_status status = attend_config_read(ctx, path, &config);
  bool fits = !config.positions || config.positions >= tokens;
  if (!status && fits) status = fresh(ctx, path, start, files);
  if (status) return complain_status(ctx, status);
  if (fits) return EXIT_OK;
  attend_json_writer w = attend_json_writer_text(ctx);
  int code = config_with_positions(ctx, path, tokens, &w);
  if (!code) code = fresh_text(ctx, &w, start, files);
  attend_json_writer_free(&w);
  return code;
}

/* ---- memory ----------------------------------------------------------------------- */

static double status_bytes(const char *field) {
  char line[256];
  double kib = NAN;
  FILE *f = fopen("/proc/self/status", "r");
  while (f && fgets(line, sizeof line, f))
    if (!strncmp(line, field, strlen(field))) kib = atof(line + strlen(field));
  if (f) fclose(f);
  return 1024 * kib;
}

/* Writing 5 to clear_refs resets the peak that Linux reports. */
peak peak_watch(void) {
#ifdef __GLIBC__
  malloc_trim(0); /* or freed memory would be used again, uncounted */
#endif
  FILE *f = fopen("/proc/self/clear_refs", "w");
  bool anew = f && fputs("5", f) >= 0;
  if (f && fclose(f)) anew = false;
  return (peak){anew ? status_bytes("VmRSS:") : NAN};
}

double peak_since(peak p) { return status_bytes("VmHWM:") - p.before; }
