/* Sessions of attend/viewer.h with changes: runs are those of attend_intervene, weights are those
 * that the model used, effects, sweeps and attributions agree with each other. */
#include "view_sessions.h"

static const char text[] = "5 17 40 96 51 17 40";
static const char other[] = "7 8 4 90 3 60 61";
enum { N = 7, TOP = 5 };
static const attend_target any = {-1, -1, -1};

static const attend_viewer_run *run_with(const session *s, const char *changes, const char *from) {
  const attend_viewer_run *run = NULL;
  attend_viewer_case c = {ATTEND_INIT(attend_viewer_case), .text = text, .changes = changes,
                          .from = from};
  OK(s->ctx, attend_viewer_run_case(s->v, &c, NULL, &run));
  return run;
}

static attend_viewer_effect effect_of(const session *s, const attend_viewer_run *with,
                                      const attend_viewer_run *without) {
  attend_viewer_effect e;
  OK(s->ctx, attend_viewer_get_effect(s->v, with, without, &any, TOP, &e));
  return e;
}

TEST(no_changes_are_the_run_itself) {
  session s = open_session("gpt2", 0);
  const attend_viewer_run *run = run_with(&s, NULL, NULL);
  CHECK(run_with(&s, "", other) == run);
  CHECK(run_with(&s, " ; ", NULL) == run);
  CHECK(run_with(&s, "ablate 0.1", NULL) != run);
  attend_viewer_effect e = effect_of(&s, run, run);
  CHECK(e.value == e.before && e.loss == e.loss_before && e.divergence == 0);
  CHECK(e.target.position == N - 1 && e.shift[0].id == e.target.token && e.rows == N);
  attend_viewer_release(s.v, e.memory);
  close_session(&s);
}

/* Patching the stream before layer 0 everywhere is reading the other text. */
TEST(a_whole_patch_is_the_other_text) {
  static const char *const models[] = {"gpt2", "llama-gqa", "bert"};
  for (int i = 0; i < 3; i++) {
    session s = open_session(models[i], 0);
    const attend_viewer_run *with = run_with(&s, "patch residual:in", other), *theirs = NULL;
    attend_viewer_case c = {ATTEND_INIT(attend_viewer_case), .text = other};
    OK(s.ctx, attend_viewer_run_case(s.v, &c, NULL, &theirs));
    const bool decodes = with->side[1].n > 0;
    CHECK_EQ(with->from.n, N);
    attend_viewer_candidate a[TOP], b[TOP];
    int n, m;
    attend_role side = decodes ? ATTEND_DECODER_SELF : ATTEND_ENCODER_SELF;
    OK(s.ctx, attend_viewer_get_candidates(s.v, with, side, N - 1, TOP, a, &n));
    OK(s.ctx, attend_viewer_get_candidates(s.v, theirs, side, N - 1, TOP, b, &m));
    CHECK(n == TOP && m == TOP);
    for (int k = 0; k < TOP; k++) CHECK(a[k].id == b[k].id && a[k].p == b[k].p);
    close_session(&s);
  }
}

TEST(pinned_heads_show_their_pattern) {
  session s = open_session("gpt2", 0);
  const attend_viewer_run *run = run_with(&s, "pin 1.2=previous", NULL);
  const attend_viewer_run *plain = run_with(&s, NULL, NULL);
  attend_viewer_head h = {.run = run, .at = {ATTEND_DECODER_SELF, 1, 2}};
  attend_viewer_block b, p;
  attend_viewer_stats stats;
  OK(s.ctx, attend_viewer_get_block(s.v, &h, NULL, &b));
  OK(s.ctx, attend_viewer_get_stats(s.v, &h, &stats));
  for (int i = 0; i < N; i++) {
    int key = i ? i - 1 : 0;
    for (int j = 0; j < N; j++) CHECK(b.weights[i * N + j] == (float)(j == key));
    CHECK(stats.top[i] == key && stats.top_weight[i] == 1 && stats.entropy[i] == 0);
  }
  CHECK(stats.mass[0] == 2 && stats.mass[N - 1] == 0);
  attend_viewer_release(s.v, b.memory);
  attend_viewer_release(s.v, stats.memory);
  h.at.layer = 0; /* below the change: as without it */
  OK(s.ctx, attend_viewer_get_block(s.v, &h, NULL, &b));
  h.run = plain;
  OK(s.ctx, attend_viewer_get_block(s.v, &h, NULL, &p));
  CHECK(!memcmp(b.weights, p.weights, N * N * sizeof *b.weights));
  attend_viewer_release(s.v, b.memory);
  attend_viewer_release(s.v, p.memory);
  close_session(&s);
}

static int stop(double done, const char *what, void *user) {
  (void)done, (void)what, (void)user;
  return 1;
}

