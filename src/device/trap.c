/* A device for tests: the CPU, with memory that is inaccessible outside of ops.
 *
 * The memory is one range of addresses without access rights. An op gets the rights, runs,
 * waits and drops them: other code that accesses a tensor gets a SIGSEGV, and so does an op
 * with a host address in place of a device address. Copies use a second mapping of the same
 * memory. Engines run on copies (bridge.c). Rights belong to the process: use it from one thread at a time.
 */
#define _GNU_SOURCE
#include <sys/mman.h>
#include <unistd.h>

#include "base/parallel.h"
#include "device/bridge.h"
#include "device/device.h"

static const size_t ADDRESSES = (size_t)1 << 33, PAGE = 4096;

typedef struct {
  unsigned char *at;
  size_t size;
  bool taken;
} trap_block;

enum { MOST_BLOCKS = 1 << 14 };

struct trap_memory {
  unsigned char *base;  /* of the addresses that callers have */
  unsigned char *alias; /* the same memory, for copies: always accessible */
  size_t used;
  int depth; /* calls that have access, one within the other */
  trap_block block[MOST_BLOCKS];
  int blocks;
  bridge host;
  const attend_engine *list[BRIDGE_ENGINES + 1];
};

/* NULL if there are no addresses. */
static unsigned char *map(int file, int rights) {
  void *at = mmap(NULL, ADDRESSES, rights, MAP_SHARED | MAP_NORESERVE, file, 0);
  return at == MAP_FAILED ? NULL : at;
}

static attend_status trap_open(attend_context *ctx) {
  struct trap_memory *m;
  ATTEND_TRY(ctx_alloc_zeroed(ctx, sizeof *m, "a device", &m));
  ctx->device_memory = m;
  bridge_make(&m->host);
  for (int i = 0; i < m->host.count; i++) m->list[i] = &m->host.engine[i].engine;
  ctx->engines = m->list;
  int file = memfd_create("attend trap", MFD_CLOEXEC);
  if (file >= 0 && !ftruncate(file, (off_t)ADDRESSES)) {
    m->base = map(file, PROT_NONE);
    m->alias = map(file, PROT_READ | PROT_WRITE);
  }
  if (file >= 0) close(file);
  if (m->base && m->alias) return ATTEND_OK;
  return fail(ctx, ATTEND_NO_MEMORY, "no addresses for the trapping device");
}

static void trap_close(attend_context *ctx) {
  struct trap_memory *m = ctx->device_memory;
  device_cpu.close(ctx);
  if (m && m->base) munmap(m->base, ADDRESSES);
  if (m && m->alias) munmap(m->alias, ADDRESSES);
  ctx_free(ctx, m);
}

/* Access to the device's memory, and no more. */
static void access_begin(attend_context *ctx) {
  struct trap_memory *m = ctx->device_memory;
  if (m->depth++ == 0 && m->used) mprotect(m->base, m->used, PROT_READ | PROT_WRITE);
}

static void access_end(attend_context *ctx) {
  struct trap_memory *m = ctx->device_memory;
  stream_wait(&ctx->stream);
  if (--m->depth == 0 && m->used) mprotect(m->base, m->used, PROT_NONE);
}

/* ---- memory ---------------------------------------------------------------------- */

/* Blocks lie one behind the other, a page between them; those that were given back
 * serve again where they fit. */
static attend_status trap_memory_alloc(attend_context *ctx, size_t bytes, const char *what,
                                       void *block) {
  struct trap_memory *m = ctx->device_memory;
  const size_t size = size_add(round_up(bytes ? bytes : 1, PAGE), PAGE);
  int i = 0;
  while (i < m->blocks && (m->block[i].taken || m->block[i].size != size)) i++;
  if (i == MOST_BLOCKS || (i == m->blocks && size > ADDRESSES - m->used))
    return fail(ctx, ATTEND_NO_MEMORY, "no memory for %s (%zu bytes)", what, bytes);
  if (i == m->blocks) {
    m->block[m->blocks++] = (trap_block){m->base + m->used, size, true};
    m->used += size;
  }
  m->block[i].taken = true;
  memcpy(block, &m->block[i].at, sizeof m->block[i].at);
  return ATTEND_OK;
}

static void trap_memory_free(const attend_context *ctx, void *block) {
  struct trap_memory *m = ctx->device_memory;
  for (int i = 0; block && i < m->blocks; i++)
    if (m->block[i].at == block) m->block[i].taken = false;
}

static bool trap_owns(const attend_context *ctx, const void *address) {
  const struct trap_memory *m = ctx->device_memory;
  const unsigned char *p = address;
  return p >= m->base && p < m->base + m->used;
}

static void *accessible(const attend_context *ctx, const void *address) {
  const struct trap_memory *m = ctx->device_memory;
  const unsigned char *p = address;
  return (void *)(trap_owns(ctx, p) ? m->alias + (p - m->base) : p);
}

