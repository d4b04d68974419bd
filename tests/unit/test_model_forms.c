/* Every form of attention in every family: the weights and what the heads give
 * are what the definition says of the q, k and v that were seen (T5's bias
 * included), all numbers are finite, and a decoder gives the same bits token by
 * token, with hooks and without. */
#include "attend/problem.h"
#include "golden_models.h"

static const attend_form forms[] = {{.kind = ATTEND_FAVOR, .features = 64},
                                    {.kind = ATTEND_ELU},
                                    {.kind = ATTEND_ARGMAX},
                                    {.kind = ATTEND_ARGMAX, .ties = ATTEND_TIES_AVERAGE},
                                    {.kind = ATTEND_POLY, .c = 1},
                                    {.kind = ATTEND_FOURIER, .features = 64},
                                    {.kind = ATTEND_GAUSSIAN},
                                    {.kind = ATTEND_GAUSSIAN, .features = 64}};
enum { FORMS = sizeof forms / sizeof *forms, TOKENS = 20, SOURCE = 9, KEEP = 1 << 16 };

/* ---- what is seen, against the definition --------------------------------------------- */

typedef struct {
  const subject *s;
  const attend_form *form;
  attend_hooked q, k, v, weights;
  float buffer[4][KEEP];
  int judged;
} watcher;

/* A contiguous copy: the run overwrites what it shows. */
static attend_hooked kept(const attend_hooked *s, float *buffer) {
  const float *data = s->view.data;
  const ptrdiff_t *step = s->view.stride;
  float *to = buffer;
  for (int b = 0; b < s->shape[0]; b++)
    for (int h = 0; h < s->shape[1]; h++)
      for (int i = 0; i < s->shape[2]; i++)
        for (int j = 0; j < s->shape[3]; j++)
          *to++ = data[b * step[0] + h * step[1] + i * step[2] + j * step[3]];
  attend_hooked copy = *s;
  copy.view = (attend_const_view){.data = buffer};
  return copy;
}

static const float *relative_of(const attend_checkpoint *files, bool encoder) {
  attend_parameter p;
  for (size_t i = 0; attend_checkpoint_get(files, i, &p); i++)
    if (p.tensor && !p.encoder == !encoder && strstr(p.name, "relative_attention_bias"))
      return p.tensor->data;
  return NULL;
}

static attend_desc described(const watcher *w) {
  const attend_config *c = w->s->config;
  bool encoder = w->q.role == ATTEND_ENCODER_SELF;
  attend_desc d = {ATTEND_INIT(attend_desc), .form = *w->form,          .batch = w->q.shape[0],
                   .heads = w->q.shape[1],   .kv_heads = w->k.shape[1], .q_len = w->q.shape[2],
                   .kv_len = w->k.shape[2],  .dim = w->q.shape[3],      .dim_v = w->v.shape[3],
                   .scale = c->score_factor};
  if (!encoder) d.mask.causal = ATTEND_CAUSAL;
  if (c->position == ATTEND_POSITIONS_BUCKETS)
    d.bias = (attend_bias){.kind = ATTEND_BUCKETS,
                           .table = relative_of(w->s->files, encoder),
                           .buckets = c->buckets,
                           .max_distance = c->max_distance,
                           .one_sided = !encoder};
  return d;
}

/* Similarities of both signs may cancel in the denominator. Such a row is no
 * mean of values: it is far outside of them. */
static bool is_noise(const watcher *w, const double *row, size_t M) {
  const float *v = w->v.view.data;
  double max = 0, largest = 0;
  if (!attend_form_signed(w->form)) return false;
  int n = w->v.shape[0] * w->v.shape[1] * w->v.shape[2] * w->v.shape[3];
  for (int i = 0; i < n; i++) max = fmax(max, fabs((double)v[i]));
  for (size_t j = 0; j < M; j++) largest = fmax(largest, fabs(row[j]));
  return largest > 4 * max;
}

