/* attend verify --golden FILE: cases that someone else computed.
 *
 * The file is safetensors with <case>.q, .k, .v, .do in and .o, .lse, .dq, .dk, .dv
 * out, [batch, heads, length, width], F32; its metadata has a JSON object of settings
 * under each case's name.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attend/file.h"
#include "attend/json.h"
#include "verify/engine_run.h"
#include "progress.h"
#include "verify/verify.h"

enum { IN_Q, IN_K, IN_V, IN_DO, INS };

typedef struct {
  const char *path, *name;
  attend_tensor_file *file;
  attend_json *settings;
  attend_desc desc;
  int32_t *lengths;
  float *in[INS];
  outputs truth;
} golden_case;

/* ---- settings ------------------------------------------------------------------ */

static attend_status refuse(const golden_case *c, const char *why) {
  complain("%s: case \"%s\" %s", c->path, c->name, why);
  return ATTEND_IO;
}

static attend_status read_size(const golden_case *c, const char *name,
                               int *size) {
  const attend_json *value = attend_json_get(c->settings, name);
  int64_t n = 0;
  attend_json_kind kind = attend_json_kind_of(value);
  *size = 0;
  if (kind == ATTEND_JSON_NONE || kind == ATTEND_JSON_NULL) return ATTEND_OK;
  if (!attend_json_integer(value, &n) || n < 0 || n > INT32_MAX) {
    complain("%s: case \"%s\" has a %s that is not a size", c->path, c->name,
             name);
    return ATTEND_IO;
  }
  *size = (int)n;
  return ATTEND_OK;
}

