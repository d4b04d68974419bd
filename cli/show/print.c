/* What attend show prints: lines and tables, or one JSON object. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "show/show.h"
#include "table.h"

/* ---- words --------------------------------------------------------------------------- */

static const char *parts_name(attend_parts parts) {
  return parts == ATTEND_ENCODER   ? "encoder"
         : parts == ATTEND_DECODER ? "decoder"
                                   : "encoder and decoder";
}

static const char *norms_name(attend_norms norms) {
  static const char *const names[] = {"before each branch", "after each sum", "after each branch",
                                      "before and after each branch", "none"};
  return names[norms];
}

static const char *positions_name(attend_positions positions) {
  static const char *const names[] = {"learned", "sinusoidal", "rotary", "buckets of distance"};
  return names[positions];
}

static const char *weights_name(attend_weights weights) {
  static const char *const names[] = {"f32", "bf16", "int8"};
  return names[weights];
}

/* ---- tensors ------------------------------------------------------------------------- */

/* The tensors of the files as the model sees them, from a place of zeros on: entries of the
 * table that are there, then those that it does not use. False past the last. */
typedef struct {
  size_t entry, unused;
} tensor_place;
typedef struct {
  const attend_tensor *tensor;
  char what[64];
  int layer; /* -1: of no layer */
} shown_tensor;

static bool show_tensor(const attend_checkpoint *files, tensor_place *place, shown_tensor *t) {
  attend_parameter p;
  while (attend_checkpoint_get(files, place->entry, &p)) {
    place->entry++;
    if (!p.tensor) continue;
    *t = (shown_tensor){.tensor = p.tensor, .layer = p.layer};
    snprintf(t->what, sizeof t->what, "%s%s%s",
             p.encoder && attend_config_parts(attend_checkpoint_config(files)) == ATTEND_BOTH
                 ? "encoder: "
                 : "",
             p.what, p.bias ? ", bias" : "");
    return true;
  }
  *t = (shown_tensor){.layer = -1, .tensor = attend_checkpoint_unused(files, place->unused++)};
  snprintf(t->what, sizeof t->what, "not used");
  return t->tensor;
}

static void shape_text(const attend_tensor *t, char *text, size_t size) {
  size_t n = (size_t)snprintf(text, size, "[");
  for (int i = 0; i < t->rank && n < size; i++)
    n += (size_t)snprintf(text + n, size - n, "%s%lld", i ? ", " : "", (long long)t->shape[i]);
  if (n < size) snprintf(text + n, size - n, "]");
}

static const column tensor_columns[] = {
    {"name", "name", CELL_TEXT},    {"shape", "shape", CELL_TEXT},  {"dtype", "dtype", CELL_TEXT},
    {"bytes", "bytes", CELL_BYTES}, {"layer", "layer", CELL_COUNT}, {"what", "what", CELL_TEXT},
    {NULL, NULL, CELL_TEXT}};

static int print_tensors(const shown *s) {
  table t = table_start(tensor_columns);
  shown_tensor one;
  char shape[128];
  for (tensor_place at = {0}; show_tensor(s->files, &at, &one);) {
    shape_text(one.tensor, shape, sizeof shape);
    table_add(&t,
              (cell[]){cell_text(one.tensor->name), cell_text(shape), cell_text(one.tensor->dtype),
                       cell_number((double)one.tensor->bytes),
                       one.layer < 0 ? cell_none() : cell_number(one.layer), cell_text(one.what)});
  }
  putchar('\n');
  return table_finish(&t, s->ctx, false);
}

