/* attend embed --word: one word in two texts, the cosines of its vectors by layer
 * (attend_viewer_get_word_pair). */
#include "embed/word.h"

#include <math.h>
#include <stdlib.h>

#include "attend/viewer.h"
#include "table.h"

static const column columns[] = {{"layer", "layer", CELL_COUNT}, {"hidden", "hidden", CELL_RATIO},
                                 {"query", "query", CELL_RATIO}, {"key", "key", CELL_RATIO},
                                 {"value", "value", CELL_RATIO}, {NULL, NULL, CELL_TEXT}};

/* Mean over the heads of a layer. */
static double mean_of(const double *cosine, const attend_viewer_word_pair *p, int layer) {
  double sum = 0;
  if (layer == p->layers) return NAN; /* after the last: hidden states alone */
  for (int h = 0; h < p->heads; h++) sum += cosine[layer * p->heads + h];
  return sum / p->heads;
}

static int print(const attend_viewer_word_pair *p, bool json, attend_context *ctx) {
  table t = table_start(columns);
  for (int l = 0; l <= p->layers; l++)
    table_add(&t,
              (cell[]){cell_number(l), cell_number(p->hidden[l]), cell_number(mean_of(p->q, p, l)),
                       cell_number(mean_of(p->k, p, l)), cell_number(mean_of(p->v, p, l))});
  const int code = json ? table_print_json(&t, ctx, stdout) : table_print(&t, stdout);
  table_free(&t);
  return code;
}

typedef struct {
  attend_viewer *viewer;
  const attend_viewer_run *run;
  attend_role side;
  attend_viewer_span at;
} reading;

/* The text run through the model, and where it has the word. */
static int read_text(reading *r, attend_context *ctx, const char *text, const char *word) {
  const attend_viewer_case c = {ATTEND_INIT(attend_viewer_case), .text = text, .step = -1};
  attend_status status = attend_viewer_run_case(r->viewer, &c, NULL, &r->run);
  if (status) return complain_status(ctx, status);
  r->side = r->run->has_role[ATTEND_ENCODER_SELF] ? ATTEND_ENCODER_SELF : ATTEND_DECODER_SELF;
  status = attend_viewer_find_word(r->viewer, r->run, r->side, word, 0, &r->at);
  if (status) return complain_status(ctx, status);
  if (r->at.n) return EXIT_OK;
  complain("the text \"%s\" has no word \"%s\": give a word of both texts", text, word);
  return EXIT_FAILED;
}

static int compare(attend_viewer *v, attend_context *ctx, const char *word, char *const texts[2],
                   bool json) {
  reading r[2] = {{.viewer = v}, {.viewer = v}};
  attend_viewer_word_pair pair = {0};
  int code = read_text(&r[0], ctx, texts[0], word);
  if (!code) code = read_text(&r[1], ctx, texts[1], word);
  if (code) return code;
  attend_status status = attend_viewer_get_word_pair(v, r[0].run, r[1].run, r[0].side, r[0].at.from,
                                                     r[1].at.from, &pair);
  code = status ? complain_status(ctx, status) : print(&pair, json, ctx);
  attend_viewer_release(v, pair.memory);
  return code;
}

int embed_word(const options *common, const model_options *m, const char *word) {
  attend_viewer *viewer = NULL;
  int code;
  attend_context *ctx = options_context(common, NULL, &code);
  char *path = code ? NULL : model_path(m->path, &code);
  if (path) {
    const attend_viewer_options how = {ATTEND_INIT(attend_viewer_options), .weights = m->weights};
    attend_status status = attend_viewer_create(ctx, &how, &viewer);
    if (!status)
      status = attend_viewer_add(
          viewer, &(attend_viewer_source){ATTEND_INIT(attend_viewer_source), .path = path});
    code =
        status ? complain_status(ctx, status) : compare(viewer, ctx, word, m->words, common->json);
  }
  attend_viewer_free(viewer);
  free(path);
  attend_context_free(ctx);
  return code;
}
