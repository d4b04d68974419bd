/* States in files: saved, and restored bit for bit.
 *
 * Place: attention/ - beside state.c. A file holds what a state is made for, so
 * that it is only ever given to a plan of the same kind; then the sequences.
 * Numbers are in the byte order of the machine that wrote it, which is checked.
 * A file takes its name when all of it is on the disk.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "attention/linear_state.h"
#include "base/files.h"

static const char MAGIC[16] = "attend-state 1\n";
static const int64_t BYTE_ORDER_MARK = 0x0102030405060708, END_MARK = 0x646e65;

enum { SHAPE_FIELDS = 22 };

typedef struct {
  const char *name;
  int64_t value;
} field;

/* Files have them with a sign. */
static int64_t signed_bits(float x) { return (int32_t)float_bits(x); }

/* What must be equal in file and plan. */
static void shape_of(const attend_state *s, field f[SHAPE_FIELDS]) {
  const attend_desc *d = &s->desc;
  const attend_form *m = &d->form;
  bool linear = s->linear != NULL;
  const field all[SHAPE_FIELDS] = {
      {"byte order", BYTE_ORDER_MARK},
      {"batch", d->batch},
      {"kv_heads", d->kv_heads},
      {"dim", d->dim},
      {"dim_v", d->dim_v},
      {"dtype", d->dtype},
      {"kind of state (linear or not)", linear},
      {"layout of values", s->ldv},
      {"layout of keys", s->width},
      {"pairing of elements", s->pair},
      {"form", linear ? (int64_t)m->kind : 0},
      {"row of features", s->features_ld},
      {"number of features", linear ? m->features : 0},
      {"degree", linear ? m->degree : 0},
      {"a", linear ? signed_bits(m->a) : 0},
      {"c", linear ? signed_bits(m->c) : 0},
      {"sigma", linear ? signed_bits(m->sigma) : 0},
      {"scale", linear ? signed_bits(d->scale) : 0},
      {"seed", linear ? (int64_t)m->seed : 0},
      {"redraw", linear ? (int64_t)m->redraw : 0},
      {"draw", linear ? (int64_t)m->draw : 0},
      {"map", linear ? 2 * (int64_t)m->map + (m->pairs != 0) : 0},
  };
  memcpy(f, all, sizeof all);
}

/* ---- writing ------------------------------------------------------------------- */

static attend_status put_number(attend_draft *f, int64_t x) {
  return attend_draft_put(f, &x, sizeof x);
}

static attend_status put_stack(attend_draft *f, const attend_state *s,
                               const linear_stack *x) {
  ATTEND_TRY(put_number(f, x->folded));
  ATTEND_TRY(put_number(f, x->open.n));
  ATTEND_TRY(put_number(f, x->open.wild));
  return attend_draft_put(f, x->data, s->stack_floats * sizeof(float));
}

static attend_status put_page(attend_draft *f, const attend_state *s,
                              const page *x) {
  ATTEND_TRY(put_number(f, 2 * x->wild + x->padded));
  ATTEND_TRY(attend_draft_put(f, x->real, sizeof x->real));
  return attend_draft_put(f, x->data, s->head_bytes * (size_t)s->desc.kv_heads);
}

static attend_status put_sequence(attend_draft *f, const attend_state *s,
                                  int b) {
  const sequence *q = &s->sequence[b];
  int heads = s->desc.kv_heads;
  ATTEND_TRY(put_number(f, q->length));
  for (int g = 0; s->linear && g < heads; g++)
    ATTEND_TRY(put_stack(f, s, &s->linear[b * heads + g]));
  for (int64_t i = 0; !s->linear && i * PANEL < q->length; i++)
    ATTEND_TRY(put_page(f, s, q->page[i]));
  return ATTEND_OK;
}

static attend_status put_state(attend_draft *f, const attend_state *s) {
  field shape[SHAPE_FIELDS];
  shape_of(s, shape);
  ATTEND_TRY(attend_draft_put(f, MAGIC, sizeof MAGIC));
  for (int i = 0; i < SHAPE_FIELDS; i++)
    ATTEND_TRY(put_number(f, shape[i].value));
  for (int b = 0; b < s->batch; b++) ATTEND_TRY(put_sequence(f, s, b));
  return put_number(f, END_MARK);
}

static attend_status put_file(attend_draft *draft, void *user) {
  return put_state(draft, user);
}

attend_status attend_state_save(const attend_state *s, const char *path) {
  return draft_write(s->ctx, path, put_file, (void *)s, NULL);
}

/* ---- reading ---------------------------------------------------------------------- */

typedef struct {
  attend_context *ctx;
  const char *path;
  FILE *file;
} stream;

