/* Random directions: their layout, their orthogonality, their lengths, and that
 * they are the same floats everywhere (the emulated run checks the same hash). */
#include "attention/features.h"
#include "attention_fixtures.h"

static float *draw(const attend_form *form, int dirs, int dim) {
  float *w = zeroed_block((size_t)dirs * (size_t)dim, sizeof *w);
  OK(context(), projection_draw(context(), form, dirs, dim, w));
  return w;
}

static double dot(const float *a, const float *b, int n) {
  double sum = 0;
  for (int x = 0; x < n; x++) sum += (double)a[x] * (double)b[x];
  return sum;
}

/* FNV-1a over the bits. */
static uint64_t hash(const float *w, size_t n) {
  uint64_t h = 14695981039346656037u;
  for (size_t i = 0; i < n; i++) {
    uint32_t bits;
    memcpy(&bits, w + i, sizeof bits);
    for (int byte = 0; byte < 4; byte++) h = (h ^ (bits >> 8 * byte & 255)) * 1099511628211u;
  }
  return h;
}

TEST(iid_directions_are_one_stream) {
  attend_form f = {.seed = 5, .redraw = 7, .draw = ATTEND_IID};
  float *w = draw(&f, 9, 7), want[63];
  attend_random_normal((attend_random){5, (UINT64_C(1) << 63) + 14}, 0, 63, want);
  CHECK(!memcmp(w, want, sizeof want));
  free(w);
}

TEST(blocks_are_orthogonal) {
  const int dims[] = {1, 2, 7, 16, 64}, dirs = 100;
  for (size_t n = 0; n < sizeof dims / sizeof *dims; n++) {
    attend_form f = {.seed = n};
    int dim = dims[n];
    float *w = draw(&f, dirs, dim);
    for (int a = 0; a < dirs; a++)
      for (int b = a + 1; b < dirs && b / dim == a / dim; b++) {
        const float *x = w + a * dim, *y = w + b * dim;
        double size = sqrt(dot(x, x, dim) * dot(y, y, dim));
        CHECK(fabs(dot(x, y, dim)) <= 2e-7 * size); /* rounding to float */
      }
    free(w);
  }
}

/* |w|^2 is chi-squared with dim degrees: mean dim, variance 2 dim; a Gaussian
 * at 5.2 standard deviations leaves 2e-7, and 4000 rows are Gaussian enough.
 * Elements are normal: mean 0, variance 1. */
TEST(lengths_are_those_of_normal_vectors) {
  enum { ROWS = 4000, DIM = 5 };
  for (int iid = 0; iid < 2; iid++) {
    attend_form f = {.seed = 12, .draw = iid ? ATTEND_IID : ATTEND_ORTHOGONAL};
    float *w = draw(&f, ROWS, DIM);
    double squares = 0, fourth = 0, sum = 0;
    for (int r = 0; r < ROWS; r++) {
      double s = dot(w + r * DIM, w + r * DIM, DIM);
      squares += s;
      fourth += (s - DIM) * (s - DIM);
      for (int x = 0; x < DIM; x++) sum += (double)w[r * DIM + x];
    }
    CHECK_NEAR(squares / ROWS, DIM, 5.2 * sqrt(2.0 * DIM / ROWS));
    CHECK_NEAR(fourth / ROWS, 2 * DIM, 0.25 * 2 * DIM);
    CHECK_NEAR(sum / (ROWS * DIM), 0, 5.2 / sqrt(ROWS * DIM));
    free(w);
  }
}

TEST(a_row_does_not_depend_on_later_ones) {
  for (int iid = 0; iid < 2; iid++) {
    attend_form f = {.seed = 3, .draw = iid ? ATTEND_IID : ATTEND_ORTHOGONAL};
    float *few = draw(&f, 21, 8), *many = draw(&f, 50, 8);
    CHECK(!memcmp(few, many, 21 * 8 * sizeof *few));
    free(few);
    free(many);
  }
}

/* Same in everything but one number, and not a shift of one another. */
TEST(seed_and_redraw_change_everything) {
  const attend_form forms[] = {
      {0},
      {.seed = 1},
      {.redraw = 1},
      {.seed = 1, .redraw = 1},
      {.draw = ATTEND_IID},
      {.draw = ATTEND_IID, .redraw = 1},
  };
  enum { FORMS = sizeof forms / sizeof *forms };
  float *w[FORMS];
  for (int n = 0; n < FORMS; n++) {
    w[n] = draw(&forms[n], 16, 8);
    for (int o = 0; o < n; o++)
      for (int x = 0; x < 128; x++) CHECK(w[n][x] != w[o][x]);
  }
  for (int n = 0; n < FORMS; n++) free(w[n]);
}

TEST(the_same_floats_everywhere) {
  attend_form f = {.seed = 42, .redraw = 3};
  float *w = draw(&f, 150, 64);
  CHECK(hash(w, 150 * 64) == 0xd4b7ed6539f71ce8u);
  free(w);
  f.draw = ATTEND_IID;
  w = draw(&f, 150, 64);
  CHECK(hash(w, 150 * 64) == 0xf47b2e043442492eu);
  free(w);
}

TEST(scratch_is_given_back_and_foretold) {
  ledger l = {0};
  attend_context *ctx = open_context(NULL, 1, &l);
  attend_form f = {0};
  float w[30 * 12];
  long live = l.live;
  size_t bytes = l.bytes;
  OK(ctx, projection_draw(ctx, &f, 30, 12, w));
  CHECK_EQ(l.live, live);
  CHECK(l.bytes - bytes <= projection_scratch(&f, 30, 12) + 63);
  l.fail_at = l.taken + 1;
  CHECK_EQ(projection_draw(ctx, &f, 30, 12, w), ATTEND_NO_MEMORY);
  CHECK_SAYS(attend_message(ctx), "orthogonal directions");
  attend_context_free(ctx);
}
