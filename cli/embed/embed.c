/* attend embed: vectors of texts, their cosines, and the nearest texts (attend/embed.h).
 *
 * Lines are embedded in windows, so that memory does not grow with their number; vectors
 * are printed in the order of the input.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "attend/embed.h"
#include "attend/file.h"
#include "embed/word.h"
#include "model_open.h"
#include "progress.h"
#include "table.h"
#include "text.h"

enum { WINDOW = 4096, NEAREST = 10 }; /* lines at a time; results of --search */

typedef struct {
  options common;
  model_options model;
  attend_embed_options embed;
  bool raw, vectors, lines;
  int top;
  const char *out, *query, *word;
} embed_options;

typedef struct { /* texts that are embedded together */
  char **text;   /* [capacity] */
  size_t *length;
  int32_t *tokens;
  float *vectors; /* [capacity][width] */
  int count, capacity, width;
} embed_window;

typedef struct {
  double cosine;
  size_t number; /* of the text, from 1 */
  char *text;
} hit;

typedef struct {
  const embed_options *o;
  model_opened m;
  attend_embedder *e;
  line_source in;
  embed_window window;
  size_t window_bytes, bytes; /* of text: of the window; before it */
  size_t texts, tokens, empty;
  double started;
  json_writer w;
  attend_draft *draft; /* of --out; NULL: not open */
  size_t rows;         /* written to it */
  float *query;        /* [width] the vector of --search */
  hit *hits;           /* [most], best first; the earlier one where cosines are equal */
  int found, max;
} embed_run;

static const float *vector_at(const embed_window *w, int i) {
  return w->vectors + (size_t)i * (size_t)w->width;
}

/* ---- options --------------------------------------------------------------------------- */

static void take_pooling(struct argp_state *state, const char *arg, void *value, void *input) {
  attend_pooling *pooling = value;
  (void)input;
  *pooling = attend_pooling_find(arg);
  if (!*pooling) argp_error(state, "--pool takes mean, cls, last or max, not \"%s\"", arg);
}

static const option_row own[] = {
    {"pool", "HOW",
     "Pool the vectors of the tokens: mean, cls (the first), last or max (default: as the folder "
     "says, else mean, of decoders last)",
     CALL(embed_options, embed.pooling, take_pooling)},
    {"no-normalize", NULL, "Do not divide vectors by their length", FLAG(embed_options, raw)},
    {"max-length", "N",
     "Truncate texts to N tokens (default: as the folder says, else the model's positions)",
     NUMBER(embed_options, embed.max_length, 1, INT32_MAX)},
    {"vectors", NULL, "Print vectors, not cosines", FLAG(embed_options, vectors)},
    {"out", "FILE", "Write the vectors to a safetensors file, as \"embeddings\"",
     TEXT(embed_options, out)},
    {"word", "WORD",
     "Of two TEXTs that have WORD: the cosines of its vectors in both, by layer: hidden states "
     "before the layer, and queries, keys and values, mean over heads",
     TEXT(embed_options, word)},
    {"search", "QUERY", "Print the texts nearest to QUERY", TEXT(embed_options, query)},
    {"top", "K", "With --search: how many (default: 10)", NUMBER(embed_options, top, 1, 1000000)},
    {"lines", NULL, "Each line of the standard input is a text (the default without TEXT)",
     FLAG(embed_options, lines)},
    {0}};
static const option_part parts[] = {{own, 0},
                                    {option_rows_json, offsetof(embed_options, common)},
                                    {option_rows_run, offsetof(embed_options, common)},
                                    {option_rows_model_name, offsetof(embed_options, model)},
                                    {option_rows_model, offsetof(embed_options, model)},
                                    {0}};

