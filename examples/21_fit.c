/* A training run with validation; a second start resumes: 21_fit [RUN [MODEL]]
 */
#include <attend/train.h>
#include <stdio.h>
#include <stdlib.h>

#define TRY(call) \
  if (call) return fprintf(stderr, "%s\n", attend_message(ctx)), 1

static void show(const attend_fit_report *r, void *user) {
  if (r->event == ATTEND_FIT_VALIDATED)
    fprintf(user, "step %d: %.3f nats a token\n", (int)r->step, r->valid);
}

int main(int argc, char **argv) {
  char spare[] = "/tmp/attend-21-XXXXXX";
  const char *run = argc > 1 ? argv[1] : mkdtemp(spare);
  const char *model = argc > 2 ? argv[2] : "tests/golden/models/stories260K";
  attend_context *ctx;
  attend_corpus *texts, *held;
  attend_batches *batches;
  attend_batch_options cut = {ATTEND_INIT(attend_batch_options), .batch = 4, .length = 32};
  attend_fit_options how = {ATTEND_INIT(attend_fit_options)};
  attend_fit_result end;
  int32_t ids[3000]; /* attend_corpus_read tokenizes files instead */
  for (int i = 0; i < 3000; i++) ids[i] = i % 89 * i % 97;
  how.schedule = (attend_schedule){.rate = 1e-3, .steps = 40};
  how.report = show, how.user = stdout;
  TRY(attend_context_create(NULL, &ctx));
  TRY(attend_corpus_create(ctx, &texts));
  TRY(attend_corpus_add(texts, 3000, ids, 0, NULL));
  TRY(attend_corpus_split(texts, 0.1, 1, &held));
  TRY(attend_batches_create(texts, &cut, &batches));
  cut.in_order = 1;
  TRY(attend_batches_create(held, &cut, &how.valid));
  TRY(attend_fit_model(ctx, run, model, NULL, NULL, batches, &how, &end));
  printf("%s/best is step %d: %.3f\n", run, (int)end.best_step, end.best);
  attend_batches_free(batches), attend_batches_free(how.valid);
  attend_corpus_free(texts), attend_corpus_free(held), attend_context_free(ctx);
}
