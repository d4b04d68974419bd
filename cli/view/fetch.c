/* Asking a viewer from within the program. */
#include "view/fetch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "progress.h"

/* ---- questions ------------------------------------------------------------------------ */

attend_json_writer question_open(viewer *v) {
  attend_json_writer w = attend_json_writer_text(v->ctx);
  attend_json_open(&w, '{');
  return w;
}

/* ---- answers --------------------------------------------------------------------------- */

static void set_error(fetched *f, const char *sentence) {
  snprintf(f->error, sizeof f->error, "%s", sentence);
}

static bool parse(viewer *v, fetched *f, const char *text, size_t length) {
  if (!attend_json_parse(v->ctx, "the answer", text, length, &f->root))
    return true;
  set_error(f, attend_message(v->ctx));
  return false;
}

bool fetched_read(viewer *v, fetched *f) {
  const unsigned char *bytes = f->reply.bytes;
  bool binary = f->reply.type && strstr(f->reply.type, "octet-stream");
  size_t header = 0;
  if (!binary) {
    if (!parse(v, f, (const char *)bytes, f->reply.length)) return false;
    if (f->reply.status == 200) return true;
    const char *why =
        attend_json_string(attend_json_get(f->root, "error"), NULL);
    set_error(f, why ? why : "the question was refused");
    return false;
  }
  for (int i = 0; i < 4; i++) header |= (size_t)bytes[i] << (8 * i);
  f->data = bytes + 4 + header;
  return parse(v, f, (const char *)bytes + 4, header);
}

bool fetch(viewer *v, const char *name, attend_json_writer *w, fetched *f) {
  *f = (fetched){0};
  attend_json_close(w, '}');
  if (attend_json_finish(w))
    set_error(f, attend_message(v->ctx));
  else
    view_answer_here(v, name, w->text, w->length, NULL, &f->reply);
  attend_json_writer_free(w);
  return !f->error[0] && fetched_read(v, f);
}

void fetched_free(fetched *f) {
  attend_json_free(f->root);
  free(f->reply.bytes);
  *f = (fetched){0};
}

/* ---- long ones --------------------------------------------------------------------------- */

/* On a terminal, while the program asks itself. */
static int show_progress(const char *event, const char *data, void *user) {
  viewer *v = user;
  attend_json *root;
  if (strcmp(event, "progress") ||
      attend_json_parse(v->ctx, "progress", data, strlen(data), &root))
    return 0;
  double done = attend_json_number(attend_json_get(root, "done"), 0);
  double total = attend_json_number(attend_json_get(root, "total"), 1);
  const char *what = attend_json_string(attend_json_get(root, "what"), NULL);
  progress_step((size_t)(100 * done / (total > 0 ? total : 1)),
                what ? what : "");
  attend_json_free(root);
  return 0;
}

static bool fetch_long(viewer *v, const char *name, attend_json_writer *w,
                       fetched *f) {
  *f = (fetched){0};
  if (attend_json_finish(w)) {
    set_error(f, attend_message(v->ctx));
  } else {
    if (!v->queue) progress_start("percent", 100);
    view_answer_here(v, name, w->text, w->length,
                     v->queue ? NULL : show_progress, &f->reply);
    if (!v->queue) progress_end();
  }
  attend_json_writer_free(w);
  return !f->error[0] && fetched_read(v, f);
}

bool fetch_run(viewer *v, const view_case *c, fetched *f) {
  attend_json_writer w = attend_json_writer_text(v->ctx);
  case_write(&w, c);
  return fetch_long(v, "run", &w, f);
}

bool fetch_generated(viewer *v, const view_case *c, int new_tokens,
                     fetched *f) {
  attend_json_writer w = question_open(v);
  attend_json_member(&w, "case");
  case_write(&w, c);
  json_number(&w, "new", new_tokens);
  attend_json_close(&w, '}');
  return fetch_long(v, "generate", &w, f);
}

/* ---- parts --------------------------------------------------------------------------------- */

static const attend_json *find_part(const fetched *f, const char *name) {
  const attend_json *parts = attend_json_get(f->root, "parts");
  for (size_t i = 0; i < attend_json_count(parts); i++) {
    const attend_json *part = attend_json_at(parts, i);
    const char *its = attend_json_string(attend_json_get(part, "name"), NULL);
    if (its && !strcmp(its, name)) return part;
  }
  return NULL;
}

