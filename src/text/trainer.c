/* Learning a tokenizer: the public doors.
 *
 * trainer.h says how the parts work together.
 */
#include "text/trainer.h"

/* ---- options --------------------------------------------------------------------- */

enum { MOST_VOCAB = 1 << 22 }; /* as many as a loader takes */

static attend_status complete(attend_text_trainer *r) {
  attend_text_train_options *o = &r->o;
  int32_t most = r->like->wordpiece ? LONGEST_CHARS : LONGEST_BYTES;
  if (!o->vocab) o->vocab = 8192;
  if (!o->least) o->least = 2;
  if (!o->longest) o->longest = most;
  if (!o->alphabet) o->alphabet = 1000;
  ATTEND_CHECK(r->ctx, o->vocab > 0 && o->vocab <= MOST_VOCAB,
               "a vocabulary of %d was asked for: it takes 1 to %d pieces",
               (int)o->vocab, MOST_VOCAB);
  ATTEND_CHECK(r->ctx, o->longest > 0 && o->longest <= most,
               "pieces of %d letters were asked for: they have 1 to %d",
               (int)o->longest, (int)most);
  ATTEND_CHECK(r->ctx, o->alphabet > 0,
               "an alphabet of %d characters was asked for: it takes 1 or more",
               (int)o->alphabet);
  if (o->least > INT64_MAX) o->least = INT64_MAX;
  return ATTEND_OK;
}

static attend_status check_room(attend_text_trainer *r) {
  if ((size_t)r->o.vocab >= r->pieces) return ATTEND_OK;
  return fail(r->ctx, ATTEND_INVALID,
              "a vocabulary of %d has no room for %d special tokens and %d "
              "letters: it takes %zu at least%s",
              (int)r->o.vocab, (int)r->specials, (int)r->letters, r->pieces,
              r->like->wordpiece ? ", or a smaller alphabet" : "");
}

/* ---- creating -------------------------------------------------------------------- */

static attend_status load_pieces(attend_text_trainer *r,
                                 attend_tokenizer **tokenizer) {
  attend_json_writer w = attend_json_writer_text(r->ctx);
  attend_status status = write_tokenizer_json(r, &w);
  if (!status)
    status = tokenizer_parse(r->ctx, "the learnt tokenizer.json", w.text,
                             w.length, tokenizer);
  attend_json_writer_free(&w);
  return status;
}

/* As tokenizer_config.json will tell those who load the files. */
static void name_roles(const attend_text_trainer *r, attend_tokenizer *t) {
  for (int i = 0; i < ATTEND_SPECIALS; i++) {
    const char *role = r->like->role[i];
    if (role) t->special[i] = special_named(r, role, strlen(role));
  }
}

static attend_status prepare(attend_text_trainer *r) {
  r->like = like_of(r->o.like);
  ATTEND_CHECK(r->ctx, r->like, "there is no kind of tokenizer %d",
               (int)r->o.like);
  ATTEND_TRY(complete(r));
  ATTEND_TRY(specials_find(r));
  if (!r->like->wordpiece) ATTEND_TRY(bytes_put(r));
  ATTEND_TRY(check_room(r));
  ATTEND_TRY(load_pieces(r, &r->cutter));
  return workers_start(r);
}

attend_status attend_text_trainer_create(
    attend_context *ctx, const attend_text_train_options *options,
    attend_text_trainer **trainer) {
  attend_text_trainer *r;
  *trainer = NULL;
  ATTEND_TRY(take_zeroed(ctx, sizeof *r, "a trainer", &r));
  r->ctx = ctx;
  pthread_mutex_init(&r->memory, NULL);
  if (options) r->o = *options;
  attend_status status = prepare(r);
  r->o.specials = NULL; /* the caller's, and only for this call */
  if (status)
    attend_text_trainer_free(r);
  else
    *trainer = r;
  return status;
}

void attend_text_trainer_free(attend_text_trainer *r) {
  if (!r) return;
  workers_free(r);
  attend_tokenizer_free(r->cutter);
  attend_tokenizer_free(r->tokenizer);
  rows_free(r->ctx, &r->rows);
  pool_free(r->ctx, &r->pool);
  give(r->ctx, r->held);
  give(r->ctx, r->part);
  give(r->ctx, r->piece);
  give(r->ctx, r->merge);
  pthread_mutex_destroy(&r->memory);
  give(r->ctx, r);
}

/* ---- learning -------------------------------------------------------------------- */

/* WordPiece takes the longest piece that fits, not the merges in their order:
 * what it makes of a word must be tried. */
static attend_status encode_words(attend_text_trainer *r,
                                  const attend_tokenizer *t, scratch *s) {
  const tally *words = &r->worker[0].words;
  for (size_t i = 0; i < words->count; i++) {
    const tally_word *w = &words->word[i];
    ATTEND_TRY(model_encode(t, s, w->text.bytes, w->text.length));
    r->report.tokens += w->times * s->word.count;
    if (s->word.count == 1 && s->word.token[0].id == t->model.unk)
      r->report.unknown += w->times;
  }
  return ATTEND_OK;
}

static attend_status count_tokens(attend_text_trainer *r,
                                  const attend_tokenizer *t) {
  scratch s;
  r->report.tokens = r->worker[0].tokens;
  if (!r->like->wordpiece) {
    r->report.tokens += r->row_pieces;
    return ATTEND_OK;
  }
  attend_status status = scratch_start(r->ctx, &s);
  if (!status) status = encode_words(r, t, &s);
  scratch_free(&s);
  return status;
}

static void fill_report(attend_text_trainer *r) {
  const tally *words = &r->worker[0].words;
  for (size_t i = 0; i < words->count; i++)
    r->report.words += words->word[i].times;
  r->report.distinct = words->count;
  r->report.vocab = (int32_t)r->pieces;
  r->report.specials = r->specials;
  r->report.letters = r->letters;
  r->report.merges = (int32_t)r->merges;
}

attend_status attend_text_trainer_learn(attend_text_trainer *r) {
  attend_tokenizer *t;
  ATTEND_CHECK(r->ctx, !r->begun, "a trainer learns once: make another");
  r->begun = true;
  ATTEND_TRY(words_gather(r));
  ATTEND_CHECK(r->ctx, r->worker[0].words.count,
               "there is no text to learn from: feed some with words in it");
  ATTEND_TRY(alphabet_find(r, &r->worker[0].words));
  ATTEND_TRY(check_room(r));
  ATTEND_TRY(merges_learn(r));
  ATTEND_TRY(load_pieces(r, &t));
  attend_status status = count_tokens(r, t);
  if (status) {
    attend_tokenizer_free(t);
    return status;
  }
  r->tokenizer = t;
  name_roles(r, t);
  fill_report(r);
  workers_free(r);
  return ATTEND_OK;
}

/* ---- questions ------------------------------------------------------------------- */

const attend_text_trained *attend_text_trainer_report(
    const attend_text_trainer *r) {
  return r->tokenizer ? &r->report : NULL;
}

const attend_tokenizer *attend_text_trainer_tokenizer(
    const attend_text_trainer *r) {
  return r->tokenizer;
}

bool attend_text_trainer_merge(const attend_text_trainer *r, size_t i,
                               attend_text_merge *said) {
  if (!r->tokenizer || i >= r->merges) return false;
  const learnt_merge *m = &r->merge[i];
  *said = (attend_text_merge){r->piece[m->left].name.bytes,
                              r->piece[m->right].name.bytes, m->count};
  return true;
}
