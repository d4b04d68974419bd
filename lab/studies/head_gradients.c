/* Gradients that reach the heads of a model: at their outputs, at their slices of the
 * projections, and at their scores; trained and untrained, or at every checkpoint of a training
 * run.
 *
 * Document Fall 2025 5(d)ii, Fall 2022 2(d)ii.
 */
#include "attend/text.h"
#include "attend/train.h"
#include "studies/heads.h"

enum {
  LONGEST = 256, /* tokens; a pass keeps every layer's weights, T x T for each head */
  MASK_EVERY = 7,
  FIRST_MASKED = 3
};

/* ---- the loss: the model's own task on the text ---------------------------------------- */

typedef struct {
  attend_batch batch;
  int32_t *ids, *targets, *decoder_ids;
} text_batch;

/* Masked language models are to find every seventh token. */
static attend_status mask_tokens(study_run *r, const traced_text *t, const char *path,
                                 text_batch *b) {
  attend_tokenizer *tok = NULL;
  int32_t mask = -1;
  if (!t->drawn) {
    TRY(attend_tokenizer_load(r->ctx, path, &tok));
    mask = attend_tokenizer_special(tok, ATTEND_SPECIAL_MASK);
    attend_tokenizer_free(tok);
  }
  for (int i = 0; i < b->batch.length; i++) {
    const bool asked = i % MASK_EVERY == FIRST_MASKED && !t->separator[i];
    b->targets[i] = asked ? t->ids[i] : -1;
    if (asked && mask >= 0) b->ids[i] = mask;
  }
  return ATTEND_OK;
}

/* The next token; of encoder-decoders, the text once more. */
static void next_tokens(const traced_text *t, text_batch *b, int start) {
  const int n = b->batch.length;
  const bool both = t->parts & ATTEND_ENCODER;
  for (int i = 0; i < n; i++) {
    b->targets[i] = both ? t->ids[i] : i + 1 < n ? t->ids[i + 1] : -1;
    b->decoder_ids[i] = i ? t->ids[i - 1] : start;
  }
  if (!both) return;
  b->batch.decoder_length = n;
  b->batch.decoder_ids = b->decoder_ids;
}

static attend_status batch_of(study_run *r, const traced_text *t, const char *path, int start,
                              text_batch *b) {
  const int n = t->n < LONGEST ? t->n : LONGEST;
  *b = (text_batch){.batch = {ATTEND_INIT(attend_batch), .count = 1, .length = n}};
  TAKE(r, &b->ids, (size_t)n);
  TAKE(r, &b->targets, (size_t)n);
  TAKE(r, &b->decoder_ids, (size_t)n);
  memcpy(b->ids, t->ids, (size_t)n * sizeof *b->ids);
  b->batch.ids = b->ids;
  b->batch.targets = b->targets;
  if (t->parts == ATTEND_ENCODER) return mask_tokens(r, t, path, b);
  next_tokens(t, b, start < 0 ? 0 : start);
  return ATTEND_OK;
}

/* ---- hooks -------------------------------------------------------------------------------- */

/* What hooks add up in one pass. */
typedef struct {
  int heads, rows;
  float *weights, *outputs; /* [layers][H][T][T], [layers][H][T][M] */
  size_t at_outputs;        /* floats of a layer */
  double *norm;             /* [layers][H] of the gradient at the output, squared */
  double strongest, others; /* sums of |gradient of a score| */
  double n_strongest, n_others;
  double by_weights, by_outputs, size; /* Σ A dA, Σ O dO, Σ |O dO| */
} gathering;

static const float *row_of(const attend_hooked *x, int h, int i) {
  return (const float *)x->view.data + h * x->view.stride[1] + i * x->view.stride[2];
}

static void keep(const attend_hooked *x, float *to) {
  const size_t width = (size_t)x->shape[3];
  for (int h = 0; h < x->shape[1]; h++)
    for (int i = 0; i < x->shape[2]; i++, to += width)
      memcpy(to, row_of(x, h, i), width * sizeof *to);
}

