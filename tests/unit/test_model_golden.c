/* Models against what Hugging Face transformers computed with them: logits,
 * hidden states and attention within 1e-4 of the largest, and the same bits
 * whether sequences ride together with padding, alone, or come token by token;
 * on 1, 2 and 3 threads; on AVX2 and AVX-512. */
#include "changed_checkpoints.h"

static const double BOUND = 1e-4;

/* ---- a portrait: everything that is seen, in the shape of the goldens ----------- */

enum { ROLES = 3, LAYERS = 4 };

typedef struct {
  int heads, length, width;
  float *data; /* [sequences][heads][length][width] or NULL */
  size_t count;
} sheet;

typedef struct {
  const inputs *in;
  const attend_config *config;
  sheet hidden[ROLES][LAYERS], attention[ROLES][LAYERS], logits;
  int sequence, position; /* where what is seen now belongs */
} portrait;

static void draw(portrait *p, sheet *s, const attend_hooked *from) {
  bool reader = from->role == ATTEND_ENCODER_SELF;
  int both = p->config->parts == ATTEND_BOTH;
  int queries = both && !reader ? p->in->decoder_tokens : p->in->tokens;
  int keys = both && from->role == ATTEND_DECODER_SELF ? p->in->decoder_tokens : p->in->tokens;
  int first = reader ? 0 : p->position;
  if (!s->data) {
    s->heads = from->shape[1];
    s->length = queries;
    s->width = from->point == ATTEND_AT_PATTERN ? keys : from->shape[3];
    s->count = (size_t)p->in->sequences * (size_t)s->heads * (size_t)s->length * (size_t)s->width;
    s->data = zeroed_block(s->count, sizeof *s->data);
  }
  const float *data = from->view.data;
  const ptrdiff_t *step = from->view.stride;
  for (int b = 0; b < from->shape[0]; b++)
    for (int h = 0; h < s->heads; h++)
      for (int i = 0; i < from->shape[2] && first + i < s->length; i++)
        memcpy(s->data + (((p->sequence + b) * s->heads + h) * s->length + first + i) * s->width,
               data + b * step[0] + h * step[1] + i * step[2],
               (size_t)(from->shape[3] < s->width ? from->shape[3] : s->width) * sizeof *data);
}

static void see(const attend_hooked *sight, void *user) {
  portrait *p = user;
  draw(p,
       sight->point == ATTEND_AT_RESIDUAL ? &p->hidden[sight->role][sight->layer]
                                          : &p->attention[sight->role][sight->layer],
       sight);
}

static void draw_logits(portrait *p, const subject *s, attend_session *run, int count, int n) {
  int vocab = s->config->vocab;
  float *logits = zeroed_block((size_t)(count * n * vocab), sizeof *logits);
  OK(s->ctx, attend_session_logits(run, count * n, NULL, logits));
  attend_hooked sight = {
      .point = ATTEND_AT_RESIDUAL,
      .role = s->config->parts == ATTEND_ENCODER ? ATTEND_ENCODER_SELF : ATTEND_DECODER_SELF,
      .shape = {count, 1, n, vocab},
      .view = {logits, {(ptrdiff_t)n * vocab, 0, vocab, 1}}};
  draw(p, &p->logits, &sight);
  free(logits);
}

/* The decoder takes n tokens of `count` sequences from p->position on. */
static void extend(portrait *p, const subject *s, attend_session *run, int count, int n) {
  const inputs *in = p->in;
  int both = s->config->parts == ATTEND_BOTH;
  int whole = both ? in->decoder_tokens : in->tokens;
  const int32_t *from = both ? in->decoder_ids : in->ids;
  int32_t ids[64], real[4];
  for (int b = 0; b < count; b++) {
    int length = both ? whole : in->lengths[p->sequence + b];
    int left = length - p->position;
    real[b] = left < 0 ? 0 : left < n ? left : n;
    memcpy(ids + b * n, from + (p->sequence + b) * whole + p->position, (size_t)n * sizeof *ids);
  }
  OK(s->ctx, attend_session_extend(run, count, n, ids, real));
  draw_logits(p, s, run, count, n);
}

/* Sequences [first, first + count), the decoder's in calls of `piece` tokens (0:
 * all of them). */
