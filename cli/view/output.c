/* What attend view puts out: JSON, pictures, the terminal, everything recorded, or the page,
 * served until Ctrl-C.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "attend/file.h"
#include "folders.h"
#include "progress.h"
#include "table.h"
#include "view/view.h"

int view_write_bytes(attend_context *ctx, const char *path, const void *bytes, size_t length) {
  if (!strcmp(path, "-")) {
    fwrite(bytes, 1, length, stdout);
    return check_written(stdout, "the output");
  }
  attend_status status = attend_file_write(ctx, path, bytes, length);
  return status ? complain_status(ctx, status) : EXIT_OK;
}

/* ---- runs --------------------------------------------------------------------------------- */

static const attend_viewer_listener shown = {ATTEND_INIT(attend_viewer_listener),
                                             .progress = progress_report};

/* The case without its changes. */
static bool run_unchanged(viewer *v, const attend_viewer_case *c, const attend_viewer_run **run,
                          char error[VIEW_ERROR]) {
  attend_viewer_case plain = *c;
  plain.changes = plain.from = NULL;
  return viewer_run(v, &plain, 0, run, error);
}

/* The runs of a state; the view generate has new tokens. */
static bool run_state(viewer *v, int new_tokens, view_subject *to, char error[VIEW_ERROR]) {
  const view_state *s = to->state;
  char id[sizeof to->run->id];
  bool generates = !strcmp(s->view, "generate");
  if (!viewer_run(v, &s->c, generates ? new_tokens : 0, &to->run, error)) return false;
  const bool predicts = !strcmp(s->view, "intervene") || !strcmp(s->view, "attribute");
  const bool changed = predicts && to->run->c.changes;
  if (!s->has_other && !changed) return true;
  memcpy(id, to->run->id, sizeof id);
  if (changed && !run_unchanged(v, &s->c, &to->before, error)) return false;
  if (s->has_other && !viewer_run(v, &s->other, 0, &to->other, error)) return false;
  to->run = attend_viewer_find(v->session, id); /* the other may have evicted it */
  if (!to->run)
    snprintf(error, VIEW_ERROR,
             "the two runs need more than the memory that is allowed: start with a larger "
             "--memory");
  return to->run;
}

/* The role that is named, or else the first. */
static int find_role(const attend_viewer_run *run, const char *name) {
  for (int i = 0; i < ATTEND_ROLES; i++)
    if (run->has_role[i] && (!*name || !strcmp(name, attend_role_name((attend_role)i)))) return i;
  return -1;
}

/* The layer, head and token of the other run, where they are given. */
static bool find_beside(const view_subject *to, char error[VIEW_ERROR]) {
  const view_state *s = to->state;
  attend_role role = attend_viewer_role_beside(to->other, to->head.at.role);
  const attend_lens_shape *of = &to->other->shape[role];
  if (s->other_layer < of->layers && s->other_head < of->heads && s->other_token < of->rows)
    return true;
  snprintf(error, VIEW_ERROR,
           "against layer %d, head %d, token %d: the %s of the other run has %d layers, %d heads "
           "and %d queries, counted from 0",
           s->other_layer, s->other_head, s->other_token, attend_role_name(role), of->layers,
           of->heads, of->rows);
  return false;
}

/* Runs a state and finds the head that it names. */
static bool find_subject(viewer *v, const view_state *s, int new_tokens, view_subject *to,
                         char error[VIEW_ERROR]) {
  *to = (view_subject){.ctx = v->ctx, .viewer = v->session, .state = s, .listener = v->listener};
  if (!view_applies(v, s, error)) return false;
  if (v->listener) progress_start("percent", 100);
  bool ok = run_state(v, new_tokens, to, error);
  if (v->listener) progress_end();
  if (!ok) return false;
  int role = find_role(to->run, s->role);
  if (role < 0) {
    snprintf(error, VIEW_ERROR, "this run has no attention of the role \"%.40s\"", s->role);
    return false;
  }
  const attend_head_id at = {(attend_role)role, s->layer < 0 ? 0 : s->layer,
                             s->head < 0 ? 0 : s->head};
  to->head = (attend_viewer_head){.run = to->run, .at = at};
  if (to->other && !find_beside(to, error)) return false;
  const attend_lens_shape *of = view_shape(to);
  bool after_last = !strcmp(s->view, "embeddings");
  if (at.layer < of->layers + after_last && at.head < of->heads && s->token < of->rows &&
      s->key < of->keys)
    return true;
  snprintf(error, VIEW_ERROR,
           "layer %d, head %d, token %d, key %d: the %s has %d layers, %d heads, %d queries and "
           "%d keys, counted from 0",
           at.layer, at.head, s->token, s->key, attend_role_name(at.role), of->layers, of->heads,
           of->rows, of->keys);
  return false;
}

