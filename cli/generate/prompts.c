/* Prompts of attend generate: texts or ids, truncated to the context.
 *
 * A decoder's prompt is the beginning of a text: special tokens in front stay, those
 * at the end do not. An encoder reads a whole text, with all special tokens.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "generate/generate.h"

/* ---- gathering ----------------------------------------------------------------- */

static void add_prompt(generate_run *run, const char *text, size_t length) {
  size_t n = (size_t)run->n_prompts;
  if ((n & (n - 1)) == 0) /* room for twice as many */
    run->prompt = need_more(run->prompt, n, n ? 2 * n : 1, sizeof *run->prompt);
  generate_prompt *p = &run->prompt[run->n_prompts++];
  p->text = memcpy(need(length + 1, 1), text, length);
  p->length = length;
}

static void gather_lines(generate_run *run, const char *text, size_t length) {
  const char *end = text + length;
  while (text < end) {
    const char *line = memchr(text, '\n', (size_t)(end - text));
    if (!line) line = end;
    add_prompt(run, text, (size_t)(line - text));
    text = line + 1;
  }
}

/* The last line end comes from the shell or the editor, not from the author. */
static int gather_input(generate_run *run) {
  size_t length = 0;
  int code = EXIT_OK;
  char *text =
      isatty(STDIN_FILENO) ? need(1, 1) : input_all(stdin, "the standard input", &length, &code);
  if (run->o->lines)
    gather_lines(run, text, length);
  else
    add_prompt(run, text, length - (length && text[length - 1] == '\n'));
  free(text);
  return code;
}

int prompts_gather(generate_run *run) {
  const generate_options *o = run->o;
  for (int i = 0; i < o->n_prompts; i++) add_prompt(run, o->prompts[i], strlen(o->prompts[i]));
  return o->n_prompts ? EXIT_OK : gather_input(run);
}

void prompts_free(generate_run *run) {
  for (int i = 0; i < run->n_prompts; i++) {
    free(run->prompt[i].text);
    free(run->prompt[i].ids.id);
  }
  free(run->prompt);
}

/* ---- encoding ------------------------------------------------------------------- */

/* The begin-of-text token; -1 if there is none. */
static int32_t begin_token(const generate_run *run) {
  const attend_config *c = attend_model_config(run->m.model);
  const attend_tokenizer *t = run->m.tokenizer;
  if (c->bos >= 0) return c->bos;
  int32_t bos = t ? attend_tokenizer_special(t, ATTEND_SPECIAL_BOS) : -1;
  if (bos >= 0) return bos;
  if (c->n_eos) return c->eos[0];
  return t ? attend_tokenizer_special(t, ATTEND_SPECIAL_EOS) : -1;
}

static int begin_empty(const generate_run *run, generate_prompt *p) {
  int32_t begin = begin_token(run);
  if (p->ids.count) return EXIT_OK;
  if (begin < 0) {
    complain("the model names no token that begins a text: give a prompt");
    return EXIT_USAGE;
  }
  id_list_add(&p->ids, begin);
  return EXIT_OK;
}

static int encode_text(const generate_run *run, attend_encoding *e, generate_prompt *p) {
  bool whole = attend_model_config(run->m.model)->parts == ATTEND_BOTH;
  attend_status status = attend_encode(e, p->text, p->length, NULL);
  if (status) return complain_status(run->m.ctx, status);
  size_t count = e->count;
  while (!whole && count && e->part[count - 1] < 0 && (count > 1 || p->length)) count--;
  for (size_t i = 0; i < count; i++) id_list_add(&p->ids, e->id[i]);
  return begin_empty(run, p);
}

static int read_numbers(const generate_run *run, generate_prompt *p) {
  int code = input_ids(p->text, &p->ids);
  free(p->text);
  p->text = NULL;
  return code ? code : begin_empty(run, p);
}

/* ---- the context ------------------------------------------------------------------ */

static int check_context(const generate_run *run) {
  const attend_config *c = attend_model_config(run->m.model);
  int requested = run->o->how.context, made = c->positions;
  if (!requested || !made || requested <= made) return EXIT_OK;
  if (c->position == ATTEND_POSITIONS_LEARNED) {
    complain("--context %d is more than the %d positions that the model has", requested, made);
    return EXIT_USAGE;
  }
  complain(
      "the model was made for %d tokens: beyond them what it writes may "
      "fall apart",
      made);
  return EXIT_OK;
}

/* "the prompt", or which of them. */
static const char *name_of(const generate_run *run, int i) {
  static char name[32];
  if (run->n_prompts == 1) return "the prompt";
  snprintf(name, sizeof name, "prompt %d", i + 1);
  return name;
}

/* The first token stays if it is the begin token: models rely on it (attention
 * sinks). */
static void keep_last(const generate_run *run, int i) {
  generate_prompt *p = &run->prompt[i];
  int keep = run->context, gone = p->ids.count - keep;
  int front = p->ids.id[0] == attend_model_config(run->m.model)->bos;
  memmove(p->ids.id + front, p->ids.id + gone + front, (size_t)(keep - front) * sizeof *p->ids.id);
  p->ids.count = keep;
  complain(
      "%s is longer than the context of %d tokens: its first %d "
      "were left out",
      name_of(run, i), keep, gone);
}

static int fit(const generate_run *run, int i) {
  generate_prompt *p = &run->prompt[i];
  bool slides = run->how.window == ATTEND_WINDOW_SLIDE &&
                attend_model_config(run->m.model)->parts == ATTEND_DECODER;
  if (!run->context || p->ids.count <= run->context) return EXIT_OK;
  if (slides) {
    keep_last(run, i);
    return EXIT_OK;
  }
  complain("%s has %d tokens and the context holds %d: shorten it%s", name_of(run, i), p->ids.count,
           run->context,
           attend_model_config(run->m.model)->parts == ATTEND_DECODER
               ? ", or keep its last part with --slide"
               : "");
  return EXIT_USAGE;
}

int prompts_encode(generate_run *run) {
  attend_encoding *e = NULL;
  attend_status status = ATTEND_OK;
  int code = check_context(run);
  if (code) return code;
  if (!run->o->is_ids) status = attend_encoding_create(run->m.tokenizer, &e);
  if (status) return complain_status(run->m.ctx, status);
  for (int i = 0; i < run->n_prompts && !code; i++) {
    generate_prompt *p = &run->prompt[i];
    code = run->o->is_ids ? read_numbers(run, p) : encode_text(run, e, p);
    if (!code) code = fit(run, i);
  }
  attend_encoding_free(e);
  return code;
}
