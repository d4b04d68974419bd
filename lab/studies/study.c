/* attend/study.h: the list of studies, their settings, running one, and its report.
 *
 * Blocks of memory hang on one list that the report frees; lists that grow are copied
 * into larger blocks.
 */
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/options.h"
#include "studies/study.h"

enum { LANE_BYTES = 64 }; /* kernels may read whole lanes past an end */

typedef struct {
  const char *name, *text;
  size_t count, columns; /* of a row */
  double *numbers;
} setting_store;

typedef struct memory {
  struct memory *next;
  attend_plan *plan; /* freed when the study ends */
  attend_linear *linear;
} memory;

typedef struct report_store {
  attend_report report; /* first: a report is its store */
  memory *memory;
  attend_study_block *blocks;
  attend_study_claim *claims;
  setting_store *settings; /* [n_settings] */
} report_store;

static const study_topic *const topics[] = {
    &study_scale,           &study_softmax,    &study_jacobian,     &study_argmax,
    &study_heatmaps,        &study_masks,      &study_positions,    &study_norms,
    &study_receptive_field, &study_complexity, &study_decoding,     &study_kernels,
    &study_approximation,   &study_causal,     &study_purification, &study_heads,
};
enum { TOPICS = sizeof topics / sizeof *topics };

const attend_study *attend_study_at(size_t index) {
  return index < TOPICS ? &topics[index]->about : NULL;
}

const attend_study *attend_study_find(const char *name) {
  for (size_t i = 0; i < TOPICS; i++)
    if (!strcmp(topics[i]->about.name, name)) return &topics[i]->about;
  return NULL;
}

/* ---- memory ------------------------------------------------------------------- */

static void *store_take(report_store *s, size_t bytes) {
  enum { LINE = 64 };
  _Static_assert(sizeof(memory) <= LINE, "a block follows its memory");
  if (bytes > SIZE_MAX - 3 * LINE) return NULL;
  size_t capacity = (bytes + 2 * LINE - 1) / LINE * LINE;
  memory *m = aligned_alloc(LINE, capacity);
  if (!m) return NULL;
  memset(m, 0, capacity);
  m->next = s->memory;
  s->memory = m;
  return (char *)m + LINE;
}

static attend_status no_memory(report_store *s) {
  s->report.message = "there is no memory left for this study: take smaller settings";
  return ATTEND_NO_MEMORY;
}

attend_status study_take(study_run *r, size_t count, size_t size, void *block) {
  void *taken = size && count > SIZE_MAX / 2 / size
                    ? NULL
                    : store_take(r->store, count * size + (LANE_BYTES - 1));
  if (!taken) return no_memory(r->store);
  *(void **)block = taken;
  return ATTEND_OK;
}

/* A copy of n bytes and a zero one. */
static char *keep(report_store *s, const char *text, size_t n) {
  char *copy = store_take(s, n + 1);
  if (copy && n) memcpy(copy, text, n);
  return copy;
}

static const char *keep_text(report_store *s, const char *text) {
  return text ? keep(s, text, strlen(text)) : NULL;
}

__attribute__((format(printf, 2, 0))) static char *keep_format(report_store *s, const char *format,
                                                               va_list list) {
  va_list again;
  va_copy(again, list);
  int n = vsnprintf(NULL, 0, format, again);
  va_end(again);
  char *text = n < 0 ? NULL : store_take(s, (size_t)n + 1);
  if (text) vsnprintf(text, (size_t)n + 1, format, list);
  return text;
}

/* Room for one more: *list holds `count` of `size` bytes. */
static attend_status widen(report_store *s, void *list, size_t count, size_t size) {
  void **at = list;
  if (count & (count - 1) || (count == 0 && *at)) return ATTEND_OK;
  void *larger = store_take(s, (count ? 2 * count : 1) * size);
  if (!larger) return no_memory(s);
  if (count) memcpy(larger, *at, count * size);
  *at = larger;
  return ATTEND_OK;
}

