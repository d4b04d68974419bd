/* Heads and readout: what a spec says they select, carry and answer, compiled into
 * the parts of a twin.
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

typedef struct compiled { /* by column, as terms add them; of a head: */
  float q[MOST_COLUMNS][MOST_FEATURES], k[MOST_COLUMNS][MOST_FEATURES];
  float v[MOST_TOKENS][MOST_FEATURES];
  int columns;
  int alone;                             /* the column of terms about the key alone; -1: none yet */
  float table[MOST_TOKENS][MOST_TOKENS]; /* of a term */
  float readout[MOST_ANSWERS][MOST_FEATURES];
} compiled;

/* ---- variables and their values -------------------------------------------------------- */

static void value_name(const attend_design *d, const variable *v, int i, char to[NAME]) {
  if (v->kind == KIND_TOKEN)
    memcpy(to, d->token[i], NAME);
  else
    snprintf(to, NAME, "%d", i);
}

/* "A", "3" of token and position, before `embedded` is set; of heads "previous=A",
 * "depth", and "depth+1" where there is a larger slot than values. */
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
  d->features += v.slot;
  for (int i = 0; i < v.slot; i++) name_feature(d, &v, i);
  d->variables[d->n_variables++] = v;
}

static const variable *find_variable(reading *r, const attend_json *name) {
  const attend_design *d = r->d;
  const char *text = attend_json_string(name, NULL);
  int i = 0;
  if (!spec_check(r, text, "a variable is named by a string")) return d->variables;
  while (i < d->n_variables && strcmp(d->variables[i].name, text)) i++;
  if (i < d->n_variables) {
    spec_check(r, d->variables[i].at < r->reads,
               "\"%s\" is written in this layer: only earlier ones can be read", text);
    return &d->variables[i];
  }
  spec_check(r, strcmp(text, "position"), "\"position\" is not there: \"positions\" are \"none\"");
  spec_check(r, false, "there is no variable \"%.40s\" yet", text);
  return d->variables;
}

/* The value that entry i of a table is of: of that name, or, without one, in
 * order. */
static int find_value(reading *r, const variable *v, const char *name, size_t i) {
  char *end = NULL;
  long at = (long)i;
  if (name && v->kind == KIND_TOKEN)
    at = spec_find(r->d->token, r->d->tokens, name);
  else if (name)
    at = *name ? strtol(name, &end, 10) : -1;
  return spec_check(r, (!end || !*end) && at >= 0 && at < v->width, "\"%s\" has no value \"%.40s\"",
                    v->name, name ? name : "past its last")
             ? (int)at
             : 0;
}

static double number_of(reading *r, const attend_json *value) {
  double x = attend_json_number(value, NAN);
  return spec_check(r, fabs(x) <= 1e6, "a table holds numbers within a million") ? x : 0;
}

/* ---- linear maps ------------------------------------------------------------------------ */

static void table_map(reading *r, const attend_json *table, const variable *v, double times,
                      float *by) {
  bool list = attend_json_kind_of(table) == ATTEND_JSON_ARRAY;
  size_t n = attend_json_count(table);
  spec_check(r, v->kind != KIND_NUMBER, "\"%s\" is a number and takes \"times\", not a table",
             v->name);
  spec_check(r, list || attend_json_kind_of(table) == ATTEND_JSON_OBJECT,
             "a table is an object by value, or a list");
  spec_check(r, !list || n == (size_t)v->width, "the table has %zu numbers: \"%s\" has %d values",
             n, v->name, v->width);
  for (size_t i = 0; i < n; i++) {
    const attend_json *one = attend_json_at(table, i);
    int value = find_value(r, v, attend_json_name(one, NULL), i);
    by[v->at + value] += (float)(times * number_of(r, one));
  }
}

static void scaled_map(reading *r, const variable *v, double times, float *by) {
  spec_check(r, v->kind != KIND_TOKEN, "\"%s\" is no number: give it a \"table\"", v->name);
  if (v->kind == KIND_NUMBER) by[v->at] += (float)times;
  for (int i = 0; v->kind == KIND_POSITION && i < v->width; i++)
    by[v->at + i] += (float)(times * i);
}

