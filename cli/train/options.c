/* The options of attend train. */
#include <stdlib.h>
#include <string.h>

#include "train/train.h"

enum {
  KEY_DATA = 1000,
  KEY_VALID,
  KEY_VALID_SHARE,
  KEY_FIELD,
  KEY_ANSWER,
  KEY_OUT,
  KEY_RESUME,
  KEY_RESUME_FROM,
  KEY_TASK,
  KEY_FAMILY,
  KEY_LAYERS,
  KEY_DECODER_LAYERS,
  KEY_DECODER_WIDTH,
  KEY_DECODER_HEADS,
  KEY_DECODER_MLP,
  KEY_HEADS,
  KEY_KV_HEADS,
  KEY_WIDTH,
  KEY_MLP,
  KEY_POSITIONS,
  KEY_COPY,
  KEY_VOCAB,
  KEY_UNTIED,
  KEY_TOKENIZER,
  KEY_ATTENTION,
  KEY_ROLES,
  KEY_WEIGHTS,
  KEY_RECOMPUTE,
  KEY_DROPOUT,
  KEY_BATCH,
  KEY_LENGTH,
  KEY_TARGET,
  KEY_ACCUMULATE,
  KEY_STEPS,
  KEY_EPOCHS,
  KEY_OPTIMIZER,
  KEY_RATE,
  KEY_LEAST,
  KEY_WARMUP,
  KEY_SCHEDULE,
  KEY_BETA1,
  KEY_BETA2,
  KEY_MOMENTUM,
  KEY_DECAY,
  KEY_DECAY_TABLES,
  KEY_DECAY_VECTORS,
  KEY_CLIP,
  KEY_SMOOTHING,
  KEY_MASK,
  KEY_SAVE,
  KEY_VALIDATE,
  KEY_LOG,
  KEY_VALID_BATCHES,
  KEY_KEEP,
  KEY_PATIENCE,
  KEY_AVERAGE,
  KEY_SAVE_AS
};

