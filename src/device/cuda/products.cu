/* Linear layers: y = x W^T + b, dW += dY^T X, db += the sums of dY. Plain fma in f32; a sum is one
 * chain over its inputs (or rows) in order, so that no bit depends on the tile or on the number of
 * rows. Weights in bf16 and int8 are widened as they are read.
 */
#include "device/cuda/activations.cuh"
#include "device/cuda/gpu.cuh"

extern "C" {
#include "layers/linear.h"
}

enum { TILE = 64, DEPTH = 16, THREADS = 256 };

__device__ static float rounded(float x, bool narrow) {
  return narrow ? __bfloat162float(__float2bfloat16_rn(x)) : x;
}

__device__ static float weight_of(const void *w, attend_weights kind, size_t at) {
  if (kind == ATTEND_WEIGHTS_F32) return ((const float *)w)[at];
  if (kind == ATTEND_WEIGHTS_I8) return (float)((const int8_t *)w)[at];
  return __bfloat162float(((const __nv_bfloat16 *)w)[at]);
}

/* Tiles a [TILE][DEPTH] and b [TILE][DEPTH] of both operands, k innermost in shared memory last. */
struct tiles {
  float a[DEPTH][TILE + 4], b[DEPTH][TILE + 4];
};

/* sum[i][j] += the products of a tile; thread (ty, tx) has rows 4 ty + i, columns 4 tx + j. */
__device__ static void multiply_tile(const tiles &t, int ty, int tx, float (&sum)[4][4]) {
#pragma unroll
  for (int k = 0; k < DEPTH; k++) {
    const float4 a = *(const float4 *)&t.a[k][4 * ty], b = *(const float4 *)&t.b[k][4 * tx];
    const float x[4] = {a.x, a.y, a.z, a.w}, y[4] = {b.x, b.y, b.z, b.w};
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
      for (int j = 0; j < 4; j++) sum[i][j] = fmaf(x[i], y[j], sum[i][j]);
  }
}

template <attend_weights KIND>
__global__ void __launch_bounds__(THREADS) linear_kernel(op_linear o, attend_linear l) {
  __shared__ tiles t;
  const int row0 = blockIdx.y * TILE, out0 = blockIdx.x * TILE;
  const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
  float sum[4][4] = {};
  for (int k0 = 0; k0 < l.inputs; k0 += DEPTH) {
    for (int i = threadIdx.x; i < TILE * DEPTH; i += THREADS) {
      const int r = i / DEPTH, k = i % DEPTH, row = row0 + r, out = out0 + r;
      const bool in = k0 + k < l.inputs;
      t.a[k][r] = in && row < o.rows
                      ? rounded(element_of(o.x, o.x_type, (size_t)row * o.ldx + k0 + k),
                                KIND == ATTEND_WEIGHTS_MIXED)
                      : 0.f;
      t.b[k][r] =
          in && out < l.outputs ? weight_of(l.weights, KIND, (size_t)out * l.inputs + k0 + k) : 0.f;
    }
    __syncthreads();
    multiply_tile(t, ty, tx, sum);
    __syncthreads();
  }
  for (int i = 0; i < 4; i++)
    for (int j = 0; j < 4; j++) {
      const int row = row0 + 4 * ty + i, out = out0 + 4 * tx + j;
      if (row >= o.rows || out >= l.outputs) continue;
      const size_t at = (size_t)row * o.ldy + out;
      float x = KIND == ATTEND_WEIGHTS_I8 ? sum[i][j] * l.scale[out] : sum[i][j];
      x += l.bias[out];
      x = activation(o.f, o.add ? element_of(o.y, o.y_type, at) + x : x);
      if (!o.onto)
        set_element(o.y, o.y_type, at, x);
      else if (o.from)
        o.onto[(size_t)row * o.ldo + out] = o.from[(size_t)row * o.ldf + out] + x;
      else
        o.onto[(size_t)row * o.ldo + out] += x;
    }
}

/* Zeros behind the last output, up to whole lanes. */
__global__ void clear_padding_kernel(int rows, int from, int to, void *y, attend_dtype type,
                                     int ldy) {
  EACH(i, (size_t)rows * (to - from))
  set_element(y, type, i / (to - from) * ldy + from + i % (to - from), 0);
}

__global__ void __launch_bounds__(THREADS) linear_grad_kernel(op_linear_grad o) {
  __shared__ tiles t;
  const int out0 = blockIdx.y * TILE, in0 = blockIdx.x * TILE;
  const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
  const bool narrow = o.kind == ATTEND_WEIGHTS_MIXED;
  float sum[4][4] = {};
  for (int r0 = 0; r0 < o.rows; r0 += DEPTH) {
    for (int i = threadIdx.x; i < TILE * DEPTH; i += THREADS) {
      const int c = i % TILE, r = i / TILE, row = r0 + r;
      const bool in = row < o.rows;
      t.a[r][c] =
          in && out0 + c < o.outputs
              ? rounded(element_of(o.dy, o.dy_type, (size_t)row * o.lddy + out0 + c), narrow)
              : 0.f;
      t.b[r][c] = in && in0 + c < o.inputs
                      ? rounded(element_of(o.x, o.x_type, (size_t)row * o.ldx + in0 + c), narrow)
                      : 0.f;
    }
    __syncthreads();
    multiply_tile(t, ty, tx, sum);
    __syncthreads();
  }
  for (int i = 0; i < 4; i++)
    for (int j = 0; j < 4; j++) {
      const int out = out0 + 4 * ty + i, in = in0 + 4 * tx + j;
      if (out < o.outputs && in < o.inputs) o.dw[(size_t)out * o.inputs + in] += sum[i][j];
    }
}

