/* Traces: what is recorded is what a hook reads, however a text comes in; it
 * costs what was foretold, changes no bit of what a run gives, and goes into a
 * file whole or not at all. */

#include "trace_fixtures.h"

enum { LAYERS = 4 };
static const char *const kinds[] = {"gpt2", "llama-gqa", "mistral-window", "bert", "bart",
                                    "t5",   NULL};

#define FOR_EACH_SIGHT(what, role, layer)                                                       \
  for (int kind_ = 0; kind_ < ATTEND_POINTS * ATTEND_ROLES * (LAYERS + 1); kind_++)             \
    for (attend_point what = (attend_point)(1 << kind_ % ATTEND_POINTS), *once_ = &what; once_; \
         once_ = NULL)                                                                          \
      for (int role = kind_ / ATTEND_POINTS % ATTEND_ROLES,                                     \
               layer = kind_ / ATTEND_POINTS / ATTEND_ROLES, go_ = 1;                           \
           go_; go_ = 0)

static const float *at(const attend_hooked *s, int b, int h, int i) {
  return (const float *)s->view.data + b * s->view.stride[0] + h * s->view.stride[1] +
         i * s->view.stride[2];
}

static size_t row_floats(const attend_hooked *s) {
  return (size_t)s->shape[1] * (size_t)s->shape[3];
}

static int same_row(const attend_hooked *a, int i, const attend_hooked *b, int j) {
  for (int h = 0; h < a->shape[1]; h++)
    if (!same_bits(at(a, 0, h, i), at(b, 0, h, j), (size_t)a->shape[3])) return 0;
  return 1;
}

static void ask_for_logits(const recording *r, float *logits) {
  int n = r->decoded ? r->decoded : r->encoded;
  OK(r->s.ctx, attend_session_logits(r->run, n, NULL, logits));
}

static float *room_for_logits(const recording *r) {
  return zeroed_block((size_t)((r->decoded + r->encoded) * r->s.config->vocab), 4);
}

/* ---- a plain hook --------------------------------------------------------------- */

/* Copies what it is shown, once each, and passes it on. */
typedef struct {
  attend_hooked point[ATTEND_POINTS][ATTEND_ROLES][LAYERS + 1];
  attend_trace *trace;
  int calls;
} witness;

static int number_of(attend_point what) {
  int i = 0;
  while (1 << i != (int)what) i++;
  return i;
}

static void bear_witness(const attend_hooked *s, void *user) {
  witness *w = user;
  attend_hooked *to = &w->point[number_of(s->point)][s->role][s->layer];
  float *data = zeroed_block(row_floats(s) * (size_t)s->shape[2], sizeof *data);
  CHECK(!to->view.data);
  *to = *s;
  to->view = (attend_const_view){data, {0, s->shape[3], (ptrdiff_t)row_floats(s), 1}};
  for (int i = 0; i < s->shape[2]; i++)
    for (int h = 0; h < s->shape[1]; h++)
      memcpy(data + (size_t)i * row_floats(s) + h * s->shape[3], at(s, 0, h, i),
             (size_t)s->shape[3] * sizeof *data);
  attend_trace_read(s, w->trace);
  w->calls++;
}

TEST(a_trace_is_what_was_seen) {
  for (int k = 0; kinds[k]; k++) {
    recording r = open_recording(kinds[k], 1, 2, EVERYTHING, 0);
    witness w = {.trace = r.trace};
    attend_hook hook = {ATTEND_INIT(attend_hook), .points = EVERYTHING, .read = bear_witness,
                        .user = &w};
    int found = 0;
    attend_session_set_hooks(r.run, 1, &hook);
    record(&r, 0);
    float *logits = room_for_logits(&r);
    ask_for_logits(&r, logits);
    FOR_EACH_SIGHT(what, role, layer) {
      const attend_hooked *a = &w.point[number_of(what)][role][layer];
      attend_hooked b;
      int is = attend_trace_get(r.trace, what, (attend_role)role, layer, &b);
      CHECK_EQ(is, a->view.data != NULL);
      if (!is || !a->view.data) continue;
      found++;
      CHECK(!memcmp(a->shape, b.shape, sizeof a->shape));
      CHECK(b.point == what && (int)b.role == role && b.layer == layer);
      for (int i = 0; i < a->shape[2]; i++)
        if (!same_row(a, i, &b, i))
          CHECK_FAIL("%s: %s %d, %s, row %d", kinds[k], attend_role_name(b.role), layer,
                     attend_point_name(what), i);
    }
    CHECK_EQ(found, w.calls);
    CHECK(found > 10);
    const attend_config *c = r.s.config;
    CHECK_EQ(attend_trace_layers(r.trace, ATTEND_ENCODER_SELF), c->encoder.layers);
    CHECK_EQ(attend_trace_layers(r.trace, ATTEND_DECODER_SELF), c->decoder.layers);
    CHECK_EQ(attend_trace_layers(r.trace, ATTEND_CROSS),
             c->parts == ATTEND_BOTH ? c->decoder.layers : 0);
    FOR_EACH_SIGHT(what, role, layer)
    free((void *)w.point[number_of(what)][role][layer].view.data);
    free(logits);
    close_recording(&r);
  }
}

