/* The requests of the page: decoded, computed by attend/view.h, encoded.
 *
 * What comes in here may be anything.
 */
#include "view/request.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attend/train.h"

/* ---- members --------------------------------------------------------------------------- */

bool request_fail(request *r, int status, const char *sentence, ...) {
  va_list list;
  if (r->status) return false;
  r->status = status;
  va_start(list, sentence);
  vsnprintf(r->error, sizeof r->error, sentence, list);
  va_end(list);
  return false;
}

bool request_status(request *r, attend_status status) {
  if (status == ATTEND_OK) return true;
  return request_fail(r,
                      status == ATTEND_NO_MEMORY ? 503
                      : status == ATTEND_STOPPED ? 499
                                                 : 400,
                      "%s", attend_message(r->v->ctx));
}

bool request_text(request *r, const char *name, const char *otherwise, const char **text) {
  const attend_json *value = attend_json_get(r->q, name);
  size_t length = 0;
  *text = otherwise;
  if (!value || attend_json_kind_of(value) == ATTEND_JSON_NULL) return true;
  *text = attend_json_string(value, &length);
  if (!*text || strlen(*text) != length)
    return request_fail(r, 400, "\"%s\" must be a text without zero bytes", name);
  return true;
}

bool request_integer(request *r, const char *name, int64_t low, int64_t high, int64_t otherwise,
                     int *number) {
  const attend_json *value = attend_json_get(r->q, name);
  int64_t n = otherwise;
  *number = (int)n;
  if (value && (!attend_json_integer(value, &n) || n < low || n > high))
    return request_fail(r, 400, "\"%s\" must be a whole number from %lld to %lld", name,
                        (long long)low, (long long)high);
  *number = (int)n;
  return true;
}

bool request_reply(request *r, const encoded *e) {
  return request_status(r, encoded_reply(r->v->ctx, e, r->reply));
}

/* ---- cases ---------------------------------------------------------------------------------- */

static bool copy_member(request *r, const char *name, const char *otherwise, char **to) {
  const char *text;
  if (!request_text(r, name, otherwise, &text)) return false;
  *to = text ? need_copy(text) : NULL;
  return true;
}

static bool request_seed(request *r, view_case *c) {
  int64_t seed = 0;
  const attend_json *value = attend_json_get(r->q, "seed");
  if (value && (!attend_json_integer(value, &seed) || seed < 0))
    return request_fail(r, 400, "\"seed\" must be a whole number, 0 or more");
  c->seed = (uint64_t)seed;
  return true;
}

/* Of a training run the last step, unless one is named. */
static bool request_step(request *r, view_case *c) {
  const attend_training_run *of = viewer_training(r->v, c->model);
  if (!request_integer(r, "step", -1, INT_MAX, -1, &c->step)) return false;
  if (!of) c->step = -1;
  if (of && c->step < 0) c->step = attend_training_run_last(of);
  return true;
}

bool request_case(request *r, const attend_json *q, view_case *c) {
  const attend_json *whole = r->q;
  const char *form = NULL;
  *c = (view_case){0};
  if (attend_json_kind_of(q) != ATTEND_JSON_OBJECT)
    return request_fail(r, 400, "a case must be an object with a text");
  r->q = q;
  bool ok = copy_member(r, "model", "0", &c->model) && copy_member(r, "text", "", &c->text) &&
            copy_member(r, "second", NULL, &c->second) &&
            request_text(r, "attention", "softmax", &form) &&
            request_integer(r, "pad", 0, ATTEND_VIEW_LONGEST, 0, &c->pad) && request_seed(r, c) &&
            request_step(r, c);
  c->untrained = attend_json_boolean(attend_json_get(q, "untrained"), false);
  r->q = whole;
  if (ok && strlen(form) >= sizeof c->attention)
    ok = request_fail(r, 400, "\"attention\" is longer than any form");
  if (ok) snprintf(c->attention, sizeof c->attention, "%s", form);
  if (!c->untrained) c->seed = 0;
  return ok;
}

