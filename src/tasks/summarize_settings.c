/* What determines a summary besides its text: settings of the model's directory, bounds
 * in words, and digests of all of it for the journal.
 */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>

#include "model/transformer.h"
#include "tasks/summarize.h"

/* ---- the model's directory ------------------------------------------------------- */

enum { MOST = 1 << 20 };

/* A file, or an object in it, that settings are read from. */
typedef struct {
  attend_context *ctx;
  const char *what;
  const attend_json *json;
  attend_status status; /* the first failure */
} settings;

static void read_count(settings *from, const char *name, int low, int less, int *to) {
  int64_t n = *to + less;
  if (from->status) return;
  from->status = attend_json_read_integer(from->ctx, from->what, from->json, name, low, MOST, &n);
  *to = (int)n - less;
}

static void read_penalty(settings *from, float *to) {
  double x = (double)*to;
  if (from->status) return;
  from->status =
      attend_json_read_number(from->ctx, from->what, from->json, "length_penalty", -1e6, 1e6, &x);
  *to = x == 0 ? ATTEND_ZERO : (float)x;
}

/* true, false, or "never", which searches on after `beams` have ended: false. */
static void read_early(settings *from, bool *to) {
  static const char name[] = "early_stopping";
  const char *never = attend_json_string(attend_json_get(from->json, name), NULL);
  if (from->status) return;
  if (never && !strcmp(never, "never"))
    *to = false;
  else
    from->status = attend_json_read_boolean(from->ctx, from->what, from->json, name, to);
}

/* max_length and min_length count the decoder's start token. */
static attend_status read_settings(attend_summarizer *s, const char *what, const attend_json *json,
                                   unsigned given) {
  attend_generate_options *how = &s->how;
  settings from = {s->ctx, what, json, ATTEND_OK};
  if (!(given & ATTEND_SUMMARY_BEAMS)) read_count(&from, "num_beams", 1, 0, &how->beams);
  if (!(given & ATTEND_SUMMARY_NO_REPEAT))
    read_count(&from, "no_repeat_ngram_size", 0, 0, &how->no_repeat);
  if (!(given & ATTEND_SUMMARY_MAX_NEW)) read_count(&from, "max_length", 2, 1, &how->max_new);
  if (!(given & ATTEND_SUMMARY_MIN_NEW)) read_count(&from, "min_length", 0, 1, &how->min_new);
  if (how->min_new < 0) how->min_new = 0;
  if (!(given & ATTEND_SUMMARY_LENGTH_PENALTY)) read_penalty(&from, &how->length_penalty);
  if (!(given & ATTEND_SUMMARY_EARLY_STOP)) read_early(&from, &how->early_stop);
  return from.status;
}

/* task_specific_params.summarization, or NULL. */
static attend_status find_task(attend_context *ctx, const attend_json *config,
                               const attend_json **task) {
  attend_status status = attend_json_read_tree(ctx, "config.json", config, "task_specific_params",
                                               ATTEND_JSON_OBJECT, task);
  if (status || !*task) return status;
  return attend_json_read_tree(ctx, "config.json: task_specific_params", *task, "summarization",
                               ATTEND_JSON_OBJECT, task);
}

static attend_status read_all(attend_summarizer *s, const attend_json *generation,
                              const attend_json *config, unsigned given) {
  static const char what[] = "config.json: summarization";
  const attend_json *task = NULL;
  const char *prefix = "";
  attend_status status = find_task(s->ctx, config, &task);
  if (!status) status = attend_json_read_string(s->ctx, what, task, "prefix", &prefix);
  if (!status) status = read_settings(s, "generation_config.json", generation, given);
  if (!status) status = read_settings(s, "config.json", config, given);
  if (!status) status = read_settings(s, what, task, given);
  if (status) return status;
  return text_copy(s->ctx, prefix, strlen(prefix), &s->prefix);
}

attend_status settings_read(attend_summarizer *s, unsigned given) {
  attend_json *generation = NULL, *config = NULL;
  attend_status status = json_beside(s->ctx, s->directory, "generation_config.json", &generation);
  if (!status) status = json_beside(s->ctx, s->directory, "config.json", &config);
  if (!status) status = read_all(s, generation, config, given);
  attend_json_free(config);
  attend_json_free(generation);
  return status;
}

