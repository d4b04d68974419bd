/* A problem with its definition in double and a naive run in float: engines are
 * compared with both.
 *
 * A hard argmax needs care: half of its keys are made equal to their neighbours, so
 * that ties happen; and rows whose best keys differ by less than float can tell are
 * left out, since either choice is right. So are rows whose signed similarities
 * cancel more than most: the naive run's error there would let every other row pass.
 */
#include <float.h>
#include <math.h>
#include <stdio.h>

#include "attention/problem.h"
#include "verify/verify.h"

/* ---- outputs --------------------------------------------------------------------- */

const char *attend_output_name(int output) {
  static const char *const names[ATTEND_OUTPUTS] = {"o", "lse", "dq", "dk", "dv", "dbias"};
  return names[output];
}

static size_t extent(int a, int b, int c, int d) {
  return (size_t)a * (size_t)b * (size_t)c * (size_t)d;
}

/* Numbers in the bias's own shape. */
static size_t bias_count(const attend_desc *d) {
  size_t count = 1;
  switch (d->bias.kind) {
    case ATTEND_NO_BIAS:
      return 0;
    case ATTEND_ALIBI:
      return (size_t)d->heads;
    case ATTEND_BUCKETS:
      return extent(d->bias.buckets, d->heads, 1, 1);
    case ATTEND_DENSE:
      break;
  }
  const ptrdiff_t *s = d->bias.dense.stride;
  const int sizes[4] = {d->batch, d->heads, d->q_len, d->kv_len};
  bool contiguous = !s[0] && !s[1] && !s[2] && !s[3];
  for (int n = 0; n < 4; n++)
    if (contiguous || s[n] || !sizes[n]) count *= (size_t)sizes[n];
  return count;
}

ptrdiff_t dense_at(const attend_desc *d, int b, int h, int i, int j) {
  attend_view view = view_complete(d->bias.dense, d->heads, d->q_len, d->kv_len);
  const ptrdiff_t *s = view.stride;
  return b * s[0] + h * s[1] + i * s[2] + j * s[3];
}

typedef struct {
  int heads, length, width;
} shape;

/* Of every output but dbias. */
static shape shape_of(const attend_desc *d, int x) {
  const shape all[] = {{d->heads, d->q_len, d->dim_v},
                       {d->heads, d->q_len, 1},
                       {d->heads, d->q_len, d->dim},
                       {d->kv_heads, d->kv_len, d->dim},
                       {d->kv_heads, d->kv_len, d->dim_v}};
  return all[x];
}

static size_t output_count(const attend_desc *d, bool gradients, int x) {
  if (x >= ATTEND_OUT_DQ && !gradients) return 0;
  if (x == ATTEND_OUT_DBIAS) return bias_count(d);
  shape s = shape_of(d, x);
  return extent(d->batch, s.heads, s.length, s.width);
}

attend_status outputs_take(memory *m, const attend_desc *d, bool gradients, outputs *out) {
  *out = (outputs){0};
  for (int x = 0; x < ATTEND_OUTPUTS; x++) {
    out->count[x] = output_count(d, gradients, x);
    if (x < ATTEND_OUT_DQ || (gradients && x < ATTEND_OUT_DBIAS) || out->count[x])
      TAKE(m, &out->at[x], out->count[x]);
  }
  return ATTEND_OK;
}

/* ---- views ------------------------------------------------------------------ */

attend_view view_from(attend_view v, attend_dtype dtype, int b, int h, int i) {
  ptrdiff_t skip = b * v.stride[0] + h * v.stride[1] + i * v.stride[2];
  v.data = (char *)v.data + skip * (ptrdiff_t)attend_dtype_size(dtype);
  return v;
}

static double read_one(const void *data, attend_dtype dtype, ptrdiff_t at) {
  float f;
  const char *from = (const char *)data + at * (ptrdiff_t)attend_dtype_size(dtype);
  attend_convert_to_f32(dtype, from, 1, &f);
  return f;
}

