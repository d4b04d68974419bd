/* Reading and writing the state of a page. */
#include "view/state.h"

#include <stdio.h>
#include <string.h>

#include "table.h"

static const char *const views[] = {"model", "head",    "neuron",   "matrix",
                                    "flow",  "compare", "generate", "embeddings"};

bool state_has_view(const char *name) {
  for (size_t i = 0; i < sizeof views / sizeof *views; i++)
    if (!strcmp(name, views[i])) return true;
  return false;
}

view_state state_defaults(void) {
  return (view_state){.view = "model",
                      .c = {.attention = "softmax", .step = -1},
                      .other = {.step = -1},
                      .layer = -1,
                      .head = -1,
                      .token = -1,
                      .key = -1,
                      .filter = "all",
                      .pool = "max",
                      .way = "rollout"};
}

static bool word(request *r, const char *name, char *to, size_t room) {
  const char *text;
  if (!request_text(r, name, NULL, &text)) return false;
  if (!text) return true;
  if (strlen(text) >= room)
    return request_fail(r, 400, "\"%s\" is longer than anything it may be", name);
  snprintf(to, room, "%s", text);
  return true;
}

static bool read_heads(request *r, view_state *s) {
  const attend_json *heads = attend_json_get(r->q, "heads");
  size_t n = attend_json_count(heads);
  if (n > STATE_HEADS)
    return request_fail(r, 400, "%zu heads are more than %d at once", n, STATE_HEADS);
  for (size_t i = 0; i < n; i++) {
    int64_t head;
    if (!attend_json_integer(attend_json_at(heads, i), &head) || head < 0 || head > 4096)
      return request_fail(r, 400, "\"heads\" must be numbers of heads");
    s->heads[s->n_heads++] = (int)head;
  }
  return true;
}

bool state_read(request *r, const attend_json *q, view_state *s) {
  const attend_json *whole = r->q, *other = attend_json_get(q, "other");
  *s = state_defaults();
  r->q = q;
  s->has_other = attend_json_kind_of(other) == ATTEND_JSON_OBJECT;
  bool ok = word(r, "view", s->view, sizeof s->view) && word(r, "role", s->role, sizeof s->role) &&
            word(r, "filter", s->filter, sizeof s->filter) &&
            word(r, "pool", s->pool, sizeof s->pool) && word(r, "way", s->way, sizeof s->way) &&
            word(r, "form", s->form, sizeof s->form) && word(r, "sort", s->sort, sizeof s->sort) &&
            request_integer(r, "layer", -1, 4096, -1, &s->layer) &&
            request_integer(r, "head", -1, 4096, -1, &s->head) &&
            request_integer(r, "token", -1, ATTEND_VIEW_LONGEST, -1, &s->token) &&
            request_integer(r, "key", -1, ATTEND_VIEW_LONGEST, -1, &s->key) && read_heads(r, s) &&
            request_case(r, attend_json_get(q, "case"), &s->c) &&
            (!s->has_other || request_case(r, other, &s->other));
  if (ok && !state_has_view(s->view)) ok = request_fail(r, 400, "there is no view \"%s\"", s->view);
  r->q = whole;
  return ok;
}

void state_free(view_state *s) {
  case_free(&s->c);
  case_free(&s->other);
}

void state_write(attend_json_writer *w, const view_state *given) {
  view_state none = state_defaults();
  const view_state *s = given ? given : &none;
  attend_json_open(w, '{');
  json_text(w, "view", s->view);
  attend_json_member(w, "case");
  write_case(w, &s->c);
  attend_json_member(w, "other");
  if (s->has_other)
    write_case(w, &s->other);
  else
    attend_json_put_null(w);
  json_text(w, "role", s->role);
  json_number(w, "layer", s->layer < 0 ? 0 : s->layer);
  json_number(w, "head", s->head < 0 ? 0 : s->head);
  attend_json_member(w, "heads");
  attend_json_open(w, '[');
  for (int i = 0; i < s->n_heads; i++) attend_json_put_integer(w, s->heads[i]);
  attend_json_close(w, ']');
  json_number(w, "token", s->token);
  json_number(w, "key", s->key);
  json_text(w, "filter", s->filter);
  json_text(w, "pool", s->pool);
  json_text(w, "way", s->way);
  json_text(w, "form", s->form);
  json_text(w, "sort", s->sort);
  attend_json_close(w, '}');
}
