/* Weights and designs drawn in a terminal; and UTF-8, with the columns of its characters.
 *
 * In colour a character holds two cells, one above the other: a half block with one cell's
 * colour on the other's. A matrix that is small enough has a line for each row instead,
 * with the row's name and its key of largest weight. Without colour, five shades.
 */
#include "pictures/pictures.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* ---- UTF-8 --------------------------------------------------------------------------------- */

static int length_of(unsigned char first) {
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first < 0xe0) return 2;
  if (first >= 0xe0 && first < 0xf0) return 3;
  if (first >= 0xf0 && first < 0xf5) return 4;
  return 0;
}

static uint32_t shown(uint32_t code) {
  if (code == '\n') return 0x21b5;
  if (code == '\t') return 0x21e5;
  bool control = code < 0x20 || (code >= 0x7f && code < 0xa0);
  bool surrogate = code >= 0xd800 && code < 0xe000;
  bool nothing = (code & 0xfffe) == 0xfffe || code > 0x10ffff;
  return control || surrogate || nothing ? LETTER_NONE : code;
}

uint32_t letters_next(const char **text) {
  static const uint32_t min[] = {0, 0, 0x80, 0x800, 0x10000};
  const unsigned char *at = (const unsigned char *)*text;
  int length = length_of(*at);
  if (*at == 0) return 0;
  *text += 1;
  if (length == 0) return LETTER_NONE;
  uint32_t code = length == 1 ? *at : *at & (0x7fu >> length);
  for (int i = 1; i < length; i++) {
    if ((at[i] & 0xc0) != 0x80) return LETTER_NONE;
    code = code << 6 | (at[i] & 0x3f);
  }
  if (code < min[length]) return LETTER_NONE;
  *text += length - 1;
  return shown(code);
}

size_t letters_put(uint32_t code, char bytes[LETTER_BYTES]) {
  size_t length = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
  static const unsigned char first[] = {0, 0, 0xc0, 0xe0, 0xf0};
  for (size_t i = length; i-- > 1; code >>= 6) bytes[i] = (char)(0x80 | (code & 0x3f));
  bytes[0] = (char)(first[length] | code);
  return length;
}

/* ---- columns ------------------------------------------------------------------ */

typedef struct {
  uint32_t first, last;
} range;

/* Marks that join the letter before, of the scripts that tokens mostly have. */
static const range joining[] = {
    {0x300, 0x36f},   {0x483, 0x489},     {0x591, 0x5bd},    {0x5bf, 0x5bf},   {0x5c1, 0x5c2},
    {0x610, 0x61a},   {0x64b, 0x65f},     {0x670, 0x670},    {0x900, 0x902},   {0x93a, 0x93a},
    {0x93c, 0x93c},   {0x941, 0x948},     {0x94d, 0x94d},    {0x951, 0x957},   {0xe31, 0xe31},
    {0xe34, 0xe3a},   {0xe47, 0xe4e},     {0x1ab0, 0x1aff},  {0x1dc0, 0x1dff}, {0x200b, 0x200f},
    {0x202a, 0x202e}, {0x2060, 0x2064},   {0x20d0, 0x20ff},  {0xfe00, 0xfe0f}, {0xfe20, 0xfe2f},
    {0xfeff, 0xfeff}, {0x1f3fb, 0x1f3ff}, {0xe0100, 0xe01ef}};

static const range wide_letters[] = {{0x1100, 0x115f},   {0x2e80, 0x303e},   {0x3041, 0xa4cf},
                                     {0xac00, 0xd7a3},   {0xf900, 0xfaff},   {0xfe30, 0xfe6f},
                                     {0xff00, 0xff60},   {0xffe0, 0xffe6},   {0x1f300, 0x1f64f},
                                     {0x1f680, 0x1f6ff}, {0x1f900, 0x1faff}, {0x20000, 0x3fffd}};

static bool is_in(uint32_t code, const range *ranges, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (code >= ranges[i].first && code <= ranges[i].last) return true;
  return false;
}

