/* The eight maps of each head, designed and learned, as data of a picture. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "design/show.h"

typedef struct {
  const designed *g;
  design_maps *m;
  const char *const *features, *const *tokens, *const *answers;
} making;

static const char **names(design_maps *m, int n) {
  const char **list = need((size_t)n, sizeof *list);
  m->names[m->n_names++] = list;
  return list;
}

static const float *part(const designed *g, attend_twin twin, int i, int *columns) {
  attend_design_part p;
  attend_design_part_get(g->d, i, &p);
  *columns = p.columns;
  return attend_design_weights(g->d, twin, NULL) + p.at;
}

/* ---- names ---------------------------------------------------------------------------- */

static void name_axes(making *k) {
  const designed *g = k->g;
  attend_design_result r = attend_design_run_result(k->m->run[0]);
  const char **features = names(k->m, g->facts.features), **tokens = names(k->m, r.length),
             **answers = names(k->m, g->facts.answers);
  for (int i = 0; i < g->facts.features; i++) features[i] = attend_design_feature(g->d, i);
  for (int i = 0; i < r.length; i++) tokens[i] = attend_design_token(g->d, r.tokens[i]);
  for (int i = 0; i < g->facts.answers; i++) answers[i] = attend_design_answer(g->d, i);
  k->features = features;
  k->tokens = tokens;
  k->answers = answers;
}

static const char *const *column_names(making *k, int head, int dim) {
  const char **list = names(k->m, dim);
  for (int i = 0; i < dim; i++) {
    list[i] = attend_design_column(k->g->d, head, i);
    if (!*list[i]) list[i] = "·";
  }
  return list;
}

/* What the head's slot holds: "A" of "same=A", "depth". */
static const char *const *slot_names(making *k, const attend_design_head *h) {
  const char **list = names(k->m, h->dim_v);
  for (int i = 0; i < h->dim_v; i++) {
    list[i] = attend_design_feature(k->g->d, h->slot + i);
    const char *value = strchr(list[i], '=');
    if (value && value[1]) list[i] = value + 1;
  }
  return list;
}

/* ---- maps ------------------------------------------------------------------------------- */

static void head_maps(making *k, int index) {
  const designed *g = k->g;
  picture_design_head *to = &k->m->heads[index];
  attend_design_head h;
  attend_design_head_get(g->d, index, &h);
  int T = attend_design_run_result(k->m->run[0]).length, c;
  const char *const *columns = column_names(k, index, h.dim), *const *slot = slot_names(k, &h);
  snprintf(k->m->head_name[index], sizeof k->m->head_name[0], "layer %d, head \"%s\"", h.layer,
           h.name);
  *to = (picture_design_head){k->m->head_name[index], 8, 1 + g->has_learned, {{{0}}}};
  for (int t = 0; t < to->twins; t++) {
    attend_design_inside in = attend_design_run_head(k->m->run[t], index);
    const char *const *dims = t ? NULL : columns, *const *out = t ? NULL : slot;
    const float *qm = part(g, (attend_twin)t, 3 * index, &c),
                *km = part(g, (attend_twin)t, 3 * index + 1, &c),
                *vm = part(g, (attend_twin)t, 3 * index + 2, &c);
    picture_grid grids[8] = {{"Km", h.reads, h.dim, km, k->features, dims, false},
                             {"Qm", h.reads, h.dim, qm, k->features, dims, false},
                             {"Vm", h.reads, h.dim_v, vm, k->features, out, false},
                             {"K", T, h.dim, in.k, k->tokens, dims, false},
                             {"Q", T, h.dim, in.q, k->tokens, dims, false},
                             {"V", T, h.dim_v, in.v, k->tokens, out, false},
                             {"attention", T, T, in.attention, k->tokens, k->tokens, true},
                             {"output", T, h.dim_v, in.out, k->tokens, out, false}};
    memcpy(to->grid[t], grids, sizeof grids);
  }
}

static void readout_maps(making *k, int index) {
  const designed *g = k->g;
  picture_design_head *to = &k->m->heads[index];
  int T = attend_design_run_result(k->m->run[0]).length, c;
  *to = (picture_design_head){"readout", 2, 1 + g->has_learned, {{{0}}}};
  for (int t = 0; t < to->twins; t++) {
    attend_design_result r = attend_design_run_result(k->m->run[t]);
    picture_grid grids[2] = {
        {"Wo", g->facts.features, g->facts.answers, part(g, (attend_twin)t, 3 * g->facts.heads, &c),
         k->features, k->answers, false},
        {"logits", T, g->facts.answers, r.logits, k->tokens, k->answers, false}};
    memcpy(to->grid[t], grids, sizeof grids);
  }
}

int design_maps_make(const designed *g, const char *input, design_maps *m) {
  making k = {.g = g, .m = m};
  attend_way ways[2] = {g->way, {ATTEND_LEARNED, 1}};
  char way[64];
  *m = (design_maps){0};
  if (!input) input = g->facts.example;
  for (int t = 0; t <= g->has_learned; t++) {
    attend_status status = attend_design_run_create(g->d, ways[t], input, &m->run[t]);
    if (status) return complain_status(g->ctx, status);
  }
  name_axes(&k);
  for (int i = 0; i < g->facts.heads; i++) head_maps(&k, i);
  readout_maps(&k, g->facts.heads);
  snprintf(m->title, sizeof m->title, "%.40s on %.40s, %s%s", g->facts.name,
           *input ? input : "nothing", design_way_text(g->way, way),
           g->has_learned ? ": designed above learned" : "");
  m->data = (picture_design_data){.title = m->title,
                                  .sentences = (const char *const *)m->words,
                                  .head = m->heads,
                                  .heads = g->facts.heads + 1};
  m->data.n_sentences = design_words(g, m->words);
  return EXIT_OK;
}

void design_maps_free(design_maps *m) {
  for (int t = 0; t < ATTEND_TWINS; t++) attend_design_run_free(m->run[t]);
  for (int i = 0; i < m->n_names; i++) free(m->names[i]);
  for (int i = 0; i < WORDS_MOST; i++) free(m->words[i]);
}
