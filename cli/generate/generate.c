/* attend generate: continue texts with a decoder, or answer them with an
 * encoder-decoder. prompts.c prepares the input, print.c the output.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "generate/generate.h"
#include "progress.h"
#include "sampling.h"
#include "table.h"

enum { TOKENS = 256, MOST_TOKENS = 1 << 24 };
#define TEMPERATURE 0.8f

/* Parser state of argp. */
typedef struct {
  generate_options o;
  sampling draw;
  bool beam_words;
} parsed;

/* ---- options ------------------------------------------------------------------------ */

enum {
  KEY_IDS = 1400,
  KEY_LINES,
  KEY_ECHO,
  KEY_MIN,
  KEY_IGNORE_END,
  KEY_STOP,
  KEY_CONTEXT,
  KEY_SLIDE,
  KEY_BATCH,
  KEY_REPEAT,
  KEY_NO_REPEAT,
  KEY_SAMPLES,
  KEY_BEAMS,
  KEY_LENGTH,
  KEY_EARLY,
  KEY_STATS
};

static const struct argp_option list[] = {
    {0, 0, 0, 0, "What goes in:", 1},
    {"prompt", 'p', "TEXT", 0,
     "Continue this; several are several prompts (default: the standard input, "
     "less its last line end; on a terminal, the beginning of a text)",
     1},
    {"lines", KEY_LINES, 0, 0, "Each line of the standard input is a prompt", 1},
    {"ids", KEY_IDS, "IDS", 0, "Continue these token ids, and print ids: \"1 5 7\"", 1},
    {0, 0, 0, 0, "What comes out:", 2},
    {"tokens", 'n', "N", 0, "Write N tokens at most (default: 256)", 2},
    {"min", KEY_MIN, "N", 0, "Do not end before N tokens", 2},
    {"stop", KEY_STOP, "TEXT", 0, "End before this text; may be repeated", 2},
    {"ignore-end", KEY_IGNORE_END, 0, 0, "Never take the model's end token", 2},
    {"echo", KEY_ECHO, 0, 0, "Print the prompt first", 2},
    {"samples", KEY_SAMPLES, "N", 0, "Write N texts for each prompt (with --beams: the N best)", 2},
    {"stats", KEY_STATS, 0, 0, "Print speed and memory on the standard error", 2},
    {0, 0, 0, 0, "How a token is chosen:", 3},
    SAMPLING_ROWS("Draw, with logits divided by T; 0 takes the best token "
                  "(default: 0, greedy; 0.8 if another sampling option is "
                  "given)",
                  "Random seed: the same seed gives the same text (default: "
                  "0); `random' picks a new one and prints it",
                  3),
    {"repeat-penalty", KEY_REPEAT, "X", 0, "Repetition penalty on tokens that occurred: 1 is none",
     3},
    {"no-repeat", KEY_NO_REPEAT, "N", 0, "Never repeat an n-gram of N tokens", 3},
    {"beams", KEY_BEAMS, "N", 0, "Beam search with N beams", 3},
    {"length-penalty", KEY_LENGTH, "X", 0,
     "Compare beams by log probability / length^X (default: 1)", 3},
    {"early-stop", KEY_EARLY, 0, 0, "Stop when N beams are finished", 3},
    {0, 0, 0, 0, "What the model sees:", 4},
    {"context", KEY_CONTEXT, "N", 0, "Context length in tokens (default: the model's maximum)", 4},
    {"slide", KEY_SLIDE, 0, 0, "When the context is full, drop its older half and continue", 4},
    {"batch", KEY_BATCH, "N", 0, "Sequences computed together (default: 8)", 4},
    {0}};

static int read_count(struct argp_state *state, const char *name, const char *text, int low) {
  return (int)options_number(state, name, text, low, MOST_TOKENS);
}

/* Lists on the command line grow one by one; they live as long as the program. */
static void add_word(const char ***words, int *count, const char *word) {
  size_t n = (size_t)(*count)++;
  *words = need_more(*words, n, n + 1, sizeof **words);
  (*words)[n] = word;
}

