#include "base/options.h"

attend_status options_read(attend_context *ctx, const char *type, const void *from, size_t size,
                           void *to) {
  const unsigned char *bytes = from;
  size_t given = size;
  memset(to, 0, size);
  if (bytes) memcpy(&given, bytes, sizeof given);
  ATTEND_CHECK(ctx, given >= sizeof given, "%s.size is %zu: begin it with ATTEND_INIT(%s)", type,
               given, type);
  for (size_t i = size; i < given; i++)
    ATTEND_CHECK(ctx, bytes[i] == 0, "%s has fields that this library does not know (version %s)",
                 type, ATTEND_VERSION);
  if (bytes) memcpy(to, bytes, given < size ? given : size);
  memcpy(to, &size, sizeof size);
  return ATTEND_OK;
}
