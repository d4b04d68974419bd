/* attend design: transformers designed by hand, checked, and beside learned ones. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "design/show.h"
#include "progress.h"
#include "table.h"

/* ---- options ------------------------------------------------------------------------- */

/* A number above 0. */
static double read_positive(struct argp_state *state, const char *name, const char *text,
                            double high) {
  char *end;
  double x = strtod(text, &end);
  if (end == text || *end || !(x > 0 && x <= high))
    argp_error(state, "%s takes a number above 0, up to %g, not \"%s\"", name, high, text);
  return x;
}

static void take_sharpness(struct argp_state *state, const char *arg, void *value, void *input) {
  (void)input;
  *(double *)value = read_positive(state, "--sharpness", arg, 1e6);
}

static void take_rate(struct argp_state *state, const char *arg, void *value, void *input) {
  (void)input;
  *(double *)value = read_positive(state, "--rate", arg, 10);
}

static void take_seed(struct argp_state *state, const char *arg, void *value, void *input) {
  ((design_options *)input)->has_seed = true;
  *(uint64_t *)value = (uint64_t)options_number(state, "--seed", arg, 0, INT64_MAX);
}

#define TRAINING MARK(design_options, training, 1)

static const option_row rows[] = {
    {.help = "Which:"},
    {"all", NULL, "Every built-in design", FLAG(design_options, all)},
    {"list", NULL, "List the built-in designs", FLAG(design_options, list)},
    {"spec", NULL, "Print the spec", FLAG(design_options, spec)},
    {.help = "What:"},
    {"check", NULL, "Only check it over all inputs", FLAG(design_options, check)},
    {"least", NULL, "Find the least sharpness that passes", FLAG(design_options, min)},
    {"run", "INPUT", "Answer one input", TEXT(design_options, input)},
    {"argmax", NULL, "Attend to the best key alone (default, without --sharpness)",
     FLAG(design_options, argmax)},
    {"sharpness", "S", "Softmax of S times the scores",
     CALL(design_options, sharpness, take_sharpness)},
    {"length", "N", "Check inputs up to N letters", NUMBER(design_options, length, 1, 64)},
    {"max-inputs", "N", "Refuse to check more inputs than N (default: 1000000)",
     NUMBER(design_options, most_inputs, 1, 1000000000000)},
    {.help = "The learned twin:"},
    {"learn", NULL, "Train the same architecture on the same task", FLAG(design_options, learn)},
    {"steps", "N", "Number of steps (default: the spec's)",
     NUMBER(design_options, steps, 1, 1000000), TRAINING},
    {"rate", "X", "Peak learning rate (default: the spec's)", CALL(design_options, rate, take_rate),
     TRAINING},
    {"batch", "N", "Inputs per step (default: the spec's)", NUMBER(design_options, batch, 1, 4096),
     TRAINING},
    {"seed", "N", "Seed of the random numbers (default: the spec's)",
     CALL(design_options, common.seed, take_seed), TRAINING, .letter = 's'},
    {.help = "Output:"},
    {"out", "FILE",
     "Write FILE.safetensors (weights and spec), .svg, .png, .html (a page that needs nothing "
     "else) or .json",
     TEXT(design_options, out)},
    {"terminal", NULL, "Draw the maps in the terminal", FLAG(design_options, terminal)},
    {"open", NULL, "Open the page in the browser", FLAG(design_options, open)},
    {"dark", NULL, "Light on dark", FLAG(design_options, dark)},
    {"width", "PIXELS", "Of a picture (default: 1200)", NUMBER(design_options, width, 320, 8000)},
    {0}};

static void take_name(struct argp_state *state, char **words, int count, void *input) {
  design_options *o = input;
  if (count > 1) argp_error(state, "one design at a time, or --all");
  if (count) o->name = words[0];
  if (!o->name && !o->all && !o->list)
    argp_error(state, "name a design or a file: --list says which there are");
  if (o->name && (o->all || o->list))
    argp_error(state, "\"%s\" is one of them: leave it or the option away", o->name);
  if (o->argmax && o->sharpness > 0) argp_error(state, "give one of --argmax and --sharpness");
  if (o->input && (o->all || o->check || o->min))
    argp_error(state, "--run answers one input of one design: nothing else");
  if (!o->learn && o->training)
    argp_error(state, "--steps, --rate, --batch and --seed are of --learn");
}