TEST(a_sweep_is_the_single_changes) {
  session s = open_session("gpt2", 0);
  const attend_viewer_run *plain = run_with(&s, NULL, NULL);
  attend_viewer_sweep_options o = {ATTEND_INIT(attend_viewer_sweep_options),
                                   .role = ATTEND_DECODER_SELF, .target = any};
  attend_viewer_map map;
  OK(s.ctx, attend_viewer_sweep(s.v, plain, &o, NULL, &map));
  CHECK(map.target.position == N - 1 && map.target.token >= 0);
  char change[32], id[20];
  memcpy(id, plain->id, sizeof id);
  for (int i = 0; i < map.layers * map.columns; i++) {
    snprintf(change, sizeof change, "ablate %d.%d", i / map.columns, i % map.columns);
    const attend_viewer_run *with = run_with(&s, change, NULL);
    attend_viewer_effect e = effect_of(&s, with, attend_viewer_find(s.v, id));
    CHECK_EQ(e.target.token, map.target.token);
    CHECK_NEAR(e.value, map.map[i], 1e-5);
    CHECK_NEAR(e.before, map.before, 1e-5);
    attend_viewer_release(s.v, e.memory);
  }
  attend_viewer_release(s.v, map.memory);
  o.axis = ATTEND_SWEEP_TOKENS;
  o.kind = ATTEND_CHANGE_PATCH;
  o.point = ATTEND_AT_RESIDUAL;
  o.from = other;
  o.metric = ATTEND_METRIC_KL;
  OK(s.ctx, attend_viewer_sweep(s.v, attend_viewer_find(s.v, id), &o, NULL, &map));
  CHECK(map.columns == N && map.before == 0);
  attend_viewer_map again;
  attend_viewer_listener never = {ATTEND_INIT(attend_viewer_listener), .progress = stop};
  OK(s.ctx, attend_viewer_sweep(s.v, attend_viewer_find(s.v, id), &o, &never, &again));
  CHECK(!memcmp(map.map, again.map, (size_t)map.layers * N * sizeof *map.map));
  attend_viewer_release(s.v, again.memory);
  attend_viewer_release(s.v, map.memory);
  close_session(&s);
}

static attend_viewer_attribution attribution(const session *s, const attend_viewer_run *run,
                                             attend_viewer_method method) {
  attend_viewer_attribution a;
  attend_viewer_attribute_options o = {ATTEND_INIT(attend_viewer_attribute_options),
                                       .method = method, .target = any};
  o.at.role = run->has_role[ATTEND_DECODER_SELF] ? ATTEND_DECODER_SELF : ATTEND_ENCODER_SELF;
  OK(s->ctx, attend_viewer_attribute(s->v, run, &o, NULL, &a));
  return a;
}

TEST(attributions_add_up) {
  static const char *const models[] = {"gpt2", "llama-gqa", "bert", "t5"};
  for (int i = 0; i < 4; i++) {
    session s = open_session(models[i], 0);
    const attend_viewer_run *run = NULL;
    attend_viewer_case c = {ATTEND_INIT(attend_viewer_case), .text = text,
                            .second = i == 3 ? "7 8 9" : NULL};
    OK(s.ctx, attend_viewer_run_case(s.v, &c, NULL, &run));
    attend_viewer_effect e = effect_of(&s, run, run);
    for (int method = 0; method < 4; method++) {
      attend_viewer_attribution a = attribution(&s, run, (attend_viewer_method)method);
      CHECK_EQ(a.target.token, e.target.token);
      CHECK_NEAR(a.logit, e.value, 1e-4);
      if (method == ATTEND_VIEWER_BY_INTEGRATED)
        CHECK(fabs(a.sum - (a.logit - a.baseline)) <= 0.0101 * fabs(a.logit - a.baseline));
      if (method == ATTEND_VIEWER_BY_DIRECT) CHECK_NEAR(a.sum, a.logit, 1e-4);
      if (method == ATTEND_VIEWER_BY_ATTENTION) CHECK(a.rows && a.keys && a.head && a.map);
      attend_viewer_release(s.v, a.memory);
    }
    attend_viewer_release(s.v, e.memory);
    close_session(&s);
  }
}

TEST(the_last_row_of_the_lens_is_the_prediction) {
  session s = open_session("gpt2", 0);
  const attend_viewer_run *run = run_with(&s, "ablate 1.0", NULL);
  attend_viewer_logit_lens l;
  OK(s.ctx, attend_viewer_get_logit_lens(s.v, run, NULL, TOP, NULL, &l));
  CHECK(l.rows == N && l.top == TOP);
  for (int i = 0; i < N; i++) {
    attend_viewer_candidate list[TOP];
    int n;
    OK(s.ctx, attend_viewer_get_candidates(s.v, run, ATTEND_DECODER_SELF, i, TOP, list, &n));
    for (int k = 0; k < TOP; k++) {
      size_t at = (size_t)(((l.layers - 1) * N + i) * TOP + k);
      CHECK_EQ(l.token[at], list[k].id);
      CHECK_NEAR(l.p[at], list[k].p, 1e-6);
    }
  }
  attend_viewer_release(s.v, l.memory);
  close_session(&s);
}

