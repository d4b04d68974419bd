/* What libattend-cuda offers to libattend: one GPU's memory, the ops of layers/ops.h, products and
 * attention, as plain functions on device addresses.
 *
 * libattend opens the library with dlopen (device/cuda.c) and links nothing of CUDA; the library links
 * nothing of libattend. All work of a gpu runs in order on its stream. Functions that compute
 * return nothing: the first error stays, and cuda_table.error names it.
 */
#ifndef DEVICE_CUDA_CUDA_H
#define DEVICE_CUDA_CUDA_H

#include "attend/attention.h"
#include "layers/ops.h"

typedef struct cuda_gpu cuda_gpu;
struct cuda_recording;

/* A tensor [batch, heads, rows, width]; strides in elements, of batch, head and row. */
struct cuda_tensor {
  void *data;
  int64_t stride[3];
  int width;
};

/* C = A B^T: a [m][k] and b [n][k], on tensor cores if they are bf16 or f16; sums in f32, one chain over k in
 * order. The bits of an element depend on its row of a and of b alone: not on m, n, the tile or the
 * layout. Behind each sum x, in this order:
 *   x = scale[n] x + bias[n];  x = c + x (add);  x = f'(slope) x;  before = x;  x = f(x);
 *   onto = from + x, or where there is no onto c = x. */
struct cuda_product {
  attend_dtype type; /* of the products; ATTEND_F32: fma instead of tensor cores */
  int m, n, k;
  attend_dtype a_type, b_type; /* other types are converted first */
  bool b_int8;                 /* int8_t instead */
  const void *a, *b;
  int64_t lda, ldb; /* element (i, k) of a at a[i lda + k] */
  bool a_columns;   /* at a[k lda + i]; b likewise */
  bool b_columns;
  attend_dtype c_type;
  void *c; /* [m][ldc] */
  int64_t ldc;
  const float *scale, *bias; /* [n] or NULL */
  bool add;
  attend_activation f; /* of before and after, or with slope: whose derivative */
  attend_dtype slope_type, before_type;
  const void *slope; /* [m][ld_slope] or NULL: f is not applied then, but its derivative at slope */
  int64_t ld_slope;
  void *before; /* [m][ld_before] or NULL */
  int64_t ld_before;
  float *onto; /* [m][ld_onto] or NULL */
  int64_t ld_onto;
  const float *from; /* [m][ld_from], or NULL: onto */
  int64_t ld_from;
  /* c is f32, added to, and nothing else is asked for: k may be cut into chunks, whose number depends
   * on m, n and k, and which are joined in order. For gradients of weights. */
  bool split;
};

/* Softmax attention in bf16 or f16. */
struct cuda_softmax {
  attend_dtype dtype;
  int batch, heads, kv_heads, q_len, kv_len;
  struct cuda_tensor q, k, v, o;
  struct cuda_tensor d_o, dq, dk, dv; /* of backward */
  float *lse;                         /* [B,H,T]; of forward also NULL */
  float scale;
  bool causal;
  int offset; /* causal: key j is visible to row i if j <= i + offset */
  void *work; /* of softmax_bytes or softmax_backward_bytes; NULL if that is 0 */
};

/* Keys and values of a state: pages of ATTEND_PAGE keys. A page has for each kv head its keys, then
 * its values, then, once, a byte for each key that is 0 where the key is padding. Rows of keys and
 * values: cuda_page_at. */
struct cuda_pages {
  void *const *page; /* [B][stride] on the GPU: addresses of pages */
  int64_t stride;
  const int64_t *length; /* [B] keys, of the host */
  bool padded;           /* some key of some page is padding */
};

/* Rows of bf16 and f16 lie as wgmma reads them from shared memory: slabs of 64 columns, in each 64
 * rows of 128 bytes whose 16-byte pieces are permuted by the row. f32: row after row. */