/* ---- in pieces, and beside others ---------------------------------------------------- */

/* Rows of `whole` that are real are those of `part`. Of the decoder's attention
 * in pieces the last piece is there, which is as wide as the whole. */
static void check_same_record(const attend_trace *whole, const attend_trace *part, int real,
                              int last, const char *name) {
  FOR_EACH_SIGHT(what, role, layer) {
    attend_hooked a, b;
    int is = attend_trace_get(whole, what, (attend_role)role, layer, &a);
    CHECK_EQ(attend_trace_get(part, what, (attend_role)role, layer, &b), is);
    if (!is) continue;
    int n = real && a.shape[2] > real ? real : a.shape[2], skip = 0;
    CHECK_EQ(b.shape[1], a.shape[1]);
    CHECK_EQ(b.shape[3], a.shape[3]);
    if (what == ATTEND_AT_PATTERN && role == ATTEND_DECODER_SELF) {
      CHECK_EQ(b.shape[2], last);
      skip = a.shape[2] - last;
      n = last;
    } else {
      CHECK_EQ(b.shape[2], a.shape[2]);
    }
    for (int i = 0; i < n; i++)
      if (!same_row(&a, skip + i, &b, i))
        CHECK_FAIL("%s: %s %d, %s, row %d", name, attend_role_name(a.role), layer,
                   attend_point_name(what), i);
  }
}

/* Rows of the last of the pieces. */
static int last_piece(int n, int piece) { return (n - 1) % piece + 1; }

TEST(pieces_become_one_text) {
  const unsigned what = EVERYTHING & ~(unsigned)ATTEND_AT_LOGITS;
  for (int k = 0; kinds[k]; k++) {
    recording whole = recorded(kinds[k], 0, 1, what);
    for (int way = 0; way < 3 && whole.decoded; way++) {
      /* calls of 3 tokens, single tokens, one call that the run cuts */
      recording r = open_recording(kinds[k], 0, 2, what, way == 2 ? 3 : 0);
      record(&r, way == 0 ? 3 : way == 1 ? 1 : 0);
      check_same_record(whole.trace, r.trace, 0, last_piece(r.decoded, way == 1 ? 1 : 3), kinds[k]);
      attend_trace_clear(r.trace);
      CHECK_EQ(attend_trace_bytes(r.trace), 0);
      CHECK_EQ(attend_trace_layers(r.trace, ATTEND_DECODER_SELF), 0);
      attend_session_reset(r.run);
      record(&r, 2); /* and once more into the same */
      check_same_record(whole.trace, r.trace, 0, last_piece(r.decoded, 2), kinds[k]);
      close_recording(&r);
    }
    close_recording(&whole);
  }
}