bool request_steps(request *r) {
  attend_training_run *of = r->v->training;
  int count = 0;
  if (!of) return true;
  if (!attend_training_run_refresh(of)) attend_training_run_steps(of, &count);
  if (count) return true;
  return request_fail(r, 404, "\"%s\" has no steps any more", attend_training_run_path(of));
}

static bool answer_training(request *r) {
  if (!request_steps(r)) return false;
  encoded e = encode_training(r->v);
  return request_reply(r, &e);
}

/* ---- heads ------------------------------------------------------------------------------------ */

static bool request_run_named(request *r, const char *id, const char *which,
                              const attend_view_run **run) {
  *run = attend_viewer_find(r->v->session, id);
  if (*run) return true;
  r->gone = true;
  return request_fail(r, 404, "%s run is not kept any more: run it again", which);
}

static bool request_run(request *r, const attend_json *q, const attend_view_run **run) {
  const char *id = attend_json_string(attend_json_get(q, "run"), NULL);
  if (!id) return request_fail(r, 400, "\"run\" must be the id that a run gave");
  return request_run_named(r, id, "this", run);
}

static bool request_role(request *r, attend_view_head *h) {
  const char *name;
  if (!request_text(r, "role", "", &name)) return false;
  for (int i = 0; i < ATTEND_ROLES; i++)
    if (h->run->has_role[i] && !strcmp(name, attend_role_name((attend_role)i))) {
      h->at.role = (attend_role)i;
      return true;
    }
  return request_fail(r, 400, "\"role\" must be one that this run lists");
}

static bool request_form(request *r, const attend_json *q, const char **form) {
  const attend_json *value = attend_json_get(q, "attention");
  *form = attend_json_string(value, NULL);
  if (attend_json_kind_of(value) <= ATTEND_JSON_NULL || (*form && strlen(*form) < ATTEND_VIEW_FORM))
    return true;
  return request_fail(r, 400, "\"attention\" must be a form, such as \"favor(m=256)\"");
}

/* All heads of a role of a run, through a form. */
static bool request_heads(request *r, attend_view_head *h) {
  *h = (attend_view_head){0};
  return request_run(r, r->q, &h->run) && request_role(r, h) && request_form(r, r->q, &h->form);
}

static bool request_head(request *r, attend_view_head *h) {
  if (!request_heads(r, h)) return false;
  const attend_lens_shape *s = &h->run->shape[h->at.role];
  return request_integer(r, "layer", 0, s->layers - 1, 0, &h->at.layer) &&
         request_integer(r, "head", 0, s->heads - 1, 0, &h->at.head);
}

/* All rows and keys where they are not given. */
static bool request_range(request *r, int rows, int keys, attend_view_range *g) {
  return request_integer(r, "row", 0, rows, 0, &g->row) &&
         request_integer(r, "rows", 0, rows - g->row, rows - g->row, &g->rows) &&
         request_integer(r, "key", 0, keys, 0, &g->key) &&
         request_integer(r, "keys", 0, keys - g->key, keys - g->key, &g->keys);
}

static bool answer_thumbs(request *r) {
  attend_view_head h;
  attend_view_thumbs t;
  int size;
  if (!request_heads(r, &h) || !request_integer(r, "size", 4, 256, 48, &size) ||
      !request_status(r, attend_viewer_thumbs(r->v->session, &h, size, &t)))
    return false;
  encoded e = encode_thumbs(&t);
  bool ok = request_reply(r, &e);
  attend_viewer_release(r->v->session, t.memory);
  return ok;
}

static bool answer_patterns(request *r) {
  attend_view_head h;
  attend_view_patterns p;
  if (!request_heads(r, &h) || !request_status(r, attend_viewer_patterns(r->v->session, &h, &p)))
    return false;
  encoded e = encode_patterns(&p);
  bool ok = request_reply(r, &e);
  attend_viewer_release(r->v->session, p.memory);
  return ok;
}

