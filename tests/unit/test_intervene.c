/* Interventions: equal to PyTorch hooks on Hugging Face models (golden/make_interventions.py);
 * what is not changed keeps its bits; sweeps are the single interventions they consist of. */
#include "attend/intervene.h"

#include "attend/evaluate.h"
#include "base/base.h"
#include "changed_checkpoints.h"
#include "device/device.h"
#include "intervention_goldens.h"

/* ---- against PyTorch ---------------------------------------------------------------- */

static void run(bench *t, int n, const attend_change *changes) {
  attend_intervention *iv;
  OK(t->s.ctx, attend_intervention_create(t->s.model, n, changes, &iv));
  OK(t->s.ctx, attend_intervene(iv, &t->text, t->before, t->after));
  attend_intervention_free(iv);
}

/* Into t->hidden. */
static void hidden_run(bench *t, int n, const attend_change *changes) {
  attend_intervention *iv;
  OK(t->s.ctx, attend_intervention_create(t->s.model, n, changes, &iv));
  OK(t->s.ctx, attend_intervene_hidden(iv, &t->text, t->hidden[0], t->hidden[1]));
  attend_intervention_free(iv);
}

static void expect(bench *t, const char *name, int n, const attend_change *changes) {
  const size_t count = (size_t)(t->rows * t->vocab);
  run(t, n, changes);
  double off = difference(t->after, tensor_of(t, name)->data, count);
  if (!(off < 1e-4)) printf("%s: %g\n", name, off);
  CHECK(off < 1e-4);
  CHECK(difference(t->before, tensor_of(t, "before")->data, count) < 1e-4);
  t->worst = fmax(t->worst, off);
}

/* A change of layer 1. */
static attend_change at_layer(attend_change_kind kind, attend_point point) {
  return (attend_change){ATTEND_INIT(attend_change), .kind = kind, .point = point, .layer = 1,
                         .layers = 1};
}
static attend_change at_head(attend_change_kind kind, attend_point point, int layer, int head) {
  attend_change c = at_layer(kind, point);
  c.layer = layer, c.head = head, c.heads = 1;
  return c;
}
static attend_change patched(const bench *t, attend_point point, int layer) {
  attend_change c = at_layer(ATTEND_CHANGE_PATCH, point);
  c.layer = layer, c.token = 2, c.tokens = 2, c.from = &t->other, c.n_from = 1;
  return c;
}

static void ablations(bench *t) {
  attend_change c = at_head(ATTEND_CHANGE_ZERO, 0, 1, 2);
  expect(t, "ablate.1.2", 1, &c);
  attend_change two[] = {at_head(ATTEND_CHANGE_ZERO, 0, 0, 0),
                         at_head(ATTEND_CHANGE_ZERO, 0, 2, 3)};
  expect(t, "ablate.0.0,2.3", 2, two);
  c = at_layer(ATTEND_CHANGE_ZERO, 0);
  expect(t, "ablate.attention.1", 1, &c);
  c = at_layer(ATTEND_CHANGE_ZERO, ATTEND_AT_MLP);
  expect(t, "ablate.mlp.1", 1, &c);
  c = at_head(ATTEND_CHANGE_MEAN, 0, 1, 2);
  c.from = t->corpus, c.n_from = 3;
  expect(t, "mean.1.2", 1, &c);
  c = at_layer(ATTEND_CHANGE_MEAN, ATTEND_AT_MLP);
  c.from = t->corpus, c.n_from = 3;
  expect(t, "mean.mlp.1", 1, &c);
  c = at_head(ATTEND_CHANGE_PATCH, 0, 1, 2);
  c.from = &t->other, c.n_from = 1;
  expect(t, "resample.1.2", 1, &c);
}

static void patches(bench *t) {
  attend_change c = patched(t, ATTEND_AT_RESIDUAL, 0);
  char name[64];
  expect(t, "patch.residual.embedding.2-3", 1, &c);
  for (int layer = 0; layer < 3; layer++) {
    c.layer = layer + 1;
    snprintf(name, sizeof name, "patch.residual.%d.2-3", layer);
    expect(t, name, 1, &c);
  }
  c = patched(t, ATTEND_AT_HEAD_OUTPUT, 1);
  expect(t, "patch.head.1.2-3", 1, &c);
  c = patched(t, ATTEND_AT_MLP, 1);
  expect(t, "patch.mlp.1.2-3", 1, &c);
  c = patched(t, ATTEND_AT_PATTERN, 1);
  c.token = c.tokens = 0;
  expect(t, "patch.pattern.1", 1, &c);
}

