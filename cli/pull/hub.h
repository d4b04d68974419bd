/* The protocol of a Hugging Face hub: HF_ENDPOINT, else https://huggingface.co.
 *
 *   GET  /api/models/ID/revision/REVISION    the commit, and all files' names
 *   HEAD /ID/resolve/COMMIT/FILE             the file's hash and size
 *   GET  /ID/resolve/COMMIT/FILE             its bytes, often by a redirect
 *
 * The hash is the etag: SHA-256 of large files (LFS), git's blob id of others.
 */
#ifndef CLI_PULL_HUB_H
#define CLI_PULL_HUB_H

#include "folders.h"
#include "pull/hub_cache.h"
#include "pull/transfer.h"

typedef struct {
  const attend_model_name *model;
  attend_context *ctx;
  char *endpoint;
  bool has_token;
  transfer *line; /* NULL: offline */
  char *commit;
  names files; /* all that the repository has, in order */
} hub;

typedef struct {
  char etag[HEADER_SIZE]; /* 40 or 64 digits */
  int64_t size;           /* -1: not said */
} hub_file;

/* All complain and return an exit code. */
int hub_open(const attend_model_name *model, attend_context *ctx, hub *h);
int hub_list(hub *h);
int hub_ask(const hub *h, const char *name, hub_file *file);
/* Appends what is missing to the file at `path`. */
int hub_fetch(const hub *h, const char *name, const hub_file *file, const char *path);
void hub_close(hub *h);

#endif
