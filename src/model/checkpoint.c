/* A checkpoint: its files, its prefix, and where each entry of the parameter table
 * lies.
 *
 * Tensor names are the family's after one prefix ("", "bert.", "transformer.",
 * "model.", or any other), found by the name of the embedding table; heads are
 * outside the base model. There may be any number of shards and tensors, so they are
 * sorted rather than searched linearly.
 */
#include "model/checkpoint.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "base/files.h"

/* ---- files ----------------------------------------------------------------------- */

static attend_status add_file(attend_checkpoint *c, const char *path) {
  attend_status status = attend_tensor_file_open(c->ctx, path, &c->file[c->files]);
  if (status) return status;
  for (size_t i = 0; i < attend_tensor_file_count(c->file[c->files]); i++)
    c->bytes += attend_tensor_file_get(c->file[c->files], i)->bytes;
  c->files++;
  return ATTEND_OK;
}

static bool is_plain_name(const char *name) {
  return *name && !strchr(name, '/') && strcmp(name, "..") && strlen(name) < 200;
}

/* ---- shards ---------------------------------------------------------------------- */

enum { MOST_SHARDS = 4096 };

/* A mention of a shard in the index. */
typedef struct {
  const char *name;
  size_t at;
} mention;

static int by_name(const void *a, const void *b) {
  const mention *x = a, *y = b;
  int order = strcmp(x->name, y->name);
  return order ? order : (x->at > y->at) - (x->at < y->at);
}

static int by_place(const void *a, const void *b) {
  const mention *x = a, *y = b;
  return (x->at > y->at) - (x->at < y->at);
}

/* Each shard once, in the order of their first tensors. Sorting keeps this fast for
 * an index of any size. */
static attend_status shard_names(attend_checkpoint *c, const char *index, const attend_json *map,
                                 mention *shard, size_t *count) {
  size_t n = attend_json_count(map), kept = 0;
  for (size_t i = 0; i < n; i++) {
    shard[i] = (mention){attend_json_string(attend_json_at(map, i), NULL), i};
    if (!shard[i].name || !is_plain_name(shard[i].name))
      return fail(c->ctx, ATTEND_IO,
                  "%s: the shard of \"%.100s\" is not the name of a file beside it", index,
                  attend_json_name(attend_json_at(map, i), NULL));
  }
  qsort(shard, n, sizeof *shard, by_name);
  for (size_t i = 0; i < n; i++)
    if (!kept || strcmp(shard[kept - 1].name, shard[i].name)) shard[kept++] = shard[i];
  qsort(shard, kept, sizeof *shard, by_place);
  if (kept > MOST_SHARDS)
    return fail(c->ctx, ATTEND_IO, "%s names more than %d shards", index, MOST_SHARDS);
  *count = kept;
  return ATTEND_OK;
}

static attend_status open_shards(attend_checkpoint *c, const char *folder, const char *index,
                                 const attend_json *map) {
  mention *shard;
  size_t count = 0;
  char path[LONGEST_PATH];
  if (attend_json_kind_of(map) != ATTEND_JSON_OBJECT || !attend_json_count(map))
    return fail(c->ctx, ATTEND_IO, "%s has no weight_map", index);
  ATTEND_TRY(
      ctx_alloc(c->ctx, size_times(attend_json_count(map), sizeof *shard), "the shards", &shard));
  attend_status status = shard_names(c, index, map, shard, &count);
  if (!status)
    status = ctx_alloc_zeroed(c->ctx, size_times(count, sizeof *c->file), "the shards", &c->file);
  for (size_t i = 0; i < count && !status; i++) {
    snprintf(path, sizeof path, "%s/%s", folder, shard[i].name);
    status = add_file(c, path);
  }
  ctx_free(c->ctx, shard);
  return status;
}

/* ---- a folder -------------------------------------------------------------------- */

