/* The machine's ceilings, kept in a file, and what they make of a cost.
 *
 * The file is a JSON array with one entry for each GPU, and each CPU, instruction set and number of
 * threads: a home folder may be shared between machines. What cannot be read is as if it
 * were not there.
 */
#include <stdio.h>

#include "attend/bench.h"
#include "attend/model.h"
#include "base/files.h"
#include "base/folders.h"

enum { CPU_NAME = 256 };

/* ---- kept ceilings ------------------------------------------------------------- */

static const struct {
  const char *name;
  size_t offset; /* of a double */
} rates[] = {{"flops_one", offsetof(attend_machine, flops_one)},
             {"flops_all", offsetof(attend_machine, flops_all)},
             {"read_one", offsetof(attend_machine, read_one)},
             {"read_all", offsetof(attend_machine, read_all)},
             {"flops_16", offsetof(attend_machine, flops_16)},
             {"exponentials", offsetof(attend_machine, exponentials)}};
enum { RATES = sizeof rates / sizeof *rates };

static double *rate_of(attend_machine *m, int i) {
  return (double *)(void *)((char *)m + rates[i].offset);
}

/* Beside the cache of npm packages. */
static attend_status cache_path(attend_context *ctx, char path[ATTEND_PATH_SIZE]) {
  ATTEND_TRY(attend_npm_home(ctx, path));
  size_t folder = strlen(path) - strlen("npm");
  snprintf(path + folder, ATTEND_PATH_SIZE - folder, "machine.json");
  return ATTEND_OK;
}

/* The name of the CPU, or "" where the system has none. */
static void cpu_name(char name[CPU_NAME]) {
  char line[512];
  FILE *f = fopen("/proc/cpuinfo", "r");
  name[0] = 0;
  while (f && !name[0] && fgets(line, sizeof line, f)) {
    char *colon = strchr(line, ':');
    if (strncmp(line, "model name", 10) || !colon) continue;
    line[strcspn(line, "\n")] = 0;
    snprintf(name, CPU_NAME, "%s", colon + 1 + strspn(colon + 1, " "));
  }
  if (f) fclose(f);
}

static attend_json *read_cache(attend_context *ctx, const char *path) {
  attend_json *root = NULL;
  char *text = NULL;
  size_t length;
  if (!file_read(ctx, path, &text, &length)) attend_json_parse(ctx, path, text, length, &root);
  ctx_free(ctx, text);
  return root;
}

static const char *member_text(const attend_json *entry, const char *name) {
  const char *text = attend_json_string(attend_json_get(entry, name), NULL);
  return text ? text : "";
}

static attend_machine read_entry(const attend_json *entry) {
  attend_machine m = {.threads = (int)attend_json_number(attend_json_get(entry, "threads"), 0)};
  for (int i = 0; i < RATES; i++)
    *rate_of(&m, i) = attend_json_number(attend_json_get(entry, rates[i].name), 0);
  return m;
}

static bool on_gpu(const attend_context *ctx) {
  const char *device = attend_context_device(ctx);
  return strcmp(device, "cpu") != 0 && strcmp(device, "trap") != 0;
}

/* What computes: a CPU, or a GPU with the instruction set "cuda". */
static const char *computes(const attend_context *ctx, char name[CPU_NAME]) {
  if (!on_gpu(ctx)) {
    cpu_name(name);
    return attend_context_isa(ctx);
  }
  snprintf(name, CPU_NAME, "%s", attend_context_device(ctx));
  return "cuda";
}

static bool is_ours(attend_context *ctx, const attend_json *entry) {
  char name[CPU_NAME];
  const char *isa = computes(ctx, name);
  return !strcmp(member_text(entry, "isa"), isa) && !strcmp(member_text(entry, "cpu"), name) &&
         (on_gpu(ctx) || read_entry(entry).threads == attend_context_threads(ctx));
}

bool attend_machine_load(attend_context *ctx, attend_machine *machine) {
  char path[ATTEND_PATH_SIZE];
  bool found = false;
  if (cache_path(ctx, path)) return false;
  attend_json *root = read_cache(ctx, path);
  for (size_t n = 0; n < attend_json_count(root) && !found; n++) {
    const attend_json *entry = attend_json_at(root, n);
    *machine = read_entry(entry);
    found = is_ours(ctx, entry) && machine->flops_all > 0 && machine->read_all > 0;
  }
  attend_json_free(root);
  return found;
}

static void put_entry(json_writer *w, const char *cpu, const char *isa, attend_machine m) {
  json_open(w, '{');
  json_member_string(w, "cpu", cpu);
  json_member_string(w, "isa", isa);
  json_member_integer(w, "threads", m.threads);
  for (int i = 0; i < RATES; i++) json_member_number(w, rates[i].name, *rate_of(&m, i));
  json_close(w, '}');
}

attend_status attend_machine_save(attend_context *ctx, const attend_machine *machine) {
  char path[ATTEND_PATH_SIZE], name[CPU_NAME];
  ATTEND_TRY(cache_path(ctx, path));
  ATTEND_TRY(folder_make_above(ctx, path));
  attend_json *old = read_cache(ctx, path);
  json_writer w = json_writer_text(ctx);
  const char *isa = computes(ctx, name);
  json_indent(&w, true);
  json_open(&w, '[');
  for (size_t n = 0; n < attend_json_count(old); n++) {
    const attend_json *entry = attend_json_at(old, n);
    if (!is_ours(ctx, entry))
      put_entry(&w, member_text(entry, "cpu"), member_text(entry, "isa"), read_entry(entry));
  }
  put_entry(&w, name, isa, *machine);
  json_close(&w, ']');
  attend_status status = json_finish(&w);
  if (!status) status = attend_file_write(ctx, path, w.text, w.length);
  json_writer_free(&w);
  attend_json_free(old);
  return status;
}

void attend_machine_limit(const attend_machine *machine, double flops, double bytes,
                          attend_limit *limit) {
  attend_limit l = {.arithmetic_s = flops / machine->flops_all,
                    .memory_s = bytes / machine->read_all};
  bool arithmetic = l.arithmetic_s >= l.memory_s;
  l.bound = arithmetic ? "arithmetic" : "memory";
  l.least_s = arithmetic ? l.arithmetic_s : l.memory_s;
  *limit = l;
}
