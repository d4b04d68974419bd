/* Vectors, cosines and nearest texts as tables and JSON. */
#include "embed/print.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "table.h"
#include "text.h"

/* ---- cosines ---------------------------------------------------------------------------- */

enum { CELL = 7, LEAST_TEXT = 16 };

/* Of the 256 colours, by rising cosine; NULL: none. */
static const char *colour_of(double cosine) {
  static const char *const rising[] = {"\033[48;5;236m", "\033[48;5;22m", "\033[48;5;28m",
                                       "\033[30;48;5;34m", "\033[30;48;5;40m"};
  if (cosine < -0.1) return "\033[48;5;52m";
  if (cosine < 0.1) return NULL;
  int step = (int)((cosine - 0.1) / 0.18);
  return rising[step > 4 ? 4 : step];
}

static void print_cell(double cosine, bool colourful) {
  const char *colour = colourful ? colour_of(cosine) : NULL;
  if (colour) fputs(colour, stdout);
  /* no "-0.000" */
  printf("%*.3f", CELL, fabs(cosine) < 0.0005 ? 0.0 : cosine);
  if (colour) fputs("\033[0m", stdout);
}

int print_cosines(const embed_window *window) {
  int n = window->count;
  bool colourful = is_colourful(stdout);
  int room = text_room(stdout), left = room - CELL * n - 6;
  int shown = !room ? 1 << 20 : left < LEAST_TEXT ? LEAST_TEXT : left;
  printf("    ");
  for (int j = 0; j < n; j++) printf("%*d", CELL, j + 1);
  putchar('\n');
  for (int i = 0; i < n; i++) {
    printf("%4d", i + 1);
    for (int j = 0; j < n; j++)
      print_cell(attend_cosine(vector_at(window, i), vector_at(window, j), window->width),
                 colourful);
    char *text = text_on_a_line(window->text[i], window->length[i]);
    fputs("  ", stdout);
    text_print_cut(stdout, text, shown);
    putchar('\n');
    free(text);
  }
  return check_written(stdout, "the table");
}

/* ---- vectors ---------------------------------------------------------------------------- */

void print_vector(const embed_window *window, int i) {
  const float *vector = vector_at(window, i);
  for (int j = 0; j < window->width; j++) printf("%s%.9g", j ? " " : "", (double)vector[j]);
  putchar('\n');
}

/* Nine digits identify a float; as a double it would be written with seventeen. */
static double nine_digits(float x) {
  char text[32];
  snprintf(text, sizeof text, "%.9g", (double)x);
  return strtod(text, NULL);
}

static void put_cosines(attend_json_writer *w, const embed_window *window, int i) {
  attend_json_member(w, "cosines");
  attend_json_open(w, '[');
  for (int j = 0; j < window->count; j++)
    attend_json_put_number(w, nine_digits((float)attend_cosine(
                                  vector_at(window, i), vector_at(window, j), window->width)));
  attend_json_close(w, ']');
}

void put_embedding(attend_json_writer *w, const embed_window *window, int i, bool cosines) {
  const float *vector = vector_at(window, i);
  attend_json_indent(w, true); /* one line a text */
  attend_json_open(w, '{');
  attend_json_indent(w, false);
  attend_json_member(w, "text");
  attend_json_put_bytes(w, window->text[i], window->length[i]);
  attend_json_member(w, "tokens");
  attend_json_put_integer(w, window->tokens[i]);
  attend_json_member(w, "vector");
  attend_json_open(w, '[');
  for (int j = 0; j < window->width; j++) attend_json_put_number(w, nine_digits(vector[j]));
  attend_json_close(w, ']');
  if (cosines) put_cosines(w, window, i);
  attend_json_close(w, '}');
}

/* ---- the nearest ------------------------------------------------------------------------- */

void nearest_offer(nearest *found, size_t number, const embed_window *window, int i) {
  double cosine = attend_cosine(found->query, vector_at(window, i), window->width);
  int at = found->count;
  while (at > 0 && found->hits[at - 1].cosine < cosine) at--;
  if (at == found->most) return;
  if (found->count == found->most) free(found->hits[--found->count].text);
  memmove(found->hits + at + 1, found->hits + at,
          (size_t)(found->count - at) * sizeof *found->hits);
  found->hits[at] = (hit){cosine, number, text_on_a_line(window->text[i], window->length[i])};
  found->count++;
}

static const column columns[] = {{"rank", "rank", CELL_COUNT},
                                 {"cosine", "cosine", CELL_RATIO},
                                 {"line", "line", CELL_COUNT},
                                 {"text", "text", CELL_TEXT},
                                 {NULL, NULL, CELL_TEXT}};

int nearest_print(const nearest *found, attend_context *ctx, bool json) {
  table t = table_start(columns);
  for (int i = 0; i < found->count; i++) {
    const hit *h = &found->hits[i];
    table_add(&t, (cell[]){cell_number(i + 1), cell_number(h->cosine),
                           cell_number((double)h->number), cell_text(h->text)});
  }
  int code = json ? table_print_json(&t, ctx, stdout) : table_print(&t, stdout);
  table_free(&t);
  return code;
}

void nearest_free(nearest *found) {
  for (int i = 0; i < found->count; i++) free(found->hits[i].text);
  free(found->hits);
}
