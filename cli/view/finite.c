/* Whether a run's numbers are numbers: of others there is nothing to show.
 *
 * Behind view_read.c, so that page, pictures, numbers and terminal have one sentence
 * instead of an empty picture.
 */
#include <math.h>

#include "view/core.h"

static bool row_is_finite(const attend_hooked *s, int b, int i) {
  const float *row = (const float *)s->view.data + b * s->view.stride[0] +
                     i * s->view.stride[2];
  for (int x = 0; x < s->shape[3]; x++)
    if (!isfinite(row[x * s->view.stride[3]])) return false;
  return true;
}

/* Every layer's output passes here; one that is not finite stays so. */
void run_check(view_run *run, const attend_hooked *s) {
  if (s->point != ATTEND_AT_RESIDUAL) return;
  for (int b = 0; b < s->shape[0] && !run->lost; b++) {
    int rows = s->lengths ? s->lengths[b] : s->shape[2];
    for (int i = 0; i < rows && !run->lost; i++)
      run->lost = !row_is_finite(s, b, i);
  }
}

bool run_is_finite(asking *a, const view_run *run) {
  if (!run->lost) return true;
  return ask_fail(a, 400,
                  "the model gave values that are not finite: the checkpoint, "
                  "or the form of attention, does not work here");
}
