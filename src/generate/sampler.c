/* Sampler: from logits to one token.
 *
 * In the usual order: repetition penalty (Keskar et al. 2019), temperature, top-k,
 * top-p (nucleus sampling, Holtzman et al. 2020), min-p (Nguyen et al. 2024), then a
 * draw. Candidates leave a heap best first, so that a nucleus of fifty costs fifty
 * steps instead of sorting the vocabulary; ties are broken by id.
 */
#include <math.h>
#include <string.h>

#include "base/options.h"
#include "generate/generate.h"

/* ---- penalties --------------------------------------------------------------------- */

/* Penalizes each id once. The bitmap covers real vocabularies; larger ids are
 * searched for in the history before them. */
enum { MARKED = 1 << 18 };

static bool is_marked(uint8_t *marks, const int32_t *history, int i) {
  int32_t id = history[i];
  if (id < MARKED) {
    bool seen = marks[id / 8] >> (id % 8) & 1;
    marks[id / 8] |= (uint8_t)(1 << (id % 8));
    return seen;
  }
  for (int j = 0; j < i; j++)
    if (history[j] == id) return true;
  return false;
}

static void penalise(const attend_generate_options *o, float *logits, int n, const int32_t *history,
                     int n_history) {
  uint8_t marks[MARKED / 8] = {0};
  if (o->repetition == 1) return;
  for (int i = 0; i < n_history; i++) {
    int32_t id = history[i];
    if (id < 0 || id >= n || is_marked(marks, history, i)) continue;
    float x = logits[id];
    logits[id] = x < 0 ? x * o->repetition : x / o->repetition;
  }
}

static void forbid_repeats(int size, float *logits, int n, const int32_t *history, int n_history) {
  if (size < 1 || n_history < size) return;
  const int32_t *end = history + n_history - (size - 1);
  for (int i = 0; i + size <= n_history; i++) {
    if (memcmp(history + i, end, (size_t)(size - 1) * sizeof *end)) continue;
    int32_t id = history[i + size - 1];
    if (id >= 0 && id < n) logits[id] = -INFINITY;
  }
}

void adjust_logits(const attend_generate_options *o, float *logits, int n, const int32_t *history,
                   int n_history) {
  penalise(o, logits, n, history, n_history);
  forbid_repeats(o->no_repeat, logits, n, history, n_history);
}

/* ---- a heap of candidates ----------------------------------------------------------- */

/* Comparing by logit, then by id, makes the order unique. */
typedef struct {
  const float *logit;
  int32_t *id;
  int count;
} heap;

static bool is_better(const heap *h, int32_t a, int32_t b) {
  if (h->logit[a] != h->logit[b]) return h->logit[a] > h->logit[b];
  return a < b;
}

static void sink(heap *h, int at) {
  for (;;) {
    int child = 2 * at + 1;
    if (child >= h->count) return;
    if (child + 1 < h->count && is_better(h, h->id[child + 1], h->id[child])) child++;
    if (!is_better(h, h->id[child], h->id[at])) return;
    int32_t keep = h->id[at];
    h->id[at] = h->id[child];
    h->id[child] = keep;
    at = child;
  }
}

static void make_heap(heap *h) {
  for (int i = h->count / 2; i-- > 0;) sink(h, i);
}

static int32_t pop(heap *h) {
  int32_t best = h->id[0];
  h->id[0] = h->id[--h->count];
  sink(h, 0);
  return best;
}

/* ---- drawing -------------------------------------------------------------------------- */

static int32_t best_of(const float *logits, int n) {
  int32_t best = -1;
  for (int i = 0; i < n; i++)
    if (!isnan(logits[i]) && (best < 0 || logits[i] > logits[best])) best = i;
  return best;
}

static double weight_of(const attend_generate_options *o, const float *logits, int32_t id,
                        int32_t best) {
  double less = (double)logits[id] - (double)logits[best];
  return isnan(less) ? 0 : exp(less / (double)o->temperature);
}

static double sum_of(const attend_generate_options *o, const float *logits, int n, int32_t best) {
  double sum = 0;
  for (int i = 0; i < n; i++) sum += weight_of(o, logits, i, best);
  return sum;
}

/* Without limits: one pass over all, in order of id. */
static int32_t draw_any(const attend_generate_options *o, const float *logits, int n, int32_t best,
                        double uniform) {
  double left = uniform * sum_of(o, logits, n, best);
  int32_t last = best;
  for (int32_t i = 0; i < n; i++) {
    double w = weight_of(o, logits, i, best);
    if (w > 0) last = i;
    left -= w;
    if (left < 0) return i;
  }
  return last;
}

