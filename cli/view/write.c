/* attend view --out FILE: what the name's end says.
 *
 * Between the verb and the writers.
 */
#include <stdio.h>
#include <string.h>

#include "attend/file.h"
#include "folders.h"
#include "table.h"
#include "view/view.h"
#include "view/fetch.h"

int view_write_bytes(attend_context *ctx, const char *path, const void *bytes,
                     size_t length) {
  if (!strcmp(path, "-")) {
    fwrite(bytes, 1, length, stdout);
    return check_written(stdout, "the output");
  }
  attend_status status = attend_file_write(ctx, path, bytes, length);
  return status ? complain_status(ctx, status) : EXIT_OK;
}

/* Everything that was recorded, for NumPy and PyTorch. */
static int write_trace(viewer *v, const view_options *o) {
  fetched f;
  int code = EXIT_OK;
  if (!fetch_run(v, &o->state.c, &f)) {
    complain("%s", f.error);
    code = EXIT_FAILED;
  } else {
    attend_status status = attend_trace_save(v->runs->trace, o->out);
    if (status) code = complain_status(v->ctx, status);
  }
  fetched_free(&f);
  return code;
}

static int write_as(viewer *v, const view_options *o, const char *as) {
  if (!strcmp(as, "html")) return view_write_still(v, o);
  if (!strcmp(as, "svg") || !strcmp(as, "png"))
    return view_write_picture(v, o, as);
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
