/* What a model's folder says about sentence embeddings.
 *
 * sentence-transformers writes modules.json, a list of steps, beside the model: the
 * transformer, pooling, perhaps a norm. The folder of the pooling has a config.json;
 * sentence_bert_config.json has the maximal length.
 */
#include "tasks/tasks.h"

static const char *const names[] = {"default", "mean", "cls", "last", "max"};
enum { POOLINGS = sizeof names / sizeof *names };

attend_pooling attend_pooling_find(const char *name) {
  for (int i = 1; i < POOLINGS; i++)
    if (!strcmp(name, names[i])) return (attend_pooling)i;
  return ATTEND_POOLING_DEFAULT;
}

const char *attend_pooling_name(attend_pooling pooling) {
  return (unsigned)pooling < POOLINGS ? names[pooling] : NULL;
}

/* ---- pooling ------------------------------------------------------------------------ */

static const struct {
  const char *name;
  attend_pooling pooling;
} modes[] = {{"pooling_mode_mean_tokens", ATTEND_POOLING_MEAN},
             {"pooling_mode_cls_token", ATTEND_POOLING_CLS},
             {"pooling_mode_lasttoken", ATTEND_POOLING_LAST},
             {"pooling_mode_max_tokens", ATTEND_POOLING_MAX},
             {"pooling_mode_mean_sqrt_len_tokens", ATTEND_POOLING_DEFAULT},
             {"pooling_mode_weightedmean_tokens", ATTEND_POOLING_DEFAULT}};

/* How many modes are switched on: several would be concatenated. */
static attend_status count_modes(attend_context *ctx, const char *what, const attend_json *json,
                                 const char **mode, attend_pooling *pooling, int *on) {
  *on = 0;
  for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
    bool is = false;
    ATTEND_TRY(attend_json_read_boolean(ctx, what, json, modes[i].name, &is));
    if (!is) continue;
    *mode = modes[i].name;
    *pooling = modes[i].pooling;
    (*on)++;
  }
  return ATTEND_OK;
}

static attend_pooling find_mode(const char *mode) {
  return strcmp(mode, "lasttoken") ? attend_pooling_find(mode) : ATTEND_POOLING_LAST;
}

static attend_status read_modes(attend_context *ctx, const char *what, const attend_json *json,
                                attend_pooling *pooling) {
  const char *mode = NULL;
  int on = 1;
  ATTEND_TRY(attend_json_read_tree(ctx, what, json, NULL, ATTEND_JSON_OBJECT, &json));
  ATTEND_TRY(attend_json_read_string(ctx, what, json, "pooling_mode", &mode));
  if (mode)
    *pooling = find_mode(mode);
  else
    ATTEND_TRY(count_modes(ctx, what, json, &mode, pooling, &on));
  if (!on || (on == 1 && *pooling)) return ATTEND_OK;
  *pooling = ATTEND_POOLING_DEFAULT;
  return fail(ctx, ATTEND_UNSUPPORTED,
              "%.200s has the pooling %.100s, or several at once, which is not "
              "computed here: choose a pooling",
              what, mode);
}

static attend_status read_pooling(attend_context *ctx, const char *folder, const char *module,
                                  attend_pooling *pooling) {
  char name[LONGEST_PATH];
  attend_json *json;
  ATTEND_TRY(path_inside(ctx, module, "config.json", name));
  ATTEND_TRY(json_beside(ctx, folder, name, &json));
  attend_status status = json ? read_modes(ctx, name, json, pooling) : ATTEND_OK;
  attend_json_free(json);
  return status;
}

/* ---- the list of steps -------------------------------------------------------------- */

enum { LONGEST_MODULE = 1000 }; /* bytes of a step's path */

static attend_status read_step(attend_context *ctx, const char *folder, const attend_json *step,
                               attend_pooling *pooling) {
  static const char what[] = "modules.json";
  const char *type = NULL, *path = NULL;
  ATTEND_TRY(attend_json_read_string(ctx, what, step, "type", &type));
  ATTEND_TRY(attend_json_read_string(ctx, what, step, "path", &path));
  if (!type || !path || strstr(path, "..") || strlen(path) > LONGEST_MODULE)
    return fail(ctx, ATTEND_IO, "%.300s/modules.json has a step without a type and a path", folder);
  if (name_ends(type, ".Transformer") || name_ends(type, ".Normalize")) return ATTEND_OK;
  if (name_ends(type, ".Pooling")) return read_pooling(ctx, folder, path, pooling);
  return fail(ctx, ATTEND_UNSUPPORTED,
              "%.200s/modules.json has the step %.100s, which is not computed "
              "here: choose a pooling to go without it",
              folder, type);
}

static attend_status read_steps(attend_context *ctx, const char *folder, attend_pooling *pooling) {
  attend_json *root;
  const attend_json *steps;
  ATTEND_TRY(json_beside(ctx, folder, "modules.json", &root));
  if (!root) return read_pooling(ctx, folder, "1_Pooling", pooling);
  attend_status status =
      attend_json_read_tree(ctx, "modules.json", root, NULL, ATTEND_JSON_ARRAY, &steps);
  for (size_t i = 0; !status && i < attend_json_count(steps); i++)
    status = read_step(ctx, folder, attend_json_at(steps, i), pooling);
  attend_json_free(root);
  return status;
}

attend_status embed_settings_read(attend_context *ctx, const char *folder, attend_pooling *pooling,
                                  int *max_length) {
  static const char name[] = "sentence_bert_config.json";
  attend_json *json;
  int64_t longest = *max_length;
  if (!*pooling) ATTEND_TRY(read_steps(ctx, folder, pooling));
  ATTEND_TRY(json_beside(ctx, folder, name, &json));
  attend_status status =
      attend_json_read_integer(ctx, name, json, "max_seq_length", 1, INT32_MAX, &longest);
  attend_json_free(json);
  *max_length = (int)longest;
  return status;
}
