/* Results of a design: in words, how it and its learned twin differ and why; and as JSON with
 * all their numbers.
 */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "attend/design.h"
#include "base/files.h"

/* ---- words ---------------------------------------------------------------------- */

const char *attend_design_variant_text(attend_design_variant variant, char text[64]) {
  if (variant.sharpness > 0)
    snprintf(text, 64, "softmax of sharpness %.4g", variant.sharpness);
  else
    snprintf(text, 64, "argmax");
  return text;
}

typedef struct {
  char *text; /* [ATTEND_DESIGN_PARAGRAPH] */
  size_t used;
} paragraph;

__attribute__((format(printf, 2, 3))) static void say(paragraph *p, const char *format, ...) {
  va_list args;
  va_start(args, format);
  int n = vsnprintf(p->text + p->used, ATTEND_DESIGN_PARAGRAPH - p->used, format, args);
  va_end(args);
  p->used += (size_t)(n > 0 ? n : 0);
  if (p->used >= ATTEND_DESIGN_PARAGRAPH) p->used = ATTEND_DESIGN_PARAGRAPH - 1;
}

static void say_attention(paragraph *p, const attend_likeness *l) {
  const char *verdict = l->distance < 0.05  ? "They attend alike"
                        : l->distance < 0.2 ? "They mostly attend alike"
                                            : "They attend differently";
  say(p,
      "%s: over %llu rows %.3f of the weight lies elsewhere (total variation), the heaviest key is "
      "the same in %.1f %%, the entropy is %.2f and %.2f nats. ",
      verdict, (unsigned long long)l->rows, l->distance, 100 * l->same_key, l->entropy[0],
      l->entropy[1]);
}

static void say_singular(paragraph *p, const double *s, int rank) {
  int n = rank < 1 ? 1 : rank > 4 ? 4 : rank;
  for (int i = 0; i < n; i++) say(p, "%s%.3g", i ? ", " : "", s[i]);
  if (rank > n) say(p, ", ..");
}

static void say_form(paragraph *p, const char *name, const int rank[2],
                     const double (*s)[ATTEND_SINGULAR]) {
  say(p, "%s has rank %d designed and %d learned, with singular values ", name, rank[0], rank[1]);
  say_singular(p, s[0], rank[0]);
  say(p, " and ");
  say_singular(p, s[1], rank[1]);
}

static void say_scores(paragraph *p, const attend_likeness *l) {
  say_form(p, "The scores' form Qm Km^T", l->score_rank, l->score_singular);
  if (!(l->score_norm[0] > 0)) {
    say(p, ": the design prefers no key, and the twin was not held to that. ");
    return;
  }
  if (!isnan(l->score_cosine)) say(p, ", at a cosine of %.2f", l->score_cosine);
  say(p, "; it is %.1f times as large. ", l->score_norm[1] / l->score_norm[0]);
}

static void say_basis(paragraph *p, const attend_likeness *l) {
  say(p, "Qm, Km and Vm have norms %.2f, %.2f, %.2f and %.2f, %.2f, %.2f", l->norm[0][0],
      l->norm[0][1], l->norm[0][2], l->norm[1][0], l->norm[1][1], l->norm[1][2]);
  if (!isnan(l->spread[0][1]))
    say(p, ", and %.0f and %.0f %% of Km is in use", 100 * l->spread[0][1], 100 * l->spread[1][1]);
  say(p, ". ");
}

static void say_effect(paragraph *p, const attend_likeness *l) {
  if (isnan(l->effect_norm[0])) {
    say(p, "Its output is read by later layers, each in a basis of its own. ");
    return;
  }
  say_form(p, "What a value does to the answers, Vm Wo,", l->effect_rank, l->effect_singular);
  if (!isnan(l->effect_cosine)) say(p, ", at a cosine of %.2f", l->effect_cosine);
  say(p, ". ");
}

