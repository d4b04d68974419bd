/* attend view --out page.html: the page with its answers, in one file.
 *
 * Answers are written under the request that the page will make (viewer/README.md).
 *
 * Whole heads are kept where they fit; what does not fit is left to the live
 * page, which then says so. Forms to compare with are taken in the order of the
 * list for as long as there is room; of the steps of a training run as many as fit into
 * the rest, evenly.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attend/train.h"
#include "progress.h"
#include "view/view.h"
#include "view/subject.h"

#ifdef ATTEND_HAVE_PAGE
enum {
  MOST_BYTES = 24 << 20, /* of answers about heads */
  FORM_BYTES = 8 << 20,  /* of other forms */
  FOLLOWED = 96,         /* tokens that flow is kept for, each */
  THUMB = 48,
  POSITIONS = 64
};

static const char *const forms[] = {"favor(m=256)",  "favor(m=64)", "favor(m=16)",   "elu",
                                    "argmax",        "poly(p=2)",   "favor(m=1024)", "favor(m=512)",
                                    "favor(m=128)",  "favor(m=32)", "favor(m=8)",    "gaussian",
                                    "fourier(m=256)"};

typedef struct {
  viewer *v;
  const view_options *o;
  attend_json_writer w, runs; /* the answers so far; the runs */
  size_t spent, on_forms, most;
  char other[20];    /* the run that the case is compared with; "": none */
  int *kept, n_kept; /* steps of a training run */
  char first[20];    /* the run of the first of them */
  char error[SUBJECT_ERROR];
} recording;

/* ---- answers as they are kept ------------------------------------------------------- */

static void put_base64(attend_json_writer *w, const unsigned char *x, size_t n) {
  static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  char *text = need(4 * ((n + 2) / 3) + 1, 1), *to = text;
  for (size_t i = 0; i < n; i += 3) {
    unsigned a = x[i], b = i + 1 < n ? x[i + 1] : 0, c = i + 2 < n ? x[i + 2] : 0;
    unsigned bits = a << 16 | b << 8 | c;
    *to++ = digits[bits >> 18];
    *to++ = digits[bits >> 12 & 63];
    *to++ = i + 1 < n ? digits[bits >> 6 & 63] : '=';
    *to++ = i + 2 < n ? digits[bits & 63] : '=';
  }
  attend_json_put_bytes(w, text, (size_t)(to - text));
  free(text);
}

/* Writes the answer to a request, whose members are in the order of their names, and
 * frees its memory. What failed is not kept: the page says so. */
__attribute__((format(printf, 6, 7))) static void keep(recording *r, attend_status status,
                                                       encoded e, void *memory, const char *name,
                                                       const char *question, ...) {
  char key[512];
  int n = snprintf(key, sizeof key, "%s?", name);
  view_reply reply = {0};
  va_list list;
  va_start(list, question);
  vsnprintf(key + n, sizeof key - (size_t)n, question, list);
  va_end(list);
  if (!status) status = encoded_reply(r->v->ctx, &e, &reply);
  if (!status) {
    attend_json_member(&r->w, key);
    attend_json_open(&r->w, '{');
    json_text(&r->w, "type", e.n_parts ? "binary" : "json");
    attend_json_member(&r->w, "data");
    if (e.n_parts)
      put_base64(&r->w, reply.bytes, reply.length);
    else
      e.write(&r->w, &e);
    attend_json_close(&r->w, '}');
    r->spent += reply.length;
  }
  free(reply.bytes);
  attend_viewer_release(r->v->session, memory);
}

/* ---- what the page will ask ------------------------------------------------------------ */

#define PLACE                                                                 \
  "\"head\":%d,\"key\":0,\"keys\":%d,\"layer\":%d,\"role\":\"%s\",\"row\":0," \
  "\"rows\":%d,\"run\":\"%s\"}"
#define PLACE_OF(s) \
  (s)->head, (s)->s.keys, (s)->layer, attend_role_name((s)->role), (s)->s.rows, (s)->run->id