void view_read(attend_view v, attend_dtype dtype, int batch, int heads, int length, int width,
               double *out) {
  v = view_complete(v, heads, length, width);
  for (int b = 0; b < batch; b++)
    for (int h = 0; h < heads; h++)
      for (int i = 0; i < length; i++) {
        attend_view row = view_from(v, dtype, b, h, i);
        for (int x = 0; x < width; x++) *out++ = read_one(row.data, dtype, x * v.stride[3]);
      }
}

attend_status outputs_read(memory *m, const attend_tensors *t, bool gradients, outputs *out) {
  const attend_desc *d = &t->desc;
  const attend_view *views[] = {&t->o, NULL, &t->dq, &t->dk, &t->dv};
  ATTEND_TRY(outputs_take(m, d, gradients, out));
  for (int x = 0; x < ATTEND_OUT_DBIAS; x++) {
    shape s = shape_of(d, x);
    if (views[x] && out->at[x])
      view_read(*views[x], d->dtype, d->batch, s.heads, s.length, s.width, out->at[x]);
  }
  for (size_t n = 0; n < out->count[ATTEND_OUT_LSE]; n++) out->at[ATTEND_OUT_LSE][n] = t->lse[n];
  for (size_t n = 0; n < out->count[ATTEND_OUT_DBIAS]; n++)
    out->at[ATTEND_OUT_DBIAS][n] = t->dbias[n];
  return ATTEND_OK;
}

inputs inputs_of(const attend_tensors *t) {
  const attend_desc *d = &t->desc;
  inputs in = {.desc = d,
               .q = view_complete(t->q, d->heads, d->q_len, d->dim),
               .k = view_complete(t->k, d->kv_heads, d->kv_len, d->dim),
               .v = view_complete(t->v, d->kv_heads, d->kv_len, d->dim_v)};
  if (t->d_o.data) in.d_o = view_complete(t->d_o, d->heads, d->q_len, d->dim_v);
  return in;
}

attend_status results_take(memory *m, const inputs *in, bool bthd, attend_tensors *t) {
  const attend_desc *d = in->desc;
  size_t bytes[ATTEND_OUTPUTS], total = 0;
  char *at;
  for (int x = 0; x < ATTEND_OUTPUTS; x++)
    total += bytes[x] = round_up(output_count(d, in->d_o.data, x) * sizeof(float), 64);
  TAKE(m, &at, total);
  *t = (attend_tensors){
      ATTEND_INIT(attend_tensors), .desc = *d, .q = in->q, .k = in->k, .v = in->v, .d_o = in->d_o};
  attend_view *views[ATTEND_OUTPUTS] = {&t->o, NULL, &t->dq, &t->dk, &t->dv, NULL};
  for (int x = 0; x < ATTEND_OUTPUTS; at += bytes[x++]) {
    if (views[x]) {
      shape s = shape_of(d, x);
      *views[x] = bthd ? attend_bthd(at, s.heads, s.length, s.width) : attend_bhtd(at);
    }
    if (x == ATTEND_OUT_LSE) t->lse = (float *)(void *)at;
    if (x == ATTEND_OUT_DBIAS && bytes[x]) t->dbias = (float *)(void *)at;
  }
  return ATTEND_OK;
}

/* ---- the definition --------------------------------------------------------- */

/* The definition gives a dense bias's gradient before summing over what the
 * bias repeats. */
static void fold_dense(const attend_desc *d, const double *full, double *out) {
  for (int b = 0; b < d->batch; b++)
    for (int h = 0; h < d->heads; h++)
      for (int i = 0; i < d->q_len; i++)
        for (int j = 0; j < d->kv_len; j++) out[dense_at(d, b, h, i, j)] += *full++;
}

