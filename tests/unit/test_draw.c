/* Drawings: letters as the font has them, coverage by area, PNG and SVG that
 * others can read.
 */
#include <stdint.h>
#include <stdlib.h>
#include <zlib.h>

#include "allocation_fails.h"
#include "check.h"
#include "pictures/draw.h"
#include "pictures/raster.h"
#include "svg/palette.h"

static const colour black = {0, 0, 0, 255}, white = {255, 255, 255, 255};

/* ---- characters ------------------------------------------------------------------- */

TEST(what_is_no_character_is_replaced) {
  static const struct {
    const char *text;
    uint32_t code;
  } cases[] = {
      {"A", 'A'},       {"é", 0xe9},      {"漢", 0x6f22},           {"😀", 0x1f600},
      {"\xff", 0xfffd}, {"\xc3", 0xfffd}, {"\xc0\x80", 0xfffd},     {"\xed\xa0\x80", 0xfffd},
      {"\x01", 0xfffd}, {"\n", 0x21b5},   {"\xef\xbf\xbf", 0xfffd}, {"", 0}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const char *at = cases[i].text;
    CHECK_EQ(letters_next(&at), cases[i].code);
  }
  const char *at = "\xe2\x82"; /* a cut euro: every byte on its own */
  CHECK_EQ(letters_next(&at), 0xfffd);
  CHECK_EQ(letters_next(&at), 0xfffd);
  CHECK_EQ(letters_next(&at), 0);
}

TEST(characters_are_written_as_they_were_read) {
  static const uint32_t codes[] = {0x41, 0x7ff, 0x800, 0xfffd, 0x10000, 0x10fffd};
  for (int i = 0; i < 6; i++) {
    char bytes[LETTER_BYTES + 1] = {0};
    const char *at = bytes;
    letters_put(codes[i], bytes);
    CHECK_EQ(letters_next(&at), codes[i]);
  }
}

TEST(columns_of_a_terminal) {
  CHECK_EQ(letters_width("naïve"), 5);
  CHECK_EQ(letters_width("e\xcc\x81"), 1);
  CHECK_EQ(letters_width("漢字"), 4);
  CHECK_EQ(letters_width("\xff"), 1);
}

/* ---- letters -------------------------------------------------------------------------- */

/* What DejaVu Sans 2.37 says of itself; one size is 2048 units. */
TEST(advances_are_the_fonts) {
  CHECK_NEAR(glyphs_advance(false, 'A') * 2048, 1401, 1e-9);
  CHECK_NEAR(glyphs_advance(false, 'i') * 2048, 569, 1e-9);
  CHECK_NEAR(glyphs_advance(false, ' ') * 2048, 651, 1e-9);
  CHECK_NEAR(glyphs_advance(false, 0x1f600) * 2048, 2135, 1e-9);
  CHECK_NEAR(glyphs_advance(false, 0x301), 0, 1e-9);
  CHECK(glyphs_advance(true, 'A') > glyphs_advance(false, 'A'));
  CHECK_NEAR(glyphs_advance(false, 0x4e00), 1, 1e-9); /* a box */
  CHECK_NEAR(draw_text_width("AA i", 2048, false), 2 * 1401 + 651 + 569, 1e-6);
}

/* Bounds of the points on the outline, in units of the font; how many contours. */
static void check_outline(uint32_t code, double x0, double y0, double x1, double y1, int contours) {
  const affine units = {2048, 0, 0, 2048, 0, 0};
  double low[2] = {1e9, 1e9}, high[2] = {-1e9, -1e9};
  path p = {0};
  glyphs_outline(false, code, &units, &p);
  for (size_t i = 0; i < p.count; i++) {
    const double at[2] = {(double)p.vertex[i].x, (double)p.vertex[i].y};
    for (int a = 0; a < 2; a++) {
      low[a] = fmin(low[a], at[a]);
      high[a] = fmax(high[a], at[a]);
    }
    contours -= p.vertex[i].type == 1; /* a move */
  }
  CHECK_EQ(contours, 0);
  CHECK_NEAR(low[0], x0, 1);
  CHECK_NEAR(low[1], y0, 1);
  CHECK_NEAR(high[0], x1, 1);
  CHECK_NEAR(high[1], y1, 1);
  path_free(&p);
}

TEST(outlines_are_the_fonts) {
  check_outline('A', 16, 0, 1384, 1493, 2);
  check_outline('W', 68, 0, 1958, 1493, 1);
  check_outline('0', 135, -29, 1167, 1520, 2);
  check_outline(0xe9, 113, -29, 1151, 1638, 3);                        /* e and an accent */
  check_outline(0x1d54f, 108, 0, 1542, 1493, 2);                       /* beyond 16 bits */
  check_outline(0x4e00, 0.08 * 2048, 0, 0.92 * 2048, 0.729 * 2048, 2); /* a box with a hole */
  path p = {0};
  glyphs_outline(false, ' ', &(affine){1, 0, 0, 1, 0, 0}, &p);
  CHECK_EQ(p.count, 0);
  path_free(&p);
}

