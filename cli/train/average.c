/* DIR/average: the mean of the last saved steps.
 *
 * Made once all steps are taken, from what lies in the folder, so that a run that
 * ended long ago can have one too.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attend/file.h"
#include "attend/json.h"
#include "json_members.h"
#include "train/train.h"

typedef struct {
  train_run *run;
  names folders; /* of the steps, rising */
  const uint64_t *steps;
  int n;
} averaging;

/* The last of them, but not the first of all, which has learnt nothing yet. */
static void choose_steps(averaging *a, const uint64_t *steps, size_t count) {
  size_t first = count > 0 && steps[0] == 0 ? 1 : 0;
  size_t most = (size_t)a->run->s->average, n = count - first;
  if (n > most) n = most;
  a->steps = steps + count - n;
  a->n = (int)n;
  for (size_t i = 0; i < n; i++) {
    char name[STEP_NAME];
    step_name(a->steps[i], name);
    char *path = path_of("%s/%s", a->run->s->out, name);
    names_add(&a->folders, path);
    free(path);
  }
}

/* What it was made of, and how good it is. */
static attend_status write_notes(const averaging *a, const char *folder) {
  train_run *run = a->run;
  char *path = path_of("%s/average.json", folder);
  attend_json_writer w = attend_json_writer_text(run->ctx);
  attend_json_indent(&w, true);
  attend_json_open(&w, '{');
  attend_json_member(&w, "steps");
  attend_json_open(&w, '[');
  for (int i = 0; i < a->n; i++)
    attend_json_put_integer(&w, (int64_t)a->steps[i]);
  attend_json_close(&w, ']');
  json_number(&w, "valid", run->average_valid);
  json_number(&w, "perplexity", exp(run->average_valid));
  attend_json_close(&w, '}');
  attend_status status = attend_json_finish(&w);
  if (!status) status = attend_file_write(run->ctx, path, w.text, w.length);
  attend_json_writer_free(&w);
  free(path);
  return status;
}

static int write_model(const averaging *a, const char *folder) {
  train_run *run = a->run;
  char *path = path_of("%s/model.safetensors", folder);
  int code = train_copy_base(run, folder);
  attend_status status =
      code ? ATTEND_OK
           : attend_trainer_save(
                 run->learner, path,
                 run->s->save_bf16 ? ATTEND_STORED_BF16 : ATTEND_STORED_F32);
  if (!code && !status) status = write_notes(a, folder);
  free(path);
  return status ? complain_status(run->ctx, status) : code;
}

/* It is there as a whole or not at all; one from before makes room. */
static int put_folder(const char *out, const char *draft) {
  char *path = path_of("%s/average", out);
  char *away = path_of("%s/.gone.part", out);
  remove_folder(away);
  rename(path, away);
  int code = EXIT_OK;
  if (rename(draft, path)) {
    complain("%s cannot be made: %s", path, strerror(errno));
    rename(away, path);
    code = EXIT_FAILED;
  }
  remove_folder(away);
  free(path);
  free(away);
  return code;
}

static int keep_average(const averaging *a) {
  const char *out = a->run->s->out;
  char *draft = path_of("%s/.average.part", out);
  remove_folder(draft);
  int code = make_folder(draft) ? write_model(a, draft) : EXIT_FAILED;
  if (!code) code = put_folder(out, draft);
  if (code) remove_folder(draft);
  free(draft);
  return code;
}

static int average(averaging *a) {
  train_run *run = a->run;
  run->average_valid = NAN;
  if (a->n < 2) {
    complain(
        "%s has %d saved step%s to take the mean of, and two are needed: take "
        "a smaller --save-every",
        run->s->out, a->n, a->n == 1 ? "" : "s");
    return EXIT_FAILED;
  }
  attend_status status = ATTEND_OK;
  for (int i = 0; i < a->n && !status; i++)
    status = attend_training_verify(run->ctx, a->folders.name[i]);
  if (!status)
    status = attend_trainer_average(run->learner, a->n,
                                    (const char *const *)a->folders.name);
  if (status) return complain_status(run->ctx, status);
  int code = run->measured ? train_measure(run, &run->average_valid) : EXIT_OK;
  if (!code) code = keep_average(a);
  if (!code) run->averaged = a->n;
  return code;
}

int train_average(train_run *run) {
  uint64_t *steps;
  size_t count = steps_saved(run->s->out, false, &steps);
  averaging a = {.run = run};
  choose_steps(&a, steps, count);
  int code = average(&a);
  if (!code && !run->s->common.json) {
    printf("the mean of %d steps, %llu to %llu", a.n,
           (unsigned long long)a.steps[0],
           (unsigned long long)a.steps[a.n - 1]);
    if (run->measured)
      printf(": validation %.4f (perplexity %.4g)", run->average_valid,
             exp(run->average_valid));
    printf(", in %s/average\n", run->s->out);
  }
  names_free(&a.folders);
  free(steps);
  return code;
}
