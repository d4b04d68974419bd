/* The one forward pass, for inference, training and designs, and its gradients: layers,
 * embeddings, head.
 *
 * A layer is self-attention, cross-attention and mlp, each a branch. A branch f adds to the
 * residual stream x, with norms where the model has them:
 *
 *   before:  x + f(norm(x))            pre-norm: GPT-2, Llama
 *   sum:     norm(x + f(x))            post-norm: BERT
 *   after:   x + norm(f(x))
 *   both:    x + norm(f(norm(x)))
 *
 * Parallel branches read the same x: x + attention(norm(x)) + mlp(norm(x)).
 * Hooks are called at the points of attend/hooks.h. What is cheap to recompute (norms,
 * activations) is not kept for gradients.
 */
#include "base/parallel.h"
#include "model/transformer.h"

static const attend_config *config_of(const pass *p) { return &p->model->config; }
/* Whether there are norms at ATTEND_NORM_BEFORE, _AFTER or _SUM. */
static bool norms(const pass *p, attend_norms there) {
  attend_norms n = config_of(p)->norms;
  return n == there || (n == ATTEND_NORM_BOTH && there != ATTEND_NORM_SUM);
}

/* ---- steps that embeddings and head share ---------------------------------------- */

/* An op's operand x of a matrix m: MATRIX(x, m). */
#define MATRIX(name, m) .name = (m).at, .ld##name = (m).ld, .name##_type = (m).type

void norm_rows(const pass *p, const norm_weights *w, int rows, int width, matrix x, matrix y) {
  const attend_config *c = &p->model->config;
  OP(p->ctx, norm, .rms = c->rms, .rows = rows, .width = width, MATRIX(x, x), .weight = w->w,
     .bias = w->b, .eps = c->norm_eps, MATRIX(y, y));
}

void norm_rows_backward(const pass *p, const norm_weights *w, int rows, int width, matrix x,
                        matrix dy, bool add, matrix dx) {
  const attend_config *c = &p->model->config;
  OP(p->ctx, norm_backward, .rms = c->rms, .add = add, .rows = rows, .width = width, MATRIX(x, x),
     .weight = w->w, .eps = c->norm_eps, .linear = p->direct, MATRIX(dy, dy), MATRIX(dx, dx),
     .dweight = w->dw, .dbias = c->rms ? NULL : w->db, .work = p->backward.scratch);
}

void multiply_rows(const pass *p, const linear_weights *w, int rows, matrix x, matrix y) {
  OP(p->ctx, linear, .linear = w->forward, .rows = rows, MATRIX(x, x), MATRIX(y, y));
}

static void weight_gradients(const pass *p, const linear_weights *w, int rows, matrix x,
                             matrix dy) {
  OP(p->ctx, linear_grad, .kind = p->model->weights, .rows = rows, .outputs = w->outputs,
     .inputs = w->inputs, MATRIX(dy, dy), MATRIX(x, x), .dw = w->dw, .db = w->db,
     .work = p->backward.scratch);
}

static void input_gradient(const pass *p, const linear_weights *w, int rows, matrix dy, bool add,
                           matrix dx) {
  OP(p->ctx, linear, .linear = w->backward, .rows = rows, MATRIX(x, dy), MATRIX(y, dx), .add = add);
}

void multiply_backward(const pass *p, const linear_weights *w, int rows, matrix x, matrix dy,
                       bool add, matrix dx) {
  weight_gradients(p, w, rows, x, dy);
  input_gradient(p, w, rows, dy, add, dx);
}

void copy_rows_to(const pass *p, int rows, int width, matrix x, matrix y) {
  OP(p->ctx, gather, .rows = rows, .width = width, .factor = 1, MATRIX(x, x), MATRIX(y, y));
}

/* Dropout. place: 0 embeddings, then three per layer. Backward drops with the same call. */
static void drop_rows(const pass *p, int place, matrix x) {
  const int width = p->side->shape->width;
  attend_random random = p->dropout;
  if (!(p->drop > 0)) return;
  random.stream = (random.stream + (uint64_t)place) * 2 + p->side->encoder;
  OP(p->ctx, dropout, .random = random, .p = p->drop, .rows = p->rows, .width = width,
     MATRIX(x, x));
}

/* ---- rows of the stream ---------------------------------------------------------- */

static matrix stream_rows(const pass *p, const float *x) {
  return floats(x, p->side->shape->width);
}

/* The input of a branch, or a gradient of that width. */
static matrix branch_rows(const pass *p, const void *x) {
  return typed(p, x, padded(p->side->shape->width));
}