static const option_row how_heading[] = {{.help = "How it runs:"}, {0}};
static const option_part parts[] = {{rows, 0},
                                    {option_rows_json, offsetof(design_options, common)},
                                    {how_heading, 0},
                                    {option_rows_run, offsetof(design_options, common)},
                                    {0}};
static const verb_options verb_design = {
    parts, "NAME|FILE",
    "Transformers designed by hand: a spec is compiled to weights, which are checked on every "
    "input up to a length, with argmax or softmax, and compared with a twin that learned the same "
    "task.\vNAME is one of those that ship (--list), FILE a spec in JSON or a .safetensors file "
    "that --out wrote. docs/design.md describes specs. A design that is wrong for some input is "
    "refused with the first such input, and the exit status is 1.",
    take_name};

/* ---- opening --------------------------------------------------------------------- */

static bool is_file(const char *name) {
  const char *dot = strrchr(name, '.');
  return strchr(name, '/') || (dot && (!strcmp(dot, ".json") || !strcmp(dot, ".safetensors")));
}

static int unknown(const char *name) {
  char list[200] = "";
  design_spec s;
  for (int i = 0; design_spec_get(i, &s); i++)
    snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s", i ? ", " : "", s.name);
  complain("there is no design \"%s\": name one of %s, or a file", name, list);
  return EXIT_USAGE;
}

static int open_design(attend_context *ctx, const char *name, designed *g) {
  design_spec s;
  attend_status status;
  int i = 0;
  *g = (designed){.ctx = ctx};
  if (is_file(name)) {
    status = attend_design_open(ctx, name, &g->d);
  } else {
    while (design_spec_get(i, &s) && strcmp(s.name, name)) i++;
    if (!design_spec_get(i, &s)) return unknown(name);
    status = attend_design_read(ctx, name, s.text, s.length, &g->d);
  }
  if (status) return complain_status(ctx, status);
  g->facts = *attend_design_about(g->d);
  g->r.seed = g->facts.seed;
  g->r.has_learned = attend_design_weights(g->d, ATTEND_LEARNED, NULL) != NULL;
  return EXIT_OK;
}

static void close_design(designed *g) {
  attend_design_free(g->d);
  g->d = NULL;
}

/* ---- checking -------------------------------------------------------------------- */

static attend_check_options check_options(const design_options *o) {
  return (attend_check_options){ATTEND_INIT(attend_check_options), .length = o->length,
                                .most_inputs = (uint64_t)o->most_inputs,
                                .progress = progress_report};
}

static int check_way(designed *g, const design_options *o, attend_design_variant variant,
                     attend_verdict *v) {
  attend_check_options c = check_options(o);
  char what[96];
  snprintf(what, sizeof what, "checking %s", g->facts.name);
  progress_start(what, 0);
  attend_status status = attend_design_check(g->d, variant, &c, v);
  progress_end();
  return status ? complain_status(g->ctx, status) : EXIT_OK;
}

static int check_design(designed *g, const design_options *o) {
  g->r.variant = (attend_design_variant){ATTEND_DESIGNED, o->sharpness};
  return check_way(g, o, g->r.variant, &g->r.verdict);
}

static int find_least(designed *g, const design_options *o) {
  attend_check_options c = check_options(o);
  progress_start("looking for the least sharpness", 0);
  attend_status status = attend_design_least(g->d, &c, &g->r.min);
  progress_end();
  g->r.has_least = !status;
  return status ? complain_status(g->ctx, status) : EXIT_OK;
}

static int refuse(const designed *g) {
  const attend_verdict *v = &g->r.verdict;
  char variant[64];
  complain(
      "\"%s\" is wrong with %s: for \"%s\" place %d should give \"%s\" "
      "and %s%s%s; %llu of %llu inputs fail",
      g->facts.name, attend_design_variant_text(g->r.variant, variant), v->input, v->place,
      v->expected, v->predicted ? "gives \"" : "is undecided", v->predicted ? v->predicted : "",
      v->predicted ? "\"" : "", (unsigned long long)v->wrong, (unsigned long long)v->inputs);
  return EXIT_FAILED;
}

/* ---- learning -------------------------------------------------------------------- */

