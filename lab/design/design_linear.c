/* Variables and linear maps of them, as specs write them.
 *
 * Place: design/ - under design_heads.c and design_readout.c.
 *
 * A linear map is a number for each feature, so that x times it is a number:
 *   0.5                                 a constant (the token's features sum to 1)
 *   "depth"                             that variable, a number
 *   {"of": "depth", "times": -2}
 *   {"of": "position", "times": 0.1}    the place, counted from 0
 *   {"of": "token", "table": {"(": 1, ")": -1}}
 *   {"of": "position", "table": [0.1, 0.5, 0.9]}
 *   [ .. ]                              their sum
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "design/design.h"

attend_status spec_variable(const reading *r, const attend_json *name,
                            int reads, const variable **v) {
  const attend_design *d = r->d;
  const char *text = attend_json_string(name, NULL);
  SPEC_CHECK(r, text, "a variable is named by a string");
  for (int i = 0; i < d->n_variables; i++) {
    *v = &d->variables[i];
    if (strcmp((*v)->name, text)) continue;
    SPEC_CHECK(r, (*v)->at < reads,
               "\"%s\" is written in this layer: only earlier ones can be read",
               text);
    return ATTEND_OK;
  }
  SPEC_CHECK(r, strcmp(text, "position"),
             "\"position\" is not there: \"positions\" are \"none\"");
  return spec_wrong(r, "there is no variable \"%.40s\" yet", text);
}

int spec_value(const attend_design *d, const variable *v, const char *name) {
  char *end;
  if (v->kind == KIND_TOKEN) return spec_find(d->token, d->tokens, name);
  if (v->kind != KIND_POSITION || !*name) return -1;
  long place = strtol(name, &end, 10);
  return *end || place < 0 || place >= v->width ? -1 : (int)place;
}

const char *spec_value_name(const attend_design *d, const variable *v, int i,
                            char to[NAME]) {
  if (v->kind == KIND_TOKEN) return d->token[i];
  snprintf(to, NAME, "%d", i);
  return to;
}

/* ---- tables: a number for each value -------------------------------------------------- */

static attend_status number_of(const reading *r, const attend_json *value,
                               double *to) {
  *to = attend_json_number(value, NAN);
  SPEC_CHECK(r, fabs(*to) <= 1e6, "a table holds numbers within a million");
  return ATTEND_OK;
}

static attend_status table_of(const reading *r, const attend_json *table,
                              const variable *v, double times, float *by) {
  bool list = attend_json_kind_of(table) == ATTEND_JSON_ARRAY;
  size_t n = attend_json_count(table);
  SPEC_CHECK(r, v->kind != KIND_NUMBER,
             "\"%s\" is a number and takes \"times\", not a table", v->name);
  SPEC_CHECK(r, list || attend_json_kind_of(table) == ATTEND_JSON_OBJECT,
             "a table is an object by value, or a list");
  SPEC_CHECK(r, !list || n == (size_t)v->width,
             "the table has %zu numbers: \"%s\" has %d values", n, v->name,
             v->width);
  for (size_t i = 0; i < n; i++) {
    double x;
    const attend_json *one = attend_json_at(table, i);
    int value =
        list ? (int)i : spec_value(r->d, v, attend_json_name(one, NULL));
    SPEC_CHECK(r, value >= 0, "\"%s\" has no value \"%.40s\"", v->name,
               attend_json_name(one, NULL));
    ATTEND_TRY(number_of(r, one, &x));
    by[v->at + value] += (float)(times * x);
  }
  return ATTEND_OK;
}

/* ---- linear maps ------------------------------------------------------------------------ */

static attend_status scaled(const reading *r, const variable *v, double times,
                            float *by) {
  SPEC_CHECK(r, v->kind != KIND_TOKEN,
             "\"%s\" is no number: give it a \"table\"", v->name);
  if (v->kind == KIND_NUMBER) by[v->at] += (float)times;
  for (int i = 0; v->kind == KIND_POSITION && i < v->width; i++)
    by[v->at + i] += (float)(times * i);
  return ATTEND_OK;
}

static attend_status one_map(const reading *r, const attend_json *value,
                             int reads, double times, float *by) {
  const variable *v;
  double factor = 1;
  if (attend_json_kind_of(value) == ATTEND_JSON_NUMBER) {
    ATTEND_TRY(number_of(r, value, &factor));
    for (int i = 0; i < r->d->tokens; i++) by[i] += (float)(times * factor);
    return ATTEND_OK;
  }
  if (attend_json_kind_of(value) == ATTEND_JSON_STRING) {
    ATTEND_TRY(spec_variable(r, value, reads, &v));
    return scaled(r, v, times, by);
  }
  ATTEND_TRY(spec_members(r, value, " of table times "));
  ATTEND_TRY(spec_variable(r, attend_json_get(value, "of"), reads, &v));
  const attend_json *table = attend_json_get(value, "table"),
                    *by_times = attend_json_get(value, "times");
  if (by_times) ATTEND_TRY(number_of(r, by_times, &factor));
  return table ? table_of(r, table, v, times * factor, by)
               : scaled(r, v, times * factor, by);
}

attend_status spec_linear(const reading *r, const attend_json *value, int reads,
                          double times, float *by) {
  if (attend_json_kind_of(value) != ATTEND_JSON_ARRAY)
    return one_map(r, value, reads, times, by);
  for (size_t i = 0; i < attend_json_count(value); i++)
    ATTEND_TRY(one_map(r, attend_json_at(value, i), reads, times, by));
  return ATTEND_OK;
}