static const struct argp_option list[] = {
    {0, 0, 0, 0, "Data:", 1},
    {"data", KEY_DATA, "FILE", 0, "Text, .jsonl or .tsv (pairs); may be repeated", 1},
    {"valid", KEY_VALID, "FILE", 0, "Validation data; may be repeated", 1},
    {"valid-share", KEY_VALID_SHARE, "X", 0,
     "Hold this share of the data out for validation (default: 0.02 without "
     "--valid; 0: no validation)",
     1},
    {"task", KEY_TASK, "NAME", 0,
     "causal (the next token), masked or pairs (default: by the model; pairs "
     "if the data are .tsv)",
     1},
    {"field", KEY_FIELD, "NAME", 0,
     "Of .jsonl: the text (default: text; of pairs document or source)", 1},
    {"answer-field", KEY_ANSWER, "NAME", 0,
     "Of .jsonl pairs: the answer (default: summary or target)", 1},
    {"length", KEY_LENGTH, "N", 0,
     "Tokens of a text at most (default: 256, or the model's positions)", 1},
    {"target-length", KEY_TARGET, "N", 0,
     "Of pairs: tokens of an answer at most (default: as --length)", 1},
    {"mask-share", KEY_MASK, "X", 0, "Masked: share of tokens to predict (default: 0.15)", 1},

    {0, 0, 0, 0, "A new model:", 2},
    {"family", KEY_FAMILY, "NAME", 0, "gpt2, llama, bert, bart or t5 (default: gpt2)", 2},
    {"layers", KEY_LAYERS, "N", 0, "(default: 4)", 2},
    {"decoder-layers", KEY_DECODER_LAYERS, "N", 0, "Of an encoder-decoder (default: as many)", 2},
    {"heads", KEY_HEADS, "N", 0, "(default: 4)", 2},
    {"kv-heads", KEY_KV_HEADS, "N", 0, "Llama (default: as many)", 2},
    {"width", KEY_WIDTH, "N", 0, "(default: 256)", 2},
    {"mlp", KEY_MLP, "N", 0, "Inner width of the MLP (default: 4 widths; llama 8/3)", 2},
    {"decoder-width", KEY_DECODER_WIDTH, "N", 0,
     "Of an encoder-decoder, whose other sizes are then the encoder's "
     "(default: as --width)",
     2},
    {"decoder-heads", KEY_DECODER_HEADS, "N", 0, "(default: as --heads)", 2},
    {"decoder-mlp", KEY_DECODER_MLP, "N", 0, "(default: as --mlp, or 4 decoder widths)", 2},
    {"positions", KEY_POSITIONS, "N", 0, "Longest sequence (default: as --length)", 2},
    {"untied", KEY_UNTIED, 0, 0, "A head of its own", 2},
    {"copy", KEY_COPY, "N", 0,
     "Bart, t5: a pointer-generator head that copies source tokens, with keys "
     "of this width (default: none)",
     2},
    {"tokenizer", KEY_TOKENIZER, "PATH", 0,
     "Of a new model, or instead of MODEL's (attend tokenize --train makes "
     "one; without it one is trained on the data)",
     2},
    {"vocab", KEY_VOCAB, "N", 0, "Tokens of a tokenizer that is trained (default: 4096)", 2},
    {"attention", KEY_ATTENTION, "FORM", 0,
     "Train with this form of attention, such as elu or favor(m=64)", 2},
    {"attention-roles", KEY_ROLES, "ROLES", 0,
     "Where that form is: encoder, decoder, cross or several with commas "
     "(default: everywhere)",
     2},

    {0, 0, 0, 0, "Training:", 3},
    {"batch", KEY_BATCH, "N", 0, "Texts of a batch (default: 8)", 3},
    {"accumulate", KEY_ACCUMULATE, "N", 0, "Batches of a step (default: 1)", 3},
    {"steps", KEY_STEPS, "N", 0, "Steps in all (default: 1000)", 3},
    {"epochs", KEY_EPOCHS, "X", 0, "Steps as epochs over the data", 3},
    {"optimizer", KEY_OPTIMIZER, "NAME", 0, "adamw or sgd (default: adamw)", 3},
    {"rate", KEY_RATE, "X", 0, "Peak learning rate (default: 1e-3 for a new model, else 1e-4)", 3},
    {"least-rate", KEY_LEAST, "X", 0, "Final learning rate (default: a tenth; linear: 0)", 3},
    {"warmup", KEY_WARMUP, "N", 0, "Warm-up steps (default: 100, a tenth of all at most)", 3},
    {"schedule", KEY_SCHEDULE, "NAME", 0,
     "Of the rate: cosine, linear or constant (default: cosine)", 3},
    {"beta1", KEY_BETA1, "X", 0, "AdamW (default: 0.9)", 3},
    {"beta2", KEY_BETA2, "X", 0, "AdamW (default: 0.95)", 3},
    {"momentum", KEY_MOMENTUM, "X", 0, "SGD (default: 0.9)", 3},
    {"decay", KEY_DECAY, "X", 0, "Weight decay of matrices (default: 0.1)", 3},
    {"decay-tables", KEY_DECAY_TABLES, "X", 0, "Of embeddings and positions (default: 0)", 3},
    {"decay-vectors", KEY_DECAY_VECTORS, "X", 0, "Of biases and norms (default: 0)", 3},
    {"clip", KEY_CLIP, "X", 0, "Largest norm of the gradient; 0: any (default: 1)", 3},
    {"smoothing", KEY_SMOOTHING, "X", 0, "Label smoothing (default: 0)", 3},
    {"dropout", KEY_DROPOUT, "X", 0, "(default: 0)", 3},
    {"weights", KEY_WEIGHTS, "KIND", 0,
     "Multiply in f32 or bf16; values and sums stay f32 (default: f32)", 3},
    {"recompute", KEY_RECOMPUTE, 0, 0,
     "Recompute activations in backward: less memory, a fifth more time, the "
     "same bits",
     3},

    {0, 0, 0, 0, "The run:", 4},
    {"out", KEY_OUT, "DIR", 0, "The run's folder", 4},
    {"resume", KEY_RESUME, 0, 0,
     "Resume from the last saved step in --out, with the options it was begun "
     "with and those given now; begin if there is none",
     4},
    {"resume-from", KEY_RESUME_FROM, "STEP", 0,
     "Resume from this saved step, or last-good: the last undamaged one; later "
     "ones are removed",
     4},
    {"save-every", KEY_SAVE, "N", 0, "Steps (default: a tenth of all)", 4},
    {"valid-every", KEY_VALIDATE, "N", 0, "Steps (default: as --save-every)", 4},
    {"valid-batches", KEY_VALID_BATCHES, "N", 0, "Batches of a validation, at most (default: all)",
     4},
    /* The name until 0.1, which run.json of older runs has. */
    {"valid-lessons", KEY_VALID_BATCHES, "N", OPTION_HIDDEN, NULL, 4},
    {"log-every", KEY_LOG, "N", 0, "Steps (default: a hundredth of all)", 4},
    {"keep", KEY_KEEP, "N", 0,
     "Saved steps, beside the first, the best and the last (default: all)", 4},
    {"patience", KEY_PATIENCE, "N", 0, "Stop after so many validations without improvement", 4},
    {"average", KEY_AVERAGE, "N", 0,
     "At the end, write DIR/average: the mean of the last N saved steps; "
     "with --resume also for a finished run",
     4},
    {"save-as", KEY_SAVE_AS, "KIND", 0, "f32 or bf16 (default: f32)", 4},
    {0}};

