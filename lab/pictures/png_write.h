/* Pixels as a PNG file.
 *
 * Under draw_png.c, and under draw_svg.c for the images in it.
 */
#ifndef CLI_PNG_WRITE_H
#define CLI_PNG_WRITE_H

#include <stddef.h>
#include <stdint.h>

/* channels: 3 RGB, 4 RGBA. Bytes to be freed by free(). */
void png_write(const uint8_t *pixels /* [height, width, channels] */, int width,
               int height, int channels, void **bytes, size_t *length);

#endif
