/* Option structs that begin with their size, so that fields can be added. */
#ifndef BASE_OPTIONS_H
#define BASE_OPTIONS_H

#include "base/base.h"

/* Copies the caller's options, which begin with a size_t, into `to` of `size`
 * bytes; what the caller does not have, or all of it where options is NULL, is 0. */
static inline attend_status options_read(attend_context *ctx, const void *options, size_t size,
                                         void *to) {
  size_t given = 0;
  memset(to, 0, size);
  if (!options) return ATTEND_OK;
  memcpy(&given, options, sizeof given);
  ATTEND_CHECK(ctx, given >= sizeof given,
               "options of %zu bytes: begin with the header's initialiser", given);
  memcpy(to, options, given < size ? given : size);
  return ATTEND_OK;
}

#endif
