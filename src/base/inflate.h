/* Decompressing deflate (RFC 1951), as .npz files store it. */
#ifndef BASE_INFLATE_H
#define BASE_INFLATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Fills `to` with exactly `length` bytes. False if the data is corrupt, or gives more or
 * fewer bytes. Allocates nothing. */
bool inflate_bytes(const unsigned char *from, size_t from_length, unsigned char *to, size_t length);

/* A stretch of n bytes gives at most so many. */
static inline size_t inflate_most(size_t n) { return n > SIZE_MAX / 1033 ? SIZE_MAX : 1033 * n; }

/* The CRC-32 of zip files. */
uint32_t crc32_of(const unsigned char *bytes, size_t length);

#endif