static void finish(struct argp_state *state, char **words, int count, void *input) {
  embed_options *o = input;
  model_words(state, words, count, &o->model);
  if (o->query && text_check("the query", o->query, strlen(o->query))) exit(EXIT_USAGE);
  o->embed.no_normalize = o->raw;
  if (o->top && !o->query) argp_error(state, "--top goes with --search");
  if (o->word && (o->out || o->vectors || o->query))
    argp_error(state, "--word prints cosines: omit --out, --vectors and --search");
  if (o->word && o->model.count != 2)
    argp_error(state, "--word compares two texts: give two after MODEL");
  if (o->word && o->model.attention)
    argp_error(state, "--word reads the texts with the model's own attention: omit --attention");
  if (o->query && (o->out || o->vectors))
    argp_error(state, "--search prints texts: omit --out and --vectors");
}

static const verb_options verb_embed = {
    parts, "[MODEL] [TEXT...]",
    "Vectors of texts, by MODEL or a pulled encoder. Two or more TEXTs are compared: a table of "
    "their cosines. Without a TEXT, "
    "each line of the standard input is one, and its vector is a line of numbers."
    "\vVectors have length 1 and do not depend on the other texts, down to the bits. Texts longer "
    "than the model reads are truncated, and their number is printed on the standard error.",
    finish};

/* ---- a file of vectors ------------------------------------------------------------------ */

/* The header has the number of rows, which is known at the end: space is reserved for it
 * and padded with spaces, as the format allows. Until the file is complete, and after a
 * failure, an older one is as it was. */
enum { HEADER = 1024 - 8 }; /* rows begin at a cache line */

static int start_file(embed_run *run) {
  static const char reserved[8 + HEADER];
  const char *path = run->o->out;
  struct stat about;
  if (!stat(path, &about) && !S_ISREG(about.st_mode)) { /* cannot seek to the header */
    complain("%s is not a plain file: name one to write the vectors to", path);
    return EXIT_FAILED;
  }
  attend_status status = attend_draft_open(run->m.ctx, path, &run->draft);
  if (!status) status = attend_draft_put(run->draft, reserved, sizeof reserved);
  return status ? complain_status(run->m.ctx, status) : EXIT_OK;
}

static int add_vector(embed_run *run, const float *vector) {
  attend_status status =
      attend_draft_put(run->draft, vector, (size_t)run->window.width * sizeof *vector);
  run->rows++;
  return status ? complain_status(run->m.ctx, status) : EXIT_OK;
}

static void put_pair(json_writer *w, const char *name, size_t a, size_t b) {
  json_member(w, name);
  json_open(w, '[');
  json_put_integer(w, (int64_t)a);
  json_put_integer(w, (int64_t)b);
  json_close(w, ']');
}

static void put_header(const embed_run *run, json_writer *w) {
  size_t width = (size_t)run->window.width;
  json_open(w, '{');
  json_member(w, "__metadata__");
  json_open(w, '{');
  json_member_string(w, "model", attend_config_family(attend_model_config(run->m.model)));
  json_member_string(w, "pool", attend_pooling_name(attend_embedder_pooling(run->e)));
  json_member_string(w, "length", run->o->raw ? "any" : "1");
  json_close(w, '}');
  json_member(w, "embeddings");
  json_open(w, '{');
  json_member_string(w, "dtype", "F32");
  put_pair(w, "shape", run->rows, width);
  put_pair(w, "data_offsets", 0, run->rows * width * sizeof(float));
  json_close(w, '}');
  json_close(w, '}');
}

static int finish_file(embed_run *run) {
  const embed_options *o = run->o;
  unsigned char header[8 + HEADER];
  double seconds = seconds_now() - run->started;
  json_writer w = json_writer_text(run->m.ctx);
  put_header(run, &w);
  attend_status status = json_finish(&w);
  if (!status) {
    memset(header, ' ', sizeof header); /* the JSON has some 200 bytes */
    for (int i = 0; i < 8; i++) header[i] = (unsigned char)((uint64_t)HEADER >> 8 * i);
    memcpy(header + 8, w.text, w.length < HEADER ? w.length : HEADER);
    rewind(attend_draft_file(run->draft));
    status = attend_draft_put(run->draft, header, sizeof header);
  }
  json_writer_free(&w);
  if (!status) {
    status = attend_draft_keep(run->draft);
    run->draft = NULL;
  }
  if (status) return complain_status(run->m.ctx, status);
  if (!o->common.json && !o->vectors)
    printf("%zu texts of %zu tokens: [%zu, %d] in %s, %.1f texts/s\n", run->texts, run->tokens,
           run->rows, run->window.width, o->out, (double)run->texts / seconds);
  return EXIT_OK;
}

