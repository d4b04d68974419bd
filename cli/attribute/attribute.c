/* attend attribute: which tokens, heads and layers a prediction comes from (attend/attribute.h).
 * methods.c computes, print.c prints.
 */
#include "attribute/attribute.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

static const option_row own[] = {
    {.help = "Input:"},
    {"ids", "IDS", "Token ids in place of a text: \"5 9 12\"", TEXT(attribute_options, input.ids)},
    {"decoder-ids", "IDS", "With --ids: what an encoder-decoder has written",
     TEXT(attribute_options, input.decoder_ids)},
    {.help = "What is attributed:"},
    {"target", "TOKEN", "The logit of this token, or of #ID (default: the likeliest)",
     TEXT(attribute_options, target.target)},
    {"against", "TOKEN", "Minus the logit of this token", TEXT(attribute_options, target.against)},
    {"position", "N",
     "Of the token after which, or in whose place, is predicted (default: the mask, or the last; "
     "negative: from the end)",
     NUMBER(attribute_options, target.position, -(1 << 24), 1 << 24)},
    {.help = "How:"},
    {"method", "METHOD",
     "One of integrated (gradients, the default), gradient (x input), attention (x gradient), "
     "direct "
     "(contributions of heads and mlps) or lens (logit lens)",
     CHOICE(attribute_options, method, "integrated, gradient, attention, direct or lens")},
    {"baseline", "TOKEN",
     "Of integrated gradients: a token in place of every word, or zero: embeddings of zeros "
     "(default: the mask, padding or end token, else zero)",
     TEXT(attribute_options, baseline)},
    {"steps", "N", "Of integrated gradients (default: until complete to 1 %, at most 1024)",
     NUMBER(attribute_options, steps, 1, 1 << 20)},
    {"role", "ROLE", "Of --method attention: encoder, decoder or cross",
     WORD(attribute_options, role, "encoder, decoder or cross")},
    {"top", "K", "With --method lens --json: the K likeliest tokens (default: 1)",
     NUMBER(attribute_options, top, 1, 1000)},
    {.help = "Output:"},
    {"out", "FILE", "Write a picture or the numbers: .svg, .png, .html or .json",
     TEXT(attribute_options, out.path), .letter = 'o'},
    {"width", "PX", "Of the picture (default: 1200)",
     REAL(attribute_options, out.width, 480, 8000)},
    {"dark", NULL, "On a dark background", FLAG(attribute_options, out.dark)},
    {.help = "How it runs:"},
    {0}};
static const option_part parts[] = {{own, 0},
                                    {option_rows_model_name, offsetof(attribute_options, model)},
                                    {option_rows_model, offsetof(attribute_options, model)},
                                    {option_rows_run, offsetof(attribute_options, common)},
                                    {option_rows_json, offsetof(attribute_options, common)},
                                    {0}};

static void finish(struct argp_state *state, char **words, int count, void *input) {
  attribute_options *o = input;
  model_words(state, words, count, &o->model);
  token_words(state, &o->model, &o->input);
  if (o->method != METHOD_INTEGRATED && (o->baseline || o->steps))
    argp_error(state, "--baseline and --steps are for --method integrated");
  if (o->method != METHOD_ATTENTION && o->role)
    argp_error(state, "--role is for --method attention");
  if (o->method == METHOD_LENS && (o->target.target || o->target.against))
    argp_error(state,
               "the logit lens shows the likeliest tokens: leave --target and --against away");
  o->model.text = o->input.text != NULL;
}

static const verb_options verb_attribute = {
    parts, "[MODEL] TEXT [SECOND]",
    "Which tokens, heads and layers a predicted token comes from: each gets a score, and the sum "
    "of the scores is printed beside the true difference. Without MODEL it is attend:gutenberg."
    "\vThe prediction is that of the next token; of a masked model that in the place of [MASK]; of "
    "an encoder-decoder the last token that it writes, or the one after SECOND.",
    finish};

/* ---- the verb ----------------------------------------------------------------------------- */

/* A masked model predicts something of interest only where a token is missing. */
static bool has_position(const attribute_run *r) {
  const attend_config *c = attend_model_config(r->m->model);
  if (attend_config_parts(c) != ATTEND_ENCODER || r->text.mask >= 0) return true;
  if (r->o->target.position != INT_MIN || r->o->method == METHOD_LENS) return true;
  complain("%s predicts missing tokens: put [MASK] in the place of one, or name a --position",
           r->m->name);
  return false;
}

static int find_target(attribute_run *r) {
  const size_t vocab =
      (size_t)attend_config_get(attend_model_config(r->m->model), ATTEND_CONFIG_VOCAB);
  const size_t rows = (size_t)attend_tokens_rows(r->m->model, &r->text.tokens);
  float *logits = need(rows * vocab, sizeof *logits);
  attend_status status = attend_tokens_logits(r->m->model, &r->text.tokens, logits);
  int code = status ? complain_status(r->m->ctx, status)
                    : target_find(r->m, &r->o->target, &r->text, logits, &r->target);
  free(logits);
  return code;
}

static int run(attribute_run *r) {
  if (!has_logits(r->m) || !has_position(r)) return EXIT_USAGE;
  int code = r->o->method == METHOD_LENS ? EXIT_OK : find_target(r);
  if (!code) code = attribute_compute(r);
  return code ? code : attribute_print(r);
}

static void free_run(attribute_run *r) {
  if (r->labels) token_labels_free(r->labels, r->tokens);
  if (r->row_names) token_labels_free(r->row_names, r->rows);
  if (r->column_names) token_labels_free(r->column_names, r->columns);
  if (r->words) token_labels_free(r->words, r->rows * r->columns);
  token_text_free(&r->text);
  free(r->scores);
  free(r->map);
  free(r->ids);
  free(r->p);
}

int cmd_attribute(int argc, char **argv) {
  attribute_options o = {.top = 1, .target.position = INT_MIN};
  model_opened m = {0};
  options_read(&verb_attribute, argc, argv, &o);
  if (!score_path_check(o.out.path)) return EXIT_USAGE;
  attribute_run r = {.m = &m, .o = &o};
  int code = model_open(&o.common, &o.model, &m);
  if (!code) code = token_text_read(&m, &o.input, &r.text);
  if (!code) code = run(&r);
  free_run(&r);
  model_close(&m);
  return code;
}
