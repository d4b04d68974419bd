/* What a still page keeps: the answers to what it will ask.
 *
 * Whole heads are kept where they fit; for what does not fit the still page refers to the
 * live one. Forms to compare with are taken in the order of the list for as long as
 * there is space; of the steps of a training run as many as fit into the rest, evenly.
 */
#include <stdlib.h>
#include <string.h>

#include "page/page.h"
#include "svg/svg.h"

enum {
  FORM_BYTES = 8 << 20, /* of other forms */
  MOST_BYTES = VIEW_STILL_BYTES - FORM_BYTES,
  FOLLOWED = 96, /* tokens that flow is kept for, each */
  THUMB = 48,
  POSITIONS = 64,
  PREDICTED = 3000,  /* bytes of a position's effect, about */
  PREDICTION = 20000 /* and of attributions, the lens, a sweep */
};

static const char *const forms[] = {"favor(m=256)",  "favor(m=64)", "favor(m=16)",   "elu",
                                    "argmax",        "poly(p=2)",   "favor(m=1024)", "favor(m=512)",
                                    "favor(m=128)",  "favor(m=32)", "favor(m=8)",    "gaussian",
                                    "fourier(m=256)"};

typedef struct {
  viewer *v;
  const view_state *s;
  int new_tokens;
  void (*key)(const view_route *route, const view_query *q, char *key, size_t capacity);
  svg answers;      /* members of an object */
  json_writer runs; /* an open object */
  size_t spent, on_forms, max;
  char other[20];    /* the run that the case is compared with; "": none */
  int *kept, n_kept; /* steps of a training run */
  char first[20];    /* the run of the first of them */
  char *error;
} recording;

static void report(recording *r, double done, const char *what) {
  const attend_viewer_listener *l = r->v->listener;
  if (l && l->progress) l->progress(done, what, l->user);
}

static void add_key(svg *t, const char *key) {
  svg_add(t, t->length ? ", \"" : "\"");
  for (; *key; key++) {
    if (*key == '"' || *key == '\\') svg_put(t, "\\", 1);
    svg_put(t, key, 1);
  }
  svg_add(t, "\": ");
}

/* Records the answer to a question. One that fails is left out, which the page reports. */
static void keep(recording *r, const char *name, const view_query *q) {
  const view_route *route = view_route_of(name);
  svg *t = &r->answers;
  view_reply_bytes reply;
  char key[512];
  if (view_answer_reply(r->v, route, q, &reply)) return;
  bool json = !reply.binary;
  r->key(route, q, key, sizeof key);
  add_key(t, key);
  svg_add(t, "{\"type\": \"%s\", \"data\": %s", json ? "json" : "binary", json ? "" : "\"");
  if (json)
    svg_put(t, reply.bytes, reply.length);
  else
    svg_base64(t, reply.bytes, reply.length);
  svg_add(t, json ? "}" : "\"}");
  r->spent += reply.length;
  free(reply.bytes);
}

/* ---- what the page will ask ------------------------------------------------------------ */

/* A role of a run, and from there on heads and tokens of it. */
typedef struct {
  view_query q;
  attend_lens_shape s;
} subject;

/* The next role of a run, from i on; false past the last. */
static bool next_role(const attend_viewer_run *run, int *i, subject *x) {
  while (*i < ATTEND_ROLES && !run->has_role[*i]) ++*i;
  if (*i == ATTEND_ROLES) return false;
  attend_role role = (attend_role)*i;
  *x = (subject){.s = run->shape[*i]};
  x->q = (view_query){.head = {.run = run, .at.role = role},
                      .side = role,
                      .range = {0, x->s.rows, 0, x->s.keys},
                      .size = THUMB};
  ++*i;
  return true;
}

static int head_count(const subject *x) { return x->s.layers * x->s.heads; }

static void choose_head(subject *x, int i) {
  x->q.head.at.layer = i / x->s.heads;
  x->q.head.at.head = i % x->s.heads;
}

static size_t head_bytes(const subject *x) {
  return (size_t)x->s.rows * (size_t)x->s.keys * sizeof(float);
}

static bool fits_one_call(const subject *x) {
  return head_bytes(x) <= ATTEND_VIEWER_CELLS * sizeof(float);
}

static size_t vector_bytes(const subject *x) {
  size_t numbers = (size_t)(x->s.dim + x->s.dim_v);
  return head_bytes(x) + (size_t)(x->s.rows + x->s.keys) * numbers * sizeof(float);
}

