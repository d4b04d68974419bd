/* A layer: attention, attention to the encoder, mlp, each a branch; and its
 * gradients.
 *
 * Place: model/ - the one forward pass, for inference, training and designs. A
 * branch f adds to the stream x, with norms where the model has them:
 *   before:  x + f(norm(x))            after:  x + norm(f(x))
 *   both:    x + norm(f(norm(x)))      sum:    norm(x + f(x))
 * Parallel branches read the same x: x + attention(norm(x)) + mlp(norm(x)).
 *
 * What is cheap to compute again (norms, activations) is not kept for gradients.
 */
#include "base/parallel.h"
#include "model/transformer.h"

static const attend_config *config_of(const pass *p) {
  return &p->model->config;
}
static bool norms_before(const pass *p) {
  attend_norms n = config_of(p)->norms;
  return n == ATTEND_NORM_BEFORE || n == ATTEND_NORM_BOTH;
}
static bool norms_after(const pass *p) {
  attend_norms n = config_of(p)->norms;
  return n == ATTEND_NORM_AFTER || n == ATTEND_NORM_BOTH;
}
static bool norms_sum(const pass *p) {
  return config_of(p)->norms == ATTEND_NORM_SUM;
}

/* ---- steps that branches share --------------------------------------------------- */

void norm_rows(const pass *p, const norm_weights *w, int rows, int width,
               const float *x, float *y) {
  const attend_config *c = config_of(p);
  OP(p->ctx, norm, .rms = c->rms, .rows = rows, .width = width, .x = x,
     .ldx = padded(width), .weight = w->w, .bias = w->b, .eps = c->norm_eps,
     .y = y, .ldy = padded(width));
}

void norm_rows_back(const pass *p, const norm_weights *w, int rows, int width,
                    const float *x, const float *dy, bool add, float *dx) {
  const attend_config *c = config_of(p);
  const int ld = padded(width);
  OP(p->ctx, norm_back, .rms = c->rms, .add = add, .rows = rows, .width = width,
     .x = x, .ldx = ld, .weight = w->w, .eps = c->norm_eps, .dy = dy,
     .lddy = ld, .dx = dx, .lddx = ld, .dweight = w->dw,
     .dbias = c->rms ? NULL : w->db, .work = p->back.scratch);
}

void multiply_rows(const pass *p, const linear_weights *w, int rows,
                   const float *x, int ldx, float *y, int ldy) {
  OP(p->ctx, linear, .linear = w->go, .rows = rows, .x = x, .ldx = ldx, .y = y,
     .ldy = ldy);
}

void multiply_back(const pass *p, const linear_weights *w, int rows,
                   const float *x, int ldx, const float *dy, int lddy, bool add,
                   float *dx, int lddx) {
  OP(p->ctx, linear_grad, .kind = p->model->weights, .rows = rows,
     .outputs = w->outputs, .inputs = w->inputs, .dy = dy, .lddy = lddy, .x = x,
     .ldx = ldx, .dw = w->dw, .db = w->db, .work = p->back.scratch);
  if (dx)
    OP(p->ctx, linear, .linear = w->back, .rows = rows, .x = dy, .ldx = lddy,
       .y = dx, .ldy = lddx, .add = add);
}

void drop_rows(const pass *p, int place, float *x) {
  const int width = p->side->shape->width;
  attend_random random = p->dropout;
  if (!(p->drop > 0)) return;
  random.stream = (random.stream + (uint64_t)place) * 2 + p->side->encoder;
  OP(p->ctx, dropout, .random = random, .p = p->drop, .rows = p->rows,
     .width = width, .x = x, .ldx = padded(width));
}

static void add_rows(const pass *p, int width, const float *a, const float *b,
                     float *y) {
  const int ld = padded(p->side->shape->width);
  OP(p->ctx, add, .rows = p->rows, .width = width, .a = a, .lda = ld, .b = b,
     .ldb = ld, .y = y, .ldy = ld);
}

static void copy_stream(const pass *p, int width, const float *x, int ldx,
                        float *y, int ldy) {
  OP(p->ctx, gather, .rows = p->rows, .width = width, .factor = 1, .x = x,
     .ldx = ldx, .y = y, .ldy = ldy);
}

/* ---- branches, forward -------------------------------------------------------------- */

/* A branch of the layer: its norms and where it keeps what it computes. */
typedef struct {
  const norm_weights *norm, *after;
  int place;         /* of its dropout */
  const float *x;    /* what it reads */
  const float *onto; /* what it is added to */
  float *added, *sum, *out;
} branch;

