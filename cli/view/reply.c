/* Making replies: JSON, and numbers in parts.
 *
 * Behind view_answer.h; the format is in viewer/README.md.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "view/core.h"

bool reply_json(asking *a, attend_json_writer *w) {
  attend_status status = attend_json_finish(w);
  if (!status) {
    a->reply->status = 200;
    a->reply->type = "application/json";
    a->reply->length = w->length;
    a->reply->bytes = need(w->length + 1, 1);
    memcpy(a->reply->bytes, w->text, w->length);
  }
  attend_json_writer_free(w);
  return ask_status(a, status);
}

static size_t part_count(const reply_part *p) {
  size_t n = 1;
  for (int i = 0; i < p->rank; i++) n *= (size_t)p->shape[i];
  return n;
}

static size_t part_bytes(const reply_part *p) {
  static const size_t size[] = {
      [PART_F32] = 4, [PART_F16] = 2, [PART_U8] = 1, [PART_I32] = 4};
  return part_count(p) * size[p->type];
}

typedef struct {
  double low, scale;
} levels;

/* 256 levels from the least to the most; where nothing is below 0, from 0. */
static levels levels_of(const float *x, size_t n) {
  double least = 0, most = 0;
  for (size_t i = 0; i < n; i++) {
    if (!isfinite(x[i])) continue;
    least = fmin(least, (double)x[i]);
    most = fmax(most, (double)x[i]);
  }
  return (levels){least, most > least ? (most - least) / 255 : 1};
}

static void put_u8(const float *x, size_t n, levels l, unsigned char *to) {
  for (size_t i = 0; i < n; i++) {
    double level = isfinite(x[i]) ? ((double)x[i] - l.low) / l.scale : 0;
    to[i] = (unsigned char)lrint(fmax(0, fmin(255, level)));
  }
}

static void put_part(const reply_part *p, levels l, unsigned char *to) {
  size_t n = part_count(p);
  if (p->type == PART_U8)
    put_u8(p->data, n, l, to);
  else if (p->type == PART_F16)
    attend_convert_from_f32(ATTEND_F16, p->data, n, to);
  else
    memcpy(to, p->data, part_bytes(p));
}

static void put_head(attend_json_writer *w, const reply_part *p, size_t at,
                     levels l) {
  static const char *const types[] = {[PART_F32] = "f32",
                                      [PART_F16] = "f16",
                                      [PART_U8] = "u8",
                                      [PART_I32] = "i32"};
  attend_json_open(w, '{');
  attend_json_member(w, "name");
  attend_json_put_string(w, p->name);
  attend_json_member(w, "type");
  attend_json_put_string(w, types[p->type]);
  attend_json_member(w, "shape");
  attend_json_open(w, '[');
  for (int i = 0; i < p->rank; i++) attend_json_put_integer(w, p->shape[i]);
  attend_json_close(w, ']');
  attend_json_member(w, "at");
  attend_json_put_integer(w, (int64_t)at);
  attend_json_member(w, "low");
  attend_json_put_number(w, l.low);
  attend_json_member(w, "scale");
  attend_json_put_number(w, l.scale);
  attend_json_close(w, '}');
}

static size_t eight(size_t n) { return (n + 7) / 8 * 8; }

static levels part_levels(const reply_part *p) {
  return p->type == PART_U8 ? levels_of(p->data, part_count(p))
                            : (levels){0, 1};
}

static void fill(asking *a, int n, const reply_part *parts,
                 const attend_json_writer *w, size_t bytes) {
  size_t header = eight(4 + w->length) - 4, at = 4 + header;
  unsigned char *to = need(4 + header + bytes, 1);
  for (int i = 0; i < 4; i++) to[i] = (unsigned char)(header >> (8 * i));
  memset(to + 4, ' ', header);
  memcpy(to + 4, w->text, w->length);
  for (int i = 0; i < n; i++) {
    put_part(&parts[i], part_levels(&parts[i]), to + at);
    at += eight(part_bytes(&parts[i]));
  }
  *a->reply = (view_reply){200, "application/octet-stream", to, at};
}

bool reply_parts(asking *a, int n, const reply_part *parts,
                 void (*extra)(attend_json_writer *w, const void *with),
                 const void *with) {
  attend_json_writer w = attend_json_writer_text(a->v->ctx);
  size_t at = 0;
  attend_json_open(&w, '{');
  attend_json_member(&w, "parts");
  attend_json_open(&w, '[');
  for (int i = 0; i < n; i++) {
    put_head(&w, &parts[i], at, part_levels(&parts[i]));
    at += eight(part_bytes(&parts[i]));
  }
  attend_json_close(&w, ']');
  if (extra) extra(&w, with);
  attend_json_close(&w, '}');
  attend_status status = attend_json_finish(&w);
  if (!status) fill(a, n, parts, &w, at);
  attend_json_writer_free(&w);
  return ask_status(a, status);
}
