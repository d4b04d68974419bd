/* The options of attend train. */
#include <string.h>

#include "train/train.h"

#define MANY (INT64_MAX / 2)
#define MADE MARK(train_settings, is_made, 1)

static void read_steps(struct argp_state *state, const char *arg, void *value, void *input) {
  train_settings *s = input;
  (void)value;
  s->steps = options_number(state, "--steps", arg, 0, MANY);
  s->epochs = 0;
}

static void read_resume_from(struct argp_state *state, const char *arg, void *value, void *input) {
  train_settings *s = input;
  (void)value;
  s->resume = s->resume_from = true;
  s->from_good = !strcmp(arg, "last-good");
  if (!s->from_good) s->from_step = options_number(state, "--resume-from", arg, 0, MANY);
}

static const option_row own[] = {
    {.help = "Data:"},
    {"data", "FILE", "Text, .jsonl or .tsv (pairs); may be repeated", LIST(train_settings, data)},
    {"valid", "FILE", "Validation data; may be repeated", LIST(train_settings, valid)},
    {"valid-share", "X",
     "Hold this share of the data out for validation (default: 0.02 without --valid; 0: no "
     "validation)",
     REAL(train_settings, valid_share, 0, 0.9)},
    {"task", "NAME",
     "causal (the next token), masked or pairs (default: by the model; pairs if the data are "
     ".tsv)",
     WORD(train_settings, task, "causal, masked or pairs")},
    {"field", "NAME", "Of .jsonl: the text (default: text; of pairs document or source)",
     TEXT(train_settings, field)},
    {"answer-field", "NAME", "Of .jsonl pairs: the answer (default: summary or target)",
     TEXT(train_settings, answer_field)},
    {"length", "N", "Largest number of tokens of a text (default: 256, or the model's positions)",
     NUMBER(train_settings, length, 1, 1 << 24)},
    {"target-length", "N", "Of pairs: largest number of tokens of an answer (default: as --length)",
     NUMBER(train_settings, target_length, 1, 1 << 24)},
    {"mask-share", "X", "Masked: share of tokens to predict (default: 0.15)",
     REAL(train_settings, mask_share, 0.001, 1)},
    {.help = "A new model:"},
    {"family", "NAME", "gpt2, llama, bert, bart or t5 (default: gpt2)",
     WORD(train_settings, made.family, "gpt2, llama, bert, bart or t5"), MADE},
    {"layers", "N", "(default: 4)", NUMBER(train_settings, made.layers, 1, 1024), MADE},
    {"decoder-layers", "N", "Of an encoder-decoder (default: as many)",
     NUMBER(train_settings, made.decoder_layers, 1, 1024), MADE},
    {"heads", "N", "(default: 4)", NUMBER(train_settings, made.heads, 1, 4096), MADE},
    {"kv-heads", "N", "Llama (default: as many)", NUMBER(train_settings, made.kv_heads, 1, 4096),
     MADE},
    {"width", "N", "(default: 256)", NUMBER(train_settings, made.width, 1, 1 << 20), MADE},
    {"mlp", "N", "Inner width of the MLP (default: 4 widths; llama 8/3)",
     NUMBER(train_settings, made.mlp, 1, 1 << 24), MADE},
    {"decoder-width", "N",
     "Of an encoder-decoder; --width is then the encoder's (default: as --width)",
     NUMBER(train_settings, made.decoder_width, 1, 1 << 20), MADE},
    {"decoder-heads", "N", "(default: as --heads)",
     NUMBER(train_settings, made.decoder_heads, 1, 4096), MADE},
    {"decoder-mlp", "N", "(default: as --mlp, or 4 decoder widths)",
     NUMBER(train_settings, made.decoder_mlp, 1, 1 << 24), MADE},
    {"positions", "N", "Longest sequence (default: as --length)",
     NUMBER(train_settings, made.positions, 1, 1 << 24), MADE},
    {"untied", NULL, "A head that does not share the embedding", FLAG(train_settings, untied),
     MADE},
    {"copy", "N",
     "Bart, t5: a pointer-generator head that copies source tokens, with keys of this width "
     "(default: none)",
     NUMBER(train_settings, made.copy, 1, 1 << 16), MADE},
    {"tokenizer", "PATH",
     "Of a new model, or instead of MODEL's (attend tokenize --train makes one; without it "
     "one is trained on the data)",
     TEXT(train_settings, tokenizer)},
    {"vocab", "N", "Tokens of a tokenizer that is trained (default: 4096)",
     NUMBER(train_settings, made.vocab, 1, 1 << 24)},
    {"attention", "FORM", "Train with this form of attention, such as elu or favor(m=64)",
     TEXT(train_settings, made.attention)},
    {"attention-roles", "ROLES",
     "Roles with that form: encoder, decoder, cross or several with commas (default: all)",
     TEXT(train_settings, roles)},
    {.help = "Training:"},
    {"batch", "N", "Texts of a batch (default: 8)", NUMBER(train_settings, batch, 1, 1 << 20)},
    {"accumulate", "N", "Batches of a step (default: 1)",
     NUMBER(train_settings, accumulate, 1, 1 << 20)},
    {"steps", "N", "Number of steps (default: 1000)", CALL(train_settings, steps, read_steps)},
    {"epochs", "X", "Steps as epochs over the data", REAL(train_settings, epochs, 1e-6, 1e6)},
    {"optimizer", "NAME", "adamw or sgd (default: adamw)",
     CHOICE(train_settings, optimizer.kind, "adamw or sgd")},
    {"rate", "X", "Peak learning rate (default: 1e-3 for a new model, else 1e-4)",
     REAL(train_settings, rate, 0, 1e3)},
    {"least-rate", "X", "Final learning rate (default: a tenth; linear: 0)",
     REAL(train_settings, min, 0, 1e3)},
    {"warmup", "N", "Warm-up steps (default: 100, a tenth of all at most)",
     NUMBER(train_settings, warmup, 0, MANY)},
    {"schedule", "NAME", "Of the rate: cosine, linear or constant (default: cosine)",
     CHOICE(train_settings, schedule, "constant, linear or cosine")},
    {"beta1", "X", "AdamW (default: 0.9)", REAL(train_settings, optimizer.beta1, 0, 0.999999)},
    {"beta2", "X", "AdamW (default: 0.95)", REAL(train_settings, optimizer.beta2, 0, 0.999999)},
    {"momentum", "X", "SGD (default: 0.9)", REAL(train_settings, optimizer.momentum, 0, 0.999999)},
    {"decay", "X", "Weight decay of matrices (default: 0.1)",
     REAL(train_settings, optimizer.decay[ATTEND_MATRICES], 0, 10)},
    {"decay-tables", "X", "Of embeddings and positions (default: 0)",
     REAL(train_settings, optimizer.decay[ATTEND_TABLES], 0, 10)},
    {"decay-vectors", "X", "Of biases and norms (default: 0)",
     REAL(train_settings, optimizer.decay[ATTEND_VECTORS], 0, 10)},
    {"clip", "X", "Largest norm of the gradient; 0: no limit (default: 1)",
     REAL(train_settings, optimizer.clip, 0, 1e6)},
    {"smoothing", "X", "Label smoothing (default: 0)", REAL(train_settings, smoothing, 0, 0.9)},
    {"dropout", "X", "(default: 0)", REAL(train_settings, dropout, 0, 0.9)},
    {"weights", "KIND", "Multiply in f32 or bf16; values and sums stay f32 (default: f32)",
     CHOICE(train_settings, weights_bf16, "f32 or bf16")},
    {"precision", "KIND",
     "Of activations: f32, or bf16, half the memory, with products as with --weights bf16 "
     "(default: f32)",
     CHOICE(train_settings, bf16, "f32 or bf16")},
    {"recompute", NULL,
     "Recompute activations in backward: less memory, a fifth more time, the same bits",
     FLAG(train_settings, recompute)},
    {.help = "The run:"},
    {"out", "DIR", "The directory of the run", TEXT(train_settings, out)},
    {"resume", NULL,
     "Resume from the last checkpoint in --out, with the original options and those given now; "
     "start if there is none",
     FLAG(train_settings, resume)},
    {"resume-from", "STEP",
     "Resume from this checkpoint, or last-good: the last undamaged one; later ones are removed",
     CALL(train_settings, from_step, read_resume_from)},
    {"save-every", "N", "Steps (default: a tenth of all)",
     NUMBER(train_settings, save_every, 1, INT32_MAX)},
    {"valid-every", "N", "Steps (default: as --save-every)",
     NUMBER(train_settings, valid_every, 1, INT32_MAX)},
    {"valid-batches", "N", "Batches of a validation, at most (default: all)",
     NUMBER(train_settings, valid_batches, 0, MANY)},
    /* The name until 0.1, which run.json of older runs has. */
    {"valid-lessons", "N", NULL, NUMBER(train_settings, valid_batches, 0, MANY), .hidden = true},
    {"log-every", "N", "Steps (default: a hundredth of all)",
     NUMBER(train_settings, log_every, 1, INT32_MAX)},
    {"keep", "N", "Checkpoints to keep besides the first, the best and the last (default: all)",
     NUMBER(train_settings, keep, 0, MANY)},
    {"patience", "N", "Stop after N validations without improvement",
     NUMBER(train_settings, patience, 1, INT32_MAX)},
    {"average", "N",
     "At the end, write DIR/average: the mean of the last N checkpoints; with --resume also for a "
     "finished run",
     NUMBER(train_settings, average, 2, 1 << 20)},
    {"save-as", "KIND", "f32 or bf16 (default: f32)",
     CHOICE(train_settings, save_bf16, "f32 or bf16")},
    {0}};

