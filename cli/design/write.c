/* attend design --out FILE (the format by its ending), --terminal, --open. */
#include <stdlib.h>
#include <string.h>

#include "design/show.h"
#include "folders.h"
#include "table.h"
#include "view/view.h"

int design_draw_terminal(const designed *g, const design_options *o, FILE *out) {
  terminal_look look = terminal_look_of(out);
  design_maps m;
  if (o->dark) look.dark = true;
  int code = design_maps_make(g, NULL, &m);
  if (!code) terminal_design(out, &m.data, &look);
  design_maps_free(&m);
  return code ? code : check_written(out, "the drawing");
}

/* ---- pictures ------------------------------------------------------------------------- */

#ifdef ATTEND_HAVE_PICTURES
static int put_picture(attend_context *ctx, const drawing *d, const char *path, bool svg) {
  void *bytes = NULL;
  size_t length = 0;
  attend_status status =
      svg ? draw_svg(d, (char **)&bytes, &length) : draw_png(d, 2, &bytes, &length);
  if (status) {
    complain("%s", draw_message(status));
    return EXIT_FAILED;
  }
  int code = view_write_bytes(ctx, path, bytes, length);
  free(bytes);
  return code;
}

static int write_picture(const designed *g, const design_options *o, bool svg) {
  picture_look look = {o->width, o->dark};
  design_maps m;
  drawing d = {0};
  int code = design_maps_make(g, NULL, &m);
  const char *why = code ? NULL : picture_design(&m.data, &look, &d);
  if (why) {
    complain("%s", why);
    code = EXIT_FAILED;
  }
  if (!code) code = put_picture(g->ctx, &d, o->out, svg);
  drawing_free(&d);
  design_maps_free(&m);
  return code;
}
#else
static int write_picture(const designed *g, const design_options *o, bool svg) {
  (void)g;
  (void)o;
  (void)svg;
  complain("this build draws no pictures: build with ATTEND_VIEW on");
  return EXIT_FAILED;
}
#endif

/* ---- JSON and pages ---------------------------------------------------------------------- */

static int write_json(const designed *all, int n, const char *path, bool page) {
  attend_json_writer w = attend_json_writer_text(all[0].ctx);
  int code = design_put_json(&w, all, n);
  if (!code)
    code = page ? view_write_page(all[0].ctx, path, "design", w.text, w.length)
                : view_write_bytes(all[0].ctx, path, w.text, w.length);
  attend_json_writer_free(&w);
  return code;
}

static int write_weights(const designed *g, const char *path) {
  attend_status status = attend_design_save(g->d, path);
  return status ? complain_status(g->ctx, status) : EXIT_OK;
}

static int write_as(const designed *all, int n, const design_options *o, const char *as) {
  if (!strcmp(as, "html")) return write_json(all, n, o->out, true);
  if (!strcmp(as, "json")) return write_json(all, n, o->out, false);
  if (n > 1) {
    complain("several designs go into .html or .json, not \"%s\"", o->out);
    return EXIT_USAGE;
  }
  if (!strcmp(as, "svg") || !strcmp(as, "png")) return write_picture(all, o, *as == 's');
  if (!strcmp(as, "safetensors")) return write_weights(all, o->out);
  complain(
      "--out takes a name that ends in .safetensors, .svg, .png, .html or "
      ".json, not \"%s\"",
      o->out);
  return EXIT_USAGE;
}

int design_write(const designed *all, int n, const design_options *o) {
  int code = write_as(all, n, o, path_ending(o->out));
  if (!code) fprintf(stderr, "attend: wrote %s\n", o->out);
  return code;
}

/* The page is whole: it stays in a file of its own until the browser has it. */
int design_open_page(const designed *all, int n) {
  char *path = browser_file("design");
  int code = path ? write_json(all, n, path, true) : EXIT_FAILED;
  if (!code) {
    fprintf(stderr, "attend: wrote %s\n", path);
    browser_open(path);
  }
  free(path);
  return code;
}
