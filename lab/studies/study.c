/* attend/study.h: the list of studies, their settings, and running one. */
#include <errno.h>
#include <stdlib.h>

#include "base/options.h"
#include "studies/report.h"

static const study_topic *const topics[] = {
    &study_scale,      &study_jacobian,     &study_argmax,  &study_heatmaps,
    &study_masks,      &study_positions,    &study_norms,   &study_receptive_field,
    &study_complexity, &study_decoding,     &study_kernels, &study_approximation,
    &study_causal,     &study_purification, &study_heads,
};
enum { TOPICS = sizeof topics / sizeof *topics };

const attend_study *attend_study_at(size_t index) {
  return index < TOPICS ? &topics[index]->about : NULL;
}

const attend_study *attend_study_find(const char *name) {
  for (size_t i = 0; i < TOPICS; i++)
    if (!strcmp(topics[i]->about.name, name)) return &topics[i]->about;
  return NULL;
}

/* ---- settings ------------------------------------------------------------------- */

static const setting_store *find(const study_run *r, const char *name) {
  const report_store *s = r->store;
  for (size_t i = 0; i < s->report.n_settings; i++)
    if (!strcmp(s->settings[i].name, name)) return &s->settings[i];
  return NULL;
}

const double *study_list(const study_run *r, const char *name, size_t *count) {
  const setting_store *s = find(r, name);
  *count = s ? s->count : 0;
  return s ? s->numbers : NULL;
}

double study_number(const study_run *r, const char *name) {
  size_t n;
  const double *list = study_list(r, name, &n);
  return n ? *list : NAN;
}

int study_count(const study_run *r, const char *name) { return (int)study_number(r, name); }

const char *study_text(const study_run *r, const char *name) {
  const setting_store *s = find(r, name);
  return s ? s->text : "";
}

static bool is_numbers(const attend_setting *s) {
  return s->kind == ATTEND_SETTING_NUMBERS || s->kind == ATTEND_SETTING_WHOLE;
}

/* One number of a list, which ends at a comma or at the end. */
static attend_status read_number(study_run *r, const attend_setting *s, const char **at,
                                 double *number) {
  char *end;
  *number = strtod(*at, &end);
  if (end == *at || (*end && *end != ',') || !(*number >= s->low && *number <= s->high) ||
      (s->kind == ATTEND_SETTING_WHOLE && *number != floor(*number)))
    return study_fail(r, ATTEND_INVALID,
                      "%s takes %s%s%s from %.10g to %.10g%s, and \"%.40s\" is "
                      "something else",
                      s->name, s->most > 1 ? "" : "a ",
                      s->kind == ATTEND_SETTING_WHOLE ? "whole " : "",
                      s->most > 1 ? "numbers" : "number", s->low, s->high,
                      s->most > 1 ? ", with commas between" : "", *at);
  *at = *end ? end + 1 : end;
  return ATTEND_OK;
}

static attend_status read_list(study_run *r, const attend_setting *s, setting_store *to) {
  const char *at = to->text;
  TAKE(r, &to->numbers, (size_t)s->most);
  do {
    if (to->count == (size_t)s->most)
      return study_fail(r, ATTEND_INVALID, "%s takes %d number%s at most: \"%.60s\" has more",
                        s->name, s->most, s->most == 1 ? "" : "s", to->text);
    TRY(read_number(r, s, &at, &to->numbers[to->count]));
    to->count++;
  } while (*at);
  return ATTEND_OK;
}

/* The caller's value, else the default; *shown: how reports print it. */
static const char *value_of(const study_run *r, const attend_setting *s, const char **shown) {
  const attend_study_options *o = r->options;
  *shown = NULL;
  for (size_t i = o->count; i-- > 0;) {
    if (strcmp(o->settings[i].name, s->name)) continue;
    if (o->shown) *shown = o->shown[i];
    return o->settings[i].value;
  }
  return o->quick && s->quick ? s->quick : s->value;
}

static attend_status check_names(study_run *r, const attend_study *study) {
  for (size_t i = 0; i < r->options->count; i++) {
    const char *name = r->options->settings[i].name;
    const attend_setting *s = study->settings;
    while (s->name && strcmp(s->name, name)) s++;
    if (!s->name)
      return study_fail(r, ATTEND_INVALID, "the study %s has no setting \"%s\"", study->name, name);
  }
  return ATTEND_OK;
}

static attend_status read_settings(study_run *r, const attend_study *study) {
  report_store *store = r->store;
  attend_setting_value *shown = NULL;
  size_t n = 0;
  while (study->settings[n].name) n++;
  TRY(check_names(r, study));
  TAKE(r, &store->settings, n);
  TAKE(r, &shown, n);
  for (size_t i = 0; i < n; i++) {
    const attend_setting *s = &study->settings[i];
    setting_store *to = &store->settings[i];
    const char *called, *value = value_of(r, s, &called);
    *to = (setting_store){.name = s->name, .text = study_format(r, "%s", value)};
    if (called) called = study_format(r, "%s", called);
    if (!to->text) return study_fail(r, ATTEND_NO_MEMORY, "no memory");
    if (is_numbers(s)) TRY(read_list(r, s, to));
    shown[i] = (attend_setting_value){s->name, called ? called : to->text};
  }
  store->report.settings = shown;
  store->report.n_settings = n;
  return ATTEND_OK;
}

/* ---- running ----------------------------------------------------------------------- */

attend_status study_step(study_run *r, double done) {
  if (!r->options->step || !r->options->step(done, r->options->user)) return ATTEND_OK;
  return study_fail(r, ATTEND_STOPPED, "the study was stopped");
}

void study_normal(const study_run *r, uint64_t what, uint64_t first, size_t n, float *out) {
  attend_random_normal((attend_random){r->seed, what}, first, n, out);
}

static const study_topic *topic_of(const attend_study *study) {
  for (size_t i = 0; i < TOPICS; i++)
    if (&topics[i]->about == study) return topics[i];
  return NULL;
}

attend_status attend_study_run(attend_context *ctx, const attend_study *study,
                               const attend_study_options *options, attend_report **report) {
  const study_topic *topic = topic_of(study);
  report_store *store = report_create();
  attend_study_options o;
  *report = (attend_report *)store;
  if (!store) return ATTEND_NO_MEMORY;
  attend_status status = OPTIONS_READ(ctx, attend_study_options, options, &o);
  study_run r = {ctx, o.seed, store, &o};
  store->report.study = study;
  store->report.seed = o.seed;
  if (!topic) return study_fail(&r, ATTEND_INVALID, "there is no such study");
  double begin = study_now();
  if (!status) status = read_settings(&r, study);
  if (!status) status = topic->run(&r);
  store->report.seconds = study_now() - begin;
  if (status && !store->report.message) study_fail(&r, status, "%s", attend_message(ctx));
  return status;
}
