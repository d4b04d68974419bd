/* Plots: axes that make sense for any data, long series that lose nothing,
 * well-formed files whatever the labels are. */
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include "plot/plot.h"
#include "attention_fixtures.h"

/* ---- well-formed XML, as far as plots use it --------------------------------------- */

static int name_end(const char *at) {
  int n = 0;
  while (at[n] && !strchr(" />=\n\"<&", at[n])) n++;
  return n;
}

/* After a tag's name: attributes, each quoted and once. Returns past '>'. */
static const char *tag_rest(const char *at, int *closed) {
  const char *seen[16];
  int lengths[16], count = 0;
  for (*closed = 0;;) {
    while (*at == ' ' || *at == '\n') at++;
    if (*at == '/') *closed = 1, at++;
    if (*at == '>') return at + 1;
    int n = name_end(at);
    if (!n || at[n] != '=' || at[n + 1] != '"' || count == 16) return NULL;
    for (int i = 0; i < count; i++)
      if (lengths[i] == n && !memcmp(seen[i], at, (size_t)n)) return NULL;
    seen[count] = at;
    lengths[count++] = n;
    at += n + 2;
    while (*at && *at != '"' && *at != '<') at++;
    if (*at++ != '"') return NULL;
  }
}

static const char *text_rest(const char *at) {
  static const char *const entities[] = {"&lt;", "&gt;", "&amp;", "&quot;"};
  while (*at && *at != '<') {
    int known = *at != '&';
    for (int i = 0; i < 4 && !known; i++) known = !strncmp(at, entities[i], strlen(entities[i]));
    if (!known || *at == '>' || ((unsigned char)*at < 0x20 && *at != '\n')) return NULL;
    at++;
  }
  return at;
}

/* Where it stops being XML, or NULL. */
static const char *xml_fault(const char *text) {
  const char *open[32];
  int depth = 0, closed;
  for (const char *at = text, *next; *at; at = next) {
    next = text_rest(at);
    if (!next) return at;
    if (!*next) return depth ? "an open tag" : NULL;
    at = next + 1;
    if (*at == '/') {
      int n = name_end(++at);
      if (!depth || strncmp(open[--depth], at, (size_t)n)) return at;
      next = at + n + 1;
      continue;
    }
    open[depth] = at;
    next = tag_rest(at + name_end(at), &closed);
    if (!next) return at;
    if (!closed && ++depth == 32) return at;
  }
  return depth ? "an open tag" : NULL;
}

TEST(the_judge_of_xml_can_say_no) {
  CHECK(!xml_fault("<a b=\"c\"><d/>x&lt;\n</a>\n"));
  CHECK(xml_fault("<a>"));
  CHECK(xml_fault("<a></b>"));
  CHECK(xml_fault("<a>&x</a>"));
  CHECK(xml_fault("<a b=\"<\"/>"));
  CHECK(xml_fault("<a b=\"1\" b=\"2\"/>"));
  CHECK(xml_fault("<a>\x01</a>"));
}

static char *drawn(attend_context *ctx, const attend_plot *plot) {
  char *text = NULL;
  size_t length = 0;
  OK(ctx, attend_plot_svg(ctx, plot, &text, &length));
  if (!text) return NULL;
  CHECK_EQ(strlen(text), length);
  const char *fault = xml_fault(text);
  if (fault) CHECK_FAIL("not XML at \"%.60s\"", fault);
  CHECK(!strstr(text, "nan") && !strstr(text, "inf"));
  return text;
}

/* ---- axes ----------------------------------------------------------------------------- */

static scale scale_of(double low, double high, bool log, axis_ends ends) {
  attend_plot_axis axis = {.log = log};
  extent seen = extent_start(log);
  scale s;
  extent_see(&seen, low);
  extent_see(&seen, high);
  scale_make(&s, &axis, seen, ends, 9);
  return s;
}

static void check_places(const scale *s) {
  double before = -1e-9;
  for (int i = 0; i <= 50; i++) {
    double t = i / 50.0;
    double x = s->log ? s->low * pow(s->high / s->low, t) : s->low + (s->high - s->low) * t;
    double at = scale_place(s, x);
    CHECK(at > before && at <= 1 + 1e-9);
    before = at;
  }
}

