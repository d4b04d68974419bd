/* attend demo: worked examples, drawn in the terminal. Not listed; `make demo` ends
 * with it. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "options.h"
#include "table.h"

enum { LENGTH = 24, WIDTH = 16 }; /* of the drawn examples */

static const option_part parts[] = {{option_rows_run, 0}, {option_rows_seed, 0}, {0}};
static const verb_options verb_demo = {parts, NULL, "Draws worked examples of attention.", NULL};

/* ---- argmax -------------------------------------------------------------------- */

static void print_vector(const float *x, int n) {
  for (int i = 0; i < n; i++) printf("%s%g", i ? ", " : "[", (double)x[i]);
  fputs("]", stdout);
}

static attend_status show_argmax(attend_context *ctx) {
  static const float k[4][3] = {{1, 2, 0}, {0, 3, 4}, {5, 0, 0}, {0, 0, 1}};
  static const float v[4][3] = {{2, 0, 1}, {1, 4, 3}, {0, -1, 4}, {1, 0, -1}};
  static const float q[3] = {1, 1, 2};
  float o[3], best;
  attend_plan *plan;
  attend_desc d = {ATTEND_INIT(attend_desc),
                   .form.kind = ATTEND_ARGMAX,
                   .q_len = 1,
                   .kv_len = 4,
                   .dim = 3,
                   .scale = 1};
  attend_status status = attend_plan_create(ctx, &d, &plan);
  if (status) return status;
  status = attend_forward(plan, attend_bhtd_input(q), attend_bhtd_input(k), attend_bhtd_input(v),
                          attend_bhtd(o), &best);
  attend_plan_free(plan);
  if (status) return status;
  puts("Argmax attention: the value of the key that fits the query best\n");
  fputs("  query ", stdout);
  print_vector(q, 3);
  puts("");
  for (int j = 0; j < 4; j++) {
    float score = q[0] * k[j][0] + q[1] * k[j][1] + q[2] * k[j][2];
    fputs("  key   ", stdout);
    print_vector(k[j], 3);
    printf("  score %2g  value ", (double)score);
    print_vector(v[j], 3);
    puts(score == best ? "  <- the best" : "");
  }
  fputs("  out   ", stdout);
  print_vector(o, 3);
  puts("\n");
  return ATTEND_OK;
}

/* ---- heat maps ------------------------------------------------------------------- */

/* 0 to 23 of the terminal's grey ramp, darkest first. */
static int grey(float weight, float max) {
  int step = (int)lroundf(sqrtf(weight / max) * 23);
  return 232 + (step < 0 ? 0 : step > 23 ? 23 : step);
}

/* Two queries a line: an upper half block has a colour above and one below. */
static void draw_colours(const float *w, int n, float max) {
  for (int i = 0; i < n; i += 2) {
    printf("  %4d ", i);
    for (int j = 0; j < n; j++) {
      int upper = grey(w[i * n + j], max);
      int lower = i + 1 < n ? grey(w[(i + 1) * n + j], max) : 232;
      printf("\033[38;5;%d;48;5;%dm▀▀", upper, lower);
    }
    puts("\033[0m");
  }
}

static void draw_shades(const float *w, int n, float max) {
  static const char *const shades[] = {"  ", "░░", "▒▒", "▓▓", "██"};
  for (int i = 0; i < n; i++) {
    printf("  %4d ", i);
    for (int j = 0; j < n; j++) {
      int step = (int)(sqrtf(w[i * n + j] / max) * 4.999f);
      fputs(shades[step < 0 ? 0 : step > 4 ? 4 : step], stdout);
    }
    puts("");
  }
}

static void draw(const char *title, const float *w, int n) {
  float max = 0;
  double sum = 0;
  for (int x = 0; x < n * n; x++)
    if (w[x] > max) max = w[x];
  for (int j = 0; j < n; j++) sum += (double)w[j];
  printf("%s\n\n  query  key 0 %*s %d\n", title, 2 * n - 10, "", n - 1);
  if (is_colourful(stdout))
    draw_colours(w, n, max);
  else
    draw_shades(w, n, max);
  printf(
      "  each row, over the keys, sums to 1 (row 0: %.6f); largest weight "
      "%.2f\n\n",
      sum, (double)max);
}

static attend_status weigh(attend_context *ctx, const float *q, const float *k, float *weights) {
  float o[LENGTH * WIDTH], lse[LENGTH];
  int32_t rows[LENGTH];
  attend_plan *plan;
  attend_desc d = {ATTEND_INIT(attend_desc), .q_len = LENGTH, .kv_len = LENGTH, .dim = WIDTH};
  attend_status status = attend_plan_create(ctx, &d, &plan);
  if (status) return status;
  for (int i = 0; i < LENGTH; i++) rows[i] = i;
  attend_observation look = {ATTEND_INIT(attend_observation), .rows = rows, .n_rows = LENGTH,
                             .weights = weights};
  status = attend_forward(plan, attend_bhtd_input(q), attend_bhtd_input(k), attend_bhtd_input(k),
                          attend_bhtd(o), lse);
  if (!status)
    status = attend_observe(plan, attend_bhtd_input(q), attend_bhtd_input(k), lse, &look);
  attend_plan_free(plan);
  return status;
}

static attend_status show_maps(attend_context *ctx, uint64_t seed) {
  float q[LENGTH * WIDTH], k[LENGTH * WIDTH], w[LENGTH * LENGTH];
  attend_random_normal((attend_random){seed, 1}, 0, LENGTH * WIDTH, q);
  attend_random_normal((attend_random){seed, 2}, 0, LENGTH * WIDTH, k);
  attend_status status = weigh(ctx, q, k, w);
  if (status) return status;
  draw("Softmax attention, random queries and keys: no pattern", w, LENGTH);
  status = weigh(ctx, q, q, w);
  if (status) return status;
  draw("Softmax attention, queries equal to keys: each finds itself", w, LENGTH);
  return ATTEND_OK;
}

int cmd_demo(int argc, char **argv) {
  options o = {0};
  int code;
  options_read(&verb_demo, argc, argv, &o);
  attend_context *ctx = options_context(&o, NULL, &code);
  if (!ctx) return code;
  attend_status status = show_argmax(ctx);
  if (!status) status = show_maps(ctx, o.seed);
  code = status ? complain_status(ctx, status) : check_written(stdout, "the demonstration");
  attend_context_free(ctx);
  return code;
}
