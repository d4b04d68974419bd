/* attend study --out, --open: reports as files and in a browser. */
#include <stdlib.h>
#include <string.h>

#include "attend/file.h"
#include "folders.h"
#include "study/study.h"

/* Into memory first: a file is there as a whole or not at all. */
static int write_with(const studied *s, const char *path,
                      int (*print)(const studied *s, FILE *out)) {
  char *text = NULL;
  size_t length = 0;
  FILE *f = open_memstream(&text, &length);
  int code = f ? print(s, f) : EXIT_FAILED;
  if (f && fclose(f)) code = EXIT_FAILED;
  if (!code) {
    attend_status status = attend_file_write(s->ctx, path, text, length);
    if (status) code = complain_status(s->ctx, status);
  }
  free(text);
  return code;
}

/* ---- plots -------------------------------------------------------------------------- */

/* The next figure of a report, from block *at on. */
static const attend_study_figure *next_figure(const attend_report *r, size_t *at) {
  while (*at < r->n_blocks) {
    const attend_study_block *b = &r->blocks[(*at)++];
    if (b->kind == ATTEND_BLOCK_FIGURE) return b->figure;
  }
  return NULL;
}

static int save(const studied *s, const attend_study_figure *f, const char *path) {
  attend_status status = attend_plot_save(s->ctx, &f->plot, path);
  return status ? complain_status(s->ctx, status) : EXIT_OK;
}

static int write_plot(const studied *s, const study_options *o) {
  const attend_study_figure *f, *found = NULL;
  char all[600] = "";
  size_t n = 0, at = 0;
  while ((f = next_figure(s->reports[0], &at))) {
    size_t used = strlen(all);
    snprintf(all + used, sizeof all - used, "%s%s", n++ ? ", " : "", f->name);
    if (!o->figure || !strcmp(f->name, o->figure)) found = f;
  }
  if (found && (o->figure || n == 1)) return save(s, found, o->out);
  complain(n ? "this study has %zu plots: say which with --figure, one of %s"
             : "this study has no plot%.0zu%s",
           n, all);
  return EXIT_USAGE;
}

static int write_folder(const studied *s, const char *folder) {
  char *page = path_of("%s/index.html", folder);
  char *data = path_of("%s/study.json", folder);
  int code = make_folder(folder) ? EXIT_OK : EXIT_FAILED;
  if (!code) code = write_with(s, page, study_print_page);
  if (!code) code = write_with(s, data, study_print_json);
  for (size_t i = 0; i < s->count; i++) {
    const attend_study_figure *f;
    size_t at = 0;
    while (!code && (f = next_figure(s->reports[i], &at))) {
      char *path = path_of("%s/%s.svg", folder, f->name);
      code = save(s, f, path);
      free(path);
    }
  }
  free(data);
  free(page);
  return code;
}

static bool is_file(const char *out) {
  return path_ends(out, ".html") || path_ends(out, ".json") || path_ends(out, ".svg");
}

bool study_can_write(const char *out) { return is_file(out) ? can_write(out) : make_folder(out); }

int study_write(const studied *s, const study_options *o) {
  int code;
  if (path_ends(o->out, ".html"))
    code = write_with(s, o->out, study_print_page);
  else if (path_ends(o->out, ".json"))
    code = write_with(s, o->out, study_print_json);
  else if (path_ends(o->out, ".svg"))
    code = write_plot(s, o);
  else
    code = write_folder(s, o->out);
  if (!code) fprintf(stderr, "attend: wrote %s\n", o->out);
  return code;
}

int study_open(const studied *s) {
  char *path = browser_file("study");
  int code = path ? write_with(s, path, study_print_page) : EXIT_FAILED;
  if (!code) {
    fprintf(stderr, "attend: wrote %s\n", path);
    browser_open(path);
  }
  free(path);
  return code;
}