int letters_columns(uint32_t code) {
  if (code < 0x300) return 1;
  if (is_in(code, joining, sizeof joining / sizeof *joining)) return 0;
  return is_in(code, wide_letters, sizeof wide_letters / sizeof *wide_letters) ? 2 : 1;
}

int letters_width(const char *text) {
  int width = 0;
  for (uint32_t code; (code = letters_next(&text));) width += letters_columns(code);
  return width;
}

enum { NARROWEST = 24, LINES = 48, TILE_LEAST = 6, TILE_MOST = 16 };

/* ---- what the terminal can do ----------------------------------------------------- */

static int columns_of(FILE *out) {
  struct winsize size;
  const char *columns = getenv("COLUMNS");
  int wide = columns ? atoi(columns) : 0;
  if (isatty(fileno(out)) && !ioctl(fileno(out), TIOCGWINSZ, &size) && size.ws_col > 0)
    wide = size.ws_col;
  if (wide <= 0) wide = 80;
  return wide < NARROWEST ? NARROWEST : wide > 1000 ? 1000 : wide;
}

static terminal_colours colours_of(FILE *out) {
  const char *no = getenv("NO_COLOR"), *term = getenv("TERM");
  const char *has = getenv("COLORTERM");
  if (!isatty(fileno(out)) || (no && *no) || (term && !strcmp(term, "dumb")))
    return TERMINAL_SHADES;
  bool all = has && (!strcmp(has, "truecolor") || !strcmp(has, "24bit"));
  return all ? TERMINAL_TRUE : TERMINAL_256;
}

/* COLORFGBG ends in the background: 7 and 9 to 15 are light. */
static bool is_dark(void) {
  const char *says = getenv("COLORFGBG");
  const char *last = says ? strrchr(says, ';') : NULL;
  int background = last ? atoi(last + 1) : 0;
  return background != 7 && background < 9;
}

terminal_look terminal_look_of(FILE *out) {
  return (terminal_look){columns_of(out), colours_of(out), is_dark()};
}

/* ---- colours ----------------------------------------------------------------------- */

/* Of the 6 x 6 x 6 colours and the 24 greys, the nearest. */
static int nearest_256(colour c) {
  static const int levels[] = {0, 95, 135, 175, 215, 255};
  const int rgb[3] = {c.r, c.g, c.b};
  int cube[3], off = 0, mean = (c.r + c.g + c.b) / 3;
  for (int i = 0; i < 3; i++) {
    cube[i] = 0;
    for (int l = 1; l < 6; l++)
      if (abs(levels[l] - rgb[i]) < abs(levels[cube[i]] - rgb[i])) cube[i] = l;
    off += (levels[cube[i]] - rgb[i]) * (levels[cube[i]] - rgb[i]);
  }
  int grey = (mean - 3) / 10, off_grey = 0;
  grey = grey < 0 ? 0 : grey > 23 ? 23 : grey;
  for (int i = 0; i < 3; i++) off_grey += (8 + 10 * grey - rgb[i]) * (8 + 10 * grey - rgb[i]);
  return off_grey < off ? 232 + grey : 16 + 36 * cube[0] + 6 * cube[1] + cube[2];
}

static void set_colour(FILE *out, const terminal_look *look, bool behind, colour c) {
  int what = behind ? 48 : 38;
  if (look->colours == TERMINAL_TRUE)
    fprintf(out, "\033[%d;2;%d;%d;%dm", what, c.r, c.g, c.b);
  else
    fprintf(out, "\033[%d;5;%dm", what, nearest_256(c));
}

void terminal_colour(FILE *out, const terminal_look *look, bool behind, colour c) {
  if (look->colours != TERMINAL_SHADES) set_colour(out, look, behind, c);
}
void terminal_plain(FILE *out, const terminal_look *look) {
  if (look->colours != TERMINAL_SHADES) fputs("\033[0m", out);
}

static void print_spaces(FILE *out, int n) { fprintf(out, "%*s", n, ""); }

/* ---- a field of cells ---------------------------------------------------------------- */

