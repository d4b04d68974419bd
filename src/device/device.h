/* Devices: memory, ops and attention engines. A device is a table: memory, copies, packed
 * weights, the ops of layers/ops.h, and the engines that `open` sets. Model, generation and
 * training code calls these and never accesses the memory itself; the device `trap`
 * (device/trap.c) checks that. device/README.md says how to add a device.
 *
 * Lengths of sequences, and what ops call "of the host", are host memory on every device.
 */
#ifndef DEVICE_DEVICE_H
#define DEVICE_DEVICE_H

#include "attend/problem.h"
#include "layers/ops.h"

struct attend_device {
  const char *name;
  bool host;     /* the host may use its memory between calls */
  int head_rows; /* positions whose logits a trainer computes at once, a multiple of 256 */
  /* What computes, as "NVIDIA H200"; NULL: name says it. */
  const char *(*model)(const attend_context *ctx);
  /* Sets the context's engines, whose states are theirs (attention/engine.h, state.h), and
   * device_memory if it needs any; close frees it, and accepts a context that open refused. */
  attend_status (*open)(attend_context *ctx);
  void (*close)(attend_context *ctx);
  attend_status (*alloc)(attend_context *ctx, size_t bytes, const char *what,
                         void *block /* T ** */);
  void (*free)(const attend_context *ctx, void *block);
  /* Whether the address is the device's memory; NULL where that is the host's. */
  bool (*owns)(const attend_context *ctx, const void *address);
  /* Its ceilings; NULL: the CPU's. */
  attend_status (*measure)(attend_context *ctx, attend_machine *machine);
  /* Bytes that it holds, and the most since the last call with `reset`; NULL: it does not count. */
  void (*held)(attend_context *ctx, size_t *bytes, size_t *most, bool reset);
  /* Until all that was asked of it is done; a failure of the device. */
  attend_status (*wait)(attend_context *ctx);
  void (*zero)(attend_context *ctx, void *to, size_t bytes);
  /* Between host and device; from may change, or to be read, afterwards. */
  void (*write)(attend_context *ctx, void *to, const void *from, size_t bytes);
  void (*read)(attend_context *ctx, void *to, const void *from, size_t bytes);
  /* Weights for products. The parts lie in the host's memory or the device's. */
  attend_status (*pack)(attend_context *ctx, attend_weights kind, bool backward, int inputs,
                        int n_parts, const attend_linear_part *parts, attend_linear **linear);
  attend_status (*repack)(attend_context *ctx, attend_linear *linear, int n_parts,
                          const attend_linear_part *parts);
  /* Memory for ops on rows of bf16: `widest`, the most elements of one op's rows together. */
  attend_status (*reserve)(attend_context *ctx, size_t widest);
  /* Around ops that are repeated, a token's pass say; a device may then launch them together.
   * *recording is NULL at first and ends with record_free. NULL: nothing is gained. */
  void (*record_begin)(attend_context *ctx, void **recording);
  void (*record_end)(attend_context *ctx);
  void (*record_free)(const attend_context *ctx, void *recording);
#define X(name) void (*name)(attend_context * ctx, const struct op_##name *op);
  OPS(X)
#undef X
};

extern const struct attend_device device_cpu, device_trap, device_cuda;

/* OP(ctx, norm, .rows = n, ...): runs an op on the context's device. */
#define OP(ctx, name, ...) (ctx)->device->name(ctx, &(const struct op_##name){__VA_ARGS__})

/* Zeroed memory of the context's device. */
static inline attend_status device_alloc(attend_context *ctx, size_t bytes, const char *what,
                                         void *block) {
  ATTEND_TRY(ctx->device->alloc(ctx, bytes, what, block));
  void *p;
  memcpy(&p, block, sizeof p);
  ctx->device->zero(ctx, p, bytes);
  return ATTEND_OK;
}
static inline void device_free(const attend_context *ctx, void *block) {
  ctx->device->free(ctx, block);
}

/* A list of blocks that end together; NULL: none. blocks_add adds a zeroed one. */
typedef struct owned *blocks;
typedef enum { ON_HOST, ON_DEVICE } block_place;
attend_status blocks_add(attend_context *ctx, blocks *list, block_place place, size_t bytes,
                         const char *what, void *block /* T ** */) FOR_LAB(blocks_add);
void blocks_free(const attend_context *ctx, blocks *list) FOR_LAB(blocks_free);
size_t blocks_bytes(blocks list);

/* Numbers of the device that callers may read and write: the memory itself, or a copy
 * on the host that goes back before the device computes with them again. */
typedef struct {
  float *device, *host; /* host NULL: the device's memory is the host's */
  size_t count;
  bool fresh; /* the copy is as the device has it, or as a caller wants it */
} mirror;

attend_status mirror_make(attend_context *ctx, size_t count, const char *what, mirror *m);
void mirror_free(const attend_context *ctx, mirror *m);
/* For callers; what they wrote, back to the device; after the device has changed it. */
float *mirror_out(attend_context *ctx, mirror *m);
void mirror_backward(attend_context *ctx, mirror *m);
static inline void mirror_changed(mirror *m) { m->fresh = false; }

#endif
