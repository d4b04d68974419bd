/* Interventions: equal to PyTorch hooks on Hugging Face models (golden/make_interventions.py);
 * what is not changed keeps its bits; sweeps are the single interventions they consist of. */
#include "attend/intervene.h"

#include <math.h>

#include "golden_models.h"

static const char *const golden[] = {"gpt2", "llama-gqa", "bert", NULL};

/* ---- against PyTorch ---------------------------------------------------------------- */

typedef struct {
  subject s;
  attend_tensor_file *file;
  attend_tokens text, other, corpus[3];
  int rows, vocab;
  float *before, *after;
  double worst; /* of the goldens compared so far */
} bench;

static const attend_tensor *tensor_of(const bench *t, const char *name) {
  const attend_tensor *x = attend_tensor_file_find(t->file, name);
  if (!x) printf("the goldens have no %s\n", name), exit(1);
  return x;
}

static attend_tokens tokens_of(const int32_t *ids, int n) {
  return (attend_tokens){ATTEND_INIT(attend_tokens), .ids = ids, .n = n};
}

static bench open_bench(const char *family, const char *isa) {
  bench t = {.s = open_model(family, isa, 2, NULL)};
  char path[1024];
  const char *folder = getenv("ATTEND_GOLDEN");
  snprintf(path, sizeof path, "%s/interventions/%s.safetensors", folder ? folder : "tests/golden",
           family);
  OK(t.s.ctx, attend_tensor_file_open(t.s.ctx, path, &t.file));
  const attend_tensor *ids = tensor_of(&t, "ids");
  const int n = (int)ids->count;
  t.text = tokens_of(ids->data, n);
  t.other = tokens_of(tensor_of(&t, "from_ids")->data, n);
  for (int i = 0; i < 3; i++)
    t.corpus[i] = tokens_of((const int32_t *)tensor_of(&t, "corpus")->data + i * n, n);
  t.rows = n;
  t.vocab = t.s.config->vocab;
  t.before = zeroed_block((size_t)(t.rows * t.vocab), sizeof(float));
  t.after = zeroed_block((size_t)(t.rows * t.vocab), sizeof(float));
  return t;
}

static void close_bench(bench *t) {
  free(t->before), free(t->after);
  attend_tensor_file_free(t->file);
  close_model(&t->s);
}

static double difference(const float *a, const float *b, size_t n) {
  double worst = 0;
  for (size_t i = 0; i < n; i++) worst = fmax(worst, fabs((double)a[i] - (double)b[i]));
  return worst;
}

static void run(bench *t, int n, const attend_change *changes) {
  attend_intervention *iv;
  OK(t->s.ctx, attend_intervention_create(t->s.model, n, changes, &iv));
  OK(t->s.ctx, attend_intervene(iv, &t->text, t->before, t->after));
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
    for (int kind = 0; kind <= ATTEND_METRIC_KL; kind++)
      check_sweep(&t, &o, (attend_metric_kind)kind);
    o.axis = ATTEND_SWEEP_TOKENS;
    o.change = patched(&t, ATTEND_AT_RESIDUAL, 0);
    o.batch = 7;
    for (int kind = 0; kind <= ATTEND_METRIC_KL; kind++)
      check_sweep(&t, &o, (attend_metric_kind)kind);
    close_bench(&t);
  }
}

static int stop_early(double done, const char *what, void *user) {
  (void)what;
  *(double *)user = done;
  return 1;
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
  c.token = 9;
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
