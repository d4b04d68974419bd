/* Viewers and their models: weights are loaded when they are first used.
 *
 * Of untrained weights and of the steps of a training run a few are open at once. The
 * least recently used ones make room, and the runs recorded with them are dropped too.
 */
#include "view/session.h"

#include <stdio.h>

#include "attend/problem.h"

enum { PATH_ROOM = 4096 };

attend_status copy_string(attend_context *ctx, const char *text, char **to) {
  size_t bytes = strlen(text) + 1;
  ATTEND_TRY(ctx_alloc(ctx, bytes, "a text", to));
  memcpy(*to, text, bytes);
  return ATTEND_OK;
}

/* ---- viewers ------------------------------------------------------------------------- */

attend_status attend_viewer_create(attend_context *ctx, const attend_viewer_options *options,
                                   attend_viewer **out) {
  attend_viewer_options o;
  *out = NULL;
  ATTEND_TRY(OPTIONS_READ(ctx, attend_viewer_options, options, &o));
  ATTEND_TRY(ctx_alloc_zeroed(ctx, sizeof **out, "a viewer", out));
  (*out)->ctx = ctx;
  (*out)->options = o;
  if (!o.most_bytes) (*out)->options.most_bytes = (size_t)2 << 30;
  return ATTEND_OK;
}

static void weights_free(attend_viewer *v, view_weights *w) {
  attributor_forget(v, w->model);
  attend_model_free(w->model);
  attend_checkpoint_free(w->files);
  *w = (view_weights){0};
}

void model_free(attend_viewer *v, view_model *m) {
  attend_context *ctx = v->ctx;
  weights_free(v, &m->trained);
  for (int i = 0; i < FRESH; i++) weights_free(v, &m->fresh[i]);
  for (int i = 0; i < STEPS; i++) weights_free(v, &m->steps[i]);
  attend_tokenizer_free(m->tokenizer);
  attend_config_free(m->config);
  tensors_free(ctx, m->tensors);
  ctx_free(ctx, m->name);
  ctx_free(ctx, m->path);
  ctx_free(ctx, m);
}

void attend_viewer_free(attend_viewer *v) {
  if (!v) return;
  attend_viewer_stop(v);
  while (v->runs) {
    view_run *run = v->runs;
    v->runs = run->next;
    run_free(v, run);
  }
  for (size_t i = 0; i < v->n_models; i++) model_free(v, v->models[i]);
  ctx_free(v->ctx, v->last.map.memory);
  ctx_free(v->ctx, v->models);
  ctx_free(v->ctx, v);
}

void attend_viewer_release(attend_viewer *v, void *memory) { ctx_free(v->ctx, memory); }

/* ---- models --------------------------------------------------------------------------- */

/* A model without a tokenizer takes ids. */
static attend_status open_tokenizer(attend_context *ctx, view_model *m) {
  attend_status status = attend_tokenizer_load(ctx, m->path, &m->tokenizer);
  if (status && strstr(attend_message(ctx), "has no tokenizer")) status = ATTEND_OK;
  return status;
}

static attend_status open_model(attend_context *ctx, const attend_viewer_source *source,
                                view_model *m) {
  ATTEND_TRY(copy_string(ctx, source->path, &m->path));
  ATTEND_TRY(copy_string(ctx, source->name ? source->name : source->path, &m->name));
  ATTEND_TRY(attend_config_read(ctx, m->path, &m->config));
  ATTEND_TRY(open_tokenizer(ctx, m));
  m->step_path = source->step_path;
  m->user = source->user;
  m->is = (attend_viewer_model){m->name, m->config, m->tokenizer, m->step_path != NULL, NULL};
  return ATTEND_OK;
}

attend_status models_room(attend_viewer *v) {
  return grow(v->ctx, &v->models, &v->model_room, v->n_models + 1, sizeof *v->models,
              "the models of a viewer");
}

attend_status attend_viewer_add(attend_viewer *v, const attend_viewer_source *source) {
  attend_context *ctx = v->ctx;
  view_model *m = NULL;
  attend_viewer_source o;
  ATTEND_TRY(OPTIONS_READ(ctx, attend_viewer_source, source, &o));
  ATTEND_CHECK(ctx, o.path, "a model to view needs a path");
  ATTEND_TRY(models_room(v));
  ATTEND_TRY(ctx_alloc_zeroed(ctx, sizeof *m, "a model to view", &m));
  attend_status status = open_model(ctx, &o, m);
  if (status)
    model_free(v, m);
  else
    v->models[v->n_models++] = m;
  return status;
}