typedef struct {
  int rows, columns;
  float *share; /* where on the scale, -1 to 1; NaN: not seen */
  bool is_signed;
} field;

static float share_at(const field *f, int y, int x) {
  return y < f->rows ? f->share[(size_t)y * (size_t)f->columns + (size_t)x] : NAN;
}

static colour colour_at(const field *f, const terminal_look *look, int y, int x) {
  const palette *p = palette_get(look->dark);
  double share = (double)share_at(f, y, x);
  if (isnan(share)) return p->masked;
  return f->is_signed ? palette_sign(p, share) : palette_weight(p, share);
}

/* Colours are set only where they change. */
static void print_halves(FILE *out, const field *f, const terminal_look *look, int y) {
  colour last[2] = {{0, 0, 0, 0}, {0, 0, 0, 0}};
  for (int x = 0; x < f->columns; x++) {
    for (int i = 0; i < 2; i++) {
      colour c = colour_at(f, look, y + i, x);
      if (y + i >= f->rows || !memcmp(&c, &last[i], sizeof c)) continue;
      set_colour(out, look, i == 1, c);
      last[i] = c;
    }
    fputs("▀", out);
  }
  fputs("\033[0m", out);
}

static void print_shade(FILE *out, float share, int wide) {
  static const char *const shades[] = {" ", "░", "▒", "▓", "█"};
  float size = fabsf(share);
  const char *shade = isnan(share) ? "╱" : shades[(int)(size * 4.999f)];
  bool minus = share < 0 && size * 4.999f >= 1;
  for (int i = 0; i < wide; i++) fputs(minus && i == 0 ? "-" : shade, out);
}

/* One row of cells, each `wide` columns. */
static void print_row(FILE *out, const field *f, const terminal_look *look, int y, int wide) {
  bool coloured = look->colours != TERMINAL_SHADES;
  for (int x = 0; x < f->columns; x++) {
    if (!coloured) {
      print_shade(out, share_at(f, y, x), wide);
      continue;
    }
    set_colour(out, look, true, colour_at(f, look, y, x));
    print_spaces(out, wide);
  }
  if (coloured) fputs("\033[0m", out);
}

/* Two rows of cells as one line, the heavier of each two where there is no
 * colour. */
static void print_pair(FILE *out, const field *f, const terminal_look *look, int y) {
  if (look->colours != TERMINAL_SHADES) {
    print_halves(out, f, look, y);
    return;
  }
  for (int x = 0; x < f->columns; x++) {
    float a = share_at(f, y, x), b = share_at(f, y + 1, x);
    print_shade(out, isnan(a) || fabsf(b) > fabsf(a) ? b : a, 1);
  }
}

/* ---- texts ------------------------------------------------------------------------------ */

/* A text in so many columns, cut with … where it is longer. */
static void print_name(FILE *out, const char *text, int columns, bool right) {
  int width = letters_width(text), available = width > columns ? columns - 1 : columns;
  int used = 0;
  if (right && width < columns) print_spaces(out, columns - width);
  for (uint32_t code; (code = letters_next(&text));) {
    char bytes[LETTER_BYTES];
    int wide = letters_columns(code);
    if (used + wide > available) break;
    size_t length = letters_put(code, bytes);
    fwrite(bytes, 1, length, out);
    used += wide;
  }
  if (width > columns) fputs("…", out), used++;
  if (!right && used < columns) print_spaces(out, columns - used);
}

/* ---- a matrix --------------------------------------------------------------------------- */

typedef struct {
  const picture_matrix_data *d;
  const terminal_look *look;
  field f;
  int name;  /* columns of the names */
  int wide;  /* columns of a cell */
  bool each; /* a line for each row */
} sheet;

static double most_of(const picture_matrix_data *d) {
  double max = d->max;
  for (int i = 0; !(d->max > 0) && i < d->height * d->width; i++)
    if (fabs((double)d->cells[i]) > max) /* fmax makes gcc 12 fail on Arm */
      max = fabs((double)d->cells[i]);
  return max;
}