/* ---- JSON ------------------------------------------------------------------------------------ */

/* The numbers of a view, as the page gets them: the state, the runs, and the answers that
 * the view is drawn from, those in parts as nested lists. */
typedef struct {
  viewer *v;
  view_subject s;
  json_writer w;
  char error[VIEW_ERROR];
} writing;

static bool put(writing *p, const char *member, const char *route, const view_query *q) {
  json_member(&p->w, member);
  attend_status status = view_answer_write(p->v, view_route_of(route), q, &p->w);
  if (status) snprintf(p->error, sizeof p->error, "%s", attend_message(p->v->ctx));
  return !status;
}

/* A head in full, or in cells. */
static bool put_head(writing *p, const char *member, int head) {
  const attend_lens_shape *of = view_shape(&p->s);
  bool mean = !strcmp(p->s.state->pool, "mean");
  view_query q = {.head = p->s.head,
                  .range = {0, of->rows, 0, of->keys},
                  .level = view_level(of),
                  .pool = mean ? ATTEND_POOL_MEAN : ATTEND_POOL_MAX};
  q.head.at.head = head;
  return put(p, member, q.level ? "tile" : "block", &q);
}

static bool put_heads(writing *p) {
  const view_state *s = p->s.state;
  if (!s->n_heads) return put_head(p, "block", p->s.head.at.head);
  bool ok = true;
  json_member(&p->w, "heads");
  json_open(&p->w, '{');
  for (int i = 0; i < s->n_heads && ok; i++) {
    char name[16];
    snprintf(name, sizeof name, "%d", s->heads[i]);
    ok = put_head(p, name, s->heads[i]);
  }
  json_close(&p->w, '}');
  return ok;
}

static attend_role side_of_role(attend_role role) {
  return role == ATTEND_CROSS ? ATTEND_DECODER_SELF : role;
}

/* A word in both texts. */
static bool put_word(writing *p, view_query q) {
  q.side = side_of_role(q.head.at.role);
  q.token = p->s.state->token;
  q.other_token = p->s.state->other_token;
  return put(p, "word", "word", &q);
}

static int least(int a, int b) { return a < b ? a : b; }

/* Of two texts all tokens of one with all of the other, too. */
static bool put_cosines(writing *p, view_query q) {
  int n = least(q.range.rows, VIEW_CELLS);
  const attend_viewer_run *other = q.other;
  q.range = (attend_viewer_range){0, n, 0, n};
  q.other = NULL;
  if (!put(p, "embeddings", "embeddings", &q)) return false;
  if (!other) return true;
  if (!put_word(p, (view_query){.head = q.head, .other = other})) return false;
  q.other = other;
  q.range.keys = least(other->side[q.side == ATTEND_DECODER_SELF].n, VIEW_CELLS);
  return other->c.model != q.head.run->c.model || other->c.untrained != q.head.run->c.untrained ||
         put(p, "between", "embeddings", &q);
}

static bool put_embeddings(writing *p, view_query *q) {
  const attend_viewer_case *c = &p->s.state->c;
  q->side = side_of_role(q->head.at.role);
  if (!put_cosines(p, *q)) return false;
  q->other = NULL;
  q->model = c->model, q->step = c->step;
  q->count = q->width = 64;
  return put(p, "positions", "positions", q);
}

/* Of two texts both queries of the word. */
static bool put_neuron(writing *p, view_query *q) {
  int token, other;
  if (view_queries(&p->s, &token, &other)) {
    snprintf(p->error, sizeof p->error, "%s", attend_message(p->v->ctx));
    return false;
  }
  q->range = (attend_viewer_range){token, 1, 0, view_shape(&p->s)->keys};
  if (!put(p, "vectors", "vectors", q)) return false;
  if (!p->s.other) return true;
  view_query o = {.head = view_head_beside(p->s.state, p->s.head, p->s.other)};
  o.range = (attend_viewer_range){other, 1, 0, p->s.other->shape[o.head.at.role].keys};
  return put(p, "other_vectors", "vectors", &o) && put_word(p, *q);
}

