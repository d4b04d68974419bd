/* A model that read a text while a trace recorded it. */
#include "attend/text.h"
#include "studies/traced.h"

enum {
  DRAWN = 900, /* stream of tokens where there is no tokenizer */
  SEEN = ATTEND_AT_QUERY | ATTEND_AT_KEY | ATTEND_AT_VALUE | ATTEND_AT_DENOMINATOR |
         ATTEND_AT_HEAD_OUTPUT
};

/* ---- the text -------------------------------------------------------------------- */

static attend_status take_text(study_run *r, traced_text *t, size_t n) {
  TAKE(r, &t->ids, n + 1);
  TAKE(r, &t->separator, n + 1);
  t->n = (int)n;
  return ATTEND_OK;
}

static attend_status draw_text(study_run *r, traced_text *t, int n) {
  float *u = NULL;
  t->drawn = true;
  TAKE(r, &u, (size_t)n);
  TRY(take_text(r, t, (size_t)n));
  attend_random_uniform((attend_random){r->seed, DRAWN}, 0, (size_t)n, u);
  for (int i = 0; i < n; i++) t->ids[i] = (int32_t)((double)u[i] * t->vocab);
  return ATTEND_OK;
}

static attend_status copy_text(study_run *r, const attend_tokenizer *tok, const attend_encoding *e,
                               traced_text *t) {
  const bool continues = t->parts == ATTEND_DECODER;
  int32_t mark = attend_tokenizer_special(tok, ATTEND_SPECIAL_SEP);
  size_t n = e->count;
  if (mark < 0) mark = attend_tokenizer_special(tok, ATTEND_SPECIAL_EOS);
  while (continues && n > 1 && e->part[n - 1] < 0) n--; /* no end mark */
  if (n < 2) return study_fail(r, ATTEND_INVALID, "the text has %zu tokens: two are the least", n);
  TRY(take_text(r, t, n));
  for (size_t i = 0; i < n; i++) {
    t->ids[i] = e->id[i];
    t->separator[i] = mark >= 0 && e->id[i] == mark;
    t->separators += t->separator[i];
  }
  return ATTEND_OK;
}

static attend_status encode(study_run *r, const attend_tokenizer *tok, const char *text, int most,
                            traced_text *t) {
  attend_encoding *e = NULL;
  const attend_encode_options o = {ATTEND_INIT(attend_encode_options), .max_length = (size_t)most};
  attend_status status = attend_encoding_create(tok, &e);
  if (!status) status = attend_encode(e, text, strlen(text), &o);
  if (!status) status = copy_text(r, tok, e, t);
  attend_encoding_free(e);
  return status;
}

attend_status traced_text_read(study_run *r, const char *path, const char *text, int most,
                               traced_text *t) {
  attend_tokenizer *tok = NULL;
  attend_config *c;
  *t = (traced_text){0};
  TRY(attend_config_read(r->ctx, path, &c));
  t->family = study_format(r, "%s", attend_config_family(c));
  t->parts = attend_config_parts(c);
  t->position = (attend_positions)attend_config_get(c, ATTEND_CONFIG_POSITION);
  t->vocab = attend_config_get(c, ATTEND_CONFIG_VOCAB);
  const int positions = attend_config_get(c, ATTEND_CONFIG_POSITIONS);
  attend_config_free(c);
  if (t->position == ATTEND_POSITIONS_LEARNED && positions < most) most = positions;
  if (attend_tokenizer_load(r->ctx, path, &tok)) return draw_text(r, t, most);
  attend_status status = encode(r, tok, text, most, t);
  attend_tokenizer_free(tok);
  return status;
}

/* ---- the model over it -------------------------------------------------------------- */

static attend_status read_text(const traced *w, attend_session *run, const traced_text *t) {
  attend_hook hook = attend_trace_hook(w->trace);
  TRY(attend_session_set_hooks(run, 1, &hook));
  TRY(w->role == ATTEND_ENCODER_SELF ? attend_session_encode(run, 1, t->n, t->ids, NULL, NULL)
                                     : attend_session_extend(run, 1, t->n, t->ids, NULL));
  return attend_trace_status(w->trace);
}

static attend_status trace_text(study_run *r, const traced_text *t, traced *w) {
  const attend_trace_options o = {ATTEND_INIT(attend_trace_options), .points = SEEN, .rows = t->n};
  const attend_session_options rows = {ATTEND_INIT(attend_session_options), .rows = t->n};
  attend_session *run = NULL;
  TRY(attend_trace_create(r->ctx, &o, &w->trace));
  TRY(attend_session_create(w->model, &rows, &run));
  attend_status status = read_text(w, run, t);
  attend_session_free(run);
  TRY(status);
  TRY(attend_lens_create(w->model, w->trace, NULL, 0, &w->lens));
  if (!attend_lens_role(w->lens, w->role, &w->shape))
    return study_fail(r, ATTEND_UNSUPPORTED, "the model has no self-attention");
  return ATTEND_OK;
}

attend_status traced_open(study_run *r, const char *path, traced_weights weights,
                          const attend_form *form, const traced_text *text, traced *w) {
  const attend_model_options o = {ATTEND_INIT(attend_model_options), .form = form, .no_head = 1};
  *w = (traced){.role = text->parts & ATTEND_ENCODER ? ATTEND_ENCODER_SELF : ATTEND_DECODER_SELF};
  TRY(weights == TRACED_UNTRAINED ? attend_checkpoint_init(r->ctx, path, r->seed, &w->files)
                                  : attend_checkpoint_open(r->ctx, path, &w->files));
  TRY(attend_model_create(w->files, &o, &w->model));
  return trace_text(r, text, w);
}

void traced_close(traced *w) {
  attend_lens_free(w->lens);
  attend_trace_free(w->trace);
  attend_model_free(w->model);
  if (w->files) attend_checkpoint_close(w->files);
  *w = (traced){0};
}
