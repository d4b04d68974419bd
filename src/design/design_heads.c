/* Heads and readout: what a spec says they select, carry and answer, compiled into
 * the parts of a twin.
 *
 * Place: design/ - after the names, before the task.
 *
 * A score is a sum of terms. A term joins a variable of the query with one of the
 * key through a table R, and variables are one-hot, so the score is
 * x_i^T R x_j: with few values on the query's side the columns of Qm are these
 * values and Km holds R; with few on the key's side it is the other way round.
 * Terms that look at the key alone share one column, whose query is 1.
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

typedef struct compiled { /* of a head, by column, as the terms add them */
  float q[MOST_COLUMNS][MOST_FEATURES], k[MOST_COLUMNS][MOST_FEATURES];
  float v[MOST_TOKENS][MOST_FEATURES];
  int columns;
  int alone; /* the column of terms about the key alone; -1: none yet */
  float table[MOST_TOKENS][MOST_TOKENS];
  variable writes;
} compiled;

/* ---- variables and their values -------------------------------------------------------- */

static void value_name(const attend_design *d, const variable *v, int i,
                       char to[NAME]) {
  if (v->kind == KIND_TOKEN)
    memcpy(to, d->token[i], NAME);
  else
    snprintf(to, NAME, "%d", i);
}

/* "A", "3" of token and position, before `embedded` is set; of heads "previous=A",
 * "depth", and "depth+1" where there is more room than values. */
static void name_feature(attend_design *d, const variable *v, int i) {
  char name[sizeof d->feature[0]] = "", value[NAME] = "";
  const bool number = v->kind == KIND_NUMBER && i == 0;
  if (!number && i < v->width) value_name(d, v, i, value);
  if (!d->embedded)
    snprintf(name, sizeof name, "%s", value);
  else if (number)
    snprintf(name, sizeof name, "%s", v->name);
  else if (i < v->width)
    snprintf(name, sizeof name, "%s=%s", v->name, value);
  else
    snprintf(name, sizeof name, "%s+%d", v->name, i);
  memcpy(d->feature[v->at + i], name, sizeof name);
}

void spec_add_variable(attend_design *d, variable v) {
  v.at = d->features;
  d->features += v.room;
  for (int i = 0; i < v.room; i++) name_feature(d, &v, i);
  d->variables[d->n_variables++] = v;
}

static attend_status find_variable(const reading *r, const attend_json *name,
                                   const variable **v) {
  const attend_design *d = r->d;
  const char *text = attend_json_string(name, NULL);
  SPEC_CHECK(r, text, "a variable is named by a string");
  for (int i = 0; i < d->n_variables; i++) {
    *v = &d->variables[i];
    if (strcmp((*v)->name, text)) continue;
    SPEC_CHECK(r, (*v)->at < r->reads,
               "\"%s\" is written in this layer: only earlier ones can be read",
               text);
    return ATTEND_OK;
  }
  SPEC_CHECK(r, strcmp(text, "position"),
             "\"position\" is not there: \"positions\" are \"none\"");
  return spec_wrong(r, "there is no variable \"%.40s\" yet", text);
}

/* The value that entry i of a table is of: of that name, or, without one, in
 * order. */
static attend_status find_value(const reading *r, const variable *v,
                                const char *name, size_t i, int *value) {
  char *end = NULL;
  long at = (long)i;
  if (name && v->kind == KIND_TOKEN)
    at = spec_find(r->d->token, r->d->tokens, name);
  else if (name)
    at = *name ? strtol(name, &end, 10) : -1;
  SPEC_CHECK(r, (!end || !*end) && at >= 0 && at < v->width,
             "\"%s\" has no value \"%.40s\"", v->name,
             name ? name : "past its last");
  *value = (int)at;
  return ATTEND_OK;
}

static attend_status number_of(const reading *r, const attend_json *value,
                               double *to) {
  *to = attend_json_number(value, NAN);
  SPEC_CHECK(r, fabs(*to) <= 1e6, "a table holds numbers within a million");
  return ATTEND_OK;
}

/* ---- linear maps ------------------------------------------------------------------------ */

