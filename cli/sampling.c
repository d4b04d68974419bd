/* Sampling options: sampling.h. */
#include "sampling.h"

#include <string.h>

void sampling_seed(struct argp_state *state, const char *arg, void *value, void *input) {
  sampling *d = value;
  (void)input;
  d->new_seed = !strcmp(arg, "random");
  if (!d->new_seed) d->seed = (uint64_t)options_number(state, "--seed", arg, 0, INT64_MAX);
}

void sampling_refuse(struct argp_state *state) {
  argp_error(state,
             "beam search does not sample: leave out --temp, --top-k, --top-p, "
             "--min-p and --seed");
}

void sampling_settle(const sampling *d, bool samples, float temperature,
                     attend_generate_options *how) {
  how->seed = d->seed;
  if (!samples) return;
  if (!(d->given & SAMPLING_TEMPERATURE)) how->temperature = temperature;
  if (d->new_seed) how->seed = options_new_seed();
}