static bool request_block(request *r, attend_view_head *h, attend_view_range *g) {
  if (!request_head(r, h)) return false;
  const attend_lens_shape *s = &h->run->shape[h->at.role];
  return request_range(r, s->rows, s->keys, g);
}

static bool answer_block(request *r) {
  attend_view_head h;
  attend_view_range g;
  attend_view_block b;
  if (!request_block(r, &h, &g) ||
      !request_status(r, attend_viewer_block(r->v->session, &h, &g, &b)))
    return false;
  encoded e = encode_block(&b);
  bool ok = request_reply(r, &e);
  attend_viewer_release(r->v->session, b.memory);
  return ok;
}

static bool answer_stats(request *r) {
  attend_view_head h;
  attend_view_stats s;
  if (!request_head(r, &h) || !request_status(r, attend_viewer_stats(r->v->session, &h, &s)))
    return false;
  encoded e = encode_stats(&s);
  bool ok = request_reply(r, &e);
  attend_viewer_release(r->v->session, s.memory);
  return ok;
}

static bool answer_vectors(request *r) {
  attend_view_head h;
  attend_view_range g;
  attend_view_vectors x;
  if (!request_block(r, &h, &g) ||
      !request_status(r, attend_viewer_vectors(r->v->session, &h, &g, &x)))
    return false;
  encoded e = encode_vectors(&x, h.form ? h.form : h.run->c.attention);
  bool ok = request_reply(r, &e);
  attend_viewer_release(r->v->session, x.memory);
  return ok;
}

/* ---- tiles -------------------------------------------------------------------------------------- */

static bool request_tile(request *r, attend_view_place *p) {
  const attend_json *minus = attend_json_get(r->q, "minus");
  const char *pool;
  *p = (attend_view_place){0};
  if (!request_head(r, &p->head) ||
      !request_integer(r, "level", 0, ATTEND_VIEW_LEVELS, 0, &p->level) ||
      !request_integer(r, "x", 0, ATTEND_VIEW_LONGEST, 0, &p->x) ||
      !request_integer(r, "y", 0, ATTEND_VIEW_LONGEST, 0, &p->y) ||
      !request_text(r, "pool", "max", &pool))
    return false;
  if (strcmp(pool, "max") && strcmp(pool, "mean"))
    return request_fail(r, 400, "\"pool\" must be \"max\" or \"mean\"");
  p->pool = strcmp(pool, "max") ? ATTEND_POOL_MEAN : ATTEND_POOL_MAX;
  return attend_json_kind_of(minus) != ATTEND_JSON_OBJECT ||
         (request_run(r, minus, &p->minus) && request_form(r, minus, &p->minus_form));
}

static bool answer_tile(request *r) {
  attend_view_place p;
  attend_view_tile t;
  if (!request_tile(r, &p) || !request_status(r, attend_viewer_tile(r->v->session, &p, &t)))
    return false;
  encoded e = encode_tile(&t, p.level);
  bool ok = request_reply(r, &e);
  attend_viewer_release(r->v->session, t.memory);
  return ok;
}

/* ---- through the layers; two runs ------------------------------------------------------------------ */

static bool reply_rollout(request *r, const attend_view_head *h, int token) {
  attend_view_rollout x;
  if (!request_status(r, attend_viewer_rollout(r->v->session, h, token, &x))) return false;
  encoded e = encode_rollout(&x);
  bool ok = request_reply(r, &e);
  attend_viewer_release(r->v->session, x.memory);
  return ok;
}

static bool reply_reach(request *r, const attend_view_head *h, int token) {
  attend_view_reach x;
  if (!request_status(r, attend_viewer_reach(r->v->session, h, token, &x))) return false;
  encoded e = encode_reach(&x);
  bool ok = request_reply(r, &e);
  attend_viewer_release(r->v->session, x.memory);
  return ok;
}

