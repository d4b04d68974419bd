/* Maps of numbers and scores of tokens as .svg, .png or .html. */
#include "scores.h"

#include <stdlib.h>
#include <string.h>

#include "folders.h"
#include "text.h"
#include "view/view.h"

bool score_path_check(const char *path) {
  static const char *const known[] = {"svg", "png", "html", "json"};
  for (size_t i = 0; path && i < sizeof known / sizeof *known; i++)
    if (!strcmp(path_ending(path), known[i])) return true;
  if (!path) return true;
  complain("--out %s: name a file that ends in .svg, .png, .html or .json", path);
  return false;
}

void score_put_names(json_writer *w, const char *name, char **list, int n) {
  json_member(w, name);
  json_open(w, '[');
  for (int i = 0; i < n; i++) json_put_string(w, list[i]);
  json_close(w, ']');
}

#ifdef ATTEND_HAVE_PICTURES

static int draw(const picture_map_data *map, const picture_scores_data *scores,
                const picture_look *look, const char *as, void **bytes, size_t *length) {
  drawing d;
  const char *why = map ? picture_map(map, look, &d) : picture_scores(scores, look, &d);
  if (!why) why = draw_message(draw_file(&d, as, bytes, length));
  drawing_free(&d);
  return why ? complain("%s", why) : EXIT_OK;
}

typedef struct {
  const char *title;
  void *svg[2]; /* light, dark */
  size_t length[2];
} score_page;

/* The picture for light and for dark screens. */
static void put_page(FILE *f, const void *user) {
  const score_page *p = user;
  fputs(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>",
      f);
  html_put(f, p->title);
  fputs(
      "</title>\n<style>\n:root { color-scheme: light dark; }\n"
      "body { margin: 1rem; background: #ffffff; }\n"
      "svg { max-width: 100%; height: auto; }\n.dark { display: none; }\n"
      "@media (prefers-color-scheme: dark) {\n  body { background: #12151b; }\n"
      "  .dark { display: block; }\n  .light { display: none; }\n}\n</style></head><body>\n"
      "<main><div class=\"light\">",
      f);
  fwrite(p->svg[0], 1, p->length[0], f);
  fputs("</div>\n<div class=\"dark\">", f);
  fwrite(p->svg[1], 1, p->length[1], f);
  fputs("</div></main></body></html>\n", f);
}

static int write_page(attend_context *ctx, const score_output *to, const picture_map_data *map,
                      const picture_scores_data *scores) {
  score_page p = {.title = map ? map->title : scores->title};
  int code = EXIT_OK;
  for (int dark = 0; dark < 2 && !code; dark++)
    code =
        draw(map, scores, &(picture_look){to->width, dark}, "svg", &p.svg[dark], &p.length[dark]);
  if (!code) code = html_write(ctx, to->path, put_page, &p);
  free(p.svg[0]);
  free(p.svg[1]);
  return code;
}

int score_write(attend_context *ctx, const score_output *to, const picture_map_data *map,
                const picture_scores_data *scores) {
  const picture_look look = {to->width, to->dark};
  void *bytes = NULL;
  size_t length = 0;
  if (!strcmp(path_ending(to->path), "html")) return write_page(ctx, to, map, scores);
  int code = draw(map, scores, &look, path_ending(to->path), &bytes, &length);
  if (!code) code = view_write_bytes(ctx, to->path, bytes, length);
  free(bytes);
  return code;
}
#else
int score_write(attend_context *ctx, const score_output *to, const picture_map_data *map,
                const picture_scores_data *scores) {
  (void)ctx, (void)to, (void)map, (void)scores;
  return complain("this build draws no pictures: build with ATTEND_VIEW on");
}
#endif