static attend_status file_failed(const stream *f, const char *what) {
  return fail(f->ctx, ATTEND_IO, "%s \"%.200s\" failed: %s", what, f->path,
              errno ? strerror(errno) : "unknown cause");
}

static attend_status get(stream *f, void *data, size_t bytes) {
  errno = 0;
  if (!bytes || fread(data, 1, bytes, f->file) == bytes) return ATTEND_OK;
  if (ferror(f->file)) return file_failed(f, "reading the state from");
  return fail(f->ctx, ATTEND_IO,
              "\"%.200s\" ends in the middle of a state: it was cut off, save "
              "it again",
              f->path);
}

static attend_status get_number(stream *f, int64_t least, int64_t most,
                                const char *what, int64_t *x) {
  ATTEND_TRY(get(f, x, sizeof *x));
  if (*x >= least && *x <= most) return ATTEND_OK;
  return fail(f->ctx, ATTEND_IO,
              "\"%.200s\" is damaged: its %s is %lld; save it again", f->path,
              what, (long long)*x);
}

static attend_status get_shape(stream *f, const attend_state *s) {
  field shape[SHAPE_FIELDS];
  char magic[sizeof MAGIC];
  int64_t x;
  shape_of(s, shape);
  ATTEND_TRY(get(f, magic, sizeof magic));
  if (memcmp(magic, MAGIC, sizeof MAGIC))
    return fail(f->ctx, ATTEND_IO,
                "\"%.200s\" is not a state that attend saved", f->path);
  for (int i = 0; i < SHAPE_FIELDS; i++) {
    ATTEND_TRY(get(f, &x, sizeof x));
    ATTEND_CHECK(f->ctx, x == shape[i].value,
                 "\"%.200s\" was saved with another %s (%lld) than the plan's "
                 "(%lld): make the plan that it was saved with",
                 f->path, shape[i].name, (long long)x,
                 (long long)shape[i].value);
  }
  return ATTEND_OK;
}

static attend_status get_stack(stream *f, const attend_state *s, int64_t length,
                               linear_stack *x) {
  int64_t open, wild;
  int64_t folded = length ? (length - 1) / PANEL : 0;
  ATTEND_TRY(get_number(f, folded, folded, "number of blocks", &x->folded));
  ATTEND_TRY(get_number(f, length - folded * PANEL, length - folded * PANEL,
                        "open block", &open));
  ATTEND_TRY(get_number(f, 0, 1, "mark of a block", &wild));
  x->open.n = (int)open;
  x->open.wild = wild != 0;
  return get(f, x->data, s->stack_floats * sizeof(float));
}

static attend_status get_page(stream *f, const attend_state *s, page *x) {
  int64_t marks;
  ATTEND_TRY(get_number(f, 0, 3, "mark of a page", &marks));
  x->wild = marks & 2;
  x->padded = marks & 1;
  ATTEND_TRY(get(f, x->real, sizeof x->real));
  return get(f, x->data, s->head_bytes * (size_t)s->desc.kv_heads);
}

/* Pages are taken one by one, as the file shows that they are there. */
static attend_status get_sequence(stream *f, attend_state *s, int b) {
  sequence *q = &s->sequence[b];
  int heads = s->desc.kv_heads;
  int64_t length;
  ATTEND_TRY(get_number(f, 0, (int64_t)1 << 48, "number of keys", &length));
  for (int g = 0; s->linear && g < heads; g++)
    ATTEND_TRY(get_stack(f, s, length, &s->linear[b * heads + g]));
  for (int64_t i = 0; !s->linear && i * PANEL < length; i++) {
    ATTEND_TRY(sequence_reserve(s, q, (i + 1) * PANEL));
    ATTEND_TRY(get_page(f, s, q->page[i]));
  }
  q->length = length;
  return ATTEND_OK;
}

static attend_status get_state(stream *f, attend_state *s) {
  int64_t end;
  ATTEND_TRY(get_shape(f, s));
  for (int b = 0; b < s->batch; b++) ATTEND_TRY(get_sequence(f, s, b));
  return get_number(f, END_MARK, END_MARK, "end", &end);
}

attend_status attend_state_load(attend_plan *plan, const char *path,
                                attend_state **state) {
  attend_state *s;
  *state = NULL;
  ATTEND_TRY(attend_state_create(plan, &s));
  errno = 0;
  stream f = {plan->ctx, path, fopen(path, "rb")};
  attend_status status = f.file ? get_state(&f, s) : file_failed(&f, "opening");
  if (f.file) fclose(f.file);
  if (status == ATTEND_OK)
    *state = s;
  else
    attend_state_free(s);
  return status;
}
