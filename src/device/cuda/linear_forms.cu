/* Linear forms: which shapes they take, their work memory, and launching them. */
#include "device/cuda/linear_backward.cuh"

#include <algorithm>
#include <string.h>
#include <vector>

static bool directed(const attend_form &f) {
  return f.kind == ATTEND_FAVOR || f.kind == ATTEND_FOURIER || f.kind == ATTEND_GAUSSIAN;
}
static bool is_trig(const attend_form &f) {
  return f.kind == ATTEND_FOURIER || (f.kind == ATTEND_GAUSSIAN && f.map == ATTEND_TRIGONOMETRIC);
}
static bool is_signed(const attend_form &f) { return f.kind == ATTEND_POLY || is_trig(f); }

static int64_t feature_count(const attend_desc *d) {
  if (d->form.kind == ATTEND_ELU) return d->dim;
  if (d->form.kind != ATTEND_POLY) return d->form.features;
  double count = 1;
  for (int i = 1; i <= d->form.degree; i++) count = count * (d->dim + i) / i;
  return count < 1e9 ? (int64_t)(count + 0.5) : 1000000000;
}

enum { WIDEST = 256, MOST = 1 << 16, MOST_DEGREE = 8 };

template <typename E>
static int raw_row(int dim) {
  return (dim + 15) / 16 * 16 + padding<E>::elements;
}
template <typename E>
static int backward_shared(int ldx, bool poly, bool directed) {
  return backward_layout<E>::bytes(ldx, directed, poly);
}
/* Whether backward's tiles fit a multiprocessor's shared memory, with 4 KB of marks. */
static bool fits_backward(const attend_desc *d) {
  const bool poly = d->form.kind == ATTEND_POLY, directions = directed(d->form);
  const int bytes = d->dtype == ATTEND_BF16 && !is_signed(d->form)
                        ? backward_shared<bf16>(raw_row<bf16>(d->dim), poly, directions)
                        : backward_shared<float>(raw_row<float>(d->dim), poly, directions);
  return bytes <= (223 << 10);
}

const char *cuda_linear_refusal(const cuda_gpu *, const attend_desc *d) {
  const attend_form &f = d->form;
  const bool linear = f.kind == ATTEND_ELU || f.kind == ATTEND_POLY || f.kind == ATTEND_FAVOR ||
                      f.kind == ATTEND_FOURIER || (f.kind == ATTEND_GAUSSIAN && f.features);
  if (!linear) return "the form has no feature map that a GPU computes";
  if (f.kind == ATTEND_POLY && f.degree > MOST_DEGREE)
    return "monomials of a degree above 8 overflow f32 easily";
  if (feature_count(d) > MOST) return "the feature map has more than 65,536 entries";
  if (d->mask.window) return "a sum over keys cannot drop keys: no window";
  if (d->bias.kind != ATTEND_NO_BIAS)
    return "a bias belongs to a pair, and this engine computes no pairs";
  if (d->dim > WIDEST || d->dim_v > WIDEST) return "takes widths up to 256";
  if ((d->purpose & ATTEND_FOR_BACKWARD) && !fits_backward(d))
    return "takes widths up to 128 backward in f32";
  return NULL;
}

/* ---- shapes -------------------------------------------------------------------------- */

struct linear_shape {
  int tiles, slabs, stacks;
  int64_t chunks, query_tiles; /* of the longest sequence */
  size_t floats;               /* of the sums before a chunk, for one stack */
};

static linear_shape shape_of(const attend_desc *d, int n, int64_t keys) {
  linear_shape s;
  const int64_t count = feature_count(d);
  const bool pairs = d->form.kind == ATTEND_FAVOR && d->form.pairs;
  s.tiles = (int)(is_trig(d->form) || pairs ? (count / 2 + 31) / 32 : (count + 63) / 64);
  s.slabs = (d->dim_v + 63) / 64;
  s.stacks = d->batch * d->kv_heads;
  s.chunks = last_chunk(keys) + 1;
  s.query_tiles = (n + 63) / 64 + 1;
  s.floats = (size_t)s.tiles * s.slabs * PART;
  return s;
}

static size_t round_bytes(size_t n) { return (n + 255) / 256 * 256; }
static size_t carry_floats(const linear_shape &s) { return 3 * s.floats + 8; }
static size_t dtype_bytes(attend_dtype t) { return t == ATTEND_F32 ? 4 : 2; }
static size_t stack_bytes(const attend_desc *d, const linear_shape &s) {
  return round_bytes(carry_floats(s) * sizeof(float) +
                     CHUNK * ((d->dim + d->dim_v) * dtype_bytes(d->dtype) + 1));
}

