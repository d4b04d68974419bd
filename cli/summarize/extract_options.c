/* Options of attend summarize --extract. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "summarize/extract.h"

enum {
  KEY_EXTRACT = 1800,
  KEY_EMBED,
  KEY_TAU,
  KEY_JUMP,
  KEY_LEAD,
  KEY_ALIKE,
  KEY_RANKS,
  KEY_BARE
};

static const struct argp_option list[] = {
    {"extract", KEY_EXTRACT, "N|P%", OPTION_ARG_OPTIONAL,
     "Take N sentences of the text, or P percent of them, that the others "
     "attend to most (default: 3)",
     0},
    {"embed", KEY_EMBED, "MODEL", 0,
     "Compare sentences by this model's vectors (default: a MiniLM that was "
     "pulled, else \"words\", those that they share)",
     0},
    {"tau", KEY_TAU, "T", 0,
     "Weights are exp(cosine / T): small, near sentences alone count (default: "
     "0.5)",
     0},
    {"jump", KEY_JUMP, "P", 0,
     "Let attention jump anywhere with probability P, as PageRank does "
     "(default: 0)",
     0},
    {"lead", KEY_LEAD, "W", 0,
     "Weigh sentences by exp(-W place), place going from 0 to 1 through the "
     "text (default: 0)",
     0},
    {"alike", KEY_ALIKE, "C", 0,
     "Pass over sentences whose cosine with a chosen one is above C (default: "
     "0.8; 1: none)",
     0},
    {"ranks", KEY_RANKS, 0, 0, "Print all sentences with ranks, as a table", 0},
    {"no-ranks", KEY_BARE, 0, 0, "Print the chosen sentences alone", 0},
    {0}};

extract_options extract_defaults(void) {
  return (extract_options){.count = 3, .tau = 0.5, .alike = 0.8};
}

/* "3" or "10%"; false: neither. */
static bool read_amount(const char *text, extract_options *o) {
  char *end;
  if (*text < '0' || *text > '9') return false;
  double amount = strtod(text, &end);
  bool share = *end == '%' && !end[1];
  if (!share && *end) return false;
  if (!(amount > 0) || amount > (share ? 100 : 1e6)) return false;
  if (!share && amount != floor(amount)) return false;
  o->count = share ? 0 : (int)amount;
  o->share = share ? amount / 100 : 0;
  return true;
}

static bool is_amount(const char *text) {
  return *text && !text[strspn(text, "0123456789.%")] && *text != '.';
}

/* "--extract 3" as well as "--extract=3", and "--extract FILE". */
static void take_amount(struct argp_state *state, const char *arg,
                        extract_options *o) {
  o->asked = true;
  if (!arg && state->next < state->argc && is_amount(state->argv[state->next]))
    arg = state->argv[state->next++];
  if (arg && !read_amount(arg, o))
    argp_error(state,
               "--extract takes a number of sentences, such as 3, or a share, "
               "such as 10%%, not \"%s\"",
               arg);
}

static void check(struct argp_state *state, const extract_options *o) {
  extract_options plain = extract_defaults();
  if (!o->asked && (o->embed || o->ranks || o->bare || o->tau != plain.tau ||
                    o->jump != plain.jump || o->lead != plain.lead ||
                    o->alike != plain.alike))
    argp_error(state,
               "--embed, --tau, --jump, --lead, --alike, --ranks and "
               "--no-ranks go with --extract");
  if (o->ranks && o->bare)
    argp_error(state, "choose one of --ranks and --no-ranks");
}

static error_t parse(int key, char *arg, struct argp_state *state) {
  extract_options *o = state->input;
  switch (key) {
    case KEY_EXTRACT:
      take_amount(state, arg, o);
      return 0;
    case KEY_EMBED:
      o->embed = arg;
      return 0;
    case KEY_TAU:
      o->tau = options_real(state, "--tau", arg, 0.01, 1e6);
      return 0;
    case KEY_JUMP:
      o->jump = options_real(state, "--jump", arg, 0, 0.99);
      return 0;
    case KEY_LEAD:
      o->lead = options_real(state, "--lead", arg, 0, 1e6);
      return 0;
    case KEY_ALIKE:
      o->alike = options_real(state, "--alike", arg, -1, 1);
      return 0;
    case KEY_RANKS:
      o->ranks = true;
      return 0;
    case KEY_BARE:
      o->bare = true;
      return 0;
    case ARGP_KEY_END:
      check(state, o);
      return 0;
    default:
      return ARGP_ERR_UNKNOWN;
  }
}

const struct argp options_extract = {.options = list, .parser = parse};
