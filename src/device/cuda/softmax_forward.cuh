/* Softmax attention on Hopper, forward: FlashAttention-3's schedule (Shah et al. 2024) with sums in
 * an order that is fixed.
 *
 * A CTA computes tiles of 64 rows for each of WGS consumer warpgroups; a producer warp loads with
 * TMA, keys and values from views or from pages (cuda.h). Within a warpgroup the scores of block
 * j + 1 are computed while the weights of block j multiply the values; between warpgroups named
 * barriers pass a turn, so that one computes exponentials while another multiplies. The rows of a
 * warpgroup are `per` positions of `pack` heads of one kv head: few positions share loaded keys.
 * Producers take items from a counter, long ones first.
 *
 * Bits: a row's result depends on that row, its keys and the description alone. Keys are read in
 * blocks of KEYS at fixed positions. Blocks of 1024 keys are one chain of sums, and the chains are
 * added in order; the maximum that a block subtracts is an integer, so that rescaling is exact. Keys
 * may therefore be split among CTAs at any multiple of 1024, which is how few queries over many keys
 * occupy the GPU (Flash-Decoding): softmax_join adds the chains. Blocks that no row of a tile sees are
 * skipped: they would add zeros. Tensor cores give a row and a column the same bits whatever the
 * shape of the instruction (tests/gpu/test_tensor_cores.cu).
 *
 * What is masked: a masked key's score is replaced, but the product of weights and values multiplies
 * a masked value by 0, and 0 NaN is NaN. A tile (or chain) with a row that is not finite is therefore
 * computed again, `clean`: each value that is not finite is 0 for the product, and is added to
 * the rows whose weight for it is not 0. Finite elements have the same bits as if masked values
 * were finite; an element is NaN or infinite if a value is that its row gives weight to.
 */
#ifndef DEVICE_CUDA_SOFTMAX_FORWARD_CUH
#define DEVICE_CUDA_SOFTMAX_FORWARD_CUH

#include "device/cuda/hopper.cuh"
#include "device/cuda/softmax_mask.cuh"

enum { KEYS = 128, JOIN = 8, CHAIN = KEYS * JOIN }; /* CHAIN: keys whose sums are one chain */

/* n / d for n < 2^31 by a product (Granlund and Montgomery 1994). */
struct divisor {
  uint32_t by, times, shift;
};
static inline divisor divisor_of(int d) {
  divisor x = {(uint32_t)d, 0, 0};
  while (((uint64_t)1 << x.shift) < x.by) x.shift++;
  x.times = (uint32_t)((((uint64_t)1 << 32) * (((uint64_t)1 << x.shift) - x.by)) / x.by + 1);
  return x;
}
__device__ inline int divide(int n, const divisor &d) {
  return (int)((__umulhi((uint32_t)n, d.times) + (uint32_t)n) >> d.shift);
}

struct forward_call {
  CUtensorMap q, o; /* [B,n,H,width], boxes of 64 columns, pack heads, per rows */
  CUtensorMap k, v; /* views [B,G,S,width]; widths past the tensors' read as zeros */
  softmax_rule rule;
  const void *values; /* of views: v, its strides and keys */
  int64_t values_stride[3];
  int values_keys, values_width;
  void *const *page; /* [B][page_stride], or NULL: views */
  int64_t page_stride;
  int64_t page_head, page_values, page_real; /* bytes of a head; where its values, the marks are */
  int page_k_slabs, page_v_slabs;
  const uint8_t *real; /* views: marks of keys, [B][real_stride] */
  int64_t real_stride;
  float *lse; /* [B,H,n] or NULL */
  int batch, heads, group, n;
  int pack, per;    /* heads and positions of a warpgroup's rows */
  int tiles, items; /* row tiles of a head; all work items */
  divisor by_span, by_chunk, by_last, by_packed, by_group, by_tiles, by_wide, by_pack;
  int chunk;         /* heads whose tiles follow each other */
  float *totals;     /* of wide heads: [CTAs][WGS][64 width] */
  unsigned *counter; /* [2]: items taken, CTAs that are done; zeros between kernels */
  /* Split: an item is a chain of keys for a tile; its sums go here. */
  int chains; /* of a sequence, if they are not listed */
  int part_rows;
  void *out; /* o, for softmax_join: its strides, in elements */
  int64_t out_batch, out_head, out_row;
  int width;
  float *part_o; /* [items][part_rows][DV] */
  float2 *part;  /* [items][part_rows]: max, sum */
};

template <typename T_, int DK_, int DV_, int KEYS_, int WGS_, int STAGES_, bool SPLIT_,
          bool BIASED_>
struct forward_kind {
  using T = T_;
  static constexpr int DK = DK_, DV = DV_, KEYS = KEYS_, WGS = WGS_, STAGES = STAGES_;
  static constexpr bool SPLIT = SPLIT_, BIASED = BIASED_;
  static constexpr bool FOLD_LATE = !SPLIT && DV > 64; /* while the next scores are computed */
  static constexpr int JOIN = CHAIN / KEYS, k_slabs = (DK + 63) / 64, v_slabs = (DV + 63) / 64;
  static constexpr int rows = 64 * WGS, slab_bytes = KEYS * SLAB_BYTES;
  static constexpr int q_bytes = rows * SLAB_BYTES * k_slabs;
  static constexpr int k_bytes = slab_bytes * k_slabs, v_bytes = slab_bytes * v_slabs;
  /* Chains that are summed so far; then o on its way out. Split items are one chain. */
  static constexpr bool totals_here = !SPLIT && DV <= 128;
  static constexpr int total_bytes = totals_here ? rows * DV * 4 : 0;
  static constexpr int k_at = q_bytes, v_at = k_at + STAGES * k_bytes;
  static constexpr int total_at = v_at + STAGES * v_bytes;
  static constexpr int real_at = total_at + total_bytes;
  static constexpr int state_at = real_at + STAGES * KEYS;
  static constexpr int bytes =
      state_at + 8 * (2 + 4 * STAGES) + 4 * 6 + WGS * (KEYS / 8 + DV * 4) + 1024;
};

