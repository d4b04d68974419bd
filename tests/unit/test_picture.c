/* Pictures at many sizes: texts never meet, nothing leaves the page.
 *
 * What they look like is for eyes; that nothing lies on something else is
 * checked here, for few tokens and many, narrow and wide, light and dark.
 */
#include <stdint.h>
#include <stdlib.h>

#include "allocation_fails.h"
#include "check.h"
#include "pictures/raster.h"
#include "pictures/draw.h"
#include "pictures/pictures.h"

/* ---- texts as boxes ------------------------------------------------------------- */

typedef struct {
  double x[4], y[4]; /* corners */
} box;

/* From the letters' feet to the top of an x: what touches is read as one. */
static box box_of(const shape *s) {
  double width = draw_text_width(s->text, s->size, s->bold);
  double from = s->anchor == ANCHOR_START ? 0 : s->anchor == ANCHOR_MIDDLE ? -width / 2 : -width;
  double top = -s->size * GLYPHS_X, turn = s->turn * 3.14159265358979 / 180;
  double c = cos(turn), n = sin(turn);
  double px[4] = {from, from + width, from + width, from};
  double py[4] = {0, 0, top, top};
  box b;
  for (int i = 0; i < 4; i++) {
    b.x[i] = s->x + px[i] * c - py[i] * n;
    b.y[i] = s->y + px[i] * n + py[i] * c;
  }
  return b;
}

/* Whether the line through side i of a has all of b on its far side. */
static int is_apart(const box *a, const box *b) {
  for (int i = 0; i < 4; i++) {
    int j = (i + 1) % 4, outside = 1;
    double dx = a->x[j] - a->x[i], dy = a->y[j] - a->y[i];
    double in = dx * (a->y[(i + 2) % 4] - a->y[i]) - dy * (a->x[(i + 2) % 4] - a->x[i]);
    for (int k = 0; k < 4 && outside; k++)
      outside = (dx * (b->y[k] - a->y[i]) - dy * (b->x[k] - a->x[i])) * (in > 0 ? 1 : -1) <= 0.01;
    if (outside) return 1;
  }
  return 0;
}

static int is_inside(const box *b, const drawing *d) {
  for (int i = 0; i < 4; i++)
    if (b->x[i] < 0 || b->x[i] > d->width || b->y[i] < 0 || b->y[i] > d->height) return 0;
  return 1;
}

static void check_texts(const char *name, const drawing *d) {
  size_t n = 0;
  box *boxes = calloc(d->count, sizeof *boxes);
  const shape **of = calloc(d->count, sizeof *of);
  for (size_t i = 0; i < d->count; i++) {
    const shape *s = &d->shapes[i];
    if (s->kind != SHAPE_TEXT) continue;
    of[n] = s;
    boxes[n] = box_of(s);
    if (!is_inside(&boxes[n], d))
      CHECK_FAIL("%s %.0f px: \"%s\" leaves the page", name, d->width, s->text);
    for (size_t j = 0; j < n; j++)
      if (!is_apart(&boxes[j], &boxes[n]) && !is_apart(&boxes[n], &boxes[j]))
        CHECK_FAIL("%s %.0f px: \"%s\" lies on \"%s\"", name, d->width, s->text, of[j]->text);
    n++;
  }
  CHECK(n > 3);
  free(boxes);
  free(of);
}

static void check_drawing(const char *name, const char *why, drawing *d, double width) {
  if (why) CHECK_FAIL("%s: %s", name, why);
  CHECK(d->width <= (width < 480 ? 480 : width) || !strcmp(name, "neuron"));
  CHECK(d->height > 100 && d->height < 20000);
  CHECK(d->title && *d->title);
  check_texts(name, d);
  drawing_free(d);
}

/* ---- made-up data --------------------------------------------------------------------- */

enum { MOST = 400 };

