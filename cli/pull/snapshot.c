/* A model from a Hugging Face hub: from its name to a folder with its files.
 *
 * One of the two ways of `attend pull`.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "pull/pull.h"
#include "pull/blob.h"
#include "pull/choice.h"

typedef struct {
  const pull_wish *wish;
  hub_spec spec;
  hub_cache cache;
  hub hub;
  bool *chosen, *done; /* [hub.files.count] */
} snapshot;

/* ---- the list of files ----------------------------------------------------------- */

/* Offline, the list is what the cache holds of the commit. */
static int list_cached(snapshot *s) {
  hub *h = &s->hub;
  *h = (hub){.spec = &s->spec, .ctx = s->wish->ctx};
  h->commit = hub_cache_commit(&s->cache, s->spec.revision);
  char *folder = h->commit ? hub_cache_snapshot(&s->cache, h->commit) : NULL;
  bool found = folder && is_folder(folder) && names_below(folder, &h->files);
  free(folder);
  if (found) return EXIT_OK;
  complain("%s at revision %s is not in %s: pull without --offline", s->spec.id,
           s->spec.revision, s->cache.root);
  return EXIT_FAILED;
}

static int list(snapshot *s) {
  if (s->wish->offline) return list_cached(s);
  int code = hub_open(&s->spec, s->wish->ctx, &s->hub);
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

/* The indexes have been pulled; they say which weights are to follow. */
static int choose_rest(snapshot *s) {
  const names *files = &s->hub.files;
  int code = EXIT_OK;
  if (s->wish->all || s->wish->count) return EXIT_OK;
  for (size_t i = 0; !code && i < files->count; i++) {
    if (!is_index(files->name[i])) continue;
    char *folder = hub_cache_snapshot(&s->cache, s->hub.commit);
    char *path = path_of("%s/%s", folder, files->name[i]);
    code = choose_shards(s->wish, path, files, s->chosen);
    free(folder);
    free(path);
  }
  return code;
}

/* The revision is noted last: whoever looks it up finds a whole model. */
static int pull_all(snapshot *s, pulled *got) {
  const names *files = &s->hub.files;
  s->chosen = need(files->count, sizeof *s->chosen);
  s->done = need(files->count, sizeof *s->done);
  int code = choose_files(s->wish, files, s->chosen);
  if (!code) code = pull_chosen(s, got);
  if (!code) code = choose_rest(s);
  if (!code) code = pull_chosen(s, got);
  if (!code && !s->wish->offline &&
      !hub_cache_keep_commit(s->wish->ctx, &s->cache, s->spec.revision,
                             s->hub.commit))
    code = EXIT_FAILED;
  return code;
}

int pull_from_hub(const char *given, const pull_wish *wish, pulled *got) {
  snapshot s = {.wish = wish};
  int code = EXIT_FAILED;
  signal(SIGXFSZ, SIG_IGN); /* too large for a limit: an error, not the end */
  if (!hub_spec_read(given, &s.spec)) return EXIT_USAGE;
  if (hub_cache_open(&s.spec, &s.cache)) code = list(&s);
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
  hub_spec_free(&s.spec);
  return code;
}