static attend_status trap_wait(attend_context *ctx) { return device_cpu.wait(ctx); }

static void trap_zero(attend_context *ctx, void *to, size_t bytes) {
  device_cpu.zero(ctx, accessible(ctx, to), bytes);
}

static void trap_copy(attend_context *ctx, void *to, const void *from, size_t bytes) {
  device_cpu.write(ctx, accessible(ctx, to), accessible(ctx, from), bytes);
}

static attend_status trap_pack(attend_context *ctx, attend_weights kind, bool backward, int inputs,
                               int n_parts, const attend_linear_part *parts,
                               attend_linear **linear) {
  access_begin(ctx);
  attend_status status = device_cpu.pack(ctx, kind, backward, inputs, n_parts, parts, linear);
  access_end(ctx);
  return status;
}

static attend_status trap_repack(attend_context *ctx, attend_linear *linear, int n_parts,
                                 const attend_linear_part *parts) {
  access_begin(ctx);
  attend_status status = device_cpu.repack(ctx, linear, n_parts, parts);
  access_end(ctx);
  return status;
}

/* ---- ops ------------------------------------------------------------------------- */

/* The addresses of the device that each op has; NULL where one is left out. */
#define ADDRESSES_OF(P)                                                                           \
  P(linear, o->x, o->y, o->onto, o->from)                                                         \
  P(linear_grad, o->dy, o->x, o->dw, o->db, o->work)                                              \
  P(norm, o->x, o->weight, o->bias, o->y)                                                         \
  P(norm_backward, o->x, o->weight, o->dy, o->dx, o->dweight, o->dbias, o->work)                  \
  P(rope, o->frequency, o->position, o->x)                                                        \
  P(activate, o->a, o->b, o->y)                                                                   \
  P(activate_backward, o->a, o->b, o->dy, o->da, o->db, o->y)                                     \
  P(add, o->a, o->b, o->y)                                                                        \
  P(scale, o->x)                                                                                  \
  P(soft_cap, o->x)                                                                               \
  P(soft_cap_backward, o->y, o->dx)                                                               \
  P(dropout, o->x)                                                                                \
  P(embed, o->table.data, o->ids, o->y)                                                           \
  P(embed_backward, o->ids, o->dy, o->dtable, o->work)                                            \
  P(sinusoidal, o->position, o->y)                                                                \
  P(gather, o->index, o->x, o->y)                                                                 \
  P(loss, o->x, o->targets, o->loss)                                                              \
  P(copy_lag, o->keys, o->before)                                                                 \
  P(copy_fold, o->keys)                                                                           \
  P(copy_loss, o->texts.keys, o->texts.extra, o->texts.ids, o->texts.first, o->q, o->gate,        \
    o->weight, o->logits, o->targets, o->loss)                                                    \
  P(copy_grad, o->texts.keys, o->q, o->weight, o->dq, o->dkeys)                                   \
  P(pattern, o->weights, o->v.data, o->o.data, o->d_weights)                                      \
  P(pattern_grad, o->p.v.data, o->p.o.data, o->p.d_weights)                                       \
  P(pattern_backward, o->p.weights, o->p.o.data, o->p.d_weights, o->before, o->q.data, o->k.data, \
    o->dq.data, o->dk.data, o->dv.data)                                                           \
  P(divide, o->before, o->after, o->o.data)                                                       \
  P(sum_squares, o->x, o->sums)                                                                   \
  P(step, o->values, o->gradients, o->first, o->second, o->spans)

static void check(const attend_context *ctx, int n, const void *const *all) {
  for (int i = 0; i < n; i++)
    if (all[i] && !trap_owns(ctx, all[i])) __builtin_trap();
}

#define P(name, ...)                                                        \
  static void trap_##name(attend_context *ctx, const struct op_##name *o) { \
    const void *const all[] = {__VA_ARGS__};                                \
    check(ctx, (int)(sizeof all / sizeof *all), all);                       \
    access_begin(ctx);                                                      \
    device_cpu.name(ctx, o);                                                \
    access_end(ctx);                                                        \
  }
ADDRESSES_OF(P)
#undef P

const struct attend_device device_trap = {.name = "trap",
                                          .head_rows = 256,
                                          .open = trap_open,
                                          .close = trap_close,
                                          .alloc = trap_memory_alloc,
                                          .free = trap_memory_free,
                                          .owns = trap_owns,
                                          .wait = trap_wait,
                                          .zero = trap_zero,
                                          .write = trap_copy,
                                          .read = trap_copy,
                                          .pack = trap_pack,
                                          .repack = trap_repack,
                                          .reserve = typed_reserve,
#define X(name) .name = trap_##name,
                                          OPS(X)
#undef X
};
