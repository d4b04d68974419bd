/* The parameter table: a family's lines for every layer, with their shapes.
 *
 * Place: model/ - made from the configuration alone, before any file is read.
 */
#include "model/checkpoint.h"

#define X(slot, kind, what) {kind, what},
const slot_info slot_infos[SLOTS] = {SLOT_LIST(X)};
#undef X

static const attend_stack *stack_of(const attend_config *c, attend_parts of) {
  bool encoder = of == ATTEND_ENCODER || c->parts == ATTEND_ENCODER;
  return encoder ? &c->encoder : &c->decoder;
}

static int64_t size_of(const attend_config *c, attend_parts of, char letter) {
  const attend_stack *s = stack_of(c, of);
  const int64_t q = (int64_t)s->heads * s->dim,
                k = (int64_t)s->kv_heads * s->dim,
                w = (int64_t)s->kv_heads * s->dim_v;
  const int64_t sizes['Z'] = {
      ['V'] = c->vocab,
      ['F'] = s->width,
      ['E'] = c->encoder.width,
      ['D'] = c->embed_width ? c->embed_width : stack_of(c, 0)->width,
      ['N'] = s->dim,
      ['P'] = (int64_t)c->positions + c->position_offset,
      ['T'] = c->types,
      ['Q'] = q,
      ['K'] = k,
      ['W'] = w,
      ['O'] = (int64_t)s->heads * s->dim_v,
      ['A'] = q + k + w,
      ['I'] = s->mlp,
      ['B'] = c->buckets,
      ['H'] = s->heads,
      ['C'] = c->copy,
      ['1'] = 1};
  return sizes[(unsigned char)letter];
}

static bool is_wanted(const attend_config *c, const line *l) {
  if (l->of && !(c->parts & l->of)) return false;
  if (l->flags & IF_GATED && !c->gated) return false;
  if (l->flags & IF_PLAIN && c->gated) return false;
  if (l->slot == TYPES && c->types == 0) return false;
  if (l->slot >= COPY_Q && c->copy == 0) return false;
  if (l->slot == PROJECTION &&
      stack_of(c, l->of)->width == size_of(c, l->of, 'D'))
    return false;
  if (l->slot == POSITIONS && c->position != ATTEND_POSITIONS_LEARNED)
    return false;
  return true;
}

static bool is_biased(const attend_config *c, const line *l) {
  return l->flags & BIASED || (l->flags & IF_BIASES && c->attention_biases) ||
         (l->flags & IF_MLP_BIASES && c->mlp_biases);
}

static int layers_of(const attend_config *c, const line *l) {
  bool layered = l->slot >= SELF_NORM && l->slot <= MLP_DOWN;
  if (!layered || l->flags & ONE_LAYER) return 0;
  return c->layer_groups ? c->layer_groups : stack_of(c, l->of)->layers;
}

static void put(parameter_table *t, const attend_config *c, const line *l,
                int layer, bool is_bias) {
  parameter *p = &t->entry[t->count++];
  bool tied = l->slot == HEAD && !is_bias;
  p->slot = l->slot;
  p->of = l->of;
  p->layer = layer;
  p->is_bias = is_bias;
  p->turned = l->flags & TURNED && !is_bias;
  p->may_lack = l->flags & MAY_LACK || tied;
  p->outside = l->flags & OUTSIDE;
  p->fixed = l->flags & FIXED;
  p->names = l->name;
  p->suffix = l->flags & BARE_BIAS ? "" : is_bias ? ".bias" : ".weight";
  p->rank = l->sizes[1] && !is_bias ? 2 : 1;
  for (int i = 0; i < p->rank; i++)
    p->shape[i] = size_of(c, l->of, l->sizes[i]);
}

static size_t expand(parameter_table *t, const attend_config *c,
                     const line *lines) {
  size_t count = 0;
  for (const line *l = lines; l->name; l++) {
    if (!is_wanted(c, l)) continue;
    bool bare = l->flags & BARE_BIAS, biased = is_biased(c, l);
    int layers = layers_of(c, l);
    for (int i = 0; i < (layers ? layers : 1); i++) {
      count += 1 + (size_t)biased;
      if (!t) continue;
      put(t, c, l, layers ? i : -1, bare);
      if (biased) put(t, c, l, layers ? i : -1, true);
    }
  }
  return count;
}

attend_status table_make(attend_context *ctx, const attend_config *config,
                         const line *lines, parameter_table *table) {
  size_t count = expand(NULL, config, lines);
  *table = (parameter_table){0};
  ATTEND_TRY(take_zeroed(ctx, size_times(count, sizeof *table->entry),
                         "the parameter table", &table->entry));
  expand(table, config, lines);
  return ATTEND_OK;
}
