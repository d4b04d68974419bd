/* Extractive summaries: sentences ranked by centrality.
 *
 * LexRank (Erkan and Radev, 2004) ranks sentences by a random walk on the graph of
 * their cosines. Here the walk's weights are attention, exp(cosine / tau), whose
 * stationary distribution has a closed form (attend/centrality.h). Sentences are
 * chosen by rank; one that is too similar to a chosen one is passed over.
 */
#include "tasks/extract.h"

#include <math.h>
#include <stdlib.h>

#include "attend/centrality.h"
#include "attend/text.h"
#include "base/options.h"

static const double ALIKE = 0.8;
enum { SENTENCES = 3 };

/* ---- sentences ----------------------------------------------------------------- */

static bool has_words(const char *text, size_t length) {
  for (size_t i = 0; i < length; i++)
    if (is_word_byte((unsigned char)text[i])) return true;
  return false;
}

static attend_status cut(attend_extraction *x) {
  const char *text = x->text;
  size_t count = 0;
  for (attend_sentence s = {0}; attend_sentence_next(text, x->length, &s);) count++;
  ATTEND_CHECK(x->ctx, count <= INT32_MAX,
               "the text has %zu sentences: %d are "
               "the most",
               count, INT32_MAX);
  ATTEND_TRY(
      take_zeroed(x->ctx, size_times(count, sizeof *x->sentence), "sentences", &x->sentence));
  for (attend_sentence s = {0}; attend_sentence_next(text, x->length, &s);) {
    bool words = has_words(text + s.start, s.length);
    x->sentence[x->count++] = (attend_ranked_sentence){.start = s.start,
                                                       .length = s.length,
                                                       .ends_paragraph = s.ends_paragraph,
                                                       .words = words,
                                                       .same = -1};
    x->rows += words;
  }
  return ATTEND_OK;
}

attend_status attend_extraction_create(attend_context *ctx, const char *text, size_t length,
                                       attend_extraction **extraction) {
  attend_extraction *x;
  *extraction = NULL;
  ATTEND_CHECK(ctx, text || !length, "the text is NULL: give its address");
  ATTEND_TRY(take_zeroed(ctx, sizeof *x, "an extraction", &x));
  *x = (attend_extraction){.ctx = ctx, .text = text, .length = length};
  attend_status status = cut(x);
  if (status)
    attend_extraction_free(x);
  else
    *extraction = x;
  return status;
}

void attend_extraction_free(attend_extraction *x) {
  if (!x) return;
  give(x->ctx, x->sentence);
  give(x->ctx, x);
}

const attend_ranked_sentence *attend_extraction_get(const attend_extraction *x, int i) {
  return i >= 0 && i < x->count ? &x->sentence[i] : NULL;
}

int attend_extraction_count(const attend_extraction *x) { return x->count; }
int attend_extraction_rows(const attend_extraction *x) { return x->rows; }
int attend_extraction_chosen(const attend_extraction *x) { return x->chosen; }

/* ---- ranking ------------------------------------------------------------------- */

typedef struct {
  int sentence, row; /* of all; of the vectors */
  double score;
} candidate;

static int by_score(const void *a, const void *b) {
  const candidate *x = a, *y = b;
  if (x->score != y->score) return x->score < y->score ? 1 : -1;
  return x->sentence < y->sentence ? -1 : 1;
}

static void set_heights(attend_extraction *x) {
  double least = INFINITY, most = 0;
  for (int i = 0; i < x->count; i++) {
    const attend_ranked_sentence *s = &x->sentence[i];
    if (s->words && s->centrality < least) least = s->centrality;
    if (s->words && s->centrality > most) most = s->centrality;
  }
  for (int i = 0; i < x->count; i++) {
    attend_ranked_sentence *s = &x->sentence[i];
    s->height = most > least ? (s->centrality - least) / (most - least) : 1;
  }
}

