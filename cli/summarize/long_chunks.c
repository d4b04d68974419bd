/* A tree of summaries: of parts of a document, then of these summaries.
 *
 * On the way up every node has one summary, the best; the last level is written
 * as it was asked for, with samples and draws. Summaries are kept so short that
 * at least two fit the encoder, so that every level has fewer nodes. What
 * neighbours both say is said once to the level above, and a node whose parts all
 * say the same says it too.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "interrupt.h"
#include "summarize/long_summary.h"
#include "progress.h"

const char *node_text(const tree_node *n) {
  return n->n_best ? n->best[0].text : "";
}

/* Whether it says what the node before it says. */
static bool node_repeats(const summary_tree *t, int level, int i) {
  const tree_node *n = t->level[level].node;
  return i > 0 && !strcmp(node_text(&n[i]), node_text(&n[i - 1]));
}

void tree_free(summary_tree *t) {
  for (int k = 0; k < t->levels; k++) {
    for (int i = 0; i < t->level[k].count; i++) {
      tree_node *n = &t->level[k].node[i];
      for (int j = 0; j < n->n_best; j++) {
        free(n->best[j].text);
        free(n->best[j].ids);
      }
      free(n->best);
    }
    free(t->level[k].node);
  }
  *t = (summary_tree){0};
}

typedef struct {
  summarizer *s;
  summarizer way; /* on the way up: one summary each, no draws */
  summary_tree *t;
  journal *kept;
  units u;
  int enough; /* summaries */
  int most;   /* levels */
} climbing;

/* ---- the texts of nodes --------------------------------------------------------- */

static bool ends_sentence(const char *text, size_t length) {
  return length && !isalnum((unsigned char)text[length - 1]) &&
         (unsigned char)text[length - 1] < 0x80;
}

/* " text." as it will stand among others; the caller's. */
static char *as_sentence(const char *text, size_t *length) {
  size_t n = strlen(text);
  char *out = need(n + 3, 1);
  *out = ' ';
  memcpy(out + 1, text, n);
  if (n && !ends_sentence(text, n)) out[++n] = '.';
  *length = n ? n + 1 : 0;
  return out;
}

/* What the nodes below say; *distinct: how many different ones. */
static char *joined(const summary_tree *t, int level, const tree_node *n,
                    size_t *length, int *distinct) {
  size_t all = 0, one;
  for (int i = 0; i < n->count; i++)
    all += strlen(node_text(&t->level[level - 1].node[n->first + i])) + 2;
  char *text = need(all + 1, 1);
  *length = 0;
  *distinct = 0;
  for (int i = n->first; i < n->first + n->count; i++) {
    if (i > n->first && node_repeats(t, level - 1, i)) continue;
    char *said = as_sentence(node_text(&t->level[level - 1].node[i]), &one);
    size_t skip = *length == 0 && one; /* no space in front */
    memcpy(text + *length, said + skip, one - skip);
    *length += one - skip;
    ++*distinct;
    free(said);
  }
  return text;
}

/* ---- one level ------------------------------------------------------------------ */

typedef struct {
  climbing *c;
  int level;
  bool last, kept; /* answers, and may be kept */
  summary_document *docs;
  int *node; /* [count] that each is of */
  int count;
} writing;

static void take_answer(tree_node *n, summary_document *d) {
  n->best = d->best;
  n->n_best = d->count;
  d->best = NULL;
  d->count = 0;
}

/* A copy of the one summary that all below have. */
static void take_same(tree_node *n, const tree_node *below) {
  n->best = need(1, sizeof *n->best);
  n->best[0] = below->best[0];
  n->best[0].text = need_copy(node_text(below));
  n->best[0].ids = NULL;
  n->n_best = 1;
}