static branch self_branch(const layer_weights *w, int i, const activations *a) {
  return (branch){&w->self_norm, &w->self_after, 3 * i + 1, a->x,
                  a->x,          a->self_added,  a->self,   a->self_out};
}
static branch cross_branch(const layer_weights *w, int i,
                           const activations *a) {
  return (branch){&w->cross_norm, NULL,     3 * i + 2, a->self_out,
                  a->self_out,    a->cross, a->cross,  a->cross_out};
}
static branch mlp_branch(const pass *p, const layer_weights *w, int i,
                         const activations *a) {
  const attend_config *c = config_of(p);
  const float *x = w->cross_q.go ? a->cross_out : a->self_out;
  branch b = {&w->mlp_norm, &w->mlp_after, 3 * i + 3, x, x,
              a->mlp_added, a->mlp,        a->out};
  if (c->parallel) b.x = a->x;
  if (c->parallel == ATTEND_PARALLEL_SHARED) b.norm = &w->self_norm;
  return b;
}

static const float *branch_input(const pass *p, const branch *b) {
  if (!norms_before(p)) return b->x;
  norm_rows(p, b->norm, p->rows, p->side->shape->width, b->x, p->h);
  return p->h;
}

/* From what the branch computed, in added. */
static void branch_output(const pass *p, const branch *b) {
  const int width = p->side->shape->width;
  if (norms_after(p)) norm_rows(p, b->after, p->rows, width, b->added, b->sum);
  drop_rows(p, b->place, b->sum);
  add_rows(p, width, b->onto, b->sum, b->sum);
  if (norms_sum(p) && b->out)
    norm_rows(p, b->norm, p->rows, width, b->sum, b->out);
}

/* ---- attention ----------------------------------------------------------------------- */

typedef struct {
  attend_view q, k, v, o;
} tensors;

static tensors tensors_at(const attend_desc *d, int n, float *qkv, int ld,
                          float *heads) {
  float *k = qkv + d->heads * d->dim, *v = k + d->kv_heads * d->dim;
  return (tensors){heads_at(qkv, n, ld, d->dim), heads_at(k, n, ld, d->dim),
                   heads_at(v, n, ld, d->dim_v),
                   heads_at(heads, n, padded(d->heads * d->dim_v), d->dim_v)};
}

static attend_status attend_with(const pass *p, const mixing *m,
                                 const tensors *t, float *lse) {
  if (m->state && m->role == ATTEND_DECODER_SELF)
    return attend_extend(m->plan, m->state, p->n, t->q, t->k, t->v, t->o, lse);
  if (m->state)
    return attend_state_look(m->plan, m->state, p->n, t->q, t->o, lse);
  return attend_forward(m->plan, t->q, t->k, t->v, t->o, lse);
}

static attend_status attention(const pass *p, const mixing *m, const tensors *t,
                               float *lse) {
  attend_session *r = p->session;
  bool watched = r && r->watch.what;
  ATTEND_TRY(attend_with(p, m, t, watched ? r->lse : lse));
  if (!watched) return ATTEND_OK;
  return watch_mixing(r, m, t->q, t->k, t->v, t->o, r->lse);
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
  of[1] = (head_norm){each ? s->kv_heads : 0,
                      each ? s->dim : s->kv_heads * s->dim, q, &w->k_norm};
}

static void normalise_heads(const pass *p, const layer_weights *w, float *qkv,
                            int ld, float *raw) {
  const attend_config *c = config_of(p);
  const attend_stack *s = p->side->shape;
  const int both = (s->heads + s->kv_heads) * s->dim;
  head_norm of[2];
  if (!c->qk_norm) return;
  if (raw) copy_stream(p, both, qkv, ld, raw, padded(both));
  head_norms(p, w, of);
  for (int i = 0; i < 2; i++)
    OP(p->ctx, norm, .rms = c->rms, .rows = p->rows, .groups = of[i].groups,
       .width = of[i].width, .x = qkv + of[i].at, .ldx = ld,
       .weight = of[i].w->w, .bias = of[i].w->b, .eps = c->norm_eps,
       .y = qkv + of[i].at, .ldy = ld);
}

/* Rotations, and T5's and GPT-2's scales of queries; back: of gradients. */
static void rotate_heads(const pass *p, int i, float *qkv, int ld, bool back) {
  const attend_config *c = config_of(p);
  const attend_stack *s = p->side->shape;
  const rotation *r = &p->model->rope[layer_kind(c, p->side, i)];
  for (int step = 0; step < 2; step++) {
    if (step == back && r->frequency)
      OP(p->ctx, rope, .frequency = r->frequency, .stretch = r->stretch,
         .rows = p->rows, .heads = s->heads + s->kv_heads, .dim = s->dim,
         .rotary = c->rotary, .position = p->position, .x = qkv, .ldx = ld,
         .back = back);
    if (step != back && c->score_by_layer)
      OP(p->ctx, scale, .rows = p->rows, .width = s->heads * s->dim,
         .divisor = (float)(i + 1), .x = qkv, .ldx = ld);
  }
}