static bool is_chosen(const recording *r, const subject *x) {
  const view_state *s = r->s;
  return x->q.head.at.layer == (s->layer < 0 ? 0 : s->layer) &&
         x->q.head.at.head == (s->head < 0 ? 0 : s->head);
}

static void keep_heads(recording *r, subject x) {
  size_t heads = (size_t)head_count(&x);
  bool blocks = r->spent + heads * head_bytes(&x) < r->max;
  bool vectors = r->spent + heads * (head_bytes(&x) + vector_bytes(&x)) < r->max;
  for (int i = 0; i < head_count(&x) && fits_one_call(&x); i++) {
    choose_head(&x, i);
    bool chosen = is_chosen(r, &x);
    if (blocks || chosen) keep(r, "block", &x.q);
    if (vectors || chosen) keep(r, "vectors", &x.q);
  }
}

static void keep_flow(recording *r, subject x) {
  if (x.q.head.at.role == ATTEND_CROSS) return;
  for (int token = 0; token < x.s.rows; token++) {
    bool last = token == x.s.rows - 1 || token == r->s->token;
    if (x.s.rows > FOLLOWED && !last) continue;
    x.q.token = token;
    x.q.way = "argmax";
    keep(r, "flow", &x.q);
    x.q.way = "rollout";
    keep(r, "flow", &x.q);
  }
}

static void keep_states(recording *r, subject x) {
  if (x.q.head.at.role == ATTEND_CROSS || !fits_one_call(&x)) return;
  for (int i = 0; i <= x.s.layers; i++) {
    x.q.head.at.layer = i;
    keep(r, "embeddings", &x.q);
  }
}

/* The case under one more form, in each head by itself. */
static void keep_form(recording *r, subject x, const char *form) {
  size_t before = r->spent;
  if (r->on_forms + (size_t)head_count(&x) * head_bytes(&x) > FORM_BYTES) return;
  x.q.head.form = form;
  keep(r, "compare", &x.q);
  for (int i = 0; i < head_count(&x); i++) {
    choose_head(&x, i);
    keep(r, "block", &x.q);
  }
  r->on_forms += r->spent - before;
}

/* Beside the run of this id, if it is still there. */
static void keep_other(recording *r, subject x, const char *id) {
  x.q.other = attend_viewer_find(r->v->session, id);
  if (x.q.other) keep(r, "compare", &x.q);
}

/* Heads by the words that both runs read. */
static void keep_words(recording *r, subject x, attend_head_id chosen) {
  bool all = r->spent + (size_t)head_count(&x) * head_bytes(&x) < r->max;
  for (int i = 0; i < head_count(&x); i++) {
    choose_head(&x, i);
    bool is_it = x.q.head.at.layer == chosen.layer && x.q.head.at.head == chosen.head;
    if (all || is_it) keep(r, "words", &x.q);
  }
}

/* The words of this text in the other, and cosines of all tokens of both. */
static void keep_two_texts(recording *r, subject x) {
  const view_state *s = r->s;
  const attend_viewer_side *o = &x.q.other->side[x.q.side == ATTEND_DECODER_SELF];
  x.q.other_token = -1;
  for (x.q.token = -1; x.q.token < x.s.rows && x.q.token < FOLLOWED; x.q.token++)
    keep(r, "word", &x.q);
  x.q.token = s->token, x.q.other_token = s->other_token;
  if (s->other_token >= 0) keep(r, "word", &x.q);
  x.q.range.keys = o->n;
  if (!o->n || (int64_t)x.s.rows * o->n > ATTEND_VIEWER_CELLS) return;
  for (int i = 0; i <= x.s.layers; i++) {
    x.q.head.at.layer = i;
    keep(r, "embeddings", &x.q);
  }
}

/* Another model, or another text. */
static void keep_beside(recording *r, subject x) {
  x.q.other = attend_viewer_find(r->v->session, r->other);
  if (!x.q.other) return;
  keep(r, "beside", &x.q);
  if (x.q.head.at.role == ATTEND_CROSS) return;
  attend_viewer_head own = x.q.head;
  own.at.layer = r->s->layer < 0 ? 0 : r->s->layer;
  own.at.head = r->s->head < 0 ? 0 : r->s->head;
  attend_viewer_head second = view_head_beside(r->s, own, x.q.other);
  subject y = x;
  y.s = second.run->shape[second.at.role];
  y.q.head = second, y.q.other = own.run;
  keep_words(r, x, own.at);
  keep_words(r, y, second.at);
  keep_two_texts(r, x);
}

