/* Small dense products of linear attention: features, states, and weights inside a block
 * of 64 keys.
 *
 * An element of the result is one chain of fma over the depth, in chunks of BLOCK whose
 * sums are added in order. So a row does not depend on the number of rows, and 16 columns
 * of the right side stay in cache for all rows.
 */
#include "kernels/cpu/vec.h"

#define UNITS(R) ((R)*4 * NV <= ACC ? 4 : (R)*2 * NV <= ACC ? 2 : 1)

typedef struct {
  int depth, lda, ldb, ldc;
  bool add;
} product;

INLINE void product_tile(const int R, const int U, const product x, const float *a, const float *b,
                         float *c) {
  const float *row[ROWS];
  UNROLL for (int r = 0; r < R; r++) row[r] = a + (size_t)r * (size_t)x.lda;
  vf acc[COLS];
  UNROLL for (int i = 0; i < R * U * NV; i++) acc[i] = v_zero();
  BY_FOUR for (int k = 0; k < x.depth; k++, b += x.ldb) {
    vf right[4 * NV];
    UNROLL for (int i = 0; i < U * NV; i++) right[i] = v_load(b + i * VW);
    UNROLL for (int r = 0; r < R; r++) {
      vf left = v_set1(row[r][k]);
      UNROLL for (int i = 0; i < U * NV; i++) acc[r * U * NV + i] =
          v_fma(left, right[i], acc[r * U * NV + i]);
    }
  }
  UNROLL for (int r = 0; r < R; r++, c += x.ldc) {
    if (x.add)
      UNROLL for (int i = 0; i < U * NV; i++) acc[r * U * NV + i] =
          v_add(v_load(c + i * VW), acc[r * U * NV + i]);
    UNROLL for (int i = 0; i < U * NV; i++) v_store(c + i * VW, acc[r * U * NV + i]);
  }
}

INLINE void product_strip(const int U, int rows, const product x, const float *a, const float *b,
                          float *c) {
  const size_t lda = (size_t)x.lda, ldc = (size_t)x.ldc;
  for (int r = 0; r < rows; r += ROWS)
    product_tile(ROWS, U, x, a + (size_t)r * lda, b, c + (size_t)r * ldc);
}

INLINE void product_rows(const int R, int n, const product x, const float *a, const float *b,
                         float *c) {
  const int U = UNITS(R);
  int j = 0;
  for (; j + U * LANES <= n; j += U * LANES) product_tile(R, U, x, a, b + j, c + j);
  for (; j < n; j += LANES) product_tile(R, 1, x, a, b + j, c + j);
}

/* Few rows (decoding): wide strips, so that enough chains hide the latency. */
static void few_rows(int rows, int n, const product x, const float *a, const float *b, float *c) {
  while (rows > 0) {
    int done = rows >= 4 && ROWS >= 4 ? 4 : rows >= 2 ? 2 : 1;
    if (done == 4)
      product_rows(ROWS < 4 ? 1 : 4, n, x, a, b, c);
    else if (done == 2)
      product_rows(2, n, x, a, b, c);
    else
      product_rows(1, n, x, a, b, c);
    rows -= done;
    a += (size_t)done * (size_t)x.lda;
    c += (size_t)done * (size_t)x.ldc;
  }
}

static void many_rows(int rows, int n, const product x, const float *a, const float *b, float *c) {
  const int U = UNITS(ROWS);
  int whole = rows / ROWS * ROWS, j = 0;
  for (; j + U * LANES <= n; j += U * LANES) product_strip(U, whole, x, a, b + j, c + j);
  for (; j < n; j += LANES) product_strip(1, whole, x, a, b + j, c + j);
  few_rows(rows - whole, n, x, a + (size_t)whole * (size_t)x.lda, b,
           c + (size_t)whole * (size_t)x.ldc);
}

void KERNEL(matmul)(int rows, int n, int depth, const float *a, int lda, const float *b, int ldb,
                    float *c, int ldc, bool add) {
  for (int k = 0; k < depth || k == 0; k += BLOCK) {
    int left = depth - k < BLOCK ? depth - k : BLOCK;
    product x = {left, lda, ldb, ldc, add || k > 0};
    if (rows < ROWS)
      few_rows(rows, n, x, a + k, b + (size_t)k * (size_t)ldb, c);
    else
      many_rows(rows, n, x, a + k, b + (size_t)k * (size_t)ldb, c);
  }
}

static void transpose_rest(int r0, int r1, int c0, int c1, const float *src, size_t ld, float *dst,
                           size_t ld_dst) {
  for (int c = c0; c < c1; c++)
    for (int r = r0; r < r1; r++)
      dst[(size_t)c * ld_dst + (size_t)r] = src[(size_t)r * ld + (size_t)c];
}

void KERNEL(transpose)(int rows, int cols, const float *src, int ld, float *dst, int ld_dst) {
  int tall = rows / VW * VW, wide = cols / VW * VW;
  transpose_rest(tall, rows, 0, wide, src, (size_t)ld, dst, (size_t)ld_dst);
  transpose_rest(0, rows, wide, cols, src, (size_t)ld, dst, (size_t)ld_dst);
  for (int r = 0; r < tall; r += VW)
    for (int c = 0; c < wide; c += VW) {
      vf block[VW];
      UNROLL for (int i = 0; i < VW; i++) block[i] = v_load(src + (size_t)(r + i) * (size_t)ld + c);
      v_transpose(block);
      UNROLL for (int i = 0; i < VW; i++)
          v_store(dst + (size_t)(c + i) * (size_t)ld_dst + r, block[i]);
    }
}