attend_status run_definition(attend_context *ctx, const inputs *in, outputs *out) {
  const attend_desc *d = in->desc;
  double *full = NULL;
  memory m = {.ctx = ctx};
  ATTEND_TRY(attend_definition_forward(ctx, d, in->q, in->k, in->v, out->at[ATTEND_OUT_O],
                                       out->at[ATTEND_OUT_LSE]));
  if (!in->d_o.data) return ATTEND_OK;
  bool dense = d->bias.kind == ATTEND_DENSE;
  if (dense) TAKE(&m, &full, extent(d->batch, d->heads, d->q_len, d->kv_len));
  attend_status status = attend_definition_backward(
      ctx, d, in->q, in->k, in->v, in->d_o, out->at[ATTEND_OUT_DQ], out->at[ATTEND_OUT_DK],
      out->at[ATTEND_OUT_DV], dense ? full : out->at[ATTEND_OUT_DBIAS]);
  if (!status && dense) fold_dense(d, full, out->at[ATTEND_OUT_DBIAS]);
  memory_free(&m);
  return status;
}

/* ---- running the library on a problem's tensors --------------------------------- */

enum { CHUNK = 1024 }; /* keys appended in one call */
enum { MOST_MOVED = 16 };

/* A tensor of the caller's, and its copy in the device's memory. */
typedef struct {
  void *host, *copy;
  size_t bytes;
  bool written;
} moved_tensor;

struct attend_solver {
  attend_context *ctx;
  attend_problem problem;
  attend_tensors tensors; /* in the caller's memory, or in the device's */
  moved_tensor moved[MOST_MOVED];
  int n_moved;
  inputs in; /* of them */
  attend_plan *plan;
  attend_state *state; /* of a decode: all keys but the last */
  uint8_t *new_mask;   /* [B] whether a decode's last key is real */
};

/* ---- tensors in a device's memory -------------------------------------------------- */

static attend_status move_span(attend_solver *s, void *pointer /* T ** */, ptrdiff_t low,
                               ptrdiff_t high, bool written) {
  moved_tensor *m = &s->moved[s->n_moved];
  const struct attend_device *device = s->ctx->device;
  char *at;
  memcpy(&at, pointer, sizeof at);
  if (!at || high <= low || device->owns(s->ctx, at)) return ATTEND_OK;
  ATTEND_CHECK(s->ctx, s->n_moved < MOST_MOVED, "too many tensors for a device");
  *m = (moved_tensor){.host = at + low, .bytes = (size_t)(high - low), .written = written};
  ATTEND_TRY(device_alloc(s->ctx, m->bytes, "tensors", &m->copy));
  s->n_moved++;
  if (!written) device->write(s->ctx, m->copy, m->host, m->bytes);
  at = (char *)m->copy - low;
  memcpy(pointer, &at, sizeof at);
  return ATTEND_OK;
}

static attend_status move_array(attend_solver *s, void *pointer, size_t count, bool written) {
  return move_span(s, pointer, 0, (ptrdiff_t)(count * sizeof(float)), written);
}

static attend_status move_view(attend_solver *s, attend_view *v, attend_dtype dtype, shape of,
                               bool written) {
  const attend_view full = view_complete(*v, of.heads, of.length, of.width);
  const int sizes[4] = {s->tensors.desc.batch, of.heads, of.length, of.width};
  const ptrdiff_t element = (ptrdiff_t)attend_dtype_size(dtype);
  ptrdiff_t low = 0, high = element;
  for (int i = 0; i < 4; i++) {
    if (!sizes[i]) return ATTEND_OK;
    ptrdiff_t reach = (sizes[i] - 1) * full.stride[i] * element;
    *(reach < 0 ? &low : &high) += reach;
  }
  return move_span(s, &v->data, low, high, written);
}

static attend_status move_bias(attend_solver *s) {
  attend_desc *d = &s->tensors.desc;
  if (d->bias.kind == ATTEND_ALIBI) return move_array(s, &d->bias.slopes, bias_count(d), false);
  if (d->bias.kind == ATTEND_BUCKETS) return move_array(s, &d->bias.table, bias_count(d), false);
  if (d->bias.kind != ATTEND_DENSE) return ATTEND_OK;
  return move_view(s, &d->bias.dense, ATTEND_F32, (shape){d->heads, d->q_len, d->kv_len}, false);
}

/* Where the host may not use the device's memory, what the caller has not placed there is copied;
 * lengths and key masks are the host's on every device. */
