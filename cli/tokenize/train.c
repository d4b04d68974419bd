/* attend tokenize --train: train a tokenizer on text. */
#include "tokenize/train.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "attend/text_train.h"
#include "folders.h"
#include "options.h"
#include "progress.h"
#include "table.h"
#include "text.h"

enum { MOST_LISTED = 1024 };

typedef struct {
  options common;
  attend_text_train_options train;
  attend_format format;
  const char *kind, *like, *out;
  char *special[MOST_LISTED], *field[MOST_LISTED];
  int specials, fields;
  bool force;
  char **data;
  int count;
} train_options;

bool is_tokenize_train(int argc, char **argv) {
  for (int i = 1; i < argc && strcmp(argv[i], "--"); i++)
    if (!strcmp(argv[i], "--train")) return true;
  return false;
}

/* ---- options --------------------------------------------------------------------- */

enum {
  KEY_TRAIN = 1000,
  KEY_OUT,
  KEY_KIND,
  KEY_LIKE,
  KEY_VOCAB,
  KEY_LEAST,
  KEY_SPECIAL,
  KEY_LOWERCASE,
  KEY_ACCENTS,
  KEY_ALPHABET,
  KEY_LONGEST,
  KEY_FORMAT,
  KEY_FIELD,
  KEY_FORCE
};

static const struct argp_option list[] = {
    {"train", KEY_TRAIN, 0, 0, "Train on DATA", 0},
    {"out", KEY_OUT, "DIR", 0, "Write the tokenizer into this folder", 0},
    {"like", KEY_LIKE, "MODEL", 0,
     "Special tokens and template as in gpt2, "
     "bert, bart or llama (default: gpt2)",
     0},
    {"kind", KEY_KIND, "KIND", 0, "bpe, which is --like gpt2, or wordpiece, which is --like bert",
     0},
    {"vocab", KEY_VOCAB, "N", 0, "Pieces, special ones too (default: 8192)", 0},
    {"min-count", KEY_LEAST, "N", 0, "Merge pairs that occur N times or more (default: 2)", 0},
    {"special", KEY_SPECIAL, "TOKEN", 0, "One more special token; may be repeated", 0},
    {"lowercase", KEY_LOWERCASE, 0, 0, "WordPiece: lower case, without accents, as bert-uncased",
     0},
    {"keep-accents", KEY_ACCENTS, 0, 0, "With --lowercase: keep accents", 0},
    {"alphabet", KEY_ALPHABET, "N", 0, "WordPiece: the N most frequent characters (default: 1000)",
     0},
    {"longest", KEY_LONGEST, "N", 0,
     "Maximum length of a piece: bytes (default: 128), or characters "
     "(WordPiece, 100)",
     0},
    {"format", KEY_FORMAT, "NAME", 0, "What DATA is: text, jsonl or tsv (default: by its name)", 0},
    {"field", KEY_FIELD, "NAME", 0,
     "A field of each line's object that is text; may be repeated (default: "
     "text, else all strings)",
     0},
    {"threads", 't', "N", 0, "Use N threads; the files are the same", 0},
    {"force", KEY_FORCE, 0, 0, "Replace a tokenizer that is there", 0},
    {0}};

static void put_in_list(struct argp_state *state, char **to, int *count, char *what) {
  if (*count == MOST_LISTED)
    argp_error(state, "an option is repeated more than %d times", MOST_LISTED);
  to[(*count)++] = what;
}

static void choose_like(train_options *o, struct argp_state *state) {
  const char *like = o->like, *name;
  if (o->kind && o->like) argp_error(state, "--like says the kind: leave --kind away");
  if (o->kind && strcmp(o->kind, "bpe") && strcmp(o->kind, "wordpiece"))
    argp_error(state, "--kind is bpe or wordpiece, not \"%s\"", o->kind);
  if (o->kind) like = strcmp(o->kind, "bpe") ? "bert" : "gpt2";
  for (int i = 0; like && (name = attend_like_name((attend_like)i)); i++) {
    if (strcmp(like, name)) continue;
    o->train.like = (attend_like)i;
    like = NULL;
  }
  if (like && attend_like_name(ATTEND_LIKE_GPT2))
    argp_error(state, "--like is gpt2, bert, bart or llama, not \"%s\"", like);
}

