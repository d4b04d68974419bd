/* Opening a page in the user's browser. */
#include "browser.h"

#include <spawn.h>
#include <stdlib.h>
#include <unistd.h>

#include "folders.h"

extern char **environ;

void browser_open(const char *address) {
  char program[] = "xdg-open", *words[] = {program, (char *)address, NULL};
  pid_t child;
  if (posix_spawnp(&child, words[0], NULL, NULL, words, environ))
    complain("no browser could be started: open %s yourself", address);
}

char *browser_file(const char *name) {
  char *path = path_of("/tmp/attend-%s-XXXXXX.html", name);
  int file = mkstemps(path, 5);
  if (file >= 0) {
    close(file);
    return path;
  }
  complain("no file can be made in /tmp for the page: use --out page.html");
  free(path);
  return NULL;
}