/* Barriers and what producer and consumers tell each other. */
template <class L>
struct forward_state {
  uint64_t q_full, q_empty, k_full[L::STAGES], k_empty[L::STAGES], v_full[L::STAGES],
      v_empty[L::STAGES];
  int item;     /* a number, with CLEAN; or one of the two below */
  int again[4]; /* item number i of this CTA, at i % 4, is to be computed again */
  uint32_t bad[L::WGS][L::KEYS / 32]; /* clean: keys that have values that are not finite */
  float line[L::WGS][L::DV];          /* such a key's; the finite ones as 0 */
};
enum { CLEAN = 1 << 30, NO_ITEM = -1, NO_MORE = -2 };

/* 2^e of an integer e <= 0, exactly; 0 below the normal numbers. */
__device__ inline float power_of_2(float e) {
  return e < -126.f ? 0.f : __int_as_float(((int)e + 127) << 23);
}
__device__ inline float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ inline uint32_t pack(float a, float b, __nv_bfloat16) {
  uint32_t y;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(b), "f"(a));
  return y;
}
__device__ inline uint32_t pack(float a, float b, __half) {
  uint32_t y;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(b), "f"(a));
  return y;
}
__device__ inline bool finite(float x) { return fabsf(x) < INFINITY; }

/* ---- items ----------------------------------------------------------------------------- */

/* A tile of rows: its first head and position, blocks of keys [first, end). */
struct forward_item {
  int number, head, batch, kv_head, position, first, end;
  softmax_sequence sequence;
};

/* Blocks of keys that some of `count` positions from query `from` on see. */
template <class L>
__device__ inline key_range blocks_seen(const forward_call &c, const softmax_sequence &s, int from,
                                        int count) {
  const int last = min(from + count, s.rows) - 1;
  if (last < from) return {0, 0};
  const key_range r = some_row_sees(c.rule, s.keys, s.before + from, s.before + last);
  if (r.first >= r.end) return {0, 0};
  return {r.first / L::KEYS, (r.end + L::KEYS - 1) / L::KEYS};
}

/* Tiles: heads come in chunks whose keys and values stay in L2; within a chunk heads follow each
 * other, and causal tiles are in falling order, long ones first. Split: the tiles of a sequence's
 * chain follow each other. */
template <class L>
__device__ inline forward_item item_at(const forward_call &c, int item) {
  const int packed = (int)c.by_packed.by; /* packs of heads of a sequence */
  forward_item at;
  at.number = item;
  int pack, tile, chain = 0;
  if (L::SPLIT) {
    const int place = divide(item, c.by_wide), rest = item - place * (int)c.by_wide.by;
    int low = 0, high = c.batch - 1;
    while (low < high) { /* the last sequence whose chains begin at or before */
      const int middle = (low + high + 1) / 2;
      const int begin =
          c.rule.listed ? sequence_at(c.rule, middle).chains_before : middle * c.chains;
      if (begin <= place)
        low = middle;
      else
        high = middle - 1;
    }
    at.batch = low;
    at.sequence = sequence_at(c.rule, low);
    const int begin = c.rule.listed ? at.sequence.chains_before : low * c.chains;
    chain = at.sequence.first_chain + place - begin;
    pack = divide(rest, c.by_tiles), tile = rest - pack * c.tiles;
  } else {
    const int from = divide(item, c.by_span) * c.chunk, rest = item - from * c.tiles;
    const bool last = from + c.chunk > packed * c.batch; /* a shorter chunk */
    const int t = last ? divide(rest, c.by_last) : divide(rest, c.by_chunk);
    const int at_all = from + rest - t * (int)(last ? c.by_last.by : c.by_chunk.by);
    tile = c.rule.causal ? c.tiles - 1 - t : t;
    at.batch = divide(at_all, c.by_packed), pack = at_all - at.batch * packed;
    at.sequence = sequence_at(c.rule, at.batch);
  }
  at.head = pack * c.pack;
  at.kv_head = divide(at.head, c.by_group);
  at.position = tile * c.per * L::WGS;
  const key_range r = blocks_seen<L>(c, at.sequence, at.position, c.per * L::WGS);
  at.first = L::SPLIT ? max(r.first, chain * L::JOIN) : r.first;
  at.end = L::SPLIT ? max(at.first, min(r.end, chain * L::JOIN + L::JOIN)) : r.end;
  return at;
}

/* ---- sums ------------------------------------------------------------------------------ */

