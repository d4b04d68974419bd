/* One head's attention over a text, drawn in the terminal.
 *
 * Place: cli/ - the end of `make demo`.
 *
 * Rows are the tokens that look, columns the tokens that are looked at, in the
 * same order. Without a choice it is the head whose heaviest weights fall most
 * on words that are neither the looking one nor beside it: that says something
 * about the text.
 */
#include "head_map.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "table.h"

enum { MOST_TOKENS = 40 };

typedef struct {
  const attend_config *config;
  const attend_tokenizer *tokenizer;
  const attend_encoding *text;
  int n, heads, layers;
  float *weights; /* [layers][heads][n][n] */
} map;

static void see(const attend_sight *s, void *user) {
  map *m = user;
  attend_role role = m->config->parts & ATTEND_ENCODER ? ATTEND_ENCODER_SELF
                                                       : ATTEND_DECODER_SELF;
  size_t layer = (size_t)(m->heads * m->n * m->n);
  if (s->role == role)
    memcpy(m->weights + (size_t)s->layer * layer, s->view.data,
           layer * sizeof *m->weights);
}

/* A word, or a part of one: not a mark, not a special token. */
static bool is_word(const map *m, int i) {
  size_t length;
  const char *piece =
      attend_tokenizer_piece(m->tokenizer, m->text->id[i], &length);
  if (!piece || attend_tokenizer_is_special(m->tokenizer, m->text->id[i]))
    return false;
  for (size_t j = 0; j < length; j++)
    if (isalnum((unsigned char)piece[j])) return true;
  return false;
}

static bool is_telling(const map *m, int i, int j) {
  return abs(i - j) > 1 && is_word(m, i) && is_word(m, j);
}

static double tells(const map *m, const float *w) {
  double sum = 0;
  for (int i = 0; i < m->n; i++)
    for (int j = 0; j < m->n; j++)
      if (is_telling(m, i, j))
        sum += (double)w[i * m->n + j] * (double)w[i * m->n + j];
  return sum;
}

static void choose(const map *m, int *layer, int *head) {
  double most = -1;
  int first = *layer < 0 ? 0 : *layer,
      last = *layer < 0 ? m->layers - 1 : *layer;
  int low = *head < 0 ? 0 : *head, high = *head < 0 ? m->heads - 1 : *head;
  for (int l = first; l <= last; l++)
    for (int h = low; h <= high; h++) {
      double x =
          tells(m, m->weights + (size_t)((l * m->heads + h) * m->n * m->n));
      if (x <= most) continue;
      most = x;
      *layer = l;
      *head = h;
    }
}

/* ---- drawing ------------------------------------------------------------------------ */

static void print_cell(float weight, bool colour) {
  static const char *const shades[] = {"  ", "░░", "▒▒", "▓▓", "██"};
  float root = sqrtf(weight < 0 ? 0 : weight > 1 ? 1 : weight);
  if (colour)
    printf("\033[48;5;%dm  \033[0m", 232 + (int)lroundf(root * 23));
  else
    fputs(shades[(int)(root * 4.999f)], stdout);
}

static void print_piece(const map *m, int i, int width) {
  size_t length;
  const char *piece =
      attend_tokenizer_piece(m->tokenizer, m->text->id[i], &length);
  char text[64];
  snprintf(text, sizeof text, "%.*s", (int)(length > 40 ? 40 : length),
           piece ? piece : "?");
  int pad = width - text_width(text);
  printf("%*s%s", pad > 0 ? pad : 0, "", text);
}

static int heaviest(const map *m, const float *row) {
  int best = 0;
  for (int j = 1; j < m->n; j++)
    if (row[j] > row[best]) best = j;
  return best;
}

static void draw(const map *m, int layer, int head) {
  const float *w =
      m->weights + (size_t)((layer * m->heads + head) * m->n * m->n);
  bool colour = is_colourful(stdout);
  printf(
      "Layer %d, head %d of %d x %d: each row looks at the columns, in the "
      "same order\n\n",
      layer, head, m->layers, m->heads);
  for (int i = 0; i < m->n; i++) {
    int best = heaviest(m, w + i * m->n);
    print_piece(m, i, 14);
    fputs("  ", stdout);
    for (int j = 0; j < m->n; j++) print_cell(w[i * m->n + j], colour);
    printf("  %.2f on ", (double)w[i * m->n + best]);
    print_piece(m, best, 0);
    puts("");
  }
}

/* ---- running -------------------------------------------------------------------------- */

static attend_status run_text(const model_opened *m, map *to) {
  attend_run *run;
  attend_watch watch = {ATTEND_SEE_ATTENTION, see, to};
  attend_run_options o = {.rows = to->n};
  attend_status status = attend_run_create(m->model, &o, &run);
  if (status) return status;
  attend_run_watch(run, &watch);
  status = to->config->parts & ATTEND_ENCODER
               ? attend_run_encode(run, 1, to->n, to->text->id, NULL, NULL)
               : attend_run_extend(run, 1, to->n, to->text->id, NULL);
  attend_run_free(run);
  return status;
}

static int map_text(const model_opened *m, const head_map_options *o,
                    const attend_encoding *text) {
  map x = {.config = attend_model_config(m->model),
           .tokenizer = m->tokenizer,
           .text = text,
           .n = (int)text->count};
  const attend_stack *s = x.config->parts & ATTEND_ENCODER ? &x.config->encoder
                                                           : &x.config->decoder;
  int layer = o->layer, head = o->head;
  x.heads = s->heads;
  x.layers = s->layers;
  if (x.n < 1 || layer >= s->layers || head >= s->heads) {
    complain("the model has layers 0 to %d and heads 0 to %d, and needs a text",
             s->layers - 1, s->heads - 1);
    return EXIT_USAGE;
  }
  x.weights = need((size_t)(s->layers * s->heads) * (size_t)(x.n * x.n),
                   sizeof *x.weights);
  attend_status status = run_text(m, &x);
  if (!status) {
    choose(&x, &layer, &head);
    draw(&x, layer, head);
  }
  free(x.weights);
  return status ? complain_status(m->ctx, status)
                : check_written(stdout, "the map");
}

int head_map(const options *common, const head_map_options *o) {
  model_opened m;
  model_options wanted = o->model;
  attend_encoding *text = NULL;
  wanted.text = wanted.no_head = true;
  int code = model_open(common, &wanted, &m);
  attend_encode_options cut = {.max_length = MOST_TOKENS};
  if (!code) {
    attend_status status = attend_encoding_create(m.tokenizer, &text);
    if (!status) status = attend_encode(text, o->text, strlen(o->text), &cut);
    code = status ? complain_status(m.ctx, status) : map_text(&m, o, text);
  }
  attend_encoding_free(text);
  model_close(&m);
  return code;
}
