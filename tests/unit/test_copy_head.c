/* A head that copies: its probabilities are those of the formula and sum to 1;
 * gradients are what differences of the loss say; what one token gives does not
 * depend on the batch, on padding, on threads, or on how it was decoded; beams
 * copy from their own text. It learns to copy strings that a model without it does
 * not, is saved, and is refused where its tensors are missing. */
#include "layers/copy.h"
#include "unequal_sides.h"

enum { P = 6 };

static attend_architecture copier(const char *family, bool narrow) {
  attend_architecture a = sides(family, narrow);
  a.copy = P;
  return a;
}

static bool is_copys(const attend_trainer_parameter *x) { return !strncmp(x->name, "copy.", 5); }

/* All of a head's own tensors, larger than training begins with. */
static void stir_copy(attend_trainer *l) {
  attend_trainer_parameter x;
  int found = 0;
  for (size_t i = 0; attend_trainer_get(l, i, &x); i++) {
    if (!is_copys(&x)) continue;
    attend_random_normal((attend_random){3, i}, 0, (size_t)x.count, x.value);
    for (int64_t j = 0; j < x.count; j++) x.value[j] *= 0.5f;
    found++;
  }
  CHECK_EQ(found, 4);
  OK(context(), attend_trainer_refresh(l));
}

static void save(attend_trainer *l) {
  OK(context(), attend_trainer_save(l, in_folder("model.safetensors"), ATTEND_STORED_F32));
}

/* In the folder: a model that copies, with weights that matter. */
static void write_copier(const char *family, bool narrow) {
  attend_architecture a = copier(family, narrow);
  attend_checkpoint *files;
  attend_trainer *l = begin(&a, NULL, &files);
  stir_copy(l);
  grow_weights(l);
  save(l);
  end(l, files);
}

/* ---- config.json and files --------------------------------------------------------- */

TEST(the_width_is_read_back_and_refused) {
  attend_architecture a = copier("bart", true);
  CHECK_EQ(write_and_read(&a).copy, P);
  a.copy = 0;
  CHECK_EQ(write_and_read(&a).copy, 0);
  a.copy = -1;
  refuse_write(a, "a copy head of width -1");
  refuse_write((attend_architecture){ATTEND_INIT(attend_architecture), .family = "gpt2", .vocab = 9,
                                     .copy = 4},
               "in a gpt2");
  static const char zero[] =
      "{\"model_type\": \"t5\", \"d_model\": 8, \"num_heads\": 2, \"d_ff\": 8, "
      "\"num_layers\": 1, \"vocab_size\": 9, \"attend_copy_width\": %s}";
  static const char *const given[] = {"0", "3", "-2"};
  for (int i = 0; i < 3; i++) {
    attend_config c;
    char text[256];
    int n = snprintf(text, sizeof text, zero, given[i]);
    write_in_folder("config.json", text, (size_t)n);
    attend_status status = config_read(context(), models_folder(), &c);
    CHECK_EQ(status, i < 2 ? ATTEND_OK : ATTEND_IO);
    if (i < 2) CHECK_EQ(c.copy, i * 3);
  }
  CHECK_SAYS(attend_message(context()), "attend_copy_width is -2: expected");
}

TEST(a_head_that_is_missing_or_of_another_width_is_refused) {
  attend_architecture a = copier("bart", false);
  attend_checkpoint *files;
  a.copy = 0;
  attend_trainer *l = begin(&a, NULL, &files);
  save(l);
  end(l, files);
  a.copy = P;
  write_and_read(&a);
  CHECK_EQ(attend_checkpoint_open(context(), models_folder(), &files), ATTEND_IO);
  CHECK_SAYS(attend_message(context()), "\"copy.q_proj.weight\" is missing from the checkpoint");
  write_copier("bart", false);
  a.copy = 0;
  write_and_read(&a);
  CHECK_EQ(attend_checkpoint_open(context(), models_folder(), &files), ATTEND_IO);
  CHECK_SAYS(attend_message(context()), "give it \"attend_copy_width\": ");
  a.copy = P + 1;
  write_and_read(&a);
  CHECK_EQ(attend_checkpoint_open(context(), models_folder(), &files), ATTEND_IO);
  CHECK_SAYS(attend_message(context()), "\"copy.q_proj.weight\" is 6 x 40");
}

