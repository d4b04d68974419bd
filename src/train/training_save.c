/* Saved steps: written whole or not at all, verified, and gone on from.
 *
 * Place: train/ - a folder in Hugging Face layout, with the moments beside.
 *
 * The folder is made as .NAME.12345678.part, which no other save shares; every file
 * in it is brought to the disk, then the folder's own list, then it is renamed. A
 * process that is killed leaves its draft; attend train clears such drafts away
 * while it holds the lock of the run.
 *
 * digests.json lists the digest of every other file, taken as it was written: a bit
 * that changed since, or a file of another step, is found before anything is taken.
 */
#define _GNU_SOURCE /* renameat2 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "attend/file.h"
#include "base/files.h"
#include "train/training.h"

typedef struct {
  attend_training *t;
  const attend_keep *keep;
  char folder[LONGEST_PATH]; /* as it will be called */
  char draft[LONGEST_PATH];  /* as it is until then */
  char above[LONGEST_PATH];
  attend_json_writer digests; /* an object: names of files, digests */
} saving;

#define DIGESTS "digests.json"
/* What training goes on from; may have been removed, where the model stays. */
static const char *const state_files[] = {"training.json",
                                          "training.safetensors", NULL};
/* What a step has besides the files from elsewhere. */
static const char *const own_files[] = {"model.safetensors", "training.json",
                                        "training.safetensors", DIGESTS, NULL};

static bool is_one_of(const char *name, const char *const *list) {
  for (; *list; list++)
    if (!strcmp(name, *list)) return true;
  return false;
}

static attend_status failed(const saving *s, const char *doing,
                            const char *what) {
  return fail(s->t->ctx, ATTEND_IO, "%s \"%.300s\" failed: %s", doing, what,
              strerror(errno));
}

static attend_status inside(const saving *s, const char *folder,
                            const char *name, char path[LONGEST_PATH]) {
  int n = snprintf(path, LONGEST_PATH, "%s/%s", folder, name);
  ATTEND_CHECK(s->t->ctx, n > 0 && n < LONGEST_PATH,
               "the name of a file in \"%.300s\" is too long", folder);
  return ATTEND_OK;
}

static attend_status name_all(saving *s, const char *folder) {
  size_t n = strlen(folder);
  while (n > 1 && folder[n - 1] == '/') n--;
  ATTEND_CHECK(s->t->ctx, n && n + 8 < LONGEST_PATH,
               "\"%.300s\" cannot be the name of a folder", folder);
  snprintf(s->folder, sizeof s->folder, "%.*s", (int)n, folder);
  const char *slash = strrchr(s->folder, '/');
  size_t up = slash ? (size_t)(slash - s->folder) : 0;
  snprintf(s->above, sizeof s->above, "%.*s", slash ? (int)(up ? up : 1) : 1,
           slash ? s->folder : ".");
  return ATTEND_OK;
}

static int make_folder(const char *draft) { return mkdir(draft, 0777); }

static attend_status make_draft(saving *s) {
  char name[LONGEST_PATH], path[LONGEST_PATH];
  const char *slash = strrchr(s->folder, '/');
  snprintf(name, sizeof name, ".%.*s", 255, slash ? slash + 1 : s->folder);
  ATTEND_TRY(inside(s, s->above, name, path));
  if (!draft_make(path, s->draft, sizeof s->draft, make_folder))
    return ATTEND_OK;
  return failed(s, "making a folder beside", s->folder);
}

/* ---- clearing away --------------------------------------------------------------- */

/* A folder of files alone, as all of these are. */
static void remove_folder(const saving *s, const char *folder) {
  char path[LONGEST_PATH];
  DIR *dir = opendir(folder);
  if (!dir) return;
  for (struct dirent *e; (e = readdir(dir));)
    if (strcmp(e->d_name, ".") && strcmp(e->d_name, "..") &&
        !inside(s, folder, e->d_name, path))
      unlink(path);
  closedir(dir);
  rmdir(folder);
}