void attend_report_free(attend_report *report) {
  report_store *s = (report_store *)report;
  if (!s) return;
  while (s->memory) {
    memory *next = s->memory->next;
    free(s->memory);
    s->memory = next;
  }
  free(s);
}

/* Plans and layers that a study made; they need its context. */
static void free_objects(report_store *s) {
  for (memory *m = s->memory; m; m = m->next) {
    attend_plan_free(m->plan);
    attend_linear_free(m->linear);
    m->plan = NULL;
    m->linear = NULL;
  }
}

/* A block whose object will be freed. */
static attend_status own(study_run *r, memory **m) {
  if (!store_take(r->store, 1)) return no_memory(r->store);
  *m = r->store->memory;
  return ATTEND_OK;
}

attend_status study_plan(study_run *r, const attend_desc *desc, attend_plan **plan) {
  memory *m;
  TRY(own(r, &m));
  TRY(attend_plan_create(r->ctx, desc, plan));
  m->plan = *plan;
  return ATTEND_OK;
}

attend_status study_linear(study_run *r, int inputs, int outputs, const float *weights,
                           attend_linear **linear) {
  const attend_linear_part part = {.weight = weights, .outputs = outputs};
  memory *m;
  TRY(own(r, &m));
  TRY(attend_linear_create(r->ctx, ATTEND_WEIGHTS_F32, inputs, 1, &part, linear));
  m->linear = *linear;
  return ATTEND_OK;
}

int study_padded(int width) { return (width + 15) / 16 * 16; }

/* ---- settings ------------------------------------------------------------------- */

static const setting_store *find(const study_run *r, const char *name) {
  const report_store *s = r->store;
  for (size_t i = 0; i < s->report.n_settings; i++)
    if (!strcmp(s->settings[i].name, name)) return &s->settings[i];
  return NULL;
}

const double *study_list(const study_run *r, const char *name, size_t *count) {
  const setting_store *s = find(r, name);
  *count = s ? s->count : 0;
  return s ? s->numbers : NULL;
}

double study_number(const study_run *r, const char *name) {
  size_t n;
  const double *list = study_list(r, name, &n);
  return n ? *list : NAN;
}

int study_count(const study_run *r, const char *name) { return (int)study_number(r, name); }

const double *study_rows(const study_run *r, const char *name, int *rows, int *columns) {
  const setting_store *s = find(r, name);
  *columns = s ? (int)s->columns : 0;
  *rows = *columns ? (int)s->count / *columns : 0;
  return s ? s->numbers : NULL;
}

const char *study_text(const study_run *r, const char *name) {
  const setting_store *s = find(r, name);
  return s ? s->text : "";
}

static bool is_numbers(const attend_setting *s) {
  return s->kind == ATTEND_SETTING_NUMBERS || s->kind == ATTEND_SETTING_WHOLE ||
         s->kind == ATTEND_SETTING_ROWS;
}

static const char *separators(const attend_setting *s) {
  return s->kind == ATTEND_SETTING_ROWS ? ", with commas between, and semicolons between rows"
         : s->max > 1                   ? ", with commas between"
                                        : "";
}

/* One number of a list or of rows: *at stays at what follows it. */
static attend_status read_number(study_run *r, const attend_setting *s, const char **at,
                                 double *number) {
  char *end;
  *number = strtod(*at, &end);
  const bool ends = !*end || *end == ',' || (*end == ';' && s->kind == ATTEND_SETTING_ROWS);
  if (end == *at || !ends || !(*number >= s->low && *number <= s->high) ||
      (s->kind == ATTEND_SETTING_WHOLE && *number != floor(*number)))
    return study_fail(
        r, ATTEND_INVALID, "%s takes %s%s%s from %.10g to %.10g%s, and \"%.40s\" is something else",
        s->name, s->max > 1 ? "" : "a ", s->kind == ATTEND_SETTING_WHOLE ? "whole " : "",
        s->max > 1 ? "numbers" : "number", s->low, s->high, separators(s), *at);
  *at = end;
  return ATTEND_OK;
}

