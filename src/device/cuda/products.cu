/* Linear layers: y = x W^T + b, dW += dY^T X, db += the sums of dY. Weights in bf16 and int8 multiply on
 * tensor cores, x being rounded to bf16; f32 by fma (gemm.cuh, gemm_plain.cuh). A sum is one chain over
 * its inputs in order, so that no bit depends on the tile or on the number of rows.
 */
#include "device/cuda/gemm.cuh"

extern "C" {
#include "layers/linear.h"
}

void cuda_product_run(cuda_gpu *gpu, const cuda_product *call);

enum { THREADS = 256 };

/* ---- forward ------------------------------------------------------------------------- */

/* Zeros behind the last output, up to whole lanes. */
__global__ void clear_padding_kernel(int rows, int from, int to, void *y, attend_dtype type,
                                     int ldy) {
  EACH(i, (size_t)rows * (to - from))
  set_element(y, type, i / (to - from) * ldy + from + i % (to - from), 0);
}

void cuda_linear(cuda_gpu *gpu, const op_linear *o) {
  const attend_linear *l = o->linear;
  const bool plain = l->kind == ATTEND_WEIGHTS_F32, int8 = l->kind == ATTEND_WEIGHTS_I8;
  const int wide = (l->outputs + 15) / 16 * 16;
  if (!o->rows) return;
  cuda_product p = {};
  p.type = plain ? ATTEND_F32 : ATTEND_BF16;
  p.m = o->rows, p.n = l->outputs, p.k = l->inputs;
  p.a_type = o->x_type, p.b_type = p.type, p.b_int8 = int8;
  p.a = o->x, p.b = l->weights, p.lda = o->ldx, p.ldb = l->inputs;
  p.c = o->y, p.ldc = o->ldy, p.c_type = o->y_type;
  p.scale = int8 ? l->scale : NULL, p.bias = l->bias;
  p.add = o->add, p.f = o->f;
  p.onto = o->onto, p.ld_onto = o->ldo;
  p.from = o->from, p.ld_from = o->ldf;
  cuda_product_run(gpu, &p);
  if (!o->add && !o->onto && o->ldy >= wide && wide > l->outputs)
    LAUNCH(gpu, clear_padding_kernel, blocks_for((size_t)o->rows * (wide - l->outputs), THREADS),
           THREADS, 0, o->rows, l->outputs, wide, o->y, o->y_type, o->ldy);
}

/* ---- gradients ----------------------------------------------------------------------- */

/* Rows of a chunk, whose sums are joined in order. */
enum { BIAS_CHUNK = 256, BIAS_COLUMNS = 32 };

