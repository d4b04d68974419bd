/* One model and one text under several forms of attention.
 *
 * Two differences of attention are measured. "direct" computes a form's weights from
 * the queries and keys of the first form's pass: what the form itself changes.
 * "attention" runs each form through all layers: what it changes in the end, with
 * inputs that have drifted apart.
 */
#include "attend/compare.h"

#include <math.h>

#include "attend/generate.h"
#include "attend/attention.h"
#include "attend/problem.h"
#include "base/options.h"
#include "device/device.h"
#include "model/transformer.h"

enum { CHUNK = 64 /* rows of logits */, REPEAT = 3, ANSWER = 32 };

static const char *const usual[] = {"softmax",       "favor(m=64)",    "favor(m=256)",
                                    "favor(m=1024)", "fourier(m=256)", "elu",
                                    "poly(p=2)",     "argmax"};

struct attend_comparison {
  attend_context *ctx;
  attend_model *model;
  const attend_config *config;
  attend_compare_options options;
  attend_role role; /* whose weights are compared */
  const attend_stack *stack;
  const int32_t *ids; /* [n], the caller's */
  int n;
  int32_t *decoder_ids; /* [n_decoder] of an encoder-decoder */
  int n_decoder;
  attend_form_result *results; /* [count] */
  attend_form *forms;          /* [count] */
  double *heads;               /* [count][2][layers][heads] */
  int count, finished;
  bool stopped;
  blocks kept, work; /* until the end; while forms run */
  /* work: of the first form */
  float *weights;   /* [layers][H,n,n] */
  float *hidden;    /* [n][width] */
  int32_t *best;    /* [rows that are scored] */
  float *q, *k, *v; /* [H,n,D], [G,n,D], [G,n,M] of the layer that is read */
  float *o, *lse;   /* [H,n,M], [H,n] */
  float *other;     /* [H,n,n] of a form under its queries and keys */
  int32_t *rows;    /* 0, 1, .. n - 1 */
  float *logits;    /* [CHUNK][V] */
};

typedef struct {
  attend_comparison *c;
  attend_form_result *result;
  double *attention, *direct; /* [layers][heads] */
  attend_session *session;
  int form, pass;       /* forms, and passes of this one, that were begun */
  attend_status status; /* of what a hook did */
} form_run;

static int cells(const attend_comparison *c) { return c->stack->layers * c->stack->heads; }

/* Direct weights exist where the compared role has the form, and where the scores
 * have no bias but the mask's: T5's is part of the running model. */
static bool has_direct(const attend_comparison *c) {
  unsigned roles = c->options.roles;
  return c->config->position != ATTEND_POSITIONS_BUCKETS && (!roles || roles & 1u << c->role);
}

static const attend_stack *compared_stack(const attend_config *c) {
  return c->parts & ATTEND_ENCODER ? &c->encoder : &c->decoder;
}

double attend_comparison_bytes(const attend_model *model, int n) {
  const attend_stack *s = compared_stack(attend_model_config(model));
  return 4.0 * (s->layers + 1) * s->heads * n * n;
}

static int report(form_run *r) {
  attend_comparison *c = r->c;
  int passes = c->options.repeat + !c->options.no_attention + 1;
  double part = fmin(1, (double)r->pass / passes);
  if (r->status) return 1;
  if (c->options.progress && !c->stopped)
    c->stopped = c->options.progress((r->form + part) / c->count, r->result->form, c->options.user);
  return c->stopped;
}

static int stop(void *user) { return report(user); }

/* ---- weights ------------------------------------------------------------------- */

/* Half the sum of |difference| of each row, mean over the rows of a head. */
static void weight_distance(const attend_comparison *c, const float *a, const float *b,
                            double *heads /* [H] */) {
  size_t n = (size_t)c->n;
  for (int h = 0; h < c->stack->heads; h++) {
    double sum = 0;
    for (size_t i = 0; i < n * n; i++)
      sum += fabs((double)a[(size_t)h * n * n + i] - (double)b[(size_t)h * n * n + i]);
    heads[h] = sum / 2 / c->n;
  }
}

static float *first_weights(const attend_comparison *c, int layer) {
  return c->weights +
         SIZE_PRODUCT((size_t)layer, (size_t)c->stack->heads, (size_t)c->n, (size_t)c->n);
}

