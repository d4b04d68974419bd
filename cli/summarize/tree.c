/* A tree of summaries in the terminal, in JSON and as a page, whose nodes open to
 * what they were made of, down to the text itself.
 *
 * The page is one file without scripts: nodes are <details>, which keyboards and
 * screen readers support.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attend/file.h"
#include "summarize/summarize.h"
#include "table.h"
#include "text.h"

static const char *node_text(const attend_summary_node *n) {
  return n->n_best ? n->best[0].text : "";
}

/* ---- the terminal ---------------------------------------------------------------- */

static void print_text(const char *text, int depth) {
  char *line = text_on_a_line(text, strlen(text));
  printf("%*s%s", 2 * depth, "", line);
  free(line);
}

static void print_node(const attend_long_summary *x, int level, int i, int depth) {
  const attend_summary_node *n = attend_long_summary_node(x, level, i);
  print_text(node_text(n), depth);
  printf("  [words %zu-%zu]\n", n->first_word, n->last_word);
  for (int j = 1; j < n->n_best; j++) {
    print_text(n->best[j].text, depth);
    putchar('\n');
  }
  for (int j = n->first; j < n->first + n->count; j++) print_node(x, level - 1, j, depth + 1);
}

void tree_print(const attend_long_summary *x) {
  int top = attend_long_summary_state(x).levels - 1;
  for (int i = 0; i < attend_long_summary_count(x, top); i++) print_node(x, top, i, 0);
}

/* ---- JSON ------------------------------------------------------------------------ */

void tree_put_json(attend_json_writer *w, const attend_long_summary *x, int level, int i) {
  const attend_summary_node *n = attend_long_summary_node(x, level, i);
  attend_json_open(w, '{');
  json_text(w, "summary", node_text(n));
  json_number(w, "score", n->n_best ? n->best[0].score : 0);
  json_number(w, "start", (double)n->start);
  json_number(w, "end", (double)n->end);
  json_number(w, "first_word", (double)n->first_word);
  json_number(w, "last_word", (double)n->last_word);
  if (n->count) {
    attend_json_member(w, "parts");
    attend_json_open(w, '[');
    for (int j = n->first; j < n->first + n->count; j++) tree_put_json(w, x, level - 1, j);
    attend_json_close(w, ']');
  }
  attend_json_close(w, '}');
}

/* ---- the page -------------------------------------------------------------------- */

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

static void put_samples(FILE *f, const attend_summary_node *n) {
  if (n->n_best < 2) return;
  fputs("<ul>", f);
  for (int j = 1; j < n->n_best; j++) {
    fputs("<li>", f);
    html_put_n(f, n->best[j].text, strlen(n->best[j].text));
    fputs("</li>\n", f);
  }
  fputs("</ul>\n", f);
}

static void put_node(FILE *f, const attend_long_summary *x, const char *document, int level, int i,
                     bool open) {
  const attend_summary_node *n = attend_long_summary_node(x, level, i);
  fputs(open ? "<details open><summary>" : "<details><summary>", f);
  html_put_n(f, node_text(n), strlen(node_text(n)));
  fprintf(f, " <small>words %zu&ndash;%zu", n->first_word, n->last_word);
  if (n->count) fprintf(f, ", %d parts", n->count);
  fputs("</small></summary>\n", f);
  put_samples(f, n);
  if (!n->count) {
    fputs("<p>", f);
    html_put_n(f, document + n->start, n->end - n->start);
    fputs("</p>", f);
  }
  for (int j = n->first; j < n->first + n->count; j++)
    put_node(f, x, document, level - 1, j, false);
  fputs("</details>\n", f);
}

static void put_tree(FILE *f, const char *name, const char *document,
                     const attend_long_summary *x) {
  int top = x ? attend_long_summary_state(x).levels - 1 : -1;
  fputs("<h1>", f);
  html_put_n(f, name, strlen(name));
  fputs("</h1>\n", f);
  for (int i = 0; x && i < attend_long_summary_count(x, top); i++)
    put_node(f, x, document, top, i, true);
}

int tree_page(const documents *docs, attend_long_summary *const *trees, int count,
              attend_context *ctx, const char *path) {
  char *text = NULL;
  size_t length = 0;
  FILE *f = open_memstream(&text, &length);
  if (!f) {
    complain("there is no memory for the page %s", path);
    return EXIT_FAILED;
  }
  fputs(head, f);
  for (int i = 0; i < count; i++) put_tree(f, docs->name[i], docs->at[i].text, trees[i]);
  fputs("</body></html>\n", f);
  fclose(f);
  attend_status status = attend_file_write(ctx, path, text, length);
  free(text);
  return status ? complain_status(ctx, status) : EXIT_OK;
}
