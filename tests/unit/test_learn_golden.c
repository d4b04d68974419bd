/* Gradients of whole models against what PyTorch computed through Hugging Face
 * transformers: loss and every grad.* of nine families within 1e-3 of its
 * largest; the same bits for any number of threads, and where layers are computed
 * again. */
#include "attend/problem.h"
#include "golden_batches.h"

/* The golden of a parameter, not transposed. */
static float golden_at(const attend_tensor *t, const attend_trainer_parameter *x, int64_t i) {
  int64_t at = i;
  float value;
  if (x->transposed && x->rank == 2) at = i % x->shape[1] * x->shape[0] + i / x->shape[1];
  memcpy(&value, (const char *)t->data + 4 * at, sizeof value);
  return value;
}

/* Relative to its largest; what is nothing but rounding (a bias of keys changes no
 * softmax) to the largest of all. */
static double compare_gradient(const attend_tensor *t, const attend_trainer_parameter *x,
                               double largest) {
  double max = 1e-3 * largest, gap = 0;
  for (int64_t i = 0; i < x->count; i++) {
    double golden = (double)golden_at(t, x, i);
    max = fmax(max, fabs(golden));
    gap = fmax(gap, fabs(golden - (double)x->gradient[i]));
  }
  return gap / max;
}

static double largest_of(const attend_trainer *l) {
  size_t count;
  double max = 0;
  attend_trainer_values(l, &count);
  for (size_t i = 0; i < count; i++) max = fmax(max, fabs((double)attend_trainer_gradients(l)[i]));
  return max;
}

static int check_gradients(const char *name, const attend_trainer *l,
                           const attend_tensor_file *file) {
  attend_trainer_parameter x;
  int compared = 0;
  double worst = 0;
  for (size_t i = 0; attend_trainer_get(l, i, &x); i++) {
    char key[300];
    snprintf(key, sizeof key, "grad.%s", x.name);
    const attend_tensor *t = attend_tensor_file_find(file, key);
    if (!t) continue;
    CHECK(t->count == x.count);
    double error = compare_gradient(t, &x, largest_of(l));
    if (error > 1e-3) printf("%s %s: %g\n", name, x.name, error);
    CHECK(error <= 1e-3);
    worst = fmax(worst, error);
    compared++;
  }
  printf("%s: %d gradients, worst %.1e of the largest\n", name, compared, worst);
  return compared;
}

static int golden_gradients(const attend_tensor_file *file) {
  int n = 0;
  for (size_t i = 0; i < attend_tensor_file_count(file); i++)
    n += !strncmp(attend_tensor_file_get(file, i)->name, "grad.", 5);
  return n;
}

TEST(gradients_are_those_of_pytorch) {
  for (int f = 0; families[f]; f++) {
    attend_context *ctx = open_context(NULL, 2, NULL);
    attend_checkpoint *files;
    attend_tensor_file *file;
    attend_batch_loss got;
    attend_trainer *l = open_trainer(ctx, families[f], NULL, &files);
    OK(ctx, attend_tensor_file_open(ctx, model_path(families[f], "golden.safetensors"), &file));
    golden_batch golden = read_golden(file, attend_trainer_config(l));
    attend_batch batch = batch_of(&golden);
    OK(ctx, attend_trainer_accumulate(l, &batch, &got));
    float loss;
    memcpy(&loss, attend_tensor_file_find(file, "loss")->data, sizeof loss);
    CHECK(fabs(got.loss / got.scored - (double)loss) < 1e-5 * (double)loss);
    CHECK(check_gradients(families[f], l, file) == golden_gradients(file));
    free_golden(&golden);
    attend_tensor_file_free(file);
    attend_trainer_free(l);
    attend_checkpoint_free(files);
    attend_context_free(ctx);
  }
}