void layer_project(const pass *p, int i, const activations *a) {
  const layer_weights *w = layer_of(p->side, i);
  const int ld = padded(w->qkv.outputs);
  branch b = self_branch(w, i, a);
  multiply_rows(p, &w->qkv, p->rows, branch_input(p, &b),
                padded(p->side->shape->width), a->qkv, ld);
  normalise_heads(p, w, a->qkv, ld, a->raw);
  rotate_heads(p, i, a->qkv, ld, false);
}

static attend_plan *plan_of(const pass *p, int i) {
  return p->plan[layer_kind(config_of(p), p->side, i)];
}

static attend_status self_attention(const pass *p, int i,
                                    const activations *a) {
  const layer_weights *w = layer_of(p->side, i);
  mixing m = {self_role(p), plan_of(p, i), p->self ? p->self[i] : NULL, i};
  layer_project(p, i, a);
  tensors t = tensors_at(attend_plan_desc(m.plan), p->n, a->qkv,
                         padded(w->qkv.outputs), a->heads);
  ATTEND_TRY(attention(p, &m, &t, a->lse));
  branch b = self_branch(w, i, a);
  multiply_rows(p, &w->out, p->rows, a->heads, padded(w->out.inputs), b.added,
                padded(w->out.outputs));
  branch_output(p, &b);
  return ATTEND_OK;
}

static tensors cross_tensors(const pass *p, const layer_weights *w,
                             const activations *a) {
  const attend_stack *s = p->side->shape;
  const int ldq = padded(w->cross_q.outputs), ld = padded(w->cross_kv.outputs);
  const int n = p->encoded_n;
  return (tensors){
      heads_at(a->cross_q, p->n, ldq, s->dim),
      heads_at(a->cross_kv, n, ld, s->dim),
      heads_at(a->cross_kv ? a->cross_kv + s->kv_heads * s->dim : NULL, n, ld,
               s->dim_v),
      heads_at(a->cross_heads, p->n, padded(s->heads * s->dim_v), s->dim_v)};
}

static attend_status cross_attention(const pass *p, int i,
                                     const activations *a) {
  const attend_stack *s = p->side->shape;
  const layer_weights *w = layer_of(p->side, i);
  if (!w->cross_q.go) return ATTEND_OK;
  mixing m = {ATTEND_CROSS, p->cross_plan, p->cross ? p->cross[i] : NULL, i};
  branch b = cross_branch(w, i, a);
  multiply_rows(p, &w->cross_q, p->rows, branch_input(p, &b), padded(s->width),
                a->cross_q, padded(w->cross_q.outputs));
  if (!m.state)
    multiply_rows(p, &w->cross_kv, p->count * p->encoded_n, p->encoded,
                  padded(w->cross_kv.inputs), a->cross_kv,
                  padded(w->cross_kv.outputs));
  tensors t = cross_tensors(p, w, a);
  ATTEND_TRY(attention(p, &m, &t, a->cross_lse));
  multiply_rows(p, &w->cross_out, p->rows, a->cross_heads,
                padded(s->heads * s->dim_v), b.added, padded(s->width));
  branch_output(p, &b);
  return ATTEND_OK;
}

/* ---- mlp and the whole layer ----------------------------------------------------------- */

static int up_ld(const pass *p) {
  return padded(p->side->shape->mlp * (1 + config_of(p)->gated));
}
static int act_ld(const pass *p, const activations *a) {
  return a->act == a->up ? up_ld(p) : padded(p->side->shape->mlp);
}

static void activate(const pass *p, const activations *a) {
  const attend_config *c = config_of(p);
  const int inside = p->side->shape->mlp, ld = up_ld(p);
  OP(p->ctx, activate, .f = c->activation, .rows = p->rows, .width = inside,
     .a = a->up, .lda = ld, .b = c->gated ? a->up + inside : NULL, .ldb = ld,
     .y = a->act, .ldy = act_ld(p, a));
}

/* Where a layer is computed again for its gradients, steps whose results they do not
 * need have no place to write to, and are left out. */