static void check_options(train_options *o, struct argp_state *state) {
  const attend_text_train_options *t = &o->train;
  choose_like(o, state);
  if (!o->out) argp_error(state, "name a folder for the tokenizer with --out");
  if (!o->count) argp_error(state, "name files to learn from, or -");
  if ((t->lowercase || t->keep_accents || t->alphabet) && t->like != ATTEND_LIKE_BERT)
    argp_error(state,
               "--lowercase, --keep-accents and --alphabet are WordPiece's: "
               "add --like bert");
  if (t->keep_accents && !t->lowercase) argp_error(state, "only --lowercase takes accents away");
}

static error_t parse_number(int key, char *arg, struct argp_state *state) {
  train_options *o = state->input;
  switch (key) {
    case 't':
      o->common.threads = (int)options_number(state, "--threads", arg, 1, 4096);
      return 0;
    case KEY_VOCAB:
      o->train.vocab = (int32_t)options_number(state, "--vocab", arg, 1, INT32_MAX);
      return 0;
    case KEY_LEAST:
      o->train.least = (uint64_t)options_number(state, "--min-count", arg, 1, INT64_MAX);
      return 0;
    case KEY_ALPHABET:
      o->train.alphabet = (int32_t)options_number(state, "--alphabet", arg, 1, INT32_MAX);
      return 0;
    case KEY_LONGEST:
      o->train.longest = (int32_t)options_number(state, "--longest", arg, 1, INT32_MAX);
      return 0;
    default:
      return ARGP_ERR_UNKNOWN;
  }
}

static error_t parse(int key, char *arg, struct argp_state *state) {
  train_options *o = state->input;
  switch (key) {
    case ARGP_KEY_INIT:
      options_share(state, 1);
      return 0;
    case KEY_TRAIN:
      return 0;
    case KEY_OUT:
      o->out = arg;
      return 0;
    case KEY_KIND:
      o->kind = arg;
      return 0;
    case KEY_LIKE:
      o->like = arg;
      return 0;
    case KEY_SPECIAL:
      put_in_list(state, o->special, &o->specials, arg);
      return 0;
    case KEY_FIELD:
      put_in_list(state, o->field, &o->fields, arg);
      return 0;
    case KEY_LOWERCASE:
      o->train.lowercase = true;
      return 0;
    case KEY_ACCENTS:
      o->train.keep_accents = true;
      return 0;
    case KEY_FORMAT:
      if (!attend_format_parse(arg, &o->format))
        argp_error(state, "--format is text, jsonl or tsv, not \"%s\"", arg);
      return 0;
    case KEY_FORCE:
      o->force = true;
      return 0;
    case ARGP_KEY_ARGS:
      o->data = state->argv + state->next;
      o->count = state->argc - state->next;
      return 0;
    case ARGP_KEY_END:
      check_options(o, state);
      return 0;
    default:
      return parse_number(key, arg, state);
  }
}

static const struct argp_child children[] = {{&options_json, 0, NULL, 0}, {0}};
static const struct argp argp = {
    .options = list,
    .parser = parse,
    .args_doc = "--train DATA... --out DIR",
    .doc =
        "Trains a tokenizer on texts: byte-level BPE, or WordPiece. DATA are "
        "text files, .jsonl (an object or a string on each line), .tsv (each "
        "column is a text), or - for the standard input."
        "\vDIR then holds tokenizer.json, tokenizer_config.json, "
        "special_tokens_map.json, and vocab.json with merges.txt, or "
        "vocab.txt. "
        "They depend only on the texts and the options.",
    .children = children};

/* ---- learning -------------------------------------------------------------------- */

typedef struct {
  const train_options *o;
  attend_context *ctx;
  attend_text_trainer *trainer;
  double seconds;
} train_run;