/* ---- the formula ---------------------------------------------------------------------- */

typedef struct { /* by names, of one checkpoint */
  const float *q, *k, *gate, *bias;
} copy_weights;

static copy_weights weights_in(const attend_checkpoint *files) {
  copy_weights w = {0};
  attend_parameter p;
  for (size_t i = 0; attend_checkpoint_get(files, i, &p); i++) {
    const float *data = p.tensor ? p.tensor->data : NULL;
    if (!strcmp(p.name, "copy.q_proj.weight")) w.q = data;
    if (!strcmp(p.name, "copy.k_proj.weight")) w.k = data;
    if (!strcmp(p.name, "copy.gate.weight")) w.gate = data;
    if (!strcmp(p.name, "copy.gate.bias")) w.bias = data;
  }
  CHECK(w.q && w.k && w.gate && w.bias);
  return w;
}

static double dot(const float *a, const float *b, int n) {
  double sum = 0;
  for (int i = 0; i < n; i++) sum += (double)a[i] * (double)b[i];
  return sum;
}

/* p [V] from plain logits, in double. h: what the head reads; e [n][E]. */
static void define(const copy_weights *w, const attend_config *c, const float *h, const float *e,
                   int n, const int32_t *ids, const float *logits, double *p) {
  int F = c->decoder.width, E = c->encoder.width;
  double sum = 0, a[READ], all = 0;
  for (int v = 0; v < c->vocab; v++) sum += p[v] = exp((double)logits[v]);
  for (int j = 0; j < n; j++) {
    double score = 0;
    for (int i = 0; i < P; i++) { /* the later half is of the word before */
      int at = i < P / 2 ? j : j - 1;
      if (at >= 0) score += dot(w->q + i * F, h, F) * dot(w->k + i * E, e + at * E, E);
    }
    all += a[j] = exp(score / sqrt(P));
  }
  double copied = 1 / (1 + exp(-dot(w->gate, h, F) - (double)*w->bias));
  for (int v = 0; v < c->vocab; v++) p[v] *= (1 - copied) / sum;
  for (int j = 0; j < n; j++) p[ids[j]] += copied * a[j] / all;
}

static float *hidden_rows(const attend_session *run, int rows, int width, float factor) {
  int ld;
  const float *x = attend_session_hidden(run, &ld);
  float *to = zeroed_block((size_t)(rows * width), sizeof *to);
  for (int i = 0; i < rows * width; i++) to[i] = factor * x[i / width * ld + i % width];
  return to;
}

/* The same weights as a model without the head: its tensors get names that no family
 * knows. The file that is mapped stays as it is. */
static void hide_copy(const char *family, bool narrow) {
  attend_architecture a = sides(family, narrow);
  size_t length;
  char *bytes = read_whole(in_folder("model.safetensors"), &length);
  for (char *at; (at = strstr(bytes + 8, "\"copy."));) at[1] = 'k';
  unlink(in_folder("model.safetensors"));
  FILE *f = fopen(in_folder("model.safetensors"), "wb");
  CHECK_EQ(fwrite(bytes, 1, length, f), length);
  fclose(f);
  free(bytes);
  write_and_read(&a);
}

