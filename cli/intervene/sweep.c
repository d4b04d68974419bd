/* attend intervene --sweep: one change at every layer and head, or layer and token, as a heat map.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "folders.h"
#include "intervene/intervene.h"
#include "progress.h"
#include "table.h"
#include "view/view.h"

enum { STRONGEST = 5, NAME = 32, TITLE = 512 };

typedef struct {
  const intervene_run *r;
  attend_sweep_options how;
  int layers, columns;
  double *map, before; /* [layers][columns] */
  float *change;       /* the same minus `before` */
  char **rows, **names;
  char title[TITLE], caption[2 * TITLE], what[TITLE];
} sweep;

/* ---- what is swept ---------------------------------------------------------------------------- */

static attend_metric_kind metric_of(const intervene_run *r) {
  if (r->o->metric) return (attend_metric_kind)(r->o->metric - 1);
  return r->head ? ATTEND_METRIC_LOGIT : ATTEND_METRIC_STATE;
}

/* Without --mode a sweep over tokens with another text is causal tracing: it patches. */
static attend_change_kind kind_of(const intervene_run *r) {
  const bool traces = r->o->sweep == SWEEP_TOKENS && r->changes.from.tokens.n && !r->o->mode;
  return traces ? ATTEND_CHANGE_PATCH : kind_of_mode(r->o->mode);
}

static int choose_change(sweep *s) {
  const intervene_run *r = s->r;
  const bool heads = r->o->sweep == SWEEP_HEADS;
  char place[64];
  const char *point = r->o->point ? r->o->point : heads ? "head_output" : "residual";
  snprintf(place, sizeof place, "%.40s:0", point);
  attend_status status = attend_change_parse(r->m->ctx, kind_of(r), place, &s->how.change);
  if (status) {
    complain(
        "--point %s: choose residual, residual_middle, mlp, query, key, value, pattern or "
        "head_output, with encoder:, decoder: or cross: before it where that is unclear",
        point);
    return EXIT_USAGE;
  }
  change_sources(&r->changes, &s->how.change);
  return EXIT_OK;
}

static int show_progress(double done, const char *what, void *user) {
  return progress_report(done, what, user);
}

static int compute(sweep *s) {
  const intervene_run *r = s->r;
  s->how.axis = r->o->sweep == SWEEP_HEADS ? ATTEND_SWEEP_HEADS : ATTEND_SWEEP_TOKENS;
  s->how.metric =
      (attend_metric){ATTEND_INIT(attend_metric), .kind = metric_of(r), .target = r->target};
  s->how.batch = r->o->batch;
  s->how.progress = show_progress;
  attend_status status =
      attend_sweep_shape(r->m->model, &r->text.tokens, &s->how, &s->layers, &s->columns);
  if (status) return complain_status(r->m->ctx, status);
  size_t n = (size_t)s->layers * (size_t)s->columns;
  s->map = need(n, sizeof *s->map);
  s->change = need(n, sizeof *s->change);
  interrupt_watch();
  progress_start("sweep", 1);
  status = attend_sweep(r->m->model, &r->text.tokens, &s->how, s->map, &s->before);
  progress_end();
  if (status) return is_interrupted() ? EXIT_INTERRUPTED : complain_status(r->m->ctx, status);
  for (size_t i = 0; i < n; i++) s->change[i] = (float)(s->map[i] - s->before);
  return EXIT_OK;
}

/* ---- its names ------------------------------------------------------------------------------------ */

/* The residual stream is named by the layer that wrote it. */
static char **layer_names(const sweep *s) {
  const bool stream = s->how.change.point == ATTEND_AT_RESIDUAL;
  char **list = need((size_t)s->layers, sizeof *list), text[NAME];
  for (int i = 0; i < s->layers; i++) {
    snprintf(text, sizeof text, "%d", i - stream);
    list[i] = need_copy(stream && !i ? "in" : text);
  }
  return list;
}

