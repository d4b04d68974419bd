/* Sentences cut, ranked and chosen. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "summarize/extract.h"
#include "interrupt.h"
#include "progress.h"

enum { PERMILLE = 1000 };

/* ---- cutting ------------------------------------------------------------------- */

/* Anything beyond ASCII counts: it is hardly ever a rule. */
static bool has_words(const char *text, size_t length) {
  for (size_t i = 0; i < length; i++) {
    unsigned char c = (unsigned char)text[i];
    if (c >= 0x80 || (c >= '0' && c <= '9') ||
        ((c | 32) >= 'a' && (c | 32) <= 'z'))
      return true;
  }
  return false;
}

void extraction_cut(extraction *x, const char *name, const char *text,
                    size_t length) {
  int count = 0;
  *x = (extraction){.name = name, .text = text, .length = length};
  for (attend_sentence s = {0}; attend_sentence_next(text, length, &s);)
    count++;
  x->sentence = need((size_t)count + 1, sizeof *x->sentence);
  for (attend_sentence s = {0}; attend_sentence_next(text, length, &s);) {
    bool words = has_words(text + s.start, s.length);
    x->sentence[x->count++] = (ranked){.start = s.start,
                                       .length = s.length,
                                       .ends_paragraph = s.ends_paragraph,
                                       .words = words,
                                       .same = -1};
    x->words += words;
  }
}

void extraction_free(extraction *x) { free(x->sentence); }

/* Lines that were wrapped become one. */
char *extraction_line(const extraction *x, int sentence) {
  const ranked *s = &x->sentence[sentence];
  char *line = need(s->length + 1, 1);
  size_t n = 0;
  for (size_t i = 0; i < s->length; i++) {
    unsigned char c = (unsigned char)x->text[s->start + i];
    bool gap = c <= 32 || c == 127;
    if (gap && n && line[n - 1] == ' ') continue;
    line[n++] = gap ? ' ' : (char)c;
  }
  return line;
}

double extraction_height(const extraction *x, int sentence) {
  double range = x->most - x->least;
  return range > 0 ? (x->sentence[sentence].centrality - x->least) / range : 1;
}

/* ---- ranking ------------------------------------------------------------------- */

static int say_progress(double done, void *user) {
  (void)user;
  progress_step((size_t)(done * PERMILLE), "permille");
  return is_interrupted();
}

static attend_status find_centrality(attend_context *ctx,
                                     const extract_options *o,
                                     const embed_text *texts, int n, int width,
                                     double *centrality) {
  attend_centrality_options how = {
      .tau = (float)o->tau, .jump = o->jump, .progress = say_progress};
  size_t row = (size_t)width;
  float *x = need((size_t)n * row + 1, sizeof *x);
  for (int i = 0; i < n; i++)
    memcpy(x + (size_t)i * row, texts[i].vector, row * sizeof *x);
  progress_start("ranking sentences", PERMILLE);
  attend_status status = attend_centrality(ctx, x, n, width, &how, centrality);
  progress_end();
  free(x);
  return status;
}

typedef struct {
  int sentence, text; /* of all; of those with words */
  double score;
} candidate;

static int by_score(const void *a, const void *b) {
  const candidate *x = a, *y = b;
  if (x->score != y->score) return x->score < y->score ? 1 : -1;
  return x->sentence < y->sentence ? -1 : 1;
}

/* A text's centralities depend on its length; the mean is 1 / words. */
static candidate *make_candidates(extraction *x, const extract_options *o,
                                  const double *centrality) {
  candidate *list = need((size_t)x->words + 1, sizeof *list);
  for (int i = 0, t = 0; i < x->count; i++) {
    if (!x->sentence[i].words) continue;
    double place = x->words > 1 ? (double)t / (x->words - 1) : 0;
    x->sentence[i].centrality = centrality[t];
    if (centrality[t] > x->most) x->most = centrality[t];
    if (!t || centrality[t] < x->least) x->least = centrality[t];
    list[t] = (candidate){i, t, log(centrality[t]) - o->lead * place};
    t++;
  }
  qsort(list, (size_t)x->words, sizeof *list, by_score);
  for (int i = 0; i < x->words; i++) x->sentence[list[i].sentence].rank = i + 1;
  return list;
}

/* ---- choosing ------------------------------------------------------------------ */

static double cosine(const float *a, const float *b, int width) {
  float sum = 0; /* of unit vectors */
  for (int i = 0; i < width; i++) sum += a[i] * b[i];
  return (double)sum;
}

/* The chosen one that says the same, or -1. */
static int find_same(const candidate *list, const int *taken, int n,
                     const embed_text *texts, int width, int which,
                     double alike) {
  for (int i = 0; i < n; i++)
    if (cosine(texts[list[taken[i]].text].vector,
               texts[list[which].text].vector, width) > alike)
      return list[taken[i]].sentence;
  return -1;
}

static void choose(extraction *x, const extract_options *o,
                   const candidate *list, const embed_text *texts, int width) {
  int wanted = o->count ? o->count : (int)ceil(o->share * x->words - 1e-9);
  int *taken = need((size_t)x->words + 1, sizeof *taken);
  for (int i = 0; i < x->words && x->chosen < wanted; i++) {
    ranked *s = &x->sentence[list[i].sentence];
    if (o->alike < 1)
      s->same = find_same(list, taken, x->chosen, texts, width, i, o->alike);
    s->chosen = s->same < 0;
    if (s->chosen) taken[x->chosen++] = i;
  }
  free(taken);
}

attend_status extraction_rank(extraction *x, attend_context *ctx,
                              const extract_options *o, const embed_text *texts,
                              int width) {
  double *centrality = need((size_t)x->words + 1, sizeof *centrality);
  attend_status status =
      find_centrality(ctx, o, texts, x->words, width, centrality);
  if (!status) {
    candidate *list = make_candidates(x, o, centrality);
    choose(x, o, list, texts, width);
    free(list);
    x->done = true;
  }
  free(centrality);
  return status;
}
