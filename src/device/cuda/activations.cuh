/* Activations and their derivatives. */
#ifndef DEVICE_CUDA_ACTIVATIONS_CUH
#define DEVICE_CUDA_ACTIVATIONS_CUH

#include "attend/layers.h"

static const float SQRT_2_PI = 0.7978845608028654f, GELU_CUBE = 0.044715f;

/* 1 / (1 + e^-x), to 2^-21 and without branches. */
__device__ inline float sigmoid(float x) { return __fdividef(1, 1 + __expf(-x)); }

/* (1 + tanh u) / 2 is the sigmoid of 2 u. */
__device__ inline float gelu_tanh_argument(float x) {
  return 2 * SQRT_2_PI * (x + GELU_CUBE * x * x * x);
}

__device__ inline float activation(attend_activation f, float x) {
  switch (f) {
    case ATTEND_RELU:
      return x > 0 ? x : x < 0 ? 0 : x; /* NaN stays */
    case ATTEND_GELU:
      return 0.5f * x * (1 + erff(x * 0.70710678118654752f));
    case ATTEND_GELU_TANH:
      return x * sigmoid(gelu_tanh_argument(x));
    case ATTEND_SILU:
      return x * sigmoid(x);
    case ATTEND_TANH:
      return tanhf(x);
    default:
      return x;
  }
}

__device__ inline float activation_slope(attend_activation f, float x) {
  switch (f) {
    case ATTEND_RELU:
      return x > 0 ? 1.f : x <= 0 ? 0.f : x;
    case ATTEND_GELU:
      return 0.5f * (1 + erff(x * 0.70710678118654752f)) +
             x * 0.3989422804014327f * expf(-0.5f * x * x);
    case ATTEND_GELU_TANH: {
      float s = sigmoid(gelu_tanh_argument(x));
      return s + x * s * (1 - s) * 2 * SQRT_2_PI * (1 + 3 * GELU_CUBE * x * x);
    }
    case ATTEND_SILU: {
      float s = sigmoid(x);
      return s * (1 + x * (1 - s));
    }
    case ATTEND_TANH: {
      float t = tanhf(x);
      return 1 - t * t;
    }
    default:
      return 1;
  }
}

#endif
