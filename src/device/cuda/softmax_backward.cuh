/* Softmax attention on Hopper, backward: dq, dk and dv from q, k, v, o, lse and d_o.
 *
 * A CTA has 128 keys of a kv head and goes through the row tiles that see them, of all heads of the
 * group, last rows first. Two consumer warpgroups have 64 keys each. With everything transposed
 * (keys are rows of the products), weights and their gradients stay in registers as operands:
 *
 *   s = k q^T, p = exp2(s - lse); dp = v d_o^T, ds = p (dp - delta)
 *   dv += p d_o, dk += ds q       dq = ds^T k, through shared memory: a sum over both warpgroups
 *
 * While a warpgroup computes exponentials its dp multiplies. A producer warp loads with TMA, two
 * writer warps add and store.
 *
 * Bits: dq of a tile is a sum over blocks of keys, added in f32 in the order of the blocks: a counter
 * for each tile says how many were added, and the writer of block j waits for j. The last block's
 * consumers take the sum, add theirs and store dq. Items are handed out by a counter, block after
 * block of a chunk of heads, so that only items handed out earlier are waited for, and the wait is
 * rare because blocks start one after the other. dk and dv are one chain of sums in the order of
 * heads and rows.
 *
 * Masked pairs have weight and gradient zero, whatever q.k and d_o.v are, and rows and keys past the end
 * are read as zeros. Inside a tile that the mask divides, a NaN or an infinity in k, q or d_o itself is
 * still multiplied by those zeros.
 */
#ifndef DEVICE_CUDA_SOFTMAX_BACKWARD_CUH
#define DEVICE_CUDA_SOFTMAX_BACKWARD_CUH

#include "device/cuda/softmax_forward.cuh"

#include <type_traits>

struct backward_call {
  CUtensorMap q, k, v, d_o, dq, dk, dv;
  int batch, heads, group, q_len, kv_len;
  float scale, scale_to2; /* q.k -> log2 of the weight */
  int causal, offset;     /* key j is visible to row i if j <= i + offset */
  int tiles, blocks;      /* of rows, of KEYS keys */
  int items, chunk;       /* heads of k whose blocks are handed out together */
  float *minus_lse;       /* [B,H,tiles * rows] in log2; -inf: the row gets no gradient */
  float *delta;           /* [B,H,tiles * rows] sum of o d_o */
  float *dq_sum;          /* [B,H,tiles][rows * D], as consumers stage it */
  int *added;             /* [B,H,tiles] blocks in dq_sum; then the next item */
  /* For the kernel before; strides in elements. */
  const float *lse;
  const void *o, *d_o_data;
  int64_t o_stride[3], d_o_stride[3];
  int width_v;
};

template <int D>
struct backward_layout {
  static constexpr int rows = D == 64 ? 128 : 64;
  static constexpr int q_stages = 3, o_stages = 2, dq_stages = 2;
  /* What registers allow. early: dv is multiplied before ds is known; ahead: s of the next tile is
   * multiplied while dq leaves. */
  static constexpr bool early = D == 128, ahead = D == 64;
  static constexpr int kv_bytes = KEYS * D * 2, tile_bytes = rows * D * 2, row_bytes = rows * 4;
  static constexpr int ds_bytes = rows * KEYS * 2, dq_bytes = rows * D * 4;
  static constexpr int v_at = kv_bytes, q_at = 2 * kv_bytes;
  static constexpr int o_at = q_at + q_stages * tile_bytes, ds_at = o_at + o_stages * tile_bytes;
  static constexpr int dq_at = ds_at + ds_bytes, lse_at = dq_at + dq_stages * dq_bytes;
  static constexpr int delta_at = lse_at + q_stages * row_bytes;
  static constexpr int barriers_at = delta_at + o_stages * row_bytes;
  static constexpr int bytes = barriers_at + 8 * 18 + 16 + 1024;
};

struct backward_barriers {
  uint64_t kv_full, kv_empty, q_full[3], q_empty[3], o_full[2], o_empty[2];
  uint64_t dq_full[2], dq_empty[2], dq_loaded[2];
  int item; /* of the keys in memory; -1: none is left */
};