static void add_rows(const pass *p, int width, const float *a, const float *b, float *y) {
  const int ld = padded(p->side->shape->width);
  OP(p->ctx, add, .rows = p->rows, .width = width, .a = a, .lda = ld, .b = b, .ldb = ld, .y = y,
     .ldy = ld);
}

/* ---- branches, forward ----------------------------------------------------------- */

/* A branch of the layer: its norms, and its buffers. */
typedef struct {
  const norm_weights *norm, *after;
  int place;         /* of its dropout */
  const float *x;    /* its input */
  const float *onto; /* the residual that it is added to */
  float *added, *sum, *out;
} branch;

static branch self_branch(const layer_weights *w, int i, const activations *a) {
  return (branch){&w->self_norm, &w->self_after, 3 * i + 1, a->x,
                  a->x,          a->self_added,  a->self,   a->self_out};
}
static branch cross_branch(const layer_weights *w, int i, const activations *a) {
  return (branch){&w->cross_norm, NULL,           3 * i + 2, a->self_out,
                  a->self_out,    a->cross_added, a->cross,  a->cross_out};
}
static branch mlp_branch(const pass *p, const layer_weights *w, int i, const activations *a) {
  const attend_config *c = config_of(p);
  const float *x = w->cross_q.forward ? a->cross_out : a->self_out;
  branch b = {&w->mlp_norm, &w->mlp_after, 3 * i + 3, x, x, a->mlp_added, a->mlp, a->out};
  if (c->parallel) b.x = a->x;
  if (c->parallel == ATTEND_PARALLEL_SHARED) b.norm = &w->self_norm;
  return b;
}

static matrix branch_input(const pass *p, const branch *b) {
  const matrix x = stream_rows(p, b->x), h = branch_rows(p, p->h);
  const int width = p->side->shape->width;
  if (norms(p, ATTEND_NORM_BEFORE))
    norm_rows(p, b->norm, p->rows, width, x, h);
  else if (p->type)
    copy_rows_to(p, p->rows, width, x, h);
  else
    return x;
  return h;
}

/* The branch's last product x W, its norm, and the residual sum, which the product adds to if
 * nothing comes between. point: hook point of the branch's output, or 0. */
static attend_status branch_output(const pass *p, const branch *b, const linear_weights *w,
                                   matrix x, attend_point point, int i) {
  const int width = p->side->shape->width, ld = padded(width);
  const bool in_place = b->sum == b->onto;
  const bool between = norms(p, ATTEND_NORM_AFTER) || p->drop > 0 || (point && p->hooks);
  float *adds = in_place ? b->added : b->sum;
  OP(p->ctx, linear, .linear = w->forward, .rows = p->rows, MATRIX(x, x), .y = b->added, .ldy = ld,
     .onto = between ? NULL : b->sum, .ldo = ld, .from = in_place ? NULL : b->onto, .ldf = ld);
  if (!b->sum) return ATTEND_OK;
  if (norms(p, ATTEND_NORM_AFTER))
    norm_rows(p, b->after, p->rows, width, stream_rows(p, b->added), stream_rows(p, adds));
  if (point) ATTEND_TRY(hook_stream(p, point, i, adds, HOOK_FORWARD));
  drop_rows(p, b->place, stream_rows(p, adds));
  if (between) add_rows(p, width, b->onto, adds, b->sum);
  if (norms(p, ATTEND_NORM_SUM) && b->out)
    norm_rows(p, b->norm, p->rows, width, stream_rows(p, b->sum), stream_rows(p, b->out));
  return ATTEND_OK;
}

/* ---- attention ------------------------------------------------------------------- */

/* Queries in rows of ldq elements; n keys, and values beside them, in rows of ld. */
static attention_tensors tensors_at(const pass *p, const attend_desc *d, void *q, int ldq, void *k,
                                    int n, int ld, void *o, void *heads) {
  const int ldo = padded(d->heads * d->dim_v);
  void *v = column(p, k, (size_t)(d->kv_heads * d->dim));
  return (attention_tensors){heads_at(q, p->n, ldq, d->dim), heads_at(k, n, ld, d->dim),
                             heads_at(v, n, ld, d->dim_v), heads_at(o, p->n, ldo, d->dim_v),
                             heads_at(heads, p->n, ldo, d->dim_v)};
}

static attention_tensors self_tensors(const pass *p, const attend_desc *d, int ld, void *qkv,
                                      void *o, void *heads) {
  void *k = column(p, qkv, (size_t)(d->heads * d->dim));
  return tensors_at(p, d, qkv, ld, k, p->n, ld, o, heads);
}

