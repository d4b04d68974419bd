/* attend embed: vectors of texts, and their cosines.
 *
 * Lines are embedded in windows, so that memory does not grow with their number; vectors
 * are printed in the order of the input.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "embed/file.h"
#include "embed/open.h"
#include "embed/print.h"
#include "progress.h"
#include "table.h"
#include "text.h"

enum { WINDOW = 4096 }; /* lines at a time */

typedef struct {
  options common;
  model_options model;
  attend_embed_options embed;
  bool vectors;
  int top;
  const char *out, *query;
} embed_options;

typedef struct {
  const embed_options *o;
  model_opened m;
  attend_embedder *e;
  line_source in;
  embed_window window;
  size_t window_bytes, bytes; /* of text: of the window; before it */
  size_t texts, tokens, empty;
  double started;
  attend_json_writer w;
  vector_file file;
  float *query; /* its vector */
  nearest found;
} embed_run;

/* ---- options --------------------------------------------------------------------------- */

enum { KEY_POOL = 1000, KEY_RAW, KEY_VECTORS, KEY_MAX, KEY_OUT, KEY_SEARCH, KEY_TOP, KEY_LINES };

static const struct argp_option list[] = {
    {"pool", KEY_POOL, "HOW", 0,
     "Pool the vectors of the tokens: mean, cls (the first), last or max "
     "(default: as the folder says, else mean, of decoders last)",
     0},
    {"no-normalize", KEY_RAW, 0, 0, "Do not divide vectors by their length", 0},
    {"max-length", KEY_MAX, "N", 0,
     "Truncate texts to N tokens (default: as the folder says, else the "
     "model's positions)",
     0},
    {"vectors", KEY_VECTORS, 0, 0, "Print vectors, not cosines", 0},
    {"out", KEY_OUT, "FILE", 0, "Write the vectors to a safetensors file, as \"embeddings\"", 0},
    {"search", KEY_SEARCH, "QUERY", 0, "Print the texts nearest to QUERY", 0},
    {"top", KEY_TOP, "K", 0, "With --search: how many (default: 10)", 0},
    {"lines", KEY_LINES, 0, 0,
     "Each line of the standard input is a text (the default without TEXT)", 0},
    {0}};

static void check_options(const embed_options *o, struct argp_state *state) {
  if (o->top && !o->query) argp_error(state, "--top goes with --search");
  if (o->query && (o->out || o->vectors))
    argp_error(state, "--search prints texts: omit --out and --vectors");
}

static error_t parse(int key, char *arg, struct argp_state *state) {
  embed_options *o = state->input;
  switch (key) {
    case KEY_POOL:
      o->embed.pooling = attend_pooling_find(arg);
      if (!o->embed.pooling)
        argp_error(state, "--pool takes mean, cls, last or max, not \"%s\"", arg);
      return 0;
    case KEY_RAW:
      o->embed.no_normalize = true;
      return 0;
    case KEY_VECTORS:
      o->vectors = true;
      return 0;
    case KEY_MAX:
      o->embed.max_length = (int)options_number(state, "--max-length", arg, 1, INT32_MAX);
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
        "\vVectors have length 1 and do not depend on the other texts, down to "
        "the bits. Texts longer than the model reads are truncated, and their "
        "number is printed on the standard error.",
    .children = model_children};

/* ---- windows ------------------------------------------------------------------------ */

static int show_progress(double done, void *user) {
  const embed_run *run = user;
  double now = done * (double)run->window_bytes;
  if (run->window.count) progress_bytes(run->bytes + (size_t)now, 0);
  return 0;
}

static void make_window(embed_window *w, int rows, int width) {
  size_t room = (size_t)rows;
  *w = (embed_window){.room = rows, .width = width};
  w->text = need(room, sizeof(char *));
  w->length = need(room, sizeof *w->length);
  w->tokens = need(room, sizeof *w->tokens);
  w->vectors = need(room * (size_t)width, sizeof *w->vectors);
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
  while (w->count < w->room && line_next(&run->in, &text, &length)) {
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
      nearest_offer(&run->found, before + (size_t)i + 1, w, i);
    else if (o->common.json)
      put_embedding(&run->w, w, i, o->model.count);
    else if (o->vectors || (!o->out && o->model.count < 2))
      print_vector(w, i);
    if (o->out) code = vector_file_add(&run->file, vector_at(w, i));
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

/* ---- before and after --------------------------------------------------------------- */

static int start_search(embed_run *run) {
  const embed_options *o = run->o;
  int32_t tokens;
  run->query = need((size_t)run->window.width, sizeof *run->query);
  attend_status status = attend_embed_texts(run->e, 1, &o->query, NULL, run->query, &tokens);
  if (status) return complain_status(run->m.ctx, status);
  run->empty += tokens == 0;
  run->found.most = o->top ? o->top : 10;
  run->found.query = run->query;
  run->found.hits = need((size_t)run->found.most, sizeof(hit));
  return EXIT_OK;
}

static int start(embed_run *run) {
  const embed_options *o = run->o;
  int width = attend_embedder_width(run->e);
  run->in = (line_source){.words = o->model.words, .count = o->model.count};
  make_window(&run->window, o->model.count ? o->model.count : WINDOW, width);
  if (o->out) return vector_file_start(&run->file, run->m.ctx, o->out, width);
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

static int finish_file(embed_run *run) {
  const embed_options *o = run->o;
  attend_pooling pooling = attend_embedder_pooling(run->e);
  double seconds = seconds_now() - run->started;
  const char *metadata[] = {"model",  attend_config_family(attend_model_config(run->m.model)),
                            "pool",   attend_pooling_name(pooling),
                            "length", o->embed.no_normalize ? "any" : "1",
                            NULL};
  int code = vector_file_finish(&run->file, metadata);
  if (code || o->common.json || o->vectors) return code;
  printf("%zu texts of %zu tokens: [%zu, %d] in %s, %.1f texts/s\n", run->texts, run->tokens,
         run->file.rows, run->window.width, o->out, (double)run->texts / seconds);
  return EXIT_OK;
}

static int finish(embed_run *run) {
  const embed_options *o = run->o;
  int code = o->out ? finish_file(run) : EXIT_OK;
  print_warnings(run);
  if (o->query)
    code = nearest_print(&run->found, run->m.ctx, o->common.json);
  else if (!o->common.json && !o->out && !o->vectors && o->model.count > 1)
    code = print_cosines(&run->window);
  return code ? code : check_written(stdout, "the vectors");
}

static int embed(embed_run *run) {
  const embed_options *o = run->o;
  bool rows = o->common.json && !o->query;
  attend_embed_options embed_as = o->embed;
  embed_as.progress = show_progress;
  embed_as.user = run;
  int code = embedder_open(&o->common, &o->model, embed_as, &run->m, &run->e);
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
  embed_options o = {.embed = {ATTEND_INIT(attend_embed_options)}};
  embed_run run = {.o = &o};
  argp_parse(&argp, argc, argv, 0, NULL, &o);
  int code = embed(&run);
  free_window(&run.window);
  free(run.query);
  nearest_free(&run.found);
  vector_file_drop(&run.file);
  line_free(&run.in);
  attend_embedder_free(run.e);
  model_close(&run.m);
  return code;
}
