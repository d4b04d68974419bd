/* Hooks: reading changes no bit, in prompts, decoding and training; edits do what the
 * equations say they do; gradients through edits are slopes of the loss. */
#include <math.h>

#include "attend/problem.h"
#include "golden_batches.h"
#include "model/config.h"

static const unsigned EVERYWHERE = (1u << ATTEND_POINTS) - 1;

/* ---- reading --------------------------------------------------------------------- */

static void count(const attend_hooked *x, void *user) {
  int *seen = user;
  seen[0]++;
  CHECK(x->view.data);
  CHECK(x->shape[0] > 0 && x->shape[3] > 0);
}

/* Logits of every place of a prompt, then of tokens one by one. */
static float *logits_with(const subject *s, int n_hooks, const attend_hook *hooks, int *n) {
  enum { PROMPT = 7, MORE = 4 };
  attend_session *run = open_run(s, 1, 5); /* the prompt is cut */
  int32_t *ids = random_ids(s->config, 5, PROMPT + MORE);
  const size_t vocab = (size_t)s->config->vocab;
  float *logits = zeroed_block((MORE + 1) * vocab, sizeof *logits);
  OK(s->ctx, attend_session_set_hooks(run, n_hooks, hooks));
  if (s->config->parts & ATTEND_ENCODER)
    OK(s->ctx, attend_session_encode(run, 1, PROMPT, ids, NULL, NULL));
  *n = 0;
  if (!(s->config->parts & ATTEND_DECODER)) {
    OK(s->ctx, attend_session_logits(run, 1, NULL, logits));
    *n = 1;
  } else {
    OK(s->ctx, attend_session_extend(run, 1, PROMPT, ids, NULL));
    for (; *n <= MORE; ++*n) {
      if (*n) OK(s->ctx, attend_session_extend(run, 1, 1, ids + PROMPT + *n - 1, NULL));
      OK(s->ctx, attend_session_next(run, 1, logits + (size_t)*n * vocab));
    }
  }
  free(ids);
  attend_session_free(run);
  return logits;
}

TEST(reading_changes_no_bit) {
  for (int f = 0; families[f]; f++) {
    subject s = open_model(families[f], NULL, 2, NULL);
    int seen[1] = {0}, n;
    attend_hook all = {ATTEND_INIT(attend_hook), .points = EVERYWHERE, .read = count, .user = seen};
    float *plain = logits_with(&s, 0, NULL, &n);
    float *read = logits_with(&s, 1, &all, &n);
    CHECK(!memcmp(plain, read, (size_t)(n * s.config->vocab) * sizeof *plain));
    CHECK(seen[0] > 10);
    free(plain), free(read);
    close_model(&s);
  }
}

/* ---- edits ------------------------------------------------------------------------- */

typedef struct {
  float factor, add;
  int calls;
} change;

static void edit(const attend_hooked *x, float *data, void *user) {
  change *c = user;
  const ptrdiff_t *by = x->view.stride;
  c->calls++;
  for (int b = 0; b < x->shape[0]; b++)
    for (int h = 0; h < x->shape[1]; h++)
      for (int i = 0; i < x->shape[2]; i++)
        for (int j = 0; j < x->shape[3]; j++) {
          float *at = data + b * by[0] + h * by[1] + i * by[2] + j * by[3];
          *at = *at * c->factor + c->add;
        }
}

static void edit_backward(const attend_hooked *x, float *gradient, void *user) {
  change c = {.factor = ((change *)user)->factor};
  edit(x, gradient, &c);
}

typedef struct {
  float *data; /* [H][T][W] of the first sequence */
  int shape[4];
} kept_tensor;

static void keep(const attend_hooked *x, void *user) {
  kept_tensor *k = user;
  const ptrdiff_t *by = x->view.stride;
  const size_t W = (size_t)x->shape[3], rows = (size_t)x->shape[2];
  free(k->data);
  memcpy(k->shape, x->shape, sizeof k->shape);
  k->data = zeroed_block((size_t)x->shape[1] * rows * W, sizeof *k->data);
  for (int h = 0; h < x->shape[1]; h++)
    for (int i = 0; i < x->shape[2]; i++)
      for (int j = 0; j < x->shape[3]; j++)
        k->data[((size_t)h * rows + (size_t)i) * W + (size_t)j] =
            x->view.data[h * by[1] + i * by[2] + j * by[3]];
}