/* What must be written; the rest is had at once. */
static void gather(writing *w) {
  climbing *c = w->c;
  summary_tree *t = c->t;
  for (int i = 0; i < t->level[w->level].count; i++) {
    tree_node *n = &t->level[w->level].node[i];
    summary_document *d = &w->docs[w->count];
    int distinct = 2;
    *d = (summary_document){.number = t->document->number * 1024 + i};
    if (w->level == 0) {
      d->text = t->document->text + n->start;
      d->length = n->end - n->start;
    } else {
      d->text = joined(t, w->level, n, &d->length, &distinct);
    }
    const tree_node *below =
        w->level ? &t->level[w->level - 1].node[n->first] : NULL;
    summary one;
    bool had = true;
    if (distinct < 2 && below->n_best && c->s->how.samples == 1) {
      take_same(n, below);
    } else if (w->kept && journal_find(c->kept, d->text, d->length, &one)) {
      n->best = need(1, sizeof *n->best);
      n->best[0] = one;
      n->n_best = 1;
      t->kept++;
    } else {
      had = false;
      w->node[w->count++] = i;
    }
    if (had && w->level) free(d->text);
  }
}

static void say_step(int done, int count, void *user) {
  (void)count;
  (void)user;
  progress_step((size_t)done, "parts");
}

static void on_done(summary_document *d, void *user) {
  writing *w = user;
  if (w->kept && d->count)
    journal_add(w->c->kept, d->text, d->length, &d->best[0]);
}

static int write_gathered(writing *w) {
  static char what[64]; /* progress looks at it until the next */
  climbing *c = w->c;
  summary_watch watch = {say_step, on_done, w};
  snprintf(what, sizeof what, "summaries, level %d", w->level + 1);
  progress_start(what, (size_t)w->count);
  int code =
      summaries_write(w->last ? c->s : &c->way, w->docs, w->count, &watch);
  progress_end();
  for (int i = 0; i < w->count; i++) {
    c->t->cut += w->docs[i].cut;
    take_answer(&c->t->level[w->level].node[w->node[i]], &w->docs[i]);
  }
  return code;
}

static bool same_way(const climbing *c) {
  const attend_generate_options *a = &c->s->how, *b = &c->way.how;
  return a->samples == 1 && a->temperature == 0 && a->max_new == b->max_new;
}

static int write_level(climbing *c, int level, bool last) {
  size_t count = (size_t)c->t->level[level].count;
  writing w = {.c = c, .level = level, .last = last};
  w.kept = c->kept && (!last || same_way(c));
  w.docs = need(count + 1, sizeof *w.docs);
  w.node = need(count + 1, sizeof *w.node);
  gather(&w);
  int code = write_gathered(&w);
  summaries_free(w.docs, w.count);
  for (int i = 0; level && i < w.count; i++) free(w.docs[i].text);
  free(w.docs);
  free(w.node);
  return code;
}

/* ---- levels --------------------------------------------------------------------- */

/* How many words begin in each node's bytes. */
static void number_words(const summary_tree *t) {
  const char *text = t->document->text;
  size_t words = 0;
  for (int i = 0; i < t->level[0].count; i++) {
    tree_node *n = &t->level[0].node[i];
    n->first_word = words + 1;
    for (size_t j = n->start; j < n->end; j++)
      words += !isspace((unsigned char)text[j]) &&
               (j == n->start || isspace((unsigned char)text[j - 1]));
    n->last_word = words;
  }
}

static attend_status cut_document(climbing *c) {
  summary_tree *t = c->t;
  const char *text = t->document->text;
  part *parts;
  attend_status status = units_read(&c->u, text, t->document->length);
  if (status) return status;
  int count = parts_cut(&c->u, 1, &parts);
  t->level[0].node = need((size_t)count + 1, sizeof(tree_node));
  t->level[0].count = count;
  t->levels = 1;
  for (int i = 0; i < count; i++) {
    const unit *first = &c->u.unit[parts[i].first];
    const unit *last = first + parts[i].count - 1;
    size_t start = first->start;
    while (start < last->end && isspace((unsigned char)text[start])) start++;
    t->level[0].node[i] = (tree_node){.start = start, .end = last->end};
  }
  for (int i = 0; i < c->u.count; i++) t->tokens += c->u.unit[i].tokens;
  free(parts);
  number_words(t);
  return ATTEND_OK;
}

