/* What attend summarize --long was asked for. */
#ifndef CLI_LONG_OPTIONS_H
#define CLI_LONG_OPTIONS_H

#include <argp.h>
#include <stdbool.h>

typedef struct {
  bool chunks, linear;
  bool tree;        /* summaries of parts too */
  const char *work; /* a folder that keeps what is done */
  int parts;        /* go on until so few summaries are left; 0: 1 */
  int levels;       /* of summaries, at most; 0: as many as it takes */
  bool stats;
} long_options;

/* A child of the verb's argp; its input is a long_options. */
extern const struct argp options_long;

#endif