/* A prompt of 6 tokens, or its first 4 and two by themselves. */
static void run_text(const subject *s, bool by_token, int n, const attend_hook *hooks) {
  attend_session *run = open_run(s, 1, 8);
  int32_t *ids = random_ids(s->config, 9, 6);
  OK(s->ctx, attend_session_set_hooks(run, n, hooks));
  OK(s->ctx, attend_session_extend(run, 1, by_token ? 4 : 6, ids, NULL));
  for (int i = 4; by_token && i < 6; i++)
    OK(s->ctx, attend_session_extend(run, 1, 1, ids + i, NULL));
  free(ids);
  attend_session_free(run);
}

TEST(equal_scores_are_a_mean) {
  int layer = 1;
  subject s = open_model("gpt2", NULL, 2, NULL);
  for (int by_token = 0; by_token < 2; by_token++) {
    change zero = {0};
    kept_tensor rows = {0};
    attend_hook hooks[] = {{ATTEND_INIT(attend_hook), .points = ATTEND_AT_QUERY, .layers = &layer,
                            .n_layers = 1, .edit = edit, .user = &zero},
                           {ATTEND_INIT(attend_hook), .points = ATTEND_AT_PATTERN, .layers = &layer,
                            .n_layers = 1, .read = keep, .user = &rows}};
    run_text(&s, by_token, 2, hooks);
    CHECK_EQ(zero.calls, by_token ? 3 : 1);
    CHECK_EQ(rows.shape[3], 6);
    int last = rows.shape[2] - 1;
    for (int j = 0; j < 6; j++) CHECK_NEAR((double)rows.data[last * 6 + j], 1.0 / 6, 1e-6);
    free(rows.data);
  }
  close_model(&s);
}

/* Attention to the first token alone gives its value. */
static void first_only(const attend_hooked *x, float *data, void *user) {
  change all = {0};
  const ptrdiff_t *by = x->view.stride;
  edit(x, data, &all);
  for (int b = 0; b < x->shape[0]; b++)
    for (int h = 0; h < x->shape[1]; h++)
      for (int i = 0; i < x->shape[2]; i++) data[b * by[0] + h * by[1] + i * by[2]] = 1;
  ++*(int *)user;
}

static void keep_first(const attend_hooked *x, void *user) {
  kept_tensor *k = user;
  if (!k->data) keep(x, user); /* of the call that has token 0 */
}

static void check_first_only(const subject *s, bool by_token) {
  int calls = 0, layer = 0;
  kept_tensor values = {0}, heads = {0};
  attend_hook hooks[] = {
      {ATTEND_INIT(attend_hook), .points = ATTEND_AT_VALUE, .layers = &layer, .n_layers = 1,
       .read = keep_first, .user = &values},
      {ATTEND_INIT(attend_hook), .points = ATTEND_AT_PATTERN, .edit = first_only, .user = &calls},
      {ATTEND_INIT(attend_hook), .points = ATTEND_AT_HEAD_OUTPUT, .layers = &layer, .n_layers = 1,
       .read = keep, .user = &heads}};
  run_text(s, by_token, 3, hooks);
  CHECK(calls > 0);
  int group = heads.shape[1] / values.shape[1], M = heads.shape[3];
  for (int h = 0; h < heads.shape[1]; h++)
    for (int i = 0; i < heads.shape[2]; i++)
      for (int j = 0; j < M; j++)
        CHECK_EQ(heads.data[(h * heads.shape[2] + i) * M + j],
                 values.data[h / group * values.shape[2] * M + j]);
  free(values.data), free(heads.data);
}

TEST(rows_that_are_edited_weigh_the_values) {
  static const char *const forms[] = {"softmax", "elu", NULL};
  for (int i = 0; forms[i]; i++)
    for (int by_token = 0; by_token < 2; by_token++) {
      attend_form form;
      attend_context *ctx = open_context(NULL, 2, NULL);
      OK(ctx, attend_form_parse(ctx, forms[i], &form));
      attend_model_options o = {ATTEND_INIT(attend_model_options), .form = &form};
      subject s = open_path(ctx, model_path("llama-gqa", NULL), &o);
      check_first_only(&s, by_token);
      close_model(&s);
    }
}

