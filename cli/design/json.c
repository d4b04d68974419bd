/* Designs with all their numbers, as JSON: for programs and for the page.
 *
 * --out x.json, and the data inside --out x.html. viewer/README.md documents it.
 */
#include <stdlib.h>

#include "design/show.h"
#include "table.h"

static void put_names(attend_json_writer *w, const char *name, const attend_design *d,
                      const char *(*get)(const attend_design *, int)) {
  attend_json_member(w, name);
  attend_json_open(w, '[');
  for (int i = 0; get(d, i); i++) attend_json_put_string(w, get(d, i));
  attend_json_close(w, ']');
}

/* Nine digits: a float reads back as itself. */
static void put_floats(attend_json_writer *w, const char *name, const float *x, size_t n) {
  attend_json_member(w, name);
  attend_json_open(w, '[');
  for (size_t i = 0; i < n; i++) attend_json_put_number(w, (double)x[i]);
  attend_json_close(w, ']');
}

static void put_numbers(attend_json_writer *w, const char *name, const double *x, int n) {
  attend_json_member(w, name);
  attend_json_open(w, '[');
  for (int i = 0; i < n; i++) attend_json_put_number(w, x[i]);
  attend_json_close(w, ']');
}

/* ---- the design --------------------------------------------------------------------------- */

static void put_facts(attend_json_writer *w, const designed *g) {
  static const char *const positions[] = {"none", "concatenated", "added"};
  static const char *const at[] = {"every", "first", "last"};
  const attend_design_facts *f = &g->facts;
  json_text(w, "name", f->name);
  json_text(w, "about", f->about);
  json_text(w, "task", f->task);
  json_text(w, "example", f->example);
  json_text(w, "spec", f->spec);
  json_number(w, "letters", f->letters);
  json_truth(w, "starts", f->starts);
  json_truth(w, "ends", f->ends);
  json_number(w, "shortest", f->shortest);
  json_number(w, "longest", f->longest);
  json_number(w, "places", f->places);
  json_number(w, "embedded", f->embedded);
  json_truth(w, "causal", f->causal);
  json_text(w, "positions", positions[f->positions]);
  json_text(w, "at", at[f->at]);
  put_names(w, "tokens", g->d, attend_design_token);
  put_names(w, "answers", g->d, attend_design_answer);
  put_names(w, "features", g->d, attend_design_feature);
}

static void put_heads(attend_json_writer *w, const designed *g) {
  attend_design_head h;
  attend_json_member(w, "heads");
  attend_json_open(w, '[');
  for (int i = 0; attend_design_head_get(g->d, i, &h); i++) {
    attend_json_open(w, '{');
    json_text(w, "name", h.name);
    json_number(w, "layer", h.layer);
    json_number(w, "dim", h.dim);
    json_number(w, "dim_v", h.dim_v);
    json_number(w, "reads", h.reads);
    json_number(w, "slot", h.slot);
    json_text(w, "ties", h.ties == ATTEND_TIES_FIRST ? "first" : "average");
    attend_json_member(w, "columns");
    attend_json_open(w, '[');
    for (int c = 0; c < h.dim; c++) attend_json_put_string(w, attend_design_column(g->d, i, c));
    attend_json_close(w, ']');
    attend_json_close(w, '}');
  }
  attend_json_close(w, ']');
}

static void put_parts(attend_json_writer *w, const designed *g) {
  attend_design_part p;
  attend_json_member(w, "parts");
  attend_json_open(w, '[');
  for (int i = 0; attend_design_part_get(g->d, i, &p); i++) {
    attend_json_open(w, '{');
    json_text(w, "name", p.name);
    json_number(w, "head", p.head);
    json_number(w, "rows", p.rows);
    json_number(w, "columns", p.columns);
    json_number(w, "at", (double)p.at);
    attend_json_close(w, '}');
  }
  attend_json_close(w, ']');
}

/* ---- results ------------------------------------------------------------------------- */

static void put_verdict(attend_json_writer *w, const attend_verdict *v) {
  json_truth(w, "ok", v->ok);
  json_number(w, "inputs", (double)v->inputs);
  json_number(w, "places", (double)v->places);
  json_number(w, "wrong", (double)v->wrong);
  json_number(w, "accuracy", v->accuracy);
  json_number(w, "margin", v->margin);
  json_text(w, "counterexample", v->ok ? NULL : v->input);
}

static void put_least(attend_json_writer *w, const designed *g) {
  const attend_least *l = &g->least;
  attend_json_member(w, "least");
  if (!g->has_least || !l->found) {
    attend_json_put_null(w);
    return;
  }
  attend_json_open(w, '{');
  json_number(w, "sharpness", l->sharpness);
  json_number(w, "fails", l->fails);
  json_truth(w, "any", l->any);
  json_truth(w, "monotone", l->monotone);
  attend_json_close(w, '}');
}

