/* The summary of a text, and the sources of its words:
 * 19_summarize [DIRECTORY [TEXT]]
 */
#include <attend/attend.h>
#include <attend/summarize.h>
#include <stdio.h>
#include <string.h>

static attend_context *ctx;
static attend_model *model;

static attend_status summarize(attend_summarizer *s, const char *text) {
  attend_document d = {.text = text, .length = strlen(text)};
  attend_summaries *all = NULL;
  attend_sources *sources = NULL;
  const attend_sourced_word *w;
  attend_status status = attend_summarize(s, 1, &d, NULL, &all);
  if (!status) status = attend_sources_create(s, all, 0, 0, 1, &sources);
  if (!status) puts(attend_summaries_get(all, 0)->best[0].text);
  for (int i = 0; !status && (w = attend_sources_get(sources, i)); i++)
    printf("  %s <- %s\n", w->word, w->count ? w->source[0].word : "?");
  attend_sources_free(sources);
  attend_summaries_free(all);
  return status;
}

int main(int argc, char **argv) {
  const char *path = argc > 1 ? argv[1] : "models/summarizer",
             *text = argc > 2 ? argv[2] : "This package has a fast tool to compress files.";
  attend_summarizer *s = NULL;
  attend_status status = attend_context_create(NULL, &ctx);
  if (!status) status = attend_open(ctx, path, &model);
  if (!status) status = attend_summarizer_create(model, path, NULL, &s);
  if (!status) status = summarize(s, text);
  if (status) fprintf(stderr, "%s\n", attend_message(ctx));
  attend_summarizer_free(s), attend_model_free(model);
  attend_context_free(ctx);
  return status && status != ATTEND_UNSUPPORTED; /* built without tokenizers */
}