/* Weights of a block in place of its scores; corrects what is summed so far by `factor`. */
template <int N>
__device__ inline void weights_of(float (&s)[N], float scale, float (&max)[2], float (&sum)[2],
                                  float (&factor)[2]) {
#pragma unroll
  for (int r = 0; r < 2; r++) {
    float m0 = -INFINITY, m1 = -INFINITY;
#pragma unroll
    for (int i = 0; i < N; i += 4) {
      m0 = fmaxf(m0, s[i + 2 * r]);
      m1 = fmaxf(m1, s[i + 2 * r + 1]);
    }
    float m = fmaxf(m0, m1);
    m = fmaxf(m, __shfl_xor_sync(~0u, m, 1));
    m = fmaxf(m, __shfl_xor_sync(~0u, m, 2));
    float to = fmaxf(max[r], ceilf(m * scale));
    factor[r] = max[r] == to ? 1.f : power_of_2(max[r] - to); /* -inf: 0 */
    max[r] = to;
    float minus = to == -INFINITY ? 0.f : -to;
    float a = 0.f, b = 0.f;
#pragma unroll
    for (int i = 0; i < N; i += 4) {
      a += s[i + 2 * r] = exp2_fast(fmaf(s[i + 2 * r], scale, minus));
      b += s[i + 2 * r + 1] = exp2_fast(fmaf(s[i + 2 * r + 1], scale, minus));
    }
    sum[r] = sum[r] * factor[r] + (a + b);
  }
}

template <typename T, int N>
__device__ inline void pack_weights(const float (&s)[N], uint32_t (&p)[N / 8][4]) {
#pragma unroll
  for (int j = 0; j < N / 8; j++)
#pragma unroll
    for (int i = 0; i < 4; i++) p[j][i] = pack(s[8 * j + 2 * i], s[8 * j + 2 * i + 1], T());
}

/* s = q k^T: 64 rows of slabs of L::rows. */
template <class L>
__device__ inline void scores(const unsigned char *q, const unsigned char *k,
                              float (&s)[L::KEYS / 2]) {
  const uint64_t a = operand_rows(q), b = operand_rows(k);
#pragma unroll
  for (int i = 0; i < L::DK / 16; i++) {
    const uint64_t a_at = (uint64_t)((i / 4) * L::rows * SLAB_BYTES + i % 4 * 32) >> 4;
    const uint64_t b_at = (uint64_t)((i / 4) * L::slab_bytes + i % 4 * 32) >> 4;
    wgmma<typename L::T, L::KEYS>::of_shared(s, a + a_at, b + b_at, i > 0);
  }
}
/* o (+)= p v. */
template <class L>
__device__ inline void multiply_values(const uint32_t (&p)[L::KEYS / 16][4], const unsigned char *v,
                                       float (&o)[L::DV / 2], int add) {
  const uint64_t b = operand_columns(v, L::slab_bytes);
#pragma unroll
  for (int i = 0; i < L::KEYS / 16; i++)
    wgmma<typename L::T, L::DV>::of_registers(o, p[i], b + (uint64_t)(i * 16 * SLAB_BYTES >> 4),
                                              add || i > 0);
}

/* The log of the denominator 2^max sum. */
__device__ inline float lse_of(float max, float sum) {
  return sum == 0.f ? -INFINITY : (max + log2f(sum)) * 0.69314718055994530942f;
}

/* The sums of all chains so far, of one warpgroup: o in memory [DV / 8][128][4]. */
struct chain_totals {
  float max[2], sum[2];
  bool any;
};

template <int D>
__device__ inline void fold(chain_totals &t, float4 *total, int thread, float (&o)[D / 2],
                            const float (&max)[2], const float (&sum)[2], bool last) {
  float was[2], is[2];
#pragma unroll
  for (int r = 0; r < 2; r++) {
    float s = sum[r];
    s += __shfl_xor_sync(~0u, s, 1);
    s += __shfl_xor_sync(~0u, s, 2);
    float to = t.any ? fmaxf(t.max[r], max[r]) : max[r];
    was[r] = !t.any || t.max[r] == -INFINITY ? 0.f : power_of_2(t.max[r] - to);
    is[r] = max[r] == -INFINITY ? 0.f : power_of_2(max[r] - to);
    t.sum[r] = (t.any ? t.sum[r] * was[r] : 0.f) + s * is[r];
    t.max[r] = to;
  }
#pragma unroll
  for (int i = 0; i < D / 8; i++) {
    float4 x = {o[4 * i] * is[0], o[4 * i + 1] * is[0], o[4 * i + 2] * is[1], o[4 * i + 3] * is[1]};
    if (t.any) {
      float4 y = total[i * 128 + thread];
      x.x += y.x * was[0], x.y += y.y * was[0], x.z += y.z * was[1], x.w += y.w * was[1];
    }
    if (!last) total[i * 128 + thread] = x;
    o[4 * i] = x.x, o[4 * i + 1] = x.y, o[4 * i + 2] = x.z, o[4 * i + 3] = x.w;
  }
  t.any = true;
}

/* ---- the producer: one warp --------------------------------------------------------------- */

/* The address of a sequence's page; past its last page that one, whose keys are masked. */
__device__ inline const unsigned char *page_at(const forward_call &c, int batch, int keys,
                                               int page) {
  return (const unsigned char *)
      c.page[batch * c.page_stride + min(page, (keys + ATTEND_PAGE - 1) / ATTEND_PAGE - 1)];
}