/* The only .safetensors file of a folder, whatever its name. */
static int only_file(const char *folder, char *path, size_t size) {
  DIR *d = opendir(folder);
  struct dirent *entry;
  int found = 0;
  while (d && (entry = readdir(d))) {
    if (!name_ends(entry->d_name, ".safetensors")) continue;
    if (++found == 1 && !file_beside(folder, entry->d_name, path, size)) found = 0;
  }
  if (d) closedir(d);
  return found;
}

static attend_status open_files(attend_checkpoint *c, const char *folder) {
  char path[LONGEST_PATH];
  attend_json *index;
  bool whole = file_beside(folder, "model.safetensors", path, sizeof path);
  bool sharded = !whole && file_beside(folder, "model.safetensors.index.json", path, sizeof path);
  if (!sharded && (whole || only_file(folder, path, sizeof path) == 1)) {
    ATTEND_TRY(ctx_alloc_zeroed(c->ctx, sizeof *c->file, "a checkpoint", &c->file));
    return add_file(c, path);
  }
  if (!sharded)
    return fail(c->ctx, ATTEND_IO,
                "%s has neither model.safetensors nor model.safetensors.index.json: weights in "
                "other formats are not read",
                folder);
  ATTEND_TRY(json_read(c->ctx, path, &index));
  attend_status status = open_shards(c, folder, path, attend_json_get(index, "weight_map"));
  attend_json_free(index);
  return status;
}

/* ---- all tensors by name --------------------------------------------------------- */

/* Of several with the same name, that of the first file comes first. */
static int by_tensor_name(const void *a, const void *b) {
  const named_tensor *x = a, *y = b;
  int order = strcmp(x->tensor->name, y->tensor->name);
  return order ? order : x->file - y->file;
}

static int by_file(const void *a, const void *b) {
  const named_tensor *x = a, *y = b;
  return x->file != y->file ? x->file - y->file : (x->tensor > y->tensor) - (x->tensor < y->tensor);
}

static attend_status list_tensors(attend_checkpoint *c) {
  size_t n = 0;
  for (int f = 0; f < c->files; f++) n += attend_tensor_file_count(c->file[f]);
  ATTEND_TRY(ctx_alloc(c->ctx, size_times(n, sizeof *c->list), "a checkpoint", &c->list));
  for (int f = 0; f < c->files; f++)
    for (size_t j = 0; j < attend_tensor_file_count(c->file[f]); j++)
      c->list[c->tensors++] = (named_tensor){attend_tensor_file_get(c->file[f], j), f, false};
  qsort(c->list, n, sizeof *c->list, by_tensor_name);
  return ATTEND_OK;
}

static named_tensor *find_named(const attend_checkpoint *c, const char *name) {
  size_t low = 0, high = c->tensors;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (strcmp(c->list[middle].tensor->name, name) < 0)
      low = middle + 1;
    else
      high = middle;
  }
  bool found = low < c->tensors && !strcmp(c->list[low].tensor->name, name);
  return found ? &c->list[low] : NULL;
}

static void keep_unused(attend_checkpoint *c) {
  size_t n = 0;
  for (size_t i = 0; i < c->tensors; i++)
    if (!c->list[i].used) c->list[n++] = c->list[i];
  c->tensors = n;
  qsort(c->list, n, sizeof *c->list, by_file);
}

const attend_tensor *attend_checkpoint_unused(const attend_checkpoint *c, size_t i) {
  return i < c->tensors ? c->list[i].tensor : NULL;
}

/* ---- the parameter table: a family's lines for every layer, with their shapes ---- */

static const attend_stack *stack_of(const attend_config *c, attend_parts of) {
  bool encoder = of == ATTEND_ENCODER || c->parts == ATTEND_ENCODER;
  return encoder ? &c->encoder : &c->decoder;
}

