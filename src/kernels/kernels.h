/* The list of kernels. attention/ and layers/ call them through the context's table. Each
 * source in cpu/ is compiled once per instruction set; cpu/isa_table.c defines the set's
 * table; select.c picks one when a context is created.
 *
 * Layouts that kernels share:
 *   lanes  16 rows side by side, transposed: [n/16][width][16] floats. The keys of a
 *          panel have this layout, so that a score tile loads whole vectors of keys.
 *   rows   [n][ld] floats, ld a multiple of 16, zero beyond the width.
 *   group  up to `rows` queries computed together: queries are rows, scores
 *          [rows][BLOCK].
 *
 * The order of every sum is fixed by the layout and not by the number of rows
 * in a group: a (query, key) score is one chain of fma over the width, an
 * output element is one chain over the keys of a block, and sums along a row
 * run in 16 lanes that fold 8, 4, 2, 1.
 */
#ifndef KERNELS_KERNELS_H
#define KERNELS_KERNELS_H

#include "attend/layers.h"
#include "base/base.h"

enum {
  LANES = 16,  /* floats in the widest vector */
  PANEL = 64,  /* keys of a packed panel and of a KV cache page */
  BLOCK = 256, /* keys of a loaded block, and of a row of scores */
  PANELS = BLOCK / PANEL,
  GROUP = 32, /* largest group of any instruction set */
  BOUND = 60  /* 2^BOUND and 2^-BOUND are far from overflow and underflow */
};
/* Row stride of buffers of BLOCK floats: avoids mapping all rows to one cache set. */
enum { NEAR_STEP = BLOCK + LANES };

/* 2^d for an integer d <= 127: exact, and 0 where it would be subnormal. */
static inline float power_of_two(float d) {
  return float_of_bits(d >= -126.0f ? (uint32_t)((int)d + 127) << 23 : 0);
}

/* A row-major piece of a caller's tensor. */
typedef struct {
  const void *data;
  attend_dtype dtype;
  ptrdiff_t row, col; /* strides in elements */
} source;

typedef struct {
  void *data;
  attend_dtype dtype;
  ptrdiff_t row, col;
} target;