/* A block has a chunk of rows and BIAS_COLUMNS columns; warp w the rows w, w + 8, .. of it. */
__global__ void __launch_bounds__(THREADS)
    bias_chunks_kernel(const void *dy, attend_dtype type, int64_t ld, int rows, int columns,
                       double *part) {
  __shared__ double sums[THREADS / 32][32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int column = blockIdx.x * BIAS_COLUMNS + lane, first = blockIdx.y * BIAS_CHUNK;
  const int end = min(rows, first + BIAS_CHUNK);
  double sum = 0;
  if (column < columns)
#pragma unroll 8
    for (int r = first + warp; r < end; r += THREADS / 32)
      sum += (double)element_of(dy, type, r * ld + column);
  sums[warp][lane] = sum;
  __syncthreads();
  if (warp || column >= columns) return;
#pragma unroll
  for (int w = 1; w < THREADS / 32; w++) sum += sums[w][lane];
  part[(size_t)blockIdx.y * columns + column] = sum;
}
__global__ void bias_join_kernel(const double *part, int chunks, int columns, float *db) {
  EACH(j, columns) {
    double sum = 0;
#pragma unroll 8
    for (int c = 0; c < chunks; c++) sum += part[(size_t)c * columns + j];
    db[j] += (float)sum;
  }
}

static void bias_grad(cuda_gpu *gpu, const op_linear_grad *o) {
  const int chunks = (o->rows + BIAS_CHUNK - 1) / BIAS_CHUNK;
  double *part = (double *)gpu_scratch(gpu, (size_t)chunks * o->outputs * sizeof(double));
  if (!part) return;
  const dim3 grid((o->outputs + BIAS_COLUMNS - 1) / BIAS_COLUMNS, chunks);
  LAUNCH(gpu, bias_chunks_kernel, grid, THREADS, 0, o->dy, o->dy_type, o->lddy, o->rows, o->outputs,
         part);
  LAUNCH(gpu, bias_join_kernel, blocks_for(o->outputs, 32), 32, 0, part, chunks, o->outputs, o->db);
}

void cuda_linear_grad(cuda_gpu *gpu, const op_linear_grad *o) {
  if (!o->rows) return;
  if (o->dw) {
    cuda_product p = {};
    p.type = o->kind == ATTEND_WEIGHTS_MIXED ? ATTEND_BF16 : ATTEND_F32;
    p.m = o->outputs, p.n = o->inputs, p.k = o->rows;
    p.a_type = o->dy_type, p.b_type = o->x_type;
    p.a = o->dy, p.b = o->x, p.lda = o->lddy, p.ldb = o->ldx;
    p.a_columns = p.b_columns = true;
    p.c = o->dw, p.ldc = o->inputs;
    p.add = p.split = true;
    cuda_product_run(gpu, &p);
  }
  if (o->db) bias_grad(gpu, o);
}

/* ---- packing ------------------------------------------------------------------------- */

__device__ static float part_weight(const attend_linear_part &p, int o, int k) {
  return element_of(p.weight, p.dtype, (size_t)o * p.output_stride + (size_t)k * p.input_stride);
}

/* int8. A block has an output of the part, and all its inputs. */
__global__ void __launch_bounds__(THREADS)
    pack_int8_kernel(attend_linear l, attend_linear_part p, int first) {
  const int o = blockIdx.x;
  int8_t *to = (int8_t *)l.weights + (size_t)(first + o) * l.inputs;
  float max = 0;
  for (int k = threadIdx.x; k < l.inputs; k += THREADS)
    max = fmaxf(max, fabsf(part_weight(p, o, k)));
  max = block_max<THREADS / 32>(max);
  const float scale = max / 127;
  for (int k = threadIdx.x; k < l.inputs; k += THREADS)
    to[k] = (int8_t)(scale > 0 ? rintf(part_weight(p, o, k) / scale) : 0);
  if (threadIdx.x) return;
  l.scale[first + o] = scale;
  l.bias[first + o] = p.bias ? p.bias[o] : 0;
}

/* bf16 and f32. A block has PACKED outputs and as many inputs; its warps read along the dimension
 * that is dense in the part, and write along the one that is dense in the layer. */
enum { PACKED = 32 };
__global__ void __launch_bounds__(THREADS)
    pack_kernel(attend_linear l, attend_linear_part p, int first) {
  __shared__ float tile[PACKED][PACKED + 1]; /* [output][input] */
  const int o0 = blockIdx.y * PACKED, k0 = blockIdx.x * PACKED;
  const int inputs = l.backward ? l.outputs : l.inputs, lane = threadIdx.x % PACKED;
  const bool dense = p.input_stride <= p.output_stride;
  for (int i = threadIdx.x / PACKED; i < PACKED; i += THREADS / PACKED) {
    const int o = dense ? i : lane, k = dense ? lane : i;
    if (o0 + o < p.outputs && k0 + k < inputs) tile[o][k] = part_weight(p, o0 + o, k0 + k);
  }
  __syncthreads();
  for (int i = threadIdx.x / PACKED; i < PACKED; i += THREADS / PACKED) {
    const int o = l.backward ? lane : i, k = l.backward ? i : lane;
    if (o0 + o >= p.outputs || k0 + k >= inputs) continue;
    const size_t to = l.backward ? (size_t)(k0 + k) * l.inputs + first + o0 + o
                                 : (size_t)(first + o0 + o) * l.inputs + k0 + k;
    set_element(l.weights, l.kind == ATTEND_WEIGHTS_F32 ? ATTEND_F32 : ATTEND_BF16, to, tile[o][k]);
    if (!l.backward && k0 + k == 0) l.bias[first + o0 + o] = p.bias ? p.bias[o0 + o] : 0;
  }
}

void cuda_pack(cuda_gpu *gpu, attend_linear *linear, const attend_linear_part *part, int first) {
  const int inputs = linear->backward ? linear->outputs : linear->inputs;
  const dim3 grid((inputs + PACKED - 1) / PACKED, (part->outputs + PACKED - 1) / PACKED);
  gpu->written = true;
  if (linear->kind == ATTEND_WEIGHTS_I8)
    LAUNCH(gpu, pack_int8_kernel, part->outputs, THREADS, 0, *linear, *part, first);
  else
    LAUNCH(gpu, pack_kernel, grid, THREADS, 0, *linear, *part, first);
}
