/* A tree of summaries: of parts of a document, then of these summaries.
 *
 * Below the last level every node has one summary, the best one found by the search;
 * the last level is written with the caller's options, samples included. Summaries
 * are bounded so that at least two fit the encoder, so that every level has fewer
 * nodes than the one below. A text that neighbours share is given to the level above
 * once, and a node whose children all have the same text has it too.
 */
#include "tasks/summarize.h"

/* ---- sentences and pieces -------------------------------------------------------- */

/* Tokens are counted sentence by sentence, with the white space before them, so that
 * their sum is the part's number of tokens. */
enum {
  USUAL = 512, /* tokens, for models without a limit */
  SPARE = 2,   /* tokens that a part may have more than its sentences */
  LEAST = 8,
  WHOLE = 1 << 28 /* more tokens than any part has: there is one part */
};

attend_status units_open(const attend_summarizer *s, units *u) {
  *u = (units){.ctx = s->ctx};
  attend_status status = attend_encoding_create(s->tokenizer, &u->encoding);
  if (!status) status = attend_encode(u->encoding, s->prefix, strlen(s->prefix), NULL);
  if (status) return status;
  int context = s->context ? s->context : USUAL;
  u->part_tokens = context - (int)u->encoding->count - SPARE;
  if (u->part_tokens < LEAST)
    u->part_tokens = LEAST; /* what does not fit is truncated and counted */
  return ATTEND_OK;
}

void units_close(units *u) {
  attend_encoding_free(u->encoding);
  ctx_free(u->ctx, u->unit);
  *u = (units){0};
}

static attend_status put(units *u, unit one) {
  ATTEND_TRY(grow(u->ctx, &u->unit, &u->capacity, u->count + 1, sizeof one, "sentences"));
  u->unit[u->count++] = one;
  return ATTEND_OK;
}

static attend_status count_tokens(units *u, const char *text, size_t length) {
  attend_encode_options o = {ATTEND_INIT(attend_encode_options), .no_special = true};
  return attend_encode(u->encoding, text, length, &o);
}

/* The last token before `most` that ends where a word does; else `most`. */
static size_t last_word(const attend_encoding *e, const char *text, size_t length, size_t from,
                        size_t max) {
  for (size_t i = max; i > from + 1; i--) {
    size_t at = e->end[i - 1];
    if (at < length && is_space(text[at])) return i;
  }
  return max;
}

/* Longer than a part: a table, or a text without full stops. */
static attend_status put_pieces(units *u, const char *text, size_t start, size_t end,
                                bool ends_paragraph) {
  const attend_encoding *e = u->encoding;
  const size_t limit = (size_t)u->part_tokens;
  size_t at = start;
  for (size_t i = 0; i < e->count;) {
    size_t max = i + limit < e->count ? i + limit : e->count;
    size_t next = max < e->count ? last_word(e, text + start, end - start, i, max) : max;
    size_t stop = next < e->count ? start + e->end[next - 1] : end;
    if (stop > at || next == e->count)
      ATTEND_TRY(put(u, (unit){at, stop, (int)(next - i), next == e->count && ends_paragraph}));
    at = stop;
    i = next;
  }
  return ATTEND_OK;
}

attend_status units_add(units *u, const char *text, size_t start, size_t end, bool ends_paragraph) {
  ATTEND_TRY(count_tokens(u, text + start, end - start));
  if (u->encoding->count > (size_t)u->part_tokens)
    return put_pieces(u, text, start, end, ends_paragraph);
  return put(u, (unit){start, end, (int)u->encoding->count, ends_paragraph});
}

attend_status units_read(units *u, const char *text, size_t length) {
  size_t from = 0;
  for (attend_sentence s = {0}; attend_sentence_next(text, length, &s);) {
    ATTEND_TRY(units_add(u, text, from, s.start + s.length, s.ends_paragraph));
    from = s.start + s.length;
  }
  return ATTEND_OK;
}

/* ---- parts ---------------------------------------------------------------------- */

/* Whether a part of so many tokens is closed before unit `at`: that does not fit, or
 * the part has its share, or nearly and a paragraph has just ended. A unit without
 * tokens, which repeats the one before it, begins no part. */
static bool closes(const units *u, int tokens, int share, size_t at) {
  if (!u->unit[at].tokens) return false;
  return tokens + u->unit[at].tokens > u->part_tokens || tokens >= share ||
         (u->unit[at - 1].ends_paragraph && 4 * tokens >= 3 * share);
}

