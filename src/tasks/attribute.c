/* Attributions: gradients of a logit, by hooks of a trainer.
 *
 * A batch scores the target's position alone. A hook at the logits replaces the loss's gradient by
 * that of the logit; hooks at the residual stream, attention rows, head outputs and mlps read what
 * arrives there.
 */
#include "attend/attribute.h"

#include <math.h>

#include "attend/train.h"
#include "base/options.h"
#include "model/transformer.h"
#include "tasks/tasks.h"

enum { PATH_BATCH = 16, FIRST_STEPS = 16, MOST_STEPS = 1024, LENS_ROWS = 32 };

struct attend_attributor {
  attend_model *model;
  attend_trainer *trainer;
};

/* ---- a pass: forward, and backward from the target ------------------------------------ */

/* Side 0 is the encoder or the only one, side 1 the decoder of two. */
typedef struct {
  int n, width;
  const int32_t *ids;
} side;

typedef struct {
  attend_attributor *a;
  attend_tokens text;
  const attend_target *target;
  side side[2];
  int count; /* copies of the text in a batch */
  double values[PATH_BATCH];
  int valued; /* of them so far */
  /* With a pointer-generator head the target is log p of generating and copying together, which is
   * the loss with its sign changed; so are all gradients. Otherwise it is a logit. */
  bool copies;
} target_pass;

/* A gradient that a hook reads, as one of the target. */
static float signed_by(const target_pass *p, float d) { return p->copies ? -d : d; }

static int rows_of(const target_pass *p) { return p->side[0].n + p->side[1].n; }
/* Floats of the residual streams of one text, side after side. */
static size_t stream_floats(const target_pass *p) {
  return (size_t)p->side[0].n * (size_t)p->side[0].width +
         (size_t)p->side[1].n * (size_t)p->side[1].width;
}

static int side_of(const target_pass *p, attend_role role) {
  return role == ATTEND_DECODER_SELF && p->side[1].n > 0;
}
static size_t side_at(const target_pass *p, int which) {
  return which ? (size_t)p->side[0].n * (size_t)p->side[0].width : 0;
}

static attend_status open_pass(attend_attributor *a, const attend_tokens *text,
                               const attend_target *target, target_pass *p) {
  const attend_config *c = &a->model->config;
  *p = (target_pass){.a = a, .target = target, .count = 1, .copies = c->copy > 0};
  ATTEND_CHECK(a->model->ctx, !p->copies || target->against < 0,
               "%s copies words, so that its targets are log probabilities of one token: leave the "
               "token that is subtracted away",
               c->family);
  ATTEND_TRY(tokens_check(a->model->ctx, a->model, text, &p->text));
  p->side[0] = (side){p->text.n, c->parts == ATTEND_DECODER ? c->decoder.width : c->encoder.width,
                      p->text.ids};
  if (c->parts == ATTEND_BOTH)
    p->side[1] = (side){p->text.n_decoder, c->decoder.width, p->text.decoder_ids};
  return ATTEND_OK;
}

static void read_values(const attend_hooked *t, void *user) {
  target_pass *p = user;
  for (int i = 0; i < t->shape[2]; i++) {
    const float *row = t->view.data + i * t->view.stride[2];
    double value = (double)row[p->target->token];
    if (p->target->against >= 0) value -= (double)row[p->target->against];
    p->values[p->valued++] = value;
  }
}

static void keep_logits(const attend_hooked *t, float *data, void *user) {
  (void)t, (void)data, (void)user;
}

static void target_gradient(const attend_hooked *t, float *d, void *user) {
  const target_pass *p = user;
  for (int i = 0; i < t->shape[2] && !p->copies; i++) {
    float *row = d + i * t->view.stride[2];
    memset(row, 0, (size_t)t->shape[3] * sizeof *row);
    row[p->target->token] = 1;
    if (p->target->against >= 0) row[p->target->against] = -1;
  }
}