static attend_status table_map(const reading *r, const attend_json *table,
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
    int value = 0;
    const attend_json *one = attend_json_at(table, i);
    ATTEND_TRY(find_value(r, v, attend_json_name(one, NULL), i, &value));
    ATTEND_TRY(number_of(r, one, &x));
    by[v->at + value] += (float)(times * x);
  }
  return ATTEND_OK;
}

static attend_status scaled_map(const reading *r, const variable *v,
                                double times, float *by) {
  SPEC_CHECK(r, v->kind != KIND_TOKEN,
             "\"%s\" is no number: give it a \"table\"", v->name);
  if (v->kind == KIND_NUMBER) by[v->at] += (float)times;
  for (int i = 0; v->kind == KIND_POSITION && i < v->width; i++)
    by[v->at + i] += (float)(times * i);
  return ATTEND_OK;
}

/* Adds `times` a linear map, as the spec writes it, to by[reads]. */
static attend_status add_map(const reading *r, const attend_json *value,
                             double times, float *by) {
  attend_json_kind kind = attend_json_kind_of(value);
  const variable *v;
  double factor = 1;
  if (kind == ATTEND_JSON_NUMBER) {
    ATTEND_TRY(number_of(r, value, &factor));
    for (int i = 0; i < r->d->tokens; i++) by[i] += (float)(times * factor);
    return ATTEND_OK;
  }
  if (kind == ATTEND_JSON_STRING) {
    ATTEND_TRY(find_variable(r, value, &v));
    return scaled_map(r, v, times, by);
  }
  ATTEND_TRY(spec_members(r, value, " of table times "));
  ATTEND_TRY(find_variable(r, attend_json_get(value, "of"), &v));
  const attend_json *table = attend_json_get(value, "table"),
                    *by_times = attend_json_get(value, "times");
  if (by_times) ATTEND_TRY(number_of(r, by_times, &factor));
  return table ? table_map(r, table, v, times * factor, by)
               : scaled_map(r, v, times * factor, by);
}

static attend_status add_maps(const reading *r, const attend_json *value,
                              double times, float *by) {
  if (attend_json_kind_of(value) != ATTEND_JSON_ARRAY)
    return add_map(r, value, times, by);
  for (size_t i = 0; i < attend_json_count(value); i++)
    ATTEND_TRY(add_map(r, attend_json_at(value, i), times, by));
  return ATTEND_OK;
}

/* ---- terms with a table ------------------------------------------------------------ */

static attend_status more_columns(const reading *r, int n, int *first) {
  SPEC_CHECK(r, r->c->columns + n <= MOST_COLUMNS,
             "its scores need more than %d columns: use smaller tables",
             MOST_COLUMNS);
  *first = r->c->columns;
  r->c->columns += n;
  return ATTEND_OK;
}

/* A column for each value of the side that has fewer. */
static attend_status add_table(const reading *r, const variable *query,
                               const variable *key, double weight) {
  compiled *c = r->c;
  const bool by_query = query->width <= key->width;
  const variable *few = by_query ? query : key, *many = by_query ? key : query;
  int first = 0;
  ATTEND_TRY(more_columns(r, few->width, &first));
  for (int i = 0; i < few->width; i++) {
    float *of_query = c->q[first + i], *of_key = c->k[first + i];
    (by_query ? of_query : of_key)[few->at + i] = 1;
    for (int j = 0; j < many->width; j++)
      (by_query ? of_key : of_query)[many->at + j] =
          (float)((double)(by_query ? c->table[i][j] : c->table[j][i]) *
                  weight);
    value_name(r->d, few, i, r->h->column[first + i]);
  }
  return ATTEND_OK;
}

static attend_status read_match(const reading *r, const attend_json *term,
                                double weight) {
  const variable *query, *key;
  const attend_json *pair = attend_json_get(term, "match");
  SPEC_CHECK(r, spec_is_list(pair, 2, 2),
             "\"match\" takes two variables: the query's and the key's");
  ATTEND_TRY(find_variable(r, attend_json_at(pair, 0), &query));
  ATTEND_TRY(find_variable(r, attend_json_at(pair, 1), &key));
  SPEC_CHECK(r, query->kind == key->kind && query->kind != KIND_NUMBER,
             "\"%s\" and \"%s\" cannot match: both hold tokens, or both "
             "positions",
             query->name, key->name);
  memset(r->c->table, 0, sizeof r->c->table);
  for (int i = 0; i < query->width; i++) r->c->table[i][i] = 1;
  return add_table(r, query, key, weight);
}