/* ---- cosines ---------------------------------------------------------------------------- */

enum { CELL = 7, LEAST_TEXT = 16 };

/* Of the 256 colours, by rising cosine; NULL: none. */
static const char *colour_of(double cosine) {
  static const char *const rising[] = {"\033[48;5;236m", "\033[48;5;22m", "\033[48;5;28m",
                                       "\033[30;48;5;34m", "\033[30;48;5;40m"};
  if (cosine < -0.1) return "\033[48;5;52m";
  if (cosine < 0.1) return NULL;
  int step = (int)((cosine - 0.1) / 0.18);
  return rising[step > 4 ? 4 : step];
}

static void print_cell(double cosine, bool colourful) {
  const char *colour = colourful ? colour_of(cosine) : NULL;
  if (colour) fputs(colour, stdout);
  /* no "-0.000" */
  printf("%*.3f", CELL, fabs(cosine) < 0.0005 ? 0.0 : cosine);
  if (colour) fputs("\033[0m", stdout);
}

/* A row and a column for each text; coloured on a terminal. */
static int print_cosines(const embed_window *window) {
  int n = window->count;
  bool colourful = is_colourful(stdout);
  int columns = terminal_columns(stdout), left = columns - CELL * n - 6;
  int shown = !columns ? 1 << 20 : left < LEAST_TEXT ? LEAST_TEXT : left;
  printf("    ");
  for (int j = 0; j < n; j++) printf("%*d", CELL, j + 1);
  putchar('\n');
  for (int i = 0; i < n; i++) {
    printf("%4d", i + 1);
    for (int j = 0; j < n; j++)
      print_cell(attend_cosine(vector_at(window, i), vector_at(window, j), window->width),
                 colourful);
    char *text = text_on_a_line(window->text[i], window->length[i]);
    fputs("  ", stdout);
    text_print_cut(stdout, text, shown);
    putchar('\n');
    free(text);
  }
  return check_written(stdout, "the table");
}

/* ---- vectors ---------------------------------------------------------------------------- */

/* One line of numbers that read back as the same floats. */
static void print_vector(const embed_window *window, int i) {
  const float *vector = vector_at(window, i);
  for (int j = 0; j < window->width; j++) printf("%s%.9g", j ? " " : "", (double)vector[j]);
  putchar('\n');
}

/* Nine digits identify a float; as a double it would be written with seventeen. */
static double nine_digits(float x) {
  char text[32];
  snprintf(text, sizeof text, "%.9g", (double)x);
  return strtod(text, NULL);
}

static void put_cosines(json_writer *w, const embed_window *window, int i) {
  json_member(w, "cosines");
  json_open(w, '[');
  for (int j = 0; j < window->count; j++)
    json_put_number(w, nine_digits((float)attend_cosine(vector_at(window, i), vector_at(window, j),
                                                        window->width)));
  json_close(w, ']');
}

/* One object: text, tokens, vector, and its cosines with all texts if `cosines`. */
static void put_embedding(json_writer *w, const embed_window *window, int i, bool cosines) {
  json_row_open(w);
  json_member(w, "text");
  json_put_bytes(w, window->text[i], window->length[i]);
  json_member_number(w, "tokens", window->tokens[i]);
  json_member(w, "vector");
  json_open(w, '[');
  for (int j = 0; j < window->width; j++) json_put_number(w, nine_digits(vector_at(window, i)[j]));
  json_close(w, ']');
  if (cosines) put_cosines(w, window, i);
  json_close(w, '}');
}

/* ---- the nearest ------------------------------------------------------------------------- */

