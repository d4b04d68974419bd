/* attend pull hf:OWNER/NAME: from a Hugging Face hub into the cache of its own clients,
 * so that each finds what the other pulled. attend_model_find (attend/model.h) reads it.
 *
 * The hub is HF_ENDPOINT, else https://huggingface.co:
 *   GET  /api/models/ID/revision/REVISION    the commit, and all files' names
 *   HEAD /ID/resolve/COMMIT/FILE             the file's hash and size
 *   GET  /ID/resolve/COMMIT/FILE             its bytes, often by a redirect
 * The hash is the etag: SHA-256 of large files (LFS), git's blob id of others.
 *
 * The cache:
 *   models--OWNER--NAME/blobs/ETAG               the bytes
 *   models--OWNER--NAME/snapshots/COMMIT/FILE    a link to its blob
 *   models--OWNER--NAME/refs/REVISION            the commit it stands for
 *   .locks/models--OWNER--NAME/ETAG.lock         held while a blob is written
 */
#include <ctype.h>
#include <errno.h>
#include <fnmatch.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "attend/model.h"
#include "attend/json.h"
#include "progress.h"
#include "pull/pull.h"

enum { COMMIT_DIGITS = 40 };

typedef struct {
  pull *p;
  attend_model_name model;
  const char *cache, *folder, *locks; /* of all models; of this one; of its locks */
  const char *endpoint;
  bool has_token;
  http *http; /* NULL: offline */
  const char *commit, *snapshot;
  names files;         /* all that the repository has, in order */
  bool *chosen, *done; /* [files.count] */
} hub;

typedef struct {
  char etag[HEADER_SIZE]; /* 40 or 64 digits */
  int64_t size;           /* -1: unknown */
} hub_file;

/* ---- the token ------------------------------------------------------------------- */

/* Of one line, and fit for a header; NULL otherwise. */
static const char *clean_token(pull *p, const char *text) {
  text += strspn(text, " \t\r\n");
  size_t length = strcspn(text, " \t\r\n");
  for (size_t i = 0; i < length; i++)
    if (text[i] < 33 || text[i] > 126) return NULL;
  return length ? keep(p, path_of("%.*s", (int)length, text)) : NULL;
}

static const char *token_in(pull *p, const char *path) {
  char text[1024] = {0};
  FILE *f = fopen(path, "r");
  if (!f) return NULL;
  size_t length = fread(text, 1, sizeof text - 1, f);
  fclose(f);
  return length ? clean_token(p, text) : NULL;
}

/* HF_TOKEN, else the token of the hub's own login. NULL: none. */
static const char *find_token(pull *p) {
  const char *given = getenv("HF_TOKEN"), *place = getenv("HF_TOKEN_PATH");
  char home[ATTEND_PATH_SIZE];
  if (given && *given) return clean_token(p, given);
  if (place && *place) return token_in(p, place);
  return attend_hub_home(p->ctx, home) ? NULL : token_in(p, keep(p, path_of("%s/token", home)));
}

/* ---- error responses ------------------------------------------------------------- */

static int complain_forbidden(const hub *h, const answer *a) {
  const char *id = h->model.name;
  if (!strcmp(a->error, "GatedRepo"))
    return complain(
        "%s is gated: accept its terms at %s/%s, and set HF_TOKEN to a token of that "
        "account",
        id, h->endpoint, id);
  if (h->has_token)
    return complain("%s does not let this token read %s (%ld): check the name and HF_TOKEN",
                    h->endpoint, id, a->status);
  return complain(
      "%s does not let everybody read %s (%ld): check the name, or set HF_TOKEN if it "
      "is private or gated",
      h->endpoint, id, a->status);
}

/* `name` is the file's, or NULL for the repository. */
static int refused(const hub *h, const char *name, const answer *a) {
  const char *id = h->model.name;
  if (a->status == 401 || a->status == 403) return complain_forbidden(h, a);
  if (a->status == 404 && name)
    return complain("%s has no file %s at commit %s", id, name, h->commit);
  if (a->status == 404 && !strcmp(a->error, "RevisionNotFound"))
    return complain("%s has no revision \"%s\": check the spelling", id, h->model.revision);
  if (a->status == 404)
    return complain("there is no %s at %s, or no revision \"%s\" of it: check the spelling", id,
                    h->endpoint, h->model.revision);
  if (a->status == 429) return complain("%s limits requests (429): pull again later", h->endpoint);
  return complain("%s fails with %ld: pull again later", h->endpoint, a->status);
}

/* ---- the list of files ----------------------------------------------------------- */

