/* What can be made of a trace: files that other programs read, logits, and
 * numbers that must agree with each other. */
#include <dirent.h>
#include <signal.h>
#include <sys/resource.h>

#include "trace_fixtures.h"

static const float *row_at(const attend_hooked *s, int h, int i) {
  return (const float *)s->view.data + h * s->view.stride[1] + i * s->view.stride[2];
}

/* The place that is written to, and what lies beside it meanwhile. */
static const char *place(void) {
  static char path[512];
  mkdir(models_folder(), 0700);
  snprintf(path, sizeof path, "%s/a.safetensors", models_folder());
  return path;
}
static int no_draft(void) {
  DIR *dir = opendir(models_folder());
  int drafts = 0;
  for (struct dirent *e; dir && (e = readdir(dir));) drafts += strstr(e->d_name, ".part") != NULL;
  if (dir) closedir(dir);
  return !drafts;
}

/* ---- files ------------------------------------------------------------------------ */

/* Every tensor of the file is the trace's, and the other way round. */
static void check_file(attend_context *ctx, const attend_trace *trace, const char *path) {
  attend_tensor_file *file;
  size_t listed = 0;
  OK(ctx, attend_tensor_file_open(ctx, path, &file));
  if (!file) return;
  for (int role = 0; role < ATTEND_ROLES; role++)
    for (int layer = 0; layer < 8; layer++)
      for (int kind = 0; kind < ATTEND_POINTS; kind++) {
        attend_hooked s;
        char name[64];
        attend_point what = (attend_point)(1 << kind);
        if (!attend_trace_get(trace, what, (attend_role)role, layer, &s)) continue;
        snprintf(name, sizeof name, "%s.%d.%s", attend_role_name((attend_role)role), layer,
                 attend_point_name(what));
        const attend_tensor *t = attend_tensor_file_find(file, name);
        CHECK(t && t->stored == ATTEND_STORED_F32 && t->rank == 3);
        if (!t) continue;
        listed++;
        CHECK_EQ(t->shape[0], s.shape[2]);
        CHECK_EQ(t->shape[1], s.shape[1]);
        CHECK_EQ(t->shape[2], s.shape[3]);
        CHECK_EQ((uintptr_t)t->data % 8, 0);
        for (int i = 0; i < s.shape[2]; i++)
          for (int h = 0; h < s.shape[1]; h++)
            CHECK(!memcmp((const char *)t->data + 4 * (i * s.shape[1] + h) * s.shape[3],
                          row_at(&s, h, i), 4 * (size_t)s.shape[3]));
      }
  CHECK_EQ(attend_tensor_file_count(file), listed);
  CHECK(listed > 10);
  attend_tensor_file_free(file);
}

TEST(a_file_holds_all_of_it) {
  static const char *const names[] = {"gpt2", "bert", "bart", NULL};
  for (int k = 0; names[k]; k++) {
    recording r = recorded(names[k], 0, 1, EVERYTHING);
    const char *path = place();
    OK(r.s.ctx, attend_trace_save(r.trace, path));
    check_file(r.s.ctx, r.trace, path);
    CHECK(no_draft());
    close_recording(&r);
  }
  remove_folder();
}

TEST(a_full_disk_leaves_the_old_file) {
  recording r = recorded("gpt2", 0, 1, EVERYTHING);
  const char *path = place();
  struct rlimit before, small;
  size_t length, whole;
  OK(r.s.ctx, attend_trace_save(r.trace, path));
  free(read_whole(path, &whole));
  write_in_folder("a.safetensors", "the old", 7);
  getrlimit(RLIMIT_FSIZE, &before);
  void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
  /* in the header, in the data, at the last byte */
  const size_t limits[] = {0, 100, 5000, whole / 2, whole - 1};
  for (int i = 0; i < 5; i++) {
    small = before;
    small.rlim_cur = limits[i];
    setrlimit(RLIMIT_FSIZE, &small);
    attend_status status = attend_trace_save(r.trace, path);
    setrlimit(RLIMIT_FSIZE, &before);
    CHECK_EQ(status, ATTEND_IO);
    CHECK_SAYS(attend_message(r.s.ctx), path);
    char *bytes = read_whole(path, &length);
    CHECK(length == 7 && !memcmp(bytes, "the old", 7));
    free(bytes);
    CHECK(no_draft());
  }
  signal(SIGXFSZ, handler);
  OK(r.s.ctx, attend_trace_save(r.trace, path));
  check_file(r.s.ctx, r.trace, path);
  CHECK_EQ(attend_trace_save(r.trace, in_folder("no/such/folder")), ATTEND_IO);
  close_recording(&r);
  remove_folder();
}

