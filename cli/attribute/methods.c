/* The methods of attend attribute: one call of attend/attribute.h each. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "attribute/attribute.h"
#include "progress.h"

static int status_code(const attribute_run *r, attend_status status) {
  return status ? complain_status(r->m->ctx, status) : EXIT_OK;
}

static const attend_stack *head_side(const attribute_run *r) {
  const attend_config *c = attend_model_config(r->m->model);
  const bool decodes = attend_config_parts(c) & ATTEND_DECODER;
  return attend_config_stack(c, decodes ? ATTEND_DECODER : ATTEND_ENCODER);
}

static char **numbers(int n) {
  char **list = need((size_t)n, sizeof *list), text[16];
  for (int i = 0; i < n; i++) {
    snprintf(text, sizeof text, "%d", i);
    list[i] = need_copy(text);
  }
  return list;
}

/* ---- baselines -------------------------------------------------------------------------------- */

/* The token that --baseline names; -1: the library chooses. */
static int find_absent(const attribute_run *r, int32_t *id) {
  *id = -1;
  if (!r->o->baseline) return EXIT_OK;
  const size_t vocab =
      (size_t)attend_config_get(attend_model_config(r->m->model), ATTEND_CONFIG_VOCAB);
  float *even = need(vocab, sizeof *even); /* no token is likelier */
  int code = token_find(r->m, r->o->baseline, even, id);
  free(even);
  return code;
}

/* base has ids unless it is zeros. */
static int find_baseline(attribute_run *r, attend_tokens *base, int32_t *ids) {
  const attend_tokens *x = &r->text.tokens;
  int32_t absent;
  *base = *x;
  base->ids = NULL;
  snprintf(r->baseline, sizeof r->baseline, "zero");
  if (r->o->baseline && !strcmp(r->o->baseline, "zero")) return EXIT_OK;
  int code = find_absent(r, &absent);
  if (code) return code;
  attend_status status = attend_attribute_baseline(r->m->model, r->m->tokenizer, x, &absent, ids);
  if (status || absent < 0) return status_code(r, status);
  char *label = token_label(r->m, absent);
  snprintf(r->baseline, sizeof r->baseline, "%s", label);
  free(label);
  base->ids = ids;
  if (x->n_decoder) base->decoder_ids = ids + x->n;
  return EXIT_OK;
}

/* ---- tokens --------------------------------------------------------------------------------------- */

static int integrate(attribute_run *r, attend_attributor *a) {
  const attend_tokens *x = &r->text.tokens;
  attend_tokens base;
  attend_integrated_options how = {ATTEND_INIT(attend_integrated_options), .steps = r->o->steps,
                                   .progress = progress_report};
  int32_t *ids = need((size_t)(x->n + x->n_decoder), sizeof *ids);
  int code = find_baseline(r, &base, ids);
  if (!code) {
    if (base.ids) how.baseline = &base;
    r->integrated = (attend_integrated){ATTEND_INIT(attend_integrated)};
    interrupt_watch();
    progress_start("integrating", 1);
    attend_status status =
        attend_attribute_integrated(a, x, &how, &r->target, r->scores, &r->integrated);
    progress_end();
    r->logit = r->integrated.logit;
    code = status && is_interrupted() ? EXIT_INTERRUPTED : status_code(r, status);
  }
  free(ids);
  return code;
}

static int score_tokens(attribute_run *r, attend_attributor *a) {
  if (r->o->method == METHOD_INTEGRATED) return integrate(r, a);
  return status_code(
      r, attend_attribute_gradient(a, &r->text.tokens, &r->target, r->scores, NULL, &r->logit));
}

/* ---- attention --------------------------------------------------------------------------------------- */

static int find_role(const attribute_run *r, attend_role *role) {
  const attend_config *c = attend_model_config(r->m->model);
  *role = attend_config_parts(c) & ATTEND_DECODER ? ATTEND_DECODER_SELF : ATTEND_ENCODER_SELF;
  if (attend_config_parts(c) == ATTEND_BOTH) *role = ATTEND_CROSS;
  for (int i = 0; r->o->role && i < ATTEND_ROLES; i++)
    if (!strcmp(r->o->role, attend_role_name((attend_role)i))) {
      *role = (attend_role)i;
      return EXIT_OK;
    }
  return EXIT_OK;
}

static int score_attention(attribute_run *r, attend_attributor *a) {
  const attend_config *c = attend_model_config(r->m->model);
  const attend_tokens *x = &r->text.tokens;
  attend_role role;
  int code = find_role(r, &role);
  if (code) return code;
  const attend_stack *s =
      attend_config_stack(c, role == ATTEND_ENCODER_SELF ? ATTEND_ENCODER : ATTEND_DECODER);
  const bool both = attend_config_parts(c) == ATTEND_BOTH;
  const int written = both ? x->n_decoder : x->n;
  const int queries = role == ATTEND_ENCODER_SELF ? x->n : written;
  const int keys = role == ATTEND_DECODER_SELF ? written : x->n;
  r->rows = s->layers, r->columns = s->heads;
  const size_t n = (size_t)s->layers * (size_t)s->heads * (size_t)queries * (size_t)keys;
  float *weights = need(2 * n, sizeof *weights);
  r->map = need((size_t)(s->layers * s->heads), sizeof *r->map);
  code = status_code(
      r, attend_attribute_attention(a, x, role, &r->target, weights, weights + n, &r->logit));
  if (!code)
    attend_attribute_products(r->rows * r->columns, queries, keys, weights, weights + n, r->map,
                              r->scores + (both && role == ATTEND_DECODER_SELF ? x->n : 0));
  free(weights);
  r->row_names = numbers(r->rows);
  r->column_names = numbers(r->columns);
  return code;
}

