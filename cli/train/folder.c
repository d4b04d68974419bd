/* The saved steps in a run's folder.
 *
 * A step is there once its folder has its name; it can be gone on from as long as
 * training.json is in it.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "folders.h"
#include "train/train.h"

void step_name(uint64_t step, char name[STEP_NAME]) {
  snprintf(name, STEP_NAME, "step-%08llu", (unsigned long long)step);
}

static bool is_step(const char *name, uint64_t *step) {
  if (strncmp(name, "step-", 5)) return false;
  size_t digits = strspn(name + 5, "0123456789");
  if (digits < 8 || digits > 18 || name[5 + digits]) return false;
  *step = strtoull(name + 5, NULL, 10);
  return true;
}

static char *step_path(const char *out, uint64_t step, const char *file) {
  char name[STEP_NAME];
  step_name(step, name);
  return path_of("%s/%s%s%s", out, name, file ? "/" : "", file ? file : "");
}

static bool has_in(const char *out, const char *name) {
  char *path = path_of("%s/%s", out, name);
  bool there = file_bytes(path) >= 0 || is_folder(path);
  free(path);
  return there;
}

static bool has_state(const char *out, uint64_t step) {
  char *path = step_path(out, step, "training.json");
  bool there = file_bytes(path) >= 0;
  free(path);
  return there;
}

static int by_number(const void *a, const void *b) {
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return (x > y) - (x < y);
}

size_t steps_saved(const char *out, bool resumable, uint64_t **steps) {
  size_t count = 0, capacity = 64;
  uint64_t step, *found = need(capacity, sizeof *found);
  DIR *dir = opendir(out);
  for (struct dirent *e; dir && (e = readdir(dir));) {
    if (!is_step(e->d_name, &step)) continue;
    if (resumable && !has_state(out, step)) continue;
    if (count == capacity)
      found = need_more(found, count, capacity *= 2, sizeof *found);
    found[count++] = step;
  }
  if (dir) closedir(dir);
  qsort(found, count, sizeof *found, by_number);
  *steps = found;
  return count;
}

/* ---- the step to go on from ----------------------------------------------------------- */

/* What is wrong with a step that is to be gone on from, to be freed; NULL: it is as
 * it was saved. */
static char *fault_of(attend_context *ctx, const char *out, uint64_t step) {
  char *path = step_path(out, step, NULL), *why = NULL;
  if (!has_state(out, step))
    why = path_of("%s/training.json is missing", path);
  else if (attend_training_verify(ctx, path))
    why = need_copy(attend_message(ctx));
  free(path);
  return why;
}

/* How many of them to take so that the last has no fault; 0: all have. */
static size_t count_good(attend_context *ctx, const char *out,
                         const uint64_t *steps, size_t n) {
  for (; n; n--) {
    char *why = fault_of(ctx, out, steps[n - 1]);
    if (!why) break;
    free(why);
  }
  return n;
}

static int offer_good(attend_context *ctx, const char *out, const char *why,
                      const uint64_t *steps, size_t n) {
  size_t good = count_good(ctx, out, steps, n);
  if (good)
    complain(
        "%s; step %llu is as it was saved: --resume-from last-good goes on "
        "from it and removes later ones",
        why, (unsigned long long)steps[good - 1]);
  else
    complain("%s, and no earlier step can be gone on from", why);
  return EXIT_FAILED;
}

/* How many of them to take so that the last is the one that was asked for. */
static size_t count_asked(attend_context *ctx, const train_settings *s,
                          const uint64_t *steps, size_t n) {
  if (s->from_good) return count_good(ctx, s->out, steps, n);
  while (s->resume_from && n && steps[n - 1] != (uint64_t)s->from_step) n--;
  return n;
}

static int choose_among(attend_context *ctx, const train_settings *s,
                        const uint64_t *steps, size_t n, uint64_t *step) {
  size_t at = count_asked(ctx, s, steps, n);
  if (!at) {
    complain("%s holds no step that --resume-from could take: the last is %llu",
             s->out, (unsigned long long)steps[n - 1]);
    return EXIT_USAGE;
  }
  *step = steps[at - 1];
  char *why = fault_of(ctx, s->out, *step);
  int code = why ? offer_good(ctx, s->out, why, steps, at - 1) : EXIT_OK;
  free(why);
  return code;
}

int choose_step(attend_context *ctx, const train_settings *s, uint64_t *step,
                bool *goes_on) {
  uint64_t *steps;
  size_t n = steps_saved(s->out, true, &steps);
  free(steps);
  *goes_on = s->resume && n;
  if (!*goes_on) return EXIT_OK;
  n = steps_saved(s->out, false, &steps);
  int code = choose_among(ctx, s, steps, n, step);
  free(steps);
  return code;
}

