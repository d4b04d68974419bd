/* Structs that a caller fills in begin with their size, so that fields can be added. */
#ifndef BASE_OPTIONS_H
#define BASE_OPTIONS_H

#include "base/base.h"

/* Copies the caller's struct into *to, of this library's size; what the caller's does not
 * have, or all of it where from is NULL, is 0. */
#define OPTIONS_READ(ctx, type, from, to) options_read(ctx, #type, from, sizeof(type), to)

attend_status options_read(attend_context *ctx, const char *type, const void *from, size_t size,
                           void *to) FOR_LAB(options_read);

/* Back into the caller's struct, of the size that it says. */
static inline void options_write(const void *from, size_t size, void *to) {
  size_t given;
  memcpy(&given, to, sizeof given);
  const size_t first = sizeof given, end = given < size ? given : size;
  memcpy((char *)to + first, (const char *)from + first, end - first);
}

#endif
