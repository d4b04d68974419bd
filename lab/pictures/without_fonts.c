/* In place of png.c and raster.c in builds without fonts, stb_truetype and zlib, which draw in the
 * terminal alone: cli/ refuses pictures there before anything is laid out. */
#include "pictures/draw.h"
#include "pictures/raster.h"

double glyphs_advance(bool bold, uint32_t code) {
  (void)bold, (void)code;
  return 0.6;
}

attend_status draw_png(const drawing *d, double scale, void **bytes, size_t *length) {
  (void)d, (void)scale, (void)length;
  *bytes = NULL;
  return ATTEND_UNSUPPORTED;
}

attend_status png_write(const uint8_t *pixels, int width, int height, int channels, void **bytes,
                        size_t *length) {
  (void)pixels, (void)width, (void)height, (void)channels, (void)length;
  *bytes = NULL;
  return ATTEND_UNSUPPORTED;
}