/* Of every role: a block of keys, and the first tile whose rows see it. */
struct backward_item {
  int block, batch, kv_head, first, count; /* row tiles of all heads of the group */
};
template <int D>
__device__ inline backward_item backward_item_at(const backward_call &c, int item) {
  const int rows = backward_layout<D>::rows, kv_heads = c.heads / c.group;
  const int all = kv_heads * c.batch, from = item / (c.chunk * c.blocks) * c.chunk;
  const int rest = item - from * c.blocks, wide = min(c.chunk, all - from);
  const int bg = from + rest % wide, block = rest / wide;
  int first = c.causal ? max(0, block * KEYS - c.offset) / rows : 0;
  if (c.causal && block * KEYS - c.offset >= c.q_len) first = c.tiles;
  return {block, bg / kv_heads, bg % kv_heads, first, c.group * (c.tiles - first)};
}
/* Tiles of an item: heads one after the other, last rows first. */
struct backward_tile {
  int head, tile, index; /* index: of all tiles [B,H,tiles] */
  __device__ backward_tile(const backward_call &c, const backward_item &at)
      : head(at.kv_head * c.group),
        tile(c.tiles - 1),
        index((at.batch * c.heads + head) * c.tiles + c.tiles - 1) {}
  __device__ void next(const backward_call &c, const backward_item &at) {
    index--;
    if (tile-- > at.first) return;
    tile = c.tiles - 1, head++;
    index += 2 * c.tiles - at.first;
  }
};

/* Whether the block is the last that the tile sees: dq is complete. */
template <int D>
__device__ inline bool completes(const backward_call &c, int block, int tile) {
  const int row_end = min((tile + 1) * backward_layout<D>::rows, c.q_len);
  return block == (c.causal ? min(c.kv_len, row_end + c.offset) - 1 : c.kv_len - 1) / KEYS;
}

/* ---- asynchronous copies of plain memory ------------------------------------------------- */

__device__ inline void bulk_load(void *to, const void *from, int bytes, uint64_t *barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(shared_address(to)),
      "l"(from), "r"(bytes), "r"(shared_address(barrier))
      : "memory");
}
__device__ inline void bulk_store(float *to, const void *from, int bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to),
               "r"(shared_address(from)), "r"(bytes)
               : "memory");
}
__device__ inline void bulk_add(float *to, const void *from, int bytes) {
  asm volatile(
      "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(to),
      "r"(shared_address(from)), "r"(bytes)
      : "memory");
}
/* What was stored is in memory. */
__device__ inline void bulk_wait() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }

__device__ inline int load_acquire(const int *p) {
  int x;
  asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(x) : "l"(p) : "memory");
  return x;
}
__device__ inline void store_release(int *p, int x) {
  asm volatile("st.release.gpu.global.s32 [%0], %1;" ::"l"(p), "r"(x) : "memory");
}
__device__ inline void fence_proxies() { asm volatile("fence.proxy.async;" ::: "memory"); }

/* Four 8 x 8 matrices, transposed: thread t of the warp has the address of row t % 8 of matrix t / 8. */
__device__ inline void store_transposed(uint32_t to, const uint32_t (&x)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to),
               "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3])
               : "memory");
}

/* ---- products ------------------------------------------------------------------------------ */

/* x [64 keys][R] = 64 rows of a tile of KEYS rows, times a tile of R rows, transposed. */
template <typename T, int D, int R>
__device__ inline void multiply_rows(const unsigned char *keys, const unsigned char *tile,
                                     float (&x)[R / 2]) {
  const uint64_t a = operand_rows(keys), b = operand_rows(tile);
#pragma unroll
  for (int i = 0; i < D / 16; i++)
    wgmma<T, R>::of_shared(x, a + (uint64_t)((i / 4 * KEYS * SLAB_BYTES + i % 4 * 32) >> 4),
                           b + (uint64_t)((i / 4 * R * SLAB_BYTES + i % 4 * 32) >> 4), i > 0);
}
/* x [64 keys][D] += p [64 keys][R] times a tile of R rows. */
template <typename T, int D, int R>
__device__ inline void multiply_tile(const uint32_t (&p)[R / 16][4], const unsigned char *tile,
                                     float (&x)[D / 2]) {
  const uint64_t b = operand_columns(tile, R * SLAB_BYTES);
#pragma unroll
  for (int i = 0; i < R / 16; i++)
    wgmma<T, D>::of_registers(x, p[i], b + (uint64_t)(i * 16 * SLAB_BYTES >> 4), 1);
}
/* dq [64][64] of this warpgroup, from ds [rows][KEYS]: its rows of 64 columns at width 64, its
 * columns of 64 rows at width 128. */
