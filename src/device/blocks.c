/* Lists of blocks that are freed together: the memory of a model or a session. */
#include "device/device.h"

struct owned {
  struct owned *next;
  void *block;
  size_t bytes;
  void (*give)(const attend_context *ctx, void *block);
};

attend_status own(attend_context *ctx, blocks *list, block_place place, size_t bytes,
                  const char *what, void *block) {
  bool host = place == ON_HOST;
  struct owned *x;
  ATTEND_TRY(take(ctx, sizeof *x, what, &x));
  attend_status status =
      host ? take_zeroed(ctx, bytes, what, block) : device_take(ctx, bytes, what, block);
  if (status) {
    give(ctx, x);
    return status;
  }
  *x = (struct owned){.next = *list, .bytes = bytes, .give = host ? give : ctx->device->give};
  memcpy(&x->block, block, sizeof x->block);
  *list = x;
  return ATTEND_OK;
}

void blocks_free(const attend_context *ctx, blocks *list) {
  while (*list) {
    struct owned *x = *list;
    *list = x->next;
    x->give(ctx, x->block);
    give(ctx, x);
  }
}

size_t blocks_bytes(blocks list) {
  size_t sum = 0;
  for (const struct owned *x = list; x; x = x->next) sum += x->bytes;
  return sum;
}
