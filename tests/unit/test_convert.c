/* 16-bit floats: every value there and back, and rounding against a rounding
 * done in double by another road. */
#include "attend/base.h"
#include "base/base.h"
#include "check.h"

typedef struct {
  const char *name;
  attend_dtype dtype;
  int mantissa; /* bits */
  int min, max; /* exponents of the least and the largest normal */
} format;

static const format formats[] = {{"f16", ATTEND_F16, 10, -14, 15},
                                 {"bf16", ATTEND_BF16, 7, -126, 127}};

static float to_float(const format *f, uint16_t bits) {
  float out;
  attend_convert_to_f32(f->dtype, &bits, 1, &out);
  return out;
}

static uint16_t from_float(const format *f, float x) {
  uint16_t out;
  attend_convert_from_f32(f->dtype, &x, 1, &out);
  return out;
}

/* The value that the bits stand for, by the definition of the format. */
static double value_of(const format *f, unsigned bits) {
  unsigned fraction = bits & ((1u << f->mantissa) - 1);
  int exponent = (int)((bits & 0x7fff) >> f->mantissa);
  int normal = exponent != 0;
  double size = ldexp(fraction + (normal ? ldexp(1, f->mantissa) : 0),
                      (normal ? exponent - 1 : 0) + f->min - f->mantissa);
  if (exponent == f->max - f->min + 2) size = fraction ? NAN : INFINITY;
  return bits & 0x8000 ? -size : size;
}

/* Nearest, ties to even, by nearbyint on a scaled double. */
static double rounded(const format *f, double x) {
  if (x == 0 || !isfinite(x)) return x;
  int exponent = ilogb(x) < f->min ? f->min : ilogb(x);
  double unit = ldexp(1, exponent - f->mantissa);
  double y = nearbyint(x / unit) * unit;
  return fabs(y) >= ldexp(1, f->max + 1) ? copysign(INFINITY, x) : y;
}

static void check_all_values(const format *f) {
  for (unsigned bits = 0; bits < 65536; bits++) {
    double want = value_of(f, bits), got = to_float(f, (uint16_t)bits);
    uint16_t back = from_float(f, (float)got);
    if (isnan(want)) {
      CHECK(isnan(got) && isnan(to_float(f, back)));
      continue;
    }
    if (got != want || back != bits)
      CHECK_FAIL("%s %04x is %g, not %g, and comes back as %04x", f->name, bits, got, want, back);
  }
}

TEST(every_half) { check_all_values(&formats[0]); }
TEST(every_bf16) { check_all_values(&formats[1]); }

static void check_rounding(const format *f, float x) {
  double want = rounded(f, x), got = to_float(f, from_float(f, x));
  if (got != want || !signbit(got) != !signbit(x))
    CHECK_FAIL("%s of %a is %a, not %a", f->name, (double)x, got, want);
}

static float float_of(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

/* Floats on and beside the midpoints between neighbours, and random bits. */
static void check_roundings(const format *f) {
  for (unsigned bits = 0; bits < 0x7fff; bits++) {
    double here = value_of(f, bits), next = value_of(f, bits + 1);
    if (!isfinite(here) || isnan(next)) continue;
    if (isinf(next)) next = ldexp(1, f->max + 1);
    float middle = (float)(0.5 * here + 0.5 * next);
    check_rounding(f, middle);
    check_rounding(f, nextafterf(middle, 0));
    check_rounding(f, -nextafterf(middle, INFINITY));
  }
  for (uint64_t n = 0; n < 50000; n++) {
    uint32_t words[4];
    attend_random_block((attend_random){5, 0}, n, words);
    if (!isnan(float_of(words[0]))) check_rounding(f, float_of(words[0]));
  }
}

TEST(half_rounds_to_nearest_even) { check_roundings(&formats[0]); }
TEST(bf16_rounds_to_nearest_even) { check_roundings(&formats[1]); }

TEST(nan_stays_nan) {
  const uint32_t nans[] = {0x7f800001, 0x7fc00000, 0xff800001, 0x7fffffff};
  for (size_t n = 0; n < 4; n++)
    for (size_t f = 0; f < 2; f++)
      CHECK(isnan(to_float(&formats[f], from_float(&formats[f], float_of(nans[n])))));
}

TEST(names_and_sizes) {
  CHECK_EQ(attend_dtype_size(ATTEND_F32), 4);
  CHECK_EQ(attend_dtype_size(ATTEND_F16), 2);
  CHECK_EQ(attend_dtype_size(ATTEND_BF16), 2);
  CHECK(!strcmp(attend_dtype_name(ATTEND_BF16), "bf16"));
}
