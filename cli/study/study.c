/* attend study: a question about attention, answered by a measurement.
 *
 * Its options are those of the topic: the rows are made once the topic is known.
 */
#include "study/study.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "folders.h"
#include "model_open.h"
#include "progress.h"

/* ---- options --------------------------------------------------------------------- */

static const option_row where_rows[] = {
    {.help = "Output:"},
    {"out", "FILE",
     "Write FILE.html (a self-contained page), .json, .svg (one plot), or a directory with all of "
     "them",
     TEXT(study_options, out)},
    {"figure", "NAME", "The plot for an .svg", TEXT(study_options, figure)},
    {"open", NULL, "Open the page in the browser", FLAG(study_options, open)},
    {"formulas", NULL,
     "Write formulas of the standard input, each on a line, as MathML: σ² = Σ_i xᵢ² / √d",
     FLAG(study_options, formulas)},
    {"claims", NULL, "Print every prediction with its measurement", FLAG(study_options, claims)},
    {0}};

static const option_row how_rows[] = {
    {.help = "How it runs:"},
    {"quick", NULL, "Smaller default sizes", FLAG(study_options, quick)},
    {0}};

/* Words after the topic are models, for its settings that are: as many as each takes, and the rest
 * for the last. */
static bool take_models(study_options *o, char **words, int count) {
  const attend_setting *s = o->study ? o->study->settings : NULL;
  for (int i = 0; s && s[i].name && count; i++) {
    if (s[i].kind != ATTEND_SETTING_MODEL || o->value[i]) continue;
    char *list = need_copy(*words++);
    for (count--; s[i].max > 1 && count; count--) {
      char *longer = path_of("%s,%s", list, *words++);
      free(list);
      list = longer;
    }
    o->value[i] = o->models[i] = list;
  }
  return !count;
}

static void take_topic(struct argp_state *state, char **words, int count, void *input) {
  study_options *o = input;
  const char *topic = count ? words[0] : NULL;
  o->all = topic && !strcmp(topic, "all");
  if (topic && !o->all && !attend_study_find(topic))
    argp_error(state, "there is no study \"%s\": attend study lists them", topic);
  if (count > 1 && !take_models(o, words + 1, count - 1))
    argp_error(state, "one topic at a time, or all");
  if (!topic && (o->out || o->open || o->quick || o->claims))
    argp_error(state, "name a topic, or all: attend study lists them");
  if (o->figure && !(o->out && path_ends(o->out, ".svg")))
    argp_error(state, "--figure says which plot --out FILE.svg takes");
  if (o->all && o->out && path_ends(o->out, ".svg"))
    argp_error(state, "all studies have many plots: give --out a folder");
}

/* The first argument that names a topic. */
static const attend_study *topic_among(int argc, char **argv) {
  for (int i = 1; i < argc; i++) {
    const attend_study *s = attend_study_find(argv[i]);
    if (s) return s;
  }
  return NULL;
}

/* Help as other options have it: a capital, unless it is a letter of a formula, and
 * the default if it is short. */
static char *help_of(const attend_setting *s) {
  bool shown = *s->value && strlen(s->value) <= 60;
  char *help = shown ? path_of("%s (default: %s)", s->meaning, s->value) : need_copy(s->meaning);
  if (isalpha((unsigned char)help[1]) || !strncmp(help, "a ", 2))
    help[0] = (char)toupper((unsigned char)help[0]);
  return help;
}

/* A heading, a row for each setting, and the end; to be freed. */
static option_row *rows_of(const attend_study *study) {
  static const char *const kinds[] = {"X", "N", "TEXT", "MODEL", "X,..;.."};
  option_row *rows = need(MOST_SETTINGS + 2, sizeof *rows);
  if (study) rows[0].help = "Sizes:";
  for (int i = 0; study && study->settings[i].name && i < MOST_SETTINGS; i++) {
    const attend_setting *s = &study->settings[i];
    const bool list = s->kind <= ATTEND_SETTING_WHOLE && s->max > 1;
    rows[i + 1] = (option_row){.name = s->name,
                               .arg = path_of("%s%s", kinds[s->kind], list ? ",.." : ""),
                               .help = help_of(s),
                               .kind = OPTION_TEXT,
                               .at = offsetof(study_options, value) + (size_t)i * sizeof(char *)};
  }
  return rows;
}

