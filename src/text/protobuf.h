/* Protocol buffers, as far as SentencePiece's models need them.
 *
 * Reads a message field by field; nothing is copied.
 */
#ifndef TEXT_PROTOBUF_H
#define TEXT_PROTOBUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
  const unsigned char *at, *end;
  bool bad; /* a length or a number that does not end where it must */
} protobuf;

typedef struct {
  uint32_t number;
  uint64_t value;            /* of a varint, or 4 or 8 raw bytes */
  const unsigned char *data; /* of a string or a message, else NULL */
  size_t length;
} protobuf_field;

/* The next field; false at the end, and where the message lies. */
bool protobuf_next(protobuf *p, protobuf_field *field);
float protobuf_float(const protobuf_field *field);

#endif
