/* The view of what was just written: attend view of a document and its summary.
 *
 * Place: cli/ - see summarize.h; asks the verb view, as a user would.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "summarize.h"

enum { MOST_WORDS = 24 };

typedef struct {
  char *word[MOST_WORDS];
  int count;
} command;

static void add(command *c, const char *name, const char *value) {
  if (!value) return;
  c->word[c->count++] = (char *)name;
  c->word[c->count++] = (char *)value;
}

/* What the encoder read: the prefix and as much of the text as fitted. */
static char *text_read_of(const summarizer *s, const summary_document *d) {
  size_t front = strlen(s->prefix);
  char *text = need(front + d->read + 1, 1);
  memcpy(text, s->prefix, front);
  memcpy(text + front, d->text, d->read);
  return text;
}

int summary_show(const summarize_options *o, const summarizer *s,
                 const summary_document *d) {
  char layer[16], threads[16];
  command c = {{(char *)"attend view"}, 1};
  if (!d->count) return EXIT_OK;
  char *text = text_read_of(s, d);
  snprintf(layer, sizeof layer, "%d",
           attend_model_config(s->m.model)->decoder.layers - 1);
  snprintf(threads, sizeof threads, "%d", o->common.threads);
  add(&c, "--model", s->m.path);
  add(&c, "--view", "head");
  add(&c, "--role", "cross");
  add(&c, "--layer", layer);
  add(&c, "--attention", o->model.attention);
  add(&c, "--weights", o->model.weights_given);
  add(&c, "--threads", o->common.threads ? threads : NULL);
  add(&c, "--out", o->out);
  add(&c, "--", text);
  c.word[c.count++] = d->best[0].text;
  int code = cmd_view(c.count, c.word);
  free(text);
  return code;
}
