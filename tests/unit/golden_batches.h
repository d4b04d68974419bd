/* The batches for which Hugging Face transformers computed the golden models' results. */
#ifndef TESTS_GOLDEN_BATCHES_H
#define TESTS_GOLDEN_BATCHES_H

#include "attend/train.h"
#include "golden_models.h"

typedef struct {
  int count, length, decoder_length;
  int32_t *ids, *lengths, *types, *decoder_ids, *targets;
} golden_batch;

static inline int32_t *integers(const attend_tensor_file *file, const char *name, int *rows,
                                int *columns) {
  const attend_tensor *t = attend_tensor_file_find(file, name);
  if (!t) return NULL;
  int32_t *to = zeroed_block((size_t)t->count, sizeof *to);
  for (int64_t i = 0; i < t->count; i++) {
    int64_t x;
    memcpy(&x, (const char *)t->data + 8 * i, sizeof x);
    to[i] = (int32_t)x;
  }
  *rows = (int)t->shape[0];
  *columns = (int)t->shape[1];
  return to;
}

/* Masks are 1 for real tokens, from the first on. */
static inline int32_t *count_real(const int32_t *mask, int batch, int length) {
  int32_t *real = zeroed_block((size_t)batch, sizeof *real);
  for (int b = 0; b < batch; b++)
    for (int i = 0; i < length; i++) real[b] += mask[b * length + i];
  return real;
}

/* What is not scored is padding to the decoder. */
static inline int32_t *shifted(const int32_t *labels, int batch, int n, int32_t first,
                               int32_t pad) {
  int32_t *to = zeroed_block((size_t)(batch * n), sizeof *to);
  for (int b = 0; b < batch; b++)
    for (int i = 0; i < n; i++)
      to[b * n + i] = i == 0 ? first : labels[b * n + i - 1] >= 0 ? labels[b * n + i - 1] : pad;
  return to;
}

/* Causal models: row 0, every token predicts the next. */
static inline int32_t *next_tokens(const int32_t *ids, int n) {
  int32_t *to = zeroed_block((size_t)n, sizeof *to);
  for (int i = 0; i < n; i++) to[i] = i + 1 < n ? ids[i + 1] : -1;
  return to;
}

static inline golden_batch read_golden(const attend_tensor_file *file, const attend_config *c) {
  golden_batch s = {0};
  int rows, columns = 0;
  s.ids = integers(file, "ids", &s.count, &s.length);
  int32_t *mask = integers(file, "mask", &rows, &columns);
  int32_t *labels = integers(file, "labels", &rows, &columns);
  s.types = integers(file, "token_type_ids", &rows, &s.decoder_length);
  s.lengths = count_real(mask, s.count, s.length);
  s.decoder_length = 0;
  if (c->parts == ATTEND_DECODER) {
    s.count = 1;
    s.length = s.lengths[0];
    s.targets = next_tokens(s.ids, s.length);
  } else if (c->parts == ATTEND_BOTH) {
    s.decoder_length = columns;
    s.decoder_ids = shifted(labels, s.count, columns, c->decoder_start, c->pad);
    s.targets = labels;
  } else {
    s.targets = labels;
  }
  free(mask);
  return s;
}

static inline attend_batch batch_of(const golden_batch *s) {
  return (attend_batch){ATTEND_INIT(attend_batch),
                        .count = s->count,
                        .length = s->length,
                        .ids = s->ids,
                        .lengths = s->lengths,
                        .types = s->types,
                        .decoder_length = s->decoder_length,
                        .decoder_ids = s->decoder_ids,
                        .targets = s->targets};
}

static inline void free_golden(golden_batch *s) {
  free(s->ids);
  free(s->lengths);
  free(s->types);
  free(s->decoder_ids);
  free(s->targets);
}

static inline attend_trainer *open_trainer(attend_context *ctx, const char *name,
                                           const attend_trainer_options *o,
                                           attend_checkpoint **files) {
  attend_trainer *l;
  OK(ctx, attend_checkpoint_open(ctx, model_path(name, NULL), files));
  OK(ctx, attend_trainer_create(*files, o, &l));
  return l;
}

#endif