static attend_status read_sizes(golden_case *c) {
  attend_desc *d = &c->desc;
  const struct {
    const char *name;
    int *size;
  } sizes[] = {{"batch", &d->batch},       {"heads", &d->heads},
               {"kv_heads", &d->kv_heads}, {"q_len", &d->q_len},
               {"kv_len", &d->kv_len},     {"dim", &d->dim},
               {"dim_v", &d->dim_v},       {"window", &d->mask.window}};
  for (size_t n = 0; n < sizeof sizes / sizeof *sizes; n++) {
    attend_status status = read_size(c, sizes[n].name, sizes[n].size);
    if (status) return status;
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
  c->desc.mask.causal =
      strcmp(causal, "top") ? ATTEND_CAUSAL_BOTTOM : ATTEND_CAUSAL_TOP;
  return ATTEND_OK;
}

static attend_status read_lengths(golden_case *c) {
  const attend_json *list = attend_json_get(c->settings, "lengths");
  attend_json_kind kind = attend_json_kind_of(list);
  if (kind == ATTEND_JSON_NONE || kind == ATTEND_JSON_NULL) return ATTEND_OK;
  if (attend_json_count(list) != (size_t)c->desc.batch)
    return refuse(c, "does not have one length for each batch entry");
  c->lengths = need((size_t)c->desc.batch, sizeof *c->lengths);
  for (int b = 0; b < c->desc.batch; b++) {
    int64_t n;
    if (!attend_json_integer(attend_json_at(list, (size_t)b), &n) || n < 0 ||
        n > c->desc.kv_len)
      return refuse(c, "has a length that is not within its keys");
    c->lengths[b] = (int32_t)n;
  }
  c->desc.mask.lengths = c->lengths;
  return ATTEND_OK;
}

static attend_status read_settings(attend_context *ctx, golden_case *c,
                                   const char *text) {
  attend_status status = attend_json_parse(ctx, "the settings of a golden case",
                                           text, strlen(text), &c->settings);
  if (status) complain_status(ctx, status);
  if (!status) status = read_sizes(c);
  if (!status) status = read_causal(c);
  if (status) return status;
  c->desc.scale =
      (float)attend_json_number(attend_json_get(c->settings, "scale"), 0);
  c->desc.soft_cap =
      (float)attend_json_number(attend_json_get(c->settings, "softcap"), 0);
  c->desc.purpose = ATTEND_FOR_BACKWARD;
  status = attend_desc_complete(ctx, &c->desc);
  if (status) complain_status(ctx, status);
  return status ? status : read_lengths(c);
}

/* ---- tensors ------------------------------------------------------------------- */

static attend_status read_tensor(const golden_case *c, const char *part,
                                 size_t count, float *out) {
  char name[256];
  snprintf(name, sizeof name, "%s.%s", c->name, part);
  const attend_tensor *t = attend_tensor_file_find(c->file, name);
  if (!t || t->stored != ATTEND_STORED_F32 || (size_t)t->count != count) {
    complain("%s: %s must be there, F32, with %zu numbers", c->path, name,
             count);
    return ATTEND_IO;
  }
  if (count) memcpy(out, t->data, t->bytes);
  return ATTEND_OK;
}

static attend_status read_truth(golden_case *c) {
  attend_status status = ATTEND_OK;
  c->truth = outputs_for(&c->desc, true);
  for (int x = 0; x < OUT_DBIAS && !status; x++) {
    size_t count = c->truth.count[x];
    float *from = need(count, sizeof *from);
    status = read_tensor(c, output_names[x], count, from);
    for (size_t n = 0; n < count; n++) c->truth.at[x][n] = from[n];
    free(from);
  }
  return status;
}

static attend_status read_inputs(golden_case *c) {
  const outputs *like = &c->truth; /* gradients have the shapes */
  const char *const parts[INS] = {"q", "k", "v", "do"};
  const int shapes[INS] = {OUT_DQ, OUT_DK, OUT_DV, OUT_O};
  attend_status status = ATTEND_OK;
  for (int n = 0; n < INS && !status; n++) {
    size_t count = like->count[shapes[n]];
    c->in[n] = need(count, sizeof(float));
    status = read_tensor(c, parts[n], count, c->in[n]);
  }
  return status;
}

static void close_case(golden_case *c) {
  attend_json_free(c->settings);
  outputs_free(&c->truth);
  free(c->lengths);
  for (int n = 0; n < INS; n++) free(c->in[n]);
}

/* ---- running ------------------------------------------------------------------- */

static attend_tensors tensors_for(const golden_case *c, float *block) {
  attend_tensors t = {.desc = c->desc};
  const outputs *o = &c->truth;
  t.q = attend_bhtd(c->in[IN_Q]);
  t.k = attend_bhtd(c->in[IN_K]);
  t.v = attend_bhtd(c->in[IN_V]);
  t.d_o = attend_bhtd(c->in[IN_DO]);
  t.o = attend_bhtd(block);
  t.lse = block + o->count[OUT_O];
  t.dq = attend_bhtd(t.lse + o->count[OUT_LSE]);
  t.dk = attend_bhtd((float *)t.dq.data + o->count[OUT_DQ]);
  t.dv = attend_bhtd((float *)t.dk.data + o->count[OUT_DK]);
  return t;
}

static attend_status run_engine(verify_run *run, attend_context *ctx,
                                const golden_case *c, attend_tensors *t,
                                const outputs *naive,
                                const double magnitude[OUTPUTS]) {
  engine_run engine;
  attend_problem problem = {.desc = c->desc, .op = ATTEND_OP_BACKWARD};
  attend_status status = engine_open(ctx, &problem, t, &engine);
  if (!status) status = engine_once(&engine);
  if (status) {
    complain_status(ctx, status);
  } else {
    outputs out = engine_read(&engine);
    verdict v = judge(&c->desc, &c->truth, naive, &out, magnitude);
    verify_add(run, ctx, c->name, attend_plan_engine(engine.plan), "golden",
               &v);
    outputs_free(&out);
  }
  engine_close(&engine);
  return status;
}

static attend_status run_case(verify_run *run, const golden_case *c) {
  size_t total = 0;
  for (int x = 0; x < OUTPUTS; x++) total += c->truth.count[x];
  float *block = need(total, sizeof *block);
  attend_tensors t = tensors_for(c, block);
  double magnitude[OUTPUTS];
  outputs naive = outputs_for(&c->desc, true);
  inputs in = {.desc = &t.desc, .q = t.q, .k = t.k, .v = t.v, .d_o = t.d_o};
  run_naive(&in, &naive, magnitude);
  attend_status status = ATTEND_OK;
  for (int n = 0; n < run->isas && !status; n++)
    status = run_engine(run, run->contexts[n], c, &t, &naive, magnitude);
  outputs_free(&naive);
  free(block);
  return status;
}

static attend_status verify_case(verify_run *run, attend_tensor_file *file,
                                 const char *path, const char *name,
                                 const char *settings) {
  golden_case c = {.path = path, .name = name, .file = file};
  attend_status status = read_settings(run->contexts[0], &c, settings);
  if (!status) status = read_truth(&c);
  if (!status) status = read_inputs(&c);
  if (!status) status = run_case(run, &c);
  close_case(&c);
  return status;
}

int verify_golden(verify_run *run, const char *path) {
  attend_tensor_file *file;
  attend_context *ctx = run->contexts[0];
  attend_status status = attend_tensor_file_open(ctx, path, &file);
  if (status) return complain_status(ctx, status);
  size_t cases = attend_tensor_file_notes(file);
  progress_start("golden cases", cases);
  for (size_t n = 0; n < cases && !status; n++) {
    const char *settings;
    const char *name = attend_tensor_file_note(file, n, &settings);
    progress_step(n, name);
    status = verify_case(run, file, path, name, settings);
  }
  progress_end();
  attend_tensor_file_close(file);
  if (!cases) {
    complain("%s has no cases: its metadata names none", path);
    return EXIT_FAILED;
  }
  return status ? EXIT_FAILED : EXIT_OK;
}
