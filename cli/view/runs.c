/* Cases and runs: reading the one, keeping the other.
 *
 * Behind view_answer.h.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "train/course.h"
#include "json_members.h"
#include "view/core.h"

/* ---- cases ------------------------------------------------------------------------ */

static bool case_text(asking *a, const char *name, const char *otherwise,
                      char **to) {
  const char *text;
  if (!ask_text(a, name, otherwise, &text)) return false;
  *to = text ? need_copy(text) : NULL;
  return true;
}

static bool case_seed(asking *a, view_case *c) {
  int64_t seed = 0;
  const attend_json *value = attend_json_get(a->q, "seed");
  if (value && (!attend_json_integer(value, &seed) || seed < 0))
    return ask_fail(a, 400, "\"seed\" must be a whole number, 0 or more");
  c->seed = (uint64_t)seed;
  return true;
}

/* A course is looked at after some step: the last, unless one is said. */
static bool case_step(asking *a, view_case *c) {
  const course *of = steps_course(a->v, c->model);
  if (!ask_integer(a, "step", -1, INT_MAX, -1, &c->step)) return false;
  if (!of) c->step = -1;
  if (of && c->step < 0) c->step = of->last;
  return true;
}

bool case_read(asking *a, const attend_json *q, view_case *c) {
  const attend_json *whole = a->q;
  const char *form = NULL;
  *c = (view_case){0};
  if (attend_json_kind_of(q) != ATTEND_JSON_OBJECT)
    return ask_fail(a, 400, "a case must be an object with a text");
  a->q = q;
  bool ok = case_text(a, "model", "0", &c->model) &&
            case_text(a, "text", "", &c->text) &&
            case_text(a, "second", NULL, &c->second) &&
            ask_text(a, "attention", "softmax", &form) &&
            ask_integer(a, "pad", 0, VIEW_LONGEST, 0, &c->pad) &&
            case_seed(a, c) && case_step(a, c);
  c->untrained = attend_json_boolean(attend_json_get(q, "untrained"), false);
  a->q = whole;
  if (ok && strlen(form) >= VIEW_FORM)
    ok = ask_fail(a, 400, "\"attention\" is longer than any form");
  if (ok) snprintf(c->attention, sizeof c->attention, "%s", form);
  if (ok && c->second && !*c->second) {
    free(c->second);
    c->second = NULL;
  }
  if (!c->untrained) c->seed = 0;
  return ok;
}

void case_free(view_case *c) {
  free(c->model);
  free(c->text);
  free(c->second);
  *c = (view_case){0};
}

void case_write(attend_json_writer *w, const view_case *c) {
  attend_json_open(w, '{');
  attend_json_member(w, "model");
  attend_json_put_string(w, c->model);
  attend_json_member(w, "text");
  attend_json_put_string(w, c->text);
  attend_json_member(w, "second");
  if (c->second)
    attend_json_put_string(w, c->second);
  else
    attend_json_put_null(w);
  attend_json_member(w, "attention");
  attend_json_put_string(w, c->attention);
  attend_json_member(w, "untrained");
  attend_json_put_boolean(w, c->untrained);
  attend_json_member(w, "seed");
  attend_json_put_integer(w, (int64_t)c->seed);
  attend_json_member(w, "pad");
  attend_json_put_integer(w, c->pad);
  attend_json_member(w, "step");
  attend_json_put_integer(w, c->step);
  attend_json_close(w, '}');
}

static uint64_t hash_text(uint64_t hash, const char *text, size_t length) {
  for (size_t i = 0; i < length; i++)
    hash = (hash ^ (unsigned char)text[i]) * 0x100000001b3u;
  return hash;
}

bool case_id(asking *a, const view_case *c, const char *more, char id[20]) {
  attend_json_writer w = attend_json_writer_text(a->v->ctx);
  case_write(&w, c);
  attend_status status = attend_json_finish(&w);
  uint64_t hash = 0xcbf29ce484222325u;
  if (!status) hash = hash_text(hash, w.text, w.length);
  hash = hash_text(hash, more, strlen(more));
  attend_json_writer_free(&w);
  snprintf(id, 20, "%016llx", (unsigned long long)hash);
  return ask_status(a, status);
}

/* ---- runs --------------------------------------------------------------------------- */

void run_free(view_run *run) {
  if (!run) return;
  for (int i = 0; i < VIEW_OTHERS; i++) attend_lens_free(run->other[i].lens);
  while (run->tiles) {
    view_tile *tile = run->tiles;
    run->tiles = tile->next;
    free(tile->key);
    free(tile->cells);
    free(tile);
  }
  attend_lens_free(run->lens);
  attend_trace_free(run->trace);
  if (run->weights && run->model != run->weights->model)
    attend_model_free(run->model);
  for (int i = 0; i < 2; i++) {
    free(run->side[i].ids);
    free(run->side[i].part);
  }
  free(run->steps);
  case_free(&run->c);
  free(run);
}

/* Forms that it is looked at through record an output and a denominator. */
static size_t run_bytes(const view_run *run) {
  size_t bytes = run->trace ? attend_trace_bytes(run->trace) : 0, others = 0;
  for (int i = 0; i < VIEW_OTHERS; i++) others += run->other[i].lens != NULL;
  bytes += others * bytes / 3;
  for (const view_tile *t = run->tiles; t; t = t->next)
    bytes += (size_t)t->height * (size_t)t->width * sizeof(float);
  return bytes;
}

view_run *runs_find(viewer *v, const char *id) {
  for (view_run **at = &v->runs; *at; at = &(*at)->next) {
    view_run *run = *at;
    if (strcmp(run->id, id)) continue;
    *at = run->next;
    run->next = v->runs;
    v->runs = run;
    run->weights->used = ++v->clock;
    return run;
  }
  return NULL;
}

