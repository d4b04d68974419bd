/* The saved steps in a run's folder.
 *
 * Place: cli/ - see train.h. A step is there once its folder has its name; it can
 * be gone on from as long as training.json is in it.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "folders.h"
#include "train.h"

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

void thin_steps(const char *out, uint64_t newest, long long keep) {
  uint64_t *steps, best = newest;
  size_t count = steps_saved(out, false, &steps), others = 0;
  linked_step(out, "best", &best);
  for (size_t i = 0; i < count; i++)
    if (steps[i] < newest) drop_state(out, steps[i]);
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
