/* A lens of another form shows what attend_forward and attend_observe give on
 * the recorded queries, keys and values; and any lens shows the same bits on any
 * number of threads. */
#include "trace_fixtures.h"

static const char *const forms[] = {"softmax",
                                    "argmax",
                                    "argmax(ties=average)",
                                    "argmax(t=0.5)",
                                    "gaussian",
                                    "poly(p=2,c=1)",
                                    "elu",
                                    "favor(m=32,seed=3)",
                                    "gaussian(m=64)",
                                    "fourier(m=128)",
                                    NULL};

/* ---- against the library, all heads together --------------------------------------------- */

typedef struct {
  attend_plan *plan;
  float *o, *lse, *weights; /* [H,T,M], [H,T], [H,T,S] */
} direct;

static direct run_direct(const recording *r, const attend_form *form, attend_role role, int layer,
                         int real, int32_t *lengths) {
  attend_hooked q, k, v;
  attend_desc d = {ATTEND_INIT(attend_desc)};
  direct x;
  CHECK(attend_trace_get(r->trace, ATTEND_AT_QUERY, role, layer, &q));
  CHECK(attend_trace_get(r->trace, ATTEND_AT_KEY, role, layer, &k));
  CHECK(attend_trace_get(r->trace, ATTEND_AT_VALUE, role, layer, &v));
  CHECK(attend_model_attention(r->s.model, role, layer, &d));
  d.form = *form;
  d.batch = 1;
  d.q_len = q.shape[2];
  d.kv_len = k.shape[2];
  *lengths = real;
  if (role != ATTEND_DECODER_SELF) d.mask.lengths = lengths;
  x.plan = make_plan(r->s.ctx, &d);
  size_t rows = (size_t)d.heads * (size_t)d.q_len;
  x.o = zeroed_block(rows * (size_t)d.dim_v, sizeof *x.o);
  x.lse = zeroed_block(rows, sizeof *x.lse);
  x.weights = zeroed_block(rows * (size_t)d.kv_len, sizeof *x.weights);
  int32_t *all = zeroed_block((size_t)d.q_len, sizeof *all);
  for (int i = 0; i < d.q_len; i++) all[i] = i;
  attend_observation look = {ATTEND_INIT(attend_observation), .rows = all, .n_rows = d.q_len,
                             .weights = x.weights};
  OK(r->s.ctx, attend_forward(x.plan, attend_input(q.view), attend_input(k.view),
                              attend_input(v.view), attend_bhtd(x.o), x.lse));
  OK(r->s.ctx, attend_observe(x.plan, attend_input(q.view), attend_input(k.view), x.lse, &look));
  free(all);
  return x;
}

static void free_direct(direct *x) {
  attend_plan_free(x->plan);
  free(x->o), free(x->lse), free(x->weights);
}

static void check_head(const recording *r, attend_lens *lens, attend_head_id at, const direct *x) {
  attend_lens_shape s;
  attend_view out;
  float *w = whole_block(r->s.ctx, lens, at, &s);
  float *lse = zeroed_block((size_t)s.rows, sizeof *lse);
  OK(r->s.ctx, attend_lens_vectors(lens, at, NULL, NULL, NULL, &out));
  OK(r->s.ctx, attend_lens_denominators(lens, at, lse));
  for (int i = 0; i < s.rows; i++) {
    int row = at.head * s.rows + i;
    for (int j = 0; j < s.keys; j++) {
      double want = (double)x->weights[row * s.keys + j];
      CHECK_NEAR(w[i * s.keys + j], want, 1e-6 * (1 + fabs(want)));
    }
    for (int m = 0; m < s.dim_v; m++) {
      double want = (double)x->o[row * s.dim_v + m];
      CHECK_NEAR(((float *)out.data)[i * out.stride[2] + m], want, 1e-5 * (1 + fabs(want)));
    }
    CHECK_NEAR(lse[i], x->lse[row], 1e-5 * (1 + fabs((double)x->lse[row])));
  }
  free(w), free(lse);
}

