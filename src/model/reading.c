/* Readings: an encoder over a text of any length, in constant memory.
 *
 * For linear forms of attention, whose state is a sum over keys.
 *
 * A row of layer l needs the sums of layer l over the whole text. So there is one
 * pass over the text per layer: pass l recomputes layers 0 .. l - 1, whose sums are
 * complete, and adds the keys and values of layer l to its sums. The last pass
 * computes all layers and fills the decoder's cross-attention. Only sums and one
 * chunk of rows are in memory. Recomputing costs (layers + 1) / 2 times the work of a
 * single pass, which is cheaper than moving all rows of a long text to disk and back.
 *
 * The rows of a chunk depend on the sums only, and sums take keys in blocks of their
 * own: the chunk size does not change any bit.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "attend/file.h"
#include "base/files.h"
#include "base/options.h"
#include "model/transformer.h"

enum { ROWS = 512 };

typedef struct {
  int pass;   /* the layer being summed; = layers: the decoder's cross-attention */
  int64_t at; /* rows of the pass done so far */
} mark;

/* A state's file, as this process wrote or verified it. */
enum { SUMS, CROSSED, COPIED };
typedef struct {
  int kind, number;
  attend_state **state; /* NULL: the words of the copy head */
  int64_t rows;         /* tokens in it; 0: no file */
  char digest[ATTEND_DIGEST_TEXT];
} kept_file;

struct attend_reading {
  attend_context *ctx; /* the session's */
  attend_model *model;
  attend_session *session; /* of one sequence: buffers and states */
  attend_state **sums;     /* [layers] of the encoder */
  int layers;
  const int32_t *ids;
  int64_t count;
  uint64_t digest; /* of the weights and the ids */
  mark now, saved;
  kept_file *kept; /* [files]: sums, cross-attention, words to copy */
  int files;
};

/* ---- making ---------------------------------------------------------------------- */

static attend_status check_model(const attend_model *m) {
  const attend_config *c = &m->config;
  attend_desc d;
  ATTEND_CHECK(m->ctx, c->parts == ATTEND_BOTH,
               "%s is not an encoder with a decoder: only those read a text of any length",
               c->family);
  for (int i = 0; i < 2; i++) {
    model_attention(m, i ? ATTEND_CROSS : ATTEND_ENCODER_SELF, 0, &d);
    ATTEND_CHECK(m->ctx, d.bias.kind == ATTEND_NO_BIAS,
                 "%s biases every pair of tokens by its distance, which sums "
                 "over a text cannot do: cut the text into parts",
                 c->family);
    ATTEND_CHECK(m->ctx, attend_form_features(&d.form, d.dim) > 0,
                 "a text of any length is read with sums of features: choose a "
                 "linear form of attention such as elu or favor(m=256)");
  }
  return ATTEND_OK;
}

static attend_status make_sums(attend_reading *x, int rows) {
  attend_session *r = x->session;
  attend_desc d;
  model_attention(r->model, ATTEND_ENCODER_SELF, 0, &d);
  d.batch = 1;
  d.q_len = rows;
  d.purpose = ATTEND_FOR_EXTEND;
  d.engine = "linear";
  ATTEND_TRY(attend_plan_create(x->ctx, &d, &r->encoder_plan));
  ATTEND_TRY(states_make(x->ctx, r->encoder_plan, x->layers, "a reading", &x->sums));
  r->sums = x->sums;
  return ATTEND_OK;
}

static attend_status list_files(attend_reading *x) {
  const int all = x->layers + x->model->config.decoder.layers;
  x->files = all + 1;
  ATTEND_TRY(ctx_alloc_zeroed(x->ctx, (size_t)x->files * sizeof *x->kept, "a reading", &x->kept));
  for (int i = 0; i < x->layers; i++) x->kept[i] = (kept_file){SUMS, i, .state = &x->sums[i]};
  for (int i = x->layers; i < all; i++)
    x->kept[i] = (kept_file){CROSSED, i - x->layers, .state = &x->session->cross[i - x->layers]};
  x->kept[all].kind = COPIED;
  return ATTEND_OK;
}

attend_status attend_reading_create(attend_model *model, const attend_reading_options *options,
                                    attend_reading **reading) {
  attend_reading *x;
  attend_reading_options how;
  *reading = NULL;
  ATTEND_TRY(OPTIONS_READ(model->ctx, attend_reading_options, options, &how));
  ATTEND_TRY(check_model(model));
  attend_session_options o = {ATTEND_INIT(attend_session_options), .batch = 1,
                              .rows = how.rows ? how.rows : ROWS, .threads = how.threads};
  ATTEND_CHECK(model->ctx, o.rows > 0, "chunks of %d rows: choose 1 or more", o.rows);
  ATTEND_TRY(ctx_alloc_zeroed(model->ctx, sizeof *x, "a reading", &x));
  x->model = model;
  x->layers = model->config.encoder.layers;
  attend_status status = attend_session_create(model, &o, &x->session);
  if (!status) x->ctx = x->session->ctx;
  if (!status) status = make_sums(x, o.rows);
  if (!status) status = list_files(x);
  if (status)
    attend_reading_free(x);
  else
    *reading = x;
  return status;
}

