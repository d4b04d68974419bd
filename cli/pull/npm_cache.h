/* Where models that came as npm packages lie on this machine.
 *
 * `attend pull` fills it, model_path looks into it:
 *
 *   CACHE/attend/npm/PACKAGE/VERSION/    what was in the package
 */
#ifndef CLI_NPM_CACHE_H
#define CLI_NPM_CACHE_H

#include "cli.h"

typedef struct {
  char *whole;   /* as npm takes it: NAME, NAME@VERSION, a tarball's path */
  char *name;    /* NULL: a tarball */
  char *version; /* NULL: the newest */
} npm_spec;

/* Reads PACKAGE[@VERSION] or FILE.tgz, with or without "npm:". Complains. */
bool npm_spec_read(const char *given, npm_spec *spec);
void npm_spec_free(npm_spec *spec);

bool is_npm_name(const char *name);

char *npm_cache_root(void); /* NULL after a complaint */
/* The folder of the package in the version asked for, else in the newest that
 * is there. NULL: it is not there, or a complaint. */
char *npm_cache_find(const npm_spec *spec);

/* The folder that holds config.json, if there is one that lies higher than
 * all others; else the package's own. The caller frees it. */
char *npm_model_folder(const char *package);

#endif
