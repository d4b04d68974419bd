/* A MODEL argument, as a place on disk.
 *
 * Every verb that takes a model asks here first.
 */
#ifndef CLI_MODEL_PATH_H
#define CLI_MODEL_PATH_H

#include "cli.h"

/* hf:OWNER/NAME[@REVISION] and npm:PACKAGE[@VERSION] become the folders that
 * `attend pull` left them in, attend:NAME a model that ships, a folder that
 * attend train made its best step; anything else stays as it is. The caller
 * frees it. NULL after a complaint; *code then is the exit code. Nothing is
 * fetched: what runs a model needs no network. */
char *model_path(const char *given, int *code);
/* The same without a word if it was not pulled: NULL. */
char *model_path_if_pulled(const char *given);

/* Names that the files of a tokenizer, and those of a model's settings, have; both
 * end with NULL. */
extern const char *const tokenizer_files[];
extern const char *const settings_files[];

#endif