void attend_reading_free(attend_reading *x) {
  if (!x) return;
  attend_context *ctx = x->model->ctx;
  states_free(ctx, x->layers, x->sums);
  ctx_free(ctx, x->kept);
  attend_session_free(x->session);
  ctx_free(ctx, x);
}

const char *attend_reading_message(const attend_reading *x) {
  return attend_session_message(x->session);
}

/* ---- reading --------------------------------------------------------------------- */

static void restart(attend_reading *x) {
  for (int i = 0; i < x->layers; i++) attend_state_truncate(x->sums[i], 0, 0);
  attend_session_reset(x->session);
  x->now = x->saved = (mark){0, 0};
  for (int i = 0; i < x->files; i++) x->kept[i].rows = 0;
}

/* What the sums depend on besides the text: bits differ between instruction sets. */
static attend_digest digest_model(const attend_model *m) {
  const uint64_t weights[] = {attend_checkpoint_digest(m->files),
                              (uint64_t)m->weights + 16 * (uint64_t)m->activations};
  const char *isa = attend_context_isa(m->ctx);
  attend_digest sum = {0};
  attend_desc d;
  attend_digest_add(&sum, weights, sizeof weights);
  attend_digest_add(&sum, isa, strlen(isa));
  for (int i = 0; i < 2; i++) {
    model_attention(m, i ? ATTEND_CROSS : ATTEND_ENCODER_SELF, 0, &d);
    const attend_form *f = &d.form;
    const uint64_t all[] = {
        (uint64_t)f->kind,    (uint64_t)f->degree,   float_bits(f->a), float_bits(f->c),
        float_bits(f->sigma), (uint64_t)f->features, f->seed,          f->redraw,
        (uint64_t)f->draw,    (uint64_t)f->pairs,    (uint64_t)f->map};
    attend_digest_add(&sum, all, sizeof all);
  }
  return sum;
}

attend_status attend_reading_begin(attend_reading *x, int64_t count, const int32_t *ids) {
  int vocab = x->session->model->config.vocab;
  attend_digest sum = digest_model(x->session->model);
  ATTEND_CHECK(x->ctx, count > 0, "a text of no token cannot be read");
  for (int64_t i = 0; i < count; i++) {
    ATTEND_CHECK(x->ctx, ids[i] >= 0 && ids[i] < vocab, "token %lld is %d: the model knows 0 to %d",
                 (long long)i, ids[i], vocab - 1);
  }
  attend_digest_add(&sum, ids, (size_t)count * sizeof *ids);
  x->digest = digest_word(&sum);
  x->ids = ids;
  x->count = count;
  restart(x);
  return ATTEND_OK;
}

/* Positions restart in every window of the model's size. */
static void place(attend_reading *x, int n) {
  int64_t window = x->session->model->config.positions;
  if (!window) window = INT32_MAX;
  for (int i = 0; i < n; i++) x->session->position[i] = (int32_t)((x->now.at + i) % window);
}

/* Keys and values of the encoder's layer, from x, into its sums. */
static attend_status sums_fill(attend_session *r, int number) {
  const attend_stack *s = r->p.side->shape;
  activations a = r->at;
  a.x = r->x;
  layer_project(&r->p, number, &a);
  int ld = padded(layer_of(r->p.side, number)->qkv.outputs);
  void *k = column(&r->p, a.qkv, (size_t)(s->heads * s->dim));
  void *v = column(&r->p, k, (size_t)(s->kv_heads * s->dim));
  return attend_state_append(r->encoder_plan, r->sums[number], r->p.n,
                             heads_at(k, r->p.n, ld, s->dim), heads_at(v, r->p.n, ld, s->dim_v));
}

static attend_status read_chunk(attend_reading *x, int n) {
  attend_session *r = x->session;
  const int32_t *ids = x->ids + x->now.at;
  session_begin(r, &r->model->encoder, 1, n);
  r->lengths[0] = n;
  place(x, n);
  session_embed(r, ids, r->p.n, NULL);
  if (x->now.pass == x->layers) {
    ATTEND_TRY(session_stack(r));
    ATTEND_TRY(cross_fill(r));
    return copy_read(r, ids);
  }
  ATTEND_TRY(session_layers(r, x->now.pass));
  return sums_fill(r, x->now.pass);
}