attend_status parts_cut(const units *u, int min, part **parts, int *count) {
  int64_t total = 0;
  int tokens = 0, n = 0;
  for (size_t i = 0; i < u->count; i++) total += u->unit[i].tokens;
  int64_t needed = (total + u->part_tokens - 1) / u->part_tokens;
  if (needed < min) needed = min;
  int share = needed > 1 ? (int)((total + needed - 1) / needed) : WHOLE;
  ATTEND_TRY(ctx_alloc(u->ctx, size_times(u->count, sizeof **parts), "parts", parts));
  for (size_t i = 0; i < u->count; i++) {
    if (!n || closes(u, tokens, share, i)) {
      (*parts)[n++] = (part){(int)i, 0};
      tokens = 0;
    }
    (*parts)[n - 1].count++;
    tokens += u->unit[i].tokens;
  }
  *count = n;
  return ATTEND_OK;
}

/* ---- texts ------------------------------------------------------------------------ */

static const char *node_text(const attend_summary_node *n) {
  return n->n_best ? n->best[0].text : "";
}

/* Whether its text is that of the node before it. */
static bool is_repeated(const attend_long_summary *x, int level, int i) {
  const attend_summary_node *n = x->level[level].node;
  return i > 0 && !strcmp(node_text(&n[i]), node_text(&n[i - 1]));
}

/* ---- texts of nodes ------------------------------------------------------------- */

static bool ends_sentence(const char *text, size_t length) {
  char c = length ? text[length - 1] : 'a';
  return (unsigned char)c < 0x80 && !is_alphanumeric(c);
}

/* " text." as it stands among others: strlen + 2 bytes at most. Returns the length,
 * 0 of a text that is empty. */
static size_t put_sentence(const char *text, char *out) {
  size_t n = strlen(text);
  if (!n) return 0;
  *out = ' ';
  memcpy(out + 1, text, n);
  if (!ends_sentence(text, n)) out[++n] = '.';
  return n + 1;
}

/* The children's texts; *distinct: how many differ from the one before. */
static attend_status join_children(const attend_long_summary *x, int level,
                                   const attend_summary_node *n, char **text, size_t *length,
                                   int *distinct) {
  const attend_summary_node *child = x->level[level - 1].node;
  size_t all = 0;
  char *to;
  for (int i = n->first; i < n->first + n->count; i++) all += strlen(node_text(&child[i])) + 2;
  ATTEND_TRY(ctx_alloc(x->ctx, all + 1, "the text of a node", text));
  to = *text;
  *distinct = 0;
  for (int i = n->first; i < n->first + n->count; i++) {
    if (i > n->first && is_repeated(x, level - 1, i)) continue;
    to += put_sentence(node_text(&child[i]), to);
    ++*distinct;
  }
  *length = (size_t)(to - *text);
  if (*length) memmove(*text, *text + 1, --*length); /* no space in front */
  return ATTEND_OK;
}

/* ---- one level ------------------------------------------------------------------ */

typedef struct {
  attend_long_summary *x;
  int level;
  bool last, journals;
  document_job *jobs;
  int *node; /* [count] that each job is for */
  int count;
} level_writing;

/* `one` is owned by the node from here on. */
static attend_status set_summary(attend_long_summary *x, attend_summary_node *n,
                                 attend_summary one) {
  attend_summary *best;
  attend_status status = ctx_alloc(x->ctx, sizeof one, "a summary", &best);
  if (status) {
    ctx_free(x->ctx, (char *)one.text);
    return status;
  }
  best[0] = one;
  n->best = best;
  n->n_best = 1;
  x->written++;
  return ATTEND_OK;
}

static attend_status copy_child(attend_long_summary *x, attend_summary_node *n,
                                const attend_summary_node *child) {
  attend_summary one = child->best[0];
  char *text;
  ATTEND_TRY(text_copy(x->ctx, one.text, strlen(one.text), &text));
  one.text = text;
  one.ids = NULL;
  return set_summary(x, n, one);
}

/* Sets a summary that needs no model; `text` is the node's. */
static attend_status find_summary(level_writing *w, attend_summary_node *n, int distinct,
                                  const attend_document *text) {
  attend_long_summary *x = w->x;
  const attend_summary_node *child = w->level ? &x->level[w->level - 1].node[n->first] : NULL;
  attend_summary one;
  bool found = false;
  if (distinct < 2 && child->n_best && x->s.how.samples == 1) return copy_child(x, n, child);
  if (w->journals) ATTEND_TRY(journal_find(x->journal, text->text, text->length, &one, &found));
  if (!found) return ATTEND_OK;
  x->journaled++;
  return set_summary(x, n, one);
}

