/* Masks: what a query may see, drawn, and when padding needs a mask of its own.
 *
 * Documents Fall 2022 1(e), worksheet 2(b).
 */
#include "attend/problem.h"
#include "studies/study.h"

enum { MASKS_LONGEST = 64 }; /* of the pictures and of what models read */

enum { QUERY = 1, KEY, VALUE, OUTPUT, PADDING };

static const attend_setting settings[] = {
    {"length", "8", NULL, "tokens of a padded text, in the pictures and models", WHOLE, 1, 2,
     MASKS_LONGEST},
    {"real", "5", NULL, "of which so many are no padding", WHOLE, 1, 1, MASKS_LONGEST - 1},
    {"written", "6", NULL, "tokens that a decoder has written beside them", WHOLE, 1, 1,
     MASKS_LONGEST},
    {"tokens", "300", "70", "tokens of the text whose bits are compared", WHOLE, 1, 1, 4096},
    {"padding", "80", "20", "padding beside them", WHOLE, 1, 8, 4096},
    {"d", "32", NULL, "width of a head there", WHOLE, 1, 1, 1024},
    {0}};

/* ---- pictures ------------------------------------------------------------------------ */

typedef struct {
  const char *name, *title;
  bool causal, padded, left, cross;
} picture;

static const picture pictures[] = {{"none", "no mask", false, false, false, false},
                                   {"padding", "key padding: encoder", false, true, false, false},
                                   {"cross", "key padding: cross", false, true, false, true},
                                   {"causal", "causal: decoder", true, false, false, false},
                                   {"both", "causal, padding right", true, true, false, false},
                                   {"left", "causal, padding left", true, true, true, false}};
enum { PICTURES = sizeof pictures / sizeof *pictures };

static attend_desc desc_of(study_run *r, const picture *p, uint8_t *key_mask) {
  const int n = study_count(r, "length"), real = study_count(r, "real");
  for (int j = 0; j < n; j++) key_mask[j] = p->left ? j >= n - real : j < real;
  return (attend_desc){ATTEND_INIT(attend_desc), .q_len = p->cross ? study_count(r, "written") : n,
                       .kv_len = n, .dim = 1,
                       .mask = {.causal = p->causal ? ATTEND_CAUSAL : ATTEND_NOT_CAUSAL,
                                .key_mask = p->padded ? key_mask : NULL}};
}

/* Pairs that such a mask leaves, counted by hand. */
static double pairs(study_run *r, const picture *p) {
  const int n = study_count(r, "length"), real = study_count(r, "real");
  double sum = 0;
  if (p->cross) return (double)study_count(r, "written") * real;
  if (!p->causal) return (double)n * (p->padded ? real : n);
  if (!p->padded) return n * (n + 1) / 2.0;
  if (p->left) return real * (real + 1) / 2.0;
  for (int i = 0; i < n; i++) sum += i + 1 < real ? i + 1 : real;
  return sum;
}

/* The weights of queries that are 0: the same on every key that is seen. What
 * is not seen is NaN, which the plot stripes. */
static attend_status look(study_run *r, const picture *p, attend_desc *desc, double *cells) {
  float q[MASKS_LONGEST] = {0}, k[MASKS_LONGEST] = {0}, o[MASKS_LONGEST], lse[MASKS_LONGEST],
        *weights = NULL;
  const int all = desc->q_len * desc->kv_len;
  double seen = 0, wrong = 0;
  TAKE(r, &weights, (size_t)all);
  TRY(study_attend(r, desc,
                   &(study_pass){.q = q, .k = k, .v = k, .o = o, .lse = lse, .weights = weights}));
  for (int i = 0; i < all; i++) {
    bool visible = weights[i] > 0;
    seen += visible;
    wrong += visible != !!attend_visible(desc, 0, i / desc->kv_len, i % desc->kv_len);
    cells[i] = visible ? (double)weights[i] : NAN;
  }
  TRY(study_claim(r, seen, pairs(r, p), 0, "pairs-%s: pairs that are seen: %s", p->name, p->title));
  return study_claim(r, wrong, 0, 0, "rule-%s: weights that differ from `attend_visible`: %s",
                     p->name, p->title);
}

