/* The definition over every form, mask and bias: its backward pass against
 * central differences of its forward pass, and what must not matter. */
#include "attend/problem.h"
#include "attend/attend.h"
#include "check.h"

static attend_context *context(void) {
  static attend_context *ctx;
  if (!ctx) attend_context_create(NULL, &ctx);
  return ctx;
}

#define OK(call)                                                      \
  do {                                                                \
    if (call) CHECK_FAIL("%s: %s", #call, attend_message(context())); \
  } while (0)

/* ---- every form, mask and bias ------------------------------------------ */

/* Signed, not a function of q.k alone, with a user number. */
static double crooked(const double *q, const double *k, int dim, double *dq, double *dk,
                      void *user) {
  double lift = *(const double *)user, sim = lift;
  for (int x = 0; x < dim; x++) {
    sim += q[x] * k[x] * k[x] + x * sin(q[x]);
    if (dq) dq[x] = k[x] * k[x] + x * cos(q[x]);
    if (dk) dk[x] = 2 * q[x] * k[x];
  }
  return sim;
}

/* A phi whose floats are exact on the grid that `fill` and the differences
 * use, and whose corners lie beside it; keys and queries differ. */
static float corner(int key) { return key ? -0x1p-9f : 0x1p-9f; }

static void bent(const float *x, int dim, int key, float *features, int count, void *user) {
  (void)user;
  for (int c = 0; c < count; c++) {
    float at = x[c % dim] - corner(key), lift = key ? 0.5f : 0.25f;
    features[c] = c < dim ? fabsf(at) + lift : at * 0.25f;
  }
}

static void bent_backward(const float *x, int dim, int key, const float *dfeatures, int count,
                          float *dx, void *user) {
  (void)user;
  for (int i = 0; i < dim; i++) dx[i] = 0;
  for (int c = 0; c < count; c++) {
    float at = x[c % dim] - corner(key), side = at > 0 ? 1.0f : -1.0f;
    dx[c % dim] += (c < dim ? side : 0.25f) * dfeatures[c];
  }
}

enum { B = 2, H = 4, G = 2, T = 3, S = 5, D = 3, M = 2, BUCKET_COUNT = 4 };
enum {
  Q_COUNT = B * H * T * D,
  K_COUNT = B * G * S * D,
  V_COUNT = B * G * S * M,
  O_COUNT = B * H * T * M,
  BIAS_COUNT = B * H * T * S
};

static struct {
  float q[Q_COUNT], k[K_COUNT], v[V_COUNT], d_o[O_COUNT], bias[BIAS_COUNT];
  double dq[Q_COUNT], dk[K_COUNT], dv[V_COUNT], dbias[BIAS_COUNT];
  double o[O_COUNT], lse[B * H * T];
} data;

static const int32_t lengths[B] = {4, 0};
static const uint8_t key_mask[B * S] = {0, 1, 1, 0, 1, 1, 1, 0, 0, 0};
static double lift = 9;

static attend_form forms(int n) {
  const attend_form all[] = {
      {.kind = ATTEND_SOFTMAX},
      {.kind = ATTEND_ARGMAX},
      {.kind = ATTEND_ARGMAX, .ties = ATTEND_TIES_AVERAGE},
      {.kind = ATTEND_ARGMAX, .temperature = 0.5f},
      {.kind = ATTEND_POLY, .a = 0.5f, .c = 1},
      {.kind = ATTEND_POLY, .degree = 3, .a = 0.25f, .c = 3},
      {.kind = ATTEND_POLY, .degree = 1, .c = 9},
      {.kind = ATTEND_GAUSSIAN},
      {.kind = ATTEND_CUSTOM, .sim = crooked, .user = &lift},
      {.kind = ATTEND_ELU},
      {.kind = ATTEND_FAVOR, .features = 5, .draw = ATTEND_IID, .seed = 3},
      {.kind = ATTEND_FAVOR, .features = 8, .pairs = 1, .redraw = 2},
      {.kind = ATTEND_FOURIER, .features = 12, .sigma = 4},
      {.kind = ATTEND_GAUSSIAN, .features = 4},
      {.kind = ATTEND_GAUSSIAN, .features = 16, .map = ATTEND_TRIGONOMETRIC, .sigma = 4},
      {.kind = ATTEND_CUSTOM, .phi = bent, .phi_backward = bent_backward, .features = 5},
  };
  return n < (int)(sizeof all / sizeof *all) ? all[n] : (attend_form){0};
}
enum { FORM_COUNT = 16 };

static attend_mask masks(int n) {
  const attend_mask all[] = {
      {0},
      {.causal = ATTEND_CAUSAL_TOP},
      {.causal = ATTEND_CAUSAL_BOTTOM},
      {.window = 2},
      {.causal = ATTEND_CAUSAL_BOTTOM, .window = 2},
      {.lengths = lengths},
      {.key_mask = key_mask, .causal = ATTEND_CAUSAL_TOP},
  };
  return all[n];
}
enum { MASK_COUNT = 7 };

/* Two sorts of bucket and two of dense: whole, and one row for all heads. */
static attend_bias biases(int n) {
  const attend_bias all[] = {
      {0},
      {.kind = ATTEND_ALIBI, .slopes = data.bias},
      {.kind = ATTEND_BUCKETS, .buckets = BUCKET_COUNT, .table = data.bias},
      {.kind = ATTEND_BUCKETS, .buckets = BUCKET_COUNT, .table = data.bias, .one_sided = 1},
      {.kind = ATTEND_DENSE, .dense = {data.bias, {0, 0, 0, 0}}},
      {.kind = ATTEND_DENSE, .dense = {data.bias, {T * S, 0, S, 1}}},
  };
  return all[n];
}
enum { BIAS_KINDS = 6 };

/* Multiples of 2^-8 below 4, so that a step of 2^-12 is exact in f32. */
static void fill(float *x, int n, uint64_t stream) {
  attend_random_normal((attend_random){11, stream}, 0, (size_t)n, x);
  for (int i = 0; i < n; i++) x[i] = nearbyintf(256 * fmaxf(-3, fminf(3, x[i]))) / 256;
}

static attend_desc prepare(int form, int mask, int bias) {
  fill(data.q, Q_COUNT, 1);
  fill(data.k, K_COUNT, 2);
  fill(data.v, V_COUNT, 3);
  fill(data.d_o, O_COUNT, 4);
  fill(data.bias, BIAS_COUNT, 5);
  for (int n = 0; n < BIAS_COUNT; n++) data.bias[n] *= 0.25f;
  attend_desc d = {ATTEND_INIT(attend_desc),
                   .batch = B,
                   .heads = H,
                   .kv_heads = G,
                   .q_len = T,
                   .kv_len = S,
                   .dim = D,
                   .dim_v = M,
                   .form = forms(form),
                   .mask = masks(mask),
                   .bias = biases(bias)};
  return d;
}

static void forward(const attend_desc *d) {
  OK(attend_definition_forward(context(), d, attend_bhtd(data.q), attend_bhtd(data.k),
                               attend_bhtd(data.v), data.o, data.lse));
}

static void backward(const attend_desc *d) {
  OK(attend_definition_backward(context(), d, attend_bhtd(data.q), attend_bhtd(data.k),
                                attend_bhtd(data.v), attend_bhtd(data.d_o), data.dq, data.dk,
                                data.dv, data.dbias));
}

static double loss(const attend_desc *d) {
  double sum = 0;
  forward(d);
  for (int n = 0; n < O_COUNT; n++) sum += data.o[n] * data.d_o[n];
  return sum;
}

static void check_slope(const attend_desc *d, const char *name, float *x, double gradient) {
  const float step = 0x1p-12f, here = *x;
  *x = here + step;
  double above = loss(d);
  *x = here - step;
  double below = loss(d);
  *x = here;
  double slope = (above - below) / (2 * (double)step);
  if (!(fabs(slope - gradient) <= 1e-5 * (1 + fabs(slope))))
    CHECK_FAIL("%s[form %d]: %.9g, by differences %.9g", name, (int)d->form.kind, gradient, slope);
}

/* The broadcast dense bias: one number moves every head of its row. */
static double dense_gradient(const attend_desc *d, int n) {
  double sum = 0;
  if (!d->bias.dense.stride[3]) return data.dbias[n];
  int b = n / (T * S);
  for (int h = 0; h < H; h++) sum += data.dbias[(b * H + h) * T * S + n % (T * S)];
  return sum;
}

static void check_bias_slopes(const attend_desc *d) {
  int count[] = {0, H, BUCKET_COUNT * H, BIAS_COUNT};
  int n_bias = d->bias.dense.stride[3] ? B * T * S : count[d->bias.kind];
  for (int n = 0; n < n_bias; n++) check_slope(d, "dbias", data.bias + n, dense_gradient(d, n));
}

static void check_slopes(int form, int mask, int bias) {
  attend_desc d = prepare(form, mask, bias);
  backward(&d);
  int failures = check_failures;
  for (int n = 0; n < Q_COUNT; n++) check_slope(&d, "dq", data.q + n, data.dq[n]);
  for (int n = 0; n < K_COUNT; n++) check_slope(&d, "dk", data.k + n, data.dk[n]);
  for (int n = 0; n < V_COUNT; n++) check_slope(&d, "dv", data.v + n, data.dv[n]);
  check_bias_slopes(&d);
  if (check_failures > failures) printf("with form %d, mask %d, bias %d\n", form, mask, bias);
}

TEST(backward_is_the_slope_of_forward) {
  for (int form = 0; form < FORM_COUNT; form++)
    for (int mask = 0; mask < MASK_COUNT; mask++)
      for (int bias = 0; bias < BIAS_KINDS; bias++) check_slopes(form, mask, bias);
}

/* Differences of zero would pass with gradients of zero. */
TEST(gradients_are_alive) {
  for (int form = 0; form < FORM_COUNT; form++) {
    attend_desc d = prepare(form, 0, 4);
    double sum_q = 0, sum_k = 0, sum_v = 0, sum_bias = 0;
    backward(&d);
    for (int n = 0; n < Q_COUNT; n++) sum_q += fabs(data.dq[n]);
    for (int n = 0; n < K_COUNT; n++) sum_k += fabs(data.dk[n]);
    for (int n = 0; n < V_COUNT; n++) sum_v += fabs(data.dv[n]);
    for (int n = 0; n < BIAS_COUNT; n++) sum_bias += fabs(data.dbias[n]);
    int hard = d.form.kind == ATTEND_ARGMAX && d.form.temperature == 0;
    CHECK_EQ(sum_q > 0.1, !hard);
    CHECK_EQ(sum_k > 0.1, !hard);
    CHECK_EQ(sum_bias > 0.1, !hard);
    CHECK(sum_v > 0.1);
  }
}

/* ---- what is not seen --------------------------------------------------- */

static int seen_by_any(const attend_desc *d, int b, int j) {
  for (int i = 0; i < T; i++)
    if (attend_visible(d, b, i, j)) return 1;
  return 0;
}

static int poison(const attend_desc *d) {
  int poisoned = 0;
  for (int n = 0; n < B * G * S; n++) {
    if (seen_by_any(d, n / (G * S), n % S)) continue;
    for (int x = 0; x < D; x++) data.k[n * D + x] = NAN;
    for (int x = 0; x < M; x++) data.v[n * M + x] = NAN;
    poisoned++;
  }
  return poisoned;
}

TEST(masked_nan_changes_nothing) {
  int poisoned = 0;
  for (int form = 0; form < FORM_COUNT; form++)
    for (int mask = 0; mask < MASK_COUNT; mask++) {
      static double before[sizeof data / sizeof(double)];
      size_t results = sizeof data - (size_t)((char *)data.dq - (char *)&data);
      attend_desc d = prepare(form, mask, 1);
      forward(&d);
      backward(&d);
      memcpy(before, data.dq, results);
      poisoned += poison(&d);
      forward(&d);
      backward(&d);
      CHECK(!memcmp(before, data.dq, results));
    }
  CHECK(poisoned > 100);
}

TEST(dead_rows_are_zero) {
  for (int form = 0; form < FORM_COUNT; form++) {
    attend_desc d = prepare(form, 5, 4); /* entry 1 has no key */
    int direct = attend_form_signed(&d.form);
    for (int n = Q_COUNT / 2; n < Q_COUNT; n++) data.q[n] = NAN;
    for (int n = O_COUNT / 2; n < O_COUNT; n++) data.d_o[n] = NAN;
    forward(&d);
    backward(&d);
    for (int n = 0; n < B * H * T; n++) {
      int dead = n >= B * H * T / 2;
      CHECK_EQ(data.lse[n] == (direct ? 0 : -INFINITY), dead);
      for (int x = 0; x < M; x++) CHECK_EQ(data.o[n * M + x] == 0, dead);
    }
    for (int n = Q_COUNT / 2; n < Q_COUNT; n++) CHECK(data.dq[n] == 0);
    for (int n = K_COUNT / 2; n < K_COUNT; n++) CHECK(data.dk[n] == 0);
    for (int n = V_COUNT / 2; n < V_COUNT; n++) CHECK(data.dv[n] == 0);
    for (int n = BIAS_COUNT / 2; n < BIAS_COUNT; n++) CHECK(data.dbias[n] == 0);
  }
}

TEST(weights_add_to_one) {
  static double w[BIAS_COUNT];
  for (int form = 0; form < FORM_COUNT; form++)
    for (int mask = 0; mask < MASK_COUNT; mask++) {
      attend_desc d = prepare(form, mask, 1);
      OK(attend_definition_weights(context(), &d, attend_bhtd(data.q), attend_bhtd(data.k), w));
      for (int n = 0; n < B * H * T; n++) {
        double sum = 0;
        int b = n / (H * T), any = 0;
        for (int j = 0; j < S; j++) {
          int visible = attend_visible(&d, b, n % T, j);
          sum += w[n * S + j];
          any |= visible;
          CHECK(visible || w[n * S + j] == 0);
        }
        CHECK_NEAR(sum, any, 1e-12);
      }
    }
}