/* Sequence b of a batch with padding: the same as alone. */
TEST(one_sequence_of_several) {
  const unsigned what = EVERYTHING & ~(unsigned)ATTEND_AT_LOGITS & ~(unsigned)ATTEND_AT_PATTERN;
  for (int k = 0; kinds[k]; k++)
    for (int b = 0; b < 2; b++) {
      recording alone = recorded(kinds[k], b, 1, what);
      const inputs *in = &alone.in;
      int both = alone.s.config->parts == ATTEND_BOTH;
      attend_trace_options o = {ATTEND_INIT(attend_trace_options), .points = what, .sequence = b};
      attend_trace *trace;
      OK(alone.s.ctx, attend_trace_create(alone.s.ctx, &o, &trace));
      attend_hook hook = attend_trace_hook(trace);
      attend_session *run = open_run(&alone.s, in->sequences, 0);
      attend_session_set_hooks(run, 1, &hook);
      if (alone.encoded)
        OK(alone.s.ctx,
           attend_session_encode(run, in->sequences, in->tokens, in->ids, in->lengths, in->types));
      if (alone.decoded)
        OK(alone.s.ctx,
           attend_session_extend(run, in->sequences, both ? in->decoder_tokens : in->tokens,
                                 both ? in->decoder_ids : in->ids, both ? NULL : in->lengths));
      OK(alone.s.ctx, attend_trace_status(trace));
      check_same_record(alone.trace, trace, alone.encoded ? alone.real : 0, 0, kinds[k]);
      attend_session_free(run);
      attend_trace_free(trace);
      close_recording(&alone);
    }
}

/* ---- what it costs ------------------------------------------------------------------- */

TEST(recording_changes_no_bit) {
  for (int k = 0; kinds[k]; k++) {
    recording r = recorded(kinds[k], 0, 2, EVERYTHING);
    size_t n = (size_t)((r.encoded + r.decoded) * r.s.config->vocab);
    float *traced = room_for_logits(&r), *plain = room_for_logits(&r);
    int ld, ld2, rows = r.decoded ? r.decoded : r.encoded;
    int width = r.decoded ? r.s.config->decoder.width : r.s.config->encoder.width;
    ask_for_logits(&r, traced);
    const float *a = attend_session_hidden(r.run, &ld);
    attend_session *run = r.run;
    r.run = open_run(&r.s, 1, 0);
    OK(r.s.ctx, read_encoder(&r, r.run));
    OK(r.s.ctx, read_decoder(&r, r.run, 0));
    ask_for_logits(&r, plain);
    const float *b = attend_session_hidden(r.run, &ld2);
    CHECK(a && b && same_bits(traced, plain, n));
    for (int i = 0; i < rows && a && b; i++)
      CHECK(same_bits(a + i * ld, b + i * ld2, (size_t)width));
    attend_session_free(run);
    free(traced), free(plain);
    close_recording(&r);
  }
}

/* One point alone, in calls of `piece` tokens (0: one call), with room for `rows`
 * from the beginning: what the trace holds, and what was foretold. */
static void check_bytes(const char *name, unsigned bit, int piece, bool known) {
  recording r = open_recording(name, 0, 1, bit, 0);
  attend_trace_options o = {ATTEND_INIT(attend_trace_options), .points = bit,
                            .rows = known ? r.decoded : 0};
  attend_trace *trace;
  float *logits = room_for_logits(&r);
  OK(r.s.ctx, attend_trace_create(r.s.ctx, &o, &trace));
  attend_hook hook = attend_trace_hook(trace);
  attend_session_set_hooks(r.run, 1, &hook);
  record(&r, piece);
  if (!piece) ask_for_logits(&r, logits);
  size_t predicted = attend_model_trace_bytes(r.s.model, bit, r.encoded, r.decoded);
  size_t bytes = attend_trace_bytes(trace);
  if (known || !piece)
    CHECK_EQ(bytes, predicted);
  else
    CHECK(bytes >= predicted && bytes < predicted + predicted / 2);
  attend_trace_free(trace);
  free(logits);
  close_recording(&r);
}

TEST(bytes_are_foretold) {
  for (int k = 0; golden_models[k]; k++)
    for (unsigned bit = 1; bit < EVERYTHING; bit <<= 1) {
      check_bytes(golden_models[k], bit, 0, true);
      check_bytes(golden_models[k], bit, 0, false);
      if (bit & (ATTEND_AT_PATTERN | ATTEND_AT_LOGITS)) continue;
      check_bytes(golden_models[k], bit, 4, true);
      check_bytes(golden_models[k], bit, 1, false);
    }
}

