/* Head patterns: scores of one head over a text, averaged over the rows to which a pattern
 * applies.
 *
 * positional: of the variance of the weights, the share that the distance
 * between query and key explains (their mean at each distance instead of one
 * mean for all).
 */
#include <math.h>

#include "base/options.h"
#include "lens/lens.h"

typedef struct {
  const char *name, *about;
} pattern_text;

static const pattern_text patterns[ATTEND_HEAD_PATTERNS] = {
    {"previous", "weight on the token just before"},
    {"next", "weight on the token just after"},
    {"first", "weight on the first token, such as [CLS] or <s>"},
    {"separator", "weight on separators, such as [SEP] or </s>"},
    {"same", "weight on other places of the same token"},
    {"self", "weight on the token itself"},
    {"broad", "entropy, as a share of the most that there can be"},
    {"positional", "how much of where it looks the distance alone explains"},
    {"induction", "weight on what came after the same token before"}};

const char *attend_head_pattern_name(attend_head_pattern d) {
  return (unsigned)d < ATTEND_HEAD_PATTERNS ? patterns[d].name : "";
}
const char *attend_head_pattern_about(attend_head_pattern d) {
  return (unsigned)d < ATTEND_HEAD_PATTERNS ? patterns[d].about : "";
}

typedef struct {
  const attend_pattern_options *o;
  const attend_lens_shape *shape;
  bool self;  /* rows and keys are the same tokens */
  int offset; /* distance d is counted at d + offset */
  double *at; /* [rows + keys] weight at each distance, */
  int *of;    /* and how many pairs have it */
  double sum[ATTEND_HEAD_PATTERNS];
  int n[ATTEND_HEAD_PATTERNS];
  double squares, total, pairs, entropy, later;
  int rows;
} measure;

static void count(measure *m, attend_head_pattern d, double weight) {
  m->sum[d] += weight;
  m->n[d]++;
}

/* Keys [*from, *to) that the row may see. */
static void sees(const attend_lens_shape *s, int row, int *from, int *to) {
  *from = 0;
  *to = s->real_keys;
  if (s->causal && row + 1 < *to) *to = row + 1;
  if (s->window && row - s->window + 1 > 0) *from = row - s->window + 1;
  if (s->window && !s->causal && row + s->window < *to) *to = row + s->window;
}

static void measure_places(measure *m, int row, int from, int to, const float *w, double entropy) {
  if (to - from < 2) return; /* a single key */
  if (from == 0 && row > 0) count(m, ATTEND_PATTERN_FIRST, (double)w[0]);
  count(m, ATTEND_PATTERN_BROAD, entropy / log((double)(to - from)));
  if (!m->self) return;
  if (row > from) count(m, ATTEND_PATTERN_PREVIOUS, (double)w[row - 1]);
  if (row + 1 < to) count(m, ATTEND_PATTERN_NEXT, (double)w[row + 1]);
  if (row < to) count(m, ATTEND_PATTERN_SELF, (double)w[row]);
}

static void measure_tokens(measure *m, int row, int from, int to, const float *w) {
  const attend_pattern_options *o = m->o;
  int32_t id = o->row_ids[row];
  double same = 0, after = 0, separators = 0;
  int n_same = 0, n_after = 0, n_separators = 0;
  for (int j = from; j < to; j++) {
    if (o->separator && o->separator[j]) n_separators++, separators += (double)w[j];
    if (m->self && j == row) continue;
    if (o->key_ids[j] == id) n_same++, same += (double)w[j];
    if (m->self && j > 0 && j - 1 < row && o->key_ids[j - 1] == id)
      n_after++, after += (double)w[j];
  }
  if (n_separators) count(m, ATTEND_PATTERN_SEPARATOR, separators);
  if (n_same) count(m, ATTEND_PATTERN_SAME, same);
  if (n_after) count(m, ATTEND_PATTERN_INDUCTION, after);
}

static void measure_distances(measure *m, int row, int from, int to, const float *w) {
  for (int j = from; j < to; j++) {
    double x = (double)w[j];
    m->at[row - j + m->offset] += x;
    m->of[row - j + m->offset]++;
    m->squares += x * x;
    m->total += x;
  }
  m->pairs += to - from;
}

static void measure_row(int row, const float *w, const float *others, void *with) {
  measure *m = with;
  (void)others;
  int from, to;
  sees(m->shape, row, &from, &to);
  if (row >= m->shape->real_keys && m->self) return; /* padding */
  m->rows++;
  double entropy = lens_entropy(w + from, to - from);
  m->entropy += entropy;
  measure_places(m, row, from, to, w, entropy);
  measure_tokens(m, row, from, to, w);
  if (m->self) measure_distances(m, row, from, to, w);
  for (int j = row + 1; m->self && j < to; j++) m->later += (double)w[j];
}

/* ---- scores ---------------------------------------------------------------------- */

static double positional(const measure *m) {
  double mean = m->pairs ? m->total / m->pairs : 0, explained = 0;
  double variance = m->squares - m->pairs * mean * mean;
  for (int i = 0; i < m->shape->rows + m->shape->keys; i++)
    if (m->of[i]) explained += m->at[i] * m->at[i] / m->of[i] - m->of[i] * mean * mean;
  if (!(variance > 1e-12 * m->pairs)) return 0;
  return fmin(1, fmax(0, explained / variance));
}

