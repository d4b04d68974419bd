/* Summaries of documents of any length: the handle of both modes, and linear reading, in
 * which an encoder with linear attention reads the document as a whole.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <sys/stat.h>

#include "attend/problem.h"
#include "base/options.h"
#include "model/transformer.h"
#include "tasks/summarize.h"

enum {
  PORTION = 1 << 18, /* bytes of the text that are tokenized at once */
  SAVE_SECONDS = 20
};

/* ---- ids ------------------------------------------------------------------------ */

static attend_status put_ids(attend_long_summary *x, const int32_t *ids, size_t n) {
  ATTEND_TRY(grow(x->ctx, &x->ids, &x->ids_capacity, size_add(x->n_ids, n), sizeof *x->ids,
                  "the document's ids"));
  memcpy(x->ids + x->n_ids, ids, n * sizeof *ids);
  x->n_ids += n;
  return ATTEND_OK;
}

/* Between a letter and a space, where words of all tokenizers end. */
static size_t portion_end(const char *text, size_t length, size_t at) {
  for (size_t i = at + PORTION; i < length; i++)
    if (text[i] == ' ' && is_alphanumeric(text[i - 1])) return i;
  return length;
}

static attend_status put_text(attend_long_summary *x, attend_encoding *e, const char *text,
                              size_t length) {
  attend_encode_options o = {ATTEND_INIT(attend_encode_options), .no_special = true};
  for (size_t at = 0, end; at < length; at = end) {
    end = portion_end(text, length, at);
    ATTEND_TRY(attend_encode(e, text + at, end - at, &o));
    ATTEND_TRY(put_ids(x, e->id, e->count));
  }
  return ATTEND_OK;
}

/* The special tokens before or after a text are those of a short one. */
static attend_status put_special(attend_long_summary *x, attend_encoding *e, bool before) {
  size_t first = 0;
  ATTEND_TRY(attend_encode(e, "a", 1, NULL));
  while (first < e->count && e->part[first] < 0) first++;
  for (size_t i = 0; i < e->count; i++)
    if (e->part[i] < 0 && (i < first) == before) ATTEND_TRY(put_ids(x, &e->id[i], 1));
  return ATTEND_OK;
}

static attend_status put_document(attend_long_summary *x, attend_encoding *e) {
  const attend_document *d = &x->document;
  ATTEND_TRY(put_special(x, e, true));
  ATTEND_TRY(put_text(x, e, x->s.prefix, strlen(x->s.prefix)));
  ATTEND_TRY(put_text(x, e, d->text, text_trimmed(d->text, d->length)));
  return put_special(x, e, false);
}

static attend_status encode_document(attend_long_summary *x) {
  attend_encoding *e = NULL;
  attend_status status = attend_encoding_create(x->s.tokenizer, &e);
  if (!status) status = put_document(x, e);
  attend_encoding_free(e);
  x->tokens = (int64_t)x->n_ids;
  ATTEND_CHECK(x->ctx, status || x->n_ids <= INT32_MAX,
               "the document has %zu tokens: %d are the most", x->n_ids, INT32_MAX);
  return status;
}

/* ---- the form ------------------------------------------------------------------- */

static bool is_linear(const attend_model *m) {
  attend_desc d = {ATTEND_INIT(attend_desc)};
  for (int i = 0; i < 2; i++)
    if (!attend_model_attention(m, i ? ATTEND_CROSS : ATTEND_ENCODER_SELF, 0, &d) ||
        attend_form_features(&d.form, d.dim) == 0)
      return false;
  return true;
}

/* The model itself, or its weights with favor. */
static attend_status choose_form(attend_long_summary *x) {
  attend_form form;
  if (x->options.own_form || is_linear(x->s.model)) return ATTEND_OK;
  ATTEND_TRY(attend_form_parse(x->ctx, "favor(m=256)", &form));
  ATTEND_TRY(
      attend_model_with_roles(x->s.model, &form, ATTEND_IN_ENCODER | ATTEND_IN_CROSS, &x->other));
  x->s.model = x->other;
  return ATTEND_OK;
}

/* ---- reading -------------------------------------------------------------------- */

static attend_status resume(attend_long_summary *x) {
  char path[LONGEST_PATH], why[300];
  if (!x->work || !file_beside(x->work, "reading.json", path, sizeof path)) return ATTEND_OK;
  attend_status status = attend_reading_resume(x->reading, x->work);
  if (!status || status == ATTEND_NO_MEMORY) return status;
  snprintf(why, sizeof why, "%s", attend_reading_message(x->reading));
  return fail(x->ctx, ATTEND_IO,
              "the reading in %.100s cannot be resumed (%s): remove it, or "
              "choose another work directory",
              x->work, why);
}