static void mlp(const pass *p, int i, const activations *a) {
  const layer_weights *w = layer_of(p->side, i);
  const int ldx = padded(p->side->shape->width);
  branch b = mlp_branch(p, w, i, a);
  bool shared = config_of(p)->parallel == ATTEND_PARALLEL_SHARED;
  const float *from = shared ? p->h : branch_input(p, &b);
  multiply_rows(p, &w->up, p->rows, from, ldx, a->up, up_ld(p));
  if (!b.added) return;
  activate(p, a);
  multiply_rows(p, &w->down, p->rows, a->act, act_ld(p, a), b.added, ldx);
  if (b.sum) branch_output(p, &b);
}

attend_status layer_forward(const pass *p, int i, const activations *a) {
  const layer_weights *w = layer_of(p->side, i);
  if (p->session) ATTEND_TRY(watch_stop(p->session));
  ATTEND_TRY(self_attention(p, i, a));
  ATTEND_TRY(cross_attention(p, i, a));
  watch_stream(p, ATTEND_SEE_MIDDLE, i,
               w->cross_q.go ? a->cross_out : a->self_out);
  if (w->up.go) mlp(p, i, a);
  return ATTEND_OK;
}

/* ---- branches, backward ------------------------------------------------------------------ */

/* From the gradient dx of the branch's output to that of what it computed. dx becomes
 * that of what the branch was added to. */
static const float *branch_output_back(const pass *p, const branch *b,
                                       float *dx) {
  const int width = p->side->shape->width, ld = padded(width);
  const float *dy = dx;
  if (norms_sum(p))
    norm_rows_back(p, b->norm, p->rows, width, b->sum, dx, false, dx);
  if (p->drop > 0) {
    copy_stream(p, ld, dx, ld, p->back.dh, ld);
    drop_rows(p, b->place, p->back.dh);
    dy = p->back.dh;
  }
  if (!norms_after(p)) return dy;
  norm_rows_back(p, b->after, p->rows, width, b->added, dy, false, p->back.dh);
  return p->back.dh;
}

/* dx += the gradient of what the branch read, from that of its norm. Without norms
 * a branch may read the first features of the stream alone. */
static void branch_input_back(const pass *p, const branch *b, int reads,
                              const float *dh, float *dx) {
  const int width = p->side->shape->width;
  if (norms_before(p))
    norm_rows_back(p, b->norm, p->rows, width, b->x, dh, true, dx);
  else
    add_rows(p, reads, dx, dh, dx);
}

/* What came past the sum's norm is not kept. */
static void recall_input(const pass *p, const norm_weights *w, const float *sum,
                         branch *b) {
  if (!norms_sum(p)) return;
  norm_rows(p, w, p->rows, p->side->shape->width, sum, p->back.middle);
  b->x = p->back.middle;
}

static void mlp_back(const pass *p, int i, const activations *a, float *dx) {
  const attend_config *c = config_of(p);
  const layer_weights *w = layer_of(p->side, i);
  const int rows = p->rows, inside = p->side->shape->mlp;
  const int ldu = up_ld(p), lda = act_ld(p, a);
  const int ldx = padded(p->side->shape->width);
  const back_work *k = &p->back;
  branch b = mlp_branch(p, w, i, a);
  if (w->cross_q.go)
    recall_input(p, &w->cross_norm, a->cross, &b);
  else
    recall_input(p, &w->self_norm, a->self, &b);
  const float *dy = branch_output_back(p, &b, dx);
  activate(p, a);
  multiply_back(p, &w->down, rows, a->act, lda, dy, ldx, false, k->d_act, lda);
  OP(p->ctx, activate_back, .f = c->activation, .rows = rows, .width = inside,
     .a = a->up, .lda = ldu, .b = c->gated ? a->up + inside : NULL, .ldb = ldu,
     .dy = k->d_act, .lddy = lda, .da = k->d_wide, .ldda = ldu,
     .db = c->gated ? k->d_wide + inside : NULL, .lddb = ldu);
  const float *from = branch_input(p, &b);
  multiply_back(p, &w->up, rows, from, ldx, k->d_wide, ldu, false, k->dh, ldx);
  branch_input_back(p, &b, w->up.inputs, k->dh, dx);
}