static int64_t size_of(const attend_config *c, attend_parts of, char letter) {
  const attend_stack *s = stack_of(c, of);
  const int64_t q = (int64_t)s->heads * s->dim, k = (int64_t)s->kv_heads * s->dim,
                w = (int64_t)s->kv_heads * s->dim_v;
  const int64_t sizes['Z'] = {['V'] = c->vocab,
                              ['F'] = s->width,
                              ['E'] = c->encoder.width,
                              ['D'] = c->embed_width ? c->embed_width : stack_of(c, 0)->width,
                              ['N'] = s->dim,
                              ['P'] = (int64_t)c->positions + c->position_offset,
                              ['T'] = c->types,
                              ['Q'] = q,
                              ['K'] = k,
                              ['W'] = w,
                              ['O'] = (int64_t)s->heads * s->dim_v,
                              ['A'] = q + k + w,
                              ['I'] = s->mlp,
                              ['B'] = c->buckets,
                              ['H'] = s->heads,
                              ['C'] = c->copy,
                              ['1'] = 1};
  return sizes[(unsigned char)letter];
}

static bool is_wanted(const attend_config *c, const line *l) {
  if (l->of && !(c->parts & l->of)) return false;
  if (l->flags & IF_GATED && !c->gated) return false;
  if (l->flags & IF_PLAIN && c->gated) return false;
  if (l->slot == TYPES && c->types == 0) return false;
  if (l->slot >= COPY_Q && c->copy == 0) return false;
  if (l->slot == PROJECTION && stack_of(c, l->of)->width == size_of(c, l->of, 'D')) return false;
  if (l->slot == POSITIONS && c->position != ATTEND_POSITIONS_LEARNED) return false;
  return true;
}

static bool is_biased(const attend_config *c, const line *l) {
  return l->flags & BIASED || (l->flags & IF_BIASES && c->attention_biases) ||
         (l->flags & IF_MLP_BIASES && c->mlp_biases);
}

static int layers_of(const attend_config *c, const line *l) {
  bool layered = l->slot >= SELF_NORM && l->slot < FINAL_NORM;
  if (!layered || l->flags & ONE_LAYER) return 0;
  return c->layer_groups ? c->layer_groups : stack_of(c, l->of)->layers;
}

static void put(parameter_table *t, const attend_config *c, const line *l, int layer,
                bool is_bias) {
  parameter *p = &t->entry[t->count++];
  bool tied = l->slot == HEAD && !is_bias;
  p->slot = l->slot;
  p->of = l->of;
  p->layer = layer;
  p->is_bias = is_bias;
  p->transposed = l->flags & TRANSPOSED && !is_bias;
  p->may_lack = l->flags & MAY_LACK || tied;
  p->outside = l->flags & OUTSIDE;
  p->fixed = l->flags & FIXED;
  p->names = l->name;
  p->suffix = l->flags & BARE_BIAS ? "" : is_bias ? ".bias" : ".weight";
  p->rank = l->sizes[1] && !is_bias ? 2 : 1;
  for (int i = 0; i < p->rank; i++) p->shape[i] = size_of(c, l->of, l->sizes[i]);
}

static size_t expand(parameter_table *t, const attend_config *c, const line *lines) {
  size_t count = 0;
  for (const line *l = lines; l->name; l++) {
    if (!is_wanted(c, l)) continue;
    bool bare = l->flags & BARE_BIAS, biased = is_biased(c, l);
    int layers = layers_of(c, l);
    for (int i = 0; i < (layers ? layers : 1); i++) {
      count += 1 + (size_t)biased;
      if (!t) continue;
      put(t, c, l, layers ? i : -1, bare);
      if (biased) put(t, c, l, layers ? i : -1, true);
    }
  }
  return count;
}

static attend_status table_make(attend_context *ctx, const attend_config *config, const line *lines,
                                parameter_table *table) {
  size_t count = expand(NULL, config, lines);
  *table = (parameter_table){0};
  ATTEND_TRY(ctx_alloc_zeroed(ctx, size_times(count, sizeof *table->entry), "the parameter table",
                              &table->entry));
  expand(table, config, lines);
  return ATTEND_OK;
}