static attention_tensors cross_tensors(const pass *p, const layer_weights *w, void *q, void *kv,
                                       void *o, void *heads) {
  return tensors_at(p, attend_plan_desc(p->cross_plan), q, padded(w->cross_q.outputs), kv,
                    p->encoded_n, padded(w->cross_kv.outputs), o, heads);
}

static attend_status attend_with(const pass *p, const layer_attention *m,
                                 const attention_tensors *t, float *lse) {
  if (m->state && m->role == ATTEND_DECODER_SELF)
    return attend_extend(m->plan, m->state, p->n, t->q, t->k, t->v, t->o, lse);
  if (m->state) return attend_state_query(m->plan, m->state, p->n, t->q, t->o, lse);
  return attend_forward(m->plan, t->q, t->k, t->v, t->o, lse);
}

/* Head outputs before hooks edit them are kept for gradients. */
static attend_status attention(const pass *p, const layer_attention *m, const attention_tensors *t,
                               float *lse) {
  const int ld = (int)t->o.stride[2];
  if (!p->hooks) return attend_with(p, m, t, lse);
  if (!lse) lse = p->session->lse;
  ATTEND_TRY(hook_before_attention(p, m, t, HOOK_FORWARD));
  ATTEND_TRY(attend_with(p, m, t, lse));
  if (t->heads.data != t->o.data)
    copy_rows_to(p, p->rows, ld, typed(p, t->o.data, ld), typed(p, t->heads.data, ld));
  return hook_after_attention(p, m, t, lse);
}

/* Norms of queries and keys: of each head, or of all together. */
typedef struct {
  int groups, width, at;
  const norm_weights *w;
} head_norm;

static void head_norms(const pass *p, const layer_weights *w, head_norm of[2]) {
  const attend_stack *s = p->side->shape;
  const int q = s->heads * s->dim;
  bool each = config_of(p)->qk_norm == ATTEND_QK_NORM_HEAD;
  of[0] = (head_norm){each ? s->heads : 0, each ? s->dim : q, 0, &w->q_norm};
  of[1] = (head_norm){each ? s->kv_heads : 0, each ? s->dim : s->kv_heads * s->dim, q, &w->k_norm};
}

static void normalise_heads(const pass *p, const layer_weights *w, matrix qkv, void *raw) {
  const attend_config *c = config_of(p);
  const attend_stack *s = p->side->shape;
  const int both = (s->heads + s->kv_heads) * s->dim;
  head_norm of[2];
  if (!c->qk_norm) return;
  if (raw) copy_rows_to(p, p->rows, both, qkv, typed(p, raw, padded(both)));
  head_norms(p, w, of);
  for (int i = 0; i < 2; i++) {
    const matrix x = typed(p, column(p, qkv.at, (size_t)of[i].at), qkv.ld);
    OP(p->ctx, norm, .rms = c->rms, .rows = p->rows, .groups = of[i].groups, .width = of[i].width,
       MATRIX(x, x), .weight = of[i].w->w, .bias = of[i].w->b, .eps = c->norm_eps, MATRIX(y, x));
  }
}

/* Rotations, and T5's and GPT-2's scales of queries; back: of gradients. */
static void rotate_heads(const pass *p, int i, matrix qkv, bool backward) {
  const attend_config *c = config_of(p);
  const attend_stack *s = p->side->shape;
  const rotation *r = &p->model->rope[layer_kind(c, p->side, i)];
  for (int step = 0; step < 2; step++) {
    if (step == backward && r->frequency)
      OP(p->ctx, rope, .frequency = r->frequency, .attention_factor = r->stretch, .rows = p->rows,
         .heads = s->heads + s->kv_heads, .dim = s->dim, .rotary = c->rotary,
         .position = p->position, MATRIX(x, qkv), .backward = backward);
    if (step != backward && c->score_by_layer)
      OP(p->ctx, scale, .rows = p->rows, .width = s->heads * s->dim, .divisor = (float)(i + 1),
         MATRIX(x, qkv));
  }
}

void layer_project(const pass *p, int i, const activations *a) {
  const layer_weights *w = layer_of(p->side, i);
  const matrix qkv = typed(p, a->qkv, padded(w->qkv.outputs));
  branch b = self_branch(w, i, a);
  multiply_rows(p, &w->qkv, p->rows, branch_input(p, &b), qkv);
  normalise_heads(p, w, qkv, a->raw);
  rotate_heads(p, i, qkv, false);
}

static attend_plan *plan_of(const pass *p, int i) {
  return p->plan[layer_kind(config_of(p), p->side, i)];
}