static attend_status move_tensors(attend_solver *s) {
  attend_tensors *t = &s->tensors;
  const attend_desc *d = &t->desc;
  const bool backward = s->problem.op == ATTEND_OP_BACKWARD;
  const struct {
    attend_view *view;
    int like; /* its shape: that of this output */
    bool written;
  } all[] = {{&t->q, ATTEND_OUT_DQ, false},  {&t->k, ATTEND_OUT_DK, false},
             {&t->v, ATTEND_OUT_DV, false},  {&t->o, ATTEND_OUT_O, true},
             {&t->d_o, ATTEND_OUT_O, false}, {&t->dq, ATTEND_OUT_DQ, true},
             {&t->dk, ATTEND_OUT_DK, true},  {&t->dv, ATTEND_OUT_DV, true}};
  if (s->ctx->device->host) return ATTEND_OK;
  for (int n = 0; n < (backward ? 8 : 4); n++)
    ATTEND_TRY(move_view(s, all[n].view, d->dtype, shape_of(d, all[n].like), all[n].written));
  ATTEND_TRY(move_array(s, &t->lse, output_count(d, false, ATTEND_OUT_LSE), true));
  if (backward && t->dbias) ATTEND_TRY(move_array(s, &t->dbias, bias_count(d), true));
  return move_bias(s);
}

attend_status attend_solver_fetch(attend_solver *s) {
  ATTEND_TRY(attend_context_wait(s->ctx));
  for (const moved_tensor *m = s->moved; m < s->moved + s->n_moved; m++)
    if (m->written) s->ctx->device->read(s->ctx, m->host, m->copy, m->bytes);
  return ATTEND_OK;
}

/* ---- plans and states of problems -------------------------------------------------- */

/* The columns [from, from + n) of the key mask, [B,n]; NULL where there is none. */
static attend_status mask_chunk(attend_context *ctx, const attend_desc *d, int from, int n,
                                uint8_t **mask) {
  *mask = NULL;
  if (!d->mask.key_mask) return ATTEND_OK;
  ATTEND_TRY(ctx_alloc(ctx, (size_t)d->batch * (size_t)n, "a key mask", mask));
  for (int b = 0; b < d->batch; b++)
    memcpy(*mask + (ptrdiff_t)b * n, d->mask.key_mask + (ptrdiff_t)b * d->kv_len + from, (size_t)n);
  return ATTEND_OK;
}

static attend_status append_keys(attend_solver *s, attend_plan *plan, int from, int n) {
  const attend_desc *d = s->in.desc;
  uint8_t *mask;
  ATTEND_TRY(mask_chunk(s->ctx, d, from, n, &mask));
  attend_plan_set_padding(plan, NULL, mask);
  attend_status status =
      attend_state_append(plan, s->state, n, view_from(s->in.k, d->dtype, 0, 0, from),
                          view_from(s->in.v, d->dtype, 0, 0, from));
  attend_plan_set_padding(plan, NULL, NULL);
  ctx_free(s->ctx, mask);
  return status;
}

/* All keys but the last, through a plan that takes many at a time: the one
 * that decodes takes one. */
static attend_status fill_state(attend_solver *s, attend_desc d) {
  attend_plan *filler = NULL;
  int keys = d.kv_len;
  ATTEND_TRY(attend_state_create(s->plan, &s->state));
  ATTEND_TRY(attend_state_reserve(s->state, keys));
  ATTEND_TRY(mask_chunk(s->ctx, &s->tensors.desc, keys - 1, 1, &s->new_mask));
  d.q_len = CHUNK;
  attend_status status = attend_plan_create(s->ctx, &d, &filler);
  for (int from = 0; from < keys - 1 && !status; from += CHUNK) {
    int left = keys - 1 - from;
    status = append_keys(s, filler, from, left < CHUNK ? left : CHUNK);
  }
  attend_plan_free(filler);
  attend_plan_set_padding(s->plan, NULL, s->new_mask);
  return status;
}

