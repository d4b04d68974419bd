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
  void (*release)(attend_linear *linear); /* NULL: the CPU's */
};

/* Checks the arguments of a device's pack, and counts the parts' outputs. */
attend_status linear_check(attend_context *ctx, attend_weights kind, int inputs, int n_parts,
                           const attend_linear_part *parts, int *outputs);

#endif
