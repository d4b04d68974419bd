/* Extractive summaries: sentences ranked by centrality.
 *
 * LexRank (Erkan and Radev, 2004) ranks sentences by a random walk on the graph of
 * their cosines. Here the walk's weights are attention, exp(cosine / tau), whose
 * stationary distribution has a closed form (attend/extract.h). Sentences are
 * chosen by rank; one that is too similar to a chosen one is passed over.
 */
#include "attend/extract.h"

#include <math.h>
#include <stdlib.h>

#include "attend/text.h"
#include "base/options.h"
#include "tasks/tasks.h"

static const double ALIKE = 0.8;
enum { SENTENCES = 3, WIDTH = 1024 /* of vectors of words */ };

struct attend_extraction {
  attend_context *ctx;
  const char *text;
  size_t length;
  attend_ranked_sentence *sentence; /* [count] */
  int count, rows;
  int chosen;
};

/* ---- sentences ----------------------------------------------------------------- */

/* Bytes beyond ASCII count as letters. */
static bool is_word_byte(unsigned char c) { return c >= 0x80 || is_alphanumeric((char)c); }

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
      ctx_alloc_zeroed(x->ctx, size_times(count, sizeof *x->sentence), "sentences", &x->sentence));
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
  ATTEND_TRY(ctx_alloc_zeroed(ctx, sizeof *x, "an extraction", &x));
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
  ctx_free(x->ctx, x->sentence);
  ctx_free(x->ctx, x);
}

const attend_ranked_sentence *attend_extraction_get(const attend_extraction *x, int i) {
  return i >= 0 && i < x->count ? &x->sentence[i] : NULL;
}

int attend_extraction_count(const attend_extraction *x) { return x->count; }
int attend_extraction_rows(const attend_extraction *x) { return x->rows; }
int attend_extraction_chosen(const attend_extraction *x) { return x->chosen; }

/* ---- vectors without a model ---------------------------------------------------- */

/* TF-IDF of the words that sentences share: a word counts as often as the sentence has
 * it, times log(1 + n / d), where d of the n sentences have it. Feature hashing
 * (Weinberger et al., 2009) maps words to dimensions, with a sign: two words that collide
 * add noise of 1 / sqrt(WIDTH) to a cosine, and no bias. */
typedef struct {
  uint64_t hash; /* 0: free */
  int count;     /* sentences that have it */
  int last;      /* the last of them, from 1 */
} word_slot;

typedef struct {
  word_slot *slot;
  size_t mask, used;
} word_table;

/* The hash of the next word at *at, in lower case (FNV-1a with a final mix); 0:
 * there is none. */
static uint64_t next_word(const char *text, size_t length, size_t *at) {
  uint64_t h = UINT64_C(14695981039346656037);
  size_t i = *at;
  while (i < length && !is_word_byte((unsigned char)text[i])) i++;
  size_t start = i;
  for (; i < length && is_word_byte((unsigned char)text[i]); i++) {
    unsigned char c = (unsigned char)text[i];
    if (c >= 'A' && c <= 'Z') c |= 32;
    h = (h ^ c) * UINT64_C(1099511628211);
  }
  *at = i;
  h = (h ^ h >> 32) * UINT64_C(0x9e3779b97f4a7c15);
  h ^= h >> 29;
  return i == start ? 0 : h ? h : 1;
}

static word_slot *find_word(word_table *t, uint64_t hash) {
  size_t i = hash & t->mask;
  while (t->slot[i].hash && t->slot[i].hash != hash) i = (i + 1) & t->mask;
  return &t->slot[i];
}

static attend_status grow_table(attend_context *ctx, word_table *t) {
  word_table wider = {.mask = t->slot ? 2 * t->mask + 1 : 1023, .used = t->used};
  ATTEND_TRY(
      ctx_alloc_zeroed(ctx, size_times(wider.mask + 1, sizeof *wider.slot), "words", &wider.slot));
  for (size_t i = 0; t->slot && i <= t->mask; i++)
    if (t->slot[i].hash) *find_word(&wider, t->slot[i].hash) = t->slot[i];
  ctx_free(ctx, t->slot);
  *t = wider;
  return ATTEND_OK;
}

static attend_status count_words(attend_context *ctx, word_table *t, const char *text,
                                 size_t length, int sentence) {
  uint64_t h;
  for (size_t at = 0; (h = next_word(text, length, &at));) {
    if (!t->slot || 2 * t->used > t->mask) ATTEND_TRY(grow_table(ctx, t));
    word_slot *s = find_word(t, h);
    t->used += !s->hash;
    s->hash = h;
    if (s->last != sentence) s->count++;
    s->last = sentence;
  }
  return ATTEND_OK;
}

static void put_words(word_table *t, const char *text, size_t length, int n, float *vector) {
  double sum = 0;
  uint64_t h;
  for (size_t at = 0; (h = next_word(text, length, &at));) {
    double weight = log(1 + (double)n / find_word(t, h)->count);
    vector[h >> 32 & (WIDTH - 1)] += (float)(h >> 63 ? weight : -weight);
  }
  for (int i = 0; i < WIDTH; i++) sum += (double)vector[i] * (double)vector[i];
  for (int i = 0; i < WIDTH && sum > 0; i++) vector[i] /= (float)sqrt(sum);
}

static attend_status count_all(const attend_extraction *x, word_table *t) {
  for (int i = 0; i < x->count; i++)
    if (x->sentence[i].words)
      ATTEND_TRY(
          count_words(x->ctx, t, x->text + x->sentence[i].start, x->sentence[i].length, i + 1));
  return ATTEND_OK;
}

