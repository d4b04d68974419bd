/* A state of the page as a picture, for --out, --terminal and the page itself. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "table.h"
#include "view/view.h"

#ifdef ATTEND_HAVE_PICTURES
#include "view/painting.h"

static bool make_picture(painting *p, const char *as, void **bytes, size_t *length) {
  drawing d = {0};
  p->out = &d;
  bool ok = paint(p);
  if (ok)
    ok = paint_fail(p, draw_message(!strcmp(as, "svg") ? draw_svg(&d, (char **)bytes, length)
                                                       : draw_png(&d, 2, bytes, length)));
  drawing_free(&d);
  return ok;
}

bool answer_picture(request *r) {
  view_state s;
  const char *as;
  int width;
  bool ok = state_read(r, attend_json_get(r->q, "state"), &s) &&
            request_text(r, "as", "svg", &as) &&
            request_integer(r, "width", 320, 4000, 1200, &width);
  if (ok && strcmp(as, "svg") && strcmp(as, "png"))
    ok = request_fail(r, 400, "\"as\" must be \"svg\" or \"png\"");
  if (ok) {
    painting p = {.v = r->v,
                  .s = &s,
                  .new_tokens = 20,
                  .look = {width, attend_json_boolean(attend_json_get(r->q, "dark"), false)}};
    void *bytes = NULL;
    size_t length = 0;
    ok = make_picture(&p, as, &bytes, &length) || request_fail(r, 400, "%s", p.error);
    const char *type = strcmp(as, "svg") ? "image/png" : "image/svg+xml";
    if (ok) *r->reply = (view_reply){200, type, bytes, length};
  }
  state_free(&s);
  return ok;
}

int view_draw_terminal(viewer *v, const view_options *o) {
  terminal_look look = terminal_look_of(stdout);
  view_state s = o->state;
  painting p = {.v = v, .s = &s, .terminal = &look};
  if (o->dark) look.dark = true;
  /* One head if one was named, otherwise all of them. */
  snprintf(s.view, sizeof s.view, "%s",
           s.head >= 0 || s.layer >= 0 || !strcmp(s.view, "matrix") || !strcmp(s.view, "head")
               ? "matrix"
               : "model");
  if (paint(&p)) return check_written(stdout, "the drawing");
  complain("%s", p.error);
  return EXIT_FAILED;
}

int view_write_picture(viewer *v, const view_options *o, const char *as) {
  painting p = {.v = v,
                .s = &o->state,
                .film = v->training && !o->step && !strcmp(o->state.view, "model"),
                .new_tokens = o->new_tokens,
                .look = {o->width, o->dark}};
  void *bytes = NULL;
  size_t length = 0;
  if (!make_picture(&p, as, &bytes, &length)) {
    complain("%s", p.error);
    return EXIT_FAILED;
  }
  int code = view_write_bytes(v->ctx, o->out, bytes, length);
  free(bytes);
  return code;
}
#else
bool answer_picture(request *r) { return request_fail(r, 501, "this build draws no pictures"); }
int view_draw_terminal(viewer *v, const view_options *o) {
  (void)v;
  (void)o;
  complain("this build draws nothing: build with ATTEND_VIEW on");
  return EXIT_FAILED;
}
int view_write_picture(viewer *v, const view_options *o, const char *as) {
  (void)v;
  (void)o;
  (void)as;
  complain("this build draws no pictures: build with ATTEND_VIEW on");
  return EXIT_FAILED;
}
#endif
