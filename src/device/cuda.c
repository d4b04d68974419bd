/* CUDA as a device. The GPU's code is a library of its own, libattend-cuda, which is opened when a
 * context asks for a GPU: nothing of CUDA is linked here. Each function of the device calls its
 * table (device/cuda/cuda.h). Attention that has no kernel of its own runs on the host (bridge.c).
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "device/cuda_device.h"
#include "layers/linear.h"

/* ---- opening ----------------------------------------------------------------------- */

static const char FILE_NAME[] = "libattend-cuda.so";

/* In the folder of a file, or in the library folder of the prefix whose bin/ that is. *found: there
 * is one, whether it can be opened or not. */
static void *open_beside(const char *file, bool *found) {
  static const char *const folders[] = {"", "../" ATTEND_LIBRARY_FOLDER "/"};
  const char *slash = strrchr(file, '/');
  void *library = NULL;
  for (int i = 0; i < 2 && slash && !*found; i++) {
    char path[4096];
    int n = snprintf(path, sizeof path, "%.*s%s%s", (int)(slash - file) + 1, file, folders[i],
                     FILE_NAME);
    *found = n < (int)sizeof path && !access(path, F_OK);
    if (*found) library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  }
  return library;
}

/* $ATTEND_CUDA_LIBRARY, or beside libattend or the program that has it, or where the system looks. */
static void *open_library(void) {
  const char *given = getenv("ATTEND_CUDA_LIBRARY");
  if (given && *given) return dlopen(given, RTLD_NOW | RTLD_LOCAL);
  Dl_info self;
  char program[4096];
  void *library = NULL;
  bool found = false;
  if (dladdr((const void *)FILE_NAME, &self) && self.dli_fname)
    library = open_beside(self.dli_fname, &found);
  ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
  if (n > 0) program[n] = 0;
  if (!found && n > 0) library = open_beside(program, &found);
  return found ? library : dlopen(FILE_NAME, RTLD_NOW | RTLD_LOCAL);
}

static attend_status open_table(attend_context *ctx, cuda_device *d) {
  d->library = open_library();
  if (!d->library)
    return fail(ctx, ATTEND_UNSUPPORTED,
                "device cuda needs libattend-cuda: build attend where nvcc is, or set "
                "ATTEND_CUDA_LIBRARY to the file (%.200s)",
                dlerror());
  void *symbol = dlsym(d->library, CUDA_TABLE_SYMBOL);
  cuda_table_get get;
  memcpy(&get, &symbol, sizeof get);
  d->table = get ? get() : NULL;
  if (d->table && d->table->size == sizeof *d->table) return ATTEND_OK;
  d->table = NULL;
  return fail(ctx, ATTEND_UNSUPPORTED,
              "libattend-cuda is of another version than libattend: build both from one source");
}

/* The GPU's engines, then the host's for what they refuse. */
static void list_engines(cuda_device *d) {
  cuda_cache_make(d);
  const int own = cuda_engines_make(d);
  bridge_make(&d->host);
  for (int i = 0; i < own; i++) d->list[i] = &d->engine[i];
  for (int i = 0; i < d->host.count; i++) d->list[own + i] = &d->host.engine[i].engine;
}

attend_status cuda_check(attend_context *ctx) {
  const cuda_device *d = device_of(ctx);
  const char *error = d->table->error(d->gpu);
  if (!error) return ATTEND_OK;
  return fail(ctx, ATTEND_IO, "the GPU failed: %s; a context that failed cannot go on", error);
}

static void make_lock(pthread_mutex_t *lock) {
  pthread_mutexattr_t nests;
  pthread_mutexattr_init(&nests);
  pthread_mutexattr_settype(&nests, PTHREAD_MUTEX_RECURSIVE);
  pthread_mutex_init(lock, &nests);
  pthread_mutexattr_destroy(&nests);
}

static attend_status cuda_open(attend_context *ctx) {
  cuda_device *d;
  char message[256] = "";
  ATTEND_TRY(ctx_alloc_zeroed(ctx, sizeof *d, "a device", &d));
  make_lock(&d->lock);
  ctx->device_memory = d;
  ATTEND_TRY(open_table(ctx, d));
  d->gpu = d->table->open(ctx->device_index, message, sizeof message);
  if (!d->gpu) return fail(ctx, ATTEND_UNSUPPORTED, "%s", message);
  list_engines(d);
  ctx->engines = d->list;
  return ATTEND_OK;
}

