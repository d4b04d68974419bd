/* attend show: architecture, memory, cost per token.
 *
 * Headers and the configuration are read, weights are not.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "attend/problem.h"
#include "attend/text.h"
#include "folders.h"
#include "model_open.h"
#include "show/show.h"

typedef struct {
  options common;
  model_options model;
  bool tensors;
} show_options;

static const option_row own[] = {
    {"tensors", NULL, "List the tensors, and what each is", FLAG(show_options, tensors)}, {0}};
static const option_part parts[] = {{own, 0},
                                    {option_rows_json, offsetof(show_options, common)},
                                    {option_rows_run, offsetof(show_options, common)},
                                    {option_rows_model_name, offsetof(show_options, model)},
                                    {option_rows_model, offsetof(show_options, model)},
                                    {0}};

static void finish(struct argp_state *state, char **words, int count, void *input) {
  show_options *o = input;
  model_words(state, words, count, &o->model);
  if (o->model.count)
    argp_error(state, "one model at a time: leave \"%s\" away", o->model.words[0]);
}

static const verb_options verb_show = {
    parts, "[MODEL]\nFILE.safetensors|.npz|.npy",
    "The configuration, parameters and tensors of a model, the memory that running it takes, and "
    "what a token costs. The weights are not read.\vWithout MODEL it is attend:gutenberg. Costs "
    "are those of --attention, --weights and --precision. "
    "--json prints one object.",
    finish};

/* What is not there is no failure: a model may be run on ids alone. */
static void read_tokenizer(shown *s, attend_context *ctx, const char *path,
                           attend_tokenizer **tokenizer) {
  if (attend_tokenizer_load(ctx, path, tokenizer)) {
    *tokenizer = NULL;
    if (!strstr(attend_message(ctx), "has no tokenizer")) s->refusal = attend_message(ctx);
    return;
  }
  s->tokenizer = attend_tokenizer_kind(*tokenizer);
  s->tokens = attend_tokenizer_count(*tokenizer);
}

static void add_cost(shown *s, const char *what, attend_token_cost cost) {
  attend_machine machine;
  if (cost.flops <= 0) return;
  shown_cost *c = &s->costs[s->n_costs++];
  s->measured = attend_machine_load(s->ctx, &machine);
  *c = (shown_cost){what, cost, {.arithmetic_s = NAN, .memory_s = NAN, .least_s = NAN}};
  if (s->measured) attend_machine_limit(&machine, cost.flops, cost.bytes, &c->limit);
}

static int show_files(const show_options *o, const char *path, shown *s,
                      const attend_form forms[ATTEND_ROLES]) {
  attend_tokenizer *tokenizer = NULL;
  attend_status status =
      attend_checkpoint_cost(s->files, forms, s->weights, s->activations, &s->cost);
  if (status) return complain_status(s->ctx, status);
  bool same = s->cost.state_form.kind == forms[ATTEND_DECODER_SELF].kind;
  s->state_form = same ? "this form" : "elu";
  add_cost(s, "encode", s->cost.encode);
  add_cost(s, "read", s->cost.read);
  add_cost(s, "write", s->cost.write);
  read_tokenizer(s, s->ctx, path, &tokenizer);
  int code = o->common.json ? show_json(s) : show_lines(s);
  attend_tokenizer_free(tokenizer);
  return code;
}

static int show(const show_options *o, attend_context *ctx, const char *name, const char *path) {
  attend_checkpoint *files = NULL;
  attend_form form = {0}, forms[ATTEND_ROLES];
  unsigned roles;
  attend_status status = model_form(ctx, &o->model, &form, &roles);
  if (!status) status = attend_checkpoint_open(ctx, path, &files);
  if (!status)
    status = attend_config_forms(ctx, attend_checkpoint_config(files),
                                 o->model.attention ? &form : NULL, roles, forms);
  shown s = {.ctx = ctx,
             .path = name,
             .files = files,
             .weights = o->model.weights,
             .activations = o->model.bf16 ? ATTEND_BF16 : ATTEND_F32,
             .cost = {ATTEND_INIT(attend_model_cost)},
             .tensors = o->tensors};
  int code = status ? complain_status(ctx, status) : show_files(o, path, &s, forms);
  attend_checkpoint_free(files);
  return code;
}

/* A file of tensors, in place of a model. */
static bool is_tensor_file(const char *name) {
  struct stat info;
  return (path_ends(name, ".safetensors") || path_ends(name, ".npz") || path_ends(name, ".npy")) &&
         !stat(name, &info) && S_ISREG(info.st_mode);
}

int cmd_show(int argc, char **argv) {
  show_options o = {.model.takes = MODEL_TAKES_NOTHING};
  int code;
  options_read(&verb_show, argc, argv, &o);
  char *name = model_name(&o.model, &code);
  bool file = name && is_tensor_file(name);
  char *path = name && !file ? model_path(name, &code) : NULL;
  attend_context *ctx = path || file ? options_context(&o.common, NULL, &code) : NULL;
  if (ctx) code = file ? show_tensor_file(ctx, name, o.common.json) : show(&o, ctx, name, path);
  attend_context_free(ctx);
  free(path);
  free(name);
  return code;
}
