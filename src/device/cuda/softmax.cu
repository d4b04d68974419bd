/* Launching softmax attention on Hopper, forward: which kernel, its tensor maps, its grid. */
#include "device/cuda/gpu.cuh"
#include "device/cuda/softmax_launch.cuh"
#include "device/cuda/tensor_map.cuh"

#include <algorithm>

/* ---- tensors --------------------------------------------------------------------------- */

/* Strides of sizes of 1 do not matter. */
static cuda_tensor complete(cuda_tensor x, int batch, int heads, int rows) {
  if (rows <= 1) x.stride[2] = (x.width + 7) / 8 * 8;
  if (heads <= 1) x.stride[1] = rows * x.stride[2];
  if (batch <= 1) x.stride[0] = heads * x.stride[1];
  return x;
}

/* Queries and outputs: slabs of 64 columns of `pack` heads of `per` rows, the heads of a row behind
 * each other. */
static CUtensorMap packed_map_of(cuda_gpu *gpu, attend_dtype dtype, const cuda_tensor &x, int batch,
                                 int heads, int rows, int pack, int per) {
  const cuda_tensor y = {x.data, {x.stride[0], x.stride[2], x.stride[1]}, x.width};
  return map_of(gpu, dtype, y, batch, rows, heads, pack, per);
}

/* Rows that TMA cannot read or write are copied to others that it can. */
struct copied_rows {
  const uint16_t *from;
  uint16_t *to;
  int64_t from_stride[4], to_stride[4];
  int batch, heads, rows, width;
};
static __global__ void copy_rows(const copied_rows c) {
  EACH(i, (size_t)c.batch * c.heads * c.rows * c.width) {
    const int64_t x = i % c.width, row = i / c.width % c.rows,
                  head = i / c.width / c.rows % c.heads, b = i / c.width / c.rows / c.heads;
    c.to[b * c.to_stride[0] + head * c.to_stride[1] + row * c.to_stride[2] + x * c.to_stride[3]] =
        c.from[b * c.from_stride[0] + head * c.from_stride[1] + row * c.from_stride[2] +
               x * c.from_stride[3]];
  }
}

/* ---- a call ---------------------------------------------------------------------------- */

struct problem {
  attend_dtype dtype;
  int batch, heads, kv_heads, n, kv_len, dim, dim_v;
  attend_view q, k, v, o; /* with strides */
  float *lse;
  softmax_rule rule; /* but for the sequences */
  const attend_bias *bias;
  const uint8_t *key_mask;
  const int32_t *lengths;
  const int64_t *before; /* with pages */
  const cuda_pages *pages;
  int offset; /* of views: position of query 0 */
  void *work;
};

static attend_view with_strides(attend_view x, int heads, int rows, int width) {
  if (x.stride[0] || x.stride[1] || x.stride[2] || x.stride[3]) return x;
  x.stride[0] = (ptrdiff_t)heads * rows * width, x.stride[1] = (ptrdiff_t)rows * width;
  x.stride[2] = width, x.stride[3] = 1;
  return x;
}

