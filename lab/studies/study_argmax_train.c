/* A small memory, trained with argmax and with softmax: every query is to give
 * a target of its own.
 *
 * The second half of study_argmax.c: documents 001 2(b), 003 3(b).
 *
 * Under argmax only values learn. A key that wins m queries has a value that
 * walks to the mean of their targets, by a factor 1 - rate m a step: the loss of
 * every step is known beforehand, and so is the floor under it.
 */
#include "studies/study_argmax.h"

enum { QUERY = 1, KEY, VALUE, TARGET };

typedef struct {
  int n, d; /* queries, and keys; width */
  float *q, *k, *v, *target;
} memory;

/* What one step needs beside it. */
typedef struct {
  float *o, *lse, *d_o, *dq, *dk, *dv;
} slopes;

static size_t size(const memory *m) { return (size_t)m->n * (size_t)m->d; }

static attend_status draw(study_run *r, memory *m) {
  m->n = study_count(r, "queries");
  m->d = study_count(r, "d");
  TAKE(r, &m->q, size(m));
  TAKE(r, &m->k, size(m));
  TAKE(r, &m->v, size(m));
  TAKE(r, &m->target, size(m));
  study_normal(r, QUERY, 0, size(m), m->q);
  study_normal(r, KEY, 0, size(m), m->k);
  study_normal(r, VALUE, 0, size(m), m->v);
  study_normal(r, TARGET, 0, size(m), m->target);
  return ATTEND_OK;
}

static attend_status take_slopes(study_run *r, const memory *m, slopes *s) {
  TAKE(r, &s->o, size(m));
  TAKE(r, &s->lse, (size_t)m->n);
  TAKE(r, &s->d_o, size(m));
  TAKE(r, &s->dq, size(m));
  TAKE(r, &s->dk, size(m));
  TAKE(r, &s->dv, size(m));
  return ATTEND_OK;
}

/* Half the squared distance from the targets, mean over queries. */
static double loss_of(const memory *m, const float *o) {
  double sum = 0;
  for (size_t i = 0; i < size(m); i++) {
    double off = (double)o[i] - (double)m->target[i];
    sum += off * off;
  }
  return sum / (2 * m->n);
}

static void descend(float *x, const float *dx, size_t n, float rate) {
  for (size_t i = 0; i < n; i++) x[i] -= rate * dx[i];
}

/* loss[i]: before step i; loss[steps]: after the last. */
static attend_status train_with(study_run *r, attend_plan *plan, memory *m,
                                const slopes *s, double *loss) {
  const bool second = attend_plan_desc(plan)->form.kind == ATTEND_SOFTMAX;
  const int steps = study_count(r, "steps");
  const float rate = (float)study_number(r, "rate");
  attend_view q = attend_bhtd(m->q), k = attend_bhtd(m->k),
              v = attend_bhtd(m->v), o = attend_bhtd(s->o);
  for (int i = 0; i <= steps; i++) {
    TRY(attend_forward(plan, q, k, v, o, s->lse));
    loss[i] = loss_of(m, s->o);
    if (i == steps) break;
    for (size_t j = 0; j < size(m); j++) s->d_o[j] = s->o[j] - m->target[j];
    TRY(attend_backward(plan, q, k, v, o, s->lse, attend_bhtd(s->d_o),
                        attend_bhtd(s->dq), attend_bhtd(s->dk),
                        attend_bhtd(s->dv), NULL));
    descend(m->q, s->dq, size(m), rate);
    descend(m->k, s->dk, size(m), rate);
    descend(m->v, s->dv, size(m), rate);
    if (i % 100 == 0)
      TRY(study_step(r, (second ? 0.6 : 0.2) + 0.4 * i / steps));
  }
  return ATTEND_OK;
}

static attend_status train(study_run *r, attend_form_kind form, memory *m,
                           double *loss) {
  attend_desc desc = {.form.kind = form,
                      .q_len = m->n,
                      .kv_len = m->n,
                      .dim = m->d,
                      .purpose = ATTEND_FOR_BACKWARD};
  attend_plan *plan;
  slopes s;
  TRY(take_slopes(r, m, &s));
  TRY(attend_plan_create(r->ctx, &desc, &plan));
  attend_status status = train_with(r, plan, m, &s, loss);
  attend_plan_free(plan);
  return status;
}