static attend_status copy_ids(attend_context *ctx, blocks *memory, int count, int n,
                              const int32_t *ids, const int32_t **to) {
  int32_t *all;
  *to = NULL;
  if (!ids) return ATTEND_OK;
  ATTEND_TRY(blocks_add(ctx, memory, ON_HOST, SIZE_PRODUCT((size_t)count, (size_t)n, sizeof *all),
                        "tokens", &all));
  for (int b = 0; b < count; b++) memcpy(all + (size_t)b * (size_t)n, ids, (size_t)n * sizeof *all);
  *to = all;
  return ATTEND_OK;
}

static attend_status fill_batch(const target_pass *p, blocks *memory, attend_batch *batch) {
  attend_context *ctx = p->a->model->ctx;
  const attend_tokens *x = &p->text;
  const int rows = attend_tokens_rows(p->a->model, x), all = p->count * rows;
  int32_t *targets;
  batch->count = p->count;
  batch->length = x->n;
  batch->decoder_length = x->n_decoder;
  ATTEND_TRY(copy_ids(ctx, memory, p->count, x->n, x->ids, &batch->ids));
  ATTEND_TRY(copy_ids(ctx, memory, p->count, x->n, x->types, &batch->types));
  ATTEND_TRY(copy_ids(ctx, memory, p->count, x->n_decoder, x->decoder_ids, &batch->decoder_ids));
  ATTEND_TRY(blocks_add(ctx, memory, ON_HOST, size_times((size_t)all, sizeof *targets), "targets",
                        &targets));
  for (int i = 0; i < all; i++)
    targets[i] = i % rows == p->target->position ? p->target->token : -1;
  batch->targets = targets;
  return ATTEND_OK;
}

/* Runs p->count copies of the text with a hook of the caller's beside the target's. */
static attend_status run_pass(target_pass *p, bool direct, const attend_hook *more) {
  attend_context *ctx = p->a->model->ctx;
  attend_trainer *trainer = p->a->trainer;
  blocks memory = {0};
  attend_batch_loss loss;
  attend_batch batch = {ATTEND_INIT(attend_batch), .scale = 1, .direct = direct};
  attend_hook set[] = {{ATTEND_INIT(attend_hook), .points = ATTEND_AT_LOGITS, .read = read_values,
                        .edit = keep_logits, .edit_gradient = target_gradient, .user = p},
                       *more};
  p->valued = 0;
  attend_status status = fill_batch(p, &memory, &batch);
  if (!status) status = attend_trainer_set_hooks(trainer, 2, set);
  if (!status) status = attend_trainer_accumulate(trainer, &batch, &loss);
  if (!status && p->copies) p->values[0] = -loss.loss / p->count;
  attend_trainer_set_hooks(trainer, 0, NULL);
  blocks_free(ctx, &memory);
  return status;
}

/* ---- baselines -------------------------------------------------------------------------- */

static int32_t absent_token(const attend_model *m, const attend_tokenizer *t) {
  static const attend_special kinds[] = {ATTEND_SPECIAL_MASK, ATTEND_SPECIAL_PAD,
                                         ATTEND_SPECIAL_EOS};
  int32_t id = -1;
  for (size_t i = 0; t && id < 0 && i < sizeof kinds / sizeof *kinds; i++)
    id = attend_tokenizer_special(t, kinds[i]);
  if (id < 0) id = attend_config_get(&m->config, ATTEND_CONFIG_PAD);
  if (id < 0) id = attend_config_eos(&m->config, 0);
  return id < m->config.vocab ? id : -1;
}

static void replace_words(const attend_tokenizer *t, const int32_t *from, int n, int32_t absent,
                          int32_t *to) {
  for (int i = 0; i < n; i++)
    to[i] = t && attend_tokenizer_is_special(t, from[i]) ? from[i] : absent;
}

attend_status attend_attribute_baseline(const attend_model *m, const attend_tokenizer *t,
                                        const attend_tokens *text, int32_t *absent, int32_t *ids) {
  attend_tokens x;
  ATTEND_TRY(tokens_check(m->ctx, m, text, &x));
  if (*absent < 0) *absent = absent_token(m, t);
  if (*absent < 0) return ATTEND_OK;
  replace_words(t, x.ids, x.n, *absent, ids);
  replace_words(t, x.decoder_ids, x.n_decoder, *absent, ids + x.n);
  if (x.n_decoder) ids[x.n] = x.decoder_ids[0];
  return ATTEND_OK;
}