TEST(long_texts_are_cut) {
  drawing d;
  drawing_start(&d, 100, white);
  text_look look = {.size = 12, .max = 60, .paint = black};
  draw_text(&d, 0, 20, "antidisestablishment", &look);
  draw_text(&d, 0, 40, "short", &look);
  draw_text(&d, 0, 60, "bad \xff\x01 bytes", &(text_look){.size = 12});
  CHECK_SAYS(d.shapes[0].text, "…");
  CHECK(draw_text_width(d.shapes[0].text, 12, false) <= 60);
  CHECK(!strcmp(d.shapes[1].text, "short"));
  CHECK(!strcmp(d.shapes[2].text, "bad \xef\xbf\xbd\xef\xbf\xbd bytes"));
  drawing_free(&d);
}

/* ---- PNG -------------------------------------------------------------------------- */

typedef struct {
  int width, height;
  uint8_t *pixels; /* [height, width, 3] */
} decoded;

static uint32_t big(const uint8_t *p) {
  return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* As much of PNG as is written here: rows without a filter. */
static decoded decode(const uint8_t *png, size_t length) {
  decoded to = {0};
  const uint8_t *data = NULL;
  size_t size = 0;
  CHECK(!memcmp(png, "\x89PNG\r\n\x1a\n", 8));
  for (size_t at = 8; at + 12 <= length; at += 12 + big(png + at)) {
    uint32_t n = big(png + at);
    CHECK_EQ(big(png + at + 8 + n), crc32(0, png + at + 4, n + 4));
    if (!memcmp(png + at + 4, "IHDR", 4)) {
      to.width = (int)big(png + at + 8);
      to.height = (int)big(png + at + 12);
      CHECK(png[at + 16] == 8 && png[at + 17] == 2);
    }
    if (!memcmp(png + at + 4, "IDAT", 4)) data = png + at + 8, size = n;
  }
  size_t row = 3 * (size_t)to.width, rows = (size_t)to.height;
  uLongf whole = (row + 1) * rows;
  uint8_t *plain = calloc(whole, 1);
  CHECK_EQ(uncompress(plain, &whole, data, size), Z_OK);
  CHECK_EQ(whole, (row + 1) * rows);
  to.pixels = calloc(rows, row);
  for (size_t y = 0; y < rows; y++) {
    CHECK_EQ(plain[y * (row + 1)], 0);
    memcpy(to.pixels + y * row, plain + y * (row + 1) + 1, row);
  }
  free(plain);
  return to;
}

static decoded drawn(drawing *d, double scale) {
  void *bytes = NULL;
  size_t length = 0;
  CHECK_EQ(draw_png(d, scale, &bytes, &length), 0);
  decoded to = decode(bytes, length);
  free(bytes);
  drawing_free(d);
  return to;
}

static int grey(const decoded *of, int x, int y) { return of->pixels[3 * (y * of->width + x)]; }

/* How many pixels are black, parts counted. */
static double ink(const decoded *of) {
  double sum = 0;
  for (int i = 0; i < of->width * of->height; i++) sum += (255 - of->pixels[3 * i]) / 255.0;
  return sum;
}

static drawing sheet(double width, double height) {
  drawing d;
  drawing_start(&d, width, white);
  d.height = height;
  return d;
}

TEST(coverage_is_area) {
  drawing d = sheet(8, 8);
  draw_rect(&d, 1.5, 2, 3, 2.25, 0, black);
  decoded p = drawn(&d, 1);
  CHECK_EQ(grey(&p, 0, 2), 255);
  CHECK_NEAR(grey(&p, 1, 2), 127.5, 1); /* half of it */
  CHECK_EQ(grey(&p, 2, 2), 0);
  CHECK_NEAR(grey(&p, 4, 3), 127.5, 1);
  CHECK_NEAR(grey(&p, 2, 4), 255 * 0.75, 1);  /* a quarter */
  CHECK_NEAR(grey(&p, 1, 4), 255 * 0.875, 1); /* an eighth */
  CHECK_NEAR(ink(&p), 3 * 2.25, 0.02);
  free(p.pixels);
}

TEST(shapes_have_their_area) {
  drawing d = sheet(64, 64);
  draw_circle(&d, 31.3, 32.4, 20, black);
  decoded p = drawn(&d, 1);
  CHECK_NEAR(ink(&p), 3.14159265 * 400, 2);
  free(p.pixels);

  d = sheet(64, 64);
  draw_line(&d, 5, 7, 50, 40, 3, black);
  p = drawn(&d, 1);
  CHECK_NEAR(ink(&p), hypot(45, 33) * 3, 1);
  free(p.pixels);

  d = sheet(64, 64); /* a frame: outside less inside */
  draw_frame(&d, 10, 10, 30, 20, 0, 2, black);
  p = drawn(&d, 1);
  CHECK_NEAR(ink(&p), 32 * 22 - 28 * 18, 0.1);
  CHECK_EQ(grey(&p, 20, 20), 255);
  free(p.pixels);
}

TEST(a_curve_is_as_long_as_it_is) {
  drawing d = sheet(100, 100);
  double quarter[8] = {90, 10, 90, 10 + 70 * 0.5523, 20 + 70 * 0.5523, 80, 20, 80};
  draw_curve(&d, quarter, 2, black);
  decoded p = drawn(&d, 1);
  CHECK_NEAR(ink(&p), 3.14159265 / 2 * 70 * 2, 1);
  free(p.pixels);
}

TEST(what_leaves_the_picture_is_cut_off) {
  drawing d = sheet(10, 10);
  draw_rect(&d, -5, -5, 8, 100, 0, black);
  draw_circle(&d, 300, 300, 20, black);
  draw_line(&d, -100, 8.5, 200, 8.5, 1, black);
  decoded p = drawn(&d, 1);
  CHECK_NEAR(ink(&p), 30 + 7, 0.05);
  free(p.pixels);
}

TEST(colours_are_mixed_by_alpha) {
  drawing d = sheet(4, 4);
  draw_rect(&d, 0, 0, 4, 4, 0, (colour){200, 100, 0, 51});
  decoded p = drawn(&d, 1);
  CHECK_NEAR(p.pixels[0], 255 - 55 * 0.2, 1);
  CHECK_NEAR(p.pixels[1], 255 - 155 * 0.2, 1);
  CHECK_NEAR(p.pixels[2], 255 - 255 * 0.2, 1);
  free(p.pixels);
}

TEST(cells_stay_sharp) {
  drawing d = sheet(8, 4);
  static const uint8_t cells[8] = {0, 0, 0, 255, 90, 90, 90, 255};
  draw_image(&d, 1, 1, 6, 2, cells, 1, 2);
  decoded p = drawn(&d, 2);
  CHECK_EQ(p.width, 16);
  for (int x = 0; x < 16; x++) CHECK_EQ(grey(&p, x, 3), x < 2 || x >= 14 ? 255 : x < 8 ? 0 : 90);
  free(p.pixels);
}

TEST(a_letter_is_as_black_as_its_outline) {
  drawing d = sheet(200, 200);
  draw_text(&d, 20, 180, "l", &(text_look){.size = 200, .paint = black});
  decoded p = drawn(&d, 1);
  CHECK_NEAR(ink(&p), 184.0 / 2048 * 1556 / 2048 * 200 * 200, 20);
  free(p.pixels);
}

TEST(pictures_too_large_for_png_are_refused) {
  drawing d = sheet(1e6, 1e6);
  void *bytes = NULL;
  size_t length = 0;
  CHECK_EQ(draw_png(&d, 1, &bytes, &length), ATTEND_INVALID);
  CHECK_SAYS(draw_message(ATTEND_INVALID), "smaller width");
  drawing_free(&d);
}

/* ---- SVG -------------------------------------------------------------------------- */

/* Tags that open and close, attributes in quotes, no bare < or &: 0 if so. */
static int faults(const char *at) {
  int depth = 0, bad = 0;
  for (; *at; at++) {
    if (*at == '&')
      bad += strncmp(at, "&lt;", 4) && strncmp(at, "&gt;", 4) && strncmp(at, "&amp;", 5) &&
             strncmp(at, "&quot;", 6);
    if ((unsigned char)*at < 0x20 && *at != '\n') bad++;
    if (*at != '<') continue;
    bool closes = at[1] == '/', quoted = false;
    const char *end = at + 1;
    for (; *end && (*end != '>' || quoted); end++) {
      if (*end == '"') quoted = !quoted;
      bad += *end == '<';
    }
    if (!*end) return bad + 1;
    depth += closes ? -1 : end[-1] == '/' ? 0 : 1;
    at = end;
  }
  return bad + (depth != 0);
}

TEST(svg_is_well_formed) {
  drawing d = sheet(100, 80);
  static const uint8_t cells[8] = {0, 0, 0, 255, 90, 90, 90, 255};
  char *svg;
  size_t length;
  drawing_title(&d, "a <title> & \"more\" \xff");
  draw_rect(&d, 1, 2, 3, 4, 1, colour_fade(black, 0.5));
  draw_circle(&d, 5, 5, 2, black);
  draw_curve(&d, (double[]){0, 0, 1, 1, 2, 2, 3, 3}, 1, black);
  draw_hatch(&d, 1, 1, 5, 5, black);
  draw_hatch(&d, 6, 1, 5, 5, black);
  draw_image(&d, 1, 1, 6, 2, cells, 1, 2);
  draw_text(&d, 1, 1, "<b>&\"\x02\xc3(", &(text_look){.size = 9, .turn = -45});
  CHECK_EQ(draw_svg(&d, &svg, &length), ATTEND_OK);
  CHECK_EQ(faults(svg), 0);
  CHECK_EQ(strlen(svg), length);
  CHECK_SAYS(svg, "<title>a &lt;title&gt; &amp; &quot;more&quot; \xef\xbf\xbd<");
  CHECK_SAYS(svg, "&lt;b&gt;&amp;&quot;\xef\xbf\xbd\xef\xbf\xbd(</text>");
  CHECK_SAYS(svg, "role=\"img\"");
  CHECK_SAYS(svg, "data:image/png;base64,iVBORw0KGgo");
  CHECK_SAYS(svg, "fill-opacity=\"0.502\"");
  CHECK_SAYS(svg, "image-rendering=\"pixelated\"");
  CHECK(!strstr(svg, "script"));
  free(svg);
  drawing_free(&d);
}

/* ---- memory -------------------------------------------------------------------------- */

/* Draws every kind of shape and writes them; the status of all of it. */
static attend_status draw_all(bool svg) {
  static const uint8_t cells[8] = {0, 0, 0, 255, 90, 90, 90, 255};
  drawing d = sheet(300, 200);
  void *bytes = NULL;
  size_t length = 0;
  drawing_title(&d, "a title");
  draw_frame(&d, 1, 2, 3, 4, 1, 1, black);
  draw_cell(&d, 1, 2, 3, 4, black, "a tip");
  draw_circle(&d, 5, 5, 2, black);
  draw_line(&d, 1, 1, 200, 190, 1, black);
  draw_curve(&d, (double[]){0, 0, 100, 1, 2, 200, 3, 3}, 1, black);
  draw_hatch(&d, 1, 1, 5, 5, black);
  draw_image(&d, 1, 1, 6, 2, cells, 1, 2);
  draw_text(&d, 1, 20, "é漢 text", &(text_look){.size = 9, .max = 30});
  attend_status status =
      svg ? draw_svg(&d, (char **)&bytes, &length) : draw_png(&d, 1, &bytes, &length);
  CHECK_EQ(status == ATTEND_OK, bytes != NULL);
  free(bytes);
  drawing_free(&d);
  return status;
}

TEST(drawings_without_memory) {
  for (int svg = 0; svg < 2; svg++) {
    long n = 0;
    attend_status status = ATTEND_NO_MEMORY;
    while (status && n < 1000) {
      allocation_fails_at(++n);
      status = draw_all(svg);
      allocation_fails_at(0);
      if (status) CHECK_EQ(status, ATTEND_NO_MEMORY);
    }
    CHECK(!status && n > 10);
  }
  CHECK_SAYS(draw_message(ATTEND_NO_MEMORY), "no memory");
}

/* ---- colours -------------------------------------------------------------------------- */

static double lightness(colour c) {
  return 0.2126 * pow(c.r, 2.2) + 0.7152 * pow(c.g, 2.2) + 0.0722 * pow(c.b, 2.2);
}

TEST(scales_go_one_way) {
  for (int dark = 0; dark < 2; dark++) {
    const palette *p = palette_get(dark);
    for (int i = 0; i < 100; i++) {
      double a = lightness(palette_weight(p, i / 100.0));
      double b = lightness(palette_weight(p, (i + 1) / 100.0));
      CHECK(dark ? b >= a : b <= a);
    }
    colour zero = palette_sign(p, 0), high = palette_sign(p, 1);
    CHECK(!memcmp(&zero, &p->sign[4], sizeof zero));
    CHECK(high.b > high.r && palette_sign(p, -1).r > palette_sign(p, -1).b);
  }
  CHECK_NEAR(palette_share(0.25, 1), 0.5, 1e-12);
  CHECK_NEAR(palette_share(-1, 4), -0.5, 1e-12);
  CHECK_NEAR(palette_share(1, 0), 0, 0);
  CHECK_NEAR(palette_share(NAN, 1), 0, 0);
}