static const char *escaped(pull *p, const char *name, bool slashes) {
  char *to = need(3 * strlen(name) + 1, 1), *at = to;
  for (; *name; name++) {
    bool plain =
        isalnum((unsigned char)*name) || strchr("-._~", *name) || (slashes && *name == '/');
    at += sprintf(at, plain ? "%c" : "%%%02X", (unsigned char)*name);
  }
  return keep(p, to);
}

static void set_commit(hub *h, const char *commit) {
  h->commit = keep(h->p, need_copy(commit));
  h->snapshot = keep(h->p, path_of("%s/snapshots/%s", h->folder, commit));
}

/* A path that escapes the folder means a hostile server: the whole listing is
 * rejected. */
static int take_list(hub *h, const attend_json *root) {
  const char *commit = attend_json_string(attend_json_get(root, "sha"), NULL);
  const attend_json *list = attend_json_get(root, "siblings");
  bool fine = commit && is_hex(commit, COMMIT_DIGITS);
  if (fine) set_commit(h, commit);
  for (size_t i = 0; fine && i < attend_json_count(list); i++) {
    size_t length;
    const char *name =
        attend_json_string(attend_json_get(attend_json_at(list, i), "rfilename"), &length);
    fine = name;
    if (name && !attend_name_is_safe(name, length))
      return complain(
          "%s lists a file of %s whose name leads out of its folder: nothing was "
          "pulled",
          h->endpoint, h->model.name);
    if (name) names_add(&h->files, name);
  }
  if (fine) return EXIT_OK;
  return complain("%s returned no list of files: check HF_ENDPOINT", h->endpoint);
}

static int list_online(hub *h) {
  pull *p = h->p;
  const char *given = getenv("HF_ENDPOINT"), *token = find_token(p);
  h->endpoint = keep(p, without_slashes(given && *given ? given : "https://huggingface.co"));
  h->has_token = token;
  h->http = http_open(h->endpoint, token);
  if (!h->http) return EXIT_FAILED;
  const char *url = keep(p, path_of("%s/api/models/%s/revision/%s", h->endpoint, h->model.name,
                                    escaped(p, h->model.revision, false)));
  char *text;
  size_t length;
  answer a;
  attend_json *root = NULL;
  int code = EXIT_FAILED;
  if (http_text(h->http, url, &a, &text, &length)) {
    if (a.status == 200 && attend_json_parse(p->ctx, url, text, length, &root)) root = NULL;
    code = a.status == 200 ? take_list(h, root) : refused(h, NULL, &a);
  }
  attend_json_free(root);
  free(text);
  return code;
}

/* Offline, the list is what the cache holds of the commit. */
static int list_cached(hub *h) {
  char folder[ATTEND_PATH_SIZE];
  if (attend_model_find(h->p->ctx, h->p->given, folder) || !names_below(folder, &h->files))
    return complain("%s at revision %s is not in %s: pull without --offline", h->model.name,
                    h->model.revision, h->cache);
  set_commit(h, strrchr(folder, '/') + 1);
  return EXIT_OK;
}

/* ---- which files ----------------------------------------------------------------- */

#define WEIGHTS "*.safetensors"
#define INDEX "*.safetensors.index.json"

/* Weights in other formats, which nothing here reads, are skipped. */
static const char *const needed[] = {
    "config.json", "generation_config.json",
    /* the tokenizer */
    "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
    "vocab.json", "merges.txt", "vocab.txt", "tokenizer.model", "spiece.model",
    "sentencepiece.bpe.model", "chat_template.jinja",
    /* sentence-transformers: pooling of sentence vectors */
    "modules.json", "config_sentence_transformers.json", "sentence_bert_config.json",
    "[0-9]_*/config.json", "[0-9]_*/model.safetensors",
    /* the weights */
    WEIGHTS, INDEX};
enum { NEEDED = sizeof needed / sizeof *needed };

static bool fits(const char *pattern, const char *name) {
  return !fnmatch(pattern, name, FNM_PATHNAME);
}

static bool is_needed(const char *name, bool indexed) {
  if (indexed && fits(WEIGHTS, name)) return false;
  for (int i = 0; i < NEEDED; i++)
    if (fits(needed[i], name)) return true;
  return false;
}

/* Configuration, tokenizer and weights; shards that an index names are chosen later. */
static int choose_needed(const hub *h) {
  bool indexed = false, any = false;
  for (size_t i = 0; i < h->files.count; i++) indexed |= fits(INDEX, h->files.name[i]);
  for (size_t i = 0; i < h->files.count; i++)
    any |= h->chosen[i] = is_needed(h->files.name[i], indexed);
  if (any) return EXIT_OK;
  return complain("none of its %zu files is one that a model needs here: name files, or take --all",
                  h->files.count);
}

