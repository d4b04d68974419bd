/* States in files: saved, and restored bit for bit.
 *
 * Beside state.c. A file holds what a state is made for, so that it is only ever given
 * to a plan of the same kind; then the sequences. Numbers are in the byte order of the
 * machine that wrote it, which is checked. A file takes its name when all of it is on
 * the disk.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "attention/features.h"
#include "attention/state.h"
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
  const state_layout at = state_layout_of(s->ctx, d);
  const bool linear = !s->kind->has_keys;
  const field all[SHAPE_FIELDS] = {
      {"byte order", BYTE_ORDER_MARK},
      {"batch", d->batch},
      {"kv_heads", d->kv_heads},
      {"dim", d->dim},
      {"dim_v", d->dim_v},
      {"dtype", d->dtype},
      {"kind of state (linear or not)", linear},
      {"layout of values", at.ldv},
      {"layout of keys", at.width},
      {"pairing of elements", at.pair},
      {"form", linear ? (int64_t)m->kind : 0},
      {"row of features", linear ? features_row(d) : 0},
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

attend_status state_put_number(attend_draft *f, int64_t x) {
  return attend_draft_put(f, &x, sizeof x);
}

static attend_status put_state(attend_draft *f, const attend_state *s) {
  field shape[SHAPE_FIELDS];
  shape_of(s, shape);
  ATTEND_TRY(attend_draft_put(f, MAGIC, sizeof MAGIC));
  for (int i = 0; i < SHAPE_FIELDS; i++)
    ATTEND_TRY(state_put_number(f, shape[i].value));
  for (int b = 0; b < s->batch; b++) {
    ATTEND_TRY(state_put_number(f, s->length[b]));
    ATTEND_TRY(s->kind->put(f, s, b));
  }
  return state_put_number(f, END_MARK);
}

static attend_status put_file(attend_draft *draft, void *user) {
  return put_state(draft, user);
}

attend_status attend_state_save(const attend_state *s, const char *path) {
  return draft_write(s->ctx, path, put_file, (void *)s, NULL);
}

/* ---- reading ---------------------------------------------------------------------- */

static attend_status file_failed(const state_reader *f, const char *what) {
  return fail(f->ctx, ATTEND_IO, "%s \"%.200s\" failed: %s", what, f->path,
              errno ? strerror(errno) : "unknown cause");
}

attend_status state_get(state_reader *f, void *data, size_t bytes) {
  errno = 0;
  if (!bytes || fread(data, 1, bytes, f->file) == bytes) return ATTEND_OK;
  if (ferror(f->file)) return file_failed(f, "reading the state from");
  return fail(f->ctx, ATTEND_IO,
              "\"%.200s\" ends in the middle of a state: it was cut off, save "
              "it again",
              f->path);
}

attend_status state_get_number(state_reader *f, int64_t least, int64_t most,
                               const char *what, int64_t *x) {
  ATTEND_TRY(state_get(f, x, sizeof *x));
  if (*x >= least && *x <= most) return ATTEND_OK;
  return fail(f->ctx, ATTEND_IO,
              "\"%.200s\" is damaged: its %s is %lld; save it again", f->path,
              what, (long long)*x);
}

static attend_status get_shape(state_reader *f, const attend_state *s) {
  field shape[SHAPE_FIELDS];
  char magic[sizeof MAGIC];
  int64_t x;
  shape_of(s, shape);
  ATTEND_TRY(state_get(f, magic, sizeof magic));
  if (memcmp(magic, MAGIC, sizeof MAGIC))
    return fail(f->ctx, ATTEND_IO,
                "\"%.200s\" is not a state that attend saved", f->path);
  for (int i = 0; i < SHAPE_FIELDS; i++) {
    ATTEND_TRY(state_get(f, &x, sizeof x));
    ATTEND_CHECK(f->ctx, x == shape[i].value,
                 "\"%.200s\" was saved with another %s (%lld) than the plan's "
                 "(%lld): make the plan that it was saved with",
                 f->path, shape[i].name, (long long)x,
                 (long long)shape[i].value);
  }
  return ATTEND_OK;
}

static attend_status get_sequence(state_reader *f, attend_state *s, int b) {
  int64_t length;
  ATTEND_TRY(
      state_get_number(f, 0, (int64_t)1 << 48, "number of keys", &length));
  ATTEND_TRY(s->kind->get(f, s, b, length));
  s->length[b] = length;
  return ATTEND_OK;
}

static attend_status get_state(state_reader *f, attend_state *s) {
  int64_t end;
  ATTEND_TRY(get_shape(f, s));
  for (int b = 0; b < s->batch; b++) ATTEND_TRY(get_sequence(f, s, b));
  return state_get_number(f, END_MARK, END_MARK, "end", &end);
}

attend_status attend_state_load(attend_plan *plan, const char *path,
                                attend_state **state) {
  attend_state *s;
  *state = NULL;
  ATTEND_TRY(attend_state_create(plan, &s));
  errno = 0;
  state_reader f = {plan->ctx, path, fopen(path, "rb")};
  attend_status status = f.file ? get_state(&f, s) : file_failed(&f, "opening");
  if (f.file) fclose(f.file);
  if (status == ATTEND_OK)
    *state = s;
  else
    attend_state_free(s);
  return status;
}
