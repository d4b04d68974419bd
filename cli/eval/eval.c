/* attend eval: how well a model predicts a text.
 *
 * eval_score.c has the losses; here are options, texts and printing. eval_rouge.c is
 * for what models write.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "eval/eval.h"
#include "interrupt.h"
#include "progress.h"
#include "eval/rouge.h"
#include "table.h"

/* Windows longer than this are the caller's wish: their cost grows faster than
 * what they tell. */
enum { CONTEXT = 2048, MASKED_CONTEXT = 128, BATCH = 4 };

typedef struct {
  options common;
  model_options model;
  int stride, context, limit, batch;
  bool is_ids;
} eval_options;

typedef struct {
  const eval_options *o;
  model_opened m;
  eval_plan plan;
  bool masked;
  eval_text *text; /* [count] */
  int count;
  int before; /* tokens of the texts that are done */
  double before_loss;
  table rows;
} eval_run;

/* ---- options ------------------------------------------------------------------------ */

enum { KEY_STRIDE = 1500, KEY_CONTEXT, KEY_LIMIT, KEY_BATCH, KEY_IDS };

static const struct argp_option list[] = {
    {"stride", KEY_STRIDE, "N", 0,
     "Tokens that each window after the first scores (default: half of the "
     "context)",
     0},
    {"context", KEY_CONTEXT, "N", 0,
     "Tokens of a window (default: what the model was made for, at most 2048; "
     "of a masked model at most 128)",
     0},
    {"limit", KEY_LIMIT, "N", 0, "Score N tokens of each text at most", 0},
    {"batch", KEY_BATCH, "N", 0, "Windows at once (default: 4)", 0},
    {"ids", KEY_IDS, 0, 0,
     "The texts are token ids, with nothing put around them", 0},
    {0}};

static error_t parse(int key, char *arg, struct argp_state *state) {
  eval_options *o = state->input;
  switch (key) {
    case KEY_STRIDE:
      o->stride = (int)options_number(state, "--stride", arg, 1, 1 << 24);
      return 0;
    case KEY_CONTEXT:
      o->context = (int)options_number(state, "--context", arg, 1, 1 << 24);
      return 0;
    case KEY_LIMIT:
      o->limit = (int)options_number(state, "--limit", arg, 1, INT32_MAX);
      return 0;
    case KEY_BATCH:
      o->batch = (int)options_number(state, "--batch", arg, 1, 256);
      return 0;
    case KEY_IDS:
      o->is_ids = true;
      return 0;
    default:
      return model_parse(key, state, &o->model);
  }
}

static const struct argp argp = {
    .options = list,
    .parser = parse,
    .args_doc = "MODEL [FILE...]",
    .doc =
        "The perplexity of texts: files, or the standard input. Loss is the "
        "mean of -log p over the tokens, in nats; perplexity its exponential; "
        "bits per byte the sum over the bytes of the text."
        "\vDecoders read windows of --context tokens, each ending --stride "
        "tokens after the one before, and score those; the first scores all of "
        "its own. So each token is scored once, and has at least context - "
        "stride + 1 tokens before it unless the text has fewer. A begin token "
        "stands before the text if the model has one, so that the first token "
        "counts too.\n\n"
        "Masked models read parts of --context tokens side by side, with one "
        "token masked at a time (pseudo-perplexity).\n\n"
        "Ctrl-C reports what was done so far and exits with 130.\n\n"
        "attend eval --rouge scores summaries: see attend eval --rouge --help.",
    .children = model_children};

/* ---- texts ---------------------------------------------------------------------------- */

static char *read_file(const char *name, size_t *length, int *code) {
  FILE *in = fopen(name, "rb");
  if (!in) {
    complain("%s cannot be read: %s", name, strerror(errno));
    *code = EXIT_FAILED;
    return NULL;
  }
  char *text = input_all(in, name, length, code);
  fclose(in);
  return text;
}

static void add_token(eval_text *t, int32_t id, size_t end, size_t capacity) {
  if (!t->end) t->end = need(capacity, sizeof *t->end);
  t->end[t->ids.count] = end;
  id_list_add(&t->ids, id);
}

/* A decoder has what begins a text before it, and nothing behind it; a masked
 * model what the tokenizer puts around. */
