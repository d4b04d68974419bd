/* What attend attribute puts out: words with scores, maps, sums beside the true difference. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "attribute/attribute.h"
#include "folders.h"
#include "table.h"
#include "view/view.h"

enum { TITLE = 512 };

static bool scores_tokens(const attribute_run *r) { return r->o->method <= METHOD_ATTENTION; }
static bool has_map(const attribute_run *r) { return r->o->method >= METHOD_ATTENTION; }

static double sum_of(const float *x, int n) {
  double sum = 0;
  for (int i = 0; i < n; i++) sum += (double)x[i];
  return sum;
}

/* "the logit of “·dog” minus that of “·cat”" */
static void name_target(const attribute_run *r, char text[TITLE]) {
  char *token = token_label(r->m, r->target.token), *other = NULL;
  if (r->target.against >= 0) other = token_label(r->m, r->target.against);
  snprintf(text, TITLE,
           other ? "the logit of “%.100s” minus that of “%.100s”" : "the logit of “%.100s”", token,
           other ? other : "");
  free(token);
  free(other);
}

/* ---- pictures ------------------------------------------------------------------------------------ */

typedef struct {
  picture_map_data map;
  picture_scores_data scores;
  char title[TITLE], map_caption[2 * TITLE], caption[2 * TITLE];
} pictures;

static const char *const methods[] = {"integrated gradients", "gradient × input",
                                      "attention × gradient", "direct contributions", "logit lens"};

static void say_tokens(const attribute_run *r, const char *target, pictures *p) {
  const attend_integrated *i = &r->integrated;
  const double sum = sum_of(r->scores, r->tokens);
  if (r->o->method == METHOD_INTEGRATED)
    snprintf(p->caption, sizeof p->caption,
             "What each token adds to %s at position %d. The scores add up to %.4g; the difference "
             "from the baseline (%.60s) is %.4g (%d steps).",
             target, r->target.position, i->sum, r->baseline, i->logit - i->baseline, i->steps);
  else if (r->o->method == METHOD_GRADIENT)
    snprintf(
        p->caption, sizeof p->caption,
        "What each token adds to %s at position %d, to first order. The scores add up to %.4g; "
        "the logit is %.4g.",
        target, r->target.position, sum, r->logit);
  else
    snprintf(p->caption, sizeof p->caption,
             "What is read from each token by attention, as far as %s at position %d depends on it "
             "to first order: weights times gradients, summed over layers, heads and queries.",
             target, r->target.position);
}

static void say_map(const attribute_run *r, const char *target, pictures *p) {
  if (r->o->method == METHOD_ATTENTION)
    snprintf(p->map_caption, sizeof p->map_caption,
             "Weights times gradients of %s at position %d, summed over each head: to first order "
             "what zero ablation of the head would take away.",
             target, r->target.position);
  else if (r->o->method == METHOD_DIRECT)
    snprintf(p->map_caption, sizeof p->map_caption,
             "What each head and mlp adds directly to %s at position %d. Together %.4g; the "
             "embedding adds %.4g, biases and the rest %.4g: the logit is %.4g.",
             target, r->target.position, sum_of(r->map, r->rows * r->columns), r->direct.embedding,
             r->direct.rest, r->logit);
  else
    snprintf(p->map_caption, sizeof p->map_caption,
             "The likeliest token if the head read the stream after each layer (row) at each token "
             "(column); the colour is its probability.");
}

static void make_pictures(const attribute_run *r, pictures *p) {
  char target[TITLE] = "";
  const bool lens = r->o->method == METHOD_LENS;
  if (!lens) name_target(r, target);
  snprintf(p->title, sizeof p->title, "%.200s: %s", r->m->name, methods[r->o->method]);
  say_tokens(r, target, p);
  say_map(r, target, p);
  p->scores = (picture_scores_data){
      p->title, p->caption, "score", {(const char *const *)r->labels, r->tokens}, r->scores, -1};
  p->map = (picture_map_data){.title = p->title,
                              .caption = p->map_caption,
                              .row_axis = "layer",
                              .column_axis = lens                            ? "token"
                                             : r->o->method == METHOD_DIRECT ? "head or mlp"
                                                                             : "head",
                              .what = lens ? "probability" : "score",
                              .rows = {(const char *const *)r->row_names, r->rows},
                              .columns = {(const char *const *)r->column_names, r->columns},
                              .cells = r->map,
                              .is_signed = !lens,
                              .words = (const char *const *)r->words};
}

/* ---- JSON ------------------------------------------------------------------------------------------ */

static void put_tokens(json_writer *w, const attribute_run *r) {
  const attend_tokens *x = &r->text.tokens;
  json_member(w, "tokens");
  json_open(w, '[');
  for (int i = 0; i < r->tokens; i++) {
    json_open(w, '{');
    json_member_string(w, "token", r->labels[i]);
    json_member_integer(w, "id", i < x->n ? x->ids[i] : x->decoder_ids[i - x->n]);
    if (x->decoder_ids) json_member_boolean(w, "decoder", i >= x->n);
    if (scores_tokens(r)) json_member_number(w, "score", (double)r->scores[i]);
    json_close(w, '}');
  }
  json_close(w, ']');
}

static void put_map(json_writer *w, const attribute_run *r, const char *name) {
  json_member(w, name);
  json_open(w, '[');
  for (int i = 0; i < r->rows; i++) {
    json_open(w, '[');
    for (int j = 0; j < r->columns; j++) json_put_number(w, (double)r->map[i * r->columns + j]);
    json_close(w, ']');
  }
  json_close(w, ']');
}

