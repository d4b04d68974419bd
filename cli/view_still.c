/* attend view --out page.html: the page with its answers, in one file.
 *
 * Place: cli/ - asks the viewer what the page will ask, and writes page and
 * answers together. viewer/README.md says how a still page finds them.
 *
 * Whole heads are kept where they fit; what does not fit is left to the live
 * page, which then says so. Forms to compare with are taken in the order of the
 * list for as long as there is room.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "progress.h"
#include "view.h"
#include "view_fetch.h"

#ifdef ATTEND_HAVE_PAGE
#include "page_data.h"

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
  size_t spent, on_forms;
  fetched runs[3]; /* the case's, the other's, the one with what is written */
  int n_runs;
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
  bool blocks = r->spent + heads * head_bytes(s) < MOST_BYTES;
  bool vectors =
      r->spent + heads * (head_bytes(s) + vector_bytes(s)) < MOST_BYTES;
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

static void keep_run(recording *r, const fetched *run, bool first) {
  const attend_json *roles = attend_json_get(run->root, "roles");
  view_state state = state_defaults();
  for (size_t i = 0; i < attend_json_count(roles); i++) {
    subject s;
    const char *role = attend_json_string(
        attend_json_get(attend_json_at(roles, i), "role"), NULL);
    snprintf(state.role, sizeof state.role, "%s", role);
    if (!subject_read(run, &state, &s, r->error)) continue;
    keep_role(r, &s);
    keep_heads(r, &s);
    keep_flow(r, &s);
    keep_states(r, &s);
    if (first) keep_comparison(r, &s);
  }
}

static void keep_positions(recording *r) {
  char q[128];
  for (int i = 0; i < r->v->n_models; i++) {
    snprintf(q, sizeof q, "{\"count\":%d,\"model\":\"%s\",\"width\":%d}",
             POSITIONS, r->v->models[i].id, POSITIONS);
    keep(r, "positions", q);
  }
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
  bool ok = fetch_run(r->v, &s->c, &r->runs[r->n_runs++]);
  if (ok && s->has_other)
    ok = fetch_run(r->v, &s->other, &r->runs[r->n_runs++]);
  if (ok && m->config.parts & ATTEND_DECODER)
    ok = fetch_generated(r->v, &s->c, r->o->new_tokens, &r->runs[r->n_runs++]);
  if (!ok)
    snprintf(r->error, sizeof r->error, "%s", r->runs[r->n_runs - 1].error);
  return ok;
}

static void record(recording *r) {
  fetched hello;
  attend_json_writer q = question_open(r->v);
  attend_json_open(&r->w, '{');
  attend_json_member(&r->w, "hello");
  if (fetch(r->v, "hello", &q, &hello))
    json_tree(&r->w, hello.root);
  else
    attend_json_put_null(&r->w);
  fetched_free(&hello);
  put_runs(r);
  attend_json_member(&r->w, "answers");
  attend_json_open(&r->w, '{');
  progress_start("recording answers", (size_t)r->n_runs);
  for (int i = 0; i < r->n_runs; i++) {
    progress_step((size_t)i, "heads");
    keep_run(r, &r->runs[i], i == 0);
  }
  progress_end();
  keep_positions(r);
  attend_json_close(&r->w, '}');
  attend_json_close(&r->w, '}');
}

typedef struct {
  char *bytes;
  size_t length, room;
} text_buffer;

static void add(text_buffer *t, const void *bytes, size_t n) {
  if (t->length + n > t->room) {
    t->room = 2 * (t->length + n) + 1024;
    char *more = need(t->room, 1);
    memcpy(more, t->bytes ? t->bytes : "", t->length);
    free(t->bytes);
    t->bytes = more;
  }
  memcpy(t->bytes + t->length, bytes, n);
  t->length += n;
}
static void add_text(text_buffer *t, const char *text) {
  add(t, text, strlen(text));
}

/* JSON between tags: no "<" of a token may end it. */
static void add_json(text_buffer *t, const char *text, size_t n) {
  size_t from = 0;
  for (size_t i = 0; i < n; i++) {
    if (text[i] != '<') continue;
    add(t, text + from, i - from);
    add_text(t, "\\u003c");
    from = i + 1;
  }
  add(t, text + from, n - from);
}

static void add_file(text_buffer *t, page_part part) {
  page_file f = page_data(part);
  add(t, f.bytes, f.length);
}

static const char policy[] =
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src "
    "'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src "
    "data: blob:; connect-src 'none'; base-uri 'none'; form-action 'none'\">\n";

/* The page's own links become what they link to. */
static bool compose(const attend_json_writer *answers, text_buffer *t) {
  static const char style[] = "<link rel=\"stylesheet\" href=\"page.css\">";
  static const char script[] = "<script src=\"page.js\"></script>";
  page_file html = page_data(PAGE_HTML);
  char *page = need(html.length + 1, 1);
  memcpy(page, html.bytes, html.length);
  char *at_style = strstr(page, style), *at_script = strstr(page, script);
  bool ok = at_style && at_script && at_style < at_script;
  if (ok) {
    add(t, page, (size_t)(at_style - page));
    add_text(t, policy);
    add_text(t, "<style>");
    add_file(t, PAGE_STYLE);
    add_text(t, "</style>");
    add(t, at_style + sizeof style - 1,
        (size_t)(at_script - at_style) - (sizeof style - 1));
    add_text(t, "<script type=\"application/json\" id=\"still\">");
    add_json(t, answers->text, answers->length);
    add_text(t, "</script>\n<script>");
    add_file(t, PAGE_SCRIPT);
    add_text(t, "</script>");
    add_text(t, at_script + sizeof script - 1);
  }
  free(page);
  return ok;
}

int view_write_still(viewer *v, const view_options *o) {
  recording r = {.v = v, .o = o, .w = attend_json_writer_text(v->ctx)};
  text_buffer t = {0};
  int code = EXIT_OK;
  if (!run_cases(&r)) {
    complain("%s", r.error);
    code = EXIT_FAILED;
  } else {
    record(&r);
    attend_status status = attend_json_finish(&r.w);
    if (status) {
      code = complain_status(v->ctx, status);
    } else if (!compose(&r.w, &t)) {
      complain(
          "the page in this program has no place for its parts: build it "
          "again");
      code = EXIT_FAILED;
    } else {
      code = view_write_bytes(o->out, t.bytes, t.length);
    }
  }
  for (int i = 0; i < r.n_runs; i++) fetched_free(&r.runs[i]);
  attend_json_writer_free(&r.w);
  free(t.bytes);
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
