/* What attend intervene prints: probabilities of the next token without changes and with them,
 * the target's logit, losses; as tables or JSON.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "attend/layers.h"
#include "intervene/intervene.h"
#include "table.h"

static const column columns[] = {{"token", "token", CELL_TEXT},    {"id", "id", CELL_COUNT},
                                 {"before", "before", CELL_PLAIN}, {"after", "after", CELL_PLAIN},
                                 {"change", "change", CELL_PLAIN}, {NULL, NULL, CELL_TEXT}};

/* ---- the likeliest tokens of either -------------------------------------------------------- */

static const float *row_of(const intervene_run *r, const float *logits) {
  return logits + (size_t)r->target.position * (size_t)r->width;
}

static double probability(const intervene_run *r, const float *logits, int32_t id) {
  const float *row = row_of(r, logits);
  return exp((double)row[id] - attend_log_sum_exp(r->width, row));
}

static void add_token(const intervene_run *r, int32_t id, table *t) {
  char *label = token_label(r->m, id);
  double before = probability(r, r->before, id), after = probability(r, r->after, id);
  table_add(t, (cell[]){cell_text(label), cell_number(id), cell_number(before), cell_number(after),
                        cell_number(after - before)});
  free(label);
}

static bool is_among(const int32_t *ids, int n, int32_t id) {
  for (int i = 0; i < n; i++)
    if (ids[i] == id) return true;
  return false;
}

/* The likeliest without changes, then those that are among the likeliest only with them. */
static table likeliest(const intervene_run *r) {
  table t = table_start(columns);
  const int top = r->o->top < r->width ? r->o->top : r->width;
  int32_t *ids = need(2 * (size_t)top, sizeof *ids);
  attend_top_k(r->width, row_of(r, r->before), top, ids);
  attend_top_k(r->width, row_of(r, r->after), top, ids + top);
  for (int i = 0; i < 2 * top; i++)
    if (i < top || !is_among(ids, top, ids[i])) add_token(r, ids[i], &t);
  free(ids);
  return t;
}

/* ---- tables ------------------------------------------------------------------------------------ */

static void print_change(const char *name, const double value[2]) {
  if (isnan(value[0])) return;
  printf("%s: %.4f -> %.4f (%+.4f)\n", name, value[0], value[1], value[1] - value[0]);
}

static void print_target(const intervene_run *r) {
  char name[640];
  char *token = token_label(r->m, r->target.token), *other = NULL;
  if (r->target.against >= 0) other = token_label(r->m, r->target.against);
  snprintf(name, sizeof name, other ? "logit of “%s” minus that of “%s”" : "logit of “%s”", token,
           other ? other : "");
  print_change(name, r->value);
  free(token);
  free(other);
}

static void print_where(const intervene_run *r) {
  const attend_tokens *x = &r->text.tokens;
  const int32_t *ids = x->decoder_ids ? x->decoder_ids : x->ids;
  char *label = token_label(r->m, ids[r->target.position]);
  const bool decodes = attend_config_parts(attend_model_config(r->m->model)) & ATTEND_DECODER;
  printf("%s at position %d, %s “%s”\n", decodes ? "next token" : "token", r->target.position,
         decodes ? "after" : "in the place of", label);
  free(label);
}

static int print_tables(const intervene_run *r) {
  int code = EXIT_OK;
  if (r->head) {
    table t = likeliest(r);
    print_where(r);
    code = table_print(&t, stdout);
    table_free(&t);
    putchar('\n');
    print_target(r);
    print_change("loss of the text, nats per token", r->loss);
    printf("KL divergence, mean over %d rows: %.4g nats\n", r->rows, r->kl);
  }
  printf("change of the hidden states after the last layer: %.2f %%\n", 100 * r->state);
  print_change("loss of the file, nats per token", r->file);
  for (int i = 0; i < 2 && r->written[0] && !code; i++) {
    printf("\n%s:\n", i ? "with the changes" : "without changes");
    put_printable(stdout, r->written[i], strlen(r->written[i]));
    putchar('\n');
  }
  return code ? code : check_written(stdout, "the answer");
}

/* ---- JSON ---------------------------------------------------------------------------------------- */

static void put_pair(json_writer *w, const char *name, const double value[2]) {
  if (isnan(value[0])) return;
  json_member(w, name);
  json_open(w, '{');
  json_member_number(w, "before", value[0]);
  json_member_number(w, "after", value[1]);
  json_close(w, '}');
}

static void put_ids(json_writer *w, const char *name, const int32_t *ids, int n) {
  json_member(w, name);
  json_open(w, '[');
  for (int i = 0; i < n; i++) json_put_integer(w, ids[i]);
  json_close(w, ']');
}

static void put_changes(json_writer *w, const change_list *list) {
  json_member(w, "changes");
  json_open(w, '[');
  for (int i = 0; i < list->n; i++) {
    const attend_change *c = &list->change[i];
    json_open(w, '{');
    json_member_string(w, "kind", list->kind[i]);
    json_member_string(w, "place", list->place[i]);
    json_member_string(w, "point", attend_point_name(c->point));
    if (c->kind == ATTEND_CHANGE_ADD)
      json_member_number(w, "factor", c->factor == ATTEND_ZERO ? 0 : (double)c->factor);
    json_close(w, '}');
  }
  json_close(w, ']');
}

static void put_top(json_writer *w, const intervene_run *r) {
  table t = likeliest(r);
  json_member(w, "tokens");
  json_open(w, '[');
  for (size_t i = 0; i < t.rows; i++) {
    json_open(w, '{');
    table_put_members(&t, i, w);
    json_close(w, '}');
  }
  json_close(w, ']');
  table_free(&t);
}

static void put_head(json_writer *w, const intervene_run *r) {
  json_member_integer(w, "position", r->target.position);
  json_member_integer(w, "target", r->target.token);
  if (r->target.against >= 0) json_member_integer(w, "against", r->target.against);
  put_pair(w, "logit", r->value);
  put_pair(w, "loss", r->loss);
  json_member_number(w, "kl", r->kl);
  put_top(w, r);
}

static int print_json(const intervene_run *r) {
  json_writer w = json_writer_file(r->m->ctx, stdout);
  json_open(&w, '{');
  json_member_string(&w, "model", r->m->name);
  put_ids(&w, "ids", r->text.tokens.ids, r->text.tokens.n);
  if (r->text.tokens.n_decoder)
    put_ids(&w, "decoder_ids", r->text.tokens.decoder_ids, r->text.tokens.n_decoder);
  put_changes(&w, &r->changes);
  if (r->head) put_head(&w, r);
  json_member_number(&w, "state", r->state);
  put_pair(&w, "file_loss", r->file);
  if (r->written[0]) {
    json_member_string(&w, "generated_before", r->written[0]);
    json_member_string(&w, "generated_after", r->written[1]);
  }
  json_close(&w, '}');
  attend_status status = json_finish(&w);
  json_writer_free(&w);
  if (status) return complain_status(r->m->ctx, status);
  return check_written(stdout, "the answer");
}

int intervene_print(const intervene_run *r) {
  return r->o->common.json ? print_json(r) : print_tables(r);
}
