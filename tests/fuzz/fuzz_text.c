/* Any bytes as text, through one tokenizer of each kind. An encoding that has
 * seen other texts says what a fresh one says. */
#include "fuzz.h"

static const char *const names[] = {"gpt2-vocab.json", "bert-tokenizer.json", "llama.model",
                                    "unigram.model", "tok512.bin"};
/* LARGE: bytes, so that the golden tokenizers are within what may be taken. */
enum { KINDS = sizeof names / sizeof *names, LARGE = 64 << 10 };

typedef struct {
  attend_tokenizer *t;
  attend_encoding *e;
  attend_detokenizer *d;
} world;

static void open_world(attend_context *ctx, world *w, const char *name) {
  char path[4096];
  const char *golden = getenv("ATTEND_GOLDEN");
  snprintf(path, sizeof path, "%s/tokens/%s", golden ? golden : "tests/golden", name);
  MUST(!attend_tokenizer_load(ctx, path, &w->t));
  MUST(!attend_encoding_create(w->t, &w->e));
  MUST(!attend_detokenizer_create(w->t, false, &w->d));
}

static world worlds[KINDS];

/* Before the clock of the first input runs. */
int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerInitialize(int *argc, char ***argv) {
  attend_context *ctx = fuzz_context(LARGE);
  (void)argc, (void)argv;
  for (int i = 0; i < KINDS; i++) open_world(ctx, &worlds[i], names[i]);
  return 0;
}

static void check_fresh(const world *w, const char *text, size_t length) {
  attend_encoding *e;
  MUST(!attend_encoding_create(w->t, &e));
  MUST(!attend_encode(e, text, length, NULL));
  MUST(e->count == w->e->count);
  MUST(!memcmp(e->id, w->e->id, e->count * sizeof *e->id));
  MUST(!memcmp(e->start, w->e->start, e->count * sizeof *e->start));
  MUST(!memcmp(e->end, w->e->end, e->count * sizeof *e->end));
  attend_encoding_free(e);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
  attend_context *ctx = fuzz_context(length + LARGE);
  if (!length) return 0;
  world *w = &worlds[bytes[0] % KINDS];
  const char *text = (const char *)bytes + 1;
  MUST(!attend_encode(w->e, text, length - 1, NULL));
  fuzz_check_encoding(w->t, w->e, length - 1,
                      &(attend_encode_options){ATTEND_INIT(attend_encode_options)});
  fuzz_check_decoding(ctx, w->d, w->e);
  if (length % 8 == 0) check_fresh(w, text, length - 1);
  return 0;
}