/* A row has ended, with so many numbers. */
static attend_status end_row(study_run *r, const attend_setting *s, setting_store *to,
                             size_t columns) {
  if (!to->columns) to->columns = columns;
  if (to->columns == columns) return ATTEND_OK;
  return study_fail(r, ATTEND_INVALID,
                    "a row of %s has %zu number%s and the first has %zu: give each row as many",
                    s->name, columns, columns == 1 ? "" : "s", to->columns);
}

static attend_status read_list(study_run *r, const attend_setting *s, setting_store *to) {
  const char *at = to->text;
  size_t begin = 0;
  TAKE(r, &to->numbers, (size_t)s->max);
  for (;; at++) {
    if (to->count == (size_t)s->max)
      return study_fail(r, ATTEND_INVALID, "%s takes %d number%s at most: \"%.60s\" has more",
                        s->name, s->max, s->max == 1 ? "" : "s", to->text);
    TRY(read_number(r, s, &at, &to->numbers[to->count]));
    to->count++;
    if (*at == ',' && at[1]) continue;
    TRY(end_row(r, s, to, to->count - begin));
    begin = to->count;
    if (!*at || !at[1]) return ATTEND_OK; /* a separator may end the text */
  }
}

/* The caller's value, else the default; *shown: how reports print it. */
static const char *value_of(const study_run *r, const attend_setting *s, const char **shown) {
  const attend_study_options *o = r->options;
  *shown = NULL;
  for (size_t i = o->count; i-- > 0;) {
    if (strcmp(o->settings[i].name, s->name)) continue;
    if (o->shown) *shown = o->shown[i];
    return o->settings[i].value;
  }
  return o->quick && s->quick ? s->quick : s->value;
}

static attend_status check_names(study_run *r, const attend_study *study) {
  for (size_t i = 0; i < r->options->count; i++) {
    const char *name = r->options->settings[i].name;
    const attend_setting *s = study->settings;
    while (s->name && strcmp(s->name, name)) s++;
    if (!s->name)
      return study_fail(r, ATTEND_INVALID, "the study %s has no setting \"%s\"", study->name, name);
  }
  return ATTEND_OK;
}

static attend_status read_settings(study_run *r, const attend_study *study) {
  report_store *store = r->store;
  attend_setting_value *shown = NULL;
  size_t n = 0;
  while (study->settings[n].name) n++;
  TRY(check_names(r, study));
  TAKE(r, &store->settings, n);
  TAKE(r, &shown, n);
  for (size_t i = 0; i < n; i++) {
    const attend_setting *s = &study->settings[i];
    setting_store *to = &store->settings[i];
    const char *called, *value = value_of(r, s, &called);
    *to = (setting_store){.name = s->name, .text = study_format(r, "%s", value)};
    if (called) called = study_format(r, "%s", called);
    if (!to->text) return study_fail(r, ATTEND_NO_MEMORY, "no memory");
    if (is_numbers(s)) TRY(read_list(r, s, to));
    shown[i] = (attend_setting_value){s->name, called ? called : to->text};
  }
  store->report.settings = shown;
  store->report.n_settings = n;
  return ATTEND_OK;
}

/* ---- words ----------------------------------------------------------------------- */

attend_status study_fail(study_run *r, attend_status status, const char *sentence, ...) {
  va_list list;
  va_start(list, sentence);
  const char *text = keep_format(r->store, sentence, list);
  va_end(list);
  r->store->report.message = text ? text : "there is no memory left";
  return status;
}

const char *study_format(study_run *r, const char *format, ...) {
  va_list list;
  va_start(list, format);
  const char *text = keep_format(r->store, format, list);
  va_end(list);
  return text;
}

static attend_status add_block(report_store *s, attend_study_block block) {
  attend_report *p = &s->report;
  TRY(widen(s, &s->blocks, p->n_blocks, sizeof *s->blocks));
  s->blocks[p->n_blocks++] = block;
  p->blocks = s->blocks;
  return ATTEND_OK;
}

attend_status study_heading(study_run *r, const char *text) {
  const char *copy = keep_text(r->store, text);
  if (!copy) return no_memory(r->store);
  return add_block(r->store, (attend_study_block){.kind = ATTEND_BLOCK_HEADING, .text = copy});
}