/* ---- the files ---------------------------------------------------------------------- */

static void note_digest(saving *s, const char *name,
                        const attend_digest *digest) {
  char text[ATTEND_DIGEST_TEXT];
  attend_digest_text(digest, text);
  attend_json_member(&s->digests, name);
  attend_json_put_string(&s->digests, text);
}

static attend_status copy_file(saving *s, const char *name) {
  attend_digest digest;
  char from[LONGEST_PATH], to[LONGEST_PATH], *bytes;
  size_t length;
  struct stat info;
  ATTEND_TRY(inside(s, s->keep->beside, name, from));
  ATTEND_TRY(inside(s, s->draft, name, to));
  if (stat(from, &info) || !S_ISREG(info.st_mode)) return ATTEND_OK;
  ATTEND_TRY(file_read(s->t->ctx, from, &bytes, &length));
  attend_status status = file_write(s->t->ctx, to, bytes, length, &digest);
  if (!status) note_digest(s, name, &digest);
  give(s->t->ctx, bytes);
  return status;
}

static attend_status copy_beside(saving *s) {
  attend_status status = ATTEND_OK;
  if (!s->keep->beside) return ATTEND_OK;
  DIR *dir = opendir(s->keep->beside);
  if (!dir) return failed(s, "opening", s->keep->beside);
  for (struct dirent *e; !status && (e = readdir(dir));)
    if (e->d_name[0] != '.' && !is_one_of(e->d_name, own_files))
      status = copy_file(s, e->d_name);
  closedir(dir);
  return status;
}

static bool is_exact(const attend_keep *keep) {
  return keep->stored != ATTEND_STORED_BF16;
}

static attend_tensor flat(const char *name, const float *data, size_t count) {
  return (attend_tensor){.name = name,
                         .stored = ATTEND_STORED_F32,
                         .rank = 1,
                         .shape = {(int64_t)count},
                         .data = data};
}

/* Moments, and the values where the weights were rounded. */
static attend_status write_state(saving *s) {
  attend_digest digest;
  attend_training *t = s->t;
  attend_tensor list[3];
  size_t n = 0, count;
  char path[LONGEST_PATH];
  const float *values = attend_learner_values(t->learner, &count);
  static const char *const names[] = {"moments.0", "moments.1"};
  for (int i = 0; i < 2; i++) {
    const float *m = attend_optimizer_moments(t->optimizer, i);
    if (m) list[n++] = flat(names[i], m, count);
  }
  if (!is_exact(s->keep)) list[n++] = flat("values", values, count);
  ATTEND_TRY(inside(s, s->draft, "training.safetensors", path));
  ATTEND_TRY(tensor_file_make(t->ctx, path, n, list, NULL, NULL, &digest));
  note_digest(s, "training.safetensors", &digest);
  return ATTEND_OK;
}

static void put_hex(attend_json_writer *w, const char *name, uint64_t x) {
  char text[32];
  snprintf(text, sizeof text, "%016llx", (unsigned long long)x);
  attend_json_member(w, name);
  attend_json_put_string(w, text);
}

static attend_status write_notes(saving *s) {
  attend_digest digest;
  attend_training *t = s->t;
  uint64_t step = attend_training_steps(t);
  char path[LONGEST_PATH];
  attend_json_writer w = attend_json_writer_text(t->ctx);
  attend_json_indent(&w, true);
  attend_json_open(&w, '{');
  attend_json_member(&w, "step");
  attend_json_put_integer(&w, (int64_t)step);
  attend_json_member(&w, "lesson");
  attend_json_put_integer(&w, (int64_t)(step * (uint64_t)t->o.accumulate));
  put_hex(&w, "lessons", batches_digest(t->batches));
  attend_json_member(&w, "weights");
  attend_json_put_string(&w, is_exact(s->keep) ? "f32" : "bf16");
  if (s->keep->write) s->keep->write(&w, s->keep->user);
  attend_json_close(&w, '}');
  attend_status status = attend_json_finish(&w);
  if (!status) status = inside(s, s->draft, "training.json", path);
  if (!status) status = file_write(t->ctx, path, w.text, w.length, &digest);
  if (!status) note_digest(s, "training.json", &digest);
  attend_json_writer_free(&w);
  return status;
}

