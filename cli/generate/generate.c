/* attend generate: continue texts with a decoder, or answer them with an
 * encoder-decoder. print.c prints.
 */
#include "generate/generate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "progress.h"
#include "table.h"

enum { TOKENS = 256, MOST_TOKENS = 1 << 24, BEAM_OPTIONS = 1 };
#define TEMPERATURE 0.8f

/* ---- options ------------------------------------------------------------------------ */

#define COUNT(member, from) NUMBER(generate_options, member, from, MOST_TOKENS)
static const option_row own[] = {
    {.help = "Input:"},
    {"prompt", "TEXT",
     "The prompt, in place of the argument; may be repeated (default: the standard input, less its "
     "last newline; on a terminal, an empty prompt)",
     LIST(generate_options, prompts), .letter = 'p'},
    {"lines", NULL, "Each line of the standard input is a prompt", FLAG(generate_options, lines)},
    {"ids", "IDS", "Continue these token ids, and print ids: \"1 5 7\"",
     LIST(generate_options, ids)},
    {.help = "Output:"},
    {"tokens", "N", "Generate at most N tokens (default: 256)", COUNT(how.max_new, 1),
     .letter = 'n'},
    {"min", "N", "Do not end before N tokens", COUNT(how.min_new, 0)},
    {"stop", "TEXT", "End before this text; may be repeated", LIST(generate_options, stops)},
    {"ignore-end", NULL, "Never choose the model's end token",
     FLAG(generate_options, how.ignore_end)},
    {"echo", NULL, "Print the prompt first", FLAG(generate_options, echo)},
    {"samples", "N", "Generate N texts for each prompt (with --beams: the N best)",
     COUNT(how.samples, 1)},
    {"stats", NULL, "Print speed and memory on the standard error", FLAG(generate_options, stats)},
    {.help = "Choosing tokens:"},
    SAMPLING_ROWS(
        generate_options,
        "Sampling temperature (default: 0, greedy; 0.8 if another sampling option is given)",
        "Random seed: the same seed gives the same text (default: 0); `random' picks a "
        "new one and prints it"),
    {"repeat-penalty", "X", "Repetition penalty on tokens that occurred: 1 is none",
     REAL(generate_options, how.repetition, 0.01, 100)},
    {"no-repeat", "N", "Never repeat an n-gram of N tokens", COUNT(how.no_repeat, 0)},
    {"beams", "N", "Beam search with N beams", COUNT(how.beams, 1)},
    {"length-penalty", "X", "Compare beams by log probability / length^X (default: 1)",
     REAL(generate_options, how.length_penalty, -10, 10),
     MARK(generate_options, given, BEAM_OPTIONS)},
    {"early-stop", NULL, "Stop when N beams are finished", FLAG(generate_options, how.early_stop),
     MARK(generate_options, given, BEAM_OPTIONS)},
    {.help = "Context:"},
    {"context", "N", "Context length in tokens (default: the model's maximum)",
     COUNT(how.context, 2)},
    {"slide", NULL, "When the context is full, drop its older half and continue",
     FLAG(generate_options, slides)},
    {"batch", "N", "Sequences computed together (default: 8)", COUNT(how.batch, 1)},
    {.help = "How it runs:"},
    {0}};
static const option_part parts[] = {{own, 0},
                                    {option_rows_model_name, offsetof(generate_options, model)},
                                    {option_rows_model, offsetof(generate_options, model)},
                                    {option_rows_run, offsetof(generate_options, common)},
                                    {option_rows_json, offsetof(generate_options, common)},
                                    {0}};

/* Options that exclude each other. */
static void check(struct argp_state *state, const generate_options *o) {
  if (o->model.count && o->model.takes == MODEL_TAKES_NOTHING)
    argp_error(state, "the prompt is given twice: leave \"%s\" away", o->model.words[0]);
  if (o->model.count > 1)
    argp_error(state, "one prompt at a time: put quotes around it, or repeat --prompt");
  if (o->prompts.count && o->ids.count) argp_error(state, "take --prompt or --ids, not both");
  if (o->lines && o->prompts.count + o->ids.count)
    argp_error(state, "--lines reads the standard input: leave --prompt and --ids away");
  for (size_t i = 0; i < o->stops.count; i++)
    if (!*o->stops.text[i]) argp_error(state, "--stop takes a text that is not empty");
  if (o->how.min_new > o->how.max_new)
    argp_error(state, "--min %d is more than --tokens %d", o->how.min_new, o->how.max_new);
  if (o->how.beams == 1 && o->given & BEAM_OPTIONS)
    argp_error(state, "--length-penalty and --early-stop are for --beams");
  if (o->how.beams == 1) return;
  if (o->draw.given & (SAMPLING_SEED | SAMPLING_OTHER) || o->how.temperature > 0)
    sampling_refuse(state);
  if (o->slides) argp_error(state, "beams cannot --slide: take a longer --context");
  if (o->how.samples > o->how.beams)
    argp_error(state, "--samples %d cannot come from --beams %d", o->how.samples, o->how.beams);
}