/* ---- values ------------------------------------------------------------------------ */

static int choice(struct argp_state *state, const char *name, const char *text,
                  const char *const *choices) {
  char all[128] = "";
  for (int i = 0; choices[i]; i++) {
    if (!strcmp(choices[i], text)) return i;
    if (i) strcat(all, choices[i + 1] ? ", " : " or ");
    strcat(all, choices[i]);
  }
  argp_error(state, "%s takes %s, not \"%s\"", name, all, text);
  return 0;
}

static void add_word(train_settings *s, word_list *w, const char *text) {
  if (w->round != s->round) w->count = 0;
  w->round = s->round;
  w->text = need_more(w->text, w->count, w->count + 1, sizeof *w->text);
  w->text[w->count++] = text;
}

#define SIZE(name, high) ((int)options_number(state, name, arg, 1, high))
#define COUNT(name) options_number(state, name, arg, 0, INT64_MAX / 2)

static bool parse_data(int key, char *arg, struct argp_state *state, train_settings *s) {
  static const char *const tasks[] = {"causal", "masked", "pairs", NULL};
  switch (key) {
    case KEY_DATA:
      add_word(s, &s->data, arg);
      return true;
    case KEY_VALID:
      add_word(s, &s->valid, arg);
      return true;
    case KEY_VALID_SHARE:
      s->valid_share = options_real(state, "--valid-share", arg, 0, 0.9);
      return true;
    case KEY_TASK:
      s->task = tasks[choice(state, "--task", arg, tasks)];
      return true;
    case KEY_FIELD:
      s->field = arg;
      return true;
    case KEY_ANSWER:
      s->answer_field = arg;
      return true;
    case KEY_LENGTH:
      s->length = SIZE("--length", 1 << 24);
      return true;
    case KEY_TARGET:
      s->target_length = SIZE("--target-length", 1 << 24);
      return true;
    case KEY_MASK:
      s->mask_share = options_real(state, "--mask-share", arg, 0.001, 1);
      return true;
    default:
      return false;
  }
}