size_t cuda_linear_state_bytes(const cuda_gpu *, const attend_desc *d) {
  return stack_bytes(d, shape_of(d, 1, 1)) * d->kv_heads;
}

/* Chunks whose sums are in memory at a time. */
enum { WAVE_BYTES = 256 << 20 };
static int64_t wave_of(const linear_shape &s, bool all) {
  if (all) return s.chunks;
  const int64_t fit = (int64_t)(WAVE_BYTES / (s.floats * sizeof(float) * s.stacks + 1));
  return std::max<int64_t>(1, std::min(s.chunks, std::max<int64_t>(fit, 16)));
}

/* Cuts the work memory; NULL: returns its bytes. */
struct linear_work {
  unsigned char *base;
  size_t used;
  template <typename T>
  T *cut(size_t n) {
    T *p = base ? (T *)(base + used) : NULL;
    used += round_bytes(n * sizeof(T));
    return p;
  }
};
static size_t cut_work(linear_call &c, const linear_shape &s, size_t mask, void *work) {
  linear_work w = {(unsigned char *)work, 0};
  const size_t chunks =
      (size_t)s.stacks * std::max(wave_of(s, c.ahead), (s.chunks + SUPER - 1) / SUPER);
  c.slot = w.cut<float>(chunks * s.floats);
  c.chunk_m = w.cut<float2>(chunks);
  c.before_m = w.cut<float2>(chunks);
  c.key_norm = w.cut<float2>(chunks * CHUNK);
  c.query_norm = w.cut<float2>((size_t)c.batch * c.heads * s.query_tiles * CHUNK);
  float *carry = w.cut<float>((size_t)s.stacks * carry_floats(s));
  if (!c.state) c.carry = carry;
  if (c.ahead) {
    const size_t tiles = s.query_tiles, rows = (size_t)c.batch * c.heads * tiles * CHUNK;
    c.row_grad = w.cut<float4>(rows);
    c.later = w.cut<float>((size_t)s.stacks * (tiles + 1) * s.floats);
    c.later_m = w.cut<float>((size_t)s.stacks * (tiles + 1));
  }
  c.real = w.cut<uint8_t>(mask);
  return w.used;
}

/* ---- calls --------------------------------------------------------------------------- */

/* Positions, and what is real, of each sequence; returns the most chunks that one spans. */
static int64_t place_sequences(const cuda_linear_call *p, std::vector<linear_sequence> &s) {
  const attend_desc *d = p->call.desc;
  const int32_t *lengths = d->mask.lengths;
  int64_t chunks = 1;
  for (int b = 0; b < d->batch; b++) {
    linear_sequence x = {};
    if (p->state) {
      const int n = lengths ? lengths[b] : p->call.n;
      x.first = p->length[b];
      x.keys = x.first + (p->call.k.data ? n : 0);
      x.position = p->call.before ? p->call.before[b] : x.first;
      x.queries = n;
    } else {
      x.keys = lengths ? lengths[b] : d->kv_len;
      x.position = d->mask.causal == ATTEND_CAUSAL_BOTTOM ? (int64_t)d->kv_len - d->q_len : 0;
      x.queries = p->call.n;
      const uint8_t *real = d->mask.key_mask;
      if (real) real += (size_t)b * d->kv_len;
      while (real && x.first_real < x.keys && !real[x.first_real]) x.first_real++;
    }
    chunks = std::max(chunks, last_chunk(x.keys) - first_chunk(x) + 1);
    s.push_back(x);
  }
  return chunks;
}

/* Shapes of a call. */
static linear_shape shape_of_call(const cuda_linear_call *p, bool backward,
                                  std::vector<linear_sequence> &sequences) {
  linear_shape s = shape_of(p->call.desc, p->call.n, 1);
  s.chunks = place_sequences(p, sequences) + backward;
  return s;
}
static size_t mask_bytes(const cuda_linear_call *p) {
  const attend_desc *d = p->call.desc;
  return d->mask.key_mask ? (size_t)d->batch * (p->state ? p->call.n : d->kv_len) : 0;
}

size_t cuda_linear_bytes(const cuda_gpu *, const cuda_linear_call *p) {
  linear_call c = {};
  std::vector<linear_sequence> sequences;
  const bool backward = p->call.d_o.data != NULL;
  c.batch = p->call.desc->batch, c.heads = p->call.desc->heads;
  c.ahead = backward;
  return cut_work(c, shape_of_call(p, backward, sequences), mask_bytes(p), NULL);
}