static attend_status read_offset(const reading *r, const attend_json *term,
                                 double weight) {
  const attend_json *offset = attend_json_get(term, "offset");
  const variable *p = r->d->n_variables > 1 ? &r->d->variables[1] : NULL;
  int64_t low, high;
  bool range = attend_json_count(offset) == 2 &&
               attend_json_integer(attend_json_at(offset, 0), &low) &&
               attend_json_integer(attend_json_at(offset, 1), &high);
  if (!range && attend_json_integer(offset, &low)) high = low, range = true;
  SPEC_CHECK(r, range && low <= high,
             "\"offset\" is a whole number, or [least, largest]");
  SPEC_CHECK(r, p && p->kind == KIND_POSITION,
             "offsets need positions: they are \"none\"");
  for (int i = 0; i < p->width; i++)
    for (int j = 0; j < p->width; j++)
      r->c->table[i][j] = j - i >= low && j - i <= high;
  return add_table(r, p, p, weight);
}

/* A row of a predicate: the names of keys that it holds for, or numbers. */
static attend_status table_row(const reading *r, const attend_json *row,
                               const variable *key, float *to) {
  bool list = attend_json_kind_of(row) == ATTEND_JSON_ARRAY;
  SPEC_CHECK(r, list || attend_json_kind_of(row) == ATTEND_JSON_OBJECT,
             "a row of a table lists keys, or gives each a number");
  for (size_t i = 0; i < attend_json_count(row); i++) {
    const attend_json *one = attend_json_at(row, i);
    const char *listed = list ? attend_json_string(one, NULL) : NULL;
    const char *name = list ? listed : attend_json_name(one, NULL);
    double x = 1;
    int value = 0;
    ATTEND_TRY(find_value(r, key, name, i, &value));
    if (!listed) ATTEND_TRY(number_of(r, one, &x));
    to[value] = (float)x;
  }
  return ATTEND_OK;
}

static attend_status read_table(const reading *r, const attend_json *term,
                                double weight) {
  const variable *query, *key;
  const attend_json *table = attend_json_get(term, "table");
  ATTEND_TRY(find_variable(r, attend_json_get(term, "query"), &query));
  ATTEND_TRY(find_variable(r, attend_json_get(term, "key"), &key));
  SPEC_CHECK(r, query->kind != KIND_NUMBER && key->kind != KIND_NUMBER,
             "a table joins tokens and positions: numbers have \"prefer\"");
  memset(r->c->table, 0, sizeof r->c->table);
  for (size_t i = 0; i < attend_json_count(table); i++) {
    const attend_json *row = attend_json_at(table, i);
    int value = 0;
    ATTEND_TRY(find_value(r, query, attend_json_name(row, NULL), i, &value));
    ATTEND_TRY(table_row(r, row, key, r->c->table[value]));
  }
  return add_table(r, query, key, weight);
}

/* ---- terms about the key alone --------------------------------------------------------- */

static attend_status key_alone(const reading *r) {
  compiled *c = r->c;
  if (c->alone >= 0) return ATTEND_OK;
  ATTEND_TRY(more_columns(r, 1, &c->alone));
  for (int i = 0; i < r->d->tokens; i++) c->q[c->alone][i] = 1;
  snprintf(r->h->column[c->alone], NAME, "1");
  return ATTEND_OK;
}

static attend_status read_position(const reading *r, const attend_json *term,
                                   double weight) {
  const attend_design *d = r->d;
  int place = 0;
  SPEC_CHECK(r, d->positions != ATTEND_DESIGN_POSITIONS_NONE,
             "a position cannot be selected: \"positions\" are \"none\"");
  ATTEND_TRY(spec_integer(r, term, "position", 0, d->places - 1, &place));
  ATTEND_TRY(key_alone(r));
  r->c->k[r->c->alone][d->variables[1].at + place] += (float)weight;
  return ATTEND_OK;
}