/* A form's weights given the first form's q, k and v. */
static attend_status direct_weights(attend_comparison *c, const attend_form *form, int layer) {
  attend_desc d = {ATTEND_INIT(attend_desc)};
  attend_plan *plan;
  attend_model_attention(c->model, c->role, layer, &d);
  d.form = *form;
  d.q_len = d.kv_len = c->n;
  ATTEND_TRY(attend_plan_create(c->ctx, &d, &plan));
  attend_observation all = {ATTEND_INIT(attend_observation), .rows = c->rows, .n_rows = c->n,
                            .weights = c->other};
  attend_view q = attend_bhtd(c->q), k = attend_bhtd(c->k);
  attend_status status = attend_forward(plan, q, k, attend_bhtd(c->v), attend_bhtd(c->o), c->lse);
  if (!status) status = attend_observe(plan, q, k, c->lse, &all);
  attend_plan_free(plan);
  return status;
}

static attend_status compare_direct(attend_comparison *c, int layer) {
  int heads = c->stack->heads;
  for (int i = 1; i < c->count; i++) {
    double *to = c->heads + (2 * i + 1) * cells(c) + layer * heads;
    attend_status status = direct_weights(c, &c->forms[i], layer);
    if (status == ATTEND_NO_MEMORY) return status;
    if (!status) weight_distance(c, c->other, first_weights(c, layer), to);
    for (int h = 0; status && h < heads; h++) to[h] = NAN; /* no engine */
  }
  return ATTEND_OK;
}

/* A contiguous copy of the first sequence. */
static void copy_heads(const attend_hooked *s, float *to) {
  size_t H = (size_t)s->shape[1], n = (size_t)s->shape[2], D = (size_t)s->shape[3];
  for (size_t i = 0; i < H * n; i++)
    memcpy(to + i * D,
           s->view.data + (ptrdiff_t)(i / n) * s->view.stride[1] +
               (ptrdiff_t)(i % n) * s->view.stride[2],
           D * sizeof *to);
}

static void read_first(const attend_hooked *s, void *user) {
  form_run *r = user;
  attend_comparison *c = r->c;
  if (s->point == ATTEND_AT_QUERY) copy_heads(s, c->q);
  if (s->point == ATTEND_AT_KEY) copy_heads(s, c->k);
  if (s->point == ATTEND_AT_VALUE) copy_heads(s, c->v);
  if (s->point != ATTEND_AT_PATTERN || r->status) return;
  copy_heads(s, first_weights(c, s->layer));
  if (has_direct(c)) r->status = compare_direct(c, s->layer);
}

static void read_other(const attend_hooked *s, void *user) {
  form_run *r = user;
  weight_distance(r->c, s->view.data, first_weights(r->c, s->layer),
                  r->attention + s->layer * r->c->stack->heads);
}

/* ---- hidden states --------------------------------------------------------------- */

static void compare_hidden(form_run *r) {
  attend_comparison *c = r->c;
  size_t width = (size_t)c->stack->width, n = (size_t)c->n;
  double square = 0, gap = 0, aa = 0, bb = 0, ab = 0;
  int ld;
  const float *b = attend_session_hidden(r->session, &ld), *a = c->hidden;
  for (size_t i = 0; !r->form && i < n; i++)
    memcpy(c->hidden + i * width, b + i * (size_t)ld, width * sizeof *b);
  for (size_t j = 0; j < width; j++) {
    double sum_a = 0, sum_b = 0;
    for (size_t i = 0; i < n; i++) {
      double x = (double)a[i * width + j], y = (double)b[i * (size_t)ld + j];
      square += x * x;
      gap += (x - y) * (x - y);
      sum_a += x;
      sum_b += y;
    }
    aa += sum_a * sum_a;
    bb += sum_b * sum_b;
    ab += sum_a * sum_b;
  }
  r->result->hidden = square > 0 ? sqrt(gap / square) : NAN;
  r->result->drift = aa > 0 && bb > 0 ? fmax(0, 1 - ab / sqrt(aa * bb)) : NAN;
}

/* ---- logits ---------------------------------------------------------------------- */

