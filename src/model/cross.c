/* What an encoder leaves for later: keys and values of cross-attention, and sums.
 *
 * Place: model/ - between the encoder's last layer and the decoder's states;
 * sums are a reading's (reading.c).
 */
#include "model/hooks.h"

/* n rows of keys and values from row `start` of r->at.qkv on. */
static attend_status cross_piece(attend_session *r, int i, int start, int n,
                                 int32_t *lengths) {
  const attend_stack *s = &r->model->config.decoder;
  const int ld = padded(r->model->decoder.layers[0].cross_kv.outputs);
  float *k = r->at.qkv + (size_t)start * (size_t)ld;
  attend_view keys = heads_at(k, r->p.n, ld, s->dim);
  attend_view values = heads_at(k + s->kv_heads * s->dim, r->p.n, ld, s->dim_v);
  mixing m = {ATTEND_CROSS, r->cross_plan, r->cross[i], i};
  for (int b = 0; b < r->batch; b++)
    lengths[b] = (int32_t)max64(0, min64(r->lengths[b] - start, n));
  ATTEND_TRY(hook_keys(&r->p, &m, n, lengths, keys, values, HOOK_FORWARD));
  ATTEND_TRY(attend_state_append(r->cross_plan, r->cross[i], n, keys, values));
  return hook_keep(&r->p, &m, n, lengths, keys, values);
}

attend_status cross_fill(attend_session *r) {
  const stack *s = &r->model->decoder;
  const int rows = r->p.rows, n = r->p.n;
  int32_t *lengths;
  ATTEND_TRY(take(r->ctx, size_times((size_t)r->batch, sizeof *lengths),
                  "lengths", &lengths));
  attend_plan_set_padding(r->cross_plan, lengths, NULL);
  attend_status status = ATTEND_OK;
  for (int i = 0; i < s->shape->layers && !status; i++) {
    const linear_weights *w = &layer_of(s, i)->cross_kv;
    multiply_rows(&r->p, w, rows, r->x, padded(w->inputs), r->at.qkv,
                  padded(w->outputs));
    for (int start = 0; start < n && !status; start += r->limit)
      status =
          cross_piece(r, i, start, (int)min64(r->limit, n - start), lengths);
  }
  attend_plan_set_padding(r->cross_plan, r->lengths, NULL);
  give(r->ctx, lengths);
  return status;
}

attend_status sums_fill(attend_session *r, int number) {
  const attend_stack *s = r->p.side->shape;
  activations a = r->at;
  a.x = r->x;
  layer_project(&r->p, number, &a);
  int ld = padded(layer_of(r->p.side, number)->qkv.outputs);
  float *k = a.qkv + s->heads * s->dim;
  return attend_state_append(
      r->encoder_plan, r->sums[number], r->p.n, heads_at(k, r->p.n, ld, s->dim),
      heads_at(k + s->kv_heads * s->dim, r->p.n, ld, s->dim_v));
}