static bool answer_flow(request *r) {
  attend_view_head h;
  const char *way;
  int token;
  if (!request_heads(r, &h)) return false;
  int last = h.run->shape[h.at.role].rows - 1;
  if (!request_integer(r, "token", 0, last, last, &token) ||
      !request_text(r, "way", "rollout", &way))
    return false;
  if (!strcmp(way, "rollout")) return reply_rollout(r, &h, token);
  if (!strcmp(way, "argmax")) return reply_reach(r, &h, token);
  return request_fail(r, 400, "\"way\" must be \"rollout\" or \"argmax\"");
}

static bool answer_compare(request *r) {
  attend_view_head h;
  const attend_view_run *other = NULL;
  attend_view_comparison c;
  const char *id = attend_json_string(attend_json_get(r->q, "other"), NULL);
  if (!request_heads(r, &h) || (id && !request_run_named(r, id, "the other", &other)) ||
      !request_status(r, attend_viewer_compare(r->v->session, &h, other, &c)))
    return false;
  encoded e = encode_comparison(&c);
  bool ok = request_reply(r, &e);
  attend_viewer_release(r->v->session, c.memory);
  return ok;
}

/* ---- tokens as vectors ------------------------------------------------------------------------------ */

static bool request_side(request *r, const attend_view_run *run, attend_role *role, int *tokens,
                         int *layers) {
  const char *name;
  if (!request_text(r, "side", run->side[1].n ? "decoder" : "encoder", &name)) return false;
  bool decoder = !strcmp(name, "decoder");
  if ((!decoder && strcmp(name, "encoder")) || !run->side[decoder].n)
    return request_fail(r, 400, "\"side\" must be one that this run has");
  const attend_config *c = attend_viewer_model(r->v->session, run->c.model)->config;
  *role = decoder ? ATTEND_DECODER_SELF : ATTEND_ENCODER_SELF;
  *tokens = run->side[decoder].n;
  *layers = decoder ? attend_config_stack(c, ATTEND_DECODER)->layers
                    : attend_config_stack(c, ATTEND_ENCODER)->layers;
  return true;
}

static bool answer_candidates(request *r) {
  const attend_view_run *run;
  attend_view_candidate list[64];
  attend_role side;
  int tokens, layers, position, top, n;
  if (!request_run(r, r->q, &run) || !request_side(r, run, &side, &tokens, &layers) ||
      !request_integer(r, "position", 0, tokens - 1, tokens - 1, &position) ||
      !request_integer(r, "top", 1, 64, 10, &top) ||
      !request_status(r,
                      attend_viewer_candidates(r->v->session, run, side, position, top, list, &n)))
    return false;
  encoded e = encode_candidates(r->v, run->c.model, list, n);
  return request_reply(r, &e);
}

static bool answer_embeddings(request *r) {
  const attend_view_run *run;
  attend_view_range g;
  attend_view_embeddings x;
  attend_role side;
  int tokens, layers, layer;
  if (!request_run(r, r->q, &run) || !request_side(r, run, &side, &tokens, &layers) ||
      !request_integer(r, "layer", 0, layers, 0, &layer) || !request_range(r, tokens, tokens, &g) ||
      !request_status(r, attend_viewer_embeddings(r->v->session, run, side, layer, &g, &x)))
    return false;
  encoded e = encode_embeddings(&x);
  bool ok = request_reply(r, &e);
  attend_viewer_release(r->v->session, x.memory);
  return ok;
}

static bool request_model(request *r, int *model) {
  const char *id;
  *model = -1;
  if (!request_text(r, "model", NULL, &id)) return false;
  if (id) *model = viewer_model(r->v, id);
  return !id || *model >= 0 ||
         request_fail(r, 400, "there is no model \"%.20s\": hello lists them", id);
}

static bool answer_positions(request *r) {
  attend_view_positions p;
  int count, width, model, step;
  if (!request_integer(r, "count", 2, 512, 64, &count) ||
      !request_integer(r, "width", 2, 512, 64, &width) || !request_model(r, &model) ||
      !request_integer(r, "step", -1, INT_MAX, -1, &step) ||
      !request_status(r, attend_viewer_positions(r->v->session, model, step, count, width, &p)))
    return false;
  encoded e = encode_positions(&p);
  bool ok = request_reply(r, &e);
  attend_viewer_release(r->v->session, p.memory);
  return ok;
}

