/* attend view --out page.html: the page with its answers, in one file.
 *
 * Asks the viewer what the page will ask, and writes page and answers together.
 * viewer/README.md says how a still page finds them.
 *
 * Whole heads are kept where they fit; what does not fit is left to the live
 * page, which then says so. Forms to compare with are taken in the order of the
 * list for as long as there is room; of the steps of a course as many as fit into
 * the rest, evenly.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "train/course.h"
#include "progress.h"
#include "view/view.h"
#include "view/fetch.h"

#ifdef ATTEND_HAVE_PAGE
enum {
  MOST_BYTES = 24 << 20, /* of answers about heads */
  FORM_BYTES = 8 << 20,  /* of other forms */
  FOLLOWED = 96,         /* tokens that flow is kept for, each */
  THUMB = 48,
  POSITIONS = 64
};

static const char *const forms[] = {
    "favor(m=256)",  "favor(m=64)", "favor(m=16)",   "elu",
    "argmax",        "poly(p=2)",   "favor(m=1024)", "favor(m=512)",
    "favor(m=128)",  "favor(m=32)", "favor(m=8)",    "gaussian",
    "fourier(m=256)"};

typedef struct {
  viewer *v;
  const view_options *o;
  attend_json_writer w; /* the answers so far */
  size_t spent, on_forms, most;
  fetched *runs; /* the case's, the other's, the one with what is written; then
                    those of other steps, each with what it writes */
  int n_runs;
  int *kept, n_kept; /* steps of a course */
  char first[20];    /* the run of the first of them */
  char error[640];
} recording;

/* ---- answers as they are kept ------------------------------------------------------- */

static void put_base64(attend_json_writer *w, const unsigned char *x,
                       size_t n) {
  static const char digits[] =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  char *text = need(4 * ((n + 2) / 3) + 1, 1), *to = text;
  for (size_t i = 0; i < n; i += 3) {
    unsigned a = x[i], b = i + 1 < n ? x[i + 1] : 0,
             c = i + 2 < n ? x[i + 2] : 0;
    unsigned bits = a << 16 | b << 8 | c;
    *to++ = digits[bits >> 18];
    *to++ = digits[bits >> 12 & 63];
    *to++ = i + 1 < n ? digits[bits >> 6 & 63] : '=';
    *to++ = i + 2 < n ? digits[bits & 63] : '=';
  }
  attend_json_put_bytes(w, text, (size_t)(to - text));
  free(text);
}

static void put_kept(recording *r, const char *key, const fetched *f) {
  attend_json_member(&r->w, key);
  attend_json_open(&r->w, '{');
  attend_json_member(&r->w, "type");
  attend_json_put_string(&r->w, f->data ? "binary" : "json");
  attend_json_member(&r->w, "data");
  if (f->data)
    put_base64(&r->w, f->reply.bytes, f->reply.length);
  else
    json_tree(&r->w, f->root);
  attend_json_close(&r->w, '}');
  r->spent += f->reply.length;
}

/* Asks a question whose members are in the order of their names, and keeps the
 * answer under it. What is refused is not kept: the page will say so. */
static void keep(recording *r, const char *name, const char *question) {
  fetched f = {0};
  char key[512];
  snprintf(key, sizeof key, "%s?%s", name, question);
  view_answer_here(r->v, name, question, strlen(question), NULL, &f.reply);
  if (f.reply.status == 200 && fetched_read(r->v, &f)) put_kept(r, key, &f);
  fetched_free(&f);
}

/* ---- what the page will ask ------------------------------------------------------------ */

static void keep_head(recording *r, const subject *s, bool vectors) {
  char q[400];
  snprintf(q, sizeof q,
           "{\"head\":%d,\"key\":0,\"keys\":%d,\"layer\":%d,\"role\":\"%s\","
           "\"row\":0,\"rows\":%d,\"run\":\"%s\"}",
           s->head, s->keys, s->layer, s->role_name, s->rows, s->id);
  keep(r, "block", q);
  if (vectors) keep(r, "vectors", q);
}

static void keep_form_head(recording *r, const subject *s, const char *form) {
  char q[400];
  snprintf(q, sizeof q,
           "{\"attention\":\"%s\",\"head\":%d,\"key\":0,\"keys\":%d,"
           "\"layer\":%d,\"role\":\"%s\",\"row\":0,\"rows\":%d,\"run\":\"%s\"}",
           form, s->head, s->keys, s->layer, s->role_name, s->rows, s->id);
  keep(r, "block", q);
}