int show_tensor_file(attend_context *ctx, const char *path, bool json) {
  static const column columns[] = {{"name", "name", CELL_TEXT},
                                   {"shape", "shape", CELL_TEXT},
                                   {"dtype", "dtype", CELL_TEXT},
                                   {"bytes", "bytes", CELL_BYTES},
                                   {NULL, NULL, CELL_TEXT}};
  attend_tensor_file *file;
  attend_status status = attend_tensor_file_open(ctx, path, &file);
  if (status) return complain_status(ctx, status);
  table t = table_start(columns);
  char shape[128];
  for (size_t i = 0; i < attend_tensor_file_count(file); i++) {
    const attend_tensor *one = attend_tensor_file_get(file, i);
    shape_text(one, shape, sizeof shape);
    table_add(&t, (cell[]){cell_text(one->name), cell_text(shape), cell_text(one->dtype),
                           cell_number((double)one->bytes)});
  }
  int code = table_finish(&t, ctx, json);
  attend_tensor_file_free(file);
  return code;
}

/* ---- configuration ------------------------------------------------------------------------- */

static void print_stack(const char *name, const attend_stack *s) {
  if (!s->layers) return;
  printf("  %-11s %d layer%s of width %d, %d head%s of %d", name, s->layers,
         s->layers == 1 ? "" : "s", s->width, s->heads, s->heads == 1 ? "" : "s", s->dim);
  if (s->dim_v != s->dim) printf(" (values %d)", s->dim_v);
  if (s->kv_heads != s->heads) printf(", %d kv head%s", s->kv_heads, s->kv_heads == 1 ? "" : "s");
  printf(", mlp %d\n", s->mlp);
}

static void print_positions(const attend_config *c) {
  printf("  %-11s %s", "positions",
         positions_name((attend_positions)attend_config_get(c, ATTEND_CONFIG_POSITION)));
  if (attend_config_get(c, ATTEND_CONFIG_POSITIONS))
    printf(", %d", attend_config_get(c, ATTEND_CONFIG_POSITIONS));
  else
    fputs(", no limit", stdout);
  if (attend_config_get(c, ATTEND_CONFIG_POSITION) == ATTEND_POSITIONS_ROTARY)
    printf(", theta %g", attend_config_rope_theta(c));
  if (attend_config_get(c, ATTEND_CONFIG_POSITION) == ATTEND_POSITIONS_BUCKETS)
    printf(", %d up to distance %d", attend_config_get(c, ATTEND_CONFIG_BUCKETS),
           attend_config_get(c, ATTEND_CONFIG_MAX_DISTANCE));
  putchar('\n');
}

static void print_attention(const attend_config *c) {
  char roles[ATTEND_ROLES_TEXT];
  if (!*attend_config_attention(c)) return;
  printf("  %-11s %s", "attention", attend_config_attention(c));
  if (attend_config_roles(c)) printf(" in %s", attend_roles_text(attend_config_roles(c), roles));
  putchar('\n');
}

static void print_config(const shown *s) {
  const attend_config *c = attend_checkpoint_config(s->files);
  bool head = attend_checkpoint_has_head(s->files);
  printf("%s\n  %-11s %s, %s\n", s->path, "family", attend_config_family(c),
         parts_name(attend_config_parts(c)));
  print_stack("encoder", attend_config_stack(c, ATTEND_ENCODER));
  print_stack("decoder", attend_config_stack(c, ATTEND_DECODER));
  print_attention(c);
  print_positions(c);
  printf("  %-11s %s%s\n", "activation",
         attend_activation_name((attend_activation)attend_config_get(c, ATTEND_CONFIG_ACTIVATION)),
         attend_config_get(c, ATTEND_CONFIG_GATED) ? ", gated" : "");
  printf("  %-11s %s, eps %g, %s%s%s\n", "norm",
         attend_config_get(c, ATTEND_CONFIG_RMS) ? "rms" : "layer", attend_config_norm_eps(c),
         norms_name((attend_norms)attend_config_get(c, ATTEND_CONFIG_NORMS)),
         attend_config_get(c, ATTEND_CONFIG_EMBED_NORM) ? ", after the embeddings" : "",
         attend_config_get(c, ATTEND_CONFIG_FINAL_NORM) ? ", at the end" : "");
  printf("  %-11s %d%s\n", "vocabulary", attend_config_get(c, ATTEND_CONFIG_VOCAB),
         attend_config_get(c, ATTEND_CONFIG_TYPES) ? ", with segments" : "");
  printf("  %-11s %s\n", "head",
         !head                                           ? "none: hidden states only"
         : attend_config_get(c, ATTEND_CONFIG_TRANSFORM) ? "masked LM"
         : attend_config_get(c, ATTEND_CONFIG_TIED)      ? "the token table"
                                                         : "of its own");
  if (s->tokenizer)
    printf("  %-11s %s, %d ids\n", "tokenizer", s->tokenizer, (int)s->tokens);
  else
    printf("  %-11s none%s%s\n", "tokenizer", s->refusal ? ": " : "", s->refusal ? s->refusal : "");
}

