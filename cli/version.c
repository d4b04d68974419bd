/* attend version: what this program is and what it would run on. */
#include <stdio.h>
#include <string.h>

#include "options.h"
#include "table.h"

static const option_part parts[] = {{option_rows_json, 0}, {option_rows_run, 0}, {0}};
static const verb_options verb_version = {
    parts, NULL,
    "The version, the instruction sets compiled in and which of them run here, the threads, the "
    "compiler.",
    NULL};

static const char *compiler(void) {
#if defined(__clang__)
  return "clang " __clang_version__;
#else
  return "gcc " __VERSION__;
#endif
}

static void list_isas(bool running, char *text, size_t size) {
  int runs;
  *text = 0;
  for (int i = 0; attend_isa_name(i, &runs); i++) {
    if (running && !runs) continue;
    size_t used = strlen(text);
    snprintf(text + used, size - used, "%s%s", used ? " " : "", attend_isa_name(i, &runs));
  }
}

static int print_json(attend_context *ctx, const char *compiled, const char *running) {
  static const column columns[] = {{"version", "version", CELL_TEXT},
                                   {"isa", "isa", CELL_TEXT},
                                   {"isas", "isas", CELL_TEXT},
                                   {"compiled", "compiled", CELL_TEXT},
                                   {"threads", "threads", CELL_COUNT},
                                   {"compiler", "compiler", CELL_TEXT},
                                   {NULL, NULL, CELL_TEXT}};
  table t = table_start(columns);
  table_add(&t, (cell[]){cell_text(attend_version()), cell_text(attend_context_isa(ctx)),
                         cell_text(running), cell_text(compiled),
                         cell_number(attend_context_threads(ctx)), cell_text(compiler())});
  return table_finish(&t, ctx, true);
}

int cmd_version(int argc, char **argv) {
  options o = {0};
  int code;
  char compiled[128], running[128];
  options_read(&verb_version, argc, argv, &o);
  attend_context *ctx = options_context(&o, NULL, &code);
  if (!ctx) return code;
  list_isas(false, compiled, sizeof compiled);
  list_isas(true, running, sizeof running);
  if (o.json) {
    code = print_json(ctx, compiled, running);
  } else {
    printf("attend %s\n", attend_version());
    printf("instruction set  %s (run here: %s; compiled in: %s)\n", attend_context_isa(ctx),
           running, compiled);
    printf("threads          %d\n", attend_context_threads(ctx));
    printf("compiler         %s\n", compiler());
    code = check_written(stdout, "the version");
  }
  attend_context_free(ctx);
  return code;
}
