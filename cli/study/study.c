/* attend study: a question about attention, answered by a measurement.
 *
 * Its options are those of the topic: the list is made once the topic is known.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "folders.h"
#include "model_open.h"
#include "progress.h"
#include "study/study.h"

enum {
  KEY_OUT = 1900,
  KEY_FIGURE,
  KEY_QUICK,
  KEY_OPEN,
  KEY_CLAIMS,
  KEY_SETTING, /* and those after it: the topic's */
  MOST_SETTINGS = 40
};

static const struct argp_option shared[] = {
    {0, 0, 0, 0, "Where to:", 2},
    {"out", KEY_OUT, "FILE", 0,
     "Write FILE.html (a page that needs nothing else), .json, .svg (one "
     "plot), or a folder with all of them",
     2},
    {"figure", KEY_FIGURE, "NAME", 0, "Which plot, for an .svg", 2},
    {"open", KEY_OPEN, 0, 0, "Open the page in the browser", 2},
    {"claims", KEY_CLAIMS, 0, 0, "Print every prediction beside what was measured", 2},
    {0, 0, 0, 0, "How it runs:", 3},
    {"quick", KEY_QUICK, 0, 0, "Smaller sizes, where none are given", 3},
    {0}};

/* For argp: options that are made here need memory that outlives the call. */
typedef struct {
  study_options o;
  const attend_study *study; /* NULL: none, or all */
} asked;

static const char *name_of(const asked *a, int key) {
  return a->study->settings[key - KEY_SETTING].name;
}

static void check(struct argp_state *state, const study_options *o) {
  if (!o->topic && (o->out || o->open || o->quick || o->claims))
    argp_error(state, "name a topic, or all: attend study lists them");
  if (o->figure && !(o->out && path_ends(o->out, ".svg")))
    argp_error(state, "--figure says which plot --out FILE.svg takes");
  if (o->topic && !strcmp(o->topic, "all") && o->out && path_ends(o->out, ".svg"))
    argp_error(state, "all studies have many plots: give --out a folder");
}

static error_t parse(int key, char *arg, struct argp_state *state) {
  asked *a = state->input;
  study_options *o = &a->o;
  if (key >= KEY_SETTING && key < KEY_SETTING + MOST_SETTINGS) {
    o->settings = need_more(o->settings, o->count, o->count + 1, sizeof *o->settings);
    o->settings[o->count++] = (attend_setting_value){.name = name_of(a, key), .value = arg};
    return 0;
  }
  switch (key) {
    case ARGP_KEY_INIT:
      options_share(state, 3);
      return 0;
    case KEY_OUT:
      o->out = arg;
      return 0;
    case KEY_FIGURE:
      o->figure = arg;
      return 0;
    case KEY_QUICK:
      o->quick = true;
      return 0;
    case KEY_OPEN:
      o->open = true;
      return 0;
    case KEY_CLAIMS:
      o->claims = true;
      return 0;
    case ARGP_KEY_ARG:
      if (o->topic) argp_error(state, "one topic at a time, or all");
      if (strcmp(arg, "all") && !attend_study_find(arg))
        argp_error(state, "there is no study \"%s\": attend study lists them", arg);
      o->topic = arg;
      return 0;
    case ARGP_KEY_END:
      check(state, o);
      return 0;
    default:
      return ARGP_ERR_UNKNOWN;
  }
}

/* ---- the options of a topic ------------------------------------------------------- */

/* The first argument that names a topic. */
static const attend_study *topic_among(int argc, char **argv) {
  for (int i = 1; i < argc; i++) {
    const attend_study *s = attend_study_find(argv[i]);
    if (s) return s;
  }
  return NULL;
}

/* As other options have it: a capital, unless it is a letter of a formula, and
 * the default if it is short. */
static char *words_of(const attend_setting *s) {
  bool shown = *s->value && strlen(s->value) <= 60;
  char *words = shown ? path_of("%s (default: %s)", s->meaning, s->value) : need_copy(s->meaning);
  if (isalpha((unsigned char)words[1]) || !strncmp(words, "a ", 2))
    words[0] = (char)toupper((unsigned char)words[0]);
  return words;
}

static struct argp_option option_of(const attend_setting *s, int key) {
  static const char *const kinds[] = {"X", "N", "TEXT", "MODEL"};
  bool list = s->kind <= ATTEND_SETTING_WHOLE && s->most > 1;
  return (struct argp_option){.name = s->name,
                              .key = key,
                              .arg = path_of("%s%s", kinds[s->kind], list ? ",.." : ""),
                              .doc = words_of(s),
                              .group = 1};
}

static void options_drop(struct argp_option *list) {
  for (struct argp_option *o = list; o->name || o->doc; o++)
    if (o->key >= KEY_SETTING) {
      free((char *)o->arg);
      free((char *)o->doc);
    }
  free(list);
}

static struct argp_option *options_of(const attend_study *study) {
  size_t n = 0, fixed = sizeof shared / sizeof *shared;
  struct argp_option *list = need(MOST_SETTINGS + fixed + 1, sizeof *list);
  if (study) list[n++] = (struct argp_option){.doc = "Sizes:", .group = 1};
  for (int i = 0; study && study->settings[i].name && i < MOST_SETTINGS; i++)
    list[n++] = option_of(&study->settings[i], KEY_SETTING + i);
  memcpy(list + n, shared, sizeof shared);
  return list;
}

/* ---- running ------------------------------------------------------------------------ */

