/* Keyed hashing of byte strings. */
#include "base/hash.h"

#include <string.h>
#include <sys/random.h>
#include <time.h>

/* Where the system has no random bytes, an address and the clock must do: the
 * key guards against slow tables, not secrets. */
hash_key hash_key_draw(void) {
  hash_key key;
  if (getrandom(&key, sizeof key, GRND_NONBLOCK) == (ssize_t)sizeof key) return key;
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  key.k[0] = (uint64_t)(uintptr_t)&key;
  key.k[1] = (uint64_t)now.tv_nsec << 32 ^ (uint64_t)now.tv_sec;
  return key;
}

static uint64_t rotate(uint64_t x, int bits) { return x << bits | x >> (64 - bits); }

static void sip_round(uint64_t v[4]) {
  v[0] += v[1];
  v[2] += v[3];
  v[1] = rotate(v[1], 13) ^ v[0];
  v[3] = rotate(v[3], 16) ^ v[2];
  v[0] = rotate(v[0], 32);
  v[2] += v[1];
  v[0] += v[3];
  v[1] = rotate(v[1], 17) ^ v[2];
  v[3] = rotate(v[3], 21) ^ v[0];
  v[2] = rotate(v[2], 32);
}

static void absorb(uint64_t v[4], uint64_t word) {
  v[3] ^= word;
  sip_round(v);
  v[0] ^= word;
}

uint64_t hash_keyed(hash_key key, const void *bytes, size_t length) {
  uint64_t v[4] = {key.k[0] ^ UINT64_C(0x736f6d6570736575), key.k[1] ^ UINT64_C(0x646f72616e646f6d),
                   key.k[0] ^ UINT64_C(0x6c7967656e657261),
                   key.k[1] ^ UINT64_C(0x7465646279746573)};
  const unsigned char *at = bytes;
  uint64_t word, last = (uint64_t)length << 56;
  size_t left = length;
  for (; left >= 8; at += 8, left -= 8) {
    memcpy(&word, at, 8); /* native order: hashes never leave the process */
    absorb(v, word);
  }
  for (size_t i = 0; i < left; i++) last |= (uint64_t)at[i] << (8 * i);
  absorb(v, last);
  v[2] ^= 0xff;
  for (int i = 0; i < 3; i++) sip_round(v);
  return v[0] ^ v[1] ^ v[2] ^ v[3];
}