static int start_search(embed_run *run) {
  const embed_options *o = run->o;
  int32_t tokens;
  run->query = need((size_t)run->window.width, sizeof *run->query);
  attend_status status = attend_embed_texts(run->e, 1, &o->query, NULL, run->query, &tokens);
  if (status) return complain_status(run->m.ctx, status);
  run->empty += tokens == 0;
  run->max = o->top ? o->top : NEAREST;
  run->hits = need((size_t)run->max, sizeof *run->hits);
  return EXIT_OK;
}

/* number: of text i of the window, from 1. */
static void offer_hit(embed_run *run, size_t number, int i) {
  const embed_window *window = &run->window;
  double cosine = attend_cosine(run->query, vector_at(window, i), window->width);
  int at = run->found;
  while (at > 0 && run->hits[at - 1].cosine < cosine) at--;
  if (at == run->max) return;
  if (run->found == run->max) free(run->hits[--run->found].text);
  memmove(run->hits + at + 1, run->hits + at, (size_t)(run->found - at) * sizeof *run->hits);
  run->hits[at] = (hit){cosine, number, text_on_a_line(window->text[i], window->length[i])};
  run->found++;
}

static const column columns[] = {{"rank", "rank", CELL_COUNT},
                                 {"cosine", "cosine", CELL_RATIO},
                                 {"line", "line", CELL_COUNT},
                                 {"text", "text", CELL_TEXT},
                                 {NULL, NULL, CELL_TEXT}};

static int print_hits(const embed_run *run) {
  table t = table_start(columns);
  for (int i = 0; i < run->found; i++) {
    const hit *h = &run->hits[i];
    table_add(&t, (cell[]){cell_number(i + 1), cell_number(h->cosine),
                           cell_number((double)h->number), cell_text(h->text)});
  }
  int code =
      run->o->common.json ? table_print_json(&t, run->m.ctx, stdout) : table_print(&t, stdout);
  table_free(&t);
  return code;
}

/* ---- windows ------------------------------------------------------------------------ */

static int show_progress(double done, const char *what, void *user) {
  (void)what;
  const embed_run *run = user;
  double now = done * (double)run->window_bytes;
  if (run->window.count) progress_bytes(run->bytes + (size_t)now, 0);
  return 0;
}

static void make_window(embed_window *w, int rows, int width) {
  size_t capacity = (size_t)rows;
  *w = (embed_window){.capacity = rows, .width = width};
  w->text = need(capacity, sizeof(char *));
  w->length = need(capacity, sizeof *w->length);
  w->tokens = need(capacity, sizeof *w->tokens);
  w->vectors = need(capacity * (size_t)width, sizeof *w->vectors);
}

static void empty_window(embed_window *w) {
  for (int i = 0; i < w->count; i++) free(w->text[i]);
  w->count = 0;
}

static void free_window(embed_window *w) {
  empty_window(w);
  free(w->text);
  free(w->length);
  free(w->tokens);
  free(w->vectors);
}

static void fill_window(embed_run *run) {
  embed_window *w = &run->window;
  const char *text;
  size_t length;
  empty_window(w);
  run->bytes += run->window_bytes;
  run->window_bytes = 0;
  while (w->count < w->capacity && line_next(&run->in, &text, &length)) {
    w->text[w->count] = text_copy(text, length);
    w->length[w->count++] = length;
    run->window_bytes += length;
  }
}

static int embed_texts(embed_run *run) {
  embed_window *w = &run->window;
  attend_status status = attend_embed_texts(run->e, w->count, (const char *const *)w->text,
                                            w->length, w->vectors, w->tokens);
  progress_end();
  if (status) return complain_status(run->m.ctx, status);
  run->texts += (size_t)w->count;
  for (int i = 0; i < w->count; i++) {
    run->tokens += (size_t)w->tokens[i];
    run->empty += w->tokens[i] == 0;
  }
  return EXIT_OK;
}