/* ---- long requests ------------------------------------------------------------------------------------ */

static int say_progress(double done, double total, const char *what, void *user) {
  request *r = user;
  char line[200];
  snprintf(line, sizeof line, "{\"done\":%.6g,\"total\":%.6g,\"what\":\"%s\"}", done, total, what);
  return r->say("progress", line, r->user);
}

static int say_token(const attend_view_step *step, void *user) {
  request *r = user;
  attend_json_writer w = attend_json_writer_text(r->v->ctx);
  write_step(&w, attend_viewer_model(r->v->session, r->model), step);
  int stop = attend_json_finish(&w) != ATTEND_OK;
  if (!stop && w.length && w.text[w.length - 1] == '\n') w.text[w.length - 1] = 0;
  stop = stop || r->say("token", w.text, r->user);
  attend_json_writer_free(&w);
  return stop;
}

/* Nobody listens where a long request comes without events. */
static const attend_view_listener *listener_of(request *r, attend_view_listener *l) {
  *l = (attend_view_listener){ATTEND_INIT(attend_view_listener), say_progress, say_token, r};
  return r->say ? l : NULL;
}

static bool request_generate(request *r, attend_view_generate *g) {
  double t = attend_json_number(attend_json_get(r->q, "temperature"), 0);
  double p = attend_json_number(attend_json_get(r->q, "top_p"), 1);
  int64_t seed = 0;
  if (!request_integer(r, "new", 1, ATTEND_VIEW_NEW, 20, &g->new_tokens) ||
      !request_integer(r, "top_k", 0, 1 << 20, 0, &g->top_k))
    return false;
  if (!(t >= 0 && t <= 100) || !(p >= 0 && p <= 1))
    return request_fail(r, 400, "\"temperature\" goes from 0 to 100, \"top_p\" from 0 to 1");
  attend_json_integer(attend_json_get(r->q, "seed"), &seed);
  g->temperature = (float)t;
  g->top_p = (float)p;
  g->seed = (uint64_t)seed;
  return true;
}

/* Runs q's case; g NULL: nothing is generated. */
static bool answer_case(request *r, const attend_json *q, const attend_view_generate *g) {
  attend_viewer *s = r->v->session;
  attend_view_listener l;
  attend_view_case found;
  const attend_view_run *run = NULL;
  view_case c;
  char error[640];
  bool ok = request_case(r, q, &c);
  if (ok && !case_find(r->v, &c, &found, error)) ok = request_fail(r, 400, "%s", error);
  if (ok) {
    r->model = found.model;
    ok = request_status(r, g ? attend_viewer_generate(s, &found, g, listener_of(r, &l), &run)
                             : attend_viewer_run(s, &found, listener_of(r, &l), &run));
  }
  case_free(&c);
  if (!ok) return false;
  encoded e = encode_run(r->v, run);
  return request_reply(r, &e);
}

static bool answer_run(request *r) { return answer_case(r, r->q, NULL); }

static bool answer_generate(request *r) {
  attend_view_generate g = {ATTEND_INIT(attend_view_generate)};
  return request_generate(r, &g) && answer_case(r, attend_json_get(r->q, "case"), &g);
}

static void write_nothing(attend_json_writer *w, const encoded *e) {
  (void)e;
  attend_json_open(w, '{');
  attend_json_close(w, '}');
}

static bool answer_refine(request *r) {
  attend_view_place p;
  attend_view_listener l;
  if (!request_tile(r, &p) ||
      !request_status(r, attend_viewer_refine(r->v->session, &p, listener_of(r, &l))))
    return false;
  return request_reply(r, &(encoded){.write = write_nothing});
}

/* ---- the list --------------------------------------------------------------------------------------------- */

typedef struct {
  const char *name;
  bool is_long;
  bool (*answer)(request *r);
} known_request;

