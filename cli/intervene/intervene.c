/* attend intervene: what a model computes when parts of it are changed (attend/intervene.h).
 * changes.c reads the changes, print.c prints, sweep.c has --sweep.
 */
#include "intervene/intervene.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "attend/evaluate.h"
#include "attend/file.h"
#include "attend/generate.h"
#include "progress.h"
#include "table.h"

/* ---- options ------------------------------------------------------------------------------- */

static const option_row own[] = {
    {.help = "Input:"},
    {"ids", "IDS", "Token ids in place of a text: \"5 9 12\"", TEXT(intervene_options, input.ids)},
    {"decoder-ids", "IDS", "With --ids: what an encoder-decoder has written",
     TEXT(intervene_options, input.decoder_ids)},
    {.help = "Changes:"},
    {"ablate", "PLACES",
     "Ablate heads: 1.2,3.0; a layer's: 1; an mlp: mlp:3; may be repeated (default: as --mode "
     "says)",
     LIST(intervene_options, ablate), .letter = 'a'},
    {"mode", "MODE",
     "Ablated values: zero, mean over --corpus, or resample from --from (default: "
     "zero)",
     CHOICE(intervene_options, mode, "zero, mean or resample")},
    {"patch", "PLACES",
     "Activation patching from --from: residual:1:2-3 is the stream after layer 1 at tokens 2 and "
     "3",
     LIST(intervene_options, patch)},
    {"pin", "PLACE=PATTERN",
     "Pin a head's attention: 3.4=previous, or first, self, uniform; may be repeated",
     LIST(intervene_options, pin)},
    {"steer", "PLACE=FILE:NAME*X",
     "Add X times a vector of a .safetensors file: residual:6=v.safetensors:love*2; with "
     "--steer-from: residual:6*2",
     LIST(intervene_options, steer)},
    {"from", "TEXT", "The text that values are patched from", TEXT(intervene_options, from.text)},
    {"from-second", "TEXT", "Its second text", TEXT(intervene_options, from.second)},
    {"from-ids", "IDS", "Token ids in its place", TEXT(intervene_options, from.ids)},
    {"from-decoder-ids", "IDS", "And what an encoder-decoder has written",
     TEXT(intervene_options, from.decoder_ids)},
    {"corpus", "FILE", "A text on each line, for --mode mean", TEXT(intervene_options, corpus)},
    {"steer-from", "TEXT", "The vector of --steer is the mean of this text there",
     TEXT(intervene_options, steer_from)},
    {"minus", "TEXT", "Minus the mean of this text", TEXT(intervene_options, minus)},
    {.help = "Results:"},
    {"target", "TOKEN", "The token whose logit is compared, or #ID (default: the likeliest)",
     TEXT(intervene_options, target.target)},
    {"against", "TOKEN", "Subtract the logit of this token",
     TEXT(intervene_options, target.against)},
    {"position", "N",
     "The token after which, or in whose place, is predicted (default: the mask, or the last; "
     "negative: from the end)",
     NUMBER(intervene_options, target.position, -(1 << 24), 1 << 24)},
    {"top", "K", "Print the K likeliest tokens (default: 5)",
     NUMBER(intervene_options, top, 1, 1000)},
    {"loss", "FILE", "Compare the loss over a text", TEXT(intervene_options, loss)},
    {"generate", "N", "Continue the text by N tokens, without the changes and with them",
     NUMBER(intervene_options, new_tokens, 1, 1 << 20)},
    {"logits", "FILE", "Write logits of all tokens, before and after [T,V], as .safetensors",
     TEXT(intervene_options, logits)},
    {.help = "Sweeps:"},
    {"sweep", "AXIS",
     "A heat map: one change in every layer and head, or every layer and token (heads, tokens)",
     CHOICE(intervene_options, sweep, "none, heads or tokens")},
    {"point", "POINT",
     "What is changed (default: head_output; of tokens: residual, patched from --from or set to "
     "zero)",
     TEXT(intervene_options, point)},
    {"metric", "METRIC",
     "One of logit (default), probability, loss, kl and state (default without a head)",
     CHOICE(intervene_options, metric, "default, logit, probability, loss, kl or state")},
    {"batch", "N", "Places computed at once (default: by the length)",
     NUMBER(intervene_options, batch, 1, 4096)},
    {"out", "FILE", "Write the heat map: .svg, .png, .html or .json",
     TEXT(intervene_options, out.path), .letter = 'o'},
    {"width", "PX", "Its width (default: 1200)", REAL(intervene_options, out.width, 480, 8000)},
    {"dark", NULL, "On a dark background", FLAG(intervene_options, out.dark)},
    {.help = "How it runs:"},
    {0}};