/* One text of n words, with repeated ones, and one answer. */
static void check_formula(const char *family, bool narrow) {
  write_copier(family, narrow);
  subject s = open_path(context(), models_folder(), NULL);
  hide_copy(family, narrow);
  subject plain = open_path(context(), models_folder(), NULL);
  const attend_config *c = s.config;
  copy_weights w = weights_in(s.files);
  static const int32_t ids[READ] = {5, 9, 5, 28, 0, 9, 5}, decoder_ids[WRITTEN] = {2, 5};
  float *logits[2];
  float *h = NULL, *e = NULL;
  double p[64], worst = 0, far = 0;
  for (int i = 0; i < 2; i++) {
    attend_session *run = open_run(i ? &s : &plain, 1, 0);
    logits[i] = zeroed_block((size_t)(WRITTEN * c->vocab), sizeof *logits[i]);
    OK(context(), attend_session_encode(run, 1, READ, ids, NULL, NULL));
    if (i) e = hidden_rows(run, READ, c->encoder.width, 1);
    OK(context(), attend_session_extend(run, 1, WRITTEN, decoder_ids, NULL));
    if (i) h = hidden_rows(run, WRITTEN, c->decoder.width, c->head_factor);
    OK(context(), attend_session_logits(run, WRITTEN, NULL, logits[i]));
    attend_session_free(run);
  }
  for (int i = 0; i < WRITTEN; i++) {
    const float *got = logits[1] + i * c->vocab;
    double sum = 0, max = 0;
    define(&w, c, h + i * c->decoder.width, e, READ, ids, logits[0] + i * c->vocab, p);
    for (int v = 0; v < c->vocab; v++) {
      sum += exp((double)got[v]);
      worst = fmax(worst, fabs((double)got[v] - log(p[v])));
      max = fmax(max, fabs((double)got[v] - (double)got[0] - (double)logits[0][i * c->vocab + v] +
                           (double)logits[0][i * c->vocab]));
    }
    CHECK_NEAR(sum, 1, 1e-6);
    far = fmax(far, max);
  }
  printf("%s: log p within %.1e of the formula's\n", family, worst);
  CHECK(worst < 2e-5);
  CHECK(far > 0.1); /* it is not the plain model */
  free(logits[0]);
  free(logits[1]);
  free(h);
  free(e);
  close_files(&plain);
  close_files(&s);
}

TEST(probabilities_are_what_the_formula_says) {
  for (int i = 0; i < 4; i++) check_formula(both[i / 2], i % 2);
}

/* A text that is kept by words: a word that was read three times with one key
 * is that key and log 3. */
TEST(words_that_stand_often_are_one_key_and_a_logarithm) {
  enum { V = 9, N = 5 };
  static const int32_t ids[N] = {7, 2, 7, 7, 4}, first[N] = {0, 1, 0, 0, 4};
  static const int32_t once[3] = {7, 2, 4}, own[3] = {0, 1, 2};
  const float extra[3] = {logf(3), 0, 0};
  float q[LANES] = {0.5f, -1, 2}, keys[3 * LANES] = {0}, all[N * LANES];
  float weight[N], got[V], want[V] = {1, -2, 0.5f, 0, 3, 1, 0, -1, 2};
  for (int i = 0; i < 3; i++)
    for (int j = 0; j < 3; j++) keys[i * LANES + j] = 0.3f * (float)(i - j * i);
  for (int i = 0; i < N; i++)
    memcpy(all + i * LANES,
           keys + (ids[i] == 7   ? 0
                   : ids[i] == 2 ? 1
                                 : 2) *
                      LANES,
           LANES * sizeof *all);
  memcpy(got, want, sizeof got);
  copy_text long_one = {N, all, NULL, ids, first};
  copy_text short_one = {3, keys, extra, once, own};
  copy_weigh(context(), &long_one, LANES, q, weight);
  copy_mix(context(), &long_one, 0.7f, weight, V, want);
  copy_weigh(context(), &short_one, LANES, q, weight);
  copy_mix(context(), &short_one, 0.7f, weight, V, got);
  for (int v = 0; v < V; v++) CHECK_NEAR((double)got[v], (double)want[v], 1e-6);
}

/* ---- gradients --------------------------------------------------------------------------- */

TEST(gradients_are_what_differences_say) {
  for (int i = 0; i < 4; i++) {
    attend_architecture a = copier(both[i / 2], i % 2);
    attend_checkpoint *files;
    attend_trainer_options o = {ATTEND_INIT(attend_trainer_options), .recompute = i % 2};
    attend_trainer *l = begin(&a, &o, &files);
    stir_copy(l);
    smoothing = i == 1 || i == 2 ? 0.1f : 0;
    int checked = check_gradients(l);
    smoothing = 0;
    printf("%s: %d parameters\n", a.family, checked);
    CHECK(checked > 20);
    end(l, files);
  }
}