/* Another model, or another number of tokens: by words, and counted. */
static bool put_beside(writing *p, view_query *q) {
  view_query o = {.head = view_head_beside(p->s.state, p->s.head, p->s.other)};
  o.other = p->s.run;
  return put(p, "beside", "beside", q) && put(p, "words", "words", q) &&
         put(p, "other_words", "words", &o) && put_head(p, "block", q->head.at.head);
}

/* The first minus the second, as in the page and its pictures. */
static bool put_difference(writing *p, const char *form) {
  const attend_lens_shape *of = view_shape(&p->s);
  bool mean = !strcmp(p->s.state->pool, "mean");
  view_query q = {.head = p->s.head,
                  .range = {0, of->rows, 0, of->keys},
                  .level = view_level(of),
                  .pool = mean ? ATTEND_POOL_MEAN : ATTEND_POOL_MAX,
                  .minus = p->s.other ? p->s.other : p->s.run,
                  .minus_form = p->s.other ? NULL
                                : *form    ? form
                                           : VIEW_OTHER_FORM};
  return put(p, "difference", q.level ? "tile" : "block", &q);
}

static bool put_compare(writing *p, view_query *q) {
  const char *form = p->s.state->form;
  if (!p->s.other) q->head.form = *form ? form : VIEW_OTHER_FORM;
  if (!put(p, "compare", "compare", q)) return false;
  if (p->s.other && view_is_beside(p->s.run, p->s.other, q->head.at.role)) return put_beside(p, q);
  return put_head(p, "block", q->head.at.head) && put_difference(p, form);
}

/* A token is followed through self-attention: cross-attention's is the decoder's. */
static bool put_flow(writing *p, view_query *q) {
  if (q->head.at.role == ATTEND_CROSS) q->head.at.role = ATTEND_DECODER_SELF;
  return put(p, "flow", "flow", q);
}

/* Of a prediction: its effect, which is no change where there are none. */
static bool put_effect(writing *p, view_query *q) {
  q->before = p->s.before ? p->s.before : p->s.run;
  q->target = view_target(p->s.state);
  q->top = VIEW_TOP;
  return put(p, "effect", "effect", q);
}

static bool put_intervene(writing *p, view_query *q) {
  if (!put_effect(p, q)) return false;
  if (!p->s.state->sweep) return true;
  attend_viewer_effect e;
  if (attend_viewer_get_effect(p->s.viewer, p->s.run, q->before, &q->target, 1, &e)) return false;
  attend_viewer_release(p->s.viewer, e.memory);
  q->head.run = q->before;
  q->sweep = view_sweep(p->s.state, q->head.at.role, e.has_head);
  return put(p, "sweep", "sweep", q);
}

static bool put_attribute(writing *p, view_query *q) {
  const int method = view_method_of(p->s.state->method);
  if (!put_effect(p, q)) return false;
  if (method >= 0) {
    q->method = (attend_viewer_method)method;
    q->head.run = q->before;
    return put(p, "attribute", "attribute", q);
  }
  int position = q->target.position;
  if (attend_viewer_get_position(p->s.viewer, p->s.run, &position)) return false;
  q->range = view_lens_range(p->s.run->side[p->s.run->side[1].n > 0].n, position);
  q->top = VIEW_LENS_TOP;
  return put(p, "lens", "lens", q);
}

static bool put_view(writing *p) {
  const view_state *s = p->s.state;
  const attend_lens_shape *of = view_shape(&p->s);
  const char *view = s->view;
  int token = s->token < 0 ? of->rows - 1 : s->token;
  view_query q = {.head = p->s.head,
                  .range = {0, of->rows, 0, of->keys},
                  .token = token,
                  .way = s->way,
                  .other = p->s.other,
                  .listener = p->v->listener,
                  .size = 48};
  if (!strcmp(view, "head") || !strcmp(view, "matrix")) return put_heads(p);
  if (!strcmp(view, "flow")) return put_flow(p, &q);
  if (!strcmp(view, "embeddings")) return put_embeddings(p, &q);
  if (!strcmp(view, "generate")) return true; /* the run has the steps */
  if (!strcmp(view, "neuron")) return put_neuron(p, &q);
  if (!strcmp(view, "compare")) return put_compare(p, &q);
  if (!strcmp(view, "intervene")) return put_intervene(p, &q);
  if (!strcmp(view, "attribute")) return put_attribute(p, &q);
  return put(p, "patterns", "patterns", &q) && put(p, "thumbs", "thumbs", &q);
}