/* K(returns, name, arguments) */
#define KERNEL_LIST(K)                                                                             \
  /* dst[n][ld] = src, zero beyond width, and zero rows where valid[i] == 0   \
   * (those are not read; valid may be NULL). */                    \
  K(void, pack_rows, (source src, const uint8_t *valid, int n, int width, float *dst, int ld))     \
  /* Whether n floats, a multiple of 16, are neither NaN nor infinite. */                          \
  K(bool, all_finite, (const float *x, size_t n))                                                  \
  /* The same into lanes; n is padded with zeros to a multiple of 16. */                           \
  K(void, pack_lanes, (source src, const uint8_t *valid, int n, int width, float *dst))            \
  /* dst = src[n][ld] / divisor[n], rounded to the target's dtype; a divisor  \
   * of 0 gives zeros. */                    \
  K(void, store_rows,                                                                              \
    (const float *src, int ld, int n, int width, const float *divisor, target dst))                \
  /* dst += src[n][ld] * factor; the target is f32. */                                             \
  K(void, add_rows, (const float *src, int ld, int n, int width, float factor, target dst))        \
  /* Contiguous 16-bit storage to f32. */                                                          \
  K(void, widen, (attend_dtype dtype, const void *src, size_t n, float *dst))                      \
  /* s[r][j] = q_r . k_j for j in [j0, j1), multiples of 16; q are rows of ld \
   * floats, k lanes of one panel, s points at the panel's column 0. */                    \
  K(void, scores,                                                                                  \
    (int rows, int width, const float *q, int ld, const float *k, int j0, int j1, float *s))       \
  /* s[j] += slope * |distance + j|, distance that of key j = 0. */                                \
  K(void, add_ramp, (int j0, int j1, float slope, float distance, float *s))                       \
  /* The soft cap of scores (activations.c): s <- outer tanh(inner s). */                          \
  K(void, soft_cap, (int rows, int j0, int j1, float inner, float outer, float *s))                \
  /* In backward: ds <- tanh'(inner s) ds. */                                                      \
  K(void, soft_cap_grad, (int rows, int j0, int j1, float inner, const float *s, float *ds))       \
  /* s <- 2^(factor s - max) on [j0, j1), factor > 0. (m, l) is the running   \
   * maximum and sum of each row; it takes in the block's, and alpha, beta    \
   * are the factors of what was accumulated before and of this block.        \
   * l[rows][2]: the sum that divides and the sum whose log is lse, which     \
   * differ where weights are rounded before they meet the values.            \
   * bounded: every |factor s| is below BOUND, so 0 serves for the maximum; the    \
   * bits are the same and a pass over the scores is saved. */                    \
  K(void, softmax,                                                                                 \
    (int rows, int j0, int j1, float factor, bool bounded, float *s, float *m, float *l,           \
     float *alpha, float *beta))                                                                   \
  /* o[r] = alpha_r o[r] + beta_r sum_j p[r][j] v_j, keys [j0, j1) of a block \
   * whose panels of values are rows of ld floats. */                    \
  K(void, weigh,                                                                                   \
    (int rows, int j0, int j1, const float *p, const float *const *v, int ld, const float *alpha,  \
     const float *beta, float *o))                                                                 \
  /* (m, l, o)[r] takes in (m2, l2, o2)[r], as softmax and weigh would. */                         \
  K(void, join_rows,                                                                               \
    (int rows, int ld, const float *m2, const float *l2, const float *o2, float *m, float *l,      \
     float *o))                                                                                    \
  /* c[i][.] += sum_r a[r][i] b[r][.] for i in [i0, i1), r < n; a has ld      \
   * BLOCK, b and c have ld. */                    \
  K(void, weigh_keys, (int n, int i0, int i1, const float *a, const float *b, int ld, float *c))   \
  /* In backward: s <- p = min(1, 2^(factor s - lse2)), dp <- p (dp - delta). */                   \
  K(void, softmax_grad,                                                                            \
    (int rows, int j0, int j1, float factor, float *s, float *dp, const float *lse2,               \
     const float *delta))                                                                          \
  /* out[r] = a_r . b_r */                                                                         \
  K(void, row_dots, (int n, int width, const float *a, const float *b, int ld, float *out))        \
  /* The largest |k|^2 of n keys in lanes; NaN is passed over. */                                  \
  K(float, longest, (int n, int width, const float *k))                                            \
  K(void, scale_all, (const float *x, size_t n, float factor, float *y))                           \
  /* The largest of s[j0, j1). */                                                                  \
  K(float, row_max, (int j0, int j1, const float *s))                                              \
  K(void, exp2_all, (const float *x, size_t n, float *y))                                          \
  /* Poly (power.c). s <- (a s + c)^degree on [j0, j1), degree >= 1. */                            \
  K(void, power, (int rows, int j0, int j1, float a, float c, int degree, float *s))               \
  /* (m, l) takes in the sums of s and |s| over [j0, j1), as softmax's with   \
   * the maximum 0. */                    \
  K(void, join_sums,                                                                               \
    (int rows, int j0, int j1, const float *s, float *m, float *l, float *alpha, float *beta))     \
  /* In backward: s <- p = (a s + c)^degree / den, dp <- (dp - delta) degree  \
   * (a s + c)^(degree - 1) / den; zeros where den is 0. */                    \
  K(void, power_grad,                                                                              \
    (int rows, int j0, int j1, float a, float c, int degree, float *s, float *dp,                  \
     const float *den, const float *delta))                                                        \
  /* Gaussian. As scores, but s[r][j] = -|q_r - k_j|^2 / 2. */                                     \
  K(void, distances,                                                                               \
    (int rows, int width, const float *q, int ld, const float *k, int j0, int j1, float *s))       \
  /* o += sum_t p[t step] (x_t - y) for t < n, x rows of ld floats. */                             \
  K(void, weigh_differences,                                                                       \
    (int n, const float *p, int step, const float *x, int ld, const float *y, float *o))           \
  /* out[j] = factor |k_j|^2 of n keys, padded to a multiple of 16, \
   * in a panel's layout (see struct block_kernels). */                              \
  K(void, key_squares, (int pair, int n, int width, const void *k, float factor, float *out))      \
  /* y = factor x + add, n a multiple of 16. */                                                    \
  K(void, scale_add, (const float *x, size_t n, float factor, const float *add, float *y))         \
  /* out[j] += sum_r a[r][j] for j in [j0, j1), r < n; a has ld BLOCK. */                          \
  K(void, column_sums, (int n, int j0, int j1, const float *a, float *out))                        \
  /* n pairs of bf16, side by side, to f32: the first ones, the second ones. */                    \
  K(void, split_pairs, (const void *src, size_t n, float *first, float *second))                   \
  /* Small products (matmul.c): c[rows][n] = a[rows][depth] b[depth][n], or    \
   * added to c; n whole lanes. dst[cols][rows] = src[rows][cols]. */                   \
  K(void, matmul,                                                                                  \
    (int rows, int n, int depth, const float *a, int lda, const float *b, int ldb, float *c,       \
     int ldc, bool add))                                                                           \
  K(void, transpose, (int rows, int cols, const float *src, int ld, float *dst, int ld_dst))       \
  /* Feature maps and their derivatives: maps.c says what each does. */                            \
  K(void, map_elu, (const float *x, size_t n, float *y))                                           \
  K(void, map_elu_backward, (const float *phi, const float *dphi, size_t n, float *dx))            \
  K(void, map_exp,                                                                                 \
    (int rows, int dirs, int ld, bool pairs, const float *less, float *x, float *y, float *shift)) \
  K(void, map_exp_backward,                                                                        \
    (int rows, int ld, bool pairs, const float *phi, const float *dphi, float *e, float *sum))     \
  K(void, map_trig, (int rows, int dirs, int ld, const float *factor, const float *x, float *y))   \
  K(void, map_trig_backward,                                                                       \
    (int rows, int ld, const float *phi, const float *dphi, float *e, float *sum))                 \
  K(void, map_poly,                                                                                \
    (int rows, int dim, int degree, const int32_t *start, const float *x, int ldx, float *y,       \
     int ld))                                                                                      \
  K(void, map_poly_backward,                                                                       \
    (int rows, int dim, int degree, const int32_t *start, const float *x, int ldx,                 \
     const float *phi, float *dphi, int ld, float *dx))                                            \
  K(void, scale_columns, (int rows, int n, const float *f, float *x, int ld))                      \
  K(void, pair_rows,                                                                               \
    (int rows, int n, const float *shift, const float *top, const int32_t *seen, float *a, int ld, \
     float *sum, float *size))                                                                     \
  K(void, dot_rows,                                                                                \
    (int rows, int n, const float *a, int ld, const float *b, float *out, float *size))            \
  K(void, sum_rows, (int rows, int n, const float *a, int ld, float *out))                         \
  K(void, scale_rows, (int rows, int n, const float *f, float *x, int ld))                         \
  K(void, join_all, (size_t n, float a, float b, const float *x, float *y))                        \
  /* Layers (dense.c). y[rows][16 lanes] = x[rows][depth] w scale + bias, or \
   * added to y; w as lanes [lanes][depth][16] of f32, bf16 or int8; scale \
   * NULL: 1, bias NULL: 0. Rows that lie NEAR_STEP apart with a depth of at \
   * most BLOCK are read where they lie, others copied to lie so. */                     \
  K(void, dense_f32,                                                                               \
    (int rows, int depth, int lanes, const float *x, int ldx, const void *w, const float *scale,   \
     const float *bias, bool add, float *y, int ldy))                                              \
  K(void, dense_bf16,                                                                              \
    (int rows, int depth, int lanes, const float *x, int ldx, const void *w, const float *scale,   \
     const float *bias, bool add, float *y, int ldy))                                              \
  K(void, dense_i8,                                                                                \
    (int rows, int depth, int lanes, const float *x, int ldx, const void *w, const float *scale,   \
     const float *bias, bool add, float *y, int ldy))                                              \
  /* Rows of any n dealt to lanes: to[lanes][rows][16], zeros beyond n. */                         \
  K(void, deal_lanes, (int rows, int n, const float *x, int ldx, float *to))                       \
  /* One of the lanes, narrowed: [depth][16]; int8 with its 16 scales. */                          \
  K(void, narrow_bf16, (int depth, const float *w, uint16_t *to))                                  \
  K(void, narrow_i8, (int depth, const float *w, int8_t *to, float *scale))                        \
  /* y = activation(x) times, any n; times may be NULL (activations.c). */                         \
  K(void, activate,                                                                                \
    (attend_activation activation, int rows, int n, const float *x, int ldx, const float *times,   \
     int ld_times, float *y, int ldy))                                                             \
  /* dx = activation'(x) times dy and, where asked, dtimes = activation(x) dy; \
   * times and dtimes may be NULL. Both may lie where what is read does. */                   \
  K(void, activate_backward,                                                                       \
    (attend_activation activation, int rows, int n, const float *x, int ldx, const float *times,   \
     int ld_times, const float *dy, int lddy, float *dx, int lddx, float *dtimes, int ld_dtimes))  \
  /* Along rows of any n (layers.c says what each does). */                                        \
  K(void, norm_rows,                                                                               \
    (bool centre, int rows, int n, const float *x, int ldx, const float *weight,                   \
     const float *bias, float eps, float *y, int ldy))                                             \
  K(void, norm_columns,                                                                            \
    (int rows, int n, const float *x, int ldx, const float *mean, const float *variance,           \
     const float *weight, const float *bias, float eps, float *y, int ldy))                        \
  K(void, column_moments,                                                                          \
    (int rows, int n, const float *x, int ldx, float *mean, float *variance))                      \
  /* out[j] (+)= sum_r x[r][j]. */                                                                 \
  K(void, add_columns, (int rows, int n, const float *x, int ldx, bool add, float *out))           \
  K(void, add_both,                                                                                \
    (int rows, int n, const float *a, int lda, const float *b, int ldb, float *y, int ldy))        \
  K(void, embed_row,                                                                               \
    (attend_dtype dtype, const void *src, int n, float factor, bool add, float *y))                \
  K(void, rotate_pairs,                                                                            \
    (int heads, int dim, int half, int i0, int n, const float *cosine, const float *sine,          \
     float *x))                                                                                    \
  /* Their gradients (layers.c says what each does). */                                            \
  K(void, norm_rows_backward,                                                                      \
    (bool centre, int rows, int n, const float *x, int ldx, const float *weight, float eps,        \
     bool linear, const float *dy, int lddy, bool add, float *dx, int lddx, float *dweight,        \
     float *dbias))                                                                                \
  K(void, norm_columns_backward,                                                                   \
    (int rows, int n, const float *x, int ldx, const float *mean, const float *variance,           \
     const float *weight, float eps, const float *dy, int lddy, bool add, float *dx, int lddx,     \
     float *dweight, float *dbias))                                                                \
  K(double, sum_less, (int n, const float *x, float less))                                         \
  K(void, exp_row, (int n, const float *x, float less, float factor, float off, float *y))         \
  /* y = x factor where the stream's element is at least `least` of 2^24, else \
   * 0; elements first, first + 1, .. (layers.c). */                   \
  K(void, drop_row,                                                                                \
    (attend_random r, uint64_t first, uint32_t min, float factor, int n, const float *x,           \
     float *y))                                                                                    \
  K(int, largest_at, (int n, const float *x))                                                      \
  K(double, sum_exp, (int n, const float *x, float less))                                          \
  /* Ceilings: multiply-adds in registers (returns how many were done), and   \
   * a sum that reads n floats. */                    \
  K(double, spin_fma, (long rounds))                                                               \
  K(float, sum_all, (const float *x, size_t n))