/* ---- attributors ------------------------------------------------------------------------- */

static attend_status make_trainer(attend_attributor *a) {
  const attend_model *m = a->model;
  attend_trainer_options o = {ATTEND_INIT(attend_trainer_options), .form = &m->form};
  for (int role = 0; role < ATTEND_ROLES; role++)
    if (!memcmp(&m->forms[role], &m->form, sizeof m->form)) o.roles |= 1u << role;
  ATTEND_CHECK(a->model->ctx, m->files, "attributions need the model's checkpoint");
  return attend_trainer_create(m->files, &o, &a->trainer);
}

attend_status attend_attributor_create(attend_model *model, attend_attributor **attributor) {
  attend_attributor *a;
  *attributor = NULL;
  ATTEND_TRY(ctx_alloc_zeroed(model->ctx, sizeof *a, "an attributor", &a));
  a->model = model;
  attend_status status = make_trainer(a);
  if (status)
    attend_attributor_free(a);
  else
    *attributor = a;
  return status;
}

void attend_attributor_free(attend_attributor *a) {
  if (!a) return;
  attend_trainer_free(a->trainer);
  ctx_free(a->model->ctx, a);
}

size_t attend_attributor_bytes(const attend_attributor *a) {
  return attend_trainer_bytes(a->trainer) + attend_trainer_work_bytes(a->trainer);
}

/* Replaces -1 of a target by what the model itself says. */
static attend_status resolve_target(attend_attributor *a, const attend_tokens *text,
                                    attend_target *target) {
  const int rows = attend_tokens_rows(a->model, text);
  float *logits = NULL;
  if (target->token < 0) {
    ATTEND_TRY(ctx_alloc(a->model->ctx,
                         SIZE_PRODUCT((size_t)rows, (size_t)a->model->config.vocab, sizeof *logits),
                         "logits", &logits));
    attend_status status = attend_tokens_logits(a->model, text, logits);
    if (!status) status = attend_target_resolve(a->model, rows, logits, target);
    ctx_free(a->model->ctx, logits);
    return status;
  }
  return attend_target_resolve(a->model, rows, NULL, target);
}

/* ---- gradient x input --------------------------------------------------------------------- */

/* The streams before layer 0 of a batch, and their gradients. */
typedef struct {
  target_pass *p;
  float *x, *d;      /* [count][stream_floats], or NULL: not kept */
  const float *text; /* of a path: both ends [stream_floats], and the share of each copy */
  const float *base;
  double *share; /* [count]; NULL: the streams as they are */
} streams;

static float *stream_row(const streams *s, float *of, const attend_hooked *t, int b, int i) {
  const int which = side_of(s->p, t->role);
  return of + (size_t)b * stream_floats(s->p) + side_at(s->p, which) +
         (size_t)i * (size_t)s->p->side[which].width;
}

static void copy_streams(const streams *s, const attend_hooked *t, float *to) {
  for (int b = 0; b < t->shape[0]; b++)
    for (int i = 0; i < t->shape[2]; i++)
      memcpy(stream_row(s, to, t, b, i),
             t->view.data + b * t->view.stride[0] + i * t->view.stride[2],
             (size_t)t->shape[3] * sizeof *to);
}

static void read_streams(const attend_hooked *t, void *user) {
  const streams *s = user;
  if (s->x && !s->share) copy_streams(s, t, s->x);
}
static void read_stream_gradients(const attend_hooked *t, void *user) {
  const streams *s = user;
  if (!s->d) return;
  copy_streams(s, t, s->d);
  for (int b = 0; b < t->shape[0]; b++)
    for (int i = 0; i < t->shape[2]; i++) {
      float *row = stream_row(s, s->d, t, b, i);
      for (int j = 0; j < t->shape[3]; j++) row[j] = signed_by(s->p, row[j]);
    }
}

static void move_streams(const attend_hooked *t, float *data, void *user) {
  const streams *s = user;
  const int which = side_of(s->p, t->role), width = t->shape[3];
  for (int b = 0; b < t->shape[0]; b++)
    for (int i = 0; i < t->shape[2]; i++) {
      float *row = data + b * t->view.stride[0] + i * t->view.stride[2];
      size_t at = side_at(s->p, which) + (size_t)i * (size_t)width;
      for (int j = 0; j < width; j++) {
        double from = s->base ? (double)s->base[at + (size_t)j] : 0;
        row[j] = (float)(from + s->share[b] * ((double)s->text[at + (size_t)j] - from));
      }
    }
}