void runs_add(viewer *v, view_run *run) {
  run->next = v->runs;
  v->runs = run;
}

static size_t all_bytes(const viewer *v) {
  size_t bytes = 0;
  for (const view_run *run = v->runs; run; run = run->next)
    bytes += run_bytes(run);
  return bytes;
}

/* The one that was not asked for longest, of those that nobody works with. */
static bool forget_last(viewer *v) {
  view_run **last = NULL;
  for (view_run **at = &v->runs; *at; at = &(*at)->next)
    if (!(*at)->weights->held) last = at;
  if (!last) return false;
  view_run *run = *last;
  *last = run->next;
  run_free(run);
  return true;
}

bool runs_room(asking *a, size_t bytes) {
  viewer *v = a->v;
  if (bytes > v->most_bytes)
    return ask_fail(a, 400,
                    "recording this text takes %zu MB, and %zu are allowed: "
                    "take a shorter text, or start with a larger --memory",
                    bytes >> 20, v->most_bytes >> 20);
  while (all_bytes(v) + bytes > v->most_bytes && forget_last(v)) continue;
  return true;
}

/* ---- what is said of one ----------------------------------------------------------------- */

static void write_side(attend_json_writer *w, const view_model *m,
                       const view_side *s) {
  attend_json_open(w, '{');
  attend_json_member(w, "tokens");
  attend_json_open(w, '[');
  for (int i = 0; i < s->n; i++) put_token_text(w, m, s->ids[i]);
  attend_json_close(w, ']');
  attend_json_member(w, "ids");
  attend_json_open(w, '[');
  for (int i = 0; i < s->n; i++) attend_json_put_integer(w, s->ids[i]);
  attend_json_close(w, ']');
  attend_json_member(w, "part");
  attend_json_open(w, '[');
  for (int i = 0; i < s->n; i++) attend_json_put_integer(w, s->part[i]);
  attend_json_close(w, ']');
  attend_json_member(w, "special");
  attend_json_open(w, '[');
  for (int i = 0; i < s->n; i++)
    if (m->tokenizer && attend_tokenizer_is_special(m->tokenizer, s->ids[i]))
      attend_json_put_integer(w, i);
  attend_json_close(w, ']');
  json_number(w, "real", s->real);
  attend_json_close(w, '}');
}

static void write_role(attend_json_writer *w, attend_role role,
                       const attend_lens_shape *s) {
  bool cross = role == ATTEND_CROSS;
  attend_json_open(w, '{');
  json_text(w, "role", attend_role_name(role));
  json_number(w, "layers", s->layers);
  json_number(w, "heads", s->heads);
  json_number(w, "kv_heads", s->kv_heads);
  json_number(w, "rows", s->rows);
  json_number(w, "keys", s->keys);
  json_text(w, "row_side", cross ? "decoder" : attend_role_name(role));
  json_text(w, "key_side", cross ? "encoder" : attend_role_name(role));
  json_number(w, "dim", s->dim);
  json_number(w, "dim_v", s->dim_v);
  json_number(w, "scale", (double)s->scale);
  json_truth(w, "causal", s->causal);
  json_number(w, "window", s->window);
  json_number(w, "real_keys", s->real_keys);
  json_truth(w, "signed", s->is_signed);
  json_truth(w, "bias", s->biased);
  attend_json_close(w, '}');
}

void step_write(attend_json_writer *w, const view_model *m,
                const view_step *s) {
  attend_json_open(w, '{');
  json_number(w, "id", s->id);
  attend_json_member(w, "text");
  put_token_text(w, m, s->id);
  json_number(w, "p", s->p);
  json_number(w, "position", s->position);
  attend_json_member(w, "candidates");
  attend_json_open(w, '[');
  for (int i = 0; i < s->n; i++) {
    attend_json_open(w, '{');
    json_number(w, "id", s->candidate[i].id);
    attend_json_member(w, "text");
    put_token_text(w, m, s->candidate[i].id);
    json_number(w, "p", s->candidate[i].p);
    attend_json_close(w, '}');
  }
  attend_json_close(w, ']');
  json_number(w, "cache_bytes", (double)s->cache_bytes);
  json_number(w, "length", s->length);
  attend_json_close(w, '}');
}

void run_write(attend_json_writer *w, const view_run *run) {
  static const char *const sides[] = {"encoder", "decoder"};
  attend_lens_shape shape;
  attend_json_open(w, '{');
  json_text(w, "run", run->id);
  attend_json_member(w, "case");
  case_write(w, &run->c);
  attend_json_member(w, "model");
  model_write(w, run->of);
  json_number(w, "seconds", run->seconds);
  json_number(w, "bytes", (double)attend_trace_bytes(run->trace));
  attend_json_member(w, "sides");
  attend_json_open(w, '{');
  for (int i = 0; i < 2; i++) {
    if (!run->side[i].n) continue;
    attend_json_member(w, sides[i]);
    write_side(w, run->of, &run->side[i]);
  }
  attend_json_close(w, '}');
  attend_json_member(w, "roles");
  attend_json_open(w, '[');
  for (int i = 0; i < ATTEND_ROLES; i++)
    if (attend_lens_role(run->lens, (attend_role)i, &shape))
      write_role(w, (attend_role)i, &shape);
  attend_json_close(w, ']');
  json_text(w, "notice", run->notice);
  json_number(w, "generated", run->generated);
  attend_json_member(w, "steps");
  attend_json_open(w, '[');
  for (int i = 0; i < run->n_steps; i++) step_write(w, run->of, &run->steps[i]);
  attend_json_close(w, ']');
  attend_json_close(w, '}');
}