static void pose(portrait *p, const subject *s, int first, int count, int piece) {
  const inputs *in = p->in;
  attend_session *run = open_run(s, count, 0);
  attend_hook hook = {ATTEND_INIT(attend_hook), .points = ATTEND_AT_RESIDUAL | ATTEND_AT_PATTERN,
                      .read = see, .user = p};
  int n = count == 1 ? in->lengths[first] : in->tokens;
  int both = s->config->parts == ATTEND_BOTH;
  int end = both ? in->decoder_tokens : n;
  attend_session_set_hooks(run, 1, &hook);
  p->sequence = first;
  p->position = 0;
  if (s->config->parts & ATTEND_ENCODER)
    OK(s->ctx,
       attend_session_encode(run, count, n, in->ids + first * in->tokens, in->lengths + first,
                             in->types ? in->types + first * in->tokens : NULL));
  if (s->config->parts == ATTEND_ENCODER) draw_logits(p, s, run, count, n);
  if (s->config->parts & ATTEND_DECODER)
    for (; p->position < end; p->position += piece ? piece : end)
      extend(p, s, run, count, piece ? piece : end);
  attend_session_free(run);
}

static portrait portrait_of(const subject *s, const inputs *in, bool alone, int piece) {
  portrait p = {.in = in, .config = s->config};
  if (!alone) pose(&p, s, 0, in->sequences, piece);
  for (int b = 0; alone && b < in->sequences; b++) pose(&p, s, b, 1, piece);
  return p;
}

static void throw_away(portrait *p) {
  for (int r = 0; r < ROLES; r++)
    for (int l = 0; l < LAYERS; l++) {
      free(p->hidden[r][l].data);
      free(p->attention[r][l].data);
    }
  free(p->logits.data);
}

/* ---- comparing -------------------------------------------------------------------- */

/* A row of a sheet, by its number, is that of a real token. */
static bool is_real(const portrait *p, const sheet *s, bool reader, size_t row) {
  size_t length = (size_t)s->length, i = row % length;
  size_t b = row / length / (size_t)s->heads;
  if (p->config->parts == ATTEND_BOTH && !reader) return true;
  return i < (size_t)p->in->lengths[b];
}

/* Only what real tokens give: padding may be anything. */
static void check_same(const portrait *p, const sheet *a, const sheet *b, bool reader,
                       const char *what) {
  CHECK(!a->data == !b->data);
  if (!a->data || !b->data) return;
  CHECK_EQ(a->count, b->count);
  for (size_t row = 0; row < a->count / (size_t)a->width; row++)
    if (is_real(p, a, reader, row) &&
        !same_bits(a->data + row * (size_t)a->width, b->data + row * (size_t)a->width,
                   (size_t)a->width))
      CHECK_FAIL("%s %s: row %zu has other bits", p->config->family, what, row);
}

static void check_alike(const portrait *a, const portrait *b, const char *what) {
  for (int r = 0; r < ROLES; r++)
    for (int l = 0; l < LAYERS; l++) {
      check_same(a, &a->hidden[r][l], &b->hidden[r][l], r == 0, what);
      check_same(a, &a->attention[r][l], &b->attention[r][l], r == 0, what);
    }
  check_same(a, &a->logits, &b->logits, a->config->parts == ATTEND_ENCODER, what);
}

static double check_near(const portrait *p, const sheet *s, const char *name, bool reader) {
  const attend_tensor *t = attend_tensor_file_find(p->in->file, name);
  double worst = 0, largest = 0;
  CHECK(t && s->data);
  if (!t || !s->data) return 0;
  CHECK_EQ(t->count, s->count);
  for (size_t i = 0; i < s->count; i++) {
    float theirs;
    if (!is_real(p, s, reader, i / (size_t)s->width)) continue;
    memcpy(&theirs, (const char *)t->data + 4 * i, 4);
    largest = fmax(largest, fabs((double)theirs));
    double error = fabs((double)s->data[i] - (double)theirs);
    if (!(error <= worst)) worst = isnan(error) ? INFINITY : error;
  }
  if (!(worst <= BOUND * largest))
    CHECK_FAIL("%s %s: an error of %g of %g", p->config->family, name, worst, largest);
  return worst / largest;
}

static const char *named(const portrait *p, int role, const char *what, int layer) {
  static const char *const sides[] = {"encoder_", "decoder_", "cross_"};
  static char name[64];
  snprintf(name, sizeof name, "%s%s.%d", p->config->parts == ATTEND_BOTH ? sides[role] : "", what,
           layer);
  return name;
}

