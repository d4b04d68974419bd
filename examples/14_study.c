/* A study from C, with sizes of your own: its claims, and one of its plots as a file.
 *
 *   cc 14_study.c $(pkg-config --cflags --libs attend-lab) && ./a.out
 *
 * After 13_design.c; `attend study` prints the same reports.
 */
#include <stdio.h>
#include <stdlib.h>

#include <attend/attend.h>
#include <attend/study.h>

static int fail(const char *why) {
  fprintf(stderr, "%s\n", why);
  return 1;
}

/* Predictions of formulas beside measurements. */
static int print_claims(const attend_report *report) {
  int wrong = 0;
  for (size_t i = 0; i < report->n_claims; i++) {
    const attend_study_claim *c = &report->claims[i];
    printf("%-42s predicted %7.4g, measured %7.4g\n", c->text, c->expected, c->measured);
    wrong += !c->holds;
  }
  return wrong;
}

static attend_status save_plot(attend_context *ctx, const attend_report *report, const char *path) {
  for (size_t i = 0; i < report->n_blocks; i++)
    if (report->blocks[i].kind == ATTEND_BLOCK_FIGURE)
      return attend_plot_save(ctx, &report->blocks[i].figure->plot, path);
  return ATTEND_OK;
}

int main(void) {
  const attend_setting_value sizes[] = {{"d", "16,64"}, {"samples", "2000"}};
  attend_study_options how = {ATTEND_INIT(attend_study_options), .seed = 1, .count = 2,
                              .settings = sizes};
  attend_report *report;
  attend_context *ctx;
  if (attend_context_create(NULL, &ctx)) return fail(attend_message(ctx));
  if (attend_study_run(ctx, attend_study_find("scale"), &how, &report))
    return fail(report ? report->message : "there is no memory left");

  printf("%s\n\n", report->study->title);
  int wrong = print_claims(report);
  if (save_plot(ctx, report, "/dev/null")) return fail(attend_message(ctx));
  printf("\n%zu predictions, %d refuted\n", report->n_claims, wrong);

  attend_report_free(report);
  attend_context_free(ctx);
  return wrong > 0;
}