static attend_hook streams_hook(streams *s) {
  static const int first = 0;
  return (attend_hook){ATTEND_INIT(attend_hook),
                       .points = ATTEND_AT_RESIDUAL,
                       .layers = &first,
                       .n_layers = 1,
                       .read = read_streams,
                       .edit = s->share ? move_streams : NULL,
                       .read_gradient = read_stream_gradients,
                       .user = s};
}

/* scores[row] = x . d of the row. */
static void dot_rows(const target_pass *p, const float *x, const float *d, float *scores) {
  for (int which = 0, row = 0; which < 2; which++)
    for (int i = 0; i < p->side[which].n; i++, row++) {
      const int width = p->side[which].width;
      size_t at = side_at(p, which) + (size_t)i * (size_t)width;
      double sum = 0;
      for (int j = 0; j < width; j++) sum += (double)x[at + (size_t)j] * (double)d[at + (size_t)j];
      scores[row] = (float)sum;
    }
}

/* Into rows of the wider side. */
static void spread_rows(const target_pass *p, const float *d, float *gradient) {
  const int wide = (int)max64(p->side[0].width, p->side[1].width);
  memset(gradient, 0, (size_t)rows_of(p) * (size_t)wide * sizeof *gradient);
  for (int which = 0, row = 0; which < 2; which++)
    for (int i = 0; i < p->side[which].n; i++, row++)
      memcpy(gradient + (size_t)row * (size_t)wide,
             d + side_at(p, which) + (size_t)i * (size_t)p->side[which].width,
             (size_t)p->side[which].width * sizeof *d);
}

attend_status attend_attribute_gradient(attend_attributor *a, const attend_tokens *text,
                                        attend_target *target, float *scores, float *gradient,
                                        double *logit) {
  target_pass p;
  ATTEND_TRY(open_pass(a, text, target, &p));
  ATTEND_TRY(resolve_target(a, &p.text, target));
  const size_t n = stream_floats(&p);
  streams s = {.p = &p};
  ATTEND_TRY(ctx_alloc(a->model->ctx, SIZE_PRODUCT(2, n, sizeof *s.x), "gradients", &s.x));
  s.d = s.x + n;
  attend_hook hook = streams_hook(&s);
  attend_status status = run_pass(&p, false, &hook);
  if (!status) {
    *logit = p.values[0];
    dot_rows(&p, s.x, s.d, scores);
    if (gradient) spread_rows(&p, s.d, gradient);
  }
  ctx_free(a->model->ctx, s.x);
  return status;
}

/* ---- integrated gradients -------------------------------------------------------------------- */

typedef struct {
  target_pass *p;
  attend_integrated_options o;
  float *text, *base, *d; /* [n], [n], [PATH_BATCH][n] */
  double *sum;            /* [n] of gradients */
  size_t n;
  int done, all; /* steps, of all tries */
} path;

/* The stream of a text before layer 0. */
static attend_status embed_text(attend_attributor *a, const attend_tokens *text,
                                const target_pass *p, float *to) {
  target_pass q;
  streams s = {.p = &q, .x = to};
  ATTEND_TRY(open_pass(a, text, p->target, &q));
  ATTEND_CHECK(a->model->ctx, q.side[0].n == p->side[0].n && q.side[1].n == p->side[1].n,
               "a baseline of %d and %d tokens for a text of %d and %d: give as many", q.side[0].n,
               q.side[1].n, p->side[0].n, p->side[1].n);
  attend_hook hook = streams_hook(&s);
  hook.read_gradient = NULL;
  return run_pass(&q, true, &hook);
}

static attend_status at_shares(path *w, int count, double *share, double *values) {
  streams s = {.p = w->p, .d = w->d, .text = w->text, .base = w->base, .share = share};
  attend_hook hook = streams_hook(&s);
  w->p->count = count;
  ATTEND_TRY(run_pass(w->p, false, &hook));
  memcpy(values, w->p->values, (size_t)count * sizeof *values);
  return ATTEND_OK;
}

