/* Encoders and decoders of different sizes: config.json says them and is refused
 * where they cannot be; an encoder twice as wide that holds BART's twice over
 * gives what Hugging Face transformers computed with it; gradients are what
 * differences of the loss say; such a model learns, is saved, and decodes as it
 * reads. */
#include "unequal_sides.h"

/* ---- config.json ------------------------------------------------------------------- */

TEST(both_sides_are_read_backward) {
  for (int i = 0; i < 4; i++) {
    attend_architecture a = sides(both[i / 2], i % 2);
    attend_config c = write_and_read(&a);
    const attend_stack *e = &c.encoder, *d = &c.decoder;
    CHECK(e->width == a.width && d->width == a.decoder_width);
    CHECK(e->heads == a.heads && d->heads == a.decoder_heads);
    CHECK(e->mlp == a.mlp && d->mlp == a.decoder_mlp);
    CHECK(e->dim == a.width / a.heads && e->dim_v == e->dim);
    CHECK(d->dim == a.decoder_width / a.decoder_heads && d->dim_v == d->dim);
    CHECK(e->layers == 2 && d->layers == 1);
  }
}

TEST(what_is_left_open_is_the_encoders) {
  for (int i = 0; i < 2; i++) {
    attend_architecture a = {ATTEND_INIT(attend_architecture), .family = both[i], .mlp = 600,
                             .vocab = 50};
    attend_config c = write_and_read(&a);
    CHECK(c.decoder.width == 256 && c.decoder.mlp == 600);
    a.decoder_width = 128;
    c = write_and_read(&a);
    CHECK(c.encoder.width == 256 && c.encoder.heads == 4);
    CHECK_EQ(c.encoder.mlp, 600);
    CHECK(c.decoder.width == 128 && c.decoder.heads == 4);
    CHECK_EQ(c.decoder.mlp, 512);
  }
}

TEST(what_cannot_be_is_refused) {
  attend_architecture a = sides("bart", true);
  a.decoder_heads = 3;
  refuse_write(a, "width of 10 cannot be cut into 3 heads");
  a.decoder_heads = -1;
  refuse_write(a, "cannot be cut into -1 heads");
  a = sides("t5", true);
  a.decoder_width = -10;
  refuse_write(a, "a width of -10");
  a = (attend_architecture){ATTEND_INIT(attend_architecture), .family = "gpt2", .vocab = 50,
                            .decoder_width = 128};
  refuse_write(a, "a gpt2 has one side");
}

/* ---- against transformers ------------------------------------------------------------ */

typedef struct {
  attend_tensor_file *golden;
  attend_config config; /* of the golden */
} twin;

/* Rows and columns of a wide tensor: as many as the golden has (0), or twice as
 * many, in parts of so many: a row of the stream is there twice over, and so is
 * each head's part of it. */
typedef struct {
  int64_t rows, columns;
  float factor;
} doubling;

/* Where inputs come twice each has half the weight; queries are smaller by
 * sqrt 2, since keys are longer and the scores' factor is of the wider head. */
static doubling doubling_of(const twin *t, const char *name) {
  const int64_t F = t->config.encoder.width, D = t->config.encoder.dim;
#define IS(part) (strstr(name, part) != NULL)
  if (IS("encoder_attn.k_proj.weight") || IS("encoder_attn.v_proj.weight"))
    return (doubling){0, F, 0.5f};
  if (!IS("encoder.") || IS("decoder.")) return (doubling){0, 0, 1};
  if (IS("embed_positions")) return (doubling){0, F, 1};
  float query = IS("q_proj") ? sqrtf(0.5f) : 1;
  bool bias = IS(".bias");
  if (IS("q_proj") || IS("k_proj") || IS("v_proj"))
    return (doubling){D, F, bias ? query : query / 2};
  if (IS("out_proj")) return (doubling){F, D, bias ? 1 : 0.5f};
  if (IS("fc1")) return (doubling){0, F, bias ? 1 : 0.5f};
  return (doubling){F, 0, 1}; /* fc2, norms */
#undef IS
}

static int64_t place(int64_t i, int64_t part) {
  return part ? i / (2 * part) * part + i % part : i;
}

static void fill_twin(const twin *t, const attend_trainer_parameter *x) {
  const attend_tensor *g = attend_tensor_file_find(t->golden, x->name);
  const doubling twice = doubling_of(t, x->name);
  const int64_t columns = x->rank == 2 ? x->shape[1] : 1;
  const int64_t narrow = x->rank == 2 && twice.columns ? columns / 2 : columns;
  CHECK(g || !strcmp(x->name, "final_logits_bias"));
  for (int64_t i = 0; g && i < x->count; i++) {
    int64_t row = place(i / columns, twice.rows);
    int64_t column = columns > 1 ? place(i % columns, twice.columns) : 0;
    float value;
    memcpy(&value, (const char *)g->data + 4 * (row * narrow + column), sizeof value);
    x->value[i] = twice.factor * value;
  }
}

