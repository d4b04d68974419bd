/* A package's tar file: unpacked into its folder and nowhere else, or refused by a sentence. */
#include <dirent.h>
#include <zlib.h>

#include "fuzz.h"
#include "pull/pull.h"

/* The reader's only call back: there is no one to stop it. */
attend_status pull_report(pull *p) {
  (void)p;
  return ATTEND_OK;
}

static void put_gz(const char *path, const uint8_t *bytes, size_t length) {
  gzFile f = gzopen(path, "wb1");
  MUST(f);
  MUST(!length || gzwrite(f, bytes, (unsigned)length) == (int)length);
  MUST(gzclose(f) == Z_OK);
}

/* Beside the folder lies the tarball alone. */
static void check_outside(const char *top) {
  DIR *d = opendir(top);
  MUST(d);
  for (const struct dirent *e; (e = readdir(d));)
    MUST(*e->d_name == '.' || !strcmp(e->d_name, "in") || !strcmp(e->d_name, "p.tgz"));
  closedir(d);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
  attend_context *ctx = fuzz_context(length);
  char top[300], folder[310], tarball[310];
  pull p = {.ctx = ctx, .name = "npm:fuzz"};
  size_t live = fuzz_live;
  snprintf(top, sizeof top, "%s", fuzz_path("top"));
  snprintf(folder, sizeof folder, "%s/in", top);
  snprintf(tarball, sizeof tarball, "%s/p.tgz", top);
  MUST(!folder_make(ctx, folder));
  put_gz(tarball, bytes, length);
  if (pull_unpack(&p, tarball, folder)) MUST(*attend_message(ctx));
  check_outside(top);
  folder_remove(top);
  MUST(fuzz_live == live);
  return 0;
}