/* A thread has a column and takes the rows in order. */
__global__ void bias_grad_kernel(op_linear_grad o) {
  EACH(j, o.outputs) {
    double sum = 0;
    for (int r = 0; r < o.rows; r++)
      sum += (double)element_of(o.dy, o.dy_type, (size_t)r * o.lddy + j);
    o.db[j] += (float)sum;
  }
}

/* ---- packing ------------------------------------------------------------------------- */

/* A block has an output of the part, and all its inputs. */
__global__ void __launch_bounds__(THREADS)
    pack_kernel(attend_linear l, attend_linear_part p, int first) {
  const int o = blockIdx.x, n = l.backward ? l.outputs : l.inputs;
  const size_t row = l.backward ? 0 : (size_t)(first + o) * l.inputs;
  float max = 0, scale = 0;
  if (l.kind == ATTEND_WEIGHTS_I8) {
    for (int k = threadIdx.x; k < n; k += THREADS)
      max = fmaxf(max, fabsf(element_of(p.weight, p.dtype,
                                        (size_t)o * p.output_stride + (size_t)k * p.input_stride)));
    max = block_max<THREADS / 32>(max);
    scale = max / 127;
    if (threadIdx.x == 0) l.scale[first + o] = scale;
  }
  for (int k = threadIdx.x; k < n; k += THREADS) {
    const float w =
        element_of(p.weight, p.dtype, (size_t)o * p.output_stride + (size_t)k * p.input_stride);
    const size_t to = l.backward ? (size_t)k * l.inputs + first + o : row + k;
    if (l.kind == ATTEND_WEIGHTS_F32)
      ((float *)l.weights)[to] = w;
    else if (l.kind == ATTEND_WEIGHTS_I8)
      ((int8_t *)l.weights)[to] = (int8_t)(scale > 0 ? rintf(w / scale) : 0);
    else
      ((__nv_bfloat16 *)l.weights)[to] = __float2bfloat16_rn(w);
  }
  if (!l.backward && threadIdx.x == 0) l.bias[first + o] = p.bias ? p.bias[o] : 0;
}

/* ---- launching ----------------------------------------------------------------------- */

static unsigned tiles_of(int n) { return (unsigned)((n + TILE - 1) / TILE); }

void cuda_linear(cuda_gpu *gpu, const op_linear *o) {
  const attend_linear *l = o->linear;
  const dim3 grid(tiles_of(l->outputs), tiles_of(o->rows));
  if (!o->rows) return;
  if (l->kind == ATTEND_WEIGHTS_F32)
    LAUNCH(gpu, linear_kernel<ATTEND_WEIGHTS_F32>, grid, THREADS, 0, *o, *l);
  if (l->kind == ATTEND_WEIGHTS_BF16)
    LAUNCH(gpu, linear_kernel<ATTEND_WEIGHTS_BF16>, grid, THREADS, 0, *o, *l);
  if (l->kind == ATTEND_WEIGHTS_I8)
    LAUNCH(gpu, linear_kernel<ATTEND_WEIGHTS_I8>, grid, THREADS, 0, *o, *l);
  if (l->kind == ATTEND_WEIGHTS_MIXED)
    LAUNCH(gpu, linear_kernel<ATTEND_WEIGHTS_MIXED>, grid, THREADS, 0, *o, *l);
  const int wide = (l->outputs + 15) / 16 * 16;
  if (!o->add && !o->onto && o->ldy >= wide && wide > l->outputs)
    LAUNCH(gpu, clear_padding_kernel, blocks_for((size_t)o->rows * (wide - l->outputs), THREADS),
           THREADS, 0, o->rows, l->outputs, wide, o->y, o->y_type, o->ldy);
}

void cuda_linear_grad(cuda_gpu *gpu, const op_linear_grad *o) {
  const dim3 grid(tiles_of(o->inputs), tiles_of(o->outputs));
  if (!o->rows) return;
  if (o->dw) LAUNCH(gpu, linear_grad_kernel, grid, THREADS, 0, *o);
  if (o->db) LAUNCH(gpu, bias_grad_kernel, blocks_for(o->outputs, 64), 64, 0, *o);
}

void cuda_pack(cuda_gpu *gpu, attend_linear *linear, const attend_linear_part *part, int first) {
  LAUNCH(gpu, pack_kernel, part->outputs, THREADS, 0, *linear, *part, first);
}