static attend_status read_prefer(const reading *r, const attend_json *term,
                                 double weight) {
  ATTEND_TRY(key_alone(r));
  return add_maps(r, attend_json_get(term, "prefer"), weight,
                  r->c->k[r->c->alone]);
}

static attend_status read_term(const reading *r, const attend_json *term) {
  static const struct {
    const char *name;
    attend_status (*read)(const reading *, const attend_json *term,
                          double weight);
  } kinds[] = {{"match", read_match},
               {"position", read_position},
               {"offset", read_offset},
               {"table", read_table},
               {"prefer", read_prefer}};
  int kind = 0, found = 0;
  ATTEND_TRY(spec_members(
      r, term, " match position offset table query key prefer weight "));
  for (int i = 0; i < (int)(sizeof kinds / sizeof *kinds); i++)
    if (attend_json_get(term, kinds[i].name)) kind = i, found++;
  double weight = attend_json_number(attend_json_get(term, "weight"), 1);
  SPEC_CHECK(r, fabs(weight) <= 1e6, "a weight is within a million");
  SPEC_CHECK(r, found == 1,
             "a term is one of \"match\", \"position\", \"offset\", \"table\" "
             "and \"prefer\"");
  return kinds[kind].read(r, term, weight);
}

/* ---- a head ------------------------------------------------------------------------------- */

static attend_status read_value(const reading *r, const attend_json *value) {
  compiled *c = r->c;
  const variable *v;
  ATTEND_TRY(spec_members(r, value, " copy count "));
  const attend_json *copy = attend_json_get(value, "copy"),
                    *count = attend_json_get(value, "count");
  SPEC_CHECK(r, !copy != !count, "a value is one of \"copy\" and \"count\"");
  c->writes = (variable){.kind = KIND_NUMBER, .width = 1};
  if (count) return add_maps(r, count, 1, c->v[0]);
  ATTEND_TRY(find_variable(r, copy, &v));
  for (int i = 0; i < v->width; i++) c->v[i][v->at + i] = 1;
  c->writes.kind = v->kind;
  c->writes.width = v->width;
  return ATTEND_OK;
}

static attend_status read_shape(const reading *r, const attend_json *head) {
  static const char *const words[] = {"average", "first", NULL};
  design_head *h = r->h;
  int ties = 0;
  ATTEND_TRY(spec_word(r, head, "ties", words, &ties));
  h->ties = ties ? ATTEND_TIES_FIRST : ATTEND_TIES_AVERAGE;
  h->dim = r->c->columns > 0 ? r->c->columns : 1;
  h->dim_v = r->c->writes.width;
  ATTEND_TRY(spec_integer(r, head, "width", h->dim, MOST_COLUMNS, &h->dim));
  return spec_integer(r, head, "room", h->dim_v, MOST_TOKENS, &h->dim_v);
}

static attend_status add_variable(const reading *r) {
  attend_design *d = r->d;
  variable v = r->c->writes;
  for (int i = 0; i < d->n_variables; i++)
    SPEC_CHECK(r, strcmp(d->variables[i].name, r->h->name),
               "the name is taken: what a head gives is called like the head");
  SPEC_CHECK(r, d->features + r->h->dim_v <= MOST_FEATURES,
             "the stream would have more than %d features", MOST_FEATURES);
  memcpy(v.name, r->h->name, NAME);
  v.room = r->h->dim_v;
  r->h->slot = d->features;
  spec_add_variable(d, v);
  return ATTEND_OK;
}

/* The next part [rows][columns] of the weights, all 0 so far. */
static attend_status add_part(attend_design *d, const char *name, int head,
                              int rows, int columns, float **to) {
  size_t n = d->count + (size_t)rows * (size_t)columns;
  float **all = &d->weights[ATTEND_DESIGNED], *more;
  ATTEND_TRY(
      take_zeroed(d->ctx, n * sizeof *more, "a design's weights", &more));
  if (*all) memcpy(more, *all, d->count * sizeof *more);
  give(d->ctx, *all);
  *all = more;
  *to = more + d->count;
  snprintf(d->part_name[d->n_parts], sizeof d->part_name[0], "%s", name);
  d->parts[d->n_parts] = (attend_design_part){d->part_name[d->n_parts], head,
                                              rows, columns, d->count};
  d->n_parts++;
  d->count = n;
  return ATTEND_OK;
}

