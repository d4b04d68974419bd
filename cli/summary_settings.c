/* What a folder says of the summaries that its model writes.
 *
 * Place: cli/ - see summarize.h; asked once, after the model is open.
 *
 * The later of generation_config.json, config.json and config.json's
 * task_specific_params.summarization counts, as it does for those who use the
 * model by way of a pipeline.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "attend/json.h"
#include "folders.h"
#include "input.h"
#include "summarize.h"

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

static void take_count(const attend_json *json, const char *name, int low,
                       int less, int *to) {
  int64_t n;
  if (attend_json_integer(attend_json_get(json, name), &n) && n >= low &&
      n <= MOST)
    *to = (int)n - less;
}

/* Their lengths count the token that the decoder starts with. */
static void take_settings(summarizer *s, const attend_json *json,
                          unsigned given) {
  attend_generate_options *how = &s->how;
  double penalty =
      attend_json_number(attend_json_get(json, "length_penalty"), NAN);
  if (!(given & SUMMARY_BEAMS))
    take_count(json, "num_beams", 1, 0, &how->beams);
  if (!(given & SUMMARY_REPEAT))
    take_count(json, "no_repeat_ngram_size", 0, 0, &how->no_repeat);
  if (!(given & SUMMARY_MOST))
    take_count(json, "max_length", 2, 1, &how->max_new);
  if (!(given & SUMMARY_LEAST))
    take_count(json, "min_length", 1, 1, &how->min_new);
  if (!(given & SUMMARY_PENALTY) && isfinite(penalty))
    how->length_penalty = (float)penalty;
  if (!(given & SUMMARY_EARLY))
    how->early_stop = attend_json_boolean(
        attend_json_get(json, "early_stopping"), how->early_stop);
}

int summary_settings_read(summarizer *s, unsigned given) {
  attend_json *generation = NULL, *config = NULL;
  int code = read_json(s, "generation_config.json", &generation);
  if (!code) code = read_json(s, "config.json", &config);
  const attend_json *task = attend_json_get(
      attend_json_get(config, "task_specific_params"), "summarization");
  const char *prefix =
      attend_json_string(attend_json_get(task, "prefix"), NULL);
  s->prefix = need_copy(prefix ? prefix : "");
  take_settings(s, generation, given);
  take_settings(s, config, given);
  take_settings(s, task, given);
  attend_json_free(config);
  attend_json_free(generation);
  return code;
}
