/* JSON: parse, traverse, write, and parse the result. */
#include "base/json_write.h"
#include "fuzz.h"

static void write_value(json_writer *w, const attend_json *j) {
  size_t length;
  int64_t integer;
  const char *text = attend_json_string(j, &length);
  attend_json_kind kind = attend_json_kind_of(j);
  bool object = kind == ATTEND_JSON_OBJECT;
  if (text) {
    json_put_bytes(w, text, length);
  } else if (object || kind == ATTEND_JSON_ARRAY) {
    json_open(w, object ? '{' : '[');
    for (size_t i = 0; i < attend_json_count(j); i++) {
      const attend_json *child = attend_json_at(j, i);
      const char *name = attend_json_name(child, &length);
      if (object && strlen(name) == length) /* what has no zero byte inside */
        MUST(attend_json_get(j, name) == child);
      if (object) json_member(w, name);
      write_value(w, child);
    }
    json_close(w, object ? '}' : ']');
  } else if (attend_json_integer(j, &integer)) {
    json_put_integer(w, integer);
  } else if (kind == ATTEND_JSON_NUMBER) {
    json_put_number(w, attend_json_number(j, 0));
  } else if (kind == ATTEND_JSON_BOOL) {
    json_put_boolean(w, attend_json_boolean(j, false));
  } else {
    json_put_null(w);
  }
}

/* Two members may be the same up to a zero byte: those are not written. */
static bool has_zero_names(const attend_json *j) {
  for (size_t i = 0; i < attend_json_count(j); i++) {
    const attend_json *child = attend_json_at(j, i);
    size_t length;
    const char *name = attend_json_name(child, &length);
    if ((name && strlen(name) != length) || has_zero_names(child)) return true;
  }
  return false;
}

static bool is_same(const attend_json *a, const attend_json *b) {
  size_t n, m;
  const char *s = attend_json_string(a, &n), *t = attend_json_string(b, &m);
  if (attend_json_kind_of(a) != attend_json_kind_of(b) || n != m || (s && memcmp(s, t, n)) ||
      attend_json_count(a) != attend_json_count(b) ||
      attend_json_number(a, 0) != attend_json_number(b, 0) ||
      attend_json_boolean(a, false) != attend_json_boolean(b, false))
    return false;
  for (size_t i = 0; i < attend_json_count(a); i++)
    if (!is_same(attend_json_at(a, i), attend_json_at(b, i))) return false;
  return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
  attend_context *ctx = fuzz_context(length);
  attend_json *root, *again;
  size_t live = fuzz_live;
  if (!attend_json_parse(ctx, "it", (const char *)bytes, length, &root)) {
    json_writer w = json_writer_text(ctx);
    if (!has_zero_names(root)) {
      write_value(&w, root);
      MUST(!json_finish(&w));
      MUST(!attend_json_parse(ctx, "again", w.text, w.length, &again));
      MUST(is_same(root, again));
      attend_json_free(again);
    }
    json_writer_free(&w);
  }
  attend_json_free(root);
  MUST(fuzz_live == live);
  return 0;
}