TEST(a_denominator_twice_as_large_halves_the_heads) {
  subject s = open_model("gpt2", NULL, 2, NULL);
  int layer = 0;
  change twice = {.factor = 1, .add = logf(2)};
  kept_tensor before = {0}, after = {0};
  attend_hook hooks[] = {{ATTEND_INIT(attend_hook), .points = ATTEND_AT_DENOMINATOR,
                          .layers = &layer, .n_layers = 1, .edit = edit, .user = &twice},
                         {ATTEND_INIT(attend_hook), .points = ATTEND_AT_HEAD_OUTPUT,
                          .layers = &layer, .n_layers = 1, .read = keep, .user = &after}};
  run_text(&s, false, 2, hooks);
  hooks[1].user = &before;
  run_text(&s, false, 1, hooks + 1);
  int n = after.shape[1] * after.shape[2] * after.shape[3];
  for (int i = 0; i < n; i++) CHECK_NEAR((double)after.data[i], (double)before.data[i] / 2, 1e-6);
  free(before.data), free(after.data);
  close_model(&s);
}

/* Without its mlp a layer gives what attention left in the stream. */
TEST(an_mlp_that_adds_nothing) {
  subject s = open_model("llama-gqa", NULL, 2, NULL);
  int layer = 0, next = 1;
  change none = {0};
  kept_tensor middle = {0}, out = {0};
  attend_hook hooks[] = {{ATTEND_INIT(attend_hook), .points = ATTEND_AT_MLP, .layers = &layer,
                          .n_layers = 1, .edit = edit, .user = &none},
                         {ATTEND_INIT(attend_hook), .points = ATTEND_AT_RESIDUAL_MIDDLE,
                          .layers = &layer, .n_layers = 1, .read = keep, .user = &middle},
                         {ATTEND_INIT(attend_hook), .points = ATTEND_AT_RESIDUAL, .layers = &next,
                          .n_layers = 1, .read = keep, .user = &out}};
  run_text(&s, true, 3, hooks);
  CHECK_EQ(none.calls, 3);
  CHECK(!memcmp(middle.data, out.data, (size_t)(out.shape[2] * out.shape[3]) * sizeof *out.data));
  free(middle.data), free(out.data);
  close_model(&s);
}

/* An edit is the same in a prompt and token by token: caches hold what it wrote. */
TEST(edits_do_not_depend_on_how_a_text_is_cut) {
  for (int f = 0; decoders[f]; f++) {
    subject s = open_model(decoders[f], NULL, 2, NULL);
    size_t vocab = (size_t)s.config->vocab;
    change c = {.factor = 0.75f, .add = 0.1f};
    attend_hook hook = {ATTEND_INIT(attend_hook),
                        .points = ATTEND_AT_RESIDUAL | ATTEND_AT_QUERY | ATTEND_AT_KEY |
                                  ATTEND_AT_VALUE | ATTEND_AT_HEAD_OUTPUT |
                                  ATTEND_AT_RESIDUAL_MIDDLE | ATTEND_AT_MLP | ATTEND_AT_LOGITS,
                        .edit = edit, .user = &c};
    float *got[3];
    for (int way = 0; way < 3; way++) {
      attend_session *run = open_run(&s, 1, way == 2 ? 3 : 8);
      int32_t *ids = random_ids(s.config, 9, 8);
      got[way] = zeroed_block(vocab, sizeof **got);
      OK(s.ctx, attend_session_set_hooks(run, 1, &hook));
      if (s.config->parts & ATTEND_ENCODER)
        OK(s.ctx, attend_session_encode(run, 1, 8, ids, NULL, NULL));
      for (int i = 0; i < 8; i += way == 1 ? 1 : 8)
        OK(s.ctx, attend_session_extend(run, 1, way == 1 ? 1 : 8, ids + i, NULL));
      OK(s.ctx, attend_session_next(run, 1, got[way]));
      free(ids);
      attend_session_free(run);
    }
    CHECK(!memcmp(got[0], got[1], vocab * sizeof **got));
    CHECK(!memcmp(got[0], got[2], vocab * sizeof **got));
    for (int way = 0; way < 3; way++) free(got[way]);
    close_model(&s);
  }
}

TEST(hooks_that_cannot_be) {
  subject s = open_model("gpt2", NULL, 1, NULL);
  attend_session *run = open_run(&s, 1, 8);
  change c = {0};
  attend_hook none = {ATTEND_INIT(attend_hook), .points = ATTEND_AT_QUERY};
  attend_hook nowhere = {ATTEND_INIT(attend_hook), .read = count};
  attend_hook entropy = {ATTEND_INIT(attend_hook), .points = ATTEND_AT_ENTROPY, .edit = edit,
                         .user = &c};
  attend_hook beyond = {ATTEND_INIT(attend_hook), .points = 1u << ATTEND_POINTS, .read = count};
  CHECK_EQ(attend_session_set_hooks(run, 1, &none), ATTEND_INVALID);
  CHECK_SAYS(attend_session_message(run), "neither reads nor edits");
  CHECK_EQ(attend_session_set_hooks(run, 1, &nowhere), ATTEND_INVALID);
  CHECK_EQ(attend_session_set_hooks(run, 1, &beyond), ATTEND_INVALID);
  CHECK_EQ(attend_session_set_hooks(run, 1, &entropy), ATTEND_INVALID);
  CHECK_SAYS(attend_session_message(run), "pattern");
  CHECK_EQ(attend_session_set_hooks(run, 1, NULL), ATTEND_INVALID);
  attend_session_free(run);
  close_model(&s);
}

