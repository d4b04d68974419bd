/* A copy of a plot, so that a study may draw from what lies on its stack.
 *
 * Study_figure; see study.h.
 */
#include "studies/report.h"

typedef struct {
  study_run *r;
  attend_status status; /* the first failure */
} copier;

static const void *copy(copier *c, const void *from, size_t count,
                        size_t size) {
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

static const char *const *copy_names(copier *c, const char *const *names,
                                     size_t n) {
  const char **list = (const char **)COPY(c, names, n);
  for (size_t i = 0; list && i < n; i++) list[i] = copy_text(c, names[i]);
  return list;
}

static const attend_plot_series *copy_series(copier *c,
                                             const attend_plot_series *from,
                                             size_t n) {
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

static const attend_plot_mark *copy_marks(copier *c,
                                          const attend_plot_mark *from,
                                          size_t n) {
  attend_plot_mark *list = (attend_plot_mark *)COPY(c, from, n);
  for (size_t i = 0; list && i < n; i++)
    list[i].label = copy_text(c, list[i].label);
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

attend_status study_figure(study_run *r, const char *name,
                           const attend_plot *plot) {
  copier c = {.r = r};
  attend_study_figure *f = NULL;
  TAKE(r, &f, 1);
  f->name = copy_text(&c, name);
  f->plot = *plot;
  f->plot.title = copy_text(&c, plot->title);
  f->plot.notes = copy_text(&c, plot->notes);
  attend_plot_panel *panels =
      (attend_plot_panel *)COPY(&c, plot->panels, plot->count);
  for (size_t i = 0; panels && i < plot->count; i++) copy_panel(&c, &panels[i]);
  f->plot.panels = panels;
  if (c.status) return c.status;
  return report_add_figure(r->store, f);
}