static void add_tokens(const eval_run *run, const attend_encoding *e,
                       size_t length, eval_text *t) {
  int32_t bos = attend_model_config(run->m.model)->bos;
  size_t last = e->count, reached = 0, room = e->count + 1;
  bool begins = e->count && e->part[0] < 0;
  while (last && e->part[last - 1] < 0) last--;
  if (!run->masked && !begins && bos >= 0) {
    add_token(t, bos, 0, room);
    t->front = 1;
  }
  for (size_t i = 0; i < (run->masked ? e->count : last); i++) {
    bool around = e->part[i] < 0;
    if (!around && e->end[i] > reached) reached = e->end[i];
    add_token(t, e->id[i], i + 1 == last ? length : reached, room);
    if (around && i < last) t->front++;
    if (around && i >= last) t->back++;
  }
}

static int encode(const eval_run *run, attend_encoding *e, const char *text,
                  size_t length, eval_text *t) {
  if (run->o->is_ids) return input_ids(text, &t->ids);
  attend_status status = attend_encode(e, text, length, NULL);
  if (status) return complain_status(run->m.ctx, status);
  add_tokens(run, e, length, t);
  return EXIT_OK;
}

static int read_texts(eval_run *run) {
  char **files = run->o->model.words;
  int count = run->o->model.count;
  attend_encoding *e = NULL;
  attend_status status =
      run->o->is_ids ? ATTEND_OK : attend_encoding_create(run->m.tokenizer, &e);
  int code = status ? complain_status(run->m.ctx, status) : EXIT_OK;
  run->count = count ? count : 1;
  run->text = need((size_t)run->count, sizeof *run->text);
  for (int i = 0; i < run->count && !code; i++) {
    size_t length = 0;
    run->text[i].name = count ? files[i] : "-";
    char *text = count ? read_file(files[i], &length, &code)
                       : input_all(stdin, "the standard input", &length, &code);
    if (!code) code = encode(run, e, text, length, &run->text[i]);
    free(text);
  }
  attend_encoding_free(e);
  return code;
}

/* ---- planning --------------------------------------------------------------------------- */

static void say_progress(int tokens, double loss, void *user) {
  const eval_run *run = user;
  char now[64];
  int all = run->before + tokens;
  snprintf(now, sizeof now, "tokens, perplexity %.2f",
           exp((run->before_loss + loss) / all));
  progress_step((size_t)all, now);
}

static int choose_context(eval_run *run) {
  const attend_config *c = attend_model_config(run->m.model);
  int most = run->masked ? MASKED_CONTEXT : CONTEXT;
  eval_plan *p = &run->plan;
  bool hard = c->position == ATTEND_POSITIONS_LEARNED;
  p->context = run->o->context ? run->o->context : c->positions;
  if (!run->o->context && (!p->context || p->context > most)) p->context = most;
  if (hard && p->context > c->positions) {
    complain("--context %d is more than the %d positions that the model has",
             p->context, c->positions);
    return EXIT_USAGE;
  }
  p->stride = run->o->stride ? run->o->stride : (p->context + 1) / 2;
  if (p->stride <= p->context) return EXIT_OK;
  complain(
      "--stride %d is more than the context of %d tokens: some would never "
      "be scored",
      p->stride, p->context);
  return EXIT_USAGE;
}

static int plan(eval_run *run) {
  const attend_config *c = attend_model_config(run->m.model);
  eval_plan *p = &run->plan;
  run->masked = c->parts == ATTEND_ENCODER;
  *p = (eval_plan){.batch = run->o->batch ? run->o->batch : BATCH,
                   .limit = run->o->limit,
                   .mask = -1,
                   .ctx = run->m.ctx,
                   .model = run->m.model,
                   .progress = say_progress,
                   .user = run};
  if (c->parts == ATTEND_BOTH) {
    complain(
        "%s writes an answer to a text, and a text alone has none: score its "
        "answers with --rouge",
        c->family);
    return EXIT_USAGE;
  }
  if (run->masked && run->o->stride) {
    complain(
        "--stride is for decoders, and %s is a masked model: choose "
        "--context",
        c->family);
    return EXIT_USAGE;
  }
  if (run->masked && run->o->is_ids) {
    complain(
        "--ids is for decoders: a masked model needs its tokenizer's mask");
    return EXIT_USAGE;
  }
  if (run->m.tokenizer)
    p->mask = attend_tokenizer_special(run->m.tokenizer, ATTEND_SPECIAL_MASK);
  if (run->masked && p->mask < 0) {
    complain("the tokenizer has no mask token, which %s is asked with",
             c->family);
    return EXIT_FAILED;
  }
  return choose_context(run);
}

