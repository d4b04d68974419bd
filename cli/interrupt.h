/* Ctrl-C: the first requests a stop, the second kills. For verbs that print or save
 * partial results.
 */
#ifndef CLI_INTERRUPT_H
#define CLI_INTERRUPT_H

#include "cli.h"

enum { EXIT_INTERRUPTED = 130 }; /* as in shells: 128 + SIGINT */

/* From here on the first interrupt only sets a flag. */
void interrupt_watch(void);
/* The same for SIGTERM and SIGHUP (unless ignored, nohup). */
void interrupt_watch_ends(void);
bool is_interrupted(void);

#endif