static attend_status write_weights(saving *s) {
  char path[LONGEST_PATH];
  attend_digest digest;
  attend_stored as = is_exact(s->keep) ? ATTEND_STORED_F32 : ATTEND_STORED_BF16;
  ATTEND_TRY(inside(s, s->draft, "model.safetensors", path));
  ATTEND_TRY(learner_save(s->t->learner, path, as, &digest));
  note_digest(s, "model.safetensors", &digest);
  return ATTEND_OK;
}

static attend_status write_digests(saving *s) {
  char path[LONGEST_PATH];
  attend_json_close(&s->digests, '}');
  ATTEND_TRY(attend_json_finish(&s->digests));
  ATTEND_TRY(inside(s, s->draft, DIGESTS, path));
  return attend_file_write(s->t->ctx, path, s->digests.text, s->digests.length);
}

static attend_status write_draft(saving *s) {
  attend_json_indent(&s->digests, true);
  attend_json_open(&s->digests, '{');
  ATTEND_TRY(copy_beside(s));
  ATTEND_TRY(write_weights(s));
  ATTEND_TRY(write_state(s));
  ATTEND_TRY(write_notes(s));
  ATTEND_TRY(write_digests(s));
  folder_sync(s->draft);
  return ATTEND_OK;
}

/* In one step where the system can: what was there then has the draft's name. */
static bool exchange(const saving *s) {
#ifdef RENAME_EXCHANGE
  return !renameat2(AT_FDCWD, s->draft, AT_FDCWD, s->folder, RENAME_EXCHANGE);
#else
  (void)s;
  return false;
#endif
}

static attend_status replace_folder(const saving *s) {
  char old[LONGEST_PATH];
  if (exchange(s)) return ATTEND_OK;
  snprintf(old, sizeof old, "%.*s.old", LONGEST_PATH - 8, s->draft);
  if (rename(s->folder, old)) return failed(s, "moving away", s->folder);
  if (rename(s->draft, s->folder)) {
    attend_status status = failed(s, "renaming to", s->folder);
    return rename(old, s->folder) ? failed(s, "moving back", s->folder)
                                  : status;
  }
  rename(old, s->draft);
  return ATTEND_OK;
}

/* A folder of that name from an earlier course makes room. */
static attend_status put_in_place(const saving *s) {
  struct stat info;
  bool there = !lstat(s->folder, &info);
  if (there && !S_ISDIR(info.st_mode)) {
    errno = ENOTDIR;
    return failed(s, "replacing", s->folder);
  }
  if (there)
    ATTEND_TRY(replace_folder(s));
  else if (rename(s->draft, s->folder))
    return failed(s, "renaming to", s->folder);
  folder_sync(s->above);
  if (there) remove_folder(s, s->draft);
  return ATTEND_OK;
}

attend_status attend_training_save(attend_training *t, const char *folder,
                                   const attend_keep *keep) {
  static const attend_keep none = {0};
  saving s = {.t = t, .keep = keep ? keep : &none};
  attend_stored as = s.keep->stored;
  ATTEND_CHECK(t->ctx,
               !as || as == ATTEND_STORED_F32 || as == ATTEND_STORED_BF16,
               "weights are saved as f32 or bf16");
  ATTEND_TRY(name_all(&s, folder));
  ATTEND_TRY(make_draft(&s));
  s.digests = attend_json_writer_text(t->ctx);
  attend_status status = write_draft(&s);
  attend_json_writer_free(&s.digests);
  if (!status) status = put_in_place(&s);
  if (status) remove_folder(&s, s.draft);
  return status;
}

