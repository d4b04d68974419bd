/* Linear forms in bf16 at widths of 64, causal, forward: what linear_elu.cuh and linear_favor.cuh share.
 * Keys and values are read twice. The sums of supers are computed in parallel and joined in order;
 * then a CTA iterates through the chunks of a super, its sums in registers. Products, and so bits, are those of linear_forward.cuh: over 16 of k at a time in
 * the same order, with the same rounding of features, weights and sums; here by wgmma, whose bits are
 * those of mma.sync.
 *
 * Tiles in shared memory have rows of 128 bytes, whose 16-byte pieces are permuted by the row.
 */
#ifndef DEVICE_CUDA_LINEAR_SCAN_CUH
#define DEVICE_CUDA_LINEAR_SCAN_CUH

#include "device/cuda/hopper.cuh"
#include "device/cuda/linear_maps.cuh"

enum { SCAN_TILE = CHUNK * 128 /* bytes */ };

/* ---- loading ------------------------------------------------------------------------- */

__device__ inline uint32_t scan_at(uint32_t tile, int row, int piece) {
  return tile + row * 128 + ((piece ^ (row & 7)) << 4);
}
__device__ inline void copy16(uint32_t to, const void *from, bool valid) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
               "r"(valid ? 16 : 0)
               : "memory");
}
__device__ inline void copies_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int PENDING>
__device__ inline void copies_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}

template <bool TRANSPOSED>
__device__ inline void fragments(uint32_t (&r)[4], uint32_t at) {
  if (TRANSPOSED)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(at)
                 : "memory");
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(at)
                 : "memory");
}
__device__ inline void fragments_back(uint32_t at, const uint32_t (&r)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(at),
               "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3])
               : "memory");
}
__device__ inline void store4(uint32_t at, const uint32_t (&r)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(at), "r"(r[0]),
               "r"(r[1]), "r"(r[2]), "r"(r[3])
               : "memory");
}
/* Addresses of 16 x 16 elements: A of rows [m][k], A of [k][m], B of [n][k], B of [k][n]. */
__device__ inline uint32_t a_rows(uint32_t tile, int m, int k) {
  const int l = threadIdx.x % 32;
  return scan_at(tile, m + l % 16, k / 8 + l / 16);
}
__device__ inline uint32_t a_columns(uint32_t tile, int m, int k) {
  const int l = threadIdx.x % 32;
  return scan_at(tile, k + l % 8 + l / 16 * 8, m / 8 + l / 8 % 2);
}
__device__ inline uint32_t b_rows(uint32_t tile, int n, int k) {
  const int l = threadIdx.x % 32;
  return scan_at(tile, n + l % 8 + l / 16 * 8, k / 8 + l / 8 % 2);
}
__device__ inline uint32_t b_columns(uint32_t tile, int n, int k) {
  const int l = threadIdx.x % 32;
  return scan_at(tile, k + l % 16, n / 8 + l / 16);
}

__device__ inline uint32_t pack(float low, float high) {
  uint32_t r;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  return r;
}
__device__ inline float low_of(uint32_t x) { return __int_as_float(x << 16); }
__device__ inline float high_of(uint32_t x) { return __int_as_float(x & 0xffff0000); }
/* elu_feature of both: the larger of x + 1 and min(e^x, 1), which rounding to bf16 leaves as it is. */
__device__ inline uint32_t elu2(uint32_t x) {
  const uint32_t one = 0x3f803f80;
  uint32_t e =
      pack(exp2_of(low_of(x) * 1.44269504f, bf16()), exp2_of(high_of(x) * 1.44269504f, bf16()));
  asm("fma.rn.bf16x2 %0, %0, %1, %1;" : "+r"(x) : "r"(one));
  asm("min.NaN.bf16x2 %0, %0, %1;" : "+r"(e) : "r"(one));
  asm("max.NaN.bf16x2 %0, %0, %1;" : "+r"(x) : "r"(e));
  return x;
}
__device__ inline bool not_finite2(uint32_t x) {
  return (x & 0x7f80) == 0x7f80 || (x & 0x7f800000) == 0x7f800000;
}
__device__ inline uint32_t finite2(uint32_t x) {
  if ((x & 0x7f80) == 0x7f80) x &= 0xffff0000;
  if ((x & 0x7f800000) == 0x7f800000) x &= 0xffff;
  return x;
}
__device__ inline float half_at(uint32_t address) {
  uint16_t x;
  asm volatile("ld.shared.u16 %0, [%1];" : "=h"(x) : "r"(address) : "memory");
  return __int_as_float((uint32_t)x << 16);
}
__device__ inline void put(uint32_t address, uint32_t x) {
  asm volatile("st.shared.b32 [%0], %1;" ::"r"(address), "r"(x) : "memory");
}
/* B of the column of ones, in its tile of eight columns. */
__device__ inline uint32_t ones() { return threadIdx.x % 32 < 4 ? 0x3f803f80 : 0; }

