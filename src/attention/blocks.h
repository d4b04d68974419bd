/* Iterating over a call: rows, the keys they see, blocks of keys, and scores. Used by the
 * tiled engines (softmax, argmax), backward and observe, which differ in what they do
 * with a group's scores on a block.
 *
 * The heads that share a kv head are rows of one stack: row r of (b, g) is query
 * r / group of head g * group + r % group. Rows of a stack are in order of position, so
 * consecutive rows see one interval of keys.
 */
#ifndef ATTENTION_BLOCKS_H
#define ATTENTION_BLOCKS_H

#include "attention/engine.h"

typedef struct {
  int64_t lo, hi; /* keys [lo, hi) */
} span;

typedef struct {
  int b, g;
  int row, rows; /* of the stack (b, g) */
} tile;

/* A block of keys in the kernels' layouts. Unused members are NULL. */
typedef struct {
  int64_t start;            /* position of its first key */
  const void *k[PANELS];    /* keys, as c->on packs them */
  const void *rows[PANELS]; /* values; in backward, keys by rows */
  unsigned non_finite;      /* bit i: panel i's rows hold NaN or infinity */
  float longest;            /* the largest |k|^2, or infinity: not computed */
  float norm[BLOCK];        /* the term of |k|^2, where scores have norms */
  uint8_t valid[BLOCK];     /* visible to some row, and not padding */
  int n_hidden;             /* padding among the visible keys, */
  uint8_t hidden[BLOCK];    /* and its positions */
  /* storage: forward wants lanes of keys and rows of values, backward lanes
   * of both and rows of keys */
  unsigned char *k_lanes, *v_rows;
  float *k_rows, *v_lanes; /* [BLOCK][ldk], [BLOCK][M] */
} block;

/* ---- geometry -------------------------------------------------------------------- */

int64_t call_keys(const call *c, int b);                /* keys that exist */
int64_t call_position(const call *c, int b);            /* of query 0 */
int call_queries(const call *c, int b);                 /* that are real */
span rows_see(const call *c, int b, int row, int rows); /* their union */
/* Whether a row sees a key that is not padding. Keys must lie in views or pages:
 * a linear state has none. */
bool row_sees(const call *c, int b, int row);

static inline int row_head(const attend_plan *p, int g, int row) {
  return g * p->group + row % p->group;
}

/* The number of tiles of the call; tile i of them. The longest tiles come first, so that
 * threads end together. */
int64_t call_tiles(const call *c);
tile call_tile(const call *c, int64_t i);

/* [j0, j1): the part of the block that the rows see, in whole lanes. */
static inline bool block_part(span s, int64_t start, int *j0, int *j1) {
  int64_t lo = max64(s.lo - start, 0), hi = min64(s.hi - start, BLOCK);
  if (lo >= hi) return false;
  *j0 = (int)(lo / LANES * LANES);
  *j1 = (int)round_up((size_t)hi, LANES);
  return true;
}

/* ---- loading --------------------------------------------------------------------- */

/* Element (key, i) of the block's values. */
float block_value(const call *c, const block *k, int key, int i);
void block_cut(const attend_plan *p, arena *a, bool backward, block *out);
/* Loads the block that starts at `start` as far as `seen`. Returns false if all of it is
 * padding. */
bool block_load(const call *c, int b, int g, int64_t start, span visible, block *out);

/* Row i of (b, g) of a view over keys, for the kernels that pack. */
source call_source(const call *c, const attend_view *view, int b, int g, int64_t i);

/* Computes `longest` of the visible keys; pays for many rows. */
void block_longest(const call *c, span visible, block *k);
/* Fills `norm` of the visible keys, where scores have norms. */
void block_norms(const call *c, span visible, block *k);

/* Prefetches keys [first, first + n) of k and v: a tile does so for its next block. */
void keys_prefetch(const call *c, int b, int g, int64_t first, int64_t n);
/* The same for a state's pages: keys, then values. For few rows, whose loads would wait
 * for memory. */
void pages_prefetch(const call *c, int b, int g, span keys);

/* dst[rows][ld]: rows of the stack from a view over queries; dead rows (that
 * see no key) become zeros when asked. */
void rows_load(const call *c, const attend_view *view, tile t, int width, int ld, bool drop_dead,
               float *dst);
/* n rows of ld floats, rounded to the target's type; from NULL: zeros. */
void rows_store(const attend_plan *p, const float *from, int ld, int64_t n, int width, target to);
/* The address of a row in a view over queries. */
void *row_address(const call *c, const attend_view *view, int b, int g, int row);

/* ---- scores ---------------------------------------------------------------------- */

static inline bool is_poly(const attend_plan *p) { return p->desc.form.kind == ATTEND_POLY; }
static inline bool is_gaussian(const attend_plan *p) {
  return p->desc.form.kind == ATTEND_GAUSSIAN;
}
/* Gaussian's -|q - k|^2 / 2 as q.k - |k|^2 / 2 - |q|^2 / 2. */
static inline bool takes_norms(const attend_plan *p) {
  return is_gaussian(p) && !p->by_differences;
}

