/* attend eval: how well a model predicts a text.
 *
 * The losses are attend/evaluate.h's; rouge.c has --rouge.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attend/evaluate.h"
#include "text.h"
#include "progress.h"
#include "model_open.h"
#include "table.h"

typedef struct {
  options common;
  model_options model;
  attend_evaluate_options evaluate;
  bool is_ids;
} eval_options;

typedef struct {
  const eval_options *o;
  model_opened m;
  attend_evaluation **text; /* [count] */
  int count;
  int current; /* the text that is scored now */
  int before;  /* tokens of the texts that are done */
  double loss; /* of those tokens */
  table rows;
} eval_run;

/* ---- options ------------------------------------------------------------------------ */

static const option_row own[] = {
    {"stride", "N", "Tokens that each window after the first scores (default: half of the context)",
     NUMBER(eval_options, evaluate.stride, 1, 1 << 24)},
    {"context", "N",
     "Tokens of a window (default: the model's positions, at most 2048; of a masked model at most "
     "128)",
     NUMBER(eval_options, evaluate.context, 1, 1 << 24)},
    {"limit", "N", "Score at most N tokens of each text",
     NUMBER(eval_options, evaluate.limit, 1, INT32_MAX)},
    {"batch", "N", "Windows computed together (default: 4)",
     NUMBER(eval_options, evaluate.batch, 1, 256)},
    {"ids", NULL, "The texts are token ids, without special tokens around them",
     FLAG(eval_options, is_ids)},
    {0}};
static const option_part parts[] = {{own, 0},
                                    {option_rows_json, offsetof(eval_options, common)},
                                    {option_rows_run, offsetof(eval_options, common)},
                                    {option_rows_model_name, offsetof(eval_options, model)},
                                    {option_rows_model, offsetof(eval_options, model)},
                                    {0}};

static void finish(struct argp_state *state, char **words, int count, void *input) {
  eval_options *o = input;
  model_words(state, words, count, &o->model);
  o->model.text = !o->is_ids;
}

static const verb_options verb_eval = {
    parts, "[MODEL] [FILE...]",
    "The perplexity of texts: files, or the standard input, by MODEL or attend:gutenberg. Loss is "
    "the mean of -log p over the "
    "tokens, in nats; perplexity its exponential; bits per byte the sum over the bytes of the text."
    "\vDecoders read windows of --context tokens, each ending --stride tokens after the one "
    "before. The first window scores all of its tokens, a later one the last --stride. Each token "
    "is scored once and sees at least context - stride + 1 tokens before it, unless the text has "
    "fewer. If the model has a begin token, it precedes the text, and the first token is scored "
    "too.\n\n"
    "Masked models read parts of --context tokens side by side, with one token masked at a time "
    "(pseudo-perplexity).\n\n"
    "Ctrl-C prints the results so far and exits with 130.\n\n"
    "attend eval --rouge scores summaries: see attend eval --rouge --help.",
    finish};

/* ---- texts ---------------------------------------------------------------------------- */

static const char *name_of(const eval_run *run, int i) {
  return run->o->model.count ? run->o->model.words[i] : "-";
}

static int set_ids(const eval_run *run, attend_evaluation *e, const char *text) {
  id_list ids = {0};
  attend_status status = ATTEND_OK;
  int code = input_ids(text, &ids);
  if (!code) status = attend_evaluation_set_ids(e, ids.id, ids.count);
  free(ids.id);
  return status ? complain_status(run->m.ctx, status) : code;
}

static int read_text(const eval_run *run, int i) {
  size_t length = 0;
  int code;
  attend_evaluation *e = run->text[i];
  char *text = input_named(name_of(run, i), &length, &code);
  if (!text) return code;
  if (run->o->is_ids) {
    code = set_ids(run, e, text);
  } else {
    attend_status status = attend_evaluation_set_text(e, text, length);
    if (status) code = complain_status(run->m.ctx, status);
  }
  free(text);
  return code;
}

static int show_progress(double done, const char *what, void *user) {
  const eval_run *run = user;
  const attend_evaluation *e = run->text[run->current];
  char now[64];
  int all = run->before + attend_evaluation_tokens(e);
  (void)done, (void)what;
  snprintf(now, sizeof now, "tokens, perplexity %.2f",
           exp((run->loss + attend_evaluation_loss(e)) / all));
  progress_step((size_t)all, now);
  return is_interrupted();
}

/* All evaluations are created before a text is read: what the model cannot do is
 * reported without waiting for the standard input. */
static int read_texts(eval_run *run) {
  attend_evaluate_options o = run->o->evaluate;
  attend_status status = ATTEND_OK;
  int code = EXIT_OK;
  o.progress = show_progress;
  o.user = run;
  run->count = run->o->model.count ? run->o->model.count : 1;
  run->text = need((size_t)run->count, sizeof(attend_evaluation *));
  for (int i = 0; i < run->count && !status; i++)
    status = attend_evaluation_create(run->m.model, run->m.tokenizer, &o, &run->text[i]);
  if (status) return complain_status(run->m.ctx, status);
  for (int i = 0; i < run->count && !code; i++) code = read_text(run, i);
  return code;
}

