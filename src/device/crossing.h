/* The tensors of a call where they are needed: copies of the device's on the host, for engines that
 * run there, or of the host's on the device, for callers whose memory is the host's.
 */
#ifndef DEVICE_CROSSING_H
#define DEVICE_CROSSING_H

#include "attention/engine.h"

/* A pointer of the call, and the bytes around it that are used. */
typedef struct {
  void **pointer;
  char *original; /* its value */
  char *from, *to;
  bool written;
} crossing_pointer;

/* Spans that overlap, such as rows of q, k and v side by side, are one region: what is written back
 * must not restore what another tensor wrote. */
typedef struct {
  char *from, *to, *copy;
  bool written;
} crossing_region;

typedef enum { TO_HOST, TO_DEVICE } crossing_direction;
enum { MOST_CROSSINGS = 24 };

typedef struct {
  attend_context *ctx;
  crossing_direction direction;
  crossing_pointer all[MOST_CROSSINGS];
  crossing_region regions[MOST_CROSSINGS];
  int n, n_regions;
} crossing;

/* Finds the tensors of a call that lie on the other side; keys: rows of k and v. */
void crossing_of(call *c, int64_t keys, crossing_direction direction, crossing *x);
/* Copies them and points the call at the copies. Call crossing_return even if this fails. */
attend_status crossing_go(crossing *x);
/* Copies results back, unless the status is an error, and restores the call's pointers. */
void crossing_return(crossing *x, attend_status status);

#endif
