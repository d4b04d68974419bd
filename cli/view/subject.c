/* What a state of the page shows: its runs, and the role, layer and head of one. */
#include "view/subject.h"

#include <stdio.h>
#include <string.h>

#include "progress.h"

bool subject_status(const viewer *v, attend_status status, char error[SUBJECT_ERROR]) {
  if (status) snprintf(error, SUBJECT_ERROR, "%s", attend_message(v->ctx));
  return status == ATTEND_OK;
}

/* ---- runs ------------------------------------------------------------------------------- */

static int show_progress(double done, double total, const char *what, void *user) {
  (void)user;
  progress_step((size_t)(100 * done / (total > 0 ? total : 1)), what);
  return 0;
}

/* new_tokens 0: nothing is generated. */
static bool run_either(viewer *v, const view_case *c, int new_tokens, const attend_view_run **run,
                       char error[SUBJECT_ERROR]) {
  const attend_view_listener shown = {ATTEND_INIT(attend_view_listener), .progress = show_progress};
  const attend_view_listener *listener = v->live ? NULL : &shown;
  attend_view_generate g = {ATTEND_INIT(attend_view_generate), .new_tokens = new_tokens};
  attend_view_case found;
  *run = NULL;
  if (!case_find(v, c, &found, error)) return false;
  if (listener) progress_start("percent", 100);
  attend_status status = new_tokens ? attend_viewer_generate(v->session, &found, &g, listener, run)
                                    : attend_viewer_run(v->session, &found, listener, run);
  if (listener) progress_end();
  return subject_status(v, status, error);
}

bool run_case(viewer *v, const view_case *c, const attend_view_run **run,
              char error[SUBJECT_ERROR]) {
  return run_either(v, c, 0, run, error);
}

bool run_generated(viewer *v, const view_case *c, int new_tokens, const attend_view_run **run,
                   char error[SUBJECT_ERROR]) {
  return run_either(v, c, new_tokens, run, error);
}

bool run_state(viewer *v, const view_state *s, int new_tokens, const attend_view_run **run,
               const attend_view_run **other, char error[SUBJECT_ERROR]) {
  bool generates = !strcmp(s->view, "generate");
  char id[sizeof(*run)->id];
  *other = NULL;
  if (!run_either(v, &s->c, generates ? new_tokens : 0, run, error)) return false;
  if (!s->has_other) return true;
  memcpy(id, (*run)->id, sizeof id);
  if (!run_case(v, &s->other, other, error)) return false;
  *run = attend_viewer_find(v->session, id); /* the other may have its room */
  if (*run) return true;
  snprintf(error, SUBJECT_ERROR,
           "the two runs need more than the memory that is allowed: start with "
           "a larger --memory");
  return false;
}

/* ---- subjects ---------------------------------------------------------------------------- */

/* The role that is named, or else the first. */
static int find_role(const attend_view_run *run, const char *name) {
  for (int i = 0; i < ATTEND_ROLES; i++)
    if (run->has_role[i] && (!*name || !strcmp(name, attend_role_name((attend_role)i)))) return i;
  return -1;
}

bool subject_read(const attend_view_run *run, const view_state *s, subject *to,
                  char error[SUBJECT_ERROR]) {
  int role = find_role(run, s->role);
  if (role < 0) {
    snprintf(error, SUBJECT_ERROR, "this run has no attention of the role \"%s\"", s->role);
    return false;
  }
  *to = (subject){run, (attend_role)role, run->shape[role], s->layer < 0 ? 0 : s->layer,
                  s->head < 0 ? 0 : s->head};
  const attend_lens_shape *shape = &to->s;
  bool states = !strcmp(s->view, "embeddings"); /* and after the last layer */
  if (to->layer < shape->layers + states && to->head < shape->heads && s->token < shape->rows &&
      s->key < shape->keys)
    return true;
  snprintf(error, SUBJECT_ERROR,
           "layer %d, head %d, token %d, key %d: the %s has %d layers, %d "
           "heads, %d queries and %d keys, counted from 0",
           to->layer, to->head, s->token, s->key, attend_role_name(to->role), shape->layers,
           shape->heads, shape->rows, shape->keys);
  return false;
}

attend_view_head subject_head(const subject *s, const char *form) {
  return (attend_view_head){s->run, {s->role, s->layer, s->head}, form};
}

attend_view_head subject_followed(const subject *s) {
  attend_view_head h = subject_head(s, NULL);
  if (s->role == ATTEND_CROSS) h.at.role = ATTEND_DECODER_SELF;
  return h;
}

const attend_view_side *subject_side(const subject *s, bool keys) {
  bool decoder = s->role == ATTEND_DECODER_SELF || (s->role == ATTEND_CROSS && !keys);
  return &s->run->side[decoder];
}

int subject_level(const subject *s) {
  int level = 0;
  while (s->s.rows >> level > SUBJECT_CELLS || s->s.keys >> level > SUBJECT_CELLS) level++;
  return level;
}
