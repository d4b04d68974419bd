/* Heads: what a spec says they select and carry, compiled into Qm, Km and Vm.
 *
 * Place: design/ - after the names, before the readout.
 *
 * A score is a sum of terms. A term joins a variable of the query with one of the
 * key through a table R, and variables are one-hot, so the score is
 * x_i^T R x_j: with few values on the query's side the columns of Qm are these
 * values and Km holds R; with few on the key's side it is the other way round.
 * Terms that look at the key alone share one column, whose query is 1.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "design/design.h"

typedef struct { /* by column, as the terms add them */
  float q[MOST_COLUMNS][MOST_FEATURES], k[MOST_COLUMNS][MOST_FEATURES];
  float v[MOST_TOKENS][MOST_FEATURES];
  int columns;
  int alone; /* the column of terms about the key alone; -1: none yet */
  float table[MOST_TOKENS][MOST_TOKENS];
} compiled;

typedef struct {
  reading *r;
  design_head *h;
  compiled *c;
  variable writes;
} building;

static attend_status more_columns(building *b, int n, int *first) {
  SPEC_CHECK(b->r, b->c->columns + n <= MOST_COLUMNS,
             "its scores need more than %d columns: use smaller tables",
             MOST_COLUMNS);
  *first = b->c->columns;
  b->c->columns += n;
  return ATTEND_OK;
}

/* ---- terms with a table ------------------------------------------------------------ */

static attend_status add_table(building *b, const variable *query,
                               const variable *key, double weight) {
  compiled *c = b->c;
  bool by_query = query->width <= key->width;
  int n = by_query ? query->width : key->width, first = 0;
  char text[NAME];
  ATTEND_TRY(more_columns(b, n, &first));
  for (int i = 0; i < query->width; i++)
    for (int j = 0; j < key->width; j++) {
      float x = (float)((double)c->table[i][j] * weight);
      if (by_query)
        c->k[first + i][key->at + j] = x;
      else
        c->q[first + j][query->at + i] = x;
    }
  for (int i = 0; i < n; i++) {
    if (by_query)
      c->q[first + i][query->at + i] = 1;
    else
      c->k[first + i][key->at + i] = 1;
    snprintf(b->h->column[first + i], NAME, "%s",
             spec_value_name(b->r->d, by_query ? query : key, i, text));
  }
  return ATTEND_OK;
}

static attend_status read_match(building *b, const attend_json *pair,
                                double weight) {
  const variable *query, *key;
  SPEC_CHECK(b->r,
             attend_json_kind_of(pair) == ATTEND_JSON_ARRAY &&
                 attend_json_count(pair) == 2,
             "\"match\" takes two variables: the query's and the key's");
  ATTEND_TRY(spec_variable(b->r, attend_json_at(pair, 0), b->h->reads, &query));
  ATTEND_TRY(spec_variable(b->r, attend_json_at(pair, 1), b->h->reads, &key));
  SPEC_CHECK(b->r, query->kind == key->kind && query->kind != KIND_NUMBER,
             "\"%s\" and \"%s\" cannot match: both hold tokens, or both "
             "positions",
             query->name, key->name);
  memset(b->c->table, 0, sizeof b->c->table);
  for (int i = 0; i < query->width; i++) b->c->table[i][i] = 1;
  return add_table(b, query, key, weight);
}

static attend_status read_offset(building *b, const attend_json *offset,
                                 double weight) {
  const variable *p = b->r->d->n_variables > 1 ? &b->r->d->variables[1] : NULL;
  int64_t low, high;
  bool range = attend_json_count(offset) == 2 &&
               attend_json_integer(attend_json_at(offset, 0), &low) &&
               attend_json_integer(attend_json_at(offset, 1), &high);
  if (!range && attend_json_integer(offset, &low)) high = low, range = true;
  SPEC_CHECK(b->r, range && low <= high,
             "\"offset\" is a whole number, or [least, largest]");
  SPEC_CHECK(b->r, p && p->kind == KIND_POSITION,
             "offsets need positions: they are \"none\"");
  for (int i = 0; i < p->width; i++)
    for (int j = 0; j < p->width; j++)
      b->c->table[i][j] = j - i >= low && j - i <= high;
  return add_table(b, p, p, weight);
}

/* A row of a predicate: the names of keys that it holds for, or numbers. */
static attend_status table_row(building *b, const attend_json *row,
                               const variable *key, float *to) {
  attend_json_kind kind = attend_json_kind_of(row);
  SPEC_CHECK(b->r, kind == ATTEND_JSON_ARRAY || kind == ATTEND_JSON_OBJECT,
             "a row of a table lists keys, or gives each a number");
  for (size_t i = 0; i < attend_json_count(row); i++) {
    const attend_json *one = attend_json_at(row, i);
    const char *name = kind == ATTEND_JSON_OBJECT
                           ? attend_json_name(one, NULL)
                           : attend_json_string(one, NULL);
    int j = name ? spec_value(b->r->d, key, name) : (int)i;
    double x =
        name && kind == ATTEND_JSON_ARRAY ? 1 : attend_json_number(one, NAN);
    SPEC_CHECK(b->r, j >= 0 && j < key->width, "\"%s\" has no value \"%.40s\"",
               key->name, name ? name : "past its last");
    SPEC_CHECK(b->r, fabs(x) <= 1e6, "a table holds numbers within a million");
    to[j] = (float)x;
  }
  return ATTEND_OK;
}

