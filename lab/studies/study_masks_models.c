/* Which module of an encoder, a decoder and an encoder-decoder has which mask:
 * small untrained models are asked, and hooks read what they do with padded texts.
 *
 * The second half of study_masks.c: document 004 2(b).
 *
 * Every model reads the same batch twice: two texts, of which the second is
 * padded on the right, once with its length told and once without. What a real
 * token's weights have on padding tells whether a key mask is there, and
 * whether it is needed.
 */
#include "studies/study_masks.h"

enum { VOCAB = 40, IDS = 31, BATCH = 2, PADDED = 1, PAD = 0 };

/* The largest weights of real rows of the padded text, by role. */
typedef struct {
  int real, written; /* keys of encoder and cross; rows of the decoder */
  double padding[ATTEND_ROLES], later[ATTEND_ROLES];
} witness;

static double weight_at(const attend_hooked *s, int h, int i, int j) {
  const ptrdiff_t *by = s->view.stride;
  return (double)((const float *)s->view.data)[PADDED * by[0] + h * by[1] +
                                               i * by[2] + j * by[3]];
}

static void see(const attend_hooked *s, void *user) {
  witness *w = user;
  const bool read = s->role == ATTEND_ENCODER_SELF;
  const int rows = read ? w->real : w->written,
            keys = s->role == ATTEND_DECODER_SELF ? w->written : w->real;
  for (int h = 0; h < s->shape[1]; h++)
    for (int i = 0; i < rows; i++)
      for (int j = 0; j < s->shape[3]; j++) {
        double a = weight_at(s, h, i, j), *most = &w->padding[s->role];
        if (j >= keys && a > *most) *most = a;
        most = &w->later[s->role];
        if (j > i && j < keys && a > *most) *most = a;
      }
}

/* What a model reads and writes: [count][n], [count][written]. Lengths that are
 * NULL are not told. */
typedef struct {
  int count, n, written;
  const int32_t *read, *wrote, *real, *written_real;
} batch;

typedef struct {
  int32_t read[BATCH * MASKS_LONGEST], wrote[BATCH * MASKS_LONGEST];
  int32_t real[BATCH], written_real[BATCH];
} texts;

static int32_t token(const study_run *r, uint64_t i) {
  float x;
  attend_random_uniform((attend_random){r->seed, IDS}, i, 1, &x);
  return 3 + (int32_t)(x * (VOCAB - 3));
}

/* The second of the two is padded to the length of the first. */
static batch draw(const study_run *r, texts *t) {
  const int n = study_count(r, "length"), written = study_count(r, "written");
  t->real[0] = n, t->real[PADDED] = study_count(r, "real");
  t->written_real[0] = written, t->written_real[PADDED] = (written + 1) / 2;
  for (int i = 0; i < BATCH * n; i++)
    t->read[i] = i % n < t->real[i / n] ? token(r, (uint64_t)i) : PAD;
  for (int i = 0; i < BATCH * written; i++)
    t->wrote[i] = i % written < t->written_real[i / written]
                      ? token(r, (uint64_t)(BATCH * MASKS_LONGEST + i))
                      : PAD;
  return (batch){BATCH,    n,       written,        t->read,
                 t->wrote, t->real, t->written_real};
}

/* The padded text without its padding. */
static batch alone(const batch *b) {
  return (batch){.count = 1,
                 .n = b->real[PADDED],
                 .written = b->written_real[PADDED],
                 .read = b->read + PADDED * b->n,
                 .wrote = b->wrote + PADDED * b->written};
}

static attend_status read_batch(attend_session *run, attend_parts parts,
                                const batch *b) {
  if (parts & ATTEND_ENCODER)
    TRY(attend_session_encode(run, b->count, b->n, b->read, b->real, NULL));
  if (!(parts & ATTEND_DECODER)) return ATTEND_OK;
  return attend_session_extend(run, b->count, b->written, b->wrote,
                               b->written_real);
}

