/* Words: heads by words instead of tokens, so that models with different tokenizers compare;
 * and one word in two texts. And what all heads of a role do, counted.
 *
 * A word is a run of letters and digits, or one other character, of the text that was read. A
 * token belongs to the word that its bytes lie in; words that one token covers become one.
 */
#include <math.h>
#include <stdlib.h>
#include <strings.h>

#include "view/session.h"

enum { MOST_WORDS = 511 }; /* weights of a head stay below ATTEND_VIEWER_CELLS */

/* ---- the text of a side ------------------------------------------------------------------- */

typedef struct { /* words of one side of a run, perhaps shared with that of another */
  char *text;
  size_t length, second; /* bytes; where the second text begins */
  int32_t *word;         /* [length] the word of a byte, -1: none */
  int n;
  int32_t *start, *end; /* [n] */
} word_list;

static void words_free(attend_context *ctx, word_list *w) {
  ctx_free(ctx, w->text);
  ctx_free(ctx, w->word);
  *w = (word_list){0};
}

static const char *or_empty(const char *text) { return text ? text : ""; }

/* A pair is joined by a space. An encoder-decoder's decoder reads the second text alone. */
static attend_status join_texts(attend_context *ctx, const view_run *run, attend_role side,
                                word_list *w) {
  const attend_viewer_case *c = &run->is.c;
  bool both = attend_config_parts(run->of->config) == ATTEND_BOTH;
  bool answer = both && side == ATTEND_DECODER_SELF;
  const char *a = or_empty(answer ? c->second : c->text);
  const char *b = both ? "" : or_empty(c->second);
  size_t n = strlen(a), m = strlen(b);
  w->second = n + (m > 0);
  w->length = n + (m > 0) + m;
  ATTEND_TRY(ctx_alloc(ctx, w->length + 1, "a text", &w->text));
  memcpy(w->text, a, n);
  w->text[n] = ' ';
  memcpy(w->text + w->second, b, m);
  w->text[w->length] = 0;
  return ATTEND_OK;
}

static bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
static bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c & 0x80;
}

/* The bytes of a token without the spaces around it; false: it has none. */
static bool token_bytes(const word_list *w, const view_side *s, int i, size_t *from, size_t *to) {
  size_t base = s->part[i] == 1 ? w->second : 0;
  *from = base + (size_t)s->start[i], *to = base + (size_t)s->end[i];
  if (s->part[i] < 0 || *to > w->length) return false;
  while (*from < *to && is_space(w->text[*from])) ++*from;
  while (*from < *to && is_space(w->text[*to - 1])) --*to;
  return *from < *to;
}

/* ---- cutting it into words ------------------------------------------------------------------ */

/* Whether a word may begin at byte i, 0 < i < length. An apostrophe between letters is one. */
static bool is_cut(const char *text, size_t i) {
  const char *at = text + i;
  bool inside =
      (at[0] == '\'' && is_letter(at[1])) || (at[-1] == '\'' && i > 1 && is_letter(at[-2]));
  if (inside && (is_letter(at[0]) || is_letter(at[-1]))) return false;
  return !is_letter(at[0]) || !is_letter(at[-1]);
}

/* cut [length + 1] <- no word ends within a token of the side. */
static void join_tokens(const word_list *w, const view_side *s, uint8_t *cut) {
  for (int i = 0; i < s->n; i++) {
    size_t from, to;
    if (token_bytes(w, s, i, &from, &to)) memset(cut + from + 1, 0, to - from - 1);
  }
}

/* Marks words that a side has tokens of: some may have been cut off. */
static void mark_read(const word_list *w, const view_side *s, uint8_t bit, uint8_t *read) {
  for (int i = 0; i < s->n; i++) {
    size_t from, to;
    if (token_bytes(w, s, i, &from, &to) && w->word[from] >= 0) read[w->word[from]] |= bit;
  }
}