/* Tokens by their number, padding as a stroke; none where there are many. */
static void name_tokens(study_run *r, const uint8_t *real, int n, const char **names) {
  for (int i = 0, number = 0; i < n; i++)
    names[i] = real && !real[i] ? "–" : study_format(r, "%d", ++number);
}

static attend_status draw(study_run *r) {
  enum { NAMED = 12 };
  uint8_t key_mask[MASKS_LONGEST];
  attend_plot_panel panels[PICTURES];
  for (int i = 0; i < PICTURES; i++) {
    attend_desc desc = desc_of(r, &pictures[i], key_mask);
    const char **rows = NULL, **columns = NULL;
    double *cells = NULL;
    TAKE(r, &cells, (size_t)desc.q_len * (size_t)desc.kv_len);
    TAKE(r, &rows, MASKS_LONGEST);
    TAKE(r, &columns, MASKS_LONGEST);
    name_tokens(r, desc.mask.key_mask, desc.kv_len, columns);
    name_tokens(r, pictures[i].cross ? NULL : desc.mask.key_mask, desc.q_len, rows);
    TRY(look(r, &pictures[i], &desc, cells));
    panels[i] = (attend_plot_panel){.kind = ATTEND_PLOT_HEAT,
                                    .title = pictures[i].title,
                                    .x = {.label = "key"},
                                    .y = {.label = "query"},
                                    .names = desc.kv_len > NAMED ? NULL : columns,
                                    .row_names = desc.q_len > NAMED ? NULL : rows,
                                    .columns = (size_t)desc.kv_len,
                                    .rows = (size_t)desc.q_len,
                                    .cells = cells,
                                    .z = {.low = 0, .high = 1}};
  }
  return study_figure(r, "masks-pictures",
                      &(attend_plot){.count = PICTURES, .across = 3, .panels = panels});
}

static attend_status show_pictures(study_run *r) {
  const int n = study_count(r, "length"), real = study_count(r, "real");
  TRY(study_heading(r, "What a query may see"));
  TRY(study_say(
      r,
      "Texts of one batch are padded to the length of the longest: here %d of %d tokens are real. "
      "A key padding mask hides columns, from every query. A causal mask hides what lies right of "
      "the diagonal: later tokens, which are what is to be predicted. In cross-attention queries "
      "are of one text and keys of the other, so the picture need not be square, there is no "
      "later, and what is hidden is the padding of the text that was read. The pictures show "
      "weights of a query that prefers nothing, 1 over the number of keys that it sees; what it "
      "does not see is striped, and padding is marked by a stroke.",
      real, n));
  TRY(draw(r));
  return study_say(
      r,
      "Under a causal mask, padding on the right hides nothing from a query of a real token: rows "
      "1 to %d of the fourth and the fifth picture are the same. Only the queries of the padding "
      "itself lose keys, and what they give is not used. With the padding on the left the first %d "
      "queries see nothing at all: attend gives them zeros.",
      real, n - real);
}

/* ---- bits ----------------------------------------------------------------------------- */

/* One head over tokens and padding. */
typedef struct {
  const char *name;
  bool causal, masked, left, poisoned; /* poisoned: NaN in padded K and V */
  enum { SAME, ROUNDED, OTHER } expected;
} trial;

static const trial trials[] = {{"right-causal", true, false, false, true, SAME},
                               {"right-open", false, false, false, false, OTHER},
                               {"right-open-masked", false, true, false, true, SAME},
                               {"left-causal", true, false, true, false, OTHER},
                               {"left-causal-masked", true, true, true, true, ROUNDED}};
enum { TRIALS = sizeof trials / sizeof *trials };

typedef struct {
  attend_desc desc;
  study_pass pass;
} text;

