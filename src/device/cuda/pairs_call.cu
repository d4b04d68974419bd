/* What a call of attention says, for the kernels that compute pair by pair. */
#include "device/cuda/pairs.cuh"

/* ---- T5's buckets by distance -------------------------------------------------------- */

__global__ void pairs_spread_kernel(attend_bias bias, int heads, float to2, float *spread) {
  const int wide = 2 * bias.max_distance + 1;
  EACH(i, (size_t)wide * heads) {
    const int head = (int)(i / wide), ahead = (int)(i % wide) - bias.max_distance;
    spread[i] = to2 * bias.table[(size_t)bucket_of(bias, ahead) * heads + head];
  }
}

/* ---- what a call says ---------------------------------------------------------------- */

static const double LOG2E = 1.44269504088896340736;

pairs_view pairs_view_of(attend_dtype dtype, attend_view v, int heads, int64_t rows, int width) {
  const size_t size = dtype == ATTEND_F32 ? 4 : 2;
  pairs_view x = {(char *)v.data, {v.stride[0], v.stride[1], v.stride[2], v.stride[3]}, true};
  if (!v.stride[0] && !v.stride[1] && !v.stride[2] && !v.stride[3]) {
    x.stride[3] = 1;
    x.stride[2] = width;
    x.stride[1] = rows * width;
    x.stride[0] = heads * x.stride[1];
  }
  x.vector = (uintptr_t)v.data % (4 * size) == 0 && x.stride[3] == 1 && x.stride[0] % 4 == 0 &&
             x.stride[1] % 4 == 0 && x.stride[2] % 4 == 0;
  return x;
}

static void set_form(pairs_call *c, const attend_desc *d) {
  const attend_form *f = &d->form;
  const bool hard = f->kind == ATTEND_ARGMAX && f->temperature == 0;
  double unit = hard || f->kind == ATTEND_POLY ? 1 : LOG2E, scale = d->scale;
  c->form = SOFT;
  if (hard) c->form = HARD;
  if (f->kind == ATTEND_POLY) c->form = POLY;
  if (f->kind == ATTEND_GAUSSIAN) c->form = GAUSSIAN;
  if (f->kind == ATTEND_ELU) c->form = ELU;
  c->first = f->ties == ATTEND_TIES_FIRST;
  c->degree = f->degree, c->a = f->a, c->c = f->c;
  if (f->temperature > 0) unit /= (double)f->temperature;
  if (f->kind == ATTEND_GAUSSIAN) scale = -0.5 / ((double)f->sigma * (double)f->sigma);
  c->bias_to2 = (float)(f->kind == ATTEND_POLY ? LOG2E : unit);
  if (d->soft_cap > 0) {
    c->cap_in = (float)(scale / (double)d->soft_cap);
    c->cap_out = (float)((double)d->soft_cap * unit);
  }
  /* The factor waits for the exponential where nothing is added before, and scores are not rounded
   * for it. */
  const float to2 = (float)(fabs(scale) * unit);
  const bool waits = (c->form == SOFT || c->form == GAUSSIAN) && to2 > 1e-30f && c->cap_in == 0 &&
                     d->bias.kind == ATTEND_NO_BIAS;
  c->scale = waits ? (scale < 0 ? -1.f : 1.f) : scale < 0 ? -to2 : to2;
  c->factor = waits ? to2 : 1;
  c->plain = waits && c->scale == 1;
}

static void set_bias(pairs_call *c, const attend_desc *d) {
  c->bias = d->bias;
  c->far = d->bias.max_distance;
  if (d->bias.kind != ATTEND_DENSE) return;
  const pairs_view v = pairs_view_of(ATTEND_F32, d->bias.dense, d->heads, d->q_len, d->kv_len);
  for (int i = 0; i < 4; i++) c->bias.dense.stride[i] = v.stride[i];
}

/* ---- numbers of the host ------------------------------------------------------------- */

/* Together in one block, that a kernel launched next may read. */
enum { STAGED = 16 << 10 };

struct host_numbers {
  size_t lengths, before, keys, mask, all; /* where they begin */
};

static host_numbers numbers_of(const cuda_attention *a) {
  const attend_desc *d = a->desc;
  host_numbers x = {};
  size_t at = 0;
  x.before = at;
  at += a->pages ? 8 * (size_t)d->batch : 0;
  x.keys = at;
  at += a->pages ? 8 * (size_t)d->batch : 0;
  x.lengths = at;
  at += d->mask.lengths ? 4 * (size_t)d->batch : 0;
  x.mask = at;
  at += !a->pages && d->mask.key_mask ? (size_t)d->batch * d->kv_len : 0;
  x.all = at;
  return x;
}