static void number_words(word_list *w, const uint8_t *cut) {
  w->n = 0;
  for (size_t i = 0; i < w->length; i++) {
    bool begins = !i || cut[i];
    if (begins && is_space(w->text[i])) {
      w->word[i] = -1;
      continue;
    }
    if (begins) w->start[w->n++] = (int32_t)i;
    w->word[i] = begins || w->word[i - 1] >= 0 ? w->n - 1 : -1;
    if (w->word[i] >= 0) w->end[w->n - 1] = (int32_t)i + 1;
  }
}

/* Keeps the words whose mark is `want`. */
static void keep_words(word_list *w, const uint8_t *read, uint8_t want, int32_t *number) {
  int n = 0;
  for (int i = 0; i < w->n; i++) {
    number[i] = read[i] == want ? n : -1;
    if (read[i] != want) continue;
    w->start[n] = w->start[i];
    w->end[n++] = w->end[i];
  }
  for (size_t i = 0; i < w->length; i++)
    if (w->word[i] >= 0) w->word[i] = number[w->word[i]];
  w->n = n;
}

static const view_side *side_of(const view_run *run, attend_role side) {
  return &run->side[side == ATTEND_DECODER_SELF];
}

/* The words that the side has tokens of, and the side of another run (NULL: none) too, which
 * read the same text. */
static attend_status find_words(attend_context *ctx, const view_run *run, attend_role side,
                                const view_run *other, attend_role other_side, word_list *w) {
  size_t n = w->length + 1;
  uint8_t *cut;
  ATTEND_TRY(ctx_alloc_zeroed(ctx, n * (3 * sizeof *w->word), "words", &w->word));
  w->start = w->word + n, w->end = w->start + n;
  ATTEND_TRY(ctx_alloc_zeroed(ctx, n * (2 + sizeof(int32_t)), "words", &cut));
  int32_t *number = (int32_t *)cut;
  cut = (uint8_t *)(number + n);
  uint8_t *read = cut + n;
  for (size_t i = 1; i < w->length; i++) cut[i] = is_cut(w->text, i);
  join_tokens(w, side_of(run, side), cut);
  if (other) join_tokens(w, side_of(other, other_side), cut);
  number_words(w, cut);
  mark_read(w, side_of(run, side), 1, read);
  if (other) mark_read(w, side_of(other, other_side), 2, read);
  keep_words(w, read, other ? 3 : 1, number);
  ctx_free(ctx, number);
  return ATTEND_OK;
}

static attend_status words_of(attend_context *ctx, const view_run *run, attend_role side,
                              word_list *w) {
  *w = (word_list){0};
  attend_status status = join_texts(ctx, run, side, w);
  if (!status) status = find_words(ctx, run, side, NULL, side, w);
  if (status) words_free(ctx, w);
  return status;
}

/* *why: the texts differ. */
static attend_status shared_words(attend_context *ctx, const view_run *run, attend_role side,
                                  const view_run *other, word_list *w, const char **why) {
  attend_role beside = attend_viewer_role_beside(&other->is, side);
  word_list o = {0};
  *w = (word_list){0};
  attend_status status = join_texts(ctx, run, side, w);
  if (!status) status = join_texts(ctx, other, beside, &o);
  if (!status && strcmp(w->text, o.text))
    *why = "the two runs read different texts, so their words cannot be matched";
  words_free(ctx, &o);
  if (!status && !*why) status = find_words(ctx, run, side, other, beside, w);
  if (status) words_free(ctx, w);
  return status;
}

static int word_of_token(const word_list *w, const view_side *s, int i) {
  size_t from, to;
  return token_bytes(w, s, i, &from, &to) ? w->word[from] : -1;
}

/* ---- a head by words -------------------------------------------------------------------------- */

typedef struct {
  int words, tokens;
  const int32_t *of;
  double *sum;    /* [words, 1 + words] */
  int32_t *count; /* [words] tokens */
} word_sums;

