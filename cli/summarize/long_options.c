/* The options of summarizing long documents. */
#include "summarize/long_options.h"

#include <string.h>

#include "options.h"

enum { KEY_LONG = 1750, KEY_TREE, KEY_WORK, KEY_PARTS, KEY_LEVELS, KEY_STATS };

static const struct argp_option list[] = {
    {"long", KEY_LONG, "MODE", 0,
     "Documents of any length. chunks: summaries of parts that the encoder "
     "takes, then of these summaries, until one is left. linear: the encoder "
     "reads all of it with a linear form of attention (--attention; default: "
     "the model's, else favor(m=256))",
     1},
    {"tree", KEY_TREE, 0, 0,
     "With chunks: the summaries of all parts, and the words that each covers",
     1},
    {"parts", KEY_PARTS, "N", 0,
     "With chunks: N summaries or fewer are enough (default: 1)", 1},
    {"levels", KEY_LEVELS, "N", 0,
     "With chunks: at most N times, 1 being the parts of the document", 1},
    {"work", KEY_WORK, "DIR", 0,
     "Keep in this folder what is done, and go on from there", 1},
    {"stats", KEY_STATS, 0, 0,
     "Say on the standard error what it took: time, memory", 1},
    {0}};

static void read_mode(struct argp_state *state, const char *mode,
                      long_options *o) {
  o->chunks = !strcmp(mode, "chunks");
  o->linear = !strcmp(mode, "linear");
  if (!o->chunks && !o->linear)
    argp_error(state, "--long is chunks or linear, not \"%s\"", mode);
}

static error_t check(struct argp_state *state, const long_options *o) {
  if (!o->chunks && (o->tree || o->parts || o->levels))
    argp_error(state,
               "--tree, --parts and --levels are of summaries of parts: add "
               "--long chunks");
  if (!o->chunks && !o->linear && (o->work || o->stats))
    argp_error(state,
               "--work and --stats go with --long chunks or --long linear");
  return 0;
}

static error_t parse(int key, char *arg, struct argp_state *state) {
  long_options *o = state->input;
  switch (key) {
    case KEY_LONG:
      read_mode(state, arg, o);
      return 0;
    case KEY_TREE:
      o->tree = true;
      return 0;
    case KEY_WORK:
      o->work = arg;
      return 0;
    case KEY_PARTS:
      o->parts = (int)options_number(state, "--parts", arg, 1, 1 << 20);
      return 0;
    case KEY_LEVELS:
      o->levels = (int)options_number(state, "--levels", arg, 1, 1 << 20);
      return 0;
    case KEY_STATS:
      o->stats = true;
      return 0;
    case ARGP_KEY_END:
      return check(state, o);
    default:
      return ARGP_ERR_UNKNOWN;
  }
}

const struct argp options_long = {.options = list, .parser = parse};