static size_t spread_bytes(const attend_desc *d) {
  if (d->bias.kind != ATTEND_BUCKETS) return 0;
  return pairs_round(sizeof(float) * (2 * (size_t)d->bias.max_distance + 1) * d->heads);
}

size_t pairs_open_bytes(const cuda_attention *a) {
  const host_numbers x = numbers_of(a);
  return spread_bytes(a->desc) + (x.all > STAGED ? pairs_round(x.all) : 0);
}

static void copy_numbers(cuda_gpu *gpu, char *to, const void *from, size_t bytes) {
  if (!bytes) return;
  gpu_flush(gpu);
  gpu_check(gpu, cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, gpu->stream), "a copy");
}

static const char *stage_numbers(cuda_gpu *gpu, const cuda_attention *a, char **memory) {
  const attend_desc *d = a->desc;
  const host_numbers x = numbers_of(a);
  alignas(8) char host[STAGED];
  char *far = *memory; /* more than is staged */
  const bool small = x.all <= STAGED;
  if (!x.all) return NULL;
  if (!small) *memory += pairs_round(x.all);
  auto put = [&](size_t at, const void *from, size_t bytes) {
    if (small && bytes) memcpy(host + at, from, bytes);
    if (!small) copy_numbers(gpu, far + at, from, bytes);
  };
  if (a->pages) put(x.before, a->before, 8 * (size_t)d->batch);
  if (a->pages) put(x.keys, a->pages->length, 8 * (size_t)d->batch);
  if (d->mask.lengths) put(x.lengths, d->mask.lengths, 4 * (size_t)d->batch);
  if (!a->pages) put(x.mask, d->mask.key_mask, x.all - x.mask);
  return small ? (const char *)gpu_stage(gpu, host, x.all) : far;
}

static void set_keys(cuda_gpu *gpu, pairs_call *c, const cuda_attention *a, char **memory) {
  const attend_desc *d = a->desc;
  const size_t size = d->dtype == ATTEND_F32 ? 4 : 2;
  const host_numbers x = numbers_of(a);
  const char *numbers = stage_numbers(gpu, a, memory);
  c->causal = d->mask.causal != ATTEND_NOT_CAUSAL;
  c->window = d->mask.window;
  c->position = d->mask.causal == ATTEND_CAUSAL_BOTTOM ? d->kv_len - d->q_len : 0;
  if (d->mask.lengths) c->lengths = (const int32_t *)(numbers + x.lengths);
  if (!a->pages) {
    if (d->mask.key_mask) c->key_mask = (const uint8_t *)numbers + x.mask;
    c->padded = d->mask.key_mask;
    return;
  }
  c->before = (const int64_t *)(numbers + x.before);
  c->keys = (const int64_t *)(numbers + x.keys);
  c->pages = a->pages->page;
  c->pages_stride = a->pages->stride;
  c->part_k = cuda_page_part(size, d->dim);
  c->part_v = cuda_page_part(size, d->dim_v);
  c->padded = a->pages->padded;
}

pairs_call pairs_open(cuda_gpu *gpu, const cuda_attention *a, char **memory) {
  const attend_desc *d = a->desc;
  pairs_call c = {};
  c.dtype = d->dtype;
  c.batch = d->batch, c.heads = d->heads, c.kv_heads = d->kv_heads;
  c.group = d->heads / d->kv_heads;
  c.n = a->n, c.kv_len = d->kv_len, c.dim = d->dim, c.dim_v = d->dim_v;
  c.q = pairs_view_of(d->dtype, a->q, d->heads, a->n, d->dim);
  c.k = pairs_view_of(d->dtype, a->k, d->kv_heads, d->kv_len, d->dim);
  c.v = pairs_view_of(d->dtype, a->v, d->kv_heads, d->kv_len, d->dim_v);
  c.o = pairs_view_of(d->dtype, a->o, d->heads, a->n, d->dim_v);
  c.lse = a->lse;
  c.weak = (unsigned long long *)a->weak_rows;
  set_form(&c, d);
  set_bias(&c, d);
  set_keys(gpu, &c, a, memory);
  if (d->bias.kind == ATTEND_BUCKETS) {
    float *spread = (float *)*memory;
    const size_t n = (2 * (size_t)c.far + 1) * d->heads;
    *memory += spread_bytes(d);
    LAUNCH(gpu, pairs_spread_kernel, blocks_for(n, 256), 256, 0, d->bias, d->heads, c.bias_to2,
           spread);
    c.spread = spread;
  }
  return c;
}

const char *cuda_pairs_refusal(const cuda_gpu *, const attend_desc *d) {
  if (d->form.kind == ATTEND_CUSTOM) return "a form of the caller's own runs on the host";
  if (d->form.kind == ATTEND_FAVOR || d->form.kind == ATTEND_FOURIER || d->form.features > 0)
    return "random features are summed, not paired";
  return NULL;
}