static const char *const words[] = {
    "[CLS]",    "The",       "animal",        "didn",    "'t",
    "cross",    "the",       "street",        "because", "it",
    "was",      "too",       "tired",         ",",       "antidisestablishmentarianism",
    "\xff\xfe", "漢字",      "<|endoftext|>", "a",       "\n",
    "naïve",    "e\xcc\x81", "##ing",         "."};
static const char *token[MOST];

static void name_tokens(void) {
  for (int i = 0; i < MOST; i++) token[i] = words[i * 7 % (int)(sizeof words / sizeof *words)];
}

static picture_tokens tokens(int count) { return (picture_tokens){token, count}; }

static uint32_t state;
static float chance(void) {
  state = state * 1664525u + 1013904223u;
  return (float)(state >> 8) / 16777216.0f;
}

static float *numbers(int count, float low) {
  float *to = calloc((size_t)count, sizeof *to);
  for (int i = 0; i < count; i++) to[i] = low + (1 - low) * chance();
  return to;
}

static const picture_about about = {"gpt2", "softmax", "decoder", 3, 1, "From 100 of 200 rows.",
                                    NULL};

static const struct {
  double width;
  int tokens, layers, heads;
  bool dark;
} sizes[] = {{1200, 1, 4, 2, false},  {480, 5, 4, 4, true},     {1200, 24, 12, 12, false},
             {700, 44, 4, 16, false}, {1200, 200, 6, 12, true}, {900, 390, 24, 16, false},
             {300, 30, 48, 32, false}};
enum { SIZES = sizeof sizes / sizeof *sizes };

#define EACH(i)                   \
  name_tokens();                  \
  for (int i = 0; i < SIZES; i++) \
    for (picture_look look = {sizes[i].width, sizes[i].dark}; look.width; look.width = 0)

TEST(the_model_fits) {
  EACH(i) {
    int count = sizes[i].layers * sizes[i].heads;
    uint8_t *cells = calloc((size_t)count * 48 * 32, 1);
    const char **does = calloc((size_t)count, sizeof *does);
    for (int j = 0; j < count; j++) does[j] = j % 3 ? "positional" : "";
    picture_model_data d = {about, sizes[i].layers, sizes[i].heads, 32, 48, cells, does};
    drawing out;
    const char *why = picture_model(&d, &look, &out);
    check_drawing("model", why, &out, sizes[i].width);
    free(cells);
    free(does);
  }
}

TEST(heads_fit) {
  EACH(i) {
    int n = sizes[i].tokens, heads = sizes[i].heads > 6 ? 6 : sizes[i].heads;
    int number[] = {0, 3, 5, 7, 10, 11};
    float *w = numbers(heads * n * n, 0);
    picture_head_data d = {about, tokens(n), tokens(n), heads, number, w, -1};
    drawing out;
    check_drawing("head", picture_head(&d, &look, &out), &out, sizes[i].width);
    d.token = n - 1;
    d.heads = 1;
    check_drawing("head", picture_head(&d, &look, &out), &out, sizes[i].width);
    free(w);
  }
}

TEST(neurons_fit) {
  EACH(i) {
    int n = sizes[i].tokens, dim = 8 << i;
    float *q = numbers(dim, -1), *k = numbers(n * dim, -1), *w = numbers(n, 0);
    picture_neuron_data d = {.about = about,
                             .query = "tired",
                             .row = n - 1,
                             .keys = tokens(n),
                             .dim = dim,
                             .dim_v = dim,
                             .scale = 0.125,
                             .q = q,
                             .k = k,
                             .v = k,
                             .weights = w,
                             .out = q};
    drawing out;
    check_drawing("neuron", picture_neuron(&d, &look, &out), &out, sizes[i].width);
    free(q);
    free(k);
    free(w);
  }
}