static const option_part parts[] = {{own, 0},
                                    {option_rows_model_name, offsetof(intervene_options, model)},
                                    {option_rows_model, offsetof(intervene_options, model)},
                                    {option_rows_run, offsetof(intervene_options, common)},
                                    {option_rows_json, offsetof(intervene_options, common)},
                                    {0}};

static void check_sources(struct argp_state *state, const intervene_options *o) {
  const bool from = o->from.text || o->from.ids;
  if (o->mode == MODE_MEAN && !o->corpus)
    argp_error(state, "--mode mean is a mean over texts: name a file with --corpus");
  if (o->mode == MODE_RESAMPLE && !from)
    argp_error(state, "--mode resample takes values from another text: give it with --from");
  if (o->patch.count && !from)
    argp_error(state, "--patch takes values from another text: give it with --from or --from-ids");
  if (o->from.text && o->from.ids) argp_error(state, "give --from or --from-ids, not both");
  if (o->minus && !o->steer_from) argp_error(state, "--minus is subtracted from --steer-from");
  if (o->steer_from && !o->steer.count)
    argp_error(state, "--steer-from: say where with --steer, as in --steer residual:6*2");
}

static void check_sweep(struct argp_state *state, const intervene_options *o) {
  const size_t changes = o->ablate.count + o->patch.count + o->pin.count + o->steer.count;
  if (o->sweep && changes)
    argp_error(state,
               "--sweep makes its own changes: leave --ablate, --patch, --pin and --steer "
               "away");
  if (o->sweep && (o->logits || o->loss || o->new_tokens))
    argp_error(state, "--sweep goes without --logits, --loss and --generate");
  if (!o->sweep && (o->out.path || o->point || o->metric || o->batch))
    argp_error(state, "--out, --point, --metric and --batch are for --sweep");
}

static void finish(struct argp_state *state, char **words, int count, void *input) {
  intervene_options *o = input;
  model_words(state, words, count, &o->model);
  token_words(state, &o->model, &o->input);
  check_sources(state, o);
  check_sweep(state, o);
  const bool texts = o->input.text || o->from.text || o->corpus || o->steer_from || o->loss;
  o->model.text = texts || o->new_tokens;
}

static const verb_options verb_intervene = {
    parts, "[MODEL] TEXT [SECOND]",
    "Changes what a model computes and shows what follows: heads, layers and mlps ablated, "
    "activations patched from another text, steering vectors, attention pinned to a pattern. "
    "Without MODEL it is attend:gutenberg.\vA place is [ROLE:][POINT:]LAYER[.HEAD][:TOKENS], "
    "counted "
    "from 0: 1.2 is the output of head 2 in layer 1, mlp:3 an mlp, residual:1:2-3 the stream after "
    "layer 1 at tokens 2 and 3 (residual:in is that before layer 0), 2-4.* all heads of three "
    "layers. SECOND is an encoder's second text, or what an encoder-decoder has written.",
    finish};

/* ---- results -------------------------------------------------------------------------------- */

static int status_code(const intervene_run *r, attend_status status) {
  return status ? complain_status(r->m->ctx, status) : EXIT_OK;
}