template <typename T, int D, int R>
__device__ inline void multiply_keys(const unsigned char *ds, const unsigned char *k, int wg,
                                     float (&x)[32]) {
  const uint64_t a = operand_rows(ds + (D == 64 ? wg * 64 * SLAB_BYTES : 0));
  const uint64_t b = operand_columns(k + (D == 64 ? 0 : wg * KEYS * SLAB_BYTES), KEYS * SLAB_BYTES);
#pragma unroll
  for (int i = 0; i < KEYS / 16; i++)
    wgmma<T, 64>::of_columns(x, a + (uint64_t)((i / 4 * R * SLAB_BYTES + i % 4 * 32) >> 4),
                             b + (uint64_t)(i * 16 * SLAB_BYTES >> 4), i > 0);
}

/* ---- consumers ----------------------------------------------------------------------------- */

/* Weights in place of scores; columns are rows of the tile. */
template <int R>
__device__ inline void backward_weights(float (&s)[R / 2], const float *minus_lse, float scale) {
#pragma unroll
  for (int i = 0; i < R / 8; i++) {
    const float2 l = *(const float2 *)(minus_lse + 8 * i);
    s[4 * i] = exp2_fast(fmaf(s[4 * i], scale, l.x));
    s[4 * i + 1] = exp2_fast(fmaf(s[4 * i + 1], scale, l.y));
    s[4 * i + 2] = exp2_fast(fmaf(s[4 * i + 2], scale, l.x));
    s[4 * i + 3] = exp2_fast(fmaf(s[4 * i + 3], scale, l.y));
  }
}
/* Gradients of the scores in place of those of the weights. */
template <int R>
__device__ inline void backward_scores(const float (&p)[R / 2], float (&dp)[R / 2],
                                       const float *delta) {
#pragma unroll
  for (int i = 0; i < R / 8; i++) {
    const float2 d = *(const float2 *)(delta + 8 * i);
    dp[4 * i] = p[4 * i] * (dp[4 * i] - d.x);
    dp[4 * i + 1] = p[4 * i + 1] * (dp[4 * i + 1] - d.y);
    dp[4 * i + 2] = p[4 * i + 2] * (dp[4 * i + 2] - d.x);
    dp[4 * i + 3] = p[4 * i + 3] * (dp[4 * i + 3] - d.y);
  }
}
/* Whether some row of the tile does not see some key of the warpgroup. */
template <int R>
__device__ inline bool masks(const backward_call &c, int block, int wg, int tile) {
  const int last = block * KEYS + wg * 64 + 63;
  return last >= c.kv_len || (c.causal && tile * R < last - c.offset);
}
/* Zeros where the row does not see the key. */
template <int R>
__device__ inline void mask_rows(const backward_call &c, int block, int wg, int tile, int thread,
                                 float (&x)[R / 2]) {
  const int key = block * KEYS + wg * 64 + thread / 32 * 16 + thread % 32 / 4;
  const int row = tile * R + 2 * (thread % 4);
  int first[2]; /* row of the tile, from this thread's first column on, that sees the key */
#pragma unroll
  for (int r = 0; r < 2; r++)
    first[r] = key + 8 * r >= c.kv_len ? R : c.causal ? key + 8 * r - c.offset - row : 0;
#pragma unroll
  for (int i = 0; i < R / 2; i++)
    if (8 * (i / 4) + i % 2 < first[i / 2 % 2]) x[i] = 0.f;
}

/* 64 rows of a warpgroup, in the output's type, into slabs of `rows` rows. */
template <typename T, int D>
__device__ inline void stage_rows(unsigned char *to, int thread, const float (&x)[D / 2],
                                  float scale, int rows) {
#pragma unroll
  for (int r = 0; r < 2; r++) {
    const int in = 16 * (thread / 32) + thread % 32 / 4 + 8 * r;
#pragma unroll
    for (int i = 0; i < D / 8; i++)
      *(uint32_t *)(to + (i / 8 * rows + in) * SLAB_BYTES + ((i % 8) ^ (in % 8)) * 16 +
                    thread % 4 * 4) =
          pack(x[4 * i + 2 * r] * scale, x[4 * i + 2 * r + 1] * scale, T());
  }
}

/* What was staged is the writer's. */
__device__ inline void staged(uint64_t *full, int lane) {
  fence_shared();
  __syncwarp();
  if (lane == 0) barrier_arrive(full);
}

