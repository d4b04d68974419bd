/* Options shared by several verbs, and contexts made from them. */
#include "options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

long long options_number(struct argp_state *state, const char *name, const char *text,
                         long long low, long long high) {
  char *end;
  errno = 0;
  long long n = strtoll(text, &end, 10);
  if (errno || end == text || *end || n < low || n > high)
    argp_error(state, "%s takes a number from %lld to %lld, not \"%s\"", name, low, high, text);
  return n;
}

double options_real(struct argp_state *state, const char *name, const char *text, double low,
                    double high) {
  char *end;
  errno = 0;
  double x = strtod(text, &end);
  if (errno || end == text || *end || !(x >= low && x <= high))
    argp_error(state, "%s takes a number from %g to %g, not \"%s\"", name, low, high, text);
  return x;
}

uint64_t options_new_seed(void) {
  uint32_t seed = 0;
  if (getrandom(&seed, sizeof seed, 0) != (ssize_t)sizeof seed) seed = (uint32_t)getpid();
  complain("--seed %u writes this again", seed);
  return seed;
}

static error_t parse(int key, char *arg, struct argp_state *state) {
  options *o = state->input;
  switch (key) {
    case 't':
      o->threads = (int)options_number(state, "--threads", arg, 1, 4096);
      return 0;
    case 'i':
      o->isa = arg;
      return 0;
    case 'j':
      o->json = true;
      return 0;
    case 'r':
      o->repeat = (int)options_number(state, "--repeat", arg, 1, 1000000);
      return 0;
    case 'e':
      o->engine = arg;
      return 0;
    case 's':
      o->seed = (uint64_t)options_number(state, "--seed", arg, 0, INT64_MAX);
      return 0;
    default:
      return ARGP_ERR_UNKNOWN;
  }
}

static const struct argp_option json_list[] = {
    {"json", 'j', 0, 0, "Print JSON instead, for a program to read", 1}, {0}};
static const struct argp_option run_list[] = {
    {"threads", 't', "N", 0,
     "Use N threads (default: ATTEND_NUM_THREADS, OMP_NUM_THREADS, all cores)", 1},
    {"isa", 'i', "NAME", 0, "Use this instruction set (default: ATTEND_ISA, the best there is)", 1},
    {0}};
static const struct argp_option seed_list[] = {
    {"seed", 's', "N", 0, "Seed of the random numbers (default: 0)", 1}, {0}};
static const struct argp_option engine_list[] = {
    {"engine", 'e', "NAME", 0, "Use this engine (default: the plan chooses)", 1}, {0}};
static const struct argp_option repeat_list[] = {
    {"repeat", 'r', "N", 0,
     "Time N runs (default: of a problem about a second's worth, at least 5; "
     "of "
     "a model 3)",
     1},
    {0}};

const struct argp options_json = {.options = json_list, .parser = parse};
const struct argp options_run = {.options = run_list, .parser = parse};
const struct argp options_seed = {.options = seed_list, .parser = parse};
const struct argp options_engine = {.options = engine_list, .parser = parse};
const struct argp options_repeat = {.options = repeat_list, .parser = parse};

void options_share(struct argp_state *state, int count) {
  for (int i = 0; i < count; i++) state->child_inputs[i] = state->input;
}

attend_context *options_context(const options *o, const char *isa, int *code) {
  attend_context *ctx;
  attend_context_options chosen = {.isa = isa ? isa : o->isa, .threads = o->threads};
  attend_status status = attend_context_create(&chosen, &ctx);
  *code = EXIT_OK;
  if (!status) return ctx;
  *code = complain_status(ctx, status);
  attend_context_free(ctx);
  return NULL;
}

int options_isas(const options *o, bool all, const char *isas[MOST_ISAS]) {
  const char *named = o->isa ? o->isa : getenv("ATTEND_ISA");
  bool every = o->isa ? !strcmp(o->isa, "all") : all && (!named || !*named);
  int count = 0, runs;
  isas[0] = o->isa; /* NULL: what the environment or the machine says */
  if (!every) return 1;
  for (int i = 0; attend_isa_name(i, &runs) && count < MOST_ISAS; i++)
    if (runs) isas[count++] = attend_isa_name(i, &runs);
  return count;
}