/* ---- keys ---------------------------------------------------------------------------- */

struct scan_sequence {                  /* linear_sequence, of a call without a state */
  int keys, position, first_real, last; /* last: chunk, -1 if there is no key */
  __device__ scan_sequence(const linear_sequence &s)
      : keys((int)s.keys),
        position((int)s.position),
        first_real((int)s.first_real),
        last((int)last_chunk(s.keys)) {}
};

struct scan_keys {
  const linear_call &c;
  const scan_sequence &s;
  int b, g;
  __device__ bool real(int p) const {
    return p < s.keys && (!c.real || c.real[b * c.real_stride + p]);
  }
  __device__ bool whole(int chunk) const { return !c.real && (chunk + 1) * CHUNK <= s.keys; }
  /* Which keys of a chunk are real, for a whole warp. */
  __device__ uint64_t mask(int chunk) const {
    if (whole(chunk)) return ~(uint64_t)0;
    const int p = chunk * CHUNK + threadIdx.x % 32;
    const uint32_t low = __ballot_sync(~0u, real(p)), high = __ballot_sync(~0u, real(p + 32));
    return (uint64_t)high << 32 | low;
  }
  /* Pieces of a chunk's keys and values, by 128 threads. */
  __device__ void load(int chunk, uint32_t k, uint32_t v) const {
    const int row = threadIdx.x % 128 / 8, piece = threadIdx.x % 8, p = chunk * CHUNK + row;
    const bf16 *key = at<bf16>(c.k, b, g, p) + piece * 8,
               *value = at<bf16>(c.v, b, g, p) + piece * 8;
    if (whole(chunk)) {
#pragma unroll
      for (int i = 0; i < 4; i++) {
        copy16(scan_at(k, row + 16 * i, piece), key + 16 * i * c.k.stride[2], true);
        copy16(scan_at(v, row + 16 * i, piece), value + 16 * i * c.v.stride[2], true);
      }
      return;
    }
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const bool valid = real(p + 16 * i);
      copy16(scan_at(k, row + 16 * i, piece),
             valid ? key + 16 * i * c.k.stride[2] : (const bf16 *)c.k.data, valid);
      copy16(scan_at(v, row + 16 * i, piece),
             valid ? value + 16 * i * c.v.stride[2] : (const bf16 *)c.v.data, valid);
    }
  }
};