/* Adds `times` a linear map, as the spec writes it, to by[reads]. */
static void add_map(reading *r, const attend_json *value, double times, float *by) {
  attend_json_kind kind = attend_json_kind_of(value);
  if (kind == ATTEND_JSON_NUMBER) {
    times *= number_of(r, value);
    for (int i = 0; i < r->d->tokens; i++) by[i] += (float)times;
    return;
  }
  if (kind != ATTEND_JSON_STRING && !spec_members(r, value, " of table times ")) return;
  const attend_json *table = attend_json_get(value, "table"),
                    *factor = attend_json_get(value, "times");
  const variable *v =
      find_variable(r, kind == ATTEND_JSON_STRING ? value : attend_json_get(value, "of"));
  if (factor) times *= number_of(r, factor);
  if (table)
    table_map(r, table, v, times, by);
  else
    scaled_map(r, v, times, by);
}

static void add_maps(reading *r, const attend_json *value, double times, float *by) {
  if (attend_json_kind_of(value) != ATTEND_JSON_ARRAY)
    add_map(r, value, times, by);
  else
    for (size_t i = 0; i < attend_json_count(value); i++)
      add_map(r, attend_json_at(value, i), times, by);
}

/* ---- terms with a table ------------------------------------------------------------ */

/* The first of n columns more; -1: there are too many. */
static int more_columns(reading *r, int n) {
  int first = r->c->columns;
  if (!spec_check(r, first + n <= MOST_COLUMNS,
                  "its scores need more than %d columns: use smaller tables", MOST_COLUMNS))
    return -1;
  r->c->columns += n;
  return first;
}

/* A column for each value of the side that has fewer. */
static void add_table(reading *r, const variable *query, const variable *key, double weight) {
  compiled *c = r->c;
  const bool by_query = query->width <= key->width;
  const variable *few = by_query ? query : key, *many = by_query ? key : query;
  int first = more_columns(r, few->width);
  for (int i = 0; first >= 0 && i < few->width; i++) {
    float *of_query = c->q[first + i], *of_key = c->k[first + i];
    (by_query ? of_query : of_key)[few->at + i] = 1;
    for (int j = 0; j < many->width; j++) {
      double x = (double)(by_query ? c->table[i][j] : c->table[j][i]);
      (by_query ? of_key : of_query)[many->at + j] = (float)(x * weight);
    }
    value_name(r->d, few, i, r->h->column[first + i]);
  }
}

static void read_match(reading *r, const attend_json *term, double weight) {
  const attend_json *pair = attend_json_get(term, "match");
  spec_check(r, spec_is_list(pair, 2, 2),
             "\"match\" takes two variables: the query's and the key's");
  const variable *query = find_variable(r, attend_json_at(pair, 0)),
                 *key = find_variable(r, attend_json_at(pair, 1));
  spec_check(r, query->kind == key->kind && query->kind != KIND_NUMBER,
             "\"%s\" and \"%s\" cannot match: both hold tokens, or both "
             "positions",
             query->name, key->name);
  for (int i = 0; i < query->width; i++) r->c->table[i][i] = 1;
  add_table(r, query, key, weight);
}

static void read_offset(reading *r, const attend_json *term, double weight) {
  const attend_json *offset = attend_json_get(term, "offset");
  const variable *p = &r->d->variables[1];
  int64_t low, high;
  bool range = attend_json_count(offset) == 2 &&
               attend_json_integer(attend_json_at(offset, 0), &low) &&
               attend_json_integer(attend_json_at(offset, 1), &high);
  if (!range && attend_json_integer(offset, &low)) high = low, range = true;
  if (!spec_check(r, range && low <= high, "\"offset\" is a whole number, or [least, largest]") ||
      !spec_check(r, r->d->positions != ATTEND_DESIGN_POSITIONS_NONE,
                  "offsets need positions: they are \"none\""))
    return;
  for (int i = 0; i < p->width; i++)
    for (int j = 0; j < p->width; j++) r->c->table[i][j] = j - i >= low && j - i <= high;
  add_table(r, p, p, weight);
}

