/* What embed.c calls of word.c. */
#ifndef CLI_EMBED_WORD_H
#define CLI_EMBED_WORD_H

#include "model_open.h"

/* The word in the two texts of m->words: a table, or JSON. Returns an exit code. */
int embed_word(const options *common, const model_options *m, const char *word);

#endif
