/* Options of generating summaries: a child of every argp whose verb does. */
#include <string.h>

#include "summarize/summarize.h"

enum {
  KEY_BEAMS = 1750,
  KEY_GROUPS,
  KEY_DIVERSITY,
  KEY_PENALTY,
  KEY_EARLY,
  KEY_SAMPLES,
  KEY_NO_REPEAT,
  KEY_LENGTH,
  KEY_MIN,
  KEY_CONTEXT,
  KEY_BATCH
};

enum { MOST_COUNT = 1 << 20, MOST_BEAMS = 1024 };
#define TEMPERATURE 0.6f /* samples differ, and few are noise */
#define DIVERSITY 1.0f

static const struct argp_option list[] = {
    {"length", KEY_LENGTH, "N", 0, "N words at most", 1},
    {"min", KEY_MIN, "N", 0, "N words at least", 1},
    {"tokens", 'n', "N", 0, "N tokens at most (default: the model's setting, else 128)", 1},
    {"no-repeat", KEY_NO_REPEAT, "N", 0, "Generate no n-gram of N tokens twice", 1},
    {"beams", KEY_BEAMS, "N", 0,
     "Beam search with N beams; 1 is greedy (default: the model's setting, "
     "else 4)",
     1},
    {"length-penalty", KEY_PENALTY, "X", 0,
     "Compare beams by log probability / length^X (default: the model's "
     "setting, else 1)",
     1},
    {"early-stop", KEY_EARLY, 0, 0, "Stop when N beams have ended", 1},
    {0, 0, 0, 0, "Several summaries of each document:", 2},
    {"samples", KEY_SAMPLES, "N", 0,
     "N different ones, sampled, best first; with --beams: the N best", 2},
    {"groups", KEY_GROUPS, "G", 0,
     "Diverse beam search: divide the beams into G groups, and write the best "
     "of each",
     2},
    {"diversity", KEY_DIVERSITY, "X", 0,
     "Penalty, in log probability, of a token that an earlier group chose in "
     "the same step (default: 1)",
     2},
    SAMPLING_ROWS("Sample with temperature T (default: 0.6 if --samples or another "
                  "option of sampling is given)",
                  "Seed of sampling: the same seed gives the same summaries "
                  "(default: 0); `random' takes a new one and prints it",
                  2),
    {0, 0, 0, 0, "What the model reads:", 3},
    {"context", KEY_CONTEXT, "N", 0,
     "Read N tokens of a document at most (default: the model's context)", 3},
    {"batch", KEY_BATCH, "N", 0, "Sequences, beams included, in a batch (default: 32)", 3},
    {0}};

static int read_count(struct argp_state *state, const char *name, const char *text, int low) {
  return (int)options_number(state, name, text, low, MOST_COUNT);
}

/* ---- length and search --------------------------------------- */

static bool parse_length(int key, char *arg, struct argp_state *state, summary_options *o) {
  switch (key) {
    case KEY_LENGTH:
      o->max_words = read_count(state, "--length", arg, 1);
      return true;
    case KEY_MIN:
      o->min_words = read_count(state, "--min", arg, 1);
      return true;
    case 'n':
      o->how.max_new = read_count(state, "--tokens", arg, 1);
      o->given |= ATTEND_SUMMARY_MAX_NEW;
      return true;
    case KEY_NO_REPEAT:
      o->how.no_repeat = read_count(state, "--no-repeat", arg, 0);
      o->given |= ATTEND_SUMMARY_NO_REPEAT;
      return true;
    case KEY_CONTEXT:
      o->how.context = read_count(state, "--context", arg, 2);
      return true;
    case KEY_SAMPLES:
      o->how.samples = read_count(state, "--samples", arg, 1);
      o->given |= SUMMARY_SAMPLES;
      return true;
    case KEY_BATCH:
      o->how.batch = read_count(state, "--batch", arg, 1);
      return true;
    default:
      return false;
  }
}

