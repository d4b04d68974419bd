/* Pictures of heads, and how far two are apart: against brute force over all
 * weights. */
#include "trace_fixtures.h"

static int start(int c, int n, int cells) { return (int)((int64_t)c * n / cells); }

/* One cell of w [T][S], less w2 if there is one. */
static double cell(const attend_area *a, int S, const float *w, const float *w2, int y, int x) {
  double sum = 0;
  float max = 0;
  int n = 0;
  for (int i = start(y, a->rows, a->height); i < start(y + 1, a->rows, a->height); i++)
    for (int j = start(x, a->keys, a->width); j < start(x + 1, a->keys, a->width); j++, n++) {
      int where = (a->row + i) * S + a->key + j;
      float d = w2 ? w[where] - w2[where] : w[where];
      if (fabsf(d) > fabsf(max)) max = d;
      sum += (double)d;
    }
  return a->pool == ATTEND_POOL_MAX ? (double)max : sum / n;
}

static void check_area(attend_context *ctx, attend_lens *lens, attend_lens *other,
                       attend_head_id at, const attend_area *a, int S, const float *w,
                       const float *w2) {
  float *cells = zeroed_block((size_t)(a->height * a->width), sizeof *cells);
  int looked = -1;
  OK(ctx, attend_lens_pool(lens, at, a, other, cells, &looked));
  CHECK_EQ(looked, a->rows);
  for (int i = 0; i < a->height * a->width; i++) {
    double want = cell(a, S, w, w2, i / a->width, i % a->width);
    CHECK_NEAR(cells[i], want, a->pool == ATTEND_POOL_MAX ? 0 : 1e-6 * (1 + fabs(want)));
  }
  free(cells);
}

static void check_areas(attend_context *ctx, attend_lens *lens, attend_lens *other,
                        attend_head_id at) {
  attend_lens_shape s;
  float *w = whole_block(ctx, lens, at, &s);
  float *w2 = other ? whole_block(ctx, other, at, &s) : NULL;
  const int T = s.rows, S = s.keys;
  const int areas[][4] = {{0, T, 0, S},
                          {3, T - 3, 1, S - 1},
                          {T / 2, 1, S / 3, 5},
                          {T / 3, T / 2, S - 1, 1},
                          {0, 7, 0, S}};
  const int shapes[][2] = {{1, 1}, {2, 3}, {7, 5}, {13, 64}, {100, 11}, {1 << 20, 1 << 20}};
  for (int n = 0; n < 5 * 6 * 2; n++) {
    const int *size = areas[n / 12], *cells = shapes[n / 2 % 6];
    attend_area a = {size[0], size[1], size[2], size[3], cells[0], cells[1], (attend_pool)(n % 2),
                     0};
    if (a.height > a.rows) a.height = a.rows;
    if (a.width > a.keys) a.width = a.keys;
    check_area(ctx, lens, other, at, &a, S, w, w2);
  }
  free(w), free(w2);
}

static const char *const names[] = {"gpt2", "mistral-window", "t5", NULL};

TEST(cells_hold_what_is_in_them) {
  for (int k = 0; names[k]; k++) {
    recording r = long_recording(names[k], k ? 150 : 60, 2);
    attend_lens *lens = lens_of(&r, NULL);
    check_areas(r.s.ctx, lens, NULL, (attend_head_id){ATTEND_DECODER_SELF, 1, 2});
    if (r.encoded) check_areas(r.s.ctx, lens, NULL, (attend_head_id){ATTEND_CROSS, 0, 1});
    attend_lens_free(lens);
    close_recording(&r);
  }
}

TEST(cells_of_a_difference) {
  for (int k = 0; names[k]; k++) {
    recording r = long_recording(names[k], k ? 150 : 60, 2);
    attend_form poly = {.kind = ATTEND_POLY, .degree = 3}; /* signed */
    attend_lens *lens = lens_of(&r, NULL), *other = lens_of(&r, &poly);
    attend_head_id at = {ATTEND_DECODER_SELF, 0, 1};
    check_areas(r.s.ctx, lens, other, at);
    check_areas(r.s.ctx, other, lens, at);
    check_areas(r.s.ctx, other, NULL, at);
    attend_area all = {0, r.s.config->positions ? 60 : 100, 0, 60, 6, 6, ATTEND_POOL_MAX, 0};
    float cells[36];
    OK(r.s.ctx, attend_lens_pool(lens, at, &all, lens, cells, NULL));
    for (int i = 0; i < 36; i++) CHECK(cells[i] == 0);
    attend_lens_free(lens);
    attend_lens_free(other);
    close_recording(&r);
  }
}

