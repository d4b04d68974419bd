/* A MODEL argument as a path on disk. */
#ifndef CLI_MODEL_PATH_H
#define CLI_MODEL_PATH_H

#include "cli.h"

/* attend_model_find (attend/find.h) for a command line: the caller frees the path. NULL
 * after an error message; *code is then the exit code. */
char *model_path(const char *given, int *code);
/* The same without a message: NULL if the model is not on this machine. */
char *model_path_if_pulled(const char *given);

/* File names of a tokenizer, and of a model's settings; both lists end with NULL. */
extern const char *const tokenizer_files[];
extern const char *const settings_files[];

#endif
