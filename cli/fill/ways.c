/* The two ways to fill a mask: a head that sees it, or writing it anew.
 *
 * Fill; encoders go one way, models with both parts the other.
 */
#include "fill/ways.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "attend/generate.h"
#include "embed/lines.h"

const column fill_columns[] = {
    {"line", NULL, CELL_COUNT},   {"mask", NULL, CELL_COUNT},
    {"rank", "rank", CELL_COUNT}, {"token", "token", CELL_TEXT},
    {"id", NULL, CELL_COUNT},     {"probability", "probability", CELL_RATIO},
    {"text", "text", CELL_TEXT},  {NULL, NULL, CELL_TEXT}};

typedef struct {
  int mask, rank;
  int32_t id; /* -1: several tokens */
  const char *token;
  double probability;
  const char *text;
} answer;

static void add_answer(const filling *f, table *rows, answer a) {
  table_add(rows, (cell[]){cell_number((double)f->line),
                           cell_number(a.mask + 1), cell_number(a.rank + 1),
                           a.token ? cell_text(a.token) : cell_text("-"),
                           a.id < 0 ? cell_none() : cell_number(a.id),
                           cell_number(a.probability), cell_text(a.text)});
}

static int encode(filling *f) {
  const attend_config *c = attend_model_config(f->m->model);
  bool fixed = c->position == ATTEND_POSITIONS_LEARNED;
  attend_encode_options how = {.pair = f->pair.text,
                               .pair_length = f->pair.length,
                               .max_length = fixed ? (size_t)c->positions : 0};
  attend_status status =
      attend_encode(f->encoding, f->text.text, f->text.length, &how);
  if (status) return complain_status(f->m->ctx, status);
  if (!f->encoding->dropped) return EXIT_OK;
  complain(
      "the text is longer than the %d tokens that the model reads: "
      "shorten it",
      c->positions);
  return EXIT_FAILED;
}

/* ---- by the head ---------------------------------------------------------------------------- */

typedef struct {
  int32_t id;
  float logit;
} choice;

/* The k best, best first. */
static void choose(const float *logits, int n, choice *best, int k) {
  int count = 0;
  for (int32_t i = 0; i < n; i++) {
    int at = count;
    while (at > 0 && best[at - 1].logit < logits[i]) at--;
    if (at == k) continue;
    if (count < k) count++;
    memmove(best + at + 1, best + at, (size_t)(count - 1 - at) * sizeof *best);
    best[at] = (choice){i, logits[i]};
  }
}

static double sum_of(const float *logits, int n, float largest) {
  double sum = 0;
  for (int i = 0; i < n; i++) sum += exp((double)logits[i] - (double)largest);
  return sum;
}

/* What a token says in the place of a mask, and the place: a piece that goes on
 * with the word before takes the space away. The caller frees it. */
static char *word_of(filling *f, int32_t id, const masked_text *in,
                     size_t *start) {
  const char *piece = attend_tokenizer_piece(f->m->tokenizer, id, NULL), *text;
  bool wordpiece = !strcmp(attend_tokenizer_kind(f->m->tokenizer), "WordPiece");
  size_t length;
  if (!piece) return need_copy("");
  if (wordpiece && !strncmp(piece, "##", 2)) {
    if (*start && in->text[*start - 1] == ' ') (*start)--;
    return need_copy(piece + 2);
  }
  if (attend_decode(f->decoder, &id, 1, &text, &length))
    return need_copy(piece);
  if (*start == 0) text += strspn(text, " ");
  return need_copy(text);
}

static void add_choices(filling *f, table *rows, int mask, size_t token,
                        const float *logits) {
  const attend_encoding *e = f->encoding;
  const masked_text *in = e->part[token] == 1 ? &f->pair : &f->text;
  int n = attend_model_config(f->m->model)->vocab;
  int k = f->top < n ? f->top : n;
  choice *best = need((size_t)k + 1, sizeof *best);
  choose(logits, n, best, k);
  double sum = sum_of(logits, n, best[0].logit);
  for (int r = 0; r < k; r++) {
    size_t start = e->start[token];
    char *word = word_of(f, best[r].id, in, &start);
    char *text = text_filled(in, start, e->end[token], word);
    const char *piece =
        attend_tokenizer_piece(f->m->tokenizer, best[r].id, NULL);
    const char *shown = word + strspn(word, " ");
    bool joins = piece && !strncmp(piece, "##", 2);
    add_answer(
        f, rows,
        (answer){mask, r, best[r].id, joins ? piece : shown,
                 exp((double)best[r].logit - (double)best[0].logit) / sum,
                 text});
    free(word);
    free(text);
  }
  free(best);
}

static bool are_numbers(const float *x, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (isnan(x[i])) return false;
  return true;
}

