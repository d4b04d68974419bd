/* attend train: a model learns from texts.
 *
 * A verb; see train.h for its parts.
 */
#include <signal.h>

#include "train/train.h"

int cmd_train(int argc, char **argv) {
  train_settings settings;
  train_run run;
  signal(SIGXFSZ, SIG_IGN); /* too large for a limit: an error, not the end */
  signal(SIGPIPE, SIG_IGN); /* nobody listens: it learns all the same */
  int code = train_parse(argc, argv, &settings);
  if (!code) {
    code = train_open(&settings, argc, argv, &run);
    if (!code) code = train_loop(&run);
    train_close(&run);
  }
  train_forget(&settings);
  return code;
}
