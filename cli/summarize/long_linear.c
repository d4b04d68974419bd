/* A document as a whole: a linear encoder reads it, however long it is.
 *
 * The library's attend_reading does the work; here are the ids, a linear form for a
 * model that has none, and the work folder.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attend/problem.h"
#include "folders.h"
#include "interrupt.h"
#include "summarize/long_summary.h"
#include "progress.h"

enum {
  PIECE = 1 << 18, /* bytes of the text that become ids at once */
  SAVE_SECONDS = 20
};

/* ---- ids ------------------------------------------------------------------------ */

typedef struct {
  int32_t *id;
  int64_t count, capacity;
} id_row;

static void put(id_row *r, const int32_t *ids, size_t n) {
  if (r->count + (int64_t)n > r->capacity) {
    r->capacity = 2 * r->capacity + (int64_t)n;
    r->id =
        need_more(r->id, (size_t)r->count, (size_t)r->capacity, sizeof *r->id);
  }
  memcpy(r->id + r->count, ids, n * sizeof *ids);
  r->count += (int64_t)n;
}

/* Between a letter and a space, where words of all tokenizers end. */
static size_t piece_end(const char *text, size_t length, size_t at) {
  for (size_t i = at + PIECE; i < length; i++)
    if (text[i] == ' ' && isalnum((unsigned char)text[i - 1])) return i;
  return length;
}

static attend_status put_text(attend_encoding *e, const char *text,
                              size_t length, id_row *r) {
  attend_encode_options o = {.no_special = true};
  for (size_t at = 0, end; at < length; at = end) {
    end = piece_end(text, length, at);
    attend_status status = attend_encode(e, text + at, end - at, &o);
    if (status) return status;
    put(r, e->id, e->count);
  }
  return ATTEND_OK;
}

/* What goes around a text is seen around a short one. */
static attend_status put_around(attend_encoding *e, bool before, id_row *r) {
  attend_status status = attend_encode(e, "a", 1, NULL);
  size_t first = 0;
  if (status) return status;
  while (first < e->count && e->part[first] < 0) first++;
  for (size_t i = 0; i < e->count; i++)
    if (e->part[i] < 0 && (i < first) == before) put(r, &e->id[i], 1);
  return ATTEND_OK;
}

static attend_status read_ids(const summarizer *s, const summary_document *d,
                              id_row *r) {
  attend_encoding *e;
  size_t length = d->length; /* as summaries.c reads: no line end behind it */
  while (length && isspace((unsigned char)d->text[length - 1])) length--;
  attend_status status = attend_encoding_create(s->m.tokenizer, &e);
  if (!status) status = put_around(e, true, r);
  if (!status) status = put_text(e, s->prefix, strlen(s->prefix), r);
  if (!status) status = put_text(e, d->text, length, r);
  if (!status) status = put_around(e, false, r);
  attend_encoding_free(e);
  return status;
}

/* ---- the form ------------------------------------------------------------------- */

static bool is_linear(const attend_model *m) {
  attend_desc d;
  for (int i = 0; i < 2; i++)
    if (!attend_model_attention(m, i ? ATTEND_CROSS : ATTEND_ENCODER_SELF, 0,
                                &d) ||
        attend_form_features(&d.form, d.dim) == 0)
      return false;
  return true;
}

/* The model itself, or its weights with favor. */
static attend_status choose_form(const summarize_options *o, summarizer *s,
                                 attend_model **other) {
  static const char usual[] = "favor(m=256)";
  static bool said; /* for the first document */
  attend_form form;
  *other = NULL;
  if (o->model.attention || is_linear(s->m.model)) return ATTEND_OK;
  attend_status status = attend_form_parse(s->m.ctx, usual, &form);
  if (!status)
    status = attend_model_with_roles(
        s->m.model, &form, ATTEND_IN_ENCODER | ATTEND_IN_CROSS, other);
  if (!status && !said)
    fprintf(stderr,
            "attend: the model's attention is not linear: reading with %s in "
            "its place (--attention chooses another)\n",
            usual);
  said = true;
  return status;
}

/* ---- reading -------------------------------------------------------------------- */

static int resume(const summarizer *s, attend_reading *x, const char *folder) {
  char *mark = path_of("%s/reading.json", folder);
  bool there = file_bytes(mark) >= 0;
  free(mark);
  if (!there || !attend_reading_resume(x, folder)) return EXIT_OK;
  complain(
      "%s cannot be gone on from (%s): remove it, or choose another folder "
      "for --work",
      folder, attend_message(s->m.ctx));
  return EXIT_FAILED;
}

static attend_status read_on(attend_reading *x, const char *folder) {
  double saved = seconds_now();
  attend_status status = ATTEND_OK;
  progress_start("reading", 100);
  while (!status && !attend_reading_done(x) && !is_interrupted()) {
    progress_step((size_t)(100 * attend_reading_share(x)), "%");
    status = attend_reading_next(x);
    if (folder && !status && seconds_now() - saved > SAVE_SECONDS) {
      status = attend_reading_save(x, folder);
      saved = seconds_now();
    }
  }
  if (folder && !status) status = attend_reading_save(x, folder);
  progress_end();
  return status;
}

static int say_interrupted(const attend_reading *x, const char *folder) {
  double share = 100 * attend_reading_share(x);
  if (folder)
    complain(
        "%.1f %% of the reading is kept in %s: the same command goes on "
        "from there",
        share, folder);
  else
    complain("%.1f %% was read: with --work DIR it would be kept", share);
  return EXIT_INTERRUPTED;
}

static int write_from(summarizer *s, const attend_reading *x, int64_t tokens,
                      summary_document *d) {
  d->reading = x;
  d->tokens = (int)tokens;
  int code = summaries_write(s, d, 1, NULL);
  d->reading = NULL;
  d->read = d->length;
  return code;
}

static int read_and_write(summarizer *s, const id_row *r, const char *folder,
                          summary_document *d) {
  attend_reading *x;
  if (folder && !make_folder(folder)) return EXIT_FAILED;
  attend_status status = attend_reading_create(s->m.model, NULL, &x);
  if (!status)
    say_plan((double)r->count,
             base_bytes(s, d) + (double)attend_reading_bytes(x) +
                 (double)r->capacity * sizeof *r->id + batch_bytes(s, 1),
             "%lld tokens, read %d times in portions", (long long)r->count,
             attend_model_config(s->m.model)->encoder.layers + 1);
  if (!status) status = attend_reading_begin(x, r->count, r->id);
  int code = status ? complain_status(s->m.ctx, status) : EXIT_OK;
  if (!code && folder) code = resume(s, x, folder);
  if (!code) {
    status = read_on(x, folder);
    code = status ? complain_status(s->m.ctx, status) : EXIT_OK;
  }
  if (!code && !attend_reading_done(x)) code = say_interrupted(x, folder);
  if (!code) code = write_from(s, x, r->count, d);
  attend_reading_free(x);
  return code;
}

int linear_write(const summarize_options *o, summarizer *s, const char *folder,
                 summary_document *d) {
  attend_model *own = s->m.model, *other = NULL;
  id_row ids = {0};
  attend_status status = choose_form(o, s, &other);
  if (!status) status = read_ids(s, d, &ids);
  if (other) s->m.model = other;
  int code = status ? complain_status(s->m.ctx, status)
                    : read_and_write(s, &ids, folder, d);
  s->m.model = own;
  attend_model_free(other);
  free(ids.id);
  return code;
}
