/* What was learnt, as a checkpoint that others can read.
 *
 * Place: train/ - the way back out of a learner's layout: matrices under their own
 * names, turned again where their family stores them so.
 */
#include <string.h>

#include "base/files.h"
#include "train/learner.h"

typedef struct {
  attend_learner *l;
  const attend_tensor *tensors;
  float *turned; /* [largest] */
} saving;

static const parameter *parameter_of(const attend_learner *l, size_t i) {
  return &l->files->table.entry[l->entries[i].parameter];
}

static void turn_matrix(const parameter *p, const float *from, float *to) {
  size_t outputs = (size_t)p->shape[0], inputs = (size_t)p->shape[1];
  for (size_t o = 0; o < outputs; o++)
    for (size_t i = 0; i < inputs; i++)
      to[i * outputs + o] = from[o * inputs + i];
}

static attend_status fill(size_t i, void *to, void *user) {
  saving *s = user;
  const attend_learner *l = s->l;
  const parameter *p = parameter_of(l, i);
  const float *from = attend_learner_values(l, NULL) + l->entries[i].at;
  size_t n = (size_t)p->tensor->count;
  if (p->turned) {
    turn_matrix(p, from, s->turned);
    from = s->turned;
  }
  if (s->tensors[i].stored == ATTEND_STORED_BF16)
    attend_convert_from_f32(ATTEND_BF16, from, n, to);
  else
    memcpy(to, from, n * sizeof *from);
  return ATTEND_OK;
}

static void describe(const attend_learner *l, size_t i, attend_stored stored,
                     attend_tensor *t) {
  const parameter *p = parameter_of(l, i);
  *t = *p->tensor;
  t->name = p->name;
  t->stored = stored;
  t->data = NULL;
}

attend_status learner_save(attend_learner *l, const char *path,
                           attend_stored stored, attend_digest *digest) {
  saving s = {.l = l};
  attend_tensor *list;
  int64_t most = 0;
  ATTEND_CHECK(l->ctx,
               stored == ATTEND_STORED_F32 || stored == ATTEND_STORED_BF16,
               "a checkpoint is saved as f32 or bf16");
  ATTEND_TRY(take(l->ctx, l->n_entries * sizeof *list, "a list", &list));
  for (size_t i = 0; i < l->n_entries; i++) {
    describe(l, i, stored, &list[i]);
    if (parameter_of(l, i)->turned) most = max64(most, list[i].count);
  }
  s.tensors = list;
  attend_status status = take(l->ctx, (size_t)most * sizeof *s.turned,
                              "a turned matrix", &s.turned);
  if (!status)
    status =
        tensor_file_make(l->ctx, path, l->n_entries, list, fill, &s, digest);
  give(l->ctx, s.turned);
  give(l->ctx, list);
  return status;
}

attend_status attend_learner_save(attend_learner *l, const char *path,
                                  attend_stored stored) {
  return learner_save(l, path, stored, NULL);
}