static attend_status read_table(building *b, const attend_json *term,
                                double weight) {
  const variable *query, *key;
  const attend_json *table = attend_json_get(term, "table");
  ATTEND_TRY(
      spec_variable(b->r, attend_json_get(term, "query"), b->h->reads, &query));
  ATTEND_TRY(
      spec_variable(b->r, attend_json_get(term, "key"), b->h->reads, &key));
  SPEC_CHECK(b->r, query->kind != KIND_NUMBER && key->kind != KIND_NUMBER,
             "a table joins tokens and positions: numbers have \"prefer\"");
  memset(b->c->table, 0, sizeof b->c->table);
  for (size_t i = 0; i < attend_json_count(table); i++) {
    const attend_json *row = attend_json_at(table, i);
    const char *name = attend_json_name(row, NULL);
    int at = name ? spec_value(b->r->d, query, name) : (int)i;
    SPEC_CHECK(b->r, at >= 0 && at < query->width,
               "\"%s\" has no value \"%.40s\"", query->name,
               name ? name : "past its last");
    ATTEND_TRY(table_row(b, row, key, b->c->table[at]));
  }
  return add_table(b, query, key, weight);
}

/* ---- terms about the key alone --------------------------------------------------------- */

static attend_status key_alone(building *b) {
  compiled *c = b->c;
  if (c->alone >= 0) return ATTEND_OK;
  ATTEND_TRY(more_columns(b, 1, &c->alone));
  for (int i = 0; i < b->r->d->tokens; i++) c->q[c->alone][i] = 1;
  snprintf(b->h->column[c->alone], NAME, "1");
  return ATTEND_OK;
}

static attend_status read_position(building *b, const attend_json *term,
                                   double weight) {
  const attend_design *d = b->r->d;
  int place = 0;
  SPEC_CHECK(b->r, d->positions != ATTEND_DESIGN_POSITIONS_NONE,
             "a position cannot be selected: \"positions\" are \"none\"");
  ATTEND_TRY(spec_integer(b->r, term, "position", 0, d->places - 1, &place));
  ATTEND_TRY(key_alone(b));
  b->c->k[b->c->alone][d->variables[1].at + place] += (float)weight;
  return ATTEND_OK;
}

static attend_status read_term(building *b, const attend_json *term) {
  const char *known = " match position offset table query key prefer weight ";
  ATTEND_TRY(spec_members(b->r, term, known));
  double weight = attend_json_number(attend_json_get(term, "weight"), 1);
  const attend_json *match = attend_json_get(term, "match"),
                    *position = attend_json_get(term, "position"),
                    *offset = attend_json_get(term, "offset"),
                    *prefer = attend_json_get(term, "prefer"),
                    *table = attend_json_get(term, "table");
  SPEC_CHECK(b->r, fabs(weight) <= 1e6, "a weight is within a million");
  SPEC_CHECK(b->r, !!match + !!position + !!offset + !!prefer + !!table == 1,
             "a term is one of \"match\", \"position\", \"offset\", \"table\" "
             "and \"prefer\"");
  if (match) return read_match(b, match, weight);
  if (position) return read_position(b, term, weight);
  if (offset) return read_offset(b, offset, weight);
  if (table) return read_table(b, term, weight);
  ATTEND_TRY(key_alone(b));
  return spec_linear(b->r, prefer, b->h->reads, weight, b->c->k[b->c->alone]);
}

/* ---- values ------------------------------------------------------------------------------ */

static attend_status copy_value(building *b, const attend_json *name) {
  const variable *v;
  ATTEND_TRY(spec_variable(b->r, name, b->h->reads, &v));
  for (int i = 0; i < v->width; i++) b->c->v[i][v->at + i] = 1;
  b->writes.kind = v->kind;
  b->writes.width = v->width;
  return ATTEND_OK;
}

static attend_status read_value(building *b, const attend_json *value) {
  ATTEND_TRY(spec_members(b->r, value, " copy count "));
  const attend_json *copy = attend_json_get(value, "copy"),
                    *count = attend_json_get(value, "count");
  SPEC_CHECK(b->r, !copy != !count, "a value is one of \"copy\" and \"count\"");
  if (copy) return copy_value(b, copy);
  b->writes.kind = KIND_NUMBER;
  b->writes.width = 1;
  return spec_linear(b->r, count, b->h->reads, 1, b->c->v[0]);
}

/* ---- a head ------------------------------------------------------------------------------- */