attend_status study_say(study_run *r, const char *format, ...) {
  va_list list;
  va_start(list, format);
  const char *text = keep_format(r->store, format, list);
  va_end(list);
  if (!text) return no_memory(r->store);
  return add_block(r->store, (attend_study_block){.kind = ATTEND_BLOCK_TEXT, .text = text});
}

static attend_status add_figure(report_store *s, const attend_study_figure *f) {
  return add_block(s, (attend_study_block){.kind = ATTEND_BLOCK_FIGURE, .figure = f});
}

/* ---- tables ------------------------------------------------------------------------- */

struct table_store {
  attend_study_table table;
  attend_study_cell *cells;
  size_t count;
  report_store *store;
};

attend_status study_table(study_run *r, table_store **table, const char *name,
                          const attend_study_column *columns, const char *title, ...) {
  table_store *t = NULL;
  va_list list;
  TAKE(r, &t, 1);
  va_start(list, title);
  *t = (table_store){.store = r->store,
                     .table = {.name = keep_text(r->store, name),
                               .title = keep_format(r->store, title, list),
                               .column = columns}};
  va_end(list);
  while (columns[t->table.columns].name) t->table.columns++;
  *table = t;
  return add_block(r->store, (attend_study_block){.kind = ATTEND_BLOCK_TABLE, .table = &t->table});
}

static attend_status add_cell(table_store *t, attend_study_cell cell) {
  TRY(widen(t->store, &t->cells, t->count, sizeof *t->cells));
  t->cells[t->count++] = cell;
  t->table.cells = t->cells;
  t->table.rows = t->count / t->table.columns;
  return ATTEND_OK;
}

attend_status study_cell(table_store *t, double number) {
  return add_cell(t, (attend_study_cell){.number = number});
}

attend_status study_word(table_store *t, const char *text) {
  const char *copy = keep_text(t->store, text);
  return copy ? add_cell(t, (attend_study_cell){.text = copy}) : no_memory(t->store);
}

attend_status study_row(table_store *t, ...) {
  attend_status status = ATTEND_OK;
  va_list list;
  va_start(list, t);
  for (size_t i = t->count % t->table.columns; i < t->table.columns && !status; i++) {
    const bool text = t->table.column[i].kind == ATTEND_CELL_TEXT;
    status = text ? study_word(t, va_arg(list, const char *)) : study_cell(t, va_arg(list, double));
  }
  va_end(list);
  return status;
}

static size_t column_of(const table_store *t, const char *name) {
  size_t at = 0;
  while (at + 1 < t->table.columns && strcmp(t->table.column[at].name, name)) at++;
  return at;
}

double study_value(const table_store *t, size_t row, const char *name) {
  return t->cells[row * t->table.columns + column_of(t, name)].number;
}

const double *study_column_part(const table_store *t, const char *name, size_t first, size_t step) {
  double *column = store_take(t->store, (t->table.rows + 1) * sizeof *column);
  size_t n = 0;
  if (!column) no_memory(t->store);
  for (size_t i = first; column && i < t->table.rows; i += step)
    column[n++] = study_value(t, i, name);
  return column;
}

attend_status study_status(const study_run *r) {
  return r->store->report.message ? ATTEND_NO_MEMORY : ATTEND_OK;
}

const double *study_column(const table_store *t, const char *name) {
  return study_column_part(t, name, 0, 1);
}

/* ---- claims --------------------------------------------------------------------------- */

/* "NAME: TEXT" becomes both. */
__attribute__((format(printf, 5, 0))) static attend_status add_claim(study_run *r, double measured,
                                                                     double expected, double slack,
                                                                     const char *format,
                                                                     va_list list) {
  report_store *s = r->store;
  attend_report *p = &s->report;
  char *name = keep_format(s, format, list), *text = name ? strstr(name, ": ") : NULL;
  if (!text) return no_memory(s);
  *text = 0;
  TRY(widen(s, &s->claims, p->n_claims, sizeof *s->claims));
  s->claims[p->n_claims++] = (attend_study_claim){.name = name,
                                                  .text = text + 2,
                                                  .measured = measured,
                                                  .expected = expected,
                                                  .slack = slack,
                                                  .holds = fabs(measured - expected) <= slack};
  p->claims = s->claims;
  return ATTEND_OK;
}