/* The largest of the cells that share one; NaN if all are masked. */
static float pooled(const picture_matrix_data *d, const field *f, int y, int x) {
  float best = NAN;
  for (int i = y * d->height / f->rows; i < (y + 1) * d->height / f->rows; i++)
    for (int j = x * d->width / f->columns; j < (x + 1) * d->width / f->columns; j++) {
      if (d->mask && d->mask[i * d->width + j]) continue;
      float v = d->cells[i * d->width + j];
      if (isnan(best) || fabsf(v) > fabsf(best)) best = v;
    }
  return best;
}

static void lay_out(sheet *s) {
  const picture_matrix_data *d = s->d;
  int available, number = d->rows.count > 999 ? 5 : d->rows.count > 99 ? 4 : 3;
  s->name = 0;
  for (int i = 0; i < d->rows.count && i < d->height; i++) {
    int wide = letters_width(d->rows.text[i]);
    if (wide > s->name) s->name = wide;
  }
  const int most = s->look->columns / 4 > 16 ? s->look->columns / 4 : 16;
  s->name = number + 1 + (s->name > most ? most : s->name);
  available = s->look->columns - s->name - 1;
  s->each = d->height <= LINES && d->height == d->rows.count;
  s->wide = s->each && 2 * d->width <= available ? 2 : 1;
  int rows = d->height, columns = d->width < available ? d->width : available;
  if (columns < d->width) { /* keep the shape */
    rows = (int)lround((double)rows * columns / d->width);
    s->each = false;
  }
  s->f = (field){rows > 0 ? rows : 1, columns, NULL, d->is_signed};
}

static void fill(sheet *s) {
  double max = most_of(s->d);
  for (int y = 0; y < s->f.rows; y++)
    for (int x = 0; x < s->f.columns; x++) {
      float v = pooled(s->d, &s->f, y, x);
      s->f.share[(size_t)y * (size_t)s->f.columns + (size_t)x] =
          isnan(v) ? v : (float)palette_share((double)v, max);
    }
}

/* Places of the keys, as far apart as they are long. */
static void print_places(FILE *out, const sheet *s) {
  int every = 5, columns = s->f.columns * s->wide, at = 0;
  double per = (double)s->d->keys.count / columns;
  while (every < 8 * per || every * s->wide < 5) every *= 2;
  print_spaces(out, s->name + 1);
  for (int key = 0; key < s->d->keys.count; key += every) {
    int column = (int)(key / per + 0.5);
    if (column < at || column + 4 > columns) continue;
    at = column + fprintf(out, "%*s%d", column - at, "", key) - (column - at);
  }
  fputc('\n', out);
}

static void print_label(FILE *out, const sheet *s, int y) {
  int row = (int)((long)y * s->d->rows.count / s->f.rows);
  int number = s->d->rows.count > 999 ? 5 : s->d->rows.count > 99 ? 4 : 3;
  fprintf(out, "%*d ", number, row);
  print_name(out, s->d->rows.text[row], s->name - number - 1, false);
  fputc(' ', out);
}

/* "0.57 street", where there is room for it. */
static void print_largest(FILE *out, const sheet *s, int row) {
  const picture_matrix_data *d = s->d;
  int available = s->look->columns - s->name - 1 - s->f.columns * s->wide - 8;
  int best = -1;
  for (int j = 0; j < d->width; j++) {
    if (d->mask && d->mask[row * d->width + j]) continue;
    if (best < 0 || fabsf(d->cells[row * d->width + j]) > fabsf(d->cells[row * d->width + best]))
      best = j;
  }
  if (best < 0 || available < 6 || d->width != d->keys.count) return;
  fprintf(out, "  %5.2f ", (double)d->cells[row * d->width + best]);
  int wide = letters_width(d->keys.text[best]);
  print_name(out, d->keys.text[best], wide < available ? wide : available, false);
}

