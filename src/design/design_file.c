/* Designs in files: specs, and weights with the spec beside them; and questions about
 * a design.
 *
 * Place: design/ - between a design and the disk, or those who ask.
 *
 * A file of weights is safetensors: "designed.layers.0.heads.0.query" and so on,
 * "learned." the same if there is such a twin, and the spec as a note. Read again,
 * the spec gives names and task and the file gives the numbers, which anyone may
 * have changed meanwhile.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "attend/file.h"
#include "base/files.h"
#include "design/design.h"

static const char *const twin_names[ATTEND_TWINS] = {"designed", "learned"};
enum { TENSOR_NAME = 64 };

/* ---- writing ---------------------------------------------------------------------- */

attend_status attend_design_save(const attend_design *d, const char *path) {
  attend_tensor tensors[ATTEND_TWINS * DESIGN_PARTS];
  char names[ATTEND_TWINS * DESIGN_PARTS][TENSOR_NAME];
  size_t n = 0;
  memset(tensors, 0, sizeof tensors);
  for (int twin = 0; twin < ATTEND_TWINS; twin++)
    for (int i = 0; i < d->n_parts && d->weights[twin]; i++, n++) {
      const attend_design_part *p = &d->parts[i];
      snprintf(names[n], TENSOR_NAME, "%s.%s", twin_names[twin], p->name);
      tensors[n] = (attend_tensor){.name = names[n],
                                   .stored = ATTEND_STORED_F32,
                                   .rank = 2,
                                   .shape = {p->rows, p->columns},
                                   .data = d->weights[twin] + p->at};
    }
  attend_note notes[] = {{"attend.design", d->text}};
  return attend_tensor_file_write_noted(d->ctx, path, n, tensors, 1, notes);
}

/* ---- reading ------------------------------------------------------------------------ */

static attend_status read_part(const attend_tensor_file *file, const char *path,
                               attend_design *d, int twin,
                               const attend_design_part *p) {
  char name[TENSOR_NAME];
  snprintf(name, sizeof name, "%s.%s", twin_names[twin], p->name);
  const attend_tensor *t = attend_tensor_file_find(file, name);
  if (!t) return fail(d->ctx, ATTEND_IO, "\"%.200s\" has no %s", path, name);
  if (t->stored != ATTEND_STORED_F32 || t->rank != 2 ||
      t->shape[0] != p->rows || t->shape[1] != p->columns)
    return fail(d->ctx, ATTEND_IO,
                "%s of \"%.200s\" is not F32 [%d, %d], as its spec says", name,
                path, p->rows, p->columns);
  float *to = d->weights[twin] + p->at;
  memcpy(to, t->data, t->bytes);
  for (int64_t i = 0; i < t->count; i++)
    if (!isfinite(to[i]))
      return fail(d->ctx, ATTEND_IO, "%s of \"%.200s\" is not finite", name,
                  path);
  return ATTEND_OK;
}

static attend_status read_twin(const attend_tensor_file *file, const char *path,
                               attend_design *d, int twin) {
  char name[TENSOR_NAME];
  snprintf(name, sizeof name, "%s.%s", twin_names[twin], d->parts[0].name);
  if (twin == ATTEND_LEARNED) {
    if (!attend_tensor_file_find(file, name)) return ATTEND_OK;
    ATTEND_TRY(take_zeroed(d->ctx, d->count * sizeof(float), "a learned twin",
                           &d->weights[twin]));
  }
  for (int i = 0; i < d->n_parts; i++)
    ATTEND_TRY(read_part(file, path, d, twin, &d->parts[i]));
  return ATTEND_OK;
}

