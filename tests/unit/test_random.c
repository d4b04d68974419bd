/* Philox against the known answers of Random123, and the shape of what is
 * drawn from it. */
#include "attend/base.h"
#include "check.h"

static void check_block(uint64_t index, uint64_t stream, uint64_t seed, const uint32_t want[4]) {
  uint32_t got[4];
  attend_random_block((attend_random){seed, stream}, index, got);
  for (int n = 0; n < 4; n++) CHECK_EQ(got[n], want[n]);
}

TEST(known_answers) {
  check_block(0, 0, 0, (uint32_t[]){0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  check_block(~0ull, ~0ull, ~0ull, (uint32_t[]){0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  check_block(0x85a308d3243f6a88, 0x0370734413198a2e, 0x299f31d0a4093822,
              (uint32_t[]){0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST(any_range_is_the_same_stream) {
  enum { N = 41 };
  attend_random r = {7, 3};
  float whole[N], part[N];
  attend_random_normal(r, 0, N, whole);
  for (int first = 0; first < N; first++) {
    attend_random_normal(r, (uint64_t)first, (size_t)(N - first), part);
    CHECK(!memcmp(part, whole + first, sizeof(float) * (size_t)(N - first)));
  }
  attend_random_uniform(r, 0, N, whole);
  for (int first = 0; first < N; first++) {
    attend_random_uniform(r, (uint64_t)first, 1, part);
    CHECK(part[0] == whole[first]);
  }
}

TEST(streams_and_seeds_differ) {
  float a[4], b[4], c[4];
  attend_random_uniform((attend_random){1, 1}, 0, 4, a);
  attend_random_uniform((attend_random){1, 2}, 0, 4, b);
  attend_random_uniform((attend_random){2, 1}, 0, 4, c);
  for (int n = 0; n < 4; n++) CHECK(a[n] != b[n] && a[n] != c[n]);
}

enum { DRAWS = 1 << 16 };
static float draws[DRAWS];

static double moment(int power, double about) {
  double sum = 0;
  for (int n = 0; n < DRAWS; n++) sum += pow(draws[n] - about, power);
  return sum / DRAWS;
}

/* Tolerances are about four standard errors; the stream is fixed. */
TEST(normal_moments) {
  attend_random_normal((attend_random){1, 2}, 0, DRAWS, draws);
  CHECK_NEAR(moment(1, 0), 0, 0.016);
  CHECK_NEAR(moment(2, 0), 1, 0.022);
  CHECK_NEAR(moment(3, 0), 0, 0.061);
  CHECK_NEAR(moment(4, 0), 3, 0.16);
  double neighbours = 0;
  for (int n = 1; n < DRAWS; n++) neighbours += draws[n] * draws[n - 1];
  CHECK_NEAR(neighbours / DRAWS, 0, 0.016);
}

TEST(uniform_moments) {
  attend_random_uniform((attend_random){1, 2}, 0, DRAWS, draws);
  CHECK_NEAR(moment(1, 0), 0.5, 0.0046);
  CHECK_NEAR(moment(2, 0.5), 1.0 / 12, 0.0012);
  int outside = 0;
  for (int n = 0; n < DRAWS; n++) outside += draws[n] < 0 || draws[n] >= 1;
  CHECK_EQ(outside, 0);
}