static attend_status open_solver(attend_solver *s) {
  attend_desc d = s->tensors.desc;
  bool decode = s->problem.op == ATTEND_OP_DECODE;
  if (s->problem.op == ATTEND_OP_BACKWARD) d.purpose |= ATTEND_FOR_BACKWARD;
  if (decode) {
    d.purpose |= ATTEND_FOR_EXTEND;
    d.mask.key_mask = NULL;
    d.mask.lengths = NULL;
  }
  ATTEND_TRY(attend_plan_create(s->ctx, &d, &s->plan));
  return decode ? fill_state(s, d) : ATTEND_OK;
}

attend_status attend_solver_create(attend_context *ctx, const attend_problem *problem,
                                   attend_tensors *tensors, attend_solver **solver) {
  attend_solver *s;
  *solver = NULL;
  ATTEND_TRY(ctx_alloc_zeroed(ctx, sizeof *s, "a solver", &s));
  s->ctx = ctx;
  attend_status status = OPTIONS_READ(ctx, attend_problem, problem, &s->problem);
  if (!status) status = OPTIONS_READ(ctx, attend_tensors, tensors, &s->tensors);
  if (!status) status = move_tensors(s);
  s->in = inputs_of(&s->tensors);
  if (!status) status = open_solver(s);
  if (status)
    attend_solver_free(s);
  else
    *solver = s;
  return status;
}

void attend_solver_free(attend_solver *s) {
  if (!s) return;
  attend_state_free(s->state);
  attend_plan_free(s->plan);
  for (int i = 0; i < s->n_moved; i++) device_free(s->ctx, s->moved[i].copy);
  ctx_free(s->ctx, s->new_mask);
  ctx_free(s->ctx, s);
}

attend_plan *attend_solver_plan(const attend_solver *s) { return s->plan; }

static attend_status extend_once(attend_solver *s) {
  attend_tensors *t = &s->tensors;
  attend_dtype dtype = t->desc.dtype;
  int last = t->desc.kv_len - 1;
  return attend_extend(s->plan, s->state, 1, t->q, view_from(s->in.k, dtype, 0, 0, last),
                       view_from(s->in.v, dtype, 0, 0, last), t->o, t->lse);
}

attend_status attend_solver_run(attend_solver *s) {
  attend_tensors *t = &s->tensors;
  if (s->problem.op == ATTEND_OP_DECODE) return extend_once(s);
  ATTEND_TRY(attend_forward(s->plan, t->q, t->k, t->v, t->o, t->lse));
  if (s->problem.op != ATTEND_OP_BACKWARD) return ATTEND_OK;
  return attend_backward(s->plan, t->q, t->k, t->v, t->o, t->lse, t->d_o, t->dq, t->dk, t->dv,
                         t->dbias);
}

attend_status attend_solver_rewind(attend_solver *s) {
  const attend_desc *d = &s->tensors.desc;
  if (s->problem.op != ATTEND_OP_DECODE) return ATTEND_OK;
  for (int b = 0; b < d->batch; b++) ATTEND_TRY(attend_state_truncate(s->state, b, d->kv_len - 1));
  return ATTEND_OK;
}

/* ---- verdicts ------------------------------------------------------------------ */

/* Equal infinities are no error; a NaN is an infinite one. */
static double largest_error(size_t n, const double *truth, const double *x) {
  double max = 0;
  for (size_t i = 0; i < n; i++) {
    double e = truth[i] == x[i] ? 0 : fabs(truth[i] - x[i]);
    if (isnan(e)) return INFINITY;
    if (e > max) max = e;
  }
  return max;
}

static double largest_size(size_t n, const double *x) {
  double max = 0;
  for (size_t i = 0; i < n; i++)
    if (isfinite(x[i]) && fabs(x[i]) > max) max = fabs(x[i]);
  return max;
}

/* Half a unit in the last place, at worst, of numbers up to this size. */
static double storage_rounding(attend_dtype dtype, double size) {
  if (dtype == ATTEND_F16) return size * 0x1p-11 + 0x1p-25;
  if (dtype == ATTEND_BF16) return size * 0x1p-8;
  return 0;
}

