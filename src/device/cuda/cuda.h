/* What libattend-cuda offers to libattend: one GPU's memory, the ops of layers/ops.h, products and
 * attention, as plain functions on device addresses.
 *
 * libattend opens the library with dlopen (device/cuda.c) and links nothing of CUDA; the library links
 * nothing of libattend. All work of a gpu runs in order on its stream. Functions that compute
 * return nothing: the first error stays, and cuda_table.error names it.
 */
#ifndef DEVICE_CUDA_CUDA_H
#define DEVICE_CUDA_CUDA_H

#include "layers/ops.h"

typedef struct cuda_gpu cuda_gpu;

/* A tensor [batch, heads, rows, width]; strides in elements, of batch, head and row. */
struct cuda_tensor {
  void *data;
  int64_t stride[3];
  int width;
};

/* Softmax attention in bf16 or f16. */
struct cuda_softmax {
  attend_dtype dtype;
  int batch, heads, kv_heads, q_len, kv_len;
  struct cuda_tensor q, k, v, o;
  float *lse; /* [B,H,T] or NULL */
  float scale;
  bool causal;
  int offset; /* causal: key j is visible to row i if j <= i + offset */
  void *work; /* of softmax_bytes, or NULL if that is 0 */
};

struct cuda_table {
  size_t size; /* of this struct: both libraries must be of one version */
  /* NULL, and a sentence in message, if there is no such GPU. */
  cuda_gpu *(*open)(int index, char *message, size_t size);
  void (*close)(cuda_gpu *gpu);
  const char *(*error)(const cuda_gpu *gpu); /* NULL: none so far */
  const char *(*name)(const cuda_gpu *gpu);  /* "NVIDIA H200" */
  void *(*alloc)(cuda_gpu *gpu, size_t bytes);
  void (*free)(cuda_gpu *gpu, void *block);
  bool (*owns)(cuda_gpu *gpu, const void *address);
  void (*zero)(cuda_gpu *gpu, void *to, size_t bytes);
  void (*write)(cuda_gpu *gpu, void *to, const void *from, size_t bytes);
  void (*read)(cuda_gpu *gpu, void *to, const void *from, size_t bytes);
  void (*wait)(cuda_gpu *gpu);
  /* Weights and biases of a part, on the GPU and with its strides set, to outputs (backward:
   * inputs) [first, first + outputs) of the layer. Backward layers are not int8. */
  void (*pack)(cuda_gpu *gpu, attend_linear *linear, const attend_linear_part *part, int first);
#define X(name) void (*name)(cuda_gpu * gpu, const struct op_##name *op);
  OPS(X)
#undef X
  /* Why not, or NULL; the bytes of `work`. */
  const char *(*softmax_refusal)(const cuda_gpu *gpu, const struct cuda_softmax *call);
  size_t (*softmax_bytes)(const cuda_gpu *gpu, const struct cuda_softmax *call);
  void (*softmax_forward)(cuda_gpu *gpu, const struct cuda_softmax *call);
};

/* The one symbol of the library. */
typedef const struct cuda_table *(*cuda_table_get)(void);
#define CUDA_TABLE_SYMBOL "attend_cuda_table"

#endif