static attend_status witness_model(attend_model *model, const batch *b,
                                   bool told, witness *w) {
  attend_session *run;
  attend_hook hook = {.points = ATTEND_AT_PATTERN, .read = see, .user = w};
  batch given = *b;
  *w = (witness){.real = b->real[PADDED], .written = b->written_real[PADDED]};
  if (!told) given.real = given.written_real = NULL;
  TRY(attend_session_create(model, &(attend_session_options){.batch = BATCH},
                            &run));
  attend_status status = attend_session_set_hooks(run, 1, &hook);
  if (!status)
    status = read_batch(run, attend_model_config(model)->parts, &given);
  attend_session_free(run);
  return status;
}

/* ---- the answers ------------------------------------------------------------------------ */

/* What document 004 2(b) says of a module. */
typedef struct {
  const char *family, *title;
  attend_role role;
  bool causal, key_mask;
} module;

static const module modules[] = {
    {"bert", "encoder", ATTEND_ENCODER_SELF, false, true},
    {"gpt2", "decoder", ATTEND_DECODER_SELF, true, false},
    {"t5", "encoder-decoder", ATTEND_ENCODER_SELF, false, true},
    {"t5", "encoder-decoder", ATTEND_DECODER_SELF, true, false},
    {"t5", "encoder-decoder", ATTEND_CROSS, false, true}};
enum { MODULES = sizeof modules / sizeof *modules };

static const char *const role_titles[ATTEND_ROLES] = {
    "encoder self-attention", "decoder self-attention", "cross-attention"};

static const attend_study_column module_columns[] = {
    {"model", "model", ATTEND_CELL_TEXT},
    {"module", "module", ATTEND_CELL_TEXT},
    {"causal", "causal mask", ATTEND_CELL_TEXT},
    {"later", "weight on later tokens", ATTEND_CELL_NUMBER},
    {"untold", "weight on padding, no key mask", ATTEND_CELL_NUMBER},
    {"told", "with it", ATTEND_CELL_NUMBER},
    {"needed", "key mask needed", ATTEND_CELL_TEXT},
    {0}};

static attend_status claim(study_run *r, const module *m, bool causal,
                           const witness *told, const witness *untold) {
  const char *role = attend_role_name(m->role);
  TRY(study_claim(
      r, study_format(r, "causal-%s-%s", m->family, role),
      study_format(r, "%s, %s: a causal mask", m->title, role_titles[m->role]),
      causal, m->causal, 0));
  TRY(study_claim(r, study_format(r, "needed-%s-%s", m->family, role),
                  study_format(r, "%s, %s: a key mask is needed", m->title,
                               role_titles[m->role]),
                  untold->padding[m->role] > 0, m->key_mask, 0));
  return study_claim(r, study_format(r, "padding-%s-%s", m->family, role),
                     study_format(r, "%s, %s: weight on padding with its masks",
                                  m->title, role_titles[m->role]),
                     told->padding[m->role], 0, 0);
}

static attend_status show_module(study_run *r, table_store *t, const module *m,
                                 const attend_model *model, const witness *told,
                                 const witness *untold) {
  attend_desc desc;
  if (!attend_model_attention(model, m->role, 0, &desc))
    return study_fail(r, ATTEND_INVALID, "%s has no %s", m->family,
                      role_titles[m->role]);
  const bool causal = desc.mask.causal != ATTEND_NOT_CAUSAL;
  TRY(study_word(t, "%s (%s)", m->title, m->family));
  TRY(study_word(t, "%s", role_titles[m->role]));
  TRY(study_word(t, "%s", causal ? "yes" : "no"));
  TRY(study_cell(t, m->role == ATTEND_CROSS ? NAN : told->later[m->role]));
  TRY(study_row(t, 2, untold->padding[m->role], told->padding[m->role]));
  TRY(study_word(t, "%s", untold->padding[m->role] > 0 ? "yes" : "no"));
  return claim(r, m, causal, told, untold);
}

/* What the last layer gives a model's real tokens of sequence `which`, [rows]
 * [width] of `out`. */