static attend_status self_attention(const pass *p, int i, const activations *a) {
  const layer_weights *w = layer_of(p->side, i);
  layer_attention m = {self_role(p), plan_of(p, i), p->self ? p->self[i] : NULL, i};
  layer_project(p, i, a);
  attention_tensors t = self_tensors(p, attend_plan_desc(m.plan), padded(w->qkv.outputs), a->qkv,
                                     a->attended, a->heads);
  ATTEND_TRY(attention(p, &m, &t, a->lse));
  branch b = self_branch(w, i, a);
  return branch_output(p, &b, &w->out, typed(p, a->heads, padded(w->out.inputs)), 0, i);
}

static attend_status cross_attention(const pass *p, int i, const activations *a) {
  const attend_stack *s = p->side->shape;
  const layer_weights *w = layer_of(p->side, i);
  if (!w->cross_q.forward) return ATTEND_OK;
  layer_attention m = {ATTEND_CROSS, p->cross_plan, p->cross ? p->cross[i] : NULL, i};
  branch b = cross_branch(w, i, a);
  multiply_rows(p, &w->cross_q, p->rows, branch_input(p, &b),
                typed(p, a->cross_q, padded(w->cross_q.outputs)));
  if (!m.state)
    multiply_rows(p, &w->cross_kv, p->count * p->encoded_n, floats(p->encoded, w->cross_kv.inputs),
                  typed(p, a->cross_kv, padded(w->cross_kv.outputs)));
  attention_tensors t =
      cross_tensors(p, w, a->cross_q, a->cross_kv, a->cross_attended, a->cross_heads);
  ATTEND_TRY(attention(p, &m, &t, a->cross_lse));
  const matrix heads = typed(p, a->cross_heads, padded(s->heads * s->dim_v));
  return branch_output(p, &b, &w->cross_out, heads, 0, i);
}

/* ---- mlp and the whole layer ----------------------------------------------------- */

/* [gate and] up, and what comes of them. */
static matrix up_rows(const pass *p, const void *up) {
  return typed(p, up, padded(p->side->shape->mlp * (1 + config_of(p)->gated)));
}
static matrix act_rows(const pass *p, const activations *a, const void *act) {
  return typed(p, act, a->act == a->up ? up_rows(p, act).ld : padded(p->side->shape->mlp));
}
/* The second half of a gate's rows, or NULL. */
static void *gated_half(const pass *p, const void *up) {
  return config_of(p)->gated ? column(p, up, (size_t)p->side->shape->mlp) : NULL;
}

static void activate(const pass *p, const activations *a) {
  const matrix up = up_rows(p, a->up), act = act_rows(p, a, a->act);
  OP(p->ctx, activate, .f = config_of(p)->activation, .rows = p->rows, .width = p->side->shape->mlp,
     MATRIX(a, up), .b = gated_half(p, a->up), .ldb = up.ld, MATRIX(y, act));
}

/* When a layer is recomputed for its gradients (checkpointing), steps whose results
 * are not needed have no output buffer and are skipped. */
static attend_status mlp(const pass *p, int i, const activations *a) {
  const layer_weights *w = layer_of(p->side, i);
  branch b = mlp_branch(p, w, i, a);
  bool shared = config_of(p)->parallel == ATTEND_PARALLEL_SHARED;
  const matrix from = shared ? branch_rows(p, p->h) : branch_input(p, &b), up = up_rows(p, a->up);
  bool at_once = a->act == a->up && !config_of(p)->gated;
  OP(p->ctx, linear, .linear = w->up.forward, .rows = p->rows, MATRIX(x, from), MATRIX(y, up),
     .f = at_once ? config_of(p)->activation : ATTEND_IDENTITY);
  if (!b.added) return ATTEND_OK;
  if (!at_once) activate(p, a);
  return branch_output(p, &b, &w->down, act_rows(p, a, a->act), ATTEND_AT_MLP, i);
}

attend_status layer_forward(const pass *p, int i, const activations *a) {
  const layer_weights *w = layer_of(p->side, i);
  if (p->session) ATTEND_TRY(hook_stop(p->session));
  if (!p->again) ATTEND_TRY(hook_stream(p, ATTEND_AT_RESIDUAL, i, a->x, HOOK_FORWARD));
  ATTEND_TRY(self_attention(p, i, a));
  ATTEND_TRY(cross_attention(p, i, a));
  ATTEND_TRY(hook_stream(p, ATTEND_AT_RESIDUAL_MIDDLE, i,
                         w->cross_q.forward ? a->cross_out : a->self_out, HOOK_FORWARD));
  return w->up.forward ? mlp(p, i, a) : ATTEND_OK;
}

/* ---- branches, backward ---------------------------------------------------------- */

/* From the gradient dx of the branch's sum to that of its last product, in dy; dx
 * becomes that of the residual. point: as in branch_output. */
