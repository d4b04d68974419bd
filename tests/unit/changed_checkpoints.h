/* Variants of the golden checkpoints: tensors removed, renamed or stored in another type;
 * configurations with one change. They are written to the process's directory
 * (golden_models.h). */
#ifndef TESTS_CHANGED_CHECKPOINTS_H
#define TESTS_CHANGED_CHECKPOINTS_H

#include <inttypes.h>

#include "golden_models.h"

enum { FORGED = 256 };

typedef struct {
  char name[200];
  const char *dtype;
  int rank;
  int64_t shape[3];
  char *data;
  size_t bytes;
} forged;

typedef struct {
  forged tensor[FORGED];
  int count;
  char *config;
  int spaces; /* behind the header: 1 puts every tensor at an odd byte */
} forgery;

static inline forgery *forge(const char *family) {
  forgery *f = zeroed_block(1, sizeof *f);
  attend_context *ctx = open_context(NULL, 1, NULL);
  attend_tensor_file *file;
  size_t length;
  OK(ctx, attend_tensor_file_open(ctx, model_path(family, "model.safetensors"), &file));
  for (size_t i = 0; i < attend_tensor_file_count(file) && i < FORGED; i++) {
    const attend_tensor *t = attend_tensor_file_get(file, i);
    forged *to = &f->tensor[f->count++];
    snprintf(to->name, sizeof to->name, "%s", t->name);
    to->dtype = "F32";
    to->rank = t->rank;
    memcpy(to->shape, t->shape, (size_t)t->rank * sizeof *t->shape);
    to->bytes = t->bytes;
    to->data = copy_of(t->data, t->bytes);
  }
  attend_tensor_file_free(file);
  attend_context_free(ctx);
  f->config = read_whole(model_path(family, "config.json"), &length);
  empty_folder();
  return f;
}

static inline void forge_free(forgery *f) {
  for (int i = 0; i < f->count; i++) free(f->tensor[i].data);
  free(f->config);
  free(f);
}

static inline forged *forge_find(forgery *f, const char *name) {
  for (int i = 0; i < f->count; i++)
    if (!strcmp(f->tensor[i].name, name)) return &f->tensor[i];
  printf("the fixture has no %s\n", name);
  exit(1);
}

static inline void forge_drop(forgery *f, const char *name) {
  forged *t = forge_find(f, name);
  free(t->data);
  *t = f->tensor[--f->count];
}

static inline forged *forge_add(forgery *f, const char *name, int rank, int64_t first,
                                int64_t second) {
  forged *t = &f->tensor[f->count++];
  *t = (forged){.dtype = "F32", .rank = rank, .shape = {first, second}};
  snprintf(t->name, sizeof t->name, "%s", name);
  t->bytes = (size_t)(first * (rank > 1 ? second : 1)) * sizeof(float);
  t->data = zeroed_block(t->bytes, 1);
  return t;
}

/* Every name that starts with `from` starts with `to`. */
static inline void forge_rename(forgery *f, const char *from, const char *to) {
  for (int i = 0; i < f->count; i++) {
    char *name = f->tensor[i].name, rest[sizeof f->tensor[i].name];
    if (strncmp(name, from, strlen(from))) continue;
    snprintf(rest, sizeof rest, "%s", name + strlen(from));
    snprintf(name, sizeof rest, "%.40s%.150s", to, rest);
  }
}

/* The end of every name. */
static inline void forge_end(forgery *f, const char *from, const char *to) {
  for (int i = 0; i < f->count; i++) {
    char *name = f->tensor[i].name;
    size_t n = strlen(name), m = strlen(from);
    if (n >= m && !strcmp(name + n - m, from))
      snprintf(name + n - m, sizeof f->tensor[i].name - n + m, "%s", to);
  }
}

/* As if they had been stored as dtype. */
static inline void forge_round(forgery *f, attend_dtype dtype) {
  for (int i = 0; i < f->count; i++) {
    size_t n = f->tensor[i].bytes / sizeof(float);
    float *floats = (float *)(void *)f->tensor[i].data;
    uint16_t *narrow = zeroed_block(n, sizeof *narrow);
    attend_convert_from_f32(dtype, floats, n, narrow);
    attend_convert_to_f32(dtype, narrow, n, floats);
    free(narrow);
  }
}

static inline void forge_store(forgery *f, attend_dtype dtype) {
  for (int i = 0; i < f->count; i++) {
    forged *t = &f->tensor[i];
    size_t n = t->bytes / sizeof(float);
    char *narrow = zeroed_block(n, attend_dtype_size(dtype));
    attend_convert_from_f32(dtype, (const float *)(void *)t->data, n, narrow);
    free(t->data);
    t->data = narrow;
    t->bytes = n * attend_dtype_size(dtype);
    t->dtype = dtype == ATTEND_F16 ? "F16" : "BF16";
  }
}

