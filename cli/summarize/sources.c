/* Where the words of a summary come from: the document's words that
 * cross-attention weighed most while they were written.
 *
 * See summarize.h; for those without a browser.
 *
 * The summary is read by the decoder once more, all at once, which gives the
 * bits of writing it. A token was chosen by the row of the token before it, so
 * that row tells its sources. Weights are the mean over all layers and heads;
 * tokens of a word are joined, in the document by their sum, in the summary by
 * their mean. What lies on marks and on a prefix is no word's.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json_members.h"
#include "summarize/summarize.h"
#include "table.h"

typedef struct {
  char *text;
  int of; /* the first place of the same word */
} source_word;

typedef struct {
  source_word *words; /* [count] of the document, in order */
  int count;
  int *word; /* [tokens] that each token belongs to; -1: none */
  int rows, keys;
  float *weights; /* [rows][keys] the mean */
  double parts;   /* heads and layers that were added */
} sources;

/* ---- weights ---------------------------------------------------------------------- */

static void see(const attend_hooked *sight, void *user) {
  sources *s = user;
  if (sight->role != ATTEND_CROSS || sight->point != ATTEND_AT_PATTERN) return;
  const float *weights = sight->view.data;
  const ptrdiff_t *by = sight->view.stride;
  bool plain = !by[1] && !by[2] && !by[3];
  ptrdiff_t head = plain ? (ptrdiff_t)s->rows * s->keys : by[1];
  ptrdiff_t row = plain ? s->keys : by[2], key = plain ? 1 : by[3];
  for (int h = 0; h < sight->shape[1]; h++, s->parts++)
    for (int t = 0; t < s->rows; t++)
      for (int k = 0; k < s->keys; k++)
        s->weights[(size_t)t * (size_t)s->keys + (size_t)k] +=
            weights[h * head + t * row + k * key];
}

/* A linear form keeps no keys unless a hook is at its pattern from the first on. */
static bool is_linear(const attend_model *model) {
  return attend_form_features(attend_model_role_form(model, ATTEND_CROSS),
                              attend_model_config(model)->decoder.dim) > 0;
}

static attend_status run_again(const summarizer *s, const summary_document *d,
                               const summary *one, sources *to) {
  attend_session *run;
  attend_session_options o = {.rows = one->count};
  attend_hook hook = {.points = ATTEND_AT_PATTERN, .read = see, .user = to};
  int32_t *ids = need((size_t)one->count, sizeof *ids);
  ids[0] = attend_model_config(s->m.model)->decoder_start;
  memcpy(ids + 1, one->ids, (size_t)(one->count - 1) * sizeof *ids);
  attend_status status = attend_session_create(s->m.model, &o, &run);
  if (!status && is_linear(s->m.model))
    status = attend_session_set_hooks(run, 1, &hook);
  if (!status)
    status = attend_session_encode(run, 1, d->tokens, d->ids, NULL, NULL);
  if (!status) status = attend_session_set_hooks(run, 1, &hook);
  if (!status) {
    status = attend_session_extend(run, 1, one->count, ids, NULL);
  }
  attend_session_free(run);
  free(ids);
  return status;
}

/* ---- words ------------------------------------------------------------------------- */

static bool is_space(char c) { return isspace((unsigned char)c); }

/* A word without the marks around it, for what is printed. */
static char *bare(const char *text, size_t length) {
  while (length > 1 && ispunct((unsigned char)text[length - 1])) length--;
  while (length > 1 && ispunct((unsigned char)*text)) text++, length--;
  return memcpy(need(length + 1, 1), text, length);
}

static int first_of(const sources *s, const char *text) {
  for (int i = 0; i < s->count; i++)
    if (!strcmp(s->words[i].text, text)) return s->words[i].of;
  return s->count;
}

static void add_word(sources *s, const char *text, size_t length) {
  char *word = bare(text, length);
  int of = first_of(s, word);
  s->words[s->count++] = (source_word){word, of};
}