static void add_row(word_sums *s, int row, const float *weights) {
  if (s->of[row] < 0) return;
  double *to = s->sum + (size_t)s->of[row] * (size_t)(s->words + 1);
  s->count[s->of[row]]++;
  for (int j = 0; j < s->tokens; j++) to[1 + s->of[j]] += (double)weights[j];
}

static attend_status add_rows(attend_context *ctx, attend_lens *lens, attend_head_id at,
                              word_sums *s) {
  int rows = ATTEND_VIEWER_CELLS / s->tokens + 1;
  float *band;
  attend_status status = ATTEND_OK;
  ATTEND_TRY(
      ctx_alloc(ctx, (size_t)rows * (size_t)s->tokens * sizeof *band, "weights of words", &band));
  for (int i = 0; i < s->tokens && !status; i += rows) {
    int n = s->tokens - i < rows ? s->tokens - i : rows;
    status = attend_lens_block(lens, at, i, n, 0, s->tokens, band);
    for (int r = 0; r < n && !status; r++) add_row(s, i + r, band + (size_t)r * (size_t)s->tokens);
  }
  ctx_free(ctx, band);
  return status;
}

static attend_status weigh_words(attend_context *ctx, attend_lens *lens, attend_head_id at,
                                 attend_viewer_words *to) {
  size_t n = (size_t)to->words, across = n + 1;
  word_sums s = {.words = to->words, .tokens = to->tokens, .of = to->of};
  ATTEND_TRY(ctx_alloc_zeroed(ctx, n * across * sizeof *s.sum + n * sizeof *s.count + 1,
                              "weights of words", &s.sum));
  s.count = (int32_t *)(s.sum + n * across);
  attend_status status = add_rows(ctx, lens, at, &s);
  for (size_t i = 0; i < n * across; i++) to->weights[i] = (float)(s.sum[i] / s.count[i / across]);
  ctx_free(ctx, s.sum);
  return status;
}

static attend_status words_result(attend_context *ctx, const word_list *w, const view_side *s,
                                  attend_viewer_words *to) {
  size_t n = (size_t)w->n, T = (size_t)s->n;
  ATTEND_TRY(ctx_alloc(ctx,
                       n * (n + 1) * sizeof(float) + (2 * n + T) * sizeof(int32_t) + w->length + 1,
                       "words", &to->memory));
  to->words = w->n, to->tokens = s->n;
  to->weights = to->memory;
  to->start = (int32_t *)(to->weights + n * (n + 1));
  to->end = to->start + n, to->of = to->end + n;
  to->text = (char *)(to->of + T);
  memcpy(to->start, w->start, n * sizeof *to->start);
  memcpy(to->end, w->end, n * sizeof *to->end);
  memcpy(to->text, w->text, w->length + 1);
  for (int i = 0; i < s->n; i++) to->of[i] = word_of_token(w, s, i);
  return ATTEND_OK;
}

attend_status attend_viewer_get_words(attend_viewer *v, const attend_viewer_head *head,
                                      const attend_viewer_run *other, attend_viewer_words *to) {
  attend_context *ctx = v->ctx;
  view_run *run = NULL;
  attend_lens *lens = NULL;
  word_list w;
  *to = (attend_viewer_words){0};
  ATTEND_TRY(head_lens(v, head, true, &run, &lens));
  if (head->at.role == ATTEND_CROSS) {
    to->why = "the queries and keys of cross-attention are words of two texts";
    return ATTEND_OK;
  }
  attend_status status =
      other ? shared_words(ctx, run, head->at.role, (const view_run *)other, &w, &to->why)
            : words_of(ctx, run, head->at.role, &w);
  if (status) return status;
  if (!to->why && !w.n) to->why = "the text has no words that both runs read";
  if (!to->why && w.n > MOST_WORDS) to->why = "the text has more than 511 words";
  if (!to->why) status = words_result(ctx, &w, side_of(run, head->at.role), to);
  words_free(ctx, &w);
  if (!status && !to->why) status = weigh_words(ctx, lens, head->at, to);
  if (status) ctx_free(ctx, to->memory), to->memory = NULL;
  return status;
}