const attend_viewer_model *attend_viewer_get_model(const attend_viewer *v, int model) {
  bool there = model >= 0 && (size_t)model < v->n_models;
  return there ? &v->models[model]->is : NULL;
}

size_t attend_viewer_token_text(const attend_viewer_model *m, int32_t id,
                                char text[ATTEND_VIEWER_TOKEN]) {
  static const char mark[] = "\xe2\x96\x81";
  char spare[16];
  size_t length, n = 0;
  const char *piece = m->tokenizer ? attend_tokenizer_piece(m->tokenizer, id, &length) : NULL;
  if (m->run) {
    piece = tensors_token(((const view_model *)m)->tensors, id);
    length = strlen(piece);
  }
  if (!piece) {
    length = (size_t)snprintf(spare, sizeof spare, "%d", (int)id);
    piece = spare;
  }
  for (size_t i = 0; i < length && n < ATTEND_VIEWER_TOKEN - 4; i++) {
    bool space = length - i >= 3 && !memcmp(piece + i, mark, 3);
    text[n++] = space ? ' ' : piece[i];
    if (space) i += 2;
  }
  text[n] = 0;
  return n;
}

size_t attend_viewer_token_label(const attend_viewer_model *m, int32_t id,
                                 char label[ATTEND_VIEWER_TOKEN]) {
  if (m->tokenizer) return attend_tokenizer_label(m->tokenizer, id, label, ATTEND_VIEWER_TOKEN);
  if (m->run) {
    const char *piece = tensors_token(((const view_model *)m)->tensors, id);
    return attend_piece_label(piece, strlen(piece), label, ATTEND_VIEWER_TOKEN);
  }
  return (size_t)snprintf(label, ATTEND_VIEWER_TOKEN, "%d", (int)id);
}

size_t attend_viewer_row_label(const attend_viewer_model *m, const attend_viewer_run *run,
                               attend_role role, int row, char label[ATTEND_VIEWER_TOKEN]) {
  const attend_viewer_side *s = &run->side[role != ATTEND_ENCODER_SELF];
  char token[ATTEND_VIEWER_TOKEN] = "…"; /* nothing was written after the last one */
  if (role != ATTEND_CROSS || (m->run && !tensors_steps(((const view_model *)m)->tensors)))
    return attend_viewer_token_label(m, s->ids[row], label);
  if (row + 1 < s->n) attend_viewer_token_label(m, s->ids[row + 1], token);
  return (size_t)snprintf(label, ATTEND_VIEWER_TOKEN, "→ %.*s", ATTEND_VIEWER_TOKEN - 8, token);
}

/* ---- weights --------------------------------------------------------------------------- */

static int load_progress(double done, const char *what, void *user) {
  (void)what;
  return job_progress(user, done, "loading the model");
}

static attend_status weights_load(view_job *j, const char *path, bool fresh, view_weights *w) {
  attend_context *ctx = j->v->ctx;
  attend_model_options o = {ATTEND_INIT(attend_model_options), .weights = j->v->options.weights,
                            .progress = load_progress, .user = j};
  attend_status status = fresh ? attend_checkpoint_init_pytorch(ctx, path, w->seed, &w->files)
                               : attend_checkpoint_open(ctx, path, &w->files);
  if (!status) status = attend_model_create(w->files, &o, &w->model);
  if (status) weights_free(j->v, w);
  return status;
}

static void weights_drop(attend_viewer *v, view_weights *w) {
  if (w->model) runs_forget(v, w);
  weights_free(v, w);
}

static attend_status take_fresh(view_job *j, view_model *m, uint64_t seed, view_weights **w) {
  for (int i = 0; i < FRESH; i++)
    if (m->fresh[i].model && m->fresh[i].seed == seed) {
      *w = &m->fresh[i];
      return ATTEND_OK;
    }
  int at = 0;
  while (at < FRESH - 1 && m->fresh[at].model) at++;
  while (at > 0 && m->fresh[at].held) at--;
  *w = &m->fresh[at];
  weights_drop(j->v, *w);
  (*w)->seed = seed;
  return weights_load(j, m->path, true, *w);
}

