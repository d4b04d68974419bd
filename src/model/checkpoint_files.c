/* The files of a checkpoint, and all their tensors by name.
 *
 * Place: model/ - under checkpoint.c. Files may hold any number of shards and
 * tensors, so that everything here is sorted and nothing is searched one by one.
 */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "base/files.h"
#include "model/checkpoint.h"

/* ---- files ----------------------------------------------------------------------- */

static attend_status add_file(attend_checkpoint *c, const char *path) {
  attend_status status =
      attend_tensor_file_open(c->ctx, path, &c->file[c->files]);
  if (status) return status;
  for (size_t i = 0; i < attend_tensor_file_count(c->file[c->files]); i++)
    c->bytes += attend_tensor_file_get(c->file[c->files], i)->bytes;
  c->files++;
  return ATTEND_OK;
}

static bool is_plain_name(const char *name) {
  return *name && !strchr(name, '/') && strcmp(name, "..") &&
         strlen(name) < 200;
}

/* ---- shards ---------------------------------------------------------------------- */

enum { MOST_SHARDS = 4096 };

/* Where a shard is named in the index. */
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

/* Each shard once, in the order of their first tensors. Sorted, since an index
 * may name as many as it likes. */
static attend_status shard_names(attend_checkpoint *c, const char *index,
                                 const attend_json *map, mention *shard,
                                 size_t *count) {
  size_t n = attend_json_count(map), kept = 0;
  for (size_t i = 0; i < n; i++) {
    shard[i] = (mention){attend_json_string(attend_json_at(map, i), NULL), i};
    if (!shard[i].name || !is_plain_name(shard[i].name))
      return fail(
          c->ctx, ATTEND_IO,
          "%s: the shard of \"%.100s\" is not the name of a file beside "
          "it",
          index, attend_json_name(attend_json_at(map, i), NULL));
  }
  qsort(shard, n, sizeof *shard, by_name);
  for (size_t i = 0; i < n; i++)
    if (!kept || strcmp(shard[kept - 1].name, shard[i].name))
      shard[kept++] = shard[i];
  qsort(shard, kept, sizeof *shard, by_place);
  if (kept > MOST_SHARDS)
    return fail(c->ctx, ATTEND_IO, "%s names more than %d shards", index,
                MOST_SHARDS);
  *count = kept;
  return ATTEND_OK;
}

static attend_status open_shards(attend_checkpoint *c, const char *folder,
                                 const char *index, const attend_json *map) {
  mention *shard;
  size_t count = 0;
  char path[LONGEST_PATH];
  if (attend_json_kind_of(map) != ATTEND_JSON_OBJECT || !attend_json_count(map))
    return fail(c->ctx, ATTEND_IO, "%s has no weight_map", index);
  ATTEND_TRY(take(c->ctx, size_times(attend_json_count(map), sizeof *shard),
                  "the shards", &shard));
  attend_status status = shard_names(c, index, map, shard, &count);
  if (!status)
    status = take_zeroed(c->ctx, size_times(count, sizeof *c->file),
                         "the shards", &c->file);
  for (size_t i = 0; i < count && !status; i++) {
    snprintf(path, sizeof path, "%s/%s", folder, shard[i].name);
    status = add_file(c, path);
  }
  give(c->ctx, shard);
  return status;
}

/* ---- a folder ---------------------------------------------------------------------- */

/* The one file of the format that lies in a folder, whatever it is called. */
static int only_file(const char *folder, char *path, size_t size) {
  DIR *d = opendir(folder);
  struct dirent *entry;
  int found = 0;
  while (d && (entry = readdir(d))) {
    size_t n = strlen(entry->d_name);
    if (n < 12 || strcmp(entry->d_name + n - 12, ".safetensors")) continue;
    if (++found == 1 && !file_beside(folder, entry->d_name, path, size))
      found = 0;
  }
  if (d) closedir(d);
  return found;
}

