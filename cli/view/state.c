/* Reading and writing the state of a page. */
#include "view/state.h"

#include <stdio.h>
#include <string.h>

#include "json_members.h"

static const char *const views[] = {"model",    "head",      "neuron",
                                    "matrix",   "flow",      "compare",
                                    "generate", "embeddings"};

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

static bool word(asking *a, const char *name, char *to, size_t room) {
  const char *text;
  if (!ask_text(a, name, NULL, &text)) return false;
  if (!text) return true;
  if (strlen(text) >= room)
    return ask_fail(a, 400, "\"%s\" is longer than anything it may be", name);
  snprintf(to, room, "%s", text);
  return true;
}

static bool read_heads(asking *a, view_state *s) {
  const attend_json *heads = attend_json_get(a->q, "heads");
  size_t n = attend_json_count(heads);
  if (n > STATE_HEADS)
    return ask_fail(a, 400, "%zu heads are more than %d at once", n,
                    STATE_HEADS);
  for (size_t i = 0; i < n; i++) {
    int64_t head;
    if (!attend_json_integer(attend_json_at(heads, i), &head) || head < 0 ||
        head > 4096)
      return ask_fail(a, 400, "\"heads\" must be numbers of heads");
    s->heads[s->n_heads++] = (int)head;
  }
  return true;
}

bool state_read(asking *a, const attend_json *q, view_state *s) {
  const attend_json *whole = a->q, *other = attend_json_get(q, "other");
  *s = state_defaults();
  a->q = q;
  s->has_other = attend_json_kind_of(other) == ATTEND_JSON_OBJECT;
  bool ok = word(a, "view", s->view, sizeof s->view) &&
            word(a, "role", s->role, sizeof s->role) &&
            word(a, "filter", s->filter, sizeof s->filter) &&
            word(a, "pool", s->pool, sizeof s->pool) &&
            word(a, "way", s->way, sizeof s->way) &&
            word(a, "form", s->form, sizeof s->form) &&
            word(a, "sort", s->sort, sizeof s->sort) &&
            ask_integer(a, "layer", -1, 4096, -1, &s->layer) &&
            ask_integer(a, "head", -1, 4096, -1, &s->head) &&
            ask_integer(a, "token", -1, VIEW_LONGEST, -1, &s->token) &&
            ask_integer(a, "key", -1, VIEW_LONGEST, -1, &s->key) &&
            read_heads(a, s) &&
            case_read(a, attend_json_get(q, "case"), &s->c) &&
            (!s->has_other || case_read(a, other, &s->other));
  if (ok && !state_has_view(s->view))
    ok = ask_fail(a, 400, "there is no view \"%s\"", s->view);
  a->q = whole;
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
  case_write(w, &s->c);
  attend_json_member(w, "other");
  if (s->has_other)
    case_write(w, &s->other);
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