/* An argument is a name or a glob pattern. */
static int choose_named(const hub *h, const char *pattern) {
  bool any = false;
  for (size_t i = 0; i < h->files.count; i++) {
    const char *name = h->files.name[i];
    if (strcmp(pattern, name) && fnmatch(pattern, name, 0)) continue;
    h->chosen[i] = any = true;
  }
  if (any) return EXIT_OK;
  return complain("none of its %zu files is called %s: check the spelling", h->files.count,
                  pattern);
}

static int choose_files(const hub *h) {
  const pull *p = h->p;
  if (p->all) memset(h->chosen, true, h->files.count * sizeof *h->chosen);
  if (!p->all && !p->count) return choose_needed(h);
  int code = EXIT_OK;
  for (int i = 0; i < p->count && !code; i++) code = choose_named(h, p->patterns[i]);
  return code;
}

static bool choose(const hub *h, const char *name) {
  for (size_t i = 0; name && i < h->files.count; i++)
    if (!strcmp(name, h->files.name[i])) return h->chosen[i] = true;
  return false;
}

static int choose_shards(const hub *h, const char *index) {
  const char *path = keep(h->p, path_of("%s/%s", h->snapshot, index));
  attend_json *root = read_json(h->p->ctx, path);
  const attend_json *map = attend_json_get(root, "weight_map");
  int code = root ? EXIT_OK : EXIT_FAILED;
  for (size_t i = 0; !code && i < attend_json_count(map); i++) {
    const char *name = attend_json_string(attend_json_at(map, i), NULL);
    if (!choose(h, name))
      code = complain("%s names the weights %.80s, which are not there: %s", path,
                      name ? name : "(no text)",
                      h->http ? "the repository lacks them" : "pull without --offline");
  }
  attend_json_free(root);
  return code;
}

/* Once the indexes have been pulled: the shards that they name. */
static int choose_rest(const hub *h) {
  int code = EXIT_OK;
  if (h->p->all || h->p->count) return EXIT_OK;
  for (size_t i = 0; !code && i < h->files.count; i++)
    if (fits(INDEX, h->files.name[i])) code = choose_shards(h, h->files.name[i]);
  return code;
}

/* ---- one file -------------------------------------------------------------------- */

static int ask_file(const hub *h, const char *name, const char *url, hub_file *file) {
  answer a;
  if (!http_head(h->http, url, &a)) return EXIT_FAILED;
  bool redirected = a.status / 100 == 3;
  if (a.status != 200 && !redirected) return refused(h, name, &a);
  strcpy(file->etag, *a.linked_etag ? a.linked_etag : a.etag);
  file->size = a.linked_size >= 0 ? a.linked_size : redirected ? -1 : a.length;
  if (is_hex(file->etag, GIT_DIGITS) || is_hex(file->etag, SHA256_DIGITS)) return EXIT_OK;
  return complain("%s gives no hash for %s, so that it cannot be checked: check HF_ENDPOINT",
                  h->endpoint, name);
}

static int check_hash(const hub *h, const char *name, const char *etag, const char *path) {
  char hex[SHA256_DIGITS + 1] = "";
  if (file_bytes(path) > 1 << 28) progress_note("checking the hash");
  bool read = file_digest(path, strlen(etag) == GIT_DIGITS, hex);
  progress_end();
  if (!read) return EXIT_FAILED;
  if (!strcmp(hex, etag)) return EXIT_OK;
  unlink(path);
  return complain("%s from %s does not have the announced hash and was deleted: pull again", name,
                  h->endpoint);
}

/* A blob gets its name only once its hash is verified and its bytes are on disk. An
 * interrupted download leaves ETAG.incomplete, which the next one resumes. */
static int fetch(const hub *h, const char *name, const char *url, const hub_file *file,
                 const char *blob) {
  const char *path = keep(h->p, path_of("%s.incomplete", blob));
  answer a;
  if (!make_room(path)) return EXIT_FAILED;
  progress_start(name, file->size > 0 ? (size_t)file->size : 0);
  int code = http_file(h->http, url, path, file->size, &a) ? EXIT_OK : EXIT_FAILED;
  progress_end();
  if (!code && a.status != 200 && a.status != 206) code = refused(h, name, &a);
  if (!code) code = check_hash(h, name, file->etag, path);
  if (!code && rename(path, blob))
    code = complain("%s cannot be written: %s", blob, strerror(errno));
  if (code && file_bytes(path) == 0) unlink(path);
  return code;
}