/* ---- steps of a training run ------------------------------------------------------------- */

/* The slot of a step, or the least recently used one. Long calls come one at a time,
 * so some slot is not held. */
static view_weights *slot_for(view_model *m, int step) {
  view_weights *slot = NULL;
  for (int i = 0; i < STEPS; i++) {
    view_weights *w = &m->steps[i];
    if (w->model && w->step == step) return w;
    if (!w->held && (!slot || w->used < slot->used)) slot = w;
  }
  return slot;
}

/* Configuration and tokenizer are those of the model's path. */
static bool is_alike(const attend_config *a, const attend_config *b) {
  const attend_parts parts = attend_config_parts(a),
                     side = parts & ATTEND_ENCODER ? ATTEND_ENCODER : ATTEND_DECODER;
  const attend_stack *x = attend_config_stack(a, side), *y = attend_config_stack(b, side);
  static const attend_config_key keys[] = {ATTEND_CONFIG_VOCAB, ATTEND_CONFIG_POSITIONS};
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
    if (attend_config_get(a, keys[i]) != attend_config_get(b, keys[i])) return false;
  return parts == attend_config_parts(b) && x->layers == y->layers && x->heads == y->heads &&
         x->kv_heads == y->kv_heads && x->dim == y->dim && x->dim_v == y->dim_v &&
         attend_config_stack(a, ATTEND_DECODER)->layers ==
             attend_config_stack(b, ATTEND_DECODER)->layers;
}

static attend_status load_step_weights(view_job *j, view_model *m, int step, view_weights *w) {
  attend_context *ctx = j->v->ctx;
  char path[PATH_ROOM];
  ATTEND_CHECK(ctx, m->step_path(step, path, sizeof path, m->user),
               "the run has no step %d, or not any more: choose another", step);
  w->step = step;
  ATTEND_TRY(weights_load(j, path, false, w));
  if (is_alike(m->config, attend_model_config(w->model))) return ATTEND_OK;
  weights_drop(j->v, w);
  return fail(ctx, ATTEND_INVALID, "step %d is another kind of model than the others", step);
}

static attend_status take_step(view_job *j, view_model *m, int step, view_weights **w) {
  *w = slot_for(m, step);
  bool there = (*w)->model && (*w)->step == step;
  if (!there) weights_drop(j->v, *w);
  (*w)->used = ++j->v->clock;
  return there ? ATTEND_OK : load_step_weights(j, m, step, *w);
}

/* ---- the model of a case -------------------------------------------------------------------- */

/* "favor(m=64)@encoder,cross": a form and its roles. */
static attend_status parse_form(attend_context *ctx, const char *text, attend_form *form,
                                unsigned *roles) {
  char name[ATTEND_VIEWER_FORM];
  size_t n = strcspn(text, "@");
  *roles = 0;
  snprintf(name, sizeof name, "%.*s", (int)n, text);
  ATTEND_TRY(attend_form_parse(ctx, name, form));
  return text[n] ? attend_roles_parse(ctx, text + n + 1, roles) : ATTEND_OK;
}

static attend_status take_weights(view_job *j, const attend_viewer_case *c, view_model *m,
                                  view_weights **w) {
  *w = &m->trained;
  if (c->untrained) return take_fresh(j, m, c->seed, w);
  if (m->step_path && c->step >= 0) return take_step(j, m, c->step, w);
  return (*w)->model ? ATTEND_OK : weights_load(j, m->path, false, *w);
}

attend_status model_take(view_job *j, const attend_viewer_case *c, view_run *run) {
  attend_form form = {0};
  unsigned roles;
  view_weights *w;
  run->of = j->v->models[c->model];
  ATTEND_CHECK(j->v->ctx, !run->of->tensors, "%s holds tensors: there is no model to run",
               run->of->name);
  ATTEND_TRY(take_weights(j, c, run->of, &w));
  run->weights = w;
  run->model = w->model;
  if (!strcmp(c->attention, "softmax") && attend_model_form(run->model)->kind == ATTEND_SOFTMAX)
    return ATTEND_OK;
  ATTEND_TRY(parse_form(j->v->ctx, c->attention, &form, &roles));
  attend_status status = attend_model_with_roles(w->model, &form, roles, &run->model);
  if (status) run->model = w->model;
  return status;
}
