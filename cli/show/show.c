/* attend show: architecture, memory, cost per token.
 *
 * Headers and the configuration are read, weights are not.
 */
#include <stdlib.h>
#include <string.h>

#include "attend/problem.h"
#include "attend/text.h"
#include "model_open.h"
#include "show/print.h"

typedef struct {
  options common;
  model_options model;
  bool tensors;
} show_options;

enum { KEY_TENSORS = 1000 };

static const struct argp_option list[] = {
    {"tensors", KEY_TENSORS, 0, 0, "List the tensors, and what each is", 0}, {0}};

static error_t parse(int key, char *arg, struct argp_state *state) {
  show_options *o = state->input;
  (void)arg;
  switch (key) {
    case KEY_TENSORS:
      o->tensors = true;
      return 0;
    case ARGP_KEY_END:
      if (o->model.count)
        argp_error(state, "one model at a time: leave \"%s\" away", o->model.words[0]);
      return 0;
    default:
      return model_parse(key, state, &o->model);
  }
}

static const struct argp argp = {
    .options = list,
    .parser = parse,
    .args_doc = "MODEL",
    .doc =
        "The configuration, parameters and tensors of a model, the memory that "
        "running it takes, and what a token costs. The weights are not read."
        "\vWith --attention and --weights, costs are those of that form and "
        "of weights kept that way. With --json, one object.",
    .children = model_children};

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

static int show_files(const show_options *o, const char *path, model_facts *facts) {
  attend_tokenizer *tokenizer = NULL;
  attend_status status = facts_count(facts);
  if (status) return complain_status(facts->ctx, status);
  shown s = {.path = o->model.path, .facts = facts, .tensors = o->tensors};
  read_tokenizer(&s, facts->ctx, path, &tokenizer);
  int code = o->common.json ? show_json(&s) : show_lines(&s);
  attend_tokenizer_free(tokenizer);
  return code;
}

static int show(const show_options *o, attend_context *ctx, const char *path) {
  model_facts facts = {.ctx = ctx, .weights = o->model.weights};
  attend_checkpoint *files;
  attend_form form = {0};
  unsigned roles;
  attend_status status = model_form(ctx, &o->model, &form, &roles);
  if (!status) status = attend_checkpoint_open(ctx, path, &files);
  if (status) return complain_status(ctx, status);
  status = attend_config_forms(ctx, attend_checkpoint_config(files),
                               o->model.attention ? &form : NULL, roles, facts.forms);
  if (status) {
    attend_checkpoint_close(files);
    return complain_status(ctx, status);
  }
  facts.files = files;
  int code = show_files(o, path, &facts);
  attend_checkpoint_close(files);
  return code;
}

int cmd_show(int argc, char **argv) {
  show_options o = {0};
  int code;
  argp_parse(&argp, argc, argv, 0, NULL, &o);
  char *path = model_path(o.model.path, &code);
  if (!path) return code;
  attend_context *ctx = options_context(&o.common, NULL, &code);
  if (ctx) code = show(&o, ctx, path);
  attend_context_free(ctx);
  free(path);
  return code;
}