static void read_tensor(const attend_hooked *x, void *user) {
  gathering *g = user;
  const size_t pairs = (size_t)g->heads * (size_t)g->rows * (size_t)g->rows;
  keep(x, x->point == ATTEND_AT_PATTERN ? g->weights + (size_t)x->layer * pairs
                                        : g->outputs + (size_t)x->layer * g->at_outputs);
}

/* ds = a (g - Σ a g): of a row with weights a whose gradients are g. */
static void add_scores(gathering *s, const float *a, const float *g, int n) {
  double mean = 0;
  int seen = 0;
  const size_t top = study_top(a, (size_t)n);
  for (int j = 0; j < n; j++) mean += (double)a[j] * (double)g[j], seen += a[j] > 0;
  s->by_weights += mean;
  if (seen < 2) return; /* it has no choice */
  for (int j = 0; j < n; j++) {
    if (!(a[j] > 0)) continue;
    const double ds = fabs((double)a[j] * ((double)g[j] - mean));
    const bool best = (size_t)j == top;
    *(best ? &s->strongest : &s->others) += ds;
    *(best ? &s->n_strongest : &s->n_others) += 1;
  }
}

static void read_gradient(const attend_hooked *x, void *user) {
  gathering *g = user;
  const int H = x->shape[1], T = x->shape[2], width = x->shape[3];
  const bool pattern = x->point == ATTEND_AT_PATTERN;
  const float *kept = pattern ? g->weights + (size_t)x->layer * (size_t)(H * T) * (size_t)width
                              : g->outputs + (size_t)x->layer * g->at_outputs;
  for (int h = 0; h < H; h++)
    for (int i = 0; i < T; i++, kept += width) {
      const float *d = row_of(x, h, i);
      if (pattern) {
        add_scores(g, kept, d, width);
        continue;
      }
      for (int m = 0; m < width; m++) {
        const double both = (double)kept[m] * (double)d[m];
        g->norm[x->layer * H + h] += (double)d[m] * (double)d[m];
        g->by_outputs += both;
        g->size += fabs(both);
      }
    }
}

/* ---- one set of weights --------------------------------------------------------------------- */

typedef struct {
  attend_checkpoint *files;
  attend_trainer *trainer;
} learner;

static attend_status make_gathering(study_run *r, const attend_lens_shape *shape, int rows,
                                    gathering *g) {
  const size_t L = (size_t)shape->layers, H = (size_t)shape->heads, T = (size_t)rows;
  *g = (gathering){.heads = shape->heads, .rows = rows, .at_outputs = H * T * (size_t)shape->dim_v};
  TAKE(r, &g->weights, L * H * T * T);
  TAKE(r, &g->outputs, L * g->at_outputs);
  TAKE(r, &g->norm, L * H);
  return ATTEND_OK;
}

static attend_status backward(const learner *l, attend_role role, const text_batch *b, gathering *g,
                              double *loss) {
  const attend_hook hook = {ATTEND_INIT(attend_hook),
                            .points = ATTEND_AT_PATTERN | ATTEND_AT_HEAD_OUTPUT,
                            .roles = 1u << role,
                            .read = read_tensor,
                            .read_gradient = read_gradient,
                            .user = g};
  attend_batch_loss is;
  TRY(attend_trainer_set_hooks(l->trainer, 1, &hook));
  TRY(attend_trainer_accumulate(l->trainer, &b->batch, &is));
  *loss = is.scored ? is.loss / is.scored : NAN;
  return ATTEND_OK;
}

static attend_status add_rows(const learner *l, const head_case *c, const attend_lens_shape *shape,
                              attend_role role, const gathering *g, table_store *t) {
  for (int h = 0; h < shape->layers * shape->heads; h++) {
    const int layer = h / shape->heads, head = h % shape->heads;
    attend_head_gradient of;
    TRY(attend_trainer_head_gradient(l->trainer, role, layer, head, &of));
    TRY(study_row(t, c->name, (double)layer, (double)head, sqrt(g->norm[h]), of.q, of.k, of.v,
                  of.o));
  }
  return ATTEND_OK;
}

