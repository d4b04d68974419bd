/* A tree of summaries in the terminal and in JSON.
 *
 * See long_summary.h; long_page.c makes a page of it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "embed/lines.h"
#include "json_members.h"
#include "summarize/long_summary.h"
#include "table.h"

static void print_text(const char *text, int depth) {
  char *line = text_on_a_line(text, strlen(text));
  printf("%*s%s", 2 * depth, "", line);
  free(line);
}

static void print_node(const summary_tree *t, int level, int i, int depth) {
  const tree_node *n = &t->level[level].node[i];
  print_text(node_text(n), depth);
  printf("  [words %zu-%zu]\n", n->first_word, n->last_word);
  for (int j = 1; j < n->n_best; j++) {
    print_text(n->best[j].text, depth);
    putchar('\n');
  }
  for (int j = n->first; j < n->first + n->count; j++)
    print_node(t, level - 1, j, depth + 1);
}

int tree_print(const summary_tree *t) {
  int top = t->levels - 1;
  for (int i = 0; i < t->level[top].count; i++) print_node(t, top, i, 0);
  return check_written(stdout, "the summaries");
}

void tree_put_json(attend_json_writer *w, const summary_tree *t, int level,
                   int i) {
  const tree_node *n = &t->level[level].node[i];
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
    for (int j = n->first; j < n->first + n->count; j++)
      tree_put_json(w, t, level - 1, j);
    attend_json_close(w, ']');
  }
  attend_json_close(w, '}');
}
