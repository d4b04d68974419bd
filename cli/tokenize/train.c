/* attend tokenize --train: train a tokenizer on text. */
#include "tokenize/tokenize.h"

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

typedef struct {
  options common;
  attend_text_train_options train;
  const char *format, *kind, *like, *out;
  text_list special, field;
  bool ask, force;
  char **data;
  int count;
} train_options;

bool is_tokenize_train(int argc, char **argv) {
  for (int i = 1; i < argc && strcmp(argv[i], "--"); i++)
    if (!strcmp(argv[i], "--train")) return true;
  return false;
}

/* ---- options --------------------------------------------------------------------- */

static const option_row own[] = {
    {"train", NULL, "Train on DATA", FLAG(train_options, ask)},
    {"out", "DIR", "Write the tokenizer to this directory", TEXT(train_options, out)},
    {"like", "MODEL", "Special tokens and template as in gpt2, bert, bart or llama (default: gpt2)",
     WORD(train_options, like, "gpt2, bert, bart or llama")},
    {"kind", "KIND", "bpe, which is --like gpt2, or wordpiece, which is --like bert",
     WORD(train_options, kind, "bpe or wordpiece")},
    {"vocab", "N", "Pieces, special ones too (default: 8192)",
     NUMBER(train_options, train.vocab, 1, INT32_MAX)},
    {"min-count", "N", "Merge pairs that occur N times or more (default: 2)",
     NUMBER(train_options, train.min, 1, INT64_MAX)},
    {"special", "TOKEN", "One more special token; may be repeated", LIST(train_options, special)},
    {"lowercase", NULL, "WordPiece: lower case, without accents, as bert-uncased",
     FLAG(train_options, train.lowercase)},
    {"keep-accents", NULL, "With --lowercase: keep accents",
     FLAG(train_options, train.keep_accents)},
    {"alphabet", "N", "WordPiece: the N most frequent characters (default: 1000)",
     NUMBER(train_options, train.alphabet, 1, INT32_MAX)},
    {"longest", "N",
     "Maximum length of a piece: bytes (default: 128), or characters (WordPiece, 100)",
     NUMBER(train_options, train.longest, 1, INT32_MAX)},
    {"format", "NAME", "What DATA is: text, jsonl or tsv (default: by its name)",
     WORD(train_options, format, "text, jsonl or tsv")},
    {"field", "NAME",
     "A field of each line's object that is text; may be repeated (default: text, else all "
     "strings)",
     LIST(train_options, field)},
    {"threads", "N", "Use N threads; the files are the same",
     NUMBER(train_options, common.threads, 1, 4096), .letter = 't'},
    {"force", NULL, "Replace an existing tokenizer", FLAG(train_options, force)},
    {0}};
static const option_part parts[] = {
    {own, 0}, {option_rows_json, offsetof(train_options, common)}, {0}};

static void finish(struct argp_state *state, char **words, int count, void *input) {
  train_options *o = input;
  attend_text_train_options *t = &o->train;
  const char *name, *like = o->like;
  o->data = words;
  o->count = count;
  if (o->kind && like) argp_error(state, "--like says the kind: leave --kind away");
  if (o->kind) like = strcmp(o->kind, "bpe") ? "bert" : "gpt2";
  for (int i = 0; like && (name = attend_like_name((attend_like)i)); i++)
    if (!strcmp(like, name)) t->like = (attend_like)i;
  if (!o->out) argp_error(state, "name a folder for the tokenizer with --out");
  if (!count) argp_error(state, "name files to train on, or -");
  if ((t->lowercase || t->keep_accents || t->alphabet) && t->like != ATTEND_LIKE_BERT)
    argp_error(state,
               "--lowercase, --keep-accents and --alphabet are WordPiece's: add --like bert");
  if (t->keep_accents && !t->lowercase) argp_error(state, "only --lowercase takes accents away");
}

static const verb_options verb_train = {
    parts, "--train DATA... --out DIR",
    "Trains a tokenizer on texts: byte-level BPE, or WordPiece. DATA are text files, .jsonl (an "
    "object or a string on each line), .tsv (each column is a text), or - for the standard input."
    "\vDIR then holds tokenizer.json, tokenizer_config.json, special_tokens_map.json, and "
    "vocab.json with merges.txt, or vocab.txt. They depend only on the texts and the options.",
    finish};

/* ---- learning -------------------------------------------------------------------- */

typedef struct {
  const train_options *o;
  attend_context *ctx;
  attend_text_trainer *trainer;
  double seconds;
} train_run;

static int read_data(train_run *run) {
  const train_options *o = run->o;
  text_source source = {
      .ctx = run->ctx, .field = (char **)o->field.text, .fields = (int)o->field.count};
  if (o->format) attend_format_parse(o->format, &source.format);
  return text_train(&source, o->data, o->count, run->trainer);
}

/* Checked before anything is read: what would be replaced, and whether it may be. */
static int check_place(const train_options *o) {
  const char *name;
  for (int i = 0; !o->force && (name = attend_text_trainer_file(i)); i++) {
    char *path = path_of("%s/%s", o->out, name);
    bool there = file_bytes(path) >= 0;
    free(path);
    if (!there) continue;
    return complain("%s has a tokenizer, %s: --force replaces it", o->out, name);
  }
  return EXIT_OK;
}

static int learn(train_run *run) {
  attend_text_train_options t = run->o->train;
  t.specials = run->o->special.text;
  t.n_specials = run->o->special.count;
  t.progress = progress_report;
  attend_status status = attend_text_trainer_create(run->ctx, &t, &run->trainer);
  if (status) return complain_status(run->ctx, status);
  int code = read_data(run);
  if (code) return code;
  progress_start("learning pieces", 0);
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
  return table_finish(&rows, run->ctx, true);
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
  train_options o = {.train = {ATTEND_INIT(attend_text_train_options)}};
  train_run run = {.o = &o};
  int code;
  options_read(&verb_train, argc, argv, &o);
  double started = seconds_now();
  run.ctx = options_context(&o.common, NULL, &code);
  if (run.ctx) {
    code = learn_into_folder(&run);
    run.seconds = seconds_now() - started;
    if (!code) code = answer(&run);
    attend_text_trainer_free(run.trainer);
    attend_context_free(run.ctx);
  }
  free(o.special.text);
  free(o.field.text);
  return code;
}