static void cuda_close(attend_context *ctx) {
  cuda_device *d = device_of(ctx);
  if (!d) return;
  if (d->gpu) d->table->close(d->gpu);
  pthread_mutex_destroy(&d->lock);
  ctx_free(ctx, d); /* the library stays: CUDA does not come back after being unloaded */
}

cuda_gpu *cuda_lock(const attend_context *ctx) {
  cuda_device *d = device_of(ctx);
  pthread_mutex_lock(&d->lock);
  d->table->use(d->gpu);
  return d->gpu;
}

void cuda_unlock(const attend_context *ctx) { pthread_mutex_unlock(&device_of(ctx)->lock); }

/* ---- memory ------------------------------------------------------------------------ */

static attend_status cuda_alloc(attend_context *ctx, size_t bytes, const char *what, void *block) {
  void *p = device_of(ctx)->table->alloc(cuda_lock(ctx), bytes);
  cuda_unlock(ctx);
  if (!p)
    return fail(ctx, ATTEND_NO_MEMORY, "no memory of the GPU for %s (%zu bytes)", what, bytes);
  memcpy(block, &p, sizeof p);
  return ATTEND_OK;
}

static void cuda_free(const attend_context *ctx, void *block) { CALL(ctx, free, block); }

static bool cuda_owns(const attend_context *ctx, const void *address) {
  return device_of(ctx)->table->owns(device_of(ctx)->gpu, address);
}

static attend_status cuda_wait(attend_context *ctx) {
  device_of(ctx)->table->wait(cuda_lock(ctx));
  cuda_unlock(ctx);
  return cuda_check(ctx);
}

static const char *cuda_model(const attend_context *ctx) {
  return device_of(ctx)->table->name(device_of(ctx)->gpu);
}

static attend_status cuda_measure(attend_context *ctx, attend_machine *m) {
  struct cuda_ceilings c;
  CALL(ctx, ceilings, &c);
  *m = (attend_machine){.threads = c.processors,
                        .flops_all = c.f32,
                        .flops_16 = c.bf16,
                        .read_all = c.copy,
                        .exponentials = c.exponentials};
  ATTEND_TRY(cuda_wait(ctx));
  if (c.copy > 0 && c.f32 > 0) return ATTEND_OK;
  return fail(ctx, ATTEND_NO_MEMORY, "the GPU's ceilings need 1 GiB of its memory");
}

static void cuda_held(attend_context *ctx, size_t *bytes, size_t *most, bool reset) {
  CALL(ctx, held, bytes, most, reset);
}

static void cuda_zero(attend_context *ctx, void *to, size_t bytes) { CALL(ctx, zero, to, bytes); }

static void cuda_write(attend_context *ctx, void *to, const void *from, size_t bytes) {
  CALL(ctx, write, to, from, bytes);
}

static void cuda_read(attend_context *ctx, void *to, const void *from, size_t bytes) {
  CALL(ctx, read, to, from, bytes);
}

/* ---- weights ----------------------------------------------------------------------- */

/* A part's weights where they are; a copy on the GPU of those of the host. */
static attend_status pack_part(attend_context *ctx, attend_linear *l,
                               const attend_linear_part *part, int first) {
  attend_linear_part p = *part;
  const int inputs = l->backward ? l->outputs : l->inputs;
  const size_t size = attend_dtype_size(p.dtype), count = (size_t)p.outputs * (size_t)inputs;
  void *copy = NULL, *bias = NULL;
  attend_status status = ATTEND_OK;
  if (!p.output_stride && !p.input_stride) p.output_stride = inputs, p.input_stride = 1;
  if (!cuda_owns(ctx, p.weight)) {
    status = cuda_alloc(ctx, count * size, "packing weights", &copy);
    if (status) return status;
    cuda_write(ctx, copy, p.weight, count * size); /* both layouts are without gaps */
    p.weight = copy;
  }
  if (p.bias && !l->backward && !cuda_owns(ctx, p.bias)) {
    status = cuda_alloc(ctx, (size_t)p.outputs * sizeof(float), "packing biases", &bias);
    if (!status) cuda_write(ctx, bias, p.bias, (size_t)p.outputs * sizeof(float));
    p.bias = bias;
  }
  if (!status) CALL(ctx, pack, l, &p, first);
  cuda_free(ctx, copy);
  cuda_free(ctx, bias);
  if (!status && part->packed && !l->backward) part->packed(part->weight, count * size, part->user);
  return status;
}