static inline bool is_capped(const attend_plan *p) { return p->desc.soft_cap > 0; }
/* Where scores take norms: |q|^2 / 2 sigma^2 of row r of a tile, which cancels
 * in every weight but belongs to lse. 0 elsewhere. */
double query_norm(const call *c, tile t, int r);
/* lse_in without that norm, in log2 units; infinity for a row that saw no key. */
float row_lse2(const call *c, tile t, int r);

/* s * call_factor = score in log2 units, for poly q.k; no mask yet: group t of
 * packed queries q. The factor is 1 unless the call takes raw scores. */
float call_factor(const call *c);

void group_products(const call *c, tile t, const void *q, const block *k, int j0, int j1, float *s);
void group_finish(const call *c, tile t, const block *k, int j0, int j1, float *s);
/* Outside of what each row sees: value. */
void group_mask(const call *c, tile t, const block *k, int j0, int j1, float value, float *s);

/* Whether every row of the group sees all of [j0, j1). */
bool group_sees(const call *c, tile t, const block *k, int j0, int j1);

/* o[r] = alpha o[r] + beta sum_j s[r][j] rows_j over what the group sees. */
void group_weigh(const call *c, tile t, const block *k, int j0, int j1, const float *s, int ld,
                 const float *alpha, const float *beta, float *o);

/* The rows [i, i + n) of a tile. */
static inline tile tile_group(int rows, tile t, int i) {
  int n = t.rows - i < rows ? t.rows - i : rows;
  return (tile){t.b, t.g, t.row + i, n};
}

/* Where row r of a tile lies in [B,H,n]. */
static inline size_t row_index(const call *c, tile t, int r) {
  const attend_plan *p = c->plan;
  size_t head = (size_t)t.b * (size_t)p->desc.heads + (size_t)row_head(p, t.g, t.row + r);
  return head * (size_t)c->n + (size_t)((t.row + r) / p->group);
}

size_t bias_shared_bytes(const attend_plan *p); /* the bias table */

/* ---- tiles: queries, running result, one block of keys --------------------------- */

typedef struct {
  block keys;
  unsigned char *q; /* groups of packed queries */
  size_t group_bytes;
  float *longest;           /* of each group, the largest |q|^2 */
  float *o, *m, *l;         /* running result: [tile][ldv], [tile], [tile][2] */
  float *s, *p;             /* scores and weights of a group; f32: the same */
  float *spare_s, *spare_p; /* of the group before or after, with overlap */
  float alpha[GROUP], beta[GROUP];
} scratch;

size_t scratch_cut(const attend_plan *p, arena a, scratch *w);
/* One thread's scratch; p->fast->end() closes it. */
void scratch_open(const attend_plan *p, int thread, scratch *w);
int tile_rows(const attend_plan *p); /* rows that a tile should have */

void tile_begin(const call *c, tile t, scratch *w);          /* packs the queries; uses o */
void tile_clear(const attend_plan *p, int rows, scratch *w); /* nothing seen */

/* Scores of the group that starts at row `at` of its tile on the loaded block, -inf where a row
 * does not see; for poly their powers, 0 where it does not. False if the group sees none of it. */
bool tile_scores(const call *c, tile g, int at, int *j0, int *j1, scratch *w);

/* Whether all of [j0, j1) is visible and |scores| are below BOUND, by |q| |k|. */
bool tile_bounded(const call *c, tile g, int at, int j0, int j1, const scratch *w);

/* A group on a block, its scores in w->s as tile_scores leaves them. */
typedef struct {
  const call *c;
  tile g;
  int at; /* the group's first row in the tile */
  int j0, j1;
  scratch *w;
} visit;

/* Visits every group of the tile on every block that it sees, blocks first. */
void tile_visit(const call *c, tile t, scratch *w, void (*f)(const visit *v, void *with),
                void *with);

/* All groups of the tile on the loaded block, the softmax of one overlapped with the
 * products of others; for kernels that can. */
void overlap_block(const call *c, tile t, scratch *w);

/* Blocks of c->on->keys keys: the first that is seen, and the end. */
static inline int64_t first_block(const call *c, span visible) { return visible.lo / c->on->keys; }
static inline int64_t end_block(const call *c, span visible) {
  if (visible.hi <= visible.lo) return first_block(c, visible);
  return (visible.hi + c->on->keys - 1) / c->on->keys;
}
/* Block i of them, as far as it is seen. */
static inline bool seen_block_load(const call *c, tile t, int64_t i, span visible, block *out) {
  int64_t start = i * c->on->keys;
  visible.hi = min64(visible.hi, start + c->on->keys);
  if (!block_load(c, t.b, t.g, start, visible, out)) return false;
  block_norms(c, visible, out);
  return true;
}

/* ---- calls of the tiled engines: softmax.c, softmax_backward.c, observe.c -------- */

void softmax_backward_size(attend_plan *p); /* adds to the plan's bytes */
attend_status softmax_backward(call *c);
void dense_clear(const call *c); /* dbias of a dense bias: zeros */

attend_status observe_tiled(call *c);
/* Fails unless the observation's rows and keys exist. */
attend_status check_observation(const call *c, bool knows_gap);

#endif