static problem problem_of(const cuda_attention *a) {
  const attend_desc *d = a->desc;
  const float log2e = 1.44269504088896340736f;
  problem p = {};
  p.dtype = d->dtype, p.batch = d->batch, p.heads = d->heads, p.kv_heads = d->kv_heads;
  p.n = a->n, p.dim = d->dim, p.dim_v = d->dim_v;
  p.kv_len = a->pages ? 0 : d->kv_len;
  p.q = with_strides(a->q, d->heads, a->n, d->dim);
  p.o = with_strides(a->o, d->heads, a->n, d->dim_v);
  p.k = with_strides(a->k, d->kv_heads, d->kv_len, d->dim);
  p.v = with_strides(a->v, d->kv_heads, d->kv_len, d->dim_v);
  p.lse = a->lse, p.work = a->work, p.bias = &d->bias;
  p.lengths = d->mask.lengths, p.pages = a->pages, p.before = a->before;
  p.key_mask = a->pages ? NULL : d->mask.key_mask;
  p.offset = d->mask.causal == ATTEND_CAUSAL_BOTTOM ? d->kv_len - d->q_len : 0;
  p.rule.causal = d->mask.causal != ATTEND_NOT_CAUSAL, p.rule.window = d->mask.window;
  p.rule.padded = a->pages ? a->pages->padded : d->mask.key_mask != NULL;
  p.rule.scale_to2 = d->scale * log2e;
  if (d->soft_cap > 0) p.rule.cap_to2 = d->soft_cap * log2e, p.rule.cap_by = d->scale / d->soft_cap;
  p.rule.bias = d->bias.kind, p.rule.kv_len = d->kv_len;
  p.rule.slopes = d->bias.slopes;
  if (d->bias.kind == ATTEND_BUCKETS)
    p.rule.furthest = d->bias.max_distance ? d->bias.max_distance : 128;
  if (d->bias.kind == ATTEND_DENSE) {
    const attend_view dense = with_strides(d->bias.dense, d->heads, d->q_len, d->kv_len);
    p.rule.dense = (const float *)dense.data;
    for (int i = 0; i < 4; i++) p.rule.dense_stride[i] = dense.stride[i];
  }
  return p;
}

static bool biased(const problem *p) {
  return p->rule.bias != ATTEND_NO_BIAS || p->rule.cap_by != 0.f || !(p->rule.scale_to2 > 0);
}

/* Its chains: those of all keys that some row sees. */
static softmax_sequence sequence_of(const problem *p, int b, int *chains) {
  softmax_sequence s = {p->lengths && !p->pages ? p->lengths[b] : p->kv_len, p->offset, p->n, 0, 0};
  if (p->pages) {
    s.keys = (int)p->pages->length[b], s.before = (int)p->before[b];
    if (p->lengths) s.rows = p->lengths[b];
  }
  key_range r = {0, 0};
  if (s.rows > 0) r = some_row_sees(p->rule, s.keys, s.before, s.before + s.rows - 1);
  s.first_chain = r.first < r.end ? r.first / CHAIN : 0;
  *chains = r.first < r.end ? (r.end + CHAIN - 1) / CHAIN - s.first_chain : 0;
  return s;
}

/* What is launched, and the parts of `work`. */
struct forward_plan {
  int width, wgs, pack, per, tiles, chains; /* chains of all sequences, if split */
  bool split;
  int part_rows;
  int64_t items;
  size_t q, k, v, o, table, marks, part_o, part, totals, sequences, bytes;
};

static int padded_width(int dim, int dim_v) {
  const int wide = std::max(dim, dim_v);
  return wide <= 64 ? 64 : wide <= 96 ? 96 : wide <= 128 ? 128 : wide <= 192 ? 192 : 256;
}
static int most_heads(int group) { /* of a tile: a divisor */
  int pack = std::min(group, 64);
  while (group % pack) pack--;
  return pack;
}

static size_t take(forward_plan *f, size_t bytes) {
  const size_t at = f->bytes;
  f->bytes += (bytes + 1023) / 1024 * 1024;
  return at;
}

/* The tensor as TMA can read it: itself, or its copy in `work`. */
static bool direct(const attend_view &x, int batch, int heads, int rows, int width) {
  const cuda_tensor y = {x.data, {x.stride[0], x.stride[1], x.stride[2]}, width};
  const cuda_tensor z = complete(y, batch, heads, rows);
  return (width <= 1 || x.stride[3] == 1) && fits_tma(z) && z.stride[0] > 0 && z.stride[1] > 0;
}
static size_t copy_bytes(const attend_view &x, int batch, int heads, int rows, int width) {
  if (direct(x, batch, heads, rows, width)) return 0;
  return (size_t)batch * (size_t)heads * (size_t)rows * (size_t)((width + 7) / 8 * 8) * 2;
}

static int64_t marks_stride(const problem *p) { return ((int64_t)p->kv_len + 127) / 128 * 128; }

