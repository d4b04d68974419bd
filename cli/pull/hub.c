/* The protocol of a Hugging Face hub: requests and responses. */
#include "pull/hub.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attend/json.h"
#include "progress.h"
#include "pull/digest.h"

/* ---- the token ----------------------------------------------------------------- */

/* Of one line, and fit for a header; NULL otherwise. */
static char *clean_token(const char *text) {
  text += strspn(text, " \t\r\n");
  size_t length = strcspn(text, " \t\r\n");
  for (size_t i = 0; i < length; i++)
    if (text[i] < 33 || text[i] > 126) return NULL;
  return length ? path_of("%.*s", (int)length, text) : NULL;
}

static char *token_in(const char *path) {
  char text[1024] = {0};
  FILE *f = fopen(path, "r");
  if (!f) return NULL;
  size_t length = fread(text, 1, sizeof text - 1, f);
  fclose(f);
  return length ? clean_token(text) : NULL;
}

/* HF_TOKEN, else the token of the hub's own login. NULL: none. */
static char *find_token(attend_context *ctx) {
  const char *given = getenv("HF_TOKEN"), *place = getenv("HF_TOKEN_PATH");
  if (given && *given) return clean_token(given);
  if (place && *place) return token_in(place);
  char home[ATTEND_PATH_SIZE];
  if (attend_hub_home(ctx, home)) return NULL;
  char *path = path_of("%s/token", home);
  char *token = token_in(path);
  free(path);
  return token;
}

/* ---- opening ------------------------------------------------------------------- */

static char *find_endpoint(void) {
  const char *given = getenv("HF_ENDPOINT");
  char *endpoint = need_copy(given && *given ? given : "https://huggingface.co");
  size_t length = strlen(endpoint);
  while (length && endpoint[length - 1] == '/') endpoint[--length] = 0;
  return endpoint;
}

int hub_open(const attend_model_name *model, attend_context *ctx, hub *h) {
  char *token = find_token(ctx);
  *h = (hub){.model = model, .ctx = ctx, .endpoint = find_endpoint()};
  h->has_token = token;
  h->line = transfer_open(h->endpoint, token);
  free(token);
  return h->line ? EXIT_OK : EXIT_FAILED;
}

void hub_close(hub *h) {
  transfer_close(h->line);
  names_free(&h->files);
  free(h->endpoint);
  free(h->commit);
  *h = (hub){0};
}

/* ---- refusals ------------------------------------------------------------------ */

static void complain_forbidden(const hub *h, const answer *a) {
  const char *id = h->model->name;
  if (!strcmp(a->error, "GatedRepo"))
    complain(
        "%s is gated: accept its terms at %s/%s, and set HF_TOKEN to a "
        "token of that account",
        id, h->endpoint, id);
  else if (h->has_token)
    complain(
        "%s does not let this token read %s (%ld): check the name and "
        "HF_TOKEN",
        h->endpoint, id, a->status);
  else
    complain(
        "%s does not let everybody read %s (%ld): check the name, or set "
        "HF_TOKEN if it is private or gated",
        h->endpoint, id, a->status);
}

/* `name` is the file's, or NULL for the repository. */
static int refused(const hub *h, const char *name, const answer *a) {
  const char *id = h->model->name;
  if (a->status == 401 || a->status == 403)
    complain_forbidden(h, a);
  else if (a->status == 404 && name)
    complain("%s has no file %s at commit %s", id, name, h->commit);
  else if (a->status == 404 && !strcmp(a->error, "RevisionNotFound"))
    complain("%s has no revision \"%s\": check the spelling", id, h->model->revision);
  else if (a->status == 404)
    complain(
        "there is no %s at %s, or no revision \"%s\" of it: check the "
        "spelling",
        id, h->endpoint, h->model->revision);
  else if (a->status == 429)
    complain("%s limits requests (429): pull again later", h->endpoint);
  else
    complain("%s fails with %ld: pull again later", h->endpoint, a->status);
  return EXIT_FAILED;
}

/* ---- the list ------------------------------------------------------------------ */

static int odd_answer(const hub *h) {
  complain("%s answers with what is no list of files: check HF_ENDPOINT", h->endpoint);
  return EXIT_FAILED;
}

static int hostile_name(const hub *h) {
  complain(
      "%s lists a file of %s whose name leads out of its folder: "
      "nothing was pulled",
      h->endpoint, h->model->name);
  return EXIT_FAILED;
}

/* A path that escapes the folder means a hostile server: the whole listing is
 * rejected. */
static int take_list(hub *h, const attend_json *root) {
  const char *commit = attend_json_string(attend_json_get(root, "sha"), NULL);
  const attend_json *list = attend_json_get(root, "siblings");
  if (!commit || !is_hex(commit, COMMIT_DIGITS)) return odd_answer(h);
  h->commit = need_copy(commit);
  for (size_t i = 0; i < attend_json_count(list); i++) {
    size_t length;
    const char *name =
        attend_json_string(attend_json_get(attend_json_at(list, i), "rfilename"), &length);
    if (!name) return odd_answer(h);
    if (!attend_name_is_safe(name, length)) return hostile_name(h);
    names_add(&h->files, name);
  }
  return EXIT_OK;
}

int hub_list(hub *h) {
  char *text, *revision = transfer_escape(h->line, h->model->revision, false);
  char *url = path_of("%s/api/models/%s/revision/%s", h->endpoint, h->model->name, revision);
  size_t length;
  answer a;
  attend_json *root = NULL;
  int code = EXIT_FAILED;
  if (transfer_text(h->line, url, &a, &text, &length)) {
    if (a.status != 200)
      code = refused(h, NULL, &a);
    else if (attend_json_parse(h->ctx, url, text, length, &root))
      code = odd_answer(h);
    else
      code = take_list(h, root);
  }
  attend_json_free(root);
  free(text);
  free(url);
  free(revision);
  return code;
}

/* ---- a file -------------------------------------------------------------------- */

static char *url_of(const hub *h, const char *name) {
  char *escaped = transfer_escape(h->line, name, true);
  char *url = path_of("%s/%s/resolve/%s/%s", h->endpoint, h->model->name, h->commit, escaped);
  free(escaped);
  return url;
}

static int take_answer(const hub *h, const char *name, const answer *a, hub_file *file) {
  if (a->status != 200 && a->status / 100 != 3) return refused(h, name, a);
  bool linked = *a->linked_etag;
  snprintf(file->etag, sizeof file->etag, "%s", linked ? a->linked_etag : a->etag);
  file->size = a->linked_size >= 0 ? a->linked_size : a->status / 100 == 3 ? -1 : a->length;
  if (is_hex(file->etag, GIT_DIGITS) || is_hex(file->etag, SHA256_DIGITS)) return EXIT_OK;
  complain(
      "%s gives no hash for %s, so that it cannot be checked: check "
      "HF_ENDPOINT",
      h->endpoint, name);
  return EXIT_FAILED;
}

int hub_ask(const hub *h, const char *name, hub_file *file) {
  char *url = url_of(h, name);
  answer a;
  int code = transfer_head(h->line, url, &a) ? take_answer(h, name, &a, file) : EXIT_FAILED;
  free(url);
  return code;
}

int hub_fetch(const hub *h, const char *name, const hub_file *file, const char *path) {
  char *url = url_of(h, name);
  answer a;
  int code = EXIT_FAILED;
  progress_start(name, file->size > 0 ? (size_t)file->size : 0);
  if (transfer_file(h->line, url, path, file->size, &a))
    code = a.status == 200 || a.status == 206 ? EXIT_OK : refused(h, name, &a);
  progress_end();
  free(url);
  return code;
}