/* ---- tables --------------------------------------------------------------------------------- */

static const column stored_columns[] = {{"dtype", "stored as", CELL_TEXT},
                                        {"tensors", "tensors", CELL_COUNT},
                                        {"parameters", "parameters", CELL_NUMBER},
                                        {"bytes", "bytes", CELL_BYTES},
                                        {NULL, NULL, CELL_TEXT}};

static int print_stored(const shown *s) {
  table t = table_start(stored_columns);
  for (int i = 0; i < s->cost.n_stored; i++) {
    const attend_stored_part *k = &s->cost.stored[i];
    table_add(&t, (cell[]){cell_text(k->dtype), cell_number((double)k->tensors),
                           cell_number(k->parameters), cell_number(k->bytes)});
  }
  if (s->cost.n_stored > 1)
    table_add(&t, (cell[]){cell_text("all"), cell_number((double)s->cost.tensors),
                           cell_number(s->cost.parameters), cell_number(s->cost.bytes)});
  if (s->cost.unused)
    table_add(&t, (cell[]){cell_text("not used"), cell_number((double)s->cost.unused), cell_none(),
                           cell_number(s->cost.unused_bytes)});
  putchar('\n');
  return table_finish(&t, s->ctx, false);
}

static const column memory_columns[] = {
    {"what", "to run", CELL_TEXT}, {"bytes", "bytes", CELL_BYTES}, {NULL, NULL, CELL_TEXT}};

static void add_memory(table *t, const char *what, double bytes) {
  if (!isnan(bytes)) table_add(t, (cell[]){cell_text(what), cell_number(bytes)});
}

static int print_memory(const shown *s) {
  char state[64];
  table t = table_start(memory_columns);
  snprintf(state, sizeof state, "state with %s, any length", s->state_form);
  add_memory(&t, "weights as f32", s->cost.packed[ATTEND_WEIGHTS_F32]);
  add_memory(&t, "weights as bf16", s->cost.packed[ATTEND_WEIGHTS_BF16]);
  add_memory(&t, "weights as int8", s->cost.packed[ATTEND_WEIGHTS_I8]);
  add_memory(&t, "tables, looked up in the file", s->cost.tables);
  add_memory(&t, "cache of a token", s->cost.cache_token);
  add_memory(&t, "cache of 1000 tokens", 1000 * s->cost.cache_token);
  add_memory(&t, "and of 1000 that were encoded", 1000 * s->cost.cross_token);
  add_memory(&t, state, s->cost.state);
  add_memory(&t, "workspace, 512 rows at once", s->cost.work);
  putchar('\n');
  return table_finish(&t, s->ctx, false);
}

static const column cost_columns[] = {{"what", "a token", CELL_TEXT},
                                      {"flops", "FLOPs", CELL_NUMBER},
                                      {"bytes", "bytes", CELL_BYTES},
                                      {"bound", "bound", CELL_TEXT},
                                      {"least", "at least", CELL_SECONDS},
                                      {"rate", "tokens/s", CELL_NUMBER},
                                      {NULL, NULL, CELL_TEXT}};

