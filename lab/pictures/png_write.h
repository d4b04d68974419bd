/* Pixels as a PNG file.
 */
#ifndef PICTURES_PNG_WRITE_H
#define PICTURES_PNG_WRITE_H

#include <stddef.h>
#include <stdint.h>

#include "attend/base.h"

/* channels: 3 RGB, 4 RGBA. Bytes to be freed by free(); NULL on failure. */
attend_status png_write(const uint8_t *pixels /* [height, width, channels] */, int width,
                        int height, int channels, void **bytes, size_t *length);

#endif