static inline size_t cuda_page_width(size_t element, int width) {
  const size_t unit = element == 4 ? 4 : 64;
  return ((size_t)width + unit - 1) / unit * unit;
}
/* Bytes of the keys or values of a head in a page; a multiple of 1024, as is a page's address. */
static inline size_t cuda_page_part(size_t element, int width) {
  return (cuda_page_width(element, width) * ATTEND_PAGE * element + 1023) / 1024 * 1024;
}
/* Element i of key `slot`, in elements from the start of a head's keys or values. */
#ifdef __CUDACC__
__host__ __device__
#endif
    static inline int
    cuda_page_at(int element, int width, int slot, int i) {
  if (element == 4) return slot * ((width + 3) / 4 * 4) + i;
  return i / 64 * 4096 + slot * 64 + (((i % 64 / 8) ^ (slot % 8)) * 8 + i % 8);
}

/* A call of attention on the GPU: attend_forward, attend_backward, or a state's query. */
struct cuda_attention {
  /* Complete. Its bias's numbers are the GPU's; lengths and key_mask the host's, and not read with
   * pages, where lengths are the real rows of n. */
  const attend_desc *desc;
  int n; /* queries a sequence */
  attend_view q, k, v, o, d_o, dq, dk, dv;
  float *lse; /* [B,H,n]; forward: or NULL */
  float *dbias;
  const attend_observation *observation; /* observe: its arrays are the GPU's, but rows; no each */
  const struct cuda_pages *pages;        /* instead of k and v, or NULL */
  const int64_t *before; /* [B] of the host, with pages: position of the first query */
  int64_t *weak_rows;    /* of the GPU: adds what attend_plan_weak_rows counts; or NULL */
  void *work;            /* of the kernel's _bytes */
};

/* A feature map on the GPU; numbers as in attention/features.h. Arrays are the GPU's. */
enum cuda_map_kind { CUDA_MAP_POLY = 1, CUDA_MAP_ELU, CUDA_MAP_POSITIVE, CUDA_MAP_TRIG };
struct cuda_map {
  enum cuda_map_kind kind;
  int count, dirs;
  bool pairs;
  float norm;
  double log_factor;
  const float *w;            /* [dirs][D], times the map's unit */
  const float *coef;         /* poly [count]: of keys */
  const uint16_t *variables; /* poly [count][degree]: a monomial's variables, D for none */
  int degree;
};

/* A call of a linear form: forward; with a state an append (q.data NULL), a query (k.data NULL) or
 * both (attend_extend). A state is linear_state_bytes for each sequence, one after the other: for
 * each kv head the sums over whole blocks of keys and the keys and values of the last block.
 * Copies of these bytes are copies of the sequence. It needs no clearing: `length` says what of it
 * counts. A sequence may be truncated to a length in the block of its last key. */
struct cuda_linear_call {
  struct cuda_attention call; /* pages NULL; before: position of the first query, with a state */
  struct cuda_map map;
  void *state;           /* [B] or NULL */
  const int64_t *length; /* [B] of the host: keys of the state before the call */
};

/* New keys and values into pages, which are there and may have keys before these. */
struct cuda_append {
  const attend_desc *desc; /* its mask's lengths: real rows of n; key_mask [B,n]; of the host */
  int n;                   /* rows a sequence */
  attend_view k, v;
  struct cuda_pages pages; /* lengths: after the call */
  const int64_t *before;   /* [B] of the host: where the first row goes */
};