static double bound_of(const attend_desc *d, int x, const reference *r) {
  size_t n = r->truth.count[x];
  double size = largest_size(n, r->truth.at[x]);
  double min = 4 * (double)FLT_EPSILON * fmax(r->magnitude[x], size);
  if (x != ATTEND_OUT_LSE && x != ATTEND_OUT_DBIAS) min += storage_rounding(d->dtype, size);
  return 2 * largest_error(n, r->truth.at[x], r->naive.at[x]) + min;
}

static void judge(const attend_desc *d, const reference *r, const outputs *engine,
                  attend_verification *v) {
  double worst = -1;
  *v = (attend_verification){.ok = 1, .undecided = r->n_undecided};
  for (int x = 0; x < ATTEND_OUTPUTS; x++) {
    v->error[x] = v->bound[x] = NAN;
    if (!r->truth.at[x] || !engine->at[x]) continue;
    v->error[x] = largest_error(r->truth.count[x], r->truth.at[x], engine->at[x]);
    v->bound[x] = bound_of(d, x, r);
    bool ok = v->error[x] <= v->bound[x] && isfinite(v->bound[x]);
    double share = v->error[x] == 0 ? 0 : v->error[x] / v->bound[x];
    if (!ok) share = INFINITY; /* the first that fails is named */
    if (share > worst) {
      worst = share;
      v->worst = x;
    }
    v->ok = v->ok && ok;
  }
}

static void clear_undecided(const attend_desc *d, const reference *r, outputs *out) {
  size_t width = (size_t)d->dim_v;
  for (size_t row = 0; r->n_undecided && row < out->count[ATTEND_OUT_LSE]; row++)
    if (r->undecided[row]) memset(out->at[ATTEND_OUT_O] + row * width, 0, width * sizeof(double));
}

attend_status run_and_judge(attend_solver *s, const attend_tensors *tensors, const reference *r,
                            attend_verification *v) {
  memory m = {.ctx = s->ctx};
  outputs out;
  attend_status status = attend_solver_run(s);
  if (!status) status = attend_solver_fetch(s);
  if (!status) status = outputs_read(&m, tensors, s->problem.op == ATTEND_OP_BACKWARD, &out);
  if (!status) {
    clear_undecided(&tensors->desc, r, &out);
    judge(&tensors->desc, r, &out, v);
    snprintf(v->engine, sizeof v->engine, "%s", attend_plan_engine(s->plan));
  }
  memory_free(&m);
  return status;
}

const char *other_engine(const attend_context *ctx, const attend_plan *plan, int i) {
  const char *name, *refusal, *chosen = attend_plan_engine(plan);
  if (ctx->device->host) return NULL;
  for (int n = 0; attend_plan_candidate(plan, n, &name, &refusal); n++)
    if (!refusal && strncmp(name, "host:", 5) != 0 && strcmp(name, chosen) != 0 && !i--)
      return name;
  return NULL;
}

struct attend_verifier {
  memory memory;
  attend_problem problem;
  attend_tensors tensors;
  reference reference;
  rounding rounds; /* of the naive run */
};

/* ---- rows that float arithmetic does not decide ---------------------------------- */

static void repeat_keys(const inputs *in) {
  const attend_desc *d = in->desc;
  size_t bytes = (size_t)d->dim * attend_dtype_size(d->dtype);
  for (int b = 0; b < d->batch; b++)
    for (int g = 0; g < d->kv_heads; g++)
      for (int j = 1; j < d->kv_len; j += 2)
        memcpy(view_from(in->k, d->dtype, b, g, j).data,
               view_from(in->k, d->dtype, b, g, j - 1).data, bytes);
}

static void clear_gradients(const inputs *in, const unsigned char *mark /* [B,H,T] */) {
  const attend_desc *d = in->desc;
  if (!in->d_o.data) return;
  for (int b = 0; b < d->batch; b++)
    for (int h = 0; h < d->heads; h++)
      for (int i = 0; i < d->q_len; i++)
        if (*mark++)
          memset(view_from(in->d_o, d->dtype, b, h, i).data, 0,
                 (size_t)d->dim_v * attend_dtype_size(d->dtype));
}