/* before: texts of the windows before. */
static int put_window(embed_run *run, size_t before) {
  const embed_options *o = run->o;
  const embed_window *w = &run->window;
  int code = EXIT_OK;
  for (int i = 0; i < w->count && !code; i++) {
    if (o->query)
      offer_hit(run, before + (size_t)i + 1, i);
    else if (o->common.json)
      put_embedding(&run->w, w, i, o->model.count);
    else if (o->vectors || (!o->out && o->model.count < 2))
      print_vector(w, i);
    if (o->out) code = add_vector(run, vector_at(w, i));
  }
  if (!code && ferror(stdout)) code = check_written(stdout, "the vectors");
  return code;
}

static int all_windows(embed_run *run) {
  int code = EXIT_OK;
  progress_start("embedding", line_bytes(&run->in));
  for (size_t before = 0; !code; before = run->texts) {
    fill_window(run);
    if (!run->window.count) break;
    code = embed_texts(run);
    if (!code) code = put_window(run, before);
    if (run->o->model.count) break; /* kept for the cosines */
  }
  progress_end();
  return code ? code : line_check(&run->in);
}

/* ---- the verb ---------------------------------------------------------------------- */

static int start(embed_run *run) {
  const embed_options *o = run->o;
  int width = attend_embedder_width(run->e);
  run->started = seconds_now();
  run->in = (line_source){.words = o->model.words, .count = o->model.count};
  make_window(&run->window, o->model.count ? o->model.count : WINDOW, width);
  if (o->out) return start_file(run);
  return o->query ? start_search(run) : EXIT_OK;
}

static void print_warnings(const embed_run *run) {
  size_t truncated = attend_embedder_truncated(run->e), empty = run->empty;
  if (truncated)
    complain("%zu of %zu texts %s truncated to %d tokens: see --max-length", truncated, run->texts,
             truncated == 1 ? "was" : "were", attend_embedder_max_length(run->e));
  if (empty)
    complain("%zu of %zu texts %s no tokens: %s zeros", empty, run->texts,
             empty == 1 ? "has" : "have", empty == 1 ? "its vector is" : "their vectors are");
}

static int finish_all(embed_run *run) {
  const embed_options *o = run->o;
  int code = o->out ? finish_file(run) : EXIT_OK;
  print_warnings(run);
  if (o->query)
    code = print_hits(run);
  else if (!o->common.json && !o->out && !o->vectors && o->model.count > 1)
    code = print_cosines(&run->window);
  return code ? code : check_written(stdout, "the vectors");
}

static int open_model(embed_run *run) {
  model_options model = run->o->model;
  attend_embed_options how = run->o->embed;
  model.no_head = model.text = true;
  int code = model_open(&run->o->common, &model, &run->m);
  if (code) return code;
  how.folder = run->m.path;
  how.progress = show_progress;
  how.user = run;
  attend_status status = attend_embedder_create(run->m.model, run->m.tokenizer, &how, &run->e);
  return status ? complain_status(run->m.ctx, status) : EXIT_OK;
}

static int embed(embed_run *run) {
  bool rows = run->o->common.json && !run->o->query;
  int code = open_model(run);
  if (!code) code = start(run);
  if (code) return code;
  if (rows) run->w = json_rows_open(run->m.ctx);
  code = all_windows(run);
  int closed = rows ? json_rows_close(&run->w, run->m.ctx) : EXIT_OK;
  if (!code) code = closed;
  return code ? code : finish_all(run);
}

int cmd_embed(int argc, char **argv) {
  embed_options o = {.model.use = MODEL_EMBEDS, .embed = {ATTEND_INIT(attend_embed_options)}};
  embed_run run = {.o = &o};
  options_read(&verb_embed, argc, argv, &o);
  if (o.word) return embed_word(&o.common, &o.model, o.word);
  int code = embed(&run);
  free_window(&run.window);
  for (int i = 0; i < run.found; i++) free(run.hits[i].text);
  free(run.hits);
  free(run.query);
  attend_draft_drop(run.draft);
  line_free(&run.in);
  attend_embedder_free(run.e);
  model_close(&run.m);
  return code;
}