TEST(areas_that_are_refused) {
  recording r = long_recording("gpt2", 60, 1);
  recording longer = long_recording("gpt2", 61, 1);
  attend_lens *lens = lens_of(&r, NULL), *other = lens_of(&longer, NULL);
  attend_head_id at = {ATTEND_DECODER_SELF, 0, 0};
  const int bad[][6] = {{0, 61, 0, 60, 1, 1}, {0, 60, 1, 60, 1, 1}, {-1, 9, 0, 60, 1, 1},
                        {0, 60, -1, 9, 1, 1}, {0, 0, 0, 60, 1, 1},  {0, 60, 0, 0, 1, 1},
                        {0, 60, 0, 60, 0, 1}, {0, 60, 0, 60, 1, 0}, {0, 9, 0, 60, 10, 1},
                        {0, 60, 0, 9, 1, 10}};
  float cells[16];
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    attend_area a = {bad[i][0], bad[i][1], bad[i][2],       bad[i][3],
                     bad[i][4], bad[i][5], ATTEND_POOL_MAX, 0};
    CHECK_EQ(attend_lens_pool(lens, at, &a, NULL, cells, NULL), ATTEND_INVALID);
  }
  attend_area a = {0, 60, 0, 60, 1, 1, ATTEND_POOL_MAX, 0};
  attend_difference d;
  CHECK_EQ(attend_lens_pool(lens, at, &a, other, cells, NULL), ATTEND_INVALID);
  CHECK_SAYS(attend_message(r.s.ctx), "60 x 60");
  CHECK_EQ(attend_lens_compare(lens, other, at, 0, &d), ATTEND_INVALID);
  attend_lens_free(lens);
  attend_lens_free(other);
  close_recording(&r);
  close_recording(&longer);
}

/* ---- from some of the rows -------------------------------------------------------------- */

/* Counts the pairs that are computed for a question. */
static double counted(const double *q, const double *k, int dim, double *dq, double *dk,
                      void *user) {
  (void)dq, (void)dk;
  ++*(long *)user;
  double sum = 0;
  for (int i = 0; i < dim; i++) sum += q[i] * k[i];
  return 1 + sum * sum;
}

/* As many rows as it says, no more pairs than were allowed (but for one row in
 * every row of cells), and every cell has its share. */
TEST(as_many_rows_as_it_says) {
  recording r = recorded("bert", 0, 1, FOR_A_LENS);
  long pairs = 0;
  attend_form form = {.kind = ATTEND_CUSTOM, .sim = counted, .user = &pairs};
  attend_lens *lens = lens_of(&r, &form);
  attend_head_id at = {ATTEND_ENCODER_SELF, 1, 1};
  attend_lens_shape s;
  float *w = whole_block(r.s.ctx, lens, at, &s), cells[144];
  int32_t ids[64] = {0};
  for (int max = 0; max < s.rows * s.keys + 20; max += 5) {
    for (int height = 1; height <= s.rows; height += 3) {
      attend_area a = {0, s.rows, 0, s.keys, height, 3, ATTEND_POOL_MAX, max};
      int looked;
      pairs = 0;
      OK(r.s.ctx, attend_lens_pool(lens, at, &a, NULL, cells, &looked));
      CHECK_EQ(pairs, (long)looked * s.real_keys);
      CHECK(looked >= height && looked <= s.rows);
      CHECK(!max || looked <= height || looked * s.keys <= max);
      CHECK((max && max < s.rows * s.keys) || looked == s.rows);
      for (int i = 0; i < height * 3; i++) /* not more than there is */
        CHECK((double)cells[i] <= cell(&a, s.keys, w, NULL, i / 3, i % 3));
    }
    attend_pattern_options o = {ATTEND_INIT(attend_pattern_options), ids, ids, NULL, max};
    attend_pattern_scores p;
    attend_difference d;
    pairs = 0;
    OK(r.s.ctx, attend_lens_pattern(lens, at, &o, &p));
    CHECK_EQ(pairs, (long)p.rows_sampled * s.real_keys);
    pairs = 0;
    OK(r.s.ctx, attend_lens_compare(lens, lens, at, max, &d));
    CHECK_EQ(pairs, 2L * d.rows_sampled * s.real_keys);
  }
  free(w);
  attend_lens_free(lens);
  close_recording(&r);
}

