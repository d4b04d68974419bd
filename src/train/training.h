/* A course, taken apart.
 *
 * Place: train/ - training.c steps, training_save.c keeps.
 */
#ifndef TRAIN_TRAINING_H
#define TRAIN_TRAINING_H

#include "attend/training.h"
#include "base/base.h"

struct attend_training {
  attend_context *ctx;
  attend_learner *learner;
  attend_optimizer *optimizer;
  attend_batches *batches;
  attend_training_options o;
};

/* attend_learner_save, and the digest of the file; may be NULL. */
attend_status learner_save(attend_learner *l, const char *path,
                           attend_stored stored, attend_digest *digest);
/* What decides the lessons: equal where lessons are. */
uint64_t batches_digest(const attend_batches *b);

#endif
