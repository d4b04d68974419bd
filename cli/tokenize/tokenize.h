/* attend tokenize: train.c has --train. */
#ifndef CLI_TOKENIZE_H
#define CLI_TOKENIZE_H

#include "cli.h"

/* Whether the arguments have --train. */
bool is_tokenize_train(int argc, char **argv);
int tokenize_train(int argc, char **argv);

#endif
