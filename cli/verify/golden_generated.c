/* What a model loses and says, against a golden file: loss, greedy, beams.
 *
 * The second half of verify --model; golden_model.c has the first.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "attend/generate.h"
#include "verify/golden_model.h"

/* ---- loss -------------------------------------------------------------------------------------- */

/* Causal: of sequence 0, each token after the first. Masked: where labels are.
 * Both: the decoder is fed the labels shifted right. */
static double mean_loss(golden_model *g, const float *logits,
                        const int32_t *targets, int rows) {
  int n = g->config->vocab, counted = 0;
  float *loss = need((size_t)rows, sizeof *loss);
  double sum = 0;
  attend_cross_entropy(g->ctx, rows, n, logits, n, targets, loss, NULL);
  for (int i = 0; i < rows; i++)
    if (targets[i] >= 0) {
      sum += (double)loss[i];
      counted++;
    }
  free(loss);
  return counted ? sum / counted : 0;
}

static int32_t *shift_right(const golden_model *g, const int32_t *labels) {
  int n = g->decoder_tokens;
  int32_t *ids = need((size_t)g->sequences * (size_t)n, sizeof *ids);
  for (int i = 0; i < g->sequences * n; i++) {
    int32_t before = i % n ? labels[i - 1] : g->config->decoder_start;
    ids[i] = before < 0 ? g->config->pad : before;
  }
  return ids;
}

static attend_status labelled_logits(golden_model *g, const int32_t *labels,
                                     float *logits) {
  attend_session *run;
  attend_session_options o = {.batch = g->sequences};
  attend_status status = attend_session_create(g->model, &o, &run);
  if (status) return status;
  int32_t *ids = shift_right(g, labels);
  status = attend_session_encode(run, g->sequences, g->tokens, g->ids,
                                 g->lengths, g->types);
  if (!status)
    status =
        attend_session_extend(run, g->sequences, g->decoder_tokens, ids, NULL);
  if (!status)
    status = attend_session_logits(run, g->sequences * g->decoder_tokens, NULL,
                                   logits);
  free(ids);
  attend_session_free(run);
  return status;
}

static attend_status compute_loss(golden_model *g, double *loss) {
  quantity *q = golden_quantity(g, "logits");
  int32_t *labels = golden_ids(g, "labels", NULL, NULL);
  attend_status status = ATTEND_OK;
  if (g->config->parts == ATTEND_BOTH && labels) {
    int rows = g->sequences * g->decoder_tokens;
    float *logits =
        need((size_t)rows * (size_t)g->config->vocab, sizeof *logits);
    status = labelled_logits(g, labels, logits);
    if (!status) *loss = mean_loss(g, logits, labels, rows);
    free(logits);
  } else if (q && labels) {
    *loss = mean_loss(g, q->ours[BATCHED], labels, g->sequences * g->tokens);
  } else if (q) {
    *loss = mean_loss(g, q->ours[BATCHED], g->ids + 1, g->tokens - 1);
  }
  free(labels);
  return status;
}

attend_status judge_loss(golden_model *g) {
  const attend_tensor *t = attend_tensor_file_find(g->file, "loss");
  double loss = NAN;
  float theirs;
  if (!t || t->stored != ATTEND_STORED_F32) return ATTEND_OK;
  attend_status status = compute_loss(g, &loss);
  if (status) return status;
  memcpy(&theirs, t->data, sizeof theirs);
  double error = fabs(loss - (double)theirs) / fabs((double)theirs);
  golden_row(g, "loss", way_names[BATCHED], error, GOLDEN_BOUND, "",
             error <= GOLDEN_BOUND);
  return ATTEND_OK;
}

/* ---- what is generated ---------------------------------------------------------------------------- */

enum { PROMPT = 5 }; /* tokens that the goldens' decoders start from */

static bool same_ids(const golden_model *g, const attend_continuation *c,
                     const int32_t *golden, int n) {
  int before = g->config->parts == ATTEND_BOTH ? 1 : PROMPT;
  if (c->count != n - before) return false;
  return !memcmp(c->ids, golden + before, (size_t)c->count * sizeof *golden);
}

static int prompt_length(const golden_model *g, int b) {
  bool both = g->config->parts == ATTEND_BOTH;
  return b == 0 && !both ? PROMPT : g->lengths[b];
}

attend_status judge_generated(golden_model *g, const char *name, int beams,
                              int prompts) {
  int rows, n;
  int32_t *golden = golden_ids(g, name, &rows, &n);
  attend_prompt *prompt = need((size_t)prompts, sizeof *prompt);
  attend_generate_options o = attend_generate_defaults();
  attend_generation *made = NULL;
  attend_status status = ATTEND_OK;
  for (int b = 0; b < prompts; b++)
    prompt[b] = (attend_prompt){g->ids + b * g->tokens, prompt_length(g, b)};
  if (golden) {
    o.max_new = n - (g->config->parts == ATTEND_BOTH ? 1 : PROMPT);
    o.beams = beams;
    o.batch = beams * prompts;
    status = attend_generate(g->model, prompts, prompt, &o, &made);
    if (!status) {
      bool ok = same_ids(g, attend_generation_get(made, 0), golden, n);
      golden_row(g, name, way_names[prompts > 1 ? BATCHED : ALONE], NAN, NAN,
                 ok ? "the same ids" : "OTHER ids", ok);
    }
  }
  attend_generation_free(made);
  free(prompt);
  free(golden);
  return status;
}

/* The best next token, with everything read anew. */
static attend_status next_anew(golden_model *g, const int32_t *ids, int n,
                               int32_t *next) {
  attend_generate_options o = attend_generate_defaults();
  attend_session *run;
  attend_status status = attend_session_create(g->model, NULL, &run);
  if (status) return status;
  float *logits = need((size_t)g->config->vocab, sizeof *logits);
  if (g->config->parts == ATTEND_BOTH)
    status = attend_session_encode(run, 1, g->lengths[0], g->ids, NULL, NULL);
  if (!status) status = attend_session_extend(run, 1, n, ids, NULL);
  if (!status) status = attend_session_next(run, 1, logits);
  if (!status)
    status =
        attend_choose(g->ctx, &o, logits, g->config->vocab, NULL, 0, 0, next);
  free(logits);
  attend_session_free(run);
  return status;
}

attend_status judge_uncached(golden_model *g) {
  int rows, n, at = g->config->parts == ATTEND_BOTH ? 1 : PROMPT;
  int32_t *golden = golden_ids(g, "greedy", &rows, &n);
  attend_status status = ATTEND_OK;
  bool ok = true;
  if (!golden) return ATTEND_OK;
  for (int first = at; at < n && !status && ok; at++) {
    int32_t next;
    bool forced = (at == first && g->config->forced_bos == golden[at]) ||
                  (at == n - 1 && g->config->forced_eos == golden[at]);
    if (forced) continue; /* not chosen, but told */
    status = next_anew(g, golden, at, &next);
    ok = !status && next == golden[at];
  }
  if (!status)
    golden_row(g, "greedy", "without a cache", NAN, NAN,
               ok ? "the same ids" : "OTHER ids", ok);
  free(golden);
  return status;
}
