/* A page in one file: the built page, its style, its script and its data; of still.c,
 * attend design and attend summarize.
 */
#include <stdlib.h>
#include <string.h>

#include "view/view.h"

#ifdef ATTEND_HAVE_PAGE
#include "view/page_data.h"

typedef struct {
  char *bytes;
  size_t length, room;
} text_buffer;

static void add(text_buffer *t, const void *bytes, size_t n) {
  if (t->length + n > t->room) {
    t->room = 2 * (t->length + n) + 1024;
    char *more = need(t->room, 1);
    memcpy(more, t->bytes ? t->bytes : "", t->length);
    free(t->bytes);
    t->bytes = more;
  }
  memcpy(t->bytes + t->length, bytes, n);
  t->length += n;
}
static void add_text(text_buffer *t, const char *text) { add(t, text, strlen(text)); }

/* JSON between tags: no "<" of a token may end it. */
static void add_json(text_buffer *t, const char *text, size_t n) {
  size_t from = 0;
  for (size_t i = 0; i < n; i++) {
    if (text[i] != '<') continue;
    add(t, text + from, i - from);
    add_text(t, "\\u003c");
    from = i + 1;
  }
  add(t, text + from, n - from);
}

static void add_file(text_buffer *t, page_part part) {
  page_file f = page_data(part);
  add(t, f.bytes, f.length);
}

static const char policy[] =
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src "
    "'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src "
    "data: blob:; connect-src 'none'; base-uri 'none'; form-action 'none'\">\n";

/* The page's own links become what they link to. */
static bool compose(const char *id, const char *answers, size_t length, text_buffer *t) {
  static const char style[] = "<link rel=\"stylesheet\" href=\"page.css\">";
  static const char script[] = "<script src=\"page.js\"></script>";
  page_file html = page_data(PAGE_HTML);
  char *page = need(html.length + 1, 1);
  memcpy(page, html.bytes, html.length);
  char *at_style = strstr(page, style), *at_script = strstr(page, script);
  bool ok = at_style && at_script && at_style < at_script;
  if (ok) {
    add(t, page, (size_t)(at_style - page));
    add_text(t, policy);
    add_text(t, "<style>");
    add_file(t, PAGE_STYLE);
    add_text(t, "</style>");
    add(t, at_style + sizeof style - 1, (size_t)(at_script - at_style) - (sizeof style - 1));
    add_text(t, "<script type=\"application/json\" id=\"");
    add_text(t, id);
    add_text(t, "\">");
    add_json(t, answers, length);
    add_text(t, "</script>\n<script>");
    add_file(t, PAGE_SCRIPT);
    add_text(t, "</script>");
    add_text(t, at_script + sizeof script - 1);
  }
  free(page);
  return ok;
}

int view_write_page(attend_context *ctx, const char *path, const char *id, const char *answers,
                    size_t length) {
  text_buffer t = {0};
  int code = EXIT_FAILED;
  if (compose(id, answers, length, &t))
    code = view_write_bytes(ctx, path, t.bytes, t.length);
  else
    complain("the page in this program has no place for its parts: build it again");
  free(t.bytes);
  return code;
}
#else
int view_write_page(attend_context *ctx, const char *path, const char *id, const char *answers,
                    size_t length) {
  (void)ctx;
  (void)path;
  (void)id;
  (void)answers;
  (void)length;
  complain("this build has no page: build with ATTEND_VIEW on");
  return EXIT_FAILED;
}
#endif
