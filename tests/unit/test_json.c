/* JSON: what is accepted, what is refused and where, and that what is written
 * reads back. */
#include <stdlib.h>

#include "attend/json.h"
#include "base/json_write.h"
#include "check.h"

static attend_context *context(void) {
  static attend_context *ctx;
  if (!ctx)
    attend_context_create(
        &(attend_context_options){ATTEND_INIT(attend_context_options), .isa = "scalar"}, &ctx);
  return ctx;
}

static attend_json *parse_bytes(const char *text, size_t length) {
  attend_json *root;
  attend_status status = attend_json_parse(context(), "a text", text, length, &root);
  CHECK((status == ATTEND_OK) == (root != NULL));
  CHECK(status == ATTEND_OK || status == ATTEND_IO);
  return root;
}

static attend_json *parse(const char *text) { return parse_bytes(text, strlen(text)); }

static void refuse(const char *text, const char *why) {
  attend_json *root = parse(text);
  if (root) CHECK_FAIL("\"%s\" was accepted", text);
  if (!root) CHECK_SAYS(attend_message(context()), why);
  attend_json_free(root);
}

TEST(kinds_and_values) {
  attend_json *r = parse(
      " {\"a\": [1, -2.5e2, true, false, null, \"x\"], \"b\": {}, \"c\": "
      "[]}\n");
  const attend_json *a = attend_json_get(r, "a");
  CHECK_EQ(attend_json_kind_of(r), ATTEND_JSON_OBJECT);
  CHECK_EQ(attend_json_count(r), 3);
  CHECK_EQ(attend_json_count(a), 6);
  CHECK_NEAR(attend_json_number(attend_json_at(a, 1), 0), -250, 0);
  CHECK(attend_json_boolean(attend_json_at(a, 2), false));
  CHECK(!attend_json_boolean(attend_json_at(a, 3), true));
  CHECK_EQ(attend_json_kind_of(attend_json_at(a, 4)), ATTEND_JSON_NULL);
  CHECK(!strcmp(attend_json_string(attend_json_at(a, 5), NULL), "x"));
  CHECK(!strcmp(attend_json_name(attend_json_at(r, 1), NULL), "b"));
  CHECK_EQ(attend_json_count(attend_json_get(r, "b")), 0);
  attend_json_free(r);
}

TEST(nothing_may_be_asked) {
  attend_json *r = parse("[1]");
  const attend_json *none = attend_json_get(attend_json_get(r, "x"), "y");
  int64_t n;
  CHECK(!none);
  CHECK_EQ(attend_json_kind_of(none), ATTEND_JSON_NONE);
  CHECK_NEAR(attend_json_number(none, 7), 7, 0);
  CHECK(!attend_json_integer(none, &n));
  CHECK(!attend_json_string(none, NULL));
  CHECK(!attend_json_at(r, 1));
  attend_json_free(r);
  attend_json_free(NULL);
}

TEST(integers_are_exact) {
  attend_json *r = parse(
      "[9223372036854775807, -9223372036854775808, 9223372036854775808, 1e3, "
      "1.5, 9007199254740993, -0]");
  int64_t n;
  CHECK(attend_json_integer(attend_json_at(r, 0), &n) && n == INT64_MAX);
  CHECK(attend_json_integer(attend_json_at(r, 1), &n) && n == INT64_MIN);
  CHECK(!attend_json_integer(attend_json_at(r, 2), &n));
  CHECK(attend_json_integer(attend_json_at(r, 3), &n) && n == 1000);
  CHECK(!attend_json_integer(attend_json_at(r, 4), &n));
  CHECK(attend_json_integer(attend_json_at(r, 5), &n) && n == 9007199254740993);
  CHECK(attend_json_integer(attend_json_at(r, 6), &n) && n == 0);
  attend_json_free(r);
}

TEST(strings_are_utf8) {
  attend_json *r = parse("[\"\\u00e9\\ud83d\\ude00\\n\\\"\\\\\\/\\u0000z\", \"é😀\"]");
  size_t length;
  const char *s = attend_json_string(attend_json_at(r, 0), &length);
  CHECK_EQ(length, 12);
  CHECK(!memcmp(s, "é😀\n\"\\/\0z", 13));
  s = attend_json_string(attend_json_at(r, 1), &length);
  CHECK_EQ(length, 6);
  attend_json_free(r);
}