TEST(matrices_fit) {
  EACH(i) {
    int n = sizes[i].tokens, cells = n > 200 ? n / 3 : n;
    float *w = numbers(cells * cells, 0);
    uint8_t *mask = calloc((size_t)(cells * cells), 1);
    for (int j = 0; j < cells * cells; j++) mask[j] = (uint8_t)(j % 5 ? 0 : j % 4);
    picture_matrix_data d = {.about = about,
                             .rows = tokens(n),
                             .keys = tokens(n),
                             .height = cells,
                             .width = cells,
                             .cells = w,
                             .mask = mask,
                             .token = n / 2,
                             .key = -1,
                             .entropy = w};
    drawing out;
    check_drawing("matrix", picture_matrix(&d, &look, &out), &out, sizes[i].width);
    d.mask = NULL;
    d.entropy = NULL;
    d.key = n / 3;
    check_drawing("matrix", picture_matrix(&d, &look, &out), &out, sizes[i].width);
    free(w);
    free(mask);
  }
}

TEST(films_fit) {
  static const int head[] = {0, 7, 11};
  EACH(i) {
    int n = sizes[i].tokens > 100 ? 100 : sizes[i].tokens, frames = 2 * i + 1;
    float *w = numbers(3 * frames * n * n, 0);
    double step[2 * SIZES], loss[2 * SIZES];
    picture_point curve[2 * SIZES];
    for (int j = 0; j < frames; j++) {
      step[j] = j * 1000.0 * (i + 1);
      loss[j] = j % 3 == 1 ? NAN : exp(5 - j * i);
      curve[j] = (picture_point){step[j], exp(5 - j * i)};
    }
    picture_film_data d = {.about = about,
                           .rows = tokens(n),
                           .keys = tokens(n),
                           .heads = 1 + i % 3,
                           .head = head,
                           .frames = frames,
                           .step = step,
                           .loss = loss,
                           .height = n,
                           .width = n,
                           .cells = w,
                           .curve = curve,
                           .valid = curve,
                           .losses = i == 3 ? 0 : frames,
                           .valids = i % 2 ? frames : 0};
    drawing out;
    check_drawing("film", picture_film(&d, &look, &out), &out, sizes[i].width);
    free(w);
  }
}

TEST(flows_fit) {
  EACH(i) {
    int n = sizes[i].tokens, layers = sizes[i].layers;
    float *shares = numbers((layers + 1) * n, 0);
    uint8_t *reached = calloc((size_t)((layers + 1) * n), 1);
    picture_edge edges[2] = {{0, n - 1, 0, 1, 0.5f}, {0, n - 1, n - 1, -1, 0.5f}};
    picture_flow_data d = {about, tokens(n), layers, n - 1, shares, reached, edges, 2};
    drawing out;
    check_drawing("flow", picture_flow(&d, &look, &out), &out, sizes[i].width);
    d.shares = NULL;
    check_drawing("flow", picture_flow(&d, &look, &out), &out, sizes[i].width);
    free(shares);
    free(reached);
  }
}

TEST(comparisons_fit) {
  EACH(i) {
    int n = sizes[i].tokens, layers = sizes[i].layers, heads = sizes[i].heads;
    float *a = numbers(n * n, 0), *b = numbers(n * n, 0);
    float *distances = numbers(layers * heads, 0);
    picture_compare_data d = {about,     "softmax", "favor(m=256, seed=1)",
                              tokens(n), tokens(n), n,
                              n,         a,         b,
                              NULL,      0.25,      0.0123,
                              1.5,       2.25,      layers,
                              heads,     distances};
    drawing out;
    check_drawing("compare", picture_compare(&d, &look, &out), &out, sizes[i].width);
    free(a);
    free(b);
    free(distances);
  }
}

TEST(generations_fit) {
  EACH(i) {
    int n = sizes[i].tokens;
    picture_step *steps = calloc((size_t)n, sizeof *steps);
    picture_candidate candidates[10];
    for (int j = 0; j < 10; j++) candidates[j] = (picture_candidate){token[j], 0.5 / (j + 1)};
    for (int j = 0; j < n; j++)
      steps[j] = (picture_step){token[j], 0.3, candidates, 10, 1e4 * (j + 9)};
    picture_generate_data d = {about, "Once upon a time there was a fox who", steps, n};
    drawing out;
    check_drawing("generate", picture_generate(&d, &look, &out), &out, sizes[i].width);
    free(steps);
  }
}

