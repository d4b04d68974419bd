/* attend summarize --extract --out FILE.html: the text, its chosen sentences
 * marked as strongly as the others attend to them.
 *
 * One file that needs no other and runs nothing.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "summarize/extract.h"
#include "view/view.h"

static const char head[] =
    "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\">\n"
    "<meta name=\"viewport\" content=\"width=device-width\">\n"
    "<title>Sentences that say most</title>\n<style>\n"
    ":root { color-scheme: light dark; --hue: 212 100% 45%; }\n"
    "body { font: 17px/1.6 Georgia, serif; margin: 2rem auto;\n"
    "  max-width: 42rem; padding: 0 1rem; }\n"
    "h1 { font-size: 1.2rem; } small, h1, ol, sup, footer {\n"
    "  font-family: system-ui, sans-serif; }\n"
    "ol { padding: 0; list-style: none; } li { margin: .4rem 0;\n"
    "  display: grid; grid-template-columns: 2rem 5rem 1fr; gap: .6rem;\n"
    "  font-size: .92rem; }\n"
    "li a { color: inherit; text-decoration: none; }\n"
    "li i { height: .5rem; margin-top: .55rem; border-radius: 2px;\n"
    "  width: calc(100% * var(--c)); background: hsl(var(--hue)); }\n"
    "mark { color: inherit; border-radius: 3px; padding: .05em .15em;\n"
    "  background: hsl(var(--hue) / calc(.1 + .25 * var(--c)));\n"
    "  box-decoration-break: clone; -webkit-box-decoration-break: clone; }\n"
    "mark:target { outline: 2px solid hsl(var(--hue)); }\n"
    "sup { font-size: .65em; opacity: .7; } footer { opacity: .7;\n"
    "  font-size: .85rem; margin: 3rem 0; }\n"
    "@media (prefers-color-scheme: dark) { :root { --hue: 205 100% 65%; } }\n"
    "</style>\n";

static void put_escaped(FILE *to, const char *text, size_t length) {
  for (size_t i = 0; i < length; i++) switch (text[i]) {
      case '&':
        fputs("&amp;", to);
        break;
      case '<':
        fputs("&lt;", to);
        break;
      case '>':
        fputs("&gt;", to);
        break;
      case '"':
        fputs("&quot;", to);
        break;
      case '\0':
        fputs("\xef\xbf\xbd", to);
        break;
      default:
        putc(text[i], to);
    }
}

/* Places on the page are numbered by document and sentence. */
static void put_list(FILE *to, const extraction *x, int d) {
  fputs("<ol>\n", to);
  for (int i = 0; i < x->count; i++) {
    const ranked *s = &x->sentence[i];
    if (!s->chosen) continue;
    char *line = extraction_line(x, i);
    fprintf(to, "<li><b>%d</b><i style=\"--c: %.3f\"></i><a href=\"#s%d-%d\">",
            s->rank, extraction_height(x, i), d, i);
    put_escaped(to, line, strlen(line));
    fputs("</a></li>\n", to);
    free(line);
  }
  fputs("</ol>\n<hr>\n", to);
}

static void put_sentence(FILE *to, const extraction *x, int d, int i) {
  const ranked *s = &x->sentence[i];
  if (s->chosen)
    fprintf(to,
            "<mark id=\"s%d-%d\" style=\"--c: %.3f\" title=\"rank %d, %.2f %% "
            "of the attention\">",
            d, i, extraction_height(x, i), s->rank, 100 * s->centrality);
  put_escaped(to, x->text + s->start, s->length);
  if (s->chosen) fprintf(to, "<sup> %d</sup></mark>", s->rank);
}

static void put_document(FILE *to, const extraction *x, int d) {
  fputs("<h1>", to);
  put_escaped(to, x->name, strlen(x->name));
  fprintf(to, "</h1>\n<small>%d of %d sentences</small>\n", x->chosen,
          x->words);
  put_list(to, x, d);
  for (int i = 0; i < x->count; i++) {
    if (i == 0 || x->sentence[i - 1].ends_paragraph) fputs("<p>", to);
    put_sentence(to, x, d, i);
    fputs(x->sentence[i].ends_paragraph ? "</p>\n" : " ", to);
  }
}

int extractions_page(attend_context *ctx, const char *path, double tau,
                     const char *model, const extraction *x, int count) {
  char *bytes = NULL;
  size_t length = 0;
  FILE *to = open_memstream(&bytes, &length);
  if (!to) {
    complain("there is no memory for the page");
    return EXIT_FAILED;
  }
  fputs(head, to);
  for (int d = 0; d < count; d++)
    if (x[d].done) put_document(to, &x[d], d);
  fprintf(to,
          "<footer>Ranked by how much the other sentences attend to each: "
          "vectors of ");
  put_escaped(to, model, strlen(model));
  fprintf(to, ", tau %g. The number behind a sentence is its rank.</footer>\n",
          tau);
  bool whole = !ferror(to);
  int code = fclose(to) || !whole ? EXIT_FAILED : EXIT_OK;
  if (code) complain("there is no memory for the page");
  if (!code) code = view_write_bytes(ctx, path, bytes, length);
  free(bytes);
  if (!code) fprintf(stderr, "attend: wrote %s\n", path);
  return code;
}