static void judge_weights(const watcher *w, const attend_desc *d) {
  const float *got = w->weights.view.data;
  size_t S = (size_t)d->kv_len;
  size_t n = (size_t)d->batch * (size_t)d->heads * (size_t)d->q_len * S;
  double *want = zeroed_block(n, sizeof *want), worst = 0;
  CHECK_EQ(w->weights.shape[2], d->q_len);
  CHECK_EQ(w->weights.shape[3], d->kv_len);
  OK(w->s->ctx, attend_definition_weights(w->s->ctx, d, attend_input(w->q.view),
                                          attend_input(w->k.view), want));
  for (size_t i = 0; i < n; i++) {
    double max = 0; /* a row of both signs may be noise */
    for (size_t j = 0; j < S; j++) max = fmax(max, fabs(want[i / S * S + j]));
    if (max > 2) continue;
    double error = fabs((double)got[i] - want[i]);
    if (!(error <= worst)) worst = isnan(error) ? INFINITY : error;
  }
  if (!(worst <= 2e-3))
    CHECK_FAIL("%s, form %d: a weight is off by %g", w->s->config->family, (int)w->form->kind,
               worst);
  free(want);
}

static void judge(watcher *w, const attend_hooked *mixed, const float *o) {
  attend_desc d = described(w);
  size_t rows = (size_t)d.batch * (size_t)d.heads * (size_t)d.q_len;
  size_t M = (size_t)d.dim_v, n = rows * M;
  double *want = zeroed_block(n, sizeof *want);
  double worst = 0, largest = 0;
  OK(w->s->ctx,
     attend_definition_forward(w->s->ctx, &d, attend_input(w->q.view), attend_input(w->k.view),
                               attend_input(w->v.view), want, NULL));
  for (size_t i = 0; i < n; i++) {
    if (is_noise(w, want + i / M * M, M)) continue;
    double error = fabs((double)o[i] - want[i]);
    if (!(error <= worst)) worst = isnan(error) ? INFINITY : error;
    largest = fmax(largest, fabs(want[i]));
  }
  if (!(worst <= 2e-3 * largest))
    CHECK_FAIL("%s, form %d, layer %d: an error of %g of %g", w->s->config->family,
               (int)w->form->kind, mixed->layer, worst, largest);
  w->judged++;
  free(want);
  judge_weights(w, &d);
}

/* The keys of cross-attention are not shown; its weights still share one. */
static void check_shared(const watcher *w, const attend_hooked *s) {
  static float weights[KEEP];
  kept(s, weights);
  int S = s->shape[3], rows = s->shape[0] * s->shape[1] * s->shape[2];
  CHECK_EQ(S, SOURCE);
  for (int i = 0; i < rows && !attend_form_signed(w->form); i++) {
    double sum = 0;
    for (int j = 0; j < S; j++) sum += (double)weights[i * S + j];
    CHECK_NEAR(sum, 1, 1e-3);
  }
}

static void see(const attend_hooked *sight, void *user) {
  static float o[KEEP];
  watcher *w = user;
  size_t n = 1;
  for (int i = 0; i < 4; i++) n *= (size_t)sight->shape[i];
  CHECK(n <= KEEP);
  if (n > KEEP) return;
  if (sight->role == ATTEND_CROSS && sight->point == ATTEND_AT_PATTERN) check_shared(w, sight);
  if (sight->role == ATTEND_CROSS) return;
  if (sight->point == ATTEND_AT_PATTERN) w->weights = kept(sight, w->buffer[3]);
  if (sight->point == ATTEND_AT_QUERY) w->q = kept(sight, w->buffer[0]);
  if (sight->point == ATTEND_AT_KEY) w->k = kept(sight, w->buffer[1]);
  if (sight->point == ATTEND_AT_VALUE) w->v = kept(sight, w->buffer[2]);
  if (sight->point != ATTEND_AT_HEAD_OUTPUT) return;
  kept(sight, o);
  judge(w, sight, o);
}

/* ---- families ---------------------------------------------------------------------------- */

