/* Output of attend generate: streamed text, notices, statistics, JSON.
 *
 * The standard output holds the generated text only; all else goes to the standard
 * error.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json_write.h"
#include "generate/generate.h"
#include "progress.h"
#include "table.h"
#include "text.h"

/* ---- text ------------------------------------------------------------------------ */

static void put_text(generate_run *run, const char *text, size_t length) {
  if (!length) return;
  put_printable(stdout, text, length);
  run->last = text[length - 1];
}

static void print_id(generate_run *run, int32_t id) {
  char text[16];
  int n = snprintf(text, sizeof text, "%s%d", run->last && run->last != '\n' ? " " : "", id);
  put_text(run, text, (size_t)n);
}

static void print_prompt(generate_run *run, const generate_prompt *p) {
  if (!run->o->echo) return;
  if (p->text) put_text(run, p->text, p->length);
  for (int i = 0; !p->text && i < p->ids.count; i++) print_id(run, p->ids.id[i]);
}

static void end_line(generate_run *run) {
  if (run->last && run->last != '\n') put_text(run, "\n", 1);
}

/* Only where there are several: "==> prompt 2, sample 1 <==". */
static void print_header(generate_run *run, const attend_continuation *c) {
  bool colour = is_colourful(stdout);
  const char *kind = run->how.beams > 1 ? "beam" : "sample";
  bool prompts = run->n_prompts > 1, samples = run->how.samples > 1;
  if (!prompts && !samples) return;
  printf("%s%s==> ", run->next ? "\n" : "", colour ? "\033[2m" : "");
  if (prompts) printf("prompt %d%s", c->prompt + 1, samples ? ", " : "");
  if (samples) printf("%s %d", kind, c->sample + 1);
  printf(" <==%s\n", colour ? "\033[0m" : "");
  run->last = '\n';
}

static void print_continuation(generate_run *run, const attend_continuation *c) {
  print_header(run, c);
  print_prompt(run, &run->prompt[c->prompt]);
  if (run->is_ids)
    for (int i = 0; i < c->count; i++) print_id(run, c->ids[i]);
  else
    put_text(run, c->text, strlen(c->text));
  if (run->last != '\n') put_text(run, "\n", 1);
  fflush(stdout);
}

/* ---- as it comes --------------------------------------------------------------------- */

static int on_token(const attend_token *t, void *user) {
  generate_run *run = user;
  run->tokens += t->id >= 0;
  run->slid += t->slid;
  if (!run->stream) return is_interrupted();
  if (run->is_ids && t->id >= 0)
    print_id(run, t->id);
  else if (!run->is_ids)
    put_text(run, t->text, t->length);
  fflush(stdout);
  return is_interrupted();
}

static int on_step(void *user) {
  generate_run *run = user;
  bool beams = run->how.beams > 1;
  run->steps++;
  if (!run->stream || !isatty(STDOUT_FILENO))
    progress_step(beams ? run->steps : run->tokens, beams ? "steps" : "tokens");
  return is_interrupted();
}

/* Continuations are printed in order, each once those before it are complete. */
static void on_done(const attend_continuation *one, void *user) {
  generate_run *run = user;
  run->done[one->prompt * run->how.samples + one->sample] = one;
  if (run->stream || run->o->common.json) return;
  for (; run->next < generate_count(run) && run->done[run->next]; run->next++) {
    progress_end();
    print_continuation(run, run->done[run->next]);
  }
}

void print_start(generate_run *run) {
  size_t count = (size_t)generate_count(run);
  run->done = need(count, sizeof *run->done);
  run->stream = count == 1 && run->how.beams == 1 && !run->o->common.json;
  run->how.on_token = on_token;
  run->how.on_step = on_step;
  run->how.on_done = on_done;
  run->how.user = run;
  if (run->stream) print_prompt(run, &run->prompt[0]);
  fflush(stdout);
  progress_start("generating",
                 (size_t)run->how.max_new * (run->how.beams > 1 ? (size_t)run->n_prompts : count));
}

/* ---- numbers --------------------------------------------------------------------------- */

typedef struct {
  attend_generation_cost cost;
  double prompt_rate, new_rate; /* tokens a second; NaN: there were none */
  double read_rate;             /* bytes a second */
} speeds;

static speeds measure(const generate_run *run, const attend_generation *g) {
  attend_generation_cost c = *attend_generation_costs(g);
  speeds s = {c, NAN, NAN, NAN};
  int fed = c.new_tokens;
  for (int i = 0; i < generate_count(run); i++) fed -= run->done[i] != NULL;
  s.prompt_rate = c.prompt_tokens / c.prompt_seconds;
  if (!c.steps) return s;
  if (run->how.beams == 1) s.new_rate = fed / c.new_seconds;
  s.read_rate = c.step_bytes / c.new_seconds;
  return s;
}

static const char *weights_name(attend_weights kind) {
  return kind == ATTEND_WEIGHTS_I8 ? "int8" : kind == ATTEND_WEIGHTS_BF16 ? "bf16" : "f32";
}

static const char *form_name(const generate_run *run) {
  const char *requested = run->o->model.attention;
  const char *trained = attend_config_attention(attend_model_config(run->m.model));
  return requested ? requested : *trained ? trained : "softmax";
}

static const char *as(cell_kind kind, double number) {
  static char texts[8][32];
  static int next;
  char *text = texts[next++ % 8];
  format_cell(kind, number, text, sizeof texts[0]);
  return text;
}