static void keep_head(recording *r, const subject *s, bool vectors) {
  attend_view_head h = subject_head(s, NULL);
  attend_view_block b;
  attend_view_vectors x;
  attend_status status = attend_viewer_block(r->v->session, &h, NULL, &b);
  keep(r, status, encode_block(&b), b.memory, "block", "{" PLACE, PLACE_OF(s));
  if (!vectors) return;
  status = attend_viewer_vectors(r->v->session, &h, NULL, &x);
  keep(r, status, encode_vectors(&x, s->run->c.attention), x.memory, "vectors", "{" PLACE,
       PLACE_OF(s));
}

static void keep_form_head(recording *r, const subject *s, const char *form) {
  attend_view_head h = subject_head(s, form);
  attend_view_block b;
  attend_status status = attend_viewer_block(r->v->session, &h, NULL, &b);
  keep(r, status, encode_block(&b), b.memory, "block", "{\"attention\":\"%s\"," PLACE, form,
       PLACE_OF(s));
}

static size_t head_bytes(const subject *s) {
  return (size_t)s->s.rows * (size_t)s->s.keys * sizeof(float);
}

static size_t vector_bytes(const subject *s) {
  size_t numbers = (size_t)(s->s.dim + s->s.dim_v);
  return head_bytes(s) + (size_t)(s->s.rows + s->s.keys) * numbers * sizeof(float);
}

static bool is_chosen(const recording *r, const subject *s) {
  const view_state *state = &r->o->state;
  return s->layer == (state->layer < 0 ? 0 : state->layer) &&
         s->head == (state->head < 0 ? 0 : state->head);
}

static void keep_heads(recording *r, subject *s) {
  size_t heads = (size_t)(s->s.layers * s->s.heads);
  bool blocks = r->spent + heads * head_bytes(s) < r->most;
  bool vectors = r->spent + heads * (head_bytes(s) + vector_bytes(s)) < r->most;
  if (head_bytes(s) > ATTEND_VIEW_CELLS * sizeof(float)) return;
  for (size_t i = 0; i < heads; i++) {
    s->layer = (int)i / s->s.heads;
    s->head = (int)i % s->s.heads;
    bool chosen = is_chosen(r, s);
    if (blocks || chosen) keep_head(r, s, vectors || chosen);
  }
}

static void keep_role(recording *r, const subject *s) {
  const char *role = attend_role_name(s->role);
  attend_view_head h = subject_head(s, NULL);
  attend_view_thumbs t;
  attend_view_patterns p;
  attend_status status = attend_viewer_thumbs(r->v->session, &h, THUMB, &t);
  keep(r, status, encode_thumbs(&t), t.memory, "thumbs",
       "{\"role\":\"%s\",\"run\":\"%s\",\"size\":%d}", role, s->run->id, THUMB);
  status = attend_viewer_patterns(r->v->session, &h, &p);
  keep(r, status, encode_patterns(&p), p.memory, "patterns", "{\"role\":\"%s\",\"run\":\"%s\"}",
       role, s->run->id);
}

static void keep_token(recording *r, const subject *s, int token) {
  static const char form[] = "{\"role\":\"%s\",\"run\":\"%s\",\"token\":%d,\"way\":\"%s\"}";
  const char *role = attend_role_name(s->role);
  attend_view_head h = subject_head(s, NULL);
  attend_view_reach reach;
  attend_view_rollout rollout;
  attend_status status = attend_viewer_reach(r->v->session, &h, token, &reach);
  keep(r, status, encode_reach(&reach), reach.memory, "flow", form, role, s->run->id, token,
       "argmax");
  status = attend_viewer_rollout(r->v->session, &h, token, &rollout);
  keep(r, status, encode_rollout(&rollout), rollout.memory, "flow", form, role, s->run->id, token,
       "rollout");
}

static void keep_flow(recording *r, const subject *s) {
  if (s->role == ATTEND_CROSS) return;
  for (int token = 0; token < s->s.rows; token++) {
    bool last = token == s->s.rows - 1 || token == r->o->state.token;
    if (s->s.rows <= FOLLOWED || last) keep_token(r, s, token);
  }
}

