/* The readout, and the list of all parts.
 *
 * Place: design/ - the last of what is compiled: logits = x Wo.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "design/design.h"

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
  ATTEND_TRY(
      spec_variable(r, attend_json_get(readout, "copy"), d->features, &v));
  SPEC_CHECK(r, v->kind != KIND_NUMBER,
             "\"%s\" is a number: give \"logits\" for each answer", v->name);
  for (size_t i = 0; i < attend_json_count(names); i++) {
    const char *name = attend_json_name(attend_json_at(names, i), NULL);
    SPEC_CHECK(r, name && spec_value(d, v, name) >= 0,
               "\"%s\" has no value \"%.40s\"", v->name, name ? name : "");
  }
  for (int i = 0; i < v->width; i++) {
    char text[NAME];
    int answer = -1;
    ATTEND_TRY(answer_for(r, names, spec_value_name(d, v, i, text), &answer));
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
    ATTEND_TRY(spec_linear(r, one, d->features, 1, by));
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

attend_status spec_readout(reading *r, const attend_json *readout) {
  attend_design *d = r->d;
  float **w = &r->parts[3 * d->n_heads];
  snprintf(r->place, sizeof r->place, "readout");
  SPEC_CHECK(r, readout, "say what the answer is read from");
  ATTEND_TRY(spec_members(r, readout, " copy names logits "));
  const attend_json *copy = attend_json_get(readout, "copy"),
                    *logits = attend_json_get(readout, "logits");
  SPEC_CHECK(r, !copy != !logits, "it is one of \"copy\" and \"logits\"");
  ATTEND_TRY(take_zeroed(d->ctx,
                         (size_t)d->features * (size_t)d->answers * sizeof **w,
                         "a readout", w));
  ATTEND_TRY(copy ? copy_readout(r, readout, *w)
                  : logit_readout(r, logits, *w));
  note_read(d, *w);
  *r->place = 0;
  return ATTEND_OK;
}

/* ---- where everything lies ----------------------------------------------------------- */

__attribute__((format(printf, 5, 6))) static void add_part(
    attend_design *d, int head, int rows, int columns, const char *name, ...) {
  va_list args;
  va_start(args, name);
  vsnprintf(d->part_name[d->n_parts], sizeof d->part_name[0], name, args);
  va_end(args);
  d->parts[d->n_parts] = (attend_design_part){d->part_name[d->n_parts], head,
                                              rows, columns, d->count};
  d->n_parts++;
  d->count += (size_t)rows * (size_t)columns;
}

static int number_in_layer(const attend_design *d, int head) {
  int n = 0;
  for (int i = 0; i < head; i++) n += d->heads[i].layer == d->heads[head].layer;
  return n;
}

static void name_features(attend_design *d) {
  for (int i = 0; i < d->n_variables; i++) {
    const variable *v = &d->variables[i];
    for (int j = 0; j < v->room; j++) {
      char *to = d->feature[v->at + j], text[NAME];
      size_t room = sizeof d->feature[0];
      if (v->at < d->embedded)
        snprintf(to, room, "%s", spec_value_name(d, v, j, text));
      else if (v->kind == KIND_NUMBER && j == 0)
        snprintf(to, room, "%s", v->name);
      else if (j < v->width)
        snprintf(to, room, "%s=%s", v->name, spec_value_name(d, v, j, text));
      else
        snprintf(to, room, "%s+%d", v->name, j);
    }
  }
}

void spec_layout(attend_design *d) {
  static const char *const which[] = {"query", "key", "value"};
  for (int i = 0; i < d->n_heads; i++)
    for (int j = 0; j < 3; j++) {
      const design_head *h = &d->heads[i];
      add_part(d, i, h->reads, j < 2 ? h->dim : h->dim_v,
               "layers.%d.heads.%d.%s", h->layer, number_in_layer(d, i),
               which[j]);
    }
  add_part(d, -1, d->features, d->answers, "readout");
  if (d->positions == ATTEND_DESIGN_POSITIONS_ADDED) {
    add_part(d, -1, d->tokens, d->embedded, "tokens");
    add_part(d, -1, d->places, d->embedded, "positions");
  }
  name_features(d);
}
