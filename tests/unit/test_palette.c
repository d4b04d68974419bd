/* The colours of the page and of HTML reports are those of the C palette. */
#include <stdio.h>

#include "check.h"
#include "svg/palette.h"

/* The next six hex digits in *at, behind which *at is moved. */
static int next_colour(const char **at, char digits[7]) {
  for (const char *from = *at; *from; from++)
    if (strspn(from, "0123456789abcdef") == 6 &&
        (from[-1] == '"' || from[-1] == ' ' || from[-1] == '#')) {
      snprintf(digits, 7, "%.6s", from);
      *at = from + 6;
      return 1;
    }
  return 0;
}

static void check_colours(const char *text, const char *name, const colour *c, int count) {
  const char *at = strstr(text, name);
  if (!at) CHECK_FAIL("there is no %s", name);
  for (int i = 0; at && i < count; i++) {
    char digits[7] = "", expected[7];
    snprintf(expected, sizeof expected, "%02x%02x%02x", c[i].r, c[i].g, c[i].b);
    if (!next_colour(&at, digits) || strcmp(digits, expected))
      CHECK_FAIL("%s, %d: the page has %s, palette.c %s", name, i, digits, expected);
  }
}

/* Tests run in the repository's root. */
static void read_text(const char *path, char *text, size_t size) {
  FILE *f = fopen(path, "rb");
  text[0] = 0;
  if (!f) CHECK_FAIL("%s cannot be read", path);
  if (!f) return;
  text[fread(text, 1, size - 1, f)] = 0;
  fclose(f);
}

TEST(scales_of_the_page) {
  static char text[1 << 16];
  const palette *light = palette_get(false), *dark = palette_get(true);
  read_text("viewer/src/palette.ts", text, sizeof text);
  check_colours(text, "WEIGHT_LIGHT = ", light->weight, PALETTE_STEPS);
  check_colours(text, "WEIGHT_DARK = ", dark->weight, PALETTE_STEPS);
  check_colours(text, "SIGNED_LIGHT = ", light->sign, PALETTE_STEPS);
  check_colours(text, "SIGNED_DARK = ", dark->sign, PALETTE_STEPS);
  check_colours(text, "HEADS_LIGHT = ", light->head, PALETTE_HEADS);
  check_colours(text, "HEADS_DARK = ", dark->head, PALETTE_HEADS);
}

static void check_scheme(const char *css, const palette *p) {
  check_colours(css, "--background:", &p->background, 1);
  check_colours(css, "--panel:", &p->panel, 1);
  check_colours(css, "--ink:", &p->ink, 1);
  check_colours(css, "--faint:", &p->faint, 1);
  check_colours(css, "--grid:", &p->grid, 1);
  check_colours(css, "--accent:", &p->accent, 1);
  check_colours(css, "--masked:", &p->masked, 1);
  check_colours(css, "--hatch:", &p->hatch, 1);
}

TEST(scheme_of_the_page) {
  static char text[1 << 16];
  read_text("viewer/src/page.css", text, sizeof text);
  const char *dark = strstr(text, "data-theme=\"dark\"");
  check_scheme(text, palette_get(false));
  if (!dark) CHECK_FAIL("page.css has no dark scheme");
  if (dark) check_scheme(dark, palette_get(true));
}

static void check_report(const char *css, const palette *p) {
  check_colours(css, "--text:", &p->ink, 1);
  check_colours(css, "--page:", &p->background, 1);
  check_colours(css, "--soft:", &p->faint, 1);
  check_colours(css, "--line:", &p->grid, 1);
}

TEST(scheme_of_reports) {
  static const char *const paths[] = {"lab/studies/page.c", "cli/summarize/long.c",
                                      "docs/book/book.css"};
  static char text[1 << 16];
  for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
    read_text(paths[i], text, sizeof text);
    const char *dark = strstr(text, "prefers-color-scheme");
    check_report(text, palette_get(false));
    if (!dark) CHECK_FAIL("%s has no dark scheme", paths[i]);
    if (dark) check_report(dark, palette_get(true));
  }
}