/* ../../blobs/ETAG, and one more .. for each folder in the name. */
static const char *link_target(pull *p, const char *name, const char *etag) {
  const char *target = keep(p, path_of("../../blobs/%s", etag));
  for (const char *at = strchr(name, '/'); at; at = strchr(at + 1, '/'))
    target = keep(p, path_of("../%s", target));
  return target;
}

static int link_file(const hub *h, const char *path, const char *name, const char *etag) {
  const char *fresh = keep(h->p, path_of("%s.%ld", path, (long)getpid()));
  if (!make_room(path)) return EXIT_FAILED;
  if (!symlink(link_target(h->p, name, etag), fresh) && !rename(fresh, path)) return EXIT_OK;
  complain("the link %s cannot be made: %s", path, strerror(errno));
  unlink(fresh);
  return EXIT_FAILED;
}

/* Makes snapshots/COMMIT/NAME. After waiting for the lock, the blob may already be
 * there. */
static int pull_file(const hub *h, const char *name) {
  pull *p = h->p;
  hub_file file;
  const char *path = keep(p, path_of("%s/%s", h->snapshot, name));
  bool already = file_bytes(path) >= 0;
  pull_add(p, name, already);
  if (already) return EXIT_OK;
  if (!h->http)
    return complain("%s of %s is not in %s: pull without --offline", name, h->model.name, h->cache);
  const char *url = keep(p, path_of("%s/%s/resolve/%s/%s", h->endpoint, h->model.name, h->commit,
                                    escaped(p, name, true)));
  int code = ask_file(h, name, url, &file);
  if (code) return code;
  const char *blob = keep(p, path_of("%s/blobs/%s", h->folder, file.etag));
  int lock = lock_take(keep(p, path_of("%s/%s.lock", h->locks, file.etag)));
  if (lock < 0) return EXIT_FAILED;
  int64_t bytes = file_bytes(blob);
  if (bytes < 0 || (file.size >= 0 && bytes != file.size)) code = fetch(h, name, url, &file, blob);
  if (!code) code = link_file(h, path, name, file.etag);
  lock_drop(lock);
  return code;
}

/* ---- all of them ----------------------------------------------------------------- */

static int pull_chosen(const hub *h) {
  int code = EXIT_OK;
  for (size_t i = 0; i < h->files.count && !code; i++) {
    if (!h->chosen[i] || h->done[i]) continue;
    code = pull_file(h, h->files.name[i]);
    h->done[i] = true;
  }
  return code;
}

/* Writes refs/REVISION, last, so that it always names a complete model. */
static int keep_commit(const hub *h) {
  const char *commit = h->commit;
  if (!h->http || !strcmp(h->model.revision, commit)) return EXIT_OK;
  const char *path = keep(h->p, path_of("%s/refs/%s", h->folder, h->model.revision));
  if (!make_room(path)) return EXIT_FAILED;
  if (!attend_file_write(h->p->ctx, path, commit, strlen(commit))) return EXIT_OK;
  return complain("%s", attend_message(h->p->ctx));
}

static int pull_all(hub *h) {
  pull *p = h->p;
  int code = p->offline ? list_cached(h) : list_online(h);
  if (code) return code;
  h->chosen = need(h->files.count, sizeof *h->chosen);
  h->done = need(h->files.count, sizeof *h->done);
  code = choose_files(h);
  if (!code) code = pull_chosen(h);
  if (!code) code = choose_rest(h);
  if (!code) code = pull_chosen(h);
  if (!code) code = keep_commit(h);
  p->root = p->path = h->snapshot;
  p->version = h->commit;
  return code;
}

int pull_from_hub(pull *p) {
  hub h = {.p = p};
  char folder[ATTEND_PATH_SIZE];
  signal(SIGXFSZ, SIG_IGN); /* beyond a file size limit: an error, not a signal */
  attend_status status = attend_model_name_parse(p->ctx, p->given, &h.model);
  if (!status && !*h.model.revision) strcpy(h.model.revision, "main");
  if (!status) status = attend_model_cache(p->ctx, &h.model, folder);
  if (status) return complain_status(p->ctx, status);
  const char *name = strrchr(folder, '/') + 1;
  h.folder = keep(p, need_copy(folder));
  h.cache = keep(p, path_of("%.*s", (int)(name - 1 - folder), folder));
  h.locks = keep(p, path_of("%s/.locks/%s", h.cache, name));
  int code = pull_all(&h);
  http_close(h.http);
  names_free(&h.files);
  free(h.chosen);
  free(h.done);
  return code;
}
