/* Beam search: keep the k best continuations of a prompt side by side.
 *
 * Each step scores every next token of every beam by the sum of log probabilities and
 * takes the 2k best. Those among the first k that end the text are finished, with
 * their sum divided by length^penalty; the best k others are the next beams and share
 * the KV cache pages of their parents. The search ends when no open beam can beat the
 * finished ones.
 *
 * Diverse beam search (Vijayakumar et al. 2016): a prompt is searched by several
 * groups of k beams, one after the other in each step. A token that earlier groups
 * chose in this step costs `diversity` for each time.
 */
#include <math.h>
#include <string.h>

#include "generate/generate.h"

typedef struct {
  int32_t *ids; /* [max_new] */
  int count;
  double sum, score;
  double own; /* log probability without penalties and forced tokens */
} hypothesis;

typedef struct {     /* of one group of one prompt */
  hypothesis *open;  /* [k] open beams */
  hypothesis *next;  /* [k] */
  hypothesis *ended; /* [k], best first */
  int n_ended;
  attend_finish_reason cut; /* finish reason of beams that were cut off */
  bool done;
} beams;

typedef struct {
  double sum, own;
  int beam;
  int32_t id;
} candidate;

typedef struct {
  batch *b;
  beams *of;       /* [groups of all prompts] */
  int groups, k;   /* of a prompt; beams of a group */
  candidate *best; /* [2k] of one group, best first */
  int32_t *parents, *ids, *lengths;
  int32_t *chosen; /* [sequences] in this step; -1: nothing */
  int step;        /* tokens that every open beam has */
  bool lost;       /* a sum was NaN */
} search;

/* ---- candidates ---------------------------------------------------------------------- */

static bool comes_first(const candidate *a, const candidate *b) {
  if (a->sum != b->sum) return a->sum > b->sum;
  return a->beam != b->beam ? a->beam < b->beam : a->id < b->id;
}

static void insert(candidate *best, int *count, int max, candidate c) {
  if (*count == max && !comes_first(&c, &best[max - 1])) return;
  int at = *count < max ? (*count)++ : max - 1;
  for (; at > 0 && comes_first(&c, &best[at - 1]); at--) best[at] = best[at - 1];
  best[at] = c;
}

/* log p of every token, after the penalties. */
static void log_softmax(attend_context *ctx, float *logits, int n) {
  int32_t first = 0;
  float loss;
  attend_cross_entropy(ctx, 1, n, logits, n, &first, &loss, NULL);
  float all = logits[0] + loss;
  for (int i = 0; i < n; i++) logits[i] -= all;
}

/* Diversity penalty: what other groups chose in this step. */
static void apply_diversity(const search *s, int group, float *log_p) {
  int first = group - group % s->groups;
  for (int g = first; g < group; g++)
    for (int i = g * s->k; i < (g + 1) * s->k; i++)
      if (s->chosen[i] >= 0) log_p[s->chosen[i]] -= s->b->o->diversity;
}

/* The scores of a beam's next tokens: log p after the caller's changes. */
static const float *prepare(search *s, int group, int beam, float *log_p) {
  batch *b = s->b;
  const attend_config *c = attend_model_config(b->model);
  const hypothesis *h = &s->of[group].open[beam];
  int sequence = group * s->k + beam;
  float *changed = b->logits + (size_t)batch_size(b) * (size_t)c->vocab;
  log_softmax(b->ctx, log_p, c->vocab);
  memcpy(changed, log_p, (size_t)c->vocab * sizeof *log_p);
  adjust_logits(b->o, changed, c->vocab, b->history[sequence], b->held[sequence]);
  if (h->count < b->o->min_new || b->o->ignore_end) forbid_end(b, changed);
  caller_logits(b, sequence, h->ids, h->count, changed);
  apply_diversity(s, group, changed);
  int32_t forced = forced_id(b, h->count);
  for (int i = 0; forced >= 0 && i < c->vocab; i++) changed[i] = i == forced ? 0 : -INFINITY;
  return changed;
}

