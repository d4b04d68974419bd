/* attend summarize: the verb, its options and documents; summarize.h says which file does
 * what. */
#include "summarize/summarize.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "folders.h"
#include "progress.h"
#include "table.h"
#include "text.h"

/* ---- options of generation ---------------------------------------------------------- */

enum { MOST_COUNT = 1 << 20, MOST_BEAMS = 1024 };
#define TEMPERATURE 0.6f /* samples differ, and few are noise */
#define DIVERSITY 1.0f

#define COUNT(member, from) NUMBER(summary_options, member, from, MOST_COUNT)
#define GIVEN(bit) MARK(summary_options, given, bit)
const option_row option_rows_summary[] = {
    {.help = "Generation:"},
    {"length", "N", "At most N words", COUNT(max_words, 1)},
    {"min", "N", "At least N words", COUNT(min_words, 1)},
    {"tokens", "N", "At most N tokens (default: the model's setting, else 128)",
     COUNT(how.max_new, 1), GIVEN(ATTEND_SUMMARY_MAX_NEW), .letter = 'n'},
    {"no-repeat", "N", "Generate no n-gram of N tokens twice", COUNT(how.no_repeat, 0),
     GIVEN(ATTEND_SUMMARY_NO_REPEAT)},
    {"beams", "N", "Beam search with N beams; 1 is greedy (default: the model's setting, else 4)",
     NUMBER(summary_options, how.beams, 1, MOST_BEAMS), GIVEN(ATTEND_SUMMARY_BEAMS)},
    {"length-penalty", "X",
     "Compare beams by log probability / length^X (default: the model's setting, else 1)",
     REAL(summary_options, how.length_penalty, -10, 10), GIVEN(ATTEND_SUMMARY_LENGTH_PENALTY)},
    {"early-stop", NULL, "Stop when N beams have ended", FLAG(summary_options, how.early_stop),
     GIVEN(ATTEND_SUMMARY_EARLY_STOP)},
    {.help = "Several summaries of each document:"},
    {"samples", "N", "N different ones, sampled, best first; with --beams: the N best",
     COUNT(how.samples, 1), GIVEN(SUMMARY_SAMPLES)},
    {"groups", "G",
     "Diverse beam search: divide the beams into G groups, and print the best of each",
     NUMBER(summary_options, how.groups, 1, MOST_BEAMS)},
    {"diversity", "X",
     "Penalty, in log probability, of a token that an earlier group chose in the same step "
     "(default: 1)",
     REAL(summary_options, how.diversity, 0, 1e6), GIVEN(SUMMARY_DIVERSITY)},
    SAMPLING_ROWS(summary_options,
                  "Sample with temperature T (default: 0.6 if --samples or another option of "
                  "sampling is given)",
                  "Seed of sampling: the same seed gives the same summaries (default: 0); "
                  "`random' takes a new one and prints it"),
    {.help = "Reading:"},
    {"context", "N", "Read at most N tokens of a document (default: the model's context)",
     COUNT(how.context, 2)},
    {"batch", "N", "Sequences, beams included, in a batch (default: 32)", COUNT(how.batch, 1)},
    {0}};

static void settle_draws(struct argp_state *state, summary_options *o) {
  attend_generate_options *how = &o->how;
  if (o->given & ATTEND_SUMMARY_BEAMS && how->beams > 1) sampling_refuse(state);
  sampling_settle(&o->draw, true, TEMPERATURE, how);
  if (how->samples > 1 && how->temperature == 0)
    argp_error(state,
               "--temp 0 is greedy, so %d samples would be the same: raise it, or take the best "
               "of --beams %d",
               how->samples, how->samples);
  how->beams = 1;
  o->given |= ATTEND_SUMMARY_BEAMS;
}

static void settle_groups(struct argp_state *state, summary_options *o) {
  attend_generate_options *how = &o->how;
  int min = how->samples > how->groups ? how->samples : how->groups;
  if (!(o->given & ATTEND_SUMMARY_BEAMS))
    how->beams = (min + how->groups - 1) / how->groups * how->groups;
  o->given |= ATTEND_SUMMARY_BEAMS;
  if (how->beams % how->groups)
    argp_error(state, "--beams %d cannot be divided into %d groups: take %d", how->beams,
               how->groups, (how->beams / how->groups + 1) * how->groups);
  if (!(o->given & SUMMARY_DIVERSITY)) how->diversity = DIVERSITY;
  if (!(o->given & SUMMARY_SAMPLES)) how->samples = how->groups;
}

