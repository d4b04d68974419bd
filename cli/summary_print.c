/* What attend summarize says: summaries with their scores, or JSON.
 *
 * Place: cli/ - see summarize.h; after they are written.
 */
#include <stdio.h>
#include <stdlib.h>

#include "json_members.h"
#include "summarize.h"
#include "table.h"

static void print_document(const summary_document *d) {
  for (int i = 0; i < d->count; i++) puts(d->best[i].text);
}

static void put_summary(attend_json_writer *w, const summary_document *d,
                        const summary *one) {
  json_text(w, "document", d->name);
  json_text(w, "summary", one ? one->text : NULL);
  json_number(w, "score", one ? one->score : 0);
  json_number(w, "log_probability", one ? one->log_probability : 0);
  json_number(w, "tokens", one ? one->count : 0);
  json_number(w, "document_tokens", d->tokens);
  json_number(w, "cut_tokens", d->cut);
}

static int print_json(const summarizer *s, const summary_document *docs,
                      int count) {
  attend_json_writer w = attend_json_writer_file(s->m.ctx, stdout);
  attend_json_open(&w, '[');
  for (int i = 0; i < count; i++)
    for (int j = 0; j < docs[i].count; j++) {
      attend_json_indent(&w, true); /* one line a row */
      attend_json_open(&w, '{');
      attend_json_indent(&w, false);
      put_summary(&w, &docs[i], &docs[i].best[j]);
      attend_json_close(&w, '}');
    }
  attend_json_indent(&w, true);
  attend_json_close(&w, ']');
  attend_status status = attend_json_finish(&w);
  attend_json_writer_free(&w);
  return status ? complain_status(s->m.ctx, status) : EXIT_OK;
}

int summaries_print(const summarize_options *o, const summarizer *s,
                    const summary_document *docs, int count) {
  if (o->common.json) return print_json(s, docs, count);
  for (int i = 0; i < count; i++) print_document(&docs[i]);
  return check_written(stdout, "the summaries");
}