/* Host bytes into the work memory, in pieces that staging takes. */
__global__ static void copy_bytes(uint8_t *to, const uint8_t *from, size_t bytes) {
  EACH(i, bytes) to[i] = from[i];
}
static void stage_all(cuda_gpu *gpu, const uint8_t *to, const uint8_t *from, size_t bytes) {
  const size_t piece = 1 << 20;
  for (size_t at = 0; at < bytes; at += piece) {
    const size_t n = std::min(piece, bytes - at);
    const uint8_t *staged = (const uint8_t *)gpu_stage(gpu, from + at, n);
    LAUNCH(gpu, copy_bytes, blocks_for(n, 256), 256, 0, (uint8_t *)to + at, staged, n);
  }
}

static linear_call call_of(cuda_gpu *gpu, const cuda_linear_call *p, bool backward,
                           linear_shape &s) {
  const attend_desc *d = p->call.desc;
  linear_call c = {};
  std::vector<linear_sequence> sequences;
  s = shape_of_call(p, backward, sequences);
  c.ahead = backward, c.row_tiles = (int)s.query_tiles;
  c.batch = d->batch, c.heads = d->heads, c.kv_heads = d->kv_heads;
  c.group = d->heads / d->kv_heads;
  c.n = p->call.n, c.dim = d->dim, c.dim_v = d->dim_v;
  c.causal = d->mask.causal != ATTEND_NOT_CAUSAL;
  c.is_signed = is_signed(d->form), c.shifts = directed(d->form);
  c.tiles = s.tiles, c.slabs = s.slabs;
  c.wave = wave_of(s, c.ahead);
  c.q = p->call.q, c.k = p->call.k, c.v = p->call.v, c.o = p->call.o;
  c.d_o = p->call.d_o, c.dq = p->call.dq, c.dk = p->call.dk, c.dv = p->call.dv;
  c.lse = p->call.lse, c.lse_in = c.lse, c.map = p->map;
  c.weak = (unsigned long long *)p->call.weak_rows;
  c.element = dtype_bytes(d->dtype);
  c.state = (unsigned char *)p->state;
  c.stack_bytes = stack_bytes(d, s);
  c.carry = (float *)p->state;
  c.carry_stride = p->state ? c.stack_bytes / sizeof(float) : carry_floats(s);
  c.real_stride = p->state ? c.n : d->kv_len;
  const size_t mask = mask_bytes(p);
  cut_work(c, s, mask, p->call.work);
  if (mask) stage_all(gpu, c.real, d->mask.key_mask, mask);
  if (!mask || !p->call.k.data) c.real = NULL;
  c.sequence = (const linear_sequence *)gpu_stage(gpu, sequences.data(),
                                                  sequences.size() * sizeof(linear_sequence));
  return c;
}

static void allow(cuda_gpu *gpu, const void *kernel, int shared) {
  gpu_check(gpu, cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared),
            "linear attention");
}

template <typename T, typename E>
static void forward(cuda_gpu *gpu, linear_call &c, const linear_shape &s) {
  c.ldx = raw_row<E>(c.dim);
  const int shared = linear_layout<E>::bytes(c.ldx);
  allow(gpu, (const void *)linear_key_norms<T, E>, shared);
  allow(gpu, (const void *)linear_query_norms<T, E>, shared);
  allow(gpu, (const void *)linear_sums<T, E>, shared);
  allow(gpu, (const void *)linear_rows<T, E>, shared);
  const unsigned tiles = c.q.data ? (unsigned)s.query_tiles : 0;
  const dim3 rows(tiles, c.heads * c.slabs, c.batch);
  if (tiles && c.shifts)
    LAUNCH(gpu, (linear_query_norms<T, E>), dim3(tiles, c.heads, c.batch), LINEAR_THREADS, shared,
           c);
  for (c.from = 0; c.from < s.chunks; c.from += c.wave) {
    const unsigned wave = (unsigned)std::min(c.wave, s.chunks - c.from);
    const bool last = c.from + c.wave >= s.chunks;
    if (c.shifts)
      LAUNCH(gpu, (linear_key_norms<T, E>), dim3(wave, s.stacks), LINEAR_THREADS, shared, c);
    if (s.chunks > 1)
      LAUNCH(gpu, (linear_sums<T, E>), dim3(wave, s.stacks, c.tiles * c.slabs), LINEAR_THREADS,
             shared, c);
    LAUNCH(gpu, linear_scan, dim3((unsigned)((s.floats + 255) / 256), s.stacks), 256, 0, c);
    if (tiles) LAUNCH(gpu, (linear_rows<T, E>), rows, LINEAR_THREADS, shared, c);
    if (!last || c.state)
      LAUNCH(gpu, (linear_keep<T>), s.stacks, 256, 0, c, last && c.state && c.k.data);
  }
}

