/* The words of states about predictions. */
#include <string.h>

#include "pictures/view.h"

static int word_at(const char *const *words, int n, const char *word) {
  for (int i = 0; i < n; i++)
    if (words[i] && !strcmp(words[i], word)) return i;
  return -1;
}

int view_kind_of(const char *change) {
  static const char *const words[] = {[ATTEND_CHANGE_ZERO] = "ablate",
                                      [ATTEND_CHANGE_MEAN] = "mean",
                                      [ATTEND_CHANGE_PATCH] = "patch"};
  return strcmp(change, "pin") ? word_at(words, 3, change) : ATTEND_CHANGE_ZERO;
}

int view_metric_of(const char *metric) {
  static const char *const words[] = {[ATTEND_METRIC_LOGIT] = "logit",
                                      [ATTEND_METRIC_PROBABILITY] = "probability",
                                      [ATTEND_METRIC_LOSS] = "loss",
                                      [ATTEND_METRIC_KL] = "kl",
                                      [ATTEND_METRIC_STATE] = "state"};
  return word_at(words, 5, metric);
}

int view_method_of(const char *method) {
  static const char *const words[] = {[ATTEND_VIEWER_BY_GRADIENT] = "gradient",
                                      [ATTEND_VIEWER_BY_INTEGRATED] = "integrated",
                                      [ATTEND_VIEWER_BY_ATTENTION] = "attention",
                                      [ATTEND_VIEWER_BY_DIRECT] = "direct"};
  return word_at(words, 4, method);
}

int view_point_of(const char *point) {
  static const attend_point points[] = {ATTEND_AT_RESIDUAL, ATTEND_AT_MLP, ATTEND_AT_HEAD_OUTPUT};
  for (int i = 0; i < 3; i++)
    if (!strcmp(attend_point_name(points[i]), point)) return (int)points[i];
  return -1;
}

attend_viewer_sweep_options view_sweep(const view_state *s, attend_role role, bool has_head) {
  const int kind = view_kind_of(s->change), point = view_point_of(s->point);
  const int metric = view_metric_of(s->metric);
  const bool from = kind == ATTEND_CHANGE_MEAN || kind == ATTEND_CHANGE_PATCH;
  attend_viewer_sweep_options o = {ATTEND_INIT(attend_viewer_sweep_options)};
  o.kind = kind < 0 ? ATTEND_CHANGE_ZERO : (attend_change_kind)kind;
  o.point = point < 0 ? ATTEND_AT_HEAD_OUTPUT : (attend_point)point;
  o.axis = o.point == ATTEND_AT_HEAD_OUTPUT ? ATTEND_SWEEP_HEADS : ATTEND_SWEEP_TOKENS;
  o.role = role;
  o.metric = !has_head    ? ATTEND_METRIC_STATE
             : metric < 0 ? ATTEND_METRIC_LOGIT
                          : (attend_metric_kind)metric;
  o.from = from ? s->c.from : NULL;
  o.target = view_target(s);
  return o;
}