/* Which word of the text each byte's place belongs to; -1: a space. */
static int *cut_words(sources *s, const char *text, size_t length) {
  int *at = need(length + 1, sizeof *at);
  s->words = need(length / 2 + 1, sizeof *s->words);
  for (size_t i = 0; i < length;) {
    size_t end = i;
    while (end < length && !is_space(text[end])) end++;
    for (size_t k = i; k < end; k++) at[k] = s->count;
    if (end > i) add_word(s, text + i, end - i);
    for (i = end; i < length && is_space(text[i]); i++) at[i] = -1;
  }
  return at;
}

/* A token is the word's that its last letter is in. */
static attend_status place_tokens(const summarizer *m,
                                  const summary_document *d, sources *s) {
  size_t front = strlen(m->prefix);
  attend_encoding *e;
  int *at = cut_words(s, d->text, d->read);
  attend_status status = attend_encoding_create(m->m.tokenizer, &e);
  if (!status) status = document_encode(m, d, e);
  s->word = need((size_t)d->tokens, sizeof *s->word);
  for (int i = 0; i < d->tokens && !status; i++) {
    size_t end = e->end[i];
    bool inside = e->part[i] == 0 && end > e->start[i] && end > front &&
                  end - front <= d->read;
    s->word[i] = inside ? at[end - front - 1] : -1;
  }
  attend_encoding_free(e);
  free(at);
  return status;
}

static void sources_free(sources *s) {
  for (int i = 0; i < s->count; i++) free(s->words[i].text);
  free(s->words);
  free(s->word);
  free(s->weights);
}

static attend_status sources_find(const summarizer *m,
                                  const summary_document *d, const summary *one,
                                  sources *s) {
  *s = (sources){.rows = one->count, .keys = d->tokens};
  s->weights = need((size_t)s->rows * (size_t)s->keys, sizeof *s->weights);
  attend_status status = place_tokens(m, d, s);
  if (!status) status = run_again(m, d, one, s);
  return status;
}

/* ---- one word of the summary ---------------------------------------------------------- */

enum { MOST_SOURCES = 16 };

typedef struct {
  const char *word;
  double weight;
} source;

typedef struct {
  char *text;      /* the word as it stands, what was said so far of it */
  int rows;        /* tokens of it */
  double *weights; /* [words of the document], by their first places */
} written_word;

static void add_row(const sources *s, int row, written_word *w) {
  const float *weights = s->weights + (size_t)row * (size_t)s->keys;
  for (int k = 0; k < s->keys; k++)
    if (s->word[k] >= 0)
      w->weights[s->words[s->word[k]].of] += (double)weights[k] / s->parts;
  w->rows++;
}

static int best_sources(const sources *s, const written_word *w, int most,
                        source *best) {
  int count = 0;
  for (int i = 0; i < s->count; i++) {
    double weight = w->weights[i] / w->rows;
    if (!(weight > 0) || (count == most && weight <= best[most - 1].weight))
      continue;
    int at = count < most ? count++ : most - 1;
    for (; at > 0 && weight > best[at - 1].weight; at--)
      best[at] = best[at - 1];
    best[at] = (source){s->words[i].text, weight};
  }
  return count;
}

/* ---- the words of the summary, one after the other ------------------------------------- */

typedef void put_word(const char *word, int n, const source *best, void *user);

typedef struct {
  const sources *s;
  int most;
  put_word *put;
  void *user;
  written_word w;
  size_t length, room;
} walking;

static void end_word(walking *k) {
  source best[MOST_SOURCES];
  if (!k->length) return;
  k->w.text[k->length] = 0;
  k->put(k->w.text, best_sources(k->s, &k->w, k->most, best), best, k->user);
  memset(k->w.weights, 0, (size_t)k->s->count * sizeof *k->w.weights);
  k->length = 0;
  k->w.rows = 0;
}