static void say_head(paragraph *p, const attend_design *d, const attend_likeness *l, int head) {
  attend_design_head h;
  attend_design_head_get(d, head, &h);
  say(p, "Head \"%s\" of layer %d. ", h.name, h.layer);
  say_attention(p, l);
  say_scores(p, l);
  say_basis(p, l);
  say_effect(p, l);
  p->text[p->used - 1] = 0; /* the last space */
}

/* The invariances, each with what it explains. */
static void say_reasons(paragraph *p, const attend_design_facts *facts,
                        const attend_design_results *r) {
  bool alike = true;
  for (int i = 0; i < facts->heads; i++) alike &= r->like[i].distance < 0.05;
  say(p,
      "Why they differ where they do. The basis: any invertible matrix may turn Qm and Km "
      "together, Vm and what reads it likewise, and no answer changes, so training has no reason "
      "to keep to one column a letter. Constants: what is the same for all keys of a query cancels "
      "in the weights, and is left out of Qm Km^T above, as is from Vm Wo what is the same for all "
      "answers or all keys. Size: softmax must lift the best key by a difference of scores where "
      "argmax needs any, and cross-entropy rewards larger logits where the design is content with "
      "the largest. ");
  say(p, alike ? "The pattern: the task leaves one only, and both have it."
               : "The pattern: the task fixes the answers, not the attention that finds them, and "
                 "where there are several ways training found another.");
  if (facts->layers > 1)
    say(p,
        " Later layers read what the twin's own first ones wrote: there the patterns can be laid "
        "side by side, the weights cannot.");
}

static void say_summary(paragraph *p, const attend_design_results *r) {
  char variant[64];
  say(p,
      "The design runs with %s, its twin with softmax of what it learned; the design is right for "
      "%s of %llu inputs, the twin for %.2f %% of %llu answers, with a lead of at least %.2g and "
      "%.2g logits.",
      attend_design_variant_text(r->variant, variant), r->verdict.ok ? "all" : "not all",
      (unsigned long long)r->verdict.inputs, 100 * r->learned.accuracy,
      (unsigned long long)r->learned.places, r->verdict.margin, r->learned.margin);
}

bool attend_design_paragraph(const attend_design *design, const attend_design_results *r, int i,
                             char text[ATTEND_DESIGN_PARAGRAPH]) {
  const attend_design_facts *facts = attend_design_about(design);
  paragraph p = {text, 0};
  if (!r->has_learned || i > facts->heads + 1) return false;
  if (i == 0)
    say_summary(&p, r);
  else if (i <= facts->heads)
    say_head(&p, design, &r->like[i - 1], i - 1);
  else
    say_reasons(&p, facts, r);
  return true;
}

/* ---- JSON ------------------------------------------------------------------------ */

static void open_list(json_writer *w, const char *name) {
  json_member(w, name);
  json_open(w, '[');
}

static void put_names(json_writer *w, const char *name, const attend_design *d,
                      const char *(*get)(const attend_design *, int)) {
  open_list(w, name);
  for (int i = 0; get(d, i); i++) json_put_string(w, get(d, i));
  json_close(w, ']');
}

/* Nine digits: a float reads back as itself. */
static void put_floats(json_writer *w, const char *name, const float *x, size_t n) {
  open_list(w, name);
  for (size_t i = 0; i < n; i++) json_put_number(w, (double)x[i]);
  json_close(w, ']');
}

static void put_numbers(json_writer *w, const char *name, const double *x, int n) {
  open_list(w, name);
  for (int i = 0; i < n; i++) json_put_number(w, x[i]);
  json_close(w, ']');
}

/* ---- the design --------------------------------------------------------------------------- */