static attend_status add_head(const reading *r, int number) {
  const design_head *h = r->h;
  compiled *c = r->c;
  const struct {
    const char *name;
    int columns;
    float (*from)[MOST_FEATURES];
  } parts[] = {{"query", h->dim, c->q},
               {"key", h->dim, c->k},
               {"value", h->dim_v, c->v}};
  for (int p = 0; p < 3; p++) {
    const int n = parts[p].columns;
    char name[48];
    float *to;
    snprintf(name, sizeof name, "layers.%d.heads.%d.%s", h->layer, number,
             parts[p].name);
    ATTEND_TRY(add_part(r->d, name, r->d->n_heads, h->reads, n, &to));
    for (int i = 0; i < h->reads; i++)
      for (int j = 0; j < n; j++) to[i * n + j] = parts[p].from[j][i];
  }
  r->d->n_heads++;
  return ATTEND_OK;
}

static attend_status read_head(reading *r, const attend_json *head, int layer,
                               int number) {
  attend_design *d = r->d;
  const attend_json *score = attend_json_get(head, "score");
  SPEC_CHECK(r, d->n_heads < MOST_HEADS, "there are %d heads at most",
             MOST_HEADS);
  design_head *h = r->h = &d->heads[d->n_heads];
  ATTEND_TRY(spec_members(r, head, " name score value ties width room "));
  ATTEND_TRY(
      spec_name(r, attend_json_get(head, "name"), "a head's name", h->name));
  snprintf(r->place, sizeof r->place, "head \"%s\"", h->name);
  SPEC_CHECK(r, !score || spec_is_list(score, 0, SIZE_MAX),
             "\"score\" is a list of terms");
  h->layer = layer;
  h->reads = r->reads;
  memset(r->c, 0, sizeof *r->c);
  r->c->alone = -1;
  for (size_t i = 0; i < attend_json_count(score); i++)
    ATTEND_TRY(read_term(r, attend_json_at(score, i)));
  ATTEND_TRY(read_value(r, attend_json_get(head, "value")));
  ATTEND_TRY(read_shape(r, head));
  ATTEND_TRY(add_variable(r));
  return add_head(r, number);
}

attend_status spec_heads(reading *r, const attend_json *layers) {
  attend_design *d = r->d;
  SPEC_CHECK(r, spec_is_list(layers, 1, MOST_LAYERS),
             "\"layers\" is a list of 1 to %d lists of heads", MOST_LAYERS);
  ATTEND_TRY(take(d->ctx, sizeof *r->c, "a head's terms", &r->c));
  for (; d->layers < (int)attend_json_count(layers); d->layers++) {
    const attend_json *layer = attend_json_at(layers, (size_t)d->layers);
    r->reads = d->features;
    snprintf(r->place, sizeof r->place, "layer %d", d->layers);
    SPEC_CHECK(r, spec_is_list(layer, 1, SIZE_MAX),
               "a layer is a list of heads");
    for (size_t j = 0; j < attend_json_count(layer); j++) {
      snprintf(r->place, sizeof r->place, "layer %d, head %zu", d->layers, j);
      ATTEND_TRY(read_head(r, attend_json_at(layer, j), d->layers, (int)j));
    }
  }
  *r->place = 0;
  return ATTEND_OK;
}

/* ---- the readout: logits = x Wo --------------------------------------------------------- */

/* The answer that a value of the copied variable stands for. */
static attend_status answer_for(const reading *r, const attend_json *names,
                                const char *value, int *answer) {
  const attend_json *said = attend_json_get(names, value);
  const char *name = said ? attend_json_string(said, NULL) : value;
  SPEC_CHECK(r, name, "\"names\" says which answer a value stands for");
  *answer = spec_find(r->d->answer, r->d->answers, name);
  SPEC_CHECK(r, !said || *answer >= 0, "\"%.40s\" is not one of the answers",
             name);
  return ATTEND_OK;
}

