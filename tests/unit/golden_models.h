/* For tests of models: the golden checkpoints, their inputs, and runs over them. */
#ifndef TESTS_GOLDEN_MODELS_H
#define TESTS_GOLDEN_MODELS_H

#include <sys/stat.h>
#include <unistd.h>

#include "attend/generate.h"
#include "attend/model.h"
#include "attention_fixtures.h"
#include "model/config.h"

static const char *const families[] = {"gpt2",       "llama-gqa", "llama-mqa-tied", "bert",
                                       "distilbert", "roberta",   "bart",           "t5",
                                       "t5-gated",   NULL};
static const char *const decoders[] = {"gpt2",     "llama-gqa", "llama-mqa-tied", "bart", "t5",
                                       "t5-gated", NULL};

/* Valid until the fourth call after. */
static inline const char *model_path(const char *name, const char *file) {
  static char paths[4][1024];
  static int next;
  const char *golden = getenv("ATTEND_GOLDEN");
  char *path = paths[next++ % 4];
  snprintf(path, sizeof paths[0], "%s/models/%s%s%s", golden ? golden : "tests/golden", name,
           file ? "/" : "", file ? file : "");
  return path;
}

typedef struct {
  attend_context *ctx;
  attend_checkpoint *files;
  attend_model *model;
  const attend_config *config;
} subject;

static inline subject open_path(attend_context *ctx, const char *path,
                                const attend_model_options *options) {
  subject s = {.ctx = ctx};
  if (attend_checkpoint_open(ctx, path, &s.files) ||
      attend_model_create(s.files, options, &s.model)) {
    printf("%s: %s\n", path, attend_message(ctx));
    exit(1);
  }
  s.config = attend_model_config(s.model);
  return s;
}

/* With a context of its own. */
static inline subject open_model(const char *name, const char *isa, int threads,
                                 const attend_model_options *options) {
  return open_path(open_context(isa, threads, NULL), model_path(name, NULL), options);
}

static inline void close_files(subject *s) {
  attend_model_free(s->model);
  attend_checkpoint_free(s->files);
}

static inline void close_model(subject *s) {
  close_files(s);
  attend_context_free(s->ctx);
}

static inline attend_session *open_run(const subject *s, int batch, int rows) {
  attend_session_options o = {ATTEND_INIT(attend_session_options), .batch = batch, .rows = rows};
  attend_session *run;
  if (attend_session_create(s->model, &o, &run)) {
    printf("no run: %s\n", attend_message(s->ctx));
    exit(1);
  }
  return run;
}

/* ---- what the goldens were computed from ------------------------------------- */

typedef struct {
  attend_tensor_file *file;
  int sequences, tokens, decoder_tokens;
  int32_t *ids, *decoder_ids, *types, *lengths; /* ids [sequences][tokens] */
} inputs;

static inline int32_t *golden_ids(const attend_tensor_file *file, const char *name, int *rows,
                                  int *cols) {
  const attend_tensor *t = attend_tensor_file_find(file, name);
  if (!t) return NULL;
  int32_t *ids = zeroed_block((size_t)t->count, sizeof *ids);
  for (int64_t i = 0; i < t->count; i++) {
    int64_t id;
    memcpy(&id, (const char *)t->data + 8 * i, 8);
    ids[i] = (int32_t)id;
  }
  if (rows) *rows = (int)t->shape[0];
  if (cols) *cols = (int)t->shape[1];
  return ids;
}

static inline inputs open_inputs(attend_context *ctx, const char *name) {
  inputs in = {0};
  if (attend_tensor_file_open(ctx, model_path(name, "golden.safetensors"), &in.file)) {
    printf("%s\n", attend_message(ctx));
    exit(1);
  }
  in.ids = golden_ids(in.file, "ids", &in.sequences, &in.tokens);
  in.types = golden_ids(in.file, "token_type_ids", NULL, NULL);
  in.decoder_ids = golden_ids(in.file, "decoder_ids", NULL, &in.decoder_tokens);
  int32_t *mask = golden_ids(in.file, "mask", NULL, NULL);
  in.lengths = zeroed_block((size_t)in.sequences, sizeof *in.lengths);
  for (int i = 0; i < in.sequences * in.tokens; i++) in.lengths[i / in.tokens] += mask[i];
  free(mask);
  return in;
}

static inline void close_inputs(inputs *in) {
  free(in->ids);
  free(in->types);
  free(in->decoder_ids);
  free(in->lengths);
  attend_tensor_file_free(in->file);
}

/* n ids of a vocabulary, at random; not the ends of texts. */
static inline int32_t *random_ids(const attend_config *c, uint64_t seed, size_t n) {
  int32_t *ids = zeroed_block(n, sizeof *ids);
  float *u = zeroed_block(n, sizeof *u);
  attend_random_uniform((attend_random){seed, 3}, 0, n, u);
  int first = c->vocab > 8 ? 4 : 0;
  for (size_t i = 0; i < n; i++) ids[i] = first + (int32_t)(u[i] * (float)(c->vocab - first));
  free(u);
  return ids;
}

/* An encoder-decoder reads the same `n` tokens in every sequence. */
static inline void read_source(attend_session *run, const subject *s, int batch, int n) {
  if (s->config->parts != ATTEND_BOTH) return;
  int32_t *one = random_ids(s->config, 77, (size_t)n);
  int32_t *ids = zeroed_block((size_t)(batch * n), sizeof *ids);
  for (int b = 0; b < batch; b++) memcpy(ids + b * n, one, (size_t)n * sizeof *ids);
  OK(s->ctx, attend_session_encode(run, batch, n, ids, NULL, NULL));
  free(one);
  free(ids);
}

static inline int same_bits(const float *a, const float *b, size_t n) {
  return !memcmp(a, b, n * sizeof *a);
}

/* ---- a folder of this process -------------------------------------------------- */

static inline const char *models_folder(void) {
  static char folder[256];
  const char *tmp = getenv("TMPDIR");
  if (*folder) return folder;
  snprintf(folder, sizeof folder, "%s/attend-models-XXXXXX", tmp && *tmp ? tmp : "/tmp");
  if (!mkdtemp(folder)) exit(1);
  return folder;
}

static inline const char *in_folder(const char *name) {
  static char paths[4][512];
  static int next;
  char *path = paths[next++ % 4];
  snprintf(path, sizeof paths[0], "%s/%s", models_folder(), name);
  return path;
}

static inline void write_in_folder(const char *name, const void *bytes, size_t length) {
  FILE *f = fopen(in_folder(name), "wb");
  if (!f || fwrite(bytes, 1, length, f) != length || fclose(f)) {
    printf("%s cannot be written\n", in_folder(name));
    exit(1);
  }
}

/* Everything that tests put there; the folder itself when they are done. */
static inline void empty_folder(void) {
  static const char *const names[] = {"config.json",
                                      "generation_config.json",
                                      "model.safetensors",
                                      "tok512.bin",
                                      "model.safetensors.index.json",
                                      "a.safetensors",
                                      "b.safetensors",
                                      "c.safetensors",
                                      NULL};
  for (int i = 0; names[i]; i++)
    if (unlink(in_folder(names[i]))) rmdir(in_folder(names[i]));
}

static inline void remove_folder(void) {
  empty_folder();
  rmdir(models_folder());
}

#endif
