/* Training: steps, evaluation, checkpoints, resuming.
 *
 * A checkpoint is a folder in Hugging Face layout, with the moments beside, written
 * whole or not at all. A killed process leaves its draft; attend_fit removes such drafts
 * while it holds the lock of the training run.
 *
 * digests.json lists the digest of every other file, taken as it was written: a bit
 * that changed since, or a file of another step, is found before anything is read.
 */
#include "attend/train.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/files.h"
#include "base/options.h"
#include "train/corpus.h"
#include "train/run_folder.h"
#include "train/trainer.h"

struct attend_training {
  attend_context *ctx;
  attend_trainer *trainer;
  attend_optimizer *optimizer;
  attend_batches *batches;
  attend_training_options o;
};

attend_status attend_training_create(attend_trainer *trainer, attend_optimizer *optimizer,
                                     attend_batches *batches,
                                     const attend_training_options *options,
                                     attend_training **training) {
  attend_training_options o;
  attend_training *t;
  *training = NULL;
  ATTEND_TRY(OPTIONS_READ(trainer->ctx, attend_training_options, options, &o));
  ATTEND_TRY(ctx_alloc_zeroed(trainer->ctx, sizeof *t, "a training", &t));
  t->ctx = trainer->ctx;
  t->trainer = trainer;
  t->optimizer = optimizer;
  t->batches = batches;
  t->o = o;
  if (t->o.accumulate < 1) t->o.accumulate = 1;
  *training = t;
  return ATTEND_OK;
}

void attend_training_free(attend_training *t) {
  if (t) ctx_free(t->ctx, t);
}

uint64_t attend_training_steps(const attend_training *t) {
  return attend_optimizer_steps(t->optimizer);
}

/* ---- a step ---------------------------------------------------------------------- */

static attend_status count_places(attend_training *t, uint64_t first, attend_step_report *r) {
  for (int i = 0; i < t->o.accumulate; i++) {
    attend_batch batch = {ATTEND_INIT(attend_batch)};
    ATTEND_TRY(attend_batches_get(t->batches, first + (uint64_t)i, &batch));
    r->scored += attend_batch_scored(&batch);
    r->tokens += attend_batch_tokens(&batch);
  }
  return ATTEND_OK;
}

static attend_status accumulate(attend_training *t, uint64_t number, attend_step_report *r) {
  attend_batch batch = {ATTEND_INIT(attend_batch), .smoothing = t->o.smoothing,
                        .scale = 1 / (float)r->scored, .step = number};
  attend_batch_loss outcome;
  ATTEND_TRY(attend_batches_get(t->batches, number, &batch));
  ATTEND_TRY(attend_trainer_accumulate(t->trainer, &batch, &outcome));
  r->loss += outcome.loss;
  return ATTEND_OK;
}

attend_status attend_training_step(attend_training *t, attend_step_report *report) {
  uint64_t step = attend_training_steps(t);
  uint64_t first = step * (uint64_t)t->o.accumulate;
  *report = (attend_step_report){.rate = attend_schedule_at(&t->o.schedule, step)};
  ATTEND_TRY(count_places(t, first, report));
  attend_trainer_zero_grad(t->trainer);
  for (int i = 0; report->scored && i < t->o.accumulate; i++)
    ATTEND_TRY(accumulate(t, first + (uint64_t)i, report));
  return attend_optimizer_step(t->optimizer, (float)report->rate, &report->norm);
}

/* ---- evaluation ------------------------------------------------------------------- */

