/* hf:OWNER/NAME: from a Hugging Face hub into the cache of its own clients, so that each
 * finds what the other pulled. attend_model_find (attend/model.h) reads it.
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
#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "pull/pull.h"

enum { COMMIT_DIGITS = 40 };

typedef struct {
  pull *p;
  attend_model_name model;
  path_text folder, cache, locks; /* of this model; of all models; of its locks */
  path_text endpoint;
  bool offline, has_token;
  http *http; /* NULL: offline */
  char commit[COMMIT_DIGITS + 1];
  path_text snapshot;
  name_list files;     /* all that the repository has, in order */
  bool *chosen, *done; /* [files.count] */
} hub;

typedef struct {
  char etag[HEADER_SIZE]; /* 40 or 64 digits */
  int64_t size;           /* -1: unknown */
} hub_file;

static bool is_hex(const char *text, size_t length) {
  return strlen(text) == length && strspn(text, "0123456789abcdef") == length;
}

/* ---- the environment --------------------------------------------------------------- */

/* As the hub's own clients read such variables. */
static bool is_on(const char *variable) {
  const char *value = getenv(variable);
  return value && (!strcmp(value, "1") || !strcasecmp(value, "on") || !strcasecmp(value, "yes") ||
                   !strcasecmp(value, "true"));
}

enum { TOKEN_SIZE = 1024 };

/* The first word of the text, if it is fit for a header; else "". */
static void clean_token(const char *text, char token[TOKEN_SIZE]) {
  text += strspn(text, " \t\r\n");
  size_t length = strcspn(text, " \t\r\n");
  *token = 0;
  for (size_t i = 0; i < length; i++)
    if (text[i] < 33 || text[i] > 126) return;
  if (length < TOKEN_SIZE) snprintf(token, TOKEN_SIZE, "%.*s", (int)length, text);
}

static void read_token(const char *path, char token[TOKEN_SIZE]) {
  char text[TOKEN_SIZE] = {0};
  FILE *f = fopen(path, "re");
  if (!f) return;
  size_t length = fread(text, 1, sizeof text - 1, f);
  fclose(f);
  if (length) clean_token(text, token);
}

/* HF_TOKEN, else the token of the hub's own login; "": none. */
static void find_token(pull *p, char token[TOKEN_SIZE]) {
  const char *given = getenv("HF_TOKEN"), *place = getenv("HF_TOKEN_PATH");
  path_text home, path;
  *token = 0;
  if (given && *given)
    clean_token(given, token);
  else if (place && *place)
    read_token(place, token);
  else if (!attend_hub_home(p->ctx, home) && !path_inside(p->ctx, home, "token", path))
    read_token(path, token);
}

/* ---- error responses ------------------------------------------------------------- */

static attend_status forbidden(const hub *h, const answer *a) {
  attend_context *ctx = h->p->ctx;
  const char *id = h->model.name;
  if (!strcmp(a->error, "GatedRepo"))
    return fail(ctx, ATTEND_IO,
                "%s is gated: accept its terms at %.200s/%s, and set HF_TOKEN to a token of that "
                "account",
                id, h->endpoint, id);
  if (h->has_token)
    return fail(ctx, ATTEND_IO,
                "%.200s does not let this token read %s (%ld): check the name and HF_TOKEN",
                h->endpoint, id, a->status);
  return fail(ctx, ATTEND_IO,
              "%.200s does not let everybody read %s (%ld): check the name, or set HF_TOKEN if it "
              "is private or gated",
              h->endpoint, id, a->status);
}

