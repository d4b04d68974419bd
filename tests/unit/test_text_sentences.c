/* Sentences: hard cases, and what holds for any bytes. */
#include "attend/text.h"
#include "base/base.h"
#include "check.h"

enum { MOST = 4096 };

/* A case is a text with | where a sentence ends and || where a paragraph does;
 * at its end both do. */
typedef struct {
  char text[MOST];
  size_t length, count;
  size_t end[256];
  bool paragraph[256];
} wanted;

static bool is_blank(char c) { return strchr(" \t\r\n", c) && c; }

static wanted read_case(const char *marked) {
  wanted w = {.length = 0};
  for (const char *s = marked; *s; s++) {
    if (*s != '|') {
      w.text[w.length++] = *s;
      continue;
    }
    w.end[w.count] = w.length;
    w.paragraph[w.count++] = s[1] == '|';
    s += s[1] == '|';
  }
  size_t end = w.length;
  while (end && is_blank(w.text[end - 1])) end--;
  w.end[w.count] = end;
  w.paragraph[w.count++] = true;
  return w;
}

static void check_case_of(const char *marked) {
  wanted w = read_case(marked);
  char got[2 * MOST];
  size_t n = 0, count = 0, at = 0;
  bool same = true;
  for (attend_sentence s = {0}; attend_sentence_next(w.text, w.length, &s);) {
    size_t end = s.start + s.length;
    bool last = count + 1 >= w.count;
    if (count >= w.count || w.end[count] != end || w.paragraph[count] != s.ends_paragraph)
      same = false;
    memcpy(got + n, w.text + at, end - at);
    n += end - at;
    at = end;
    if (!last || !s.ends_paragraph) got[n++] = '|';
    if (!last && s.ends_paragraph) got[n++] = '|';
    count++;
  }
  got[n] = '\0';
  if (!same || count != w.count) CHECK_FAIL("cut as: %s", got);
}

static void check_cases(const char *const *cases) {
  for (; *cases; cases++) check_case_of(*cases);
}

#define CASES(...) check_cases((const char *const[]){__VA_ARGS__, NULL})

/* ---- stops ---------------------------------------------------------------------- */

TEST(plain_stops_end_sentences) {
  CASES("The rain stopped.| We went outside.", "Is it late?| I think so.",
        "There it goes!| Did you see it?| No.", "Nothing ends this one", "What?!| Never!!!| Fine.",
        "He sold 12.| Then he left.", "It was 1984.| 5 men came.",
        "Our shop opened in 2019.| Sales doubled.");
}

TEST(titles_and_initials_go_on) {
  CASES("Mr. Smith met Mrs. Jones.| They spoke.", "Dr. J. R. R. Hartley wrote it.| It sold well.",
        "Ask Prof. Ada B. Stone about it.", "Gen. Marsh and Lt. Col. Finch disagreed.",
        "St. Mary lies on Mt. Ida near Ft. Worth.",
        "We won, you and I.| Did you see Albert I. Jones?", "He took vitamin C.| It helped.",
        "Sammy Davis Jr. sang.| Martin Luther King Jr. spoke.");
}

TEST(abbreviations_go_on_unless_a_sentence_begins) {
  CASES("Fruit, e.g. Apples from Kent, i.e. The best ones.", "Smith et al. Found nothing new.",
        "It rains, snows, etc. in winter.", "They sell nails, screws, etc.| We bought some.",
        "She works for Acme Inc. in Paris.| He does not.", "She works for Acme Inc.| He does not.",
        "He worked for the U.S. Government.", "He lives in the U.S.| She left.",
        "I met the Ph.D. Candidate.", "Born Jan. 5, died Dec. 12.",
        "We came in Jan.| There was snow.", "Army vs. Navy, approx. Noon.",
        "the dept. of misc. items is approx. full");
}

TEST(numbers_keep_their_stops) {
  CASES("Pi is 3.14159 or so.| Good.", "See No. 5 and Nos. 7 and 8.", "Did you?| No.| I did not.",
        "It cost $1.50.| That was cheap.", "Cf. Fig. 3, pp. 12 and Vol. II, Chap. IV.",
        "Version 2.0.1 of libfoo.so.6 is out.| Get it.", "It is .5 of one.| The rest is gone.");
}

TEST(times_of_day) {
  CASES("At 5 a.m. Mr. Smith went to the bank.",
        "He left the old bank at 6 p.m.| Mary then went home.",
        "The meeting is held at 3 p.m. Monday in the hall.",
        "We meet at 9 a.m. every day.| The door is open.");
}