static size_t head_bytes(const subject *s) {
  return (size_t)s->rows * (size_t)s->keys * sizeof(float);
}

static size_t vector_bytes(const subject *s) {
  size_t dim = (size_t)attend_json_number(attend_json_get(s->role, "dim"), 0);
  size_t wide =
      (size_t)attend_json_number(attend_json_get(s->role, "dim_v"), 0);
  return head_bytes(s) +
         (size_t)(s->rows + s->keys) * (dim + wide) * sizeof(float);
}

static bool is_chosen(const recording *r, const subject *s) {
  const view_state *state = &r->o->state;
  return s->layer == (state->layer < 0 ? 0 : state->layer) &&
         s->head == (state->head < 0 ? 0 : state->head);
}

static void keep_heads(recording *r, subject *s) {
  size_t heads = (size_t)(s->layers * s->heads);
  bool blocks = r->spent + heads * head_bytes(s) < r->most;
  bool vectors = r->spent + heads * (head_bytes(s) + vector_bytes(s)) < r->most;
  if (head_bytes(s) > VIEW_CELLS * sizeof(float)) return;
  for (size_t i = 0; i < heads; i++) {
    s->layer = (int)i / s->heads;
    s->head = (int)i % s->heads;
    bool chosen = is_chosen(r, s);
    if (blocks || chosen) keep_head(r, s, vectors || chosen);
  }
}

static void keep_role(recording *r, const subject *s) {
  char q[256];
  snprintf(q, sizeof q, "{\"role\":\"%s\",\"run\":\"%s\",\"size\":%d}",
           s->role_name, s->id, THUMB);
  keep(r, "thumbs", q);
  snprintf(q, sizeof q, "{\"role\":\"%s\",\"run\":\"%s\"}", s->role_name,
           s->id);
  keep(r, "patterns", q);
}

static void keep_flow(recording *r, const subject *s) {
  static const char *const ways[] = {"argmax", "rollout"};
  char q[256];
  if (!strcmp(s->role_name, "cross")) return;
  for (int token = 0; token < s->rows; token++)
    for (int i = 0; i < 2; i++) {
      bool last = token == s->rows - 1 || token == r->o->state.token;
      if (s->rows > FOLLOWED && !last) continue;
      snprintf(q, sizeof q,
               "{\"role\":\"%s\",\"run\":\"%s\",\"token\":%d,\"way\":\"%s\"}",
               s->role_name, s->id, token, ways[i]);
      keep(r, "flow", q);
    }
}

static void keep_states(recording *r, const subject *s) {
  char q[256];
  if (!strcmp(s->role_name, "cross") ||
      head_bytes(s) > VIEW_CELLS * sizeof(float))
    return;
  for (int i = 0; i <= s->layers; i++) {
    snprintf(q, sizeof q,
             "{\"key\":0,\"keys\":%d,\"layer\":%d,\"row\":0,\"rows\":%d,"
             "\"run\":\"%s\",\"side\":\"%s\"}",
             s->rows, i, s->rows, s->id, s->role_name);
    keep(r, "embeddings", q);
  }
}

/* The case under one more form, in each head by itself. */
static void keep_form(recording *r, subject *s, const char *form) {
  char q[400];
  size_t heads = (size_t)(s->layers * s->heads), before = r->spent;
  if (r->on_forms + heads * head_bytes(s) > FORM_BYTES) return;
  snprintf(q, sizeof q, "{\"attention\":\"%s\",\"role\":\"%s\",\"run\":\"%s\"}",
           form, s->role_name, s->id);
  keep(r, "compare", q);
  for (size_t i = 0; i < heads; i++) {
    s->layer = (int)i / s->heads;
    s->head = (int)i % s->heads;
    keep_form_head(r, s, form);
  }
  r->on_forms += r->spent - before;
}

static void keep_comparison(recording *r, subject *s) {
  char q[400];
  if (r->o->state.has_other) {
    const char *other =
        attend_json_string(attend_json_get(r->runs[1].root, "run"), NULL);
    snprintf(q, sizeof q, "{\"other\":\"%s\",\"role\":\"%s\",\"run\":\"%s\"}",
             other, s->role_name, s->id);
    keep(r, "compare", q);
  }
  if (*r->o->state.form) keep_form(r, s, r->o->state.form);
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
    if (strcmp(forms[i], r->o->state.form)) keep_form(r, s, forms[i]);
}