/* scored: against the text's next tokens. */
static attend_status score(form_run *r, int all, bool scored) {
  attend_comparison *c = r->c;
  int vocab = c->config->vocab, same = 0;
  int32_t target[CHUNK], best[CHUNK];
  float loss[CHUNK];
  double sum = 0;
  for (int start = 0; start < all; start += CHUNK) {
    int rows = all - start < CHUNK ? all - start : CHUNK;
    for (int i = 0; i < rows; i++)
      target[i] = scored && start + i + 1 < all ? c->ids[start + i + 1] : -1;
    ATTEND_TRY(attend_session_logits(r->session, rows, c->rows + start, c->logits));
    attend_cross_entropy(c->ctx, rows, vocab, c->logits, vocab, target, loss, best);
    for (int i = 0; i < rows; i++) {
      if (!r->form) c->best[start + i] = best[i];
      same += c->best[start + i] == best[i];
      if (target[i] >= 0) sum += (double)loss[i];
    }
  }
  r->result->agreement = (double)same / all;
  r->result->loss = scored ? sum / (all - 1) : NAN;
  return ATTEND_OK;
}

static attend_status score_text(form_run *r) {
  attend_comparison *c = r->c;
  if (c->config->parts == ATTEND_DECODER) return score(r, c->n, true);
  if (c->config->parts == ATTEND_ENCODER)
    return c->model->head.forward ? score(r, c->n, false) : ATTEND_OK;
  ATTEND_TRY(attend_session_extend(r->session, 1, c->n_decoder, c->decoder_ids, NULL));
  return score(r, c->n_decoder, false);
}

/* ---- one form -------------------------------------------------------------------- */

static attend_status read_text(form_run *r, double *seconds) {
  attend_comparison *c = r->c;
  attend_session_reset(r->session);
  double start = seconds_now();
  attend_status status = c->config->parts & ATTEND_ENCODER
                             ? attend_session_encode(r->session, 1, c->n, c->ids, NULL, NULL)
                             : attend_session_extend(r->session, 1, c->n, c->ids, NULL);
  if (seconds) *seconds = fmin(*seconds, seconds_now() - start);
  r->pass++;
  return r->status ? r->status : status;
}

static attend_status read_with_hook(form_run *r) {
  unsigned first = r->form ? 0 : ATTEND_AT_QUERY | ATTEND_AT_KEY | ATTEND_AT_VALUE;
  attend_hook hook = {ATTEND_INIT(attend_hook), .points = ATTEND_AT_PATTERN | first,
                      .roles = 1u << r->c->role, .read = r->form ? read_other : read_first,
                      .user = r};
  ATTEND_TRY(attend_session_set_hooks(r->session, 1, &hook));
  ATTEND_TRY(read_text(r, NULL));
  return attend_session_set_hooks(r->session, 0, NULL);
}

/* One token more, at the end of the text: the cost of generation. */
static attend_status time_token(form_run *r) {
  attend_comparison *c = r->c;
  attend_form_result *f = r->result;
  f->cache_bytes = attend_session_cache_bytes(r->session);
  f->work_bytes = attend_session_work_bytes(r->session);
  if (c->config->parts != ATTEND_DECODER) return ATTEND_OK;
  for (int i = 0; i < c->options.repeat; i++) {
    if (c->config->positions && c->n + i >= c->config->positions) break;
    double start = seconds_now();
    ATTEND_TRY(attend_session_extend(r->session, 1, 1, c->ids, NULL));
    f->token_s = fmin(f->token_s, seconds_now() - start); /* of NaN: the other */
  }
  return ATTEND_OK;
}

static attend_status measure(form_run *r) {
  attend_comparison *c = r->c;
  for (int i = 0; i < c->options.repeat; i++) ATTEND_TRY(read_text(r, &r->result->read_s));
  if (!c->options.no_attention) ATTEND_TRY(read_with_hook(r));
  compare_hidden(r);
  ATTEND_TRY(score_text(r));
  return time_token(r);
}

static double mean_of(const double *x, int n) {
  double sum = 0;
  for (int i = 0; i < n; i++) sum += x[i];
  return sum / n;
}

