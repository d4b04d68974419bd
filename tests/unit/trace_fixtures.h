/* For tests of traces and lenses: recorded runs of the golden models on their inputs, and
 * synthetic traces. */
#ifndef TESTS_TRACE_FIXTURES_H
#define TESTS_TRACE_FIXTURES_H

#include "attend/lens.h"
#include "golden_models.h"

enum { EVERYTHING = (1 << ATTEND_POINTS) - 1 };

/* The models whose golden results include attention. */
static const char *const golden_models[] = {
    "gpt2",         "gpt2-by-layer", "llama-gqa",  "llama-mqa-tied", "llama-biases",
    "llama-linear", "llama-rope3",   "llama-yarn", "mistral-window", "bert",
    "distilbert",   "roberta",       "bart",       "bart-forced",    "t5",
    "t5-gated",     "t5-untied",     NULL};

/* ---- one sequence of a golden model, recorded ------------------------------- */

typedef struct {
  subject s;
  inputs in;
  attend_session *run;
  attend_trace *trace;
  int sequence;          /* of the goldens */
  int encoded, real;     /* tokens of the encoder, and without padding */
  int decoded;           /* tokens of the decoder */
  const int32_t *source; /* [encoded] */
  const int32_t *target; /* [decoded] */
  const int32_t *types;  /* [encoded] or NULL */
} recording;

/* Nothing has been read yet. rows: of the run. */
static inline recording open_recording(const char *name, int sequence, int threads, unsigned what,
                                       int rows) {
  recording r = {.sequence = sequence};
  r.s = open_model(name, NULL, threads, NULL);
  r.in = open_inputs(r.s.ctx, name);
  const inputs *in = &r.in;
  int both = r.s.config->parts == ATTEND_BOTH;
  if (r.s.config->parts & ATTEND_ENCODER) {
    r.source = in->ids + sequence * in->tokens;
    r.types = in->types ? in->types + sequence * in->tokens : NULL;
    r.encoded = in->tokens;
    r.real = in->lengths[sequence];
  }
  if (r.s.config->parts & ATTEND_DECODER) {
    r.decoded = both ? in->decoder_tokens : in->lengths[sequence];
    r.target = both ? in->decoder_ids + sequence * r.decoded : in->ids + sequence * in->tokens;
  }
  attend_trace_options o = {ATTEND_INIT(attend_trace_options), .points = what};
  OK(r.s.ctx, attend_trace_create(r.s.ctx, &o, &r.trace));
  r.run = open_run(&r.s, 1, rows);
  attend_hook hook = attend_trace_hook(r.trace);
  attend_session_set_hooks(r.run, 1, &hook);
  return r;
}

static inline attend_status read_encoder(const recording *r, attend_session *run) {
  if (!r->encoded) return ATTEND_OK;
  int32_t real = r->real;
  return attend_session_encode(run, 1, r->encoded, r->source, &real, r->types);
}

/* The decoder takes `piece` tokens a call; 0: all of them in one. */
static inline attend_status read_decoder(const recording *r, attend_session *run, int piece) {
  attend_status status = ATTEND_OK;
  int step = piece ? piece : r->decoded;
  for (int i = 0; i < r->decoded && !status; i += step) {
    int n = r->decoded - i < step ? r->decoded - i : step;
    status = attend_session_extend(run, 1, n, r->target + i, NULL);
  }
  return status;
}

static inline void record(const recording *r, int piece) {
  OK(r->s.ctx, read_encoder(r, r->run));
  OK(r->s.ctx, read_decoder(r, r->run, piece));
  OK(r->s.ctx, attend_trace_status(r->trace));
}

static inline void close_recording(recording *r) {
  attend_session_free(r->run);
  attend_trace_free(r->trace);
  close_inputs(&r->in);
  close_model(&r->s);
}

static inline recording recorded(const char *name, int sequence, int threads, unsigned what) {
  recording r = open_recording(name, sequence, threads, what, 0);
  record(&r, 0);
  return r;
}

/* ---- lenses ------------------------------------------------------------------- */

enum {
  FOR_A_LENS = ATTEND_AT_QUERY | ATTEND_AT_KEY | ATTEND_AT_VALUE | ATTEND_AT_DENOMINATOR |
               ATTEND_AT_HEAD_OUTPUT
};