static attend_session *open_traced(const subject *s, watcher *w) {
  attend_session_options o = {ATTEND_INIT(attend_session_options), .batch = 2};
  attend_session *run;
  OK(s->ctx, attend_session_create(s->model, &o, &run));
  attend_hook hook = {ATTEND_INIT(attend_hook),
                      .points = ATTEND_AT_QUERY | ATTEND_AT_KEY | ATTEND_AT_VALUE |
                                ATTEND_AT_PATTERN | ATTEND_AT_HEAD_OUTPUT,
                      .read = see, .user = w};
  attend_session_set_hooks(run, 1, &hook);
  return run;
}

static void check_finite(const subject *s, const float *x, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (!isfinite(x[i])) CHECK_FAIL("%s: logit %zu is %g", s->config->family, i, (double)x[i]);
}

static void check_decoder(const subject *s, attend_session *run, const int32_t *ids) {
  size_t vocab = (size_t)s->config->vocab;
  float *whole = zeroed_block(2 * TOKENS * vocab, sizeof *whole);
  float *next = zeroed_block(2 * vocab, sizeof *next);
  OK(s->ctx, attend_session_extend(run, 2, TOKENS, ids, NULL));
  OK(s->ctx, attend_session_logits(run, 2 * TOKENS, NULL, whole));
  check_finite(s, whole, 2 * TOKENS * vocab);
  attend_session *again = open_run(s, 2, 0);
  read_source(again, s, 2, SOURCE);
  for (int i = 0; i < TOKENS; i++) {
    int32_t two[2] = {ids[i], ids[TOKENS + i]};
    OK(s->ctx, attend_session_extend(again, 2, 1, two, NULL));
    OK(s->ctx, attend_session_next(again, 2, next));
    for (int b = 0; b < 2; b++)
      if (!same_bits(next + (size_t)b * vocab, whole + (size_t)(b * TOKENS + i) * vocab, vocab))
        CHECK_FAIL("%s, form %d: token %d of sequence %d is not as in the whole", s->config->family,
                   (int)attend_model_form(s->model)->kind, i, b);
  }
  attend_session_free(again);
  free(whole);
  free(next);
}

static void check_subject(subject *s, const attend_form *form) {
  static watcher w;
  int32_t *ids = random_ids(s->config, 61, 2 * TOKENS);
  w = (watcher){.s = s, .form = form};
  attend_session *run = open_traced(s, &w);
  int layers = s->config->encoder.layers + s->config->decoder.layers;
  CHECK_EQ(attend_model_form(s->model)->kind, form->kind);
  if (s->config->parts == ATTEND_ENCODER) {
    float logits[256];
    OK(s->ctx, attend_session_encode(run, 2, TOKENS, ids, NULL, NULL));
    OK(s->ctx, attend_session_logits(run, 1, NULL, logits));
    check_finite(s, logits, (size_t)s->config->vocab);
  } else {
    read_source(run, s, 2, SOURCE);
    check_decoder(s, run, ids);
  }
  CHECK_EQ(w.judged, layers);
  free(ids);
  attend_session_free(run);
}

TEST(every_form_in_every_family) {
  for (int f = 0; families[f]; f++)
    for (int i = 0; i < FORMS; i++) {
      if (light() && (f + i) % 3) continue;
      attend_model_options o = {ATTEND_INIT(attend_model_options), .form = &forms[i]};
      subject s = open_model(families[f], NULL, 2, &o);
      check_subject(&s, &forms[i]);
      close_model(&s);
    }
}

/* No family's checkpoints have them, but a configuration may ask: values of
 * another width than queries and keys, on untrained weights. */
