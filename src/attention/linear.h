/* Linear attention in chunks: blocks of keys, the sums before them, tiles of rows.
 * Shared by linear.c (forward), linear_state.c (extend), linear_backward.c and
 * observe.c.
 *
 * Keys form blocks of PANEL, aligned to positions. A row that sees keys [0, hi) uses all
 * blocks before that of key hi - 1 through their sum
 *
 *   S = sum_j phi(k_j) v_j^T,   z = sum_j phi(k_j)
 *
 * and the keys of its own block pair by pair. A block enters the sum as a whole, in
 * order, when the first key after it arrives: the operations do not depend on how keys
 * are split over calls. Nothing is ever subtracted.
 *
 * phi(k_j) comes with a shift m_j (features.h), S and z with the largest of the
 * shifts that went into them, row i is computed relative to the largest M_i of
 * the shifts that it sees. All are integers, so nothing depends on them but the
 * range, and no key after i enters M_i.
 */
#ifndef ATTENTION_LINEAR_H
#define ATTENTION_LINEAR_H

#include "attention/blocks.h"

enum { LINEAR_ROWS = 64, LINEAR_GROUP = 12 };

typedef struct {   /* a block of keys */
  float *x;        /* [PANEL][ldk] as they are, or NULL: not kept */
  float *phi;      /* [PANEL][ld], or scratch */
  float *phi_t;    /* [ld][PANEL] */
  float *v;        /* [PANEL][ldv] */
  float *shift;    /* [PANEL], -inf where there is no key */
  float *before;   /* [PANEL] the largest shift up to each */
  int n;           /* keys, from the first on */
  bool non_finite; /* a value is NaN or infinite */
  int b, g;        /* where it was read from, -1: nowhere yet */
  int64_t index;
} linear_block;

typedef struct { /* sums over blocks, times 2^-m */
  float *s;      /* [ld][ldv] */
  float *z;      /* [ld] */
  float *m;      /* -inf: nothing yet */
} linear_sum;

typedef struct { /* a tile of rows */
  float *x;      /* [LINEAR_ROWS][ldk] */
  float *phi;    /* [LINEAR_ROWS][ld] */
  float *o;      /* [LINEAR_ROWS][ldv] */
  float *a;      /* [LINEAR_ROWS][PANEL] weights inside the block */
  float shift[LINEAR_ROWS], top[LINEAR_ROWS], scale[LINEAR_ROWS];
  float den[LINEAR_ROWS], size[LINEAR_ROWS];
  int32_t visible[LINEAR_ROWS]; /* keys of the block, 0: the row sees nothing */
} linear_tile;

typedef struct {
  linear_block keys;
  linear_sum sum, part; /* running; and of one block */
  linear_tile tile;
  float *work;            /* of the feature map */
  float *scaled;          /* [PANEL][ldv] */
  float *keys_t, *scores; /* [ldk][PANEL], [LINEAR_ROWS][PANEL]: observe */
  int64_t weak;
} linear_scratch;

size_t linear_cut(const attend_plan *p, arena a, linear_scratch *w);

/* Reads block `index` of (b, g), as far as any row sees. */
void linear_read(const call *c, int b, int g, int64_t index, linear_scratch *w);
/* Appends n keys to a block: rows x [n][ldk], which are mapped here, values v [n][ldv];
 * real may be NULL. */
void linear_put(const attend_plan *p, int n, const float *x, const float *v, const uint8_t *real,
                linear_block *k, float *work);
/* factor[j] = 2^(shift_j - m), 0 where there is no key. */
void linear_factors(const linear_block *k, float m, float factor[PANEL]);
/* part = the sum over a whole block. */
void linear_block_sum(const attend_plan *p, const linear_block *k, linear_sum part, float *scaled);
/* sum += part. */
void linear_join(const attend_plan *p, linear_sum sum, linear_sum part);

/* Outputs and lse of the rows of t. before: keys in earlier blocks. */
void linear_rows(const call *c, tile t, int64_t before, const linear_block *k, linear_sum sum,
                 linear_scratch *w);

/* scale and top of each row; m is that of the sum before the block. */
void linear_tops(const attend_plan *p, tile t, const linear_block *k, float m, linear_tile *w);

/* Row `row` of a stack sees the keys [0, end). */
int64_t linear_row_end(const call *c, int b, int row);
/* The block that a row's keys end in, -1 if it sees none; the last such block of a sequence. */
int64_t linear_row_block(const call *c, int b, int row);
int64_t linear_last_block(const call *c, int b);
int64_t linear_last_key(const call *c, int b); /* and the end of its keys */
/* One tile of rows, from `row` on or up to `end`, whose keys end in one block. */
tile linear_run(const call *c, int b, int g, int row, int end);
tile linear_run_before(const call *c, int b, int g, int end);

attend_status linear_backward(call *c);
attend_status linear_observe(call *c);
size_t linear_backward_bytes(const attend_plan *p);

#endif