attend_status checkpoint_open_files(attend_checkpoint *c, const char *folder) {
  char path[LONGEST_PATH], other[LONGEST_PATH];
  attend_json *index;
  if (file_beside(folder, "model.safetensors", path, sizeof path)) {
    ATTEND_TRY(take_zeroed(c->ctx, sizeof *c->file, "a checkpoint", &c->file));
    return add_file(c, path);
  }
  bool sharded =
      file_beside(folder, "model.safetensors.index.json", path, sizeof path);
  if (!sharded && only_file(folder, other, sizeof other) == 1) {
    ATTEND_TRY(take_zeroed(c->ctx, sizeof *c->file, "a checkpoint", &c->file));
    return add_file(c, other);
  }
  if (!sharded)
    return fail(c->ctx, ATTEND_IO,
                "%s has neither model.safetensors nor "
                "model.safetensors.index.json: weights in other formats are "
                "not read",
                folder);
  ATTEND_TRY(json_read(c->ctx, path, &index));
  attend_status status =
      open_shards(c, folder, path, attend_json_get(index, "weight_map"));
  attend_json_free(index);
  return status;
}

/* ---- all tensors by name ------------------------------------------------------------ */

/* Of several of one name that of the first file comes first. */
static int by_tensor_name(const void *a, const void *b) {
  const named_tensor *x = a, *y = b;
  int order = strcmp(x->tensor->name, y->tensor->name);
  return order ? order : x->file - y->file;
}

attend_status checkpoint_index(attend_checkpoint *c) {
  size_t n = 0;
  for (int f = 0; f < c->files; f++) n += attend_tensor_file_count(c->file[f]);
  ATTEND_TRY(take(c->ctx, size_times(n, sizeof *c->by_name), "a checkpoint",
                  &c->by_name));
  for (int f = 0; f < c->files; f++)
    for (size_t j = 0; j < attend_tensor_file_count(c->file[f]); j++)
      c->by_name[c->tensors++] =
          (named_tensor){attend_tensor_file_get(c->file[f], j), f};
  qsort(c->by_name, n, sizeof *c->by_name, by_tensor_name);
  return ATTEND_OK;
}

const attend_tensor *checkpoint_named(const attend_checkpoint *c,
                                      const char *name) {
  size_t low = 0, high = c->tensors;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (strcmp(c->by_name[middle].tensor->name, name) < 0)
      low = middle + 1;
    else
      high = middle;
  }
  bool found = low < c->tensors && !strcmp(c->by_name[low].tensor->name, name);
  return found ? c->by_name[low].tensor : NULL;
}

/* ---- what the table has no use for ---------------------------------------------------- */

static int by_address(const void *a, const void *b) {
  uintptr_t x = (uintptr_t) * (const attend_tensor *const *)a;
  uintptr_t y = (uintptr_t) * (const attend_tensor *const *)b;
  return (x > y) - (x < y);
}

static void list_unused(attend_checkpoint *c, const attend_tensor **used) {
  size_t n = c->table.count;
  for (size_t i = 0; i < n; i++) used[i] = c->table.entry[i].tensor;
  qsort(used, n, sizeof *used, by_address);
  for (int f = 0; f < c->files; f++)
    for (size_t j = 0; j < attend_tensor_file_count(c->file[f]); j++) {
      const attend_tensor *t = attend_tensor_file_get(c->file[f], j);
      if (!bsearch(&t, used, n, sizeof *used, by_address))
        c->unused[c->n_unused++] = t;
    }
}

attend_status checkpoint_list_unused(attend_checkpoint *c) {
  const attend_tensor **used;
  ATTEND_TRY(take(c->ctx, size_times(c->tensors, sizeof *c->unused),
                  "a checkpoint", &c->unused));
  ATTEND_TRY(take(c->ctx, size_times(c->table.count, sizeof *used),
                  "a checkpoint", &used));
  list_unused(c, used);
  give(c->ctx, used);
  return ATTEND_OK;
}

const attend_tensor *attend_checkpoint_unused(const attend_checkpoint *c,
                                              size_t i) {
  return i < c->n_unused ? c->unused[i] : NULL;
}