/* A row of a predicate: the names of keys that it holds for, or numbers. */
static void table_row(reading *r, const attend_json *row, const variable *key, float *to) {
  bool list = attend_json_kind_of(row) == ATTEND_JSON_ARRAY;
  spec_check(r, list || attend_json_kind_of(row) == ATTEND_JSON_OBJECT,
             "a row of a table lists keys, or gives each a number");
  for (size_t i = 0; i < attend_json_count(row); i++) {
    const attend_json *one = attend_json_at(row, i);
    const char *listed = list ? attend_json_string(one, NULL) : NULL;
    const char *name = list ? listed : attend_json_name(one, NULL);
    int value = find_value(r, key, name, i);
    to[value] = listed ? 1 : (float)number_of(r, one);
  }
}

static void read_table(reading *r, const attend_json *term, double weight) {
  const attend_json *table = attend_json_get(term, "table");
  const variable *query = find_variable(r, attend_json_get(term, "query")),
                 *key = find_variable(r, attend_json_get(term, "key"));
  if (!spec_check(r, query->kind != KIND_NUMBER && key->kind != KIND_NUMBER,
                  "a table joins tokens and positions: numbers have "
                  "\"prefer\""))
    return;
  for (size_t i = 0; i < attend_json_count(table); i++) {
    const attend_json *row = attend_json_at(table, i);
    int value = find_value(r, query, attend_json_name(row, NULL), i);
    table_row(r, row, key, r->c->table[value]);
  }
  add_table(r, query, key, weight);
}

/* ---- terms about the key alone --------------------------------------------------------- */

/* Their column of Km. */
static float *key_alone(reading *r) {
  compiled *c = r->c;
  if (c->alone < 0) {
    int column = more_columns(r, 1);
    if (column < 0) return c->k[0];
    c->alone = column;
    for (int i = 0; i < r->d->tokens; i++) c->q[column][i] = 1;
    snprintf(r->h->column[column], NAME, "1");
  }
  return c->k[c->alone];
}

static void read_position(reading *r, const attend_json *term, double weight) {
  const attend_design *d = r->d;
  spec_check(r, d->positions != ATTEND_DESIGN_POSITIONS_NONE,
             "a position cannot be selected: \"positions\" are \"none\"");
  int place = spec_integer(r, term, "position", 0, d->places - 1, 0);
  key_alone(r)[d->variables[1].at + place] += (float)weight;
}

static void read_prefer(reading *r, const attend_json *term, double weight) {
  add_maps(r, attend_json_get(term, "prefer"), weight, key_alone(r));
}

static void read_term(reading *r, const attend_json *term) {
  static const struct {
    const char *name;
    void (*read)(reading *r, const attend_json *term, double weight);
  } kinds[] = {{"match", read_match},
               {"position", read_position},
               {"offset", read_offset},
               {"table", read_table},
               {"prefer", read_prefer}};
  int kind = 0, found = 0;
  spec_members(r, term, " match position offset table query key prefer weight ");
  for (int i = 0; i < (int)(sizeof kinds / sizeof *kinds); i++)
    if (attend_json_get(term, kinds[i].name)) kind = i, found++;
  double weight = attend_json_number(attend_json_get(term, "weight"), 1);
  spec_check(r, fabs(weight) <= 1e6, "a weight is within a million");
  if (!spec_check(r, found == 1,
                  "a term is one of \"match\", \"position\", \"offset\", "
                  "\"table\" and \"prefer\""))
    return;
  memset(r->c->table, 0, sizeof r->c->table);
  kinds[kind].read(r, term, weight);
}

/* ---- a head ------------------------------------------------------------------------------- */

/* What it writes, without a place yet. */
static variable read_value(reading *r, const attend_json *value) {
  variable writes = {.kind = KIND_NUMBER, .width = 1};
  spec_members(r, value, " copy count ");
  const attend_json *copy = attend_json_get(value, "copy"),
                    *count = attend_json_get(value, "count");
  spec_check(r, !copy != !count, "a value is one of \"copy\" and \"count\"");
  if (copy) {
    writes = *find_variable(r, copy);
    for (int i = 0; i < writes.width; i++) r->c->v[i][writes.at + i] = 1;
  } else {
    add_maps(r, count, 1, r->c->v[0]);
  }
  return writes;
}

