/* Pixels as a PNG file.
 *
 * A PNG is a signature and chunks (length, name, data, CRC). The pixels are rows,
 * each after a byte that names its prediction filter, compressed by zlib. Pictures
 * are flat: without a filter they compress best.
 */
#include "pictures/png_write.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

typedef struct {
  uint8_t *bytes;
  size_t length;
} file;

static void put_number(file *f, uint32_t x) {
  for (int shift = 24; shift >= 0; shift -= 8) f->bytes[f->length++] = (uint8_t)(x >> shift);
}

static void put_chunk(file *f, const char *name, const void *data, size_t length) {
  put_number(f, (uint32_t)length);
  uint8_t *start = f->bytes + f->length;
  memcpy(start, name, 4);
  if (length) memcpy(start + 4, data, length);
  f->length += 4 + length;
  put_number(f, (uint32_t)crc32_z(0, start, 4 + length));
}

/* Each row after the byte 0: not predicted from others. */
static uint8_t *rows_of(const uint8_t *pixels, size_t size, size_t height) {
  uint8_t *rows = calloc(height, size + 1);
  for (size_t y = 0; y < height && rows; y++)
    memcpy(rows + y * (size + 1) + 1, pixels + y * size, size);
  return rows;
}

/* ---- the file -------------------------------------------------------------------- */

static void put_head(file *f, int width, int height, int channels) {
  static const uint8_t signature[8] = {137, 'P', 'N', 'G', 13, 10, 26, 10};
  uint8_t fields[13] = {0};
  file head = {fields, 0};
  put_number(&head, (uint32_t)width);
  put_number(&head, (uint32_t)height);
  fields[8] = 8; /* bits of a channel */
  fields[9] = channels == 4 ? 6 : 2;
  memcpy(f->bytes, signature, sizeof signature);
  f->length = sizeof signature;
  put_chunk(f, "IHDR", fields, sizeof fields);
}

attend_status png_write(const uint8_t *pixels, int width, int height, int channels, void **bytes,
                        size_t *length) {
  size_t size = (size_t)width * (size_t)channels, rows = (size_t)height;
  uint8_t *plain = rows_of(pixels, size, rows);
  uLongf packed_size = compressBound(rows * (size + 1));
  uint8_t *packed = calloc(packed_size, 1);
  file f = {NULL, 0};
  if (plain && packed && !compress2(packed, &packed_size, plain, rows * (size + 1), 8))
    f.bytes = calloc(packed_size + 128, 1);
  if (f.bytes) {
    put_head(&f, width, height, channels);
    put_chunk(&f, "sRGB", "\0", 1);
    put_chunk(&f, "IDAT", packed, packed_size);
    put_chunk(&f, "IEND", NULL, 0);
  }
  free(packed);
  free(plain);
  *bytes = f.bytes;
  *length = f.length;
  return f.bytes ? ATTEND_OK : ATTEND_NO_MEMORY;
}