template <class L>
__device__ inline void load_queries(const forward_call &c, const forward_item &at,
                                    unsigned char *memory, uint64_t *full) {
  barrier_expect(full, L::WGS * L::k_slabs * c.pack * c.per * SLAB_BYTES);
  for (int s = 0; s < L::k_slabs; s++)
    for (int w = 0; w < L::WGS; w++)
      tma_load(&c.q, memory + (s * L::WGS + w) * 64 * SLAB_BYTES, full, s * SLAB, at.head,
               at.position + w * c.per, at.batch);
}

/* One block of keys or values. pages: of this lane, from page `base` on. */
template <class L, int SLABS>
__device__ inline void load_block(const forward_call &c, const CUtensorMap *map,
                                  const forward_item &at, int j, const unsigned char *pages,
                                  int base, int64_t part, int page_slabs, unsigned char *to,
                                  unsigned char *real, uint64_t *full) {
  constexpr int PAGES = L::KEYS / ATTEND_PAGE, HALF = ATTEND_PAGE * SLAB_BYTES;
  const int lane = threadIdx.x % 32;
  const int slabs = c.page ? min(SLABS, page_slabs) : SLABS;
  if (lane == 0) barrier_expect(full, slabs * L::slab_bytes + (real ? L::KEYS : 0));
  if (c.page) {
    const int half = lane % PAGES, slab = lane / PAGES;
    const unsigned char *page =
        (const unsigned char *)__shfl_sync(~0u, (unsigned long long)pages, j * PAGES - base + half);
    __syncwarp();
    if (slab < slabs)
      bulk_load(page + at.kv_head * c.page_head + part + slab * HALF,
                to + slab * L::slab_bytes + half * HALF, full, HALF);
    if (real && slab == 0)
      bulk_load(page + c.page_real, real + half * ATTEND_PAGE, full, ATTEND_PAGE);
  } else if (lane == 0) {
    for (int s = 0; s < SLABS; s++)
      tma_load(map, to + s * L::slab_bytes, full, s * SLAB, j * L::KEYS, at.kv_head, at.batch);
    if (real) bulk_load(c.real + at.batch * c.real_stride + j * L::KEYS, real, full, L::KEYS);
  }
}

template <class L>
__device__ inline void produce_item(const forward_call &c, const forward_item &at,
                                    unsigned char *memory, forward_state<L> *state, int &filled) {
  constexpr int PAGES = L::KEYS / ATTEND_PAGE;
  const unsigned char *pages = NULL;
  int base = 0;
  for (int j = at.first; j < at.end; j++, filled++) {
    const int stage = filled % L::STAGES, parity = (filled / L::STAGES & 1) ^ 1;
    if (c.page && (j == at.first || j * PAGES - base >= 32)) {
      base = j * PAGES;
      pages = page_at(c, at.batch, at.sequence.keys, base + threadIdx.x % 32);
    }
    barrier_wait(&state->k_empty[stage], parity);
    load_block<L, L::k_slabs>(
        c, &c.k, at, j, pages, base, 0, c.page_k_slabs, memory + L::k_at + stage * L::k_bytes,
        c.rule.padded ? memory + L::real_at + stage * L::KEYS : NULL, &state->k_full[stage]);
    barrier_wait(&state->v_empty[stage], parity);
    load_block<L, L::v_slabs>(c, &c.v, at, j, pages, base, c.page_values, c.page_v_slabs,
                              memory + L::v_at + stage * L::v_bytes, NULL, &state->v_full[stage]);
  }
}

/* When consumers have read the queries of item i - 1, they have finished item i - 2: the last two
 * items are known to be good, or come again, before the end is told. */
template <class L>
__device__ inline void produce(const forward_call &c, unsigned char *memory,
                               forward_state<L> *state) {
  const int lane = threadIdx.x % 32;
  int filled = 0, taken = blockIdx.x, last = NO_ITEM, before = NO_ITEM;
  for (int i = 0;; i++) {
    barrier_wait(&state->q_empty, (i & 1) ^ 1);
    int next = NO_MORE;
    if (lane == 0) {
      volatile int *again = &state->again[(i + 2) % 4];
      if (i >= 2 && *again) {
        *again = 0;
        next = before | CLEAN;
      } else if (taken < c.items) {
        next = taken;
        taken = gridDim.x + atomicAdd(c.counter, 1);
      } else if (last >= 0 && !(last & CLEAN)) {
        next = NO_ITEM;
      }
      *(volatile int *)&state->item = next;
    }
    next = __shfl_sync(~0u, next, 0);
    before = last, last = next;
    if (next < 0) {
      if (lane == 0) barrier_arrive(&state->q_full);
      if (next == NO_MORE) break;
      continue;
    }
    const forward_item at = item_at<L>(c, next & ~CLEAN);
    if (lane == 0) load_queries<L>(c, at, memory, &state->q_full);
    produce_item<L>(c, at, memory, state, filled);
  }
  if (lane == 0 && atomicAdd(c.counter + 1, 1) == gridDim.x - 1) c.counter[0] = c.counter[1] = 0;
}

/* ---- clean passes ------------------------------------------------------------------------- */