static void check_scale(double low, double high, bool log, axis_ends ends) {
  scale s = scale_of(low, high, log, ends);
  int bad = check_failures;
  CHECK(s.low < s.high && s.low <= low && s.high >= high);
  CHECK(s.count >= 3 && s.count <= MOST_TICKS);
  double slack = 1e-8 * (s.high - s.low);
  for (int i = 0; i < s.count; i++) {
    CHECK(s.at[i] >= s.low - slack && s.at[i] <= s.high + slack);
    if (!i) continue;
    CHECK(s.at[i] > s.at[i - 1]);
    CHECK(strcmp(s.label[i], s.label[i - 1]));
  }
  if (ends == ROUND_ENDS) {
    CHECK(s.at[0] <= low + slack && s.at[s.count - 1] >= high - slack);
  } else if (!log) {
    double step = s.at[1] - s.at[0];
    CHECK(s.at[0] - s.low < step + slack);
    CHECK(s.high - s.at[s.count - 1] < step + slack);
  }
  check_places(&s);
  if (check_failures > bad)
    CHECK_FAIL("from %g to %g, log %d, tight %d: %d ticks", low, high, log, ends == TIGHT_ENDS,
               s.count);
}

TEST(ticks_cover_any_range) {
  float u[4];
  for (int i = 0; i < 4000; i++) {
    attend_random_uniform((attend_random){7, 1}, 4 * (uint64_t)i, 4, u);
    double size = pow(10, 40 * (double)u[0] - 20);
    double low = size * (2 * (double)u[1] - 1), high = low + size * (double)u[2];
    if (u[3] < 0.3F) high = low * (1 + 1e-6 * (double)u[2]);
    if (low > high) high = low + size;
    axis_ends ends = i % 2 ? ROUND_ENDS : TIGHT_ENDS;
    check_scale(low, high, false, ends);
    low = size * (1e-3 + (double)u[1]);
    check_scale(low, low * pow(10, 12 * pow((double)u[2], 3)), true, ends);
  }
}

TEST(ticks_of_odd_ranges) {
  const double odd[][2] = {{5, 5},         {0, 0},   {-1e300, 1e300},  {1e-300, 1},
                           {1e308, 1e308}, {-3, -3}, {1e-320, 2e-320}, {1, 1 + 1e-15},
                           {0, 1e-12},     {0, 1e9}, {1e9, 1e9 + 1}};
  for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
    scale s = scale_of(odd[i][0], odd[i][1], false, ROUND_ENDS);
    CHECK(s.count >= 3 && s.count <= MOST_TICKS && s.low < s.high);
    check_places(&s);
    if (odd[i][0] > 0) s = scale_of(odd[i][0], odd[i][1], true, TIGHT_ENDS);
    CHECK(s.count >= 3 && s.count <= MOST_TICKS && s.low < s.high);
    check_places(&s);
  }
}

TEST(labels_are_what_one_would_write) {
  scale s = scale_of(0, 1e9, false, ROUND_ENDS);
  CHECK(!strcmp(s.label[0], "0") && !strcmp(s.label[1], "200M"));
  CHECK(!strcmp(s.label[s.count - 1], "1G"));
  s = scale_of(0, 1500, false, TIGHT_ENDS);
  CHECK(!strcmp(s.label[1], "200") && !strcmp(s.label[5], "1000"));
  s = scale_of(0.3, 0.9, false, ROUND_ENDS);
  CHECK(!strcmp(s.label[0], "0.3") && !strcmp(s.label[1], "0.4"));
  s = scale_of(1e-12, 3e-12, false, ROUND_ENDS);
  CHECK(!strcmp(s.label[0], "1e-12"));
  s = scale_of(1e-4, 1e4, true, ROUND_ENDS);
  CHECK(!strcmp(s.label[0], "1e-4") && !strcmp(s.label[1], "0.001"));
  CHECK(!strcmp(s.label[7], "1000") && !strcmp(s.label[8], "10k"));
  s = scale_of(1000000.001, 1000000.002, false, ROUND_ENDS);
  CHECK(!strcmp(s.label[0], "1000000.001") && !strcmp(s.label[1], "+2e-4"));
  CHECK(!strcmp(s.label[s.count - 1], "+1e-3"));
  char text[40];
  short_number(-0.08766, 2, text);
  CHECK(!strcmp(text, "-0.088"));
  short_number(1234567, 3, text);
  CHECK(!strcmp(text, "1.23M"));
  short_number(NAN, 3, text);
  CHECK(!strcmp(text, "-"));
}

