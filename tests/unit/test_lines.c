/* attend/lines.h: the same lines from memory and from files read in any chunks. */
#include "attend/lines.h"

#include "attention_fixtures.h"

#define CHECK_SAME(got, n, want) CHECK((n) == strlen(want) && !memcmp(got, want, n))

static void expect(attend_lines *lines, const char *text, size_t number) {
  attend_line line;
  OK(context(), attend_lines_next(lines, &line));
  CHECK(line.text);
  CHECK_EQ(line.number, number);
  if (line.text) CHECK_SAME(line.text, line.length, text);
}

static void expect_end(attend_lines *lines) {
  attend_line line;
  for (int i = 0; i < 2; i++) {
    OK(context(), attend_lines_next(lines, &line));
    CHECK(!line.text);
  }
}

TEST(lines_have_numbers_and_no_ends) {
  static const char text[] =
      "\xef\xbb\xbf"
      "a\tb\r\n\n \nlast\r\r";
  attend_lines *lines;
  OK(context(), attend_lines_of_bytes(context(), text, sizeof text - 1, "x.tsv", 0, &lines));
  expect(lines, "a\tb", 1);
  expect(lines, " ", 3);
  expect(lines, "last\r", 4);
  CHECK_EQ(attend_lines_bytes(lines), sizeof text - 1);
  expect_end(lines);
  attend_lines_free(lines);
}

TEST(json_names_file_and_line) {
  static const char text[] = "{\"a\": 1}\n \t\r\n{\n";
  attend_lines *lines;
  attend_line line;
  attend_json *root;
  OK(context(), attend_lines_of_bytes(context(), text, sizeof text - 1, "x.jsonl", 0, &lines));
  OK(context(), attend_lines_next(lines, &line));
  OK(context(), attend_lines_json(lines, &root));
  CHECK_EQ(attend_json_count(root), 1);
  attend_json_free(root);
  expect(lines, "{", 3); /* blank lines are skipped and counted */
  CHECK(attend_lines_json(lines, &root) != ATTEND_OK);
  CHECK_SAYS(attend_message(context()), "x.jsonl, line 3");
  attend_lines_free(lines);
}

TEST(columns_may_be_empty) {
  attend_line line = {"a\t\tb\t", 5, 1};
  static const char *const want[] = {"a", "", "b", ""};
  const char *text;
  size_t at = 0, length, n = 0;
  for (; attend_line_column(&line, &at, &text, &length); n++)
    if (n < 4) CHECK_SAME(text, length, want[n]);
  CHECK_EQ(n, 4);
}

/* Lines longer and shorter than a chunk; memory grows with the longest alone. */
TEST(files_give_the_lines_of_memory) {
  enum { N = 300000 };
  char *text = zeroed_block(N, 1);
  for (size_t i = 0; i < N; i++)
    text[i] = i % 65521 == 7 || (i > 200000 && i % 17 == 3) ? '\n' : (char)('a' + i % 26);
  FILE *file = tmpfile();
  CHECK(file && fwrite(text, 1, N, file) == N);
  rewind(file);
  attend_lines *a, *b;
  OK(context(), attend_lines_of_bytes(context(), text, N, "t", ATTEND_FORMAT_TSV, &a));
  OK(context(), attend_lines_of_file(context(), file, "t", ATTEND_FORMAT_TSV, &b));
  for (;;) {
    attend_line x, y;
    OK(context(), attend_lines_next(a, &x));
    OK(context(), attend_lines_next(b, &y));
    CHECK_EQ(x.number, y.number);
    CHECK_EQ(x.length, y.length);
    CHECK_EQ(attend_lines_bytes(a), attend_lines_bytes(b));
    CHECK(!x.text == !y.text);
    if (!x.text || !y.text || x.length != y.length) break;
    CHECK(!memcmp(x.text, y.text, x.length));
  }
  attend_lines_free(a);
  attend_lines_free(b);
  fclose(file);
  free(text);
}

TEST(formats_come_from_names) {
  attend_format format;
  CHECK_EQ(attend_format_of("a.jsonl"), ATTEND_FORMAT_JSONL);
  CHECK_EQ(attend_format_of("a.ndjson"), ATTEND_FORMAT_JSONL);
  CHECK_EQ(attend_format_of("a.tsv"), ATTEND_FORMAT_TSV);
  CHECK_EQ(attend_format_of("jsonl"), ATTEND_FORMAT_TEXT);
  CHECK(attend_format_parse("tsv", &format) && format == ATTEND_FORMAT_TSV);
  CHECK(!attend_format_parse("csv", &format));
}