/* ---- configurations --------------------------------------------------------------- */

/* Behind a value: a word, a number or an object without objects in it. */
static inline const char *behind_value(const char *at) {
  at += strspn(at, " ");
  return *at == '{' ? strchr(at, '}') + 1 : at + strcspn(at, ",}\n");
}

/* "name": value instead of what stands there; NULL: the name becomes another;
 * what is not there is put in front. */
static inline void forge_config(forgery *f, const char *name, const char *value) {
  char key[64], *made = zeroed_block(strlen(f->config) + 1000, 1);
  snprintf(key, sizeof key, "\"%s\":", name);
  const char *at = strstr(f->config, key), *end = at;
  if (at) end = value ? behind_value(at + strlen(key)) : at + 1;
  if (!at) at = end = strchr(f->config, '{') + 1;
  memcpy(made, f->config, (size_t)(at - f->config));
  char *to = made + (at - f->config);
  if (value) to += sprintf(to, "%s %s", key, value);
  if (!value) to += sprintf(to, "\"no_");
  sprintf(to, "%s%s", value && end[-1] == '{' ? "," : "", end);
  free(f->config);
  f->config = made;
}

/* ---- files ------------------------------------------------------------------------- */

typedef struct {
  char *bytes;
  size_t length, header; /* header: its bytes, behind the first eight */
} file_image;

static inline void image_length(file_image *image, uint64_t length) {
  for (int i = 0; i < 8; i++) image->bytes[i] = (char)(length >> 8 * i);
}

/* Tensors [first, last), one behind another. */
static inline file_image forge_image(const forgery *f, int first, int last) {
  size_t data = 0, at = 0;
  char *header = zeroed_block((size_t)(last - first) * 400 + 64, 1);
  size_t n = (size_t)sprintf(header, "{");
  for (int i = first; i < last; i++) {
    const forged *t = &f->tensor[i];
    n += (size_t)sprintf(header + n, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[", i > first ? "," : "",
                         t->name, t->dtype);
    for (int d = 0; d < t->rank; d++)
      n += (size_t)sprintf(header + n, "%s%" PRId64, d ? "," : "", t->shape[d]);
    n += (size_t)sprintf(header + n, "],\"data_offsets\":[%zu,%zu]}", data, data + t->bytes);
    data += t->bytes;
  }
  n += (size_t)sprintf(header + n, "}");
  while ((n + 8) % 8 != (size_t)f->spaces % 8) header[n++] = ' ';
  file_image image = {zeroed_block(8 + n + data, 1), 8 + n + data, n};
  image_length(&image, n);
  memcpy(image.bytes + 8, header, n);
  for (int i = first; i < last; i++) {
    memcpy(image.bytes + 8 + n + at, f->tensor[i].data, f->tensor[i].bytes);
    at += f->tensor[i].bytes;
  }
  free(header);
  return image;
}

/* Replaces a part of the header by another of the same length. */
static inline void image_lie(file_image *image, const char *from, const char *to) {
  size_t n = strlen(from), at = 8;
  while (at + n <= 8 + image->header && memcmp(image->bytes + at, from, n)) at++;
  if (at + n > 8 + image->header || n != strlen(to)) {
    printf("the header has no %s of that length\n", from);
    exit(1);
  }
  memcpy(image->bytes + at, to, n);
}

static inline void image_write(file_image *image, const char *name) {
  write_in_folder(name, image->bytes, image->length);
  free(image->bytes);
}

static inline void forge_write_config(const forgery *f) {
  write_in_folder("config.json", f->config, strlen(f->config));
}

static inline void forge_write(const forgery *f) {
  file_image image = forge_image(f, 0, f->count);
  image_write(&image, "model.safetensors");
  forge_write_config(f);
}

/* In three files, with an index. */
static inline void forge_write_shards(const forgery *f) {
  static const char *const names[] = {"a.safetensors", "b.safetensors", "c.safetensors"};
  char *index = zeroed_block((size_t)f->count * 260 + 100, 1);
  size_t n = (size_t)sprintf(index, "{\"metadata\":{},\"weight_map\":{");
  for (int s = 0; s < 3; s++) {
    int first = f->count * s / 3, last = f->count * (s + 1) / 3;
    file_image image = forge_image(f, first, last);
    image_write(&image, names[s]);
    for (int i = first; i < last; i++)
      n += (size_t)sprintf(index + n, "%s\"%s\":\"%s\"", i ? "," : "", f->tensor[i].name, names[s]);
  }
  n += (size_t)sprintf(index + n, "}}");
  write_in_folder("model.safetensors.index.json", index, n);
  free(index);
  forge_write_config(f);
}

#endif