static forward_plan plan_of(const cuda_gpu *gpu, const problem *p) {
  enum { MOST_PART_BYTES = 512 << 20 };
  forward_plan f = {};
  const int group = p->heads / p->kv_heads;
  f.width = padded_width(p->dim, p->dim_v);
  f.wgs = f.width == 64 && !biased(p) ? 3 : 2;
  f.pack = p->n < 128 ? most_heads(group) : 1;
  f.per = 64 / f.pack;
  const int64_t packs = (int64_t)p->batch * (p->heads / f.pack);
  const int64_t small = packs * ((p->n + f.per - 1) / f.per); /* tiles of a warpgroup */
  const int64_t large = packs * ((p->n + f.per * f.wgs - 1) / (f.per * f.wgs));
  int64_t chains = 0;
  for (int b = 0; b < p->batch; b++) {
    int own;
    sequence_of(p, b, &own);
    chains += own;
  }
  f.part_rows = std::min(f.per, p->n) * f.pack;
  const int64_t items = chains * (small / p->batch);
  const double part_bytes = (double)items * f.part_rows * f.width * 4;
  f.split =
      chains > 0 && part_bytes <= MOST_PART_BYTES && items < 1 << 28 &&
      ((p->n <= f.per && f.part_rows <= 32) || (2 * large <= gpu->processors && chains > p->batch));
  f.items = f.split ? items : large;
  f.chains = (int)chains;
  f.tiles = f.split ? (p->n + f.per - 1) / f.per : (int)(large / packs);
  f.q = take(&f, copy_bytes(p->q, p->batch, p->heads, p->n, p->dim));
  f.o = take(&f, copy_bytes(p->o, p->batch, p->heads, p->n, p->dim_v));
  if (!p->pages) {
    f.k = take(&f, copy_bytes(p->k, p->batch, p->kv_heads, p->kv_len, p->dim));
    f.v = take(&f, copy_bytes(p->v, p->batch, p->kv_heads, p->kv_len, p->dim_v));
  }
  if (p->rule.bias == ATTEND_BUCKETS)
    f.table = take(&f, (size_t)p->heads * (2 * (size_t)p->rule.furthest + 1) * sizeof(float));
  if (p->key_mask) f.marks = take(&f, (size_t)p->batch * (size_t)marks_stride(p));
  if (f.split) {
    f.part_o = take(&f, (size_t)f.items * (size_t)f.part_rows * (size_t)f.width * sizeof(float));
    f.part = take(&f, (size_t)f.items * (size_t)f.part_rows * sizeof(float2));
  } else if (f.width > 128) {
    f.totals = take(&f, (size_t)gpu->processors * (size_t)f.wgs * 64 * (size_t)f.width * 4);
  }
  if (p->batch > FEW_SEQUENCES) f.sequences = take(&f, (size_t)p->batch * sizeof(softmax_sequence));
  return f;
}

/* ---- masks and biases ------------------------------------------------------------------ */

static void list_sequences(cuda_gpu *gpu, const problem *p, const forward_plan *f,
                           softmax_rule *r) {
  int chains, before = 0;
  const bool listed = p->batch > 1 && (p->pages || p->lengths);
  const softmax_sequence first = sequence_of(p, 0, &chains);
  r->keys = first.keys, r->before = first.before, r->rows = first.rows;
  r->first_chain = first.first_chain;
  r->listed = listed;
  if (!listed) return;
  enum { AT_ONCE = 1024 };
  softmax_sequence some[AT_ONCE];
  softmax_sequence *there = (softmax_sequence *)((char *)p->work + f->sequences);
  if (p->batch > FEW_SEQUENCES) r->sequence = there;
  for (int b = 0, in = 0; b < p->batch; b++) {
    some[in] = sequence_of(p, b, &chains);
    some[in].chains_before = before;
    before += chains;
    if (p->batch <= FEW_SEQUENCES) {
      r->few[b] = some[in];
    } else if (++in == AT_ONCE || b == p->batch - 1) {
      const void *staged = gpu_stage(gpu, some, sizeof *some * (size_t)in);
      gpu_flush(gpu);
      gpu_check(gpu,
                cudaMemcpyAsync(there + b + 1 - in, staged, sizeof *some * (size_t)in,
                                cudaMemcpyDeviceToDevice, gpu->stream),
                "lengths");
      in = 0;
    }
  }
}

