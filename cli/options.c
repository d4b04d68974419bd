/* Options shared by several verbs, and contexts made from them. */
#include "options.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
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
  complain("--seed %u gives this output again", seed);
  return seed;
}

/* ---- tables ----------------------------------------------------------------------------- */

enum { MOST_ROWS = 160, FIRST_KEY = 1000 };

/* A row, and where the structure is that it stores into. */
typedef struct {
  const option_row *row;
  char *base;
} option_place;

typedef struct {
  const verb_options *verb;
  void *input;
  option_place place[MOST_ROWS]; /* key FIRST_KEY + i, or the row's letter */
  int count;
  struct argp_option list[MOST_ROWS + 1];
  char **words;
  int n_words;
} parsing;

/* The index of a word in "f32, bf16 or int8"; -1: none. */
static int find_choice(const char *choices, const char *word) {
  const size_t n = strlen(word);
  int index = 0;
  for (const char *at = choices; *at; index++) {
    size_t length = strcspn(at, ", ");
    if (n == length && !strncmp(at, word, n)) return index;
    at += length;
    if (*at == ',') at++;
    if (!strncmp(at, " or ", 4)) at += 3;
    if (*at == ' ') at++;
  }
  return -1;
}

static void list_add(text_list *list, const char *text) {
  if (list->replace) list->count = 0;
  list->replace = false;
  list->text = need_more(list->text, list->count, list->count + 1, sizeof *list->text);
  list->text[list->count++] = text;
}

static void store(struct argp_state *state, const option_row *row, char *base, char *arg) {
  parsing *p = state->input;
  void *at = base + row->at;
  char name[64];
  long long n = 0;
  double x = 0;
  int choice = 0;
  snprintf(name, sizeof name, "--%s", row->name);
  if (row->kind >= OPTION_INT && row->kind <= OPTION_SIZE)
    n = options_number(state, name, arg, row->low, row->high);
  if (row->kind == OPTION_FLOAT || row->kind == OPTION_DOUBLE)
    x = options_real(state, name, arg, row->min, row->max);
  if (row->choices && (choice = find_choice(row->choices, arg)) < 0)
    argp_error(state, "%s takes %s, not \"%s\"", name, row->choices, arg);
  switch (row->kind) {
    case OPTION_FLAG:
      *(bool *)at = true;
      break;
    case OPTION_TEXT:
    case OPTION_WORD:
      *(const char **)at = arg;
      break;
    case OPTION_LIST:
      list_add(at, arg);
      break;
    case OPTION_INT:
      *(int *)at = (int)n;
      break;
    case OPTION_INT64:
      *(int64_t *)at = n;
      break;
    case OPTION_SIZE:
      *(size_t *)at = (size_t)n;
      break;
    case OPTION_FLOAT:
      *(float *)at = (float)x;
      break;
    case OPTION_DOUBLE:
      *(double *)at = x;
      break;
    case OPTION_CHOICE:
      *(int *)at = choice;
      break;
    case OPTION_CALL:
      row->call(state, arg, at, p->input);
      break;
  }
  if (row->mark) *(unsigned *)(void *)(base + row->marks) |= row->mark;
}

static error_t parse_row(int key, char *arg, struct argp_state *state) {
  parsing *p = state->input;
  if (key == ARGP_KEY_ARGS) {
    p->words = state->argv + state->next;
    p->n_words = state->argc - state->next;
    if (!p->verb->finish) return ARGP_ERR_UNKNOWN;
    return 0;
  }
  if (key == ARGP_KEY_END && p->verb->finish)
    p->verb->finish(state, p->words, p->n_words, p->input);
  for (int i = 0; i < p->count; i++)
    if (p->list[i].key && p->list[i].key == key) {
      store(state, p->place[i].row, p->place[i].base, arg);
      return 0;
    }
  return ARGP_ERR_UNKNOWN;
}

/* argp's own form of the rows. A heading begins a group, and so do the parts behind the first. */
static void list_rows(parsing *p) {
  int group = 0;
  for (const option_part *part = p->verb->parts; part->rows; group += part++ == p->verb->parts)
    for (const option_row *row = part->rows; row->name || row->help; row++) {
      const int i = p->count++;
      assert(p->count <= MOST_ROWS);
      if (!row->name) group++;
      p->place[i] = (option_place){row, (char *)p->input + part->at};
      p->list[i] = (struct argp_option){
          .name = row->name,
          .key = !row->name    ? 0
                 : row->letter ? row->letter
                               : FIRST_KEY + i,
          .arg = row->arg,
          .flags = (row->hidden ? OPTION_HIDDEN : 0) | (row->optional ? OPTION_ARG_OPTIONAL : 0),
          .doc = row->help,
          .group = group};
    }
}

void options_read(const verb_options *v, int argc, char **argv, void *input) {
  parsing p = {.verb = v, .input = input};
  const struct argp argp = {
      .options = p.list, .parser = parse_row, .args_doc = v->arguments, .doc = v->about};
  list_rows(&p);
  argp_parse(&argp, argc, argv, 0, NULL, &p);
}

const option_row option_rows_json[] = {
    {"json", NULL, "Print JSON instead, for a program to read", FLAG(options, json), .letter = 'j'},
    {0}};
const option_row option_rows_run[] = {
    {"threads", "N", "Use N threads (default: ATTEND_NUM_THREADS, OMP_NUM_THREADS, all cores)",
     NUMBER(options, threads, 1, 4096), .letter = 't'},
    {"isa", "NAME", "Use this instruction set (default: ATTEND_ISA, the best there is)",
     TEXT(options, isa), .letter = 'i'},
    {0}};
const option_row option_rows_seed[] = {{"seed", "N", "Seed of the random numbers (default: 0)",
                                        NUMBER(options, seed, 0, INT64_MAX), .letter = 's'},
                                       {0}};
const option_row option_rows_engine[] = {
    {"engine", "NAME", "Use this engine (default: the plan chooses)", TEXT(options, engine),
     .letter = 'e'},
    {0}};
const option_row option_rows_repeat[] = {
    {"repeat", "N",
     "Time N runs (default: of a problem about a second's worth, at least 5; of a model 3)",
     NUMBER(options, repeat, 1, 1000000), .letter = 'r'},
    {0}};

/* ---- sampling -------------------------------------------------------------------------- */

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

/* ---- contexts ---------------------------------------------------------------------------- */

attend_context *options_context(const options *o, const char *isa, int *code) {
  attend_context *ctx;
  attend_context_options chosen = {ATTEND_INIT(attend_context_options), .isa = isa ? isa : o->isa,
                                   .threads = o->threads};
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
  int count = 0;
  bool runs;
  isas[0] = o->isa; /* NULL: what the environment or the machine says */
  if (!every) return 1;
  for (int i = 0; attend_isa_name(i, &runs) && count < MOST_ISAS; i++)
    if (runs) isas[count++] = attend_isa_name(i, &runs);
  return count;
}