/* vectors [rows, WIDTH]. */
static attend_status word_vectors(const attend_extraction *x, float **vectors) {
  word_table t = {0};
  attend_status status = count_all(x, &t);
  if (!status)
    status = ctx_alloc_zeroed(x->ctx, SIZE_PRODUCT((size_t)x->rows, WIDTH, sizeof **vectors),
                              "vectors of sentences", vectors);
  float *row = status ? NULL : *vectors;
  for (int i = 0; i < x->count && row; i++) {
    const attend_ranked_sentence *s = &x->sentence[i];
    if (!s->words) continue;
    put_words(&t, x->text + s->start, s->length, x->rows, row);
    row += WIDTH;
  }
  ctx_free(x->ctx, t.slot);
  return status;
}

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
  double min = INFINITY, max = 0;
  for (int i = 0; i < x->count; i++) {
    const attend_ranked_sentence *s = &x->sentence[i];
    if (s->words && s->centrality < min) min = s->centrality;
    if (s->words && s->centrality > max) max = s->centrality;
  }
  for (int i = 0; i < x->count; i++) {
    attend_ranked_sentence *s = &x->sentence[i];
    s->height = max > min ? (s->centrality - min) / (max - min) : 1;
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
  attend_status status = ctx_alloc(x->ctx, rows * sizeof *centrality, "centralities", &centrality);
  if (!status) status = ctx_alloc(x->ctx, rows * sizeof *list, "ranks", &list);
  if (!status) status = attend_centrality(x->ctx, vectors, x->rows, width, &how, centrality);
  if (!status) {
    rank(x, o->lead, centrality, list);
    choose(x, o, list, vectors, width);
  }
  ctx_free(x->ctx, list);
  ctx_free(x->ctx, centrality);
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
    width = WIDTH;
  }
  attend_status status = rank_vectors(x, vectors, width, &o);
  ctx_free(x->ctx, own);
  return status;
}

/* ---- many texts ----------------------------------------------------------------- */

enum { WINDOW = 4096 }; /* sentences that are embedded together: enough for good batches */

typedef struct {
  attend_extract_options o; /* the caller's */
  attend_embedder *e;
  double all, before, now; /* bytes of text: all; before this window; of it */
} ranking;

static int window_progress(double done, const char *what, void *user) {
  const ranking *r = user;
  if (!r->o.progress) return 0;
  return r->o.progress(r->all > 0 ? (r->before + done * r->now) / r->all : 1, what, r->o.user);
}

/* The embedding is nearly all of the time: centrality does not advance the progress. */
static int centrality_progress(double done, const char *what, void *user) {
  const ranking *r = user;
  return window_progress(r->e ? 1 : done, what, user);
}

/* vectors [rows, width] of all sentences of the texts. */
static attend_status embed_sentences(ranking *r, attend_extraction *const *x, int count,
                                     size_t rows, float *vectors) {
  attend_context *ctx = x[0]->ctx;
  const char **texts = NULL;
  size_t *lengths = NULL, n = 0;
  attend_status status = ctx_alloc(ctx, rows * sizeof *texts, "sentences", &texts);
  if (!status) status = ctx_alloc(ctx, rows * sizeof *lengths, "sentences", &lengths);
  for (int d = 0; d < count && !status; d++)
    for (int i = 0; i < x[d]->count; i++) {
      const attend_ranked_sentence *s = &x[d]->sentence[i];
      if (!s->words) continue;
      texts[n] = x[d]->text + s->start;
      lengths[n++] = s->length;
    }
  if (!status)
    status = embed_texts(r->e, (int)n, texts, lengths, vectors, NULL, window_progress, r);
  ctx_free(ctx, lengths);
  ctx_free(ctx, texts);
  return status;
}

static attend_status rank_window(ranking *r, attend_extraction *const *x, int count, size_t rows) {
  attend_context *ctx = x[0]->ctx;
  attend_extract_options o = r->o;
  int width = r->e ? attend_embedder_width(r->e) : 0;
  float *vectors = NULL;
  attend_status status = ATTEND_OK;
  o.progress = centrality_progress;
  o.user = r;
  if (r->e)
    status =
        ctx_alloc(ctx, SIZE_PRODUCT(rows + 1, (size_t)width, sizeof *vectors), "vectors", &vectors);
  if (vectors) status = embed_sentences(r, x, count, rows, vectors);
  const float *at = vectors;
  for (int d = 0; d < count && !status; d++) {
    status = attend_extraction_rank(x[d], at, width, &o);
    if (at) at += (size_t)x[d]->rows * (size_t)width;
  }
  ctx_free(ctx, vectors);
  return status;
}

attend_status attend_extractions_rank(int count, attend_extraction *const *x,
                                      attend_embedder *embedder,
                                      const attend_extract_options *options) {
  ranking r = {.e = embedder};
  if (!count) return ATTEND_OK;
  ATTEND_TRY(OPTIONS_READ(x[0]->ctx, attend_extract_options, options, &r.o));
  r.o.size = sizeof r.o;
  for (int i = 0; i < count; i++) r.all += (double)x[i]->length;
  for (int first = 0, last; first < count; first = last) {
    size_t rows = 0;
    r.now = 0;
    for (last = first; last < count && (last == first || (embedder && rows < WINDOW)); last++) {
      rows += (size_t)x[last]->rows;
      r.now += (double)x[last]->length;
    }
    ATTEND_TRY(rank_window(&r, x + first, last - first, rows));
    r.before += r.now;
  }
  return ATTEND_OK;
}