enum { DS_EMPTY = 1, DS_FULL = 3, DQ_READ = 4 }; /* named barriers; DS_EMPTY, DQ_READ: + wg */

template <typename T, int D>
__device__ inline void backward_consume(const backward_call &c, unsigned char *memory,
                                        backward_barriers *b) {
  using L = backward_layout<D>;
  constexpr int R = L::rows;
  const int wg = __shfl_sync(~0u, (int)threadIdx.x / 128, 0) - 1, thread = threadIdx.x % 128;
  const int lane = thread % 32, warp = __shfl_sync(~0u, thread / 32, 0), column = 2 * (lane % 4);
  const bool leader = thread == 0;
  const unsigned char *k = memory + wg * 64 * SLAB_BYTES, *v = k + L::v_at;
  unsigned char *ds = memory + L::ds_at;
  const uint32_t ds_to = shared_address(ds + wg * R * SLAB_BYTES) +
                         (lane / 16 * 8 + lane % 8) * SLAB_BYTES +
                         (((2 * warp + lane / 8 % 2) ^ (lane % 8)) * 16);
  const uint32_t dq_to = wg * 1024 + thread;
  int q_stage = 0, q_parity = 0, o = 0; /* o: tiles so far */
  int loaded = 0;                       /* parities of dq_loaded */
  named_arrive(DS_EMPTY + 1 - wg, 256);
  for (int items = 0;; items++) {
    barrier_wait(&b->kv_full, items & 1);
    const int item = __shfl_sync(~0u, b->item, 0); /* products need uniform branches */
    if (item < 0) break;
    const backward_item at = backward_item_at<D>(c, item);
    backward_tile tile(c, at);
    /* A buffer for dq or, twice an item, dk and dv. */
    auto wait_buffer = [&] { barrier_wait(&b->dq_empty[o & 1], ((o >> 1) + items & 1) ^ 1); };
    /* dq leaves the registers; dv and dq of the tile have been multiplied. */
    auto stage_dq = [&](float(&dq)[32]) {
      if (leader) barrier_arrive(&b->o_empty[o & 1]);
      named_arrive(DS_EMPTY + 1 - wg, 256);
      wait_buffer();
      float4 *to = (float4 *)(memory + L::dq_at + (o & 1) * L::dq_bytes) + dq_to;
      if (!completes<D>(c, at.block, tile.tile)) {
#pragma unroll
        for (int i = 0; i < 8; i++)
          to[i * 128] = {dq[4 * i], dq[4 * i + 1], dq[4 * i + 2], dq[4 * i + 3]};
      } else {
        if (at.block) {
          barrier_wait(&b->dq_loaded[o & 1], loaded >> (o & 1) & 1);
          loaded ^= 1 << (o & 1);
#pragma unroll
          for (int i = 0; i < 8; i++) {
            const float4 x = to[i * 128];
            dq[4 * i] += x.x, dq[4 * i + 1] += x.y, dq[4 * i + 2] += x.z, dq[4 * i + 3] += x.w;
          }
          named_sync(DQ_READ + wg, 128);
        }
        stage_rows<T, 64>((unsigned char *)(to - thread), thread, dq, c.scale, 64);
      }
      staged(&b->dq_full[o & 1], lane);
      o++;
    };
    float dk[D / 2], dv[D / 2], s[R / 2], dp[R / 2];
#pragma unroll
    for (int i = 0; i < D / 2; i++) dk[i] = dv[i] = 0.f;
    auto multiply_scores = [&] {
      barrier_wait(&b->q_full[q_stage], q_parity);
      wgmma_begin();
      multiply_rows<T, D, R>(k, memory + L::q_at + q_stage * L::tile_bytes, s);
      wgmma_commit();
    };
    auto step = [&](auto last) {
      const unsigned char *q_tile = memory + L::q_at + q_stage * L::tile_bytes;
      const unsigned char *o_tile = memory + L::o_at + (o & 1) * L::tile_bytes;
      const bool masked = masks<R>(c, at.block, wg, tile.tile);
      uint32_t p[R / 16][4], x[R / 16][4];
      if (!L::ahead) multiply_scores();
      barrier_wait(&b->o_full[o & 1], o >> 1 & 1);
      wgmma_begin();
      multiply_rows<T, D, R>(v, o_tile, dp);
      wgmma_commit();
      if (!L::ahead) {
        wgmma_wait<1>();
        wgmma_hold(s);
      }
      backward_weights<R>(s, (const float *)(memory + L::lse_at + q_stage * L::row_bytes) + column,
                          c.scale_to2);
      if (masked) mask_rows<R>(c, at.block, wg, tile.tile, thread, s);
      pack_weights<T>(s, p);
      wgmma_wait<0>();
      wgmma_hold(dp);
      if (L::early) {
        wgmma_begin();
        multiply_tile<T, D, R>(p, o_tile, dv);
        wgmma_commit();
      }
      backward_scores<R>(s, dp,
                         (const float *)(memory + L::delta_at + (o & 1) * L::row_bytes) + column);
      if (masked) mask_rows<R>(c, at.block, wg, tile.tile, thread, dp);
      pack_weights<T>(dp, x);
      named_sync(DS_EMPTY + wg, 256); /* dq of the tile before has read ds */
#pragma unroll
      for (int i = 0; i < R / 16; i++) store_transposed(ds_to + i * 16 * SLAB_BYTES, x[i]);
      if (!L::early) {
        wgmma_begin();
        multiply_tile<T, D, R>(p, o_tile, dv);
        wgmma_commit();
      }
      fence_shared();
      named_sync(DS_FULL, 256);
      float dq[32];
      wgmma_begin();
      multiply_keys<T, D, R>(ds, memory, wg, dq);
      wgmma_commit();
      wgmma_wait<1>(); /* dv: p leaves the registers */
      multiply_tile<T, D, R>(x, q_tile, dk);
      wgmma_commit();
      const int q_before = q_stage;
      if (++q_stage == L::q_stages) q_stage = 0, q_parity ^= 1;
      if constexpr (L::ahead && !decltype(last)::value) {
        multiply_scores();
        wgmma_wait<2>(); /* dq */
      } else {
        wgmma_wait<1>();
      }
      wgmma_hold(dq);
      stage_dq(dq);
      wgmma_wait<0>();
      if constexpr (L::ahead && !decltype(last)::value) wgmma_hold(s);
      if (leader) barrier_arrive(&b->q_empty[q_before]);
    };
    if (at.count) {
      if (L::ahead) {
        multiply_scores();
        wgmma_wait<0>();
        wgmma_hold(s);
      }
      for (int t = L::ahead; t < at.count; t++, tile.next(c, at)) step(std::false_type());
      if (L::ahead) step(std::true_type());
      wgmma_hold(dk);
      wgmma_hold(dv);
    }
    __syncwarp();
    if (lane == 0) barrier_arrive(&b->kv_empty);
    auto keys_to = [&] {
      wait_buffer();
      return memory + L::dq_at + (o & 1) * L::dq_bytes + wg * 64 * SLAB_BYTES;
    };
    stage_rows<T, D>(keys_to(), thread, dv, 1.f, KEYS);
    staged(&b->dq_full[o & 1], lane);
    o++;
    stage_rows<T, D>(keys_to(), thread, dk, c.scale, KEYS);
    staged(&b->dq_full[o & 1], lane);
    o--;
  }
  named_sync(DS_EMPTY + wg, 256);
}