static void keep_comparison(recording *r, const subject *x) {
  const char *given = r->s->form;
  if (*r->other) keep_other(r, *x, r->other);
  if (*r->other) keep_beside(r, *x);
  if (*given) keep_form(r, *x, given);
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
    if (strcmp(forms[i], given)) keep_form(r, *x, forms[i]);
}

static void keep_run(recording *r, const attend_viewer_run *run, bool first) {
  subject x;
  for (int i = 0; next_role(run, &i, &x);) {
    keep(r, "thumbs", &x.q);
    keep(r, "patterns", &x.q);
    keep_heads(r, x);
    keep_flow(r, x);
    keep_states(r, x);
    if (first) keep_comparison(r, &x);
  }
}

/* ---- predictions ----------------------------------------------------------------------- */

enum { SMALL = 1 << 23, POSITIONS_KEPT = 48 };

/* Whether a hundred forward and backward passes take seconds. */
static bool is_small(const recording *r, const attend_viewer_run *run) {
  const attend_config *c = attend_viewer_get_model(r->v->session, run->c.model)->config;
  double size = 0;
  for (int i = 0; i < 2; i++) {
    const attend_stack *s = attend_config_stack(c, i ? ATTEND_DECODER : ATTEND_ENCODER);
    size += 12.0 * s->layers * s->width * s->width +
            (double)s->width * attend_config_get(c, ATTEND_CONFIG_VOCAB);
  }
  return size <= SMALL;
}

static bool is_view(const recording *r, const char *view) { return !strcmp(r->s->view, view); }

/* By all methods where they are quick, otherwise by the one that is viewed. */
static void keep_attributions(recording *r, view_query q, bool small) {
  static const char *const methods[] = {"gradient", "integrated", "attention", "direct"};
  const attend_head_id at = q.head.at;
  q.head.run = q.before;
  for (int i = 0; i < 4; i++) {
    bool chosen = is_view(r, "attribute") && !strcmp(r->s->method, methods[i]);
    bool attention = i == ATTEND_VIEWER_BY_ATTENTION;
    if (!small && !chosen) continue;
    q.method = (attend_viewer_method)i;
    q.head.at = (attend_head_id){at.role, attention ? at.layer : 0, attention ? at.head : 0};
    keep(r, "attribute", &q);
  }
}

static void keep_lens(recording *r, view_query q) {
  const int n = q.head.run->side[q.side == ATTEND_DECODER_SELF].n;
  int position = q.target.position;
  if (attend_viewer_get_position(r->v->session, q.head.run, &position)) return;
  q.range = view_lens_range(n, position);
  q.top = VIEW_LENS_TOP;
  keep(r, "lens", &q);
}

static void keep_effects(recording *r, view_query q) {
  const int n = q.head.run->side[q.side == ATTEND_DECODER_SELF].real;
  keep(r, "effect", &q);
  for (int i = 0; i < n && n <= POSITIONS_KEPT; i++) {
    q.target = (attend_target){i, -1, -1};
    if (i != r->s->token) keep(r, "effect", &q);
  }
  q.target.position = -1;
  if (r->s->token >= 0) keep(r, "effect", &q);
}

/* A prediction of a run, beside the run without its changes. */
static void keep_prediction(recording *r, const attend_viewer_run *run,
                            const attend_viewer_run *before) {
  const bool small = is_small(r, run);
  const bool seen = is_view(r, "intervene") || is_view(r, "attribute");
  attend_viewer_effect e;
  subject x;
  int first = 0;
  if ((!small && !seen) || !next_role(run, &first, &x)) return;
  view_query q = x.q;
  q.before = before;
  q.target = view_target(r->s);
  q.top = VIEW_TOP;
  q.side = run->side[1].n ? ATTEND_DECODER_SELF : ATTEND_ENCODER_SELF;
  if (attend_viewer_get_effect(r->v->session, run, before, &q.target, 1, &e)) return;
  attend_viewer_release(r->v->session, e.memory);
  keep_effects(r, q);
  q.sweep = view_sweep(r->s, q.head.at.role, e.has_head);
  if (small || r->s->sweep) {
    view_query places = q;
    places.head.run = before;
    keep(r, "sweep", &places);
  }
  if (!e.has_head) return;
  keep_attributions(r, q, small);
  if (small || !strcmp(r->s->method, "lens")) keep_lens(r, q);
}

