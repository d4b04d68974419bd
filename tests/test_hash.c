/* SipHash-1-3 against the answers of CPython 3.11, which hashes with it
 * (_imp.source_hash: the second half of the key is 0). */
#include "base/hash.h"
#include "check.h"

TEST(known_answers) {
  static const struct {
    size_t length;
    uint64_t want;
  } known[] = {{0, 0xf46d3bfe2ea281dc},  {1, 0x5bb2c195fe70a449},
               {7, 0x3dd20bc6123b60e0},  {8, 0x5124317f8cfc24cb},
               {15, 0x7f501f340ece0c62}, {16, 0xa07bf4038d638986},
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
