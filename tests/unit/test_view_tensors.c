/* Tensors in place of a model (attend/viewer.h): weights are what was given, queries and keys give
 * what attend_forward gives, and what cannot be is refused with a sentence. */
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "attend/viewer.h"

#include "base/base.h"
#include "golden_models.h"

enum { L = 2, H = 4, G = 2, T = 5, S = 7, D = 8, M = 6 };

typedef struct {
  attend_context *ctx;
  attend_viewer *v;
} session;

static session open_session(void) {
  session s = {.ctx = open_context(NULL, 2, NULL)};
  OK(s.ctx, attend_viewer_create(s.ctx, NULL, &s.v));
  return s;
}

static void close_session(session *s) {
  attend_viewer_free(s->v);
  attend_context_free(s->ctx);
}

static const attend_viewer_run *run_of(const session *s) {
  const attend_viewer_run *run = NULL;
  OK(s->ctx,
     attend_viewer_run_case(
         s->v, &(attend_viewer_case){ATTEND_INIT(attend_viewer_case), .text = "any"}, NULL, &run));
  return run;
}

/* Rows of weights that sum to 1, [L][H][T][n]. */
static void fill_weights(float *w, int n) {
  for (int i = 0; i < L * H * T; i++) {
    float sum = 0;
    for (int j = 0; j < n; j++) sum += w[i * n + j] = (float)(1 + (i * 7 + j * 5) % 11);
    for (int j = 0; j < n; j++) w[i * n + j] /= sum;
  }
}

static const char *const words[S] = {"[CLS]", "the", "dog", "##s", "the", "[SEP]", "."};
static float weights[L * H * T * S], random_numbers[L * H * S * D * 3];

static attend_viewer_attention given(attend_role role, int keys, attend_const_view *view) {
  fill_weights(weights, keys);
  for (int i = 0; i < L; i++) view[i] = (attend_const_view){.data = weights + i * H * T * keys};
  return (attend_viewer_attention){
      .role = role,
      .layers = L,
      .of = {ATTEND_INIT(attend_desc), .heads = H, .q_len = T, .kv_len = keys},
      .weights = view};
}

static attend_status add(const session *s, const attend_viewer_attention *a, int rows, int keys) {
  bool cross = a->role == ATTEND_CROSS, decoder = a->role != ATTEND_ENCODER_SELF;
  attend_viewer_tensors t = {ATTEND_INIT(attend_viewer_tensors), .name = "mine", .n = 1,
                             .attention = a};
  t.tokens[decoder] = (attend_viewer_tokens){rows, words};
  if (cross) t.tokens[0] = (attend_viewer_tokens){keys, words};
  return attend_viewer_add_tensors(s->v, &t);
}

TEST(weights_are_what_was_given) {
  session s = open_session();
  attend_const_view view[L];
  attend_viewer_attention a = given(ATTEND_ENCODER_SELF, T, view);
  OK(s.ctx, add(&s, &a, T, T));
  const attend_viewer_run *run = run_of(&s);
  CHECK(run && run->side[0].n == T && run->has_role[ATTEND_ENCODER_SELF] && !run->notice[0]);
  CHECK(run->side[0].ids[1] == run->side[0].ids[4] && run->side[0].ids[1] != run->side[0].ids[2]);
  CHECK(run->side[0].part[0] == -1 && run->side[0].part[1] == 0);
  const attend_viewer_model *m = attend_viewer_get_model(s.v, 0);
  char label[ATTEND_VIEWER_TOKEN];
  attend_viewer_token_label(m, run->side[0].ids[3], label);
  CHECK(m->run == run && !strcmp(label, "–s"));
  for (int i = 0; i < L * H; i++) {
    attend_viewer_head h = {.run = run, .at = {ATTEND_ENCODER_SELF, i / H, i % H}};
    attend_viewer_block b;
    attend_viewer_stats x;
    OK(s.ctx, attend_viewer_get_block(s.v, &h, NULL, &b));
    CHECK(!memcmp(b.weights, weights + i * T * T, T * T * sizeof *weights));
    OK(s.ctx, attend_viewer_get_stats(s.v, &h, &x));
    for (int r = 0; r < T; r++) {
      const float *row = weights + (i * T + r) * T;
      double entropy = 0;
      for (int j = 0; j < T; j++) entropy -= (double)row[j] * log((double)row[j]);
      CHECK_NEAR((double)x.entropy[r], entropy, 1e-6);
      CHECK(x.top_weight[r] == row[x.top[r]]);
    }
    attend_viewer_release(s.v, b.memory);
    attend_viewer_release(s.v, x.memory);
  }
  attend_viewer_head role = {.run = run, .at.role = ATTEND_ENCODER_SELF};
  attend_viewer_rollout r;
  OK(s.ctx, attend_viewer_get_rollout(s.v, &role, T - 1, &r));
  double sum = 0;
  for (int j = 0; j < T; j++) sum += (double)r.shares[j];
  CHECK_NEAR(sum, 1, 1e-5);
  attend_viewer_release(s.v, r.memory);
  close_session(&s);
}