static void steering(bench *t) {
  static const char *const pins[] = {"uniform", "first", "previous", "self"};
  attend_change c = at_layer(ATTEND_CHANGE_ADD, ATTEND_AT_RESIDUAL);
  c.vector = tensor_of(t, "steer")->data;
  c.factor = 2;
  expect(t, "steer.0", 1, &c);
  for (int pin = ATTEND_PIN_UNIFORM; pin <= ATTEND_PIN_SELF; pin++) {
    char name[64];
    c = at_head(ATTEND_CHANGE_PIN, 0, 1, 2);
    c.pin = (attend_pin)pin;
    snprintf(name, sizeof name, "pin.%s.1.2", pins[pin]);
    expect(t, name, 1, &c);
  }
}

TEST(changes_equal_pytorch_hooks) {
  for (int f = 0; golden[f]; f++) {
    bench t = open_bench(golden[f], NULL);
    ablations(&t);
    patches(&t);
    steering(&t);
    printf("%s: largest difference of a logit %.2g\n", golden[f], t.worst);
    close_bench(&t);
  }
}

/* ---- bits ------------------------------------------------------------------------------ */

TEST(no_changes_change_no_bit) {
  for (int f = 0; golden[f]; f++) {
    bench t = open_bench(golden[f], NULL);
    run(&t, 0, NULL);
    CHECK(!memcmp(t.before, t.after, (size_t)(t.rows * t.vocab) * sizeof(float)));
    close_bench(&t);
  }
}

TEST(patching_everything_gives_the_other_text) {
  for (int f = 0; golden[f]; f++) {
    bench t = open_bench(golden[f], NULL);
    float *other = zeroed_block((size_t)(t.rows * t.vocab), sizeof *other);
    OK(t.s.ctx, attend_tokens_logits(t.s.model, &t.other, other));
    for (int layer = 0; layer <= 3; layer++) {
      attend_change c = patched(&t, ATTEND_AT_RESIDUAL, layer);
      c.token = c.tokens = 0;
      run(&t, 1, &c);
      CHECK(!memcmp(other, t.after, (size_t)(t.rows * t.vocab) * sizeof *other));
      CHECK(memcmp(t.before, t.after, (size_t)(t.rows * t.vocab) * sizeof *other) != 0);
    }
    free(other);
    close_bench(&t);
  }
}

/* A prompt that is cut into calls, and one token at a time. */
TEST(positions_count_over_calls) {
  bench t = open_bench("gpt2", NULL);
  attend_intervention *iv;
  attend_change c = patched(&t, ATTEND_AT_RESIDUAL, 1);
  OK(t.s.ctx, attend_intervention_create(t.s.model, 1, &c, &iv));
  OK(t.s.ctx, attend_intervene(iv, &t.text, t.before, t.after));
  for (int piece = 1; piece < 5; piece += 2) {
    attend_session *s = open_run(&t.s, 1, piece);
    int n;
    const attend_hook *hooks = attend_intervention_hooks(iv, &n);
    float *next = zeroed_block((size_t)t.vocab, sizeof *next);
    OK(t.s.ctx, attend_session_set_hooks(s, n, hooks));
    OK(t.s.ctx, attend_session_extend(s, 1, t.text.n, t.text.ids, NULL));
    OK(t.s.ctx, attend_session_next(s, 1, next));
    CHECK(!memcmp(next, t.after + (t.rows - 1) * t.vocab, (size_t)t.vocab * sizeof *next));
    free(next);
    attend_session_free(s);
  }
  attend_intervention_free(iv);
  close_bench(&t);
}

/* ---- pinned rows -------------------------------------------------------------------------- */

typedef struct {
  float cells[8][8][8]; /* of one layer: [heads][T][S] */
  int keys;
} pattern;

static void keep_pattern(const attend_hooked *t, void *user) {
  pattern *p = user;
  p->keys = t->shape[3];
  for (int h = 0; h < t->shape[1]; h++)
    for (int i = 0; i < t->shape[2]; i++)
      for (int j = 0; j < t->shape[3]; j++)
        p->cells[h][i][j] = t->view.data[h * t->view.stride[1] + i * t->view.stride[2] + j];
}