TEST(what_has_no_place) {
  scale s = scale_of(1, 100, true, ROUND_ENDS);
  CHECK(isnan(scale_place(&s, 0)) && isnan(scale_place(&s, -1)));
  CHECK(isnan(scale_place(&s, INFINITY)) && isnan(scale_place(&s, NAN)));
  CHECK_NEAR(scale_place(&s, 10), 0.5, 1e-12);
}

/* ---- long series --------------------------------------------------------------------- */

enum { LONG = 100000 };

static panel flat_panel(void) {
  panel p = {.area = {50, 10, 600, 200}};
  p.x = scale_of(0, LONG, false, TIGHT_ENDS);
  p.y = scale_of(-2, 2, false, ROUND_ENDS);
  return p;
}

TEST(long_series_keep_their_extremes) {
  attend_context *ctx = open_context(NULL, 1, NULL);
  double *y = zeroed_block(LONG, sizeof *y), max = -1e9, min = 1e9;
  for (int i = 0; i < LONG; i++) y[i] = sin(i * 1e-3);
  y[12345] = 1.9;
  y[77777] = -1.7;
  panel p = flat_panel();
  curve c = {&p, NULL, y, LONG};
  spot *spots;
  size_t n;
  OK(ctx, curve_spots(ctx, &c, &spots, &n));
  CHECK(n > 600 && n <= 4 * 602);
  for (size_t i = 0; i < n; i++) {
    CHECK_EQ(spots[i].gap, i == 0);
    CHECK(!i || spots[i].x >= spots[i - 1].x);
    max = fmax(max, spots[i].y);
    min = fmin(min, spots[i].y);
  }
  CHECK_NEAR(min, panel_y(&p, 1.9), 0);
  CHECK_NEAR(max, panel_y(&p, -1.7), 0);
  CHECK_NEAR(spots[n - 1].y, panel_y(&p, y[LONG - 1]), 0);
  attend_plot_free(ctx, (char *)spots);
  free(y);
  attend_context_free(ctx);
}

TEST(gaps_stay_gaps) {
  attend_context *ctx = open_context(NULL, 1, NULL);
  double *y = zeroed_block(LONG, sizeof *y);
  for (int i = 0; i < LONG; i++) y[i] = i / 20000 % 2 ? NAN : 1;
  y[3] = INFINITY; /* narrower than a pixel */
  panel p = flat_panel();
  spot *spots;
  for (int few = 0; few < 2; few++) {
    curve c = {&p, NULL, few ? y + 19990 : y, few ? 20020 : LONG};
    size_t n, gaps = 0;
    if (few) c.count = 1000, y[19995] = NAN, p.area.w = 5000;
    OK(ctx, curve_spots(ctx, &c, &spots, &n));
    for (size_t i = 0; i < n; i++) gaps += spots[i].gap;
    CHECK_EQ(gaps, few ? 2 : 3);
    if (few) CHECK_EQ(n, 9);
    attend_plot_free(ctx, (char *)spots);
  }
  free(y);
  attend_context_free(ctx);
}

TEST(long_series_make_small_files) {
  attend_context *ctx = open_context(NULL, 1, NULL);
  double *y = zeroed_block(LONG, sizeof *y);
  for (int i = 0; i < LONG; i++) y[i] = sin(i * 0.1) + (i % 97);
  attend_plot_series t = {.count = LONG, .y = y, .low = y, .high = y};
  attend_plot_panel p = {.count = 1, .series = &t};
  attend_plot plot = {ATTEND_INIT(attend_plot), .count = 1, .panels = &p};
  char *text = drawn(ctx, &plot);
  CHECK(text && strlen(text) < 150000);
  attend_plot_free(ctx, text);
  free(y);
  attend_context_free(ctx);
}

/* ---- whole plots --------------------------------------------------------------------- */

static const char hostile[] =
    "</text><script>alert(1)</script>&amp;\"'\x01\x7f\n\xff\xc3 \xef\xbf\xbf "
    "\xe4\xbd\xa0 a name that is far too long to be shown beside any line";
static const double values[] = {3, NAN, 1e9, -1e-12, INFINITY, 0};
static const double below[] = {2, 0, 1e8, -1, 0, -1}, above[] = {4, 0, 2e9, 1, 0, 1};
static const char *const names[] = {"a", hostile, "", "d", "e", "f"};

