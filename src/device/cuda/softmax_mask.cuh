/* What a row of queries sees, and what is added to its scores. */
#ifndef DEVICE_CUDA_SOFTMAX_MASK_CUH
#define DEVICE_CUDA_SOFTMAX_MASK_CUH

#include "device/cuda/gpu.cuh"

/* A sequence of a batch. */
struct softmax_sequence {
  int keys;                       /* those at or beyond are padding */
  int before;                     /* position of query 0 among the keys */
  int rows;                       /* real queries; the others see nothing */
  int first_chain, chains_before; /* split: its first chain; chains of the sequences before it */
};

enum { FEW_SEQUENCES = 48 };

struct softmax_rule {
  int keys, before, rows, first_chain; /* of every sequence, if none are listed */
  int listed;                          /* 0, or the sequences follow here or at `sequence` */
  const softmax_sequence *sequence;    /* [B] or NULL */
  softmax_sequence few[FEW_SEQUENCES];
  int causal, window; /* 0: none */
  int padded;         /* keys have bytes that are 0 where they are padding */
  /* Biases and soft cap; all in log2 units. */
  float scale_to2, cap_to2, cap_by; /* cap_to2 tanh(cap_by q.k), or scale_to2 q.k */
  attend_bias_kind bias;
  const float *slopes;      /* ALiBi [H] */
  const float *by_distance; /* buckets: [H][2 furthest + 1], of key - query, in log2 units */
  int furthest;
  const float *dense;
  int64_t dense_stride[4];
  int kv_len; /* dense: its width */
};

__device__ inline softmax_sequence sequence_at(const softmax_rule &c, int b) {
  if (!c.listed) return {c.keys, c.before, c.rows, c.first_chain, 0};
  return c.sequence ? c.sequence[b] : c.few[b];
}

/* Keys [first, end) that some row of positions [from, to] sees, and those that every row sees. */
struct key_range {
  int first, end;
};
__host__ __device__ inline key_range some_row_sees(const softmax_rule &c, int keys, int from,
                                                   int to) {
  int first = c.window ? max(0, from - c.window + 1) : 0, end = keys;
  if (c.causal)
    end = min(end, to + 1);
  else if (c.window)
    end = min(end, to + c.window);
  return {first, max(first, end)};
}
__device__ inline key_range every_row_sees(const softmax_rule &c, int keys, int from, int to) {
  return {some_row_sees(c, keys, to, to).first, some_row_sees(c, keys, from, from).end};
}

/* A thread's two rows of a tile. */
struct row_pair {
  int position[2], head[2];
  int query[2]; /* -1: not a real row */
};

/* Scores of keys that a row does not see: -inf. */
template <int N>
__device__ inline void mask_scores(const softmax_rule &c, float (&s)[N], int first_key, int keys,
                                   const row_pair &rows) {
  const int column = 2 * (threadIdx.x % 4);
#pragma unroll
  for (int r = 0; r < 2; r++) {
    const key_range sees = some_row_sees(c, keys, rows.position[r], rows.position[r]);
    const int first = sees.first - first_key - column, end = sees.end - first_key - column;
#pragma unroll
    for (int i = 2 * r; i < N; i += i % 2 ? 3 : 1) {
      const int key = 8 * (i / 4) + i % 2;
      if (key < first || key >= end) s[i] = -INFINITY;
    }
  }
}

/* Scores of keys whose byte is 0: -inf. real: of the block's 2 N keys, in shared memory. */
template <int N>
__device__ inline void hide_padding(float (&s)[N], const unsigned char *real) {
  const int lane = threadIdx.x % 32;
  const uint32_t four = lane * 4 < 2 * N ? *(const uint32_t *)(real + 4 * lane) : 0u;
  uint32_t has[4];
#pragma unroll
  for (int k = 0; k < 4; k++) has[k] = __ballot_sync(~0u, four >> 8 * k & 0xff);
  const uint32_t even = (lane & 1 ? has[2] : has[0]) >> (lane >> 1 & 1);
  const uint32_t odd = (lane & 1 ? has[3] : has[1]) >> (lane >> 1 & 1);
#pragma unroll
  for (int i = 0; i < N; i++)
    if (!((i % 2 ? odd : even) >> 2 * (i / 4) & 1)) s[i] = -INFINITY;
}

/* tanh to 1e-6 of 1. */
__device__ inline float tanh_fast(float x) {
  float e;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"(x * 2.88539008177792681472f)); /* e^2x */
  return 1.f - __fdividef(2.f, e + 1.f);
}

/* From products q.k to scores in log2 units. */
template <int N>
__device__ inline void bias_scores(const softmax_rule &c, float (&s)[N], int first_key, int batch,
                                   const row_pair &rows) {
  const int column = first_key + 2 * (threadIdx.x % 4);
  if (c.cap_by != 0.f) {
#pragma unroll
    for (int i = 0; i < N; i++) s[i] = c.cap_to2 * tanh_fast(s[i] * c.cap_by);
  } else {
#pragma unroll
    for (int i = 0; i < N; i++) s[i] *= c.scale_to2;
  }
  if (c.bias == ATTEND_ALIBI) {
#pragma unroll
    for (int r = 0; r < 2; r++) {
      const float slope = c.slopes[rows.head[r]] * -1.44269504088896340736f;
#pragma unroll
      for (int i = 2 * r; i < N; i += i % 2 ? 3 : 1)
        s[i] = fmaf(slope, (float)abs(rows.position[r] - (column + 8 * (i / 4) + i % 2)), s[i]);
    }
  } else if (c.bias == ATTEND_BUCKETS) {
#pragma unroll
    for (int r = 0; r < 2; r++) {
      const float *table =
          c.by_distance + (int64_t)rows.head[r] * (2 * c.furthest + 1) + c.furthest;
#pragma unroll
      for (int i = 2 * r; i < N; i += i % 2 ? 3 : 1) {
        const int ahead = column + 8 * (i / 4) + i % 2 - rows.position[r];
        s[i] += table[max(-c.furthest, min(c.furthest, ahead))];
      }
    }
  } else if (c.bias == ATTEND_DENSE) {
#pragma unroll
    for (int r = 0; r < 2; r++) {
      const float *line = c.dense + batch * c.dense_stride[0] + rows.head[r] * c.dense_stride[1] +
                          max(rows.query[r], 0) * c.dense_stride[2];
#pragma unroll
      for (int i = 2 * r; i < N; i += i % 2 ? 3 : 1) {
        const int key = min(column + 8 * (i / 4) + i % 2, c.kv_len - 1);
        s[i] = fmaf(line[key * c.dense_stride[3]], 1.44269504088896340736f, s[i]);
      }
    }
  }
}

#endif
