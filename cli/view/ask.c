/* Reading a request: its numbers, its run, its place; and saying what is wrong.
 *
 * Behind view_answer.h; what comes in here may be anything.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "attend/problem.h"
#include "progress.h"
#include "view/core.h"

bool ask_fail(asking *a, int status, const char *sentence, ...) {
  va_list list;
  if (a->status) return false; /* the first failure is the one to tell */
  a->status = status;
  va_start(list, sentence);
  vsnprintf(a->error, sizeof a->error, sentence, list);
  va_end(list);
  return false;
}

bool ask_status(asking *a, attend_status status) {
  if (status == ATTEND_OK) return true;
  return ask_fail(a, status == ATTEND_NO_MEMORY ? 503 : 400, "%s",
                  attend_message(a->v->ctx));
}

bool ask_text(asking *a, const char *name, const char *otherwise,
              const char **text) {
  const attend_json *value = attend_json_get(a->q, name);
  size_t length = 0;
  *text = otherwise;
  if (!value || attend_json_kind_of(value) == ATTEND_JSON_NULL) return true;
  *text = attend_json_string(value, &length);
  if (!*text || strlen(*text) != length)
    return ask_fail(a, 400, "\"%s\" must be a text without zero bytes", name);
  return true;
}

bool ask_integer(asking *a, const char *name, int64_t low, int64_t high,
                 int64_t otherwise, int *number) {
  const attend_json *value = attend_json_get(a->q, name);
  int64_t n = otherwise;
  if (value && (!attend_json_integer(value, &n) || n < low || n > high))
    return ask_fail(a, 400, "\"%s\" must be a whole number from %lld to %lld",
                    name, (long long)low, (long long)high);
  *number = (int)n;
  return true;
}

bool ask_run(asking *a, const attend_json *q, view_run **run) {
  const char *id = attend_json_string(attend_json_get(q, "run"), NULL);
  if (!id) return ask_fail(a, 400, "\"run\" must be the id that a run gave");
  *run = runs_find(a->v, id);
  if (*run) return true;
  a->gone = true;
  return ask_fail(a, 404, "this run is not kept any more: run it again");
}

bool ask_role(asking *a, const view_run *run, attend_role *role,
              attend_lens_shape *shape) {
  const char *name;
  if (!ask_text(a, "role", "", &name)) return false;
  for (int i = 0; i < ATTEND_ROLES; i++)
    if (!strcmp(name, attend_role_name((attend_role)i))) {
      *role = (attend_role)i;
      if (attend_lens_role(run->lens, *role, shape)) return true;
    }
  return ask_fail(a, 400, "\"role\" must be one that this run lists");
}

bool ask_place(asking *a, const view_run *run, attend_head_id *at,
               attend_lens_shape *shape) {
  return ask_role(a, run, &at->role, shape) &&
         ask_integer(a, "layer", 0, shape->layers - 1, 0, &at->layer) &&
         ask_integer(a, "head", 0, shape->heads - 1, 0, &at->head);
}

/* The place of a form among those that the run is looked at through; the last
 * one makes room. */
static bool other_lens(asking *a, view_run *run, const char *form,
                       attend_lens **lens) {
  attend_form parsed;
  view_other found = {0};
  int at = 0;
  while (at < VIEW_OTHERS - 1 && run->other[at].lens &&
         strcmp(run->other[at].form, form))
    at++;
  if (run->other[at].lens && !strcmp(run->other[at].form, form)) {
    found = run->other[at];
  } else {
    if (!ask_status(a, attend_form_parse(a->v->ctx, form, &parsed)))
      return false;
    attend_lens_free(run->other[at].lens);
    run->other[at].lens = NULL;
    snprintf(found.form, sizeof found.form, "%s", form);
    int real = run->side[0].n ? run->side[0].real : 0;
    if (!ask_status(a, attend_lens_create(run->model, run->trace, &parsed, real,
                                          &found.lens)))
      return false;
  }
  memmove(run->other + 1, run->other, (size_t)at * sizeof *run->other);
  run->other[0] = found;
  *lens = found.lens;
  return true;
}

bool ask_lens(asking *a, const attend_json *q, view_run *run,
              attend_lens **lens) {
  const attend_json *value = attend_json_get(q, "attention");
  *lens = run->lens;
  if (attend_json_kind_of(value) > ATTEND_JSON_NULL) {
    const char *form = attend_json_string(value, NULL);
    if (!form || strlen(form) >= VIEW_FORM)
      return ask_fail(a, 400,
                      "\"attention\" must be a form, such as "
                      "\"favor(m=256)\"");
    if (strcmp(form, run->c.attention) && !other_lens(a, run, form, lens))
      return false;
  }
  attend_lens_on_step(*lens, ask_step, a);
  return true;
}

bool ask_heads(asking *a, asked *h) {
  return ask_run(a, a->q, &h->run) && ask_role(a, h->run, &h->at.role, &h->s) &&
         ask_lens(a, a->q, h->run, &h->lens);
}

bool ask_head(asking *a, asked *h) {
  return ask_run(a, a->q, &h->run) && ask_place(a, h->run, &h->at, &h->s) &&
         ask_lens(a, a->q, h->run, &h->lens);
}

bool ask_range(asking *a, int rows, int keys, int64_t most, view_range *r) {
  if (!ask_integer(a, "row", 0, rows, 0, &r->row) ||
      !ask_integer(a, "rows", 0, rows - r->row, rows - r->row, &r->rows) ||
      !ask_integer(a, "key", 0, keys, 0, &r->key) ||
      !ask_integer(a, "keys", 0, keys - r->key, keys - r->key, &r->keys))
    return false;
  if ((int64_t)r->rows * r->keys > most)
    return ask_fail(a, 400,
                    "%d x %d is more than the %lld cells that are given at "
                    "once: ask for parts, or for tiles",
                    r->rows, r->keys, (long long)most);
  return true;
}

bool ask_progress(asking *a, double done, double total, const char *what) {
  char line[200];
  double now = seconds_now();
  if (!a->say) return false;
  viewer_yield(a->v);
  if (now - a->said < 0.1) return false;
  a->said = now;
  snprintf(line, sizeof line, "{\"done\":%.6g,\"total\":%.6g,\"what\":\"%s\"}",
           done, total, what);
  return a->say("progress", line, a->user) != 0;
}

int ask_step(double done, void *user) {
  return ask_progress(user, done, 1, "computing weights");
}