/* ---- one word in two texts ---------------------------------------------------------------------- */

typedef struct {
  const view_run *run;
  const view_side *side;
  word_list words;
} reader;

static int word_length(const word_list *w, int i) { return w->end[i] - w->start[i]; }

static bool same_word(const word_list *a, int i, const word_list *b, int j) {
  int n = word_length(a, i);
  return n == word_length(b, j) &&
         !strncasecmp(a->text + a->start[i], b->text + b->start[j], (size_t)n);
}

static int first_place(const word_list *of, int word, const word_list *in) {
  for (int j = 0; j < in->n; j++)
    if (same_word(of, word, in, j)) return j;
  return -1;
}

/* The first word that both texts have, with another word before it in each. */
static int differing_word(const word_list *a, const word_list *b) {
  for (int i = 1; i < a->n; i++) {
    int j = first_place(a, i, b);
    if (j > 0 && is_letter(a->text[a->start[i]]) && !same_word(a, i - 1, b, j - 1)) return i;
  }
  return a->n && first_place(a, 0, b) >= 0 ? 0 : -1;
}

static attend_viewer_span span_of_word(const reader *r, int word) {
  attend_viewer_span s = {0, 0};
  for (int i = 0; i < r->side->n; i++) {
    if (word_of_token(&r->words, r->side, i) != word) continue;
    if (!s.n) s.from = i;
    s.n = i - s.from + 1;
  }
  return s;
}

/* The word's tokens; a special token is one of its own. */
static attend_viewer_span span_at(const reader *r, int token, int *word) {
  *word = word_of_token(&r->words, r->side, token);
  return *word < 0 ? (attend_viewer_span){token, 1} : span_of_word(r, *word);
}

static attend_status open_reader(attend_context *ctx, const attend_viewer_run *of, attend_role side,
                                 reader *r) {
  const view_run *run = (const view_run *)of;
  *r = (reader){.run = run};
  ATTEND_CHECK(
      ctx,
      run && (side == ATTEND_ENCODER_SELF || side == ATTEND_DECODER_SELF) && run->is.has_role[side],
      "the side must be one that this run has");
  r->side = side_of(run, side);
  return words_of(ctx, run, side, &r->words);
}

const char *word_pair_refused(const attend_viewer_run *run, const attend_viewer_run *other) {
  if (run->c.model != other->c.model)
    return "vectors of two models have no coordinates in common, so they have no cosine";
  if (run->c.untrained != other->c.untrained)
    return "vectors of trained and untrained weights have no coordinates in common";
  return NULL;
}

static void choose_words(const reader *a, const reader *b, int token, int other_token,
                         attend_viewer_word_pair *p) {
  int word, other;
  if (token >= 0) {
    p->word = span_at(a, token, &word);
  } else {
    word = differing_word(&a->words, &b->words);
    p->word = word < 0 ? (attend_viewer_span){a->side->real - 1, 1} : span_of_word(a, word);
  }
  if (other_token >= 0) {
    p->other = span_at(b, other_token, &other);
  } else {
    other = word < 0 ? -1 : first_place(&a->words, word, &b->words);
    int last = b->side->real - 1, same = p->word.from < last ? p->word.from : last;
    p->other = other < 0 ? span_at(b, same, &other) : span_of_word(b, other);
  }
  p->same = word >= 0 && other >= 0 && same_word(&a->words, word, &b->words, other);
}

typedef struct { /* rows of vectors */
  const float *at;
  ptrdiff_t ld;
} row_block;

static row_block rows_of(attend_view v) { return (row_block){v.data, v.stride[2]}; }