/* ---- the producer and the writers: a thread each --------------------------------------------- */

template <int D>
struct backward_producer {
  using L = backward_layout<D>;
  const backward_call &c;
  unsigned char *memory;
  backward_barriers *b;
  int q_stage, q_parity, o;

  __device__ void load_tile(const backward_item &at, const backward_tile &tile) {
    constexpr int R = L::rows;
    const int64_t rows = (int64_t)tile.index * R;
    barrier_wait(&b->q_empty[q_stage], q_parity ^ 1);
    barrier_expect(&b->q_full[q_stage], L::tile_bytes + L::row_bytes);
#pragma unroll 1
    for (int s = 0; s < D / SLAB; s++)
      tma_load(&c.q, memory + L::q_at + q_stage * L::tile_bytes + s * R * SLAB_BYTES,
               &b->q_full[q_stage], s * SLAB, tile.tile * R, tile.head, at.batch);
    bulk_load(memory + L::lse_at + q_stage * L::row_bytes, c.minus_lse + rows, L::row_bytes,
              &b->q_full[q_stage]);
    if (++q_stage == L::q_stages) q_stage = 0, q_parity ^= 1;
    const int stage = o & 1;
    barrier_wait(&b->o_empty[stage], (o >> 1 & 1) ^ 1);
    barrier_expect(&b->o_full[stage], L::tile_bytes + L::row_bytes);
#pragma unroll 1
    for (int s = 0; s < D / SLAB; s++)
      tma_load(&c.d_o, memory + L::o_at + stage * L::tile_bytes + s * R * SLAB_BYTES,
               &b->o_full[stage], s * SLAB, tile.tile * R, tile.head, at.batch);
    bulk_load(memory + L::delta_at + stage * L::row_bytes, c.delta + rows, L::row_bytes,
              &b->o_full[stage]);
    o++;
  }
  __device__ void load_keys(const backward_item &at) {
    barrier_expect(&b->kv_full, 2 * L::kv_bytes);
#pragma unroll
    for (int s = 0; s < D / SLAB; s++) {
      tma_load(&c.k, memory + s * KEYS * SLAB_BYTES, &b->kv_full, s * SLAB, at.block * KEYS,
               at.kv_head, at.batch);
      tma_load(&c.v, memory + L::v_at + s * KEYS * SLAB_BYTES, &b->kv_full, s * SLAB,
               at.block * KEYS, at.kv_head, at.batch);
    }
  }
  __device__ void run() {
    int *next = c.added + (int64_t)c.batch * c.heads * c.tiles;
    for (int items = 0;; items++) {
      const int item = atomicAdd(next, 1);
      const bool any = item < c.items;
      const backward_item at = backward_item_at<D>(c, any ? item : 0);
      backward_tile tile(c, at);
      for (int t = 0; t == 0 || t < at.count; t++, tile.next(c, at)) {
        if (any && at.count) load_tile(at, tile);
        if (t > 0) continue;
        barrier_wait(&b->kv_empty, (items & 1) ^ 1);
        b->item = any ? item : -1;
        if (!any) return barrier_arrive(&b->kv_full);
        load_keys(at);
      }
    }
  }
};

