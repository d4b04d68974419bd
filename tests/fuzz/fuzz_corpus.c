/* Files of texts: the first byte chooses the kind of file and what it is for, the
 * rest is the file. What is refused has a sentence and leaves the corpus as it was;
 * what is taken becomes batches. */
#include "attend/train.h"
#include "attend/model.h"
#include "fuzz.h"

static const struct {
  const char *name;
  attend_task task;
  attend_parts parts;
} kinds[] = {{"a.txt", ATTEND_LEARN_CAUSAL, ATTEND_DECODER},
             {"a.txt", ATTEND_LEARN_MASKED, ATTEND_ENCODER},
             {"a.jsonl", ATTEND_LEARN_CAUSAL, ATTEND_DECODER},
             {"a.jsonl", ATTEND_LEARN_PAIRS, ATTEND_BOTH},
             {"a.tsv", ATTEND_LEARN_PAIRS, ATTEND_BOTH},
             {"a.tsv", ATTEND_LEARN_PAIRS, ATTEND_DECODER}};
enum { KINDS = sizeof kinds / sizeof *kinds };

static attend_tokenizer *tokenizer(attend_context *ctx) {
  static attend_tokenizer *t;
  const char *golden = getenv("ATTEND_GOLDEN");
  char path[1024];
  snprintf(path, sizeof path, "%s/tokens/tok512.bin", golden ? golden : "tests/golden");
  if (!t) MUST(!attend_tokenizer_load(ctx, path, &t));
  return t;
}

static void check_batch(const attend_batch *l) {
  int scored = 0, places = l->count * (l->decoder_length ? l->decoder_length : l->length);
  for (int i = 0; i < l->count * l->length; i++) MUST(l->ids[i] >= 0 && l->ids[i] < 512);
  for (int i = 0; i < l->count * l->decoder_length; i++)
    MUST(l->decoder_ids[i] >= 0 && l->decoder_ids[i] < 512);
  for (int i = 0; i < places; i++) scored += l->targets[i] >= 0;
  for (int i = 0; i < places; i++) MUST(l->targets[i] < 512);
  MUST(scored == attend_batch_scored(l));
}

static void use_batches(attend_context *ctx, const attend_corpus *c, int k) {
  attend_batch_options o = {ATTEND_INIT(attend_batch_options),
                            .task = kinds[k].task,
                            .parts = kinds[k].parts,
                            .batch = 3,
                            .length = 64,
                            .start = 1,
                            .mask = 3,
                            .cls = 1,
                            .sep = 2,
                            .vocab = 512};
  attend_batches *b;
  if (attend_batches_create(c, &o, &b)) {
    MUST(*attend_message(ctx));
    return;
  }
  for (uint64_t i = 0; i < 4; i++) {
    attend_batch l = {ATTEND_INIT(attend_batch)};
    MUST(!attend_batches_get(b, i * i, &l));
    check_batch(&l);
  }
  attend_batches_free(b);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
  attend_context *ctx = fuzz_context(length);
  attend_corpus *c;
  if (!length) return 0;
  int k = bytes[0] % KINDS;
  attend_corpus_options o = {ATTEND_INIT(attend_corpus_options),
                             .tokenizer = tokenizer(ctx),
                             .task = kinds[k].task,
                             .parts = kinds[k].parts,
                             .end = 2,
                             .source_length = 40,
                             .target_length = 20};
  size_t live = fuzz_live;
  MUST(!attend_corpus_create(ctx, &c));
  uint64_t digest = attend_corpus_digest(c);
  const char *path = fuzz_file(kinds[k].name, bytes + 1, length - 1);
  if (attend_corpus_read(c, path, &o)) {
    MUST(*attend_message(ctx));
    MUST(attend_corpus_digest(c) == digest && !attend_corpus_dropped(c));
  } else {
    MUST(attend_corpus_documents(c) > 0);
    use_batches(ctx, c, k);
  }
  attend_corpus_free(c);
  MUST(fuzz_live == live);
  return 0;
}