/* Element x of key j's values; 0 where there is no such key. */
template <class L>
__device__ inline float value_at(const forward_call &c, const forward_item &at, int key, int x) {
  const typename L::T *v;
  if (c.page) {
    if (x >= c.page_v_slabs * SLAB) return 0.f;
    v = (const typename L::T *)(page_at(c, at.batch, at.sequence.keys, key / ATTEND_PAGE) +
                                at.kv_head * c.page_head + c.page_values) +
        cuda_page_at(2, L::DV, key % ATTEND_PAGE, x);
  } else {
    if (key >= c.values_keys || x >= c.values_width) return 0.f;
    v = (const typename L::T *)c.values + at.batch * c.values_stride[0] +
        at.kv_head * c.values_stride[1] + key * c.values_stride[2] + x;
  }
  return (float)*v;
}

/* The same number in all threads of a warp, as wgmma needs what branches depend on. */
__device__ inline int uniform(int x) { return __shfl_sync(~0u, x, 0); }
/* A number that the compiler does not follow: what comes from it is computed anew, not kept. */
__device__ inline int opaque(int x) {
  asm volatile("" : "+r"(x));
  return x;
}

/* Block j of a clean pass, before its product: values that are not finite become 0 in shared memory
 * and are added to o where the weight is not 0. Warpgroups that share the block write the same. */
template <class L>
__device__ inline void clean_block(const forward_call &c, int item, int j, unsigned char *v,
                                   forward_state<L> *state, int wg, int thread, int barrier,
                                   const uint32_t (&p)[L::KEYS / 16][4], float (&o)[L::DV / 2],
                                   bool &fresh) {
  constexpr int WIDE = L::v_slabs * SLAB;
  const forward_item at = item_at<L>(c, opaque(item) & ~CLEAN);
  uint32_t *bad = state->bad[wg];
  float *line = state->line[wg];
  if (fresh) {
#pragma unroll
    for (int i = 0; i < L::DV / 2; i++) o[i] = 0.f;
    fresh = false;
  }
  if (thread < L::KEYS / 32) bad[thread] = 0;
  named_sync(barrier, 128);
  for (int i = thread; i < L::KEYS * WIDE; i += 128) {
    const int x = i % WIDE, key = i / WIDE;
    if (finite(value_at<L>(c, at, j * L::KEYS + key, x))) continue;
    atomicOr(&bad[key / 32], 1u << key % 32);
    *(uint16_t *)(v + x / SLAB * L::slab_bytes + key * SLAB_BYTES +
                  ((x % SLAB / 8) ^ (key % 8)) * 16 + x % 8 * 2) = 0;
  }
  fence_shared();
  named_sync(barrier, 128);
  for (int key = 0; key < L::KEYS; key++) {
    if (!(uniform(bad[key / 32]) >> key % 32 & 1)) continue;
    for (int x = thread; x < L::DV; x += 128) {
      const float y = value_at<L>(c, at, j * L::KEYS + key, x);
      line[x] = finite(y) ? 0.f : y;
    }
    named_sync(barrier, 128);
    uint32_t w[2] = {0, 0};
#pragma unroll
    for (int i = 0; i < L::KEYS / 8; i++)
#pragma unroll
      for (int r = 0; r < 2; r++)
        asm volatile("{ .reg .pred here; setp.eq.s32 here, %2, 0; @here mov.b32 %0, %1; }"
                     : "+r"(w[r])
                     : "r"(p[i / 2][i % 2 * 2 + r]), "r"(key / 8 - i));
#pragma unroll
    for (int r = 0; r < 2; r++)
      w[r] = __shfl_sync(~0u, w[r], (thread % 32 & ~3) | key % 8 / 2) >> key % 2 * 16 & 0x7fff;
#pragma unroll
    for (int i = 0; i < L::DV / 2; i++)
      o[i] += w[i / 2 % 2] ? line[8 * (i / 4) + 2 * (thread % 4) + i % 2] : 0.f;
    named_sync(barrier, 128);
  }
}

/* ---- consumers ---------------------------------------------------------------------------- */

template <class L>
__device__ inline row_pair rows_of(const forward_call &c, const forward_item &at, int position,
                                   int thread) {
  row_pair x;
#pragma unroll
  for (int r = 0; r < 2; r++) {
    const int row = 16 * (thread / 32) + thread % 32 / 4 + 8 * r;
    const int down = divide(row, c.by_pack), query = position + down;
    const bool real = row < c.per * c.pack && query < at.sequence.rows;
    x.query[r] = real ? query : -1;
    x.head[r] = at.head + row - down * c.pack;
    x.position[r] = at.sequence.before + query;
  }
  return x;
}

/* A warpgroup's rows of o, staged in slabs of shared memory in place of its totals, or, of wide
 * heads, written element by element. Returns whether a row is not finite. */