static const option_part parts[] = {{own, 0},
                                    {option_rows_json, offsetof(train_settings, common)},
                                    {option_rows_run, offsetof(train_settings, common)},
                                    {option_rows_seed, offsetof(train_settings, common)},
                                    {0}};

static void finish(struct argp_state *state, char **words, int count, void *input) {
  train_settings *s = input;
  if (count > 1) argp_error(state, "name one model, or none");
  if (count) s->model = words[0];
  s->made.untied = s->untied;
}

const verb_options verb_train = {
    parts, "[MODEL] --data FILE... --out DIR",
    "Train MODEL further, or a new model, on texts. DIR receives checkpoints that attend and "
    "Hugging Face transformers open, and log.jsonl and loss.svg, which are updated during "
    "training. An interrupted run resumes bit-identically with --resume.\vattend view --run DIR "
    "shows attention at each checkpoint.",
    finish};

train_settings train_defaults(void) {
  train_settings s = {.made = {ATTEND_INIT(attend_architecture)},
                      .valid_share = -1,
                      .steps = 1000,
                      .schedule = ATTEND_COSINE_RATE,
                      .rate = -1,
                      .min = -1,
                      .warmup = -1,
                      .optimizer = {ATTEND_INIT(attend_optimizer_options), .beta1 = 0.9f,
                                    .beta2 = 0.95f, .momentum = 0.9f, .clip = 1}};
  s.optimizer.decay[ATTEND_MATRICES] = 0.1f;
  return s;
}