/* d (+)= A B: A in registers, B rows [n][k] or, transposed, [k][n]. */
template <int TRANSPOSED>
__device__ inline void wgmma64(float (&d)[32], const uint32_t (&a)[4], uint64_t b, int add) {
  asm volatile(
      "{ .reg .pred p; setp.ne.b32 p, %38, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" R32
      "}, {%32,%33,%34,%35}, %36, p, 1, 1, %37; }\n"
      : D32(0)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"(TRANSPOSED), "r"(add));
}
/* d (+)= A B over 64 of k. */
__device__ inline void times_rows(float (&d)[32], const uint32_t (&a)[4][4], const void *b) {
#pragma unroll
  for (int i = 0; i < 4; i++) wgmma64<0>(d, a[i], operand_rows(b) + i * 2, i > 0);
}
__device__ inline void times_columns(float (&d)[32], const uint32_t (&a)[4][4], const void *b,
                                     bool add) {
#pragma unroll
  for (int i = 0; i < 4; i++) wgmma64<1>(d, a[i], operand_columns(b, 0) + i * 128, add || i > 0);
}
/* d (+)= A times a column of ones. */
__device__ inline void times_ones(float (&d)[4], const uint32_t (&a)[4][4]) {
#pragma unroll
  for (int i = 0; i < 4; i++) mma16(d, a[i], ones(), ones());
}

__device__ inline int super_of(int chunk) { return chunk < 0 ? 0 : chunk / SUPER; }

/* 16 rows of a tile, by their warp, to rows from `row` on of memory. */
__device__ inline void put_rows(uint32_t tile, int warp, bf16 *to, int64_t stride, int row,
                                int rows) {
  const int l = threadIdx.x % 32;
  __syncwarp();
#pragma unroll
  for (int i = 0; i < 4; i++) {
    const int r = warp * 16 + i * 4 + l / 8;
    uint4 y;
    asm volatile("ld.shared.v4.b32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(y.x), "=r"(y.y), "=r"(y.z), "=r"(y.w)
                 : "r"(scan_at(tile, r, l % 8))
                 : "memory");
    if (row + r >= 0 && row + r < rows)
      asm volatile(
          "st.global.v4.b32 [%0], {%1,%2,%3,%4};" ::"l"(to + (row + r) * stride + l % 8 * 8),
          "r"(y.x), "r"(y.y), "r"(y.z), "r"(y.w)
          : "memory");
  }
  __syncwarp();
}
__device__ inline uint32_t get(uint32_t address) {
  uint32_t x;
  asm volatile("ld.shared.b32 %0, [%1];" : "=r"(x) : "r"(address) : "memory");
  return x;
}

/* A CTA's share: chunks [from, to) of rows of a head. The super of the last key has all rows behind
 * it too. */
struct scan {
  const linear_call &c;
  const scan_sequence &s;
  int b, h, from, to;
  scan_keys keys;

  __device__ scan(const linear_call &call, const scan_sequence &s, int super, int b, int h)
      : c(call), s(s), b(b), h(h), keys{call, s, b, h / call.group} {
    const int base = (s.position - (s.position % CHUNK + CHUNK) % CHUNK) / CHUNK;
    const int end = (s.position + c.n + CHUNK - 1 - base * CHUNK) / CHUNK + base;
    from = super ? super * SUPER : min(base, 0);
    to = super == super_of(s.last) ? end : min(end, (super + 1) * SUPER);
    if (super > super_of(s.last)) to = from;
  }
  /* The chunk that the keys of a chunk of rows end in; -1: they see none. */
  __device__ int own(int chunk) const { return min(chunk, s.last); }

  /* 16 rows of queries or the like, by a warp: of `view`. */
  __device__ void load_queries(const attend_view &view, int chunk, int warp, uint32_t q) const {
    const int first = chunk * CHUNK - s.position + warp * 16 + threadIdx.x % 32 / 8;
    const bf16 *from_row = at<bf16>(view, b, h, first) + threadIdx.x % 8 * 8;
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const bool valid = first + i * 4 >= 0 && first + i * 4 < c.n;
      copy16(scan_at(q, warp * 16 + i * 4 + threadIdx.x % 32 / 8, threadIdx.x % 8),
             valid ? from_row + i * 4 * view.stride[2] : (const bf16 *)view.data, valid);
    }
  }
  /* Keys of the chunk that the rows l / 4 and l / 4 + 8 of a warp's 16 see. */
  __device__ void visible_keys(int chunk, int warp, int (&visible)[2]) const {
#pragma unroll
    for (int half = 0; half < 2; half++) {
      const int i = chunk * CHUNK - s.position + warp * 16 + threadIdx.x % 32 / 4 + 8 * half;
      const int end = min(s.keys, s.position + i + 1);
      visible[half] = own(chunk) >= 0 && end > s.first_real ? end - own(chunk) * CHUNK : 0;
    }
  }
  /* Values that are not finite, which are 0 in the tile, reach the rows that see them; a goes to the
   * warp's rows of q's tile. */
  __device__ void add_non_finite(uint32_t q, int chunk, int warp, const uint32_t (&a)[4][4],
                                 const int (&visible)[2], float (&o)[32]) const {
    const int l = threadIdx.x % 32, t = l % 4, r = warp * 16 + l / 4;
#pragma unroll
    for (int j = 0; j < 4; j++)
#pragma unroll
      for (int i = 0; i < 4; i++) put(scan_at(q, r + i % 2 * 8, 2 * j + i / 2) + t * 4, a[j][i]);
    __syncwarp();
    for (int j = 0; j < CHUNK; j++) {
      const int p = own(chunk) * CHUNK + j;
      if (!keys.real(p)) continue;
#pragma unroll
      for (int i = 0; i < 32; i++) {
        const int column = i / 4 * 8 + t * 2 + i % 2, half = i / 2 % 2;
        const float value = number(at<bf16>(c.v, b, keys.g, p)[column]);
        if (j < visible[half] && !isfinite(value))
          o[i] += half_at(scan_at(q, r + 8 * half, j / 8) + j % 8 * 2) * value;
      }
    }
    __syncwarp();
  }
  /* To the warp's own rows of q's tile, then whole rows to memory. dens: the column of ones; outputs
   * are relative to 2^(shift + top). */
  __device__ void store_rows(uint32_t q, int chunk, int warp, const int (&visible)[2],
                             const float (&shift)[2], const float (&top)[2], const float (&o)[32],
                             const float (&dens)[4]) const {
    const int l = threadIdx.x % 32, t = l % 4, row = chunk * CHUNK - s.position;
    float den[2], factor[2];
#pragma unroll
    for (int half = 0; half < 2; half++) {
      den[half] = __shfl_sync(~0u, dens[2 * half], l & ~3);
      if (!visible[half] || top[half] == -INFINITY) den[half] = 0;
      factor[half] = den[half] == 0 ? 0.f : reciprocal(den[half]);
    }
    const bool none = __any_sync(~0u, den[0] == 0 || den[1] == 0);
    __syncwarp();
#pragma unroll
    for (int n = 0; n < 8; n += 2) {
      uint32_t y[4];
#pragma unroll
      for (int i = 0; i < 4; i++) {
        const int at = 4 * n + 2 * i;
        y[i] = pack(o[at] * factor[i % 2], o[at + 1] * factor[i % 2]);
        if (none && den[i % 2] == 0) y[i] = 0;
      }
      store4(a_rows(q, warp * 16, 8 * n), y);
    }
    const int r = warp * 16 + l / 4 + 8 * t, i = row + r; /* by the first two of four threads */
    const float own = t ? den[1] : den[0];
    if (t < 2 && i >= 0 && i < c.n) {
      if (c.lse)
        c.lse[((int64_t)b * c.heads + h) * c.n + i] =
            lse_of(c, own, t ? shift[1] : shift[0], t ? top[1] : top[0]);
      if (c.weak && (t ? visible[1] : visible[0]) && is_lost(own, 0)) atomicAdd(c.weak, 1ull);
    }
    put_rows(q, warp, (bf16 *)at<bf16>(c.o, b, h, 0), c.o.stride[2], row, c.n);
  }
};