/* ---- direct contributions ------------------------------------------------------------------------ */

static char **direct_columns(int heads, bool cross) {
  const int n = heads * (1 + cross) + 1;
  char **list = need((size_t)n, sizeof *list), text[24];
  for (int i = 0; i < n; i++) {
    snprintf(text, sizeof text, i < heads ? "%d" : "cross %d", i < heads ? i : i - heads);
    list[i] = need_copy(i == n - 1 ? "mlp" : text);
  }
  return list;
}

static int score_direct(attribute_run *r, attend_attributor *a) {
  const attend_stack *s = head_side(r);
  const bool cross = attend_config_parts(attend_model_config(r->m->model)) == ATTEND_BOTH;
  const int heads = s->heads, n = s->layers * heads;
  float *parts = need(2 * (size_t)n + (size_t)s->layers, sizeof *parts);
  r->direct = (attend_direct){ATTEND_INIT(attend_direct), .heads = parts,
                              .cross = cross ? parts + n : NULL, .mlps = parts + 2 * n};
  r->rows = s->layers, r->columns = heads * (1 + cross) + 1;
  int code = status_code(r, attend_attribute_direct(a, &r->text.tokens, &r->target, &r->direct));
  r->map = need((size_t)r->rows * (size_t)r->columns, sizeof *r->map);
  for (int l = 0; l < s->layers; l++) {
    float *row = r->map + l * r->columns;
    memcpy(row, parts + l * heads, (size_t)heads * sizeof *row);
    if (cross) memcpy(row + heads, parts + n + l * heads, (size_t)heads * sizeof *row);
    row[r->columns - 1] = parts[2 * n + l];
  }
  free(parts);
  r->direct.heads = r->direct.cross = r->direct.mlps = NULL;
  r->logit = r->direct.logit;
  r->row_names = numbers(r->rows);
  r->column_names = direct_columns(heads, cross);
  return code;
}

/* ---- logit lens -------------------------------------------------------------------------------------- */

static int score_lens(attribute_run *r) {
  const attend_tokens *x = &r->text.tokens;
  const int top = r->o->top;
  r->rows = head_side(r)->layers + 1;
  r->columns = attend_tokens_rows(r->m->model, x);
  const size_t n = (size_t)r->rows * (size_t)r->columns;
  r->ids = need(n * (size_t)top, sizeof *r->ids);
  r->p = need(n * (size_t)top, sizeof *r->p);
  progress_start("logit lens", 1);
  progress_note("all layers");
  attend_status status = attend_logit_lens_top(r->m->model, x, top, r->ids, r->p);
  progress_end();
  if (status) return complain_status(r->m->ctx, status);
  r->map = need(n, sizeof *r->map);
  r->words = need(n, sizeof *r->words);
  for (size_t i = 0; i < n; i++) {
    r->map[i] = r->p[i * (size_t)top];
    r->words[i] = token_label(r->m, r->ids[i * (size_t)top]);
  }
  r->row_names = numbers(r->rows);
  for (int i = r->rows - 1; i > 0; i--) {
    free(r->row_names[i]);
    r->row_names[i] = need_copy(r->row_names[i - 1]);
  }
  free(r->row_names[0]);
  r->row_names[0] = need_copy("in");
  r->column_names = token_labels(r->m, x->decoder_ids ? x->decoder_ids : x->ids, r->columns);
  return EXIT_OK;
}

/* ---- all ------------------------------------------------------------------------------------------------ */

static int attribute(attribute_run *r) {
  attend_attributor *a;
  attend_status status = attend_attributor_create(r->m->model, &a);
  if (status) return complain_status(r->m->ctx, status);
  int code = r->o->method == METHOD_ATTENTION ? score_attention(r, a)
             : r->o->method == METHOD_DIRECT  ? score_direct(r, a)
                                              : score_tokens(r, a);
  attend_attributor_free(a);
  return code;
}

int attribute_compute(attribute_run *r) {
  const attend_tokens *x = &r->text.tokens;
  const bool both = x->decoder_ids != NULL;
  r->tokens = x->n + (both ? x->n_decoder : 0);
  r->scores = need((size_t)r->tokens, sizeof *r->scores);
  r->labels = need((size_t)r->tokens, sizeof *r->labels);
  for (int i = 0; i < r->tokens; i++)
    r->labels[i] = token_label(r->m, i < x->n ? x->ids[i] : x->decoder_ids[i - x->n]);
  return r->o->method == METHOD_LENS ? score_lens(r) : attribute(r);
}