static const known_request requests[] = {{"hello", false, answer_hello},
                                         {"training", false, answer_training},
                                         {"run", true, answer_run},
                                         {"generate", true, answer_generate},
                                         {"refine", true, answer_refine},
                                         {"thumbs", false, answer_thumbs},
                                         {"patterns", false, answer_patterns},
                                         {"block", false, answer_block},
                                         {"stats", false, answer_stats},
                                         {"vectors", false, answer_vectors},
                                         {"tile", false, answer_tile},
                                         {"flow", false, answer_flow},
                                         {"compare", false, answer_compare},
                                         {"candidates", false, answer_candidates},
                                         {"embeddings", false, answer_embeddings},
                                         {"positions", false, answer_positions},
                                         {"picture", false, answer_picture}};

static const known_request *find(const char *name) {
  for (size_t i = 0; i < sizeof requests / sizeof *requests; i++)
    if (!strcmp(requests[i].name, name)) return &requests[i];
  return NULL;
}

bool view_knows(const char *name) { return find(name) != NULL; }
bool view_is_long(const char *name) {
  const known_request *r = find(name);
  return r && r->is_long;
}

/* ---- answering ----------------------------------------------------------------------------------------------- */

static void write_error(attend_json_writer *w, const encoded *e) {
  const request *r = e->of;
  attend_json_open(w, '{');
  json_text(w, "error", r->error);
  if (r->gone) json_truth(w, "gone", true);
  attend_json_close(w, '}');
}

static void reply_error(request *r) {
  free(r->reply->bytes);
  *r->reply = (view_reply){0};
  encoded_reply(r->v->ctx, &(encoded){.write = write_error, .of = r}, r->reply);
  r->reply->type = "application/json";
  r->reply->status = r->status;
}

typedef struct {
  request r;
  const known_request *of;
  const char *body;
  size_t length;
  view_cancelled cancelled;
  void *by; /* whom cancelled is about */
} work;

static void answer(void *user) {
  work *job = user;
  request *r = &job->r;
  attend_json *root = NULL;
  *r->reply = (view_reply){0};
  if (!job->of)
    request_fail(r, 404, "there is no such request");
  else if (request_status(
               r, attend_json_parse(r->v->ctx, "the request", job->body, job->length, &root))) {
    r->q = root;
    if (attend_json_kind_of(root) != ATTEND_JSON_OBJECT)
      request_fail(r, 400, "a request is a JSON object");
    else if (!job->of->answer(r))
      request_fail(r, 500, "the request was not answered");
  }
  attend_json_free(root);
  if (r->status) reply_error(r);
}

static int is_cancelled(void *user) {
  const work *job = user;
  return job->cancelled(job->by);
}

bool view_answer(viewer *v, const char *name, const char *body, size_t length,
                 view_cancelled cancelled, void *user, view_reply *reply) {
  work job = {{.v = v, .reply = reply}, find(name), body, length, cancelled, user};
  return attend_viewer_call(
      v->session, &(attend_view_task){
                      .work = answer, .waiting = cancelled ? is_cancelled : NULL, .user = &job});
}

static int say_waiting(void *user) {
  const request *r = &((work *)user)->r;
  return r->say("progress", "{\"done\":0,\"total\":0,\"what\":\"waiting for others\"}", r->user);
}

void view_stream(viewer *v, const char *name, const char *body, size_t length, view_say say,
                 void *user) {
  view_reply reply = {0};
  work job = {.r = {.v = v, .reply = &reply, .say = say, .user = user},
              .of = find(name),
              .body = body,
              .length = length};
  attend_view_task task = {answer, true, say_waiting, &job};
  if (!attend_viewer_call(v->session, &task)) return;
  char *line = reply.bytes;
  size_t end = reply.length;
  while (end && (line[end - 1] == '\n' || line[end - 1] == ' ')) end--;
  if (line && end) line[end] = 0;
  say(reply.status == 200 ? "done" : "error", line ? line : "{}", user);
  free(reply.bytes);
}
