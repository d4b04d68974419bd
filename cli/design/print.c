/* Results of designs as lines, as a table, as JSON. */
#include <stdlib.h>
#include <string.h>

#include "design/show.h"
#include "design/specs.h"
#include "table.h"

const char *design_way_text(attend_way way, char to[64]) {
  if (way.sharpness > 0)
    snprintf(to, 64, "softmax of sharpness %.4g", way.sharpness);
  else
    snprintf(to, 64, "argmax");
  return to;
}

/* ---- paragraphs ------------------------------------------------------------------------ */

/* Breaks a text into lines of at most 78 characters behind an indent. */
static void print_wrapped(FILE *out, const char *indent, const char *text) {
  size_t most = 78 - strlen(indent);
  while (*text) {
    size_t n = strlen(text), cut = n;
    if (n > most)
      for (cut = most; cut > 0 && text[cut] != ' ';) cut--;
    if (!cut) cut = n < most ? n : most;
    fprintf(out, "%s%.*s\n", indent, (int)cut, text);
    text += cut;
    text += strspn(text, " ");
  }
}

void design_print_list(FILE *out) {
  design_spec s;
  attend_context *ctx = NULL;
  attend_context_create(NULL, &ctx);
  for (int i = 0; design_spec_get(i, &s); i++) {
    attend_design *d;
    fprintf(out, "%s\n", s.name);
    if (attend_design_read(ctx, s.name, s.text, s.length, &d)) continue;
    print_wrapped(out, "  ", attend_design_about(d).about);
    attend_design_free(d);
  }
  attend_context_free(ctx);
}

static void print_verdict(const char *title, const attend_verdict *v, FILE *out) {
  if (v->ok)
    fprintf(out, "%-10s right for all %llu inputs (%llu answers), lead %.3g\n", title,
            (unsigned long long)v->inputs, (unsigned long long)v->places, v->margin);
  else
    fprintf(out,
            "%-10s WRONG for %llu of %llu inputs, first \"%s\": place %d should "
            "give \"%s\", gives %s%s%s\n",
            title, (unsigned long long)v->wrong, (unsigned long long)v->inputs, v->input, v->place,
            v->expected, v->predicted ? "\"" : "", v->predicted ? v->predicted : "no answer",
            v->predicted ? "\"" : "");
}

static void print_least(const attend_least *l, FILE *out) {
  if (!l->found)
    fprintf(out, "%-10s softmax does not pass up to %g\n", "sharpness", l->highest);
  else if (l->any)
    fprintf(out, "%-10s softmax passes at any (from %.3g on)\n", "sharpness", l->sharpness);
  else
    fprintf(out, "%-10s softmax passes from %.5g on (fails at %.5g; %d tried%s)\n", "sharpness",
            l->sharpness, l->fails, l->tried,
            l->monotone ? "" : "; some above it fail: not monotone");
}

static void print_learned(const designed *g, FILE *out) {
  if (g->studied)
    fprintf(out,
            "%-10s %d steps in %.1f s, seed %llu: loss %.4f to %.2g, accuracy "
            "%.4f\n",
            "learned", g->curve.steps, g->seconds, (unsigned long long)g->seed, g->curve.loss[0],
            g->curve.last, g->learned.accuracy);
  print_verdict(g->studied ? "" : "learned", &g->learned, out);
}

void design_print(const designed *g, FILE *out) {
  const attend_design_facts *f = &g->facts;
  static const char *const positions[] = {"no positions", "positions concatenated",
                                          "positions added"};
  char way[64];
  char *words[WORDS_MOST];
  size_t count;
  attend_design_weights(g->d, ATTEND_DESIGNED, &count);
  fprintf(out, "%s\n", f->name);
  print_wrapped(out, "  ", f->about);
  fprintf(out, "%-10s %s\n", "task", f->task);
  fprintf(out,
          "%-10s %d letters, %d to %d of them; %s%s; %d layer%s, %d head%s, %d "
          "features, %zu weights\n",
          "shape", f->letters, f->shortest, f->longest, positions[f->positions],
          f->causal ? ", causal" : "", f->layers, f->layers == 1 ? "" : "s", f->heads,
          f->heads == 1 ? "" : "s", f->features, count);
  print_verdict(design_way_text(g->way, way), &g->verdict, out);
  if (g->has_least) print_least(&g->least, out);
  if (!g->has_learned) return;
  print_learned(g, out);
  int n = design_words(g, words);
  for (int i = 0; i < n; i++) {
    fputc('\n', out);
    print_wrapped(out, "", words[i]);
    free(words[i]);
  }
}

/* ---- rows --------------------------------------------------------------------------------- */

/* Columns of twins are left out of tables without twins, never of JSON. */
#define CHECKED_COLUMNS                                                                            \
  {"design", "design", CELL_TEXT}, {"ok", "ok", CELL_OK}, {"way", NULL, CELL_TEXT},                \
      {"inputs", "inputs", CELL_COUNT}, {"places", NULL, CELL_COUNT}, {"wrong", NULL, CELL_COUNT}, \
      {"margin", "lead", CELL_RATIO}, {"counterexample", "counterexample", CELL_TEXT},             \
      {"counterexample_place", NULL, CELL_COUNT}, {"expected", NULL, CELL_TEXT},                   \
      {"predicted", NULL, CELL_TEXT}, {"least_sharpness", NULL, CELL_NUMBER},                      \
      {"least", "least sharpness", CELL_TEXT}, {"least_fails", NULL, CELL_NUMBER}, {               \
    "monotone", NULL, CELL_OK                                                                      \
  }