attend_status attend_training_evaluate(attend_trainer *trainer, attend_batches *batches,
                                       uint64_t max, attend_progress progress, void *user,
                                       attend_batch_loss *outcome) {
  uint64_t total = attend_batches_epoch(batches);
  if (max && max < total) total = max;
  *outcome = (attend_batch_loss){0};
  for (uint64_t i = 0; i < total; i++) {
    attend_batch batch = {ATTEND_INIT(attend_batch), .no_grad = 1};
    attend_batch_loss one;
    ATTEND_TRY(attend_batches_get(batches, i, &batch));
    ATTEND_TRY(attend_trainer_accumulate(trainer, &batch, &one));
    outcome->loss += one.loss;
    outcome->scored += one.scored;
    if (progress && progress((double)(i + 1) / (double)total, NULL, user))
      return fail(trainer->ctx, ATTEND_STOPPED, "the evaluation was stopped");
  }
  return ATTEND_OK;
}

/* ---- saving ----------------------------------------------------------------------- */

/* Files of a checkpoint that are written here. */
enum { WEIGHTS, NOTES, STATE, DIGESTS, OWN_FILES };
static const char *const own_files[] = {[WEIGHTS] = "model.safetensors",
                                        [NOTES] = "training.json",
                                        [STATE] = "training.safetensors",
                                        [DIGESTS] = "digests.json"};

static int own_file(const char *name) {
  int i = 0;
  while (i < OWN_FILES && strcmp(name, own_files[i])) i++;
  return i;
}

static attend_status pass_file(attend_context *ctx, const char *folder, const char *name,
                               attend_status (*put)(const char *, const char *, size_t, void *),
                               void *user) {
  char from[LONGEST_PATH], *bytes;
  size_t length;
  if (!file_beside(folder, name, from, sizeof from)) return ATTEND_OK;
  ATTEND_TRY(file_read(ctx, from, &bytes, &length));
  attend_status status = put(name, bytes, length, user);
  ctx_free(ctx, bytes);
  return status;
}

attend_status each_beside(attend_context *ctx, const char *folder,
                          attend_status (*put)(const char *, const char *, size_t, void *),
                          void *user) {
  attend_status status = ATTEND_OK;
  DIR *dir = opendir(folder);
  if (!dir) return fail(ctx, ATTEND_IO, "opening \"%.300s\" failed: %s", folder, strerror(errno));
  for (struct dirent *e; !status && (e = readdir(dir));)
    if (e->d_name[0] != '.' && own_file(e->d_name) == OWN_FILES)
      status = pass_file(ctx, folder, e->d_name, put, user);
  closedir(dir);
  return status;
}

typedef struct {
  attend_training *t;
  const attend_save_options *keep;
  bool exact; /* the weights are the values */
  folder_draft folder;
  json_writer digests; /* an object: names of files, digests */
} saving;

static void note_digest(saving *s, const char *name, const attend_digest *digest) {
  char text[ATTEND_DIGEST_TEXT];
  attend_digest_text(digest, text);
  json_member_string(&s->digests, name, text);
}

static attend_status put_file(saving *s, const char *name, const char *bytes, size_t length) {
  char path[LONGEST_PATH];
  attend_digest digest;
  ATTEND_TRY(path_inside(s->t->ctx, s->folder.draft, name, path));
  ATTEND_TRY(file_write(s->t->ctx, path, bytes, length, &digest));
  note_digest(s, name, &digest);
  return ATTEND_OK;
}

static attend_status put_beside(const char *name, const char *bytes, size_t length, void *user) {
  return put_file(user, name, bytes, length);
}

/* The state to resume from: moments, and the values where the weights were rounded. */
enum { STATE_TENSORS = 3 };
static size_t state_tensors(attend_training *t, bool exact, attend_tensor list[STATE_TENSORS]) {
  static const char *const names[] = {"moments.0", "moments.1", "values"};
  size_t n = 0, count;
  const float *values = attend_trainer_values(t->trainer, &count);
  const float *data[] = {attend_optimizer_moments(t->optimizer, 0),
                         attend_optimizer_moments(t->optimizer, 1), exact ? NULL : values};
  for (int i = 0; i < STATE_TENSORS; i++)
    if (data[i])
      list[n++] = (attend_tensor){.name = names[i],
                                  .stored = ATTEND_STORED_F32,
                                  .rank = 1,
                                  .shape = {(int64_t)count},
                                  .count = (int64_t)count,
                                  .data = data[i]};
  return n;
}

