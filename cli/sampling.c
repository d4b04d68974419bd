/* Sampling options: sampling.h. */
#include "sampling.h"

#include <string.h>

enum { MOST_KEPT = 1 << 24 };

static void read_seed(struct argp_state *state, const char *text, sampling *d,
                      attend_generate_options *how) {
  d->new_seed = !strcmp(text, "random");
  if (!d->new_seed) how->seed = (uint64_t)options_number(state, "--seed", text, 0, INT64_MAX);
}

bool sampling_parse(int key, const char *arg, struct argp_state *state, sampling *d,
                    attend_generate_options *how) {
  switch (key) {
    case KEY_TEMP:
      how->temperature = (float)options_real(state, "--temp", arg, 0, 1e6);
      d->temperature = true;
      return true;
    case KEY_TOP_K:
      how->top_k = (int)options_number(state, "--top-k", arg, 1, MOST_KEPT);
      break;
    case KEY_TOP_P:
      how->top_p = (float)options_real(state, "--top-p", arg, 0, 1);
      break;
    case KEY_MIN_P:
      how->min_p = (float)options_real(state, "--min-p", arg, 0, 1);
      break;
    case KEY_DRAW_SEED:
      read_seed(state, arg, d, how);
      break;
    default:
      return false;
  }
  d->other = true;
  return true;
}

void sampling_refuse(struct argp_state *state) {
  argp_error(state,
             "beam search does not sample: leave out --temp, --top-k, --top-p, "
             "--min-p and --seed");
}

void sampling_settle(const sampling *d, float temperature, attend_generate_options *how) {
  if (!d->temperature) how->temperature = temperature;
  if (d->new_seed) how->seed = options_new_seed();
}
