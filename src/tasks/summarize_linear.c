/* A document as a whole: an encoder with linear attention reads any length.
 *
 * attend_reading reads; here are the ids, a linear form for a model that has none,
 * and the work directory.
 */
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

#include "attend/problem.h"
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

static bool is_alphanumeric(char c) {
  return (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z');
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
  ATTEND_TRY(take_zeroed(x->ctx, sizeof *x->level[0].node, "a summary", &x->level[0].node));
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

static int on_progress(double done, void *user) {
  (void)done;
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
