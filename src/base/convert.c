/* f16 and bf16 conversion, one value at a time; kernels convert whole rows and are tested
 * against it.
 */
#include "base/base.h"

#include <string.h>

float bf16_to_float(uint16_t h) { return float_of_bits((uint32_t)h << 16); }

uint16_t bf16_from_float(float f) {
  uint32_t u = float_bits(f);
  if ((u & 0x7fffffffu) > 0x7f800000u) /* NaN: keep it quiet, and a NaN */
    return (uint16_t)(u >> 16 | 0x40);
  return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

float half_to_float(uint16_t h) {
  uint32_t sign = (uint32_t)(h & 0x8000) << 16;
  uint32_t exponent = h >> 10 & 31, mantissa = h & 0x3ff;
  if (exponent == 31) /* a NaN becomes quiet, as the hardware makes it */
    return float_of_bits(sign | 0x7f800000u | mantissa << 13 | (mantissa ? 0x400000u : 0));
  if (exponent) return float_of_bits(sign | (exponent + 112) << 23 | mantissa << 13);
  float magnitude = (float)mantissa * 0x1p-24f;
  return sign ? -magnitude : magnitude;
}

uint16_t half_from_float(float f) {
  uint32_t u = float_bits(f), sign = u >> 16 & 0x8000, a = u & 0x7fffffffu;
  if (a > 0x7f800000u) return (uint16_t)(sign | 0x7e00 | (a >> 13 & 0x3ff));
  if (a >= 0x477ff000u) return (uint16_t)(sign | 0x7c00); /* rounds to inf */
  if (a < 0x38800000u) { /* below 2^-14: adding 1/2 rounds at 2^-24 */
    float rounded = float_of_bits(a) + 0.5f;
    return (uint16_t)(sign | (float_bits(rounded) - 0x3f000000u));
  }
  uint32_t even = a >> 13 & 1;
  return (uint16_t)(sign | ((a - 0x38000000u + 0xfff + even) >> 13));
}

size_t attend_dtype_size(attend_dtype dtype) { return dtype == ATTEND_F32 ? 4 : 2; }

const char *attend_dtype_name(attend_dtype dtype) {
  static const char *const names[] = {"f32", "f16", "bf16"};
  return (unsigned)dtype < 3 ? names[dtype] : "?";
}

void attend_convert_from_f32(attend_dtype dtype, const float *src, size_t n, void *dst) {
  if (dtype == ATTEND_F32) {
    memcpy(dst, src, n * sizeof *src);
    return;
  }
  uint16_t *out = dst;
  for (size_t i = 0; i < n; i++)
    out[i] = dtype == ATTEND_F16 ? half_from_float(src[i]) : bf16_from_float(src[i]);
}

void attend_convert_to_f32(attend_dtype dtype, const void *src, size_t n, float *dst) {
  if (dtype == ATTEND_F32) {
    memcpy(dst, src, n * sizeof *dst);
    return;
  }
  for (size_t i = 0; i < n; i++) {
    uint16_t bits; /* a file may put a tensor at any byte */
    memcpy(&bits, (const char *)src + i * sizeof bits, sizeof bits);
    dst[i] = dtype == ATTEND_F16 ? half_to_float(bits) : bf16_to_float(bits);
  }
}
