/* Philox 4x32-10 (Salmon et al. 2011, Random123): counter-based random numbers for
 * directions, problems, weights, sampling and resampling. Element e of a stream is in
 * block e / 4, so any range can be drawn independently.
 */
#include "base/base.h"

#include <math.h>

static void philox_round(uint32_t c[4], uint32_t k0, uint32_t k1) {
  uint64_t p0 = (uint64_t)0xD2511F53u * c[0];
  uint64_t p1 = (uint64_t)0xCD9E8D57u * c[2];
  uint32_t n0 = (uint32_t)(p1 >> 32) ^ c[1] ^ k0;
  uint32_t n2 = (uint32_t)(p0 >> 32) ^ c[3] ^ k1;
  c[1] = (uint32_t)p1;
  c[3] = (uint32_t)p0;
  c[0] = n0;
  c[2] = n2;
}

void attend_random_block(attend_random r, uint64_t index, uint32_t out[4]) {
  uint32_t k0 = (uint32_t)r.seed, k1 = (uint32_t)(r.seed >> 32);
  out[0] = (uint32_t)index;
  out[1] = (uint32_t)(index >> 32);
  out[2] = (uint32_t)r.stream;
  out[3] = (uint32_t)(r.stream >> 32);
  for (int round = 0; round < 10; round++) {
    philox_round(out, k0, k1);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
}

void attend_random_uniform(attend_random r, uint64_t first, size_t n, float *out) {
  uint32_t w[4];
  for (size_t i = 0; i < n; i++) {
    uint64_t e = first + i;
    if (i == 0 || e % 4 == 0) attend_random_block(r, e / 4, w);
    out[i] = (float)(w[e % 4] >> 8) * 0x1p-24f;
  }
}

/* Box and Muller: words (0,1) give elements 0 and 1 of a block, (2,3) the
 * others. In double, so that every libm rounds to the same float. */
void attend_random_normal(attend_random r, uint64_t first, size_t n, float *out) {
  uint32_t w[4];
  for (size_t i = 0; i < n; i++) {
    uint64_t e = first + i;
    if (i == 0 || e % 4 == 0) attend_random_block(r, e / 4, w);
    const uint32_t *pair = w + (e % 4) / 2 * 2;
    double radius = sqrt(-2.0 * log(((double)pair[0] + 0.5) * 0x1p-32));
    double angle = 2.0 * 3.14159265358979323846 * ((double)pair[1] * 0x1p-32);
    out[i] = (float)(radius * (e % 2 ? sin(angle) : cos(angle)));
  }
}

uint64_t random_word(attend_random r, uint64_t index) {
  uint32_t out[4];
  attend_random_block(r, index, out);
  return (uint64_t)out[0] << 32 | out[1];
}

/* Four rounds of a Feistel network over Philox, iterated until the result is in range
 * (cycle walking). */
uint64_t random_place(attend_random r, uint64_t n, uint64_t place) {
  int half = 1;
  while (half < 31 && (UINT64_C(1) << (2 * half)) < n) half++;
  uint64_t low = (UINT64_C(1) << half) - 1, x = place;
  do {
    uint64_t left = x >> half, right = x & low;
    for (uint64_t round = 0; round < 4; round++) {
      uint64_t next = left ^ (random_word(r, right | round << 40) & low);
      left = right;
      right = next;
    }
    x = left << half | right;
  } while (x >= n);
  return x;
}