TEST(what_is_refused) {
  refuse("", "ends too early");
  refuse("  ", "ends too early at byte 2");
  refuse("{", "without a name");
  refuse("[1,]", "not a value at byte 3");
  refuse("[1 2]", "missing comma or ] at byte 3");
  refuse("{\"a\" 1}", "without a colon at byte 5");
  refuse("{\"a\":1,}", "without a name at byte 7");
  refuse("{a:1}", "without a name");
  refuse("[1}", "missing comma or ]");
  refuse("1 2", "after the end at byte 2");
  refuse("nul", "not a value");
  refuse("truely", "after the end");
  refuse("\"abc", "no end at byte 0");
  refuse("\"a\nb\"", "control character");
  refuse("\"\\x\"", "unknown escape");
  refuse("\"\\u12g4\"", "hexadecimal");
  refuse("\"\\ud800\"", "surrogate");
  refuse("\"\\ud800\\u0041\"", "surrogate");
  refuse("\"\\udc00\"", "surrogate");
  refuse("\"\xff\"", "not UTF-8");
  refuse("\"\xc0\xaf\"", "not UTF-8");
  refuse("\"\xed\xa0\x80\"", "not UTF-8");
  refuse("\"\xf4\x90\x80\x80\"", "not UTF-8");
  refuse("\"\xe2\x82\"", "not UTF-8");
  refuse("01", "starts with 0");
  refuse("-", "without digits");
  refuse("1.", "fraction");
  refuse("1e", "exponent");
  refuse("+1", "not a value");
  refuse("NaN", "not a value");
  refuse("1e999", "range of a double");
  refuse("{\"a\":1,\"b\":2,\"a\":3}", "\"a\" comes twice");
}

TEST(ends_anywhere) { /* every prefix of a text is refused, none is read past */
  const char *text = "{\"k\": [1.5e3, \"\\ud83d\\ude00\", true], \"l\": null}";
  size_t length = strlen(text);
  for (size_t n = 0; n < length; n++) {
    char *copy = malloc(n ? n : 1); /* exact, so that a sanitizer sees */
    memcpy(copy, text, n);
    CHECK(!parse_bytes(copy, n));
    free(copy);
  }
}

TEST(depth_is_limited) {
  enum { DEEP = 100000 };
  char *text = malloc(DEEP);
  memset(text, '[', DEEP);
  CHECK(!parse_bytes(text, DEEP));
  CHECK_SAYS(attend_message(context()), "deeper than 256");
  memset(text + ATTEND_JSON_DEPTH, ']', ATTEND_JSON_DEPTH);
  attend_json *r = parse_bytes(text, 2 * ATTEND_JSON_DEPTH);
  CHECK(r != NULL);
  attend_json_free(r);
  free(text);
}

TEST(large_objects_are_indexed) {
  enum { MEMBERS = 20000 };
  char *text = malloc(MEMBERS * 24), *at = text, name[16];
  at += sprintf(at, "{");
  for (int i = 0; i < MEMBERS; i++)
    at += sprintf(at, "%s\"k%d\": %d", i ? "," : "", i * 7919 % MEMBERS, i);
  at += sprintf(at, "}");
  attend_json *r = parse_bytes(text, (size_t)(at - text));
  CHECK_EQ(attend_json_count(r), MEMBERS);
  for (int i = 0; i < MEMBERS; i += 97) {
    snprintf(name, sizeof name, "k%d", i * 7919 % MEMBERS);
    CHECK_NEAR(attend_json_number(attend_json_get(r, name), -1), i, 0);
  }
  CHECK(!attend_json_get(r, "k"));
  CHECK(!strcmp(attend_json_name(attend_json_at(r, 1), NULL), "k7919"));
  attend_json_free(r);
  at[-1] = ',';
  at += sprintf(at, "\"k77\": 0}");
  CHECK(!parse_bytes(text, (size_t)(at - text)));
  CHECK_SAYS(attend_message(context()), "\"k77\" comes twice");
  free(text);
}

TEST(written_reads_backward) {
  const double numbers[] = {0.1, 1.0 / 3, 1e300, 5e-324, -2.5, 1e15, 123456789};
  json_writer w = json_writer_text(context());
  json_open(&w, '[');
  for (int i = 0; i < 7; i++) json_put_number(&w, numbers[i]);
  json_put_number(&w, NAN);
  json_put_bytes(&w, "a\"\\\n\0é", 7);
  json_open(&w, '{');
  json_member(&w, "n\"");
  json_put_integer(&w, INT64_MIN);
  json_member(&w, "t");
  json_put_boolean(&w, true);
  json_close(&w, '}');
  json_close(&w, ']');
  CHECK_EQ(json_finish(&w), ATTEND_OK);
  attend_json *r = parse_bytes(w.text, w.length);
  for (size_t i = 0; i < 7; i++) CHECK(attend_json_number(attend_json_at(r, i), 0) == numbers[i]);
  CHECK_EQ(attend_json_kind_of(attend_json_at(r, 7)), ATTEND_JSON_NULL);
  size_t length;
  const char *s = attend_json_string(attend_json_at(r, 8), &length);
  CHECK_EQ(length, 7);
  CHECK(s && !memcmp(s, "a\"\\\n\0é", 7));
  int64_t n = 0;
  attend_json_integer(attend_json_get(attend_json_at(r, 9), "n\""), &n);
  CHECK(n == INT64_MIN);
  attend_json_free(r);
  json_writer_free(&w);
}