static attend_status prepare_node(level_writing *w, int i) {
  attend_long_summary *x = w->x;
  attend_summary_node *n = &x->level[w->level].node[i];
  attend_document *d = &w->jobs[w->count].in;
  char *own = NULL; /* above level 0 */
  int distinct = 2;
  *d = (attend_document){.text = x->document.text + n->start,
                         .length = n->end - n->start,
                         .number = (int)((unsigned)x->document.number * 1024 + (unsigned)i)};
  if (n->n_best) { /* written before the call was stopped */
    x->written++;
    return ATTEND_OK;
  }
  attend_status status = ATTEND_OK;
  if (w->level) status = join_children(x, w->level, n, &own, &d->length, &distinct);
  if (own) d->text = own;
  if (!status) status = find_summary(w, n, distinct, d);
  if (!status && !n->n_best)
    w->node[w->count++] = i;
  else
    ctx_free(x->ctx, own);
  return status;
}

static int on_progress(double done, const char *what, void *user) {
  (void)what;
  const level_writing *w = user;
  double left = 1; /* each level counts half of what is left */
  for (int i = 0; i < w->level; i++) left /= 2;
  return is_stopped(w->x, 1 - left + left * done / (w->last ? 1 : 2));
}

static void on_done(document_job *job, void *user) {
  level_writing *w = user;
  attend_long_summary *x = w->x;
  attend_summary_node *n = &x->level[w->level].node[w->node[job - w->jobs]];
  if (w->journals && job->out.count)
    journal_add(x->journal, job->in.text, job->in.length, &job->out.best[0]);
  n->best = job->out.best;
  n->n_best = job->out.count;
  job->out.best = NULL;
  job->out.count = 0;
  x->cut += job->out.cut;
  x->written++;
}

static attend_status write_nodes(level_writing *w) {
  attend_long_summary *x = w->x;
  int count = x->level[w->level].count;
  job_callbacks callbacks = {on_progress, on_done, w};
  attend_status status = ATTEND_OK;
  x->written = 0;
  for (int i = 0; i < count && !status; i++) status = prepare_node(w, i);
  if (!status) status = jobs_write(w->last ? &x->s : &x->inner, w->jobs, w->count, &callbacks);
  for (int i = 0; w->level && i < w->count; i++) ctx_free(x->ctx, (char *)w->jobs[i].in.text);
  return status;
}

/* The journal holds what is written with the inner options. */
static bool is_inner(const attend_long_summary *x) {
  const attend_generate_options *a = &x->s.how, *b = &x->inner.how;
  return a->samples == 1 && a->temperature == 0 && a->max_new == b->max_new;
}

static attend_status write_level(attend_long_summary *x, int level, bool last) {
  size_t count = (size_t)x->level[level].count;
  level_writing w = {.x = x, .level = level, .last = last};
  w.journals = x->journal && (!last || is_inner(x));
  attend_status status =
      ctx_alloc_zeroed(x->ctx, (count + 1) * sizeof *w.jobs, "a level of summaries", &w.jobs);
  if (!status)
    status = ctx_alloc(x->ctx, (count + 1) * sizeof *w.node, "a level of summaries", &w.node);
  if (!status) status = write_nodes(&w);
  jobs_free(x->ctx, w.jobs, w.count);
  ctx_free(x->ctx, w.node);
  return status;
}

/* ---- levels --------------------------------------------------------------------- */

static attend_status cut_document(attend_long_summary *x) {
  const char *text = x->document.text;
  attend_summary_node *nodes;
  part *parts;
  int count;
  ATTEND_TRY(units_read(&x->u, text, x->document.length));
  ATTEND_TRY(parts_cut(&x->u, 1, &parts, &count));
  attend_status status = ctx_alloc_zeroed(x->ctx, (size_t)count * sizeof *nodes, "parts", &nodes);
  for (int i = 0; i < count && !status; i++) {
    const unit *first = &x->u.unit[parts[i].first];
    const unit *last = first + parts[i].count - 1;
    size_t start = first->start;
    while (start < last->end && is_space(text[start])) start++;
    nodes[i] = (attend_summary_node){.start = start, .end = last->end};
  }
  ctx_free(x->ctx, parts);
  if (status) return status;
  for (size_t i = 0; i < x->u.count; i++) x->tokens += x->u.unit[i].tokens;
  x->level[0].node = nodes;
  x->level[0].count = count;
  x->levels = 1;
  number_words(x);
  return ATTEND_OK;
}

