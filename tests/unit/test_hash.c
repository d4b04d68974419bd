/* SipHash-1-3 against the answers of CPython 3.11, which hashes with it
 * (_imp.source_hash: the second half of the key is 0). */
#include "base/hash.h"

#include <stdbool.h>

#include "attend/base.h"
#include "check.h"

TEST(known_answers) {
  static const struct {
    size_t length;
    uint64_t want;
  } known[] = {{0, 0xf46d3bfe2ea281dc}, {1, 0x5bb2c195fe70a449},  {7, 0x3dd20bc6123b60e0},
               {8, 0x5124317f8cfc24cb}, {15, 0x7f501f340ece0c62}, {16, 0xa07bf4038d638986},
               {63, 0x9c56dbe0649233f3}};
  const hash_key key = {{0x0706050403020100, 0}};
  unsigned char bytes[64];
  for (unsigned i = 0; i < sizeof bytes; i++) bytes[i] = (unsigned char)i;
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    CHECK(hash_keyed(key, bytes, known[i].length) == known[i].want);
}

TEST(keys_differ) {
  hash_key a = hash_key_draw(), b = hash_key_draw();
  CHECK(memcmp(&a, &b, sizeof a));
  CHECK(hash_keyed(a, "piece", 5) != hash_keyed(b, "piece", 5));
  CHECK(hash_keyed(a, "piece", 5) == hash_keyed(a, "piece", 5));
}

/* The longest way that linear probing takes to any of n keys that are `step`
 * apart, in twice as many slots. */
static int longest_probe(hash_key key, int n, uint64_t step) {
  static bool used[4096];
  size_t mask = 2 * (size_t)n - 1;
  int longest = 0;
  memset(used, 0, sizeof used);
  for (int i = 0; i < n; i++) {
    size_t at = (size_t)hash_word(key, (uint64_t)i * step + 98) & mask;
    int probes = 1;
    for (; used[at]; at = (at + 1) & mask) probes++;
    used[at] = true;
    if (probes > longest) longest = probes;
  }
  return longest;
}

TEST(no_key_makes_runs_of_words) {
  static const uint64_t steps[] = {1, 256, (uint64_t)1 << 32};
  attend_random r = {5, 0};
  for (uint64_t i = 0; i < 3000; i++) {
    uint32_t drawn[4];
    attend_random_block(r, i, drawn);
    hash_key key = {{(uint64_t)drawn[0] << 32 | drawn[1], (uint64_t)drawn[2] << 32 | drawn[3]}};
    for (int k = 0; k < 3; k++) CHECK(longest_probe(key, 1024, steps[k]) < 100);
  }
}