static int run_both(intervene_run *r) {
  const attend_config *c = attend_model_config(r->m->model);
  const bool decodes = attend_config_parts(c) & ATTEND_DECODER;
  r->rows = attend_tokens_rows(r->m->model, &r->text.tokens);
  r->head = attend_checkpoint_has_head(r->m->files);
  r->width = r->head ? attend_config_get(c, ATTEND_CONFIG_VOCAB)
                     : attend_config_stack(c, decodes ? ATTEND_DECODER : ATTEND_ENCODER)->width;
  r->before = need((size_t)r->rows * (size_t)r->width, sizeof *r->before);
  r->after = need((size_t)r->rows * (size_t)r->width, sizeof *r->after);
  attend_status status =
      attend_intervention_create(r->m->model, r->changes.n, r->changes.change, &r->made);
  if (!status)
    status = (r->head ? attend_intervene : attend_intervene_hidden)(r->made, &r->text.tokens,
                                                                    r->before, r->after);
  return status_code(r, status);
}

/* Without changes and with them. */
static int measure(intervene_run *r, attend_metric_kind kind, double value[2]) {
  attend_metric m = {ATTEND_INIT(attend_metric), .kind = kind, .target = r->target};
  attend_status status =
      attend_metric_of(r->m->model, &m, &r->text.tokens, r->before, r->before, &value[0]);
  if (!status)
    status = attend_metric_of(r->m->model, &m, &r->text.tokens, r->before, r->after, &value[1]);
  return status_code(r, status);
}

static int measure_hidden(intervene_run *r) {
  const attend_config *c = attend_model_config(r->m->model);
  const bool decodes = attend_config_parts(c) & ATTEND_DECODER;
  const int width = attend_config_stack(c, decodes ? ATTEND_DECODER : ATTEND_ENCODER)->width;
  attend_metric m = {ATTEND_INIT(attend_metric), .kind = ATTEND_METRIC_STATE};
  float *x = need(2 * (size_t)r->rows * (size_t)width, sizeof *x), *y = x + r->rows * width;
  attend_status status = attend_intervene_hidden(r->made, &r->text.tokens, x, y);
  if (!status) status = attend_metric_of(r->m->model, &m, &r->text.tokens, x, y, &r->state);
  free(x);
  return status_code(r, status);
}

static int measure_all(intervene_run *r) {
  double kl[2] = {NAN, NAN};
  const bool decodes = attend_config_parts(attend_model_config(r->m->model)) & ATTEND_DECODER;
  int code = measure_hidden(r);
  if (code || !r->head) return code;
  code = target_find(r->m, &r->o->target, &r->text, r->before, &r->target);
  if (!code) code = measure(r, ATTEND_METRIC_LOGIT, r->value);
  if (!code) code = measure(r, ATTEND_METRIC_KL, kl);
  if (!code && decodes && r->rows > 1) code = measure(r, ATTEND_METRIC_LOSS, r->loss);
  r->kl = kl[1];
  return code;
}

/* ---- a file's loss, generation, logits ---------------------------------------------------------- */

static int file_loss(const intervene_run *r, const char *text, size_t length, bool changed,
                     double *loss) {
  attend_evaluate_options o = {ATTEND_INIT(attend_evaluate_options), .progress = progress_report};
  attend_evaluation *e;
  if (changed) o.hooks = attend_intervention_hooks(r->made, &o.n_hooks);
  attend_status status = attend_evaluation_create(r->m->model, r->m->tokenizer, &o, &e);
  if (status) return complain_status(r->m->ctx, status);
  progress_start(changed ? "with the changes" : "without changes", 1);
  status = attend_evaluation_set_text(e, text, length);
  if (!status) status = attend_evaluation_run(e);
  progress_end();
  *loss = attend_evaluation_loss(e) / attend_evaluation_tokens(e);
  if (status) complain("%s", attend_evaluation_message(e));
  attend_evaluation_free(e);
  return status == ATTEND_INVALID ? EXIT_USAGE : status ? EXIT_FAILED : EXIT_OK;
}

static int compare_file(intervene_run *r) {
  size_t length;
  int code = EXIT_OK;
  if (!r->o->loss) return EXIT_OK;
  char *text = strcmp(r->o->loss, "-") ? input_file(r->o->loss, &length)
                                       : input_all(stdin, "the standard input", &length, &code);
  if (!text || code) return free(text), code ? code : EXIT_FAILED;
  for (int i = 0; i < 2 && !code; i++) code = file_loss(r, text, length, i, &r->file[i]);
  free(text);
  return code;
}

