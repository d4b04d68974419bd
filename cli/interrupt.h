/* Ctrl-C: the first asks for an end, the second is one.
 *
 * For verbs whose work so far is worth printing.
 */
#ifndef CLI_INTERRUPT_H
#define CLI_INTERRUPT_H

#include "cli.h"

enum { EXIT_INTERRUPTED = 130 }; /* as shells count: 128 + SIGINT */

/* From here on the first interrupt is only noted. */
void interrupt_watch(void);
/* And the first wish that the program end: a batch system's, a closed terminal's
 * unless that is to be ignored (nohup). */
void interrupt_watch_ends(void);
bool is_interrupted(void);

#endif
