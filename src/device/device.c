/* The CPU as a device: host memory, and the ops of layers/; and what all devices share. */
#include "attention/engine.h"
#include "base/parallel.h"
#include "device/device.h"

static attend_status cpu_open(attend_context *ctx) {
  ctx->engines = cpu_engines;
  return ATTEND_OK;
}

static void cpu_close(attend_context *ctx) { typed_release(ctx); }

static attend_status wait(attend_context *ctx) {
  stream_wait(&ctx->stream);
  return ATTEND_OK;
}

static void zero(attend_context *ctx, void *to, size_t bytes) {
  stream_wait(&ctx->stream);
  memset(to, 0, bytes);
}

/* Between host and host; what is queued may still read or write there. */
static void copy(attend_context *ctx, void *to, const void *from, size_t bytes) {
  stream_wait(&ctx->stream);
  if (bytes) memcpy(to, from, bytes);
}

static attend_status repack(attend_context *ctx, attend_linear *linear, int n_parts,
                            const attend_linear_part *parts) {
  (void)ctx;
  return attend_linear_repack(linear, n_parts, parts);
}

const struct attend_device device_cpu = {.name = "cpu",
                                         .host = true,
                                         .head_rows = 256,
                                         .open = cpu_open,
                                         .close = cpu_close,
                                         .alloc = ctx_alloc,
                                         .free = ctx_free,
                                         .wait = wait,
                                         .zero = zero,
                                         .write = copy,
                                         .read = copy,
                                         .pack = cpu_pack,
                                         .repack = repack,
                                         .reserve = typed_reserve,
#define X(name) .name = typed_##name,
                                         TYPED_OPS(X)
#undef X
#define X(name) .name = cpu_##name,
                                             OTHER_OPS(X)
#undef X
};

/* ---- lists of blocks: the memory of a model or a session ------------------------- */

struct owned {
  struct owned *next;
  void *block;
  size_t bytes;
  void (*release)(const attend_context *ctx, void *block);
};

attend_status blocks_add(attend_context *ctx, blocks *list, block_place place, size_t bytes,
                         const char *what, void *block) {
  bool host = place == ON_HOST;
  struct owned *x;
  ATTEND_TRY(ctx_alloc(ctx, sizeof *x, what, &x));
  attend_status status =
      host ? ctx_alloc_zeroed(ctx, bytes, what, block) : device_alloc(ctx, bytes, what, block);
  if (status) {
    ctx_free(ctx, x);
    return status;
  }
  *x =
      (struct owned){.next = *list, .bytes = bytes, .release = host ? ctx_free : ctx->device->free};
  memcpy(&x->block, block, sizeof x->block);
  *list = x;
  return ATTEND_OK;
}

void blocks_free(const attend_context *ctx, blocks *list) {
  while (*list) {
    struct owned *x = *list;
    *list = x->next;
    x->release(ctx, x->block);
    ctx_free(ctx, x);
  }
}

size_t blocks_bytes(blocks list) {
  size_t sum = 0;
  for (const struct owned *x = list; x; x = x->next) sum += x->bytes;
  return sum;
}

/* ---- host copies that callers read and write ------------------------------------- */

/* Of a trainer's parameters and gradients, an optimizer's moments. */

attend_status mirror_make(attend_context *ctx, size_t count, const char *what, mirror *m) {
  size_t bytes = size_times(count, sizeof(float));
  m->count = count;
  ATTEND_TRY(device_alloc(ctx, bytes, what, &m->device));
  return ctx->device->host ? ATTEND_OK : ctx_alloc_zeroed(ctx, bytes, what, &m->host);
}

void mirror_free(const attend_context *ctx, mirror *m) {
  device_free(ctx, m->device);
  ctx_free(ctx, m->host);
}

float *mirror_out(attend_context *ctx, mirror *m) {
  if (!m->host) return m->device;
  if (!m->fresh) ctx->device->read(ctx, m->host, m->device, m->count * sizeof(float));
  m->fresh = true;
  return m->host;
}

void mirror_backward(attend_context *ctx, mirror *m) {
  if (m->host && m->fresh) ctx->device->write(ctx, m->device, m->host, m->count * sizeof(float));
}
