/* attend pull hf:OWNER/NAME: from a name to a folder with its files. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "pull/pull.h"
#include "pull/blob.h"
#include "pull/choice.h"

typedef struct {
  const pull_request *request;
  const char *given; /* hf:OWNER/NAME[@REVISION] */
  attend_model_name model;
  hub_cache cache;
  hub hub;
  bool *chosen, *done; /* [hub.files.count] */
} snapshot;

/* ---- the list of files ----------------------------------------------------------- */

/* Offline, the list is what the cache holds of the commit. */
static int list_cached(snapshot *s) {
  hub *h = &s->hub;
  char folder[ATTEND_PATH_SIZE];
  *h = (hub){.model = &s->model, .ctx = s->request->ctx};
  if (!attend_model_find(s->request->ctx, s->given, folder) && names_below(folder, &h->files)) {
    h->commit = need_copy(strrchr(folder, '/') + 1);
    return EXIT_OK;
  }
  complain("%s at revision %s is not in %s: pull without --offline", s->model.name,
           s->model.revision, s->cache.root);
  return EXIT_FAILED;
}

static int list(snapshot *s) {
  if (s->request->offline) return list_cached(s);
  int code = hub_open(&s->model, s->request->ctx, &s->hub);
  return code ? code : hub_list(&s->hub);
}

/* ---- the files --------------------------------------------------------------------- */

static void keep(pulled *got, const char *name, bool already) {
  size_t n = got->files.count;
  got->already = need_more(got->already, n, n + 1, sizeof *got->already);
  got->already[n] = already;
  names_add(&got->files, name);
}

static int pull_chosen(snapshot *s, pulled *got) {
  const names *files = &s->hub.files;
  for (size_t i = 0; i < files->count; i++) {
    bool already;
    if (!s->chosen[i] || s->done[i]) continue;
    int code = blob_pull(&s->hub, &s->cache, files->name[i], &already);
    if (code) return code;
    s->done[i] = true;
    keep(got, files->name[i], already);
  }
  return EXIT_OK;
}

/* The indexes have been pulled; they name the shards to pull. */
static int choose_rest(snapshot *s) {
  const names *files = &s->hub.files;
  int code = EXIT_OK;
  if (s->request->all || s->request->count) return EXIT_OK;
  for (size_t i = 0; !code && i < files->count; i++) {
    if (!is_index(files->name[i])) continue;
    char *folder = hub_cache_snapshot(&s->cache, s->hub.commit);
    char *path = path_of("%s/%s", folder, files->name[i]);
    code = choose_shards(s->request, path, files, s->chosen);
    free(folder);
    free(path);
  }
  return code;
}

/* The reference is written last, so that it always names a complete model. */
static int pull_all(snapshot *s, pulled *got) {
  const names *files = &s->hub.files;
  s->chosen = need(files->count, sizeof *s->chosen);
  s->done = need(files->count, sizeof *s->done);
  int code = choose_files(s->request, files, s->chosen);
  if (!code) code = pull_chosen(s, got);
  if (!code) code = choose_rest(s);
  if (!code) code = pull_chosen(s, got);
  if (!code && !s->request->offline &&
      !hub_cache_keep_commit(s->request->ctx, &s->cache, s->model.revision, s->hub.commit))
    code = EXIT_FAILED;
  return code;
}

int pull_from_hub(const char *given, const pull_request *request, pulled *got) {
  snapshot s = {.request = request, .given = given};
  signal(SIGXFSZ, SIG_IGN); /* beyond a file size limit: an error, not a signal */
  attend_status status = attend_model_name_parse(request->ctx, given, &s.model);
  if (status) return complain_status(request->ctx, status);
  if (!*s.model.revision) strcpy(s.model.revision, "main");
  int code = hub_cache_open(request->ctx, &s.model, &s.cache);
  if (!code) code = list(&s);
  if (!code) code = pull_all(&s, got);
  if (!code) {
    got->root = hub_cache_snapshot(&s.cache, s.hub.commit);
    got->path = need_copy(got->root);
    got->version = need_copy(s.hub.commit);
  }
  free(s.chosen);
  free(s.done);
  hub_close(&s.hub);
  hub_cache_close(&s.cache);
  return code;
}
