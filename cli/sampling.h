/* Options that say how tokens are drawn, the same in every verb that draws.
 *
 * sampling.c; cmd_generate.c and summary_options.c put the rows among theirs.
 */
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

/* What was given by name. */
typedef struct {
  bool temperature, other, new_seed;
} sampling;

/* Rows of an argp_option list, in a group of it. */
#define SAMPLING_ROWS(temperature_text, seed_text, group)                   \
  {"temp", KEY_TEMP, "T", 0, temperature_text, group},                      \
      {"top-k", KEY_TOP_K, "N", 0, "Draw from the N best", group},          \
      {"top-p",                                                             \
       KEY_TOP_P,                                                           \
       "P",                                                                 \
       0,                                                                   \
       "Draw from the fewest that together have probability P",             \
       group},                                                              \
      {"min-p",                                                             \
       KEY_MIN_P,                                                           \
       "P",                                                                 \
       0,                                                                   \
       "Draw from those with at least P times the probability of the best", \
       group},                                                              \
  {                                                                         \
    "seed", KEY_DRAW_SEED, "N", 0, seed_text, group                         \
  }

/* Whether the key was one of those. */
bool sampling_parse(int key, const char *arg, struct argp_state *state,
                    sampling *d, attend_generate_options *how);
/* Refuses them, where beams are asked for. */
void sampling_refuse(struct argp_state *state);
/* A verb that draws: its temperature unless one was given, and its seed. */
void sampling_settle(const sampling *d, float temperature,
                     attend_generate_options *how);

#endif
