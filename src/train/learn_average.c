/* The mean of several checkpoints: what the last steps of a course have in
 * common, without what each of them is off by.
 *
 * Place: train/ - see learner.h. Sums are double and taken in the order of the
 * list, so that the mean is the same bits everywhere.
 */
#include <string.h>

#include "train/learner.h"

typedef struct {
  attend_learner *l;
  int n;
  const char *const *folders;
  attend_checkpoint **files; /* [n] */
  double *sum;               /* [largest tensor] */
  float *one;                /* the same */
} averaging;

static const parameter *parameter_in(const attend_checkpoint *c,
                                     const learn_entry *e) {
  return &c->table.entry[e->parameter];
}

static bool is_same(const parameter *p, const parameter *q) {
  attend_dtype dtype;
  return p->slot == q->slot && p->of == q->of && p->layer == q->layer &&
         p->is_bias == q->is_bias && q->tensor &&
         tensor_dtype(q->tensor, &dtype) && p->rank == q->rank &&
         !memcmp(p->shape, q->shape, sizeof p->shape);
}

static attend_status open_one(averaging *a, int i) {
  const attend_learner *l = a->l;
  ATTEND_TRY(attend_checkpoint_open(l->ctx, a->folders[i], &a->files[i]));
  const attend_checkpoint *c = a->files[i];
  bool same = c->table.count == l->files->table.count;
  for (size_t j = 0; same && j < l->n_entries; j++)
    same = is_same(parameter_in(l->files, &l->entries[j]),
                   parameter_in(c, &l->entries[j]));
  ATTEND_CHECK(l->ctx, same,
               "%s has not the same tensors as the others: models of one shape "
               "can be averaged",
               a->folders[i]);
  return ATTEND_OK;
}

static attend_status open_all(averaging *a) {
  attend_learner *l = a->l;
  size_t largest = 0;
  for (size_t j = 0; j < l->n_entries; j++) {
    size_t n = (size_t)parameter_in(l->files, &l->entries[j])->tensor->count;
    if (n > largest) largest = n;
  }
  ATTEND_TRY(take_zeroed(l->ctx, (size_t)a->n * sizeof *a->files,
                         "the checkpoints", &a->files));
  ATTEND_TRY(take(l->ctx, largest * sizeof *a->sum, "a mean", &a->sum));
  ATTEND_TRY(take(l->ctx, largest * sizeof *a->one, "a mean", &a->one));
  for (int i = 0; i < a->n; i++) ATTEND_TRY(open_one(a, i));
  return ATTEND_OK;
}

/* Into a->one, as the files store it. */
static void average_entry(averaging *a, const learn_entry *e, size_t count) {
  memset(a->sum, 0, count * sizeof *a->sum);
  for (int i = 0; i < a->n; i++) {
    const attend_tensor *t = parameter_in(a->files[i], e)->tensor;
    attend_dtype dtype = ATTEND_F32;
    tensor_dtype(t, &dtype);
    attend_convert_to_f32(dtype, t->data, count, a->one);
    for (size_t j = 0; j < count; j++) a->sum[j] += (double)a->one[j];
  }
  for (size_t j = 0; j < count; j++) a->one[j] = (float)(a->sum[j] / a->n);
}

static void put_entry(const averaging *a, const learn_entry *e) {
  const parameter *p = parameter_in(a->l->files, e);
  float *to = attend_learner_values(a->l, NULL) + e->at;
  size_t outputs = (size_t)p->shape[0],
         inputs = p->rank == 2 ? (size_t)p->shape[1] : 1;
  for (size_t o = 0; o < outputs; o++)
    for (size_t i = 0; i < inputs; i++)
      to[o * inputs + i] = a->one[p->turned ? i * outputs + o : o * inputs + i];
}

attend_status attend_learner_average(attend_learner *l, int n,
                                     const char *const *folders) {
  averaging a = {.l = l, .n = n, .folders = folders};
  ATTEND_CHECK(l->ctx, n >= 1, "a mean of %d checkpoints: name one or more", n);
  attend_status status = open_all(&a);
  for (size_t j = 0; !status && j < l->n_entries; j++) {
    const learn_entry *e = &l->entries[j];
    average_entry(&a, e, (size_t)parameter_in(l->files, e)->tensor->count);
    put_entry(&a, e);
  }
  for (int i = 0; a.files && i < n; i++) attend_checkpoint_close(a.files[i]);
  give(l->ctx, a.files);
  give(l->ctx, a.sum);
  give(l->ctx, a.one);
  return status ? status : attend_learner_refresh(l);
}