/* ---- what is known of argmax beforehand ---------------------------------------------- */

/* The key of the largest product, in double. */
static int winner(const memory *m, int query) {
  int best = 0;
  double most = -INFINITY;
  for (int j = 0; j < m->n; j++) {
    double sum = 0;
    for (int i = 0; i < m->d; i++)
      sum += (double)m->q[query * m->d + i] * (double)m->k[j * m->d + i];
    if (sum > most) most = sum, best = j;
  }
  return best;
}

typedef struct {
  int won;        /* queries that a key wins */
  double spread;  /* of their targets around the mean, squared, summed */
  double towards; /* from the value to that mean, squared */
} group;

static group group_of(const memory *m, const int *winners, int key) {
  group g = {0};
  for (int i = 0; i < m->n; i++) g.won += winners[i] == key;
  for (int e = 0; e < m->d && g.won; e++) {
    double sum = 0, square = 0;
    for (int i = 0; i < m->n; i++)
      if (winners[i] == key) {
        double t = (double)m->target[i * m->d + e];
        sum += t, square += t * t;
      }
    double mean = sum / g.won, off = (double)m->v[key * m->d + e] - mean;
    g.spread += square - sum * mean;
    g.towards += off * off;
  }
  return g;
}

typedef struct {
  double floor;
  int winners; /* keys that win any query */
  double *loss;
} forecast;

static attend_status foresee(study_run *r, const memory *m, forecast *f) {
  const int steps = study_count(r, "steps");
  const double rate = study_number(r, "rate");
  int *winners = NULL;
  *f = (forecast){0};
  TAKE(r, &winners, (size_t)m->n);
  TAKE(r, &f->loss, (size_t)steps + 1);
  for (int i = 0; i < m->n; i++) winners[i] = winner(m, i);
  for (int j = 0; j < m->n; j++) {
    group g = group_of(m, winners, j);
    if (!g.won) continue;
    f->winners++;
    f->floor += g.spread / (2 * m->n);
    for (int i = 0; i <= steps; i++)
      f->loss[i] +=
          (g.spread + g.won * g.towards * pow(1 - rate * g.won, 2.0 * i)) /
          (2 * m->n);
  }
  return ATTEND_OK;
}

/* ---- what is said ------------------------------------------------------------------------ */

static int changed(const float *a, const float *b, size_t n) {
  int count = 0;
  for (size_t i = 0; i < n; i++) count += a[i] != b[i];
  return count;
}

static int changed_rows(const float *a, const float *b, int n, int d) {
  int count = 0;
  for (int i = 0; i < n; i++)
    count += changed(a + i * d, b + i * d, (size_t)d) > 0;
  return count;
}

static const attend_study_column trained_columns[] = {
    {"form", "form", ATTEND_CELL_TEXT},
    {"queries", "queries that moved", ATTEND_CELL_COUNT},
    {"keys", "keys that moved", ATTEND_CELL_COUNT},
    {"values", "values that moved", ATTEND_CELL_COUNT},
    {"before", "loss before", ATTEND_CELL_NUMBER},
    {"first", "after one step", ATTEND_CELL_NUMBER},
    {"after", "after all", ATTEND_CELL_NUMBER},
    {0}};

typedef struct {
  memory start, end;
  double *loss;
  int moved[3]; /* rows of q, k, v */
} course;

static attend_status teach(study_run *r, attend_form_kind form, course *c) {
  TAKE(r, &c->loss, (size_t)study_count(r, "steps") + 1);
  TRY(draw(r, &c->start));
  TRY(draw(r, &c->end));
  TRY(train(r, form, &c->end, c->loss));
  const memory *a = &c->start, *b = &c->end;
  c->moved[0] = changed_rows(a->q, b->q, a->n, a->d);
  c->moved[1] = changed_rows(a->k, b->k, a->n, a->d);
  c->moved[2] = changed_rows(a->v, b->v, a->n, a->d);
  return ATTEND_OK;
}

