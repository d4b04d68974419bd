/* A model against the quantities of a golden file.
 *
 * Called by cmd_verify.c.
 */
#ifndef CLI_GOLDEN_MODEL_H
#define CLI_GOLDEN_MODEL_H

#include "attend/file.h"
#include "attend/model.h"
#include "table.h"

enum { BATCHED, ALONE, CACHED, WAYS };
extern const char *const way_names[WAYS];
#define GOLDEN_BOUND 1e-4 /* of the largest */

typedef struct {
  const attend_tensor *tensor;
  float *ours[WAYS]; /* NULL: not computed this way */
} quantity;

typedef struct {
  attend_context *ctx;
  attend_model *model;
  const attend_config *config;
  attend_tensor_file *file;
  quantity *quantity;
  size_t count;
  int sequences, tokens, decoder_tokens;
  int32_t *ids, *decoder_ids, *types, *lengths; /* types may be NULL */
  int way, sequence, position;                  /* where what is seen belongs */
  table rows;
  size_t failed, skipped;
} golden_model;

/* Ids [rows, cols] of the file, or NULL; the caller frees them. */
int32_t *golden_ids(golden_model *g, const char *name, int *rows, int *cols);
quantity *golden_quantity(golden_model *g, const char *name);
void golden_row(golden_model *g, const char *name, const char *way,
                double error, double bound, const char *bits, bool ok);

/* golden_generated.c: a row each. */
attend_status judge_loss(golden_model *g);
attend_status judge_generated(golden_model *g, const char *name, int beams,
                              int prompts);
attend_status judge_uncached(golden_model *g);

/* Prints a row for each quantity and way; returns an exit code. */
int verify_model(attend_context *ctx, attend_model *model, const char *golden,
                 bool json);

#endif
