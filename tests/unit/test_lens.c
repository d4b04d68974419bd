/* Lenses: the weights that they compute again are those that Hugging Face
 * transformers computed and those that a hook read, in parts and as a whole,
 * and numbers about them are what they say. */
#include "trace_fixtures.h"

/* A theirs-shaped name: decoders and encoders alone have no prefix. */
static const attend_tensor *golden_attention(const recording *r, attend_head_id at) {
  static const char *const sides[] = {"encoder_", "decoder_", "cross_"};
  char name[64];
  snprintf(name, sizeof name, "%sattention.%d",
           r->s.config->parts == ATTEND_BOTH ? sides[at.role] : "", at.layer);
  return attend_tensor_file_find(r->in.file, name);
}

static int real_rows(const recording *r, attend_role role, int rows) {
  return role == ATTEND_ENCODER_SELF ? r->real : rows;
}

static void check_theirs(const recording *r, attend_head_id at, const attend_lens_shape *s,
                         const float *w) {
  const attend_tensor *t = golden_attention(r, at);
  CHECK(t != NULL);
  if (!t) return;
  CHECK_EQ(t->shape[1], s->heads);
  /* T5's scores are large: it does not divide them */
  double bound = r->s.config->score_factor == 1 ? 5e-5 : 1e-5;
  for (int i = 0; i < real_rows(r, at.role, s->rows); i++)
    for (int j = 0; j < s->keys; j++) {
      float theirs;
      int64_t where = ((r->sequence * t->shape[1] + at.head) * t->shape[2] + i) * t->shape[3] + j;
      memcpy(&theirs, (const char *)t->data + 4 * where, 4);
      CHECK_NEAR(w[i * s->keys + j], theirs, bound);
    }
}

static void check_seen(const recording *r, attend_head_id at, const attend_lens_shape *s,
                       const float *w) {
  attend_hooked seen;
  CHECK(attend_trace_get(r->trace, ATTEND_AT_PATTERN, at.role, at.layer, &seen));
  CHECK_EQ(seen.shape[2], s->rows);
  const float *row = (const float *)seen.view.data + at.head * seen.view.stride[1];
  for (int i = 0; i < s->rows; i++, row += seen.view.stride[2])
    for (int j = 0; j < s->keys; j++) {
      /* of padding a cross-attention's cache knows nothing */
      float theirs = j < seen.shape[3] ? row[j] : 0;
      CHECK_NEAR(w[i * s->keys + j], theirs, 1e-6);
      if (at.role != ATTEND_DECODER_SELF && j >= r->real) CHECK(w[i * s->keys + j] == 0);
    }
}

TEST(weights_as_transformers_computes_them) {
  for (int k = 0; golden_models[k]; k++)
    for (int b = 0; b < 2; b++) {
      int failures = check_failures, heads = 0;
      recording r = recorded(golden_models[k], b, 2, FOR_A_LENS | ATTEND_AT_PATTERN);
      attend_lens *lens = lens_of(&r, NULL);
      attend_lens_shape s;
      FOR_EACH_HEAD(lens, s, at) {
        float *w = whole_block(r.s.ctx, lens, at, &s);
        check_theirs(&r, at, &s, w);
        check_seen(&r, at, &s, w);
        free(w);
        heads++;
      }
      const attend_config *c = r.s.config;
      CHECK_EQ(heads, c->encoder.layers * c->encoder.heads +
                          c->decoder.layers * c->decoder.heads * (c->parts == ATTEND_BOTH ? 2 : 1));
      if (check_failures > failures) printf("in sequence %d of %s\n", b, golden_models[k]);
      attend_lens_free(lens);
      close_recording(&r);
    }
}