/* `name` is the file's, or NULL for the repository. */
static attend_status refused(const hub *h, const char *name, const answer *a) {
  attend_context *ctx = h->p->ctx;
  const char *id = h->model.name;
  if (a->status == 401 || a->status == 403) return forbidden(h, a);
  if (a->status == 404 && name)
    return fail(ctx, ATTEND_IO, "%s has no file %.150s at commit %s", id, name, h->commit);
  if (a->status == 404 && !strcmp(a->error, "RevisionNotFound"))
    return fail(ctx, ATTEND_IO, "%s has no revision \"%.150s\": check the spelling", id,
                h->model.revision);
  if (a->status == 404)
    return fail(ctx, ATTEND_IO,
                "there is no %s at %.100s, or no revision \"%.100s\" of it: check the spelling", id,
                h->endpoint, h->model.revision);
  if (a->status == 429)
    return fail(ctx, ATTEND_IO, "%.200s limits requests (429): pull again later", h->endpoint);
  return fail(ctx, ATTEND_IO, "%.200s fails with %ld: pull again later", h->endpoint, a->status);
}

/* ---- the list of files ----------------------------------------------------------- */

/* Everything but letters, digits and -._~ as %XX; slashes stay if asked to. */
static void escape(const char *name, bool slashes, path_text to) {
  static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~";
  size_t n = 0;
  for (; *name && n + 4 < sizeof(path_text); name++) {
    bool stays = strchr(plain, *name) || (slashes && *name == '/');
    n += (size_t)sprintf(to + n, stays ? "%c" : "%%%02X", (unsigned char)*name);
  }
  to[n] = 0;
}

static attend_status set_commit(hub *h, const char *commit) {
  snprintf(h->commit, sizeof h->commit, "%s", commit);
  ATTEND_TRY(path_put(h->p->ctx, h->snapshot, "%s/snapshots/%s", h->folder, commit));
  return path_put(h->p->ctx, h->p->result->root, "%s", h->snapshot);
}

/* A path that escapes the folder means a hostile server: the whole listing is
 * rejected. */
static attend_status take_name(hub *h, const attend_json *file) {
  size_t length;
  const char *name = attend_json_string(attend_json_get(file, "rfilename"), &length);
  if (!name)
    return fail(h->p->ctx, ATTEND_IO, "%.200s returned no list of files: check HF_ENDPOINT",
                h->endpoint);
  if (attend_name_is_safe(name, length)) return name_list_add(h->p->ctx, &h->files, name);
  return fail(h->p->ctx, ATTEND_IO,
              "%.200s lists a file of %s whose name leads out of its folder: nothing was pulled",
              h->endpoint, h->model.name);
}

static attend_status take_list(hub *h, const attend_json *root) {
  const char *commit = attend_json_string(attend_json_get(root, "sha"), NULL);
  const attend_json *list = attend_json_get(root, "siblings");
  if (!commit || !is_hex(commit, COMMIT_DIGITS))
    return fail(h->p->ctx, ATTEND_IO, "%.200s returned no list of files: check HF_ENDPOINT",
                h->endpoint);
  ATTEND_TRY(set_commit(h, commit));
  for (size_t i = 0; i < attend_json_count(list); i++)
    ATTEND_TRY(take_name(h, attend_json_at(list, i)));
  return ATTEND_OK;
}

static attend_status connect_hub(hub *h) {
  const char *given = getenv("HF_ENDPOINT");
  char token[TOKEN_SIZE];
  find_token(h->p, token);
  h->has_token = *token;
  ATTEND_TRY(path_trim(h->p->ctx, given && *given ? given : "https://huggingface.co", h->endpoint));
  return http_open(h->p, h->endpoint, token, &h->http);
}

static attend_status list_online(hub *h) {
  attend_context *ctx = h->p->ctx;
  path_text url, revision;
  char *text;
  size_t length;
  answer a;
  attend_json *root = NULL;
  ATTEND_TRY(connect_hub(h));
  escape(h->model.revision, false, revision);
  ATTEND_TRY(
      path_put(ctx, url, "%s/api/models/%s/revision/%s", h->endpoint, h->model.name, revision));
  attend_status status = http_text(h->http, url, &a, &text, &length);
  if (!status && a.status != 200) status = refused(h, NULL, &a);
  if (!status && attend_json_parse(ctx, url, text, length, &root) == ATTEND_NO_MEMORY)
    status = ATTEND_NO_MEMORY;
  if (!status) status = take_list(h, root);
  attend_json_free(root);
  ctx_free(ctx, text);
  return status;
}