/* T5's bucket of a distance; attend_bucket's float steps (attention/desc.c). */
static __global__ void spread_buckets(const float *table, float *by_distance, int heads,
                                      int buckets, int furthest, bool one_sided) {
  const int side = one_sided ? buckets : buckets / 2, exact = side / 2;
  EACH(i, (size_t)heads * (2 * (size_t)furthest + 1)) {
    const int head = (int)(i / (2 * furthest + 1)),
              ahead = (int)(i % (2 * furthest + 1)) - furthest;
    const int distance = abs(ahead);
    int bucket = distance;
    if (distance >= exact) {
      const float ratio = (float)distance / (float)exact;
      const float span = (float)log((double)furthest / exact);
      const float steps = (float)log((double)ratio) / span * (float)(side - exact);
      const float last = (float)(side - 1 - exact);
      bucket = exact + (int)(steps < last ? steps : last);
    }
    if (ahead > 0) bucket = one_sided ? 0 : side + bucket;
    by_distance[i] = table[(int64_t)bucket * heads + head] * 1.44269504088896340736f;
  }
}

static void bring_masks(cuda_gpu *gpu, const problem *p, const forward_plan *f, forward_call *c) {
  if (p->rule.bias == ATTEND_BUCKETS) {
    float *table = (float *)((char *)p->work + f->table);
    c->rule.by_distance = table;
    const int buckets = p->bias->buckets ? p->bias->buckets : 32;
    LAUNCH(gpu, spread_buckets, blocks_for((size_t)p->heads * (2 * p->rule.furthest + 1), 256), 256,
           0, p->bias->table, table, p->heads, buckets, p->rule.furthest, p->bias->one_sided);
  }
  if (p->key_mask) {
    c->real_stride = marks_stride(p);
    c->real = (const uint8_t *)p->work + f->marks;
    gpu_flush(gpu);
    gpu_check(
        gpu,
        cudaMemcpy2DAsync((void *)c->real, (size_t)c->real_stride, p->key_mask, (size_t)p->kv_len,
                          (size_t)p->kv_len, (size_t)p->batch, cudaMemcpyHostToDevice, gpu->stream),
        "a mask");
  }
}

/* ---- launching ------------------------------------------------------------------------- */

/* A tensor for TMA: itself, or a copy of it. */
static cuda_tensor tma_tensor(cuda_gpu *gpu, const problem *p, const attend_view &x, size_t at,
                              int heads, int rows, int width, bool out) {
  cuda_tensor y = {x.data, {x.stride[0], x.stride[1], x.stride[2]}, width};
  if (direct(x, p->batch, heads, rows, width)) return complete(y, p->batch, heads, rows);
  const int64_t row = (width + 7) / 8 * 8;
  y.data = (char *)p->work + at;
  y.stride[0] = heads * rows * row, y.stride[1] = rows * row, y.stride[2] = row;
  const copied_rows c = {(const uint16_t *)x.data,
                         (uint16_t *)y.data,
                         {x.stride[0], x.stride[1], x.stride[2], x.stride[3]},
                         {y.stride[0], y.stride[1], y.stride[2], 1},
                         p->batch,
                         heads,
                         rows,
                         width};
  const size_t all = (size_t)p->batch * (size_t)heads * (size_t)rows * (size_t)width;
  if (!out) LAUNCH(gpu, copy_rows, blocks_for(all, 256), 256, 0, c);
  return y;
}
static void bring_back(cuda_gpu *gpu, const problem *p, const cuda_tensor &y) {
  if (y.data == p->o.data) return;
  const copied_rows c = {(const uint16_t *)y.data,
                         (uint16_t *)p->o.data,
                         {y.stride[0], y.stride[1], y.stride[2], 1},
                         {p->o.stride[0], p->o.stride[1], p->o.stride[2], p->o.stride[3]},
                         p->batch,
                         p->heads,
                         p->n,
                         p->dim_v};
  const size_t all = (size_t)p->batch * (size_t)p->heads * (size_t)p->n * (size_t)p->dim_v;
  LAUNCH(gpu, copy_rows, blocks_for(all, 256), 256, 0, c);
}