attend_status study_claim(study_run *r, double measured, double expected, double slack,
                          const char *format, ...) {
  va_list list;
  va_start(list, format);
  attend_status status = add_claim(r, measured, expected, slack, format, list);
  va_end(list);
  return status;
}

attend_status study_estimate(study_run *r, double measured, double expected, double standard_error,
                             const char *format, ...) {
  va_list list;
  va_start(list, format);
  attend_status status = add_claim(r, measured, expected, 6 * standard_error, format, list);
  va_end(list);
  return status;
}

/* ---- figures ----------------------------------------------------------------- */

/* A figure's plot is copied: a study may draw from its stack. */
typedef struct {
  study_run *r;
  attend_status status; /* the first failure */
} copier;

static const void *copy(copier *c, const void *from, size_t count, size_t size) {
  void *to = NULL;
  if (!from || !count || c->status) return NULL;
  c->status = study_take(c->r, count, size, &to);
  if (!c->status) memcpy(to, from, count * size);
  return to;
}
#define COPY(c, list, count) copy((c), (list), (count), sizeof *(list))

static const char *copy_text(copier *c, const char *text) {
  return text ? copy(c, text, strlen(text) + 1, 1) : NULL;
}

static const char *const *copy_names(copier *c, const char *const *names, size_t n) {
  const char **list = (const char **)COPY(c, names, n);
  for (size_t i = 0; list && i < n; i++) list[i] = copy_text(c, names[i]);
  return list;
}

static const attend_plot_series *copy_series(copier *c, const attend_plot_series *from, size_t n) {
  attend_plot_series *list = (attend_plot_series *)COPY(c, from, n);
  for (size_t i = 0; list && i < n; i++) {
    attend_plot_series *s = &list[i];
    s->name = copy_text(c, s->name);
    s->x = COPY(c, s->x, s->count);
    s->y = COPY(c, s->y, s->count);
    s->low = COPY(c, s->low, s->count);
    s->high = COPY(c, s->high, s->count);
  }
  return list;
}

static const attend_plot_mark *copy_marks(copier *c, const attend_plot_mark *from, size_t n) {
  attend_plot_mark *list = (attend_plot_mark *)COPY(c, from, n);
  for (size_t i = 0; list && i < n; i++) list[i].label = copy_text(c, list[i].label);
  return list;
}

static void copy_panel(copier *c, attend_plot_panel *p) {
  p->title = copy_text(c, p->title);
  p->x.label = copy_text(c, p->x.label);
  p->y.label = copy_text(c, p->y.label);
  p->z.label = copy_text(c, p->z.label);
  p->series = copy_series(c, p->series, p->count);
  p->mark = copy_marks(c, p->mark, p->marks);
  p->names = copy_names(c, p->names, p->columns);
  p->row_names = copy_names(c, p->row_names, p->rows);
  p->cells = COPY(c, p->cells, p->rows * p->columns);
}

/* Whether a panel has something to show: a curve has two values at least. */
static bool has_curve(const attend_plot_panel *p) {
  if (p->kind != ATTEND_PLOT_LINES) return true;
  for (size_t i = 0; i < p->count; i++) {
    size_t values = 0;
    for (size_t k = 0; k < p->series[i].count; k++) values += isfinite(p->series[i].y[k]) != 0;
    if (values > 1 && !p->series[i].faint) return true;
  }
  return false;
}

