/* What a folder says of the summaries that its model writes.
 *
 * See summarize.h; asked once, after the model is open.
 *
 * The later of generation_config.json, config.json and config.json's
 * task_specific_params.summarization counts, as it does for those who use the
 * model by way of a pipeline.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attend/json.h"
#include "folders.h"
#include "input.h"
#include "summarize/summarize.h"

enum { MOST = 1 << 20 };

/* NULL, and no complaint, if there is no such file. */
static int read_json(const summarizer *s, const char *name,
                     attend_json **root) {
  char *path = path_of("%s/%s", s->m.path, name);
  size_t length = 0;
  int code = EXIT_OK;
  FILE *in = fopen(path, "rb");
  *root = NULL;
  if (in) {
    char *text = input_all(in, path, &length, &code);
    fclose(in);
    if (!code && attend_json_parse(s->m.ctx, path, text, length, root))
      code = complain_status(s->m.ctx, ATTEND_IO);
    free(text);
  }
  free(path);
  return code;
}

/* A file, or a part of it, that settings are taken from. */
typedef struct {
  attend_context *ctx;
  const char *what;
  const attend_json *json;
  attend_status status; /* the first failure */
} source;

static void take_count(source *from, const char *name, int low, int less,
                       int *to) {
  int64_t n = *to + less;
  if (from->status) return;
  from->status = attend_json_read_integer(from->ctx, from->what, from->json,
                                          name, low, MOST, &n);
  *to = (int)n - less;
}

static void take_penalty(source *from, float *to) {
  double x = (double)*to;
  if (from->status) return;
  from->status = attend_json_read_number(from->ctx, from->what, from->json,
                                         "length_penalty", -1e6, 1e6, &x);
  *to = (float)x;
}

/* true, false or "never", which is false with all beams gone through. */
static void take_early(source *from, bool *to) {
  static const char name[] = "early_stopping";
  const char *never =
      attend_json_string(attend_json_get(from->json, name), NULL);
  if (from->status) return;
  if (never && !strcmp(never, "never"))
    *to = false;
  else
    from->status =
        attend_json_read_boolean(from->ctx, from->what, from->json, name, to);
}

/* Their lengths count the token that the decoder starts with. */
static attend_status take_settings(summarizer *s, const char *what,
                                   const attend_json *json, unsigned given) {
  attend_generate_options *how = &s->how;
  source from = {s->m.ctx, what, json, ATTEND_OK};
  if (!(given & SUMMARY_BEAMS))
    take_count(&from, "num_beams", 1, 0, &how->beams);
  if (!(given & SUMMARY_REPEAT))
    take_count(&from, "no_repeat_ngram_size", 0, 0, &how->no_repeat);
  if (!(given & SUMMARY_MOST))
    take_count(&from, "max_length", 2, 1, &how->max_new);
  if (!(given & SUMMARY_LEAST))
    take_count(&from, "min_length", 0, 1, &how->min_new);
  if (how->min_new < 0) how->min_new = 0;
  if (!(given & SUMMARY_PENALTY)) take_penalty(&from, &how->length_penalty);
  if (!(given & SUMMARY_EARLY)) take_early(&from, &how->early_stop);
  return from.status;
}

/* config.json's own word on summaries: NULL if there is none. */
static attend_status find_task(attend_context *ctx, const attend_json *config,
                               const attend_json **task) {
  attend_status status =
      attend_json_read_tree(ctx, "config.json", config, "task_specific_params",
                            ATTEND_JSON_OBJECT, task);
  if (status || !*task) return status;
  return attend_json_read_tree(ctx, "config.json: task_specific_params", *task,
                               "summarization", ATTEND_JSON_OBJECT, task);
}

static attend_status take_all(summarizer *s, const attend_json *generation,
                              const attend_json *config, unsigned given) {
  static const char what[] = "config.json: summarization";
  const attend_json *task = NULL;
  const char *prefix = "";
  attend_status status = find_task(s->m.ctx, config, &task);
  if (!status)
    status = attend_json_read_string(s->m.ctx, what, task, "prefix", &prefix);
  if (!status)
    status = take_settings(s, "generation_config.json", generation, given);
  if (!status) status = take_settings(s, "config.json", config, given);
  if (!status) status = take_settings(s, what, task, given);
  s->prefix = need_copy(prefix);
  return status;
}

int summary_settings_read(summarizer *s, unsigned given) {
  attend_json *generation = NULL, *config = NULL;
  int code = read_json(s, "generation_config.json", &generation);
  if (!code) code = read_json(s, "config.json", &config);
  attend_status status =
      code ? ATTEND_OK : take_all(s, generation, config, given);
  if (status) code = complain_status(s->m.ctx, status);
  attend_json_free(config);
  attend_json_free(generation);
  return code;
}