static attend_status write_tensors(saving *s) {
  attend_training *t = s->t;
  attend_stored as = s->exact ? ATTEND_STORED_F32 : ATTEND_STORED_BF16;
  attend_tensor list[STATE_TENSORS];
  size_t n = state_tensors(t, s->exact, list);
  attend_digest digest;
  char path[LONGEST_PATH];
  ATTEND_TRY(path_inside(t->ctx, s->folder.draft, own_files[WEIGHTS], path));
  ATTEND_TRY(trainer_save(t->trainer, path, as, &digest));
  note_digest(s, own_files[WEIGHTS], &digest);
  ATTEND_TRY(path_inside(t->ctx, s->folder.draft, own_files[STATE], path));
  ATTEND_TRY(tensor_file_make(t->ctx, path, n, list, NULL, NULL, &digest));
  note_digest(s, own_files[STATE], &digest);
  return ATTEND_OK;
}

enum { BATCHES_TEXT = 17 };
static void batches_text(const attend_training *t, char text[BATCHES_TEXT]) {
  snprintf(text, BATCHES_TEXT, "%016llx", (unsigned long long)batches_digest(t->batches));
}

static attend_status put_user_notes(const saving *s, json_writer *w) {
  const char *text = NULL;
  attend_json *notes = NULL;
  if (!s->keep->notes) return ATTEND_OK;
  ATTEND_TRY(s->keep->notes(s->keep->user, &text));
  if (!text) return ATTEND_OK;
  ATTEND_TRY(attend_json_parse(s->t->ctx, "the notes", text, strlen(text), &notes));
  attend_status status = ATTEND_OK;
  if (attend_json_kind_of(notes) != ATTEND_JSON_OBJECT)
    status = fail(s->t->ctx, ATTEND_INVALID, "the notes of a checkpoint must be a JSON object");
  for (size_t i = 0; !status && i < attend_json_count(notes); i++) {
    const attend_json *one = attend_json_at(notes, i);
    json_member(w, attend_json_name(one, NULL));
    json_put_value(w, one);
  }
  attend_json_free(notes);
  return status;
}

static attend_status write_notes(saving *s) {
  const attend_training *t = s->t;
  uint64_t step = attend_training_steps(t);
  char batches[BATCHES_TEXT];
  batches_text(t, batches);
  json_writer w = json_writer_text(t->ctx);
  json_indent(&w, true);
  json_open(&w, '{');
  json_member_integer(&w, "step", (int64_t)step);
  /* These two names are older than the word batch; saved runs have them. */
  json_member_integer(&w, "lesson", (int64_t)(step * (uint64_t)t->o.accumulate));
  json_member_string(&w, "lessons", batches);
  json_member_string(&w, "weights", s->exact ? "f32" : "bf16");
  attend_status status = put_user_notes(s, &w);
  json_close(&w, '}');
  if (!status) status = json_finish(&w);
  if (!status) status = put_file(s, own_files[NOTES], w.text, w.length);
  json_writer_free(&w);
  return status;
}

static attend_status write_folder(saving *s) {
  attend_context *ctx = s->t->ctx;
  char path[LONGEST_PATH];
  json_indent(&s->digests, true);
  json_open(&s->digests, '{');
  if (s->keep->beside) ATTEND_TRY(each_beside(ctx, s->keep->beside, put_beside, s));
  ATTEND_TRY(write_tensors(s));
  ATTEND_TRY(write_notes(s));
  json_close(&s->digests, '}');
  ATTEND_TRY(json_finish(&s->digests));
  ATTEND_TRY(path_inside(ctx, s->folder.draft, own_files[DIGESTS], path));
  return attend_file_write(ctx, path, s->digests.text, s->digests.length);
}