TEST(what_the_shape_says) {
  recording r = recorded("mistral-window", 0, 1, FOR_A_LENS);
  attend_lens *lens = lens_of(&r, NULL);
  attend_lens_shape s;
  CHECK(!attend_lens_role(lens, ATTEND_ENCODER_SELF, &s));
  CHECK(!attend_lens_role(lens, ATTEND_CROSS, &s));
  CHECK(attend_lens_role(lens, ATTEND_DECODER_SELF, &s));
  CHECK(s.layers == 2 && s.heads == 4 && s.kv_heads == 2);
  CHECK(s.rows == r.decoded && s.keys == r.decoded && s.real_keys == s.keys);
  CHECK(s.dim == 8 && s.dim_v == 8 && s.causal && s.window == 7);
  CHECK(!s.biased && !s.is_signed);
  CHECK_NEAR(s.scale, 1 / sqrt(8.0), 1e-7);
  attend_lens_free(lens);
  close_recording(&r);
  r = recorded("t5", 1, 1, FOR_A_LENS);
  lens = lens_of(&r, NULL);
  CHECK(attend_lens_role(lens, ATTEND_ENCODER_SELF, &s));
  CHECK(s.biased && !s.causal && s.real_keys == r.real);
  CHECK(attend_lens_role(lens, ATTEND_CROSS, &s));
  CHECK(!s.biased && s.keys == r.encoded && s.rows == r.decoded);
  CHECK(s.real_keys == r.real);
  CHECK(r.real < r.encoded); /* there is padding */
  CHECK(attend_lens_role(lens, ATTEND_DECODER_SELF, &s));
  CHECK(s.biased && s.causal && s.real_keys == s.keys);
  attend_lens_free(lens);
  close_recording(&r);
}

/* ---- parts ------------------------------------------------------------------------------ */

static void check_slices(attend_context *ctx, attend_lens *lens, attend_head_id at) {
  attend_lens_shape s;
  float *whole = whole_block(ctx, lens, at, &s), u[4];
  float *part = zeroed_block((size_t)(s.rows * s.keys), sizeof *part);
  for (uint64_t n = 0; n < 12; n++) {
    attend_random_uniform((attend_random){n, 8}, 0, 4, u);
    int row = (int)(u[0] * (float)s.rows), key = (int)(u[1] * (float)s.keys);
    int rows = 1 + (int)(u[2] * (float)(s.rows - row));
    int keys = 1 + (int)(u[3] * (float)(s.keys - key));
    if (n == 0) keys = rows = 0;
    if (n == 1) keys = rows = 1;
    OK(ctx, attend_lens_block(lens, at, row, rows, key, keys, part));
    for (int i = 0; i < rows; i++)
      CHECK(same_bits(part + i * keys, whole + (row + i) * s.keys + key, (size_t)keys));
  }
  free(whole), free(part);
}

static const char *const forms[] = {NULL,  "argmax(ties=average)", "poly(p=2,c=1)",
                                    "elu", "favor(m=16)",          "gaussian"};

TEST(a_part_is_a_slice_of_the_whole) {
  static const char *const names[] = {"t5", "llama-gqa", "mistral-window", NULL};
  for (int k = 0; names[k]; k++) {
    recording r = long_recording(names[k], 200, 2);
    for (int f = 0; f < 6; f++) {
      attend_form form;
      if (forms[f]) OK(r.s.ctx, attend_form_parse(r.s.ctx, forms[f], &form));
      attend_lens *lens = lens_of(&r, forms[f] ? &form : NULL);
      check_slices(r.s.ctx, lens, (attend_head_id){ATTEND_DECODER_SELF, 1, 1});
      if (r.encoded && (!f || !light()))
        check_slices(r.s.ctx, lens, (attend_head_id){ATTEND_CROSS, 0, 2});
      attend_lens_free(lens);
    }
    close_recording(&r);
  }
}

/* ---- numbers ----------------------------------------------------------------------------- */

