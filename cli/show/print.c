/* A model's facts, for people.
 *
 * Show's answer on a terminal.
 */
#include "show/print.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "table.h"

/* ---- tensors ----------------------------------------------------------------------------- */

bool show_tensor(const attend_checkpoint *files, tensor_place *place, shown_tensor *t) {
  attend_parameter p;
  while (attend_checkpoint_get(files, place->entry, &p)) {
    place->entry++;
    if (!p.tensor) continue;
    *t = (shown_tensor){.tensor = p.tensor, .layer = p.layer};
    snprintf(t->what, sizeof t->what, "%s%s%s",
             p.encoder && attend_checkpoint_config(files)->parts == ATTEND_BOTH ? "encoder: " : "",
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
  for (tensor_place at = {0}; show_tensor(s->facts->files, &at, &one);) {
    shape_text(one.tensor, shape, sizeof shape);
    table_add(&t,
              (cell[]){cell_text(one.tensor->name), cell_text(shape), cell_text(one.tensor->dtype),
                       cell_number((double)one.tensor->bytes),
                       one.layer < 0 ? cell_none() : cell_number(one.layer), cell_text(one.what)});
  }
  putchar('\n');
  int code = table_print(&t, stdout);
  table_free(&t);
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
  printf("  %-11s %s", "positions", positions_name(c->position));
  if (c->positions)
    printf(", %d", c->positions);
  else
    fputs(", no limit", stdout);
  if (c->position == ATTEND_POSITIONS_ROTARY) printf(", theta %g", c->rope.theta);
  if (c->position == ATTEND_POSITIONS_BUCKETS)
    printf(", %d up to distance %d", c->buckets, c->max_distance);
  putchar('\n');
}

static void print_attention(const attend_config *c) {
  char roles[ATTEND_ROLES_TEXT];
  if (!*c->attention) return;
  printf("  %-11s %s", "attention", c->attention);
  if (c->roles) printf(" in %s", attend_roles_text(c->roles, roles));
  putchar('\n');
}

static void print_config(const shown *s) {
  const attend_config *c = s->facts->config;
  bool head = attend_checkpoint_has_head(s->facts->files);
  printf("%s\n  %-11s %s, %s\n", s->path, "family", c->family, parts_name(c->parts));
  print_stack("encoder", &c->encoder);
  print_stack("decoder", &c->decoder);
  print_attention(c);
  print_positions(c);
  printf("  %-11s %s%s\n", "activation", attend_activation_name(c->activation),
         c->gated ? ", gated" : "");
  printf("  %-11s %s, eps %g, %s%s%s\n", "norm", c->rms ? "rms" : "layer", (double)c->norm_eps,
         norms_name(c->norms), c->embed_norm ? ", after the embeddings" : "",
         c->final_norm ? ", at the end" : "");
  printf("  %-11s %d%s\n", "vocabulary", c->vocab, c->types ? ", with segments" : "");
  printf("  %-11s %s\n", "head",
         !head          ? "none: hidden states only"
         : c->transform ? "masked LM"
         : c->tied      ? "the token table"
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

static int print_stored(const model_facts *f) {
  table t = table_start(stored_columns);
  for (int i = 0; i < f->n_kinds; i++) {
    const stored_as *k = &f->kinds[i];
    table_add(&t, (cell[]){cell_text(k->dtype), cell_number((double)k->tensors),
                           cell_number(k->parameters), cell_number(k->bytes)});
  }
  if (f->n_kinds > 1)
    table_add(&t, (cell[]){cell_text("all"), cell_number((double)f->tensors),
                           cell_number(f->parameters), cell_number(f->bytes)});
  if (f->unused)
    table_add(&t, (cell[]){cell_text("not used"), cell_number((double)f->unused), cell_none(),
                           cell_number(f->unused_bytes)});
  putchar('\n');
  int code = table_print(&t, stdout);
  table_free(&t);
  return code;
}

static const column memory_columns[] = {
    {"what", "to run", CELL_TEXT}, {"bytes", "bytes", CELL_BYTES}, {NULL, NULL, CELL_TEXT}};

static void add_memory(table *t, const char *what, double bytes) {
  if (!isnan(bytes)) table_add(t, (cell[]){cell_text(what), cell_number(bytes)});
}

static int print_memory(const model_facts *f) {
  char state[64];
  table t = table_start(memory_columns);
  snprintf(state, sizeof state, "state with %s, any length", f->state_form);
  add_memory(&t, "weights as f32", f->packed[ATTEND_WEIGHTS_F32]);
  add_memory(&t, "weights as bf16", f->packed[ATTEND_WEIGHTS_BF16]);
  add_memory(&t, "weights as int8", f->packed[ATTEND_WEIGHTS_I8]);
  add_memory(&t, "tables, looked up in the file", f->tables);
  add_memory(&t, "cache of a token", f->cache_token);
  add_memory(&t, "cache of 1000 tokens", 1000 * f->cache_token);
  add_memory(&t, "and of 1000 that were encoded", 1000 * f->cross_token);
  add_memory(&t, state, f->state);
  add_memory(&t, "workspace, 512 rows at once", f->work);
  putchar('\n');
  int code = table_print(&t, stdout);
  table_free(&t);
  return code;
}

static const column cost_columns[] = {{"what", "a token", CELL_TEXT},
                                      {"flops", "FLOPs", CELL_NUMBER},
                                      {"bytes", "bytes", CELL_BYTES},
                                      {"bound", "bound", CELL_TEXT},
                                      {"least", "at least", CELL_SECONDS},
                                      {"rate", "tokens/s", CELL_NUMBER},
                                      {NULL, NULL, CELL_TEXT}};

static int print_costs(const model_facts *f) {
  table t = table_start(cost_columns);
  char what[64];
  for (int i = 0; i < f->n_costs; i++) {
    const token_cost *c = &f->costs[i];
    bool write = !strcmp(c->what, "write");
    snprintf(what, sizeof what, write ? "%s, after %d" : "%s, %d at once", c->what, f->context);
    table_add(&t, (cell[]){cell_text(what), cell_number(c->flops), cell_number(c->bytes),
                           c->limit.bound ? cell_text(c->limit.bound) : cell_text("-"),
                           cell_number(c->limit.least_s), cell_number(1 / c->limit.least_s)});
  }
  putchar('\n');
  int code = table_print(&t, stdout);
  table_free(&t);
  if (!f->measured) puts("How fast that is here, once `attend bench machine' has measured it.");
  return code;
}

int show_lines(const shown *s) {
  print_config(s);
  int code = print_stored(s->facts);
  if (!code) code = print_memory(s->facts);
  if (!code) code = print_costs(s->facts);
  if (!code && s->tensors) code = print_tensors(s);
  return code ? code : check_written(stdout, "the description");
}
