/* attend embed: vectors of texts, and how alike texts are.
 *
 * Texts come in windows, so that memory does not grow with the number of lines; a
 * window is sorted into batches, and its vectors leave in the order of the input.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "embed/file.h"
#include "embed/lines.h"
#include "embed/open.h"
#include "embed/print.h"
#include "progress.h"
#include "table.h"

enum { WINDOW = 4096 }; /* lines at a time */

typedef struct {
  options common;
  model_options model;
  pooling pool;
  bool raw, vectors;
  int max_length, top;
  const char *out, *query;
} embed_options;

typedef struct {
  const embed_options *o;
  model_opened m;
  embedder e;
  line_source in;
  embed_text *texts; /* of the window */
  int count, window;
  size_t bytes; /* of text that became vectors */
  double started;
  attend_json_writer w;
  vector_file file;
  embed_text query;
  nearest found;
} embed_run;

/* ---- options --------------------------------------------------------------------------- */

enum {
  KEY_POOL = 1000,
  KEY_RAW,
  KEY_VECTORS,
  KEY_MAX,
  KEY_OUT,
  KEY_SEARCH,
  KEY_TOP,
  KEY_LINES
};

static const struct argp_option list[] = {
    {"pool", KEY_POOL, "HOW", 0,
     "One vector from those of the tokens: mean, cls (the first), last or max "
     "(default: what the folder says, else mean, of decoders last)",
     0},
    {"no-normalize", KEY_RAW, 0, 0, "Leave vectors as long as they are", 0},
    {"max-length", KEY_MAX, "N", 0,
     "Read N tokens of a text at most (default: what the folder says, else "
     "what the model was made for)",
     0},
    {"vectors", KEY_VECTORS, 0, 0, "Print vectors, not cosines", 0},
    {"out", KEY_OUT, "FILE", 0,
     "Write the vectors to a safetensors file, as \"embeddings\"", 0},
    {"search", KEY_SEARCH, "QUERY", 0, "Print the texts nearest to this", 0},
    {"top", KEY_TOP, "K", 0, "With --search: how many (default: 10)", 0},
    {"lines", KEY_LINES, 0, 0,
     "Each line of the standard input is a text (so it is without a TEXT)", 0},
    {0}};

static void check_options(const embed_options *o, struct argp_state *state) {
  if (o->top && !o->query) argp_error(state, "--top goes with --search");
  if (o->query && (o->out || o->vectors))
    argp_error(state, "--search prints texts: leave --out and --vectors away");
}

static error_t parse(int key, char *arg, struct argp_state *state) {
  embed_options *o = state->input;
  switch (key) {
    case KEY_POOL:
      o->pool = pooling_called(arg);
      if (!o->pool)
        argp_error(state, "--pool takes mean, cls, last or max, not \"%s\"",
                   arg);
      return 0;
    case KEY_RAW:
      o->raw = true;
      return 0;
    case KEY_VECTORS:
      o->vectors = true;
      return 0;
    case KEY_MAX:
      o->max_length =
          (int)options_number(state, "--max-length", arg, 1, INT32_MAX);
      return 0;
    case KEY_OUT:
      o->out = arg;
      return 0;
    case KEY_SEARCH:
      o->query = arg;
      return 0;
    case KEY_TOP:
      o->top = (int)options_number(state, "--top", arg, 1, 1000000);
      return 0;
    case KEY_LINES:
      return 0;
    case ARGP_KEY_END:
      check_options(o, state);
      return 0;
    default:
      return model_parse(key, state, &o->model);
  }
}

static const struct argp argp = {
    .options = list,
    .parser = parse,
    .args_doc = "MODEL [TEXT...]",
    .doc =
        "Vectors of texts. Two or more TEXTs are compared: a table of their "
        "cosines. Without a TEXT, each line of the standard input is one, and "
        "its vector is a line of numbers."
        "\vVectors have the length 1 and do not depend on the other texts, "
        "down to the bits. What is longer than the model reads is cut, and "
        "the standard error says how often.",
    .children = model_children};

/* ---- the model ---------------------------------------------------------------------------- */

static int open_model(embed_run *run) {
  const embed_options *o = run->o;
  run->e.pool = o->pool;
  run->e.max_length = o->max_length;
  run->e.raw = o->raw;
  return embedder_open(&o->common, &o->model, &run->m, &run->e);
}

/* ---- windows -------------------------------------------------------------------------------- */

static bool say_progress(size_t bytes, void *user) {
  embed_run *run = user;
  run->bytes += bytes;
  progress_bytes(run->bytes, 0);
  return true;
}

static attend_status fill_window(embed_run *run) {
  const char *text;
  size_t length;
  attend_status status = ATTEND_OK;
  for (int i = 0; i < run->count; i++) embed_give(&run->texts[i]);
  run->count = 0;
  while (!status && run->count < run->window &&
         line_next(&run->in, &text, &length)) {
    status = embed_take(&run->e, text, length, &run->texts[run->count]);
    run->count += !status;
  }
  return status;
}