static attend_status cross_back(const pass *p, int i, const activations *a,
                                float *dx) {
  const attend_stack *s = p->side->shape;
  const layer_weights *w = layer_of(p->side, i);
  const back_work *k = &p->back;
  const int ldx = padded(s->width), ldo = padded(s->heads * s->dim_v);
  const int ldq = padded(w->cross_q.outputs), ld = padded(w->cross_kv.outputs);
  const int lde = padded(w->cross_kv.inputs), n = p->encoded_n;
  branch b = cross_branch(w, i, a);
  recall_input(p, &w->self_norm, a->self, &b);
  const float *dy = branch_output_back(p, &b, dx);
  multiply_back(p, &w->cross_out, p->rows, a->cross_heads, ldo, dy, ldx, false,
                k->d_act, ldo);
  tensors t = cross_tensors(p, w, a);
  float *dq = a->act, *dk = k->d_wide, *dv = dk + s->kv_heads * s->dim;
  ATTEND_TRY(attend_backward(
      p->cross_plan, t.q, t.k, t.v, t.o, a->cross_lse,
      heads_at(k->d_act, p->n, ldo, s->dim_v), heads_at(dq, p->n, ldq, s->dim),
      heads_at(dk, n, ld, s->dim), heads_at(dv, n, ld, s->dim_v), NULL));
  multiply_back(p, &w->cross_kv, p->count * n, p->encoded, lde, dk, ld, true,
                p->d_encoded, lde);
  const float *from = branch_input(p, &b);
  multiply_back(p, &w->cross_q, p->rows, from, ldx, dq, ldq, false, k->dh, ldx);
  branch_input_back(p, &b, w->cross_q.inputs, k->dh, dx);
  return ATTEND_OK;
}

static void normalise_heads_back(const pass *p, const layer_weights *w,
                                 const float *raw, float *d_qkv, int ld) {
  const attend_config *c = config_of(p);
  const attend_stack *s = p->side->shape;
  const int ldr = padded((s->heads + s->kv_heads) * s->dim);
  head_norm of[2];
  if (!c->qk_norm) return;
  head_norms(p, w, of);
  for (int i = 0; i < 2; i++)
    OP(p->ctx, norm_back, .rms = c->rms, .rows = p->rows,
       .groups = of[i].groups, .width = of[i].width, .x = raw + of[i].at,
       .ldx = ldr, .weight = of[i].w->w, .eps = c->norm_eps,
       .dy = d_qkv + of[i].at, .lddy = ld, .dx = d_qkv + of[i].at, .lddx = ld,
       .dweight = of[i].w->dw, .dbias = c->rms ? NULL : of[i].w->db,
       .work = p->back.scratch);
}

/* dy: the gradient of the branch's output, which becomes that of its sum; dx takes
 * that of what it read. They are one unless branches are parallel. */
static attend_status self_back(const pass *p, int i, const activations *a,
                               float *dy, float *dx) {
  const attend_stack *s = p->side->shape;
  const layer_weights *w = layer_of(p->side, i);
  const back_work *k = &p->back;
  const int ldx = padded(s->width), ldo = padded(w->out.inputs);
  const int ld = padded(w->qkv.outputs);
  const table_weights *bias = &p->side->relative;
  branch b = self_branch(w, i, a);
  multiply_back(p, &w->out, p->rows, a->heads, ldo,
                branch_output_back(p, &b, dy), ldx, false, k->d_act, ldo);
  attend_plan *plan = plan_of(p, i);
  const attend_desc *d = attend_plan_desc(plan);
  tensors t = tensors_at(d, p->n, a->qkv, ld, a->heads);
  tensors g = tensors_at(d, p->n, k->d_wide, ld, k->d_act);
  ATTEND_TRY(attend_backward(plan, t.q, t.k, t.v, t.o, a->lse, g.o, g.q, g.k,
                             g.v, bias->t.data ? k->d_bias : NULL));
  if (bias->dw)
    OP(p->ctx, add, .rows = 1, .width = bias->t.entries * s->heads,
       .a = bias->dw, .b = k->d_bias, .y = bias->dw);
  rotate_heads(p, i, k->d_wide, ld, true);
  normalise_heads_back(p, w, a->raw, k->d_wide, ld);
  const float *from = branch_input(p, &b);
  multiply_back(p, &w->qkv, p->rows, from, ldx, k->d_wide, ld, false, k->dh,
                ldx);
  branch_input_back(p, &b, w->qkv.inputs, k->dh, dx);
  return ATTEND_OK;
}

attend_status layer_backward(const pass *p, int i, const activations *a,
                             float *dx) {
  const layer_weights *w = layer_of(p->side, i);
  const int ld = padded(p->side->shape->width);
  float *dy = dx;
  if (config_of(p)->parallel) { /* attention was given what the mlp was given */
    dy = p->back.middle;
    copy_stream(p, ld, dx, ld, dy, ld);
  }
  if (w->up.go) mlp_back(p, i, a, dx);
  if (w->cross_q.go) ATTEND_TRY(cross_back(p, i, a, dx));
  return self_back(p, i, a, dy, dx);
}