static int print_costs(const shown *s) {
  table t = table_start(cost_columns);
  char what[64];
  for (int i = 0; i < s->n_costs; i++) {
    const shown_cost *c = &s->costs[i];
    bool write = !strcmp(c->what, "write");
    snprintf(what, sizeof what, write ? "%s, after %d" : "%s, %d at once", c->what,
             s->cost.context);
    table_add(&t, (cell[]){cell_text(what), cell_number(c->cost.flops), cell_number(c->cost.bytes),
                           c->limit.bound ? cell_text(c->limit.bound) : cell_text("-"),
                           cell_number(c->limit.least_s), cell_number(1 / c->limit.least_s)});
  }
  putchar('\n');
  int code = table_finish(&t, s->ctx, false);
  if (!s->measured) puts("How fast that is here, once `attend bench machine' has measured it.");
  return code;
}

int show_lines(const shown *s) {
  print_config(s);
  int code = print_stored(s);
  if (!code) code = print_memory(s);
  if (!code) code = print_costs(s);
  if (!code && s->tensors) code = print_tensors(s);
  return code ? code : check_written(stdout, "the description");
}

/* ---- JSON ---------------------------------------------------------------------------- */

/* As a double a float would be written with digits that no one gave. */
static double short_of(float x) {
  char text[32];
  snprintf(text, sizeof text, "%.7g", (double)x);
  return strtod(text, NULL);
}

/* An object, or an element of an array, on a line of its own. */
static void open_line(json_writer *w, const char *name) {
  if (name) json_member(w, name);
  json_indent(w, !name);
  json_open(w, '{');
  json_indent(w, false);
}

static void close_line(json_writer *w) {
  json_close(w, '}');
  json_indent(w, true);
}

/* ---- configuration ------------------------------------------------------------------------- */

static void put_stack(json_writer *w, const char *name, const attend_stack *s) {
  if (!s->layers) {
    json_member_string(w, name, NULL);
    return;
  }
  open_line(w, name);
  json_member_number(w, "layers", s->layers);
  json_member_number(w, "width", s->width);
  json_member_number(w, "heads", s->heads);
  json_member_number(w, "kv_heads", s->kv_heads);
  json_member_number(w, "dim", s->dim);
  json_member_number(w, "dim_v", s->dim_v);
  json_member_number(w, "mlp", s->mlp);
  close_line(w);
}

static void put_config(json_writer *w, const shown *s) {
  const attend_config *c = attend_checkpoint_config(s->files);
  json_member_string(w, "path", s->path);
  json_member_string(w, "family", attend_config_family(c));
  json_member_string(w, "parts", parts_name(attend_config_parts(c)));
  put_stack(w, "encoder", attend_config_stack(c, ATTEND_ENCODER));
  put_stack(w, "decoder", attend_config_stack(c, ATTEND_DECODER));
  char roles[ATTEND_ROLES_TEXT];
  json_member_string(w, "attention",
                     *attend_config_attention(c) ? attend_config_attention(c) : "softmax");
  json_member_string(
      w, "attention_roles",
      attend_config_roles(c) ? attend_roles_text(attend_config_roles(c), roles) : NULL);
  json_member_string(
      w, "position",
      positions_name((attend_positions)attend_config_get(c, ATTEND_CONFIG_POSITION)));
  json_member_number(w, "positions", attend_config_get(c, ATTEND_CONFIG_POSITIONS));
  json_member_string(
      w, "activation",
      attend_activation_name((attend_activation)attend_config_get(c, ATTEND_CONFIG_ACTIVATION)));
  json_member_boolean(w, "gated", attend_config_get(c, ATTEND_CONFIG_GATED));
  json_member_string(w, "norm", attend_config_get(c, ATTEND_CONFIG_RMS) ? "rms" : "layer");
  json_member_number(w, "norm_eps", short_of(attend_config_norm_eps(c)));
  json_member_boolean(w, "post_norm", attend_config_get(c, ATTEND_CONFIG_NORMS) == ATTEND_NORM_SUM);
  json_member_number(w, "vocabulary", attend_config_get(c, ATTEND_CONFIG_VOCAB));
  json_member_boolean(w, "tied", attend_config_get(c, ATTEND_CONFIG_TIED));
  json_member_boolean(w, "head", attend_checkpoint_has_head(s->files));
  json_member_string(w, "tokenizer", s->tokenizer);
  json_member_number(w, "tokenizer_ids", s->tokens);
}

