/* attend design: transformers designed by hand, checked, and beside learned ones. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "design/show.h"
#include "design/specs.h"
#include "table.h"

enum {
  KEY_ALL = 1700,
  KEY_LIST,
  KEY_SPEC,
  KEY_CHECK,
  KEY_LEAST,
  KEY_RUN,
  KEY_ARGMAX,
  KEY_SHARPNESS,
  KEY_LENGTH,
  KEY_INPUTS,
  KEY_LEARN,
  KEY_STEPS,
  KEY_RATE,
  KEY_BATCH,
  KEY_OUT,
  KEY_TERMINAL,
  KEY_OPEN,
  KEY_DARK,
  KEY_WIDTH
};

static const struct argp_option list[] = {
    {0, 0, 0, 0, "Which:", 1},
    {"all", KEY_ALL, 0, 0, "Every design that ships", 1},
    {"list", KEY_LIST, 0, 0, "Say what they are", 1},
    {"spec", KEY_SPEC, 0, 0, "Print the spec, to be changed", 1},
    {0, 0, 0, 0, "What:", 2},
    {"check", KEY_CHECK, 0, 0, "Only check it over all inputs", 2},
    {"least", KEY_LEAST, 0, 0, "Find the least sharpness that passes", 2},
    {"run", KEY_RUN, "INPUT", 0, "Answer one input", 2},
    {"argmax", KEY_ARGMAX, 0, 0, "Attend to the best key alone (default, without --sharpness)", 2},
    {"sharpness", KEY_SHARPNESS, "S", 0, "Softmax of S times the scores", 2},
    {"length", KEY_LENGTH, "N", 0, "Check inputs up to N letters", 2},
    {"max-inputs", KEY_INPUTS, "N", 0, "Refuse to check more inputs than N (default: 1000000)", 2},
    {0, 0, 0, 0, "The learned twin:", 3},
    {"learn", KEY_LEARN, 0, 0, "Train the same architecture on the same task", 3},
    {"steps", KEY_STEPS, "N", 0, "In all (default: the spec's)", 3},
    {"rate", KEY_RATE, "X", 0, "The largest (default: the spec's)", 3},
    {"batch", KEY_BATCH, "N", 0, "Inputs of a step (default: the spec's)", 3},
    {"seed", 's', "N", 0, "Seed of the random numbers (default: the spec's)", 3},
    {0, 0, 0, 0, "Where to:", 4},
    {"out", KEY_OUT, "FILE", 0,
     "Write FILE.safetensors (weights and spec), .svg, .png, .html (a page "
     "that needs nothing else) or .json",
     4},
    {"terminal", KEY_TERMINAL, 0, 0, "Draw the maps in the terminal", 4},
    {"open", KEY_OPEN, 0, 0, "Open the page in the browser", 4},
    {"dark", KEY_DARK, 0, 0, "Light on dark", 4},
    {"width", KEY_WIDTH, "PIXELS", 0, "Of a picture (default: 1200)", 4},
    {0}};

/* ---- options --------------------------------------------------------------------------- */

static double read_positive(struct argp_state *state, const char *name, const char *text,
                            double high) {
  char *end;
  double x = strtod(text, &end);
  if (end == text || *end || !(x > 0 && x <= high))
    argp_error(state, "%s takes a number above 0, up to %g, not \"%s\"", name, high, text);
  return x;
}

static error_t parse_numbers(int key, char *arg, struct argp_state *state) {
  design_options *o = state->input;
  switch (key) {
    case KEY_SHARPNESS:
      o->sharpness = read_positive(state, "--sharpness", arg, 1e6);
      return 0;
    case KEY_LENGTH:
      o->length = (int)options_number(state, "--length", arg, 1, 64);
      return 0;
    case KEY_INPUTS:
      o->most_inputs = (uint64_t)options_number(state, "--max-inputs", arg, 1, 1000000000000);
      return 0;
    case KEY_STEPS:
      o->steps = (int)options_number(state, "--steps", arg, 1, 1000000);
      return 0;
    case KEY_BATCH:
      o->batch = (int)options_number(state, "--batch", arg, 1, 4096);
      return 0;
    case KEY_RATE:
      o->rate = read_positive(state, "--rate", arg, 10);
      return 0;
    case 's':
      o->common.seed = (uint64_t)options_number(state, "--seed", arg, 0, INT64_MAX);
      o->has_seed = true;
      return 0;
    case KEY_WIDTH:
      o->width = (int)options_number(state, "--width", arg, 320, 8000);
      return 0;
    default:
      return ARGP_ERR_UNKNOWN;
  }
}

static bool *flag_of(design_options *o, int key) {
  switch (key) {
    case KEY_ALL:
      return &o->all;
    case KEY_LIST:
      return &o->list;
    case KEY_SPEC:
      return &o->spec;
    case KEY_CHECK:
      return &o->check;
    case KEY_LEAST:
      return &o->least;
    case KEY_ARGMAX:
      return &o->argmax;
    case KEY_LEARN:
      return &o->learn;
    case KEY_TERMINAL:
      return &o->terminal;
    case KEY_OPEN:
      return &o->open;
    case KEY_DARK:
      return &o->dark;
    default:
      return NULL;
  }
}