/* Midpoints of `steps` equal parts of the path; their gradients are added in order. */
static attend_status follow_path(path *w, int steps) {
  double share[PATH_BATCH], values[PATH_BATCH];
  memset(w->sum, 0, w->n * sizeof *w->sum);
  for (int at = 0; at < steps; at += PATH_BATCH) {
    int count = (int)min64(PATH_BATCH, steps - at);
    for (int b = 0; b < count; b++) share[b] = (at + b + 0.5) / steps;
    ATTEND_TRY(at_shares(w, count, share, values));
    for (int b = 0; b < count; b++)
      for (size_t i = 0; i < w->n; i++) w->sum[i] += (double)w->d[(size_t)b * w->n + i];
    w->done += count;
    if (w->o.progress && w->o.progress((double)w->done / w->all, NULL, w->o.user) &&
        w->done < w->all)
      return fail(w->p->a->model->ctx, ATTEND_STOPPED, "stopped after %d steps of the path",
                  w->done);
  }
  return ATTEND_OK;
}

static double score_rows(const path *w, int steps, float *scores) {
  double total = 0;
  for (int which = 0, row = 0; which < 2; which++)
    for (int i = 0; i < w->p->side[which].n; i++, row++) {
      const int width = w->p->side[which].width;
      size_t at = side_at(w->p, which) + (size_t)i * (size_t)width;
      double sum = 0;
      for (int j = 0; j < width; j++, at++)
        sum += ((double)w->text[at] - (w->base ? (double)w->base[at] : 0)) * w->sum[at] / steps;
      scores[row] = (float)sum;
      total += sum;
    }
  return total;
}

static attend_status integrate(path *w, float *scores, attend_integrated *r) {
  double ends[2] = {0, 1}, values[2];
  int steps = w->o.steps ? w->o.steps : FIRST_STEPS;
  for (int i = 0; i < 2; i++) ATTEND_TRY(at_shares(w, 1, &ends[i], &values[i]));
  r->baseline = values[0];
  r->logit = values[1];
  const double difference = values[1] - values[0];
  for (;; steps *= 2) {
    w->all = w->done + steps;
    ATTEND_TRY(follow_path(w, steps));
    r->sum = score_rows(w, steps, scores);
    r->steps = steps;
    bool complete = fabs(r->sum - difference) <= (double)w->o.tolerance * fabs(difference);
    if (w->o.steps || complete || steps >= MOST_STEPS) return ATTEND_OK;
  }
}

static attend_status open_path(path *w, blocks *memory) {
  attend_context *ctx = w->p->a->model->ctx;
  const size_t n = w->n;
  ATTEND_CHECK(ctx, w->o.steps >= 0 && w->o.tolerance >= 0,
               "%d steps, a tolerance of %g: neither may be negative", w->o.steps,
               (double)w->o.tolerance);
  if (w->o.tolerance == 0) w->o.tolerance = 0.01f;
  static const char what[] = "gradients on a path";
  ATTEND_TRY(blocks_add(ctx, memory, ON_HOST, size_times(n, sizeof *w->text), what, &w->text));
  ATTEND_TRY(
      blocks_add(ctx, memory, ON_HOST, SIZE_PRODUCT(PATH_BATCH, n, sizeof *w->d), what, &w->d));
  ATTEND_TRY(blocks_add(ctx, memory, ON_HOST, size_times(n, sizeof *w->sum), what, &w->sum));
  ATTEND_TRY(embed_text(w->p->a, &w->p->text, w->p, w->text));
  if (!w->o.baseline) return ATTEND_OK;
  ATTEND_TRY(blocks_add(ctx, memory, ON_HOST, size_times(n, sizeof *w->base), what, &w->base));
  return embed_text(w->p->a, w->o.baseline, w->p, w->base);
}