static inline attend_lens *lens_of(const recording *r, const attend_form *form) {
  attend_lens *lens;
  if (attend_lens_create(r->s.model, r->trace, form, r->real, &lens)) {
    printf("no lens: %s\n", attend_message(r->s.ctx));
    exit(1);
  }
  return lens;
}

/* All weights of a head, [T][S]. */
static inline float *whole_block(attend_context *ctx, attend_lens *lens, attend_head_id at,
                                 attend_lens_shape *s) {
  if (!attend_lens_role(lens, at.role, s)) {
    printf("the lens has no %s\n", attend_role_name(at.role));
    exit(1);
  }
  float *w = zeroed_block((size_t)s->rows * (size_t)s->keys, sizeof *w);
  OK(ctx, attend_lens_block(lens, at, 0, s->rows, 0, s->keys, w));
  return w;
}

/* Every head of every layer of every role that the lens has. */
#define FOR_EACH_HEAD(lens, shape, at)                                                          \
  for (int role_ = 0; role_ < ATTEND_ROLES; role_++)                                            \
    for (int i_ = 0;                                                                            \
         attend_lens_role(lens, (attend_role)role_, &shape) && i_ < shape.layers * shape.heads; \
         i_++)                                                                                  \
      for (attend_head_id at = {(attend_role)role_, i_ / shape.heads, i_ % shape.heads},        \
                          *once_ = &at;                                                         \
           once_; once_ = NULL)

/* n random tokens on every side, without padding. */
static inline recording long_recording(const char *name, int n, int threads) {
  recording r = open_recording(name, 0, threads, FOR_A_LENS, 0);
  int32_t *ids = random_ids(r.s.config, 9, (size_t)n);
  if (r.encoded) OK(r.s.ctx, attend_session_encode(r.run, 1, n, ids, NULL, NULL));
  if (r.decoded) OK(r.s.ctx, attend_session_extend(r.run, 1, n, ids, NULL));
  OK(r.s.ctx, attend_trace_status(r.trace));
  r.real = 0;
  free(ids);
  return r;
}

/* ---- by hand ------------------------------------------------------------------ */

/* An untrained model of one head, for the shape alone: GPT-2 reads one way, BERT
 * both ways. */
static inline subject bare_model(attend_context *ctx, const char *family, int width, int layers) {
  char config[700];
  subject s = {.ctx = ctx};
  bool one_way = !strcmp(family, "gpt2");
  snprintf(config, sizeof config,
           one_way ? "{\"model_type\": \"gpt2\", \"n_embd\": %d, \"n_head\": 1,"
                     " \"n_layer\": %d, \"n_positions\": 16,"
                     " \"vocab_size\": 20, \"layer_norm_epsilon\": 1e-5,"
                     " \"activation_function\": \"gelu_new\"}"
                   : "{\"model_type\": \"bert\", \"hidden_size\": %d,"
                     " \"num_attention_heads\": 1, \"num_hidden_layers\": %d,"
                     " \"intermediate_size\": 8, \"hidden_act\": \"gelu\","
                     " \"max_position_embeddings\": 16, \"vocab_size\": 20,"
                     " \"type_vocab_size\": 2, \"layer_norm_eps\": 1e-12}",
           width, layers);
  mkdir(models_folder(), 0700);
  write_in_folder("config.json", config, strlen(config));
  if (attend_checkpoint_init_pytorch(ctx, models_folder(), 1, &s.files) ||
      attend_model_create(s.files, NULL, &s.model)) {
    printf("%s: %s\n", family, attend_message(ctx));
    exit(1);
  }
  s.config = attend_model_config(s.model);
  remove_folder();
  return s;
}

/* n rows of W floats of the one head. */
static inline void show(attend_trace *trace, attend_point what, attend_role role, int layer, int n,
                        int width, const float *rows) {
  attend_hooked s = {.point = what,
                     .role = role,
                     .layer = layer,
                     .shape = {1, 1, n, width},
                     .view = {(void *)rows, {0, 0, width, 1}}};
  attend_trace_read(&s, trace);
}

#endif
