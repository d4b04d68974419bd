/* Digests of files (checkpoints, states, journals, corpora), and keyed hashes for tables.
 *
 * Digests are MurmurHash3 x64 128 (Austin Appleby, public domain), incremental, with seed 0. They
 * detect corruption, not forgery. For a fixed state every step is a bijection of the block, so
 * damage within one block of 16 bytes always changes the digest, and any other
 * stays hidden once in 2^128. A cryptographic hash would take several times as
 * long for files of gigabytes.
 */
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "attend/file.h"
#include "base/hash.h"

enum { BLOCK = 16 };

static uint64_t rotate(uint64_t x, int by) { return x << by | x >> (64 - by); }

static uint64_t mix_first(uint64_t k) {
  return rotate(k * UINT64_C(0x87c37b91114253d5), 31) * UINT64_C(0x4cf5ad432745937f);
}
static uint64_t mix_second(uint64_t k) {
  return rotate(k * UINT64_C(0x4cf5ad432745937f), 33) * UINT64_C(0x87c37b91114253d5);
}

static void add_blocks(uint64_t h[2], const unsigned char *bytes, size_t n) {
  uint64_t a = h[0], b = h[1], k[2];
  for (; n--; bytes += BLOCK) {
    memcpy(k, bytes, BLOCK);
    a = (rotate(a ^ mix_first(k[0]), 27) + b) * 5 + 0x52dce729;
    b = (rotate(b ^ mix_second(k[1]), 31) + a) * 5 + 0x38495ab5;
  }
  h[0] = a;
  h[1] = b;
}

void attend_digest_add(attend_digest *d, const void *bytes, size_t length) {
  const unsigned char *from = bytes;
  size_t open = (size_t)(d->length % BLOCK);
  if (!length) return;
  d->length += length;
  if (open) {
    size_t n = length < BLOCK - open ? length : BLOCK - open;
    memcpy(d->open + open, from, n);
    from += n;
    length -= n;
    if (open + n < BLOCK) return;
    add_blocks(d->h, d->open, 1);
  }
  add_blocks(d->h, from, length / BLOCK);
  memcpy(d->open, from + length / BLOCK * BLOCK, length % BLOCK);
}

static uint64_t finish(uint64_t x) {
  x = (x ^ x >> 33) * UINT64_C(0xff51afd7ed558ccd);
  x = (x ^ x >> 33) * UINT64_C(0xc4ceb9fe1a85ec53);
  return x ^ x >> 33;
}

void attend_digest_end(const attend_digest *d, uint64_t word[2]) {
  uint64_t k[2] = {0, 0};
  memcpy(k, d->open, (size_t)(d->length % BLOCK));
  uint64_t a = (d->h[0] ^ mix_first(k[0])) ^ d->length;
  uint64_t b = (d->h[1] ^ mix_second(k[1])) ^ d->length;
  a += b;
  b += a;
  a = finish(a);
  b = finish(b);
  word[0] = a + b;
  word[1] = b + word[0];
}

void attend_digest_text(const attend_digest *d, char text[ATTEND_DIGEST_TEXT]) {
  uint64_t word[2];
  attend_digest_end(d, word);
  snprintf(text, ATTEND_DIGEST_TEXT, "%016llx%016llx", (unsigned long long)word[0],
           (unsigned long long)word[1]);
}

/* ---- keyed hashing --------------------------------------------------------------- */

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