/* Everything that a batch leaves, for other threads and ways. */
static float *gradients_by(const char *name, int threads, const attend_trainer_options *o,
                           size_t *count, double *loss) {
  attend_context *ctx = open_context(NULL, threads, NULL);
  attend_checkpoint *files;
  attend_tensor_file *file;
  attend_batch_loss got;
  attend_trainer *l = open_trainer(ctx, name, o, &files);
  OK(ctx, attend_tensor_file_open(ctx, model_path(name, "golden.safetensors"), &file));
  golden_batch golden = read_golden(file, attend_trainer_config(l));
  attend_batch batch = batch_of(&golden);
  batch.step = 7;
  OK(ctx, attend_trainer_accumulate(l, &batch, &got));
  attend_trainer_values(l, count);
  float *copy = zeroed_block(*count, sizeof *copy);
  memcpy(copy, attend_trainer_gradients(l), *count * sizeof *copy);
  *loss = got.loss;
  free_golden(&golden);
  attend_tensor_file_free(file);
  attend_trainer_free(l);
  attend_checkpoint_free(files);
  attend_context_free(ctx);
  return copy;
}

TEST(threads_and_recomputing_change_no_bit) {
  for (int f = 0; families[f]; f++) {
    attend_trainer_options plain = {ATTEND_INIT(attend_trainer_options), .dropout = 0.1f,
                                    .seed = 3},
                           again = plain;
    size_t count, n;
    double loss, other;
    again.recompute = 1;
    float *first = gradients_by(families[f], 1, &plain, &count, &loss);
    for (int threads = 1; threads <= 5; threads += 2)
      for (int k = 0; k < 2; k++) {
        float *more = gradients_by(families[f], threads, k ? &again : &plain, &n, &other);
        CHECK(n == count && loss == other);
        CHECK(!memcmp(first, more, count * sizeof *first));
        free(more);
      }
    free(first);
  }
}

/* ---- along the gradient, the loss rises as it says ------------------------------- */

static double loss_at(attend_context *ctx, attend_trainer *l, attend_batch batch,
                      const float *values, const float *along, size_t n, double by) {
  attend_batch_loss got;
  float *to = attend_trainer_values(l, NULL);
  for (size_t i = 0; i < n; i++) to[i] = (float)((double)values[i] + by * (double)along[i]);
  batch.no_grad = 1;
  OK(ctx, attend_trainer_refresh(l));
  OK(ctx, attend_trainer_accumulate(l, &batch, &got));
  return got.loss / got.scored;
}

static void check_slope(attend_context *ctx, const char *name, const char *form_name) {
  attend_form form;
  attend_checkpoint *files;
  attend_tensor_file *file;
  attend_batch_loss got;
  size_t n;
  OK(ctx, attend_form_parse(ctx, form_name, &form));
  attend_trainer_options o = {ATTEND_INIT(attend_trainer_options), .form = &form};
  attend_trainer *l = open_trainer(ctx, name, &o, &files);
  OK(ctx, attend_tensor_file_open(ctx, model_path(name, "golden.safetensors"), &file));
  golden_batch golden = read_golden(file, attend_trainer_config(l));
  attend_batch batch = batch_of(&golden);
  batch.smoothing = 0.1f;
  OK(ctx, attend_trainer_accumulate(l, &batch, &got));
  float *values = attend_trainer_values(l, &n);
  float *start = zeroed_block(n, sizeof *start), *g = zeroed_block(n, sizeof *g);
  double squares = 0;
  memcpy(start, values, n * sizeof *start);
  memcpy(g, attend_trainer_gradients(l), n * sizeof *g);
  for (size_t i = 0; i < n; i++) squares += (double)g[i] * (double)g[i];
  double by = 2e-3 / squares; /* the loss should change by 2e-3 each way */
  double slope =
      (loss_at(ctx, l, batch, start, g, n, by) - loss_at(ctx, l, batch, start, g, n, -by)) /
      (2 * by);
  if (fabs(slope / squares - 1) > 0.02)
    printf("%s, %s: slope %g of %g\n", name, form_name, slope, squares);
  CHECK(fabs(slope / squares - 1) < 0.02);
  free(start);
  free(g);
  free_golden(&golden);
  attend_tensor_file_free(file);
  attend_trainer_free(l);
  attend_checkpoint_free(files);
}

