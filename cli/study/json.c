/* Reports as JSON: paragraphs, tables, claims, and the data of plots. */
#include "study/study.h"
#include "table.h"

static void put_cell(attend_json_writer *w, const attend_study_cell *c) {
  if (c->text)
    attend_json_put_string(w, c->text);
  else
    attend_json_put_number(w, c->number);
}

static void put_table(attend_json_writer *w, const attend_study_table *t) {
  json_text(w, "table", t->name);
  json_text(w, "title", t->title);
  attend_json_member(w, "rows");
  attend_json_open(w, '[');
  for (size_t y = 0; y < t->rows; y++) {
    attend_json_open(w, '{');
    for (size_t x = 0; x < t->columns; x++) {
      attend_json_member(w, t->column[x].name);
      put_cell(w, &t->cells[y * t->columns + x]);
    }
    attend_json_close(w, '}');
  }
  attend_json_close(w, ']');
}

static void put_numbers(attend_json_writer *w, const char *name, const double *list, size_t n) {
  if (!list) return;
  attend_json_member(w, name);
  attend_json_open(w, '[');
  for (size_t i = 0; i < n; i++) attend_json_put_number(w, list[i]);
  attend_json_close(w, ']');
}

static void put_panel(attend_json_writer *w, const attend_plot_panel *p) {
  attend_json_open(w, '{');
  json_text(w, "title", p->title);
  json_text(w, "x", p->x.label);
  json_text(w, "y", p->y.label);
  attend_json_member(w, "series");
  attend_json_open(w, '[');
  for (size_t i = 0; i < p->count; i++) {
    const attend_plot_series *s = &p->series[i];
    attend_json_open(w, '{');
    json_text(w, "name", s->name);
    put_numbers(w, "x", s->x, s->count);
    put_numbers(w, "y", s->y, s->count);
    put_numbers(w, "low", s->low, s->count);
    put_numbers(w, "high", s->high, s->count);
    attend_json_close(w, '}');
  }
  attend_json_close(w, ']');
  if (p->cells) {
    json_number(w, "columns", (double)p->columns);
    put_numbers(w, "cells", p->cells, p->rows * p->columns);
  }
  attend_json_close(w, '}');
}

static void put_figure(attend_json_writer *w, const attend_study_figure *f) {
  json_text(w, "figure", f->name);
  attend_json_member(w, "panels");
  attend_json_open(w, '[');
  for (size_t i = 0; i < f->plot.count; i++) put_panel(w, &f->plot.panels[i]);
  attend_json_close(w, ']');
}

static void put_block(attend_json_writer *w, const attend_study_block *b) {
  attend_json_open(w, '{');
  if (b->kind == ATTEND_BLOCK_TABLE)
    put_table(w, b->table);
  else if (b->kind == ATTEND_BLOCK_FIGURE)
    put_figure(w, b->figure);
  else
    json_text(w, b->kind == ATTEND_BLOCK_TEXT ? "text" : "heading", b->text);
  attend_json_close(w, '}');
}

static void put_claims(attend_json_writer *w, const attend_report *r) {
  attend_json_member(w, "claims");
  attend_json_open(w, '[');
  for (size_t i = 0; i < r->n_claims; i++) {
    const attend_study_claim *c = &r->claims[i];
    attend_json_open(w, '{');
    json_text(w, "name", c->name);
    json_text(w, "text", c->text);
    json_number(w, "expected", c->expected);
    json_number(w, "measured", c->measured);
    json_number(w, "slack", c->slack);
    json_truth(w, "holds", c->holds);
    attend_json_close(w, '}');
  }
  attend_json_close(w, ']');
}

static void put_report(attend_json_writer *w, const attend_report *r) {
  attend_json_open(w, '{');
  json_text(w, "study", r->study->name);
  json_text(w, "title", r->study->title);
  json_text(w, "answers", r->study->answers);
  json_number(w, "seed", (double)r->seed);
  json_number(w, "seconds", r->seconds);
  attend_json_member(w, "settings");
  attend_json_open(w, '{');
  for (size_t i = 0; i < r->n_settings; i++)
    json_text(w, r->settings[i].name, r->settings[i].value);
  attend_json_close(w, '}');
  put_claims(w, r);
  attend_json_member(w, "blocks");
  attend_json_open(w, '[');
  for (size_t i = 0; i < r->n_blocks; i++) put_block(w, &r->blocks[i]);
  attend_json_close(w, ']');
  attend_json_close(w, '}');
}

int study_print_json(const studied *s, FILE *out) {
  attend_json_writer w = attend_json_writer_file(s->ctx, out);
  attend_json_indent(&w, true);
  if (s->count != 1) attend_json_open(&w, '[');
  for (size_t i = 0; i < s->count; i++) put_report(&w, s->reports[i]);
  if (s->count != 1) attend_json_close(&w, ']');
  attend_status status = attend_json_finish(&w);
  attend_json_writer_free(&w);
  return status ? complain_status(s->ctx, status) : EXIT_OK;
}
