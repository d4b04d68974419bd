/* Choosing and searching against Hugging Face transformers: what its logits
 * processors leave of random logits, and its beam search under other penalties,
 * early stopping and end tokens. */
#include "golden_models.h"

static attend_context *threaded_context(void) {
  static attend_context *ctx;
  if (!ctx) ctx = open_context(NULL, 2, NULL);
  return ctx;
}

static attend_tensor_file *open_golden(const char *name) {
  char above[128];
  attend_tensor_file *file = NULL;
  snprintf(above, sizeof above, "../decode/%s", name);
  OK(threaded_context(),
     attend_tensor_file_open(threaded_context(), model_path(above, NULL), &file));
  return file;
}

static const attend_tensor *tensor(const attend_tensor_file *file, const char *name) {
  const attend_tensor *t = attend_tensor_file_find(file, name);
  CHECK(t != NULL);
  return t;
}

/* ---- choosing ------------------------------------------------------------------------ */

enum { ROWS = 6, V = 97, HISTORY = 30, DRAWS = 4000 };

static void read_row(const attend_tensor *t, int row, float *to) {
  memcpy(to, (const char *)t->data + (size_t)row * V * sizeof *to, V * sizeof *to);
}

static void read_history(const attend_tensor *t, int row, int32_t *to) {
  for (int i = 0; i < HISTORY; i++) {
    int64_t id;
    memcpy(&id, (const char *)t->data + 8 * (row * HISTORY + i), 8);
    to[i] = (int32_t)id;
  }
}

/* Every token that is left can be drawn, none that is not; and its share of the
 * unit interval is its probability. */
static void draws_what_is_left(const attend_tensor_file *file, const char *name,
                               attend_generate_options o) {
  for (int r = 0; r < ROWS; r++) {
    float logits[V], left[V], copy[V];
    int drawn[V] = {0};
    double sum = 0;
    read_row(tensor(file, "logits"), r, logits);
    read_row(tensor(file, name), r, left);
    for (int i = 0; i < DRAWS; i++) {
      int32_t id;
      memcpy(copy, logits, sizeof copy);
      OK(threaded_context(),
         attend_choose(threaded_context(), &o, copy, V, NULL, 0, ((float)i + 0.5f) / DRAWS, &id));
      drawn[id]++;
    }
    for (int i = 0; i < V; i++) sum += exp((double)left[i]);
    for (int i = 0; i < V; i++) {
      double share = exp((double)left[i]) / sum;
      CHECK(fabs(share - (double)drawn[i] / DRAWS) < 1.5 / DRAWS);
      CHECK(left[i] > -INFINITY || drawn[i] == 0);
    }
  }
}

TEST(warpers) {
  attend_tensor_file *file = open_golden("choose.safetensors");
  attend_generate_options o = {ATTEND_INIT(attend_generate_options)};
  o.temperature = 0.7f;
  o.top_k = 7;
  draws_what_is_left(file, "topk", o);
  o.top_k = 0;
  o.top_p = 0.8f;
  draws_what_is_left(file, "topp", o);
  o = (attend_generate_options){ATTEND_INIT(attend_generate_options)};
  o.temperature = 1;
  o.top_k = 9;
  o.top_p = 0.6f;
  draws_what_is_left(file, "topk_topp", o);
  o = (attend_generate_options){ATTEND_INIT(attend_generate_options)};
  o.temperature = 1.3f;
  o.min_p = 0.1f;
  draws_what_is_left(file, "minp", o);
  attend_tensor_file_free(file);
}

TEST(processors) {
  attend_tensor_file *file = open_golden("choose.safetensors");
  for (int r = 0; r < ROWS; r++) {
    float logits[V], theirs[V];
    int32_t history[HISTORY], id;
    attend_generate_options o = {ATTEND_INIT(attend_generate_options)};
    read_history(tensor(file, "history"), r, history);
    o.repetition = 1.7f;
    read_row(tensor(file, "logits"), r, logits);
    read_row(tensor(file, "repetition"), r, theirs);
    OK(threaded_context(),
       attend_choose(threaded_context(), &o, logits, V, history, HISTORY, 0, &id));
    for (int i = 0; i < V; i++) CHECK(fabsf(logits[i] - theirs[i]) <= 1e-6f * fabsf(theirs[i]));
    o.repetition = 1;
    o.no_repeat = 3;
    read_row(tensor(file, "logits"), r, logits);
    read_row(tensor(file, "ngram"), r, theirs);
    OK(threaded_context(),
       attend_choose(threaded_context(), &o, logits, V, history, HISTORY, 0, &id));
    CHECK(!memcmp(logits, theirs, sizeof logits));
  }
  attend_tensor_file_free(file);
}

/* ---- beams ------------------------------------------------------------------------------ */

enum { PROMPT = 5, NEW = 12, END = 2 };

static int32_t id_at(const attend_tensor *t, int row, int i) {
  int64_t id;
  memcpy(&id, (const char *)t->data + 8 * (row * (int)t->shape[1] + i), 8);
  return (int32_t)id;
}

/* Shorter ones are padded with 0, which no beam of these ends in. */
static int count_at(const attend_tensor *t, int row, int32_t end) {
  for (int i = PROMPT; i < (int)t->shape[1]; i++)
    if (id_at(t, row, i) == end) return i + 1;
  return (int)t->shape[1];
}

static void beams_agree(attend_model *model, const attend_tensor_file *file, const char *name,
                        int32_t end, attend_generate_options o) {
  char key[64];
  int32_t ids[PROMPT];
  attend_generation *g;
  snprintf(key, sizeof key, "%s.%d", name, (int)end);
  const attend_tensor *t = tensor(file, key);
  snprintf(key, sizeof key, "%s.%d.scores", name, (int)end);
  const attend_tensor *scores = tensor(file, key);
  for (int i = 0; i < PROMPT; i++) ids[i] = id_at(t, 0, i);
  o.ends = &end;
  o.n_ends = 1;
  o.max_new = NEW;
  o.samples = (int)t->shape[0];
  attend_prompt prompt = {ids, PROMPT};
  OK(threaded_context(), attend_generate(model, 1, &prompt, &o, &g));
  for (int r = 0; r < o.samples; r++) {
    const attend_continuation *c = attend_generation_get(g, r);
    float score;
    memcpy(&score, (const char *)scores->data + 4 * r, 4);
    CHECK(c->count == count_at(t, r, end) - PROMPT);
    for (int i = 0; i < c->count; i++) CHECK(c->ids[i] == id_at(t, r, PROMPT + i));
    CHECK(fabs(c->score - (double)score) < 1e-4 * fabs((double)score));
  }
  attend_generation_free(g);
}

TEST(beams) {
  attend_tensor_file *file = open_golden("beams.safetensors");
  subject s = open_path(threaded_context(), model_path("gpt2", NULL), NULL);
  static const int32_t ends[END] = {10, 154};
  for (int e = 0; e < END; e++) {
    attend_generate_options o = {ATTEND_INIT(attend_generate_options)};
    o.beams = 4;
    o.length_penalty = 2;
    beams_agree(s.model, file, "penalty2", ends[e], o);
    o.length_penalty = ATTEND_ZERO;
    beams_agree(s.model, file, "penalty0", ends[e], o);
    o.length_penalty = 1;
    o.early_stop = true;
    beams_agree(s.model, file, "early", ends[e], o);
    o.early_stop = false;
    o.beams = 3;
    beams_agree(s.model, file, "beams3", ends[e], o);
  }
  close_files(&s);
  attend_tensor_file_free(file);
}