/* to [width] <- the mean of rows [s.from, s.from + s.n) */
static void mean_row(row_block x, attend_viewer_span s, int width, float *to) {
  for (int d = 0; d < width; d++) {
    double sum = 0;
    for (int i = 0; i < s.n; i++) sum += (double)x.at[(s.from + i) * x.ld + d];
    to[d] = (float)(sum / s.n);
  }
}

static double mean_cosine(row_block x, attend_viewer_span a, row_block y, attend_viewer_span b,
                          int width, float *room /* [2, width] */) {
  mean_row(x, a, width, room);
  mean_row(y, b, width, room + width);
  return view_cosine(room, room + width, width);
}

static void fill_hidden(const reader *a, const reader *b, attend_role side,
                        attend_viewer_word_pair *p, float *room) {
  for (int l = 0; l <= p->layers; l++) {
    attend_hooked x = {0}, y = {0};
    bool both = attend_trace_get(a->run->trace, ATTEND_AT_RESIDUAL, side, l, &x) &&
                attend_trace_get(b->run->trace, ATTEND_AT_RESIDUAL, side, l, &y);
    row_block of = {x.view.data, x.view.stride[2]}, with = {y.view.data, y.view.stride[2]};
    p->hidden[l] = both ? mean_cosine(of, p->word, with, p->other, x.shape[3], room) : NAN;
  }
}

static attend_status fill_heads(const reader *a, const reader *b, attend_role side,
                                attend_viewer_word_pair *p, float *room) {
  const attend_lens_shape *s = &a->run->is.shape[side];
  for (int i = 0; i < p->layers * p->heads; i++) {
    attend_head_id at = {side, i / p->heads, i % p->heads};
    attend_view x[4], y[4];
    ATTEND_TRY(attend_lens_vectors(a->run->lens, at, &x[0], &x[1], &x[2], &x[3]));
    ATTEND_TRY(attend_lens_vectors(b->run->lens, at, &y[0], &y[1], &y[2], &y[3]));
    p->q[i] = mean_cosine(rows_of(x[0]), p->word, rows_of(y[0]), p->other, s->dim, room);
    p->k[i] = mean_cosine(rows_of(x[1]), p->word, rows_of(y[1]), p->other, s->dim, room);
    p->v[i] = mean_cosine(rows_of(x[2]), p->word, rows_of(y[2]), p->other, s->dim_v, room);
  }
  return ATTEND_OK;
}

static attend_status fill_pair(attend_context *ctx, const reader *a, const reader *b,
                               attend_role side, attend_viewer_word_pair *p) {
  const attend_lens_shape *s = &a->run->is.shape[side];
  const attend_stack *stack = attend_config_stack(
      a->run->of->config, side == ATTEND_DECODER_SELF ? ATTEND_DECODER : ATTEND_ENCODER);
  int width = stack->width;
  width = s->dim > width ? s->dim : width;
  width = s->dim_v > width ? s->dim_v : width;
  size_t n = (size_t)(s->layers * s->heads), states = (size_t)s->layers + 1;
  float *room = NULL;
  p->layers = s->layers, p->heads = s->heads;
  ATTEND_TRY(ctx_alloc(ctx, (states + 3 * n) * sizeof(double), "cosines of a word", &p->memory));
  p->hidden = p->memory, p->q = p->hidden + states, p->k = p->q + n, p->v = p->k + n;
  attend_status status = ctx_alloc(ctx, 2 * (size_t)width * sizeof *room, "vectors", &room);
  if (!status) fill_hidden(a, b, side, p, room);
  if (!status) status = fill_heads(a, b, side, p, room);
  ctx_free(ctx, room);
  if (status) ctx_free(ctx, p->memory), p->memory = NULL;
  return status;
}