/* ---- names ----------------------------------------------------------------------- */

/* Checkpoints converted from TensorFlow call the weights of norms gamma and beta. */
static named_tensor *find_either(const attend_checkpoint *c, const parameter *p, char *name) {
  named_tensor *t = find_named(c, name);
  if (t || slot_infos[p->slot].kind != A_NORM) return t;
  size_t stem = strlen(name) - strlen(p->suffix);
  strcpy(name + stem, p->is_bias ? ".beta" : ".gamma");
  t = find_named(c, name);
  if (!t) strcpy(name + stem, p->suffix);
  return t;
}

/* prefix + alternative number `which` + suffix; false past the last. */
static bool write_name(const parameter *p, const char *prefix, int which, char name[LONGEST_NAME]) {
  const char *from = p->names, *bar;
  for (; which > 0; which--) {
    if (!(bar = strchr(from, '|'))) return false;
    from = bar + 1;
  }
  int length = (int)strcspn(from, "|"), stem = length;
  const char *place = strstr(from, "%d");
  char number[16] = "";
  if (place && place < from + length) {
    stem = (int)(place - from);
    snprintf(number, sizeof number, "%d", p->layer < 0 ? 0 : p->layer);
  }
  int rest = *number ? length - stem - 2 : 0;
  snprintf(name, LONGEST_NAME, "%.100s%.*s%s%.*s%s", prefix, stem, from, number, rest,
           from + length - rest, p->suffix);
  return true;
}

void parameter_name(const parameter *p, const char *prefix, char name[LONGEST_NAME]) {
  write_name(p, p->outside ? "" : prefix, 0, name);
}

static bool ends_with(const char *text, const char *end) {
  size_t n = strlen(text), m = strlen(end);
  return n >= m && !strcmp(text + n - m, end) && (n == m || text[n - m - 1] == '.');
}

/* The prefix is whatever precedes the name of the embedding table. */
static attend_status find_prefix(attend_checkpoint *c) {
  const parameter *tokens = &c->table.entry[0];
  char name[LONGEST_NAME];
  for (int which = 0; write_name(tokens, "", which, name); which++)
    for (int i = 0; i < c->files; i++)
      for (size_t j = 0; j < attend_tensor_file_count(c->file[i]); j++) {
        const char *found = attend_tensor_file_get(c->file[i], j)->name;
        size_t before = strlen(found) - strlen(name);
        if (!ends_with(found, name) || before >= 100) continue;
        memcpy(c->prefix, found, before);
        c->prefix[before] = 0;
        return ATTEND_OK;
      }
  write_name(tokens, "", 0, name);
  return fail(c->ctx, ATTEND_IO,
              "the checkpoint has no tensor whose name ends in \"%s\": it is "
              "not of the family %s that config.json says",
              name, c->config.family);
}

/* Heads are outside the base model: without its prefix, or with the prefix less its last part. */
static void search(const attend_checkpoint *c, parameter *p) {
  char outer[LONGEST_NAME], name[LONGEST_NAME];
  const char *prefixes[3] = {c->prefix, NULL, NULL};
  if (p->outside) {
    snprintf(outer, sizeof outer, "%.*s", (int)strlen(c->prefix) - 1, *c->prefix ? c->prefix : ".");
    char *dot = strrchr(outer, '.');
    if (dot)
      dot[1] = 0;
    else
      *outer = 0;
    prefixes[0] = "";
    prefixes[1] = outer;
    prefixes[2] = c->prefix;
  }
  for (int i = 0; i < 3 && prefixes[i]; i++)
    for (int which = 0; write_name(p, prefixes[i], which, name); which++) {
      named_tensor *t = find_either(c, p, name);
      if (!t) continue;
      strcpy(p->name, name);
      t->used = true;
      p->tensor = t->tensor;
      return;
    }
  parameter_name(p, c->prefix, p->name);
}

