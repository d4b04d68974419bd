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

/* ---- unknown options -------------------------------------------------------------------- */

static size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

/* Edits that make b of a: a letter more, less or another, or two neighbours swapped. */
static size_t edit_distance(const char *a, const char *b) {
  enum { LONGEST = 32 };
  size_t rows[3][LONGEST + 1], n = strlen(b), m = strlen(a);
  if (n > LONGEST || m > LONGEST) return LONGEST;
  for (size_t j = 0; j <= n; j++) rows[0][j] = j;
  for (size_t i = 1; i <= m; i++) {
    size_t *row = rows[i % 3], *above = rows[(i + 2) % 3], *before = rows[(i + 1) % 3];
    row[0] = i;
    for (size_t j = 1; j <= n; j++) {
      row[j] = smaller(smaller(above[j], row[j - 1]) + 1, above[j - 1] + (a[i - 1] != b[j - 1]));
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = smaller(row[j], before[j - 2] + 1);
    }
  }
  return rows[m % 3][n];
}

/* One that is part of the other is near too: temperature and temp. */
static size_t distance(const char *a, const char *b) {
  enum { LEAST = 4 };
  bool part = (strlen(a) >= LEAST && strstr(b, a)) || (strlen(b) >= LEAST && strstr(a, b));
  return part ? 1 : edit_distance(a, b);
}

const char *options_nearest(const char *word, const char *const *names, size_t count) {
  const char *best = NULL;
  size_t least = (strlen(word) + 2) / 3; /* more edits would leave too little of it */
  for (size_t i = 0; i < count; i++) {
    size_t edits = distance(word, names[i]);
    if (edits > least || (best && edits == least)) continue;
    best = names[i];
    least = edits;
  }
  return best;
}

/* Those of argp itself. */
static const option_row argp_rows[] = {{.name = "help", .letter = 'h'},
                                       {.name = "usage"},
                                       {.name = "program-name", .arg = "NAME", .hidden = true},
                                       {.name = "HANG", .optional = true, .hidden = true}};
enum { ARGP_ROWS = sizeof argp_rows / sizeof *argp_rows };

static const option_row *row_at(const parsing *p, int i) {
  return i < p->count ? p->place[i].row : &argp_rows[i - p->count];
}

/* The row of --name, whole or as a prefix, or of -letter. */
static const option_row *find_long(const parsing *p, const char *name, size_t length) {
  const option_row *found = NULL;
  for (int i = 0; i < p->count + ARGP_ROWS; i++) {
    const option_row *row = row_at(p, i);
    if (!row->name || strncmp(row->name, name, length)) continue;
    if (!row->name[length]) return row;
    found = row;
  }
  return found;
}

static const option_row *find_letter(const parsing *p, char letter) {
  for (int i = 0; i < p->count + ARGP_ROWS; i++)
    if (row_at(p, i)->name && row_at(p, i)->letter == letter) return row_at(p, i);
  return letter == '?' ? &argp_rows[0] : NULL;
}

static void refuse_option(const parsing *p, const char *of, const char *word) {
  const char *names[MOST_ROWS + ARGP_ROWS], *near;
  char name[64];
  size_t n = 0;
  const char *from = word + strspn(word, "-");
  snprintf(name, sizeof name, "%.*s", (int)strcspn(from, "="), from);
  for (int i = 0; i < p->count + ARGP_ROWS; i++)
    if (row_at(p, i)->name && !row_at(p, i)->hidden) names[n++] = row_at(p, i)->name;
  near = options_nearest(name, names, n);
  if (strchr(word, ' '))
    complain("%s has no option \"%.40s\": write -- before a text that begins with a hyphen", of,
             word);
  else if (near)
    complain("%s has no option %s: did you mean --%s?", of, word, near);
  else
    complain("%s has no option %s: %s --help lists them", of, word, of);
  exit(EXIT_USAGE);
}

/* -h is --help; one hyphen in place of two is an unknown option, as -model is. What argp would
 * refuse in other words is refused here. */