/* ---- verifying ------------------------------------------------------------------------ */

static attend_status read_digests(attend_context *ctx, const char *folder,
                                  attend_json **list) {
  char path[LONGEST_PATH];
  *list = NULL;
  if (!file_beside(folder, DIGESTS, path, sizeof path))
    return fail(ctx, ATTEND_IO,
                "%.300s has no %s, so that its files cannot be verified: begin "
                "a new training from its weights",
                folder, DIGESTS);
  ATTEND_TRY(json_read(ctx, path, list));
  for (size_t i = 0; i < attend_json_count(*list); i++) {
    const attend_json *one = attend_json_at(*list, i);
    const char *name = attend_json_name(one, NULL);
    if (name && *name && !strchr(name, '/') && attend_json_string(one, NULL))
      continue;
    attend_json_free(*list);
    *list = NULL;
    return fail(ctx, ATTEND_IO, "%.300s is no list of digests", path);
  }
  return ATTEND_OK;
}

/* *is: whether folder/name is the file that was saved. */
static attend_status compare_file(attend_context *ctx, const char *folder,
                                  const char *name, const char *saved,
                                  bool *is) {
  char path[LONGEST_PATH], text[ATTEND_DIGEST_TEXT];
  attend_digest digest = {0};
  *is = false;
  if (!file_beside(folder, name, path, sizeof path)) return ATTEND_OK;
  ATTEND_TRY(attend_digest_file(ctx, path, &digest));
  attend_digest_text(&digest, text);
  *is = saved && !strcmp(text, saved);
  return ATTEND_OK;
}

static attend_status verify_file(attend_context *ctx, const char *folder,
                                 const attend_json *list, const char *name) {
  char path[LONGEST_PATH];
  bool is, there = file_beside(folder, name, path, sizeof path);
  if (!there && is_one_of(name, state_files)) return ATTEND_OK;
  const char *saved = attend_json_string(attend_json_get(list, name), NULL);
  ATTEND_TRY(compare_file(ctx, folder, name, saved, &is));
  if (is) return ATTEND_OK;
  return fail(ctx, ATTEND_IO, "%.300s/%s is %s", folder, name,
              there ? "damaged, or of another step: its digest is not the one "
                      "that was saved"
                    : "missing");
}

attend_status attend_training_verify(attend_context *ctx, const char *folder) {
  static const char *const must[] = {"model.safetensors", "training.json",
                                     "training.safetensors", NULL};
  attend_json *list;
  ATTEND_TRY(read_digests(ctx, folder, &list));
  attend_status status = ATTEND_OK;
  for (int i = 0; !status && must[i]; i++)
    status = verify_file(ctx, folder, list, must[i]);
  for (size_t i = 0; !status && i < attend_json_count(list); i++) {
    const char *name = attend_json_name(attend_json_at(list, i), NULL);
    if (!is_one_of(name, must)) status = verify_file(ctx, folder, list, name);
  }
  attend_json_free(list);
  return status;
}

attend_status attend_training_verify_beside(attend_context *ctx,
                                            const char *folder,
                                            const char *beside) {
  attend_json *list;
  ATTEND_TRY(read_digests(ctx, folder, &list));
  attend_status status = ATTEND_OK;
  for (size_t i = 0; !status && i < attend_json_count(list); i++) {
    const attend_json *one = attend_json_at(list, i);
    const char *name = attend_json_name(one, NULL);
    bool is = is_one_of(name, own_files);
    if (!is)
      status =
          compare_file(ctx, beside, name, attend_json_string(one, NULL), &is);
    if (!status && !is)
      status = fail(ctx, ATTEND_IO,
                    "%.300s/%s is missing, or not what %.300s was saved with: "
                    "copy it from there",
                    beside, name, folder);
  }
  attend_json_free(list);
  return status;
}

/* ---- going on ------------------------------------------------------------------------- */

/* What must be there: every one is found before the first is taken, so that a
 * file that lacks one changes nothing. */