/* ---- answers ------------------------------------------------------------------------------ */

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
} answer;

static void add_answer(eval_run *run, const char *name, const answer *a) {
  double nan = NAN, mean = a->tokens > 0 ? a->loss / a->tokens : nan;
  double bits = a->bytes > 0 ? a->loss / log(2) / a->bytes : nan;
  table_add(
      &run->rows,
      (cell[]){cell_text(name), cell_text(run->masked ? "masked" : "windows"),
               cell_number(a->tokens), cell_number(a->bytes), cell_number(mean),
               cell_number(exp(mean)), cell_number(bits),
               cell_number(run->plan.context),
               cell_number(run->masked ? nan : run->plan.stride),
               cell_number(a->complete), cell_number(a->seconds),
               cell_number(a->tokens / a->seconds)});
}

/* Bytes that the scored tokens stand for. */
static double bytes_of(const eval_text *t, const eval_sum *s) {
  if (!t->end) return NAN;
  if (!s->tokens) return 0;
  size_t before = s->first ? t->end[s->first - 1] : 0;
  return (double)(t->end[s->first + s->tokens - 1] - before);
}

static int score_text(eval_run *run, const eval_text *t, answer *all) {
  eval_sum sum;
  double start = seconds_now();
  attend_status status = run->masked ? eval_masked(&run->plan, t, &sum)
                                     : eval_causal(&run->plan, t, &sum);
  if (status) return complain_status(run->m.ctx, status);
  answer a = {.tokens = sum.tokens,
              .bytes = bytes_of(t, &sum),
              .loss = sum.loss,
              .seconds = seconds_now() - start,
              .complete = sum.tokens == eval_wanted(&run->plan, t)};
  run->before += sum.tokens;
  run->before_loss += sum.loss;
  all->tokens += a.tokens;
  all->bytes += a.bytes;
  all->loss += a.loss;
  all->seconds += a.seconds;
  all->complete = all->complete && a.complete;
  add_answer(run, t->name, &a);
  return EXIT_OK;
}

static int report(const eval_run *run) {
  int code = run->o->common.json
                 ? table_print_json(&run->rows, run->m.ctx, stdout)
                 : table_print(&run->rows, stdout);
  if (!code && !isfinite(run->before_loss)) {
    complain("the model gave logits that are no numbers: there is no loss");
    code = EXIT_FAILED;
  }
  if (code || !is_interrupted()) return code;
  complain("interrupted: the numbers are of what was done so far");
  return EXIT_INTERRUPTED;
}

static int score_all(eval_run *run) {
  answer all = {.complete = true};
  size_t wanted = 0;
  int code = EXIT_OK;
  for (int i = 0; i < run->count; i++)
    wanted += (size_t)eval_wanted(&run->plan, &run->text[i]);
  if (!wanted) {
    complain("there is no token to score: give a longer text");
    return EXIT_USAGE;
  }
  run->rows = table_start(columns);
  progress_start("scoring", wanted);
  interrupt_watch();
  for (int i = 0; i < run->count && !code && !is_interrupted(); i++)
    code = score_text(run, &run->text[i], &all);
  progress_end();
  if (run->count > 1 && !code) {
    all.complete = all.complete && !is_interrupted();
    add_answer(run, "all", &all);
  }
  if (!code) code = report(run);
  table_free(&run->rows);
  return code;
}

/* ---- the verb ------------------------------------------------------------------------------ */

int cmd_eval(int argc, char **argv) {
  if (is_eval_rouge(argc, argv)) return eval_rouge(argc, argv);
  eval_options o = {0};
  eval_run run = {.o = &o};
  argp_parse(&argp, argc, argv, 0, NULL, &o);
  o.model.text = !o.is_ids;
  int code = model_open(&o.common, &o.model, &run.m);
  if (!code) code = plan(&run);
  if (!code) code = read_texts(&run);
  if (!code) code = score_all(&run);
  for (int i = 0; i < run.count; i++) {
    free(run.text[i].ids.id);
    free(run.text[i].end);
  }
  free(run.text);
  model_close(&run.m);
  return code;
}