TEST(layout_of_what_is_written) {
  json_writer w = json_writer_text(context());
  json_indent(&w, true);
  json_open(&w, '{');
  json_member(&w, "a");
  json_open(&w, '[');
  json_close(&w, ']');
  json_member(&w, "b");
  json_put_number(&w, 2);
  json_close(&w, '}');
  json_finish(&w);
  CHECK(!strcmp(w.text, "{\n  \"a\": [],\n  \"b\": 2\n}\n"));
  json_writer_free(&w);
}

/* n name, v value, null or number, others as they are: what finish says of it. */
static attend_status write_calls(const char *calls) {
  json_writer w = json_writer_text(context());
  for (const char *c = calls; *c; c++)
    if (*c == 'n')
      json_member(&w, "name");
    else if (*c == 'v')
      json_put_integer(&w, 1);
    else if (*c == 's')
      json_put_string(&w, "s");
    else if (strchr("}])", *c))
      json_close(&w, *c);
    else
      json_open(&w, *c);
  attend_status status = json_finish(&w);
  attend_json *root = NULL;
  if (!status) CHECK_EQ(attend_json_parse(context(), calls, w.text, w.length, &root), ATTEND_OK);
  if (status) CHECK_EQ(json_finish(&w), status); /* it stays */
  attend_json_free(root);
  json_writer_free(&w);
  return status;
}

TEST(calls_that_make_no_document_fail) {
  static const char *const good[] = {"v", "s", "[]", "{}", "[v[v]{}]", "{n[v{n{}}]}", "[[[]]]"};
  static const char *const bad[] = {"",     "[",    "{",    "[v",   "{nv",   "]",     "}",   "[}",
                                    "{]",   "[v}",  "{nv]", "{v}",  "{s}",   "{nvs}", "n",   "nv",
                                    "[n]",  "[nv]", "{n}",  "{nn}", "{nnv}", "vv",    "[]v", "v[]",
                                    "{}{}", "[]]",  "{}}",  "(",    "[)",    "[v]n",  "[{]}"};
  for (size_t i = 0; i < sizeof good / sizeof *good; i++) CHECK_EQ(write_calls(good[i]), ATTEND_OK);
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    if (write_calls(bad[i]) != ATTEND_INVALID)
      CHECK_FAIL("\"%s\" is written", bad[i]);
    else
      CHECK_SAYS(attend_message(context()), "would not be well-formed");
  }
  char deep[ATTEND_JSON_DEPTH * 2 + 3] = "";
  for (int i = 0; i < ATTEND_JSON_DEPTH; i++)
    deep[i] = '[', deep[2 * ATTEND_JSON_DEPTH - 1 - i] = ']';
  CHECK_EQ(write_calls(deep), ATTEND_OK);
  memset(deep, '[', ATTEND_JSON_DEPTH + 1);
  CHECK_EQ(write_calls(deep), ATTEND_INVALID);
}

TEST(a_full_disk_is_noticed) {
  FILE *full = fopen("/dev/full", "w");
  if (!full) return; /* not every system has one */
  json_writer w = json_writer_file(context(), full);
  json_put_string(&w, "text");
  CHECK_EQ(json_finish(&w), ATTEND_IO);
  fclose(full);
}

static size_t allowed;

static void *take_some(size_t bytes, void *user) {
  (void)user;
  return allowed-- > 0 ? aligned_alloc(64, bytes) : NULL;
}

static void give_back(void *block, void *user) {
  (void)user;
  free(block);
}

TEST(memory_runs_out) {
  attend_context *ctx;
  attend_json *r;
  attend_context_options o = {ATTEND_INIT(attend_context_options), .isa = "scalar",
                              .allocator = {take_some, give_back, NULL}};
  allowed = 1;
  attend_context_create(&o, &ctx);
  for (size_t n = 0; n < 2; n++) {
    allowed = n;
    CHECK_EQ(attend_json_parse(ctx, "x", "[1]", 3, &r), ATTEND_NO_MEMORY);
  }
  allowed = 2;
  CHECK_EQ(attend_json_parse(ctx, "x", "[1]", 3, &r), ATTEND_OK);
  attend_json_free(r);
  attend_context_free(ctx);
}
