/* Looking at what the definition weighs.
 *
 * Observe of the definition engine, over tensors and states. Weights are computed
 * again in double, a row at a time.
 */
#include <math.h>
#include <string.h>

#include "attention/definition_pieces.h"
#include "attention/definition_row.h"
#include "attention/looker.h"
#include "attention/state.h"

typedef struct {
  const call *c;
  int64_t width; /* keys of the longest sequence */
  float *line;   /* [width] for look->each, or NULL */
  size_t row;    /* of [B,H,T] */
  int i;         /* query */
} place;

static int64_t width_of(const call *c) {
  int64_t width = c->plan->desc.kv_len;
  if (!c->state) return width;
  width = 0;
  for (int b = 0; b < c->plan->desc.batch; b++)
    width = max64(width, c->state->length[b]);
  return width;
}

static void write_weights(const place *p, size_t head,
                          const definition_row *row) {
  const attend_observation *look = p->c->look;
  for (int r = 0; look->weights && r < look->n_rows; r++) {
    if (look->rows[r] != p->i) continue;
    float *to = look->weights +
                (head * (size_t)look->n_rows + (size_t)r) * (size_t)p->width;
    for (int s = 0; s < row->n_seen; s++)
      to[row->seen[s]] = (float)row->weight[s];
  }
}

static void hand_over(const place *p, int b, int h, int slot,
                      const definition_row *row) {
  const attend_observation *look = p->c->look;
  int64_t to = look->key_to ? min64(look->key_to, p->width) : p->width;
  if (look->key_from >= to) return;
  memset(p->line, 0, (size_t)p->width * sizeof *p->line);
  for (int s = 0; s < row->n_seen; s++)
    p->line[row->seen[s]] = (float)row->weight[s];
  attend_weight_span all = {b,
                            h,
                            p->i,
                            slot,
                            (int)look->key_from,
                            (int)(to - look->key_from),
                            p->line + look->key_from};
  look->each(&all, look->user);
}

static void write_each(const place *p, int b, int h,
                       const definition_row *row) {
  const attend_observation *look = p->c->look;
  if (!look->each) return;
  if (!look->n_rows) hand_over(p, b, h, p->i, row);
  for (int r = 0; r < look->n_rows; r++)
    if (look->rows[r] == p->i) hand_over(p, b, h, r, row);
}

/* The heaviest first, ties by position: each goes where it belongs. */
static void write_top(const place *p, const definition_row *row) {
  const attend_observation *look = p->c->look;
  int32_t *index = look->top_index + p->row * (size_t)look->top;
  float *weight = look->top_weight + p->row * (size_t)look->top;
  int count = 0;
  for (int s = 0; s < row->n_seen; s++) {
    float w = (float)row->weight[s];
    if (count == look->top && w <= weight[count - 1]) continue;
    int at = count < look->top ? count++ : count - 1;
    for (; at > 0 && w > weight[at - 1]; at--) {
      weight[at] = weight[at - 1];
      index[at] = index[at - 1];
    }
    weight[at] = w;
    index[at] = row->seen[s];
  }
  for (; count < look->top; count++) {
    index[count] = -1;
    weight[count] = 0;
  }
}

static void write_sums(const place *p, size_t head, const definition_row *row) {
  const attend_observation *look = p->c->look;
  double entropy = 0;
  for (int s = 0; s < row->n_seen; s++) {
    double w = row->weight[s];
    if (w > 0) entropy -= w * log(w);
    if (look->mass)
      look->mass[head * (size_t)p->width + (size_t)row->seen[s]] += (float)w;
  }
  if (look->entropy) look->entropy[p->row] = (float)entropy;
}

/* Statistics are of all rows. */
static bool is_wanted(const attend_observation *look, int i) {
  if (look->top || look->entropy || look->mass) return true;
  if (look->each && !look->n_rows) return true;
  for (int r = 0; r < look->n_rows; r++)
    if (look->rows[r] == i) return true;
  return false;
}

static void look_piece(const call *c, const piece *p, definition_row *row,
                       int64_t width, float *line) {
  const attend_desc *d = &p->desc;
  for (int b = 0; b < d->batch; b++)
    for (int h = 0; h < d->heads; h++)
      for (int i = 0; i < d->q_len; i++) {
        size_t head = (size_t)(p->first + b) * (size_t)d->heads + (size_t)h;
        place at = {c, width, line, head * (size_t)c->n + (size_t)i, i};
        if (!is_wanted(c->look, i)) continue;
        definition_row_weigh(row, b, h, i);
        write_weights(&at, head, row);
        write_each(&at, p->first + b, h, row);
        if (c->look->top) write_top(&at, row);
        if (c->look->entropy || c->look->mass) write_sums(&at, head, row);
      }
}

static attend_status check(const call *c) {
  const attend_observation *look = c->look;
  attend_context *ctx = c->plan->ctx;
  ATTEND_CHECK(ctx, look, "look is NULL: say what is to be looked at");
  ATTEND_CHECK(ctx, !look->softmax_gap,
               "the gap to softmax is not known on the definition engine: "
               "leave softmax_gap NULL");
  ATTEND_TRY(check_look_rows(c));
  ATTEND_CHECK(ctx, !look->top || (look->top_index && look->top_weight),
               "the heaviest keys were asked for, but top_index or top_weight "
               "is NULL");
  return ATTEND_OK;
}

/* What no row writes: rows that are not real see nothing. */
static void clear(const call *c, int64_t width) {
  const attend_observation *look = c->look;
  const attend_desc *d = &c->plan->desc;
  size_t heads = (size_t)d->batch * (size_t)d->heads;
  size_t rows = heads * (size_t)c->n;
  if (look->weights)
    memset(look->weights, 0,
           heads * (size_t)look->n_rows * (size_t)width * sizeof(float));
  if (look->mass) memset(look->mass, 0, heads * (size_t)width * sizeof(float));
  if (look->entropy) memset(look->entropy, 0, rows * sizeof(float));
  for (size_t i = 0; i < rows * (size_t)look->top; i++) {
    look->top_index[i] = -1;
    look->top_weight[i] = 0;
  }
}

attend_status definition_observe(call *c) {
  ATTEND_TRY(check(c));
  attend_status status = ATTEND_OK;
  int64_t width = width_of(c);
  float *line = NULL;
  clear(c, width);
  if (c->look->each)
    ATTEND_TRY(take(c->plan->ctx, size_times((size_t)width, sizeof *line),
                    "a row of weights", &line));
  for (int i = 0; i < pieces_count(c) && !status; i++) {
    piece p;
    definition_row row = {0};
    status = piece_open(c, i, &p);
    if (!status && p.desc.q_len) {
      status = definition_row_open(c->plan->ctx, &p.desc, p.q, p.k, &row);
      if (!status) look_piece(c, &p, &row, width, line);
      definition_row_close(c->plan->ctx, &row);
    }
    piece_close(c, &p);
  }
  give(c->plan->ctx, line);
  return status;
}