static bool parse_input(int key, char *arg, struct argp_state *state, parsed *a) {
  generate_options *o = &a->o;
  switch (key) {
    case 'p':
    case KEY_IDS:
      if (o->n_prompts && o->is_ids != (key == KEY_IDS))
        argp_error(state, "take --prompt or --ids, not both");
      o->is_ids = key == KEY_IDS;
      add_word(&o->prompts, &o->n_prompts, arg);
      return true;
    case KEY_LINES:
      o->lines = true;
      return true;
    case KEY_CONTEXT:
      o->how.context = read_count(state, "--context", arg, 2);
      return true;
    case KEY_SLIDE:
      o->how.window = ATTEND_WINDOW_SLIDE;
      return true;
    case KEY_BATCH:
      o->how.batch = read_count(state, "--batch", arg, 1);
      return true;
    default:
      return false;
  }
}

static bool parse_output(int key, char *arg, struct argp_state *state, parsed *a) {
  generate_options *o = &a->o;
  switch (key) {
    case 'n':
      o->how.max_new = read_count(state, "--tokens", arg, 1);
      return true;
    case KEY_MIN:
      o->how.min_new = read_count(state, "--min", arg, 0);
      return true;
    case KEY_STOP:
      if (!*arg) argp_error(state, "--stop takes a text that is not empty");
      add_word((const char ***)&o->how.stops, &o->how.n_stops, arg);
      return true;
    case KEY_IGNORE_END:
      o->how.ignore_end = true;
      return true;
    case KEY_ECHO:
      o->echo = true;
      return true;
    case KEY_SAMPLES:
      o->how.samples = read_count(state, "--samples", arg, 1);
      return true;
    case KEY_STATS:
      o->stats = true;
      return true;
    default:
      return false;
  }
}

static bool parse_choice(int key, char *arg, struct argp_state *state, parsed *a) {
  attend_generate_options *how = &a->o.how;
  switch (key) {
    case KEY_REPEAT:
      how->repetition = (float)options_real(state, "--repeat-penalty", arg, 0.01, 100);
      return true;
    case KEY_NO_REPEAT:
      how->no_repeat = read_count(state, "--no-repeat", arg, 0);
      return true;
    case KEY_BEAMS:
      how->beams = read_count(state, "--beams", arg, 1);
      return true;
    case KEY_LENGTH:
      how->length_penalty = (float)options_real(state, "--length-penalty", arg, -10, 10);
      a->beam_words = true;
      return true;
    case KEY_EARLY:
      how->early_stop = true;
      a->beam_words = true;
      return true;
    default:
      return false;
  }
}

/* Options that exclude each other. */
static void check(struct argp_state *state, const parsed *a) {
  const generate_options *o = &a->o;
  if (o->model.count)
    argp_error(state,
               "there is one model, and \"%s\" is another word: give a "
               "prompt with --prompt",
               o->model.words[0]);
  if (o->lines && o->n_prompts)
    argp_error(state,
               "--lines reads the standard input: leave --prompt and "
               "--ids away");
  if (o->how.min_new > o->how.max_new)
    argp_error(state, "--min %d is more than --tokens %d", o->how.min_new, o->how.max_new);
  if (o->how.beams == 1 && a->beam_words)
    argp_error(state, "--length-penalty and --early-stop are for --beams");
  if (o->how.beams == 1) return;
  if (a->draw.other || o->how.temperature > 0) sampling_refuse(state);
  if (o->how.window == ATTEND_WINDOW_SLIDE)
    argp_error(state, "beams cannot --slide: take a longer --context");
  if (o->how.samples > o->how.beams)
    argp_error(state, "--samples %d cannot come from --beams %d", o->how.samples, o->how.beams);
}

static error_t parse(int key, char *arg, struct argp_state *state) {
  parsed *a = state->input;
  if (parse_input(key, arg, state, a) || parse_output(key, arg, state, a) ||
      sampling_parse(key, arg, state, &a->draw, &a->o.how) || parse_choice(key, arg, state, a))
    return 0;
  switch (key) {
    case ARGP_KEY_END:
      check(state, a);
      return 0;
    default:
      return model_parse(key, state, &a->o.model);
  }
}