TEST(addresses_and_names_are_one_word) {
  CASES("Visit www.example.com.| Then mail joe.doe@example.com today.",
        "Node.js and ASP.NET are here.| Try them.",
        "Look at http://x.org/a?b=C.d&e!f for more.| Done.", "Buy an iPod.| iPods are old.",
        "It works.|Really.| Not so x.Y or a.Bc or F.Gh here.");
}

TEST(glued_sentences_come_apart) {
  CASES("They came.|--Mrs. Weston was alone--and sad.--yes, sad.",
        "\"Why?\"|\xe2\x80\x94She did not know.");
  CASES("It was late.|Then he left the house.|Nobody knew.|Nobody!");
}

TEST(ellipses) {
  CASES("I was ... well, late.", "He paused...| Then he spoke.", "It was . . . odd to see.",
        "They were not abandoned. . . .| The end.", "Well... I do not know.",
        "So it goes\xe2\x80\xa6| They left.", "I never meant that....| She left the store.");
}

TEST(quotes_and_brackets_belong_to_what_they_close) {
  CASES("\"Stop!\" he said.| \"Why?\"| She laughed.", "He said \"It is over.\"| Then he left.",
        "\xe2\x80\x9cGo on.\xe2\x80\x9d| \xe2\x80\x9cNo.\xe2\x80\x9d| He sat.",
        "He left (it was late.)| She stayed.", "He teaches (he is trained.) at the school.",
        "This is known.[12]| That is not.[3][4]| Fine.", "'Tis true.'| 'Is it?' asked Tom.",
        "_Why?_ he asked.| *Never.*| Good.", "(Yes.)| [No.]| {Perhaps.}");
}

TEST(lower_case_goes_on_save_behind_a_whole_word) {
  CASES("Oh! that I were there.", "Yahoo! is a name.", "it was dark.| nobody came.",
        "This is a library.| libfoo needs it.");
}

TEST(items_keep_their_numbers) {
  CASES("1. The first item.| It is short.", "IV. The Battle of the Books",
        "a. Apples.||\n\nb. Pears.", "B. The second part.");
}

TEST(other_scripts) {
  CASES(
      "\xe4\xbd\xa0\xe5\xa5\xbd\xe3\x80\x82|\xe5\x86\x8d\xe8\xa7\x81\xef\xbc"
      "\x81|\xe5\x97\xaf",
      /* a quotation taken up by the particle */
      "\xe3\x80\x8c\xe3\x81\x84\xe3\x81\x84\xe3\x80\x82\xe3\x80\x8d\xe3\x81"
      "\xa8\xe8\xa8\x80\xe3\x81\xa3\xe3\x81\x9f\xe3\x80\x82",
      "\xd0\x94\xd0\xb0.| \xd0\x9d\xd0\xb5\xd1\x82.",
      "\xc3\x89t\xc3\xa9 chaud.| \xc3\x87"
      "a va?| \xc2\xbfQu\xc3\xa9 tal?",
      "\xd9\x87\xd9\x84\xd8\x9f| \xd9\x86\xd8\xb9\xd9\x85\xdb\x94",
      "\xe0\xa4\xa8\xe0\xa5\xa4| \xe0\xa4\xb9\xe0\xa5\xa4");
}

/* ---- lines ---------------------------------------------------------------------- */

TEST(wrapped_lines_join) {
  CASES(
      "The quick brown fox jumps over the lazy dog and then it goes on to\n"
      "Sleep beside the river, as Mr.\nSmith says.| It rains.");
  CASES("He was born in the year\n1984.| It was cold in all of the land then.");
}

TEST(blank_lines_end_paragraphs) {
  CASES("A Heading||\n\nThe text.| More of it.||\n \t\nThe next one",
        "A Heading||\r\n\r\nThe text.", "A||\n\n\n\n\nB", "One||\f\n\nTwo");
}

TEST(items_of_lists_end_paragraphs) {
  CASES("We have:||\n - apples||\n - pears, which are\n   soft||\n - plums",
        "We have:||\n1. One||\n2. Two||\n10) Ten", "Intro||\n* a||\n* b",
        "# Title||\n## Part||\n- x", "Text.||\n\xe2\x80\xa2 one||\n\xe2\x80\xa2 two",
        "Either\n\xe2\x80\x94 or so we hope \xe2\x80\x94 the thing works well.");
}