template <class L>
__device__ inline bool store(const forward_call &c, const forward_item &at, int position,
                             const row_pair &rows, int thread, int barrier, unsigned char *staging,
                             const float (&o)[L::DV / 2], const chain_totals &t) {
  using T = typename L::T;
  bool bad = false;
  if (L::totals_here) named_sync(barrier, 128); /* every thread has read its totals */
#pragma unroll
  for (int r = 0; r < 2; r++) {
    const int in = 16 * (thread / 32) + thread % 32 / 4 + 8 * r;
    const int query = position + divide(in, c.by_pack);
    const bool none = rows.query[r] < 0 || t.sum[r] == 0.f,
               there = in < c.per * c.pack && query < c.n;
    const float inverse = none ? 0.f : 1.f / t.sum[r];
#pragma unroll
    for (int i = 0; i < L::DV / 8; i++) {
      /* + 0: blocks that are skipped for other rows turn -0 into 0 */
      const float x = none ? 0.f : fmaf(o[4 * i + 2 * r], inverse, 0.f);
      const float y = none ? 0.f : fmaf(o[4 * i + 2 * r + 1], inverse, 0.f);
      bad |= !finite(x) || !finite(y);
      if (L::totals_here) {
        *(uint32_t *)(staging + i / 8 * 64 * SLAB_BYTES + in * SLAB_BYTES +
                      ((i % 8) ^ (in % 8)) * 16 + thread % 4 * 4) = pack(x, y, T());
      } else if (there) {
        const int column = 8 * i + 2 * (thread % 4);
        T *to = (T *)c.out + at.batch * c.out_batch + rows.head[r] * c.out_head + query * c.out_row;
        if (column < c.width) to[column] = (T)x;
        if (column + 1 < c.width) to[column + 1] = (T)y;
      }
    }
    if (c.lse && thread % 4 == 0 && there)
      c.lse[((int64_t)at.batch * c.heads + rows.head[r]) * c.n + query] =
          none ? -INFINITY : lse_of(t.max[r], t.sum[r]);
  }
  if (L::totals_here) {
    fence_shared();
    named_sync(barrier, 128);
    if (thread == 0 && position < c.n) {
#pragma unroll
      for (int s = 0; s < L::v_slabs; s++)
        tma_store(&c.o, staging + s * 64 * SLAB_BYTES, s * SLAB, at.head, position, at.batch);
      tma_store_commit();
    }
  }
  return bad;
}

/* A chain's sums, for softmax_join. Returns whether a row is not finite. */
template <class L>
__device__ inline bool store_part(const forward_call &c, const forward_item &at,
                                  const row_pair &rows, int thread, const float (&o)[L::DV / 2],
                                  const chain_totals &t) {
  bool bad = false;
#pragma unroll
  for (int r = 0; r < 2; r++) {
    const int row = 16 * (thread / 32) + thread % 32 / 4 + 8 * r;
    if (rows.query[r] < 0) continue;
    const int64_t to = (int64_t)at.number * c.part_rows + row;
    bad |= !finite(t.sum[r]);
#pragma unroll
    for (int i = 0; i < L::DV / 8; i++) {
      const float2 x = {o[4 * i + 2 * r], o[4 * i + 2 * r + 1]};
      bad |= !finite(x.x) || !finite(x.y);
      *(float2 *)(c.part_o + to * L::DV + 8 * i + 2 * (thread % 4)) = x;
    }
    if (thread % 4 == 0) c.part[to] = {t.max[r], t.sum[r]};
  }
  return bad;
}

