/* Dropout by elements of a random stream.
 *
 * Philox of base/random.c, 16 blocks side by side, vectorised by the compiler (with
 * ivdep; without, it unrolls the 16 first and takes twice the time).
 */
#include "kernels/cpu/vec.h"

enum { DRAWN = 4 * LANES }; /* elements that are drawn together */

/* Blocks `block` and on; word w of block i is drawn[4 i + w]. */
static void draw(attend_random r, uint64_t block, uint32_t drawn[DRAWN]) {
  uint32_t c0[LANES], c1[LANES], c2[LANES], c3[LANES];
  uint32_t k0 = (uint32_t)r.seed, k1 = (uint32_t)(r.seed >> 32);
  for (int i = 0; i < LANES; i++) {
    uint64_t at = block + (uint64_t)i;
    c0[i] = (uint32_t)at, c1[i] = (uint32_t)(at >> 32);
    c2[i] = (uint32_t)r.stream, c3[i] = (uint32_t)(r.stream >> 32);
  }
  for (int round = 0; round < 10; round++) {
#pragma GCC ivdep
    for (int i = 0; i < LANES; i++) {
      uint64_t p0 = (uint64_t)0xD2511F53u * c0[i];
      uint64_t p1 = (uint64_t)0xCD9E8D57u * c2[i];
      c0[i] = (uint32_t)(p1 >> 32) ^ c1[i] ^ k0;
      c2[i] = (uint32_t)(p0 >> 32) ^ c3[i] ^ k1;
      c1[i] = (uint32_t)p1;
      c3[i] = (uint32_t)p0;
    }
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  for (int i = 0; i < LANES; i++) {
    drawn[4 * i] = c0[i], drawn[4 * i + 1] = c1[i];
    drawn[4 * i + 2] = c2[i], drawn[4 * i + 3] = c3[i];
  }
}

void KERNEL(drop_row)(attend_random r, uint64_t first, uint32_t least, float factor, int n,
                      const float *x, float *y) {
  int skip = (int)(first % 4);
  uint64_t block = first / 4;
  for (int j = 0; j < n; block += LANES) {
    uint32_t drawn[DRAWN];
    int here = n - j < DRAWN - skip ? n - j : DRAWN - skip;
    draw(r, block, drawn);
#pragma GCC ivdep
    for (int i = 0; i < here; i++) {
      float a = x[j + i] * factor;
      y[j + i] = (int32_t)(drawn[skip + i] >> 8) < (int32_t)least ? 0.0f : a;
    }
    j += here;
    skip = 0;
  }
}
