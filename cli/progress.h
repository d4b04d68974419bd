/* A line on stderr that says how far a long run is.
 *
 * For whatever may take more than two seconds.
 */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include "cli.h"

/* Shows "what: done of total" once two seconds have passed since
 * progress_start, and then ten times a second at most; only on a terminal. */
void progress_start(const char *what, size_t total);
void progress_step(size_t done, const char *now);
/* The same as a bar, with the time that is left: `share` of the work is done. */
void progress_share(double share, const char *now);
/* The same as a bar, for totals that are bytes (0: not known): `done` of them
 * are here, of which `before` were when progress_start was called. */
void progress_bytes(size_t done, size_t before);
/* The same at once, for a step that will not report until it ends. */
void progress_note(const char *now);
void progress_end(void);

double seconds_now(void);

#endif