TEST(too_much_is_refused) {
  for (int k = 0; kinds[k]; k++) {
    recording r = open_recording(kinds[k], 0, 1, 0, 0);
    size_t all = attend_model_trace_bytes(r.s.model, FOR_A_LENS, r.encoded, r.decoded);
    float *a = room_for_logits(&r), *b = room_for_logits(&r);
    record(&r, 0);
    ask_for_logits(&r, a);
    for (int enough = 0; enough < 2; enough++) {
      attend_trace_options o = {ATTEND_INIT(attend_trace_options), .points = FOR_A_LENS,
                                .most_bytes = all - !enough};
      attend_trace *trace;
      OK(r.s.ctx, attend_trace_create(r.s.ctx, &o, &trace));
      attend_hook hook = attend_trace_hook(trace);
      attend_session_set_hooks(r.run, 1, &hook);
      attend_session_reset(r.run);
      record(&r, 0); /* the run goes on */
      ask_for_logits(&r, b);
      CHECK(same_bits(a, b, (size_t)r.s.config->vocab));
      CHECK_EQ(attend_trace_status(trace), enough ? ATTEND_OK : ATTEND_NO_MEMORY);
      if (!enough) CHECK_SAYS(attend_message(r.s.ctx), "raise the limit");
      CHECK(attend_trace_bytes(trace) <= o.most_bytes);
      attend_trace_clear(trace);
      OK(r.s.ctx, attend_trace_status(trace));
      attend_trace_free(trace);
    }
    free(a), free(b);
    close_recording(&r);
  }
}

/* ---- stopping -------------------------------------------------------------------------- */

static int stop_at(void *user) { return --*(int *)user == 0; }

/* The run has read the encoder's text and `before` tokens; the rest is stopped
 * at every layer of every piece. */
static void check_stopping(const char *name, int before) {
  recording r = open_recording(name, 0, 2, 0, 3);
  size_t vocab = (size_t)r.s.config->vocab;
  float *want = zeroed_block(vocab, 4), *got = zeroed_block(vocab, 4);
  int left, rest = r.decoded - before, stops = 0;
  OK(r.s.ctx, read_encoder(&r, r.run));
  OK(r.s.ctx, attend_session_extend(r.run, 1, r.decoded, r.target, NULL));
  OK(r.s.ctx, attend_session_next(r.run, 1, want));
  OK(r.s.ctx, attend_session_truncate(r.run, 0, before));
  for (attend_status status = ATTEND_STOPPED; status;) {
    left = ++stops;
    attend_session_set_stop(r.run, stop_at, &left);
    status = attend_session_extend(r.run, 1, rest, r.target + before, NULL);
    if (!status) break;
    CHECK_EQ(status, ATTEND_STOPPED);
    CHECK(attend_message(r.s.ctx)[0]);
    CHECK_EQ(attend_session_length(r.run, 0), before);
    attend_session_set_stop(r.run, NULL, NULL);
    OK(r.s.ctx, attend_session_extend(r.run, 1, rest, r.target + before, NULL));
    OK(r.s.ctx, attend_session_next(r.run, 1, got));
    CHECK(same_bits(want, got, vocab));
    OK(r.s.ctx, attend_session_truncate(r.run, 0, before));
    if (stops > 100) break;
  }
  CHECK_EQ(stops - 1, (rest + 2) / 3 * r.s.config->decoder.layers);
  free(want), free(got);
  close_recording(&r);
}

TEST(a_run_that_is_stopped) {
  check_stopping("gpt2", 0);
  check_stopping("llama-gqa", 5);
  check_stopping("bart", 2);
  recording r = open_recording("t5", 0, 2, 0, 0); /* the encoder's side */
  float *want = room_for_logits(&r), *got = room_for_logits(&r);
  int left;
  record(&r, 0);
  ask_for_logits(&r, want);
  for (int i = 1; i <= r.s.config->encoder.layers; i++) {
    left = i;
    attend_session_set_stop(r.run, stop_at, &left);
    CHECK_EQ(read_encoder(&r, r.run), ATTEND_STOPPED);
    CHECK_EQ(attend_session_length(r.run, 0), 0);
    attend_session_set_stop(r.run, NULL, NULL);
    record(&r, 0);
    ask_for_logits(&r, got);
    CHECK(same_bits(want, got, (size_t)(r.decoded * r.s.config->vocab)));
  }
  free(want), free(got);
  close_recording(&r);
}