static void finish(struct argp_state *state, char **words, int count, void *input) {
  generate_options *o = input;
  if (o->prompts.count || o->ids.count || o->lines) o->model.takes = MODEL_TAKES_NOTHING;
  model_words(state, words, count, &o->model);
  check(state, o);
  bool draws =
      o->draw.given & (SAMPLING_SEED | SAMPLING_OTHER) || (o->how.samples > 1 && o->how.beams == 1);
  sampling_settle(&o->draw, draws, TEMPERATURE, &o->how);
  if (o->slides) o->how.window = ATTEND_WINDOW_SLIDE;
  o->how.stops = o->stops.text;
  o->how.n_stops = (int)o->stops.count;
}

static const verb_options verb_generate = {
    parts, "[MODEL] [PROMPT]",
    "Continues a text, or with an encoder-decoder generates from one. The text is streamed to the "
    "standard output, which has nothing else. Without MODEL it is attend:gutenberg.\vDecoding is "
    "greedy unless a sampling option is "
    "given: --temp, --top-k, --top-p, --min-p, --seed, or several --samples. Samples depend only "
    "on the seed and the indices of prompt and sample. The first Ctrl-C ends the text and exits "
    "with 130; the second kills.",
    finish};

/* ---- prompts: before the model is loaded --------------------------------------------- */

static void add_prompt(generate_run *run, const char *text, size_t length) {
  size_t n = (size_t)run->n_prompts;
  if ((n & (n - 1)) == 0) /* doubles its capacity */
    run->prompt = need_more(run->prompt, n, n ? 2 * n : 1, sizeof *run->prompt);
  generate_prompt *p = &run->prompt[run->n_prompts++];
  p->text = memcpy(need(length + 1, 1), text, length);
  p->length = length;
}

/* The last line end comes from the shell or the editor, not from the author. */
static int read_input(generate_run *run) {
  size_t length = 0;
  int code = EXIT_OK;
  char *text = isatty(STDIN_FILENO) && !run->o->lines
                   ? need(1, 1)
                   : input_all(stdin, "the standard input", &length, &code);
  if (!run->o->lines) add_prompt(run, text, length - (length && text[length - 1] == '\n'));
  for (size_t at = 0, n; run->o->lines && at < length; at += n + 1) {
    const char *end = memchr(text + at, '\n', length - at);
    n = end ? (size_t)(end - text) - at : length - at;
    add_prompt(run, text + at, n);
  }
  free(text);
  return code;
}

static int gather(generate_run *run) {
  const text_list *given = run->is_ids ? &run->o->ids : &run->o->prompts;
  const model_options *m = &run->o->model;
  for (size_t i = 0; i < given->count; i++) add_prompt(run, given->text[i], strlen(given->text[i]));
  for (int i = 0; i < m->count; i++) add_prompt(run, m->words[i], strlen(m->words[i]));
  for (int i = 0; i < run->n_prompts && !run->is_ids; i++)
    if (text_check("the prompt", run->prompt[i].text, run->prompt[i].length)) return EXIT_USAGE;
  return run->n_prompts ? EXIT_OK : read_input(run);
}

/* ---- prompts as ids, truncated to the context ------------------------------------------ */

static int encode(const generate_run *run, attend_encoding *e, generate_prompt *p) {
  attend_prompt ids = {0};
  attend_status status = attend_prompt_encode(run->m.model, e, p->text, p->length, &ids);
  if (status) return complain_status(run->m.ctx, status);
  for (int i = 0; i < ids.count; i++) id_list_add(&p->ids, ids.ids[i]);
  return EXIT_OK;
}

static int read_numbers(generate_prompt *p) {
  int code = input_ids(p->text, &p->ids);
  free(p->text);
  p->text = NULL;
  return code;
}

static int begin_empty(const generate_run *run, generate_prompt *p) {
  int32_t begin = attend_begin_token(run->m.model, run->m.tokenizer);
  if (p->ids.count) return EXIT_OK;
  if (begin >= 0) {
    id_list_add(&p->ids, begin);
    return EXIT_OK;
  }
  complain("the model names no token that begins a text: give a prompt");
  return EXIT_USAGE;
}

static int check_context(const generate_run *run) {
  const attend_config *c = attend_model_config(run->m.model);
  int requested = run->o->how.context, made = attend_config_get(c, ATTEND_CONFIG_POSITIONS);
  if (!requested || !made || requested <= made) return EXIT_OK;
  if (attend_config_get(c, ATTEND_CONFIG_POSITION) == ATTEND_POSITIONS_LEARNED) {
    complain("--context %d is more than the %d positions that the model has", requested, made);
    return EXIT_USAGE;
  }
  complain("the model was made for %d tokens: beyond them quality may degrade", made);
  return EXIT_OK;
}