static int put_run(attend_json_writer *w, const designed *g, attend_way way) {
  attend_design_run *run;
  attend_design_head h;
  attend_status status = attend_design_run_create(g->d, way, g->facts.example, &run);
  if (status) return complain_status(g->ctx, status);
  attend_design_result r = attend_design_run_result(run);
  attend_json_member(w, "run");
  attend_json_open(w, '{');
  json_number(w, "sharpness", way.sharpness);
  put_floats(w, "logits", r.logits, (size_t)(r.length * g->facts.answers));
  attend_json_member(w, "attention");
  attend_json_open(w, '[');
  for (int i = 0; attend_design_head_get(g->d, i, &h); i++) {
    const float *a = attend_design_run_head(run, i).attention;
    attend_json_open(w, '[');
    for (int j = 0; j < r.length * r.length; j++) attend_json_put_number(w, (double)a[j]);
    attend_json_close(w, ']');
  }
  attend_json_close(w, ']');
  attend_json_close(w, '}');
  attend_design_run_free(run);
  return EXIT_OK;
}

static int put_twin(attend_json_writer *w, const designed *g, attend_twin twin) {
  bool learned = twin == ATTEND_LEARNED;
  attend_way way = learned ? (attend_way){ATTEND_LEARNED, 1} : g->way;
  size_t n;
  attend_json_member(w, learned ? "learned" : "designed");
  const float *weights = attend_design_weights(g->d, twin, &n);
  if (!weights) {
    attend_json_put_null(w);
    return EXIT_OK;
  }
  attend_json_open(w, '{');
  put_verdict(w, learned ? &g->learned : &g->verdict);
  if (!learned) put_least(w, g);
  if (learned && g->studied) {
    double steps[ATTEND_CURVE];
    for (int i = 0; i < g->curve.points; i++) steps[i] = g->curve.step[i];
    json_number(w, "seed", (double)g->seed);
    json_number(w, "steps", g->curve.steps);
    put_numbers(w, "at", steps, g->curve.points);
    put_numbers(w, "loss", g->curve.loss, g->curve.points);
    json_number(w, "last_loss", g->curve.last);
  }
  put_floats(w, "weights", weights, n);
  int code = put_run(w, g, way);
  attend_json_close(w, '}');
  return code;
}

static void put_likeness(attend_json_writer *w, const attend_likeness *l) {
  static const char *const names[] = {"Qm", "Km", "Vm"};
  attend_json_open(w, '{');
  json_number(w, "rows", (double)l->rows);
  json_number(w, "distance", l->distance);
  json_number(w, "same_key", l->same_key);
  put_numbers(w, "entropy", l->entropy, 2);
  for (int i = 0; i < 3; i++) {
    double norm[2] = {l->norm[0][i], l->norm[1][i]};
    put_numbers(w, names[i], norm, 2);
  }
  json_number(w, "score_cosine", l->score_cosine);
  put_numbers(w, "score_designed", l->score_singular[0], ATTEND_SINGULAR);
  put_numbers(w, "score_learned", l->score_singular[1], ATTEND_SINGULAR);
  json_number(w, "effect_cosine", l->effect_cosine);
  put_numbers(w, "effect_designed", l->effect_singular[0], ATTEND_SINGULAR);
  put_numbers(w, "effect_learned", l->effect_singular[1], ATTEND_SINGULAR);
  attend_json_close(w, '}');
}

static void put_words(attend_json_writer *w, const designed *g) {
  char *words[WORDS_MOST];
  int n = design_words(g, words);
  attend_json_member(w, "words");
  attend_json_open(w, '[');
  for (int i = 0; i < n; i++) {
    attend_json_put_string(w, words[i]);
    free(words[i]);
  }
  attend_json_close(w, ']');
  attend_json_member(w, "likeness");
  attend_json_open(w, '[');
  for (int i = 0; g->has_learned && i < g->facts.heads; i++) put_likeness(w, &g->like[i]);
  attend_json_close(w, ']');
}

static int put_design(attend_json_writer *w, const designed *g) {
  attend_json_open(w, '{');
  put_facts(w, g);
  put_heads(w, g);
  put_parts(w, g);
  int code = put_twin(w, g, ATTEND_DESIGNED);
  if (!code) code = put_twin(w, g, ATTEND_LEARNED);
  put_words(w, g);
  attend_json_close(w, '}');
  return code;
}

int design_put_json(attend_json_writer *w, const designed *all, int n) {
  int code = EXIT_OK;
  attend_json_open(w, '{');
  json_text(w, "version", attend_version());
  attend_json_member(w, "designs");
  attend_json_open(w, '[');
  for (int i = 0; i < n && !code; i++) code = put_design(w, &all[i]);
  attend_json_close(w, ']');
  attend_json_close(w, '}');
  attend_status status = attend_json_finish(w);
  return code ? code : status ? complain_status(all[0].ctx, status) : EXIT_OK;
}
