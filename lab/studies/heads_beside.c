/* Heads of several models on one text: patterns counted, layers aligned by depth.
 *
 * Documents Fall 2025 5(b)ii, Fall 2022 2(b)ii.
 */
#include "studies/heads.h"

enum { MOST = 4 };

typedef struct {
  const char *name;
  survey s;
} beside;

/* ---- the models ----------------------------------------------------------------------- */

/* The last part of a path; followed by a number where another model has that name. */
static const char *name_of(study_run *r, const char *path, size_t n, const beside *list,
                           int count) {
  while (n > 1 && path[n - 1] == '/') n--;
  size_t from = n;
  while (from && path[from - 1] != '/') from--;
  const char *name = study_format(r, "%.*s", (int)(n - from), path + from);
  for (int i = 0; i < count && name; i++)
    if (list[i].name && !strcmp(list[i].name, name))
      return study_format(r, "%s (%d)", name, count + 1);
  return name ? name : "";
}

static attend_status read_all(study_run *r, const char *first, beside *list, int *count) {
  const char *at = study_text(r, "beside");
  list[0].name = name_of(r, first, strlen(first), list, 0);
  for (*count = 1; *at; ++*count) {
    const size_t n = strcspn(at, ",");
    const char *path = study_format(r, "%.*s", (int)n, at);
    traced_text text;
    if (*count == MOST)
      return study_fail(r, ATTEND_INVALID, "name at most %d models to count beside each other",
                        MOST);
    if (!path) return study_fail(r, ATTEND_NO_MEMORY, "no memory");
    TRY(traced_text_read(r, path, study_text(r, "text"), study_count(r, "length"), &text));
    TRY(survey_of(r, path, TRACED_TRAINED, &text, &list[*count].s));
    list[*count].name = name_of(r, path, n, list, *count);
    at += n + (at[n] == ',');
  }
  return ATTEND_OK;
}

/* ---- counts by depth --------------------------------------------------------------------- */

static const char *kind_name(int k) {
  return k == NOTHING ? "none" : attend_head_pattern_name((attend_head_pattern)k);
}

/* Depths are the layers of the shallowest model; layers [first, last) of a deeper one lie at one. */
static void layers_at(const survey *s, int depth, int depths, int *first, int *last) {
  *first = depth * s->shape.layers / depths;
  *last = (depth + 1) * s->shape.layers / depths;
}

static void count_between(const survey *s, int first, int last, int count[KINDS]) {
  memset(count, 0, KINDS * sizeof *count);
  for (int h = first * s->shape.heads; h < last * s->shape.heads; h++)
    count[s->pattern[h].pattern < 0 ? NOTHING : s->pattern[h].pattern]++;
}

static const attend_study_column depth_columns[] = {
    {"depth", "depth", COUNT},    {"model", "model", TEXT},     {"layers", "layers", TEXT},
    {"heads", "heads", COUNT},    {"previous", "prev.", COUNT}, {"next", "next", COUNT},
    {"first", "first", COUNT},    {"separator", "sep.", COUNT}, {"same", "same", COUNT},
    {"self", "self", COUNT},      {"broad", "broad", COUNT},    {"positional", "pos.", COUNT},
    {"induction", "ind.", COUNT}, {"none", "none", COUNT},      {0}};

static attend_status add_row(study_run *r, table_store *t, double depth, const beside *b, int first,
                             int last) {
  int count[KINDS];
  count_between(&b->s, first, last, count);
  TRY(study_cell(t, depth));
  TRY(study_word(t, b->name));
  TRY(study_word(t, last - first > 1 ? study_format(r, "%d–%d", first, last - 1)
                                     : study_format(r, "%d", first)));
  TRY(study_cell(t, (double)(last - first) * b->s.shape.heads));
  for (int k = 0; k < KINDS; k++) TRY(study_cell(t, count[k]));
  return ATTEND_OK;
}

static attend_status say_depths(study_run *r, int n, const beside *list, int depths) {
  table_store *t;
  TRY(study_table(r, &t, "beside", depth_columns,
                  "Heads by what stands out, layers aligned by depth; last, all layers"));
  for (int d = 0; d < depths; d++)
    for (int i = 0; i < n; i++) {
      int first, last;
      layers_at(&list[i].s, d, depths, &first, &last);
      TRY(add_row(r, t, d, &list[i], first, last));
    }
  for (int i = 0; i < n; i++) TRY(add_row(r, t, NAN, &list[i], 0, list[i].s.shape.layers));
  return ATTEND_OK;
}

/* ---- plots --------------------------------------------------------------------------------- */

/* Percent of a model's heads by pattern; below, by depth. */
static attend_status plot_models(study_run *r, int n, const beside *list, int depths) {
  double *share = NULL, *cells = NULL;
  const char *kinds[KINDS];
  attend_plot_series series[MOST];
  attend_plot_panel panels[MOST + 1];
  TAKE(r, &share, (size_t)(n * KINDS));
  TAKE(r, &cells, (size_t)(n * depths * KINDS));
  for (int k = 0; k < KINDS; k++) kinds[k] = kind_name(k);
  for (int i = 0; i < n; i++) {
    double *of = share + i * KINDS, *map = cells + i * depths * KINDS;
    int count[KINDS];
    for (int d = 0; d < depths; d++) {
      int first, last;
      layers_at(&list[i].s, d, depths, &first, &last);
      count_between(&list[i].s, first, last, count);
      for (int k = 0; k < KINDS; k++) {
        map[d * KINDS + k] = 100.0 * count[k] / ((last - first) * list[i].s.shape.heads);
        of[k] += 100.0 * count[k] / list[i].s.heads;
      }
    }
    series[i] = (attend_plot_series){.name = list[i].name, .count = KINDS, .y = of};
    panels[i + 1] = study_heat(study_format(r, "%s, percent by depth", list[i].name), "pattern",
                               "depth", (size_t)depths, KINDS, map, study_range(NULL, 0, 100));
    panels[i + 1].names = kinds;
  }
  panels[0] = (attend_plot_panel){.kind = ATTEND_PLOT_BARS,
                                  .title = "What stands out",
                                  .y = {.label = "percent of heads", .zero = 1},
                                  .columns = KINDS,
                                  .names = kinds,
                                  .count = (size_t)n,
                                  .series = series};
  return study_figure(r, "heads-beside",
                      &(attend_plot){.count = (size_t)n + 1, .across = 1, .panels = panels});
}

/* ---- saying ----------------------------------------------------------------------------------- */

static attend_status say_forward(study_run *r, int n, const beside *list) {
  const char *text = "";
  for (int i = 0; i < n && text; i++)
    text = study_format(r, "%s%s%s %.2f (%s)", text, i ? ", " : "", list[i].name, list[i].s.forward,
                        list[i].s.shape.causal ? "causal" : "bidirectional");
  return study_say(
      r,
      "Each model reads the text in its own tokens. The most weight that a head puts on "
      "later tokens: %s. A causal model sees only what came before, so no head of it "
      "can look at the next token.",
      text ? text : "");
}

attend_status study_heads_beside(study_run *r, const char *path, const survey *first) {
  beside list[MOST] = {{.s = *first}};
  int n;
  if (!*study_text(r, "beside")) return ATTEND_OK;
  TRY(study_heading(r, "Models beside each other"));
  TRY(read_all(r, path, list, &n));
  int depths = list[0].s.shape.layers;
  for (int i = 1; i < n; i++)
    if (list[i].s.shape.layers < depths) depths = list[i].s.shape.layers;
  TRY(say_depths(r, n, list, depths));
  TRY(plot_models(r, n, list, depths));
  return say_forward(r, n, list);
}