/* Views with strides [T,H,keys] are read as they lie. */
TEST(views_have_strides) {
  session s = open_session();
  attend_const_view view[L];
  float turned[L * H * T * T];
  attend_viewer_attention a = given(ATTEND_DECODER_SELF, T, view);
  for (int l = 0; l < L; l++) {
    for (int h = 0; h < H; h++)
      for (int i = 0; i < T; i++)
        for (int j = 0; j < T; j++)
          turned[((l * T + j) * T + i) * H + h] = weights[((l * H + h) * T + i) * T + j];
    view[l] = (attend_const_view){turned + l * H * T * T, {0, 1, H, H * T}};
  }
  OK(s.ctx, add(&s, &a, T, T));
  attend_viewer_head h = {.run = run_of(&s), .at = {ATTEND_DECODER_SELF, 1, 3}};
  attend_viewer_block b;
  OK(s.ctx, attend_viewer_get_block(s.v, &h, NULL, &b));
  CHECK(!memcmp(b.weights, weights + 7 * T * T, T * T * sizeof *weights));
  attend_viewer_release(s.v, b.memory);
  close_session(&s);
}

/* q, k and v under a dense mask with padding, cross-attention. */
TEST(queries_and_keys_give_weights) {
  session s = open_session();
  float mask[T * S], out[L][H * T * M], lse[L][H * T];
  int32_t length = S - 1;
  attend_const_view q[L], k[L], v[L];
  attend_random_normal((attend_random){3, 0}, 0, sizeof random_numbers / sizeof(float),
                       random_numbers);
  for (int i = 0; i < T * S; i++) mask[i] = i % 3 ? 0 : -INFINITY;
  attend_viewer_attention a = {
      .role = ATTEND_CROSS,
      .layers = L,
      .of = {ATTEND_INIT(attend_desc), .heads = H, .kv_heads = G, .q_len = T, .kv_len = S, .dim = D,
             .dim_v = M, .mask.lengths = &length,
             .bias = {.kind = ATTEND_DENSE, .dense = {mask, {0, 0, S, 1}}}},
      .q = q,
      .k = k,
      .v = v};
  for (int i = 0; i < L; i++) {
    attend_plan *plan;
    q[i] = (attend_const_view){.data = random_numbers + i * H * T * D};
    k[i] = (attend_const_view){.data = random_numbers + L * H * S * D + i * G * S * D};
    v[i] = (attend_const_view){.data = random_numbers + 2 * L * H * S * D + i * G * S * M};
    OK(s.ctx, attend_plan_create(s.ctx, &a.of, &plan));
    OK(s.ctx, attend_forward(plan, attend_input(q[i]), attend_input(k[i]), attend_input(v[i]),
                             attend_bhtd(out[i]), lse[i]));
    attend_plan_free(plan);
  }
  OK(s.ctx, add(&s, &a, T, S));
  for (int i = 0; i < L * H; i++) {
    attend_viewer_head h = {.run = run_of(&s), .at = {ATTEND_CROSS, i / H, i % H}};
    attend_viewer_vectors x;
    OK(s.ctx, attend_viewer_get_vectors(s.v, &h, NULL, &x));
    CHECK(x.dim == D && x.dim_v == M);
    CHECK(!memcmp(x.out, out[i / H] + i % H * T * M, T * M * sizeof(float)));
    CHECK(!memcmp(x.lse, lse[i / H] + i % H * T, T * sizeof(float)));
    for (int r = 0; r < T * M; r++) {
      double sum = 0;
      for (int j = 0; j < S; j++)
        sum += (double)x.weights[r / M * S + j] * (double)x.v[j * M + r % M];
      CHECK_NEAR((double)x.out[r], sum, 1e-5);
    }
    for (int r = 0; r < T; r++) {
      CHECK(x.weights[r * S + S - 1] == 0);
      for (int j = 0; j < S; j++) CHECK((r * S + j) % 3 || x.weights[r * S + j] == 0);
    }
    attend_viewer_release(s.v, x.memory);
  }
  close_session(&s);
}