/* What the GPU can do at best, a second; 0: it could not be measured. */
struct cuda_ceilings {
  int processors;
  double copy; /* bytes, those read and those written */
  double f32;  /* operations, a multiply-add counted as two */
  double bf16; /* of products on tensor cores */
  double exponentials;
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
  /* At once, before what a recording holds back: of memory that it does not use yet. copy: on the
   * GPU; write: a few KB of the host's. */
  void (*zero_now)(cuda_gpu *gpu, void *to, size_t bytes);
  void (*copy_now)(cuda_gpu *gpu, void *to, const void *from, size_t bytes);
  void (*write_now)(cuda_gpu *gpu, void *to, const void *from, size_t bytes);
  void (*use)(cuda_gpu *gpu); /* makes it the thread's GPU */
  /* Around work that is repeated, a token's pass say: the second time it becomes a CUDA graph.
   * *recording: NULL at first; freed by the last. */
  void (*record_begin)(cuda_gpu *gpu, struct cuda_recording **recording);
  void (*record_end)(cuda_gpu *gpu);
  void (*record_free)(cuda_gpu *gpu, struct cuda_recording *recording);
  int (*record_graphs)(const struct cuda_recording *recording); /* launched so far */
  void (*wait)(cuda_gpu *gpu);
  /* Bytes that programs of this process hold on the GPU, and the most that they held since the last
   * call with `reset`. */
  void (*held)(cuda_gpu *gpu, size_t *bytes, size_t *most, bool reset);
  void (*ceilings)(cuda_gpu *gpu, struct cuda_ceilings *ceilings);
  /* Weights and biases of a part, on the GPU and with its strides set, to outputs (backward:
   * inputs) [first, first + outputs) of the layer. Backward layers are not int8. */
  void (*pack)(cuda_gpu *gpu, attend_linear *linear, const attend_linear_part *part, int first);
  void (*product)(cuda_gpu *gpu, const struct cuda_product *call);
#define X(name) void (*name)(cuda_gpu * gpu, const struct op_##name *op);
  OPS(X)
#undef X
  /* Why not, or NULL; the bytes of `work`. */
  const char *(*softmax_refusal)(const cuda_gpu *gpu, const struct cuda_softmax *call);
  size_t (*softmax_bytes)(const cuda_gpu *gpu, const struct cuda_softmax *call);
  void (*softmax_forward)(cuda_gpu *gpu, const struct cuda_softmax *call);
  const char *(*softmax_backward_refusal)(const cuda_gpu *gpu, const struct cuda_softmax *call);
  size_t (*softmax_backward_bytes)(const cuda_gpu *gpu, const struct cuda_softmax *call);
  void (*softmax_backward)(cuda_gpu *gpu, const struct cuda_softmax *call);
  /* Softmax on tensor cores, forward or a state's query: why not, or NULL; the bytes of `work`. */
  const char *(*attention_refusal)(const cuda_gpu *gpu, const attend_desc *desc);
  size_t (*attention_bytes)(cuda_gpu *gpu, const struct cuda_attention *call);
  void (*attention_forward)(cuda_gpu *gpu, const struct cuda_attention *call);
  void (*pages_append)(cuda_gpu *gpu, const struct cuda_append *append);
  /* Pair by pair, in f32: why not, or NULL; the bytes of `work`. NULL: not there yet. */
  const char *(*pairs_refusal)(const cuda_gpu *gpu, const attend_desc *desc);
  size_t (*pairs_bytes)(cuda_gpu *gpu, const struct cuda_attention *call);
  void (*pairs_forward)(cuda_gpu *gpu, const struct cuda_attention *call);
  size_t (*pairs_backward_bytes)(cuda_gpu *gpu, const struct cuda_attention *call);
  void (*pairs_backward)(cuda_gpu *gpu, const struct cuda_attention *call);
  size_t (*observe_bytes)(cuda_gpu *gpu, const struct cuda_attention *call);
  void (*observe)(cuda_gpu *gpu, const struct cuda_attention *call);
  /* Linear forms, of a complete description; bytes of `work`, and of a state's sequence. */
  const char *(*linear_refusal)(const cuda_gpu *gpu, const attend_desc *desc);
  size_t (*linear_bytes)(const cuda_gpu *gpu, const struct cuda_linear_call *call);
  size_t (*linear_state_bytes)(const cuda_gpu *gpu, const attend_desc *desc);
  void (*linear_forward)(cuda_gpu *gpu, const struct cuda_linear_call *call);
  void (*linear_backward)(cuda_gpu *gpu, const struct cuda_linear_call *call);
};

/* The one symbol of the library. */
typedef const struct cuda_table *(*cuda_table_get)(void);
#define CUDA_TABLE_SYMBOL "attend_cuda_table"

#endif
