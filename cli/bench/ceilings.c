/* The machine's ceilings, measured once and kept.
 *
 * Explain divides by them; `bench machine` measures them anew.
 *
 * The cache is a JSON array with one entry for each CPU, instruction set and
 * number of threads: a home folder may be shared between machines. It is
 * replaced whole, by renaming, so that a reader never sees half of one. What
 * cannot be read is as if it were not there.
 */
#include "bench/ceilings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "attend/file.h"
#include "attend/json.h"

enum { LONGEST = 1024, MOST_BYTES = 1 << 20 };

/* Where the cache is; "" without a home. */
static void ceilings_path(char *path, size_t size) {
  const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
  path[0] = 0;
  if (cache && cache[0] == '/')
    snprintf(path, size, "%s/attend/machine.json", cache);
  else if (home && *home)
    snprintf(path, size, "%s/.cache/attend/machine.json", home);
}

/* The name of the CPU, or "" where the system has none. */
static void cpu_name(char *name, size_t size) {
  char line[512];
  FILE *f = fopen("/proc/cpuinfo", "r");
  name[0] = 0;
  while (f && !name[0] && fgets(line, sizeof line, f)) {
    char *colon = strchr(line, ':');
    if (strncmp(line, "model name", 10) || !colon) continue;
    line[strcspn(line, "\n")] = 0;
    snprintf(name, size, "%s", colon + 1 + strspn(colon + 1, " "));
  }
  if (f) fclose(f);
}

/* ---- reading ------------------------------------------------------------------- */

static attend_json *read_cache(attend_context *ctx, const char *path) {
  attend_json *root = NULL;
  FILE *f = *path ? fopen(path, "r") : NULL;
  if (!f) return NULL;
  char *text = need(MOST_BYTES, 1);
  size_t length = fread(text, 1, MOST_BYTES, f);
  fclose(f);
  if (attend_json_parse(ctx, path, text, length, &root)) root = NULL;
  free(text);
  return root;
}

static const char *string_of(const attend_json *entry, const char *name) {
  const char *text = attend_json_string(attend_json_get(entry, name), NULL);
  return text ? text : "";
}

static double number_of(const attend_json *entry, const char *name) {
  return attend_json_number(attend_json_get(entry, name), 0);
}

static bool is_ours(attend_context *ctx, const attend_json *entry) {
  char cpu[256];
  cpu_name(cpu, sizeof cpu);
  return !strcmp(string_of(entry, "isa"), attend_context_isa(ctx)) &&
         number_of(entry, "threads") == attend_context_threads(ctx) &&
         !strcmp(string_of(entry, "cpu"), cpu);
}

static attend_machine machine_of(const attend_json *entry) {
  return (attend_machine){.threads = (int)number_of(entry, "threads"),
                          .flops_one = number_of(entry, "flops_one"),
                          .flops_all = number_of(entry, "flops_all"),
                          .read_one = number_of(entry, "read_one"),
                          .read_all = number_of(entry, "read_all")};
}

bool ceilings_find(attend_context *ctx, attend_machine *machine) {
  char path[LONGEST];
  ceilings_path(path, sizeof path);
  attend_json *root = read_cache(ctx, path);
  bool found = false;
  for (size_t n = 0; n < attend_json_count(root) && !found; n++) {
    const attend_json *entry = attend_json_at(root, n);
    *machine = machine_of(entry);
    found = is_ours(ctx, entry) && machine->flops_all > 0 && machine->read_all > 0;
  }
  attend_json_free(root);
  return found;
}

/* ---- writing ------------------------------------------------------------------- */

static void put_entry(attend_json_writer *w, const char *cpu, const char *isa,
                      const attend_machine *m) {
  attend_json_open(w, '{');
  attend_json_member(w, "cpu");
  attend_json_put_string(w, cpu);
  attend_json_member(w, "isa");
  attend_json_put_string(w, isa);
  attend_json_member(w, "threads");
  attend_json_put_integer(w, m->threads);
  attend_json_member(w, "flops_one");
  attend_json_put_number(w, m->flops_one);
  attend_json_member(w, "flops_all");
  attend_json_put_number(w, m->flops_all);
  attend_json_member(w, "read_one");
  attend_json_put_number(w, m->read_one);
  attend_json_member(w, "read_all");
  attend_json_put_number(w, m->read_all);
  attend_json_close(w, '}');
}

static attend_status write_cache(attend_context *ctx, const attend_json *old,
                                 const attend_machine *machine, FILE *f) {
  char cpu[256];
  attend_json_writer w = attend_json_writer_file(ctx, f);
  cpu_name(cpu, sizeof cpu);
  attend_json_indent(&w, true);
  attend_json_open(&w, '[');
  for (size_t n = 0; n < attend_json_count(old); n++) {
    const attend_json *entry = attend_json_at(old, n);
    attend_machine m = machine_of(entry);
    if (!is_ours(ctx, entry)) put_entry(&w, string_of(entry, "cpu"), string_of(entry, "isa"), &m);
  }
  put_entry(&w, cpu, attend_context_isa(ctx), machine);
  attend_json_close(&w, ']');
  return attend_json_finish(&w);
}

static void make_folders(const char *path) {
  char folder[LONGEST];
  for (const char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
    snprintf(folder, sizeof folder, "%.*s", (int)(slash - path), path);
    mkdir(folder, 0777); /* if it fails, so will opening the file */
  }
}

static bool keep(attend_context *ctx, const attend_machine *machine) {
  char path[LONGEST];
  attend_draft *draft;
  ceilings_path(path, sizeof path);
  if (!*path) return false;
  make_folders(path);
  if (attend_draft_open(ctx, path, &draft)) return false;
  attend_json *old = read_cache(ctx, path);
  bool ok = !write_cache(ctx, old, machine, attend_draft_file(draft));
  attend_json_free(old);
  if (ok) return !attend_draft_keep(draft);
  attend_draft_drop(draft);
  return false;
}

/* ---- the questions ------------------------------------------------------------- */

attend_status ceilings_measure(attend_context *ctx, attend_machine *machine, bool *kept) {
  attend_status status = attend_machine_measure(ctx, machine);
  *kept = !status && keep(ctx, machine);
  return status;
}

attend_status ceilings_get(attend_context *ctx, attend_machine *machine) {
  bool kept;
  if (ceilings_find(ctx, machine)) return ATTEND_OK;
  fprintf(stderr,
          "attend: measuring what this machine can do with %s on %d thread%s, "
          "once\n",
          attend_context_isa(ctx), attend_context_threads(ctx),
          attend_context_threads(ctx) == 1 ? "" : "s");
  return ceilings_measure(ctx, machine, &kept);
}

limit limit_of(const attend_machine *machine, double flops, double bytes) {
  limit l = {.arithmetic_s = flops / machine->flops_all, .memory_s = bytes / machine->read_all};
  bool arithmetic = l.arithmetic_s >= l.memory_s;
  l.bound = arithmetic ? "arithmetic" : "memory";
  l.predicted_s = arithmetic ? l.arithmetic_s : l.memory_s;
  return l;
}