static void print_stats(const generate_run *run, const attend_generation *g) {
  speeds s = measure(run, g);
  const attend_generation_cost *c = &s.cost;
  fprintf(stderr, "model   %s, %s, %s weights, loaded in %s\n",
          attend_config_family(attend_model_config(run->m.model)), form_name(run),
          weights_name(run->o->model.weights), as(CELL_SECONDS, run->m.seconds));
  fprintf(stderr, "prompt  %d token%s in %s: %s tokens/s\n", c->prompt_tokens,
          c->prompt_tokens == 1 ? "" : "s", as(CELL_SECONDS, c->prompt_seconds),
          as(CELL_RATE, s.prompt_rate));
  fprintf(stderr, "new     %d token%s in %s: %s tokens/s, %d steps that read %sB/s\n",
          c->new_tokens, c->new_tokens == 1 ? "" : "s", as(CELL_SECONDS, c->new_seconds),
          as(CELL_RATE, s.new_rate), c->steps, as(CELL_NUMBER, s.read_rate));
  fprintf(stderr, "memory  weights %s, cache %s, work %s\n",
          as(CELL_BYTES, (double)attend_model_bytes(run->m.model)),
          as(CELL_BYTES, (double)c->cache_bytes), as(CELL_BYTES, (double)c->work_bytes));
}

/* ---- JSON ------------------------------------------------------------------------------- */

static void put_ids(json_writer *w, const char *name, const int32_t *ids, int count) {
  json_member(w, name);
  json_open(w, '[');
  for (int i = 0; i < count; i++) json_put_integer(w, ids[i]);
  json_close(w, ']');
}

static void put_words(json_writer *w, const generate_run *run, const attend_continuation *c) {
  static const char *const ends[] = {"length", "end", "stop", "context", "interrupted"};
  const generate_prompt *p = &run->prompt[c->prompt];
  json_member_number(w, "number", c->prompt);
  json_member_number(w, "sample", c->sample);
  json_member(w, "prompt");
  if (p->text)
    json_put_bytes(w, p->text, p->length);
  else
    json_put_null(w);
  json_member_string(w, "text", run->m.tokenizer ? c->text : NULL);
  json_member_string(w, "end", ends[c->end]);
  json_member_number(w, "tokens", c->count);
  json_member_number(w, "log_probability", c->log_probability);
  json_member_number(w, "score", run->how.beams > 1 ? c->score : NAN);
  put_ids(w, "prompt_ids", p->ids.id, p->ids.count);
  put_ids(w, "ids", c->ids, c->count);
}

/* Of the whole call, the same in each row. */
static void put_speeds(json_writer *w, const generate_run *run, const speeds *s) {
  json_member_string(w, "attention", form_name(run));
  json_member_string(w, "weights", weights_name(run->o->model.weights));
  json_member_number(w, "temperature", round(1e6 * (double)run->how.temperature) / 1e6);
  json_member(w, "seed");
  json_put_integer(w, (int64_t)run->how.seed);
  json_member_number(w, "load_s", run->m.seconds);
  json_member_number(w, "prompt_s", s->cost.prompt_seconds);
  json_member_number(w, "new_s", s->cost.new_seconds);
  json_member_number(w, "prompt_tokens_per_s", s->prompt_rate);
  json_member_number(w, "tokens_per_s", s->new_rate);
  json_member_number(w, "bytes_per_s", s->read_rate);
  json_member_number(w, "weights_bytes", (double)attend_model_bytes(run->m.model));
  json_member_number(w, "cache_bytes", (double)s->cost.cache_bytes);
}

static int print_json(const generate_run *run, const attend_generation *g) {
  json_writer w = json_rows_open(run->m.ctx);
  const attend_continuation *c;
  speeds s = measure(run, g);
  for (int i = 0; (c = attend_generation_get(g, i)); i++) {
    json_row_open(&w);
    put_words(&w, run, c);
    put_speeds(&w, run, &s);
    json_close(&w, '}');
  }
  return json_rows_close(&w, run->m.ctx);
}

/* ---- notices ------------------------------------------------------------------------------ */

static void warn_context(const generate_run *run) {
  int count = generate_count(run), full = 0;
  for (int i = 0; i < count; i++)
    full += run->done[i] && run->done[i]->end == ATTEND_FINISH_CONTEXT;
  if (run->slid)
    complain(
        "the context of %d tokens was full %d time%s, and its older half was "
        "dropped",
        run->context, run->slid, run->slid > 1 ? "s" : "");
  if (!full) return;
  char some[64] = "the text ended";
  if (count > 1) snprintf(some, sizeof some, "%d of %d texts ended", full, count);
  complain("%s because the context of %d tokens is full%s", some, run->context,
           run->how.beams > 1 ? "" : ": --slide drops its older half and continues");
}

int print_end(generate_run *run, const attend_generation *g) {
  int count = generate_count(run), code = EXIT_OK;
  progress_end();
  if (run->stream) end_line(run);
  if (run->o->common.json) {
    code = print_json(run, g);
  } else {
    for (; !run->stream && run->next < count; run->next++)
      if (run->done[run->next]) print_continuation(run, run->done[run->next]);
    code = check_written(stdout, "the text");
  }
  warn_context(run);
  if (run->o->stats) print_stats(run, g);
  return code;
}
