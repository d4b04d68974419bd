/* A model by its folder or name, and text that it generates:
 * 09_generate [MODEL [PROMPT [TOKENS]]]
 *
 * MODEL is a folder in Hugging Face layout (a checkpoint and a tokenizer), attend:NAME,
 * hf:OWNER/NAME or npm:PACKAGE; without one it is the smallest of the stories models,
 * among the tests' files. First greedy decoding, streamed; then two samples in one
 * batch. The same seed gives the same texts, alone or in a batch: the program draws the
 * second one again by itself and compares.
 */
#include <attend/attend.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static attend_context *ctx;
static attend_model *model;
static attend_tokenizer *tokenizer;
static attend_encoding *encoding;

#define TRY(call) \
  if (call) return fprintf(stderr, "%s\n", attend_message(ctx)), 1

static int load(const char *name) {
  char folder[ATTEND_PATH_SIZE];
  TRY(attend_context_create(NULL, &ctx));
  TRY(attend_open(ctx, name, &model));
  TRY(attend_model_find(ctx, name, folder));
  attend_status status = attend_tokenizer_load(ctx, folder, &tokenizer);
  if (status == ATTEND_UNSUPPORTED) /* a build without tokenizers */
    return printf("%s\n", attend_message(ctx)), 0;
  TRY(status);
  TRY(attend_encoding_create(tokenizer, &encoding));
  return 0;
}

static int print_piece(const attend_token *token, void *user) {
  (void)user;
  fwrite(token->text, 1, token->length, stdout);
  fflush(stdout);
  return 0; /* go on */
}

/* A generation that failed says why, to the thread that made it. */
static int failed(attend_generation *g) {
  fprintf(stderr, "%s\n", attend_generation_message(g));
  attend_generation_free(g);
  return 1;
}

static int tell(attend_prompt prompt, attend_generate_options o) {
  attend_generation *g;
  o.on_token = print_piece;
  if (attend_generate(model, 1, &prompt, &o, &g)) return failed(g);
  attend_generation_cost cost = attend_generation_costs(g);
  printf("\n(%d tokens, %.0f a second)\n\n", cost.new_tokens, cost.new_tokens / cost.new_seconds);
  attend_generation_free(g);
  return 0;
}

/* Two texts, drawn at once; then both again, one at a time. */
static int draw(attend_prompt prompt, attend_generate_options o) {
  attend_generation *both, *again;
  o.temperature = 0.8f;
  o.top_p = 0.9f;
  o.seed = 9;
  o.samples = 2;
  if (attend_generate(model, 1, &prompt, &o, &both)) return failed(both);
  o.batch = 1;
  if (attend_generate(model, 1, &prompt, &o, &again)) return failed(again);
  int same = 1;
  for (int i = 0; i < 2; i++) {
    const char *text = attend_generation_get(both, i)->text;
    printf("%d:%s\n\n", i + 1, text);
    same = same && !strcmp(text, attend_generation_get(again, i)->text);
  }
  printf("drawn again, the texts are %s\n", same ? "the same" : "OTHERS");
  attend_generation_free(both);
  attend_generation_free(again);
  return !same;
}

static int write_on(const char *text, int tokens) {
  TRY(attend_encode(encoding, text, strlen(text), NULL));
  attend_prompt prompt = {encoding->id, (int)encoding->count};
  attend_generate_options o = attend_generate_defaults();
  o.tokenizer = tokenizer;
  o.max_new = tokens;
  printf("%s", text);
  return tell(prompt, o) || draw(prompt, o);
}

int main(int argc, char **argv) {
  const char *name = argc > 1 ? argv[1] : "tests/golden/models/stories260K";
  const char *text = argc > 2 ? argv[2] : "Once upon a time";
  int tokens = argc > 3 ? atoi(argv[3]) : 60;
  int bad = load(name);
  if (!bad && tokenizer) bad = write_on(text, tokens);
  attend_encoding_free(encoding);
  attend_tokenizer_free(tokenizer);
  attend_model_free(model);
  attend_context_free(ctx);
  return bad;
}