static void read_shape(reading *r, const attend_json *head, variable writes) {
  static const char *const words[] = {"average", "first", NULL};
  attend_design *d = r->d;
  design_head *h = r->h;
  int columns = r->c->columns > 0 ? r->c->columns : 1;
  h->ties = spec_word(r, head, "ties", words, 0) ? ATTEND_TIES_FIRST : ATTEND_TIES_AVERAGE;
  h->dim = spec_integer(r, head, "width", columns, MOST_COLUMNS, columns);
  h->dim_v = spec_integer(r, head, "slot", writes.width, MOST_TOKENS, writes.width);
  for (int i = 0; i < d->n_variables; i++)
    spec_check(r, strcmp(d->variables[i].name, h->name),
               "the name is taken: what a head gives is called like the head");
  if (!spec_check(r, d->features + h->dim_v <= MOST_FEATURES,
                  "the stream would have more than %d features", MOST_FEATURES))
    return;
  h->slot = d->features;
  writes.slot = h->dim_v;
  memcpy(writes.name, h->name, NAME);
  spec_add_variable(d, writes);
}

/* The next part [rows][columns] of the weights, from its columns; NULL: all 0. */
static void add_part(reading *r, const char *name, int head, int rows, int columns,
                     float (*from)[MOST_FEATURES]) {
  attend_design *d = r->d;
  const size_t at = d->count;
  float **all = &d->weights[ATTEND_DESIGNED], *more;
  char *to = d->part_name[d->n_parts];
  d->count += (size_t)rows * (size_t)columns;
  r->status = ctx_alloc_zeroed(d->ctx, d->count * sizeof *more, "a design's weights", &more);
  if (r->status) return;
  if (at) memcpy(more, *all, at * sizeof *more);
  ctx_free(d->ctx, *all);
  *all = more;
  for (int i = 0; from && i < rows * columns; i++)
    more[at + (size_t)i] = from[i % columns][i / columns];
  snprintf(to, sizeof d->part_name[0], "%s", name);
  d->parts[d->n_parts++] = (attend_design_part){to, head, rows, columns, at};
}

static void add_head(reading *r, int number) {
  const design_head *h = r->h;
  const struct {
    const char *name;
    int columns;
    float (*from)[MOST_FEATURES];
  } parts[] = {{"query", h->dim, r->c->q}, {"key", h->dim, r->c->k}, {"value", h->dim_v, r->c->v}};
  for (int i = 0; i < 3 && !r->status; i++) {
    char name[48];
    snprintf(name, sizeof name, "layers.%d.heads.%d.%s", h->layer, number, parts[i].name);
    add_part(r, name, r->d->n_heads, h->reads, parts[i].columns, parts[i].from);
  }
  r->d->n_heads++;
}

static void read_head(reading *r, const attend_json *head, int number) {
  attend_design *d = r->d;
  const attend_json *score = attend_json_get(head, "score");
  if (!spec_check(r, d->n_heads < MOST_HEADS, "there are %d heads at most", MOST_HEADS)) return;
  design_head *h = r->h = &d->heads[d->n_heads];
  spec_members(r, head, " name score value ties width slot ");
  spec_name(r, attend_json_get(head, "name"), "a head's name", h->name);
  snprintf(r->place, sizeof r->place, "head \"%s\"", h->name);
  spec_check(r, !score || spec_is_list(score, 0, SIZE_MAX), "\"score\" is a list of terms");
  h->layer = d->layers;
  h->reads = r->reads;
  memset(r->c, 0, sizeof *r->c);
  r->c->alone = -1;
  for (size_t i = 0; !r->status && i < attend_json_count(score); i++)
    read_term(r, attend_json_at(score, i));
  read_shape(r, head, read_value(r, attend_json_get(head, "value")));
  if (!r->status) add_head(r, number);
}

void spec_heads(reading *r, const attend_json *layers) {
  attend_design *d = r->d;
  if (!spec_check(r, spec_is_list(layers, 1, MOST_LAYERS),
                  "\"layers\" is a list of 1 to %d lists of heads", MOST_LAYERS))
    return;
  r->status = ctx_alloc(d->ctx, sizeof *r->c, "a head's terms", &r->c);
  for (size_t i = 0; !r->status && i < attend_json_count(layers); i++) {
    const attend_json *layer = attend_json_at(layers, i);
    r->reads = d->features;
    snprintf(r->place, sizeof r->place, "layer %zu", i);
    spec_check(r, spec_is_list(layer, 1, SIZE_MAX), "a layer is a list of heads");
    for (size_t j = 0; !r->status && j < attend_json_count(layer); j++) {
      snprintf(r->place, sizeof r->place, "layer %zu, head %zu", i, j);
      read_head(r, attend_json_at(layer, j), (int)j);
    }
    d->layers++;
  }
  *r->place = 0;
}