attend_status terminal_matrix(FILE *out, const picture_matrix_data *d, const terminal_look *look) {
  sheet s = {.d = d, .look = look};
  if (d->height < 1 || d->width < 1) return ATTEND_OK;
  lay_out(&s);
  s.f.share = calloc((size_t)s.f.rows * (size_t)s.f.columns, sizeof(float));
  if (!s.f.share) return ATTEND_NO_MEMORY;
  fill(&s);
  print_places(out, &s);
  for (int y = 0; y < s.f.rows; y += s.each ? 1 : 2) {
    print_label(out, &s, y);
    if (s.each)
      print_row(out, &s.f, look, y, s.wide);
    else
      print_pair(out, &s.f, look, y);
    if (s.each) print_largest(out, &s, y);
    fputc('\n', out);
  }
  free(s.f.share);
  return ATTEND_OK;
}

attend_status terminal_compare(FILE *out, const picture_compare_data *d,
                               const terminal_look *look) {
  size_t count = (size_t)d->height * (size_t)d->width;
  float *difference = calloc(count + 1, sizeof *difference);
  const char *names[] = {d->name, d->other_name, "first − second"};
  const float *cells[] = {d->cells, d->other, difference};
  attend_status status = difference ? ATTEND_OK : ATTEND_NO_MEMORY;
  for (size_t i = 0; i < count && !status; i++) difference[i] = d->cells[i] - d->other[i];
  for (int i = 0; i < 3 && !status; i++) {
    picture_matrix_data m = {.about = d->about,
                             .rows = d->rows,
                             .keys = d->keys,
                             .height = d->height,
                             .width = d->width,
                             .cells = cells[i],
                             .mask = d->mask,
                             .is_signed = i == 2,
                             .token = -1,
                             .key = -1};
    fprintf(out, "%s%s\n", i ? "\n" : "", names[i]);
    status = terminal_matrix(out, &m, look);
  }
  free(difference);
  return status;
}

/* ---- captions ----------------------------------------------------------------------------- */

/* Broken into lines between words. */
static void print_lines(FILE *out, const char *text, int columns) {
  int at = 0;
  while (*text) {
    const char *end = text + strcspn(text, " ");
    char word[PICTURE_CAPTION];
    snprintf(word, sizeof word, "%.*s", (int)(end - text), text);
    int wide = letters_width(word);
    if (at && at + 1 + wide > columns) at = 0, fputc('\n', out);
    fprintf(out, "%s%s", at ? " " : "", word);
    at += (at > 0) + wide;
    text = end + strspn(end, " ");
  }
  if (at) fputc('\n', out);
}

void terminal_caption(FILE *out, const char *name, const picture_about *about, picture_facts facts,
                      const terminal_look *look) {
  char attention[PICTURE_WORDS], text[PICTURE_CAPTION];
  int columns = look->columns < 96 ? look->columns : 96;
  facts.attention = picture_attention(about, attention);
  fputc('\n', out);
  print_lines(out, picture_caption_fill(name, &facts, text, sizeof text), columns);
  facts.query = about->step;
  if (about->step)
    print_lines(out, picture_caption_fill("cross", &facts, text, sizeof text), columns);
  if (about->notice) print_lines(out, about->notice, columns);
}

/* ---- all heads ---------------------------------------------------------------------------- */

typedef struct {
  const picture_model_data *d;
  const terminal_look *look;
  int tile, lines, across; /* columns, lines of a head; heads in a band */
} wall;

/* The largest of a head's cells under one of the tile's. */
static field tile_of(const wall *w, int index, float share[TILE_MOST * TILE_MOST]) {
  const picture_model_data *d = w->d;
  const uint8_t *cells = d->cells + (size_t)index * (size_t)d->height * (size_t)d->width;
  field f = {2 * w->lines, w->tile, share, false};
  for (int y = 0; y < f.rows; y++)
    for (int x = 0; x < f.columns; x++) {
      uint8_t max = 0;
      int y1 = ((y + 1) * d->height - 1) / f.rows;
      int x1 = ((x + 1) * d->width - 1) / f.columns;
      for (int i = y * d->height / f.rows; i <= y1; i++)
        for (int j = x * d->width / f.columns; j <= x1; j++)
          if (cells[i * d->width + j] > max) max = cells[i * d->width + j];
      f.share[y * f.columns + x] = (float)palette_share(max, 255);
    }
  return f;
}

