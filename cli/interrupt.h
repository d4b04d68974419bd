/* Ctrl-C: the first asks for an end, the second is one.
 *
 * Place: cli/ - for verbs whose work so far is worth printing.
 */
#ifndef CLI_INTERRUPT_H
#define CLI_INTERRUPT_H

#include "cli.h"

enum { EXIT_INTERRUPTED = 130 }; /* as shells count: 128 + SIGINT */

/* From here on the first interrupt is only noted. */
void interrupt_watch(void);
bool is_interrupted(void);

#endif