static int train(designed *g, const design_options *o) {
  char what[96];
  attend_twin_options s = {ATTEND_INIT(attend_twin_options),
                           .steps = o->steps,
                           .batch = o->batch,
                           .rate = o->rate,
                           .has_seed = o->has_seed,
                           .seed = o->common.seed,
                           .progress = progress_report};
  snprintf(what, sizeof what, "%s learns", g->facts.name);
  progress_start(what, 0);
  double from = seconds_now();
  attend_status status = attend_design_learn(g->d, &s, &g->r.curve);
  progress_end();
  g->r.seconds = seconds_now() - from;
  g->r.trained = g->r.has_learned = !status;
  if (o->has_seed) g->r.seed = o->common.seed;
  return status ? complain_status(g->ctx, status) : EXIT_OK;
}

static int train_twin(designed *g, const design_options *o) {
  int code = o->learn ? train(g, o) : EXIT_OK;
  if (code || !g->r.has_learned) return code;
  code = check_way(g, o, (attend_design_variant){ATTEND_LEARNED, 1}, &g->r.learned);
  for (int i = 0; i < g->facts.heads && !code; i++) {
    attend_status status = attend_design_compare(g->d, o->sharpness, i, &g->r.like[i]);
    if (status) code = complain_status(g->ctx, status);
  }
  return code;
}

/* ---- running ------------------------------------------------------------------------------- */

/* Everything requested, and what is always shown. */
static int find_out(designed *g, const design_options *o) {
  bool alone = o->check && !o->min && !o->learn;
  int code = check_design(g, o);
  if (!code && !alone && g->r.verdict.ok) code = find_least(g, o);
  if (!code && (!alone || g->r.has_learned)) code = train_twin(g, o);
  return code;
}

static int show(designed *g, const design_options *o) {
  int code = EXIT_OK;
  bool draw = o->terminal || (isatty(STDOUT_FILENO) && !o->out && !o->check && !o->min && !o->open);
  if (o->common.json)
    code = design_print_rows(g, 1, true, stdout);
  else
    design_print(g, stdout);
  if (!code && draw && !o->common.json) code = design_draw_terminal(g, o, stdout);
  if (!code) code = check_written(stdout, "the design");
  if (!g->r.verdict.ok) return refuse(g);
  if (!code && o->out) code = design_write(g, 1, o);
  if (!code && o->open) code = design_open_page(g, 1);
  return code;
}

static int one_design(attend_context *ctx, const design_options *o) {
  designed g;
  int code = open_design(ctx, o->name, &g);
  if (!code && o->spec) {
    fputs(g.facts.spec, stdout);
    code = check_written(stdout, "the spec");
  } else if (!code && o->input) {
    if (o->learn) code = train_twin(&g, o);
    if (!code) code = design_print_run(&g, o, stdout);
  } else if (!code) {
    code = find_out(&g, o);
    if (!code) code = show(&g, o);
  }
  close_design(&g);
  return code;
}

static int all_designs(attend_context *ctx, const design_options *o) {
  designed all[DESIGNS_MOST] = {{0}};
  design_spec s;
  int n = 0, code = EXIT_OK;
  bool ok = true;
  for (; !code && n < DESIGNS_MOST && design_spec_get(n, &s); n++) {
    code = open_design(ctx, s.name, &all[n]);
    if (!code) code = find_out(&all[n], o);
    ok &= all[n].r.verdict.ok && (!o->learn || all[n].r.learned.ok);
  }
  if (!code) code = design_print_rows(all, n, o->common.json, stdout);
  for (int i = 0; i < n && !code; i++) {
    if (!all[i].r.verdict.ok) refuse(&all[i]);
    if (o->learn && !all[i].r.learned.ok)
      complain(
          "the learned twin of \"%s\" is right in %.2f %% of its answers: "
          "give it more steps, or another seed",
          all[i].facts.name, 100 * all[i].r.learned.accuracy);
  }
  if (!code && !ok) code = EXIT_FAILED;
  if (!code && o->out) code = design_write(all, n, o);
  if (!code && o->open) code = design_open_page(all, n);
  for (int i = 0; i < n; i++) close_design(&all[i]);
  return code;
}

int cmd_design(int argc, char **argv) {
  design_options o = {.width = 1200};
  int code;
  options_read(&verb_design, argc, argv, &o);
  if (o.list) {
    design_print_list(stdout);
    return check_written(stdout, "the list");
  }
  attend_context *ctx = options_context(&o.common, NULL, &code);
  if (!code) code = o.all ? all_designs(ctx, &o) : one_design(ctx, &o);
  attend_context_free(ctx);
  return code;
}