static int write_text(const intervene_run *r, bool changed, char **text) {
  attend_generate_options how = {ATTEND_INIT(attend_generate_options)};
  attend_generation *g;
  how.max_new = r->o->new_tokens;
  how.tokenizer = r->m->tokenizer;
  if (changed) how.hooks = attend_intervention_hooks(r->made, &how.n_hooks);
  const attend_prompt prompt = {r->text.tokens.ids, r->text.tokens.n};
  attend_status status = attend_generate(r->m->model, 1, &prompt, &how, &g);
  if (!status) *text = need_copy(attend_generation_get(g, 0)->text);
  attend_generation_free(g);
  return status_code(r, status);
}

static int write_texts(intervene_run *r) {
  int code = EXIT_OK;
  if (!r->o->new_tokens) return EXIT_OK;
  if (attend_config_parts(attend_model_config(r->m->model)) == ATTEND_ENCODER) {
    complain("%s generates no text: leave --generate away", r->m->name);
    return EXIT_USAGE;
  }
  progress_start("generating", 1);
  progress_note("two texts");
  for (int i = 0; i < 2 && !code; i++) code = write_text(r, i, &r->written[i]);
  progress_end();
  return code;
}

static int write_logits(const intervene_run *r) {
  const size_t bytes = (size_t)r->rows * (size_t)r->width * sizeof(float);
  attend_tensor t = {.stored = ATTEND_STORED_F32,
                     .dtype = "F32",
                     .rank = 2,
                     .shape = {r->rows, r->width},
                     .count = (int64_t)r->rows * r->width,
                     .bytes = bytes};
  attend_tensor list[2] = {t, t};
  if (!r->o->logits) return EXIT_OK;
  if (!has_logits(r->m)) return EXIT_USAGE;
  list[0].name = "after", list[0].data = r->after;
  list[1].name = "before", list[1].data = r->before;
  return status_code(r, attend_tensor_file_write(r->m->ctx, r->o->logits, 2, list));
}

/* ---- the verb ------------------------------------------------------------------------------------- */

/* A sweep's target is resolved before it, so that its caption can name it. */
static int sweep(intervene_run *r) {
  int code = run_both(r);
  if (!code && r->head) code = target_find(r->m, &r->o->target, &r->text, r->before, &r->target);
  return code ? code : intervene_sweep(r);
}

static int intervene(intervene_run *r) {
  if (r->o->sweep) return sweep(r);
  int code = run_both(r);
  if (!code) code = measure_all(r);
  if (!code) code = compare_file(r);
  if (!code) code = write_texts(r);
  if (!code) code = write_logits(r);
  return code ? code : intervene_print(r);
}

static void free_run(intervene_run *r) {
  attend_intervention_free(r->made);
  changes_free(&r->changes);
  token_text_free(&r->text);
  free(r->before);
  free(r->after);
  free(r->written[0]);
  free(r->written[1]);
}

int cmd_intervene(int argc, char **argv) {
  intervene_options o = {.top = 5, .target.position = INT_MIN};
  model_opened m = {0};
  options_read(&verb_intervene, argc, argv, &o);
  if (!score_path_check(o.out.path)) return EXIT_USAGE;
  intervene_run r = {.m = &m,
                     .o = &o,
                     .kl = NAN,
                     .state = NAN,
                     .loss = {NAN, NAN},
                     .file = {NAN, NAN},
                     .value = {NAN, NAN}};
  int code = model_open(&o.common, &o.model, &m);
  if (!code) code = token_text_read(&m, &o.input, &r.text);
  if (!code) code = changes_read(&m, &o, &r.changes);
  if (!code) code = intervene(&r);
  free_run(&r);
  free(o.ablate.text);
  free(o.patch.text);
  free(o.pin.text);
  free(o.steer.text);
  model_close(&m);
  return code;
}
