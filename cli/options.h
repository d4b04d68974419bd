/* Options shared by several verbs, as argp children. */
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include <argp.h>
#include <stddef.h>

#include "attend/generate.h"
#include "cli.h"

/* ---- option tables --------------------------------------------------------------------
 *
 * A verb lists its options, one row each, and reads them with options_read:
 *
 *   static const option_row own[] = {
 *       {"top", "K", "Print the K most probable (default: 5)", NUMBER(run, fill.top, 1, 1000)},
 *       {"pair", "TEXT", "A second text", TEXT(run, pair)},
 *       {0}};
 *   static const option_part parts[] = {
 *       {own, 0}, {option_rows_json, offsetof(run, common)}, {0}};
 *   static const verb_options verb = {parts, "MODEL [TEXT...]", "What it does.", take_words};
 *   ...
 *   options_read(&verb, argc, argv, &o);
 *
 * A row says where the value is stored in the structure that its part begins at, and which
 * values are accepted; a row with help alone is a heading. */
typedef enum {
  OPTION_FLAG, /* bool, set to true */
  OPTION_TEXT,
  OPTION_LIST, /* text_list; may be repeated */
  OPTION_INT,  /* integers, from low to high */
  OPTION_INT64,
  OPTION_SIZE,
  OPTION_FLOAT, /* real numbers, from least to most */
  OPTION_DOUBLE,
  OPTION_CHOICE, /* int or enum: the index in choices, "cosine, linear or constant" */
  OPTION_WORD,   /* the text, one of choices */
  OPTION_CALL    /* `call` reads it */
} option_kind;

typedef struct {
  const char **text; /* to be freed; the texts are those of argv */
  size_t count;
  bool replace; /* the next one begins the list anew */
} text_list;

typedef struct {
  const char *name; /* NULL: a heading */
  const char *arg;  /* NULL: takes none */
  const char *help;
  option_kind kind;
  size_t at; /* offset of the value */
  long long low, high;
  double min, max;
  const char *choices;
  /* value: the address at `at`; input: the whole structure of the verb. */
  void (*call)(struct argp_state *state, const char *arg, void *value, void *input);
  size_t marks;  /* offset of an unsigned that gets the bits of `mark` */
  unsigned mark; /* 0: none */
  char letter;
  bool hidden, optional; /* optional: the argument; `call` gets NULL without it */
} option_row;

/* A 0 of the command line, where the library's 0 means default. */
static inline float zero_or(float x) { return x == 0 ? ATTEND_ZERO : x; }

#define FLAG(type, member) .kind = OPTION_FLAG, .at = offsetof(type, member)
#define TEXT(type, member) .kind = OPTION_TEXT, .at = offsetof(type, member)
#define LIST(type, member) .kind = OPTION_LIST, .at = offsetof(type, member)
#define NUMBER(type, member, from, to)       \
  .kind = _Generic(((type *)0)->member, int  \
                   : OPTION_INT, int64_t     \
                   : OPTION_INT64, long long \
                   : OPTION_INT64, size_t    \
                   : OPTION_SIZE),           \
  .at = offsetof(type, member), .low = (from), .high = (to)
#define REAL(type, member, from, to)          \
  .kind = _Generic(((type *)0)->member, float \
                   : OPTION_FLOAT, double     \
                   : OPTION_DOUBLE),          \
  .at = offsetof(type, member), .min = (from), .max = (to)
#define CHOICE(type, member, words) \
  .kind = OPTION_CHOICE, .at = offsetof(type, member), .choices = (words)
#define WORD(type, member, words) \
  .kind = OPTION_WORD, .at = offsetof(type, member), .choices = (words)
#define CALL(type, member, function) \
  .kind = OPTION_CALL, .at = offsetof(type, member), .call = (function)
#define MARK(type, member, bits) .marks = offsetof(type, member), .mark = (bits)

/* Rows for a part of the verb's structure, which begins `at` bytes into it. */
typedef struct {
  const option_row *rows; /* the last has no name and no help */
  size_t at;
} option_part;

typedef struct {
  const option_part *parts;
  const char *arguments; /* "MODEL [TEXT...]" */
  const char *about;     /* before the options and, behind \v, after them */
  /* At the end: the words that are no options, and what must be checked; may be NULL,
   * if the verb takes none. Reports with argp_error. */
  void (*finish)(struct argp_state *state, char **words, int count, void *input);
} verb_options;

/* Exits after --help (-h) and after an error; an option that is unknown is refused with the one
 * of the nearest name. */
void options_read(const verb_options *v, int argc, char **argv, void *input);

typedef struct {
  int threads;        /* 0: the environment's, else all cores */
  const char *isa;    /* NULL: ATTEND_ISA, else the best */
  const char *device; /* NULL: ATTEND_DEVICE, else the CPU */
  bool json;
  int repeat; /* 0: the verb decides */
  uint64_t seed;
  const char *engine; /* NULL: the plan chooses */
} options;

/* Rows that store into `options`. */
extern const option_row option_rows_json[], option_rows_run[], option_rows_seed[],
    option_rows_repeat[], option_rows_engine[];

/* The name that was most likely meant; NULL: none is near. */
const char *options_nearest(const char *word, const char *const *names, size_t count);

/* Reads a number in [low, high] or ends in a usage error. */
long long options_number(struct argp_state *state, const char *name, const char *text,
                         long long low, long long high);

double options_real(struct argp_state *state, const char *name, const char *text, double low,
                    double high);
/* A new seed for `--seed random', which is printed. */
uint64_t options_new_seed(void);

/* A context for reading and writing files: on the CPU, whatever device computes. Its failure is
 * printed by its user. */
attend_status options_reader(attend_context **ctx);
/* A context with these options, on the given instruction set (NULL: theirs). NULL
 * after an error message; *code is then the exit code. */
attend_context *options_context(const options *o, const char *isa, int *code);

/* What an engine computes on: the instruction set, or the device's name, as "NVIDIA H200". */
const char *options_computes(const attend_context *ctx, const char *engine);

/* The instruction sets to test: with `all`, every one that runs here unless one was
 * named. Returns how many. */
enum { MOST_ISAS = 8 };
int options_isas(const options *o, bool all, const char *isas[MOST_ISAS]);

/* ---- sampling, the same in every verb that samples ------------------------------------- */

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
