/* Shared by the verbs: errors, memory, the list of verbs.
 *
 * The program includes the public headers, lab/page, lab/pictures, base/folders.h and
 * base/json_write.h.
 *
 * Exit codes: 0 ok, 1 failed, 2 usage. Functions that return int return one.
 */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "attend/attend.h"

enum { EXIT_OK = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

typedef struct {
  const char *name;
  const char *line; /* of `attend --help`; NULL: not listed */
  int (*run)(int argc, char **argv);
} verb;

int cmd_explain(int argc, char **argv);
int cmd_verify(int argc, char **argv);
int cmd_bench(int argc, char **argv);
int cmd_generate(int argc, char **argv);
int cmd_summarize(int argc, char **argv);
int cmd_eval(int argc, char **argv);
int cmd_eval_rouge(int argc, char **argv); /* with --rouge */
int cmd_tokenize(int argc, char **argv);
int cmd_embed(int argc, char **argv);
int cmd_fill(int argc, char **argv);
int cmd_show(int argc, char **argv);
int cmd_pull(int argc, char **argv);
int cmd_compare(int argc, char **argv);
int cmd_compare_runs(int argc, char **argv); /* with --runs */
int cmd_view(int argc, char **argv);
int cmd_intervene(int argc, char **argv);
int cmd_attribute(int argc, char **argv);
int cmd_train(int argc, char **argv);
int cmd_design(int argc, char **argv);
int cmd_study(int argc, char **argv);
int cmd_version(int argc, char **argv);
int cmd_demo(int argc, char **argv);

/* Prints an error on stderr, after "attend: ", and returns EXIT_FAILED. */
int complain(const char *sentence, ...) __attribute__((format(printf, 1, 2)));
/* Prints the context's message; ATTEND_INVALID is a usage error. */
int complain_status(const attend_context *ctx, attend_status status);

/* Zeroed memory, or exit with an error. */
void *need(size_t count, size_t size);
/* Reallocates: keeps the first `used` elements of the block. */
void *need_more(void *block, size_t used, size_t count, size_t size);
char *need_copy(const char *text);

#endif