/* ---- what cannot be ----------------------------------------------------------------------- */

static void refused(const session *s, const attend_viewer_attention *a, int tokens,
                    const char *why) {
  CHECK_EQ(add(s, a, tokens, a->of.kv_len), ATTEND_INVALID);
  CHECK_SAYS(attend_message(s->ctx), why);
  CHECK(!attend_viewer_get_model(s->v, 0));
}

TEST(refuses_what_is_no_attention) {
  session s = open_session();
  attend_const_view view[L];
  attend_viewer_attention a = given(ATTEND_ENCODER_SELF, T, view);
  refused(&s, &a, T - 1, "4 tokens for attention of 5 rows");
  weights[H * T * T + 2 * T * T + 3] = NAN;
  refused(&s, &a, T, "layer 1, head 2 has a weight that is not finite (nan in row 0, column 3)");
  weights[H * T * T + 2 * T * T + 3] = -0.5f;
  refused(&s, &a, T, "negative weight (-0.5 in row 0, column 3)");
  a.of.kv_len = S;
  refused(&s, &a, T, "5 queries and 7 keys are cross-attention");
  a.of.kv_len = T, a.layers = 0;
  refused(&s, &a, T, "0 layers");
  a = given(ATTEND_ENCODER_SELF, T, view);
  a.weights = NULL;
  refused(&s, &a, T, "needs weights, or queries and keys");
  close_session(&s);
}

TEST(tells_what_is_odd) {
  session s = open_session();
  attend_const_view view[L];
  attend_viewer_attention a = given(ATTEND_ENCODER_SELF, T, view);
  for (int j = 0; j < T; j++) weights[3 * T + j] *= 0.5f;
  weights[T * T] -= 0.01f; /* half precision sums to 1 within that */
  OK(s.ctx, add(&s, &a, T, T));
  CHECK_SAYS(run_of(&s)->notice, "row 3 of layer 0, head 0 sums to 0.5");
  close_session(&s);
  s = open_session();
  a = given(ATTEND_ENCODER_SELF, T, view);
  weights[7] = -0.5f;
  a.is_signed = true;
  OK(s.ctx, add(&s, &a, T, T));
  CHECK(run_of(&s)->shape[ATTEND_ENCODER_SELF].is_signed && !run_of(&s)->notice[0]);
  close_session(&s);
}

/* Calls that need a model, queries or values say so. */
TEST(tensors_are_no_model) {
  session s = open_session();
  attend_const_view view[L];
  attend_viewer_attention a = given(ATTEND_ENCODER_SELF, T, view);
  OK(s.ctx, add(&s, &a, T, T));
  const attend_viewer_run *run = run_of(&s), *other;
  attend_viewer_head h = {.run = run, .at = {ATTEND_ENCODER_SELF, 0, 0}};
  attend_viewer_vectors x;
  attend_viewer_block b;
  attend_viewer_candidate c[3];
  int n;
  CHECK_EQ(attend_viewer_get_vectors(s.v, &h, NULL, &x), ATTEND_INVALID);
  CHECK_SAYS(attend_message(s.ctx), "mine has no queries, keys and values");
  h.form = "elu";
  CHECK_EQ(attend_viewer_get_block(s.v, &h, NULL, &b), ATTEND_INVALID);
  CHECK_SAYS(attend_message(s.ctx), "attention weights alone");
  CHECK_EQ(attend_viewer_get_candidates(s.v, run, ATTEND_ENCODER_SELF, 0, 3, c, &n),
           ATTEND_INVALID);
  attend_viewer_case of = {ATTEND_INIT(attend_viewer_case), .text = "x"};
  attend_viewer_generate_options g = {ATTEND_INIT(attend_viewer_generate_options)};
  CHECK_EQ(attend_viewer_generate(s.v, &of, &g, NULL, &other), ATTEND_INVALID);
  CHECK_SAYS(attend_message(s.ctx), "holds tensors");
  CHECK(attend_viewer_find(s.v, run->id) == run);
  close_session(&s);
}