static void study_with(int threads, float **gradient, size_t *count) {
  attend_context *ctx = open_context(NULL, threads, NULL);
  attend_checkpoint *files;
  attend_trainer *l;
  attend_batch_loss got;
  copy_task b;
  OK(ctx, attend_checkpoint_open(ctx, models_folder(), &files));
  OK(ctx, attend_trainer_create(files, NULL, &l));
  make_copy_task(attend_trainer_config(l), 8, &b);
  attend_batch batch = batch_in(&b, false);
  OK(ctx, attend_trainer_accumulate(l, &batch, &got));
  attend_trainer_values(l, count);
  *gradient = zeroed_block(*count, sizeof **gradient);
  memcpy(*gradient, attend_trainer_gradients(l), *count * sizeof **gradient);
  attend_trainer_free(l);
  attend_checkpoint_free(files);
  attend_context_free(ctx);
}

TEST(threads_change_no_bit_of_the_gradients) {
  float *one, *three;
  size_t n, same;
  write_copier("bart", false);
  study_with(1, &one, &n);
  study_with(3, &three, &same);
  CHECK(n == same && same_bits(one, three, n));
  free(one);
  free(three);
}

/* ---- runs ------------------------------------------------------------------------------------ */

TEST(batches_padding_caches_and_threads_change_no_bit) {
  for (int i = 0; i < 2; i++) {
    write_copier(both[i], i);
    attend_context *three = open_context(NULL, 3, NULL);
    subject s = open_path(context(), models_folder(), NULL);
    subject t = open_path(three, models_folder(), NULL);
    copy_task b;
    make_copy_task(s.config, 6, &b);
    float *alone = logits_alone(&s, &b), *at_once = logits_at_once(&s, &b);
    float *threads = logits_at_once(&t, &b);
    size_t n = (size_t)(TEXTS * WRITTEN * s.config->vocab);
    CHECK(same_bits(alone, at_once, n) && same_bits(alone, threads, n));
    free(alone);
    free(at_once);
    free(threads);
    close_files(&s);
    close_files(&t);
    attend_context_free(three);
  }
}

/* log p after `decoder_ids`, by a run of its own. */
static void say_alone(const subject *s, const int32_t *ids, int n, const int32_t *decoder_ids,
                      int count, float *logits) {
  attend_session *run = open_run(s, 1, 0);
  OK(s->ctx, attend_session_encode(run, 1, n, ids, NULL, NULL));
  OK(s->ctx, attend_session_extend(run, 1, count, decoder_ids, NULL));
  OK(s->ctx, attend_session_next(run, 1, logits));
  attend_session_free(run);
}

/* Two texts, two sequences of each; then they change places. */
TEST(sequences_copy_from_the_text_of_their_parents) {
  write_copier("bart", true);
  subject s = open_path(context(), models_folder(), NULL);
  copy_task b;
  make_copy_task(s.config, 7, &b);
  size_t V = (size_t)s.config->vocab;
  static const int32_t spread[4] = {0, 0, 1, 1}, swap[4] = {3, 1, 0, 0};
  static const int32_t text[4] = {1, 0, 0, 0};
  static const int32_t first[4] = {2, 2, 2, 2}, next[4] = {4, 5, 6, 7};
  float *got = zeroed_block(4 * V, sizeof *got), *want = zeroed_block(V, sizeof *want);
  attend_session *run = open_run(&s, 4, 0);
  OK(context(), attend_session_encode(run, 2, READ, b.ids, real, NULL));
  OK(context(), attend_session_extend(run, 2, 1, first, NULL));
  OK(context(), attend_session_reorder(run, spread));
  OK(context(), attend_session_extend(run, 4, 1, next, NULL));
  OK(context(), attend_session_reorder(run, swap));
  OK(context(), attend_session_next(run, 4, got));
  for (int i = 0; i < 4; i++) {
    int32_t decoder_ids[2] = {2, next[swap[i]]};
    say_alone(&s, b.ids + text[i] * READ, real[text[i]], decoder_ids, 2, want);
    CHECK(same_bits(got + (size_t)i * V, want, V));
  }
  attend_session_free(run);
  free(got);
  free(want);
  close_files(&s);
}