/* ---- training ------------------------------------------------------------------------ */

typedef struct {
  attend_context *ctx;
  attend_checkpoint *files;
  attend_tensor_file *golden;
  attend_trainer *trainer;
  golden_batch given;
  attend_batch batch;
  size_t n;
} class;

static class open_class(const char *name, const attend_trainer_options *o) {
  class c = {.ctx = open_context(NULL, 2, NULL)};
  OK(c.ctx, attend_checkpoint_open(c.ctx, model_path(name, NULL), &c.files));
  OK(c.ctx, attend_trainer_create(c.files, o, &c.trainer));
  OK(c.ctx, attend_tensor_file_open(c.ctx, model_path(name, "golden.safetensors"), &c.golden));
  c.given = read_golden(c.golden, attend_trainer_config(c.trainer));
  c.batch = batch_of(&c.given);
  attend_trainer_values(c.trainer, &c.n);
  return c;
}

static void close_class(class *c) {
  free_golden(&c->given);
  attend_tensor_file_free(c->golden);
  attend_trainer_free(c->trainer);
  attend_checkpoint_free(c->files);
  attend_context_free(c->ctx);
}

static float *gradients_of(class *c, double *loss) {
  attend_batch_loss got;
  float *g = zeroed_block(c->n, sizeof *g);
  attend_trainer_zero_grad(c->trainer);
  OK(c->ctx, attend_trainer_accumulate(c->trainer, &c->batch, &got));
  memcpy(g, attend_trainer_gradients(c->trainer), c->n * sizeof *g);
  *loss = got.loss / got.scored;
  return g;
}

TEST(reading_changes_no_gradient) {
  for (int f = 0; families[f]; f++)
    for (int recompute = 0; recompute < 2; recompute++) {
      attend_trainer_options o = {ATTEND_INIT(attend_trainer_options), .recompute = recompute};
      class c = open_class(families[f], &o);
      int seen[1] = {0};
      double a, b;
      attend_hook hook = {ATTEND_INIT(attend_hook), .points = EVERYWHERE, .read = count,
                          .user = seen};
      float *plain = gradients_of(&c, &a);
      OK(c.ctx, attend_trainer_set_hooks(c.trainer, 1, &hook));
      float *read = gradients_of(&c, &b);
      CHECK(a == b && !memcmp(plain, read, c.n * sizeof *plain));
      CHECK(seen[0] > 10);
      free(plain), free(read);
      close_class(&c);
    }
}

static double loss_along(class *c, const float *start, const float *g, double by) {
  attend_batch_loss got;
  attend_batch no_grad = c->batch;
  float *to = attend_trainer_values(c->trainer, NULL);
  no_grad.no_grad = 1;
  for (size_t i = 0; i < c->n; i++) to[i] = (float)((double)start[i] + by * (double)g[i]);
  OK(c->ctx, attend_trainer_refresh(c->trainer));
  OK(c->ctx, attend_trainer_accumulate(c->trainer, &no_grad, &got));
  return got.loss / got.scored;
}

/* The gradient is the slope of the loss, with the edit made. */
static void check_slope(const char *name, attend_point point, change how) {
  class c = open_class(name, NULL);
  attend_hook hook = {ATTEND_INIT(attend_hook), .points = point, .edit = edit,
                      .edit_gradient = edit_backward, .user = &how};
  double plain, loss, squares = 0;
  free(gradients_of(&c, &plain));
  OK(c.ctx, attend_trainer_set_hooks(c.trainer, 1, &hook));
  float *g = gradients_of(&c, &loss);
  float *start = zeroed_block(c.n, sizeof *start);
  memcpy(start, attend_trainer_values(c.trainer, NULL), c.n * sizeof *start);
  for (size_t i = 0; i < c.n; i++) squares += (double)g[i] * (double)g[i];
  double by = 1e-3 / squares;
  double slope = (loss_along(&c, start, g, by) - loss_along(&c, start, g, -by)) / (2 * by);
  if (!(fabs(slope / squares - 1) < 0.01))
    CHECK_FAIL("%s, %s: slope %g, gradient %g", name, attend_point_name(point), slope, squares);
  CHECK(fabs(loss - plain) > 1e-5);
  free(g), free(start);
  close_class(&c);
}