attend_status attend_training_save(attend_training *t, const char *folder,
                                   const attend_save_options *keep) {
  attend_save_options o;
  saving s = {.t = t, .keep = &o};
  ATTEND_TRY(OPTIONS_READ(t->ctx, attend_save_options, keep, &o));
  attend_stored as = s.keep->stored;
  ATTEND_CHECK(t->ctx, !as || as == ATTEND_STORED_F32 || as == ATTEND_STORED_BF16,
               "weights are saved as f32 or bf16");
  s.exact = as != ATTEND_STORED_BF16;
  ATTEND_TRY(folder_draft_open(t->ctx, folder, &s.folder));
  s.digests = json_writer_text(t->ctx);
  attend_status status = write_folder(&s);
  json_writer_free(&s.digests);
  if (!status) return folder_draft_keep(&s.folder);
  folder_draft_drop(&s.folder);
  return status;
}

/* ---- verifying ------------------------------------------------------------------------ */

static attend_status read_digests(attend_context *ctx, const char *folder, attend_json **list) {
  char path[LONGEST_PATH];
  *list = NULL;
  if (!file_beside(folder, own_files[DIGESTS], path, sizeof path))
    return fail(ctx, ATTEND_IO,
                "%.300s has no %s, so that its files cannot be verified: begin "
                "a new training from its weights",
                folder, own_files[DIGESTS]);
  ATTEND_TRY(json_read(ctx, path, list));
  for (size_t i = 0; i < attend_json_count(*list); i++) {
    const attend_json *one = attend_json_at(*list, i);
    const char *name = attend_json_name(one, NULL);
    if (name && *name && !strchr(name, '/') && attend_json_string(one, NULL)) continue;
    attend_json_free(*list);
    *list = NULL;
    return fail(ctx, ATTEND_IO, "%.300s is no list of digests", path);
  }
  return ATTEND_OK;
}

typedef enum { MISSING, CHANGED, SAME } likeness;

/* Whether folder/name is the file that was saved. */
static attend_status compare_file(attend_context *ctx, const char *folder, const attend_json *list,
                                  const char *name, likeness *is) {
  const char *saved = attend_json_string(attend_json_get(list, name), NULL);
  char path[LONGEST_PATH], text[ATTEND_DIGEST_TEXT];
  attend_digest digest = {0};
  *is = MISSING;
  if (!file_beside(folder, name, path, sizeof path)) return ATTEND_OK;
  ATTEND_TRY(attend_digest_file(ctx, path, &digest));
  attend_digest_text(&digest, text);
  *is = saved && !strcmp(text, saved) ? SAME : CHANGED;
  return ATTEND_OK;
}

static attend_status verify_file(attend_context *ctx, const char *folder, const attend_json *list,
                                 const char *name) {
  const int own = own_file(name);
  likeness is;
  ATTEND_TRY(compare_file(ctx, folder, list, name, &is));
  if (is == SAME || (is == MISSING && (own == NOTES || own == STATE))) return ATTEND_OK;
  return fail(ctx, ATTEND_IO, "%.300s/%s is %s", folder, name,
              is == CHANGED ? "damaged, or of another step: its digest is not "
                              "the one that was saved"
                            : "missing");
}

attend_status attend_training_verify(attend_context *ctx, const char *folder) {
  attend_json *list;
  ATTEND_TRY(read_digests(ctx, folder, &list));
  attend_status status = ATTEND_OK;
  for (int i = 0; !status && i < DIGESTS; i++)
    status = verify_file(ctx, folder, list, own_files[i]);
  for (size_t i = 0; !status && i < attend_json_count(list); i++) {
    const char *name = attend_json_name(attend_json_at(list, i), NULL);
    if (own_file(name) >= DIGESTS) status = verify_file(ctx, folder, list, name);
  }
  attend_json_free(list);
  return status;
}