typedef struct {
  const char *name;
  float *to;
  const attend_tensor *from;
} piece;

static attend_status find_piece(const attend_training *t, const char *path,
                                const attend_tensor_file *file, size_t count,
                                piece *p) {
  const attend_tensor *x = attend_tensor_file_find(file, p->name);
  if (!x || x->stored != ATTEND_STORED_F32 || (size_t)x->count != count)
    return fail(t->ctx, ATTEND_IO,
                "%.300s has no %s of %zu numbers: it belongs to another model "
                "or optimizer",
                path, p->name, count);
  p->from = x;
  return ATTEND_OK;
}

static attend_status read_tensors(attend_training *t, const char *path,
                                  const attend_tensor_file *file, bool exact) {
  size_t count, n = 0;
  float *values = attend_learner_values(t->learner, &count);
  piece all[] = {{"moments.0", attend_optimizer_moments(t->optimizer, 0), NULL},
                 {"moments.1", attend_optimizer_moments(t->optimizer, 1), NULL},
                 {"values", exact ? NULL : values, NULL}};
  enum { PIECES = sizeof all / sizeof *all };
  for (n = 0; n < PIECES; n++)
    if (all[n].to) ATTEND_TRY(find_piece(t, path, file, count, &all[n]));
  for (n = 0; n < PIECES; n++)
    if (all[n].to) memcpy(all[n].to, all[n].from->data, count * sizeof(float));
  return exact ? ATTEND_OK : attend_learner_refresh(t->learner);
}

static attend_status read_state(attend_training *t, const char *folder,
                                bool exact) {
  char path[LONGEST_PATH];
  attend_tensor_file *file;
  snprintf(path, sizeof path, "%.*s/training.safetensors", LONGEST_PATH - 64,
           folder);
  ATTEND_TRY(attend_tensor_file_open(t->ctx, path, &file));
  attend_status status = read_tensors(t, path, file, exact);
  attend_tensor_file_close(file);
  return status;
}

typedef struct {
  int64_t step;
  bool exact; /* the weights are the values */
} place;

static attend_status read_place(const attend_training *t, const char *path,
                                const attend_json *notes, place *p) {
  int64_t lesson, each = t->o.accumulate;
  const char *as = attend_json_string(attend_json_get(notes, "weights"), NULL);
  const char *of = attend_json_string(attend_json_get(notes, "lessons"), NULL);
  char mine[32];
  if (!attend_json_integer(attend_json_get(notes, "step"), &p->step) ||
      !attend_json_integer(attend_json_get(notes, "lesson"), &lesson) ||
      p->step < 0 || !as || !of)
    return fail(t->ctx, ATTEND_IO, "%.300s does not say its step", path);
  snprintf(mine, sizeof mine, "%016llx",
           (unsigned long long)batches_digest(t->batches));
  ATTEND_CHECK(
      t->ctx,
      !strcmp(of, mine) && lesson % each == 0 && lesson / each == p->step,
      "%.300s was made with other texts or other lessons (batch, "
      "length, seed, accumulation): give the same ones, or begin a new "
      "training from its weights",
      path);
  p->exact = !strcmp(as, "f32");
  return ATTEND_OK;
}

attend_status attend_training_resume(attend_training *t, const char *folder,
                                     attend_json **notes) {
  char path[LONGEST_PATH];
  attend_json *json;
  place p = {0};
  if (notes) *notes = NULL;
  ATTEND_TRY(attend_training_verify(t->ctx, folder));
  snprintf(path, sizeof path, "%.*s/training.json", LONGEST_PATH - 64, folder);
  ATTEND_TRY(json_read(t->ctx, path, &json));
  attend_status status = read_place(t, path, json, &p);
  if (!status) status = read_state(t, folder, p.exact);
  if (!status) attend_optimizer_set_steps(t->optimizer, (uint64_t)p.step);
  if (status || !notes)
    attend_json_free(json);
  else
    *notes = json;
  return status;
}
