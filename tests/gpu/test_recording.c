/* Recordings: a pass that is repeated becomes a graph, and computes what it would have computed. */
#include "device/device.h"
#include "gpu.h"

enum { WIDTH = 100, LD = 112, PASSES = 24 };

/* y = (x + x) factor of the `rows` given, and once more where `longer`; x comes from the host. */
static void pass_of(struct cuda_recording **r, const float *x, float *there, float *y, int rows,
                    float factor, bool longer) {
  cuda->record_begin(gpu, r);
  cuda->write(gpu, there, x, (size_t)rows * LD * sizeof *x);
  const struct op_add add = {.rows = rows,
                             .width = WIDTH,
                             .a = there,
                             .lda = LD,
                             .b = there,
                             .ldb = LD,
                             .y = y,
                             .ldy = LD};
  const struct op_scale scale = {.rows = rows, .width = WIDTH, .factor = factor, .x = y, .ldx = LD};
  cuda->add(gpu, &add);
  cuda->scale(gpu, &scale);
  if (longer) cuda->scale(gpu, &scale);
  cuda->record_end(gpu);
}

static void check_pass(const float *x, const float *y, int rows, float factor, bool longer) {
  float got[8 * LD];
  cuda->read(gpu, got, y, (size_t)rows * LD * sizeof *got);
  for (int i = 0; i < rows; i++)
    for (int j = 0; j < WIDTH; j++) {
      float want = (x[i * LD + j] + x[i * LD + j]) * factor;
      if (longer) want *= factor;
      if (got[i * LD + j] != want) {
        CHECK_FAIL("row %d, column %d: %g, not %g", i, j, got[i * LD + j], want);
        return;
      }
    }
}

/* Numbers of the host, arguments and grids change from pass to pass; some passes are longer. */
TEST(repeated_passes) {
  struct cuda_recording *r = NULL;
  twin there = normals(8 * LD, 1, 1), y = normals(8 * LD, 2, 1);
  int longer_passes = 0;
  for (int i = 0; i < PASSES; i++) {
    const bool longer = i == 7 || i == 8;
    const int rows = i < 12 ? 3 : 8;
    const float factor = 1 + (float)(i / 4);
    twin x = normals(8 * LD, 10 + (uint64_t)i, 1);
    pass_of(&r, x.at[0], there.at[1], y.at[1], rows, factor, longer);
    check_pass(x.at[0], y.at[1], rows, factor, longer);
    twin_free(&x);
    longer_passes += longer;
  }
  CHECK(!cuda->error(gpu));
  /* all but the first and those after a change of course */
  CHECK(cuda->record_graphs(r) >= PASSES - 2 * longer_passes - 2);
  cuda->record_free(gpu, r);
  twin_free(&there), twin_free(&y);
}

/* What reads within a pass sees what was computed before it. */
TEST(reading_within_a_pass) {
  struct cuda_recording *r = NULL;
  twin x = normals(LD, 1, 1);
  for (int i = 0; i < 6; i++) {
    const float one = 1, *values = x.at[0];
    float got[LD];
    const struct op_scale twice = {.rows = 1, .width = WIDTH, .factor = 2, .x = x.at[1], .ldx = LD};
    cuda->record_begin(gpu, &r);
    cuda->write(gpu, x.at[1], values, LD * sizeof *values);
    cuda->scale(gpu, &twice);
    if (i != 2) cuda->read(gpu, got, x.at[1], sizeof got);
    cuda->scale(gpu, &twice);
    cuda->record_end(gpu);
    if (i != 2) CHECK(got[5] == 2 * values[5] * one);
    cuda->read(gpu, got, x.at[1], sizeof got);
    CHECK(got[5] == 4 * values[5]);
  }
  CHECK(!cuda->error(gpu));
  cuda->record_free(gpu, r);
  twin_free(&x);
}