static bool put_all(writing *p) {
  json_writer *w = &p->w;
  json_open(w, '{');
  json_member(w, "state");
  write_state(w, p->s.state);
  json_member(w, "run");
  write_run(w, p->v, p->s.run);
  if (viewer_training(p->v, p->s.state->c.model)) {
    json_member(w, "training");
    write_training(w, p->v);
  }
  if (p->s.other) {
    json_member(w, "other");
    write_run(w, p->v, p->s.other);
  }
  json_member(w, "answers");
  json_open(w, '{');
  bool ok = put_view(p);
  json_close(w, '}');
  json_close(w, '}');
  return ok;
}

static int print_json(viewer *v, const view_options *o, const char *path) {
  writing p = {.v = v, .w = json_writer_text(v->ctx)};
  int code;
  json_indent(&p.w, false);
  if (!find_subject(v, &o->state, o->new_tokens, &p.s, p.error) || !put_all(&p))
    code = complain("%s", p.error);
  else if (json_finish(&p.w))
    code = complain_status(v->ctx, p.w.status);
  else
    code = view_write_bytes(v->ctx, path, p.w.text, p.w.length);
  json_writer_free(&p.w);
  return code;
}

/* ---- pictures ------------------------------------------------------------------------------------ */

#ifdef ATTEND_HAVE_PICTURES
bool answer_picture(request *r) {
  view_state s;
  view_subject subject;
  const char *as;
  picture_look look = {.dark = attend_json_boolean(attend_json_get(r->q, "dark"), false)};
  void *bytes = NULL;
  size_t length = 0;
  int width;
  if (!request_state(r, attend_json_get(r->q, "state"), &s) || !request_text(r, "as", "svg", &as) ||
      !request_integer(r, "width", 320, 4000, 1200, &width))
    return false;
  if (strcmp(as, "svg") && strcmp(as, "png"))
    return request_fail(r, 400, "\"as\" must be \"svg\" or \"png\"");
  look.width = width;
  char error[VIEW_ERROR];
  if (!find_subject(r->v, &s, 20, &subject, error) ||
      !view_picture(&subject, &look, as, &bytes, &length, error))
    return request_fail(r, 400, "%s", error);
  const char *type = strcmp(as, "svg") ? "image/png" : "image/svg+xml";
  *r->reply = (view_reply){200, type, bytes, length};
  return true;
}

/* Of a training run without --step, a picture of all heads shows one at its steps. */
static int write_picture(viewer *v, const view_options *o, const char *as) {
  picture_look look = {o->width, o->dark};
  view_subject s;
  char error[VIEW_ERROR];
  void *bytes = NULL;
  size_t length = 0;
  bool ok = find_subject(v, &o->state, o->new_tokens, &s, error);
  if (!o->step && !strcmp(o->state.view, "model")) s.steps = v->training;
  progress_start("percent", 100);
  ok = ok && view_picture(&s, &look, as, &bytes, &length, error);
  progress_end();
  if (!ok) return complain("%s", error);
  int code = view_write_bytes(v->ctx, o->out, bytes, length);
  free(bytes);
  return code;
}
#else
bool answer_picture(request *r) { return request_fail(r, 501, "this build draws no pictures"); }
static int write_picture(viewer *v, const view_options *o, const char *as) {
  (void)v, (void)o, (void)as;
  return complain("this build draws no pictures: build with ATTEND_VIEW on");
}
#endif

/* The view; without one all heads, or one if it is named. */
static int draw_terminal(viewer *v, const view_options *o) {
  terminal_look look = terminal_look_of(stdout);
  view_state s = o->state;
  view_subject subject;
  char error[VIEW_ERROR];
  if (o->dark) look.dark = true;
  if (!strcmp(s.view, "model") && (s.head >= 0 || s.layer >= 0)) s.view = "matrix";
  if (!find_subject(v, &s, o->new_tokens, &subject, error) ||
      !view_terminal(&subject, &look, stdout, error))
    return complain("%s", error);
  return check_written(stdout, "the drawing");
}

/* ---- files ---------------------------------------------------------------------------------------- */

