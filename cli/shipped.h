/* The models that come with the program: attend:NAME.
 *
 * Below model_path.c.
 */
#ifndef CLI_SHIPPED_H
#define CLI_SHIPPED_H

#include "cli.h"

/* The folder of a shipped model, or NULL. The caller frees it. */
char *shipped_find(const char *name);
/* "attend:a, attend:b"; "" if there is none. */
void shipped_names(char *text, size_t size);

#endif