static attend_status put_text(const char *text, size_t length, bool ends, void *user) {
  attend_text_trainer *trainer = user;
  attend_status status = attend_text_trainer_feed(trainer, text, length);
  return status || !ends ? status : attend_text_trainer_end(trainer);
}

static int show_merges(size_t merges, size_t most, void *user) {
  (void)user;
  if (merges == 1) progress_start("learning", most);
  progress_step(merges, "merges");
  return 0;
}

static int read_data(train_run *run) {
  const train_options *o = run->o;
  text_source source = {.ctx = run->ctx,
                        .format = o->format,
                        .field = (char **)o->field,
                        .fields = o->fields,
                        .put = put_text,
                        .user = run->trainer};
  int code = EXIT_OK;
  progress_start("reading", text_bytes(o->data, o->count));
  for (int i = 0; i < o->count && !code; i++) code = text_read(&source, o->data[i]);
  progress_end();
  return code;
}

/* Checked before anything is read: what would be replaced, and whether it may be. */
static int check_place(const train_options *o) {
  const char *name;
  for (int i = 0; !o->force && (name = attend_text_trainer_file(i)); i++) {
    char *path = path_of("%s/%s", o->out, name);
    bool there = file_bytes(path) >= 0;
    free(path);
    if (!there) continue;
    complain("%s has a tokenizer, %s: --force replaces it", o->out, name);
    return EXIT_FAILED;
  }
  return EXIT_OK;
}

static int learn(train_run *run) {
  attend_text_train_options t = run->o->train;
  t.specials = (const char *const *)run->o->special;
  t.n_specials = (size_t)run->o->specials;
  t.progress = show_merges;
  attend_status status = attend_text_trainer_create(run->ctx, &t, &run->trainer);
  if (status) return complain_status(run->ctx, status);
  int code = read_data(run);
  if (code) return code;
  status = attend_text_trainer_learn(run->trainer);
  progress_end();
  if (!status) status = attend_text_trainer_save(run->trainer, run->o->out);
  return status ? complain_status(run->ctx, status) : EXIT_OK;
}

/* Removes a new folder that could not be filled. */
static int learn_into_folder(train_run *run) {
  const char *out = run->o->out;
  bool there = is_folder(out);
  int code = check_place(run->o);
  if (code) return code;
  if (!make_folder(out)) return EXIT_FAILED;
  code = learn(run);
  if (code && !there) rmdir(out);
  return code;
}

/* ---- the answer ------------------------------------------------------------------ */

static const column columns[] = {{"folder", NULL, CELL_TEXT},
                                 {"kind", NULL, CELL_TEXT},
                                 {"like", NULL, CELL_TEXT},
                                 {"vocab", NULL, CELL_COUNT},
                                 {"specials", NULL, CELL_COUNT},
                                 {"letters", NULL, CELL_COUNT},
                                 {"merges", NULL, CELL_COUNT},
                                 {"first_merge", NULL, CELL_TEXT},
                                 {"last_merge", NULL, CELL_TEXT},
                                 {"last_count", NULL, CELL_COUNT},
                                 {"texts", NULL, CELL_COUNT},
                                 {"bytes", NULL, CELL_COUNT},
                                 {"words", NULL, CELL_COUNT},
                                 {"distinct", NULL, CELL_COUNT},
                                 {"tokens", NULL, CELL_COUNT},
                                 {"unknown", NULL, CELL_COUNT},
                                 {"bytes_per_token", NULL, CELL_RATIO},
                                 {"seconds", NULL, CELL_SECONDS},
                                 {NULL, NULL, CELL_TEXT}};

static double bytes_per_token(const attend_text_trained *t) {
  return t->tokens ? (double)t->bytes / (double)t->tokens : 0;
}

static cell merge_cell(const train_run *run, size_t i, char *text, size_t size) {
  attend_text_merge m;
  if (!attend_text_trainer_merge(run->trainer, i, &m)) return cell_none();
  snprintf(text, size, "%s %s", m.left, m.right);
  return cell_text(text);
}