static void print_heads(FILE *out, const wall *w, int first, int count) {
  fputs("     ", out);
  for (int h = first; h < first + count; h++) fprintf(out, "%-*d ", w->tile, h);
  fputc('\n', out);
}

static void print_patterns(FILE *out, const wall *w, int index, int count) {
  if (!w->d->does) return;
  fputs("     ", out);
  for (int i = index; i < index + count; i++) {
    print_name(out, w->d->does[i] ? w->d->does[i] : "", w->tile, false);
    fputc(' ', out);
  }
  fputc('\n', out);
}

static void print_band(FILE *out, const wall *w, int layer, int first, int count) {
  int index = layer * w->d->heads + first;
  for (int line = 0; line < w->lines; line++) {
    if (line == w->lines / 2)
      fprintf(out, "%4d ", layer);
    else
      fputs("     ", out);
    for (int i = 0; i < count; i++) {
      float share[TILE_MOST * TILE_MOST];
      field tile = tile_of(w, index + i, share);
      print_pair(out, &tile, w->look, 2 * line);
      fputc(' ', out);
    }
    fputc('\n', out);
  }
  print_patterns(out, w, index, count);
}

void terminal_model(FILE *out, const picture_model_data *d, const terminal_look *look) {
  wall w = {.d = d, .look = look};
  int available = look->columns - 5;
  if (d->layers < 1 || d->heads < 1 || d->height < 1 || d->width < 1) return;
  w.tile = available / d->heads - 1;
  w.tile = w.tile < TILE_LEAST ? TILE_LEAST : w.tile > TILE_MOST ? TILE_MOST : w.tile;
  w.lines = (w.tile + 1) / 2;
  w.across = available / (w.tile + 1) > 0 ? available / (w.tile + 1) : 1;
  for (int first = 0; first < d->heads; first += w.across) {
    int count = d->heads - first < w.across ? d->heads - first : w.across;
    print_heads(out, &w, first, count);
    for (int l = 0; l < d->layers; l++) print_band(out, &w, l, first, count);
  }
}

/* ---- a design: the maps of each head, designed above learned ------------------------------- */

/* A cell is two columns wide. In colour it is painted; without, a positive value is a shade
 * and a negative one a shade behind a minus. */
enum { CELL = 2, ROW_NAME = 5, GAP = 2, MOST_COLUMNS = 40 };

static int grid_width(const picture_grid *g) {
  int columns = g->columns < MOST_COLUMNS ? g->columns : MOST_COLUMNS;
  int wide = ROW_NAME + CELL * columns, title = ROW_NAME + (int)strlen(g->title);
  return (wide > title ? wide : title) + GAP;
}

/* As many maps as fit beside each other; at least one. */
static int fitting(const picture_design_head *h, int from, int columns) {
  int n = 0, wide = 0;
  while (from + n < h->grids) {
    wide += grid_width(&h->grid[0][from + n]);
    if (n && wide - GAP > columns) break;
    n++;
  }
  return n;
}

static double largest(const picture_grid *g) {
  double max = 0;
  for (int i = 0; i < g->rows * g->columns; i++) {
    double size = fabs((double)g->cells[i]);
    if (size > max) max = size;
  }
  return g->is_weight ? 1 : max;
}

/* A name in ROW_NAME columns, its end kept. */
static void print_row_name(FILE *out, const picture_grid *g, int row) {
  char number[16];
  const char *name = number;
  snprintf(number, sizeof number, "%d", row);
  if (g->row_names) name = g->row_names[row];
  int wide = letters_width(name);
  const char *value = strchr(name, '=');
  if (wide > ROW_NAME - 1 && value && value > name) name = value;
  wide = letters_width(name);
  while (wide > ROW_NAME - 1) {
    do name++;
    while ((*(const unsigned char *)name & 0xc0) == 0x80);
    wide = letters_width(name);
  }
  print_spaces(out, ROW_NAME - 1 - wide);
  fprintf(out, "%s ", name);
}