static attend_plot_panel panel_of(attend_plot_kind kind, int log,
                                  const attend_plot_series *series) {
  return (attend_plot_panel){.kind = kind,
                             .title = hostile,
                             .x = {.label = hostile, .log = log},
                             .y = {.label = hostile, .log = log},
                             .count = 2,
                             .series = series,
                             .columns = kind == ATTEND_PLOT_HEAT ? 3 : 6,
                             .names = names,
                             .rows = 2,
                             .row_names = names,
                             .cells = values,
                             .z = {.label = hostile, .log = log},
                             .diverging = !log};
}

static attend_status whole(attend_context *ctx, char **text) {
  attend_plot_series series[] = {
      {.name = hostile, .count = 6, .y = values, .low = below, .high = above},
      {.name = "b", .count = 6, .y = below, .points = 1, .dashed = 1}};
  attend_plot_mark mark = {2, hostile};
  attend_plot_panel panels[6];
  for (int i = 0; i < 6; i++) panels[i] = panel_of((attend_plot_kind)(i % 3), i / 3, series);
  panels[0].marks = 1;
  panels[0].mark = &mark;
  attend_plot plot = {
      ATTEND_INIT(attend_plot), .title = hostile, .notes = hostile, .across = 3, .count = 6,
      .panels = panels};
  return attend_plot_svg(ctx, &plot, text, NULL);
}

TEST(hostile_labels_stay_labels) {
  attend_context *ctx = open_context(NULL, 1, NULL);
  char *text, *again;
  OK(ctx, whole(ctx, &text));
  OK(ctx, whole(ctx, &again));
  CHECK(text && again && !strcmp(text, again));
  const char *fault = text ? xml_fault(text) : "nothing";
  if (fault) CHECK_FAIL("not XML at \"%.60s\"", fault);
  CHECK(text && !strstr(text, "<script>"));
  CHECK_SAYS(text, "&lt;script&gt;");
  CHECK_SAYS(text, "prefers-color-scheme:dark");
  attend_plot_free(ctx, text);
  attend_plot_free(ctx, again);
  attend_context_free(ctx);
}

TEST(allocations_that_fail) {
  ledger memory = {0};
  attend_context *ctx = open_context(NULL, 1, &memory);
  attend_status status = ATTEND_NO_MEMORY;
  long n = 0, live = memory.live;
  char *text;
  while (status && n < 1000) {
    memory.fail_at = memory.taken + ++n;
    status = whole(ctx, &text);
    CHECK(!status == (text != NULL));
    if (status) CHECK_EQ(status, ATTEND_NO_MEMORY);
    attend_plot_free(ctx, text);
    CHECK_EQ(memory.live, live);
  }
  CHECK(!status && n > 8);
  memory.fail_at = 0;
  attend_context_free(ctx);
}

TEST(little_or_nothing) {
  attend_context *ctx = open_context(NULL, 1, NULL);
  for (int kind = 0; kind < 3; kind++)
    for (size_t n = 0; n < 3; n++)
      for (int wide = 0; wide < 2; wide++) {
        attend_plot_series t = {.name = "x", .count = n, .y = values};
        attend_plot_panel p = {.kind = (attend_plot_kind)kind,
                               .count = 1,
                               .series = &t,
                               .columns = n,
                               .rows = n,
                               .cells = values};
        attend_plot plot = {ATTEND_INIT(attend_plot), .count = 1, .panels = &p,
                            .width = wide ? 3000 : 160, .height = wide ? 0 : 60};
        attend_plot_free(ctx, drawn(ctx, &plot));
      }
  attend_context_free(ctx);
}

TEST(large_heat_maps_are_pooled) {
  attend_context *ctx = open_context(NULL, 1, NULL);
  double *cells = zeroed_block(500 * 1000, sizeof *cells);
  for (int i = 0; i < 500 * 1000; i++) cells[i] = i % 1000 < i / 500;
  attend_plot_panel p = {.kind = ATTEND_PLOT_HEAT, .rows = 500, .columns = 1000, .cells = cells};
  attend_plot plot = {ATTEND_INIT(attend_plot), .count = 1, .panels = &p};
  char *text = drawn(ctx, &plot);
  CHECK_SAYS(text, "a cell is the mean of 4 x 7");
  CHECK(strlen(text) < 400000);
  attend_plot_free(ctx, text);
  free(cells);
  attend_context_free(ctx);
}

