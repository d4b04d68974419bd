/* The n-th allocation fails, for every n, while a run is recorded, saved, and
 * looked at through lenses: a status with a sentence, nothing lost, and the next
 * try gives what it would have given. */
#include "base/base.h"
#include "trace_fixtures.h"

typedef struct {
  ledger memory;
  subject s;
  attend_trace *trace; /* of what is looked at */
  const char *form;    /* of the other lens, NULL: none */
  bool again;          /* what failed is asked for once more */
} trial;

enum { N = 9 };
static const int32_t ids[N] = {5, 6, 7, 5, 6, 8, 9, 5, 6};

static attend_status record_all(const trial *t, attend_session *run, attend_trace *trace) {
  attend_hook hook = attend_trace_hook(trace);
  ATTEND_TRY(attend_session_set_hooks(run, 1, &hook));
  if (t->s.config->parts & ATTEND_ENCODER)
    ATTEND_TRY(attend_session_encode(run, 1, N, ids, NULL, NULL));
  if (t->s.config->parts & ATTEND_DECODER) {
    ATTEND_TRY(attend_session_extend(run, 1, 6, ids, NULL));
    ATTEND_TRY(attend_session_extend(run, 1, 3, ids + 6, NULL));
  }
  return attend_trace_status(trace);
}

/* ---- recording --------------------------------------------------------------------------- */

/* Logits of the recorded states, then the text goes on. */
static attend_status use_head(const trial *t, attend_session *run, const attend_trace *trace) {
  const attend_config *c = t->s.config;
  bool decoder = c->parts & ATTEND_DECODER;
  attend_hooked s;
  float *logits = zeroed_block((size_t)(50 * N * c->vocab), sizeof *logits);
  CHECK(attend_trace_get(trace, ATTEND_AT_RESIDUAL,
                         decoder ? ATTEND_DECODER_SELF : ATTEND_ENCODER_SELF,
                         decoder ? c->decoder.layers : c->encoder.layers, &s));
  float *many = zeroed_block((size_t)(50 * N * s.shape[3]), sizeof *many);
  attend_status status = attend_session_head(run, 50 * N, many, s.shape[3], false, logits);
  free(many), free(logits);
  return status;
}

static attend_status act_record(trial *t) {
  attend_trace_options o = {ATTEND_INIT(attend_trace_options), .points = EVERYTHING};
  attend_trace *trace = NULL;
  attend_session *run = NULL;
  attend_status status = attend_trace_create(t->s.ctx, &o, &trace);
  if (!status) status = attend_session_create(t->s.model, NULL, &run);
  if (!status) status = record_all(t, run, trace);
  if (!status) status = use_head(t, run, trace);
  if (!status) status = attend_trace_save(trace, in_folder("a.safetensors"));
  if (trace) attend_trace_clear(trace);
  attend_session_free(run);
  attend_trace_free(trace);
  return status;
}

/* ---- looking ------------------------------------------------------------------------------ */

typedef struct {
  float block[N * N], cells[9], difference[9];
  float entropy[N], weight[N], mass[N], lse[N], shares[8 * N];
  int32_t top[N];
  uint8_t reached[8 * N];
  attend_pattern_scores pattern;
  attend_difference apart;
} answers;

typedef struct {
  trial *t;
  attend_lens *lens, *other;
  attend_head_id at;
  answers a;
} looking;

typedef attend_status (*question)(looking *l);

static attend_status ask_block(looking *l) {
  return attend_lens_block(l->lens, l->at, 0, N, 0, N, l->a.block);
}
static attend_status ask_pool(looking *l) {
  attend_area a = {0, N, 0, N, 3, 3, ATTEND_POOL_MEAN, 40};
  return attend_lens_pool(l->lens, l->at, &a, NULL, l->a.cells, NULL);
}
static attend_status ask_difference(looking *l) {
  attend_area a = {0, N, 0, N, 3, 3, ATTEND_POOL_MAX, 0};
  return attend_lens_pool(l->lens, l->at, &a, l->other, l->a.difference, NULL);
}
static attend_status ask_stats(looking *l) {
  attend_row_stats all = {ATTEND_INIT(attend_row_stats), l->a.entropy, l->a.top, l->a.weight,
                          l->a.mass};
  attend_row_stats few = {ATTEND_INIT(attend_row_stats), .top = l->a.top};
  ATTEND_TRY(attend_lens_stats(l->lens, l->at, &all));
  return attend_lens_stats(l->other, l->at, &few);
}
static attend_status ask_denominators(looking *l) {
  attend_view q, k, v, out;
  ATTEND_TRY(attend_lens_vectors(l->other, l->at, &q, &k, &v, &out));
  return attend_lens_denominators(l->other, l->at, l->a.lse);
}
static attend_status ask_pattern(looking *l) {
  attend_pattern_options o = {ATTEND_INIT(attend_pattern_options), ids, ids, NULL, 0};
  return attend_lens_pattern(l->lens, l->at, &o, &l->a.pattern);
}
static attend_status ask_rollout(looking *l) {
  return attend_lens_rollout(l->lens, l->at.role, N - 1, 300, l->a.shares, NULL);
}
static attend_status ask_reach(looking *l) {
  int n;
  return attend_lens_reach(l->lens, l->at.role, N - 1, l->a.reached, NULL, 0, &n);
}
static attend_status ask_compare(looking *l) {
  return attend_lens_compare(l->lens, l->other, l->at, 0, &l->a.apart);
}

