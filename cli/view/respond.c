/* HTTP responses: files of the page, answers, streams, refusals, with their headers. */
#include "view/respond.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "view/guard.h"

enum { STREAM_BLOCK = 1 << 14 };

typedef struct {
  const char *name, *value;
} header;

static const header every_reply[] = {
    {"Content-Security-Policy",
     "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' "
     "blob: data:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
     "frame-ancestors 'none'"},
    {"X-Content-Type-Options", "nosniff"},
    {"Referrer-Policy", "no-referrer"},
    {"Cross-Origin-Opener-Policy", "same-origin"},
    {"Cross-Origin-Resource-Policy", "same-origin"},
};
enum { EVERY_REPLY = sizeof every_reply / sizeof *every_reply };

static bool add(struct MHD_Response *r, const char *name, const char *value) {
  return MHD_add_response_header(r, name, value) == MHD_YES;
}

/* Queues the response and drops its reference in any case. */
static enum MHD_Result send_reply(struct MHD_Connection *c, int status, const char *type,
                                  const char *cached, struct MHD_Response *r) {
  bool fine = add(r, "Cache-Control", cached);
  if (type) fine = add(r, "Content-Type", type) && fine;
  for (int i = 0; i < EVERY_REPLY; i++)
    fine = add(r, every_reply[i].name, every_reply[i].value) && fine;
  enum MHD_Result sent = MHD_NO;
  if (fine) sent = MHD_queue_response(c, (unsigned)status, r);
  MHD_destroy_response(r);
  return sent;
}

/* ---- the page -------------------------------------------------------------- */

/* FNV-1a. */
static uint64_t hash(const unsigned char *bytes, size_t length) {
  uint64_t h = 0xcbf29ce484222325u;
  for (size_t i = 0; i < length; i++) h = (h ^ bytes[i]) * 0x100000001b3u;
  return h;
}

void page_tags_make(page_tags *tags) {
  for (int i = 0; i < PAGE_FILES; i++) {
    page_file f = page_data((page_part)i);
    unsigned long long h = hash(f.bytes, f.length);
    snprintf(tags->plain[i], TAG_SIZE, "\"%016llx\"", h);
    snprintf(tags->packed[i], TAG_SIZE, "\"%016llx-gz\"", h);
  }
}

static const char *header_of(struct MHD_Connection *c, const char *name) {
  return MHD_lookup_connection_value(c, MHD_HEADER_KIND, name);
}

enum MHD_Result respond_page(struct MHD_Connection *c, const page_tags *tags, page_part part,
                             size_t *bytes) {
  page_file f = page_data(part);
  bool packed = guard_takes_gzip(header_of(c, "Accept-Encoding"));
  const char *tag = packed ? tags->packed[part] : tags->plain[part];
  bool known = guard_has_tag(header_of(c, "If-None-Match"), tag);
  *bytes = known ? 0 : packed ? f.packed_length : f.length;
  struct MHD_Response *r = MHD_create_response_from_buffer(
      *bytes, (void *)(packed ? f.packed : f.bytes), MHD_RESPMEM_PERSISTENT);
  if (!r) return MHD_NO;
  bool fine = add(r, "ETag", tag) && add(r, "Vary", "Accept-Encoding");
  if (packed && !known) fine = add(r, "Content-Encoding", "gzip") && fine;
  if (fine) return send_reply(c, known ? 304 : 200, known ? NULL : f.type, "no-cache", r);
  MHD_destroy_response(r);
  return MHD_NO;
}

/* ---- answers --------------------------------------------------------------- */

enum MHD_Result respond_answer(struct MHD_Connection *c, view_reply *reply, size_t *bytes) {
  struct MHD_Response *r =
      MHD_create_response_from_buffer(reply->length, reply->bytes, MHD_RESPMEM_MUST_FREE);
  *bytes = reply->length;
  if (!r) return free(reply->bytes), MHD_NO;
  return send_reply(c, reply->status, reply->type, "no-store", r);
}

enum MHD_Result respond_refusal(struct MHD_Connection *c, int status, const char *sentence,
                                const char *allow, size_t *bytes) {
  char text[512];
  *bytes = (size_t)snprintf(text, sizeof text, "{\"error\": \"%s\"}\n", sentence);
  struct MHD_Response *r = MHD_create_response_from_buffer(*bytes, text, MHD_RESPMEM_MUST_COPY);
  if (!r) return MHD_NO;
  if (!allow || add(r, "Allow", allow))
    return send_reply(c, status, "application/json", "no-store", r);
  MHD_destroy_response(r);
  return MHD_NO;
}

enum MHD_Result respond_stream(struct MHD_Connection *c, const respond_source *s) {
  struct MHD_Response *r =
      MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, STREAM_BLOCK, s->read, s->user, s->leave);
  if (!r) return s->leave(s->user), MHD_NO;
  return send_reply(c, 200, "text/event-stream", "no-store", r);
}
