/* Attention cases that other code computed (attend_golden_open). */
#include <stdio.h>

#include "attend/file.h"
#include "attend/json.h"
#include "verify/verify.h"

typedef struct {
  memory memory;
  const char *path, *name;
  attend_tensor_file *file;
  attend_json *settings;
  attend_desc desc;
  int32_t *lengths;
  attend_tensors tensors;
  reference reference;
} golden_case;

struct attend_golden {
  attend_context *ctx;
  attend_tensor_file *file;
  char *path;
  golden_case now; /* the case that was read last; no name: none */
};

/* ---- settings ------------------------------------------------------------------ */

static attend_status refuse(const golden_case *c, const char *why) {
  return fail(c->memory.ctx, ATTEND_IO, "%s: case \"%s\" %s", c->path, c->name, why);
}

static attend_status read_sizes(golden_case *c) {
  attend_desc *d = &c->desc;
  const struct {
    const char *name;
    int *size;
  } sizes[] = {{"batch", &d->batch}, {"heads", &d->heads},       {"kv_heads", &d->kv_heads},
               {"q_len", &d->q_len}, {"kv_len", &d->kv_len},     {"dim", &d->dim},
               {"dim_v", &d->dim_v}, {"window", &d->mask.window}};
  for (size_t n = 0; n < sizeof sizes / sizeof *sizes; n++) {
    int64_t size = 0;
    ATTEND_TRY(attend_json_read_integer(c->memory.ctx, c->path, c->settings, sizes[n].name, 0,
                                        INT32_MAX, &size));
    *sizes[n].size = (int)size;
  }
  return ATTEND_OK;
}

static attend_status read_causal(golden_case *c) {
  const attend_json *value = attend_json_get(c->settings, "causal");
  const char *causal = attend_json_string(value, NULL);
  attend_json_kind kind = attend_json_kind_of(value);
  if (kind == ATTEND_JSON_NONE || kind == ATTEND_JSON_NULL) return ATTEND_OK;
  if (!causal || (strcmp(causal, "top") && strcmp(causal, "bottom")))
    return refuse(c, "has a causal setting other than null, top and bottom");
  c->desc.mask.causal = strcmp(causal, "top") ? ATTEND_CAUSAL_BOTTOM : ATTEND_CAUSAL_TOP;
  return ATTEND_OK;
}

static attend_status read_lengths(golden_case *c) {
  const attend_json *list = attend_json_get(c->settings, "lengths");
  attend_json_kind kind = attend_json_kind_of(list);
  if (kind == ATTEND_JSON_NONE || kind == ATTEND_JSON_NULL) return ATTEND_OK;
  if (attend_json_count(list) != (size_t)c->desc.batch)
    return refuse(c, "does not have one length for each batch entry");
  TAKE(&c->memory, &c->lengths, c->desc.batch);
  for (int b = 0; b < c->desc.batch; b++) {
    int64_t n;
    if (!attend_json_integer(attend_json_at(list, (size_t)b), &n) || n < 0 || n > c->desc.kv_len)
      return refuse(c, "has a length that is not within its keys");
    c->lengths[b] = (int32_t)n;
  }
  c->desc.mask.lengths = c->lengths;
  return ATTEND_OK;
}

static attend_status read_settings(golden_case *c, const char *text) {
  attend_context *ctx = c->memory.ctx;
  if (!text) return refuse(c, "has settings that are not a text");
  ATTEND_TRY(
      attend_json_parse(ctx, "the settings of a golden case", text, strlen(text), &c->settings));
  ATTEND_TRY(read_sizes(c));
  ATTEND_TRY(read_causal(c));
  c->desc.scale = (float)attend_json_number(attend_json_get(c->settings, "scale"), 0);
  c->desc.soft_cap = (float)attend_json_number(attend_json_get(c->settings, "softcap"), 0);
  c->desc.purpose = ATTEND_FOR_BACKWARD;
  c->desc.size = sizeof c->desc;
  ATTEND_TRY(attend_desc_complete(ctx, &c->desc));
  return read_lengths(c);
}

/* ---- tensors ------------------------------------------------------------------- */

static attend_status read_tensor(const golden_case *c, const char *part, size_t count, float *out) {
  char name[256];
  snprintf(name, sizeof name, "%s.%s", c->name, part);
  const attend_tensor *t = attend_tensor_file_find(c->file, name);
  if (!t || t->stored != ATTEND_STORED_F32 || (size_t)t->count != count)
    return fail(c->memory.ctx, ATTEND_IO, "%s: %s must be there, F32, with %zu numbers", c->path,
                name, count);
  if (count) memcpy(out, t->data, t->bytes);
  return ATTEND_OK;
}