static char **column_names(const sweep *s) {
  const attend_tokens *x = &s->r->text.tokens;
  const bool decoder = x->decoder_ids && s->how.change.in != ATTEND_IN_ENCODER;
  if (s->how.axis == ATTEND_SWEEP_TOKENS && s->columns == (decoder ? x->n_decoder : x->n))
    return token_labels(s->r->m, decoder ? x->decoder_ids : x->ids, s->columns);
  char **list = need((size_t)s->columns, sizeof *list), text[NAME];
  for (int i = 0; i < s->columns; i++) {
    snprintf(text, sizeof text, "%d", i);
    list[i] = need_copy(text);
  }
  return list;
}

static const char *verb_of(attend_change_kind kind) {
  return kind == ATTEND_CHANGE_PATCH  ? "patched from the other text"
         : kind == ATTEND_CHANGE_MEAN ? "set to its mean over the corpus"
                                      : "set to zero";
}

static const char *point_words(attend_point point) {
  switch (point) {
    case ATTEND_AT_RESIDUAL:
      return "residual stream";
    case ATTEND_AT_RESIDUAL_MIDDLE:
      return "residual stream before the mlp";
    case ATTEND_AT_HEAD_OUTPUT:
      return "head output";
    case ATTEND_AT_PATTERN:
      return "attention pattern";
    default:
      return attend_point_name(point);
  }
}

/* Metrics that compare with the run without changes. */
static bool starts_at_zero(attend_metric_kind kind) {
  return kind == ATTEND_METRIC_KL || kind == ATTEND_METRIC_STATE;
}

static void say_what(sweep *s) {
  const intervene_run *r = s->r;
  static const char *const metrics[] = {"logit", "probability", "loss", "KL divergence",
                                        "hidden states"};
  const attend_metric_kind kind = metric_of(r);
  char *token = r->head ? token_label(r->m, r->target.token) : NULL;
  char *other = r->target.against >= 0 && r->head ? token_label(r->m, r->target.against) : NULL;
  const bool of_token = kind == ATTEND_METRIC_LOGIT || kind == ATTEND_METRIC_PROBABILITY;
  snprintf(s->what, sizeof s->what, "change of the %s", metrics[kind]);
  size_t length = strlen(s->what);
  if (of_token) snprintf(s->what + length, sizeof s->what - length, " of “%.60s”", token);
  length = strlen(s->what);
  if (other && kind == ATTEND_METRIC_LOGIT)
    snprintf(s->what + length, sizeof s->what - length, " minus “%.60s”", other);
  const char *axis = s->how.axis == ATTEND_SWEEP_HEADS ? "head" : "token";
  snprintf(s->title, sizeof s->title, "%.80s: %s by layer and %s", r->m->name, metrics[kind], axis);
  snprintf(s->caption, sizeof s->caption,
           "Each cell: the %.300s when the %s of that layer and %s alone is %s.", s->what,
           point_words(s->how.change.point), axis, verb_of(s->how.change.kind));
  length = strlen(s->caption);
  if (!starts_at_zero(kind))
    snprintf(s->caption + length, sizeof s->caption - length, " Without changes the %s is %.4g.",
             metrics[kind], s->before);
  free(token);
  free(other);
}

/* ---- output --------------------------------------------------------------------------------------- */

static picture_map_data picture_of(const sweep *s) {
  return (picture_map_data){.title = s->title,
                            .caption = s->caption,
                            .row_axis = "layer",
                            .column_axis = s->how.axis == ATTEND_SWEEP_HEADS ? "head" : "token",
                            .what = s->what,
                            .rows = {(const char *const *)s->rows, s->layers},
                            .columns = {(const char *const *)s->names, s->columns},
                            .cells = s->change,
                            .is_signed = !starts_at_zero(metric_of(s->r))};
}