static attend_status one_case(study_run *r, const head_case *c, const traced_text *text,
                              const attend_lens_shape *shape, attend_role role, learner *l,
                              table_store *heads, table_store *cases) {
  text_batch b;
  gathering g;
  double loss;
  TRY(c->untrained ? attend_checkpoint_init(r->ctx, c->path, r->seed, &l->files)
                   : attend_checkpoint_open(r->ctx, c->path, &l->files));
  TRY(attend_trainer_create(l->files, NULL, &l->trainer));
  const int start =
      attend_config_get(attend_trainer_config(l->trainer), ATTEND_CONFIG_DECODER_START);
  TRY(batch_of(r, text, c->path, start, &b));
  TRY(make_gathering(r, shape, b.batch.length, &g));
  TRY(backward(l, role, &b, &g, &loss));
  TRY(add_rows(l, c, shape, role, &g, heads));
  const double best = g.strongest / g.n_strongest, other = g.others / g.n_others;
  TRY(study_row(cases, c->name, loss, best, other, best / other));
  return study_claim(r, g.by_weights, g.by_outputs, 1e-4 * g.size,
                     "gradients-%s: %s: Σ weights × their gradients is Σ outputs × theirs", c->name,
                     c->name);
}

/* ---- figures ---------------------------------------------------------------------------------- */

/* Rows are heads, columns checkpoints; where there are two sets of weights, a map each of layers
 * and heads. */
static attend_status plot_cases(study_run *r, int n, const head_case *c,
                                const attend_lens_shape *shape, const table_store *t) {
  const size_t heads = (size_t)shape->layers * (size_t)shape->heads;
  const double *norm = study_column(t, "output");
  double max = 0;
  TRY(study_status(r));
  for (size_t i = 0; i < heads * (size_t)n; i++) max = fmax(max, norm[i]);
  const attend_plot_axis z = study_range("‖gradient‖", 0, max > 0 ? max : 1);
  if (n == 2) {
    attend_plot_panel panels[2];
    for (int i = 0; i < 2; i++)
      panels[i] =
          study_heat(study_format(r, "At the heads' outputs, %s", c[i].name), "head", "layer",
                     (size_t)shape->layers, (size_t)shape->heads, norm + (size_t)i * heads, z);
    return study_plot(r, "heads-gradients", 2, panels);
  }
  double *cells = NULL;
  const char **rows = NULL, **columns = NULL;
  TAKE(r, &cells, heads * (size_t)n);
  TAKE(r, &rows, heads);
  TAKE(r, &columns, (size_t)n);
  for (size_t h = 0; h < heads; h++) {
    rows[h] = study_format(r, "%zu.%zu", h / (size_t)shape->heads, h % (size_t)shape->heads);
    for (int i = 0; i < n; i++) cells[h * (size_t)n + (size_t)i] = norm[(size_t)i * heads + h];
  }
  for (int i = 0; i < n; i++) columns[i] = c[i].name;
  attend_plot_panel panel = study_heat("Gradient at the heads' outputs", "checkpoint", "layer.head",
                                       heads, (size_t)n, cells, z);
  panel.names = columns;
  panel.row_names = rows;
  return study_plot(r, "heads-gradients", 1, &panel);
}

/* A line for each layer, over the steps. */
static attend_status plot_steps(study_run *r, int n, const head_case *c,
                                const attend_lens_shape *shape, const table_store *t) {
  static const char *const names[] = {"output", "q", "k", "v", "o"};
  static const char *const titles[] = {"At head outputs", "W_q", "W_k", "W_v", "W_o"};
  enum { TENSORS = 5 };
  attend_plot_panel panels[TENSORS];
  double *x = NULL;
  TAKE(r, &x, (size_t)n);
  for (int i = 0; i < n; i++) x[i] = c[i].step;
  for (int k = 0; k < TENSORS; k++) {
    const double *norm = study_column(t, names[k]);
    attend_plot_series *series = NULL;
    TAKE(r, &series, (size_t)shape->layers);
    TRY(study_status(r));
    for (int l = 0; l < shape->layers; l++) {
      double *y = NULL;
      TAKE(r, &y, (size_t)n);
      for (int i = 0; i < n; i++) {
        const double *of = norm + (i * shape->layers + l) * shape->heads;
        for (int h = 0; h < shape->heads; h++) y[i] += of[h] * of[h] / shape->heads;
        y[i] = sqrt(y[i]);
      }
      series[l] =
          (attend_plot_series){study_format(r, "layer %d", l), (size_t)n, x, y, .points = 1};
    }
    panels[k] = study_lines(titles[k], study_axis("step"), study_zero("rms over heads"),
                            (size_t)shape->layers, series);
  }
  return study_figure(r, "heads-gradients-steps",
                      &(attend_plot){.count = TENSORS, .across = 3, .panels = panels});
}