/* The keys that a uniform row has are those that the model's own row has a weight for. */
static void pin_uniformly(subject *s, attend_in in) {
  enum { N = 7 };
  int32_t *ids = random_ids(s->config, 4, N);
  attend_tokens text = tokens_of(ids, N);
  if (s->config->parts == ATTEND_BOTH) text.decoder_ids = ids, text.n_decoder = N - 2;
  attend_change c = {ATTEND_INIT(attend_change), .kind = ATTEND_CHANGE_PIN, .in = in, .layers = 1};
  attend_intervention *iv;
  pattern *own = zeroed_block(2, sizeof *own), *pinned = own + 1;
  const int layer = 0;
  int n;
  OK(s->ctx, attend_intervention_create(s->model, 1, &c, &iv));
  attend_hook list[3] = {{ATTEND_INIT(attend_hook), .points = ATTEND_AT_PATTERN, .roles = in,
                          .layers = &layer, .n_layers = 1, .read = keep_pattern, .user = own}};
  list[1] = *attend_intervention_hooks(iv, &n);
  list[2] = list[0], list[2].user = pinned;
  attend_session *run = open_run(s, 1, N);
  OK(s->ctx, attend_session_set_hooks(run, 3, list));
  if (s->config->parts & ATTEND_ENCODER)
    OK(s->ctx, attend_session_encode(run, 1, N, ids, NULL, NULL));
  if (s->config->parts & ATTEND_DECODER)
    OK(s->ctx, attend_session_extend(run, 1, text.n_decoder ? text.n_decoder : N, ids, NULL));
  CHECK(own->keys > 0 && own->keys == pinned->keys);
  for (int h = 0; h < 8; h++)
    for (int i = 0; i < 8; i++) {
      int seen = 0;
      for (int j = 0; j < 8; j++) seen += own->cells[h][i][j] > 0;
      for (int j = 0; j < 8; j++)
        CHECK(pinned->cells[h][i][j] == (own->cells[h][i][j] > 0 ? 1 / (float)seen : 0));
    }
  attend_session_free(run);
  attend_intervention_free(iv);
  free(own), free(ids);
}

TEST(pinned_rows_have_the_keys_that_are_visible) {
  static const struct {
    const char *family;
    attend_in in;
  } cases[] = {{"gpt2", ATTEND_IN_DECODER}, {"bert", ATTEND_IN_ENCODER}, {"bart", ATTEND_IN_CROSS},
               {"bart", ATTEND_IN_ENCODER}, {"t5", ATTEND_IN_CROSS},     {"t5", ATTEND_IN_DECODER}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    subject s = open_model(cases[i].family, NULL, 1, NULL);
    pin_uniformly(&s, cases[i].in);
    close_model(&s);
  }
  forgery *f = forge("llama-gqa");
  forge_config(f, "sliding_window", "3");
  forge_write(f);
  forge_free(f);
  subject s = open_path(open_context(NULL, 1, NULL), models_folder(), NULL);
  pin_uniformly(&s, ATTEND_IN_DECODER);
  close_model(&s);
  empty_folder();
}

/* ---- sweeps ---------------------------------------------------------------------------- */

static void check_sweep(bench *t, attend_sweep_options *o, attend_metric_kind kind) {
  int layers, columns;
  double before, value;
  o->metric = (attend_metric){ATTEND_INIT(attend_metric), .kind = kind, .target = {-1, -1, -1}};
  if (t->s.config->parts == ATTEND_ENCODER && kind == ATTEND_METRIC_LOSS)
    o->metric.labels = t->text.ids;
  OK(t->s.ctx, attend_sweep_shape(t->s.model, &t->text, o, &layers, &columns));
  double *map = zeroed_block((size_t)(layers * columns), sizeof *map);
  OK(t->s.ctx, attend_sweep(t->s.model, &t->text, o, map, &before));
  for (int at = 0; at < layers * columns; at += 3) {
    attend_change c = o->change;
    c.layer = at / columns, c.layers = 1;
    if (o->axis == ATTEND_SWEEP_HEADS)
      c.head = at % columns, c.heads = 1;
    else
      c.token = at % columns, c.tokens = 1;
    run(t, 1, &c);
    attend_metric m = o->metric;
    if (kind == ATTEND_METRIC_STATE) {
      hidden_run(t, 1, &c);
      OK(t->s.ctx, attend_metric_of(t->s.model, &m, &t->text, t->hidden[0], t->hidden[1], &value));
      CHECK(value == map[at] && before == 0);
      continue;
    }
    OK(t->s.ctx, attend_target_resolve(t->s.model, t->rows, t->before, &m.target));
    OK(t->s.ctx, attend_metric_of(t->s.model, &m, &t->text, t->before, t->after, &value));
    CHECK(value == map[at]);
    OK(t->s.ctx, attend_metric_of(t->s.model, &m, &t->text, t->before, t->before, &value));
    CHECK(value == before);
  }
  free(map);
}