static void put_numbers(json_writer *w, const char *name, const sweep *s) {
  json_member(w, name);
  json_open(w, '[');
  for (int i = 0; i < s->layers; i++) {
    json_open(w, '[');
    for (int j = 0; j < s->columns; j++) json_put_number(w, s->map[i * s->columns + j]);
    json_close(w, ']');
  }
  json_close(w, ']');
}

static void put_json(json_writer *w, const sweep *s) {
  static const char *const metrics[] = {"logit", "probability", "loss", "kl", "state"};
  const intervene_run *r = s->r;
  json_open(w, '{');
  json_member_string(w, "model", r->m->name);
  json_member_string(w, "axis", s->how.axis == ATTEND_SWEEP_HEADS ? "heads" : "tokens");
  json_member_string(w, "point", attend_point_name(s->how.change.point));
  json_member_string(w, "metric", metrics[metric_of(r)]);
  if (r->head) {
    json_member_integer(w, "position", r->target.position);
    json_member_integer(w, "target", r->target.token);
    if (r->target.against >= 0) json_member_integer(w, "against", r->target.against);
  }
  score_put_names(w, "layers", s->rows, s->layers);
  score_put_names(w, "columns", s->names, s->columns);
  json_member_number(w, "before", s->before);
  put_numbers(w, "map", s);
  json_close(w, '}');
}

static int write_json(const sweep *s, const char *path) {
  json_writer w = json_writer_text(s->r->m->ctx);
  put_json(&w, s);
  attend_status status = json_finish(&w);
  int code = status ? complain_status(s->r->m->ctx, status)
                    : view_write_bytes(s->r->m->ctx, path, w.text, w.length);
  json_writer_free(&w);
  return code;
}

/* The places with the largest changes. */
static int print_strongest(const sweep *s) {
  const bool heads = s->how.axis == ATTEND_SWEEP_HEADS;
  const column columns[] = {{"layer", "layer", CELL_TEXT},
                            {"column", heads ? "head" : "token", CELL_TEXT},
                            {"change", "change", CELL_PLAIN},
                            {NULL, NULL, CELL_TEXT}};
  const int n = s->layers * s->columns;
  table t = table_start(columns);
  float *size = need((size_t)n, sizeof *size);
  int32_t best[STRONGEST];
  for (int i = 0; i < n; i++) size[i] = fabsf(s->change[i]);
  int count = attend_top_k(n, size, STRONGEST, best);
  for (int i = 0; i < count; i++)
    table_add(&t, (cell[]){cell_text(s->rows[best[i] / s->columns]),
                           cell_text(s->names[best[i] % s->columns]),
                           cell_number((double)s->change[best[i]])});
  free(size);
  printf("\nlargest changes");
  if (!starts_at_zero(metric_of(s->r))) printf(", from %.4g", s->before);
  putchar('\n');
  int code = table_print(&t, stdout);
  table_free(&t);
  return code;
}

static int put_out(const sweep *s) {
  const picture_map_data picture = picture_of(s);
  const score_output *out = &s->r->o->out;
  int code = EXIT_OK;
  if (out->path && !strcmp(path_ending(out->path), "json"))
    code = write_json(s, out->path);
  else if (out->path)
    code = score_write(s->r->m->ctx, out, &picture, NULL);
  if (code) return code;
  if (s->r->o->common.json) return write_json(s, "-");
  terminal_look look = terminal_look_of(stdout);
  terminal_map(stdout, &picture, &look);
  code = print_strongest(s);
  return code ? code : check_written(stdout, "the map");
}

int intervene_sweep(intervene_run *r) {
  sweep s = {.r = r, .how = {ATTEND_INIT(attend_sweep_options)}};
  int code = choose_change(&s);
  if (!code) code = compute(&s);
  if (!code) {
    s.rows = layer_names(&s);
    s.names = column_names(&s);
    say_what(&s);
    code = put_out(&s);
    token_labels_free(s.rows, s.layers);
    token_labels_free(s.names, s.columns);
  }
  free(s.map);
  free(s.change);
  return code;
}