/* Forward on one block of keys, in layouts that an instruction set may choose.
 * The f32 ones are the kernels of the list; AMX has its own for bf16.
 *
 *   pair 1  f32; keys are lanes, values are rows.
 *   pair 2  bf16; elements that meet in one instruction lie side by side. Keys:
 *           [n/16][width/2][16][2]. Values: [n/2][ld][2]. The width is padded
 *           to a multiple of `step`.
 */
struct block_soft { /* the arguments of softmax */
  int rows, j0, j1;
  float factor;
  bool bounded;
  float *s;
  void *p;
  float *m, *l, *alpha, *beta;
};
struct block_products { /* full groups on all keys of the block; NULL: none */
  const void *q;        /* scores: q and k onto s */
  const void *const *k;
  float *s;
  int width;
  const void *p; /* values: p and v onto o */
  const void *const *v;
  int ld;
  const float *alpha, *beta;
  float *o;
};

struct block_kernels {
  int rows; /* queries in a full group */
  int keys; /* that share one maximum, BLOCK or less: the unit of merging */
  int pair, step;
  void (*begin)(void); /* once in each thread, before and after the others */
  void (*end)(void);
  size_t (*query_bytes)(int n, int width); /* of a packed group */
  void (*pack_queries)(const float *rows, int ld, int n, int width, void *dst);
  void (*pack_keys)(source src, const uint8_t *valid, int n, int width, void *dst);
  bool (*pack_values)(source src, const uint8_t *valid, int n, int width, void *dst, int ld);
  float (*longest)(int n, int width, const void *k); /* of a packed panel */
  void (*scores)(int rows, int width, const void *q, const void *k, int j0, int j1, float *s);
  /* Weights go to p, in the form that weigh reads; f32 kernels want p == s. */
  void (*softmax)(const struct block_soft *x);
  size_t (*weights_at)(int row); /* where a row's weights lie in p, in floats */
  void (*weigh)(int rows, int j0, int j1, const void *p, const void *const *v, int ld,
                const float *alpha, const float *beta, float *o);
  /* NULL, or: the softmax of one group, and while its exponentials keep the vector units busy, the
   * scores of the next and the values of the last, on units of their own. soft may be NULL. */
  void (*overlap)(const struct block_soft *soft, const struct block_products *ride);
};