static bool parse_model(int key, char *arg, struct argp_state *state, train_settings *s) {
  static const char *const families[] = {"gpt2", "llama", "bert", "bart", "t5", NULL};
  attend_architecture *a = &s->made;
  s->is_made |= key >= KEY_FAMILY && key <= KEY_UNTIED && key != KEY_VOCAB;
  switch (key) {
    case KEY_FAMILY:
      a->family = families[choice(state, "--family", arg, families)];
      return true;
    case KEY_LAYERS:
      a->layers = SIZE("--layers", 1024);
      return true;
    case KEY_DECODER_LAYERS:
      a->decoder_layers = SIZE("--decoder-layers", 1024);
      return true;
    case KEY_HEADS:
      a->heads = SIZE("--heads", 4096);
      return true;
    case KEY_KV_HEADS:
      a->kv_heads = SIZE("--kv-heads", 4096);
      return true;
    case KEY_WIDTH:
      a->width = SIZE("--width", 1 << 20);
      return true;
    case KEY_MLP:
      a->mlp = SIZE("--mlp", 1 << 24);
      return true;
    case KEY_DECODER_WIDTH:
      a->decoder_width = SIZE("--decoder-width", 1 << 20);
      return true;
    case KEY_DECODER_HEADS:
      a->decoder_heads = SIZE("--decoder-heads", 4096);
      return true;
    case KEY_DECODER_MLP:
      a->decoder_mlp = SIZE("--decoder-mlp", 1 << 24);
      return true;
    case KEY_POSITIONS:
      a->positions = SIZE("--positions", 1 << 24);
      return true;
    case KEY_COPY:
      a->copy = SIZE("--copy", 1 << 16);
      return true;
    case KEY_VOCAB:
      a->vocab = SIZE("--vocab", 1 << 24);
      return true;
    case KEY_UNTIED:
      a->untied = 1;
      return true;
    case KEY_TOKENIZER:
      s->tokenizer = arg;
      return true;
    case KEY_ATTENTION:
      a->attention = arg;
      return true;
    case KEY_ROLES:
      s->roles = arg;
      return true;
    default:
      return false;
  }
}

static bool parse_optimizer(int key, char *arg, struct argp_state *state, train_settings *s) {
  static const char *const optimizers[] = {"adamw", "sgd", NULL};
  static const char *const schedules[] = {"constant", "linear", "cosine", NULL};
  attend_optimizer_options *o = &s->optimizer;
  switch (key) {
    case KEY_OPTIMIZER:
      o->kind = (attend_optimizer_kind)choice(state, "--optimizer", arg, optimizers);
      return true;
    case KEY_RATE:
      s->rate = options_real(state, "--rate", arg, 0, 1e3);
      return true;
    case KEY_LEAST:
      s->least = options_real(state, "--least-rate", arg, 0, 1e3);
      return true;
    case KEY_WARMUP:
      s->warmup = COUNT("--warmup");
      return true;
    case KEY_SCHEDULE:
      s->schedule = (attend_schedule_kind)choice(state, "--schedule", arg, schedules);
      return true;
    case KEY_BETA1:
      o->beta1 = (float)options_real(state, "--beta1", arg, 0, 0.999999);
      return true;
    case KEY_BETA2:
      o->beta2 = (float)options_real(state, "--beta2", arg, 0, 0.999999);
      return true;
    case KEY_MOMENTUM:
      o->momentum = (float)options_real(state, "--momentum", arg, 0, 0.999999);
      return true;
    case KEY_DECAY:
      o->decay[ATTEND_MATRICES] = (float)options_real(state, "--decay", arg, 0, 10);
      return true;
    case KEY_DECAY_TABLES:
      o->decay[ATTEND_TABLES] = (float)options_real(state, "--decay-tables", arg, 0, 10);
      return true;
    case KEY_DECAY_VECTORS:
      o->decay[ATTEND_VECTORS] = (float)options_real(state, "--decay-vectors", arg, 0, 10);
      return true;
    case KEY_CLIP:
      o->clip = (float)options_real(state, "--clip", arg, 0, 1e6);
      return true;
    default:
      return false;
  }
}