TEST(gradients_through_edits_are_slopes) {
  static const char *const some[] = {"gpt2", "llama-gqa", "bert", "bart", NULL};
  for (int f = 0; some[f]; f++)
    for (int i = 0; i < ATTEND_POINTS; i++) {
      attend_point point = (attend_point)(1u << i);
      change how = {.factor = 0.5f, .add = 0};
      if (point == ATTEND_AT_ENTROPY) continue;
      if (point == ATTEND_AT_DENOMINATOR) how = (change){.factor = 1, .add = 0.3f};
      check_slope(some[f], point, how);
    }
}

/* Layers that are computed again are edited again, and only once. */
TEST(recomputing_changes_no_bit_of_edits) {
  static const char *const some[] = {"gpt2", "bert", "bart", NULL};
  for (int f = 0; some[f]; f++) {
    float *g[2];
    double loss[2];
    size_t n = 0;
    for (int recompute = 0; recompute < 2; recompute++) {
      attend_trainer_options o = {ATTEND_INIT(attend_trainer_options), .recompute = recompute};
      class c = open_class(some[f], &o);
      change how = {.factor = 0.9f, .add = 0.05f};
      attend_hook hook = {
          ATTEND_INIT(attend_hook),
          .points = EVERYWHERE & ~(unsigned)(ATTEND_AT_ENTROPY | ATTEND_AT_DENOMINATOR),
          .edit = edit, .edit_gradient = edit_backward, .user = &how};
      OK(c.ctx, attend_trainer_set_hooks(c.trainer, 1, &hook));
      g[recompute] = gradients_of(&c, &loss[recompute]);
      n = c.n;
      close_class(&c);
    }
    CHECK(loss[0] == loss[1] && !memcmp(g[0], g[1], n * sizeof *g[0]));
    free(g[0]), free(g[1]);
  }
}

/* A head that is ablated is a head whose columns of the output matrix are 0. */
static void ablate(const attend_hooked *x, float *data, void *user) {
  const int head = *(int *)user;
  const ptrdiff_t *by = x->view.stride;
  for (int b = 0; b < x->shape[0]; b++)
    for (int i = 0; i < x->shape[2]; i++)
      memset(data + b * by[0] + head * by[1] + i * by[2], 0, (size_t)x->shape[3] * sizeof *data);
}

TEST(ablating_a_head_is_zeroing_its_columns) {
  int layer = 1, head = 2;
  class a = open_class("llama-gqa", NULL), b = open_class("llama-gqa", NULL);
  attend_hook hook = {
      ATTEND_INIT(attend_hook), .points = ATTEND_AT_HEAD_OUTPUT, .layers = &layer, .n_layers = 1,
      .edit = ablate,           .edit_gradient = ablate,         .user = &head};
  attend_trainer_parameter x;
  double loss[2];
  const int dim = attend_trainer_config(b.trainer)->decoder.dim_v;
  OK(a.ctx, attend_trainer_set_hooks(a.trainer, 1, &hook));
  for (size_t i = 0; attend_trainer_get(b.trainer, i, &x); i++)
    for (int64_t r = 0; strstr(x.name, "layers.1.self_attn.o_proj") && r < x.shape[0]; r++)
      memset(x.value + r * x.shape[1] + head * dim, 0, (size_t)dim * sizeof *x.value);
  OK(b.ctx, attend_trainer_refresh(b.trainer));
  float *ga = gradients_of(&a, &loss[0]), *gb = gradients_of(&b, &loss[1]);
  CHECK(loss[0] == loss[1]);
  const float *all = attend_trainer_values(b.trainer, NULL);
  for (size_t i = 0; attend_trainer_get(b.trainer, i, &x); i++) {
    size_t at = (size_t)(x.value - all);
    if (strstr(x.name, "layers.1.self_attn.o_proj")) continue;
    if (memcmp(ga + at, gb + at, (size_t)x.count * sizeof *ga))
      CHECK_FAIL("%s has another gradient", x.name);
  }
  free(ga), free(gb);
  close_class(&a), close_class(&b);
}