static attend_status read_weights(attend_context *ctx,
                                  const attend_tensor_file *file,
                                  const char *path, attend_design **design) {
  const char *spec = attend_tensor_file_note_find(file, "attend.design");
  attend_status status = ATTEND_OK;
  ATTEND_CHECK(ctx, spec,
               "\"%.200s\" has no spec in its notes: it was not written by "
               "attend design",
               path);
  ATTEND_TRY(attend_design_read(ctx, path, spec, strlen(spec), design));
  for (int twin = 0; twin < ATTEND_TWINS && !status; twin++)
    status = read_twin(file, path, *design, twin);
  if (!status) return status;
  attend_design_free(*design);
  *design = NULL;
  return status;
}

static attend_status open_weights(attend_context *ctx, const char *path,
                                  attend_design **design) {
  attend_tensor_file *file;
  ATTEND_TRY(attend_tensor_file_open(ctx, path, &file));
  attend_status status = read_weights(ctx, file, path, design);
  attend_tensor_file_close(file);
  return status;
}

attend_status attend_design_open(attend_context *ctx, const char *path,
                                 attend_design **design) {
  char *text;
  size_t length;
  *design = NULL;
  if (name_ends(path, ".safetensors")) return open_weights(ctx, path, design);
  ATTEND_TRY(file_read(ctx, path, &text, &length));
  attend_status status = attend_design_read(ctx, path, text, length, design);
  give(ctx, text);
  return status;
}

/* ---- questions --------------------------------------------------------------------------- */

attend_design_facts attend_design_about(const attend_design *d) {
  return (attend_design_facts){.name = d->name,
                               .about = d->about,
                               .task = d->says,
                               .example = d->example,
                               .spec = d->text,
                               .letters = d->letters,
                               .tokens = d->tokens,
                               .starts = d->start >= 0,
                               .ends = d->end >= 0,
                               .answers = d->answers,
                               .shortest = d->shortest,
                               .longest = d->longest,
                               .places = d->places,
                               .features = d->features,
                               .embedded = d->embedded,
                               .layers = d->layers,
                               .heads = d->n_heads,
                               .causal = d->causal,
                               .positions = d->positions,
                               .asked = d->at,
                               .inputs = design_inputs(d, d->longest),
                               .examples = d->n_examples,
                               .steps = d->steps,
                               .batch = d->batch,
                               .rate = d->rate,
                               .decay = d->decay,
                               .seed = d->seed};
}

const char *attend_design_token(const attend_design *d, int i) {
  return i >= 0 && i < d->tokens ? d->token[i] : NULL;
}
const char *attend_design_answer(const attend_design *d, int i) {
  return i >= 0 && i < d->answers ? d->answer[i] : NULL;
}
const char *attend_design_feature(const attend_design *d, int i) {
  return i >= 0 && i < d->features ? d->feature[i] : NULL;
}

int attend_design_head_get(const attend_design *d, int i,
                           attend_design_head *head) {
  if (i < 0 || i >= d->n_heads) return 0;
  const design_head *h = &d->heads[i];
  *head = (attend_design_head){h->name,  h->layer, h->dim, h->dim_v,
                               h->reads, h->slot,  h->ties};
  return 1;
}

const char *attend_design_column(const attend_design *d, int head, int column) {
  if (head < 0 || head >= d->n_heads) return NULL;
  const design_head *h = &d->heads[head];
  return column >= 0 && column < h->dim ? h->column[column] : NULL;
}

int attend_design_part_get(const attend_design *d, int i,
                           attend_design_part *part) {
  if (i < 0 || i >= d->n_parts) return 0;
  *part = d->parts[i];
  return 1;
}

attend_status design_has(const attend_design *d, attend_twin twin) {
  ATTEND_CHECK(d->ctx, attend_design_weights(d, twin, NULL),
               "\"%s\" has no learned twin: let it learn first", d->name);
  return ATTEND_OK;
}

const float *attend_design_weights(const attend_design *d, attend_twin twin,
                                   size_t *count) {
  if (count) *count = d->count;
  return (unsigned)twin < ATTEND_TWINS ? d->weights[twin] : NULL;
}