/* Hidden states that were seen give the same again; without a text, nothing is
 * copied. */
TEST(hidden_states_are_of_the_first_sequence) {
  write_copier("bart", false);
  subject s = open_path(context(), models_folder(), NULL);
  copy_task b;
  make_copy_task(s.config, 7, &b);
  size_t V = (size_t)s.config->vocab;
  float *want = zeroed_block(WRITTEN * V, sizeof *want), *got = zeroed_block(V, 4), *h;
  int F = s.config->decoder.width;
  attend_session *run = open_run(&s, 1, 0);
  OK(context(), attend_session_encode(run, 1, READ, b.ids, NULL, NULL));
  OK(context(), attend_session_extend(run, 1, WRITTEN, b.decoder_ids, NULL));
  OK(context(), attend_session_logits(run, WRITTEN, NULL, want));
  h = hidden_rows(run, WRITTEN, F, 1);
  OK(context(), attend_session_head(run, 1, h + F, F, false, got));
  CHECK(same_bits(got, want + V, V));
  attend_session_reset(run);
  OK(context(), attend_session_head(run, 1, h + F, F, false, got));
  CHECK(!same_bits(got, want + V, V));
  double sum = 0;
  for (size_t v = 0; v < V; v++) sum += exp((double)got[v]);
  CHECK_NEAR(sum, 1, 1e-6);
  attend_session_free(run);
  free(h);
  free(want);
  free(got);
  close_files(&s);
}

/* ---- learning ------------------------------------------------------------------------------------ */

/* The loss of strings that were never seen, after so many steps. */
static double learn_to_copy(attend_trainer *l, int steps) {
  attend_optimizer_options how = {ATTEND_INIT(attend_optimizer_options)};
  attend_optimizer *o;
  attend_batch_loss got;
  copy_task b;
  OK(context(), attend_optimizer_create(l, &how, &o));
  for (int i = 0; i < steps; i++) {
    make_copy_task(attend_trainer_config(l), (uint64_t)i, &b);
    attend_batch batch = batch_in(&b, false);
    attend_trainer_zero_grad(l);
    OK(context(), attend_trainer_accumulate(l, &batch, &got));
    OK(context(), attend_optimizer_step(o, 5e-3f, NULL));
  }
  attend_optimizer_free(o);
  double loss = 0;
  for (int i = 0; i < 8; i++) {
    make_copy_task(attend_trainer_config(l), (uint64_t)(1000000 + i), &b);
    loss += loss_of(l, &b) / 8;
  }
  return loss / got.scored;
}

static double cross_entropy(const float *log_p, const copy_task *b, int vocab) {
  double loss = 0;
  for (int i = 0; i < TEXTS * WRITTEN; i++)
    if (b->targets[i] >= 0) loss -= (double)log_p[i * vocab + b->targets[i]];
  return loss;
}

static void check_saved(attend_trainer *l) {
  copy_task b;
  make_copy_task(attend_trainer_config(l), 2, &b);
  double loss = loss_of(l, &b);
  save(l);
  subject s = open_path(context(), models_folder(), NULL);
  float *log_p = logits_alone(&s, &b);
  CHECK_NEAR(cross_entropy(log_p, &b, s.config->vocab), loss, 1e-4 * loss);
  attend_trainer *again;
  OK(context(), attend_trainer_create(s.files, NULL, &again));
  CHECK(loss_of(again, &b) == loss);
  attend_trainer_free(again);
  free(log_p);
  close_files(&s);
}

TEST(it_learns_to_copy_what_others_do_not) {
  double loss[2];
  for (int copies = 0; copies < 2; copies++) {
    attend_architecture a = copier("bart", false);
    if (!copies) a.copy = 0;
    attend_checkpoint *files;
    attend_trainer *l = begin(&a, NULL, &files);
    loss[copies] = learn_to_copy(l, 40);
    if (copies) check_saved(l);
    end(l, files);
  }
  printf("%.3f without, %.3f with\n", loss[0], loss[1]);
  CHECK(loss[0] > 2.5);
  CHECK(loss[1] < 0.5);
}