/* The run of a case, and that without its changes: the one may evict the other. */
static void keep_case_prediction(recording *r, const attend_viewer_case *c) {
  const attend_viewer_run *run, *before;
  attend_viewer_case plain = *c;
  char id[sizeof run->id];
  plain.changes = plain.from = NULL;
  if (!viewer_run(r->v, c, 0, &run, r->error)) return;
  memcpy(id, run->id, sizeof id);
  if (!viewer_run(r->v, &plain, 0, &before, r->error)) return;
  run = attend_viewer_find(r->v->session, id);
  if (run) keep_prediction(r, run, before);
}

/* Learned positions are those of a step. */
static void keep_positions(recording *r) {
  const attend_viewer_model *m;
  for (int i = 0; (m = attend_viewer_get_model(r->v->session, i)); i++) {
    view_query q = {.count = POSITIONS, .width = POSITIONS, .model = i, .step = -1};
    bool each = m->has_steps &&
                attend_config_get(m->config, ATTEND_CONFIG_POSITION) == ATTEND_POSITIONS_LEARNED;
    for (int k = 0; k < (each ? r->n_kept : 1); k++) {
      if (each) q.step = r->kept[k];
      keep(r, "positions", &q);
    }
  }
}

/* ---- steps of a training run ----------------------------------------------------------- */

/* About what the answers about one step take, and those about its continuation by so
 * many tokens. */
static size_t step_bytes(const attend_viewer_run *run, size_t more) {
  subject x;
  size_t bytes = 0;
  for (int i = 0; next_role(run, &i, &x);) {
    size_t heads = (size_t)head_count(&x), n = (size_t)x.s.rows;
    size_t followed = n < FOLLOWED ? n : 2, written = n + more;
    bytes += heads * (head_bytes(&x) + vector_bytes(&x) + THUMB * THUMB) +
             (size_t)(x.s.layers + 1) * n * (followed * 30 + n * sizeof(float));
    bytes += PREDICTION + n * PREDICTED;
    if (more) bytes += heads * written * written * sizeof(float) + 1000 * more;
  }
  return bytes;
}