static void fill_projection(const attend_trainer_parameter *x) {
  for (int64_t o = 0; o < x->shape[0]; o++)
    for (int64_t i = 0; i < x->shape[1]; i++) x->value[o * x->shape[1] + i] = o % x->shape[1] == i;
}

/* golden bart's weights in a model whose encoder is twice as wide. */
static void write_twin(void) {
  twin t;
  attend_checkpoint *files;
  attend_trainer *l;
  attend_trainer_parameter x;
  OK(context(), config_read(context(), model_path("bart", NULL), &t.config));
  OK(context(),
     attend_tensor_file_open(context(), model_path("bart", "model.safetensors"), &t.golden));
  const attend_stack *e = &t.config.encoder, *d = &t.config.decoder;
  attend_architecture a = {ATTEND_INIT(attend_architecture),
                           .family = "bart",
                           .layers = e->layers,
                           .decoder_layers = d->layers,
                           .width = 2 * e->width,
                           .heads = e->heads,
                           .mlp = e->mlp,
                           .decoder_width = d->width,
                           .decoder_heads = d->heads,
                           .decoder_mlp = d->mlp,
                           .positions = t.config.positions,
                           .vocab = t.config.vocab,
                           .bos = (const int[]){0},
                           .eos = (const int[]){2},
                           .pad = (const int[]){1}};
  l = begin(&a, NULL, &files);
  for (size_t i = 0; attend_trainer_get(l, i, &x); i++)
    if (strstr(x.name, "embed_projection"))
      fill_projection(&x);
    else
      fill_twin(&t, &x);
  OK(context(), attend_trainer_save(l, in_folder("model.safetensors"), ATTEND_STORED_F32));
  end(l, files);
  attend_tensor_file_free(t.golden);
}

static double furthest(const float *got, const attend_tensor *want) {
  double worst = 0;
  for (int64_t i = 0; i < want->count; i++) {
    float x;
    memcpy(&x, (const char *)want->data + 4 * i, sizeof x);
    worst = fmax(worst, fabs((double)x - (double)got[i]));
  }
  return worst;
}

TEST(a_wide_twin_of_bart_says_what_bart_says) {
  write_twin();
  subject s = open_path(context(), models_folder(), NULL);
  inputs in = open_inputs(context(), "bart");
  attend_session *run = open_run(&s, in.sequences, 0);
  int n = in.decoder_tokens, rows = in.sequences * n, ld;
  float *logits = zeroed_block((size_t)(rows * s.config->vocab), sizeof *logits);
  CHECK(s.config->encoder.width == 2 * s.config->decoder.width);
  OK(context(), attend_session_encode(run, in.sequences, in.tokens, in.ids, in.lengths, NULL));
  CHECK(attend_session_hidden(run, &ld) && ld == 2 * s.config->decoder.width);
  CHECK_EQ(attend_session_logits(run, 1, NULL, logits), ATTEND_INVALID);
  CHECK_SAYS(attend_message(context()), "extend the decoder");
  OK(context(), attend_session_extend(run, in.sequences, n, in.decoder_ids, NULL));
  OK(context(), attend_session_logits(run, rows, NULL, logits));
  double gap = furthest(logits, attend_tensor_file_find(in.file, "logits"));
  printf("logits within %.1e of transformers'\n", gap);
  CHECK(gap < 1e-4);
  free(logits);
  attend_session_free(run);
  close_inputs(&in);
  close_files(&s);
}

/* ---- gradients ------------------------------------------------------------------- */

TEST(gradients_are_what_differences_say) {
  for (int i = 0; i < 4; i++) {
    attend_architecture a = sides(both[i / 2], i % 2);
    attend_checkpoint *files;
    attend_trainer_options o = {ATTEND_INIT(attend_trainer_options), .recompute = i % 2};
    attend_trainer *l = begin(&a, &o, &files);
    int checked = check_gradients(l);
    printf("%s, %d beside %d: %d parameters\n", a.family, a.width, a.decoder_width, checked);
    CHECK(checked > 20);
    end(l, files);
  }
}

/* ---- learning, and what was learnt --------------------------------------------------------- */