TEST(sweeps_are_single_changes) {
  for (int f = 0; golden[f]; f++) {
    bench t = open_bench(golden[f], NULL);
    attend_sweep_options o = {ATTEND_INIT(attend_sweep_options), .axis = ATTEND_SWEEP_HEADS};
    o.change = at_layer(ATTEND_CHANGE_ZERO, 0);
    for (int kind = 0; kind <= ATTEND_METRIC_STATE; kind++)
      check_sweep(&t, &o, (attend_metric_kind)kind);
    o.axis = ATTEND_SWEEP_TOKENS;
    o.change = patched(&t, ATTEND_AT_RESIDUAL, 0);
    o.batch = 7;
    for (int kind = 0; kind <= ATTEND_METRIC_STATE; kind++)
      check_sweep(&t, &o, (attend_metric_kind)kind);
    close_bench(&t);
  }
}

static int stop_early(double done, const char *what, void *user) {
  (void)what;
  *(double *)user = done;
  return 1;
}

/* ---- forward passes, counted by the op that looks up the tokens ------------------------- */

static struct attend_device counting;
static const struct attend_device *counted;
static int passes;

static void count_embed(attend_context *ctx, const struct op_embed *op) {
  passes += !op->add; /* positions and types are added */
  counted->embed(ctx, op);
}

/* From here on; the model's contexts take their parent's device. */
static void count_passes(attend_context *ctx) {
  counted = ctx->device;
  counting = *counted;
  counting.embed = count_embed;
  ctx->device = &counting;
  passes = 0;
}

/* A heat map of 6 x 12 heads over 20 tokens: 72 changed texts, in batches. */
TEST(a_sweep_takes_few_passes) {
  enum { LAYERS = 6, HEADS = 12, TOKENS = 20 };
  const attend_architecture small = {ATTEND_INIT(attend_architecture),
                                     .family = "bert",
                                     .layers = LAYERS,
                                     .width = 12 * HEADS,
                                     .heads = HEADS,
                                     .vocab = 100,
                                     .positions = 64};
  attend_context *ctx = open_context(NULL, 2, NULL);
  double map[LAYERS * HEADS], before;
  int layers, columns;
  OK(ctx, attend_config_write(ctx, in_folder("config.json"), &small));
  subject s = {.ctx = ctx};
  OK(ctx, attend_checkpoint_init(ctx, models_folder(), 7, &s.files));
  OK(ctx, attend_model_create(s.files, NULL, &s.model));
  int32_t *ids = random_ids(attend_model_config(s.model), 3, TOKENS);
  const attend_tokens text = tokens_of(ids, TOKENS);
  attend_sweep_options o = {ATTEND_INIT(attend_sweep_options), .axis = ATTEND_SWEEP_HEADS};
  o.change = (attend_change){ATTEND_INIT(attend_change)};
  o.metric = (attend_metric){ATTEND_INIT(attend_metric), .target = {-1, -1, -1}};
  count_passes(ctx);
  OK(ctx, attend_sweep_shape(s.model, &text, &o, &layers, &columns));
  CHECK_EQ(layers, LAYERS);
  CHECK_EQ(columns, HEADS);
  OK(ctx, attend_sweep(s.model, &text, &o, map, &before));
  CHECK(passes > 0 && passes <= 1 + LAYERS * HEADS / 8);
  passes = 0;
  o.batch = 1;
  OK(ctx, attend_sweep(s.model, &text, &o, map, &before));
  CHECK_EQ(passes, 1 + LAYERS * HEADS); /* no more than 80 even one by one */
  ctx->device = counted;
  free(ids);
  close_model(&s);
  remove_folder();
}