template <class L>
__device__ inline void consume(const forward_call &c, unsigned char *memory,
                               forward_state<L> *state) {
  constexpr int D = L::DV, KEYS = L::KEYS, STAGES = L::STAGES, WGS = L::WGS;
  const int wg = __shfl_sync(~0u, (int)threadIdx.x / 128, 0) - 1, thread = threadIdx.x % 128;
  const bool leader = thread == 0;
  const unsigned char *q = memory + wg * 64 * SLAB_BYTES;
  float4 *total = L::totals_here ? (float4 *)(memory + L::total_at) + wg * 64 * D / 4
                                 : (float4 *)c.totals + (blockIdx.x * WGS + wg) * (64 * D / 4);
  const int mine = 1 + wg, next = 1 + (wg + 1) % WGS, own = 1 + WGS + wg;
  const float scale = L::BIASED ? 1.f : c.rule.scale_to2;
  int filled = 0, tiles = 0;
  if (WGS > 1 && wg == WGS - 1) named_arrive(next, 256);
  for (;; tiles++) {
    barrier_wait(&state->q_full, tiles & 1);
    const int item = uniform(*(volatile int *)&state->item);
    if (item == NO_MORE) break;
    if (L::totals_here && leader) tma_store_wait(); /* o of the tile before has left the totals */
    named_sync(own, 128);
    if (item == NO_ITEM) {
      if (leader) barrier_arrive(&state->q_empty);
      continue;
    }
    const bool clean = item & CLEAN;
    const forward_item at = item_at<L>(c, item & ~CLEAN);
    const int position = at.position + wg * c.per;
    const row_pair rows = rows_of<L>(c, at, position, thread);
    key_range seen = {at.first, at.end};
    int whole_first = 0, whole_end = 0; /* blocks that every row sees whole */
    {
      const int last = min(position + c.per, at.sequence.rows) - 1;
      if (WGS > 1) {
        seen = blocks_seen<L>(c, at.sequence, position, c.per);
        if (seen.first >= seen.end) seen = {at.end, at.end};
      }
      if (last >= position && !c.rule.padded) {
        const key_range every = every_row_sees(
            c.rule, at.sequence.keys, at.sequence.before + position, at.sequence.before + last);
        whole_first = (every.first + KEYS - 1) / KEYS, whole_end = every.end / KEYS;
      }
    }
    const int first = uniform(at.first), from = uniform(seen.first), to = uniform(seen.end);
    whole_first = uniform(whole_first), whole_end = uniform(whole_end);
    chain_totals t = {{-INFINITY, -INFINITY}, {0.f, 0.f}, false};
    float o[D / 2], max[2] = {-INFINITY, -INFINITY}, sum[2] = {0.f, 0.f}, factor[2];
    uint32_t p[KEYS / 16][4];
    float s[KEYS / 2];
    auto skip = [&] { /* a block for other warpgroups alone */
                      const int stage = filled % STAGES, parity = filled / STAGES & 1;
                      if (WGS > 1) named_sync(mine, 256), named_arrive(next, 256);
                      barrier_wait(&state->k_full[stage], parity);
                      if (leader) barrier_arrive(&state->k_empty[stage]);
                      barrier_wait(&state->v_full[stage], parity);
                      if (leader) barrier_arrive(&state->v_empty[stage]);
                      filled++;
    };
    auto read_scores = [&](int j,
                           int stage) { /* s of block j is there */
                                        if (L::BIASED)
                                          bias_scores(c.rule, s, j * KEYS, at.batch, rows);
                                        if (c.rule.padded)
                                          hide_padding(s, memory + L::real_at + stage * KEYS);
                                        if (j < whole_first || j >= whole_end)
                                          mask_scores(c.rule, s, j * KEYS, at.sequence.keys, rows);
    };
    for (int j = first; j < from; j++) skip();
    if (from < to) {
      int stage = filled % STAGES;
      barrier_wait(&state->k_full[stage], filled / STAGES & 1);
      if (WGS > 1) named_sync(mine, 256);
      wgmma_begin();
      scores<L>(q, memory + L::k_at + stage * L::k_bytes, s);
      wgmma_commit();
      if (WGS > 1) named_arrive(next, 256);
      wgmma_wait<0>();
      wgmma_hold(s);
      read_scores(from, stage);
      if (leader) barrier_arrive(&state->k_empty[stage]);
      if (leader && to == from + 1) barrier_arrive(&state->q_empty);
      weights_of(s, scale, max, sum, factor);
      pack_weights<typename L::T>(s, p);
      bool fresh = true; /* o holds nothing of this chain yet */
      /* The chain before it is folded while the next scores are computed. */
      bool folds = false;
      float chain_max[2], chain_sum[2];
      auto fold_chain = [&] {
        fold<D>(t, total, thread, o, chain_max, chain_sum, false);
        folds = false;
      };
      for (int j = from + 1; j < to; j++) {
        const int before = stage, before_parity = filled / STAGES & 1;
        if (clean) {
          if (L::FOLD_LATE && folds) fold_chain();
          barrier_wait(&state->v_full[before], before_parity);
          clean_block<L>(c, item, j - 1, memory + L::v_at + before * L::v_bytes, state, wg, thread,
                         own, p, o, fresh);
        }
        filled++;
        stage = filled % STAGES;
        barrier_wait(&state->k_full[stage], filled / STAGES & 1);
        if (WGS > 1) named_sync(mine, 256);
        wgmma_begin();
        scores<L>(q, memory + L::k_at + stage * L::k_bytes, s);
        wgmma_commit();
        if (L::FOLD_LATE && folds) fold_chain();
        barrier_wait(&state->v_full[before], before_parity);
        multiply_values<L>(p, memory + L::v_at + before * L::v_bytes, o, !fresh);
        wgmma_commit();
        if (WGS > 1) named_arrive(next, 256);
        wgmma_wait<1>();
        wgmma_hold(s);
        if (leader && !c.rule.padded) barrier_arrive(&state->k_empty[stage]);
        if (leader && j == to - 1) barrier_arrive(&state->q_empty);
        read_scores(j, stage);
        if (leader && c.rule.padded) barrier_arrive(&state->k_empty[stage]);
        if (j % L::JOIN) {
          weights_of(s, scale, max, sum, factor);
          wgmma_wait<0>();
          wgmma_hold(o);
          if (__any_sync(~0u, factor[0] != 1.f || factor[1] != 1.f)) {
#pragma unroll
            for (int i = 0; i < D / 2; i++) o[i] *= factor[i / 2 % 2];
          }
          fresh = false;
        } else {
#pragma unroll
          for (int r = 0; r < 2; r++) chain_max[r] = max[r], chain_sum[r] = sum[r];
          max[0] = max[1] = -INFINITY, sum[0] = sum[1] = 0.f;
          weights_of(s, scale, max, sum, factor);
          wgmma_wait<0>();
          wgmma_hold(o);
          if (L::FOLD_LATE)
            folds = true;
          else
            fold_chain();
          fresh = true;
        }
        if (leader) barrier_arrive(&state->v_empty[before]);
        pack_weights<typename L::T>(s, p);
      }
      if (L::FOLD_LATE && folds) fold_chain();
      barrier_wait(&state->v_full[stage], filled / STAGES & 1);
      if (clean)
        clean_block<L>(c, item, to - 1, memory + L::v_at + stage * L::v_bytes, state, wg, thread,
                       own, p, o, fresh);
      wgmma_begin();
      multiply_values<L>(p, memory + L::v_at + stage * L::v_bytes, o, !fresh);
      wgmma_commit();
      wgmma_wait<0>();
      wgmma_hold(o);
      if (leader) barrier_arrive(&state->v_empty[stage]);
      filled++;
      fold<D>(t, total, thread, o, max, sum, true);
    } else {
      if (leader) barrier_arrive(&state->q_empty);
#pragma unroll
      for (int i = 0; i < D / 2; i++) o[i] = 0.f;
    }
    const forward_item then = item_at<L>(c, opaque(item) & ~CLEAN);
    const int end = uniform(then.end);
    for (int j = to; j < end; j++) skip();
    const int place = then.position + wg * c.per;
    const row_pair stored = rows_of<L>(c, then, place, thread);
    const bool bad =
        L::SPLIT ? store_part<L>(c, then, stored, thread, o, t)
                 : store<L>(c, then, place, stored, thread, own, (unsigned char *)total, o, t);
    if (__any_sync(~0u, bad) && !clean && thread % 32 == 0)
      *(volatile int *)&state->again[tiles % 4] = 1;
  }
  if (WGS > 1 && wg == 0) named_sync(mine, 256);
  if (L::totals_here && leader) tma_store_wait();
}