/* A unit for each summary of a level; repeated ones have no tokens. */
static attend_status measure_level(attend_long_summary *x, int level) {
  x->u.count = 0;
  for (int i = 0; i < x->level[level].count; i++) {
    const char *text = node_text(&x->level[level].node[i]);
    size_t before = x->u.count;
    char *sentence;
    ATTEND_TRY(ctx_alloc(x->ctx, strlen(text) + 3, "a summary", &sentence));
    size_t length = put_sentence(text, sentence);
    attend_status status =
        units_add(&x->u, sentence, 0, is_repeated(x, level, i) ? 0 : length, false);
    x->u.count = before + 1; /* one node, one unit */
    ctx_free(x->ctx, sentence);
    if (status) return status;
  }
  return ATTEND_OK;
}

static int fewest(const attend_long_summary *x) { return x->options.parts ? x->options.parts : 1; }

static void group_nodes(const attend_summary_node *below, const part *parts, int count,
                        attend_summary_node *nodes) {
  for (int i = 0; i < count; i++) {
    const attend_summary_node *first = &below[parts[i].first];
    const attend_summary_node *last = first + parts[i].count - 1;
    nodes[i] = (attend_summary_node){.start = first->start,
                                     .end = last->end,
                                     .first_word = first->first_word,
                                     .last_word = last->last_word,
                                     .first = parts[i].first,
                                     .count = parts[i].count};
  }
}

static attend_status make_nodes(const attend_long_summary *x, int below, const part *parts,
                                int count, attend_summary_node **nodes) {
  ATTEND_CHECK(x->ctx, count < x->level[below].count,
               "summaries of %d tokens are too long for an encoder that reads "
               "%d: bound their length by fewer words or tokens",
               x->inner.how.max_new, x->s.context);
  ATTEND_TRY(ctx_alloc(x->ctx, (size_t)count * sizeof **nodes, "a level of summaries", nodes));
  group_nodes(x->level[below].node, parts, count, *nodes);
  return ATTEND_OK;
}

static attend_status add_level(attend_long_summary *x) {
  int below = x->levels - 1, count;
  attend_summary_node *nodes;
  part *parts;
  ATTEND_TRY(measure_level(x, below));
  ATTEND_TRY(parts_cut(&x->u, fewest(x), &parts, &count));
  attend_status status = make_nodes(x, below, parts, count, &nodes);
  ctx_free(x->ctx, parts);
  if (status) return status;
  x->level[x->levels].node = nodes;
  x->level[x->levels++].count = count;
  x->written = 0;
  return ATTEND_OK;
}

static bool is_last(const attend_long_summary *x, int level) {
  int max = x->options.levels;
  return x->level[level].count <= fewest(x) || (max && level + 1 >= max) ||
         level + 1 == MOST_LEVELS;
}

static attend_status write_levels(attend_long_summary *x) {
  for (;;) {
    int level = x->levels - 1;
    bool last = is_last(x, level);
    ATTEND_TRY(write_level(x, level, last));
    if (last) return ATTEND_OK;
    ATTEND_TRY(add_level(x));
  }
}

attend_status tree_write(attend_long_summary *x) {
  attend_status status = write_levels(x), synced = journal_sync(x->journal);
  return status ? status : synced;
}

static void set_inner(attend_long_summary *x) {
  attend_generate_options *how = &x->inner.how;
  int half = x->u.part_tokens / 2 - 2;
  x->inner = x->s;
  how->samples = 1;
  how->temperature = 0;
  how->groups = 0;
  if (how->max_new > half) how->max_new = half > 2 ? half : 2;
  if (how->min_new > how->max_new) how->min_new = how->max_new;
}

attend_status tree_open(attend_long_summary *x) {
  journal_identity identity;
  ATTEND_TRY(units_open(&x->s, &x->u));
  ATTEND_TRY(cut_document(x));
  set_inner(x);
  if (!x->work) return ATTEND_OK;
  ATTEND_TRY(journal_identify(&x->inner, &identity));
  return journal_open(x->ctx, x->work, &identity, &x->journal);
}