static attend_status branch_output_backward(const pass *p, const branch *b, attend_point point,
                                            int i, float *dx, matrix *dy) {
  const int width = p->side->shape->width;
  const matrix sum = stream_rows(p, dx), own = branch_rows(p, p->backward.dh);
  const bool after = norms(p, ATTEND_NORM_AFTER);
  bool hooked = point && hooks_have_gradients(p->hooks, point);
  if (norms(p, ATTEND_NORM_SUM))
    norm_rows_backward(p, b->norm, p->rows, width, stream_rows(p, b->sum), sum, false, sum);
  *dy = sum;
  if (p->drop > 0 || hooked || (p->type && !after)) {
    copy_rows_to(p, p->rows, sum.ld, sum, own);
    drop_rows(p, b->place, own);
    if (hooked) ATTEND_TRY(hook_stream(p, point, i, own.at, HOOK_GRADIENTS | HOOK_TYPED));
    *dy = own;
  }
  if (!after) return ATTEND_OK;
  norm_rows_backward(p, b->after, p->rows, width, stream_rows(p, b->added), *dy, false, own);
  *dy = own;
  return ATTEND_OK;
}

/* dx += the gradient of the branch's input, through its norm. Without norms a branch
 * may read only the first features of the stream. */
static void branch_input_backward(const pass *p, const branch *b, int reads, float *dx) {
  const int width = p->side->shape->width;
  const matrix dh = branch_rows(p, p->backward.dh), to = stream_rows(p, dx);
  if (norms(p, ATTEND_NORM_BEFORE))
    norm_rows_backward(p, b->norm, p->rows, width, stream_rows(p, b->x), dh, true, to);
  else
    OP(p->ctx, add, .rows = p->rows, .width = reads, MATRIX(a, to), MATRIX(b, dh), MATRIX(y, to));
}

/* The output of the sum's norm, and of hooks there, is not kept. */
static attend_status recall_input(const pass *p, const norm_weights *w, const float *sum, int i,
                                  branch *b) {
  float *x = p->backward.residual_middle;
  if (!norms(p, ATTEND_NORM_SUM)) return ATTEND_OK;
  norm_rows(p, w, p->rows, p->side->shape->width, stream_rows(p, sum), stream_rows(p, x));
  b->x = x;
  return i < 0 ? ATTEND_OK : hook_stream(p, ATTEND_AT_RESIDUAL_MIDDLE, i, x, HOOK_EDITS);
}

static attend_status mlp_backward(const pass *p, int i, const activations *a, float *dx) {
  const layer_weights *w = layer_of(p->side, i);
  const back_work *k = &p->backward;
  const matrix up = up_rows(p, a->up), d_up = up_rows(p, k->d_wide);
  const matrix act = act_rows(p, a, a->act), d_act = act_rows(p, a, k->d_act);
  branch b = mlp_branch(p, w, i, a);
  if (w->cross_q.forward)
    ATTEND_TRY(recall_input(p, &w->cross_norm, a->cross, i, &b));
  else
    ATTEND_TRY(recall_input(p, &w->self_norm, a->self, i, &b));
  matrix dy;
  ATTEND_TRY(branch_output_backward(p, &b, ATTEND_AT_MLP, i, dx, &dy));
  if (p->direct) return ATTEND_OK;
  input_gradient(p, &w->down, p->rows, dy, false, d_act);
  OP(p->ctx, activate_backward, .f = config_of(p)->activation, .rows = p->rows,
     .width = p->side->shape->mlp, MATRIX(a, up), .b = gated_half(p, a->up), .ldb = up.ld,
     MATRIX(dy, d_act), MATRIX(da, d_up), .db = gated_half(p, k->d_wide), .lddb = d_up.ld,
     .y = act.at, .ldy = act.ld);
  weight_gradients(p, &w->down, p->rows, act, dy);
  multiply_backward(p, &w->up, p->rows, branch_input(p, &b), d_up, false, branch_rows(p, k->dh));
  branch_input_backward(p, &b, w->up.inputs, dx);
  return ATTEND_OK;
}

