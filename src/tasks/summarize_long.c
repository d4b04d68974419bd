/* Summaries of documents of any length: the handle that both modes share. */
#include "base/options.h"
#include "tasks/summarize.h"

void number_words(const attend_long_summary *x) {
  const char *text = x->document.text;
  size_t words = 0;
  for (int i = 0; i < x->level[0].count; i++) {
    attend_summary_node *n = &x->level[0].node[i];
    n->first_word = words + 1;
    for (size_t j = n->start; j < n->end; j++)
      words += !is_space(text[j]) && (j == n->start || is_space(text[j - 1]));
    n->last_word = words;
  }
}

static attend_status check(attend_context *ctx, const attend_document *d,
                           const attend_long_options *o) {
  ATTEND_CHECK(ctx, d && (d->text || !d->length), "the document's text is NULL: give its address");
  ATTEND_CHECK(ctx, o->parts >= 0 && o->levels >= 0, "%d parts and %d levels: choose 0 or more",
               o->parts, o->levels);
  ATTEND_CHECK(ctx, (unsigned)o->mode <= ATTEND_LONG_LINEAR,
               "mode %d does not exist: choose ATTEND_LONG_CHUNKS or _LINEAR", (int)o->mode);
  return ATTEND_OK;
}

static attend_status open_mode(attend_long_summary *x) {
  const char *work = x->options.work;
  if (work) ATTEND_TRY(text_copy(x->ctx, work, strlen(work), &x->work));
  return x->options.mode == ATTEND_LONG_LINEAR ? linear_open(x) : tree_open(x);
}

attend_status attend_long_summary_create(attend_summarizer *s, const attend_document *document,
                                         const attend_long_options *options,
                                         attend_long_summary **summary) {
  attend_long_options o;
  attend_long_summary *x;
  *summary = NULL;
  ATTEND_TRY(OPTIONS_READ(s->ctx, attend_long_options, options, &o));
  ATTEND_TRY(check(s->ctx, document, &o));
  ATTEND_TRY(take_zeroed(s->ctx, sizeof *x, "a long summary", &x));
  x->ctx = s->ctx;
  x->s = *s;
  x->document = *document;
  x->options = o;
  attend_status status = open_mode(x);
  if (status)
    attend_long_summary_free(x);
  else
    *summary = x;
  return status;
}

attend_status attend_long_summary_write(attend_long_summary *x) {
  return x->options.mode == ATTEND_LONG_LINEAR ? linear_write(x) : tree_write(x);
}

void attend_long_summary_free(attend_long_summary *x) {
  if (!x) return;
  for (int k = 0; k < x->levels; k++) {
    for (int i = 0; i < x->level[k].count; i++)
      summaries_free(x->ctx, x->level[k].node[i].best, x->level[k].node[i].n_best);
    give(x->ctx, x->level[k].node);
  }
  journal_close(x->journal);
  units_close(&x->u);
  attend_reading_free(x->reading);
  attend_model_free(x->other);
  give(x->ctx, x->ids);
  give(x->ctx, x->work);
  give(x->ctx, x);
}

attend_long_state attend_long_summary_state(const attend_long_summary *x) {
  attend_long_state state = {.tokens = x->tokens,
                             .levels = x->levels,
                             .written = x->written,
                             .part_tokens = x->u.room,
                             .cut = x->cut,
                             .journaled = x->journaled,
                             .other_form = x->other != NULL};
  if (x->reading) {
    state.read = attend_reading_share(x->reading);
    state.bytes = attend_reading_bytes(x->reading) + x->ids_capacity * sizeof *x->ids;
  }
  return state;
}

int attend_long_summary_count(const attend_long_summary *x, int level) {
  return level >= 0 && level < x->levels ? x->level[level].count : 0;
}

const attend_summary_node *attend_long_summary_node(const attend_long_summary *x, int level,
                                                    int i) {
  bool there = i >= 0 && i < attend_long_summary_count(x, level);
  return there ? &x->level[level].node[i] : NULL;
}