/* ---- links ---------------------------------------------------------------------- */

bool link_step(const char *out, const char *name, uint64_t step) {
  char target[STEP_NAME];
  step_name(step, target);
  char *link = path_of("%s/%s", out, name);
  char *fresh = path_of("%s/.%s.new", out, name);
  unlink(fresh);
  bool ok = !symlink(target, fresh) && !rename(fresh, link);
  if (!ok) complain("the link %s cannot be made", link);
  free(link);
  free(fresh);
  return ok;
}

bool linked_step(const char *out, const char *name, uint64_t *step) {
  char target[STEP_NAME];
  char *link = path_of("%s/%s", out, name);
  ssize_t n = readlink(link, target, sizeof target - 1);
  free(link);
  if (n <= 0) return false;
  target[n] = 0;
  return is_step(target, step);
}

bool mend_links(const char *out, uint64_t last, bool has_best, uint64_t best) {
  uint64_t at;
  char name[STEP_NAME];
  step_name(best, name);
  bool good = (linked_step(out, "last", &at) && at == last) ||
              link_step(out, "last", last);
  if (good && has_best && has_in(out, name))
    good = (linked_step(out, "best", &at) && at == best) ||
           link_step(out, "best", best);
  return good;
}

/* ---- whether there is room for a run ------------------------------------------------ */

int check_out(const char *out, bool resume, bool goes_on) {
  uint64_t *steps;
  size_t n = steps_saved(out, false, &steps);
  free(steps);
  if (n && resume && !goes_on)
    complain(
        "no step that %s holds can be gone on from: their training.json is "
        "gone; choose another --out, and begin from their weights",
        out);
  else if (n && !resume)
    complain(
        "%s holds a training already: --resume goes on with it, or choose "
        "another --out",
        out);
  else if (!n && has_in(out, "base") && !has_in(out, "run.json"))
    complain("%s/base is in the way: choose another --out", out);
  else
    return EXIT_OK;
  return EXIT_USAGE;
}

/* ---- thinning --------------------------------------------------------------------- */

/* training.json goes first: without it nothing else of the state counts. */
static void drop_state(const char *out, uint64_t step) {
  static const char *const files[] = {"training.json", "training.safetensors"};
  for (int i = 0; i < 2; i++) {
    char *path = step_path(out, step, files[i]);
    unlink(path);
    free(path);
  }
}

/* Under a name that is no step, so that half of it is never one. */
static void drop_step(const char *out, uint64_t step) {
  char *path = step_path(out, step, NULL);
  char *away = path_of("%s/.gone.part", out);
  remove_folder(away);
  if (!rename(path, away)) remove_folder(away);
  free(path);
  free(away);
}

void drop_later(const char *out, uint64_t last) {
  uint64_t *steps, best;
  size_t count = steps_saved(out, false, &steps);
  if (linked_step(out, "best", &best) && best > last) {
    char *link = path_of("%s/best", out);
    unlink(link);
    free(link);
  }
  for (size_t i = 0; i < count; i++)
    if (steps[i] > last) drop_step(out, steps[i]);
  free(steps);
}

/* Two can be gone on from, so that damage to the last does not end the run. */
void thin_steps(const char *out, uint64_t newest, long long keep) {
  uint64_t *steps, best = newest;
  size_t count = steps_saved(out, false, &steps), others = 0;
  linked_step(out, "best", &best);
  for (size_t i = 0; i + 1 < count && steps[i + 1] < newest; i++)
    drop_state(out, steps[i]);
  for (size_t i = count; keep > 0 && i-- > 1;) {
    if (steps[i] == best || steps[i] == newest) continue;
    if (++others > (size_t)keep) drop_step(out, steps[i]);
  }
  free(steps);
}

/* ---- leftovers ---------------------------------------------------------------------- */

/* Drafts of files and folders, and links on their way: nothing else in a run's
 * folder is called so. */
static bool is_leftover(const char *name) {
  return path_ends(name, ".part") || path_ends(name, ".part.old") ||
         !strcmp(name, ".best.new") || !strcmp(name, ".last.new");
}

void clear_leftovers(const char *out) {
  names below = {0};
  DIR *dir = opendir(out);
  for (struct dirent *e; dir && (e = readdir(dir));)
    if (is_leftover(e->d_name)) names_add(&below, e->d_name);
  if (dir) closedir(dir);
  for (size_t i = 0; i < below.count; i++) {
    char *path = path_of("%s/%s", out, below.name[i]);
    remove_folder(path);
    free(path);
  }
  names_free(&below);
}