/* Until dq_sum has the blocks before this one. */
__device__ inline void wait_added(const int *added, int block) {
  while (load_acquire(added) != block) {
  }
  fence_proxies();
}

/* Writer `which` takes every other buffer. */
template <int D>
__device__ inline void backward_write(const backward_call &c, unsigned char *memory,
                                      backward_barriers *b, int which) {
  using L = backward_layout<D>;
  unsigned char *buffer = memory + L::dq_at + which * L::dq_bytes;
  int parity = 0, turn = 0;
  for (int items = 0;; items++) {
    barrier_wait(&b->kv_full, items & 1);
    const int item = b->item;
    if (item < 0) break;
    barrier_arrive(&b->kv_empty);
    const backward_item at = backward_item_at<D>(c, item);
    backward_tile tile(c, at);
    for (int t = 0; t < at.count; t++, tile.next(c, at)) {
      if ((turn++ & 1) != which) continue;
      float *sum = c.dq_sum + (int64_t)tile.index * (L::dq_bytes / 4);
      int *added = c.added + tile.index;
      const bool last = completes<D>(c, at.block, tile.tile);
      if (last && at.block) { /* the consumers add the last block themselves */
        wait_added(added, at.block);
        barrier_expect(&b->dq_loaded[which], L::dq_bytes);
        bulk_load(buffer, sum, L::dq_bytes, &b->dq_loaded[which]);
      }
      barrier_wait(&b->dq_full[which], parity);
      parity ^= 1;
      if (last) {
#pragma unroll 1
        for (int wg = 0; wg < 2; wg++)
          tma_store(&c.dq, buffer + wg * L::dq_bytes / 2, D == 64 ? 0 : 64 * wg,
                    tile.tile * L::rows + (D == 64 ? 64 * wg : 0), tile.head, at.batch);
      } else if (at.block == 0) {
        bulk_store(sum, buffer, L::dq_bytes);
      } else {
        wait_added(added, at.block);
        bulk_add(sum, buffer, L::dq_bytes);
      }
      tma_store_commit();
      tma_store_wait();
      barrier_arrive(&b->dq_empty[which]);
      if (last) continue;
      bulk_wait();
      fence_proxies();
      store_release(added, at.block + 1);
    }
    for (int i = 0; i < 2; i++) {
      if ((turn++ & 1) != which) continue;
      barrier_wait(&b->dq_full[which], parity);
      parity ^= 1;
#pragma unroll 1
      for (int s = 0; s < D / SLAB; s++)
        tma_store(i ? &c.dk : &c.dv, buffer + s * KEYS * SLAB_BYTES, s * SLAB, at.block * KEYS,
                  at.kv_head, at.batch);
      tma_store_commit();
      tma_store_wait();
      barrier_arrive(&b->dq_empty[which]);
    }
  }
  bulk_wait();
}

