/* What the trapping test device needs of a context; see trap.c. */
#ifndef DEVICE_TRAP_H
#define DEVICE_TRAP_H

#include "base/base.h"

attend_status trap_create(attend_context *ctx);
void trap_free(attend_context *ctx);
/* Access to the device's memory, and no more. */
void trap_open(attend_context *ctx);
void trap_close(attend_context *ctx);

#endif