TEST(another_form_is_that_form) {
  static const char *const names[] = {"llama-gqa", "mistral-window", "bert", "bart", "t5", NULL};
  for (int k = 0; names[k]; k++)
    for (int f = 0; forms[f]; f++) {
      int failures = check_failures;
      recording r = recorded(names[k], 1, 2, FOR_A_LENS);
      attend_form form;
      OK(r.s.ctx, attend_form_parse(r.s.ctx, forms[f], &form));
      attend_lens *lens = lens_of(&r, &form);
      attend_lens_shape s;
      FOR_EACH_HEAD(lens, s, at) {
        int32_t lengths;
        CHECK_EQ(s.is_signed, attend_form_signed(&form));
        direct x = run_direct(&r, &form, at.role, at.layer, s.real_keys, &lengths);
        check_head(&r, lens, at, &x);
        free_direct(&x);
      }
      if (check_failures > failures) printf("in %s with %s\n", names[k], forms[f]);
      attend_lens_free(lens);
      close_recording(&r);
    }
}

/* The run's own form, given by name, is the run's. */
TEST(its_own_form) {
  recording r = recorded("t5", 1, 2, FOR_A_LENS);
  attend_form softmax = {.kind = ATTEND_SOFTMAX};
  attend_lens *lens = lens_of(&r, NULL), *other = lens_of(&r, &softmax);
  attend_lens_shape s;
  FOR_EACH_HEAD(lens, s, at) {
    attend_difference d;
    OK(r.s.ctx, attend_lens_compare(lens, other, at, 0, &d));
    CHECK_NEAR(d.distance, 0, 1e-6);
    CHECK_NEAR(d.output, 0, 1e-6);
  }
  attend_lens_free(lens);
  attend_lens_free(other);
  close_recording(&r);
}

/* A model that ran with another form is seen in it. */
TEST(a_run_of_another_form) {
  for (int f = 0; forms[f]; f++) {
    attend_form form;
    recording r = open_recording("llama-gqa", 0, 2, FOR_A_LENS, 0);
    OK(r.s.ctx, attend_form_parse(r.s.ctx, forms[f], &form));
    attend_model *model;
    OK(r.s.ctx, attend_model_with_form(r.s.model, &form, &model));
    attend_session *run;
    OK(r.s.ctx, attend_session_create(model, NULL, &run));
    attend_hook hook = attend_trace_hook(r.trace);
    attend_session_set_hooks(run, 1, &hook);
    OK(r.s.ctx, read_decoder(&r, run, 5));
    OK(r.s.ctx, attend_trace_status(r.trace));
    attend_lens *lens, *named;
    OK(r.s.ctx, attend_lens_create(model, r.trace, NULL, 0, &lens));
    OK(r.s.ctx, attend_lens_create(model, r.trace, &form, 0, &named));
    attend_lens_shape s;
    FOR_EACH_HEAD(lens, s, at) {
      float *a = whole_block(r.s.ctx, lens, at, &s);
      float *b = whole_block(r.s.ctx, named, at, &s);
      for (int i = 0; i < s.rows * s.keys; i++)
        if (fabs((double)a[i] - (double)b[i]) > 1e-5 * (1 + fabs((double)b[i])))
          CHECK_FAIL("%s: layer %d, head %d: weight %d is %g, not %g", forms[f], at.layer, at.head,
                     i, (double)a[i], (double)b[i]);
      free(a), free(b);
    }
    attend_lens_free(lens);
    attend_lens_free(named);
    attend_session_free(run);
    attend_model_free(model);
    close_recording(&r);
  }
}

/* ---- threads ----------------------------------------------------------------------------------- */

typedef struct {
  unsigned char *bytes;
  size_t n, capacity;
} digest;

static void join_part(digest *to, const void *bytes, size_t n) {
  while (to->n + n > to->capacity) {
    to->capacity = 2 * to->capacity + n;
    to->bytes = realloc(to->bytes, to->capacity);
    if (!to->bytes) exit(1);
  }
  memcpy(to->bytes + to->n, bytes, n);
  to->n += n;
}