/* `tokens` real rows from `first` on; around them padding, of which the loss sees nothing. */
static attend_status make_text(study_run *r, int padding, int first, bool poisoned, text *t) {
  const int tokens = study_count(r, "tokens"), rows = tokens + padding, d = study_count(r, "d");
  const size_t size = (size_t)rows * (size_t)d, real = (size_t)tokens * (size_t)d,
               at = (size_t)first * (size_t)d;
  uint8_t *is_real = NULL;
  t->desc = (attend_desc){ATTEND_INIT(attend_desc), .q_len = rows, .kv_len = rows, .dim = d};
  TRY(study_tensors(r, &t->desc, PADDING, STUDY_GRADIENTS, &t->pass));
  TAKE(r, &is_real, (size_t)rows);
  float *q = (float *)t->pass.q, *k = (float *)t->pass.k, *v = (float *)t->pass.v,
        *d_o = (float *)t->pass.d_o;
  memset(d_o, 0, size * sizeof *d_o);
  for (size_t i = 0; poisoned && i < size; i++) k[i] = v[i] = NAN;
  study_normal(r, QUERY, 0, real, q + at);
  study_normal(r, KEY, 0, real, k + at);
  study_normal(r, VALUE, 0, real, v + at);
  study_normal(r, OUTPUT, 0, real, d_o + at);
  memset(is_real + first, 1, (size_t)tokens);
  t->desc.mask.key_mask = is_real;
  return ATTEND_OK;
}

static attend_status attend_text(study_run *r, text *t, bool causal, bool masked, bool backward) {
  t->desc.mask.causal = causal ? ATTEND_CAUSAL : ATTEND_NOT_CAUSAL;
  if (!masked) t->desc.mask.key_mask = NULL;
  if (!backward) t->pass.d_o = NULL;
  return study_attend(r, &t->desc, &t->pass);
}

static const attend_study_column bits_columns[] = {{"padding", "padding", TEXT},
                                                   {"causal", "causal mask", TEXT},
                                                   {"masked", "key mask", TEXT},
                                                   {"content", "in padded K, V", TEXT},
                                                   {"rows", "rows whose bits differ", COUNT},
                                                   {"most", "largest difference", NUMBER},
                                                   {0}};

static attend_status one_trial(study_run *r, table_store *t, const trial *w) {
  const int tokens = study_count(r, "tokens"), pad = study_count(r, "padding"),
            first = w->left ? pad : 0, d = study_count(r, "d");
  const size_t size = (size_t)tokens * (size_t)d;
  text alone, padded;
  double *expected;
  TRY(make_text(r, 0, 0, false, &alone));
  TRY(make_text(r, pad, first, w->poisoned, &padded));
  TRY(attend_text(r, &alone, w->causal, false, false));
  TRY(attend_text(r, &padded, w->causal, w->masked, false));
  TRY(study_doubles(r, alone.pass.o, size, &expected));
  const float *o = padded.pass.o + first * d;
  const int rows = study_differing_rows(alone.pass.o, o, tokens, d);
  const double max = study_gap(o, expected, size);
  TRY(study_row(t, w->left ? "left" : "right", w->causal ? "yes" : "no", w->masked ? "yes" : "no",
                w->poisoned ? "NaN" : "numbers", (double)rows, max));
  if (w->expected == ROUNDED)
    return study_claim(r, max, 0, 1e-5, "values-%s: largest difference: %s", w->name, w->name);
  return study_claim(r, rows, w->expected == SAME ? 0 : tokens, 0, "bits-%s: rows that differ: %s",
                     w->name, w->name);
}

/* Rows of gradients that padding on the right changes under a causal mask; counted: the
 * loss has a term for the padding (d_o is not 0 there), and rows of dK alone are counted. */
static attend_status one_gradient(study_run *r, bool counted, int *rows) {
  const int tokens = study_count(r, "tokens"), pad = study_count(r, "padding"),
            d = study_count(r, "d");
  text alone, padded;
  TRY(make_text(r, 0, 0, false, &alone));
  TRY(make_text(r, pad, 0, false, &padded));
  if (counted)
    study_normal(r, PADDING, 0, (size_t)(pad * d), (float *)padded.pass.d_o + tokens * d);
  TRY(attend_text(r, &alone, true, false, true));
  TRY(attend_text(r, &padded, true, false, true));
  const study_pass *a = &alone.pass, *b = &padded.pass;
  *rows = study_differing_rows(a->dk, b->dk, tokens, d);
  if (counted) return ATTEND_OK;
  *rows += study_differing_rows(a->dq, b->dq, tokens, d);
  *rows += study_differing_rows(a->dv, b->dv, tokens, d);
  return ATTEND_OK;
}

