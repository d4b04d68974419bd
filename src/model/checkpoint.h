/* A checkpoint: the parameter table, and where each entry lies in the files. Only
 * headers are read here.
 *
 * The table is expanded once from a family's lines and drives everything that
 * iterates over parameters: loading, packing, describing, training.
 */
#ifndef MODEL_CHECKPOINT_H
#define MODEL_CHECKPOINT_H

#include "model/family.h"

enum { LONGEST_NAME = 256 };

typedef struct parameter {
  char name[LONGEST_NAME]; /* in the files, once found */
  enum slot slot;
  attend_parts of;
  int layer; /* -1: of no layer */
  bool is_bias, transposed, may_lack, outside, fixed;
  int rank;
  int64_t shape[2];  /* outputs, inputs: not transposed */
  const char *names; /* the line's, with alternatives; then the suffix */
  const char *suffix;
  const attend_tensor *tensor;
} parameter;

typedef struct {
  parameter *entry;
  size_t count;
} parameter_table;

/* The family's name of it, with the prefix unless it is outside. */
void parameter_name(const parameter *p, const char *prefix, char name[LONGEST_NAME]);

typedef struct {
  const attend_tensor *tensor;
  int file;
  bool used; /* the table has it */
} named_tensor;

struct attend_checkpoint {
  attend_context *ctx;
  const family *family;
  attend_config config;
  attend_digest settings; /* of config.json */
  attend_tensor_file **file;
  int files;
  size_t bytes;
  named_tensor *list; /* [tensors] of all files by name, while searching; */
  size_t tensors;     /* afterwards the unused ones, in file order */
  parameter_table table;
  attend_tensor *drawn;      /* [table.count] of untrained weights, or NULL */
  char prefix[LONGEST_NAME]; /* before the base model's names */
};

/* attend_checkpoint_open as a family; NULL: as config.json says. */
attend_status checkpoint_open_as(attend_context *ctx, const char *path, const family *f,
                                 attend_checkpoint **checkpoint);

/* A checkpoint of the config.json at path (as family f; NULL: as model_type says), with at
 * least so many positions if they are limited, whose tensors come from `fill`. */
attend_status checkpoint_make(attend_context *ctx, const char *path, const family *f, int positions,
                              attend_status (*fill)(attend_checkpoint *c, const void *user),
                              const void *user, attend_checkpoint **checkpoint);

/* Untrained weights, as attend_checkpoint_init (training) or attend_checkpoint_init_pytorch,
 * with at least so many positions. */
attend_status checkpoint_init(attend_context *ctx, const char *path, uint64_t seed, int positions,
                              bool training, attend_checkpoint **checkpoint)
    FOR_LAB(checkpoint_init);

/* The entry of that slot, or NULL if the table or the files have none. */
const parameter *checkpoint_find(const attend_checkpoint *c, enum slot slot, attend_parts of,
                                 int layer, bool is_bias);
/* F32, F16 or BF16. */
bool tensor_dtype(const attend_tensor *t, attend_dtype *dtype);
/* Releases the file pages of this memory. user: a checkpoint. */
void checkpoint_release(const void *from, size_t bytes, void *user);

#endif