static attend_status cross_backward(const pass *p, int i, const activations *a, float *dx) {
  const attend_stack *s = p->side->shape;
  const layer_weights *w = layer_of(p->side, i);
  const back_work *k = &p->backward;
  const int ldo = padded(s->heads * s->dim_v), encoder = w->cross_kv.inputs;
  branch b = cross_branch(w, i, a);
  matrix dy;
  ATTEND_TRY(recall_input(p, &w->self_norm, a->self, -1, &b));
  ATTEND_TRY(branch_output_backward(p, &b, 0, i, dx, &dy));
  multiply_backward(p, &w->cross_out, p->rows, typed(p, a->cross_heads, ldo), dy, false,
                    typed(p, k->d_act, ldo));
  layer_attention m = {ATTEND_CROSS, p->cross_plan, NULL, i};
  attention_tensors t =
      cross_tensors(p, w, a->cross_q, a->cross_kv, a->cross_attended, a->cross_heads);
  void *dq = a->act, *dk = k->d_wide;
  attention_tensors g = cross_tensors(p, w, dq, dk, k->d_act, k->d_act);
  ATTEND_TRY(hook_attention_backward(p, &m, &t, &g, a->cross_lse, NULL));
  if (p->direct) return ATTEND_OK;
  multiply_backward(p, &w->cross_kv, p->count * p->encoded_n, floats(p->encoded, encoder),
                    typed(p, dk, padded(w->cross_kv.outputs)), true, floats(p->d_encoded, encoder));
  multiply_backward(p, &w->cross_q, p->rows, branch_input(p, &b),
                    typed(p, dq, padded(w->cross_q.outputs)), false, branch_rows(p, k->dh));
  branch_input_backward(p, &b, w->cross_q.inputs, dx);
  return ATTEND_OK;
}

static void normalise_heads_backward(const pass *p, const layer_weights *w, const void *raw,
                                     matrix d_qkv) {
  const attend_config *c = config_of(p);
  const attend_stack *s = p->side->shape;
  const int ldr = padded((s->heads + s->kv_heads) * s->dim);
  head_norm of[2];
  if (!c->qk_norm) return;
  head_norms(p, w, of);
  for (int i = 0; i < 2; i++) {
    const size_t at = (size_t)of[i].at;
    const matrix x = typed(p, column(p, raw, at), ldr);
    const matrix d = typed(p, column(p, d_qkv.at, at), d_qkv.ld);
    OP(p->ctx, norm_backward, .rms = c->rms, .rows = p->rows, .groups = of[i].groups,
       .width = of[i].width, MATRIX(x, x), .weight = of[i].w->w, .eps = c->norm_eps, MATRIX(dy, d),
       MATRIX(dx, d), .dweight = of[i].w->dw, .dbias = c->rms ? NULL : of[i].w->db,
       .work = p->backward.scratch);
  }
}

/* dy: gradient of the branch's output on entry, of its sum on return; dx receives
 * that of its input. Both are the same buffer unless branches are parallel. */
static attend_status self_backward(const pass *p, int i, const activations *a, float *dy,
                                   float *dx) {
  const attend_stack *s = p->side->shape;
  const layer_weights *w = layer_of(p->side, i);
  const back_work *k = &p->backward;
  const int ldo = padded(w->out.inputs), ld = padded(w->qkv.outputs);
  const matrix d_qkv = typed(p, k->d_wide, ld);
  const table_weights *bias = &p->side->relative;
  branch b = self_branch(w, i, a);
  matrix d_added;
  ATTEND_TRY(branch_output_backward(p, &b, 0, i, dy, &d_added));
  multiply_backward(p, &w->out, p->rows, typed(p, a->heads, ldo), d_added, false,
                    typed(p, k->d_act, ldo));
  layer_attention m = {self_role(p), plan_of(p, i), NULL, i};
  const attend_desc *d = attend_plan_desc(m.plan);
  attention_tensors t = self_tensors(p, d, ld, a->qkv, a->attended, a->heads);
  attention_tensors g = self_tensors(p, d, ld, k->d_wide, k->d_act, k->d_act);
  ATTEND_TRY(hook_attention_backward(p, &m, &t, &g, a->lse, bias->t.data ? k->d_bias : NULL));
  if (p->direct) return ATTEND_OK;
  if (bias->dw)
    OP(p->ctx, add, .rows = 1, .width = bias->t.entries * s->heads, .a = bias->dw, .b = k->d_bias,
       .y = bias->dw);
  rotate_heads(p, i, d_qkv, true);
  normalise_heads_backward(p, w, a->raw, d_qkv);
  multiply_backward(p, &w->qkv, p->rows, branch_input(p, &b), d_qkv, false, branch_rows(p, k->dh));
  branch_input_backward(p, &b, w->qkv.inputs, dx);
  return ATTEND_OK;
}