bool attend_reading_done(const attend_reading *x) { return x->now.pass > x->layers; }

attend_status attend_reading_next(attend_reading *x) {
  ATTEND_CHECK(x->ctx, x->count, "there is no text to read: begin one");
  if (attend_reading_done(x)) return ATTEND_OK;
  int n = (int)min64(x->session->limit, x->count - x->now.at);
  attend_status status = read_chunk(x, n);
  x->session->p.n = 0;
  if (status) { /* some states include the chunk, some do not */
    x->count = 0;
    return status;
  }
  x->now.at += n;
  if (x->now.at < x->count) return ATTEND_OK;
  x->now.pass++;
  x->now.at = 0;
  return ATTEND_OK;
}

/* Work of the passes so far: each has its layers, and about a quarter of one for keys
 * and values. */
static double work_before(int n) { return n * (n - 0.5) / 2; }

double attend_reading_share(const attend_reading *x) {
  if (attend_reading_done(x)) return 1;
  double done = work_before(x->now.pass);
  if (x->count) done += (x->now.pass + 0.25) * (double)x->now.at / (double)x->count;
  return done / work_before(x->layers + 1);
}

size_t attend_reading_bytes(const attend_reading *x) {
  size_t bytes = attend_session_cache_bytes(x->session) + attend_session_work_bytes(x->session);
  for (int i = 0; i < x->layers; i++) bytes += attend_state_bytes(x->sums[i]);
  return bytes;
}

attend_status attend_session_recall(attend_session *r, const attend_reading *x) {
  ATTEND_CHECK(r->ctx, attend_reading_done(x),
               "the text is not read to its end: continue with attend_reading_next");
  ATTEND_CHECK(r->ctx,
               r->cross &&
                   r->model->config.decoder.layers == x->session->model->config.decoder.layers &&
                   r->p.type == x->session->p.type,
               "the text was read with another model");
  attend_session_reset(r);
  attend_status status = ATTEND_OK;
  for (int i = 0; i < r->model->config.decoder.layers && !status; i++)
    status = attend_state_copy(x->session->cross[i], 0, r->cross[i], 0);
  if (!status) status = copy_recall(r, x->session);
  if (status) attend_session_reset(r);
  return status;
}

/* ---- files ----------------------------------------------------------------------- */

/* A state's file is named after the text and the number of tokens in it, so that it
 * never changes. reading.json records the progress and is written last; files that it
 * no longer names are then removed. */
typedef attend_status (*visitor)(attend_reading *x, kept_file *kept, int64_t rows,
                                 const char *path);

/* Rows that the file must hold to resume from m. */
static int64_t rows_at(const attend_reading *x, const kept_file *k, mark m) {
  bool done = m.pass > x->layers;
  if (k->kind == SUMS) return done || k->number > m.pass ? 0 : k->number < m.pass ? x->count : m.at;
  if (k->kind == COPIED && !x->model->copy_k.forward) return 0;
  return done ? x->count : m.pass == x->layers ? m.at : 0;
}

static attend_status visit_all(attend_reading *x, const char *folder, mark m, visitor what) {
  static const char *const kinds[] = {"sums", "cross", "copy"};
  char name[96], path[LONGEST_PATH];
  for (kept_file *k = x->kept; k < x->kept + x->files; k++) {
    const int64_t rows = rows_at(x, k, m);
    if (!rows) continue;
    snprintf(name, sizeof name, "%016llx-%s-%d-%lld.state", (unsigned long long)x->digest,
             kinds[k->kind], k->number, (long long)rows);
    ATTEND_TRY(path_inside(x->ctx, folder, name, path));
    ATTEND_TRY(what(x, k, rows, path));
  }
  return ATTEND_OK;
}

static attend_status digest_of(const attend_reading *x, const char *path,
                               char text[ATTEND_DIGEST_TEXT]) {
  attend_digest digest = {0};
  ATTEND_TRY(attend_digest_file(x->ctx, path, &digest));
  attend_digest_text(&digest, text);
  return ATTEND_OK;
}

static attend_status keep_state(attend_reading *x, kept_file *kept, int64_t rows,
                                const char *path) {
  if (kept->rows == rows) return ATTEND_OK;
  ATTEND_TRY(kept->state ? attend_state_save(*kept->state, path) : copy_save(x->session, path));
  ATTEND_TRY(digest_of(x, path, kept->digest));
  kept->rows = rows;
  return ATTEND_OK;
}

static attend_status drop_state(attend_reading *x, kept_file *kept, int64_t rows,
                                const char *path) {
  if (rows == x->saved.at || (kept->kind == SUMS && attend_reading_done(x))) unlink(path);
  return ATTEND_OK;
}