TEST(sweeps_stop) {
  bench t = open_bench("gpt2", NULL);
  double done = 0, before, map[3 * 4];
  attend_sweep_options o = {ATTEND_INIT(attend_sweep_options), .batch = 2, .progress = stop_early,
                            .user = &done};
  o.change = (attend_change){ATTEND_INIT(attend_change)};
  o.metric = (attend_metric){ATTEND_INIT(attend_metric), .target = {-1, -1, -1}};
  CHECK(attend_sweep(t.s.model, &t.text, &o, map, &before) == ATTEND_STOPPED);
  CHECK(done > 0 && done < 0.2);
  close_bench(&t);
}

/* ---- vectors ----------------------------------------------------------------------------- */

/* Minus nothing it is what mean ablation puts there; minus the text itself it is zero. */
TEST(steering_vectors_are_differences_of_means) {
  for (int f = 0; golden[f]; f++) {
    bench t = open_bench(golden[f], NULL);
    attend_change c = at_layer(ATTEND_CHANGE_ADD, ATTEND_AT_RESIDUAL);
    int layers, heads, width;
    OK(t.s.ctx, attend_change_shape(t.s.model, &c, &layers, &heads, &width));
    CHECK_EQ(layers, 4);
    CHECK_EQ(heads, 1);
    float *mean = zeroed_block((size_t)width, sizeof *mean);
    float *to = zeroed_block((size_t)width, sizeof *to);
    OK(t.s.ctx, attend_steering_vector(t.s.model, &c, &t.other, NULL, mean));
    OK(t.s.ctx, attend_steering_vector(t.s.model, &c, &t.other, &t.other, to));
    CHECK(difference(to, mean, (size_t)width) > 0);
    for (int j = 0; j < width; j++) CHECK(to[j] == 0);
    c.kind = ATTEND_CHANGE_MEAN, c.from = &t.other, c.n_from = 1;
    run(&t, 1, &c);
    float *one = zeroed_block((size_t)(t.rows * t.vocab), sizeof *one);
    memcpy(one, t.after, (size_t)(t.rows * t.vocab) * sizeof *one);
    attend_change zero_then_add[] = {at_layer(ATTEND_CHANGE_ZERO, ATTEND_AT_RESIDUAL),
                                     at_layer(ATTEND_CHANGE_ADD, ATTEND_AT_RESIDUAL)};
    zero_then_add[1].vector = mean;
    run(&t, 2, zero_then_add);
    CHECK(!memcmp(one, t.after, (size_t)(t.rows * t.vocab) * sizeof *one));
    free(mean), free(to), free(one);
    close_bench(&t);
  }
}

TEST(shapes_of_points) {
  bench t = open_bench("llama-gqa", NULL);
  attend_change c = {ATTEND_INIT(attend_change)};
  int layers, heads, width;
  OK(t.s.ctx, attend_change_shape(t.s.model, &c, &layers, &heads, &width));
  CHECK(layers == t.s.config->decoder.layers && heads == t.s.config->decoder.heads);
  CHECK_EQ(width, t.s.config->decoder.dim_v);
  c.point = ATTEND_AT_KEY;
  OK(t.s.ctx, attend_change_shape(t.s.model, &c, NULL, &heads, &width));
  CHECK(heads == t.s.config->decoder.kv_heads && width == t.s.config->decoder.dim);
  c.point = ATTEND_AT_PATTERN;
  OK(t.s.ctx, attend_change_shape(t.s.model, &c, &layers, NULL, &width));
  CHECK(layers == t.s.config->decoder.layers && width == 0);
  close_bench(&t);
}

/* ---- encoder-decoders ------------------------------------------------------------------------ */

/* Patching the streams of both sides gives the other pair of texts; a pinned row of cross-attention
 * sums to 1. */
