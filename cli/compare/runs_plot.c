/* Trainings as lines: loss by steps, and by the seconds that they took.
 *
 * Which is the better recipe for so many steps and which for so much time are two
 * questions: two panels.
 */
#include <stdlib.h>

#include "attend/plot.h"
#include "compare/runs.h"

/* What a model says before it has learnt anything would press the rest together. */
static size_t first_drawn(const run_curve *c) {
  return c->count > 2 && c->step[0] == 0;
}

static void draw(const run_facts *runs, int count, bool by_time,
                 attend_plot_series *series) {
  for (int i = 0; i < count; i++) {
    const run_curve *c = &runs[i].curve;
    size_t from = first_drawn(c);
    bool band = runs[i].seeds > 1;
    series[i] = (attend_plot_series){
        .name = runs[i].name,
        .count = c->count - from,
        .x = (by_time ? c->seconds : c->step) + from,
        .y = c->loss + from,
        .low = band ? c->low + from : NULL,
        .high = band ? c->high + from : NULL,
        .points = runs[i].measured && c->count - from <= 12,
        .dashed = !runs[i].measured};
  }
}

/* Whether any log says how long its steps took. */
static bool is_timed(const run_facts *runs, int count) {
  for (int i = 0; i < count; i++)
    for (size_t k = 0; k < runs[i].curve.count; k++)
      if (runs[i].curve.seconds[k] > 0) return true;
  return false;
}

attend_status runs_plot(attend_context *ctx, const run_facts *runs, int count,
                        const char *path) {
  attend_plot_series *steps = need((size_t)count, sizeof *steps);
  attend_plot_series *time = need((size_t)count, sizeof *time);
  bool bands = false, dashes = false;
  for (int i = 0; i < count; i++) {
    bands = bands || runs[i].seeds > 1;
    dashes = dashes || !runs[i].measured;
  }
  draw(runs, count, false, steps);
  draw(runs, count, true, time);
  attend_plot_panel panels[] = {{.title = "Validation loss by steps",
                                 .x = {.label = "step"},
                                 .y = {.label = "nats per token", .log = 1},
                                 .count = (size_t)count,
                                 .series = steps},
                                {.title = "By time",
                                 .x = {.label = "seconds of learning"},
                                 .y = {.label = "nats per token", .log = 1},
                                 .count = (size_t)count,
                                 .series = time}};
  attend_plot plot = {
      .count = is_timed(runs, count) ? 2 : 1,
      .panels = panels,
      .width = 840,
      .height = 320,
      .notes = bands && dashes
                   ? "Lines: means of seeds, in bands from the least "
                     "to the most; dashed: training loss."
               : bands  ? "Means of seeds, in bands from the least to the most."
               : dashes ? "Dashed: training loss, where nothing was held back."
                        : NULL};
  attend_status status = attend_plot_save(ctx, &plot, path);
  free(steps);
  free(time);
  return status;
}