/* ---- the readout: logits = x Wo --------------------------------------------------------- */

/* The answer that a value of the copied variable stands for; -1: none. */
static int answer_for(reading *r, const attend_json *names, const char *value) {
  const attend_json *said = attend_json_get(names, value);
  const char *name = said ? attend_json_string(said, NULL) : value;
  if (!spec_check(r, name, "\"names\" says which answer a value stands for")) return -1;
  int answer = spec_find(r->d->answer, r->d->answers, name);
  spec_check(r, !said || answer >= 0, "\"%.40s\" is not one of the answers", name);
  return answer;
}

static void copy_readout(reading *r, const attend_json *readout) {
  const variable *v = find_variable(r, attend_json_get(readout, "copy"));
  const attend_json *names = attend_json_get(readout, "names");
  spec_check(r, v->kind != KIND_NUMBER, "\"%s\" is a number: give \"logits\" for each answer",
             v->name);
  for (size_t i = 0; i < attend_json_count(names); i++) {
    const char *name = attend_json_name(attend_json_at(names, i), NULL);
    find_value(r, v, name ? name : "", i);
  }
  for (int i = 0; !r->status && i < v->width; i++) {
    char text[NAME];
    value_name(r->d, v, i, text);
    int answer = answer_for(r, names, text);
    if (answer >= 0) r->c->readout[answer][v->at + i] = 1;
  }
}

static void logit_readout(reading *r, const attend_json *logits) {
  spec_check(r, attend_json_kind_of(logits) == ATTEND_JSON_OBJECT,
             "\"logits\" has a linear map for each answer");
  for (size_t i = 0; !r->status && i < attend_json_count(logits); i++) {
    const attend_json *one = attend_json_at(logits, i);
    const char *name = attend_json_name(one, NULL);
    int answer = spec_find(r->d->answer, r->d->answers, name);
    if (spec_check(r, answer >= 0, "\"%.40s\" is not one of the answers", name))
      add_maps(r, one, 1, r->c->readout[answer]);
  }
}

/* The readout sees the variables that the design reads answers from, and no
 * others: a twin that could read the token itself would need no attention to
 * answer with it. Token and position are one where they are added. */
static void note_read(const reading *r) {
  attend_design *d = r->d;
  for (int i = 0; i < d->n_variables; i++) {
    const variable *v = &d->variables[i];
    bool together = d->positions == ATTEND_DESIGN_POSITIONS_ADDED && i < 2, read = false;
    int from = together ? 0 : v->at, to = together ? d->embedded : v->at + v->slot;
    for (int a = 0; a < d->answers; a++)
      for (int f = from; f < to; f++) read |= r->c->readout[a][f] != 0;
    for (int f = from; f < to; f++) d->is_read[f] = read;
  }
}

/* Both one-hot, and together [embedded][embedded]. */
static void add_tables(reading *r) {
  attend_design *d = r->d;
  add_part(r, "tokens", -1, d->tokens, d->embedded, NULL);
  if (!r->status) add_part(r, "positions", -1, d->places, d->embedded, NULL);
  if (r->status) return;
  float *to = d->weights[ATTEND_DESIGNED] + tables_at(d);
  for (int i = 0; i < d->embedded; i++) to[i * d->embedded + i] = 1;
}

void spec_readout(reading *r, const attend_json *readout) {
  attend_design *d = r->d;
  snprintf(r->place, sizeof r->place, "readout");
  spec_check(r, readout, "say what the answer is read from");
  spec_members(r, readout, " copy names logits ");
  const attend_json *copy = attend_json_get(readout, "copy"),
                    *logits = attend_json_get(readout, "logits");
  if (!spec_check(r, !copy != !logits, "it is one of \"copy\" and \"logits\"")) return;
  r->reads = d->features;
  if (copy)
    copy_readout(r, readout);
  else
    logit_readout(r, logits);
  *r->place = 0;
  if (r->status) return;
  note_read(r);
  add_part(r, "readout", -1, d->features, d->answers, r->c->readout);
  if (!r->status && d->positions == ATTEND_DESIGN_POSITIONS_ADDED) add_tables(r);
}