static void patch_both_sides(const char *family) {
  subject s = open_model(family, NULL, 2, NULL);
  enum { N = 6, M = 5 };
  const int vocab = s.config->vocab;
  int32_t *ids = random_ids(s.config, 1, 2 * N), *out = random_ids(s.config, 2, 2 * M);
  attend_tokens text[2];
  float *logits[3];
  for (int i = 0; i < 2; i++) {
    text[i] = tokens_of(ids + i * N, N);
    text[i].decoder_ids = out + i * M, text[i].n_decoder = M;
  }
  for (int i = 0; i < 3; i++) logits[i] = zeroed_block((size_t)(M * vocab), sizeof(float));
  OK(s.ctx, attend_tokens_logits(s.model, &text[1], logits[0]));
  attend_change c[] = {
      {ATTEND_INIT(attend_change), .kind = ATTEND_CHANGE_PATCH, .point = ATTEND_AT_RESIDUAL,
       .in = ATTEND_IN_ENCODER, .layers = 1, .from = &text[1], .n_from = 1},
      {ATTEND_INIT(attend_change), .kind = ATTEND_CHANGE_PATCH, .point = ATTEND_AT_RESIDUAL,
       .layers = 1, .from = &text[1], .n_from = 1}};
  attend_intervention *iv;
  OK(s.ctx, attend_intervention_create(s.model, 2, c, &iv));
  OK(s.ctx, attend_intervene(iv, &text[0], logits[1], logits[2]));
  CHECK(same_bits(logits[0], logits[2], (size_t)(M * vocab)));
  CHECK(!same_bits(logits[0], logits[1], (size_t)(M * vocab)));
  attend_intervention_free(iv);
  /* all that the decoder has of the encoder: the values and keys of cross-attention */
  attend_change cross[] = {c[0], c[0], c[1]};
  cross[0].in = cross[1].in = ATTEND_IN_CROSS;
  cross[0].point = ATTEND_AT_KEY, cross[1].point = ATTEND_AT_VALUE;
  cross[0].layers = cross[1].layers = 0;
  OK(s.ctx, attend_intervention_create(s.model, 3, cross, &iv));
  OK(s.ctx, attend_intervene(iv, &text[0], NULL, logits[2]));
  CHECK(same_bits(logits[0], logits[2], (size_t)(M * vocab)));
  attend_intervention_free(iv);
  for (int i = 0; i < 3; i++) free(logits[i]);
  free(ids), free(out);
  close_model(&s);
}

TEST(both_sides_patched_give_the_other_pair) {
  patch_both_sides("bart");
  patch_both_sides("t5");
}

/* ---- generation and evaluation under hooks ------------------------------------------------- */

