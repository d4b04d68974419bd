/* Looking at linear forms: the weights that features imply are those of the
 * definition, in every way of asking. */
#include "attention_fixtures.h"

static const char *const PROBLEMS[] = {
    "elu:b2h4g2n130d24v40:causal",         "elu:b1h2n70x150d7:lengths",
    "favor(m=40):b2h2n130d16:causal:bf16", "favor(m=32,kind=pair):b1h2n130x90d16:bottom:padleft",
    "gaussian(m=64):b1h2n130d8",           "poly(p=2,c=1):b1h2n200d4:causal",
    "fourier(m=256):b1h2n40d4:scale=0.05", "gaussian(m=256,map=fourier,sigma=6):b1h2n40d4:causal",
};
enum { CASES = sizeof PROBLEMS / sizeof *PROBLEMS, TOP = 3 };

typedef struct {
  attend_context *ctx;
  attend_tensors t;
  attend_plan *plan;
  double *want; /* [B,H,T,S] */
  size_t rows;
} seen;

static void open_seen(const char *isa, const char *problem, seen *x) {
  x->ctx = open_context(isa, 2, NULL);
  x->t = make_tensors(x->ctx, problem, 5);
  attend_desc *d = &x->t.desc;
  d->engine = "linear";
  x->plan = make_plan(x->ctx, d);
  x->rows = rows_of(d);
  x->want = zeroed_block(x->rows * (size_t)d->kv_len, sizeof *x->want);
  OK(x->ctx, attend_definition_weights(x->ctx, d, x->t.q, x->t.k, x->want));
  OK(x->ctx, attend_forward(x->plan, x->t.q, x->t.k, x->t.v, x->t.o, x->t.lse));
}

static void close_seen(seen *x) {
  free(x->want);
  attend_plan_free(x->plan);
  attend_tensors_free(x->ctx, &x->t);
  attend_context_free(x->ctx);
}

static double largest_in(const double *x, int n) {
  double max = 0;
  for (int i = 0; i < n; i++) max = fabs(x[i]) > max ? fabs(x[i]) : max;
  return max;
}

TEST(whole_rows) {
  for (int i = 0; i < CASES; i++) FOR_EACH_ISA(isa) {
      seen x;
      open_seen(isa, PROBLEMS[i], &x);
      const attend_desc *d = &x.t.desc;
      int S = d->kv_len;
      const int32_t rows[] = {d->q_len - 1, 0, d->q_len / 2};
      float *w = zeroed_block((size_t)(d->batch * d->heads * 3 * S), sizeof *w);
      attend_observation look = {ATTEND_INIT(attend_observation), .rows = rows, .n_rows = 3,
                                 .weights = w};
      OK(x.ctx, attend_observe(x.plan, x.t.q, x.t.k, x.t.lse, &look));
      for (int h = 0; h < d->batch * d->heads; h++)
        for (int r = 0; r < 3; r++) {
          const double *want = x.want + ((size_t)h * (size_t)d->q_len + (size_t)rows[r]) * S;
          double bound = 1e-4 * (largest_in(want, S) + 1e-30);
          for (int j = 0; j < S; j++) CHECK_NEAR((double)w[(h * 3 + r) * S + j], want[j], bound);
        }
      free(w);
      close_seen(&x);
    }
}

TEST(statistics_are_those_of_whole_rows) {
  for (int i = 0; i < CASES; i++) {
    seen x;
    open_seen(NULL, PROBLEMS[i], &x);
    const attend_desc *d = &x.t.desc;
    size_t S = (size_t)d->kv_len, heads = (size_t)(d->batch * d->heads);
    float *entropy = zeroed_block(x.rows, 4), *mass = zeroed_block(heads * S, 4);
    float *weight = zeroed_block(x.rows * TOP, 4);
    int32_t *index = zeroed_block(x.rows * TOP, 4);
    attend_observation look = {ATTEND_INIT(attend_observation),
                               .top = TOP,
                               .top_index = index,
                               .top_weight = weight,
                               .entropy = entropy,
                               .mass = mass};
    OK(x.ctx, attend_observe(x.plan, x.t.q, x.t.k, x.t.lse, &look));
    double *sum = zeroed_block(heads * S, sizeof *sum);
    for (size_t r = 0; r < x.rows; r++) {
      const double *want = x.want + r * S;
      double h = 0, scale = largest_in(want, (int)S) + 1e-30;
      for (size_t j = 0; j < S; j++) {
        if (want[j] > 0) h -= want[j] * log(want[j]);
        sum[r / (size_t)d->q_len * S + j] += want[j];
      }
      CHECK_NEAR((double)entropy[r], h, 2e-3 * (1 + scale));
      for (int n = 0; n < TOP; n++) {
        int32_t at = index[r * TOP + (size_t)n];
        double got = (double)weight[r * TOP + (size_t)n];
        if (at >= 0) CHECK_NEAR(got, want[at], 1e-4 * scale);
        if (at >= 0 && n) CHECK(got <= (double)weight[r * TOP + (size_t)n - 1]);
      }
    }
    for (size_t j = 0; j < heads * S; j++)
      CHECK_NEAR((double)mass[j], sum[j], 2e-3 * (1 + fabs(sum[j])));
    free(entropy), free(mass), free(weight), free(index), free(sum);
    close_seen(&x);
  }
}

/* The gap to softmax, against two definitions. */
TEST(the_gap_to_softmax) {
  for (int i = 0; i < CASES; i++) {
    seen x;
    open_seen(NULL, PROBLEMS[i], &x);
    attend_desc soft = x.t.desc;
    size_t S = (size_t)soft.kv_len;
    double *exact = zeroed_block(x.rows * S, sizeof *exact);
    float *gap = zeroed_block(x.rows, sizeof *gap);
    soft.form = (attend_form){.kind = ATTEND_SOFTMAX};
    soft.engine = NULL;
    OK(x.ctx, attend_definition_weights(x.ctx, &soft, x.t.q, x.t.k, exact));
    attend_observation look = {ATTEND_INIT(attend_observation), .softmax_gap = gap};
    OK(x.ctx, attend_observe(x.plan, x.t.q, x.t.k, x.t.lse, &look));
    for (size_t r = 0; r < x.rows; r++) {
      double want = 0;
      for (size_t j = 0; j < S; j++) want += fabs(x.want[r * S + j] - exact[r * S + j]) / 2;
      CHECK_NEAR((double)gap[r], want, 1e-3 * (1 + want));
    }
    free(exact), free(gap);
    close_seen(&x);
  }
}

TEST(what_cannot_be_observed_says_so) {
  attend_context *ctx = open_context(NULL, 1, NULL);
  attend_desc d = {ATTEND_INIT(attend_desc),
                   .form.kind = ATTEND_ELU,
                   .q_len = 4,
                   .dim = 4,
                   .mask.causal = ATTEND_CAUSAL_BOTTOM,
                   .purpose = ATTEND_FOR_EXTEND};
  attend_plan *plan = make_plan(ctx, &d);
  attend_state *s;
  float q[16] = {0}, lse[4] = {0};
  OK(ctx, attend_state_create(plan, &s));
  CHECK_EQ(
      attend_state_observe(plan, s, 1, attend_bhtd(q), lse,
                           &(attend_observation){ATTEND_INIT(attend_observation), .entropy = lse}),
      ATTEND_INVALID);
  CHECK_SAYS(attend_message(ctx), "store the keys");
  attend_state_free(s);
  attend_plan_free(plan);
  attend_context_free(ctx);
}