static bool parse_beams(int key, char *arg, struct argp_state *state, summary_options *o) {
  switch (key) {
    case KEY_BEAMS:
      o->how.beams = (int)options_number(state, "--beams", arg, 1, MOST_BEAMS);
      o->given |= ATTEND_SUMMARY_BEAMS;
      return true;
    case KEY_GROUPS:
      o->how.groups = (int)options_number(state, "--groups", arg, 1, MOST_BEAMS);
      return true;
    case KEY_DIVERSITY:
      o->how.diversity = (float)options_real(state, "--diversity", arg, 0, 1e6);
      o->given |= SUMMARY_DIVERSITY;
      return true;
    case KEY_PENALTY:
      o->how.length_penalty = (float)options_real(state, "--length-penalty", arg, -10, 10);
      o->given |= ATTEND_SUMMARY_LENGTH_PENALTY;
      return true;
    case KEY_EARLY:
      o->how.early_stop = true;
      o->given |= ATTEND_SUMMARY_EARLY_STOP;
      return true;
    default:
      return false;
  }
}

/* ---- combinations ------------------------------------------------------------ */

static void settle_draws(struct argp_state *state, summary_options *o) {
  attend_generate_options *how = &o->how;
  if (o->given & ATTEND_SUMMARY_BEAMS && how->beams > 1) sampling_refuse(state);
  sampling_settle(&o->draw, TEMPERATURE, how);
  if (how->samples > 1 && how->temperature == 0)
    argp_error(state,
               "--temp 0 is greedy, so %d samples would be the same: raise it, "
               "or take the best of --beams %d",
               how->samples, how->samples);
  how->beams = 1;
  o->given |= ATTEND_SUMMARY_BEAMS;
}

static void settle_groups(struct argp_state *state, summary_options *o) {
  attend_generate_options *how = &o->how;
  int least = how->samples > how->groups ? how->samples : how->groups;
  if (!(o->given & ATTEND_SUMMARY_BEAMS))
    how->beams = (least + how->groups - 1) / how->groups * how->groups;
  o->given |= ATTEND_SUMMARY_BEAMS;
  if (how->beams % how->groups)
    argp_error(state, "--beams %d cannot be divided into %d groups: take %d", how->beams,
               how->groups, (how->beams / how->groups + 1) * how->groups);
  if (!(o->given & SUMMARY_DIVERSITY)) how->diversity = DIVERSITY;
  if (!(o->given & SUMMARY_SAMPLES)) how->samples = how->groups;
}

static void settle(struct argp_state *state, summary_options *o) {
  attend_generate_options *how = &o->how;
  bool searches = how->groups > 1 || (o->given & ATTEND_SUMMARY_BEAMS && how->beams > 1);
  bool draws = o->draw.other || how->temperature > 0 || (how->samples > 1 && !searches);
  if (o->max_words && o->min_words > o->max_words)
    argp_error(state, "--min %d is more than --length %d", o->min_words, o->max_words);
  if (o->given & SUMMARY_DIVERSITY && how->groups < 2)
    argp_error(state, "--diversity needs --groups");
  if (draws && how->groups > 1)
    argp_error(state, "--groups are of beam search: leave out the options of sampling");
  if (draws) settle_draws(state, o);
  if (how->groups > 1) settle_groups(state, o);
  if (how->beams > 1 && how->samples > how->beams)
    argp_error(state, "--samples %d is more than --beams %d", how->samples, how->beams);
}

static error_t parse(int key, char *arg, struct argp_state *state) {
  summary_options *o = state->input;
  attend_generate_options *how = &o->how;
  if (parse_length(key, arg, state, o) || parse_beams(key, arg, state, o) ||
      sampling_parse(key, arg, state, &o->draw, how))
    return 0;
  if (key != ARGP_KEY_END) return ARGP_ERR_UNKNOWN;
  settle(state, o);
  return 0;
}

const struct argp options_summary = {.options = list, .parser = parse};