TEST(what_is_refused) {
  attend_context *ctx = open_context(NULL, 1, NULL);
  attend_plot_series t = {.count = 2};
  attend_plot_panel p = {.count = 1, .series = &t};
  attend_plot plot = {ATTEND_INIT(attend_plot), .count = 1, .panels = &p};
  char *text;
  CHECK_EQ(attend_plot_svg(ctx, &plot, &text, NULL), ATTEND_INVALID);
  CHECK_SAYS(attend_message(ctx), "no y");
  t.y = values;
  p.kind = ATTEND_PLOT_BARS;
  p.columns = 3;
  CHECK_EQ(attend_plot_svg(ctx, &plot, &text, NULL), ATTEND_INVALID);
  CHECK_SAYS(attend_message(ctx), "2 bars for 3 groups");
  plot.width = 3;
  CHECK_EQ(attend_plot_svg(ctx, &plot, &text, NULL), ATTEND_INVALID);
  plot.count = 0;
  CHECK_EQ(attend_plot_svg(ctx, &plot, &text, NULL), ATTEND_INVALID);
  CHECK(!text);
  attend_context_free(ctx);
}

/* ---- files --------------------------------------------------------------------------- */

static int holds(const char *path, const char *want) {
  char text[64] = "";
  FILE *f = fopen(path, "rb");
  if (!f) return 0;
  size_t n = fread(text, 1, sizeof text - 1, f);
  fclose(f);
  text[n] = 0;
  return !strncmp(text, want, strlen(want));
}

TEST(a_file_is_there_as_a_whole) {
  attend_context *ctx = open_context(NULL, 1, NULL);
  char folder[] = "/tmp/attend-plot-XXXXXX", path[64];
  attend_plot_series t = {.count = 3, .y = below};
  attend_plot_panel p = {.count = 1, .series = &t};
  attend_plot plot = {ATTEND_INIT(attend_plot), .count = 1, .panels = &p};
  CHECK(mkdtemp(folder) != NULL);
  snprintf(path, sizeof path, "%s/a.svg", folder);
  FILE *f = fopen(path, "wb");
  if (f) fputs("the old", f), fclose(f);
  struct rlimit before, small;
  getrlimit(RLIMIT_FSIZE, &before);
  void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
  small = before;
  small.rlim_cur = 100;
  setrlimit(RLIMIT_FSIZE, &small);
  CHECK_EQ(attend_plot_save(ctx, &plot, path), ATTEND_IO);
  setrlimit(RLIMIT_FSIZE, &before);
  signal(SIGXFSZ, handler);
  CHECK_SAYS(attend_message(ctx), path);
  CHECK(holds(path, "the old"));
  OK(ctx, attend_plot_save(ctx, &plot, path));
  CHECK(holds(path, "<svg xmlns="));
  unlink(path);
  CHECK(!rmdir(folder)); /* no draft is left in it */
  CHECK_EQ(attend_plot_save(ctx, &plot, path), ATTEND_IO);
  attend_context_free(ctx);
}

static size_t lines_through(const double *cells, int diverging) {
  attend_plot_panel one = {
      .kind = ATTEND_PLOT_HEAT, .rows = 40, .columns = 40, .cells = cells, .diverging = diverging};
  attend_plot plot = {ATTEND_INIT(attend_plot), .count = 1, .panels = &one};
  attend_context *ctx;
  char *text;
  size_t n = 0;
  CHECK(!attend_context_create(NULL, &ctx));
  CHECK(!attend_plot_svg(ctx, &plot, &text, NULL));
  for (const char *at = text; (at = strstr(at, "stroke-linecap:butt")); at++)
    for (const char *p = strstr(at, " d=\"") + 4; *p != '"'; p++) n += *p == 'M';
  attend_plot_free(ctx, text);
  attend_context_free(ctx);
  return n;
}

/* Rows of -1, +1 and 0, and one that is striped: only the first kind has lines. */
TEST(signs_without_colour) {
  double cells[1600];
  for (int i = 0; i < 1600; i++)
    cells[i] = i / 40 < 10 ? -1 : i / 40 < 20 ? 1 : i / 40 < 39 ? 0 : NAN;
  CHECK_EQ(lines_through(cells, 1), 10);
  CHECK_EQ(lines_through(cells, 0), 0);
}