attend_status attend_attribute_integrated(attend_attributor *a, const attend_tokens *text,
                                          const attend_integrated_options *options,
                                          attend_target *target, float *scores,
                                          attend_integrated *result) {
  target_pass p;
  path w = {.p = &p};
  blocks memory = {0};
  attend_integrated r = {ATTEND_INIT(attend_integrated)};
  ATTEND_TRY(OPTIONS_READ(a->model->ctx, attend_integrated_options, options, &w.o));
  ATTEND_TRY(open_pass(a, text, target, &p));
  ATTEND_TRY(resolve_target(a, &p.text, target));
  w.n = stream_floats(&p);
  attend_status status = open_path(&w, &memory);
  if (!status) status = integrate(&w, scores, &r);
  if (!status) options_write(&r, sizeof r, result);
  blocks_free(a->model->ctx, &memory);
  return status;
}

/* ---- attention ---------------------------------------------------------------------------------- */

typedef struct {
  const target_pass *p;
  float *weights, *gradients; /* [L][H][T][S] */
} attention_rows;

static void copy_pattern(const attend_hooked *t, float *to) {
  const size_t keys = (size_t)t->shape[3];
  for (int h = 0; h < t->shape[1]; h++)
    for (int i = 0; i < t->shape[2]; i++) {
      size_t row =
          ((size_t)t->layer * (size_t)t->shape[1] + (size_t)h) * (size_t)t->shape[2] + (size_t)i;
      memcpy(to + row * keys, t->view.data + h * t->view.stride[1] + i * t->view.stride[2],
             keys * sizeof *to);
    }
}

static void read_pattern(const attend_hooked *t, void *user) {
  copy_pattern(t, ((attention_rows *)user)->weights);
}
static void read_pattern_gradient(const attend_hooked *t, void *user) {
  attention_rows *rows = user;
  copy_pattern(t, rows->gradients);
  const size_t n = (size_t)t->shape[1] * (size_t)t->shape[2] * (size_t)t->shape[3];
  float *of_layer = rows->gradients + (size_t)t->layer * n;
  for (size_t i = 0; i < n; i++) of_layer[i] = signed_by(rows->p, of_layer[i]);
}

attend_status attend_attribute_attention(attend_attributor *a, const attend_tokens *text,
                                         attend_role role, attend_target *target, float *weights,
                                         float *gradients, double *logit) {
  target_pass p;
  attention_rows rows = {&p, weights, gradients};
  attend_desc d = {ATTEND_INIT(attend_desc)};
  ATTEND_TRY(open_pass(a, text, target, &p));
  ATTEND_CHECK(a->model->ctx, attend_model_attention(a->model, role, 0, &d),
               "%s has no %s attention", a->model->config.family, attend_role_name(role));
  ATTEND_TRY(resolve_target(a, &p.text, target));
  attend_hook hook = {ATTEND_INIT(attend_hook),
                      .points = ATTEND_AT_PATTERN,
                      .roles = 1u << role,
                      .read = read_pattern,
                      .read_gradient = read_pattern_gradient,
                      .user = &rows};
  ATTEND_TRY(run_pass(&p, false, &hook));
  *logit = p.values[0];
  return ATTEND_OK;
}

void attend_attribute_products(int heads, int queries, int keys, const float *weights,
                               float *gradients, float *by_head, float *by_key) {
  for (int h = 0; h < heads; h++) {
    double sum = 0;
    for (int i = 0; i < queries; i++)
      for (int j = 0; j < keys; j++, weights++, gradients++) {
        *gradients *= *weights;
        sum += (double)*gradients;
        by_key[j] += *gradients;
      }
    by_head[h] = (float)sum;
  }
}

/* ---- direct contributions ------------------------------------------------------------------------- */

/* Values of layers' head outputs and mlps are kept until their gradients come. */
typedef struct {
  const target_pass *p;
  attend_role side; /* with the head */
  attend_direct *out;
  attend_trace *values;
  int width; /* heads */
} contributions;

static double dot_tensor(const attend_hooked *v, const attend_hooked *d, int h) {
  double sum = 0;
  for (int i = 0; i < d->shape[2]; i++) {
    const float *x = v->view.data + h * v->view.stride[1] + i * v->view.stride[2];
    const float *y = d->view.data + h * d->view.stride[1] + i * d->view.stride[2];
    for (int j = 0; j < d->shape[3]; j++) sum += (double)x[j] * (double)y[j];
  }
  return sum;
}

static void read_contribution(const attend_hooked *t, void *user) {
  const contributions *c = user;
  attend_trace_read(t, c->values);
}

