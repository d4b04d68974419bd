/* A report as it grows: what a study says is copied and kept in order.
 *
 * Blocks of memory hang on one list that the report frees; lists that grow are copied
 * into larger blocks.
 */
#include "studies/report.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

struct memory {
  struct memory *next;
};

/* ---- memory ------------------------------------------------------------------- */

static void *take(report_store *s, size_t bytes) {
  enum { LINE = 64 };
  if (bytes > SIZE_MAX - 3 * LINE) return NULL;
  size_t room = (bytes + 2 * LINE - 1) / LINE * LINE;
  struct memory *m = aligned_alloc(LINE, room);
  if (!m) return NULL;
  memset(m, 0, room);
  m->next = s->memory;
  s->memory = m;
  return (char *)m + LINE;
}

static attend_status no_memory(report_store *s) {
  s->report.message =
      "there is no memory left for this study: take smaller "
      "settings";
  return ATTEND_NO_MEMORY;
}

attend_status study_take(study_run *r, size_t count, size_t size, void *block) {
  void *taken =
      size && count > SIZE_MAX / 2 / size ? NULL : take(r->store, count * size + (LANE_BYTES - 1));
  if (!taken) return no_memory(r->store);
  *(void **)block = taken;
  return ATTEND_OK;
}

/* A copy of n bytes and a zero one. */
static char *keep(report_store *s, const char *text, size_t n) {
  char *copy = take(s, n + 1);
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
  char *text = n < 0 ? NULL : take(s, (size_t)n + 1);
  if (text) vsnprintf(text, (size_t)n + 1, format, list);
  return text;
}

/* Room for one more: *list holds `count` of `size` bytes. */
static attend_status widen(report_store *s, void *list, size_t count, size_t size) {
  void **at = list;
  if (count & (count - 1) || (count == 0 && *at)) return ATTEND_OK;
  void *larger = take(s, (count ? 2 * count : 1) * size);
  if (!larger) return no_memory(s);
  if (count) memcpy(larger, *at, count * size);
  *at = larger;
  return ATTEND_OK;
}

report_store *report_create(void) { return calloc(1, sizeof(report_store)); }

void attend_report_free(attend_report *report) {
  report_store *s = (report_store *)report;
  if (!s) return;
  while (s->memory) {
    struct memory *next = s->memory->next;
    free(s->memory);
    s->memory = next;
  }
  free(s);
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

attend_status study_table(study_run *r, const char *name, const char *title,
                          const attend_study_column *columns, table_store **table) {
  table_store *t = NULL;
  TAKE(r, &t, 1);
  t->store = r->store;
  t->table.name = keep_text(r->store, name);
  t->table.title = keep_text(r->store, title);
  t->table.column = columns;
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

attend_status study_word(table_store *t, const char *format, ...) {
  va_list list;
  va_start(list, format);
  const char *text = keep_format(t->store, format, list);
  va_end(list);
  if (!text) return no_memory(t->store);
  return add_cell(t, (attend_study_cell){.text = text});
}

attend_status study_row(table_store *t, int count, ...) {
  attend_status status = ATTEND_OK;
  va_list list;
  va_start(list, count);
  for (int i = 0; i < count && !status; i++) status = study_cell(t, va_arg(list, double));
  va_end(list);
  return status;
}

/* ---- claims --------------------------------------------------------------------------- */

attend_status study_claim(study_run *r, const char *name, const char *text, double measured,
                          double expected, double slack) {
  report_store *s = r->store;
  attend_report *p = &s->report;
  TRY(widen(s, &s->claims, p->n_claims, sizeof *s->claims));
  s->claims[p->n_claims++] = (attend_study_claim){.name = keep_text(s, name),
                                                  .text = keep_text(s, text),
                                                  .measured = measured,
                                                  .expected = expected,
                                                  .slack = slack,
                                                  .holds = fabs(measured - expected) <= slack};
  p->claims = s->claims;
  return ATTEND_OK;
}

attend_status study_estimate(study_run *r, const char *name, const char *text, double measured,
                             double expected, double standard_error) {
  return study_claim(r, name, text, measured, expected, 6 * standard_error);
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

attend_status study_figure(study_run *r, const char *name, const attend_plot *plot) {
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