/* ---- the verifier ---------------------------------------------------------------- */

static attend_status run_reference(attend_verifier *t, rounding rounds) {
  inputs in = inputs_of(&t->tensors);
  reference *r = &t->reference;
  in.rounds = t->rounds = rounds;
  in.undecided = r->undecided;
  ATTEND_TRY(run_naive(t->memory.ctx, &in, &r->naive, r->magnitude));
  clear_undecided(in.desc, r, &r->naive);
  return ATTEND_OK;
}

static attend_status open_verifier(attend_verifier *t, uint64_t seed) {
  attend_context *ctx = t->memory.ctx;
  ATTEND_TRY(attend_problem_tensors(ctx, &t->problem, seed, &t->tensors));
  const attend_desc *d = &t->tensors.desc;
  bool backward = t->problem.op == ATTEND_OP_BACKWARD;
  reference *r = &t->reference;
  inputs in = inputs_of(&t->tensors);
  if (is_hard(d)) repeat_keys(&in);
  ATTEND_TRY(outputs_take(&t->memory, d, backward, &r->truth));
  ATTEND_TRY(outputs_take(&t->memory, d, backward, &r->naive));
  TAKE(&t->memory, &r->undecided, r->truth.count[ATTEND_OUT_LSE]);
  ATTEND_TRY(mark_undecided(ctx, &in, r->undecided, &r->n_undecided));
  if (r->n_undecided) clear_gradients(&in, r->undecided);
  ATTEND_TRY(run_definition(ctx, &in, &r->truth));
  clear_undecided(d, r, &r->truth);
  return run_reference(t, rounding_of(ctx, d, "host:"));
}

static attend_status check_problem(attend_context *ctx, const attend_problem *p) {
  char text[256];
  attend_problem_print(p, text, sizeof text);
  ATTEND_CHECK(ctx, p->op != ATTEND_OP_SGEMM, "%s is not attention: only bench takes it", text);
  /* States pad by key. */
  ATTEND_CHECK(ctx, p->op != ATTEND_OP_DECODE || p->pad != ATTEND_PAD_LENGTHS,
               "%s: decoding takes padleft or padright, not lengths", text);
  return ATTEND_OK;
}

attend_status attend_verifier_create(attend_context *ctx, const attend_problem *problem,
                                     uint64_t seed, attend_verifier **verifier) {
  attend_verifier *t;
  *verifier = NULL;
  ATTEND_TRY(ctx_alloc_zeroed(ctx, sizeof *t, "a verifier", &t));
  t->memory.ctx = ctx;
  t->tensors.size = sizeof t->tensors;
  attend_status status = OPTIONS_READ(ctx, attend_problem, problem, &t->problem);
  if (!status) status = check_problem(ctx, &t->problem);
  if (!status) status = open_verifier(t, seed);
  if (status)
    attend_verifier_free(t);
  else
    *verifier = t;
  return status;
}

static attend_status run_solver(attend_verifier *t, attend_solver *s, attend_verification *v) {
  const rounding rounds = rounding_of(s->ctx, &t->tensors.desc, attend_plan_engine(s->plan));
  if (rounds != t->rounds) ATTEND_TRY(run_reference(t, rounds));
  return run_and_judge(s, &t->tensors, &t->reference, v);
}

attend_status attend_verifier_run(attend_verifier *t, attend_context *ctx, attend_verification *v) {
  attend_solver *s;
  ATTEND_TRY(attend_solver_create(ctx, &t->problem, &t->tensors, &s));
  attend_status status = run_solver(t, s, v);
  attend_solver_free(s);
  return status;
}

static void give_verdict(const attend_verify_options *o, attend_context *ctx, size_t i,
                         const attend_problem *p, const attend_verification *v) {
  if (o->each) o->each(ctx, i, p, v, o->user);
}