/* At first all beams are equal: expand only one. */
static int find_best(search *s, int group) {
  batch *b = s->b;
  const attend_config *c = attend_model_config(b->model);
  int count = 0, requested = s->step == 0 ? 1 : s->k;
  for (int i = 0; i < requested; i++) {
    const hypothesis *h = &s->of[group].open[i];
    float *own = b->logits + (size_t)(group * s->k + i) * (size_t)c->vocab;
    const float *log_p = prepare(s, group, i, own);
    for (int32_t id = 0; id < c->vocab; id++) {
      candidate x = {h->sum + (double)log_p[id], h->own + (double)own[id], i, id};
      if (x.sum > -INFINITY) insert(s->best, &count, 2 * s->k, x);
      s->lost |= h->sum > -INFINITY && isnan(x.sum);
    }
  }
  return count;
}

/* ---- beams ------------------------------------------------------------------------------ */

static double score_of(const search *s, double sum, int length) {
  return sum / pow(length, (double)s->b->o->length_penalty);
}

static void extend_into(hypothesis *to, const hypothesis *from, const candidate *c) {
  memcpy(to->ids, from->ids, (size_t)from->count * sizeof *to->ids);
  to->ids[from->count] = c->id;
  to->count = from->count + 1;
  to->sum = c->sum;
  to->own = c->own;
}

static void add_finished(search *s, beams *p, const hypothesis *from, const candidate *c) {
  int k = s->k, at;
  double score = score_of(s, c->sum, from->count + 1);
  if (p->n_ended == k && score <= p->ended[k - 1].score) return;
  at = p->n_ended < k ? p->n_ended++ : k - 1;
  hypothesis capacity = p->ended[at];
  for (; at > 0 && score > p->ended[at - 1].score; at--) p->ended[at] = p->ended[at - 1];
  extend_into(&capacity, from, c);
  capacity.score = score;
  p->ended[at] = capacity;
}

/* Whether no open beam can still win: sums only fall. */
static bool is_done(const search *s, const beams *p) {
  int k = s->k;
  if (p->n_ended < k) return false;
  if (s->b->o->early_stop) return true;
  return p->ended[k - 1].score >= score_of(s, p->open[0].sum, p->open[0].count);
}

static int advance_group(search *s, int group) {
  batch *b = s->b;
  beams *p = &s->of[group];
  int k = s->k, count = find_best(s, group), open = 0;
  for (int i = 0; i < count && open < k; i++) {
    const candidate *x = &s->best[i];
    if (is_end(b, x->id)) {
      if (i < k) add_finished(s, p, &p->open[x->beam], x);
      continue;
    }
    extend_into(&p->next[open], &p->open[x->beam], x);
    s->parents[group * k + open] = group * k + x->beam;
    s->chosen[group * k + open] = x->id;
    s->ids[group * k + open++] = x->id;
  }
  hypothesis *swap = p->open;
  p->open = p->next;
  p->next = swap;
  return open;
}

static void close_group(search *s, int group) {
  int k = s->k;
  s->of[group].done = true;
  for (int i = group * k; i < (group + 1) * k; i++) {
    s->parents[i] = i;
    s->ids[i] = 0;
    s->lengths[i] = 0;
  }
}

/* Beams that are cut off count as finished. */
static void end_open(search *s, beams *p, int open, attend_finish_reason why) {
  p->cut = why;
  for (int i = 0; i < open; i++) {
    hypothesis *h = &p->open[i];
    candidate last = {h->sum, h->own, i, h->ids[h->count - 1]};
    hypothesis shorter = *h;
    shorter.count--;
    add_finished(s, p, &shorter, &last);
  }
}

static bool has_room(const search *s, int sequence) {
  return !s->b->limit || attend_session_length(s->b->session, sequence) < s->b->limit;
}

static int all_groups(const search *s) { return s->b->count * s->groups; }

