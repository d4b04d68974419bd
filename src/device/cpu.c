/* The CPU as a device: host memory, and the ops of layers/. */
#include "base/parallel.h"
#include "device/device.h"

static void zero(attend_context *ctx, void *to, size_t bytes) {
  stream_wait(&ctx->stream);
  memset(to, 0, bytes);
}

/* Between host and host; what is queued may still read or write there. */
static void copy(attend_context *ctx, void *to, const void *from, size_t bytes) {
  stream_wait(&ctx->stream);
  if (bytes) memcpy(to, from, bytes);
}

static attend_status pack(attend_context *ctx, attend_weights kind, bool back, int inputs,
                          int n_parts, const attend_linear_part *parts, attend_linear **linear) {
  return (back ? attend_linear_create_back : attend_linear_create)(ctx, kind, inputs, n_parts,
                                                                   parts, linear);
}

static attend_status repack(attend_context *ctx, attend_linear *linear, int n_parts,
                            const attend_linear_part *parts) {
  (void)ctx;
  return attend_linear_repack(linear, n_parts, parts);
}

const struct attend_device device_cpu = {.name = "cpu",
                                         .host = true,
                                         .take = take,
                                         .give = give,
                                         .zero = zero,
                                         .write = copy,
                                         .read = copy,
                                         .pack = pack,
                                         .repack = repack,
#define X(name) .name = cpu_##name,
                                         OPS(X)
#undef X
};