static void check_options(struct argp_state *state, const design_options *o) {
  if (!o->name && !o->all && !o->list)
    argp_error(state, "name a design or a file: --list says which there are");
  if (o->name && (o->all || o->list))
    argp_error(state, "\"%s\" is one of them: leave it or the option away", o->name);
  if (o->argmax && o->sharpness > 0) argp_error(state, "give one of --argmax and --sharpness");
  if (o->input && (o->all || o->check || o->least))
    argp_error(state, "--run answers one input of one design: nothing else");
  if (!o->learn && (o->steps || o->rate > 0 || o->batch || o->has_seed))
    argp_error(state, "--steps, --rate, --batch and --seed are of --learn");
}

static error_t parse(int key, char *arg, struct argp_state *state) {
  design_options *o = state->input;
  bool *flag = flag_of(o, key);
  if (flag) {
    *flag = true;
    return 0;
  }
  switch (key) {
    case ARGP_KEY_INIT:
      options_share(state, 2);
      return 0;
    case KEY_RUN:
      o->input = arg;
      return 0;
    case KEY_OUT:
      o->out = arg;
      return 0;
    case ARGP_KEY_ARG:
      if (o->name) argp_error(state, "one design at a time, or --all");
      o->name = arg;
      return 0;
    case ARGP_KEY_END:
      check_options(state, o);
      return 0;
    default:
      return parse_numbers(key, arg, state);
  }
}

static const struct argp_child children[] = {
    {&options_json, 0, NULL, 4}, {&options_run, 0, "How it runs:", 5}, {0}};
static const struct argp argp = {
    .options = list,
    .parser = parse,
    .args_doc = "NAME|FILE",
    .doc =
        "Transformers designed by hand: a spec becomes weights, which are "
        "checked over every input up to a length, run with argmax or softmax, "
        "and shown beside a twin that learned the same task."
        "\vNAME is one of those that ship (--list), FILE a spec in JSON or a "
        ".safetensors file that --out wrote. docs/design.md has the words of a "
        "spec. A design that is wrong for some input is refused with the first "
        "such input, and the exit status is 1.",
    .children = children};

/* ---- running ------------------------------------------------------------------------------- */

/* Everything requested, and what is always shown. */
static int find_out(designed *g, const design_options *o) {
  bool alone = o->check && !o->least && !o->learn;
  int code = design_check(g, o);
  if (!code && !alone && g->verdict.ok) code = design_least(g, o);
  if (!code && (!alone || g->has_learned)) code = design_learn(g, o);
  return code;
}

static int show(designed *g, const design_options *o) {
  int code = EXIT_OK;
  bool draw =
      o->terminal || (isatty(STDOUT_FILENO) && !o->out && !o->check && !o->least && !o->open);
  if (o->common.json)
    code = design_print_rows(g, 1, true, stdout);
  else
    design_print(g, stdout);
  if (!code && draw && !o->common.json) code = design_draw_terminal(g, o, stdout);
  if (!code) code = check_written(stdout, "the design");
  if (!g->verdict.ok) return design_refuse(g);
  if (!code && o->out) code = design_write(g, 1, o);
  if (!code && o->open) code = design_open_page(g, 1);
  return code;
}

static int one_design(attend_context *ctx, const design_options *o) {
  designed g;
  int code = design_open(ctx, o->name, &g);
  if (!code && o->spec) {
    fputs(g.facts.spec, stdout);
    code = check_written(stdout, "the spec");
  } else if (!code && o->input) {
    if (o->learn) code = design_learn(&g, o);
    if (!code) code = design_print_run(&g, o, stdout);
  } else if (!code) {
    code = find_out(&g, o);
    if (!code) code = show(&g, o);
  }
  design_close(&g);
  return code;
}

static int all_designs(attend_context *ctx, const design_options *o) {
  designed all[DESIGNS_MOST] = {{0}};
  design_spec s;
  int n = 0, code = EXIT_OK;
  bool ok = true;
  for (; !code && n < DESIGNS_MOST && design_spec_get(n, &s); n++) {
    code = design_open(ctx, s.name, &all[n]);
    if (!code) code = find_out(&all[n], o);
    ok &= all[n].verdict.ok && (!o->learn || all[n].learned.ok);
  }
  if (!code) code = design_print_rows(all, n, o->common.json, stdout);
  for (int i = 0; i < n && !code; i++) {
    if (!all[i].verdict.ok) design_refuse(&all[i]);
    if (o->learn && !all[i].learned.ok)
      complain(
          "the learned twin of \"%s\" is right in %.2f %% of its answers: "
          "give it more steps, or another seed",
          all[i].facts.name, 100 * all[i].learned.accuracy);
  }
  if (!code && !ok) code = EXIT_FAILED;
  if (!code && o->out) code = design_write(all, n, o);
  if (!code && o->open) code = design_open_page(all, n);
  for (int i = 0; i < n; i++) design_close(&all[i]);
  return code;
}

int cmd_design(int argc, char **argv) {
  design_options o = {.width = 1200};
  int code;
  argp_parse(&argp, argc, argv, 0, NULL, &o);
  if (o.list) {
    design_print_list(stdout);
    return check_written(stdout, "the list");
  }
  attend_context *ctx = options_context(&o.common, NULL, &code);
  if (!code) code = o.all ? all_designs(ctx, &o) : one_design(ctx, &o);
  attend_context_free(ctx);
  return code;
}