/* ---- checking -------------------------------------------------------------------- */

bool tensor_dtype(const attend_tensor *t, attend_dtype *dtype) {
  const bool f16 = t->stored == ATTEND_STORED_F16;
  const bool bf16 = t->stored == ATTEND_STORED_BF16;
  if (t->stored != ATTEND_STORED_F32 && !f16 && !bf16) return false;
  *dtype = f16 ? ATTEND_F16 : bf16 ? ATTEND_BF16 : ATTEND_F32;
  return true;
}

static attend_status check_tensor(const attend_checkpoint *c, const parameter *p) {
  const attend_tensor *t = p->tensor;
  int64_t rows = p->transposed ? p->shape[1] : p->shape[0];
  int64_t cols = p->rank == 1 ? 1 : p->transposed ? p->shape[0] : p->shape[1];
  attend_dtype dtype;
  int64_t first = t->rank ? t->shape[0] : 1, last = t->rank == 2 ? t->shape[1] : 1;
  /* a vector may be stored as one row: BART's final_logits_bias */
  if (p->rank == 1 && t->rank == 2 && first == 1) {
    first = last;
    last = 1;
  }
  if (!tensor_dtype(t, &dtype))
    return fail(c->ctx, ATTEND_UNSUPPORTED,
                "tensor \"%s\" is stored as %s: F32, F16 and BF16 are read", p->name, t->dtype);
  if (t->rank > 2 || first != rows || last != cols)
    return fail(c->ctx, ATTEND_IO,
                "tensor \"%s\" is %lld x %lld where config.json says %lld x "
                "%lld: the two do not belong together",
                p->name, (long long)first, (long long)last, (long long)rows, (long long)cols);
  return ATTEND_OK;
}

/* Unknown tensors do not change the output, except a head that the model was trained
 * with: without it the output would differ. */
static attend_status refuse_unsaid_copy(const attend_checkpoint *c) {
  const named_tensor *found = find_named(c, "copy.q_proj.weight");
  if (!found || c->config.copy || c->config.parts != ATTEND_BOTH) return ATTEND_OK;
  const attend_tensor *t = found->tensor;
  return fail(c->ctx, ATTEND_IO,
              "the checkpoint has a head that copies (\"%s\") and config.json "
              "does not: give it \"attend_copy_width\": %lld",
              t->name, (long long)(t->rank ? t->shape[0] : 0));
}

static attend_status find_all(attend_checkpoint *c) {
  ATTEND_TRY(find_prefix(c));
  ATTEND_TRY(refuse_unsaid_copy(c));
  for (size_t i = 0; i < c->table.count; i++) {
    parameter *p = &c->table.entry[i];
    search(c, p);
    if (p->tensor)
      ATTEND_TRY(check_tensor(c, p));
    else if (!p->may_lack)
      return fail(c->ctx, ATTEND_IO, "tensor \"%s\" is missing from the checkpoint", p->name);
  }
  return ATTEND_OK;
}

/* ---- public functions ------------------------------------------------------------ */

attend_status checkpoint_make(attend_context *ctx, const char *path, const family *f, int positions,
                              attend_status (*fill)(attend_checkpoint *c, const void *user),
                              const void *user, attend_checkpoint **checkpoint) {
  attend_checkpoint *c;
  *checkpoint = NULL;
  ATTEND_TRY(ctx_alloc_zeroed(ctx, sizeof *c, "a checkpoint", &c));
  c->ctx = ctx;
  c->family = f;
  attend_status status = config_read_as(ctx, path, &c->family, &c->config);
  if (c->config.positions && c->config.positions < positions) c->config.positions = positions;
  if (!status) status = table_make(ctx, &c->config, c->family->lines, &c->table);
  if (!status) status = fill(c, user);
  if (status)
    attend_checkpoint_free(c);
  else
    *checkpoint = c;
  return status;
}

