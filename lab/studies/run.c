/* What studies run: one attention, with its weights and gradients; a small untrained
 * model; a model that reads a text while a trace records it.
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "attend/text.h"
#include "studies/study.h"

/* ---- attention ----------------------------------------------------------------- */

typedef struct {
  const attend_desc *desc;
  float *weights; /* [B,H,T,S] */
} weight_sheet;

static void keep_stretch(const attend_weight_span *s, void *user) {
  const weight_sheet *w = user;
  const attend_desc *d = w->desc;
  size_t row = ((size_t)s->b * (size_t)d->heads + (size_t)s->h) * (size_t)d->q_len + (size_t)s->row;
  memcpy(w->weights + row * (size_t)d->kv_len + (size_t)s->key, s->weights,
         (size_t)s->n * sizeof *s->weights);
}

static attend_status look(attend_plan *plan, study_pass *p) {
  const attend_desc *d = attend_plan_desc(plan);
  weight_sheet sheet = {d, p->weights};
  memset(p->weights, 0,
         (size_t)d->batch * (size_t)d->heads * (size_t)d->q_len * (size_t)d->kv_len *
             sizeof *p->weights);
  return attend_observe(
      plan, attend_bhtd_input(p->q), attend_bhtd_input(p->k), p->lse,
      &(attend_observation){ATTEND_INIT(attend_observation), .each = keep_stretch, .user = &sheet});
}

static attend_status pass(attend_plan *plan, study_pass *p) {
  attend_view q = attend_bhtd_input(p->q), k = attend_bhtd_input(p->k), v = attend_bhtd_input(p->v),
              o = attend_bhtd(p->o);
  TRY(attend_forward(plan, q, k, v, o, p->lse));
  if (p->weights) TRY(look(plan, p));
  if (!p->d_o) return ATTEND_OK;
  return attend_backward(plan, q, k, v, o, p->lse, attend_bhtd_input(p->d_o), attend_bhtd(p->dq),
                         attend_bhtd(p->dk), attend_bhtd(p->dv), p->dbias);
}

attend_status study_attend(study_run *r, const attend_desc *desc, study_pass *p) {
  attend_desc d = *desc;
  attend_plan *plan;
  if (p->d_o) d.purpose |= ATTEND_FOR_BACKWARD;
  TRY(attend_plan_create(r->ctx, &d, &plan));
  attend_status status = pass(plan, p);
  p->weak_rows = attend_plan_weak_rows(plan);
  attend_plan_free(plan);
  return status;
}

attend_status study_tensors(study_run *r, const attend_desc *desc, uint64_t stream, int results,
                            study_pass *p) {
  const size_t B = desc->batch ? (size_t)desc->batch : 1, H = desc->heads ? (size_t)desc->heads : 1,
               G = desc->kv_heads ? (size_t)desc->kv_heads : H, D = (size_t)desc->dim,
               M = desc->dim_v ? (size_t)desc->dim_v : D, queries = B * H * (size_t)desc->q_len,
               keys = B * G * (size_t)desc->kv_len;
  float *q, *k, *v, *d_o = NULL;
  *p = (study_pass){0};
  TRY(study_draw(r, stream, queries * D, &q));
  TRY(study_draw(r, stream + 1, keys * D, &k));
  TRY(study_draw(r, stream + 2, keys * M, &v));
  TAKE(r, &p->o, queries * M);
  TAKE(r, &p->lse, queries);
  if (results & STUDY_WEIGHTS) TAKE(r, &p->weights, queries * (size_t)desc->kv_len);
  if (results & STUDY_GRADIENTS) {
    TRY(study_draw(r, stream + 3, queries * M, &d_o));
    TAKE(r, &p->dq, queries * D);
    TAKE(r, &p->dk, keys * D);
    TAKE(r, &p->dv, keys * M);
  }
  p->q = q, p->k = k, p->v = v, p->d_o = d_o;
  return ATTEND_OK;
}

/* ---- an untrained model ---------------------------------------------------------- */

/* A configuration is read from a directory: make one for the call. */
static attend_status fresh(study_run *r, const char *folder, const attend_architecture *a,
                           study_model *m) {
  const char *config = study_format(r, "%s/config.json", folder);
  if (!config) return study_fail(r, ATTEND_NO_MEMORY, "no memory");
  attend_status status = attend_config_write(r->ctx, config, a);
  if (!status) status = attend_checkpoint_init_pytorch(r->ctx, folder, r->seed, &m->files);
  unlink(config);
  return status;
}

attend_status study_untrained(study_run *r, const attend_architecture *a, study_model *m) {
  const char *where = getenv("TMPDIR");
  const char *pattern = study_format(r, "%s/attend-study-XXXXXX", where ? where : "/tmp");
  char *folder = NULL;
  *m = (study_model){0};
  if (!pattern) return study_fail(r, ATTEND_NO_MEMORY, "no memory");
  TAKE(r, &folder, strlen(pattern) + 1);
  strcpy(folder, pattern);
  if (!mkdtemp(folder))
    return study_fail(r, ATTEND_IO, "the folder %s cannot be made: %s", folder, strerror(errno));
  attend_status status = fresh(r, folder, a, m);
  rmdir(folder);
  if (!status) status = attend_model_create(m->files, NULL, &m->model);
  if (status) study_model_free(m);
  return status;
}

void study_model_free(study_model *m) {
  if (m->model) attend_model_free(m->model);
  if (m->files) attend_checkpoint_free(m->files);
  *m = (study_model){0};
}

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

static attend_status encode(study_run *r, const attend_tokenizer *tok, const char *text, int max,
                            traced_text *t) {
  attend_encoding *e = NULL;
  const attend_encode_options o = {ATTEND_INIT(attend_encode_options), .max_length = (size_t)max};
  attend_status status = attend_encoding_create(tok, &e);
  if (!status) status = attend_encode(e, text, strlen(text), &o);
  if (!status) status = copy_text(r, tok, e, t);
  attend_encoding_free(e);
  return status;
}

attend_status traced_text_read(study_run *r, const char *path, const char *text, int max,
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
  if (t->position == ATTEND_POSITIONS_LEARNED && positions < max) max = positions;
  if (attend_tokenizer_load(r->ctx, path, &tok)) return draw_text(r, t, max);
  attend_status status = encode(r, tok, text, max, t);
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
  if (w->files) attend_checkpoint_free(w->files);
  *w = (traced){0};
}