/* Keeps the last part, and the first token if it is the begin token: models rely on it
 * (attention sinks). */
static void keep_last(const generate_run *run, generate_prompt *p, const char *name) {
  int keep = run->context, gone = p->ids.count - keep;
  int front =
      p->ids.id[0] == attend_config_get(attend_model_config(run->m.model), ATTEND_CONFIG_BOS);
  memmove(p->ids.id + front, p->ids.id + gone + front, (size_t)(keep - front) * sizeof *p->ids.id);
  p->ids.count = keep;
  complain("%s is longer than the context of %d tokens: its first %d were left out", name, keep,
           gone);
}

static int fit(const generate_run *run, int i) {
  generate_prompt *p = &run->prompt[i];
  bool decoder = attend_config_parts(attend_model_config(run->m.model)) == ATTEND_DECODER;
  char name[32] = "the prompt";
  if (!run->context || p->ids.count <= run->context) return EXIT_OK;
  if (run->n_prompts > 1) snprintf(name, sizeof name, "prompt %d", i + 1);
  if (decoder && run->o->slides) {
    keep_last(run, p, name);
    return EXIT_OK;
  }
  complain("%s has %d tokens and the context holds %d: shorten it%s", name, p->ids.count,
           run->context, decoder ? ", or keep its last part with --slide" : "");
  return EXIT_USAGE;
}

static int encode_all(const generate_run *run) {
  attend_encoding *e = NULL;
  attend_status status = ATTEND_OK;
  int code = check_context(run);
  if (code) return code;
  if (!run->is_ids) status = attend_encoding_create(run->m.tokenizer, &e);
  if (status) return complain_status(run->m.ctx, status);
  for (int i = 0; i < run->n_prompts && !code; i++) {
    generate_prompt *p = &run->prompt[i];
    code = run->is_ids ? read_numbers(p) : encode(run, e, p);
    if (!code) code = begin_empty(run, p);
    if (!code) code = fit(run, i);
  }
  attend_encoding_free(e);
  return code;
}

/* ---- the verb --------------------------------------------------------------------------- */

/* Texts need the tokenizer; ids only for text output. */
static int open_tokenizer(generate_run *run) {
  bool needs = !run->is_ids || run->how.n_stops;
  if (!needs && !run->o->common.json) return EXIT_OK;
  attend_status status = attend_tokenizer_load(run->m.ctx, run->m.path, &run->m.tokenizer);
  if (!status || !needs) return EXIT_OK;
  complain("%s%s", attend_message(run->m.ctx),
           run->is_ids ? "" : "; --ids takes token ids instead");
  return EXIT_FAILED;
}

/* A begin token after the first one starts another text: treat it as an end. */
static void set_ends(generate_run *run) {
  const attend_config *c = attend_model_config(run->m.model);
  run->end = attend_config_get(c, ATTEND_CONFIG_BOS);
  run->how.tokenizer = run->m.tokenizer;
  if (attend_config_parts(c) != ATTEND_DECODER || attend_config_get(c, ATTEND_CONFIG_BOS) < 0)
    return;
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

static int generate(generate_run *run) {
  int code = gather(run);
  if (code) return code;
  if (!run->n_prompts) { /* --lines of nothing */
    if (run->o->common.json) puts("[]");
    return check_written(stdout, "JSON");
  }
  code = model_open(&run->o->common, &run->o->model, &run->m);
  if (!code) code = open_tokenizer(run);
  if (code) return code;
  run->context = run->how.context ? run->how.context
                                  : attend_config_get(attend_model_config(run->m.model),
                                                      ATTEND_CONFIG_POSITIONS);
  code = encode_all(run);
  if (code) return code;
  set_ends(run);
  return write_all(run);
}

int cmd_generate(int argc, char **argv) {
  generate_options o = {.how = {ATTEND_INIT(attend_generate_options), .max_new = TOKENS,
                                .samples = 1, .beams = 1, .repetition = 1, .length_penalty = 1}};
  generate_run run = {.o = &o};
  options_read(&verb_generate, argc, argv, &o);
  run.how = o.how;
  run.how.length_penalty = zero_or(o.how.length_penalty);
  run.is_ids = o.ids.count > 0;
  int code = generate(&run);
  for (int i = 0; i < run.n_prompts; i++) {
    free(run.prompt[i].text);
    free(run.prompt[i].ids.id);
  }
  free(run.prompt);
  model_close(&run.m);
  free(o.prompts.text);
  free(o.ids.text);
  free(o.stops.text);
  return code;
}