static int count_masks(const filling *f, int32_t *places) {
  const attend_encoding *e = f->encoding;
  int32_t mask = attend_tokenizer_special(f->m->tokenizer, ATTEND_SPECIAL_MASK);
  int count = 0;
  for (size_t i = 0; i < e->count; i++)
    if (e->id[i] == mask && e->part[i] >= 0 && count < 2 * MOST_MASKS)
      places[count++] = (int32_t)i;
  return count;
}

int fill_by_head(filling *f, table *rows) {
  int32_t places[2 * MOST_MASKS];
  size_t vocab = (size_t)attend_model_config(f->m->model)->vocab;
  int code = encode(f);
  if (code) return code;
  const attend_encoding *e = f->encoding;
  int count = count_masks(f, places);
  float *logits = need((size_t)count * vocab, sizeof *logits);
  attend_status status =
      attend_session_encode(f->run, 1, (int)e->count, e->id, NULL, e->type);
  if (!status) status = attend_session_logits(f->run, count, places, logits);
  if (!status && count && !are_numbers(logits, (size_t)count * vocab)) {
    complain("the model gave logits that are no numbers: nothing fills a mask");
    code = EXIT_FAILED;
  }
  for (int i = 0; i < count && !status && !code; i++)
    add_choices(f, rows, i, (size_t)places[i], logits + (size_t)i * vocab);
  free(logits);
  return status ? complain_status(f->m->ctx, status) : code;
}

/* ---- by writing ------------------------------------------------------------------------------ */

static char *say(filling *f, const int32_t *ids, int count) {
  const char *text;
  size_t length;
  if (attend_decode(f->decoder, ids, (size_t)count, &text, &length))
    return need_copy("");
  return text_on_a_line(text + strspn(text, " "), length - strspn(text, " "));
}

static int32_t sentinel(const filling *f, int number) {
  char name[LONGEST_MASK];
  snprintf(name, sizeof name, "<extra_id_%d>", number);
  return attend_tokenizer_find(f->m->tokenizer, name, strlen(name));
}

/* T5 writes <extra_id_0> what fills it <extra_id_1> ..: what stands between. */
static char *between(filling *f, const attend_continuation *c, int mask) {
  int from = 0, to;
  while (from < c->count && c->ids[from] != sentinel(f, mask)) from++;
  from = from < c->count ? from + 1 : from;
  for (to = from; to < c->count && c->ids[to] != sentinel(f, mask + 1); to++)
    if (to + 1 == c->count && c->end == ATTEND_FINISH_TOKEN) break;
  return say(f, c->ids + from, to - from);
}

/* BART writes the whole text again: what it has between what was there before
 * and after. NULL if it changed more. */
static char *middle(const filling *f, const char *written) {
  const masked_text *m = &f->text;
  size_t n = strlen(written), before = m->start[0],
         after = m->length - m->end[0];
  if (m->masks != 1 || n < before + after || memcmp(written, m->text, before) ||
      memcmp(written + n - after, m->text + m->end[0], after))
    return NULL;
  const char *from = written + before;
  size_t space = strspn(from, " "), left = n - before - after;
  return space > left ? NULL : text_copy(from + space, left - space);
}

static void add_written(filling *f, table *rows, int rank, int mask,
                        const attend_continuation *c) {
  double probability = exp(c->log_probability);
  if (f->sentinels) {
    char *word = between(f, c, mask);
    char *text =
        text_filled(&f->text, f->text.start[mask], f->text.end[mask], word);
    add_answer(f, rows, (answer){mask, rank, -1, word, probability, text});
    free(word);
    free(text);
  } else {
    char *text = say(f, c->ids, c->count), *word = middle(f, text);
    add_answer(f, rows, (answer){mask, rank, -1, word, probability, text});
    free(word);
    free(text);
  }
}

static void add_all_written(filling *f, table *rows,
                            const attend_generation *g) {
  const attend_continuation *c;
  /* numbered masks have an answer each; a text that is written anew, one */
  int tables = f->sentinels ? f->text.masks : 1;
  for (int mask = 0; mask < tables; mask++)
    for (int r = 0; r < f->top && (c = attend_generation_get(g, r)); r++)
      add_written(f, rows, r, mask, c);
}

int fill_by_writing(filling *f, table *rows) {
  attend_generate_options o = attend_generate_defaults();
  attend_generation *g;
  int code = encode(f);
  if (code) return code;
  attend_prompt prompt = {f->encoding->id, (int)f->encoding->count};
  o.beams = o.samples = f->top;
  o.max_new = f->sentinels ? 16 * f->text.masks + 8 : 2 * prompt.count + 16;
  attend_status status = attend_generate(f->m->model, 1, &prompt, &o, &g);
  if (status)
    code = complain_status(f->m->ctx, status);
  else
    add_all_written(f, rows, g);
  attend_generation_free(g);
  return code;
}