TEST(every_form_has_its_gradient) {
  static const char *const forms[] = {
      "softmax", "elu", "favor(m=64)", "poly(p=2)", "gaussian", "gaussian(m=64)", NULL};
  for (int f = 0; families[f]; f++)
    for (int i = 0; forms[i]; i++) {
      attend_context *ctx = open_context(NULL, 2, NULL);
      check_slope(ctx, families[f], forms[i]);
      attend_context_free(ctx);
    }
}

static attend_trainer_parameter parameter_called(const attend_trainer *l, const char *end) {
  attend_trainer_parameter x;
  for (size_t i = 0; attend_trainer_get(l, i, &x); i++) {
    const size_t n = strlen(x.name), m = strlen(end);
    if (n >= m && !strcmp(x.name + n - m, end)) return x;
  }
  CHECK_FAIL("no parameter ends in %s", end);
  return (attend_trainer_parameter){0};
}

/* A gradient at one element of a matrix is that of one head's slice and of no other's. */
static void check_slice(const char *model, const char *name, int row, int column, int head,
                        size_t member) {
  attend_checkpoint *files;
  attend_context *ctx = open_context(NULL, 1, NULL);
  attend_trainer *l = open_trainer(ctx, model, NULL, &files);
  const attend_config *c = attend_trainer_config(l);
  const attend_role role =
      attend_config_parts(c) == ATTEND_DECODER ? ATTEND_DECODER_SELF : ATTEND_ENCODER_SELF;
  const attend_stack *s = attend_config_stack(c, attend_config_parts(c));
  attend_trainer_zero_grad(l);
  attend_trainer_parameter x = parameter_called(l, name);
  if (x.gradient) x.gradient[(int64_t)row * x.shape[1] + column] = -3;
  for (int h = 0; h < s->heads; h++) {
    attend_head_gradient g;
    OK(ctx, attend_trainer_head_gradient(l, role, 0, h, &g));
    const double all[] = {g.q, g.k, g.v, g.o};
    const bool shares = member == 1 || member == 2;
    const bool mine = shares ? h * s->kv_heads / s->heads == head : h == head;
    for (size_t i = 0; i < 4; i++) CHECK(all[i] == (mine && i == member ? 3 : 0));
  }
  attend_head_gradient g;
  CHECK_EQ(attend_trainer_head_gradient(l, role, 0, s->heads, &g), ATTEND_INVALID);
  CHECK_SAYS(attend_message(ctx), "no head");
  attend_trainer_free(l);
  attend_checkpoint_free(files);
  attend_context_free(ctx);
}

TEST(a_heads_slices_are_its_own) {
  attend_context *ctx = open_context(NULL, 1, NULL);
  attend_checkpoint *files;
  attend_trainer *l = open_trainer(ctx, "gpt2", NULL, &files);
  const attend_stack s = *attend_config_stack(attend_trainer_config(l), ATTEND_DECODER);
  attend_trainer_free(l);
  attend_checkpoint_free(files);
  attend_context_free(ctx);
  const int F = s.heads * s.dim;
  check_slice("gpt2", "0.attn.c_attn.weight", s.dim + 1, 2, 1, 0);
  check_slice("gpt2", "0.attn.c_attn.weight", F + s.dim, 2, 1, 1);
  check_slice("gpt2", "0.attn.c_attn.weight", 3 * F - 1, 2, s.heads - 1, 2);
  check_slice("gpt2", "0.attn.c_proj.weight", 3, s.dim, 1, 3);
  check_slice("bert", "layer.0.attention.self.key.weight", 0, 5, 0, 1);
  check_slice("bert", "layer.0.attention.output.dense.weight", 7, 0, 0, 3);
  check_slice("llama-gqa", "layers.0.self_attn.v_proj.weight", 0, 1, 0, 2);
}