/* Products of bf16 by bf16 that are summed in f32, where an instruction set has
 * something for it. Lanes of 16 outputs as it likes them. */
struct mixed_kernels {
  size_t (*lane_elements)(int depth); /* of one of the lanes, packed */
  /* From w[depth][16]; from rows of any n, all lanes of them one after the other. */
  void (*pack)(int depth, const float *w, uint16_t *to);
  void (*deal)(int rows, int n, const float *x, int ldx, uint16_t *to);
  /* As dense_f32, and x is rounded. */
  void (*multiply)(int rows, int depth, int lanes, const float *x, int ldx, const uint16_t *w,
                   const float *bias, bool add, float *y, int ldy);
};

struct kernels {
  const char *isa;
  int rows;                             /* queries in a full group */
  const struct block_kernels *block[3]; /* by dtype */
  const struct mixed_kernels *mixed;    /* NULL: none */
#define K(returns, name, arguments) returns(*name) arguments;
  KERNEL_LIST(K)
#undef K
};

/* Of the sets that the build has. */
extern const struct kernels kernels_scalar, kernels_avx2, kernels_avx512, kernels_amx, kernels_neon;

/* The table of a set by name, or NULL: the best that runs here (select.c). */
attend_status kernels_choose(attend_context *ctx, const char *wanted);

#endif