/* ---- results ------------------------------------------------------------------------------ */

static const column columns[] = {{"text", "text", CELL_TEXT},
                                 {"method", NULL, CELL_TEXT},
                                 {"tokens", "tokens", CELL_COUNT},
                                 {"bytes", "bytes", CELL_COUNT},
                                 {"loss", "loss", CELL_RATIO},
                                 {"perplexity", "perplexity", CELL_RATIO},
                                 {"bits_per_byte", "bits/byte", CELL_RATIO},
                                 {"context", "context", CELL_COUNT},
                                 {"stride", "stride", CELL_COUNT},
                                 {"complete", NULL, CELL_OK},
                                 {"seconds", NULL, CELL_SECONDS},
                                 {"tokens_per_s", "tokens/s", CELL_RATE},
                                 {NULL, NULL, CELL_TEXT}};

typedef struct {
  double tokens, bytes, loss, seconds;
  bool complete;
} result;

static void add_result(eval_run *run, const char *name, const result *r) {
  const attend_evaluation *e = run->text[0]; /* the options of all */
  double nan = NAN, mean = r->tokens > 0 ? r->loss / r->tokens : nan;
  double bits = r->bytes > 0 ? r->loss / log(2) / r->bytes : nan;
  int stride = attend_evaluation_stride(e);
  table_add(&run->rows, (cell[]){cell_text(name), cell_text(stride ? "windows" : "masked"),
                                 cell_number(r->tokens), cell_number(r->bytes), cell_number(mean),
                                 cell_number(exp(mean)), cell_number(bits),
                                 cell_number(attend_evaluation_context(e)),
                                 cell_number(stride ? stride : nan), cell_number(r->complete),
                                 cell_number(r->seconds), cell_number(r->tokens / r->seconds)});
}

static int score_text(eval_run *run, int i, result *all) {
  const attend_evaluation *e = run->text[i];
  double start = seconds_now();
  run->current = i;
  attend_status status = attend_evaluation_run(run->text[i]);
  if (status && status != ATTEND_STOPPED) return complain_status(run->m.ctx, status);
  result r = {.tokens = attend_evaluation_tokens(e),
              .bytes = attend_evaluation_bytes(e),
              .loss = attend_evaluation_loss(e),
              .seconds = seconds_now() - start,
              .complete = !status};
  run->before += attend_evaluation_tokens(e);
  run->loss += r.loss;
  all->tokens += r.tokens;
  all->bytes += r.bytes;
  all->loss += r.loss;
  all->seconds += r.seconds;
  all->complete = all->complete && r.complete;
  add_result(run, name_of(run, i), &r);
  return EXIT_OK;
}

static int report(const eval_run *run) {
  int code = run->o->common.json ? table_print_json(&run->rows, run->m.ctx, stdout)
                                 : table_print(&run->rows, stdout);
  if (!code && !isfinite(run->loss)) {
    complain("the model's logits are not finite: there is no loss");
    code = EXIT_FAILED;
  }
  if (code || !is_interrupted()) return code;
  complain("interrupted: the results are of the tokens scored so far");
  return EXIT_INTERRUPTED;
}

static int score_all(eval_run *run) {
  result all = {.complete = true};
  size_t target = 0;
  int code = EXIT_OK;
  for (int i = 0; i < run->count; i++) target += (size_t)attend_evaluation_target(run->text[i]);
  if (!target) {
    complain("there is no token to score: give a longer text");
    return EXIT_USAGE;
  }
  run->rows = table_start(columns);
  progress_start("scoring", target);
  interrupt_watch();
  for (int i = 0; i < run->count && !code && !is_interrupted(); i++)
    code = score_text(run, i, &all);
  progress_end();
  if (run->count > 1 && !code) {
    all.complete = all.complete && !is_interrupted();
    add_result(run, "all", &all);
  }
  if (!code) code = report(run);
  table_free(&run->rows);
  return code;
}

/* ---- the verb ------------------------------------------------------------------------------ */

int cmd_eval(int argc, char **argv) {
  for (int i = 1; i < argc && strcmp(argv[i], "--"); i++)
    if (!strcmp(argv[i], "--rouge")) return cmd_eval_rouge(argc, argv);
  eval_options o = {.model.takes = MODEL_TAKES_FILES,
                    .evaluate = {ATTEND_INIT(attend_evaluate_options)}};
  eval_run run = {.o = &o};
  options_read(&verb_eval, argc, argv, &o);
  int code = model_open(&o.common, &o.model, &run.m);
  if (!code) code = read_texts(&run);
  if (!code) code = score_all(&run);
  for (int i = 0; i < run.count; i++) attend_evaluation_free(run.text[i]);
  free(run.text);
  model_close(&run.m);
  return code;
}