TEST(a_file_of_nothing) {
  attend_context *ctx = open_context(NULL, 1, NULL);
  attend_trace_options o = {ATTEND_INIT(attend_trace_options), .points = EVERYTHING};
  attend_trace *trace;
  attend_tensor_file *file;
  const char *path = place();
  OK(ctx, attend_trace_create(ctx, &o, &trace));
  OK(ctx, attend_trace_save(trace, path));
  OK(ctx, attend_tensor_file_open(ctx, path, &file));
  if (file) CHECK_EQ(attend_tensor_file_count(file), 0);
  attend_tensor_file_free(file);
  attend_trace_free(trace);
  attend_context_free(ctx);
  remove_folder();
}

/* ---- logits from recorded states ------------------------------------------------------ */

TEST(the_head_on_recorded_states) {
  static const char *const names[] = {"gpt2", "llama-gqa", "bert", "bart", "t5", NULL};
  for (int k = 0; names[k]; k++) {
    recording r = recorded(names[k], 0, 2, ATTEND_AT_RESIDUAL);
    const attend_config *c = r.s.config;
    int n = r.decoded ? r.decoded : r.encoded, ld;
    size_t vocab = (size_t)c->vocab, rows = (size_t)n;
    attend_role role = r.decoded ? ATTEND_DECODER_SELF : ATTEND_ENCODER_SELF;
    float *want = zeroed_block(3 * rows * vocab, 4), *got = want + rows * vocab;
    float *many = zeroed_block(rows * 50, 4 * vocab), next[2][256];
    attend_hooked s;
    OK(r.s.ctx, attend_session_logits(r.run, n, NULL, want));
    CHECK(attend_trace_get(r.trace, ATTEND_AT_RESIDUAL, role,
                           r.decoded ? c->decoder.layers : c->encoder.layers, &s));
    if (r.decoded) OK(r.s.ctx, attend_session_next(r.run, 1, next[0]));
    int F = s.shape[3];
    OK(r.s.ctx, attend_session_head(r.run, n, s.view.data, F, false, got));
    CHECK(same_bits(want, got, rows * vocab));
    CHECK(!attend_session_hidden(r.run, &ld));
    /* one by one, and more than the run has ever held, in wider rows */
    for (int i = n - 1; i >= 0; i--)
      OK(r.s.ctx,
         attend_session_head(r.run, 1, row_at(&s, 0, i), F, false, got + (size_t)i * vocab));
    CHECK(same_bits(want, got, rows * vocab));
    float *wide = zeroed_block(rows * 50, 4 * (size_t)(F + 3));
    for (int i = 0; i < 50 * n; i++)
      memcpy(wide + i * (F + 3), row_at(&s, 0, i % n), 4 * (size_t)F);
    OK(r.s.ctx, attend_session_head(r.run, 50 * n, wide, F + 3, false, many));
    for (size_t i = 0; i < 50; i++) CHECK(same_bits(want, many + i * rows * vocab, rows * vocab));
    if (r.decoded) { /* and the text goes on as if nothing had been asked */
      OK(r.s.ctx, attend_session_next(r.run, 1, next[1]));
      CHECK(same_bits(next[0], next[1], vocab));
      OK(r.s.ctx, attend_session_truncate(r.run, 0, n - 1));
      OK(r.s.ctx, attend_session_extend(r.run, 1, 1, r.target + n - 1, NULL));
      OK(r.s.ctx, attend_session_next(r.run, 1, next[1]));
      CHECK(same_bits(next[0], next[1], vocab));
    }
    CHECK_EQ(attend_session_head(r.run, 1, s.view.data, F - 1, false, got), ATTEND_INVALID);
    free(want), free(many), free(wide);
    close_recording(&r);
  }
}

/* ---- numbers that must agree ------------------------------------------------------------ */

TEST(entropies_are_of_the_weights) {
  for (int k = 0; golden_models[k]; k++) {
    recording r = recorded(golden_models[k], 0, 1, ATTEND_AT_PATTERN | ATTEND_AT_ENTROPY);
    int seen = 0;
    for (int place = 0; place < ATTEND_ROLES * 4; place++) {
      attend_role role = (attend_role)(place % ATTEND_ROLES);
      attend_hooked w, e;
      if (!attend_trace_get(r.trace, ATTEND_AT_PATTERN, role, place / ATTEND_ROLES, &w) ||
          !attend_trace_get(r.trace, ATTEND_AT_ENTROPY, role, place / ATTEND_ROLES, &e))
        continue;
      CHECK_EQ(e.shape[1], w.shape[1]);
      CHECK_EQ(e.shape[2], w.shape[2]);
      CHECK_EQ(e.shape[3], 1);
      for (int i = 0; i < w.shape[2]; i++)
        for (int h = 0; h < w.shape[1]; h++) {
          double entropy = 0, sum = 0;
          for (int j = 0; j < w.shape[3]; j++) {
            double x = (double)row_at(&w, h, i)[j];
            if (x > 0) entropy -= x * log(x);
            sum += x;
          }
          CHECK_NEAR(sum, 1, 1e-5);
          CHECK_NEAR(row_at(&e, h, i)[0], entropy, 1e-5);
        }
      seen++;
    }
    CHECK(seen > 0);
    close_recording(&r);
  }
}

