/* States in files: what is restored goes on with the same bits; what is cut off,
 * changed or meant for another plan is refused with a sentence. */
#include <unistd.h>

#include "attention_fixtures.h"

static const char *const PROBLEMS[] = {
    "elu:b2h4g2n150d24v40:causal",
    "favor(m=40):b2h2n150d16:causal:bf16",
    "favor(m=32,kind=pair):b1h2n150d16:causal:padleft",
    "fourier(m=32):b1h2n150d16:causal",
    "poly(p=2,c=1):b1h2n150d5:causal:f16",
    "softmax:b2h4g2n150d24v40:causal",
    "softmax:b1h2n150d16:causal:bf16:padright",
    "gaussian:b1h2n150d16:causal",
};
enum { CASES = sizeof PROBLEMS / sizeof *PROBLEMS, CUT = 71, ALL = 150 };

static char path[64];

typedef struct {
  attend_context *ctx;
  attend_tensors t;
  attend_plan *plan;
  attend_state *state;
} world_of;

static void open_world(const char *problem, world_of *w) {
  snprintf(path, sizeof path, "state-%ld.test", (long)getpid());
  w->ctx = open_context(NULL, 2, NULL);
  w->t = make_tensors(w->ctx, problem, 3);
  attend_desc d = w->t.desc;
  d.kv_len = 0;
  d.mask = (attend_mask){.causal = ATTEND_CAUSAL_BOTTOM};
  d.purpose = ATTEND_FOR_EXTEND;
  w->plan = make_plan(w->ctx, &d);
  OK(w->ctx, attend_state_create(w->plan, &w->state));
}

static void close_world(world_of *w) {
  attend_state_free(w->state);
  attend_plan_free(w->plan);
  attend_tensors_free(w->ctx, &w->t);
  attend_context_free(w->ctx);
  remove(path);
}

static attend_view from(const world_of *w, attend_view v, int heads, int width, int at) {
  ptrdiff_t row = width, head = (ptrdiff_t)w->t.desc.q_len * row;
  size_t bytes = (size_t)(at * width) * attend_dtype_size(w->t.desc.dtype);
  return (attend_view){(char *)v.data + bytes, {heads * head, head, row, 1}};
}

/* Positions [at, at + n) go into the state; outputs to o [B,H,n,M]. */
static void feed(const world_of *w, attend_state *s, int at, int n, char *o) {
  const attend_desc *d = &w->t.desc;
  uint8_t mask[2 * ALL];
  for (int i = 0; d->mask.key_mask && i < d->batch * n; i++)
    mask[i] = d->mask.key_mask[i / n * d->kv_len + at + i % n];
  attend_plan_set_padding(w->plan, NULL, d->mask.key_mask ? mask : NULL);
  OK(w->ctx, attend_extend(w->plan, s, n, from(w, w->t.q, d->heads, d->dim, at),
                           from(w, w->t.k, d->kv_heads, d->dim, at),
                           from(w, w->t.v, d->kv_heads, d->dim_v, at), attend_bhtd(o), NULL));
}

TEST(going_on_from_a_file_gives_the_same_bits) {
  for (int i = 0; i < CASES; i++) {
    world_of w;
    open_world(PROBLEMS[i], &w);
    const attend_desc *d = &w.t.desc;
    size_t bytes = (size_t)(d->batch * d->heads * ALL * d->dim_v) * 4;
    char *a = zeroed_block(bytes, 1), *b = zeroed_block(bytes, 1);
    attend_state *back = NULL;
    feed(&w, w.state, 0, CUT, a);
    OK(w.ctx, attend_state_save(w.state, path));
    OK(w.ctx, attend_state_load(w.plan, path, &back));
    CHECK_EQ(attend_state_length(back, 0), CUT);
    feed(&w, w.state, CUT, ALL - CUT, a);
    feed(&w, back, CUT, ALL - CUT, b);
    if (memcmp(a, b, bytes)) CHECK_FAIL("%s: other bits", PROBLEMS[i]);
    attend_state_free(back);
    free(a);
    free(b);
    close_world(&w);
  }
}

static size_t read_file(char *data, size_t capacity) {
  FILE *f = fopen(path, "rb");
  size_t n = fread(data, 1, capacity, f);
  fclose(f);
  return n;
}

static void write_file(const char *data, size_t n) {
  FILE *f = fopen(path, "wb");
  fwrite(data, 1, n, f);
  fclose(f);
}

TEST(a_file_that_was_cut_off_is_refused) {
  for (int i = 0; i < CASES; i++) {
    world_of w;
    open_world(PROBLEMS[i], &w);
    size_t capacity = 1 << 22, step = 1;
    char *o = zeroed_block(capacity, 1), *data = zeroed_block(capacity, 1);
    feed(&w, w.state, 0, CUT, o);
    OK(w.ctx, attend_state_save(w.state, path));
    size_t all = read_file(data, capacity);
    for (size_t n = 0; n < all; n += step) {
      attend_state *back = NULL;
      write_file(data, n);
      CHECK_EQ(attend_state_load(w.plan, path, &back), ATTEND_IO);
      CHECK(back == NULL);
      CHECK_SAYS(attend_message(w.ctx), "cut off");
      step = n < 300 ? 7 : all / 17;
    }
    free(o);
    free(data);
    close_world(&w);
  }
}

TEST(a_file_that_lies_is_refused) {
  world_of w;
  open_world(PROBLEMS[0], &w);
  size_t capacity = 1 << 22;
  char *o = zeroed_block(capacity, 1), *data = zeroed_block(capacity, 1);
  feed(&w, w.state, 0, CUT, o);
  OK(w.ctx, attend_state_save(w.state, path));
  size_t all = read_file(data, capacity);
  for (size_t n = 0; n < 16 + 22 * 8 + 8 + 24; n++) { /* up to the sums */
    attend_state *back = NULL;
    data[n] = (char)(data[n] ^ 0x41);
    write_file(data, all);
    CHECK(attend_state_load(w.plan, path, &back) != ATTEND_OK);
    CHECK(back == NULL && attend_message(w.ctx)[0]);
    data[n] = (char)(data[n] ^ 0x41);
  }
  free(o);
  free(data);
  close_world(&w);
}

TEST(a_file_for_another_plan_is_refused) {
  world_of w;
  attend_state *back = NULL;
  open_world("favor(m=32):b1h2n150d16:causal", &w);
  OK(w.ctx, attend_state_save(w.state, path));
  attend_desc d = *attend_plan_desc(w.plan);
  d.form.seed = 5;
  attend_plan *other = make_plan(w.ctx, &d);
  CHECK_EQ(attend_state_load(other, path, &back), ATTEND_INVALID);
  CHECK_SAYS(attend_message(w.ctx), "another seed (0) than the plan's (5)");
  attend_plan_free(other);
  d.form = (attend_form){.kind = ATTEND_SOFTMAX};
  other = make_plan(w.ctx, &d);
  CHECK_EQ(attend_state_load(other, path, &back), ATTEND_INVALID);
  attend_plan_free(other);
  close_world(&w);
}

TEST(a_place_that_cannot_be_written_or_read) {
  world_of w;
  attend_state *back = NULL;
  open_world(PROBLEMS[0], &w);
  CHECK_EQ(attend_state_save(w.state, "no-such-folder/state"), ATTEND_IO);
  CHECK_SAYS(attend_message(w.ctx), "No such file");
  CHECK_EQ(attend_state_load(w.plan, "no-such-file", &back), ATTEND_IO);
  CHECK_EQ(attend_state_save(w.state, "/dev/full/x"), ATTEND_IO);
  close_world(&w);
}