static void put_cell(json_writer *w, const attribute_run *r, int at) {
  json_open(w, '[');
  for (int k = 0; k < r->o->top; k++) {
    const int i = at * r->o->top + k;
    char *label = token_label(r->m, r->ids[i]);
    json_open(w, '{');
    json_member_string(w, "token", label);
    json_member_integer(w, "id", r->ids[i]);
    json_member_number(w, "probability", (double)r->p[i]);
    json_close(w, '}');
    free(label);
  }
  json_close(w, ']');
}

static void put_lens(json_writer *w, const attribute_run *r) {
  score_put_names(w, "layers", r->row_names, r->rows);
  json_member(w, "lens");
  json_open(w, '[');
  for (int i = 0; i < r->rows; i++) {
    json_open(w, '[');
    for (int j = 0; j < r->columns; j++) put_cell(w, r, i * r->columns + j);
    json_close(w, ']');
  }
  json_close(w, ']');
}

static void put_target(json_writer *w, const attribute_run *r) {
  json_member_integer(w, "position", r->target.position);
  json_member_integer(w, "target", r->target.token);
  if (r->target.against >= 0) json_member_integer(w, "against", r->target.against);
  json_member_number(w, "logit", r->logit);
}

static void put_sums(json_writer *w, const attribute_run *r) {
  const attend_integrated *i = &r->integrated;
  if (scores_tokens(r)) json_member_number(w, "sum", sum_of(r->scores, r->tokens));
  if (r->o->method == METHOD_INTEGRATED) {
    json_member_string(w, "baseline", r->baseline);
    json_member_number(w, "baseline_logit", i->baseline);
    json_member_number(w, "difference", i->logit - i->baseline);
    json_member_integer(w, "steps", i->steps);
  }
  if (r->o->method == METHOD_DIRECT) {
    json_member_number(w, "embedding", r->direct.embedding);
    json_member_number(w, "rest", r->direct.rest);
  }
}

static void put_json(json_writer *w, const attribute_run *r) {
  static const char *const words[] = {"integrated", "gradient", "attention", "direct", "lens"};
  json_open(w, '{');
  json_member_string(w, "model", r->m->name);
  json_member_string(w, "method", words[r->o->method]);
  if (r->o->method != METHOD_LENS) put_target(w, r);
  put_sums(w, r);
  put_tokens(w, r);
  if (r->o->method == METHOD_LENS) put_lens(w, r);
  if (r->o->method == METHOD_ATTENTION) put_map(w, r, "heads");
  if (r->o->method == METHOD_DIRECT) {
    score_put_names(w, "columns", r->column_names, r->columns);
    put_map(w, r, "contributions");
  }
  json_close(w, '}');
}

static int write_json(const attribute_run *r, const char *path) {
  json_writer w = json_writer_text(r->m->ctx);
  put_json(&w, r);
  attend_status status = json_finish(&w);
  int code = status ? complain_status(r->m->ctx, status)
                    : view_write_bytes(r->m->ctx, path, w.text, w.length);
  json_writer_free(&w);
  return code;
}

/* ---- the terminal ----------------------------------------------------------------------------------- */

static void print_sums(const attribute_run *r, const char *target) {
  const attend_integrated *i = &r->integrated;
  const double sum = sum_of(r->scores, r->tokens), difference = i->logit - i->baseline;
  putchar('\n');
  if (r->o->method == METHOD_INTEGRATED) {
    printf("sum of the scores    %.4f (%d steps)\n", i->sum, i->steps);
    printf("true difference      %.4f (%.4f of the text, %.4f of the baseline, %s)\n", difference,
           i->logit, i->baseline, r->baseline);
    printf("complete to          %.2g %%\n",
           difference != 0 ? 100 * fabs(i->sum - difference) / fabs(difference) : 0);
  } else if (r->o->method == METHOD_GRADIENT) {
    printf("sum of the scores    %.4f (to first order; %s is %.4f)\n", sum, target, r->logit);
  }
}

static void print_direct(const attribute_run *r, const char *target) {
  double mlps = 0, heads = sum_of(r->map, r->rows * r->columns);
  for (int i = 0; i < r->rows; i++) mlps += (double)r->map[(i + 1) * r->columns - 1];
  printf("\nheads                %+.4f\nmlps                 %+.4f\n", heads - mlps, mlps);
  printf("embedding            %+.4f\nbiases and the rest  %+.4f\n", r->direct.embedding,
         r->direct.rest);
  printf("sum                  %+.4f = %s\n", heads + r->direct.embedding + r->direct.rest, target);
}

static void print_terminal(const attribute_run *r, const pictures *p) {
  char target[TITLE] = "";
  terminal_look look = terminal_look_of(stdout);
  if (r->o->method != METHOD_LENS) {
    name_target(r, target);
    printf("%s: %s at position %d\n\n", methods[r->o->method], target, r->target.position);
  }
  if (scores_tokens(r)) {
    terminal_scores(stdout, &p->scores, &look);
    print_sums(r, target);
  }
  if (has_map(r)) {
    if (scores_tokens(r)) putchar('\n');
    terminal_map(stdout, &p->map, &look);
  }
  if (r->o->method == METHOD_DIRECT) print_direct(r, target);
}

int attribute_print(const attribute_run *r) {
  const score_output *out = &r->o->out;
  pictures *p = need(1, sizeof *p);
  int code = EXIT_OK;
  make_pictures(r, p);
  if (out->path && !strcmp(path_ending(out->path), "json"))
    code = write_json(r, out->path);
  else if (out->path)
    code = score_write(r->m->ctx, out, has_map(r) ? &p->map : NULL, has_map(r) ? NULL : &p->scores);
  if (!code && r->o->common.json) {
    code = write_json(r, "-");
  } else if (!code) {
    print_terminal(r, p);
    code = check_written(stdout, "the answer");
  }
  free(p);
  return code;
}