static attend_status open_reading(attend_long_summary *x) {
  if (x->work && mkdir(x->work, 0777) && errno != EEXIST) return writing_failed(x->ctx, x->work);
  ATTEND_TRY(attend_reading_create(x->s.model, NULL, &x->reading));
  ATTEND_TRY(attend_reading_begin(x->reading, x->tokens, x->ids));
  return resume(x);
}

attend_status linear_open(attend_long_summary *x) {
  const attend_document *d = &x->document;
  size_t length = text_trimmed(d->text, d->length);
  if (!length) return ATTEND_OK; /* no node */
  ATTEND_TRY(choose_form(x));
  ATTEND_TRY(encode_document(x));
  ATTEND_TRY(ctx_alloc_zeroed(x->ctx, sizeof *x->level[0].node, "a summary", &x->level[0].node));
  x->level[0].count = x->levels = 1;
  x->level[0].node[0].end = d->length;
  number_words(x);
  return open_reading(x);
}

static attend_status read_on(attend_long_summary *x, bool *stopped) {
  double saved = seconds_now();
  while (!attend_reading_done(x->reading)) {
    *stopped = is_stopped(x, attend_reading_share(x->reading));
    if (*stopped) break;
    ATTEND_TRY(attend_reading_next(x->reading));
    if (x->work && seconds_now() - saved > SAVE_SECONDS) {
      ATTEND_TRY(attend_reading_save(x->reading, x->work));
      saved = seconds_now();
    }
  }
  return x->work ? attend_reading_save(x->reading, x->work) : ATTEND_OK;
}

static int on_progress(double done, const char *what, void *user) {
  (void)done, (void)what;
  return is_stopped(user, 1);
}

static attend_status write_node(attend_long_summary *x) {
  attend_summary_node *n = &x->level[0].node[0];
  job_callbacks callbacks = {.progress = on_progress, .user = x};
  document_job job = {.in = x->document, .reading = x->reading, .out.tokens = (int)x->tokens};
  attend_status status = jobs_write(&x->s, &job, 1, &callbacks);
  if (status) {
    summaries_free(x->ctx, job.out.best, job.out.count);
    return status;
  }
  n->best = job.out.best;
  n->n_best = job.out.count;
  x->written = 1;
  return ATTEND_OK;
}

attend_status linear_write(attend_long_summary *x) {
  bool stopped = false;
  if (!x->levels || x->written) return ATTEND_OK;
  ATTEND_TRY(read_on(x, &stopped));
  if (stopped) return fail(x->ctx, ATTEND_STOPPED, "stopped by the caller");
  return write_node(x);
}

/* ---- the handle --------------------------------------------------------------------- */

void number_words(const attend_long_summary *x) {
  const char *text = x->document.text;
  size_t words = 0;
  for (int i = 0; i < x->level[0].count; i++) {
    attend_summary_node *n = &x->level[0].node[i];
    n->first_word = words + 1;
    for (size_t j = n->start; j < n->end; j++)
      words += !is_space(text[j]) && (j == n->start || is_space(text[j - 1]));
    n->last_word = words;
  }
}

static attend_status check(attend_context *ctx, const attend_document *d,
                           const attend_long_options *o) {
  ATTEND_CHECK(ctx, d && (d->text || !d->length), "the document's text is NULL: give its address");
  ATTEND_CHECK(ctx, o->parts >= 0 && o->levels >= 0, "%d parts and %d levels: choose 0 or more",
               o->parts, o->levels);
  ATTEND_CHECK(ctx, (unsigned)o->mode <= ATTEND_LONG_LINEAR,
               "mode %d does not exist: choose ATTEND_LONG_CHUNKS or _LINEAR", (int)o->mode);
  return ATTEND_OK;
}

static attend_status open_mode(attend_long_summary *x) {
  const char *work = x->options.work;
  if (work) ATTEND_TRY(text_copy(x->ctx, work, strlen(work), &x->work));
  return x->options.mode == ATTEND_LONG_LINEAR ? linear_open(x) : tree_open(x);
}