/* A head whose queries are all alike has one row: some of them tell all. */
TEST(rows_that_are_all_alike) {
  enum { T = 90, D = 16 };
  attend_context *ctx = open_context(NULL, 2, NULL);
  subject s = bare_model(ctx, "bert", D, 1);
  attend_trace_options o = {ATTEND_INIT(attend_trace_options), .points = FOR_A_LENS};
  attend_trace *trace;
  attend_lens *lens;
  static float q[T * D], k[T * D], lse[T];
  OK(ctx, attend_trace_create(ctx, &o, &trace));
  attend_random_normal((attend_random){4, 1}, 0, T * D, k);
  attend_random_normal((attend_random){4, 2}, 0, D, q);
  for (int i = 0; i < T; i++) memcpy(q + i * D, q, D * sizeof *q);
  double sum = 0;
  for (int j = 0; j < T; j++) {
    double score = 0;
    for (int d = 0; d < D; d++) score += (double)(q[d] * k[j * D + d]) / 4;
    sum += exp(score);
  }
  for (int i = 0; i < T; i++) lse[i] = (float)log(sum);
  const attend_role role = ATTEND_ENCODER_SELF;
  show(trace, ATTEND_AT_QUERY, role, 0, T, D, q);
  show(trace, ATTEND_AT_KEY, role, 0, T, D, k);
  show(trace, ATTEND_AT_VALUE, role, 0, T, D, k);
  show(trace, ATTEND_AT_DENOMINATOR, role, 0, T, 1, lse);
  OK(ctx, attend_trace_status(trace));
  OK(ctx, attend_lens_create(s.model, trace, NULL, 0, &lens));
  for (int pool = 0; pool < 2; pool++)
    for (int height = 1; height < T; height += 17) {
      float all[T * 7], some[T * 7];
      int looked;
      attend_area a = {0, T, 0, T, height, 7, (attend_pool)pool, 0};
      attend_head_id at = {role, 0, 0};
      OK(ctx, attend_lens_pool(lens, at, &a, NULL, all, NULL));
      a.most_pairs = 11 * T;
      OK(ctx, attend_lens_pool(lens, at, &a, NULL, some, &looked));
      CHECK(looked < T);
      for (int i = 0; i < height * 7; i++)
        CHECK_NEAR(some[i], all[i], pool == ATTEND_POOL_MAX ? 0 : 1e-6);
    }
  attend_lens_free(lens);
  attend_trace_free(trace);
  close_files(&s);
  attend_context_free(ctx);
}

/* ---- two heads --------------------------------------------------------------------------- */

static double entropy_of(const float *w, int n) {
  double sum = 0;
  for (int j = 0; j < n; j++)
    if (w[j] > 0) sum -= (double)w[j] * log((double)w[j]);
  return sum;
}

TEST(how_far_apart) {
  for (int k = 0; names[k]; k++) {
    recording r = recorded(names[k], 0, 2, FOR_A_LENS);
    attend_form hard = {.kind = ATTEND_ARGMAX};
    attend_lens *lens = lens_of(&r, NULL), *other = lens_of(&r, &hard);
    attend_lens_shape s;
    FOR_EACH_HEAD(lens, s, at) {
      float *w = whole_block(r.s.ctx, lens, at, &s);
      float *w2 = whole_block(r.s.ctx, other, at, &s);
      attend_view a, b;
      attend_difference d, none;
      double apart = 0, first = 0, second = 0, gap = 0, size = 0;
      OK(r.s.ctx, attend_lens_compare(lens, other, at, 0, &d));
      OK(r.s.ctx, attend_lens_compare(lens, lens, at, 0, &none));
      OK(r.s.ctx, attend_lens_vectors(lens, at, NULL, NULL, NULL, &a));
      OK(r.s.ctx, attend_lens_vectors(other, at, NULL, NULL, NULL, &b));
      for (int i = 0; i < s.rows; i++) {
        for (int j = 0; j < s.keys; j++)
          apart += fabs((double)w[i * s.keys + j] - (double)w2[i * s.keys + j]);
        first += entropy_of(w + i * s.keys, s.keys) / s.rows;
        second += entropy_of(w2 + i * s.keys, s.keys) / s.rows;
        for (int m = 0; m < s.dim_v; m++) {
          double x = (double)((float *)a.data)[i * a.stride[2] + m];
          double y = (double)((float *)b.data)[i * b.stride[2] + m];
          gap += (x - y) * (x - y);
          size += x * x;
        }
      }
      CHECK_EQ(d.rows_sampled, s.rows);
      CHECK_NEAR(d.distance, apart / 2 / s.rows, 1e-6);
      CHECK_NEAR(d.entropy, first, 1e-6);
      CHECK_NEAR(d.other_entropy, second, 1e-6);
      CHECK_NEAR(d.output, sqrt(gap / size), 1e-6);
      CHECK(none.distance == 0 && none.output == 0);
      free(w), free(w2);
    }
    attend_lens_free(lens);
    attend_lens_free(other);
    close_recording(&r);
  }
}
