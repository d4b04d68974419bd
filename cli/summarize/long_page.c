/* A tree of summaries as a page: every node opens to what it was made of, down
 * to the text itself.
 *
 * The page needs nothing else, no script either: nodes are the browser's own, which
 * keyboards and screen readers know.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attend/file.h"
#include "summarize/long_summary.h"

static const char head[] =
    "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
    "<title>Summaries</title>\n<style>\n"
    ":root { color-scheme: light dark; --text: #1b1b1f; --page: #fdfdfc;\n"
    "  --soft: #5a5a64; --line: #d5d5da; --mark: #2f6f9f; }\n"
    "@media (prefers-color-scheme: dark) { :root { --text: #e6e6ea;\n"
    "  --page: #17181b; --soft: #a3a3ad; --line: #3a3b41; --mark: #7db7e0; } "
    "}\n"
    "body { margin: 2rem auto; padding: 0 1rem; max-width: 52rem;\n"
    "  background: var(--page); color: var(--text);\n"
    "  font: 16px/1.5 system-ui, sans-serif; }\n"
    "h1 { font-size: 1.2rem; overflow-wrap: anywhere; }\n"
    "details { margin: .2rem 0 .2rem .4rem; padding-left: .8rem;\n"
    "  border-left: 1px solid var(--line); }\n"
    "summary { cursor: pointer; padding: .15rem .2rem; }\n"
    "summary:focus-visible { outline: 2px solid var(--mark); }\n"
    "summary::marker { color: var(--mark); }\n"
    "small { color: var(--soft); white-space: nowrap; }\n"
    "p { white-space: pre-wrap; margin: .3rem 0 .6rem 1.1rem;\n"
    "  color: var(--soft); overflow-wrap: anywhere; }\n"
    "ul { margin: .2rem 0; }\n"
    "</style></head><body>\n";

static void put_escaped(FILE *f, const char *text, size_t length) {
  for (size_t i = 0; i < length; i++) switch (text[i]) {
      case '<':
        fputs("&lt;", f);
        break;
      case '>':
        fputs("&gt;", f);
        break;
      case '&':
        fputs("&amp;", f);
        break;
      case '"':
        fputs("&quot;", f);
        break;
      default:
        if ((unsigned char)text[i] >= ' ' || text[i] == '\n' || text[i] == '\t')
          fputc(text[i], f);
    }
}

static void put_node(FILE *f, const summary_tree *t, int level, int i,
                     bool open) {
  const tree_node *n = &t->level[level].node[i];
  fputs(open ? "<details open><summary>" : "<details><summary>", f);
  put_escaped(f, node_text(n), strlen(node_text(n)));
  fprintf(f, " <small>words %zu&ndash;%zu", n->first_word, n->last_word);
  if (n->count) fprintf(f, ", %d parts", n->count);
  fputs("</small></summary>\n", f);
  if (n->n_best > 1) fputs("<ul>", f);
  for (int j = 1; j < n->n_best; j++) {
    fputs("<li>", f);
    put_escaped(f, n->best[j].text, strlen(n->best[j].text));
    fputs("</li>\n", f);
  }
  if (n->n_best > 1) fputs("</ul>\n", f);
  if (!n->count) {
    fputs("<p>", f);
    put_escaped(f, t->document->text + n->start, n->end - n->start);
    fputs("</p>", f);
  }
  for (int j = n->first; j < n->first + n->count; j++)
    put_node(f, t, level - 1, j, false);
  fputs("</details>\n", f);
}

static void put_tree(FILE *f, const summary_tree *t) {
  int top = t->levels - 1;
  fputs("<h1>", f);
  put_escaped(f, t->document->name, strlen(t->document->name));
  fputs("</h1>\n", f);
  for (int i = 0; top >= 0 && i < t->level[top].count; i++)
    put_node(f, t, top, i, true);
}

int tree_page(const summary_tree *trees, int count, attend_context *ctx,
              const char *path) {
  char *text = NULL;
  size_t length = 0;
  FILE *f = open_memstream(&text, &length);
  if (!f) {
    complain("there is no memory for the page %s", path);
    return EXIT_FAILED;
  }
  fputs(head, f);
  for (int i = 0; i < count; i++) put_tree(f, &trees[i]);
  fputs("</body></html>\n", f);
  fclose(f);
  attend_status status = attend_file_write(ctx, path, text, length);
  free(text);
  return status ? complain_status(ctx, status) : EXIT_OK;
}