attend_status attend_training_verify_beside(attend_context *ctx, const char *folder,
                                            const char *beside) {
  attend_json *list;
  ATTEND_TRY(read_digests(ctx, folder, &list));
  attend_status status = ATTEND_OK;
  for (size_t i = 0; !status && i < attend_json_count(list); i++) {
    const char *name = attend_json_name(attend_json_at(list, i), NULL);
    likeness is = SAME;
    if (own_file(name) == OWN_FILES) status = compare_file(ctx, beside, list, name, &is);
    if (!status && is != SAME)
      status = fail(ctx, ATTEND_IO,
                    "%.300s/%s is missing, or not what %.300s was saved with: "
                    "copy it from there",
                    beside, name, folder);
  }
  attend_json_free(list);
  return status;
}

/* ---- resuming ------------------------------------------------------------------------- */

/* Finds every tensor before copying the first, so that a file that lacks one changes
 * nothing. */
static attend_status read_tensors(attend_training *t, const char *path,
                                  const attend_tensor_file *file, bool exact) {
  const attend_tensor *from[STATE_TENSORS];
  attend_tensor list[STATE_TENSORS];
  size_t n = state_tensors(t, exact, list);
  for (size_t i = 0; i < n; i++) {
    from[i] = attend_tensor_file_find(file, list[i].name);
    if (!from[i] || from[i]->stored != ATTEND_STORED_F32 || from[i]->count != list[i].count)
      return fail(t->ctx, ATTEND_IO,
                  "%.300s has no %s of %zu numbers: it belongs to another "
                  "model or optimizer",
                  path, list[i].name, (size_t)list[i].count);
  }
  for (size_t i = 0; i < n; i++) memcpy((void *)list[i].data, from[i]->data, from[i]->bytes);
  return exact ? ATTEND_OK : attend_trainer_refresh(t->trainer);
}

static attend_status read_state(attend_training *t, const char *folder, bool exact) {
  char path[LONGEST_PATH];
  attend_tensor_file *file;
  ATTEND_TRY(path_inside(t->ctx, folder, own_files[STATE], path));
  ATTEND_TRY(attend_tensor_file_open(t->ctx, path, &file));
  attend_status status = read_tensors(t, path, file, exact);
  attend_tensor_file_free(file);
  return status;
}

static attend_status read_notes(const attend_training *t, const char *path,
                                const attend_json *notes, int64_t *step, bool *exact) {
  int64_t batch, each = t->o.accumulate;
  const char *as = attend_json_string(attend_json_get(notes, "weights"), NULL);
  const char *of = attend_json_string(attend_json_get(notes, "lessons"), NULL);
  char mine[BATCHES_TEXT];
  if (!attend_json_integer(attend_json_get(notes, "step"), step) ||
      !attend_json_integer(attend_json_get(notes, "lesson"), &batch) || *step < 0 || !as || !of)
    return fail(t->ctx, ATTEND_IO, "%.300s does not say its step", path);
  batches_text(t, mine);
  ATTEND_CHECK(t->ctx, !strcmp(of, mine) && batch % each == 0 && batch / each == *step,
               "%.300s was trained on other texts or other batches (batch, "
               "length, seed, accumulation): give the same ones, or begin a new "
               "training from its weights",
               path);
  *exact = !strcmp(as, "f32");
  return ATTEND_OK;
}

attend_status attend_training_resume(attend_training *t, const char *folder, attend_json **notes) {
  char path[LONGEST_PATH];
  attend_json *json;
  int64_t step = 0;
  bool exact = true;
  if (notes) *notes = NULL;
  ATTEND_TRY(attend_training_verify(t->ctx, folder));
  ATTEND_TRY(path_inside(t->ctx, folder, own_files[NOTES], path));
  ATTEND_TRY(json_read(t->ctx, path, &json));
  attend_status status = read_notes(t, path, json, &step, &exact);
  if (!status) status = read_state(t, folder, exact);
  if (!status) attend_optimizer_set_steps(t->optimizer, (uint64_t)step);
  if (status || !notes)
    attend_json_free(json);
  else
    *notes = json;
  return status;
}