static void keep_states(recording *r, const subject *s) {
  attend_view_embeddings x;
  if (s->role == ATTEND_CROSS || head_bytes(s) > ATTEND_VIEW_CELLS * sizeof(float)) return;
  for (int i = 0; i <= s->s.layers; i++) {
    attend_status status = attend_viewer_embeddings(r->v->session, s->run, s->role, i, NULL, &x);
    keep(r, status, encode_embeddings(&x), x.memory, "embeddings",
         "{\"key\":0,\"keys\":%d,\"layer\":%d,\"row\":0,\"rows\":%d,"
         "\"run\":\"%s\",\"side\":\"%s\"}",
         s->s.rows, i, s->s.rows, s->run->id, attend_role_name(s->role));
  }
}

/* The case under one more form, in each head by itself. */
static void keep_form(recording *r, subject *s, const char *form) {
  size_t heads = (size_t)(s->s.layers * s->s.heads), before = r->spent;
  attend_view_head h = subject_head(s, form);
  attend_view_comparison c;
  if (r->on_forms + heads * head_bytes(s) > FORM_BYTES) return;
  attend_status status = attend_viewer_compare(r->v->session, &h, NULL, &c);
  keep(r, status, encode_comparison(&c), c.memory, "compare",
       "{\"attention\":\"%s\",\"role\":\"%s\",\"run\":\"%s\"}", form, attend_role_name(s->role),
       s->run->id);
  for (size_t i = 0; i < heads; i++) {
    s->layer = (int)i / s->s.heads;
    s->head = (int)i % s->s.heads;
    keep_form_head(r, s, form);
  }
  r->on_forms += r->spent - before;
}

/* Beside the run of this id, if it is still there. */
static void keep_other(recording *r, const subject *s, const char *id) {
  const attend_view_run *other = attend_viewer_find(r->v->session, id);
  attend_view_head h = subject_head(s, NULL);
  attend_view_comparison c;
  if (!other) return;
  attend_status status = attend_viewer_compare(r->v->session, &h, other, &c);
  keep(r, status, encode_comparison(&c), c.memory, "compare",
       "{\"other\":\"%s\",\"role\":\"%s\",\"run\":\"%s\"}", id, attend_role_name(s->role),
       s->run->id);
}

static void keep_comparison(recording *r, subject *s) {
  const char *given = r->o->state.form;
  if (*r->other) keep_other(r, s, r->other);
  if (*given) keep_form(r, s, given);
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
    if (strcmp(forms[i], given)) keep_form(r, s, forms[i]);
}

/* The next role of a run, from i on; false past the last. */
static bool next_role(const attend_view_run *run, int *i, subject *s) {
  while (*i < ATTEND_ROLES && !run->has_role[*i]) ++*i;
  if (*i == ATTEND_ROLES) return false;
  *s = (subject){run, (attend_role)*i, run->shape[*i], 0, 0};
  ++*i;
  return true;
}

static void keep_run(recording *r, const attend_view_run *run, bool first) {
  subject s;
  for (int i = 0; next_role(run, &i, &s);) {
    keep_role(r, &s);
    keep_heads(r, &s);
    keep_flow(r, &s);
    keep_states(r, &s);
    if (first) keep_comparison(r, &s);
  }
}

static void keep_table(recording *r, int model, int step) {
  attend_view_positions p;
  char text[32] = "";
  if (step >= 0) snprintf(text, sizeof text, "\"step\":%d,", step);
  attend_status status =
      attend_viewer_positions(r->v->session, model, step, POSITIONS, POSITIONS, &p);
  keep(r, status, encode_positions(&p), p.memory, "positions",
       "{\"count\":%d,\"model\":\"%d\",%s\"width\":%d}", POSITIONS, model, text, POSITIONS);
}

/* Learned positions are those of a step. */
static void keep_positions(recording *r) {
  const attend_view_model *m;
  for (int i = 0; (m = attend_viewer_model(r->v->session, i)); i++) {
    bool each = m->has_steps &&
                attend_config_get(m->config, ATTEND_CONFIG_POSITION) == ATTEND_POSITIONS_LEARNED;
    for (int k = 0; k < (each ? r->n_kept : 1); k++) keep_table(r, i, each ? r->kept[k] : -1);
  }
}

/* ---- steps of a training run ----------------------------------------------------------- */

/* About what the answers about one step take, and those about its continuation by so
 * many tokens. */
