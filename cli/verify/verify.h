/* What verify and bench share. */
#ifndef CLI_VERIFY_H
#define CLI_VERIFY_H

#include "attend/verify.h"
#include "cli.h"

/* A note on the terminal before the definition of a problem is computed, if that
 * takes seconds: it reports no progress. */
void verify_note(const attend_problem *problem);

#endif
