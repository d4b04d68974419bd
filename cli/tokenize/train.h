/* attend tokenize --train: learn a tokenizer from text.
 *
 * The part of the verb that makes what the rest of it reads.
 */
#ifndef CLI_TOKENIZE_TRAIN_H
#define CLI_TOKENIZE_TRAIN_H

#include "cli.h"

/* Whether the arguments ask for it. */
bool is_tokenize_train(int argc, char **argv);
int tokenize_train(int argc, char **argv);

#endif