/* Whether a value of a tile is NaN or infinite, of the quarter of one of four warps. */
__device__ inline bool find_odd(const unsigned char *v, int warp) {
  const uint4 *x = (const uint4 *)v + warp * 128 + threadIdx.x % 32;
  uint32_t most = 0;
#pragma unroll
  for (int i = 0; i < 4; i++) {
    const uint4 y = x[32 * i];
    most = __vmaxu2(most, __vmaxu2(__vmaxu2(y.x & 0x7fff7fff, y.y & 0x7fff7fff),
                                   __vmaxu2(y.z & 0x7fff7fff, y.w & 0x7fff7fff)));
  }
  return __any_sync(~0u, (most & 0xffff) >= 0x7f80 || most >= 0x7f800000);
}
__device__ inline void mend(unsigned char *v) {
  uint32_t *x = (uint32_t *)v;
  for (int i = threadIdx.x % 128; i < SCAN_TILE / 4; i += 128) x[i] = finite2(x[i]);
}

/* Sums before each super, in place; parts of `parts` PART floats. chunk_m: shifts of supers. */
__global__ static void __launch_bounds__(256) scan_prefix(linear_call c, int floats) {
  enum { AHEAD = 8 };
  const int e = blockIdx.x * blockDim.x + threadIdx.x, stack = blockIdx.y;
  const int n = super_of((int)last_chunk(c.sequence[stack / c.kv_heads].keys));
  float *slot = c.slot + (size_t)stack * c.wave * floats + e, sum = 0;
  float m = -INFINITY;
  if (e >= floats) return;
  for (int at = 0; at <= n; at += AHEAD) {
    float part[AHEAD];
#pragma unroll
    for (int i = 0; i < AHEAD; i++) part[i] = at + i < n ? slot[(size_t)(at + i) * floats] : 0.f;
#pragma unroll
    for (int i = 0; i < AHEAD; i++) {
      if (at + i > n) break;
      slot[(size_t)(at + i) * floats] = sum;
      if (!c.shifts) {
        sum += part[i];
        continue;
      }
      if (e == 0) c.before_m[(size_t)stack * c.wave + at + i] = make_float2(m, 0);
      if (at + i == n) break;
      const float own = c.chunk_m[(size_t)stack * c.wave + at + i].x;
      sum = join(sum, m, part[i], own);
      m = fmaxf(m, own);
    }
  }
}

#endif