attend_status study_figure(study_run *r, const char *name, const attend_plot *plot) {
  bool shows = false;
  for (size_t i = 0; i < plot->count; i++) shows = shows || has_curve(&plot->panels[i]);
  if (!shows) return ATTEND_OK; /* its table has the one value */
  copier c = {.r = r};
  attend_study_figure *f = NULL;
  TAKE(r, &f, 1);
  f->name = copy_text(&c, name);
  f->plot = *plot;
  f->plot.size = sizeof f->plot;
  f->plot.title = copy_text(&c, plot->title);
  f->plot.notes = copy_text(&c, plot->notes);
  attend_plot_panel *panels = (attend_plot_panel *)COPY(&c, plot->panels, plot->count);
  for (size_t i = 0; panels && i < plot->count; i++) copy_panel(&c, &panels[i]);
  f->plot.panels = panels;
  if (c.status) return c.status;
  return add_figure(r->store, f);
}

attend_status study_plot(study_run *r, const char *name, size_t count,
                         const attend_plot_panel *panels) {
  return study_figure(r, name, &(attend_plot){.count = count, .across = count, .panels = panels});
}

attend_plot_axis study_axis(const char *label) { return (attend_plot_axis){.label = label}; }

attend_plot_axis study_log(const char *label) {
  return (attend_plot_axis){.label = label, .log = 1};
}

attend_plot_axis study_zero(const char *label) {
  return (attend_plot_axis){.label = label, .zero = 1};
}

attend_plot_axis study_range(const char *label, double low, double high) {
  return (attend_plot_axis){.label = label, .low = low, .high = high};
}

attend_plot_panel study_lines(const char *title, attend_plot_axis x, attend_plot_axis y,
                              size_t count, const attend_plot_series *series) {
  return (attend_plot_panel){
      .title = title, .x = x, .y = y, .key = ATTEND_KEY_ABOVE, .count = count, .series = series};
}

attend_plot_panel study_marked(attend_plot_panel panel, size_t count,
                               const attend_plot_mark *marks) {
  panel.marks = count;
  panel.mark = marks;
  return panel;
}

attend_plot_panel study_heat(const char *title, const char *x, const char *y, size_t rows,
                             size_t columns, const double *cells, attend_plot_axis z) {
  return (attend_plot_panel){.kind = ATTEND_PLOT_HEAT,
                             .title = title,
                             .x = {.label = x},
                             .y = {.label = y},
                             .rows = rows,
                             .columns = columns,
                             .cells = cells,
                             .z = z,
                             .diverging = z.low < 0 && z.low == -z.high};
}

/* ---- running ----------------------------------------------------------------------- */

attend_status study_step(study_run *r, double done) {
  const attend_study_options *o = r->options;
  if (!o->progress || !o->progress(done, NULL, o->user)) return ATTEND_OK;
  return study_fail(r, ATTEND_STOPPED, "the study was stopped");
}

void study_normal(const study_run *r, uint64_t what, uint64_t first, size_t n, float *out) {
  attend_random_normal((attend_random){r->seed, what}, first, n, out);
}

attend_status study_draw(study_run *r, uint64_t what, size_t n, float **out) {
  TAKE(r, out, n);
  study_normal(r, what, 0, n, *out);
  return ATTEND_OK;
}

static const study_topic *topic_of(const attend_study *study) {
  for (size_t i = 0; i < TOPICS; i++)
    if (&topics[i]->about == study) return topics[i];
  return NULL;
}

attend_status attend_study_run(attend_context *ctx, const attend_study *study,
                               const attend_study_options *options, attend_report **report) {
  const study_topic *topic = topic_of(study);
  report_store *store = calloc(1, sizeof *store);
  attend_study_options o;
  *report = (attend_report *)store;
  if (!store) return ATTEND_NO_MEMORY;
  attend_status status = OPTIONS_READ(ctx, attend_study_options, options, &o);
  study_run r = {ctx, o.seed, store, &o};
  store->report.study = study;
  store->report.seed = o.seed;
  if (!topic) return study_fail(&r, ATTEND_INVALID, "there is no such study");
  double begin = study_now();
  if (!status) status = read_settings(&r, study);
  if (!status) status = topic->run(&r);
  if (!status) status = study_status(&r);
  free_objects(store);
  store->report.seconds = study_now() - begin;
  if (status && !store->report.message) study_fail(&r, status, "%s", attend_message(ctx));
  return status;
}