static const question questions[] = {ask_block,   ask_difference,   ask_pool,
                                     ask_stats,   ask_denominators, ask_pattern,
                                     ask_rollout, ask_reach,        ask_compare};
enum { QUESTIONS = sizeof questions / sizeof *questions };

static attend_status look_at_all(looking *l) {
  attend_context *ctx = l->t->s.ctx;
  attend_form form;
  ATTEND_TRY(attend_form_parse(ctx, l->t->form, &form));
  ATTEND_TRY(attend_lens_create(l->t->s.model, l->t->trace, NULL, 0, &l->lens));
  ATTEND_TRY(attend_lens_create(l->t->s.model, l->t->trace, &form, 0, &l->other));
  for (int i = 0; i < QUESTIONS; i++) {
    attend_status status = questions[i](l);
    if (status && l->t->again && status == ATTEND_NO_MEMORY) status = questions[i](l);
    ATTEND_TRY(status);
  }
  return ATTEND_OK;
}

static answers right; /* what all trials must give */

static attend_status act_look(trial *t) {
  static looking l;
  l = (looking){.t = t};
  bool decoder = t->s.config->parts & ATTEND_DECODER;
  l.at = (attend_head_id){decoder ? ATTEND_DECODER_SELF : ATTEND_ENCODER_SELF, 1, 1};
  attend_status status = look_at_all(&l);
  if (!status && !l.t->memory.fail_at)
    right = l.a;
  else if (!status)
    CHECK(!memcmp(&right, &l.a, sizeof right));
  attend_lens_free(l.lens);
  attend_lens_free(l.other);
  return status;
}

/* ---- trials -------------------------------------------------------------------------------- */

typedef attend_status (*action)(trial *t);

/* Until no allocation is left to fail; returns how many there were. */
static long fail_each(const char *name, trial *t, action act) {
  long n = 0, last = 0, stride = light() && act == act_record ? 5 : 1;
  long before = t->memory.taken;
  if (act(t)) CHECK_FAIL("%s: %s", name, attend_message(t->s.ctx));
  last = t->memory.taken - before;
  for (n = 1; n <= last; n += stride) {
    long live = t->memory.live;
    t->memory.fail_at = t->memory.taken + n;
    t->s.ctx->message[0] = 0;
    attend_status status = act(t);
    t->memory.fail_at = 0;
    if (t->memory.live != live)
      CHECK_FAIL("%s: failure %ld loses %ld blocks", name, n, t->memory.live - live);
    if (status && status != ATTEND_NO_MEMORY)
      CHECK_FAIL("%s: failure %ld gives status %d", name, n, (int)status);
    if (!status && !t->again) CHECK_FAIL("%s: failure %ld goes unnoticed", name, n);
    if (!strstr(attend_message(t->s.ctx), "no memory for"))
      CHECK_FAIL("%s: failure %ld says \"%s\"", name, n, attend_message(t->s.ctx));
  }
  return last;
}

static void try_model(const char *name, const char *form) {
  trial t = {.form = form};
  attend_context *ctx = open_context(NULL, 2, &t.memory);
  attend_trace_options o = {ATTEND_INIT(attend_trace_options), .points = FOR_A_LENS};
  attend_session *run;
  t.s = open_path(ctx, model_path(name, NULL), NULL);
  CHECK(fail_each(name, &t, act_record) > 20);
  OK(ctx, attend_trace_create(ctx, &o, &t.trace));
  run = open_run(&t.s, 1, 0);
  OK(ctx, record_all(&t, run, t.trace));
  CHECK(fail_each(name, &t, act_look) > 20);
  t.again = true;
  CHECK(fail_each(name, &t, act_look) > 20);
  attend_session_free(run);
  attend_trace_free(t.trace);
  close_model(&t.s);
  CHECK_EQ(t.memory.live, 0);
}

TEST(decoders_looked_at_without_memory) {
  try_model("gpt2", "argmax");
  try_model("llama-gqa", "favor(m=16)");
  remove_folder();
}
TEST(encoders_looked_at_without_memory) {
  mkdir(models_folder(), 0700);
  try_model("bert", "poly(p=2,c=1)");
  remove_folder();
}
TEST(both_looked_at_without_memory) {
  mkdir(models_folder(), 0700);
  try_model("t5", "elu"); /* with a bias: the definition */
  try_model("bart", "gaussian");
  remove_folder();
}
