/* A MODEL argument, as a place on disk.
 *
 * Every verb that takes a model asks here first.
 */
#include "model_path.h"

#include <stdlib.h>
#include <string.h>

#include "folders.h"
#include "pull/hub_cache.h"
#include "pull/npm_cache.h"
#include "shipped.h"

const char *const settings_files[] = {"config.json", "generation_config.json",
                                      NULL};
const char *const tokenizer_files[] = {"tokenizer.json",
                                       "vocab.json",
                                       "tokenizer_config.json",
                                       "special_tokens_map.json",
                                       "added_tokens.json",
                                       "merges.txt",
                                       "vocab.txt",
                                       "tokenizer.model",
                                       "spiece.model",
                                       "sentencepiece.bpe.model",
                                       "tokenizer.bin",
                                       "tok512.bin",
                                       NULL};

/* The snapshot's folder if it is there. */
static char *snapshot_of(const hub_cache *cache, const char *revision) {
  char *commit = hub_cache_commit(cache, revision);
  char *folder = commit ? hub_cache_snapshot(cache, commit) : NULL;
  free(commit);
  if (folder && is_folder(folder)) return folder;
  free(folder);
  return NULL;
}

static char *in_hub_cache(const char *given, int *code) {
  hub_spec spec;
  hub_cache cache;
  char *folder = NULL;
  *code = EXIT_USAGE;
  if (!hub_spec_read(given, &spec)) return NULL;
  *code = EXIT_FAILED;
  if (hub_cache_open(&spec, &cache)) {
    folder = snapshot_of(&cache, spec.revision);
    if (!folder)
      complain("%s is not in %s: run attend pull %s", given, cache.root, given);
    hub_cache_close(&cache);
  }
  hub_spec_free(&spec);
  return folder;
}

static char *in_npm_cache(const char *given, int *code) {
  npm_spec spec;
  char *folder = NULL;
  *code = EXIT_USAGE;
  if (!npm_spec_read(given, &spec)) return NULL;
  char *package = npm_cache_find(&spec);
  if (package) {
    folder = npm_model_folder(package);
  } else if (spec.name) {
    *code = EXIT_FAILED;
    complain("%s has not been pulled: run attend pull %s", given, given);
  } else {
    complain(
        "%s is no package's name: run attend pull %s, and give the "
        "folder that it prints",
        given, given);
  }
  free(package);
  npm_spec_free(&spec);
  return folder;
}

static char *npm_if_pulled(const char *given) {
  npm_spec spec;
  char *folder = NULL;
  if (!npm_spec_read(given, &spec)) return NULL;
  char *package = npm_cache_find(&spec);
  if (package) folder = npm_model_folder(package);
  free(package);
  npm_spec_free(&spec);
  return folder;
}

static char *hub_if_pulled(const char *given) {
  hub_spec spec;
  hub_cache cache;
  char *folder = NULL;
  if (!hub_spec_read(given, &spec)) return NULL;
  if (hub_cache_open(&spec, &cache)) {
    folder = snapshot_of(&cache, spec.revision);
    hub_cache_close(&cache);
  }
  hub_spec_free(&spec);
  return folder;
}

char *model_path_if_pulled(const char *given) {
  return !strncmp(given, "npm:", 4) ? npm_if_pulled(given)
                                    : hub_if_pulled(given);
}

static char *among_shipped(const char *given, int *code) {
  char *folder = shipped_find(given + strlen("attend:")), all[512];
  if (folder) return folder;
  shipped_names(all, sizeof all);
  complain("%s does not come with this program: %s%s", given,
           *all ? "these do: " : "",
           *all ? all
                : "no models were found beside it (ATTEND_MODELS says "
                  "where they are)");
  *code = EXIT_FAILED;
  return NULL;
}

/* What attend train made is its best step, unless nothing was measured. */
static char *in_run(const char *given) {
  static const char *const places[] = {"", "/best", "/last"};
  for (int i = 0; i < 3; i++) {
    char *folder = path_of("%s%s", given, places[i]);
    char *config = path_of("%s/config.json", folder);
    bool there = file_bytes(config) >= 0;
    free(config);
    if (there) return folder;
    free(folder);
  }
  return need_copy(given);
}

char *model_path(const char *given, int *code) {
  *code = EXIT_OK;
  char *path = !strncmp(given, "hf:", 3)       ? in_hub_cache(given, code)
               : !strncmp(given, "npm:", 4)    ? in_npm_cache(given, code)
               : !strncmp(given, "attend:", 7) ? among_shipped(given, code)
                                               : in_run(given);
  if (path) *code = EXIT_OK;
  return path;
}