static void add_letter(walking *k, char letter) {
  if (k->length + 2 > k->room) {
    k->room = 2 * k->room + 32;
    k->w.text = need_more(k->w.text, k->length, k->room, 1);
  }
  k->w.text[k->length++] = letter;
}

/* A token that says spaces and letters is the word's that it opens. */
static void walk_piece(walking *k, int row, const char *text, size_t length) {
  bool told = false;
  for (size_t i = 0; i < length; i++) {
    if (is_space(text[i])) {
      end_word(k);
      continue;
    }
    add_letter(k, text[i]);
    bool last = i + 1 == length || is_space(text[i + 1]);
    if (last && !told) add_row(k->s, row, &k->w);
    told |= last;
  }
}

static attend_status walk(const summarizer *m, const summary *one, walking *k) {
  attend_detokenizer *d = NULL;
  const char *text;
  size_t length;
  attend_status status = attend_detokenizer_create(m->m.tokenizer, true, &d);
  k->w.weights = need((size_t)k->s->count, sizeof *k->w.weights);
  for (int i = 0; i < one->count && !status; i++) {
    status = attend_detokenizer_push(d, one->ids[i], &text, &length);
    if (!status) walk_piece(k, i, text, length);
  }
  if (!status) status = attend_detokenizer_finish(d, &text, &length);
  if (!status) walk_piece(k, one->count - 1, text, length);
  end_word(k);
  attend_detokenizer_free(d);
  free(k->w.weights);
  free(k->w.text);
  return status;
}

static int each_word(const summarize_options *o, const summarizer *m,
                     const summary_document *d, const summary *one,
                     put_word *put, void *user) {
  sources s;
  attend_status status = sources_find(m, d, one, &s);
  walking k = {.s = &s, .most = o->sources, .put = put, .user = user};
  if (k.most > MOST_SOURCES) k.most = MOST_SOURCES;
  if (!status) status = walk(m, one, &k);
  sources_free(&s);
  return status ? complain_status(m->m.ctx, status) : EXIT_OK;
}

/* ---- as a table, as JSON ----------------------------------------------------------------- */

static const column columns[] = {
    {"word", "word", CELL_TEXT}, {"sources", "sources", CELL_TEXT}, {0}};

static void add_to_table(const char *word, int n, const source *best,
                         void *user) {
  char text[1024] = "";
  size_t used = 0;
  for (int i = 0; i < n && used < sizeof text; i++)
    used += (size_t)snprintf(text + used, sizeof text - used, "%s%s %.2f",
                             i ? ", " : "", best[i].word, best[i].weight);
  table_add(user, (cell[]){cell_text(word), cell_text(text)});
}

int sources_print(const summarize_options *o, const summarizer *m,
                  const summary_document *d, const summary *one, bool several) {
  table t = table_start(columns);
  int code = each_word(o, m, d, one, add_to_table, &t);
  printf("\n");
  if (several && !code) printf("%s\n", one->text);
  if (!code) code = table_print(&t, stdout);
  table_free(&t);
  return code;
}

static void add_to_json(const char *word, int n, const source *best,
                        void *user) {
  attend_json_writer *w = user;
  attend_json_open(w, '{');
  json_text(w, "word", word);
  attend_json_member(w, "from");
  attend_json_open(w, '[');
  for (int i = 0; i < n; i++) {
    attend_json_open(w, '{');
    json_text(w, "word", best[i].word);
    json_number(w, "weight", best[i].weight);
    attend_json_close(w, '}');
  }
  attend_json_close(w, ']');
  attend_json_close(w, '}');
}

void sources_put(const summarize_options *o, const summarizer *m,
                 const summary_document *d, const summary *one,
                 attend_json_writer *w) {
  attend_json_member(w, "sources");
  attend_json_open(w, '[');
  each_word(o, m, d, one, add_to_json, w);
  attend_json_close(w, ']');
}