/* Everything that the golden file has, and that it has it. */
static void check_golden(const portrait *p) {
  int seen = 0;
  for (int r = 0; r < ROLES; r++)
    for (int l = 0; l < LAYERS; l++) {
      const sheet *hidden = &p->hidden[r][l], *weights = &p->attention[r][l];
      if (hidden->data) check_near(p, hidden, named(p, r, "hidden", l), r == 0);
      if (weights->data) check_near(p, weights, named(p, r, "attention", l), r == 0);
      seen += (hidden->data != NULL) + (weights->data != NULL);
    }
  int wanted = 0;
  for (size_t i = 0; i < attend_tensor_file_count(p->in->file); i++) {
    const char *name = attend_tensor_file_get(p->in->file, i)->name;
    if (!strncmp(name, "grad.", 5)) continue;
    wanted += strstr(name, "hidden.") || strstr(name, "attention.");
  }
  CHECK_EQ(seen, wanted);
  check_near(p, &p->logits, "logits", p->config->parts == ATTEND_ENCODER);
}

/* ---- all families, all ways ---------------------------------------------------------- */

static void check_ways(const subject *s, const inputs *in, const portrait *together) {
  int pieces[] = {1, 3};
  portrait alone = portrait_of(s, in, true, 0);
  check_alike(together, &alone, "alone");
  throw_away(&alone);
  if (!(s->config->parts & ATTEND_DECODER)) return;
  for (int i = 0; i < (light() ? 1 : 2); i++) {
    portrait p = portrait_of(s, in, i == 1, pieces[i]);
    check_alike(together, &p, "in pieces");
    throw_away(&p);
  }
}

static void check_family(const char *name) {
  portrait first[8] = {{0}};
  subject subjects[8];
  inputs in[8];
  int isas = 0, plain = -1;
  FOR_EACH_ISA(isa) {
    for (int threads = 1; threads <= 3; threads++) {
      if (light() && threads == 3) continue;
      subject s = open_model(name, isa, threads, NULL);
      inputs i = open_inputs(s.ctx, name);
      portrait p = portrait_of(&s, &i, false, 0);
      if (threads == 1) {
        check_golden(&p);
        check_ways(&s, &i, &p);
        first[isas] = p;
        subjects[isas] = s;
        in[isas] = i;
        first[isas].in = &in[isas];
        first[isas].config = subjects[isas].config;
        continue;
      }
      check_alike(&first[isas], &p, "on more threads");
      throw_away(&p);
      close_inputs(&i);
      close_model(&s);
    }
    if (strcmp(isa, "scalar") && plain < 0) plain = isas;
    if (plain >= 0) check_alike(&first[plain], &first[isas], isa);
    isas++;
  }
  for (int i = 0; i < isas; i++) {
    throw_away(&first[i]);
    close_inputs(&in[i]);
    close_model(&subjects[i]);
  }
}

TEST(decoders_as_transformers_computes_them) {
  check_family("gpt2");
  check_family("llama-gqa");
  check_family("llama-mqa-tied");
}
TEST(encoders_as_transformers_computes_them) {
  check_family("bert");
  check_family("distilbert");
  check_family("roberta");
}
TEST(both_as_transformers_computes_them) {
  check_family("bart");
  check_family("t5");
  check_family("t5-gated");
}

/* ---- a real model, to its insides ------------------------------------------------------- */

typedef struct {
  const attend_tensor_file *file;
  int seen;
} insides;

static float number_at(const attend_tensor *t, size_t i) {
  float x;
  memcpy(&x, (const char *)t->data + 4 * i, 4);
  return x;
}

/* heads: stored [B,T,H*W] instead of [B,H,T,W]. */
static void compare_sight(insides *in, const attend_hooked *s, const char *name,
                          bool rows_of_heads) {
  const attend_tensor *t = attend_tensor_file_find(in->file, name);
  const float *data = s->view.data;
  double worst = 0, largest = 0;
  const int *n = s->shape;
  if (!t) CHECK_FAIL("partials have no %s", name);
  if (!t) return;
  CHECK_EQ((int64_t)n[0] * n[1] * n[2] * n[3], t->count);
  for (int b = 0; b < n[0]; b++)
    for (int h = 0; h < n[1]; h++)
      for (int i = 0; i < n[2]; i++)
        for (int j = 0; j < n[3]; j++) {
          const ptrdiff_t *step = s->view.stride;
          int at = rows_of_heads ? ((b * n[2] + i) * n[1] + h) * n[3] + j
                                 : ((b * n[1] + h) * n[2] + i) * n[3] + j;
          double theirs = (double)number_at(t, (size_t)at);
          double ours = (double)data[b * step[0] + h * step[1] + i * step[2] + j * step[3]];
          largest = fmax(largest, fabs(theirs));
          worst = fmax(worst, fabs(ours - theirs));
          if (isnan(ours)) worst = INFINITY;
        }
  if (!(worst <= BOUND * largest)) CHECK_FAIL("%s: an error of %g of %g", name, worst, largest);
  in->seen++;
}

