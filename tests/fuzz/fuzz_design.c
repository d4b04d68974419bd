/* Specs of designs: read, and what is taken is run on its example and checked. */
#include "attend/design.h"
#include "fuzz.h"

static void use(const attend_design *d) {
  attend_design_facts f = *attend_design_about(d);
  attend_design_variant cases[] = {{ATTEND_DESIGNED, 0}, {ATTEND_DESIGNED, 2}};
  attend_check_options few = {ATTEND_INIT(attend_check_options), .most_inputs = 32};
  attend_design_part p;
  size_t count, parts = 0;
  MUST(attend_design_weights(d, ATTEND_DESIGNED, &count));
  for (int i = 0; attend_design_part_get(d, i, &p); i++)
    parts += (size_t)p.rows * (size_t)p.columns;
  MUST(parts == count);
  for (int i = 0; i < f.features; i++) MUST(*attend_design_feature(d, i));
  for (int i = 0; i < 2; i++) {
    attend_design_run *run;
    attend_verdict v;
    MUST(!attend_design_run_create(d, cases[i], f.example, &run));
    MUST(attend_design_run_result(run)->length <= f.places);
    attend_design_run_free(run);
    if (!attend_design_check(d, cases[i], &few, &v)) MUST(v.inputs <= 32);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
  attend_context *ctx = fuzz_context(length);
  attend_design *d;
  size_t live = fuzz_live;
  attend_status status = attend_design_read(ctx, "it", (const char *)bytes, length, &d);
  MUST((status == ATTEND_OK) == (d != NULL));
  if (status) MUST(*attend_message(ctx));
  if (d) use(d);
  attend_design_free(d);
  MUST(fuzz_live == live);
  return 0;
}