static attend_status show_bits(study_run *r) {
  const int tokens = study_count(r, "tokens");
  int without, with;
  table_store *t;
  TRY(study_heading(r, "Shown by bits"));
  TRY(study_say(r,
                "%d tokens pass through attention alone and with %d places of padding beside them. "
                "If the padding is not seen, the rows of the tokens have the same bits, and NaN in "
                "the keys and values of the padding does not change them.",
                tokens, study_count(r, "padding")));
  TRY(study_table(r, &t, "bits", bits_columns, "Outputs of the tokens, alone and padded"));
  for (int i = 0; i < TRIALS; i++) TRY(one_trial(r, t, &trials[i]));
  TRY(one_gradient(r, false, &without));
  TRY(one_gradient(r, true, &with));
  TRY(study_claim(r, without, 0, 0, "gradients: rows of dQ, dK, dV that right padding changes"));
  TRY(study_claim(r, with, tokens, 0,
                  "gradients-counted: rows of dK that change if the padding is in the loss"));
  return study_say(
      r,
      "So padding on the right needs no key mask under a causal one; without the causal mask, or "
      "on the left, every row changes. A key mask mends that: to the bit on the right, and to "
      "rounding on the left, where the text stands at other positions and sums are taken over "
      "blocks of keys that begin at fixed ones. Gradients keep their bits too (%d rows of dQ, dK "
      "and dV differ), as long as the loss leaves the padding out: the padding's own queries do "
      "see the text, and with a loss on them %d of %d rows of dK change. The causal mask spares "
      "the key mask, not the mask of the loss.",
      without, with, tokens);
}

/* ---- models ---------------------------------------------------------------- */

/* Which module of an encoder, a decoder and an encoder-decoder has which mask:
 * hooks observe how small untrained models treat padded texts.
 *
 * Document worksheet 2(b).
 *
 * Every model reads the same batch twice: two texts, of which the second is
 * padded on the right, once with its length and once without. What a real
 * token's weights have on padding tells whether a key mask is there, and
 * whether it is needed.
 */

enum { VOCAB = 40, IDS = 31, BATCH = 2, PADDED = 1, PAD = 0 };

/* The largest weights of real rows of the padded text, by role. */
typedef struct {
  int real, written; /* keys of encoder and cross; rows of the decoder */
  double padding[ATTEND_ROLES], later[ATTEND_ROLES];
} witness;

static double weight_at(const attend_hooked *s, int h, int i, int j) {
  const ptrdiff_t *by = s->view.stride;
  return (double)((const float *)s->view.data)[PADDED * by[0] + h * by[1] + i * by[2] + j * by[3]];
}

static void see(const attend_hooked *s, void *user) {
  witness *w = user;
  const bool read = s->role == ATTEND_ENCODER_SELF;
  const int rows = read ? w->real : w->written,
            keys = s->role == ATTEND_DECODER_SELF ? w->written : w->real;
  for (int h = 0; h < s->shape[1]; h++)
    for (int i = 0; i < rows; i++)
      for (int j = 0; j < s->shape[3]; j++) {
        double a = weight_at(s, h, i, j), *max = &w->padding[s->role];
        if (j >= keys && a > *max) *max = a;
        max = &w->later[s->role];
        if (j > i && j < keys && a > *max) *max = a;
      }
}

/* What a model reads and writes: [count][n], [count][written]. Lengths that are
 * NULL are left out. */
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
static batch draw_texts(const study_run *r, texts *t) {
  const int n = study_count(r, "length"), written = study_count(r, "written");
  t->real[0] = n, t->real[PADDED] = study_count(r, "real");
  t->written_real[0] = written, t->written_real[PADDED] = (written + 1) / 2;
  for (int i = 0; i < BATCH * n; i++)
    t->read[i] = i % n < t->real[i / n] ? token(r, (uint64_t)i) : PAD;
  for (int i = 0; i < BATCH * written; i++)
    t->wrote[i] = i % written < t->written_real[i / written]
                      ? token(r, (uint64_t)(BATCH * MASKS_LONGEST + i))
                      : PAD;
  return (batch){BATCH, n, written, t->read, t->wrote, t->real, t->written_real};
}

/* The padded text without its padding. */
static batch alone(const batch *b) {
  return (batch){.count = 1,
                 .n = b->real[PADDED],
                 .written = b->written_real[PADDED],
                 .read = b->read + PADDED * b->n,
                 .wrote = b->wrote + PADDED * b->written};
}