static void put_facts(json_writer *w, const attend_design *d) {
  static const char *const positions[] = {"none", "concatenated", "added"};
  static const char *const at[] = {"every", "first", "last"};
  const attend_design_facts *f = attend_design_about(d);
  json_member_string(w, "name", f->name);
  json_member_string(w, "about", f->about);
  json_member_string(w, "task", f->task);
  json_member_string(w, "example", f->example);
  json_member_string(w, "spec", f->spec);
  json_member_number(w, "letters", f->letters);
  json_member_boolean(w, "starts", f->starts);
  json_member_boolean(w, "ends", f->ends);
  json_member_number(w, "shortest", f->shortest);
  json_member_number(w, "longest", f->longest);
  json_member_number(w, "places", f->places);
  json_member_number(w, "embedded", f->embedded);
  json_member_boolean(w, "causal", f->causal);
  json_member_string(w, "positions", positions[f->positions]);
  json_member_string(w, "at", at[f->at]);
  put_names(w, "tokens", d, attend_design_token);
  put_names(w, "answers", d, attend_design_answer);
  put_names(w, "features", d, attend_design_feature);
}

static void put_heads(json_writer *w, const attend_design *d) {
  attend_design_head h;
  open_list(w, "heads");
  for (int i = 0; attend_design_head_get(d, i, &h); i++) {
    json_open(w, '{');
    json_member_string(w, "name", h.name);
    json_member_number(w, "layer", h.layer);
    json_member_number(w, "dim", h.dim);
    json_member_number(w, "dim_v", h.dim_v);
    json_member_number(w, "reads", h.reads);
    json_member_number(w, "slot", h.slot);
    json_member_string(w, "ties", h.ties == ATTEND_TIES_FIRST ? "first" : "average");
    json_member(w, "columns");
    json_open(w, '[');
    for (int c = 0; c < h.dim; c++) json_put_string(w, attend_design_column(d, i, c));
    json_close(w, ']');
    json_close(w, '}');
  }
  json_close(w, ']');
}

static void put_parts(json_writer *w, const attend_design *d) {
  attend_design_part p;
  open_list(w, "parts");
  for (int i = 0; attend_design_part_get(d, i, &p); i++) {
    json_open(w, '{');
    json_member_string(w, "name", p.name);
    json_member_number(w, "head", p.head);
    json_member_number(w, "rows", p.rows);
    json_member_number(w, "columns", p.columns);
    json_member_number(w, "at", (double)p.at);
    json_close(w, '}');
  }
  json_close(w, ']');
}

/* ---- results ------------------------------------------------------------------------- */

static void put_verdict(json_writer *w, const attend_verdict *v) {
  json_member_boolean(w, "ok", v->ok);
  json_member_number(w, "inputs", (double)v->inputs);
  json_member_number(w, "places", (double)v->places);
  json_member_number(w, "wrong", (double)v->wrong);
  json_member_number(w, "accuracy", v->accuracy);
  json_member_number(w, "margin", v->margin);
  json_member_string(w, "counterexample", v->ok ? NULL : v->input);
}

static void put_least(json_writer *w, const attend_design_results *r) {
  const attend_least *l = &r->min;
  json_member(w, "least");
  if (!r->has_least || !l->found) {
    json_put_null(w);
    return;
  }
  json_open(w, '{');
  json_member_number(w, "sharpness", l->sharpness);
  json_member_number(w, "fails", l->fails);
  json_member_boolean(w, "any", l->any);
  json_member_boolean(w, "monotone", l->monotone);
  json_close(w, '}');
}

static attend_status put_run(json_writer *w, const attend_design *d,
                             attend_design_variant variant) {
  const attend_design_facts *facts = attend_design_about(d);
  attend_design_run *run;
  attend_design_head h;
  ATTEND_TRY(attend_design_run_create(d, variant, facts->example, &run));
  const attend_design_result *r = attend_design_run_result(run);
  json_member(w, "run");
  json_open(w, '{');
  json_member_number(w, "sharpness", variant.sharpness);
  put_floats(w, "logits", r->logits, (size_t)(r->length * facts->answers));
  open_list(w, "attention");
  for (int i = 0; attend_design_head_get(d, i, &h); i++) {
    const float *a = attend_design_run_head(run, i)->attention;
    json_open(w, '[');
    for (int j = 0; j < r->length * r->length; j++) json_put_number(w, (double)a[j]);
    json_close(w, ']');
  }
  json_close(w, ']');
  json_close(w, '}');
  attend_design_run_free(run);
  return ATTEND_OK;
}

