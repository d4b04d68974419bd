/* A progress line on stderr, for whatever may take more than two seconds; and Ctrl-C. */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include "cli.h"

/* Shows "what: done of total" once two seconds have passed since
 * progress_start, and then ten times a second at most; only on a terminal. */
void progress_start(const char *what, size_t total);
void progress_step(size_t done, const char *now);
/* The same as a bar, with the remaining time; `share` of the work is done. now may be NULL. */
void progress_share(double share, const char *now);
/* The same as a bar in bytes (total 0: unknown): `done` of them, of which `before`
 * existed at progress_start. */
void progress_bytes(size_t done, size_t before);
/* Shows a note at once, for a step without progress. */
void progress_note(const char *now);
/* An attend_progress: progress_share, or progress_note for NaN. Stops after an interrupt that
 * is watched for. */
int progress_report(double done, const char *what, void *user);
void progress_end(void);

double seconds_now(void);

/* Ctrl-C: the first requests a stop, the second kills. For verbs that print or save
 * partial results. */
enum { EXIT_INTERRUPTED = 130 }; /* as in shells: 128 + SIGINT */

/* From here on the first interrupt only sets a flag. */
void interrupt_watch(void);
/* The same for SIGTERM and SIGHUP (unless ignored, nohup). */
void interrupt_watch_ends(void);
bool is_interrupted(void);

#endif