static void bring_keys(cuda_gpu *gpu, const problem *p, const forward_plan *f, forward_call *c) {
  if (p->pages) {
    const size_t k = cuda_page_part(2, p->dim), v = cuda_page_part(2, p->dim_v);
    c->page = p->pages->page, c->page_stride = p->pages->stride;
    c->page_head = (int64_t)(k + v), c->page_values = (int64_t)k;
    c->page_real = p->kv_heads * (int64_t)(k + v);
    c->page_k_slabs = (int)(k / 8192), c->page_v_slabs = (int)(v / 8192);
    return;
  }
  if (!p->kv_len) return;
  const int keys = f->width > 128 ? 64 : 128;
  const cuda_tensor k = tma_tensor(gpu, p, p->k, f->k, p->kv_heads, p->kv_len, p->dim, false);
  const cuda_tensor v = tma_tensor(gpu, p, p->v, f->v, p->kv_heads, p->kv_len, p->dim_v, false);
  c->k = map_of(gpu, p->dtype, k, p->batch, p->kv_heads, p->kv_len, keys, 1);
  c->v = map_of(gpu, p->dtype, v, p->batch, p->kv_heads, p->kv_len, keys, 1);
  c->values = v.data, c->values_keys = p->kv_len, c->values_width = p->dim_v;
  for (int i = 0; i < 3; i++) c->values_stride[i] = v.stride[i];
}

/* The keys and values of a chunk of heads stay in L2. */
enum { CHUNK_BYTES = 32 << 20 };

static void run(cuda_gpu *gpu, const problem *p) {
  if (!p->batch || !p->heads || !p->n) return;
  const forward_plan f = plan_of(gpu, p);
  forward_call c = {};
  c.rule = p->rule;
  list_sequences(gpu, p, &f, &c.rule);
  bring_masks(gpu, p, &f, &c);
  bring_keys(gpu, p, &f, &c);
  const cuda_tensor q = tma_tensor(gpu, p, p->q, f.q, p->heads, p->n, p->dim, false);
  const cuda_tensor o = tma_tensor(gpu, p, p->o, f.o, p->heads, p->n, p->dim_v, true);
  c.q = packed_map_of(gpu, p->dtype, q, p->batch, p->heads, p->n, f.pack, f.per);
  c.o = packed_map_of(gpu, p->dtype, o, p->batch, p->heads, p->n, f.pack, f.per);
  c.lse = p->lse;
  c.batch = p->batch, c.heads = p->heads, c.group = p->heads / p->kv_heads, c.n = p->n;
  c.pack = f.pack, c.per = f.per, c.tiles = f.tiles, c.items = (int)f.items;
  c.chains = f.chains / p->batch;
  int64_t keys = p->kv_len;
  for (int b = 0; p->pages && b < p->batch; b++) keys = std::max(keys, p->pages->length[b]);
  const double head_bytes = 4.0 * (double)keys * f.width / c.group;
  const int packs = p->batch * (p->heads / f.pack);
  c.chunk = p->rule.causal
                ? std::max(1, (int)std::min(CHUNK_BYTES / (head_bytes + 1), (double)packs))
                : 1;
  c.by_span = divisor_of(c.chunk * c.tiles), c.by_chunk = divisor_of(c.chunk);
  c.by_last = divisor_of(packs % c.chunk ? packs % c.chunk : c.chunk);
  c.by_packed = divisor_of(p->heads / f.pack), c.by_group = divisor_of(c.group);
  c.by_tiles = divisor_of(c.tiles), c.by_wide = divisor_of(p->heads / f.pack * c.tiles);
  c.by_pack = divisor_of(c.pack);
  char *work = (char *)p->work;
  c.totals = (float *)(work + f.totals), c.counter = gpu->counter;
  c.part_rows = f.part_rows;
  c.part_o = (float *)(work + f.part_o), c.part = (float2 *)(work + f.part);
  c.out = o.data, c.out_batch = o.stride[0], c.out_head = o.stride[1], c.out_row = o.stride[2];
  c.width = p->dim_v;
  const forward_choice how = {p->dtype == ATTEND_BF16, f.split, biased(p)};
  if (f.width == 64) softmax_width_64(gpu, c, how);
  if (f.width == 96) softmax_width_96(gpu, c, how);
  if (f.width == 128) softmax_width_128(gpu, c, how);
  if (f.width == 192) softmax_width_192(gpu, c, how);
  if (f.width == 256) softmax_width_256(gpu, c, how);
  bring_back(gpu, p, o);
}

