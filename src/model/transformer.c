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

void norm_rows(const pass *p, const norm_weights *w, int rows, int width, const float *x,
               float *y) {
  const attend_config *c = &p->model->config;
  OP(p->ctx, norm, .rms = c->rms, .rows = rows, .width = width, .x = x, .ldx = padded(width),
     .weight = w->w, .bias = w->b, .eps = c->norm_eps, .y = y, .ldy = padded(width));
}

void norm_rows_backward(const pass *p, const norm_weights *w, int rows, int width, const float *x,
                        const float *dy, bool add, float *dx) {
  const attend_config *c = &p->model->config;
  const int ld = padded(width);
  OP(p->ctx, norm_backward, .rms = c->rms, .add = add, .rows = rows, .width = width, .x = x,
     .ldx = ld, .weight = w->w, .eps = c->norm_eps, .linear = p->direct, .dy = dy, .lddy = ld,
     .dx = dx, .lddx = ld, .dweight = w->dw, .dbias = c->rms ? NULL : w->db,
     .work = p->backward.scratch);
}

void multiply_rows(const pass *p, const linear_weights *w, int rows, const float *x, int ldx,
                   float *y, int ldy) {
  OP(p->ctx, linear, .linear = w->forward, .rows = rows, .x = x, .ldx = ldx, .y = y, .ldy = ldy);
}

void multiply_backward(const pass *p, const linear_weights *w, int rows, const float *x, int ldx,
                       const float *dy, int lddy, bool add, float *dx, int lddx) {
  OP(p->ctx, linear_grad, .kind = p->model->weights, .rows = rows, .outputs = w->outputs,
     .inputs = w->inputs, .dy = dy, .lddy = lddy, .x = x, .ldx = ldx, .dw = w->dw, .db = w->db,
     .work = p->backward.scratch);
  if (dx)
    OP(p->ctx, linear, .linear = w->backward, .rows = rows, .x = dy, .ldx = lddy, .y = dx,
       .ldy = lddx, .add = add);
}

/* Dropout. place: 0 embeddings, then three per layer. Backward drops with the same call. */
static void drop_rows(const pass *p, int place, float *x) {
  const int width = p->side->shape->width;
  attend_random random = p->dropout;
  if (!(p->drop > 0)) return;
  random.stream = (random.stream + (uint64_t)place) * 2 + p->side->encoder;
  OP(p->ctx, dropout, .random = random, .p = p->drop, .rows = p->rows, .width = width, .x = x,
     .ldx = padded(width));
}

/* ---- rows of the stream ---------------------------------------------------------- */

static void add_rows(const pass *p, int width, const float *a, const float *b, float *y) {
  const int ld = padded(p->side->shape->width);
  OP(p->ctx, add, .rows = p->rows, .width = width, .a = a, .lda = ld, .b = b, .ldb = ld, .y = y,
     .ldy = ld);
}

