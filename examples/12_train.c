/* A small GPT-2 trained to recite a rhyme: 12_train [DIRECTORY]
 *
 * Untrained weights, letters as tokens, AdamW. After 150 steps the model continues the
 * rhyme. With a DIRECTORY, config.json and model.safetensors are saved there, in Hugging
 * Face layout.
 */
#include <attend/attend.h>
#include <attend/generate.h>
#include <attend/train.h>
#include <stdio.h>
#include <stdlib.h>

static const char rhyme[] =
    "One for the query, two for the key, three for the value, and out comes "
    "he. ";
static const char config[] =
    "{\"model_type\": \"gpt2\", \"n_layer\": 2, \"n_head\": 4, \"n_embd\": 64, "
    "\"vocab_size\": 128, \"n_positions\": 128, \"bos_token_id\": 0, "
    "\"eos_token_id\": 0}\n";
enum { LENGTH = sizeof rhyme - 2, STEPS = 150, SAY = 24 };

#define TRY(call) \
  if (call) return fprintf(stderr, "%s\n", attend_message(ctx)), 1

static int write_config(const char *folder, char *path, size_t size) {
  snprintf(path, size, "%s/config.json", folder);
  FILE *file = fopen(path, "w");
  if (!file || fputs(config, file) < 0 || fclose(file))
    return fprintf(stderr, "%s cannot be written\n", path), 1;
  return 0;
}

int main(int argc, char **argv) {
  char spare[] = "/tmp/attend-12-XXXXXX", path[4096], weights[4096];
  const char *folder = argc > 1 ? argv[1] : mkdtemp(spare);
  if (!folder || write_config(folder, path, sizeof path)) return 1;

  attend_context *ctx;
  attend_checkpoint *files;
  attend_trainer *trainer;
  attend_optimizer *optimizer;
  TRY(attend_context_create(NULL, &ctx));
  TRY(attend_checkpoint_init_pytorch(ctx, folder, 1, &files));
  TRY(attend_trainer_create(files, NULL, &trainer));
  TRY(attend_optimizer_create(trainer, NULL, &optimizer));

  int32_t ids[LENGTH], next[LENGTH];
  for (int i = 0; i < LENGTH; i++) ids[i] = rhyme[i], next[i] = rhyme[i + 1];
  attend_batch batch = {ATTEND_INIT(attend_batch), .count = 1, .length = LENGTH, .ids = ids,
                        .targets = next};
  attend_schedule rate = {ATTEND_COSINE_RATE, 3e-3, 3e-4, 10, STEPS};
  for (int i = 0; i < STEPS; i++) {
    attend_batch_loss got;
    attend_trainer_zero_grad(trainer);
    TRY(attend_trainer_accumulate(trainer, &batch, &got));
    TRY(attend_optimizer_step(optimizer, (float)attend_schedule_at(&rate, (uint64_t)i), NULL));
    if (i % 50 == 0 || i == STEPS - 1) printf("step %3d: loss %.4f\n", i, got.loss / got.scored);
  }
  snprintf(weights, sizeof weights, "%s/model.safetensors", folder);
  TRY(attend_trainer_save(trainer, weights, ATTEND_STORED_F32));
  attend_optimizer_free(optimizer);
  attend_trainer_free(trainer);
  attend_checkpoint_free(files);

  attend_model *model;
  attend_generation *said;
  attend_generate_options o = {ATTEND_INIT(attend_generate_options)};
  attend_prompt prompt = {ids, 20};
  o.max_new = SAY;
  o.ignore_end = true;
  TRY(attend_checkpoint_open(ctx, folder, &files));
  TRY(attend_model_create(files, NULL, &model));
  TRY(attend_generate(model, 1, &prompt, &o, &said));
  const attend_continuation *c = attend_generation_get(said, 0);
  printf("%.20s|", rhyme);
  for (int i = 0; i < c->count; i++) putchar((char)c->ids[i]);
  putchar('\n');
  int wrong = 0;
  for (int i = 0; i < SAY; i++) wrong += c->ids[i] != rhyme[20 + i];

  attend_generation_free(said);
  attend_model_free(model);
  attend_checkpoint_free(files);
  attend_context_free(ctx);
  if (argc < 2) remove(path), remove(weights), remove(folder);
  return wrong != 0;
}
