/* The view of a document and its summary: runs attend view. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "summarize/summarize.h"

enum { MOST_WORDS = 32 };

typedef struct {
  char *word[MOST_WORDS];
  int count;
} command;

static void add(command *c, const char *name, const char *value) {
  if (!value) return;
  c->word[c->count++] = (char *)name;
  c->word[c->count++] = (char *)value;
}

/* What the encoder read: the prefix and the part of the text that fitted. */
static char *input_of(const summarizer *s, const attend_document *from,
                      const attend_summarized *d) {
  const char *prefix = attend_summarizer_prefix(s->s);
  size_t front = strlen(prefix);
  char *text = need(front + d->read + 1, 1);
  memcpy(text, prefix, front);
  memcpy(text + front, from->text, d->read);
  return text;
}

/* All heads of a layer: "0,1,2". */
static char *all_heads(int heads) {
  size_t size = 12 * (size_t)heads + 1, used = 0;
  char *text = need(size, 1);
  for (int i = 0; i < heads; i++)
    used += (size_t)snprintf(text + used, size - used, "%s%d", i ? "," : "", i);
  return text;
}

/* The decoder's position of the first token that is not special. */
static int first_place(const summarizer *s, const attend_summary *one) {
  int i = 0;
  while (i + 1 < one->count &&
         attend_tokenizer_is_special(attend_summarizer_tokenizer(s->s), one->ids[i]))
    i++;
  return i + 1;
}

/* At the last layer's cross-attention, with the first word selected. */
int summary_show(const summarize_options *o, const summarizer *s, const attend_document *from,
                 const attend_summarized *d) {
  char layer[16], threads[16], place[16];
  command c = {{(char *)"attend view"}, 1};
  if (!d->count) return EXIT_OK;
  const attend_stack *decoder = &attend_model_config(s->m.model)->decoder;
  char *text = input_of(s, from, d), *heads = all_heads(decoder->heads);
  snprintf(layer, sizeof layer, "%d", decoder->layers - 1);
  snprintf(threads, sizeof threads, "%d", o->common.threads);
  add(&c, "--model", s->m.path);
  add(&c, "--view", "head");
  add(&c, "--role", "cross");
  add(&c, "--layer", layer);
  add(&c, "--head", heads);
  snprintf(place, sizeof place, "%d", first_place(s, &d->best[0]));
  add(&c, "--token", d->best[0].count > 1 ? place : NULL);
  add(&c, "--attention", o->model.attention);
  if (o->model.attention)
    add(&c, "--attention-roles", o->model.roles ? o->model.roles : SUMMARY_ROLES);
  add(&c, "--weights", o->model.weights_given);
  add(&c, "--threads", o->common.threads ? threads : NULL);
  add(&c, "--out", o->out);
  if (!o->out) c.word[c.count++] = (char *)"--open";
  add(&c, "--", text);
  c.word[c.count++] = (char *)d->best[0].text;
  int code = cmd_view(c.count, c.word);
  free(text);
  free(heads);
  return code;
}