static size_t step_bytes(const attend_view_run *run, size_t more) {
  subject s;
  size_t bytes = 0;
  for (int i = 0; next_role(run, &i, &s);) {
    size_t heads = (size_t)(s.s.layers * s.s.heads), n = (size_t)s.s.rows;
    size_t followed = n < FOLLOWED ? n : 2, written = n + more;
    bytes += heads * (head_bytes(&s) + vector_bytes(&s) + THUMB * THUMB) +
             (size_t)(s.s.layers + 1) * n * (followed * 30 + n * sizeof(float));
    if (more) bytes += heads * written * written * sizeof(float) + 1000 * more;
  }
  return bytes;
}

static int by_number(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

/* As many as there is room for, with the one that was asked for among them. */
static void choose_steps(recording *r, const attend_training_run *run, size_t each) {
  int count;
  const int *steps = attend_training_run_steps(run, &count);
  size_t rest = r->most > r->spent ? r->most - r->spent : 0;
  size_t n = 1 + rest / (each ? each : 1);
  int *places = need((size_t)count, sizeof *places);
  int at = attend_training_run_find(run, r->o->state.c.step), nearest = 0;
  r->n_kept = training_some(run, n < (size_t)count ? (int)n : count, places);
  for (int i = 0; i < r->n_kept; i++)
    if (abs(places[i] - at) < abs(places[nearest] - at)) nearest = i;
  places[nearest] = at;
  qsort(places, (size_t)r->n_kept, sizeof *places, by_number);
  r->kept = need((size_t)r->n_kept, sizeof *r->kept);
  for (int i = 0; i < r->n_kept; i++) r->kept[i] = steps[places[i]];
  free(places);
}

static void put_run(recording *r, const attend_view_run *run) {
  encoded e = encode_run(r->v, run);
  attend_json_member(&r->runs, run->id);
  encoded_write(&r->runs, &e);
}

/* Blocks alone: the view generate shows no more. */
static void keep_generated(recording *r, const view_case *c) {
  const attend_view_run *run;
  subject s;
  if (!run_generated(r->v, c, r->o->new_tokens, &run, r->error)) return;
  put_run(r, run);
  for (int i = 0; next_role(run, &i, &s);)
    for (int k = 0; k < s.s.layers * s.s.heads; k++) {
      s.layer = k / s.s.heads;
      s.head = k % s.s.heads;
      if (head_bytes(&s) <= ATTEND_VIEW_CELLS * sizeof(float)) keep_head(r, &s, false);
    }
}

static void keep_beside_first(recording *r, const attend_view_run *run) {
  subject s;
  if (!strcmp(r->first, run->id)) return;
  for (int i = 0; next_role(run, &i, &s);) keep_other(r, &s, r->first);
}

/* A step is run, recorded and dropped before the next. The first stays: the others
 * are compared with it. */
static void keep_step(recording *r, int step, bool generates) {
  view_case c = r->o->state.c;
  const attend_view_run *run;
  bool own = step == c.step;
  c.step = step;
  if (!run_case(r->v, &c, &run, r->error)) return;
  if (!*r->first) memcpy(r->first, run->id, sizeof r->first);
  keep_beside_first(r, run);
  if (own) return;
  put_run(r, run);
  keep_run(r, run, false);
  if (generates) keep_generated(r, &c);
}

static void keep_training(recording *r) {
  const view_case *own = &r->o->state.c;
  const attend_training_run *c = viewer_training(r->v, own->model);
  int count;
  const attend_view_run *run;
  if (!c || !run_case(r->v, own, &run, r->error)) return;
  attend_training_run_steps(c, &count);
  const attend_config *config = attend_viewer_model(r->v->session, 0)->config;
  r->most = MOST_BYTES + FORM_BYTES;
  size_t rest = r->most > r->spent ? r->most - r->spent : 0;
  size_t whole = step_bytes(run, (size_t)r->o->new_tokens);
  bool generates = attend_config_parts(config) & ATTEND_DECODER && whole * (size_t)count < rest;
  choose_steps(r, c, generates ? whole : step_bytes(run, 0));
  progress_start("recording steps", (size_t)r->n_kept);
  for (int i = 0; i < r->n_kept; i++) {
    progress_step((size_t)i, "steps");
    keep_step(r, r->kept[i], generates);
  }
  progress_end();
  r->v->kept = r->kept;
  r->v->n_kept = r->n_kept;
  if (r->n_kept < count)
    fprintf(stderr,
            "attend: of %d steps %d are in the page: more would take over "
            "%d MB\n",
            count, r->n_kept, (MOST_BYTES + FORM_BYTES) >> 20);
}

/* ---- the file -------------------------------------------------------------------------- */

/* The case, what it is compared with, and the case with its continuation. */
static bool record_runs(recording *r) {
  const view_state *s = &r->o->state;
  const attend_config *config = attend_viewer_model(r->v->session, 0)->config;
  const attend_view_run *run;
  if (!run_case(r->v, &s->c, &run, r->error)) return false;
  put_run(r, run);
  if (s->has_other) {
    if (!run_case(r->v, &s->other, &run, r->error)) return false;
    memcpy(r->other, run->id, sizeof r->other);
    put_run(r, run);
  }
  if (!(attend_config_parts(config) & ATTEND_DECODER)) return true;
  if (!run_generated(r->v, &s->c, r->o->new_tokens, &run, r->error)) return false;
  put_run(r, run);
  return true;
}

/* The answers about a case; it is run again where it made room for another. */
static void keep_case(recording *r, const view_case *c, int new_tokens, bool first) {
  const attend_view_run *run;
  if (new_tokens ? run_generated(r->v, c, new_tokens, &run, r->error)
                 : run_case(r->v, c, &run, r->error))
    keep_run(r, run, first);
}

static void record(recording *r) {
  const view_state *s = &r->o->state;
  const attend_config *config = attend_viewer_model(r->v->session, 0)->config;
  progress_start("recording answers", 3);
  keep_case(r, &s->c, 0, true);
  progress_step(1, "heads");
  if (s->has_other) keep_case(r, &s->other, 0, false);
  progress_step(2, "heads");
  if (attend_config_parts(config) & ATTEND_DECODER) keep_case(r, &s->c, r->o->new_tokens, false);
  progress_end();
  keep_training(r);
  keep_positions(r);
}

/* hello says which steps are kept, so it comes after them. */
static int write_still(recording *r) {
  attend_json_writer hello = attend_json_writer_text(r->v->ctx);
  encoded e = encode_hello(r->v);
  encoded_write(&hello, &e);
  attend_json_close(&r->w, '}');
  attend_json_close(&r->runs, '}');
  attend_status status = attend_json_finish(&r->w);
  if (!status) status = attend_json_finish(&r->runs);
  if (!status) status = attend_json_finish(&hello);
  int code = EXIT_OK;
  if (status) {
    code = complain_status(r->v->ctx, status);
  } else {
    static const char form[] = "{\"answers\": %s, \"hello\": %s, \"runs\": %s}";
    size_t room = sizeof form + r->w.length + hello.length + r->runs.length;
    char *text = need(room, 1);
    int n = snprintf(text, room, form, r->w.text, hello.text, r->runs.text);
    code = view_write_page(r->v->ctx, r->o->out, "still", text, (size_t)n);
    free(text);
  }
  attend_json_writer_free(&hello);
  return code;
}

int view_write_still(viewer *v, const view_options *o) {
  recording r = {.v = v,
                 .o = o,
                 .w = attend_json_writer_text(v->ctx),
                 .runs = attend_json_writer_text(v->ctx),
                 .most = MOST_BYTES};
  int code = EXIT_FAILED;
  attend_json_open(&r.w, '{');
  attend_json_open(&r.runs, '{');
  if (record_runs(&r)) {
    record(&r);
    code = write_still(&r);
  } else {
    complain("%s", r.error);
  }
  v->n_kept = 0;
  free(r.kept);
  attend_json_writer_free(&r.w);
  attend_json_writer_free(&r.runs);
  return code;
}
#else
int view_write_still(viewer *v, const view_options *o) {
  (void)v;
  (void)o;
  complain("this build has no page: build with ATTEND_VIEW on");
  return EXIT_FAILED;
}
#endif