static bool parse_course(int key, char *arg, struct argp_state *state, train_settings *s) {
  static const char *const kinds[] = {"f32", "bf16", NULL};
  switch (key) {
    case KEY_BATCH:
      s->batch = SIZE("--batch", 1 << 20);
      return true;
    case KEY_ACCUMULATE:
      s->accumulate = SIZE("--accumulate", 1 << 20);
      return true;
    case KEY_STEPS:
      s->steps = COUNT("--steps");
      s->epochs = 0;
      return true;
    case KEY_EPOCHS:
      s->epochs = options_real(state, "--epochs", arg, 1e-6, 1e6);
      return true;
    case KEY_SMOOTHING:
      s->smoothing = options_real(state, "--smoothing", arg, 0, 0.9);
      return true;
    case KEY_DROPOUT:
      s->dropout = options_real(state, "--dropout", arg, 0, 0.9);
      return true;
    case KEY_WEIGHTS:
      s->weights =
          choice(state, "--weights", arg, kinds) ? ATTEND_WEIGHTS_MIXED : ATTEND_WEIGHTS_F32;
      return true;
    case KEY_RECOMPUTE:
      s->recompute = true;
      return true;
    default:
      return false;
  }
}

static bool parse_keeping(int key, char *arg, struct argp_state *state, train_settings *s) {
  static const char *const kinds[] = {"f32", "bf16", NULL};
  switch (key) {
    case KEY_OUT:
      s->out = arg;
      return true;
    case KEY_RESUME:
      s->resume = true;
      return true;
    case KEY_RESUME_FROM:
      s->resume = s->resume_from = true;
      s->from_good = !strcmp(arg, "last-good");
      if (!s->from_good)
        s->from_step = options_number(state, "--resume-from", arg, 0, INT64_MAX / 2);
      return true;
    case KEY_SAVE:
      s->save_every = SIZE("--save-every", INT32_MAX);
      return true;
    case KEY_VALIDATE:
      s->valid_every = SIZE("--valid-every", INT32_MAX);
      return true;
    case KEY_VALID_BATCHES:
      s->valid_batches = COUNT("--valid-batches");
      return true;
    case KEY_LOG:
      s->log_every = SIZE("--log-every", INT32_MAX);
      return true;
    case KEY_KEEP:
      s->keep = COUNT("--keep");
      return true;
    case KEY_PATIENCE:
      s->patience = SIZE("--patience", INT32_MAX);
      return true;
    case KEY_AVERAGE:
      s->average = (int)options_number(state, "--average", arg, 2, 1 << 20);
      return true;
    case KEY_SAVE_AS:
      s->save_bf16 = choice(state, "--save-as", arg, kinds) == 1;
      return true;
    default:
      return false;
  }
}

static error_t parse(int key, char *arg, struct argp_state *state) {
  train_settings *s = state->input;
  if (key == ARGP_KEY_INIT) {
    options_share(state, 3);
    return 0;
  }
  if (key == ARGP_KEY_ARG) {
    if (state->arg_num > 0) argp_error(state, "name one model, or none");
    s->model = arg;
    return 0;
  }
  bool known = parse_data(key, arg, state, s) || parse_model(key, arg, state, s) ||
               parse_optimizer(key, arg, state, s) || parse_course(key, arg, state, s) ||
               parse_keeping(key, arg, state, s);
  return known ? 0 : ARGP_ERR_UNKNOWN;
}

static const struct argp_child children[] = {
    {&options_json, 0, "", 5}, {&options_run, 0, NULL, 5}, {&options_seed, 0, NULL, 5}, {0}};
const struct argp train_argp = {
    .options = list,
    .parser = parse,
    .args_doc = "[MODEL] --data FILE... --out DIR",
    .doc =
        "Train MODEL further, or a new model, on texts. DIR receives saved "
        "steps that attend and Hugging Face transformers open, log.jsonl and "
        "loss.svg, both updated while training. An interrupted run resumes "
        "bit-identically with --resume."
        "\vattend view --run DIR shows attention at each saved step.",
    .children = children};

train_settings train_defaults(void) {
  train_settings s = {.made = {ATTEND_INIT(attend_architecture)},
                      .valid_share = -1,
                      .steps = 1000,
                      .schedule = ATTEND_COSINE_RATE,
                      .rate = -1,
                      .least = -1,
                      .warmup = -1,
                      .optimizer = attend_optimizer_defaults()};
  s.optimizer.beta2 = 0.95f;
  s.optimizer.momentum = 0.9f;
  s.optimizer.decay[ATTEND_MATRICES] = 0.1f;
  s.optimizer.decay[ATTEND_TABLES] = 0;
  return s;
}