static int print_json(const train_run *run) {
  const attend_text_trained *t = attend_text_trainer_report(run->trainer);
  char first[1024], last[1024];
  size_t end = (size_t)t->merges - 1;
  attend_text_merge m = {0};
  table rows = table_start(columns);
  attend_text_trainer_merge(run->trainer, end, &m);
  table_add(&rows,
            (cell[]){cell_text(run->o->out),
                     cell_text(attend_tokenizer_kind(attend_text_trainer_tokenizer(run->trainer))),
                     cell_text(attend_like_name(run->o->train.like)), cell_number(t->vocab),
                     cell_number(t->specials), cell_number(t->letters), cell_number(t->merges),
                     merge_cell(run, 0, first, sizeof first),
                     merge_cell(run, end, last, sizeof last), cell_number((double)m.count),
                     cell_number((double)t->texts), cell_number((double)t->bytes),
                     cell_number((double)t->words), cell_number((double)t->distinct),
                     cell_number((double)t->tokens), cell_number((double)t->unknown),
                     cell_number(bytes_per_token(t)), cell_number(run->seconds)});
  int code = table_print_json(&rows, run->ctx, stdout);
  table_free(&rows);
  return code;
}

static void print_merges(const train_run *run, const char *name, size_t from, size_t to) {
  attend_text_merge m;
  printf("  %-11s", name);
  for (size_t i = from; i < to; i++)
    if (attend_text_trainer_merge(run->trainer, i, &m)) printf(" %s+%s", m.left, m.right);
  if (attend_text_trainer_merge(run->trainer, to - 1, &m))
    printf(", the last %llu times", (unsigned long long)m.count);
  putchar('\n');
}

static int print_facts(const train_run *run) {
  enum { SHOWN = 6 };
  const attend_text_trained *t = attend_text_trainer_report(run->trainer);
  size_t merges = (size_t)t->merges, shown = merges < SHOWN ? merges : SHOWN;
  char bytes[32], time[32];
  format_cell(CELL_BYTES, (double)t->bytes, bytes, sizeof bytes);
  format_cell(CELL_SECONDS, run->seconds, time, sizeof time);
  printf("%s\n  %-11s %s, like %s\n", run->o->out, "kind",
         attend_tokenizer_kind(attend_text_trainer_tokenizer(run->trainer)),
         attend_like_name(run->o->train.like));
  printf("  %-11s %d pieces: %d special, %d letters, %d merges\n", "vocabulary", (int)t->vocab,
         (int)t->specials, (int)t->letters, (int)t->merges);
  printf("  %-11s %s, %llu words, %zu different\n", "text", bytes, (unsigned long long)t->words,
         t->distinct);
  printf("  %-11s %llu, %.3f bytes each", "tokens", (unsigned long long)t->tokens,
         bytes_per_token(t));
  if (t->unknown) printf(", %llu unknown", (unsigned long long)t->unknown);
  putchar('\n');
  if (merges) print_merges(run, "first", 0, shown);
  if (merges > shown) print_merges(run, "last", merges - shown, merges);
  printf("  %-11s %s\n", "time", time);
  return check_written(stdout, "the summary");
}

static int answer(const train_run *run) {
  const attend_text_trained *t = attend_text_trainer_report(run->trainer);
  int32_t requested = run->o->train.vocab ? run->o->train.vocab : 8192;
  if (t->vocab < requested)
    complain(
        "the text has pairs for %d of %d pieces: the vocabulary is smaller "
        "(lower --min-count, or give more text)",
        (int)t->vocab, (int)requested);
  return run->o->common.json ? print_json(run) : print_facts(run);
}

int tokenize_train(int argc, char **argv) {
  train_options *o = need(1, sizeof *o);
  train_run run = {.o = o};
  int code;
  o->train.size = sizeof o->train;
  argp_parse(&argp, argc, argv, 0, NULL, o);
  double started = seconds_now();
  run.ctx = options_context(&o->common, NULL, &code);
  if (run.ctx) {
    code = learn_into_folder(&run);
    run.seconds = seconds_now() - started;
    if (!code) code = answer(&run);
    attend_text_trainer_free(run.trainer);
    attend_context_free(run.ctx);
  }
  free(o);
  return code;
}