/* The role i of a run; false past the last. */
static bool role_of(recording *r, const fetched *run, size_t i, subject *s) {
  const attend_json *roles = attend_json_get(run->root, "roles");
  view_state state = state_defaults();
  if (i >= attend_json_count(roles)) return false;
  snprintf(state.role, sizeof state.role, "%s",
           attend_json_string(attend_json_get(attend_json_at(roles, i), "role"),
                              NULL));
  return subject_read(run, &state, s, r->error);
}

static void keep_run(recording *r, const fetched *run, bool first) {
  subject s;
  for (size_t i = 0; role_of(r, run, i, &s); i++) {
    keep_role(r, &s);
    keep_heads(r, &s);
    keep_flow(r, &s);
    keep_states(r, &s);
    if (first) keep_comparison(r, &s);
  }
}

/* Learned positions are those of a step. */
static void keep_positions(recording *r) {
  char q[128], step[32] = "";
  for (int i = 0; i < r->v->n_models; i++) {
    const view_model *m = &r->v->models[i];
    bool each = m->course && m->config.position == ATTEND_POSITIONS_LEARNED;
    for (int k = 0; k < (each ? r->n_kept : 1); k++) {
      if (each) snprintf(step, sizeof step, "\"step\":%d,", r->kept[k]);
      snprintf(q, sizeof q, "{\"count\":%d,\"model\":\"%s\",%s\"width\":%d}",
               POSITIONS, m->id, step, POSITIONS);
      keep(r, "positions", q);
    }
  }
}

/* ---- steps of a course --------------------------------------------------------------- */

/* About what the answers about one step take; more is what it goes on to write. */
static size_t step_bytes(recording *r, size_t more) {
  subject s;
  size_t bytes = 0;
  for (size_t i = 0; role_of(r, &r->runs[0], i, &s); i++) {
    size_t heads = (size_t)(s.layers * s.heads), n = (size_t)s.rows;
    size_t followed = n < FOLLOWED ? n : 2, written = n + more;
    bytes += heads * (head_bytes(&s) + vector_bytes(&s) + THUMB * THUMB) +
             (size_t)(s.layers + 1) * n * (followed * 30 + n * sizeof(float));
    if (more) bytes += heads * written * written * sizeof(float) + 1000 * more;
  }
  return bytes;
}

static int by_number(const void *a, const void *b) {
  return *(const int *)a - *(const int *)b;
}

/* As many as there is room for, with the one that was asked for among them. */
static void choose_steps(recording *r, const course *c, size_t each) {
  size_t rest = r->most > r->spent ? r->most - r->spent : 0;
  size_t n = 1 + rest / (each ? each : 1);
  int *places = need((size_t)c->count, sizeof *places);
  int at = course_find(c, r->o->state.c.step), nearest = 0;
  r->n_kept = course_some(c, n < (size_t)c->count ? (int)n : c->count, places);
  for (int i = 0; i < r->n_kept; i++)
    if (abs(places[i] - at) < abs(places[nearest] - at)) nearest = i;
  places[nearest] = at;
  qsort(places, (size_t)r->n_kept, sizeof *places, by_number);
  r->kept = need((size_t)r->n_kept, sizeof *r->kept);
  for (int i = 0; i < r->n_kept; i++) r->kept[i] = c->steps[places[i]];
  free(places);
}

/* Blocks alone, for the place that is looked at from. */
static void keep_written(recording *r, const view_case *c) {
  subject s;
  fetched *run = &r->runs[r->n_runs];
  if (!fetch_generated(r->v, c, r->o->new_tokens, run)) return;
  r->n_runs++;
  for (size_t i = 0; role_of(r, run, i, &s); i++)
    for (int k = 0; k < s.layers * s.heads; k++) {
      s.layer = k / s.heads;
      s.head = k % s.heads;
      if (head_bytes(&s) <= VIEW_CELLS * sizeof(float)) keep_head(r, &s, false);
    }
}

static void keep_beside_first(recording *r, const fetched *run) {
  char q[256];
  subject s;
  for (size_t i = 0; role_of(r, run, i, &s); i++) {
    snprintf(q, sizeof q, "{\"other\":\"%s\",\"role\":\"%s\",\"run\":\"%s\"}",
             r->first, s.role_name, s.id);
    if (strcmp(r->first, s.id)) keep(r, "compare", q);
  }
}

/* A step is run, asked about and let go of before the next. The first stays: the
 * others are compared with it. */
