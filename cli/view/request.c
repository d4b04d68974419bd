/* The requests of the page: JSON of untrusted origin becomes a question (view.h), which is
 * answered in the one thread that computes.
 */
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "table.h"
#include "view/view.h"

/* ---- values of any request ------------------------------------------------------------- */

bool request_fail(request *r, int status, const char *sentence, ...) {
  va_list list;
  if (r->status) return false;
  r->status = status;
  va_start(list, sentence);
  vsnprintf(r->error, sizeof r->error, sentence, list);
  va_end(list);
  return false;
}

static bool request_computed(request *r, attend_status status) {
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

static bool request_model(request *r, const char *otherwise, int *model) {
  const char *id;
  *model = -1;
  if (!request_text(r, "model", otherwise, &id)) return false;
  if (id) *model = viewer_model(r->v, id);
  return !id || *model >= 0 ||
         request_fail(r, 400, "there is no model \"%.20s\": hello lists them", id);
}

/* ---- cases and states ------------------------------------------------------------------ */

/* Of a training run the last step, unless one is named. */
static bool request_step(request *r, attend_viewer_case *c) {
  const attend_training_run *of = viewer_training(r->v, c->model);
  if (!request_integer(r, "step", -1, INT_MAX, -1, &c->step)) return false;
  if (!of) c->step = -1;
  if (of && c->step < 0) c->step = attend_training_run_last(of);
  return true;
}

static bool request_case(request *r, const attend_json *q, attend_viewer_case *c) {
  const attend_json *whole = r->q, *seed = attend_json_get(q, "seed");
  int64_t number = 0;
  *c = (attend_viewer_case){ATTEND_INIT(attend_viewer_case)};
  if (attend_json_kind_of(q) != ATTEND_JSON_OBJECT)
    return request_fail(r, 400, "a case must be an object with a text");
  r->q = q;
  bool ok = request_model(r, "0", &c->model) && request_text(r, "text", "", &c->text) &&
            request_text(r, "second", NULL, &c->second) &&
            request_text(r, "attention", "softmax", &c->attention) &&
            request_text(r, "changes", NULL, &c->changes) &&
            request_text(r, "from", NULL, &c->from) &&
            request_integer(r, "pad", 0, ATTEND_VIEWER_LONGEST, 0, &c->pad) && request_step(r, c);
  r->q = whole;
  if (ok && seed && (!attend_json_integer(seed, &number) || number < 0))
    ok = request_fail(r, 400, "\"seed\" must be a whole number, 0 or more");
  c->untrained = attend_json_boolean(attend_json_get(q, "untrained"), false);
  c->seed = c->untrained ? (uint64_t)number : 0;
  return ok;
}

static bool request_heads(request *r, view_state *s) {
  const attend_json *heads = attend_json_get(r->q, "heads");
  size_t n = attend_json_count(heads);
  if (n > VIEW_HEADS)
    return request_fail(r, 400, "%zu heads are more than %d at once", n, VIEW_HEADS);
  for (size_t i = 0; i < n; i++) {
    int64_t head;
    if (!attend_json_integer(attend_json_at(heads, i), &head) || head < 0 || head > 4096)
      return request_fail(r, 400, "\"heads\" must be numbers of heads");
    s->heads[s->n_heads++] = (int)head;
  }
  return true;
}

bool request_state(request *r, const attend_json *q, view_state *s) {
  const attend_json *whole = r->q, *other = attend_json_get(q, "other");
  bool ok = true;
  *s = view_defaults();
  const struct {
    const char *name, **to;
  } words[] = {{"view", &s->view},     {"role", &s->role},     {"filter", &s->filter},
               {"pool", &s->pool},     {"way", &s->way},       {"form", &s->form},
               {"sort", &s->sort},     {"method", &s->method}, {"metric", &s->metric},
               {"change", &s->change}, {"point", &s->point}};
  r->q = q;
  s->sweep = attend_json_boolean(attend_json_get(q, "sweep"), false);
  s->has_other = attend_json_kind_of(other) == ATTEND_JSON_OBJECT;
  for (size_t i = 0; i < sizeof words / sizeof *words && ok; i++)
    ok = request_text(r, words[i].name, *words[i].to, words[i].to);
  ok = ok && request_integer(r, "layer", -1, 4096, -1, &s->layer) &&
       request_integer(r, "head", -1, 4096, -1, &s->head) &&
       request_integer(r, "token", -1, ATTEND_VIEWER_LONGEST, -1, &s->token) &&
       request_integer(r, "key", -1, ATTEND_VIEWER_LONGEST, -1, &s->key) &&
       request_integer(r, "other_layer", -1, 4096, -1, &s->other_layer) &&
       request_integer(r, "other_head", -1, 4096, -1, &s->other_head) &&
       request_integer(r, "other_token", -1, ATTEND_VIEWER_LONGEST, -1, &s->other_token) &&
       request_integer(r, "target", -1, INT_MAX, -1, &s->target) &&
       request_integer(r, "against", -1, INT_MAX, -1, &s->against) && request_heads(r, s) &&
       request_case(r, attend_json_get(q, "case"), &s->c) &&
       (!s->has_other || request_case(r, other, &s->other));
  if (ok && !view_exists(s->view)) ok = request_fail(r, 400, "there is no view \"%.40s\"", s->view);
  r->q = whole;
  return ok;
}

/* ---- members of a question ----------------------------------------------------------------- */

typedef struct member {
  const char *name;
  bool (*read)(request *r, const struct member *m); /* NULL: an integer */
  const char *(*text)(const view_query *q);         /* in a key; NULL: left out, or no text */
  size_t at;                                        /* of the integer, in view_query .. */
  int low, high, otherwise;                         /* .. which high bounds, or .. */
} member;

/* .. these lengths, which the role or the side of a run sets. */
enum { LAST_LAYER = -9, LAST_HEAD, LAST_ROW, ROWS, ROWS_LEFT, KEYS, KEYS_LEFT, HIGHEST };

static int highest(const request *r, const member *m) {
  const view_query *q = &r->query;
  switch (m->high) {
    case LAST_LAYER:
      return r->layers;
    case LAST_HEAD:
      return q->head.run->shape[q->head.at.role].heads - 1;
    case LAST_ROW:
      return r->rows - 1;
    case ROWS:
      return r->rows;
    case ROWS_LEFT:
      return r->rows - q->range.row;
    case KEYS:
      return r->keys;
    case KEYS_LEFT:
      return r->keys - q->range.key;
    default:
      return m->high;
  }
}

static int *integer_of(const view_query *q, const member *m) { return (int *)((char *)q + m->at); }

static bool read_integer(request *r, const member *m) {
  int high = highest(r, m), otherwise = m->otherwise == HIGHEST ? high : m->otherwise;
  return request_integer(r, m->name, m->low, high, otherwise, integer_of(&r->query, m));
}

/* Not a member: reads which steps the training run has now. */
static bool read_steps(request *r, const member *m) {
  attend_training_run *of = r->v->training;
  int count = 0;
  (void)m;
  if (!of) return true;
  if (!attend_training_run_refresh(of)) attend_training_run_steps(of, &count);
  if (count) return true;
  return request_fail(r, 404, "\"%s\" has no steps any more", attend_training_run_path(of));
}

static bool find_run(request *r, const char *id, const char *which, const attend_viewer_run **run) {
  *run = attend_viewer_find(r->v->session, id);
  if (*run) return true;
  r->gone = true;
  return request_fail(r, 404, "%s run is not kept any more: run it again", which);
}

static bool request_run(request *r, const attend_json *q, const attend_viewer_run **run) {
  const char *id = attend_json_string(attend_json_get(q, "run"), NULL);
  if (!id) return request_fail(r, 400, "\"run\" must be the id that a run gave");
  return find_run(r, id, "this", run);
}

static bool read_run(request *r, const member *m) {
  (void)m;
  return request_run(r, r->q, &r->query.head.run);
}

static const char *run_text(const view_query *q) { return q->head.run->id; }

static bool read_other(request *r, const member *m) {
  const char *id = attend_json_string(attend_json_get(r->q, m->name), NULL);
  return !id || find_run(r, id, "the other", &r->query.other);
}

static const char *other_text(const view_query *q) { return q->other ? q->other->id : NULL; }

static bool read_role(request *r, const member *m) {
  attend_viewer_head *h = &r->query.head;
  const char *name;
  if (!request_text(r, m->name, "", &name)) return false;
  for (int i = 0; i < ATTEND_ROLES; i++) {
    const attend_lens_shape *s = &h->run->shape[i];
    if (!h->run->has_role[i] || strcmp(name, attend_role_name((attend_role)i))) continue;
    h->at.role = (attend_role)i;
    r->layers = s->layers - 1, r->rows = s->rows, r->keys = s->keys;
    return true;
  }
  return request_fail(r, 400, "\"role\" must be one that this run lists");
}

static const char *role_text(const view_query *q) { return attend_role_name(q->head.at.role); }

static bool read_side(request *r, const member *m) {
  const attend_viewer_run *run = r->query.head.run;
  const attend_config *c = attend_viewer_get_model(r->v->session, run->c.model)->config;
  const char *name;
  if (!request_text(r, m->name, run->side[1].n ? "decoder" : "encoder", &name)) return false;
  bool decoder = !strcmp(name, "decoder");
  if ((!decoder && strcmp(name, "encoder")) || !run->side[decoder].n)
    return request_fail(r, 400, "\"side\" must be one that this run has");
  r->query.side = decoder ? ATTEND_DECODER_SELF : ATTEND_ENCODER_SELF;
  r->layers = attend_config_stack(c, decoder ? ATTEND_DECODER : ATTEND_ENCODER)->layers;
  r->rows = r->keys = run->side[decoder].n;
  if (!r->query.other) return true;
  r->keys = r->query.other->side[decoder].n;
  return r->keys || request_fail(r, 400, "\"side\" must be one that the other run has");
}

static const char *side_text(const view_query *q) { return attend_role_name(q->side); }

static bool request_form(request *r, const attend_json *q, const char **form) {
  const attend_json *value = attend_json_get(q, "attention");
  *form = attend_json_string(value, NULL);
  if (attend_json_kind_of(value) <= ATTEND_JSON_NULL ||
      (*form && strlen(*form) < ATTEND_VIEWER_FORM))
    return true;
  return request_fail(r, 400, "\"attention\" must be a form, such as \"favor(m=256)\"");
}

static bool read_form(request *r, const member *m) {
  (void)m;
  return request_form(r, r->q, &r->query.head.form);
}

static const char *form_text(const view_query *q) { return q->head.form; }

static bool read_minus(request *r, const member *m) {
  const attend_json *minus = attend_json_get(r->q, m->name);
  return attend_json_kind_of(minus) != ATTEND_JSON_OBJECT ||
         (request_run(r, minus, &r->query.minus) && request_form(r, minus, &r->query.minus_form));
}

/* One of two words, the first of which is the default. */
static bool request_choice(request *r, const char *name, const char *first, const char *second,
                           const char **word) {
  if (!request_text(r, name, first, word)) return false;
  return !strcmp(*word, first) || !strcmp(*word, second) ||
         request_fail(r, 400, "\"%s\" must be \"%s\" or \"%s\"", name, first, second);
}

static bool read_before(request *r, const member *m) {
  const char *id = attend_json_string(attend_json_get(r->q, m->name), NULL);
  return !id || find_run(r, id, "the unchanged", &r->query.before);
}

static const char *before_text(const view_query *q) { return q->before ? q->before->id : NULL; }

/* A word that `index_of` knows. */
static bool request_word(request *r, const char *name, const char *otherwise,
                         int (*index_of)(const char *word), const char *known, int *index) {
  const char *word;
  if (!request_text(r, name, otherwise, &word)) return false;
  *index = index_of(word);
  return *index >= 0 || request_fail(r, 400, "\"%s\" must be one of %s", name, known);
}

static bool read_axis(request *r, const member *m) {
  const char *axis;
  if (!request_choice(r, m->name, "heads", "tokens", &axis)) return false;
  r->query.sweep.axis = strcmp(axis, "heads") ? ATTEND_SWEEP_TOKENS : ATTEND_SWEEP_HEADS;
  return true;
}

static const char *axis_text(const view_query *q) {
  return q->sweep.axis == ATTEND_SWEEP_HEADS ? "heads" : "tokens";
}

static bool read_change(request *r, const member *m) {
  int kind;
  if (!request_word(r, m->name, "ablate", view_kind_of, "ablate, mean, patch", &kind)) return false;
  r->query.sweep.kind = (attend_change_kind)kind;
  return true;
}

static const char *change_text(const view_query *q) {
  static const char *const words[] = {"ablate", "mean", "patch"};
  return words[q->sweep.kind];
}

static bool read_point(request *r, const member *m) {
  int point;
  if (!request_word(r, m->name, "head_output", view_point_of, "head_output, mlp, residual", &point))
    return false;
  r->query.sweep.point = (attend_point)point;
  return true;
}

static const char *point_text(const view_query *q) { return attend_point_name(q->sweep.point); }

static bool read_metric(request *r, const member *m) {
  int metric;
  if (!request_word(r, m->name, "logit", view_metric_of, "logit, probability, loss, kl, state",
                    &metric))
    return false;
  r->query.sweep.metric = (attend_metric_kind)metric;
  return true;
}

static const char *metric_text(const view_query *q) {
  static const char *const words[] = {"logit", "probability", "loss", "kl", "state"};
  return words[q->sweep.metric];
}

static bool read_from(request *r, const member *m) {
  return request_text(r, m->name, NULL, &r->query.sweep.from);
}

static bool read_method(request *r, const member *m) {
  int method;
  if (!request_word(r, m->name, "gradient", view_method_of,
                    "gradient, integrated, attention, direct", &method))
    return false;
  r->query.method = (attend_viewer_method)method;
  return true;
}

static const char *method_text(const view_query *q) {
  static const char *const words[] = {"gradient", "integrated", "attention", "direct"};
  return words[q->method];
}

static bool read_pool(request *r, const member *m) {
  const char *pool;
  if (!request_choice(r, m->name, "max", "mean", &pool)) return false;
  r->query.pool = strcmp(pool, "max") ? ATTEND_POOL_MEAN : ATTEND_POOL_MAX;
  return true;
}

static bool read_way(request *r, const member *m) {
  return request_choice(r, m->name, "rollout", "argmax", &r->query.way);
}

static const char *way_text(const view_query *q) { return q->way; }

static bool read_model(request *r, const member *m) {
  (void)m;
  return request_model(r, NULL, &r->query.model);
}

static const char *model_text(const view_query *q) {
  static const char *const ids[VIEW_MODELS + 1] = {"0", "1", "2", "3", "4", "5", "6", "7", "8"};
  return ids[q->model];
}

static bool read_case(request *r, const member *m) {
  return request_case(r, attend_json_get(r->q, m->name), &r->query.c);
}

/* All settings of generation. */
static bool read_generate(request *r, const member *m) {
  attend_viewer_generate_options *g = &r->query.generate;
  double t = attend_json_number(attend_json_get(r->q, "temperature"), 0);
  double p = attend_json_number(attend_json_get(r->q, "top_p"), 1);
  int64_t seed = 0;
  *g = (attend_viewer_generate_options){ATTEND_INIT(attend_viewer_generate_options)};
  if (!request_integer(r, m->name, 1, ATTEND_VIEWER_NEW, 20, &g->new_tokens) ||
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

#define INTEGER(name, field, low, high, otherwise) \
  { name, read_integer, NULL, offsetof(view_query, field), low, high, otherwise }

/* In the order in which they are read: lengths before what they bound. */
static const member members[] = {
    {.name = "steps", .read = read_steps},
    {.name = "new", .read = read_generate},
    {.name = "case", .read = read_case},
    {.name = "run", .read = read_run, .text = run_text},
    {.name = "other", .read = read_other, .text = other_text},
    {.name = "role", .read = read_role, .text = role_text},
    {.name = "side", .read = read_side, .text = side_text},
    {.name = "attention", .read = read_form, .text = form_text},
    INTEGER("layer", head.at.layer, 0, LAST_LAYER, 0),
    INTEGER("head", head.at.head, 0, LAST_HEAD, 0),
    INTEGER("row", range.row, 0, ROWS, 0),
    INTEGER("rows", range.rows, 0, ROWS_LEFT, HIGHEST),
    INTEGER("key", range.key, 0, KEYS, 0),
    INTEGER("keys", range.keys, 0, KEYS_LEFT, HIGHEST),
    INTEGER("size", size, 4, 256, 48),
    INTEGER("level", level, 0, ATTEND_VIEWER_LEVELS, 0),
    INTEGER("x", x, 0, ATTEND_VIEWER_LONGEST, 0),
    INTEGER("y", y, 0, ATTEND_VIEWER_LONGEST, 0),
    {.name = "pool", .read = read_pool},
    {.name = "minus", .read = read_minus},
    INTEGER("token", token, 0, LAST_ROW, HIGHEST),
    {.name = "way", .read = read_way, .text = way_text},
    INTEGER("at", token, -1, LAST_ROW, -1),
    INTEGER("other_at", other_token, -1, ATTEND_VIEWER_LONGEST, -1),
    INTEGER("position", position, 0, LAST_ROW, HIGHEST),
    INTEGER("top", top, 1, 64, 10),
    {.name = "before", .read = read_before, .text = before_text},
    INTEGER("predicted", target.position, -1, ATTEND_VIEWER_LONGEST, -1),
    INTEGER("target", target.token, -1, INT_MAX, -1),
    INTEGER("against", target.against, -1, INT_MAX, -1),
    {.name = "axis", .read = read_axis, .text = axis_text},
    {.name = "change", .read = read_change, .text = change_text},
    {.name = "point", .read = read_point, .text = point_text},
    {.name = "metric", .read = read_metric, .text = metric_text},
    {.name = "from", .read = read_from},
    {.name = "method", .read = read_method, .text = method_text},
    INTEGER("count", count, 2, 512, 64),
    INTEGER("width", width, 2, 512, 64),
    {.name = "model", .read = read_model, .text = model_text},
    INTEGER("step", step, -1, INT_MAX, -1),
};
enum { MEMBERS = sizeof members / sizeof *members };

/* Whether a list of words has one that is `length` bytes long. */
static bool has_word(const char *list, const char *word) {
  size_t length = strlen(word);
  for (const char *at = list; *at; at += strspn(at, " ")) {
    size_t n = strcspn(at, " ");
    if (n == length && !memcmp(at, word, n)) return true;
    at += n;
  }
  return false;
}

static bool read_members(request *r, const view_route *route) {
  for (int i = 0; i < MEMBERS; i++)
    if (has_word(route->members, members[i].name) && !members[i].read(r, &members[i])) return false;
  return true;
}

static const member *next_member(const char **list) {
  size_t n = strcspn(*list, " ");
  int i = 0;
  while (strlen(members[i].name) != n || memcmp(members[i].name, *list, n)) i++;
  *list += n + strspn(*list + n, " ");
  return &members[i];
}

void request_key(const view_route *route, const view_query *q, char *key, size_t capacity) {
  size_t n = (size_t)snprintf(key, capacity, "%s?{", route->name);
  for (const char *list = route->members, *comma = ""; *list;) {
    const member *m = next_member(&list);
    const char *text = m->text ? m->text(q) : NULL;
    bool integer = m->read == read_integer && *integer_of(q, m) >= 0;
    if (n >= capacity || (!text && !integer)) continue;
    if (text)
      n += (size_t)snprintf(key + n, capacity - n, "%s\"%s\":\"%s\"", comma, m->name, text);
    else
      n +=
          (size_t)snprintf(key + n, capacity - n, "%s\"%s\":%d", comma, m->name, *integer_of(q, m));
    comma = ",";
  }
  if (n < capacity) snprintf(key + n, capacity - n, "}");
}

/* ---- what long answers say ------------------------------------------------------------------- */

static int say_progress(double done, const char *what, void *user) {
  request *r = user;
  char line[200];
  snprintf(line, sizeof line, "{\"done\":%.4f,\"what\":\"%s\"}", done, what);
  return r->say("progress", line, r->user);
}

static int say_token(const attend_viewer_step *step, void *user) {
  request *r = user;
  json_writer w = json_writer_text(r->v->ctx);
  write_step(&w, attend_viewer_get_model(r->v->session, r->query.c.model), step);
  int stop = json_finish(&w) != ATTEND_OK;
  if (!stop && w.length && w.text[w.length - 1] == '\n') w.text[w.length - 1] = 0;
  stop = stop || r->say("token", w.text, r->user);
  json_writer_free(&w);
  return stop;
}

/* ---- answering ----------------------------------------------------------------------------------- */

static void reply_error(request *r) {
  json_writer w = json_writer_text(r->v->ctx);
  json_open(&w, '{');
  json_member_string(&w, "error", r->error);
  if (r->gone) json_member_boolean(&w, "gone", true);
  json_close(&w, '}');
  *r->reply = (view_reply){r->status, "application/json", NULL, 0};
  if (!json_finish(&w)) r->reply->bytes = need_copy(w.text), r->reply->length = w.length;
  json_writer_free(&w);
}

static void reply_computed(request *r, const view_route *route) {
  view_reply_bytes b;
  if (request_computed(r, view_answer_reply(r->v, route, &r->query, &b)))
    *r->reply = (view_reply){200, b.binary ? "application/octet-stream" : "application/json",
                             b.bytes, b.length};
}

static void answer_route(request *r, const view_route *route) {
  attend_viewer_listener listener = {ATTEND_INIT(attend_viewer_listener), say_progress, say_token,
                                     r};
  if (r->say) r->query.listener = &listener;
  if (attend_json_kind_of(r->q) != ATTEND_JSON_OBJECT)
    request_fail(r, 400, "a request is a JSON object");
  else if (!route->answer)
    answer_picture(r);
  else if (read_members(r, route) &&
           (strcmp(route->name, "run") || request_case(r, r->q, &r->query.c)))
    reply_computed(r, route);
}

bool view_knows(const char *name) { return view_route_of(name) != NULL; }

bool view_is_long(const char *name) {
  const view_route *route = view_route_of(name);
  return route && route->is_long;
}

typedef struct {
  request r;
  const view_route *route;
  const char *body;
  size_t length;
  view_cancelled cancelled;
  void *client; /* the argument of cancelled */
} work;

static void answer(void *user) {
  work *job = user;
  request *r = &job->r;
  attend_json *root = NULL;
  *r->reply = (view_reply){0};
  if (!job->route)
    request_fail(r, 404, "there is no such request");
  else if (request_computed(
               r, attend_json_parse(r->v->ctx, "the request", job->body, job->length, &root)))
    r->q = root, answer_route(r, job->route);
  if (r->status) reply_error(r);
  attend_json_free(root);
}

static int is_cancelled(void *user) {
  const work *job = user;
  return job->cancelled(job->client);
}

bool view_answer(viewer *v, const char *name, const char *body, size_t length,
                 view_cancelled cancelled, void *user, view_reply *reply) {
  work job = {{.v = v, .reply = reply}, view_route_of(name), body, length, cancelled, user};
  return attend_viewer_call(
      v->session, &(attend_viewer_task){
                      .work = answer, .waiting = cancelled ? is_cancelled : NULL, .user = &job});
}

static int say_waiting(void *user) {
  const request *r = &((work *)user)->r;
  return r->say("progress", "{\"done\":null,\"what\":\"waiting for others\"}", r->user);
}

void view_stream(viewer *v, const char *name, const char *body, size_t length, view_say say,
                 void *user) {
  view_reply reply = {0};
  work job = {.r = {.v = v, .reply = &reply, .say = say, .user = user},
              .route = view_route_of(name),
              .body = body,
              .length = length};
  attend_viewer_task task = {answer, true, say_waiting, &job};
  if (!attend_viewer_call(v->session, &task)) return;
  char *line = reply.bytes;
  size_t end = reply.length;
  while (end && (line[end - 1] == '\n' || line[end - 1] == ' ')) end--;
  if (line && end) line[end] = 0;
  say(reply.status == 200 ? "done" : "error", line ? line : "{}", user);
  free(reply.bytes);
}
