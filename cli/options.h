/* Options shared by several verbs, as argp children. */
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include <argp.h>

#include "cli.h"

typedef struct {
  int threads;     /* 0: the environment's, else all cores */
  const char *isa; /* NULL: ATTEND_ISA, else the best */
  bool json;
  int repeat; /* 0: the verb decides */
  uint64_t seed;
  const char *engine; /* NULL: the plan chooses */
} options;

/* Children for an argp whose input starts with `options`. */
extern const struct argp options_json, options_run, options_seed, options_repeat, options_engine;

/* Passes the input on to `count` children: call it at ARGP_KEY_INIT. */
void options_share(struct argp_state *state, int count);

/* Reads a number in [low, high] or ends in a usage error. */
long long options_number(struct argp_state *state, const char *name, const char *text,
                         long long low, long long high);

double options_real(struct argp_state *state, const char *name, const char *text, double low,
                    double high);
/* A new seed for `--seed random', which is printed. */
uint64_t options_new_seed(void);

/* A context with these options, on the given instruction set (NULL: theirs). NULL
 * after an error message; *code is then the exit code. */
attend_context *options_context(const options *o, const char *isa, int *code);

/* The instruction sets to test: with `all`, every one that runs here unless one was
 * named. Returns how many. */
enum { MOST_ISAS = 8 };
int options_isas(const options *o, bool all, const char *isas[MOST_ISAS]);

#endif
