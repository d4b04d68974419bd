/* Attention flow through the layers: attention rollout (Abnar and Zuidema 2020), the
 * product of the weights along all paths; and the receptive field if every head attends
 * to its heaviest key ((k + 1)^n tokens at most, with k heads and n layers).
 */
#include <stdlib.h>
#include <string.h>

#include "lens/lens.h"

static attend_status check(const attend_lens *l, attend_role role, int token,
                           attend_lens_shape *s) {
  ATTEND_CHECK(l->ctx, role != ATTEND_CROSS && attend_lens_role(l, role, s),
               "a token is followed through self-attention: the run has none of the %s",
               attend_role_name(role));
  ATTEND_CHECK(l->ctx, token >= 0 && token < s->rows,
               "token %d was requested: they are numbered 0 to %d", token, s->rows - 1);
  return ATTEND_OK;
}

/* ---- rollout --------------------------------------------------------------------- */

typedef struct {
  const float *share; /* [T] after the layer */
  double *to;         /* [T] gathered: attention's part, heads together */
  int keys;
} gathering;

static void gather(int row, const float *w, const float *others, void *with) {
  const gathering *g = with;
  (void)others;
  double share = (double)g->share[row];
  for (int j = 0; j < g->keys; j++) g->to[j] += share * (double)w[j];
}

typedef struct {
  float share;
  int32_t row;
} heavy;

static int by_share(const void *a, const void *b) {
  const heavy *x = a, *y = b;
  if (x->share != y->share) return x->share < y->share ? 1 : -1;
  return x->row < y->row ? -1 : 1;
}
static int by_row(const void *a, const void *b) {
  int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
  return (x > y) - (x < y);
}

/* The rows that are followed: all that have a share, or the heaviest `most`. */
static int choose_rows(const float *share, int n, double max, heavy *all, int32_t *rows) {
  int count = 0;
  for (int i = 0; i < n; i++)
    if (share[i] > 1e-9f) all[count++] = (heavy){share[i], i};
  qsort(all, (size_t)count, sizeof *all, by_share);
  if (count > max) count = max < 1 ? 1 : (int)max;
  for (int i = 0; i < count; i++) rows[i] = all[i].row;
  qsort(rows, (size_t)count, sizeof *rows, by_row);
  return count;
}

typedef struct {
  attend_lens *l;
  attend_role role;
  attend_lens_shape s;
  double max; /* rows of a layer */
  heavy *heavy;
  int32_t *rows;
  double *to;
} rollout;

/* before <- after, through layer `layer`; *passed: the share of rows that were not followed. */
static attend_status through_layer(rollout *r, int layer, const float *after, float *before,
                                   double *passed) {
  int T = r->s.rows, n = choose_rows(after, T, r->max, r->heavy, r->rows);
  gathering g = {after, r->to, r->s.keys};
  double left = 0;
  memset(r->to, 0, (size_t)T * sizeof *r->to);
  for (int h = 0; h < r->s.heads; h++) {
    attend_head_id at = {r->role, layer, h};
    ATTEND_TRY(lens_each_row(r->l, NULL, at, n, r->rows, gather, &g));
    ATTEND_TRY(lens_step(r->l, 1 - (layer + 1 - (h + 1.0) / r->s.heads) / r->s.layers));
  }
  for (int i = 0; i < T; i++) before[i] = after[i];
  for (int i = 0; i < n; i++) before[r->rows[i]] *= 0.5f;
  for (int i = 0; i < T; i++) {
    left += (double)after[i];
    before[i] += (float)(0.5 * r->to[i] / r->s.heads);
  }
  for (int i = 0; i < n; i++) left -= (double)after[r->rows[i]];
  if (left > *passed) *passed = left;
  return ATTEND_OK;
}

attend_status attend_lens_rollout(attend_lens *l, attend_role role, int token, double most_pairs,
                                  float *shares, double *passed) {
  rollout r = {.l = l, .role = role};
  double left = 0;
  ATTEND_TRY(check(l, role, token, &r.s));
  size_t T = (size_t)r.s.rows;
  int L = r.s.layers;
  r.max = most_pairs > 0 ? most_pairs / ((double)r.s.keys * r.s.heads * L) : (double)T;
  ATTEND_TRY(ctx_alloc(l->ctx, T * (sizeof *r.to + sizeof *r.heavy + sizeof *r.rows),
                       "rows to follow", &r.to));
  r.heavy = (heavy *)(r.to + T);
  r.rows = (int32_t *)(r.heavy + T);
  memset(shares, 0, (size_t)(L + 1) * T * sizeof *shares);
  shares[(size_t)L * T + (size_t)token] = 1;
  attend_status status = ATTEND_OK;
  for (int i = L - 1; i >= 0 && !status; i--)
    status = through_layer(&r, i, shares + (size_t)(i + 1) * T, shares + (size_t)i * T, &left);
  if (passed) *passed = left;
  ctx_free(l->ctx, r.to);
  return status;
}

/* ---- the heaviest alone ---------------------------------------------------------- */

typedef struct {
  uint8_t *before; /* [T] */
  attend_reach_edge *edges;
  int max, n;
  int keys, layer, head;
} reaching;

static void reach_to(reaching *r, int from, int to, int head) {
  r->before[to] = 1;
  if (r->n < r->max) r->edges[r->n++] = (attend_reach_edge){r->layer, from, to, head};
}

static void reach_row(int row, const float *w, const float *others, void *with) {
  reaching *r = with;
  (void)others;
  int best = 0;
  for (int j = 1; j < r->keys; j++)
    if (w[j] > w[best]) best = j;
  if (w[best] > 0) reach_to(r, row, best, r->head);
}

static int rows_reached(const uint8_t *reached, int n, int32_t *rows) {
  int count = 0;
  for (int i = 0; i < n; i++)
    if (reached[i]) rows[count++] = i;
  return count;
}

static attend_status reach_layer(attend_lens *l, attend_role role, const attend_lens_shape *s,
                                 int32_t *rows, const uint8_t *after, reaching *r) {
  int n = rows_reached(after, s->rows, rows);
  for (int i = 0; i < n; i++) reach_to(r, rows[i], rows[i], -1);
  for (int h = 0; h < s->heads; h++) {
    attend_head_id at = {role, r->layer, h};
    r->head = h;
    ATTEND_TRY(lens_each_row(l, NULL, at, n, rows, reach_row, r));
    ATTEND_TRY(lens_step(l, 1 - (r->layer + 1 - (h + 1.0) / s->heads) / s->layers));
  }
  return ATTEND_OK;
}

attend_status attend_lens_reach(attend_lens *l, attend_role role, int token, uint8_t *reached,
                                attend_reach_edge *edges, int max, int *n) {
  attend_lens_shape s;
  int32_t *rows;
  ATTEND_TRY(check(l, role, token, &s));
  size_t T = (size_t)s.rows;
  ATTEND_TRY(ctx_alloc(l->ctx, T * sizeof *rows, "rows to follow", &rows));
  memset(reached, 0, (size_t)(s.layers + 1) * T);
  reached[(size_t)s.layers * T + (size_t)token] = 1;
  reaching r = {.edges = edges, .max = max, .keys = s.keys};
  attend_status status = ATTEND_OK;
  for (int i = s.layers - 1; i >= 0 && !status; i--) {
    r.before = reached + (size_t)i * T;
    r.layer = i;
    status = reach_layer(l, role, &s, rows, reached + (size_t)(i + 1) * T, &r);
  }
  *n = r.n;
  ctx_free(l->ctx, rows);
  return status;
}