void cuda_linear_forward(cuda_gpu *gpu, const cuda_linear_call *p) {
  linear_shape s;
  const attend_desc *d = p->call.desc;
  if (!d->batch || !d->heads || !p->call.n) return;
  linear_call c = call_of(gpu, p, false, s);
  if (linear_scan_fits(c, d->dtype)) {
    linear_scan_forward(gpu, c, s.chunks);
    return;
  }
  if (d->dtype == ATTEND_F32) forward<float, float>(gpu, c, s);
  if (d->dtype == ATTEND_F16) forward<__half, float>(gpu, c, s);
  if (d->dtype == ATTEND_BF16 && c.is_signed) forward<bf16, float>(gpu, c, s);
  if (d->dtype == ATTEND_BF16 && !c.is_signed) forward<bf16, bf16>(gpu, c, s);
}

/* ---- backward ------------------------------------------------------------------------ */

template <typename T, typename E>
static void backward(cuda_gpu *gpu, linear_call &c, const linear_shape &s) {
  c.ldx = raw_row<E>(c.dim);
  const int first = linear_layout<E>::bytes(c.ldx),
            shared = backward_shared<E>(c.ldx, c.map.kind == CUDA_MAP_POLY, c.shifts);
  allow(gpu, (const void *)linear_key_norms<T, E>, first);
  allow(gpu, (const void *)linear_query_norms<T, E>, first);
  allow(gpu, (const void *)linear_sums<T, E>, first);
  allow(gpu, (const void *)linear_dq<T, E>, shared);
  allow(gpu, (const void *)linear_row_sums<T, E>, shared);
  allow(gpu, (const void *)linear_dk<T, E>, shared);
  allow(gpu, (const void *)linear_dv<T, E>, shared);
  const unsigned tiles = (unsigned)s.query_tiles, chunks = (unsigned)s.chunks, stacks = s.stacks;
  const unsigned parts = c.tiles * c.slabs, elements = (unsigned)((s.floats + 255) / 256);
  const unsigned x_slabs = (c.dim + 63) / 64, all_chunks = (unsigned)((c.real_stride + 63) / 64);
  if (c.shifts) {
    LAUNCH(gpu, (linear_query_norms<T, E>), dim3(tiles, c.heads, c.batch), LINEAR_THREADS, first,
           c);
    LAUNCH(gpu, (linear_key_norms<T, E>), dim3(chunks, stacks), LINEAR_THREADS, first, c);
  }
  LAUNCH(gpu, (linear_sums<T, E>), dim3(chunks, stacks, parts), LINEAR_THREADS, first, c);
  LAUNCH(gpu, linear_scan, dim3(elements, stacks), 256, 0, c);
  LAUNCH(gpu, (linear_dq<T, E>), dim3(tiles, c.heads * x_slabs, c.batch), LINEAR_THREADS, shared,
         c);
  LAUNCH(gpu, (linear_row_sums<T, E>), dim3(tiles, stacks, parts), LINEAR_THREADS, shared, c);
  LAUNCH(gpu, linear_scan_rows, dim3(elements, stacks), 256, 0, c);
  if (!all_chunks) return;
  LAUNCH(gpu, (linear_dk<T, E>), dim3(all_chunks, stacks, x_slabs), LINEAR_THREADS, shared, c);
  LAUNCH(gpu, (linear_dv<T, E>), dim3(all_chunks, stacks, c.slabs), LINEAR_THREADS, shared, c);
}

void cuda_linear_backward(cuda_gpu *gpu, const cuda_linear_call *p) {
  linear_shape s;
  const attend_desc *d = p->call.desc;
  if (!d->batch || !d->heads || (!p->call.n && !d->kv_len)) return;
  std::vector<linear_sequence> sequences;
  linear_call c = call_of(gpu, p, true, s);
  place_sequences(p, sequences);
  if (linear_scan_fits_backward(c, d->dtype, sequences.data())) {
    linear_scan_backward(gpu, c);
    return;
  }
  if (d->dtype == ATTEND_F32) backward<float, float>(gpu, c, s);
  if (d->dtype == ATTEND_F16) backward<__half, float>(gpu, c, s);
  if (d->dtype == ATTEND_BF16 && c.is_signed) backward<bf16, float>(gpu, c, s);
  if (d->dtype == ATTEND_BF16 && !c.is_signed) backward<bf16, bf16>(gpu, c, s);
}