static attend_status read_batch(attend_session *run, attend_parts parts, const batch *b) {
  if (parts & ATTEND_ENCODER)
    TRY(attend_session_encode(run, b->count, b->n, b->read, b->real, NULL));
  if (!(parts & ATTEND_DECODER)) return ATTEND_OK;
  return attend_session_extend(run, b->count, b->written, b->wrote, b->written_real);
}

static attend_status witness_model(attend_model *model, const batch *b, bool lengths, witness *w) {
  attend_session *run;
  attend_hook hook = {ATTEND_INIT(attend_hook), .points = ATTEND_AT_PATTERN, .read = see,
                      .user = w};
  batch given = *b;
  *w = (witness){.real = b->real[PADDED], .written = b->written_real[PADDED]};
  if (!lengths) given.real = given.written_real = NULL;
  TRY(attend_session_create(
      model, &(attend_session_options){ATTEND_INIT(attend_session_options), .batch = BATCH}, &run));
  attend_status status = attend_session_set_hooks(run, 1, &hook);
  if (!status) status = read_batch(run, attend_config_parts(attend_model_config(model)), &given);
  attend_session_free(run);
  return status;
}

/* ---- the answers ------------------------------------------------------------------------ */

/* What worksheet 2(b) says of a module. */
typedef struct {
  const char *family, *title;
  attend_role role;
  bool causal, key_mask;
} module;

static const module modules[] = {{"bert", "encoder", ATTEND_ENCODER_SELF, false, true},
                                 {"gpt2", "decoder", ATTEND_DECODER_SELF, true, false},
                                 {"t5", "encoder-decoder", ATTEND_ENCODER_SELF, false, true},
                                 {"t5", "encoder-decoder", ATTEND_DECODER_SELF, true, false},
                                 {"t5", "encoder-decoder", ATTEND_CROSS, false, true}};
enum { MODULES = sizeof modules / sizeof *modules };

static const char *const role_titles[ATTEND_ROLES] = {"encoder self-attention",
                                                      "decoder self-attention", "cross-attention"};

static const attend_study_column module_columns[] = {
    {"model", "model", TEXT},
    {"module", "module", TEXT},
    {"causal", "causal mask", TEXT},
    {"later", "weight on later tokens", NUMBER},
    {"without", "weight on padding, no key mask", NUMBER},
    {"with", "with it", NUMBER},
    {"needed", "key mask needed", TEXT},
    {0}};

static attend_status claim(study_run *r, const module *m, bool causal, const witness *with,
                           const witness *without) {
  const char *role = attend_role_name(m->role);
  TRY(study_claim(r, causal, m->causal, 0, "causal-%s-%s: %s, %s: a causal mask", m->family, role,
                  m->title, role_titles[m->role]));
  TRY(study_claim(r, without->padding[m->role] > 0, m->key_mask, 0,
                  "needed-%s-%s: %s, %s: a key mask is needed", m->family, role, m->title,
                  role_titles[m->role]));
  return study_claim(r, with->padding[m->role], 0, 0,
                     "padding-%s-%s: %s, %s: weight on padding with its masks", m->family, role,
                     m->title, role_titles[m->role]);
}

static attend_status show_module(study_run *r, table_store *t, const module *m,
                                 const attend_model *model, const witness *with,
                                 const witness *without) {
  attend_desc desc = {ATTEND_INIT(attend_desc)};
  if (!attend_model_attention(model, m->role, 0, &desc))
    return study_fail(r, ATTEND_INVALID, "%s has no %s", m->family, role_titles[m->role]);
  const bool causal = desc.mask.causal != ATTEND_NOT_CAUSAL;
  TRY(study_row(t, study_format(r, "%s (%s)", m->title, m->family), role_titles[m->role],
                causal ? "yes" : "no", m->role == ATTEND_CROSS ? NAN : with->later[m->role],
                without->padding[m->role], with->padding[m->role],
                without->padding[m->role] > 0 ? "yes" : "no"));
  return claim(r, m, causal, with, without);
}

/* What the last layer gives a model's real tokens of sequence `which`, [rows]
 * [width] of `out`. */