static void read_floats(const attend_json *part, const unsigned char *data,
                        size_t n, float *to) {
  const char *type = attend_json_string(attend_json_get(part, "type"), NULL);
  double low = attend_json_number(attend_json_get(part, "low"), 0);
  double scale = attend_json_number(attend_json_get(part, "scale"), 1);
  if (!strcmp(type, "f16")) {
    attend_convert_to_f32(ATTEND_F16, data, n, to);
  } else if (!strcmp(type, "u8")) {
    for (size_t i = 0; i < n; i++) to[i] = (float)(low + scale * data[i]);
  } else if (!strcmp(type, "i32")) {
    for (size_t i = 0; i < n; i++) {
      int32_t x;
      memcpy(&x, data + 4 * i, sizeof x);
      to[i] = (float)x;
    }
  } else {
    memcpy(to, data, n * sizeof *to);
  }
}

float *fetched_part(const fetched *f, const char *name, int shape[4]) {
  const attend_json *part = find_part(f, name);
  const attend_json *sizes = attend_json_get(part, "shape");
  size_t n = 1;
  if (!part) return NULL;
  for (size_t i = 0; i < 4; i++) {
    double x = attend_json_number(attend_json_at(sizes, i), 1);
    shape[i] = (int)x;
    n *= (size_t)x;
  }
  double at = attend_json_number(attend_json_get(part, "at"), 0);
  float *to = need(n + 1, sizeof *to);
  read_floats(part, f->data + (size_t)at, n, to);
  return to;
}

double fetched_number(const fetched *f, const char *name) {
  return attend_json_number(attend_json_get(f->root, name), 0);
}

/* ---- subjects -------------------------------------------------------------------------------- */

static int number_of(const attend_json *object, const char *name) {
  return (int)attend_json_number(attend_json_get(object, name), 0);
}

/* The role that is named, or else the first whose rows are of the decoder, or
 * the first. */
static const attend_json *find_role(const attend_json *run, const char *name) {
  const attend_json *roles = attend_json_get(run, "roles"), *found = NULL;
  for (size_t i = 0; i < attend_json_count(roles); i++) {
    const attend_json *role = attend_json_at(roles, i);
    const char *its = attend_json_string(attend_json_get(role, "role"), NULL);
    if (*name ? !strcmp(name, its) : !found) found = role;
  }
  return found;
}

bool subject_read(const fetched *run, const view_state *s, subject *to,
                  char error[640]) {
  const attend_json *role = find_role(run->root, s->role);
  if (!role) {
    snprintf(error, 640, "this run has no attention of the role \"%s\"",
             s->role);
    return false;
  }
  *to = (subject){
      .run = run->root,
      .role = role,
      .id = attend_json_string(attend_json_get(run->root, "run"), NULL),
      .role_name = attend_json_string(attend_json_get(role, "role"), NULL),
      .layers = number_of(role, "layers"),
      .heads = number_of(role, "heads"),
      .rows = number_of(role, "rows"),
      .keys = number_of(role, "keys"),
      .layer = s->layer < 0 ? 0 : s->layer,
      .head = s->head < 0 ? 0 : s->head};
  bool states = !strcmp(s->view, "embeddings"); /* and after the last layer */
  if (to->layer < to->layers + states && to->head < to->heads &&
      s->token < to->rows && s->key < to->keys)
    return true;
  snprintf(error, 640,
           "layer %d, head %d, token %d, key %d: the %s has %d layers, %d "
           "heads, %d queries and %d keys, counted from 0",
           to->layer, to->head, s->token, s->key, to->role_name, to->layers,
           to->heads, to->rows, to->keys);
  return false;
}

attend_json_writer question_about(viewer *v, const subject *s, bool place) {
  attend_json_writer w = question_open(v);
  json_text(&w, "run", s->id);
  json_text(&w, "role", s->role_name);
  if (place) json_number(&w, "layer", s->layer);
  if (place) json_number(&w, "head", s->head);
  return w;
}

subject subject_followed(const subject *s) {
  subject self = *s;
  if (!strcmp(s->role_name, "cross")) self.role_name = "decoder";
  return self;
}

const attend_json *subject_side(const subject *s, bool keys) {
  const char *side = attend_json_string(
      attend_json_get(s->role, keys ? "key_side" : "row_side"), NULL);
  return attend_json_get(attend_json_get(s->run, "sides"), side);
}