/* ---- the table's entries --------------------------------------------------------------- */

const char *cuda_attention_refusal(const cuda_gpu *gpu, const attend_desc *d) {
  if (gpu->capability != 90) return "needs a GPU of compute capability 9.0";
  if (d->form.kind != ATTEND_SOFTMAX) return "the form is not softmax";
  if (d->dtype == ATTEND_F32) return "multiplies bf16 and f16 alone";
  if (d->dim > 256 || d->dim_v > 256) return "takes widths up to 256";
  if (d->bias.kind == ATTEND_DENSE && d->purpose & ATTEND_FOR_EXTEND)
    return "a dense bias has no rows for a state's positions";
  if (d->bias.kind == ATTEND_BUCKETS && d->bias.max_distance > 1 << 14)
    return "takes buckets up to distance 16384";
  return NULL;
}
size_t cuda_attention_bytes(cuda_gpu *gpu, const cuda_attention *a) {
  const problem p = problem_of(a);
  return plan_of(gpu, &p).bytes;
}
void cuda_attention_forward(cuda_gpu *gpu, const cuda_attention *a) {
  const problem p = problem_of(a);
  run(gpu, &p);
}

/* Of struct cuda_softmax, which backward reads too. */
static attend_view view_of(const cuda_tensor &x) {
  return {x.data, {(ptrdiff_t)x.stride[0], (ptrdiff_t)x.stride[1], (ptrdiff_t)x.stride[2], 1}};
}
static problem problem_of(const cuda_softmax *c) {
  problem p = {};
  p.dtype = c->dtype, p.batch = c->batch, p.heads = c->heads, p.kv_heads = c->kv_heads;
  p.n = c->q_len, p.kv_len = c->kv_len, p.dim = c->q.width, p.dim_v = c->v.width;
  p.q = view_of(c->q), p.k = view_of(c->k), p.v = view_of(c->v), p.o = view_of(c->o);
  p.lse = c->lse, p.offset = c->offset, p.work = c->work;
  p.rule.causal = c->causal, p.rule.scale_to2 = c->scale * 1.44269504088896340736f;
  return p;
}
const char *cuda_softmax_refusal(const cuda_gpu *gpu, const cuda_softmax *c) {
  if (gpu->capability != 90) return "needs a GPU of compute capability 9.0";
  if (c->dtype == ATTEND_F32) return "multiplies bf16 and f16 alone";
  return c->q.width > 256 || c->v.width > 256 ? "takes widths up to 256" : NULL;
}
size_t cuda_softmax_bytes(const cuda_gpu *gpu, const cuda_softmax *c) {
  const problem p = problem_of(c);
  return plan_of(gpu, &p).bytes;
}
void cuda_softmax_forward(cuda_gpu *gpu, const cuda_softmax *c) {
  const problem p = problem_of(c);
  run(gpu, &p);
}