static attend_status last_rows(attend_model *model, const batch *b, int which, int rows, int width,
                               float *out) {
  const attend_parts parts = attend_config_parts(attend_model_config(model));
  const int n = parts & ATTEND_DECODER ? b->written : b->n;
  attend_session *run;
  int ld;
  TRY(attend_session_create(
      model, &(attend_session_options){ATTEND_INIT(attend_session_options), .batch = b->count},
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
static attend_status same_bits(study_run *r, const module *m, attend_model *model, const batch *b) {
  const attend_config *c = attend_model_config(model);
  const bool writes = attend_config_parts(c) & ATTEND_DECODER;
  const int rows = writes ? b->written_real[PADDED] : b->real[PADDED],
            width = writes ? attend_config_stack(c, ATTEND_DECODER)->width
                           : attend_config_stack(c, ATTEND_ENCODER)->width;
  const batch one = alone(b);
  float *beside = NULL, *by_itself = NULL;
  TAKE(r, &beside, (size_t)rows * (size_t)width);
  TAKE(r, &by_itself, (size_t)rows * (size_t)width);
  TRY(last_rows(model, b, PADDED, rows, width, beside));
  TRY(last_rows(model, &one, 0, rows, width, by_itself));
  return study_claim(r, study_differing_rows(beside, by_itself, rows, width), 0, 0,
                     "model-%s: %s: tokens whose bits padding changes", m->family, m->title);
}

/* ---- all of them ------------------------------------------------------------------------- */

/* The modules of one model, from `first` on. */
static attend_status ask(study_run *r, table_store *t, int first, attend_model *model,
                         const batch *b) {
  witness with, without;
  TRY(witness_model(model, b, true, &with));
  TRY(witness_model(model, b, false, &without));
  for (int i = first; i < MODULES && !strcmp(modules[i].family, modules[first].family); i++)
    TRY(show_module(r, t, &modules[i], model, &with, &without));
  return same_bits(r, &modules[first], model, b);
}

static attend_status ask_family(study_run *r, table_store *t, int first, const batch *b) {
  const attend_architecture a = {ATTEND_INIT(attend_architecture),
                                 .family = modules[first].family,
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

static attend_status masks_of_models(study_run *r) {
  texts t;
  const batch b = draw_texts(r, &t);
  table_store *table;
  TRY(study_heading(r, "Which module has which mask"));
  TRY(study_say(r,
                "Three small untrained models read a batch of two texts, the second padded on the "
                "right from %d to %d tokens (and in a decoder from %d to %d). Once with its "
                "length, once without. The table has the largest weight that any head of any layer "
                "gives from a real token to padding, and to later real tokens.",
                t.real[PADDED], b.n, t.written_real[PADDED], b.written));
  TRY(study_table(r, &table, "modules", module_columns, "Largest weights of a real token"));
  for (int i = 0; i < MODULES; i++)
    if (i == 0 || strcmp(modules[i].family, modules[i - 1].family))
      TRY(ask_family(r, table, i, &b));
  return study_say(
      r,
      "This is the documents' answer. An encoder has a key padding mask and no other. A decoder "
      "has a causal mask, under which a real token gives nothing to padding on its right even "
      "without the length. An encoder-decoder has key padding masks on the encoder's "
      "self-attention and on cross-attention, whose keys are the same padded text, and a causal "
      "mask on the decoder's self-attention. With these masks, what the last layer gives to the "
      "real tokens has the same bits as that of the text alone.");
}

static attend_status run(study_run *r) {
  if (study_count(r, "real") >= study_count(r, "length"))
    return study_fail(
        r, ATTEND_INVALID,
        "real is %d and length is %d: choose fewer real tokens, so that there is padding",
        study_count(r, "real"), study_count(r, "length"));
  TRY(show_pictures(r));
  TRY(study_step(r, 0.2));
  TRY(masks_of_models(r));
  TRY(study_step(r, 0.6));
  return show_bits(r);
}

const study_topic study_masks = {
    {.name = "masks",
     .title = "Masks: padding, causal, both",
     .question = "Which attention of an encoder, a decoder and an encoder-decoder has which mask, "
                 "and when does padding need one?",
     .answers = "Fall 2022 1(e), worksheet 2(b)",
     .settings = settings},
    run};