static const struct argp_child children[] = {{&options_json, 0, NULL, 2},
                                             {&options_run, 0, "", 6},
                                             {&options_model, 0, "How it runs:", 5},
                                             {0}};
static const struct argp argp = {
    .options = list,
    .parser = parse,
    .args_doc = "MODEL",
    .doc =
        "Continues a text, or with an encoder-decoder answers one. The text "
        "goes to the standard output as it comes, and nothing else does."
        "\vDecoding is greedy unless a sampling option is given: "
        "--temp, --top-k, --top-p, --min-p, --seed, or several --samples. "
        "Samples "
        "depend only on the seed and the indices of prompt and sample."
        " The first Ctrl-C ends the text and exits with 130, the second "
        "kills.",
    .children = children};

/* ---- main ----------------------------------------------------------------------------- */

static void settle(parsed *a) {
  attend_generate_options *how = &a->o.how;
  if (a->draw.other || (how->samples > 1 && how->beams == 1))
    sampling_settle(&a->draw, TEMPERATURE, how);
}

/* Texts need the tokenizer; ids only for text output. */
static int open_tokenizer(generate_run *run) {
  const generate_options *o = run->o;
  bool needs = !o->is_ids || o->how.n_stops;
  if (!needs && !o->common.json) return EXIT_OK;
  attend_status status = attend_tokenizer_load(run->m.ctx, run->m.path, &run->m.tokenizer);
  if (!status || !needs) return EXIT_OK;
  complain("%s%s", attend_message(run->m.ctx), o->is_ids ? "" : "; --ids takes token ids instead");
  return EXIT_FAILED;
}

/* A begin token after the first one starts another text: treat it as an end. */
static void set_ends(generate_run *run) {
  const attend_config *c = attend_model_config(run->m.model);
  run->end = c->bos;
  run->how.tokenizer = run->m.tokenizer;
  if (c->parts != ATTEND_DECODER || c->bos < 0) return;
  run->how.ends = &run->end;
  run->how.n_ends = 1;
}

static int write_all(generate_run *run) {
  attend_prompt *prompts = need((size_t)run->n_prompts, sizeof *prompts);
  attend_generation *g;
  for (int i = 0; i < run->n_prompts; i++)
    prompts[i] = (attend_prompt){run->prompt[i].ids.id, run->prompt[i].ids.count};
  print_start(run);
  interrupt_watch();
  attend_status status = attend_generate(run->m.model, run->n_prompts, prompts, &run->how, &g);
  int code = status ? complain_status(run->m.ctx, status) : print_end(run, g);
  attend_generation_free(g);
  free(run->done);
  free(prompts);
  return !code && is_interrupted() ? EXIT_INTERRUPTED : code;
}

static int print_nothing(const generate_run *run) {
  if (run->o->common.json) puts("[]");
  return check_written(stdout, "JSON");
}

static int generate(generate_run *run) {
  int code = prompts_gather(run);
  if (code) return code;
  if (!run->n_prompts) return print_nothing(run); /* --lines of nothing */
  code = model_open(&run->o->common, &run->o->model, &run->m);
  if (!code) code = open_tokenizer(run);
  if (code) return code;
  run->context = run->how.context ? run->how.context : attend_model_config(run->m.model)->positions;
  code = prompts_encode(run);
  if (code) return code;
  set_ends(run);
  return write_all(run);
}

int cmd_generate(int argc, char **argv) {
  parsed a = {.o.how = attend_generate_defaults()};
  generate_run run = {.o = &a.o};
  a.o.how.max_new = TOKENS;
  argp_parse(&argp, argc, argv, 0, NULL, &a);
  settle(&a);
  run.how = a.o.how;
  int code = generate(&run);
  prompts_free(&run);
  model_close(&run.m);
  free(a.o.prompts);
  free((void *)a.o.how.stops);
  return code;
}