static void see_insides(const attend_hooked *s, void *user) {
  static const char *const hidden[] = {"x", "block0"};
  insides *in = user;
  if (s->point == ATTEND_AT_RESIDUAL && s->layer < 2) compare_sight(in, s, hidden[s->layer], false);
  if (s->layer) return;
  if (s->point == ATTEND_AT_QUERY) compare_sight(in, s, "q", false);
  if (s->point == ATTEND_AT_KEY) compare_sight(in, s, "k", false);
  if (s->point == ATTEND_AT_VALUE) compare_sight(in, s, "v", false);
  if (s->point == ATTEND_AT_PATTERN) compare_sight(in, s, "attSm", false);
  if (s->point == ATTEND_AT_HEAD_OUTPUT) compare_sight(in, s, "y", true);
}

/* The file has zeros for the biases of q, k, v, which the partials were computed
 * with: the first layer's are what is missing from W ln1, the same in all rows. */
static void write_with_biases(const attend_tensor_file *partials) {
  forgery *f = forge("gpt-nano-sort");
  const attend_tensor *ln1 = attend_tensor_file_find(partials, "ln1");
  const attend_tensor *qkv = attend_tensor_file_find(partials, "qkv");
  forged *bias = forge_find(f, "transformer.h.0.attn.c_attn.bias");
  const float *w = (const float *)(void *)forge_find(f, "transformer.h.0.attn.c_attn.weight")->data;
  for (size_t j = 0; j < 144; j++) {
    double mean = 0;
    for (size_t row = 0; row < 33; row++) {
      double sum = (double)number_at(qkv, row * 144 + j);
      for (size_t i = 0; i < 48; i++)
        sum -= (double)number_at(ln1, row * 48 + i) * (double)w[i * 144 + j];
      mean += sum / 33;
    }
    ((float *)(void *)bias->data)[j] = (float)mean;
  }
  forge_write(f);
  forge_free(f);
}

TEST(a_model_to_its_insides) {
  FOR_EACH_ISA(isa) {
    attend_context *ctx = open_context(isa, 2, NULL);
    attend_tensor_file *file;
    OK(ctx,
       attend_tensor_file_open(ctx, model_path("gpt-nano-sort", "partials.safetensors"), &file));
    if (!file) return;
    write_with_biases(file);
    subject s = open_path(ctx, models_folder(), NULL);
    insides in = {file, 0};
    attend_hook hook = {ATTEND_INIT(attend_hook), .points = 63, .read = see_insides, .user = &in};
    const attend_tensor *idx = attend_tensor_file_find(file, "idx");
    int32_t ids[33];
    for (size_t i = 0; i < 33; i++) ids[i] = (int32_t)number_at(idx, i);
    attend_session *run = open_run(&s, 3, 0);
    attend_session_set_hooks(run, 1, &hook);
    OK(s.ctx, attend_session_extend(run, 3, 11, ids, NULL));
    CHECK_EQ(in.seen, 7);
    attend_session_free(run);
    attend_tensor_file_free(file);
    close_model(&s);
  }
  remove_folder();
}

/* Six letters, then the same in order: every input there is. */
TEST(a_model_that_sorts) {
  subject s = open_model("gpt-nano-sort", NULL, 2, NULL);
  enum { N = 6, INPUTS = 729 };
  static int32_t letters[INPUTS][N];
  static attend_prompt prompt[INPUTS];
  for (int i = 0; i < INPUTS; i++) {
    for (int j = 0, left = i; j < N; j++, left /= 3) letters[i][j] = left % 3;
    prompt[i] = (attend_prompt){letters[i], N};
  }
  attend_generate_options o = {ATTEND_INIT(attend_generate_options)};
  attend_generation *g;
  o.max_new = N;
  o.batch = 64;
  int inputs_asked = light() ? 81 : INPUTS, sorted = 0;
  OK(s.ctx, attend_generate(s.model, inputs_asked, prompt, &o, &g));
  for (int i = 0; i < inputs_asked && g; i++) {
    const attend_continuation *c = attend_generation_get(g, i);
    int count[3] = {0}, at = 0, right = c->count == N;
    for (int j = 0; j < N; j++) count[letters[i][j]]++;
    for (int letter = 0; letter < 3; letter++)
      for (int k = 0; k < count[letter] && right; k++) right = c->ids[at++] == letter;
    sorted += right;
  }
  CHECK_EQ(sorted, inputs_asked);
  attend_generation_free(g);
  close_model(&s);
}