static void take_head(digest *to, attend_context *ctx, attend_lens *lens, attend_lens *other,
                      attend_head_id at, const int32_t *ids) {
  attend_lens_shape s;
  float *w = whole_block(ctx, lens, at, &s), cells[63];
  join_part(to, w, (size_t)(s.rows * s.keys) * sizeof *w);
  for (int n = 0; n < 4; n++) {
    attend_area a = {
        1, s.rows - 1, 0, s.keys, 7, 9, (attend_pool)(n % 2), n / 2 ? s.rows * s.keys / 3.0 : 0};
    OK(ctx, attend_lens_pool(lens, at, &a, n % 2 ? other : NULL, cells, NULL));
    join_part(to, cells, sizeof cells);
  }
  attend_row_stats stats = {ATTEND_INIT(attend_row_stats), .entropy = w, .mass = w + s.rows};
  OK(ctx, attend_lens_stats(lens, at, &stats));
  join_part(to, w, (size_t)(s.rows + s.keys) * sizeof *w);
  attend_pattern_options o = {ATTEND_INIT(attend_pattern_options), ids, ids, NULL, 0};
  attend_pattern_scores p;
  attend_difference d;
  OK(ctx, attend_lens_pattern(lens, at, &o, &p));
  for (int i = 0; i < ATTEND_HEAD_PATTERNS; i++)
    if (!isnan(p.score[i])) join_part(to, &p.score[i], sizeof p.score[i]);
  join_part(to, &p.entropy, sizeof p.entropy);
  OK(ctx, attend_lens_compare(lens, other, at, 0, &d));
  join_part(to, &d.distance, sizeof d.distance);
  join_part(to, &d.output, sizeof d.output);
  free(w);
}

static digest digest_of(const char *name, const char *form, int threads) {
  enum { N = 170 };
  recording r = long_recording(name, N, threads);
  attend_form f, hard = {.kind = ATTEND_ARGMAX};
  digest to = {0};
  if (form) OK(r.s.ctx, attend_form_parse(r.s.ctx, form, &f));
  attend_lens *lens = lens_of(&r, form ? &f : NULL);
  attend_lens *other = lens_of(&r, &hard);
  int32_t *ids = random_ids(r.s.config, 9, N);
  attend_role role = ATTEND_DECODER_SELF;
  take_head(&to, r.s.ctx, lens, other, (attend_head_id){role, 1, 1}, ids);
  if (r.encoded) take_head(&to, r.s.ctx, lens, other, (attend_head_id){ATTEND_CROSS, 0, 3}, ids);
  int layers = r.s.config->decoder.layers, n;
  size_t floats = (size_t)((layers + 1) * N);
  float *shares = zeroed_block(floats, sizeof *shares);
  uint8_t *reached = zeroed_block(floats, 1);
  OK(r.s.ctx, attend_lens_rollout(lens, role, N - 1, 0, shares, NULL));
  join_part(&to, shares, floats * sizeof *shares);
  OK(r.s.ctx, attend_lens_reach(lens, role, N - 1, reached, NULL, 0, &n));
  join_part(&to, reached, floats);
  free(shares), free(reached), free(ids);
  attend_lens_free(lens);
  attend_lens_free(other);
  close_recording(&r);
  return to;
}

TEST(the_same_bits_on_any_threads) {
  static const char *const names[] = {"llama-gqa", "t5", NULL};
  static const char *const some[] = {NULL, "poly(p=2,c=1)", "favor(m=32)"};
  for (int k = 0; names[k]; k++)
    for (int f = 0; f < (k ? 1 : 3); f++) {
      digest one = digest_of(names[k], some[f], 1);
      for (int threads = 2; threads <= 5; threads += 3) {
        digest more = digest_of(names[k], some[f], threads);
        CHECK_EQ(more.n, one.n);
        CHECK(more.n == one.n && !memcmp(more.bytes, one.bytes, one.n));
        free(more.bytes);
      }
      CHECK(one.n > 100000);
      free(one.bytes);
    }
}