TEST(embeddings_fit) {
  EACH(i) {
    int n = sizes[i].tokens, dim = 8 << i;
    float *cosine = numbers(n * n, -1), *table = numbers(64 * dim, -1);
    float *shift = numbers(dim * dim, -1);
    picture_embeddings_data d = {about, tokens(n), tokens(n), n,     n,     cosine,
                                 NULL,  64,        dim,       table, shift, 2e-7};
    drawing out;
    check_drawing("embeddings", picture_embeddings(&d, &look, &out), &out, sizes[i].width);
    d.count = 0;
    check_drawing("embeddings", picture_embeddings(&d, &look, &out), &out, sizes[i].width);
    free(cosine);
    free(table);
    free(shift);
  }
}

TEST(nothing_to_draw_is_said) {
  picture_look look = {800, false};
  drawing out;
  CHECK(picture_model(&(picture_model_data){0}, &look, &out) && !out.count);
  CHECK(picture_head(&(picture_head_data){0}, &look, &out) && !out.count);
  CHECK(picture_neuron(&(picture_neuron_data){0}, &look, &out) && !out.count);
  CHECK(picture_matrix(&(picture_matrix_data){0}, &look, &out) && !out.count);
  CHECK(picture_film(&(picture_film_data){0}, &look, &out) && !out.count);
  CHECK(picture_flow(&(picture_flow_data){0}, &look, &out) && !out.count);
  CHECK(picture_compare(&(picture_compare_data){0}, &look, &out) && !out.count);
  CHECK(picture_generate(&(picture_generate_data){0}, &look, &out) && !out.count);
  CHECK(picture_embeddings(&(picture_embeddings_data){0}, &look, &out) && !out.count);
}

/* ---- one sign ---------------------------------------------------------------------- */

/* The highest text that begins so. */
static const shape *find_text(const drawing *d, const char *text) {
  const shape *found = NULL;
  for (size_t i = 0; i < d->count; i++) {
    const shape *s = &d->shapes[i];
    if (s->kind != SHAPE_TEXT || strncmp(s->text, text, strlen(text))) continue;
    if (!found || s->y < found->y) found = s;
  }
  return found;
}

/* Weights are written into the cells: 0.75 − 0.25 = 0.50. */
TEST(a_difference_is_the_first_minus_the_second) {
  static const float a[4] = {0.75f, 0.25f, 0.5f, 0.5f}, b[4] = {0.25f, 0.75f, 0.5f, 0.5f};
  picture_compare_data d = {.about = about,
                            .name = "first",
                            .other_name = "second",
                            .rows = tokens(2),
                            .keys = tokens(2),
                            .height = 2,
                            .width = 2,
                            .cells = a,
                            .other = b,
                            .distance = NAN,
                            .output_error = NAN,
                            .entropy = NAN,
                            .other_entropy = NAN};
  picture_look look = {0};
  drawing out;
  CHECK(!picture_compare(&d, &look, &out));
  const shape *less = find_text(&out, "−0.50"), *more = find_text(&out, "0.50");
  CHECK(find_text(&out, "first −"));
  CHECK(more && less && fabs(more->y - less->y) < 1 && more->x < less->x);
  drawing_free(&out);
}