/* ---- files ------------------------------------------------------------------------------------ */

/* A run of a model, saved and read: the same weights, bit for bit. */
static void check_saved(const char *model, attend_role role) {
  session s = open_session();
  char path[300];
  const attend_viewer_run *run = NULL, *again = NULL;
  const char *tmp = getenv("TMPDIR");
  snprintf(path, sizeof path, "%s/attend-run-%d.safetensors", tmp ? tmp : "/tmp", (int)getpid());
  OK(s.ctx, attend_viewer_add(s.v, &(attend_viewer_source){ATTEND_INIT(attend_viewer_source),
                                                           .path = model_path(model, NULL)}));
  attend_viewer_case c = {ATTEND_INIT(attend_viewer_case), .text = "5 7 4 9 5 3 8 2 9"};
  OK(s.ctx, attend_viewer_run_case(s.v, &c, NULL, &run));
  OK(s.ctx, attend_viewer_save(s.v, run, path));
  OK(s.ctx, attend_viewer_add_file(s.v, path, NULL));
  c.model = 1;
  OK(s.ctx, attend_viewer_run_case(s.v, &c, NULL, &again));
  const attend_lens_shape *a = &run->shape[role], *b = &again->shape[role];
  CHECK(a->layers == b->layers && a->heads == b->heads && a->rows == b->rows &&
        a->keys == b->keys && a->causal == b->causal && a->window == b->window &&
        a->kv_heads == b->kv_heads);
  for (int i = 0; i < a->layers * a->heads; i++) {
    attend_viewer_head x = {.run = run, .at = {role, i / a->heads, i % a->heads}}, y = x;
    attend_viewer_block p, q;
    y.run = again;
    OK(s.ctx, attend_viewer_get_block(s.v, &x, NULL, &p));
    OK(s.ctx, attend_viewer_get_block(s.v, &y, NULL, &q));
    CHECK(!memcmp(p.weights, q.weights, (size_t)(a->rows * a->keys) * sizeof(float)));
    attend_viewer_release(s.v, p.memory);
    attend_viewer_release(s.v, q.memory);
  }
  unlink(path);
  close_session(&s);
}

TEST(saved_runs_are_the_same) {
  check_saved("gpt2", ATTEND_DECODER_SELF);
  check_saved("mistral-window", ATTEND_DECODER_SELF);
  check_saved("bart", ATTEND_CROSS);
  check_saved("t5", ATTEND_ENCODER_SELF);
  check_saved("t5", ATTEND_DECODER_SELF);
}

/* Every allocation of a file fails once; nothing is lost. */
TEST(no_memory) {
  char path[400];
  const char *golden = getenv("ATTEND_GOLDEN");
  snprintf(path, sizeof path, "%s/arrays/qkv.npz", golden ? golden : "tests/golden");
  ledger memory = {0};
  attend_context *ctx = open_context(NULL, 1, &memory);
  attend_viewer *v;
  OK(ctx, attend_viewer_create(ctx, NULL, &v));
  const long before = memory.live + 1; /* the list of models grows */
  attend_status status = ATTEND_NO_MEMORY;
  for (int i = 1; status == ATTEND_NO_MEMORY && i < 1000; i++) {
    memory.fail_at = memory.taken + i;
    status = attend_viewer_add_file(v, path, NULL);
    if (status) CHECK(memory.live <= before);
  }
  CHECK_EQ(status, ATTEND_OK);
  attend_viewer_free(v);
  attend_context_free(ctx);
}