void summary_settle(struct argp_state *state, summary_options *o) {
  attend_generate_options *how = &o->how;
  bool searches = how->groups > 1 || (o->given & ATTEND_SUMMARY_BEAMS && how->beams > 1);
  bool draws = o->draw.given & (SAMPLING_SEED | SAMPLING_OTHER) || how->temperature > 0 ||
               (how->samples > 1 && !searches);
  how->seed = o->draw.seed;
  if (o->max_words && o->min_words > o->max_words)
    argp_error(state, "--min %d is more than --length %d", o->min_words, o->max_words);
  if (o->given & SUMMARY_DIVERSITY && how->groups < 2)
    argp_error(state, "--diversity needs --groups");
  if (draws && how->groups > 1)
    argp_error(state, "--groups are of beam search: leave out the options of sampling");
  if (draws) settle_draws(state, o);
  if (how->groups > 1) settle_groups(state, o);
  if (how->beams > 1 && how->samples > how->beams)
    argp_error(state, "--samples %d is more than --beams %d", how->samples, how->beams);
}

/* ---- options of the verb -------------------------------------------------------------- */

enum { EXTRACT_OPTION = 1, EXTRACT_ALIKE = 2 };

/* "3" or "10%"; false: neither. */
static bool read_amount(const char *text, attend_extract_options *o) {
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

/* "--extract 3" as well as "--extract=3", and "--extract FILE". */
static void take_extract(struct argp_state *state, const char *arg, void *value, void *input) {
  summarize_options *o = input;
  const char *next = state->next < state->argc ? state->argv[state->next] : "";
  (void)value;
  o->extract = true;
  if (!arg && *next && *next != '.' && !next[strspn(next, "0123456789.%")])
    arg = state->argv[state->next++];
  if (arg && !read_amount(arg, &o->rank))
    argp_error(state,
               "--extract takes a number of sentences, such as 3, or a share, such as 10%%, not "
               "\"%s\"",
               arg);
}

static void take_sources(struct argp_state *state, const char *arg, void *value, void *input) {
  (void)input;
  *(int *)value = arg ? (int)options_number(state, "--sources", arg, 1, 16) : 3;
}

static void take_long(struct argp_state *state, const char *arg, void *value, void *input) {
  summarize_options *o = input;
  (void)value;
  o->chunks = !strcmp(arg, "chunks");
  o->linear = !strcmp(arg, "linear");
  if (!o->chunks && !o->linear) argp_error(state, "--long is chunks or linear, not \"%s\"", arg);
}

#define OF_EXTRACT MARK(summarize_options, given, EXTRACT_OPTION)
static const option_row own[] = {
    {.help = "Input and output:"},
    {"model", "MODEL",
     "A BART or T5: a directory, hf:OWNER/NAME, a training run (default: attend:summarizer)",
     TEXT(summarize_options, model.path), .letter = 'm'},
    {"lines", NULL, "Each line is a document", FLAG(summarize_options, lines)},
    {"field", "NAME",
     "The input is lines of JSON, and this member is the document (default: document, for files "
     "that end in .jsonl)",
     TEXT(summarize_options, field)},
    {"sources", "N",
     "Print each word's N sources: the document's words with the largest cross-attention weights "
     "(default: 3)",
     CALL(summarize_options, sources, take_sources), .optional = true},
    {"show", NULL,
     "Open the view of the first summary: encoder, decoder, and the cross-attention from each "
     "word to its sources",
     FLAG(summarize_options, show)},
    {"out", "FILE",
     "With --show: write FILE.html, .svg, .png or .json instead of serving; with --long chunks: "
     "the tree of summaries as a page; with --extract: the text with the chosen sentences marked",
     TEXT(summarize_options, out)},
    {.help = "Sentences of the text:"},
    {"extract", "N|P%",
     "Print the N sentences, or P percent of them, with the highest centrality (default: 3)",
     .kind = OPTION_CALL, .call = take_extract, .optional = true},
    {"embed", "MODEL",
     "Compare sentences by this model's embeddings (default: a pulled MiniLM, else \"words\", "
     "TF-IDF of the words that they share)",
     TEXT(summarize_options, embed), OF_EXTRACT},
    {"tau", "T",
     "Weights are exp(cosine / T): with a small T only near sentences count (default: 0.5)",
     REAL(summarize_options, rank.tau, 0.01, 1e6), OF_EXTRACT},
    {"jump", "P", "Jump to any sentence with probability P, as in PageRank (default: 0)",
     REAL(summarize_options, rank.jump, 0, 0.99), OF_EXTRACT},
    {"lead", "W",
     "Weight sentences by exp(-W p), where p goes from 0 to 1 through the text (default: 0)",
     REAL(summarize_options, rank.lead, 0, 1e6), OF_EXTRACT},
    {"alike", "C",
     "Skip sentences whose cosine with a chosen one is above C (default: 0.8; 1: none)",
     REAL(summarize_options, rank.alike, -1, 1),
     MARK(summarize_options, given, EXTRACT_OPTION | EXTRACT_ALIKE)},
    {"ranks", NULL, "Print all sentences with ranks, as a table", FLAG(summarize_options, ranks),
     OF_EXTRACT},
    {"no-ranks", NULL, "Print the chosen sentences alone", FLAG(summarize_options, bare),
     OF_EXTRACT},
    {.help = "Documents of any length:"},
    {"long", "MODE",
     "Documents of any length. chunks: summaries of parts that fit the encoder, then of these "
     "summaries, until one is left. linear: the encoder reads all of it with a linear form of "
     "attention (--attention; default: the model's, else favor(m=256))",
     .kind = OPTION_CALL, .call = take_long},
    {"tree", NULL, "With chunks: print the summaries of all parts, and the words that each covers",
     FLAG(summarize_options, tree)},
    {"parts", "N", "With chunks: stop at N summaries or fewer (default: 1)",
     NUMBER(summarize_options, parts, 1, MOST_COUNT)},
    {"levels", "N", "With chunks: at most N levels, 1 being the parts of the document",
     NUMBER(summarize_options, levels, 1, MOST_COUNT)},
    {"work", "DIR", "Keep a journal in this directory, and resume from it",
     TEXT(summarize_options, work)},
    {"stats", NULL, "Print time and memory on the standard error", FLAG(summarize_options, stats)},
    {0}};
static const option_row running[] = {{.help = "Running the model:"}, {0}};
static const option_part parts[] = {{own, 0},
                                    {option_rows_summary, offsetof(summarize_options, how)},
                                    {running, 0},
                                    {option_rows_model, offsetof(summarize_options, model)},
                                    {option_rows_run, offsetof(summarize_options, common)},
                                    {option_rows_json, offsetof(summarize_options, common)},
                                    {0}};

static void finish(struct argp_state *state, char **words, int count, void *input) {
  summarize_options *o = input;
  bool is_long = o->chunks || o->linear;
  o->model.takes = MODEL_TAKES_FILES;
  model_words(state, words, count, &o->model);
  o->files = o->model.words;
  o->n_files = o->model.count;
  summary_settle(state, &o->how);
  if (o->given & EXTRACT_ALIKE && o->rank.alike == 0) o->rank.alike = DBL_MIN; /* 0: the default */
  if (!o->chunks && (o->tree || o->parts || o->levels))
    argp_error(state, "--tree, --parts and --levels need --long chunks");
  if (!is_long && (o->work || o->stats))
    argp_error(state, "--work and --stats need --long chunks or --long linear");
  if (!o->extract && o->given)
    argp_error(state,
               "--embed, --tau, --jump, --lead, --alike, --ranks and --no-ranks go with --extract");
  if (o->ranks && o->bare) argp_error(state, "choose one of --ranks and --no-ranks");
  if (o->out && !o->show && !o->chunks && !o->extract)
    argp_error(state, "--out goes with --show, --long chunks or --extract");
  if (o->show && o->common.json && !o->out)
    argp_error(state, "--json needs --show to write a file: add --out FILE");
  if ((o->show || o->sources) && is_long)
    argp_error(state,
               "--show and --sources need a document that fits the encoder: leave out --long");
  if (o->extract && (o->show || o->sources || is_long))
    argp_error(state, "--extract generates no text: leave out --show, --sources and --long");
}

static const verb_options verb_summarize = {
    parts, "[MODEL] [FILE...]",
    "Summarizes files, or the standard input, with the bundled model or any BART or T5.\vScores "
    "are mean log probabilities of a summary's tokens. The settings of the model's directory "
    "(prefix, beams, lengths) apply unless an option overrides them. --attention is the form of "
    "the encoder and of cross-attention. A document that is longer than the encoder's context is "
    "truncated, with a warning; --long reads all of it. Ctrl-C prints the results so far and exits "
    "with 130.",
    finish};

/* ---- documents: files, lines, fields of JSON lines ---------------------------------------- */

typedef struct {
  documents docs;
  int capacity;
  const char *file; /* that is being read */
  bool lines;       /* each is a document */
  bool rows;        /* it has several */
  int row;          /* of that file */
  char *text;       /* of the open document */
  size_t length, capacity_bytes;
} gathering;

static void add_document(gathering *g) {
  size_t n = (size_t)g->docs.count;
  if (g->docs.count == g->capacity) {
    g->capacity = 2 * g->capacity + 16;
    size_t more = (size_t)g->capacity;
    g->docs.name = need_more(g->docs.name, n, more, sizeof *g->docs.name);
    g->docs.at = need_more(g->docs.at, n, more, sizeof *g->docs.at);
  }
  const char *file = strcmp(g->file, "-") ? g->file : "the standard input";
  g->row++;
  g->docs.name[n] = g->rows ? path_of("line %d of %s", g->row, file) : need_copy(file);
  g->docs.at[n] =
      (attend_document){.text = memcpy(need(g->length + 1, 1), g->text ? g->text : "", g->length),
                        .length = g->length,
                        .number = g->docs.count++};
  g->length = 0;
}

static void add_bytes(gathering *g, const char *text, size_t length) {
  if (g->length + length > g->capacity_bytes) {
    g->capacity_bytes = 2 * (g->length + length);
    g->text = need_more(g->text, g->length, g->capacity_bytes, 1);
  }
  if (length) memcpy(g->text + g->length, text, length);
  g->length += length;
}

/* A line may lie in two of the chunks that are read. */
static attend_status put(const char *text, size_t length, bool ends, void *user) {
  gathering *g = user;
  const char *end = text + length, *line;
  while (g->lines && (line = memchr(text, '\n', (size_t)(end - text)))) {
    add_bytes(g, text, (size_t)(line - text));
    add_document(g);
    text = line + 1;
  }
  add_bytes(g, text, (size_t)(end - text));
  if (ends && (g->length || !g->lines)) add_document(g);
  return ATTEND_OK;
}

static bool is_json_file(const summarize_options *o, const char *path) {
  return o->field || attend_format_of(path) == ATTEND_FORMAT_JSONL;
}

bool documents_are_rows(const summarize_options *o) {
  if (o->lines || o->field) return true;
  for (int i = 0; i < o->n_files; i++)
    if (!is_json_file(o, o->files[i])) return false;
  return o->n_files > 0;
}

int documents_read(const summarize_options *o, documents *docs) {
  static char dash[] = "-", document[] = "document";
  static char *input[] = {dash};
  char **files = o->n_files ? o->files : input, *field = o->field ? (char *)o->field : document;
  int n = o->n_files ? o->n_files : 1, code;
  attend_context *ctx = options_context(&o->common, NULL, &code);
  gathering g = {0};
  progress_start("reading", text_bytes(files, n));
  for (int i = 0; i < n && !code; i++) {
    text_source in = {.ctx = ctx, .field = &field, .fields = 1, .put = put, .user = &g};
    bool json = is_json_file(o, files[i]);
    in.format = json ? ATTEND_FORMAT_JSONL : ATTEND_FORMAT_TEXT;
    g.file = files[i];
    g.row = 0;
    g.lines = o->lines && !json;
    g.rows = o->lines || json;
    code = text_read(&in, files[i]);
  }
  progress_end();
  free(g.text);
  attend_context_free(ctx);
  *docs = g.docs;
  return code;
}

void documents_free(documents *docs) {
  for (int i = 0; i < docs->count; i++) {
    free(docs->name[i]);
    free((char *)docs->at[i].text);
  }
  free(docs->name);
  free(docs->at);
}

/* ---- the model ------------------------------------------------------------------ */

summary_options summary_defaults(void) {
  return (summary_options){.how = {ATTEND_INIT(attend_generate_options), .max_new = 128,
                                   .samples = 1, .beams = 4, .length_penalty = 1}};
}

int summarizer_open(const options *common, const model_options *model, const summary_options *o,
                    summarizer *s) {
  model_options chosen = *model;
  attend_generate_options generate = o->how;
  attend_summarize_options how = {ATTEND_INIT(attend_summarize_options)};
  *s = (summarizer){0};
  chosen.use = MODEL_SUMMARIZES;
  if (chosen.attention && !chosen.roles) chosen.roles = SUMMARY_ROLES;
  int code = model_open(common, &chosen, &s->m);
  if (code) return code;
  generate.length_penalty = zero_or(generate.length_penalty);
  how.generate = &generate;
  how.given = o->given;
  how.min_words = o->min_words;
  how.max_words = o->max_words;
  attend_status status = attend_summarizer_create(s->m.model, s->m.path, &how, &s->s);
  return status ? complain_status(s->m.ctx, status) : EXIT_OK;
}

void summarizer_close(summarizer *s) {
  attend_summarizer_free(s->s);
  model_close(&s->m);
}

/* ---- documents that fit the encoder, in their order -------------------------------------- */

enum { WINDOW = 256 }; /* documents at a time */

static int on_progress(double done, const char *what, void *user) {
  (void)done, (void)what;
  progress_step((size_t) * (const int *)user, "documents");
  return is_interrupted();
}

static void on_done(int document, const attend_summarized *one, void *user) {
  (void)document;
  (void)one;
  ++*(int *)user;
}

static int write_window(summarizer *s, const documents *docs, int first, int n,
                        attend_summaries **all) {
  attend_summarize_callbacks callbacks = {ATTEND_INIT(attend_summarize_callbacks)};
  int done = first;
  callbacks.progress = on_progress;
  callbacks.on_done = on_done;
  callbacks.user = &done;
  progress_start("summarizing", (size_t)docs->count);
  attend_status status = attend_summarize(s->s, n, docs->at + first, &callbacks, all);
  progress_end();
  return status && status != ATTEND_STOPPED ? complain_status(s->m.ctx, status) : EXIT_OK;
}

static int print_window(summary_printer *p, const documents *docs, int first, int n,
                        const attend_summaries *all) {
  for (int i = 0; i < n; i++) {
    printed one = {docs->name[first + i], first + i, attend_summaries_get(all, i), all, i};
    if (!summary_printer_put(p, &one)) break;
  }
  return p->code ? p->code : check_written(stdout, "the summaries");
}

/* Documents are printed in their order, a window of them at a time, in which
 * batches are of similar length. *shown is the first window, for --show. */
static int write_windows(const summarize_options *o, summarizer *s, const documents *docs,
                         attend_summaries **shown) {
  summary_printer p;
  int code = EXIT_OK;
  summary_printer_start(&p, o, s, docs->count);
  for (int first = 0; first < docs->count && !code && !is_interrupted(); first += WINDOW) {
    int n = docs->count - first < WINDOW ? docs->count - first : WINDOW;
    attend_summaries *all;
    code = write_window(s, docs, first, n, &all);
    if (!code) code = print_window(&p, docs, first, n, all);
    if (first)
      attend_summaries_free(all);
    else
      *shown = all;
  }
  return summary_printer_end(&p, code);
}

static int summarize_plain(const summarize_options *o) {
  summarizer s = {0};
  documents docs = {0};
  attend_summaries *first = NULL;
  int code = documents_read(o, &docs);
  if (!code) code = summarizer_open(&o->common, &o->model, &o->how, &s);
  if (!code) {
    interrupt_watch();
    code = write_windows(o, &s, &docs, &first);
  }
  if (!code && o->show && !is_interrupted() && docs.count)
    code = summary_show(o, &s, docs.at, attend_summaries_get(first, 0));
  attend_summaries_free(first);
  summarizer_close(&s);
  documents_free(&docs);
  return !code && is_interrupted() ? EXIT_INTERRUPTED : code;
}

/* ---- the verb -------------------------------------------------------------------- */

/* Checked before the work, which would be lost. */
static int check_out(const summarize_options *o) {
  static const char *const ends[] = {".html", ".svg", ".png", ".json", ".safetensors"};
  int n = o->show ? 5 : 1, i = 0;
  if (!o->out) return EXIT_OK;
  while (i < n && !path_ends(o->out, ends[i])) i++;
  if (i < n) return can_write(o->out) ? EXIT_OK : EXIT_FAILED;
  complain("with %s --out takes a name that ends in .html%s, not \"%s\"",
           o->show     ? "--show"
           : o->chunks ? "--long"
                       : "--extract",
           o->show ? ", .svg, .png, .json or .safetensors" : "", o->out);
  return EXIT_USAGE;
}

int cmd_summarize(int argc, char **argv) {
  summarize_options o = {.how = summary_defaults(), .rank = {ATTEND_INIT(attend_extract_options)}};
  options_read(&verb_summarize, argc, argv, &o);
  int code = check_out(&o);
  if (code) return code;
  if (o.chunks || o.linear) return summarize_long(&o);
  return o.extract ? summarize_extract(&o) : summarize_plain(&o);
}