static attend_status put_twin(json_writer *w, const attend_design *d,
                              const attend_design_results *r, attend_twin twin) {
  bool learned = twin == ATTEND_LEARNED;
  attend_design_variant variant = learned ? (attend_design_variant){ATTEND_LEARNED, 1} : r->variant;
  size_t n;
  json_member(w, learned ? "learned" : "designed");
  const float *weights = attend_design_weights(d, twin, &n);
  if (!weights) {
    json_put_null(w);
    return ATTEND_OK;
  }
  json_open(w, '{');
  put_verdict(w, learned ? &r->learned : &r->verdict);
  if (!learned) put_least(w, r);
  if (learned && r->trained) {
    double steps[ATTEND_CURVE];
    for (int i = 0; i < r->curve.points; i++) steps[i] = r->curve.step[i];
    json_member_number(w, "seed", (double)r->seed);
    json_member_number(w, "steps", r->curve.steps);
    put_numbers(w, "at", steps, r->curve.points);
    put_numbers(w, "loss", r->curve.loss, r->curve.points);
    json_member_number(w, "last_loss", r->curve.last);
  }
  put_floats(w, "weights", weights, n);
  ATTEND_TRY(put_run(w, d, variant));
  json_close(w, '}');
  return ATTEND_OK;
}

static void put_likeness(json_writer *w, const attend_likeness *l) {
  static const char *const names[] = {"Qm", "Km", "Vm"};
  json_open(w, '{');
  json_member_number(w, "rows", (double)l->rows);
  json_member_number(w, "distance", l->distance);
  json_member_number(w, "same_key", l->same_key);
  put_numbers(w, "entropy", l->entropy, 2);
  for (int i = 0; i < 3; i++) {
    double norm[2] = {l->norm[0][i], l->norm[1][i]};
    put_numbers(w, names[i], norm, 2);
  }
  json_member_number(w, "score_cosine", l->score_cosine);
  put_numbers(w, "score_designed", l->score_singular[0], ATTEND_SINGULAR);
  put_numbers(w, "score_learned", l->score_singular[1], ATTEND_SINGULAR);
  json_member_number(w, "effect_cosine", l->effect_cosine);
  put_numbers(w, "effect_designed", l->effect_singular[0], ATTEND_SINGULAR);
  put_numbers(w, "effect_learned", l->effect_singular[1], ATTEND_SINGULAR);
  json_close(w, '}');
}

static void put_comparison(json_writer *w, const attend_design *d, const attend_design_results *r) {
  const attend_design_facts *facts = attend_design_about(d);
  char text[ATTEND_DESIGN_PARAGRAPH];
  open_list(w, "words");
  for (int i = 0; attend_design_paragraph(d, r, i, text); i++) json_put_string(w, text);
  json_close(w, ']');
  open_list(w, "likeness");
  for (int i = 0; r->has_learned && i < facts->heads; i++) put_likeness(w, &r->like[i]);
  json_close(w, ']');
}

static attend_status put_design(json_writer *w, const attend_design *design,
                                const attend_design_results *results) {
  json_open(w, '{');
  put_facts(w, design);
  put_heads(w, design);
  put_parts(w, design);
  ATTEND_TRY(put_twin(w, design, results, ATTEND_DESIGNED));
  ATTEND_TRY(put_twin(w, design, results, ATTEND_LEARNED));
  put_comparison(w, design, results);
  json_close(w, '}');
  return ATTEND_OK;
}

attend_status attend_design_json(attend_context *ctx, const attend_design *design,
                                 const attend_design_results *results, char **json,
                                 size_t *length) {
  json_writer w = json_writer_text(ctx);
  *json = NULL;
  *length = 0;
  attend_status status = put_design(&w, design, results);
  if (!status) return json_take_text(&w, json, length);
  json_writer_free(&w);
  return status;
}