static attend_status read_truth(golden_case *c) {
  ATTEND_TRY(outputs_take(&c->memory, &c->desc, true, &c->reference.truth));
  for (int x = 0; x < ATTEND_OUT_DBIAS; x++) {
    size_t count = c->reference.truth.count[x];
    float *from;
    TAKE(&c->memory, &from, count);
    ATTEND_TRY(read_tensor(c, attend_output_name(x), count, from));
    for (size_t n = 0; n < count; n++) c->reference.truth.at[x][n] = (double)from[n];
  }
  return ATTEND_OK;
}

static attend_status read_inputs(golden_case *c, inputs *in) {
  const struct {
    const char *name;
    attend_view *view;
    int like; /* gradients have the shapes */
  } parts[] = {{"q", &in->q, ATTEND_OUT_DQ},
               {"k", &in->k, ATTEND_OUT_DK},
               {"v", &in->v, ATTEND_OUT_DV},
               {"do", &in->d_o, ATTEND_OUT_O}};
  *in = (inputs){.desc = &c->desc};
  for (size_t n = 0; n < sizeof parts / sizeof *parts; n++) {
    size_t count = c->reference.truth.count[parts[n].like];
    float *block;
    TAKE(&c->memory, &block, count);
    ATTEND_TRY(read_tensor(c, parts[n].name, count, block));
    *parts[n].view = attend_bhtd(block);
  }
  return ATTEND_OK;
}

static void close_case(golden_case *c) {
  attend_json_free(c->settings);
  memory_free(&c->memory);
  *c = (golden_case){0};
}

static attend_status read_case(golden_case *c, const char *settings) {
  ATTEND_TRY(read_settings(c, settings));
  ATTEND_TRY(read_truth(c));
  inputs in;
  ATTEND_TRY(read_inputs(c, &in));
  ATTEND_TRY(results_take(&c->memory, &in, false, &c->tensors));
  ATTEND_TRY(outputs_take(&c->memory, &c->desc, true, &c->reference.naive));
  return run_naive(c->memory.ctx, &in, &c->reference.naive, c->reference.magnitude);
}

/* ---- running ------------------------------------------------------------------- */

static attend_status open_case(attend_golden *g, size_t i) {
  const char *settings;
  const char *name = attend_tensor_file_note(g->file, i, &settings);
  ATTEND_CHECK(g->ctx, name, "%s has no case %zu", g->path, i);
  if (g->now.name == name) return ATTEND_OK;
  close_case(&g->now);
  g->now = (golden_case){.memory = {.ctx = g->ctx}, .path = g->path, .name = name, .file = g->file};
  attend_status status = read_case(&g->now, settings);
  if (status) close_case(&g->now);
  return status;
}

attend_status attend_golden_run(attend_golden *g, size_t i, attend_context *ctx,
                                attend_verification *v) {
  attend_status status = open_case(g, i);
  golden_case *c = &g->now;
  attend_problem problem = {ATTEND_INIT(attend_problem), .desc = c->desc, .op = ATTEND_OP_BACKWARD};
  if (status && ctx != g->ctx) fail(ctx, status, "%s", attend_message(g->ctx));
  attend_solver *s;
  ATTEND_TRY(status);
  ATTEND_TRY(attend_solver_create(ctx, &problem, &c->tensors, &s));
  status = run_and_judge(s, &c->tensors, &c->reference, v);
  attend_solver_free(s);
  return status;
}

static attend_status open_golden(attend_golden *g, const char *path) {
  size_t bytes = strlen(path) + 1;
  ATTEND_TRY(ctx_alloc(g->ctx, bytes, "a path", &g->path));
  memcpy(g->path, path, bytes);
  ATTEND_TRY(attend_tensor_file_open(g->ctx, path, &g->file));
  if (attend_tensor_file_notes(g->file)) return ATTEND_OK;
  return fail(g->ctx, ATTEND_IO, "%s has no cases: its metadata names none", path);
}

attend_status attend_golden_open(attend_context *ctx, const char *path, attend_golden **golden) {
  attend_golden *g;
  *golden = NULL;
  ATTEND_TRY(ctx_alloc_zeroed(ctx, sizeof *g, "golden cases", &g));
  g->ctx = ctx;
  attend_status status = open_golden(g, path);
  if (status)
    attend_golden_free(g);
  else
    *golden = g;
  return status;
}

void attend_golden_free(attend_golden *g) {
  if (!g) return;
  attend_context *ctx = g->ctx;
  close_case(&g->now);
  attend_tensor_file_free(g->file);
  ctx_free(ctx, g->path);
  ctx_free(ctx, g);
}

size_t attend_golden_count(const attend_golden *g) { return attend_tensor_file_notes(g->file); }

const char *attend_golden_name(const attend_golden *g, size_t i) {
  const char *settings;
  return attend_tensor_file_note(g->file, i, &settings);
}
