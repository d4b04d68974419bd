/* The feature map of a description on the GPU of gpu.h. */
#ifndef TESTS_LINEAR_MAP_H
#define TESTS_LINEAR_MAP_H

#include "device/cuda_device.h"
#include "gpu.h"

static attend_status map_alloc(attend_context *ctx, size_t bytes, const char *what, void *block) {
  void *p = cuda->alloc(gpu, bytes);
  (void)ctx, (void)what;
  memcpy(block, &p, sizeof p);
  return ATTEND_OK;
}
static void map_free(const attend_context *ctx, void *block) {
  (void)ctx;
  cuda->free(gpu, block);
}
static void map_write(attend_context *ctx, void *to, const void *from, size_t bytes) {
  (void)ctx;
  cuda->write(gpu, to, from, bytes);
}
static const struct attend_device map_device = {
    .alloc = map_alloc, .free = map_free, .write = map_write};

static inline struct cuda_map linear_map(const attend_desc *complete) {
  const struct attend_device *own = host()->device;
  feature_map map;
  struct cuda_map out = {0};
  CHECK_EQ(features_make(host(), complete, &map), ATTEND_OK);
  host()->device = &map_device;
  CHECK_EQ(cuda_map_make(host(), complete, &map, &out), ATTEND_OK);
  host()->device = own;
  features_free(host(), &map);
  return out;
}

static inline void linear_map_free(struct cuda_map *map) {
  const struct attend_device *own = host()->device;
  host()->device = &map_device;
  cuda_map_free(host(), map);
  host()->device = own;
}

#endif