static int put_window(embed_run *run, size_t before) {
  const embed_options *o = run->o;
  int width = run->e.width, code = EXIT_OK;
  for (int i = 0; i < run->count && !code; i++) {
    const embed_text *text = &run->texts[i];
    if (o->query)
      nearest_offer(&run->found, before + (size_t)i + 1, text);
    else if (o->common.json)
      put_embedding(&run->w, text, width, run->texts, o->model.count);
    else if (o->vectors || (!o->out && o->model.count < 2))
      print_vector(text, width);
    if (o->out) code = vector_file_add(&run->file, text->vector);
  }
  if (!code && ferror(stdout)) code = check_written(stdout, "the vectors");
  return code;
}

static int all_windows(embed_run *run) {
  int code = EXIT_OK;
  progress_start("embedding", line_bytes(&run->in));
  for (size_t before = 0; !code; before += (size_t)run->count) {
    attend_status status = fill_window(run);
    if (!status && run->count == 0) break;
    if (!status)
      status = embed_all(&run->e, run->texts, run->count, say_progress, run);
    progress_end();
    code = embedder_check(&run->e, status);
    if (!code) code = put_window(run, before);
    if (run->o->model.count) break; /* kept for the cosines */
  }
  progress_end();
  return code ? code : line_check(&run->in);
}

/* ---- before and after ------------------------------------------------------------------------ */

static int start(embed_run *run) {
  const embed_options *o = run->o;
  embedder *e = &run->e;
  run->in = (line_source){.words = o->model.words, .count = o->model.count};
  run->window = o->model.count ? o->model.count : WINDOW;
  run->texts = need((size_t)run->window, sizeof *run->texts);
  if (o->out)
    return vector_file_start(&run->file, run->m.ctx, o->out, e->width);
  if (!o->query) return EXIT_OK;
  attend_status status = embed_take(e, o->query, strlen(o->query), &run->query);
  if (!status) status = embed_all(e, &run->query, 1, NULL, NULL);
  int code = embedder_check(&run->e, status);
  if (code) return code;
  e->texts = e->tokens = 0;
  run->found.most = o->top ? o->top : 10;
  run->found.query = run->query.vector;
  run->found.width = e->width;
  run->found.hits = need((size_t)run->found.most, sizeof(hit));
  return EXIT_OK;
}

static void say_warnings(const embedder *e) {
  if (e->cut)
    complain("%zu of %zu texts %s cut to %d tokens: see --max-length", e->cut,
             e->texts, e->cut == 1 ? "was" : "were", e->max_length);
  if (e->empty)
    complain("%zu of %zu texts %s no tokens: zeros stand for %s", e->empty,
             e->texts, e->empty == 1 ? "has" : "have",
             e->empty == 1 ? "it" : "them");
}

static int finish_file(embed_run *run) {
  const embedder *e = &run->e;
  double seconds = seconds_now() - run->started;
  const char *notes[] = {"model",  attend_model_config(e->model)->family,
                         "pool",   pooling_name(e->pool),
                         "length", e->raw ? "any" : "1",
                         NULL};
  int code = vector_file_finish(&run->file, notes);
  if (code || run->o->common.json || run->o->vectors) return code;
  printf("%zu texts of %zu tokens: [%zu, %d] in %s, %.1f texts/s\n", e->texts,
         e->tokens, run->file.rows, e->width, run->o->out,
         (double)e->texts / seconds);
  return EXIT_OK;
}

static int finish(embed_run *run) {
  const embed_options *o = run->o;
  int code = o->out ? finish_file(run) : EXIT_OK;
  say_warnings(&run->e);
  if (o->query)
    code = nearest_print(&run->found, run->m.ctx, o->common.json);
  else if (!o->common.json && !o->out && !o->vectors && o->model.count > 1)
    code = print_cosines(run->texts, run->count, run->e.width);
  return code ? code : check_written(stdout, "the vectors");
}

static int embed(embed_run *run) {
  bool rows = run->o->common.json && !run->o->query;
  int code = open_model(run);
  run->started = seconds_now();
  if (!code) code = start(run);
  if (code) return code;
  if (rows) {
    run->w = attend_json_writer_file(run->m.ctx, stdout);
    attend_json_open(&run->w, '[');
  }
  code = all_windows(run);
  if (rows) {
    attend_json_indent(&run->w, true);
    attend_json_close(&run->w, ']');
    attend_status status = attend_json_finish(&run->w);
    if (status && !code) code = complain_status(run->m.ctx, status);
  }
  return code ? code : finish(run);
}

int cmd_embed(int argc, char **argv) {
  embed_options o = {0};
  embed_run run = {.o = &o};
  argp_parse(&argp, argc, argv, 0, NULL, &o);
  int code = embed(&run);
  for (int i = 0; i < run.count; i++) embed_give(&run.texts[i]);
  free(run.texts);
  embed_give(&run.query);
  nearest_free(&run.found);
  vector_file_drop(&run.file);
  line_free(&run.in);
  embedder_free(&run.e);
  model_close(&run.m);
  return code;
}