attend_status layer_backward(const pass *p, int i, const activations *a, float *dx) {
  const layer_weights *w = layer_of(p->side, i);
  const attend_point middle = ATTEND_AT_RESIDUAL_MIDDLE;
  const bool parallel = config_of(p)->parallel != ATTEND_PARALLEL_NONE;
  float *dy = dx;
  if (parallel) { /* attention's input is the mlp's */
    ATTEND_TRY(hook_stream(p, middle, i, dx, HOOK_GRADIENTS));
    dy = p->backward.residual_middle;
    copy_rows_to(p, p->rows, stream_rows(p, dx).ld, stream_rows(p, dx), stream_rows(p, dy));
  }
  if (w->up.forward) ATTEND_TRY(mlp_backward(p, i, a, dx));
  if (!parallel) ATTEND_TRY(hook_stream(p, middle, i, dx, HOOK_GRADIENTS));
  if (w->cross_q.forward) ATTEND_TRY(cross_backward(p, i, a, dx));
  ATTEND_TRY(self_backward(p, i, a, dy, dx));
  return hook_stream(p, ATTEND_AT_RESIDUAL, i, dx, HOOK_GRADIENTS);
}

/* ---- embeddings: tables to the residual stream ----------------------------------- */

/* Tables may be narrower than the model: either token rows are projected before positions
 * are added (an encoder and a decoder of two widths), or the sum after its norm (ALBERT's
 * factorised embeddings). */

static bool projects_all(const attend_model *m, const stack *s) {
  return s->projection.forward && m->config.embed_width;
}

int embed_width(const attend_model *m, const stack *s) {
  return projects_all(m, s) ? m->config.embed_width : s->shape->width;
}

bool embeds_apart(const attend_model *m, const stack *s) {
  return m->config.embed_norm || projects_all(m, s);
}

/* to (+)= rows of a table, as wide as it is. */
static void look_up(const pass *p, const table_weights *t, int width, const int32_t *ids,
                    int offset, float factor, bool add, matrix to) {
  OP(p->ctx, embed, .table = t->t, .rows = p->rows, .width = width, .ids = ids, .offset = offset,
     .factor = factor, .add = add, MATRIX(y, to));
}

static void embed_tokens(const pass *p, int width, const int32_t *ids, matrix to) {
  const linear_weights *w = &p->side->projection;
  bool narrow = w->forward && !p->model->config.embed_width;
  const matrix h = typed(p, p->h, padded(w->inputs));
  look_up(p, &p->model->tokens, narrow ? w->inputs : width, ids, 0, p->model->config.embed_factor,
          false, narrow ? h : to);
  if (narrow) multiply_rows(p, w, p->rows, h, to);
}

void embed_forward(const pass *p, const int32_t *ids, const int32_t *types, float *sum, float *x) {
  const attend_model *m = p->model;
  const attend_config *c = &m->config;
  const stack *s = p->side;
  const int width = embed_width(m, s), rows = p->rows;
  const matrix all = floats(sum, width), to = stream_rows(p, x);
  const matrix normed = projects_all(m, s) ? typed(p, p->h, padded(width)) : to;
  embed_tokens(p, width, ids, all);
  if (c->position == ATTEND_POSITIONS_SINUSOIDAL)
    OP(p->ctx, sinusoidal, .rows = rows, .width = width, .position = p->position, .y = sum,
       .ldy = all.ld);
  if (s->positions.t.data)
    look_up(p, &s->positions, width, p->position, c->position_offset, 1, true, all);
  if (s->types.t.data) look_up(p, &s->types, width, types, 0, 1, true, all);
  if (c->embed_norm) norm_rows(p, &s->embed_norm, rows, width, all, normed);
  if (projects_all(m, s)) multiply_rows(p, &s->projection, rows, c->embed_norm ? normed : all, to);
  drop_rows(p, 0, to);
}

static void table_backward(const pass *p, const table_weights *t, int width, const int32_t *ids,
                           int offset, float factor, matrix dx) {
  if (t->dw)
    OP(p->ctx, embed_backward, .rows = p->rows, .width = width, .entries = t->t.entries, .ids = ids,
       .offset = offset, .factor = factor, MATRIX(dy, dx), .dtable = t->dw,
       .work = p->backward.scratch);
}

static void embed_tokens_backward(const pass *p, int width, const int32_t *ids, matrix dx) {
  const linear_weights *w = &p->side->projection;
  const table_weights *t = &p->model->tokens;
  if (w->forward && !p->model->config.embed_width) {
    const int ld = padded(w->inputs);
    const matrix h = typed(p, p->h, ld), dh = typed(p, p->backward.dh, ld);
    look_up(p, t, w->inputs, ids, 0, p->model->config.embed_factor, false, h);
    multiply_backward(p, w, p->rows, h, dx, false, dh);
    dx = dh;
    width = w->inputs;
  }
  table_backward(p, t, width, ids, 0, p->model->config.embed_factor, dx);
}

