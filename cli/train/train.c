/* attend train: trains a model on texts; train.h lists the parts. */
#include <signal.h>

#include "train/train.h"

int cmd_train(int argc, char **argv) {
  train_settings settings;
  train_run run;
  signal(SIGXFSZ, SIG_IGN); /* a full disk is an error, not a signal */
  signal(SIGPIPE, SIG_IGN); /* a closed output does not end the training */
  int code = train_parse(argc, argv, &settings);
  if (!code) {
    code = train_open(&settings, argc, argv, &run);
    if (!code) code = train_loop(&run);
    train_close(&run);
  }
  train_forget(&settings);
  return code;
}