/* [reads][columns] from columns. */
static attend_status keep(building *b, int part, int columns,
                          float (*from)[MOST_FEATURES]) {
  int reads = b->h->reads;
  float **to = &b->r->parts[part];
  ATTEND_TRY(take_zeroed(b->r->d->ctx,
                         (size_t)reads * (size_t)columns * sizeof **to,
                         "a head's weights", to));
  for (int i = 0; i < reads; i++)
    for (int j = 0; j < columns; j++) (*to)[i * columns + j] = from[j][i];
  return ATTEND_OK;
}

static attend_status read_shape(building *b, const attend_json *head) {
  static const char *const words[] = {"average", "first", NULL};
  design_head *h = b->h;
  int ties = 0;
  ATTEND_TRY(spec_word(b->r, head, "ties", words, &ties));
  h->ties = ties ? ATTEND_TIES_FIRST : ATTEND_TIES_AVERAGE;
  h->dim = b->c->columns > 0 ? b->c->columns : 1;
  h->dim_v = b->writes.width;
  ATTEND_TRY(spec_integer(b->r, head, "width", h->dim, MOST_COLUMNS, &h->dim));
  return spec_integer(b->r, head, "room", h->dim_v, MOST_TOKENS, &h->dim_v);
}

static attend_status new_variable(building *b) {
  attend_design *d = b->r->d;
  for (int i = 0; i < d->n_variables; i++)
    SPEC_CHECK(b->r, strcmp(d->variables[i].name, b->h->name),
               "the name is taken: what a head gives is called like the head");
  SPEC_CHECK(b->r, d->features + b->h->dim_v <= MOST_FEATURES,
             "the stream would have more than %d features", MOST_FEATURES);
  b->writes.at = d->features;
  b->writes.room = b->h->dim_v;
  memcpy(b->writes.name, b->h->name, NAME);
  b->h->variable = d->n_variables;
  d->variables[d->n_variables++] = b->writes;
  d->features += b->h->dim_v;
  return ATTEND_OK;
}

static attend_status build_head(building *b, const attend_json *head) {
  const attend_json *score = attend_json_get(head, "score");
  int part = 3 * b->r->d->n_heads;
  SPEC_CHECK(b->r, !score || attend_json_kind_of(score) == ATTEND_JSON_ARRAY,
             "\"score\" is a list of terms");
  for (size_t i = 0; i < attend_json_count(score); i++)
    ATTEND_TRY(read_term(b, attend_json_at(score, i)));
  ATTEND_TRY(read_value(b, attend_json_get(head, "value")));
  ATTEND_TRY(read_shape(b, head));
  ATTEND_TRY(keep(b, part, b->h->dim, b->c->q));
  ATTEND_TRY(keep(b, part + 1, b->h->dim, b->c->k));
  ATTEND_TRY(keep(b, part + 2, b->h->dim_v, b->c->v));
  return new_variable(b);
}

static attend_status read_head(reading *r, const attend_json *head, int layer,
                               int reads) {
  attend_design *d = r->d;
  SPEC_CHECK(r, d->n_heads < MOST_HEADS, "there are %d heads at most",
             MOST_HEADS);
  building b = {.r = r, .h = &d->heads[d->n_heads]};
  ATTEND_TRY(spec_members(r, head, " name score value ties width room "));
  ATTEND_TRY(
      spec_name(r, attend_json_get(head, "name"), "a head's name", b.h->name));
  snprintf(r->place, sizeof r->place, "head \"%s\"", b.h->name);
  b.h->layer = layer;
  b.h->reads = reads;
  ATTEND_TRY(take_zeroed(d->ctx, sizeof *b.c, "a head's terms", &b.c));
  b.c->alone = -1;
  attend_status status = build_head(&b, head);
  give(d->ctx, b.c);
  d->n_heads += !status;
  return status;
}

attend_status spec_heads(reading *r, const attend_json *layers) {
  attend_design *d = r->d;
  size_t n = attend_json_count(layers);
  SPEC_CHECK(r,
             attend_json_kind_of(layers) == ATTEND_JSON_ARRAY && n >= 1 &&
                 n <= MOST_LAYERS,
             "\"layers\" is a list of 1 to %d lists of heads", MOST_LAYERS);
  for (size_t i = 0; i < n; i++) {
    const attend_json *layer = attend_json_at(layers, i);
    int reads = d->features;
    snprintf(r->place, sizeof r->place, "layer %zu", i);
    SPEC_CHECK(r,
               attend_json_kind_of(layer) == ATTEND_JSON_ARRAY &&
                   attend_json_count(layer) > 0,
               "a layer is a list of heads");
    for (size_t j = 0; j < attend_json_count(layer); j++) {
      snprintf(r->place, sizeof r->place, "layer %zu, head %zu", i, j);
      ATTEND_TRY(read_head(r, attend_json_at(layer, j), (int)i, reads));
    }
  }
  d->layers = (int)n;
  *r->place = 0;
  return ATTEND_OK;
}