static void check_options(const parsing *p, int argc, char **argv) {
  static char help[] = "--help";
  for (int i = 1; i < argc && strcmp(argv[i], "--"); i++) {
    const char *word = argv[i];
    if (word[0] != '-' || !word[1]) continue;
    const bool is_long = word[1] == '-';
    const size_t length = strcspn(word, "=") - 1 - is_long;
    const option_row *row = is_long ? find_long(p, word + 2, length) : find_letter(p, word[1]);
    if (!is_long && length > 2) {
      const option_row *meant = find_long(p, word + 1, length);
      if (meant && strlen(meant->name) == length) row = NULL;
    }
    if (!row) refuse_option(p, argv[0], word);
    if (!strcmp(word, "-h") && row == &argp_rows[0]) argv[i] = help;
    bool apart = is_long ? !strchr(word, '=') : !word[2];
    if (row->arg && !row->optional && apart) i++;
  }
}

void options_read(const verb_options *v, int argc, char **argv, void *input) {
  parsing p = {.verb = v, .input = input};
  const struct argp argp = {
      .options = p.list, .parser = parse_row, .args_doc = v->arguments, .doc = v->about};
  list_rows(&p);
  check_options(&p, argc, argv);
  argp_parse(&argp, argc, argv, 0, NULL, &p);
}

const option_row option_rows_json[] = {
    {"json", NULL, "Print JSON instead, for a program to read", FLAG(options, json), .letter = 'j'},
    {0}};
/* trap is a device for tests (device/trap.c). */
static void take_device(struct argp_state *state, const char *arg, void *value, void *input) {
  static const char *const names[] = {"cpu", "cuda", "trap"};
  const char *end = arg + strcspn(arg, ":"), *digits = end + 1;
  char name[32];
  (void)input;
  snprintf(name, sizeof name, "%.*s", (int)(end - arg), arg);
  *(const char **)value = arg;
  for (int i = 0; i < 3; i++)
    if (!strcmp(name, names[i])) {
      if (!*end || (i == 1 && *digits && strspn(digits, "0123456789") == strlen(digits))) return;
      argp_error(state, "--device %s: write cpu, cuda or cuda:N, where N is the GPU's number", arg);
    }
  const char *near = options_nearest(name, names, 2);
  if (near) argp_error(state, "there is no device \"%s\": did you mean %s?", arg, near);
  argp_error(state, "there is no device \"%s\": choose cpu, cuda or cuda:N", arg);
}

const option_row option_rows_run[] = {
    {"device", "NAME",
     "Where to compute: cpu, or cuda or cuda:N, an NVIDIA GPU (default: ATTEND_DEVICE, cpu)",
     CALL(options, device, take_device)},
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

attend_status options_reader(attend_context **ctx) {
  const attend_context_options cpu = {ATTEND_INIT(attend_context_options), .device = "cpu"};
  return attend_context_create(&cpu, ctx);
}

attend_context *options_context(const options *o, const char *isa, int *code) {
  attend_context *ctx;
  attend_context_options chosen = {ATTEND_INIT(attend_context_options), .isa = isa ? isa : o->isa,
                                   .threads = o->threads, .device = o->device};
  attend_status status = attend_context_create(&chosen, &ctx);
  *code = EXIT_OK;
  if (!status) return ctx;
  *code = complain_status(ctx, status);
  attend_context_free(ctx);
  return NULL;
}

const char *options_computes(const attend_context *ctx, const char *engine) {
  const char *device = attend_context_device(ctx);
  const bool host = !strcmp(device, "cpu") || !strncmp(engine, "host:", 5);
  return host ? attend_context_isa(ctx) : device;
}

/* A GPU has one. */
static bool on_gpu(const options *o) {
  const char *name = o->device ? o->device : getenv("ATTEND_DEVICE");
  return name && !strncmp(name, "cuda", 4);
}

int options_isas(const options *o, bool all, const char *isas[MOST_ISAS]) {
  const char *named = o->isa ? o->isa : getenv("ATTEND_ISA");
  bool every = o->isa ? !strcmp(o->isa, "all") : all && (!named || !*named);
  int count = 0;
  bool runs;
  isas[0] = o->isa; /* NULL: what the environment or the machine says */
  if (!every || on_gpu(o)) return 1;
  for (int i = 0; attend_isa_name(i, &runs) && count < MOST_ISAS; i++)
    if (runs) isas[count++] = attend_isa_name(i, &runs);
  return count;
}