static attend_status advance(search *s, bool *live) {
  batch *b = s->b;
  int k = s->k;
  *live = false;
  for (int i = 0; i < batch_size(b); i++) s->chosen[i] = -1;
  for (int i = 0; i < all_groups(s); i++) {
    beams *p = &s->of[i];
    if (p->done) continue;
    int open = advance_group(s, i);
    if (s->lost) return fail_not_finite(b);
    for (int j = 0; j < k; j++) s->lengths[i * k + j] = j < open;
    for (int j = open; j < k; j++) {
      s->parents[i * k + j] = i * k;
      s->ids[i * k + j] = 0;
      p->open[j].sum = -INFINITY;
    }
    bool last = s->step + 1 >= b->o->max_new, full = !has_room(s, i * k);
    if (open && (last || full))
      end_open(s, p, open, last ? ATTEND_FINISH_LENGTH : ATTEND_FINISH_CONTEXT);
    if (!open || last || full || is_done(s, p))
      close_group(s, i);
    else
      *live = true;
  }
  s->step++;
  return ATTEND_OK;
}

static void write_history(search *s) {
  batch *b = s->b;
  for (int i = 0; i < batch_size(b); i++) {
    const beams *p = &s->of[i / s->k];
    const hypothesis *h = &p->open[i % s->k];
    int before = history_before(b, i);
    if (p->done || h->sum == -INFINITY) continue;
    memcpy(b->history[i] + before, h->ids, (size_t)h->count * sizeof *h->ids);
    b->held[i] = before + h->count;
  }
}

/* The caller stopped: open beams count as finished. */
static void stop_search(search *s) {
  for (int i = 0; i < all_groups(s); i++) {
    beams *p = &s->of[i];
    int open = 0;
    if (p->done) continue;
    while (open < s->k && p->open[open].sum > -INFINITY) open++;
    end_open(s, p, open, ATTEND_FINISH_CALLER);
    close_group(s, i);
  }
}

static attend_status run_search(search *s) {
  batch *b = s->b;
  bool live;
  for (;;) {
    ATTEND_TRY(advance(s, &live));
    if (!live) return ATTEND_OK;
    if (!may_step(b)) {
      stop_search(s);
      return ATTEND_OK;
    }
    ATTEND_TRY(attend_session_reorder(b->session, s->parents));
    ATTEND_TRY(attend_session_extend(b->session, batch_size(b), 1, s->ids, s->lengths));
    ATTEND_TRY(attend_session_next(b->session, batch_size(b), b->logits));
    write_history(s);
  }
}

/* ---- memory and answers -------------------------------------------------------------------- */

static attend_status make_beams(search *s, beams *p, int32_t **ids) {
  size_t k = (size_t)s->k, n = (size_t)s->b->o->max_new;
  hypothesis **lists[] = {&p->open, &p->next, &p->ended};
  for (int l = 0; l < 3; l++) {
    ATTEND_TRY(
        ctx_alloc_zeroed(s->b->ctx, size_times(k, sizeof **lists[l]), "the beams", lists[l]));
    for (size_t i = 0; i < k; i++, *ids += n) (*lists[l])[i].ids = *ids;
  }
  return ATTEND_OK;
}

static attend_status write_answer(search *s, const beams *p, const hypothesis *h,
                                  continuation *one) {
  batch *b = s->b;
  const char *text;
  size_t length;
  for (int j = 0; j < h->count; j++) {
    ATTEND_TRY(add_id(b->ctx, one, h->ids[j]));
    ATTEND_TRY(stream_push(&one->stream, h->ids[j], &text, &length));
  }
  ATTEND_TRY(stream_end(&one->stream, &text, &length));
  one->public.text = one->stream.text ? one->stream.text : "";
  one->public.log_probability = h->own;
  one->public.score = h->score;
  one->public.end = one->stream.stopped               ? ATTEND_FINISH_STOP
                    : is_end(b, h->ids[h->count - 1]) ? ATTEND_FINISH_TOKEN
                                                      : p->cut;
  one->done = true;
  return ATTEND_OK;
}

