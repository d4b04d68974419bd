/* The CPU's attention engines for a device whose memory the host cannot read. A call's tensors are
 * copied to the host, computed there and copied back: any form, mask, bias and state works on any
 * device from its first day. Engines of the device's own come before these in its list.
 */
#ifndef DEVICE_BRIDGE_H
#define DEVICE_BRIDGE_H

#include "attention/state.h"

enum { BRIDGE_ENGINES = 8 };

/* Tables that call the CPU's. */
typedef struct {
  attend_engine engine;
  char name[40]; /* "host:" and the CPU's */
  const attend_engine *inner;
  state_kind states;
} bridge_engine;

typedef struct {
  bridge_engine engine[BRIDGE_ENGINES];
  int count;
} bridge;

/* Fills in one engine for each of the CPU's; the bridge must stay where it is. */
void bridge_make(bridge *b);

#endif