static attend_status cuda_repack(attend_context *ctx, attend_linear *l, int n_parts,
                                 const attend_linear_part *parts) {
  int first = 0;
  for (int i = 0; i < n_parts; first += parts[i++].outputs)
    ATTEND_TRY(pack_part(ctx, l, &parts[i], first));
  return ATTEND_OK;
}

static void cuda_release(attend_linear *l) {
  attend_context *ctx = l->ctx;
  cuda_free(ctx, l->weights);
  cuda_free(ctx, l->scale);
  cuda_free(ctx, l->bias);
  ctx_free(ctx, l);
}

static attend_status cuda_pack(attend_context *ctx, attend_weights kind, bool backward, int inputs,
                               int n_parts, const attend_linear_part *parts,
                               attend_linear **linear) {
  attend_linear *l;
  int outputs;
  *linear = NULL;
  ATTEND_TRY(linear_check(ctx, kind, inputs, n_parts, parts, &outputs));
  if (backward && kind == ATTEND_WEIGHTS_I8) kind = ATTEND_WEIGHTS_F32; /* rows of several parts */
  ATTEND_TRY(ctx_alloc_zeroed(ctx, sizeof *l, "a linear layer", &l));
  *l = (attend_linear){.ctx = ctx,
                       .kind = kind,
                       .backward = backward,
                       .inputs = backward ? outputs : inputs,
                       .outputs = backward ? inputs : outputs,
                       .release = cuda_release};
  const size_t wide = round_up((size_t)l->outputs, LANES), narrow = kind == ATTEND_WEIGHTS_F32  ? 4
                                                                    : kind == ATTEND_WEIGHTS_I8 ? 1
                                                                                                : 2;
  l->bytes = SIZE_PRODUCT((size_t)l->outputs, (size_t)l->inputs, narrow);
  attend_status status = cuda_alloc(ctx, l->bytes, "weights", &l->weights);
  if (!status) status = device_alloc(ctx, wide * sizeof(float), "biases", &l->bias);
  if (!status && kind == ATTEND_WEIGHTS_I8)
    status = device_alloc(ctx, wide * sizeof(float), "scales", &l->scale);
  if (!status) status = cuda_repack(ctx, l, n_parts, parts);
  if (status) {
    cuda_release(l);
    return status;
  }
  *linear = l;
  return ATTEND_OK;
}

/* ---- recordings ------------------------------------------------------------------- */

static void cuda_record_begin(attend_context *ctx, void **recording) {
  struct cuda_recording *r = *recording;
  device_of(ctx)->table->record_begin(cuda_lock(ctx), &r); /* until its end */
  *recording = r;
}

static void cuda_record_end(attend_context *ctx) {
  device_of(ctx)->table->record_end(device_of(ctx)->gpu);
  cuda_unlock(ctx);
}

static void cuda_record_free(const attend_context *ctx, void *recording) {
  CALL(ctx, record_free, recording);
}

/* ---- ops --------------------------------------------------------------------------- */

#define X(name) \
  static void cuda_##name(attend_context *ctx, const struct op_##name *op) { CALL(ctx, name, op); }
OPS(X)
#undef X

/* Kernels convert what they read. */
static attend_status cuda_reserve(attend_context *ctx, size_t widest) {
  (void)ctx, (void)widest;
  return ATTEND_OK;
}

const struct attend_device device_cuda = {.name = "cuda",
                                          .head_rows = 8192,
                                          .model = cuda_model,
                                          .open = cuda_open,
                                          .close = cuda_close,
                                          .alloc = cuda_alloc,
                                          .free = cuda_free,
                                          .owns = cuda_owns,
                                          .measure = cuda_measure,
                                          .held = cuda_held,
                                          .wait = cuda_wait,
                                          .zero = cuda_zero,
                                          .write = cuda_write,
                                          .read = cuda_read,
                                          .pack = cuda_pack,
                                          .repack = cuda_repack,
                                          .reserve = cuda_reserve,
                                          .record_begin = cuda_record_begin,
                                          .record_end = cuda_record_end,
                                          .record_free = cuda_record_free,
#define X(name) .name = cuda_##name,
                                          OPS(X)
#undef X
};