/* From the finished beams of all groups: the best of each, then the second of each,
 * ..; within a rank, by score without penalties. */
static const beams *take_best(const search *s, beams *groups, int rank, bool *taken) {
  const beams *best = NULL;
  double max = -INFINITY;
  int at = 0;
  for (int g = 0; g < s->groups; g++) {
    const beams *p = &groups[g];
    if (taken[g] || rank >= p->n_ended) continue;
    const hypothesis *h = &p->ended[rank];
    double score = score_of(s, h->own, h->count);
    if (best && score <= max) continue;
    best = p;
    max = score;
    at = g;
  }
  if (best) taken[at] = true;
  return best;
}

static attend_status write_prompt(search *s, int prompt, bool *taken) {
  batch *b = s->b;
  continuation *one = &b->g->one[(b->first + prompt) * b->each];
  int written = 0;
  for (int rank = 0; rank < s->k; rank++) {
    const beams *p;
    memset(taken, 0, (size_t)s->groups * sizeof *taken);
    while ((p = take_best(s, &s->of[prompt * s->groups], rank, taken)))
      ATTEND_TRY(write_answer(s, p, &p->ended[rank], &one[written++]));
  }
  for (int i = written; i < b->each; i++) /* fewer were finished */
    one[i].public.score = one[i].public.log_probability = -INFINITY;
  for (int i = 0; i < written && i < b->o->samples; i++) report_done(b, &one[i]);
  return ATTEND_OK;
}

static attend_status write_answers(search *s) {
  bool *taken;
  attend_status status =
      ctx_alloc(s->b->ctx, size_times((size_t)s->groups, sizeof *taken), "the groups", &taken);
  for (int i = 0; i < s->b->count && !status; i++) status = write_prompt(s, i, taken);
  ctx_free(s->b->ctx, taken);
  return status;
}

static attend_status take_search(search *s, int32_t **ids) {
  batch *b = s->b;
  size_t all = (size_t)batch_size(b);
  int32_t *at;
  ATTEND_TRY(ctx_alloc_zeroed(b->ctx, size_times((size_t)all_groups(s), sizeof *s->of), "the beams",
                              &s->of));
  ATTEND_TRY(
      ctx_alloc(b->ctx, SIZE_PRODUCT(2, (size_t)s->k, sizeof *s->best), "the beams", &s->best));
  ATTEND_TRY(ctx_alloc_zeroed(b->ctx, SIZE_PRODUCT(4, all, sizeof *s->ids), "the beams", &s->ids));
  s->parents = s->ids + all;
  s->lengths = s->parents + all;
  s->chosen = s->lengths + all;
  ATTEND_TRY(ctx_alloc_zeroed(b->ctx, SIZE_PRODUCT(3, all, (size_t)b->o->max_new, sizeof **ids),
                              "the beams", ids));
  at = *ids;
  for (int i = 0; i < all_groups(s); i++) ATTEND_TRY(make_beams(s, &s->of[i], &at));
  return ATTEND_OK;
}

attend_status search_batch(batch *b) {
  int groups = b->o->groups > 1 ? b->o->groups : 1;
  search s = {.b = b, .groups = groups, .k = b->each / groups};
  int32_t *ids = NULL;
  attend_status status = take_search(&s, &ids);
  if (!status) status = run_search(&s);
  if (!status) status = write_answers(&s);
  for (int i = 0; s.of && i < all_groups(&s); i++) {
    ctx_free(b->ctx, s.of[i].open);
    ctx_free(b->ctx, s.of[i].next);
    ctx_free(b->ctx, s.of[i].ended);
  }
  ctx_free(b->ctx, s.of);
  ctx_free(b->ctx, s.best);
  ctx_free(b->ctx, s.ids);
  ctx_free(b->ctx, ids);
  return status;
}