TEST(a_difference_in_a_terminal_has_the_same_sign) {
  static const float a[4] = {0.75f, 0.25f, 0.5f, 0.5f}, b[4] = {0.25f, 0.75f, 0.5f, 0.5f};
  picture_compare_data d = {.about = about,
                            .name = "first",
                            .other_name = "second",
                            .rows = tokens(2),
                            .keys = tokens(2),
                            .height = 2,
                            .width = 2,
                            .cells = a,
                            .other = b};
  terminal_look look = {.columns = 80, .colours = TERMINAL_SHADES};
  char *text = NULL;
  size_t length;
  FILE *out = open_memstream(&text, &length);
  CHECK(!terminal_compare(out, &d, &look));
  fclose(out);
  const char *difference = strstr(text, "first − second");
  CHECK(difference && strstr(difference, "██-█"));
  free(text);
}

/* ---- memory ---------------------------------------------------------------------- */

enum { FEW = 5 };

static void draw_compare(const picture_look *look, drawing *out) {
  static const float w[FEW * FEW] = {1, 2}, other[FEW * FEW] = {2, 1};
  picture_compare_data d = {.about = about,
                            .name = "softmax",
                            .other_name = "favor",
                            .rows = tokens(FEW),
                            .keys = tokens(FEW),
                            .height = FEW,
                            .width = FEW,
                            .cells = w,
                            .other = other};
  CHECK(!picture_compare(&d, look, out));
}

static void draw_neuron(const picture_look *look, drawing *out) {
  static const float x[FEW * 2] = {0.5F, 0.25F, 0.125F};
  picture_neuron_data d = {.about = about,
                           .query = "query",
                           .keys = tokens(FEW),
                           .dim = 2,
                           .dim_v = 2,
                           .scale = 1,
                           .q = x,
                           .k = x,
                           .v = x,
                           .weights = x,
                           .out = x};
  CHECK(!picture_neuron(&d, look, out));
}

static void draw_flow(const picture_look *look, drawing *out) {
  static const uint8_t reached[2 * FEW] = {1};
  static const picture_edge edge = {0, 1, 0, 2, 0.5f};
  picture_flow_data d = {.about = about,
                         .tokens = tokens(FEW),
                         .layers = 1,
                         .reached = reached,
                         .edges = &edge,
                         .edge_count = 1};
  CHECK(!picture_flow(&d, look, out));
}

static picture_map_data map_of_numbers(int rows, int columns, const float *cells) {
  return (picture_map_data){.title = "a map",
                            .caption = "Each cell is a number.",
                            .row_axis = "layer",
                            .column_axis = "token",
                            .what = "change",
                            .rows = {NULL, rows},
                            .columns = tokens(columns),
                            .cells = cells,
                            .is_signed = true};
}

static picture_scores_data scores_of_tokens(int n, const float *scores) {
  return (picture_scores_data){"scores", "Each token has one.", "score", tokens(n), scores, -1};
}

static void draw_map(const picture_look *look, drawing *out) {
  static const float cells[2 * FEW] = {1, -2};
  const picture_map_data d = map_of_numbers(2, FEW, cells);
  CHECK(!picture_map(&d, look, out));
}

static void draw_scores(const picture_look *look, drawing *out) {
  static const float scores[FEW] = {1, -2};
  const picture_scores_data d = scores_of_tokens(FEW, scores);
  CHECK(!picture_scores(&d, look, out));
}

/* Whichever allocation fails, the drawing says so when it is written. */
static void check_memory(void (*draw)(const picture_look *look, drawing *out)) {
  const picture_look look = {800, false};
  attend_status status = ATTEND_NO_MEMORY;
  long n = 0;
  while (status && n < 10000) {
    drawing out;
    char *bytes;
    size_t length;
    allocation_fails_at(++n);
    draw(&look, &out);
    status = draw_svg(&out, &bytes, &length);
    allocation_fails_at(0);
    CHECK_EQ(status, bytes ? ATTEND_OK : ATTEND_NO_MEMORY);
    free(bytes);
    drawing_free(&out);
  }
  CHECK(!status && n > 20);
}

TEST(pictures_without_memory) {
  name_tokens();
  check_memory(draw_compare);
  check_memory(draw_neuron);
  check_memory(draw_flow);
  check_memory(draw_map);
  check_memory(draw_scores);
}