/* ---- bounds in words --------------------------------------------------------------- */

/* Models count tokens. How many words each token adds is found once, by detokenizing
 * it behind a letter. When the last word is complete and the most probable token would
 * begin another, only an end token is left: a text is not cut inside a word, and beams
 * that end by themselves score higher. */
typedef struct {
  bool silent;       /* no text: a special token */
  bool continues;    /* begins without a space: part of the word before it */
  bool ends_space;   /* ends in a space */
  uint8_t beginning; /* words that begin inside, after a space */
} piece;

struct word_bounds {
  piece *pieces; /* [n] */
  int n;
  int min_words, max_words;
  bool *ends; /* [n] tokens that end a text */
};

static piece classify(const char *text, size_t length) {
  piece p = {.silent = !length};
  if (!length) return p;
  p.continues = !is_space(text[0]);
  p.ends_space = is_space(text[length - 1]);
  for (size_t i = 1; i < length; i++)
    p.beginning += is_space(text[i - 1]) && !is_space(text[i]) && p.beginning < 255;
  return p;
}

/* Bytes of an incomplete character give no text yet and belong to a word. */
static attend_status classify_all(word_bounds *b, const attend_tokenizer *t, attend_detokenizer *d,
                                  int32_t letter) {
  const char *text;
  size_t length;
  attend_status status = ATTEND_OK;
  for (int32_t id = 0; id < b->n && !status; id++) {
    bool known = id < attend_tokenizer_count(t) && attend_tokenizer_piece(t, id, NULL) &&
                 !attend_tokenizer_is_special(t, id);
    b->pieces[id].silent = true;
    if (!known) continue;
    status = attend_detokenizer_push(d, letter, &text, &length);
    if (!status) status = attend_detokenizer_push(d, id, &text, &length);
    if (status) break;
    b->pieces[id] = classify(text, length);
    if (!length) b->pieces[id] = (piece){.continues = true};
    status = attend_detokenizer_finish(d, &text, &length);
  }
  return status;
}

/* A token whose text ends in a letter. */
static attend_status find_letter(const attend_tokenizer *t, int32_t *letter) {
  attend_encoding *e;
  attend_encode_options o = {ATTEND_INIT(attend_encode_options), .no_special = true};
  attend_status status = attend_encoding_create(t, &e);
  if (!status) status = attend_encode(e, "a", 1, &o);
  *letter = !status && e->count ? e->id[e->count - 1] : 0;
  attend_encoding_free(e);
  return status;
}

static attend_status fill(word_bounds *b, const attend_tokenizer *tokenizer, const attend_config *c,
                          attend_context *ctx) {
  attend_detokenizer *d = NULL;
  int32_t letter;
  size_t n = (size_t)b->n;
  ATTEND_TRY(ctx_alloc_zeroed(ctx, n * sizeof *b->pieces, "words", &b->pieces));
  ATTEND_TRY(ctx_alloc_zeroed(ctx, n * sizeof *b->ends, "words", &b->ends));
  for (int i = 0; i < c->n_eos; i++) b->ends[c->eos[i]] = true;
  ATTEND_TRY(find_letter(tokenizer, &letter));
  ATTEND_TRY(attend_detokenizer_create(tokenizer, true, &d));
  attend_status status = classify_all(b, tokenizer, d, letter);
  attend_detokenizer_free(d);
  return status;
}

attend_status word_bounds_create(const attend_model *model, const attend_tokenizer *tokenizer,
                                 int min_words, int max_words, word_bounds **bounds) {
  attend_context *ctx = attend_model_context(model);
  const attend_config *c = attend_model_config(model);
  word_bounds *b;
  ATTEND_TRY(ctx_alloc_zeroed(ctx, sizeof *b, "words", &b));
  *b = (word_bounds){.n = c->vocab, .min_words = min_words, .max_words = max_words};
  *bounds = b;
  return fill(b, tokenizer, c, ctx);
}

void word_bounds_free(const attend_context *ctx, word_bounds *b) {
  if (!b) return;
  ctx_free(ctx, b->pieces);
  ctx_free(ctx, b->ends);
  ctx_free(ctx, b);
}

/* Words that a token adds behind a text that ends in a space or is empty
 * (`apart`), or does not. */
static int words_of(const piece *p, bool apart) {
  return p->silent ? 0 : p->beginning + (apart && p->continues);
}