static void rows_free(option_row *rows) {
  for (option_row *row = rows; row->help; row++)
    if (row->name) {
      free((char *)row->arg);
      free((char *)row->help);
    }
  free(rows);
}

/* ---- running ------------------------------------------------------------------------ */

typedef struct {
  size_t before, total; /* studies that are done, and all */
  const char *name;
} place;

static int show_progress(double done, const char *what, void *user) {
  const place *p = user;
  (void)what;
  progress_share(((double)p->before + done) / (double)p->total, p->name);
  return is_interrupted();
}

/* The settings of one study, models as places on disk. */
typedef struct {
  size_t count;
  attend_setting_value values[MOST_SETTINGS];
  const char *shown[MOST_SETTINGS]; /* models keep their names in reports */
} given;

/* Models between commas, as places on disk; to be freed. NULL after an error message. */
static char *places_of(const char *list, int *code) {
  char *words = need_copy(list), *all = NULL, *rest = NULL;
  for (char *word = strtok_r(words, ",", &rest); word; word = strtok_r(NULL, ",", &rest)) {
    char *path = model_path(word, code), *longer = NULL;
    if (path) longer = all ? path_of("%s,%s", all, path) : need_copy(path);
    free(path);
    free(all);
    all = longer;
    if (!all) break;
  }
  free(words);
  return all;
}

/* Requested settings, and the default models. */
static int give_all(given *g, const attend_study *study, const study_options *o) {
  int code = EXIT_OK;
  for (size_t i = 0; study->settings[i].name && !code; i++) {
    const attend_setting *s = &study->settings[i];
    const bool model = s->kind == ATTEND_SETTING_MODEL;
    const char *value = o->study && o->value[i] ? o->value[i] : model ? s->value : NULL;
    if (!value) continue;
    const bool found = model && *value;
    g->shown[g->count] = found ? value : NULL;
    if (found) value = s->max > 1 ? places_of(value, &code) : model_path(value, &code);
    g->values[g->count++] = (attend_setting_value){s->name, value};
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
                              .progress = show_progress,
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
  return code;
}

static int run_all(studied *s, const study_options *o) {
  place p = {.total = 1};
  int code = EXIT_OK;
  for (size_t i = 0; o->all && attend_study_at(i); i++) p.total = i + 1;
  s->reports = need(p.total, sizeof *s->reports);
  progress_start("studies", 100);
  for (; p.before < p.total && !code; p.before++)
    code = run(s, o->all ? attend_study_at(p.before) : o->study, o, &p);
  progress_end();
  return code;
}

int cmd_study(int argc, char **argv) {
  study_options o = {.study = topic_among(argc, argv)};
  studied s = {0};
  int code;
  option_row *rows = rows_of(o.study);
  const option_part parts[] = {{rows, 0},
                               {where_rows, 0},
                               {option_rows_json, offsetof(study_options, common)},
                               {how_rows, 0},
                               {option_rows_run, offsetof(study_options, common)},
                               {option_rows_seed, offsetof(study_options, common)},
                               {0}};
  const verb_options options_of_study = {
      o.study ? parts : parts + 1, "[TOPIC [MODEL...]|all]",
      "Questions about attention, each answered by a measurement beside the formula: a table, a "
      "plot, a paragraph. Without a topic: the list of topics. attend study TOPIC --help lists the "
      "sizes of one.\vThe same seed and sizes give the same numbers, except times. The exit status "
      "is 1 if a prediction fails.",
      take_topic};
  options_read(&options_of_study, argc, argv, &o);
  s.ctx = options_context(&o.common, NULL, &code);
  interrupt_watch();
  if (!code && o.formulas)
    code = study_print_formulas(s.ctx);
  else if (!code && !o.study && !o.all)
    code = study_print_list(o.common.json, s.ctx, stdout);
  else if (!code && o.out && !study_can_write(o.out))
    code = EXIT_FAILED;
  else if (!code) {
    code = run_all(&s, &o);
    if (!code) code = study_show(&s, &o);
  }
  for (size_t i = 0; i < s.count; i++) attend_report_free(s.reports[i]);
  free(s.reports);
  attend_context_free(s.ctx);
  for (int i = 0; i < MOST_SETTINGS; i++) free(o.models[i]);
  rows_free(rows);
  return code;
}