/* How many candidates, best first, pass top-p and min-p; the sum of their weights.
 * top-p is relative to `whole`, the weight after top-k. */
static int cut_tail(const attend_generate_options *o, const float *logits, int32_t best,
                    const int32_t *kept, int count, double whole, double *sum) {
  double share = o->top_p > 0 && o->top_p < 1 ? (double)o->top_p : 2;
  *sum = 0;
  for (int i = 0; i < count; i++) {
    double w = weight_of(o, logits, kept[i], best);
    if (w < (double)o->min_p) return i;
    *sum += w;
    if (*sum >= share * whole) return i + 1;
  }
  return count;
}

/* The candidates that pass the limits, best first; the sum of their weights. Stops
 * early where the rest cannot matter. */
static int keep_few(const attend_generate_options *o, const float *logits, int n, int32_t best,
                    heap *h, int32_t *kept, double *sum) {
  bool few = o->top_k > 0 && o->top_k < n;
  bool share = o->top_p > 0 && o->top_p < 1;
  int max = few ? o->top_k : n, count = 0;
  double whole = share && !few ? sum_of(o, logits, n, best) : INFINITY, all = 0;
  while (count < max && h->count > 0) {
    int32_t id = pop(h);
    double w = weight_of(o, logits, id, best);
    if (w <= 0 || (w < (double)o->min_p && !(share && few))) break;
    kept[count++] = id;
    all += w;
    if (share && all >= (double)o->top_p * whole) break;
  }
  return cut_tail(o, logits, best, kept, count, few ? all : whole, sum);
}

static int32_t draw_few(const attend_generate_options *o, const float *logits, int n, int32_t best,
                        double uniform, int32_t *scratch) {
  heap h = {logits, scratch, 0};
  int32_t *kept = scratch + n, chosen = best;
  double sum;
  for (int32_t i = 0; i < n; i++)
    if (!isnan(logits[i])) h.id[h.count++] = i;
  make_heap(&h);
  int count = keep_few(o, logits, n, best, &h, kept, &sum);
  double left = uniform * sum;
  for (int i = 0; i < count; i++) {
    chosen = kept[i];
    left -= weight_of(o, logits, chosen, best);
    if (left < 0) break;
  }
  return chosen;
}

int32_t choose_adjusted(const attend_generate_options *o, const float *logits, int n, float uniform,
                        int32_t *scratch) {
  int32_t best = best_of(logits, n);
  bool limited = o->top_k > 0 || (o->top_p > 0 && o->top_p < 1) || o->min_p > 0;
  if (best < 0 || o->temperature <= 0 || isinf(logits[best])) return best;
  if (limited) return draw_few(o, logits, n, best, (double)uniform, scratch);
  return draw_any(o, logits, n, best, (double)uniform);
}

attend_status generate_options_read(attend_context *ctx, const attend_generate_options *options,
                                    attend_generate_options *o) {
  ATTEND_TRY(OPTIONS_READ(ctx, attend_generate_options, options, o));
  if (!o->max_new) o->max_new = 128;
  if (!o->samples) o->samples = 1;
  if (!o->beams) o->beams = 1;
  if (o->repetition == 0) o->repetition = 1;
  if (o->length_penalty == 0) o->length_penalty = 1;
  return ATTEND_OK;
}

attend_status attend_choose(attend_context *ctx, const attend_generate_options *options,
                            float *logits, int n, const int32_t *history, int n_history,
                            float uniform, int32_t *id) {
  attend_generate_options o;
  int32_t *scratch;
  ATTEND_TRY(generate_options_read(ctx, options, &o));
  ATTEND_CHECK(ctx, logits && id && n >= 1,
               "choosing needs a place for the id and at least one logit, not %d", n);
  ATTEND_CHECK(ctx, n_history >= 0 && (n_history == 0 || history),
               "the history has %d ids%s: give 0 or more, and their address", n_history,
               history ? "" : " and is NULL");
  ATTEND_TRY(ctx_alloc(ctx, SIZE_PRODUCT(2, (size_t)n, sizeof *scratch), "candidates", &scratch));
  adjust_logits(&o, logits, n, history, n_history);
  *id = choose_adjusted(&o, logits, n, uniform, scratch);
  ctx_free(ctx, scratch);
  return ATTEND_OK;
}