static void print_cell(FILE *out, const terminal_look *look, const picture_grid *g, double v,
                       double max) {
  static const char *const shades[] = {"·", "░", "▒", "▓", "█"};
  const palette *p = palette_get(look->dark);
  double share = max > 0 ? v / max : 0;
  if (look->colours == TERMINAL_SHADES) {
    int shade = (int)(sqrt(fabs(share)) * 4.999);
    fprintf(out, "%s%s", shade && v < 0 ? "-" : shade ? shades[shade] : " ", shades[shade]);
    return;
  }
  terminal_colour(out, look, true,
                  g->is_weight ? palette_weight(p, palette_share(v, 1)) : palette_sign(p, share));
  print_spaces(out, CELL);
}

static void print_line(FILE *out, const terminal_look *look, const picture_grid *g, int row) {
  int columns = g->columns < MOST_COLUMNS ? g->columns : MOST_COLUMNS;
  double max = largest(g);
  if (row >= g->rows) {
    print_spaces(out, grid_width(g));
    return;
  }
  print_row_name(out, g, row);
  for (int j = 0; j < columns; j++)
    print_cell(out, look, g, (double)g->cells[row * g->columns + j], max);
  terminal_plain(out, look);
  print_spaces(out, grid_width(g) - ROW_NAME - CELL * columns);
}

static void print_titles(FILE *out, const picture_design_head *h, int from, int n) {
  for (int i = from; i < from + n; i++) {
    const picture_grid *g = &h->grid[0][i];
    print_spaces(out, ROW_NAME);
    fprintf(out, "%-*s", grid_width(g) - ROW_NAME, g->title);
  }
  fputc('\n', out);
}

static void print_twin(FILE *out, const picture_design_head *h, int twin, int from, int n,
                       const terminal_look *look) {
  int rows = 0;
  for (int i = from; i < from + n; i++)
    if (h->grid[twin][i].rows > rows) rows = h->grid[twin][i].rows;
  for (int r = 0; r < rows; r++) {
    for (int i = from; i < from + n; i++) print_line(out, look, &h->grid[twin][i], r);
    fputc('\n', out);
  }
}

static void print_head(FILE *out, const picture_design_head *h, const terminal_look *look) {
  static const char *const twins[] = {"designed", "learned"};
  fprintf(out, "\n%s\n", h->name);
  for (int from = 0, n; from < h->grids; from += n) {
    n = fitting(h, from, look->columns);
    print_titles(out, h, from, n);
    for (int t = 0; t < h->twins; t++) {
      fprintf(out, "%s\n", twins[t]);
      print_twin(out, h, t, from, n, look);
    }
  }
}

void terminal_design(FILE *out, const picture_design_data *d, const terminal_look *look) {
  fprintf(out, "\n%s\n", d->title);
  for (int i = 0; i < d->heads; i++) print_head(out, &d->head[i], look);
}

/* ---- two models; a word in two texts ------------------------------------------------------- */

enum { FACT = 30, SIDE = 22, BAR = 24 };

static void print_padded(FILE *out, const char *text, int columns) {
  int wide = letters_width(text);
  print_name(out, text, wide < columns ? wide : columns, false);
  print_spaces(out, wide < columns ? columns - wide : 0);
}

static void print_fact(FILE *out, const char *name, const char *first, const char *second) {
  print_padded(out, name, FACT);
  print_padded(out, first, SIDE);
  fprintf(out, " %s\n", second);
}

static void print_share(FILE *out, const char *name, double first, double second) {
  char x[32], y[32];
  snprintf(x, sizeof x, isnan(first) ? "–" : "%.1f %%", 100 * first);
  snprintf(y, sizeof y, isnan(second) ? "–" : "%.1f %%", 100 * second);
  print_fact(out, name, x, y);
}