/* Parts of the summaries of a level, by their tokens. */
static attend_status cut_level(climbing *c, int level, part **parts,
                               int *count) {
  const summary_tree *t = c->t;
  attend_status status = ATTEND_OK;
  size_t length;
  c->u.count = 0;
  for (int i = 0; i < t->level[level].count && !status; i++) {
    char *said = as_sentence(node_text(&t->level[level].node[i]), &length);
    int before = c->u.count;
    status = units_add(&c->u, said, 0, node_repeats(t, level, i) ? 0 : length,
                       false);
    c->u.count = before + 1; /* one node, one unit */
    free(said);
  }
  if (!status) *count = parts_cut(&c->u, c->enough, parts);
  return status;
}

static attend_status add_level(climbing *c) {
  summary_tree *t = c->t;
  int below = t->levels - 1, count;
  part *parts;
  attend_status status = cut_level(c, below, &parts, &count);
  if (status) return status;
  tree_node *nodes = need((size_t)count, sizeof *nodes);
  for (int i = 0; i < count; i++) {
    const tree_node *first = &t->level[below].node[parts[i].first];
    const tree_node *last = first + parts[i].count - 1;
    nodes[i] = (tree_node){first->start,
                           last->end,
                           first->first_word,
                           last->last_word,
                           parts[i].first,
                           parts[i].count,
                           NULL,
                           0};
  }
  free(parts);
  t->level[t->levels].node = nodes;
  t->level[t->levels].count = count;
  t->levels++;
  return ATTEND_OK;
}

static bool is_last(const climbing *c, int level) {
  return c->t->level[level].count <= c->enough ||
         (c->most && level + 1 >= c->most) || level + 1 == MOST_LEVELS;
}

static int climb(climbing *c) {
  for (int level = 0;; level++) {
    bool last = is_last(c, level);
    int code = write_level(c, level, last);
    if (code || last || is_interrupted()) return code;
    attend_status status = add_level(c);
    if (status) return complain_status(c->s->m.ctx, status);
    if (c->t->level[level + 1].count >= c->t->level[level].count) {
      complain(
          "summaries of %d tokens are too long for an encoder that takes "
          "%d: choose a shorter --length",
          c->way.how.max_new, c->s->reads);
      return EXIT_FAILED;
    }
  }
}

static void say_what_comes(const climbing *c) {
  const summary_tree *t = c->t;
  double bytes = base_bytes(c->s, t->document) +
                 batch_bytes(c->s, c->s->reads ? c->s->reads : c->u.room);
  say_plan((double)t->tokens, bytes,
           "%lld tokens in %d parts of up to %d, and summaries of their "
           "summaries",
           (long long)t->tokens, t->level[0].count, c->u.room);
}

static int say_interrupted(const summarize_options *o, const climbing *c) {
  int done = 0, level = c->t->levels - 1, all = c->t->level[level].count;
  for (int i = 0; i < all; i++) done += c->t->level[level].node[i].n_best > 0;
  if (o->longer.work)
    complain(
        "%d of %d parts of level %d are kept in %s: the same command goes "
        "on from there",
        done, all, level + 1, o->longer.work);
  else
    complain(
        "%d of %d parts of level %d were done: with --work DIR they would "
        "be kept",
        done, all, level + 1);
  return EXIT_INTERRUPTED;
}

int tree_write(const summarize_options *o, summarizer *s,
               const summary_document *d, summary_tree *t) {
  climbing c = {.s = s, .way = *s, .t = t};
  *t = (summary_tree){.document = d};
  c.enough = o->longer.parts ? o->longer.parts : 1;
  c.most = o->longer.levels;
  attend_status status = units_open(s, &c.u);
  if (!status) status = cut_document(&c);
  int code = status ? complain_status(s->m.ctx, status) : EXIT_OK;
  int half = c.u.room / 2 - 2;
  c.way.how.samples = 1;
  c.way.how.temperature = 0;
  c.way.how.groups = attend_generate_defaults().groups;
  if (c.way.how.max_new > half) c.way.how.max_new = half > 2 ? half : 2;
  if (c.way.how.min_new > c.way.how.max_new)
    c.way.how.min_new = c.way.how.max_new;
  if (!code) code = journal_open(&c.way, o, &c.kept);
  if (!code) say_what_comes(&c);
  if (!code) code = climb(&c);
  if (!code && is_interrupted()) code = say_interrupted(o, &c);
  int closed = journal_close(c.kept);
  units_close(&c.u);
  return code ? code : closed;
}
