/* What a folder says about sentence embeddings.
 *
 * Asked by embed, which obeys it where the user says nothing.
 */
#include "embed/settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attend/json.h"

enum { LONGEST = 4096, MOST_BYTES = 1 << 20 };

static const char *const names[] = {"none", "mean", "cls", "last", "max"};
enum { POOLS = sizeof names / sizeof *names };

pooling pooling_called(const char *name) {
  for (int i = 1; i < POOLS; i++)
    if (!strcmp(name, names[i])) return (pooling)i;
  return strcmp(name, "lasttoken") ? POOL_NONE : POOL_LAST;
}

const char *pooling_name(pooling pool) { return names[pool]; }

/* NULL, and no complaint, if there is no such file. */
static int read_json(attend_context *ctx, const char *folder, const char *name,
                     attend_json **root) {
  char path[LONGEST];
  *root = NULL;
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *f = fopen(path, "r");
  if (!f) return EXIT_OK;
  char *text = need(MOST_BYTES, 1);
  size_t length = fread(text, 1, MOST_BYTES, f);
  fclose(f);
  attend_status status = attend_json_parse(ctx, path, text, length, root);
  free(text);
  return status ? complain_status(ctx, status) : EXIT_OK;
}

/* ---- pooling ------------------------------------------------------------------------- */

static const struct {
  const char *name;
  pooling pool;
} modes[] = {{"pooling_mode_mean_tokens", POOL_MEAN},
             {"pooling_mode_cls_token", POOL_CLS},
             {"pooling_mode_lasttoken", POOL_LAST},
             {"pooling_mode_max_tokens", POOL_MAX},
             {"pooling_mode_mean_sqrt_len_tokens", POOL_NONE},
             {"pooling_mode_weightedmean_tokens", POOL_NONE}};

/* How many modes are switched on; those of several would be joined. */
static attend_status count_modes(attend_context *ctx, const char *what,
                                 const attend_json *json, const char **said,
                                 pooling *pool, int *on) {
  *on = 0;
  for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
    bool is = false;
    attend_status status =
        attend_json_read_boolean(ctx, what, json, modes[i].name, &is);
    if (status) return status;
    if (!is) continue;
    *said = modes[i].name;
    *pool = modes[i].pool;
    (*on)++;
  }
  return ATTEND_OK;
}

static int read_modes(attend_context *ctx, const attend_json *json,
                      const char *where, pooling *pool) {
  const char *said = NULL;
  int on = 1;
  attend_status status =
      attend_json_read_tree(ctx, where, json, NULL, ATTEND_JSON_OBJECT, &json);
  if (!status)
    status = attend_json_read_string(ctx, where, json, "pooling_mode", &said);
  if (!status && said) *pool = pooling_called(said);
  if (!status && !said)
    status = count_modes(ctx, where, json, &said, pool, &on);
  if (status) return complain_status(ctx, status);
  if (on == 0) return EXIT_OK;
  if (on > 1) *pool = POOL_NONE;
  if (*pool) return EXIT_OK;
  complain(
      "%s asks for %s, or for several modes at once: choose one with --pool",
      where, said);
  return EXIT_FAILED;
}

static int read_pooling(attend_context *ctx, const char *folder,
                        const char *where, pooling *pool) {
  char name[LONGEST];
  attend_json *json;
  snprintf(name, sizeof name, "%s/config.json", where);
  int code = read_json(ctx, folder, name, &json);
  if (!code) code = read_modes(ctx, json, name, pool);
  attend_json_free(json);
  return code;
}

/* ---- the list of steps ---------------------------------------------------------------- */

static bool ends_with(const char *text, const char *end) {
  size_t n = strlen(text), m = strlen(end);
  return n >= m && !strcmp(text + n - m, end);
}

static int read_step(attend_context *ctx, const char *folder,
                     const attend_json *step, pooling *pool) {
  static const char what[] = "modules.json";
  const char *type = NULL, *path = NULL;
  attend_status status =
      attend_json_read_string(ctx, what, step, "type", &type);
  if (!status) status = attend_json_read_string(ctx, what, step, "path", &path);
  if (status) return complain_status(ctx, status);
  if (!type || !path || strstr(path, "..")) {
    complain("%s/modules.json has a step without a type and a path", folder);
    return EXIT_FAILED;
  }
  if (ends_with(type, ".Transformer") || ends_with(type, ".Normalize"))
    return EXIT_OK;
  if (ends_with(type, ".Pooling")) return read_pooling(ctx, folder, path, pool);
  complain(
      "%s/modules.json asks for the step %s, which is not computed here: "
      "choose --pool to go without it",
      folder, type);
  return EXIT_FAILED;
}

static int read_steps(attend_context *ctx, const char *folder, pooling *pool) {
  attend_json *root;
  const attend_json *steps;
  int code = read_json(ctx, folder, "modules.json", &root);
  if (!code && attend_json_read_tree(ctx, "modules.json", root, NULL,
                                     ATTEND_JSON_ARRAY, &steps))
    code = complain_status(ctx, ATTEND_IO);
  if (!code && !root) code = read_pooling(ctx, folder, "1_Pooling", pool);
  for (size_t i = 0; !code && i < attend_json_count(steps); i++)
    code = read_step(ctx, folder, attend_json_at(steps, i), pool);
  attend_json_free(root);
  return code;
}

int embed_settings_read(attend_context *ctx, const char *folder,
                        embed_settings *settings) {
  static const char name[] = "sentence_bert_config.json";
  attend_json *json;
  int64_t longest = settings->max_length;
  int code = EXIT_OK;
  /* who chose already need not hear what the folder cannot have */
  if (!settings->pool) code = read_steps(ctx, folder, &settings->pool);
  if (code) return code;
  code = read_json(ctx, folder, name, &json);
  if (!code && attend_json_read_integer(ctx, name, json, "max_seq_length", 1,
                                        INT32_MAX, &longest))
    code = complain_status(ctx, ATTEND_IO);
  settings->max_length = (int)longest;
  attend_json_free(json);
  return code;
}
