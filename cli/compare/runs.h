/* attend compare --runs. */
#ifndef CLI_RUNS_H
#define CLI_RUNS_H

#include "cli.h"

/* Whether the arguments of compare have --runs. */
bool is_compare_runs(int argc, char **argv);
int compare_runs(int argc, char **argv);

#endif
