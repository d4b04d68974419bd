/* Sampling options, the same in every verb that samples. */
#ifndef CLI_SAMPLING_H
#define CLI_SAMPLING_H

#include "attend/generate.h"
#include "options.h"

/* Options that were given. */
enum { SAMPLING_TEMPERATURE = 1, SAMPLING_SEED = 2, SAMPLING_OTHER = 4 };

typedef struct {
  unsigned given;
  uint64_t seed;
  bool new_seed; /* --seed random */
} sampling;

void sampling_seed(struct argp_state *state, const char *arg, void *value, void *input);

/* Rows of a structure with the members attend_generate_options how and sampling draw. */
#define SAMPLING_ROWS(type, temperature_help, seed_help)                                          \
  {"temp", "T", temperature_help, REAL(type, how.temperature, 0, 1e6),                            \
   MARK(type, draw.given, SAMPLING_TEMPERATURE)},                                                 \
      {"top-k", "N", "Sample from the N most likely tokens", NUMBER(type, how.top_k, 1, 1 << 24), \
       MARK(type, draw.given, SAMPLING_OTHER)},                                                   \
      {"top-p", "P", "Nucleus sampling: keep the smallest set with total probability P",          \
       REAL(type, how.top_p, 0, 1), MARK(type, draw.given, SAMPLING_OTHER)},                      \
      {"min-p", "P", "Keep tokens with at least P times the highest probability",                 \
       REAL(type, how.min_p, 0, 1), MARK(type, draw.given, SAMPLING_OTHER)},                      \
  {                                                                                               \
    "seed", "N", seed_help, CALL(type, draw, sampling_seed),                                      \
        MARK(type, draw.given, SAMPLING_SEED), .letter = 's'                                      \
  }

/* Rejects them together with beam search. */
void sampling_refuse(struct argp_state *state);
/* Sets the seed and, for a verb that samples, its default temperature unless one was
 * given. */
void sampling_settle(const sampling *d, bool samples, float temperature,
                     attend_generate_options *how);

#endif