/* ---- saying ------------------------------------------------------------------------------------ */

static const attend_study_column head_columns[] = {{"weights", "weights", TEXT},
                                                   {"layer", "layer", COUNT},
                                                   {"head", "head", COUNT},
                                                   {"output", "at its output", NUMBER},
                                                   {"q", "W_q", NUMBER},
                                                   {"k", "W_k", NUMBER},
                                                   {"v", "W_v", NUMBER},
                                                   {"o", "W_o", NUMBER},
                                                   {0}};
static const attend_study_column case_columns[] = {
    {"weights", "weights", TEXT},
    {"loss", "loss", NUMBER},
    {"strongest", "|∂loss/∂s|, strongest key of a row", SMALL},
    {"others", "its other keys", SMALL},
    {"ratio", "ratio", NUMBER},
    {0}};

static attend_status show(study_run *r, int n, const head_case *c, const traced_text *text,
                          const attend_lens_shape *shape, attend_role role) {
  table_store *cases, *heads;
  TRY(study_heading(r, "Gradients of the heads"));
  TRY(study_say(
      r,
      "The loss is the model's own task on %s %d tokens of the text: %s. The norm of its gradient "
      "at each head's output, and at the head's slices of W_q, W_k, W_v (rows) and W_o (columns):",
      text->n > LONGEST ? "the first" : "the", text->n < LONGEST ? text->n : LONGEST,
      text->parts == ATTEND_DECODER   ? "predict the next token"
      : text->parts == ATTEND_ENCODER ? "find every seventh token, which is masked"
                                      : "write the text again"));
  TRY(study_table(r, &heads, "gradients", head_columns, "Norms of gradients, by layer and head"));
  TRY(study_table(
      r, &cases, "score-gradients", case_columns,
      "Mean gradient of a score, at the key with a row's largest weight and at others"));
  for (int i = 0; i < n; i++) {
    learner l = {0};
    attend_status status = one_case(r, &c[i], text, shape, role, &l, heads, cases);
    attend_trainer_free(l.trainer);
    if (l.files) attend_checkpoint_free(l.files);
    TRY(status);
    TRY(study_step(r, (double)(i + 1) / n));
  }
  TRY(plot_cases(r, n, c, shape, heads));
  if (c[0].step >= 0 && n > 1) TRY(plot_steps(r, n, c, shape, heads));
  return study_say(
      r,
      "The gradient of a score is its weight times how much better its value is than the row's "
      "mean: where a head attends strongly, scores get the larger gradients, here %.3g times those "
      "of the other keys (%s), and %.3g times (%s).",
      study_value(cases, 0, "ratio"), c[0].name, study_value(cases, (size_t)n - 1, "ratio"),
      c[n - 1].name);
}

/* The model must have a head to have a loss. */
static attend_status has_head(study_run *r, const char *path, bool *has) {
  attend_checkpoint *files;
  attend_trainer *trainer = NULL;
  TRY(attend_checkpoint_open(r->ctx, path, &files));
  *has = !attend_trainer_create(files, NULL, &trainer);
  attend_trainer_free(trainer);
  attend_checkpoint_free(files);
  return ATTEND_OK;
}

attend_status study_head_gradients(study_run *r, int n, const head_case *c, const traced_text *text,
                                   const attend_lens_shape *shape, attend_role role) {
  bool has;
  TRY(has_head(r, c[0].path, &has));
  if (has) return show(r, n, c, text, shape, role);
  return study_say(r, "Without a loss there are no gradients: %s.", attend_message(r->ctx));
}
