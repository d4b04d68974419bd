/* The body of a request while it arrives; bounded by itself and in total. */
#include "view/body.h"

#include <stdlib.h>
#include <string.h>

/* Small requests do not count, so that large ones cannot block them. */
enum { SMALL = 1 << 14 };

static size_t counted(size_t capacity) { return capacity > SMALL ? capacity : 0; }

static bool grow(body_room *room, view_body *b, size_t length) {
  size_t capacity = SMALL;
  while (capacity < length + 1) capacity *= 2;
  if (b->bytes && capacity <= b->capacity) return true;
  size_t more = counted(capacity) - counted(b->capacity);
  bool fits = atomic_fetch_add(&room->held, more) + more <= room->most;
  char *bytes = fits || !more ? realloc(b->bytes, capacity) : NULL;
  if (!bytes) {
    atomic_fetch_sub(&room->held, more);
    return false;
  }
  b->bytes = bytes;
  b->capacity = capacity;
  return true;
}

static bool throw_away(view_body *b, size_t count) {
  b->thrown += count;
  return b->thrown <= BODY_READ_ON;
}

bool body_take(body_room *room, view_body *b, const char *bytes, size_t count) {
  if (b->status) return throw_away(b, count);
  if (count > BODY_MOST - b->length)
    b->status = 413;
  else if (!grow(room, b, b->length + count))
    b->status = 503;
  if (b->status) {
    body_clear(room, b);
    return throw_away(b, count);
  }
  if (count) memcpy(b->bytes + b->length, bytes, count);
  b->length += count;
  b->bytes[b->length] = 0;
  return true;
}

void body_clear(body_room *room, view_body *b) {
  free(body_release(room, b));
  b->length = 0;
}

char *body_release(body_room *room, view_body *b) {
  char *bytes = b->bytes;
  atomic_fetch_sub(&room->held, counted(b->capacity));
  b->bytes = NULL;
  b->capacity = 0;
  return bytes;
}