/* The dominant pattern: the place of most weight, else how it spreads. */
static int dominant(const double *score) {
  static const attend_head_pattern where[] = {ATTEND_PATTERN_PREVIOUS, ATTEND_PATTERN_NEXT,
                                              ATTEND_PATTERN_SELF,     ATTEND_PATTERN_INDUCTION,
                                              ATTEND_PATTERN_SAME,     ATTEND_PATTERN_SEPARATOR,
                                              ATTEND_PATTERN_FIRST};
  int best = -1;
  for (size_t i = 0; i < sizeof where / sizeof *where; i++)
    if (score[where[i]] >= 0.4 && (best < 0 || score[where[i]] > score[best])) best = (int)where[i];
  if (best >= 0) return best;
  if (score[ATTEND_PATTERN_BROAD] >= 0.9) return ATTEND_PATTERN_BROAD;
  if (score[ATTEND_PATTERN_POSITIONAL] >= 0.5) return ATTEND_PATTERN_POSITIONAL;
  return -1;
}

static void conclude(const measure *m, attend_pattern_scores *p) {
  for (int i = 0; i < ATTEND_HEAD_PATTERNS; i++) p->score[i] = m->n[i] ? m->sum[i] / m->n[i] : NAN;
  p->score[ATTEND_PATTERN_POSITIONAL] = m->self && m->pairs ? positional(m) : NAN;
  p->entropy = m->rows ? m->entropy / m->rows : 0;
  p->later = m->self && m->rows ? m->later / m->rows : NAN;
  p->pattern = dominant(p->score);
}

attend_status attend_lens_pattern(attend_lens *l, attend_head_id at,
                                  const attend_pattern_options *options, attend_pattern_scores *p) {
  attend_lens_shape s;
  attend_pattern_options o;
  ATTEND_TRY(OPTIONS_READ(l->ctx, attend_pattern_options, options, &o));
  ATTEND_CHECK(l->ctx, attend_lens_role(l, at.role, &s), "the run has no such attention: %s",
               attend_role_name(at.role));
  measure m = {.o = &o, .shape = &s, .self = at.role != ATTEND_CROSS};
  size_t distances = (size_t)(s.rows + s.keys);
  int32_t *rows = NULL;
  int n = 0;
  m.offset = s.keys;
  ATTEND_TRY(
      ctx_alloc_zeroed(l->ctx, distances * (sizeof *m.at + sizeof *m.of), "distances", &m.at));
  m.of = (int *)(m.at + distances);
  attend_status status = lens_rows(l, 0, s.rows, 16, s.keys, o.most_pairs, &rows, &n);
  if (!status) status = lens_each_row(l, NULL, at, n, rows, measure_row, &m);
  if (!status) conclude(&m, p);
  p->rows_sampled = n;
  ctx_free(l->ctx, rows);
  ctx_free(l->ctx, m.at);
  return status;
}

/* ---- several heads ---------------------------------------------------------------- */

/* Means leave out NaN. */
typedef struct {
  double sum;
  int n;
} mean;

static void mean_add(mean *m, double x) {
  if (!isnan(x)) m->sum += x, m->n++;
}
static double mean_of(const mean *m) { return m->n ? m->sum / m->n : NAN; }

void attend_pattern_summarize(const attend_pattern_scores *scores, int heads,
                              attend_pattern_summary *s) {
  mean entropy = {0}, broad = {0}, later = {0};
  *s = (attend_pattern_summary){0};
  for (int h = 0; h < heads; h++) {
    const attend_pattern_scores *p = &scores[h];
    s->count[p->pattern < 0 ? ATTEND_HEAD_PATTERNS : p->pattern]++;
    mean_add(&entropy, p->entropy);
    mean_add(&broad, p->score[ATTEND_PATTERN_BROAD]);
    mean_add(&later, p->later);
  }
  s->entropy = mean_of(&entropy), s->broad = mean_of(&broad), s->later = mean_of(&later);
}

int attend_pattern_best(const attend_pattern_scores *scores, int heads, attend_head_pattern pattern,
                        int max, int *best) {
  int n = 0;
  if ((unsigned)pattern >= ATTEND_HEAD_PATTERNS) return 0;
  for (int h = 0; h < heads; h++) {
    double score = scores[h].score[pattern];
    int at = n;
    while (at > 0 && score > scores[best[at - 1]].score[pattern]) at--;
    if (isnan(score) || at == max) continue;
    if (n < max) n++;
    for (int i = n - 1; i > at; i--) best[i] = best[i - 1];
    best[at] = h;
  }
  return n;
}

double attend_lens_visible(const attend_lens *l, attend_role role) {
  attend_lens_shape s;
  double pairs = 0;
  if (!attend_lens_role(l, role, &s)) return 0;
  int rows = role == ATTEND_ENCODER_SELF ? s.real_keys : s.rows;
  for (int i = 0; i < rows; i++) {
    int from, to;
    sees(&s, i, &from, &to);
    pairs += to > from ? to - from : 0;
  }
  return rows && s.real_keys ? pairs / ((double)rows * s.real_keys) : 0;
}
