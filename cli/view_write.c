/* attend view --out FILE: what the name's end says.
 *
 * Place: cli/ - between the verb and the writers.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "folders.h"
#include "view.h"
#include "view_fetch.h"

static int cannot_write(const char *path) {
  complain("\"%s\" cannot be written: %s", path,
           errno ? strerror(errno) : "is the disk full?");
  return EXIT_FAILED;
}

static bool put_bytes(FILE *to, const void *bytes, size_t length) {
  return fwrite(bytes, 1, length, to) == length && !fflush(to);
}

int view_write_bytes(const char *path, const void *bytes, size_t length) {
  errno = 0;
  if (!strcmp(path, "-"))
    return put_bytes(stdout, bytes, length) ? EXIT_OK
                                            : cannot_write("the output");
  size_t n = strlen(path) + sizeof ".part";
  char *draft = need(n, 1);
  snprintf(draft, n, "%s.part", path);
  FILE *to = fopen(draft, "wb");
  bool ok = to && put_bytes(to, bytes, length);
  if (to && fclose(to)) ok = false;
  if (ok && rename(draft, path)) ok = false;
  int code = ok ? EXIT_OK : cannot_write(path);
  if (!ok && to) unlink(draft);
  free(draft);
  return code;
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
