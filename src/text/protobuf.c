/* Protocol buffers, as far as SentencePiece's models need them.
 *
 * A message is a list of tagged fields: varints, 4 or 8 bytes, or a length and that
 * many bytes.
 */
#include "text/protobuf.h"

#include <string.h>

static bool read_varint(protobuf *p, uint64_t *value) {
  *value = 0;
  for (int shift = 0; shift < 64 && p->at < p->end; shift += 7) {
    unsigned char byte = *p->at++;
    *value |= (uint64_t)(byte & 127) << shift;
    if (byte < 128) return true;
  }
  return false;
}

static bool read_fixed(protobuf *p, protobuf_field *f, size_t bytes) {
  if ((size_t)(p->end - p->at) < bytes) return false;
  for (size_t i = 0; i < bytes; i++) f->value |= (uint64_t)p->at[i] << (8 * i);
  p->at += bytes;
  return true;
}

static bool read_data(protobuf *p, protobuf_field *f) {
  uint64_t length;
  if (!read_varint(p, &length) || length > (uint64_t)(p->end - p->at))
    return false;
  f->data = p->at;
  f->length = (size_t)length;
  p->at += length;
  return true;
}

static bool read_value(protobuf *p, protobuf_field *f, unsigned wire) {
  switch (wire) {
    case 0:
      return read_varint(p, &f->value);
    case 1:
      return read_fixed(p, f, 8);
    case 2:
      return read_data(p, f);
    case 5:
      return read_fixed(p, f, 4);
    default:
      return false;
  }
}

bool protobuf_next(protobuf *p, protobuf_field *field) {
  uint64_t tag;
  *field = (protobuf_field){0};
  if (p->bad || p->at == p->end) return false;
  p->bad = !read_varint(p, &tag) || !(tag >> 3) || tag >> 3 > UINT32_MAX;
  if (p->bad) return false;
  field->number = (uint32_t)(tag >> 3);
  p->bad = !read_value(p, field, (unsigned)(tag & 7));
  return !p->bad;
}

float protobuf_float(const protobuf_field *field) {
  uint32_t bits = (uint32_t)field->value;
  float f;
  memcpy(&f, &bits, sizeof f);
  return f;
}