static attend_status put_mark(attend_reading *x, const char *path) {
  char digest[32];
  json_writer w = json_writer_text(x->ctx);
  snprintf(digest, sizeof digest, "%016llx", (unsigned long long)x->digest);
  json_open(&w, '{');
  json_member_string(&w, "text", digest);
  json_member_integer(&w, "tokens", x->count);
  json_member_integer(&w, "pass", x->now.pass);
  json_member_integer(&w, "at", x->now.at);
  json_member(&w, "digests");
  json_open(&w, '[');
  for (int i = 0; i < x->files; i++) json_put_string(&w, x->kept[i].rows ? x->kept[i].digest : "");
  json_close(&w, ']');
  json_close(&w, '}');
  return json_write(&w, path);
}

attend_status attend_reading_save(attend_reading *x, const char *folder) {
  char path[LONGEST_PATH];
  ATTEND_CHECK(x->ctx, x->count, "there is no text that is being read");
  ATTEND_TRY(path_inside(x->ctx, folder, "reading.json", path));
  ATTEND_TRY(visit_all(x, folder, x->now, keep_state));
  ATTEND_TRY(put_mark(x, path));
  if (x->saved.pass != x->now.pass || x->saved.at != x->now.at)
    ATTEND_TRY(visit_all(x, folder, x->saved, drop_state));
  x->saved = x->now;
  return ATTEND_OK;
}

static attend_status load_state(attend_reading *x, kept_file *kept, int64_t rows,
                                const char *path) {
  attend_session *r = x->session;
  attend_state *loaded;
  char digest[ATTEND_DIGEST_TEXT];
  ATTEND_TRY(digest_of(x, path, digest));
  if (strcmp(digest, kept->digest))
    return fail(x->ctx, ATTEND_IO,
                "\"%.300s\" is damaged: its digest is not the one that was saved", path);
  kept->rows = rows;
  if (!kept->state) return copy_load(r, path, rows);
  ATTEND_TRY(
      attend_state_load(kept->kind == SUMS ? r->encoder_plan : r->cross_plan, path, &loaded));
  if (attend_state_length(loaded, 0) != rows) {
    attend_state_free(loaded);
    return fail(x->ctx, ATTEND_IO, "\"%.300s\" does not hold %lld tokens", path, (long long)rows);
  }
  attend_state_free(*kept->state);
  *kept->state = loaded;
  return ATTEND_OK;
}

static attend_status read_digests(attend_reading *x, const char *path, const attend_json *json) {
  const attend_json *list = attend_json_get(json, "digests");
  for (int i = 0; i < x->files; i++) {
    const char *text = attend_json_string(attend_json_at(list, (size_t)i), NULL);
    if (!text)
      return fail(x->ctx, ATTEND_IO, "%.300s lacks digests of what was read: start again", path);
    snprintf(x->kept[i].digest, sizeof x->kept[i].digest, "%s", text);
  }
  return ATTEND_OK;
}

static attend_status read_mark(const attend_reading *x, const char *path, const attend_json *json,
                               mark *m) {
  const char *of = attend_json_string(attend_json_get(json, "text"), NULL);
  char mine[32];
  int64_t number, tokens;
  snprintf(mine, sizeof mine, "%016llx", (unsigned long long)x->digest);
  if (!of || !attend_json_integer(attend_json_get(json, "tokens"), &tokens) ||
      !attend_json_integer(attend_json_get(json, "pass"), &number) ||
      !attend_json_integer(attend_json_get(json, "at"), &m->at) || number < 0 ||
      number > x->layers + 1 || m->at < 0 || (m->at && (m->at >= tokens || number > x->layers)))
    return fail(x->ctx, ATTEND_IO, "%.300s does not say how far the reading is: start again", path);
  ATTEND_CHECK(x->ctx, tokens == x->count && !strcmp(of, mine),
               "%.300s is of another text or another model: start again", path);
  m->pass = (int)number;
  return ATTEND_OK;
}

attend_status attend_reading_resume(attend_reading *x, const char *folder) {
  char path[LONGEST_PATH];
  attend_json *json;
  mark m;
  ATTEND_CHECK(x->ctx, x->count, "there is no text to resume: begin one");
  ATTEND_TRY(path_inside(x->ctx, folder, "reading.json", path));
  ATTEND_TRY(json_read(x->ctx, path, &json));
  attend_status status = read_mark(x, path, json, &m);
  if (!status) restart(x);
  if (!status) status = read_digests(x, path, json);
  attend_json_free(json);
  ATTEND_TRY(status);
  status = visit_all(x, folder, m, load_state);
  if (status)
    restart(x); /* some states were loaded, some were not */
  else
    x->now = x->saved = m;
  return status;
}
