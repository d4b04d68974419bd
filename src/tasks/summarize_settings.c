/* Settings of the model's directory: generation_config.json, config.json and
 * config.json's task_specific_params.summarization, of which the last counts, as in
 * Hugging Face's pipelines.
 */
#include "tasks/summarize.h"

enum { MOST = 1 << 20 };

/* *root is NULL if there is no such file. */
static attend_status read_json(const attend_summarizer *s, const char *name, attend_json **root) {
  char path[LONGEST_PATH];
  *root = NULL;
  if (!file_beside(s->directory, name, path, sizeof path)) return ATTEND_OK;
  return json_read(s->ctx, path, root);
}

/* A file, or an object in it, that settings are read from. */
typedef struct {
  attend_context *ctx;
  const char *what;
  const attend_json *json;
  attend_status status; /* the first failure */
} settings;

static void read_count(settings *from, const char *name, int low, int less, int *to) {
  int64_t n = *to + less;
  if (from->status) return;
  from->status = attend_json_read_integer(from->ctx, from->what, from->json, name, low, MOST, &n);
  *to = (int)n - less;
}

static void read_penalty(settings *from, float *to) {
  double x = (double)*to;
  if (from->status) return;
  from->status =
      attend_json_read_number(from->ctx, from->what, from->json, "length_penalty", -1e6, 1e6, &x);
  *to = (float)x;
}

/* true, false, or "never", which searches on after `beams` have ended: false. */
static void read_early(settings *from, bool *to) {
  static const char name[] = "early_stopping";
  const char *never = attend_json_string(attend_json_get(from->json, name), NULL);
  if (from->status) return;
  if (never && !strcmp(never, "never"))
    *to = false;
  else
    from->status = attend_json_read_boolean(from->ctx, from->what, from->json, name, to);
}

/* max_length and min_length count the decoder's start token. */
static attend_status read_settings(attend_summarizer *s, const char *what, const attend_json *json,
                                   unsigned given) {
  attend_generate_options *how = &s->how;
  settings from = {s->ctx, what, json, ATTEND_OK};
  if (!(given & ATTEND_SUMMARY_BEAMS)) read_count(&from, "num_beams", 1, 0, &how->beams);
  if (!(given & ATTEND_SUMMARY_NO_REPEAT))
    read_count(&from, "no_repeat_ngram_size", 0, 0, &how->no_repeat);
  if (!(given & ATTEND_SUMMARY_MAX_NEW)) read_count(&from, "max_length", 2, 1, &how->max_new);
  if (!(given & ATTEND_SUMMARY_MIN_NEW)) read_count(&from, "min_length", 0, 1, &how->min_new);
  if (how->min_new < 0) how->min_new = 0;
  if (!(given & ATTEND_SUMMARY_LENGTH_PENALTY)) read_penalty(&from, &how->length_penalty);
  if (!(given & ATTEND_SUMMARY_EARLY_STOP)) read_early(&from, &how->early_stop);
  return from.status;
}

/* task_specific_params.summarization, or NULL. */
static attend_status find_task(attend_context *ctx, const attend_json *config,
                               const attend_json **task) {
  attend_status status = attend_json_read_tree(ctx, "config.json", config, "task_specific_params",
                                               ATTEND_JSON_OBJECT, task);
  if (status || !*task) return status;
  return attend_json_read_tree(ctx, "config.json: task_specific_params", *task, "summarization",
                               ATTEND_JSON_OBJECT, task);
}

static attend_status read_all(attend_summarizer *s, const attend_json *generation,
                              const attend_json *config, unsigned given) {
  static const char what[] = "config.json: summarization";
  const attend_json *task = NULL;
  const char *prefix = "";
  attend_status status = find_task(s->ctx, config, &task);
  if (!status) status = attend_json_read_string(s->ctx, what, task, "prefix", &prefix);
  if (!status) status = read_settings(s, "generation_config.json", generation, given);
  if (!status) status = read_settings(s, "config.json", config, given);
  if (!status) status = read_settings(s, what, task, given);
  if (status) return status;
  return text_copy(s->ctx, prefix, strlen(prefix), &s->prefix);
}

attend_status settings_read(attend_summarizer *s, unsigned given) {
  attend_json *generation = NULL, *config = NULL;
  attend_status status = read_json(s, "generation_config.json", &generation);
  if (!status) status = read_json(s, "config.json", &config);
  if (!status) status = read_all(s, generation, config, given);
  attend_json_free(config);
  attend_json_free(generation);
  return status;
}