attend_status attend_viewer_get_word_pair(attend_viewer *v, const attend_viewer_run *run,
                                          const attend_viewer_run *other, attend_role side,
                                          int token, int other_token, attend_viewer_word_pair *p) {
  reader a = {0}, b = {0};
  *p = (attend_viewer_word_pair){0};
  ATTEND_CHECK(v->ctx, run && other, "two runs are compared: there is no other one");
  attend_role beside = attend_viewer_role_beside(other, side);
  attend_status status = open_reader(v->ctx, run, side, &a);
  if (!status) status = open_reader(v->ctx, other, beside, &b);
  if (!status && (token >= a.side->n || other_token >= b.side->n))
    status =
        fail(v->ctx, ATTEND_INVALID, "token %d of the text, %d of the other: they have %d and %d",
             token, other_token, a.side->n, b.side->n);
  if (!status) {
    choose_words(&a, &b, token, other_token, p);
    p->why = word_pair_refused(run, other);
  }
  if (!status && !p->why) status = fill_pair(v->ctx, &a, &b, side, p);
  words_free(v->ctx, &a.words);
  words_free(v->ctx, &b.words);
  return status;
}

attend_status attend_viewer_find_word(attend_viewer *v, const attend_viewer_run *run,
                                      attend_role side, const char *word, int nth,
                                      attend_viewer_span *span) {
  reader r;
  *span = (attend_viewer_span){0};
  ATTEND_TRY(open_reader(v->ctx, run, side, &r));
  size_t n = strlen(word);
  for (int i = 0; i < r.words.n && !span->n; i++)
    if ((size_t)word_length(&r.words, i) == n &&
        !strncasecmp(r.words.text + r.words.start[i], word, n) && !nth--)
      *span = span_of_word(&r, i);
  words_free(v->ctx, &r.words);
  return ATTEND_OK;
}

/* ---- all heads, counted --------------------------------------------------------------------------- */

attend_role attend_viewer_role_beside(const attend_viewer_run *other, attend_role role) {
  if (other->has_role[role]) return role;
  if (other->has_role[ATTEND_DECODER_SELF]) return ATTEND_DECODER_SELF;
  return other->has_role[ATTEND_ENCODER_SELF] ? ATTEND_ENCODER_SELF : ATTEND_CROSS;
}

static void choose_best(const attend_viewer_patterns *p, attend_viewer_summary *s) {
  for (int i = 0; i < ATTEND_HEAD_PATTERNS; i++) {
    int *best = s->best[i], heads = p->layers * p->heads;
    int n = attend_pattern_best(p->scores, heads, (attend_head_pattern)i, ATTEND_VIEWER_BEST, best);
    for (int k = 0; k < ATTEND_VIEWER_BEST; k++) {
      if (k >= n) best[k] = -1;
      s->best_score[i][k] = k < n ? p->scores[best[k]].score[i] : NAN;
    }
  }
}

attend_status attend_viewer_get_summary(attend_viewer *v, const attend_viewer_head *head,
                                        attend_viewer_summary *s) {
  view_run *run = NULL;
  attend_lens *lens = NULL;
  attend_viewer_patterns p;
  *s = (attend_viewer_summary){0};
  ATTEND_TRY(head_lens(v, head, false, &run, &lens));
  ATTEND_TRY(attend_viewer_get_patterns(v, head, &p));
  const attend_lens_shape *shape = &run->is.shape[head->at.role];
  attend_status status =
      ctx_alloc(v->ctx, (size_t)(p.layers + 1) * sizeof *s->layer, "head patterns", &s->memory);
  if (!status) {
    s->layers = p.layers, s->heads = p.heads;
    s->rows = shape->rows, s->keys = shape->keys;
    s->causal = shape->causal;
    s->visible = attend_lens_visible(lens, head->at.role);
    s->rows_sampled = p.rows_sampled;
    s->layer = s->memory;
    for (int l = 0; l < p.layers; l++)
      attend_pattern_summarize(p.scores + l * p.heads, p.heads, &s->layer[l]);
    attend_pattern_summarize(p.scores, p.layers * p.heads, &s->layer[p.layers]);
    choose_best(&p, s);
  }
  attend_viewer_release(v, p.memory);
  return status;
}