static void add_contribution(const attend_hooked *d, void *user) {
  const contributions *c = user;
  const bool cross = d->role == ATTEND_CROSS;
  attend_hooked v;
  if (d->role != c->side && !(cross && c->side == ATTEND_DECODER_SELF)) return;
  if (!attend_trace_get(c->values, d->point, d->role, d->layer, &v)) return;
  float *heads = (cross ? c->out->cross : c->out->heads) + d->layer * c->width;
  for (int h = 0; h < d->shape[1]; h++) {
    double sum = c->p->copies ? -dot_tensor(&v, d, h) : dot_tensor(&v, d, h);
    if (d->point == ATTEND_AT_HEAD_OUTPUT) heads[h] = (float)sum;
    if (d->point == ATTEND_AT_MLP) c->out->mlps[d->layer] = (float)sum;
    if (d->point == ATTEND_AT_RESIDUAL && d->layer == 0) c->out->embedding = sum;
    c->out->rest -= d->point != ATTEND_AT_RESIDUAL || d->layer == 0 ? sum : 0;
  }
}

static attend_status contribute(target_pass *p, contributions *c) {
  attend_context *ctx = p->a->model->ctx;
  attend_trace_options o = {ATTEND_INIT(attend_trace_options),
                            .points = ATTEND_AT_HEAD_OUTPUT | ATTEND_AT_MLP | ATTEND_AT_RESIDUAL};
  attend_hook hook = {ATTEND_INIT(attend_hook), .points = o.points, .read = read_contribution,
                      .read_gradient = add_contribution, .user = c};
  ATTEND_TRY(attend_trace_create(ctx, &o, &c->values));
  attend_status status = run_pass(p, true, &hook);
  if (!status) status = attend_trace_status(c->values);
  attend_trace_free(c->values);
  return status;
}

attend_status attend_attribute_direct(attend_attributor *a, const attend_tokens *text,
                                      attend_target *target, attend_direct *direct) {
  const attend_config *config = &a->model->config;
  const bool decodes = config->parts & ATTEND_DECODER;
  const attend_stack *s = decodes ? &config->decoder : &config->encoder;
  const size_t heads = (size_t)s->layers * (size_t)s->heads, mlps = (size_t)s->layers;
  target_pass p;
  attend_direct d;
  float *own;
  ATTEND_TRY(OPTIONS_READ(a->model->ctx, attend_direct, direct, &d));
  ATTEND_TRY(open_pass(a, text, target, &p));
  ATTEND_TRY(resolve_target(a, &p.text, target));
  ATTEND_TRY(
      ctx_alloc_zeroed(a->model->ctx, (2 * heads + mlps) * sizeof *own, "contributions", &own));
  attend_direct sums = {.heads = own, .cross = own + heads, .mlps = own + 2 * heads};
  contributions c = {&p, decodes ? ATTEND_DECODER_SELF : ATTEND_ENCODER_SELF, &sums, NULL,
                     s->heads};
  attend_status status = contribute(&p, &c);
  if (!status) {
    if (d.heads) memcpy(d.heads, sums.heads, heads * sizeof *own);
    if (d.cross) memcpy(d.cross, sums.cross, heads * sizeof *own);
    if (d.mlps) memcpy(d.mlps, sums.mlps, mlps * sizeof *own);
    d.logit = p.values[0];
    d.embedding = sums.embedding;
    d.rest = p.values[0] + sums.rest;
    options_write(&d, sizeof d, direct);
  }
  ctx_free(a->model->ctx, own);
  return status;
}

/* ---- logit lens ------------------------------------------------------------------------------------- */

/* A text's residual streams, and the session that has the head. */
typedef struct {
  attend_model *model;
  attend_role role;
  attend_trace *trace;
  attend_session *session;
  int layers, rows;
} lens;

static void lens_close(lens *l) {
  attend_session_free(l->session);
  attend_trace_free(l->trace);
}