/* ---- what cannot be -------------------------------------------------------------------- */

static void refuse_changes(const session *s, const char *changes, const char *says) {
  const attend_viewer_run *run;
  attend_viewer_case c = {ATTEND_INIT(attend_viewer_case), .text = text, .changes = changes};
  CHECK_EQ(attend_viewer_run_case(s->v, &c, NULL, &run), ATTEND_INVALID);
  CHECK_SAYS(attend_message(s->ctx), says);
}

TEST(bad_changes_are_refused) {
  session s = open_session("gpt2", 0);
  refuse_changes(&s, "remove 1.2", "not a change");
  refuse_changes(&s, "ablate 99.0", "layer 99");
  refuse_changes(&s, "ablate cross:0.0", "no cross attention");
  refuse_changes(&s, "patch 0.1", "another text");
  const attend_viewer_run *run = run_with(&s, NULL, NULL);
  attend_viewer_effect e;
  attend_target far = {N, -1, -1}, strange = {-1, 1 << 30, -1};
  CHECK_EQ(attend_viewer_get_effect(s.v, run, run, &far, TOP, &e), ATTEND_INVALID);
  CHECK_EQ(attend_viewer_get_effect(s.v, run, run, &strange, TOP, &e), ATTEND_INVALID);
  attend_viewer_sweep_options o = {ATTEND_INIT(attend_viewer_sweep_options), .role = ATTEND_CROSS,
                                   .target = any};
  attend_viewer_map map;
  CHECK_EQ(attend_viewer_sweep(s.v, run, &o, NULL, &map), ATTEND_INVALID);
  o.role = ATTEND_DECODER_SELF;
  o.kind = ATTEND_CHANGE_PATCH;
  CHECK_EQ(attend_viewer_sweep(s.v, run, &o, NULL, &map), ATTEND_INVALID);
  attend_viewer_listener listener = {ATTEND_INIT(attend_viewer_listener), .progress = stop};
  o.kind = ATTEND_CHANGE_ZERO;
  o.axis = ATTEND_SWEEP_TOKENS;
  o.point = ATTEND_AT_MLP;
  CHECK_EQ(attend_viewer_sweep(s.v, run, &o, &listener, &map), ATTEND_STOPPED);
  CHECK(!map.memory);
  attend_viewer_attribute_options by = {ATTEND_INIT(attend_viewer_attribute_options),
                                        .method = ATTEND_VIEWER_BY_INTEGRATED, .target = any,
                                        .at = {ATTEND_DECODER_SELF, 0, 0}};
  attend_viewer_attribution a;
  CHECK_EQ(attend_viewer_attribute(s.v, run, &by, &listener, &a), ATTEND_STOPPED);
  CHECK(!a.memory);
  close_session(&s);
}

/* ---- without memory -------------------------------------------------------------------- */

static attend_status use_all(attend_viewer *v) {
  attend_viewer_case c = {ATTEND_INIT(attend_viewer_case), .text = text, .from = other,
                          .changes = "patch 0.1; mean mlp:0; pin 1.2=first"};
  const attend_viewer_run *run = NULL;
  attend_viewer_effect e = {0};
  attend_viewer_map map = {0};
  attend_viewer_attribution a = {0};
  attend_viewer_logit_lens l = {0};
  attend_viewer_stats stats = {0};
  attend_viewer_sweep_options sweep = {ATTEND_INIT(attend_viewer_sweep_options),
                                       .kind = ATTEND_CHANGE_MEAN, .role = ATTEND_DECODER_SELF,
                                       .from = other, .target = any};
  attend_viewer_attribute_options by = {ATTEND_INIT(attend_viewer_attribute_options),
                                        .method = ATTEND_VIEWER_BY_ATTENTION, .target = any,
                                        .at = {ATTEND_DECODER_SELF, 0, 0}};
  attend_status status = attend_viewer_run_case(v, &c, NULL, &run);
  if (!status) status = attend_viewer_get_effect(v, run, run, &any, TOP, &e);
  if (!status) status = attend_viewer_sweep(v, run, &sweep, NULL, &map);
  if (!status) status = attend_viewer_attribute(v, run, &by, NULL, &a);
  if (!status) status = attend_viewer_get_logit_lens(v, run, NULL, TOP, NULL, &l);
  attend_viewer_head h = {.run = run, .at = {ATTEND_DECODER_SELF, 1, 2}};
  if (!status) status = attend_viewer_get_stats(v, &h, &stats);
  void *memory[] = {e.memory, map.memory, a.memory, l.memory, stats.memory};
  for (int i = 0; i < 5; i++) attend_viewer_release(v, memory[i]);
  return status;
}

TEST(allocations_may_fail) { allocations_may_fail_in(use_all, light() ? 40 : 400); }