static double learn(attend_trainer *l, int steps, double *first) {
  attend_optimizer_options how = {ATTEND_INIT(attend_optimizer_options)};
  attend_optimizer *o;
  attend_batch_loss got;
  double last = 0;
  OK(context(), attend_optimizer_create(l, &how, &o));
  for (int i = 0; i < steps; i++) {
    copy_task b;
    make_copy_task(attend_trainer_config(l), (uint64_t)(i % 4), &b);
    attend_batch batch = batch_in(&b, false);
    attend_trainer_zero_grad(l);
    OK(context(), attend_trainer_accumulate(l, &batch, &got));
    OK(context(), attend_optimizer_step(o, 5e-3f, NULL));
    last = got.loss / got.scored;
    if (i == 0) *first = last;
  }
  attend_optimizer_free(o);
  return last;
}

static double cross_entropy(const float *logits, const copy_task *b, int vocab) {
  double loss = 0;
  for (int i = 0; i < TEXTS * WRITTEN; i++) {
    const float *row = logits + (size_t)i * (size_t)vocab;
    double sum = 0;
    if (b->targets[i] < 0) continue;
    for (int j = 0; j < vocab; j++) sum += exp((double)row[j]);
    loss += log(sum) - (double)row[b->targets[i]];
  }
  return loss;
}

static void check_saved(attend_trainer *l) {
  copy_task b;
  make_copy_task(attend_trainer_config(l), 2, &b);
  double loss = loss_of(l, &b);
  OK(context(), attend_trainer_save(l, in_folder("model.safetensors"), ATTEND_STORED_F32));
  subject s = open_path(context(), models_folder(), NULL);
  float *alone = logits_alone(&s, &b), *at_once = logits_at_once(&s, &b);
  CHECK(same_bits(alone, at_once, (size_t)(TEXTS * WRITTEN * s.config->vocab)));
  CHECK_NEAR(cross_entropy(alone, &b, s.config->vocab), loss, 1e-4 * loss);
  attend_trainer *again;
  OK(context(), attend_trainer_create(s.files, NULL, &again));
  CHECK(loss_of(again, &b) == loss);
  attend_trainer_free(again);
  free(alone);
  free(at_once);
  close_files(&s);
}

TEST(they_learn_and_decode_as_they_read) {
  for (int i = 0; i < 4; i++) {
    attend_architecture a = sides(both[i / 2], i % 2);
    attend_checkpoint *files;
    attend_trainer *l = begin(&a, NULL, &files);
    double first = 0, last = learn(l, light() ? 60 : 150, &first);
    printf("%s: %.3f, then %.3f\n", a.family, first, last);
    CHECK(last < 0.75 * first);
    check_saved(l);
    end(l, files);
  }
}

/* ---- what is seen ---------------------------------------------------------------------------- */

TEST(each_side_is_seen_in_its_own_width) {
  attend_architecture a = sides("bart", true);
  attend_checkpoint *files;
  attend_trainer *l = begin(&a, NULL, &files);
  copy_task b;
  attend_trace *trace;
  attend_hooked seen;
  OK(context(), attend_trainer_save(l, in_folder("model.safetensors"), ATTEND_STORED_F32));
  end(l, files);
  subject s = open_path(context(), models_folder(), NULL);
  make_copy_task(s.config, 1, &b);
  attend_session *run = open_run(&s, 1, 0);
  attend_trace_options what = {ATTEND_INIT(attend_trace_options),
                               .points = ATTEND_AT_RESIDUAL | ATTEND_AT_KEY};
  OK(context(), attend_trace_create(context(), &what, &trace));
  attend_hook hook = attend_trace_hook(trace);
  attend_session_set_hooks(run, 1, &hook);
  OK(context(), attend_session_encode(run, 1, READ, b.ids, NULL, NULL));
  OK(context(), attend_session_extend(run, 1, WRITTEN, b.decoder_ids, NULL));
  OK(context(), attend_trace_status(trace));
  CHECK(attend_trace_get(trace, ATTEND_AT_RESIDUAL, ATTEND_ENCODER_SELF, 2, &seen));
  CHECK(seen.shape[2] == READ && seen.shape[3] == 24);
  CHECK(attend_trace_get(trace, ATTEND_AT_RESIDUAL, ATTEND_DECODER_SELF, 1, &seen));
  CHECK(seen.shape[2] == WRITTEN && seen.shape[3] == 10);
  CHECK(attend_trace_get(trace, ATTEND_AT_KEY, ATTEND_CROSS, 0, &seen));
  CHECK(seen.shape[1] == 2 && seen.shape[2] == READ && seen.shape[3] == 5);
  attend_session_free(run);
  attend_trace_free(trace);
  close_files(&s);
}