static void print_facts(FILE *out, const picture_beside_data *d) {
  const picture_side *a = &d->side[0], *b = &d->side[1];
  char x[32], y[32];
  print_fact(out, "", a->name, b->name);
  snprintf(x, sizeof x, "%d", a->tokens), snprintf(y, sizeof y, "%d", b->tokens);
  print_fact(out, "tokens", x, y);
  snprintf(x, sizeof x, "%d × %d", a->layers, a->heads);
  snprintf(y, sizeof y, "%d × %d", b->layers, b->heads);
  print_fact(out, "layers × heads", x, y);
  print_fact(out, "mask", a->causal ? "causal" : "none", b->causal ? "causal" : "none");
  print_share(out, "visible pairs (query, key)", a->visible, b->visible);
  print_share(out, "weight on later tokens", a->later[a->layers], b->later[b->layers]);
  print_share(out, "share of the largest entropy", a->broad[a->layers], b->broad[b->layers]);
}

/* A bar of eighths; full: all heads. */
static void print_bar(FILE *out, double share) {
  static const char *const eighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  int n = (int)(share * BAR * 8 + 0.5);
  if (n) fputc(' ', out);
  for (int i = 0; i < n / 8; i++) fputs("█", out);
  fputs(eighths[n % 8], out);
}

static void print_pattern(FILE *out, const picture_beside_data *d, int k,
                          const terminal_look *look) {
  const palette *colours = palette_get(look->dark);
  for (int i = 0; i < 2; i++) {
    const picture_side *s = &d->side[i];
    int n = s->counts[s->layers * (d->patterns + 1) + k];
    print_padded(out, i ? "" : d->labels[k], 18);
    fprintf(out, "%4d", n);
    terminal_colour(out, look, false, palette_head(colours, i));
    print_bar(out, (double)n / (s->layers * s->heads));
    terminal_plain(out, look);
    fputc('\n', out);
  }
}

static void print_layers(FILE *out, const picture_beside_data *d) {
  int rows = d->side[0].layers > d->side[1].layers ? d->side[0].layers : d->side[1].layers;
  fputs("\nlayers   heads with a pattern, first | second\n", out);
  for (int r = 0; r < rows; r++) {
    int at[2] = {r * d->side[0].layers / rows, r * d->side[1].layers / rows};
    fprintf(out, "%2d | %2d ", at[0], at[1]);
    for (int k = 0; k < d->patterns; k++) {
      int a = d->side[0].counts[at[0] * (d->patterns + 1) + k];
      int b = d->side[1].counts[at[1] * (d->patterns + 1) + k];
      if (a || b) fprintf(out, "  %s %d|%d", d->labels[k], a, b);
    }
    fputc('\n', out);
  }
}

void terminal_beside(FILE *out, const picture_beside_data *d, const terminal_look *look) {
  if (d->why) fprintf(out, "No distance of heads: %s.\n\n", d->why);
  print_facts(out, d);
  fputs("\nheads by pattern, first above second\n", out);
  for (int k = 0; k <= d->patterns; k++) print_pattern(out, d, k, look);
  print_layers(out, d);
}

void terminal_word(FILE *out, const picture_word_data *d, const terminal_look *look) {
  const palette *colours = palette_get(look->dark);
  if (d->why) {
    fprintf(out, "No cosines: %s.\n", d->why);
    return;
  }
  fprintf(out, "“%s” and “%s”: cosine of the hidden states\n", d->word, d->other);
  for (int l = 0; l <= d->layers; l++) {
    fprintf(out, l < d->layers ? "before layer %2d  %7.4f" : "after layer %3d  %7.4f",
            l < d->layers ? l : l - 1, d->cosine[l]);
    terminal_colour(out, look, false, palette_head(colours, 0));
    print_bar(out, d->cosine[l] > 0 ? d->cosine[l] : 0);
    terminal_plain(out, look);
    fputc('\n', out);
  }
  fprintf(out, "layer %d, head %d: queries %.4f, keys %.4f, values %.4f\n", d->layer, d->head, d->q,
          d->k, d->v);
}