static void copy_stream(const pass *p, int width, const float *x, int ldx, float *y, int ldy) {
  OP(p->ctx, gather, .rows = p->rows, .width = width, .factor = 1, .x = x, .ldx = ldx, .y = y,
     .ldy = ldy);
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

static const float *branch_input(const pass *p, const branch *b) {
  if (!norms(p, ATTEND_NORM_BEFORE)) return b->x;
  norm_rows(p, b->norm, p->rows, p->side->shape->width, b->x, p->h);
  return p->h;
}

/* The branch's last product x W, its norm, and the residual sum. In place (sum is the
 * residual) the product accumulates into the stream if nothing comes between. point:
 * hook point of the branch's output, or 0. */
static attend_status branch_output(const pass *p, const branch *b, const linear_weights *w,
                                   const float *x, int ldx, attend_point point, int i) {
  const int width = p->side->shape->width, ld = padded(width);
  const bool in_place = b->sum == b->onto;
  const bool between = norms(p, ATTEND_NORM_AFTER) || p->drop > 0 || (point && p->hooks);
  float *adds = in_place ? b->added : b->sum;
  OP(p->ctx, linear, .linear = w->forward, .rows = p->rows, .x = x, .ldx = ldx, .y = b->added,
     .ldy = ld, .onto = in_place && !between ? b->sum : NULL, .ldo = ld);
  if (!b->sum) return ATTEND_OK;
  if (norms(p, ATTEND_NORM_AFTER)) norm_rows(p, b->after, p->rows, width, b->added, adds);
  if (point) ATTEND_TRY(hook_stream(p, point, i, adds, HOOK_FORWARD));
  drop_rows(p, b->place, adds);
  if (!in_place || between) add_rows(p, width, b->onto, adds, b->sum);
  if (norms(p, ATTEND_NORM_SUM) && b->out) norm_rows(p, b->norm, p->rows, width, b->sum, b->out);
  return ATTEND_OK;
}

/* ---- attention ------------------------------------------------------------------- */

/* Queries in rows of ldq floats; n keys, and values beside them, in rows of ld. */
static attention_tensors tensors_at(const pass *p, const attend_desc *d, float *q, int ldq,
                                    float *k, int n, int ld, float *o, float *heads) {
  const int ldo = padded(d->heads * d->dim_v);
  float *v = k ? k + d->kv_heads * d->dim : NULL;
  return (attention_tensors){heads_at(q, p->n, ldq, d->dim), heads_at(k, n, ld, d->dim),
                             heads_at(v, n, ld, d->dim_v), heads_at(o, p->n, ldo, d->dim_v),
                             heads_at(heads, p->n, ldo, d->dim_v)};
}

static attention_tensors self_tensors(const pass *p, const attend_desc *d, int ld, float *qkv,
                                      float *o, float *heads) {
  return tensors_at(p, d, qkv, ld, qkv + d->heads * d->dim, p->n, ld, o, heads);
}

static attention_tensors cross_tensors(const pass *p, const layer_weights *w, float *q, float *kv,
                                       float *o, float *heads) {
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
  if (t->heads.data != t->o.data) copy_stream(p, ld, t->o.data, ld, t->heads.data, ld);
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

static void normalise_heads(const pass *p, const layer_weights *w, float *qkv, int ld, float *raw) {
  const attend_config *c = config_of(p);
  const attend_stack *s = p->side->shape;
  const int both = (s->heads + s->kv_heads) * s->dim;
  head_norm of[2];
  if (!c->qk_norm) return;
  if (raw) copy_stream(p, both, qkv, ld, raw, padded(both));
  head_norms(p, w, of);
  for (int i = 0; i < 2; i++)
    OP(p->ctx, norm, .rms = c->rms, .rows = p->rows, .groups = of[i].groups, .width = of[i].width,
       .x = qkv + of[i].at, .ldx = ld, .weight = of[i].w->w, .bias = of[i].w->b, .eps = c->norm_eps,
       .y = qkv + of[i].at, .ldy = ld);
}

/* Rotations, and T5's and GPT-2's scales of queries; back: of gradients. */
static void rotate_heads(const pass *p, int i, float *qkv, int ld, bool backward) {
  const attend_config *c = config_of(p);
  const attend_stack *s = p->side->shape;
  const rotation *r = &p->model->rope[layer_kind(c, p->side, i)];
  for (int step = 0; step < 2; step++) {
    if (step == backward && r->frequency)
      OP(p->ctx, rope, .frequency = r->frequency, .attention_factor = r->stretch, .rows = p->rows,
         .heads = s->heads + s->kv_heads, .dim = s->dim, .rotary = c->rotary,
         .position = p->position, .x = qkv, .ldx = ld, .backward = backward);
    if (step != backward && c->score_by_layer)
      OP(p->ctx, scale, .rows = p->rows, .width = s->heads * s->dim, .divisor = (float)(i + 1),
         .x = qkv, .ldx = ld);
  }
}

void layer_project(const pass *p, int i, const activations *a) {
  const layer_weights *w = layer_of(p->side, i);
  const int ld = padded(w->qkv.outputs);
  branch b = self_branch(w, i, a);
  multiply_rows(p, &w->qkv, p->rows, branch_input(p, &b), padded(p->side->shape->width), a->qkv,
                ld);
  normalise_heads(p, w, a->qkv, ld, a->raw);
  rotate_heads(p, i, a->qkv, ld, false);
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
  return branch_output(p, &b, &w->out, a->heads, padded(w->out.inputs), 0, i);
}

static attend_status cross_attention(const pass *p, int i, const activations *a) {
  const attend_stack *s = p->side->shape;
  const layer_weights *w = layer_of(p->side, i);
  if (!w->cross_q.forward) return ATTEND_OK;
  layer_attention m = {ATTEND_CROSS, p->cross_plan, p->cross ? p->cross[i] : NULL, i};
  branch b = cross_branch(w, i, a);
  multiply_rows(p, &w->cross_q, p->rows, branch_input(p, &b), padded(s->width), a->cross_q,
                padded(w->cross_q.outputs));
  if (!m.state)
    multiply_rows(p, &w->cross_kv, p->count * p->encoded_n, p->encoded, padded(w->cross_kv.inputs),
                  a->cross_kv, padded(w->cross_kv.outputs));
  attention_tensors t =
      cross_tensors(p, w, a->cross_q, a->cross_kv, a->cross_attended, a->cross_heads);
  ATTEND_TRY(attention(p, &m, &t, a->cross_lse));
  return branch_output(p, &b, &w->cross_out, a->cross_heads, padded(s->heads * s->dim_v), 0, i);
}

/* ---- mlp and the whole layer ----------------------------------------------------- */

static int up_ld(const pass *p) { return padded(p->side->shape->mlp * (1 + config_of(p)->gated)); }
static int act_ld(const pass *p, const activations *a) {
  return a->act == a->up ? up_ld(p) : padded(p->side->shape->mlp);
}

static void activate(const pass *p, const activations *a) {
  const attend_config *c = config_of(p);
  const int inside = p->side->shape->mlp, ld = up_ld(p);
  OP(p->ctx, activate, .f = c->activation, .rows = p->rows, .width = inside, .a = a->up, .lda = ld,
     .b = c->gated ? a->up + inside : NULL, .ldb = ld, .y = a->act, .ldy = act_ld(p, a));
}

/* When a layer is recomputed for its gradients (checkpointing), steps whose results
 * are not needed have no output buffer and are skipped. */
static attend_status mlp(const pass *p, int i, const activations *a) {
  const layer_weights *w = layer_of(p->side, i);
  const int ldx = padded(p->side->shape->width);
  branch b = mlp_branch(p, w, i, a);
  bool shared = config_of(p)->parallel == ATTEND_PARALLEL_SHARED;
  const float *from = shared ? p->h : branch_input(p, &b);
  bool at_once = a->act == a->up && !config_of(p)->gated;
  OP(p->ctx, linear, .linear = w->up.forward, .rows = p->rows, .x = from, .ldx = ldx, .y = a->up,
     .ldy = up_ld(p), .f = at_once ? config_of(p)->activation : ATTEND_IDENTITY);
  if (!b.added) return ATTEND_OK;
  if (!at_once) activate(p, a);
  return branch_output(p, &b, &w->down, a->act, act_ld(p, a), ATTEND_AT_MLP, i);
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
                                            int i, float *dx, const float **dy) {
  const int width = p->side->shape->width, ld = padded(width);
  float *own = p->backward.dh;
  bool hooked = point && hooks_have_gradients(p->hooks, point);
  if (norms(p, ATTEND_NORM_SUM))
    norm_rows_backward(p, b->norm, p->rows, width, b->sum, dx, false, dx);
  *dy = dx;
  if (p->drop > 0 || hooked) {
    copy_stream(p, ld, dx, ld, own, ld);
    drop_rows(p, b->place, own);
    if (hooked) ATTEND_TRY(hook_stream(p, point, i, own, HOOK_GRADIENTS));
    *dy = own;
  }
  if (!norms(p, ATTEND_NORM_AFTER)) return ATTEND_OK;
  norm_rows_backward(p, b->after, p->rows, width, b->added, *dy, false, own);
  *dy = own;
  return ATTEND_OK;
}

/* dx += the gradient of the branch's input, through its norm. Without norms a branch
 * may read only the first features of the stream. */
static void branch_input_backward(const pass *p, const branch *b, int reads, const float *dh,
                                  float *dx) {
  const int width = p->side->shape->width;
  if (norms(p, ATTEND_NORM_BEFORE))
    norm_rows_backward(p, b->norm, p->rows, width, b->x, dh, true, dx);
  else
    add_rows(p, reads, dx, dh, dx);
}

/* The output of the sum's norm, and of hooks there, is not kept. */
static attend_status recall_input(const pass *p, const norm_weights *w, const float *sum, int i,
                                  branch *b) {
  float *x = p->backward.residual_middle;
  if (!norms(p, ATTEND_NORM_SUM)) return ATTEND_OK;
  norm_rows(p, w, p->rows, p->side->shape->width, sum, x);
  b->x = x;
  return i < 0 ? ATTEND_OK : hook_stream(p, ATTEND_AT_RESIDUAL_MIDDLE, i, x, HOOK_EDITS);
}

static attend_status mlp_backward(const pass *p, int i, const activations *a, float *dx) {
  const attend_config *c = config_of(p);
  const layer_weights *w = layer_of(p->side, i);
  const int rows = p->rows, inside = p->side->shape->mlp;
  const int ldu = up_ld(p), lda = act_ld(p, a);
  const int ldx = padded(p->side->shape->width);
  const back_work *k = &p->backward;
  branch b = mlp_branch(p, w, i, a);
  if (w->cross_q.forward)
    ATTEND_TRY(recall_input(p, &w->cross_norm, a->cross, i, &b));
  else
    ATTEND_TRY(recall_input(p, &w->self_norm, a->self, i, &b));
  const float *dy;
  ATTEND_TRY(branch_output_backward(p, &b, ATTEND_AT_MLP, i, dx, &dy));
  if (p->direct) return ATTEND_OK;
  activate(p, a);
  multiply_backward(p, &w->down, rows, a->act, lda, dy, ldx, false, k->d_act, lda);
  OP(p->ctx, activate_backward, .f = c->activation, .rows = rows, .width = inside, .a = a->up,
     .lda = ldu, .b = c->gated ? a->up + inside : NULL, .ldb = ldu, .dy = k->d_act, .lddy = lda,
     .da = k->d_wide, .ldda = ldu, .db = c->gated ? k->d_wide + inside : NULL, .lddb = ldu);
  const float *from = branch_input(p, &b);
  multiply_backward(p, &w->up, rows, from, ldx, k->d_wide, ldu, false, k->dh, ldx);
  branch_input_backward(p, &b, w->up.inputs, k->dh, dx);
  return ATTEND_OK;
}

static attend_status cross_backward(const pass *p, int i, const activations *a, float *dx) {
  const attend_stack *s = p->side->shape;
  const layer_weights *w = layer_of(p->side, i);
  const back_work *k = &p->backward;
  const int ldx = padded(s->width), ldo = padded(s->heads * s->dim_v);
  const int ldq = padded(w->cross_q.outputs), ld = padded(w->cross_kv.outputs);
  const int lde = padded(w->cross_kv.inputs), n = p->encoded_n;
  branch b = cross_branch(w, i, a);
  const float *dy;
  ATTEND_TRY(recall_input(p, &w->self_norm, a->self, -1, &b));
  ATTEND_TRY(branch_output_backward(p, &b, 0, i, dx, &dy));
  multiply_backward(p, &w->cross_out, p->rows, a->cross_heads, ldo, dy, ldx, false, k->d_act, ldo);
  layer_attention m = {ATTEND_CROSS, p->cross_plan, NULL, i};
  attention_tensors t =
      cross_tensors(p, w, a->cross_q, a->cross_kv, a->cross_attended, a->cross_heads);
  float *dq = a->act, *dk = k->d_wide;
  attention_tensors g = cross_tensors(p, w, dq, dk, k->d_act, k->d_act);
  ATTEND_TRY(hook_attention_backward(p, &m, &t, &g, a->cross_lse, NULL));
  if (p->direct) return ATTEND_OK;
  multiply_backward(p, &w->cross_kv, p->count * n, p->encoded, lde, dk, ld, true, p->d_encoded,
                    lde);
  const float *from = branch_input(p, &b);
  multiply_backward(p, &w->cross_q, p->rows, from, ldx, dq, ldq, false, k->dh, ldx);
  branch_input_backward(p, &b, w->cross_q.inputs, k->dh, dx);
  return ATTEND_OK;
}

static void normalise_heads_backward(const pass *p, const layer_weights *w, const float *raw,
                                     float *d_qkv, int ld) {
  const attend_config *c = config_of(p);
  const attend_stack *s = p->side->shape;
  const int ldr = padded((s->heads + s->kv_heads) * s->dim);
  head_norm of[2];
  if (!c->qk_norm) return;
  head_norms(p, w, of);
  for (int i = 0; i < 2; i++)
    OP(p->ctx, norm_backward, .rms = c->rms, .rows = p->rows, .groups = of[i].groups,
       .width = of[i].width, .x = raw + of[i].at, .ldx = ldr, .weight = of[i].w->w,
       .eps = c->norm_eps, .dy = d_qkv + of[i].at, .lddy = ld, .dx = d_qkv + of[i].at, .lddx = ld,
       .dweight = of[i].w->dw, .dbias = c->rms ? NULL : of[i].w->db, .work = p->backward.scratch);
}

/* dy: gradient of the branch's output on entry, of its sum on return; dx receives
 * that of its input. Both are the same buffer unless branches are parallel. */
static attend_status self_backward(const pass *p, int i, const activations *a, float *dy,
                                   float *dx) {
  const attend_stack *s = p->side->shape;
  const layer_weights *w = layer_of(p->side, i);
  const back_work *k = &p->backward;
  const int ldx = padded(s->width), ldo = padded(w->out.inputs);
  const int ld = padded(w->qkv.outputs);
  const table_weights *bias = &p->side->relative;
  branch b = self_branch(w, i, a);
  const float *d_added;
  ATTEND_TRY(branch_output_backward(p, &b, 0, i, dy, &d_added));
  multiply_backward(p, &w->out, p->rows, a->heads, ldo, d_added, ldx, false, k->d_act, ldo);
  layer_attention m = {self_role(p), plan_of(p, i), NULL, i};
  const attend_desc *d = attend_plan_desc(m.plan);
  attention_tensors t = self_tensors(p, d, ld, a->qkv, a->attended, a->heads);
  attention_tensors g = self_tensors(p, d, ld, k->d_wide, k->d_act, k->d_act);
  ATTEND_TRY(hook_attention_backward(p, &m, &t, &g, a->lse, bias->t.data ? k->d_bias : NULL));
  if (p->direct) return ATTEND_OK;
  if (bias->dw)
    OP(p->ctx, add, .rows = 1, .width = bias->t.entries * s->heads, .a = bias->dw, .b = k->d_bias,
       .y = bias->dw);
  rotate_heads(p, i, k->d_wide, ld, true);
  normalise_heads_backward(p, w, a->raw, k->d_wide, ld);
  const float *from = branch_input(p, &b);
  multiply_backward(p, &w->qkv, p->rows, from, ldx, k->d_wide, ld, false, k->dh, ldx);
  branch_input_backward(p, &b, w->qkv.inputs, k->dh, dx);
  return ATTEND_OK;
}

attend_status layer_backward(const pass *p, int i, const activations *a, float *dx) {
  const layer_weights *w = layer_of(p->side, i);
  const int ld = padded(p->side->shape->width);
  const attend_point middle = ATTEND_AT_RESIDUAL_MIDDLE;
  const bool parallel = config_of(p)->parallel != ATTEND_PARALLEL_NONE;
  float *dy = dx;
  if (parallel) { /* attention's input is the mlp's */
    ATTEND_TRY(hook_stream(p, middle, i, dx, HOOK_GRADIENTS));
    dy = p->backward.residual_middle;
    copy_stream(p, ld, dx, ld, dy, ld);
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
                    int offset, float factor, bool add, float *to) {
  OP(p->ctx, embed, .table = t->t, .rows = p->rows, .width = width, .ids = ids, .offset = offset,
     .factor = factor, .add = add, .y = to, .ldy = padded(width));
}

static void embed_tokens(const pass *p, int width, const int32_t *ids, float *to) {
  const linear_weights *w = &p->side->projection;
  bool narrow = w->forward && !p->model->config.embed_width;
  look_up(p, &p->model->tokens, narrow ? w->inputs : width, ids, 0, p->model->config.embed_factor,
          false, narrow ? p->h : to);
  if (narrow) multiply_rows(p, w, p->rows, p->h, padded(w->inputs), to, padded(width));
}

void embed_forward(const pass *p, const int32_t *ids, const int32_t *types, float *sum, float *x) {
  const attend_model *m = p->model;
  const attend_config *c = &m->config;
  const stack *s = p->side;
  const int width = embed_width(m, s), ld = padded(width), rows = p->rows;
  float *normed = projects_all(m, s) ? p->h : x;
  embed_tokens(p, width, ids, sum);
  if (c->position == ATTEND_POSITIONS_SINUSOIDAL)
    OP(p->ctx, sinusoidal, .rows = rows, .width = width, .position = p->position, .y = sum,
       .ldy = ld);
  if (s->positions.t.data)
    look_up(p, &s->positions, width, p->position, c->position_offset, 1, true, sum);
  if (s->types.t.data) look_up(p, &s->types, width, types, 0, 1, true, sum);
  if (c->embed_norm) norm_rows(p, &s->embed_norm, rows, width, sum, normed);
  if (projects_all(m, s))
    multiply_rows(p, &s->projection, rows, c->embed_norm ? normed : sum, ld, x,
                  padded(s->shape->width));
  drop_rows(p, 0, x);
}

static void table_backward(const pass *p, const table_weights *t, int width, const int32_t *ids,
                           int offset, float factor, const float *dx) {
  if (t->dw)
    OP(p->ctx, embed_backward, .rows = p->rows, .width = width, .entries = t->t.entries, .ids = ids,
       .offset = offset, .factor = factor, .dy = dx, .lddy = padded(width), .dtable = t->dw);
}

static void embed_tokens_backward(const pass *p, int width, const int32_t *ids, const float *dx) {
  const linear_weights *w = &p->side->projection;
  const table_weights *t = &p->model->tokens;
  if (w->forward && !p->model->config.embed_width) {
    look_up(p, t, w->inputs, ids, 0, p->model->config.embed_factor, false, p->h);
    multiply_backward(p, w, p->rows, p->h, padded(w->inputs), dx, padded(width), false,
                      p->backward.dh, padded(w->inputs));
    dx = p->backward.dh;
    width = w->inputs;
  }
  table_backward(p, t, width, ids, 0, p->model->config.embed_factor, dx);
}

void embed_backward(const pass *p, const int32_t *ids, const int32_t *types, const float *sum,
                    float *dx) {
  const attend_model *m = p->model;
  const attend_config *c = &m->config;
  const stack *s = p->side;
  const int width = embed_width(m, s), ld = padded(width), rows = p->rows;
  drop_rows(p, 0, dx);
  if (projects_all(m, s)) {
    const float *from = c->embed_norm ? p->h : sum;
    if (c->embed_norm) norm_rows(p, &s->embed_norm, rows, width, sum, p->h);
    multiply_backward(p, &s->projection, rows, from, ld, dx, padded(s->shape->width), false,
                      p->backward.dh, ld);
    dx = p->backward.dh;
  }
  if (c->embed_norm) norm_rows_backward(p, &s->embed_norm, rows, width, sum, dx, false, dx);
  table_backward(p, &s->types, width, types, 0, 1, dx);
  table_backward(p, &s->positions, width, p->position, c->position_offset, 1, dx);
  embed_tokens_backward(p, width, ids, dx);
}

/* ---- the head (lm_head): hidden states to logits --------------------------------- */

/* session_logits.c and train/ choose the rows. A head may transform rows first (masked
 * language models) and cap its logits. */

int head_ld(const attend_model *m, const stack *s) {
  const int in = padded(s->shape->width), out = padded(m->transform.outputs);
  return in > out ? in : out;
}

const float *head_forward(const pass *p, const head_rows *h) {
  const attend_model *m = p->model;
  const attend_config *c = &m->config;
  const int width = m->transform.outputs;
  const float *from = h->x;
  if (m->transform.forward) {
    multiply_rows(p, &m->transform, h->rows, h->x, h->ld, h->dense, h->ld);
    from = h->dense;
    if (c->head_activation)
      OP(p->ctx, activate, .f = c->head_activation, .rows = h->rows, .width = width, .a = h->dense,
         .lda = h->ld, .y = h->shaped, .ldy = h->ld);
    if (c->head_activation) from = h->shaped;
    if (m->transform_norm.w) {
      OP(p->ctx, norm, .rows = h->rows, .width = width, .x = from, .ldx = h->ld,
         .weight = m->transform_norm.w, .bias = m->transform_norm.b, .eps = c->norm_eps,
         .y = h->normed, .ldy = h->ld);
      from = h->normed;
    }
  }
  multiply_rows(p, &m->head, h->rows, from, h->ld, h->logits, h->ldl);
  if (c->logit_cap > 0)
    OP(p->ctx, soft_cap, .rows = h->rows, .width = c->vocab, .cap = c->logit_cap, .x = h->logits,
       .ldx = h->ldl);
  if (h->capped)
    OP(p->ctx, gather, .rows = h->rows, .width = h->ldl, .factor = 1, .x = h->logits, .ldx = h->ldl,
       .y = h->capped, .ldy = h->ldl);
  return from;
}

void head_backward(const pass *p, const head_rows *h, const float *read, float *d) {
  const attend_config *c = &p->model->config;
  if (h->capped)
    OP(p->ctx, soft_cap_backward, .rows = h->rows, .width = c->vocab, .cap = c->logit_cap,
       .y = h->capped, .ldy = h->ldl, .dx = h->logits, .lddx = h->ldl);
  multiply_backward(p, &p->model->head, h->rows, read, h->ld, h->logits, h->ldl, false, d, h->ld);
}

/* The buffers of the forward pass receive the gradients of their contents. */
void head_transform_backward(const pass *p, const head_rows *h, float *d) {
  const attend_model *m = p->model;
  const attend_config *c = &m->config;
  const int width = m->transform.outputs;
  const norm_weights *n = &m->transform_norm;
  const float *dy = d, *shaped = c->head_activation ? h->shaped : h->dense;
  if (!m->transform.forward) return;
  if (n->w) {
    OP(p->ctx, norm_backward, .rows = h->rows, .width = width, .x = shaped, .ldx = h->ld,
       .weight = n->w, .eps = c->norm_eps, .dy = dy, .lddy = h->ld, .dx = h->normed, .lddx = h->ld,
       .dweight = n->dw, .dbias = n->db, .work = p->backward.scratch);
    dy = h->normed;
  }
  if (c->head_activation) {
    OP(p->ctx, activate_backward, .f = c->head_activation, .rows = h->rows, .width = width,
       .a = h->dense, .lda = h->ld, .dy = dy, .lddy = h->ld, .da = h->shaped, .ldda = h->ld);
    dy = h->shaped;
  }
  if (dy == d) {
    OP(p->ctx, gather, .rows = h->rows, .width = width, .factor = 1, .x = d, .ldx = h->ld,
       .y = h->shaped, .ldy = h->ld);
    dy = h->shaped;
  }
  multiply_backward(p, &m->transform, h->rows, h->x, h->ld, dy, h->ld, false, d, h->ld);
}
