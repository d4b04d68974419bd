/* A model's facts, for programs: one JSON object.
 *
 * Place: cli/ - show --json.
 */
#include <stdio.h>
#include <stdlib.h>

#include "attend/json.h"
#include "show_print.h"

static void put_text(attend_json_writer *w, const char *name,
                     const char *text) {
  attend_json_member(w, name);
  if (text)
    attend_json_put_string(w, text);
  else
    attend_json_put_null(w);
}

static void put_number(attend_json_writer *w, const char *name, double number) {
  attend_json_member(w, name);
  attend_json_put_number(w, number); /* NaN is null */
}

/* As a double a float would be written with digits that no one gave. */
static double short_of(float x) {
  char text[32];
  snprintf(text, sizeof text, "%.7g", (double)x);
  return strtod(text, NULL);
}

static void put_truth(attend_json_writer *w, const char *name, bool truth) {
  attend_json_member(w, name);
  attend_json_put_boolean(w, truth);
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

static void put_stack(attend_json_writer *w, const char *name,
                      const attend_stack *s) {
  if (!s->layers) {
    put_text(w, name, NULL);
    return;
  }
  open_line(w, name);
  put_number(w, "layers", s->layers);
  put_number(w, "width", s->width);
  put_number(w, "heads", s->heads);
  put_number(w, "kv_heads", s->kv_heads);
  put_number(w, "dim", s->dim);
  put_number(w, "dim_v", s->dim_v);
  put_number(w, "mlp", s->mlp);
  close_line(w);
}

static void put_config(attend_json_writer *w, const shown *s) {
  const attend_config *c = s->facts->config;
  put_text(w, "path", s->path);
  put_text(w, "family", c->family);
  put_text(w, "parts", parts_name(c->parts));
  put_stack(w, "encoder", &c->encoder);
  put_stack(w, "decoder", &c->decoder);
  put_text(w, "position", positions_name(c->position));
  put_number(w, "positions", c->positions);
  put_text(w, "activation", attend_activation_name(c->activation));
  put_truth(w, "gated", c->gated);
  put_text(w, "norm", c->rms ? "rms" : "layer");
  put_number(w, "norm_eps", short_of(c->norm_eps));
  put_truth(w, "post_norm", c->post_norm);
  put_number(w, "vocabulary", c->vocab);
  put_truth(w, "tied", c->tied);
  put_truth(w, "head", attend_checkpoint_has_head(s->facts->files));
  put_text(w, "tokenizer", s->tokenizer);
  put_number(w, "tokenizer_ids", s->tokens);
}

/* ---- counts ---------------------------------------------------------------------------------- */

static void put_stored(attend_json_writer *w, const model_facts *f) {
  put_number(w, "tensors_used", (double)f->tensors);
  put_number(w, "parameters", f->parameters);
  put_number(w, "bytes", f->bytes);
  put_number(w, "tensors_unused", (double)f->unused);
  put_number(w, "bytes_unused", f->unused_bytes);
  attend_json_member(w, "stored");
  attend_json_open(w, '[');
  for (int i = 0; i < f->n_kinds; i++) {
    open_line(w, NULL);
    put_text(w, "dtype", f->kinds[i].dtype);
    put_number(w, "tensors", (double)f->kinds[i].tensors);
    put_number(w, "parameters", f->kinds[i].parameters);
    put_number(w, "bytes", f->kinds[i].bytes);
    close_line(w);
  }
  attend_json_close(w, ']');
}

static void put_memory(attend_json_writer *w, const model_facts *f) {
  open_line(w, "memory");
  put_number(w, "f32", f->packed[ATTEND_WEIGHTS_F32]);
  put_number(w, "bf16", f->packed[ATTEND_WEIGHTS_BF16]);
  put_number(w, "int8", f->packed[ATTEND_WEIGHTS_I8]);
  put_number(w, "tables", f->tables);
  put_number(w, "cache_per_token", f->cache_token);
  put_number(w, "cross_cache_per_token", f->cross_token);
  put_number(w, "linear_state", f->state);
  put_number(w, "workspace", f->work);
  close_line(w);
}

static void put_costs(attend_json_writer *w, const model_facts *f) {
  put_text(w, "weights", weights_name(f->weights));
  put_number(w, "context", f->context);
  attend_json_member(w, "costs");
  attend_json_open(w, '[');
  for (int i = 0; i < f->n_costs; i++) {
    const token_cost *c = &f->costs[i];
    open_line(w, NULL);
    put_text(w, "what", c->what);
    put_number(w, "flops", c->flops);
    put_number(w, "bytes", c->bytes);
    put_text(w, "bound", c->limit.bound);
    put_number(w, "predicted_s", c->limit.predicted_s);
    put_number(w, "tokens_per_s", 1 / c->limit.predicted_s);
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
  for (size_t i = 0; show_tensor(s->facts->files, &i, &one);) {
    open_line(w, NULL);
    put_text(w, "name", one.tensor->name);
    put_shape(w, one.tensor);
    put_text(w, "dtype", one.tensor->dtype);
    put_number(w, "bytes", (double)one.tensor->bytes);
    put_text(w, "what", one.what);
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