static attend_status table_row(study_run *r, table_store *t, const char *name,
                               const course *c) {
  TRY(study_word(t, "%s", name));
  return study_row(t, 6, (double)c->moved[0], (double)c->moved[1],
                   (double)c->moved[2], c->loss[0], c->loss[1],
                   c->loss[study_count(r, "steps")]);
}

static attend_status claim(study_run *r, const course *c, const forecast *f) {
  const int steps = study_count(r, "steps");
  TRY(study_claim(r, "queries-moved", "argmax: queries that training moved",
                  c->moved[0], 0, 0));
  TRY(study_claim(r, "keys-moved", "argmax: keys that training moved",
                  c->moved[1], 0, 0));
  TRY(study_claim(r, "values-moved",
                  "argmax: values that training moved, those of winners",
                  c->moved[2], f->winners, 0));
  TRY(study_claim(r, "loss-first", "argmax: loss after one step", c->loss[1],
                  f->loss[1], 1e-5 * f->loss[0]));
  return study_claim(r, "loss-last", "argmax: loss after the last step",
                     c->loss[steps], f->loss[steps], 1e-5 * f->loss[0]);
}

static attend_status plot(study_run *r, const course *hard, const course *soft,
                          const forecast *f) {
  enum { MARKS = 13 };
  const size_t n = (size_t)study_count(r, "steps") + 1;
  double x[MARKS], y[MARKS], ends[2] = {0, (double)(n - 1)},
                             floor[2] = {f->floor, f->floor};
  for (size_t i = 0; i < MARKS; i++) {
    size_t at = i * (n - 1) / (MARKS - 1);
    x[i] = (double)at;
    y[i] = hard->loss[at];
  }
  attend_plot_series series[] = {
      {.name = "argmax", .count = MARKS, .x = x, .y = y, .points = 2},
      {.name = "predicted", .count = n, .y = f->loss, .colour = 1},
      {.name = "its floor",
       .count = 2,
       .x = ends,
       .y = floor,
       .dashed = 1,
       .colour = 3},
      {.name = "softmax", .count = n, .y = soft->loss, .colour = 2}};
  attend_plot_panel panel = {.title = "Training queries, keys and values",
                             .x = {.label = "step"},
                             .y = {.label = "loss", .zero = 1},
                             .key = ATTEND_KEY_ABOVE,
                             .count = sizeof series / sizeof *series,
                             .series = series};
  return study_figure(r, "argmax-training",
                      &(attend_plot){.count = 1, .panels = &panel});
}

static attend_status introduce(study_run *r) {
  TRY(study_heading(r, "What training changes"));
  return study_say(
      r,
      "A memory of %d keys is asked %d queries, each of which is to give a "
      "target of its own; queries, keys and values are random at first, and "
      "all "
      "three are trained by gradient descent for %d step%s.",
      study_count(r, "queries"), study_count(r, "queries"),
      study_count(r, "steps"), study_count(r, "steps") == 1 ? "" : "s");
}

attend_status argmax_train(study_run *r) {
  course hard, soft;
  forecast f;
  table_store *t;
  TRY(introduce(r));
  TRY(teach(r, ATTEND_ARGMAX, &hard));
  TRY(teach(r, ATTEND_SOFTMAX, &soft));
  TRY(foresee(r, &hard.start, &f));
  TRY(study_table(r, "training",
                  study_format(r, "Of %d each", study_count(r, "queries")),
                  trained_columns, &t));
  TRY(table_row(r, t, "argmax", &hard));
  TRY(table_row(r, t, "softmax", &soft));
  TRY(claim(r, &hard, &f));
  TRY(plot(r, &hard, &soft, &f));
  return study_say(
      r,
      "Under argmax no query and no key has moved by a bit. %d of %d keys win "
      "at all, and only their values learn; two queries with the same winner "
      "get the same output for ever, so that the loss cannot fall below %.4g, "
      "the spread of the targets that share a winner. All of this is known "
      "beforehand: a value whose key wins m queries comes nearer to the mean "
      "of "
      "their targets by the factor 1 − %g m in every step. The softmax moves "
      "everything, and ends at %.4g.",
      f.winners, hard.start.n, f.floor, study_number(r, "rate"),
      soft.loss[study_count(r, "steps")]);
}
