/* What comes from files is escaped before people see it: in text, and in every
 * sentence of a context. */
#include "attend/json.h"
#include "attention_fixtures.h"

static void check_escape(const char *text, const char *keep, const char *want) {
  char out[64];
  size_t n = attend_escape(text, strlen(text), keep, out, sizeof out);
  CHECK_EQ(n, strlen(want));
  if (strcmp(out, want)) CHECK_FAIL("\"%s\", not \"%s\"", out, want);
  CHECK_EQ(attend_escape(text, strlen(text), keep, NULL, 0), n);
}

TEST(control_characters_are_escaped) {
  check_escape("", "", "");
  check_escape("plain caf\xc3\xa9 \xf0\x9f\x91\x8d", "", "plain caf\xc3\xa9 \xf0\x9f\x91\x8d");
  check_escape("\x1b[31m", "", "\\x1b[31m");
  check_escape("a\nb\tc\r\x7f", "\n\t", "a\nb\tc\\x0d\\x7f");
  check_escape(
      "\xc2\x9b"
      "1m\xc2\xa0",
      "", "\\xc2\\x9b1m\xc2\xa0");
  check_escape("\xff\xc3", "", "\\xff\\xc3"); /* no UTF-8 */
  char small[6];
  CHECK_EQ(attend_escape("ab\x1b", 3, "", small, sizeof small), 6);
  CHECK(!strcmp(small, "ab")); /* no half of an escape */
}

static void check_xml(const char *text, size_t length, const char *want) {
  char out[64];
  CHECK_EQ(attend_escape_xml(text, length, out, sizeof out), strlen(want));
  if (strcmp(out, want)) CHECK_FAIL("\"%s\", not \"%s\"", out, want);
  CHECK_EQ(attend_escape_xml(text, length, NULL, 0), strlen(want));
}

TEST(xml_is_escaped) {
  static const char none[] = "\xef\xbf\xbd";
  check_xml("", 0, "");
  check_xml("<a b=\"c\">&amp;'", 15, "&lt;a b=&quot;c&quot;&gt;&amp;amp;'");
  check_xml("caf\xc3\xa9\t\r\n", 8, "caf\xc3\xa9\t\r\n");
  check_xml("\0", 1, none);
  check_xml("\x1b", 1, none);
  check_xml("\x7f", 1, none);
  check_xml("\xc2\x9b", 2, none);
  check_xml("\xff", 1, none);
  check_xml("\xef\xbf\xbf", 3, none);
  char small[6];
  CHECK_EQ(attend_escape_xml("ab<", 3, small, sizeof small), 6);
  CHECK(!strcmp(small, "ab")); /* no half of an entity */
}

TEST(sentences_are_escaped) {
  attend_context *ctx = open_context(NULL, 1, NULL);
  attend_json *root;
  const char *text = "{\"a\x1b\": 1}";
  CHECK(attend_json_parse(ctx, "a\x1b[31m.json", text, strlen(text), &root));
  CHECK(!strchr(attend_message(ctx), '\x1b'));
  CHECK_SAYS(attend_message(ctx), "a\\x1b[31m.json");
  attend_context_free(ctx);
}