static attend_status run_form(attend_comparison *c, attend_model *model, int i) {
  attend_form_result *f = &c->results[i];
  form_run r = {.c = c, .result = f, .form = i};
  attend_session_options o = {ATTEND_INIT(attend_session_options),
                              .rows = c->n > c->n_decoder ? c->n : c->n_decoder};
  if (!c->options.no_attention) {
    r.attention = c->heads + 2 * i * cells(c);
    r.direct = r.attention + cells(c);
  }
  f->agreement = f->loss = f->drift = f->hidden = NAN;
  f->attention = f->direct = f->read_s = f->token_s = NAN;
  ATTEND_TRY(attend_session_create(model, &o, &r.session));
  attend_session_set_stop(r.session, stop, &r);
  attend_status status = report(&r) ? ATTEND_STOPPED : measure(&r);
  attend_session_free(r.session);
  f->attention_heads = r.attention;
  f->direct_heads = r.direct;
  for (int x = 0; r.direct && !has_direct(c) && x < cells(c); x++) r.direct[x] = NAN;
  if (r.attention) f->attention = mean_of(r.attention, cells(c));
  if (r.direct) f->direct = mean_of(r.direct, cells(c));
  return status;
}

/* ---- all forms --------------------------------------------------------------------- */

static int stop_generating(void *user) {
  attend_comparison *c = user;
  if (c->options.progress && c->options.progress(0, NULL, c->options.user)) c->stopped = true;
  return c->stopped;
}

static attend_status copy_decoder_ids(attend_comparison *c, const attend_continuation *out) {
  int max = c->config->positions; /* the last token is not read again */
  c->n_decoder = max && out->count >= max ? max : out->count + 1;
  ATTEND_TRY(blocks_add(c->ctx, &c->work, ON_HOST, (size_t)c->n_decoder * sizeof *c->decoder_ids,
                        "a model's output", &c->decoder_ids));
  c->decoder_ids[0] = c->config->decoder_start;
  memcpy(c->decoder_ids + 1, out->ids, (size_t)(c->n_decoder - 1) * sizeof *out->ids);
  return ATTEND_OK;
}

/* An encoder-decoder decodes what the first form generates. */
static attend_status find_decoder_ids(attend_comparison *c) {
  attend_generate_options o = {ATTEND_INIT(attend_generate_options)};
  attend_prompt prompt = {c->ids, c->n};
  attend_generation *g = NULL;
  attend_model *first;
  if (c->config->parts != ATTEND_BOTH) return ATTEND_OK;
  o.max_new = ANSWER;
  o.on_step = stop_generating;
  o.user = c;
  ATTEND_TRY(attend_model_with_roles(c->model, &c->forms[0], c->options.roles, &first));
  attend_status status = attend_generate(first, 1, &prompt, &o, &g);
  if (!status && c->stopped) status = ATTEND_STOPPED;
  if (!status) status = copy_decoder_ids(c, attend_generation_get(g, 0));
  attend_generation_free(g);
  attend_model_free(first);
  return status;
}

static attend_status take_work(attend_comparison *c) {
  const attend_stack *s = c->stack;
  size_t n = (size_t)c->n, H = (size_t)s->heads, G = (size_t)s->kv_heads;
  size_t rows = n > (size_t)c->n_decoder ? n : (size_t)c->n_decoder;
  size_t head = CHUNK * (size_t)c->config->vocab;
  bool pairs = !c->options.no_attention;
  const struct {
    void *block;
    size_t count;
  } list[] = {{&c->hidden, n * (size_t)s->width},
              {&c->best, rows},
              {&c->rows, rows},
              {&c->logits, head},
              {&c->weights, pairs * SIZE_PRODUCT((size_t)s->layers, H, n, n)},
              {&c->other, pairs * SIZE_PRODUCT(H, n, n)},
              {&c->q, pairs * SIZE_PRODUCT(H, n, (size_t)s->dim)},
              {&c->k, pairs * SIZE_PRODUCT(G, n, (size_t)s->dim)},
              {&c->v, pairs * SIZE_PRODUCT(G, n, (size_t)s->dim_v)},
              {&c->o, pairs * SIZE_PRODUCT(H, n, (size_t)s->dim_v)},
              {&c->lse, pairs * H * n}};
  for (size_t i = 0; i < sizeof list / sizeof *list; i++)
    ATTEND_TRY(blocks_add(c->ctx, &c->work, ON_HOST, size_times(list[i].count, sizeof(float)),
                          "comparing forms of attention", list[i].block));
  for (size_t i = 0; i < rows; i++) c->rows[i] = (int32_t)i;
  return ATTEND_OK;
}