/* The plan's choice, then the device's other engines that take the problem. */
static attend_status run_engines(attend_verifier *t, attend_context *ctx, size_t i,
                                 const attend_verify_options *o) {
  const char *given = t->tensors.desc.engine, *name;
  attend_verification v;
  attend_solver *s;
  ATTEND_TRY(attend_solver_create(ctx, &t->problem, &t->tensors, &s));
  attend_status status = run_solver(t, s, &v);
  if (!status) give_verdict(o, ctx, i, &t->problem, &v);
  for (int n = 0; !status && !given && (name = other_engine(ctx, s->plan, n)); n++) {
    t->tensors.desc.engine = name;
    status = attend_verifier_run(t, ctx, &v);
    if (!status) give_verdict(o, ctx, i, &t->problem, &v);
  }
  t->tensors.desc.engine = given;
  attend_solver_free(s);
  return status;
}

void attend_verifier_free(attend_verifier *t) {
  if (!t) return;
  attend_context *ctx = t->memory.ctx;
  attend_tensors_free(ctx, &t->tensors);
  memory_free(&t->memory);
  ctx_free(ctx, t);
}

/* ---- many problems --------------------------------------------------------------- */

enum { SHORT = 300 };

/* Lengths to 300, with their difference kept in kind; batch to 2; the heads of one kv
 * head stay together. */
static void shrink(attend_problem *p) {
  attend_desc *d = &p->desc;
  int group = d->heads / d->kv_heads;
  bool square = d->q_len == d->kv_len;
  d->batch = (int)min64(d->batch, 2);
  d->kv_heads = (int)min64(d->kv_heads, group > 2 ? 1 : 2);
  d->heads = d->kv_heads * group;
  d->q_len = (int)min64(d->q_len, square ? SHORT : SHORT - 43);
  d->kv_len = (int)min64(d->kv_len, SHORT);
}

static double definition_seconds(const attend_problem *p) {
  const attend_desc *d = &p->desc;
  double pairs = (double)d->batch * d->heads * d->q_len * d->kv_len;
  return pairs * (d->dim + d->dim_v) * (p->op == ATTEND_OP_BACKWARD ? 4 : 1) * 4e-9;
}

static attend_status announce(attend_context *ctx, const attend_verify_options *o, double done,
                              const attend_problem *p) {
  char now[256];
  if (!o->progress) return ATTEND_OK;
  double seconds = definition_seconds(p);
  attend_problem_print(p, now, sizeof now);
  int stop = o->progress(done, now, o->user);
  snprintf(now, sizeof now, "computing the definition in double, about %.0f s", seconds);
  if (!stop && seconds >= 2) stop = o->progress(NAN, now, o->user);
  return stop ? fail(ctx, ATTEND_STOPPED, "verifying was stopped") : ATTEND_OK;
}

static attend_status run_in_all(attend_verifier *t, int contexts, attend_context *const *context,
                                size_t i, const attend_verify_options *o) {
  for (int c = 0; c < contexts; c++) {
    attend_status status = run_engines(t, context[c], i, o);
    bool skipped = status == ATTEND_UNSUPPORTED && o->skip;
    if (status && !skipped && c) fail(context[0], status, "%s", attend_message(context[c]));
    if (status && !skipped) return status;
    if (skipped) give_verdict(o, context[c], i, &t->problem, NULL);
  }
  return ATTEND_OK;
}

attend_status attend_verify(int contexts, attend_context *const *context, size_t count,
                            const attend_problem *problems, const attend_verify_options *options) {
  attend_verify_options o;
  ATTEND_TRY(OPTIONS_READ(context[0], attend_verify_options, options, &o));
  for (size_t i = 0; i < count; i++) {
    attend_problem p;
    attend_verifier *t;
    ATTEND_TRY(OPTIONS_READ(context[0], attend_problem, problem_at(problems, i), &p));
    if (o.small) shrink(&p);
    ATTEND_TRY(announce(context[0], &o, (double)i / (double)count, &p));
    ATTEND_TRY(attend_verifier_create(context[0], &p, o.seed, &t));
    attend_status status = run_in_all(t, contexts, context, i, &o);
    attend_verifier_free(t);
    if (status) return status;
  }
  return ATTEND_OK;
}