TEST(values_of_another_width) {
  static const char *const configs[] = {
      "{\"model_type\":\"llama\",\"hidden_size\":24,\"intermediate_size\":40,"
      "\"num_hidden_layers\":2,\"num_attention_heads\":4,"
      "\"num_key_value_heads\":2,\"vocab_size\":61,\"v_head_dim\":10}",
      "{\"model_type\":\"gpt2\",\"n_embd\":24,\"n_layer\":2,\"n_head\":3,"
      "\"vocab_size\":61,\"n_positions\":64,\"v_head_dim\":5}",
      "{\"model_type\":\"t5\",\"d_model\":24,\"d_kv\":6,\"d_ff\":40,"
      "\"num_layers\":2,\"num_heads\":3,\"vocab_size\":61,\"v_head_dim\":9,"
      "\"decoder_start_token_id\":0}",
      NULL};
  for (int c = 0; configs[c]; c++)
    for (int i = 0; i < FORMS; i++) {
      attend_model_options o = {ATTEND_INIT(attend_model_options), .form = &forms[i]};
      subject s = {.ctx = open_context(NULL, 2, NULL)};
      write_in_folder("config.json", configs[c], strlen(configs[c]));
      OK(s.ctx, attend_checkpoint_init_pytorch(s.ctx, in_folder("config.json"), 5, &s.files));
      OK(s.ctx, attend_model_create(s.files, &o, &s.model));
      s.config = attend_model_config(s.model);
      const attend_stack *d = &s.config->decoder;
      CHECK(d->dim_v != d->dim);
      check_subject(&s, &forms[i]);
      close_model(&s);
    }
  remove_folder();
}

static void look_away(const attend_hooked *sight, void *user) {
  (void)sight;
  (void)user;
}

/* Sums cannot be taken back: a call that fails half-way leaves its sequence
 * empty in all layers, and the failure's own sentence. */
TEST(a_linear_form_after_a_call_that_failed) {
  attend_form favor = {.kind = ATTEND_FAVOR, .features = 16};
  attend_model_options o = {ATTEND_INIT(attend_model_options), .form = &favor};
  attend_hook hook = {ATTEND_INIT(attend_hook), .points = ATTEND_AT_PATTERN, .read = look_away};
  subject s = open_model("llama-gqa", NULL, 1, &o);
  int32_t *ids = random_ids(s.config, 5, 90);
  size_t vocab = (size_t)s.config->vocab;
  float *want = zeroed_block(vocab, sizeof *want), *got = zeroed_block(vocab, 4);
  attend_session *run = open_run(&s, 1, 0);
  OK(s.ctx, attend_session_extend(run, 1, 90, ids, NULL));
  OK(s.ctx, attend_session_next(run, 1, want));
  attend_session_truncate(run, 0, 0);
  OK(s.ctx, attend_session_extend(run, 1, 60, ids, NULL));
  attend_session_set_hooks(run, 1, &hook); /* too late */
  CHECK_EQ(attend_session_extend(run, 1, 20, ids + 60, NULL), ATTEND_INVALID);
  CHECK_SAYS(attend_message(s.ctx), "from the first token on");
  attend_session_set_hooks(run, 0, NULL);
  CHECK_EQ(attend_session_length(run, 0), 0);
  OK(s.ctx, attend_session_extend(run, 1, 90, ids, NULL));
  OK(s.ctx, attend_session_next(run, 1, got));
  CHECK(same_bits(got, want, vocab));
  free(ids);
  free(want);
  free(got);
  attend_session_free(run);
  close_model(&s);
}

/* Freed once, and the first model's weights stay. */
TEST(a_model_that_borrows_its_weights) {
  attend_form elu = {.kind = ATTEND_ELU};
  ledger memory = {0};
  attend_context *ctx = open_context(NULL, 1, &memory);
  subject s = open_path(ctx, model_path("gpt2", NULL), NULL);
  long before = memory.live;
  for (int i = 0; i < 3; i++) {
    attend_model *other;
    OK(ctx, attend_model_with_form(s.model, &elu, &other));
    CHECK_EQ(memory.live, before + 1);
    attend_model_free(other);
    CHECK_EQ(memory.live, before);
  }
  close_model(&s);
  CHECK_EQ(memory.live, 0);
}
