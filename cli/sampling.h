/* Sampling options, the same in every verb that samples. */
#ifndef CLI_SAMPLING_H
#define CLI_SAMPLING_H

#include "attend/generate.h"
#include "options.h"

enum {
  KEY_TEMP = 1380,
  KEY_TOP_K,
  KEY_TOP_P,
  KEY_MIN_P,
  KEY_DRAW_SEED = 's',
};

/* Which were given. */
typedef struct {
  bool temperature, other, new_seed;
} sampling;

/* Rows of an argp_option list, in the given group. */
#define SAMPLING_ROWS(temperature_text, seed_text, group)                                       \
  {"temp", KEY_TEMP, "T", 0, temperature_text, group},                                          \
      {"top-k", KEY_TOP_K, "N", 0, "Sample from the N most likely tokens", group},              \
      {"top-p",                                                                                 \
       KEY_TOP_P,                                                                               \
       "P",                                                                                     \
       0,                                                                                       \
       "Nucleus sampling: keep the smallest set with total probability P",                      \
       group},                                                                                  \
      {"min-p", KEY_MIN_P, "P", 0, "Keep tokens with at least P times the highest probability", \
       group},                                                                                  \
  {                                                                                             \
    "seed", KEY_DRAW_SEED, "N", 0, seed_text, group                                             \
  }

/* Whether the key is one of these. */
bool sampling_parse(int key, const char *arg, struct argp_state *state, sampling *d,
                    attend_generate_options *how);
/* Rejects them together with beam search. */
void sampling_refuse(struct argp_state *state);
/* For a verb that samples: its default temperature unless one was given, and the
 * seed. */
void sampling_settle(const sampling *d, float temperature, attend_generate_options *how);

#endif
