/* attend view --out FILE, by the file's extension. */
#include <stdio.h>
#include <string.h>

#include "attend/file.h"
#include "folders.h"
#include "table.h"
#include "view/view.h"
#include "view/subject.h"

int view_write_bytes(attend_context *ctx, const char *path, const void *bytes, size_t length) {
  if (!strcmp(path, "-")) {
    fwrite(bytes, 1, length, stdout);
    return check_written(stdout, "the output");
  }
  attend_status status = attend_file_write(ctx, path, bytes, length);
  return status ? complain_status(ctx, status) : EXIT_OK;
}

/* Everything that was recorded, for NumPy and PyTorch. */
static int write_trace(viewer *v, const view_options *o) {
  const attend_view_run *run;
  char error[SUBJECT_ERROR];
  if (!run_case(v, &o->state.c, &run, error)) {
    complain("%s", error);
    return EXIT_FAILED;
  }
  attend_status status = attend_trace_save(attend_view_run_trace(run), o->out);
  return status ? complain_status(v->ctx, status) : EXIT_OK;
}

static int write_as(viewer *v, const view_options *o, const char *as) {
  if (!strcmp(as, "html")) return view_write_still(v, o);
  if (!strcmp(as, "svg") || !strcmp(as, "png")) return view_write_picture(v, o, as);
  if (!strcmp(as, "json")) return view_print_json(v, o, o->out);
  if (!strcmp(as, "safetensors")) return write_trace(v, o);
  complain(
      "--out takes a name that ends in .html, .svg, .png, .json or "
      ".safetensors, not \"%s\"",
      o->out);
  return EXIT_USAGE;
}

int view_write(viewer *v, const view_options *o) {
  int code = write_as(v, o, path_ending(o->out));
  if (!code) fprintf(stderr, "attend: wrote %s\n", o->out);
  return code;
}
