/* Keyed hashing of byte strings: SipHash-1-3 (Aumasson and Bernstein, 2012).
 *
 * For hash tables whose keys come from a file. A file cannot choose keys that collide
 * without knowing the table's key, which is random. Nothing that is computed may
 * depend on the order of such a table.
 */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

typedef struct {
  uint64_t k[2];
} hash_key;

/* A fresh random key: draw one per table. */
hash_key hash_key_draw(void);
uint64_t hash_keyed(hash_key key, const void *bytes, size_t length);
/* Of one word, by two multiplications. One alone is a universal hash, which keeps
 * pairs of keys apart but not runs of them: with an unlucky key the slots of
 * consecutive numbers follow each other, and linear probing takes their length. */
static inline uint64_t hash_word(hash_key key, uint64_t x) {
  x = (x ^ key.k[0]) * (key.k[1] | 1);
  x ^= x >> 32;
  x *= UINT64_C(0x9e3779b97f4a7c15);
  return x >> 32;
}

#endif
