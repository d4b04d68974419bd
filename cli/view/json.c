/* attend view --json: the numbers of a view, as the page gets them.
 *
 * One JSON object: the state, the runs, and the answers that the view is drawn from,
 * those in parts as nested lists.
 */
#include <stdio.h>
#include <string.h>

#include "view/subject.h"
#include "view/view.h"

typedef struct {
  viewer *v;
  const view_options *o;
  attend_json_writer w;
  const attend_view_run *run, *other;
  subject s;
  char error[SUBJECT_ERROR];
} writing;

/* Writes a result as a member and frees its memory; false if the call failed. */
static bool put(writing *p, const char *member, attend_status status, encoded e, void *memory) {
  if (!subject_status(p->v, status, p->error)) return false;
  attend_json_member(&p->w, member);
  encoded_write(&p->w, &e);
  attend_viewer_release(p->v->session, memory);
  return true;
}

static bool put_patterns(writing *p) {
  attend_view_head h = subject_head(&p->s, NULL);
  attend_view_patterns x;
  attend_status status = attend_viewer_patterns(p->v->session, &h, &x);
  return put(p, "patterns", status, encode_patterns(&x), x.memory);
}

static bool put_thumbs(writing *p) {
  attend_view_head h = subject_head(&p->s, NULL);
  attend_view_thumbs x;
  attend_status status = attend_viewer_thumbs(p->v->session, &h, 48, &x);
  return put(p, "thumbs", status, encode_thumbs(&x), x.memory);
}

static bool put_block(writing *p, const char *member, const attend_view_head *h) {
  attend_view_block x;
  attend_status status = attend_viewer_block(p->v->session, h, NULL, &x);
  return put(p, member, status, encode_block(&x), x.memory);
}

static bool put_tile(writing *p, const char *member, const attend_view_head *h, int level) {
  bool mean = !strcmp(p->o->state.pool, "mean");
  attend_view_place place = {
      .head = *h, .level = level, .pool = mean ? ATTEND_POOL_MEAN : ATTEND_POOL_MAX};
  attend_view_tile x;
  attend_status status = attend_viewer_tile(p->v->session, &place, &x);
  return put(p, member, status, encode_tile(&x, level), x.memory);
}

/* A head in full, or in cells. */
static bool put_head(writing *p, const char *member, int head) {
  attend_view_head h = subject_head(&p->s, NULL);
  int level = subject_level(&p->s);
  h.at.head = head;
  return level ? put_tile(p, member, &h, level) : put_block(p, member, &h);
}

static bool put_heads(writing *p) {
  const view_state *s = &p->o->state;
  if (!s->n_heads) return put_head(p, "block", p->s.head);
  bool ok = true;
  attend_json_member(&p->w, "heads");
  attend_json_open(&p->w, '{');
  for (int i = 0; i < s->n_heads && ok; i++) {
    char name[16];
    snprintf(name, sizeof name, "%d", s->heads[i]);
    ok = put_head(p, name, s->heads[i]);
  }
  attend_json_close(&p->w, '}');
  return ok;
}

static bool put_neuron(writing *p) {
  int token = p->o->state.token < 0 ? p->s.s.rows - 1 : p->o->state.token;
  attend_view_head h = subject_head(&p->s, NULL);
  attend_view_range one = {token, 1, 0, p->s.s.keys};
  attend_view_vectors x;
  attend_status status = attend_viewer_vectors(p->v->session, &h, &one, &x);
  return put(p, "vectors", status, encode_vectors(&x, p->s.run->c.attention), x.memory);
}

static bool put_flow(writing *p) {
  attend_view_head h = subject_followed(&p->s);
  int given = p->o->state.token;
  int token = given < 0 ? h.run->shape[h.at.role].rows - 1 : given;
  attend_view_reach reach;
  attend_view_rollout rollout;
  attend_status status;
  if (!strcmp(p->o->state.way, "argmax")) {
    status = attend_viewer_reach(p->v->session, &h, token, &reach);
    return put(p, "flow", status, encode_reach(&reach), reach.memory);
  }
  status = attend_viewer_rollout(p->v->session, &h, token, &rollout);
  return put(p, "flow", status, encode_rollout(&rollout), rollout.memory);
}

static bool put_compare(writing *p) {
  const char *form = p->o->state.form;
  attend_view_head h = subject_head(&p->s, *form ? form : VIEW_OTHER_FORM);
  attend_view_comparison x;
  attend_status status = attend_viewer_compare(p->v->session, &h, p->other, &x);
  return put(p, "compare", status, encode_comparison(&x), x.memory) &&
         put_head(p, "block", p->s.head);
}

static bool put_embeddings(writing *p) {
  const view_case *c = &p->o->state.c;
  int n = p->s.s.rows < SUBJECT_CELLS ? p->s.s.rows : SUBJECT_CELLS;
  attend_role side = p->s.role == ATTEND_CROSS ? ATTEND_DECODER_SELF : p->s.role;
  attend_view_range all = {0, n, 0, n};
  attend_view_embeddings x;
  attend_view_positions y;
  attend_status status =
      attend_viewer_embeddings(p->v->session, p->s.run, side, p->s.layer, &all, &x);
  if (!put(p, "embeddings", status, encode_embeddings(&x), x.memory)) return false;
  status =
      attend_viewer_positions(p->v->session, viewer_model(p->v, c->model), c->step, 64, 64, &y);
  return put(p, "positions", status, encode_positions(&y), y.memory);
}

static bool put_view(writing *p) {
  const char *view = p->o->state.view;
  if (!strcmp(view, "head") || !strcmp(view, "matrix")) return put_heads(p);
  if (!strcmp(view, "neuron")) return put_neuron(p);
  if (!strcmp(view, "flow")) return put_flow(p);
  if (!strcmp(view, "compare")) return put_compare(p);
  if (!strcmp(view, "embeddings")) return put_embeddings(p);
  if (!strcmp(view, "generate")) return true; /* the run has the steps */
  return put_patterns(p) && put_thumbs(p);
}

static bool put_all(writing *p) {
  attend_json_open(&p->w, '{');
  attend_json_member(&p->w, "state");
  state_write(&p->w, &p->o->state);
  put(p, "run", ATTEND_OK, encode_run(p->v, p->run), NULL);
  if (viewer_training(p->v, p->o->state.c.model))
    put(p, "training", ATTEND_OK, encode_training(p->v), NULL);
  if (p->other) put(p, "other", ATTEND_OK, encode_run(p->v, p->other), NULL);
  attend_json_member(&p->w, "answers");
  attend_json_open(&p->w, '{');
  bool ok = put_view(p);
  attend_json_close(&p->w, '}');
  attend_json_close(&p->w, '}');
  return ok;
}

int view_print_json(viewer *v, const view_options *o, const char *path) {
  writing p = {.v = v, .o = o, .w = attend_json_writer_text(v->ctx)};
  int code = EXIT_OK;
  attend_json_indent(&p.w, false);
  bool ok = run_state(v, &o->state, o->new_tokens, &p.run, &p.other, p.error) &&
            subject_read(p.run, &o->state, &p.s, p.error) && put_all(&p);
  if (!ok) {
    complain("%s", p.error);
    code = EXIT_FAILED;
  } else if (attend_json_finish(&p.w)) {
    code = complain_status(v->ctx, p.w.status);
  } else {
    code = view_write_bytes(v->ctx, path ? path : "-", p.w.text, p.w.length);
  }
  attend_json_writer_free(&p.w);
  return code;
}