static void keep_step(recording *r, int step, bool writes) {
  view_case c = r->o->state.c;
  fetched *run = &r->runs[r->n_runs], again;
  bool mine = step == c.step;
  c.step = step;
  if (mine) run = &again;
  if (!fetch_run(r->v, &c, run)) return;
  if (!*r->first)
    snprintf(r->first, sizeof r->first, "%s",
             attend_json_string(attend_json_get(run->root, "run"), NULL));
  keep_beside_first(r, run);
  if (mine) {
    fetched_free(&again);
    return;
  }
  r->n_runs++;
  keep_run(r, run, false);
  if (writes) keep_written(r, &c);
}

static void keep_course(recording *r) {
  const view_case *mine = &r->o->state.c;
  const course *c = steps_course(r->v, mine->model);
  if (!c) return;
  r->most = MOST_BYTES + FORM_BYTES;
  size_t rest = r->most > r->spent ? r->most - r->spent : 0;
  size_t whole = step_bytes(r, (size_t)r->o->new_tokens);
  bool writes = r->v->models[0].config.parts & ATTEND_DECODER &&
                whole * (size_t)c->count < rest;
  choose_steps(r, c, writes ? whole : step_bytes(r, 0));
  progress_start("recording steps", (size_t)r->n_kept);
  for (int i = 0; i < r->n_kept; i++) {
    progress_step((size_t)i, "steps");
    keep_step(r, r->kept[i], writes);
  }
  progress_end();
  r->v->kept = r->kept;
  r->v->n_kept = r->n_kept;
  if (r->n_kept < c->count)
    fprintf(stderr,
            "attend: of %d steps %d are in the page: more would take over "
            "%d MB\n",
            c->count, r->n_kept, (MOST_BYTES + FORM_BYTES) >> 20);
}

/* ---- the file -------------------------------------------------------------------------- */

static void put_runs(recording *r) {
  attend_json_member(&r->w, "runs");
  attend_json_open(&r->w, '{');
  for (int i = 0; i < r->n_runs; i++) {
    attend_json_member(
        &r->w,
        attend_json_string(attend_json_get(r->runs[i].root, "run"), NULL));
    json_tree(&r->w, r->runs[i].root);
  }
  attend_json_close(&r->w, '}');
}

static bool run_cases(recording *r) {
  const view_state *s = &r->o->state;
  const view_model *m = &r->v->models[0];
  int steps = m->course ? m->course->count : 0;
  r->runs = need(3 + 2 * (size_t)steps, sizeof *r->runs);
  bool ok = fetch_run(r->v, &s->c, &r->runs[r->n_runs++]);
  if (ok && s->has_other)
    ok = fetch_run(r->v, &s->other, &r->runs[r->n_runs++]);
  if (ok && m->config.parts & ATTEND_DECODER)
    ok = fetch_generated(r->v, &s->c, r->o->new_tokens, &r->runs[r->n_runs++]);
  if (!ok)
    snprintf(r->error, sizeof r->error, "%s", r->runs[r->n_runs - 1].error);
  return ok;
}

/* It says which steps are kept, so it comes after them. */
static void put_hello(recording *r) {
  fetched hello;
  attend_json_writer q = question_open(r->v);
  attend_json_member(&r->w, "hello");
  if (fetch(r->v, "hello", &q, &hello))
    json_tree(&r->w, hello.root);
  else
    attend_json_put_null(&r->w);
  fetched_free(&hello);
}

static void record(recording *r) {
  attend_json_open(&r->w, '{');
  attend_json_member(&r->w, "answers");
  attend_json_open(&r->w, '{');
  progress_start("recording answers", (size_t)r->n_runs);
  for (int i = 0; i < r->n_runs; i++) {
    progress_step((size_t)i, "heads");
    keep_run(r, &r->runs[i], i == 0);
  }
  progress_end();
  keep_course(r);
  keep_positions(r);
  attend_json_close(&r->w, '}');
  put_hello(r);
  put_runs(r);
  attend_json_close(&r->w, '}');
}

int view_write_still(viewer *v, const view_options *o) {
  recording r = {
      .v = v, .o = o, .w = attend_json_writer_text(v->ctx), .most = MOST_BYTES};
  int code = EXIT_OK;
  if (!run_cases(&r)) {
    complain("%s", r.error);
    code = EXIT_FAILED;
  } else {
    record(&r);
    attend_status status = attend_json_finish(&r.w);
    code = status
               ? complain_status(v->ctx, status)
               : view_write_page(v->ctx, o->out, "still", r.w.text, r.w.length);
  }
  for (int i = 0; i < r.n_runs; i++) fetched_free(&r.runs[i]);
  v->n_kept = 0;
  free(r.runs);
  free(r.kept);
  attend_json_writer_free(&r.w);
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