static int by_number(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

/* As many as there is space for, with the one that was asked for among them. */
static void choose_steps(recording *r, const attend_training_run *run, size_t each) {
  int count;
  const int *steps = attend_training_run_steps(run, &count);
  size_t rest = r->max > r->spent ? r->max - r->spent : 0;
  size_t n = 1 + rest / (each ? each : 1);
  int *kept = calloc((size_t)count, sizeof *kept);
  int at = attend_training_run_find(run, r->s->c.step), nearest = 0;
  if (!kept) {
    r->answers.status = ATTEND_NO_MEMORY;
    return;
  }
  r->n_kept = view_spread(count, n < (size_t)count ? (int)n : count, kept);
  for (int i = 0; i < r->n_kept; i++)
    if (abs(kept[i] - at) < abs(kept[nearest] - at)) nearest = i;
  kept[nearest] = at;
  qsort(kept, (size_t)r->n_kept, sizeof *kept, by_number);
  for (int i = 0; i < r->n_kept; i++) kept[i] = steps[kept[i]];
  r->kept = kept;
}

static void put_run(recording *r, const attend_viewer_run *run) {
  json_member(&r->runs, run->id);
  write_run(&r->runs, r->v, run);
}

/* Blocks alone: the view generate shows no more. */
static void keep_generated(recording *r, const attend_viewer_case *c) {
  const attend_viewer_run *run;
  subject x;
  if (!viewer_run(r->v, c, r->new_tokens, &run, r->error)) return;
  put_run(r, run);
  for (int i = 0; next_role(run, &i, &x);)
    for (int k = 0; k < head_count(&x) && fits_one_call(&x); k++) {
      choose_head(&x, k);
      keep(r, "block", &x.q);
    }
}

/* A step is run, recorded and dropped before the next. The first stays: the others
 * are compared with it. */
static void keep_step(recording *r, int step, bool generates) {
  attend_viewer_case c = r->s->c;
  const attend_viewer_run *run;
  subject x;
  bool own = step == c.step;
  c.step = step;
  if (!viewer_run(r->v, &c, 0, &run, r->error)) return;
  if (!*r->first) memcpy(r->first, run->id, sizeof r->first);
  if (strcmp(r->first, run->id))
    for (int i = 0; next_role(run, &i, &x);) keep_other(r, x, r->first);
  if (own) return;
  put_run(r, run);
  keep_run(r, run, false);
  keep_case_prediction(r, &c);
  if (generates) keep_generated(r, &c);
}

/* Whether the model generates. */
static bool writes(const recording *r) {
  const attend_viewer_model *m = attend_viewer_get_model(r->v->session, 0);
  return attend_config_parts(m->config) & ATTEND_DECODER && !m->run;
}

static void keep_training(recording *r) {
  const attend_viewer_case *own = &r->s->c;
  const attend_training_run *of = viewer_training(r->v, own->model);
  int count;
  const attend_viewer_run *run;
  if (!of || !viewer_run(r->v, own, 0, &run, r->error)) return;
  attend_training_run_steps(of, &count);
  r->max = VIEW_STILL_BYTES;
  size_t rest = r->max > r->spent ? r->max - r->spent : 0;
  size_t whole = step_bytes(run, (size_t)r->new_tokens);
  bool generates = writes(r) && whole * (size_t)count < rest;
  choose_steps(r, of, generates ? whole : step_bytes(run, 0));
  for (int i = 0; i < r->n_kept; i++) {
    report(r, (double)i / r->n_kept, "recording steps");
    keep_step(r, r->kept[i], generates);
  }
  r->v->kept = r->kept;
  r->v->n_kept = r->n_kept;
}

/* ---- the file -------------------------------------------------------------------------- */

/* The case, what it is compared with, and the case with its continuation. */
static bool record_runs(recording *r) {
  const view_state *s = r->s;
  const attend_viewer_run *run;
  if (!viewer_run(r->v, &s->c, 0, &run, r->error)) return false;
  put_run(r, run);
  if (run->c.changes) { /* what it is compared with */
    attend_viewer_case plain = s->c;
    plain.changes = plain.from = NULL;
    if (!viewer_run(r->v, &plain, 0, &run, r->error)) return false;
    put_run(r, run);
  }
  if (s->has_other) {
    if (!viewer_run(r->v, &s->other, 0, &run, r->error)) return false;
    memcpy(r->other, run->id, sizeof r->other);
    put_run(r, run);
  }
  if (!writes(r)) return true;
  if (!viewer_run(r->v, &s->c, r->new_tokens, &run, r->error)) return false;
  put_run(r, run);
  return true;
}

/* The answers about a case; it is run again where it made space for another. */
static void keep_case(recording *r, const attend_viewer_case *c, int new_tokens, bool first) {
  const attend_viewer_run *run;
  if (viewer_run(r->v, c, new_tokens, &run, r->error)) keep_run(r, run, first);
}

static void record(recording *r) {
  const view_state *s = r->s;
  keep_case(r, &s->c, 0, true);
  keep_case_prediction(r, &s->c);
  report(r, 1 / 3.0, "recording answers");
  if (s->has_other) keep_case(r, &s->other, 0, false);
  report(r, 2 / 3.0, "recording answers");
  if (writes(r)) keep_case(r, &s->c, r->new_tokens, false);
  keep_training(r);
  keep_positions(r);
}

/* hello says which steps are kept, so it comes after them. */
static attend_status write_all(recording *r, svg *all) {
  json_writer hello = json_writer_text(r->v->ctx);
  write_hello(&hello, r->v);
  json_close(&r->runs, '}');
  attend_status status = json_finish(&r->runs);
  if (!status) status = json_finish(&hello);
  if (!status) status = r->answers.status;
  if (!status) {
    svg_add(all, "{\"answers\": {");
    svg_put(all, r->answers.text, r->answers.length);
    svg_add(all, "}, \"hello\": %s, \"runs\": %s}", hello.text, r->runs.text);
    status = all->status;
  }
  json_writer_free(&hello);
  return status;
}

bool view_still(viewer *v, const view_state *s, int new_tokens,
                void (*key)(const view_route *route, const view_query *q, char *key,
                            size_t capacity),
                char **json, size_t *length, view_still_steps *steps, char error[VIEW_ERROR]) {
  recording r = {.v = v,
                 .s = s,
                 .new_tokens = new_tokens,
                 .key = key,
                 .runs = json_writer_text(v->ctx),
                 .max = MOST_BYTES,
                 .error = error};
  svg all = {0};
  json_open(&r.runs, '{');
  bool ok = record_runs(&r);
  if (ok) {
    record(&r);
    ok = !write_all(&r, &all);
    if (!ok) snprintf(error, VIEW_ERROR, "there is no memory for the page");
  }
  *steps = (view_still_steps){.kept = r.n_kept};
  if (v->training) attend_training_run_steps(v->training, &steps->steps);
  v->n_kept = 0;
  *json = all.text;
  *length = all.length;
  free(r.kept);
  svg_free(&r.answers);
  json_writer_free(&r.runs);
  return ok;
}