static attend_status copy_readout(const reading *r, const attend_json *readout,
                                  float *w) {
  const attend_design *d = r->d;
  const variable *v;
  const attend_json *names = attend_json_get(readout, "names");
  ATTEND_TRY(find_variable(r, attend_json_get(readout, "copy"), &v));
  SPEC_CHECK(r, v->kind != KIND_NUMBER,
             "\"%s\" is a number: give \"logits\" for each answer", v->name);
  for (size_t i = 0; i < attend_json_count(names); i++) {
    const char *name = attend_json_name(attend_json_at(names, i), NULL);
    int value = 0;
    ATTEND_TRY(find_value(r, v, name ? name : "", i, &value));
  }
  for (int i = 0; i < v->width; i++) {
    char text[NAME];
    int answer = -1;
    value_name(d, v, i, text);
    ATTEND_TRY(answer_for(r, names, text, &answer));
    if (answer >= 0) w[(v->at + i) * d->answers + answer] = 1;
  }
  return ATTEND_OK;
}

static attend_status logit_readout(const reading *r, const attend_json *logits,
                                   float *w) {
  const attend_design *d = r->d;
  SPEC_CHECK(r, attend_json_kind_of(logits) == ATTEND_JSON_OBJECT,
             "\"logits\" has a linear map for each answer");
  for (size_t i = 0; i < attend_json_count(logits); i++) {
    const attend_json *one = attend_json_at(logits, i);
    const char *name = attend_json_name(one, NULL);
    int answer = spec_find(d->answer, d->answers, name);
    float by[MOST_FEATURES] = {0};
    SPEC_CHECK(r, answer >= 0, "\"%.40s\" is not one of the answers", name);
    ATTEND_TRY(add_maps(r, one, 1, by));
    for (int f = 0; f < d->features; f++) w[f * d->answers + answer] = by[f];
  }
  return ATTEND_OK;
}

/* The readout sees the variables that the design reads answers from, and no
 * others: a twin that could read the token itself would need no attention to
 * answer with it. Token and position are one where they are added. */
static void note_read(attend_design *d, const float *w) {
  for (int i = 0; i < d->n_variables; i++) {
    const variable *v = &d->variables[i];
    bool together = d->positions == ATTEND_DESIGN_POSITIONS_ADDED && i < 2,
         read = 0;
    int from = together ? 0 : v->at,
        to = together ? d->embedded : v->at + v->room;
    for (int j = from * d->answers; j < to * d->answers; j++) read |= w[j] != 0;
    for (int f = from; f < to; f++) d->is_read[f] = read;
  }
}

/* Both one-hot, and together [embedded][embedded]. */
static attend_status add_tables(attend_design *d) {
  float *to;
  if (d->positions != ATTEND_DESIGN_POSITIONS_ADDED) return ATTEND_OK;
  ATTEND_TRY(add_part(d, "tokens", -1, d->tokens, d->embedded, &to));
  ATTEND_TRY(add_part(d, "positions", -1, d->places, d->embedded, &to));
  to = d->weights[ATTEND_DESIGNED] + tables_at(d);
  for (int i = 0; i < d->embedded; i++) to[i * d->embedded + i] = 1;
  return ATTEND_OK;
}

attend_status spec_readout(reading *r, const attend_json *readout) {
  attend_design *d = r->d;
  float *w;
  snprintf(r->place, sizeof r->place, "readout");
  SPEC_CHECK(r, readout, "say what the answer is read from");
  ATTEND_TRY(spec_members(r, readout, " copy names logits "));
  const attend_json *copy = attend_json_get(readout, "copy"),
                    *logits = attend_json_get(readout, "logits");
  SPEC_CHECK(r, !copy != !logits, "it is one of \"copy\" and \"logits\"");
  r->reads = d->features;
  ATTEND_TRY(add_part(d, "readout", -1, d->features, d->answers, &w));
  ATTEND_TRY(copy ? copy_readout(r, readout, w) : logit_readout(r, logits, w));
  note_read(d, w);
  *r->place = 0;
  return add_tables(d);
}