static attend_status last_rows(attend_model *model, const batch *b, int which,
                               int rows, int width, float *out) {
  const attend_parts parts = attend_model_config(model)->parts;
  const int n = parts & ATTEND_DECODER ? b->written : b->n;
  attend_session *run;
  int ld;
  TRY(attend_session_create(model, &(attend_session_options){.batch = b->count},
                            &run));
  attend_status status = read_batch(run, parts, b);
  const float *hidden = status ? NULL : attend_session_hidden(run, &ld);
  for (int i = 0; hidden && i < rows; i++)
    memcpy(out + i * width, hidden + (size_t)(which * n + i) * (size_t)ld,
           (size_t)width * sizeof *out);
  attend_session_free(run);
  return status;
}

/* A padded text beside a longer one, and the same text alone. */
static attend_status same_bits(study_run *r, const module *m,
                               attend_model *model, const batch *b) {
  const attend_config *c = attend_model_config(model);
  const bool writes = c->parts & ATTEND_DECODER;
  const int rows = writes ? b->written_real[PADDED] : b->real[PADDED],
            width = writes ? c->decoder.width : c->encoder.width;
  const batch one = alone(b);
  float *beside = NULL, *by_itself = NULL;
  TAKE(r, &beside, (size_t)rows * (size_t)width);
  TAKE(r, &by_itself, (size_t)rows * (size_t)width);
  TRY(last_rows(model, b, PADDED, rows, width, beside));
  TRY(last_rows(model, &one, 0, rows, width, by_itself));
  return study_claim(
      r, study_format(r, "model-%s", m->family),
      study_format(r, "%s: tokens whose bits padding changes", m->title),
      masks_differing(beside, (size_t)width, by_itself, (size_t)width, rows,
                      width),
      0, 0);
}

/* ---- all of them ------------------------------------------------------------------------- */

/* The modules of one model, from `first` on. */
static attend_status ask(study_run *r, table_store *t, int first,
                         attend_model *model, const batch *b) {
  witness told, untold;
  TRY(witness_model(model, b, true, &told));
  TRY(witness_model(model, b, false, &untold));
  for (int i = first;
       i < MODULES && !strcmp(modules[i].family, modules[first].family); i++)
    TRY(show_module(r, t, &modules[i], model, &told, &untold));
  return same_bits(r, &modules[first], model, b);
}

static attend_status ask_family(study_run *r, table_store *t, int first,
                                const batch *b) {
  const attend_architecture a = {.family = modules[first].family,
                                 .layers = 2,
                                 .width = 32,
                                 .heads = 2,
                                 .positions = MASKS_LONGEST,
                                 .vocab = VOCAB,
                                 .bos = (const int[]){1},
                                 .eos = (const int[]){2},
                                 .pad = (const int[]){PAD}};
  study_model m;
  TRY(study_untrained(r, &a, &m));
  attend_status status = ask(r, t, first, m.model, b);
  study_model_free(&m);
  return status;
}

attend_status masks_of_models(study_run *r) {
  texts t;
  const batch b = draw(r, &t);
  table_store *table;
  TRY(study_heading(r, "Which module has which mask"));
  TRY(study_say(
      r,
      "Three small untrained models read a batch of two texts, the second "
      "padded on the right from %d to %d tokens (and in a decoder from %d to "
      "%d). Once they are told its length, once they are not. The table has "
      "the largest weight that any head of any layer gives from a real token "
      "to padding, and to later real tokens.",
      t.real[PADDED], b.n, t.written_real[PADDED], b.written));
  TRY(study_table(r, "modules", "Largest weights of a real token",
                  module_columns, &table));
  for (int i = 0; i < MODULES; i++)
    if (i == 0 || strcmp(modules[i].family, modules[i - 1].family))
      TRY(ask_family(r, table, i, &b));
  return study_say(
      r,
      "This is the documents' answer. An encoder has a key padding mask and no "
      "other. A decoder has a causal mask, under which a real token gives "
      "nothing to padding on its right even if nobody told it of padding. An "
      "encoder-decoder has key padding masks on the encoder's self-attention "
      "and on cross-attention, whose keys are the same padded text, and a "
      "causal mask on the decoder's self-attention. With these masks, what the "
      "last layer gives to the real tokens has the same bits as that of the "
      "text alone.");
}
