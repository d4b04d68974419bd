/* For tests of interventions and attributions: the goldens that PyTorch computed
 * (golden/make_interventions.py), and the models and texts they are of. */
#ifndef TESTS_INTERVENTION_GOLDENS_H
#define TESTS_INTERVENTION_GOLDENS_H

#include <math.h>

#include "attend/intervene.h"
#include "golden_models.h"

static const char *const golden[] = {"gpt2", "llama-gqa", "bert", NULL};

typedef struct {
  subject s;
  attend_tensor_file *file;
  attend_tokens text, other, corpus[3];
  int rows, vocab;
  float *before, *after, *hidden[2];
  double worst; /* of the goldens compared so far */
} bench;

static inline const attend_tensor *tensor_of(const bench *t, const char *name) {
  const attend_tensor *x = attend_tensor_file_find(t->file, name);
  if (!x) printf("the goldens have no %s\n", name), exit(1);
  return x;
}

static inline attend_tokens tokens_of(const int32_t *ids, int n) {
  return (attend_tokens){ATTEND_INIT(attend_tokens), .ids = ids, .n = n};
}

static inline bench open_bench(const char *family, const char *isa) {
  bench t = {.s = open_model(family, isa, 2, NULL)};
  char path[1024];
  const char *folder = getenv("ATTEND_GOLDEN");
  snprintf(path, sizeof path, "%s/interventions/%s.safetensors", folder ? folder : "tests/golden",
           family);
  OK(t.s.ctx, attend_tensor_file_open(t.s.ctx, path, &t.file));
  const attend_tensor *ids = tensor_of(&t, "ids");
  const int n = (int)ids->count;
  t.text = tokens_of(ids->data, n);
  t.other = tokens_of(tensor_of(&t, "from_ids")->data, n);
  for (int i = 0; i < 3; i++)
    t.corpus[i] = tokens_of((const int32_t *)tensor_of(&t, "corpus")->data + i * n, n);
  t.rows = n;
  t.vocab = t.s.config->vocab;
  t.before = zeroed_block((size_t)(t.rows * t.vocab), sizeof(float));
  t.after = zeroed_block((size_t)(t.rows * t.vocab), sizeof(float));
  const int width = (int)fmax(t.s.config->encoder.width, t.s.config->decoder.width);
  for (int i = 0; i < 2; i++) t.hidden[i] = zeroed_block((size_t)(t.rows * width), sizeof(float));
  return t;
}

static inline void close_bench(bench *t) {
  free(t->before), free(t->after), free(t->hidden[0]), free(t->hidden[1]);
  attend_tensor_file_free(t->file);
  close_model(&t->s);
}

static inline double difference(const float *a, const float *b, size_t n) {
  double worst = 0;
  for (size_t i = 0; i < n; i++) worst = fmax(worst, fabs((double)a[i] - (double)b[i]));
  return worst;
}

#endif