/* Offline, the list is what the cache holds of the commit. */
static attend_status list_cached(hub *h) {
  path_text folder;
  if (attend_model_find(h->p->ctx, h->p->name, folder))
    return fail(h->p->ctx, ATTEND_IO,
                "%s at revision %.100s is not in %.150s: pull without --offline", h->model.name,
                h->model.revision, h->cache);
  ATTEND_TRY(set_commit(h, strrchr(folder, '/') + 1));
  return name_list_below(h->p->ctx, &h->files, folder);
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
static attend_status choose_needed(const hub *h) {
  bool indexed = false, any = false;
  for (size_t i = 0; i < h->files.count; i++) indexed |= fits(INDEX, h->files.name[i]);
  for (size_t i = 0; i < h->files.count; i++)
    any |= h->chosen[i] = is_needed(h->files.name[i], indexed);
  if (any) return ATTEND_OK;
  return fail(h->p->ctx, ATTEND_IO,
              "none of its %zu files is one that a model needs here: name files, or take --all",
              h->files.count);
}

/* What was asked for is a name or a glob pattern. */
static attend_status choose_named(const hub *h, const char *pattern) {
  bool any = false;
  for (size_t i = 0; i < h->files.count; i++) {
    const char *name = h->files.name[i];
    if (strcmp(pattern, name) && fnmatch(pattern, name, 0)) continue;
    h->chosen[i] = any = true;
  }
  if (any) return ATTEND_OK;
  return fail(h->p->ctx, ATTEND_IO, "none of its %zu files is called %.200s: check the spelling",
              h->files.count, pattern);
}

static attend_status choose_files(const hub *h) {
  const attend_pull_options *o = &h->p->o;
  if (o->all) memset(h->chosen, true, h->files.count * sizeof *h->chosen);
  if (!o->all && !o->count) return choose_needed(h);
  for (int i = 0; i < o->count; i++) ATTEND_TRY(choose_named(h, o->files[i]));
  return ATTEND_OK;
}

static bool choose(const hub *h, const char *name) {
  for (size_t i = 0; name && i < h->files.count; i++)
    if (!strcmp(name, h->files.name[i])) return h->chosen[i] = true;
  return false;
}

static attend_status choose_shards(const hub *h, const char *index) {
  path_text path;
  attend_json *root;
  ATTEND_TRY(path_inside(h->p->ctx, h->snapshot, index, path));
  ATTEND_TRY(json_read(h->p->ctx, path, &root));
  const attend_json *map = attend_json_get(root, "weight_map");
  attend_status status = ATTEND_OK;
  for (size_t i = 0; !status && i < attend_json_count(map); i++) {
    const char *name = attend_json_string(attend_json_at(map, i), NULL);
    if (!choose(h, name))
      status = fail(h->p->ctx, ATTEND_IO, "%.300s names the weights %.80s, which are not there: %s",
                    path, name ? name : "(no text)",
                    h->http ? "the repository lacks them" : "pull without --offline");
  }
  attend_json_free(root);
  return status;
}

/* Once the indexes have been pulled: the shards that they name. */
static attend_status choose_rest(const hub *h) {
  if (h->p->o.all || h->p->o.count) return ATTEND_OK;
  for (size_t i = 0; i < h->files.count; i++)
    if (fits(INDEX, h->files.name[i])) ATTEND_TRY(choose_shards(h, h->files.name[i]));
  return ATTEND_OK;
}

/* ---- one file -------------------------------------------------------------------- */

static attend_status ask_file(const hub *h, const char *name, const char *url, hub_file *file) {
  answer a;
  ATTEND_TRY(http_head(h->http, url, &a));
  bool redirected = a.status / 100 == 3;
  if (a.status != 200 && !redirected) return refused(h, name, &a);
  strcpy(file->etag, *a.linked_etag ? a.linked_etag : a.etag);
  file->size = a.linked_size >= 0 ? a.linked_size : redirected ? -1 : a.length;
  if (is_hex(file->etag, GIT_DIGITS) || is_hex(file->etag, SHA256_DIGITS)) return ATTEND_OK;
  return fail(h->p->ctx, ATTEND_IO,
              "%.200s gives no hash for %.150s, so that it cannot be checked: check HF_ENDPOINT",
              h->endpoint, name);
}

static attend_status check_hash(const hub *h, const char *name, const char *etag,
                                const char *path) {
  char hex[ATTEND_SHA256_TEXT] = "";
  ATTEND_TRY(pull_digest(h->p, path, strlen(etag) == GIT_DIGITS, hex));
  if (!strcmp(hex, etag)) return ATTEND_OK;
  unlink(path);
  return fail(h->p->ctx, ATTEND_IO,
              "%.150s from %.200s does not have the announced hash and was deleted: pull again",
              name, h->endpoint);
}

static attend_status download(const hub *h, const char *name, const char *url, const hub_file *file,
                              const char *path) {
  pull *p = h->p;
  answer a;
  p->now = (attend_pull_progress){.file = name, .total = file->size};
  attend_status status = http_file(h->http, url, path, file->size, &a);
  p->now = (attend_pull_progress){0};
  ATTEND_TRY(status);
  return a.status == 200 || a.status == 206 ? ATTEND_OK : refused(h, name, &a);
}

/* A blob gets its name only once its hash is verified and its bytes are on disk. An
 * interrupted download leaves ETAG.incomplete, which the next one resumes. */
static attend_status fetch(const hub *h, const char *name, const char *url, const hub_file *file,
                           const char *blob) {
  path_text path;
  ATTEND_TRY(path_put(h->p->ctx, path, "%s.incomplete", blob));
  ATTEND_TRY(folder_make_above(h->p->ctx, path));
  attend_status status = download(h, name, url, file, path);
  if (!status) status = check_hash(h, name, file->etag, path);
  if (!status && rename(path, blob)) status = writing_failed(h->p->ctx, blob);
  if (status && file_bytes(path) == 0) unlink(path);
  return status;
}

/* ../../blobs/ETAG, and one more .. for each folder in the name. */
static attend_status link_target(pull *p, const char *name, const char *etag, path_text target) {
  path_text up = "";
  size_t n = 0;
  for (const char *at = strchr(name, '/'); at; at = strchr(at + 1, '/'))
    n += (size_t)sprintf(up + n, "../"); /* a safe name has at most 1024 bytes */
  return path_put(p->ctx, target, "%s../../blobs/%s", up, etag);
}

static attend_status link_file(const hub *h, const char *path, const char *name, const char *etag) {
  attend_context *ctx = h->p->ctx;
  path_text fresh, target;
  ATTEND_TRY(link_target(h->p, name, etag, target));
  ATTEND_TRY(path_put(ctx, fresh, "%s.%ld", path, (long)getpid()));
  ATTEND_TRY(folder_make_above(ctx, path));
  if (!symlink(target, fresh) && !rename(fresh, path)) return ATTEND_OK;
  attend_status status =
      fail(ctx, ATTEND_IO, "the link %.300s cannot be made: %s", path, strerror(errno));
  unlink(fresh);
  return status;
}

/* After waiting for the lock, the blob may already be there. */
static attend_status fetch_locked(const hub *h, const char *name, const char *url,
                                  const hub_file *file) {
  path_text blob, path;
  int lock;
  ATTEND_TRY(path_put(h->p->ctx, blob, "%s/blobs/%s", h->folder, file->etag));
  ATTEND_TRY(path_put(h->p->ctx, path, "%s/%s.lock", h->locks, file->etag));
  ATTEND_TRY(pull_lock(h->p, path, &lock));
  int64_t bytes = file_bytes(blob);
  attend_status status = path_inside(h->p->ctx, h->snapshot, name, path);
  if (!status && (bytes < 0 || (file->size >= 0 && bytes != file->size)))
    status = fetch(h, name, url, file, blob);
  if (!status) status = link_file(h, path, name, file->etag);
  lock_drop(lock);
  return status;
}

/* Makes snapshots/COMMIT/NAME. */
static attend_status pull_file(const hub *h, const char *name) {
  attend_context *ctx = h->p->ctx;
  hub_file file;
  path_text path, url, escaped;
  ATTEND_TRY(path_inside(ctx, h->snapshot, name, path));
  bool already = file_bytes(path) >= 0;
  ATTEND_TRY(pull_add(h->p, name, already));
  if (already) return ATTEND_OK;
  if (!h->http)
    return fail(ctx, ATTEND_IO, "%.100s of %s is not in %.150s: pull without --offline", name,
                h->model.name, h->cache);
  escape(name, true, escaped);
  ATTEND_TRY(
      path_put(ctx, url, "%s/%s/resolve/%s/%s", h->endpoint, h->model.name, h->commit, escaped));
  ATTEND_TRY(ask_file(h, name, url, &file));
  return fetch_locked(h, name, url, &file);
}

/* ---- all of them ----------------------------------------------------------------- */

static attend_status pull_chosen(const hub *h) {
  for (size_t i = 0; i < h->files.count; i++) {
    if (!h->chosen[i] || h->done[i]) continue;
    ATTEND_TRY(pull_file(h, h->files.name[i]));
    h->done[i] = true;
  }
  return ATTEND_OK;
}

/* Writes refs/REVISION, last, so that it always names a complete model. */
static attend_status keep_commit(const hub *h) {
  attend_context *ctx = h->p->ctx;
  path_text path;
  if (!h->http || !strcmp(h->model.revision, h->commit)) return ATTEND_OK;
  ATTEND_TRY(path_put(ctx, path, "%s/refs/%s", h->folder, h->model.revision));
  ATTEND_TRY(folder_make_above(ctx, path));
  return attend_file_write(ctx, path, h->commit, strlen(h->commit));
}

static attend_status pull_all(hub *h) {
  attend_context *ctx = h->p->ctx;
  attend_pulled *result = h->p->result;
  ATTEND_TRY(h->offline ? list_cached(h) : list_online(h));
  size_t bytes = h->files.count * sizeof(bool);
  ATTEND_TRY(ctx_alloc_zeroed(ctx, bytes, "a list of files", &h->chosen));
  ATTEND_TRY(ctx_alloc_zeroed(ctx, bytes, "a list of files", &h->done));
  ATTEND_TRY(choose_files(h));
  ATTEND_TRY(pull_chosen(h));
  ATTEND_TRY(choose_rest(h));
  ATTEND_TRY(pull_chosen(h));
  snprintf(result->version, sizeof result->version, "%s", h->commit);
  ATTEND_TRY(path_put(ctx, result->path, "%s", h->snapshot));
  return keep_commit(h);
}

static attend_status find_places(hub *h) {
  attend_context *ctx = h->p->ctx;
  ATTEND_TRY(attend_model_name_parse(ctx, h->p->name, &h->model));
  if (!*h->model.revision) strcpy(h->model.revision, "main");
  ATTEND_TRY(attend_model_cache(ctx, &h->model, h->folder));
  const char *name = strrchr(h->folder, '/') + 1;
  ATTEND_TRY(path_put(ctx, h->cache, "%.*s", (int)(name - 1 - h->folder), h->folder));
  return path_put(ctx, h->locks, "%s/.locks/%s", h->cache, name);
}

attend_status pull_from_hub(pull *p) {
  hub h = {.p = p, .offline = p->o.offline || is_on("HF_HUB_OFFLINE")};
  attend_status status = find_places(&h);
  if (!status) status = pull_all(&h);
  http_close(h.http);
  name_list_free(p->ctx, &h.files);
  ctx_free(p->ctx, h.chosen);
  ctx_free(p->ctx, h.done);
  return status;
}
