/* Sentence vectors by an encoder: 10_encoder [MODEL]
 *
 * The vector of a text is the mean of its tokens' hidden states, normalised, so that
 * a dot product is a cosine. Two of the three texts differ in one token. In a padded
 * batch and one by one the bits are the same. 16_embed.c does the same with a
 * tokenizer and the pooling of the model's directory.
 */
#include <attend/attend.h>
#include <attend/model.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXTS = 3, LONGEST = 9 };

static const int32_t ids[TEXTS][LONGEST] = {
    {2, 17, 40, 96, 51, 120, 8, 33, 3}, {2, 17, 40, 96, 52, 120, 8, 33, 3}, {2, 180, 77, 3}};
static const int32_t lengths[TEXTS] = {9, 9, 4};

#define TRY(call) \
  if (call) return fprintf(stderr, "%s\n", attend_message(ctx)), 1

/* The mean of `count` rows, normalised. */
static void pool(const float *rows, int ld, int count, int width, float *out) {
  double sum = 0;
  for (int i = 0; i < width; i++) {
    double mean = 0;
    for (int t = 0; t < count; t++) mean += (double)rows[t * ld + i] / count;
    out[i] = (float)mean;
    sum += mean * mean;
  }
  for (int i = 0; i < width; i++) out[i] = (float)((double)out[i] / sqrt(sum));
}

static double dot(const float *a, const float *b, int width) {
  double sum = 0;
  for (int i = 0; i < width; i++) sum += (double)a[i] * (double)b[i];
  return sum;
}

int main(int argc, char **argv) {
  const char *path = argc > 1 ? argv[1] : "tests/golden/models/bert";
  attend_context *ctx;
  attend_checkpoint *files;
  attend_model *model;
  attend_session *session;
  attend_model_options no_head = {ATTEND_INIT(attend_model_options),
                                  .no_head = 1}; /* vectors need no logits */
  attend_session_options batch = {ATTEND_INIT(attend_session_options), .batch = TEXTS};
  TRY(attend_context_create(NULL, &ctx));
  TRY(attend_checkpoint_open(ctx, path, &files));
  TRY(attend_model_create(files, &no_head, &model));
  TRY(attend_session_create(model, &batch, &session));

  int width = attend_config_stack(attend_model_config(model), ATTEND_ENCODER)->width, ld;
  float *together = malloc(TEXTS * (size_t)width * sizeof *together);
  float *alone = malloc(TEXTS * (size_t)width * sizeof *alone);
  if (!together || !alone) return 1;

  /* All in one batch: lengths exclude the padding. */
  TRY(attend_session_encode(session, TEXTS, LONGEST, *ids, lengths, NULL));
  const float *hidden = attend_session_hidden(session, &ld);
  for (int b = 0; b < TEXTS; b++)
    pool(hidden + b * LONGEST * ld, ld, lengths[b], width, together + b * width);

  for (int b = 0; b < TEXTS; b++) {
    TRY(attend_session_encode(session, 1, lengths[b], ids[b], NULL, NULL));
    pool(attend_session_hidden(session, &ld), ld, lengths[b], width, alone + b * width);
  }

  puts("cosines");
  for (int i = 0; i < TEXTS; i++) {
    for (int j = 0; j < TEXTS; j++)
      printf("%8.3f", dot(together + i * width, together + j * width, width));
    putchar('\n');
  }
  int same = !memcmp(together, alone, TEXTS * (size_t)width * sizeof *alone);
  printf("in a batch and alone: %s bits\n", same ? "the same" : "DIFFERENT");
  double near = dot(together, together + width, width);
  double far = dot(together, together + 2 * width, width);

  free(together);
  free(alone);
  attend_session_free(session);
  attend_model_free(model);
  attend_checkpoint_free(files);
  attend_context_free(ctx);
  return !(same && near > far);
}
