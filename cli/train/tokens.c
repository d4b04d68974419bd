/* A tokenizer for a new model, trained on the model's data if none was given. */
#include <string.h>

#include "attend/text_train.h"
#include "progress.h"
#include "text.h"
#include "train/train.h"

static attend_like like_of(const char *family) {
  if (!family || !strcmp(family, "gpt2")) return ATTEND_LIKE_GPT2;
  if (!strcmp(family, "llama")) return ATTEND_LIKE_LLAMA;
  return strcmp(family, "bert") ? ATTEND_LIKE_BART : ATTEND_LIKE_BERT;
}

static attend_status feed(const char *text, size_t length, bool ends, void *user) {
  attend_status status = attend_text_trainer_feed(user, text, length);
  return status || !ends ? status : attend_text_trainer_end(user);
}

static int say_merges(size_t merges, size_t most, void *user) {
  (void)most;
  (void)user;
  progress_step(merges, "merges");
  return 0;
}

static int feed_all(const train_run *run, attend_text_trainer *trainer) {
  const train_settings *s = run->s;
  char *fields[2];
  int code = EXIT_OK;
  text_source source = {.ctx = run->ctx, .field = fields, .put = feed, .user = trainer};
  if (s->field) fields[source.fields++] = (char *)s->field;
  if (s->answer_field) fields[source.fields++] = (char *)s->answer_field;
  progress_start("reading", text_bytes((char **)s->data.text, (int)s->data.count));
  for (size_t i = 0; i < s->data.count && !code; i++) code = text_read(&source, s->data.text[i]);
  progress_end();
  return code;
}

int learn_tokenizer(const train_run *run, const char *folder) {
  const train_settings *s = run->s;
  attend_text_trainer *trainer;
  int vocab = s->made.vocab ? s->made.vocab : 4096;
  attend_text_train_options how = {ATTEND_INIT(attend_text_train_options),
                                   .like = like_of(s->made.family), .vocab = vocab,
                                   .lowercase = false, .progress = say_merges};
  attend_status status = attend_text_trainer_create(run->ctx, &how, &trainer);
  int code = status ? EXIT_FAILED : feed_all(run, trainer);
  if (!code && !status) {
    progress_start("learning pieces", (size_t)vocab);
    status = attend_text_trainer_learn(trainer);
    progress_end();
  }
  if (!code && !status) status = attend_text_trainer_save(trainer, folder);
  attend_text_trainer_free(trainer);
  return status ? complain_status(run->ctx, status) : code;
}