/* ---- counts ---------------------------------------------------------------------------------- */

static void put_stored(json_writer *w, const shown *s) {
  json_member_number(w, "tensors_used", (double)s->cost.tensors);
  json_member_number(w, "parameters", s->cost.parameters);
  json_member_number(w, "bytes", s->cost.bytes);
  json_member_number(w, "tensors_unused", (double)s->cost.unused);
  json_member_number(w, "bytes_unused", s->cost.unused_bytes);
  json_member(w, "stored");
  json_open(w, '[');
  for (int i = 0; i < s->cost.n_stored; i++) {
    open_line(w, NULL);
    json_member_string(w, "dtype", s->cost.stored[i].dtype);
    json_member_number(w, "tensors", (double)s->cost.stored[i].tensors);
    json_member_number(w, "parameters", s->cost.stored[i].parameters);
    json_member_number(w, "bytes", s->cost.stored[i].bytes);
    close_line(w);
  }
  json_close(w, ']');
}

static void put_memory(json_writer *w, const shown *s) {
  open_line(w, "memory");
  json_member_number(w, "f32", s->cost.packed[ATTEND_WEIGHTS_F32]);
  json_member_number(w, "bf16", s->cost.packed[ATTEND_WEIGHTS_BF16]);
  json_member_number(w, "int8", s->cost.packed[ATTEND_WEIGHTS_I8]);
  json_member_number(w, "tables", s->cost.tables);
  json_member_number(w, "cache_per_token", s->cost.cache_token);
  json_member_number(w, "cross_cache_per_token", s->cost.cross_token);
  json_member_number(w, "linear_state", s->cost.state);
  json_member_number(w, "workspace", s->cost.work);
  close_line(w);
}

static void put_costs(json_writer *w, const shown *s) {
  json_member_string(w, "weights", weights_name(s->weights));
  json_member_number(w, "context", s->cost.context);
  json_member(w, "costs");
  json_open(w, '[');
  for (int i = 0; i < s->n_costs; i++) {
    const shown_cost *c = &s->costs[i];
    open_line(w, NULL);
    json_member_string(w, "what", c->what);
    json_member_number(w, "flops", c->cost.flops);
    json_member_number(w, "bytes", c->cost.bytes);
    json_member_string(w, "bound", c->limit.bound);
    json_member_number(w, "predicted_s", c->limit.least_s);
    json_member_number(w, "tokens_per_s", 1 / c->limit.least_s);
    close_line(w);
  }
  json_close(w, ']');
}

static void put_shape(json_writer *w, const attend_tensor *t) {
  json_member(w, "shape");
  json_open(w, '[');
  for (int i = 0; i < t->rank; i++) json_put_integer(w, t->shape[i]);
  json_close(w, ']');
}

static void put_tensors(json_writer *w, const shown *s) {
  shown_tensor one;
  json_member(w, "tensors");
  json_open(w, '[');
  for (tensor_place at = {0}; show_tensor(s->files, &at, &one);) {
    open_line(w, NULL);
    json_member_string(w, "name", one.tensor->name);
    put_shape(w, one.tensor);
    json_member_string(w, "dtype", one.tensor->dtype);
    json_member_number(w, "bytes", (double)one.tensor->bytes);
    json_member_string(w, "what", one.what);
    close_line(w);
  }
  json_close(w, ']');
}

int show_json(const shown *s) {
  attend_context *ctx = s->ctx;
  json_writer w = json_writer_file(ctx, stdout);
  json_indent(&w, true);
  json_open(&w, '{');
  put_config(&w, s);
  put_stored(&w, s);
  put_memory(&w, s);
  put_costs(&w, s);
  if (s->tensors) put_tensors(&w, s);
  json_close(&w, '}');
  attend_status status = json_finish(&w);
  return status ? complain_status(ctx, status) : EXIT_OK;
}