/* Everything that was recorded, for NumPy and PyTorch. */
static int write_trace(viewer *v, const view_options *o) {
  const attend_viewer_run *run;
  char error[VIEW_ERROR];
  if (!viewer_run(v, &o->state.c, 0, &run, error)) return complain("%s", error);
  attend_status status = attend_viewer_save(v->session, run, o->out);
  return status ? complain_status(v->ctx, status) : EXIT_OK;
}

static int write_as(viewer *v, const view_options *o, const char *as) {
  if (!strcmp(as, "html")) return view_write_still(v, o);
  if (!strcmp(as, "svg") || !strcmp(as, "png")) return write_picture(v, o, as);
  if (!strcmp(as, "json")) return print_json(v, o, o->out);
  if (!strcmp(as, "safetensors")) return write_trace(v, o);
  complain("--out takes a name that ends in .html, .svg, .png, .json or .safetensors, not \"%s\"",
           o->out);
  return EXIT_USAGE;
}

/* ---- the server -------------------------------------------------------------------------------------- */

#ifdef ATTEND_HAVE_SERVER
enum { TOKEN_BYTES = 16, ADDRESS = 240 };

static bool make_token(char token[2 * TOKEN_BYTES + 1]) {
  unsigned char bytes[TOKEN_BYTES];
  if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes) {
    complain("the system has no random bytes for a token: try --no-token");
    return false;
  }
  for (int i = 0; i < TOKEN_BYTES; i++) snprintf(token + 2 * i, 3, "%02x", bytes[i]);
  return true;
}

static void write_address(const view_options *o, int port, const char *token,
                          char address[ADDRESS]) {
  const char *host = o->bind ? o->bind : "127.0.0.1";
  bool six = strchr(host, ':') && host[0] != '[';
  snprintf(address, ADDRESS, "http://%s%s%s:%d/%s%s", six ? "[" : "", host, six ? "]" : "", port,
           token ? "?token=" : "", token ? token : "");
}

/* Opens a file that leads to the address and that its owner alone can read: all users of
 * the machine see what programs are started with. The path, or NULL. */
static char *open_address(const char *address) {
  char *path = browser_file("view");
  FILE *out = path ? fopen(path, "w") : NULL;
  if (!out) return free(path), NULL;
  fprintf(out, "<!doctype html><meta http-equiv=\"refresh\" content=\"0;url=%s\">\n", address);
  fclose(out);
  browser_open(path);
  return path;
}

static void serve_until_end(const view_options *o, const char *address, const sigset_t *ends) {
  int which;
  printf("attend view: %s\nOpen it in a browser; Ctrl-C ends.\n", address);
  fflush(stdout);
  char *opened = o->open ? open_address(address) : NULL;
  while (sigwait(ends, &which)) continue;
  if (opened) unlink(opened);
  free(opened);
}

static int serve(viewer *v, const view_options *o) {
  char token[2 * TOKEN_BYTES + 1], address[ADDRESS];
  view_server_options wanted = {.bind = o->bind,
                                .port = o->port,
                                .allow_remote = o->allow_remote,
                                .token = o->no_token ? NULL : token,
                                .most_streams = 64}; /* most of them wait in the queue */
  view_server *server = NULL;
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGINT);
  sigaddset(&ends, SIGTERM);
  sigaddset(&ends, SIGHUP);
  pthread_sigmask(SIG_BLOCK, &ends, NULL);
  if (!o->no_token && !make_token(token)) return EXIT_FAILED;
  attend_status status = attend_viewer_start(v->session);
  v->live = true;
  v->listener = NULL;
  int code = status ? complain_status(v->ctx, status) : EXIT_OK;
  if (!code) code = view_server_start(v, &wanted, &server);
  if (!code) {
    write_address(o, view_server_port(server), wanted.token, address);
    serve_until_end(o, address, &ends);
    view_server_stop(server);
  }
  attend_viewer_stop(v->session);
  return code;
}
#else
static int serve(viewer *v, const view_options *o) {
  (void)v, (void)o;
  return complain(
      "this build has no server: write a page with --out page.html, or build with ATTEND_VIEW on");
}
#endif

int view_show(viewer *v, const view_options *o) {
  v->listener = &shown;
  if (o->out) {
    int code = write_as(v, o, path_ending(o->out));
    if (!code) fprintf(stderr, "attend: wrote %s\n", o->out);
    return code;
  }
  if (o->common.json) return print_json(v, o, "-");
  return o->terminal ? draw_terminal(v, o) : serve(v, o);
}