static int32_t best_of(const attend_choice *c) {
  int32_t best = 0;
  for (int32_t id = 1; id < c->n; id++)
    if (c->logits[id] > c->logits[best]) best = id;
  return best;
}

void word_bounds_apply(const word_bounds *b, const attend_choice *c) {
  int words = 0;
  bool apart = true;
  for (int i = 0; i < c->count; i++) {
    const piece *p = &b->pieces[c->ids[i]];
    words += words_of(p, apart);
    if (!p->silent) apart = p->ends_space;
  }
  for (int32_t id = 0; id < c->n && words < b->min_words; id++)
    if (b->ends[id]) c->logits[id] = -INFINITY;
  if (!b->max_words || words < b->max_words) return;
  bool complete = words_of(&b->pieces[best_of(c)], apart);
  for (int32_t id = 0; id < c->n; id++)
    if (!b->ends[id] && (complete || words_of(&b->pieces[id], apart))) c->logits[id] = -INFINITY;
}

/* ---- digests ----------------------------------------------------------------------- */

static void add_text(attend_digest *sum, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void add_text(attend_digest *sum, const char *format, ...) {
  char text[512];
  va_list args;
  va_start(args, format);
  int n = vsnprintf(text, sizeof text, format, args);
  va_end(args);
  attend_digest_add(sum, text, n < 0 ? 0 : (size_t)n < sizeof text ? (size_t)n : sizeof text - 1);
}

/* How tokens are chosen; parts are searched, never sampled. */
static void digest_options(const attend_summarizer *s, char text[ATTEND_DIGEST_TEXT]) {
  const attend_generate_options *o = &s->how;
  attend_digest sum = {0};
  add_text(&sum, "%d %d %d %d %a %d %a %d %d %d %d ", o->max_new, o->min_new, o->beams,
           o->early_stop, (double)o->length_penalty, o->no_repeat, (double)o->repetition,
           o->ignore_end, s->context, s->min_words, s->max_words);
  add_text(&sum, "%d %d ", o->context, (int)o->window);
  attend_digest_add(&sum, s->prefix, strlen(s->prefix));
  attend_digest_text(&sum, text);
}

static void digest_forms(const attend_model *model, attend_digest *sum) {
  for (int role = 0; role < ATTEND_ROLES; role++) {
    const attend_form *f = attend_model_role_form(model, (attend_role)role);
    add_text(sum, "%d %d %d %d %a %a %a %llu %llu %d %d %d %a ", (int)f->kind, f->degree,
             f->features, f->pairs, (double)f->a, (double)f->c, (double)f->sigma,
             (unsigned long long)f->seed, (unsigned long long)f->redraw, (int)f->draw, (int)f->map,
             (int)f->ties, (double)f->temperature);
  }
}

static attend_status digest_files(const attend_summarizer *s, const char *const *name,
                                  attend_digest *sum) {
  for (; *name; name++) {
    char path[LONGEST_PATH];
    struct stat file;
    ATTEND_TRY(path_inside(s->ctx, s->directory, *name, path));
    bool there = !stat(path, &file) && S_ISREG(file.st_mode);
    add_text(sum, "%s %lld ", *name, there ? (long long)file.st_size : -1LL);
    if (there) ATTEND_TRY(attend_digest_file(s->ctx, path, sum));
  }
  return ATTEND_OK;
}

/* Weights, settings and tokenizer; the formats of weights and activations and the instruction set,
 * which change bits; the forms of attention. */
static attend_status digest_model(const attend_summarizer *s, char text[ATTEND_DIGEST_TEXT]) {
  const attend_model *m = s->model;
  attend_digest sum = {0};
  add_text(&sum, "%016llx %d %s ", (unsigned long long)attend_checkpoint_digest(m->files),
           (int)m->weights + 16 * (int)m->activations, attend_context_isa(s->ctx));
  digest_forms(m, &sum);
  ATTEND_TRY(digest_files(s, settings_files, &sum));
  ATTEND_TRY(digest_files(s, tokenizer_files, &sum));
  attend_digest_text(&sum, text);
  return ATTEND_OK;
}

attend_status journal_identify(const attend_summarizer *s, journal_identity *identity) {
  digest_options(s, identity->options);
  return digest_model(s, identity->model);
}
