/* An open tensor file: tensor_file.c reads safetensors, numpy_file.c .npy and .npz. */
#ifndef BASE_TENSOR_FILE_H
#define BASE_TENSOR_FILE_H

#include "attend/file.h"
#include "attend/json.h"
#include "base/base.h"

/* Names and data that are not in the mapped file. */
typedef struct tensor_block {
  struct tensor_block *next;
  _Alignas(64) unsigned char bytes[];
} tensor_block;

struct attend_tensor_file {
  attend_context *ctx;
  const char *path; /* only while opening */
  unsigned char *map;
  size_t size, header; /* bytes of the file, of its JSON */
  attend_json *root;   /* safetensors only */
  const attend_json *notes;
  attend_tensor *tensor; /* [count] in the order of the header */
  size_t count;
  tensor_block *blocks;
};

/* Whether the file is one of NumPy's, by its first bytes. */
bool numpy_file_is(const attend_tensor_file *f);
attend_status numpy_file_read(attend_tensor_file *f);

#endif