static attend_status parse_forms(attend_comparison *c, const char *const *forms) {
  size_t count = (size_t)c->count;
  ATTEND_TRY(blocks_add(c->ctx, &c->kept, ON_HOST, count * sizeof *c->forms, "forms of attention",
                        &c->forms));
  ATTEND_TRY(blocks_add(c->ctx, &c->kept, ON_HOST, count * sizeof *c->results, "forms of attention",
                        &c->results));
  ATTEND_TRY(blocks_add(c->ctx, &c->kept, ON_HOST, 2 * count * (size_t)cells(c) * sizeof *c->heads,
                        "differences of heads", &c->heads));
  for (int i = 0; i < c->count; i++) {
    size_t bytes = strlen(forms[i]) + 1;
    char *name;
    ATTEND_TRY(blocks_add(c->ctx, &c->kept, ON_HOST, bytes, "a form's name", &name));
    memcpy(name, forms[i], bytes);
    c->results[i].form = name;
    ATTEND_TRY(attend_form_parse(c->ctx, name, &c->forms[i]));
  }
  return ATTEND_OK;
}

static attend_status run_all(attend_comparison *c, const char *const *forms) {
  attend_model *model;
  ATTEND_TRY(parse_forms(c, forms));
  ATTEND_TRY(find_decoder_ids(c));
  ATTEND_TRY(take_work(c));
  for (int i = 0; i < c->count; i++) {
    ATTEND_TRY(attend_model_with_roles(c->model, &c->forms[i], c->options.roles, &model));
    attend_status status = run_form(c, model, i);
    attend_model_free(model);
    if (status) return status;
    c->finished++;
  }
  return ATTEND_OK;
}

attend_status attend_comparison_create(attend_model *model, int n, const int32_t *ids, int count,
                                       const char *const *forms,
                                       const attend_compare_options *options,
                                       attend_comparison **comparison) {
  attend_context *ctx = attend_model_context(model);
  attend_compare_options o;
  attend_comparison *c;
  *comparison = NULL;
  ATTEND_TRY(OPTIONS_READ(ctx, attend_compare_options, options, &o));
  ATTEND_CHECK(ctx, n >= 2, "the text has %d tokens: give it at least two", n);
  ATTEND_CHECK(ctx, count >= 0 && o.repeat >= 0,
               "%d forms, repeated %d times: neither may be negative", count, o.repeat);
  if (!o.repeat) o.repeat = REPEAT;
  ATTEND_TRY(ctx_alloc_zeroed(ctx, sizeof *c, "a comparison", &c));
  c->ctx = ctx;
  c->model = model;
  c->config = attend_model_config(model);
  c->options = o;
  c->stack = compared_stack(c->config);
  c->role = c->config->parts & ATTEND_ENCODER ? ATTEND_ENCODER_SELF : ATTEND_DECODER_SELF;
  c->ids = ids;
  c->n = n;
  c->count = count ? count : (int)(sizeof usual / sizeof *usual);
  attend_status status = run_all(c, count ? forms : usual);
  blocks_free(ctx, &c->work);
  if (!status || status == ATTEND_STOPPED)
    *comparison = c;
  else
    attend_comparison_free(c);
  if (status == ATTEND_STOPPED) fail(ctx, status, "stopped before it was done");
  return status;
}

void attend_comparison_free(attend_comparison *c) {
  if (!c) return;
  attend_context *ctx = c->ctx;
  blocks_free(ctx, &c->kept);
  ctx_free(ctx, c);
}

const attend_form_result *attend_comparison_get(const attend_comparison *c, int i) {
  return i >= 0 && i < c->finished ? &c->results[i] : NULL;
}

void attend_comparison_shape(const attend_comparison *c, int *layers, int *heads) {
  *layers = c->stack->layers;
  *heads = c->stack->heads;
}