template <typename T, int D>
__global__ void __launch_bounds__(384, 1)
    softmax_backward(const __grid_constant__ backward_call c) {
  using L = backward_layout<D>;
  extern __shared__ unsigned char raw[];
  unsigned char *memory = raw + (-shared_address(raw) & 1023); /* known to be shared memory */
  backward_barriers *b = (backward_barriers *)(memory + L::barriers_at);
  static_assert(sizeof(backward_barriers) <= 8 * 18 + 16, "");
  if (threadIdx.x == 0) {
    barrier_init(&b->kv_full, 1);
    barrier_init(&b->kv_empty, 10); /* consumer warps and writers */
    for (int i = 0; i < 3; i++) barrier_init(&b->q_full[i], 1), barrier_init(&b->q_empty[i], 2);
    for (int i = 0; i < 2; i++) {
      barrier_init(&b->o_full[i], 1), barrier_init(&b->o_empty[i], 2);
      barrier_init(&b->dq_full[i], 8), barrier_init(&b->dq_empty[i], 1);
      barrier_init(&b->dq_loaded[i], 1);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    fence_shared();
  }
  __syncthreads();
  if (threadIdx.x < 128) {
    registers_lower<24>();
    if (threadIdx.x == 0) {
      backward_producer<D> p = {c, memory, b, 0, 0, 0};
      p.run();
    }
    if (threadIdx.x == 32) backward_write<D>(c, memory, b, 0);
    if (threadIdx.x == 64) backward_write<D>(c, memory, b, 1);
  } else {
    registers_raise<240>();
    backward_consume<T, D>(c, memory, b);
  }
}

/* ---- before ------------------------------------------------------------------------ */

/* Element x of the tensor in 8 columns from `column` on; zeros past the width. */
template <typename T>
__device__ inline void load_columns(const T *row, int column, int width, float (&x)[8]) {
  if (column + 8 <= width) {
    union {
      uint4 bits;
      T of[8];
    } y;
    y.bits = *(const uint4 *)(row + column);
#pragma unroll
    for (int i = 0; i < 8; i++) x[i] = (float)y.of[i];
  } else {
#pragma unroll
    for (int i = 0; i < 8; i++) x[i] = column + i < width ? (float)row[column + i] : 0.f;
  }
}

/* minus_lse and delta of all rows, those past the end included, and zeros in the counters: a block a
 * tile. */
template <typename T, int D>
__global__ void __launch_bounds__(256) backward_before(const backward_call c) {
  constexpr int LANES = D / 8, R = backward_layout<D>::rows, EACH_ROWS = 256 / LANES;
  const int tile = blockIdx.x % c.tiles, bh = blockIdx.x / c.tiles;
  const int lane = threadIdx.x % LANES, batch = bh / c.heads, head = bh % c.heads;
  const T *o = (const T *)c.o + batch * c.o_stride[0] + head * c.o_stride[1];
  const T *d_o = (const T *)c.d_o_data + batch * c.d_o_stride[0] + head * c.d_o_stride[1];
  if (threadIdx.x == 0) c.added[blockIdx.x] = 0;
  if (threadIdx.x == 0 && blockIdx.x == 0) c.added[gridDim.x] = 0;
#pragma unroll
  for (int i = 0; i < R / EACH_ROWS; i++) {
    const int in = i * EACH_ROWS + threadIdx.x / LANES, row = tile * R + in;
    const int64_t at = min(row, c.q_len - 1), to = (int64_t)blockIdx.x * R + in;
    const float lse = row < c.q_len ? c.lse[(int64_t)bh * c.q_len + row] : -INFINITY;
    float x[8], y[8], sum = 0.f;
    load_columns(o + at * c.o_stride[2], 8 * lane, c.width_v, x);
    load_columns(d_o + at * c.d_o_stride[2], 8 * lane, c.width_v, y);
#pragma unroll
    for (int j = 0; j < 8; j++) sum += x[j] * y[j];
#pragma unroll
    for (int step = LANES / 2; step; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
    if (lane) continue;
    c.minus_lse[to] = lse == -INFINITY ? -INFINITY : -lse * 1.44269504088896340736f;
    c.delta[to] = lse == -INFINITY ? 0.f : sum;
  }
}

#endif