void embed_backward(const pass *p, const int32_t *ids, const int32_t *types, const float *sum,
                    float *dx) {
  const attend_model *m = p->model;
  const attend_config *c = &m->config;
  const stack *s = p->side;
  const int width = embed_width(m, s), rows = p->rows;
  const matrix all = floats(sum, width), h = typed(p, p->h, padded(width));
  matrix d = stream_rows(p, dx);
  drop_rows(p, 0, d);
  if (projects_all(m, s)) {
    const matrix dh = typed(p, p->backward.dh, padded(width));
    if (c->embed_norm) norm_rows(p, &s->embed_norm, rows, width, all, h);
    multiply_backward(p, &s->projection, rows, c->embed_norm ? h : all, d, false, dh);
    d = dh;
  }
  if (c->embed_norm) norm_rows_backward(p, &s->embed_norm, rows, width, all, d, false, d);
  table_backward(p, &s->types, width, types, 0, 1, d);
  table_backward(p, &s->positions, width, p->position, c->position_offset, 1, d);
  embed_tokens_backward(p, width, ids, d);
}

/* ---- the head (lm_head): hidden states to logits --------------------------------- */

/* session_logits.c and train/ choose the rows. A head may transform rows first (masked
 * language models) and cap its logits. */

int head_ld(const attend_model *m, const stack *s) {
  const int in = padded(s->shape->width), out = padded(m->transform.outputs);
  return in > out ? in : out;
}

matrix head_forward(const pass *p, const head_rows *h) {
  const attend_model *m = p->model;
  const attend_config *c = &m->config;
  const int width = m->transform.outputs;
  const matrix dense = typed(p, h->dense, h->ld), shaped = typed(p, h->shaped, h->ld);
  const matrix normed = typed(p, h->normed, h->ld),
               capped = {h->capped, h->logits.ld, h->logits.type};
  matrix from = typed(p, h->x, h->ld);
  if (m->transform.forward) {
    multiply_rows(p, &m->transform, h->rows, from, dense);
    from = dense;
    if (c->head_activation)
      OP(p->ctx, activate, .f = c->head_activation, .rows = h->rows, .width = width,
         MATRIX(a, dense), MATRIX(y, shaped));
    if (c->head_activation) from = shaped;
    if (m->transform_norm.w) {
      OP(p->ctx, norm, .rows = h->rows, .width = width, MATRIX(x, from),
         .weight = m->transform_norm.w, .bias = m->transform_norm.b, .eps = c->norm_eps,
         MATRIX(y, normed));
      from = normed;
    }
  }
  multiply_rows(p, &m->head, h->rows, from, h->logits);
  if (c->logit_cap > 0)
    OP(p->ctx, soft_cap, .rows = h->rows, .width = c->vocab, .cap = c->logit_cap,
       MATRIX(x, h->logits));
  if (h->capped) copy_rows_to(p, h->rows, h->logits.ld, h->logits, capped);
  return from;
}

void head_backward(const pass *p, const head_rows *h, matrix read, matrix d) {
  const attend_config *c = &p->model->config;
  const matrix capped = {h->capped, h->logits.ld, h->logits.type};
  if (h->capped)
    OP(p->ctx, soft_cap_backward, .rows = h->rows, .width = c->vocab, .cap = c->logit_cap,
       MATRIX(y, capped), MATRIX(dx, h->logits));
  multiply_backward(p, &p->model->head, h->rows, read, h->logits, false, d);
}

/* The buffers of the forward pass receive the gradients of their contents. */
void head_transform_backward(const pass *p, const head_rows *h, matrix d) {
  const attend_model *m = p->model;
  const attend_config *c = &m->config;
  const int width = m->transform.outputs;
  const norm_weights *n = &m->transform_norm;
  const matrix dense = typed(p, h->dense, h->ld), shaped = typed(p, h->shaped, h->ld);
  const matrix normed = typed(p, h->normed, h->ld), acted = c->head_activation ? shaped : dense;
  matrix dy = d;
  if (!m->transform.forward) return;
  if (n->w) {
    OP(p->ctx, norm_backward, .rows = h->rows, .width = width, MATRIX(x, acted), .weight = n->w,
       .eps = c->norm_eps, MATRIX(dy, dy), MATRIX(dx, normed), .dweight = n->dw, .dbias = n->db,
       .work = p->backward.scratch);
    dy = normed;
  }
  if (c->head_activation) {
    OP(p->ctx, activate_backward, .f = c->head_activation, .rows = h->rows, .width = width,
       MATRIX(a, dense), MATRIX(dy, dy), MATRIX(da, shaped));
    dy = shaped;
  }
  if (dy.at == d.at) {
    copy_rows_to(p, h->rows, width, d, shaped);
    dy = shaped;
  }
  multiply_backward(p, &m->transform, h->rows, typed(p, h->x, h->ld), dy, false, d);
}