/* GPT-2 between attention and mlp: what came in, and what the heads gave through
 * the projection of the files. */
TEST(between_attention_and_mlp) {
  recording r = recorded("gpt2", 0, 1,
                         ATTEND_AT_RESIDUAL | ATTEND_AT_RESIDUAL_MIDDLE | ATTEND_AT_HEAD_OUTPUT);
  const int F = r.s.config->decoder.width, M = r.s.config->decoder.dim_v;
  for (int l = 0; l < r.s.config->decoder.layers; l++) {
    attend_hooked in, middle, mixed, out;
    const attend_tensor *w = NULL, *b = NULL;
    attend_parameter p;
    char weight[64], bias[64];
    snprintf(weight, sizeof weight, "h.%d.attn.c_proj.weight", l);
    snprintf(bias, sizeof bias, "h.%d.attn.c_proj.bias", l);
    for (size_t i = 0; attend_checkpoint_get(r.s.files, i, &p); i++) {
      if (strstr(p.name, weight)) w = p.tensor;
      if (strstr(p.name, bias)) b = p.tensor;
    }
    CHECK(w && b);
    const attend_role role = ATTEND_DECODER_SELF;
    CHECK(attend_trace_get(r.trace, ATTEND_AT_RESIDUAL, role, l, &in));
    CHECK(attend_trace_get(r.trace, ATTEND_AT_RESIDUAL, role, l + 1, &out));
    CHECK(attend_trace_get(r.trace, ATTEND_AT_RESIDUAL_MIDDLE, role, l, &middle));
    CHECK(attend_trace_get(r.trace, ATTEND_AT_HEAD_OUTPUT, role, l, &mixed));
    CHECK(!memcmp(in.shape, middle.shape, sizeof in.shape));
    if (check_failures) break;
    for (int i = 0; i < r.decoded; i++) {
      CHECK(!same_bits(row_at(&middle, 0, i), row_at(&in, 0, i), (size_t)F));
      CHECK(!same_bits(row_at(&middle, 0, i), row_at(&out, 0, i), (size_t)F));
      for (int f = 0; f < F; f++) {
        float x;
        memcpy(&x, (const char *)b->data + 4 * f, 4);
        double sum = (double)row_at(&in, 0, i)[f] + (double)x;
        for (int j = 0; j < F; j++) {
          memcpy(&x, (const char *)w->data + 4 * (j * F + f), 4);
          sum += (double)row_at(&mixed, j / M, i)[j % M] * (double)x;
        }
        CHECK_NEAR(row_at(&middle, 0, i)[f], sum, 1e-5);
      }
    }
  }
  close_recording(&r);
}

/* In all families it is there, of the stream's shape, and something else. */
TEST(the_middle_of_every_layer) {
  for (int k = 0; golden_models[k]; k++) {
    recording r = recorded(golden_models[k], 0, 1, ATTEND_AT_RESIDUAL | ATTEND_AT_RESIDUAL_MIDDLE);
    for (int side = 0; side < 2; side++) {
      const attend_stack *s = side ? &r.s.config->decoder : &r.s.config->encoder;
      for (int l = 0; l < s->layers; l++) {
        attend_hooked in, middle, out;
        attend_role role = side ? ATTEND_DECODER_SELF : ATTEND_ENCODER_SELF;
        CHECK(attend_trace_get(r.trace, ATTEND_AT_RESIDUAL, role, l, &in));
        CHECK(attend_trace_get(r.trace, ATTEND_AT_RESIDUAL_MIDDLE, role, l, &middle));
        CHECK(attend_trace_get(r.trace, ATTEND_AT_RESIDUAL, role, l + 1, &out));
        CHECK_EQ(middle.shape[3], s->width);
        CHECK_EQ(middle.shape[2], side ? r.decoded : r.encoded);
        CHECK(!same_bits(row_at(&middle, 0, 0), row_at(&in, 0, 0), (size_t)s->width));
        CHECK(!same_bits(row_at(&middle, 0, 0), row_at(&out, 0, 0), (size_t)s->width));
      }
    }
    close_recording(&r);
  }
}
