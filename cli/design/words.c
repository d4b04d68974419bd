/* The paragraph below the maps: how a design and its learned twin differ.
 *
 * Each difference is printed with its number and its reason: which changes of weights
 * leave all answers as they are.
 */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "design/show.h"

typedef struct {
  char text[2400];
  size_t used;
} paragraph;

__attribute__((format(printf, 2, 3))) static void say(paragraph *p, const char *format, ...) {
  va_list args;
  va_start(args, format);
  int n = vsnprintf(p->text + p->used, sizeof p->text - p->used, format, args);
  va_end(args);
  p->used += (size_t)(n > 0 ? n : 0);
  if (p->used >= sizeof p->text) p->used = sizeof p->text - 1;
}

static void say_attention(paragraph *p, const attend_likeness *l) {
  const char *verdict = l->distance < 0.05  ? "They attend alike"
                        : l->distance < 0.2 ? "They mostly attend alike"
                                            : "They attend differently";
  say(p,
      "%s: over %llu rows %.3f of the weight lies elsewhere (total variation), "
      "the heaviest key is the same in %.1f %%, the entropy is %.2f and %.2f "
      "nats. ",
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

static char *head_words(const designed *g, int head) {
  const attend_likeness *l = &g->like[head];
  paragraph p = {.used = 0};
  attend_design_head h;
  attend_design_head_get(g->d, head, &h);
  say(&p, "Head \"%s\" of layer %d. ", h.name, h.layer);
  say_attention(&p, l);
  say_scores(&p, l);
  say_basis(&p, l);
  say_effect(&p, l);
  p.text[p.used - 1] = 0; /* the last space */
  return need_copy(p.text);
}

/* The invariances, each with what it explains. */
static char *reasons(const designed *g) {
  bool alike = true;
  paragraph p = {.used = 0};
  for (int i = 0; i < g->facts.heads; i++) alike &= g->like[i].distance < 0.05;
  say(&p,
      "Why they differ where they do. The basis: any invertible matrix may "
      "turn Qm and Km together, Vm and what reads it likewise, and no answer "
      "changes, so training has no reason to keep to one column a letter. "
      "Constants: what is the same for all keys of a query cancels in the "
      "weights, and is left out of Qm Km^T above, as is from Vm Wo what is "
      "the same for all answers or all keys. Size: softmax must lift the "
      "best key by a difference of scores where argmax needs any, and "
      "cross-entropy rewards larger logits where the design is content with "
      "the largest. ");
  say(&p, alike ? "The pattern: the task leaves one only, and both have it."
                : "The pattern: the task fixes the answers, not the attention "
                  "that finds them, and where there are several ways training "
                  "found another.");
  if (g->facts.layers > 1)
    say(&p,
        " Later layers read what the twin's own first ones wrote: there the "
        "patterns can be laid side by side, the weights cannot.");
  return need_copy(p.text);
}

int design_words(const designed *g, char *to[WORDS_MOST]) {
  if (!g->has_learned) return 0;
  paragraph p = {.used = 0};
  char way[64];
  int n = 0;
  say(&p,
      "The design runs with %s, its twin with softmax of what it learned; the "
      "design is right for %s of %llu inputs, the twin for %.2f %% of %llu "
      "answers, with a lead of at least %.2g and %.2g logits.",
      design_way_text(g->way, way), g->verdict.ok ? "all" : "not all",
      (unsigned long long)g->verdict.inputs, 100 * g->learned.accuracy,
      (unsigned long long)g->learned.places, g->verdict.margin, g->learned.margin);
  to[n++] = need_copy(p.text);
  for (int i = 0; i < g->facts.heads; i++) to[n++] = head_words(g, i);
  to[n++] = reasons(g);
  return n;
}