TEST(generation_and_evaluation_take_hooks) {
  bench t = open_bench("gpt2", NULL);
  attend_intervention *iv;
  attend_change c = patched(&t, ATTEND_AT_RESIDUAL, 3);
  c.token = c.tokens = 0; /* the other text's streams: its next token */
  OK(t.s.ctx, attend_intervention_create(t.s.model, 1, &c, &iv));
  OK(t.s.ctx, attend_tokens_logits(t.s.model, &t.other, t.before));
  int32_t want;
  attend_top_k(t.vocab, t.before + (t.rows - 1) * t.vocab, 1, &want);
  attend_generate_options o = {ATTEND_INIT(attend_generate_options)};
  o.max_new = 1, o.ignore_end = true;
  o.hooks = attend_intervention_hooks(iv, &o.n_hooks);
  attend_generation *g;
  OK(t.s.ctx, attend_generate(t.s.model, 1, &(attend_prompt){t.text.ids, t.text.n}, &o, &g));
  CHECK_EQ(attend_generation_get(g, 0)->ids[0], want);
  attend_generation_free(g);
  attend_evaluate_options e = {ATTEND_INIT(attend_evaluate_options), .hooks = o.hooks,
                               .n_hooks = o.n_hooks};
  attend_evaluation *eval;
  attend_metric m = {ATTEND_INIT(attend_metric), .kind = ATTEND_METRIC_LOSS};
  double loss;
  OK(t.s.ctx, attend_evaluation_create(t.s.model, NULL, &e, &eval));
  OK(t.s.ctx, attend_evaluation_set_ids(eval, t.text.ids, t.text.n));
  OK(t.s.ctx, attend_evaluation_run(eval));
  OK(t.s.ctx, attend_intervene(iv, &t.text, NULL, t.after));
  OK(t.s.ctx, attend_metric_of(t.s.model, &m, &t.text, NULL, t.after, &loss));
  CHECK_NEAR(attend_evaluation_loss(eval) / (t.rows - 1), loss, 1e-5);
  attend_evaluation_free(eval);
  attend_intervention_free(iv);
  close_bench(&t);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static attend_status use_everything(attend_model *model, const attend_tokens *text,
                                    const attend_tokens *other, float *logits) {
  attend_change c[] = {at_head(ATTEND_CHANGE_MEAN, 0, 1, 2), at_head(ATTEND_CHANGE_PIN, 0, 1, 1),
                       at_layer(ATTEND_CHANGE_PATCH, ATTEND_AT_MLP)};
  c[0].from = c[2].from = other;
  c[0].n_from = c[2].n_from = 1;
  attend_intervention *iv;
  attend_status status = attend_intervention_create(model, 3, c, &iv);
  if (!status) status = attend_intervene(iv, text, NULL, logits);
  attend_intervention_free(iv);
  attend_sweep_options o = {ATTEND_INIT(attend_sweep_options), .change = c[0]};
  double map[12], before;
  o.metric = (attend_metric){ATTEND_INIT(attend_metric), .target = {-1, -1, -1}};
  return status ? status : attend_sweep(model, text, &o, map, &before);
}

TEST(no_memory_is_a_status) {
  ledger memory = {0};
  bench t = open_bench("gpt2", NULL);
  attend_context *ctx = open_context("scalar", 1, &memory);
  subject s = open_path(ctx, model_path("gpt2", NULL), NULL);
  OK(ctx, use_everything(s.model, &t.text, &t.other, t.after));
  long before = memory.taken, live = memory.live;
  OK(ctx, use_everything(s.model, &t.text, &t.other, t.after));
  long all = memory.taken - before;
  for (long n = 1; n <= all; n += 1 + all / (light() ? 20 : 200)) {
    memory.fail_at = memory.taken + n;
    attend_status status = use_everything(s.model, &t.text, &t.other, t.after);
    memory.fail_at = 0;
    CHECK_EQ(status, ATTEND_NO_MEMORY);
    CHECK(strstr(attend_message(ctx), "memory"));
    CHECK_EQ(memory.live, live);
  }
  close_model(&s);
  close_bench(&t);
}

/* ---- refusals -------------------------------------------------------------------------- */

static void refused(bench *t, attend_change c, const char *why) {
  attend_intervention *iv;
  attend_status status = attend_intervention_create(t->s.model, 1, &c, &iv);
  if (!status) status = attend_intervene(iv, &t->text, t->before, t->after);
  CHECK(status == ATTEND_INVALID);
  if (!strstr(attend_message(t->s.ctx), why)) printf("%s\n", attend_message(t->s.ctx));
  CHECK(strstr(attend_message(t->s.ctx), why));
  attend_intervention_free(iv);
}

TEST(refusals_name_the_range) {
  bench t = open_bench("gpt2", NULL);
  refused(&t, at_head(ATTEND_CHANGE_ZERO, 0, 3, 0), "layer 3: there are 3, 0 to 2");
  refused(&t, at_head(ATTEND_CHANGE_ZERO, 0, 1, 4), "head 4: there are 4, 0 to 3");
  attend_change c = patched(&t, ATTEND_AT_RESIDUAL, 4);
  refused(&t, c, "layer 4: there are 4, 0 to 3");
  c = patched(&t, ATTEND_AT_RESIDUAL, 3);
  c.token = 10;
  refused(&t, c, "token 10: the text has 10, 0 to 9");
  c.from = NULL;
  refused(&t, c, "give it");
  attend_tokens shorter = tokens_of(t.other.ids, 4);
  c.from = &shorter, c.token = 3;
  refused(&t, c, "token 4 is patched from a text of 4 tokens");
  c = at_layer(ATTEND_CHANGE_MEAN, ATTEND_AT_PATTERN);
  c.from = t.corpus, c.n_from = 3;
  refused(&t, c, "pin them instead");
  c = at_layer(ATTEND_CHANGE_PIN, ATTEND_AT_MLP);
  refused(&t, c, "pinned at the pattern");
  c = at_layer(ATTEND_CHANGE_ZERO, ATTEND_AT_LOGITS);
  refused(&t, c, "choose residual");
  c = at_layer(ATTEND_CHANGE_ZERO, 0);
  c.in = ATTEND_IN_CROSS;
  refused(&t, c, "gpt2 has no cross attention");
  close_bench(&t);
}