static attend_status fill_from_files(attend_checkpoint *c, const void *path) {
  char config[LONGEST_PATH];
  if (file_beside(path, "config.json", config, sizeof config))
    ATTEND_TRY(attend_digest_file(c->ctx, config, &c->settings));
  ATTEND_TRY(open_files(c, path));
  ATTEND_TRY(list_tensors(c));
  ATTEND_TRY(find_all(c));
  keep_unused(c);
  return ATTEND_OK;
}

attend_status checkpoint_open_as(attend_context *ctx, const char *path, const family *f,
                                 attend_checkpoint **checkpoint) {
  return checkpoint_make(ctx, path, f, 0, fill_from_files, path, checkpoint);
}

attend_status attend_checkpoint_open(attend_context *ctx, const char *path,
                                     attend_checkpoint **checkpoint) {
  return checkpoint_open_as(ctx, path, NULL, checkpoint);
}

void attend_checkpoint_free(attend_checkpoint *c) {
  if (!c) return;
  for (int i = 0; i < c->files; i++) attend_tensor_file_free(c->file[i]);
  ctx_free(c->ctx, c->file);
  ctx_free(c->ctx, c->list);
  for (size_t i = 0; c->drawn && i < c->table.count; i++)
    ctx_free(c->ctx, (void *)c->drawn[i].data);
  ctx_free(c->ctx, c->drawn);
  ctx_free(c->ctx, c->table.entry);
  ctx_free(c->ctx, c);
}

const attend_config *attend_checkpoint_config(const attend_checkpoint *c) { return &c->config; }
size_t attend_checkpoint_bytes(const attend_checkpoint *c) { return c->bytes; }

bool attend_checkpoint_get(const attend_checkpoint *c, size_t i, attend_parameter *out) {
  if (i >= c->table.count) return 0;
  const struct parameter *p = &c->table.entry[i];
  *out = (attend_parameter){0};
  out->name = p->name;
  out->rank = p->rank;
  memcpy(out->shape, p->shape, sizeof p->shape);
  out->encoder = p->of == ATTEND_ENCODER;
  out->layer = p->layer;
  out->transposed = p->transposed;
  out->matrix = p->rank == 2 && slot_infos[p->slot].kind == A_LINEAR;
  out->bias = p->is_bias;
  out->what = slot_infos[p->slot].what;
  out->tensor = p->tensor;
  return 1;
}

const parameter *checkpoint_find(const attend_checkpoint *c, enum slot slot, attend_parts of,
                                 int layer, bool is_bias) {
  for (size_t i = 0; i < c->table.count; i++) {
    const parameter *p = &c->table.entry[i];
    if (p->slot == slot && p->layer == layer && p->is_bias == is_bias &&
        (p->of == of || p->of == 0) && p->tensor)
      return p;
  }
  return NULL;
}

bool attend_checkpoint_has_head(const attend_checkpoint *c) {
  if (c->config.transform && !checkpoint_find(c, TRANSFORM, 0, -1, false)) return 0;
  return c->config.tied || checkpoint_find(c, HEAD, 0, -1, false);
}

uint64_t attend_checkpoint_digest(const attend_checkpoint *c) {
  attend_digest sum = c->settings;
  for (size_t i = 0; i < c->table.count; i++) {
    const attend_tensor *t = c->table.entry[i].tensor;
    const uint64_t place[] = {i, t ? t->bytes + 1 : 0};
    attend_digest_add(&sum, place, sizeof place);
    if (!t) continue;
    attend_digest_add(&sum, t->data, t->bytes);
    checkpoint_release(t->data, t->bytes, (void *)c);
  }
  return digest_word(&sum);
}

void checkpoint_release(const void *from, size_t bytes, void *user) {
  const attend_checkpoint *c = user;
  for (int f = 0; f < c->files; f++) attend_tensor_file_release(c->file[f], from, bytes);
}