static void check_stats(attend_context *ctx, attend_lens *lens, attend_head_id at) {
  attend_lens_shape s;
  float *w = whole_block(ctx, lens, at, &s);
  size_t T = (size_t)s.rows, S = (size_t)s.keys;
  float *entropy = zeroed_block(2 * T + S, 4), *weight = entropy + T;
  float *mass = weight + T;
  int32_t *top = zeroed_block(T, 4);
  attend_row_stats all = {ATTEND_INIT(attend_row_stats), entropy, top, weight, mass};
  OK(ctx, attend_lens_stats(lens, at, &all));
  for (size_t j = 0; j < S; j++) {
    double sum = 0;
    for (size_t i = 0; i < T; i++) sum += (double)w[i * S + j];
    CHECK_NEAR(mass[j], sum, 1e-5 * (1 + fabs(sum)));
  }
  for (size_t i = 0; i < T; i++) {
    double sum = 0;
    float max = -INFINITY;
    for (size_t j = 0; j < S; j++) {
      double x = (double)w[i * S + j];
      if (x > 0) sum -= x * log(x);
      if (w[i * S + j] > max && (w[i * S + j] != 0 || s.is_signed)) max = w[i * S + j];
    }
    CHECK_NEAR(entropy[i], sum, 1e-5 * (1 + fabs(sum)));
    CHECK(top[i] >= 0 && top[i] < s.real_keys);
    if (top[i] < 0 || top[i] >= s.keys) continue;
    CHECK_NEAR(w[i * S + (size_t)top[i]], max, 0);
    CHECK_NEAR(weight[i], max, 0);
  }
  /* one at a time */
  float *one = zeroed_block(T + S, 4);
  int32_t *index = zeroed_block(T, 4);
  OK(ctx, attend_lens_stats(lens, at,
                            &(attend_row_stats){ATTEND_INIT(attend_row_stats), .entropy = one}));
  CHECK(same_bits(one, entropy, T));
  OK(ctx,
     attend_lens_stats(lens, at, &(attend_row_stats){ATTEND_INIT(attend_row_stats), .mass = one}));
  CHECK(same_bits(one, mass, S));
  OK(ctx,
     attend_lens_stats(lens, at, &(attend_row_stats){ATTEND_INIT(attend_row_stats), .top = index}));
  CHECK(!memcmp(index, top, T * 4));
  OK(ctx, attend_lens_stats(lens, at,
                            &(attend_row_stats){ATTEND_INIT(attend_row_stats), .top_weight = one}));
  CHECK(same_bits(one, weight, T));
  free(w), free(entropy), free(top), free(one), free(index);
}

TEST(statistics_of_rows) {
  static const char *const names[] = {"t5", "llama-gqa", "mistral-window", "bart", NULL};
  for (int k = 0; names[k]; k++) {
    recording r = recorded(names[k], 1, 2, FOR_A_LENS);
    for (int f = 0; f < 6; f++) {
      attend_form form;
      if (forms[f]) OK(r.s.ctx, attend_form_parse(r.s.ctx, forms[f], &form));
      attend_lens *lens = lens_of(&r, forms[f] ? &form : NULL);
      attend_lens_shape s;
      FOR_EACH_HEAD(lens, s, at) check_stats(r.s.ctx, lens, at);
      attend_lens_free(lens);
    }
    close_recording(&r);
  }
}

/* Weights times values are what the head gave; the denominators are sums. */
TEST(vectors_belong_together) {
  for (int k = 0; golden_models[k]; k++) {
    recording r = recorded(golden_models[k], 0, 1, FOR_A_LENS);
    attend_lens *lens = lens_of(&r, NULL);
    attend_lens_shape s;
    FOR_EACH_HEAD(lens, s, at) {
      attend_view q, key, v, out;
      float *w = whole_block(r.s.ctx, lens, at, &s);
      float *lse = zeroed_block((size_t)s.rows, sizeof *lse);
      OK(r.s.ctx, attend_lens_vectors(lens, at, &q, &key, &v, &out));
      OK(r.s.ctx, attend_lens_denominators(lens, at, lse));
      for (int i = 0; i < s.rows; i++) {
        const float *qi = (float *)q.data + i * q.stride[2];
        for (int m = 0; m < s.dim_v; m++) {
          double sum = 0;
          for (int j = 0; j < s.keys; j++)
            sum += (double)w[i * s.keys + j] * (double)((float *)v.data)[j * v.stride[2] + m];
          CHECK_NEAR(((float *)out.data)[i * out.stride[2] + m], sum, 1e-5);
        }
        if (s.biased) continue;
        for (int j = 0; j < s.keys; j++) {
          const float *kj = (float *)key.data + j * key.stride[2];
          double score = 0;
          for (int d = 0; d < s.dim; d++) score += (double)qi[d] * (double)kj[d] * (double)s.scale;
          if (w[i * s.keys + j] > 0)
            CHECK_NEAR(w[i * s.keys + j], exp(score - (double)lse[i]), 1e-5);
        }
      }
      free(w), free(lse);
    }
    attend_lens_free(lens);
    close_recording(&r);
  }
}

/* ---- what cannot be ------------------------------------------------------------------------- */