typedef struct {
  size_t before, total; /* studies that are done, and all */
  const char *name;
} place;

static int step(double done, void *user) {
  const place *p = user;
  progress_share(((double)p->before + done) / (double)p->total, p->name);
  return is_interrupted();
}

/* The settings of one study, models as places on disk. */
typedef struct {
  size_t count;
  attend_setting_value *values;
  const char **shown; /* models keep their names in reports */
} given;

static int give(given *g, const attend_setting *s, const char *value) {
  int code = EXIT_OK;
  bool model = s->kind == ATTEND_SETTING_MODEL && *value;
  g->shown[g->count] = model ? value : NULL;
  if (model) value = model_path(value, &code);
  g->values[g->count++] = (attend_setting_value){s->name, value};
  return code;
}

/* Requested settings, and the default models. */
static int give_all(given *g, const attend_study *study, const study_options *o) {
  int code = EXIT_OK;
  g->values = need(o->count + MOST_SETTINGS, sizeof *g->values);
  g->shown = need(o->count + MOST_SETTINGS, sizeof *g->shown);
  for (const attend_setting *s = study->settings; s->name && !code; s++) {
    const char *value = s->kind == ATTEND_SETTING_MODEL ? s->value : NULL;
    for (size_t i = 0; i < o->count; i++)
      if (!strcmp(o->settings[i].name, s->name)) value = o->settings[i].value;
    if (value) code = give(g, s, value);
  }
  return code;
}

static int run(studied *s, const attend_study *study, const study_options *o, place *p) {
  given g = {0};
  attend_report *report = NULL;
  attend_status status = ATTEND_OK;
  int code = give_all(&g, study, o);
  p->name = study->name;
  attend_study_options how = {ATTEND_INIT(attend_study_options),
                              .seed = o->common.seed,
                              .quick = o->quick,
                              .count = g.count,
                              .settings = g.values,
                              .shown = g.shown,
                              .step = step,
                              .user = p};
  if (!code) status = attend_study_run(s->ctx, study, &how, &report);
  if (status == ATTEND_STOPPED)
    code = EXIT_INTERRUPTED;
  else if (status) {
    complain("%s", report ? report->message : "there is no memory left");
    code = status == ATTEND_INVALID ? EXIT_USAGE : EXIT_FAILED;
  }
  if (report) s->reports[s->count++] = report;
  for (size_t i = 0; i < g.count; i++)
    if (g.shown[i]) free((char *)g.values[i].value);
  free(g.values);
  free(g.shown);
  return code;
}

static int run_all(studied *s, const attend_study *one, const study_options *o) {
  place p = {.total = 1};
  const attend_study *study;
  int code = EXIT_OK;
  for (size_t i = 0; !one && attend_study_at(i); i++) p.total = i + 1;
  s->reports = need(p.total, sizeof *s->reports);
  progress_start("studies", 100);
  for (; p.before < p.total && !code; p.before++) {
    study = one ? one : attend_study_at(p.before);
    code = run(s, study, o, &p);
  }
  progress_end();
  return code;
}

static int show(const studied *s, const study_options *o) {
  int code = EXIT_OK;
  size_t wrong = 0;
  bool quiet = (o->out || o->open) && s->count > 1;
  if (o->out) code = study_write(s, o);
  if (!code && o->common.json) code = study_print_json(s, stdout);
  if (!o->common.json)
    for (size_t i = 0; i < s->count && !code && !quiet; i++) {
      if (i) fputs("\n\n", stdout);
      code = study_print(s->reports[i], o->claims, stdout);
    }
  if (!code && o->open) code = study_open(s);
  for (size_t i = 0; i < s->count; i++) wrong += study_refuted(s->reports[i]);
  if (code || !wrong) return code;
  complain("%zu prediction%s not hold: --claims shows which", wrong, wrong == 1 ? " does" : "s do");
  return EXIT_FAILED;
}

int cmd_study(int argc, char **argv) {
  static const struct argp_child children[] = {
      {&options_json, 0, NULL, 2}, {&options_run, 0, NULL, 3}, {&options_seed, 0, NULL, 3}, {0}};
  asked a = {.study = topic_among(argc, argv)};
  struct argp_option *list = options_of(a.study);
  struct argp argp = {.options = list,
                      .parser = parse,
                      .args_doc = "[TOPIC|all]",
                      .doc =
                          "Questions about attention, each answered by a measurement beside "
                          "the formula: a table, a plot, a paragraph. Without a topic: what "
                          "there is. attend study TOPIC --help has the sizes of one."
                          "\vThe same seed and sizes give the same numbers, times apart. "
                          "The exit status is 1 if a prediction does not hold.",
                      .children = children};
  studied s = {0};
  int code;
  argp_parse(&argp, argc, argv, 0, NULL, &a);
  s.ctx = options_context(&a.o.common, NULL, &code);
  interrupt_watch();
  if (!code && !a.o.topic)
    code = study_print_list(a.o.common.json, s.ctx, stdout);
  else if (!code && a.o.out && !study_can_write(a.o.out))
    code = EXIT_FAILED;
  else if (!code) {
    code = run_all(&s, a.study, &a.o);
    if (!code) code = show(&s, &a.o);
  }
  for (size_t i = 0; i < s.count; i++) attend_report_free(s.reports[i]);
  free(s.reports);
  attend_context_free(s.ctx);
  free(a.o.settings);
  options_drop(list);
  return code;
}
