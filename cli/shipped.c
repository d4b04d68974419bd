/* The models that come with the program: attend:NAME.
 *
 * Below model_path.c. They lie in share/attend/models beside the program's bin, or in
 * models/ of the tree that it was built in; ATTEND_MODELS names another folder.
 */
#include "shipped.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "folders.h"

enum { PLACES = 3 };

/* The folders that may hold them; NULL where there is none. */
static void places(char *folder[PLACES]) {
  char program[PATH_MAX];
  const char *given = getenv("ATTEND_MODELS");
  ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
  program[n > 0 ? n : 0] = 0;
  char *slash = strrchr(program, '/');
  if (slash) *slash = 0;
  folder[0] = given && *given ? need_copy(given) : NULL;
  folder[1] = slash ? path_of("%s/../share/attend/models", program) : NULL;
  folder[2] = slash ? path_of("%s/../models", program) : NULL;
}

static void places_free(char *folder[PLACES]) {
  for (int i = 0; i < PLACES; i++) free(folder[i]);
}

static bool is_model(const char *path) {
  char *config = path_of("%s/config.json", path);
  bool there = file_bytes(config) >= 0;
  free(config);
  return there;
}

char *shipped_find(const char *name) {
  char *folder[PLACES], *found = NULL;
  places(folder);
  for (int i = 0; i < PLACES && !found && is_tame(name, strlen(name)); i++) {
    if (!folder[i]) continue;
    found = path_of("%s/%s", folder[i], name);
    if (is_model(found)) break;
    free(found);
    found = NULL;
  }
  places_free(folder);
  return found;
}

static void add_names(const char *folder, char *text, size_t size) {
  DIR *dir = opendir(folder);
  for (struct dirent *e; dir && (e = readdir(dir));) {
    char *path = path_of("%s/%s", folder, e->d_name);
    size_t used = strlen(text);
    if (e->d_name[0] != '.' && is_model(path))
      snprintf(text + used, size - used, "%sattend:%s", used ? ", " : "",
               e->d_name);
    free(path);
  }
  if (dir) closedir(dir);
}

void shipped_names(char *text, size_t size) {
  char *folder[PLACES];
  *text = 0;
  places(folder);
  for (int i = 0; i < PLACES && !*text; i++)
    if (folder[i]) add_names(folder[i], text, size);
  places_free(folder);
}