/* list [rows], by rank. */
static void rank(attend_extraction *x, double lead, const double *centrality, candidate *list) {
  for (int i = 0, row = 0; i < x->count; i++) {
    if (!x->sentence[i].words) continue;
    double place = x->rows > 1 ? (double)row / (x->rows - 1) : 0;
    x->sentence[i].centrality = centrality[row];
    list[row] = (candidate){i, row, log(centrality[row]) - lead * place};
    row++;
  }
  qsort(list, (size_t)x->rows, sizeof *list, by_score);
  for (int i = 0; i < x->rows; i++) x->sentence[list[i].sentence].rank = i + 1;
  set_heights(x);
}

/* ---- choosing ------------------------------------------------------------------ */

static double cosine(const float *a, const float *b, int width) {
  float sum = 0; /* of unit vectors */
  for (int i = 0; i < width; i++) sum += a[i] * b[i];
  return (double)sum;
}

/* The chosen sentence that candidate `which` repeats, or -1; list [0, which) are the
 * candidates before it. */
static int find_same(const attend_extraction *x, const candidate *list, int which,
                     const float *vectors, int width, double alike) {
  const float *own = vectors + (size_t)list[which].row * (size_t)width;
  for (int i = 0; i < which; i++) {
    const float *other = vectors + (size_t)list[i].row * (size_t)width;
    if (x->sentence[list[i].sentence].chosen && cosine(other, own, width) > alike)
      return list[i].sentence;
  }
  return -1;
}

static void choose(attend_extraction *x, const attend_extract_options *o, const candidate *list,
                   const float *vectors, int width) {
  int count = o->count ? o->count : o->share > 0 ? (int)ceil(o->share * x->rows - 1e-9) : SENTENCES;
  double alike = o->alike == 0 ? ALIKE : o->alike;
  x->chosen = 0;
  for (int i = 0; i < x->count; i++) {
    x->sentence[i].chosen = false;
    x->sentence[i].same = -1;
  }
  for (int i = 0; i < x->rows && x->chosen < count; i++) {
    attend_ranked_sentence *s = &x->sentence[list[i].sentence];
    if (alike < 1) s->same = find_same(x, list, i, vectors, width, alike);
    s->chosen = s->same < 0;
    x->chosen += s->chosen;
  }
}

/* ---- the call ------------------------------------------------------------------ */

static attend_status check(attend_context *ctx, const float *vectors, int width,
                           const attend_extract_options *o) {
  ATTEND_CHECK(ctx, !vectors || width >= 1, "vectors of width %d: choose 1 or more", width);
  ATTEND_CHECK(ctx, o->count >= 0 && o->share >= 0 && o->share <= 1,
               "%d sentences, share %g: choose a count of 0 or more and a "
               "share from 0 to 1",
               o->count, o->share);
  ATTEND_CHECK(ctx, isfinite(o->lead) && isfinite(o->alike), "lead %g and alike %g must be finite",
               o->lead, o->alike);
  return ATTEND_OK;
}

static attend_status rank_vectors(attend_extraction *x, const float *vectors, int width,
                                  const attend_extract_options *o) {
  attend_centrality_options how = {ATTEND_INIT(attend_centrality_options), .tau = o->tau,
                                   .jump = o->jump, .progress = o->progress, .user = o->user};
  size_t rows = (size_t)x->rows;
  double *centrality = NULL;
  candidate *list = NULL;
  attend_status status = take(x->ctx, rows * sizeof *centrality, "centralities", &centrality);
  if (!status) status = take(x->ctx, rows * sizeof *list, "ranks", &list);
  if (!status) status = attend_centrality(x->ctx, vectors, x->rows, width, &how, centrality);
  if (!status) {
    rank(x, o->lead, centrality, list);
    choose(x, o, list, vectors, width);
  }
  give(x->ctx, list);
  give(x->ctx, centrality);
  return status;
}

attend_status attend_extraction_rank(attend_extraction *x, const float *vectors, int width,
                                     const attend_extract_options *options) {
  attend_extract_options o;
  float *own = NULL;
  ATTEND_TRY(OPTIONS_READ(x->ctx, attend_extract_options, options, &o));
  ATTEND_TRY(check(x->ctx, vectors, width, &o));
  if (!vectors) {
    ATTEND_TRY(word_vectors(x, &own));
    vectors = own;
    width = WORD_VECTOR_WIDTH;
  }
  attend_status status = rank_vectors(x, vectors, width, &o);
  give(x->ctx, own);
  return status;
}