TEST(places_that_are_not_there) {
  recording r = recorded("llama-gqa", 0, 1, FOR_A_LENS);
  attend_lens *lens = lens_of(&r, NULL);
  const attend_role self = ATTEND_DECODER_SELF;
  const attend_head_id bad[] = {{ATTEND_CROSS, 0, 0},   {ATTEND_ENCODER_SELF, 0, 0},
                                {(attend_role)7, 0, 0}, {self, -1, 0},
                                {self, 3, 0},           {self, 0, 6},
                                {self, 0, -1}};
  float w[4];
  int32_t ids[64] = {0};
  attend_pattern_scores pattern;
  attend_pattern_options o = {ATTEND_INIT(attend_pattern_options), ids, ids, NULL, 0};
  attend_area area = {0, 2, 0, 2, 1, 1, ATTEND_POOL_MAX, 0};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    CHECK_EQ(attend_lens_block(lens, bad[i], 0, 1, 0, 1, w), ATTEND_INVALID);
    CHECK_EQ(attend_lens_pool(lens, bad[i], &area, NULL, w, NULL), ATTEND_INVALID);
    CHECK_EQ(attend_lens_pattern(lens, bad[i], &o, &pattern), ATTEND_INVALID);
    CHECK(attend_message(r.s.ctx)[0]);
  }
  const attend_head_id at = {self, 0, 0};
  int n = r.decoded;
  CHECK_EQ(attend_lens_block(lens, at, n, 1, 0, 1, w), ATTEND_INVALID);
  CHECK_EQ(attend_lens_block(lens, at, 0, 1, -1, 1, w), ATTEND_INVALID);
  CHECK_EQ(attend_lens_block(lens, at, 1, n, 0, 1, w), ATTEND_INVALID);
  CHECK_EQ(attend_lens_block(lens, at, 1, 1, 1, INT32_MAX, w), ATTEND_INVALID);
  attend_lens_free(lens);
  close_recording(&r);
  r = recorded("llama-gqa", 0, 1, ATTEND_AT_QUERY | ATTEND_AT_KEY);
  lens = lens_of(&r, NULL);
  CHECK_EQ(attend_lens_block(lens, at, 0, 1, 0, 1, w), ATTEND_INVALID);
  CHECK_SAYS(attend_message(r.s.ctx), "denominator");
  attend_lens_free(lens);
  close_recording(&r);
}

typedef struct {
  attend_trace *trace;
  int left; /* layers until it stops */
} stopper;

static void pass_on(const attend_hooked *sight, void *user) {
  attend_trace_read(sight, ((stopper *)user)->trace);
}
static int stop(void *user) { return ((stopper *)user)->left-- == 0; }

/* A call that was stopped has been seen by some layers alone. */
TEST(traces_of_part_of_a_run) {
  recording r = open_recording("llama-gqa", 0, 1, FOR_A_LENS, 0);
  int layers = r.s.config->decoder.layers;
  for (int seen = 1; seen <= layers; seen++) {
    stopper s = {r.trace, layers + seen};
    attend_hook hook = {ATTEND_INIT(attend_hook), .points = FOR_A_LENS, .read = pass_on,
                        .user = &s};
    attend_status want = seen < layers ? ATTEND_INVALID : ATTEND_OK;
    float w[13 * 13];
    attend_trace_clear(r.trace);
    attend_session_reset(r.run);
    attend_session_set_hooks(r.run, 1, &hook);
    attend_session_set_stop(r.run, stop, &s);
    OK(r.s.ctx, attend_session_extend(r.run, 1, 5, r.target, NULL));
    CHECK_EQ(attend_session_extend(r.run, 1, 3, r.target + 5, NULL),
             seen < layers ? ATTEND_STOPPED : ATTEND_OK);
    attend_lens *lens = lens_of(&r, NULL);
    attend_head_id last = {ATTEND_DECODER_SELF, layers - 1, 0};
    CHECK_EQ(attend_lens_block(lens, last, 0, 8, 0, 8, w), want);
    if (want) CHECK_SAYS(attend_message(r.s.ctx), "record");
    attend_lens_free(lens);
  }
  close_recording(&r);
}

TEST(traces_of_another_model) {
  recording r = recorded("gpt2", 0, 1, FOR_A_LENS);
  subject other = open_path(r.s.ctx, model_path("llama-gqa", NULL), NULL);
  attend_lens *lens;
  float w[4];
  attend_head_id at = {ATTEND_DECODER_SELF, 0, 5};
  OK(r.s.ctx, attend_lens_create(other.model, r.trace, NULL, 0, &lens));
  CHECK_EQ(attend_lens_block(lens, at, 0, 2, 0, 2, w), ATTEND_INVALID);
  attend_lens_free(lens);
  close_files(&other);
  close_recording(&r);
}