static attend_status lens_record(lens *l, const attend_tokens *x) {
  attend_trace_options o = {ATTEND_INIT(attend_trace_options), .points = ATTEND_AT_RESIDUAL};
  ATTEND_TRY(attend_trace_create(l->model->ctx, &o, &l->trace));
  attend_hook hook = attend_trace_hook(l->trace);
  ATTEND_TRY(tokens_run(l->model->ctx, l->model, x, 1, &hook, &l->session, NULL));
  ATTEND_TRY(attend_session_set_hooks(l->session, 0, NULL));
  return attend_trace_status(l->trace);
}

static attend_status lens_open(attend_model *m, const attend_tokens *text, lens *l) {
  const bool decodes = m->config.parts & ATTEND_DECODER;
  attend_tokens x;
  *l = (lens){.model = m, .role = decodes ? ATTEND_DECODER_SELF : ATTEND_ENCODER_SELF};
  l->layers = decodes ? m->config.decoder.layers : m->config.encoder.layers;
  ATTEND_TRY(tokens_check(m->ctx, m, text, &x));
  l->rows = attend_tokens_rows(m, &x);
  return lens_record(l, &x);
}

/* Logits [rows][V] of the stream before a layer from a position on. */
static attend_status lens_logits(const lens *l, int layer, int position, int rows, float *logits) {
  attend_hooked x;
  if (!attend_trace_get(l->trace, ATTEND_AT_RESIDUAL, l->role, layer, &x))
    return fail(l->model->ctx, ATTEND_INVALID, "the stream before layer %d was not recorded",
                layer);
  const float *row = x.view.data + position * x.view.stride[2];
  return attend_session_head(l->session, rows, row, (int)x.view.stride[2], layer < l->layers,
                             logits);
}

static attend_status lens_rows(const lens *l, int position, float *logits) {
  if (position == -1) position = l->rows - 1;
  ATTEND_CHECK(l->model->ctx, position >= 0 && position < l->rows,
               "position %d: there are %d, 0 to %d", position, l->rows, l->rows - 1);
  for (int layer = 0; layer <= l->layers; layer++)
    ATTEND_TRY(lens_logits(l, layer, position, 1,
                           logits + (size_t)layer * (size_t)l->model->config.vocab));
  return ATTEND_OK;
}

attend_status attend_logit_lens(attend_model *m, const attend_tokens *text, int position,
                                float *logits) {
  lens l;
  attend_status status = lens_open(m, text, &l);
  if (!status) status = lens_rows(&l, position, logits);
  lens_close(&l);
  return status;
}

static void lens_best(int vocab, int top, const float *logits, int32_t *tokens,
                      float *probabilities) {
  const double sum = attend_log_sum_exp(vocab, logits);
  attend_top_k(vocab, logits, top, tokens);
  for (int i = 0; i < top; i++) probabilities[i] = (float)exp((double)logits[tokens[i]] - sum);
}

static attend_status lens_top(const lens *l, int top, float *logits /* [LENS_ROWS][V] */,
                              int32_t *tokens, float *probabilities) {
  const int vocab = l->model->config.vocab;
  ATTEND_CHECK(l->model->ctx, top >= 1 && top <= vocab, "the %d likeliest of %d tokens", top,
               vocab);
  for (int layer = 0; layer <= l->layers; layer++)
    for (int at = 0; at < l->rows; at += LENS_ROWS) {
      const int n = (int)min64(LENS_ROWS, l->rows - at);
      ATTEND_TRY(lens_logits(l, layer, at, n, logits));
      for (int i = 0; i < n; i++) {
        const size_t to = ((size_t)layer * (size_t)l->rows + (size_t)(at + i)) * (size_t)top;
        lens_best(vocab, top, logits + (size_t)i * (size_t)vocab, tokens + to, probabilities + to);
      }
    }
  return ATTEND_OK;
}

attend_status attend_logit_lens_top(attend_model *m, const attend_tokens *text, int top,
                                    int32_t *tokens, float *probabilities) {
  lens l;
  float *logits = NULL;
  attend_status status = lens_open(m, text, &l);
  if (!status)
    status = ctx_alloc(m->ctx, SIZE_PRODUCT(LENS_ROWS, (size_t)m->config.vocab, sizeof *logits),
                       "logits", &logits);
  if (!status) status = lens_top(&l, top, logits, tokens, probabilities);
  ctx_free(m->ctx, logits);
  lens_close(&l);
  return status;
}