template <class L>
__global__ void __launch_bounds__(128 * (L::WGS + 1), 1)
    softmax_forward(const __grid_constant__ forward_call c) {
  extern __shared__ unsigned char raw[];
  unsigned char *memory = (unsigned char *)(((uintptr_t)raw + 1023) & ~(uintptr_t)1023);
  forward_state<L> *state = (forward_state<L> *)(memory + L::state_at);
  static_assert(sizeof(forward_state<L>) <= L::bytes - 1024 - L::state_at, "state");
  if (threadIdx.x == 0) {
    barrier_init(&state->q_full, 1);
    barrier_init(&state->q_empty, L::WGS);
    for (int i = 0; i < L::STAGES; i++) {
      barrier_init(&state->k_full[i], 1);
      barrier_init(&state->k_empty[i], L::WGS);
      barrier_init(&state->v_full[i], 1);
      barrier_init(&state->v_empty[i], L::WGS);
    }
    for (int i = 0; i < 4; i++) state->again[i] = 0;
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    fence_shared();
  }
  if (c.page && (c.page_k_slabs < L::k_slabs || c.page_v_slabs < L::v_slabs)) {
    for (int i = threadIdx.x; i < (L::total_at - L::k_at) / 16; i += blockDim.x)
      ((uint4 *)(memory + L::k_at))[i] = {}; /* slabs that pages do not have */
    fence_shared();
  }
  __syncthreads();
  if (L::SPLIT) next_kernel_may_start();
  if (threadIdx.x < 128) {
    registers_lower<L::WGS == 2 ? 24 : 32>();
    if (threadIdx.x < 32) produce<L>(c, memory, state);
  } else {
    registers_raise<L::WGS == 3 ? 160 : 240>();
    consume<L>(c, memory, state);
  }
}

/* Adds the chains of softmax_forward in order: a thread an element. Factors are powers of two, so
 * that scaling to the largest maximum at once gives the bits of rescaling chain by chain. */
template <class L>
__global__ void __launch_bounds__(128) softmax_join(const forward_call c) {
  using T = typename L::T;
  constexpr int AHEAD = 32, D = (L::DV + 31) / 32 * 32;
  const int64_t thread = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
  const int x = (int)(thread % D), lane = threadIdx.x % 32; /* a warp has one row */
  const int64_t line = thread / D;
  const int head = (int)(line % c.heads), query = (int)(line / c.heads % c.n);
  const int batch = (int)(line / c.heads / c.n);
  wait_for_last_kernel();
  if (batch >= c.batch) return;
  const softmax_sequence s = sequence_at(c.rule, batch);
  const int packed = c.heads / c.pack, wide = packed * c.tiles;
  const int begin = c.rule.listed ? s.chains_before : batch * c.chains;
  const int end = !c.rule.listed        ? begin + c.chains
                  : batch + 1 < c.batch ? sequence_at(c.rule, batch + 1).chains_before
                                        : c.items / wide;
  const int chains = query < s.rows ? end - begin : 0;
  const int row = query % c.per * c.pack + head % c.pack;
  const int64_t first =
      ((int64_t)begin * wide + head / c.pack * c.tiles + query / c.per) * c.part_rows + row;
  const int64_t step = (int64_t)wide * c.part_rows;
  float max = -INFINITY, sum = 0.f, o = 0.f;
  for (int i = lane; i < chains; i += 32) max = fmaxf(max, c.part[first + i * step].x);
  max = warp_max(max);
  for (int from = 0; from < chains; from += AHEAD) {
    float y[AHEAD];
    float2 p = {-INFINITY, 0.f}; /* lane i: of chain from + i */
    if (from + lane < chains) p = c.part[first + (from + lane) * step];
#pragma unroll
    for (int i = 0; i < AHEAD; i++)
      y[i] =
          x < L::DV && from + i < chains ? c.part_o[(first + (from + i) * step) * L::DV + x] : 0.f;
    const float by = p.x == -INFINITY ? 0.f : power_of_2(p.x - max);
#pragma unroll
    for (int i = 0; i < AHEAD; i++) {
      const float times = __shfl_sync(~0u, by, i), add = __shfl_sync(~0u, p.y, i);
      if (times != 0.f) sum += add * times, o += y[i] * times;
    }
  }
  const bool none = sum == 0.f;
  const float inverse = none ? 0.f : 1.f / sum;
  T *to = (T *)c.out + batch * c.out_batch + head * c.out_head + query * c.out_row;
  if (x < c.width) to[x] = (T)(none ? 0.f : fmaf(o, inverse, 0.f));
  if (c.lse && x == 0) c.lse[((int64_t)batch * c.heads + head) * c.n + query] = lse_of(max, sum);
}

#endif
