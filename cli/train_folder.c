/* The saved steps in a run's folder.
 *
 * Place: cli/ - see train.h. A step is there once its folder has its name; it can
 * be gone on from as long as training.json is in it.
 */
#include <dirent.h>
#include <fcntl.h>
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
    if (count == capacity) {
      uint64_t *wider = need(capacity *= 2, sizeof *wider);
      memcpy(wider, found, count * sizeof *wider);
      free(found);
      found = wider;
    }
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
  size_t count = steps_saved(out, false, &steps), extra = 0;
  linked_step(out, "best", &best);
  for (size_t i = 0; i < count; i++)
    if (steps[i] < newest) drop_state(out, steps[i]);
  if (keep > 0 && count > (size_t)keep + 1) extra = count - 1 - (size_t)keep;
  for (size_t i = 1; i + 1 < count && extra; i++) {
    extra--;
    if (steps[i] != best && steps[i] != newest) drop_step(out, steps[i]);
  }
  free(steps);
}