static const column columns[] = {CHECKED_COLUMNS,
                                 {"learned_ok", NULL, CELL_OK},
                                 {"learned_accuracy", NULL, CELL_RATIO},
                                 {"learned_loss", NULL, CELL_SMALL},
                                 {"learned_seed", NULL, CELL_COUNT},
                                 {"learned_steps", NULL, CELL_COUNT},
                                 {"learned_s", NULL, CELL_SECONDS},
                                 {NULL, NULL, CELL_TEXT}};

static const column learned_columns[] = {CHECKED_COLUMNS,
                                         {"learned_ok", "learned", CELL_OK},
                                         {"learned_accuracy", "accuracy", CELL_RATIO},
                                         {"learned_loss", "loss", CELL_SMALL},
                                         {"learned_seed", NULL, CELL_COUNT},
                                         {"learned_steps", "steps", CELL_COUNT},
                                         {"learned_s", "took", CELL_SECONDS},
                                         {NULL, NULL, CELL_TEXT}};

static cell text_if(bool there, const char *text) {
  return there && text ? cell_text(text) : cell_none();
}
static cell number_if(bool there, double x) { return there ? cell_number(x) : cell_none(); }

static void add_row(table *t, const designed *g) {
  const attend_verdict *v = &g->verdict;
  const attend_least *l = &g->least;
  bool least = g->has_least && l->found;
  char way[64], text[32] = "any";
  if (!l->any) snprintf(text, sizeof text, "%.4g", l->sharpness);
  table_add(t, (cell[]){cell_text(g->facts.name),
                        cell_number(v->ok),
                        cell_text(design_way_text(g->way, way)),
                        cell_number((double)v->inputs),
                        cell_number((double)v->places),
                        cell_number((double)v->wrong),
                        cell_number(v->margin),
                        text_if(!v->ok, v->input),
                        number_if(!v->ok, v->place),
                        text_if(!v->ok, v->expected),
                        text_if(!v->ok, v->predicted),
                        number_if(least, l->any ? 0 : l->sharpness),
                        text_if(least, text),
                        number_if(least && !l->any, l->fails),
                        number_if(least, l->monotone),
                        number_if(g->has_learned, g->learned.ok),
                        number_if(g->has_learned, g->learned.accuracy),
                        number_if(g->studied, g->curve.last),
                        number_if(g->studied, (double)g->seed),
                        number_if(g->studied, g->curve.steps),
                        number_if(g->studied, g->seconds)});
}

int design_print_rows(const designed *all, int n, bool json, FILE *out) {
  bool learned = false;
  for (int i = 0; i < n; i++) learned |= all[i].has_learned;
  table t = table_start(learned ? learned_columns : columns);
  for (int i = 0; i < n; i++) add_row(&t, &all[i]);
  int code = json ? table_print_json(&t, all[0].ctx, out) : table_print(&t, out);
  table_free(&t);
  return code;
}

/* ---- one input ------------------------------------------------------------------------------ */

static const column run_columns[] = {{"place", "place", CELL_COUNT},
                                     {"token", "token", CELL_TEXT},
                                     {"expected", "expected", CELL_TEXT},
                                     {"predicted", "predicted", CELL_TEXT},
                                     {"learned", "learned", CELL_TEXT},
                                     {"ok", "ok", CELL_OK},
                                     {NULL, NULL, CELL_TEXT}};

static cell answer_cell(const designed *g, int32_t answer) {
  if (answer == ATTEND_UNDECIDED) return cell_text("?");
  return answer < 0 ? cell_none() : cell_text(attend_design_answer(g->d, answer));
}

static bool add_places(const designed *g, attend_design_run *const run[2], table *t) {
  attend_design_result r = attend_design_run_result(run[0]);
  bool ok = true;
  for (int i = 0; i < r.length; i++) {
    bool asked = r.expected[i] >= 0, right = r.predicted[i] == r.expected[i];
    cell learned = cell_none();
    if (run[1]) learned = answer_cell(g, attend_design_run_result(run[1]).predicted[i]);
    table_add(t, (cell[]){cell_number(i), cell_text(attend_design_token(g->d, r.tokens[i])),
                          answer_cell(g, r.expected[i]), answer_cell(g, r.predicted[i]), learned,
                          number_if(asked, right)});
    ok &= !asked || right;
  }
  return ok;
}

int design_print_run(const designed *g, const design_options *o, FILE *out) {
  attend_way ways[2] = {{ATTEND_DESIGNED, o->sharpness}, {ATTEND_LEARNED, 1}};
  attend_design_run *run[2] = {NULL, NULL};
  table t = table_start(run_columns);
  int code = EXIT_OK;
  for (int i = 0; i <= g->has_learned && !code; i++) {
    attend_status status = attend_design_run_create(g->d, ways[i], o->input, &run[i]);
    if (status) code = complain_status(g->ctx, status);
  }
  if (!code) {
    bool ok = add_places(g, run, &t);
    code = o->common.json ? table_print_json(&t, g->ctx, out) : table_print(&t, out);
    if (!code && !ok) code = EXIT_FAILED;
  }
  table_free(&t);
  attend_design_run_free(run[0]);
  attend_design_run_free(run[1]);
  return code;
}
