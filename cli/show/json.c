/* A model's facts, for programs: one JSON object. */
#include <stdio.h>
#include <stdlib.h>

#include "show/print.h"
#include "table.h"

/* As a double a float would be written with digits that no one gave. */
static double short_of(float x) {
  char text[32];
  snprintf(text, sizeof text, "%.7g", (double)x);
  return strtod(text, NULL);
}

/* An object, or an element of an array, on a line of its own. */
static void open_line(attend_json_writer *w, const char *name) {
  if (name) attend_json_member(w, name);
  attend_json_indent(w, !name);
  attend_json_open(w, '{');
  attend_json_indent(w, false);
}

static void close_line(attend_json_writer *w) {
  attend_json_close(w, '}');
  attend_json_indent(w, true);
}

/* ---- configuration ------------------------------------------------------------------------- */

static void put_stack(attend_json_writer *w, const char *name, const attend_stack *s) {
  if (!s->layers) {
    json_text(w, name, NULL);
    return;
  }
  open_line(w, name);
  json_number(w, "layers", s->layers);
  json_number(w, "width", s->width);
  json_number(w, "heads", s->heads);
  json_number(w, "kv_heads", s->kv_heads);
  json_number(w, "dim", s->dim);
  json_number(w, "dim_v", s->dim_v);
  json_number(w, "mlp", s->mlp);
  close_line(w);
}

static void put_config(attend_json_writer *w, const shown *s) {
  const attend_config *c = s->facts->config;
  json_text(w, "path", s->path);
  json_text(w, "family", c->family);
  json_text(w, "parts", parts_name(c->parts));
  put_stack(w, "encoder", &c->encoder);
  put_stack(w, "decoder", &c->decoder);
  char roles[ATTEND_ROLES_TEXT];
  json_text(w, "attention", *c->attention ? c->attention : "softmax");
  json_text(w, "attention_roles", c->roles ? attend_roles_text(c->roles, roles) : NULL);
  json_text(w, "position", positions_name(c->position));
  json_number(w, "positions", c->positions);
  json_text(w, "activation", attend_activation_name(c->activation));
  json_truth(w, "gated", c->gated);
  json_text(w, "norm", c->rms ? "rms" : "layer");
  json_number(w, "norm_eps", short_of(c->norm_eps));
  json_truth(w, "post_norm", c->norms == ATTEND_NORM_SUM);
  json_number(w, "vocabulary", c->vocab);
  json_truth(w, "tied", c->tied);
  json_truth(w, "head", attend_checkpoint_has_head(s->facts->files));
  json_text(w, "tokenizer", s->tokenizer);
  json_number(w, "tokenizer_ids", s->tokens);
}

/* ---- counts ---------------------------------------------------------------------------------- */

static void put_stored(attend_json_writer *w, const model_facts *f) {
  json_number(w, "tensors_used", (double)f->tensors);
  json_number(w, "parameters", f->parameters);
  json_number(w, "bytes", f->bytes);
  json_number(w, "tensors_unused", (double)f->unused);
  json_number(w, "bytes_unused", f->unused_bytes);
  attend_json_member(w, "stored");
  attend_json_open(w, '[');
  for (int i = 0; i < f->n_kinds; i++) {
    open_line(w, NULL);
    json_text(w, "dtype", f->kinds[i].dtype);
    json_number(w, "tensors", (double)f->kinds[i].tensors);
    json_number(w, "parameters", f->kinds[i].parameters);
    json_number(w, "bytes", f->kinds[i].bytes);
    close_line(w);
  }
  attend_json_close(w, ']');
}

static void put_memory(attend_json_writer *w, const model_facts *f) {
  open_line(w, "memory");
  json_number(w, "f32", f->packed[ATTEND_WEIGHTS_F32]);
  json_number(w, "bf16", f->packed[ATTEND_WEIGHTS_BF16]);
  json_number(w, "int8", f->packed[ATTEND_WEIGHTS_I8]);
  json_number(w, "tables", f->tables);
  json_number(w, "cache_per_token", f->cache_token);
  json_number(w, "cross_cache_per_token", f->cross_token);
  json_number(w, "linear_state", f->state);
  json_number(w, "workspace", f->work);
  close_line(w);
}

static void put_costs(attend_json_writer *w, const model_facts *f) {
  json_text(w, "weights", weights_name(f->weights));
  json_number(w, "context", f->context);
  attend_json_member(w, "costs");
  attend_json_open(w, '[');
  for (int i = 0; i < f->n_costs; i++) {
    const token_cost *c = &f->costs[i];
    open_line(w, NULL);
    json_text(w, "what", c->what);
    json_number(w, "flops", c->flops);
    json_number(w, "bytes", c->bytes);
    json_text(w, "bound", c->limit.bound);
    json_number(w, "predicted_s", c->limit.least_s);
    json_number(w, "tokens_per_s", 1 / c->limit.least_s);
    close_line(w);
  }
  attend_json_close(w, ']');
}

static void put_shape(attend_json_writer *w, const attend_tensor *t) {
  attend_json_member(w, "shape");
  attend_json_open(w, '[');
  for (int i = 0; i < t->rank; i++) attend_json_put_integer(w, t->shape[i]);
  attend_json_close(w, ']');
}

static void put_tensors(attend_json_writer *w, const shown *s) {
  shown_tensor one;
  attend_json_member(w, "tensors");
  attend_json_open(w, '[');
  for (tensor_place at = {0}; show_tensor(s->facts->files, &at, &one);) {
    open_line(w, NULL);
    json_text(w, "name", one.tensor->name);
    put_shape(w, one.tensor);
    json_text(w, "dtype", one.tensor->dtype);
    json_number(w, "bytes", (double)one.tensor->bytes);
    json_text(w, "what", one.what);
    close_line(w);
  }
  attend_json_close(w, ']');
}

int show_json(const shown *s) {
  attend_context *ctx = s->facts->ctx;
  attend_json_writer w = attend_json_writer_file(ctx, stdout);
  attend_json_indent(&w, true);
  attend_json_open(&w, '{');
  put_config(&w, s);
  put_stored(&w, s->facts);
  put_memory(&w, s->facts);
  put_costs(&w, s->facts);
  if (s->tensors) put_tensors(&w, s);
  attend_json_close(&w, '}');
  attend_status status = attend_json_finish(&w);
  return status ? complain_status(ctx, status) : EXIT_OK;
}