attend_status attend_long_summary_create(attend_summarizer *s, const attend_document *document,
                                         const attend_long_options *options,
                                         attend_long_summary **summary) {
  attend_long_options o;
  attend_long_summary *x;
  *summary = NULL;
  ATTEND_TRY(OPTIONS_READ(s->ctx, attend_long_options, options, &o));
  ATTEND_TRY(check(s->ctx, document, &o));
  ATTEND_TRY(ctx_alloc_zeroed(s->ctx, sizeof *x, "a long summary", &x));
  x->ctx = s->ctx;
  x->s = *s;
  x->document = *document;
  x->options = o;
  attend_status status = open_mode(x);
  if (status)
    attend_long_summary_free(x);
  else
    *summary = x;
  return status;
}

attend_status attend_long_summary_write(attend_long_summary *x) {
  return x->options.mode == ATTEND_LONG_LINEAR ? linear_write(x) : tree_write(x);
}

void attend_long_summary_free(attend_long_summary *x) {
  if (!x) return;
  for (int k = 0; k < x->levels; k++) {
    for (int i = 0; i < x->level[k].count; i++)
      summaries_free(x->ctx, x->level[k].node[i].best, x->level[k].node[i].n_best);
    ctx_free(x->ctx, x->level[k].node);
  }
  journal_close(x->journal);
  units_close(&x->u);
  attend_reading_free(x->reading);
  attend_model_free(x->other);
  ctx_free(x->ctx, x->ids);
  ctx_free(x->ctx, x->work);
  ctx_free(x->ctx, x);
}

const attend_long_state *attend_long_summary_state(const attend_long_summary *x) {
  attend_long_state state = {.tokens = x->tokens,
                             .levels = x->levels,
                             .written = x->written,
                             .part_tokens = x->u.part_tokens,
                             .cut = x->cut,
                             .journaled = x->journaled,
                             .other_form = x->other != NULL};
  if (x->reading) {
    state.read = attend_reading_share(x->reading);
    state.bytes = attend_reading_bytes(x->reading) + x->ids_capacity * sizeof *x->ids;
  }
  attend_long_state *kept = &((attend_long_summary *)x)->state;
  *kept = state;
  return kept;
}

/* ---- memory ---------------------------------------------------------------------- */

/* The residual stream is f32; size: of other elements. */
static double row_bytes(const attend_stack *s, int gated, double size) {
  double qkv = s->heads * s->dim + s->kv_heads * (s->dim + s->dim_v);
  return sizeof(float) * s->width +
         size * (s->width + qkv + s->heads * s->dim_v + s->mlp * (1.0 + gated));
}

/* Of a batch of texts of so many tokens: activations, the decoder's keys and values, logits. */
static double batch_bytes(const attend_summarizer *s, int tokens) {
  const attend_config *c = attend_model_config(s->model);
  const attend_stack *d = &c->decoder;
  int each = s->how.beams > 1 ? s->how.beams : s->how.samples;
  double together = s->how.batch > each ? s->how.batch : each;
  const double size = (double)attend_dtype_size(s->model->activations);
  double cached = together * d->layers * d->kv_heads * (d->dim + d->dim_v);
  return together * tokens * row_bytes(&c->encoder, c->gated, size) +
         size * cached * (tokens + s->how.max_new) +
         sizeof(float) * 2.0 * (together + 1) * c->vocab;
}

/* Embedding rows come from the mapped file. */
double attend_long_summary_bytes(const attend_long_summary *x) {
  enum { PROGRAM = 24 << 20 }; /* code, its libraries, threads and their stacks */
  const attend_config *c = attend_model_config(x->s.model);
  double width = fmax(c->encoder.width, c->decoder.width);
  double rows = fmin(4.0 * c->vocab * width, (double)attend_checkpoint_bytes(x->s.model->files));
  double base =
      PROGRAM + (double)attend_model_bytes(x->s.model) + rows + 3.0 * (double)x->document.length;
  if (x->reading) return base + (double)attend_long_summary_state(x)->bytes + batch_bytes(&x->s, 1);
  return base + batch_bytes(&x->s, x->s.context ? x->s.context : x->u.part_tokens);
}

int attend_long_summary_count(const attend_long_summary *x, int level) {
  return level >= 0 && level < x->levels ? x->level[level].count : 0;
}

const attend_summary_node *attend_long_summary_node(const attend_long_summary *x, int level,
                                                    int i) {
  bool there = i >= 0 && i < attend_long_summary_count(x, level);
  return there ? &x->level[level].node[i] : NULL;
}
