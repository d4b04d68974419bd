/* model.safetensors.index.json beside the configuration of a golden model and
 * two shards: its own weights as a.safetensors, another's as b.safetensors. */
#include "attend/model.h"
#include "fuzz.h"

static void put_link(const char *family, const char *file, const char *name) {
  char from[1100], here[1000];
  const char *golden = getenv("ATTEND_GOLDEN");
  MUST(golden && getcwd(here, sizeof here));
  snprintf(from, sizeof from, "%s%s%s/models/%s/%s", *golden == '/' ? "" : here,
           *golden == '/' ? "" : "/", golden, family, file);
  unlink(fuzz_path(name));
  MUST(!symlink(from, fuzz_path(name)));
  MUST(!access(fuzz_path(name), R_OK));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
  static int linked;
  attend_context *ctx = fuzz_context(length);
  attend_checkpoint *files;
  attend_parameter p;
  size_t live = fuzz_live;
  if (!linked++) {
    put_link("gpt2", "config.json", "config.json");
    put_link("gpt2", "model.safetensors", "a.safetensors");
    put_link("bert", "model.safetensors", "b.safetensors");
  }
  fuzz_file("model.safetensors.index.json", bytes, length);
  attend_status status = attend_checkpoint_open(ctx, fuzz_path("."), &files);
  MUST((status == ATTEND_OK) == (files != NULL));
  if (status) MUST(*attend_message(ctx));
  for (size_t i = 0; files && attend_checkpoint_get(files, i, &p); i++)
    MUST(p.tensor || strstr(p.name, "lm_head"));
  attend_checkpoint_free(files);
  MUST(fuzz_live == live);
  return 0;
}
