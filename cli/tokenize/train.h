/* attend tokenize --train: train a tokenizer on text. */
#ifndef CLI_TOKENIZE_TRAIN_H
#define CLI_TOKENIZE_TRAIN_H

#include "cli.h"

/* Whether the arguments have --train. */
bool is_tokenize_train(int argc, char **argv);
int tokenize_train(int argc, char **argv);

#endif
