/* Pages in one file: the built page with its answers, for attend view --out page.html and
 * attend design.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "progress.h"
#include "view/view.h"

#ifdef ATTEND_HAVE_PAGE
/* JSON between tags: no "<" of a token may end it. */
static void add_json(FILE *t, const char *text, size_t n) {
  size_t from = 0;
  for (size_t i = 0; i < n; i++) {
    if (text[i] != '<') continue;
    fwrite(text + from, 1, i - from, t);
    fwrite("\\u003c", 1, 6, t);
    from = i + 1;
  }
  fwrite(text + from, 1, n - from, t);
}

static void add_file(FILE *t, page_part part) {
  page_file f = page_data(part);
  fwrite(f.bytes, 1, f.length, t);
}

static const char policy[] =
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src "
    "'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; connect-src 'none'; "
    "base-uri 'none'; form-action 'none'\">\n";

/* The page's own links become what they link to. */
static bool compose(const char *id, const char *answers, size_t length, FILE *t) {
  static const char style[] = "<link rel=\"stylesheet\" href=\"page.css\">";
  static const char script[] = "<script src=\"page.js\"></script>";
  const char *page = (const char *)page_data(PAGE_HTML).bytes; /* a zero byte follows it */
  const char *at_style = strstr(page, style), *at_script = strstr(page, script);
  if (!at_style || !at_script || at_style > at_script) return false;
  fwrite(page, 1, (size_t)(at_style - page), t);
  fputs(policy, t);
  fputs("<style>", t);
  add_file(t, PAGE_STYLE);
  fputs("</style>", t);
  fwrite(at_style + sizeof style - 1, 1, (size_t)(at_script - at_style) - (sizeof style - 1), t);
  fputs("<script type=\"application/json\" id=\"", t);
  fputs(id, t);
  fputs("\">", t);
  add_json(t, answers, length);
  fputs("</script>\n<script>", t);
  add_file(t, PAGE_SCRIPT);
  fputs("</script>", t);
  fputs(at_script + sizeof script - 1, t);
  return true;
}

int view_write_page(attend_context *ctx, const char *path, const char *id, const char *answers,
                    size_t length) {
  char *bytes = NULL;
  size_t size = 0;
  int code = EXIT_FAILED;
  FILE *t = open_memstream(&bytes, &size);
  bool made = t && compose(id, answers, length, t);
  if (!t || fclose(t))
    complain("no memory for the page: free some");
  else if (!made)
    complain("the page in this program has no place for its parts: build it again");
  else
    code = view_write_bytes(ctx, path, bytes, size);
  free(bytes);
  return code;
}

int view_write_still(viewer *v, const view_options *o) {
  char *json, error[VIEW_ERROR];
  size_t length;
  view_still_steps steps;
  int code = EXIT_FAILED;
  progress_start("percent", 100);
  bool ok = view_still(v, &o->state, o->new_tokens, request_key, &json, &length, &steps, error);
  progress_end();
  if (ok && steps.kept < steps.steps)
    fprintf(stderr, "attend: of %d steps %d are in the page: more would take over %d MB\n",
            steps.steps, steps.kept, VIEW_STILL_BYTES >> 20);
  if (ok)
    code = view_write_page(v->ctx, o->out, "still", json, length);
  else
    complain("%s", error);
  free(json);
  return code;
}
#else
int view_write_still(viewer *v, const view_options *o) {
  (void)v, (void)o;
  return complain("this build has no page: build with ATTEND_VIEW on");
}
int view_write_page(attend_context *ctx, const char *path, const char *id, const char *answers,
                    size_t length) {
  (void)ctx, (void)path, (void)id, (void)answers, (void)length;
  return complain("this build has no page: build with ATTEND_VIEW on");
}
#endif