/* Numbers stand in cells that have room for them; many cells are a heat map. Nothing is wider than
 * the picture. */
TEST(maps_and_scores_of_any_size) {
  name_tokens();
  for (int n = 1; n <= 100; n = n * 3 + 1) {
    float *cells = numbers(n * n, 0);
    const picture_look look = {640, true};
    const picture_map_data map = map_of_numbers(n, n, cells);
    const picture_scores_data scores = scores_of_tokens(n, cells);
    drawing out;
    CHECK(!picture_map(&map, &look, &out));
    CHECK(out.width <= 640 && out.height > 0 && !out.status);
    CHECK(find_text(&out, "layer ↓, token →"));
    drawing_free(&out);
    CHECK(!picture_scores(&scores, &look, &out));
    CHECK(out.width <= 640 && !out.status);
    drawing_free(&out);
    free(cells);
  }
  const picture_map_data none = map_of_numbers(0, 0, NULL);
  drawing out;
  CHECK(picture_map(&none, &(picture_look){0}, &out));
  drawing_free(&out);
}

/* ---- the terminal ---------------------------------------------------------------- */

/* Columns of the widest line, escapes left out. */
static int widest_line(FILE *of) {
  char line[1 << 16], plain[1 << 16];
  int widest = 0;
  rewind(of);
  while (fgets(line, sizeof line, of)) {
    char *to = plain;
    for (const char *at = line; *at && *at != '\n'; at++) {
      if (*at == '\033')
        at = strchr(at, 'm');
      else
        *to++ = *at;
    }
    *to = 0;
    if (letters_width(plain) > widest) widest = letters_width(plain);
  }
  return widest;
}

/* Columns that do not fit follow below. */
static void check_terminal_scores(const terminal_look *look, int n, const float *w) {
  FILE *out = tmpfile();
  const picture_map_data map = map_of_numbers(3, n, w);
  const picture_scores_data scores = scores_of_tokens(n, w);
  terminal_map(out, &map, look);
  CHECK(widest_line(out) <= (look->columns > 40 ? look->columns : 40));
  fclose(out);
  out = tmpfile();
  terminal_scores(out, &scores, look);
  CHECK(widest_line(out) <= (look->columns > 64 ? look->columns : 64));
  fclose(out);
}

static void check_terminal(const terminal_look *look, int n, int heads) {
  float *w = numbers(n * n, 0);
  if (n > 2) check_terminal_scores(look, n, w);
  uint8_t *cells = calloc((size_t)(3 * heads * n * n), 1);
  const char **does = calloc((size_t)(3 * heads), sizeof *does);
  for (int i = 0; i < 3 * heads; i++) does[i] = "positional";
  picture_matrix_data matrix = {.rows = tokens(n),
                                .keys = tokens(n),
                                .height = n,
                                .width = n,
                                .cells = w,
                                .token = -1,
                                .key = -1};
  picture_model_data model = {about, 3, heads, n, n, cells, does};
  FILE *out = tmpfile();
  CHECK_EQ(terminal_matrix(out, &matrix, look), ATTEND_OK);
  terminal_model(out, &model, look);
  int wide = widest_line(out);
  if (wide > look->columns || wide < 8)
    CHECK_FAIL("%d tokens, %d heads: %d of %d columns", n, heads, wide, look->columns);
  fclose(out);
  free(w);
  free(cells);
  free(does);
}

TEST(terminals_are_wide_enough) {
  static const int columns[] = {24, 80, 200};
  name_tokens();
  for (int c = 0; c < 3; c++)
    for (int colours = TERMINAL_SHADES; colours <= TERMINAL_TRUE; colours++) {
      terminal_look look = {columns[c], (terminal_colours)colours, true};
      check_terminal(&look, 1, 1);
      check_terminal(&look, 17, 12);
      check_terminal(&look, 130, 32);
    }
}
