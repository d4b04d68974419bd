/* Looking at a linear form: the weights that its features imply.
 *
 * observe.c walks the rows and hands tiles over to here. phi(q).phi(k) / sum is
 * computed for every pair in sight, one block of keys after the other: as long as the
 * exact way, but only when someone looks.
 */
#include <math.h>

#include "attention/looker.h"

/* log2 of the factor from a product of features to a weight, but for the key's
 * shift; and the factor's sign. */
typedef struct {
  double log2_factor[LINEAR_ROWS];
  double sign[LINEAR_ROWS]; /* 0: the row sees nothing */
} factors;

static void make_factors(const call *c, tile t, const linear_scratch *w,
                         factors *f) {
  const attend_plan *p = c->plan;
  bool is_signed = attend_form_signed(&p->desc.form);
  for (int i = 0; i < t.rows; i++) {
    double lse = (double)c->lse_in[row_index(c, t, i)];
    double log2_sum = is_signed ? log2(fabs(lse)) : lse * LOG2E;
    bool none = is_signed ? lse == 0 : lse == -INFINITY;
    f->sign[i] = none ? 0 : is_signed && lse < 0 ? -1 : 1;
    f->log2_factor[i] =
        (double)w->tile.shift[i] + p->map.log_factor * LOG2E - log2_sum;
  }
}

/* a[t.rows][PANEL]: ranks on the block that was read. */
static void block_ranks(const call *c, tile t, const factors *f,
                        linear_scratch *w) {
  const attend_plan *p = c->plan;
  const linear_block *k = &w->keys;
  float *a = w->tile.a;
  p->kn->matmul(t.rows, PANEL, p->map.ld, w->tile.phi, p->map.ld, k->phi_t,
                PANEL, a, PANEL, false);
  for (int i = 0; i < t.rows; i++, a += PANEL) {
    int64_t end = linear_row_end(c, t.b, t.row + i) - k->index * PANEL;
    for (int j = 0; j < PANEL; j++) {
      bool sees = j < end && j < k->n && k->shift[j] > -INFINITY && f->sign[i];
      double x = sees ? exp2(f->log2_factor[i] + (double)k->shift[j]) : 0;
      a[j] = sees ? (float)(f->sign[i] * (double)a[j] * x) : -INFINITY;
    }
  }
}

static void read_rows(const call *c, tile t, linear_scratch *w) {
  const attend_plan *p = c->plan;
  rows_load(c, &c->q, t, p->desc.dim, p->ldk, true, w->tile.x);
  features_rows(p, false, t.rows, w->tile.x, w->tile.phi, w->tile.shift,
                w->work);
}

/* ---- the distance from softmax ------------------------------------------------------ */

/* scores[t.rows][PANEL] = q.k of the block that was read. */
static void block_scores(const call *c, tile t, linear_scratch *w) {
  const attend_plan *p = c->plan;
  p->kn->transpose(PANEL, p->ldk, w->keys.x, p->ldk, w->keys_t, PANEL);
  p->kn->matmul(t.rows, PANEL, p->desc.dim, w->tile.x, p->ldk, w->keys_t, PANEL,
                w->scores, PANEL, false);
}

static int64_t last_key_block(const call *c, tile t) {
  int64_t last = -1;
  for (int i = 0; i < t.rows; i++)
    last = max64(last, linear_row_block(c, t.b, t.row + i));
  return last;
}

typedef struct {
  double most[LINEAR_ROWS], sum[LINEAR_ROWS], gap[LINEAR_ROWS];
} exact_rows;

/* Takes the block into each row's exact softmax. */
static void add_exact(const call *c, tile t, linear_scratch *w, exact_rows *e) {
  double scale = (double)c->plan->desc.scale;
  block_scores(c, t, w);
  for (int i = 0; i < t.rows; i++) {
    int64_t end = linear_row_end(c, t.b, t.row + i) - w->keys.index * PANEL;
    for (int j = 0; j < w->keys.n && j < end; j++) {
      if (w->keys.shift[j] == -INFINITY) continue;
      double s = scale * (double)w->scores[i * PANEL + j];
      double most = s > e->most[i] ? s : e->most[i];
      e->sum[i] = e->sum[i] * exp(e->most[i] - most) + exp(s - most);
      e->most[i] = most;
    }
  }
}

/* Half the sum of |weight - exact weight|: 0 is the same, 1 is disjoint. */
static void add_gap(const call *c, tile t, linear_scratch *w, exact_rows *e) {
  double scale = (double)c->plan->desc.scale;
  block_scores(c, t, w);
  for (int i = 0; i < t.rows; i++)
    for (int j = 0; j < PANEL; j++) {
      float a = w->tile.a[i * PANEL + j];
      if (a == -INFINITY) continue;
      double s = scale * (double)w->scores[i * PANEL + j];
      e->gap[i] += fabs((double)a - exp(s - e->most[i]) / e->sum[i]) / 2;
    }
}

static void exact_pass(const call *c, tile t, int64_t last, linear_scratch *w,
                       exact_rows *e) {
  for (int i = 0; i < t.rows; i++)
    e->most[i] = -INFINITY, e->sum[i] = e->gap[i] = 0;
  for (int64_t index = 0; index <= last; index++) {
    linear_read(c, t.b, t.g, index, w);
    add_exact(c, t, w, e);
  }
}

static void look_open(const attend_plan *p, int thread, looker_room *room) {
  linear_cut(p, plan_thread_arena(p, thread), &room->linear);
}

static void look_tile(const call *c, tile t, sink to, looker_room *room) {
  linear_scratch *w = &room->linear;
  const attend_observation *look = c->look;
  int64_t last = last_key_block(c, t), first = 0, end = last + 1;
  bool gaps = look->softmax_gap && to.slot == TO_STATISTICS;
  factors f;
  exact_rows e;
  read_rows(c, t, w);
  make_factors(c, t, w, &f);
  if (gaps) exact_pass(c, t, last, w, &e);
  if (c->key_to) {
    first = c->key_from / PANEL;
    end = min64(end, (c->key_to + PANEL - 1) / PANEL);
  }
  for (int64_t index = first; index < end; index++) {
    linear_read(c, t.b, t.g, index, w);
    block_ranks(c, t, &f, w);
    if (gaps) add_gap(c, t, w, &e);
    for (int i = 0; i < t.rows; i++)
      look_write(c, t, i, to, index * PANEL, 0, w->keys.n,
                 w->tile.a + i * PANEL);
  }
  for (int i = 0; gaps && i < t.rows; i++)
    look->softmax_gap[row_index(c, t, i)] = (float)e.gap[i];
}

attend_status linear_observe(call *c) {
  static const looker by_features = {look_open, look_tile};
  return look_at(c, &by_features);
}
