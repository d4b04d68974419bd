/* Runs, checks and trains a design as the options request. */
#include <stdlib.h>
#include <string.h>

#include "design/show.h"
#include "design/specs.h"
#include "progress.h"

static int step(uint64_t done, uint64_t total, void *user) {
  (void)total;
  (void)user;
  progress_step((size_t)done, "");
  return 0;
}

/* ---- opening ------------------------------------------------------------------------ */

static bool is_file(const char *name) {
  const char *dot = strrchr(name, '.');
  return strchr(name, '/') || (dot && (!strcmp(dot, ".json") || !strcmp(dot, ".safetensors")));
}

static int unknown(const char *name) {
  char list[200] = "";
  design_spec s;
  for (int i = 0; design_spec_get(i, &s); i++)
    snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s", i ? ", " : "", s.name);
  complain("there is no design \"%s\": name one of %s, or a file", name, list);
  return EXIT_USAGE;
}

int design_open(attend_context *ctx, const char *name, designed *g) {
  design_spec s;
  attend_status status;
  int i = 0;
  *g = (designed){.ctx = ctx};
  if (is_file(name)) {
    status = attend_design_open(ctx, name, &g->d);
  } else {
    while (design_spec_get(i, &s) && strcmp(s.name, name)) i++;
    if (!design_spec_get(i, &s)) return unknown(name);
    status = attend_design_read(ctx, name, s.text, s.length, &g->d);
  }
  if (status) return complain_status(ctx, status);
  g->facts = attend_design_about(g->d);
  g->seed = g->facts.seed;
  g->has_learned = attend_design_weights(g->d, ATTEND_LEARNED, NULL) != NULL;
  return EXIT_OK;
}

void design_close(designed *g) {
  attend_design_free(g->d);
  g->d = NULL;
}

/* ---- checking ------------------------------------------------------------------------- */

static attend_check_options check_options(const design_options *o) {
  return (attend_check_options){ATTEND_INIT(attend_check_options), .length = o->length,
                                .most_inputs = o->most_inputs, .progress = step};
}

static int check_way(designed *g, const design_options *o, attend_way way, attend_verdict *v) {
  attend_check_options c = check_options(o);
  char what[96];
  snprintf(what, sizeof what, "checking %s", g->facts.name);
  progress_start(what, (size_t)g->facts.inputs);
  attend_status status = attend_design_check(g->d, way, &c, v);
  progress_end();
  return status ? complain_status(g->ctx, status) : EXIT_OK;
}

int design_check(designed *g, const design_options *o) {
  g->way = (attend_way){ATTEND_DESIGNED, o->sharpness};
  return check_way(g, o, g->way, &g->verdict);
}

int design_least(designed *g, const design_options *o) {
  attend_check_options c = check_options(o);
  progress_start("looking for the least sharpness", (size_t)g->facts.inputs);
  attend_status status = attend_design_least(g->d, &c, &g->least);
  progress_end();
  g->has_least = !status;
  return status ? complain_status(g->ctx, status) : EXIT_OK;
}

int design_refuse(const designed *g) {
  const attend_verdict *v = &g->verdict;
  char way[64];
  complain(
      "\"%s\" is wrong with %s: for \"%s\" place %d should give \"%s\" "
      "and %s%s%s; %llu of %llu inputs fail",
      g->facts.name, design_way_text(g->way, way), v->input, v->place, v->expected,
      v->predicted ? "gives \"" : "is undecided", v->predicted ? v->predicted : "",
      v->predicted ? "\"" : "", (unsigned long long)v->wrong, (unsigned long long)v->inputs);
  return EXIT_FAILED;
}

/* ---- learning ---------------------------------------------------------------------------- */

static int study(designed *g, const design_options *o) {
  char what[96];
  attend_twin_options s = {
      ATTEND_INIT(attend_twin_options), .steps = o->steps,      .batch = o->batch, .rate = o->rate,
      .has_seed = o->has_seed,          .seed = o->common.seed, .progress = step};
  snprintf(what, sizeof what, "%s learns", g->facts.name);
  progress_start(what, (size_t)(o->steps ? o->steps : g->facts.steps));
  double from = seconds_now();
  attend_status status = attend_design_learn(g->d, &s, &g->curve);
  progress_end();
  g->seconds = seconds_now() - from;
  g->studied = g->has_learned = !status;
  if (o->has_seed) g->seed = o->common.seed;
  return status ? complain_status(g->ctx, status) : EXIT_OK;
}

int design_learn(designed *g, const design_options *o) {
  int code = o->learn ? study(g, o) : EXIT_OK;
  if (code || !g->has_learned) return code;
  code = check_way(g, o, (attend_way){ATTEND_LEARNED, 1}, &g->learned);
  for (int i = 0; i < g->facts.heads && !code; i++) {
    attend_status status = attend_design_compare(g->d, o->sharpness, i, &g->like[i]);
    if (status) code = complain_status(g->ctx, status);
  }
  return code;
}
