/* The packed weights of a linear layer; a device lays them out as it likes. */
#ifndef LAYERS_LINEAR_H
#define LAYERS_LINEAR_H

#include "layers/ops.h"

struct attend_linear {
  attend_context *ctx;
  attend_weights kind;
  bool backward; /* dX = dY W: inputs are the parts' outputs */
  int inputs, outputs;
  int lanes;     /* the CPU's: of 16 outputs */
  void *weights; /* CPU: [lanes][inputs][16]; CUDA: [outputs][inputs] */
  float *scale;  /* [outputs], int8 alone; like bias up to whole lanes */
  float *bias;   /* [outputs] */
  size_t bytes;
};

#endif