TEST(rules_stand_alone) {
  CASES("Title||\n=====||\nText.", "Before||\n* * *||\nAfter", "---||\nx");
}

TEST(a_line_that_had_room_ends_a_paragraph) {
  CASES("Dear John||\nThis letter is a good deal longer than the line above.",
        "A short first paragraph.||\nThe second one is much longer than the "
        "first, and has no lines that were wrapped by anybody so far as one "
        "can see from here, which is far enough.||\nThird.");
}

TEST(indented_first_lines_begin_paragraphs) {
  CASES(
      "   The first line of one\nand the last of it.||\n   The first line of "
      "two\nand the rest.");
}

/* ---- any bytes -------------------------------------------------------------------- */

static size_t make_text(uint64_t seed, char *out) {
  static const char *const parts[] = {"a",
                                      "The",
                                      " ",
                                      " ",
                                      " ",
                                      "\n",
                                      "\n\n",
                                      ".",
                                      ".",
                                      "!",
                                      "?",
                                      "\"",
                                      ")",
                                      "(",
                                      "Mr",
                                      "U.S",
                                      "5",
                                      "- ",
                                      "1. ",
                                      "\r\n",
                                      "\xe2\x80\xa6",
                                      "\xe3\x80\x82",
                                      "\xe2\x80\x9d",
                                      "\xff",
                                      "\xe2\x80",
                                      "\xc2\xa0",
                                      "\t",
                                      "==",
                                      "e.g",
                                      "[1]",
                                      "\xe3\x80\x80",
                                      "\xc2\x85",
                                      "\xf0\x9f\x91\x8d",
                                      "words"};
  float u[200];
  size_t n = 0;
  attend_random_uniform((attend_random){seed, 3}, 0, 200, u);
  for (int i = 0; i < 200; i++) {
    const char *p = parts[(int)(u[i] * (float)(sizeof parts / sizeof *parts))];
    memcpy(out + n, p, strlen(p));
    n += strlen(p);
  }
  return n;
}

/* White space of make_text's parts. */
static bool is_gap(const char *s, size_t n) {
  while (n) {
    size_t width = is_blank(*s) ? 1 : 0;
    if (n >= 2 && (!memcmp(s, "\xc2\xa0", 2) || !memcmp(s, "\xc2\x85", 2))) width = 2;
    if (n >= 3 && !memcmp(s, "\xe3\x80\x80", 3)) width = 3;
    if (!width) return false;
    s += width, n -= width;
  }
  return true;
}

/* In order, without overlap, nothing but white space left out. */
static void check_cover(const char *text, size_t n) {
  size_t at = 0;
  bool ended = true;
  for (attend_sentence s = {0}; attend_sentence_next(text, n, &s);) {
    CHECK(s.start >= at && s.length > 0 && s.length <= n - s.start);
    CHECK(is_gap(text + at, s.start - at));
    CHECK(!is_gap(text + s.start, 1) && !is_gap(text + s.start + s.length - 1, 1));
    at = s.start + s.length;
    ended = s.ends_paragraph;
  }
  CHECK(ended && is_gap(text + at, n - at));
}

TEST(sentences_cover_any_bytes) {
  char text[MOST];
  for (uint64_t seed = 0; seed < 2000; seed++) {
    size_t n = make_text(seed, text);
    check_cover(text, n);
  }
}

/* Cut behind a paragraph, the parts give the sentences of the whole. */
TEST(texts_may_be_cut_behind_paragraphs) {
  char text[MOST];
  for (uint64_t seed = 0; seed < 500; seed++) {
    size_t n = make_text(seed, text);
    attend_sentence s = {0}, t = {0};
    while (attend_sentence_next(text, n, &s) && !s.ends_paragraph) continue;
    size_t cut = s.start + s.length;
    attend_sentence first = {0}, last = {0};
    while (attend_sentence_next(text, cut, &first)) last = first;
    CHECK_EQ(last.start + last.length, cut);
    while (attend_sentence_next(text, n, &s)) {
      CHECK(attend_sentence_next(text + cut, n - cut, &t));
      CHECK_EQ(t.start + cut, s.start);
      CHECK_EQ(t.length, s.length);
      CHECK_EQ(t.ends_paragraph, s.ends_paragraph);
    }
  }
}

TEST(nothing_has_no_sentences) {
  attend_sentence s = {0};
  CHECK(!attend_sentence_next("", 0, &s));
  CHECK(!attend_sentence_next(" \n\t ", 4, &s));
  CHECK(!attend_sentence_next(NULL, 0, &s));
}
