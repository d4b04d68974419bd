/* The built-in designs, and changed ones. */
#ifndef TESTS_DESIGN_FIXTURES_H
#define TESTS_DESIGN_FIXTURES_H

#include "attend/design.h"
#include "attention_fixtures.h"

static const char *const shipped[] = {"content",   "position", "unique",  "previous",
                                      "induction", "sort",     "brackets"};
enum { SHIPPED = sizeof shipped / sizeof *shipped };

static inline attend_design *open_design(attend_context *ctx, const char *name) {
  char path[256];
  attend_design *d;
  snprintf(path, sizeof path, "models/designs/%s.json", name);
  if (attend_design_open(ctx, path, &d)) {
    printf("%s\n", attend_message(ctx));
    exit(1);
  }
  return d;
}

/* The spec of a shipped design with every `from` replaced. */
static inline char *changed(attend_context *ctx, const char *name, const char *from,
                            const char *to) {
  attend_design *d = open_design(ctx, name);
  const char *spec = attend_design_about(d)->spec, *at;
  char *out = zeroed_block(strlen(spec) * 4 + 1024, 1), *end = out;
  if (!strstr(spec, from)) CHECK_FAIL("%s does not have %s", name, from);
  while ((at = strstr(spec, from))) {
    end += sprintf(end, "%.*s%s", (int)(at - spec), spec, to);
    spec = at + strlen(from);
  }
  strcpy(end, spec);
  attend_design_free(d);
  return out;
}

static inline attend_verdict check_at(const attend_design *d, attend_context *ctx, attend_twin twin,
                                      double sharpness) {
  attend_verdict v = {0};
  attend_design_variant way = {twin, sharpness};
  OK(ctx, attend_design_check(d, way, NULL, &v));
  return v;
}

#endif
